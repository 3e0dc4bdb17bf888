from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graders.verdict.printed import printed, short_texts
from graders.wire.data import decode, encode

PAIR = torch.tensor([[0.25, -1.5], [float("nan"), 2.0]])


@pytest.mark.parametrize(
    "value",
    [
        PAIR,
        PAIR.double(),
        torch.tensor(3),
        torch.tensor([1e-9, 2.0]),
        torch.tensor([True, False]),
        torch.zeros(0, 2),
        {"a": PAIR, "b": [1, "x", None]},
        (PAIR,),
        np.array([[0.5, 1.0]], np.float32),
        [np.array([0.5])],
        [0.5, True],
    ],
    ids=str,
)
def test_it_is_what_print_shows_in_one_line(value: Any) -> None:
    text = " ".join(str(value).split()).replace("[ ", "[").replace(" ]", "]")
    assert printed(decode(*encode(value))) == text


def test_a_tensor_with_a_graph_says_so() -> None:
    assert printed(decode(*encode(torch.ones(1).requires_grad_()))) == "tensor([1.], requires_grad=True)"


def test_of_a_large_tensor_it_says_the_shape() -> None:
    assert printed(torch.zeros(3, 5)).startswith("a tensor of shape (3, 5)")


def test_two_numbers_get_the_digits_that_tell_them_apart() -> None:
    assert short_texts(0.12345678, 0.12345999) == ("0.123457", "0.12346")
    assert short_texts(0.5, 0.5) is None
    assert short_texts(PAIR, PAIR + 1e-7) is None
