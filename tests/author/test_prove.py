"""What `hookwork build --check` tells of the problems that it finds."""

from __future__ import annotations

from graders.author.prove import once_each


def test_a_problem_is_told_once_and_not_for_each_seed() -> None:
    assert list(
        once_each(
            [
                "20-a, seed 0: the mistake b passes",
                "20-a: the mistake c has a program that does not show it:\nx = 1",
                "20-a, seed 1: the mistake b passes",
                "20-a, seed 1: the mistake d passes",
                "20-a: the mistake c has a program that does not show it:\nx = 2",
            ]
        )
    ) == [
        "20-a, seed 0: the mistake b passes",
        "20-a: the mistake c has a program that does not show it:\nx = 1",
        "20-a, seed 1: the mistake d passes",
    ]
