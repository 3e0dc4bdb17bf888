from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from graders.wire import data
from graders.wire.data import DTYPES, Array, Changes, DataError, Refused, arrays_to_tensors, decode, encode


def back(value: Any) -> Any:
    """A value after the way out of the box."""
    return decode(*encode(value))


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -(2**63), 2**63 - 1, 1.5, "", "a ü 🙂", [], [1, [2, "b"]], (), (1, (2,)), {},
     {"a": [1], 2: "b", None: 0.5, True: (1,)}, math.inf, -math.inf],
)  # fmt: skip
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    found = back(value)
    assert found == value
    assert type(found) is type(value)


def test_nan_comes_back() -> None:
    assert math.isnan(back(math.nan))


def test_the_order_of_a_dict_comes_back() -> None:
    assert list(back({"b": 1, "a": 2, "c": 3})) == ["b", "a", "c"]


@pytest.mark.parametrize("name", list(DTYPES))
def test_tensors_of_every_dtype_come_back(name: str) -> None:
    value = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(DTYPES[name])
    found = back(value)
    assert type(found) is Array
    assert found.tensor.dtype == DTYPES[name]
    assert torch.equal(found.tensor, value)
    assert (found.kind, found.requires_grad) == ("tensor", False)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3), (1,) * 8])
def test_every_shape_comes_back(shape: tuple[int, ...]) -> None:
    assert back(torch.ones(shape)).tensor.shape == shape


def test_several_tensors_share_one_body() -> None:
    value = {"a": torch.tensor([1.0, 2.0]), "b": [torch.tensor(3, dtype=torch.int64), torch.tensor([True])]}
    tree, body = encode(value)
    assert len(body) == 8 + 8 + 1
    assert tree == {
        "d": [
            ["a", {"t": ["float32", [2], 0, False, "tensor"]}],
            ["b", {"l": [{"t": ["int64", [], 8, False, "tensor"]}, {"t": ["bool", [1], 16, False, "tensor"]}]}],
        ]
    }
    assert decode(tree, body)["b"][0].tensor.item() == 3


def test_a_view_goes_out_with_the_values_that_it_shows() -> None:
    whole = torch.arange(6.0).reshape(2, 3)
    assert back(whole.t()[1:]).tensor.tolist() == [[1.0, 4.0], [2.0, 5.0]]
    assert back(torch.ones(2, 1).expand(2, 3)).tensor.tolist() == [[1.0] * 3] * 2
    assert back(torch.tensor(3.0).expand(1)).tensor.tolist() == [3.0]
    assert back(torch.tensor(3.0, dtype=torch.float64).expand(1, 1)).tensor.tolist() == [[3.0]]


def test_whether_a_tensor_requires_grad_is_kept_and_its_graph_is_not() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    assert back(parameter).requires_grad is True
    assert back(parameter * 2).requires_grad is True
    assert back(parameter * 2).tensor.requires_grad is False
    assert back(parameter.detach()).requires_grad is False


def test_an_array_is_told_from_a_tensor() -> None:
    found = back(np.array([[1, 2], [3, 4]], dtype=np.int64)[:, ::-1])
    assert found.kind == "array"
    assert found.tensor.tolist() == [[2, 1], [4, 3]]


class _Number(float):
    pass


class _Tensor(torch.Tensor):
    pass


class _Entry(NamedTuple):
    kind: str
    norm: float


