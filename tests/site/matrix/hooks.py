"""The rows of the matrix: how each kind of hook is put on the watched layer, and what it should see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks

SEEN: list[torch.Tensor | None] = []
"""What hooks were given. Hooks find it by this name, so that they can be pickled."""


def see(value: Any) -> None:
    """Keep what a hook was given: a copy, if it is a tensor that still has its values."""
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    SEEN.append(value.detach().clone() if isinstance(value, torch.Tensor) else None)


def tensor_in(output: Any) -> torch.Tensor:
    """The tensor that the loss is computed from, somewhere in the output of a layer."""
    if isinstance(output, dict):
        return tensor_in(output["y"])
    return tensor_in(output[-1][0]) if isinstance(output, tuple) else output


# The hooks are functions of a module, so that a model that carries them can be pickled. A global hook is called for
# every module: `watched` marks the one that is meant.
def before(module: Any, args: Any) -> None:
    if getattr(module, "watched", False):
        see(args)


def before_kwargs(module: Any, args: Any, kwargs: Any) -> None:
    see(args or kwargs["input"])


def after(module: Any, args: Any, output: Any) -> None:
    if getattr(module, "watched", False):
        SEEN.append(tensor_in(output))  # as it is: the point of some cells is that it changes


def backward(module: Any, grad_input: Any, grad_output: Any) -> None:
    if getattr(module, "watched", False):
        see(grad_output)


def backward_input(module: Any, grad_input: Any, grad_output: Any) -> None:
    see(grad_input)


def total(parameter: Any) -> None:
    see(parameter.grad)


def node(grad_inputs: Any, grad_outputs: Any) -> None:
    see(grad_outputs)


def on_tensor(module: Any, args: Any, output: Any) -> None:
    tensor_in(output).register_hook(see)


def on_node(module: Any, args: Any, output: Any) -> None:
    made_by: Any = tensor_in(output).grad_fn
    made_by.register_hook(node)


KEPT: list[torch.Tensor] = []


def retain(module: Any, args: Any, output: Any) -> None:
    tensor_in(output).retain_grad()
    KEPT.append(tensor_in(output))


def seen_by_unpack(tensor: torch.Tensor) -> torch.Tensor:
    SEEN.append(None)
    return tensor


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    SEEN.append(None)


@dataclass(frozen=True)
class Target:
    """What a hook may be put on: a layer, its weights, the optimizer."""

    layer: Any
    optimizer: Any

    @property
    def weights(self) -> list[Any]:
        return list(self.layer.parameters())


@dataclass(frozen=True)
class Hook:
    """A row: `put` registers it and returns the handle; `around` is a context for the forward pass."""

    key: str
    title: str
    put: Callable[[Target], Any] = lambda target: None
    value: str | None = None
    """What it should see: "input", "output", the gradient "to_input", "to_output" or of "weight"; None: no tensor."""
    around: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)


def on_layer(method: str, hook: Any, **flags: bool) -> Callable[[Target], Any]:
    return lambda target: getattr(target.layer, method)(hook, **flags)


def everywhere(function: str, hook: Any) -> Callable[[Target], Any]:
    return lambda target: getattr(nn.modules.module, function)(hook)


HOOKS: Iterable[Hook] = (
    Hook("pre", "`register_forward_pre_hook`", on_layer("register_forward_pre_hook", before), "input"),
    Hook(
        "pre_kwargs", "… `with_kwargs`", on_layer("register_forward_pre_hook", before_kwargs, with_kwargs=True), "input"
    ),
    Hook("forward", "`register_forward_hook`", on_layer("register_forward_hook", after), "output"),
    Hook("always", "… `always_call`", on_layer("register_forward_hook", after, always_call=True), "output"),
    Hook(
        "backward_pre",
        "`register_full_backward_pre_hook`",
        on_layer("register_full_backward_pre_hook", before),
        "to_output",
    ),
    Hook("backward", "`register_full_backward_hook`", on_layer("register_full_backward_hook", backward), "to_output"),
    Hook("old", "`register_backward_hook` (old)", on_layer("register_backward_hook", backward_input), "to_input"),
    Hook("all_forward", "`register_module_forward_hook`", everywhere("register_module_forward_hook", after), "output"),
    Hook(
        "all_backward",
        "`register_module_full_backward_hook`",
        everywhere("register_module_full_backward_hook", backward),
        "to_output",
    ),
    Hook("output", "`output.register_hook`", on_layer("register_forward_hook", on_tensor), "to_output"),
    Hook("retain", "`output.retain_grad`", on_layer("register_forward_hook", retain), "to_output"),
    Hook("node", "`grad_fn.register_hook`", on_layer("register_forward_hook", on_node), "to_output"),
    Hook("weight", "`weight.register_hook`", lambda target: target.weights[0].register_hook(see), "weight"),
    Hook(
        "after_sum",
        "`….register_post_accumulate_grad_hook`",
        lambda target: target.weights[0].register_post_accumulate_grad_hook(total),
        "weight",
    ),
    Hook("multi_all", "`register_multi_grad_hook`, all", lambda t: register_multi_grad_hook(t.weights, see), "weight"),
    Hook(
        "multi_any",
        "`register_multi_grad_hook`, any",
        lambda target: register_multi_grad_hook(target.weights[:1], see, mode="any"),
        "weight",
    ),
    Hook("saved", "`saved_tensors_hooks`", around=partial(saved_tensors_hooks, same, seen_by_unpack)),
    Hook("step", "`optimizer.register_step_post_hook`", lambda t: t.optimizer.register_step_post_hook(stepped)),
)
