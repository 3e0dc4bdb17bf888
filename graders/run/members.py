"""What is in a zip or tar.gz file: a list of members, made without trusting a word of it."""

from __future__ import annotations

import gzip
import re
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Protocol, cast

from graders.core.errors import HookworkError
from graders.core.text import clean_text, shorten_text
from graders.run.intake import Unreadable, open_regular

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_RATIO = 100
"""How many times its packed size a member of a zip file may unpack to: text takes ten, a bomb a thousand."""

_END = b"PK\x05\x06"
"""What the record at the end of a zip file starts with; below it, the one of files beyond 4 GB."""
_END_64 = b"PK\x06\x06"
_TAIL = (1 << 16) + 200
"""Bytes at the end of a zip file in which both records lie: a comment may have 64 KiB."""


class BadArchive(HookworkError):
    """An archive that cannot be unpacked, or holds too much; the message says what is wrong and what helps."""


@dataclass(frozen=True)
class Member:
    """One file or folder of an archive, and what is wrong with it as far as the list of members tells.

    `path` has `/` between its folders, whatever the archive has. `size` is in bytes, unpacked. `modified` is when it
    was last changed, in seconds since 1970; 0 where that is not known.
    """

    path: str
    size: int
    folder: bool
    flaw: str = ""
    modified: float = 0.0


class Archive(Protocol):
    """An open archive. `note` says how names were read that are not UTF-8."""

    members: list[Member]
    note: str

    def write(self, targets: Mapping[int, Path]) -> dict[int, str]:
        """Write the members with these indices to new files; for each that is damaged, what is wrong.

        Raises `OSError` for a fault of this machine.
        """


def _copy_stream(source: IO[bytes], target: Path) -> None:
    with target.open("xb") as file:
        while True:
            with damage_as_bad_archive():  # of the archive, and not of the disk that is written to
                part = source.read(1 << 16)
            if not part:
                return
            file.write(part)


def is_archive(path: Path) -> bool:
    """Whether the name of a file is that of an archive which can be read."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


@contextmanager
def open_archive(archive: Path, max_directory: int, max_stream: float) -> Iterator[Archive]:
    """An archive, open.

    `max_directory` bounds the bytes of a zip file's list of members, and `max_stream` those of a tar.gz file once it is
    unpacked, which has no list to look at before. Raises `BadArchive`.
    """
    try:
        with open_regular(archive) as file:
            with damage_as_bad_archive():
                is_zip = archive.name.lower().endswith(".zip")
                found: Archive = _Zip(file, max_directory) if is_zip else _Tar(file, max_stream)
            yield found
    except (BadArchive, Unreadable) as error:
        raise BadArchive(
            f"{archive.name} was not unpacked: {error} Hand in the notebooks themselves, or a plain zip of them."
        ) from error


@contextmanager
def damage_as_bad_archive() -> Iterator[None]:
    """Turn what Python's readers of archives raise into `BadArchive`: broken archives make them fail in many ways."""
    try:
        yield
    except (BadArchive, MemoryError):
        raise
    except Exception as error:
        raise BadArchive(f"it is damaged or of another format ({clean_text(error, 80)}).") from error


class _Zip:
    def __init__(self, file: IO[bytes], max_directory: int) -> None:
        # Looked at before Python's reader makes an object of each entry.
        if _directory_bytes(file) > max_directory:
            raise BadArchive("it has too many members.")
        self._packed = zipfile.ZipFile(file)
        infos = self._packed.infolist()
        names, self.note = _decode_names(infos)
        self.members = [_zip_member(info, name) for info, name in zip(infos, names)]

    def write(self, targets: Mapping[int, Path]) -> dict[int, str]:
        infos, problems = self._packed.infolist(), {}
        for index, target in targets.items():
            try:
                with damage_as_bad_archive():
                    source = self._packed.open(infos[index])
                with source:
                    _copy_stream(source, target)
            except BadArchive as error:
                target.unlink(missing_ok=True)
                problems[index] = str(error)
        return problems


