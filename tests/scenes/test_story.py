"""What becomes of exceptions in stories, which are generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graders.core import course
from graders.core.results import Status
from graders.marking.in_process import check_namespace, probe_outcomes
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.verdict.scene_exercise import find_scene_exercise


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit


class _Unreadable(Exception, metaclass=_Nameless):
    def __str__(self) -> str:
        raise SystemExit


def _stops(t: object, s: float) -> object:
    return next(iter(()))


def _raises_unreadable(t: object, s: float) -> object:
    raise _Unreadable


@pytest.mark.parametrize(
    ("scale_grad", "message"),
    [
        (_stops, "raised StopIteration"),
        (_raises_unreadable, "raised _Unreadable: (its message cannot be read)"),
        # No line of these is in the trace of what they raise, and they are the learner's all the same.
        (3, "raised TypeError: 'int' object is not callable"),
        (len, "raised TypeError: len() takes exactly one argument (2 given)"),
        (lambda t: t, "takes 1 positional argument but 2 were given"),
    ],
)
def test_what_an_answer_raises_is_its_own_exception(scale_grad: Callable[..., Any], message: str) -> None:
    result = check_namespace(course.find_exercise("03-scale-grad"), {"scale_grad": scale_grad}, 5)
    assert (result.status, message in result.message) == (Status.RAISED, True), result.message


def _loses_arguments(module: torch.nn.Module, **forced: object) -> object:
    return module.register_forward_pre_hook(lambda module, args, kwargs: ((), forced), with_kwargs=True)


def test_what_a_class_of_a_story_raises_names_it_as_the_program_does() -> None:
    exercise = find_scene_exercise("06-force-kwargs")
    draws = exercise.draws(5)
    refusal = exercise.refusal(draws, probe_outcomes(exercise, {"force_kwargs": _loses_arguments}, 5, draws))
    assert refusal is not None
    assert refusal.program.endswith("TypeError: Wave.forward() missing 1 required positional argument: 'x'\n")


def test_an_option_that_no_story_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no story has an argument partners"):
        stories(promises=[hooks.differentiated_again], axes=hooks.TENSOR, partners=(("dtype", "rank"),))
