"""Scenes for functions that run a backward pass themselves, and report gradients inside a layer or a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import KINDS, Failure
from graders.scenes.instruments.models import fill_grads, unpack_output
from graders.scenes.instruments.tensors import with_layout
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_tensors, shallow_copy
from graders.scenes.scene import Call, Sections, Value, family
from graders.scenes.small_modules import Steps, drawn_linear
from graders.wire.draws import Rng

AXES: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "values": ("round", "full"),
    "grad": ("empty", "filled"),
    "frozen": ("nothing", "part"),
    "hooks": ("none", "watching", "replacing"),
    "x_is": ("data", "leaf", "non-leaf"),
    "failure": tuple(KINDS),
    "raised_in": ("loss", "backward", "model"),
}
SWITCHED = ("grad-filled", "grad-changed", "buffer")
"""The kinds of changes that a pass of the learner's function may make."""


class BufferAsGradient(torch.autograd.Function):
    """Computes sum(out * buffer); its backward returns the buffer itself as the gradient, not a copy."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, buffer: Tensor) -> Tensor:
        """The weighted sum."""
        ctx.buffer = buffer
        return (out * buffer).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The gradient of `out`, for a loss that is this sum."""
        return ctx.buffer, None


@family(
    sections=(
        "weight and bias have their gradients",
        "each call computes afresh",
        "any layer and any gradient",
        "a call inside a call changes nothing",
        "they are copies without a graph",
        "nothing else changes",
        "an exception comes through and nothing is left",
    ),
    axes=AXES
    | {
        "rank": (1, 2, 3, 4),
        "layout": ("contiguous", "transposed", "slice"),
        "loss": ("square", "handed out"),
        "raised_in": ("loss", "backward"),
    },
)
def rebuilds_gradients(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that takes a linear layer, an input and a loss, and returns the gradients of weight and bias."""
    found, afresh, any_layer, inside, copies, same, failed = seen.values()
    like, lead = {"dtype": case.dtype, "values": case.values}, rng.shape(case.rank - 1)
    lin, other = drawn_linear(rng, 3, 2, **like), drawn_linear(rng, 3, 3, **like)
    lin.weight.requires_grad_(case.frozen == "nothing")
    other.bias.requires_grad_(False)
    if case.grad == "filled":
        fill_grads(lin)
    CallersHooks("none" if case.hooks == "none" else "watching").on_module(lin, "lin", backward=True)
    callers = CallersHooks(case.hooks)
    for name, p in lin.named_parameters():
        if p.requires_grad:
            callers.on_parameter(p, name)
            p.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]  # of torch
    value, up = rng.tensor(*lead, 3, **like), rng.tensor(*lead, 2, **like)
    leaf = with_layout(value, case.layout).requires_grad_(case.x_is != "data")
    x, buffer = leaf.view_as(leaf) if case.x_is == "non-leaf" else leaf, up.clone()
    losses = {"square": lambda y: (buffer * y * y).sum(), "handed out": lambda y: BufferAsGradient.apply(y, buffer)}  # type: ignore[no-untyped-call]
    witness = Witness(lin=lin, other=other, x=leaf, up=up)
    result = shallow_copy(call(lin, x, losses[case.loss]))
    found["the result"], same["changed"] = copy_tensors(result), unexpected_changes(witness)
    buffer.zero_()
    copies["the result, when the loss has written zeros into its own memory"] = result
    afresh["for another x"] = call(lin, value / -2, lambda y: (up * y).sum())
    afresh["for a loss of 0 * y"] = call(lin, x, lambda y: (0 * y).sum())
    afresh["for a single row"] = call(lin, value.reshape(-1, 3)[0], lambda y: (up.reshape(-1, 2)[0] * y).sum())
    any_layer["of a layer whose bias is frozen"] = call(other, x, lambda y: (y * y).sum())
    alone = value.clone().requires_grad_()
    frozen = drawn_linear(rng, 3, 2, **like).requires_grad_(False)
    any_layer["when only `x` requires grad"] = call(frozen, alone, lambda y: (up * y).sum())
    twice, across = rng.tensor(2, 4, 3, **like), rng.tensor(4, 2, 3, **like)
    any_layer["for a loss that transposes y"] = call(other, twice, lambda y: (across * y.transpose(0, 1)).sum())

    def call_inside(y: Tensor) -> Tensor:
        inside["the inner result"] = call(other, twice, lambda z: (twice * z).sum())
        return (up * y).sum()

    inside["the outer result"] = call(lin, x, call_inside)
    record_failure(failed, case, lin, lambda loss: call(lin, x, loss))
    failed["changed after it"] = same["changed in the end"] = unexpected_changes(witness)


def unexpected_changes(witness: Witness) -> list[list[str]]:
    """The changes that a witness reports, without those that a pass may make."""
    return [change for change in witness.changes() if change[0] not in SWITCHED]


@family(
    sections=(
        "every layer has its mean gradient",
        "the keys are in backward order",
        "each call and each model is measured anew",
        "one pass accumulates the gradients",
        "a call inside a call changes nothing",
        "nothing else changes",
        "an exception comes through and nothing is left",
    ),
    axes=AXES | {"mode": ("train", "eval", "mixed"), "passing": ("position", "keyword")},
    pairs=[("x_is", "frozen")],
)
def measures_the_flow(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that takes a model, a loss and an input, and returns a number per layer, in backward order."""
    means, order, anew, accumulated, inside, same, failed = seen.values()
    like = {"dtype": case.dtype, "values": case.values}
    model, other = (Steps(rng, case, **like) for _ in range(2))
    callers = CallersHooks(case.hooks)
    for name in ("root", "first", "block"):
        callers.on_module(model.get_submodule(model.names[name]), name, backward=True)
    callers.on_parameter(model.get_submodule(model.names["block"]).get_parameter("weight"), "weight")
    leaf, x = an_input(rng, case, 4, 3, **like)
    up = rng.tensor(4, 3, **like)
    losses, passes = list[str](), list[Tensor]()

    def loss_fn(out: Tensor) -> Tensor:
        losses.append("called")
        loss = (up * out * out).sum()
        loss.register_hook(passes.append)  # type: ignore[no-untyped-call]  # of torch
        return loss

    witness = Witness(model=model, other=other, x=leaf, given=x, up=up)
    flow = call(model, loss_fn, x)
    means["the dict"] = flow
    order["the keys"] = list(flow) if isinstance(flow, dict) else flow
    accumulated["how often the model, the loss and its backward pass ran"] = [model.runs, len(losses), len(passes)]
    accumulated["the `.grad` of all parameters in a row"] = grads_in_a_row(model).clone()
    accumulated["x.grad"] = detached_copy(leaf.grad)
    same["changed"] = unexpected_changes(witness)
    anew["of a second call"] = call(model, lambda out: (-0.5 * up * out).sum(), x)
    anew["of another model"] = call(other, loss_fn, x)
    cube, square = rng.tensor(2, 2, 3, **like), drawn_linear(rng, 3, 3, **like)
    anew["for a loss whose gradient is zero"] = call(square, lambda out: (0 * out).sum(), cube)
    growing = rng.tensor(2, 2, 3, **like)
    anew["of a layer whose output has three dimensions"] = call(square, lambda out: (growing * out).sum(), cube)

    def call_inside(out: Tensor) -> Tensor:
        inside["the inner dict"] = call(nn.Sequential(square), lambda y: (growing * y).sum(), cube)
        return (up * out).sum()

    inside["the outer dict"] = call(other, call_inside, x)
    record_failure(failed, case, model.get_submodule(model.names["last"]), lambda loss: call(model, loss, x))
    failed["changed after it"] = same["changed in the end"] = unexpected_changes(witness)


def an_input(rng: Rng, case: Any, *shape: int, **like: Any) -> tuple[Tensor, Tensor]:
    """A leaf, which may require no grad, and the input of the model: this leaf, or a view of it."""
    leaf = with_layout(rng.tensor(*shape, low=-1, high=1, **like), "transposed").requires_grad_(case.x_is != "data")
    if case.grad == "filled" and leaf.requires_grad:
        leaf.grad = torch.full_like(leaf, 0.7)
    return leaf, leaf.view_as(leaf) if case.x_is == "non-leaf" else leaf


def grads_in_a_row(model: nn.Module) -> Tensor:
    """The `.grad` of all parameters in one tensor, with zeros where there is none."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])


def record_failure(
    failed: dict[str, Any], case: Any, part: nn.Module, run: Callable[[Callable[[Any], Tensor]], Any]
) -> None:
    """Record what happens to an exception raised by a part of the model, the loss, or a hook in the backward pass."""
    boom = Failure(case.failure)

    def failing_loss(out: Any) -> Tensor:
        if case.raised_in == "loss":
            boom.raise_if_due()
        out = unpack_output(out)
        if case.raised_in == "backward":
            out.register_hook(boom.raise_if_due)
        return out.sum()  # type: ignore[no-any-return]

    handle = part.register_forward_pre_hook(boom.raise_if_due) if case.raised_in == "model" else None
    failed["the exception"] = boom.outcome_during(lambda: run(failing_loss))
    if handle is not None:
        handle.remove()
