"""When a guess is right, and how guesses and values are shown."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

from graders.learner.notebook.agreement import describe_briefly, first_list_difference, guess_agrees

TENSOR = torch.tensor([1.0, 2.0], requires_grad=True)


class Odd:
    """An object that can be neither compared nor shown."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("guess", "value"),
    [
        (5, torch.tensor([5.0])),
        (5, 5.0),
        ("5", 5),
        (0.33, 1 / 3),
        (0.031, 0.03125),
        (0, 1e-9),
        (float("nan"), torch.tensor(float("nan"))),
        (float("inf"), float("inf")),
        ([1, 2], TENSOR),
        ((1, 2), TENSOR),
        (torch.tensor([1.0, 2.0]), TENSOR),
        (3, torch.full((2, 2), 3.0)),
        ([[1], [2]], torch.tensor([[1], [2]])),
        ((2, 3), torch.ones(2, 3).shape),
        ([7], [7.0]),
        (7, [7.0]),
        (None, None),
        ("none", None),
        (True, True),
        ("no", False),
        (" In  Time", "in time"),
        ("in time", ["in time"]),
        ("float32", torch.float32),
        (torch.float32, torch.float32),
        ("Linear", nn.Linear),
        ("raises", ValueError("x")),
        ("Raises", RuntimeError),
        (ValueError, ValueError("x")),
        ("valueerror", ValueError("x")),
        (Exception, ValueError),
        (["a", "b"], ["a", "b"]),
        ("A, b", ["a", "b"]),
        ("a -> b", ["a", "b"]),
        ("a b", ["a", "b"]),
        ("(2, 3)", torch.ones(2, 3).shape),
        ([("a", 1)], [("a", 1.0)]),
        ({"w": 1}, OrderedDict(w=torch.tensor([1.0]))),
        (["b", "a"], {"a", "b"}),
    ],
)
def test_a_right_guess_is_found_right(guess: Any, value: Any) -> None:
    assert guess_agrees(guess, value)
    assert first_list_difference(guess, value) is None


@pytest.mark.parametrize(
    ("guess", "value"),
    [
        (99, 100.0),
        (0.99, 1.0),
        (12, 12.4),
        (0, 3e-7),
        (float("inf"), 0.0),
        (float("nan"), 1.0),
        ([1, 2, 3], TENSOR),
        ([2, 1], TENSOR),
        (1, torch.empty(0)),
        (3, [3, 3]),
        (0, None),
        (None, 0),
        (1, True),
        (True, 1),
        ("yes", None),
        ("too late", "in time"),
        ("raises", 5),
        (KeyError, ValueError("x")),
        (5, ValueError("x")),
        ({"w": 1}, {"x": 1}),
        ({"w": 1}, 1),
        ("five", 5),
        (object(), 5),
        (Odd(), 5),
        (5, Odd()),
        (Odd(), Odd()),
        (lambda: 5, TENSOR),
        (["a"], ["b", "a"]),
    ],
)
def test_a_wrong_guess_and_one_that_cannot_be_compared_are_not_right(guess: Any, value: Any) -> None:
    assert not guess_agrees(guess, value)
    assert isinstance(describe_briefly(guess) + describe_briefly(value), str)


@pytest.mark.parametrize(
    ("guess", "value", "parted"),
    [
        (["a", "c", "b"], ["a", "b", "c"], (2, "c", "b")),
        (["a"], ["b", "c"], (1, "a", "b")),
        (["a", "b"], ["a", "b", "c"], (3, "nothing more", "c")),
        ("a, b, c", ["a", "b"], (3, "c", "nothing more")),
        ([1, 2], torch.tensor([1.0, 3.0]), (2, "2", "3")),
        (1, 2, None),
        (Odd(), ["a", "b"], None),
    ],
)
def test_two_lists_part_at_a_place(guess: Any, value: Any, parted: tuple[int, str, str] | None) -> None:
    assert first_list_difference(guess, value) == parted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor([5.0]), "5"),
        (TENSOR, "[1, 2]"),
        (torch.ones(3, 4), "a tensor of shape (3, 4) that starts [1, 1, 1, 1, …"),
        (None, "None"),
        ("in time", "in time"),
        (["a", "b"], "a, b"),
        ([], "[]"),
        (["a"], "a"),
        (["fwd 0.relu", "unpack(h)"], "fwd 0.relu, unpack(h)"),
        (["a, b", "c"], "['a, b', 'c']"),
        ([" a", ""], "[' a', '']"),
        ([["w", "v"], ["w", "two words"]], "[[w, v], [w, two words]]"),
        ([("a", 1), ("1", "None")], "[('a', 1), ('1', 'None')]"),
        ({"first": ["x", "it's"]}, """{'first': ['x', "it's"]}"""),
        (ValueError("x"), "raises ValueError"),
        (KeyError, "raises KeyError"),
        (nn.Linear, "Linear"),
        (torch.float32, "torch.float32"),
        (Odd(), "a Odd"),
        ("x" * 1000, "x" * 159 + "…"),
        ("a\u202eb\n", "a\ufffdb "),
    ],
)
def test_values_are_shown_in_a_line(value: Any, text: str) -> None:
    assert describe_briefly(value) == text
