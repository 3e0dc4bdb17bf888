"""Mark a learner's own notebook in a box, as an instructor would."""

from __future__ import annotations

from pathlib import Path

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.core.seeds import new_seed
from graders.learner.notebook import record
from graders.learner.notebook.record import Record
from graders.marking.mark_submission import mark_submission
from graders.marking.questions import Questions
from graders.sandbox.outside.runner import Runner
from graders.submissions.finding import Submission
from graders.submissions.layout import OWN_NAME


def mark_own(lesson: str, file: Path, runner: Runner, seed: int | None = None) -> tuple[SubmissionResult, int, Record]:
    """The result of a notebook, the seed that was used, and the learner's record, to which the result was added.

    It runs in this thread, so that Ctrl-C ends the box at once. A seed of None draws a new one.
    """
    seed = new_seed() if seed is None else seed
    result = mark_submission(Submission(student=OWN_NAME, lesson=lesson, file=file), Questions(seed), runner).result
    with record.edit_record(file.parent) as notes:
        if result.status is SubmissionStatus.GRADED:
            for exercise in result.exercises:
                notes.note(exercise.key, exercise.status)
    return result, seed, notes
