"""A box seen from outside: starts its process, talks to it with deadlines, and ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from graders.sandbox.outside.launch import box_environment, inherited_variables
from graders.sandbox.outside.leftovers import temporary_folder
from graders.sandbox.outside.low_memory import Bound, LowMemoryGuard, low_memory_guard
from graders.sandbox.outside.memory import SECONDS as WATCH_SECONDS
from graders.sandbox.outside.memory import MemoryWatch, any_stopped
from graders.sandbox.outside.memory_cgroup import bound_memory
from graders.sandbox.outside.processor import ProcessorWatch
from graders.sandbox.outside.streams import PIPES_CAN_WAIT, Incoming, Outgoing, ThreadedIncoming, ThreadedOutgoing
from graders.sandbox.outside.tiers import prepare_launch
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire import frames
from graders.wire.forking import ForkedProcess
from graders.wire.frames import Frame, FrameError
from graders.wire.launch import BoxRequest
from graders.wire.limits import MIB, Limits

SWEEP_SECONDS = 8.0
"""How long the first process of a supervised box may take to end everything in the box."""

STANDSTILL_SECONDS = 2.0
"""A process that wakes up this much later than it asked to was kept from running."""


class BoxTimeout(Exception):
    """The box did not answer in time."""


class BoxDied(Exception):
    """The box ended, or closed its end of the pipe."""


class BoxStopped(Exception):
    """The box is no longer wanted."""


class BoxOverLimit(Exception):
    """The processes of the box together went over a limit; the message names the limit."""


class Box:
    """A process with a temporary folder and HOME of its own. A context manager that leaves nothing behind."""

    def __init__(
        self,
        box_modules: Path,
        tier: str = "D",
        limits: Limits | None = None,
        warm: WarmProcess | None = None,
        *,
        modules: tuple[str, ...] = (),
        guard: LowMemoryGuard = low_memory_guard,
        private: Sequence[str] = (),
        stopping: threading.Event | None = None,
    ) -> None:
        """`box_modules` is the folder with the modules that exist inside, `tier` the tier of isolation.

        With `warm` the box is forked from that process, which has imported `modules` by then (see `BoxRequest`); None
        starts it from scratch. When the machine runs short of memory, `guard` says whether this box has to end. The
        files and folders in `private` cannot be read inside, in the tiers that can hide files. Once `stopping` is set,
        the box is no longer waited for.
        """
        self._modules, self._guard, self._private = modules, guard, private
        self._stopping = stopping or threading.Event()
        self._box_modules, self._tier, self._limits, self._warm = box_modules, tier, limits or Limits(), warm
        self._received = 0
        self._frames = 0
        self._looked = time.monotonic()
        self.stood_still = False
        """Whether a process of the box, or this one, was seen not running for a while. Its clocks went on meanwhile."""
        self.ended_to_free_memory = False
        """Whether it was ended because the machine ran short of memory, which need not be the notebook's fault."""
        self._memory: Bound | None = None
        self._next_look_at_memory = 0.0

    def __enter__(self) -> Box:
        """Start the process."""
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(temporary_folder("box"))
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            read_end, write_end = os.pipe()
            requests, stdin = os.pipe()
            self._incoming = (Incoming if PIPES_CAN_WAIT else ThreadedIncoming)(read_end)
            stack.callback(self._incoming.close)
            self._outgoing = (Outgoing if PIPES_CAN_WAIT else ThreadedOutgoing)(stdin)
            stack.callback(self._outgoing.close)
            try:
                self._process = self._start_process(requests, write_end)
            finally:
                os.close(requests)
                os.close(write_end)
            self._processor = ProcessorWatch(self._process.pid)
            self._resources = stack.pop_all()
        return self

    def _start_process(self, requests: int, frames_out: int) -> subprocess.Popen[bytes] | ForkedProcess:
        forked = self._warm is not None
        self._launch = found = prepare_launch(
            self._tier, self.folder, self._box_modules, self._limits, warm=forked, private=self._private
        )
        if self._warm is not None and found.plan is not None:
            variables = inherited_variables() | box_environment(found.folder, self._box_modules)
            request = BoxRequest(found.plan, str(self.folder), variables, self._limits, self._modules)
            return self._warm.fork(request, [requests, frames_out, self._errors.fileno()])
        # A container passes on the standard descriptors alone, and so does Windows.
        standard = self._tier == "C" or not PIPES_CAN_WAIT
        return subprocess.Popen(
            found.start_command(1 if standard else frames_out),
            stdin=requests,
            stdout=frames_out if standard else subprocess.DEVNULL,
            stderr=self._errors,
            cwd=self.folder,
            env=found.variables or inherited_variables() | box_environment(found.folder, self._box_modules),
            pass_fds=() if standard else (frames_out,),
            start_new_session=True,
        )

    @property
    def starved_seconds(self) -> float:
        """For how long its processes got little of the processor although they wanted more."""
        return self._processor.starved_seconds

    def watch_memory(self) -> None:
        """From now on, bound the memory that the box adds. Called before any code of the notebook has run."""
        self._looked = time.monotonic()
        # A container bounds its own memory, and we may not move its processes to another cgroup.
        bound = MemoryWatch if self._tier == "C" else bound_memory
        forked = isinstance(self._process, ForkedProcess)
        self._memory = bound(self._process.pid, self._limits.memory_together, forked=forked)
        self._guard.add(self._memory)

    def send(self, frame: Frame, deadline: float) -> None:
        """Send a request by `deadline` (on the monotonic clock). Raises `BoxTimeout`, `BoxDied` or `BoxOverLimit`."""
        raw = memoryview(frames.pack_frame(frame))
        while raw:
            left = deadline - time.monotonic()
            if left <= 0 or not self._outgoing.wait(left):
                raise BoxTimeout
            try:
                raw = raw[self._outgoing.write(raw) :]
            except BrokenPipeError as error:
                self._look_at_memory()
                raise BoxDied from error

    def receive(self, deadline: float) -> Frame:
        """The next frame, by `deadline` (on the monotonic clock).

        Raises `BoxTimeout`, `BoxDied`, `BoxOverLimit`, `BoxStopped`, or `FrameError` if the box breaks the protocol.
        """

        def read_exactly(count: int) -> bytes:
            self._received += count
            if self._received > frames.MAX_TOTAL:
                raise FrameError(f"the box sent more than {frames.MAX_TOTAL >> 20} MiB")
            found = bytearray()
            while len(found) < count:
                self._wait_for_bytes(deadline)
                part = self._incoming.read(count - len(found))
                if not part:  # even within a frame: a process that is killed while it writes breaks no protocol
                    self._look_at_memory()  # the kernel may have ended it for its memory
                    raise BoxDied
                found += part
            return bytes(found)

        self._frames += 1
        if self._frames > frames.MAX_FRAMES:
            raise FrameError(f"the box sent more than {frames.MAX_FRAMES} frames")
        frame = frames.read_frame(read_exactly)
        assert frame is not None  # at the end of the stream, `read_exactly` raises
        return frame

    def _wait_for_bytes(self, deadline: float) -> None:
        """Wait until there is something to read, and check memory and clock now and then."""
        while True:
            now = self._look_at_the_clock()
            if now >= self._next_look_at_memory:
                self._look_at_memory()
            if self._stopping.is_set():
                raise BoxStopped
            if now >= deadline:
                raise BoxTimeout
            pause = WATCH_SECONDS if self._memory is None else min(WATCH_SECONDS, self._memory.pause)
            there = self._incoming.wait(min(pause, deadline - now))
            self._look_at_the_clock()
            if there:
                return
            self.stood_still = self.stood_still or any_stopped(self._process.pid)
            self._processor.look()

    def _look_at_the_clock(self) -> float:
        """The time. If much of it has passed since the last look, this process was kept from running."""
        now = time.monotonic()
        self.stood_still = self.stood_still or now - self._looked > WATCH_SECONDS + STANDSTILL_SECONDS
        self._looked = now
        return now

    def _look_at_memory(self) -> None:
        if self._memory is None:
            return
        if self._memory.is_exceeded():
            most = self._limits.memory_together // MIB
            raise BoxOverLimit(f"memory: its processes together took more than {most} MiB")
        if self._guard.must_end(self._memory):
            self.ended_to_free_memory = True
            raise BoxOverLimit(
                "memory: this machine had hardly any left, and this notebook held the most of those that were running"
            )
        self._next_look_at_memory = time.monotonic() + self._memory.pause

    def errors(self) -> str:
        """The last 20,000 bytes that the box wrote to stderr: they show why it did not start."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 20_000))
        return self._errors.read().decode("utf-8", "replace").strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and everything in its session, and remove the folder."""
        self._outgoing.close()
        if self._launch.supervised:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(SWEEP_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:  # Windows
                self._process.kill()
        self._process.wait()
        if self._memory is not None:
            self._memory.close()
            self._guard.remove(self._memory)
        if self._launch.cleanup:
            subprocess.run(self._launch.cleanup, check=False, capture_output=True)
        self._resources.close()
