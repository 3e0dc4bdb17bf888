"""Exercise 03-clamp-grad."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, across, bounds, fan
from graders.lesson_03_changing_gradients.shared import scene


@exercise(
    "03-clamp-grad",
    points=1,
    title="Clamp a gradient before it goes on",
    hints=(
        "`grad.clamp(lo, hi)` returns a new tensor; `grad.clamp_(lo, hi)` writes into the old one.",
        "Clamp what the hook receives. That is the gradient of this pass, while `t.grad` is the total of all passes.",
        "Return the clamped tensor from the hook, and return the handle from your function.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
        {"leaf": True, "dtype": torch.bfloat16},
    ),
)
class TestClampGrad:
    """Write `clamp_grad(t, lo, hi)`. `t` is a tensor that requires grad, leaf or not, of any floating dtype. `lo`
    and `hi` are numbers with `lo < hi`. From now on, in every backward pass, each element of the gradient that arrives
    at `t` is limited to the range from `lo` to `hi` before it goes on: before it is added to `t.grad` if `t` is a leaf,
    otherwise before it goes to the tensors that `t` was computed from. The gradient that arrives is the sum over all
    uses of `t` in this pass. Return the handle; after `handle.remove()` gradients pass as they are.

    Nothing else changes: not the values of `t`, not the gradients of its neighbours (in `t + u`, the gradient of `u`),
    and not a tensor that the caller passes as `backward(gradient=...)`. Hooks that are already on `t` stay.

    **Example.** For a leaf `w = tensor([0., 0.])` and `clamp_grad(w, -1.0, 1.0)`, the loss
    `(tensor([0.75, 5.]) * w).sum()` gives `w.grad == tensor([0.75, 1.])`. After three passes with the same loss it is
    `tensor([2.25, 3.])`.
    """

    def draw(rng, leaf, dtype):
        lo, hi = bounds(rng, dtype)
        return {
            "x": rng.tensor(4, dtype=dtype),
            "other": rng.tensor(4, dtype=dtype),
            "factors": [across(rng, lo, hi, dtype) for _ in range(3)],
            "up": across(rng, lo, hi, dtype),
            "lo": lo,
            "hi": hi,
            "level": rng.choice((-2.0, 2.0)),
            "leaf": leaf,
        }

    def alive(factors, lo, hi):
        first, second, third = factors
        clamped = [factor.clamp(lo, hi) for factor in factors]
        step_by_step = ((clamped[0] + second).clamp(lo, hi) + third).clamp(lo, hi)
        return bool(
            abs(lo + hi) >= 0.25
            and (first != 0).all()
            and not parallel(clamped[0], first)
            and not torch.equal(sum(clamped), step_by_step)
            and not torch.equal(sum(clamped), sum(factors).clamp(lo, hi))
            and not torch.equal((first + second).clamp(lo, hi), clamped[0] + clamped[1])
        )

    def probe(student, x, other, factors, up, lo, hi, level, leaf):
        t, neighbour = scene(x, other, leaf)
        calls = []
        t.register_hook(lambda grad: calls.append(1))
        values, hooks = snapshot(t), tensor_hooks(t)
        handle = student.clamp_grad(t, lo, hi)
        seen = {"hooks_added": tensor_hooks(t) - hooks}
        for number, factor in enumerate(factors):
            ((t + neighbour) * factor).sum().backward(retain_graph=True)
            seen |= {f"x.grad after pass {number + 1}": snapshot(x.grad)}
        seen |= {"neighbour.grad": snapshot(other.grad)}
        x.grad = other.grad = None
        ((t + neighbour).sum() * level).backward(retain_graph=True)  # every entry of this gradient is the same memory
        seen |= {"x.grad of a sum": snapshot(x.grad), "neighbour.grad of a sum": snapshot(other.grad)}
        x.grad = None
        ((t * factors[0]).sum() + (t * factors[1]).sum()).backward(retain_graph=True)
        seen |= {"x.grad of two uses": snapshot(x.grad)}
        x.grad, callers = None, up.clone()
        t.backward(gradient=callers, retain_graph=True)
        seen |= {"x.grad of gradient=": snapshot(x.grad), "gradient=": callers}
        x.grad, second = None, torch.ones_like(x).requires_grad_()
        _kept = student.clamp_grad(second, lo / 2, hi / 2)
        ((t + second) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad beside a second tensor": snapshot(x.grad), "second.grad": second.grad}
        seen |= {"values_kept": torch.equal(t.detach(), values), "calls": len(calls)}
        x.grad = None
        seen |= {"has_remove": removed(handle), "hooks left": tensor_hooks(t) - hooks}
        (t * factors[0]).sum().backward()
        return {**seen, "x.grad after remove": x.grad, "calls_in_the_end": len(calls)}

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, lo, hi: close(seen["neighbour.grad"], sum(3 * f.clamp(lo, hi) for f in factors)),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, leaf: (
                close(seen["x.grad after pass 1"], fan(leaf) * factors[0])
                and close(seen["neighbour.grad"], 3 * sum(factors))
                and seen["hooks_added"].value > 0
                and seen["values_kept"].value is True
            ),
        ),
        Mistake("changed-values", lambda seen: seen["values_kept"].value is False),
        Mistake("changed-dtype", raises="has changed the type of value"),
        Mistake(
            "clamped-the-total",
            lambda seen, factors, lo, hi: any(
                close(seen["x.grad after pass 3"], total) for total in clamped_totals(factors, lo, hi)
            ),
            "You clamped `.grad`, the total of all passes. The task is to clamp the gradient of each pass before it is "
            "added. `register_hook` hands you just that, and it works on non-leaf tensors as well.",
            raises=("cannot be registered on non-leaf", "post accumulate grad hooks should return None"),
        ),
        Mistake(
            "norm-not-elements",
            lambda seen, factors: (
                parallel(seen["x.grad after pass 1"].tensor, factors[0])
                and not close(seen["x.grad after pass 1"], factors[0])
                and not close(seen["x.grad after pass 1"], 2 * factors[0])
            ),
            "You scaled the whole gradient, so that it kept its direction: that limits its norm. The task is to limit "
            "each element by itself, as `grad.clamp(lo, hi)` does.",
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, leaf: (
                close(seen["x.grad after pass 1"], fan(leaf) * factors[0])
                and seen["hooks_added"].value == 0
                and seen["has_remove"].value is True
                and seen["values_kept"].value is True
            ),
        ),
    )

    def test_every_element_is_clamped(seen, factors, up, lo, hi, level, leaf):
        expect(seen["x.grad after pass 1"]).close_to(fan(leaf) * factors[0].clamp(lo, hi))
        expect(seen["x.grad of a sum"]).close_to(fan(leaf) * torch.full_like(up, level).clamp(lo, hi))
        expect(seen["x.grad of gradient="]).close_to(fan(leaf) * up.clamp(lo, hi))

    def test_each_pass_is_clamped_by_itself(seen, factors, lo, hi, leaf):
        total = torch.zeros_like(factors[0])
        for number, factor in enumerate(factors):
            total = total + fan(leaf) * factor.clamp(lo, hi)
            expect(seen[f"x.grad after pass {number + 1}"]).close_to(total)

    def test_the_sum_over_all_uses_is_clamped(seen, factors, lo, hi, leaf):
        expect(seen["x.grad of two uses"]).close_to(fan(leaf) * (factors[0] + factors[1]).clamp(lo, hi))

    def test_a_second_tensor_has_its_own_bounds(seen, factors, lo, hi, leaf):
        expect(seen["x.grad beside a second tensor"]).close_to(fan(leaf) * factors[0].clamp(lo, hi))
        expect(seen["second.grad"]).close_to(factors[0].clamp(lo / 2, hi / 2))

    def test_nothing_else_changes(seen, factors, up, level):
        expect(seen["neighbour.grad"]).close_to(3 * sum(factors))
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, 3 * level))
        expect(seen["gradient="]).close_to(up)
        expect(seen["values_kept"]).is_true("the values of t changed; the task is about its gradient")

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, leaf):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["x.grad after remove"]).close_to(fan(leaf) * factors[0])
        no_hook_left(seen["hooks left"])
        expect(seen["calls"]).equals(7)
        expect(seen["calls_in_the_end"]).equals(8)


def parallel(first: Tensor, second: Tensor) -> bool:
    """Whether `first` is one number times `second`, and that number is not zero. `second` has no zeros."""
    ratios = first.double() / second.double()
    return bool(torch.allclose(ratios, ratios.mean(), rtol=1e-3) and ratios.mean().abs() > 1e-3)


def clamped_totals(factors: list[Tensor], lo: float, hi: float) -> list[Tensor]:
    """What a leaf holds after three passes when the running total is clamped, after each or after the last."""
    total = torch.zeros_like(factors[0])
    for factor in factors:
        total = (total + factor).clamp(lo, hi)
    return [total, sum(factors).clamp(lo, hi)]
