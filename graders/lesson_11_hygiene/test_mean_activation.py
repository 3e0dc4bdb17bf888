"""Exercise 11-mean-activation."""

from __future__ import annotations

import contextlib
import gc
import math
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    Circumstances,
    Failure,
    Kind,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    apart,
    came_through,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    refuse,
)
from graders.lesson_11_hygiene.judging import (
    BEFORE_THE_CALLERS_HOOK,
    Call,
    Run,
    chain,
    in_eval_mode,
    of_kind,
    scrambled,
    walk,
)
from graders.lesson_11_hygiene.shared import goes_on, made, steps_of

# 11-mean-activation: tensors that the graph saved are watched from outside.


class Saved:
    """Stands for one tensor that the graph saved; it lives as long as the graph needs it."""

    def __init__(self, tensor: Tensor) -> None:
        """Hold the values, in case somebody runs backward."""
        self.tensor = tensor.detach()


class SavedTensors:
    """Counts the tensors that the graph saved, and those that are still alive."""

    def __init__(self) -> None:
        """Nothing is saved yet."""
        self.refs: list[weakref.ref[Saved]] = []
        self.collections = 0

    def pack(self, tensor: Tensor) -> Saved:
        """Called when the graph saves a tensor."""
        saved = Saved(tensor)
        self.refs.append(weakref.ref(saved))
        return saved

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """The context in which saved tensors are counted.

        No garbage is collected in it, so that all that is made there stays young: to collect that alone is quick.
        """
        enabled, self.collections = gc.isenabled(), full_collections()
        gc.disable()
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.pack, lambda saved: saved.tensor):
                yield
        finally:
            if enabled:
                gc.enable()

    def alive(self) -> int:
        """How many are alive when garbage has been collected: all of it, where somebody else did so meanwhile."""
        if any(ref() is not None for ref in self.refs):
            gc.collect(0 if full_collections() == self.collections else 2)
        return sum(ref() is not None for ref in self.refs)


def full_collections() -> int:
    """How often the garbage of all generations has been collected so far."""
    return gc.get_stats()[-1]["collections"]


def graph_of(value: Any) -> list[str]:
    """The names of the first nodes of the graph behind a value, nearest first."""
    names, queue = [], [getattr(value, "grad_fn", None)]
    while queue and len(names) < 12:
        node = queue.pop(0)
        if node is not None:
            names.append(type(node).__name__)
            queue += [following for following, _ in node.next_functions]
    return names


HALF = torch.tensor([[7.0, 6.0], [5.0, 4.0]], dtype=torch.float16) * 8192
"""An output in float16 whose sum is too large for its dtype."""

NOT_FINITE = ([1.0, math.inf], [1.0, -math.inf], [math.inf, -math.inf], [1.0, math.nan])
"""The entries of outputs that are not all finite."""


