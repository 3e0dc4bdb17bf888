"""Unpacks archives from learning platforms and students safely.

Names and contents come from strangers. So only notebooks and archives are unpacked, each into a file that we name in a
private folder: no path from an archive is ever used. A bad member is reported and the others are unpacked, so one
student's file cannot spoil the archive of a class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from graders.submissions import intake
from graders.submissions.members import ARCHIVE_SUFFIXES, BadArchive, Member, open_archive

NOTEBOOK_SUFFIXES = (".ipynb", ".ipynb.txt", ".ipynb.json")
"""Suffixes of notebooks. Some browsers append `.txt` or `.json`."""
METADATA_NAME = "submission_metadata.yml"
"""The file in which Gradescope says whose each folder of a class is."""
MAX_METADATA = 10 * intake.MAX_BYTES
"""The most bytes of that file, which also holds what autograders have printed."""
_UNKNOWN = ".content"
"""The suffix of files that were unpacked because their content has to decide what they are."""
_WANTED_SUFFIXES = (*NOTEBOOK_SUFFIXES, *ARCHIVE_SUFFIXES)

MAX_BYTES = 50 << 20
MAX_WANTED = 200
"""Limits for one student's archive: the bytes and the number of the notebooks and archives in it."""
MAX_FILES = 20_000
"""The most files of any kind in one student's archive."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits for one archive. The defaults are for an archive that a student made.

    `directory` bounds the bytes of a zip file's list of members, `stream` the bytes that a tar.gz file unpacks to,
    `wanted_bytes` and `wanted` the bytes and the number of notebooks and archives, `files` the files of any kind.
    """

    directory: int = 8 << 20
    stream: float = 4 * MAX_BYTES
    wanted_bytes: float = MAX_BYTES
    wanted: float = MAX_WANTED
    files: float = MAX_FILES


CLASS_LIMITS = ArchiveLimits(
    directory=256 << 20, stream=math.inf, wanted_bytes=math.inf, wanted=math.inf, files=math.inf
)
"""For the archive of a class, which comes from a platform or an instructor: only the limits of each file apply."""


@dataclass(frozen=True)
class Unpacked:
    """A member of an archive. `file` is where it was written: None if it is of no use to us.

    `notebook` says that it is a notebook under another name. `problem` says why a notebook or an archive was not
    unpacked. `parts` are the folders and the name as the archive has them; a folder has an empty name. `modified` is in
    seconds since 1970, 0 if unknown.
    """

    parts: tuple[str, ...]
    file: Path | None = None
    problem: str = ""
    modified: float = 0.0
    notebook: bool = False


def wanted_suffix(name: str) -> str:
    """The suffix of a notebook or an archive that a name has; empty for any other name."""
    return next((suffix for suffix in _WANTED_SUFFIXES if name.lower().endswith(suffix)), "")


def is_wanted(name: str) -> bool:
    """Whether a file has the name of a notebook or an archive."""
    return name.lower().endswith(_WANTED_SUFFIXES)


def may_be_notebook(name: str) -> bool:
    """Whether a file without the name of a notebook may be one all the same, so that its content has to decide."""
    if is_wanted(name) or name.endswith("~"):  # which an editor adds to a copy of what was there before
        return False
    suffix = re.search(r"\.(\w{1,6})$", name.lower())
    return suffix is None or suffix[1].isdecimal() or suffix[1].startswith(("json", "txt", "text", "ip"))


def is_program_trace(name: str) -> bool:
    """Whether a file or folder was left behind by a program and is nobody's work, such as `__pycache__`."""
    return name.startswith((".", "__MACOSX")) or name in _TRACES


def is_hidden_folder(name: str) -> bool:
    """Whether the name of a folder begins with a dot, and no program is known to give it: it may be somebody's work."""
    return name.startswith(".") and not name.startswith(_HIDDEN_BY_PROGRAMS) and name not in (".", "..")


MAX_DEPTH = 50
"""What lies in more folders than these is not read."""
TOO_DEEP = (
    f"There are more than {MAX_DEPTH} folders in each other, and no more are read. Hand in the notebooks themselves."
)
HIDDEN = "The name of the folder begins with a dot, and such folders are not read. Rename it."
_HIDDEN_BY_PROGRAMS = ("._", ".Trash", ".cache", ".conda", ".config", ".git", ".hg", ".history", ".hookwork", ".idea",
                       ".ipynb_checkpoints", ".ipython", ".jupyter", ".local", ".mypy_cache", ".nox", ".npm",
                       ".pytest_cache", ".ruff_cache", ".snapshot", ".svn", ".tox", ".uv", ".venv",
                       ".virtual_documents", ".vscode")  # fmt: skip
_TRACES = {"__pycache__", "node_modules", "Thumbs.db", "desktop.ini", "hookwork-backups", "hookwork-progress.json"}


