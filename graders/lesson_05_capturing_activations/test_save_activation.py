"""Exercise 05-save-activation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graders.authoring import (
    HOOK_MISTAKES,
    Mistake,
    Seen,
    apart,
    close,
    exercise,
    expect,
    model_unchanged,
    no_hook_left,
)
from graders.lesson_05_capturing_activations.judging import block, linear, outputs, ran_once, without_graph
from graders.lesson_05_capturing_activations.shared import Observer, build, plain_tuple, when_it_raises

SMALL = 20_000
"""A file with a few numbers has no more bytes than this."""


@exercise(
    "05-save-activation",
    points=2,
    title="Save an activation to a file",
    hints=(
        "A view knows only where to look in the storage of another tensor, and `torch.save` writes that whole storage. "
        "`clone()` makes a tensor with a storage of its own.",
        "Only the first call counts. Keep what the hook stored first, and let later calls change nothing.",
        "Detach and clone inside the hook, before anything can rewrite the output. Write the file there or afterwards.",
    ),
    cases=({"view": "columns"}, {"view": "rows"}, {"view": "columns"}),
)
class TestSaveActivation:
    """Write `save_activation(model, name, x, path)`. `name` is the name of a submodule of `model`, and `path` is a
    `str` or a `pathlib.Path`. Run `model(x)` exactly once, to its end. Write the output of the *first* call of that
    submodule to the file `path` with `torch.save`, and return the shape of that output as a tuple of ints.

    - The output is saved as it left the submodule: a later layer that works in place does not change it.
    - The file holds one plain CPU tensor that does not require grad.
    - The file holds the values of this tensor and no others. The output may be a small view into a large tensor.
    - A file that is already there is overwritten.

    The submodule is called at least once, and its outputs are tensors. Each module keeps its mode (training or eval),
    and the parameters and their `.grad` stay. Hooks that were there before stay and fire as usual. No hook of yours is
    left, even when the model raises an exception; the exception comes through. Whether a file is written in that case
    is up to you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `save_activation(model, "1", x, "relu.pt")` returns `(1, 2)`. Then `torch.load("relu.pt")` gives
    `tensor([[0., 2.]])`.
    """

    def draw(rng, view):
        body, layer, act, head, window = rng.names(5)
        order = [layer, act] * rng.integer(2, 3)
        inside = ["block", {act: ["relu", True], layer: linear(rng, 3, 3)}, order]
        return {
            "spec": block(rng, [body, head], {body: inside, head: linear(rng, 3, 2)}),
            "name": f"{body}.{layer}",
            "wide": ["block", {window: ["window", view], layer: linear(rng, 4, 4, torch.float64)}, [layer, window]],
            "window": window,
            "x": rng.tensor(2, 3),
            "image": rng.tensor(4, 4, dtype=torch.float64),
            "old": rng.tensor(2, 3),
        }

    def alive(spec, name, x, old):
        first, *_, last = outputs(spec, x, name)
        return apart(first, last, first.relu(), old)

    def probe(student, spec, name, wide, window, x, image, old):
        seen = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "activation"
            torch.save(old, path)
            witness = Observer(build(spec), name)
            seen["shape"] = plain_tuple(student.save_activation(witness.model, name, x, path))
            seen |= {"file": content(path), **witness.report()}
            path = Path(folder) / "view.of.50000"
            seen["view_shape"] = plain_tuple(student.save_activation(build(wide), window, image, str(path)))
            seen |= {"view_file": content(path), "view_bytes": path.stat().st_size if path.exists() else None}
            failed = Path(folder) / "failed.pt"
            seen |= when_it_raises(lambda: build(spec), lambda model: student.save_activation(model, name, x, failed))
        return seen

    mistakes = (
        Mistake(
            "saved-with-grad",
            lambda seen: getattr(seen["file"]["tensor"].value, "requires_grad", False),
            "The tensor in the file requires grad: whoever loads it would train on it by accident. "
            "Detach before saving.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x: (
                saved_without_grad(seen) and close(seen["file"]["tensor"], outputs(spec, x, name)[0].relu())
            ),
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, name, x: (
                saved_without_grad(seen) and close(seen["file"]["tensor"], outputs(spec, x, name)[-1])
            ),
            "The module ran more than once, and each call overwrote what you had saved. The task asks for the output "
            "of its first call.",
        ),
        Mistake(
            "saved-the-whole-storage",
            lambda seen, spec, name, x: (
                saved_without_grad(seen)
                and close(seen["file"]["tensor"], outputs(spec, x, name)[0])
                and seen["view_bytes"].value >= SMALL
            ),
            "The output was a small view into a large tensor, and `torch.save` wrote the whole storage behind the "
            "view. `clone()` makes a tensor that holds its own values only; `contiguous()` need not.",
        ),
        Mistake(
            "kept-the-old-file",
            lambda seen, old: close(seen["file"]["tensor"], old) and seen["view_file"]["tensor"].tensor is not None,
            "A file was already there, and you kept it. Find out in another way whether this is the first call, and "
            "overwrite old files.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_file_holds_the_first_output(seen, spec, name, x):
        readable(seen["file"])
        expect(seen["file"]["tensor"]).close_to(outputs(spec, x, name)[0], detached=False)

    def test_the_saved_tensor_does_not_require_grad(seen):
        for file in ("file", "view_file"):
            without_graph(seen[file]["tensor"])

    def test_the_file_holds_its_own_values_only(seen, wide, window, image):
        readable(seen["view_file"])
        expect(seen["view_file"]["tensor"]).close_to(outputs(wide, image, window)[0], detached=False)
        if (size := expect(seen["view_bytes"]).of_type(int)) >= SMALL:
            numbers = outputs(wide, image, window)[0].numel()
            expect(seen["view_bytes"]).fail(f"the file of {numbers} numbers has {size} bytes")

    def test_the_shape_is_returned(seen, spec, name, x, wide, window, image):
        expect(seen["shape"]).equals(tuple(outputs(spec, x, name)[0].shape))
        expect(seen["view_shape"]).equals(tuple(outputs(wide, image, window)[0].shape))

    def test_the_model_runs_once(seen, spec, name, x):
        ran_once(seen, callers_hooks=1 + len(outputs(spec, x, name)))

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def content(path: Path) -> dict[str, Any]:
    """What `torch.load` reads from a file, or why it does not."""
    if not path.exists():
        return {"tensor": None, "error": "there is no file"}
    try:
        tensor = torch.load(path, weights_only=True)
        plain = not isinstance(tensor, nn.Parameter)
        return {"tensor": tensor, "error": "" if plain else "the file holds an `nn.Parameter`, not a plain tensor"}
    except Exception as error:
        return {"tensor": None, "error": f"`torch.load(path, weights_only=True)` raised {type(error).__name__}"}


def readable(seen: Seen) -> None:
    """The file is there and `torch.load` reads it."""
    if seen["error"].value:
        expect(seen["error"]).fail(seen["error"].value)


def saved_without_grad(seen: Seen) -> bool:
    """Whether the file holds a tensor that does not require grad."""
    return getattr(seen["file"]["tensor"].value, "requires_grad", True) is False
