"""Executed notebooks: what was handed in, with what its cells showed."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import nbformat
import pytest

from graders.instructor.executed import executed_notebook
from graders.submissions.intake import MAX_CELLS, MAX_TEXTS, parse_notebook
from graders.wire.frames import MAX_OUTPUTS, Frame
from tests import notebooks
from tests.doubles import ended

PRINTED = {"output_type": "stream", "name": "stdout", "text": "2\n"}


def output(cell: Any, shown: Any) -> Frame:
    return Frame({"type": "output", "cell": cell}, shown if isinstance(shown, bytes) else json.dumps(shown).encode())


def outputs_of(raw: bytes, *frames: Frame) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell in the executed notebook, which is a valid one."""
    notebook = nbformat.reads(executed_notebook(raw, [*frames, ended()]), as_version=4)
    nbformat.validate(notebook)
    return [[dict(shown) for shown in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def test_outputs_stand_below_their_cells_in_place_of_those_that_were_handed_in() -> None:
    made = notebooks.content("1 + 1", "2 + 2")
    made["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "handed in"}]
    made["cells"].insert(0, {"cell_type": "markdown", "id": "m", "source": "# Mine", "metadata": {}})
    raw = json.dumps(made).encode()
    assert outputs_of(raw, output(1, PRINTED), output(1, PRINTED)) == [[], [PRINTED, PRINTED]]
    notebook = json.loads(executed_notebook(raw, [ended()]))
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
    assert [cell["execution_count"] for cell in notebook["cells"][1:]] == [1, 2]


def test_a_cell_that_did_not_come_to_its_end_says_so() -> None:
    raw = notebooks.text("while True: pass", "1").encode()
    how = Frame({"type": "cell", "cell": 0, "status": "timed-out", "message": "no end after 60 seconds"})
    (first, second) = outputs_of(raw, how, Frame({"type": "cell", "cell": 1, "status": "ok", "message": ""}))
    assert [shown["text"] for shown in first] == ["Hookwork: timed-out. no end after 60 seconds\n"]
    assert second == []


@pytest.mark.parametrize(
    "forged",
    [
        output(0, b"no JSON"),
        output(0, b"[" * 100_000),
        output(0, [1]),
        output(0, {"output_type": "script", "text": "x"}),
        output(0, {"output_type": "stream", "name": "stdout"}),
        output(0, {"output_type": "display_data", "data": [], "metadata": {}}),
        output(0, {**PRINTED, "more": 1}),
        output(7, PRINTED),
        output(-1, PRINTED),
        output(True, PRINTED),
        output("0", PRINTED),
        output(None, PRINTED),
    ],
    ids=lambda frame: frame.body[:40].decode() + str(frame.head["cell"]),
)
def test_what_no_notebook_may_contain_is_left_out(forged: Frame) -> None:
    gc.collect()  # a finalizer of another test would fail at the bottom of the recursion, and count as an error here
    assert outputs_of(notebooks.text("1").encode(), forged, output(0, PRINTED)) == [[PRINTED]]


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": ["1", " + 1"]}]}),
        json.dumps({"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": "1 + 1"}, 7]}]}),
        json.dumps({"nbformat": 4, "cells": [{"cell_type": "strange"}, {"cell_type": "code", "source": "1 + 1"}]}),
    ],
    ids=["bare", "of format 3", "with a strange cell"],
)
def test_of_a_notebook_that_breaks_the_format_the_code_cells_remain(raw: str) -> None:
    assert outputs_of(raw.encode(), output(0, PRINTED)) == [[PRINTED]]
    assert [cell["source"] for cell in json.loads(executed_notebook(raw.encode(), [ended()]))["cells"]] == [["1 + 1"]]


def test_what_nobody_would_write_takes_no_longer_than_what_everybody_does() -> None:
    """As much as a file may hold of what takes time: cells, lists, objects, outputs."""
    many = notebooks.content(*["1"] * MAX_CELLS, metadata={"lists": [[]] * 500_000})
    texts = notebooks.content("1", metadata={"lists": [[]] * 10_000})
    texts["cells"] += [{"cell_type": "markdown", "metadata": {}, "source": ""}] * MAX_TEXTS
    shown = notebooks.content(*["1"] * MAX_CELLS)
    for cell in shown["cells"]:
        cell["outputs"] = [PRINTED] * 200
    deep = output(0, {"output_type": "display_data", "data": {"application/json": [[]] * 300_000}, "metadata": {}})
    for content, *frames in ((many,), (texts,), (shown, *[output(7, PRINTED)] * MAX_OUTPUTS), (texts, *[deep] * 8)):
        raw = json.dumps(content).encode()
        started = time.process_time()
        text = executed_notebook(raw, [*frames, ended()])
        assert time.process_time() - started < 10
        cells = json.loads(text)["cells"]
        assert [cell["source"] for cell in cells if cell["cell_type"] == "code"] == [["1"]] * len(
            parse_notebook(raw).cells
        )


@pytest.mark.parametrize("levels", [10, 40, 60, 300, 900])
def test_depth_costs_no_cell_and_no_other_output(levels: int) -> None:
    nested: Any = "x"
    for _ in range(levels):
        nested = [nested]
    deep = output(0, {"output_type": "display_data", "data": {"application/json": nested}, "metadata": {}})
    made = notebooks.content("1", metadata={"deep": nested} if levels < 400 else {})
    shown = outputs_of(json.dumps(made).encode(), deep, output(0, PRINTED))
    assert [one["output_type"] for one in shown[0]] == ["display_data"] * (levels < 50) + ["stream"]
