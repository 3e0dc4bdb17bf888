"""pytest's side: one test for each submission, exercise and check; a progress bar; the summary.

Notebooks run in processes of their own, once for each submission, before its first check is asked for.
Under pytest-xdist each worker runs the submissions whose checks it was given, and sends the results home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graders.conftest import PREPARED
from graders.core.draws import new_seed
from graders.core.exercise import Check, Exercise
from graders.core.results import Batch, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.core.text import clean, plural
from graders.marking import Marking, default_jobs
from graders.options import limits_from
from graders.report import results_json, summary
from graders.run.kept import KeptRuns
from graders.run.kit import make_kit
from graders.run.selftest import Choice, NoIsolation, choose_tier
from graders.run.submissions import Submission
from graders.run.tiers import accepted_tiers
from graders.run.warm import WarmProcess

_marking = pytest.StashKey[Marking]()
_from_workers = pytest.StashKey[list[SubmissionResult]]()
_written = pytest.StashKey[str]()
_NOT_WRITTEN = "The results could not be written"
OURS = 3
"""The exit status when something was not graded, or could not be written down: our failure, not the learners'."""
NOTABLY_SLOW = 1.5


class CheckFailed(Exception):
    """A check that does not hold; the message is all that is shown."""


class NotGraded(Exception):
    """A check that could not be judged, for a reason that is not the learner's."""


def pytest_configure(config: pytest.Config) -> None:
    """Fix the seed, and settle where the notebooks run."""
    if config.option.tbstyle == "auto":
        # The summary explains each exercise once. `--tb=short` brings back a section for each check.
        config.option.tbstyle = "no"
        config.option.reportchars = config.option.reportchars.removeprefix("fE")
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    prepared = config.stash[PREPARED]
    warm, kept = prepared.warm, prepared.kept
    marking = config.stash[_marking] = Marking(
        worker["hookwork_seed"] if worker else _seed(config, kept),
        limits_from(config),
        1 if worker else config.getoption("--jobs") or default_jobs(limits_from(config)),
        warm.kit,
        kept,
        tier=None,
        accepted=accepted_tiers(
            config.getoption("--isolation"),
            unisolated=config.getoption("--allow-unisolated") or not _is_class(config),
        ),
        controlled=_is_class(config),
    )
    if worker:
        marking.run_in(Choice(worker["hookwork_tier"], warm if worker["hookwork_warm"] else None))
    elif not config.option.collectonly and marking.has_to_run(prepared.submissions):
        marking.run_in(_choose_tier(config, make_kit(warm.kit), warm))
    config.stash[_from_workers] = []


def _seed(config: pytest.Config, kept: KeptRuns | None) -> int:
    """The seed that was asked for, that of the batch which `--out` goes on with, or a new one."""
    given: int | None = config.getoption("--seed")
    if given is not None:
        return given
    return kept.seed(new_seed()) if kept else new_seed()


def _choose_tier(config: pytest.Config, kit: Path, warm: WarmProcess) -> Choice:
    """The tier of isolation, tested from inside."""
    try:
        return choose_tier(
            config.getoption("--isolation"),
            kit,
            limits_from(config),
            own_work=not _is_class(config),
            allow_unisolated=config.getoption("--allow-unisolated"),
            warm=warm,
        )
    except NoIsolation as error:
        raise pytest.UsageError(str(error)) from None


