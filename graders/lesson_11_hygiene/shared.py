"""What probes of several exercises of lesson 11 use, beside the learner's code."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    CallersHooks,
    fill_grads,
    freeze_part,
    packed,
    unpacked,
)

# Models. A draw describes a model as data, a tree of [kind, details...]. The probe builds modules from it; the
# judge computes every call by direct composition of functions, without a module and without a hook.

OPERATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "relu_": torch.relu_,
    "log": torch.log,
    "exp": torch.exp,
    "negative": lambda x: -x.exp(),
    "divide": torch.div,
    "divide_": lambda x, by: x.div_(by),
    "clean": lambda x: torch.nan_to_num(x, nan=0.5, posinf=1.0, neginf=-1.0),
    "mix": lambda x, share, *others: x + share * others[-1],
    "boost": lambda x, by: x + by,
    "minus": lambda x, by: x - by,
}
"""What a layer without parameters computes. A name that ends in `_` works in place."""


class Layer(nn.Module):
    """One of the operations; the number by which it divides, if it does, is a buffer."""

    def __init__(self, operation: str, *by: Tensor) -> None:
        """`by` is empty or one tensor."""
        super().__init__()
        self.operation = operation
        if by:
            self.register_buffer("by", by[0].clone())

    def forward(self, input: Tensor, *more: Any) -> Tensor:
        """Apply the operation."""
        return OPERATIONS[self.operation](input, *self.buffers(), *more)


class Affine(nn.Module):
    """A number times its input, plus a number, for inputs of any shape."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Both numbers are parameters."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return self.weight * input + self.bias


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


class Modal(nn.Module):
    """Shows its mode, for inputs of any shape: it adds 1 in training mode, and counts that, and halves in eval mode."""

    def __init__(self) -> None:
        """The count is a buffer."""
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        if not self.training:
            return input / 2
        self.steps += 1
        return input + 1


