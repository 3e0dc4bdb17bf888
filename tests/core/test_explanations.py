from __future__ import annotations

from string import Formatter

import pytest

from graders.core.difference import Difference, Kind, around_the_difference
from graders.core.explanations import (
    BY_CIRCUMSTANCE,
    BY_KIND,
    BY_OBSERVATION,
    Explanation,
    explain_by_circumstance,
    explain_by_kind,
    explain_by_observation,
)
from graders.core.mistakes import COMMON_MESSAGES
from graders.core.wrong_types import explain_wrong_type

LEFT = Difference(Kind.HOOK_LEFT, note="a hook of yours is still there")
GONE = Difference(Kind.HOOK_GONE, note="a hook that was there before is gone")
VALUE = Difference(Kind.VALUE, "x.grad", "", "1", "2")


def why(*differences: Difference) -> str | None:
    found = explain_by_kind(differences)
    return found and found.id


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.HOOK_GONE, "callers-hook-removed"),
        (Kind.HOOK_LEFT, "hook-left"),
        (Kind.CHANGED, "changed-what-was-given"),
        (Kind.GRAPH, "graph-kept"),
        (Kind.DTYPE, "another-dtype"),
        (Kind.PRECISION, "rounded-to-float32"),
        (Kind.FINITE, "numbers-for-infinities"),
        (Kind.TYPE, None),
        (Kind.FACTOR, "times-a-factor"),
        (Kind.SHAPE, "another-shape"),
        (Kind.VALUE, None),
        (Kind.ORDER, None),
        (Kind.MISSING, None),
        (Kind.CONDITION, None),
    ],
)
def test_a_kind_of_difference_that_all_share_explains_them_or_says_nothing(kind: Kind, name: str | None) -> None:
    assert why(Difference(kind, note="a"), Difference(kind, note="b")) == name


def test_differences_of_two_kinds_are_not_explained_by_one_of_them() -> None:
    assert why(LEFT, VALUE) is None
    assert why() is None


def test_what_a_removed_hook_did_is_missing_so_other_differences_follow_from_it() -> None:
    assert why(VALUE, GONE, LEFT) == "callers-hook-removed"


def test_the_first_difference_is_quoted() -> None:
    dtype = Difference(Kind.DTYPE, "x.grad", "", "the dtype torch.float64", "torch.float32")
    assert explain_by_kind([dtype]) == Explanation(
        "another-dtype",
        "What is expected is the dtype torch.float64, and yours is torch.float32. A tensor that is made from another, "
        "as by `torch.zeros_like(t)`, has its dtype; `torch.zeros(shape)`, `torch.tensor(...)`, `.float()` and "
        "`dtype=` have their own.",
    )
    container = Difference(Kind.TYPE, "grads", "", "a tuple", "a list")
    found = explain_wrong_type([container, Difference(Kind.TYPE, "other", "", "a dict", "None")])
    assert found == Explanation(
        "another-type",
        "This is not the type that was asked for: grads is a list, and expected is a tuple. `tuple(found)` makes a "
        "tuple of it.",
    )
    changed = explain_by_kind([Difference(Kind.CHANGED, note="the values of `x` changed")])
    assert changed is not None
    assert changed.message.startswith("The values of `x` changed. Leave what your function is given as it was")


