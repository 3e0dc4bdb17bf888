"""The few pieces of HTML that panels in a notebook are made of.

Styles are inline, because a front end may strip style sheets, and one cell's must not affect another. Text has the
page's own colour and backgrounds are transparent tints, so that both work in light and dark themes. Whatever a colour
says, a word says, too. There are no templates: importing jinja2 takes 85 ms, for which the first check would wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from graders.core.difference import Difference
from graders.core.status_styles import StatusStyle

INFO = StatusStyle("i", "", (50, 100, 190), "blue")
"""The style of hints, answers and progress, which are neither right nor wrong."""

_CELL = "text-align:left;vertical-align:baseline;padding:.2em .5em;border:0;white-space:pre-wrap;overflow-wrap:anywhere"
"""The style of a table's cells. Long values may break anywhere, so that a phone neither cuts them off nor scrolls."""
_MONO = "font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:.95em"
_GREY = "rgba(127,127,127,.4)"


def css_colour(style: StatusStyle, alpha: float = 1) -> str:
    """A style's colour as CSS, with an opacity `alpha` from 0 to 1."""
    return f"rgba({','.join(map(str, style.colour))},{alpha:g})"


def backticks_to_code(text: str) -> str:
    """`text`, escaped, with `backticked` parts as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a backtick is unpaired: leave the text as it is
        return escape(text)
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def status_badge(style: StatusStyle, label: str = "") -> str:
    """The sign on a disc, or an empty ring for an untried exercise. Without `label`, screen readers skip it."""
    hollow = style.sign == "·"
    paint = (
        f"border:2px dashed {css_colour(style)}"
        if hollow
        else f"background:{css_colour(style)};border:2px solid {css_colour(style)}"
    )
    spoken = f"role='img' aria-label='{escape(label)}' title='{escape(label)}'" if label else "aria-hidden='true'"
    return (
        f"<span {spoken} style='display:inline-block;box-sizing:border-box;width:1.5em;height:1.5em;line-height:1.3em;"
        f"flex:none;border-radius:50%;text-align:center;font-weight:bold;font-size:.85em;color:#fff;{paint}'>"
        f"{'&nbsp;' if hollow else escape(style.sign)}</span>"
    )


def card(style: StatusStyle, word: str, title: str, aside: str, body: str) -> str:
    """A box around `body`, an HTML text, with a headline: the sign, a word, a title, and an aside on the right."""
    heading = f"<strong style='font-size:1.1em'>{backticks_to_code(word)}</strong>" if word else ""
    name = escape(f"{word}: {title}" if word and title else word or title)
    return (
        f"<div role='group' aria-label='{name}' "
        f"style='border:1px solid {_GREY};border-left:6px solid {css_colour(style)};border-radius:4px;"
        f"background:{css_colour(style, 0.12)};padding:.6em .9em;margin:.4em 0;max-width:60em;"
        "line-height:1.5'>"
        f"<div role='status' style='display:flex;flex-wrap:wrap;gap:.2em .6em;align-items:center'>{status_badge(style)}"
        f"{heading}<span style='flex:1 1 14em'>{backticks_to_code(title)}</span>"
        f"<span style='margin-left:auto'>{escape(aside)}</span></div>{body}</div>"
    )


def paragraph(text: str) -> str:
    """A paragraph in which `backticked` parts are code; nothing if `text` is empty."""
    return f"<p style='margin:.5em 0 0'>{backticks_to_code(text)}</p>" if text else ""


def link_lessons(body: str) -> str:
    """HTML in which the names of lessons' notebooks, which lie in one folder, are links."""
    return re.sub(r"\b\d\d_\w+\.ipynb\b", r"<a href='\g<0>'>\g<0></a>", body)


def titled_paragraph(title: str, text: str) -> str:
    """A paragraph that begins with its title in bold; `backticked` parts are code."""
    return f"<p style='margin:.5em 0 0'><strong>{backticks_to_code(title)}</strong> {backticks_to_code(text)}</p>"


def preformatted_text(text: str, *, wrapped: bool = False) -> str:
    """Lines of code, or other text in fixed-width columns; long lines scroll unless they are `wrapped`."""
    space = "pre-wrap;word-break:normal;overflow-wrap:anywhere" if wrapped else "pre"
    return (
        f"<pre style='margin:.3em 0 0;padding:.5em .7em;background:rgba(127,127,127,.12);border-radius:3px;"
        f"overflow-x:auto;white-space:{space};{_MONO}'>{escape(text)}</pre>"
    )


def item_list(items: Iterable[str]) -> str:
    """A list of HTML items with their own signs. Its role is explicit: without bullets, some screen readers drop it."""
    rows = "".join(f"<li style='margin:.35em 0;list-style:none'>{item}</li>" for item in items)
    return f"<ul role='list' style='list-style:none;margin:.5em 0 0;padding:0'>{rows}</ul>"


def describe_difference(found: Difference) -> str:
    """A difference as HTML: expected and seen in two columns, or if it has none, its sentence."""
    if found.timelines:
        rows = [
            (("→ first difference" if row.first else "", row.expected, row.seen), row.first)
            for row in found.timelines.rows
        ]
        return paragraph(found.sentence) + table(("expected", "yours"), rows)
    if found.expected:
        return table(("expected", "yours"), [((found.place, found.expected, found.seen), False)]) + paragraph(
            found.note
        )
    return paragraph(found.sentence)


def table(header: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """A table. A row is its cells, of which the first is its header, and whether it is marked to stand out."""
    line = f"{_CELL};border-bottom:1px solid {_GREY}"
    blank = f"<td style='{line}'></td>"  # an empty cell must not be a header
    head = blank + "".join(
        f"<th scope='col' style='{line};overflow-wrap:normal'>{escape(text)}</th>" if text else blank for text in header
    )
    body = ""
    for (name, *cells), marked in rows:
        tint = "rgba(200,48,44,.18);font-weight:bold" if marked else "transparent"
        # Long values don't squeeze the name below its width, up to 12 % of the window, since phones are narrow.
        named = f"{_CELL};min-width:min({len(name) + 2}ch,12vw);font-weight:inherit"
        body += f"<tr style='background:{tint}'><th scope='row' style='{named}'>{escape(name)}</th>"
        body += "".join(f"<td style='{_CELL};{_MONO}'>{escape(text)}</td>" for text in cells) + "</tr>"
    return (
        "<table style='margin:.3em 0 0;border-collapse:collapse;width:auto;font-size:1em'>"
        f"<thead><tr style='background:transparent'>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def progress_bar(done: float, total: float, label: str) -> str:
    """A bar that shows `done` of `total`, labelled for screen readers."""
    percent = 100 * done / total if total else 0
    return (
        f"<div role='progressbar' aria-label='{escape(label)}' aria-valuemin='0' aria-valuemax='{total:g}' "
        f"aria-valuenow='{done:g}' style='height:.6em;margin:.6em 0 .3em;border-radius:.3em;background:{_GREY}'>"
        f"<div style='height:100%;border-radius:.3em;width:{percent:.1f}%;background:rgb(26,127,67)'></div></div>"
    )


def folded_details(summary: str, body: str, *, opened: bool) -> str:
    """A line, `summary`, that unfolds to show `body`; both are HTML."""
    return (
        f"<details{' open' if opened else ''} style='margin:.35em 0'>"
        f"<summary style='cursor:pointer'>{summary}</summary>"
        f"<div style='margin-left:1.4em'>{body}</div></details>"
    )
