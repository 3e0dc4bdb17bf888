"""Notice when a notebook was saved, by polling the files.

Polling works everywhere, even on network drives, and costs next to nothing for a dozen files.
"""

from __future__ import annotations

import os
from pathlib import Path

from graders.learner.folder import lesson_notebooks

State = tuple[int, int, int]
"""A file's modification time in nanoseconds, size in bytes and inode number: a save changes at least one of them."""


class SavedNotebooks:
    """The notebooks of a folder and their states at the last look."""

    def __init__(self, folder: Path) -> None:
        """Start with the files as they are now, which don't count as newly saved."""
        self.folder = folder
        self._seen = self._file_states()
        self._settled = dict(self._seen)

    def find_newly_saved(self) -> list[tuple[str, Path]]:
        """The lesson and file of each notebook that was saved and is no longer being written.

        A file counts once two looks in a row find it in the same state: before that, it may still be being written.
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
            except OSError:  # it is being replaced; the next look will find it
                continue
            states[file] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        return states
