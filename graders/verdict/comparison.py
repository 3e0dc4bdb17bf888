"""Compares the observations of an answer with what the references show for the same draw, which is cached."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from graders.core.difference import Difference, Kind
from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.shown import MISSING
from graders.core.text import shorten_text
from graders.core.transcript import Outcome
from graders.scenes.scene import EXAMPLE, STOPPED, Scene
from graders.verdict.comparing import DEFAULT_TOLERANCE, FLOAT_TOLERANCE, Found, find_differences, tensor_tolerance
from graders.verdict.conditioning import ROUNDING_SHARE, looks_like_rounding, share_used
from graders.verdict.implementations import (
    DISTURBED,
    EXACT,
    Implementation,
    Play,
    Stage,
    reference_sections,
    tensors_and_floats,
)

MAX_KEPT_OUTCOMES = 1024
"""Outcomes of our own programs that are kept for the next answer: enough for a few seeds."""

RAISED = "the example raised "
STORY_WORDS = re.compile(r"\b(call|draw|case)\b")
"""What learners do not know, in a line of a story."""

MayDiffer = Callable[[Any, Any], bool]
Differences = dict[str, Callable[[], Difference]]
"""By path, which begins with the section, what describes each difference."""


class Comparison:
    """The parts of an exercise that comparing needs: its scene, references, wrong programs, and allowed differences."""

    def __init__(
        self,
        key: str,
        name: str,
        scene: Scene,
        references: Sequence[Implementation],
        mistakes: Sequence[Implementation],
        may_differ: Mapping[str, MayDiffer],
        example: Mapping[str, Any],
    ) -> None:
        """`may_differ[name](observed, wanted)` says whether an observation may differ in this way.

        `example` maps each line of code in the contract's example that shows something to the expected value.
        """
        self.key, self.sections = key, (*scene.promises, *([EXAMPLE] if example else []))
        self.references, self.mistakes = range(len(references)), range(len(references), len(references) + len(mistakes))
        self.stage = Stage(key, name, scene, (*references, *mistakes))
        self._allowed, self.example = may_differ, dict(example)
        self._kept: OrderedDict[tuple[int, Any, tuple[str, ...]], Outcome] = OrderedDict()
        self._compared: WeakKeyDictionary[Seen, dict[Any, Differences]] = WeakKeyDictionary()

    def outcome(self, play: Play | None, program_index: int, draw: Inputs, only: Sequence[str] = ()) -> Outcome:
        """What shows with one of our own programs, perhaps in a few sections `only`.

        When `play` is None, a stage is opened just for it.
        """
        whole = program_index, draw_key(draw), ()
        which = whole if whole in self._kept else (*whole[:2], tuple(only))
        if which not in self._kept:
            if play is None:
                with self.stage.open() as opened:
                    return self.outcome(opened, program_index, draw, only)
            self._kept[which] = play(program_index, draw, only=only)
            while len(self._kept) > MAX_KEPT_OUTCOMES:
                self._kept.popitem(last=False)
        return self._kept[which]

    def differences(
        self, seen: Seen, draw: Inputs, section: str, play: Play | None = None, only: Sequence[str] = ()
    ) -> Differences:
        """By path, the differences in a section from the first reference, at places where no reference agrees.

        They are kept as long as `seen` is. `only` is as in `outcome`, for a draw that nobody asks for again.
        """
        kept, which = self._compared.setdefault(seen, {}), (draw_key(draw), section)
        if which not in kept:
            found: list[Differences] = []
            for reference in self.references:
                wanted = reference_sections(self.outcome(play, reference, draw, only), self.key)
                if section in wanted:  # the numbers printed in the contract count, whatever our reference computes
                    part = self.example if section == EXAMPLE else wanted[section]
                    found.append(dict(self._section_differences(seen, section, part, float_tolerance(draw))))
            first, *others = found or [{}]
            kept[which] = {path: why for path, why in first.items() if all(path in other for other in others)}
        return kept[which]

    def _section_differences(self, seen: Seen, section: str, wanted: Mapping[str, Any], floats: float) -> Found:
        observed = Seen(seen[section].value)
        if type(observed.value) is not dict:
            yield f"{section}: ", partial(Difference, Kind.MISSING, section, expected="what shows", seen="nothing")
            return
        stop, before = None, [*observed.value]
        if section != EXAMPLE and STOPPED in observed.value and STOPPED not in wanted:
            stop = f"{section}: {STOPPED}", partial(_failed_line, self.stage.scene, observed[STOPPED])
            before = before[: before.index(STOPPED)]
            observed = Seen({**wanted, **observed.value})  # what would have come after it does not count again
            observed.value.pop(STOPPED)
        for path, why in find_differences(observed, wanted, floats):
            if section == EXAMPLE and type(observed[path].value) is str and type(wanted.get(path)) is not str:
                note = f"{RAISED}{observed[path].value}"
                why = partial(Difference, Kind.CONDITION, path, note=note)
            top = path.partition("[")[0].partition(": ")[0]
            if stop and top not in before:
                yield stop
                stop = None
            if not self._may_differ(top, observed[top].value, wanted.get(top, MISSING)):
                yield f"{section}: {path}", why
        if stop:
            yield stop

    def _may_differ(self, name: str, observed: Any, wanted: Any) -> bool:
        try:
            return name in self._allowed and self._allowed[name](observed, wanted)
        except Exception:  # it computes with an answer, which may have any type and shape
            return False

    def is_well_conditioned(self, play: Play, draw: Inputs) -> bool:
        """Whether rounding changes what the first reference shows by at most a tenth of the tolerance.

        It is run in float64, and in float64 with changed last digits. A draw in float64 is not run again: it will do
        unless a number looks like what rounding leaves of a sum that is 0. Nor is one that shows no such number.
        """
        rough = list(tensors_and_floats(reference_sections(self.outcome(play, 0, draw), self.key)))
        if is_exact(draw) or not rough:
            return not any(looks_like_rounding(shown) for shown in rough)
        exact, disturbed = (
            list(tensors_and_floats(reference_sections(play(0, draw, way=way), self.key))) for way in (EXACT, DISTURBED)
        )
        if not len(rough) == len(exact) == len(disturbed):
            return False
        return all(
            other.shape == fine.shape
            and share_used(other.double(), fine.double(), *tensor_tolerance(shown)) <= ROUNDING_SHARE
            for shown, fine, moved in zip(rough, exact, disturbed)
            for other in (shown, moved)
        )


def _failed_line(scene: Scene, stopped: Seen) -> Difference:
    """A line of a story that failed on what the answer had returned, or on a hook of it."""
    line = scene.line_of_story(stopped["story"].value, stopped["line"].value)
    is_plain = line and not STORY_WORDS.search(line)  # the program has the line as it should be
    text = f"`{line}`, a line of the caller," if is_plain else "a line of the caller"
    return Difference(Kind.CONDITION, note=f"{text} failed with {shorten_text(stopped['error'].value, 160)}")


def is_exact(draw: Inputs) -> bool:
    """Whether the case of this draw asks for float64."""
    return "float64" in draw["case"].values()


def float_tolerance(draw: Inputs) -> float:
    """The allowed relative error of a Python float for this draw."""
    return FLOAT_TOLERANCE if is_exact(draw) else DEFAULT_TOLERANCE


def draw_key(draw: Inputs) -> Any:
    """A hashable key that is equal for equal draws."""
    return draw["seed"], tuple(sorted(draw["case"].items(), key=str)), len(draw["example"])
