"""What an instructor asks for, read and checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from graders.core import course
from graders.core.errors import HookworkError
from graders.core.roster import BadRoster, Person, Roster
from graders.core.roster import parse as parse_roster
from graders.core.student_names import is_plain
from graders.core.text import clean
from graders.report.policy import BadPolicy, LateRule, Points, points_table
from graders.run.lms import Owner, Pattern
from graders.run.submissions import Submission, due_lessons
from graders.wire.limits import Limits

T = TypeVar("T")


class BadRequest(HookworkError):
    """Something that was asked for cannot be; the message says what can."""


@dataclass(frozen=True)
class Request:
    """One call of `hookwork grade`. `students` and `exercises` limit a regrade; empty means all.

    `lessons` are those that are due; none means those that several handed in. Without a `rule` late work loses nothing.
    `names` is what is said of the names of files and folders, `one_student` that all is one student's, `confirm_files`
    that what is not certain about them is right.
    """

    where: Path
    out: Path
    seed: int | None = None
    jobs: int | None = None
    isolation: str = "auto"
    allow_unisolated: bool = False
    limits: Limits = field(default_factory=Limits)
    exports: tuple[str, ...] = ()
    roster: Roster | None = None
    deadline: float = math.inf
    rule: LateRule | None = None
    points: Points = field(default_factory=Points)
    students: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    cluster: str = ""
    fresh: bool = False
    keep_outputs: bool = False
    lessons: tuple[str, ...] = ()
    names: Pattern | None = None
    one_student: bool = False
    confirm_files: bool = False

    @property
    def regrade(self) -> bool:
        """Whether only a part is marked again."""
        return bool(self.students or self.exercises)

    def due(self, owner: Owner) -> float:
        """Somebody's deadline: their own where the roster has one."""
        person = self.roster.find(owner.name, owner.id) if self.roster else None
        return moment(person.deadline) if person is not None and person.deadline else self.deadline


def moment(text: str) -> float:
    """A time in seconds since 1970; local time where no zone is named, a date alone means its end. `BadRequest`."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise BadRequest(f"{clean(text, 60)!r} is no time; write it like 2026-11-20T18:00 or 2026-11-20") from None
    if len(text.strip()) == len("2026-11-20"):
        found = found.replace(hour=23, minute=59, second=59)
    return found.timestamp()


def iso(seconds: float) -> str:
    """A time as results have it: ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def read_roster(file: Path) -> Roster:
    """The roster in a file; all deadlines and lessons in it can be read. Raises `BadRequest`."""
    roster = _read(file, parse_roster)
    for person in roster.people:
        try:
            if person.deadline:
                moment(person.deadline)
            _due_for(person)
        except HookworkError as error:
            raise BadRequest(f"{file}, {clean(person.name, 60)}: {error}") from error
    return roster


def _due_for(person: Person) -> list[str]:
    """The stems of the lessons that the roster says are due for somebody. Raises `course.UnknownLesson`."""
    return sorted(map(course.find_lesson, person.lessons))


def read_points(file: Path) -> Points:
    """The points in a file, which names only exercises and checks of the course. Raises `BadRequest`."""
    table = _read(file, points_table)
    for key in {*table.exercises, *(key for key, _ in table.checks)}:
        course.find_exercise(key)
    for key, name in table.checks:
        names = [check.sentence for check in course.find_exercise(key).checks]
        if name not in names:
            raise BadRequest(f"{file}: {key} has no check {name!r}. Its checks: {'; '.join(names)}")
    return table


def _read(file: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise BadRequest(f"{file} is no UTF-8 text. Export it as CSV (UTF-8).") from None
    except (BadRoster, BadPolicy) as error:
        raise BadRequest(f"{file} cannot be used: {clean(error)}.") from error


def named_by_roster(
    submissions: Sequence[Submission], roster: Roster, due: Sequence[str] = ()
) -> tuple[list[Submission], list[str]]:
    """The submissions under the names of the roster, with those of people who handed in nothing; and the strangers.

    A name is somebody's that has it letter by letter. When two folders otherwise seem to be one person's, both keep
    their names: nobody's work is put onto another's. A name with what cannot be seen is a stranger's, without a number.
    Raises `BadRequest` for a worksheet of Moodle's that belongs to another assignment.
    """
    exact = {person.name: person for person in roster.people}
    _refuse_other_numbers(submissions, exact)
    people = {
        submission.student: exact.get(submission.student)
        or (
            roster.find(submission.student, submission.student_id)
            if is_plain(submission.student) or submission.student_id
            else None
        )
        for submission in submissions
    }
    claims: dict[str, list[str]] = {}
    for student, person in people.items():
        claims.setdefault(person.name if person else "", []).append(student)
    names = {claimed[0]: name for name, claimed in claims.items() if name and len(claimed) == 1}
    names |= {name: name for name, claimed in claims.items() if name in claimed}
    # Nobody may get a name that somebody else's folder has.
    names = {student: name for student, name in names.items() if name == student or name not in people}
    found = [
        replace(submission, student=name, student_id=submission.student_id or _participant(exact.get(name)))
        for submission in submissions
        for name in [names.get(submission.student, submission.student)]
    ]
    handed_in: dict[str, set[str]] = {}
    for submission in submissions:
        if not submission.missing:
            handed_in.setdefault(submission.student, set()).add(submission.lesson)
    lessons = due_lessons(handed_in.values(), due) or sorted({submission.lesson for submission in submissions})
    there = {submission.student for submission in found} | set(names.values())
    there |= {person.name for person in people.values() if person}
    for person in roster.people:
        if person.name not in there or (person.lessons and person.name in names.values()):
            found = _with_what_is_due(found, person, _due_for(person) or lessons)
    return found, sorted(student for student in people if student not in names)


def _refuse_other_numbers(submissions: Sequence[Submission], people: Mapping[str, Person]) -> None:
    """Raises `BadRequest` when nobody has the number in the roster that the name of their file says.

    Moodle gives everybody a new number in each assignment, and somebody else's mark is worse than none.
    """
    numbers = {
        submission.student: (submission.student_id, _participant(people.get(submission.student)))
        for submission in submissions
        if submission.student_id and _participant(people.get(submission.student))
    }
    if numbers and all(given != listed for given, listed in numbers.values()):
        name, (given, listed) = next(iter(numbers.items()))
        raise BadRequest(
            f"The roster is the worksheet of another assignment: {clean(name, 60)} is participant {listed} there, and "
            f"{given} in the name of the file. Give the worksheet that belongs to these files."
        )


def _participant(person: Person | None) -> str:
    return person.participant if person else ""


def _with_what_is_due(found: list[Submission], person: Person, lessons: Sequence[str]) -> list[Submission]:
    """`found`, where somebody is missing in these lessons and in no others."""
    handed_in = {
        submission.lesson for submission in found if submission.student == person.name and not submission.missing
    }
    others = [submission for submission in found if submission.student != person.name or not submission.missing]
    missing = [lesson for lesson in lessons if lesson not in handed_in]
    number = person.participant
    return others + [Submission(student=person.name, lesson=lesson, file=None, student_id=number) for lesson in missing]
