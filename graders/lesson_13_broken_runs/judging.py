"""What draws, checks and mistakes of several exercises of lesson 13 use: the models of `shared`, without modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graders.lesson_13_broken_runs.shared import along_channels, pooled


@dataclass(frozen=True)
class Call:
    """One call of a leaf: its first name, its kind, and the floating tensors that it returned, with their graph."""

    name: str
    kind: str
    outputs: list[Tensor]


def walk(spec: list[Any], path: str = "") -> list[tuple[str, list[Any]]]:
    """Names and specs as in `named_modules()`: depth first, each module once, under its first name."""
    found = [(path, spec)]
    if spec[0] == "chain":
        for name, child in spec[1].items():
            if child[0] != "same":
                found += walk(child, f"{path}.{name}" if path else name)
    return found


class Run:
    """Follows a spec by composing functions, and writes down each call of a leaf in order."""

    def __init__(
        self,
        spec: list[Any],
        evaluating: list[str],
        frozen: list[str] | None = None,
        replaced: dict[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> None:
        """Modules named in `evaluating` are in eval mode, and the parameters of those in `frozen` require no grad.

        `replaced` maps a module to what hooks of the caller make of each tensor that it returns.
        """
        self.spec, self.evaluating = spec, evaluating
        self.frozen, self.replaced = frozen or [], replaced or {}
        self.calls: list[Call] = []
        self._parameters: dict[str, list[Tensor]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """The output of the model, if it were a tensor; `calls` goes on from where it was."""
        return self._module(self.spec, "", x)

    def _module(self, spec: list[Any], path: str, h: Tensor) -> Tensor:
        replace = self.replaced.get(path, lambda out: out)
        if spec[0] == "chain":
            x = h
            for what, detail in spec[2]:
                h = x if what == "restart" else self._step(spec, path, what, detail, h)
            return replace(h)
        outputs = [replace(out) for out in self._leaf(spec, path, h)]
        self.calls.append(Call(path, spec[0], outputs))
        return outputs[0] + outputs[-1] if spec[0] == "several" else outputs[0]

    def _step(self, spec: list[Any], path: str, what: str, detail: Any, h: Tensor) -> Tensor:
        def part(h: Tensor) -> Tensor:
            child = spec[1][detail]
            name = child[1] if child[0] == "same" else detail
            return self._module(spec[1][name], f"{path}.{name}" if path else name, h)

        steps: dict[str, Callable[[], Tensor]] = {
            "call": lambda: part(h),
            "plus": lambda: h + part(h),
            "plus of detached": lambda: h + part(h.detach()),
            "plus detached": lambda: h + part(h).detach(),
            "plus without grad": lambda: h + self._cut(part, h),
            "aside": lambda: (part(h), h)[1],
            "hidden": lambda: torch.relu(h),
            "relu": lambda: torch.relu(h),
            "pool": lambda: pooled(h),
        }
        if what in steps:
            return steps[what]()
        return h + detail if what.startswith("add") else h * detail

    def _cut(self, part: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
        with torch.no_grad():
            return part(h)

    def _leaf(self, spec: list[Any], path: str, h: Tensor) -> list[Tensor]:
        kind, *details = spec
        if kind in ("relu", "own relu", "lookalike"):
            return [torch.relu(h)]
        if kind == "tanh":
            return [torch.tanh(h)]
        if kind == "identity":
            return [h]
        if kind == "several":
            return [2 * h, h / 2, 3 * h]
        if kind in ("modal", "last modal"):
            shift = along_channels(details[0], h) if kind == "modal" else details[0]
            return [h + shift if path in self.evaluating else h.clone()]
        own = self._parameters.setdefault(
            path, [value.clone().requires_grad_(path not in self.frozen) for value in details]
        )
        if kind == "token":
            return own
        if kind == "scale":
            return [along_channels(own[0], h) * h + along_channels(own[1], h)]
        return [torch.nn.functional.linear(h, *own)]
