"""Observations as data: a JSON tree, and beside it one block of raw tensor bytes.

Nothing is pickled. A value goes out only when its type is *exactly* one of those below: a subclass of
Tensor, float or str could run code of its own while it is written, compared or printed, so it becomes
a `Refused` that names the type. Of a subclass of list, tuple or dict (a namedtuple, a defaultdict) the entries
go out as those of a plain one, read without its methods. Reading checks every size before it allocates.

    scalars     None, bool, int (64 bit), finite float, str     as JSON
    float       nan, inf                                        {"f": "nan"}
    list, tuple, dict, and subclasses of them                   {"l": [...]}, {"u": [...]}, {"d": [[key, value], ...]}
    tensor, numpy array                                         {"t": [dtype, shape, offset, requires_grad, kind]}
    everything else                                             {"x": [type name, why]}
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_SIZES = {name: torch.empty((), dtype=dtype).element_size() for name, dtype in DTYPES.items()}

# How the entries of a container are read, whatever a subclass says, and the tag under which they go out.
_CONTAINERS: dict[type, tuple[Callable[[Any], Iterable[Any]], str]] = {
    list: (list.__iter__, "l"),
    tuple: (tuple.__iter__, "u"),
    OrderedDict: (OrderedDict.items, "d"),
    dict: (dict.items, "d"),
}

MAX_RANK = 8
MAX_TEXT = 4000
MAX_ITEMS = 4000
MAX_DEPTH = 12
MAX_BODY = 1 << 20
MAX_EMPTY = 1 << 16
"""Rows of tensors without entries, such as those of shape [n, 0]: they take no bytes, but work."""
MAX_TREE = 60 << 10
"""Characters of a tree as JSON: it has to fit into the head of a frame, with a little more."""


class DataError(ValueError):
    """A tree or a body that this module did not write, or a value too large to write."""


@dataclass(frozen=True)
class Refused:
    """A value that cannot leave the box: its type, and why."""

    type: str
    why: str


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor (or numpy array) as it was seen: values without a graph, and whether it required grad."""

    tensor: torch.Tensor
    requires_grad: bool
    kind: str = "tensor"


def encode(value: object, max_body: int = MAX_BODY) -> tuple[Any, bytes]:
    """`value` as a JSON tree and the bytes of its tensors.

    Raises `DataError` when it is larger than the limits of this module.
    """
    body = bytearray()
    tree = _encode_value(value, body, _Count(), 0, max_body)
    if len(json.dumps(tree)) > MAX_TREE:
        raise DataError(f"numbers and texts outside of tensors of more than {MAX_TREE} characters")
    return tree, bytes(body)


@dataclass
class _Count:
    """How much was written or read so far: values, rows of empty tensors, bytes of the body."""

    values: int = 0
    rows: int = 0
    bytes: int = 0

    def add_value(self, depth: int) -> None:
        """One more value. Raises `DataError` when there are too many."""
        self.values += 1
        if depth > MAX_DEPTH:
            raise DataError(f"nested deeper than {MAX_DEPTH} levels")
        if self.values > MAX_ITEMS:
            raise DataError(f"more than {MAX_ITEMS} values")

    def add_empty_tensor(self, shape: Sequence[int]) -> None:
        """One more tensor without entries. Raises `DataError` when they have too many rows together."""
        self.rows += math.prod(max(1, size) for size in shape)
        if self.rows > MAX_EMPTY:
            raise DataError(f"tensors without entries, but with more than {MAX_EMPTY} rows")


def _encode_value(value: Any, body: bytearray, count: _Count, depth: int, max_body: int) -> Any:
    count.add_value(depth)
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else {"x": ["int", "it has more than 64 bits"]}
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if kind is str:
        return value.encode("utf-8", "replace").decode()[:MAX_TEXT]
    if (container := next((base for base in type.mro(kind) if base in _CONTAINERS), None)) is not None:
        read, tag = _CONTAINERS[container]
        parts = list(islice(read(value), MAX_ITEMS + 1))
        if len(parts) > MAX_ITEMS:
            raise DataError(f"more than {MAX_ITEMS} values")
        if tag == "d":
            return {"d": [[_encode_value(part, body, count, depth + 1, max_body) for part in pair] for pair in parts]}
        return {tag: [_encode_value(part, body, count, depth + 1, max_body) for part in parts]}
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _encode_tensor(value, body, count, max_body)
    if kind is np.ndarray:
        return _encode_array(value, body, count, max_body)
    if kind is Refused:
        return {"x": [value.type, value.why]}
    return {"x": [_type_name(kind), _why_refused(kind)]}


def _encode_tensor(value: torch.Tensor, body: bytearray, count: _Count, max_body: int) -> Any:
    name = _NAMES.get(value.dtype)
    if name is None:
        return {"x": ["Tensor", f"its dtype is {value.dtype}"]}
    if value.layout is not torch.strided or value.device.type == "meta" or value.is_quantized:
        return {
            "x": [
                "Tensor",
                f"it is not an ordinary dense tensor (layout {value.layout}, device {value.device})",
            ]
        }
    if value.dim() > MAX_RANK:
        return {"x": ["Tensor", f"it has {value.dim()} dimensions"]}
    if value.numel() * value.element_size() > max_body - len(body):
        raise DataError(f"tensors of more than {max_body} bytes")
    if not value.numel():
        count.add_empty_tensor(value.shape)
    plain = value.detach().resolve_conj().resolve_neg().to("cpu")
    plain = plain.clone(memory_format=torch.contiguous_format)  # `contiguous` leaves strides of 0 where a size is 1
    offset = len(body)
    body += plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"t": [name, list(plain.shape), offset, bool(value.requires_grad), "tensor"]}


