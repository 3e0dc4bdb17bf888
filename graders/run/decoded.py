"""What answers hold, decoded. Those of a class are mostly equal, and to decode one takes longer than to judge it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict

from graders.core.expect import Seen
from graders.wire.data import decode

ROOM = 4 << 20
"""Bytes and characters of all that is remembered. The answers to all lessons have 0.8 MB together. What was decoded of
a tree takes up to thirty times its characters: it may be nothing but empty lists, or tensors of one entry."""


class DecodedAnswers:
    """Answers by their digests: those asked for last, as many as there is room for. From any thread."""

    def __init__(self, room: int = ROOM) -> None:
        """Nothing yet."""
        self._room, self._held = room, 0
        self._found: OrderedDict[str, tuple[Seen, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._found)

    def decode_answer(self, digest: str, tree: str, body: bytes) -> Seen:
        """What the tree, as JSON, and the body of this digest hold. Raises `DataError`."""
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
