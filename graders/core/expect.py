"""Compare what was seen with what was expected, and say where they first differ.

`Seen` is a value with the path that led to it. Looking up a missing key gives a `Seen` of `MISSING` instead of an
exception: a learner's answer may have any structure, and comparing it must always end in a sentence.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import torch

from graders.core.difference import Difference, Kind, around_the_difference, first_divergence
from graders.core.shown import MISSING, describe_pair, describe_type, describe_value
from graders.wire.data import Array

FLOAT32 = (1e-5, 1e-5)
"""(rtol, atol) of what agrees to float32 precision: values differ if |seen - expected| > atol + rtol * |expected|."""
AS_FLOAT32 = "the values are float64, and these agree only to float32 precision"

Tolerance = Callable[[torch.Tensor], tuple[float, float]]
"""Gives (rtol, atol) for an expected tensor."""


class Mismatch(AssertionError):
    """A check failed; `difference` says why, and is put into words only if somebody asks."""

    def __init__(self, describe: Callable[[], Difference]) -> None:
        """`describe` makes the difference."""
        super().__init__()
        self.describe = describe

    @functools.cached_property
    def difference(self) -> Difference:
        """What `describe` says."""
        return self.describe()

    def __str__(self) -> str:
        """The text of the difference, which is what a learner reads."""
        return self.difference.text


class Seen:
    """A value that came out of the box, and the path to it, such as `grads['a']`."""

    def __init__(self, value: Any, path: str | None = None) -> None:
        """Wrap a decoded value. Without a path it is the whole of what was seen, which messages call "the result"."""
        self.value, self.path, self._top = value, "the result" if path is None else path, path is None

    def __getitem__(self, key: Any) -> Seen:
        """The entry under `key`, or a `Seen` of `MISSING`."""
        path = (str(key) if self._top else f"{self.path}[{key!r}]") if type(key) is str else f"{self.path}[{key}]"
        try:
            return Seen(self.value[key], path)
        except (KeyError, IndexError, TypeError):
            return Seen(MISSING, path)

    def __len__(self) -> int:
        """The number of entries; 0 for a value that cannot have any."""
        return len(self.value) if type(self.value) in (list, tuple, dict, str) else 0

    def __bool__(self) -> bool:
        """A `Seen` is always true, whatever its `value`."""
        return True

    def __iter__(self) -> Any:
        """The entries of a list or tuple in order; nothing for any other value."""
        count = len(self) if type(self.value) in (list, tuple) else 0
        return (self[index] for index in range(count))

    @property
    def keys(self) -> list[Any]:
        """The keys of a dict in order; an empty list for any other value."""
        return list(self.value) if type(self.value) is dict else []

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor that was seen, or None for any other value."""
        return self.value.tensor if type(self.value) is Array else None


