"""What is in a zip or tar.gz file: a list of members, made without trusting a word of it."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from graders.core.errors import HookworkError
from graders.core.text import clean
from graders.run.intake import Unreadable, open_regular

SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_RATIO = 100

_CENTRAL = b"PK\x01\x02"
"""What the entry of each member in the directory of a zip file starts with."""
_TAR_EXTRA = 1 << 20
"""What the headers and the padding of a tar file may take beyond its members."""


class BadArchive(HookworkError):
    """An archive, or one student's part of it, that is not unpacked; the message says what is wrong and what helps."""


@dataclass(frozen=True)
class Member:
    """One file or folder of an archive, and what is wrong with it as far as the list of members tells.

    `modified` is when it was last changed, in seconds since 1970; 0 where that is not known.
    """

    name: str
    size: int
    folder: bool
    read: Callable[[], IO[bytes] | None]
    flaw: str = ""
    modified: float = 0.0


def is_archive(path: Path) -> bool:
    """Whether the name of a file is that of an archive which can be read."""
    return path.name.lower().endswith(SUFFIXES)


@contextmanager
def members_of(archive: Path, max_bytes: int, max_members: int) -> Iterator[list[Member]]:
    """The members of an archive as they are listed: at most so many, of at most so many bytes in all."""
    try:
        with open_regular(archive) as file, tempfile.TemporaryFile() as plain:
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise BadArchive(f"it has more than {max_bytes >> 20} MB.")
            with damage():
                if archive.name.lower().endswith(".zip"):
                    found = _in_zip(file, max_members)
                else:
                    _gunzip(file, plain, max_bytes)
                    found = _in_tar(plain, max_members)
            if sum(member.size for member in found) > max_bytes:
                raise BadArchive(f"it holds more than {max_bytes >> 20} MB.")
            yield found
    except (BadArchive, Unreadable) as error:
        raise BadArchive(
            f"{archive.name} was not unpacked: {error} Hand in the notebooks themselves, or a plain zip of them."
        ) from error


@contextmanager
def damage() -> Iterator[None]:
    """Turn what Python's readers of archives raise into `BadArchive`: broken archives make them fail in many ways."""
    try:
        yield
    except (BadArchive, MemoryError):
        raise
    except Exception as error:
        raise BadArchive(f"it is damaged or of another format ({clean(str(error), 80)}).") from error


def _in_zip(file: IO[bytes], max_members: int) -> list[Member]:
    # Counted before Python's reader makes an object of each entry.
    if _count(file, _CENTRAL, max_members) > max_members:
        raise BadArchive(f"it has more than {max_members} members.")
    return [_of_zip(packed, info) for packed in [zipfile.ZipFile(file)] for info in packed.infolist()]


def _of_zip(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    name, flaw = info.orig_filename, ""
    if not info.flag_bits & 0x800:  # without this flag names are read in the code page of old PCs
        raw = name.encode("cp437")
        name = raw.decode("utf-8", "surrogateescape")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 0x2041:
        flaw = "it is encrypted"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        flaw = "it is a link or a device"
    elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        flaw = "it is compressed in an unusual way"
    elif info.file_size > MAX_RATIO * max(1, info.compress_size):
        flaw = f"it unpacks to more than {MAX_RATIO} times its size"
    return Member(
        name=name.rstrip("/"),
        size=info.file_size,
        folder=name.endswith("/"),
        read=lambda: packed.open(info),
        flaw=flaw,
        modified=_moment(info),
    )


def _moment(info: zipfile.ZipInfo) -> float:
    """When a member was changed. Zip files know no time zone: they hold the local time of whoever packed them."""
    try:
        return datetime(*info.date_time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _count(file: IO[bytes], mark: bytes, most: int) -> int:
    """How often `mark` occurs in a file, counted up to a little above `most`."""
    found, rest = 0, b""
    while found <= most and (part := file.read(1 << 20)):
        part = rest + part
        found += part.count(mark)
        rest = part[-(len(mark) - 1) :]
    file.seek(0)
    return found


def _gunzip(file: IO[bytes], plain: IO[bytes], max_bytes: int) -> None:
    """Unpack the whole of a gzip file, if it does not grow too much: a tar file has no list to look at before."""
    most = min(max_bytes + _TAR_EXTRA, max(_TAR_EXTRA, MAX_RATIO * os.fstat(file.fileno()).st_size))
    with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
        while part := unzipped.read(1 << 16):
            if plain.tell() + len(part) > most:
                raise BadArchive(f"it unpacks to more than {MAX_RATIO} times its size or {max_bytes >> 20} MB.")
            plain.write(part)
    plain.seek(0)


def _in_tar(plain: IO[bytes], max_members: int) -> list[Member]:
    packed = tarfile.TarFile(fileobj=plain, encoding="utf-8", errors="surrogateescape")
    found: list[Member] = []
    for info in packed:
        if len(found) == max_members:
            raise BadArchive(f"it has more than {max_members} members.")
        if info.name != ".":
            found.append(_of_tar(packed, info))
    return found


def _of_tar(packed: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    flaw = "" if (info.isreg() or info.isdir()) and not info.issparse() else "it is a link or a device"
    return Member(
        name=info.name.removeprefix("./"),
        size=info.size,
        folder=info.isdir(),
        read=lambda: packed.extractfile(info),
        flaw=flaw,
        modified=info.mtime,
    )
