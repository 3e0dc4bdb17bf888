"""Files and notebooks of odd structure: what is handed in, and what must become of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import sys
import unicodedata
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


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, str]:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info, target


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
    "nb_empty": Case("", "The file is empty"),
    "nb_bom_utf16": Case(GOOD.encode("utf-16"), "not UTF-8 text"),
    "nb_latin1": Case(b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "# \xe9"}]}', "not UTF-8 text"),
    "nb_deep_json": Case("[" * 100_000 + "]" * 100_000, "it is not JSON"),
    "nb_v5": Case(GOOD.replace('"nbformat": 4', '"nbformat": 5'), "has nbformat 5; 3 and 4 can be read"),
    "nb_many_cells": Case(text(*["x = 1"] * 20_000), "has 20000 code cells; at most 500 are run"),
    "nb_symlink_file": Case(lambda file: file.symlink_to("/etc/passwd"), "it is a link to another file"),
    "nb_fifo_file": Case(lambda file: os.mkfifo(file), "not an ordinary file"),
    "arc_traversal": Case(zipped((f"../../{FILE}", GOOD)), "leads to another folder", ARCHIVE),
    "arc_absolute": Case(zipped((f"/tmp/hookwork-{FILE}", GOOD)), "its name is not relative", ARCHIVE),
    # beyond it
    "zip with the name of a notebook": Case(zipped((FILE, GOOD)), "The file is a zip archive, not a notebook"),
    "gzip with the name of a notebook": Case(gzip.compress(GOOD.encode()), "The file is a gzip archive"),
    "gzip with the name of a zip": Case(gzip.compress(GOOD.encode()), "it is damaged or of another format", ARCHIVE),
    "notebook with the name of a zip": Case(GOOD, "it is damaged or of another format", ARCHIVE),
    "zip in a zip": Case(zipped(("inner.zip", zipped((FILE, GOOD)))), "was not opened", ARCHIVE),
    "zip without a notebook": Case(zipped(("report.pdf", b"%PDF")), "holds no notebook", ARCHIVE),
    "zip that grows": Case(zipped((FILE, " " * (5 << 20) + GOOD)), "more than 100 times its size", ARCHIVE),
    "zip of a web page": Case(zipped((FILE, "<html>Sign in</html>")), "The file is a web page", ARCHIVE),
    "PDF": Case(b"%PDF-1.7\n\xe2\xe3", "The file is a PDF"),
    "web page": Case("<!DOCTYPE html><title>Sign in</title>", "The file is a web page"),
    "half a download": Case(GOOD[: len(GOOD) // 2], "it is not JSON (line 1)"),
    "conflict of git": Case("<<<<<<< HEAD\n" + GOOD, "a git conflict that nobody has resolved (line 1)"),
    "pointer of git lfs": Case("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is not JSON"),
    "50 MB": Case(hole(50 << 20), "The file has 52 MB, but at most 20 MB are read"),
    "19 MB of objects": Case(FORMAT + "[" + "{}," * 6_000_000 + "{}]}", "more than a million lists and objects"),
    "19 MB of zeros": Case(hole(19 << 20), "The file holds nothing but NUL bytes"),
    "white space": Case(" \n" * 1000, "The file is empty"),
    "UTF-32": Case(GOOD.encode("utf-32"), "not UTF-8 text"),
    "a list": Case(f"[{GOOD}]", "it has no nbformat"),
    "a number": Case("NaN", "it has no nbformat"),
    "no nbformat": Case('{"cells": []}', "it has no nbformat"),
    "nbformat 2": Case('{"nbformat": 2, "worksheets": []}', "has nbformat 2"),
    "nbformat of 400 digits": Case('{"nbformat": 1' + "0" * 400 + "}", "has nbformat 100000000; 3"),
    "nbformat given twice": Case(FORMAT + '[], "nbformat": "4"}', "it has no nbformat"),
    "an integer of 5000 digits": Case(FORMAT + "[" + "1" * 5000 + "]}", "it is not JSON"),
    "only text cells": Case(
        json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": BRANCH}]}), "has no code cell"
    ),
    "cells that are an object": Case(FORMAT + '{"a": 1}}', "has no code cell"),
    "3 million characters of code": Case(text(*RIGHT, "#" * 3_000_000), "more than 2 million characters"),
    "a link to a device": Case(lambda file: file.symlink_to("/dev/zero"), "it is a link to another file"),
    "a link to itself": Case(lambda file: file.symlink_to(file.name), "it is a link to another file"),
    "a link to a neighbour": Case(lambda file: file.symlink_to(f"../neighbour/{FILE}"), "it is a link to another"),
}
V3 = {
    "nbformat": 3,
    "metadata": {"name": ""},
    "worksheets": [
        {"cells": [{"cell_type": "code", "input": (IMPORT + "\n" + BRANCH).splitlines(keepends=True), "language": "python"}]},
        {"cells": [{"cell_type": "heading", "level": 1, "source": "x"}, {"cell_type": "code", "input": CHAIN}, None]},
        {"cells": [{"cell_type": "code", "input": PASSES, "prompt_number": 3}]},
        None,
    ],
}  # fmt: skip
BAD_CELLS: list[Any] = [
    {"cell_type": "code", "source": 5, "outputs": None},
    {"cell_type": "code"},
    {"source": "raise SystemExit"},
    {"cell_type": ["code"], "source": "raise SystemExit"},
    {"cell_type": "code", "source": [1, None, {"a": 1}, "# a comment"]},
    None,
    "cell",
]


def with_cells(*more: Any, metadata: Any = None) -> str:
    """A right notebook with more entries in its list of cells."""
    content = notebooks.content(*RIGHT)
    content["cells"] = [*more, *content["cells"], *more]
    return json.dumps({**content, "metadata": metadata})


def as_raw(kind: str) -> str:
    content = notebooks.content(*RIGHT)
    content["cells"][1]["cell_type"] = kind
    return json.dumps(content)


def without_ids() -> str:
    content = notebooks.content(*RIGHT)
    for cell in content["cells"]:
        for part in ("id", "metadata", "outputs", "execution_count"):
            del cell[part]
    return json.dumps(content)


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
    "arc_symlink": Case(zipped((FILE, GOOD), link("out", "/tmp"), ("out/x.ipynb", GOOD)), FULL, ARCHIVE),
    "arc_dup_names": Case(zipped((FILE, GOOD), (FILE.upper(), GOOD)), FULL, ARCHIVE),
    "arc_dup_accents": Case(
        zipped(*((unicodedata.normalize(form, "01_é.ipynb"), GOOD) for form in ("NFC", "NFD"))), FULL, ARCHIVE
    ),
    "arc_nonutf8": Case(zipped((FILE, GOOD), ("0X.ipynb", GOOD)).replace(b"0X.ipynb", b"0\xff.ipynb"), FULL, ARCHIVE),
    "arc_control": Case(zipped(("01_\x1b[2J.ipynb", GOOD)), FULL, ARCHIVE),
    "arc_long_name": Case(zipped(("01_" + "0" * 300 + ".ipynb", GOOD)), FULL, ARCHIVE),
    "arc_device": Case(zipped((f"AUX/{FILE}", GOOD)), FULL, ARCHIVE),
    "arc_backslashes": Case(zipped((f"lesson1\\{FILE}", GOOD)), FULL, ARCHIVE),
    "arc_code_page": Case(zipped((f"Gr0X/{FILE}", GOOD)).replace(b"Gr0X", b"Gr\x81\xe1"), FULL, ARCHIVE),
    # of the catalogue
    "nb_weird_json": Case(
        FORMAT + "[" + ", ".join(
            f'{{"cell_type": "raw", "cell_type": "code", "n": NaN, "m": {10**4000}, "source": {json.dumps(source)}}}'
            for source in (*RIGHT, "x = '\ud800'", "# \x00")
        ) + "]}", FULL),
    "nb_bad_cells": Case(with_cells(*BAD_CELLS), FULL),
    "nb_kernelspec_bash": Case(text(*RIGHT, metadata={"kernelspec": {"name": "bash", "language": "bash"}}), FULL),
    "nb_no_ids": Case(without_ids(), FULL),
    "nb_duplicate_ids": Case(text(IMPORT, WRONG_BRANCH, *RIGHT[1:]).replace('"c1"', '"c2"'), FULL),
    "nb_missing_exercise": Case(text(IMPORT, CHAIN, PASSES), NOT_FIRST),
    "nb_renamed_function": Case(text(IMPORT, BRANCH.replace("branch_grads", "branch_gradients"), *RIGHT[2:]), NOT_FIRST),
    "given as a lambda": Case(text(*RIGHT, "f = branch_grads\nbranch_grads = lambda w, x: f(w, x)"), FULL),
    "given as a callable object": Case(
        text(*RIGHT, "f = branch_grads\nclass C:\n    def __call__(self, w, x):\n        return f(w, x)\nbranch_grads = C()"),
        FULL),
    "given as a partial": Case(text(*RIGHT, "from functools import partial\nbranch_grads = partial(branch_grads)"), FULL),
    "nb_homoglyph": Case(text(IMPORT, BRANCH.replace("branch_grads", "br\u0430nch_grads"), *RIGHT[2:]), NOT_FIRST),
    "bidi in the source": Case(
        text(IMPORT, "def branch_grads(w, x):\n    raise ValueError(str(w) and '\u202e\u2066gnorw')", *RIGHT[2:]), RAISED),
    "nb_raw_cell": Case(as_raw("raw"), NOT_FIRST),
    "exercise as text": Case(as_raw("markdown"), NOT_FIRST),
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
    "nbformat 3 with several worksheets": Case(json.dumps(V3), FULL),
    "byte order mark and CRLF": Case(b"\xef\xbb\xbf" + json.dumps(
        notebooks.content(*(cell.replace("\n", "\r\n") for cell in RIGHT)), indent=1).replace("\n", "\r\n").encode(), FULL),
    "sources as lists of lines": Case(
        text(*(cell.splitlines(keepends=True) for cell in RIGHT)), FULL),
    "sources with other things between the lines": Case(
        text(*([part for line in cell.splitlines(keepends=True) for part in (line, None, 3, [line])] for cell in RIGHT)),
        FULL),
    "null, empty and blank cells": Case(text(None, "", *RIGHT, " \n\t\n", "# only a comment", "\\", []), FULL),
    "unknown magics": Case(text(*RIGHT, "%nosuch", "%%nosuch\nx", "!nosuch", "?torch", "torch??", "%"), FULL),
    "cells of other languages": Case(
        text(*RIGHT, "%%html\n<script>1</script>", "%%javascript\nalert(1)", "%%bash\nexit 3", "%%writefile x\ny"), FULL),
    "names deleted at the end": Case(text(*RIGHT, "%reset -f"), FULL),
    "IPython's own commands": Case(text(*RIGHT, "quit", "exit()", "%quickref", "%config", "In = Out = None"), FULL),
    "tags that ask not to be run": Case(skipped_cells(), FULL),
    "a coding cookie and a form feed": Case(text(*RIGHT, "# -*- coding: latin-1 -*-\nx = 'é'", "\x0cx = 1"), FULL),
    "nulls and bytes of no text in cells": Case(text(*RIGHT, "x = '\x00'", "\x1b[2J", "\ufeffx = 1", "\ud800"), FULL),
    "490 more cells": Case(text(*RIGHT, *["x = 1"] * 490), FULL),
    "500 cells of which the last keep crashing": Case(
        text(*RIGHT, *["x = 1"] * 492, *["import os\nos._exit(1)"] * 4), FULL),
    "a cell of a million characters": Case(text(*RIGHT, "x = '" + "x" * 1_000_000 + "'"), FULL),
    "all in one cell": Case(text("\n\n".join(RIGHT)), FULL),
    "a name with a new line": Case(GOOD, FULL, f"{LESSON}\nscore: 4.ipynb"),
    "a name in capitals": Case(GOOD, FULL, f"{LESSON}.IPYNB"),
    "hidden copies": Case(GOOD, FULL),
    "a zip of the folder": Case(zipped((f"work/{FILE}", GOOD), (f"__MACOSX/work/._{FILE}", b"\x00\x05\x16\x07")), FULL,
                                "work.zip"),
    "metadata of another lesson": Case(text(*RIGHT, metadata={"hookwork": {"lesson": "02_watching_gradients"}}), FULL),
    "outputs of four megabytes": Case(
        with_cells({"cell_type": "code", "source": "1", "outputs": [{"text": "x" * 2_000_000}]}), FULL),
    "metadata of any depth": Case(with_cells(metadata=json.loads("[" * 400 + "]" * 400)), FULL),
    "twice the same file": Case(GOOD, FULL),
}  # fmt: skip
