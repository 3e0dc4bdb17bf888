"""The program that a refused answer gets."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from graders.author.prove_programs import program_problem
from graders.core.difference import Difference, Kind
from graders.core.expect import Seen
from graders.core.explanations import FIRST_RESULT
from graders.core.results import Status
from graders.core.transcript import Outcome, raised_outcome
from graders.marking.in_process import check_namespace, probe_outcomes
from graders.scenes.scene import STOPPED
from graders.verdict import refusing
from graders.verdict.judge_exercise import judge_exercise
from graders.verdict.looks import look_at
from graders.verdict.scene_exercise import RIGHT_AT_FIRST, find_scene_exercise
from graders.verdict.telling import Until
from graders.wire.data import Array

SCALE = find_scene_exercise("03-scale-grad")
SEED = 3


def values_in_words(wanted: Any, seen: Any) -> str:
    return refusing._values_in_words(wanted, seen, lambda: Difference(Kind.VALUE))


def names(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(f"import torch\n{source}", space)
    return space


def program(source: str) -> list[str]:
    """The lines of the program that an answer to 03-scale-grad gets."""
    return check_namespace(SCALE, names(source), SEED).program.splitlines()


def right() -> dict[str, Any]:
    return {"scale_grad": SCALE.comparison.stage.programs[0].function}


def test_a_right_answer_gets_none() -> None:
    result = check_namespace(SCALE, right(), SEED)
    assert (result.status, result.program) == (Status.PASSED, "")


def test_it_ends_in_the_line_that_shows_the_first_difference_and_says_both_values() -> None:
    assert program("def scale_grad(t, s): return t.register_hook(lambda g: g * s if g.numel() == 1 else None)") == [
        "w = torch.tensor([-1.2, -2.4]).requires_grad_()",
        "scale_grad(w, 2.2)",
        "loss = (w * torch.tensor([2.3, -0.6])).sum()",
        "loss.backward()",
        "print(w.grad)  # expected tensor([5.0600, -1.3200]); yours: tensor([2.3000, -0.6000])",
    ]


def test_what_outlives_a_call_is_said_below_a_program_that_may_be_right_at_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = (
        "factors = []\ndef scale_grad(t, s):\n    factors.append(s); return t.register_hook(lambda g: g * sum(factors))"
    )
    result = check_namespace(SCALE, names(kept), SEED)
    assert result.mistake == "left-from-an-earlier-call"
    assert result.program.splitlines()[-1] == RIGHT_AT_FIRST.strip()
    space = names(f"from torch import nn\n{kept}")
    exec(result.program, space)
    first = capsys.readouterr().out
    exec(result.program, space)
    assert capsys.readouterr().out != first


def test_the_result_of_the_very_first_call_is_known_again() -> None:
    capture = find_scene_exercise("05-capture-activation")
    kept = """
from torch import nn
def capture_activation(model, name, x, kept=[]):
    hook = lambda module, args, output: kept.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return kept[0]
"""
    result = check_namespace(capture, names(kept), SEED)
    assert (result.mistake, result.message) == (FIRST_RESULT.id, FIRST_RESULT.message)
    assert result.program.splitlines()[-1] == RIGHT_AT_FIRST.strip()
    constant = kept.replace("return kept[0]", "return torch.full_like(x, 0.3)")
    assert check_namespace(capture, names(constant), SEED).mistake is None


LEFT_HOOKS = """
def count_hook_calls(model, x, n, ckpt):
    counts = {"fwd": 0, "bwd": 0}
    model[0].register_forward_hook(lambda *args: counts.update(fwd=counts["fwd"] + 1))
    model[0].register_full_backward_hook(lambda *args: counts.update(bwd=counts["bwd"] + 1))
    for _ in range(n):
        run = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False) if ckpt else model(x)
        run.sum().backward()
    return counts
