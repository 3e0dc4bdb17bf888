"""Exercise 07-linear-grads."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import linear_layers


def at_output(lin, x, loss_fn):
    """dL/dy."""
    y = torch.nn.functional.linear(x, lin.weight, lin.bias).detach().requires_grad_()
    return torch.autograd.grad(loss_fn(y), y)[0]


@exercise(
    "07-linear-grads",
    points=3,
    minutes=25,
    difficulty=3,
    title="Rebuild the gradients of a linear layer",
    hints=(
        "For one row, `y = W x + b`. Then dL/dW is the outer product of dL/dy and x, and dL/db is dL/dy.",
        "Bring both to two dimensions: `x.reshape(-1, in_features)` and `g.reshape(-1, out_features)`. Then "
        "`g.T @ x` is the sum of the outer products of all rows.",
        "Rows add up: sum over them, do not average. To get dL/dy, let the loss start from a tensor of your own: "
        "`y = lin(x).detach().requires_grad_()`.",
    ),
    why=(
        "`detach()` cuts the graph behind the layer, so `backward()` stops at `y` and fills no `.grad` of the "
        "layer. `torch.autograd.grad(loss, y)` would do as well, and `einsum` in place of the matrix product."
    ),
    scene=stories(
        promises={
            "weight and bias have their gradients": linear_layers.rebuilt,
            "each call computes afresh": linear_layers.for_another_x,
            "any layer and any gradient": linear_layers.ANY_LAYER,
            "two calls at the same time do not disturb each other": linear_layers.called_inside,
            "they are copies without a graph": linear_layers.of_its_own,
            "nothing else changes": linear_layers.nothing_else,
            "an exception comes through and nothing is left": linear_layers.a_loss_raises,
        },
        axes=linear_layers.LINEAR,
        impossible=linear_layers.IMPOSSIBLE,
    ),
)
class TestLinearGrads:
    """Write `linear_grads(lin, x, loss_fn)`. `lin` is an `nn.Linear` with a bias. For `y = lin(x)` and the scalar
    `L = loss_fn(y)`, return the tuple of dL/dW and dL/db. Rebuild them from `x` and dL/dy; do not read them from the
    parameters.

    **Example.**

    >>> lin = torch.nn.Linear(2, 1)
    >>> lin.weight.data.fill_(1.0), lin.bias.data.fill_(0.0)
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> linear_grads(lin, x, lambda y: 10 * y.sum())
    (tensor([[40., 60.]]), tensor([20.]))

    **Fine print.** The caller's hooks on the parameters may change or erase what arrives there. `x` has one or more
    dimensions, the last one of size `lin.in_features`. At least one of `x`, the weight and the bias requires grad; what
    their `.grad` holds afterwards is not graded. `loss_fn` does not work in place or use `lin`, and also accepts a
    detached copy of `y`. Whether you call `lin` is up to you: hooks on it only watch.
    """

    def reference(lin, x, loss_fn):
        g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
        return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)

    class Mistakes:
        def reads_dot_grad(lin, x, loss_fn):
            """Your result was read from the parameters. There one of the caller's hooks may erase what arrives, and a
            frozen parameter gets nothing. Compute it from `x` and the gradient of the output.
            """
            lin.weight.grad = lin.bias.grad = None
            loss_fn(lin(x)).backward()
            return lin.weight.grad.clone(), lin.bias.grad.clone()

        def reads_dot_grad__2(lin, x, loss_fn):
            return torch.autograd.grad(loss_fn(lin(x)), (lin.weight, lin.bias))

        def reads_dot_grad__3(lin, x, loss_fn):
            loss_fn(lin(x)).backward()
            return lin.weight.grad, lin.bias.grad

        def matrix_only(lin, x, loss_fn):
            """An `x` of one dimension is one row, and `flatten(0, -2)` needs two dimensions. `reshape(-1,
            lin.in_features)` makes rows of any `x`.
            """
            g = at_output(lin, x, loss_fn).flatten(0, -2)
            return g.T @ x.detach().flatten(0, -2), g.sum(0)

        def transposed(lin, x, loss_fn):
            """Your gradient is transposed. `lin.weight` has the shape (out_features, in_features): the gradient of the
            output comes first, then `x`.
            """
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return x.detach().reshape(-1, lin.in_features).T @ g, g.sum(0)

        def reshaped_not_transposed(lin, x, loss_fn):
            """`g.reshape(lin.out_features, -1)` is not the transpose: the values stay in their order. Make rows first,
            and then `g.T` swaps rows and columns.
            """
            g = at_output(lin, x, loss_fn)
            rows = x.detach().reshape(-1, lin.in_features)
            return g.reshape(lin.out_features, -1) @ rows, g.reshape(-1, lin.out_features).sum(0)

        def without_the_bias(lin, x, loss_fn):
            """Your `y` lacks the bias, so `loss_fn` does not get what the layer returns: compute `lin(x)`."""
            y = (x @ lin.weight.T).detach().requires_grad_()
            g = torch.autograd.grad(loss_fn(y), y)[0].reshape(-1, lin.out_features)
            return g.T @ x.detach().reshape(-1, lin.in_features), g.sum(0)

        def mean_instead_of_sum(lin, x, loss_fn):
            """Your result is too small by the number of rows. Every row uses the same weights, and the gradients of
            several uses add up: sum over the rows, do not average.
            """
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return g.T @ x.detach().reshape(-1, lin.in_features) / len(g), g.mean(0)

        def two_dimensions_only(lin, x, loss_fn):
            """Your function works for a matrix, but `x` may have one dimension, or three. Flatten the leading
            dimensions into rows first: `x.reshape(-1, lin.in_features)`.
            """
            g = at_output(lin, x, loss_fn)
            return g.T @ x.detach(), g.sum(0)

        def view_of_strides(lin, x, loss_fn):
            """`view` needs values that lie in memory in the usual order, and those of `x` may not: use `reshape`."""
            g = at_output(lin, x, loss_fn).view(-1, lin.out_features)
            return g.T @ x.detach().view(-1, lin.in_features), g.sum(0)

        def view_of_strides__2(lin, x, loss_fn):
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return g.T @ x.detach().view(-1, lin.in_features), g.sum(0)

        def swapped(lin, x, loss_fn):
            """The gradient of the weight comes first, then that of the bias."""
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return g.sum(0), g.T @ x.detach().reshape(-1, lin.in_features)

        def sum_of_rows_only(lin, x, loss_fn):
            """`g.sum(0)` adds up along the first dimension, and `x` may have one dimension, or three: flatten the
            leading ones into rows first.
            """
            g = at_output(lin, x, loss_fn)
            return g.reshape(-1, lin.out_features).T @ x.detach().reshape(-1, lin.in_features), g.sum(0)

        def product_of_sums(lin, x, loss_fn):
            """You multiplied two sums over the rows. The gradient of the weight is the sum of the products, row by row:
            `g.T @ x` adds them up.
            """
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return torch.outer(g.sum(0), x.detach().reshape(-1, lin.in_features).sum(0)), g.sum(0)

        def mean_for_the_bias(lin, x, loss_fn):
            """The gradient of the bias is too small by the number of rows: every row uses the same bias, so add up, do
            not average.
            """
            g = at_output(lin, x, loss_fn).reshape(-1, lin.out_features)
            return g.T @ x.detach().reshape(-1, lin.in_features), g.mean(0)
