"""The processes that share an author's long work."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from graders.core import course
from graders.marking.jobs import default_jobs
from graders.wire.forking import can_fork


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
