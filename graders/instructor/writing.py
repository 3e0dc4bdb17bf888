"""All files that marking leaves in `--out`, those first that cannot be made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graders.core.fences import Fences
from graders.core.results import Batch
from graders.core.roster import Roster
from graders.instructor.report_inputs import similar_answers, titles
from graders.report import outputs
from graders.report.similar import Pair
from graders.run.submissions import Submission
from graders.run.terms import Terms


def write_all(
    batch: Batch,
    out: Path,
    handed_in: Sequence[Submission],
    marked: Sequence[Submission],
    terms: Terms,
    fences: Fences,
    exports: Sequence[str] = (),
    roster: Roster | None = None,
) -> list[Path]:
    """Write them; the paths that a person would open.

    All that was `handed_in` is compared; executed notebooks are those of what was `marked` now. What fails for one
    student is said in `fences`, and the rest is written. Raises `OSError` where not even the results can be written.
    """
    shown = titles(submission.lesson for submission in batch.submissions)
    written = outputs.write_tables(batch, out, shown, fences, exports, roster)
    similar: list[Pair] = []
    with fences.around("Which answers are alike"):
        similar = similar_answers(handed_in)
    written += outputs.write_pages(batch, out, shown, fences, similar)
    if terms.keep_outputs:
        from graders.instructor import executed  # its nbformat takes 1.5 s where JupyterLab is installed

        written.append(executed.write(batch, marked, terms, out, fences))
    return written
