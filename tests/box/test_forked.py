from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

import pytest
import torch

from graders.box import forked
from graders.box.frames import MAX_BODY
from graders.box.probing import Answer

pytestmark = pytest.mark.skipif(not forked.available, reason="probes fork on Linux alone")


def ended(message: str, status: str = "crashed") -> dict[str, Any]:
    """The head of an answer of a probe that did not come to its end."""
    return {"type": "raised", "status": status, "message": message}


def test_the_answer_of_the_child_comes_back() -> None:
    found = forked.in_fork(lambda: Answer({"type": "seen", "pid": os.getpid()}, b"body" * 1000), 30)
    assert found.head["pid"] != os.getpid()
    assert found.body == b"body" * 1000


def test_nothing_that_the_child_did_is_left() -> None:
    values = [1]

    def work() -> Answer:
        values.append(2)
        torch.set_default_dtype(torch.float64)
        return Answer({"type": "seen", "values": values})

    assert forked.in_fork(work, 30).head["values"] == [1, 2]
    assert values == [1]
    assert torch.get_default_dtype() == torch.float32


def test_a_child_that_exits_is_crashed() -> None:
    def work() -> Answer:
        os._exit(3)

    assert forked.in_fork(work, 30).head == ended("the process exited (with code 3) before there was a result")


def test_a_child_that_is_killed_is_crashed() -> None:
    def work() -> Answer:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    assert forked.in_fork(work, 30).head == ended("the process was ended by the signal SIGKILL")


def test_a_child_that_loops_is_timed_out_and_gone() -> None:
    reader, writer = os.pipe()

    def work() -> Answer:
        os.write(writer, b"%d" % os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)

    assert forked.in_fork(work, 0.3).head == ended("no result after 0.3 seconds", "timed-out")
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.read(reader, 100)), 0)
    os.close(reader)
    os.close(writer)


def test_what_the_child_started_ends_with_it() -> None:
    def work() -> Answer:
        return Answer({"type": "seen", "pid": subprocess.Popen(["sleep", "60"]).pid})

    pid = forked.in_fork(work, 30).head["pid"]
    for _ in range(200):
        if is_gone(pid):
            break
        time.sleep(0.05)
    assert is_gone(pid)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_an_exception_in_the_work_never_goes_on_in_the_child() -> None:
    def work() -> Answer:
        raise ValueError

    assert forked.in_fork(work, 30).head == ended("the process exited (with code 0) before there was a result")


def test_more_than_a_frame_may_hold_is_no_answer() -> None:
    found = forked.in_fork(lambda: Answer({"type": "seen"}, bytes(MAX_BODY + 1)), 30)
    assert found.head["status"] == "crashed"


def test_the_child_computes_with_one_thread() -> None:
    def work() -> Answer:
        return Answer({"type": "seen", "threads": torch.get_num_threads(), "sum": torch.ones(1 << 20).sum().item()})

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.ones(1 << 20).sum()
        assert forked.in_fork(work, 30).head == {"type": "seen", "threads": 1, "sum": float(1 << 20)}
    finally:
        torch.set_num_threads(before)
