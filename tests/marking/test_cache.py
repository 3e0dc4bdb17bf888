"""Runs kept by content: what is run again and what is not."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.marking.batch import Marking
from graders.marking.cache import (
    RunCache,
    Unkept,
    installed_versions,
    run_key,
    transcript_from_bytes,
    transcript_to_bytes,
)
from graders.marking.cached_runner import CachedRunner
from graders.marking.questions import Questions
from graders.marking.setup import set_up_marking
from graders.sandbox.outside.box_modules import box_modules_version
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import NoRunner, Transcript
from graders.submissions.finding import Submission
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests.doubles import InProcessRunner, NoBoxes, ended
from tests.make_class import SETUP, hand_in
from tests.notebooks import LESSON, LESSON_1

CELLS = [SETUP, *(answers[0] for answers in LESSON_1.right.values())]
TERMS = RunOptions(isolation="D", own_work=True)


@dataclass
class Out:
    """One folder of results, into which batches are marked one after the other."""

    folder: Path
    runner: InProcessRunner

    def mark(
        self, seed: int = 1, *, fresh: bool = False, run_options: RunOptions = TERMS, **students: list[str]
    ) -> tuple[list[SubmissionResult], int]:
        """The results of these notebooks, and how many of them were run."""
        submissions = [
            Submission(name, LESSON, hand_in(self.folder / name, LESSON, cells)) for name, cells in students.items()
        ]
        return self.mark_submissions(submissions, seed, fresh=fresh, run_options=run_options)

    def mark_submissions(
        self, submissions: list[Submission], seed: int = 1, *, fresh: bool = False, run_options: RunOptions = TERMS
    ) -> tuple[list[SubmissionResult], int]:
        """The same with submissions of any kind."""
        self.runner.noted.clear()
        boxes, cache = NoBoxes(self.runner), RunCache(self.folder / "out/runs", fresh=fresh)
        batch = set_up_marking(seed, run_options, boxes, submissions, cache=cache, jobs=1)
        assert not self.runner.noted  # where they run is settled first
        batch.start(submissions, lambda _: None)
        batch.close()
        assert bool(boxes.run_options) == bool(self.runner.noted)
        # The files differ in the ids of their cells, which do not matter.
        return [replace(result, sha256="") for result in batch.batch().submissions], len(self.runner.noted)


@pytest.fixture
def out(tmp_path: Path) -> Out:
    return Out(tmp_path, InProcessRunner("D"))


def test_marking_again_runs_nothing_and_comes_out_equal(out: Out) -> None:
    first, runs = out.mark(ada=CELLS, ben=CELLS[:2])
    assert runs == 2
    assert out.mark(ada=CELLS, ben=CELLS[:2]) == (first, 0)
    assert [result.score for result in first] == [4.0, 1.0]


def test_what_is_kept_and_what_cannot_be_read_have_the_tier_that_is_chosen_last(out: Out) -> None:
    out.mark(ada=CELLS)
    (out.folder / "broken.ipynb").write_text("")
    files = {"broken": out.folder / "broken.ipynb", "ada": hand_in(out.folder / "ada", LESSON, CELLS),
             "ben": hand_in(out.folder / "ben", LESSON, CELLS[:2])}  # fmt: skip
    results, runs = out.mark_submissions([Submission(name, LESSON, file) for name, file in files.items()])
    assert runs == 1
    found = {result.student: (result.status.value, result.isolation, result.score) for result in results}
    assert found == {"broken": ("unreadable", "D", 0.0), "ada": ("graded", "D", 4.0), "ben": ("graded", "D", 1.0)}


def test_a_new_submission_costs_one_run_and_an_equal_one_none(out: Out) -> None:
    out.mark(ada=CELLS)
    results, runs = out.mark(ada=CELLS, ben=CELLS[:2], cleo=CELLS)
    assert runs == 1
    assert [exercise.score for exercise in results] == [4.0, 1.0, 4.0]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"fresh": True},
        {"run_options": replace(TERMS, limits=Limits(probe_seconds=59.0))},
        {"run_options": replace(TERMS, isolation="B")},
    ],
    ids=["seed", "fresh", "limits", "tier"],
)
def test_what_decides_over_a_run_makes_it_run_again(out: Out, change: dict[str, Any]) -> None:
    out.mark(ada=CELLS[:2])
    assert out.mark(ada=CELLS[:2], **change)[1] == 1


def first_and_last(raw: bytes) -> bytes:
    label, *_, last = transcript_from_bytes(raw)
    return raw[:32] + transcript_to_bytes([label, last])[32:]


def with_another_bit(raw: bytes) -> bytes:
    return raw[:-40] + bytes([raw[-40] ^ 1]) + raw[-39:]


@pytest.mark.parametrize(
    "damage",
    [lambda raw: b"", lambda raw: raw[:-3], lambda raw: raw + b"\0", first_and_last, with_another_bit],
    ids=["empty", "cut", "longer", "first and last", "a bit"],
)
def test_a_damaged_file_is_run_again(out: Out, damage: Callable[[bytes], bytes]) -> None:
    first, _ = out.mark(ada=CELLS[:2])
    (file,) = (out.folder / "out/runs").glob("*.frames")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert file.read_bytes() != whole
    again, runs = out.mark(ada=CELLS[:2])
    assert (first[0].score, again[0].score, runs) == (1.0, 1.0, 1)
    assert file.read_bytes() == whole


def test_the_code_the_questions_and_the_limits_name_a_run() -> None:
    names = {
        run_key(["x"], "q", Limits()), run_key(["x", ""], "q", Limits()), run_key(["x"], "r", Limits()),
        run_key(["x"], "q", Limits(memory=1)), run_key(["\ud800"], "q", Limits()),
        run_key(["x"], "q", Limits(), keep_outputs=True), run_key(["x"], "q", Limits(), versions=("2.13.0", "3.11.7")),
    }  # fmt: skip
    assert len(names) == 7
    assert run_key(["x"], "q", Limits()) in names
    assert installed_versions() == (torch.__version__, platform.python_version(), box_modules_version())


def test_a_batch_keeps_its_seed_until_a_fresh_one(tmp_path: Path) -> None:
    assert RunCache(tmp_path).batch_seed(5) == 5
    assert RunCache(tmp_path).batch_seed(6) == 5
    assert RunCache(tmp_path, fresh=True).batch_seed(7) == 7
    assert RunCache(tmp_path).batch_seed(8) == 7
    for nonsense in ("nonsense", "-1", str(2**53), "9" * 5000, ""):
        (tmp_path / "seed").write_text(nonsense)
        assert RunCache(tmp_path).batch_seed(9) == 9


def test_a_folder_without_runs_is_empty(tmp_path: Path) -> None:
    kept = RunCache(tmp_path / "runs")
    assert kept.is_empty
    kept.keep("a" * 32, "D", [])
    assert not kept.is_empty
    assert RunCache(tmp_path / "runs", fresh=True).is_empty


def test_where_nothing_is_run_nothing_counts(out: Out) -> None:
    batch = Marking(Questions(1), NoRunner())
    result = batch.result(Submission("ada", LESSON, hand_in(out.folder / "ada", LESSON, CELLS)))
    batch.close()
    assert (result.status, result.isolation) == (SubmissionStatus.NOT_GRADED, "")
    assert "its run is not in the cache" in result.message


def test_a_run_that_does_not_count_is_forgotten(tmp_path: Path) -> None:
    cache = RunCache(tmp_path / "runs")
    runner = CachedRunner(cache, TERMS, InProcessRunner("D"))
    kept, doubtful = runner.run(["x = 1"], []), runner.run(["y = 1"], [])
    doubtful.between_controls.fail("the control broke")
    asked = InProcessRunner("D")
    again = CachedRunner(cache, TERMS, asked)
    assert again.run(["x = 1"], []) == kept
    again.run(["y = 1"], [])
    assert asked.noted == [["y = 1"]]


def test_a_run_that_lacked_a_package_counts_until_the_package_is_installed(tmp_path: Path) -> None:
    cache, ending = RunCache(tmp_path / "runs"), ended()
    lacking = {"absent": "no_such_package", "installed": "pytest", "ours": "tests", "part": "torch.x"}
    for name, module in lacking.items():
        cache.keep(name, "D", [Frame({"type": "cell", "cell": 0, "modules": module}), ending])
    found = {name: cache.find(name, "D") is not None for name in lacking}
    assert found == {"absent": True, "installed": False, "ours": True, "part": True}


def test_what_did_not_start_is_not_kept(tmp_path: Path) -> None:
    class NotStarting(InProcessRunner):
        def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
            return replace(super().run(cells, probes), frames=[ended("not-started")])

    runner = NotStarting()
    for _ in range(2):
        CachedRunner(RunCache(tmp_path / "runs"), TERMS, runner).run(["x = 1"], [])
    assert len(runner.noted) == 2


def poisoned(folder: Path, how: str) -> None:
    """What another user, or a notebook that got out, may do to a kept run of somebody else's work."""
    good, wanted = folder / "good.A.frames", folder / "wanted.A.frames"
    match how:
        case "moved":
            good.rename(wanted)
        case "linked":
            wanted.symlink_to(good)
        case "hard-linked":
            wanted.hardlink_to(good)
        case "writable":
            RunCache(folder).keep("wanted", "A", KEPT)
            wanted.chmod(0o666)
        case "another user's":
            RunCache(folder).keep("wanted", "A", KEPT)
            if os.geteuid() == 0:
                os.chown(wanted, 12345, 12345)
            else:
                wanted.chmod(0o664)
        case "a pipe":
            os.mkfifo(wanted)
        case "a linked folder":
            RunCache(folder).keep("wanted", "A", KEPT)
            folder.rename(folder.with_name("elsewhere"))
            folder.symlink_to(folder.with_name("elsewhere"))


