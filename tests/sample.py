"""A small grader of two exercises, as the rooms see those of the course that only mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from graders.core.exercise import Check, Inputs, Mistake
from graders.core.expect import Seen, expect
from graders.wire.draws import Rng
from tests.plain import PlainExercise

FACTORS = {"double": 2.0, "negate": -1.0}


def a_vector(rng: Rng, kind: str) -> Inputs:
    return {"x": torch.tensor([rng.integer(1, 24) / 8 for _ in range(3)]), "kind": kind}


def the_sum_is_right(seen: Seen, draw: Inputs) -> None:
    expect(seen["total"]).close_to(FACTORS[draw["kind"]] * draw["x"].sum())


def the_gradient_is_right(seen: Seen, draw: Inputs) -> None:
    expect(seen["x.grad"]).close_to(torch.full_like(draw["x"], FACTORS[draw["kind"]]))


def no_hook_is_left(seen: Seen, draw: Inputs) -> None:
    expect(seen["hooks"]).equals(0)


def scaling_mistake(draws: Sequence[Inputs], outcomes: Sequence[Any]) -> str | None:
    if any("grad can be implicitly created" in outcome.message for outcome in outcomes):
        return "no-sum"
    totals = [outcome.seen["total"].tensor if outcome.seen else None for outcome in outcomes]
    unscaled = [
        total is not None and total.shape == () and bool(torch.isclose(total, draw["x"].sum()))
        for total, draw in zip(totals, draws)
    ]
    return "not-scaled" if all(unscaled) else None


SCALE_SUM = PlainExercise(
    key="90-scale-sum",
    name="scale_sum",
    points=3,
    minutes=15,
    difficulty=2,
    core=True,
    title="Scale, then add up",
    hints=("Multiply first.", "Then call `sum()`."),
    contract="""Write `scale_sum(x, k)`, which returns the sum of `k * x`.

**Example.** For `x = tensor([1., 2.])` and `k = 2` the result is `tensor(6.)`.""",
    cases=({"kind": "double"}, {"kind": "negate"}),
    draw=a_vector,
    source="""
from torch import Tensor

def probe(student, x, kind):
    x.requires_grad_()
    total = student.scale_sum(x, {"double": 2.0, "negate": -1.0}[kind])
    if isinstance(total, Tensor):
        total.backward()
        total = total.detach().clone()
    return {"total": total, "x.grad": x.grad, "hooks": len(x._backward_hooks or ())}
""",
    checks=(
        Check("test_the_sum_is_right", the_sum_is_right),
        Check("test_the_gradient_is_right", the_gradient_is_right),
        Check("test_no_hook_is_left", no_hook_is_left),
    ),
    mistakes=(
        Mistake("not-scaled", "You added up `x` itself: scale it first."),
        Mistake("no-sum", "Add up the entries with `sum()`."),
    ),
    recognise=scaling_mistake,
    file=Path(__file__),
    module=__name__,
    class_name="SCALE_SUM",
)

WRAP = PlainExercise(
    key="90-wrap",
    name="wrapped_layer",
    points=1,
    title="Wrap",
    hints=("One.", "Two."),
    contract="""Write `wrapped_layer(layer)`, which returns the layer in an `nn.Sequential`.

**Example.** For `layer = nn.ReLU()` the result is `nn.Sequential(nn.ReLU())`.""",
    cases=({},),
    draw=lambda rng: {"width": rng.integer(1, 3)},
    source="""
from torch import nn

def probe(student, width):
    return type(student.wrapped_layer(nn.Linear(width, width))).__name__
""",
    checks=(Check("test_it_is_a_sequential", lambda seen, draw: expect(seen).equals("Sequential")),),
    mistakes=(Mistake("same-layer", "You returned the layer itself."),),
    recognise=lambda draws, outcomes: (
        "same-layer" if all(one.seen and one.seen.value == "Linear" for one in outcomes) else None
    ),
    file=Path(__file__),
    module=__name__,
    class_name="WRAP",
)
