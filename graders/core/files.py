"""Write files whole or not at all, and read them without following links that somebody else may have planted."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_BY_DESCRIPTOR = {os.open, os.mkdir, os.unlink} <= os.supports_dir_fd


def write_atomically(path: Path, content: bytes | str, *, below: Path | None = None) -> None:
    """Write a temporary file next to `path`, flush it to the disk, and move it into place.

    Folders are made as needed. Text is written as UTF-8. The file's mode is 0o644 less the umask. A link at `path` is
    replaced, not followed. With `below`, the file must lie in that folder, and no folder in between may be a link,
    which somebody could have put there in the meantime. Raises `OSError`.
    """
    raw = content.encode() if isinstance(content, str) else content
    if below is not None:
        inner = path.relative_to(below)
        if ".." in inner.parts:
            raise OSError(errno.EINVAL, f"it leads out of {below}, so it was not written", str(path))
        if _BY_DESCRIPTOR:
            _write_below(below, inner, raw)
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(_temporary_name(path.name))
    try:
        _write_and_sync(os.open(temporary, _CREATE_FLAGS, 0o644), raw)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_below(folder: Path, inner: Path) -> None:
    """Remove the file `inner` in `folder` if it is there, and its own folder if that is empty then.

    Nothing is removed through a link. Raises `OSError`.
    """
    if any((folder / parent).is_symlink() for parent in [*inner.parents][:-1]):
        return
    (folder / inner).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (folder / inner).parent.rmdir()


def _temporary_name(name: str) -> str:
    return f".{name}.{secrets.token_hex(6)}"


def _write_below(folder: Path, inner: Path, raw: bytes) -> None:
    """Write as `write_atomically` does, opening each folder by descriptor, so that none can be swapped on the way."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in inner.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            try:
                deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            except OSError as error:
                why = f"{part} is a link or not a folder, and is not followed; remove it"
                raise NotADirectoryError(error.errno, why, str(folder / inner)) from error
            os.close(here)
            here = deeper
        temporary = _temporary_name(inner.name)
        try:
            _write_and_sync(os.open(temporary, _CREATE_FLAGS, 0o644, dir_fd=here), raw)
            os.replace(temporary, inner.name, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=here)
            raise
    finally:
        os.close(here)


def _write_and_sync(descriptor: int, raw: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


MAX_OWN_BYTES = 512 << 20
"""The largest results.json that is read: a notebook of three exercises takes 4 KiB in it. A kept run has less."""


def read_own_file(path: Path) -> bytes:
    """The bytes of a regular file that only this user can have written.

    Raises `OSError` for any other file, and with `errno.EFBIG` for one of more than `MAX_OWN_BYTES`.
    """
    with open_regular_file(path) as file:
        facts = os.fstat(file.fileno())
        if hasattr(os, "geteuid") and (facts.st_uid != os.geteuid() or facts.st_mode & 0o022):
            raise PermissionError(f"{path} could have been written by another user")
        if facts.st_size > MAX_OWN_BYTES:
            raise OSError(errno.EFBIG, f"It has more than {MAX_OWN_BYTES >> 20} MiB", str(path))
        return file.read(MAX_OWN_BYTES)


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file for reading, in binary. Raises `OSError` for a link, a pipe or anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "It is a link to another file", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not an ordinary file", str(path))
    return os.fdopen(descriptor, "rb")
