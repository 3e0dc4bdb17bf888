"""Lists and reads the members of a zip or tar.gz file without trusting anything in it."""

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
from graders.submissions.intake import Unreadable, open_regular

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_RATIO = 100
"""How many times its packed size a member of a zip file may unpack to. Text has a ratio of 10, a zip bomb of 1,000."""

_END = b"PK\x05\x06"
"""The start of the record at the end of a zip file."""
_END_64 = b"PK\x06\x06"
"""The same of the record for files above 4 GB."""
_TAIL = (1 << 16) + 200
"""The bytes at the end of a zip file that hold both records and a comment of up to 64 KiB."""


class BadArchive(HookworkError):
    """An archive cannot be unpacked or holds too much; the message says what is wrong, and what to hand in instead."""


@dataclass(frozen=True)
class Member:
    """One file or folder of an archive. `flaw` says why it cannot be unpacked; empty if the list shows no reason.

    `path` always has `/` between folders. `size` is in bytes, unpacked. `modified` is when it was last changed, in
    seconds since 1970, or 0 if unknown.
    """

    path: str
    size: int
    folder: bool
    flaw: str = ""
    modified: float = 0.0


class Archive(Protocol):
    """An open archive. `note` says how names that are not UTF-8 were read; empty if there are none."""

    members: list[Member]
    note: str

    def write(self, targets: Mapping[int, Path]) -> dict[int, str]:
        """Unpack members into new files: `targets` maps indices in `members` to paths.

        Returns what is wrong with each damaged member, by index. Raises `OSError` for a fault of this machine.
        """


def _copy_stream(source: IO[bytes], target: Path) -> None:
    with target.open("xb") as file:
        while True:
            with damage_as_bad_archive():  # only reading: if writing fails, the disk is at fault, not the archive
                part = source.read(1 << 16)
            if not part:
                return
            file.write(part)


def is_archive(path: Path) -> bool:
    """Whether a file has the suffix of an archive that can be read."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


@contextmanager
def open_archive(archive: Path, max_directory: int, max_stream: float) -> Iterator[Archive]:
    """Open an archive.

    `max_directory` bounds the bytes of a zip file's list of members. A tar.gz file has no such list, so `max_stream`
    bounds the bytes that it unpacks to. Raises `BadArchive`.
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
    """Turn exceptions of Python's archive modules into `BadArchive`: with broken files, they raise many kinds."""
    try:
        yield
    except (BadArchive, MemoryError):
        raise
    except Exception as error:
        raise BadArchive(f"it is damaged or of another format ({clean_text(error, 80)}).") from error


class _Zip:
    def __init__(self, file: IO[bytes], max_directory: int) -> None:
        # Check this before Python makes an object for each entry.
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
    """The size of a zip file's list of members in bytes, from the record at its end, or the larger if it has two."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    file.seek(0)
    end, end_64 = tail.rfind(_END), tail.rfind(_END_64)
    sizes = [int.from_bytes(tail[end + 12 : end + 16], "little")] if end >= 0 else []
    sizes += [int.from_bytes(tail[end_64 + 40 : end_64 + 48], "little")] if end_64 >= 0 else []
    return max((found for found in sizes if found != 0xFFFFFFFF), default=0)


def _zip_member(info: zipfile.ZipInfo, name: str) -> Member:
    path = name.replace("\\", "/")  # some versions of Windows write backslashes
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
    """When a member was last changed. Zip files have no time zone, so their times are taken as local ones."""
    try:
        return datetime(*info.date_time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _decode_names(infos: Sequence[zipfile.ZipInfo]) -> tuple[list[str], str]:
    """The names of a zip file's members, and a note on how those that are not UTF-8 were read."""
    # Without flag 0x800 the code page of a name is unknown. Python reads cp437, which can be turned back into bytes.
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
    """The most likely code page of these names: cp437 (old PCs), gbk (China) or cp850 (Western Europe).

    It is the first of them in which all characters beyond ASCII are Latin letters or, for gbk, common Chinese ones. If
    none fits, it is cp437.
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
    """A gzip file that is unpacked while it is read. Raises `BadArchive` after `most` bytes."""

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
        """Each member with its archive, read from the beginning. Only the current one is kept in memory."""
        stream = _Bounded(self._file, self._most)
        with tarfile.open(
            fileobj=cast(IO[bytes], stream), mode="r|", encoding="utf-8", errors="surrogateescape"
        ) as packed:
            for info in packed:
                yield packed, info
                packed.members.clear()  # type: ignore[attr-defined]  # undocumented; without it, all are kept

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
        except BadArchive as error:  # nothing after a damaged part of the stream can be read
            for target in left.values():
                target.unlink(missing_ok=True)
            return dict.fromkeys(left, str(error))
        return {}


def _tar_member(info: tarfile.TarInfo) -> Member:
    flaw = "" if (info.isreg() or info.isdir()) and not info.issparse() else "it is a link or a device"
    path = info.name.removeprefix("./").rstrip("/")
    return Member("" if path == "." else path, info.size, folder=info.isdir(), flaw=flaw, modified=info.mtime)
