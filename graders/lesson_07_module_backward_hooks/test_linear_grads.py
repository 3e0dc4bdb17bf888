"""Exercise 07-linear-grads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import (
    Mistake,
    Seen,
    close,
    exercise,
    expect,
    expecting_boom,
    module_hooks,
    no_hook_left,
    snapshot,
    tensor_hooks,
)
from graders.lesson_07_module_backward_hooks.judging import did_not_fail, settings_stay
from graders.lesson_07_module_backward_hooks.shared import copied, linear, noting_errors, raise_boom, settings

LINEAR_LOSSES = {"linear": lambda y, up: (up * y).sum(), "square": lambda y, up: (up * y * y).sum()}


@exercise(
    "07-linear-grads",
    points=3,
    title="Rebuild the gradients of a linear layer",
    hints=(
        "For one row, `y = W x + b`. Then dL/dW is the outer product of dL/dy and x, and dL/db is dL/dy.",
        "Bring both to two dimensions: `x.reshape(-1, in_features)` and `g.reshape(-1, out_features)`. Then "
        "`g.T @ x` is the sum of the outer products of all rows.",
        "Rows add up: sum over them, do not average. To get dL/dy, let the loss start from a tensor of your own: "
        "`y = lin(x).detach().requires_grad_()`.",
    ),
    cases=(
        {"lead": [4], "loss": "square", "x_grad": False},
        {"lead": [2, 3], "loss": "linear", "x_grad": True},
        {"lead": [], "loss": "square", "x_grad": False},
    ),
)
class TestLinearGrads:
    """Write `linear_grads(lin, x, loss_fn)`. `lin` is an `nn.Linear` with a bias, and `loss_fn` is a function from its
    output to a scalar. For `y = lin(x)` and `L = loss_fn(y)`, return the tuple of dL/dW and dL/db, with the shapes of
    `lin.weight` and `lin.bias`, without a graph.

    Rebuild them from `x` and dL/dy. Do not read them from the parameters: these may carry hooks of the caller which
    change or erase the gradients that arrive there, and your result must not be affected by them.

    `x` has one dimension or more; the last one has `lin.in_features` entries. It may require grad or not, and it need
    not be contiguous. What the `.grad` of `x` and of the parameters holds afterwards is not graded. Their values and
    their `requires_grad` stay as they are, the mode of `lin` and the hooks of the caller stay, and no hook of yours is
    left, even when the loss raises; the exception comes through.

    **Example.** For a `lin` with weight `[[1., 1.]]` and bias `[0.]`, `x = tensor([[1., 2.], [3., 4.]])` and
    `loss_fn = lambda y: 10 * y.sum()` the result is `(tensor([[40., 60.]]), tensor([20.]))`.
    """

    def draw(rng, lead, loss, x_grad):
        return {
            "weight": rng.tensor(2, 3),
            "bias": rng.tensor(2),
            "x": rng.tensor(*lead, 3),
            "up": rng.tensor(*lead, 2),
            "loss": loss,
            "x_grad": x_grad,
        }

    def alive(weight, bias, x, up, loss):
        weight_gradient, bias_gradient = twin_gradients(weight, bias, x, up, loss)
        return bool(weight_gradient.abs().max() > 0.5 and bias_gradient.abs().min() > 0.1)

    def probe(student, weight, bias, x, up, loss, x_grad):
        lin = linear(weight, bias).train(not x_grad)
        x.requires_grad_(x_grad)
        for parameter in lin.parameters():
            parameter.register_hook(torch.zeros_like)
        lin.register_forward_hook(lambda *_: None)
        hooks = module_hooks(lin) + tensor_hooks(x)
        before = [lin.weight.detach().clone(), lin.bias.detach().clone(), x.detach().clone()]
        old_settings = settings(lin, x)
        grads = student.linear_grads(lin, x, lambda y: LINEAR_LOSSES[loss](y, up))
        parts = grads if type(grads) in (tuple, list) else []
        seen = {
            "grads": copied(grads),
            "requires_grad": [one.requires_grad for one in parts if isinstance(one, Tensor)],
            "values_kept": all(torch.equal(a, b) for a, b in zip(before, (lin.weight, lin.bias, x))),
            "settings_kept": settings(lin, x) == old_settings,
            "hooks": module_hooks(lin) + tensor_hooks(x) - hooks,
        }
        with expecting_boom(seen):
            student.linear_grads(lin, x, raise_boom)
        seen["hooks_after_exception"] = module_hooks(lin) + tensor_hooks(x) - hooks
        seen["settings_after_exception"] = settings(lin, x) == old_settings
        turned = x.detach().mT.contiguous().mT if x.dim() > 1 else x.detach()
        seen["turned"] = noting_errors(
            lambda: {"grads": copied(student.linear_grads(lin, turned, lambda y: LINEAR_LOSSES[loss](y, up)))}
        )
        lin.weight.grad = None
        lin.weight.requires_grad_()
        lin(x).sum().backward()
        return {**seen, "erased": snapshot(lin.weight.grad)}

    mistakes = (
        Mistake(
            "reads-dot-grad",
            lambda seen: close(seen["grads"][0], 0.0) and close(seen["grads"][1], 0.0),
            "Your result is zero: it was read from the parameters, and a hook of the caller has erased the gradients "
            "there. Compute it from `x` and the gradient of the output.",
        ),
        Mistake(
            "transposed",
            lambda seen, weight, bias, x, up, loss: close(
                seen["grads"][0], twin_gradients(weight, bias, x, up, loss)[0].T
            ),
            "Your gradient is transposed. `lin.weight` has the shape (out_features, in_features): the gradient of the "
            "output comes first, then `x`.",
        ),
        Mistake(
            "mean-instead-of-sum",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() > 1
                and any(
                    close(mine, right / rows)
                    for mine, right in zip(seen["grads"], twin_gradients(weight, bias, x, up, loss))
                    for rows in (x[..., 0].numel(), x.shape[0])
                )
            ),
            "Your result is too small by the number of rows. Every row uses the same weights, and the gradients of "
            "several uses add up: sum over the rows, do not average.",
        ),
        Mistake(
            "two-dimensions-only",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() != 2
                and not close(seen["grads"][0], 0.0)
                and (
                    seen["grads"][0].tensor.dim() > 2
                    or (seen["grads"][0].tensor.dim() == 2 and seen["grads"][1].tensor.shape == up.sum(0).shape)
                )
            ),
            "This works for a matrix, but `x` may have one dimension, or three. Flatten the leading dimensions into "
            "rows first: `x.reshape(-1, lin.in_features)`.",
            raises=("must match the size", "cannot be multiplied", "Expected size for", "batch1 must be a 3D"),
        ),
        Mistake(
            "last-row-only",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() > 1 and close(seen["grads"][0], row_gradient(weight, bias, x, up, loss))
            ),
            "Your result is the gradient of one row. Every row of `x` contributes: add them up.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, weight, bias, x, up, loss: (
                seen["hooks"].value > 0 and close(seen["grads"], list(twin_gradients(weight, bias, x, up, loss)))
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            "The loss raised an exception, and your hook is still there. Put `remove()` into `finally`, or use the "
            "handle as a context manager.",
        ),
    )

    def test_weight_and_bias_have_their_gradients(seen, weight, bias, x, up, loss):
        weight_gradient, bias_gradient = twin_gradients(weight, bias, x, up, loss)
        expect(seen["grads"][0]).close_to(weight_gradient)
        expect(seen["grads"][1]).close_to(bias_gradient)

    def test_the_memory_of_x_may_be_laid_out_otherwise(seen, weight, bias, x, up, loss):
        did_not_fail(seen["turned"], "With an `x` that is not contiguous")
        for mine, right in zip(("weight", "bias"), twin_gradients(weight, bias, x, up, loss)):
            gradient = seen["turned"]["grads"][0 if mine == "weight" else 1]
            expect(Seen(gradient.value, f"dL/d{mine} for an x that is not contiguous")).close_to(right, detached=False)

    def test_they_have_no_graph(seen):
        expect(seen["requires_grad"]).equals([False, False])

    def test_values_settings_and_hooks_of_the_caller_stay(seen):
        expect(seen["values_kept"]).is_true("the values of x or of the parameters changed")
        settings_stay(seen)
        expect(seen["settings_after_exception"]).is_true(
            "after an exception the mode or the `requires_grad` of something is not as it was"
        )
        expect(seen["erased"]).close_to(torch.zeros(2, 3))

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks"])
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])


def twin_gradients(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Both gradients by autograd on a clean twin."""
    weight, bias = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    y = nn.functional.linear(x.detach(), weight, bias)
    weight_gradient, bias_gradient = torch.autograd.grad(LINEAR_LOSSES[loss](y, up), [weight, bias])
    return weight_gradient, bias_gradient


def row_gradient(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> Tensor:
    """The gradient of the weight that the last row alone gives."""
    x, up = x.reshape(-1, 3)[-1:], up.reshape(-1, 2)[-1:]
    return twin_gradients(weight, bias, x, up, loss)[0]
