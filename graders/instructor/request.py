"""Reads and checks what an instructor asks for, before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from graders.core import course
from graders.core.errors import HookworkError
from graders.core.text import shorten_text
from graders.report.policy import BadPolicy, LateRule, PointsTable, parse_points_table
from graders.submissions.groups import Groups, parse_groups
from graders.submissions.lms import NamePattern, Owner
from graders.submissions.roster import Person, Roster, parse_roster
from graders.submissions.tables import BadTable, decode_csv
from graders.wire.limits import Limits

T = TypeVar("T")


class BadRequest(HookworkError):
    """Raised when a request is impossible; the message says what to do instead."""


@dataclass(frozen=True)
class Request:
    """One call of `hookwork grade`. `students` and `exercises` limit a regrade; empty means all.

    `deadline` is in seconds since 1970, and `zone` its time zone, None for this machine's. `lessons` are the stems of
    those that are due; empty means those that several students handed in. Without a `rule` late work loses nothing.
    `files` are those that options were read from, such as the roster, which notebooks must not be able to read. With
    `scale`, exports convert points to the maximum that the roster gives for an assignment. `names` says how files and
    folders are named, `one_student` that all of them belong to one student, and `confirm_files` that the way they were
    read is right. `forgotten` are students whose earlier results are taken out. `seed` and `jobs` are chosen when None.
    With `comments_below`, our feedback stands below what a teacher has written into a worksheet; otherwise it is left
    out there.
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
    zone: tzinfo | None = None
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
    comments_below: bool = True
    forgotten: tuple[str, ...] = ()

    @property
    def is_regrade(self) -> bool:
        """Whether only some students or exercises are marked again."""
        return bool(self.students or self.exercises)

    def deadline_for(self, owner: Owner) -> float:
        """The owner's deadline, in seconds since 1970: their own, or that of the class; for a group, its latest."""
        return self._deadline_and_zone(owner)[0]

    def zone_for(self, owner: Owner) -> tzinfo | None:
        """The time zone of the owner's deadline; None is this machine's."""
        return self._deadline_and_zone(owner)[1]

    def _deadline_and_zone(self, owner: Owner) -> tuple[float, tzinfo | None]:
        group = self.groups.find(owner.name) if self.groups else None
        members = [Owner(member.name, *member.ids[:1]) for member in group.members] if group else [owner]
        return max(map(self._personal_deadline, members), key=lambda found: found[0])

    def _personal_deadline(self, owner: Owner) -> tuple[float, tzinfo | None]:
        person = self.roster.find(owner.name, owner.id) if self.roster else None
        if person is None or not person.deadline:
            return self.deadline, self.zone
        return parse_time(person.deadline), time_zone(person.deadline)


def parse_time(text: str) -> float:
    """An ISO 8601 time in seconds since 1970: local time if it names no zone; for a date alone, the end of the day.

    A zone may have a name, as in `2026-11-20T18:00 Europe/Paris`. Raises `BadRequest` when it is no such time.
    """
    return _parse_moment(text).timestamp()


def time_zone(text: str) -> tzinfo | None:
    """The zone that such a time names; None if it names none. Raises `BadRequest` when it is no such time."""
    return _parse_moment(text).tzinfo


def _parse_moment(text: str) -> datetime:
    named = _NAMED_ZONE.fullmatch(text.strip())
    written, name = named.groups() if named else (text.strip(), "")
    try:
        found = datetime.fromisoformat(written.replace("Z", "+00:00"))
        found = found.replace(tzinfo=ZoneInfo(name)) if name else found
    except ZoneInfoNotFoundError:
        raise BadRequest(f"There is no time zone {shorten_text(name, 60)!r}; write it like Europe/Paris") from None
    except (ValueError, OSError):
        like = "2026-11-20T18:00, 2026-11-20 or '2026-11-20T18:00 Europe/Paris'"
        raise BadRequest(f"{shorten_text(text, 60)!r} is not a time; write it like {like}") from None
    return found.replace(hour=23, minute=59, second=59) if len(written) == len("2026-11-20") else found


_NAMED_ZONE = re.compile(r"(.+?) +([A-Za-z][\w/+-]*)")


def iso_time(seconds: float) -> str:
    """A time in seconds since 1970 as results hold it: ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def read_roster(file: Path) -> Roster:
    """The roster in a CSV file. Raises `BadRequest` when it, or a deadline or lesson in it, cannot be read."""
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
    """The sorted stems of the lessons that are due for somebody by the roster. Raises `course.UnknownLesson`."""
    return sorted(map(course.find_lesson, person.lessons))


def read_groups(file: Path) -> Groups:
    """The groups in a CSV file. Raises `BadRequest` when it cannot be read."""
    return _read_table(file, parse_groups)


def read_points(file: Path) -> PointsTable:
    """The points in a CSV file. Raises `UnknownKey` for an unknown exercise, `BadRequest` for other errors in it."""
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
