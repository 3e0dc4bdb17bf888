from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from graders.core.results import CheckResult, ExerciseResult, Status, SubmissionResult
from graders.report.policy import (
    DAY,
    BadPolicy,
    LateRule,
    parse_late_rule,
    parse_points_table,
    with_penalty,
    with_points,
)
from tests.batches import exercise, graded


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", LateRule(0)),
        ("zero", LateRule(1)),
        ("10%/day", LateRule(0.1)),
        (" 2.5 % / Hour ", LateRule(0.025, 3600)),
        ("10%/day at most 50%", LateRule(0.1, DAY, 0.5)),
        ("10%/day, max 50%", LateRule(0.1, DAY, 0.5)),
    ],
)
def test_rules_can_be_written(text: str, rule: LateRule) -> None:
    assert parse_late_rule(text) == rule


@pytest.mark.parametrize("text", ["", "10", "10/day", "-5%/day", "10%/week"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(BadPolicy, match="10%/day at most 50%"):
        parse_late_rule(text)


@pytest.mark.parametrize(
    ("days", "lost"), [(-1, 0.0), (0, 0.0), (0.001, 0.1), (1, 0.1), (1.001, 0.2), (4.5, 0.5), (30, 0.5)]
)
def test_each_day_that_has_begun_costs_up_to_the_most(days: float, lost: float) -> None:
    assert LateRule(0.1, DAY, 0.5).lost_share(days * DAY) == pytest.approx(lost)


NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("deadline", "handed_in", "lost"),
    [
        ("2026-10-31T20:00", "2026-11-01T19:30", 0.1),  # 24.5 hours, on the day when summer time ends
        ("2026-10-31T20:00", "2026-11-01T20:00", 0.1),
        ("2026-10-31T20:00", "2026-11-01T20:00:01", 0.2),
        ("2026-03-07T20:00", "2026-03-08T20:30", 0.2),  # 23.5 hours, on the day when it begins
        ("2026-03-07T20:00", "2026-03-08T19:59", 0.1),
        ("2026-10-20T20:00", "2026-11-10T19:00", 2.1),
        ("2026-11-01T01:30", "2026-11-01T01:31", 0.1),  # this time of day comes twice on that day
        ("2026-03-07T02:30", "2026-03-08T03:30", 0.1),  # and this one does not come
        ("2026-03-07T02:30", "2026-03-08T03:31", 0.2),
    ],
)
def test_a_day_is_one_of_the_calendar_in_the_zone_of_the_deadline(deadline: str, handed_in: str, lost: float) -> None:
    due, came = (datetime.fromisoformat(time).replace(tzinfo=NEW_YORK).timestamp() for time in (deadline, handed_in))
    assert LateRule(0.1, most=3).lost_share(came - due, came, NEW_YORK) == pytest.approx(lost)


def test_hours_are_not_those_of_the_clock_and_an_offset_has_no_summer_time() -> None:
    due = datetime(2026, 10, 31, 20, tzinfo=NEW_YORK).timestamp()
    came = datetime(2026, 11, 1, 19, 30, tzinfo=NEW_YORK).timestamp()
    assert LateRule(0.01, 3600).lost_share(came - due, came, NEW_YORK) == pytest.approx(0.25)
    assert LateRule(0.1).lost_share(came - due, came, timezone(timedelta(hours=-4))) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("rule", "handed_in", "said"),
    [
        ("10%/day", "2026-11-02T18:00:40", ("2026-11-02 18:00:40 EST", "2026-10-31 18:00:00 EDT")),
        ("10%/day", "2026-11-02T18:01:00", ("2026-11-02 18:01 EST", "2026-10-31 18:00 EDT")),
        ("10%/day", "2026-10-31T18:00:01", ("2026-10-31 18:00:01 EDT", "2026-10-31 18:00:00 EDT")),
        ("10%/hour", "2026-10-31T20:00:05", ("2026-10-31 20:00:05 EDT", "2026-10-31 18:00:00 EDT")),
        ("10%/day", "2026-10-31T20:00:05", ("2026-10-31 20:00 EDT", "2026-10-31 18:00 EDT")),
    ],
)
def test_times_have_seconds_where_these_decide(rule: str, handed_in: str, said: tuple[str, str]) -> None:
    due = datetime(2026, 10, 31, 18, tzinfo=NEW_YORK).timestamp()
    came = datetime.fromisoformat(handed_in).replace(tzinfo=NEW_YORK).timestamp()
    late = with_penalty(graded("ann", exercise("01-a")), parse_late_rule(rule), came - due, came, NEW_YORK)
    assert late.late_note.startswith("Handed in at {}; the deadline was {}.".format(*said))


