"""Reads a submitted notebook: the text of its cells, and what its metadata say about lesson and exercises."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from graders.core import files
from graders.core.errors import HookworkError
from graders.core.text import without_surrogates
from graders.wire.frames import is_nested_deeper

MAX_BYTES = 20 << 20
MAX_CELLS = 500
MAX_TEXTS = 2_000
"""`MAX_CELLS` is the most code cells, `MAX_TEXTS` the most others. The longest lesson has 92 cells in all."""
MAX_SOURCE = 2 << 20
"""The most characters in all code cells. One may take 12 bytes as JSON, and a request to the box has at most 32 MiB."""
MAX_PARTS = 1_000_000
"""The most lists and objects in the file: three bytes (`{},`) become a hundred in memory."""
MAX_DEPTH = 500
"""The deepest nesting of lists and objects. Without it, the limit would depend on Python's stack at the call."""

_KINDS = {b"PK\x03\x04": "a zip archive", b"PK\x05\x06": "an empty zip archive", b"\x1f\x8b": "a gzip archive",
          b"%PDF": "a PDF", b"\x89PNG": "a picture", b"\xd0\xcf\x11\xe0": "an Office file"}  # fmt: skip
_IS_JSON_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_FORMAT = re.compile(rb'"nbformat"\s*:\s*[34]\b')
_CONFLICT = re.compile(r"^<{7}(?: .*)?\r?$", re.M)


class Unreadable(HookworkError):
    """The file is not a notebook that can be run; the message says what to hand in instead."""


@dataclass(frozen=True)
class TextCell:
    """A cell that is not run: its kind, as in "markdown", its text, and how many code cells are above it."""

    kind: str
    source: str
    above: int


@dataclass(frozen=True)
class Notebook:
    """The code cells of a submission, the lesson that its metadata name (None if none), and the file's SHA-256.

    `keys` has for each code cell the exercise that its metadata name, or "". `texts` are all cells of other kinds.
    """

    cells: tuple[str, ...]
    lesson: str | None
    sha256: str
    keys: tuple[str, ...] = ()
    texts: tuple[TextCell, ...] = ()


def read_notebook(path: Path) -> Notebook:
    """The notebook in the file at `path`, of nbformat 3 or 4.

    Outputs, ids and kernelspec are ignored. Raises `Unreadable` if the file is not such a notebook, or too large.
    """
    return parse_notebook(read_bytes(path))


def parse_notebook(raw: bytes) -> Notebook:
    """The notebook in these bytes. Raises `Unreadable`."""
    content = parse_content(raw)
    cells = _code_cells(content)
    return Notebook(
        cells=tuple(cells),
        lesson=_own_metadata(content, "lesson") or None,
        sha256=hashlib.sha256(raw).hexdigest(),
        keys=tuple(_own_metadata(cell, "exercise") for cell in cells_of(content) if _is_code(cell)),
        texts=tuple(_text_cells(content)),
    )


def _own_metadata(part: dict[str, Any], name: str) -> str:
    """What the metadata of a notebook or a cell say for this course under `name`; empty if nothing."""
    metadata = part.get("metadata")
    own = metadata.get("hookwork") if type(metadata) is dict else None
    value = own.get(name) if type(own) is dict else None
    return value if type(value) is str else ""


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises `Unreadable` if it is not one, or larger than `MAX_BYTES`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise Unreadable(too_large(size, MAX_BYTES))
        try:
            return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise _not_opened(error) from error


