"""What a box may say: nothing that takes far more memory than its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graders.run.box_process import Box
from graders.run.conversation import MAX_NAMES, run_notebook
from graders.wire.frames import Frame
from graders.wire.limits import Limits


class SayingBox(Box):
    """Says what it was told to, whatever it is asked."""

    def __init__(self, *frames: Frame) -> None:
        super().__init__(Path())
        self._saying: Iterator[Frame] = iter(frames)

    def __enter__(self) -> SayingBox:
        return self

    def __exit__(self, *_: object) -> None:
        """There is no process."""

    def send(self, frame: Frame, deadline: float) -> None:
        """Take anything."""

    def receive(self, deadline: float) -> Frame:
        return next(self._saying)

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
    assert ended(**more) == ("suspect", "a frame of type cell with more in its head than it may hold")


def test_texts_and_numbers_are_what_a_head_holds() -> None:
    assert ended(message="x" * 60_000, line="", more=1) == ("finished", "")
