"""Exercise 06-ablate-channels."""

import math

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_06_changing_the_forward.programs import run, wrong_runs
from graders.scenes.scene import stories
from graders.scenes.stories import edited_runs as edits
from graders.scenes.stories import model_states


def zeros(output, channels, dim=1):
    """A copy that is 0 at these indices."""
    return output.index_fill(dim, torch.tensor(channels, dtype=torch.long), 0)


def ablate(model, name, channels, x, off=zeros, run=run):
    """The model's output when `off(output, channels)` takes the place of the submodule's output."""
    return run(model, name, lambda module, args, output: off(output, channels), x)


def all_but(output, channels):
    """The channels that are not listed."""
    return [channel for channel in range(output.shape[1]) if channel not in channels]


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
        "Clean up: `with layer.register_forward_hook(hook):` removes the hook even when the model raises.",
    ),
    why=(
        "The hook writes zeros into a copy, so the layer's own output stays as it was for whoever holds it. "
        "`masked_fill` with a mask of channels would do as well; a product with zeros would not, since it leaves a "
        "NaN where one was."
    ),
    scene=stories(
        promises={
            "the listed channels are off": (edits.edited, edits.around),
            "a later call starts afresh": edits.later,
            "the model runs once": edits.run_as_it_is,
            "x and the model are as before": edits.left_alone,
            "an exception comes through and nothing is left": edits.model_raises,
            "listed channels are 0, even where they were inf or nan": (edits.switched_off, edits.single_channel),
            "two calls at the same time do not disturb each other": edits.called_inside,
        },
        axes=edits.MODEL,
        impossible=[model_states.no_odd_chain],
        ask=edits.ablated,
        runs=1,
    ),
)
class TestAblateChannels:
    """Write `ablate_channels(model, name, channels, x)`: run the model on `x` and return what it gives when the listed
    channels of the output of the submodule `name` are 0, and everything after it computes with that. Channels are
    dimension 1. Return the result detached, and leave no hook behind.

    **Example.**

    >>> model = nn.Sequential(nn.Identity(), nn.Linear(2, 1, bias=False))
    >>> _ = nn.init.ones_(model[1].weight)  # now it adds its two inputs
    >>> ablate_channels(model, "0", [1], torch.tensor([[3.0, 4.0]]))
    tensor([[3.]])

    **Fine print.** `channels` is a list of indices 0, 1, ...; it may be empty, or hold an index twice. `name` may be
    nested (`"block.0"`), or `""`, the model itself. The model runs once and calls the submodule once, with any
    arguments; its output is a floating tensor of two or more dimensions. The listed channels become 0 whatever they
    were, even `inf`; all other entries stay, even `nan`. The model returns one tensor,
    and your result need not be a copy.
    """

    reference = ablate

    class Mistakes(wrong_runs(ablate)):
        def forgot_return(model, name, channels, x):
            return ablate(model, name, channels, x, off=lambda output, channels: None)

        def edited_weights(model, name, channels, x):
            """You changed the weights, so every later run of the model differs, too. Change the output of the module
            in a forward hook; that also works for modules without weights.
            """
            with torch.no_grad():
                model.get_submodule(name).weight[channels] = 0
            return model(x).detach()

        def multiplied_by_zero(model, name, channels, x):
            """Where a channel held `inf` or `nan`, it holds `nan` now: that is what `0 * inf` and `inf - inf` give. Do
            not compute zeros from the old values. Write them: `output[:, channels] = 0`, in a clone.
            """

            def off(output, channels):
                return output * zeros(torch.ones_like(output), channels)

            return ablate(model, name, channels, x, off)

        def replaced_nan(model, name, channels, x):
            """`nan` has become 0 in channels that are not in your list, too. Write zeros into those of the list alone:
            `output[:, channels] = 0`, in a clone.
            """
            numbers = lambda output, channels: zeros(output.nan_to_num(0.0, math.inf, -math.inf), channels)  # noqa: E731
            return ablate(model, name, channels, x, numbers)

        def wrong_axis(model, name, channels, x):
            return ablate(model, name, channels, x, lambda output, channels: zeros(output, channels, -1))

        def wrong_axis__2(model, name, channels, x):
            return ablate(model, name, channels, x, lambda output, channels: zeros(output, channels, 0))

        def changed_callers_tensor(model, name, channels, x):
            def off(output, channels):
                output[:, channels] = 0
                return output

            return ablate(model, name, channels, x, off)

        def one_channel_at_a_time(model, name, channels, x):
            """Only one of the listed channels is off at a time. In one run all of them are 0: `output[:, channels] =
            0`, in a clone.
            """
            return ablate(model, name, channels[-1:], x)

        def the_others(model, name, channels, x):
            """It is the other way round: you kept the channels that are listed, and the others became 0."""
            return ablate(
                model, name, channels, x, off=lambda output, channels: zeros(output, all_but(output, channels))
            )

        def returned_the_layers_output(model, name, channels, x):
            """You returned what the submodule puts out. The task asks for what the model returns then."""
            kept = []
            ablate(model, name, channels, x, off=lambda *given: kept.append(zeros(*given)) or kept[-1])
            return kept[0].detach()
