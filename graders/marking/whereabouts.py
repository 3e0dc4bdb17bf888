"""Says which cell holds an answer where that is not plain: it has copies, or stands where Python does not find it."""

from __future__ import annotations

import ast
import difflib
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from graders.core.cells import bound_names, parse_cell
from graders.core.results import ExerciseResult, Status
from graders.core.source import STUB
from graders.core.untouched import UntouchedCopy
from graders.submissions.intake import Notebook

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def with_note(
    result: ExerciseResult, name: str, notebook: Notebook, copies: Sequence[UntouchedCopy], asked: Collection[str]
) -> ExerciseResult:
    """The result of the exercise that asks for `name`, with a note if a reader may look at another cell than we do.

    `copies` are the untouched cells that were left out, and `asked` the names of all exercises of the lesson.
    """
    note = _note_on_copies(result, name, copies) or result.note
    if result.status is Status.NOT_ATTEMPTED:
        note = next(_answers_elsewhere(result.key, name, notebook, asked), note)
    return replace(result, note=note)


def _note_on_copies(result: ExerciseResult, name: str, copies: Sequence[UntouchedCopy]) -> str:
    numbers = [str(copy.index + 1) for copy in copies if copy.name == name]
    if not numbers or result.cell is None:
        return ""
    copies_are = (
        f"Code cell {numbers[0]} is an untouched copy of the exercise, and was left out."
        if len(numbers) == 1
        else f"Code cells {', '.join(numbers)} are untouched copies of the exercise, and were left out."
    )
    return f"The answer in code cell {result.cell} counts. {copies_are}"


def _answers_elsewhere(key: str, name: str, notebook: Notebook, asked: Collection[str]) -> Iterator[str]:
    """Where else there is an answer, and why it does not count; the surest first."""
    for number, source in enumerate(notebook.cells, 1):
        if STUB not in source and (outer := _place_inside(source, name)):
            yield f"Code cell {number} defines `{name}` inside `{outer}`, where nobody finds it: move it out of there."
    for cell in notebook.texts:
        if STUB not in cell.source and _starts_definition(cell.source, name):
            kind = "raw" if cell.kind == "raw" else "Markdown"
            where = f"below code cell {cell.above}" if cell.above else "above all code cells"
            yield f"The {kind} cell {where} defines `{name}`, but only code cells are run: change its type to Code."
    for number, source in enumerate(notebook.cells, 1):
        own = notebook.keys[number - 1 : number] == (key,)
        if STUB not in source and (other := _misspelt(source, name, asked, sure=own)):
            yield f"Code cell {number} defines `{other}`{_foreign_letter(other)}, but the exercise asks for `{name}`."


def _place_inside(source: str, name: str) -> str:
    """The class or function inside which a cell defines `name`; empty if there is none, or it defines it outside."""
    tree = parse_cell(source) if name in source else None
    if tree is None or name in bound_names(source):
        return ""
    for outer in tree.body:
        if isinstance(outer, _DEFINITIONS):
            inner = (node for part in outer.body for node in ast.walk(part))
            if any(isinstance(node, _DEFINITIONS) and node.name == name for node in inner):
                return outer.name
    return ""


def _starts_definition(text: str, name: str) -> bool:
    """Whether a line of a text starts the definition of `name`."""
    lines = (line.strip() for line in text.splitlines() if name in line)
    return any(line.startswith((f"def {name}(", f"class {name}(", f"class {name}:")) for line in lines)


def _misspelt(source: str, name: str, asked: Collection[str], *, sure: bool) -> str:
    """The name of a function that was perhaps to be `name`: close to it, or in the exercise's own cell, if `sure`."""
    tree = parse_cell(source)
    if tree is None or name in bound_names(source):
        return ""
    defined = [node.name for node in tree.body if isinstance(node, _DEFINITIONS) and node.name not in asked]
    plain = {other.replace("_", "").casefold(): other for other in defined}
    wanted = name.replace("_", "").casefold()
    close = difflib.get_close_matches(wanted, plain, 1, (len(wanted) - 1) / len(wanted) - 0.001)  # one letter differs
    if close:
        return plain[close[0]]
    return defined[-1] if sure and len(defined) == 1 else ""


def _foreign_letter(name: str) -> str:
    """Names the first letter of a name that only looks like one on the keyboard."""
    letter = next((character for character in name if not character.isascii()), "")
    return f" (its `{letter}` is {unicodedata.name(letter, 'another letter')})" if letter else ""
