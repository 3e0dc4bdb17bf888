"""The modules in the models of 13-wrong-mode whose mode may matter.

They are written here as text, for an answer can read everything that is beside it in the box.
"""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

OPERATIONS = {
    "positive": "x.abs() / 2 + 0.5",
    "negative": "-x.abs() / 2 - 0.5",
    "scale": "3 * x + 1 if m.training else 1 * x",
    "last entry": "grow_last(1 * x, 0.02 * m.training)",
    "floor": "x.relu() if m.training else 1 * x",
    "floor in place": "x.relu_() if m.training else x",
    "blank in place": "x.mul_(0)",
    "noise": "x + torch.rand(x.shape, dtype=torch.float32)",
    "second output": "(1 * x, 'a text', x.argmax() if m.training else x.argmin())",
    "gate": "0 * x if m.training else 1 * x",
    # These read or change a buffer: their own, or that of the module before them.
    "moves on": "grow(m, x - m.kept, 0.5 * m.training)",
    "counter": "grow(m, x + m.kept, 1)",
    "counts there": "grow(m.other[0], x + m.other[0].kept, 1)",
    "late": "grow(m, x + (m.kept - m.start) * m.training, 1)",
}
"""What a module computes from its input, by kind. `m.training` is its mode."""
LAYERS = {
    "dropout": "nn.Dropout(0.5)",
    "dropout of 0": "nn.Dropout(0.0)",
    "batch norm": "norm(True)",
    "norm without statistics": "norm(False)",
}
SUSPECTS = {
    "random numbers": ("positive, *dropout", "positive, *dropout of 0", "positive, *noise"),
    "kept buffers": ("positive, *moves on", "positive, counter, *counts there", "positive, *late, *late"),
    "in place": ("negative, *floor in place, *floor", "positive, *scale, blank in place", "positive, *floor"),
    "several calls": (
        "negative, *floor, positive, *floor",
        "positive, *floor, negative, *floor",
        "positive, *batch norm",
    ),
    "several outputs": ("positive, *last entry", "positive, *second output", "positive, *norm without statistics"),
}
"""Modules in the order of their calls, in each of three places; a name that occurs twice is one module. Those with a
star are in the other mode than the model, and the learner's function has to find out whether that matters."""


def row(modules: str) -> tuple[tuple[int, str, bool], ...]:
    """For each call: the number of the module, its text, and whether it is in the other mode."""
    words = modules.split(", ")
    kinds = [word.removeprefix("*") for word in words]
    texts = [LAYERS.get(kind) or f"made(lambda m, x: {OPERATIONS[kind]})" for kind in kinds]
    return tuple((kinds.index(kind), text, kind != word) for kind, text, word in zip(kinds, texts, words))


def suspicious_modules(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the scene reads: for a model in training mode and one in eval mode, modules in each of four places."""
    models = []
    for _ in range(2):
        first, second, third = rng.shuffled(SUSPECTS[case["suspects"]])
        models.append((row(f"positive, {second}, {third}, scale"), row("*scale"), row("*floor, *gate"), row(first)))
    return {"models": tuple(models)}


IN_WRONG_MODE = Planted(axes={"suspects": tuple(SUSPECTS)}, plant=suspicious_modules)
