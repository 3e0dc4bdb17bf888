from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from graders.author.prove import mark_source
from graders.core import course
from graders.core.difference import Difference, Kind
from graders.core.exercise import SILENT, Mistake
from graders.core.expect import Seen
from graders.core.results import Status
from graders.judge.diagnose import diagnose
from graders.run.transcript import Outcome
from tests.sample import TestScaleSum as SCALE_SUM

WRONG = Difference(Kind.VALUE, "total", "", "1", "2")
LEFT = Difference(Kind.HOOK_LEFT, note="a hook of yours is still there")


def found(
    mistakes: Sequence[Mistake],
    *values: Any,
    draws: list[dict[str, Any]] | None = None,
    differences: Sequence[Sequence[Difference | None]] | None = None,
    cases: Sequence[dict[str, Any]] = (),
) -> str | None:
    """The id of what explains these draws, which all fail where `differences` does not say otherwise.

    An exception stands for how its probe ended.
    """
    outcomes = [
        Outcome(status=Status.RAISED, error=type(value).__name__, message=str(value))
        if isinstance(value, Exception)
        else Outcome(seen=Seen(value))
        for value in values
    ]
    exercise = dataclasses.replace(
        SCALE_SUM,
        mistakes=tuple(mistakes),
        cases=tuple(cases) or ({},) * len(values),
        probe=lambda student, mode: None,
    )
    each = [[WRONG]] * len(values) if differences is None else differences
    explanation = diagnose(exercise, draws or [{"k": 2}] * len(values), outcomes, each)
    return explanation and explanation.id


def equals(name: str, *numbers: int, **parts: Any) -> Mistake:
    """A mistake whose numbers are exactly these."""
    return Mistake(name, lambda seen: seen.value in numbers, name, **parts)


def test_a_mistake_that_no_draw_shows_is_not_found() -> None:
    assert found([equals("one", 1), equals("two", 2)], 3, 4) is None
    assert found([], 1) is None


def test_a_mistake_has_to_explain_every_draw_that_fails() -> None:
    assert found([equals("one", 1), equals("two", 2)], 2, 2, 2) == "two"
    assert found([equals("one", 1), equals("two", 2)], 1, 2, 2) is None


def test_draws_on_which_everything_holds_need_no_explanation() -> None:
    assert found([equals("two", 2)], 1, 2, differences=[[None], [WRONG]]) == "two"


@pytest.mark.parametrize("turn", [1, -1])
def test_of_mistakes_that_explain_as_much_none_is_guessed_in_whatever_order(turn: int) -> None:
    assert found([equals("one", 1, 2), equals("two", 2)][::turn], 2, 2) is None


@pytest.mark.parametrize("turn", [1, -1])
def test_a_special_form_stands_before_the_general_one_in_whatever_order(turn: int) -> None:
    mistakes = [equals("any", 1, 2), equals("two", 2, rather_than=("any",))][::turn]
    assert found(mistakes, 2, 2) == "two"
    assert found(mistakes, 1, 2) == "any"


def test_what_has_to_be_explained_is_the_first_check_that_fails_wherever_it_does() -> None:
    rows = [[None, WRONG], [WRONG, WRONG], [None, WRONG]]
    assert found([equals("two", 2)], 1, 2, 3, differences=rows) == "two"
    assert found([equals("one", 1)], 1, 2, 3, differences=rows) is None
    assert found([equals("one", 1)], 1, 2, 1, differences=[[None, WRONG], [None, None], [None, WRONG]]) == "one"


def test_a_draw_that_cannot_show_a_mistake_does_not_contradict_it() -> None:
    silent = Mistake("silent", lambda seen: SILENT if seen.value == 0 else seen.value == 2, "silent")
    assert found([silent], 2, 0, 2) == "silent"
    assert found([silent], 2, 0, 1) is None
    assert found([silent], 0, 0) is None


def test_what_would_show_everywhere_is_contradicted_by_a_draw_that_holds() -> None:
    rows = [[WRONG], [None]]
    assert found([equals("two", 2)], 2, 1, differences=rows) == "two"
    assert found([equals("two", 2, everywhere=True)], 2, 1, differences=rows) is None
    assert found([equals("two", 2, everywhere=True)], 2, 2, differences=rows) == "two"
    silent = Mistake("silent", lambda seen: SILENT if seen.value == 1 else seen.value == 2, "silent", everywhere=True)
    assert found([silent], 2, 1, differences=rows) == "silent"
    raised = Mistake("raised", lambda seen: False, "raised", raises="nothing else", everywhere=True)
    assert found([raised], ValueError("nothing else"), 1) is None


