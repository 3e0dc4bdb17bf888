"""A notebook that takes the processor from its neighbours costs them nothing but time."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graders.core.transcript import read_transcript
from graders.sandbox.outside.processor import ProcessorWatch
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import WARM_TIERS, missing_for_tier
from graders.sandbox.outside.turns import Turns
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.limits import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked, and /proc is read")

TIERS = [tier for tier in WARM_TIERS if not missing_for_tier(tier, warm=True)]
GREEDY = """
import os
for _ in range(50):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
while True:
    pass
"""
WORK = "import time\nsince = time.process_time()\nwhile time.process_time() - since < 0.7:\n    pass"


def test_one_that_runs_alone_waits_for_the_others_and_they_for_it() -> None:
    turns, order = Turns(), list[str]()

    def run(name: str, alone: bool) -> bool:
        with turns.take(alone=alone) as turn:
            order.append(name)
        return turn.shared

    with ThreadPoolExecutor(2) as pool, turns.take() as first:
        with turns.take() as second:
            alone = pool.submit(run, "alone", True)
            while not turns._alone:
                time.sleep(0.01)
            later = pool.submit(run, "later", False)
        time.sleep(0.1)
        order.append("first")
    assert (alone.result(), later.result()) == (False, False)
    assert (first.shared, second.shared) == (True, True)
    assert order == ["first", "alone", "later"]


def busy_process(gate: int) -> int:
    """A child in a session of its own that keeps the first processor busy, from the opening of the gate to its end."""
    if child := os.fork():
        return child
    os.setsid()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.read(gate, 1)
    while True:
        pass


def test_a_process_is_starved_where_many_others_are_busy() -> None:
    gate, opens = os.pipe()  # to fork among busy ones would take many seconds
    children = [busy_process(gate) for _ in range(15)]
    os.write(opens, bytes(15))
    try:
        watch, until = ProcessorWatch(children[0]), time.monotonic() + 60
        while watch.starved_seconds <= 1 and time.monotonic() < until:
            time.sleep(0.1)
            watch.look()
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(gate), os.close(opens)
    assert watch.starved_seconds > 1


def test_a_process_that_sleeps_is_not_starved() -> None:
    stop = threading.Event()
    watch = ProcessorWatch(os.getpid())
    for _ in range(25):
        stop.wait(0.1)
        watch.look()
    assert watch.starved_seconds == 0


@pytest.mark.slow  # clocks run out
@pytest.mark.parametrize("tier", TIERS)
def test_the_neighbour_of_a_greedy_notebook_is_run_again_alone(tier: str, box_modules: Path, warm: WarmProcess) -> None:
    runner = BoxRunner(box_modules, tier, Limits(cell_seconds=8, probe_seconds=4), warm, turns=Turns())
    with ThreadPoolExecutor(2) as pool:
        greedy = pool.submit(runner.run, [GREEDY], [])
        time.sleep(1.5)
        neighbour = pool.submit(runner.run, [WORK], [])
    assert [cell.status for cell in read_transcript(neighbour.result().frames).cells] == ["ok"]
    assert greedy.result().ended != "not-started"
