"""The client of one kernel: nbclient, with a count of all that the notebook writes, and no other kernel to choose."""

from __future__ import annotations

import sys
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from graders.wire.limits import Limits

PICTURES_FACTOR = 8
"""All that a notebook shows may be this many times its output limit, which does not count pictures."""
PICTURE_TYPES = ("image/", "application/pdf")
"""How the MIME types of pictures begin."""


class TooMuchOutput(Exception):
    """Raised when the notebook has written more than its limit."""


class OneKernel(KernelSpecManager):
    """The kernels that Jupyter finds: only this Python, whatever the notebook's metadata says."""

    limits = Limits()
    draws = False

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The specification of this Python, as `graders.sandbox.inside.kernel` runs it."""
        argv = [sys.executable, "-m", "graders.sandbox.inside.kernel", self.limits.to_json(), "{connection_file}"]
        argv.append("drawn" if self.draws else "undrawn")
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def make_notebook(cells: list[str]) -> NotebookNode:
    """A notebook of these code cells. The functions of nbformat would also validate each cell."""
    nodes = [
        NotebookNode(cell_type="code", source=source, metadata=NotebookNode(), outputs=[], execution_count=None)
        for source in cells
    ]
    return NotebookNode(cells=nodes, metadata=NotebookNode(), nbformat=4, nbformat_minor=5)


class CountingClient(NotebookClient):
    """An nbclient that counts all output, and keeps the first `kept_limit` characters of it.

    `written` and `shown` are characters of output, without and with pictures.
    """

    written = shown = 0
    output_limit = Limits.output
    kept_limit = 0
    last_reply: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed in place

    @property
    def too_much(self) -> bool:
        """Whether the notebook has shown more than it may."""
        return self.written > self.output_limit or self.shown > PICTURES_FACTOR * self.output_limit

    def output(self, outs: Any, msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        """Count an output, and keep it within the limit. Raises `TooMuchOutput`."""
        content = msg.get("content", {})
        self.shown += len(str(content))
        if type(content.get("data")) is dict:  # whether pictures are drawn must not decide a mark
            data = {kind: data for kind, data in content["data"].items() if not kind.startswith(PICTURE_TYPES)}
            content = {**content, "data": data}
        self.written += len(str(content))
        if self.too_much:
            # Otherwise nbclient would first wait for the cell to end, and what it prints would pile up unread.
            if self.task_poll_for_reply is not None:
                self.task_poll_for_reply.cancel()
            raise TooMuchOutput
        return super().output(outs, msg, display_id, cell_index) if self.shown <= self.kept_limit else None
