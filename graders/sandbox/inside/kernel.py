"""The kernel of a submission: an ordinary IPython kernel that also answers probes.

A probe arrives as a message of its own type, so it does not pass through IPython's input machinery, which belongs to
the learner's notebook.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any, ClassVar

from ipykernel import ipkernel, kernelapp
from ipykernel.iostream import IOPubThread, OutStream
from ipykernel.ipkernel import IPythonKernel
from traitlets import Type
from traitlets.config import Config

from graders.probing.asking import Answer, answer_probe
from graders.probing.process_limits import apply_limits, limit_memory
from graders.sandbox.inside import system_calls
from graders.sandbox.inside.shell import CellShell
from graders.sandbox.inside.tensor_sharing import send_tensors_by_value
from graders.wire import forking
from graders.wire.data import DataError, arrays_to_tensors, decode
from graders.wire.frames import Frame

if forking.can_fork:  # elsewhere its module cannot be imported
    from graders.probing.forked import ForkedProbes


class _SysWithoutModules:
    """What ipykernel finds as `sys` while it makes a kernel.

    For debuggers it would ask each of 2,500 modules for its file. That takes 10 ms: Python counts references, and so
    writes to pages that were shared with the warm process until then.
    """

    modules: ClassVar[dict[str, ModuleType]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


class ProbedKernel(IPythonKernel):  # type: ignore[misc]  # ipykernel is untyped
    """An IPython kernel that also takes a `probe_request`: a probe's source, its draws, and how long it may take."""

    msg_types = [*IPythonKernel.msg_types, "probe_request"]  # noqa: RUF012 - as ipykernel declares it
    _execute_sleep = 0.0  # seconds that ipykernel would wait for slow front ends
    shell_class = Type(CellShell)

    def __init__(self, **kwargs: Any) -> None:
        """Create the kernel as ipykernel does, and children for its probes where it can fork."""
        ipkernel.sys = _SysWithoutModules()
        try:
            super().__init__(**kwargs)
        finally:
            ipkernel.sys = sys
        work = functools.partial(run_probe, self.shell.user_ns)
        self._probes = ForkedProbes(work) if forking.can_fork else None

    async def do_execute(self, code: str, *arguments: Any, **options: Any) -> Any:
        """Run a cell, then mend stdout and stderr: if IPython could not flush them, it would send no reply at all."""
        if self._probes is not None:
            self._probes.end()  # while a child exists, all memory that a cell writes to is copied
        self._mend_streams()
        try:
            return await super().do_execute(code, *arguments, **options) | self.shell.missing_names()
        except Exception as error:  # raised while IPython reported on the cell, for example `del sys.stdout`
            return {"status": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": [],
                    "execution_count": self.execution_count, "user_expressions": {}, "payload": []}  # fmt: skip
        finally:
            self._mend_streams()

    def _publish_execute_input(self, *_: Any) -> None:
        """Publish nothing: the message is meant for other front ends, and takes a millisecond."""

    def _publish_status(self, status: str, *arguments: Any, **options: Any) -> None:
        """Publish every status but "busy", which is of use only to people."""
        if status != "busy":
            super()._publish_status(status, *arguments, **options)

    def _mend_streams(self) -> None:
        """Put back the kernel's own stdout and stderr if a cell has left something that cannot be flushed."""
        for name, own in self._own_streams.items():
            if getattr(sys, name, None) is own and not getattr(own, "closed", True):
                continue  # a flush takes a millisecond, and IPython will do it
            try:
                getattr(sys, name).flush()
            except Exception:
                setattr(sys, name, own)

    @functools.cached_property
    def _own_streams(self) -> dict[str, Any]:
        """The kernel's own stdout and stderr, recorded just before its first cell runs."""
        return {"stdout": sys.stdout, "stderr": sys.stderr}

    async def probe_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer the probes of one exercise, up to the first whose answer is not "seen".

        A message takes longer than most probes, so a `probe_reply` gathers what children answer within
        `GATHERED_SECONDS`. What this process answers itself is sent at once, because the next probe may end it.
        """
        asked, body = parent["content"], b"".join(bytes(part) for part in parent["buffers"])
        until = time.monotonic() + asked["seconds"]["together"]
        gathered: list[Answer] = []

        def send() -> None:
            heads, bodies = [reply.head for reply in gathered], [reply.body for reply in gathered]
            gathered.clear()
            self.session.send(stream, "probe_reply", {"heads": heads}, parent, ident=ident, buffers=bodies)

        for draw, size in asked["cases"]:
            seconds = min(max(until - time.monotonic(), asked["seconds"]["least"]), asked["seconds"]["most"])
            head = {"type": "probe", "draw": draw, "source": asked["source"], "seed": asked["seed"]}
            if not gathered:
                since = time.monotonic()
            gathered.append(self._answer_probe(asked, Frame(head, body[:size]), seconds))
            if gathered[-1].head["type"] != "seen":
                break
            body = body[size:]
            enough = sum(len(reply.body) for reply in gathered) > GATHERED_BYTES
            if enough or time.monotonic() - since > GATHERED_SECONDS or not asked["fork"]:
                send()
        if self._probes is not None:
            self._probes.dismiss()
        if gathered:
            send()

    def _answer_probe(self, asked: dict[str, Any], request: Frame, seconds: float) -> Answer:
        try:
            if asked["fork"] and self._probes is not None:
                return self._probes.answer(asked["exercise"], request, seconds, asked["pace"])
            return run_probe(self.shell.user_ns, request)
        except Exception as error:  # without a reply, this would count as an endless loop
            message = f"the probe could not run: {type(error).__name__}"
            return Answer({"type": "raised", "status": "crashed", "message": message})


def run_probe(namespace: dict[str, Any], request: Frame) -> Answer:
    """Run one probe on the names that the notebook has defined by now."""
    with _temporary_module("probe") as module:  # so that its classes can be pickled
        try:
            draw = arrays_to_tensors(decode(request.head["draw"], request.body))
            exec(_compile_probe(request.head["source"]), vars(module))
        except (DataError, KeyError) as error:
            return Answer({"type": "raised", "status": "crashed", "message": f"the probe could not start: {error}"})
        return answer_probe(module.probe, namespace, draw, request.head["seed"])


@functools.lru_cache(maxsize=1)
def _compile_probe(source: str) -> CodeType:
    """Compile a probe, once for all draws of an exercise."""
    return compile(source, "<probe>", "exec")


@contextlib.contextmanager
def _temporary_module(name: str) -> Iterator[ModuleType]:
    """Register a new module under this name; afterwards the name stands for what it stood for before."""
    before, module = sys.modules.get(name), ModuleType(name)
    sys.modules[name] = module
    try:
        yield module
    finally:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before


GATHERED_SECONDS, GATHERED_BYTES = 0.2, 1 << 20
"""For how long, and up to how many bytes, answers are gathered for one message."""
PRINTED_AT_ONCE = 1 << 16
"""The most characters of what a cell prints in one message."""


class _LocalIOPubThread(IOPubThread):  # type: ignore[misc]  # ipykernel is untyped
    """ipykernel's thread that sends output, without its TCP socket for forked children: a box has no network."""

    def __init__(self, socket: Any, pipe: bool = False, **kwargs: Any) -> None:
        super().__init__(socket, pipe=False, **kwargs)


