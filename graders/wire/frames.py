"""Frames: the only thing that crosses the wall of the box.

A frame is two little-endian u32 lengths, a JSON object (the head) and raw bytes (the body). The lengths are checked
before anything else is read or allocated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD = 64 << 10
MAX_BODY = 1 << 20
"""Bytes of the head and of the body of a frame that leaves the box."""
MAX_DEPTH = 64
"""Levels of nested objects and lists in a head. An observation has fewer; `json` could not write far more."""

MAX_OUTPUTS = 2_000
MAX_OUTPUT = 8 << 20
"""How many outputs of a notebook's cells, and how many bytes of them, are kept: the first ones."""

MAX_FRAMES = 75_000
"""Frames from one box. A notebook of 500 cells runs up to five times while its cells keep crashing, and once more for
each probe that takes the kernel with it (at most 132 in a lesson). Each run sends a frame per cell; its outputs follow
at the end."""

MAX_TOTAL = 160 << 20
"""Bytes from one box: more than the largest answers to all probes of a lesson plus the outputs of its cells."""

MAX_REQUEST = 32 << 20
"""Bytes of the head, and of the body, of a request. Requests are ours, and a whole notebook must fit into one."""

_SIZES = struct.Struct("<II")


class FrameError(ValueError):
    """Raised for bytes that are not a frame, and for more of them than allowed."""


@dataclass(frozen=True)
class Frame:
    """One message: a JSON object with a "type", and bytes."""

    head: dict[str, Any]
    body: bytes = field(default=b"", repr=False)

    @property
    def type(self) -> str:
        """What kind of message this is."""
        return str(self.head.get("type"))


def pack_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    head = json.dumps(frame.head, ensure_ascii=True).encode()
    return _SIZES.pack(len(head), len(frame.body)) + head + frame.body


def read_frame(
    read_exactly: Callable[[int], bytes], max_head: int = MAX_HEAD, max_body: int = MAX_BODY
) -> Frame | None:
    """Return the next frame, or None at the end of the stream.

    `read_exactly(n)` returns n bytes, fewer only at the end of the stream. Raises `FrameError` when the bytes are not a
    frame, are too many, or end in the middle of one.
    """
    sizes = read_exactly(_SIZES.size)
    if not sizes:
        return None
    if len(sizes) < _SIZES.size:
        raise FrameError("the stream ended in the middle of a frame")
    head_size, body_size = _SIZES.unpack(sizes)
    if head_size > max_head or body_size > max_body:
        raise FrameError(f"a frame of {head_size} + {body_size} bytes is larger than allowed")
    raw_head, body = read_exactly(head_size), read_exactly(body_size)
    if len(raw_head) < head_size or len(body) < body_size:
        raise FrameError("the stream ended in the middle of a frame")
    try:
        head = json.loads(raw_head.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError("the head of a frame is not JSON") from error
    if type(head) is not dict or type(head.get("type")) is not str:
        raise FrameError("the head of a frame is not an object with a type")
    if is_nested_deeper(head, MAX_DEPTH):
        raise FrameError(f"the head of a frame is nested deeper than {MAX_DEPTH} levels")
    return Frame(head, body)


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested more than `levels` deep, found without recursion."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True
