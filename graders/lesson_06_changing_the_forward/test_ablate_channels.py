"""Exercise 06-ablate-channels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, snapshot
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
    "06-ablate-channels",
    points=2,
    title="Switch channels off",
    hints=(
        "In a forward hook: clone the output, set the channels to 0 in the clone, return the clone.",
        "Channels are dimension 1: `clone[:, channels] = 0` works for any number of dimensions, and for no channels.",
        "Clean up: `with layer.register_forward_hook(hook):` removes the hook also when the model raises.",
    ),
    cases=(
        {"place": "conv2", "train": True},
        {"place": "mid", "train": False},
        {"place": "act1", "train": True},
        {"place": "entry", "train": False},
    ),
)
class TestAblateChannels:
    """Write `ablate_channels(model, name, channels, x)`. `name` is the name of a submodule as in `named_modules()`,
    possibly nested (`"block.0"`). In one forward pass it is called once, and its output is a tensor of two or more
    dimensions. `channels` is a list of indices into dimension 1 of that output; it may be empty.

    Return what `model(x)` gives when the listed channels of the submodule's output are 0 and everything after it
    computes with that. The result is detached. With an empty list it is the ordinary output of the model.

    `x`, the list `channels`, the modules of the model, their weights (and their `.grad`) and modes stay as they are,
    and gradient tracking is on afterwards as before. No hook of yours is left. All this holds even when the model
    raises; the exception comes through. Hooks that were there before stay and fire.

    **Example.** Let `model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))` with `model[0]` giving `[[3., 4.]]` for
    `x`, and `model[1]` adding its two inputs. Then `ablate_channels(model, "0", [1], x)` is `tensor([[3.]])`.
    """

    def draw(rng, place, train):
        return {
            "net": drawn_net(rng, train),
            "x": rng.tensor(4, 4, 4, 4),
            "place": place,
            "channels": rng.shuffled(range(4))[: rng.integer(2, 3)],
        }

    def alive(net, x, place, channels):
        results = [composed(net, x)["head"], ablated(net, x, place, channels), *on_wrong_axes(net, x, place, channels)]
        if place in ("conv2", "mid"):
            results.append(composed(net, x, place, before=lambda value: written(value, channels, 0.0))["head"])
        return all_different(*results)

    def probe(student, net, x, place, channels):
        name, mine, given = dotted(net, place), x.clone(), list(channels)
        model = two_path(net)
        seen = observed(model, name, lambda: student.ablate_channels(model, name, given, mine), x.clone())
        seen |= {"x": snapshot(mine), "channels": given}
        tracked = place != "entry"  # there, an edit in place would end in another error
        leaf = x.clone().requires_grad_(tracked)
        seen["empty"] = student.ablate_channels(two_path(net), name, [], leaf)
        seen["leaf_kept"] = leaf.requires_grad is tracked and leaf.grad is None
        raising = two_path(net)
        return seen | after_boom(raising, lambda: student.ablate_channels(raising, name, list(channels), x.clone()))

    mistakes = (
        Mistake(
            "edited-weights",
            lambda seen: seen["weights_kept"].value is False,
            "You changed the weights, so every later run of the model differs, too. Change the output of the module "
            "in a forward hook; that also works for modules without weights.",
            raises="has no attribute 'weight'",
        ),
        Mistake(
            "forgot-return",
            lambda seen, net, x: close(seen["result"], composed(net, x)["head"]),
            "This is the ordinary output of the model: the zeros did not arrive. A forward hook that returns `None` "
            "keeps the old output. Return the changed tensor.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, x, place, channels: (
                (
                    place in ("conv2", "mid")
                    and close(
                        seen["result"],
                        composed(net, x, place, before=lambda value: written(value, channels, 0.0))["head"],
                    )
                )
                or (place != "entry" and close(seen["result"], composed(net, written(x, channels, 0.0))["head"]))
            ),
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, x, place, channels: any(
                close(seen["result"], result) for result in on_wrong_axes(net, x, place, channels)
            ),
            "You switched off another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension 2", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, net, x, place, channels: (
                close(seen["result"], ablated(net, x, place, channels)) and not close(seen["x"], x)
            ),
            CHANGED_CALLERS_TENSOR,
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks_left"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_after_exception"].value > 0,
        ),
    )

    def test_the_listed_channels_are_off(seen, net, x, place, channels):
        expect(seen["result"]).close_to(ablated(net, x, place, channels), detached=False)

    def test_an_empty_list_changes_nothing(seen, net, x):
        expect(seen["empty"]).close_to(composed(net, x)["head"], detached=False)

    def test_the_result_is_detached(seen, net, x, place, channels):
        expect(seen["result"]).close_to(ablated(net, x, place, channels))
        expect(seen["empty"]).close_to(composed(net, x)["head"])

    def test_x_and_the_model_are_as_before(seen, net, x, channels):
        expect(seen["x"]).close_to(x)
        expect(seen["leaf_kept"]).is_true("an `x` that requires grad has a `.grad` now, or no longer requires grad")
        expect(seen["channels"]).equals(channels)
        expect(seen["weights_kept"]).is_true("the weights of the model have changed")
        expect(seen["trainable"]).is_true("a weight of the model no longer requires grad")
        expect(seen["grads_kept"]).is_true("the `.grad` of a weight of the model has changed")
        expect(seen["records"]).is_true("gradient tracking is still switched off after your function returned")
        expect(seen["modes_kept"]).is_true("a module of the model has changed its mode (train or eval)")
        expect(seen["later"]).close_to(composed(net, x)["head"])

    def test_no_hook_is_left_and_others_stay(seen):
        no_hook_left(seen["hooks_left"])
        expect(seen["caller_fired"]).is_true("a hook that the caller had registered did not fire")

    def test_nothing_is_left_when_the_model_raises(seen):
        back_to_normal(seen)


def ablated(net: dict[str, Any], x: Tensor, place: str, channels: list[int], dim: int = 1) -> Tensor:
    """The model's output with these channels of a place at 0."""
    return composed(net, x, place, after=lambda value: written(value, channels, 0.0, dim))["head"]


def on_wrong_axes(net: dict[str, Any], x: Tensor, place: str, channels: list[int]) -> list[Tensor]:
    """The model's output when another axis than 1 was indexed."""
    return [ablated(net, x, place, channels, dim) for dim in ((0,) if place == "mid" else (0, 2, 3))]
