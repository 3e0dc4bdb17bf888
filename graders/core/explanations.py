"""Explain wrong answers in ways that work for every exercise.

These explanations need no knowledge of the exercise. They follow from how its checks fail (the kind of their
differences), or from the circumstances in which they fail while they hold in all others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graders.core.difference import Difference, Kind
from graders.core.mistakes import COMMON_MESSAGES
from graders.core.shapes import explain_shape


@dataclass(frozen=True)
class Explanation:
    """What went wrong: the id under which reports count it, and the message for the learner."""

    id: str
    message: str


@dataclass(frozen=True)
class Findings:
    """What explains a wrong answer: at most two causes, the one that shows first before the other.

    Checks are named by their sentences. `evidence` has for each cause the check that shows it best, and `follows` the
    other checks that fail because of a cause. `left` has the differences of those that no cause explains.
    """

    causes: tuple[Explanation, ...] = ()
    evidence: tuple[str, ...] = ()
    follows: frozenset[str] = frozenset()
    left: Mapping[str, Sequence[Difference]] = field(default_factory=dict)


BY_KIND: Mapping[Kind, Explanation] = {
    Kind.HOOK_GONE: Explanation(
        "callers-hook-removed",
        "{sentence}. Hooks that were there before stay, in their place and with their options: remove only your own, "
        "each by its handle, and put back in `finally` what you have to take off.",
    ),
    Kind.HOOK_LEFT: Explanation(
        "hook-left",
        "A hook of yours stays behind. Keep each handle and call its `remove()`; where something may raise, in "
        "`finally` (`except Exception` misses a `KeyboardInterrupt`).",
    ),
    Kind.CHANGED: Explanation(
        "changed-what-was-given",
        "{sentence}. Leave what your function is given as it was: work on a copy, or put back in `finally` the very "
        "value that was there before the call.",
    ),
    Kind.GRAPH: Explanation(
        "graph-kept",
        "The values are right, but a graph is attached to them, which keeps memory alive. Detach what you "
        "return or keep: `g.detach()`.",
    ),
    Kind.DTYPE: Explanation(
        "another-dtype",
        "What is expected is {expected}, and yours is {seen}. A tensor that is made from another, as by "
        "`torch.zeros_like(t)`, has its dtype; `torch.zeros(shape)`, `torch.tensor(...)`, `.float()` and `dtype=` have "
        "their own.",
    ),
    Kind.PRECISION: Explanation(
        "rounded-to-float32",
        "The tensors are float64, but your numbers are only as precise as float32. Some tensor on the way was float32: "
        "made without a `dtype`, as `torch.tensor(s)` is, or by `.float()`. Or a small number that nobody asked for is "
        "added, as an epsilon is.",
    ),
    Kind.FINITE: Explanation(
        "numbers-for-infinities",
        "Where a value has to be infinite, yours is about the largest number that its dtype holds, as "
        "`torch.nan_to_num` makes it. Leave infinities and NaN as they are.",
    ),
    Kind.FACTOR: Explanation(
        "times-a-factor",
        "Your numbers are right but for a factor: {note}. Look for a sum where a mean is asked for, or the other way "
        "round, for a sign, and for a factor that is missing or not asked for.",
    ),
    Kind.SHAPE: Explanation("another-shape", "{sentence}. {hint}"),
}
"""Explanations for checks whose differences are all of one kind. Texts in braces come from the first difference."""

BY_CIRCUMSTANCE: Mapping[tuple[str, frozenset[Any]], Explanation] = {
    ("mode", frozenset({"eval"})): Explanation(
        "only-in-training", "It is right in training mode, and not in eval mode. It has to work in both."
    ),
    ("mode", frozenset({"train"})): Explanation(
        "only-in-eval", "It is right in eval mode, and not in training mode. It has to work in both."
    ),
    ("mode", frozenset({"mixed"})): Explanation(
        "one-mode-for-all",
        "It is right when all modules are in one mode, and not when some are in training mode and others in eval "
        "mode. Each module has its own mode.",
    ),
    ("grad_mode", frozenset({"off"})): Explanation(
        "ignores-no-grad", "It is not right under `torch.no_grad()`, where nothing records a graph unless you ask."
    ),
    ("dtype", frozenset({"float64"})): Explanation(
        "only-float32", "It is right for float32, and not for float64. Make new tensors in the dtype of those you get."
    ),
    ("backward", frozenset({"create_graph"})): Explanation(
        "not-with-create-graph",
        "It is right in plain passes, and not in one with `create_graph=True`, where gradients have a graph of their "
        "own: what your hook returns in place of a gradient has to keep that graph, and a hook that only watches "
        "returns nothing.",
    ),
    ("backward", frozenset({"autograd.grad"})): Explanation(
        "not-with-autograd-grad",
        "It is right with `backward()`, and not with `torch.autograd.grad`, which calls hooks and writes no `.grad`.",
    ),
    ("backward", frozenset({"after an aborted one"})): Explanation(
        "state-of-an-aborted-pass",
        "It is right at first, and not after a pass that ended in an exception: something is left over from that one.",
    ),
    ("hooks", frozenset({"replacing"})): Explanation(
        "ignores-the-callers-hooks",
        "It is right when the caller's hooks only watch, and not when one replaces a value: the next layer gets what "
        "that hook returned.",
    ),
    ("failure", frozenset({"KeyboardInterrupt"})): Explanation(
        "not-with-an-interrupt",
        "It is right when an error is raised, and not when somebody stops the run: a `KeyboardInterrupt` is no "
        "`Exception`. Let it through like any other, and tidy up with `with` or in `finally`.",
    ),
    ("failing_run", frozenset({2})): Explanation(
        "only-the-first-run-is-safe",
        "An exception in the first run leaves everything in order, and one in the second run does not. Put both runs "
        "inside the `try`.",
    ),
}
"""Explanations for answers that fail with exactly these values of an axis, and are right with all others."""

LEFT_FROM_EARLIER = Explanation(
    "left-from-an-earlier-call",
    "The same calls showed something else when they were made once more: something outlives a call of your function, "
    "or your result depends on chance or on a clock of your own. Make lists, dicts and counters inside the function, "
    "not at the top of the cell or as a default argument, and remove each of your hooks.",
)
"""For answers whose first story shows something else when it is run again."""
FIRST_RESULT = Explanation(
    LEFT_FROM_EARLIER.id,
    "The first call of all is right, and later ones give its result once more: something outlives a call of your "
    "function. Make lists and dicts inside it, not at the top of the cell or as a default argument, and return what "
    "this call has put there.",
)
"""For answers that show in a later case what they showed in the first."""

BY_OBSERVATION: Mapping[str, Explanation] = {
    r"^the exception\b.* None$|is swallowed\b.* True$": Explanation(
        "swallowed-exception",
        "An exception was raised on purpose in what your function has to run, and it did not come out. It is swallowed "
        "by an `except`, a `return` in `finally`, or an `__exit__` that returns something true. Let it through, and "
        "tidy up in `finally`.",
    ),
    r"\b(around (it|another call|other calls|a call)|calls? inside)\b": Explanation(
        "one-slot-for-all", COMMON_MESSAGES["one-slot-for-all"]
    ),
    r"\bof (a later call|a call after remove\(\))|is in the first dict": Explanation(
        LEFT_FROM_EARLIER.id,
        "A single call is right. A second one is not, or it changes what the first one returned: something outlives "
        "the call. Make lists and dicts inside your function, and keep nothing in a global, a default argument or an "
        "attribute.",
    ),
    r"after remove\(\)|after its remove\(\)|handles are not removed": Explanation(
        "handles-mixed-up",
        "It is right until somebody calls `remove()`. A handle takes away the hooks of its own call, all of them, and "
        "no others: return what `register_...` gave you in this call.",
    ),
    r"after two (equal )?calls(?! in)|after a second call|of a second call|with two hooks": Explanation(
        "calls-in-each-others-way",
        "A single call of your function works. Called twice for one tensor or module, the second undoes the first, "
        "or they share something: each needs a hook and a record of its own, and leaves those of earlier calls alone.",
    ),
    r"^the (log|record|result|pair) after .*(overwr|numbered)": Explanation(
        "stored-alias", COMMON_MESSAGES["stored-alias"]
    ),
    r"\bfor another input\b|, later:": Explanation(
        "only-the-first-call",
        "The first call is right, and a later one is not. What your hook needs has to last: does it remove itself, use "
        "something up, or keep something of the first call?",
    ),
    r"with create_graph|^the gradient differentiated": BY_CIRCUMSTANCE[("backward", frozenset({"create_graph"}))],
    r"under no_grad": BY_CIRCUMSTANCE[("grad_mode", frozenset({"off"}))],
}
"""Explanations for answers that are right but for one observation, whose name says in which circumstances it is made.

