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

from graders.run.box import Box, BoxDied, BoxTimeout
from graders.run.tiers import WARM_TIERS, missing
from graders.run.warm import WarmProcess
from graders.wire.forking import ForkerDied
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

SECONDS = 60.0
MOST_PROCESSES = 16
"""The self-test tries to start more processes than allowed; few show the wall as well as many."""


class NoIsolation(Exception):
    """No tier holds that would be good enough; the message says why, and what can be done."""


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
    reasons = []
    for tier in ("A", "B") if wanted == "auto" else (wanted,):
        if tier == "D":
            break
        for process in (warm, None) if warm is not None and tier in WARM_TIERS else (None,):
            problem = missing(tier, warm=process is not None) or self_test(tier, kit, limits, process)
            if not problem:
                return Choice(tier, process)
        reasons.append(f"tier {tier}: {problem}")
    if wanted in ("auto", "D") and (own_work or allow_unisolated):
        return Choice("D", warm if warm is not None and warm.works() else None)
    if wanted in ("auto", "D"):
        reasons.append(
            "tier D: the notebooks of a class could read your files and use your network. Install bubblewrap, run on "
            "Linux or in a container, or accept that with --allow-unisolated"
        )
    raise NoIsolation("The notebooks would not be isolated. " + "; ".join(reasons) + ".")


def self_test(tier: str, kit: Path, limits: Limits, warm: WarmProcess | None = None) -> str:
    """What does not hold in a tier, in a few words; empty when everything does."""
    limits = replace(limits, processes=min(limits.processes, MOST_PROCESSES))
    with _canaries() as (outside, submission, port, arrived):
        request = {"type": "self-test", "limits": asdict(limits), "read": submission, "write": outside, "port": port}
        deadline = time.monotonic() + SECONDS
        try:
            with Box(kit, tier, limits, warm) as box:
                try:
                    box.send(Frame(request), deadline)
                    held = box.receive(deadline).head.get("held")
                except (BoxDied, BoxTimeout, FrameError):
                    return f"it does not start here ({box.errors()[-200:] or 'no message'})"
        except (OSError, ForkerDied) as error:
            return f"it does not start here ({error})"
        if not isinstance(held, dict) or len(held) < 5:
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
