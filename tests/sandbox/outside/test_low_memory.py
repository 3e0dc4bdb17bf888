"""Which box has to end when the machine itself runs short of memory."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graders.sandbox.outside.low_memory import LEAST_HELD, LowMemoryGuard, is_short
from graders.sandbox.outside.runner import BoxRunner, Transcript
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.limits import MIB, Limits


class Held:
    """A bound of a box that holds so much."""

    pause = 0.1

    def __init__(self, size: int) -> None:
        self.size = size

    def is_exceeded(self) -> bool:
        return False

    def held_bytes(self) -> int:
        return self.size

    def close(self) -> None:
        pass


def a_guard(*boxes: Held, short: bool = True) -> LowMemoryGuard:
    guard = LowMemoryGuard(lambda: short)
    for box in boxes:
        guard.add(box)
    return guard


def test_the_box_that_holds_most_ends_and_no_other_meanwhile() -> None:
    small, large, middle = (Held(LEAST_HELD * part) for part in (1, 3, 2))
    guard = a_guard(small, large, middle)
    assert [guard.must_end(box) for box in (small, large, middle)] == [False, True, False]
    large.size = 0  # its processes have ended, and it is about to be closed
    assert [guard.must_end(box) for box in (small, middle)] == [False, False]
    guard.remove(large)
    assert [guard.must_end(box) for box in (small, middle)] == [False, True]  # if the machine is still short


def test_no_box_ends_where_there_is_memory_or_it_holds_little() -> None:
    for box, short in ((Held(LEAST_HELD * 100), False), (Held(LEAST_HELD - 1), True)):
        assert not a_guard(box, short=short).must_end(box)


@pytest.mark.parametrize(
    ("available", "total", "short"),
    [(200, 4096, True), (300, 4096, False), (3000, 131072, True), (5000, 131072, False)],
)
def test_the_machine_is_short_of_memory(available: int, total: int, short: bool) -> None:
    assert is_short(available * MIB, total * MIB) is short


@pytest.mark.skipif(sys.platform != "linux", reason="needs forked boxes")
def test_a_neighbour_goes_on_and_what_gave_way_is_run_once_more(
    box_modules: Path, warm: WarmProcess, tmp_path: Path
) -> None:
    """The machine seems short of memory while a box holds 300 MiB, which it does in both of its runs."""
    guard = LowMemoryGuard(lambda: any(box.held_bytes() > 300 * MIB for box in guard._boxes))
    runs = tmp_path / "runs"
    hungry = f"import os, time\nopen({str(runs)!r}, 'a').write('x')\nkept = b'x' * (350 << 20)\ntime.sleep(30)"
    modest = "import time\ntime.sleep(4)"

    def run(cell: str) -> Transcript:
        return BoxRunner(box_modules, "D", Limits(), warm, guard=guard).run([cell], [])

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, [hungry, modest])
    assert (first.ended, second.ended) == ("over-limit", "finished")
    assert (
        first.message
        == "memory: this machine had hardly any left, and this notebook held the most of those that were running"
    )
    assert runs.read_text() == "xx"
    assert guard._boxes == []
