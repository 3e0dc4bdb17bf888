"""Read the exercise cells in the source of a lesson, and make the learner's stubs from them.

The source is text in the py:percent format. An exercise cell starts with `# %% exercise="KEY"` and has its answer
between `### BEGIN SOLUTION` and `### END SOLUTION`, the same marks as in nbgrader.
"""

from __future__ import annotations

import re

from graders.core.errors import HookworkError

BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "raise NotImplementedError"

_CELL = re.compile(r"^# %%(.*)$", re.M)
_KEY = re.compile(r'exercise="([\w-]+)"')
_EXPLAINS = re.compile(r'explains="([\w-]+)"')
_GUESS = re.compile(r'^guess\(\s*"([\w-]+)"', re.M)


class SourceError(HookworkError):
    """A lesson's source cannot be built; the message says what is wrong and how to fix it."""


def exercise_cells(text: str) -> dict[str, str]:
    """The solved cell of each exercise by its key, in order, without the marks around the solution."""
    parts = _CELL.split(text)
    cells = {}
    for header, body in zip(parts[1::2], parts[2::2]):
        if match := _KEY.search(header):
            cells[match[1]] = without_solution_marks(body.strip("\n"))
    return cells


def explanations(text: str) -> dict[str, str]:
    """What explains the outcome of each prediction, as Markdown by key, in order: the cells with `explains="KEY"`."""
    parts = _CELL.split(text)
    return {
        match[1]: re.sub(r"^# ?", "", body.strip("\n"), flags=re.M)
        for header, body in zip(parts[1::2], parts[2::2])
        if (match := _EXPLAINS.search(header))
    }


def prediction_keys(text: str) -> list[str]:
    """The keys of the predictions in a source or a cell, in order: from each line that starts with `guess("KEY"`."""
    return _GUESS.findall(text)


def without_solution_marks(source: str) -> str:
    """A solved cell without the lines that mark the solution."""
    return "\n".join(line for line in source.split("\n") if line.strip() not in (BEGIN_SOLUTION, END_SOLUTION))


def make_stub(source: str) -> str:
    """The learner's version of a solved cell: each marked solution becomes a line that raises `NotImplementedError`.

    Raises `SourceError` if the marks do not come in pairs, or there are none.
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