"""
KEPT = """
def layer_output(model, layer, x, kept=[]):
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept[0]
"""


@pytest.mark.parametrize(
    ("key", "source", "mistake"),
    [("08-count-hook-calls", LEFT_HOOKS, "hook-left-behind"), ("00-layer-output", KEPT, "left-over")],
)
def test_what_calls_in_the_box_have_left_is_not_taken_for_what_shows_elsewhere(
    key: str, source: str, mistake: str
) -> None:
    exercise = find_scene_exercise(key)
    draws = exercise.draws(SEED)
    wrong = names(f"import torch.utils.checkpoint\n{source}")
    outcomes = probe_outcomes(exercise, wrong, SEED, draws)
    result = judge_exercise(exercise, draws, outcomes)
    assert result.mistake == mistake
    refusal = exercise.refusal(draws, outcomes, [mistake])
    assert refusal is not None
    assert refusal.program == result.program
    reference = {exercise.name: exercise.comparison.stage.programs[0].function}
    wrong = names(f"import torch.utils.checkpoint\n{source}")  # in a new interpreter it has kept nothing
    assert program_problem(refusal, wrong, reference) == ""


def test_the_row_of_its_check_has_the_same_numbers() -> None:
    exercise = find_scene_exercise("01-per-pass-grads")
    half = "def per_pass_grads(p, losses): return [torch.autograd.grad(loss(p), p)[0] / 2 for loss in losses]"
    for seed in range(4):
        result = check_namespace(exercise, names(half), seed)
        row = next(check.difference for check in result.checks if check.difference)
        assert f"# expected [tensor([{float(row.expected):.4f}, " in result.program


def test_a_line_of_the_caller_that_fails_ends_it() -> None:
    lines = program("def scale_grad(t, s): t.register_hook(lambda g: s * g)")
    assert lines[-3:] == [
        "handle.remove()",
        "# expected no exception;",
        "# yours: AttributeError: 'NoneType' object has no attribute 'remove'",
    ]


def test_an_exception_of_the_answer_ends_it_at_the_line_that_the_box_reported() -> None:
    assert program("def scale_grad(t): pass") == [
        "w = torch.tensor([-1.2, -2.4]).requires_grad_()",
        "scale_grad(w, 2.2)",
        "# expected no exception;",
        "# yours: TypeError: scale_grad() takes 1 positional argument but 2 were given",
    ]


def test_an_exception_in_a_hook_ends_it_at_the_pass() -> None:
    lines = program("def scale_grad(t, s): return t.register_hook(lambda g: g.no_such_thing)")
    assert lines[3:5] == ["loss.backward()", "# expected no exception;"]


def test_an_exception_that_comes_in_odd_cases_is_shown_in_the_plainest_one() -> None:
    """In double precision alone, whatever else is odd about the case in which it came first."""
    fails = "assert t.dtype is torch.float32, 'single precision only'"
    draws = SCALE.draws(SEED)
    answer = names(f"def scale_grad(t, s):\n    {fails}\n    return t.register_hook(lambda g: s * g)")
    outcomes = probe_outcomes(SCALE, answer, SEED, draws)
    ended = next(index for index, outcome in enumerate(outcomes) if outcome.seen is None)
    odd = {axis for axis, values in SCALE.scene.axes.items() if draws[ended]["case"][axis] != values[0]}
    assert len(odd) > 2
    assert set(outcomes[ended].plainest) == odd - {"dtype"}
    assert SCALE.tell(draws, outcomes).program.splitlines() == [
        "w = torch.tensor([0.6, -0.9, 1.7], dtype=torch.float64).requires_grad_()",
        "scale_grad(w, 3.1)  # expected no exception; yours: AssertionError: single precision only",
    ]


def test_a_known_mistake_is_shown_without_the_exception_to_which_it_leads_elsewhere() -> None:
    late = names(
        "def scale_grad(t, s): return t.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', p.grad * s))"
    )
    result = check_namespace(SCALE, late, SEED)
    assert (result.status, result.mistake) == (Status.RAISED, "wrong-hook-kind")  # that hook takes leaves alone
    assert re.search(r"print\(w\.grad.*expected tensor", result.program.splitlines()[-1])


@pytest.mark.parametrize("plain", [None, "no such axis", {"dtype": 1}, ["dtype"], 3, "rank"])
def test_a_forged_case_is_one_of_the_exercise_or_none(plain: Any) -> None:
    """The plainest rank is impossible together with a transposed layout."""
    draws = [{**draw, "case": {**draw["case"], "rank": 2, "layout": "transposed"}} for draw in SCALE.draws(SEED)[:1]]
    fails = "def scale_grad(t, s): raise KeyError"
    (outcome,) = probe_outcomes(SCALE, names(fails), SEED, draws)
    head = {"type": "raised", "status": "raised", "error": "KeyError", "plainest": plain}
    place = dict(zip(("story", "story_line", "story_from_line"), outcome.stopped_at))
    forged = raised_outcome({**head, **place})
    assert ".mT" in SCALE.tell(draws, [forged]).program


def test_what_is_left_on_a_thing_of_the_caller_is_looked_at() -> None:
    lines = program("def scale_grad(t, s):\n    t.retain_grad()\n    return t.register_hook(lambda g: s * g)")
    assert lines[-3:-1] == ["print(t.retains_grad)", "# expected False;"]
    assert lines[-1].startswith("# yours: True (after the call, ")


def test_a_forged_place_gets_no_program() -> None:
    for story, line in ((0, 1), (99, 5), (-1, 2), ("0", 3), (0, None), ([], 4)):
        place = {"story": story, "story_line": line, "story_from_line": line}
        head = {"type": "raised", "status": "raised", "error": "KeyError", **place}
        draws = SCALE.draws(SEED)
        assert SCALE.tell(draws, [raised_outcome(head)] * len(draws)).program == ""


@pytest.mark.parametrize("stop", [None, 3, {}, {"story": 99, "line": 1}, {"story": 0, "line": "x", "error": []}])
def test_a_forged_line_that_failed_is_refused_and_breaks_nothing(stop: Any) -> None:
    draws = SCALE.draws(SEED)
    seen = probe_outcomes(SCALE, right(), SEED, draws)
    first = seen[0].seen
    assert first is not None
    value = {**first.value, "the gradient is scaled": {**first.value["the gradient is scaled"], STOPPED: stop}}
    outcomes = [Outcome(seen=Seen(value)), *seen[1:]]
    assert SCALE.tell(draws, outcomes).program == ""
    assert SCALE.comparison.differences(Seen(value), draws[0], "the gradient is scaled")


@pytest.mark.parametrize(
    "source",
    [
        "def scale_grad(t, s): return t.register_hook(lambda g: g.mul_(s))",
        "def scale_grad(t, s): return t.register_hook(lambda g: g.detach() * s)",
        "def scale_grad(t, s): t.register_hook(lambda g: g * s)",
        "def scale_grad(t, s): return 1 / 0",
    ],
)
def test_after_the_answer_it_shows_what_it_says_and_after_a_right_one_the_expected(source: str) -> None:
    draws = SCALE.draws(SEED)
    refusal = SCALE.refusal(draws, probe_outcomes(SCALE, names(source), SEED, draws))
    assert refusal is not None
    assert program_problem(refusal, names(source), right()) == ""
    assert program_problem(refusal, right(), right()) != ""


def test_it_says_why_a_line_may_be_missing_from_a_program_that_does_not_show_the_difference() -> None:
    refusal = refusing.Refusal("it counts", "the number", "print(count())\n", expected=1, seen=2)
    told = program_problem(refusal, {"count": lambda: 1}, {"count": lambda: 1})
    assert told.startswith(
        "has a program that does not show it:\nprint(count())\nit shows 1\nIs a line of the story missing"
    )


NET = """
class GuardedNet(torch.nn.Module):
    def __init__(self, body, fc, lo, hi):
        super().__init__()
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(lambda g: torch.zeros_like(g))

    def forward(self, x):
        h = self.body(x)
        if h.requires_grad and len(x) == 2:
            h.register_hook(lambda g: HOOK)
        return self.fc(h.flatten(1))
