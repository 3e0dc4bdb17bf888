"""Reading a submission: only the text of its code cells comes in."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from graders.core.errors import HookworkError

MAX_BYTES = 20 << 20
MAX_CELLS = 500
MAX_SOURCE = 2 << 20
"""Characters of all code cells. As JSON one character may take 12 bytes, and the request to the box 32 MiB."""
MAX_PARTS = 1_000_000
"""Lists and objects of the file: each three bytes of `{},` become a hundred in memory."""

_KINDS = {b"PK\x03\x04": "a zip archive", b"PK\x05\x06": "an empty zip archive", b"\x1f\x8b": "a gzip archive",
          b"%PDF": "a PDF", b"\x89PNG": "a picture", b"\xd0\xcf\x11\xe0": "an Office file"}  # fmt: skip


class Unreadable(HookworkError):
    """The file is not a notebook that can be run; the message says what to hand in instead."""


@dataclass(frozen=True)
class Notebook:
    """The code cells of a submission, what it says about its lesson, and the hash of the file."""

    cells: tuple[str, ...]
    lesson: str | None
    sha256: str


def read_notebook(path: Path) -> Notebook:
    """The notebook in the file at `path`, of nbformat 3 or 4.

    Outputs, ids and kernelspec are ignored. Raises `Unreadable` for everything else.
    """
    return parse_notebook(read_bytes(path))


def parse_notebook(raw: bytes) -> Notebook:
    """The notebook in these bytes. Raises `Unreadable`."""
    content = _parse(raw)
    metadata = content.get("metadata")
    lesson = metadata.get("hookwork", {}) if type(metadata) is dict else {}
    lesson = lesson.get("lesson") if type(lesson) is dict else None
    return Notebook(
        cells=tuple(_code_cells(content)),
        lesson=lesson if type(lesson) is str else None,
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file of at most 20 MB. Raises `Unreadable`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise Unreadable(too_large(size, MAX_BYTES))
        try:
            return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise _not_opened(error) from error


def too_large(size: int, most: int) -> str:
    """What is said of a file that has more bytes than are read."""
    return (
        f"The file has {size / 1e6:.0f} MB; at most {most >> 20} MB are read. "
        "Clear the outputs (Edit > Clear Outputs of All Cells) and save again."
    )


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open; links and pipes are not followed, nor waited for. Raises `Unreadable`."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        raise _not_opened(error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("This is not an ordinary file. Hand in the notebook file itself.")
    return os.fdopen(descriptor, "rb")


def _not_opened(error: Exception) -> Unreadable:
    why = getattr(error, "strerror", None) or "it cannot be opened"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        why = "it is a link to another file"
    return Unreadable(f"The file cannot be read: {why.lower()}. Hand in the notebook itself.")


def _parse(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        raise Unreadable("The file is empty. Hand in the saved notebook (.ipynb).")
    for start, kind in _KINDS.items():
        if raw.startswith(start):
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
    return content


def _code_cells(content: dict[str, Any]) -> list[str]:
    if content["nbformat"] == 3:
        sheets = content.get("worksheets")
        sheets = sheets if type(sheets) is list else []
        cells = [cell for sheet in sheets if type(sheet) is dict for cell in _list(sheet.get("cells"))]
        field = "input"
    else:
        cells, field = _list(content.get("cells")), "source"
    found = []
    for cell in cells:
        if type(cell) is dict and cell.get("cell_type") == "code":
            found.append(_source(cell.get(field)))
    if len(found) > MAX_CELLS:
        raise Unreadable(f"The notebook has {len(found)} code cells; at most {MAX_CELLS} are run.")
    if sum(map(len, found)) > MAX_SOURCE:
        raise Unreadable(
            f"The code cells have more than {MAX_SOURCE >> 20} million characters. Data belongs in a file of its own."
        )
    if not found:
        raise Unreadable("The notebook has no code cell. Hand in the notebook in which you worked.")
    return found


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _source(value: Any) -> str:
    """A cell's text: one string or a list of lines. Lone surrogates cannot be sent anywhere."""
    text = "".join(part for part in value if type(part) is str) if type(value) is list else value
    return text.encode("utf-8", "replace").decode() if type(text) is str else ""
