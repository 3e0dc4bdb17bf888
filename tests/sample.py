"""A small grader of two exercises, in the form of those of the course."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, close, exercise, expect, snapshot, tensor_hooks

FACTORS = {"double": 2.0, "negate": -1.0}
ANSWERS = {"double": 2, "negate": -1}
"""For the checks; a probe has no use for it."""


def factor(kind: str) -> float:
    """The number that belongs to a kind; the probe needs it."""
    return FACTORS[kind]


def expected_gradient(x: Tensor, kind: str) -> Tensor:
    """For the checks; a probe has no use for it."""
    return torch.full_like(x, ANSWERS[kind])


@exercise(
    "90-scale-sum",
    points=3,
    minutes=15,
    difficulty=2,
    core=True,
    title="Scale, then add up",
    hints=("Multiply first.", "Then call `sum()`."),
    cases=({"kind": "double"}, {"kind": "negate"}),
)
class TestScaleSum:
    """Write `scale_sum(x, k)`, which returns the sum of `k * x`.

    **Example.** For `x = tensor([1., 2.])` and `k = 2` the result is `tensor(6.)`.
    """

    def draw(rng, kind):
        return {"x": rng.tensor(3), "kind": kind}

    def alive(x, kind):
        return bool(x.sum() != 0)

    def probe(student, x, kind):
        x.requires_grad_()
        total = student.scale_sum(x, factor(kind))
        if isinstance(total, Tensor):
            total.backward()
        return {"total": snapshot(total), "x.grad": x.grad, "hooks": tensor_hooks(x)}

    mistakes = (
        Mistake(
            "not-scaled", lambda seen, x: close(seen["total"], x.sum()), "You added up `x` itself: scale it first."
        ),
        Mistake("no-sum", raises=("grad can be implicitly created",), message="Add up the entries with `sum()`."),
    )

    def test_the_sum_is_right(seen, x, kind):
        expect(seen["total"]).close_to(ANSWERS[kind] * x.sum())

    def test_the_gradient_is_right(seen, x, kind):
        expect(seen["x.grad"]).close_to(expected_gradient(x, kind))

    def test_no_hook_is_left(seen):
        expect(seen["hooks"]).equals(0)


@exercise("90-wrap", points=1, title="Wrap", hints=("One.", "Two."), name="wrapped_layer", cases=({},))
class TestWrap:
    """Write `wrapped_layer(layer)`, which returns the layer in an `nn.Sequential`.

    **Example.** For `layer = nn.ReLU()` the result is `nn.Sequential(nn.ReLU())`.
    """

    def draw(rng):
        return {"width": rng.integer(1, 3)}

    def probe(student, width):
        return type(student.wrapped_layer(nn.Linear(width, width))).__name__

    mistakes = (Mistake("same-layer", lambda seen: seen.value == "Linear", "You returned the layer itself."),)

    def test_it_is_a_sequential(seen):
        expect(seen).equals("Sequential")
