"""Run one notebook in one kernel: execute cells, and answer probes between them.

A cell that raises costs only what depends on it. A cell that takes the kernel with it (a crash, an exit, an endless
loop that swallows interrupts, endless output) is left out, and the other cells run again in a new kernel, so that this
cell, too, costs only what depends on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError

from graders.probing.process_limits import exceeded_limit, processes_exhausted
from graders.sandbox.inside.client import PICTURES_FACTOR, CountingClient, OneKernel, TooMuchOutput, make_notebook
from graders.sandbox.inside.files import files_over_limit, remove_notebook_files
from graders.sandbox.inside.provisioner import ForkingProvisioner, PromptClient, PromptManager
from graders.wire.frames import MAX_BODY, MAX_OUTPUT, MAX_OUTPUTS, Frame
from graders.wire.limits import Limits

MAX_KERNELS = 4
"""After cells have taken this many kernels with them, no further cell is run."""

TEXT_LIMIT = 300
"""Characters of a message."""
INTERRUPT_SECONDS = 2.0
"""Seconds that a kernel may take to answer after an interrupt, and an answer to a probe beyond its own time."""
WATCH_SECONDS = 0.5
"""Seconds between two looks at the files."""
TRANSPORT = "ipc" if hasattr(socket, "AF_UNIX") else "tcp"
"""How to talk to a kernel: most boxes have no network, but Windows offers nothing else."""


class Session:
    """Runs the cells, keeps the kernel for the probes, and starts over with a new kernel when it is lost."""

    def __init__(
        self,
        cells: list[str],
        limits: Limits,
        folder: Path,
        send: Callable[[Frame], None],
        forker: socket.socket | None = None,
        *,
        keep_outputs: bool = False,
    ) -> None:
        """`folder` is the box's own; the kernel works in `folder/work`. `send` sends a frame out of the box.

        Kernels are forked by the process at the other end of `forker`; without it they are started. Pictures are drawn
        only with `keep_outputs`: otherwise nobody looks at them.
        """
        self.keep_outputs = keep_outputs
        self.cells, self.limits, self.folder, self.send, self.forker = cells, limits, folder, send, forker
        self.deadline = 0.0
        self.position = self.end = 0
        """The cells before `position` have run in this kernel; those before `end` must run in any later one."""
        self.lost: dict[int, tuple[str, str]] = {}
        """Status and message of each cell that is left out, by its index."""
        self.crashes = 0
        self.client: CountingClient | None = None
        self.notebook = make_notebook([])
        """The notebook, with the outputs from the last kernel."""
        self.km: Any = None  # of jupyter_client, whose types differ between its sync and async classes
        self.kc: Any = None
        self.kernels = 0
        self.breach: str | None = None
        """What the notebook has written too much of, until a new kernel starts."""

    async def run_to(self, end: int) -> None:
        """Run the cells before `end` that have not run yet, and send a frame for each.

        If the kernel is lost, all cells up to there run again, except those that took a kernel with them.
        """
        self.end = end
        self.deadline = self.deadline or time.monotonic() + self.limits.notebook_seconds
        if self.client is None:
            await self.start()
        while (lost := await self._run_pending_cells()) is not None:
            await self.stop()
            self.crashes += 1
            if self.crashes >= MAX_KERNELS or time.monotonic() >= self.deadline:
                self.lost.update((i, ("skipped", "")) for i in range(lost + 1, len(self.cells)))
            self.send(Frame({"type": "restart", "cell": lost}))
            await self.start()

    async def _run_pending_cells(self) -> int | None:
        """Run cells in order, up to `self.end`; return the index of one that took the kernel with it, if any."""
        while (index := self.position) < self.end:
            started = time.monotonic()
            lacking: dict[str, str] = {}
            if index in self.lost:
                status, message = self.lost[index]
            else:
                status, message, alive = await self._execute_cell(index, self.cells[index])
                if not alive:
                    self.lost[index] = (status, message)
                    return index
                lacking = self._missing_names()
            self.position += 1
            seconds = round(time.monotonic() - started, 3)
            head = {"type": "cell", "cell": index, "status": status, "message": message[:TEXT_LIMIT]}
            self.send(Frame({**head, "seconds": seconds, **lacking}))
        return None

    async def _execute_cell(self, index: int, source: str) -> tuple[str, str, bool]:
        """Execute a cell; return its status and message, and whether the kernel can be used afterwards."""
        assert self.client is not None
        left = min(self.limits.cell_seconds, self.deadline - time.monotonic())
        if left <= 0:
            return "timed-out", f"the notebook took more than {self.limits.notebook_allowed:g} seconds", True
        # The trait `timeout` accepts only integers; nbclient itself computes with floats.
        self.client.timeout_func = lambda _: left  # type: ignore[assignment]
        cell = self.client.nb.cells[index]
        self.client.last_reply = {}  # an empty cell is not sent, so it gets no reply of its own
        try:
            await self.client.async_execute_cell(cell, index)
        except CellTimeoutError:
            if processes_exhausted():
                return "over-limit", f"processes: the notebook started {self.limits.processes} or more", False
            message = f"the cell was still running after {round(left / self.limits.pace, 1):g} seconds"
            return "timed-out", message, await self._interrupt_kernel()
        except (TooMuchOutput, DeadKernelError):
            return *self._kernel_loss_status(self.client), False
        status, message, alive = self._status_of_reply(self.client.last_reply)
        if alive and (found := files_over_limit(str(self.folder), self.limits)):
            # Checked here, because `watch_files` might notice later and blame another cell.
            self.breach = found
            return "over-limit", f"files: the notebook wrote {found}", False
        return status, message, alive

    def _kernel_loss_status(self, client: CountingClient) -> tuple[str, str]:
        """Status and message of a cell that wrote too much, or whose kernel has ended."""
        if client.written > client.output_limit:
            return "over-limit", f"output: the notebook wrote more than {client.output_limit >> 20} MiB of output"
        if client.too_much:
            most = PICTURES_FACTOR * client.output_limit >> 20
            return "over-limit", f"output: the notebook showed more than {most} MiB, pictures included"
        if self.breach:
            return "over-limit", f"files: the notebook wrote {self.breach}"
        return "crashed", f"its Python process ended ({_exit_text(self.km.provisioner.process)})"

    def _missing_names(self) -> dict[str, str]:
        """The modules and the name that the last cell lacked; empty if it lacked none."""
        assert self.client is not None
        found = {name: str(self.client.last_reply.get(name, ""))[:TEXT_LIMIT] for name in ("modules", "undefined")}
        return {name: text for name, text in found.items() if text}

    def _status_of_reply(self, content: dict[str, Any]) -> tuple[str, str, bool]:
        # The reply decides, not the outputs: under a memory limit an error may show up as plain text only.
        left_out = str(content.get("left_out", ""))[: 4 * TEXT_LIMIT]
        if content.get("status") != "error":  # the statement left out may be in a nested cell, as under %%capture
            return ("raised", left_out, True) if left_out else ("ok", "", True)
        name, text = str(content.get("ename"))[:100], str(content.get("evalue"))[: 4 * TEXT_LIMIT]
        if limit := exceeded_limit(name, text):
            # What it started or opened is still there and leaves no room for probes; only a new kernel helps.
            return "over-limit", f"{limit}: {name}: {text}", limit not in ("processes", "descriptors")
        error = f"{name}: {text}" if text else name
        return "raised", left_out if error in left_out else "; ".join(filter(None, (left_out, error))), True

    async def _interrupt_kernel(self) -> bool:
        """Interrupt the kernel; return whether it is ready for the next cell soon after."""
        await self.km.interrupt_kernel()
        with contextlib.suppress(Exception):  # no answer in time, or none that can be read
            await asyncio.wait_for(self._ping_kernel(), INTERRUPT_SECONDS)
            return True
        return False

    async def _ping_kernel(self) -> None:
        """Wait for the kernel's answer to a small request."""
        assert self.client is not None
        message_id = self.kc.kernel_info()
        while True:
            reply = await self.kc.get_shell_msg(timeout=INTERRUPT_SECONDS)
            if reply["parent_header"].get("msg_id") == message_id:
                return

    async def probe(self, request: dict[str, Any], body: bytes) -> AsyncIterator[Frame]:
        """Yield the kernel's answers to the probes of one exercise, up to the first that is not "seen".

        A kernel that does not answer is ended; the next request starts a new one.
        """
        if self.client is None:
            await self.run_to(self.end)
        message = self.kc.session.msg("probe_request", request)
        self.kc.session.send(self.kc.shell_channel.socket, message, buffers=[body])
        left = len(request["cases"])
        while left > 0:
            answers = await self._receive_answers(message["header"]["msg_id"], request["seconds"]["most"])
            for frame in answers[:left] or [Frame({})]:  # no answer at all: an empty frame, which is refused outside
                yield frame
                left -= 1
                if frame.type != "seen":
                    return

    async def _receive_answers(self, message_id: str, seconds: float) -> list[Frame]:
        """Wait for the next answers to a message; each may take `seconds`. Otherwise, say why there is none."""
        deadline = time.monotonic() + seconds + INTERRUPT_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                reply = await self.kc.get_shell_msg(timeout=min(left, 1.0))
            except Exception:
                if not await self.kc.is_alive():
                    if self.breach:
                        status, text = "over-limit", f"files: it wrote {self.breach}"
                        break
                    how = _exit_text(self.km.provisioner.process)
                    status, text = "crashed", f"the notebook's Python process ended ({how})"
                    break
                continue
            if reply["parent_header"].get("msg_id") == message_id:
                if found := files_over_limit(str(self.folder), self.limits):
                    self.breach, status, text = found, "over-limit", f"files: it wrote {found}"
                    break
                heads = reply["content"].get("heads", [])
                return [Frame(dict(head), bytes(body)) for head, body in zip(heads, reply["buffers"], strict=False)]
        else:
            status, text = "timed-out", f"no result after {round(seconds / self.limits.pace, 1):g} seconds"
        await self.stop()
        return [Frame({"type": "raised", "status": status, "message": text})]

    async def start(self) -> None:
        """Start a kernel and wait until it answers; none of the notebook's code runs before that."""
        self.kernels += 1
        self.position = 0
        if self.breach:  # the kernel that wrote them has ended, so none is added meanwhile
            await asyncio.to_thread(remove_notebook_files, str(self.folder))
            self.breach = None
        specs = OneKernel()
        specs.limits, specs.draws = self.limits, self.keep_outputs
        connection = self.folder / f"k{self.kernels}.json"
        manager = PromptManager(
            kernel_name="python3", kernel_spec_manager=specs, transport=TRANSPORT, connection_file=str(connection)
        )
        if self.forker is not None:
            manager.provisioner = ForkingProvisioner(
                kernel_id=connection.stem, kernel_spec=manager.kernel_spec, parent=manager, control=self.forker
            )
        manager.client_factory = PromptClient
        notebook = make_notebook(self.cells)
        self.client = CountingClient(
            notebook,
            km=manager,
            allow_errors=True,
            shutdown_kernel="immediate",
            on_cell_executed=self._keep_reply,
            record_timing=False,
        )
        self.notebook, self.client.output_limit = notebook, self.limits.output
        self.client.kept_limit = MAX_OUTPUT if self.keep_outputs else 0
        self.km = manager
        await self.client.async_start_new_kernel(cwd=str(self.folder / "work"), stdout=subprocess.DEVNULL)
        process = getattr(manager.provisioner, "process", None)
        try:
            self.kc = await self.client.async_start_new_kernel_client()
        except RuntimeError as error:
            raise RuntimeError(f"{error} ({_exit_text(process)})") from None

    async def _keep_reply(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        assert self.client is not None
        self.client.last_reply = execute_reply["content"]

    def send_outputs(self) -> None:
        """Send a frame for each output that was kept, up to `MAX_OUTPUTS` of them and `MAX_OUTPUT` bytes."""
        if not self.keep_outputs:
            return
        outputs = [(index, output) for index, cell in enumerate(self.notebook.cells) for output in cell.outputs]
        left = MAX_OUTPUT
        for index, output in outputs[:MAX_OUTPUTS]:
            body = json.dumps(output).encode()
            if len(body) <= min(MAX_BODY, left):
                left -= len(body)
                self.send(Frame({"type": "output", "cell": index}, body))

    async def watch_files(self) -> None:
        """Kill the kernel whenever the notebook has written more files than it may. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            kernel = self.kernels
            found = await asyncio.to_thread(files_over_limit, str(self.folder), self.limits)
            if found and self.km is not None and self.breach is None and self.kernels == kernel:
                self.breach = found
                await self.km.shutdown_kernel(now=True)

    async def stop(self) -> None:
        """End the kernel and everything it started in its process group."""
        if self.client is None or self.km is None:
            return
        client, self.client = self.client, None
        group = getattr(self.km.provisioner, "pgid", None)
        client.owns_km = True
        with contextlib.suppress(Exception):  # the kernel may be half dead already
            await client._async_cleanup_kernel()
        if group and group != os.getpgid(0):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


def _exit_text(process: Any) -> str:
    """How a kernel's process ended, in a few words."""
    code = getattr(process, "returncode", None)
    if type(code) is int and code < 0:
        return f"signal {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"signal {-code}"
    return f"exit code {code}" if code is not None else "no exit code"
