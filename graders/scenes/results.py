"""Copies of what a learner's function returned, which later changes do not affect."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor


def copy_value(value: Any, copy: Callable[[Tensor], Tensor] = Tensor.clone) -> Any:
    """A copy of lists, tuples, dicts and arrays, with a `copy` of each tensor in them; other values themselves.

    By default it shows whether a tensor has a graph. Of a list it has the first 200 entries: one that all calls of an
    answer share would grow without end.
    """
    if isinstance(value, dict):
        return {key: copy_value(part, copy) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(copy_value(part, copy) for part in value[:200])
    if isinstance(value, Tensor):
        return copy(value)
    return value.copy() if isinstance(value, np.ndarray) else value
