"""All files of `--out`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graders.core.files import write_atomically
from graders.core.results import Batch
from graders.report import class_page, feedback, gradebook, results_json
from graders.report.names import file_names
from graders.report.similar import Pair
from graders.report.titles import Titles


def write(batch: Batch, out: Path, titles: Titles, similar: Sequence[Pair] = ()) -> list[Path]:
    """Write the results, the gradebook and the pages; the paths that a person would open. Raises `OSError`."""
    # The data first: whatever happens to the pages, they can be made again from it.
    write_atomically(out / "results.json", results_json.render(batch), below=out)
    write_atomically(out / "gradebook.csv", gradebook.render(batch), below=out)
    folders = file_names(submission.student for submission in batch.submissions)
    for submission in batch.submissions:
        page = out / "feedback" / folders[submission.student] / f"{submission.lesson}.html"
        write_atomically(page, feedback.render(submission, batch, titles), below=out)
    write_atomically(out / "class.html", class_page.render(batch, titles, folders, similar), below=out)
    return [out / "results.json", out / "gradebook.csv", out / "class.html", out / "feedback"]