"""


@pytest.mark.parametrize("hook", ["g.nonsense", "torch.zeros(1, 1, 1)"])
def test_a_line_of_a_helper_in_another_file_is_found_there(hook: str) -> None:
    """One exception comes out of the learner's hook, the other out of torch at the line of the caller."""
    exercise = find_scene_exercise("03-guarded-net")
    draws = exercise.draws(SEED)
    wrong = names(NET.replace("HOOK", hook))
    refusal = exercise.refusal(draws, probe_outcomes(exercise, wrong, SEED, draws))
    assert refusal is not None
    assert refusal.program.splitlines()[-3:-1] == ["loss.backward()", "# expected no exception;"]
    reference = {exercise.name: exercise.comparison.stage.programs[0].function}
    assert program_problem(refusal, wrong, reference) == ""


def test_of_two_long_timelines_it_shows_where_they_begin_to_differ() -> None:
    events = [*"abcdefghijkl"]
    assert (
        values_in_words(events, [*"abcdefghixkl"]) == "from entry 10 on, expected 'j', 'k', 'l'; yours: 'x', 'k', 'l'"
    )
    assert values_in_words(events[:7], ["x", *events[1:7]]) == (
        "from entry 1 on, expected 'a', 'b', 'c', …; yours: 'x', 'b', 'c', …"
    )
    assert values_in_words(events, events[:11]) == "from entry 12 on, expected 'l'; yours: no more"
    assert values_in_words(["a", "b"], ["a"]) == "expected ['a', 'b']; yours: ['a']"


