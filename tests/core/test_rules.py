"""The rules that hold in every exercise."""

from __future__ import annotations

from graders.core import course
from graders.core.rules import RULES, brief_rules, rules_page


def test_they_are_numbered_from_one() -> None:
    assert [rule.number for rule in RULES] == list(range(1, 9))


def test_as_markdown_they_are_a_numbered_list() -> None:
    lines = rules_page().partition("\n\n1. ")[2].rstrip("\n").split("\n")
    lines[0] = f"1. {lines[0]}"
    assert [line[:6] for line in lines if not line.startswith("   ")] == [
        f"{number}. **{RULES[number - 1].title[0]}" for number in range(1, 9)
    ]
    assert max(map(len, lines)) <= 118
    # A line that began inside of code could begin with the mark of a list, as in `t + u`.
    assert [line for line in lines if line.count("`") % 2] == []


def test_one_lesson_says_what_all_exercises_ask_in_under_150_words_before_its_first_exercise() -> None:
    (text,) = (source for source in map(course.lesson_source, course.lesson_stems()) if "\n# {{rules}}\n" in source)
    start, stop = text.index("\n# ## Three rules\n"), text.index("# %% exercise=")
    section = text[start:stop].replace("# {{rules}}", brief_rules()).replace("\n#", "\n").replace("\n- ", "\n")
    words = section.replace("## ", "").split()
    assert brief_rules().count("\n- **") == 3
    assert 60 < len(words) < 150


def test_the_page_lies_beside_the_lessons() -> None:
    assert (course.lessons_folder() / "rules.md").read_text(encoding="utf-8") == rules_page()