class _Rows(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise AssertionError("a method of the subclass was called")


class _Table(dict[str, int]):
    def items(self) -> Any:
        raise AssertionError("a method of the subclass was called")


class _Odd:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (_Number(1.0), Refused("_Number", "it is a subclass of float; a plain float is expected")),
        (
            torch.ones(2).as_subclass(_Tensor),
            Refused("_Tensor", "it is a subclass of Tensor; a plain Tensor is expected"),
        ),
        (_Odd(), Refused("_Odd", "it is not a tensor, a number, a string, or a list, tuple or dict of these")),
        (len, Refused("builtin_function_or_method",
                      "it is not a tensor, a number, a string, or a list, tuple or dict of these")),
        ({1}, Refused("set", "it is not a tensor, a number, a string, or a list, tuple or dict of these")),
        (_Odd, Refused("class _Odd", "it is not a tensor, a number, a string, or a list, tuple or dict of these")),
        (np.float64(1.0), Refused("float64", "it is a number of numpy; `.item()` makes a Python number of it")),
        (2**63, Refused("int", "it has more than 64 bits")),
        (torch.ones(1, dtype=torch.complex64), Refused("Tensor", "its dtype is torch.complex64")),
        (torch.ones((1,) * 9), Refused("Tensor", "it has 9 dimensions")),
        (np.array(["a"]), Refused("ndarray", "its dtype is <U1")),
        (np.ones((1,) * 9), Refused("ndarray", "it has 9 dimensions")),
    ],
)  # fmt: skip
def test_other_values_are_refused_by_name(value: Any, refused: Refused) -> None:
    assert back([value]) == [refused]


def test_a_container_of_a_subclass_goes_out_as_a_plain_one_by_no_method_of_its_own() -> None:
    assert back(_Entry("pass", 5.0)) == ("pass", 5.0)
    assert back(_Rows([1, 2])) == [1, 2]
    assert back(_Table(a=1)) == {"a": 1}
    moved = OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert list(back(moved)) == ["b", "a"]


@pytest.mark.parametrize("value", [torch.ones(2).to_sparse(), torch.ones(2, device="meta")])
def test_a_tensor_without_ordinary_values_is_refused(value: torch.Tensor) -> None:
    assert back(value).why.startswith("it is not an ordinary dense tensor (layout ")


def test_a_refused_value_stays_refused() -> None:
    assert back(Refused("Thing", "why")) == Refused("Thing", "why")