Found in the name of the observation and what was seen there. A name decides no verdict, only which of these hints is
given; `tests/verdict/test_diagnose.py` tells when a story is renamed and its hint is lost.
"""
EVENTS = r"^the (calls of|passes that|runs\b|inputs of the model|outputs of the head)"
"""Found in the names of observations that list how often something ran."""


def explain_missing_result(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if all these differences are that the function returned `None` instead of something."""
    if not all(
        one.where.startswith("the result") and "[" not in one.where and one.seen == "None" for one in differences
    ):
        return None
    return Explanation(
        "missing-return",
        f"Your function returned `None`, and expected is {differences[0].expected}. Does it end with `return`?",
    )


def explain_by_kind(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if all these differences are of one kind; None if they are not, or the kind explains nothing.

    If a hook of the caller is gone, only such differences count: the others may follow from that.
    """
    differences = [difference for difference in differences if difference.kind is Kind.HOOK_GONE] or differences
    kinds = {difference.kind for difference in differences}
    found = BY_KIND.get(kinds.pop()) if len(kinds) == 1 else None
    if found is None:
        return None
    first = differences[0]
    sentence = first.sentence[:1].upper() + first.sentence[1:]
    message = found.message.format(
        sentence=sentence,
        where=first.where,
        expected=first.expected,
        seen=first.seen,
        note=first.note,
        hint=_hint(first),
    )
    return Explanation(found.id, message.strip())


def _hint(difference: Difference) -> str:
    """How another shape came about; "" if nobody can tell."""
    if difference.kind is not Kind.SHAPE:
        return ""
    return explain_shape(
        *([int(size) for size in re.findall(r"\d+", t)] for t in (difference.expected, difference.seen))
    )


def explain_by_circumstance(
    cases: Sequence[Mapping[str, Any]], failing: Sequence[int], plainer: Mapping[str, Any] = {}
) -> Explanation | None:
    """The explanation if exactly one axis separates the failing cases from the others; None otherwise.

    `failing` has the indices of the failing cases, and `plainer` is another one that fails, if one is known. If several
    axes would do, nobody can tell which is the reason.
    """
    axes = _varied_axes(cases)
    parting = [(name, values) for name in axes if (values := _separating_values(name, cases, failing))]
    if len(parting) != 1 or any(_separates_by_order(name, cases, failing) for name in axes):
        return None
    name, values = parting[0]
    is_refuted = name in plainer and plainer[name] not in values
    return None if is_refuted else BY_CIRCUMSTANCE.get((name, values))


def explain_by_observation(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if all these differences, which show first, are in observations of one circumstance."""
    for pattern, explanation in BY_OBSERVATION.items():
        if all(re.search(pattern, f"{one.where}: {one.seen}") for one in differences):
            return explanation
    if not all(re.search(EVENTS, one.where) and _are_more(one) for one in differences):
        return None
    return Explanation(
        "ran-too-often",
        f"Your function runs something a second time: of {differences[0].where}, there are more than expected. "
        "Run it once, and take all that you need from that.",
    )


def _are_more(difference: Difference) -> bool:
    """Whether a list is as expected, but goes on after that."""
    wanted = re.match(r"(\d+) entr", difference.expected)
    if difference.timelines:
        return difference.timelines.differing_events[0] == "(end)"
    return wanted is not None and difference.seen.isdigit() and int(difference.seen) > int(wanted[1])


def _varied_axes(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """The axes that may be a reason: those whose values are all plain."""
    names = dict.fromkeys(name for case in cases for name in case)
    plain = (str, int, float, bool, type(None))
    return [name for name in names if all(type(case.get(name)) in plain for case in cases)]


def _separating_values(name: str, cases: Sequence[Mapping[str, Any]], failing: Sequence[int]) -> frozenset[Any]:
    """The values of an axis for which every case fails while all other cases hold; empty if there are none.

    Only a single value, or all but one, counts: larger sets of values could separate any cases from any others.
    """
    bad = frozenset(cases[index].get(name) for index in failing)
    good = {case.get(name) for index, case in enumerate(cases) if index not in failing}
    return bad if bad and good and not bad & good and min(len(bad), len(good)) == 1 else frozenset()


def _separates_by_order(name: str, cases: Sequence[Mapping[str, Any]], failing: Sequence[int]) -> bool:
    """Whether an axis of integers has several failing values that are all above, or all below, several good ones.

    That is too vague for an explanation, but it may be the true reason, so no other axis can be sure to be it.
    """
    bad: set[Any] = {cases[index].get(name) for index in failing}
    good: set[Any] = {case.get(name) for index, case in enumerate(cases) if index not in failing}
    if min(len(bad), len(good)) < 2 or any(type(value) is not int for value in bad | good):
        return False
    return bool(max(bad) < min(good) or max(good) < min(bad))
