"""Answers with two slips at once: each is named, where it shows, and what follows from them is not judged."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections import OrderedDict
from collections.abc import Sequence

import pytest

from graders.core import course
from graders.core.exercise import Exercise, Inputs
from graders.core.results import ExerciseResult, Status
from graders.core.transcript import Outcome
from graders.marking.in_process import check_namespace
from graders.verdict.comparison import Comparison
from graders.verdict.implementations import Play
from graders.verdict.scene_exercise import find_scene_exercise

SEED = 5

LATE_AND_LEFT = """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            handles.append(module.register_full_backward_pre_hook(
                lambda module, grad_output: flow.update({name: grad_output[0].abs().mean().item()})
            ))
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    return flow
"""
ALIAS_AND_RETURNED = """
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach())
        return grad.detach()
    return t.register_hook(hook)
"""
EVAL_AND_LEFT = """
def capture_many(model, names, x):
    kept = {}
    model.eval()
    for name in names:
        model.get_submodule(name).register_forward_hook(
            lambda module, args, output, name=name: kept.update({name: output.detach().clone()})
        )
    model(x)
    return kept
"""
IN_PLACE_AND_NO_HANDLE = """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad.mul_(s))
"""
NO_EFFECT = """
def scale_grad(t, s):
    t.register_hook(lambda grad: None)
"""
NO_EFFECT_EITHER = """
def scale_output(module, s):
    module.register_forward_hook(lambda module, args, output: None)
"""
OWN_WAY = """
def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s + 1)
"""


def marked_by(exercise: Exercise, source: str) -> ExerciseResult:
    names: dict[str, object] = {}
    exec(f"import torch\nfrom torch import nn\n{source}", names)
    return check_namespace(exercise, names, SEED)


def marked(key: str, source: str) -> ExerciseResult:
    return marked_by(course.find_exercise(key), source)


def rows(result: ExerciseResult) -> list[str]:
    """The rows that failed."""
    return [check.row for check in result.checks if not check.passed]


SQUASHED = """
def normalize_maps(fm):
    return fm.detach().float().sigmoid().numpy()
"""
"""Every mistake that is wrong in the contract's example, whose line holds brackets, once seemed to show the same."""


ANSWERS = [
    ("07-gradient-flow", LATE_AND_LEFT, ("late-binding", "hook-left")),
    ("02-record-grad", ALIAS_AND_RETURNED, ("stored-alias", "returned-the-copy")),
    ("05-capture-many", EVAL_AND_LEFT, ("another-mode", "hook-left-behind")),
    ("03-scale-grad", IN_PLACE_AND_NO_HANDLE, ("in-place-leak", "no-handle")),
    ("03-scale-grad", NO_EFFECT, ("nothing-done",)),
    ("06-scale-output", NO_EFFECT_EITHER, ("nothing-done",)),
    ("03-scale-grad", OWN_WAY, ()),
    ("09-normalize-maps", SQUASHED, ()),
]
"""Keys, answers, and the ids of the slips that are named."""


@pytest.mark.parametrize(("key", "source", "ids"), ANSWERS)
def test_each_slip_is_named_and_what_has_no_name_hides_none(key: str, source: str, ids: tuple[str, ...]) -> None:
    result = marked(key, source)
    assert result.status is Status.WRONG
    assert tuple(id for id, _ in result.mistakes) == ids


def test_a_row_that_follows_is_not_judged_and_the_others_show_the_slips() -> None:
    assert rows(marked("07-gradient-flow", LATE_AND_LEFT)) == [
        "not judged: every layer has its mean gradient",
        "not judged: the keys are in backward order",
        "not judged: each call and each model is measured anew",
        "not judged: two calls at the same time do not disturb each other",
        "not judged: nothing else changes",
        "not yet: an exception comes through and nothing is left",
        "not yet: the example of the contract comes out",
    ]


def test_an_exception_is_that_of_a_mistake_if_it_comes_in_the_same_story() -> None:
    of_none = """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, grads: tuple(s * grad for grad in grads))
"""  # the mistake has the operands in the other order
    no_leaf = """
def linear_grads(lin, x, loss_fn):
    y = lin(x)
    loss_fn(y).backward()
    return y.grad.T @ x, y.grad.sum(0)
"""  # it fails at once, and what reads `.grad` of a parameter only where a hook erases it
    assert marked("07-scale-backward", of_none).mistake == "scaled-none"
    assert marked("07-linear-grads", no_leaf).mistake != "reads-dot-grad"


def test_what_nobody_recognises_is_not_hidden() -> None:
    assert all(row.startswith("not yet: ") for row in rows(marked("03-scale-grad", OWN_WAY)))


class InWhole(Comparison):
    """Plays mistakes in whole cases, even if it is asked for a few sections."""

    def outcome(self, play: Play | None, program_index: int, draw: Inputs, only: Sequence[str] = ()) -> Outcome:
        return super().outcome(play, program_index, draw)


class Noting(Comparison):
    """Notes which mistakes were played in a whole case."""

    in_whole: set[int]

    def outcome(self, play: Play | None, program_index: int, draw: Inputs, only: Sequence[str] = ()) -> Outcome:
        if program_index in self.mistakes and not only:
            self.in_whole.add(program_index)
        return super().outcome(play, program_index, draw, only)


@pytest.mark.parametrize(("key", "source", "ids"), ANSWERS)
def test_most_mistakes_play_only_the_stories_of_what_fails_and_the_same_are_found(
    key: str, source: str, ids: tuple[str, ...]
) -> None:
    exercise, found = find_scene_exercise(key), []
    for kind in (Noting, InWhole):
        comparison = copy.copy(exercise.comparison)
        comparison.__class__ = kind
        comparison._kept, comparison.in_whole = OrderedDict(), set()  # type: ignore[attr-defined]
        found.append(marked_by(dataclasses.replace(exercise, comparison=comparison), source))
        if kind is Noting and len(ids) == 1:
            assert len(comparison.in_whole) <= len(comparison.mistakes) / 3  # type: ignore[attr-defined]
    assert found[0] == found[1]


def test_the_message_of_an_exception_names_the_call_that_raised_it() -> None:
    raises = "def scale_output(module, s): raise ValueError(type(module).__name__)"
    message = marked("06-scale-output", raises).message
    raised = re.search(r"raised ValueError: (\w+) at", message)
    assert raised
    assert f"The call was scale_output(a {raised[1]}, " in message
