"""Exercise 02-old-and-new-grad."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, tensor_hooks

TAILS = {"linear": lambda t, c: (c * t).sum(), "square": lambda t, c: (c * t * t).sum()}


@exercise(
    "02-old-and-new-grad",
    points=2,
    title="Two gradients of one overwritten tensor",
    hints=(
        "A hook that is registered before an in-place operation stays with the old value.",
        "`retain_grad()` goes with the tensor: its `.grad` belongs to the new value.",
        "Two tensors work, too: `old = 3 * x`, then `new = old * k`, and a hook on each.",
    ),
    cases=({"kind": "linear", "sign": 1}, {"kind": "square", "sign": -1}, {"kind": "square", "sign": 1}),
)
class TestOldAndNewGrad:
    """Write `old_and_new_grad(x, k, loss_fn)`. `x` is a leaf and `k` a number. Compute `t = 3 * x`, then
    multiply the value of `t` by `k` (in the lesson this happens in place), then `loss = loss_fn(t)`, a scalar. Run
    backward once.

    Return a tuple of two gradients of the loss: with respect to `t` before the multiplication, and with respect to
    `t` after it. Neither requires grad. `x.grad` is written as by any backward pass. No hook of yours is left on `x`.

    **Example.** For `x = tensor([2.])`, `k = 10` and `loss_fn = lambda t: 7 * t.sum()` the result is
    `(tensor([70.]), tensor([7.]))`, and `x.grad` is `tensor([210.])`.
    """

    def draw(rng, kind, sign):
        return {"x": rng.tensor(3), "k": sign * rng.choice((2.0, 2.5, 3.0)), "kind": kind, "c": rng.tensor(3)}

    def probe(student, x, k, kind, c):
        x.requires_grad_()
        calls = []
        x.register_hook(lambda grad: calls.append(1))
        pair = student.old_and_new_grad(x, k, lambda t: TAILS[kind](t, c))
        if isinstance(pair, (tuple, list)):
            pair = list(pair)
        return {"pair": pair, "x.grad": x.grad, "passes": len(calls), "hooks": tensor_hooks(x)}

    mistakes = (
        Mistake(
            "hook-after-in-place",
            lambda seen, x, k, kind, c: (
                all(close(seen["pair"][i], after(x, k, kind, c)) for i in (0, 1))
                and close(seen["x.grad"], 3 * k * after(x, k, kind, c))
            ),
            "Both of your gradients belong to the new value. `retain_grad()` goes there, and so does a hook that is "
            "registered after the in-place operation. For the old value, register a hook before it.",
        ),
        Mistake(
            "multiplied-out-of-sight",
            lambda seen, x, k, kind, c: (
                all(close(seen["pair"][i], after(x, k, kind, c)) for i in (0, 1))
                and close(seen["x.grad"], 3 * after(x, k, kind, c))
            ),
            "Autograd did not see your multiplication: with `.data` or under `no_grad` it is not part of the graph. "
            "`x.grad` lacks the factor `k`, too. Write `t.mul_(k)` or `t * k`.",
        ),
        Mistake(
            "swapped-pair",
            lambda seen, x, k, kind, c: (
                close(seen["pair"][0], after(x, k, kind, c)) and close(seen["pair"][1], k * after(x, k, kind, c))
            ),
            "Both gradients are right, but the other way round: the one for the old value comes first.",
        ),
    )

    def test_the_old_and_the_new_gradient_are_right(seen, x, k, kind, c):
        expected = after(x, k, kind, c)
        expect(seen["pair"]).has_length(2, "gradients")
        expect(seen["pair"][0]).close_to(k * expected)
        expect(seen["pair"][1]).close_to(expected)

    def test_x_has_its_gradient_from_one_pass(seen, x, k, kind, c):
        expect(seen["x.grad"]).close_to(3 * k * after(x, k, kind, c))
        expect(seen["passes"]).equals(1)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks"], before=1)


def after(x: Tensor, k: float, kind: str, c: Tensor) -> Tensor:
    """D loss / d t at the new value t = 3 k x, by autograd on a fresh leaf."""
    t = (3 * k * x).requires_grad_()
    (gradient,) = torch.autograd.grad(TAILS[kind](t, c), t)
    return gradient
