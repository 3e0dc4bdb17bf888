"""Exercise 06-patch-activation."""

import contextlib
from functools import partial

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_06_changing_the_forward import programs
from graders.scenes.scene import stories
from graders.scenes.stories import edited_runs as edits
from graders.scenes.stories import model_states


def put(output, kept, channels, dim=1):
    """The channels of `kept` in a copy of `output`; without `channels`, all of `kept`."""
    if channels is None:
        return kept
    index = torch.tensor(channels, dtype=torch.long)
    return output.index_copy(dim, index, kept.index_select(dim, index))


def patch(model, name, clean, corrupt, channels=None, *, run=programs.run, put=put, copy=torch.clone):
    """Two runs: one keeps a copy of the output, and in the other one `put(output, kept, channels)` takes its place."""
    kept = []
    run(model, name, lambda module, args, output: kept.append(copy(output.detach())), clean)
    return run(model, name, lambda module, args, output: put(output, kept[0], channels), corrupt)


class Stop(Exception):
    """Ends a run."""


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
        "For some of the channels: clone the output of the corrupt run, write the clean channels into the clone, and "
        "return it. `None` and `[]` are two different things.",
    ),
    why=(
        "Two runs, and a hook for each: one keeps a copy of the clean output, the other puts it into the corrupt run. "
        "A single hook that keeps in its first call and replaces in its second would do as well, and `torch.where` "
        "with a mask of channels could take the place of the copy."
    ),
    scene=stories(
        promises={
            "the whole output comes from the clean run": edits.whole,
            "only the listed channels are replaced": (edits.edited, edits.around),
            "a later call starts afresh": edits.later,
            "the model runs on clean and then on corrupt": (edits.run_as_it_is, edits.run_for_equal_inputs),
            "inputs and model are as before": (edits.left_alone, edits.left_alone_by_identity),
            "an exception comes through and nothing is left": edits.model_raises,
            "channels are replaced exactly": (edits.replaced_exactly, edits.single_channel_replaced),
            "two calls at the same time do not disturb each other": edits.called_inside,
        },
        axes=edits.MODEL,
        impossible=[model_states.no_odd_chain],
        ask=edits.patched,
        runs=2,
    ),
)
class TestPatchActivation:
    """Write `patch_activation(model, name, clean, corrupt, channels=None)`: run the model on `clean`, then on
    `corrupt`, and return what it gives for `corrupt` when the output of the submodule `name` is replaced by that of the
    clean run: all of it, or only the listed channels (dimension 1).

    **Example.**

    >>> model = nn.Sequential(nn.Identity(), nn.Linear(2, 1, bias=False))
    >>> _ = nn.init.ones_(model[1].weight)  # now it adds its two inputs
    >>> clean, corrupt = torch.tensor([[3.0, 4.0], [1.0, 1.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    >>> patch_activation(model, "0", clean, corrupt)
    tensor([[7.],
            [2.]])
    >>> patch_activation(model, "0", clean, corrupt, channels=[1])
    tensor([[9.],
            [8.]])

    **Fine print.** One run for each input, even when the two are equal; both have the same shape. The clean run may
    stop early. An empty list replaces nothing, and an index may appear twice. Channels are replaced exactly, even by
    `nan`. `name` may be nested, or `""`, the model itself; each run calls the submodule once, with any arguments, and
    its output is a tensor of two or more dimensions. Return one tensor, detached; it need not be a copy.
    """

    def reference(model, name, clean, corrupt, channels=None):
        return patch(model, name, clean, corrupt, channels)

    def reference_stops(model, name, clean, corrupt, channels=None):
        kept = []

        def keep(module, args, output):
            kept.append(output.detach().clone())
            raise Stop

        with contextlib.suppress(Stop):
            programs.run(model, name, keep, clean)
        return programs.run(model, name, lambda module, args, output: put(output, kept[0], channels), corrupt)

    class Mistakes(programs.wrong_runs(patch)):
        def forgot_return(model, name, clean, corrupt, channels=None):
            """You got the ordinary output for `corrupt`: the patch did not arrive. Either your hook returned `None`, or
            the hook that keeps the clean output was still there in the second run and overwrote what it had kept.
            """
            return patch(model, name, clean, corrupt, channels, put=lambda output, kept, channels: None)

        def swapped_runs(model, name, clean, corrupt, channels=None):
            """The roles are swapped: you ran the model on `clean` with a part of the corrupt run. Run `corrupt`, and
            patch in what comes from `clean`.
            """
            return patch(model, name, corrupt, clean, channels)

        def ignored_channels(model, name, clean, corrupt, channels=None):
            """You replaced the whole output. When `channels` is a list, only the listed channels come from the clean
            run; the others stay those of the corrupt run.
            """
            return patch(model, name, clean, corrupt)

        def empty_means_all(model, name, clean, corrupt, channels=None):
            """`channels=[]` names no channel, and you replaced them all. `if not channels` is true for `[]` and for
            `None`; ask `if channels is None`.
            """
            return patch(model, name, clean, corrupt, channels or None)

        def stored_alias(model, name, clean, corrupt, channels=None):
            return patch(model, name, clean, corrupt, channels, copy=lambda output: output)

        def wrong_axis(model, name, clean, corrupt, channels=None):
            return patch(model, name, clean, corrupt, channels, put=lambda *given: put(*given, 0))

        def wrong_axis__2(model, name, clean, corrupt, channels=None):
            return patch(model, name, clean, corrupt, channels, put=lambda *given: put(*given, -1))

        def changed_callers_tensor(model, name, clean, corrupt, channels=None):
            return patch(
                model, name, clean, corrupt, channels, put=lambda output, *given: output.copy_(put(output, *given))
            )

        def changed_callers_tensor__2(model, name, clean, corrupt, channels=None):
            def write(output, kept, channels):
                return output.copy_(kept) if channels is None else put(output, kept, channels)

            return patch(model, name, clean, corrupt, channels, put=write)

        def changed_callers_tensor__3(model, name, clean, corrupt, channels=None):
            def write(output, kept, channels):
                return kept if channels is None else output.copy_(put(output, kept, channels))

            return patch(model, name, clean, corrupt, channels, put=write)

        def before_the_callers_hook(model, name, clean, corrupt, channels=None):
            runs = iter([partial(programs.run, prepend=True), programs.run])
            return patch(model, name, clean, corrupt, channels, run=lambda *given: next(runs)(*given))

        def one_run_for_both(model, name, clean, corrupt, channels=None):
            """You ran both inputs as one batch. Layers that look at the batch, as a batch norm does, mix the two then:
            run the model on `clean`, and then on `corrupt`.
            """
            count = len(clean)

            def hook(module, args, output):
                return torch.cat([output[:count], put(output[count:], output[:count], channels)])

            return programs.run(model, name, hook, torch.cat([clean, corrupt]))[count:]

        def mixed_by_numbers(model, name, clean, corrupt, channels=None):
            """Where one of the two runs held `inf` or `nan`, `nan` is left: that is what `0 * inf` and `inf - inf` are.
            Do not mix the two outputs by numbers. Write the channels, `new[:, channels] = kept[:, channels]`, into a
            clone.
            """

            def mix(output, kept, channels):
                mask = put(torch.zeros_like(output), torch.ones_like(output), channels)
                return mask * kept + (1 - mask) * output

            return patch(model, name, clean, corrupt, channels, put=mix)

        def mixed_by_numbers__2(model, name, clean, corrupt, channels=None):
            def mix(output, kept, channels):
                mask = put(torch.zeros_like(output), torch.ones_like(output), channels)
                return kept if channels is None else mask * kept + (1 - mask) * output

            return patch(model, name, clean, corrupt, channels, put=mix)

        def zeros_elsewhere(model, name, clean, corrupt, channels=None):
            """The other channels became 0. Only those that are listed are replaced: write them into a copy of the
            output.
            """
            return patch(
                model,
                name,
                clean,
                corrupt,
                channels,
                put=lambda output, kept, channels: put(output * 0, kept, channels),
            )

        def returned_the_layers_output(model, name, clean, corrupt, channels=None):
            """You returned what the submodule puts out. The task asks for what the model returns then."""
            last = []
            patch(model, name, clean, corrupt, channels, put=lambda *given: last.append(put(*given)) or last[-1])
            return last[0].detach()

        def called_the_layer_alone(model, name, clean, corrupt, channels=None):
            """You called the submodule on `clean` itself. In the model, other layers come before it: run
            `model(clean)`, and let a hook keep the output.
            """
            kept = model.get_submodule(name)(clean).detach().clone()
            return programs.run(model, name, lambda module, args, output: put(output, kept, channels), corrupt)