def test_a_penalty_is_kept_beside_the_score_and_never_taken_twice() -> None:
    once = with_penalty(graded("ann", exercise("01-a", score=2, most=2)), LateRule(0.1), 1.5 * DAY)
    assert (once.score, once.penalty) == (1.6, 0.4)
    assert with_penalty(once, LateRule(0.1), 1.5 * DAY) == once
    assert with_penalty(once, LateRule(0.1), -1) == graded("ann", exercise("01-a", score=2, most=2))


def partly(*passed: bool) -> SubmissionResult:
    """A submission with one wrong answer of 3 points, whose checks held like this."""
    checks = tuple(
        CheckResult(name=f"part {n}", passed=holds, score=1.0 if holds and passed[0] else 0.0, max_score=1.0)
        for n, holds in enumerate(passed)
    )
    score = sum(check.score for check in checks)
    return graded(
        "ann",
        ExerciseResult(key="01-a", status=Status.WRONG, score=score, max_score=3.0, checks=checks),
        exercise("01-b"),
    )


def test_other_points_for_an_exercise_scale_its_checks() -> None:
    found = with_points(partly(True, True, False), parse_points_table("exercise,points\n01-a,6\n"))
    assert [(exercise.score, exercise.max_score) for exercise in found.exercises] == [(4, 6), (1, 1)]
    assert [check.score for check in found.exercises[0].checks] == [2, 2, 0]
    assert (found.score, found.max_score) == (5, 7)


def test_checks_can_have_points_of_their_own_and_those_left_out_count_nothing() -> None:
    table = parse_points_table("exercise,check,points\n01-a,part 0,1\n01-a,test_part_1,3\n01-a,,8\n")
    assert [check.score for check in with_points(partly(True, False, True), table).exercises[0].checks] == [2, 0, 0]
    assert with_points(partly(True, True, False), table).exercises[0].score == 8


def test_no_condition_earns_points_while_the_first_check_fails() -> None:
    assert (
        with_points(partly(False, True, True), parse_points_table("exercise,points\n01-a,6\n")).exercises[0].score == 0
    )


def test_an_exercise_of_no_points_is_left_out() -> None:
    found = with_points(partly(True, True, True), parse_points_table("exercise,points\n01-a,0\n"))
    assert (found.score, found.max_score) == (1, 1)


@pytest.mark.parametrize("text", ["", "key,points\n", "exercise,points\n01-a,many\n", "exercise,points\n01-a,-1\n",
                                  "exercise,points\n01-a,inf\n", "exercise,points\n01-a\n"])  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadPolicy):
        parse_points_table(text)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("zero", "Late work gets no points."),
        ("10%/day", "Late work loses 10 % of its points for each day that has begun."),
        ("2.5%/hour at most 50%", "Late work loses 2.5 % of its points for each hour that has begun, at most 50 %."),
    ],
)
def test_who_is_late_is_told_the_deadline_and_the_rule(rule: str, sentence: str) -> None:
    noon = datetime(2026, 1, 2, 12).astimezone()
    late = with_penalty(graded("ann", exercise("01-a")), parse_late_rule(rule), 3660, noon.timestamp())
    times = f"Handed in at 2026-01-02 12:00 {noon:%Z}; the deadline was 2026-01-02 10:59 {noon:%Z}."
    assert late.late_note == f"{times} {sentence}"
    unknown = with_penalty(graded("ann", exercise("01-a")), parse_late_rule(rule), 1)
    assert unknown.late_note.endswith(sentence)
    assert unknown.late_note.startswith("The platform says that it was late, but not by how much")
    assert with_penalty(unknown, parse_late_rule(rule), -1).late_note == ""
