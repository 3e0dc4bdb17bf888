"""Change the points of results: take some off for late work, or use other points than the course's."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo

from graders.core.errors import HookworkError
from graders.core.results import ExerciseResult, Status, SubmissionResult

DAY = 86_400.0
"""Seconds in a day."""
_RULE = re.compile(r"(\d+(?:\.\d+)?)\s*%\s*/\s*(day|hour)(?:\s*,?\s*(?:at most|max)\s*(\d+(?:\.\d+)?)\s*%)?")


class BadPolicy(HookworkError):
    """A rule or a table of points cannot be read; the message says how to write it."""


@dataclass(frozen=True)
class LateRule:
    """What lateness costs: `share` of the points for each period that has begun, but no more than `most`.

    Shares are from 0 to 1, and `period` is in seconds. One of `DAY` is a day of the calendar, which may have 23 or 25
    hours.
    """

    share: float = 0.0
    period: float = DAY
    most: float = 1.0

    def lost_share(self, seconds: float, handed_in: float = 0.0, zone: tzinfo | None = None) -> float:
        """The share of its points, from 0 to 1, that work loses when it is this many seconds late.

        `handed_in` is when that was, in seconds since 1970, or 0 if unknown; the deadline is in `zone`, or if that is
        None in this machine's.
        """
        if seconds <= 0:
            return 0.0
        by_calendar = self.period == DAY and handed_in
        periods = _days_begun(handed_in - seconds, handed_in, zone) if by_calendar else math.ceil(seconds / self.period)
        return min(self.most, self.share * periods)

    @property
    def sentence(self) -> str:
        """The rule in words, for students who are late."""
        if self.share >= 1:
            return "Late work gets no points."
        period = "day" if self.period == DAY else "hour"
        most = f", at most {_format_percent(self.most)}" if self.most < 1 else ""
        return f"Late work loses {_format_percent(self.share)} of its points for each {period} that has begun{most}."


def _days_begun(deadline: float, handed_in: float, zone: tzinfo | None) -> int:
    """How many days have begun by the clock: each ends at the time of day of the deadline."""
    start = datetime.fromtimestamp(deadline, zone)
    days = max(1, int((handed_in - deadline) // DAY) - 1)
    while (start + timedelta(days)).timestamp() < handed_in:
        days += 1
    return days


def _format_percent(share: float) -> str:
    return f"{100 * share:g} %"


def parse_late_rule(text: str) -> LateRule:
    """Parse a rule such as `none`, `zero`, `10%/day`, `5%/hour` or `10%/day at most 50%`. Raises `BadPolicy`."""
    plain = text.strip().casefold()
    if plain in ("none", "zero"):
        return LateRule(0.0 if plain == "none" else 1.0)
    match = _RULE.fullmatch(plain)
    if match is None:
        raise BadPolicy(f"{text!r} is not a rule for late work: none, zero, 10%/day, 5%/hour, 10%/day at most 50%")
    share, most = (min(1.0, float(percent) / 100) for percent in (match[1], match[3] or 100))
    return LateRule(share, DAY if match[2] == "day" else 3600.0, most)


def with_penalty(
    result: SubmissionResult, rule: LateRule, seconds: float, handed_in: float = 0.0, zone: tzinfo | None = None
) -> SubmissionResult:
    """A submission with the penalty for being handed in `seconds` after its deadline (negative if before it).

    `handed_in` is the time in seconds since 1970, or 0 if a platform only says that the work was late. `zone` is that
    of the deadline, None for this machine's. A penalty that the submission had before is replaced.
    """
    reached = result.score + result.penalty
    penalty = round(reached * rule.lost_share(seconds, handed_in, zone), 4)
    note = f"{_how_late(rule, seconds, handed_in, zone)} {rule.sentence}" if penalty else ""
    return replace(result, score=round(reached - penalty, 4), penalty=penalty, late_note=note)


def _how_late(rule: LateRule, seconds: float, handed_in: float, zone: tzinfo | None) -> str:
    if not handed_in:
        return "The platform says that it was late, but not by how much, so the smallest possible delay counts."
    came, due = (_in_zone(moment, zone) for moment in (handed_in, handed_in - seconds))
    # In the same minute of the day, or of the hour, only seconds show that another period has begun.
    close = came.minute == due.minute and (rule.period < DAY or came.hour == due.hour)
    form = "%Y-%m-%d %H:%M:%S %Z" if close else "%Y-%m-%d %H:%M %Z"
    return f"Handed in at {came.strftime(form)}; the deadline was {due.strftime(form)}."


def _in_zone(seconds: float, zone: tzinfo | None) -> datetime:
    """A time in seconds since 1970 in a zone with a name; None is this machine's zone."""
    return datetime.fromtimestamp(seconds, zone) if zone else datetime.fromtimestamp(seconds).astimezone()


