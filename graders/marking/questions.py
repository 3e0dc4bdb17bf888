"""What a batch asks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
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
    def of(exercises: Iterable[Exercise], seed: int) -> LessonQuestions:
        """The draws of a seed, and the probes that ask them."""
        exercises = tuple(exercises)
        draws = {exercise.key: exercise.draws(seed) for exercise in exercises}
        return LessonQuestions(exercises, Verdicts(draws), probes_for(exercises, draws, seed))


class Questions:
    """What is asked in each lesson for one seed: the same of everyone in a batch."""

    def __init__(self, seed: int) -> None:
        """Draws are made when a lesson is first asked for."""
        self.seed = seed
        self._lessons: dict[str, LessonQuestions] = {}
        self._lock = threading.Lock()

    def of(self, lesson: str) -> LessonQuestions:
        """Those of a lesson. From any thread."""
        with self._lock:
            if lesson not in self._lessons:
                self._lessons[lesson] = LessonQuestions.of(course.exercises(lesson), self.seed)
            return self._lessons[lesson]
