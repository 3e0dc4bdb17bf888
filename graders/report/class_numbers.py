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
        """The share of the points that was reached, of those that could be: 0 to 1."""
        return self.score / self.max_score if self.max_score else 0.0


@dataclass(frozen=True)
class UngradedItem:
    """Something without a verdict, or with one that somebody should look at."""

    student: str
    lesson: str
    key: str
    what: str
    why: str


def exercise_numbers(batch: Batch) -> list[ExerciseNumbers]:
    """Every exercise in the order of the course. What is missing or unreadable counts for none."""
    found: defaultdict[str, list[ExerciseResult]] = defaultdict(list)
    for submission in sorted(batch.submissions, key=lambda submission: submission.lesson):
        for exercise in submission.exercises:
            found[exercise.key].append(exercise)
    numbers = []
    for key, results in found.items():
        marked = [exercise for exercise in results if exercise.status is not Status.NOT_GRADED]
        mean = (
            sum(exercise.score / exercise.max_score for exercise in marked if exercise.max_score) / len(marked)
            if marked
            else 0.0
        )
        numbers.append(
            ExerciseNumbers(key=key, counts=dict(Counter(exercise.status for exercise in results)), mean=mean)
        )
    return numbers


def hardest_exercises(numbers: list[ExerciseNumbers], most: int = 5) -> list[ExerciseNumbers]:
    """The exercises in which those who tried reached the smallest share of the points; none where all passed."""
    hard = [exercise for exercise in numbers if exercise.tried and exercise.count(Status.PASSED) < exercise.tried]
    return sorted(hard, key=lambda exercise: exercise.count(Status.PASSED) / exercise.tried)[:most]


def common_mistakes(batch: Batch) -> list[CommonMistake]:
    """Recognised mistakes, the most common first."""
    who: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    says: dict[tuple[str, str], str] = {}
    for submission in batch.submissions:
        for exercise in submission.exercises:
            if exercise.mistake:
                who[exercise.key, exercise.mistake].append(submission.student)
                says.setdefault((exercise.key, exercise.mistake), exercise.message)
    tried = {exercise.key: exercise.tried for exercise in exercise_numbers(batch)}
    found = [
        CommonMistake(
            key=key, mistake=mistake, message=says[key, mistake], students=tuple(sorted(names)), tried=tried[key]
        )
        for (key, mistake), names in who.items()
    ]
    return sorted(found, key=lambda mistake: (-len(mistake.students), mistake.key, mistake.mistake))


def student_numbers(batch: Batch) -> list[StudentNumbers]:
    """Every student, by name. What could not be graded is left out of their points, and of what can be reached."""
    found: defaultdict[str, list[SubmissionResult]] = defaultdict(list)
    for submission in batch.submissions:
        found[submission.student].append(submission)
    return [_numbers_of_student(student, found[student]) for student in sorted(found)]


def _numbers_of_student(student: str, submissions: list[SubmissionResult]) -> StudentNumbers:
    results = [exercise for submission in submissions for exercise in submission.exercises]
    ours = sum(exercise.max_score for exercise in results if exercise.status is Status.NOT_GRADED)
    ours += sum(
        submission.max_score
        for submission in submissions
        if submission.status is SubmissionStatus.NOT_GRADED and not submission.exercises
    )
    return StudentNumbers(
        student=student,
        score=sum(submission.score for submission in submissions),
        max_score=sum(submission.max_score for submission in submissions) - ours,
        passed=sum(exercise.status is Status.PASSED for exercise in results),
        stuck=sum(exercise.status in STUCK for exercise in results),
        untouched=sum(exercise.status is Status.NOT_ATTEMPTED for exercise in results),
        missing=sum(
            submission.status in (SubmissionStatus.MISSING, SubmissionStatus.UNREADABLE) for submission in submissions
        ),
    )


def students_needing_help(numbers: list[StudentNumbers], below: float = 0.5) -> list[StudentNumbers]:
    """Students with less than this share of the points, the lowest first."""
    return sorted(
        (student for student in numbers if student.max_score and student.share < below),
        key=lambda student: student.share,
    )


def missing_module_counts(batch: Batch) -> list[tuple[str, int]]:
    """The modules that notebooks asked for and that are not installed, for how many students: the most wanted first."""
    wanted = {(name, submission.student) for submission in batch.submissions for name in submission.missing_modules}
    counts = Counter(name for name, _ in wanted)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def ungraded_items(batch: Batch) -> list[UngradedItem]:
    """What has no verdict, or is suspect, and why: unreadable notebooks, our failures, broken protocols."""
    found = []
    for submission in batch.submissions:
        if submission.status in (SubmissionStatus.UNREADABLE, SubmissionStatus.NOT_GRADED):
            found.append(
                UngradedItem(
                    student=submission.student,
                    lesson=submission.lesson,
                    key="",
                    what=submission.status.value,
                    why=submission.message,
                )
            )
            continue  # its exercises share that reason
        found += [
            UngradedItem(
                student=submission.student,
                lesson=submission.lesson,
                key=exercise.key,
                what=exercise.status.value,
                why=exercise.message,
            )
            for exercise in submission.exercises
            if exercise.status in (Status.NOT_GRADED, Status.SUSPECT)
        ]
    return found
