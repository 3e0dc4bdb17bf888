"""What became of each file of a class, as an instructor reads it: before anything is marked, and in `files.csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from graders.core.files import write_atomically
from graders.core.text import clean
from graders.report.gradebook import neutral
from graders.run.submissions import Found

SHOWN = 12
"""Lines of one kind on a terminal; `files.csv` has all."""
CONFIRM = (
    "If all of this is as it should be, say so with --confirm-files: then the exit status tells of the marks alone."
)


def lines(found: Found) -> Iterator[Text]:
    """How the files were read, and what is not certain about them; nothing for what goes without saying."""
    if found.is_class:
        yield Text(f"Read as {found.how}.", "dim")
    yield from (Text(note, "dim") for note in found.notes)
    yield from _listed("Several files for one lesson", found.choices)
    yield from _listed(
        "Files that count for nobody",
        (f"{account.file}: {account.fate}" for account in found.left if not account.student),
    )
    yield from _listed(
        "Files that cannot be marked",
        (f"{clean(account.student, 40)}: {account.fate} ({account.file})" for account in found.left if account.student),
    )
    yield from _listed("Not certain", found.doubts)


def _listed(title: str, sentences: Iterable[str]) -> Iterator[Text]:
    found = list(sentences)
    if found:
        yield Text(title, "yellow")
        yield from (Text(f"  {sentence}") for sentence in found[:SHOWN])
        if len(found) > SHOWN:
            yield Text(f"  … and {len(found) - SHOWN} more: see files.csv")


def is_sure(found: Found) -> bool:
    """Whether it is certain whose each answer is and which counts: otherwise the exit status is not 0."""
    return not found.doubts and not any(not account.student for account in found.left)


def tell(found: Found, out: Console, *, confirmed: bool) -> None:
    """Print what `lines` has, and how it is confirmed."""
    for line in lines(found):
        out.print(line)
    if not is_sure(found) and not confirmed:
        out.print(Text(CONFIRM, "yellow"))


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
