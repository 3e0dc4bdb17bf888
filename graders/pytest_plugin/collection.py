"""One test for each submission, exercise and check. What it says was judged before, with the whole notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from graders.core import course
from graders.core.exercise import Check, Exercise
from graders.core.results import ExerciseResult, Status, SubmissionStatus
from graders.core.text import shorten_text
from graders.pytest_plugin.state import MARKING, PREPARED
from graders.run.submissions import Submission


class CheckFailed(Exception):
    """A check that does not hold; the message is all that is shown."""


class NotGraded(Exception):
    """A check that could not be judged, for a reason that is not the learner's."""


class ExerciseCollector(pytest.Collector):
    """One exercise: its submissions."""

    def __init__(self, *, exercise: Exercise, **kwargs: Any) -> None:
        """As pytest makes it, with the exercise."""
        super().__init__(**kwargs)
        self.exercise = exercise

    def collect(self) -> Iterator[pytest.Collector]:
        """One collector for each submission of the lesson."""
        for submission in self.config.stash[PREPARED].submissions:
            if submission.lesson == self.exercise.lesson:
                yield SubmissionCollector.from_parent(
                    self, name=shorten_text(submission.student, 80), exercise=self.exercise, submission=submission
                )


class SubmissionCollector(pytest.Collector):
    """One exercise of one submission: its checks."""

    def __init__(self, *, exercise: Exercise, submission: Submission, **kwargs: Any) -> None:
        """As pytest makes it, with the exercise and the submission."""
        super().__init__(**kwargs)
        self.exercise, self.submission = exercise, submission

    def collect(self) -> Iterator[pytest.Item]:
        """One test for each check."""
        for check in self.exercise.checks:
            yield CheckItem.from_parent(
                self, name=check.name, exercise=self.exercise, submission=self.submission, check=check
            )


class CheckItem(pytest.Item):
    """One check of one exercise of one submission."""

    def __init__(self, *, exercise: Exercise, submission: Submission, check: Check, **kwargs: Any) -> None:
        """As pytest makes it, with what it checks."""
        super().__init__(**kwargs)
        self.exercise, self.submission, self.check = exercise, submission, check

    def setup(self) -> None:
        """Get the result; one that is not the learner's is an error and not a failure."""
        self.submission_result = self.config.stash[MARKING].result(self.submission)
        if self.submission_result.status is SubmissionStatus.NOT_GRADED:
            raise NotGraded(self.submission_result.message)
        self.result = self._exercise_result()
        if self.result is not None and self.result.status is Status.NOT_GRADED:
            raise NotGraded(self.result.message)

    def _exercise_result(self) -> ExerciseResult | None:
        for result in self.submission_result.exercises:
            if result.key == self.exercise.key:
                return result
        return None

    def runtest(self) -> None:
        """Compare with the result that the submission's run gave."""
        index = self.exercise.checks.index(self.check)
        self.user_properties += [("exercise", self.exercise.key), ("student", self.submission.student)]
        if self.result is None:
            self._note_points(0.0, self.exercise.points / len(self.exercise.checks))
            raise CheckFailed(f"{self.submission_result.status.value}: {self.submission_result.message}")
        check = self.result.checks[index]
        self._note_points(check.score, check.max_score)
        if not check.passed:
            raise CheckFailed(self._failure_message(index))

    def _note_points(self, score: float, most: float) -> None:
        self.user_properties += [("points", score), ("max_points", most)]

    def _failure_message(self, index: int) -> str:
        assert self.result is not None
        judged = self.result.status is Status.WRONG
        return self.result.checks[index].message if judged else f"{self.result.status.value}: {self.result.message}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """One short message; frames of the framework help nobody here."""
        if isinstance(excinfo.value, CheckFailed | NotGraded):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item is, and its headline."""
        return (
            self.path,
            0,
            f"{self.exercise.key} · {shorten_text(self.submission.student, 80)} · {self.check.sentence}",
        )


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Exercises are collected by our own collector."""
    if isinstance(obj, Exercise):
        return ExerciseCollector.from_parent(collector, name=obj.key, exercise=obj)
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the lessons that nobody handed in, as long as the command line does not name them: half a second."""
    handed_in = {f"lesson_{submission.lesson}" for submission in config.stash[PREPARED].submissions}
    if collection_path.parent != course.PACKAGE or collection_path.name in handed_in:
        return None
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    inside = any(collection_path in (path.resolve(), *path.resolve().parents) for path in named)
    return True if collection_path.name.startswith("lesson_") and not inside else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The checks in the order of the course, and not of the names of files."""
    lessons = sorted({item.exercise.lesson for item in items if isinstance(item, CheckItem)})
    exercises = [exercise for lesson in lessons for exercise in course.lesson_exercises(lesson)]
    place = {exercise.key: number for number, exercise in enumerate(exercises)}
    items.sort(key=lambda item: place.get(item.exercise.key, 0) if isinstance(item, CheckItem) else -1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Report a check. What pytest does around a test that runs code would take longer than to judge the notebook."""
    if not isinstance(item, CheckItem):
        return None
    hook = item.ihook
    item.keywords = dict(item.keywords)  # each report copies them, otherwise from every parent anew
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    phases: list[tuple[Literal["setup", "call", "teardown"], Callable[[], None]]] = [
        ("setup", item.setup), ("call", item.runtest), ("teardown", item.teardown),
    ]  # fmt: skip
    passed = True
    for when, run in phases:
        if passed or when == "teardown":
            call = pytest.CallInfo.from_call(run, when, reraise=(pytest.exit.Exception, KeyboardInterrupt))
            hook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
            passed = call.excinfo is None
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
