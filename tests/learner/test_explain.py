"""`hookwork explain`, and its source: each message is what this PyTorch says of the program beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from graders.cli import app
from graders.learner.explain import Section, find, in_a_terminal, sections

WITH_PROGRAM = [section for section in sections() if section.program]
NEWER = re.compile(r"(?:since|with)\s+PyTorch\s+(\d+\.\d+)")
"""How a section says that older versions do not give its message."""


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """What each program says, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.learner.said"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def is_meant(message: str, text: str) -> bool:
    """Whether `text` is `message`, with anything in place of each ellipsis; line breaks are spaces in both."""
    parts = " ".join(message.split()).split("…")
    return re.fullmatch(".*".join(map(re.escape, parts)), text) is not None


@pytest.mark.parametrize("section", WITH_PROGRAM, ids=lambda section: section.title)
def test_pytorch_says_this_word_for_word_and_explain_finds_it(section: Section, said: dict[str, list[str]]) -> None:
    heard = [text for text in said[section.title] if any(is_meant(message, text) for message in section.messages)]
    newer = NEWER.search(section.text)
    if newer and not heard and torch.__version__ < newer[1]:
        pytest.skip(f"only newer versions say so: {newer[0]}")
    assert heard, said[section.title]
    for text in heard:
        known, found = find(text)
        assert known
        assert section in found


def explain(*arguments: str, code: int, given: str | None = None) -> str:
    done = CliRunner().invoke(app, ["explain", *arguments], input=given, env={"COLUMNS": "100"})
    assert done.exit_code == code, done.output + str(done.exception)
    return " ".join(done.output.split())


TRACEBACK = """\
\x1b[31mTraceback\x1b[0m (most recent call last):
  File "train.py", line 9, in <module>
    loss.backward()
RuntimeError: hook 'halve' has changed the size of
    value
"""


def test_a_traceback_that_is_pasted_whole_leads_to_its_section() -> None:
    for shown in (explain(TRACEBACK, code=0), explain(code=0, given=TRACEBACK)):
        assert shown.startswith("has changed the size of value A tensor hook returns a gradient of the shape it got")
        assert "The wrong shape (docs/hook-not-called.md)" in shown
        assert "x.register_hook(lambda grad: grad.sum())" in shown


def test_a_piece_of_a_message_is_enough() -> None:
    assert explain("is a view and is being modified", code=0).startswith("is a view and is being modified inplace")
    assert explain("hooks: has changed the size of value?", code=0).startswith("has changed the size of value")


def test_a_symptom_in_words_of_ones_own_leads_to_what_is_similar() -> None:
    shown = explain("my full backward hook is not called", code=1)
    assert "not words of PyTorch about hooks that we know. Similar: A full backward hook is never called" in shown


@pytest.mark.parametrize("text", ["KeyError: 'loss'", "", "banana \x1b[2J\x00 \ud7ff", "x" * 2_000_000])
def test_what_is_not_known_is_said_to_be_so(text: str) -> None:
    shown = explain(given=text, code=1)
    assert shown.startswith("These are not words of PyTorch about hooks that we know. If nothing was raised")


def test_bytes_that_are_no_text_do_no_harm() -> None:
    done = CliRunner().invoke(app, ["explain"], input=b"\xff\xfe has changed the size of value, hook '\xff'")
    assert done.exit_code == 0


def test_a_terminal_shows_the_names_of_pages_and_no_links() -> None:
    shown = [in_a_terminal(section) for section in sections()]
    assert [text for text in shown if "](" in text or ".ipynb" in text] == []
    assert len({section.title for section in sections()}) == len(sections())
