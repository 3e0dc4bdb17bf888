"""What is planted in the models of a scene, such as a fault: drawn outside, where the learner's code is not.

The scene and the names of its cases go into the box, where an answer can read them in the frames that called it. So an
axis that says what is wrong with a model stays here. In its place the scene finds what was made of it: numbers, and
models as text (`graders.scenes.planted`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graders.core.exercise import Case
from graders.wire.draws import Rng


@dataclass(frozen=True, eq=False, kw_only=True)
class Planted:
    """Axes that stay outside, and what they plant.

    `plant(rng, case)` gets a case with all axes. It returns plain, hashable values, which the scene finds in its case.
    """

    axes: Mapping[str, Sequence[str]]
    plant: Callable[[Rng, Case], Case]
    shown_after: int = 1
    """From which refused check on a learner sees it, in the program that shows what is wrong with an answer."""
    impossible: Sequence[Callable[..., bool]] = ()
    """As in `graders.scenes.scene.Scene`, for combinations with axes of the scene, too."""

    def in_box(self, rng: Rng, case: Case) -> Case:
        """The case as the scene finds it."""
        return {axis: value for axis, value in case.items() if axis not in self.axes} | dict(self.plant(rng, case))


NOTHING = Planted(axes={}, plant=lambda rng, case: {})
"""For the many scenes in which nothing is hidden."""
