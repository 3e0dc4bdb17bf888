"""What probes of several exercises of lesson 13 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import packed, unpacked

# Models. A draw describes a model as data: [kind, details...] is a layer, ["chain", children, steps, output] a module
# with children, whose steps are [what, detail]. A probe builds modules from it; the judge follows it with functions.


class Linear(nn.Linear):
    """A linear layer with these parameters. It draws no others first: that takes longer than a pass."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Copies of both."""
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight.clone())
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias.clone()))


class Scale(nn.Module):
    """Each channel times a number, plus a number, for inputs of 2 dimensions or more."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Both are of shape (channels,)."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return along_channels(self.weight, input) * input + along_channels(self.bias, input)


class Modal(nn.Module):
    """Shows its mode: in eval mode it adds numbers that it holds in a buffer; in training mode its output is a copy."""

    shift: Tensor

    def __init__(self, shift: Tensor) -> None:
        """`shift` is of shape (channels,)."""
        super().__init__()
        self.register_buffer("shift", shift.clone())

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input.clone() if self.training else input + along_channels(self.shift, input)


class LastModal(Modal):
    """The same along the last dimension."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input.clone() if self.training else input + self.shift


class Token(nn.Module):
    """Its output is its parameter itself, whatever it gets."""

    def __init__(self, weight: Tensor) -> None:
        """A parameter of any shape."""
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, input: Tensor) -> Tensor:
        """The parameter."""
        return self.weight


class Several(nn.Module):
    """Returns a tuple or a dict: twice its input, a text, integers, half of its input, three times its input."""

    def __init__(self, output: str) -> None:
        """`output` is "tuple" or "dict"."""
        super().__init__()
        self.output = output

    def forward(self, input: Tensor) -> Any:
        """New tensors."""
        parts = {
            "out": 2 * input,
            "note": "a text",
            "steps": torch.tensor([3, 4]),
            "half": input / 2,
            "more": 3 * input,
        }
        return parts if self.output == "dict" else tuple(parts.values())


OwnReLU = type("Rectifier", (nn.ReLU,), {})
"""A subclass of `nn.ReLU` under another name."""


class Lookalike(nn.Module):
    """Computes what a ReLU does, and is none, although its class is called so."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input.clamp(min=0)


Lookalike.__name__ = Lookalike.__qualname__ = "ReLU"


class Chain(nn.Module):
    """Does its steps one after the other; most of them call a child."""

    def __init__(self, children: dict[str, nn.Module], steps: list[list[Any]], output: str, passing: str) -> None:
        """`output` is what `packed` knows; with `passing="keyword"` children get their input by keyword."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.steps, self.output, self.passing, self.runs = steps, output, passing, 0
        self.hidden = [nn.ReLU()]  # called and not registered

    def forward(self, input: Tensor) -> Any:
        """The steps."""
        self.runs += 1
        h = input
        for what, detail in self.steps:
            h = input if what == "restart" else STEPS[what](self, h, detail)
        return packed(h, self.output)

    def part(self, name: str, h: Tensor) -> Tensor:
        """The tensor in what a child returns; of several, the first and the last, added."""
        child = self.get_submodule(name)
        result = child(input=h) if self.passing == "keyword" else child(h)
        out: Tensor = unpacked(result)
        if isinstance(child, Several):
            out = out + (result["more"] if isinstance(result, dict) else result[-1])
        return out


def _aside(chain: Chain, h: Tensor, name: str) -> Tensor:
    chain.part(name, h)
    return h


def _without_grad(chain: Chain, h: Tensor, name: str) -> Tensor:
    with torch.no_grad():
        branch = chain.part(name, h)
    return h + branch


STEPS: dict[str, Callable[[Chain, Tensor, Any], Tensor]] = {
    "call": lambda chain, h, name: chain.part(name, h),
    "plus": lambda chain, h, name: h + chain.part(name, h),
    "plus of detached": lambda chain, h, name: h + chain.part(name, h.detach()),
    "plus detached": lambda chain, h, name: h + chain.part(name, h).detach(),
    "plus without grad": _without_grad,
    "aside": _aside,
    "hidden": lambda chain, h, _: chain.hidden[0](h),
    "relu": lambda chain, h, _: torch.relu(h),
    "add": lambda chain, h, number: h + number,
    "add in-place": lambda chain, h, number: h.add_(number),
    "mul": lambda chain, h, number: h * number,
    "mul in-place": lambda chain, h, number: h.mul_(number),
    "pool": lambda chain, h, _: pooled(h),
}


def pooled(h: Tensor) -> Tensor:
    """The largest number of each channel of each input."""
    return h.flatten(2).amax(2) if h.dim() > 2 else h


def along_channels(values: Tensor, h: Tensor) -> Tensor:
    """Numbers of shape (channels,) so that they fit to dimension 1."""
    return values.view(-1, *[1] * (h.dim() - 2))


def build(spec: list[Any], passing: str = "position") -> nn.Module:
    """The module that a spec describes."""
    kind, *details = spec
    if kind == "chain":
        children: dict[str, nn.Module] = {}
        for name, child in details[0].items():
            children[name] = children[child[1]] if child[0] == "same" else build(child, passing)
        return Chain(children, details[1], details[2], passing)
    return LAYERS[kind](*details)


LAYERS: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear, "scale": Scale, "relu": nn.ReLU, "own relu": OwnReLU, "lookalike": Lookalike,
    "tanh": nn.Tanh, "modal": Modal, "last modal": LastModal, "token": Token, "several": Several,
    "identity": nn.Identity, "list": nn.ModuleList,
}  # fmt: skip


def in_eval(model: nn.Module, names: list[str]) -> nn.Module:
    """All modules in training mode, and those of these names in eval mode."""
    model.train()
    for name in names:
        model.get_submodule(name).training = False
    return model
