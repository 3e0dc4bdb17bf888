"""Lets one command at a time write to a folder of results: two would overwrite each other's marks."""

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
    """Hold the lock on the folder `out`; `say` gets a message when another command has to finish first.

    The operating system locks a file in the folder, so the lock ends with its process even if that is killed. Where
    the system has no locks (`lock` is None), nothing is locked. Folders created for the lock are removed again if they
    stay empty. Raises `OSError` when the folder cannot be written to.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        descriptor = _open_locked(out, say, lock)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (out / LOCK_NAME).unlink()  # still locked: whoever waits for it then sees that the file is gone
            os.close(descriptor)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _open_locked(out: Path, say: Callable[[str], None], lock: Lock | None) -> int:
    """Open the lock file and lock it if the system can; returns its descriptor."""
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
        os.close(descriptor)  # the previous holder deleted it, and another command may have made a new one


def _open_lock_file(out: Path) -> int:
    while True:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # it is a file, or the previous holder has just removed the folder
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(out.stat().st_mode):
                    raise
            continue
        with contextlib.suppress(FileNotFoundError):  # the previous holder removed the empty folder
            return os.open(out / LOCK_NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)


def _wait_for(descriptor: int, out: Path, say: Callable[[str], None], lock: Lock) -> None:
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(
            f"Another command is working in {out} ({_read_holder(descriptor)}). "
            "This one continues when that one has finished; Ctrl+C stops this one."
        )
        lock(descriptor, fcntl.LOCK_EX)
    except OSError as error:  # some network drives do not support locks
        why = (error.strerror or "").lower()
        say(f"{out} cannot be locked here ({why}): do not start another command on it until this one has finished.")


def _read_holder(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return clean_text(os.pread(descriptor, 200, 0).decode("utf-8", "replace"), 200).strip() or "it has just started"
    return "it does not say which"


def _write_holder(descriptor: int) -> None:
    who = f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now():%Y-%m-%d %H:%M:%S}"
    with contextlib.suppress(OSError):  # the disk may be full; the lock holds without the note
        os.ftruncate(descriptor, 0)
        os.write(descriptor, who.encode("utf-8", "replace"))


def _is_current_file(descriptor: int, file: Path) -> bool:
    try:
        found = os.stat(file, follow_symlinks=False)
    except OSError:
        return False
    ours = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
