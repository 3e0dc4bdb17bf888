from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from graders.core.circumstances import ALL, Circumstances
from graders.core.exercise import DeadProbe, Exercise, Mistake, call_by_name, exercise, exercises_of
from graders.core.mistakes import COMMON
from graders.wire.draws import Rng
from tests import sample
from tests.sample import TestScaleSum as SCALE_SUM
from tests.sample import TestWrap as WRAP


def made(key: str = "90-some-thing", circumstances: Circumstances | None = None, **parts: Any) -> Exercise:
    """An exercise with the smallest possible body; `parts` replace or add members of its class."""
    members = {
        "__doc__": "Write `some_thing()`.",
        "draw": lambda rng: {"n": rng.integer(0, 1)},
        "probe": lambda student: None,
        "mistakes": (Mistake("never", lambda seen: False, "Never."),),
        "test_it": lambda seen: None,
        **parts,
    }
    make = exercise(key, title="Some thing", points=1, hints=("a", "b"), circumstances=circumstances)
    return make(type("TestSome", (), members))


def test_a_class_becomes_an_exercise() -> None:
    assert isinstance(SCALE_SUM, Exercise)
    assert (SCALE_SUM.key, SCALE_SUM.name, SCALE_SUM.points) == ("90-scale-sum", "scale_sum", 3)
    assert SCALE_SUM.hints == ("Multiply first.", "Then call `sum()`.")
    assert [check.name for check in SCALE_SUM.checks] == [
        "test_the_sum_is_right",
        "test_the_gradient_is_right",
        "test_no_hook_is_left",
    ]
    assert [check.sentence for check in SCALE_SUM.checks][2] == "no hook is left"
    assert [mistake.id for mistake in SCALE_SUM.mistakes] == ["not-scaled", "no-sum"]


def test_the_contract_is_the_docstring_without_its_indentation() -> None:
    assert SCALE_SUM.contract.split("\n") == [
        "Write `scale_sum(x, k)`, which returns the sum of `k * x`.",
        "",
        "**Example.** For `x = tensor([1., 2.])` and `k = 2` the result is `tensor(6.)`.",
    ]


def test_a_name_of_its_own_replaces_the_words_of_the_key() -> None:
    assert WRAP.name == "wrapped_layer"


def test_the_lesson_is_that_of_the_graders_folder() -> None:
    assert SCALE_SUM.file == Path(sample.__file__)
    moved = replace(SCALE_SUM, file=Path("graders/lesson_90_small/test_scale_sum.py"))
    assert moved.lesson == "90_small"
    assert SCALE_SUM.class_name == "TestScaleSum"


def test_exercises_of_a_module_come_in_its_order() -> None:
    assert [exercise.key for exercise in exercises_of(sample)] == ["90-scale-sum", "90-wrap"]


@pytest.mark.parametrize("key", ["scale-grad", "3-scale-grad", "03-Scale", "03_scale", "03-", "03-a--b", "03-a-", ""])
def test_a_key_of_another_form_is_refused(key: str) -> None:
    with pytest.raises(TypeError, match="is no exercise key: it looks like 03-scale-grad"):
        made(key)


@pytest.mark.parametrize("wrong", [{"difficulty": 4}, {"difficulty": -1}, {"minutes": -5}])
def test_a_difficulty_or_a_time_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="exercise 90-some-thing: its difficulty is 1, 2 or 3"):
        exercise("90-some-thing", title="Some thing", points=1, hints=("a", "b"), **wrong)


@pytest.mark.parametrize("part", ["draw", "probe", "mistakes", "__doc__"])
def test_a_class_that_lacks_a_part_is_refused(part: str) -> None:
    with pytest.raises(TypeError, match=f"exercise 90-some-thing lacks {part}"):
        made(**{part: None})


def test_a_class_without_a_check_is_refused() -> None:
    with pytest.raises(TypeError, match="has no check: a function whose name starts with test_"):
        exercise("90-some-thing", title="Some", points=1, hints=())(
            type("TestSome", (), {**vars(_Bare), "__doc__": "Write."})
        )


class _Bare:
    draw = probe = staticmethod(lambda *args: {})
    mistakes = (Mistake("never", lambda seen: False, "Never."),)


def test_there_is_one_draw_for_each_case_and_it_depends_on_the_seed_alone() -> None:
    first, again, other = SCALE_SUM.draws(1), SCALE_SUM.draws(1), SCALE_SUM.draws(2)
    assert [draw["kind"] for draw in first] == ["double", "negate"]
    assert [draw["x"].tolist() for draw in first] == [draw["x"].tolist() for draw in again]
    assert [draw["x"].tolist() for draw in first] != [draw["x"].tolist() for draw in other]
    assert first[0]["x"].tolist() != first[1]["x"].tolist()


