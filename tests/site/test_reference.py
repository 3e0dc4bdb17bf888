"""The pages that people look things up on: no section is long, and each page is in the menu."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.matrix_page import DATA, page
from graders.learner.explain import SOURCE, sections

DOCS = Path(__file__).parent.parent.parent / "docs"
LONGEST = 25
"""The most lines of a section, without its heading and without empty ones."""


def lengths(text: str) -> dict[str, int]:
    """The lines of each section, by its heading; a `#` inside a block of code is no heading."""
    found, title, inside = {"": 0}, "", False
    for line in text.splitlines():
        inside ^= line.startswith("```")
        if line.startswith("#") and not inside:
            title = line
            found[title] = 0
        elif line.strip() and not line.startswith("("):  # an anchor is not seen
            found[title] += 1
    return found


PAGES = {name: (DOCS / f"{name}.md").read_text("utf-8") for name in ("hook-not-called", "api", "recipes", "which-tool")}
PAGES |= {"messages": SOURCE.read_text("utf-8"), "matrix": page(json.loads(DATA.read_text("utf-8")))}


@pytest.mark.parametrize("name", PAGES)
def test_no_section_is_long(name: str) -> None:
    found = lengths(PAGES[name])
    assert len(found) > 8
    assert {title: lines for title, lines in found.items() if lines > LONGEST} == {}


def test_the_menu_has_each_page() -> None:
    menu = (DOCS / "index.md").read_text(encoding="utf-8")
    assert all(
        f"\n{name}\n" in menu for name in ("hook-not-called", "messages", "matrix", "api", "recipes", "which-tool")
    )


def test_what_is_silent_comes_first_and_many_messages_follow() -> None:
    groups = re.findall(r"^## (.+)$", SOURCE.read_text(encoding="utf-8"), re.M)
    assert groups[0] == "Nothing was raised"
    assert sum(len(section.messages) for section in sections()) >= 45
