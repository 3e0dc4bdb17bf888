"""The exercise of the control (`control.py`), made like those of the course."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

from dataclasses import replace

from graders.core.exercise import Exercise, Mistake, exercise
from graders.core.expect import close, expect


@exercise("00-known-good", points=1, title="Control", hints=("None.",), cases=({"name": "known_good"},))
class TestKnown:
    """Return the sum of `x`, whose gradient a hook doubles."""

    def draw(rng, name):
        return {"x": rng.tensor(3), "name": name}

    def probe(student, x, name):
        x.requires_grad_()
        getattr(student, name)(x).backward()
        return x.grad

    mistakes = (Mistake("hook-changed-nothing", lambda seen, x: close(seen, x * 0 + 1), "The hook returned nothing."),)

    def test_the_gradient_is_doubled(seen, x):
        expect(seen).close_to(x * 0 + 2)


GOOD: Exercise = TestKnown
BAD: Exercise = replace(GOOD, key="00-known-bad", name="known_bad", cases=({"name": "known_bad"},))
