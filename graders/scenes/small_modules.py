"""Small modules with given numbers, and helpers for scenes about module hooks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import REPLACING_FACTOR, CallersHooks, scale_tensors
from graders.scenes.instruments.models import fill_grads, pack_output, unpack_output
from graders.wire.draws import Rng


class Fn(nn.Module):
    """A module whose forward pass is `function(module, *inputs)`."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        """`parts` are its submodules, parameters or attributes."""
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        return self.function(self, *args, **kwargs)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with copies of these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return layer


def drawn_linear(rng: Rng, ins: int, outs: int, **like: Any) -> nn.Linear:
    """A linear layer with drawn parameters, small enough that a tanh behind it is not saturated."""
    return linear(*(rng.tensor(*shape, low=-1, high=1, **like) for shape in ((outs, ins), (outs,))))


def draw_parameters(model: nn.Module, rng: Rng, **like: Any) -> None:
    """Fill all parameters with drawn numbers; `like` goes to `rng.tensor`."""
    for parameter in model.parameters():
        parameter.data.copy_(rng.tensor(*parameter.shape, **like))


class Steps(nn.Module):
    """A model with a parameter of its own, whose parts are defined in one order and called in another.

    `names` maps roles to the names of modules: "first" (a layer), "norm" (it has a buffer, and computes something else
    in training), "nested" (a layer in "block", which has a parameter of its own), "layer" (in a `Sequential`), "last",
    and "root".
    """

    def __init__(self, rng: Rng, case: Any, **like: Any) -> None:
        """Reads `passing`, `mode` and `frozen` of the case, and `named`, `output` and `follower` if it has them."""
        super().__init__()
        first, norm, block, inner, group, last = rng.names(6)
        self.names = {"first": first, "norm": norm, "block": block, "nested": f"{block}.{inner}",
                      "layer": f"{group}.0", "last": last, "root": ""}  # fmt: skip
        get = vars(case).get
        self.named, self.output = self.names.get(get("named", ""), "none"), get("output", "tensor")
        self.follower, self.passing, self.runs = get("follower", "plain"), case.passing, 0
        layers = {name: drawn_linear(rng, 3, 3, **like) for name in ("first", "nested", "layer", "last")}
        gate, scale, gain = (rng.tensor(3, low=0.5, high=2, **like) for _ in range(3))
        parts = {name: self._part(self.names[name], layer) for name, layer in layers.items()}
        gated = Fn(
            lambda module, input: module.weight * torch.tanh(unpack_output(module.get_submodule(inner)(input)) / 8)
        )
        gated.weight = nn.Parameter(gate)
        gated.add_module(inner, parts["nested"])
        centred = Fn(lambda m, input: input - input.mean(0) / 2 if m.training else input * m.scale)
        centred.register_buffer("scale", scale)
        centred.register_parameter("bias", None)
        children = {first: parts["first"], norm: centred, block: gated, last: parts["last"]}
        children[group] = nn.Sequential(parts["layer"], nn.LeakyReLU(0.5))
        self.order = [first, norm, block, group, last]
        for name in rng.shuffled(self.order):
            self.add_module(name, children[name])
        self.second_name, self.gain = children[first], nn.Parameter(gain)
        self.train(case.mode != "eval").get_submodule(norm).train(case.mode == "train")
        for p in [*layers["first"].parameters(), *layers["last"].parameters()] if case.frozen == "part" else []:
            p.requires_grad_(False)
        if case.grad == "filled":
            fill_grads(self)

    def _part(self, name: str, layer: nn.Linear) -> nn.Module:
        """The layer, or if the case names it, a module around it that returns a tuple or a dict."""
        if name != self.named or (self.output, self.follower) == ("tensor", "plain"):
            return layer
        return Fn(lambda module, input: pack_output(module.inner(input), self.output), inner=layer)

    def follow(self, h: Tensor) -> Tensor:
        """The operation behind the named module, in place if the case says so."""
        return h.mul_(-1.5).relu_() if self.follower == "in-place" else h

    def forward(self, x: Tensor) -> Any:
        """Multiply the input by the model's own parameter, and run it through all children."""
        self.runs += 1
        h = self.gain * x
        for name in self.order:
            part = self.get_submodule(name)
            h = unpack_output(part(input=h) if self.passing == "keyword" else part(h))
            h = self.follow(h) if name == self.named else h
        return pack_output(2 * h, self.output if self.named == "" else "tensor")


def callers_hooks(module: nn.Module, hooks: str) -> None:
    """Register the caller's hooks on a module and its parameters; replacing ones also double what it sends back."""
    callers = CallersHooks(hooks).on_module(module, "module", backward=True)
    for name, p in module.named_parameters():
        if p.requires_grad:
            callers.on_parameter(p, name)
    if hooks == "replacing":
        module.register_full_backward_hook(
            lambda module, grad_input, grad_output: scale_tensors(grad_input, REPLACING_FACTOR)
        )


def works_in_place() -> bool:
    """Whether a model with an in-place layer runs, which fails while there is a full backward hook for all modules."""
    try:
        with torch.enable_grad():
            nn.Sequential(nn.Linear(1, 1), nn.ReLU(inplace=True))(torch.ones(1, 1))
    except RuntimeError:
        return False
    return True
