"""Machines that fail: whatever is done to a run at whatever moment, the next one ends as one that nobody disturbed.

Moments are drawn, by number: `HOOKWORK_MOMENTS=200 pytest -m slow tests/test_disturbed.py -rP` tries so many and says
of each what was done. Nothing is left running by any.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from graders.sandbox.outside.memory import process_tree
from graders.sandbox.outside.tiers import missing_for_tier
from tests.answers import answers_of
from tests.make_class import SETUP, hand_in
from tests.notebooks import LESSON
from tests.trouble import Network, adopting, full_disk, no_network

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux knows them")]

MOMENTS = int(os.environ.get("HOOKWORK_MOMENTS", "4"))
TIERS = [tier for tier in "ABD" if not missing_for_tier(tier, warm=True)]
SHORT = ("--cell-timeout=4", "--probe-timeout=3", "--notebook-timeout=12")
STOP_SECONDS = 7.0
"""Longer than any probe or cell may take."""
END_SECONDS = 180.0
"""A run that takes longer than this hangs."""
CLEAN_SECONDS = 20.0
"""How long what is left of a killed run may take to end."""


@dataclass(frozen=True)
class Run:
    """A `hookwork grade` that is going on."""

    process: subprocess.Popen[str]

    def processes(self, *, inner: bool) -> list[int]:
        """The warm process; with `inner` what it has forked: boxes, their nests and kernels, and probes."""
        found = [pid for pid in process_tree(self.process.pid)[1:] if "graders.sandbox.inside" in arguments(pid)]
        return found[1:] if inner else found[:1]

    def one(self, rng: random.Random, *, inner: bool) -> int | None:
        """One of these, as soon as there is any; None when the run ends before."""
        while self.process.poll() is None:
            if found := self.processes(inner=inner):
                return rng.choice(found)
            time.sleep(0.005)
        return None


def arguments(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return ""


def kill(pid: int | None) -> str:
    if pid is None:
        return "nothing: the run was over"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return "killed"


def stop(pid: int | None) -> str:
    if pid is None:
        return "nothing: the run was over"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
        os.kill(pid, signal.SIGCONT)
    return f"stopped for {STOP_SECONDS:g} s"


DISTURBANCES: dict[str, Callable[[Run, random.Random], str]] = {
    "command killed": lambda run, rng: kill(run.process.pid),
    "warm process killed": lambda run, rng: kill(run.one(rng, inner=False)),
    "process of a box killed": lambda run, rng: kill(run.one(rng, inner=True)),
    "process of a box stopped": lambda run, rng: stop(run.one(rng, inner=True)),
    "disk full": lambda run, rng: full_disk(run.process.pid),
    "command stopped": lambda run, rng: stop(run.process.pid),
}


def grade(folder: Path, out: Path, tier: str) -> list[str]:
    return [sys.executable, "-m", "graders.cli", "grade", str(folder), "--out", str(out), "--seed=7", "--jobs=2",
            f"--isolation={tier}", "--allow-unisolated", *SHORT]  # fmt: skip


def files(out: Path) -> dict[str, str]:
    """The results as people read them, without what clocks say."""
    found = {}
    for file in out.rglob("*"):
        if file.is_file() and file.parent.name != "runs":
            text = file.read_text(encoding="utf-8")
            text = re.sub(r'"(created|seconds)": ?[^,\n]+', r'"\1": 0', text)
            found[str(file.relative_to(out))] = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:+.]+", "then", text)
    return found


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three students: right, wrong in two ways, and one who has not tried all."""
    folder, answers = tmp_path_factory.mktemp("class"), answers_of(LESSON)
    right = [sources[0] for sources in answers.right.values()]
    wrong = [next(iter(sources.values())) for sources in answers.wrong.values()]
    hand_in(folder / "ada", LESSON, [SETUP, *right])
    hand_in(folder / "ben", LESSON, [SETUP, wrong[0], right[1], wrong[2]])
    hand_in(folder / "cleo", LESSON, [SETUP, *right[:2]])
    return folder


Undisturbed = Callable[[str], tuple[dict[str, str], float]]


