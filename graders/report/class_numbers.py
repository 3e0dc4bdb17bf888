"""Count what a class has understood and what it has not. All functions are pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from graders.core.results import Batch, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.submissions.student_names import name_sort_key

STUCK = (Status.WRONG, Status.SYNTAX_ERROR, Status.RAISED, Status.TIMED_OUT, Status.OVER_LIMIT, Status.CRASHED)
"""The statuses of an answer that was written but does not work."""


@dataclass(frozen=True)
class ExerciseNumbers:
    """One exercise: how many students have each status, and the mean share of its points that they reached, 0 to 1."""

    key: str
    counts: dict[Status, int]
    mean: float

    @property
    def students(self) -> int:
        """How many students were marked."""
        return sum(count for status, count in self.counts.items() if status is not Status.NOT_GRADED)

    @property
    def tried(self) -> int:
        """How many students wrote an answer."""
        return self.students - self.counts.get(Status.NOT_ATTEMPTED, 0)

    def count(self, *statuses: Status) -> int:
        """How many students have one of these statuses."""
        return sum(self.counts.get(status, 0) for status in statuses)


@dataclass(frozen=True)
class CommonMistake:
    """A recognised mistake: its message, who made it, and how many students wrote an answer to the exercise."""

    key: str
    mistake: str
    message: str
    students: tuple[str, ...]
    tried: int


@dataclass(frozen=True)
class StudentNumbers:
    """One student: points, and the numbers of exercises that passed, are stuck or untouched, and of missing lessons."""

    student: str
    score: float
    max_score: float
    passed: int
    stuck: int
    untouched: int
    missing: int

    @property
    def share(self) -> float:
        """The share of the possible points that was reached, from 0 to 1."""
        return self.score / self.max_score if self.max_score else 0.0


@dataclass(frozen=True)
class UngradedItem:
    """An exercise or a notebook (with an empty `key`) that has no verdict, or one that somebody should look at."""

    student: str
    lesson: str
    key: str
    what: str
    why: str


def exercise_keys(batch: Batch, lesson: str) -> list[str]:
    """The keys of a lesson's exercises, from the submission that lists the most."""
    every = ([exercise.key for exercise in one.exercises] for one in batch.submissions if one.lesson == lesson)
    return max(every, key=len, default=[])


def lessons_by_student(batch: Batch) -> dict[str, dict[str, SubmissionResult]]:
    """The submissions of each student by lesson; students are in the order in which people sort names."""
    found: defaultdict[str, dict[str, SubmissionResult]] = defaultdict(dict)
    for submission in batch.submissions:
        found[submission.student][submission.lesson] = submission
    return {student: found[student] for student in sorted(found, key=name_sort_key)}


def sums_of_points(submissions: Iterable[SubmissionResult]) -> tuple[float, float]:
    """The points of these submissions and their maximum."""
    every = list(submissions)
    return sum(one.score for one in every), sum(one.max_score for one in every)


def exercise_numbers(batch: Batch) -> list[ExerciseNumbers]:
    """The numbers of every exercise, in the order of the course. Missing and unreadable notebooks do not count."""
    found: defaultdict[str, list[ExerciseResult]] = defaultdict(list)
    for submission in sorted(batch.submissions, key=lambda submission: submission.lesson):
        for exercise in submission.exercises:
            found[exercise.key].append(exercise)
    numbers = []
    for key, results in found.items():
        marked = [exercise for exercise in results if exercise.status is not Status.NOT_GRADED]
        shares = sum(exercise.score / exercise.max_score for exercise in marked if exercise.max_score)
        counts = dict(Counter(exercise.status for exercise in results))
        numbers.append(ExerciseNumbers(key, counts, mean=shares / len(marked) if marked else 0.0))
    return numbers


def hardest_exercises(numbers: list[ExerciseNumbers]) -> list[ExerciseNumbers]:
    """Up to five exercises that the smallest share of those who tried have passed; none that everybody passed."""
    hard = [exercise for exercise in numbers if exercise.tried and exercise.count(Status.PASSED) < exercise.tried]
    return sorted(hard, key=lambda exercise: exercise.count(Status.PASSED) / exercise.tried)[:5]


def common_mistakes(batch: Batch) -> list[CommonMistake]:
    """The recognised mistakes in a batch, the most common first."""
    who: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    says: dict[tuple[str, str], str] = {}
    for submission in batch.submissions:
        for exercise in submission.exercises:
            for mistake, message in exercise.mistakes:
                who[exercise.key, mistake].append(submission.student)
                says.setdefault((exercise.key, mistake), message)
    tried = {exercise.key: exercise.tried for exercise in exercise_numbers(batch)}
    found = [
        CommonMistake(key, mistake, says[key, mistake], tuple(sorted(names)), tried[key])
        for (key, mistake), names in who.items()
    ]
    return sorted(found, key=lambda mistake: (-len(mistake.students), mistake.key, mistake.mistake))


def student_numbers(batch: Batch) -> list[StudentNumbers]:
    """The numbers of every student, sorted by name. What could not be graded counts in neither score nor maximum."""
    return [_numbers_of_student(student, list(found.values())) for student, found in lessons_by_student(batch).items()]


def _numbers_of_student(student: str, submissions: list[SubmissionResult]) -> StudentNumbers:
    results = [exercise for submission in submissions for exercise in submission.exercises]
    undecided = [submission for submission in submissions if not submission.decided]
    not_graded = sum(
        exercise.max_score
        for submission in undecided
        for exercise in submission.exercises
        if exercise.status is Status.NOT_GRADED and not exercise.decided
    )
    not_graded += sum(
        submission.max_score
        for submission in undecided
        if submission.status is SubmissionStatus.NOT_GRADED and not submission.exercises
    )
    score, max_score = sums_of_points(submissions)
    return StudentNumbers(
        student=student,
        score=score,
        max_score=max_score - not_graded,
        passed=sum(exercise.status is Status.PASSED for exercise in results),
        stuck=sum(exercise.status in STUCK for exercise in results),
        untouched=sum(exercise.status is Status.NOT_ATTEMPTED for exercise in results),
        missing=sum(one.status in (SubmissionStatus.MISSING, SubmissionStatus.UNREADABLE) for one in submissions),
    )


def students_needing_help(numbers: list[StudentNumbers]) -> list[StudentNumbers]:
    """The students who reached less than half of the points, the lowest first."""
    found = (student for student in numbers if student.max_score and student.share < 0.5)
    return sorted(found, key=lambda student: student.share)


def missing_module_counts(batch: Batch) -> list[tuple[str, int]]:
    """Modules that notebooks import but that are not installed, with the number of students; the most wanted first."""
    wanted = {(name, submission.student) for submission in batch.submissions for name in submission.missing_modules}
    counts = Counter(name for name, _ in wanted)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def ungraded_items(batch: Batch) -> list[UngradedItem]:
    """What has no verdict, is suspect or has a note, and why: unreadable notebooks, our failures, answers elsewhere.

    What a teacher has given points for is not among it.
    """
    found = []
    for one in batch.submissions:
        if one.decided:
            continue
        if one.status in (SubmissionStatus.UNREADABLE, SubmissionStatus.NOT_GRADED):
            found.append(UngradedItem(one.student, one.lesson, "", one.status.value, one.message))
            continue  # its exercises have the same reason
        found += [
            UngradedItem(
                one.student, one.lesson, exercise.key, exercise.status.value, exercise.note or exercise.message
            )
            for exercise in one.exercises
            if (exercise.note or exercise.status in (Status.NOT_GRADED, Status.SUSPECT)) and not exercise.decided
        ]
    return found