def _encode_array(value: np.ndarray[Any, Any], body: bytearray, count: _Count, max_body: int) -> Any:
    if str(value.dtype) not in DTYPES:
        return {"x": ["ndarray", f"its dtype is {value.dtype}"]}
    if value.ndim > MAX_RANK:
        return {"x": ["ndarray", f"it has {value.ndim} dimensions"]}
    if value.nbytes > max_body - len(body):
        raise DataError(f"arrays of more than {max_body} bytes")
    if not value.size:
        count.add_empty_tensor(value.shape)
    offset = len(body)
    body += np.ascontiguousarray(value).tobytes()
    return {"t": [str(value.dtype), list(value.shape), offset, False, "array"]}


def _type_name(kind: type) -> str:
    return str(type.__dict__["__name__"].__get__(kind))[:100]  # whatever its metaclass says


def _why_refused(kind: type) -> str:
    for plain in (torch.Tensor, float, int, str):
        if plain in type.mro(kind)[1:]:
            return f"it is a subclass of {plain.__name__}; a plain {plain.__name__} is asked for"
    return "it is not a tensor, a number, a text, or a list, tuple or dict of these"


def decode(tree: Any, body: bytes) -> Any:
    """The value of a tree and its body. Raises `DataError` on anything that `encode` does not write."""
    return _decode_value(tree, body, _Count(), 0)


def _decode_value(tree: Any, body: bytes, done: _Count, depth: int) -> Any:
    done.add_value(depth)
    if tree is None or type(tree) is bool:
        return tree
    if type(tree) is str:
        return _checked_text(tree)
    if type(tree) is int:
        if not -(2**63) <= tree < 2**63:
            raise DataError("an integer of more than 64 bits")
        return tree
    if type(tree) is float:
        return tree
    if type(tree) is not dict or len(tree) != 1:
        raise DataError("not a value")
    ((tag, content),) = tree.items()
    if tag == "f" and content in ("nan", "inf", "-inf"):
        return float(content)
    if type(content) is not list:
        raise DataError("not a value")
    if tag in ("l", "u"):
        items = [_decode_value(item, body, done, depth + 1) for item in content]
        return items if tag == "l" else tuple(items)
    if tag == "d":
        return _decode_dict(content, body, done, depth)
    if tag == "x" and len(content) == 2 and all(type(part) is str for part in content):
        return Refused(*map(_checked_text, content))
    if tag == "t":
        return _decode_tensor(content, body, done)
    raise DataError("not a value")


def _checked_text(tree: str) -> str:
    if len(tree) > MAX_TEXT:
        raise DataError(f"a text of more than {MAX_TEXT} characters")
    return tree


def _decode_dict(content: list[Any], body: bytes, done: _Count, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pair in content:
        if type(pair) is not list or len(pair) != 2:
            raise DataError("not a dict")
        key, value = (_decode_value(part, body, done, depth + 1) for part in pair)
        # A key that cannot be hashed here (a tensor, a list) is kept by its kind, so that a wrong answer
        # with such keys is still shown.
        found[key if isinstance(key, str | int | float | bool | None) else f"<{type(key).__name__}>"] = value
    return found


def _decode_tensor(content: list[Any], body: bytes, done: _Count) -> Array:
    if len(content) != 5:
        raise DataError("not a tensor")
    name, shape, offset, requires_grad, kind = content
    if type(name) is not str or name not in DTYPES or kind not in ("tensor", "array"):
        raise DataError("not a tensor of a known dtype")
    if type(shape) is not list or len(shape) > MAX_RANK or any(type(n) is not int or n < 0 for n in shape):
        raise DataError("not a shape")
    if type(offset) is not int or type(requires_grad) is not bool:
        raise DataError("not a tensor")
    nbytes = math.prod(shape) * _SIZES[name]
    # Each tensor has bytes of its own, in the order of the tree: thousands that share one large block would be copied
    # into gigabytes here.
    if offset != done.bytes:
        raise DataError("a tensor whose bytes are not its own")
    done.bytes += nbytes
    if done.bytes > len(body):
        raise DataError("a tensor larger than its bytes")
    if not nbytes:
        done.add_empty_tensor(shape)
    raw = torch.frombuffer(bytearray(body[offset : offset + nbytes]), dtype=torch.uint8) if nbytes else None
    if name == "bool" and raw is not None and bool((raw > 1).any()):
        raise DataError("not a tensor of bool")
    # A notebook may have chosen another default device.
    found = (
        torch.empty(shape, dtype=DTYPES[name], device="cpu") if raw is None else raw.view(DTYPES[name]).reshape(shape)
    )
    return Array(tensor=found, requires_grad=requires_grad, kind=kind)


def count_empty_rows(value: Any) -> int:
    """The rows of all tensors without entries in a decoded value."""
    if type(value) is Array:
        return 0 if value.tensor.numel() else math.prod(max(1, size) for size in value.tensor.shape)
    if type(value) is dict:
        return sum(map(count_empty_rows, value.values()))
    return sum(map(count_empty_rows, value)) if type(value) in (list, tuple) else 0


def arrays_to_tensors(value: Any) -> Any:
    """`value` with every `Array` replaced by its plain tensor: how a draw is handed to a probe."""
    if type(value) is Array:
        return value.tensor
    if type(value) in (list, tuple):
        return type(value)(arrays_to_tensors(item) for item in value)
    if type(value) is dict:
        return {key: arrays_to_tensors(item) for key, item in value.items()}
    return value
