"""Exercise 06-ablate-channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    all_came_through,
    came_through,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
    prepared,
)
from graders.lesson_06_changing_the_forward.judging import (
    BEFORE_OTHER_HOOKS,
    CALLED_FORWARD,
    CHANGED_CALLERS_TENSOR,
    FOUR_DIMENSIONS,
    IN_PLACE,
    RAN_IN_EVAL,
    REMOVED_OTHERS,
    all_different,
    composed,
    counted,
    drawn_net,
    hooks_of,
    some_channels,
    the_others,
    then,
    through_alike,
    transposed,
    written,
)
from graders.lesson_06_changing_the_forward.shared import (
    ALIKE,
    PLACES,
    Doubling,
    ShowsItsMode,
    Viewed,
    alike,
    dotted,
    failures_at_the_end,
    hooks_on,
    is_nan,
    two_path,
)

INF, NAN = float("inf"), float("nan")
INFINITE = [[INF, 2.0, NAN, -INF]] * 3
"""Channels 0 and 2 are switched off, the others stay what they are."""


class Halved(nn.Module):
    """A model with whole numbers in the middle."""

    def __init__(self, note: Any) -> None:
        """`note` is called with the dtype of the numbers, as they came out of `whole`."""
        super().__init__()
        self.whole, self.note = nn.Identity(), note

    def forward(self, x: Tensor) -> Tensor:
        """Half of the input."""
        h: Tensor = self.whole(x)
        self.note(str(h.dtype))
        return h / 2


@exercise(
    "06-ablate-channels",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Switch channels off",
    hints=(
        "In a forward hook: clone the output, set the channels to 0 in the clone, return the clone.",
        "Channels are dimension 1: `clone[:, channels] = 0` works for any number of dimensions, and for no channels.",
        "Clean up: `with layer.register_forward_hook(hook):` removes the hook also when the model raises.",
    ),
    why=(
        "The hook writes zeros into a copy, so the layer's own output stays as it was for whoever holds it. "
        "`masked_fill` with a mask of channels would do as well; a product with zeros would not, since it leaves a "
        "NaN where one was."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (4, 2, 3), "layout": ALL, "place": ALL, "grad": ALL, "values": ALL,
            "collection": ("many", "one", "empty", "repeated"), "mode": ALL, "frozen": ALL,
            "named": ("nested", "second name", "first", "last", "root"), "follower": ALL, "passing": ALL,
            "hooks": ALL, "hooked": ("named", "root", "parameter"), "call": ("once", "again"), "grad_mode": ALL,
            "failure": ALL,
        },
        excludes={
            "number": "there is no number",
            "tied": "the function looks at no parameter",
            "output": "the contract speaks of tensors",
            "registered": "a name is that of a submodule",
            "layers": "the modules that are named are of several types",
            "backward": "there is no backward pass",
            "failing_run": "there is one run",
        },
        # Equal images of one dimension have no variance, and a norm in training mode divides by it.
        impossible=[lambda rank, layout, mode: rank == 2 and layout == "expanded" and mode == "train"],
    ),
)  # fmt: skip
class TestAblateChannels:
    """Write `ablate_channels(model, name, channels, x)`. Run the model on `x` and return what it gives when the listed
    channels of the output of the submodule `name` are 0, and everything after it computes with that. `channels` is a
    list of indices 0, 1, … into dimension 1 of that output. It may be empty, for the ordinary output of the model, and
    may hold an index twice.

    - `name` may be nested (`"block.0"`), or `""`, the model itself. In one run the submodule is called once, and its
      output is a tensor of two or more dimensions.
    - The listed channels become 0, whatever they were (also infinite). The dtype and all other entries, also `nan`,
      stay.
    - The model returns one tensor of a floating dtype. The result is detached; it need not be a copy.
    - A deep copy of the model may run in its place.

    **Example.** Let `model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))` with `model[0]` giving `[[3., 4.]]` for
    `x`, and `model[1]` adding its two inputs. Then `ablate_channels(model, "0", [1], x)` is `tensor([[3.]])`.
    """

    def draw(rng, dtype, rank, layout, values, collection):
        shape = (5,) * rank
        return {
            "net": drawn_net(rng, rank, dtype, values),
            **{name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("x", "other")},
            "channels": some_channels(rng, collection),
            "numbers": counted(rank),
        }

    def oracle(net, x, other, channels, mode, named, hooks, hooked):
        return [ablated(net, image, channels, mode, named, hooks, hooked) for image in (x, other)]

    def alive(net, x, channels, mode, named, hooks, hooked):
        at = (mode, named, hooks, hooked)
        results = [composed(net, x, mode, after=hooks_of(named, hooks, hooked))["root"], ablated(net, x, channels, *at)]
        return not channels or all_different(*results, *on_wrong_axes(net, x, channels, *at))

    def probe(
        student,
        net,
        x,
        other,
        channels,
        numbers,
        rank,
        layout,
        place,
        grad,
        mode,
        frozen,
        named,
        follower,
        passing,
        hooks,
        hooked,
        grad_mode,
        failure,
    ):
        name, mine = dotted(net, named), list(channels)
        model = two_path(net, rank, mode, frozen, follower, passing)
        callers = hooks_on(model, name, hooks, hooked)
        x, other = prepared(x, layout=layout, place=place, grad=grad), laid_out(other, layout)
        runs, ended, of_chain = [], [], []
        model.note = runs.append
        model.register_forward_hook(lambda module, args, output: ended.append(1))
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x, other=other, channels=mine)
            seen = {"result": student.ablate_channels(model, name, mine, x), "runs": len(runs), "ended": len(ended)}
            seen |= {"changed": witness.changes(), "log": callers.log[:20]}
            again = (channels or [1])[::-1]
            seen["result of a second call"] = student.ablate_channels(model, name, again, other)
            seen["changed by a second call"] = witness.changes()

        boom = Failure(failure)
        model.note = boom.strike
        witness = Witness(model=model, x=x, other=other, channels=mine)
        seen["failure"] = boom.during(lambda: student.ablate_channels(model, name, mine, other))
        seen["changed by failure"] = witness.changes()

        ones = torch.ones(1, 2)
        seen["failures at the end"] = failures_at_the_end(lambda chain: student.ablate_channels(chain, "0", [0], ones))
        handing_on = nn.Sequential(nn.Identity(), nn.Identity())
        handing_on.register_forward_hook(lambda module, args, output: of_chain.append(1))
        handing_on[0].register_forward_hook(lambda module, args, output: output + 1)
        given = torch.tensor(INFINITE)
        witness = Witness(x=given)
        seen["infinite"] = student.ablate_channels(handing_on, "0", [0, 2], given)
        seen["calls of a chain"] = len(of_chain)
        seen["handed on"] = student.ablate_channels(nn.Identity(), "", [0, 2], given)
        seen["viewed"] = student.ablate_channels(Viewed(), "", [0, 2], given)
        seen["changed through nn.Identity"] = witness.changes()
        # Another call, while the model runs.
        inner: list[Any] = []
        fives, sevens = torch.full((2, 2), 5.0), torch.full((2, 2), 7.0)
        outer = Meanwhile(lambda: inner.append(student.ablate_channels(nn.Identity(), "", [1], fives)), nn.Identity())
        witness = Witness(model=outer)
        seen["in a call"] = [student.ablate_channels(outer, "", [0], sevens), *inner[:1]]
        seen["changed by a call in a call"] = witness.changes()
        dtypes: list[str] = []
        seen["halved"] = student.ablate_channels(Halved(dtypes.append), "whole", [1], torch.tensor([[1, 2], [2, 1]]))
        seen["dtypes"] = dtypes
        seen["one channel"] = student.ablate_channels(nn.Identity(), "", [0], torch.full((2, 1), 5.0))
        seen["mode of the root"] = student.ablate_channels(
            ShowsItsMode(nn.Identity().eval()), "0", [0], torch.ones(1, 2)
        )
        seen["nan left"] = is_nan(student.ablate_channels(nn.Identity(), "", [0], torch.full((2, 2), NAN)))
        seen["doubled"] = student.ablate_channels(Doubling(), "inner", [2, 0], numbers.transpose(-1, -2))
        seen["alike"] = [student.ablate_channels(alike(), name, [1], torch.eye(3)) for name in ALIKE]
        tall = torch.ones(1, 8, 1)
        try:
            seen["more channels than positions"] = student.ablate_channels(nn.Identity(), "", [1, 5], tall)
        except IndexError as error:
            seen["more channels than positions"] = f"{error}"
        dropping = nn.Sequential(nn.Identity(), nn.Dropout(1.0))
        seen["dropped"] = student.ablate_channels(dropping, "0", [0], torch.ones(2, 2))
        seen["p"] = dropping[1].p
        example = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        example.load_state_dict({"0.weight": torch.tensor([[3.0, 0.0], [0.0, 4.0]]), "1.weight": torch.ones(1, 2)})
        return {**seen, "example": student.ablate_channels(example, "0", [1], torch.ones(2, 2))}

    mistakes = (
        Mistake(
            "edited-weights",
            lambda seen: bool(changes(seen["changed"], "values model.*")),
            "You changed the weights, so every later run of the model differs, too. Change the output of the module "
            "in a forward hook; that also works for modules without weights.",
            raises="has no attribute 'weight'",
            rather_than=("forgot-return",),
        ),
        Mistake(
            "forgot-return",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels or named == "second name"  # a change may have reached the other name only
                else close(seen["result"], composed(net, x, mode, after=hooks_of(named, hooks, hooked))["root"])
            ),
            "This is the ordinary output of the model: the zeros did not arrive. A forward hook that returns `None` "
            "keeps the old output. Return the changed tensor.",
        ),
        Mistake(
            "empty-means-all",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                not channels and close(seen["result"], ablated(net, x, the_others([]), mode, named, hooks, hooked))
            ),
            "An empty list made you switch off everything. It lists no channel: all of them stay as they are.",
        ),
        Mistake(
            "kept-only-the-listed",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels
                else close(seen["result"], ablated(net, x, the_others(channels), mode, named, hooks, hooked))
            ),
            "It is the other way round: the listed channels stayed, and all others became 0.",
        ),
        Mistake(
            "multiplied-by-zero",
            lambda seen: (
                seen["infinite"].tensor is not None
                and torch.equal(seen["infinite"].tensor.isnan(), torch.tensor([[True, False, True, False]] * 3))
            ),
            "Where a channel held `inf` or `nan`, it holds `nan` now: so it is with `0 * inf`, and with `inf - inf`. "
            "Do not compute zeros from the old values. Write them: `output[:, channels] = 0`, in a clone.",
        ),
        Mistake(
            "called-forward",
            lambda seen: seen["runs"].value == 1 and seen["ended"].value == 0,
            CALLED_FORWARD,
            rather_than=("forgot-return",),
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels or named == "first"
                else any(
                    close(seen["result"], result)
                    for result in of_changed_inputs(net, x, channels, mode, named, hooks, hooked)
                )
            ),
            raises="tuple index out of range",
            rather_than=("before-other-hooks",),
        ),
        Mistake(
            "ran-in-eval",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                SILENT
                if mode != "train"
                else close(seen["result"], ablated(net, x, channels, "eval", named, hooks, hooked))
            ),
            RAN_IN_EVAL,
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, x, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels
                else any(
                    close(seen["result"], result)
                    for result in on_wrong_axes(net, x, channels, mode, named, hooks, hooked)
                )
            ),
            "You switched off another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "before-other-hooks",
            lambda seen: close(seen["infinite"], torch.tensor([[1.0, 3.0, 1.0, -INF]] * 3)),
            BEFORE_OTHER_HOOKS,
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: any(
                changes(seen[when], "values x", "values other")
                for when in ("changed by a second call", "changed through nn.Identity")
            ),
            CHANGED_CALLERS_TENSOR,
            raises=IN_PLACE,
        ),
        Mistake("callers-hook-removed", lambda seen: bool(changes(seen["changed"], "hook-removed *")), REMOVED_OTHERS),
        Mistake("hook-left-behind", lambda seen: bool(changes(seen["changed"], "hook-left *"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-left *") and bool(changes(seen["changed by failure"], "hook-left *"))
            ),
        ),
    )

    def test_the_listed_channels_are_off(seen, net, x, channels, mode, named, hooks, hooked):
        expect(seen["result"]).close_to(ablated(net, x, channels, mode, named, hooks, hooked), detached=False)

    def test_another_call_has_its_own_channels(seen, net, other, channels, mode, named, hooks, hooked):
        expected = ablated(net, other, channels or [1], mode, named, hooks, hooked)
        expect(seen["result of a second call"]).close_to(expected, detached=False)

    def test_the_module_of_this_name_is_meant(seen):
        for found, name in paired(seen["alike"], ALIKE):
            _, right = through_alike(torch.eye(3), name, lambda value: written(value, [1], 0.0))
            expect(Seen(found.value, f"the result for {name!r} in a model with {', '.join(ALIKE)} and b")).close_to(
                right
            )

    def test_a_call_inside_a_call_changes_nothing(seen):
        calls = (([[0.0, 7.0]] * 2, "outer"), ([[5.0, 0.0]] * 2, "inner"))
        for found, (right, whose) in paired(seen["in a call"], calls):
            expect(Seen(found.value, f"the result of the {whose} call")).close_to(torch.tensor(right))
        nothing_changed(seen["changed by a call in a call"])

    def test_they_are_zero_whatever_they_were(seen):
        for what, key, two in (
            ("with a hook of the caller that adds 1", "infinite", 3.0),
            ("of Identity", "handed on", 2.0),
            ("of a module that returns a view of its input", "viewed", 2.0),
        ):
            off = Seen(seen[key].value, f"the result {what}, for inf, 2, nan, -inf without channels 0 and 2")
            expect(off).close_to(torch.tensor([[0.0, two, 0.0, -INF]] * 3))
        left = Seen(seen["nan left"].value, "where the result is nan, when all was nan, without channel 0")
        expect(left).close_to(torch.tensor([[False, True]] * 2))
        expect(Seen(seen["one channel"].value, "the result without the only channel")).close_to(torch.zeros(2, 1))

    def test_any_strides_rank_and_dtype_will_do(seen, numbers, rank):
        doubled = Seen(seen["doubled"].value, f"the result of a model whose module gives {transposed(rank)}")
        expect(doubled).close_to(2 * written(numbers.transpose(-1, -2), [2, 0], 0.0))

        tall = Seen(seen["more channels than positions"].value, "ones of shape (1, 8, 1) without channels 1 and 5")
        expect(tall).close_to(written(torch.ones(1, 8, 1), [1, 5], 0.0))
        halved = Seen(seen["halved"].value, "the half of [[1, 2], [2, 1]] without channel 1")
        expect(halved).close_to(torch.tensor([[0.5, 0.0], [1.0, 0.0]]))
        whole = Seen(seen["dtypes"].value, "the dtypes of whole numbers without channel 1, in the order of calls")
        expect(whole).equals(["torch.int64"])

    def test_the_root_is_in_its_mode(seen):
        path = "the result for ones without channel 0, of a model in training mode whose parts are in eval mode"
        expect(Seen(seen["mode of the root"].value, path)).close_to(torch.tensor([[0.0, 1.0]]))
        dropped = Seen(seen["dropped"].value, "the result of a model that ends in `nn.Dropout(1.0)`, in training mode")
        expect(dropped).close_to(torch.zeros(2, 2))
        expect(Seen(seen["p"].value, "`p` of its dropout afterwards")).equals(1.0)

    def test_the_model_runs_once(seen, hooks, hooked):
        expect(Seen(seen["runs"].value, "runs of the model")).equals(1)
        for model, key in (("the model", "ended"), ("a plain `nn.Sequential`", "calls of a chain")):
            expect(Seen(seen[key].value, f"calls of {model}, `model(x)`, to the end")).equals(1)
        if hooks != "none" and hooked != "parameter":
            calls = [event for event in seen["log"] if event.value == "pre it"]
            expect(Seen(len(calls), "calls of a hook of the caller")).equals(1)

    def test_the_result_is_detached(seen, net, x, channels, mode, named, hooks, hooked):
        expect(seen["result"]).close_to(ablated(net, x, channels, mode, named, hooks, hooked))

    def test_x_and_the_model_are_as_before(seen, mode):
        for when in ("changed", "changed by a second call"):
            nothing_changed(seen[when], but=["buffer *"] * (mode == "train"))
        nothing_changed(seen["changed through nn.Identity"])

    def test_an_exception_comes_through_and_nothing_is_left(seen, mode):
        came_through(seen["failure"], "the model")
        all_came_through(seen["failures at the end"], "the last layer of a model")
        nothing_changed(seen["changed by failure"], but=["buffer *"] * (mode == "train"), when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor([[3.0], [3.0]]))


def ablated(
    net: dict[str, Any], x: Tensor, channels: list[int], mode: str, named: str, hooks: str, hooked: str, dim: int = 1
) -> Tensor:
    """The model's output with these channels of the named module at 0."""
    off = then(hooks_of(named, hooks, hooked), PLACES[named], lambda value: written(value, channels, 0.0, dim))
    return composed(net, x, mode, after=off)["root"]


def on_wrong_axes(
    net: dict[str, Any], x: Tensor, channels: list[int], mode: str, named: str, hooks: str, hooked: str
) -> list[Tensor]:
    """The model's output when another axis than 1 was indexed."""
    of_a_map = PLACES[named] in ("entry", "conv2") and x.dim() > 2
    axes = (0, *range(2, x.dim())) if of_a_map else (0,)
    return [ablated(net, x, channels, mode, named, hooks, hooked, axis) for axis in axes]


def of_changed_inputs(
    net: dict[str, Any], x: Tensor, channels: list[int], mode: str, named: str, hooks: str, hooked: str
) -> list[Tensor]:
    """The model's output when channels of the module's input, or of `x`, were 0."""
    after = hooks_of(named, hooks, hooked)
    off = {PLACES[named]: lambda value: written(value, channels, 0.0)}
    changed = (
        composed(net, x, mode, after=after, before=off),
        composed(net, written(x, channels, 0.0), mode, after=after),
    )
    return [outputs["root"] for outputs in changed]
