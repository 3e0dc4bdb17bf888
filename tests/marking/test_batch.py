from __future__ import annotations

from pathlib import Path

from graders.core.results import SubmissionStatus
from graders.differential.exercise import NotInTheBox
from graders.marking.batch import Marking
from graders.marking.questions import LessonQuestions, Questions
from graders.marking.submission import mark_submission
from graders.run.runner import BoxRunner, NoRunner, StoppingRunner
from graders.run.submissions import Submission
from graders.run.warm_process import WarmProcess
from graders.wire.limits import Limits
from tests.notebooks import BRANCH, LESSON, text


def test_where_no_kernel_starts_only_the_first_notebook_is_tried_and_all_give_one_reason(
    box_modules: Path, warm: WarmProcess, tmp_path: Path
) -> None:
    file = tmp_path / "notebook.ipynb"
    file.write_text(text(BRANCH), encoding="utf-8")
    marking = Marking(Questions(1), StoppingRunner(BoxRunner(box_modules, limits=Limits(descriptors=10), warm=warm)))
    found = [marking.result(Submission(name, LESSON, file)) for name in ("ann", "bob", "cy")]
    marking.close()
    assert {result.status.value for result in found} == {"not-graded"}
    assert len({result.message for result in found}) == 1
    assert found[0].message.startswith("the process for the notebook did not start: open files: ")
    assert [bool(result.sha256) for result in found] == [True, False, False]  # the others were not run


class Defective(Questions):
    """Questions of a lesson with an exercise whose scene is given what is not in the box."""

    def for_lesson(self, lesson: str, seed: int | None = None) -> LessonQuestions:
        raise NotInTheBox("exercise 01-a: its scene gets a function that is not in the box")


def test_a_defect_of_an_exercise_is_told_in_its_own_words_and_is_nobodys_zero(tmp_path: Path) -> None:
    file = tmp_path / "notebook.ipynb"
    file.write_text(text(BRANCH), encoding="utf-8")
    result = mark_submission(Submission("ann", LESSON, file), Defective(1), NoRunner()).result
    assert (result.status, result.exercises) == (SubmissionStatus.NOT_GRADED, ())
    assert result.message == "exercise 01-a: its scene gets a function that is not in the box"
