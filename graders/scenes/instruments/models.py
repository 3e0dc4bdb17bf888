"""Models as a caller may have them: in mixed modes, partly frozen, tied, called by keyword, with any output."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def in_mode(model: nn.Module, mode: str) -> nn.Module:
    """Put the model in "train" or "eval" mode; "mixed" puts every other module without children in eval mode."""
    model.train(mode != "eval")
    if mode == "mixed":
        inner = [module for module in model.modules() if not list(module.children())]
        for module in inner[::2]:
            module.eval()
    return model


def freeze_part(model: nn.Module, frozen: str = "part") -> nn.Module:
    """With "part", freeze the parameters of the first module that has any; otherwise change nothing."""
    if frozen == "part":
        owner = next(module for module in model.modules() if list(module.parameters(recurse=False)))
        for parameter in owner.parameters(recurse=False):
            parameter.requires_grad_(False)
    return model


def tie_parameters(model: nn.Module, first: str, second: str) -> nn.Module:
    """Replace the parameter `second` by the parameter `first`; both are dotted names, such as "head.weight"."""
    owner, _, name = second.rpartition(".")
    setattr(model.get_submodule(owner), name, model.get_parameter(first))
    return model


def fill_grads(model: nn.Module, old: float = 0.7) -> nn.Module:
    """Fill the `.grad` of every parameter that requires grad with `old`; float32 cannot hold the default exactly."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = parameter.detach().clone().fill_(old)
    return model


def pack_output(t: Tensor, output: str) -> Any:
    """Return `t` as a module's output: the "tensor" itself, or in a "tuple" or "dict" beside another value."""
    return {"tensor": t, "tuple": (t, "a text"), "dict": {"out": t, "count": 3}}[output]


def unpack_output(value: Any) -> Any:
    """Return the tensor in what `pack_output` made."""
    if isinstance(value, tuple):
        return value[0]
    return value["out"] if isinstance(value, dict) else value