KEPT = [Frame({"type": "ready"}), ended()]


@pytest.mark.parametrize(
    "how", ["moved", "linked", "hard-linked", "writable", "another user's", "a pipe", "a linked folder"]
)
def test_a_run_that_does_not_verify_is_not_used(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "out/runs"
    RunCache(folder).keep("good", "A", KEPT)
    assert RunCache(folder).find("good", "A") == ("A", KEPT)
    poisoned(folder, how)
    assert RunCache(folder).find("wanted", "A") is None


def test_a_planted_seed_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "out/runs"
    folder.mkdir(parents=True)
    (folder / "seed").write_text("5")
    (folder / "seed").chmod(0o666)
    assert RunCache(folder).batch_seed(6) == 6
    (tmp_path / "elsewhere").write_text("7")
    (folder / "seed").unlink()
    (folder / "seed").symlink_to(tmp_path / "elsewhere")
    assert RunCache(folder).batch_seed(8) == 8
    assert (tmp_path / "elsewhere").read_text() == "7"


def test_nothing_is_kept_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/runs").symlink_to(tmp_path / "elsewhere")
    cache = RunCache(tmp_path / "out/runs")
    with pytest.raises(Unkept, match=r"out/runs should hold the runs of notebooks, but is a link\. Move it"):
        cache.check_folder()
    cache.keep("good", "A", KEPT)
    assert "runs is a link or not a folder" in cache.trouble
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_that_cannot_be_kept_counts_and_it_is_said(out: Out) -> None:
    (out.folder / "out").mkdir()
    (out.folder / "out/runs").write_text("mine")
    cache = RunCache(out.folder / "out/runs")
    with pytest.raises(Unkept, match="but is not a folder"):
        cache.check_folder()
    results, runs = out.mark(ada=CELLS)
    assert (results[0].status, results[0].score, runs) == (SubmissionStatus.GRADED, 4.0, 1)
    cache.keep("good", "A", KEPT)
    assert cache.trouble.startswith(f"Runs could not be kept in {out.folder / 'out/runs'}: ")
    assert (out.folder / "out/runs").read_text() == "mine"
