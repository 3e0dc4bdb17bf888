from __future__ import annotations

import pytest

from graders.core.results import ExerciseResult, Status
from graders.core.untouched import UntouchedCopy
from graders.marking.whereabouts import with_note
from graders.submissions.intake import Notebook, TextCell

KEY, NAME = "01-branch-grads", "branch_grads"
ANSWER = "def branch_grads(w, x):\n    return {}"
STUB = "def branch_grads(w, x):\n    raise NotImplementedError"


def note(
    *cells: str,
    key: str = "",
    texts: tuple[TextCell, ...] = (),
    copies: tuple[int, ...] = (),
    status: Status = Status.NOT_ATTEMPTED,
) -> str:
    """The note on the exercise in a notebook of these cells, the last of which has `key` in its metadata."""
    keys = ("",) * (len(cells) - 1) + (key,) * bool(cells)
    notebook = Notebook(cells=cells, lesson=None, sha256="", keys=keys, texts=texts)
    result = ExerciseResult(key=KEY, status=status, score=0, max_score=1, cell=2)
    return with_note(
        result, NAME, notebook, [UntouchedCopy(index, NAME) for index in copies], [NAME, "chain_grads"]
    ).note


def test_of_an_answer_with_copies_the_cell_that_counts_is_named() -> None:
    for status in (Status.PASSED, Status.WRONG, Status.RAISED):
        assert note(copies=(3,), status=status) == (
            "The answer in code cell 2 counts. Code cell 4 is an untouched copy of the exercise, and was left out."
        )
    assert note(copies=(3, 6), status=Status.PASSED) == (
        "The answer in code cell 2 counts. Code cells 4, 7 are untouched copies of the exercise, and were left out."
    )


@pytest.mark.parametrize(
    ("kind", "above", "where"),
    [
        ("markdown", 14, "The Markdown cell below code cell 14"),
        ("raw", 1, "The raw cell below code cell 1"),
        ("markdown", 0, "The Markdown cell above all code cells"),
    ],
)
def test_an_answer_in_a_cell_that_is_not_run_is_found(kind: str, above: int, where: str) -> None:
    said = f"{where} defines `branch_grads`, but only code cells are run: change its type to Code."
    assert note(STUB, texts=(TextCell(kind, f"```python\n{ANSWER}\n```", above),)) == said
    assert note("1", texts=(TextCell(kind, ANSWER, above),)) == said


def test_an_answer_inside_a_class_or_a_function_is_found() -> None:
    inside = ANSWER.replace("\n", "\n    ")
    for outer, head in (("Answers", "class Answers:"), ("run", "def run():")):
        assert note("1", f"{head}\n    {inside}") == (
            f"Code cell 2 defines `branch_grads` inside `{outer}`, where nobody finds it: move it out of there."
        )


@pytest.mark.parametrize(
    ("other", "letter"),
    [
        ("branch_grad", ""),
        ("brnach_grads", ""),
        ("branchGrads", ""),
        ("br\u0430nch_grads", " (its `\u0430` is CYRILLIC SMALL LETTER A)"),
    ],
)
def test_a_name_that_is_wrong_by_a_letter_is_found(other: str, letter: str) -> None:
    assert note(STUB, ANSWER.replace(NAME, other)) == (
        f"Code cell 2 defines `{other}`{letter}, but the exercise asks for `branch_grads`."
    )


def test_any_other_name_is_one_only_in_the_cell_of_the_exercise() -> None:
    other = ANSWER.replace(NAME, "my_answer")
    assert note(other, key=KEY) == "Code cell 1 defines `my_answer`, but the exercise asks for `branch_grads`."
    assert note(other) == ""
    assert note(other, key="01-chain-grads") == ""


@pytest.mark.parametrize("cell", [STUB, ANSWER.replace(NAME, "chain_grads"), "x = 1", "def f(:", f"'{NAME}'"])
def test_what_is_no_answer_is_not_mentioned(cell: str) -> None:
    assert note(cell, key=KEY, texts=(TextCell("markdown", f"Write `{NAME}(w, x)`.", 1),)) == ""
    assert note("x", texts=(TextCell("raw", STUB, 1),)) == ""


def test_an_answer_that_was_judged_needs_no_other_place() -> None:
    assert note(ANSWER, texts=(TextCell("markdown", ANSWER, 1),), status=Status.WRONG) == ""