@exercise(
    "11-mean-activation",
    points=1,
    minutes=15,
    difficulty=1,
    core=True,
    title="A statistic that keeps no graph",
    hints=(
        "The mean of a tensor with a graph has a graph, too: one number that holds the whole forward pass. "
        "Detach first: `output.detach().mean()`.",
        "Take the mean inside the hook, while the output is as it left the module, and store nothing else: not the "
        "output, not a clone of it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    why=(
        "Detached, the mean is one number that keeps nothing else alive; it is taken in the hook, before a later layer "
        "can overwrite the output in place. Running the model under `torch.no_grad()` would do as well: then there is "
        "no graph to keep."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "values": ALL,
            "mode": ALL, "frozen": ALL, "named": ("first", "last", "nested"), "output": ALL, "follower": ALL,
            "passing": ALL, "registered": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL,
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "layers": "a mean does not ask what made its numbers",
            "backward": "it runs no backward pass",
        },
        own={"x_is": ("data", "prepared")},
        pairs=[("hooks", "hooked"), ("mode", "named")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda x_is, place: x_is == "data" and place != "leaf",
        ],
    ),
)  # fmt: skip
class TestMeanActivation:
    """Write `mean_activation(model, name, x)`. `model` is an `nn.Module`, and `name` is the name of one of its
    submodules in `model.named_modules()`, for example `"stem.0"`, but not `""`, the model itself. Run the model, and
    return the mean over all entries of what this submodule returned.

    - The submodule is called once. Its output is a tensor of floating-point numbers with at least one entry. Other
      parts of the model, and the model itself, may return anything.
    - The result is a 0-dim tensor with the dtype of the output, `float16` included: there the sum of the entries may be
      too large for the dtype where their mean is not. NaN and infinite entries count as in `output.mean()`.
    - After the call, nothing keeps the graph of the forward pass alive: neither the result, nor anything that you
      stored elsewhere, such as in a list.
    - The model goes on with the output itself.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `mean_activation(model, "1", x)` returns `tensor(1.)`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(
        rng, dtype, rank, layout, values, mode, frozen, grad, named, output, follower, passing, registered, hooks,
        hooked,
    ):  # fmt: skip
        first, behind_first, act, modal, secret, body, target, behind, inner, last, behind_last = rng.names(11)
        name = {"first": first, "nested": f"{body}.{target}", "last": last}[named]

        def affine() -> list[Any]:
            numbers = [rng.tensor(low=-1.5, high=1.5, away=0.5, dtype=dtype, values=values) for _ in range(2)]
            return ["affine", *numbers]

        def follow() -> list[Any]:
            by = torch.tensor(-0.5, dtype=getattr(torch, dtype))
            return ["layer", "divide_", by] if follower == "in-place" else ["layer", "tanh"]

        counting = ["counting"]
        inside = {target: counting if named == "nested" else affine(), behind: follow(), inner: ["modal"]}
        order = [target, behind, inner]
        hidden = {} if registered == "yes" else {secret: affine()}
        children = {
            first: affine(),
            behind_first: follow(),
            act: ["layer", "tanh"],
            modal: ["modal"],
            body: chain(scrambled(rng, inside, order), order, output=output, passing=passing),
            last: chain({inner: counting if named == "last" else affine()}, [inner]),
            behind_last: follow(),
            **({secret: affine()} if registered == "yes" else {}),
        }
        order = [first, behind_first, act, secret, modal, body, last, behind_last]
        namesake = affine()
        for part in reversed(name.split(".")):
            namesake = chain({part: namesake}, [part])
        like = f"{name.partition('.')[0]}_"  # defined first: its name begins as the one asked for, and a part ends so
        children = {like: namesake, **scrambled(rng, children, order)}
        order.insert(2, like)
        spec = chain(children, order, output=output, passing=passing, hidden=hidden)
        places = {"root": [""], "named": [name], "parameter": []}[hooked]
        return {
            "net": {
                "spec": spec,
                "evaluating": in_eval_mode(rng, spec, mode),
                "frozen": frozen,
                "grad": grad,
                "hooks": hooks,
                "watched": [] if hooks == "none" else places,
                "parameters": hooked == "parameter",
            },
            "name": name,
            "namesake": f"{like}.{name}",
            "breaks": body if named == "first" else modal,
            "x": rng.tensor(*rng.shape(rank), dtype=dtype, values=values, layout=layout),
            "later": rng.tensor(*rng.shape(rank), dtype=dtype, values=values, layout=layout),
            "tiny": rng.tensor(2, 3, low=0.5, dtype=dtype) * 2.0**-30,
        }

    def alive(net, name, namesake, x, later, named, follower, mode):
        call = called(net, name, x)
        others = [
            overwritten(net, name, x),
            called(net, namesake, x).output,
            call.inputs[0],
            called(net, name, later).output,
        ]
        if mode == "train" and named != "first":
            others.append(called({**net, "evaluating": [name for name, _ in walk(net["spec"])]}, name, x).output)
        if net["hooks"] == "replacing" and name in net["watched"]:
            others.append(call.own)
        means = [value.mean() for value in (call.output, *others)]
        return all(apart(means[0], other) for other in means[1:])

    def oracle(net, name, x, later):
        return [[called(net, name, t, run).output.mean() for run in (1, 2)] for t in (x, later)]

    def probe(
        student, net, name, x, later, tiny, breaks, layout, place, grad, x_is, call, grad_mode, failure, failing_run,
    ):  # fmt: skip
        if x_is == "data":
            x, later = laid_out(x, layout), laid_out(later, layout)
        else:
            x, later = (prepared(t, layout=layout, place=place, grad=grad) for t in (x, later))
        (model, callers), saved, started = made(net), SavedTensors(), []
        model.register_forward_pre_hook(lambda module, args: started.append(args[0] is x))
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x)
            with saved.watching():
                result = student.mean_activation(model, name, x)
            seen = {"alive": saved.alive(), "graph": graph_of(result), "result": result, "calls": len(started)}
            seen |= {"with x": all(started), "runs": model.runs, "fired": list(callers.log), "steps": steps_of(model)}
            seen["changed"] = witness.changes()
            if call != "once":
                seen["later"] = student.mean_activation(model if call == "again" else made(net)[0], name, later)
            failing, broken = Failure(failure, failing_run), made(net)[0]
            broken.get_submodule(breaks).register_forward_pre_hook(failing.strike)
            witness = Witness(model=broken, x=x)
            seen["failure"] = failing.during(lambda: [student.mean_activation(broken, name, t) for t in (x, later)])
            seen["changed by failure"] = witness.changes()
            seen["afterwards"] = student.mean_activation(made(net)[0], name, x)
        seen["goes on"] = goes_on(lambda *args: student.mean_activation(*args))
        for key, output in (("half", HALF), ("tiny", tiny)):
            seen[key] = student.mean_activation(nn.Sequential(nn.Identity()), "0", output.clone())
        identity = nn.Sequential(nn.Identity())
        seen["not finite"] = [student.mean_activation(identity, "0", torch.tensor(entries)) for entries in NOT_FINITE]
        dropping = nn.Sequential(nn.Dropout(1.0), nn.Identity()).eval()
        dropping[0].train()
        seen["dropped"] = student.mean_activation(dropping, "0", torch.ones(2))
        meanwhile = Meanwhile(lambda: None, nn.Identity(), nn.Tanh())
        meanwhile.other = lambda: seen.update(
            inner=student.mean_activation(nn.Sequential(nn.Identity()), "0", torch.full((2,), 5.0))
        )
        seen["outer"] = student.mean_activation(meanwhile, "0", torch.full((2,), 3.0))
        example = nn.Sequential(nn.Flatten(), nn.ReLU())
        return {**seen, "example": student.mean_activation(example, "1", torch.tensor([[-1.0, 2.0]]))}

    mistakes = (
        Mistake(
            "graph-kept-alive",
            lambda seen: seen["alive"].value > 0 and has_graph(seen) and "CloneBackward0" not in seen["graph"].value,
            "Your mean still has its graph, and the graph holds the tensors that the forward pass saved. `cpu()` does "
            "not help: on the CPU it is the same tensor. Detach before you take the mean: `output.detach().mean()`.",
        ),
        Mistake(
            "clone-keeps-graph",
            lambda seen: seen["alive"].value > 0 and has_graph(seen) and "CloneBackward0" in seen["graph"].value,
            "`clone()` copies the values, but the copy is a part of the graph like the original and keeps the graph "
            "alive. `clone()` and `cpu()` do not detach: write `output.detach()`.",
        ),
        Mistake(
            "stored-the-output",
            lambda seen: (
                seen["alive"].value > 0 and not has_graph(seen) and not changes(seen["changed"], "hook-left *")
            ),
            "The result has no graph, but a tensor that has one is still stored somewhere: in a list, in a global "
            "variable, on the model. It keeps the whole forward pass alive. Store only the detached mean.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, name, x, follower: (
                close(seen["result"], overwritten(net, name, x).mean()) if follower == "in-place" else SILENT
            ),
            "You took the mean when the model was done. By then a later in-place layer had rewritten the output. "
            "Take the mean inside the hook.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, name, x: close(seen["result"], called(net, name, x).inputs[0].mean()),
            "You took the mean of the module's input. The task asks for its `output`. (`args` may be empty, too: "
            "somebody may call the module with `module(input=x)`.)",
            raises="tuple index out of range",
        ),
        Mistake(
            "number-not-tensor",
            lambda seen, net, name, x: (
                type(seen["result"].value) is float and close(seen["result"], called(net, name, x).output.mean())
            ),
            "You returned a Python number. It keeps no graph, but the task asks for a 0-dim tensor: return "
            "`output.detach().mean()`.",
        ),
        Mistake(
            "a-namesake",
            lambda seen, net, x, namesake: close(seen["result"], called(net, namesake, x).output.mean()),
            "You took the mean of another module, whose name only begins or ends as the one asked for. Compare whole "
            "names, or call `model.get_submodule(name)`.",
        ),
        Mistake(
            "sum-too-large",
            lambda seen: seen["half"].tensor is not None and bool(seen["half"].tensor.isinf().all()),
            "The sum of the entries is too large for float16, and became infinite, though the mean is not. "
            "`output.mean()` adds up in a wider dtype.",
        ),
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, name, x: (
                net["hooks"] == "replacing"
                and name in net["watched"]
                and close(seen["result"], called(net, name, x).own.mean())
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
        Mistake(
            "changed-the-mode",
            lambda seen, net: seen["runs"].value == 1 and seen["steps"].value != steps(net),
            "You switched the model to another mode, with `eval()` or `train()`. Run the model in the mode in which "
            "you got it, and leave it so.",
        ),
        Mistake(
            "ran-twice",
            lambda seen: seen["calls"].value > 1,
            "You ran the model more than once. A layer such as dropout gives another output each time: one run is "
            "asked for, and one is enough.",
        ),
        Mistake("hook-left-behind", lambda seen: bool(changes(seen["changed"], "hook-left *"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-left *") and bool(changes(seen["changed by failure"], "hook-left *"))
            ),
        ),
    )

    def test_the_mean_of_the_output_is_returned(seen, net, name, x, later, tiny, call):
        a_mean(seen["result"], called(net, name, x).output)
        a_mean(seen["afterwards"], called(net, name, x).output)
        expect(seen["tiny"]).close_to(tiny.mean(), atol=0, detached=False)
        if call != "once":
            a_mean(seen["later"], called(net, name, later, run=1 + (call == "again")).output)

    def test_it_has_the_dtype_of_the_output(seen):
        a_mean(seen["half"], HALF)

    def test_nan_and_infinity_are_entries(seen):
        for found, entries in paired(seen["not finite"], NOT_FINITE):
            mean = torch.tensor(entries).mean()
            if not mean.isnan():
                of_entries = Seen(found.value, f"for an output of {entries}, the mean")
                expect(of_entries).close_to(mean, detached=False)
            elif found.tensor is None or not found.tensor.isnan().all():
                refuse(f"for an output of {entries}, the mean is not NaN")

    def test_the_submodule_runs_in_its_mode(seen):
        dropped = Seen(
            seen["dropped"].value, "for `nn.Dropout(1.0)` in training mode, in a model in eval mode, the mean"
        )
        expect(dropped).close_to(torch.tensor(0.0), detached=False)

    def test_a_call_inside_a_call_has_a_mean_of_its_own(seen):
        a_mean(seen["inner"], torch.tensor(5.0))
        a_mean(seen["outer"], torch.tensor(3.0))

    def test_nothing_keeps_the_graph_alive(seen):
        if has_graph(seen):
            refuse("the result still has a graph; detach it", Kind.GRAPH)
        if seen["alive"].value:
            refuse(f"after the call, {seen['alive'].value} tensors that the graph saved still exist")

    def test_the_model_runs_once_as_it_is(seen, net):
        if (seen["calls"].value, seen["runs"].value) != (1, 1):
            refuse(
                f"the model should be called exactly once, as `model(x)`: calls: {seen['calls'].value}, runs of its "
                f"`forward`: {seen['runs'].value}"
            )
        expect(seen["with x"]).is_true("the model got another tensor than `x`")
        for name, count in steps(net).items():
            if seen["steps"][name].value != count:
                refuse(
                    f"`{name}` counts its runs in training mode: in one whole run of this model {count}, and here "
                    f"{seen['steps'][name].value}"
                )
        fired = [event.value for event in seen["fired"]]
        for name in net["watched"]:
            if fired.count(f"forward {name}") != 1:
                refuse(
                    f"a forward hook of the caller on {f'`{name}`' if name else 'the model itself'} did not fire once"
                )

    def test_the_model_goes_on_with_the_output_itself(seen):
        expect(seen["goes on"]).is_true("the next layer got another tensor than the submodule returned")

    def test_nothing_of_the_caller_changes(seen):
        nothing_changed(seen["changed"], but=["buffer *"])

    def test_it_holds_when_the_model_raises(seen):
        came_through(seen["failure"], "the model")
        nothing_changed(seen["changed by failure"], but=["buffer *"], when="after an exception")

    def test_the_example_comes_out(seen):
        a_mean(seen["example"], torch.ones(1))


def a_mean(seen: Seen, output: Tensor) -> None:
    """The mean of an output as a 0-dim tensor; a model in float32 rounds in each layer."""
    if output.dtype == torch.float64:
        expect(seen).close_to(output.mean(), detached=False)
    else:
        expect(seen).close_to(output.mean(), rtol=1e-4, atol=1e-4, detached=False)


def has_graph(seen: Seen) -> bool:
    """Whether the result of the first call requires grad."""
    return getattr(seen["result"].value, "requires_grad", False) is True


def called(net: dict[str, Any], name: str, x: Tensor, run: int = 1) -> Call:
    """The one call of a module in the first run of a model, or in the second."""
    return next(call for call in calls_of(net, x, run) if call.name == name)


def calls_of(net: dict[str, Any], x: Tensor, run: int = 1) -> list[Call]:
    """All calls of a run."""
    watched = net["watched"] if net["hooks"] == "replacing" else []
    return Run(net["evaluating"], {name: lambda y: FACTOR * y for name in watched}, run).trace(net["spec"], x)


def overwritten(net: dict[str, Any], name: str, x: Tensor) -> Tensor:
    """What the layer behind the module makes of its output."""
    calls = calls_of(net, x)
    return calls[[call.name for call in calls].index(name) + 1].output


def steps(net: dict[str, Any]) -> dict[str, int]:
    """How often each layer that counts runs in training mode."""
    return {name: int(name not in net["evaluating"]) for name in of_kind(net["spec"], "modal")}