def test_of_two_the_one_that_explains_more_draws_stands() -> None:
    silent = Mistake("silent", lambda seen: SILENT if seen.value == 1 else seen.value == 2, "silent")
    assert found([silent, equals("all", 1, 2)], 1, 2) == "all"


def test_a_recogniser_may_ask_for_values_of_the_draw() -> None:
    mistake = Mistake("twice", lambda seen, k: seen.value == 2 * k, "twice")
    assert found([mistake], 6, 8, draws=[{"k": 3}, {"k": 4}]) == "twice"
    assert found([mistake], 7, 9, draws=[{"k": 3}, {"k": 4}]) is None


def test_a_recogniser_that_cannot_compute_does_not_match() -> None:
    failing = Mistake("failing", lambda seen: seen.value["a"] + 1 / 0, "failing")
    assert found([failing, equals("one", 1)], 1) == "one"


def test_an_exception_is_recognised_by_a_part_of_its_type_or_message() -> None:
    typed = Mistake("typed", raises="KeyError", message="m")
    worded = Mistake("worded", raises=("no such", "element 0 of tensors"), message="m")
    assert found([typed, worded], KeyError("x")) == "typed"
    assert found([typed, worded], RuntimeError("element 0 of tensors does not require grad")) == "worded"
    assert found([typed, worded], ValueError("x")) is None
    assert found([typed, worded], KeyError("no such")) is None


def test_where_a_probe_raised_only_the_exception_is_evidence() -> None:
    both = Mistake("both", lambda seen: seen.value == 1, "m", raises="ValueError")
    assert found([both], 1) == "both"
    assert found([both], 7, ValueError("v"), differences=[]) == "both"
    assert found([equals("one", 1)], 1, ValueError("1"), differences=[]) is None


def test_without_a_mistake_of_the_exercise_the_kind_of_the_differences_explains() -> None:
    assert found([equals("one", 1)], 2, 2, differences=[[LEFT, None], [LEFT, LEFT]]) == "hook-left"
    assert found([equals("one", 1)], 2, 2, differences=[[LEFT], [WRONG]]) is None
    assert found([equals("two", 2)], 2, 2, differences=[[LEFT], [LEFT]]) == "two"


def test_what_explains_only_some_kinds_of_difference_yields_to_what_explains_all() -> None:
    behind = Mistake("hook-left-behind", lambda seen: seen.value == 1)
    assert behind.kinds == (Kind.HOOK_LEFT,)
    assert found([behind, equals("late", 1)], 1, differences=[[WRONG, LEFT]]) == "late"
    assert found([behind, equals("late", 1)], 1, differences=[[LEFT]]) == "hook-left"
    assert found([behind], 1, differences=[[WRONG, LEFT]]) == "hook-left-behind"


def test_or_the_circumstances_in_which_it_fails() -> None:
    cases = [{"mode": "train"}, {"mode": "eval"}, {"mode": "train"}]
    assert found([], 1, 2, 3, differences=[[None], [WRONG], [None]], cases=cases) == "only-in-training"
    assert found([], 1, 2, 3, differences=[[None], [WRONG], [WRONG]], cases=cases) is None


def test_a_circumstance_that_nobody_asks_for_explains_nothing() -> None:
    cases = [{"call": "once"}, {"call": "again"}, {"call": "once"}]
    assert found([], 1, 2, 3, differences=[[None], [WRONG], [None]], cases=cases) is None


def test_two_mistakes_that_explain_as_much_leave_the_word_to_what_is_sure() -> None:
    mistakes = [equals("one", 1), equals("uno", 1)]
    assert found(mistakes, 1, differences=[[LEFT]]) == "hook-left"
    assert found(mistakes, 1) is None


def test_a_constant_answer_is_not_told_that_it_stored_a_reference() -> None:
    constant = "import torch\ndef per_pass_grads(p, losses):\n    return [torch.full_like(p, 0.123) for _ in losses]"
    result = mark_source(course.find_exercise("01-per-pass-grads"), constant, 3)
    assert (result.status, result.mistake) == (Status.WRONG, None)
