"""The scene for a function that runs a backward pass itself, and returns the gradient at one activation."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.inner_gradients import (
    AXES,
    BufferAsGradient,
    an_input,
    grads_in_a_row,
    record_failure,
    unexpected_changes,
)
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import unpack_output
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_tensors
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn, Steps, drawn_linear
from graders.wire.draws import Rng


@family(
    sections=(
        "it is the gradient at the value that left the module",
        "each call computes afresh",
        "one pass reaches all parameters, or none does",
        "a call inside a call changes nothing",
        "it is a copy without a graph",
        "nothing else changes",
        "an exception comes through and nothing is left",
    ),
    axes=AXES
    | {
        "mode": ("train", "eval", "mixed"),
        "passing": ("position", "keyword"),
        "named": ("first", "last", "nested", "root"),
        "output": ("tensor", "tuple", "dict"),
        "follower": ("in-place", "plain"),
    },
    pairs=[("output", "follower"), ("named", "follower")],
)
def looks_inside(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function of a model, a module's name, an input, a loss and optionally `pick`, which returns a gradient.

    `pick` takes the module's output, and returns the tensor whose gradient is wanted.
    """
    found, afresh, one_pass, inside, copies, same, failed = seen.values()
    like = {"dtype": case.dtype, "values": case.values}
    model, other = (Steps(rng, case, **like) for _ in range(2))
    name, pick = model.names[case.named], [] if case.output == "tensor" else [unpack_output]
    callers = CallersHooks(case.hooks).on_module(model.get_submodule(name), "named")
    callers.on_parameter(model.gain, "gain")
    leaf, x = an_input(rng, case, 4, 3, **like)
    up, passes = rng.tensor(4, 3, **like), list[Tensor]()

    def loss_fn(out: Any) -> Tensor:
        h = unpack_output(out)
        h = model.follow(h) if case.named == "root" else h
        loss = (up * h * h).sum()
        loss.register_hook(passes.append)  # type: ignore[no-untyped-call]  # of torch
        return loss

    witness = Witness(model=model, other=other, x=leaf, up=up)
    result = call(model, name, x, loss_fn, *pick)
    found["the gradient"] = copy_tensors(result)
    one_pass["how often backward ran from the loss"] = len(passes)
    one_pass["the `.grad` of all parameters in a row"] = grads_in_a_row(model)
    same["changed"] = unexpected_changes(witness)
    only_x, theirs = leaf.detach().requires_grad_(), other.names[case.named]
    afresh["for another x"] = copy_tensors(call(model, name, -x.detach() / 2, loss_fn, *pick))
    afresh["for another model"] = copy_tensors(call(other, theirs, x, loss_fn, *pick))
    afresh["for a loss of 0 * out"] = copy_tensors(
        call(model, name, x, lambda out: (0 * unpack_output(out)).sum(), *pick)
    )
    other.requires_grad_(False)
    afresh["when only `x` requires grad"] = copy_tensors(call(other, theirs, only_x, loss_fn, *pick))
    copies["the gradient of the first call"] = result
    halves = Fn(lambda module, x: dict(zip("ab", x.chunk(2, -1))))
    whole = nn.Sequential(drawn_linear(rng, 3, 4, **like), halves, Fn(lambda module, h: 2 * h["a"] + 3 * h["b"]))
    weights = rng.tensor(4, 2, **like)
    at_half = call(whole, "1", leaf.detach(), lambda out: (weights * out).sum(), lambda out: out["b"])
    found["the gradient at the second of two halves"] = copy_tensors(at_half)

    def call_inside(grad: Tensor) -> None:
        with torch.enable_grad():
            result = call(whole, "2", leaf.detach(), lambda out: (weights * out * out).sum())
            inside["the gradient of the inner call"] = copy_tensors(result)

    below, buffer = drawn_linear(rng, 3, 3, **like), up.clone()
    plain = nn.Sequential(below, Fn(lambda module, x: x + 1))
    asked = below.weight.register_hook(call_inside)  # type: ignore[no-untyped-call]  # of torch
    outer = call(plain, "1", leaf.detach(), lambda out: (up * out).sum())
    inside["the gradient of the outer call"] = copy_tensors(outer)
    asked.remove()
    cube, across = rng.tensor(2, 4, 3, **like), rng.tensor(4, 2, 3, **like)
    transposing = call(plain, "1", cube, lambda out: (across * out.transpose(0, 1)).sum())
    afresh["for a loss that transposes an output of three dimensions"] = copy_tensors(transposing)
    below.register_forward_hook(lambda module, args, out: out.register_hook(Tensor.zero_) and None)
    handed_out = call(plain, "1", leaf.detach(), lambda out: BufferAsGradient.apply(out, buffer))  # type: ignore[no-untyped-call]
    buffer.zero_()
    copies["the gradient, when somebody has written zeros into its memory"] = handed_out
    last = model.get_submodule(model.names["last"])
    record_failure(failed, case, last, lambda loss: call(model, name, x, loss, *pick))
    failed["changed after it"] = same["changed in the end"] = unexpected_changes(witness)