def _directory_bytes(file: IO[bytes]) -> int:
    """The bytes of a zip file's list of members, as the record at its end says: the larger one where it has two."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    file.seek(0)
    end, end_64 = tail.rfind(_END), tail.rfind(_END_64)
    said = [int.from_bytes(tail[end + 12 : end + 16], "little")] if end >= 0 else []
    said += [int.from_bytes(tail[end_64 + 40 : end_64 + 48], "little")] if end_64 >= 0 else []
    return max((bytes_ for bytes_ in said if bytes_ != 0xFFFFFFFF), default=0)


def _zip_member(info: zipfile.ZipInfo, name: str) -> Member:
    path = name.replace("\\", "/")  # some versions of Windows separate folders like this
    kind = stat.S_IFMT(info.external_attr >> 16)
    flaw = ""
    if info.flag_bits & 0x2041:
        flaw = "it is encrypted"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        flaw = "it is a link or a device"
    elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        flaw = "it is compressed in an unusual way"
    elif info.file_size > MAX_RATIO * max(1, info.compress_size):
        flaw = f"it unpacks to more than {MAX_RATIO} times its size"
    return Member(path.rstrip("/"), info.file_size, folder=path.endswith("/"), flaw=flaw, modified=_modified_time(info))


def _modified_time(info: zipfile.ZipInfo) -> float:
    """When a member was changed. Zip files know no time zone: they hold the local time of whoever packed them."""
    try:
        return datetime(*info.date_time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _decode_names(infos: Sequence[zipfile.ZipInfo]) -> tuple[list[str], str]:
    """The names of a zip file's members, and how those were read that are not UTF-8."""
    # Without this flag names are in a code page that is not named; Python reads cp437, which loses nothing.
    raw = [info.orig_filename.encode("cp437") for info in infos if not info.flag_bits & 0x800]
    odd = [name for name in raw if not _is_utf8(name)]
    page = code_page(odd)
    names = [
        info.orig_filename
        if info.flag_bits & 0x800
        else (name := info.orig_filename.encode("cp437")).decode("utf-8" if _is_utf8(name) else page, "replace")
        for info in infos
    ]
    if not odd:
        return names, ""
    example = shorten_text(odd[0].decode(page, "replace"), 60)
    return names, f"names that are not UTF-8 were read as {page}, for example {example!r}"


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def code_page(names: Sequence[bytes]) -> str:
    """The code page in which these names can be read best: of old PCs, of Western Europe, or of China.

    The first in which each letter beyond ASCII is a Latin one, or in which they are pairs that are Chinese; else cp437.
    """
    for page in ("cp437", "gbk", "cp850"):
        if all(map(_is_chinese if page == "gbk" else lambda name, page=page: _is_latin(name.decode(page)), names)):
            return page
    return "cp437"


def _is_latin(name: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN ") for letter in name if ord(letter) > 127)


def _is_chinese(name: bytes) -> bool:
    if any(len(run) % 2 for run in re.findall(rb"[\x80-\xff]+", name)):
        return False
    try:
        return all(ord(letter) < 128 or unicodedata.category(letter) == "Lo" for letter in name.decode("gb2312"))
    except UnicodeDecodeError:
        return False


class _Bounded:
    """A file that is unpacked while it is read, up to so many bytes."""

    def __init__(self, file: IO[bytes], most: float) -> None:
        file.seek(0)
        self._file, self._left, self._most = gzip.GzipFile(fileobj=file, mode="rb"), most, most

    def read(self, size: int) -> bytes:
        part = self._file.read(size)
        self._left -= len(part)
        if self._left < 0:
            raise BadArchive(f"it unpacks to more than {int(self._most) >> 20} MB.")
        return part


class _Tar:
    note = ""

    def __init__(self, file: IO[bytes], max_stream: float) -> None:
        self._file, self._most = file, max_stream
        self.members = [_tar_member(info) for _, info in self._read_infos()]

    def _read_infos(self) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        """The members, read from the beginning: nothing but the one that is looked at is kept."""
        stream = _Bounded(self._file, self._most)
        with tarfile.open(
            fileobj=cast(IO[bytes], stream), mode="r|", encoding="utf-8", errors="surrogateescape"
        ) as packed:
            for info in packed:
                yield packed, info
                packed.members.clear()  # type: ignore[attr-defined]  # documented nowhere, and it would keep them all

    def write(self, targets: Mapping[int, Path]) -> dict[int, str]:
        left = dict(targets)
        members = enumerate(self._read_infos())
        try:
            while left:
                with damage_as_bad_archive():
                    index, (packed, info) = next(members)
                    source = packed.extractfile(info) if index in left else None
                if source is not None:
                    _copy_stream(source, left[index])
                    del left[index]
        except BadArchive as error:  # of what follows nothing can be found
            for target in left.values():
                target.unlink(missing_ok=True)
            return dict.fromkeys(left, str(error))
        return {}


def _tar_member(info: tarfile.TarInfo) -> Member:
    flaw = "" if (info.isreg() or info.isdir()) and not info.issparse() else "it is a link or a device"
    path = info.name.removeprefix("./").rstrip("/")
    return Member("" if path == "." else path, info.size, folder=info.isdir(), flaw=flaw, modified=info.mtime)
