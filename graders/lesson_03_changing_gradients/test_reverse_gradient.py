"""Exercise 03-reverse-gradient."""

from __future__ import annotations

import torch

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    beyond_float32,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
    snapshot,
    tensor_hooks,
)
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, differentiated_as, expect_rare, start, times
from graders.lesson_03_changing_gradients.shared import FAR, TINY, flow, rare, scene


@exercise(
    "03-reverse-gradient",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Reverse a gradient",
    hints=(
        "Make a new tensor with the same values that is connected to `x`, such as `x * 1` or `x.view_as(x)`.",
        "Register the hook on the new tensor. Other uses of `x` do not pass through it.",
        "A tensor that does not require grad takes no hook: guard the registration with `if y.requires_grad:`.",
    ),
    why=(
        "`x * 1` is a tensor of its own: a hook on it sees what passes through `y`, and other uses of `x` go "
        "another way. A `torch.autograd.Function` whose `backward` returns `-lam * grad` is the usual way outside "
        "this lesson, and needs no hook."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL,
            "number": ("fraction", "large"), "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "collection": "there is no collection",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
    ),
)  # fmt: skip
class TestReverseGradient:
    """Write `reverse_gradient(x, lam)`. `x` is a tensor of finite values, leaf or not, and `lam` is a positive number.
    Return a tensor `y` with the same values as `x`, up to the rounding of `lam * x`; it may share its memory with `x`.
    In every backward pass, the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`. A hook on `y`
    may stay, but your function leaves no hook on `x`.

    Only what passes through `y` is reversed: if `x` is used elsewhere, too, that part of its gradient is as usual.

    It also works when `x` does not require grad, and under `torch.no_grad()`. Then it returns `x` itself, or a tensor
    with the values of `x` that does not require grad.

    **Example.** For a leaf `x = tensor([3.])` and `y = reverse_gradient(x, 0.5)`, the call
    `(10 * y + 2 * x).sum().backward()` leaves `x.grad == tensor([-3.])`, which is -0.5 · 10 + 2.
    """

    def draw(rng, dtype, rank, layout, values, number):
        shape = rng.shape(rank)
        return {
            **{name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("x", "other", "up")},
            "factors": [rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for _ in range(2)],
            # A number that float32 does not hold, so that a detour through float32 shows; never 1.
            "lam": beyond_float32(rng.number(number) * 9 / 7),
            "rare_up": rng.tensor(2, 3, 2, dtype=dtype, values=values),
        }

    def alive(factors, lam):
        # The right gradient, and those of the mistakes, must all differ.
        k, m = factors
        found = [m - lam * k, -lam * (m + k), m + lam * k, m + k, m]
        return all((a - b).abs().max() > 0.01 for i, a in enumerate(found) for b in found[:i])

    def probe(student, x, other, factors, up, lam, rare_up, layout, place, grad, hooks, backward):
        x, t, neighbour = scene(x, other, layout, place, grad, hooks)
        k, m = factors = [laid_out(factor, layout) for factor in factors]
        witness = Witness(t=t, x=x, other=other, factors=factors)
        y = student.reverse_gradient(t, lam)
        seen = {"y": snapshot(y), "changed": witness.changes()}
        if not isinstance(y, torch.Tensor) or y.shape != t.shape:
            return seen
        seen |= {"hooks_on_y": 0 if y is t else tensor_hooks(y)}
        student.reverse_gradient(-t, lam)
        seen |= {"y after a call for another tensor": snapshot(y)}
        student.reverse_gradient(t, 2 * lam)
        w = k.clone().requires_grad_()
        (y * w).sum().backward(inputs=[w], retain_graph=True)
        both = (y * k).sum() + (t * m).sum()
        for name in ("x.grad of two ways", "x.grad of another pass through the same y"):
            (seen[name],) = torch.autograd.grad(both, [x], retain_graph=True, allow_unused=True)

        def turned(t=t):
            return student.reverse_gradient(t, lam)

        seen |= rare(turned, rare_up)
        seen |= {"w.grad": w.grad} | flow(x, turned, other, neighbour, factors, up, backward)
        for factor in factors:
            (turned() * factor).sum().backward()
        seen |= {"x.grad after two passes": snapshot(x.grad)}
        plain = laid_out(t, layout)
        with torch.no_grad():
            inside = Witness(t=t, plain=plain)
            y = student.reverse_gradient(t, lam)
            seen |= {"y under no_grad": snapshot(y), "changed inside": inside.changes()}
            seen |= {"a graph under no_grad": y is not t and getattr(y, "grad_fn", None) is not None}
        without = Witness(plain=plain)
        y = student.reverse_gradient(plain, lam)
        seen |= {"y without grad": snapshot(y), "changed without": without.changes()}
        w.grad = None
        if isinstance(y, torch.Tensor):
            seen |= {"requires grad without": y.requires_grad}
            (y * w).sum().backward()
        small, far = torch.tensor([1e-20, -3e-12], requires_grad=True), [torch.ones(2, requires_grad=True) for _ in FAR]
        seen["y of small values"] = snapshot(student.reverse_gradient(small, 0.5))
        for u, number in zip(far, FAR):
            (3 * student.reverse_gradient(u, number)).sum().backward()
        seen["gradients far from 1"] = [u.grad for u in far]
        x = torch.tensor([3.0], requires_grad=True)
        y = student.reverse_gradient(x, 0.5)
        (10 * y + 2 * x).sum().backward()
        return {**seen, "w.grad without": w.grad, "changed in the end": witness.changes(), "example": x.grad}

    mistakes = (
        Mistake(
            "hooked-the-input",
            lambda seen, factors, lam, hooks: (
                changes(seen["changed"], "hook-left *")
                or changes(seen["changed inside"], "hook-left *")
                or close(seen["x.grad of two ways"], -lam * times(hooks) * sum(factors))
            ),
            "You hooked `x` itself, always or under `no_grad` alone. So all of its gradient is reversed, also the part "
            "from its other uses. Make a new tensor with the same values, hook that one and return it.",
        ),
        Mistake(
            "changed-forward",
            lambda seen, x, lam: any(close(seen["y"], k * x) for k in (-1, -lam, lam)),
            "The returned values differ from those of `x`. Forward must be the identity; only the gradient changes.",
        ),
        Mistake(
            "forgot-sign",
            lambda seen, factors, lam, hooks: close(seen["x.grad"], times(hooks) * lam * factors[0]),
            "The sign is missing: you multiplied the gradient by `lam`, and the task says `-lam`.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, factors, lam: close(seen["neighbour.grad"], lam * factors[0]),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, x, factors, hooks: (
                close(seen["y"], x)
                and close(seen["x.grad"], times(hooks) * factors[0])
                and seen["hooks_on_y"].value > 0
            ),
            everywhere=True,
        ),
        Mistake(
            "cut-from-x",
            lambda seen, factors, hooks: close(seen["x.grad of two ways"], times(hooks) * factors[1]),
            "No gradient came through your tensor to `x`: `detach()` (or `.data`, or a new leaf) cut the connection. "
            "Make the new tensor by an operation on `x`, such as `x * 1`.",
            raises="does not require grad and does not have a grad_fn",
        ),
        Mistake(
            "one-slot-for-all",
            lambda seen, factors, lam, hooks: close(
                seen["x.grad of two ways"], times(hooks) * (factors[1] - 2 * lam * factors[0])
            ),
        ),
        Mistake(
            "hook-without-grad",
            raises="doesn't require gradient",
            message="A tensor that does not require grad takes no hook, and under `no_grad` the result of `x * 1` does "
            "not. Guard the registration: `if y.requires_grad: y.register_hook(...)`.",
        ),
    )

    def test_the_values_stay_and_the_gradient_is_reversed(seen, x, factors, lam, hooks):
        expect(seen["y"]).close_to(x)
        expect(seen["x.grad"]).close_to(-lam * times(hooks) * factors[0])
        expect(seen["y after a call for another tensor"]).close_to(x)
        expect(seen["y of small values"]).close_to(torch.tensor([1e-20, -3e-12]), atol=0, detached=False)

    def test_only_what_passes_through_y_is_reversed(seen, factors, lam, rare_up, hooks):
        expect_rare(seen, rare_up, of_two=(1 - lam) * rare_up[0], turned=-lam * rare_up)
        expect(seen["x.grad of two ways"]).close_to(times(hooks) * (factors[1] - lam * factors[0]))
        expect(seen["example"]).close_to(torch.tensor([-3.0]))

    def test_every_call_and_every_pass_reverses(seen, factors, up, lam, grad, hooks):
        by = -lam * times(hooks)
        expect(seen["x.grad of another pass"]).close_to(by * factors[1])
        expect(seen["x.grad of a pass, read after the next pass"]).close_to(by * factors[0])
        again = times(hooks) * (factors[1] - lam * factors[0])
        expect(seen["x.grad of another pass through the same y"]).close_to(again)
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(up, by))
        expect(seen["x.grad of two uses"]).close_to(by * sum(factors))
        expect(seen["x.grad of gradient="]).close_to(by * up)
        expect(seen["x.grad of zeros"]).close_to(torch.zeros_like(up))
        expect(seen["x.grad of a tiny gradient"]).close_to(torch.full_like(up, by * TINY), atol=0)
        expect(seen["x.grad of infinities"]).close_to(torch.full_like(up, -torch.inf))
        expect(seen["x.grad after two passes"]).close_to(start(up, grad) + by * sum(factors))
        for entry, number in paired(seen["gradients far from 1"], FAR):
            expect(Seen(entry.value, f"x.grad for lam = {number:g}")).close_to(torch.full((2,), -3 * number), atol=0)

    def test_the_gradient_can_be_differentiated_again(seen, factors, lam, hooks):
        differentiated_as(seen["x.grad differentiated"], torch.full_like(factors[0], -lam * times(hooks)))

    def test_other_tensors_have_their_usual_gradient(seen, x, factors, up):
        expect(seen["w.grad"]).close_to(x)
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, -1))
        expect(seen["gradient="]).close_to(up)

    def test_x_is_left_as_it_was(seen):
        nothing_changed(seen["changed"])
        nothing_changed(seen["changed in the end"], but=["grad-* *"], when="after some passes")

    def test_without_gradients_the_values_come_back(seen, x):
        expect(seen["requires grad without"]).is_false(
            "for an `x` that does not require grad, the result requires grad"
        )
        for values in ("y under no_grad", "y without grad", "w.grad without"):
            expect(seen[values]).close_to(x)
        expect(seen["a graph under no_grad"]).is_false("under `torch.no_grad()` your function records a graph")
        nothing_changed(seen["changed inside"], when="after a call under `no_grad`")
        nothing_changed(seen["changed without"], when="after a call for an `x` that does not require grad")
