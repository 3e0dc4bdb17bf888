"""Compares the observations of an answer with what the references show for the same draw, which is cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graders.core.conditioning import ROUNDING_SHARE, share_used
from graders.core.difference import Difference, Kind
from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.shown import MISSING
from graders.differential.comparing import DEFAULT_TOLERANCE, FLOAT_TOLERANCE, find_differences, tensor_tolerance
from graders.differential.implementations import (
    DISTURBED,
    EXACT,
    Implementation,
    Play,
    Stage,
    reference_sections,
    tensors_and_floats,
)
from graders.run.transcript import Outcome
from graders.scenes.scene import EXAMPLE, Scene

MAX_KEPT_OUTCOMES = 1024
"""Outcomes of our own programs that are kept for the next answer: enough for a few seeds."""

Free = Callable[[Any, Any], bool]
Differences = dict[str, Difference]
"""Differences by path, which begins with the section."""


class Subject:
    """The parts of an exercise that comparing needs: its scene, references, wrong programs, and allowed differences."""

    def __init__(
        self,
        key: str,
        name: str,
        scene: Scene,
        references: Sequence[Implementation],
        mistakes: Sequence[Implementation],
        free: Mapping[str, Free],
        example: Mapping[str, Any],
    ) -> None:
        """`free[name](observed, wanted)` says whether an observation may differ in this way.

        `example` maps each line of code in the contract's example that shows something to the expected value.
        """
        self.key, self.sections = key, (*scene.sections, *([EXAMPLE] if example else []))
        self.references, self.mistakes = range(len(references)), range(len(references), len(references) + len(mistakes))
        self.stage = Stage(key, name, scene, (*references, *mistakes))
        self._free, self._example = free, dict(example)
        self._kept: OrderedDict[tuple[int, Any], Outcome] = OrderedDict()
        self._compared: dict[tuple[int, Any], tuple[Outcome, Differences]] = {}

    def outcome(self, play: Play | None, player: int, draw: Inputs) -> Outcome:
        """What shows with one of our own programs. When `play` is None, a stage is opened just for it."""
        which = player, draw_key(draw)
        if which not in self._kept:
            if play is None:
                with self.stage.open() as opened:
                    return self.outcome(opened, player, draw)
            self._kept[which] = play(player, draw)
            while len(self._kept) > MAX_KEPT_OUTCOMES:
                self._compared.pop(self._kept.popitem(last=False)[0], None)
        return self._kept[which]

    def mistake_differences(self, play: Play, mistake: int, draw: Inputs, shown: Outcome) -> Differences:
        """The differences of what a mistake shows for a draw, in all sections; kept as long as what it shows is."""
        which = mistake, draw_key(draw)
        kept, found = self._compared.get(which, (None, {}))
        if kept is not shown:
            assert shown.seen is not None
            found = self.differences(shown.seen, draw, play=play)
            if self._kept.get(which) is shown:
                self._compared[which] = shown, found
        return found

    def differences(
        self, seen: Seen, draw: Inputs, section: str | None = None, play: Play | None = None
    ) -> Differences:
        """By path, the differences from the first reference at places where no reference agrees.

        `section` limits them to one section; None means all.
        """
        found: list[Differences] = []
        for reference in self.references:
            wanted = {**reference_sections(self.outcome(play, reference, draw), self.key)}
            if EXAMPLE in wanted:  # the numbers printed in the contract count, whatever our reference computes
                wanted[EXAMPLE] = self._example
            parts = {name: part for name, part in wanted.items() if section in (None, name)}
            found.append(dict(self._section_differences(seen, parts, float_tolerance(draw))))
        return {path: why for path, why in found[0].items() if all(path in other for other in found[1:])}

    def _section_differences(self, seen: Seen, wanted: Mapping[str, Any], floats: float) -> Any:
        for section, part in wanted.items():
            observed = Seen(seen[section].value)
            if type(observed.value) is not dict:
                yield f"{section}: ", Difference(Kind.MISSING, section, expected="what shows", seen="nothing")
                continue
            for path, difference in find_differences(observed, part, floats):
                if section == EXAMPLE and type(observed[path].value) is str and type(part.get(path)) is not str:
                    difference = Difference(Kind.CONDITION, path, note=f"the example raised {observed[path].value}")
                top = path.partition("[")[0].partition(": ")[0]
                if not self._may_differ(top, observed[top].value, part.get(top, MISSING)):
                    yield f"{section}: {path}", difference

    def _may_differ(self, name: str, observed: Any, wanted: Any) -> bool:
        try:
            return name in self._free and self._free[name](observed, wanted)
        except Exception:  # it computes with an answer, which may have any type and shape
            return False

    def is_well_conditioned(self, play: Play, draw: Inputs) -> bool:
        """Whether rounding changes what the first reference shows by at most a tenth of the tolerance.

        It is run in float64, and in float64 with changed last digits. A draw in float64 is taken as it is.
        """
        rough = list(tensors_and_floats(reference_sections(self.outcome(play, 0, draw), self.key)))
        if is_exact(draw):
            return True
        exact, disturbed = (
            list(tensors_and_floats(reference_sections(play(0, draw, way), self.key))) for way in (EXACT, DISTURBED)
        )
        if not len(rough) == len(exact) == len(disturbed):
            return False
        return all(
            other.shape == fine.shape
            and share_used(other.double(), fine.double(), *tensor_tolerance(shown)) <= ROUNDING_SHARE
            for shown, fine, moved in zip(rough, exact, disturbed)
            for other in (shown, moved)
        )


def is_exact(draw: Inputs) -> bool:
    """Whether the case of this draw asks for float64."""
    return "float64" in draw["case"].values()


def float_tolerance(draw: Inputs) -> float:
    """The allowed relative error of a Python float for this draw."""
    return FLOAT_TOLERANCE if is_exact(draw) else DEFAULT_TOLERANCE


def draw_key(draw: Inputs) -> Any:
    """A hashable key that is equal for equal draws."""
    return draw["seed"], tuple(sorted(draw["case"].items(), key=str)), len(draw["example"])
