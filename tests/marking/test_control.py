"""The control of a class, and what becomes of results when it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.marking.batch import Marking
from graders.marking.control import CONTROL_CELLS, ControlledRunner, mark_control, pace_factor
from graders.marking.questions import Questions
from graders.marking.setup import controlled_runner
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import BoxRunner, RunsBetweenControls, StoppingRunner, Transcript
from graders.submissions.finding import Submission
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests import notebooks
from tests.doubles import InProcessRunner, ended


def test_a_slow_machine_gets_longer_limits_within_bounds() -> None:
    seconds = (0.0, 1.0, 3.0, 4.5, 6.0, 12.0, 1000.0)
    assert [pace_factor(each, forked=False) for each in seconds] == [1, 1, 1, 1.5, 2, 4, 4]
    assert [pace_factor(each / 5, forked=True) for each in seconds] == pytest.approx([1, 1, 1, 1.5, 2, 4, 4])


def test_only_seconds_are_stretched() -> None:
    limits = Limits(cell_seconds=10, notebook_seconds=20, probe_seconds=1, memory=5)
    stretched = Limits(cell_seconds=15, notebook_seconds=30, probe_seconds=1.5, memory=5, pace=1.5)
    assert limits.at_pace(1.5) == stretched
    runner = BoxRunner(Path("modules"), "A", limits)
    assert runner.at_pace(1.5) == BoxRunner(Path("modules"), "A", stretched)


def test_the_control_comes_out_right_here(box_modules: Path) -> None:
    problem, seconds = mark_control(BoxRunner(box_modules), 7)
    assert problem == ""
    assert seconds > 0


def test_a_control_that_cannot_run_says_why(tmp_path: Path) -> None:
    trouble, _ = mark_control(BoxRunner(tmp_path), 7)
    assert trouble.startswith("the process for the notebook did not start")


def test_ones_own_work_has_no_control_and_the_work_of_others_has() -> None:
    runner = BoxRunner(Path("modules"))
    assert isinstance(controlled_runner(runner, RunOptions(own_work=True), 1), StoppingRunner)
    assert isinstance(controlled_runner(runner, RunOptions(own_work=False), 1), ControlledRunner)


@dataclass
class Machine:
    """Runs nothing but the control, whose outcomes are given: what is wrong with it, and the seconds that it takes."""

    controls: Iterator[tuple[str, float]]
    noted: list[str]
    pace: float = 1.0
    tier: str = "A"

    def at_pace(self, factor: float) -> Machine:
        return Machine(self.controls, self.noted, factor)

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        if tuple(cells) == CONTROL_CELLS:
            trouble, seconds = next(self.controls)
            frames = list(InProcessRunner().run(cells, probes).frames)
            return Transcript([*frames[: 1 if trouble else -1], ended("died", trouble, seconds)], self.tier)
        self.noted.append(f"{cells[0]} at {self.pace:g}")
        return Transcript([Frame({"type": "ready"}), Frame({"type": "cells-done"}), ended()], self.tier, self.pace)

    def confirm_runs(self) -> None:
        raise AssertionError("the control is what confirms")

    def stop(self) -> None:
        pass


class Class:
    """Five students, marked one after the other by a machine with these outcomes of its controls."""

    def __init__(self, folder: Path, *controls: tuple[str, float], every: int = 64) -> None:
        self.runs: list[str] = []
        self.controls = iter(controls)
        machine = Machine(self.controls, self.runs)
        self.marking = Marking(Questions(1), ControlledRunner(1, machine.at_pace, forked=False, every=every))
        self.submissions = []
        for name in "abcde":
            file = folder / f"{name}.ipynb"
            file.write_text(notebooks.text(name))
            self.submissions.append(Submission(name, notebooks.LESSON, file))

    def start(self) -> dict[str, str]:
        """Mark all; the status of each. Every control that was given has been marked."""
        found: list[SubmissionResult] = []
        self.marking.start(self.submissions, found.append)
        assert len(found) == 5
        assert next(self.controls, None) is None
        return {result.student: result.status.value for result in self.marking.batch().submissions}


def test_with_good_controls_all_counts(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("", 1.0), ("", 1.0))
    assert batch.start() == dict.fromkeys("abcde", "graded")
    assert sorted(batch.runs) == ["a at 1", "b at 1", "c at 1", "d at 1", "e at 1"]


def test_the_first_control_sets_the_clocks(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("", 6.0), ("", 1.0))
    batch.start()
    assert batch.runs[0] == "a at 2"
    assert batch.marking.pace == 2


def test_when_the_first_control_fails_nothing_runs(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("it broke", 1.0))
    assert batch.start() == dict.fromkeys("abcde", "not-graded")
    assert batch.marking.result(batch.submissions[0]).message == "The control notebook failed: it broke"
    assert batch.runs == []


def test_when_the_last_control_fails_nothing_counts(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("", 1.0), ("it broke", 1.0))
    assert batch.start() == dict.fromkeys("abcde", "not-graded")
    result = batch.marking.result(batch.submissions[0])
    assert (result.score, result.exercises, result.graded) == (0, (), False)
    assert "The control, a notebook with known results, failed: it broke" in result.message


def test_what_a_good_control_confirmed_stays(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("", 1.0), ("", 1.0), ("it broke", 1.0), every=2)
    assert batch.start() == dict.fromkeys("ab", "graded") | dict.fromkeys("cde", "not-graded")
    assert [run[0] for run in batch.runs] == list("abcd")


def test_a_control_comes_before_the_first_result_and_when_asked_but_none_after_one_that_failed(tmp_path: Path) -> None:
    batch = Class(tmp_path, ("", 1.0), ("it broke", 1.0))
    assert batch.marking.result(batch.submissions[0]).status.value == "graded"
    batch.marking.confirm_runs()
    assert batch.marking.result(batch.submissions[0]).status.value == "not-graded"
    batch.marking.confirm_runs()


def test_where_nothing_ran_there_is_nothing_to_confirm(tmp_path: Path) -> None:
    Class(tmp_path).marking.confirm_runs()


def test_what_is_to_be_undone_is_undone_once_whenever_it_is_said() -> None:
    between_controls, undone = RunsBetweenControls(), []
    between_controls.when_it_fails(lambda: undone.append("before"))
    between_controls.fail("it broke")
    between_controls.when_it_fails(lambda: undone.append("after"))
    assert (between_controls.trouble, undone) == ("it broke", ["before", "after"])
