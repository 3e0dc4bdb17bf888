"""Exercise 03-freeze-rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
    paired,
    removed,
)
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, differentiated_as, start, times
from graders.lesson_03_changing_gradients.shared import TINY, accumulated, after_remove, flow, in_another_order, scene

EXTREMES = (1e30, 1e6, 1e-6, 1e-30)
"""Gradients far from 1."""


@exercise(
    "03-freeze-rows",
    points=2,
    minutes=15,
    difficulty=2,
    title="Freeze some rows of a parameter",
    hints=(
        "The hook returns a copy of the gradient in which the rows are zero: `grad.clone()` first, then write into it.",
        "Or multiply by a mask that has one number for each row, 0 or 1. For a matrix it needs the shape `(n, 1)`.",
        "A mask needs the dtype of the gradient. `torch.ones_like(grad)` has it; `torch.ones(n)` is always float32.",
    ),
    why=(
        "The hook writes into a copy, because the gradient that it receives may belong to somebody else as well. "
        "Multiplying by a mask of zeros and ones would do, too, and needs no copy; give the mask the dtype of the "
        "gradient."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3, 4), "layout": ALL, "values": ALL, "place": ("parameter",), "grad": ALL,
            "collection": ALL, "hooks": ALL, "call": ALL, "grad_mode": ("on",), "backward": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
            "failure": "the function calls nothing of the caller",
        },
        own={"all_rows": ("no", "yes")},
        impossible=[lambda all_rows, collection: all_rows == "yes" and collection != "many"],
    ),
)  # fmt: skip
class TestFreezeRows:
    """Write `freeze_rows(p, rows)`. `p` is an `nn.Parameter` that requires grad, of any floating dtype and with one
    dimension or more. `rows` is a list of indexes along dimension 0, each 0 or more. It may be empty, and an index may
    stand in it twice. From now on, in every backward pass, the gradient of `p` is exactly 0 in these rows and unchanged
    in all others: a pass adds nothing to these rows of `p.grad`. No gradient is infinite or NaN. Return the handle.

    **Example.** For `p` of shape `(3, 2)` and `freeze_rows(p, [0, 2])`, the loss `(5 * p).sum()` gives
    `p.grad == tensor([[0., 0.], [5., 5.], [0., 0.]])`.
    """

    def draw(rng, dtype, rank, layout, values, collection, all_rows):
        count = rng.integer(3, 4)
        # As many rows as entries in the last dimension: a mask of the wrong shape shows in numbers.
        shape = (count, *rng.shape(max(rank - 2, 0)), *[count] * (rank > 1))
        some = rng.shuffled(range(count))[: {"empty": 0, "one": 1}.get(collection, 2)]
        return {
            **{name: rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for name in ("p", "other", "up")},
            "factors": [rng.tensor(*shape, dtype=dtype, values=values, layout=layout) for _ in range(2)],
            "rows": rng.shuffled(range(count)) if all_rows == "yes" else some + some[: collection == "repeated"],
            "rare_up": rng.tensor(count, 3, 2, dtype=dtype, values=values),
        }

    def probe(student, p, other, factors, up, rows, rare_up, layout, place, grad, hooks, backward):
        surroundings = Witness()
        free, example = (nn.Parameter(torch.ones(3, 2)) for _ in range(2))  # the very first calls count, too
        handle = student.freeze_rows(free, [1])
        (5 * free).sum().backward()
        removed(handle)
        student.freeze_rows(example, [0, 2])
        (5 * (free + example)).sum().backward()
        p, _, neighbour = scene(p, other, layout, place, grad, hooks)
        factors = [laid_out(factor, layout) for factor in factors]
        second = nn.Parameter(torch.ones_like(p))
        half = nn.Parameter(torch.ones(len(p), 2, dtype=torch.bfloat16))
        witness = Witness(p=p, other=other, factors=factors, rows=rows)
        same_rows = [*rows]
        handle = student.freeze_rows(p, rows)
        seen = {"changed": witness.changes()}
        # A handle may keep its hook alive.
        turned = nn.Parameter(torch.zeros_like(rare_up))
        _kept = [
            student.freeze_rows(t, which) for t, which in ((second, [0]), (half, same_rows), (turned, [*same_rows]))
        ]
        seen |= flow(p, lambda: p, other, neighbour, factors, up, backward)
        ((p + second) * factors[0]).sum().backward(inputs=[second])
        (3 * half).sum().backward()
        turned.backward(gradient=in_another_order(rare_up))
        sizes = [nn.Parameter(torch.ones(3, 2)) for _ in EXTREMES]
        for size, t in zip(EXTREMES, sizes):
            _kept.append(student.freeze_rows(t, [0, 2]))
            t.data.fill_(2.0)  # as an optimizer does
            (size * t).sum().backward()
        seen["gradients of other sizes"] = [t.grad for t in sizes]
        seen["a parameter that an optimizer has changed"] = sizes[0].detach()
        seen["the gradient that lies in another order"] = turned.grad
        seen |= {"the gradient of a second tensor": second.grad, "the gradient of a bfloat16 tensor": half.grad}
        seen |= {"x.grad after two passes": accumulated(p, p, neighbour, factors)}
        twice = student.freeze_rows(p, [0])
        seen |= {"x.grad with two hooks": flow(p, lambda: p, other, neighbour, factors, up, "plain")["x.grad"]}
        seen |= after_remove("first_handle", handle, p, p, factors[0])
        seen |= after_remove("second_handle", twice, p, p, factors[0])
        seen["changed around it"] = surroundings.changes()
        return {
            **seen,
            "changed in the end": witness.changes(),
            "example": example.grad,
            "the very first": free.grad,
        }

    mistakes = (
        Mistake(
            "in-place-leak",
            lambda seen, factors, rows: rows and close(seen["neighbour.grad"], -without(factors[0], rows)),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, rows, hooks: (
                close(seen["example"], 5.0)
                and close(seen["x.grad"], times(hooks) * factors[0])
                and close(seen["neighbour.grad"], -factors[0])
                and changes(seen["changed"], "hook-left *")
                and not changes(seen["changed"], "values *")
            ),
            everywhere=True,
        ),
        Mistake(
            "changed-dtype",
            lambda seen, factors: (
                seen["x.grad"].tensor is not None and seen["x.grad"].tensor.dtype is not factors[0].dtype
            ),
            raises=("has changed the type of value", "source and destination dtypes match"),
        ),
        Mistake(
            "wrong-axis",
            lambda seen, factors, rows, hooks: (
                rows
                and any(close(seen["x.grad"], times(hooks) * wrong) for wrong in masked_elsewhere(factors[0], rows))
                and not close(seen["x.grad"], times(hooks) * without(factors[0], rows))
            ),
            "Your zeros do not stand in rows. Rows lie along dimension 0: write `grad[rows]`, not `grad[:, rows]`. A "
            "mask with one number for each row needs as many dimensions as `grad`: the shape `(n, 1)` for a matrix, "
            "`(n, 1, 1)` for three dimensions. With fewer it applies to a later dimension.",
            raises=("too many indices", "Dimension out of range", "is out of bounds for dimension"),
        ),
        Mistake(
            "mask-of-another-shape",
            raises=("must match the size of tensor", "has changed the size of value"),
            message="Your mask does not fit the gradient. It needs one number for each row and as many dimensions as "
            "`grad`: the shape `(n, 1)` for a matrix, `(n, 1, 1)` for three dimensions. And it belongs to one "
            "parameter: do not keep it for others, which may have another shape.",
        ),
        Mistake(
            "froze-everything",
            lambda seen: seen["x.grad"].value is None,
            "`requires_grad` belongs to a whole tensor. It cannot be switched off for some rows, and switched off for "
            "`p` it takes the gradient from all of them. Let a hook set the gradient of the rows to zero.",
            raises=(
                "you can only change requires_grad flags of leaf variables",
                NO_GRADIENT_TO_HOOK,
                "does not require grad",
            ),
        ),
        Mistake(
            "changed-values",
            lambda seen: (
                changes(seen["changed in the end"], "values p")
                or not close(seen["a parameter that an optimizer has changed"], 2.0)
            ),
        ),
        Mistake(
            "an-index-counts-twice",
            lambda seen, factors, rows, collection, hooks: (
                collection == "repeated"
                and any(close(seen["x.grad"], times(hooks) * counted(factors[0], rows, k)) for k in (-1, 1))
            ),
            "An index that stands twice in `rows` counted twice in your mask. Set its entry to 0, however often it "
            "comes.",
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen, factors, rows, hooks: (
                close(seen["example"], 5.0)
                and close(seen["x.grad"], times(hooks) * factors[0])
                and seen["changed"].value == []
                and seen["first_handle has remove()"].value is True
            ),
            "`p[rows]` is a new tensor that the loss does not use, so a hook on it never fires. Hook `p` itself and "
            "choose the rows inside the hook.",
        ),
        Mistake(
            "inverted-mask",
            lambda seen, factors, rows, hooks: close(
                seen["x.grad"], times(hooks) * (factors[0] - without(factors[0], rows))
            ),
            "You froze all the other rows. The rows in `rows` get zero, the others keep their gradient.",
            everywhere=True,
        ),
        Mistake(
            "empty-rows",
            raises=("tensors used as indices must be", "Expected dtype int64 for index"),
            message="`torch.tensor([])` is a float tensor, and a float tensor cannot be an index. For an empty `rows`, "
            "index with the list itself, or write `torch.tensor(rows, dtype=torch.long)`.",
        ),
    )

    def test_the_rows_get_zero_and_the_others_their_gradient(seen, factors, up, rows, hooks):
        for name, arriving in (
            ("x.grad", factors[0]),
            ("x.grad of another pass", factors[1]),
            ("x.grad of a pass, read after the next pass", factors[0]),
            ("x.grad of a sum", torch.ones_like(up)),
            ("x.grad of gradient=", up),
            ("x.grad of zeros", torch.zeros_like(up)),
            ("x.grad of a tiny gradient", torch.full_like(up, TINY)),
            ("x.grad of two uses", factors[0] + factors[1]),
        ):
            expect(seen[name]).close_to(without(times(hooks) * arriving, rows), rtol=0, atol=0)
        expect(seen["example"]).close_to(torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]]), rtol=0, atol=0)

    def test_every_pass_adds_nothing_to_the_rows(seen, factors, up, rows, grad, hooks):
        total = start(up, grad) + times(hooks) * without(factors[0] + factors[1], rows)
        expect(seen["x.grad after two passes"]).close_to(total)

    def test_the_gradient_can_be_differentiated_again(seen, factors, rows, hooks):
        every = torch.full_like(factors[0], times(hooks))
        differentiated_as(seen["x.grad differentiated"], without(every, rows))

    def test_any_parameter_and_several_at_a_time(seen, factors, rows, rare_up, hooks):
        expect(seen["the gradient that lies in another order"]).close_to(without(rare_up, rows), rtol=0, atol=0)
        expect(seen["the gradient of a second tensor"]).close_to(without(factors[0], [0]))
        for entry, size in paired(seen["gradients of other sizes"], EXTREMES):
            right = torch.tensor([[0.0], [size], [0.0]]).expand(3, 2)
            expect(Seen(entry.value, f"a gradient of {size:g}")).close_to(right, rtol=0, atol=0)
        threes = torch.full((len(factors[0]), 2), 3, dtype=torch.bfloat16)
        expect(seen["the gradient of a bfloat16 tensor"]).close_to(without(threes, rows), rtol=1e-2, atol=0)
        expect(seen["x.grad with two hooks"]).close_to(times(hooks) * without(factors[0], [*rows, 0]))

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, -1))
        expect(seen["gradient="]).close_to(up)
        nothing_changed(seen["changed"], but=["hook-left p"])
        expect(seen["a parameter that an optimizer has changed"]).close_to(torch.full((3, 2), 2.0))
        nothing_changed(seen["changed around it"])

    def test_the_handle_removes_the_hook_and_no_other(seen, factors, rows, hooks):
        for handle, left in (("first_handle", [0]), ("second_handle", [])):
            expect(seen[f"{handle} has remove()"]).is_true("the function returned nothing that has a remove() method")
            expect(seen[f"x.grad after {handle}.remove()"]).close_to(times(hooks) * without(factors[0], left))
        first = Seen(seen["the very first"].value, "`.grad` after a pass, `remove()`, and another pass")
        expect(first).close_to(torch.tensor([[10.0, 10.0], [5.0, 5.0], [10.0, 10.0]]))
        nothing_changed(seen["changed in the end"], but=["grad-* *"], when="after `remove()`")


def without(gradient: Tensor, rows: list[int], dim: int = 0) -> Tensor:
    """The gradient with zeros in these rows (or along another dimension)."""
    return gradient.index_fill(dim, torch.tensor(rows, dtype=torch.long), 0)


def counted(gradient: Tensor, rows: list[int], k: int) -> Tensor:
    """The gradient with zeros in these rows, and `k` times itself in the first, which stands twice."""
    found = without(gradient, rows)
    found[rows[0]] = k * gradient[rows[0]]
    return found


def masked_elsewhere(gradient: Tensor, rows: list[int]) -> list[Tensor]:
    """The gradient with zeros along each later dimension that has as many entries."""
    return [without(gradient, rows, dim) for dim in range(1, gradient.dim()) if max(rows) < gradient.shape[dim]]
