"""The rules that hold in every exercise."""

from __future__ import annotations

from graders.core import course
from graders.core.rules import RULES, as_markdown


def test_they_are_numbered_from_one() -> None:
    assert [rule.number for rule in RULES] == list(range(1, 9))


def test_as_markdown_they_are_a_numbered_list() -> None:
    lines = as_markdown().split("\n")
    assert [line[:6] for line in lines if not line.startswith("   ")] == [
        f"{number}. **{RULES[number - 1].title[0]}" for number in range(1, 9)
    ]
    assert max(map(len, lines)) <= 118
    # A line that began inside of code could begin with the mark of a list, as in `t + u`.
    assert [line for line in lines if line.count("`") % 2] == []


def test_the_first_lesson_states_them_under_the_heading_to_which_contracts_link() -> None:
    text = course.source(course.lessons()[0])
    assert text.index("\n# ## The rules of all exercises\n") < text.index("\n# {{rules}}\n")
