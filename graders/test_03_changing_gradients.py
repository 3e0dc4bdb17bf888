"""Lesson 3. Changing gradients safely."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.box.probing import module_hooks, removed, snapshot, tensor_hooks
from graders.core.draws import Rng
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect

SINGLE_LOCATION = "refers to a single memory location"
"""What PyTorch says when a hook writes into a gradient that was expanded from one number."""


def scene(x: Tensor, other: Tensor, leaf: bool) -> tuple[Tensor, Tensor]:
    """A tensor `t`, which is `x` or `2 * x`, and a neighbour that is `3 * other`.

    The neighbour is made first. Backward reaches it after `t`, so a buffer that they share shows what a hook on
    `t` did to it.
    """
    x.requires_grad_()
    other.requires_grad_()
    neighbour = 3 * other
    return (x if leaf else 2 * x), neighbour


def across(rng: Rng, lo: float, hi: float, dtype: torch.dtype) -> Tensor:
    """Four numbers in any order: one below `lo`, one above `hi`, one between them, and any one."""
    numbers = [lo - rng.uniform(0.5, 1.5), hi + rng.uniform(0.5, 1.5), rng.uniform(-0.375, 0.375), rng.uniform(-3, 3)]
    return torch.tensor(rng.shuffled(numbers), dtype=dtype)


def bounds(rng: Rng, dtype: torch.dtype) -> tuple[float, float]:
    """A lower and an upper bound. For float64 they are numbers that float32 does not hold, so that a detour shows."""
    unit = 8 / 7 if dtype == torch.float64 else 1
    return -unit * rng.uniform(0.5, 1.5), unit * rng.uniform(0.5, 1.5)


@exercise(
    "03-scale-grad",
    points=1,
    title="Scale a gradient on its way back",
    hints=(
        "A hook may return a tensor. What happens to the gradient then, and what happens when it returns `None`?",
        "Do not use a method whose name ends in an underscore, nor `grad *= s`: both write into a shared buffer.",
        "Register a hook that returns `grad * s`, and return the handle that `register_hook` gave you.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32, "sign": -1},
        {"leaf": False, "dtype": torch.float64, "sign": 1},
        {"leaf": True, "dtype": torch.bfloat16, "sign": 1},
    ),
)
class TestScaleGrad:
    """Write `scale_grad(t, s)`. `t` is a tensor that requires grad, leaf or not, of any floating dtype. `s` is a
    number. From now on, every gradient that arrives at `t` is multiplied by `s` before it goes on: into `t.grad` if
    `t` is a leaf, otherwise to the tensors that `t` was computed from. This holds in every backward pass. Return the
    handle; after `handle.remove()` gradients pass as they are.

    Nothing else changes: not the values of `t`, not the gradients of its neighbours (in `t + u`, the gradient of `u`),
    and not a tensor that the caller passes as `backward(gradient=...)`. Hooks that are already on `t` stay.

    **Example.** For `w = tensor([1.])` and `x = tensor([2.])`, both leaves, and `scale_grad(w, 10.0)`, the call
    `(3 * (w + x)).sum().backward()` leaves `w.grad == tensor([30.])` and `x.grad == tensor([3.])`.
    """

    def draw(rng, leaf, dtype, sign):
        return {
            "x": rng.tensor(3, dtype=dtype),
            "other": rng.tensor(3, dtype=dtype),
            "factors": [rng.tensor(3, dtype=dtype) for _ in range(2)],
            "up": rng.tensor(3, dtype=dtype),
            # In float64 a number that float32 does not hold, so that a detour through float32 shows.
            "s": sign * rng.choice((0.5, 2.0, 3.0)) / (7 if dtype == torch.float64 else 1),
            "leaf": leaf,
        }

    def probe(student, x, other, factors, up, s, leaf):
        t, neighbour = scene(x, other, leaf)
        calls = []
        t.register_hook(lambda grad: calls.append(1))
        values, hooks = snapshot(t), tensor_hooks(t)
        handle = student.scale_grad(t, s)
        seen = {"hooks_added": tensor_hooks(t) - hooks, "values_kept": torch.equal(t.detach(), values)}
        seen |= {"grad_kept": x.grad is None and not t.retains_grad}
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad": snapshot(x.grad), "neighbour.grad": snapshot(other.grad)}
        ((t + neighbour) * factors[1]).sum().backward(retain_graph=True)
        seen |= {"x.grad after two passes": snapshot(x.grad)}
        x.grad = other.grad = None
        (t + neighbour).sum().backward(retain_graph=True)  # every entry of this gradient is the same memory
        seen |= {"x.grad of a sum": snapshot(x.grad), "neighbour.grad of a sum": snapshot(other.grad)}
        x.grad, callers = None, up.clone()
        t.backward(gradient=callers, retain_graph=True)
        seen |= {"x.grad of gradient=": snapshot(x.grad), "gradient=": callers}
        x.grad, second = None, torch.ones_like(x).requires_grad_()
        _kept = student.scale_grad(second, 2 * s)  # a handle may keep its hook alive
        ((t + second) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad beside a second tensor": snapshot(x.grad), "second.grad": second.grad}
        seen |= {"values_kept_later": torch.equal(t.detach(), values), "calls": len(calls)}
        x.grad = None
        seen |= {"has_remove": removed(handle), "hooks left": tensor_hooks(t) - hooks}
        (t * factors[0]).sum().backward()
        return {**seen, "x.grad after remove": x.grad, "calls_in_the_end": len(calls)}

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, s: close(seen["neighbour.grad"], 3 * s * factors[0]),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, leaf: (
                close(seen["x.grad"], fan(leaf) * factors[0])
                and close(seen["neighbour.grad"], 3 * factors[0])
                and seen["hooks_added"].value > 0
                and seen["values_kept_later"].value is True
            ),
        ),
        Mistake("changed-values", lambda seen: seen["values_kept_later"].value is False),
        Mistake(
            "wrong-hook-kind",
            lambda seen, factors, s, leaf: close(
                seen["x.grad after two passes"], fan(leaf) * s * (s * factors[0] + factors[1])
            ),
            "A post-accumulate-grad hook exists on leaves only, and it sees `.grad`, the total of all passes. "
            "`register_hook` works on every tensor that requires grad, and its hook gets the gradient of this pass.",
            raises=("cannot be registered on non-leaf", "post accumulate grad hooks should return None"),
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, leaf: (
                close(seen["x.grad"], fan(leaf) * factors[0])
                and seen["hooks_added"].value == 0
                and seen["has_remove"].value is True
                and seen["values_kept_later"].value is True
            ),
        ),
        Mistake("changed-dtype", raises="has changed the type of value"),
    )

    def test_the_gradient_is_scaled(seen, factors, s, leaf):
        expect(seen["x.grad"]).close_to(fan(leaf) * s * factors[0])

    def test_every_pass_is_scaled_once(seen, factors, up, s, leaf):
        expect(seen["x.grad after two passes"]).close_to(fan(leaf) * s * (factors[0] + factors[1]))
        expect(seen["x.grad of a sum"]).close_to(torch.full_like(up, fan(leaf) * s))
        expect(seen["x.grad of gradient="]).close_to(fan(leaf) * s * up)

    def test_a_second_tensor_has_its_own_number(seen, factors, s, leaf):
        expect(seen["x.grad beside a second tensor"]).close_to(fan(leaf) * s * factors[0])
        expect(seen["second.grad"]).close_to(2 * s * factors[0])

    def test_the_neighbour_and_the_caller_see_no_change(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(3 * factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, 3))
        expect(seen["gradient="]).close_to(up)

    def test_t_itself_stays_as_it_is(seen):
        expect(seen["grad_kept"]).is_true("your function set `t.grad`, or told `t` to retain it")
        expect(seen["values_kept"]).is_true("the values of t changed; the task is about its gradient")
        expect(seen["values_kept_later"]).is_true("the values of t changed; the task is about its gradient")

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, leaf):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["x.grad after remove"]).close_to(fan(leaf) * factors[0])
        expect(seen["hooks left"]).equals(0)
        expect(seen["calls"]).equals(5)
        expect(seen["calls_in_the_end"]).equals(6)


def fan(leaf: bool) -> int:
    """D t / d x in the scene."""
    return 1 if leaf else 2


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
        expect(seen["hooks left"]).equals(0)
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


@exercise(
    "03-freeze-rows",
    points=2,
    title="Freeze some rows of a parameter",
    hints=(
        "The hook returns a copy of the gradient in which the rows are zero: `grad.clone()` first, then write into it.",
        "Or multiply by a mask that has one number for each row, 0 or 1. For a matrix it needs the shape `(n, 1)`.",
        "A mask needs the dtype of the gradient. `torch.ones_like(grad)` has it; `torch.ones(n)` is always float32.",
    ),
    cases=(
        {"shape": (4, 4), "dtype": torch.float32, "count": 2},
        {"shape": (5,), "dtype": torch.float64, "count": 2},
        {"shape": (3, 3), "dtype": torch.float32, "count": 0},
        {"shape": (3, 3, 2), "dtype": torch.float64, "count": 1},
        {"shape": (4, 4), "dtype": torch.bfloat16, "count": 2},
    ),
)
class TestFreezeRows:
    """Write `freeze_rows(p, rows)`. `p` is an `nn.Parameter` with one dimension or more, of any floating dtype.
    `rows` is a list of indexes along dimension 0; it may be empty. From now on, in every backward pass, the gradient
    of `p` is exactly 0 in these rows and unchanged in all others. Return the handle; after `handle.remove()` all rows
    get their gradient.

    Nothing else changes: not the values of `p`, not `p.requires_grad`, and not the gradients of other tensors.

    **Example.** For `p` of shape `(3, 2)` and `freeze_rows(p, [0, 2])`, the loss `(5 * p).sum()` gives
    `p.grad == tensor([[0., 0.], [5., 5.], [0., 0.]])`.
    """

    def draw(rng, shape, dtype, count):
        return {
            "p": rng.tensor(*shape, dtype=dtype),
            "other": rng.tensor(*shape, dtype=dtype),
            "factors": [rng.tensor(*shape, dtype=dtype) for _ in range(2)],
            "rows": rng.shuffled(range(shape[0]))[:count],
        }

    def probe(student, p, other, factors, rows):
        p = nn.Parameter(p)
        other.requires_grad_()
        neighbour = 3 * other
        values, hooks = snapshot(p), tensor_hooks(p)
        handle = student.freeze_rows(p, list(rows))
        seen = {"hooks_added": tensor_hooks(p) - hooks}
        ((p + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"p.grad": snapshot(p.grad), "neighbour.grad": snapshot(other.grad)}
        ((p + neighbour) * factors[1]).sum().backward(retain_graph=True)
        seen |= {"p.grad after two passes": snapshot(p.grad)}
        p.grad = other.grad = None
        (2 * (p + neighbour).sum()).backward(retain_graph=True)  # every entry of this gradient is the same memory
        seen |= {"p.grad of a sum": snapshot(p.grad), "neighbour.grad of a sum": snapshot(other.grad)}
        seen |= {"values_kept": torch.equal(p.detach(), values), "requires_grad": p.requires_grad}
        p.grad, second = None, nn.Parameter(torch.ones_like(p))
        _kept = student.freeze_rows(second, [0])
        ((p + second + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"p.grad beside a second parameter": snapshot(p.grad), "second.grad": second.grad}
        p.grad = None
        seen |= {"has_remove": removed(handle), "hooks left": tensor_hooks(p) - hooks}
        ((p + neighbour) * factors[0]).sum().backward()
        return {**seen, "p.grad after remove": p.grad}

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, rows: rows and close(seen["neighbour.grad"], 3 * without(factors[0], rows)),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, rows: (
                rows
                and close(seen["p.grad"], factors[0])
                and close(seen["neighbour.grad"], 3 * factors[0])
                and seen["hooks_added"].value > 0
                and seen["values_kept"].value is True
            ),
        ),
        Mistake(
            "changed-dtype",
            lambda seen, factors: (
                seen["p.grad"].tensor is not None and seen["p.grad"].tensor.dtype is not factors[0].dtype
            ),
            raises=("has changed the type of value", "source and destination dtypes match"),
        ),
        Mistake(
            "wrong-axis",
            lambda seen, factors, rows: rows and close(seen["p.grad"], without(factors[0], rows, dim=1)),
            "Your zeros stand in columns, along the last dimension. Rows lie along dimension 0: write `grad[rows]`, "
            "not `grad[:, rows]`. A mask with one number for each row needs the shape `(n, 1)` for a matrix; with the "
            "shape `(n,)` it applies to columns.",
            raises=(
                "too many indices",
                "Dimension out of range",
                "must match the size of tensor",
                "is out of bounds for dimension",
            ),
        ),
        Mistake(
            "froze-everything",
            lambda seen: seen["p.grad"].value is None,
            "`requires_grad` belongs to a whole tensor. It cannot be switched off for some rows, and switched off for "
            "`p` it takes the gradient from all of them. Let a hook set the gradient of the rows to zero.",
            raises=(
                "you can only change requires_grad flags of leaf variables",
                "cannot register a hook on a tensor that doesn't require gradient",
            ),
        ),
        Mistake("changed-values", lambda seen: seen["values_kept"].value is False),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, rows: (
                rows
                and close(seen["p.grad"], factors[0])
                and seen["hooks_added"].value == 0
                and seen["has_remove"].value is True
                and seen["values_kept"].value is True
            ),
            "`p[rows]` is a new tensor that the loss does not use, so a hook on it never fires. Hook `p` itself and "
            "choose the rows inside the hook.",
        ),
        Mistake(
            "inverted-mask",
            lambda seen, factors, rows: rows and close(seen["p.grad"], factors[0] - without(factors[0], rows)),
            "You froze all the other rows. The rows in `rows` get zero, the others keep their gradient.",
        ),
        Mistake(
            "empty-rows",
            raises=("tensors used as indices must be", "Expected dtype int64 for index"),
            message="`torch.tensor([])` is a float tensor, and a float tensor cannot be an index. For an empty `rows`, "
            "index with the list itself, or write `torch.tensor(rows, dtype=torch.long)`.",
        ),
    )

    def test_the_rows_get_zero_and_the_others_their_gradient(seen, factors, rows):
        expect(seen["p.grad"]).close_to(without(factors[0], rows), rtol=0, atol=0)
        expect(seen["p.grad of a sum"]).close_to(without(torch.full_like(factors[0], 2), rows), rtol=0, atol=0)

    def test_every_pass_is_masked(seen, factors, rows):
        expect(seen["p.grad after two passes"]).close_to(without(factors[0] + factors[1], rows))

    def test_a_second_parameter_has_its_own_rows(seen, factors, rows):
        expect(seen["p.grad beside a second parameter"]).close_to(without(factors[0], rows))
        expect(seen["second.grad"]).close_to(without(factors[0], [0]))

    def test_other_gradients_stay(seen, factors):
        expect(seen["neighbour.grad"]).close_to(3 * factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(factors[0], 6))

    def test_p_itself_is_untouched(seen):
        expect(seen["values_kept"]).is_true("the values of p changed; the task is about its gradient")
        expect(seen["requires_grad"]).is_true("p no longer requires grad")

    def test_the_handle_removes_the_hook(seen, factors):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["p.grad after remove"]).close_to(factors[0])
        expect(seen["hooks left"]).equals(0)


def without(gradient: Tensor, rows: list[int], dim: int = 0) -> Tensor:
    """The gradient with zeros in these rows (or along another dimension)."""
    return gradient.index_fill(dim, torch.tensor(rows, dtype=torch.long), 0)


@exercise(
    "03-clip-and-log",
    points=2,
    title="Clip, and log both sides of it",
    hints=(
        "One hook can do both: it receives the raw gradient, and it makes the clipped one.",
        "With two hooks the order of registration matters: the one that logs the raw gradient has to come first.",
        "Store copies in the dict that you returned, log before you clip, and return the clipped gradient.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
        {"leaf": False, "dtype": torch.float32},
    ),
)
class TestClipAndLog:
    """Write `clip_and_log(t, lo, hi)`. `t` is a tensor that requires grad, leaf or not. `lo` and `hi` are numbers
    with `lo < hi`. Return an empty dict at once.

    From then on, each backward pass clamps the gradient at `t`, element by element, to the range from `lo` to `hi`, and
    the clamped gradient goes on. After each pass this same dict holds two gradients of the latest pass:

    - `"raw"`: the gradient as it arrived at `t`,
    - `"clipped"`: the clamped gradient.

    Both are copies that nothing later can change, with the dtype of the gradient and without a graph (even when the
    pass was run with `create_graph=True`). Nothing else changes: not the values of `t`, not the gradients of its
    neighbours (in `t + u`, the gradient of `u`), and not a tensor that the caller passes as `backward(gradient=...)`.

    **Example.** For a leaf `w = tensor([1., 1.])` and `d = clip_and_log(w, -1.0, 2.0)`, the call
    `(tensor([0.5, 7.]) * w).sum().backward()` leaves `d == {"raw": tensor([0.5, 7.]), "clipped": tensor([0.5, 2.])}`
    and `w.grad == tensor([0.5, 2.])`.
    """

    def draw(rng, leaf, dtype):
        lo, hi = bounds(rng, dtype)
        return {
            "x": rng.tensor(4, dtype=dtype),
            "other": rng.tensor(4, dtype=dtype),
            "factors": [across(rng, lo, hi, dtype) for _ in range(2)],
            "up": across(rng, lo, hi, dtype),
            "lo": lo,
            "hi": hi,
            "leaf": leaf,
        }

    def probe(student, x, other, factors, up, lo, hi, leaf):
        t, neighbour = scene(x, other, leaf)
        values = snapshot(t)
        log = student.clip_and_log(t, lo, hi)
        seen = {"start": entries(log)}
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"first": entries(log), "x.grad": snapshot(x.grad), "neighbour.grad": snapshot(other.grad)}
        ((t + neighbour) * factors[1]).sum().backward(retain_graph=True)
        seen |= {"second": entries(log), "x.grad after two passes": snapshot(x.grad)}
        x.grad, callers = None, up.clone()
        with t.register_hook(zero_in_place):
            t.backward(gradient=callers, retain_graph=True)
        seen |= {"gradient=": snapshot(callers)}
        callers.zero_()
        seen |= {"later": entries(log)}
        x.grad = None
        ((t + neighbour) * factors[0]).sum().backward(retain_graph=True)
        x.grad.zero_()
        seen |= {"later still": entries(log)}
        x.grad = None
        (t * t * factors[0]).sum().backward(create_graph=True)
        x.grad = None
        graph = dict(log) if isinstance(log, dict) else log
        second = torch.ones_like(x).requires_grad_()
        its_log = student.clip_and_log(second, lo / 2, hi / 2)
        (t * factors[0] + second * factors[1]).sum().backward()
        seen |= {"beside a second tensor": entries(log), "log of the second": entries(its_log)}
        return {**seen, "with create_graph": graph, "values_kept": torch.equal(t.detach(), values)}

    mistakes = (
        Mistake(
            "logged-after-clip",
            lambda seen, factors, lo, hi: (
                close(seen["first"]["raw"], factors[0].clamp(lo, hi))
                and close(seen["first"]["clipped"], factors[0].clamp(lo, hi))
                and close(seen["neighbour.grad"], 3 * factors[0])
            ),
            "Your raw log runs after the clipping hook, so it records the clipped gradient twice. Log before you clip.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, lo, hi, leaf: (
                close(seen["first"]["clipped"], factors[0].clamp(lo, hi))
                and close(seen["x.grad"], fan(leaf) * factors[0])
            ),
            "Your log is right, but the unclipped gradient went on. A hook changes a gradient only by returning the "
            "new one.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, factors, lo, hi: close(seen["neighbour.grad"], 3 * factors[0].clamp(lo, hi)),
        ),
        Mistake(
            "stored-alias",
            lambda seen, factors, up, lo, hi, leaf: (
                log_is(seen["first"], factors[0], lo, hi)
                and log_is(seen["second"], factors[1], lo, hi)
                and close(seen["x.grad"], fan(leaf) * factors[0].clamp(lo, hi))
                and not (log_is(seen["later"], up, lo, hi) and log_is(seen["later still"], factors[0], lo, hi))
            ),
        ),
        Mistake(
            "rebound-dict",
            lambda seen, factors, lo, hi, leaf: (
                seen["start"].value == {}
                and seen["second"].value == {}
                and close(seen["x.grad"], fan(leaf) * factors[0].clamp(lo, hi))
            ),
            "The dict that you returned stays empty. Your hook makes a new dict, or fills another one: write "
            '`log["raw"] = ...` into the dict that the caller has.',
        ),
    )

    def test_the_log_holds_both_gradients(seen, factors, lo, hi):
        for when, factor in (("first", factors[0]), ("second", factors[1])):
            expect(seen[when]).has_keys("raw", "clipped")
            expect(seen[when]["raw"]).close_to(factor)
            expect(seen[when]["clipped"]).close_to(factor.clamp(lo, hi))

    def test_the_clipped_gradient_goes_on(seen, factors, lo, hi, leaf):
        clamped = [factor.clamp(lo, hi) for factor in factors]
        expect(seen["x.grad"]).close_to(fan(leaf) * clamped[0])
        expect(seen["x.grad after two passes"]).close_to(fan(leaf) * sum(clamped))

    def test_the_dict_is_empty_until_the_first_pass(seen):
        if type(seen["start"].value) is not dict:
            expect(seen["start"]).has_keys()
        expect(Seen(seen["start"].value == {})).is_true("the dict has entries before the first pass")

    def test_the_entries_are_copies_without_a_graph(seen, x, factors, up, lo, hi, leaf):
        for when, gradient in (
            ("later", up),
            ("later still", factors[0]),
            ("with create_graph", 2 * fan(leaf) * x * factors[0]),
        ):
            expect(seen[when]["raw"]).close_to(gradient)
            expect(seen[when]["clipped"]).close_to(gradient.clamp(lo, hi))

    def test_a_second_tensor_has_its_own_log(seen, factors, lo, hi):
        for log, gradient, unit in (("beside a second tensor", factors[0], 1), ("log of the second", factors[1], 0.5)):
            expect(seen[log]["raw"]).close_to(gradient)
            expect(seen[log]["clipped"]).close_to(gradient.clamp(unit * lo, unit * hi))

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(3 * factors[0])
        expect(seen["gradient="]).close_to(up)
        expect(seen["values_kept"]).is_true("the values of t changed; the task is about its gradient")


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def entries(log: object) -> object:
    """Copies of what a dict holds now; any other value as it is."""
    return {key: snapshot(value) for key, value in log.items()} if isinstance(log, dict) else log


def log_is(seen: Seen, gradient: Tensor, lo: float, hi: float) -> bool:
    """Whether a log holds this gradient and its clamped version."""
    return close(seen["raw"], gradient) and close(seen["clipped"], gradient.clamp(lo, hi))


MAPS = {
    "scale": lambda grad, k: grad * k,
    "shift": lambda grad, k: grad + k,
    "limit": lambda grad, k: grad.clamp(-abs(k), abs(k)),
}
"""Functions of a gradient and a number that return a new tensor. In general they do not commute."""


@exercise(
    "03-register-composed",
    points=2,
    title="Compose functions with hooks",
    hints=(
        "In `f(g(x))` the inner function runs first. Which entry of `fs` is the innermost?",
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before.",
        "Register the functions from the last to the first, and collect the handles. One hook that calls all of them "
        "in that order works as well.",
    ),
    cases=(
        {"count": 3, "leaf": True, "dtype": torch.float32},
        {"count": 3, "leaf": False, "dtype": torch.float64},
        {"count": 4, "leaf": True, "dtype": torch.float32},
    ),
)
class TestRegisterComposed:
    """Write `register_composed(t, fs)`. `t` is a tensor that requires grad, leaf or not. `fs` is a list of one or
    more functions, each from a tensor to a new tensor of the same shape and dtype. From now on, in every backward pass,
    the gradient `g` that arrives at `t` is replaced by `fs[0](fs[1](...fs[-1](g)))`: the last function of the list is
    applied first. Each function is called exactly once for each pass, and never before the first.

    Return a list of all handles, one or more. When `remove()` was called on all of them, gradients pass as they are.
    The list `fs` stays as it is.

    **Example.** For a leaf `x = tensor([1.])` and `register_composed(x, [lambda g: g + 1, lambda g: g * 10])`, the
    call `(3 * x).sum().backward()` leaves `x.grad == tensor([31.])`.
    """

    def draw(rng, count, leaf, dtype):
        # A limit that is applied twice is the same as once, so it never stands at an end of the list.
        first, last = rng.shuffled(["scale", "shift"])
        kinds = [first, *rng.shuffled(["limit", rng.choice(("scale", "shift"))][: count - 2]), last]
        numbers = {"scale": (-2.0, -1.5, 0.5, 2.0), "shift": (-2.0, -1.0, 1.0, 2.5), "limit": (1.0, 1.5, 2.0)}
        return {
            "x": rng.tensor(3, dtype=dtype),
            "maps": [[kind, rng.choice(numbers[kind])] for kind in kinds],
            "factors": [rng.tensor(3, dtype=dtype) for _ in range(2)],
            "leaf": leaf,
        }

    def alive(maps, factors):
        g, ends, without_limit = factors[0], (maps[0], maps[-1]), [one for one in maps if one[0] != "limit"]
        found = [composed(maps, g), composed(maps[::-1], g), summed(maps, g), composed(without_limit, g), g]
        found += [composed([one] * times, g) for one in ends for times in (1, len(maps))]
        return not any(torch.allclose(a, b, atol=0.05) for i, a in enumerate(found) for b in found[:i])

    def probe(student, x, maps, factors, leaf):
        x.requires_grad_()
        t = x if leaf else 2 * x
        calls = []

        def counted(index, kind, k):
            def function(grad):
                calls.append(index)
                return MAPS[kind](grad, k)

            return function

        fs = [counted(index, kind, k) for index, (kind, k) in enumerate(maps)]
        given, hooks = list(fs), tensor_hooks(t)
        handles = student.register_composed(t, fs)
        seen = {"calls_before": calls[:50], "is_list": isinstance(handles, (list, tuple))}
        seen |= {"fs_kept": len(fs) == len(given) and all(a is b for a, b in zip(fs, given))}
        for number, factor in enumerate(factors):
            x.grad = None
            (t * factor).sum().backward(retain_graph=True)
            seen |= {f"x.grad of pass {number + 1}": snapshot(x.grad)}
        seen |= {"calls": calls[:50]}
        x.grad, second = None, torch.ones_like(x).requires_grad_()
        _kept = student.register_composed(second, [lambda grad: grad * 2])
        ((t + second) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad beside a second tensor": snapshot(x.grad), "second.grad": second.grad}
        x.grad = None
        seen |= {"has_remove": removed(handles), "hooks left": tensor_hooks(t) - hooks}
        (t * factors[0]).sum().backward()
        return {**seen, "x.grad after remove": x.grad, "calls_in_the_end": len(calls)}

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, maps, factors, leaf: first_is(seen, leaf, composed(maps[::-1], factors[0])),
            "You applied `fs[0]` first. Hooks run in the order in which they were registered, so the innermost "
            "function, `fs[-1]`, has to be registered first.",
        ),
        Mistake(
            "only-one-hook",
            lambda seen, maps, factors, leaf: any(
                first_is(seen, leaf, composed([one], factors[0])) for one in (maps[0], maps[-1])
            ),
            "Only one function of the list was applied. All of them have to be, each to the result of the one before.",
        ),
        Mistake(
            "not-chained",
            lambda seen, maps, factors, leaf: first_is(seen, leaf, summed(maps, factors[0])),
            "You gave the arriving gradient to each function and added up the results. Each function must receive the "
            "result of the one before.",
        ),
        Mistake(
            "late-binding",
            lambda seen, maps, factors, leaf: any(
                first_is(seen, leaf, composed([one] * len(maps), factors[0])) for one in (maps[0], maps[-1])
            ),
            "All your hooks call the same function: a lambda reads the loop variable when it runs, and by then it has "
            "its last value. Register `f` itself, or bind it: `lambda grad, f=f: f(grad)`.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, leaf: first_is(seen, leaf, factors[0]) and len(seen["calls"]) > 0,
        ),
    )

    def test_the_functions_are_applied_from_the_last_to_the_first(seen, maps, factors, leaf):
        for number, factor in enumerate(factors):
            expect(seen[f"x.grad of pass {number + 1}"]).close_to(fan(leaf) * composed(maps, factor))

    def test_each_function_is_called_once_for_each_pass(seen, maps):
        expect(seen["calls_before"]).equals([])
        expect(seen["calls"]).equals(2 * list(range(len(maps)))[::-1])

    def test_a_second_tensor_has_its_own_functions(seen, maps, factors, leaf):
        expect(seen["x.grad beside a second tensor"]).close_to(fan(leaf) * composed(maps, factors[0]))
        expect(seen["second.grad"]).close_to(2 * factors[0])

    def test_the_handles_remove_all_hooks(seen, maps, factors, leaf):
        expect(seen["is_list"]).is_true("the function did not return a list of handles")
        expect(seen["has_remove"]).is_true("the list holds something that has no remove() method")
        expect(seen["x.grad after remove"]).close_to(fan(leaf) * factors[0])
        expect(seen["hooks left"]).equals(0)
        expect(seen["calls_in_the_end"]).equals(3 * len(maps))

    def test_the_list_stays_as_it_is(seen):
        expect(seen["fs_kept"]).is_true("your function changed the caller's list fs")


def composed(maps: list[tuple[str, float]], gradient: Tensor) -> Tensor:
    """The functions of `maps` applied to a gradient, the last one first."""
    for kind, k in reversed(maps):
        gradient = MAPS[kind](gradient, k)
    return gradient


def summed(maps: list[tuple[str, float]], gradient: Tensor) -> Tensor:
    """The sum of the results of all functions, each applied to the same gradient."""
    return sum(MAPS[kind](gradient, k) for kind, k in maps)


def first_is(seen: Seen, leaf: bool, gradient: Tensor) -> bool:
    """Whether this is the gradient that left `t` in the first pass."""
    return close(seen["x.grad of pass 1"], fan(leaf) * gradient)


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
        t, neighbour = scene(x, other, leaf)
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
        expect(seen["hooks_on_x"]).equals(0)
        expect(seen["hooks_later"]).equals(0)
        expect(seen["requires_grad_kept"]).is_true("x did not require grad, and now it does")

    def test_without_gradients_the_values_come_back(seen, x, leaf):
        expect(seen["y under no_grad"]).close_to(fan(leaf) * x)
        expect(seen["y without grad"]).close_to(fan(leaf) * x)
        expect(seen["mode_kept"]).is_true("your function switched gradients on while the caller had them off")


BODIES = {
    "conv": lambda: (nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh()), nn.Linear(12, 2)),
    "unflatten": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Unflatten(1, (3, 2))), nn.Linear(6, 2)),
    "flat": lambda: (nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Linear(5, 3)),
}
"""A body and the linear layer that fits its output: of shape [B, 3, 2, 2], [B, 3, 2] and [B, 5]."""


def build(kind: str, state: list[Tensor], dtype: torch.dtype = torch.float32) -> tuple[nn.Module, nn.Linear]:
    """A body and its linear layer, with the drawn parameters."""
    body, fc = BODIES[kind]()
    with torch.no_grad():
        for parameter, value in zip([*body.parameters(), *fc.parameters()], state):
            parameter.copy_(value)
    return body.to(dtype), fc.to(dtype)


@exercise(
    "03-guarded-net",
    name="GuardedNet",
    points=3,
    title="A network that guards its gradients",
    hints=(
        "A parameter lives as long as the module: register the hook on `fc.bias` once, in `__init__`.",
        "The output of `body` is a new tensor in every forward pass: register its hook in `forward`, and only "
        "`if h.requires_grad`.",
        "The hook on the bias returns `torch.zeros_like(grad)`, which has the right shape and dtype at any time.",
    ),
    cases=(
        {"kind": "conv", "dtype": torch.float32, "batch": 2, "late": False},
        {"kind": "flat", "dtype": torch.float64, "batch": 3, "late": False},
        {"kind": "unflatten", "dtype": torch.float64, "batch": 2, "late": True},
        {"kind": "conv", "dtype": torch.float32, "batch": 1, "late": False},
    ),
)
class TestGuardedNet:
    """Write a class `GuardedNet(nn.Module)` with `__init__(self, body, fc, lo, hi)` and `forward(self, x)`. `body`
    is a module whose output has the shape `[B, ...]`, where `B` is the batch size. `fc` is an `nn.Linear` with a bias
    that requires grad. `lo` and `hi` are numbers with `lo < hi`.

    - `body` and `fc` become child modules under these names.
    - `forward(x)` returns `fc(body(x).flatten(1))`.
    - The gradient that arrives at the output of `body` is clamped, element by element, to the range from `lo` to `hi`
      before it goes on into `body`.
    - The gradient of `fc.bias` is exactly zero: `fc.bias.grad` is a tensor of zeros, not `None`. The gradient of
      `fc.weight` is as usual.

    This holds for any batch size, in float32 and in float64 (also when `net.double()` is called later), and for any
    number of forward passes before or after a backward pass. `forward` also works under `torch.no_grad()`, and with a
    frozen body (none of its parameters requires grad). The number of hooks on the modules and their parameters does not
    grow from one forward pass to the next.

    **Example.** Take `body = nn.ReLU()`, an `fc` with the weight `[[5., 0.5]]`, `net = GuardedNet(body, fc, -1.0, 1.0)`
    and a leaf `x = tensor([[1., 2.]])`. The call `net(x).sum().backward()` leaves `x.grad == tensor([[1.0, 0.5]])`,
    `fc.weight.grad == tensor([[1., 2.]])` and `fc.bias.grad == tensor([0.])`.
    """

    def draw(rng, kind, dtype, batch, late):
        body, fc = BODIES[kind]()
        shape = (2, 3, 3) if kind == "conv" else (4,)
        # Small values: tanh is not saturated, and the bounds reach activations as well as gradients.
        parameters = [
            rng.tensor(*p.shape, low=-0.75, high=0.75, away=0.125) for p in (*body.parameters(), *fc.parameters())
        ]
        return {
            "kind": kind,
            "state": parameters,
            "inputs": [rng.tensor(batch, *shape, low=-2, high=2, dtype=dtype) for _ in range(2)],
            "ups": [rng.tensor(batch, fc.out_features, dtype=dtype) for _ in range(2)],
            "lo": -rng.uniform(0.25, 0.75),
            "hi": rng.uniform(0.25, 0.75),
            "late": late,
        }

    def alive(kind, state, inputs, ups, lo, hi):
        first, second = (up.float() @ state[-2] for up in ups)
        between = torch.cat([first, second]).clamp(lo, hi)
        regions = (first < lo, first > hi, (between > lo) & (between < hi))
        if lo + hi == 0 or any((up.sum(0).abs() < 0.1).any() for up in ups) or not all(r.any() for r in regions):
            return False
        true, raw = truth(kind, state, inputs[0], ups[0], lo, hi), truth(kind, state, inputs[0], ups[0])
        apart = (
            (true["x"], raw["x"]),
            (true["body"][0], raw["body"][0]),
            (raw["body"][0], raw["body"][0].clamp(lo, hi)),
            (true["out"], clamped_forward(kind, state, inputs[0], lo, hi)),
        )
        return not any(torch.allclose(first, second, atol=0.02) for first, second in apart)

    def probe(student, kind, state, inputs, ups, lo, hi, late):
        dtype = inputs[0].dtype
        body, fc = build(kind, state, torch.float32 if late else dtype)
        net = student.GuardedNet(body, fc, lo, hi)
        if late:
            net.double()
        children = dict(net.named_children())
        seen = {"children": [name for name, child in (("body", body), ("fc", fc)) if children.get(name) is child]}

        def grads():
            return {
                "body": [snapshot(p.grad) for p in body.parameters()],
                "weight": snapshot(fc.weight.grad),
                "bias": snapshot(fc.bias.grad),
            }

        first, second = inputs
        first.requires_grad_()
        out = net(first)
        seen |= {"out": snapshot(out)}
        (out * ups[0]).sum().backward()
        seen |= {"first": grads(), "x.grad": snapshot(first.grad)}
        hooks = module_hooks(net)
        net.eval()
        outs = [net(second), net(first)]
        ((outs[0] * ups[1]).sum() + (outs[1] * ups[0]).sum()).backward()
        net.train()
        seen |= {"later": grads(), "hooks_added": module_hooks(net) - hooks}
        with torch.no_grad():
            seen |= {"out under no_grad": snapshot(net(second))}
        body.requires_grad_(False)
        for parameter in (*body.parameters(), *fc.parameters()):
            parameter.grad = None
        out = net(second)
        (out * ups[1]).sum().backward()
        return {**seen, "out of a frozen body": snapshot(out), "frozen": grads()}

    mistakes = (
        Mistake(
            "hook-without-grad",
            raises="doesn't require gradient",
            message="Under `no_grad`, or with a frozen body, the activation does not require grad, and then it takes "
            "no hook. Guard the registration in `forward` with `if h.requires_grad:`.",
        ),
        Mistake(
            "changed-dtype",
            raises="has changed the type of value",
            message="Your hook returned a tensor of another dtype than the gradient. Build it from the gradient inside "
            "the hook, with `torch.zeros_like(grad)`: `torch.zeros(shape)` is float32 in every model.",
        ),
        Mistake(
            "flattened-the-batch",
            raises=("shapes cannot be multiplied", "size mismatch"),
            message="The input of `fc` has the wrong shape: it needs one row for each sample. `view(-1)` and "
            "`flatten()` merge the samples of the batch; `flatten(1)` keeps them apart.",
        ),
        Mistake(
            "clamped-the-activation",
            lambda seen, kind, state, inputs, lo, hi: close(
                seen["out"], clamped_forward(kind, state, inputs[0], lo, hi)
            ),
            "You clamped the activation itself, so the output of the network changed. Clamp the gradient: a hook on "
            "the activation receives it.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, kind, state, inputs, ups: (
                close(seen["out"], truth(kind, state, inputs[0], ups[0])["out"])
                and (
                    close(seen["first"]["body"], truth(kind, state, inputs[0], ups[0])["body"])
                    or close(seen["first"]["bias"], ups[0].sum(0))
                )
            ),
            "The gradient at the output of `body`, or that of `fc.bias`, came through unchanged. Each of the two needs "
            "a hook, and a hook changes a gradient only by returning the new one.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, kind, state, inputs, ups, lo, hi: close(
                seen["first"]["body"],
                [gradient.clamp(lo, hi) for gradient in truth(kind, state, inputs[0], ups[0])["body"]],
            ),
            "You clamped the gradients of the parameters of `body`. The task is about the gradient of its output, "
            "before it goes on into `body`: hook the activation.",
        ),
        Mistake(
            "bias-without-grad",
            lambda seen: seen["first"]["bias"].value is None,
            "`fc.bias.grad` is `None`. The bias has to stay a parameter that requires grad; let a hook replace its "
            "gradient by zeros.",
        ),
        Mistake(
            "hook-in-forward",
            lambda seen, ups: (
                seen["hooks_added"].value > 0 and close(seen["first"]["bias"], torch.zeros_like(ups[0][0]))
            ),
            "Every forward pass adds a hook to something that lives on, such as `fc.bias`, and they pile up. Register "
            "such a hook once, in `__init__`. Only the activation is new in every pass.",
        ),
    )

    def test_the_gradient_at_the_output_of_body_is_clamped(seen, kind, state, inputs, ups, lo, hi):
        true = truth(kind, state, inputs[0], ups[0], lo, hi)
        expect(seen["x.grad"]).close_to(true["x"])
        expect(seen["first"]["body"]).has_length(len(true["body"]), "gradients")
        for entry, gradient in zip(seen["first"]["body"], true["body"]):
            expect(entry).close_to(gradient)

    def test_forward_is_fc_after_body(seen, kind, state, inputs, ups):
        first, second = (truth(kind, state, x, up)["out"] for x, up in zip(inputs, ups))
        expect(seen["out"]).close_to(first)
        expect(seen["out under no_grad"]).close_to(second)
        expect(seen["out of a frozen body"]).close_to(second)
        expect(seen["children"]).equals(["body", "fc"])

    def test_the_bias_gets_zeros_and_the_weight_its_gradient(seen, kind, state, inputs, ups):
        first, second = (truth(kind, state, x, up)["weight"] for x, up in zip(inputs, ups))
        for when, gradient in (("first", first), ("later", first + second + first)):
            expect(seen[when]["weight"]).close_to(gradient, atol=1e-4)
            expect(seen[when]["bias"]).close_to(torch.zeros_like(ups[0][0]), rtol=0, atol=0)

    def test_it_works_pass_after_pass(seen, kind, state, inputs, ups, lo, hi):
        first, second = (truth(kind, state, x, up, lo, hi)["body"] for x, up in zip(inputs, ups))
        expect(seen["later"]["body"]).has_length(len(first), "gradients")
        for entry, one, two in zip(seen["later"]["body"], first, second):
            expect(entry).close_to(2 * one + two, atol=1e-4)
        expect(seen["hooks_added"]).equals(0)

    def test_it_works_with_a_frozen_body(seen, kind, state, inputs, ups):
        expect(seen["frozen"]["weight"]).close_to(truth(kind, state, inputs[1], ups[1])["weight"])
        expect(seen["frozen"]["bias"]).close_to(torch.zeros_like(ups[1][0]), rtol=0, atol=0)


def truth(kind: str, state: list[Tensor], x: Tensor, up: Tensor,
          lo: float = -torch.inf, hi: float = torch.inf) -> dict[str, Tensor | list[Tensor]]:  # fmt: skip
    """One pass of `(fc(body(x).flatten(1)) * up).sum()`: the gradient at the output of body in closed form, clamped,
    and taken through body by `torch.autograd.grad`. Without `lo` and `hi` nothing is clamped.
    """
    body, fc = build(kind, state, x.dtype)
    x = x.detach().clone().requires_grad_()
    h = body(x)
    arriving = (up @ fc.weight.detach()).reshape(h.shape)
    *parameters, into_x = torch.autograd.grad(h, [*body.parameters(), x], arriving.clamp(lo, hi))
    features = h.detach().flatten(1)
    return {
        "out": features @ fc.weight.detach().T + fc.bias.detach(),
        "body": parameters,
        "x": into_x,
        "weight": up.T @ features,
    }


def clamped_forward(kind: str, state: list[Tensor], x: Tensor, lo: float, hi: float) -> Tensor:
    """The output when the activation is clamped instead of its gradient."""
    body, fc = build(kind, state, x.dtype)
    with torch.no_grad():
        return fc(body(x).clamp(lo, hi).flatten(1))
