"""What becomes of exceptions in stories, which are generators."""

from __future__ import annotations

import pytest

from graders.core import course
from graders.core.results import Status
from graders.marking.in_process import check_namespace
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.story import stories


def test_a_stop_iteration_of_an_answer_is_its_own_exception() -> None:
    def scale_grad(t: object, s: float) -> object:
        return next(iter(()))

    result = check_namespace(course.find_exercise("03-scale-grad"), {"scale_grad": scale_grad}, 5)
    assert (result.status, "StopIteration" in result.message) == (Status.RAISED, True)


def test_an_option_that_no_story_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no story has an argument pairs"):
        stories(promises=[hooks.differentiated_again], axes=hooks.TENSOR, pairs=(("dtype", "rank"),))
