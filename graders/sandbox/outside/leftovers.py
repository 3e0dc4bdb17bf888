"""Temporary folders that are removed in the end, even if the process that made them is killed.

Each is locked by its process for as long as that lives. The next start removes the same user's folders that are no
longer locked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graders.sandbox.outside.box_users import may_be_a_box

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and leftovers stay
    fcntl = None  # type: ignore[assignment]

PREFIX = "hookwork-"
KINDS = ("box", "job", "modules", "unpacked")
SETTLED_SECONDS = 60.0
"""A folder younger than this is left alone: it may be about to be locked."""


@contextmanager
def temporary_folder(kind: str, parent: Path | None = None) -> Iterator[Path]:
    """A locked folder, removed afterwards. `kind` is one of `KINDS` and part of its name.

    It is created in `parent`; None means the system's temporary folder.
    """
    # The name is short because the folder holds sockets, whose paths have at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=parent))
    lock = take_lock(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)
        if lock is not None:
            os.close(lock)


def remove_leftovers(parent: Path | None = None) -> None:
    """Remove what killed processes of this user left in the system's temporary folder, or in `parent`."""
    if fcntl is None:
        return
    with os.scandir(parent or tempfile.gettempdir()) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(tuple(PREFIX + kind + "-" for kind in KINDS))]
    for path in found:
        with contextlib.suppress(OSError):  # another process removed it first
            facts = os.lstat(path)
            if (
                stat.S_ISDIR(facts.st_mode)
                and _is_own_user(facts.st_uid)
                and time.time() - facts.st_mtime > SETTLED_SECONDS
            ):
                lock = take_lock(Path(path))
                if lock is not None:
                    remove_tree(Path(path))
                    os.close(lock)


def _is_own_user(uid: int) -> bool:
    return uid == os.getuid() or (os.getuid() == 0 and may_be_a_box(uid))


def take_lock(path: Path) -> int | None:
    """Lock a file or folder: a descriptor that holds the lock until it is closed, or None if another process has it."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_tree(folder: Path) -> None:
    """Remove a folder that untrusted code wrote to, whatever its permissions and depth. Raises nothing."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    # It has no permissions, or is too deep for Python's rmtree. Neither command follows links.
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        with contextlib.suppress(OSError):
            subprocess.run([*command, "--", str(folder)], check=False, stderr=subprocess.DEVNULL)
