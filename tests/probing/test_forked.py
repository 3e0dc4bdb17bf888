from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from graders.probing.asking import Answer
from graders.probing.forked import ForkedProbes
from graders.wire import forking
from graders.wire.frames import MAX_BODY, Frame
from tests.trouble import are_gone, is_gone

pytestmark = pytest.mark.skipif(not forking.can_fork, reason="probes fork on Linux alone")

REQUEST = Frame({"type": "probe"})


def in_fork(work: Callable[[], Answer], seconds: float) -> Answer:
    """The answer of a child of its own."""
    probes = ForkedProbes(lambda _: work())
    try:
        return probes.answer("90-a", REQUEST, seconds)
    finally:
        probes.end()


def ended(message: str, status: str = "crashed") -> dict[str, Any]:
    """The head of an answer of a probe that did not come to its end."""
    return {"type": "raised", "status": status, "message": message}


def test_the_answer_of_the_child_comes_back() -> None:
    found = in_fork(lambda: Answer({"type": "seen", "pid": os.getpid()}, b"body" * 1000), 30)
    assert found.head["pid"] != os.getpid()
    assert found.body == b"body" * 1000


def test_nothing_that_the_child_did_is_left() -> None:
    values = [1]

    def work() -> Answer:
        values.append(2)
        torch.set_default_dtype(torch.float64)
        return Answer({"type": "seen", "values": values})

    assert in_fork(work, 30).head["values"] == [1, 2]
    assert values == [1]
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(3), "exited with code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by signal SIGKILL"),
        (lambda: 1 / 0, "exited with code 0"),  # an exception never goes on in the child
    ],
)
def test_a_child_that_ends_without_an_answer_is_crashed(end: Callable[[], object], how: str) -> None:
    def work() -> Answer:
        end()
        raise AssertionError

    assert in_fork(work, 30).head == ended(f"the process that ran it {how}")


def test_a_child_that_loops_is_timed_out_and_gone() -> None:
    reader, writer = os.pipe()

    def work() -> Answer:
        os.write(writer, b"%d" % os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)

    assert in_fork(work, 0.3).head == ended("no result after 0.3 seconds", "timed-out")
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.read(reader, 100)), 0)
    os.close(reader)
    os.close(writer)


def test_what_the_child_started_ends_with_it() -> None:
    def work() -> Answer:
        return Answer({"type": "seen", "pid": subprocess.Popen(["sleep", "60"]).pid})

    assert are_gone([in_fork(work, 30).head["pid"]])


def test_more_than_a_frame_may_hold_is_no_answer() -> None:
    found = in_fork(lambda: Answer({"type": "seen"}, bytes(MAX_BODY + 1)), 30)
    assert found.head["status"] == "crashed"


def test_the_child_computes_with_one_thread() -> None:
    def work() -> Answer:
        return Answer({"type": "seen", "threads": torch.get_num_threads(), "sum": torch.ones(1 << 20).sum().item()})

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.ones(1 << 20).sum()
        assert in_fork(work, 30).head == {"type": "seen", "threads": 1, "sum": float(1 << 20)}
    finally:
        torch.set_num_threads(before)


class Counter:
    """Work that tells how often it was done in this process, and ends as the request says."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, request: Frame) -> Answer:
        self.done += 1
        if request.head.get("exit_after", 99) < self.done:
            os._exit(3)
        if request.head.get("loop_after", 99) < self.done:
            time.sleep(60)
        if request.head.get("raise_after", 99) < self.done:
            return Answer({"type": "raised", "status": "raised", "done": self.done})
        return Answer({"type": "seen", "done": self.done, "pid": os.getpid(), "size": len(request.body)})


@pytest.fixture
def probes() -> Iterator[ForkedProbes]:
    found = ForkedProbes(Counter())
    yield found
    found.end()


def asked(probes: ForkedProbes, exercise: str, seconds: float = 30.0, **how: int) -> dict[str, Any]:
    return probes.answer(exercise, Frame({"type": "probe", **how}), seconds).head


def test_the_probes_of_an_exercise_share_a_child_and_those_of_others_do_not(probes: ForkedProbes) -> None:
    first, second, other, back = (asked(probes, key) for key in ("90-a", "90-a", "90-b", "90-a"))
    assert [answer["done"] for answer in (first, second, other, back)] == [1, 2, 1, 1]
    assert first["pid"] == second["pid"]
    assert len({answer["pid"] for answer in (first, other, back)}) == 3
    assert is_gone(first["pid"])


@pytest.mark.parametrize("how", ["exit_after", "raise_after"])
def test_what_an_earlier_probe_left_behind_is_not_to_blame(probes: ForkedProbes, how: str) -> None:
    assert asked(probes, "90-a")["done"] == 1
    found = asked(probes, "90-a", **{how: 1})  # a second probe in one child would fail
    assert (found["type"], found["done"]) == ("seen", 1)
    assert asked(probes, "90-a", **{how: 0})["type"] == "raised"
    assert asked(probes, "90-a")["done"] == 1


def test_a_probe_that_loops_in_a_used_child_is_not_tried_again(probes: ForkedProbes) -> None:
    asked(probes, "90-a")
    started = time.monotonic()
    assert asked(probes, "90-a", seconds=0.5, loop_after=1) == ended("no result after 0.5 seconds", "timed-out")
    assert time.monotonic() - started < 5
    assert asked(probes, "90-a")["done"] == 1


def test_a_request_may_be_larger_than_a_pipe(probes: ForkedProbes) -> None:
    for size in (1 << 20, 3 << 20):
        found = probes.answer("90-a", Frame({"type": "probe"}, bytes(size)), 30)
        assert found.head["size"] == size


def test_a_child_that_has_died_meanwhile_is_replaced(probes: ForkedProbes) -> None:
    first = asked(probes, "90-a")
    os.kill(first["pid"], signal.SIGKILL)
    assert asked(probes, "90-a")["done"] == 1


def test_a_child_that_was_dismissed_ends_and_is_replaced(probes: ForkedProbes) -> None:
    probes.dismiss()  # there is none yet
    first = asked(probes, "90-a")
    probes.dismiss()
    os.waitid(os.P_PID, first["pid"], os.WEXITED | os.WNOWAIT)  # it ends, though nobody has waited for it
    assert asked(probes, "90-a")["done"] == 1
    assert is_gone(first["pid"])


def test_a_notebook_may_ignore_its_children(probes: ForkedProbes) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert [asked(probes, key)["done"] for key in ("90-a", "90-b")] == [1, 1]
        assert asked(probes, "90-c", seconds=0.5, loop_after=0) == ended("no result after 0.5 seconds", "timed-out")
    finally:
        signal.signal(signal.SIGCHLD, before)
