"""Limits of the process that runs a notebook, set before any of its code does."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are wall-clock, sizes are bytes."""

    cell_seconds: float = 60.0
    notebook_seconds: float = 300.0
    probe_seconds: float = 10.0
    memory: int = 2048 * MIB
    files: int = 64 * MIB
    descriptors: int = 128
    output: int = 8 * MIB

    def to_json(self) -> str:
        """As text, to be handed to a child process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Limits:
        """The limits that `to_json` wrote."""
        return Limits(**json.loads(text))


def apply_limits(text: str) -> None:
    """Set the limits of this process and its children. Platforms without them go without."""
    try:
        import resource
    except ImportError:
        return
    limits = Limits.from_json(text)
    wanted: list[tuple[Any, int]] = [
        (resource.RLIMIT_AS, limits.memory),
        (resource.RLIMIT_FSIZE, limits.files),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_CORE, 0),
    ]
    for what, value in wanted:
        _, hard = resource.getrlimit(what)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(what, (bound, bound))
        except (ValueError, OSError):  # macOS refuses an address-space limit
            continue
    die_with_parent()


def die_with_parent() -> None:
    """Ask Linux to end this process when its parent ends, so that no kernel outlives its box."""
    import ctypes
    import signal
    import sys

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