class PromptStream(OutStream):  # type: ignore[misc]  # ipykernel is untyped
    """The kernel's stdout and stderr. A flush, of which IPython makes several per cell, waits only for unsent text."""

    _unsent = 0

    def write(self, string: str) -> int | None:
        """Write a text, and wait until it is sent after every `PRINTED_AT_ONCE` characters.

        Otherwise the text printed in the fifth of a second between two messages may be hundreds of megabytes, and take
        several times that where it is read and counted.
        """
        if not isinstance(string, str):
            return super().write(string)  # raises TypeError
        for start in range(0, len(string), PRINTED_AT_ONCE):
            part = string[start : start + PRINTED_AT_ONCE]
            super().write(part)
            self._unsent += len(part)
            if self._unsent >= PRINTED_AT_ONCE:
                self._unsent = 0
                self.flush()
        return len(string)

    def flush(self) -> None:
        """Send what was written. What the thread has begun to send stays ahead of all that follows."""
        if getattr(self, "_flush_pending", True) or self.echo is not None:  # private to ipykernel: it may go one day
            super().flush()


class _KernelApp(kernelapp.IPKernelApp):  # type: ignore[misc]  # ipykernel is untyped
    """ipykernel's application, which ignores the command line and this machine's configuration of kernels."""

    def parse_command_line(self, argv: list[str] | None = None) -> None:
        """Ignore the command line: the constructor was given everything."""

    def load_config_file(self, *_: Any, **__: Any) -> None:
        """Load nothing."""

    def _configure_logging(self) -> None:
        """Leave logging as Python has it: to prepare it, each of torch's loggers is visited, which takes 2 ms."""

    def init_code(self) -> None:
        """Run no code at the start. ipykernel would look for some, and note the names of all modules, in 2 ms."""
        self.shell.user_ns_hidden.update(self.shell.user_ns)

    def init_control(self, context: Any) -> None:
        """Do as ipykernel does, but without the extra thread that passes on every message for the sake of subshells."""
        super().init_control(context)
        self.shell_channel_thread = None

    def start(self) -> None:
        """Serve until somebody ends this process.

        `exit`, `do_shutdown` and other ways in which a cell restarts its kernel stop the message loop. The notebook's
        names are still there, and more cells and probes may follow, so the loop starts again.
        """
        super().start()
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # an interrupt that comes too late for its cell
                self.io_loop.start()


CONFIG = {
    "IPKernelApp": {"outstream_class": f"{PromptStream.__module__}.PromptStream"},
    "HistoryManager": {"hist_file": ":memory:"},  # a file needs a thread, which IPython stops and starts at each fork
}
TEXT_TYPES = ["text/plain", "text/html", "text/markdown", "text/latex", "application/json", "application/javascript"]
NO_PICTURES = {"DisplayFormatter": {"active_types": TEXT_TYPES}}
"""For a kernel whose pictures nobody looks at: drawing four figures takes as long as all else in a lesson."""


def initialize_kernel_app(limits: str, connection: str, pictures: str) -> Any:
    """Return the kernel's application, with its sockets bound and limits set; its `start` runs it.

    `limits` is JSON, `connection` the path of Jupyter's connection file. `pictures` is "drawn" or "undrawn".
    """
    apply_limits(limits)
    limit_memory(limits)  # what torch and Jupyter take does not count; threads come next
    kernelapp.IOPubThread = _LocalIOPubThread
    config = Config(CONFIG if pictures == "drawn" else CONFIG | NO_PICTURES)
    app = _KernelApp.instance(kernel_class=ProbedKernel, connection_file=connection, config=config)
    app.initialize()
    if system_calls.has_system_call_filter():  # its own sockets are bound by now
        system_calls.keep_to_itself()
        send_tensors_by_value()
    return app


def main() -> None:
    """Entry point: `python -m graders.sandbox.inside.kernel LIMITS CONNECTION drawn|undrawn`, with limits as JSON."""
    limits, connection, pictures = sys.argv[1:4]  # nbclient adds options of ipykernel's own command line
    sys.argv[1:] = ["-f", connection]  # what a notebook finds there in other kernels
    initialize_kernel_app(limits, connection, pictures).start()


if __name__ == "__main__":
    main()
