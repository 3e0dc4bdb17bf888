"""The process of the box: requests come in on stdin, frames go out on the descriptor named first.

Requests: `notebook` (the code cells as JSON in the body, the limits), then any number of `probe`s, then
`end`. Answers: `ready` (there is a kernel; nothing of the notebook has run), a `cell` each (and `restart`
when the cells run again), `cells-done`, then one `seen` or `raised` for each probe with its nonce, then
`probe-end`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from graders.box import frames
from graders.box.frames import Frame
from graders.box.limits import Limits
from graders.box.session import Session


async def converse(out: int) -> None:
    """Serve one submission."""

    def send(frame: Frame) -> None:
        raw = frames.pack(frame)
        while raw:
            raw = raw[os.write(out, raw) :]

    def receive() -> Frame:
        frame = frames.read(sys.stdin.buffer.read, max_body=frames.MAX_REQUEST)
        if frame is None:
            sys.exit(0)
        return frame

    request = receive()
    session = Session(json.loads(request.body), Limits(**request.head["limits"]), Path.cwd(), send)
    try:
        await session.start()
        send(Frame({"type": "ready"}))
        await session.execute()
        send(Frame({"type": "cells-done"}))
        while (request := receive()).type == "probe":
            answer = await session.probe(request.head, request.body)
            send(Frame({**answer.head, "nonce": request.head["nonce"]}, answer.body))
    finally:
        await session.stop()
    send(Frame({"type": "probe-end"}))  # last: outside, this process is ended as soon as it arrives


def main() -> None:
    """Entry point: `python -m graders.box.main DESCRIPTOR`."""
    asyncio.run(converse(int(sys.argv[1])))


if __name__ == "__main__":
    main()
