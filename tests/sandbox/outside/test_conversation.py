"""What a box may say, nothing that takes far more memory than its bytes, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graders.sandbox.inside.wall_checks import WALLS
from graders.sandbox.outside.box_process import Box, BoxDied, BoxOverLimit, BoxTimeout
from graders.sandbox.outside.canaries import canaries
from graders.sandbox.outside.conversation import MAX_NAMES, Probe, run_notebook
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tier_choice import self_test
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits


class SayingBox(Box):
    """Says what it was told to, whatever it is asked."""

    def __init__(self, *frames: Frame | Exception) -> None:
        super().__init__(Path())
        self._saying: Iterator[Frame | Exception] = iter(frames)

    def __enter__(self) -> SayingBox:
        return self

    def __exit__(self, *_: object) -> None:
        """There is no process."""

    def send(self, frame: Frame, deadline: float) -> None:
        """Take anything."""

    def receive(self, deadline: float) -> Frame:
        if isinstance(said := next(self._saying), Exception):
            raise said
        return said

    def errors(self) -> str:
        return "No space left on device"

    def watch_memory(self) -> None:
        """There is none."""


READY, DONE, END = (Frame({"type": name}) for name in ("ready", "cells-done", "probe-end"))


def ended(**head: Any) -> tuple[str, str]:
    """How a conversation ends in which a cell is told with more in its head, and why."""
    cell = Frame({"type": "cell", "cell": 0, "status": "ok", "message": "", "seconds": 0.1, **head})
    last = run_notebook(SayingBox(READY, cell, DONE, END), ["x = 1"], [], Limits(), fork=True)[-1]
    return last.head["how"], last.head["message"]


@pytest.mark.parametrize(
    "more",
    [{"tree": []}, {"message": [{}] * 9}, {"status": {"a": 1}}, {f"n{number}": 0 for number in range(MAX_NAMES)}],
)
def test_a_head_with_more_in_it_than_it_may_hold_is_suspect(more: dict[str, Any]) -> None:
    assert ended(**more) == ("suspect", "a frame of type cell with more in its head than is allowed")


def test_texts_and_numbers_are_what_a_head_holds() -> None:
    assert ended(message="x" * 60_000, line="", more=1) == ("finished", "")


@pytest.mark.parametrize(
    ("error", "how", "message"),
    [
        (BoxTimeout(), "timed-out", "the notebook did not finish within 300 seconds"),
        (BoxDied(), "died", "the process that ran the notebook ended unexpectedly"),
        (BoxOverLimit("memory: more than 2048 MiB"), "over-limit", "memory: more than 2048 MiB"),
        (FrameError("half a frame"), "suspect", "half a frame"),
    ],
)
def test_how_a_box_ends_is_told_with_all_that_it_said_before(error: Exception, how: str, message: str) -> None:
    cell = Frame({"type": "cell", "cell": 0, "status": "ok", "message": "", "seconds": 0.1})
    frames = run_notebook(SayingBox(READY, cell, error), ["x = 1"], [], Limits(notebook_seconds=300), fork=True)
    assert [frame.type for frame in frames] == ["ready", "cell", "ended"]
    assert (frames[-1].head["how"], frames[-1].head["message"]) == (how, message)


@pytest.mark.parametrize("spent", [0.0, 3.3, 19.9, 200.0])
@pytest.mark.parametrize("pace", [1.0, 1.118344])
def test_a_second_try_names_the_seconds_of_the_notebook_and_not_what_was_left_of_them(
    spent: float, pace: float
) -> None:
    limits = Limits(notebook_seconds=20).at_pace(pace).with_time_spent(spent)
    last = run_notebook(SayingBox(READY, BoxTimeout()), ["x = 1"], [], limits, fork=True)[-1]
    assert last.head["message"] == "the notebook did not finish within 20 seconds"
    assert limits.notebook_seconds == max(1.0, 20 * pace - spent)


def test_an_answer_to_a_question_that_was_not_asked_is_suspect() -> None:
    cell = Frame({"type": "cell", "cell": 0, "status": "ok", "message": "", "seconds": 0.1})
    probe = Probe(key="90-x", name="f", case=0, source="", tree=None, body=b"", seed=1)
    guessed = Frame({"type": "seen", "nonce": "0" * 32, "tree": None})
    last = run_notebook(SayingBox(READY, cell, DONE, guessed), ["f = 1"], [probe], Limits(), fork=True)[-1]
    assert (last.head["how"], last.head["message"]) == ("suspect", "an answer to a question that was not asked")


@dataclass(frozen=True)
class SayingRunner(BoxRunner):
    """Its boxes say what they were told to."""

    saying: tuple[Frame | Exception, ...] = ()

    def box(self, cells: Sequence[str] = ()) -> Box:
        return SayingBox(*self.saying)


with canaries(()) as _there:
    STANDING = dict.fromkeys((*WALLS, *_there.closed), True)
HELD = Frame({"type": "held", "held": STANDING})
FAILED = Frame({"type": "cell", "cell": 0, "status": "raised", "message": "no"})
COMPUTED = Frame({"type": "cell", "cell": 0, "status": "ok", "message": ""})


@pytest.mark.parametrize(
    ("saying", "found"),
    [
        ((COMPUTED, HELD), ""),
        ((COMPUTED, Frame({"type": "held", "held": {**STANDING, "files": 1}})), "not prevented: files"),
        ((COMPUTED, Frame({"type": "held", "held": {"files": True}})), "its self-test gave no answer"),
        ((COMPUTED, Frame({"type": "held"})), "its self-test gave no answer"),
        ((HELD,), "torch cannot compute in it ("),
        ((FAILED, COMPUTED, HELD), "torch cannot compute in it ("),
        ((BoxTimeout(),), "it did not start within "),
        ((BoxDied(),), "it does not start here ("),
        ((OSError(28, "No space left on device"),), "it does not start here ("),
    ],
)
def test_what_a_self_test_says_that_does_not_end_well(saying: tuple[Frame | Exception, ...], found: str) -> None:
    told = self_test(SayingRunner(Path(), "A", saying=saying))
    assert told.startswith(found)
    assert bool(told) == bool(found)
