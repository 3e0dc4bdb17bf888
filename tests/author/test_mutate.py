"""Mutants: what operators make of a right answer, and what becomes of them."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from graders.author.mutate.mutants import Mutant, operator_mutants, wrapper_mutants
from graders.author.mutate.operators import OPERATORS
from graders.author.mutate.prelude import PRELUDE
from graders.author.mutate.score import IDLE, PASSED, REFUSED, Score, choose_keys, mutant_verdict
from graders.author.mutate.wrappers import WRAPPERS
from graders.author.workers import parse_part
from graders.core import course
from graders.core.errors import HookworkError
from tests.sample import SCALE_SUM


def changed(source: str, operator: str) -> list[str]:
    """What an operator makes of a source: the lines that are new, joined."""
    found = [mutant for mutant in operator_mutants(source) if mutant.operator == operator]
    return [
        " / ".join(line[1:].strip() for line in mutant.diff.split("\n") if line[:1] == "+" and line.strip("+ "))
        for mutant in found
    ]


HOOKED = """
def f(model, x):
    kept = []
    handle = model.register_forward_hook(lambda m, a, out: kept.append(out.clone()))
    try:
        model(x)
    finally:
        handle.remove()
    return tuple(kept)
"""


def test_what_people_lose_and_take_for_something_else() -> None:
    assert changed(HOOKED, "lost copy") == [
        "return _not_made_a_tuple(kept)",
        "handle = model.register_forward_hook(lambda m, a, out: kept.append(_not_copied(out)))",
    ]
    assert changed(HOOKED, "lost return") == [
        "_lost(tuple(kept))",
        "handle = model.register_forward_hook(lambda m, a, out: _lost(kept.append(out.clone())))",
    ]
    assert changed(HOOKED, "model.forward(x)") == ["model.forward(x)"]
    assert changed(HOOKED, "a list for a tuple") == ["return list(kept)"]
    assert changed(HOOKED, "one global slot") == ["kept = _slot(3, [])"]
    assert changed(HOOKED, "lost statement") == ["pass", "pass"]
    assert changed(HOOKED, "exception swallowed") == [
        "except Exception: / _did.append('swallowed')",
        "except BaseException: / _did.append('swallowed')",
    ]
    assert changed(HOOKED, "prepend=True") == [
        "handle = _placed(model.register_forward_hook, True)(lambda m, a, out: kept.append(out.clone()))"
    ]
    assert changed(HOOKED, "clean-up only after an `Exception`") == [
        "def _clean_up(*_): / handle.remove() / with _not_after_interrupts(_contextlib.ExitStack()) as _stack: / "
        "_stack.callback(_clean_up)"
    ]


def test_conditions_loops_and_numbers() -> None:
    source = "def f(xs, y):\n    for x in xs:\n        if x is not None:\n            y.append(2)\n"
    source += "    return y.requires_grad"
    assert changed(source, "not for all") == [
        f"for x in _part([x for x in xs if x is not None], {part}): / y.append(2)"
        for part in ("stop=1", "stop=3", "stop=-1", "start=1", "step=-1")
    ]
    assert changed(source, "truth for None") == [
        "return _for_requires_grad(y, 'grad_fn')",
        "return _for_requires_grad(y, 'is_leaf')",
        "if _truth(x):",
    ]
    assert changed(source, "condition dropped") == ["y.append(2)", "pass"]
    assert changed(source, "almost") == ["y.append(3)"]


def parts_of(loop: str) -> list[str]:
    """What the mutants of a loop go through."""
    return [line.partition("_part(")[2] for line in changed(f"def f(xs, seen, y):\n    {loop}", "not for all")]


def test_a_loop_is_cut_after_its_own_test_and_turned_round_where_its_order_shows() -> None:
    assert len(parts_of("for x in xs: y.append(x)")) == 5
    assert len(parts_of("for x in xs: x.grad = y[x] = None")) == 4  # each round has a place of its own
    assert len(parts_of("for x in xs: y.last = x")) == 5
    assert parts_of("y += [a for a, b in xs if a if b]")[0] == "[(a, b) for a, b in xs if a if b], stop=1)]"
    assert parts_of("for x in xs:\n        if x not in seen: y.append(x)")[0] == (
        "[x for x in xs if x not in seen], stop=1): / y.append(x)"
    )
    assert parts_of("for x in xs:\n        if x not in seen: seen.add(x)")[0] == "xs, stop=1):"


def test_a_copy_that_is_read_at_once_is_none() -> None:
    assert changed("def f(t, n):\n    n.append((t.detach() ** 2).sum().item())", "lost copy") == []
    assert changed("def f(t, n):\n    n.append((t.detach() ** 2).sum())", "lost copy") == [
        "n.append((_not_detached(t) ** 2).sum())"
    ]
    assert changed("def f(d):\n    for x in list(d): print(x)", "lost copy") == ["for x in _gone_through(d):"]
    assert changed("def f(d):\n    return [x for x in reversed(d)]", "lost copy") == [
        "return [x for x in _not_copied(d)]"
    ]


def test_what_only_asks_and_what_hands_on_its_argument() -> None:
    assert parts_of("return any(True for x in xs)")[0] == "xs, stop=1, asked=True)))"
    assert parts_of("return any(x for x in xs)")[0] == "xs, stop=1)))"
    source = "def f(t):\n    def hook(grad):\n        return grad\n    return t.register_hook(hook)"
    assert changed(source, "lost return") == ["_lost(t.register_hook(hook))", "_lost_argument(grad)"]
    heads = [mutant.headline for mutant in operator_mutants(source) if mutant.operator == "lost return"]
    assert heads == ["lost return: t.register_hook(hook)", "lost return: grad"]


def test_every_operator_has_a_use_somewhere_in_the_course() -> None:
    text = HOOKED + "def g(model, name):\n    return model.get_submodule(name).modules()\n"
    text += "def h(t):\n    return 1 if t is None else 2\n"
    assert {mutant.operator for mutant in operator_mutants(text)} >= OPERATORS.keys() - {"not for all"}


def test_every_mutant_can_be_compiled_and_each_comes_once() -> None:
    found = [*operator_mutants(HOOKED), *wrapper_mutants(HOOKED, "f")]
    assert len({mutant.source for mutant in found}) == len(found)
    for mutant in found:
        ast.parse(mutant.source)
    assert [mutant.operator for mutant in wrapper_mutants(HOOKED, "f")] == list(WRAPPERS)


def test_a_headline_names_the_guard_and_what_is_guarded() -> None:
    source = "def f(t):\n    def hook(grad):\n        return 2 * grad\n    return t.register_hook(hook)"
    heads = [mutant.headline for mutant in operator_mutants(source) if mutant.operator == "a hook that works at times"]
    assert heads[0] == "a hook that works at times: @_only_the_first_call def hook(grad):"


GOOD = "def scale_sum(x, k):\n    return (k * x).sum()"


def told(mutant: Mutant) -> bytes:
    return mutant_verdict(SCALE_SUM, mutant.source, SCALE_SUM.draws(1))


def test_a_mutant_is_refused_or_passes_or_never_did_anything_wrong() -> None:
    by_operator = {mutant.operator: mutant for mutant in wrapper_mutants(GOOD, "scale_sum")}
    assert told(by_operator["hooks of others cleared"]) == IDLE
    assert told(by_operator["results with a graph"]) == PASSED  # the sample asks for a graph
    assert told(by_operator["under no_grad"]) == REFUSED
    assert told(Mutant("endless", "_did = []\ndef scale_sum(x, k):\n    raise SystemExit", "", "")) == REFUSED


def test_the_score_is_of_those_that_are_wrong() -> None:
    survivor = Mutant("lost copy", "", "return x", "- return x.clone()\n+ return x")
    first = Score("90-a", refused=2, listed=1, survivors=[survivor], needed={"lost return"})
    both = first + Score("90-a", refused=1, idle=4)
    assert both.needed == {"lost return"}
    assert str(both) == (
        "90-a: 75.0 % (3 of 4 mutants refused; 1 more are listed as right, and 4 did nothing wrong here)"
    )


def test_exercises_are_chosen_by_key_or_lesson_and_parts_by_their_remainder() -> None:
    assert choose_keys(["01-branch"]) == ["01-branch-grads"]
    assert choose_keys(["01"]) == list(course.exercise_keys(course.find_lesson("1")))
    assert choose_keys(["0"]) == list(course.exercise_keys("00_three_hooks"))
    assert "01-branch-grads" in choose_keys([])
    assert parse_part("326/40") == (6, 40)
    with pytest.raises(HookworkError, match="--part is K/N"):
        parse_part("a/b")
    with pytest.raises(HookworkError, match="There is no lesson and no key 77"):
        choose_keys(["77"])


def noted(code: str) -> bool:
    """Whether the helpers of the prelude note that something went wrong in this code."""
    namespace: dict[str, Any] = {}
    exec(f"{PRELUDE}\nlayer, x = _nn.Linear(2, 2), torch.ones(1, 2)\n{code}", namespace)
    return bool(namespace["_did"])


WITH_A_HOOK = """
layer.register_forward_hook(lambda module, args, out: {callers})
handle = _placed(layer.register_forward_hook, {first})(lambda module, args, out: {ours})
layer(x)
handle.remove()
assert len(layer._forward_hooks) == 1
"""


@pytest.mark.parametrize("first", [True, False])
def test_the_place_of_a_hook_matters_where_a_hook_changes_what_another_meets(first: bool) -> None:
    assert not noted("_placed(layer.register_forward_hook, True)(lambda module, args, out: 2 * out)\nlayer(x)")
    assert not noted(WITH_A_HOOK.format(callers=None, ours=None, first=first))
    for change in ("2 * out", "[out.detach().mul_(2)] and None"):
        assert noted(WITH_A_HOOK.format(callers=change, ours=None, first=first))
        assert noted(WITH_A_HOOK.format(callers=None, ours=change, first=first))


UNDER_NO_GRAD = """
with torch.no_grad(), _LostGraphs() as graphs:
    out = 2 * layer(x)
    with torch.no_grad():
        later = 2 * layer(x)
    kept = {}
