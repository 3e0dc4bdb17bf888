"""Lists all files below a folder or in an archive. Folders and archives are searched in the same way."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from graders.core.text import shorten_text
from graders.submissions.archives import (
    CLASS_LIMITS,
    HIDDEN,
    MAX_DEPTH,
    TOO_DEEP,
    ArchiveLimits,
    is_hidden_folder,
    is_program_trace,
    is_wanted,
    may_be_notebook,
    unpack_archive,
)
from graders.submissions.intake import is_notebook
from graders.submissions.members import BadArchive, is_archive

_ONLY_NOTEBOOKS = "Hand in the notebooks themselves."


@dataclass(frozen=True)
class Entry:
    """One file that was handed in.

    `parts` are the folders and archives above it, from the folder that is marked, and its own name; for a folder that
    cannot be entered, the name is empty. `file` is where it can be read: None if `problem` says why it cannot be, or if
    it is in an archive and is no notebook. `origin` is what reports call it. `handed_in` is in seconds since 1970.
    `notebook` says that its content is that of a notebook, although its name is not.
    """

    parts: tuple[str, ...]
    file: Path | None
    origin: str
    handed_in: float
    problem: str = ""
    notebook: bool = False

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.parts[-1]

    @property
    def counts(self) -> bool:
        """Whether it is a notebook or an archive, or something that should have been one but cannot be read."""
        return bool(self.problem) or (self.file is not None and (self.notebook or is_wanted(self.name)))

    @property
    def notebook_file(self) -> Path | None:
        """Where the notebook can be read; None if there is none."""
        return self.file if self.counts else None


@dataclass
class Tree:
    """What was found: files, the `parts` of folders that may be students', and notes for the instructor."""

    entries: list[Entry] = field(default_factory=list)
    folders: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tree_of(where: Path, scratch: Path | None, besides: Path | None = None) -> Tree:
    """The files below the folder `where`, or in the archive `where`.

    Archives are unpacked into new folders in `scratch`, which should be private; with None they are not opened. Nor are
    archives within a student's archive. Links are not followed, and the folder `besides` is left out. Raises
    `BadArchive` if `where` is an archive that cannot be read, and `OSError` if it is a folder that cannot be read.
    """
    found = _Search(scratch, besides)
    if where.is_dir():
        only = _only_archive(where) if scratch else None
        if only is None:
            for path in sorted(where.iterdir()):
                found.add_path(path, ())
            return found.tree
        where = only
    found.add_archive(where, (), str(where), None, CLASS_LIMITS)
    return found.tree


def _only_archive(folder: Path) -> Path | None:
    """The archive in a folder with no other submissions, which is then marked instead of the folder; otherwise None."""
    inside = [
        path for path in folder.iterdir() if not is_program_trace(path.name) and (path.is_dir() or is_wanted(path.name))
    ]
    single = len(inside) == 1 and is_archive(inside[0]) and inside[0].is_file() and not inside[0].is_symlink()
    return inside[0] if single else None


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells whether two paths lead to the same place; None if this one leads nowhere, or to itself."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _holds_work(folder: Path) -> bool:
    """Whether there are notebooks or archives among the first files in a folder."""
    if folder.is_symlink():
        return False
    files = (name for _, _, names in islice(os.walk(folder), MAX_DEPTH) for name in names)
    return any(is_wanted(name) and not is_program_trace(name) for name in files)


