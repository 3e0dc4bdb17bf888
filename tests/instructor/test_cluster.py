"""Jobs for other processes, with executors of the standard library; and a real Dask cluster where Dask is installed."""

from __future__ import annotations

import os
import signal
import sys
import weakref
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from graders.core.errors import NotInstalled
from graders.core.results import Status, SubmissionStatus
from graders.instructor import cluster
from graders.instructor.request import BadRequest
from graders.marking.questions import Questions
from graders.report import results_json
from graders.sandbox.outside import memory
from graders.sandbox.outside.run_options import RunOptions
from graders.submissions.finding import Submission
from tests import notebooks
from tests.batches import batch, graded
from tests.notebooks import LESSON
from tests.trouble import are_gone

TERMS = RunOptions(own_work=True)


class Here(Executor):
    """Runs nothing: answers as a worker that gives full marks, or that has died."""

    def submit(self, function: object, student: str, lesson: str, *rest: object) -> Future[object]:  # type: ignore[override]
        assert function is cluster.mark_in_worker
        future: Future[object] = Future()
        if student == "bob":
            future.set_exception(RuntimeError("KilledWorker"))
        else:
            (data,) = results_json.batch_to_data(batch(graded(student, lesson=lesson)))["submissions"]
            future.set_result(data)
        return future


def hand_in(folder: Path, *students: str) -> list[Submission]:
    """Submissions with a right answer to one exercise."""
    found = []
    for student in students:
        file = folder / f"{student}.ipynb"
        file.write_text(notebooks.text("import torch", notebooks.CHAIN))
        found.append(Submission(student, LESSON, file))
    return found


def test_every_notebook_has_one_result_and_what_no_worker_can_mark_is_not_graded(tmp_path: Path) -> None:
    chosen = [*hand_in(tmp_path, "ann", "bob"), Submission("cy", LESSON, None), Submission("di", LESSON, tmp_path)]
    found = dict(cluster.mark_on_cluster(Here(), chosen, Questions(7), TERMS, "D"))
    statuses = {submission.student: result.status.value for submission, result in found.items()}
    assert statuses == {"ann": "graded", "bob": "not-graded"}
    assert found[chosen[0]].file == str(tmp_path / "ann.ipynb")
    assert "No worker could mark it: RuntimeError: KilledWorker" in found[chosen[1]].message


def test_what_is_marked_is_let_go_so_that_no_worker_marks_it_again(tmp_path: Path) -> None:
    given: list[weakref.ref[Future[object]]] = []

    class Remembers(Here):
        def submit(self, function: object, *job: Any) -> Future[object]:  # type: ignore[override]
            future = super().submit(function, *job)
            given.append(weakref.ref(future))
            return future

    marked = cluster.mark_on_cluster(Remembers(), hand_in(tmp_path, "ann", "cy", "di"), Questions(7), TERMS, "D")
    held = [sum(future() is not None for future in given) for _ in marked]
    assert held == [3, 2, 1]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nowhere.json", "No Dask scheduler answers at nowhere.json: missing port number"),
        ("tls://127.0.0.1:1", "wants keys"),
        ("carrier://pigeon:1", "unknown address scheme"),
    ],
)
def test_a_wrong_address_is_told_at_once(address: str, says: str) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    with pytest.raises(BadRequest, match=says), cluster.dask_executor(address):
        pass


@pytest.mark.parametrize("content", ["", "no JSON", "[]", "{}"])
def test_a_file_that_no_scheduler_wrote_is_refused(tmp_path: Path, content: str) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    with (
        pytest.raises(BadRequest, match=r"scheduler\.json is not the file of a Dask scheduler"),
        cluster.dask_executor(str(file)),
    ):
        pass


def test_a_job_can_be_marked_in_another_process(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        found = dict(cluster.mark_on_cluster(executor, hand_in(tmp_path, "ann"), Questions(7), TERMS, "D"))
    (result,) = found.values()
    assert result.status is SubmissionStatus.GRADED, result.message
    assert {exercise.key for exercise in result.exercises if exercise.status is Status.PASSED} == {"01-chain-grads"}


def test_without_dask_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotInstalled, match=r"'\.\[cluster\]'"), cluster.dask_executor("tcp://127.0.0.1:1"):
        pass


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost_or_marked_twice(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    students = [f"s{number}" for number in range(6)]
    told: list[str] = []
    family: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local,
        cluster.dask_executor(local.scheduler_address) as executor,
        distributed.Client(local.scheduler_address, set_as_default=False) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        for submission, result in cluster.mark_on_cluster(
            executor, hand_in(tmp_path, *students), Questions(7), TERMS, "D"
        ):
            if not told:
                family.extend(memory.process_tree(victim))
                os.kill(victim, signal.SIGKILL)
            told.append(f"{submission.student} {result.status.value}")
    assert sorted(told) == [f"{student} graded" for student in students]
    assert are_gone(family)
