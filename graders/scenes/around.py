"""A tensor of a caller, its surroundings, and backward passes of many kinds that reach it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graders.probing.asking import detached_copy
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.passes import compute_gradients
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Value
from graders.wire.draws import Rng

AXES: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "rank": (0, 1, 2, 3),
    "values": ("round", "full"),
    "place": ("leaf", "non-leaf", "parameter"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}
"""The axes that describe a tensor and what exists beforehand."""
NUMBERS = ("zero", "negative", "fraction", "large")
PASSES = ("plain", "create_graph", "autograd.grad", "after an aborted one")
"""The ways to run a pass with `graders.scenes.instruments.passes.compute_gradients`."""


class TensorSurroundings:
    """A leaf `x`; `t`, which is `x` or a view of it; a neighbour that backward reaches after `t`; and hooks."""

    def __init__(self, rng: Rng, case: Any, shape: Sequence[int]) -> None:
        """Draw all tensors; `shape` is that of `x`."""
        like = {"dtype": case.dtype, "values": case.values}
        x, self.other, *self.factors = (rng.tensor(*shape, **like) for _ in range(4))
        side = rng.choice((1, -1))
        for factor in self.factors:  # one entry of each is far above or below 0
            factor.view(-1)[0], side = side * rng.tensor(low=2.5, **like), -side
        self.neighbour = -self.other.requires_grad_()
        layout = "transposed" if len(shape) == 3 else "contiguous"
        self.x = prepare_tensor(
            x, layout=layout, place="parameter" if case.place == "parameter" else "leaf", grad=case.grad
        )
        self.t = self.x.view_as(self.x) if case.place == "non-leaf" else self.x
        self.way, callers = case.backward, CallersHooks(case.hooks)
        (callers.on_parameter if self.t is self.x else callers.on_tensor)(self.t, "t")

    def witness(self, *args: Any) -> Witness:
        """A witness of all that the caller has, including the first list among the arguments `args`."""
        lists = dict.fromkeys(["the list"], next((arg for arg in args if isinstance(arg, list)), None))
        return Witness(t=self.t, x=self.x, other=self.other, factors=self.factors, **lists)

    def note_gradients(
        self, name: str, loss: Callable[[], Tensor], where: dict[str, Any], same: dict[str, Any], way: str = "plain"
    ) -> None:
        """Run a pass, and note the gradient of `x` in `where` and that of the neighbour in `same`."""
        where[f"x.grad {name}"], same[f"the neighbour's gradient {name}"] = compute_gradients(
            loss, [self.x, self.other], way
        )

    def passes(
        self,
        changed: dict[str, Any],
        passes: dict[str, Any],
        graph: dict[str, Any],
        same: dict[str, Any],
        through: Callable[[], Tensor] | None = None,
        after: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Run passes of many kinds through `through()` (`t` by default), and note what shows in the dicts.

        `after` is called after each pass, with its name.
        """
        first, second = self.factors
        through = through or (lambda: self.t)

        def loss(factor: Tensor) -> Tensor:
            return ((through() + self.neighbour) * factor).sum()

        kinds: list[tuple[str, Callable[[], Tensor], dict[str, Any], str]] = [
            ("of a pass", lambda: loss(first), changed, self.way),
            ("of another pass", lambda: loss(second), passes, "plain"),
            ("of two uses", lambda: loss(first) + loss(second), passes, "plain"),
            ("of zeros", lambda: (through() * 0.0).sum(), passes, "plain"),
        ]
        for name, one, where, way in kinds:
            self.note_gradients(name, one, where, same, way)
            after(name)
        graph["x.grad differentiated"] = second_gradient(lambda: loss(first), self.x, first)
        after("of create_graph=True")
        for factor in self.factors:
            torch.autograd.backward(loss(factor))
        passes["x.grad after two passes"] = detached_copy(self.x.grad)


def second_gradient(loss: Callable[[], Tensor], x: Tensor, k: Tensor) -> Tensor | None:
    """The gradient with respect to `k` of the sum of d loss() / d x; None if the latter has no graph."""
    k.requires_grad_()
    (found,) = torch.autograd.grad(loss(), x, create_graph=True, allow_unused=True)
    has_graph = found is not None and found.requires_grad
    again = torch.autograd.grad(found.sum(), k, allow_unused=True)[0] if has_graph else None
    k.requires_grad_(False)
    return again
