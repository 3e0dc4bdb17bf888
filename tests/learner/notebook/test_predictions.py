"""`guess` and `compare`, as a learner calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from graders import compare, guess, progress
from graders.core import course
from graders.learner.notebook import record
from graders.learner.notebook.predictions import ComparisonRow, comparison_panel
from graders.learner.notebook.render import Prose
from graders.sandbox.inside import stub_package
from tests.trouble import nothing_can_be_written

KEY, OTHER = [key for key in course.all_prediction_keys() if key.startswith("01-")][:2]
FIVE, TWO = torch.tensor([5.0]), torch.tensor([2.0])


@pytest.fixture(autouse=True)
def no_guess_for_the_next_test() -> Iterator[None]:
    yield
    guess(KEY)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were printed since the last look, but for what explains the outcome."""
    return capsys.readouterr().out.replace(f"{course.explanation(KEY)}\n", "").splitlines()


def kept() -> dict[str, bool]:
    predictions: dict[str, bool] = json.loads(Path(record.FILE_NAME).read_text())["predictions"]
    return predictions


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (2, ["✓ As you predicted", "  ✓ w: 5", "  ✓ x: 2"]),
        (3, ["i 1 of 2 as you predicted", "  ✓ w: 5", "    x: you have 3; it is 2", "Read on for the rest."]),
        (..., ["i 1 of 2 as you predicted", "  ✓ w: 5", "    x: 2", "Read on for the rest."]),
    ],
)
def test_a_guess_is_shown_beside_what_came_out_and_counts_if_all_of_it_is_right(
    x: Any, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    guess(KEY, w=5, x=x)
    assert said(capsys) == [f"Noted: w = 5{'' if x is ... else f'; x = {x}'}. Now run the next cell."]
    compare(KEY, w=FIVE, x=TWO)
    assert said(capsys) == shown
    assert kept() == {KEY: x == 2}


@pytest.mark.parametrize("values", [{"w": 5}, {}])
def test_what_explains_the_outcome_comes_last_and_without_a_guess_too(
    values: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    guess(KEY, **values)
    compare(KEY, w=FIVE, x=TWO)
    text = capsys.readouterr().out
    assert text.endswith(f"\n{course.explanation(KEY)}\n" if values else f"{course.explanation(KEY)}\n")
    assert course.explanation(KEY).startswith("`x` reaches `y` by one path")
    assert Prose("*why*")._repr_mimebundle_() == {"text/plain": "*why*", "text/markdown": "*why*"}


@pytest.mark.parametrize("values", [{}, {"w": ...}, {"w": ..., "x": "..."}, {"w": " "}])
def test_where_nothing_was_guessed_nothing_is_said_and_nothing_is_kept(
    values: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    guess(KEY, **values)
    compare(KEY, w=FIVE, x=TWO)
    compare("01-never-guessed", w=FIVE)
    assert said(capsys) == []
    assert not Path(record.FILE_NAME).exists()


def test_a_guess_may_be_changed_until_the_answer_is_seen_and_then_the_first_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    guess(KEY, w=4, x=2)
    guess(KEY, w=5, x=3)
    compare(KEY, w=FIVE, x=TWO)
    guess(KEY, w=5, x=2)
    compare(KEY, w=FIVE, x=TWO)
    assert "✓ As you predicted (your first guess counts)" in said(capsys)
    assert kept() == {KEY: False}


def test_a_guess_that_is_taken_back_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    guess(KEY, w=4)
    guess(KEY, w=..., x=...)
    compare(KEY, w=FIVE, x=TWO)
    assert len(said(capsys)) == 1


@pytest.mark.parametrize("names", [["wx"], ["a", "b"]])
def test_where_guess_and_compare_have_other_names_both_are_told(
    names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ", ".join(f"`{name}`" for name in names)
    line = f"You guessed {given}; `compare` has `w`, `x`. Give both the same names."
    guess(KEY, **dict.fromkeys(names, 5))
    compare(KEY, w=FIVE, x=TWO)
    assert said(capsys)[1:] == ["i Your guess has other names", "    w: 5", "    x: 2", line]
    assert not Path(record.FILE_NAME).exists()
    compare(KEY)
    assert said(capsys)[-1] == line.replace("`w`, `x`", "nothing")


def test_one_name_of_two_is_told_and_the_other_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    guess(KEY, w=5, v=2)
    compare(KEY, w=FIVE, x=TWO)
    lines = said(capsys)
    assert lines[1] == "i 1 of 2 as you predicted"
    assert "You guessed `w`, `v`; `compare` has `w`, `x`. Give both the same names." in lines


def test_a_key_with_a_typing_error_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    guess(KEY[:-1], w=5)
    assert said(capsys) == [f'There is no prediction "{KEY[:-1]}". Did you mean "{KEY}"?']


@pytest.mark.parametrize("arguments", [(), (5,), (KEY, 5), (None, 5)])
def test_a_guess_without_a_name_or_key_is_said(arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    guess(*arguments)
    (line,) = said(capsys)
    assert line.startswith("Give each guess by name, after the key: `guess(")


def test_two_orders_part_at_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    guess(KEY, order=["a", "c", "b"])
    compare(KEY, order=["a", "b", "c"])
    assert said(capsys)[1:] == [
        "i Not this time",
        "    order: you have a, c, b; it is a, b, c",
        "`order`: the first difference is at number 2, c in yours, b in what came out.",
        "Read on to see why.",
    ]


def test_progress_tells_how_many_were_right(capsys: pytest.CaptureFixture[str]) -> None:
    progress()
    assert "predictions right" not in "\n".join(said(capsys))
    for key, value in ((KEY, 1), (OTHER, 2)):
        guess(key, w=value)
        compare(key, w=1)
    said(capsys)
    progress()
    lines = said(capsys)
    (lesson,) = (line for line in lines if " 1. Where gradients live" in line)
    assert lesson.endswith(", 1 of 2 predictions right")
    assert "1 of 2 predictions right. They are yours alone: nobody marks them." in lines


def test_html_says_the_same_and_escapes_what_was_typed() -> None:
    made = comparison_panel(
        [ComparisonRow("w", "<b>", "5", right=False), ComparisonRow("x", "2", "2", right=True)],
        ["`y` is not asked for."],
    )
    assert "<b>" not in made.html
    for part in ("1 of 2 as you predicted", "&lt;b&gt;", "your guess", "what came out", "<code>y</code>", "✓"):
        assert part in made.html
    assert "<b>" in made.text


def test_a_folder_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    guess(KEY, w=5)
    with nothing_can_be_written():
        compare(KEY, w=FIVE)
    assert said(capsys)[-1].startswith(f"Your progress could not be kept in {record.FILE_NAME}: ")


def test_while_a_notebook_is_marked_they_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stub_package.guess(KEY, 5, w=5)
    stub_package.guess()
    stub_package.compare(KEY, w=FIVE)
    assert said(capsys) == []
