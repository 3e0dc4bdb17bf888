"""Exercise 03-clamp-grad."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    NO_GRADIENT_TO_HOOK,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    removed,
    snapshot,
)
from graders.lesson_03_changing_gradients.judging import (
    ONE_BOUND,
    SINGLE_LOCATION,
    around,
    bounds_like,
    differentiated_as,
    expect_rare,
    inside,
    ones,
    start,
    times,
)
from graders.lesson_03_changing_gradients.shared import TINY, accumulated, after_remove, flow, rare, scene

TWO_PASSES = ("x.grad", "x.grad of another pass")


@exercise(
    "03-clamp-grad",
    points=1,
    minutes=5,
    difficulty=1,
    title="Clamp a gradient before it goes on",
    hints=(
        "`grad.clamp(lo, hi)` returns a new tensor; `grad.clamp_(lo, hi)` writes into the old one.",
        "Clamp what the hook receives. That is the gradient of this pass, while `t.grad` is the total of all passes.",
        "Return the clamped tensor from the hook, and return the handle from your function.",
    ),
    why=(
        "The hook gets the sum over all uses of `t` in this pass, before it is added to `t.grad`: exactly what is "
        "to be limited. `torch.where`, or two hooks of which one limits from below and one from above, would do as "
        "well; the handle must then remove both."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "number": ALL,
            "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "values": "the bounds are sevenths, which use all digits",
            "collection": "there is no collection",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
    ),
)  # fmt: skip
class TestClampGrad:
    """Write `clamp_grad(t, lo, hi)`. `t` is a tensor that requires grad, leaf or not, of any floating dtype. `lo` and
    `hi` are numbers with `lo < hi`. From now on, in every backward pass, each element of the gradient at `t` (the sum
    over all uses of `t`) is limited to the range from `lo` to `hi` before it goes on: into `t.grad` if `t` is a leaf,
    otherwise to the tensors that `t` was computed from. An element inside the range stays as it is. Return the handle.

    **Example.** For a leaf `w = tensor([0., 0.])` and `clamp_grad(w, -1.0, 1.0)`, the loss
    `(tensor([0.75, 5.]) * w).sum()` gives `w.grad == tensor([0.75, 1.])`. After three passes with the same loss it is
    `tensor([2.25, 3.])`.
    """

    def draw(rng, dtype, rank, layout, number, hooks):
        shape = rng.shape(rank)
        lo, hi = bounds_like(rng, number)
        sides = rng.shuffled((-1, 1))
        first, second, up = (
            around(rng, shape, lo, hi, side, layout) / times(hooks) for side in (*sides, rng.choice(sides))
        )
        values = around(rng, shape, lo, hi, rng.choice(sides), layout)  # clamping would change them, too
        return {
            "x": values.to(getattr(torch, dtype)),
            "other": rng.tensor(*shape, dtype=dtype, layout=layout),
            "factors": [first.to(getattr(torch, dtype)), second.to(getattr(torch, dtype))],
            "up": up.to(getattr(torch, dtype)),
            "lo": lo,
            "hi": hi,
            "rare_up": around(rng, (2, 3, 2), lo, hi, sides[0], "contiguous").to(getattr(torch, dtype)),
        }

    def alive(factors, up, lo, hi, grad, hooks):
        first, second = (times(hooks) * factor for factor in factors)
        right = first.clamp(lo, hi) + second.clamp(lo, hi)
        wrong = [clamped_total(factors, lo, hi, grad, hooks) - start(up, grad), (first + second).clamp(lo, hi)]
        return all((right - other).abs().max() > 0.05 for other in wrong) and abs(lo + hi) > 0.05

    def probe(student, x, other, factors, up, lo, hi, rare_up, layout, place, grad, hooks, grad_mode, backward):
        x, t, neighbour = scene(x, other, layout, place, grad, hooks)
        factors = [laid_out(factor, layout) for factor in factors]
        second, half = torch.ones_like(x).requires_grad_(), torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
        things = {"t": t, "x": x, "other": other, "factors": factors}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handle = student.clamp_grad(t, lo, hi)
            changed = witness.changes()
            # A handle may keep its hook alive.
            kept = [student.clamp_grad(half, lo, hi), student.clamp_grad(second, -1.0, 0)]

        def hooked(t):
            kept.append(student.clamp_grad(t, lo, hi))
            return t

        seen = {"changed": changed} | flow(x, lambda: t, other, neighbour, factors, up, backward)
        (t + second).backward(gradient=factors[0], inputs=[second])
        (3 * half).sum().backward()
        seen |= {"the gradient of a second tensor": second.grad, "the gradient of a bfloat16 tensor": half.grad}
        seen |= rare(hooked, rare_up) | {"x.grad after two passes": accumulated(x, t, neighbour, factors)}
        twice = student.clamp_grad(t, *higher(lo, hi))
        seen |= {"x.grad with two hooks": flow(x, lambda: t, other, neighbour, factors, up, "plain")["x.grad"]}
        seen |= after_remove("first_handle", handle, x, t, factors[0])
        seen |= after_remove("second_handle", twice, x, t, factors[0])
        # A larger tensor, and bounds whose own rounding is larger than an element.
        wide = torch.zeros(500, 3, requires_grad=True)
        student.clamp_grad(wide, -1e6, 1e6)
        (torch.tensor([0.1, 1e7, -1e7]) * wide).sum().backward()
        seen["the gradient within wide bounds"] = wide.grad
        limits = torch.zeros(5, requires_grad=True)
        student.clamp_grad(limits, 0.5, 1.0)
        (torch.tensor([torch.inf, -torch.inf, 1e-8, -1e-8, 0.75]) * limits).sum().backward()
        seen["the gradient between 0.5 and 1"] = limits.grad.clone()
        (1e-8 * limits).sum().backward()
        seen["after a tiny one"] = limits.grad
        without_bounds = torch.zeros(2, requires_grad=True)
        handle = student.clamp_grad(without_bounds, -math.inf, math.inf)
        (3 * without_bounds).sum().backward()
        seen |= {"the gradient without bounds": without_bounds.grad, "without bounds, has remove()": removed(handle)}
        w, example = torch.zeros(2, requires_grad=True), []
        student.clamp_grad(w, -1.0, 1.0)
        for _ in range(3):
            (torch.tensor([0.75, 5.0]) * w).sum().backward()
            example.append(snapshot(w.grad))
        return {**seen, "changed in the end": before.changes(), "example": example}

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, lo, hi: close(seen["neighbour.grad"], -factors[0].clamp(lo, hi)),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, hooks: (
                close(seen["x.grad"], times(hooks) * factors[0])
                and close(seen["neighbour.grad"], -factors[0])
                and changes(seen["changed"], "hook-left *")
                and not changes(seen["changed"], "values *")
            ),
            everywhere=True,
        ),
        Mistake("changed-values", lambda seen: changes(seen["changed in the end"], "values t")),
        Mistake("changed-dtype", raises="has changed the type of value"),
        Mistake(
            "clamped-the-total",
            lambda seen, factors, lo, hi, grad, hooks: close(
                seen["x.grad after two passes"], clamped_total(factors, lo, hi, grad, hooks)
            ),
            "You clamped `.grad`, the total of all passes. The task is to clamp the gradient of each pass before it is "
            "added. `register_hook` hands you just that, and it works on non-leaf tensors as well.",
            raises=("cannot be registered on non-leaf", "post accumulate grad hooks should return None"),
        ),
        Mistake(
            "norm-not-elements",
            lambda seen, factors, hooks: (
                all(parallel(seen[name].tensor, factor) for name, factor in zip(TWO_PASSES, factors))
                and not all(close(seen[name], times(hooks) * factor) for name, factor in zip(TWO_PASSES, factors))
            ),
            "You scaled the whole gradient, so that it kept its direction: that limits its norm. The task is to limit "
            "each element by itself, as `grad.clamp(lo, hi)` does.",
        ),
        Mistake(
            "one-bound-only",
            lambda seen, factors, lo, hi, hooks: any(
                all(close(seen[name], (times(hooks) * f).clamp(**bound)) for name, f in zip(TWO_PASSES, factors))
                for bound in ({"min": lo}, {"max": hi})
            ),
            ONE_BOUND,
            rather_than=("norm-not-elements", "clamped-the-total"),  # the same for a single number
        ),
        Mistake(
            "one-slot-for-all",
            lambda seen, factors, hooks: close(seen["x.grad"], (times(hooks) * factors[0]).clamp(-1, 0)),
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, hooks: (
                close(seen["x.grad"], times(hooks) * factors[0])
                and seen["changed"].value == []
                and seen["first_handle has remove()"].value is True
            ),
            raises=NO_GRADIENT_TO_HOOK,
        ),
    )

    def test_every_element_is_clamped(seen, factors, up, lo, hi, hooks):
        expect(seen["x.grad"]).close_to((times(hooks) * factors[0]).clamp(lo, hi))
        expect(seen["x.grad of another pass"]).close_to((times(hooks) * factors[1]).clamp(lo, hi))
        expect(seen["x.grad of a pass, read after the next pass"]).close_to((times(hooks) * factors[0]).clamp(lo, hi))
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(up, times(hooks)).clamp(lo, hi))
        expect(seen["x.grad of gradient="]).close_to((times(hooks) * up).clamp(lo, hi))
        expect(seen["x.grad of zeros"]).close_to(torch.zeros_like(up).clamp(lo, hi))
        tiny = torch.full_like(up, times(hooks) * TINY).clamp(lo, hi)
        expect(seen["x.grad of a tiny gradient"]).close_to(tiny, atol=0)
        expect(seen["x.grad of infinities"]).close_to(torch.full_like(up, hi))
        expect(seen["the gradient within wide bounds"]).close_to(torch.tensor([0.1, 1e6, -1e6]).expand(500, 3))
        more = Seen(seen["after a tiny one"].value, "the gradient between 0.5 and 1, after one more pass with 1e-8")
        expect(more).close_to(torch.tensor([1.5, 1.0, 1.0, 1.0, 1.25]))
        expect(seen["the gradient between 0.5 and 1"]).close_to(torch.tensor([1.0, 0.5, 0.5, 0.5, 0.75]))
        expect(seen["the gradient without bounds"]).close_to(torch.tensor([3.0, 3.0]))
        expect(seen["example"][0]).close_to(torch.tensor([0.75, 1.0]))

    def test_each_pass_is_clamped_by_itself(seen, factors, up, lo, hi, grad, hooks):
        total = start(up, grad) + sum((times(hooks) * factor).clamp(lo, hi) for factor in factors)
        expect(seen["x.grad after two passes"]).close_to(total)
        expect(seen["example"][2]).close_to(torch.tensor([2.25, 3.0]))

    def test_the_sum_over_all_uses_is_clamped(seen, factors, lo, hi, hooks):
        expect(seen["x.grad of two uses"]).close_to((times(hooks) * (factors[0] + factors[1])).clamp(lo, hi))

    def test_the_gradient_can_be_differentiated_again(seen, factors, lo, hi, hooks):
        differentiated_as(seen["x.grad differentiated"], times(hooks) * inside(times(hooks) * factors[0], lo, hi))

    def test_any_tensor_and_several_at_a_time(seen, factors, lo, hi, rare_up, hooks):
        expect_rare(seen, rare_up, of_two=(2 * rare_up[0]).clamp(lo, hi), turned=rare_up.clamp(lo, hi))
        expect(seen["the gradient of a second tensor"]).close_to(factors[0].clamp(-1, 0))
        three = (3 * ones(2, torch.bfloat16)).clamp(lo, hi)
        expect(seen["the gradient of a bfloat16 tensor"]).close_to(three, rtol=1e-2, atol=1e-2)
        expect(seen["x.grad with two hooks"]).close_to((times(hooks) * factors[0]).clamp(lo, hi).clamp(*higher(lo, hi)))

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, -1))
        expect(seen["gradient="]).close_to(up)
        nothing_changed(seen["changed"], but=["hook-left t"])

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, lo, hi, hooks):
        for handle, range_left in (("first_handle", higher(lo, hi)), ("second_handle", (-math.inf, math.inf))):
            expect(seen[f"{handle} has remove()"]).is_true("the function returned nothing that has a remove() method")
            expect(seen[f"x.grad after {handle}.remove()"]).close_to((times(hooks) * factors[0]).clamp(*range_left))
        expect(seen["without bounds, has remove()"]).is_true(
            "for infinite bounds the function returned nothing that has a remove() method"
        )
        nothing_changed(seen["changed in the end"], but=["grad-* *"], when="after `remove()`")


def higher(lo: float, hi: float) -> tuple[float, float]:
    """A range that has a part in common with this one: neither replaces the other."""
    quarter = (hi - lo) / 4
    return lo + quarter, hi + quarter


def parallel(first: Tensor | None, second: Tensor) -> bool:
    """Whether `first` is one number times `second`, and that number is not zero."""
    if first is None or first.shape != second.shape:
        return False
    first, second = first.double(), second.double()
    share = (first * second).sum() / (second * second).sum()
    return bool(torch.allclose(first, share * second, rtol=1e-3, atol=1e-6) and share.abs() > 1e-3)


def clamped_total(factors: list[Tensor], lo: float, hi: float, grad: str, hooks: str) -> Tensor:
    """What a leaf holds after two passes when the running total is clamped."""
    total = start(factors[0], grad)
    for factor in factors:
        total = (total + times(hooks) * factor).clamp(lo, hi)
    return total
