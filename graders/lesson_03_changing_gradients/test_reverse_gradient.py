"""Exercise 03-reverse-gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, snapshot, tensor_hooks
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, fan
from graders.lesson_03_changing_gradients.shared import old_scene


@exercise(
    "03-reverse-gradient",
    points=2,
    title="Reverse a gradient",
    hints=(
        "Make a new tensor with the same values that is connected to `x`, such as `x * 1` or `x.view_as(x)`.",
        "Register the hook on the new tensor. Other uses of `x` do not pass through it.",
        "A tensor that does not require grad takes no hook: guard the registration with `if y.requires_grad:`.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
        {"leaf": False, "dtype": torch.float32},
    ),
)
class TestReverseGradient:
    """Write `reverse_gradient(x, lam)`. `x` is a tensor of a floating dtype, leaf or not, and `lam` is a positive
    number. Return a tensor `y` with the same values as `x`. In the backward pass, the gradient that arrives at `y` is
    multiplied by `-lam` on its way to `x`.

    Only what passes through `y` is reversed. If `x` is used elsewhere, too, that part of its gradient is as usual, and
    so are the gradients of all other tensors. Your function leaves no hook on `x` and does not change its values.

    It also works when `x` does not require grad and under `torch.no_grad()`: then it returns a tensor with the values
    of `x`, and there is no gradient to reverse.

    **Example.** For a leaf `x = tensor([3.])` and `y = reverse_gradient(x, 0.5)`, the call
    `(10 * y + 2 * x).sum().backward()` leaves `x.grad == tensor([-3.])`, which is -0.5 · 10 + 2.
    """

    def draw(rng, leaf, dtype):
        return {
            "x": rng.tensor(3, dtype=dtype),
            "other": rng.tensor(3, dtype=dtype),
            "weight": rng.tensor(3, dtype=dtype),
            "factor": rng.tensor(3, dtype=dtype),
            # In float64 a number that float32 does not hold, so that a detour through float32 shows.
            "lam": rng.choice((0.25, 0.5, 1.5, 2.0, 3.0)) / (7 if dtype == torch.float64 else 1),
            "leaf": leaf,
        }

    def alive(weight, lam):
        # The right gradient, and those of the mistakes, must all differ.
        found = [2 - lam * weight, -lam * (2 + weight), 2 + lam * weight, 2 + weight, torch.full_like(weight, 2)]
        return not any(torch.allclose(a, b) for i, a in enumerate(found) for b in found[:i])

    def probe(student, x, other, weight, factor, lam, leaf):
        t, neighbour = old_scene(x, other, leaf)
        weight.requires_grad_()
        values, hooks = snapshot(t), tensor_hooks(t)
        y = student.reverse_gradient(t, lam)
        seen = {"y": snapshot(y), "hooks_on_x": tensor_hooks(t) - hooks}
        seen |= {"hooks_on_y": tensor_hooks(y) if isinstance(y, Tensor) and y is not t else 0}
        ((y * weight).sum() + (2 * t).sum()).backward(retain_graph=True)
        seen |= {"x.grad": snapshot(x.grad), "weight.grad": snapshot(weight.grad)}
        x.grad = None
        y = student.reverse_gradient(t, lam)
        ((y + neighbour) * factor).sum().backward(retain_graph=True)
        seen |= {"x.grad through a sum": snapshot(x.grad), "neighbour.grad": snapshot(other.grad)}
        x.grad = None
        y.sum().backward(retain_graph=True)  # every entry of this gradient is the same memory
        seen |= {"x.grad of a sum": snapshot(x.grad)}
        x.grad = None
        student.reverse_gradient(t, 2 * lam)
        y.sum().backward(retain_graph=True)
        seen |= {"x.grad after a call with 2 * lam": snapshot(x.grad)}
        seen |= {"hooks_later": tensor_hooks(t) - hooks, "values_kept": torch.equal(t.detach(), values)}
        with torch.no_grad():
            seen |= {"y under no_grad": snapshot(student.reverse_gradient(t, lam))}
            seen |= {"mode_kept": not torch.is_grad_enabled()}
        plain = t.detach()
        seen |= {"y without grad": snapshot(student.reverse_gradient(plain, lam))}
        return {**seen, "requires_grad_kept": not plain.requires_grad}

    mistakes = (
        Mistake(
            "hooked-the-input",
            lambda seen, weight, lam, leaf: (
                seen["hooks_on_x"].value > 0 or close(seen["x.grad"], -lam * fan(leaf) * (2 + weight))
            ),
            "You hooked `x`, so all of its gradient is reversed, also the part from its other uses. Make a new tensor "
            "with the same values, hook that one and return it.",
        ),
        Mistake(
            "changed-forward",
            lambda seen, x, lam, leaf: any(close(seen["y"], k * fan(leaf) * x) for k in (-1, -lam, lam)),
            "The returned values differ from those of `x`. Forward must be the identity; only the gradient changes.",
        ),
        Mistake(
            "forgot-sign",
            lambda seen, weight, lam, leaf: close(seen["x.grad"], fan(leaf) * (2 + lam * weight)),
            "The sign is missing: you multiplied the gradient by `lam`, and the task says `-lam`.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, factor, lam: close(seen["neighbour.grad"], -lam * 3 * factor),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, x, weight, leaf: (
                close(seen["y"], fan(leaf) * x)
                and close(seen["x.grad"], fan(leaf) * (2 + weight))
                and seen["hooks_on_y"].value > 0
            ),
        ),
        Mistake(
            "cut-from-x",
            lambda seen, weight, leaf: close(seen["x.grad"], torch.full_like(weight, 2.0 * fan(leaf))),
            "No gradient came through your tensor to `x`: `detach()` (or `.data`, or a new leaf) cut the connection. "
            "Make the new tensor by an operation on `x`, such as `x * 1`.",
        ),
        Mistake(
            "hook-without-grad",
            raises="doesn't require gradient",
            message="A tensor that does not require grad takes no hook, and under `no_grad` no result requires grad. "
            "Guard the registration: `if y.requires_grad: y.register_hook(...)`.",
        ),
    )

    def test_the_values_stay_and_the_gradient_is_reversed(seen, x, weight, lam, leaf):
        expect(seen["y"]).close_to(fan(leaf) * x)
        expect(seen["x.grad"]).close_to(fan(leaf) * (2 - lam * weight))

    def test_every_call_gives_a_reversing_tensor(seen, factor, lam, leaf):
        expect(seen["x.grad through a sum"]).close_to(-lam * fan(leaf) * factor)
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(factor, -lam * fan(leaf)))
        expect(seen["x.grad after a call with 2 * lam"]).close_to(torch.full_like(factor, -lam * fan(leaf)))

    def test_other_tensors_have_their_usual_gradient(seen, x, factor, leaf):
        expect(seen["weight.grad"]).close_to(fan(leaf) * x)
        expect(seen["neighbour.grad"]).close_to(3 * factor)

    def test_x_is_left_as_it_was(seen):
        expect(seen["values_kept"]).is_true("the values of x changed")
        no_hook_left(seen["hooks_on_x"])
        no_hook_left(seen["hooks_later"])
        expect(seen["requires_grad_kept"]).is_true("x did not require grad, and now it does")

    def test_without_gradients_the_values_come_back(seen, x, leaf):
        expect(seen["y under no_grad"]).close_to(fan(leaf) * x)
        expect(seen["y without grad"]).close_to(fan(leaf) * x)
        expect(seen["mode_kept"]).is_true("your function switched gradients on while the caller had them off")
