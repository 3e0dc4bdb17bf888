"""The one place from which commands print: nothing that a name, a path or a notebook says steers a terminal.

A plain string is always one line of plain text, wherever it stands: printed, in a table, beside a spinner. So
`out.say(f"written: {file}")` is right, whatever the file is called. No other module makes a text or a console of rich.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.style import Style
from rich.text import Text

from graders.core.text import clean_text

WIDEST = 120
"""Columns in which text can be read."""


def plain_line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """One line of plain text, made of strings and of pairs of a string and its style."""
    made = Text(style=style)
    for part in parts:
        text, own = (part, None) if isinstance(part, str) else part
        made.append(clean_text(text, sys.maxsize), own)
    return made


def plain_lines(text: str, style: str = "") -> Text:
    """Plain text that may have several lines: what a function printed, a message, a difference of two sources."""
    return Text(clean_text(text, sys.maxsize, lines=True), style)


class Terminal(Console):
    """A console on which a string is what it says, and never markup, a link, a control character or a second line."""

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False, width: int | None = None) -> None:
        """On standard output, on standard error, or on a `file`. `width`, in columns, is found out otherwise."""
        super().__init__(file=file, stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def say(self, *texts: str, style: str = "") -> None:
        """Print each text as a line. In a file or a pipe it is not folded, so that others can read paths in it."""
        for text in texts:
            self.print(plain_line(text, style=style), soft_wrap=not self.is_terminal)

    def render_str(self, text: str, *, style: str | Style = "", **layout: Any) -> Text:
        """A string that rich meets, in one line, without a look for markup."""
        made = plain_line(text)
        made.style, made.justify, made.overflow = style, layout.get("justify"), layout.get("overflow")
        return made

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever is printed passes here: it is cleaned once more, for texts that rich or somebody made otherwise."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean_text(text, sys.maxsize, lines=True), style)

    def status(self, status: RenderableType, **look: Any) -> Status:
        """Show a text beside a spinner as long as the context lasts."""
        return super().status(plain_line(status) if isinstance(status, str) else status, **look)


def output_terminal(*, stderr: bool = False) -> Terminal:
    """Where the commands print; of a width that can be read."""
    found = Terminal(stderr=stderr)
    found.width = min(found.width, WIDEST)
    return found