class Offset(nn.Module):
    """Adds numbers that it holds in a buffer, which `state_dict` leaves out."""

    def __init__(self, by: Tensor) -> None:
        """`by` fits to the inputs."""
        super().__init__()
        self.register_buffer("by", by.clone(), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input + self.by


class Refusal(Exception):
    """What a chain is prepared for."""


class Refuses(nn.Module):
    """Raises when it is called."""

    def forward(self, input: Tensor) -> Tensor:
        """Raise `Refusal`."""
        raise Refusal


class Chain(nn.Module):
    """Calls its children one after the other, in an order that need not be that of definition."""

    def __init__(
        self,
        children: dict[str, nn.Module],
        order: list[str],
        factor: float = 1.0,
        output: str = "tensor",
        passing: str = "position",
        hidden: dict[str, nn.Module] | None = None,
        careful: bool = False,
    ) -> None:
        """`order` holds the names in the order of the calls; the result is multiplied by `factor`.

        `hidden` modules are called and not registered. A chain that is `careful` leaves out a child that raises.
        """
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.order, self.factor, self.output, self.passing, self.runs = order, factor, output, passing, 0
        self.hidden, self.careful = hidden or {}, careful
        self.register_module("nothing", None)  # what `model.head = None` leaves behind

    def forward(self, input: Tensor) -> Any:
        """A layer that mixes gets the chain's own input, too, its share as a number, and what it has no use for."""
        self.runs += 1
        x = input
        for name in self.order:
            child = self.hidden[name] if name in self.hidden else self.get_submodule(name)
            with contextlib.suppress(Exception if self.careful else Refusal):
                x = self.called(child, x, input)
        return packed(x if self.factor == 1 else x * self.factor, self.output)

    def called(self, child: nn.Module, x: Tensor, input: Tensor) -> Tensor:
        """What a child makes of x."""
        operation = getattr(child, "operation", "")
        if operation == "mix":
            made: Tensor = child(x, 0.5, None, "a text", torch.tensor([3]), input)
        elif operation == "boost":
            made = child(x, float("inf"))
        else:
            made = unpacked(child(input=x) if self.passing == "keyword" else child(x))
        return made


def build(spec: list[Any]) -> nn.Module:
    """The module that a spec describes."""
    kind, *rest = spec
    if kind == "chain":
        made: dict[str, nn.Module] = {}
        for name, child in rest[0].items():
            made[name] = made[child[1]] if child[0] == "same" else build(child)
        options = dict(rest[2])
        options["hidden"] = {name: build(child) for name, child in options.pop("hidden", {}).items()}
        return Chain(made, rest[1], **options)
    if kind in PLAIN:
        return PLAIN[kind](*rest)
    if kind == "list":
        return nn.ModuleList(map(build, rest[0]))
    weight, bias = rest
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.to(weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


PLAIN: dict[str, Callable[..., nn.Module]] = {
    "affine": Affine, "counting": Counting, "modal": Modal, "layer": Layer, "offset": Offset,
    "refuses": Refuses,
}  # fmt: skip
"""Leaves whose details are the arguments of their class."""


def made(net: dict[str, Any]) -> tuple[nn.Module, CallersHooks]:
    """A model as a draw describes it, with the hooks of its caller."""
    model = freeze_part(build(net["spec"]), net["frozen"])
    for name in net["evaluating"]:
        model.get_submodule(name).training = False
    if net["grad"] == "filled":
        fill_grads(model)
    callers = CallersHooks(net["hooks"])
    for name in net["watched"]:
        callers.on_module(model.get_submodule(name), name)
    if net["parameters"]:
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                callers.on_parameter(parameter, name)
    return model, callers


def steps_of(model: nn.Module) -> dict[str, int]:
    """How often each layer that counts has run in training mode, by name."""
    return {name: int(module.steps) for name, module in model.named_modules() if isinstance(module, Modal)}


def goes_on(ask: Callable[[nn.Module, str, Tensor], Any]) -> bool:
    """Whether the layer behind a module gets the output of this module itself, with its graph, and nothing else."""
    model, passed = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), []
    model[0].register_forward_hook(lambda module, args, output: passed.append((output, output.requires_grad)))
    model[1].register_forward_pre_hook(lambda module, args: passed.append((args[0], args[0].requires_grad)))
    ask(model, "0", torch.ones(1, 2))
    return all(given[0] is out[0] and given[1] == out[1] for out, given in zip(passed[::2], passed[1::2]))


# Hooks of the caller, as data: [name of the module, kind, options, label].

REGISTER = {
    "pre": "register_forward_pre_hook",
    "forward": "register_forward_hook",
    "backward-pre": "register_full_backward_pre_hook",
    "backward": "register_full_backward_hook",
    "legacy": "register_backward_hook",
}

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


WITH_OTHER_ARGUMENTS = "(with other arguments than it asked for)"


def listener(label: str, log: list[str], count: int) -> Callable[..., None]:
    """A hook of any kind that notes its label, and whether it got other than `count` arguments."""

    def hook(*args: Any) -> None:
        log.append(label if len(args) == count else f"{label} {WITH_OTHER_ARGUMENTS}")

    return hook


def register(model: nn.Module, hooks: list[Any], log: list[str]) -> list[Any]:
    """Register listeners, one function for each label; returns their handles."""
    handles, functions = [], {}
    for name, kind, options, label in hooks:
        count = (2 if "pre" in kind else 3) + options.get("with_kwargs", False)
        hook = functions.setdefault(label, listener(label, log, count))
        handles.append(getattr(model.get_submodule(name), REGISTER[kind])(hook, **options))
    return handles


def change_values(model: nn.Module, shift: float, factor: float) -> list[Any]:
    """Two hooks on the model itself: its input plus `shift`, its output times `factor`."""
    return [
        model.register_forward_pre_hook(lambda module, args: args[0] + shift),
        model.register_forward_hook(lambda module, args, output: factor * output),
    ]


def hooks_by_kind(model: Any) -> dict[str, list[int]]:
    """For each kind of hook, how many each module has, in the order of `modules()`."""
    return {kind: [len(getattr(module, kind, None) or ()) for module in model.modules()] for kind in KINDS}


def forward_backward(model: nn.Module, x: Tensor) -> Tensor:
    """The model's output on x, after a backward pass through its sum."""
    output: Tensor = model(x.clone().requires_grad_())
    output.sum().backward()
    return output.detach()


def all_counts(hooks: dict[str, list[int]]) -> list[int]:
    """The number of hooks of each kind in each module, as one list."""
    return [count for counts in hooks.values() for count in counts]


def new_hooks(model: nn.Module, old: list[Any], refusing: list[str], x: Tensor) -> dict[str, Any]:
    """Register hooks of each kind on each module, then remove old handles, then see which hooks fire.

    The modules that are `refusing` had a legacy backward hook: torch may refuse full ones there, as it does after
    `handle.remove()`.
    """
    seen: dict[str, Any] = {"old handles": "harmless"}
    log: list[str] = []
    try:
        hooks = [
            [name, kind, options, f"{kind} {name}"]
            for name, _ in model.named_modules()
            for kind, options in NEW
            if kind != "backward" or name not in refusing
        ]
        new = register(model, hooks, log)
    except Exception as error:
        return seen | {"new": f"{type(error).__name__}: {error}"}
    try:
        for handle in old:
            handle.remove()
            handle.remove()
    except Exception as error:
        seen["old handles"] = f"{type(error).__name__}: {error}"
    if old and min(handle.id for handle in new) <= max(handle.id for handle in old):
        seen["old handles"] = "new hooks have numbers that were given before: an old handle may remove one of them"
    forward_backward(model, x)
    return seen | {"new": dict(Counter(log))}


NEW: list[tuple[str, dict[str, Any]]] = [
    ("pre", {"with_kwargs": True}),
    ("forward", {"with_kwargs": True, "always_call": True}),
    ("backward-pre", {}),
    ("backward", {}),
]
"""The kinds of new hooks, and their options."""


def flags_of(model: nn.Module) -> list[bool | None]:
    """For each module, whether it takes legacy backward hooks (False) or full ones (True), or has not decided."""
    return [module._is_full_backward_hook for module in model.modules()]


def other_hooks(model: nn.Module) -> dict[str, list[int]]:
    """The hooks of `state_dict` and `load_state_dict`, by module and kind, in their order: who each of them is."""
    kinds = ("_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
    found = {}
    for name, module in model.named_modules():
        for kind in kinds:
            found[f"`{kind}` of {f'`{name}`' if name else 'the model itself'}"] = [
                id(hook) for hook in (getattr(module, kind, None) or {}).values()
            ]
    return found


def hook_state_dicts(model: nn.Module) -> list[str]:
    """Every module gets a hook of each kind that `state_dict` and `load_state_dict` call; returns those that fire."""
    fired: list[str] = []
    for module in model.modules():
        module.register_state_dict_pre_hook(lambda module, prefix, keep_vars: fired.append("state_dict"))
        module._register_state_dict_hook(lambda module, state, prefix, metadata: fired.append("state_dict"))
        module._register_load_state_dict_pre_hook(lambda state, *args: fired.append("load_state_dict"))
        module.register_load_state_dict_post_hook(lambda module, keys: fired.append("load_state_dict"))
    return fired
