"""Work out where a learner stands, from the exercises and the record: what has passed, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graders.core.exercise import Exercise
from graders.core.results import Status
from graders.core.text import format_count
from graders.core.ways import keys_on
from graders.learner.notebook.record import Record


@dataclass(frozen=True)
class ExerciseStanding:
    """An exercise and its best status so far."""

    exercise: Exercise
    status: Status

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return self.status is Status.PASSED


@dataclass(frozen=True)
class Standing:
    """The exercises of the course or of one lesson with their statuses, in order.

    `predictions` maps the keys of the predictions that were made to whether the first guess was right. `way` is the way
    through the course that the learner has chosen; empty if none, and for a lesson.
    """

    exercises: tuple[ExerciseStanding, ...]
    predictions: Mapping[str, bool] = field(default_factory=dict)
    way: str = ""

    @property
    def lessons(self) -> dict[str, Standing]:
        """The standing in each lesson, by its stem."""
        stems = dict.fromkeys(done.exercise.lesson for done in self.exercises)
        return {
            stem: Standing(
                tuple(done for done in self.exercises if done.exercise.lesson == stem),
                {key: right for key, right in self.predictions.items() if key[:2] == stem[:2]},
            )
            for stem in stems
        }

    @property
    def passed(self) -> int:
        """How many exercises have passed."""
        return sum(done.passed for done in self.exercises)

    @property
    def prediction_summary(self) -> str:
        """How many predictions were right, in words; empty if none was made."""
        right = sum(self.predictions.values())
        return f"{right} of {format_count(len(self.predictions), 'prediction')} right" if self.predictions else ""

    @property
    def score(self) -> float:
        """The points of the exercises that have passed."""
        return sum(done.exercise.points for done in self.exercises if done.passed)

    @property
    def max_score(self) -> float:
        """The points of all exercises."""
        return sum(done.exercise.points for done in self.exercises)

    @property
    def on_way(self) -> Standing:
        """The exercises on the way that was chosen; all if none was."""
        if not self.way:
            return self
        keys = keys_on(self.way)
        return Standing(tuple(done for done in self.exercises if done.exercise.key in keys))

    @property
    def next(self) -> Exercise | None:
        """The first exercise on the way that has not passed; None if all have."""
        return next((done.exercise for done in self.on_way.exercises if not done.passed), None)

    def next_after(self, key: str) -> Exercise | None:
        """The next one after this exercise on the way that has not passed; None if only earlier ones are left."""
        keys = [done.exercise.key for done in self.exercises]
        later = keys[keys.index(key) + 1 :] if key in keys else keys
        left = (done.exercise for done in self.on_way.exercises if not done.passed)
        return next((exercise for exercise in left if exercise.key in later), None)


def build_standing(exercises: Sequence[Exercise], record: Record) -> Standing:
    """Where the learner with this record stands in these exercises."""
    untouched = Status.NOT_ATTEMPTED.value
    return Standing(
        tuple(ExerciseStanding(one, Status(record.exercises.get(one.key, untouched))) for one in exercises),
        record.predictions,
        record.way,
    )
