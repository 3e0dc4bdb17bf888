from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graders.submissions.intake import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_DEPTH,
    MAX_SOURCE,
    MAX_TEXTS,
    Unreadable,
    parse_notebook,
    read_notebook,
)
from graders.wire import frames
from tests import notebooks


def cells_of(file: Path, content: dict[str, Any] | str | bytes) -> tuple[str, ...]:
    """The code cells that are read from a file with this content."""
    if isinstance(content, dict):
        content = json.dumps(content)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_notebook(file).cells


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notebook.ipynb"


def test_the_text_of_the_code_cells_comes_in(file: Path) -> None:
    content = notebooks.content("x = 1", "y = 2\nz = 'ü'")
    content["cells"].insert(1, {"cell_type": "markdown", "source": "import os", "metadata": {}})
    content["cells"].append({"cell_type": "raw", "source": "1/0", "metadata": {}})
    assert cells_of(file, content) == ("x = 1", "y = 2\nz = 'ü'")


SHEETS = [
    {"cells": [{"cell_type": "code", "input": ["x = 1\n", "y = 2"]}, {"cell_type": "markdown", "source": "m"}]},
    {"cells": [{"cell_type": "code", "input": "z"}]},
]


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        (notebooks.content(["a = 1\n", "b = 2"], "c"), ("a = 1\nb = 2", "c")),
        ({"nbformat": 3, "worksheets": SHEETS}, ("x = 1\ny = 2", "z")),
        (b"\xef\xbb\xbf" + notebooks.text("x = 1").encode(), ("x = 1",)),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "a = \'\\udc80\'"}]}', ("a = '\ufffd'",)),
        (notebooks.content("<<<<<<< HEAD\nx"), ("<<<<<<< HEAD\nx",)),  # no conflict of git's
    ],
    ids=["lists of lines", "format 3", "a byte order mark", "a lone surrogate", "a line like git's"],
)
def test_cells_are_read_in_every_form(
    file: Path, content: dict[str, Any] | str | bytes, cells: tuple[str, ...]
) -> None:
    assert cells_of(file, content) == cells


def test_outputs_ids_and_the_kernelspec_do_not_matter(file: Path) -> None:
    content = notebooks.content("x = 1", metadata={"kernelspec": {"name": "bash", "language": "bash"}})
    del content["cells"][0]["id"], content["nbformat_minor"]
    content["cells"][0]["outputs"] = [{"output_type": "stream", "text": "passed"}, None, 3]
    assert cells_of(file, content) == ("x = 1",)


def test_cells_of_odd_form_are_empty_or_left_out(file: Path) -> None:
    content = notebooks.content("x = 1")
    odd = [{"cell_type": "code", "source": source} for source in (5, None, ["a", 1, "b"], {"a": 1})]
    content["cells"] += [*odd, {"source": "no type"}, "text", None, ["x"]]
    assert cells_of(file, content) == ("x = 1", "", "", "ab", "")


def test_the_lesson_in_the_metadata_and_the_hash_of_the_file_are_noted(file: Path) -> None:
    text = notebooks.text("x", metadata={"hookwork": {"lesson": "01_where_gradients_live"}})
    cells_of(file, text)
    assert read_notebook(file).lesson == "01_where_gradients_live"
    assert read_notebook(file).sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("metadata", [{}, None, [], {"hookwork": None}, {"hookwork": {"lesson": 3}}, {"hookwork": "a"}])
def test_metadata_of_another_form_names_no_lesson(file: Path, metadata: Any) -> None:
    cells_of(file, notebooks.content("x", metadata=metadata))
    assert read_notebook(file).lesson is None


def with_texts(count: int) -> str:
    """A notebook of one code cell and so many others."""
    content = notebooks.content("x")
    content["cells"] += [{"cell_type": "markdown"}] * count
    return json.dumps(content)


def deep(levels: int) -> str:
    """A notebook with so many levels in its metadata."""
    return notebooks.text("x", metadata=0).replace('"metadata": 0', '"metadata": ' + "[" * levels + "]" * levels)


def conflicted(before: str, text: str) -> str:
    """A file with a conflict that git has left in it."""
    return f"{before}<<<<<<< HEAD\n{text}\n=======\n{text}\n>>>>>>> theirs\n"


def called_from(levels: int, call: Callable[[], Any]) -> Any:
    """What `call` returns, or raises, below so many calls."""
    return called_from(levels - 1, call) if levels else call()


