from __future__ import annotations

from datetime import datetime

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
    ("days", "lost"),
    [(-1, 0.0), (0, 0.0), (0.001, 0.1), (1, 0.1), (1.001, 0.2), (4.5, 0.5), (30, 0.5)],
)
def test_each_day_that_has_begun_costs_up_to_the_most(days: float, lost: float) -> None:
    assert LateRule(0.1, DAY, 0.5).lost_share(days * DAY) == pytest.approx(lost)


def test_a_time_of_grace_costs_nothing_and_then_counts_in_full() -> None:
    rule = LateRule(0.1, DAY, 1, grace=600)
    assert (rule.lost_share(600), rule.lost_share(601)) == (0, 0.1)


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
    late = with_penalty(graded("ann", exercise("01-a")), parse_late_rule(rule), 3600, noon.timestamp())
    times = f"Handed in at 2026-01-02 12:00 {noon:%Z}; the deadline was 2026-01-02 11:00 {noon:%Z}."
    assert late.late_note == f"{times} {sentence}"
    unknown = with_penalty(graded("ann", exercise("01-a")), parse_late_rule(rule), 1)
    assert unknown.late_note.endswith(sentence)
    assert unknown.late_note.startswith("The platform says that it was late, but not by how much")
    assert with_penalty(unknown, parse_late_rule(rule), -1).late_note == ""
