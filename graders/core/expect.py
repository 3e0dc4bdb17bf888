"""Comparing what was seen with what was expected, and saying where they first differ.

`Seen` is a value with the path by which it was reached. Looking up a key that is not there gives a `Seen`
of `MISSING` instead of an exception: a learner's answer may have any shape, and a comparison with it must
end in a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graders.core.text import clean
from graders.core.timeline import first_divergence, side_by_side
from graders.wire.data import Array, Refused

TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.float64: (1e-10, 1e-10)}
"""(rtol, atol) by dtype for values that are compared directly."""


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class Mismatch(AssertionError):
    """A check does not hold; the message is for the learner."""


class Seen:
    """A value that came out of the box, and the path to it, as in `grads['a']`."""

    def __init__(self, value: Any, path: str = "the result") -> None:
        """Wrap a decoded value."""
        self.value, self.path = value, path

    def __getitem__(self, key: Any) -> Seen:
        """The entry under `key`, or a `Seen` of `MISSING`."""
        top = self.path == "the result"
        path = (str(key) if top else f"{self.path}[{key!r}]") if type(key) is str else f"{self.path}[{key}]"
        try:
            return Seen(self.value[key], path)
        except (KeyError, IndexError, TypeError):
            return Seen(MISSING, path)

    def __len__(self) -> int:
        """Number of entries; 0 for a value that has none."""
        return len(self.value) if type(self.value) in (list, tuple, dict, str) else 0

    def __bool__(self) -> bool:
        """A `Seen` is always true; ask for its `.value`."""
        return True

    def __iter__(self) -> Any:
        """The entries of a list or tuple, in order; none for any other value."""
        count = len(self) if type(self.value) in (list, tuple) else 0
        return (self[index] for index in range(count))

    @property
    def keys(self) -> list[Any]:
        """The keys of a dict in order; empty for any other value."""
        return list(self.value) if type(self.value) is dict else []

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor that was seen, or None for any other value."""
        return self.value.tensor if type(self.value) is Array else None


def close(seen: Seen, expected: Any, rtol: float | None = None, atol: float | None = None) -> bool:
    """Whether a number, tensor, or list of these equals `expected` within the tolerance.

    For recognising mistakes: dtype and `requires_grad` do not matter, any other kind of value is just not
    close. A single number as `expected` stands for a tensor full of it.
    """
    value = seen.value
    if isinstance(expected, Mapping):
        return (
            type(value) is dict
            and value.keys() == expected.keys()
            and all(close(seen[key], expected[key], rtol, atol) for key in expected)
        )
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return (
            type(value) in (list, tuple)
            and len(value) == len(expected)
            and all(close(entry, part, rtol, atol) for entry, part in zip(seen, expected))
        )
    if type(value) is Array:
        number = not isinstance(expected, torch.Tensor)
        target = torch.full_like(value.tensor, expected, dtype=torch.float64) if number else expected
        return value.tensor.shape == target.shape and not _differences(value.tensor, target, rtol, atol).any()
    if type(value) in (int, float) and isinstance(expected, int | float | torch.Tensor):
        if isinstance(expected, torch.Tensor) and expected.numel() != 1:
            return False
        target = torch.as_tensor(float(expected), dtype=torch.float64)
        low, high = (1e-5 if limit is None else limit for limit in (rtol, atol))
        return not _differences(torch.tensor(float(value), dtype=torch.float64), target, low, high).any()
    return False


def apart(*tensors: torch.Tensor) -> bool:
    """Whether no two of these tensors of equal shape are close to each other: then an answer cannot be both."""
    return all(
        a.shape != b.shape or bool((a - b).abs().max() > 0.05)
        for index, a in enumerate(tensors)
        for b in tensors[index + 1 :]
    )


def _differences(value: torch.Tensor, expected: torch.Tensor, rtol: float | None, atol: float | None) -> torch.Tensor:
    """A bool tensor that marks the entries of `value` which are not close to `expected`."""
    default_rtol, default_atol = TOLERANCE.get(value.dtype, (1e-5, 1e-5))
    return ~torch.isclose(
        value.to(torch.float64),
        expected.to(torch.float64),
        rtol=default_rtol if rtol is None else rtol,
        atol=default_atol if atol is None else atol,
    )


def show(value: Any, digits: int = 6) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, Array):
        value = value.tensor
    if isinstance(value, torch.Tensor):
        if value.numel() <= 6:
            return show(value.tolist(), digits)
        shape = tuple(value.shape)
        return f"a tensor of shape {shape} that starts {show(value.reshape(-1)[:4].tolist(), digits)[:-1]}, …"
    if type(value) is float:
        return f"{value:.{digits}g}"
    if type(value) in (list, tuple):
        inner = ", ".join(show(item, digits) for item in value[:8]) + (", …" if len(value) > 8 else "")
        return f"[{inner}]" if type(value) is list else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {show(item, digits)}" for key, item in list(value.items())[:8]) + "}"
    if isinstance(value, Refused):
        return f"a {value.type} ({value.why})"
    return clean(repr(value), 100)


def kind(value: Any) -> str:
    """The type of a value, as a person says it."""
    if value is MISSING:
        return "nothing"
    if value is None:
        return "None"
    if isinstance(value, Array):
        return "a numpy array" if value.kind == "array" else "a tensor"
    if isinstance(value, Refused):
        return f"a {value.type} ({value.why})"
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


