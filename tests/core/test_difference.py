from __future__ import annotations

import pytest

from graders.core.difference import Difference, Kind, Row, Timelines, around_the_difference, first_divergence


@pytest.mark.parametrize(
    ("expected", "seen", "index"),
    [
        ([], [], None),
        (["a", "b"], ["a", "b"], None),
        (["a", "b"], ["a", "c"], 1),
        (["a"], ["b"], 0),
        (["a", "b"], ["a"], 1),
        (["a"], ["a", "b"], 1),
        ([], ["a"], 0),
    ],
)
def test_the_first_divergence_is_the_first_difference_or_the_shorter_end(
    expected: list[str], seen: list[str], index: int | None
) -> None:
    assert first_divergence(expected, seen) == index


def test_both_columns_are_aligned_and_the_arrow_marks_the_divergence() -> None:
    expected = ["forward a", "forward b", "backward b"]
    assert around_the_difference(expected, ["forward a", "backward b"]).side_by_side().split("\n") == [
        "  expected    seen",
        "  forward a   forward a",
        "→ forward b   backward b",
        "  backward b  (end)",
    ]


def test_events_after_the_expected_end_are_shown() -> None:
    assert around_the_difference(["a"], ["a", "b"]).side_by_side().split("\n") == [
        "  expected  seen",
        "  a         a",
        "→ (end)     b",
    ]


def test_equal_timelines_have_no_arrow() -> None:
    assert around_the_difference(["a"], ["a"]).side_by_side() == "  expected  seen\n  a         a"


def test_only_the_surroundings_of_the_divergence_are_shown() -> None:
    expected = [str(number) for number in range(12)]
    seen = [*expected[:6], "x", *expected[7:]]
    found = around_the_difference(expected, seen, context=2)
    assert found.first_difference_number == 7
    assert found.side_by_side().split("\n") == [
        "  expected   seen",
        "  (4 equal)",
        "  4          4",
        "  5          5",
        "→ 6          x",
        "  7          7",
        "  8          8",
        "  (3 more)",
    ]


def test_rows_say_where_a_timeline_has_ended_and_which_is_the_first_difference() -> None:
    assert list(Timelines(("a", "b"), ("a",)).rows) == [Row("a", "a", False), Row("b", "(end)", True)]
    assert Timelines(("a", "b"), ("a",)).first_difference_number == 2


@pytest.mark.parametrize(
    ("difference", "sentence"),
    [
        (Difference(Kind.VALUE, "total", expected="3", seen="2"), "total: expected 3, saw 2"),
        (
            Difference(Kind.VALUE, "g", "[0][1]", "3", "2", "2 of 4 entries differ"),
            "g: expected 3, saw 2 at [0][1]; 2 of 4 entries differ",
        ),
        (Difference(Kind.CONDITION, "x", note="it still requires grad"), "x: it still requires grad"),
        (Difference(Kind.CONDITION, note="a hook is gone"), "a hook is gone"),
        (
            Difference(Kind.ORDER, "log", timelines=Timelines(("a",), ("b",), 4)),
            "log: the lists differ from entry 5 on: expected a, saw b",
        ),
        (
            Difference(Kind.ORDER, "log", timelines=Timelines(("a", "b"), ("a",))),
            "log: the lists differ from entry 2 on: expected b, saw (end)",
        ),
    ],
)
def test_a_difference_is_one_sentence(difference: Difference, sentence: str) -> None:
    assert difference.sentence == sentence
    assert difference.text.split("\n")[0] == sentence


def test_the_place_is_the_path_with_the_entry() -> None:
    assert Difference(Kind.VALUE, "grads['a']", "[2]", "1", "2").place == "grads['a'], entry [2]"
    assert Difference(Kind.VALUE, "total", expected="1", seen="2").place == "total"


def test_every_text_is_clean_and_short() -> None:
    trap = "\x1b[2J\u202e" + "x" * 500
    timelines = Timelines((trap,), (trap, trap))
    difference = Difference(Kind.ORDER, trap, trap, trap, trap, trap, timelines)
    texts = [difference.where, difference.entry, difference.expected, difference.seen, difference.note]
    assert {len(text) for text in texts} == {300}
    assert {len(event) for event in timelines.expected + timelines.seen} == {100}
    assert "\x1b" not in difference.text + timelines.side_by_side()
    assert "\u202e" not in difference.text + timelines.side_by_side()
