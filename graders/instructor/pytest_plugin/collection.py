"""Collects one test for each submission, exercise and check. Each reports a result that was judged beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from graders.core import course
from graders.core.exercise import Check, Exercise
from graders.core.results import ExerciseResult, Status, SubmissionStatus
from graders.core.text import shorten_text
from graders.instructor.pytest_plugin.state import MARKING, PREPARED
from graders.submissions.finding import Submission


class CheckFailed(Exception):
    """Raised for a check that does not hold; only the message is shown."""


class NotGraded(Exception):
    """Raised for a check that could not be judged, through no fault of the learner's."""


class ExerciseCollector(pytest.Collector):
    """Collects the submissions of one exercise."""

    def __init__(self, *, exercise: Exercise, **kwargs: Any) -> None:
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
    """Collects the checks of one exercise in one submission."""

    def __init__(self, *, exercise: Exercise, submission: Submission, **kwargs: Any) -> None:
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
        super().__init__(**kwargs)
        self.exercise, self.submission, self.check = exercise, submission, check

    def setup(self) -> None:
        """Get the result. Raises `NotGraded`, which pytest shows as an error and not as a failure."""
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
        """Report what the submission's run showed. Raises `CheckFailed` when the check does not hold."""
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
        return self.result.checks[index].message if judged else f"{self.result.status.value}: {self.result.explanation}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """Our message alone for our own exceptions: a traceback through the framework would help nobody."""
        if isinstance(excinfo.value, CheckFailed | NotGraded):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file of the test, a line number, and the test's headline."""
        return (
            self.path,
            0,
            f"{self.exercise.key} · {shorten_text(self.submission.student, 80)} · {self.check.sentence}",
        )


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Collect an `Exercise` object of a test module with `ExerciseCollector`."""
    if isinstance(obj, Exercise):
        return ExerciseCollector.from_parent(collector, name=obj.key, exercise=obj)
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip lessons that nobody handed in, unless the command line names them. This saves half a second."""
    handed_in = {f"lesson_{submission.lesson}" for submission in config.stash[PREPARED].submissions}
    if collection_path.parent != course.EXERCISES or collection_path.name in handed_in:
        return None
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    inside = any(collection_path in (path.resolve(), *path.resolve().parents) for path in named)
    return True if collection_path.name.startswith("lesson_") and not inside else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the checks in the order of the course instead of by file name."""
    lessons = sorted({item.exercise.lesson for item in items if isinstance(item, CheckItem)})
    exercises = [exercise for lesson in lessons for exercise in course.lesson_exercises(lesson)]
    place = {exercise.key: number for number, exercise in enumerate(exercises)}
    items.sort(key=lambda item: place.get(item.exercise.key, 0) if isinstance(item, CheckItem) else -1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Report a check without pytest's usual work around a test, which would take longer than judging the notebook."""
    if not isinstance(item, CheckItem):
        return None
    hook = item.ihook
    item.keywords = dict(item.keywords)  # each report copies the keywords, and gathering them from every parent is slow
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
