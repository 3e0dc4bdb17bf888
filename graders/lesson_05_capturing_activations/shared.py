"""What probes of several exercises of lesson 5 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    CallersHooks,
    Failure,
    Meanwhile,
    Witness,
    every_kind,
    fill_grads,
    freeze_part,
    grad_mode,
    in_mode,
    laid_out,
    packed,
    prepared,
    shares_storage,
    snapshot,
    unpacked,
)

# Models. A draw describes a model as data, a tree of [kind, details...]. `made` builds it; its twin in `judging.py`
# computes every call by functions, without a module and without a hook.

IN_PLACE = "mul_"
"""A step that is no module: the block multiplies in place."""


class Net(nn.Module):
    """Calls its children in an order of its own, by position or by keyword; counts its runs."""

    def __init__(self, steps: list[str], output: str, passing: str) -> None:
        """`steps` are names of children, or of their children. `hidden` children are called and not registered."""
        super().__init__()
        self.hidden: dict[str, nn.Module] = {}
        self.steps, self.output, self.passing, self.runs = steps, output, passing, 0

    def forward(self, input: Tensor) -> Any:
        """A tensor, or a tuple or a dict with it."""
        self.runs += 1
        for step in self.steps:
            if step == IN_PLACE:
                input = input.mul_(-0.5)
                continue
            module = self.hidden[step] if step in self.hidden else self.get_submodule(step)
            input = unpacked(module(input=input) if self.passing == "keyword" else module(input))
        return packed(input, self.output)


class Counting(nn.Module):
    """Multiplies by 2, then by 3, and so on: who calls it once more than the model does sees other numbers."""

    def __init__(self) -> None:
        """No call yet."""
        super().__init__()
        self.calls = 0

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        self.calls += 1
        return input * (1 + self.calls)


class Shift(nn.Module):
    """Adds a number."""

    def __init__(self, by: float) -> None:
        """`by` is the number."""
        super().__init__()
        self.by = by

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input + self.by


class InPlace(nn.Module):
    """Multiplies its input in place."""

    def __init__(self, factor: float) -> None:
        """`factor` is the number to multiply by."""
        super().__init__()
        self.factor = factor

    def forward(self, input: Tensor) -> Tensor:
        """Overwrite the input."""
        return input.mul_(self.factor)


class Narrow(nn.Module):
    """Every second column. A slot for a child of it is empty."""

    def __init__(self) -> None:
        """No child."""
        super().__init__()
        self.register_module("slot", None)

    def forward(self, input: Tensor) -> Tensor:
        """A view of the input."""
        return input[..., ::2]


class Mean(nn.Module):
    """The mean of all numbers, without a dimension."""

    def forward(self, input: Tensor) -> Tensor:
        """A tensor of rank 0."""
        return input.mean()


class Giving(nn.Module):
    """Gives a tensor of its own, whatever goes in, and in eval mode one more than that."""

    def __init__(self, output: Tensor) -> None:
        """`output` is the tensor."""
        super().__init__()
        self.output = output

    def forward(self, input: Any) -> Tensor:
        """A copy of it, or the sum."""
        return self.output.clone() if self.training else self.output + 1


class Deeper(nn.Module):
    """Gives its input one more dimension, in place."""

    def forward(self, input: Tensor) -> Tensor:
        """The input itself."""
        return input.unsqueeze_(0)


class ByHand(nn.Sequential):
    """Takes the weight of its layer and does not call it; counts its runs."""

    def __init__(self) -> None:
        """The layer makes 2 numbers of 2."""
        super().__init__(nn.Linear(2, 2))
        self.runs = 0

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        self.runs += 1
        return nn.functional.linear(input, self[0].weight)  # type: ignore[arg-type]


class Varied(nn.Module):
    """Calls one layer five times, with inputs of several shapes and dtypes, of which two are equal; then it works in
    place on the first output. A layer that hands on its input gives it out twice.
    """

    def __init__(self, layer: nn.Module) -> None:
        """`layer` is the layer."""
        super().__init__()
        self.layer = layer

    def forward(self, input: Tensor) -> Tensor:
        """The first output, overwritten."""
        other_dtype = torch.float32 if input.dtype == torch.float64 else torch.float64
        first = self.layer(input + 1)
        for other in (first, first.to(other_dtype), first[:1], first.T):
            self.layer(other)
        return first.mul_(-0.5)


class Window(nn.Module):
    """Returns a small view into a large tensor that repeats its input. Its `_base` does not show that it is one."""

    def __init__(self, kind: str) -> None:
        """`kind` is "columns" or "rows"."""
        super().__init__()
        self.kind = kind

    def forward(self, input: Tensor) -> Tensor:
        """The first five of 50000 columns, or of 50000 rows."""
        if self.kind == "columns":
            return input.repeat(1, 50000 // input.shape[1])[:, :5].detach()
        return input.repeat(50000 // input.shape[0], 1)[:5].detach()


def filled(layer: nn.Module, weight: Tensor, bias: Tensor) -> nn.Module:
    """The layer with copies of these parameters, in their dtype."""
    layer.to(weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _norm(weight: Tensor, bias: Tensor, dims: int) -> nn.Module:
    return filled({2: nn.BatchNorm1d, 4: nn.BatchNorm2d}[dims](len(weight)), weight, bias)


MAKES: dict[str, Callable[..., nn.Module]] = {
    "conv": lambda weight, bias: filled(nn.Conv2d(weight.shape[1], len(weight), 3, padding=1), weight, bias),
    "linear": lambda weight, bias: filled(nn.Linear(weight.shape[1], len(weight)), weight, bias),
    "norm": _norm,
    "relu": lambda: nn.ReLU(inplace=True), "tanh": nn.Tanh, "gelu": nn.GELU, "leaky": nn.LeakyReLU,
    "identity": nn.Identity, "narrow": Narrow, "flatten": nn.Flatten,
    "counting": Counting, "shift": Shift, "in-place": InPlace, "mean": Mean, "window": Window,
}  # fmt: skip
"""The leaves: what a kind of layer is made of. All call their argument `input`."""


def assembled(spec: list[Any], made_so_far: dict[str, nn.Module] | None = None, path: str = "") -> nn.Module:
    """The module that a tree describes: `["net", children, steps, output, passing]`, `["sequential", children]`,
    `["list", children]`, a leaf, and instead of a child `["same", path]` or `["hidden", child]`.
    """
    made_so_far = {} if made_so_far is None else made_so_far
    kind, *rest = spec
    if kind == "same":
        return made_so_far[rest[0]]
    if kind == "hidden":
        return assembled(rest[0])
    if kind not in ("net", "sequential", "list"):
        module = MAKES[kind](*rest)
    else:
        module = Net(*rest[1:]) if kind == "net" else nn.Sequential() if kind == "sequential" else nn.ModuleList()
        for name, child in rest[0].items():
            part = assembled(child, made_so_far, f"{path}.{name}" if path else name)
            if child[0] == "hidden":
                module.hidden[name] = part
            else:
                module.add_module(name, part)
    made_so_far[path] = module
    return module


def made(net: dict[str, Any]) -> tuple[nn.Module, CallersHooks]:
    """A model as a draw describes it, with the hooks of its caller."""
    model = freeze_part(in_mode(assembled(net["spec"]), net["mode"]), net["frozen"])
    if net["grad"] == "filled":
        fill_grads(model)
    callers = CallersHooks(net["hooks"])
    for name in net["watched"]:
        callers.on_module(model.get_submodule(name), name)
    if net["cut"] is not None:
        model.get_submodule(net["cut"]).register_forward_hook(lambda module, args, output: output[:-1])
    if net["parameters"]:
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                callers.on_parameter(parameter, name)
    return model, callers


def statistics(model: nn.Module) -> dict[str, Any]:
    """What the batch norms of a model have counted and averaged so far, by name."""
    return {
        name: {"mean": snapshot(module.running_mean), "batches": int(module.num_batches_tracked)}
        for name, module in model.named_modules()
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)
    }


def observed(
    ask: Callable[[nn.Module, Any, Tensor], Any], net: dict[str, Any], named: Any, x: Tensor, later: Tensor, *,
    breaks: str, layout: str, x_is: str, call: str, under: str, failure: str, failing_run: str, rounds: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """What a function does to a model: its results, and all that it changed, also when the model raises.

    `ask(model, named, x)` calls the function. `breaks` names the module before whose call the model raises, `x_is` is
    "data" or "a leaf", which requires grad, `under` is the grad mode of the calls, and `rounds` how often a module may
    be called in one run.
    """
    if x_is == "data":
        x, later = laid_out(x, layout), laid_out(later, layout)
    else:
        x, later = (prepared(t, layout=layout, grad=net["grad"]) for t in (x, later))
    model, callers = made(net)
    called: list[int] = []
    model.register_forward_pre_hook(lambda module, args: called.append(1))
    given = {"x": x, "names" if isinstance(named, list) else "name": named}
    with grad_mode(under):
        witness = Witness(model=model, **given)
        seen = {"result": ask(model, named, x)}
        seen |= {
            "calls": len(called),
            "runs": getattr(model, "runs", None),
            "fired": list(callers.log),
            "statistics": statistics(model),
        }
        seen["changed"] = witness.changes()
        if call != "once":
            seen["later"] = ask(model if call == "again" else made(net)[0], named, later)
        failing, broken = Failure(failure, failing_run), made(net)[0]
        broken.get_submodule(breaks).register_forward_pre_hook(failing.strike)
        witness = Witness(model=broken, **given)
        seen["failure"] = failing.during(lambda: [ask(broken, named, x), ask(broken, named, later)])
        seen["changed by failure"] = witness.changes()
        seen["afterwards"] = ask(made(net)[0], named, x)
    first = ["0"] if isinstance(named, list) else "0"
    return {**seen, **goes_on(ask, first, rounds), "failures at the end": failing_at_the_end(ask, first)}


def failing_at_the_end(ask: Callable[[nn.Module, Any, Tensor], Any], named: Any) -> dict[str, str]:
    """What becomes of exceptions that the last layer of a model raises, when the layer "0" has put out something."""

    def call(failure: Failure) -> None:
        chain = nn.Sequential(nn.Tanh(), nn.Identity())
        chain[1].register_forward_pre_hook(failure.strike)
        ask(chain, named, torch.ones(1, 2))

    return every_kind(call)


def goes_on(ask: Callable[[nn.Module, Any, Tensor], Any], named: Any, rounds: int) -> dict[str, Any]:
    """What comes to the layer behind a module that is called in each of `rounds`, in a chain.

    "goes on" is whether it is the output of this module itself, and not what a hook returned, "graph goes on" whether
    it has a graph where grad mode is on, and "calls of a chain" how often the chain itself is called.
    """
    layer, behind, passed, graphs, calls = nn.Linear(2, 2), nn.Tanh(), [], [], []
    layer.register_forward_hook(lambda module, args, output: passed.append(output))
    behind.register_forward_pre_hook(lambda module, args: passed.append(args[0]))
    behind.register_forward_pre_hook(
        lambda module, args: graphs.append(args[0].requires_grad or not torch.is_grad_enabled())
    )
    chain = nn.Sequential(*[layer, behind] * rounds)
    chain.register_forward_hook(lambda module, args, output: calls.append(1))
    ask(chain, named, torch.ones(1, 2))
    same = all(given is put_out for put_out, given in zip(passed[::2], passed[1::2]))
    return {"goes on": same, "graph goes on": all(graphs), "calls of a chain": len(calls)}


def asked_of_any_shape(ask: Callable[[nn.Module, str, Tensor], Any], outputs: list[Tensor]) -> list[Any]:
    """What `ask(model, name, x)` returns for modules with these outputs.

    The names of others end as theirs do, and one that runs before them looks alike when it is printed.
    """

    def between(output: Tensor) -> nn.Module:
        alike = nn.Sequential(nn.Tanh(), Giving(torch.full_like(output, 9.0)))
        return nn.Sequential(alike, Giving(output), nn.Sequential(nn.Tanh(), nn.Tanh()))

    return [ask(between(output), "1", torch.ones(1, 2)) for output in outputs]


def asked_meanwhile(ask: Callable[[nn.Module, Any, Tensor], Any], named: Any) -> list[Any]:
    """What `ask` returns for a layer that makes 3 of 1, and for one that makes 2 of 1 and is asked in the same run."""
    inside: list[Any] = []
    triple = filled(nn.Linear(2, 2), 3 * torch.eye(2), torch.zeros(2))
    model = Meanwhile(lambda: inside.append(ask(nn.Sequential(Shift(1.0)), named, torch.ones(1, 2))), triple)
    return [ask(model, named, torch.ones(1, 2)), *inside]


def asked_in_a_row(ask: Callable[[nn.Module, Any, Tensor], Any], named: list[Any], x: Tensor) -> list[Any]:
    """What `ask(model, name, x)` returns for layers with equal outputs, in one memory, overwritten in the end.

    The layers are called "1" and "2".
    """
    row = nn.Sequential(Shift(1.0), nn.Identity(), nn.Flatten(), InPlace(-0.5))
    return [ask(row, name, x) for name in named]


def asked_of_varied(ask: Callable[[nn.Module, str, Tensor], Any], x: Tensor) -> list[Any]:
    """What `ask(model, name, x)` returns for layers that are called with inputs of several kinds."""
    return [ask(Varied(layer), "layer", x) for layer in (nn.Identity(), nn.Flatten())]


def swallows(block: AbstractContextManager[Any], kind: type[BaseException]) -> bool:
    """Whether an exception of this kind does not come out of a `with` block."""
    try:
        with block:
            raise kind
    except kind:
        return False
    return True


def share_memory(result: Any) -> bool:
    """Whether two of the tensors in a list or a dict look at one memory."""
    entries = result.values() if isinstance(result, dict) else result if isinstance(result, list) else []
    return any(shares_storage(first, second) for first, second in combinations(entries, 2))


def plain_tuple(value: Any) -> Any:
    """A `torch.Size` as the tuple that it is; any other value as it is."""
    return tuple(value) if isinstance(value, torch.Size) else value
