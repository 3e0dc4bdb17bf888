"""Exercise 13-dead-channels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Rng,
    Seen,
    Witness,
    came_through,
    exercise,
    expect,
    fill_grads,
    laid_out,
    nothing_changed,
    paired,
    prepared,
)
from graders.lesson_13_broken_runs.judging import Run, walk
from graders.lesson_13_broken_runs.shared import build, in_eval, pooled

RELU = ("relu", "own relu")
ROLES = {
    "first": ("dead", "dead", "rare", "rare", "alive", "tiny"),
    "again": ("dead", "rare", "dead", "alive", "rare", "dead"),
    "inside": ("dead", "rare", "tiny", "alive", "dead", "rare"),
    "modal": ("rare", "dead", "alive", "dead", "tiny", "rare"),
    "pooled": ("tiny", "alive", "rare", "dead", "rare", "dead"),
    "sound": ("rare", "tiny", "alive", "rare", "alive", "tiny"),
}
"""What becomes of the channels in a call of a ReLU. A rare one is above 0 at its largest input alone."""


def site(rng: Rng, hs: list[Tensor], roles: list[str], shift: Tensor, upright: bool = False) -> list[Any]:
    """The spec of a layer whose channels, after `shift` was added to its output, have these roles in a ReLU.

    `hs` are its inputs in all batches. With `upright` no channel changes its sign.
    """
    weights, biases = [], []
    for channel, role in enumerate(roles):
        weight = rng.choice((0.5, 1.0, 2.0)) * (1 if upright else rng.choice((-1, 1)))
        inputs = torch.cat([weight * h.select(1, channel).flatten() for h in hs])
        above = {"dead": -rng.choice((0.0, 0.25, 2.0)), "alive": rng.uniform(1, 3)}.get(role, 0.125)
        unit = 1.0
        if role == "tiny" and not shift[channel]:
            unit = 2.0 ** (-100 if inputs.dtype == torch.float32 else -600)  # whose square is 0
        bias = (above - inputs.max().item()) * unit - shift[channel].item()
        weights.append(weight * unit)
        biases.append(bias)
    return ["scale", *(torch.tensor(values, dtype=hs[0].dtype) for values in (weights, biases))]


def outputs_of(net: dict[str, Any], batches: list[Tensor]) -> list[dict[str, list[Tensor]]]:
    """For each batch, the outputs of each ReLU by name, in the order of its calls."""
    found = []
    for batch in batches:
        run = Run(net["spec"], net["evaluating"], replaced=replacements(net))
        run(batch)
        by_name: dict[str, list[Tensor]] = {}
        for call in run.calls:
            if call.kind in RELU:
                by_name.setdefault(call.name, []).append(call.outputs[0].detach())
        found.append(by_name)
    return found


def replacements(net: dict[str, Any]) -> dict[str, Callable[[Tensor], Tensor]]:
    """What the caller's hooks that replace make of outputs, by module."""
    return {name: lambda out, channels=channels: swapped(out, *channels) for name, channels in net["swaps"].items()}


def swapped(out: Tensor, revived: int, silenced: int) -> Tensor:
    """An output in which one channel is above 0 and another one is 0."""
    out = out.clone()
    out[:, revived], out[:, silenced] = 1.0, 0.0
    return out


def zero_channels(outputs: list[Tensor], among: Callable[[Tensor], Tensor] = lambda out: out) -> list[int]:
    """The channels that are 0 everywhere in what is left `among` these outputs."""
    zero = [(among(out).transpose(0, 1).flatten(1) == 0).all(1) for out in outputs]
    return [int(channel) for channel in torch.stack(zero).all(0).nonzero()]


def report(found: list[dict[str, list[Tensor]]], find: Callable[[list[Tensor]], list[int]]) -> dict[str, list[int]]:
    """What `find` finds in all outputs of each ReLU, where it finds something."""
    names = {name for by_name in found for name in by_name}
    each = {name: find([out for by_name in found for out in by_name.get(name, [])]) for name in names}
    return {name: channels for name, channels in each.items() if channels}


def dead(net: dict[str, Any], batches: list[Tensor]) -> dict[str, list[int]]:
    """The right answer."""
    return report(outputs_of(net, batches), zero_channels)


