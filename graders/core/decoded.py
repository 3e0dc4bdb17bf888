"""A cache of decoded answers: those of a class are mostly equal, and decoding one takes longer than judging it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict

from graders.core.expect import Seen
from graders.wire.data import decode

ROOM = 4 << 20
"""The limit on the encoded size of everything remembered, in bytes. The right answers to all lessons take 0.8 MB.
Decoded, a tree may need thirty times its size, if it is made of empty lists or tensors with one entry."""


class DecodedAnswers:
    """Decoded answers by their digests: those used last, as many as there is room for. Safe for use by threads."""

    def __init__(self, room: int = ROOM) -> None:
        """`room` is the limit on the encoded size of all answers together, in bytes."""
        self._room, self._held = room, 0
        self._found: OrderedDict[str, tuple[Seen, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many answers are remembered."""
        return len(self._found)

    def decode_answer(self, digest: str, tree: str, body: bytes) -> Seen:
        """The answer in `tree` (JSON) and `body`, decoded unless its `digest` is remembered. Raises `DataError`."""
        with self._lock:
            if digest in self._found:
                self._found.move_to_end(digest)
                return self._found[digest][0]
        seen, size = Seen(decode(json.loads(tree), body)), len(tree) + len(body)
        with self._lock:
            if digest not in self._found and size <= self._room // 8:
                self._found[digest] = seen, size
                self._held += size
            while self._held > self._room:
                self._held -= self._found.popitem(last=False)[1][1]
        return seen
