"""Fork kernels instead of starting them, for an ordinary kernel manager of Jupyter and an ordinary nbclient."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import time
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from graders.wire.forking import ForkedProcess

START_SECONDS = 30.0
"""Seconds that a kernel has to open its sockets, and again to answer."""


class ForkingProvisioner(LocalProvisioner):
    """A `LocalProvisioner` whose process is forked by the process at the other end of `control`."""

    process: Any = None

    def __init__(self, *, control: socket.socket, **kwargs: Any) -> None:
        """`control` is the socket that takes requests to fork; the rest is as in the base class."""
        super().__init__(**kwargs)
        self.control = control

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Have a kernel forked, and wait until it has its sockets: a client that connects too early waits longer."""
        request = {"argv": cmd, "cwd": str(kwargs["cwd"]), "env": kwargs.get("env") or dict(os.environ)}
        self.process = ForkedProcess(self.control, request, [])
        self.pid = self.pgid = self.process.pid
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and not self.process.ready and time.monotonic() < deadline:
            await self._wait_for_news(deadline - time.monotonic())
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel's process group, unless the kernel has ended."""
        if self.process is not None and self.process.poll() is None:
            await super().send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """Kill the kernel, and wait for its end for up to a second, so that nobody needs to poll."""
        await super().kill(restart)
        await self._wait_for_end(1.0)

    async def wait(self) -> int | None:
        """Wait for the kernel to end, and return its exit code."""
        await self._wait_for_end(None)
        process, self.process = self.process, None
        return process.returncode if process is not None else 0

    async def _wait_for_end(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.process is not None and self.process.poll() is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            await self._wait_for_news(left)

    async def _wait_for_news(self, seconds: float | None) -> None:
        """Wait for news of the forked process, for at most `seconds`; None waits forever."""
        loop, news, descriptor = asyncio.get_running_loop(), asyncio.Event(), self.process.fileno()
        loop.add_reader(descriptor, news.set)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(news.wait(), seconds)
        finally:
            loop.remove_reader(descriptor)


class PromptManager(AsyncKernelManager):
    """A manager that goes on as soon as its kernel has started. Jupyter's own first sleeps 10 ms, for its tests."""

    start_kernel = inspect.unwrap(AsyncKernelManager.start_kernel)


class PromptClient(AsyncKernelClient):
    """A client that is ready as soon as the kernel has answered and reported that it is idle."""

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Wait for both, `timeout` seconds or by default `START_SECONDS`. Raises `RuntimeError` as the base class does.

        The base class then waits until 0.2 s have passed without a message. That is not needed: the idle status for our
        own request is the last message that can come, and shows that we receive what the kernel publishes.
        """
        deadline = time.monotonic() + (timeout or START_SECONDS)
        while time.monotonic() < deadline:
            request = self.kernel_info()
            with contextlib.suppress(Empty):
                reply = await self._answer_to(request, self.shell_channel, "kernel_info_reply", 1.0)
                while True:
                    message = await self._answer_to(request, self.iopub_channel, "status", 0.1)
                    if message["content"]["execution_state"] == "idle":
                        self._handle_kernel_info_reply(reply)
                        return
            if not await self._async_is_alive():
                raise RuntimeError("Kernel died before replying to kernel_info")
        raise RuntimeError(f"Kernel didn't respond in {timeout} seconds")

    async def _answer_to(self, request: str, channel: Any, kind: str, seconds: float) -> dict[str, Any]:
        """Return the next message of a kind that answers a request. Raises `Empty` after `seconds` without a message.

        Answers to earlier requests, sent before the kernel was ready, are skipped.
        """
        while True:
            message: dict[str, Any] = await channel.get_msg(timeout=seconds)
            if message["msg_type"] == kind and message["parent_header"].get("msg_id") == request:
                return message
