"""One command at a time works in a folder of results: two would each overwrite what the other has marked."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from graders.core.text import clean_text

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = ".hookwork-lock"

Lock = Callable[[int, int], None]


@contextlib.contextmanager
def results_lock(
    out: Path, say: Callable[[str], None], lock: Lock | None = fcntl.flock if fcntl else None
) -> Iterator[None]:
    """Work in the folder while no other command does; `say` tells when one has to be waited for.

    The system itself locks a file in the folder, so that the lock ends with its process, however that ends. A folder
    that is made for it and stays empty is removed. Raises `OSError` where nothing can be written.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        descriptor = _open_locked(out, say, lock)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (out / LOCK_NAME).unlink()  # while it is locked: whoever waits for it looks whether it is still there
            os.close(descriptor)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _open_locked(out: Path, say: Callable[[str], None], lock: Lock | None) -> int:
    """The lock's file, open and locked, where the system can do that."""
    while True:
        descriptor = _open_lock_file(out)
        try:
            if lock is not None:
                _wait_for(descriptor, out, say, lock)
            if _is_current_file(descriptor, out / LOCK_NAME):
                _write_holder(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the one before took it away; the next may have made another


def _open_lock_file(out: Path) -> int:
    while True:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # a file, or a folder that the one before removed just then
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(out.stat().st_mode):
                    raise
            continue
        with contextlib.suppress(FileNotFoundError):  # the one before found it empty and removed it
            return os.open(out / LOCK_NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)


def _wait_for(descriptor: int, out: Path, say: Callable[[str], None], lock: Lock) -> None:
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(
            f"Another command works in {out} ({_read_holder(descriptor)}). "
            "This one goes on when that has ended; Ctrl+C ends this one."
        )
        lock(descriptor, fcntl.LOCK_EX)
    except OSError as error:  # some network drives know no locks
        why = (error.strerror or "").lower()
        say(f"{out} cannot be locked here ({why}): start no other command for it before this one has ended.")


def _read_holder(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return clean_text(os.pread(descriptor, 200, 0).decode("utf-8", "replace"), 200).strip() or "it has just begun"
    return "it does not say which"


def _write_holder(descriptor: int) -> None:
    """Write down who holds the lock."""
    who = f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now():%Y-%m-%d %H:%M:%S}"
    with contextlib.suppress(OSError):  # on a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.write(descriptor, who.encode("utf-8", "replace"))


def _is_current_file(descriptor: int, file: Path) -> bool:
    try:
        found = os.stat(file, follow_symlinks=False)
    except OSError:
        return False
    ours = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
