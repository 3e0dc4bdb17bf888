"""Turns the source of a lesson, text in the py:percent format, into its notebooks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from graders.author.asserts import without_asserts
from graders.author.predictions import EXPLAINS, check_pairs, without_answers
from graders.core import course, course_map, rules
from graders.core.effort import describe_effort
from graders.core.exercise import Exercise
from graders.core.source import SourceError, make_stub, prediction_keys, without_solution_marks
from graders.core.text import format_points

INSTALL_CELL = 'import graders  # fails? Clone the course, %pip install "/path/of/clone[lab]", restart'
"""The first code cell of every lesson, because a notebook may be opened where nothing is installed.

Where the course is missing, Python's message shows this line. `%pip` installs for the kernel's own Python. Nothing is
installed by name: as long as the course is in no package index, anybody could register its name there.
"""

RULES_PLACEHOLDER = "{{rules}}"
"""Replaced in lesson 1 by the three rules, before its first exercise."""
MAP_PLACEHOLDER = "{{map}}"
"""Replaced in lesson 0 by the map of the course."""
RULES_LINK = f"*The [rules of all exercises]({rules.RULES_FILE_NAME}) hold, too.*"
"""Follows the contract of each exercise that has `follows_rules`."""
THREE_RULES = f"<details><summary>The three rules of all exercises</summary>\n\n{rules.brief_rules()}\n\n</details>"
"""Stands there, too, at the first exercise of a lesson that does not say them itself."""
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def lesson_notebook(lesson: str, *, solved: bool, asserts: bool = False) -> NotebookNode:
    """The learner's notebook of a lesson, or with `solved` the one with the answers, without outputs.

    `asserts` keeps the asserts of the source, for a notebook that nobody will read. Raises `SourceError` when the
    source is not as the build needs it.
    """
    return notebook_from_source(
        course.lesson_source(lesson), lesson, course.lesson_exercises(lesson), solved=solved, asserts=asserts
    )


def notebook_from_source(
    source: str, lesson: str, exercises: Iterable[Exercise], *, solved: bool, asserts: bool = False
) -> NotebookNode:
    """Like `lesson_notebook`, from the text of a lesson's source and the lesson's exercises.

    The first code cell tells how to install the course if it is missing. Each exercise cell of the source is preceded
    by its contract (from the grader) and followed by its check. Raises `SourceError`.
    """
    file = f"solutions/{lesson}.py"
    left = {exercise.key: exercise for exercise in exercises}
    said = RULES_PLACEHOLDER in source
    cells: list[NotebookNode] = []
    given = source_cells(source)
    try:
        check_pairs(given, lesson)
        for cell in given:
            if EXPLAINS in cell.metadata:
                continue  # `compare` shows it when the cell above has run
            key = cell.metadata.get("exercise")
            if key is None:
                cells.append(_plain_cell(cell, solved=solved))
            elif key in left:
                exercise = left.pop(key)
                cells += _exercise_cells(exercise, cell.source, solved)
                if exercise.follows_rules and not said:
                    cells[-3].source += f"\n\n{THREE_RULES}"
                    said = True
            else:
                raise SourceError(f"a cell names the exercise {key!r}, which graders/exercises/lesson_{lesson} lacks")
        first = next((place for place, cell in enumerate(cells) if cell.cell_type == "code"), len(cells))
        cells.insert(first, nbformat.v4.new_code_cell(INSTALL_CELL, metadata=_folded()))
        if not asserts:
            cells = _without_asserts(cells)
        _give_ids(cells)
    except SourceError as error:
        raise SourceError(f"{file}: {error}") from None
    if left:
        raise SourceError(f'{file}: no cell for {", ".join(left)}; start one with # %% exercise="KEY"')
    metadata = {
        "kernelspec": KERNELSPEC,
        "language_info": {"name": "python"},
        "hookwork": {"lesson": lesson, "notice": f"Built from solutions/{lesson}.py; changes belong there."},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def source_cells(source: str) -> list[NotebookNode]:
    """The cells of a lesson's source, unchanged."""
    return list(jupytext.reads(source, fmt="py:percent").cells)


def _plain_cell(cell: NotebookNode, *, solved: bool) -> NotebookNode:
    """A cell that is not an exercise. Code with the tag "figure" or "spoiler" is folded."""
    if cell.cell_type == "markdown":
        text = cell.source.replace(RULES_PLACEHOLDER, rules.brief_rules())
        return nbformat.v4.new_markdown_cell(text.replace(MAP_PLACEHOLDER, course_map.as_markdown()))
    fold = {"figure", "spoiler"} & set(cell.metadata.get("tags", ()))
    source = cell.source if solved else without_answers(cell.source)
    return nbformat.v4.new_code_cell(source, metadata=_folded() if fold else {})


def _folded() -> dict[str, Any]:
    return {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}


def _without_asserts(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The cells without asserts, as readers get them; those left empty are dropped. Exercise cells stay unchanged."""
    for cell in cells:
        if cell.cell_type == "code" and "nbgrader" not in cell.metadata:
            cell.source = without_asserts(cell.source)
    return [cell for cell in cells if cell.source]


def _exercise_cells(exercise: Exercise, source: str, solved: bool) -> list[NotebookNode]:
    try:
        unsolved = make_stub(source)
    except SourceError as error:
        raise SourceError(f"exercise {exercise.key}: {error}") from None
    worth = f"{format_points(exercise.points)} point{'' if exercise.points == 1 else 's'}"
    heading = f"### Exercise `{exercise.key}`: {exercise.title} ({worth})"
    heading += f"\n\n*{describe_effort(exercise)}*" if describe_effort(exercise) else ""
    heading += f"\n\n{exercise.contract}"
    if exercise.follows_rules:
        heading += f"\n\n{RULES_LINK}"
    answer = nbformat.v4.new_code_cell(without_solution_marks(source) if solved else unsolved)
    answer.metadata["nbgrader"] = _nbgrader_metadata(exercise.key, solution=True, points=exercise.points)
    answer.metadata["hookwork"] = {"exercise": exercise.key}
    check = nbformat.v4.new_code_cell(f'check("{exercise.key}")')
    check.metadata["nbgrader"] = _nbgrader_metadata(f"{exercise.key}-check", solution=False)
    return [nbformat.v4.new_markdown_cell(heading), answer, check]


def _nbgrader_metadata(grade_id: str, *, solution: bool, points: float | None = None) -> dict[str, Any]:
    """Cell metadata for nbgrader, schema version 3.

    An answer is a cell with points that nbgrader leaves for somebody else to mark, here the graders. The check below it
    is read-only and has no points.
    """
    graded = {"grade": True, "points": points} if points is not None else {"grade": False}
    return {"schema_version": 3, "grade_id": grade_id, "solution": solution, "locked": not solution, "task": False,
            **graded}  # fmt: skip


def _give_ids(cells: list[NotebookNode]) -> None:
    """Give cells ids that stay the same in every build: from the exercise, the guess, or a hash of the cell's text."""
    seen: dict[str, int] = {}
    for cell in cells:
        base = cell.metadata.get("nbgrader", {}).get("grade_id")
        if base is None and cell.cell_type == "code" and (keys := prediction_keys(cell.source)):
            base = f"{keys[0]}-guess"
        base = base or hashlib.sha256(f"{cell.cell_type} {cell.source}".encode()).hexdigest()[:12]
        seen[base] = seen.get(base, 0) + 1
        cell["id"] = base if seen[base] == 1 else f"{base}-{seen[base]}"
