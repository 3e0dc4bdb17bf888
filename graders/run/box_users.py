"""The users that boxes become where we are root: each an id that nobody else on this machine has or may be given.

Whatever belongs to a box's user is ended and removed with the box, so an id that is somebody's must not be taken.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from graders.box.confine import CannotConfine

FIRST_UID, LAST_UID = 400_000, 2_000_000_000
_OF_A_PROCESS = 64
"""How many numbers a process has to itself, to be used again in turn."""
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")
_started = itertools.count()

Range = tuple[int, int]
"""The first id, and the one after the last."""


def free_user() -> int:
    """An id for one box alone, of a user and of a group. Raises `CannotConfine` where none is free."""
    return first_free(_own_box_numbers(), subordinate_ranges(), is_taken)


def own_number() -> int:
    """A number that no other living box has, unless we have more than 64. Each process has numbers of its own."""
    return os.getpid() * _OF_A_PROCESS % 100_000_000 + next(_started) % _OF_A_PROCESS


def _own_box_numbers() -> Iterable[int]:
    return (own_number() for _ in range(_OF_A_PROCESS))


def first_free(numbers: Iterable[int], ranges: Sequence[Range], taken: Callable[[int], bool]) -> int:
    """The first id of these numbers that is not taken. Different numbers have different ids, outside of all ranges."""
    for number in numbers:
        uid = FIRST_UID + number
        for first, after in ranges:  # in order: what lies beyond a range moves up by its length
            if after > FIRST_UID and uid >= (start := max(first, FIRST_UID)):
                uid += after - start
        if uid < LAST_UID and not taken(uid):
            return uid
    raise CannotConfine(errno.EAGAIN, f"no user id between {FIRST_UID} and {LAST_UID} is free for a box")


@functools.cache
def subordinate_ranges(files: Sequence[str] = _SUBORDINATE) -> list[Range]:
    """The ids that are set aside for containers of users, as ranges in order that do not overlap."""
    found: list[Range] = []
    for file in files:
        with contextlib.suppress(OSError):
            for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # a comment, or a line that means nothing
                    first, count = map(int, line.split(":")[1:])
                    found.append((first, first + count))
    merged: list[Range] = []
    for first, after in sorted(found):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(after, merged[-1][1]))
        else:
            merged.append((first, after))
    return merged


def is_taken(uid: int, shared: str = "/dev/shm") -> bool:
    """Whether a user or group with this id is known here, or has a process, or a file in shared memory."""
    return is_known(uid) or _has_process(uid) or _has_files(uid, shared)


def may_be_a_box(uid: int) -> bool:
    """Whether what belongs to this user may be left of a box that root started."""
    aside = any(first <= uid < after for first, after in subordinate_ranges())
    return FIRST_UID <= uid < LAST_UID and not aside and not is_known(uid)


def is_known(uid: int) -> bool:
    """Whether there is a user or a group with this id, in the machine's files or in a directory that it asks."""
    import grp
    import pwd

    for look in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look(uid)
            return True
    return False


def _has_process(uid: int) -> bool:
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True


def _has_files(uid: int, folder: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone meanwhile
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    return True
    return False
