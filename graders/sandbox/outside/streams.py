"""Reads from and writes to a box's pipes with timeouts, or on Windows with a thread for each pipe."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading

PIPES_CAN_WAIT = hasattr(os, "fork")
"""Whether `select` can wait for a pipe. On Windows it can wait only for sockets."""

_PART = 1 << 16
"""The bytes that a thread reads or writes at a time."""


class Incoming:
    """The end of a pipe that is read from."""

    def __init__(self, descriptor: int) -> None:
        """Takes ownership of the descriptor."""
        self._descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Wait for at most this long; whether there is data, or the end of the stream."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self, count: int) -> bytes:
        """At most `count` bytes; empty at the end of the stream. Does not block after a successful `wait`."""
        return os.read(self._descriptor, count)

    def close(self) -> None:
        """Close this end of the pipe."""
        os.close(self._descriptor)


class Outgoing:
    """The end of a pipe that is written to."""

    def __init__(self, descriptor: int) -> None:
        """Takes ownership of the descriptor."""
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def wait(self, seconds: float) -> bool:
        """Wait for at most this long; whether something can be written."""
        return bool(select.select([], [self._descriptor], [], seconds)[1])

    def write(self, raw: memoryview) -> int:
        """Write the beginning of `raw` and return how many bytes. Raises `BrokenPipeError` if nobody reads any more."""
        return os.write(self._descriptor, raw)

    def close(self) -> None:
        """Close this end of the pipe. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ThreadedIncoming(Incoming):
    """The same with a thread, which reads a few parts ahead and ends with the pipe."""

    def __init__(self, descriptor: int) -> None:
        """Takes ownership of the descriptor."""
        super().__init__(descriptor)
        self._parts: queue.Queue[bytes] = queue.Queue(16)
        self._pending: bytes | None = None
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        part = b"-"
        while part:
            try:
                part = os.read(self._descriptor, _PART)
            except OSError:
                part = b""
            self._parts.put(part)
        os.close(self._descriptor)

    def wait(self, seconds: float) -> bool:
        """Wait for at most this long; whether there is data, or the end of the stream."""
        if self._pending is None:
            with contextlib.suppress(queue.Empty):
                self._pending = self._parts.get(timeout=seconds)
        return self._pending is not None

    def read(self, count: int) -> bytes:
        """At most `count` bytes; empty at the end of the stream."""
        part = self._parts.get() if self._pending is None else self._pending
        # Keep an empty part, so that every later call sees the end as well.
        self._pending = part[count:] or (None if part else b"")
        return part[:count]

    def close(self) -> None:
        """Do nothing: the thread closes the pipe when the other end is closed."""


class ThreadedOutgoing(Outgoing):
    """The same with a thread, which writes one part at a time."""

    def __init__(self, descriptor: int) -> None:
        """Takes ownership of the descriptor."""
        self._descriptor = descriptor
        self._parts: queue.Queue[bytes] = queue.Queue(2)  # one part, and the end
        self._free = threading.Event()
        self._free.set()
        self._broken = False
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        try:
            while raw := self._parts.get():
                while raw:
                    raw = raw[os.write(self._descriptor, raw) :]
                self._free.set()
        except OSError:
            self._broken = True
            self._free.set()
        finally:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)

    def wait(self, seconds: float) -> bool:
        """Wait for at most this long; whether the last part was written, or nobody reads any more."""
        return self._free.wait(seconds)

    def write(self, raw: memoryview) -> int:
        """Give the thread a part to write and return its size. Raises `BrokenPipeError` if nobody reads any more."""
        if self._broken:
            raise BrokenPipeError
        self._free.clear()
        part = bytes(raw[:_PART])
        self._parts.put(part)
        return len(part)

    def close(self) -> None:
        """End the thread, which closes the pipe, after the part that it is writing."""
        with contextlib.suppress(queue.Full):
            self._parts.put_nowait(b"")
