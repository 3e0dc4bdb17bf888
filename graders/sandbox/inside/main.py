"""The main process of a box: it reads requests from stdin, and writes frames to the descriptor that it is given.

A submission is one `notebook`, any number of `run` and `probe`, and `end`. A self-test is one `self-test`.

    notebook    code cells as JSON in the body,      `ready`: there is a kernel, and no cell has run
                limits, whether to keep outputs
    run         the number of cells to have run      a `cell` each, `restart` if they run again, then `cells-done`
    probe       the probes of one exercise           `seen` for each, with its nonce; the last may be `raised`
    end                                              an `output` for each that was kept, then `probe-end`
    self-test   what to try                          a `cell` each, then `held`
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

from graders.probing.process_limits import describe_low_limit, die_with_parent, limit_processes
from graders.sandbox.inside import confine, system_calls
from graders.sandbox.inside.wall_checks import SELF_TEST, check_walls, connection_attempt_cell
from graders.wire import frames
from graders.wire.frames import Frame
from graders.wire.launch import BoxPlan
from graders.wire.limits import NOTEBOOK_FOLDERS, Limits


async def serve_submission(out: int, forker: socket.socket | None = None) -> None:
    """Serve one submission, and write frames to the descriptor `out`.

    Its kernels are forked by the process at the other end of `forker`; without it they are started.
    """

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
    from graders.sandbox.inside.session import Session  # imports Jupyter, which is not needed to prepare a box

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
                nonces = iter([case.pop(0) for case in request.head["cases"]])  # kernels never see them
                async for answer in session.probe(request.head, request.body):
                    send(Frame({**answer.head, "nonce": next(nonces)}, answer.body))
        session.send_outputs()
    finally:
        watch.cancel()
        if forker is None:  # a forked kernel is ended by the process that forked it, once this one has ended
            await session.stop()
    send(Frame({"type": "probe-end"}))  # last: this process is ended as soon as it arrives outside


def prepare_box(plan: BoxPlan) -> None:
    """Make the folders of the box, and confine this process as its tier requires."""
    die_with_parent()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if this machine runs out of memory, boxes go first
    folder = Path(plan.folder)
    for name in NOTEBOOK_FOLDERS:
        (folder / name).mkdir()
    shutil.copytree(Path(__file__).parents[3] / "matplotlib", folder / "home" / "matplotlib")
    os.chdir(folder)
    if plan.walls is not None:
        if plan.walls.readable:
            confine.restrict_files(plan.walls.readable, plan.walls.writable, plan.walls.hidden)
        system_calls.filter_system_calls(metadata=plan.walls.metadata)
        confine.set_nondumpable()  # above all for the pipe of frames


def run(out: int, forker: socket.socket | None = None) -> None:
    """Run `serve_submission` in an event loop."""
    asyncio.run(serve_submission(out, forker))


def main() -> None:
    """Entry point: `python -m graders.sandbox.inside.main DESCRIPTOR PLAN`."""
    if sys.platform == "win32":  # its default event loop cannot wait for Jupyter's sockets
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    prepare_box(BoxPlan.from_json(sys.argv[2]))
    run(int(sys.argv[1]))


if __name__ == "__main__":
    main()
