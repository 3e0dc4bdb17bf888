"""Makes odd input, runs a function on much of it, and measures the memory that it takes."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
MANY = pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.slow)])
MEBIBYTES = 32
"""That reading one input may take at its highest."""
SECONDS = 5.0
"""For one input, on a busy machine."""


def fuzz(count: int, inputs: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Call `check` with `count` inputs or more; none may take long or much memory."""
    done, slowest, largest = 0, 0.0, 0

    def run(value: Any) -> None:
        nonlocal done, slowest, largest
        started = time.perf_counter()
        largest = max(largest, most_memory(lambda: check(value)))
        slowest = max(slowest, time.perf_counter() - started)
        done += 1

    while done < count:  # in batches: Hypothesis remembers all inputs of a run
        batch = settings(max_examples=min(500, count), database=None, suppress_health_check=list(HealthCheck))
        batch(given(inputs)(run))()
    assert slowest < SECONDS
    assert largest < MEBIBYTES


def most_memory(action: Callable[[], object]) -> float:
    """What `action` allocates at its highest, in MiB; not what Hypothesis keeps of its inputs."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1] / (1 << 20)
    finally:
        tracemalloc.stop()


# Values of JSON, with all that the standard does not say: NaN, huge integers, lone surrogates, depth.

ODD_TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["\ud800", "\x00", "\x1b[2J", "\u202e", "=1+1"])
ODD_NUMBERS = st.sampled_from([-1, 0, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, float("nan"), float("-inf")])
SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | ODD_NUMBERS | ODD_TEXT
DEEP = st.integers(0, 1200).map(lambda depth: Raw("[" * depth + "]" * depth))


class Raw(str):
    """Text that goes into JSON as it is."""


def dumps(value: Any) -> str:
    """JSON of a value in which `Raw` parts stand for themselves."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dumps, value)) + "]"
    return json.dumps(value)


def nested(leaves: st.SearchStrategy[Any], keys: list[str]) -> st.SearchStrategy[Any]:
    """Lists and objects of `leaves`, the objects mostly with these keys."""
    names = st.sampled_from(keys) | ODD_TEXT
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3), max_leaves=8
    )


def spoilt(good: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Good bytes in which a few were changed, left out, cut off or repeated."""

    @st.composite
    def spoil(draw: Any) -> bytes:
        raw = bytearray(draw(good))
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, max(0, len(raw) - 1)))
            match draw(st.integers(0, 4)):
                case 0:
                    raw[at : at + 1] = draw(st.binary(min_size=1, max_size=4))
                case 1:
                    del raw[at : at + draw(st.integers(1, 30))]
                case 2:
                    del raw[at:]
                case 3:
                    raw[at:at] = raw[at : at + draw(st.integers(1, 60))]
                case 4:
                    raw[at : at + 4] = struct.pack("<I", draw(st.sampled_from([0, 1, 2**16, 2**20, 2**31, 2**32 - 1])))
        return bytes(raw)

    return spoil()
