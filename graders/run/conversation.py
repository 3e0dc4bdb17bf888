"""The conversation with a box, from outside: send the notebook, ask every probe, write all of it down."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graders.core.draws import Rng
from graders.core.exercise import Draw, Exercise
from graders.run.box import Box, BoxDied, BoxOverLimit, BoxTimeout
from graders.run.probe_source import probe_source
from graders.run.start_failure import explain
from graders.run.transcript import FROM_INSIDE
from graders.run.warm import WarmProcess
from graders.wire.data import encode
from graders.wire.forking import available as can_fork
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

START_SECONDS = 30.0
SLACK_SECONDS = 15.0
"""What a box may take beyond the limits of its cells and probes before it counts as hanging."""


@dataclass(frozen=True)
class Probe:
    """One question: a probe, its draw as data, and where it belongs."""

    key: str
    case: int
    source: str
    tree: Any
    body: bytes
    seed: int


def probes_for(exercises: Sequence[Exercise], draws: dict[str, list[Draw]], seed: int) -> list[Probe]:
    """The probes of a lesson, one for each exercise and draw; `draws` maps keys to draws.

    Generators inside the box start from a seed of their own: the batch's seed stays outside.
    """
    found = []
    inner = Rng(seed, "generators inside the box").integer(0, 2**31)
    for exercise in exercises:
        for case, draw in enumerate(draws[exercise.key]):
            tree, body = encode(draw)
            found.append(Probe(exercise.key, case, probe_source(exercise), tree, body, inner))
    return found


def run_notebook(
    cells: Sequence[str],
    probes: Sequence[Probe],
    limits: Limits,
    kit: Path,
    *,
    tier: str = "D",
    fork: bool = can_fork,
    warm: WarmProcess | None = None,
) -> list[Frame]:
    """The transcript of one submission in a box of its own. Never raises for what the notebook does."""
    started = time.monotonic()
    transcript: list[Frame] = []
    how, message = "finished", ""
    with Box(kit, tier, limits, warm) as box:
        try:
            _converse(box, cells, probes, limits, fork, transcript)
        except BoxTimeout:
            how, message = "timed-out", "the notebook did not come to its end in time"
        except FrameError as error:
            how, message = "suspect", str(error)
        except BoxOverLimit as error:
            how, message = "over-limit", str(error)
        except BoxDied:
            how, message = "died", "the process that ran the notebook ended before its time"
        if how != "finished" and not any(frame.type == "ready" for frame in transcript):
            how, message = "not-started", f"the process for the notebook did not start: {explain(box.errors())}"
        # Not what it takes to end the box: the control sets the clocks by this, while the warm process is busy.
        seconds = round(time.monotonic() - started, 3)
    transcript.append(Frame({"type": "ended", "how": how, "message": message, "seconds": seconds}))
    return transcript


def _converse(
    box: Box,
    cells: Sequence[str],
    probes: Sequence[Probe],
    limits: Limits,
    fork: bool,
    transcript: list[Frame],
) -> None:
    def listen(deadline: float) -> Frame:
        frame = box.receive(deadline)
        if frame.type not in FROM_INSIDE:
            raise FrameError("the box sent a frame of an unknown type")
        transcript.append(frame)
        return frame

    request = Frame({"type": "notebook", "limits": asdict(limits)}, json.dumps(list(cells)).encode())
    starting = time.monotonic() + START_SECONDS
    box.send(request, starting)
    _demand(listen(starting), "ready")
    box.watch_memory()
    finishing = time.monotonic() + START_SECONDS + limits.notebook_seconds + SLACK_SECONDS
    while (frame := listen(finishing)).type != "cells-done":
        _demand(frame, "cell", "restart")
    endless: set[str] = set()
    for probe in probes:
        if probe.key in endless:  # it would only loop again; the transcript's reader knows
            continue
        nonce = secrets.token_hex(16)
        transcript.append(Frame({"type": "asked", "key": probe.key, "case": probe.case, "nonce": nonce}))
        # A kernel that was lost is started again for the next probe, and all cells run again with it.
        deadline = time.monotonic() + limits.notebook_seconds + limits.probe_seconds + SLACK_SECONDS
        question = {"type": "probe", "nonce": nonce, "exercise": probe.key, "source": probe.source, "draw": probe.tree,
                    "seed": probe.seed, "seconds": limits.probe_seconds, "pace": limits.pace, "fork": fork}  # fmt: skip
        box.send(Frame(question, probe.body), deadline)
        while (frame := listen(deadline)).type in ("cell", "restart"):
            continue
        _demand(frame, "seen", "raised")
        if frame.head.get("nonce") != nonce:
            raise FrameError("an answer to a question that was not asked")
        if frame.head.get("status") == "timed-out":
            endless.add(probe.key)
    box.send(Frame({"type": "end"}), time.monotonic() + SLACK_SECONDS)
    _demand(listen(time.monotonic() + SLACK_SECONDS), "probe-end")


def _demand(frame: Frame, *types: str) -> None:
    if frame.type not in types:
        raise FrameError(f"a frame of type {frame.type[:20]!r} where {' or '.join(types)} was due")