@pytest.mark.parametrize(
    ("kind", "expected", "seen", "end"),
    [
        (Kind.SHAPE, "the shape (2, 3)", "(2, 1, 3)", "take it out with `squeeze(dim)`."),
        (Kind.SHAPE, "the shape (2, 1, 3)", "(2, 3)", "`squeeze` has taken it away."),
        (Kind.SHAPE, "the shape (2, 3)", "(3, 2)", "look at the `dim` of each call."),
        (Kind.SHAPE, "the shape (2, 3)", "(3,)", "or you took one entry of it."),
        (Kind.SHAPE, "the shape ()", "(3,)", "or take the one entry that is asked for."),
        (Kind.SHAPE, "the shape (2, 3)", "(6,)", "and `cat` and `flatten` do not."),
        (Kind.SHAPE, "the shape (2, 3)", "(0, 3)", "or has filled something else."),
        (Kind.SHAPE, "the shape (2, 3)", "(4, 3)", "expected the shape (2, 3), saw (4, 3)."),
        (Kind.TYPE, "a tensor", "a list", "`.tolist()` makes a list of a tensor."),
        (Kind.TYPE, "a dict", "a tuple", "`return a, b` makes a tuple: return the dict alone."),
        (Kind.TYPE, "a list", "a tuple", "`list(t)` makes a list of it, and `return a, b` makes a tuple."),
        (Kind.TYPE, "a list", "a dict", "`list(d.values())` makes a list of the values."),
        (Kind.TYPE, "the number 3", "a tensor", "`.item()` makes a Python number of it."),
        (Kind.TYPE, "the number 3", "a tuple", "So do `max(dim)` and `min(dim)`: `.values`."),
        (Kind.TYPE, "a dict", "a list", "the result is a list, and expected is a dict."),
    ],
)
def test_another_shape_or_type_has_a_hint_where_they_tell_how_it_came_about(
    kind: Kind, expected: str, seen: str, end: str
) -> None:
    differences = [Difference(kind, "the result", "", expected, seen)]
    found = explain_by_kind(differences) or explain_wrong_type(differences)
    assert found is not None
    assert found.message.endswith(end)


@pytest.mark.parametrize(("where", "explained"), [("the result[0]", True), ("the runs[1]", False)])
def test_a_word_for_what_happened_is_no_type_that_was_asked_for(where: str, explained: bool) -> None:
    found = explain_wrong_type([Difference(Kind.TYPE, where, "", "'backward'", "a tuple")])
    assert (found is not None) == explained


def test_braces_of_a_learner_are_text() -> None:
    found = explain_wrong_type([Difference(Kind.TYPE, "x", "", "a list", "a {where} {0}")])
    assert found is not None
    assert found.message == "This is not the type that was asked for: x is a {where} {0}, and expected is a list."


CASES = [{"mode": mode, "rank": rank} for rank in (1, 2) for mode in ("train", "eval", "mixed")]


@pytest.mark.parametrize(
    ("failing", "name"),
    [
        ([1, 4], "only-in-training"),
        ([2, 5], "one-mode-for-all"),
        ([1, 2, 4, 5], None),
        ([0, 1, 2], None),
        ([0, 3], "only-in-eval"),
        ([0, 1, 2, 3, 4, 5], None),
        ([1], None),
        ([1, 4, 3], None),
        ([], None),
    ],
)
def test_an_axis_that_parts_failing_from_holding_cases_explains_them(failing: list[int], name: str | None) -> None:
    found = explain_by_circumstance(CASES, failing)
    assert (found and found.id) == name


def test_another_case_that_fails_refutes_a_circumstance() -> None:
    assert explain_by_circumstance(CASES, [1, 4], {"mode": "train", "rank": 1}) is None
    found = explain_by_circumstance(CASES, [1, 4], {"mode": "eval", "rank": 3})
    assert found is not None
    assert found.id == "only-in-training"


def test_where_two_axes_part_the_cases_nobody_can_tell_which_it_is() -> None:
    together = [{"mode": "train", "dtype": "float32"}, {"mode": "eval", "dtype": "float64"}]
    assert explain_by_circumstance(together, [1]) is None
    apart = [*together, {"mode": "eval", "dtype": "float32"}]
    found = explain_by_circumstance(apart, [1, 2])
    assert found is not None
    assert found.id == "only-in-training"
    own = [{"mode": "train", "mixing": False}, {"mode": "eval", "mixing": True}]
    assert explain_by_circumstance(own, [1]) is None


def test_many_values_part_nothing() -> None:
    ranks = [{"rank": rank} for rank in (0, 1, 2, 3)]
    assert explain_by_circumstance(ranks, [1, 2]) is None
    assert explain_by_circumstance(ranks, [1, 2, 3]) is None  # all but one, and nobody has a sentence for that


