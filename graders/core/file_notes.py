"""Keep writing when one file fails: the failure is noted, and everyone else's files are still written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graders.core.text import clean_text

SHOWN = 20
"""The most notes that are shown."""


class FileNotes:
    """Notes for a person about files, in the order in which they were made."""

    def __init__(self) -> None:
        """Start without notes."""
        self._notes: list[str] = []
        self.failed = False
        """Whether a file that should have been written was not."""

    def note(self, text: str) -> None:
        """Add something that a person should know but that is not a failure."""
        self._notes.append(clean_text(text, 1000))

    @contextmanager
    def noting_failure(self, what: Path | str) -> Iterator[None]:
        """Catch any exception inside, and note that `what` was not written and why."""
        try:
            yield
        except Exception as error:
            self.failed = True
            self.note(f"{what} was not written: {_failure_reason(error)}.")

    @property
    def notes(self) -> list[str]:
        """The first notes, one line each, and a line that counts the rest if there are more than `SHOWN`."""
        more = len(self._notes) - SHOWN
        return self._notes[:SHOWN] + ([f"… and {more} more like these."] if more > 0 else [])


def _failure_reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return f"{type(error).__name__}: {clean_text(error)}"