def test_long_text_is_cut_and_broken_text_is_repaired() -> None:
    assert back("x" * 5000) == "x" * data.MAX_TEXT
    assert back("a\udc80b") == "a?b"


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> list[Any]:
    """A list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (list(range(4000)), "more than 4000 values"),
        (dict.fromkeys(range(2000)), "more than 4000 values"),
        ([[0] * 1000] * 4, "more than 4000 values"),
        (nested(13), "nested deeper than 12 levels"),
        (endless(), "nested deeper than 12 levels"),
        ([0.1234567890123456] * 3500, "more than 61440 characters of numbers and text outside tensors"),
        ({str(i): "x" * 4000 for i in range(20)}, "characters of numbers and text outside tensors"),
        (torch.ones(1 << 16, dtype=torch.float32).repeat(2), "more than 262144 bytes of tensors"),
        ([torch.ones(1 << 15)] * 3, "more than 262144 bytes of tensors"),
        (np.ones(1 << 16), "more than 262144 bytes of arrays"),
        (torch.ones(1).expand(1 << 40), "more than 262144 bytes of tensors"),
        (torch.empty(70_000, 0), "more than 65536 rows of tensors without entries"),
        ([torch.empty(300, 0, 300)], "more than 65536 rows of tensors without entries"),
        ([torch.empty(40_000, 0), np.empty((40_000, 0))], "more than 65536 rows of tensors without entries"),
        (np.empty((0, 1 << 40)), "more than 65536 rows of tensors without entries"),
    ],
)
def test_what_is_too_large_is_not_written(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(value)


def test_the_largest_values_are_written() -> None:
    assert back(torch.ones(1 << 16)).tensor.sum() == 1 << 16
    assert len(back(list(range(3999)))) == 3999
    assert back(nested(12)) == nested(12)


@pytest.mark.parametrize(
    "tree",
    [
        [1],
        {},
        "x" * 4001,
        {"x": ["x" * 4001, ""]},
        {"d": [["x" * 4001, 1]]},
        {"t": ["uint8", [70_000, 0], 0, False, "tensor"]},
        {"l": [{"t": ["uint8", [0, 300, 300], 0, False, "tensor"]}]},
        {"l": [{"t": ["uint8", [40_000, 0], 0, False, "tensor"]}] * 2},
        {"l": [], "u": []},
        {"q": []},
        {"l": "ab"},
        {"l": {"0": 1}},
        {"f": "1.5"},
        {"f": ["nan"]},
        {"d": [["a"]]},
        {"d": [{"a": 1}]},
        {"x": ["a"]},
        {"x": ["a", 1]},
        2**63,
        {"t": ["float32", [1], 0, False]},
        {"t": ["complex64", [1], 0, False, "tensor"]},
        {"t": [["float32"], [1], 0, False, "tensor"]},
        {"t": ["float32", [1], 0, False, "matrix"]},
        {"t": ["float32", 1, 0, False, "tensor"]},
        {"t": ["float32", [-1], 0, False, "tensor"]},
        {"t": ["float32", [True], 0, False, "tensor"]},
        {"t": ["float32", [1.0], 0, False, "tensor"]},
        {"t": ["float32", [1] * 9, 0, False, "tensor"]},
        {"t": ["float32", [1], "0", False, "tensor"]},
        {"t": ["float32", [1], 0, 1, "tensor"]},
        {"t": ["float32", [1], -4, False, "tensor"]},
        {"l": [{"t": ["uint8", [2], 0, False, "tensor"]}] * 2},
        {"t": ["uint8", [1], 1, False, "tensor"]},
        {"t": ["float32", [1], 8, False, "tensor"]},
        {"t": ["float32", [3], 0, False, "tensor"]},
        {"t": ["float32", [2**40, 2**40], 0, False, "tensor"]},
        {"t": ["float32", [0, 2**63], 0, False, "tensor"]},
        {"t": ["float32", [0, 2**62, 8], 0, False, "tensor"]},
        {"t": ["bool", [1], 7, False, "tensor"]},
    ],
)  # fmt: skip
def test_a_tree_that_was_not_written_here_is_refused(tree: Any) -> None:
    with pytest.raises(DataError):
        decode(tree, b"\0\0\x80\x3f\0\0\0\x02")


def test_a_forged_tree_cannot_be_too_deep_or_too_long() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"l": [deep]}
    for tree in (deep, {"l": [0] * 4000}, {"d": [[0, 0]] * 2000}):
        with pytest.raises(DataError, match=r"nested deeper than 12 levels|more than 4000 values"):
            decode(tree, b"")


def test_a_key_that_cannot_be_a_key_here_is_kept_by_its_kind() -> None:
    assert back({torch.ones(1): 1, (1, 2): 2, int: 3, "a": 4}) == {"<Array>": 1, "<tuple>": 2, "<class int>": 3, "a": 4}


def test_tensors_hands_a_probe_plain_tensors_at_every_level() -> None:
    value = {"x": torch.ones(2), "rest": [torch.zeros(1), (1, "a", None)]}
    found = arrays_to_tensors(back(value))
    assert type(found["x"]) is type(found["rest"][0]) is torch.Tensor
    assert found["rest"][1] == (1, "a", None)


def test_a_decoded_tensor_has_memory_of_its_own() -> None:
    tree, body = encode([torch.ones(2), torch.ones(2)])
    first, second = decode(tree, body)
    first.tensor.add_(1)
    assert second.tensor.tolist() == [1.0, 1.0]
    assert decode(tree, body)[0].tensor.tolist() == [1.0, 1.0]


def test_what_is_read_lies_in_ordinary_memory_whatever_the_default_device_is() -> None:
    tree, body = encode([torch.ones(2), torch.empty(0, 2)])
    with torch.device("meta"):
        assert [part.tensor.device.type for part in decode(tree, body)] == ["cpu", "cpu"]


@pytest.mark.parametrize("found", [(), (("hook-left", "model.fc"), ("mode", "model"))])
def test_what_a_watch_found_has_a_type_of_its_own(found: tuple[tuple[str, str], ...]) -> None:
    assert decode(*encode({"by the call": Changes(found)})) == {"by the call": Changes(found)}


@pytest.mark.parametrize("content", [None, [1], [["a"]], [["a", 2]], [["a", "b", "c"]], "ab"])
def test_what_is_no_change_is_not_decoded(content: object) -> None:
    with pytest.raises(DataError):
        decode({"c": content}, b"")
