"""Canaries for the self-test of a box: files and sockets of ours in places that nothing in a box may reach."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graders.sandbox.outside.leftovers import take_lock
from graders.sandbox.outside.visible import package_copies

PREFIX = ".hookwork-canary-"

LOOKED_AT = 200
"""In a folder where we cannot create a file, this many entries at most are searched for an existing one."""


@dataclass
class Canaries:
    """Files and sockets that have to stay untouched."""

    outside: str
    """An empty file outside of the box that everybody may write to."""
    closed: Mapping[str, list[str]]
    """Maps what would be a breach, in words, to the files that no notebook may read or change."""
    server: socket.socket
    listeners: Sequence[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port of `server`, which listens on this machine."""
        return int(self.server.getsockname()[1])

    @property
    def sockets(self) -> list[str]:
        """The paths of the sockets, to which everybody may connect or send."""
        return [listener.getsockname() for listener in self.listeners]

    def what_was_reached(self) -> list[str]:
        """What was reached although it must not be, in words; empty if nothing was."""
        found = {
            "something came out that the self-test did not see": os.path.getsize(self.outside) > 0,
            "reaching a server on this machine": _was_visited(self.server),
            "reaching the sockets of other programs": any(map(_was_visited, self.listeners)),
        }
        return [what for what, reached in found.items() if reached]


@contextlib.contextmanager
def canaries(private: Sequence[str] | None) -> Iterator[Canaries]:
    """The canaries for one self-test, in temporary folders and in the `private` ones; removed afterwards.

    With None, for a tier that hides no files, there are none in `closed`.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        folder.chmod(0o755)
        outside, submission = folder / "outside", folder / "submission.ipynb"
        for file in (outside, submission):
            file.touch()
            file.chmod(0o666)
        closed = {} if private is None else {"reading submissions": [str(submission)]} | _closed_files(stack, private)
        listeners = [
            listener for place in _places_of_sockets(stack, folder) for listener in _listening_sockets(stack, place)
        ]
        yield Canaries(str(outside), closed, server, listeners)


def _closed_files(stack: contextlib.ExitStack, private: Sequence[str]) -> dict[str, list[str]]:
    found = {
        f"reading or changing what lies in {place} (move it out of the folders of Python and of the system)": files
        for place in private
        if (files := _files_in(stack, place))
    }
    return found | {f"reading the solutions and graders in {copy}": _package_files(copy) for copy in package_copies()}


def _files_in(stack: contextlib.ExitStack, place: str) -> list[str]:
    """A new file in the folder `place`, or one that is there if none can be created. If `place` is a file, itself."""
    if not os.path.isdir(place):
        return [place] if os.path.exists(place) else []
    with contextlib.suppress(OSError):
        for left_behind in Path(place).glob(PREFIX + "*"):
            _remove_unlocked(left_behind)
        return [_locked_canary(stack, place)]
    entries = (file for file, _ in zip(Path(place).rglob("*"), range(LOOKED_AT)))
    return [str(next((file for file in entries if file.is_file()), place))]


def _locked_canary(stack: contextlib.ExitStack, place: str) -> str:
    """A new file that is locked while this process lives. If that is killed, the next self-test may remove the file."""
    while True:
        descriptor, canary = tempfile.mkstemp(dir=place, prefix=PREFIX)
        stack.callback(os.close, descriptor)
        stack.callback(Path(canary).unlink, missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock = take_lock(Path(canary))
            if lock is not None:
                stack.callback(os.close, lock)
            if os.fstat(descriptor).st_nlink:  # no other self-test removed it before it was locked
                os.chmod(canary, 0o666)
                return canary


def _remove_unlocked(canary: Path) -> None:
    with contextlib.suppress(OSError):  # another process removed it first
        if (lock := take_lock(canary)) is not None:
            canary.unlink()
            os.close(lock)


def _package_files(copy: Path) -> list[str]:
    """A solution, a grader and an answer from a copy of this package, those of them that it has."""
    patterns = (
        "course/solutions/*.ipynb",
        "../solutions/*.ipynb",
        "exercises/lesson_*/test_*.py",
        "../tests/answers/*/*.py",
    )
    return [str(file) for pattern in patterns for file in sorted(copy.glob(pattern))[:1]]


def _places_of_sockets(stack: contextlib.ExitStack, folder: Path) -> Iterator[Path]:
    """Folders where programs keep sockets that are open to everybody. We can write to some only as root."""
    yield folder
    for place in ("/run", "/var/tmp"):
        with contextlib.suppress(OSError):
            found = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place)))
            found.chmod(0o755)
            yield found


def _listening_sockets(stack: contextlib.ExitStack, folder: Path) -> Iterator[socket.socket]:
    """Sockets in a folder to which everybody may connect or send."""
    if not hasattr(socket, "AF_UNIX"):
        return
    for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        listener.bind(str(folder / name))
        (folder / name).chmod(0o777)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        yield listener


def _was_visited(server: socket.socket) -> bool:
    return bool(select.select([server], [], [], 0.01)[0])