def test_of_tensors_that_print_alike_it_prints_the_numbers() -> None:
    draws = SCALE.draws(SEED)
    rounded = "def scale_grad(t, s): return t.register_hook(lambda g: g * (s * 1.000008))"
    refusal = SCALE.refusal(draws, probe_outcomes(SCALE, names(rounded), SEED, draws))
    assert refusal is not None
    assert re.search(r"print\(.*\.tolist\(\)\)  # expected \S+; yours: \S+\n", refusal.program)


ORDINARY = """
def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
"""


def test_of_a_large_tensor_it_prints_the_entry_that_differs_most() -> None:
    exercise = find_scene_exercise("10-guided-backprop")
    draws = exercise.draws(SEED)
    refusal = exercise.refusal(draws, probe_outcomes(exercise, names(ORDINARY), SEED, draws))
    assert refusal is not None
    *_, call, last = refusal.program.splitlines()
    assert call == "found = guided_backprop(model, x, c)"
    assert re.fullmatch(r"print\(found\[\d, \d, \d, \d\]\)  # expected tensor\(.+\); yours: tensor\(.+\)", last)


def test_tensors_of_different_shapes_are_shown_whole() -> None:
    large = Array(torch.zeros(13), False)
    assert refusing._worst_entry(large, Array(torch.zeros(14), False)) == ()
    assert refusing._worst_entry(large, Array(torch.zeros(13), True)) == ()
    assert refusing._worst_entry(large, None) == ()
    assert refusing._worst_entry(large, Array(torch.arange(13.0), False)) == (12,)
    assert refusing._worst_entry(Array(torch.zeros(12), False), Array(torch.ones(12), False)) == ()


def test_of_a_large_dict_or_list_it_prints_the_entry_that_differs() -> None:
    assert refusing._keys("['a'][0]") == ["a", 0]
    assert refusing._keys("") == refusing._keys("[Parameter]") == []
    many = {name: Array(torch.zeros(3, 4, dtype=torch.float64), False) for name in "abc"}
    other = {**many, "b": Array(torch.ones(3, 4, dtype=torch.float64), False)}
    found = refusing._wanted_value("", {}, 0, "the result", other, many, "['b']", lambda: Difference(Kind.VALUE))
    assert found.until == Until("the result", entry=("b",))
    assert found.seen is other["b"]


def test_an_entry_that_is_infinite_in_both_does_not_differ() -> None:
    wanted, seen = torch.full((20,), float("inf")), torch.full((20,), float("inf"))
    wanted[7] = 1.0
    seen[7] = 2.0
    assert refusing._worst_entry(Array(wanted, False), Array(seen, False)) == (7,)


def test_an_entry_that_is_nan_differs_most() -> None:
    seen = torch.arange(14.0).view(2, 7)
    seen[1, 3] = torch.nan
    assert refusing._worst_entry(Array(torch.zeros(2, 7), False), Array(seen, False)) == (1, 3)


def test_a_comment_in_the_example_of_a_contract_is_left_out() -> None:
    assert refusing._printing('f(g("# 1"), 2)  # so (and so') == 'print(f(g("# 1"), 2))'


def test_the_class_of_a_module_is_told_by_its_full_name() -> None:
    class ReLU(torch.nn.ReLU):
        pass

    looks = [eval(look_at("class", "m", [], {}), {"m": module}) for module in (ReLU(), torch.nn.ReLU())]
    assert looks[0] != looks[1] == "<class 'torch.nn.modules.activation.ReLU'>"
