from __future__ import annotations

import dataclasses
from typing import Any

from graders.author.prove import mark_source
from graders.core import course
from graders.core.exercise import Mistake
from graders.core.expect import Seen
from graders.core.results import Status
from graders.judge.diagnose import diagnose
from graders.run.transcript import Outcome
from tests.sample import TestScaleSum as SCALE_SUM


def found(mistakes: tuple[Mistake, ...], *values: Any, draws: list[dict[str, Any]] | None = None) -> list[str]:
    """The ids of the mistakes that explain these failing draws; an exception stands for how its probe ended."""
    outcomes = [
        Outcome(status=Status.RAISED, error=type(value).__name__, message=str(value))
        if isinstance(value, Exception)
        else Outcome(seen=Seen(value))
        for value in values
    ]
    exercise = dataclasses.replace(SCALE_SUM, mistakes=mistakes)
    return [mistake.id for mistake in diagnose(exercise, draws or [{"k": 2}] * len(outcomes), outcomes)]


def equals(name: str, number: int) -> Mistake:
    """A mistake whose numbers are exactly this one."""
    return Mistake(name, lambda seen: seen.value == number, name)


def test_a_mistake_that_no_draw_shows_is_not_found() -> None:
    assert found((equals("one", 1), equals("two", 2)), 3, 4) == []
    assert found((), 1) == []


def test_the_mistake_that_explains_most_draws_is_found() -> None:
    assert found((equals("one", 1), equals("two", 2)), 1, 2, 2) == ["two"]


def test_of_mistakes_that_explain_equally_many_all_are_found_in_order() -> None:
    assert found((equals("one", 1), equals("two", 2)), 2, 1) == ["one", "two"]


def test_a_recogniser_may_ask_for_values_of_the_draw() -> None:
    mistake = Mistake("twice", lambda seen, k: seen.value == 2 * k, "twice")
    assert found((mistake,), 6, 8, draws=[{"k": 3}, {"k": 4}]) == ["twice"]
    assert found((mistake,), 7, 9, draws=[{"k": 3}, {"k": 4}]) == []


def test_a_recogniser_that_cannot_compute_does_not_match() -> None:
    failing = Mistake("failing", lambda seen: seen.value["a"] + 1 / 0, "failing")
    assert found((failing, equals("one", 1)), 1) == ["one"]


def test_an_exception_is_recognised_by_a_part_of_its_type_or_message() -> None:
    typed = Mistake("typed", raises="KeyError", message="m")
    worded = Mistake("worded", raises=("no such", "element 0 of tensors"), message="m")
    assert found((typed, worded), KeyError("x")) == ["typed"]
    assert found((typed, worded), RuntimeError("element 0 of tensors does not require grad")) == ["worded"]
    assert found((typed, worded), ValueError("x")) == []


def test_numbers_do_not_match_by_exception_nor_exceptions_by_numbers() -> None:
    both = Mistake("both", lambda seen: seen.value == 1, "m", raises="ValueError")
    assert found((both,), 1) == ["both"]
    assert found((both,), ValueError("v")) == ["both"]
    assert found((equals("one", 1),), ValueError("1")) == []
    assert found((Mistake("late", raises="ValueError", message="m"),), "ValueError") == []


def test_a_constant_answer_is_not_told_that_it_stored_a_reference() -> None:
    constant = "import torch\ndef per_pass_grads(p, losses):\n    return [torch.full_like(p, 0.123) for _ in losses]"
    result = mark_source(course.find_exercise("01-per-pass-grads"), constant, 3)
    assert (result.status, result.mistake) == (Status.WRONG, None)
