"""The machines on which `hookwork grade` runs notebooks. Tests inject doubles here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from graders.core.seeds import new_seed
from graders.sandbox.outside.boxes import Boxes, prestarted_boxes


def _dask_executor(address: str) -> AbstractContextManager[Executor]:
    from graders.instructor.cluster import dask_executor  # imports torch

    return dask_executor(address)


@dataclass(frozen=True)
class Machines:
    """`here(now=...)` opens prestarted boxes on this machine, `cluster(address)` an executor on a cluster.

    With `now=True` the warm process starts at once, because a notebook will certainly have to run. `new_seed()` draws
    the seed of a new batch.
    """

    here: Callable[..., AbstractContextManager[Boxes]] = prestarted_boxes
    cluster: Callable[[str], AbstractContextManager[Executor]] = _dask_executor
    new_seed: Callable[[], int] = new_seed