def unpack_archive(archive: Path, into: Path, limits: ArchiveLimits) -> tuple[list[Unpacked], str]:
    """Unpack the notebooks and archives in `archive` into the folder `into`, which is created.

    What may be a notebook under another name is looked into as far as the limits allow.

    Returns all members, also those that were not unpacked, and folders that are not read; and a note on the encoding of
    names that are not UTF-8.
    Raises `BadArchive` if the archive cannot be read, is too large, or all of its notebooks are damaged, and `OSError`
    for a fault of this machine.
    """
    with open_archive(archive, limits.directory, limits.stream) as packed:
        members = [(index, member) for index, member in enumerate(packed.members) if not _is_left_out(member)]
        if len(members) > limits.files:
            raise BadArchive(f"it has more than {limits.files} members.")
        wanted = {index: member for index, member in members if not member.folder and is_wanted(member.path)}
        if len(wanted) > limits.wanted:
            raise BadArchive(f"it has more than {limits.wanted} notebooks.")
        problems = {index: problem for index, member in wanted.items() if (problem := _member_problem(member))}
        good = {index: member for index, member in wanted.items() if index not in problems}
        size = sum(member.size for member in good.values())
        if size > limits.wanted_bytes:
            raise BadArchive(f"it holds more than {int(limits.wanted_bytes) >> 20} MB.")
        into.mkdir()
        targets = {index: into / f"{index}{wanted_suffix(member.path)}" for index, member in good.items()}
        others = _others_to_look_into(members, limits, limits.wanted - len(good), limits.wanted_bytes - size)
        targets |= {index: into / f"{index}{_UNKNOWN}" for index in others}
        damaged = {index: why for index, why in packed.write(targets).items() if index in wanted}
        notebooks = {index for index in others if intake.is_notebook(targets[index])}
        for index in {index for index, name in others.items() if name != METADATA_NAME} - notebooks:
            targets.pop(index).unlink(missing_ok=True)
        if damaged and len(damaged) == len(wanted):
            raise BadArchive(next(iter(damaged.values())))
        problems |= {index: f"The file was not unpacked: {why} Hand it in again." for index, why in damaged.items()}
        note = packed.note
        unread = dict(filter(None, map(_unread_folder, packed.members)))
    return [
        *(Unpacked(parts=parts, problem=why) for parts, why in unread.items()),
        *(
            Unpacked(
                parts=(*_parts(member.path), *([""] if member.folder else [])),
                file=None if index in problems else targets.get(index),
                problem=problems.get(index, ""),
                modified=member.modified,
                notebook=index in notebooks,
            )
            for index, member in members
        ),
    ], note


def _others_to_look_into(
    members: Sequence[tuple[int, Member]], limits: ArchiveLimits, most: float, most_bytes: float
) -> dict[int, str]:
    """The names of members whose content matters whatever they are called, by index: as many as there is room for."""
    found: dict[int, str] = {}
    for index, member in members:
        name = member.path.rpartition("/")[2]
        metadata = name == METADATA_NAME and limits is CLASS_LIMITS
        largest = MAX_METADATA if metadata else intake.MAX_BYTES
        unusable = member.folder or member.flaw or leads_elsewhere(member.path) or member.size > largest
        if (metadata or may_be_notebook(name)) and not unusable and len(found) < most and member.size <= most_bytes:
            found[index] = name
            most_bytes -= member.size
    return found


def _unread_folder(member: Member) -> tuple[tuple[str, ...], str] | None:
    """The parts of a folder that somebody's work lies in but that is not read, and why; None if there is no such."""
    folders = _parts(member.path)[:-1]
    first = next((number for number, name in enumerate(folders) if is_program_trace(name)), None)
    if first is not None:
        hidden = is_hidden_folder(folders[first]) and is_wanted(member.path)
        return ((*folders[: first + 1], ""), HIDDEN) if hidden else None
    return ((*folders[:MAX_DEPTH], ""), TOO_DEEP) if len(folders) > MAX_DEPTH else None


def _is_left_out(member: Member) -> bool:
    parts = _parts(member.path)
    return not member.path or len(parts) > MAX_DEPTH + 1 or any(map(is_program_trace, set(parts) - {".", ".."}))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")] or [path]


def _member_problem(member: Member) -> str:
    """Why a notebook or an archive in an archive is not unpacked; empty if it can be."""
    most = intake.MAX_BYTES if wanted_suffix(member.path) in NOTEBOOK_SUFFIXES else MAX_BYTES
    flaw = member.flaw or leads_elsewhere(member.path)
    if flaw:
        return f"The file was not unpacked, because {flaw}. Hand in the notebook itself."
    return intake.too_large(member.size, most) if member.size > most else ""


def leads_elsewhere(path: str) -> str:
    """Why a path in an archive may point outside of its folder; empty if it cannot."""
    parts = path.split("/")
    if PureWindowsPath(path).anchor or parts[0] == "":
        return "its name is not relative"
    if ".." in parts:
        return "its name leads to another folder"
    return ""
