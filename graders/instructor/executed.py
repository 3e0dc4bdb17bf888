"""Writes the executed notebooks of a batch: what was handed in, with the outputs of its cells during marking.

The outputs come from the kept runs and were made by a stranger's code. Only the four valid types of output get in;
Jupyter runs no scripts in a notebook that it has not executed itself.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from graders.core.file_notes import FileNotes
from graders.core.files import write_atomically
from graders.core.results import Batch
from graders.core.text import without_surrogates
from graders.core.transcript import read_transcript
from graders.core.untouched import leave_out_copies
from graders.marking.cache import RunCache
from graders.marking.cached_runner import CachedRunner
from graders.marking.questions import Questions
from graders.report.names import file_names
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import NoRunner, NotRun
from graders.submissions.finding import Submission
from graders.submissions.intake import Unreadable, cells_of, parse_content, parse_notebook, read_bytes
from graders.wire.frames import Frame, is_nested_deeper

OUTPUT_TYPES = ("display_data", "error", "execute_result", "stream")
MAX_DEPTH = 50
"""Most nested levels of lists and objects in a notebook or an output: nbformat recurses into them."""
MAX_PARTS = 20_000
"""Most lists and objects in a notebook or an output."""


def write_executed(
    batch: Batch, submissions: Sequence[Submission], run_options: RunOptions, out: Path, file_notes: FileNotes
) -> Path:
    """Write `out/executed/STUDENT/LESSON.ipynb` for each run that was kept with its outputs; returns `out/executed`.

    A failure for one student goes into `file_notes`.
    """
    runner, questions = CachedRunner(RunCache(out / "runs"), run_options, NoRunner()), Questions(batch.seed)
    names = file_names(result.student for result in batch.submissions)
    files = {(submission.student, submission.lesson): submission.file for submission in submissions}
    for result in batch.submissions:
        file = files.get((result.student, result.lesson))
        if file is None or not result.sha256:
            continue
        path = out / "executed" / names[result.student] / f"{result.lesson}.ipynb"
        with file_notes.noting_failure(path):
            try:
                raw = read_bytes(file)
                notebook = parse_notebook(raw)
                if notebook.sha256 != result.sha256:
                    continue  # the result is of an earlier file, or of a namesake
                asked = questions.for_lesson(result.lesson, result.seed)
                cells, _ = leave_out_copies(notebook.cells, [one.name for one in asked.exercises])
                transcript = runner.run(cells, asked.probes)
            except (NotRun, Unreadable):  # the student's result says why
                continue
            text = executed_notebook(raw, transcript.frames)
            write_atomically(path, without_surrogates(text), below=out)
            if without_surrogates(text) != text:
                file_notes.note(f"{path}: characters that UTF-8 cannot hold became \N{REPLACEMENT CHARACTER}.")
    return out / "executed"


def executed_notebook(raw: bytes, frames: Sequence[Frame]) -> str:
    """The notebook in these bytes as nbformat 4, with its outputs replaced by those in `frames`.

    Raises `Unreadable` when the bytes are not a notebook.
    """
    notebook = _readable_notebook(raw)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, start=1):
        cell.outputs, cell.execution_count = [], number
    for index, output in _cell_outputs(frames):
        if index < len(cells):
            cells[index].outputs.append(output)
    for ended in read_transcript(frames).cells:
        if ended.status not in ("ok", "raised") and ended.index < len(cells):
            text = f"Hookwork: {ended.status}. {ended.message}\n"
            cells[ended.index].outputs.append(nbformat.v4.new_output("stream", name="stderr", text=text))
    return str(nbformat.writes(notebook)) + "\n"


def _readable_notebook(raw: bytes) -> Any:
    """The whole notebook without outputs if nbformat can read it, otherwise only its code cells."""
    sources = parse_notebook(raw).cells
    content = parse_content(raw)
    for cell in cells_of(content):
        if "outputs" in cell:
            cell["outputs"] = []
    if _is_little(content):
        with contextlib.suppress(Exception):  # a file that we can read may still break the format in many ways
            with warnings.catch_warnings():  # warnings about old notebooks are meant for programs that write them
                warnings.simplefilter("ignore")
                notebook = nbformat.reads(json.dumps(content), as_version=4)
                nbformat.validate(notebook)
            read = [without_surrogates(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
            if read == list(sources):
                return notebook
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def _is_little(content: Any) -> bool:
    """Whether this JSON value is small and flat enough for nbformat."""
    left, parts = [content], 0
    while left and parts <= MAX_PARTS:
        part = left.pop()
        if type(part) in (list, dict):
            parts += 1
            left += part.values() if type(part) is dict else part
    return parts <= MAX_PARTS and not is_nested_deeper(content, MAX_DEPTH)


def _cell_outputs(frames: Sequence[Frame]) -> Iterator[tuple[int, Any]]:
    """The index of a cell with each of its outputs; outputs that a notebook may not contain are left out."""
    for frame in frames:
        index = frame.head.get("cell")
        if frame.type != "output" or type(index) is not int or index < 0:
            continue
        try:
            output = json.loads(frame.body)
            if output["output_type"] in OUTPUT_TYPES and _is_little(output):
                output = nbformat.from_dict(output)
                nbformat.validate(output, ref=output["output_type"], version=4)
                yield index, output
        except (nbformat.ValidationError, ValueError, RecursionError, KeyError, TypeError):
            continue
