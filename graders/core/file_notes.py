"""Writing for many people: what goes wrong with the files of one is said, and those of all others are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graders.core.text import clean_text

SHOWN = 20


class FileNotes:
    """What has to be said about files, in the order in which it happened."""

    def __init__(self) -> None:
        """So far nothing."""
        self._notes: list[str] = []
        self.failed = False
        """Whether something is missing that should have been written."""

    def note(self, text: str) -> None:
        """Say something that a person should know, and that is no failure."""
        self._notes.append(clean_text(text, 1000))

    @contextmanager
    def noting_failure(self, what: Path | str) -> Iterator[None]:
        """Whatever fails inside ends here, and it is said that `what` was not written, and why."""
        try:
            yield
        except Exception as error:
            self.failed = True
            self.note(f"{what} was not written: {_failure_reason(error)}.")

    @property
    def notes(self) -> list[str]:
        """The first of what there is to say, a line each, and how much more there is."""
        more = len(self._notes) - SHOWN
        return self._notes[:SHOWN] + ([f"… and {more} more like these."] if more > 0 else [])


def _failure_reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return f"{type(error).__name__}: {clean_text(error)}"
