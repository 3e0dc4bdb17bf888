"""Tells the instructor what happened to each file of a class: on the terminal before marking, and in `files.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graders.core.files import write_atomically
from graders.core.results import Batch, SubmissionStatus
from graders.core.terminal import Terminal
from graders.report.gradebook import csv_text, safe_cell_text
from graders.submissions.finding import COUNTS, FoundSubmissions

MAX_LISTED = 12
"""Most lines of one kind that a terminal shows; `files.csv` has them all."""
CONFIRM = (
    "If all of this is as it should be, confirm it with --confirm-files: then the exit code depends on marking alone."
)


def print_file_accounts(found: FoundSubmissions, out: Terminal, *, confirmed: bool) -> None:
    """Print how the files were read, what is uncertain about them, and unless it is `confirmed`, how to confirm it."""
    if found.is_class:
        out.say(f"Read as {found.how}.", style="dim")
    out.say(*found.notes, style="dim")
    _print_list(out, "Several files for one lesson", found.choices)
    nobodys = [f"{account.file}: {account.fate}" for account in found.open_accounts if not account.student]
    _print_list(out, "Files that count for nobody", nobodys)
    left = [f"{account.student}: {account.fate} ({account.file})" for account in found.open_accounts if account.student]
    _print_list(out, "Files of no known lesson", left)
    _print_list(out, "Not certain", found.doubts)
    if not are_files_certain(found) and not confirmed:
        out.say(CONFIRM, style="yellow")


def _print_list(out: Terminal, title: str, sentences: Sequence[str]) -> None:
    if sentences:
        out.say(title, style="yellow")
        out.say(*(f"  {sentence}" for sentence in first_sentences(sentences)))


def first_sentences(sentences: Sequence[str]) -> list[str]:
    """As many as a terminal shows, and how many more there are."""
    more = len(sentences) - MAX_LISTED
    return [*sentences[:MAX_LISTED], *([f"… and {more} more: see files.csv"] if more > 0 else [])]


def are_files_certain(found: FoundSubmissions) -> bool:
    """Whether it is certain whose file each one is and which one counts; if not, the exit code is not 0."""
    return not found.doubts and not any(not account.student for account in found.open_accounts)


def write_files_csv(found: FoundSubmissions, batch: Batch, folder: Path) -> Path:
    """Write `files.csv`: for each file its student, its lesson and what became of it. Raises `OSError`.

    The results in `batch` say of a file that counts whether it could be read and marked.
    """
    troubles = {
        one.file: f"It counts, but is {one.status.value}: {one.message}"
        for one in batch.submissions
        if one.file and one.status is not SubmissionStatus.GRADED
    }
    rows = [("file", "student", "lesson", "what became of it")]
    for one in found.accounts:
        fate = troubles.get(one.file, one.fate) if one.fate == COUNTS else one.fate
        rows.append((safe_cell_text(one.file), safe_cell_text(one.student), one.lesson, safe_cell_text(fate)))
    file = folder / "files.csv"
    write_atomically(file, csv_text(rows), below=folder)
    return file
