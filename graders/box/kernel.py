"""The kernel of a submission: an ordinary IPython kernel that also answers probes.

A probe arrives as a message type of its own, so it does not pass through IPython's input machinery,
which belongs to the learner's notebook.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread
from ipykernel.ipkernel import IPythonKernel

from graders.box import forked
from graders.box.data import DataError, decode, tensors
from graders.box.limits import apply_limits
from graders.box.probing import Answer, answer


class ProbedKernel(IPythonKernel):  # type: ignore[misc]  # ipykernel is untyped
    """Adds `probe_request`: a probe's source, a draw, and how long it may take."""

    msg_types = [*IPythonKernel.msg_types, "probe_request"]  # noqa: RUF012 - so declared by ipykernel

    def __init__(self, **kwargs: Any) -> None:
        """As ipykernel makes it. `exit` and `quit` in a cell do nothing: probes come after the last cell."""
        super().__init__(**kwargs)
        self.shell.ask_exit = lambda: None

    async def do_execute(self, code: str, *arguments: Any, **options: Any) -> Any:
        """Run a cell. Without streams to flush afterwards, IPython would send no answer at all."""
        self._mend_streams()
        try:
            return await super().do_execute(code, *arguments, **options)
        except Exception as error:  # raised while IPython reported on the cell, for example `del sys.stdout`
            return {"status": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": [],
                    "execution_count": self.execution_count, "user_expressions": {}, "payload": []}  # fmt: skip
        finally:
            self._mend_streams()

    def _mend_streams(self) -> None:
        """Put the kernel's own stdout and stderr back where a cell has left nothing that can be flushed."""
        for name, own in self._streams.items():
            try:
                getattr(sys, name).flush()
            except Exception:
                setattr(sys, name, own)

    @functools.cached_property
    def _streams(self) -> dict[str, Any]:
        """The kernel's own stdout and stderr, as they are when its first cell is about to run."""
        return {"stdout": sys.stdout, "stderr": sys.stderr}

    async def probe_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer with a `probe_reply`: the head and the body of an answer."""
        content = parent["content"]
        body = b"".join(bytes(part) for part in parent["buffers"])
        try:
            reply = probe_notebook(self.shell.user_ns, content, body)
        except Exception as error:  # without a reply, this would count as an endless loop
            message = f"the probe could not run: {type(error).__name__}"
            reply = Answer({"type": "raised", "status": "crashed", "message": message})
        self.session.send(stream, "probe_reply", {"head": reply.head}, parent, ident=ident, buffers=[reply.body])


def probe_notebook(namespace: dict[str, Any], request: dict[str, Any], body: bytes) -> Answer:
    """Run one probe on the executed notebook, in a forked child where the platform can."""

    def work() -> Answer:
        try:
            draw = tensors(decode(request["draw"], body))
            module = sys.modules["probe"] = ModuleType("probe")  # so that its classes can be pickled
            exec(compile(request["source"], "<probe>", "exec"), vars(module))
        except (DataError, KeyError) as error:
            return Answer({"type": "raised", "status": "crashed", "message": f"the probe could not start: {error}"})
        return answer(module.probe, namespace, draw, request["seed"])

    if request["fork"] and forked.available:
        return forked.in_fork(work, request["seconds"], request["pace"])
    return work()


class _LocalIOPubThread(IOPubThread):  # type: ignore[misc]  # ipykernel is untyped
    """Without the TCP socket by which forked children would print: in a box there is no network."""

    def __init__(self, socket: Any, pipe: bool = False, **kwargs: Any) -> None:
        super().__init__(socket, pipe=False, **kwargs)


def initialize(limits: str) -> Any:
    """The kernel's application with its sockets bound, limited as the JSON says; `start` runs it."""
    apply_limits(limits)
    kernelapp.IOPubThread = _LocalIOPubThread
    app = kernelapp.IPKernelApp.instance(kernel_class=ProbedKernel)
    app.initialize(sys.argv[1:])
    return app


def main() -> None:
    """Entry point: `python -m graders.box.kernel LIMITS -f CONNECTION`, with the limits as JSON."""
    initialize(sys.argv.pop(1)).start()


if __name__ == "__main__":
    main()
