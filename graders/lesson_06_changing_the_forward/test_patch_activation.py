"""Exercise 06-patch-activation."""

from __future__ import annotations

import math
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
    EXPANDED,
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

SMALL = [[1.0, 0.5, 2.0]] * 3
LARGE = [[float("inf"), 1e9, 3.0]] * 3
RESULTS = {
    "full": "without `channels`",
    "part": "with `channels`",
    "exchanged": "in a second call on the same model, with the inputs exchanged",
}


@exercise(
    "06-patch-activation",
    points=3,
    minutes=25,
    difficulty=3,
    core=True,
    title="Transplant an activation",
    hints=(
        "Two runs: one on `clean`, in which a hook keeps a copy of the module's output, and one on `corrupt`, in "
        "which another hook puts it in.",
        "Take the snapshot with `.detach().clone()`: the next module may work in place. Remove the first hook before "
        "the second run.",
        "For a part of the channels: clone the output of the corrupt run, write the clean channels into the clone, "
        "and return it. `None` and `[]` are two different things.",
    ),
    why=(
        "Two runs, and a hook for each: one keeps a copy of the clean output, the other puts it into the corrupt "
        "run. A single hook would do that keeps in its first call and replaces in its second, and `torch.where` "
        "with a mask of channels could take the place of the copy."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (4, 2, 3), "layout": ALL, "place": ALL, "grad": ALL, "values": ALL,
            "collection": ("many", "one", "empty", "repeated"), "mode": ALL, "frozen": ALL,
            "named": ("nested", "second name", "first", "last", "root"), "follower": ("in-place", "plain"),
            "passing": ALL, "hooks": ALL, "hooked": ("named", "root", "parameter"), "call": ("once", "again"),
            "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "there is no number",
            "tied": "the function looks at no parameter",
            "output": "the contract speaks of tensors",
            "registered": "a name is that of a submodule",
            "layers": "the modules that are named are of several types",
            "backward": "there is no backward pass",
        },
        # Equal images of one dimension have no variance, and a norm in training mode divides by it.
        impossible=[lambda rank, layout, mode: rank == 2 and layout == "expanded" and mode == "train"],
    ),
)  # fmt: skip
class TestPatchActivation:
    """Write `patch_activation(model, name, clean, corrupt, channels=None)`. Run the model on `clean` and then on
    `corrupt` (two inputs of the same shape), once each, also when the two are equal. Return what `model(corrupt)` gives
    when the output of the submodule `name` is replaced by the one that it has in `model(clean)`. With `channels=None`
    all of it is replaced. With a list of indices 0, 1, … into dimension 1, only these channels are replaced, exactly
    (also by `nan`), and the others stay those of the corrupt run. An empty list gives the ordinary output for
    `corrupt`, and an index may stand there twice.

    - `name` may be nested, or `""`, the model itself. In one run the submodule is called once, and its output is a
      tensor of two or more dimensions.
    - The run on `clean` may stop when you have what you need (what it would raise later is lost).
    - The model returns one tensor. The result is detached; it need not be a copy.
    - A deep copy of the model may run in its place.

    **Example.** In `model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))`, let `model[0]` give `[[3., 4.]]` for
    `clean` and `[[5., 6.]]` for `corrupt`, and let `model[1]` add its two inputs. Then
    `patch_activation(model, "0", clean, corrupt)` is `tensor([[7.]])`, and with `channels=[1]` it is `tensor([[9.]])`.
    """

    def draw(rng, dtype, rank, layout, values, collection):
        shape = (5,) * rank
        return {
            "net": drawn_net(rng, rank, dtype, values),
            **{name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("clean", "corrupt")},
            "channels": some_channels(rng, collection),
            "numbers": counted(rank),
        }

    def oracle(net, clean, corrupt, channels, mode, named, hooks, hooked):
        at = (mode, named, hooks, hooked)
        calls = ((clean, corrupt, None), (clean, corrupt, channels), (corrupt, clean, channels))
        return [patched(net, *call, *at) for call in calls]

    def alive(net, clean, corrupt, channels, mode, named, hooks, hooked, layout):
        at = (mode, named, hooks, hooked)
        results = [
            *(composed(net, x, mode, after=hooks_of(named, hooks, hooked))["root"] for x in (clean, corrupt)),
            patched(net, clean, corrupt, channels, *at),
            patched(net, corrupt, clean, channels, *at),
        ]
        return not channels or all_different(*results)

    def probe(
        student,
        net,
        clean,
        corrupt,
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
        failing_run,
    ):
        name, mine = dotted(net, named), list(channels)
        model = two_path(net, rank, mode, frozen, follower, passing)
        callers = hooks_on(model, name, hooks, hooked)
        clean, corrupt = prepared(clean, layout=layout, place=place, grad=grad), laid_out(corrupt, layout)
        runs, called, of_chain = [], [], []
        model.note = runs.append
        model.register_forward_pre_hook(lambda module, args: called.append(1))
        things = {"model": model, "clean": clean, "corrupt": corrupt, "channels": mine}
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            seen = {
                "full": student.patch_activation(model, name, clean, corrupt),
                "runs": runs[:20],
                "called": len(called),
            }
            seen |= {"changed": witness.changes(), "log": callers.log[:40]}
            runs.clear()
            seen["part"] = student.patch_activation(model, name, clean, corrupt, mine)
            seen["runs with channels"] = runs[:20]
            seen["exchanged"] = student.patch_activation(model, name, corrupt, clean, channels=mine)
            seen["changed in the end"] = witness.changes()

        boom = Failure(failure, failing_run)
        model.note = boom.strike
        witness = Witness(**things)
        seen["failure"] = boom.during(lambda: student.patch_activation(model, name, clean, corrupt, mine))
        seen["changed by failure"] = witness.changes()
        # An interrupt may leave the hook of the one run or of the other: here of the run that did not fail above.
        stop = Failure("KeyboardInterrupt", "first" if failing_run == "second" else "second")
        model.note = stop.strike
        witness = Witness(**things)
        stop.during(lambda: student.patch_activation(model, name, clean, corrupt, mine))
        seen["changed by an interrupt"] = witness.changes()

        ones, twos = torch.ones(1, 2), torch.full((1, 2), 2.0)

        def patch(chain):
            student.patch_activation(chain, "0", ones, twos, [0])

        for run, given in (("first", ones), ("second", twos)):
            seen[f"failures at the end of the {run} run"] = failures_at_the_end(patch, given)
        handing_on = nn.Sequential(nn.Identity(), nn.Identity())
        handing_on.register_forward_pre_hook(lambda module, args: of_chain.append(1))
        handing_on[0].register_forward_hook(lambda module, args, output: output.flip(1))
        small, large = torch.tensor(SMALL), torch.tensor(LARGE)
        witness = Witness(small=small, large=large)
        seen["large"] = student.patch_activation(handing_on, "0", small, large, [1, 2, 1])
        student.patch_activation(handing_on, "0", small, small, [1])
        seen["calls of a chain"] = len(of_chain)
        seen["handed on"] = student.patch_activation(nn.Identity(), "", small, large, [1, 2, 1])
        seen["viewed"] = student.patch_activation(Viewed(), "", small, large, [1, 2, 1])
        seen["changed through nn.Identity"] = witness.changes()
        # Another call, while the model runs.
        inner: list[Any] = []
        given = [torch.full((2, 2), value) for value in (1.0, 2.0, 3.0, 4.0)]
        outer = Meanwhile(
            lambda: inner.append(student.patch_activation(nn.Identity(), "", *given[:2], [1])), nn.Identity()
        )
        witness = Witness(model=outer)
        seen["in a call"] = [student.patch_activation(outer, "", *given[2:], [0]), *inner[:1]]
        seen["changed by a call in a call"] = witness.changes()
        seen["mode of the root"] = student.patch_activation(ShowsItsMode(nn.Identity().eval()), "0", ones, twos, [0])
        orders, any_model = [], nn.Identity()
        any_model.register_forward_pre_hook(lambda module, args: orders.append(float(args[0].mean())))
        student.patch_activation(any_model, "", ones, twos, [])
        seen["order of runs"] = orders
        nan = float("nan")
        seen["nan"] = is_nan(
            student.patch_activation(
                nn.Identity(), "", torch.tensor([[nan, 1.0, 2.0]]), torch.tensor([[1.0, nan, 2.0]]), [0]
            )
        )
        seen["nan in all"] = is_nan(
            student.patch_activation(nn.Identity(), "", torch.tensor([[nan, 1.0]]), torch.tensor([[1.0, nan]]))
        )
        doubling, numbers = Doubling(), numbers.transpose(-1, -2)
        seen["doubled"] = student.patch_activation(doubling, "inner", numbers, -numbers, [2, 0])
        ones, twos = torch.eye(3), torch.full((3, 3), 2.0)
        seen["alike"] = [student.patch_activation(alike(), name, ones, twos, [1]) for name in ALIKE]
        near = torch.ones(2, 2, dtype=torch.float64)
        seen["nearly equal"] = student.patch_activation(nn.Identity(), "", near + 1e-9, near, [1])
        dropping = nn.Sequential(nn.Identity(), nn.Dropout(1.0))
        seen["dropped"] = student.patch_activation(dropping, "0", ones, twos)
        seen["p"] = dropping[1].p
        example = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False))
        weights = {"0.weight": 2 * torch.eye(2), "0.bias": torch.tensor([1.0, 2.0]), "1.weight": torch.ones(1, 2)}
        example.load_state_dict(weights)
        ones, twos = torch.ones(2, 2), torch.full((2, 2), 2.0)
        seen["example"] = student.patch_activation(example, "0", ones, twos)
        return {**seen, "example with [1]": student.patch_activation(example, "0", ones, twos, channels=[1])}

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, net, corrupt, mode, named, hooks, hooked: (
                SILENT
                if named == "second name"  # a change may have reached the other name only
                else all(
                    close(seen[key], ordinary(net, corrupt, mode, named, hooks, hooked)) for key in ("full", "part")
                )
            ),
            "This is the ordinary output for `corrupt`: the patch did not arrive. Either your hook returned `None`, or "
            "the hook that keeps the clean output was still there in the second run and overwrote what it had kept.",
        ),
        Mistake(
            "called-forward",
            lambda seen: seen["called"].value == 0 and len(seen["runs"]) == 2,
            CALLED_FORWARD,
            rather_than=("forgot-return",),
        ),
        Mistake(
            "swapped-runs",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: all(
                close(seen[key], patched(net, corrupt, clean, listed, mode, named, hooks, hooked))
                for key, listed in (("full", None), ("part", channels))
            ),
            "The roles are exchanged: you ran the model on `clean` with a part of the corrupt run. Run `corrupt`, and "
            "patch in what comes from `clean`.",
        ),
        Mistake(
            "ignored-channels",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels
                else close(seen["part"], patched(net, clean, corrupt, None, mode, named, hooks, hooked))
                and close(seen["full"], patched(net, clean, corrupt, None, mode, named, hooks, hooked))
            ),
            "You replaced the whole output. When `channels` is a list, only the listed channels come from the clean "
            "run; the others stay those of the corrupt run.",
        ),
        Mistake(
            "empty-means-all",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: (
                not channels and close(seen["part"], patched(net, clean, corrupt, None, mode, named, hooks, hooked))
            ),
            "An empty list made you replace everything. `if channels:` is false for `[]` as well as for `None`; ask "
            "`if channels is None`.",
        ),
        Mistake(
            "none-means-nothing",
            lambda seen, net, corrupt, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels or close(seen["part"], ordinary(net, corrupt, mode, named, hooks, hooked))
                else close(seen["full"], ordinary(net, corrupt, mode, named, hooks, hooked))
            ),
            "A list of channels works, and `channels=None` changes nothing. `None` stands for the whole output: "
            "replace all of it.",
        ),
        Mistake(
            "replaced-the-others",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels
                else close(seen["part"], patched(net, clean, corrupt, the_others(channels), mode, named, hooks, hooked))
            ),
            "It is the other way round: the listed channels stayed, and all others came from the clean run. Write the "
            "listed channels of the clean output into a clone of the corrupt one.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: (
                SILENT
                if named == "first"
                else close(seen["full"], patched_input(net, clean, corrupt, None, mode, named, hooks, hooked))
                and close(seen["part"], patched_input(net, clean, corrupt, channels, mode, named, hooks, hooked))
            ),
            "You patched what goes into the module. The task is about what comes out: use forward hooks, and keep "
            "`output` of the clean run.",
            raises="tuple index out of range",
            rather_than=("before-other-hooks",),
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, clean, corrupt, mode, named, hooks, hooked: (
                SILENT
                if named == "first"
                else close(
                    seen["full"],
                    patched(net, clean, corrupt, None, mode, named, hooks, hooked, source=PLACES[named] + " in"),
                )
            ),
            rather_than=("before-other-hooks",),
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, clean, corrupt, mode, named, hooks, hooked, follower: (
                SILENT
                if (follower, named) not in (("in-place", "nested"), ("in-place", "second name"))
                else close(
                    seen["full"],
                    patched(net, clean, corrupt, None, mode, named, hooks, hooked, source=FOLLOWERS[named]),
                )
            ),
            "You kept a reference to the clean output, and the in-place module that follows rewrote it before you "
            "used it. Keep a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, clean, corrupt, channels, mode, named, hooks, hooked: (
                SILENT
                if not channels
                else any(
                    close(seen["part"], result)
                    for result in on_other_axes(net, clean, corrupt, channels, mode, named, hooks, hooked)
                )
            ),
            "You patched along another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "before-other-hooks",
            lambda seen: (
                seen["large"].tensor is not None
                and any(close(seen["large"], torch.tensor([value] * 3)) for value in EARLY)
            ),
            BEFORE_OTHER_HOOKS,
        ),
        Mistake(
            "ran-in-eval",
            lambda seen, net, clean, corrupt, mode, named, hooks, hooked: (
                SILENT
                if mode != "train"
                else close(seen["full"], patched(net, clean, corrupt, None, "eval", named, hooks, hooked))
            ),
            RAN_IN_EVAL,
        ),
        Mistake(
            "one-run-for-both",
            lambda seen: seen["runs"].value == [10],
            "The model ran once, on both inputs together. Layers that look at the whole batch, such as a norm in "
            "training mode, then mix the two. Call the model on `clean`, and then on `corrupt`.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: any(
                changes(seen[when], "values clean", "values corrupt", "values small", "values large")
                for when in ("changed in the end", "changed through nn.Identity")
            ),
            EXPANDED,
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

    def test_the_whole_output_comes_from_the_clean_run(seen, net, clean, corrupt, mode, named, hooks, hooked):
        right = patched(net, clean, corrupt, None, mode, named, hooks, hooked)
        expect(result(seen, "full")).close_to(right, detached=False)

    def test_only_the_listed_channels_are_replaced(seen, net, clean, corrupt, channels, mode, named, hooks, hooked):
        right = patched(net, clean, corrupt, channels, mode, named, hooks, hooked)
        expect(result(seen, "part")).close_to(right, detached=False)

    def test_a_later_call_starts_afresh(seen, net, clean, corrupt, channels, mode, named, hooks, hooked):
        right = patched(net, corrupt, clean, channels, mode, named, hooks, hooked)
        expect(result(seen, "exchanged")).close_to(right, detached=False)

    def test_the_module_of_this_name_is_meant(seen):
        corrupt = torch.full((3, 3), 2.0)
        for found, name in paired(seen["alike"], ALIKE):
            kept, _ = through_alike(torch.eye(3), name, lambda value: value)
            _, right = through_alike(corrupt, name, lambda value, kept=kept: written(value, [1], kept))
            expect(Seen(found.value, f"the result for {name!r} in a model with {', '.join(ALIKE)} and b")).close_to(
                right
            )

    def test_a_call_inside_a_call_changes_nothing(seen):
        calls = (([[3.0, 4.0]] * 2, "outer"), ([[2.0, 1.0]] * 2, "inner"))
        for found, (right, whose) in paired(seen["in a call"], calls):
            expect(Seen(found.value, f"the result of the {whose} call")).close_to(torch.tensor(right))
        nothing_changed(seen["changed by a call in a call"])

    def test_channels_are_replaced_digit_by_digit(seen):
        for key, model, right in (
            ("handed on", "nn.Identity", HANDED_ON),
            ("viewed", "a module that returns a view of its input", HANDED_ON),
            ("large", "two nn.Identity", TURNED_ROUND),
        ):
            path = f"the result of {model} with channels [1, 2, 1], for {SMALL[0]} and {LARGE[0]}"
            expect(Seen(seen[key].value, path)).close_to(torch.tensor(right))

        near = Seen(seen["nearly equal"].value, "the result for 1 + 1e-9 as clean and 1 as corrupt, with channels [1]")
        expect(near).close_to(torch.tensor([[1.0, 1.0 + 1e-9]] * 2, dtype=torch.float64), rtol=0.0, atol=1e-12)
        path = "where the result is nan, for [nan, 1, 2] and [1, nan, 2] with channels [0]"
        expect(Seen(seen["nan"].value, path)).close_to(torch.tensor([[True, True, False]]))
        path = "where the result is nan, for [nan, 1] and [1, nan] without `channels`"
        expect(Seen(seen["nan in all"].value, path)).close_to(torch.tensor([[True, False]]))

    def test_any_strides_rank_and_dtype_will_do(seen, numbers, rank):
        doubled = Seen(seen["doubled"].value, f"the result of a model whose module gives {transposed(rank)}")
        turned = numbers.transpose(-1, -2)
        expect(doubled).close_to(2 * written(-turned, [2, 0], turned))

    def test_the_model_runs_on_clean_and_then_on_corrupt(seen, hooks, hooked):
        for key, when in (("runs", "without `channels`"), ("runs with channels", "with a list of channels")):
            images = Seen(seen[key].value, f"{when}, the number of images in each run of the model")
            expect(images).equals([5, 5])
        expect(Seen(seen["called"].value, "calls of the model, `model(...)`")).equals(2)
        chain = "calls of a plain `nn.Sequential` in two calls of your function, the second with equal inputs"
        expect(Seen(seen["calls of a chain"].value, chain)).equals(4)
        if hooks != "none" and hooked != "parameter":
            calls = [event for event in seen["log"] if event.value == "pre it"]
            expect(Seen(len(calls), "calls of a hook of the caller")).equals(2)

        order = "the numbers in the inputs of the runs, for 1 as clean, 2 as corrupt, and no channels"
        expect(Seen(seen["order of runs"].value, order)).equals([1.0, 2.0])

    def test_the_root_is_in_its_mode(seen):
        path = "channel 0 of 1 in 2, for a model in training mode whose parts are in eval mode, the result"
        expect(Seen(seen["mode of the root"].value, path)).close_to(torch.tensor([[1.0, 2.0]]))
        dropped = Seen(seen["dropped"].value, "the result of a model that ends in `nn.Dropout(1.0)`, in training mode")
        expect(dropped).close_to(torch.zeros(3, 3))
        expect(Seen(seen["p"].value, "`p` of its dropout afterwards")).equals(1.0)

    def test_the_result_is_detached(seen):
        for key, when in RESULTS.items():
            requires_grad = getattr(seen[key].value, "requires_grad", True)
            expect(Seen(requires_grad)).is_false(f"{when}, the result still requires grad; detach it")

    def test_inputs_and_model_are_as_before(seen, mode):
        for when in ("changed", "changed in the end"):
            nothing_changed(seen[when], but=["buffer *"] * (mode == "train"))
        nothing_changed(seen["changed through nn.Identity"])

    def test_an_exception_comes_through_and_nothing_is_left(seen, mode):
        came_through(seen["failure"], "the model")
        all_came_through(seen["failures at the end of the second run"], "the end of the model on `corrupt`")
        of_the_first = seen["failures at the end of the first run"]
        if of_the_first["own"].value != "never raised":  # as it is when that run was stopped
            all_came_through(of_the_first, "the end of the model on `clean`")
        for when in ("changed by failure", "changed by an interrupt"):
            nothing_changed(seen[when], but=["buffer *"] * (mode == "train"), when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor([[7.0], [7.0]]))
        expect(seen["example with [1]"]).close_to(torch.tensor([[9.0], [9.0]]))