@pytest.fixture(scope="module")
def undisturbed(class_: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What a run in a tier writes when all is well, and how long it takes."""

    @functools.cache
    def run(tier: str) -> tuple[dict[str, str], float]:
        out, started = tmp_path_factory.mktemp("undisturbed") / "out", time.monotonic()
        subprocess.run(grade(class_, out, tier), check=True, capture_output=True)
        seconds = time.monotonic() - started
        found = files(out)
        assert len(found) == 8
        return found, seconds

    return run


@pytest.fixture
def adopted() -> Iterator[Callable[[], list[str]]]:
    """The processes that became children of this one, because whoever started them has ended."""
    before = set(children())
    with adopting():
        yield lambda: [f"{pid} {arguments(pid)}" for pid in set(children()) - before if not reaped(pid)]


def children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def wait_until_clean(left: Callable[[], list[str]]) -> None:
    end = time.monotonic() + CLEAN_SECONDS
    while (found := left()) and time.monotonic() < end:
        time.sleep(0.05)
    assert found == []


@pytest.mark.parametrize("number", range(MOMENTS))
def test_the_run_after_a_disturbance_ends_as_an_undisturbed_one(
    number: int, class_: Path, undisturbed: Undisturbed, adopted: Callable[[], list[str]], tmp_path: Path
) -> None:
    rng = random.Random(number)
    what, tier = list(DISTURBANCES)[number % len(DISTURBANCES)], rng.choice(TIERS)
    known, seconds = undisturbed(tier)
    moment, out = rng.uniform(0, seconds), tmp_path / "out"
    run = Run(subprocess.Popen(grade(class_, out, tier), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    time.sleep(moment)
    done = DISTURBANCES[what](run, rng)
    said, _ = run.process.communicate(timeout=END_SECONDS)
    code = run.process.returncode
    wait_until_clean(adopted)
    print(f"{number}: tier {tier}, {what} after {moment:.1f} of {seconds:.1f} s: {done}; exit code {code}")
    assert "Traceback" not in said, said
    assert code in (0, 2, 3, -signal.SIGKILL), said
    if code == 0:
        assert files(out) == known
    after = subprocess.run(grade(class_, out, tier), capture_output=True, text=True, timeout=END_SECONDS, check=False)
    assert after.returncode == 0, after.stdout + after.stderr
    assert files(out) == known
    wait_until_clean(adopted)


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster of this machine: a scheduler and two workers, of which nobody takes care."""

    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@contextlib.contextmanager
def cluster(folder: Path, inside: Sequence[str] = ()) -> Iterator[Cluster]:
    folder.mkdir()
    file, dask = folder / "scheduler.json", Path(sys.executable).with_name("dask")
    with contextlib.ExitStack() as resources:

        def start(*command: str) -> subprocess.Popen[bytes]:
            log = resources.enter_context((folder / f"{command[0]}.log").open("ab"))
            line = [*inside, str(dask), *command, "--no-dashboard", "--scheduler-file", str(file)]
            process = subprocess.Popen(line, stdout=log, stderr=log)
            resources.callback(process.wait, CLEAN_SECONDS)
            resources.callback(process.kill)  # one that has lost its network would wait for it
            return process

        scheduler = start("scheduler", "--host=127.0.0.1", "--port=0")
        while not file.exists():
            assert scheduler.poll() is None, (folder / "scheduler.log").read_text()
            time.sleep(0.1)
        yield Cluster(file, scheduler, [start("worker", "--nthreads=1", "--no-nanny") for _ in range(2)])


@pytest.fixture(scope="module")
def sound_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One that is left in peace: for the runs after a disturbance."""
    with cluster(tmp_path_factory.mktemp("sound") / "cluster") as found:
        yield found


def begun(run: Run, workers: list[subprocess.Popen[bytes]]) -> None:
    """Wait until a worker has a warm process, or the run is over."""
    while run.process.poll() is None and not any(
        "graders.sandbox.inside" in arguments(pid) for worker in workers for pid in process_tree(worker.pid)
    ):
        time.sleep(0.05)


BREAKS = ["worker killed", "scheduler killed", *([] if no_network() else ["network gone"])]


@pytest.mark.skipif(not find_spec("distributed"), reason="Dask is missing: pip install -e '.[slurm]'")
@pytest.mark.parametrize("number", range(max(len(BREAKS), MOMENTS // 10)))
def test_the_run_after_a_broken_cluster_ends_as_an_undisturbed_one(
    number: int,
    class_: Path,
    undisturbed: Undisturbed,
    sound_cluster: Cluster,
    adopted: Callable[[], list[str]],
    tmp_path: Path,
) -> None:
    rng, out, what = random.Random(number), tmp_path / "out", BREAKS[number % len(BREAKS)]
    known, _ = undisturbed(TIERS[0])
    moment = rng.uniform(0, 8)
    with contextlib.ExitStack() as resources:
        network = Network() if what == "network gone" else None
        if network:
            resources.callback(network.close)
        inside = network.inside if network else []
        first = resources.enter_context(cluster(tmp_path / "first", inside))
        line = [*inside, *grade(class_, out, TIERS[0]), f"--cluster={first.file}"]
        run = Run(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        begun(run, first.workers)
        time.sleep(moment)
        if network:
            network.switch("down")
        else:
            kill(first.scheduler.pid if what == "scheduler killed" else rng.choice(first.workers).pid)
        said, _ = run.process.communicate(timeout=END_SECONDS)
    code = run.process.returncode
    wait_until_clean(adopted)
    print(f"{number}: {what} {moment:.1f} s after the first box; exit code {code}")
    assert "Traceback" not in said, said
    if code:
        assert what != "worker killed"
        assert re.search(r"The scheduler of the cluster went away|No Dask scheduler answers", said), said
    line = [*grade(class_, out, TIERS[0]), f"--cluster={sound_cluster.file}"]
    after = subprocess.run(line, capture_output=True, text=True, timeout=END_SECONDS, check=False)
    assert after.returncode == 0, after.stdout + after.stderr
    assert files(out) == known
    wait_until_clean(adopted)
