"""Write the files with results into the folder of `--out`: tables and pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.files import remove_below, write_atomically
from graders.core.results import Batch
from graders.report import class_page, feedback, gradebook, results_json
from graders.report.names import file_names
from graders.report.similar import SimilarPair
from graders.report.titles import Titles


def write_tables(batch: Batch, out: Path, file_notes: FileNotes) -> list[Path]:
    """Write the results and the gradebook, and return the paths that a person would open.

    Raises `OSError` only if the results cannot be written; everything else can be made again from them.
    """
    write_atomically(out / "results.json", results_json.render(batch), below=out)
    with file_notes.noting_failure(out / "gradebook.csv"):
        write_atomically(out / "gradebook.csv", gradebook.render(batch), below=out)
    return [out / "results.json", out / "gradebook.csv"]


def write_pages(
    batch: Batch, out: Path, titles: Titles, file_notes: FileNotes, similar: Sequence[SimilarPair] = ()
) -> list[Path]:
    """Write a page for each submission and one for the class, and return the paths that a person would open."""
    folders = file_names(submission.student for submission in batch.submissions)
    for submission in batch.submissions:
        page = out / "feedback" / folders[submission.student] / f"{submission.lesson}.html"
        with file_notes.noting_failure(page):
            write_atomically(page, feedback.render(submission, batch, titles), below=out)
    with file_notes.noting_failure(out / "class.html"):
        write_atomically(out / "class.html", class_page.render(batch, titles, folders, similar), below=out)
    return [out / "class.html", out / "feedback"]


def remove_old_pages(before: Batch, batch: Batch, out: Path, file_notes: FileNotes) -> None:
    """Remove the files of students that belong to none of the results any more.

    Their student was taken out, or has another name or folder now. What is no file of ours stays.
    """
    for inner in sorted(_files_of_students(before) - _files_of_students(batch)):
        try:
            remove_below(out, inner)
        except OSError as error:
            file_notes.note(f"{out / inner} is out of date, and could not be removed: {error.strerror}.")


def _files_of_students(batch: Batch) -> set[Path]:
    folders = file_names(submission.student for submission in batch.submissions)
    return {
        path
        for submission in batch.submissions
        for folder in [folders[submission.student]]
        for path in (
            Path("feedback", folder, f"{submission.lesson}.html"),
            Path("executed", folder, f"{submission.lesson}.ipynb"),
            Path("gradescope", folder, "results.json"),
        )
    }
