"""Print from commands, so that nothing in a name, a path or a notebook can control the terminal.

A plain string is always one line of plain text, whether it is printed, in a table or next to a spinner. So
`out.say(f"written: {file}")` is safe, whatever the file is called. No other module makes a `Text` or `Console` of rich.
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
"""The most columns that commands fill: longer lines are hard to read."""


def plain_line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """One line of plain text, from strings and pairs of a string and its style."""
    made = Text(style=style)
    for part in parts:
        text, own = (part, None) if isinstance(part, str) else part
        made.append(clean_text(text, sys.maxsize), own)
    return made


def plain_lines(text: str, style: str = "") -> Text:
    """Plain text that may have several lines: what a function printed, a message, a diff."""
    return Text(clean_text(text, sys.maxsize, lines=True), style)


class Terminal(Console):
    """A console that prints a string literally: never as markup, a link, a control character or a second line."""

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False, width: int | None = None) -> None:
        """Print on standard output, on standard error or to `file`, `width` columns wide; None detects the width."""
        super().__init__(file=file, stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def say(self, *texts: str, style: str = "") -> None:
        """Print each text as a line. In a file or a pipe, lines are not wrapped, so that programs can read paths."""
        for text in texts:
            self.print(plain_line(text, style=style), soft_wrap=not self.is_terminal)

    def render_str(self, text: str, *, style: str | Style = "", **layout: Any) -> Text:
        """Make a string that rich meets into one line of text, without interpreting markup."""
        made = plain_line(text)
        made.style, made.justify, made.overflow = style, layout.get("justify"), layout.get("overflow")
        return made

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean whatever is printed once more, since rich may have made some text in another way."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean_text(text, sys.maxsize, lines=True), style)

    def status(self, status: RenderableType, **look: Any) -> Status:
        """Show a text next to a spinner while the context lasts."""
        return super().status(plain_line(status) if isinstance(status, str) else status, **look)


def output_terminal(*, stderr: bool = False) -> Terminal:
    """The terminal on which commands print, at most `WIDEST` columns wide."""
    found = Terminal(stderr=stderr)
    found.width = min(found.width, WIDEST)
    return found
