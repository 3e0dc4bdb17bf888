"""Exercise 03-freeze-rows."""

import torch

from graders.exercises.authoring import exercise, no_graph_for_zeros
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_hooks as hooks


@exercise(
    "03-freeze-rows",
    points=2,
    minutes=15,
    difficulty=2,
    title="Freeze some rows of a parameter",
    hints=(
        "The hook returns a copy of the gradient in which the rows are zero: `grad.clone()` first, then write into it.",
        "Or multiply by a mask that has one number for each row, 0 or 1. For a matrix it needs the shape `(n, 1)`.",
    ),
    why=(
        "The hook writes into a copy, because the gradient that it receives may belong to somebody else as well. "
        "Multiplying by a mask of zeros and ones would do, too, and needs no copy."
    ),
    scene=stories(
        promises={
            "the rows get zero and the others their gradient": hooks.changed_in_a_pass,
            "every pass adds nothing to the rows": hooks.EVERY_PASS,
            "the gradient can be differentiated again": hooks.differentiated_again,
            "any tensor and several at a time": hooks.several_at_a_time,
            "nothing else changes": hooks.NOTHING_ELSE,
            "the handle removes the hook and no other": hooks.HANDLES,
        },
        axes={**hooks.TENSOR, **hooks.ROWS},
        impossible=hooks.IMPOSSIBLE,
        arguments=hooks.some_rows,
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

    **Fine print.** `p` requires grad and has one or more dimensions. `rows` holds one or more indexes, none of them
    negative; an index may be in it twice. Gradients are finite. A pass may also be `torch.autograd.grad`; with
    `create_graph=True` the new gradient keeps its graph.
    """

    def reference(p, rows):
        return p.register_hook(lambda grad: grad.index_fill(0, torch.tensor(rows), 0.0))

    may_differ = {"the gradient differentiated": no_graph_for_zeros}

    class Mistakes:
        def forgot_return(p, rows):
            """All came through as if your hook were not there. Return the new gradient, since `None` keeps the old one.
            `grad[rows]` with a list is a copy, so `grad[rows].zero_()` zeroes only that copy, while `new[rows] = 0`
            zeroes the rows. And a `with` block takes its hook off.
            """
            return p.register_hook(lambda grad: None)

        def in_place_leak(p, rows):
            return p.register_hook(lambda grad: grad.index_fill_(0, torch.tensor(rows), 0.0))

        def cut_off_graph(p, rows):
            return p.register_hook(lambda grad: grad.detach().index_fill(0, torch.tensor(rows), 0.0))

        def wrong_hook_kind(p, rows):
            """You set rows of `.grad` to zero after each pass. So what they held before is lost, too, and
            `torch.autograd.grad`, which fills no `.grad`, still returns their gradient. Change the gradient itself:
            `register_hook`.
            """

            def hook(p):
                p.grad[rows] = 0

            return p.register_post_accumulate_grad_hook(hook)

        def wrong_axis(p, rows):
            """Your zeros are not in rows. Rows run along dimension 0: write `grad[rows]`, not `grad[:, rows]`. A mask
            of shape `(n,)` applies to the last dimension: for a matrix it needs the shape `(n, 1)`.
            """
            return p.register_hook(lambda grad: grad.index_fill(-1, torch.tensor(rows), 0.0))

        def wrong_axis__2(p, rows):
            mask = torch.ones(len(p), dtype=p.dtype)
            mask[rows] = 0
            return p.register_hook(lambda grad: grad * mask)

        def mask_of_a_matrix(p, rows):
            """A mask of shape `(n, 1)` fits a gradient of two dimensions, and `p` may have any number. Give the mask as
            many dimensions as the gradient has, or do without: `new[rows] = 0`, in a copy.
            """
            mask = torch.ones(len(p), 1, dtype=p.dtype)
            mask[rows] = 0

            def hook(grad):  # what PyTorch says of the size has its name in it
                return grad * mask

            return p.register_hook(hook)

        def mask_of_a_matrix__2(p, rows):
            mask = torch.ones(len(p), 1, dtype=p.dtype)
            mask[rows] = 0
            return p.register_hook(lambda grad: grad * mask)

        def subtracted_twice(p, rows):
            """A row that `rows` lists twice got the negative of its gradient: once for each index you subtract the
            gradient, or 1 from a mask. Write zeros, and it does not matter how often.
            """
            return p.register_hook(lambda grad: grad.index_add(0, torch.tensor(rows), grad[rows], alpha=-1))

        def froze_everything(p, rows):
            """`requires_grad` belongs to a whole tensor. It cannot be switched off for some rows, and switching it off
            for `p` takes the gradient away from all of them. Let a hook set the gradient of the rows to zero.
            """
            p[rows].requires_grad_(False)

        def hooked_a_copy(p, rows):
            """A new tensor, such as `p[rows]` or `p * 1`, is not what the loss uses, so a hook on it never fires. Hook
            `p` itself and choose the rows inside the hook.
            """
            return p[rows].register_hook(lambda grad: grad * 0)

        def a_list_of_handles(p, rows):
            """You returned a list, and one handle was asked for. Let one hook see to all rows, `new[rows] = 0`, and
            return its handle.
            """
            return [p.register_hook(lambda grad: grad.index_fill(0, torch.tensor(rows), 0.0))]

        def froze_the_others(p, rows):
            """It is the other way round: the rows that are listed kept their gradient, and the others got 0."""
            others = [row for row in range(len(p)) if row not in rows]
            return p.register_hook(lambda grad: grad.index_fill(0, torch.tensor(others, dtype=torch.long), 0.0))

        def zeroed_the_values(p, rows):
            """You set values of `p` to 0. They have to stay: it is the gradient that is 0 in these rows."""
            p.data[rows] = 0
            return p.register_hook(lambda grad: None)

        def only_one_row(p, rows):
            """Only one of the rows is frozen. `grad[rows]` takes the whole list at once. If you register a hook for
            each row: they all read the loop variable when they run, and by then it is the last row.
            """
            return p.register_hook(lambda grad: grad.index_fill(0, torch.tensor(rows[:1]), 0.0))

        def only_one_row__2(p, rows):
            return p.register_hook(lambda grad: grad.index_fill(0, torch.tensor(rows[-1:]), 0.0))

        def used_up(p, rows):
            """The first pass is right, and in the next ones every row gets 0: an iterator, as `filter(...)` and
            `(... for ...)` make it, is used up after one loop. Make a list of it.
            """
            others = iter([row for row in range(len(p)) if row not in rows])

            def hook(grad):
                new = torch.zeros_like(grad)
                for row in others:
                    new[row] = grad[row]
                return new

            return p.register_hook(hook)

        def a_range_of_rows(p, rows):
            """A slice, `grad[a:b]`, also has the rows in between, and it is empty if `a` is larger. `grad[rows]` takes
            just those that are listed.
            """
            frozen = torch.arange(len(p))[rows[0] : rows[-1] + 1]
            return p.register_hook(lambda grad: grad.index_fill(0, frozen, 0.0))
