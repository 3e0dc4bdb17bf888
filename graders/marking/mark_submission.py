"""Marks one submission: reads the file, runs the notebook, judges the answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from graders.core import course
from graders.core.errors import ExerciseDefect
from graders.core.results import SubmissionResult, SubmissionStatus
from graders.core.transcript import read_transcript
from graders.core.untouched import leave_out_copies
from graders.marking.questions import Questions
from graders.marking.whereabouts import with_note
from graders.sandbox.outside.runner import Runner, RunsBetweenControls, Stopped
from graders.submissions.finding import Submission
from graders.submissions.intake import Unreadable, read_notebook
from graders.verdict.judge_submission import judge_submission


@dataclass(frozen=True)
class ProvisionalResult:
    """A result before the next control: only when the control has been marked again is it known whether it counts."""

    result: SubmissionResult
    pace: float = 1.0
    """The factor by which its time limits were stretched."""
    between_controls: RunsBetweenControls = field(default_factory=RunsBetweenControls)
    """The runs between the same two controls, which count together or not at all."""

    def settled_result(self) -> SubmissionResult:
        """The final result: `not-graded` if the control showed that the run does not count."""
        if not self.between_controls.trouble or self.result.status is not SubmissionStatus.GRADED:
            return self.result
        why = f"The control, a notebook with known results, failed: {self.between_controls.trouble}"
        return replace(self.result, status=SubmissionStatus.NOT_GRADED, score=0.0, exercises=(), message=why)


def mark_submission(submission: Submission, questions: Questions, runner: Runner) -> ProvisionalResult:
    """Mark one submission in this thread. A failure that is not the learner's gives `not-graded`; nothing is raised."""

    def without_run(status: SubmissionStatus, why: str) -> ProvisionalResult:
        return ProvisionalResult(result_without_run(submission, status, why, runner.tier))

    if submission.problem:
        return without_run(SubmissionStatus.UNREADABLE, submission.problem)
    if submission.file is None:
        why = submission.elsewhere or "No notebook was handed in for this lesson."
        return without_run(SubmissionStatus.MISSING, why)
    try:
        notebook = read_notebook(submission.file)
        seed = questions.seed_for(submission.student, submission.lesson, notebook.sha256)
        asked = questions.for_lesson(submission.lesson, seed)
        names = [exercise.name for exercise in asked.exercises]
        cells, copies = leave_out_copies(notebook.cells, names)
        transcript = runner.run(cells, asked.probes)
        run = read_transcript(transcript.frames)
        found = judge_submission(asked.exercises, asked.verdicts, cells, run, notebook.keys)
        exercises = tuple(with_note(one, name, notebook, copies, names) for one, name in zip(found, names, strict=True))
    except Unreadable as error:
        return without_run(SubmissionStatus.UNREADABLE, str(error))
    except Stopped as error:
        return without_run(SubmissionStatus.NOT_GRADED, str(error))
    except ExerciseDefect as error:
        return without_run(SubmissionStatus.NOT_GRADED, error.message_line())
    except Exception as error:
        # A defect of a grader or of this machine, such as a full disk, must never cost the learner points.
        return without_run(SubmissionStatus.NOT_GRADED, f"The graders failed with {type(error).__name__}: {error}")
    status = SubmissionStatus.NOT_GRADED if run.ended == "not-started" else SubmissionStatus.GRADED
    result = replace(
        result_without_run(submission, status, run.message, transcript.tier),
        sha256=notebook.sha256,
        seed=seed,
        score=round(sum(exercise.score for exercise in exercises), 4),
        seconds=run.seconds,
        exercises=exercises,
        missing_modules=run.missing_modules,
    )
    return ProvisionalResult(result=result, pace=transcript.pace, between_controls=transcript.between_controls)


def result_without_run(submission: Submission, status: SubmissionStatus, message: str, tier: str) -> SubmissionResult:
    """The result of a submission whose notebook was not run."""
    return SubmissionResult(
        student=submission.student,
        lesson=submission.lesson,
        file=submission.shown_file,
        sha256="",
        status=status,
        isolation=tier,
        score=0.0,
        max_score=sum(exercise.points for exercise in course.lesson_exercises(submission.lesson)),
        seconds=0.0,
        exercises=(),
        message=message,
    )