@pytest.mark.parametrize("levels", [0, 100, 300])
def test_whoever_asks_a_notebook_can_be_read_or_not(levels: int) -> None:
    assert called_from(levels, lambda: parse_notebook(deep(MAX_DEPTH - 1).encode())).cells == ("x",)
    for more in (MAX_DEPTH, 976, 100_000):
        with pytest.raises(Unreadable):
            called_from(levels, lambda more=more: parse_notebook(deep(more).encode()))


def test_as_many_cells_as_allowed_are_read(file: Path) -> None:
    assert cells_of(file, with_texts(MAX_TEXTS)) == ("x",)
    assert len(cells_of(file, notebooks.text(*["x"] * MAX_CELLS))) == MAX_CELLS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty"),
        (b" \n\t\n", "The file is empty"),
        (b"PK\x03\x04\x14\x00", "The file is a zip archive, not a notebook"),
        (b"\x1f\x8b\x08\x00", "The file is a gzip archive, not a notebook"),
        (b"%PDF-1.7", "The file is a PDF, not a notebook"),
        ('{"nbformat": 4, "cells": [' + "{}," * 1_000_000 + "{}]}", "more than a million lists and objects"),
        (notebooks.text("x" * (2 << 20), "x"), "code cells have more than 2 million characters"),
        (notebooks.text("x").encode("utf-16"), "not UTF-8 text (byte 0)"),
        (b'{"nbformat": 4, "a": "\xe9"}', "not UTF-8 text (byte 22)"),
        ("import torch\n", "it is not JSON (line 1)"),
        (b"\0" * 5000, "The file holds nothing but NUL bytes: it was not saved or copied completely."),
        ("\ufeff\n<!DOCTYPE html>\n<title>01</title>", "The file is a web page, not a notebook"),
        ("<!-- saved -->\n<HTML>", "The file is a web page, not a notebook"),
        (b"<html><title>M\xfcller</title>", "The file is a web page, not a notebook"),
        ('<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "The file is XML, not a notebook"),
        (conflicted('{"nbformat": 4,\n', ' "cells": []}'), "has a git conflict that nobody has resolved (line 2)"),
        (
            conflicted("", notebooks.text("x")).replace("\n", "\r\n"),
            "has a git conflict that nobody has resolved (line 1)",
        ),
        ('{"nbformat": 4,\n "cells": [}', "it is not JSON (line 2)"),
        ("[" * 100_000, "it is not JSON"),
        ("1" * 5000, "it is not JSON"),
        ("[]", "it has no nbformat"),
        ("{}", "it has no nbformat"),
        ('{"nbformat": "4"}', "it has no nbformat"),
        ('{"nbformat": true}', "it has no nbformat"),
        ('{"nbformat": 5, "cells": []}', "has nbformat 5; 3 and 4 can be read"),
        ('{"nbformat": 2, "worksheets": []}', "has nbformat 2; 3 and 4 can be read"),
        ('{"nbformat": 1' + "0" * 400 + "}", "has nbformat 100000000; 3 and 4 can be read"),
        ("NaN", "it has no nbformat"),
        ('{"nbformat": 4}', "has no code cell"),
        ('{"nbformat": 4, "cells": null}', "has no code cell"),
        ('{"nbformat": 3, "worksheets": {"cells": []}}', "has no code cell"),
        (notebooks.text(*["x"] * (MAX_CELLS + 1)), "has 501 code cells; at most 500 are run"),
        (with_texts(300_000), "has 300000 cells without code; at most 2000 are read"),
        (deep(MAX_DEPTH), "nested more than 500 levels deep"),
    ],
)
def test_everything_else_is_unreadable_and_the_message_says_why(file: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        cells_of(file, content)
    assert message in str(caught.value)


def test_whatever_is_read_fits_into_a_request(file: Path) -> None:
    longest = "\U0001f642" * MAX_SOURCE
    content = json.dumps(notebooks.content(longest), ensure_ascii=False)
    assert len(json.dumps(cells_of(file, content))) < frames.MAX_REQUEST


def test_a_file_that_is_too_large_is_not_read(file: Path) -> None:
    with file.open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    with pytest.raises(Unreadable, match=r"The file has 21 MB, but at most 20 MB are read\. Clear the outputs"):
        read_notebook(file)


def test_what_is_no_ordinary_file_is_unreadable(tmp_path: Path, file: Path) -> None:
    with pytest.raises(Unreadable, match="no such file"):
        read_notebook(file)
    with pytest.raises(Unreadable, match="not an ordinary file"):
        read_notebook(tmp_path)
    (tmp_path / "other.ipynb").write_text(notebooks.text("x"))
    file.symlink_to(tmp_path / "other.ipynb")
    with pytest.raises(Unreadable, match="it is a link to another file"):
        read_notebook(file)
