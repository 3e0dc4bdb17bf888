"""What a class understood and what it did not, in numbers: pure functions of a batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from graders.core.results import Batch, ExerciseResult, Status, SubmissionResult, SubmissionStatus

STUCK = (Status.WRONG, Status.RAISED, Status.TIMED_OUT, Status.OVER_LIMIT, Status.CRASHED)
"""An answer was written, and it does not work."""


@dataclass(frozen=True)
class ExerciseNumbers:
    """One exercise: how many students there are for each status, and the share of its points that was reached."""

    key: str
    counts: dict[Status, int]
    mean: float

    @property
    def students(self) -> int:
        """How many were marked."""
        return sum(count for status, count in self.counts.items() if status is not Status.NOT_GRADED)

    @property
    def tried(self) -> int:
        """How many wrote an answer."""
        return self.students - self.counts.get(Status.NOT_ATTEMPTED, 0)

    def count(self, *statuses: Status) -> int:
        """How many have one of these statuses."""
        return sum(self.counts.get(status, 0) for status in statuses)


@dataclass(frozen=True)
class CommonMistake:
    """A recognised mistake: who made it, among how many who wrote an answer, and what it says."""

    key: str
    mistake: str
    message: str
    students: tuple[str, ...]
    tried: int


@dataclass(frozen=True)
class StudentNumbers:
    """One student: points, and how many exercises have come to what."""

    student: str
    score: float
    max_score: float
    passed: int
    stuck: int
    untouched: int
    missing: int

    @property
    def share(self) -> float:
        """Of the points that can be reached in what was handed out, how many were: 0 to 1."""
        return self.score / self.max_score if self.max_score else 0.0


@dataclass(frozen=True)
class Ungraded:
    """Something without a verdict, or with one that somebody should look at."""

    student: str
    lesson: str
    key: str
    what: str
    why: str


def exercises(batch: Batch) -> list[ExerciseNumbers]:
    """Every exercise in the order of the course. What is missing or unreadable counts for none."""
    found: defaultdict[str, list[ExerciseResult]] = defaultdict(list)
    for one in sorted(batch.submissions, key=lambda one: one.lesson):
        for exercise in one.exercises:
            found[exercise.key].append(exercise)
    numbers = []
    for key, results in found.items():
        marked = [one for one in results if one.status is not Status.NOT_GRADED]
        mean = sum(one.score / one.max_score for one in marked if one.max_score) / len(marked) if marked else 0.0
        numbers.append(ExerciseNumbers(key, dict(Counter(one.status for one in results)), mean))
    return numbers


def hardest(numbers: list[ExerciseNumbers], most: int = 5) -> list[ExerciseNumbers]:
    """The exercises in which those who tried reached the smallest share of the points; none where all passed."""
    hard = [one for one in numbers if one.tried and one.count(Status.PASSED) < one.tried]
    return sorted(hard, key=lambda one: one.count(Status.PASSED) / one.tried)[:most]


def mistakes(batch: Batch) -> list[CommonMistake]:
    """Recognised mistakes, the most common first."""
    who: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    says: dict[tuple[str, str], str] = {}
    for one in batch.submissions:
        for exercise in one.exercises:
            if exercise.mistake:
                who[exercise.key, exercise.mistake].append(one.student)
                says.setdefault((exercise.key, exercise.mistake), exercise.message)
    tried = {one.key: one.tried for one in exercises(batch)}
    found = [CommonMistake(*pair, says[pair], tuple(sorted(names)), tried[pair[0]]) for pair, names in who.items()]
    return sorted(found, key=lambda one: (-len(one.students), one.key, one.mistake))


def students(batch: Batch) -> list[StudentNumbers]:
    """Every student, by name. What could not be graded is left out of their points, and of what can be reached."""
    found: defaultdict[str, list[SubmissionResult]] = defaultdict(list)
    for one in batch.submissions:
        found[one.student].append(one)
    return [_student(student, found[student]) for student in sorted(found)]


def _student(student: str, submissions: list[SubmissionResult]) -> StudentNumbers:
    results = [exercise for one in submissions for exercise in one.exercises]
    ours = sum(one.max_score for one in results if one.status is Status.NOT_GRADED)
    ours += sum(one.max_score for one in submissions if one.status is SubmissionStatus.NOT_GRADED and not one.exercises)
    return StudentNumbers(
        student,
        sum(one.score for one in submissions),
        sum(one.max_score for one in submissions) - ours,
        sum(one.status is Status.PASSED for one in results),
        sum(one.status in STUCK for one in results),
        sum(one.status is Status.NOT_ATTEMPTED for one in results),
        sum(one.status in (SubmissionStatus.MISSING, SubmissionStatus.UNREADABLE) for one in submissions),
    )


def need_help(numbers: list[StudentNumbers], below: float = 0.5) -> list[StudentNumbers]:
    """Students with less than this share of the points, the lowest first."""
    return sorted((one for one in numbers if one.max_score and one.share < below), key=lambda one: one.share)


def ungraded(batch: Batch) -> list[Ungraded]:
    """What has no verdict, or is suspect, and why: unreadable notebooks, our failures, broken protocols."""
    found = []
    for one in batch.submissions:
        if one.status in (SubmissionStatus.UNREADABLE, SubmissionStatus.NOT_GRADED):
            found.append(Ungraded(one.student, one.lesson, "", one.status.value, one.message))
            continue  # its exercises share that reason
        found += [
            Ungraded(one.student, one.lesson, exercise.key, exercise.status.value, exercise.message)
            for exercise in one.exercises
            if exercise.status in (Status.NOT_GRADED, Status.SUSPECT)
        ]
    return found
