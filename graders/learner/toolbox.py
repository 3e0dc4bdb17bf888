"""Collect what a learner has built into a small module of their own, for `hookwork toolbox` and `toolbox()`."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graders.core import course
from graders.core.exercise import Exercise
from graders.core.files import write_atomically
from graders.core.text import clean_text
from graders.core.untouched import is_untouched_cell, leave_out_copies
from graders.learner.folder import LearnerError, lesson_notebooks
from graders.learner.gathering import Module, NotSelfContained, gather
from graders.learner.notebook.record import Record
from graders.learner.own_python import isolated_command
from graders.submissions.intake import Unreadable, read_notebook

FILE_NAME = "my_hooks.py"
LESSONS = ("02", "05", "06", "07", "09", "11")
"""The numbers of the lessons whose answers are tools: they record, store, patch, measure, and clean up."""
SECONDS = 120
"""How long the new module may take to import."""

_MARK = "# Written by `hookwork toolbox`. SHA-256 of everything below: "
_IMPORT = "exec(compile(sys.stdin.buffer.read(), 'my_hooks.py', 'exec'), {'__name__': 'my_hooks'})"
_HEADER = '''"""My hooks: what I have built in the course Hookwork, from answers that have passed.

Import it beside your notebooks, or copy it to where you need it. Change what you like: `hookwork toolbox` never
overwrites a file that you have changed.
"""

'''


@dataclass(frozen=True)
class Toolbox:
    """What became of the answers: the file that was written, the names in it by lesson, and sentences on what was not.

    `file` is None if there is nothing to collect yet. `kept` tells that the learner's own, changed file was left alone.
    """

    file: Path | None
    names: dict[str, list[str]]
    left_out: tuple[str, ...]
    kept: bool = False

    def lines(self) -> list[str]:
        """The report to the learner, in sentences."""
        if self.file is None:
            numbers = ", ".join(str(int(number)) for number in LESSONS)
            return [*self.left_out, f"Nothing to collect yet: pass an exercise of lessons {numbers}."]
        said = [f"Lesson {int(lesson)}: {', '.join(names)}." for lesson, names in self.names.items()]
        (first, *_), *_ = self.names.values()
        where = f"Written: {self.file}. In a program beside it: from {Path(FILE_NAME).stem} import {first}"
        if self.kept:
            where = f"You have changed {self.file.with_name(FILE_NAME)}, so it stays as it is. The new one: {self.file}"
        return [*said, *self.left_out, where]


def fill_toolbox(folder: Path, done: Record) -> Toolbox:
    """Write the answers that have passed, as they stand in the notebooks of `folder`, into its `my_hooks.py`.

    Raises `LearnerError` if the module does not import or cannot be written; nothing is changed then.
    """
    there = lesson_notebooks(folder)
    module, names, left_out = Module(), dict[str, list[str]](), list[str]()
    for lesson in course.lesson_stems():
        passed = [exercise for exercise in course.lesson_exercises(lesson) if done.passed(exercise.key)]
        if lesson[:2] not in LESSONS or not passed:
            continue
        if lesson not in there:
            left_out.append(f"{', '.join(exercise.key for exercise in passed)}: {lesson}.ipynb is not in this folder.")
            continue
        try:
            cells = read_notebook(there[lesson]).cells
        except Unreadable as error:
            left_out.append(f"{there[lesson]}: {error}")
            continue
        for exercise in passed:
            try:
                module = _add(module, cells, exercise)
                names.setdefault(lesson[:2], []).append(exercise.name)
            except NotSelfContained as error:
                left_out.append(f"{exercise.key} is left out: {clean_text(str(error), 300)}.")
    if not names:
        return Toolbox(None, {}, tuple(left_out))
    text = _HEADER + module.text()
    _try_import(text)
    file = _write(folder / FILE_NAME, text)
    return Toolbox(file, names, tuple(left_out), kept=file.name != FILE_NAME)


def _add(module: Module, cells: Sequence[str], exercise: Exercise) -> Module:
    """The module with the answer to an exercise. Raises `NotSelfContained`."""
    run, _ = leave_out_copies(cells, [exercise.name])
    answers = [cell for cell in run if not is_untouched_cell(cell)]
    return gather(answers, exercise.name, f"From lesson {int(exercise.lesson[:2])}: {exercise.key}.", module)


def _try_import(text: str) -> None:
    """Run a module in a Python of its own. Raises `LearnerError` if that fails."""
    try:
        run = subprocess.run(
            isolated_command(_IMPORT), input=text.encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise LearnerError(
            f"Your answers together take more than {SECONDS} s to import. Nothing was written."
        ) from None
    if run.returncode:
        said = clean_text(run.stderr.decode(errors="replace").strip().rpartition("\n")[2], 300)
        raise LearnerError(f"Your answers together do not import: {said}. Nothing was written.")


def _write(file: Path, text: str) -> Path:
    """Write the module, or beside a file that the learner has changed. Returns its path. Raises `LearnerError`."""
    content = f"{_MARK}{_digest(text)}\n{text}"
    beside = file.with_name(f"{file.name}.new")
    for path in (file, beside):
        try:
            if _is_ours(path):
                write_atomically(path, content)
                return path
        except (OSError, UnicodeError) as error:
            raise LearnerError(f"{path} cannot be read or written: {_reason(error)}. Move it away.") from None
    raise LearnerError(f"You have changed both {file} and {beside}, so neither was touched. Rename one of them.")


def _is_ours(path: Path) -> bool:
    """Whether nothing is lost if this file is overwritten: it is not there, or as it was written."""
    if not path.exists() and not path.is_symlink():
        return True
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    return first == f"{_MARK}{_digest(rest)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
