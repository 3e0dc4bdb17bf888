"""Exercise 01-per-pass-grads."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Kind,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exactly,
    exercise,
    expect,
    nothing_changed,
    prepared,
    refuse,
    snapshot,
)

LOSSES = {
    "linear": lambda p, k: (k * p).sum(),
    "square": lambda p, k: k * (p * p).sum(),
}

UNEQUAL = (1e20, 0.75, -1e20, 1e-20, math.inf, 2.5, -math.inf, math.nan, 1.5)
"""Factors of losses one after the other: a difference of running sums loses the small ones, and what follows inf."""


def loss_gradient(kind: str, k: float, p: Tensor) -> Tensor:
    """The gradient of a loss of `LOSSES` in closed form."""
    return torch.full_like(p, k) if kind == "linear" else 2 * k * p


@exercise(
    "01-per-pass-grads",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="One gradient for each pass",
    hints=(
        "What does `backward()` do to a `.grad` that already holds a value?",
        "Set `p.grad = None` before each pass, or use `torch.autograd.grad`, which does not touch `.grad`.",
        "An entry of your list and `p.grad` must not be the same tensor, or the next pass changes your entry. "
        "Store `p.grad.clone()`.",
    ),
    why=(
        "With `p.grad = None` before each pass there is nothing to add to, and the copy stays yours whatever "
        "happens to `p.grad` later. `torch.autograd.grad(loss(p), p)` is shorter: it returns the gradient of one "
        "pass and does not touch `.grad`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ("leaf", "parameter"),
            "grad": ALL,
            "collection": ALL,
            "hooks": ("none", "watching"),
            "call": ALL,
            "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on `p`",
            "grad_mode": "`backward()` needs it switched on, and lesson 1 does not know how to do that",
            "backward": "the function runs the passes itself",
        },
        own={"old": (9.0, math.inf)},
        pairs=[("grad", "old")],
    ),
)
class TestPerPassGrads:
    """Write `per_pass_grads(p, losses)`. `p` is a leaf that requires grad, and hooks on it only watch. `losses` is a
    list of functions, each from `p` to a tensor of shape `()` that depends on this argument. Evaluate each loss once,
    in this order, and return a list with the gradient with respect to `p` of each loss alone.

    An old value of `p.grad` must not enter the result. `p.grad` may end as anything but an entry of your list, and the
    old tensor in it may be overwritten.

    **Example.** For `p = tensor([3.])` and `losses = [lambda p: 2 * p.sum(), lambda p: (p * p).sum()]` the result is
    `[tensor([2.]), tensor([6.])]`.
    """

    def draw(rng, dtype, rank, layout, values, collection, grad, old):
        losses = rng.shuffled([
            ["linear", rng.uniform(1, 4)],
            ["square", rng.uniform(0.5, 2)],
            ["linear", rng.uniform(-4, -1)],
        ])  # fmt: skip
        many = [*losses, *([rng.choice(["linear", "square"]), rng.uniform(1, 2)] for _ in range(9))]
        return {
            "p": rng.tensor(*rng.shape(rank), dtype=dtype, values=values, layout=layout),
            "losses": {"empty": [], "one": losses[:1], "many": many, "repeated": [*losses[:2], losses[0]]}[collection],
            "old": old if grad == "filled" else None,
        }

    def alive(p, losses, collection):
        grads = [loss_gradient(kind, k, p) for kind, k in losses]
        return collection in ("empty", "one") or bool((grads[0] - grads[1]).abs().max() > 0.1)

    def oracle(p, losses):
        return [loss_gradient(kind, k, p) for kind, k in losses]

    def probe(student, p, losses, layout, place, grad, old, hooks, call, failure, failing_run):
        evaluated = []

        def function(kind, k):
            def loss(q):
                evaluated.append(f"{kind} loss, k = {k}")
                return LOSSES[kind](q, k)

            return loss

        def leaf(values=p):
            return prepared(values, layout=layout, place=place, grad=grad, old=old or 0.0)

        kept = {(kind, k): function(kind, k) for kind, k in losses}  # a loss that comes twice is one function
        functions = [kept[kind, k] for kind, k in losses]
        t = leaf()
        CallersHooks(hooks).on_tensor(t, "p")
        if t.is_leaf:
            t.register_post_accumulate_grad_hook(lambda leaf: None)
        witness = Witness(p=t, losses=functions)
        grads = student.per_pass_grads(t, functions)
        seen = {
            "grads": [snapshot(entry) for entry in grads] if isinstance(grads, list) else grads,
            "requires_grad": [entry.requires_grad for entry in grads if isinstance(entry, Tensor)]
            if isinstance(grads, list)
            else [],
            "evaluated": evaluated[:50],
            "changed": witness.changes(),
        }
        (7 * t).sum().backward()  # accumulates into p.grad in place
        seen["grads_later"] = [snapshot(entry) for entry in grads] if isinstance(grads, list) else grads
        if call != "once":
            other = t if call == "again" else leaf()
            seen["another call"] = student.per_pass_grads(other, functions[::-1])
            seen["grads_later"] = grads
        seen["the same losses"] = student.per_pass_grads(leaf(p / 2), functions)

        number, watched = prepared(p.reshape(-1)[0]), []
        number.register_hook(lambda grad: watched.append(grad.sum().item()))
        unequal = [function("linear", k) for k in UNEQUAL]
        seen["a number, unequal losses"] = student.per_pass_grads(number, unequal)

        another, three, tripled = leaf(), torch.tensor(3.0, requires_grad=True), []

        def three_times(q):
            tripled.append(1)
            return three * q.sum()

        def calling(q):
            student.per_pass_grads(another, functions)
            return 2 * q.sum()

        seen["around a call"] = student.per_pass_grads(leaf(), [three_times, calling, three_times])
        seen["calls of one loss"] = len(tripled)
        seen["a loss without effect"] = student.per_pass_grads(leaf(), [lambda q: 0 * q.sum(), three_times])

        def failed(kind, *, in_backward=False):
            t, fails = leaf(), Failure(kind, failing_run)
            CallersHooks("watching").on_tensor(t, "p")

            def failing(q):
                loss = q.sum()
                if in_backward:
                    loss.register_hook(fails.strike)
                else:
                    fails.strike()
                return loss

            losses = [failing, failing]
            witness = Witness(p=t, losses=losses)
            outcome = fails.during(lambda: student.per_pass_grads(t, losses))
            return {"outcome": outcome, "changed": witness.changes()}

        seen["failures"] = [failed(failure), failed("ValueError"), failed(failure, in_backward=True)]
        example = [lambda q: 2 * q.sum(), lambda q: (q * q).sum()]
        return {**seen, "example": student.per_pass_grads(prepared(torch.tensor([3.0])), example)}

    mistakes = (
        Mistake(
            "accumulated-grad",
            lambda seen, p, losses, old: (
                any(close(seen["grads"], running_sums(p, losses, start)) for start in (0.0, old or 0.0))
                if len(losses) > 1
                else SILENT
            ),
        ),
        Mistake(
            "old-value-kept",
            lambda seen, p, losses, old: (
                old is not None
                and len(losses) > 0
                and not close(seen["grads"][0], loss_gradient(*losses[0], p))
                and (
                    close(seen["grads"][0], loss_gradient(*losses[0], p) + old)
                    or (math.isinf(old) and not_finite(seen["grads"][0]))
                )
            ),
            "The value that `p.grad` held before your function was called is in the result. Set `p.grad = None` before "
            "the first pass, too.",
        ),
        Mistake(
            "summed-losses",
            lambda seen, p, losses: (
                len(losses) > 1
                and all(close(entry, running_sums(p, losses, 0.0)[-1]) for entry in seen["grads"])
                and len(seen["grads"]) > 0
            ),
            "Every entry is the gradient of the sum of all losses. One `backward()` on the sum cannot tell them apart: "
            "each loss needs a pass of its own.",
        ),
        Mistake(
            "zeros-left-out",
            lambda seen, p, losses: (
                len(seen["grads"]) == len(losses) and close(seen["a loss without effect"], [torch.full_like(p, 3.0)])
            ),
        ),
        Mistake(
            "stored-alias",
            lambda seen, p, losses: (
                len(losses) > 0
                and len(seen["grads"]) == len(seen["grads_later"]) == len(losses)
                and (
                    all(close(entry, loss_gradient(*losses[-1], p)) for entry in seen["grads"])
                    or close(seen["grads"], [loss_gradient(kind, k, p) for kind, k in losses])
                )
                and not close(seen["grads_later"], [loss_gradient(kind, k, p) for kind, k in losses])
            ),
        ),
    )

    def test_each_pass_has_its_own_gradient(seen, p, losses):
        expect_gradients(seen["grads"], p, losses)
        if any(flag.value is True for flag in exactly(len(losses), seen["requires_grad"])):
            refuse("an entry requires grad: a graph hangs on it", Kind.GRAPH)

    def test_each_loss_is_evaluated_once_in_order(seen, losses):
        expect(seen["evaluated"]).timeline([f"{kind} loss, k = {k}" for kind, k in losses])
        expect(Seen(seen["calls of one loss"].value, "the calls of a function that stands in the list twice")).equals(2)

    def test_the_entries_are_copies(seen, p, losses):
        if len(seen["grads_later"]) > len(losses):
            refuse("a later pass of the caller added an entry to your list: a hook of yours is on `p`", Kind.HOOK_LEFT)
        expect_gradients(seen["grads_later"], p, losses)

    def test_another_call_has_its_own_gradients(seen, p, losses, call):
        if call != "once":
            expect_gradients(seen["another call"], p, losses[::-1])
        expect_gradients(seen["the same losses"], p / 2, losses)
        expect_gradients(seen["a loss without effect"], p, [["linear", 0.0], ["linear", 3.0]])

    def test_a_call_inside_a_call_changes_nothing(seen, p):
        expect_gradients(seen["around a call"], p, [["linear", 3.0], ["linear", 2.0], ["linear", 3.0]])

    def test_a_small_gradient_follows_a_large_one(seen, p):
        unequal = [["linear", k] for k in UNEQUAL]
        expect_gradients(seen["a number, unequal losses"], p.reshape(-1)[0], unequal, atol=0)

    def test_p_is_left_as_it_was(seen):
        nothing_changed(seen["changed"], but=["grad-* p"])

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        for failed in exactly(3, seen["failures"]):
            came_through(failed["outcome"], "a loss")
            nothing_changed(failed["changed"], but=["grad-* p"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect_gradients(seen["example"], torch.tensor([3.0]), [["linear", 2.0], ["square", 1.0]])


def expect_gradients(grads: Seen, p: Tensor, losses: list[list[str | float]], atol: float | None = None) -> None:
    """A list with the gradient of each loss alone."""
    expect(grads).has_length(len(losses), "gradients")
    for entry, (kind, k) in zip(grads, losses):
        expect(entry).close_to(loss_gradient(kind, k, p), atol=atol)


def not_finite(seen: Seen) -> bool:
    """Whether a tensor holds infinities or NaN."""
    return seen.tensor is not None and not bool(seen.tensor.isfinite().all())


def running_sums(p: Tensor, losses: list[list[str | float]], start: float) -> list[Tensor]:
    """What `.grad` holds after each pass when nobody clears it."""
    total, found = torch.full_like(p, start), []
    for kind, k in losses:
        total = total + loss_gradient(kind, k, p)
        found.append(total)
    return found
