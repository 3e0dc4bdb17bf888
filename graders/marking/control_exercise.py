"""The exercises of the control notebook (`control.py`), written like those of the course."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

from dataclasses import replace

from graders.core.exercise import Exercise
from graders.scenes.scene import stories
from graders.scenes.stories.control import doubled
from graders.verdict.scene_exercise import exercise


@exercise(
    "00-known-good",
    points=1,
    title="Control",
    hints=("None.",),
    scene=stories(promises=[doubled], axes={"dtype": ("float32", "float64")}),
)
class TestKnown:
    """Return the sum of `x`, whose gradient a hook doubles."""

    def reference(x):
        return (2 * x).sum()

    class Mistakes:
        def hook_changed_nothing(x):
            """The hook returned nothing."""
            return x.sum()


GOOD_EXERCISE: Exercise = TestKnown
BAD_EXERCISE: Exercise = replace(GOOD_EXERCISE, key="00-known-bad", name="known_bad")
