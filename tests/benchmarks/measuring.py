"""What a command and all processes below it use: seconds, processor seconds, memory."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from graders.sandbox.outside.memory import process_tree

_TICK = os.sysconf("SC_CLK_TCK")
_PSS = re.compile(rb"^Pss:\s*(\d+) kB", re.M)


@dataclass(frozen=True)
class Usage:
    """Wall and processor seconds of a command, and the most memory that its processes held at once, in MB.

    The processor seconds are those of a control group where one can be made. Elsewhere they are a lower bound: of a
    process that was killed, what it used since it was last looked at is missing. Memory is the sum of proportional set
    sizes, so shared pages count once; None when it was not looked at.
    """

    seconds: float
    cpu: float
    peak: float | None = None


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, *, memory: bool = False
) -> Usage:
    """Run a command to its end; what it says goes to `log`. Raises `CalledProcessError` when it fails."""
    before = os.times()
    started = time.perf_counter()
    with log.open("wb") as output, _control_group() as group:
        entering = [] if group is None else ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs")]
        process = subprocess.Popen(
            [*entering, *command], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        with _watching(process.pid, memory=memory) as watcher:
            code = process.wait()
        counted = 0.0 if group is None else _counted(group)
    seconds = time.perf_counter() - started
    if code:
        raise subprocess.CalledProcessError(code, command, log.read_bytes()[-3000:].decode("utf-8", "replace"))
    after = os.times()
    waited_for = after.children_user + after.children_system - before.children_user - before.children_system
    return Usage(seconds, counted or max(waited_for, watcher.cpu(process.pid)), watcher.peak if memory else None)


_ACCOUNTS = {"cpuacct.usage": "/sys/fs/cgroup/cpuacct", "cpu.stat": "/sys/fs/cgroup"}
"""The file with a group's processor time, in cgroup v1 and v2, and where its hierarchy usually is."""


@contextmanager
def _control_group() -> Iterator[Path | None]:
    """A new control group that counts processor time, below that of this process; None where none can be made."""
    for name, hierarchy in _ACCOUNTS.items():
        group = Path(hierarchy) / _own_group(hierarchy).lstrip("/") / f"hookwork-benchmark-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / name).exists() and os.access(group / "cgroup.procs", os.W_OK):
                yield group
                return
        finally:
            _remove(group)
    yield None


def _own_group(hierarchy: str) -> str:
    controller = "" if hierarchy == "/sys/fs/cgroup" else hierarchy.rpartition("/")[2]
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _counted(group: Path) -> float:
    """Processor seconds of all processes that were ever in a group."""
    nanoseconds = group / "cpuacct.usage"
    if nanoseconds.exists():
        return int(nanoseconds.read_text()) / 1e9
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6  # usage_usec comes first


def _remove(group: Path) -> None:
    for _ in range(50):  # a process that was killed may take a moment to go
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.02)
        else:
            return


def proportional(pids: Iterable[int]) -> float:
    """Megabytes of these processes; what they share with others counts in proportion."""
    total = 0
    for pid in pids:
        with suppress(OSError):  # it has ended
            found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
            total += int(found[1]) if found else 0
    return total / 1000


@contextmanager
def _watching(root: int, *, memory: bool) -> Iterator[_Watcher]:
    watcher, done = _Watcher(), threading.Event()

    def watch() -> None:
        while not done.wait(0.05 if memory else 0.2):
            watcher.look(root, memory=memory)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        done.set()
        thread.join()


class _Watcher:
    """Looks at a tree of processes now and then.

    The system adds the processor time of a process to that of its parent when the parent waits for it. It does not
    where a box is killed as a whole, so what was last seen of each process has to do there.
    """

    def __init__(self) -> None:
        self.peak = 0.0
        self._seen: dict[int, tuple[int, int, int]] = {}  # pid: parent, own ticks, ticks of the children waited for

    def look(self, root: int, *, memory: bool) -> None:
        """Look once."""
        pids = process_tree(root)
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2]
                # Counted from the state: the parent, and user and system time of itself and of its children.
                words = fields.split()
                parent = self._seen[pid][0] if pid in self._seen else int(words[1])
                own, waited_for = sum(map(int, words[11:13])), sum(map(int, words[13:15]))
                self._seen[pid] = parent, own, waited_for
            except (OSError, IndexError):  # it has ended
                continue
        if memory:
            self.peak = max(self.peak, proportional(pids))

    def cpu(self, root: int) -> float:
        """Processor seconds of a process and all below it, as far as they were seen."""
        children: dict[int, list[int]] = {}
        for pid, (parent, _, _) in self._seen.items():
            children.setdefault(parent, []).append(pid)

        def ticks(pid: int) -> int:
            _, own, waited_for = self._seen[pid]
            return own + max(waited_for, sum(map(ticks, children.get(pid, ()))))

        return ticks(root) / _TICK if root in self._seen else 0.0
