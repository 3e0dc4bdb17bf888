"""What `hookwork build --check` says of an exercise with a scene that is not in order."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

import os

import pytest

from graders.author.answers import Answer
from graders.author.prove_programs import unshown_programs
from graders.author.prove_scenes import contract_problems, draws_by_seed, seed_independent_cases, unrecognised_mistakes
from graders.scenes.scene import stories
from graders.verdict.scene_exercise import exercise
from graders.wire.forking import can_fork


def sums(call, draw, case, numbers):
    x = draw.tensor(3) if numbers is None else draw.tensor(3) * 0 + numbers
    yield "the sum", call(x)


def made(docstring="Add.\n\n**Example.**\n\n>>> made(torch.ones(2))\ntensor(2.)", numbers=None, **slips):
    mistakes = type("Mistakes", (), slips)
    body = type("Made", (), {"__doc__": docstring, "reference": lambda x: x.sum(), "Mistakes": mistakes})
    scene = stories(promises=[sums], axes={"dtype": ("float32", "float64")}, numbers=numbers)
    return exercise("99-made", points=1, title="Made", hints=("a", "b"), scene=scene)(body)


def named(function, message):
    function.__doc__ = message
    return function


def test_an_exercise_that_is_in_order() -> None:
    def add_to_all(x, found=[]):  # noqa: B006 - the mistake is to keep it
        found.append(x.sum())
        return sum(found)

    right = made(
        mean=named(lambda x: x.mean(), "You took the mean."), total=named(add_to_all, "You kept the sums of before.")
    )
    assert [problem for problem in contract_problems(right) if "in the box" not in problem] == []
    assert list(unrecognised_mistakes(right, draws_by_seed(right, range(2)))) == []
    assert list(seed_independent_cases(right, draws_by_seed(right, range(3)))) == []


@pytest.mark.skipif(not can_fork, reason="each program runs in a child that is forked")
def test_an_answer_that_gets_no_program_is_a_problem_in_one_of_the_parts() -> None:
    (draws,) = draws_by_seed(made(), [0]).values()
    right = [Answer(f"the answer {number}", "def made(x): return x.sum()") for number in range(4)]
    assert list(unshown_programs(made(), [Answer("twice", "def made(x): return 2 * x.sum()")], draws)) == []
    parts = [list(unshown_programs(made(), right, draws, (part, 2))) for part in range(2)]
    assert parts == [
        [f"99-made: the answer {number} is not told in a program" for number in some] for some in ((0, 2), (1, 3))
    ]


def test_a_contract_that_is_too_long_or_shows_nothing() -> None:
    long = made(f"{'word ' * 46}\n\n**Example.**\n\n>>> made(1)\n\n**Fine print.** {'word ' * 81}")
    assert [problem for problem in contract_problems(long) if "in the box" not in problem] == [
        "99-made: its task has 46 words, more than 45",
        "99-made: its fine print has 81 words, more than 80",
        "99-made: its example shows nothing: it needs lines after >>>, and what comes out",
    ]


def test_a_scene_that_is_not_in_the_box() -> None:
    assert "write it into a scene file" in " ".join(contract_problems(made(numbers=lambda: 1)))


def test_a_mistake_that_passes_and_one_that_is_taken_for_another() -> None:
    found = made(
        none=named(lambda x: x.sum() + 0, "It is right."),
        one=named(lambda x: x.mean(), "One."),
        two=named(lambda x: x.sum() / x.numel(), "Two."),
    )
    problems = list(unrecognised_mistakes(found, draws_by_seed(found, range(1))))
    assert len(problems) == 3
    assert problems[0].endswith("passes")
    assert all("is taken for None" in problem for problem in problems[1:])


@pytest.mark.skipif(not can_fork, reason="only a fork is another process")
def test_a_mistake_that_shows_something_else_the_second_time() -> None:
    def own_number(x):
        return x.sum() + 1 + os.getpid() % 1009  # never 0, and another one in each process

    found = made(process=named(own_number, "You added the number of the process."))
    (problem,) = unrecognised_mistakes(found, draws_by_seed(found, range(3)))  # on seed 2 its example is run again
    assert problem.startswith("99-made, seed 2: the mistake own_number is taken for ")


def test_what_does_not_depend_on_the_seed() -> None:
    constant = made(numbers=2.0)
    (problem,) = seed_independent_cases(constant, draws_by_seed(constant, range(2)))
    assert problem == "99-made: a right answer shows the same for every seed in case 0, {'dtype': 'float32'}"
