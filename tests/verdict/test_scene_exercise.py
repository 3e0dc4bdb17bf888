"""An exercise with a scene, from its class to a verdict and its explanation."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

import dataclasses
import itertools
import random
import sys

import pytest
import torch

from graders.author.answers import answers_to
from graders.core import course
from graders.core.errors import BadExercise
from graders.core.exercise import IllConditionedDraws
from graders.core.expect import Seen
from graders.core.results import Status
from graders.core.transcript import Outcome
from graders.marking.in_process import check_namespace
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks
from graders.scenes.watch import Watch
from graders.verdict.implementations import ReferenceFailed
from graders.verdict.judge_exercise import judge_exercise
from graders.verdict.scene_exercise import NotInTheBox, box_source, exercise
from tests.observations import anything_odd, forgeries, observed, part_by_part


def scaled(call, draw, case, by):
    x = draw.tensor(case.size)
    yield "result", call(x, by)
    yield "again", call(x, by)


def kept(call, draw, case, by):
    x = draw.tensor(case.size)
    before = Watch(x=x)
    call(x, by)
    call(x, by)
    yield "x", before.differences()


@exercise(
    "99-scaled",
    points=2,
    title="Scale",
    hints=("Think.", "Multiply."),
    scene=stories(
        promises={"the numbers are scaled": scaled, "it keeps what it was given": kept},
        axes={"dtype": ("float32", "float64"), "size": (1, 3)},
        by=3.0,
    ),
)
class SCALED:
    """Return `x` times `by`.

    **Example.**

    >>> scaled(torch.tensor([1.0]), 3.0)
    tensor([3.])

    **Fine print.** `x` stays as it is.
    """

    def reference(x, by):
        return by * x

    class Mistakes:
        def in_place(x, by):
            """You wrote into `x`."""
            return x.mul_(by)

        def only_once(x, by, met=[]):  # noqa: B006 - the mistake
            """You scale the first time only."""
            met.append(x)
            return x * by if len(met) % 2 else x

        def forgot_return(x, by):
            x * by


def verdict(source: str, seed: int = 0):
    names: dict[str, object] = {}
    exec(f"import torch\n{source}", names)
    return check_namespace(SCALED, names, seed)


def test_its_parts() -> None:
    assert [check.sentence for check in SCALED.checks] == [
        "the numbers are scaled",
        "it keeps what it was given",
        "the example of the contract comes out",
    ]
    assert {mistake.id for mistake in SCALED.mistakes} == {"in-place", "only-once", "forgot-return"}
    assert "scaled(torch.tensor([1.0]), 3.0)  # tensor([3.])" in SCALED.contract
    values = [{case[axis] for case in SCALED.cases} for axis in ("dtype", "size")]
    assert values == [{"float32", "float64"}, {1, 3}]


@pytest.mark.parametrize("seed", range(5))
def test_a_right_answer_in_another_style_passes(seed: int) -> None:
    assert verdict("def scaled(x, by): return x + x + x if by == 3 else x / (1 / by)", seed).status is Status.PASSED


def test_a_literal_example_decides_whatever_the_reference_says() -> None:
    found = verdict("def scaled(x, by): return x * by if len(x) != 1 or float(x[0]) != 1.0 else 2 * x")
    assert [check.name for check in found.checks if not check.passed][-1] == "the example of the contract comes out"


@pytest.mark.parametrize(
    ("source", "mistake", "message"),
    [
        ("def scaled(x, by): x *= by; return x", "in-place", "You wrote into `x`."),
        ("C = []\ndef scaled(x, by): C.append(1); return x * by if len(C) % 2 else x", "only-once", "the first time"),
        ("def scaled(x, by): pass", None, ""),  # as if nothing had been done: nobody forgot to return just that
        ("def scaled(x, by): return x * by + 1", None, ""),
    ],
)
def test_a_wrong_answer_is_taken_for_the_program_that_shows_the_same(source: str, mistake: str, message: str) -> None:
    found = verdict(source)
    assert found.status is Status.WRONG
    assert found.mistake in (mistake, "missing-value") if mistake is None else found.mistake == mistake
    assert message in found.message


def test_the_first_section_that_is_wrong_is_explained_in_every_case() -> None:
    """In place for tensors of one entry alone: the mistake shows more than the answer does."""
    found = verdict("def scaled(x, by): return x.mul_(by) if len(x) == 1 else x * by")
    assert found.status is Status.WRONG
    assert found.mistake != "in-place"


def test_an_exception_is_explained_by_the_program_that_ends_so() -> None:
    def raises(x, by):
        raise RuntimeError("no 7 apples")

    stage = SCALED.comparison.stage
    mistake = dataclasses.replace(stage.programs[1], id="apples", function=raises, message="No apples.")
    SCALED.comparison.stage = dataclasses.replace(stage, programs=(stage.programs[0], mistake, *stage.programs[2:]))
    SCALED.comparison._kept.clear()
    try:
        found = verdict("def scaled(x, by): raise RuntimeError('no 9 apples')")
    finally:
        SCALED.comparison.stage = stage
        SCALED.comparison._kept.clear()
    assert (found.status, found.mistake) == (Status.RAISED, "apples")


def test_draws_are_the_same_for_a_seed_and_expected_once() -> None:
    first, second = SCALED.draws(1), SCALED.draws(1)
    assert first == second != SCALED.draws(2)
    assert [len(draw["example"]) for draw in first] == [1, *[0] * (len(first) - 1)]
    kept = [SCALED.comparison.outcome(None, 0, draw) for draw in first]
    assert all(SCALED.comparison.outcome(None, 0, draw) is outcome for draw, outcome in zip(first, kept))


def made(reference):
    body = type("Made", (), {"__doc__": "Do it.", "reference": reference, "Mistakes": type("Mistakes", (), {})})
    return exercise("99-made", points=1, title="Made", hints=(), scene=SCALED.scene)(body)


def test_a_draw_that_rounding_decides_is_drawn_again_and_given_up_in_the_end() -> None:
    with pytest.raises(IllConditionedDraws, match="rounding decided the result"):
        made(lambda x, by: (x * 1e7 + x / 3).sin()).draws(0)


def test_a_reference_that_fails_is_a_defect_of_the_exercise() -> None:
    with pytest.raises(ReferenceFailed, match=r"99-made ended with ZeroDivisionError"):
        made(lambda x, by: 1 / 0).draws(0)


def test_wrong_programs_leave_nothing_in_this_process() -> None:
    def reference(x, by):
        torch.nn.Module.left_behind = True
        return x * by

    made(reference).draws(0)
    assert not hasattr(torch.nn.Module, "left_behind") or not sys.platform.startswith("linux")


def test_what_is_missing_is_said() -> None:
    with pytest.raises(TypeError, match="a contract as its docstring, a reference and a class Mistakes"):
        exercise("99-made", points=1, title="Made", hints=(), scene=SCALED.scene)(type("Made", (), {}))


def test_a_mistake_without_a_message_is_refused_by_name() -> None:
    parts = {"__doc__": "Scale.", "reference": lambda x, by: x * by}
    mistakes = type("Mistakes", (), {"twisted": lambda x, by: x})
    with pytest.raises(BadExercise, match="the mistake twisted needs a docstring: what went wrong, and how to fix it"):
        exercise("99-made", points=1, title="Made", hints=(), scene=SCALED.scene)(
            type("Made", (), {**parts, "Mistakes": mistakes})
        )


@pytest.mark.parametrize("key", ["scale-grad", "3-scale-grad", "03-Scale", "03_scale", "03-", "03-a--b", "03-a-", ""])
def test_a_key_of_another_form_is_refused(key: str) -> None:
    with pytest.raises(TypeError, match="is not an exercise key: it looks like 03-scale-grad"):
        exercise(key, points=1, title="Made", hints=(), scene=SCALED.scene)


@pytest.mark.parametrize("wrong", [{"difficulty": 4}, {"difficulty": -1}, {"minutes": -5}])
def test_a_difficulty_or_a_time_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="exercise 99-made: its difficulty is 1, 2 or 3"):
        exercise("99-made", points=1, title="Made", hints=(), scene=SCALED.scene, **wrong)


def test_a_name_of_its_own_replaces_the_words_of_the_key() -> None:
    assert made(lambda x, by: x).name == "made"
    body = type("Made", (), {"__doc__": "Do it.", "reference": lambda x: x, "Mistakes": type("Mistakes", (), {})})
    assert exercise("99-made", points=1, title="", hints=(), scene=SCALED.scene, name="other")(body).name == "other"


def test_draws_are_made_with_one_thread_however_many_there_are() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        SCALED.draws(1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_whatever_comes_out_of_a_box_it_is_right_or_wrong_and_no_error() -> None:
    rng = random.Random(1)
    for key in ("03-scale-grad", "06-scale-output", "08-trace-events"):
        asked = course.find_exercise(key)
        draws = asked.draws(1)[:2]
        right = observed(asked, answers_to(asked).right[0], draws, 1)
        orderly = part_by_part(right[0], [anything_odd] * 3, rng)
        for value in itertools.chain(orderly, forgeries(right, 25, rng)):
            found = judge_exercise(asked, draws[:1], [Outcome(seen=Seen(value))])
            assert found.status in (Status.WRONG, Status.PASSED)


def test_what_is_left_out_of_an_observation_does_not_pass() -> None:
    asked = course.find_exercise("03-scale-grad")
    draws = asked.draws(1)[:1]
    (right,) = observed(asked, answers_to(asked).right[0], draws, 1)
    for section, parts in right.items():
        for name in parts if isinstance(parts, dict) else ():
            less = {**right, section: {other: parts[other] for other in parts if other != name}}
            found = judge_exercise(asked, draws, [Outcome(seen=Seen(less))])
            assert found.status is Status.WRONG, (section, name)


def test_the_box_makes_the_scene_again_from_its_text() -> None:
    scene = stories(
        promises={"it is scaled": hooks.changed_in_a_pass, "each pass is": hooks.EVERY_PASS},
        axes={**hooks.TENSOR, "number": (float("inf"), 1.0)},
        arguments=hooks.a_number,
    )
    namespace: dict[str, object] = {}
    exec(box_source(scene, "scale_grad"), namespace)
    assert callable(namespace["probe"])


def test_an_option_that_is_not_in_the_box_is_a_slip_of_the_author() -> None:
    with pytest.raises(NotInTheBox, match="write it into a scene file"):
        box_source(
            stories(promises=[hooks.changed_in_a_pass], axes=hooks.TENSOR, arguments=lambda draw, case: (1,)), "f"
        )


def test_two_functions_of_one_name_are_not_mixed_up_in_the_box() -> None:
    def a_number(draw, case):
        return (1,)

    a_number.__module__, a_number.__qualname__ = "graders.scenes.elsewhere", "a_number"
    with pytest.raises(NotInTheBox, match="two functions of scenes are called a_number"):
        box_source(stories(promises=[hooks.a_number], axes={}, case=a_number), "f")
