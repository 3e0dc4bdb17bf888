"""The conversation with a box, from outside: send the notebook, ask every probe, write all of it down.

An exercise is probed where it stands, right after the last cell that defines it: there its check stands, too. What
raises there is asked once more after the last cell, because what it needs may be defined further down.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graders.core.cells import defining_cell_by_name
from graders.core.exercise import Exercise, Inputs
from graders.run.box_process import Box, BoxDied, BoxOverLimit, BoxTimeout
from graders.run.start_failure import explain_start_failure
from graders.run.transcript import FROM_INSIDE
from graders.wire.data import encode
from graders.wire.draws import Rng
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

START_SECONDS = 30.0
SLACK_SECONDS = 5.0
"""What a box may take beyond the time of its notebook before it counts as hanging."""
MAX_NAMES = 16
"""In the head of a frame."""
LEAST_SECONDS = 1.0
"""A probe gets these, however little is left: most take a hundredth of it."""


@dataclass(frozen=True)
class Probe:
    """One question: a probe, its draw as data, and where it belongs. `name` is what the learner defines."""

    key: str
    name: str
    case: int
    source: str
    tree: Any
    body: bytes
    seed: int


def probes_for(exercises: Sequence[Exercise], draws: dict[str, list[Inputs]], seed: int) -> list[Probe]:
    """The probes of a lesson, one for each exercise and draw; `draws` maps keys to draws.

    Generators inside the box start from a seed of their own: the batch's seed stays outside.
    """
    found = []
    inner = Rng(seed, "generators inside the box").integer(0, 2**31)
    for exercise in exercises:
        for case, draw in enumerate(draws[exercise.key]):
            tree, body = encode(draw)
            found.append(
                Probe(
                    key=exercise.key,
                    name=exercise.name,
                    case=case,
                    source=exercise.box_source,
                    tree=tree,
                    body=body,
                    seed=inner,
                )
            )
    return found


def run_notebook(
    box: Box,
    cells: Sequence[str],
    probes: Sequence[Probe],
    limits: Limits,
    *,
    fork: bool,
    keep_outputs: bool = False,
    slack_seconds: float = SLACK_SECONDS,
) -> list[Frame]:
    """The transcript of one submission in a box of its own. Never raises for what the notebook does."""
    started = time.monotonic()
    transcript: list[Frame] = []
    how, message = "finished", ""
    with box:
        try:
            _Conversation(box, limits, fork, slack_seconds, transcript, keep_outputs).run_and_ask(cells, probes)
        except BoxTimeout:
            how = "timed-out"
            message = f"the notebook did not come to its end in {limits.notebook_allowed:g} seconds"
        except FrameError as error:
            how, message = "suspect", str(error)
        except BoxOverLimit as error:
            how, message = "over-limit", str(error)
        except BoxDied:
            how, message = "died", "the process that ran the notebook ended before its time"
        if how != "finished" and not any(frame.type == "ready" for frame in transcript):
            how, message = (
                "not-started",
                f"the process for the notebook did not start: {explain_start_failure(box.errors())}",
            )
        # Not what it takes to end the box: the control sets the clocks by this, while the warm process is busy.
        seconds = round(time.monotonic() - started, 3)
    transcript.append(Frame({"type": "ended", "how": how, "message": message, "seconds": seconds}))
    return transcript


class _Conversation:
    """What is said to a box and what it answers, in order, all of it written to the transcript."""

    def __init__(
        self,
        box: Box,
        limits: Limits,
        fork: bool,
        slack_seconds: float,
        transcript: list[Frame],
        keep_outputs: bool = False,
    ) -> None:
        self._box, self._limits, self._fork, self._transcript = box, limits, fork, transcript
        self._keep_outputs = keep_outputs
        self._slack = slack_seconds * limits.pace
        self._cells = 0
        self._ends = 0.0

    def run_and_ask(self, cells: Sequence[str], probes: Sequence[Probe]) -> None:
        """Run the cells, ask every exercise where it stands, and once more after the last cell what raised there."""
        exercises: dict[str, list[Probe]] = {}
        for probe in probes:
            exercises.setdefault(probe.key, []).append(probe)
        # As many cells as have to run before the name is defined for good: all, where none is seen to define it.
        home = defining_cell_by_name(cells)
        places = {key: home.get(cases[0].name, len(cells) - 1) + 1 for key, cases in exercises.items()}
        self._send_notebook(cells)
        for place in sorted(set(places.values())):
            self._run_cells_to(place)
            for key in [key for key in exercises if places[key] == place]:
                if self._ask_exercise(exercises[key], len(exercises)) or place == len(cells):
                    del exercises[key]
        self._run_cells_to(len(cells))
        for left, key in zip(range(len(exercises), 0, -1), exercises):
            self._ask_exercise(exercises[key], left)
        self._send_frame(Frame({"type": "end"}))
        while (frame := self._receive_frame()).type == "output" and self._keep_outputs:
            continue
        _require_type(frame, "probe-end")

    def _send_notebook(self, cells: Sequence[str]) -> None:
        head = {"type": "notebook", "limits": asdict(self._limits), "keep_outputs": self._keep_outputs}
        request = Frame(head, json.dumps(list(cells)).encode())
        self._ends = time.monotonic() + START_SECONDS
        self._send_frame(request)
        _require_type(self._receive_frame(), "ready")
        self._ends = time.monotonic() + self._limits.notebook_seconds
        self._box.watch_memory()

    def _run_cells_to(self, end: int) -> None:
        """Have the cells before `end` run."""
        self._cells = end
        self._send_frame(Frame({"type": "run", "cells": end}))
        while (frame := self._receive_frame()).type != "cells-done":
            _require_type(frame, "cell", "restart")

    def _ask_exercise(self, cases: Sequence[Probe], left: int) -> bool:
        """Ask the probes of one exercise until one comes to no end; whether there is no need to ask it elsewhere.

        All are sent at once: a message through Jupyter takes three times as long as most probes. One that raised or
        found nothing may do better further down, where what it needs is defined. So many exercises are `left`, this one
        among them: no one may take more than its share of the time that is left.
        """
        nonces = [secrets.token_hex(16) for _ in cases]
        question = {
            "type": "probe",
            "exercise": cases[0].key,
            "source": cases[0].source,
            "seed": cases[0].seed,
            "fork": self._fork,
            "cases": [[nonce, probe.tree, len(probe.body)] for nonce, probe in zip(nonces, cases, strict=True)],
            "pace": self._limits.pace,
            "seconds": {
                "most": self._limits.probe_seconds,
                "least": LEAST_SECONDS * self._limits.pace,
                "together": (self._ends - time.monotonic()) / left,
            },
        }
        self._send_frame(Frame(question, b"".join(probe.body for probe in cases)))
        for probe, nonce in zip(cases, nonces, strict=True):
            asked = {"type": "asked", "key": probe.key, "case": probe.case, "cells": self._cells, "nonce": nonce}
            self._transcript.append(Frame(asked))
            # A kernel that was lost is started again for the next exercise, and all cells run again with it.
            while (frame := self._receive_frame()).type in ("cell", "restart"):
                continue
            _require_type(frame, "seen", "raised")
            if frame.head.get("nonce") != nonce:
                raise FrameError("an answer to a question that was not asked")
            if frame.type != "seen":
                return frame.head.get("status") not in ("raised", "not-attempted")
        return True

    @property
    def _deadline(self) -> float:
        """When a box that neither takes a request nor answers one is ended."""
        return self._ends + self._slack

    def _send_frame(self, frame: Frame) -> None:
        self._box.send(frame, self._deadline)

    def _receive_frame(self) -> Frame:
        frame = self._box.receive(self._deadline)
        if frame.type not in FROM_INSIDE:
            raise FrameError("the box sent a frame of an unknown type")
        _require_small_head(frame)
        self._transcript.append(frame)
        return frame


def _require_small_head(frame: Frame) -> None:
    """Raise `FrameError` for a head with more in it than what is seen, texts and numbers.

    Empty lists or names without end take thirty times the memory of their bytes, and a transcript is kept as it came.
    """
    inner = [name for name, value in frame.head.items() if type(value) in (list, dict)]
    if len(frame.head) > MAX_NAMES or inner != ["tree"] * (frame.type == "seen" and "tree" in inner):
        raise FrameError(f"a frame of type {frame.type} with more in its head than it may hold")


def _require_type(frame: Frame, *types: str) -> None:
    if frame.type not in types:
        raise FrameError(f"a frame of type {frame.type[:20]!r} where {' or '.join(types)} was due")
