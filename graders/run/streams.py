"""Both ends of the talk with a box, by the clock: pipes that can be asked, or elsewhere a thread for each."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading

PIPES_CAN_WAIT = hasattr(os, "fork")
"""Whether one can wait for a pipe with a clock. Windows waits for sockets alone."""

_PART = 1 << 16


class Incoming:
    """What comes out of a pipe."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
        self._descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self, count: int) -> bytes:
        """At most so many bytes, none at the end; after `wait` it does not block."""
        return os.read(self._descriptor, count)

    def close(self) -> None:
        """Read no more."""
        os.close(self._descriptor)


class Outgoing:
    """What goes into a pipe."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def wait(self, seconds: float) -> bool:
        """Whether something can be written within so many seconds."""
        return bool(select.select([], [self._descriptor], [], seconds)[1])

    def write(self, raw: memoryview) -> int:
        """Write some of it; how many bytes. Raises `BrokenPipeError` when nobody reads any more."""
        return os.write(self._descriptor, raw)

    def close(self) -> None:
        """Write no more. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ThreadedIncoming(Incoming):
    """The same by a thread, which reads a few parts ahead and ends with the pipe."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
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
        """Whether there is something to read, or the end, within so many seconds."""
        if self._pending is None:
            with contextlib.suppress(queue.Empty):
                self._pending = self._parts.get(timeout=seconds)
        return self._pending is not None

    def read(self, count: int) -> bytes:
        """At most so many bytes, none at the end."""
        part = self._parts.get() if self._pending is None else self._pending
        # The end stays the end, however often it is asked for.
        self._pending = part[count:] or (None if part else b"")
        return part[:count]

    def close(self) -> None:
        """Read no more. The thread closes the pipe when its other end is closed."""


class ThreadedOutgoing(Outgoing):
    """The same by a thread, which writes one part at a time."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
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
        """Whether the last part is written, or nobody reads any more, within so many seconds."""
        return self._free.wait(seconds)

    def write(self, raw: memoryview) -> int:
        """Have a part written; how many bytes. Raises `BrokenPipeError` when nobody reads any more."""
        if self._broken:
            raise BrokenPipeError
        self._free.clear()
        part = bytes(raw[:_PART])
        self._parts.put(part)
        return len(part)

    def close(self) -> None:
        """Write no more."""
        with contextlib.suppress(queue.Full):
            self._parts.put_nowait(b"")