class _Search:
    def __init__(self, scratch: Path | None, besides: Path | None) -> None:
        self.scratch, self.besides = scratch, besides and _identity(besides)
        self.tree, self._unpacked = Tree(), 0

    def add_path(self, path: Path, above: tuple[str, ...]) -> None:
        """Add a file, or everything in a folder, that is in the folder `above`."""
        parts = (*above, path.name)
        try:
            changed = path.lstat().st_mtime
            if is_program_trace(path.name):
                if is_hidden_folder(path.name) and _holds_work(path):
                    self._add_problem((*parts, ""), str(path), changed, HIDDEN)
            elif self.besides and _identity(path) == self.besides:
                return
            elif path.is_symlink() and (path.is_dir() or not (path.exists() or path.suffix)):
                why = "The folder is a link to another place, which is not followed. Hand in the notebooks themselves."
                self._add_problem((*parts, ""), str(path), changed, why)
            elif path.is_dir() and is_wanted(path.name):
                name = shorten_text(path.name, 100)
                why = f"{name} is a folder, not a file. Hand in the saved notebook (.ipynb) itself."
                self._add_problem(parts, str(path), changed, why)
            elif path.is_dir():
                if (path / "pyvenv.cfg").exists():  # a virtual environment: thousands of files, none of them handed in
                    return
                if len(parts) > MAX_DEPTH:
                    self._add_problem((*parts, ""), str(path), changed, TOO_DEEP)
                    return
                self.tree.folders.append(parts)
                for inside in sorted(path.iterdir()):
                    self.add_path(inside, parts)
            else:
                notebook = may_be_notebook(path.name) and is_notebook(path)
                self._add_file(Entry(parts, path, str(path), changed, notebook=notebook), ArchiveLimits())
        except OSError as error:
            self._add_problem((*parts, ""), str(path), 0.0, f"The folder cannot be read: {error.strerror}.")

    def _add_file(self, entry: Entry, limits: ArchiveLimits | None) -> None:
        """Add a file, or what is in it if it is an archive. With `limits` None, an archive is not opened."""
        if entry.file is None or entry.problem or not is_archive(Path(entry.name)):
            self.tree.entries.append(entry)
        elif limits is None or self.scratch is None:
            why = f"{shorten_text(entry.name, 100)} is an archive, and was not opened. {_ONLY_NOTEBOOKS}"
            self._add_problem(entry.parts, entry.origin, entry.handed_in, why)
        else:
            try:
                self.add_archive(entry.file, entry.parts, entry.origin, entry.handed_in, limits)
            except BadArchive as error:
                self._add_problem(entry.parts, entry.origin, entry.handed_in, str(error))

    def add_archive(
        self, archive: Path, above: tuple[str, ...], origin: str, handed_in: float | None, limits: ArchiveLimits
    ) -> None:
        """Add the files in an archive.

        `handed_in` is when the archive was handed in, in seconds since 1970. It is used for the files as well, since a
        student could forge the times in an archive. None means that those can be trusted.
        """
        assert self.scratch is not None
        self._unpacked += 1
        found, note = unpack_archive(archive, self.scratch / str(self._unpacked), limits)
        if note:
            self.tree.notes.append(f"{origin}: {note}.")
        inside = [member for member in found if member.parts[-1] or member.problem]
        folders = [member for member in found if member not in inside]
        self.tree.folders += [(*above, *member.parts[:-1]) for member in folders]
        if above and not any(member.file or member.problem for member in inside):
            raise BadArchive(f"{shorten_text(archive.name, 100)} holds no notebook. {_ONLY_NOTEBOOKS}")
        for member in inside:
            parts = (*above, *member.parts)
            came = (member.modified or archive.stat().st_mtime) if handed_in is None else handed_in
            name = f"{origin}/{'/'.join(member.parts)}"
            entry = Entry(parts, member.file, name, came, member.problem, member.notebook)
            self._add_file(entry, None if above else ArchiveLimits())

    def _add_problem(self, parts: tuple[str, ...], origin: str, handed_in: float, why: str) -> None:
        self.tree.entries.append(Entry(parts, None, origin, handed_in, why))


def why_no_notebook(entry: Entry) -> str:
    """Why a file of another kind cannot be marked, and what to hand in instead."""
    kind = next((kind for suffix, kind in _KINDS.items() if entry.name.lower().endswith(suffix)), "not a notebook")
    return f"{shorten_text(entry.name, 100)} is {kind}. Hand in the saved notebook (.ipynb) itself."


UNOPENED = (".rar", ".7z", ".tar", ".gz")
"""Suffixes of archives that cannot be opened."""
_KINDS = {".html": "a web page, not a notebook", ".htm": "a web page, not a notebook", ".pdf": "a PDF, not a notebook",
          ".py": "a Python program, not a notebook", ".docx": "a text document, not a notebook",
          ".txt": "a text file, not a notebook", ".md": "a text file, not a notebook",
          **dict.fromkeys(UNOPENED, "an archive of a kind that cannot be opened"),
          ".png": "a picture, not a notebook", ".jpg": "a picture, not a notebook", ".url": "a link, not a notebook",
          ".gdoc": "a link, not a notebook", ".webloc": "a link, not a notebook"}  # fmt: skip
