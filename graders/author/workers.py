"""The processes that share an author's long work."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from graders.core import course
from graders.core.errors import HookworkError
from graders.marking.jobs import default_jobs
from graders.wire.forking import can_fork

Part = tuple[int, int]
"""(K, N): every N-th of many, from the K-th, counted from 0."""
WHOLE = (0, 1)


def parse_part(text: str) -> Part:
    """K/N as two numbers. K is taken modulo N, so it may be the day of the year. Raises `HookworkError`."""
    match = re.fullmatch(r"(\d+)/([1-9]\d*)", text)
    if match is None:
        raise HookworkError(f"--part is K/N, as in 3/10, not {text!r}")
    return int(match[1]) % int(match[2]), int(match[2])


@contextlib.contextmanager
def worker_pool(preload: str) -> Iterator[ProcessPoolExecutor]:
    """A pool of as many processes as jobs may run; where possible they are forks of one that has imported `preload`.

    Python is started in a folder of ours meanwhile: `multiprocessing` makes it look for every module in the current
    folder first, where a `types.py` of a stranger's may lie.
    """
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")  # we may have used torch's threads
    if can_fork:
        context.set_forkserver_preload([preload])
    before = os.getcwd()
    os.chdir(course.PACKAGE)
    try:
        with ProcessPoolExecutor(default_jobs(), context) as pool:
            yield pool
    finally:
        os.chdir(before)
