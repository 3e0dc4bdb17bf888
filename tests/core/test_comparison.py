from __future__ import annotations

import pytest

from graders.core.comparison import Comparison, Event, Timelines, read
from graders.core.expect import Mismatch, Seen, expect


def message_of(value: object, expected: object) -> str:
    with pytest.raises(Mismatch) as caught:
        expect(Seen(value, "order")).timeline(expected) if isinstance(expected, list) else expect(
            Seen(value, "total")
        ).equals(expected)
    return str(caught.value)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("total: expected 3, saw 2", Comparison("total", "3", "2")),
        (
            "grads['a'][0]: expected 3, saw 2 at [0][1]; 2 of 4 entries differ",
            Comparison("grads['a'][0], entry [0][1]", "3", "2", "2 of 4 entries differ"),
        ),
        ("x: expected a tensor, saw None", Comparison("x", "a tensor", "None")),
        ("x: expected 'a, saw b', saw 'c'", Comparison("x", "'a, saw b'", "'c'")),
        ("the values are right, but the tensor still requires grad", None),
        ("x: the key 'b' is missing; there are ['a']", None),
        ("x: expected 3, saw 2\nand another line", None),
        ("", None),
    ],
)
def test_the_two_values_of_a_sentence_are_found(message: str, found: Comparison | None) -> None:
    assert read(message) == found


def test_what_expect_says_is_read_again() -> None:
    assert read(message_of(2, 3)) == Comparison("total", "3", "2")


def test_timelines_are_read_again() -> None:
    assert read(message_of(["fwd a", "bwd b"], ["fwd a", "fwd b", "bwd b"])) == Timelines(
        "order: the timelines part at event 2",
        (Event("fwd a", "fwd a", False), Event("fwd b", "bwd b", True), Event("bwd b", "(end)", False)),
    )
