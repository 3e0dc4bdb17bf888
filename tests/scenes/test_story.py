"""What becomes of exceptions in stories, which are generators."""

from __future__ import annotations

from graders.core import course
from graders.core.results import Status
from graders.marking.in_process import check_namespace


def test_a_stop_iteration_of_an_answer_is_its_own_exception() -> None:
    def scale_grad(t: object, s: float) -> object:
        return next(iter(()))

    result = check_namespace(course.find_exercise("03-scale-grad"), {"scale_grad": scale_grad}, 5)
    assert (result.status, "StopIteration" in result.message) == (Status.RAISED, True)
