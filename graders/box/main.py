"""The process of the box: requests come in on stdin, frames go out on the descriptor named first.

Requests: `notebook` (the code cells as JSON in the body, the limits, whether outputs are kept), answered by `ready`:
there is a kernel, and nothing of the notebook has run. Then any number of `run` (cells up to a number: a `cell` each,
`restart` when the cells run again, at last `cells-done`) and `probe` (one `seen` or `raised`, with its nonce), then
`end`, answered by an `output` for each that was kept, and `probe-end`. Or one request `self-test`, answered by the
`cell` in which torch computed, and `held`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
from pathlib import Path

from graders.box import confine
from graders.box.limits import describe_low_limit, limit_processes
from graders.box.wall_checks import SELF_TEST, check_walls, connection_attempt_cell
from graders.wire import frames
from graders.wire.frames import Frame
from graders.wire.launch import BoxPlan
from graders.wire.limits import NOTEBOOK_FOLDERS, Limits


async def serve_submission(out: int, forker: socket.socket | None = None) -> None:
    """Serve one submission. Its kernels are forked by the process at the other end of `forker`, if there is one."""

    def send(frame: Frame) -> None:
        raw = frames.pack_frame(frame)
        while raw:
            raw = raw[os.write(out, raw) :]

    def receive() -> Frame:
        frame = frames.read_frame(sys.stdin.buffer.read, frames.MAX_REQUEST, frames.MAX_REQUEST)
        if frame is None:
            sys.exit(0)
        return frame

    request = receive()
    limits = Limits(**request.head["limits"])
    limit_processes(limits)
    from graders.box.session import Session  # the Jupyter stack; processes that only prepare a box go without

    if request.type == "self-test":
        walls = check_walls(request.head, limits) if request.head["walls"] else {}
        if short := describe_low_limit(limits):
            send(Frame({"type": "held", "short": short}))
            return
        session = Session(
            [*SELF_TEST, connection_attempt_cell(request.head["sockets"])], limits, Path.cwd(), send, forker
        )
        try:
            await session.start()
            await session.run_to(len(SELF_TEST))
            send(Frame({"type": "held", "held": walls}))
        finally:
            await session.stop()
        return
    session = Session(
        json.loads(request.body), limits, Path.cwd(), send, forker, keep_outputs=request.head["keep_outputs"]
    )
    watch = asyncio.ensure_future(session.watch_files())
    try:
        await session.start()
        send(Frame({"type": "ready"}))
        while (request := receive()).type != "end":
            if request.type == "run":
                await session.run_to(request.head["cells"])
                send(Frame({"type": "cells-done"}))
            else:
                nonces = iter([case.pop(0) for case in request.head["cases"]])  # no kernel gets to see them
                async for answer in session.probe(request.head, request.body):
                    send(Frame({**answer.head, "nonce": next(nonces)}, answer.body))
        session.send_outputs()
    finally:
        watch.cancel()
        await session.stop()
    send(Frame({"type": "probe-end"}))  # last: outside, this process is ended as soon as it arrives


def prepare_box(plan: BoxPlan) -> None:
    """Make the folders of the box, and confine this process as its tier asks."""
    confine.die_with_parent()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # should this machine run out of memory, boxes go first
    folder = Path(plan.folder)
    for name in NOTEBOOK_FOLDERS:
        (folder / name).mkdir()
    shutil.copytree(Path(__file__).parents[2] / "matplotlib", folder / "home" / "matplotlib")
    os.chdir(folder)
    if plan.walls is not None:
        if plan.walls.readable:
            confine.restrict_files(plan.walls.readable, plan.walls.writable, plan.walls.hidden)
        confine.filter_system_calls(metadata=plan.walls.metadata)
        confine.set_nondumpable()  # the pipe of frames, above all


def run(out: int, forker: socket.socket | None = None) -> None:
    """Serve one submission, writing frames to the descriptor `out`."""
    asyncio.run(serve_submission(out, forker))


def main() -> None:
    """Entry point: `python -m graders.box.main DESCRIPTOR PLAN`."""
    if sys.platform == "win32":  # whose usual loop cannot wait for what Jupyter waits for
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    prepare_box(BoxPlan.from_json(sys.argv[2]))
    run(int(sys.argv[1]))


if __name__ == "__main__":
    main()