_did = graphs.among(kept)
"""


LEFT = "_slot(1, []).append(x.requires_grad_().register_hook(print))"
RAISES = """
try:
    with _only_when_well({}):
        raise ValueError
except ValueError:
    torch.set_grad_enabled(True)
"""


@pytest.mark.parametrize(
    ("matters", "same"),
    [
        (UNDER_NO_GRAD.format("[out]"), UNDER_NO_GRAD.format("[out.detach(), later, layer.weight.data]")),
        ("_truth([])", "_truth([0])\n_truth(None)"),
        ("_for_requires_grad(layer.weight, 'grad_fn')", "_for_requires_grad(x, 'grad_fn')"),
        ("_slot(1, []).append(2)\n_slot(1, [])", "_slot(1, [])\n_slot(1, [])\n_slot(2, {})"),
        (f"{LEFT}\n_slot(1, [])", f"{LEFT}\n_slot(1, [])[0].remove()\n_did.clear()\n_slot(1, [])"),
        (RAISES.format("torch.no_grad()"), RAISES.format("torch.inference_mode()")),
        ("d = [1]\nfor x in _gone_through(d): d.append(2)", "for x in _gone_through([1]): pass"),
        ("_part([1], stop=-1, asked=True)", "_part([1, 2], stop=-1, asked=True)"),
        ("_not_made_a_tuple([1])", "_not_made_a_tuple(x.shape)"),
    ],
)
def test_what_is_lost_or_mistaken_is_noted_where_that_makes_a_difference(matters: str, same: str) -> None:
    assert noted(matters)
    assert not noted(same)