def _made_finite(seen: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether NaN became 0 and infinities became very large numbers, as `torch.nan_to_num` makes them."""
    infinite, nan = expected.isinf(), expected.isnan()
    if not bool(infinite.any() and (infinite | nan).all() and seen.isfinite().all()):
        return False
    return bool((seen[infinite].abs() > 1e-3 * torch.finfo(torch.float32).max).all() and (seen[nan] == 0).all())


def _common_factor(seen: torch.Tensor, expected: torch.Tensor) -> str:
    """By what all entries are multiplied, if it is one number and there are several different entries; else ""."""
    finite = expected.is_floating_point() and bool(expected.isfinite().all() and seen.isfinite().all())
    if not finite or len({*expected.abs().flatten().tolist()}) < 3:
        return ""
    most = expected.abs().argmax()
    factor = (seen.flatten()[most].double() / expected.flatten()[most].double()).item()
    same = torch.isclose(seen.double(), factor * expected.double(), rtol=1e-3, atol=1e-6 * abs(factor))
    return f"{factor:.4g}" if factor and abs(factor - 1) > 0.01 and bool(same.all()) else ""


def _differing_entries(
    value: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float, *, equal_nan: bool = False
) -> torch.Tensor:
    """A bool tensor that marks the entries of `value` that are not close to `expected`."""
    return ~torch.isclose(value.double(), expected.double(), rtol=rtol, atol=atol, equal_nan=equal_nan)


class expect:
    """The comparisons that a check can make. Each raises `Mismatch` with the first difference."""

    def __init__(self, seen: Seen) -> None:
        """Compare this value."""
        self.seen, self.value, self.path = seen, seen.value, seen.path

    def fail(self, message: str, kind: Kind = Kind.CONDITION) -> NoReturn:
        """Raise `Mismatch` for this value, with a reason in words."""
        raise Mismatch(partial(Difference, kind, self.path, note=message))

    def differs(
        self, expected: str, seen: str, kind: Kind = Kind.VALUE, *, entry: str = "", note: str = ""
    ) -> NoReturn:
        """Raise `Mismatch` with what was expected and what was seen, each in a few words."""
        raise Mismatch(partial(Difference, kind, self.path, entry=entry, expected=expected, seen=seen, note=note))

    def number_close_to(self, expected: float, rtol: float, atol: float) -> None:
        """Require a Python number close to `expected`."""
        if type(self.value) not in (int, float):
            self._fail_for_type(f"the number {describe_value(expected)}")
        if not self._number_close(expected, rtol, atol):
            rounded = rtol < 1e-6 and self._number_close(expected, *FLOAT32)
            kind, note = (Kind.PRECISION, AS_FLOAT32) if rounded else (Kind.VALUE, "")
            self.differs(*describe_pair(expected, float(self.value)), kind, note=note)

    def _number_close(self, expected: float, rtol: float, atol: float) -> bool:
        seen = float(self.value)
        return (math.isfinite(expected) and abs(seen - expected) <= atol + rtol * abs(expected)) or seen == expected

    def close_to(
        self, expected: torch.Tensor, tolerance: Tolerance = lambda _: FLOAT32, *, detached: bool = True
    ) -> None:
        """Require a tensor with the dtype, shape and values of `expected`, NaN in the same places, and no graph.

        `detached=False` allows a tensor that requires grad. `tolerance` is asked only if some entry is not equal.
        """
        if type(self.value) is not Array or self.value.kind != "tensor":
            self._fail_for_type("a tensor")
        seen: torch.Tensor = self.value.tensor
        if seen.shape != expected.shape:
            self.differs(f"the shape {tuple(expected.shape)}", str(tuple(seen.shape)), Kind.SHAPE)
        if seen.dtype != expected.dtype:
            self.differs(f"the dtype {expected.dtype}", str(seen.dtype), Kind.DTYPE)
        if not torch.equal(seen, expected):  # several times as fast as the rest, and usual
            unlike = _differing_entries(seen, expected, *tolerance(expected), equal_nan=True)
            if bool(unlike.any()):
                raise Mismatch(partial(self._describe_first, unlike, seen, expected))
        if detached and self.value.requires_grad:
            self.fail("the values are right, but the tensor still requires grad; return it detached", Kind.GRAPH)

    def _describe_first(self, unlike: torch.Tensor, seen: torch.Tensor, expected: torch.Tensor) -> Difference:
        """The difference at the first entry that is not close."""
        index = tuple(int(i) for i in unlike.nonzero()[0])
        wanted, shown = describe_pair(expected[index].item(), seen[index].item())
        several, count = seen.numel() > 1, int(unlike.sum())
        share = f"{count} of {unlike.numel()} entries differ" if count < unlike.numel() else "all entries differ"
        as_float32 = _differing_entries(seen, expected, *FLOAT32)
        rounded = seen.dtype == torch.float64 and not bool(as_float32.any())
        kind = Kind.PRECISION if rounded else Kind.FINITE if _made_finite(seen[unlike], expected[unlike]) else None
        factor = None if kind else _common_factor(seen, expected)
        return Difference(
            kind or (Kind.FACTOR if factor else Kind.VALUE),
            self.path,
            entry="".join(f"[{i}]" for i in index) if several else "",
            expected=wanted,
            seen=shown,
            note=f"each entry is {factor} times what is expected"
            if factor
            else "; ".join([share] * several + [AS_FLOAT32] * rounded),
        )

    def _fail_for_type(self, expected: str) -> NoReturn:
        self.differs(expected, describe_type(self.value), self._type_difference_kind)

    @property
    def _type_difference_kind(self) -> Kind:
        """The kind of difference when the type is wrong: `MISSING` and None count as missing."""
        return Kind.MISSING if self.value is MISSING or self.value is None else Kind.TYPE

    def array_close_to(self, expected: torch.Tensor, tolerance: Tolerance = lambda _: FLOAT32) -> None:
        """Require a numpy array with the dtype, shape and values of the tensor `expected`."""
        if type(self.value) is not Array or self.value.kind != "array":
            self._fail_for_type("a numpy array")
        seen: torch.Tensor = self.value.tensor
        if seen.shape == expected.shape and seen.dtype != expected.dtype:  # numpy has names of its own for dtypes
            wanted, shown = (str(one.numpy().dtype) for one in (expected, seen))
            self.differs(f"the dtype {wanted}", shown, Kind.DTYPE)
        expect(Seen(Array(seen, False), self.path)).close_to(expected, tolerance)

    def equals(self, expected: Any) -> None:
        """Require exactly `expected`, with the same type: an int, str or bool, or a list or tuple of them."""
        if type(self.value) is not type(expected):
            scalar = type(self.value) in (bool, int, float, str)
            shown = describe_type(self.value) + (f" ({describe_value(self.value)})" if scalar else "")
            self.differs(describe_value(expected), shown, self._type_difference_kind)
        if _strictly_equal(self.value, expected):
            return
        texts = describe_value(expected), describe_value(self.value)
        if texts[0] != texts[1]:
            self.differs(*texts)
        if type(expected) not in (list, tuple):
            self.differs(*describe_pair(expected, self.value))
        # The first entries, which are all that a message shows of a list, look the same: compare entry by entry.
        for entry, part in zip(self.seen, expected):
            expect(entry).equals(part)
        self.differs(_entries(len(expected)), str(len(self.value)))

    def has_keys(self, *expected: Any) -> None:
        """Require a dict with exactly these keys, in any order."""
        if type(self.value) is not dict:
            self._fail_for_type("a dict")
        seen = list(self.value)
        for key in expected:
            if key not in self.value:
                self.fail(f"the key {key!r} is missing; there are {describe_value(seen)}", Kind.MISSING)
        wanted = f"the keys {describe_value(list(expected))}" if expected else "no key"
        for key in seen:
            if key not in expected:
                self.fail(f"the key {describe_value(key)} does not belong there; expected {wanted}", Kind.VALUE)

    def has_length(self, expected: int, container: type[list[Any] | tuple[Any, ...]]) -> None:
        """Require a list, or a tuple, as `container` says, with `expected` entries."""
        if type(self.value) is not container:
            self._fail_for_type(f"a {container.__name__}")
        if len(self.value) != expected:
            self.differs(_entries(expected), str(len(self.value)))

    def equals_timeline(self, expected: Sequence[str]) -> None:
        """Require a list of events equal to `expected`. The first difference is shown in two columns."""
        if type(self.value) is not list or any(type(event) is not str for event in self.value):
            texts = describe_type(self.value), describe_value(self.value)
            self.differs("a list of texts", " ".join(dict.fromkeys(texts)), Kind.TYPE)
        if first_divergence(expected, self.value) is not None:
            timelines = around_the_difference(expected, self.value)
            raise Mismatch(partial(Difference, Kind.ORDER, self.path, timelines=timelines))


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _strictly_equal(value: Any, expected: Any) -> bool:
    """Equality that tells True from 1 and 1 from 1.0, even inside lists and tuples."""
    if type(value) is not type(expected):
        return False
    if type(value) in (list, tuple):
        return len(value) == len(expected) and all(map(_strictly_equal, value, expected))
    return bool(value == expected)
