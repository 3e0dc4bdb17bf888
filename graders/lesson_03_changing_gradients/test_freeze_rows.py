"""Exercise 03-freeze-rows."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

import torch

from graders.authoring import exercise, no_graph_for_zeros
from graders.scenes.given import as_many_rows_as_columns, some_rows
from graders.scenes.tensor_hooks import changes_gradient


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
    scene=changes_gradient(
        arguments=some_rows,
        shape=as_many_rows_as_columns,
        special=[([0, 1, 2, 3, 4],), ([0, 2],)],
        only={
            "dtype": ("float32", "float64", "bfloat16"),
            "rank": (1, 2, 3),
            "place": ("parameter",),
            "number": (),
        },
        words={
            "task": "the rows get zero and the others their gradient",
            "passes": "every pass adds nothing to the rows",
        },
    ),
)
class TestFreezeRows:
    """Write `freeze_rows(p, rows)`: from now on, in every backward pass, the gradient of the parameter `p` is 0 in the
    rows listed in `rows` (indexes along dimension 0), and unchanged in all others. Return the handle.

    **Example.**

    >>> p = nn.Parameter(torch.ones(3, 2))
    >>> handle = freeze_rows(p, [0, 2])
    >>> (5 * p).sum().backward()
    >>> p.grad
    tensor([[0., 0.],
            [5., 5.],
            [0., 0.]])

    **Fine print.** `p` requires grad, has one dimension or more, and is of any floating dtype. `rows` holds one index
    or more, each 0 or more; an index may stand in it twice. No gradient is infinite or NaN.
    """

    def reference(p, rows):
        others = torch.tensor([[row not in rows] for row in range(len(p))]).to(p.dtype)
        return p.register_hook(lambda grad: (grad.reshape(len(p), -1) * others).reshape(p.shape))

    free = {"x.grad differentiated": no_graph_for_zeros}

    class Mistakes:
        def forgot_return(p, rows):
            return p.register_hook(lambda grad: None)

        def in_place_leak(p, rows):
            return p.register_hook(lambda grad: grad.index_fill_(0, torch.tensor(rows), 0.0))

        def cut_off_graph(p, rows):
            return p.register_hook(lambda grad: grad.detach().index_fill(0, torch.tensor(rows), 0.0))

        def changed_dtype(p, rows):
            mask = torch.ones(len(p), *[1] * (p.dim() - 1))
            mask[rows] = 0
            return p.register_hook(lambda grad: grad * mask)

        def changed_dtype__2(p, rows):
            def hook(grad):
                new = torch.zeros(grad.shape)
                for row in set(range(len(grad))) - {*rows}:
                    new[row] = grad[row]
                return new

            return p.register_hook(hook)

        def wrong_hook_kind(p, rows):
            """You set rows of `.grad` to zero after each pass. So what they held before is lost, too, and
            `torch.autograd.grad`, which fills no `.grad`, gives the rows. Change the gradient itself: `register_hook`.
            """

            def hook(p):
                p.grad[rows] = 0

            return p.register_post_accumulate_grad_hook(hook)

        def wrong_axis(p, rows):
            """Your zeros do not stand in rows. Rows lie along dimension 0: write `grad[rows]`, not `grad[:, rows]`. A
            mask with one number for each row needs as many dimensions as `grad`: the shape `(n, 1)` for a matrix,
            `(n, 1, 1)` for three dimensions. With fewer it applies to a later dimension.
            """
            return p.register_hook(lambda grad: grad.index_fill(-1, torch.tensor(rows), 0.0))

        def wrong_axis__2(p, rows):
            def hook(grad):
                grad = grad.clone()
                grad[:, rows] = 0
                return grad

            return p.register_hook(hook)

        def mask_of_another_shape(p, rows):
            """Your mask does not fit the gradient. It needs one number for each row and as many dimensions as `grad`:
            the shape `(n, 1)` for a matrix, `(n, 1, 1)` for three dimensions. And it belongs to one parameter: do not
            keep it for others, which may have another shape.
            """
            mask = torch.ones(len(p), 1, dtype=p.dtype)
            mask[rows] = 0
            return p.register_hook(lambda grad: grad * mask)

        def mask_of_another_shape__2(p, rows):
            mask = torch.ones(len(p), dtype=p.dtype)
            mask[rows] = 0
            return p.register_hook(lambda grad: grad * mask)

        def froze_everything(p, rows):
            """`requires_grad` belongs to a whole tensor. It cannot be switched off for some rows, and switched off for
            `p` it takes the gradient from all of them. Let a hook set the gradient of the rows to zero.
            """
            p[rows].requires_grad_(False)

        def froze_everything__2(p, rows):
            p.requires_grad_(False)
            return p.register_hook(lambda grad: None)

        def froze_everything__3(p, rows):
            handle = p.register_hook(lambda grad: None)
            p.requires_grad_(False)
            return handle

        def changed_values(p, rows):
            p.data[rows] = 0
            return p.register_hook(lambda grad: None)

        def changed_values__2(p, rows):
            old = p.detach().clone()

            def hook(grad):
                p.data[rows] = old[rows]
                return grad.index_fill(0, torch.tensor(rows), 0.0)

            return p.register_hook(hook)

        def an_index_counts_twice(p, rows):
            """An index that stands twice in `rows` counted twice in your mask. Set its entry to 0, however often it
            comes.
            """
            mask = torch.ones(len(p), *[1] * (p.dim() - 1), dtype=p.dtype)
            for row in rows:
                mask[row] -= 1
            return p.register_hook(lambda grad: grad * mask)

        def an_index_counts_twice__2(p, rows):
            mask = torch.ones(len(p), *[1] * (p.dim() - 1), dtype=p.dtype)
            for row in rows:
                mask[row] = 1 - mask[row]
            return p.register_hook(lambda grad: grad * mask)

        def hooked_a_copy(p, rows):
            """`p[rows]` is a new tensor that the loss does not use, so a hook on it never fires. Hook `p` itself and
            choose the rows inside the hook.
            """
            return p[rows].register_hook(lambda grad: grad * 0)

        def hooked_a_copy__2(p, rows):
            return [p[row].register_hook(lambda grad: grad * 0) for row in rows][-1]

        def inverted_mask(p, rows):
            """You froze all the other rows. The rows in `rows` get zero, the others keep their gradient."""
            return p.register_hook(lambda grad: grad - grad.index_fill(0, torch.tensor(rows), 0.0))