def test_another_key_draws_other_values() -> None:
    numbers = [[draw["n"] for seed in range(20) for draw in made(key).draws(seed)] for key in ("90-one", "90-two")]
    assert numbers[0] != numbers[1]


def test_a_draw_that_cannot_tell_right_from_wrong_is_drawn_again() -> None:
    picky = made(draw=lambda rng: {"n": rng.integer(0, 9)}, alive=lambda n: n == 7)
    assert [draw["n"] for seed in range(5) for draw in picky.draws(seed)] == [7] * 15
    assert all(draw["x"].sum() != 0 for seed in range(50) for draw in SCALE_SUM.draws(seed))


def test_an_exercise_none_of_whose_draws_can_tell_is_a_defect() -> None:
    with pytest.raises(DeadProbe, match="exercise 90-some-thing, case 0: 100 draws"):
        made(alive=lambda n: False).draws(1)


def test_draw_asks_for_circumstances_by_name_and_all_of_them_are_in_the_draw() -> None:
    some = made(
        circumstances=Circumstances({"rank": (0, 2), "dtype": ALL}, constants={"width": 4}),
        draw=lambda rng, rank, dtype: {"x": rng.tensor(*rng.shape(rank), dtype=dtype), "rank": f"of rank {rank}"},
    )
    draws = some.draws(1)
    assert some.cases == tuple(
        {"width": 4, "rank": rank, "dtype": dtype} for rank, dtype in ((0, "float32"), (2, "float64"), (0, "float32"))
    )
    assert [(draw["x"].dim(), draw["x"].dtype, draw["rank"], draw["dtype"], draw["width"]) for draw in draws[:2]] == [
        (0, torch.float32, "of rank 0", "float32", 4),
        (2, torch.float64, "of rank 2", "float64", 4),
    ]


def test_a_draw_that_ends_in_case_gets_all_circumstances_and_the_cases_are_told_whole() -> None:
    some = made(
        circumstances=Circumstances({"rank": (0, 2), "dtype": ALL}),
        draw=lambda rng, rank, **case: {"drawn": [rank, case]},
        probe=lambda student, drawn: None,
    )
    draws = some.draws(1)
    assert [draw["drawn"] for draw in draws] == [[draw["rank"], {"dtype": draw["dtype"]}] for draw in draws]
    assert some.tried == list(some.cases)


def test_a_draw_at_the_mercy_of_rounding_is_drawn_again() -> None:
    def draw(rng: Rng) -> dict[str, Any]:
        return {"x": torch.tensor([1.0, 1.0 + rng.choice((2.0**-20, 1.0)), 1.0])}

    def oracle(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean()) / (x - x.mean()).norm()

    def drawn(some: Exercise) -> set[float]:
        return {draw["x"][1].item() for seed in range(20) for draw in some.draws(seed)}

    assert drawn(made(draw=draw, oracle=oracle)) == {2.0}
    assert drawn(made(draw=draw)) == {2.0, 1 + 2.0**-20}


def test_draws_are_made_with_one_thread_however_many_there_are() -> None:
    before = torch.get_num_threads()
    threads = []
    torch.set_num_threads(2)
    try:
        made(alive=lambda n: threads.append(torch.get_num_threads()) or True).draws(1)
        assert (set(threads), torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)


def test_functions_get_the_values_that_they_name() -> None:
    draw = {"x": 1, "y": 2, "z": 3}
    assert call_by_name(lambda: "none", draw) == "none"
    assert call_by_name(lambda z, x: (z, x), draw) == (3, 1)
    assert call_by_name(lambda seen, y: (seen, y), draw, "seen") == ("seen", 2)
    with pytest.raises(KeyError, match="'w'"):
        call_by_name(lambda w: w, draw)


def test_a_common_mistake_brings_its_message() -> None:
    assert Mistake("forgot-return", lambda seen: True).message == COMMON["forgot-return"]
    assert Mistake("forgot-return", lambda seen: True, "Mine.").message == "Mine."
    with pytest.raises(KeyError, match="my-own"):
        Mistake("my-own", lambda seen: True)


def test_a_mistake_is_recognised_by_numbers_or_by_an_exception() -> None:
    assert Mistake("one", raises="part", message="m").raises == ("part",)
    assert Mistake("two", raises=("a", "b"), message="m").raises == ("a", "b")
    with pytest.raises(TypeError, match="mistake 'three' has no way to be recognised"):
        Mistake("three", message="m")


def test_every_common_message_fits_into_a_report() -> None:
    assert [name for name, message in COMMON.items() if len(message) > 300] == []


def test_draws_are_fresh_tensors() -> None:
    draw = SCALE_SUM.draws(3)[0]
    kept = draw["x"].clone()
    draw["x"].zero_()
    assert torch.equal(SCALE_SUM.draws(3)[0]["x"], kept)
    assert Rng(3, "90-scale-sum", 0, 0).tensor(3).tolist() == kept.tolist()
