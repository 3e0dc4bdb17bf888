from __future__ import annotations

import sys

import nbformat
import pytest
from nbformat import NotebookNode

from graders.author.lesson import INSTALL_CELL, RULES_LINK, THREE_RULES, notebook_from_source
from graders.core.source import SourceError
from tests.sample import SCALE_SUM, WRAP

SOURCE = """\
# %% [markdown]
# # A small lesson

# %%
import torch

# %% exercise="90-scale-sum"
def scale_sum(x, k):
    ### BEGIN SOLUTION
    return (k * x).sum()
    ### END SOLUTION

# %% tags=["figure"]
picture = 1

# %% tags=["spoiler"]
answer = 2

# %% exercise="90-wrap"
def wrapped_layer(layer):
    ### BEGIN SOLUTION
    return torch.nn.Sequential(layer)
    ### END SOLUTION

# %%
import torch
"""


def built(source: str = SOURCE, *, solved: bool = False) -> NotebookNode:
    """The notebook from the source of a lesson `90_small` whose exercises are those of the sample."""
    return notebook_from_source(source, "90_small", (SCALE_SUM, WRAP), solved=solved)


def codes(made: NotebookNode) -> list[str]:
    return [cell.source for cell in made.cells if cell.cell_type == "code"]


def test_the_learners_notebook_has_stubs_and_the_solved_one_answers() -> None:
    stubs, answers = codes(built()), codes(built(solved=True))
    assert stubs == [
        INSTALL_CELL,
        "import torch",
        "def scale_sum(x, k):\n    raise NotImplementedError",
        'check("90-scale-sum")',
        "picture = 1",
        "answer = 2",
        "def wrapped_layer(layer):\n    raise NotImplementedError",
        'check("90-wrap")',
        "import torch",
    ]
    assert answers[2] == "def scale_sum(x, k):\n    return (k * x).sum()"
    assert answers[:2] + answers[3:6] + answers[7:] == stubs[:2] + stubs[3:6] + stubs[7:]


def test_the_first_code_cell_is_a_line_that_says_what_to_do_where_the_course_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "\n" not in INSTALL_CELL
    assert len(INSTALL_CELL) <= 88
    exec(INSTALL_CELL, {})  # plain Python: no magic that could fetch something
    monkeypatch.setitem(sys.modules, "graders", None)  # Python's way to say that there is no such package
    with pytest.raises(ModuleNotFoundError, match="graders"):
        exec(INSTALL_CELL, {})


def test_each_exercise_is_preceded_by_its_contract_and_points() -> None:
    texts = [cell.source for cell in built().cells if cell.cell_type == "markdown"]
    assert texts == [
        "# A small lesson",
        "### Exercise `90-scale-sum`: Scale, then add up (3 points)\n\n*15 min · medium · core path*\n\n"
        + f"{SCALE_SUM.contract}\n\n{RULES_LINK}\n\n{THREE_RULES}",
        f"### Exercise `90-wrap`: Wrap (1 point)\n\n{WRAP.contract}\n\n{RULES_LINK}",
    ]


def test_a_lesson_that_says_the_three_rules_in_its_text_does_not_repeat_them() -> None:
    texts = [cell.source for cell in built(SOURCE.replace("A small lesson", "{{rules}}")).cells]
    assert [text.count("**Let errors through.**") for text in texts if "errors" in text] == [1]


def test_the_notebook_is_valid_and_says_where_it_comes_from() -> None:
    made = built()
    nbformat.validate(made)
    assert made.metadata["hookwork"] == {
        "lesson": "90_small",
        "notice": "Built from solutions/90_small.py; changes belong there.",
    }
    assert made.metadata["kernelspec"]["name"] == "python3"


def test_ids_are_unique_and_the_same_in_every_build() -> None:
    ids = [[cell["id"] for cell in built().cells] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])
    assert [name for name in ids[0] if name.startswith("90-")] == [
        "90-scale-sum",
        "90-scale-sum-check",
        "90-wrap",
        "90-wrap-check",
    ]
    assert ids[0][-1] == f"{ids[0][2]}-2"  # the same text twice


def test_exercise_cells_carry_the_metadata_that_other_graders_read() -> None:
    cells = {cell["id"]: cell for cell in built().cells}
    assert cells["90-scale-sum"].metadata == {
        "nbgrader": {"schema_version": 3, "grade_id": "90-scale-sum", "solution": True, "locked": False, "task": False,
                     "grade": True, "points": 3},
        "hookwork": {"exercise": "90-scale-sum"},
    }  # fmt: skip
    assert cells["90-scale-sum-check"].metadata["nbgrader"] == {
        "schema_version": 3, "grade_id": "90-scale-sum-check", "solution": False, "locked": True, "task": False,
        "grade": False,
    }  # fmt: skip


@pytest.mark.parametrize("source", [INSTALL_CELL, "picture = 1", "answer = 2"])
def test_cells_that_set_up_draw_or_give_answers_away_are_folded(source: str) -> None:
    cells = {cell.source: cell.metadata for cell in built().cells}
    assert cells[source] == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    assert cells["import torch"] == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'exercise="90-wrap"',
            'exercise="90-rap"',
            "a cell names the exercise '90-rap', which graders/exercises/lesson_90_small",
        ),
        ('exercise="90-wrap"', "", r'no cell for 90-wrap; start one with # %% exercise="KEY"'),
        (
            "### BEGIN SOLUTION\n    return (k",
            "return (k",
            "exercise 90-scale-sum: '### END SOLUTION' without its partner",
        ),
        ('exercise="90-wrap"', 'exercise="90-scale-sum"', "a cell names the exercise '90-scale-sum'"),
    ],
)
def test_a_source_that_does_not_fit_its_grader_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        built(SOURCE.replace(old, new))
