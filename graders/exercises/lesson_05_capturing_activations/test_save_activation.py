"""Exercise 05-save-activation."""

from pathlib import Path

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import outputs, run_with_hooks, wrong_runs
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states


def save(model, name, x, path, which=0, **how):
    """Write what a call of a module puts out to a file; return its shape."""
    output = outputs(model, [name], x, **how)[name][which]
    torch.save(output, path)
    return tuple(output.shape)


@exercise(
    "05-save-activation",
    points=2,
    minutes=15,
    difficulty=2,
    title="Save an activation to a file",
    hints=(
        "A view knows only where to look in the storage of another tensor, and `torch.save` writes that whole storage. "
        "`clone()` makes a tensor with a storage of its own.",
        "Only the first call counts. Keep what the hook stored first, and let later calls change nothing.",
        "Detach and clone inside the hook, before anything can rewrite the output. Write the file there or afterwards.",
    ),
    why=(
        "A view is saved with the whole storage that it looks into, so what goes to the file is a clone. The hook "
        "could also write the file itself and remove its own handle in the first call; then there is nothing to keep "
        "until the model is done."
    ),
    scene=stories(
        promises={
            "the file holds the first output": (captures.returned, captures.nothing_but_the_tensor),
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": captures.left_alone,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
        },
        axes={**captures.FIRST, **captures.MODEL},
        impossible=[model_states.no_odd_chain, captures.no_stack_for_the_norm],
        names=captures.one_name,
        function=captures.through_a_file,
    ),
)
class TestSaveActivation:
    """Write `save_activation(model, name, x, path)`: run the model once on `x`, write a copy of the output of the
    *first* call of its submodule `name` to the file `path` with `torch.save`, and return the shape of that output as a
    tuple of ints.

    **Example.** Afterwards, `torch.load` gives `tensor([[0., 2.]])`.

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> save_activation(model, "1", torch.tensor([[-1.0, 2.0]]), folder.name + "/relu.pt")
    (1, 2)

    **Fine print.** The submodule is called one or more times, and its outputs are tensors. The file holds one tensor
    that does not require grad, and nothing else: the output may be a small view into a large tensor. `path` is a `str`
    or a `pathlib.Path`, and need not end in `.pt`. A file that is already there is overwritten, and no other file is
    left behind. If the model raises, any files may be left.
    """

    reference = save

    class Mistakes(wrong_runs(save)):
        def saved_with_grad(model, name, x, path):
            """The tensor in the file requires grad: whoever loads it would train on it by accident. Detach before
            saving.
            """
            return save(model, name, x, path, copy=lambda output: output.clone())

        def stored_alias(model, name, x, path):
            return save(model, name, x, path, copy=lambda output: output.detach())

        def stored_alias__2(model, name, x, path):  # copied when the run is over
            every = outputs(model, [name], x, copy=lambda output: output.detach())[name]
            torch.save(every[0].clone(), path)
            return tuple(every[0].shape)

        def only_last_call(model, name, x, path):
            """The module ran more than once, and each call overwrote what you had saved. The task asks for the output
            of its first call.
            """
            return save(model, name, x, path, which=-1)

        def no_shape(model, name, x, path):
            """Your function returned `None`. It returns the shape, as a tuple of ints."""
            save(model, name, x, path)

        def only_last_call__2(model, name, x, path):
            every = outputs(model, [name], x)[name]
            torch.save(every[-1], path)
            return tuple(every[0].shape)

        def shape_of_the_last_call(model, name, x, path):
            """The file is right, but you return the shape of the last call. Keep that of the first call, with what you
            save.
            """
            every = outputs(model, [name], x)[name]
            torch.save(every[0], path)
            return tuple(every[-1].shape)

        def saved_the_whole_storage(model, name, x, path):
            """The output was a small view into a large tensor, and `torch.save` wrote the whole storage behind the
            view. `clone()` makes a tensor that holds its own values only; `contiguous()` need not.
            """
            shapes = []

            def note(output):
                if not shapes:
                    torch.save(output.detach(), path)
                shapes.append(tuple(output.shape))

            run_with_hooks(model, {name: note}, x)
            return shapes[0]

        def kept_the_old_file(model, name, x, path):
            """A file was already there, and you kept it. Find another way to tell whether this is the first call, and
            overwrite old files.
            """
            if Path(path).exists():
                return tuple(outputs(model, [name], x)[name][0].shape)
            return save(model, name, x, path)

        def kept_the_old_file__2(model, name, x, path):
            if not Path(path).exists():
                return save(model, name, x, path)
            outputs(model, [name], x)
            return tuple(torch.load(path).shape)

        def another_file(model, name, x, path):
            """You wrote to another file, and at `path` is what was there before. Use `path` as it is, a `str` or a
            `pathlib.Path`, without an ending of your own (`np.save` adds one).
            """
            return save(model, name, x, path + ".pt")

        def another_file__2(model, name, x, path):
            return save(model, name, x, f"{path}.pt")

        def another_file__3(model, name, x, path):
            return save(model, name, x, f"{path}.npy")  # as np.save does
