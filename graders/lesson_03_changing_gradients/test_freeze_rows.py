"""Exercise 03-freeze-rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION


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
        no_hook_left(seen["hooks left"])


def without(gradient: Tensor, rows: list[int], dim: int = 0) -> Tensor:
    """The gradient with zeros in these rows (or along another dimension)."""
    return gradient.index_fill(dim, torch.tensor(rows, dtype=torch.long), 0)
