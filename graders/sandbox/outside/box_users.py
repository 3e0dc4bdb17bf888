"""User ids for boxes, when we are root. Each is one that nobody else on this machine has or may be given.

Everything that belongs to a box's user is ended and removed with the box, so the id must not be somebody else's.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from graders.sandbox.inside.confine import CannotConfine

FIRST_UID, LAST_UID = 400_000, 2_000_000_000
_OF_A_PROCESS = 64
"""How many numbers each process has for its boxes. They are used in turn, and then again."""
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")
_started = itertools.count()

Range = tuple[int, int]
"""The first id, and the one after the last: half-open, like Python's `range`."""


def free_user() -> int:
    """An id for one box, to be its user and its group. Raises `CannotConfine` if none is free."""
    return first_free(_own_box_numbers(), subordinate_ranges(), is_taken)


def own_number() -> int:
    """A number that no other living box has, as long as this process has at most 64 boxes."""
    return os.getpid() * _OF_A_PROCESS % 100_000_000 + next(_started) % _OF_A_PROCESS


def _own_box_numbers() -> Iterable[int]:
    return (own_number() for _ in range(_OF_A_PROCESS))


def first_free(numbers: Iterable[int], ranges: Sequence[Range], taken: Callable[[int], bool]) -> int:
    """The first id for one of these numbers that is not taken. Raises `CannotConfine` if none is free.

    Different numbers give different ids, and none lies within `ranges`, which are sorted and do not overlap.
    """
    for number in numbers:
        uid = FIRST_UID + number
        for first, after in ranges:  # in order: ids in or above a range move up by its length
            if after > FIRST_UID and uid >= (start := max(first, FIRST_UID)):
                uid += after - start
        if uid < LAST_UID and not taken(uid):
            return uid
    raise CannotConfine(errno.EAGAIN, f"no user id between {FIRST_UID} and {LAST_UID} is free for a box")


@functools.cache
def subordinate_ranges(files: Sequence[str] = _SUBORDINATE) -> list[Range]:
    """The ids that are reserved for users' containers, as sorted ranges that do not overlap."""
    found: list[Range] = []
    for file in files:
        with contextlib.suppress(OSError):
            for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # a comment, or an invalid line
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
    """Whether there is a user or group with this id, or a process or a file in the folder `shared` belongs to it."""
    return is_known(uid) or _has_process(uid) or _has_files(uid, shared)


def may_be_a_box(uid: int) -> bool:
    """Whether this id may have been a box's, so that what belongs to it may be left over from one."""
    aside = any(first <= uid < after for first, after in subordinate_ranges())
    return FIRST_UID <= uid < LAST_UID and not aside and not is_known(uid)


def is_known(uid: int) -> bool:
    """Whether there is a user or a group with this id, in the machine's files or a directory service."""
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
