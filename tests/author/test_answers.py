"""Answers that quote their contract."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from graders.author.answers import Answer, Answers, changed, load_module, unfounded_quotes
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.source import SourceError
from tests.sample import SCALE_SUM

CONTRACT = """Write `f(p, xs)`. `p` is a leaf. Return a list with one
gradient for each of `xs`, e.g. `h_n.sum()` of it. Afterwards

- `p.grad` is `None`,
- `xs` is empty. No entry requires grad.

**Example.** For `p = 1` the result is `[1]`. It is a list.
"""
EXERCISE = replace(SCALE_SUM, contract=CONTRACT)


def answers(*quotes: str) -> Answers:
    return Answers(tuple(Answer(f"answer {quote!r}", "", violates=quote) for quote in quotes))


def test_a_quote_stands_in_the_contract_or_in_what_each_lesson_says_of_all_exercises() -> None:
    good = answers(
        "Return a list with one gradient",
        "Return copies without a graph.",
        "even while another call runs",
    )
    assert list(unfounded_quotes(EXERCISE, good)) == []
    bad = answers("Return a tuple", "the `KeyboardInterrupt` of somebody who stops the run")  # only in rules.md
    assert list(unfounded_quotes(EXERCISE, bad)) == [
        f"90-scale-sum: answer {quote!r} quotes {quote!r}, which is not in the contract or the rules"
        for quote in ("Return a tuple", "the `KeyboardInterrupt` of somebody who stops the run")
    ]


def test_a_check_that_is_not_there_is_named() -> None:
    answers = Answers((Answer("an answer", "", check="test_something"),))
    assert list(unfounded_quotes(EXERCISE, answers)) == [
        "90-scale-sum: an answer names the check test_something, which is not there: "
        "test_the_sum_is_right, test_the_gradient_is_right, test_no_hook_is_left"
    ]


def result(status: Status, *refused: str) -> ExerciseResult:
    names = ("the sum is right", "no hook is left")
    checks = tuple(
        CheckResult(name=name, passed=name not in refused, score=0, max_score=1, message="because") for name in names
    )
    return ExerciseResult(
        key="90-x", status=status, score=0, max_score=1, mistake=None, message="a message", checks=checks
    )


@pytest.mark.parametrize(
    ("check", "found", "problem"),
    [
        ("test_no_hook_is_left", result(Status.WRONG, "no hook is left"), ""),
        (
            "test_no_hook_is_left",
            result(Status.WRONG, "the sum is right"),
            "is not refused by test_no_hook_is_left, but by: the sum is right",
        ),
        ("test_no_hook_is_left", result(Status.RAISED), "is raised, not refused by test_no_hook_is_left: a message"),
        ("raised", result(Status.RAISED), ""),
        ("raised", result(Status.WRONG, "no hook is left"), "is wrong, not raised"),
        (None, result(Status.RAISED), ""),
        (None, result(Status.PASSED), "passes"),
    ],
)
def test_a_wrong_answer_is_refused_by_the_check_that_it_names(
    check: str | None, found: ExerciseResult, problem: str
) -> None:
    assert Answer("wrong", "", check=check).problem_with(found) == problem


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (result(Status.PASSED), ""),
        (result(Status.WRONG, "no hook is left"), "is wrong: because"),
        (result(Status.RAISED, "the sum is right"), "is raised: a message"),
    ],
)
def test_of_a_right_answer_that_does_not_pass_the_reason_is_told(found: ExerciseResult, problem: str) -> None:
    assert Answer("right", "", passes=True).problem_with(found) == problem


def test_an_answer_may_be_another_one_with_places_changed() -> None:
    assert changed("a = b + c", ("b", "2"), ("c", "3")) == "a = 2 + 3"


@pytest.mark.parametrize("old", ["d", "b"])
def test_a_place_to_change_is_there_exactly_once(old: str) -> None:
    with pytest.raises(ValueError, match="not once: '"):
        changed("a = b + b", (old, "2"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("RIGHT = [\n", "function_name.py, line 1: SyntaxError: '[' was never closed"),
        ("RIGHT = []\nWRONG = [Wrong()]\n", "function_name.py, line 2: NameError: name 'Wrong' is not defined"),
    ],
)
def test_a_slip_in_a_file_of_answers_is_told_by_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    folder = tmp_path / "lesson_98_slips"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "function_name.py").write_text(text)
    with pytest.raises(SourceError, match=re.escape(told)):
        load_module(folder / "function_name.py")


def test_a_mutant_is_listed_by_how_its_headline_begins():
    answers = Answers((), {"lost copy: x": "", "not for all: … step=-1": "", "lost copy: … _not_copied": ""})
    headlines = {
        "lost copy: x = y": ["lost copy: x"],
        "a lost copy: x": [],
        "lost copy: f(_not_copied(x))": ["lost copy: … _not_copied"],
        "lost copy: x, _not_copied(y)": ["lost copy: x", "lost copy: … _not_copied"],
        "not for all: for p in _part(ps, step=-1)": ["not for all: … step=-1"],
        "not for all: stop=1": [],
    }
    assert {headline: answers.listings(headline) for headline in headlines} == headlines
