"""The control of a class, and what becomes of results when it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.marking import batch as marking
from graders.marking.batch import Marking
from graders.marking.control import control, scaled, slowness
from graders.run.submissions import Submission
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests import notebooks


def test_a_slow_machine_gets_longer_limits_within_bounds() -> None:
    seconds = (0.0, 1.0, 3.0, 4.5, 6.0, 12.0, 1000.0)
    assert [slowness(one, warm=False) for one in seconds] == [1, 1, 1, 1.5, 2, 4, 4]
    assert [slowness(one / 5, warm=True) for one in seconds] == pytest.approx([1, 1, 1, 1.5, 2, 4, 4])


def test_only_seconds_are_scaled() -> None:
    assert scaled(Limits(cell_seconds=10, notebook_seconds=20, probe_seconds=1, memory=5), 1.5) == Limits(
        cell_seconds=15, notebook_seconds=30, probe_seconds=1.5, memory=5, pace=1.5
    )


def test_the_control_comes_out_right_here(kit: Path) -> None:
    problem, seconds = control(7, Limits(), kit, "D")
    assert problem == ""
    assert seconds > 0


def test_a_control_that_cannot_run_says_why(tmp_path: Path) -> None:
    assert control(7, Limits(), tmp_path, "D")[0].startswith("the process for the notebook did not start")


@pytest.fixture
def gate() -> threading.Semaphore:
    """Lets as many notebooks run as each control releases."""
    return threading.Semaphore(0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, gate: threading.Semaphore) -> list[str]:
    """Notes each notebook instead of running it."""
    noted: list[str] = []

    def run_notebook(cells: tuple[str, ...], probes: object, limits: Limits, *_: object, **__: object) -> list[Frame]:
        gate.acquire()
        noted.append(f"{cells[0]} {limits.cell_seconds:g}")
        ended = {"type": "ended", "how": "finished", "message": "", "seconds": 1.0}
        return [Frame({"type": "ready"}), Frame({"type": "cells-done"}), Frame(ended)]

    monkeypatch.setattr(marking, "run_notebook", run_notebook)
    return noted


@pytest.fixture
def mark_class(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gate: threading.Semaphore
) -> Iterator[Callable[..., tuple[Marking, list[Submission]]]]:
    """Marks a class of five, with these outcomes of the controls, one after the other."""
    made: list[Marking] = []

    def mark(controls: list[tuple[str, float]], at_a_time: int = 5) -> tuple[Marking, list[Submission]]:
        outcomes = iter(controls)

        def next_control(*_: object) -> tuple[str, float]:
            gate.release(at_a_time)
            return next(outcomes)

        monkeypatch.setattr(marking, "control", next_control)
        submissions = []
        for name in "abcde":
            file = tmp_path / f"{name}.ipynb"
            file.write_text(notebooks.text(name))
            submissions.append(Submission(name, notebooks.LESSON, file))
        made.append(Marking(1, Limits(), 1, tmp_path, controlled=True))
        made[-1].start(submissions, lambda _: None)
        assert next(outcomes, None) is None
        return made[-1], submissions

    yield mark
    for one in made:
        one.close()


def statuses(batch: Marking) -> dict[str, str]:
    return {one.student: one.status.value for one in batch.batch().submissions}


Mark = Callable[..., tuple[Marking, list[Submission]]]


def test_with_good_controls_all_counts(mark_class: Mark, runs: list[str]) -> None:
    batch, _ = mark_class([("", 1.0), ("", 1.0)])
    assert statuses(batch) == dict.fromkeys("abcde", "graded")
    assert sorted(runs) == ["a 60", "b 60", "c 60", "d 60", "e 60"]


def test_the_first_control_sets_the_clocks(mark_class: Mark, runs: list[str]) -> None:
    mark_class([("", 6.0), ("", 1.0)])
    assert runs[0] == "a 120"


def test_when_the_first_control_fails_nothing_runs(mark_class: Mark, runs: list[str]) -> None:
    batch, submissions = mark_class([("it broke", 1.0)])
    assert statuses(batch) == dict.fromkeys("abcde", "not-graded")
    assert batch.result(submissions[0]).message == "The control did not come out right: it broke"
    assert runs == []


def test_when_the_last_control_fails_nothing_counts(mark_class: Mark, runs: list[str]) -> None:
    batch, submissions = mark_class([("", 1.0), ("it broke", 1.0)])
    assert statuses(batch) == dict.fromkeys("abcde", "not-graded")
    result = batch.result(submissions[0])
    assert (result.score, result.exercises, result.graded) == (0, (), False)
    assert "did not come out right: it broke" in result.message


def test_what_a_good_control_confirmed_stays(
    mark_class: Mark, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "CONTROL_EVERY", 2)
    batch, _ = mark_class([("", 1.0), ("", 1.0), ("it broke", 1.0)], 2)
    counted, not_counted = dict.fromkeys("ab", "graded"), dict.fromkeys("cde", "not-graded")
    assert statuses(batch) == counted | not_counted


def test_without_start_the_control_comes_before_the_first_result_and_when_asked(
    gate: threading.Semaphore, runs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate.release()
    outcomes = iter([("", 1.0), ("it broke", 1.0)])
    monkeypatch.setattr(marking, "control", lambda *_: next(outcomes))
    file = tmp_path / "x.ipynb"
    file.write_text(notebooks.text("x"))
    batch = Marking(1, Limits(), 1, tmp_path, controlled=True)
    submission = Submission("x", notebooks.LESSON, file)
    assert batch.result(submission).status.value == "graded"
    batch.confirm()
    assert batch.result(submission).status.value == "not-graded"
    batch.confirm()  # a control is not marked again when it failed
    batch.close()


def test_one_notebook_is_marked_without_a_control(
    gate: threading.Semaphore, runs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate.release()
    monkeypatch.setattr(marking, "control", lambda *_: pytest.fail("a control was marked"))
    file = tmp_path / "x.ipynb"
    file.write_text(notebooks.text("x"))
    batch = Marking(1, Limits(), 1, tmp_path)
    found: list[SubmissionResult] = []
    batch.start([Submission("x", notebooks.LESSON, file)], found.append)
    batch.close()
    assert [one.status.value for one in found] == ["graded"]
