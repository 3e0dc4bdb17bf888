"""Exercise 07-linear-grads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    fill_grads,
    laid_out,
    nothing_changed,
    paired,
)
from graders.lesson_07_module_backward_hooks.shared import Weighted, copied, linear, listed

TINY, INF, NAN = 2.0**-40, float("inf"), float("nan")
LOSSES = {
    "linear": lambda y, up: (up * y).sum(),
    "square": lambda y, up: (up * y * y).sum(),
    "handed out": lambda y, up: Weighted.apply(y, up),
}
"""Losses of the output. The gradient of the last one is `up` itself, and no copy."""


def shallow(result: object) -> object:
    """A tuple with the same entries for a tuple, also for a named one; anything else as it is."""
    return tuple(result) if isinstance(result, tuple) else result


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
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3, 4), "layout": ALL, "values": ALL, "grad": ALL, "mode": ("train", "eval"),
            "frozen": ALL, "hooks": ALL, "call": ("in turn",), "failure": ALL,
        },
        excludes={
            "place": "whether the input requires grad, and is a leaf, is an axis of its own",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "there is one layer",
            "named": "no module is named",
            "output": "it is a linear layer",
            "follower": "the contract says that the loss does not work in place",
            "passing": "the function calls the layer itself",
            "registered": "there is one layer",
            "layers": "it is a linear layer",
            "hooked": "hooks that watch sit on the layer, and others on its parameters",
            "grad_mode": "a backward pass needs it switched on",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={"loss": tuple(LOSSES), "x_is": ("data", "leaf", "non-leaf"), "raised_in": ("loss", "backward")},
    ),
)  # fmt: skip
class TestLinearGrads:
    """Write `linear_grads(lin, x, loss_fn)`. `lin` is an `nn.Linear` with a bias. For `y = lin(x)` and the scalar
    `L = loss_fn(y)`, return the tuple of dL/dW and dL/db, with the shapes of `lin.weight` and `lin.bias`.

    Rebuild them from `x` and dL/dy. Do not read them from the parameters: these may carry hooks of the caller which
    change or erase the gradients that arrive there.

    `x` has one dimension or more, the last one of size `lin.in_features`, and none of them is empty. At least one of
    `x`, the weight and the bias requires grad; what their `.grad` holds afterwards is not graded. `loss_fn` does not
    work in place or use `lin`. Whether you call `lin` is up to you: hooks of the caller on it only watch.

    **Example.** For a `lin` with weight `[[1., 1.]]` and bias `[0.]`, `x = tensor([[1., 2.], [3., 4.]])` and
    `loss_fn = lambda y: 10 * y.sum()` the result is `(tensor([[40., 60.]]), tensor([20.]))`.
    """

    def draw(rng, dtype, rank, layout, values):
        like = {"dtype": dtype, "values": values}
        lead = rng.shape(rank - 1)
        return {
            "weight": rng.tensor(2, 3, **like),
            "bias": rng.tensor(2, **like),
            "square": rng.tensor(3, 3, **like),
            "value": rng.tensor(*lead, 3, low=-2, high=2, layout=layout, **like),
            "up": rng.tensor(*lead, 2, **like),
        }

    def alive(weight, bias, value, up, loss):
        weight_gradient, bias_gradient = twin_gradients(weight, bias, value, up, loss)
        return bool(weight_gradient.abs().max() > 0.5 and bias_gradient.abs().min() > 0.1)

    def oracle(weight, bias, square, value, up, loss):
        another = twin_gradients(square, square[0], value, torch.ones_like(value), "square")
        return [twin_gradients(weight, bias, given, up, loss) for given in (value, -value / 2)], another

    def probe(
        student, weight, bias, square, value, up, loss, layout, grad, mode, frozen, hooks, x_is, failure, raised_in
    ):
        lin = linear(weight, bias).train(mode == "train")
        lin.weight.requires_grad_(frozen == "nothing")
        if grad == "filled":
            fill_grads(lin)
        CallersHooks("none" if hooks == "none" else "watching").on_module(lin, "lin", backward=True)
        callers = CallersHooks(hooks)
        for name, p in lin.named_parameters():
            if p.requires_grad:
                callers.on_parameter(p, name)
                p.register_hook(torch.zeros_like)
        leaf = laid_out(value, layout).requires_grad_(x_is != "data")
        x = leaf.view_as(leaf) if x_is == "non-leaf" else leaf
        buffer = up.clone()
        witness = Witness(lin=lin, x=leaf, up=up)

        def asked(lin, x, loss_fn):
            return shallow(student.linear_grads(lin, x, loss_fn))

        grads = asked(lin, x, lambda y: LOSSES[loss](y, buffer))
        seen: dict[str, Any] = {"at once": copied(grads), "changed": witness.changes()}
        buffer.zero_()
        seen["grads"] = grads
        other = laid_out(-value / 2, layout).requires_grad_(x_is != "data")
        seen["again"] = asked(lin, other, lambda y: LOSSES[loss](y, up))
        seen["zero"] = asked(lin, x, lambda y: (0 * y).sum())
        another = linear(square, square[0])
        another.bias.requires_grad_(False)
        witness = Witness(lin=another)
        seen["another"] = asked(another, x, lambda y: (y * y).sum())
        seen["changed in turn"] = witness.changes()
        row = up.reshape(-1, 2)[0].clone()
        kept: list[Tensor] = []

        def keeping(y):
            kept.append(y)
            return Weighted.apply(y, row)

        of_one_row = asked(lin, value.reshape(-1, 3)[0], keeping)
        seen |= {"one row": copied(of_one_row), "one row later": of_one_row}
        for theirs in (row, *(y.grad for y in kept if y.is_leaf or y.retains_grad)):
            if theirs is not None:
                theirs.zero_()
        frozen_layer, alone = linear(weight, bias).requires_grad_(False), value.clone().requires_grad_()
        seen["only x"] = asked(frozen_layer, alone, lambda y: (up * y).sum())
        seen["thin"] = asked(linear(weight[:, :1], bias), square[:, :1], lambda y: (square[:, 1:] * y).sum())
        seen["tiny"] = asked(lin, x, lambda y: (TINY * up * y).sum())
        single, rows = linear(torch.ones(1, 2), torch.zeros(1)), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        seen["example"] = asked(single, rows, lambda y: 10 * y.sum())
        seen["no limit"] = [listed(asked(single, rows, lambda y, up=up: up * y.sum())) for up in (INF, NAN)]
        twice = torch.stack([square[:2], -square[:2]])
        seen["transposed"] = asked(another, twice, lambda y: (twice * y.transpose(0, 1)).sum())
        inner: list[Any] = []
        beside = linear(torch.ones(1, 2), torch.zeros(1))

        def asking(y):
            inner.append(asked(beside, rows + 1, lambda y: 5 * y.sum()))
            return 10 * y.sum()

        seen["in a call"] = [asked(single, rows, asking), *inner[:1]]

        boom = Failure(failure)

        def failing(y):
            if raised_in == "loss":
                boom.strike()
            y.register_hook(boom.strike)
            return y.sum()

        witness = Witness(lin=lin, x=leaf, up=up)
        seen["failure"] = boom.during(lambda: student.linear_grads(lin, x, failing))
        return {**seen, "changed by failure": witness.changes()}

    mistakes = (
        Mistake(
            "reads-dot-grad",
            lambda seen, frozen: (
                SILENT if frozen == "part" else close(seen["at once"][0], 0.0) and close(seen["at once"][1], 0.0)
            ),
            "Your result was read from the parameters. There a hook of the caller may erase what arrives, and a frozen "
            "parameter gets nothing. Compute it from `x` and the gradient of the output.",
            raises=("'NoneType' object has no attribute", "One of the differentiated Tensors does not require grad"),
        ),
        Mistake(
            "transposed",
            lambda seen, weight, bias, value, up, loss: close(
                seen["at once"][0], twin_gradients(weight, bias, value, up, loss)[0].T
            ),
            "Your gradient is transposed. `lin.weight` has the shape (out_features, in_features): the gradient of the "
            "output comes first, then `x`.",
        ),
        Mistake(
            "mean-instead-of-sum",
            lambda seen, weight, bias, value, up, loss: (
                value.dim() > 1
                and any(
                    close(mine, right / rows)
                    for mine, right in zip(seen["at once"], twin_gradients(weight, bias, value, up, loss))
                    for rows in (value[..., 0].numel(), value.shape[0])
                )
            ),
            "Your result is too small by the number of rows. Every row uses the same weights, and the gradients of "
            "several uses add up: sum over the rows, do not average.",
        ),
        Mistake(
            "two-dimensions-only",
            lambda seen, weight, bias, value, up, loss: (
                value.dim() != 2
                and not close(seen["at once"][0], 0.0)
                and (
                    seen["at once"][0].tensor.dim() > 2
                    or (seen["at once"][0].tensor.dim() == 2 and seen["at once"][1].tensor.shape == up.sum(0).shape)
                )
            ),
            "This works for a matrix, but `x` may have one dimension, or three. Flatten the leading dimensions into "
            "rows first: `x.reshape(-1, lin.in_features)`.",
            raises=(
                "must match the size",
                "cannot be multiplied",
                "Expected size for",
                "batch1 must be a 3D",
                "inconsistent tensor size",
                "size mismatch",
                "must be 2D",
                "1D tensors expected",
                "Dimension out of range",
            ),
        ),
        Mistake(
            "last-row-only",
            lambda seen, weight, bias, value, up, loss: (
                value.dim() > 1 and close(seen["at once"][0], row_gradient(weight, bias, value, up, loss))
            ),
            "Your result is the gradient of one row. Every row of `x` contributes: add them up.",
        ),
        Mistake(
            "view-of-strides",
            raises="view size is not compatible with input tensor's size and stride",
            message="`view` needs values that lie in memory in the usual order, and those of `x` need not: use "
            "`reshape`.",
        ),
    )

    def test_weight_and_bias_have_their_gradients(seen, weight, bias, value, up, loss):
        expect_both(seen["at once"], twin_gradients(weight, bias, value, up, loss))

    def test_each_call_computes_afresh(seen, weight, bias, square, value, up, loss):
        expect_both(seen["again"], twin_gradients(weight, bias, -value / 2, up, loss), "for another x")
        expect_both(seen["zero"], (torch.zeros_like(weight), torch.zeros_like(bias)), "for a loss of 0 * y")
        expect_both(
            seen["another"],
            twin_gradients(square, square[0], value, torch.ones_like(value), "square"),
            "for another layer",
        )
        row, row_up = value.reshape(-1, 3)[0], up.reshape(-1, 2)[0]
        expect_both(seen["one row"], (torch.outer(row_up, row), row_up), "for a single row")

    def test_any_layer_and_any_gradient(seen, weight, bias, square, value, up):
        only_x = twin_gradients(weight, bias, value, up, "linear")
        expect_both(seen["only x"], only_x, "when only `x` requires grad")
        thin = twin_gradients(weight[:, :1], bias, square[:, :1], square[:, 1:], "linear")
        expect_both(seen["thin"], thin, "for a layer with one input and two outputs")
        twice = torch.stack([square[:2], -square[:2]])
        arriving = twice.transpose(0, 1).reshape(-1, 3)
        transposed = (arriving.T @ twice.reshape(-1, 3), arriving.sum(0))
        expect_both(seen["transposed"], transposed, "for a loss that transposes `y`, so that dL/dy is transposed")
        tiny = (TINY * only_x[0], TINY * only_x[1])
        expect_both(seen["tiny"], tiny, f"when dL/dy is {TINY} times as large", TINY)

        for found, limit in paired(seen["no limit"], (INF, NAN)):
            path = f"the result of the example, when dL/dy is {limit}"
            expect(Seen(found.value, path)).equals(f"[[[{limit}, {limit}]], [{limit}]]")

    def test_a_call_inside_a_call_changes_nothing(seen):
        outer = (torch.tensor([[40.0, 60.0]]), torch.tensor([20.0]))
        inner = (torch.tensor([[30.0, 40.0]]), torch.tensor([10.0]))
        for found, (right, whose) in paired(seen["in a call"], ((outer, "outer"), (inner, "inner"))):
            expect_both(found, right, f"of the {whose} call")

    def test_they_are_copies_without_a_graph(seen, weight, bias, value, up, loss):
        when = "when the loss has written zeros into its own memory"
        expect_both(seen["grads"], twin_gradients(weight, bias, value, up, loss), when)
        row, row_up = value.reshape(-1, 3)[0], up.reshape(-1, 2)[0]
        expect_both(seen["one row later"], (torch.outer(row_up, row), row_up), f"for a single row, {when} and `y.grad`")

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-* *"])
        nothing_changed(seen["changed in turn"], but=["grad-* *"], when="with another layer")

    def test_an_exception_comes_through_and_nothing_is_left(seen, raised_in):
        came_through(seen["failure"], "the loss" if raised_in == "loss" else "`backward()`")
        nothing_changed(seen["changed by failure"], but=["grad-* *"], when="after an exception")

    def test_the_example_of_the_contract(seen):
        expect_both(seen["example"], (torch.tensor([[40.0, 60.0]]), torch.tensor([20.0])), "of the example")


def twin_gradients(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Both gradients by autograd on a clean twin."""
    weight, bias = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    y = nn.functional.linear(x.detach(), weight, bias)
    weight_gradient, bias_gradient = torch.autograd.grad(LOSSES[loss](y, up), [weight, bias])
    return weight_gradient, bias_gradient


def row_gradient(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> Tensor:
    """The gradient of the weight that the last row alone gives."""
    x, up = x.reshape(-1, 3)[-1:], up.reshape(-1, 2)[-1:]
    return twin_gradients(weight, bias, x, up, loss)[0]


def expect_both(seen: Seen, expected: tuple[Tensor, Tensor], when: str = "", scale: float = 1.0) -> None:
    """A tuple of these two gradients, of this magnitude. `when` says which result it is."""
    seen = Seen(seen.value, f"the result {when}".rstrip())
    expect(seen).has_length(2, container=tuple)
    for name, mine, right in zip(("dL/dW", "dL/db"), seen, expected):
        atol = scale * (1e-5 if right.dtype == torch.float32 else 1e-10)
        expect(Seen(mine.value, f"{name} {when}".rstrip())).close_to(right, atol=atol)
