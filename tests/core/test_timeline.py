from __future__ import annotations

import pytest

from graders.core.timeline import first_divergence, side_by_side


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
    assert side_by_side(expected, ["forward a", "backward b"]).split("\n") == [
        "  expected    seen",
        "  forward a   forward a",
        "→ forward b   backward b",
        "  backward b  (end)",
    ]


def test_events_after_the_expected_end_are_shown() -> None:
    assert side_by_side(["a"], ["a", "b"]).split("\n") == [
        "  expected  seen",
        "  a         a",
        "→ (end)     b",
    ]


def test_equal_timelines_have_no_arrow() -> None:
    assert side_by_side(["a"], ["a"]) == "  expected  seen\n  a         a"


def test_only_the_surroundings_of_the_divergence_are_shown() -> None:
    expected = [str(number) for number in range(12)]
    seen = [*expected[:6], "x", *expected[7:]]
    assert side_by_side(expected, seen, context=2).split("\n") == [
        "  expected   seen",
        "  (4 equal)",
        "  4          4",
        "  5          5",
        "→ 6          x",
        "  7          7",
        "  8          8",
        "  (3 more)",
    ]
