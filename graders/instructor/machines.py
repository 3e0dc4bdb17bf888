"""Where `hookwork grade` has notebooks run. A test gives it machines of another kind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from graders.core.seeds import new_seed
from graders.run.boxes import Boxes, prestarted_boxes


def _dask_executor(address: str) -> AbstractContextManager[Executor]:
    from graders.instructor.cluster import dask_executor  # imports torch

    return dask_executor(address)


@dataclass(frozen=True)
class Machines:
    """`here(now=...)` gives the prestarted boxes of this machine, `cluster(address)` an executor elsewhere.

    `new_seed()` gives the seed of a batch that is begun.
    """

    here: Callable[..., AbstractContextManager[Boxes]] = prestarted_boxes
    cluster: Callable[[str], AbstractContextManager[Executor]] = _dask_executor
    new_seed: Callable[[], int] = new_seed
