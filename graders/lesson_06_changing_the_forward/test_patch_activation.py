"""Exercise 06-patch-activation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, no_hook_left, snapshot
from graders.lesson_06_changing_the_forward.judging import (
    CHANGED_CALLERS_TENSOR,
    FOUR_DIMENSIONS,
    all_different,
    back_to_normal,
    composed,
    drawn_net,
    written,
)
from graders.lesson_06_changing_the_forward.shared import after_boom, dotted, observed, two_path


@exercise(
    "06-patch-activation",
    points=3,
    title="Transplant an activation",
    hints=(
        "Two runs: one on `clean`, in which a hook keeps a copy of the module's output, and one on `corrupt`, in "
        "which another hook puts it in.",
        "Take the snapshot with `.detach().clone()`: the next module may work in place. Remove the first hook before "
        "the second run.",
        "For a part of the channels: clone the output of the corrupt run, write the clean channels into the clone, "
        "and return it. `None` and `[]` are two different things.",
    ),
    cases=(
        {"place": "conv1", "train": True},
        {"place": "conv2", "train": False},
        {"place": "mid", "train": True},
        {"place": "entry", "train": False},
    ),
)
class TestPatchActivation:
    """Write `patch_activation(model, name, clean, corrupt, channels=None)`. `clean` and `corrupt` are two inputs of
    the same shape. `name` is the name of a submodule as in `named_modules()`. In one forward pass it is called once,
    and its output is a tensor of two or more dimensions.

    Return what `model(corrupt)` gives when the submodule's output is replaced by the one that it has in
    `model(clean)`. With `channels=None` all of it is replaced. With a list, only the channels of the list (indices
    into dimension 1) are replaced, and the others stay those of the corrupt run; an empty list gives the ordinary
    output for `corrupt`. The result is detached. The modules that follow may work in place.

    `clean`, `corrupt`, the list `channels`, the modules of the model, their weights (and their `.grad`) and modes stay
    as they are, and gradient tracking is on afterwards as before. No hook of yours is left. All this holds even when
    the model raises, in whichever run; the exception comes through. Hooks that were there before stay and fire.

    **Example.** In `model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))`, let `model[0]` give `[[3., 4.]]` for
    `clean` and `[[5., 6.]]` for `corrupt`, and let `model[1]` add its two inputs. Then
    `patch_activation(model, "0", clean, corrupt)` is `tensor([[7.]])`, and with `channels=[1]` it is `tensor([[9.]])`.
    """

    def draw(rng, place, train):
        return {
            "net": drawn_net(rng, train),
            "clean": rng.tensor(4, 4, 4, 4),
            "corrupt": rng.tensor(4, 4, 4, 4),
            "place": place,
            "channels": rng.shuffled(range(4))[: rng.integer(2, 3)],
        }

    def alive(net, clean, corrupt, place, channels):
        given = (net, clean, corrupt, place, channels)
        results = [
            *(composed(net, x)["head"] for x in (clean, corrupt)),
            patched(*given),
            patched(net, corrupt, clean, place, channels),
            *on_other_axes(*given),
        ]
        if place in ("conv1", "conv2"):
            results.append(patched_after_in_place(*given))
        if place == "conv2":  # beside the skip connection: no bottleneck
            results += [patched(net, clean, corrupt, place, None), patched_after_in_place(*given[:4], None)]
        if place != "entry":
            results.append(patched_input(*given))
            stored_input = composed(net, clean)[place + " in"]
            results.append(composed(net, corrupt, place, after=lambda _: stored_input)["head"])
        return all_different(*results)

    def probe(student, net, clean, corrupt, place, channels):
        name = dotted(net, place)
        seen = {}
        for key, extra in (("full", ()), ("part", (list(channels),)), ("empty", ([],))):
            model, pair = two_path(net), (clean.clone(), corrupt.clone())
            extra = tuple(list(listed) for listed in extra)  # the caller's own

            def call(model=model, pair=pair, extra=extra):
                return student.patch_activation(model, name, *pair, *extra)

            seen[key] = observed(model, name, call, corrupt.clone())
            seen[key] |= {"clean": snapshot(pair[0]), "corrupt": snapshot(pair[1]), "channels": [*extra]}
        seen["exchanged"] = student.patch_activation(model, name, corrupt.clone(), clean.clone())
        for key, fuse in (("raised_at_once", True), ("raised_on_corrupt", corrupt[0])):
            model = two_path(net)

            def call(model=model):
                return student.patch_activation(model, name, clean.clone(), corrupt.clone())

            seen[key] = after_boom(model, call, fuse)
        return seen

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, net, corrupt: all(
                close(seen[key]["result"], composed(net, corrupt)["head"]) for key in ("full", "part")
            ),
            "This is the ordinary output for `corrupt`: the patch did not arrive. Either your hook returned `None`, or "
            "the hook that keeps the clean output was still there in the second run and overwrote what it had kept.",
        ),
        Mistake(
            "swapped-runs",
            lambda seen, net, clean, corrupt, place, channels: all(
                close(seen[key]["result"], patched(net, corrupt, clean, place, listed))
                for key, listed in (("full", None), ("part", channels))
            ),
            "The roles are exchanged: you ran the model on `clean` with a part of the corrupt run. Run `corrupt`, and "
            "patch in what comes from `clean`.",
        ),
        Mistake(
            "ignored-channels",
            lambda seen, net, clean, corrupt, place: close(
                seen["part"]["result"], patched(net, clean, corrupt, place, None)
            ),
            "You replaced the whole output. When `channels` is a list, only the listed channels come from the clean "
            "run; the others stay those of the corrupt run.",
        ),
        Mistake(
            "empty-means-all",
            lambda seen, net, clean, corrupt, place, channels: (
                close(seen["part"]["result"], patched(net, clean, corrupt, place, channels))
                and close(seen["empty"]["result"], patched(net, clean, corrupt, place, None))
            ),
            "An empty list made you replace everything. `if channels:` is false for `[]` as well as for `None`; ask "
            "`if channels is None`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, clean, corrupt, place, channels: (
                place != "entry" and close(seen["part"]["result"], patched_input(net, clean, corrupt, place, channels))
            ),
            "You patched what goes into the module. The task is about what comes out: use forward hooks, and keep "
            "`output` of the clean run.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, clean, corrupt, place: (
                place != "entry"
                and close(
                    seen["full"]["result"],
                    composed(net, corrupt, place, after=lambda _: composed(net, clean)[place + " in"])["head"],
                )
            ),
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, clean, corrupt, place, channels: (
                place in ("conv1", "conv2")
                and close(seen["part"]["result"], patched_after_in_place(net, clean, corrupt, place, channels))
            ),
            "You kept a reference to the clean output, and the in-place module that follows rewrote it before you "
            "used it. Keep a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, clean, corrupt, place, channels: any(
                close(seen["part"]["result"], result) for result in on_other_axes(net, clean, corrupt, place, channels)
            ),
            "You patched along another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension 2", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, net, clean, corrupt, place, channels: (
                close(seen["part"]["result"], patched(net, clean, corrupt, place, channels))
                and any(not close(seen[key]["corrupt"], corrupt) or not close(seen[key]["clean"], clean)
                        for key in ("full", "part", "empty"))
            ),
            CHANGED_CALLERS_TENSOR,
        ),
        Mistake("hook-left-behind", lambda seen: any(seen[key]["hooks_left"].value > 0 for key in ("full", "part"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["full"]["hooks_left"].value == 0
                and any(seen[key]["hooks_after_exception"].value > 0 for key in ("raised_at_once", "raised_on_corrupt"))
            ),
        ),
    )  # fmt: skip

    def test_the_whole_output_comes_from_the_clean_run(seen, net, clean, corrupt, place):
        expect(named(seen, "full")).close_to(patched(net, clean, corrupt, place, None), detached=False)

    def test_only_the_listed_channels_are_replaced(seen, net, clean, corrupt, place, channels):
        expect(named(seen, "part")).close_to(patched(net, clean, corrupt, place, channels), detached=False)

    def test_an_empty_list_changes_nothing(seen, net, corrupt):
        expect(named(seen, "empty")).close_to(composed(net, corrupt)["head"], detached=False)

    def test_a_later_call_starts_afresh(seen, net, clean, corrupt, place):
        expect(Seen(seen["exchanged"].value, "on the same model, with the inputs exchanged")).close_to(
            patched(net, corrupt, clean, place, None), detached=False
        )

    def test_the_result_is_detached(seen):
        for key in ("full", "part", "empty"):
            result = seen[key]["result"].value
            expect(Seen(getattr(result, "requires_grad", True))).is_false("the result still requires grad; detach it")

    def test_inputs_and_model_are_as_before(seen, net, clean, corrupt, channels):
        for key in ("full", "part", "empty"):
            expect(Seen(seen[key]["clean"].value, "clean")).close_to(clean)
            expect(Seen(seen[key]["corrupt"].value, "corrupt")).close_to(corrupt)
            expect(seen[key]["weights_kept"]).is_true("the weights of the model have changed")
            expect(seen[key]["trainable"]).is_true("a weight of the model no longer requires grad")
            expect(seen[key]["grads_kept"]).is_true("the `.grad` of a weight of the model has changed")
            expect(seen[key]["records"]).is_true("gradient tracking is still switched off after your function returned")
            expect(seen[key]["modes_kept"]).is_true("a module of the model has changed its mode (train or eval)")
            expect(Seen(seen[key]["later"].value, "a later run")).close_to(composed(net, corrupt)["head"])
        expect(Seen(seen["part"]["channels"][0].value, "channels")).equals(channels)

    def test_no_hook_is_left_and_others_stay(seen):
        for key in ("full", "part", "empty"):
            no_hook_left(seen[key]["hooks_left"])
            expect(seen[key]["caller_fired"]).is_true("a hook that the caller had registered did not fire")

    def test_nothing_is_left_when_the_model_raises(seen):
        back_to_normal(seen["raised_at_once"], " in the first run")
        back_to_normal(seen["raised_on_corrupt"], " in the run on `corrupt`")


def named(seen: Seen, key: str) -> Seen:
    """The result of one of the three calls, with a path that says which."""
    path = {"full": "without `channels`", "part": "with `channels`", "empty": "with an empty list"}[key]
    return Seen(seen[key]["result"].value, path)


def patched(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int] | None, dim: int = 1
) -> Tensor:
    """The model's output on `corrupt` with a place patched from `clean`."""
    source = composed(net, clean)[place]
    edit = (lambda value: source) if channels is None else (lambda value: written(value, channels, source, dim))
    return composed(net, corrupt, place, after=edit)["head"]


def patched_input(net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int]) -> Tensor:
    """The same with the input of the place patched instead of its output."""
    source = composed(net, clean)[place + " in"]
    return composed(net, corrupt, place, before=lambda value: written(value, channels, source))["head"]


def patched_after_in_place(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int] | None
) -> Tensor:
    """The same with the clean output as the in-place activation after it has left it."""
    source = composed(net, clean)[{"conv1": "act1", "conv2": "act2"}[place]]
    edit = (lambda value: source) if channels is None else (lambda value: written(value, channels, source))
    return composed(net, corrupt, place, after=edit)["head"]


def on_other_axes(net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int]) -> list[Tensor]:
    """The model's output when another axis than 1 was patched."""
    axes = (0,) if place == "mid" else (0, 2, 3)
    return [patched(net, clean, corrupt, place, channels, axis) for axis in axes]
