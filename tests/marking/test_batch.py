from __future__ import annotations

from pathlib import Path

from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.run.runner import BoxRunner, StoppingRunner
from graders.run.submissions import Submission
from graders.wire.limits import Limits
from tests.notebooks import BRANCH, LESSON, text


def test_where_no_kernel_starts_only_the_first_notebook_is_tried_and_all_give_one_reason(
    kit: Path, tmp_path: Path
) -> None:
    file = tmp_path / "notebook.ipynb"
    file.write_text(text(BRANCH), encoding="utf-8")
    marking = Marking(Questions(1), StoppingRunner(BoxRunner(kit, limits=Limits(descriptors=10))))
    found = [marking.result(Submission(name, LESSON, file)) for name in ("ann", "bob", "cy")]
    marking.close()
    assert {result.status.value for result in found} == {"not-graded"}
    assert len({result.message for result in found}) == 1
    assert found[0].message.startswith("the process for the notebook did not start: open files: ")
    assert [bool(result.sha256) for result in found] == [True, False, False]  # the others were not run
