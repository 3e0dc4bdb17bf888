"""Hooks that a caller of the learner's function has on tensors and modules: they watch or replace, and log calls."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

REPLACING_FACTOR = 2.0
"""What a replacing hook multiplies an output or a gradient by."""


class CallersHooks:
    """Hooks that are registered before the learner's function is called, and a log of their calls.

    `what` is "none", "watching" (they return nothing) or "replacing" (they return an output, or a gradient, times
    `REPLACING_FACTOR`). `log` holds an event such as "forward model" for each call of a hook. A `Witness` made after
    they are registered tells whether they are still there, the same ones in the same order.
    """

    def __init__(self, what: str = "watching") -> None:
        """Choose what the hooks do; none is registered yet."""
        self.what = what
        self.log: list[str] = []
        self.handles: list[Any] = []

    def on_tensor(self, t: Tensor, name: str) -> CallersHooks:
        """Register two hooks on a tensor that requires grad: the first watches, the second does what `what` says."""
        register: Any = t.register_hook
        if self.what != "none":
            self.handles += [register(self._watching_hook(f"grad {name}")), register(self._gradient_hook(name))]
        return self

    def on_parameter(self, p: Tensor, name: str) -> CallersHooks:
        """Register hooks as on a tensor, and one that is called when `.grad` has been filled."""
        register: Any = p.register_post_accumulate_grad_hook
        if self.what != "none":
            self.on_tensor(p, name)
            self.handles.append(register(self._watching_hook(f"accumulated {name}")))
        return self

    def on_module(self, module: nn.Module, name: str, *, backward: bool = False) -> CallersHooks:
        """Register two forward pre-hooks and two forward hooks, and with `backward` also full backward hooks.

        The second forward hook does what `what` says; all others watch. Full backward hooks forbid in-place layers
        right after the module.
        """
        if self.what == "none":
            return self
        self.handles += [
            module.register_forward_pre_hook(self._watching_hook(f"pre {name}")),
            module.register_forward_pre_hook(self._watching_hook(f"pre with kwargs {name}"), with_kwargs=True),
            module.register_forward_hook(self._watching_hook(f"forward {name}")),
            module.register_forward_hook(self._output_hook(name)),
        ]
        if backward:
            self.handles += [
                module.register_full_backward_pre_hook(self._watching_hook(f"backward pre {name}")),
                module.register_full_backward_hook(self._watching_hook(f"backward {name}")),
            ]
        return self

    def remove(self) -> None:
        """Remove all hooks that were registered here."""
        for handle in self.handles:
            handle.remove()

    def _watching_hook(self, event: str) -> Any:
        def hook(*args: Any, **kwargs: Any) -> None:
            self.log.append(event)

        return hook

    def _gradient_hook(self, name: str) -> Any:
        def hook(grad: Tensor | None) -> Tensor | None:
            self.log.append(f"{self.what} grad {name}")
            return grad * REPLACING_FACTOR if self.what == "replacing" and grad is not None else None

        return hook

    def _output_hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            self.log.append(f"{self.what} forward {name}")
            return scale_tensors(output, REPLACING_FACTOR) if self.what == "replacing" else None

        return hook


def scale_tensors(value: Any, factor: float) -> Any:
    """Return a tensor, tuple, list or dict with every floating-point tensor multiplied, and the rest unchanged."""
    if isinstance(value, Tensor):
        return value * factor if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: scale_tensors(entry, factor) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(scale_tensors(entry, factor) for entry in value)
    return value
