from __future__ import annotations

import pytest

from graders.core import course
from graders.core.source import STUB
from graders.core.untouched import LONGEST_STUB, UntouchedCopy, is_untouched_cell, leave_out_copies
from graders.submissions.intake import read_notebook

DEF = "def f(x):\n    "
WORKED = DEF + "return x"


@pytest.mark.parametrize("lesson", course.lesson_stems())
def test_every_stub_of_the_course_is_untouched_and_no_worked_answer_is(lesson: str) -> None:
    for folder, untouched in ((course.lessons_folder(), True), (course.solutions_folder(), False)):
        notebook = read_notebook(folder / f"{lesson}.ipynb")
        cells = [source for source, key in zip(notebook.cells, notebook.keys, strict=True) if key]
        assert len(cells) == len(course.exercise_keys(lesson))
        assert [is_untouched_cell(source) for source in cells] == [untouched] * len(cells)


@pytest.mark.parametrize(
    ("source", "untouched"),
    {
        DEF + STUB: True,
        DEF + '"""Says what to do."""\n    # here\n    raise NotImplementedError()': True,
        "import torch\n" + DEF + STUB: True,
        DEF + "return x\n    " + STUB: False,  # an answer above the last line of the stub
        DEF + "raise NotImplementedError('on purpose')": False,
        DEF + STUB + "\nprint(1)": False,
        DEF + "pass": False,
        STUB: False,
        DEF[:-6] + "\n    " + STUB: False,  # no valid Python
        "x = 1": False,
        DEF + f'"""{"long " * (LONGEST_STUB // 5)}"""\n    ' + STUB: False,
    }.items(),
)
def test_only_a_stub_is_untouched(source: str, untouched: bool) -> None:
    assert is_untouched_cell(source) is untouched


@pytest.mark.parametrize(
    ("cells", "left_out"),
    [
        ((WORKED, DEF + STUB), [1]),
        ((WORKED, "1", DEF + STUB, DEF + STUB), [2, 3]),
        ((DEF + STUB, WORKED), []),  # as a lesson is worked through
        ((DEF + STUB, WORKED, DEF + STUB), [2]),
        ((DEF[:-6] + "\n    return x", DEF + STUB), [1]),  # its answer is not valid Python, and is the answer still
        ((DEF + STUB, DEF + STUB), []),
        ((WORKED, DEF + "return 2 * x"), []),  # the last answer counts
        ((WORKED.replace("f", "g"), DEF + STUB), []),
    ],
)
def test_an_untouched_copy_below_an_answer_is_left_out(cells: tuple[str, ...], left_out: list[int]) -> None:
    run, copies = leave_out_copies(cells, ["f"])
    assert copies == [UntouchedCopy(index, "f") for index in left_out]
    assert run == tuple("" if index in left_out else source for index, source in enumerate(cells))


def test_the_imports_of_a_copy_still_run() -> None:
    run, _ = leave_out_copies([WORKED, "import torch\nfrom torch import nn as n\n\n\n" + DEF + STUB], ["f"])
    assert run == (WORKED, "import torch\nfrom torch import nn as n")
