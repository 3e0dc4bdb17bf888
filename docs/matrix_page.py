"""A Sphinx extension that makes docs/matrix.md of docs/matrix.json: each kind of hook in each situation.

`python -m tests.site.matrix --write` runs all cells and writes them there; the notes are written by hand.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graders.core.files import write_atomically

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DATA = Path(__file__).with_name("matrix.json")
SIGNS = {"called": "✓", "silent": "0", "warns": "!", "raises": "✗", "wrong": "≠", "–": "–"}
MEANINGS = {
    "called": "called, with the right values",
    "silent": "not called, and nothing says so",
    "wrong": "called, with other values than those of plain training",
    "raises": "an error",
    "warns": "not called, or not as it should be, with a warning",
    "–": "no optimizer takes a step there",
}
GRIDS = (("While training", "plain", "reentrant"), ("Compiled, transformed, copied, distributed", "compile", "fsdp"))
"""The tables of the page: a heading, the first and the last of its situations."""
PAGE = """\
# The matrix

Is a hook called, and does it see the right values? Each cell was decided by running: a small network, a hook on the
layer in its middle, PyTorch 2.13 on a CPU. The hook only looks. Click on a cell to read why.

{legend}

Where a `0` stands, nothing helps you find out. What a hook that *changes* something can do is on [another
page](hook-not-called.md#Wrong-numbers,-without-a-word). To look up an error, see [what PyTorch says](messages.md).

{grids}

## Why

{notes}

## In PyTorch 2.4

The same cells ran with 2.4.1, all but DDP and FSDP. These differ:

{older}
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks which there are."""
    app.connect("builder-inited", lambda app: write_page(Path(app.srcdir) / "matrix.md"))
    return {"parallel_read_safe": True}


def write_page(file: Path) -> None:
    """Write the page, unless it is there already."""
    text = page(json.loads(DATA.read_text(encoding="utf-8")))
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_atomically(file, text)


def page(data: dict[str, Any]) -> str:
    """The page in Markdown."""
    keys = list(data["situations"])
    grids = [
        f"## {title}\n\n{grid(data, keys[keys.index(first) : keys.index(last) + 1])}" for title, first, last in GRIDS
    ]
    legend = "\n".join(f"| {SIGNS[word]} | {meaning} |" for word, meaning in MEANINGS.items())
    return PAGE.format(
        legend=f"| | |\n|---|---|\n{legend}", grids="\n\n".join(grids), notes=notes(data), older=older(data)
    )


def grid(data: dict[str, Any], situations: list[str]) -> str:
    """A table in HTML: a cell with a note leads to it."""
    numbers = {
        (situation, hook): number
        for number, note in enumerate(data["notes"], 1)
        for situation, hooks in note["cells"].items()
        for hook in hooks
    }
    head = "".join(f"<th scope='col'><span>{coded(data['situations'][key])}</span></th>" for key in situations)
    rows = []
    for hook, title in data["hooks"].items():
        cells = []
        for situation in situations:
            word, number = data["cells"][situation][hook], numbers.get((situation, hook))
            sign, says = SIGNS[word], html.escape(f"{word}, note {number}" if number else word)
            inner = f"<a href='#note-{number}' title='{says}' aria-label='{says}'>{sign}</a>" if number else sign
            cells.append(f"<td class='{word if word != '–' else 'none'}{' noted' if number else ''}'>{inner}</td>")
        rows.append(f"<tr><th scope='row'>{coded(title)}</th>{''.join(cells)}</tr>")
    table = f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'```{{raw}} html\n<div class="matrix" tabindex="0">{table}</div>\n```'


def coded(title: str) -> str:
    """A title in HTML; what stands in backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(title, quote=False))


def notes(data: dict[str, Any]) -> str:
    """The notes in one list for each outcome, numbered through."""
    parts = []
    for word in dict.fromkeys(note["word"] for note in data["notes"]):
        parts.append(f"### {word.capitalize()}{', but' if word == 'called' else ''}")
        parts += [
            f"(note-{number})=\n{number}\\. {note['text']}"
            for number, note in enumerate(data["notes"], 1)
            if note["word"] == word
        ]
    return "\n\n".join(parts)


def older(data: dict[str, Any]) -> str:
    """What an older PyTorch does otherwise, as a table."""
    lines = ["| hook | in | 2.4 | 2.13 |", "|---|---|---|---|"]
    for situation, cells in data["older"].items():
        for word in dict.fromkeys(cells.values()):
            hooks = [hook for hook in cells if cells[hook] == word]
            new = ", ".join(dict.fromkeys(data["cells"][situation][hook] for hook in hooks))
            titles = "; ".join(data["hooks"][hook] for hook in hooks)
            lines.append(f"| {titles} | {data['situations'][situation]} | {word} | {new} |")
    return "\n".join(lines)
