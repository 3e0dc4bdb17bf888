"""Writes the reports of a marked class to `--out`: the pages, `files.csv`, and the executed notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.results import Batch
from graders.instructor import accounts
from graders.instructor.report_inputs import similar_answers
from graders.report import outputs
from graders.report.similar import SimilarPair
from graders.report.titles import Titles
from graders.sandbox.outside.run_options import RunOptions
from graders.submissions.finding import FoundSubmissions, Submission


def write_reports(
    batch: Batch,
    out: Path,
    titles: Titles,
    handed_in: Sequence[Submission],
    marked: Sequence[Submission],
    run_options: RunOptions,
    file_notes: FileNotes,
    found: FoundSubmissions | None,
) -> list[Path]:
    """Write the pages, the executed notebooks and `files.csv`; returns the paths that people would open.

    Similar answers are looked for among all that was `handed_in`, while only notebooks `marked` just now are written
    executed. `found` is None in a regrade, which leaves `files.csv` as it is. A failure for one student goes into
    `file_notes`, and the rest is written.
    """
    similar: list[SimilarPair] = []
    with file_notes.noting_failure("Which answers are alike"):
        similar = similar_answers(handed_in)
    written = outputs.write_pages(batch, out, titles, file_notes, similar)
    if found and found.accounts:
        with file_notes.noting_failure(out / "files.csv"):
            written.append(accounts.write_files_csv(found, batch, out))
    if run_options.keep_outputs:
        from graders.instructor import executed  # its nbformat takes 1.5 s where JupyterLab is installed

        written.append(executed.write_executed(batch, marked, run_options, out, file_notes))
    return written
