"""What each notebook is asked: inputs drawn from a seed, and the probes that try the learner's functions on them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graders.core import course
from graders.core.exercise import Exercise
from graders.sandbox.outside.conversation import Probe, probes_for
from graders.verdict.judge_submission import Verdicts


@dataclass(frozen=True)
class LessonQuestions:
    """The questions of one lesson for one seed, and the verdicts on the answers so far."""

    exercises: tuple[Exercise, ...]
    verdicts: Verdicts
    probes: Sequence[Probe]

    @staticmethod
    def for_seed(exercises: Iterable[Exercise], seed: int) -> LessonQuestions:
        """The questions for these exercises, with inputs drawn from `seed`."""
        exercises = tuple(exercises)
        draws = {exercise.key: exercise.draws(seed) for exercise in exercises}
        return LessonQuestions(exercises=exercises, verdicts=Verdicts(draws), probes=probes_for(exercises, draws, seed))


SeedsByFile = Mapping[tuple[str, str, str], int]
"""Maps (student, lesson, SHA-256 of the file) to the seed with which that file was marked before."""


class Questions:
    """The questions of each lesson, the same for every notebook that is marked for the first time.

    A file that was marked before is asked the same as then. Every new file gets inputs from the batch's own seed, which
    nobody has seen yet.
    """

    def __init__(self, seed: int, repeated: SeedsByFile | None = None) -> None:
        """`seed` is the batch's own, `repeated` has the seeds to use again. Inputs are drawn when first needed."""
        self.seed, self.repeated = seed, repeated or {}
        self._lessons: dict[tuple[str, int], LessonQuestions] = {}
        self._lock = threading.Lock()

    def with_seed(self, seed: int) -> Questions:
        """Questions for another seed, which repeat no earlier one. What has been drawn is shared with these."""
        found = Questions(seed)
        found._lessons, found._lock = self._lessons, self._lock
        return found

    def seed_for(self, student: str, lesson: str, sha256: str) -> int:
        """The seed with which to mark a file: the one it was marked with before, or the batch's own."""
        return self.repeated.get((student, lesson, sha256), self.seed)

    def for_lesson(self, lesson: str, seed: int | None = None) -> LessonQuestions:
        """The questions of a lesson; `seed` None means the batch's own. May be called from any thread."""
        key = lesson, self.seed if seed is None else seed
        with self._lock:
            if key not in self._lessons:
                self._lessons[key] = LessonQuestions.for_seed(course.lesson_exercises(lesson), key[1])
            return self._lessons[key]
