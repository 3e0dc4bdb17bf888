"""The rules that hold in every exercise."""

from __future__ import annotations

import pytest

from graders.core.rules import RULES, as_markdown, rule


def test_they_are_numbered_from_one() -> None:
    assert [one.number for one in RULES] == [1, 2, 3, 4, 5, 6]
    assert rule(4).title == "Exceptions come through."
    with pytest.raises(KeyError):
        rule(7)


def test_as_markdown_they_are_a_numbered_list() -> None:
    lines = as_markdown().split("\n")
    assert len(lines) == 6
    assert lines[3].startswith("4. **Exceptions come through.** A model, a loss or")
