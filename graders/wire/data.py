"""Observations as data: a JSON tree and one block of raw tensor bytes.

Nothing is pickled. A value is written only if its type is *exactly* one of those below: a subclass of Tensor, float
or str could run code of its own while it is written, compared or printed, so it becomes a `Refused` that names the
type. A subclass of list, tuple or dict (a namedtuple, a defaultdict) is written as the plain type; its entries are read
without its own methods. Decoding checks every size before it allocates memory.

    scalars     None, bool, int (64 bit), finite float, str     as JSON
    float       nan, inf                                        {"f": "nan"}
    list, tuple, dict, and subclasses of them                   {"l": [...]}, {"u": [...]}, {"d": [[key, value], ...]}
    tensor, numpy array                                         {"t": [dtype, shape, offset, requires_grad, kind]}
    Changes, what a watch found different                       {"c": [[kind, place], ...]}
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
    name: getattr(torch, name)
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_SIZES = {name: torch.empty((), dtype=dtype).element_size() for name, dtype in DTYPES.items()}

# How to read the entries of a container, whatever a subclass overrides, and the tag that they are written with.
_CONTAINERS: dict[type, tuple[Callable[[Any], Iterable[Any]], str]] = {
    list: (list.__iter__, "l"),
    tuple: (tuple.__iter__, "u"),
    OrderedDict: (OrderedDict.items, "d"),
    dict: (dict.items, "d"),
}

MAX_RANK = 8
MAX_TEXT = 4000
"""Characters of a string; `encode` cuts longer ones."""
MAX_ITEMS = 4000
"""Values in a whole tree."""
MAX_DEPTH = 12
MAX_BODY = 1 << 18
"""Bytes of all tensors together. Right answers have at most 62,000: comparing this much takes a moment."""
MAX_EMPTY = 1 << 16
"""Rows of all tensors without entries, such as those of shape [n, 0]: they take no bytes, but time."""
MAX_TREE = 60 << 10
"""Characters of a tree as JSON: it has to fit into the head of a frame, and leave room for a few texts."""


class DataError(ValueError):
    """Raised for a tree or a body that `encode` did not write, and for a value too large to encode."""


@dataclass(frozen=True)
class Refused:
    """Stands for a value that cannot leave the box: the name of its type, and why."""

    type: str
    why: str


@dataclass(frozen=True)
class Changes:
    """What has changed of a caller's things: pairs of a kind and a place, such as ("hook-left", "model.block.0").

    It is compared in its own way: changing less than the reference is right as well.
    """

    found: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor or numpy array as it was observed: its values without a graph, and whether it required grad.

    `kind` is "tensor" or "array".
    """

    tensor: torch.Tensor
    requires_grad: bool
    kind: str = "tensor"


def encode(value: object, max_body: int = MAX_BODY) -> tuple[Any, bytes]:
    """Return `value` as a JSON tree and the bytes of its tensors, of which there may be `max_body`.

    Raises `DataError` when it exceeds a limit of this module.
    """
    body = bytearray()
    tree = _encode_value(value, body, _Count(), 0, max_body)
    if len(json.dumps(tree)) > MAX_TREE:
        raise DataError(f"more than {MAX_TREE} characters of numbers and text outside tensors")
    return tree, bytes(body)


@dataclass
class _Count:
    """How much has been written or read so far: values, rows of empty tensors, and (when reading) bytes of the body."""

    values: int = 0
    rows: int = 0
    bytes: int = 0

    def add_value(self, depth: int) -> None:
        """Count a value, nested `depth` levels deep. Raises `DataError` for too many values or levels."""
        self.values += 1
        if depth > MAX_DEPTH:
            raise DataError(f"nested deeper than {MAX_DEPTH} levels")
        if self.values > MAX_ITEMS:
            raise DataError(f"more than {MAX_ITEMS} values")

    def add_empty_tensor(self, shape: Sequence[int]) -> None:
        """Count a tensor without entries. Raises `DataError` when they have too many rows in total."""
        self.rows += math.prod(max(1, size) for size in shape)
        if self.rows > MAX_EMPTY:
            raise DataError(f"more than {MAX_EMPTY} rows of tensors without entries")


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
    if kind is Changes:
        return {"c": [[what, place[:MAX_TEXT]] for what, place in value.found[:MAX_ITEMS]]}
    name = f"class {_type_name(value)}" if type in type.mro(kind) else _type_name(kind)
    return {"x": [name, _why_refused(kind)]}


def _encode_tensor(value: torch.Tensor, body: bytearray, count: _Count, max_body: int) -> Any:
    name = _NAMES.get(value.dtype)
    if name is None:
        return {"x": ["Tensor", f"its dtype is {value.dtype}"]}
    if value.layout is not torch.strided or value.device.type == "meta" or value.is_quantized:
        why = f"it is not an ordinary dense tensor (layout {value.layout}, device {value.device})"
        return {"x": ["Tensor", why]}
    if value.dim() > MAX_RANK:
        return {"x": ["Tensor", f"it has {value.dim()} dimensions"]}
    if value.numel() * value.element_size() > max_body - len(body):
        raise DataError(f"more than {max_body} bytes of tensors")
    if not value.numel():
        count.add_empty_tensor(value.shape)
    plain = value.detach().resolve_conj().resolve_neg().to("cpu")
    plain = plain.clone(memory_format=torch.contiguous_format)  # `contiguous` keeps strides of 0 where a size is 1
    offset = len(body)
    body += plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"t": [name, list(plain.shape), offset, bool(value.requires_grad), "tensor"]}


