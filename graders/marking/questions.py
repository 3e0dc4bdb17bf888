"""What each notebook is asked: the draws of a seed, and the probes that try the learner's functions on them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graders.core import course
from graders.core.exercise import Exercise
from graders.judge.submission import Verdicts
from graders.run.conversation import Probe, probes_for


@dataclass(frozen=True)
class LessonQuestions:
    """What is asked in a lesson, and what was judged of the answers so far."""

    exercises: tuple[Exercise, ...]
    verdicts: Verdicts
    probes: Sequence[Probe]

    @staticmethod
    def for_seed(exercises: Iterable[Exercise], seed: int) -> LessonQuestions:
        """The draws of a seed, and the probes that ask them."""
        exercises = tuple(exercises)
        draws = {exercise.key: exercise.draws(seed) for exercise in exercises}
        return LessonQuestions(exercises=exercises, verdicts=Verdicts(draws), probes=probes_for(exercises, draws, seed))


SeedsByFile = Mapping[tuple[str, str, str], int]
"""The seed with which a file was marked before, by student, lesson and SHA-256."""


class Questions:
    """What is asked in each lesson: the same of everyone whose notebook is marked for the first time.

    A file that was marked before is asked what it was asked then. Whatever is handed in after that has the inputs of
    the batch's own seed, which nobody has been told.
    """

    def __init__(self, seed: int, repeated: SeedsByFile | None = None) -> None:
        """`seed` is the batch's own, `repeated` those that are used again. Draws are made when they are asked for."""
        self.seed, self.repeated = seed, repeated or {}
        self._lessons: dict[tuple[str, int], LessonQuestions] = {}
        self._lock = threading.Lock()

    def with_seed(self, seed: int) -> Questions:
        """The same for another seed; what is drawn is shared."""
        found = Questions(seed)
        found._lessons, found._lock = self._lessons, self._lock
        return found

    def seed_for(self, student: str, lesson: str, sha256: str) -> int:
        """The seed of the inputs for a file."""
        return self.repeated.get((student, lesson, sha256), self.seed)

    def for_lesson(self, lesson: str, seed: int | None = None) -> LessonQuestions:
        """Those of a lesson, for the batch's seed or another one. From any thread."""
        which = lesson, self.seed if seed is None else seed
        with self._lock:
            if which not in self._lessons:
                self._lessons[which] = LessonQuestions.for_seed(course.lesson_exercises(lesson), which[1])
            return self._lessons[which]