def variant(
    how: str, net: dict[str, Any], batches: list[Tensor], found: list[dict[str, list[Tensor]]]
) -> dict[str, list[int]]:
    """The answer of one who makes a certain mistake, where `found` is what `outputs_of` tells."""
    if how == "last batch":
        return report(found[-1:], zero_channels)
    if how == "first batch":
        return report(found[:1], zero_channels)
    if how == "last call":
        return report([{name: outs[-1:] for name, outs in by_name.items()} for by_name in found], zero_channels)
    if how == "first call":
        return report([{name: outs[:1] for name, outs in by_name.items()} for by_name in found], zero_channels)
    if how == "first input":
        return report(found, lambda outs: zero_channels(outs, lambda out: out[:1]))
    if how == "last of all":
        return report([{name: outs[-1:] for name, outs in by_name.items()} for by_name in found[-1:]], zero_channels)
    if how == "some zero":
        return report(found, lambda outs: sorted({c for out in outs for c in some_zero(out)}))
    if how == "some batch":
        return report(found, lambda outs: sorted({c for out in outs for c in zero_channels([out])}))
    if how == "nearly zero":
        return report(found, lambda outs: zero_channels(outs, lambda out: (out > 1e-6).to(out)))
    if how in ("training", "evaluating"):
        names = [name for name, _ in walk(net["spec"])]
        return dead({**net, "evaluating": names if how == "evaluating" else []}, batches)
    if how == "subclasses":
        own = {name for name, spec in walk(net["spec"]) if spec[0] == "own relu"}
        return {name: channels for name, channels in dead(net, batches).items() if name not in own}
    if how == "alive":
        return report(found, lambda outs: [c for c in range(outs[0].shape[1]) if c not in zero_channels(outs)])
    if how == "before the caller's hook":
        return dead({**net, "swaps": {}}, batches)
    raise KeyError(how)


def some_zero(out: Tensor) -> list[int]:
    """The channels with a 0 somewhere."""
    return [int(channel) for channel in (out.transpose(0, 1).flatten(1) == 0).any(1).nonzero()]


def answers(how: str) -> Callable[..., Any]:
    """A recogniser of the answer of one who makes a certain mistake."""

    def recognise(seen: Seen, net: dict[str, Any], batches: list[Tensor]) -> Any:
        if not batches:
            return SILENT
        found = outputs_of(net, batches)
        mistaken = variant(how, net, batches, found)
        return SILENT if mistaken == report(found, zero_channels) else seen["result"].value == mistaken

    return recognise


