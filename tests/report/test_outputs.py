from __future__ import annotations

from pathlib import Path

from graders.core.results import SubmissionStatus
from graders.report import outputs
from graders.report.titles import Titles
from tests.batches import batch, exercise, graded, ungraded


def test_every_student_has_a_folder_and_every_lesson_a_page(tmp_path: Path) -> None:
    found = batch(
        graded("../ann", exercise("01-a")),
        graded("../ann", exercise("02-a"), lesson="02_second"),
        ungraded("Bob", SubmissionStatus.MISSING),
        ungraded("bob", SubmissionStatus.UNREADABLE),
    )
    outputs.write(found, tmp_path / "out", Titles())
    files = sorted(str(file.relative_to(tmp_path / "out")) for file in tmp_path.rglob("*") if file.is_file())
    assert files == [
        "class.html",
        "feedback/Bob/01_first.html",
        "feedback/ann/01_first.html",
        "feedback/ann/02_second.html",
        "feedback/bob-2/01_first.html",
        "gradebook.csv",
        "results.json",
    ]
