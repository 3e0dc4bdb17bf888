"""The conversation with a box, from outside: sends the notebook, asks every probe, writes down the transcript.

An exercise is probed right after the last cell that defines it, where its check is in the notebook. If it raises there,
it is asked again after the last cell, because something it needs may be defined further down.
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
from graders.core.transcript import FROM_INSIDE
from graders.sandbox.outside.box_process import Box, BoxDied, BoxOverLimit, BoxTimeout
from graders.sandbox.outside.start_failure import explain_start_failure
from graders.wire.data import encode
from graders.wire.draws import Rng
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

START_SECONDS = 30.0
"""How long a kernel may take to start."""
SLACK_SECONDS = 5.0
"""What a box may take beyond the time of its notebook before it counts as hanging."""
MAX_NAMES = 16
"""The most entries in the head of a frame."""
LEAST_SECONDS = 1.0
"""The time that every probe gets, even if less is left. Most need a hundredth of it."""


@dataclass(frozen=True)
class Probe:
    """One question: an exercise's key and case, the probe's source, and its draw, encoded as `tree` and `body`.

    `name` is what the learner defines; `seed` is for the random generators in the box.
    """

    key: str
    name: str
    case: int
    source: str
    tree: Any
    body: bytes
    seed: int


def probes_for(exercises: Sequence[Exercise], draws: dict[str, list[Inputs]], seed: int) -> list[Probe]:
    """The probes of a lesson, one for each exercise and draw; `draws` maps the keys of exercises to their draws.

    Random generators in the box get a seed derived from `seed`, so that the batch's own seed stays outside.
    """
    found = []
    inner = Rng(seed, "generators inside the box").integer(0, 2**31)
    for exercise in exercises:
        for case, draw in enumerate(draws[exercise.key]):
            tree, body = encode(draw)
            found.append(Probe(exercise.key, exercise.name, case, exercise.box_source, tree, body, inner))
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
    """Run a notebook in `box` and return its transcript. Never raises because of what the notebook does."""
    started = time.monotonic()
    transcript: list[Frame] = []
    how, message = "finished", ""
    with box:
        try:
            _Conversation(box, limits, fork, slack_seconds, transcript, keep_outputs).run_and_ask(cells, probes)
        except BoxTimeout:
            how = "timed-out"
            message = f"the notebook did not finish within {limits.notebook_allowed:g} seconds"
        except FrameError as error:
            how, message = "suspect", str(error)
        except BoxOverLimit as error:
            how, message = "over-limit", str(error)
        except BoxDied:
            how, message = "died", "the process that ran the notebook ended unexpectedly"
        if how != "finished" and not any(frame.type == "ready" for frame in transcript):
            how, message = (
                "not-started",
                f"the process for the notebook did not start: {explain_start_failure(box.errors())}",
            )
        # Ending the box does not count: the control sets time limits by this, and the warm process may be busy then.
        seconds = round(time.monotonic() - started, 3)
    transcript.append(Frame({"type": "ended", "how": how, "message": message, "seconds": seconds}))
    return transcript


class _Conversation:
    """Sends requests to a box and writes its answers to the transcript, in order."""

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
        """Run the cells, ask each exercise where it is defined, and those that raised again after the last cell."""
        exercises: dict[str, list[Probe]] = {}
        for probe in probes:
            exercises.setdefault(probe.key, []).append(probe)
        # How many cells have to run before an exercise is asked: all, if no cell seems to define it.
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
        """Run the cells before index `end` that have not run yet."""
        self._cells = end
        self._send_frame(Frame({"type": "run", "cells": end}))
        while (frame := self._receive_frame()).type != "cells-done":
            _require_type(frame, "cell", "restart")

    def _ask_exercise(self, cases: Sequence[Probe], left: int) -> bool:
        """Ask the probes of one exercise until one does not finish. Returns whether the answer is final.

        It is not final if a probe raised or found no definition: further down, what it needs may be defined. All probes
        are sent at once, since a message through Jupyter takes three times as long as most probes. `left` is how many
        exercises are still to be asked, with this one: each may take its share of the remaining time.
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
            # If the kernel was lost, it is started again for this exercise, and runs the cells again.
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
        """When to give up on a box, on the monotonic clock."""
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
    """Raise `FrameError` if a head holds more than a few texts and numbers and, if it was `seen`, a tree.

    Endless empty lists or names take thirty times the memory of their bytes, and the transcript keeps every head.
    """
    inner = [name for name, value in frame.head.items() if type(value) in (list, dict)]
    if len(frame.head) > MAX_NAMES or inner != ["tree"] * (frame.type == "seen" and "tree" in inner):
        raise FrameError(f"a frame of type {frame.type} with more in its head than is allowed")


def _require_type(frame: Frame, *types: str) -> None:
    if frame.type not in types:
        raise FrameError(f"a frame of type {frame.type[:20]!r} where {' or '.join(types)} was expected")
