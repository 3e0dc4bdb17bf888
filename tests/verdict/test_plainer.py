"""Tests for making the case that a program shows plain, where the answer can be asked again."""

from __future__ import annotations

from typing import Any

from graders.core.exercise import Inputs
from graders.marking.in_process import check_namespace, probe_outcomes
from graders.verdict.plainer import oddity, plainer_failure
from graders.verdict.scene_exercise import find_scene_exercise

SEED = 7
SCALE = find_scene_exercise("03-scale-grad")


def in_float32(t: Any, s: float) -> Any:
    return t.register_hook(lambda grad: grad * s if grad.element_size() == 4 else grad)


def test_of_all_circumstances_the_ones_that_matter_are_left() -> None:
    asked: list[Inputs] = []

    def ask(draw: Inputs) -> Any:
        asked.append(draw)
        return probe_outcomes(SCALE, {"scale_grad": in_float32}, SEED, [draw])[0]

    draws = SCALE.draws(SEED)
    outcomes = probe_outcomes(SCALE, {"scale_grad": in_float32}, SEED, draws)
    promise = "the gradient is scaled"
    start = next(case for case in zip(draws, outcomes) if case[0]["case"]["dtype"] == "float64")
    found = plainer_failure(SCALE.comparison, promise, start, ask)
    assert found is not None
    plainest = {axis: values[0] for axis, values in SCALE.scene.axes.items()}
    assert found[0]["case"] == {**plainest, "dtype": "float64"}
    assert oddity(SCALE.scene, found[0]) == 1 < min(oddity(SCALE.scene, draw) for draw in draws[2:])
    assert [draw["only"] for draw in asked[:-1]] == [[promise]] * (len(asked) - 1)  # in the end all
    assert not asked[-1]["only"]


def test_a_program_has_nothing_of_the_drawn_case_that_makes_no_difference() -> None:
    program = check_namespace(SCALE, {"scale_grad": in_float32}, SEED).program
    assert [line.partition(" = ")[0] for line in program.splitlines()[:5]] == [
        "w",
        "scale_grad(w, 3.6)",
        "loss",
        "loss.backward()",
        "print(w.grad)",
    ]


def test_nothing_is_asked_where_the_plainest_case_fails() -> None:
    twice = {"scale_grad": lambda t, s: t.register_hook(lambda grad: grad * s * 2)}
    draws = SCALE.draws(SEED)
    outcomes = probe_outcomes(SCALE, twice, SEED, draws)
    refusal = SCALE.refusal(draws, outcomes, ask=lambda draw: 1 / 0)
    assert refusal is not None
    assert refusal.draw == draws[0]


def test_the_example_of_the_contract_is_told_where_it_shows_the_mistake() -> None:
    in_place = {"scale_grad": lambda t, s: t.register_hook(lambda grad: grad.mul_(s))}
    *_, last = check_namespace(SCALE, in_place, SEED).program.splitlines()
    assert last == "print(w.grad, x.grad)  # expected tensor([30.]) tensor([3.]); yours: tensor([30.]) tensor([30.])"
