"""What a command and all processes below it use: seconds, processor seconds, memory."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from graders.sandbox.outside.memory import process_tree
from graders.sandbox.outside.memory_cgroup import own_cgroup


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


@contextmanager
def _control_group() -> Iterator[Path | None]:
    """A new control group that counts processor time, below that of this process; None where none can be made."""
    for controller, name in (("cpuacct", "cpuacct.usage"), ("", "cpu.stat")):
        group = (own_cgroup(Path("/proc/self"), controller) or Path("/nowhere")) / f"hookwork-benchmark-{os.getpid()}"
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
        with suppress(psutil.Error):  # it has ended
            total += psutil.Process(pid).memory_full_info().pss
    return total / 1e6


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
        self._seen: dict[int, tuple[int, float, float]] = {}  # pid: parent, own seconds, those of ended children

    def look(self, root: int, *, memory: bool) -> None:
        pids = process_tree(root)
        for pid in pids:
            with suppress(psutil.Error):  # it has ended
                process = psutil.Process(pid)
                parent = self._seen[pid][0] if pid in self._seen else process.ppid()
                times = process.cpu_times()
                self._seen[pid] = parent, times.user + times.system, times.children_user + times.children_system
        if memory:
            self.peak = max(self.peak, proportional(pids))

    def cpu(self, root: int) -> float:
        """Processor seconds of a process and all below it, as far as they were seen."""
        children: dict[int, list[int]] = {}
        for pid, (parent, _, _) in self._seen.items():
            children.setdefault(parent, []).append(pid)

        def seconds(pid: int) -> float:
            _, own, waited_for = self._seen[pid]
            return own + max(waited_for, sum(map(seconds, children.get(pid, ()))))

        return seconds(root) if root in self._seen else 0.0
