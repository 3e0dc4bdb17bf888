"""`hookwork explain`: from the words of PyTorch to their cause and remedy. `messages.md` is its source and the page's.

A section of that file has a heading, perhaps a block with the messages (`…` stands for what differs), the smallest
program that gives the first of them, and the explanation.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

SOURCE = Path(__file__).with_name("messages.md")
LONGEST = 1_000_000
"""The most characters that are looked at, from the end: that is where a traceback says what is wrong."""
SHORTEST_PART = 8
"""A shorter part of a message says nothing by itself."""
ENOUGH = 0.6
"""The share of the words, weighted by how rare they are, that a section has to have to be called similar."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.M | re.S)
_LINK = re.compile(r"\[([^\]]+)\]\(<?([^)>]*?([^/)>]*?)\.(?:md|ipynb)[^)>]*(?:\(\)[^)>]*)?)>?\)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_KIND = re.compile(r"^[\w.]+: ")


@dataclass(frozen=True)
class Section:
    """A part of `messages.md`: what PyTorch says, or what one sees if it says nothing."""

    title: str
    messages: tuple[str, ...]
    """As PyTorch prints them, with their kind; `…` stands for anything."""
    program: str
    """The smallest one that gives the first message; empty where nothing is raised."""
    text: str
    """Cause and remedy, in Markdown."""

    @functools.cached_property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """For the title and each message, the parts that never differ, in small letters."""
        lines = (self.title.replace("`", ""), *(_KIND.sub("", message) for message in self.messages))
        return tuple(tuple(map(flat, line.split("…"))) for line in lines)


@functools.cache
def sections() -> tuple[Section, ...]:
    """All sections of `messages.md`, in order."""
    found = []
    for chunk in re.split(r"^### ", SOURCE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        title, _, rest = re.split(r"^## ", chunk, flags=re.M)[0].partition("\n")
        blocks = dict(_BLOCK.findall(rest))
        messages = tuple(blocks.get("text", "").splitlines())
        found.append(Section(title, messages, blocks.get("python", ""), _BLOCK.sub("", rest).strip()))
    return tuple(found)


def flat(text: str) -> str:
    """`text` in small letters, without colours, and with single spaces for line breaks and indentation."""
    return " ".join(_COLOUR.sub("", text).lower().split())


def find(text: str) -> tuple[bool, list[Section]]:
    """Whether `text` holds messages of `messages.md`, and their sections, the longest match first.

    If it holds none, the sections are those whose words are the most similar, at most three.
    """
    given = flat(text[-LONGEST:])
    ranked = sorted(((_held(section, given), section) for section in sections()), key=lambda pair: -pair[0])
    held = [section for length, section in ranked if length == ranked[0][0] > 0]
    if held:
        return True, held
    if len(given) >= SHORTEST_PART:  # perhaps only a piece of a message
        held = [section for section in sections() if given in flat(f"{section.title} {' '.join(section.messages)}")]
        if held:
            return True, held[:3]
    return False, _similar(given)


def _held(section: Section, given: str) -> int:
    """How many characters of a message of `section` are in `given`: all that never differ, in order, or none."""
    longest = 0
    for parts in section.parts:
        place, length = 0, 0
        for part in parts:
            place = given.find(part, place)
            if place < 0:
                break
            place, length = place + len(part), length + len(part)
        else:
            longest = max(longest, length)
    return longest


@functools.cache
def _words() -> tuple[dict[str, float], tuple[frozenset[str], ...]]:
    """How rare each word is, and the words of each section."""
    words = tuple(
        frozenset(_split(f"{section.title} {' '.join(section.messages)} {section.text}")) for section in sections()
    )
    count = Counter(word for each in words for word in each)
    return {word: math.log((1 + len(words)) / number) for word, number in count.items()}, words


def _split(text: str) -> list[str]:
    """The words of `text` that say something: not the shortest ones."""
    return [word for word in re.findall(r"[a-z_][a-z_0-9]*", flat(text)) if len(word) > 3]


def _similar(given: str) -> list[Section]:
    """The sections that have most of the words of `given`; a word that no section has counts little."""
    weights, words = _words()
    asked = set(_split(given))
    whole = sum(weights.get(word, 1.0) for word in asked)
    ranked = []
    for section, each in zip(sections(), words):
        shared = asked & each
        share = sum(weights[word] for word in shared) / whole if len(shared) >= min(2, len(asked)) and whole else 0.0
        if share >= ENOUGH:
            ranked.append((share, len(asked & set(_split(section.title))), section))
    return [section for *_, section in sorted(ranked, key=lambda found: found[:2], reverse=True)[:3]]


def in_a_terminal(section: Section) -> str:
    """A section in Markdown, without links that lead nowhere in a terminal: they become the names of pages."""

    def named(link: re.Match[str]) -> str:
        words, _, page = link.groups()
        lesson = re.match(r"(\d+)_", page)
        where = f"lesson {int(lesson[1])}" if lesson else f"docs/{page}.md"
        return words if words.lower() == where else f"{words} ({where})"

    return f"**{section.title}**\n\n{_LINK.sub(named, section.text)}"


def explain(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="The message, a part of it, or a whole traceback; default: what is pasted or piped in."
        ),
    ] = None,
) -> int:
    """Explain what PyTorch said: the cause, the remedy, and the smallest program that says the same. Works offline.

    The exit code is 1 when nothing is known of it.

    [bold]Examples[/]

    hookwork explain "has changed the size of value"

    python train.py 2>&1 | hookwork explain
    """
    from rich.markdown import Markdown

    from graders.core.errors import ExitCode
    from graders.core.terminal import output_terminal, plain_lines

    out, errors = output_terminal(), output_terminal(stderr=True)
    if text is None:
        if sys.stdin.isatty():
            errors.say("Paste the message or the whole traceback, then press Ctrl-D (Windows: Ctrl-Z and Enter).")
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    known, found = find(text)
    if not known:
        errors.say("These are not words of PyTorch about hooks that we know." + (" Similar:" if found else ""))
    for section in found:
        out.print(Markdown(in_a_terminal(section)), "")
        if section.program:
            out.say("The smallest program that says so:")
            out.print(plain_lines(textwrap.indent(section.program, "    ")))
    if not known:
        errors.say("If nothing was raised, describe what you see, as in: hookwork explain 'hook is never called'")
    return ExitCode.FINE if known else ExitCode.NOT_PASSED


def register_command(app: typer.Typer) -> None:
    """Add the command `explain`."""
    app.command(rich_help_panel="Learn")(explain)
