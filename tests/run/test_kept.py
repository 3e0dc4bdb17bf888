"""Runs kept by content: what is run again and what is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.marking import batch as marking_module
from graders.marking.batch import Marking
from graders.run.kept import KeptRuns, run_name
from graders.run.selftest import Choice
from graders.run.submissions import Submission
from graders.run.warm import WarmProcess
from graders.wire.frames import Frame
from graders.wire.limits import Limits
from tests.answers import answers_of
from tests.make_class import SETUP, hand_in

LESSON_1 = answers_of("01")

LESSON = "01_where_gradients_live"
CELLS = [SETUP, *(answers[0] for answers in LESSON_1.right.values())]
AMPLE = Limits(probe_seconds=60.0)


@dataclass
class Out:
    """One folder of results, into which batches are marked one after the other."""

    folder: Path
    kit: Path
    warm: WarmProcess
    runs: list[object]

    def mark(
        self, seed: int = 1, *, fresh: bool = False, limits: Limits = AMPLE, accepted: tuple[str, ...] = ("D",),
        **students: list[str],
    ) -> tuple[list[SubmissionResult], int]:  # fmt: skip
        """The results of these notebooks, and how many of them were run."""
        self.runs.clear()
        kept = KeptRuns(self.folder / "out/runs", fresh=fresh)
        batch = Marking(seed, limits, 1, self.kit, kept, tier="D", warm=self.warm, accepted=accepted)
        submissions = [
            Submission(name, LESSON, hand_in(self.folder / name, LESSON, cells)) for name, cells in students.items()
        ]
        has_to_run = batch.has_to_run(submissions)
        batch.start(submissions, lambda _: None)
        batch.close()
        assert has_to_run == bool(self.runs)
        # The files differ in the ids of their cells, which do not matter.
        return [replace(one, sha256="") for one in batch.batch().submissions], len(self.runs)


@pytest.fixture
def out(tmp_path: Path, kit: Path, warm: WarmProcess, monkeypatch: pytest.MonkeyPatch) -> Out:
    made = Out(tmp_path, kit, warm, [])
    run = marking_module.run_notebook

    def counted(cells: object, *rest: object, **options: object) -> list[Frame]:
        made.runs.append(cells)
        return run(cells, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(marking_module, "run_notebook", counted)
    return made


def test_marking_again_runs_nothing_and_comes_out_equal(out: Out) -> None:
    first, runs = out.mark(ada=CELLS, ben=CELLS[:2])
    assert runs == 2
    assert out.mark(ada=CELLS, ben=CELLS[:2]) == (first, 0)
    assert [one.score for one in first] == [4.0, 1.0]


def test_what_is_kept_and_what_cannot_be_read_have_the_tier_that_is_chosen_last(out: Out) -> None:
    out.mark(ada=CELLS)
    (out.folder / "broken.ipynb").write_text("")
    files = {"broken": out.folder / "broken.ipynb", "ada": hand_in(out.folder / "ada", LESSON, CELLS),
             "ben": hand_in(out.folder / "ben", LESSON, CELLS[:2])}  # fmt: skip
    submissions = [Submission(name, LESSON, file) for name, file in files.items()]
    out.runs.clear()
    batch = Marking(1, AMPLE, 1, out.kit, KeptRuns(out.folder / "out/runs"), None, accepted=("D",))
    assert batch.has_to_run(submissions)
    assert not out.runs
    batch.run_in(Choice("D", out.warm))
    batch.start(submissions, lambda _: None)
    batch.close()
    assert len(out.runs) == 1
    found = {one.student: (one.status.value, one.isolation, one.score) for one in batch.batch().submissions}
    assert found == {"broken": ("unreadable", "D", 0.0), "ada": ("graded", "D", 4.0), "ben": ("graded", "D", 1.0)}


def test_a_new_submission_costs_one_run_and_an_equal_one_none(out: Out) -> None:
    out.mark(ada=CELLS)
    results, runs = out.mark(ada=CELLS, ben=CELLS[:2], cleo=CELLS)
    assert runs == 1
    assert [one.score for one in results] == [4.0, 1.0, 4.0]


@pytest.mark.parametrize(
    "change",
    [{"seed": 2}, {"fresh": True}, {"limits": replace(AMPLE, probe_seconds=59.0)}, {"accepted": ("A", "B")}],
    ids=["seed", "fresh", "limits", "tier"],
)
def test_what_decides_over_a_run_makes_it_run_again(out: Out, change: dict[str, Any]) -> None:
    out.mark(ada=CELLS[:2])
    assert out.mark(ada=CELLS[:2], **change)[1] == 1


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "cut"])
def test_a_damaged_file_is_run_again(out: Out, damage: bytes | None) -> None:
    first, _ = out.mark(ada=CELLS[:2])
    (file,) = (out.folder / "out/runs").glob("*.frames")
    file.write_bytes(file.read_bytes()[:-3] if damage is None else damage)
    again, runs = out.mark(ada=CELLS[:2])
    assert (first[0].score, again[0].score, runs) == (1.0, 1.0, 1)


def test_the_code_the_questions_and_the_limits_name_a_run() -> None:
    names = {
        run_name(["x"], "q", Limits()), run_name(["x", ""], "q", Limits()), run_name(["x"], "r", Limits()),
        run_name(["x"], "q", Limits(memory=1)), run_name(["\ud800"], "q", Limits()),
    }  # fmt: skip
    assert len(names) == 5
    assert run_name(["x"], "q", Limits()) in names


def test_a_batch_keeps_its_seed_until_a_fresh_one(tmp_path: Path) -> None:
    assert KeptRuns(tmp_path).seed(5) == 5
    assert KeptRuns(tmp_path).seed(6) == 5
    assert KeptRuns(tmp_path, fresh=True).seed(7) == 7
    assert KeptRuns(tmp_path).seed(8) == 7
    (tmp_path / "seed").write_text("nonsense")
    assert KeptRuns(tmp_path).seed(9) == 9


def test_a_folder_without_runs_is_empty(tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path / "runs")
    assert kept.empty
    kept.keep("a" * 32, "D", [])
    assert not kept.empty
    assert KeptRuns(tmp_path / "runs", fresh=True).empty


def test_without_a_tier_nothing_runs_and_nothing_counts(out: Out) -> None:
    batch = Marking(1, AMPLE, 1, out.kit, None, tier=None)
    submission = Submission("ada", LESSON, hand_in(out.folder / "ada", LESSON, CELLS))
    assert batch.result(submission).status is SubmissionStatus.NOT_GRADED
    batch.close()
    batch = Marking(1, AMPLE, 1, out.kit, None, tier=None)
    batch.run_in(Choice("D", out.warm))
    assert batch.result(submission).score == 4.0
    batch.close()
