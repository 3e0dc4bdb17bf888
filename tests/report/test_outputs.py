from __future__ import annotations

from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.files import read_own_file, write_atomically
from graders.core.results import Batch, SubmissionStatus
from graders.instructor.exporting import write_exports
from graders.instructor.request import Request
from graders.report import outputs
from graders.report.exports import EXPORTS
from graders.report.titles import Titles
from tests.batches import batch, exercise, graded, ungraded

PAGES = {
    "class.html",
    "feedback/Bob/01_first.html",
    "feedback/ann/01_first.html",
    "feedback/ann/02_second.html",
    "feedback/bob-2/01_first.html",
}
FOUND = batch(
    graded("../ann", exercise("01-a")),
    graded("../ann", exercise("02-a"), lesson="02_second"),
    ungraded("Bob", SubmissionStatus.MISSING),
    ungraded("bob", SubmissionStatus.UNREADABLE),
)


def write(found: Batch, out: Path, *exports: str) -> FileNotes:
    file_notes = FileNotes()
    outputs.write_tables(found, out, file_notes)
    request = Request(where=out, out=out, exports=exports)
    write_exports(request, found, Titles(), {submission.lesson for submission in found.submissions}, file_notes)
    outputs.write_pages(found, out, Titles(), file_notes)
    return file_notes


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and not file.is_symlink()}


def test_every_student_has_a_folder_and_every_lesson_a_page(tmp_path: Path) -> None:
    file_notes = write(FOUND, tmp_path / "out")
    assert files(tmp_path / "out") == {"results.json", "gradebook.csv", *PAGES}
    assert (file_notes.failed, file_notes.notes) == (False, [])


def test_what_is_in_the_way_of_one_file_costs_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "elsewhere").mkdir()
    (out / "feedback").mkdir(parents=True)
    (out / "feedback/ann").symlink_to(tmp_path / "elsewhere")
    for name in ("gradebook.csv", "class.html", "canvas.csv", "gradescope/Bob/results.json"):
        (out / name / "a folder").mkdir(parents=True)
    file_notes = write(FOUND, out, *EXPORTS)
    assert files(tmp_path) == {
        "out/results.json",
        "out/moodle/01_first.csv",
        "out/moodle/02_second.csv",
        "out/gradescope/ann/results.json",
        "out/gradescope/bob-2/results.json",
        *(f"out/{page}" for page in PAGES if "ann" not in page and page != "class.html"),
    }
    assert file_notes.failed
    assert [note.partition(" was not written: ")[0] for note in file_notes.notes] == [
        str(out / name)
        for name in ("gradebook.csv", "canvas.csv", "gradescope/Bob/results.json", "feedback/ann/01_first.html",
                     "feedback/ann/02_second.html", "class.html")
    ]  # fmt: skip


def test_whatever_lesson_results_name_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    file_notes = write(batch(graded("ann"), graded("bob")), tmp_path / "a/b/out")
    assert not file_notes.failed
    found = batch(graded("ann", lesson="../../../x"), graded("bob"))
    file_notes = FileNotes()
    outputs.write_pages(found, tmp_path / "a/b/out", Titles(), file_notes)
    assert [note.partition(": ")[2] for note in file_notes.notes] == [
        f"it leads out of {tmp_path / 'a/b/out'}, so it was not written."
    ]
    assert not list(tmp_path.rglob("x.html"))


def test_the_folder_that_was_asked_for_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "out/feedback/a.html", "new", below=tmp_path / "out")
    assert read_own_file(tmp_path / "real/feedback/a.html") == b"new"
    assert [path.name for path in (tmp_path / "real/feedback").iterdir()] == ["a.html"]
