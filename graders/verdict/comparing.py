"""Finds where the observations of an answer differ from those of a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graders.core.difference import Difference, Kind
from graders.core.expect import Mismatch, Seen, expect
from graders.verdict.changes import unwanted_changes
from graders.wire.data import Array, Changes

TOLERANCE_BY_DTYPE = {torch.float64: 1e-10, torch.bfloat16: 1e-2, torch.float16: 1e-2}
"""Allowed error of a number, relative to the largest entry of its tensor; `DEFAULT_TOLERANCE` for other dtypes."""
DEFAULT_TOLERANCE = 1e-5
FLOAT_TOLERANCE = 1e-9
"""Allowed relative error of a Python float computed from float64 tensors; for others it is `DEFAULT_TOLERANCE`."""
Found = Iterator[tuple[str, Callable[[], Difference]]]
"""Paths, each with a function that describes the difference: most are never shown, and words take the most time."""


def find_differences(seen: Seen, wanted: Any, floats: float = FLOAT_TOLERANCE) -> Found:
    """The path and the difference of each place where `seen` is not like `wanted`, a decoded value.

    `floats` is the relative error that is allowed for a Python float.
    """
    if isinstance(wanted, Changes):
        yield from _unwanted_changes(seen, wanted)
    elif isinstance(wanted, Mapping):
        yield from _of_keys(seen, wanted)
        for key in wanted if type(seen.value) is dict else ():
            if key in seen.value:
                yield from find_differences(seen[key], wanted[key], floats)
    elif type(wanted) in (list, tuple) and _same_container(seen, wanted) and not _all_texts(seen, wanted):
        for entry, part in zip(seen, wanted):
            yield from find_differences(entry, part, floats)
    else:
        try:
            _check_equal(seen, wanted, floats)
        except Mismatch as mismatch:
            yield seen.path, mismatch.describe


def tensor_tolerance(wanted: Tensor) -> tuple[float, float]:
    """(rtol, atol) for a tensor. Small entries beside large ones are allowed the absolute error of the large ones."""
    finite = wanted[torch.isfinite(wanted)].abs() if wanted.is_floating_point() else wanted.new_empty(0)
    most = float(finite.max()) if finite.numel() else 1.0
    limit = TOLERANCE_BY_DTYPE.get(wanted.dtype, DEFAULT_TOLERANCE)
    return limit, limit * (min(1.0, most) or 1e-30)


def _same_container(seen: Seen, wanted: Any) -> bool:
    return type(seen.value) is type(wanted) and len(seen.value) == len(wanted)


def _all_texts(seen: Seen, wanted: Any) -> bool:
    """Whether both are lists of strings, which are compared as timelines."""
    return bool(wanted) and all(type(entry) is str for entry in [*wanted, *seen.value])


def _of_keys(seen: Seen, wanted: Mapping[Any, Any]) -> Found:
    try:
        expect(seen).has_keys(*wanted)
    except Mismatch as mismatch:
        yield seen.path, mismatch.describe


def _unwanted_changes(seen: Seen, wanted: Changes) -> Found:
    try:
        found = unwanted_changes(seen.value, wanted)
    except (AttributeError, ValueError):  # it comes out of the box, where anybody could have written it
        yield seen.path, partial(Difference, Kind.CONDITION, note=f"{seen.path}: the watch told nothing")
        return
    when = re.sub("^by ", "after ", seen.path.rsplit("[", 1)[-1].strip("]'\""))
    for kind, sentence in found:
        yield f"{seen.path}: {sentence}", partial(Difference, kind, note=f"{when}, {sentence}")


def _check_equal(seen: Seen, wanted: Any, floats: float) -> None:
    """Raises `Mismatch` unless a value agrees with the reference: in type, dtype, shape, and within the tolerance."""
    if isinstance(wanted, Array) and wanted.kind == "tensor":
        expect(seen).close_to(wanted.tensor, tensor_tolerance, detached=not wanted.requires_grad)
        if wanted.requires_grad and not seen.value.requires_grad:
            expect(seen).fail("it has no graph, so gradients cannot flow through it", Kind.GRAPH)
    elif isinstance(wanted, Array):
        expect(seen).array_close_to(wanted.tensor, tensor_tolerance)
    elif type(wanted) is type(seen.value) is float and math.isnan(wanted) and math.isnan(seen.value):
        return
    elif type(wanted) is float:
        expect(seen).number_close_to(wanted, floats, floats / 1000)
    elif type(wanted) is list and type(seen.value) is list and _all_texts(seen, wanted):
        expect(seen).equals_timeline(wanted)
    elif type(wanted) in (list, tuple) and not _same_container(seen, wanted):
        expect(seen).has_length(len(wanted), type(wanted))
    elif wanted is None or type(wanted) in (bool, int, str, list, tuple):
        expect(seen).equals(wanted)
    elif seen.value != wanted:
        expect(seen).differs(str(wanted), str(seen.value))
