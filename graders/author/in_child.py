"""Tries a program in a child of its own, which a clock ends: what the program leaves behind goes with the child."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

SECONDS = 20
"""What a program may take before its child is ended."""


def run_in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns, as JSON has it, from a forked child that prints nothing; None when it comes to no end.

    Torch must be at one thread in this process: one that has used its threads cannot be forked.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else None
