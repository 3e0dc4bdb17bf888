"""What became of each file of a class, as an instructor reads it: before anything is marked, and in `files.csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from graders.core.files import write_atomically
from graders.core.terminal import Terminal
from graders.report.gradebook import neutral
from graders.run.submissions import Found

SHOWN = 12
"""Lines of one kind on a terminal; `files.csv` has all."""
CONFIRM = (
    "If all of this is as it should be, say so with --confirm-files: then the exit status tells of the marks alone."
)


def tell(found: Found, out: Terminal, *, confirmed: bool) -> None:
    """Print how the files were read, and what is not certain about them, with how it is confirmed."""
    if found.is_class:
        out.say(f"Read as {found.how}.", style="dim")
    out.say(*found.notes, style="dim")
    _list(out, "Several files for one lesson", found.choices)
    nobodys = [f"{account.file}: {account.fate}" for account in found.left if not account.student]
    _list(out, "Files that count for nobody", nobodys)
    left = [f"{account.student}: {account.fate} ({account.file})" for account in found.left if account.student]
    _list(out, "Files of no known lesson", left)
    _list(out, "Not certain", found.doubts)
    if not is_sure(found) and not confirmed:
        out.say(CONFIRM, style="yellow")


def _list(out: Terminal, title: str, sentences: Sequence[str]) -> None:
    if sentences:
        out.say(title, style="yellow")
        out.say(*(f"  {sentence}" for sentence in sentences[:SHOWN]))
        if len(sentences) > SHOWN:
            out.say(f"  … and {len(sentences) - SHOWN} more: see files.csv")


def is_sure(found: Found) -> bool:
    """Whether it is certain whose each answer is and which counts: otherwise the exit status is not 0."""
    return not found.doubts and not any(not account.student for account in found.left)


def write(found: Found, folder: Path) -> Path:
    """Write `files.csv`: each file, whose it is, for which lesson, and what became of it. Raises `OSError`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "student", "lesson", "what became of it"])
    for account in found.accounts:
        writer.writerow([neutral(account.file), neutral(account.student), account.lesson, neutral(account.fate)])
    file = folder / "files.csv"
    write_atomically(file, text.getvalue(), below=folder)
    return file