class expect:
    """The comparisons of a check. Each raises `Mismatch` with the first difference."""

    def __init__(self, seen: Seen) -> None:
        """What was seen."""
        self.seen, self.value, self.path = seen, seen.value, seen.path

    def fail(self, message: str) -> None:
        """Raise `Mismatch` for this value."""
        raise Mismatch(f"{self.path}: {message}")

    def close_to(
        self,
        expected: torch.Tensor | float,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        detached: bool = True,
    ) -> None:
        """A tensor of the same dtype, shape and values as `expected`, without a graph.

        A Python number is compared with a Python number. `detached=False` admits a tensor that requires
        grad. Tolerances default to those of the dtype.
        """
        if isinstance(expected, torch.Tensor):
            self._tensor_close(expected, rtol, atol, detached)
        elif type(self.value) not in (int, float):
            self.fail(f"expected the number {show(float(expected))}, saw {kind(self.value)}")
        elif not close(self.seen, expected, rtol, atol):
            self.fail(f"expected {show(float(expected))}, saw {show(float(self.value))}")

    def _tensor_close(self, expected: torch.Tensor, rtol: float | None, atol: float | None, detached: bool) -> None:
        if type(self.value) is not Array or self.value.kind != "tensor":
            self.fail(f"expected a tensor, saw {kind(self.value)}")
        seen: torch.Tensor = self.value.tensor
        if seen.shape != expected.shape:
            self.fail(f"expected the shape {tuple(expected.shape)}, saw {tuple(seen.shape)}")
        if seen.dtype != expected.dtype:
            self.fail(f"expected the dtype {expected.dtype}, saw {seen.dtype}")
        differs = _differences(seen, expected, rtol, atol)
        if bool(differs.any()):
            self.fail(_first_difference(seen, expected, differs))
        if detached and self.value.requires_grad:
            self.fail("the values are right, but the tensor still requires grad; return it detached")

    def array_close_to(self, expected: Any, *, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        """A numpy array of the same dtype, shape and values as the array `expected`."""
        if type(self.value) is not Array or self.value.kind != "array":
            self.fail(f"expected a numpy array, saw {kind(self.value)}")
        target = torch.as_tensor(expected)
        expect(Seen(Array(self.value.tensor, False), self.path)).close_to(target, rtol=rtol, atol=atol)

    def equals(self, expected: Any) -> None:
        """Exactly `expected`, of the same type: integers, texts, booleans, and lists or tuples of them."""
        if type(self.value) is not type(expected):
            self.fail(f"expected {show(expected)}, saw {kind(self.value)}{self._shown()}")
        if not _same(self.value, expected):
            unseen = " with entries of another type" if show(self.value) == show(expected) else ""
            self.fail(f"expected {show(expected)}, saw {show(self.value)}{unseen}")

    def _shown(self) -> str:
        scalar = type(self.value) in (bool, int, float, str)
        return f" ({show(self.value)})" if scalar else ""

    def has_keys(self, *expected: Any, ordered: bool = False) -> None:
        """A dict with exactly these keys, with `ordered` also in this order."""
        if type(self.value) is not dict:
            self.fail(f"expected a dict, saw {kind(self.value)}")
        seen = list(self.value)
        for key in expected:
            if key not in self.value:
                self.fail(f"the key {key!r} is missing; there are {show(seen)}")
        for key in seen:
            if key not in expected:
                self.fail(f"the key {show(key)} does not belong there; expected {show(list(expected))}")
        if ordered and seen != list(expected):
            self.fail(f"expected the keys in the order {show(list(expected))}, saw {show(seen)}")

    def has_length(self, expected: int, what: str = "entries") -> None:
        """A list with `expected` entries."""
        if type(self.value) is not list:
            self.fail(f"expected a list, saw {kind(self.value)}")
        if len(self.value) != expected:
            self.fail(f"expected {expected} {what}, saw {len(self.value)}")

    def is_true(self, message: str) -> None:
        """The value is True; otherwise `message` is the reason."""
        if self.value is not True:
            raise Mismatch(message)

    def is_false(self, message: str) -> None:
        """The value is False; otherwise `message` is the reason."""
        if self.value is not False:
            raise Mismatch(message)

    def timeline(self, expected: Sequence[str]) -> None:
        """A list of events equal to `expected`; the first divergence is shown in two columns."""
        if type(self.value) is not list or any(type(event) is not str for event in self.value):
            self.fail(f"expected a list of texts, saw {kind(self.value)} {show(self.value)}")
        if (split := first_divergence(expected, self.value)) is not None:
            raise Mismatch(
                f"{self.path}: the timelines part at event {split + 1}\n{side_by_side(expected, self.value)}"
            )


def _same(value: Any, expected: Any) -> bool:
    """Equality that tells True from 1 and 1 from 1.0, in lists and tuples, too."""
    if type(value) is not type(expected):
        return False
    if type(value) in (list, tuple):
        return len(value) == len(expected) and all(map(_same, value, expected))
    return bool(value == expected)


def _first_difference(seen: torch.Tensor, expected: torch.Tensor, differs: torch.Tensor) -> str:
    if seen.numel() == 1:
        return f"expected {show(float(expected.item()))}, saw {show(float(seen.item()))}"
    index = tuple(int(i) for i in differs.nonzero()[0])
    place = "".join(f"[{i}]" for i in index)
    count = int(differs.sum())
    share = f"{count} of {differs.numel()} entries differ" if count < differs.numel() else "all entries differ"
    return f"expected {show(float(expected[index]))}, saw {show(float(seen[index]))} at {place}; {share}"


def finite(seen: Seen) -> bool:
    """Whether a number or tensor has no NaN and no infinity."""
    if type(seen.value) is Array:
        return bool(torch.isfinite(seen.value.tensor).all())
    return type(seen.value) in (int, float) and math.isfinite(seen.value)
