"""The warm process seen from outside: a process that has imported torch and forks boxes quickly."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from graders.sandbox.outside.launch import box_environment, inherited_variables
from graders.sandbox.outside.links import python_path
from graders.wire.forking import ForkedProcess, ForkerDied, can_fork
from graders.wire.launch import BoxRequest

START_SECONDS = 60.0
"""How long the warm process may take until it is ready."""


class WarmProcess:
    """Forks boxes on request, from any thread. A context manager; the process starts when needed and ends with it."""

    def __init__(self, box_modules: Path, *, can_fork: bool = can_fork, modules: Sequence[str] = ()) -> None:
        """`box_modules` is the folder with the modules that exist in a box, filled before the process starts.

        `modules` are what some notebook will need of `LATE_MODULES`. They are imported while the first boxes run, and
        others before the first box that needs them.
        """
        self.box_modules, self._can_fork, self._modules = box_modules, can_fork, modules
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = False

    def __enter__(self) -> WarmProcess:
        """Return itself. Nothing is started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and every box that is left."""
        self.close()

    def is_available(self) -> bool:
        """Whether there is a warm process or one can be started. Waits until it is ready."""
        try:
            with self._lock:
                self._ensure_ready()
        except ForkerDied:
            return False
        return True

    def fork(self, request: BoxRequest, descriptors: list[int]) -> ForkedProcess:
        """Fork a box from the warm process. `descriptors` are passed on to it. Raises `ForkerDied`."""
        with self._lock:
            self._ensure_ready()
        return ForkedProcess(self._control, request.to_data(), descriptors)

    def start(self) -> None:
        """Start the process without waiting for it. Raises nothing: a failure shows when the process is needed."""
        with contextlib.suppress(ForkerDied, OSError), self._lock:
            self._start_process()

    def _ensure_ready(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._start_process()
        if self._starting:
            self._wait_until_ready()

    def _start_process(self) -> None:
        self.close()
        if not self._can_fork:
            raise ForkerDied("this platform cannot fork a process that has used torch")
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        with server_end:
            self._process = subprocess.Popen(
                [python_path(), "-m", "graders.sandbox.inside.fork_server", str(server_end.fileno()), *self._modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(server_end.fileno(),),
                cwd=self.box_modules,
                # matplotlib's list of fonts is next to the modules.
                env=inherited_variables()
                | box_environment(str(self.box_modules), self.box_modules)
                | {"MPLCONFIGDIR": str(self.box_modules / "matplotlib")},
                start_new_session=True,
            )
        self._starting = True

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        self._starting = False
        if select.select([self._control], [], [], START_SECONDS)[0] and self._control.recv(16) == b"ready":
            return
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        message = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ForkerDied(f"the warm process did not start: {message[:200] or 'it left no message'}")

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._errors.close()
            with contextlib.suppress(OSError):
                self._control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # Give it time to end its boxes. Before it is ready, it has none.
                self._process.wait(0 if self._starting else 10)
            self._process.kill()
            self._process.wait()
            self._process = None
