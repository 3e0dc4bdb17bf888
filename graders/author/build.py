"""`hookwork build`: writes the notebooks of a lesson, and finds those that differ from what their source builds."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from graders.author.lesson import lesson_notebook
from graders.core import course, rules
from graders.core.files import write_atomically
from graders.core.source import SourceError, explanations, prediction_keys
from graders.learner.notebook import record

CELL_SECONDS = 120
"""The seconds that a cell of a lesson may take when it is built."""
SAME_EVERYWHERE = {"OMP_NUM_THREADS": "1", "MODELS_OF_THE_COURSE": "1"}
"""Variables with which a lesson shows the same on every machine: `your_model` takes our net, whatever is installed."""


def build_lesson(lesson: str) -> list[Path]:
    """Write the learner's and the solved notebook of a lesson; returns their paths. Raises `SourceError`."""
    solved = execute_solution(lesson)
    files = notebook_files(lesson)
    for file, content in zip(files, (lesson_notebook(lesson, solved=False), solved)):
        write_atomically(file, nbformat.writes(content) + "\n")
    write_atomically(course.lessons_folder() / rules.RULES_FILE_NAME, rules.rules_page())  # every lesson links to it
    return list(files)


def notebook_files(lesson: str) -> tuple[Path, Path]:
    """The paths of the learner's and the solved notebook of a lesson."""
    return course.lessons_folder() / f"{lesson}.ipynb", course.solutions_folder() / f"{lesson}.ipynb"


def execute_solution(lesson: str) -> NotebookNode:
    """The solved notebook with its outputs. It is run with the asserts of the source first, and then without them.

    The outputs come from the second run, because readers have no asserts either. Raises `SourceError` when a cell
    raises, or when a guess in the source is wrong.
    """
    run_with_asserts(lesson)
    content = lesson_notebook(lesson, solved=True)
    run_notebook(content, f"solutions/{lesson}.py without its asserts")
    return content


def run_with_asserts(lesson: str) -> None:
    """Run the solved notebook with the asserts of the source. Raises `SourceError` as `execute_solution` does."""
    run_notebook(lesson_notebook(lesson, solved=True, asserts=True), f"solutions/{lesson}.py")


def run_notebook(content: NotebookNode, source: str) -> None:
    """Run a notebook in an empty folder and put the outputs into its cells. `source` names the file in messages.

    Raises `SourceError` when a cell raises or takes too long, or when a guess is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            content,
            kernel_name="python3",
            timeout=CELL_SECONDS,
            resources={"metadata": {"path": folder}},
            coalesce_streams=True,
            record_timing=False,
            shutdown_kernel="immediate",
        )
        try:
            client.execute(env={**os.environ, **SAME_EVERYWHERE}, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            what = f"{error.ename}: {error.evalue}".rstrip(": ")
            raise SourceError(f"{source} does not run through: {what} at {_failing_line(error)}") from None
        right = record.load_record(Path(folder)).predictions
    for key in (key for cell in content.cells if cell.cell_type == "code" for key in prediction_keys(cell.source)):
        if not right.get(key):
            raise SourceError(f"{source}: the guess {key!r} is not what came out: {_compare_output(content, key)}")


def _compare_output(content: NotebookNode, key: str) -> str:
    """What `compare` showed for this key, in one line."""
    shown = [
        output.data["text/plain"]
        for cell in content.cells
        if cell.cell_type == "code" and "compare(" in cell.source and f'"{key}"' in cell.source
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    return "; ".join(" ".join(text.split()) for text in shown) or "its compare did not run"


def _failing_line(error: CellExecutionError) -> str:
    """The line of code that IPython's traceback points to, without colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback).splitlines()
    return next((line.strip("-> ") for line in lines if line.startswith("--") and "> " in line), "an unknown line")


def stale_notebooks(lesson: str) -> list[str]:
    """Problems of notebooks that differ from what the lesson's source builds. Outputs are not compared."""
    learners, solved = notebook_files(lesson)
    page = learners.with_name(rules.RULES_FILE_NAME)
    old = not page.exists() or page.read_text(encoding="utf-8") != rules.rules_page()
    problems = (
        [f"lessons/{rules.RULES_FILE_NAME} is not what graders/core/rules.py says: run `hookwork build`"] if old else []
    )
    return [*problems, *stale_notebook(learners, lesson, solved=False), *stale_notebook(solved, lesson, solved=True)]


def stale_notebook(file: Path, lesson: str, *, solved: bool) -> list[str]:
    """The problems of one notebook: the learner's, or with `solved` the one with the answers."""
    name = f"{file.parent.name}/{file.name}"
    if not file.exists():
        return [f"{name} is missing: run `hookwork build`"]
    problems = []
    there, built = nbformat.read(file, as_version=4), lesson_notebook(lesson, solved=solved)
    nbformat.validate(there)
    if _comparable_content(there) != _comparable_content(built):
        problems.append(f"{name} is not what solutions/{lesson}.py builds: run `hookwork build`")
    outputs = [output for cell in there.cells for output in cell.get("outputs", [])]
    if not solved and outputs:
        problems.append(f"{name} holds outputs: run `hookwork build`")
    if solved and not outputs:
        problems.append(f"{name} was not executed: run `hookwork build`")
    shown = [output.data["text/markdown"] for output in outputs if "text/markdown" in output.get("data", {})]
    if solved and shown != list(explanations(course.lesson_source(lesson)).values()):
        problems.append(
            f"{name} does not show what explains its predictions, as the source has it: run `hookwork build`"
        )
    problems += [f"{name} holds the error {output.ename}" for output in outputs if output.output_type == "error"]
    problems += _figures_without_alt(outputs, name)
    return problems


def _comparable_content(content: NotebookNode) -> Sequence[object]:
    cells = [(cell["id"], cell.cell_type, cell.source, _own_metadata(cell.metadata)) for cell in content.cells]
    return [content.metadata.get("hookwork"), content.metadata.get("kernelspec"), cells]


def _own_metadata(metadata: NotebookNode) -> dict[str, object]:
    return {name: metadata[name] for name in ("nbgrader", "hookwork", "jupyter", "tags") if name in metadata}


def _figures_without_alt(outputs: Sequence[NotebookNode], name: str) -> list[str]:
    """A problem if some figures have no alternative text for people who cannot see them."""
    bare = [
        output
        for output in outputs
        for kind in output.get("data", {})
        if kind.startswith("image/") and not output.metadata.get(kind, {}).get("alt", "").strip()
    ]
    return [f"{name} has {len(bare)} figures without alt text: show them with graders.figures.show"] if bare else []
