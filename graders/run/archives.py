"""Archives that a learning platform or a student made: what is in them, and a safe way to unpack it.

The archive of a class comes from the platform, but the names and contents of its files come from strangers. So its
members are looked at in groups, one for each student, under the limits that hold for an archive that a student handed
in: a group that breaks a rule is left out and named, the others are unpacked. Only notebooks and archives are written,
into a folder that is ours alone.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from graders.core.text import clean
from graders.run.lms import Owner, owner_in_archive, owner_of_file
from graders.run.members import SUFFIXES, BadArchive, Member, damage, members_of

WANTED = (".ipynb", *SUFFIXES)

MAX_BYTES = 50 << 20
MAX_MEMBERS = 200
"""Limits for what one student handed in. In all they would refuse an honest class: 300 students, a notebook each."""

MAX_CLASS_BYTES = 2 << 30
MAX_CLASS_MEMBERS = 20_000
MAX_NAME, MAX_PATH, MAX_FOLDERS = 255, 1000, 20

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|$)", re.IGNORECASE)


def is_wanted(name: str) -> bool:
    """Whether a path in an archive or folder is a notebook's or an archive's, and not the trace of some program."""
    return not any(map(_is_hidden, name.split("/"))) and name.lower().endswith(WANTED)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "/", "__MACOSX"))


def unpack(archive: Path, into: Path) -> None:
    """Write the notebooks of an archive that one student handed in into the new folder `into`.

    Raises `BadArchive`; then nothing was written.
    """
    with members_of(archive, MAX_BYTES, MAX_MEMBERS) as members:
        _refuse_bad(members, set())
        into.mkdir()
        _write(members, into)


def unpack_class(archive: Path, into: Path) -> dict[Owner, str]:
    """Write the notebooks of all students into the new folder `into`; for each whose part is bad, why.

    A folder that holds all the rest is left out of the names. An archive with notebooks beside its folders is one
    student's. Raises `BadArchive` when the archive cannot be read, or when a member is bad that belongs to no student
    or to the only one: then nothing was written.
    """
    with members_of(archive, MAX_CLASS_BYTES, MAX_CLASS_MEMBERS) as members:
        groups = _by_owner(members)
        taken: set[str] = set()
        loose = groups.pop(None, [])
        _refuse_bad(loose, taken)
        into.mkdir()
        _write(loose, into)
        bad: dict[Owner, str] = {}
        for owner, group in groups.items():
            try:
                _refuse_bad(group, taken)
                _write(group, into)
            except BadArchive as error:
                assert owner is not None
                bad[owner] = f"The files were not unpacked: {error} Hand in the notebooks themselves."
        return bad


def _by_owner(members: Sequence[Member]) -> dict[Owner | None, list[Member]]:
    """The members by student, with names below the folder that holds all students; None for what is nobody's."""
    wanted = [member.name for member in members if not member.flaw and is_wanted(member.name)]
    root = _common_folder(wanted)
    direct = [name.removeprefix(root) for name in wanted if "/" not in name.removeprefix(root)]
    one_students = direct and not any(map(owner_of_file, direct))
    groups: defaultdict[Owner | None, list[Member]] = defaultdict(list)
    for member in members:
        if member.folder and member.name + "/" == root:
            continue
        inner = replace(member, name=member.name.removeprefix(root))
        owner = None if one_students or _is_hidden(inner.name) else owner_in_archive(inner.name)
        # Traces of programs do not count, unless they are more than that.
        if owner or one_students or not _is_hidden(inner.name) or inner.flaw or name_flaw(inner.name):
            groups[owner].append(inner)
    return groups


def _common_folder(names: Sequence[str]) -> str:
    """The folder (with its slash) in which all students lie, or nothing."""
    first = {name.partition("/")[0] for name in names}
    inner = [name.partition("/")[2] for name in names]
    if len(first) != 1 or not all("/" in name or owner_of_file(name) for name in inner):
        return ""
    return first.pop() + "/"


# What is refused.


def _refuse_bad(members: Sequence[Member], taken: set[str]) -> None:
    """Raises `BadArchive` for the first member that breaks a rule. `taken` are the names of other members."""
    for member in members:
        if flaw := member.flaw or name_flaw(member.name):
            raise BadArchive(f"{clean(member.name, 60)!r} is refused, because {flaw}.")
    if len(members) > MAX_MEMBERS:
        raise BadArchive(f"it has more than {MAX_MEMBERS} members.")
    if sum(member.size for member in members) > MAX_BYTES:
        raise BadArchive(f"it holds more than {MAX_BYTES >> 20} MB.")
    files = [_plain(member.name) for member in members if not member.folder]
    folders = {_plain(member.name) for member in members if member.folder}
    folders |= {str(above) for name in files for above in PurePosixPath(name).parents}
    for member, name in zip((member for member in members if not member.folder), files):
        if name in taken or name in folders:
            raise BadArchive(f"{clean(member.name, 60)!r} is refused, because another member has the same name.")
        taken.add(name)


def _plain(name: str) -> str:
    """A name as a file system may see it that knows no case and one way to write an accent."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def name_flaw(name: str) -> str:
    """What is wrong with the path of a member; empty if nothing is."""
    parts = name.split("/")
    if "\ufffd" in name or any(unicodedata.category(character) == "Cs" for character in name):
        return "its name is not UTF-8"
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name):
        return "its name has control characters"
    if PureWindowsPath(name).anchor or "\\" in name or parts[0] == "":
        return "its name is not relative"
    if any(part in ("", ".", "..") for part in parts):
        return "its name leads to another folder"
    if len(parts) > MAX_FOLDERS or len(name.encode()) > MAX_PATH:
        return f"it lies deeper than {MAX_FOLDERS} folders or {MAX_PATH} bytes"
    if any(len(part.encode()) > MAX_NAME for part in parts):
        return f"its name has more than {MAX_NAME} bytes"
    if any(_DEVICE.match(part) for part in parts):
        return "its name means a device on Windows"
    return ""


def _write(members: Sequence[Member], into: Path) -> None:
    """Write what is wanted, and the folders that may be those of students. All names were checked.

    Raises `BadArchive` for content that is damaged; then nothing of these members stays. Raises `OSError` for a
    fault of this machine.
    """
    written: list[Path] = []
    for member in members:
        target = into / member.name
        if member.folder and "/" not in member.name:
            target.mkdir(exist_ok=True)
        elif not member.folder and is_wanted(member.name):
            target.parent.mkdir(parents=True, exist_ok=True)
            written.append(target)
            try:
                _copy(member, target)
            except BadArchive:
                for path in written:
                    path.unlink(missing_ok=True)
                raise


def _copy(member: Member, target: Path) -> None:
    with target.open("xb") as file:
        parts = _parts(member)
        while True:
            with damage():
                part = next(parts, b"")
            if not part:
                break
            file.write(part)
    if 0 < member.modified < 1 << 33:  # until the year 2242; a stranger may claim any number
        os.utime(target, (member.modified, member.modified))


def _parts(member: Member) -> Iterator[bytes]:
    source = member.read()
    if source is None:
        raise BadArchive("it is damaged.")
    with source:
        while part := source.read(1 << 16):
            yield part
