"""Fixtures of the project's own tests."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.boxes import Boxes
from graders.sandbox.outside.warm_process import WarmProcess

# Programs that the tests start may keep their bytecode, whatever is usual here: compiling anew costs seconds each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "PYTEST_XDIST_WORKER" in os.environ:  # the threads of several processes wait for each other, and are busy meanwhile
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a shell starts in the background ignores Ctrl-C, and so would the programs to which tests send one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine may be slow: how long an example takes says nothing of what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LONGEST = ("test_catalogue.py", "test_containers.py", "test_disturbed.py", "test_course.py", "test_planted.py",
           "test_whole_class.py", "test_own_lesson.py", "test_telling.py", "test_slurm.py")  # fmt: skip
"""Files whose slow tests take minutes, or one. They come first, so that processes that share the files end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow tests of the longest files first; everything else stays in its order."""

    def place(item: pytest.Item) -> int:
        long = item.path.name in LONGEST and item.get_closest_marker("slow")
        return LONGEST.index(item.path.name) if long else len(LONGEST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def box_modules() -> Iterator[Path]:
    """The folder of modules that exist inside a box."""
    with box_modules_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def warm(box_modules: Path) -> Iterator[WarmProcess]:
    """The process from which boxes are forked, as the commands do it."""
    with WarmProcess(box_modules) as process:
        yield process


@pytest.fixture(scope="session")
def prestarted(warm: WarmProcess) -> Callable[..., AbstractContextManager[Boxes]]:
    """In place of `prestarted_boxes`: boxes that are forked from that process."""
    return lambda **_: contextlib.nullcontext(Boxes(warm))


GradersHere = Callable[..., tuple[int, str, str]]


@pytest.fixture
def graders_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> GradersHere:
    """`pytest graders` in this process, which has imported torch: the exit code, and what it printed."""
    monkeypatch.chdir(Path(__file__).parent.parent)
    for name in [name for name in os.environ if name.startswith("PYTEST_") and name != "PYTEST_CURRENT_TEST"]:
        monkeypatch.delenv(name)

    def run(*arguments: str | Path, tests: Sequence[str] = ("graders",)) -> tuple[int, str, str]:
        code = pytest.main([*tests, "-p", "no:cacheprovider", *map(str, arguments)])
        return (int(code), *capsys.readouterr())

    return run
