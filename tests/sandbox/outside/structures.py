"""Files and notebooks of odd structure: what is handed in, and what must become of it."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import notebooks
from tests.notebooks import BRANCH, CHAIN, LESSON, PASSES, text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, links and limits are those of Linux")
IMPORT = "import torch\nfrom graders import check, hint"
RIGHT = (IMPORT, BRANCH, CHAIN, PASSES)
FILE = f"{LESSON}.ipynb"
FULL = ["passed", "passed", "passed"]


@dataclass(frozen=True)
class Case:
    """Bytes of a notebook, or a function that writes something else; its name, and what has to come out."""

    content: bytes | str | Callable[[Path], None]
    expected: str | list[str]
    name: str = FILE


def zipped(*members: tuple[str | zipfile.ZipInfo, str | bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return raw.getvalue()


def hole(size: int) -> Callable[[Path], None]:
    """A file of so many zeros that takes no room."""

    def write(file: Path) -> None:
        with file.open("wb") as handle:
            handle.truncate(size)

    return write


GOOD = text(*RIGHT)
ARCHIVE = f"{LESSON}.zip"
FORMAT = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": '
UNREADABLE = {
    # of the catalogue
    "nb_not_json": Case("print('my answer')\n", "it is not JSON (line 1)"),
    "nb_symlink_file": Case(lambda file: file.symlink_to("/etc/passwd"), "it is a link to another file"),
    "nb_fifo_file": Case(lambda file: os.mkfifo(file), "not an ordinary file"),
    "arc_traversal": Case(zipped((f"../../{FILE}", GOOD)), "leads to another folder", ARCHIVE),
    "arc_absolute": Case(zipped((f"/tmp/hookwork-{FILE}", GOOD)), "its name is not relative", ARCHIVE),
    # beyond it
    "zip without a notebook": Case(zipped(("report.pdf", b"%PDF")), "holds no notebook", ARCHIVE),
    "zip of a web page": Case(zipped((FILE, "<html>Sign in</html>")), "The file is a web page", ARCHIVE),
    "50 MB": Case(hole(50 << 20), "The file has 52 MB, but at most 20 MB are read"),
    "19 MB of zeros": Case(hole(19 << 20), "The file holds nothing but NUL bytes"),
    "a link to a device": Case(lambda file: file.symlink_to("/dev/zero"), "it is a link to another file"),
    "a link to itself": Case(lambda file: file.symlink_to(file.name), "it is a link to another file"),
    "a link to a neighbour": Case(lambda file: file.symlink_to(f"../neighbour/{FILE}"), "it is a link to another"),
}


def with_cells(*more: Any, metadata: Any = None) -> str:
    """A right notebook with more entries in its list of cells."""
    content = notebooks.content(*RIGHT)
    content["cells"] = [*more, *content["cells"], *more]
    return json.dumps({**content, "metadata": metadata})


def stored_pass() -> str:
    content = notebooks.content(IMPORT, "print('passed: 4 of 4 points')")
    content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "passed: 4 of 4 points"}]
    content["metadata"] = {"hookwork": {"score": 4, "lesson": LESSON}, "nbgrader": {"score": 4}}
    return json.dumps(content)


def skipped_cells() -> str:
    content = notebooks.content(*RIGHT)
    for cell in content["cells"]:
        cell["metadata"] = {"tags": ["skip-execution", "remove-cell", "raises-exception"], "deletable": False}
    return json.dumps(content)


def failing(message: str) -> str:
    """A notebook whose first answer raises with this text, which its output shows as HTML, too."""
    show = f"from IPython.display import HTML, display\ndisplay(HTML({message!r}))\nprint({message!r})"
    return text(IMPORT, show, f"def branch_grads(w, x):\n    raise ValueError({message!r})", CHAIN, PASSES)


NOT_FIRST = ["not-attempted", "passed", "passed"]
ALL_MISSING = ["not-attempted"] * 3
RAISED = ["raised", "passed", "passed"]
WRONG_BRANCH = "def branch_grads(w, x):\n    return {n: w.detach() for n in 'wxab'}"
SCRIPT = "<script>alert(1)</script><iframe src=javascript:alert(1)><img src=x onerror=alert(1)>"
ANSI = "\x1b]0;title\x07\x1b]52;c;eA==\x07\x1b[1A\x1b[2K 4 of 4\x1b]8;;http://x\x07link\x9b2J"
EXECUTED = {
    "arc_control": Case(zipped(("01_\x1b[2J.ipynb", GOOD)), FULL, ARCHIVE),
    # of the catalogue
    "nb_weird_json": Case(
        FORMAT + "[" + ", ".join(
            f'{{"cell_type": "raw", "cell_type": "code", "n": NaN, "m": {10**4000}, "source": {json.dumps(source)}}}'
            for source in (*RIGHT, "x = '\ud800'", "# \x00")
        ) + "]}", FULL),
    "nb_duplicate_ids": Case(text(IMPORT, WRONG_BRANCH, *RIGHT[1:]).replace('"c1"', '"c2"'), FULL),
    "given as a lambda": Case(text(*RIGHT, "f = branch_grads\nbranch_grads = lambda w, x: f(w, x)"), FULL),
    "given as a callable object": Case(
        text(*RIGHT, "f = branch_grads\nclass C:\n    def __call__(self, w, x):\n        return f(w, x)\nbranch_grads = C()"),
        FULL),
    "given as a partial": Case(text(*RIGHT, "from functools import partial\nbranch_grads = partial(branch_grads)"), FULL),
    "nb_homoglyph": Case(text(IMPORT, BRANCH.replace("branch_grads", "br\u0430nch_grads"), *RIGHT[2:]), NOT_FIRST),
    "bidi in the source": Case(
        text(IMPORT, "def branch_grads(w, x):\n    raise ValueError(str(w) and '\u202e\u2066gnorw')", *RIGHT[2:]), RAISED),
    "nb_stored_pass": Case(stored_pass(), ALL_MISSING),
    "nb_stale_state": Case(text(IMPORT, f"branch_grads = of_a_deleted_cell\n{CHAIN}", PASSES),
                           ["not-attempted", "passed", "not-attempted"]),
    "nb_magic_run": Case(
        text(*RIGHT, "%run nowhere.py", "%cd /tmp", "%load_ext nothing", "%matplotlib inline", "%timeit -n1 -r1 1 + 1",
             "%%capture\nprint(1)", "%pip install ./nowhere", "%reload_ext autoreload"), FULL),
    "nb_html_injection": Case(failing(SCRIPT), RAISED),
    "nb_ansi_injection": Case(failing(ANSI), RAISED),
    "nb_csv_injection": Case(failing("=cmd|'/c calc'!A1"), RAISED),
    "nb_name_'; touch x; '": Case(GOOD, FULL),
    "nb_name_-rf --help": Case(GOOD, FULL),
    # beyond it
    "byte order mark and CRLF": Case(b"\xef\xbb\xbf" + json.dumps(
        notebooks.content(*(cell.replace("\n", "\r\n") for cell in RIGHT)), indent=1).replace("\n", "\r\n").encode(), FULL),
    "null, empty and blank cells": Case(text(None, "", *RIGHT, " \n\t\n", "# only a comment", "\\", []), FULL),
    "unknown magics": Case(text(*RIGHT, "%nosuch", "%%nosuch\nx", "!nosuch", "?torch", "torch??", "%"), FULL),
    "cells of other languages": Case(
        text(*RIGHT, "%%html\n<script>1</script>", "%%javascript\nalert(1)", "%%bash\nexit 3", "%%writefile x\ny"), FULL),
    "names deleted at the end": Case(text(*RIGHT, "%reset -f"), FULL),
    "IPython's own commands": Case(text(*RIGHT, "quit", "exit()", "%quickref", "%config", "In = Out = None"), FULL),
    "tags that ask not to be run": Case(skipped_cells(), FULL),
    "a coding cookie and a form feed": Case(text(*RIGHT, "# -*- coding: latin-1 -*-\nx = 'é'", "\x0cx = 1"), FULL),
    "nulls and bytes of no text in cells": Case(text(*RIGHT, "x = '\x00'", "\x1b[2J", "\ufeffx = 1", "\ud800"), FULL),
    "500 cells of which the last keep crashing": Case(
        text(*RIGHT, *["x = 1"] * 492, *["import os\nos._exit(1)"] * 4), FULL),
    "a cell of a million characters": Case(text(*RIGHT, "x = '" + "x" * 1_000_000 + "'"), FULL),
    "all in one cell": Case(text("\n\n".join(RIGHT)), FULL),
    "a name with a new line": Case(GOOD, FULL, f"{LESSON}\nscore: 4.ipynb"),
    "a name in capitals": Case(GOOD, FULL, f"{LESSON}.IPYNB"),
    "outputs of four megabytes": Case(
        with_cells({"cell_type": "code", "source": "1", "outputs": [{"text": "x" * 2_000_000}]}), FULL),
    "metadata of any depth": Case(with_cells(metadata=json.loads("[" * 400 + "]" * 400)), FULL),
}  # fmt: skip