def test_a_range_of_numbers_that_parts_as_well_leaves_it_open() -> None:
    cases = [{"rank": rank, "mode": "train" if rank < 2 else "eval"} for rank in (0, 1, 2, 3)]
    assert explain_by_circumstance(cases, [2, 3]) is None
    assert explain_by_circumstance(cases, [0, 1]) is None
    found = explain_by_circumstance([*cases, {"rank": 3, "mode": "train"}], [2, 3])
    assert found is not None
    assert found.id == "only-in-training"


def test_the_digits_of_the_values_explain_nothing() -> None:
    assert explain_by_circumstance([{"values": "round"}, {"values": "full"}, {"values": "round"}], [1]) is None


def test_an_axis_of_the_exercise_alone_explains_nothing_by_itself() -> None:
    assert explain_by_circumstance([{"mixing": True}, {"mixing": False}], [0]) is None
    assert explain_by_circumstance([{"spec": ["conv"]}, {"spec": ["relu"]}], [0]) is None


@pytest.mark.parametrize(
    "found", [*BY_KIND.values(), *BY_CIRCUMSTANCE.values(), *BY_OBSERVATION.values()], ids=lambda found: found.id
)
def test_messages_fit_and_ask_for_what_a_difference_has(found: Explanation) -> None:
    assert len(found.message) <= 300
    fields = {name for _, name, _, _ in Formatter().parse(found.message) if name}
    assert fields <= {"sentence", "where", "expected", "seen", "note", "hint"}


def test_ids_that_are_in_the_table_of_common_mistakes_say_the_same() -> None:
    for found in (*BY_KIND.values(), *BY_CIRCUMSTANCE.values(), *BY_OBSERVATION.values()):
        assert COMMON_MESSAGES.get(found.id, found.message) == found.message


def test_what_is_right_under_no_grad_alone_is_not_explained_by_that() -> None:
    modes = [{"grad_mode": mode} for mode in ("on", "off")]
    assert explain_by_circumstance(modes, [0]) is None
    found = explain_by_circumstance(modes, [1])
    assert found is not None
    assert found.id == "ignores-no-grad"


def of(where: str, expected: str = "1", seen: str = "2") -> Difference:
    return Difference(Kind.VALUE, where, "", expected, seen)


@pytest.mark.parametrize(
    ("difference", "name"),
    [
        (of("the exception", "Odd('on purpose')", "None"), "swallowed-exception"),
        (of("the exception", "Odd('on purpose')", "KeyError()"), None),
        (of("the result around another call['w']"), "one-slot-for-all"),
        (of("the result of a later call"), "left-from-an-earlier-call"),
        (of("the sum of a call after remove()"), "left-from-an-earlier-call"),
        (of("the gradient after remove() of the first"), "handles-mixed-up"),
        (of("the output after two equal calls"), "calls-in-each-others-way"),
        (of("x.grad after two calls in one pass"), None),
        (of("the gradient differentiated"), "not-with-create-graph"),
        (of("the output under no_grad"), "ignores-no-grad"),
        (of("the inputs of the model", "1 entry", "2"), "ran-too-often"),
        (of("the inputs of the model", "2 entries", "1"), None),
        (of("the result"), None),
    ],
)
def test_the_circumstance_of_an_observation_explains_what_differs_there(
    difference: Difference, name: str | None
) -> None:
    found = explain_by_observation([difference, difference])
    assert (found and found.id) == name
    assert explain_by_observation([difference, of("the result")]) is None


def test_events_that_go_on_ran_too_often() -> None:
    longer = Difference(
        Kind.ORDER, "the calls of loss_fn", timelines=around_the_difference(["loss_fn"], ["loss_fn", "loss_fn"])
    )
    found = explain_by_observation([longer])
    assert found is not None
    assert "something a second time: of the calls of loss_fn, there are more than expected." in found.message