def too_large(size: int, most: int) -> str:
    """The message for a file of `size` bytes, if at most `most` are read."""
    return (
        f"The file has {size / 1e6:.0f} MB, but at most {most >> 20} MB are read. "
        "Clear the outputs (Edit > Clear Outputs of All Cells) and save again."
    )


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file. Raises `Unreadable` for anything else: links are not followed, nor pipes waited for."""
    try:
        return files.open_regular_file(path)
    except (OSError, ValueError) as error:
        raise _not_opened(error) from error


def _not_opened(error: Exception) -> Unreadable:
    why = getattr(error, "strerror", None) or "it cannot be opened"
    return Unreadable(f"The file cannot be read: {why.lower()}. Hand in the notebook itself.")


def parse_content(raw: bytes) -> dict[str, Any]:
    """The JSON of the notebook in these bytes, of nbformat 3 or 4. Raises `Unreadable`."""
    if not raw.strip():
        raise Unreadable("The file is empty. Hand in the saved notebook (.ipynb).")
    if not raw.strip(b"\0 \t\r\n"):
        raise Unreadable(
            "The file holds nothing but NUL bytes: it was not saved or copied completely. "
            "Save the notebook again and hand in the new file."
        )
    start = raw[:100].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"<") and not start.startswith(b"<<<<<<<"):
        raise Unreadable(_web_page_or_xml(raw))
    for mark, kind in _KINDS.items():
        if raw.startswith(mark):
            raise Unreadable(f"The file is {kind}, not a notebook. Hand in the saved notebook (.ipynb) itself.")
    if raw.count(b"{") + raw.count(b"[") > MAX_PARTS:
        raise Unreadable("The file has more than a million lists and objects. Clear the outputs and save again.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The file is not UTF-8 text (byte {error.start}). Save the notebook again and hand in the .ipynb file."
        ) from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        if conflict := _CONFLICT.search(text):
            line = text.count("\n", 0, conflict.start()) + 1
            raise Unreadable(
                f"The notebook has a git conflict that nobody has resolved (line {line}). "
                "Choose one of the two versions, save it, and hand in the notebook again."
            ) from error
        raise Unreadable(
            f"The file is not a notebook: it is not JSON{where}. Hand in the .ipynb file, not an export or a link."
        ) from error
    if type(content) is not dict or type(content.get("nbformat")) is not int:
        raise Unreadable("The file is JSON, but not a notebook: it has no nbformat. Hand in the .ipynb file.")
    if content["nbformat"] not in (3, 4):
        raise Unreadable(
            f"The notebook has nbformat {str(content['nbformat'])[:9]}; 3 and 4 can be read. "
            "Save it as notebook format 4."
        )
    if is_nested_deeper(content, MAX_DEPTH):
        raise Unreadable(
            f"Lists and objects in the notebook are nested more than {MAX_DEPTH} levels deep. "
            "Clear the outputs, and save it with JupyterLab."
        )
    return content


def _web_page_or_xml(raw: bytes) -> str:
    start = raw[:2000].lower()
    if b"<html" in start or b"<!doctype html" in start:
        return (
            "The file is a web page, not a notebook: the page that shows the notebook was saved. "
            "Hand in the .ipynb file itself (in JupyterLab: File > Download)."
        )
    return (
        "The file is XML, not a notebook; servers send that when a download fails. "
        "Download the notebook again and hand in the .ipynb file."
    )


def is_notebook(path: Path) -> bool:
    """Whether the content of a file looks like that of a notebook, whatever its name. Links are not followed."""
    try:
        with open_regular(path) as file:
            start = file.read(100)
            if not _IS_JSON_OBJECT.match(start) or os.fstat(file.fileno()).st_size > MAX_BYTES:
                return False
            return _FORMAT.search(start + file.read(MAX_BYTES)) is not None
    except (Unreadable, OSError):
        return False


def _code_cells(content: dict[str, Any]) -> list[str]:
    cells, field = cells_of(content), "input" if content["nbformat"] == 3 else "source"
    found = [_cell_source(cell.get(field)) for cell in cells if _is_code(cell)]
    if len(found) > MAX_CELLS:
        raise Unreadable(f"The notebook has {len(found)} code cells; at most {MAX_CELLS} are run.")
    if len(cells) - len(found) > MAX_TEXTS:
        raise Unreadable(
            f"The notebook has {len(cells) - len(found)} cells without code; at most {MAX_TEXTS} are read. "
            "Hand in the notebook of the lesson, with your answers in it."
        )
    if sum(map(len, found)) > MAX_SOURCE:
        raise Unreadable(
            f"The code cells have more than {MAX_SOURCE >> 20} million characters. Data belongs in a file of its own."
        )
    if not found:
        raise Unreadable("The notebook has no code cell. Hand in the notebook that you worked in.")
    return found


def _is_code(cell: dict[str, Any]) -> bool:
    return cell.get("cell_type") == "code"


def _text_cells(content: dict[str, Any]) -> Iterator[TextCell]:
    above = 0
    for cell in cells_of(content):
        above += _is_code(cell)
        if not _is_code(cell):
            yield TextCell(str(cell.get("cell_type"))[:20], _cell_source(cell.get("source")), above)


def cells_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything in the JSON of a notebook that looks like a cell."""
    if content["nbformat"] == 3:
        sheets = [sheet for sheet in _as_list(content.get("worksheets")) if type(sheet) is dict]
        cells = [cell for sheet in sheets for cell in _as_list(sheet.get("cells"))]
    else:
        cells = _as_list(content.get("cells"))
    return [cell for cell in cells if type(cell) is dict]


def _as_list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _cell_source(value: Any) -> str:
    """The text of a cell, given as a string or a list of lines, without lone surrogates: UTF-8 cannot hold them."""
    text = "".join(part for part in value if type(part) is str) if type(value) is list else value
    return without_surrogates(text) if type(text) is str else ""
