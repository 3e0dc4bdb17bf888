"""Noticing that a notebook was saved, by looking at it twice a second.

Looking works everywhere, on network drives, too, and a dozen files cost nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from graders.learner.folder import lesson_notebooks

State = tuple[int, int, int]
"""Modification time in nanoseconds, size in bytes, inode number: a save changes one of them."""


class SavedNotebooks:
    """The notebooks of a folder, as they were when last looked at."""

    def __init__(self, folder: Path) -> None:
        """What is there now counts as seen."""
        self.folder = folder
        self._seen = self._file_states()
        self._settled = dict(self._seen)

    def find_newly_saved(self) -> list[tuple[str, Path]]:
        """Lesson and file of each notebook that was saved since the last look and is not being written any more.

        A file counts once two looks in a row found it the same: until then somebody may still be writing it.
        """
        now = self._file_states()
        files = {file: lesson for lesson, file in lesson_notebooks(self.folder).items()}
        found = []
        for file, state in now.items():
            if state == self._seen.get(file) and state != self._settled.get(file) and file in files:
                self._settled[file] = state
                found.append((files[file], file))
        self._seen = now
        return found

    def _file_states(self) -> dict[Path, State]:
        states = {}
        for file in sorted(self.folder.glob("*.ipynb")):
            try:
                facts = os.stat(file)
            except OSError:  # replaced at this very moment; the next look finds it
                continue
            states[file] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        return states