def _encode_array(value: np.ndarray[Any, Any], body: bytearray, count: _Count, max_body: int) -> Any:
    if str(value.dtype) not in DTYPES:
        return {"x": ["ndarray", f"its dtype is {value.dtype}"]}
    if value.ndim > MAX_RANK:
        return {"x": ["ndarray", f"it has {value.ndim} dimensions"]}
    if value.nbytes > max_body - len(body):
        raise DataError(f"more than {max_body} bytes of arrays")
    if not value.size:
        count.add_empty_tensor(value.shape)
    offset = len(body)
    body += np.ascontiguousarray(value).tobytes()
    return {"t": [str(value.dtype), list(value.shape), offset, False, "array"]}


def _type_name(kind: type) -> str:
    return str(type.__dict__["__name__"].__get__(kind))[:100]  # the real name, whatever its metaclass says


def _why_refused(kind: type) -> str:
    if np.generic in type.mro(kind):
        return "it is a number of numpy; `.item()` makes a Python number of it"
    for plain in (torch.Tensor, float, int, str):
        if plain in type.mro(kind)[1:]:
            return f"it is a subclass of {plain.__name__}; a plain {plain.__name__} is expected"
    return "it is not a tensor, a number, a string, or a list, tuple or dict of these"


def decode(tree: Any, body: bytes) -> Any:
    """Return the value of a tree and its body. Raises `DataError` for anything that `encode` does not write."""
    return _decode_value(tree, body, _Count(), 0)


def _decode_value(tree: Any, body: bytes, count: _Count, depth: int) -> Any:
    count.add_value(depth)
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
        items = [_decode_value(item, body, count, depth + 1) for item in content]
        return items if tag == "l" else tuple(items)
    if tag == "d":
        return _decode_dict(content, body, count, depth)
    if tag == "x" and len(content) == 2 and all(type(part) is str for part in content):
        return Refused(*map(_checked_text, content))
    if tag == "t":
        return _decode_tensor(content, body, count)
    if tag == "c":
        return Changes(tuple(_decode_change(pair, count, depth) for pair in content))
    raise DataError("not a value")


def _decode_change(pair: Any, count: _Count, depth: int) -> tuple[str, str]:
    count.add_value(depth + 1)
    if type(pair) is not list or len(pair) != 2 or not all(type(part) is str for part in pair):
        raise DataError("not a change")
    return _checked_text(pair[0]), _checked_text(pair[1])


def _checked_text(tree: str) -> str:
    if len(tree) > MAX_TEXT:
        raise DataError(f"a string of more than {MAX_TEXT} characters")
    return tree


def _decode_dict(content: list[Any], body: bytes, count: _Count, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pair in content:
        if type(pair) is not list or len(pair) != 2:
            raise DataError("not a dict")
        key, value = (_decode_value(part, body, count, depth + 1) for part in pair)
        # A key that cannot be hashed here (a tensor, a list) is replaced by the name of its type, so that a wrong
        # answer with such keys can still be shown.
        kind = key.type if isinstance(key, Refused) else type(key).__name__
        found[key if isinstance(key, str | int | float | bool | None) else f"<{kind}>"] = value
    return found


def _decode_tensor(content: list[Any], body: bytes, count: _Count) -> Array:
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
    # Each tensor must have bytes of its own, in the order of the tree: thousands of tensors that share one large block
    # would be copied into gigabytes here.
    if offset != count.bytes:
        raise DataError("a tensor whose bytes are not its own")
    count.bytes += nbytes
    if count.bytes > len(body):
        raise DataError("a tensor larger than its bytes")
    if not nbytes:
        count.add_empty_tensor(shape)
    raw = torch.frombuffer(bytearray(body[offset : offset + nbytes]), dtype=torch.uint8) if nbytes else None
    if name == "bool" and raw is not None and bool((raw > 1).any()):
        raise DataError("not a tensor of bool")
    # On the CPU, although a notebook may have set another default device.
    found = (
        torch.empty(shape, dtype=DTYPES[name], device="cpu") if raw is None else raw.view(DTYPES[name]).reshape(shape)
    )
    return Array(tensor=found, requires_grad=requires_grad, kind=kind)


def arrays_to_tensors(value: Any) -> Any:
    """Return `value` with every `Array` replaced by its plain tensor, as a probe receives its draw."""
    if type(value) is Array:
        return value.tensor
    if type(value) in (list, tuple):
        return type(value)(arrays_to_tensors(item) for item in value)
    if type(value) is dict:
        return {key: arrays_to_tensors(item) for key, item in value.items()}
    return value
