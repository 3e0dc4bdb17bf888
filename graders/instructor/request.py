"""What an instructor asks for, read and checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from graders.core import course
from graders.core.errors import HookworkError
from graders.core.groups import Groups
from graders.core.groups import parse_groups as parse_groups
from graders.core.roster import Person, Roster
from graders.core.roster import parse_roster as parse_roster
from graders.core.tables import BadTable, decode_csv
from graders.core.text import shorten_text
from graders.report.policy import BadPolicy, LateRule, PointsTable, parse_points_table
from graders.run.lms import NamePattern, Owner
from graders.wire.limits import Limits

T = TypeVar("T")


class BadRequest(HookworkError):
    """Something that was asked for cannot be; the message says what can."""


@dataclass(frozen=True)
class Request:
    """One call of `hookwork grade`. `students` and `exercises` limit a regrade; empty means all.

    `lessons` are those that are due; none means those that several handed in. Without a `rule` late work loses nothing.
    `files` are those that the rest was read from, and are nothing for a notebook to read: the roster, the points.
    With `scale` exports convert points to those that the roster has for an assignment.
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
    points: PointsTable = field(default_factory=PointsTable)
    students: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    cluster: str = ""
    fresh: bool = False
    keep_outputs: bool = False
    lessons: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    groups: Groups | None = None
    scale: bool = False
    names: NamePattern | None = None
    one_student: bool = False
    confirm_files: bool = False

    @property
    def is_regrade(self) -> bool:
        """Whether only a part is marked again."""
        return bool(self.students or self.exercises)

    def deadline_for(self, owner: Owner) -> float:
        """Somebody's deadline: their own where the roster has one; for the work of a group the last of its members'."""
        group = self.groups.find(owner.name) if self.groups else None
        if group is not None:
            return max(self._personal_deadline(Owner(member.name, *member.ids[:1])) for member in group.members)
        return self._personal_deadline(owner)

    def _personal_deadline(self, owner: Owner) -> float:
        person = self.roster.find(owner.name, owner.id) if self.roster else None
        return parse_time(person.deadline) if person is not None and person.deadline else self.deadline


def parse_time(text: str) -> float:
    """A time in seconds since 1970; local time where no zone is named, a date alone means its end. `BadRequest`."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise BadRequest(
            f"{shorten_text(text, 60)!r} is no time; write it like 2026-11-20T18:00 or 2026-11-20"
        ) from None
    if len(text.strip()) == len("2026-11-20"):
        found = found.replace(hour=23, minute=59, second=59)
    return found.timestamp()


def iso_time(seconds: float) -> str:
    """A time as results have it: ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def read_roster(file: Path) -> Roster:
    """The roster in a file; all deadlines and lessons in it can be read. Raises `BadRequest`."""
    roster = _read_table(file, parse_roster)
    for person in roster.people:
        try:
            if person.deadline:
                parse_time(person.deadline)
            lessons_due_for(person)
        except HookworkError as error:
            raise BadRequest(f"{file}, {person.name}: {error}") from error
    return roster


def lessons_due_for(person: Person) -> list[str]:
    """The stems of the lessons that the roster says are due for somebody. Raises `course.UnknownLesson`."""
    return sorted(map(course.find_lesson, person.lessons))


def read_groups(file: Path) -> Groups:
    """The groups in a file. Raises `BadRequest`."""
    return _read_table(file, parse_groups)


def read_points(file: Path) -> PointsTable:
    """The points in a file, which names only exercises and checks of the course. Raises `BadRequest`."""
    table = _read_table(file, lambda raw: parse_points_table(decode_csv(raw)[0]))
    for key in {*table.exercises, *(key for key, _ in table.checks)}:
        course.find_exercise(key)
    for key, name in table.checks:
        names = [check.sentence for check in course.find_exercise(key).checks]
        if name not in names:
            raise BadRequest(f"{file}: {key} has no check {name!r}. Its checks: {'; '.join(names)}")
    return table


def _read_table(file: Path, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(file.read_bytes())
    except (BadTable, BadPolicy) as error:
        raise BadRequest(f"{file} cannot be used: {shorten_text(error, 600)}.") from error
