"""Models with all that can happen to gradients on their way: unused calls, cuts, and outputs of several tensors."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.chains import (
    SIZE,
    CallPart,
    Chain,
    Step,
    add_detached_part,
    add_part,
    add_part_of_detached,
    add_part_without_grad,
    call_unused_part,
    even_linear,
    multiply_by,
    reordered_parts,
)
from graders.scenes.inspections import InspectedModel
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.models import fill_grads, in_mode, unpack_output
from graders.scenes.models import Drop
from graders.scenes.scene import Call
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


def multi_output_module(weight: Tensor, output: str) -> nn.Module:
    """A module around a leaf that returns several tensors, of different sizes and dtypes, only some of which are used.

    `output` is "tuple" or "dict".
    """

    def apart(module: Any, input: Tensor) -> Any:
        one, two, three = module.weight
        parts = {
            "column": one * input[..., :1], "note": "a text", "steps": torch.tensor([30, 40]),
            "double": two * input.double(), "unused": three * input,
        }  # fmt: skip
        return parts if output == "dict" else tuple(parts.values())

    def together(module: Any, input: Tensor) -> Tensor:
        found = module.leaf(input)
        column, _, _, double, _ = found.values() if isinstance(found, dict) else found
        joined: Tensor = column + double.to(input.dtype)
        return joined

    return Fn(together, leaf=Fn(apart, weight=nn.Parameter(weight)))


def with_signals(rng: Rng, case: Any) -> InspectedModel:
    """For `function(model, loss_fn, x)`. Also reads `rank`, `follower`, `frozen` and `grad` of the case."""
    (first, block, inside, inner, act, again, token, unused, cut, behind, blind, drop, pair, other, head, second,
     never) = rng.names(17)  # fmt: skip
    small: dict[str, Any] = {"low": -1, "high": 1, "away": 0.125, "dtype": case.dtype, "values": "full"}
    how, log = (case.passing, case.output), list[str]()
    shape = (2, 3, SIZE)[-case.rank :]

    def layer() -> nn.Linear:
        return even_linear(rng, case.dtype, gain=0.5)  # small numbers, so that a tanh is not saturated

    def noting(call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        log.append("the model runs")
        return h

    follow = multiply_by(1.5, case.follower == "in-place")
    parts: dict[str, nn.Module] = {
        first: layer(),
        block: Chain(reordered_parts(rng, {inside: layer(), inner: nn.Tanh()}), [inside, follow, inner], *how),
        act: nn.Tanh(), again: layer(),
        token: Fn(lambda module, input: module.weight, weight=nn.Parameter(rng.tensor(SIZE, **small))),
        unused: layer(), cut: layer(), behind: layer(), blind: layer(), drop: Drop(0.5),
        pair: multi_output_module(rng.tensor(3, **small), case.output), other: layer(),
        head: layer(), never: nn.ModuleList([layer()]),
    }  # fmt: skip
    run: list[Step] = [
        noting, first, follow, add_part(block), act, again, follow, add_part(token), call_unused_part(unused),
        add_detached_part(cut), add_part_of_detached(behind), add_part_without_grad(blind), drop, act,
        add_part(pair), add_part(again), other, follow, second, call_unused_part(act),
    ]  # fmt: skip
    model = Chain(reordered_parts(rng, parts) | {second: parts[head]}, run, *how)
    in_mode(model, case.mode)
    if case.grad == "filled":
        fill_grads(model)
    parts[first].requires_grad_(case.frozen == "nothing")
    callers = CallersHooks(case.hooks).on_module(model, "model").on_module(parts[other], "a layer")
    if case.hooks == "watching":
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                callers.on_parameter(parameter, name)

    x, later, target = (rng.tensor(*shape, **small) for _ in range(3))
    in_backward = nn.Identity()

    def loss_fn(out: Any) -> Tensor:
        log.append("the loss is computed")
        out = 2 * unpack_output(out)
        if out.requires_grad:
            out.register_hook(in_backward)
        loss: Tensor = ((out - target) ** 2).mean()
        return loss

    return InspectedModel(
        model,
        lambda call: call(model, loss_fn, x),
        lambda call: call(model, loss_fn, later),
        {"model": model, "x": x, "target": target},
        {"in the model": parts[again], "in the backward pass": in_backward},
        log,
    )


def single_leaf(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """Try a model that is itself a leaf, also with a loss that has no graph."""
    layer, factor = even_linear(rng, case.dtype), rng.number("large")
    x = rng.tensor(2, SIZE, dtype=case.dtype, values="full")
    seen["the report of a tiny gradient"] = call(layer, lambda out: 1e-7 * factor * out.sum(), x)
    seen["the report for a loss without a graph"] = call(layer, lambda out: factor * out.detach().sum(), x)