def _is_class(config: pytest.Config) -> bool:
    return len({submission.student for submission in config.stash[PREPARED].submissions}) > 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let what runs end."""
    if _marking in config.stash:
        config.stash[_marking].close()


def pytest_report_header(config: pytest.Config) -> str:
    """The seed, and what is marked."""
    count = len(config.stash[PREPARED].submissions)
    marking = config.stash[_marking]
    where = f"isolation {marking.tier}" if marking.tier else "nothing has to run"
    return f"hookwork: {plural(count, 'submission')}, seed {marking.seed}, {where}"


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
                    self, name=clean(submission.student, 80), exercise=self.exercise, submission=submission
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
        self.submission_result = self.config.stash[_marking].result(self.submission)
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
        self.user_properties += [("exercise", self.exercise.key), ("student", clean(self.submission.student))]
        if self.result is None:
            self._note_points(0.0, self.exercise.points / len(self.exercise.checks))
            raise CheckFailed(f"{self.submission_result.status.value}: {self.submission_result.message}")
        check = self.result.checks[index]
        self._note_points(check.score, check.max_score)
        if not check.passed:
            raise CheckFailed(self._reason(index))

    def _note_points(self, score: float, most: float) -> None:
        self.user_properties += [("points", score), ("max_points", most)]

    def _reason(self, index: int) -> str:
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
            f"{self.exercise.key} · {clean(self.submission.student, 80)} · {self.check.sentence}",
        )


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Exercises are collected by our own collector."""
    if isinstance(obj, Exercise):
        return ExerciseCollector.from_parent(collector, name=obj.key, exercise=obj)
    return None


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Run all notebooks that the selected checks need, in parallel.

    With `-x` each runs only when its first check is due; a worker of pytest-xdist learns only then which
    checks are its own.
    """
    config = session.config
    if config.option.collectonly or config.getoption("maxfail") or hasattr(config, "workerinput"):
        return
    needed = {item.submission: None for item in session.items if isinstance(item, CheckItem)}
    if not needed:
        return
    writer = config.get_terminal_writer()
    console = Console(file=writer._file)
    columns = (TextColumn("running notebooks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("notebooks", total=len(needed))
        config.stash[_marking].start(needed, lambda _: bar.advance(task))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Confirm the results and write them down. A worker of pytest-xdist hands them to the process that reports."""
    config = session.config
    if _marking not in config.stash:
        return
    config.stash[_marking].confirm()
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["hookwork_results"] = results_json.to_data(config.stash[_marking].batch())["submissions"]
        return
    batch = _batch(config)
    out: Path | None = config.getoption("--out")
    if out is not None and batch.submissions:
        config.stash[_written] = _write(batch, out, config.stash[PREPARED].submissions)
    failed = config.stash.get(_written, "").startswith(_NOT_WRITTEN)
    if session.exitstatus in (0, 1) and (failed or not all(one.graded for one in batch.submissions)):
        session.exitstatus = OURS


def _write(batch: Batch, out: Path, submissions: list[Submission]) -> str:
    """Write the files of `--out`; what became of that, in one line."""
    # Loaded only here: templates and plots would be a tenth of what collecting the tests takes.
    from graders.instructor.material import similar_answers, titles
    from graders.report import outputs

    try:
        lessons = [one.lesson for one in batch.submissions]
        written = outputs.write(batch, out, titles(lessons), similar_answers(submissions))
    except OSError as error:
        return f"{_NOT_WRITTEN} to {out}: {error.strerror}. What was there before is unchanged. Choose another --out."
    return f"written: {', '.join(map(str, written))}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the summary, and where the files of `--out` are."""
    batch = _batch(config)
    if not batch.submissions or hasattr(config, "workerinput"):
        return
    console = Console(file=terminalreporter._tw._file, width=max(80, terminalreporter._tw.fullwidth), highlight=False)
    terminalreporter.ensure_newline()
    terminalreporter.section("hookwork")
    console.print(summary.render(batch))
    factor = config.stash[_marking].slowness
    if factor > NOTABLY_SLOW:
        console.print(f"This machine is slow or busy: notebooks had {factor:.1f} times the usual seconds.")
    if _written in config.stash:
        console.print(config.stash[_written])


def _batch(config: pytest.Config) -> Batch:
    own = config.stash[_marking].batch()
    found = {(one.student, one.lesson): one for one in (*own.submissions, *config.stash[_from_workers])}
    return Batch(own.seed, own.torch, own.created, tuple(found[who] for who in sorted(found)))


# The next three are hooks of pytest-xdist (`-n`), ignored where it is not installed.


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker gets the same seed, and folders that are removed even when the worker is killed."""
    node.workerinput["hookwork_seed"] = node.config.stash[_marking].seed
    node.workerinput["hookwork_tier"] = node.config.stash[_marking].tier
    node.workerinput["hookwork_warm"] = node.config.stash[_marking].warm is not None
    node.workerinput["hookwork_kit"] = str(node.config.stash[_marking].kit)
    node.workerinput["hookwork_scratch"] = str(node.config.stash[PREPARED].scratch)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All checks of one submission go to one worker, so that its notebook runs once."""
    from xdist.scheduler import LoadScopeScheduling

    class BySubmission(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            file, _, student, *_ = nodeid.split("::")
            return f"{file}::{student}"

    return BySubmission(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the results of a worker that has finished."""
    for data in getattr(node, "workeroutput", {}).get("hookwork_results", []):
        node.config.stash[_from_workers].append(results_json.submission_from_data(data))
