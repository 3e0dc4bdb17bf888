from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from graders.author.prove import mark_source
from graders.core import course
from graders.core.difference import Difference, Kind
from graders.core.expect import Seen
from graders.core.explanations import BY_OBSERVATION, EVENTS
from graders.core.results import Status
from graders.core.transcript import Outcome
from graders.verdict.diagnose import diagnose_answer
from graders.verdict.scene_exercise import find_scene_exercise
from graders.verdict.telling import observations_of
from tests.sample import SCALE_SUM

WRONG = Difference(Kind.VALUE, "total", "", "1", "2")
LEFT = Difference(Kind.HOOK_LEFT, note="a hook of yours is still there")
LATER = Difference(Kind.VALUE, "the result of a later call", "", "1", "2")
NOTHING = Difference(Kind.MISSING, "the result", "", "a tensor", "None")
CHANGED = Difference(Kind.CHANGED, note="the values of `x` changed")
EMPTY = Difference(Kind.VALUE, "the result", "", "3 entries", "0")
GRAPH = Difference(Kind.GRAPH, "total", note="it has a graph")


def found(
    differences: Sequence[Sequence[Difference | None]],
    cases: Sequence[dict[str, Any]] = (),
    mistake: str | None = None,
    seen: Any = 1,
) -> tuple[str, ...]:
    """The ids of what explains these differences, where the exercise itself recognises `mistake`."""
    exercise = dataclasses.replace(
        SCALE_SUM, cases=tuple(cases) or ({},) * len(differences), recognise=lambda draws, outcomes: mistake
    )
    count = len(differences)
    by_check = {check.sentence: met for check, met in zip(SCALE_SUM.checks, zip(*differences))}
    findings = diagnose_answer(exercise, [{}] * count, [Outcome(seen=Seen(seen))] * count, by_check)
    return tuple(cause.id for cause in findings.causes)


def test_a_mistake_of_the_exercise_says_most() -> None:
    assert found([[LEFT], [LEFT]], mistake="not-scaled") == ("not-scaled",)


def test_without_one_the_kind_of_the_differences_explains() -> None:
    assert found([[LEFT, None], [LEFT, LEFT]]) == ("hook-left",)
    assert found([[LEFT], [WRONG]]) == ()


def test_each_check_is_explained_by_itself_up_to_two_causes() -> None:
    assert found([[LEFT, CHANGED, GRAPH]]) == ("hook-left", "changed-what-was-given")
    assert found([[LEFT, WRONG, CHANGED]]) == ("hook-left", "changed-what-was-given")
    assert found([[NOTHING, LEFT]]) == ("missing-return", "hook-left")
    assert found([[LEFT, LEFT, CHANGED]]) == ("hook-left", "changed-what-was-given")


def test_that_nothing_was_recorded_follows_from_any_other_cause() -> None:
    assert found([[EMPTY, EMPTY]]) == ("nothing-recorded",)
    assert found([[LEFT, EMPTY]]) == ("hook-left",)


def test_nothing_is_named_while_what_shows_first_has_no_name() -> None:
    assert found([[WRONG, LEFT]]) == ()
    assert found([[Difference(Kind.TYPE, "total", "", "a list", "a tuple"), LEFT]]) == ("another-type",)


def test_a_missing_result_is_named_where_nothing_holds_for_none_may_be_right_elsewhere() -> None:
    assert found([[NOTHING], [NOTHING]]) == ("missing-return",)
    assert found([[NOTHING], [None]]) == ()


def test_or_the_circumstances_in_which_it_fails() -> None:
    cases = [{"mode": "train"}, {"mode": "eval"}, {"mode": "train"}]
    assert found([[None], [WRONG], [None]], cases) == ("only-in-training",)
    assert found([[None], [WRONG], [WRONG]], cases) == ()


def test_or_the_circumstance_that_the_observation_names_if_something_before_it_was_right() -> None:
    later = {"the result of a later call": 2}
    cause = ("left-from-an-earlier-call",)
    assert found([[LATER]], seen={"the sum is right": later}) == ()
    assert found([[LATER]], seen={"the sum is right": {"the result": 1, **later}}) == cause
    assert found([[None, LATER]], seen={"the gradient is right": later}) == cause


def test_a_constant_answer_is_not_told_that_it_stored_a_reference() -> None:
    constant = "import torch\ndef per_pass_grads(p, losses):\n    return [torch.full_like(p, 0.123) for _ in losses]"
    result = mark_source(course.find_exercise("01-per-pass-grads"), constant, 3)
    assert (result.status, result.mistake) == (Status.WRONG, None)


def test_what_differs_before_a_line_of_the_caller_fails_is_what_is_explained() -> None:
    saves_a_list = """
import torch
def save_activation(model, name, x, path):
    found = []
    with model.get_submodule(name).register_forward_hook(lambda m, args, out: found.append(out.detach().clone())):
        model(x)
    torch.save(found[:1], path)
    return tuple(found[0].shape)
"""
    result = mark_source(course.find_exercise("05-save-activation"), saves_a_list, 3)
    assert (result.status, result.mistake) == (Status.WRONG, "another-type")


def test_each_hint_by_the_name_of_an_observation_belongs_to_a_story_of_the_course() -> None:
    named = {
        name
        for exercise in course.every_exercise()
        for _, story in find_scene_exercise(exercise.key).scene.stories
        for name in observations_of(story)
    }
    shown = [f"{name}: {seen}" for name in named for seen in ("None", "True")]
    assert [pattern for pattern in BY_OBSERVATION if not any(re.search(pattern, text) for text in shown)] == []
    assert any(re.search(EVENTS, name) for name in named)
