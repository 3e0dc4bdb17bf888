"""Choosing a tier: each is tested from inside before a stranger's notebook runs in it, and fails closed."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from graders.core.errors import ExitCode, HookworkError
from graders.run.box import Box, BoxDied, BoxTimeout
from graders.run.start_failure import explain
from graders.run.tiers import WARM_TIERS, missing
from graders.run.warm import WarmProcess
from graders.wire.forking import ForkerDied
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

SECONDS = 60.0
MOST_PROCESSES = 32
"""The self-test tries to start more processes than allowed; few show the wall as well as many."""


class NoIsolation(HookworkError):
    """No tier holds that would be good enough; the message says why, and what can be done."""

    exit_code = ExitCode.NOT_GRADED


@dataclass(frozen=True)
class Choice:
    """A tier that holds, or None when nothing has to run; and the warm process when boxes can be forked from it."""

    tier: str | None
    warm: WarmProcess | None = None


def choose_tier(
    wanted: str,
    kit: Path,
    limits: Limits,
    *,
    own_work: bool,
    allow_unisolated: bool,
    warm: WarmProcess | None = None,
) -> Choice:
    """The tier to use: `wanted` itself, or for "auto" the best that holds; forked from `warm` where that holds.

    Tier D protects nothing. It is for `own_work`; for a class it has to be allowed. Raises `NoIsolation`.
    """
    reasons: dict[str, list[str]] = {}
    for tier in ("A", "B") if wanted == "auto" else (wanted,):
        if tier == "D":
            break
        problems = []
        for process in (warm, None) if warm is not None and tier in WARM_TIERS else (None,):
            if problem := missing(tier, warm=process is not None):
                problems.append(problem)
            elif problem := self_test(tier, kit, limits, process):
                problems.insert(0, problem)
            else:
                return Choice(tier, process)
        reasons.setdefault(problems[0], []).append(tier)
    if wanted in ("auto", "D") and (own_work or allow_unisolated):
        if (
            warm is None or not warm.works()
        ):  # a kernel that has to be started takes seconds: the notebook's own will do
            return Choice("D")
        if not (problem := self_test("D", kit, limits, warm)):
            return Choice("D", warm)
        reasons.setdefault(problem, []).append("D")
    elif wanted in ("auto", "D"):
        reasons["the notebooks of a class could read your files and use your network. Install bubblewrap, run on "
                "Linux or in a container, or accept that with --allow-unisolated"] = ["D"]  # fmt: skip
    told = "; ".join(f"tier {', '.join(tiers)}: {problem}" for problem, tiers in reasons.items())
    raise NoIsolation(f"No notebook was run, because no tier of isolation works here. {told}.")


def self_test(tier: str, kit: Path, limits: Limits, warm: WarmProcess | None = None) -> str:
    """What does not hold in a tier, in a few words; empty when everything does.

    A kernel is started with all limits on, and torch computes in it. Tier D has no walls that could hold.
    """
    limits = replace(limits, processes=min(limits.processes, MOST_PROCESSES))
    with _canaries() as (outside, submission, port, arrived):
        request = {"type": "self-test", "limits": asdict(limits), "walls": tier != "D",
                   "read": submission, "write": outside, "port": port}  # fmt: skip
        deadline = time.monotonic() + SECONDS
        computed: dict[str, Any] = {}
        try:
            with Box(kit, tier, limits, warm) as box:
                try:
                    box.send(Frame(request), deadline)
                    while (frame := box.receive(deadline)).type == "cell":
                        computed = computed if computed.get("status", "ok") != "ok" else frame.head
                except BoxTimeout:
                    return f"it did not start within {SECONDS:g} seconds ({explain(box.errors())})"
                except (BoxDied, FrameError):
                    return f"it does not start here ({explain(box.errors())})"
        except (OSError, ForkerDied) as error:
            return f"it does not start here ({explain(f'{type(error).__name__}: {error}')})"
        if short := frame.head.get("short"):
            return f"the limits of this shell are too low ({str(short)[:300]})"
        if computed.get("status") != "ok":
            return f"torch cannot compute in it ({explain(str(computed.get('message')))})"
        held = frame.head.get("held")
        if not isinstance(held, dict) or (tier != "D" and len(held) < 5):
            return "its self-test gave no answer"
        broken = [str(wall) for wall, standing in held.items() if standing is not True]
        if os.path.getsize(outside) or arrived():
            broken.append("something came out that the self-test did not see")
        return f"not prevented: {', '.join(broken)}" if broken else ""


@contextlib.contextmanager
def _canaries() -> Iterator[tuple[str, str, int, Callable[[], bool]]]:
    """A file that must stay empty, one that must not be read, and a port that must stay silent."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o755)
        outside, submission = Path(folder) / "outside", Path(folder) / "submission.ipynb"
        for file in (outside, submission):
            file.touch()
            file.chmod(0o666)
        server.settimeout(0.01)

        def arrived() -> bool:
            try:
                server.accept()[0].close()
            except (TimeoutError, OSError):
                return False
            return True

        yield str(outside), str(submission), server.getsockname()[1], arrived
