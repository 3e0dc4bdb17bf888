"""Marks one notebook in a box, for tests."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graders.core import course
from graders.core.exercise import Exercise
from graders.core.results import ExerciseResult, SubmissionResult
from graders.core.transcript import read_transcript
from graders.marking.questions import LessonQuestions, Questions
from graders.sandbox.outside.box_process import Box
from graders.sandbox.outside.runner import BoxRunner
from graders.verdict.judge_submission import judge_submission
from graders.wire.limits import Limits
from tests import notebooks
from tests.notebooks import LESSON

SEED = 20
QUESTIONS = Questions(SEED)
AMPLE = Limits()
"""For notebooks that come to an end by themselves: no busy machine makes them look slow."""
SHORT = Limits(cell_seconds=2, probe_seconds=1.5)
"""For notebooks that have to be stopped."""
FULL = {"01-branch-grads": ("passed", 1), "01-chain-grads": ("passed", 2), "01-per-pass-grads": ("passed", 1)}
IMPORT = "import torch\nfrom graders import check, hint"


# A notebook for each test, given above it. All that this process will need are started at once.


@dataclasses.dataclass(frozen=True)
class Given:
    """The file of a notebook, and the limits under which it runs."""

    text: str
    limits: Limits
    lesson: str
    started: bool


def given(
    *cells: str, limits: Limits = AMPLE, lesson: str = LESSON, text: str | None = None, started: bool = False
) -> Callable[[Callable[..., None]], Any]:
    """Give the result of a notebook with these code cells to a test, as its argument `found`.

    Its box is forked from the warm process, unless it is to be `started`.
    """

    def note(test: Any) -> Any:
        test.given = Given(notebooks.text(*cells) if text is None else text, limits, lesson, started)
        return test

    return note


def verdicts(result: SubmissionResult) -> dict[str, tuple[str, float]]:
    """Status and points of each exercise of a submission that was graded."""
    assert result.status.value == "graded"
    assert result.score == sum(exercise.score for exercise in result.exercises)
    assert (result.max_score, len(result.sha256)) == (sum(exercise.max_score for exercise in result.exercises), 64)
    return {exercise.key: (exercise.status.value, exercise.score) for exercise in result.exercises}


def message(result: SubmissionResult, key: str) -> str:
    """The message for the learner about one exercise."""
    (text,) = [exercise.message for exercise in result.exercises if exercise.key == key]
    return text


def of_one_case(lesson: str) -> list[Exercise]:
    """The exercises of a lesson, each with its first case alone."""
    return [dataclasses.replace(exercise, cases=exercise.cases[:1]) for exercise in course.lesson_exercises(lesson)]


def results_of(cells: list[str], runner: BoxRunner, exercises: list[Exercise]) -> list[ExerciseResult]:
    """The results of a notebook."""
    asked = LessonQuestions.for_seed(exercises, SEED)
    transcript = runner.run(cells, asked.probes)
    return judge_submission(asked.exercises, asked.verdicts, cells, read_transcript(transcript.frames))


def processes_of(box_modules: Path) -> list[int]:
    """The living processes that were started with these modules, or are forks of one that was, whatever their names."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            if f"PYTHONPATH={box_modules}".encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


class NotingRunner(BoxRunner):
    """Notes the boxes in which it runs notebooks."""

    def box(self, cells: Sequence[str] = ()) -> Box:
        made = super().box(cells)
        vars(self).setdefault("noted", []).append(made)
        return made
