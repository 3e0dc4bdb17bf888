from __future__ import annotations

import pytest

from graders.core.source import SourceError, exercise_cells, make_stub, without_solution_marks

SOLVED = """\
import torch


def double(x):
    ### BEGIN SOLUTION
    y = 2 * x
    return y
    ### END SOLUTION
"""


def test_a_marked_solution_becomes_one_line_that_raises() -> None:
    assert make_stub(SOLVED) == "import torch\n\n\ndef double(x):\n    raise NotImplementedError\n"


def test_each_solution_is_replaced_at_its_own_depth() -> None:
    begin, end = "### BEGIN SOLUTION", "### END SOLUTION"
    source = f"{begin}\nx = 1\n{end}\nif x:\n        {begin}\n        pass\n        {end}"
    assert make_stub(source) == "raise NotImplementedError\nif x:\n        raise NotImplementedError"


def test_a_solved_cell_is_the_same_text_without_the_marks() -> None:
    assert without_solution_marks(SOLVED) == "import torch\n\n\ndef double(x):\n    y = 2 * x\n    return y\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("### BEGIN SOLUTION\nx = 1", "BEGIN SOLUTION without ### END SOLUTION"),
        ("x = 1\n### END SOLUTION", "'### END SOLUTION' without its partner"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "'### BEGIN SOLUTION' without its partner"),
        ("def f():\n    return 1", "no answer is marked"),
    ],
)
def test_marks_that_do_not_come_in_pairs_are_refused(source: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        make_stub(source)


def test_exercise_cells_are_found_by_their_key() -> None:
    text = f"""\
# %% [markdown]
# # A lesson with the word exercise="99-not-this" in its text

# %%
import torch

# %% exercise="90-double"
{SOLVED}
# %% tags=["figure"] exercise="90-other"
other = 3

# %%
check = 1
"""
    assert exercise_cells(text) == {"90-double": without_solution_marks(SOLVED).strip("\n"), "90-other": "other = 3"}


def test_a_text_without_exercises_has_no_cells() -> None:
    assert exercise_cells("# %%\nx = 1\n") == {}
