"""What counts as equal to what a reference showed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graders.core.difference import Kind
from graders.core.expect import Seen
from graders.verdict.comparing import find_differences, tensor_tolerance
from graders.wire.data import Array, Changes, decode, encode


def sent(value: Any) -> Any:
    """A value as it comes out of the box."""
    return decode(*encode(value))


def kinds(mine: Any, wanted: Any) -> dict[str, Kind]:
    return {path: describe().kind for path, describe in find_differences(Seen(sent(mine)), sent(wanted))}


T = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, float("nan"), "text", [], {}, (1, "a"), T, T.double(), T.to(torch.bfloat16), torch.zeros(0),
        {"a": [T, None], "b": {"c": 1}}, ["forward a", "backward a"], torch.tensor(float("inf")), T.int(), T.numpy(),
    ],
    ids=repr,
)  # fmt: skip
def test_everything_equals_itself(value: Any) -> None:
    assert kinds(value, value) == {}


@pytest.mark.parametrize(
    ("mine", "wanted", "found"),
    [
        (T, T + 1e-3, {"the result": Kind.VALUE}),
        (T, T.double(), {"the result": Kind.DTYPE}),
        (T.double() + 1e-7, T.double(), {"the result": Kind.PRECISION}),
        (T, T[None], {"the result": Kind.SHAPE}),
        (None, T, {"the result": Kind.MISSING}),
        ([1.0, 2.0], T, {"the result": Kind.TYPE}),
        (T.clone().requires_grad_(), T, {"the result": Kind.GRAPH}),
        (T, T.clone().requires_grad_(), {"the result": Kind.GRAPH}),
        (1, True, {"the result": Kind.TYPE}),
        ((1, 2), [1, 2], {"the result": Kind.TYPE}),
        ({"a": 1}, {"a": 1, "b": 2}, {"the result": Kind.MISSING}),
        ({"a": 1, "b": 2}, {"a": 1}, {"the result": Kind.VALUE}),
        ({"a": {"b": T}}, {"a": {"b": T + 1}}, {"a['b']": Kind.VALUE}),
        ([T, T], [T, T + 1], {"[1]": Kind.VALUE}),
        (["a", "b"], ["b", "a"], {"the result": Kind.ORDER}),
    ],
)
def test_a_difference_is_named_by_its_path_and_its_kind(mine: Any, wanted: Any, found: dict[str, Kind]) -> None:
    assert {path.replace("the result[", "["): kind for path, kind in kinds(mine, wanted).items()} == found


def test_who_changes_less_than_the_reference_is_right_and_who_changes_more_is_not() -> None:
    allowed = (("grad-filled", "model.weight"), ("hook-left", "t"))
    assert kinds({"by it": Changes(allowed[:1])}, {"by it": Changes(allowed)}) == {}
    (path,) = kinds({"by it": Changes((*allowed, ("mode", "model")))}, {"by it": Changes(allowed)})
    assert path.startswith("by it: the mode (training or eval) of `model`")
    for forged in ("nothing", Changes((("forged", "model"),))):
        assert kinds({"by it": forged}, {"by it": Changes()}) == {"by it": Kind.CONDITION}


def test_the_tolerance_is_a_part_of_the_largest_entry_up_to_1() -> None:
    assert tensor_tolerance(torch.tensor([1e-3, 1e-6])) == pytest.approx((1e-5, 1e-8))
    assert tensor_tolerance(torch.tensor([1e3, 1.0])) == pytest.approx((1e-5, 1e-5))
    assert tensor_tolerance(torch.tensor([2.0, torch.inf], dtype=torch.float64)) == pytest.approx((1e-10, 1e-10))
    assert tensor_tolerance(torch.zeros(2))[1] < 1e-30


def test_an_array_of_numpy_is_no_tensor() -> None:
    assert type(sent(T.numpy())) is Array
    assert kinds(T.numpy(), T) == {"the result": Kind.TYPE}


def test_a_list_of_another_length_is_said_to_be_one() -> None:
    ((_, describe),) = find_differences(Seen(sent([T])), sent([T, T]))
    assert describe().sentence == "the result: expected 2 entries, saw 1"