FOLLOWERS = {"nested": "act2", "second name": "act3"}
"""The place whose module comes right after the named one, and may work in place on its output."""
EARLY = ([2.0, 0.5, math.inf], [3.0, 0.5, 2.0], [1.0, 0.5, math.inf])
"""What comes of `SMALL` and `LARGE` when the caller's hook, which turns channels round, does not come first."""
HANDED_ON = [[math.inf, 0.5, 2.0]] * 3
"""What comes of them without any hook."""
TURNED_ROUND = [[3.0, 0.5, 1.0]] * 3
"""What comes of them with the caller's hook first."""


def result(seen: Seen, key: str) -> Seen:
    """The result of a call, with a path that says which."""
    return Seen(seen[key].value, RESULTS[key])


def ordinary(net: dict[str, Any], corrupt: Tensor, mode: str, named: str, hooks: str, hooked: str) -> Tensor:
    """The model's output on `corrupt`, with nothing patched."""
    return composed(net, corrupt, mode, after=hooks_of(named, hooks, hooked))["root"]


def patched(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, channels: list[int] | None, mode: str, named: str, hooks: str,
    hooked: str, dim: int = 1, source: str = ""
) -> Tensor:  # fmt: skip
    """The model's output on `corrupt` with the named module patched from `clean`, or from another place there."""
    own = hooks_of(named, hooks, hooked)
    kept = composed(net, clean, mode, after=own)[source or PLACES[named]]
    edit = (lambda value: kept) if channels is None else (lambda value: written(value, channels, kept, dim))
    return composed(net, corrupt, mode, after=then(own, PLACES[named], edit))["root"]


def patched_input(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, channels: list[int] | None, mode: str, named: str, hooks: str,
    hooked: str
) -> Tensor:  # fmt: skip
    """The same with the input of the module patched instead of its output."""
    own = hooks_of(named, hooks, hooked)
    kept = composed(net, clean, mode, after=own)[PLACES[named] + " in"]
    edit = (lambda value: kept) if channels is None else (lambda value: written(value, channels, kept))
    return composed(net, corrupt, mode, after=own, before={PLACES[named]: edit})["root"]


def on_other_axes(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, channels: list[int], mode: str, named: str, hooks: str,
    hooked: str
) -> list[Tensor]:  # fmt: skip
    """The model's output when another axis than 1 was patched."""
    of_a_map = PLACES[named] in ("entry", "conv2") and clean.dim() > 2
    axes = (0, *range(2, clean.dim())) if of_a_map else (0,)
    return [patched(net, clean, corrupt, channels, mode, named, hooks, hooked, axis) for axis in axes]