@dataclass(frozen=True)
class PointsTable:
    """Points by exercise key, and weights of checks by exercise key and the check's name."""

    exercises: Mapping[str, float] = field(default_factory=dict)
    checks: Mapping[tuple[str, str], float] = field(default_factory=dict)


def parse_points_table(text: str) -> PointsTable:
    """Parse a CSV file with the columns exercise, points and, optionally, check. Raises `BadPolicy`.

    A row without a check sets the points of an exercise; rows with checks divide those points in proportion.
    """
    exercises: dict[str, float] = {}
    checks: dict[tuple[str, str], float] = {}
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    if not {"exercise", "points"} <= set(reader.fieldnames or ()):
        raise BadPolicy("it needs a header with the columns exercise, points and, optionally, check")
    for row in reader:
        try:
            value = float(row["points"])
        except (TypeError, ValueError):
            value = -1.0
        if not 0 <= value < math.inf:
            raise BadPolicy(f"{row['points']!r} in line {reader.line_num} is not a number of points")
        key, check = (row["exercise"] or "").strip(), (row.get("check") or "").strip()
        if check:
            checks[key, check.replace("_", " ").removeprefix("test ")] = value
        else:
            exercises[key] = value
    return PointsTable(exercises, checks)


def with_points(result: SubmissionResult, table: PointsTable) -> SubmissionResult:
    """A submission with the points of the table and no penalty; what the table leaves out keeps the course's points."""
    exercises = tuple(_exercise_with_points(exercise, table) for exercise in result.exercises)
    before = sum(exercise.max_score for exercise in result.exercises)
    return replace(
        result,
        exercises=exercises,
        score=round(sum(exercise.score for exercise in exercises), 4) if exercises else result.score,
        max_score=round(result.max_score - before + sum(exercise.max_score for exercise in exercises), 4),
        penalty=0.0,
    )


def _exercise_with_points(exercise: ExerciseResult, table: PointsTable) -> ExerciseResult:
    most = table.exercises.get(exercise.key, exercise.max_score)
    shares = [table.checks.get((exercise.key, check.name), check.max_score) for check in exercise.checks]
    if any((exercise.key, check.name) in table.checks for check in exercise.checks):
        # If the table names some checks of an exercise, the others count nothing.
        shares = [table.checks.get((exercise.key, check.name), 0.0) for check in exercise.checks]
    total = sum(shares)
    if not exercise.checks or not total:
        return replace(exercise, max_score=most, score=most if exercise.status is Status.PASSED else 0.0)
    judged = exercise.status in (Status.PASSED, Status.WRONG) and exercise.checks[0].passed
    points = [round(most * share / total, 4) for share in shares]
    checks = tuple(
        replace(check, max_score=its, score=its if judged and check.passed else 0.0)
        for check, its in zip(exercise.checks, points)
    )
    score = most if exercise.status is Status.PASSED else round(sum(check.score for check in checks), 4)
    return replace(exercise, max_score=most, score=score, checks=checks)
