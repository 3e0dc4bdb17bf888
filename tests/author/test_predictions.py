"""Predictions in the source of a lesson: right there, `...` for learners, and each with its comparison."""

from __future__ import annotations

import pytest

from graders.author.build import run_notebook
from graders.author.lesson import notebook_from_source, source_cells
from graders.author.predictions import check_pairs, questions_without_guess, without_answers
from graders.author.prove import without_guess
from graders.core.source import SourceError

SOURCE = """\
# %% [markdown]
# **Predict.** What are the two gradients?

# %%
guess("90-two", w=5, x=2)

# %%
print(5)
compare("90-two", x=2, w=5)

# %% [markdown] explains="90-two"
# Both uses are added.
"""


@pytest.mark.parametrize(
    ("source", "learners"),
    [
        ('guess("90-two", w=5, x=-2.0)', 'guess("90-two", w=..., x=...)'),
        (
            'guess("90-é", é=["ä", "b"], what="raises")  # "raises" or a number',
            'guess("90-é", é=..., what=...)  # "raises" or a number',
        ),
        (
            'guess(\n    "90-order",\n    order=[\n        "a",\n        "b",\n    ],  # of "a", "b"\n)',
            'guess(\n    "90-order",\n    order=...,  # of "a", "b"\n)',
        ),
        ("guess = 3\nprint(guess)", "guess = 3\nprint(guess)"),
    ],
)
def test_learners_find_dots_where_the_source_is_right(source: str, learners: str) -> None:
    assert without_answers(source) == learners


def test_a_guess_and_its_comparison_belong_together() -> None:
    check_pairs(source_cells(SOURCE), "90_small")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('compare("90-two", x=2, w=5)', "", r"guess\('90-two'\) is there without its compare"),
        ('guess("90-two", w=5, x=2)', "print(1)", r"compare\('90-two'\) is there without its guess"),
        ('compare("90-two", x=2, w=5)', 'compare("90-two", w=5)', "have different names"),
        ('compare("90-two", x=2, w=5)', 'compare("90-two", x=2, w=5)\n' * 2, "compare.'90-two'. is there twice"),
        ("# %% [markdown]\n", '# %%\nguess("90-two", w=1)\n\n# %% [markdown]\n', "the guess '90-two' is there twice"),
        ("# %% [markdown]\n", '# %%\ncompare("90-one", w=1)\n\n# %%\nguess("90-one", w=1)\n\n# %% [markdown]\n',
         r"compare\('90-one'\) belongs in a cell below its guess"),
        ("90-two", "91-two", "the guess '91-two': a key here looks like 90-four-gradients"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two", w=5, x=2)\nprint(1)', "needs a cell of its own"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two", w=5, x=...)', "write what is right"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two")', "names what is to be guessed"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two", 5)', "names what is to be guessed"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two", **given)', "names what is to be guessed"),
        ('guess("90-two", w=5, x=2)', 'guess("90-two", w=5', "is not Python"),
        ('compare("90-two", x=2, w=5)', "compare(key, x=2, w=5)", "the first argument is the key of the guess"),
        (' explains="90-two"', "", r"the first text below compare\(.90-two.\) says why this comes out, and waits"),
        ("# %% [markdown] explains", "# %% [markdown]\n# 5.\n\n# %% [markdown] explains", "the first text below"),
        ("# %%\nprint(5)", "# %% [markdown]\n# It is 5.\n\n# %%\nprint(5)", "'90-two': no text may stand between"),
        ("# Both uses", "# ## Sums\n#\n# Both uses", "the explanation of '90-two' holds a heading or a question"),
        ("are added.", "are added. **Predict.** And y?", "the explanation of '90-two' holds a heading or a question"),
        ("are added.", 'are added.\n\n# %% [markdown] explains="90-two"\n# No.', "or another cell explains it"),
        ("are added.", 'are added.\n\n# %% [markdown] explains="90-one"\n# No.', "there is no guess '90-one'"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_an_error_that_says_what_to_do(old: str, new: str, message: str) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    with pytest.raises(SourceError, match=message):
        check_pairs(source_cells(changed), "90_small")


def test_a_question_without_a_guess_is_told_unless_the_author_says_why() -> None:
    assert list(questions_without_guess(source_cells(SOURCE))) == []
    bare = SOURCE.replace('guess("90-two", w=5, x=2)', "print(1)")
    assert list(questions_without_guess(source_cells(bare))) == ["What are the two gradients?"]
    reasoned = bare.replace("# %% [markdown]", '# %% [markdown] no_guess="it is a matter of taste"')
    assert list(questions_without_guess(source_cells(reasoned))) == []


def test_no_lesson_asks_anything_without_a_guess() -> None:
    asks = "\n# %% [markdown]\n# **Predict.** And then?\n"
    (problem,) = without_guess("90_small", SOURCE + asks)
    assert without_guess("90_small", asks) == [problem]
    assert problem.startswith("solutions/90_small.py: no guess follows the question 'And then?': write one, or say")


RUNS = """\
# %%
from graders import compare, guess

# %%
guess("90-sum", total=@)

# %%
total = 2 + 3
print(total)
compare("90-sum", total=total)
assert total == 5

# %% [markdown] explains="90-sum"
# 2 and 3 make 5.

# %%
assert total > 0

# %%
print("the end")
"""


def sources(*, solved: bool, asserts: bool = False) -> list[str]:
    """The code cells that are built, but for the first, which installs the course."""
    made = notebook_from_source(RUNS.replace("@", "5"), "90_small", (), solved=solved, asserts=asserts)
    return [cell.source for cell in made.cells][1:]


def test_the_build_runs_asserts_and_shows_none() -> None:
    start, end = ["from graders import compare, guess"], ['print("the end")']
    shown = ['total = 2 + 3\nprint(total)\ncompare("90-sum", total=total)']
    assert sources(solved=False) == [*start, 'guess("90-sum", total=...)', *shown, *end]
    assert sources(solved=True) == [*start, 'guess("90-sum", total=5)', *shown, *end]
    run = sources(solved=True, asserts=True)
    assert [*start, 'guess("90-sum", total=5)', f"{shown[0]}\nassert total == 5", "assert total > 0", *end] == run


def test_no_notebook_tells_what_compare_shows() -> None:
    for solved in (False, True):
        made = notebook_from_source(RUNS.replace("@", "5"), "90_small", (), solved=solved)
        assert [cell.source for cell in made.cells if cell.cell_type == "markdown"] == []


def test_a_cell_has_one_id_in_both_notebooks() -> None:
    made = [notebook_from_source(RUNS.replace("@", "5"), "90_small", (), solved=solved) for solved in (False, True)]
    learners, solved = ([cell["id"] for cell in content.cells] for content in made)
    assert learners == solved
    assert "90-sum-guess" in learners


def test_a_guess_of_the_source_that_is_not_what_came_out_stops_the_build() -> None:
    right, wrong = (
        notebook_from_source(RUNS.replace("@", text), "90_small", (), solved=True, asserts=True) for text in ("5", "6")
    )
    run_notebook(right, "the source")
    with pytest.raises(SourceError, match="the source: the guess '90-sum' is not what came out: i Not this time total: "
                       "you have 6; it is 5"):  # fmt: skip
        run_notebook(wrong, "the source")
