"""A class whose notebooks run in this process, and the command that marks it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from graders.cli import app
from graders.instructor.machines import Machines
from graders.marking.control import CONTROL_CELLS
from graders.sandbox.outside.boxes import Boxes
from tests import notebooks
from tests.answers import answers_of
from tests.doubles import InProcessRunner, NoBoxes
from tests.notebooks import KEYS, LESSON, LESSON_1

OTHER_LESSON = "02_watching_gradients"


class ClassRunner(InProcessRunner):
    """Runs the notebooks of a class in this process, and notes whose it has run, and how often the control."""

    def __init__(self) -> None:
        super().__init__("A", before=self.look)
        self.students: list[str] = []
        self.controls = 0
        self.broken = False
        self.interrupted_at = ""
        self.seed = 5  # what is drawn for a seed is drawn once for all tests

    def look(self, cells: Sequence[str]) -> None:
        if tuple(cells) == CONTROL_CELLS:
            self.controls += 1
            return
        if self.broken:
            raise OSError("no space left on device")
        self.students.append(cells[0].split()[1])
        if self.students[-1] == self.interrupted_at:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(2.0)  # until the process that waits for this notebook has taken no other one up


machines: list[ClassRunner] = []
"""The last of them is that of the test."""


def hand_in(
    student: str, day: int = 1, name: str = f"{LESSON}.ipynb", cell: str = "1", wrong: Sequence[str] = ()
) -> Path:
    """A notebook of a student in the folder `class`, handed in at noon of a day in January 2026.

    All its answers are right but those to the exercises in `wrong`. The first cell holds `cell`.
    """
    answers = LESSON_1.right | {key: list(LESSON_1.wrong[key].values()) for key in wrong}
    keys: Sequence[str] = KEYS
    if name.startswith(OTHER_LESSON):
        answers = answers_of("02").right
        keys = list(answers)
    file = Path("class", student, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        notebooks.text(f"# {student} {cell}", "import torch", *(answers[key][0] for key in keys)), encoding="utf-8"
    )
    noon = datetime(2026, 1, day, 12).timestamp()
    os.utime(file, (noon, noon))
    return file


def grade(
    *arguments: str,
    where: str | Path = "class",
    code: int = 0,
    boxes: Boxes | None = None,
    cluster: Callable[[str], Any] | None = None,
) -> str:
    """Type `hookwork grade WHERE --out out`; what it prints, on one line."""
    here = Machines(here=lambda now: nullcontext(boxes or NoBoxes(machines[-1])), new_seed=lambda: machines[-1].seed)
    if cluster is not None:
        here = replace(here, cluster=cluster)
    done = CliRunner().invoke(app, ["grade", str(where), "--out", "out", "--jobs", "1", *arguments], obj=here)
    assert done.exit_code == code, done.output + repr(done.exception)
    assert "Traceback" not in done.output
    return " ".join(done.output.replace("│", " ").split())


def submissions(out: str = "out") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(out, "results.json").read_text())["submissions"]
    return found


def results() -> dict[str, dict[str, Any]]:
    """results.json by student."""
    return {submission["student"]: submission for submission in submissions()}


def each(part: str) -> dict[str, Any]:
    return {name: found[part] for name, found in results().items()}


TEAMS = "Group,Student\nTeam 1,Ada Lovelace\nTeam 1,Alan Turing\n"
