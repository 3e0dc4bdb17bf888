"""What `check` finds for the definitions of this process, whatever a notebook has left switched on in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from graders.core import course
from graders.core.results import Status
from graders.marking.in_process import check_namespace
from tests.answers import answers_of
from tests.sample import SCALE_SUM


def test_each_check_draws_other_inputs_and_a_seed_repeats_them() -> None:
    asked = []

    def scale_sum(x: Any, k: float) -> Any:
        asked.append(tuple(x.tolist()))
        return (k * x).sum()

    namespace = {"scale_sum": scale_sum}
    results = [check_namespace(SCALE_SUM, namespace, seed) for seed in (None, None, 7, 7)]
    assert [result.status for result in results] == [Status.PASSED] * 4
    assert asked[4:6] == asked[6:8]
    assert len(set(asked)) == 6


def test_an_answer_that_changes_its_input_does_not_change_the_judges_copy() -> None:
    namespace: dict[str, Any] = {}
    exec("def scale_sum(x, k):\n    total = (k * x).sum()\n    x.data.zero_()\n    return total", namespace)
    assert check_namespace(SCALE_SUM, namespace, 1).status is Status.PASSED


def test_after_an_exception_the_other_draws_are_not_tried() -> None:
    calls = []

    def scale_sum(x: Any, k: float) -> None:
        calls.append(k)
        raise ValueError

    assert check_namespace(SCALE_SUM, {"scale_sum": scale_sum}, 1).status is Status.RAISED
    assert calls == [2.0]


def test_a_result_that_is_too_large_is_over_the_limit() -> None:
    result = check_namespace(SCALE_SUM, {"scale_sum": lambda x, k: [0] * 5000}, 1)
    assert result.status is Status.OVER_LIMIT
    assert "the result is too large: more than 4000 values" in result.message


@contextmanager
def another_default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("left_behind", [torch.no_grad, torch.inference_mode, another_default_dtype])
@pytest.mark.parametrize("lesson", ["01", "04", "11"])
def test_what_a_notebook_left_switched_on_decides_over_no_check(
    left_behind: Callable[[], AbstractContextManager[object]], lesson: str
) -> None:
    key, answers = next(iter(answers_of(lesson).right.items()))
    names: dict[str, Any] = {}
    exec(answers[0], names)
    exercise = course.find_exercise(key)
    with left_behind():
        grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        assert check_namespace(replace(exercise, cases=exercise.cases[:2]), names).status is Status.PASSED
        assert (torch.is_grad_enabled(), torch.get_default_dtype()) == (grad, dtype)
