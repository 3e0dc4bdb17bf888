"""Exercise 02-old-and-new-grad."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
    refuse,
    shares_storage,
    snapshot,
)
from graders.lesson_02_watching_gradients.judging import OLD, digits, factor
from graders.lesson_02_watching_gradients.shared import plain

TAILS = {
    "linear": lambda t, c: (c * t).sum(),
    "square": lambda t, c: (c * t * t).sum() / 4,
    "in-place": lambda t, c: (t.mul_(3).add_(c) * c).sum(),
    "nonlinear in-place": lambda t, c: (t.mul_(1 / 4).tanh_() * c).sum(),
}
"""Losses of a tensor; two of them write into it."""


@exercise(
    "02-old-and-new-grad",
    points=2,
    minutes=20,
    difficulty=3,
    title="Two gradients of one overwritten tensor",
    hints=(
        "A hook that is registered before an in-place operation stays with the old value.",
        "`retain_grad()` goes with the tensor: if `loss_fn` works in place on `t`, too, `t.grad` belongs to a value "
        "that is newer still. A hook does not move: register the second one right after the multiplication.",
        "Two tensors work, too: `old = 3 * x`, then `new = old * k`, and a hook on each before `loss_fn(new)`.",
    ),
    why=(
        "A hook stays with the value that `t` had when it was registered, so two hooks on one tensor see two "
        "gradients. Two tensors are easier to follow: `old = 3 * x`, `new = old * k`, and `retain_grad()` on both, "
        "if `loss_fn` gets a copy of `new` that it may overwrite."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ("leaf", "parameter"),
            "grad": ALL,
            "number": ALL,
            "hooks": ALL,
            "call": ALL,
            "failure": ALL,
        },
        excludes={
            "collection": "there is no collection among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on x",
            "grad_mode": "`backward()` needs it switched on",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={"kind": tuple(TAILS), "uses_x": ("no", "yes"), "raised_in": ("loss", "backward")},
        pairs=[("dtype", "place")],
    ),
)
class TestOldAndNewGrad:
    """Write `old_and_new_grad(x, k, loss_fn)`. `x` is a leaf that requires grad, and `k` is a number, also 0. Compute
    `t = 3 * x`, multiply the value of `t` by `k`, in place or not, and compute `loss = loss_fn(t)`, a scalar that
    depends on `t`. `loss_fn` may use `x` as well, and may overwrite `t` in place. Call it once, and run backward once;
    `torch.autograd.grad` counts, too.

    Return a tuple of two gradients of the loss: with respect to `t` before the multiplication, and with respect to `t`
    after it, which is the value that `loss_fn` gets. The gradient with respect to `x` is added to `x.grad`, as by
    `loss.backward()`. Hooks on `t` may stay.

    **Example.** For `x = tensor([2.])`, `k = 10` and `loss_fn = lambda t: 7 * t.sum()` the result is
    `(tensor([70.]), tensor([7.]))`, and `x.grad` is `tensor([210.])`.
    """

    def draw(rng, dtype, rank, layout, values, number):
        shape = rng.shape(rank)
        like = {"dtype": dtype, "layout": layout, "values": digits(dtype, values)}
        k = rng.choice((2, 3)) if number == "large" else rng.number(number)
        return {
            "x": rng.tensor(*shape, low=-1.0, high=1.0, **like),
            "c": rng.tensor(*shape, low=0.5, high=3.0, **like),
            "k": k - 0.1 if number in ("negative", "fraction") else k,  # no number of float32
        }

    def oracle(x, k, kind, c, uses_x):
        return [
            gradient
            for value, factor in ((x, k), (-x, k + 1), (x, 1))
            for gradient in (after(value, factor, kind, c), added_to_x(value, factor, kind, c, uses_x))
        ]

    def alive(x, k, kind, c):
        new = after(x, k, kind, c)
        return bool((new.abs() > 0.05).any() and ((k - 1) * new).abs().max() > 0.05)

    def probe(student, x, k, kind, c, uses_x, layout, place, grad, hooks, call, failure, raised_in):
        values, log = x, []

        def loss_of(x, also_x=uses_x):
            def loss_fn(t):
                log.append(snapshot(t))
                loss = TAILS[kind](t, c)
                loss.register_hook(lambda gradient: log.append("backward"))
                return loss + (x * x).sum() if also_x == "yes" else loss

            return loss_fn

        def caller():
            x = prepared(values, layout=layout, place=place, grad=grad)
            CallersHooks(hooks).on_parameter(x, "x")
            return x

        x = caller()
        witness = Witness(x=x)
        result = student.old_and_new_grad(x, k, loss_of(x))
        pair = plain(result)
        seen = {"pair": pair, "shared": tied(pair, x.grad), "log": log[:10],
                "x.grad": snapshot(x.grad), "changed": witness.changes()}  # fmt: skip
        same = prepared(values, layout=layout)
        equal = plain(student.old_and_new_grad(same, 1, loss_of(same)))
        seen |= {"k = 1": equal, "shared for k = 1": tied(equal, same.grad)}
        if call == "again":
            seen["again"] = plain(student.old_and_new_grad(x, k, loss_of(x)))
            seen["x.grad again"] = snapshot(x.grad)
        elif call == "in turn":
            other = prepared(-values, layout=layout)
            seen["in turn"] = plain(student.old_and_new_grad(other, k + 1, loss_of(other)))
            seen["x.grad in turn"] = other.grad

        beside, kept, within = torch.ones_like(values).requires_grad_(), [], []
        beside.register_hook(kept.append)

        def calling(t):
            within.append(plain(student.old_and_new_grad(prepared(values), 2, lambda t: (t + 5 * t).sum())))
            return ((t + beside) * c).sum()

        pair = plain(student.old_and_new_grad(prepared(values, layout=layout), k, calling))
        seen["shared with a neighbour"] = tied(pair, kept[0] if kept else None)
        seen |= {"around another call": pair, "of a call within `loss_fn`": within[0] if within else None}
        watched, passes = prepared(values, layout=layout), []
        watched.register_hook(lambda gradient: passes.append(1))
        seen["x in the loss"] = plain(student.old_and_new_grad(watched, k, loss_of(watched, also_x="yes")))
        seen["passes to x"] = len(passes)

        x, boom = caller(), Failure(failure)

        def failing(t):
            if raised_in == "loss":
                boom.strike()
            loss = (t * t).sum()
            loss.register_hook(boom.strike)
            return loss

        witness = Witness(x=x)
        seen["failure"] = boom.during(lambda: student.old_and_new_grad(x, k, failing))
        seen["changed_after"] = witness.changes()
        x = torch.tensor([2.0], requires_grad=True)
        return {
            **seen,
            "example": plain(student.old_and_new_grad(x, 10, lambda t: 7 * t.sum())),
            "example.grad": x.grad,
        }

    mistakes = (
        Mistake(
            "hook-after-in-place",
            lambda seen: pair_is(seen["example"], 7, 7) and close(seen["example.grad"], 210),
            "Both of your gradients belong to the new value. `retain_grad()` goes there, and so does a hook that is "
            "registered after the in-place operation. For the old value, register a hook before it.",
        ),
        Mistake(
            "multiplied-out-of-sight",
            lambda seen: close(seen["example.grad"], 21),
            "Autograd did not see your multiplication: with `.data` or under `no_grad` it is not part of the graph, "
            "and `x.grad` lacks the factor `k`. Write `t.mul_(k)` or `t * k`.",
        ),
        Mistake(
            "swapped-pair",
            lambda seen: pair_is(seen["example"], 7, 70),
            "Both gradients are right, but the other way round: the one for the old value comes first.",
        ),
        Mistake(
            "moved-on",
            lambda seen, x, k, kind, c: (
                kind in ("in-place", "nonlinear in-place")
                and pair_is(seen["example"], 70, 7)
                and any(close(seen["pair"][0], k * new(x, k, kind, c)) for new in (after, newest))
                and close(seen["pair"][1], newest(x, k, kind, c))
            ),
            "`loss_fn` works in place on the tensor that it gets, and your second gradient went along to the newest "
            "value, as `retain_grad()` and `torch.autograd.grad` do. A hook that you register before `loss_fn` stays.",
        ),
        Mistake(
            "grad-replaced",
            lambda seen, x, k, kind, c, uses_x, grad, hooks: (
                grad == "filled"
                and close(seen["x.grad"], factor(hooks) * added_to_x(x, k, kind, c, uses_x))
                and pair_is(seen["example"], 70, 7)
            ),
            "`x.grad` held something before, and you replaced it. A backward pass adds to what is there.",
        ),
        Mistake(
            "never-accumulated",
            lambda seen: pair_is(seen["example"], 70, 7) and seen["example.grad"].value is None,
            "Both gradients are right, and no pass wrote `x.grad`: `torch.autograd.grad` does not, and through "
            "`x.detach()` no gradient comes to `x`. Run `loss.backward()`, or add the gradient yourself.",
        ),
        Mistake(
            "a-third-of-the-total",
            lambda seen: (
                (total := seen["x.grad"].tensor) is not None
                and close(seen["pair"][0], total / 3)
                and pair_is(seen["example"], 70, 7)
            ),
            "Your first gradient is a third of `x.grad`. That also holds what was there before, what hooks on `x` made "
            "of it, and what `loss_fn` does with `x` itself. A hook on the old value gets its gradient alone.",
        ),
    )

    def test_the_old_and_the_new_gradient_are_right(seen, x, k, kind, c):
        expect_pair(seen["pair"], x, k, kind, c)

    def test_another_call_starts_afresh(seen, x, k, kind, c, uses_x, grad, hooks, call):
        if call == "again":
            expect_pair(seen["again"], x, k, kind, c)
            added = 2 * factor(hooks) * added_to_x(x, k, kind, c, uses_x)
            expect(seen["x.grad again"]).close_to((OLD if grad == "filled" else 0.0) + added)
        elif call == "in turn":
            expect_pair(seen["in turn"], -x, k + 1, kind, c)
            expect(seen["x.grad in turn"]).close_to(added_to_x(-x, k + 1, kind, c, uses_x))

        for name, old, new in (("around another call", k * c, c), ("of a call within `loss_fn`", 12, 6)):
            expect(seen[name]).has_length(2, "gradients", tuple)
            for entry, gradient in zip(seen[name], (old, new)):
                expect(entry).close_to(torch.zeros_like(x) + gradient)

    def test_x_has_its_gradient_from_one_pass(seen, x, k, kind, c, uses_x, grad, hooks):
        added = factor(hooks) * added_to_x(x, k, kind, c, uses_x)
        expect(seen["x.grad"]).close_to((OLD if grad == "filled" else 0.0) + added)
        expect(seen["log"]).has_length(2, "events (one call of `loss_fn`, one backward pass)")
        expect_pair(seen["x in the loss"], x, k, kind, c)
        if seen["passes to x"].value != 1:
            refuse(f"one backward pass is asked for, and {seen['passes to x'].value} of yours reached `x`")
        expect(Seen(seen["log"][0].value, "what `loss_fn` got")).close_to(3 * k * x)

    def test_both_gradients_are_tensors_of_their_own(seen, x, kind, c):
        expect(seen["shared"]).is_false("a gradient shares its memory with the other one or with `x.grad`")
        expect_pair(seen["k = 1"], x, 1, kind, c)
        expect(seen["shared for k = 1"]).is_false(
            "for k = 1 a gradient shares its memory with the other one or with `x.grad`"
        )
        expect(seen["shared with a neighbour"]).is_false(
            "a gradient shares its memory with that of another tensor that is added to `t` in the loss"
        )

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-* x"])

    def test_an_exception_comes_through_and_nothing_is_left(seen):
        came_through(seen["failure"], "`loss_fn` or `backward()`")
        nothing_changed(seen["changed_after"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).has_length(2, "gradients", tuple)
        expect(seen["example"][0]).close_to(torch.tensor([70.0]))
        expect(seen["example"][1]).close_to(torch.tensor([7.0]))
        expect(seen["example.grad"]).close_to(torch.tensor([210.0]))


def tied(pair: object, grad: Tensor | None) -> bool:
    """Whether one of two gradients shares its memory with the other one, or with `grad`."""
    entries = list(pair) if isinstance(pair, (tuple, list)) else []
    return any(shares_storage(entry, grad) for entry in entries) or (len(entries) == 2 and shares_storage(*entries))


def after(x: Tensor, k: float, kind: str, c: Tensor) -> Tensor:
    """D loss / d t at the new value t = 3 k x, by autograd on a fresh leaf."""
    t = (3 * k * x).requires_grad_()
    (gradient,) = torch.autograd.grad(TAILS[kind](t * 1, c), t)
    return gradient


def newest(x: Tensor, k: float, kind: str, c: Tensor) -> Tensor:
    """D loss / d t at the value that `loss_fn` leaves in t."""
    t = (3 * k * x).requires_grad_() * 1
    loss = TAILS[kind](t, c)
    return torch.autograd.grad(loss, t)[0]


def added_to_x(x: Tensor, k: float, kind: str, c: Tensor, uses_x: str) -> Tensor:
    """D loss / d x."""
    return 3 * k * after(x, k, kind, c) + (2 * x if uses_x == "yes" else 0.0)


def expect_pair(pair: Seen, x: Tensor, k: float, kind: str, c: Tensor) -> None:
    """A tuple of the gradient for the old value and that for the new one."""
    gradient = after(x, k, kind, c)
    expect(pair).has_length(2, "gradients", tuple)
    expect(pair[0]).close_to(k * gradient)
    expect(pair[1]).close_to(gradient)


def pair_is(pair: Seen, old: float, new: float) -> bool:
    """Whether the answer to the example is this one."""
    return close(pair[0], old) and close(pair[1], new)
