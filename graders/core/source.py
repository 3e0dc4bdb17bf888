"""The exercise cells in the source of a lesson.

A lesson is py:percent text. An exercise cell starts with `# %% exercise="KEY"` and holds its answer between
`### BEGIN SOLUTION` and `### END SOLUTION`, the marks that nbgrader uses, too.
"""

from __future__ import annotations

import re

from graders.core.errors import HookworkError

BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "raise NotImplementedError"

_CELL = re.compile(r"^# %%(.*)$", re.M)
_KEY = re.compile(r'exercise="([\w-]+)"')
_GUESS = re.compile(r'^guess\(\s*"([\w-]+)"', re.M)


class SourceError(HookworkError):
    """A lesson's source that cannot be built; the message names the cell and the remedy."""


def exercise_cells(text: str) -> dict[str, str]:
    """Exercise key to the text of its solved cell, without the solution's marks."""
    parts = _CELL.split(text)
    cells = {}
    for header, body in zip(parts[1::2], parts[2::2]):
        if match := _KEY.search(header):
            cells[match[1]] = without_solution_marks(body.strip("\n"))
    return cells


def prediction_keys(text: str) -> list[str]:
    """The keys of the predictions in a source or a cell, in order: of each line that starts `guess("KEY"`."""
    return _GUESS.findall(text)


def without_solution_marks(source: str) -> str:
    """A solved cell without the lines that mark the solution."""
    return "\n".join(line for line in source.split("\n") if line.strip() not in (BEGIN_SOLUTION, END_SOLUTION))


def make_stub(source: str) -> str:
    """The learner's form of a solved cell: each marked solution becomes one line that raises.

    Raises `SourceError` when the marks do not come in pairs.
    """
    stubbed: list[str] = []
    inside = False
    for line in source.split("\n"):
        mark = line.strip()
        if mark == BEGIN_SOLUTION and not inside:
            stubbed.append(line[: len(line) - len(line.lstrip())] + STUB)
            inside = True
        elif mark == END_SOLUTION and inside:
            inside = False
        elif mark in (BEGIN_SOLUTION, END_SOLUTION):
            raise SourceError(
                f"{mark!r} without its partner; write {BEGIN_SOLUTION} above and {END_SOLUTION} below each answer"
            )
        elif not inside:
            stubbed.append(line)
    if inside:
        raise SourceError(f"{BEGIN_SOLUTION} without {END_SOLUTION}")
    if len(stubbed) == len(source.split("\n")):
        raise SourceError(f"no answer is marked; write {BEGIN_SOLUTION} above and {END_SOLUTION} below it")
    return "\n".join(stubbed)
