"""The result of the notebook that is given to a test, as `one_notebook.given` gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.marking.mark_submission import mark_submission
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from tests.sandbox.outside.one_notebook import QUESTIONS, Given


@pytest.fixture(scope="module")
def mark(
    request: pytest.FixtureRequest, box_modules: Path, warm: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, Given], SubmissionResult]]:
    """Verdicts the notebook of a test, two at a time."""
    folder = tmp_path_factory.mktemp("notebooks")
    pool = ThreadPoolExecutor(2)
    futures: dict[str, Future[SubmissionResult]] = {}

    def run(name: str, notebook: Given) -> SubmissionResult:
        file = folder / name / f"{notebook.lesson}.ipynb"
        file.parent.mkdir()
        file.write_text(notebook.text, encoding="utf-8")
        runner = BoxRunner(box_modules, limits=notebook.limits, warm=None if notebook.started else warm)
        return mark_submission(Submission(name, notebook.lesson, file), QUESTIONS, runner).result

    def start(name: str, notebook: Given) -> Future[SubmissionResult]:
        if name not in futures:
            futures[name] = pool.submit(run, name, notebook)
        return futures[name]

    if not hasattr(request.config, "workerinput"):  # a worker of pytest-xdist does not know what it will run
        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item.function, "given"):
                start(item.name, item.function.given)
    yield lambda name, notebook: start(name, notebook).result()
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def found(request: pytest.FixtureRequest, mark: Callable[[str, Given], SubmissionResult]) -> SubmissionResult:
    """The result of the notebook that was given to the test."""
    return mark(request.node.name, request.function.given)