@exercise(
    "13-dead-channels",
    points=2,
    minutes=25,
    difficulty=2,
    core=True,
    title="Find the channels of a ReLU that never fire",
    hints=(
        "A forward hook on each `nn.ReLU` sees what it outputs (lesson 5). Register one on each entry of "
        "`named_modules()` that is an instance of it, and bind the name (lesson 5, too).",
        "`output.transpose(0, 1).flatten(1)` has one row for each channel, for 2 dimensions and for 5 (lesson 9). "
        "`(rows != 0).any(1)` is one truth value for each channel: did it fire in this call?",
        "A channel is dead when it fires in no call of no batch: join the truth values of all calls with `|`. Look at "
        "the numbers in the hook itself, since the next layer may rewrite them in place (lesson 5), and remove all "
        "hooks in `finally` (lesson 11).",
    ),
    why=(
        "The hook looks at each output before a later layer can overwrite it, and keeps only one truth value for each "
        "channel. A set of the channels that have been 0 so far, cut down at each call, would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (2, 3, 4), "layout": ALL, "place": ALL, "grad": ALL, "collection": ALL, "mode": ALL,
            "output": ALL, "follower": ALL, "passing": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL,
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "values": "the numbers are exact, so that a 0 is one",
            "number": "no number is an argument",
            "named": "no module is named",
            "frozen": "parameters are not looked at",
            "tied": "parameters are not looked at",
            "registered": "a module that is called and not registered is in every net",
            "layers": "only ReLUs count; other layers are in every net",
            "backward": "it runs no backward pass",
        },
        own={"five": (False, True), "net_is": ("broken", "sound", "a relu"), "fails_at": ("start", "end")},
        impossible=[
            lambda collection, net_is: collection == "empty" and net_is != "sound",
            lambda collection, net_is: collection == "one" and net_is == "broken",
            lambda collection, net_is: collection == "repeated" and net_is == "a relu",
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda hooks, hooked: hooks == "replacing" and hooked == "parameter",
            lambda five, rank: five and rank != 4,
            lambda five, layout: five and layout == "transposed",
            lambda net_is, output: net_is == "a relu" and output != "tensor",
            lambda net_is, passing: net_is == "a relu" and passing != "position",
            lambda net_is, follower: net_is == "a relu" and follower != "plain",
            lambda net_is, hooked: net_is == "a relu" and hooked != "root",
            lambda net_is, mode: net_is == "a relu" and mode == "mixed",
            lambda net_is, hooks: net_is == "sound" and hooks == "replacing",
        ],
        pairs=[("collection", "net_is"), ("net_is", "rank"), ("net_is", "mode"), ("hooks", "mode")],
    ),
)  # fmt: skip
class TestDeadChannels:
    """Write `dead_channels(model, batches)`. Run the model on each tensor in the list `batches`. Return a dict: for
    each `nn.ReLU` with a dead channel, its name and an ascending list of its dead channels, as `int`s.

    A channel is **dead** when everything in it is exactly 0, in every call of that module, for every batch. Channels
    lie along dimension 1 of the output, which has 2 to 5 dimensions.

    - Subclasses of `nn.ReLU` count as well. Other modules and functions do not, such as `nn.ReLU6` or `torch.relu`.
    - A ReLU may be called several times in one run. One that is never called is not in the dict, nor is one that is not
      in `model.named_modules()`. The model may be a ReLU itself; its name is then `""`.
    - Sizes other than the number of channels may differ from call to call. `batches` may be empty, but no tensor is.
      What leaves a ReLU is never negative, and never NaN.

    **Example.** For `nn.Sequential(nn.ReLU())` and the batches `[torch.tensor([[-1., 2., 0.]]),
    torch.tensor([[0., -3., -4.]])]` the result is `{"0": [0, 2]}`: channel 1 fires in the first batch.
    """

    def draw(rng, dtype, rank, five, layout, collection, mode, output, follower, hooks, hooked, net_is):
        channels, count = 6, {"empty": 0, "one": 1, "many": 3, "repeated": 3}[collection]
        space = 3 if five else rank - 2
        shapes = [[rng.integer(2, 3), channels, *[rng.integer(2, 3) for _ in range(space)]] for _ in range(3)]
        drawn = [
            rng.tensor(*shape, dtype=dtype, layout=layout if index == 0 else "contiguous")
            for index, shape in enumerate(shapes)
        ]
        own = drawn[: 2 if collection == "repeated" else max(count, 1)]
        for channel in range(channels):
            stand_out(rng, own[channel % len(own)], channel, layout == "expanded")
        batches = [drawn[0], drawn[1], drawn[0]] if collection == "repeated" else drawn[:count]
        again = [rng.tensor(2, channels, *shapes[0][2:], dtype=dtype)]
        net = {"spec": ["relu"], "evaluating": [""] if mode == "eval" else [], "swaps": {}}
        if net_is == "a relu":
            batches = [with_dead_channels(rng, batch) for batch in batches]
        else:
            net = make_net(rng, own, net_is, mode, output, follower)
            if hooks == "replacing" and hooked == "named":
                relus = [name for name, spec in walk(net["spec"]) if spec[0] in RELU]
                found = dead(net, drawn)
                name = rng.choice([name for name in relus if len(found.get(name, [])) in (1, 2, 3)])
                net["swaps"] = {name: [found[name][0], next(c for c in range(channels) if c not in found[name])]}
        return {"net": net, "batches": batches, "again": again}

    def alive(net, batches, net_is, hooks, hooked):
        found = outputs_of(net, batches)
        right = report(found, zero_channels)
        if net_is == "sound" and batches:
            return right == {}
        if len(batches) < 2 or net_is == "a relu":
            return net_is != "a relu" or not batches or right != {}
        told = ["last batch", "first batch", "last call", "first call", "first input", "last of all", "some zero",
                "some batch", "nearly zero", "subclasses", "alive"]  # fmt: skip
        told += ["before the caller's hook"] if net["swaps"] else []
        wrong = {how: variant(how, net, batches, found) for how in told}
        confused = ("last batch", "last call", "last of all", "some batch")
        return (
            len(right) >= 3
            and right not in wrong.values()
            and all(wrong[a] != wrong[b] for a in confused for b in confused if a < b)
        )

    def probe(
        student, net, batches, again, layout, place, grad, collection, passing, hooks, hooked, call, grad_mode,
        failure, failing_run, fails_at,
    ):  # fmt: skip
        two = [torch.tensor([[-1.0, 2.0, 0.0]]), torch.tensor([[0.0, -3.0, -4.0]])]
        witness = Witness(batches=two)
        example = student.dead_channels(nn.Sequential(nn.ReLU()), two)  # here the very first call of a hook counts
        changed_first = witness.changes()
        model, callers, started = in_eval(build(net["spec"], passing), net["evaluating"]), CallersHooks(hooks), []
        if grad == "filled":
            fill_grads(model)
        if hooked == "root":
            callers.on_module(model, "model") if not net["swaps"] else None
        elif hooked == "parameter":
            for name, parameter in model.named_parameters():
                callers.on_parameter(parameter, name)
        elif hooks == "watching":
            for name, module in model.named_modules():
                if isinstance(module, nn.ReLU):
                    callers.on_module(module, name)
        for name, (revived, silenced) in net["swaps"].items():
            model.get_submodule(name).register_forward_hook(
                lambda module, args, out, pair=(revived, silenced): swapped(out, *pair)
            )
        model.register_forward_pre_hook(lambda module, args: started.append(tuple(args[0].shape)))
        given = [prepared(batches[0], layout=layout, place=place, grad=grad)] if batches else []
        given += [laid_out(batch, "contiguous") for batch in batches[1:]]
        if collection == "repeated":
            given[2] = given[0]
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, batches=given)
            seen = {"result": student.dead_channels(model, given), "runs": list(started)}
            seen["changed"] = changed_first + witness.changes()
            if call == "again":
                seen["again"] = student.dead_channels(model, again)
            elif call == "in turn":
                other = in_eval(build(net["spec"], passing), net["evaluating"])
                seen["another model"] = student.dead_channels(other, again)
            failing = Failure(failure, failing_run)
            broken = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
            if fails_at == "start":
                broken[0].register_forward_pre_hook(failing.strike)
            else:
                broken[1].register_forward_hook(failing.strike)
            two = [torch.ones(2, 3), -torch.ones(2, 3)]
            witness = Witness(model=broken, batches=two)
            seen["failure"] = failing.during(lambda: student.dead_channels(broken, two))
            seen["changed by the failure"] = witness.changes()
        inner: list[Any] = []
        meanwhile = Meanwhile(
            lambda: inner.append(student.dead_channels(nn.Sequential(nn.ReLU()), [torch.tensor([[1.0, -1.0, 1.0]])])),
            nn.ReLU(), nn.ReLU6(),
        )  # fmt: skip
        two = [torch.tensor([[-1.0, 2.0, -3.0]]), torch.tensor([[1.0, 2.0, -3.0]])]
        seen["in a call"] = [student.dead_channels(meanwhile, two), *inner]
        counted, runs = nn.Sequential(nn.ReLU()).eval(), []
        counted.register_forward_pre_hook(lambda module, args: runs.append(1))
        rare = torch.tensor([[1e-45, torch.inf, -1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        rare = rare.view(3, 3, 1, 1).repeat(1, 1, 2, 3).transpose(2, 3)
        seen["rare numbers"] = student.dead_channels(counted, [rare, torch.zeros(3, 3, 3, 2), torch.zeros(3, 3, 3, 2)])
        seen["runs with equal shapes"] = len(runs)
        return {**seen, "example": example}

    mistakes = (
        Mistake(
            "last-batch-only",
            answers("last batch"),
            "You listed the channels that are 0 in the last batch. A channel is dead when it is 0 in all batches: join "
            "what you see in each call with what you saw before.",
        ),
        Mistake(
            "first-batch-only",
            answers("first batch"),
            "You listed the channels that are 0 in the first batch. A channel is dead when it is 0 in all batches.",
        ),
        Mistake(
            "only-last-call",
            answers("last call"),
            "A ReLU may be called several times in one run, and you kept only its last call of each run. A channel "
            "that fires in an earlier call is not dead.",
        ),
        Mistake(
            "only-first-call",
            answers("first call"),
            "A ReLU may be called several times in one run, and you looked only at its first call of each run. A "
            "channel that fires in a later call is not dead.",
        ),
        Mistake(
            "last-call-of-all",
            answers("last of all"),
            "You listed the channels that are 0 in the last call of the last batch: each call overwrote what you knew "
            "of the ones before. Join the calls.",
        ),
        Mistake(
            "first-input-only",
            answers("first input"),
            "You looked at the first input of each batch only. A channel is dead when it is 0 for all of them.",
        ),
        Mistake(
            "some-zero",
            answers("some zero"),
            "You listed each channel that is 0 somewhere. A dead channel is 0 everywhere: `all`, not `any`.",
        ),
        Mistake(
            "dead-in-some-call",
            answers("some batch"),
            "You listed each channel that is 0 in one whole call. A dead channel is 0 in all calls of all batches.",
        ),
        Mistake(
            "nearly-zero",
            answers("nearly zero"),
            "A channel with very small numbers is not dead: something still comes through, and its gradient is not 0. "
            "Compare with 0 itself, in the dtype of the output.",
        ),
        Mistake(
            "in-eval-mode",
            answers("evaluating"),
            "You put the model into eval mode, and there other channels are 0. Leave each part in its mode.",
        ),
        Mistake(
            "relus-left-out",  # the one that lies in another module is of a subclass
            answers("subclasses"),
            "A ReLU is missing that lies in another module, and is of a subclass of `nn.ReLU`. `named_modules()` has "
            "modules of every depth, `named_children()` does not. Ask with `isinstance(module, nn.ReLU)`.",
        ),
        Mistake(
            "listed-the-living",
            answers("alive"),
            "You listed the channels that fire. The others are asked for.",
        ),
        Mistake(
            "before-the-callers-hook",
            answers("before the caller's hook"),
            "A hook of the caller replaces the output of a ReLU, and you looked at it before that. What counts is what "
            "the next layer gets: register your hook without `prepend=True`.",
        ),
        Mistake(
            "looked-too-late",
            lambda seen, net, batches: (
                SILENT
                if not overwritten(net) & dead(net, batches).keys()
                else seen["result"].value
                == {name: found for name, found in dead(net, batches).items() if name not in overwritten(net)}
            ),
            "A later layer works in place on what a ReLU returned, and where you look its zeros are gone. Look in the "
            "hook, while the output is as it left the module, or keep a copy.",
        ),
        Mistake(
            "empty-lists",
            lambda seen, net, batches: (
                type(seen["result"].value) is dict
                and [] in seen["result"].value.values()
                and {name: found for name, found in seen["result"].value.items() if found} == dead(net, batches)
                if batches and seen["result"].value != dead(net, batches)
                else SILENT
            ),
            "Modules without dead channels are in your dict, with an empty list. Leave them out.",
        ),
    )

    def test_the_dead_channels_are_found(seen, net, batches, again, call):
        same(seen["result"], dead(net, batches))
        if call == "again":
            same(seen["again"], dead(net, again))
        elif call == "in turn":
            same(seen["another model"], dead({**net, "swaps": {}}, again))

    def test_a_call_inside_a_call_changes_nothing(seen):
        for found, (channels, whose) in paired(
            seen["in a call"], (([2], "outer"), ([1], "first inner"), ([1], "second inner"))
        ):
            same(Seen(found.value, f"the result of the {whose} call"), {"0": channels})

    def test_each_batch_runs_once(seen, batches):
        expect(seen["runs"]).equals([tuple(batch.shape) for batch in batches])
        expect(seen["runs with equal shapes"]).equals(3)

    def test_a_tiny_number_is_not_0_and_an_infinite_one_neither(seen):
        same(seen["rare numbers"], {"0": [2]})

    def test_exceptions_come_through(seen):
        came_through(seen["failure"], "the model")

    def test_everything_else_is_as_it_was(seen):
        nothing_changed(seen["changed"])
        nothing_changed(seen["changed by the failure"], when="after an exception")

    def test_the_example_comes_out(seen):
        same(seen["example"], {"0": [0, 2]})


def overwritten(net: dict[str, Any]) -> set[str]:
    """The names of the ReLUs whose output the next step of the model changes in place."""
    steps = net["spec"][2] if net["spec"][0] == "chain" else []
    return {name for (what, name), (then, _) in pairwise(steps) if what == "call" and then == "add in-place"}


def same(seen: Seen, expected: dict[str, list[int]]) -> None:
    """The result is this dict, with lists of `int`s."""
    expect(seen).has_keys(*expected)
    for name, channels in expected.items():
        expect(seen[name]).equals(channels)


def stand_out(rng: Rng, batch: Tensor, channel: int, everywhere: bool) -> None:
    """Write the largest number of all batches and the smallest one into this channel, not into the first input.

    Where the inputs have to be equal, into all of them.
    """
    entries = batch[0, channel].numel()
    places = rng.shuffled(list(range(entries))) if entries > 1 else [0, 0]
    rows = batch[:, channel].reshape(len(batch), entries)
    for place, number, row in zip(places, (8.0, -8.0), (-1, -1 if entries > 1 else 0)):
        rows[slice(None) if everywhere else row, place] = number
    batch[:, channel] = rows.view_as(batch[:, channel])


def with_dead_channels(rng: Rng, batch: Tensor) -> Tensor:
    """The same numbers, and none above 0 in the first channel and another one."""
    batch = batch.clone()
    for channel in (0, rng.integer(2, batch.shape[1] - 1)):
        batch[:, channel] = -batch[:, channel].abs()
    return batch


def make_net(rng: Rng, batches: list[Tensor], net_is: str, mode: str, output: str, follower: str) -> dict[str, Any]:
    """A model with ReLUs in many places: called twice, nested, of a subclass, under two names, never called."""
    names = rng.names(14)
    first, act, block, inside, inner, again, modal, before, after, last, head, tail, idle, fake = names
    channels, dtype = batches[0].shape[1], batches[0].dtype
    evaluating_modal = mode == "eval" or (mode == "mixed" and rng.choice((True, False)))
    order = rng.shuffled(list(range(channels)))
    shift = torch.tensor([64.0 if role == "dead" else -64.0 for role in ROLES["modal"]], dtype=dtype)[order]
    none, follow = torch.zeros(channels, dtype=dtype), ["add in-place" if follower == "in-place" else "add", 0.5]

    def layer(where: str, shift: Tensor = none, upright: bool = False) -> list[Any]:
        roles = ROLES["sound" if net_is == "sound" else where]
        inputs = [pooled(batch) for batch in batches] if upright else batches
        return site(rng, inputs, [roles[channel] for channel in order], shift, upright)

    specs = {name: layer(where) for name, where in ((first, "first"), (again, "again"))}
    specs[before] = layer("modal", shift if evaluating_modal else none)
    specs[last] = layer("pooled", upright=True)
    within = {inside: layer("inside")}
    in_place, outer_in_place = rng.shuffled([True, False])
    within[inner] = ["own relu", in_place]
    specs |= {
        act: ["relu", outer_in_place], block: ["chain", within, [["call", inside], ["call", inner]], output],
        modal: ["modal", shift], after: ["relu"], head: ["relu"], tail: ["same", head], idle: ["relu"],
        fake: ["lookalike"],
    }  # fmt: skip
    restart = ["restart", None]
    steps = [
        ["call", first], ["call", act], follow, restart, ["call", block], restart, ["call", again], ["call", act],
        follow, restart, ["call", before], ["call", modal], ["call", after], restart, ["pool", None], ["call", last],
        ["call", tail], ["call", fake], follow, ["relu", None], ["hidden", None],
    ]  # fmt: skip
    placed = [key for key in rng.shuffled(list(specs)) if key != tail]
    spec = ["chain", {key: specs[key] for key in [*placed, tail]}, steps, output]
    leaves = [name for name, node in walk(spec) if node[0] not in ("chain", "modal")]
    evaluating = {"train": [], "eval": [name for name, _ in walk(spec)], "mixed": leaves[::2]}[mode]
    if mode == "mixed" and evaluating_modal:
        evaluating.append(modal)
    return {"spec": spec, "evaluating": evaluating, "swaps": {}}
