"""Exercise 01-branch-grads."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    MISSING,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
    recording_calls,
    shares_storage,
)

ENDLESS = [math.inf, -math.inf, math.inf], [1.0, 1.0, -math.inf]
"""Values of `w` and `x` with every kind of number among the gradients that is not finite."""


@exercise(
    "01-branch-grads",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="The gradient of every branch",
    hints=(
        "Which of the four tensors are leaves? PyTorch stores `.grad` for those without being asked.",
        "Ask `a` and `b` to keep their gradient: call `a.retain_grad()` and `b.retain_grad()` before `backward()`.",
        "`torch.autograd.grad(y, [w, x, a, b])` returns all four gradients at once and works as well.",
    ),
    why=(
        "`a` and `b` are results, so each has to be told to keep its gradient; then one pass fills all four. "
        "`torch.autograd.grad(y, [w, x, a, b])` returns the same gradients and writes into no `.grad`; hooks on "
        "`a` and `b` would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ("leaf", "parameter"),
            "hooks": ("none", "watching"),
            "call": ALL,
            "failure": ALL,
        },
        excludes={
            "grad": "what an old `.grad` does is told after this exercise, so the contract says that it is None",
            "number": "there is no number among the arguments",
            "collection": "there is no collection among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on both tensors",
            "grad_mode": "`backward()` needs it switched on, and lesson 1 does not know how to do that",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={"entries": ("some", "none")},
        impossible=[lambda rank, layout, entries: entries == "none" and (rank == 0 or layout != "contiguous")],
    ),
)
class TestBranchGrads:
    """Write `branch_grads(w, x)`. `w` and `x` are two different leaves of one shape and dtype that require grad. Their
    `.grad` is `None`, and hooks on them only watch.

    Compute

    - `a = w + x`
    - `b = w + 1`
    - `y = (a * b).sum()`

    and return the four gradients of `y` as a dict with the keys `"w"`, `"x"`, `"a"` and `"b"`. The entries `"x"` and
    `"a"` may be one tensor. You may fill `w.grad` and `x.grad`, and an entry may be the tensor in it.

    **Example.** For `w = tensor([1.])` and `x = tensor([2.])` the result is
    `{"w": tensor([5.]), "x": tensor([2.]), "a": tensor([2.]), "b": tensor([3.])}`.
    """

    def draw(rng, dtype, rank, layout, values, entries):
        shape = rng.shape(rank) if entries == "some" else (*rng.shape(rank)[1:], 0)
        like = {"dtype": dtype, "layout": layout, "values": values}
        # a sum that is small beside w + 1: a difference of larger gradients loses its digits
        opposite = [torch.tensor([number], dtype=getattr(torch, dtype)) for number in (0.1, -0.1 + 2.0**-20 / 3)]
        return {"w": rng.tensor(*shape, **like), "x": rng.tensor(*shape, **like), "opposite": opposite}

    def alive(w, x):
        a, b = w + x, w + 1
        return w.numel() == 0 or bool((a != b).any() and (b != 0).any() and (a != 0).any())

    def probe(student, w, x, opposite, layout, place, hooks, call, failure):
        def callers(w=w, x=x):
            return [prepared(t, layout=layout, place=place) for t in (w, x)]

        first, second = callers()
        CallersHooks(hooks).on_tensor(first, "w").on_tensor(second, "x")
        for t in (first, second):
            if t.is_leaf:
                t.register_post_accumulate_grad_hook(lambda leaf: None)
        witness = Witness(w=first, x=second)
        with recording_calls("retain_grad", "backward") as calls:
            grads = student.branch_grads(first, second)
        seen = {"grads": grads, "calls": calls[:20], "changed": witness.changes()}
        if call == "again":
            first.grad = second.grad = None
            first.data, second.data = second.data, first.data
            seen["again"] = student.branch_grads(first, second)
        elif call == "in turn":
            seen["in turn"] = student.branch_grads(*reversed(callers()))
        seen["the same w"] = student.branch_grads(*callers(x=x / 2))
        seen["the same x"] = student.branch_grads(*callers(w=w / 2))

        first, second = callers()
        fails = Failure(failure)
        for t in (first, second):
            t.register_hook(fails.strike)
        witness = Witness(w=first, x=second)
        seen["failure"] = fails.during(lambda: student.branch_grads(first, second))
        seen["changed by failure"] = witness.changes()

        def call_inside(grad):
            if "a call inside" not in seen:
                seen["a call inside"] = None
                with torch.enable_grad():  # during a pass it is off
                    seen["a call inside"] = student.branch_grads(*callers(w=x, x=w))

        first, zero = callers(x=torch.zeros_like(x))
        first.register_hook(call_inside)
        beside = student.branch_grads(first, zero)
        seen["beside zeros"] = beside
        seen["memory of w"] = isinstance(beside, dict) and any(shares_storage(first, g) for g in beside.values())
        second, nothing = callers(w=x, x=torch.zeros_like(x))
        beside = student.branch_grads(nothing, second)
        seen["memory of x"] = isinstance(beside, dict) and any(shares_storage(second, g) for g in beside.values())
        deep = [values.reshape(-1)[:2].reshape(1, 1, -1, 1, 1) for values in (w, x)]
        one_first = [values.reshape(-1)[:2].reshape(1, -1, 1) for values in (w, x)]
        seen["three dimensions"] = student.branch_grads(*map(prepared, one_first))
        seen["five dimensions"] = student.branch_grads(*map(prepared, deep))
        seen["beside infinity"] = student.branch_grads(*(prepared(torch.tensor(t)) for t in ENDLESS))
        seen["almost opposite"] = student.branch_grads(*(prepared(t) for t in opposite))
        example = (prepared(torch.tensor([value])) for value in (1.0, 2.0))
        return {**seen, "example": student.branch_grads(*example)}

    mistakes = (
        Mistake(
            "retained-too-late",
            lambda seen, w, x: (
                none_at(seen, "a", "b")
                and (leaves_right(seen, w, x) if w.numel() else SILENT)
                and asked_in_time(seen) == 0
            ),
            "`a` and `b` kept no gradient. They are not leaves: call `retain_grad()` on them before `backward()`. "
            "Afterwards it recovers nothing.",
        ),
        Mistake(
            "retained-a-copy",
            lambda seen, w, x: any(none_at(seen, name) for name in "ab") and asked_in_time(seen) > kept(seen),
            "You called `retain_grad()` on a copy that the loss does not use. Call it on the very tensor from which "
            "`y` is computed, and read the `.grad` of that one.",
        ),
        Mistake(
            "retained-only-one",
            lambda seen, w, x: kept(seen) == 1 and asked_in_time(seen) <= 1,
            "One of `a` and `b` kept its gradient, and the other did not. Neither is a leaf: call `retain_grad()` on "
            "both of them before `backward()`.",
        ),
        Mistake(
            "values-not-gradients",
            lambda seen, w, x: close(seen["grads"]["a"], w + x) if w.numel() else SILENT,
            'Under "a" you return the value of `a`. Its gradient is the value of `b`: nudge `a` a little, and `y` '
            "changes by `b` times as much. In the same way the gradient of `b` is the value of `a`.",
        ),
        Mistake(
            "one-slot-for-all",
            lambda seen, w, x: not right(seen["grads"], w, x) and all_alike(seen["grads"], seen["the same x"]),
            "A later call rewrote what an earlier one returned: both return one dict. Make a new one in each call.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, w, x: changes(seen["changed"], "hook-left *") != [] and right(seen["the same x"], w / 2, x),
        ),
    )

    def test_all_four_gradients_are_right(seen, w, x):
        expect_gradients(seen["grads"], w, x)

    def test_another_call_has_its_own_gradients(seen, w, x, call):
        if call != "once":
            expect_gradients(seen[call], x, w)
        expect_gradients(seen["the same w"], w, x / 2)
        expect_gradients(seen["the same x"], w / 2, x)
        expect_gradients(seen["beside zeros"], w, torch.zeros_like(x))
        deep = [values.reshape(-1)[:2].reshape(1, 1, -1, 1, 1) for values in (w, x)]
        expect_gradients(seen["five dimensions"], *deep)
        one_first = [values.reshape(-1)[:2].reshape(1, -1, 1) for values in (w, x)]
        expect_gradients(seen["three dimensions"], *one_first)
        expect_gradients(seen["beside infinity"], *map(torch.tensor, ENDLESS))

    def test_a_call_inside_a_call_has_its_own_gradients(seen, w, x):
        expect_gradients(seen["beside zeros"], w, torch.zeros_like(x))
        if seen["a call inside"].value is not MISSING:  # who works with copies of w and x calls no hook of theirs
            expect_gradients(seen["a call inside"], x, w)

    def test_small_gradients_are_exact(seen, opposite):
        expect(seen["almost opposite"]["b"]).close_to(sum(opposite), rtol=1e-4, atol=0, detached=False)

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        if seen["failure"].value != "never raised":  # who works with copies of w and x calls no hook of theirs
            came_through(seen["failure"], "a hook on w or x")
        nothing_changed(seen["changed by failure"], but=["grad-filled *"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect_gradients(seen["example"], torch.tensor([1.0]), torch.tensor([2.0]))

    def test_no_graph_comes_along_and_w_and_x_stay_as_they_were(seen):
        for name in ("w", "x", "a", "b"):
            value = seen["grads"][name].value
            expect(Seen(getattr(value, "requires_grad", False), name)).is_false(
                f"grads['{name}'] still requires grad; return it detached"
            )
        nothing_changed(seen["changed"], but=["grad-filled *"])
        expect(seen["memory of w"]).is_false("where `x` is 0, an entry shares its memory with `w`; return a copy")
        expect(seen["memory of x"]).is_false("where `w` is 0, an entry shares its memory with `x`; return a copy")


def expect_gradients(grads: Seen, w: Tensor, x: Tensor) -> None:
    """The four gradients, in closed form."""
    expect(grads).has_keys("w", "x", "a", "b")
    a, b = w + x, w + 1
    for name, gradient in {"w": a + b, "x": b, "a": b, "b": a}.items():
        expect(grads[name]).close_to(gradient, detached=False)


def right(grads: Seen, w: Tensor, x: Tensor) -> bool:
    """Whether these are the four gradients."""
    a, b = w + x, w + 1
    return all(close(grads[name], gradient) for name, gradient in {"w": a + b, "x": b, "a": b, "b": a}.items())


def all_alike(grads: Seen, others: Seen) -> bool:
    """Whether two calls returned the same numbers."""
    return all((t := others[name].tensor) is not None and close(grads[name], t) for name in "wxab")


def none_at(seen: Seen, *names: str) -> bool:
    """Whether all these gradients are None."""
    return all(seen["grads"][name].value is None for name in names)


def leaves_right(seen: Seen, w: Tensor, x: Tensor) -> bool:
    """Whether the gradients of the two leaves are right."""
    return close(seen["grads"]["w"], w + x + w + 1) and close(seen["grads"]["x"], w + 1)


def kept(seen: Seen) -> int:
    """For how many of a and b there is a gradient."""
    return sum(seen["grads"][name].tensor is not None for name in "ab")


def asked_in_time(seen: Seen) -> int:
    """How often `retain_grad` was called before `backward`."""
    calls = seen["calls"].value
    return calls[: calls.index("backward")].count("retain_grad") if "backward" in calls else 0
