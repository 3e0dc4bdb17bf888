"""What probes of several exercises of lesson 10 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Boom, expecting_boom, module_hooks, snapshot

# The net of this lesson: convolutions and activations at several levels, global average pooling, a linear classifier.


class Block(nn.Module):
    """Modules in a ModuleList, one after the other."""

    def __init__(self, parts: list[nn.Module]) -> None:
        """A block of `parts`."""
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """In the order of the list."""
        for part in self.parts:
            x = part(x)
        return x


class TinyNet(nn.Module):
    """Steps 0 and 1 are children, 2 and 3 are in a custom block, the others in a Sequential.

    With `net["skip"]`, what enters step 1 is also added to what leaves it.
    """

    def __init__(self, net: dict[str, Any]) -> None:
        """`net` as `draw_net` makes it."""
        super().__init__()
        made = [step_module(net, index) for index in range(len(net["steps"]))]
        head = nn.Linear(net["head"].shape[1], net["head"].shape[0], bias=False)
        head.load_state_dict({"weight": net["head"]})
        groups = {"first": made[0], "second": made[1], "block": Block(made[2:4]), "head": head}
        if made[4:]:
            groups["rest"] = nn.Sequential(*made[4:])
        for group in net["order"]:
            if group in groups:
                self.add_module(net["names"][group], groups[group])
        self.names, self.fails, self.steps, self.skip = net["names"], False, made, net["skip"]

    def forward(self, x: Tensor) -> Tensor:
        """[B, 2, H, W] to logits [B, classes]."""
        for group in ("first", "second", "block", "rest"):
            if hasattr(self, self.names[group]):
                given, x = x, self.get_submodule(self.names[group])(x)
                if self.skip and group == "second":
                    x = x + given
        logits = self.get_submodule(self.names["head"])(x.mean((2, 3)))
        if self.fails:
            raise Boom
        return logits


def step_module(net: dict[str, Any], index: int) -> nn.Module:
    """The module of one step."""
    weight = net["weights"][index]
    if weight is None:
        return nn.Tanh() if net["steps"][index] == "tanh" else nn.ReLU(inplace=net["inplace"])
    stride = net["strides"][index]
    made = nn.Conv2d(weight.shape[1], weight.shape[0], 3, stride=stride, padding=1, bias=False)
    made.load_state_dict({"weight": weight})
    return made


# What a probe notes beside the result.


def same(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether both are None, or equal tensors."""
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


def prepare(net: dict[str, Any], x: Tensor, train: bool, held: bool, frozen: bool = False) -> tuple[TinyNet, Tensor]:
    """A model with hooks of its caller, and an input; with `held`, both already have gradients.

    One module is in the other mode than the rest. With `frozen`, one parameter does not require grad.
    """
    model = TinyNet(net).train(train)
    model.steps[1].train(not train)
    if frozen:
        model.steps[2].requires_grad_(False)
    model.register_forward_hook(lambda module, args, output: None)
    model.steps[0].register_forward_hook(lambda module, args, output: None)
    x = x.clone()
    if held:
        x.requires_grad_().grad = torch.full_like(x, 7)
        for parameter in list(model.parameters())[::2]:
            parameter.grad = torch.full_like(parameter, 7)
    return model, x


def observe(model: TinyNet, x: Tensor, call: Callable[[], Any]) -> dict[str, Any]:
    """The result of `call()`, and what it did to the model and to x."""
    hooks, plain, x_before, x_grad = module_hooks(model), plain_gradient(model, x), snapshot(x), snapshot(x.grad)
    wanted, grads = x.requires_grad, [snapshot(p.grad) for p in model.parameters()]
    parameters = [(snapshot(p), p.requires_grad) for p in model.parameters()]
    modes = [module.training for module in model.modules()]
    result = call()
    return {
        "result": result,
        "hooks": module_hooks(model) - hooks,
        "grads_kept": all(same(p.grad, old) for p, old in zip(model.parameters(), grads)),
        "parameters_kept": all(
            p.requires_grad is needed and same(p, old) for p, (old, needed) in zip(model.parameters(), parameters)
        ),
        "x_kept": torch.equal(x.detach(), x_before) and x.requires_grad is wanted and same(x.grad, x_grad),
        "modes_kept": [module.training for module in model.modules()] == modes,
        "works_as_before": torch.equal(plain_gradient(model, x), plain),
    }


def plain_gradient(model: nn.Module, x: Tensor) -> Tensor:
    """The gradient of the model's output with respect to x; it changes nothing."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), x)[0]


def observe_failure(model: TinyNet, x: Tensor, call: Callable[[], Any]) -> dict[str, Any]:
    """What is left when the model raises at the end of forward."""
    hooks, plain, seen = module_hooks(model), plain_gradient(model, x), {}
    model.fails = True
    with expecting_boom(seen):
        call()
    model.fails = False
    return {
        **seen,
        "hooks_after_exception": module_hooks(model) - hooks,
        "works_after_exception": torch.equal(plain_gradient(model, x), plain),
    }
