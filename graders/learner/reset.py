"""Put the stub of one exercise back into a notebook for `hookwork reset KEY`, and leave everything else as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from graders.core import course
from graders.core.cells import bound_names
from graders.core.exercise import Exercise
from graders.core.files import write_atomically
from graders.learner.folder import LearnerError, shipped_notebook
from graders.submissions.intake import Unreadable, read_bytes, read_notebook

BACKUPS = "hookwork-backups"
"""The folder for backups: next to the lessons, a backup would look like one of them."""

Cell = dict[str, Any]


@dataclass(frozen=True)
class Reset:
    """What was done: where the backup is, and whether a new cell was inserted, because the old one was missing.

    `others` are the numbers, counted from 1, of code cells that also define the function and were left alone.
    """

    backup: Path
    inserted: bool
    others: tuple[int, ...]


def restore_stub(file: Path, key: str) -> Reset:
    """Back up the notebook `file`, and put the stub of exercise `key` back into it.

    The cell is found by the key in its metadata, or else by the function that it defines. If it was deleted, a new one
    is inserted below its contract. Raises `LearnerError` if the notebook cannot be read or written.
    """
    exercise = course.find_exercise(key)
    content = _read_content(file)
    cells: list[Cell] = content["cells"]
    original: list[Cell] = json.loads(shipped_notebook(exercise.lesson).read_text(encoding="utf-8"))["cells"]
    stub = next(cell for cell in original if _is_answer_to(cell, key))
    cell = _find_cell(cells, exercise)
    inserted = cell is None
    if cell is None:
        cell = dict(stub)
        cells.insert(_place_for_cell(cells, key), cell)
    cell.update(source=stub["source"], outputs=[], execution_count=None)
    others = tuple(
        number
        for number, other in enumerate(_code_cells(cells), 1)
        if other is not cell and exercise.name in bound_names(_cell_source(other))
    )
    backup = _back_up(file)
    try:
        write_atomically(file, _as_jupyter_writes(content))
    except OSError as error:
        raise LearnerError(
            f"{file} cannot be written: {(error.strerror or str(error)).lower()}. Nothing was changed."
        ) from None
    return Reset(backup=backup, inserted=inserted, others=others)


def _read_content(file: Path) -> dict[str, Any]:
    try:
        read_notebook(file)  # raises `Unreadable` with a sentence on what is wrong
        content: dict[str, Any] = json.loads(read_bytes(file).decode("utf-8-sig"))
    except Unreadable as error:
        raise LearnerError(f"{file}: {error}") from None
    if content["nbformat"] != 4:
        raise LearnerError(f"{file} has nbformat {content['nbformat']}. Save it as notebook format 4, and try again.")
    return content


def _as_jupyter_writes(content: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # JSON can escape a lone surrogate, UTF-8 cannot encode it
        return (json.dumps(content, indent=1) + "\n").encode()


def _code_cells(cells: list[Cell]) -> Iterator[Cell]:
    return (cell for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code")


def _cell_source(cell: Cell) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source))


def _is_answer_to(cell: Cell, key: str) -> bool:
    metadata = cell.get("metadata")
    own = metadata.get("hookwork") if isinstance(metadata, dict) else None
    return isinstance(own, dict) and own.get("exercise") == key


def _find_cell(cells: list[Cell], exercise: Exercise) -> Cell | None:
    """The cell with the exercise's key, or else the last one that defines its function; None if there is neither.

    Of several cells with the key, after a split or a copy, take the last one that defines the function.
    """
    keyed = [cell for cell in _code_cells(cells) if _is_answer_to(cell, exercise.key)]
    defining = [cell for cell in _code_cells(cells) if exercise.name in bound_names(_cell_source(cell))]
    both = [cell for cell in keyed if cell in defining]
    return next((candidates[-1] for candidates in (both, keyed, defining) if candidates), None)


def _place_for_cell(cells: list[Cell], key: str) -> int:
    """The index for a new cell: below the contract, or else above the check, or else at the end."""
    for number, cell in enumerate(cells):
        if isinstance(cell, dict) and cell.get("cell_type") == "markdown" and f"Exercise `{key}`" in _cell_source(cell):
            return number + 1
    for number, cell in enumerate(cells):
        if isinstance(cell, dict) and cell.get("cell_type") == "code" and f'check("{key}")' in _cell_source(cell):
            return number
    return len(cells)


def _back_up(file: Path) -> Path:
    """Copy the notebook into the folder of backups, under a name with the local time, and return the copy's path."""
    moment = datetime.now().strftime("%Y-%m-%d_%H%M%S")
    folder, number = file.parent / BACKUPS, 1
    while (backup := folder / f"{file.stem}.{moment}{f'-{number}' if number > 1 else ''}.ipynb").exists():
        number += 1
    try:
        write_atomically(backup, read_bytes(file))
    except (OSError, Unreadable) as error:
        raise LearnerError(f"The backup {backup} cannot be written ({error}), so nothing was changed.") from None
    return backup
