"""The labels of 13-diagnose as rules, each of which may be replaced by a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Rule = Callable[["Run", float], str | None]
"""Of a run and a learning rate: the name of the module where it starts, if the label fits."""
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class Run:
    """One pass of a new model, after `prepare(model)`; all runs draw the same random numbers."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        x: Tensor,
        y: Tensor,
        loss_fn: Callable[[Any, Tensor], Tensor],
        seed: int = 0,
        prepare: Callable[[nn.Module], Any] = id,
    ) -> None:
        """`seed` is that of the random numbers."""
        self.make, self.again = make, partial(Run, make, x, y, loss_fn, seed)
        self.model = make()
        prepare(self.model)
        self.modules = dict(self.model.named_modules())
        names = {module: name for name, module in self.modules.items()}
        self.calls: list[tuple[str, Tensor]] = []
        """The name of each leaf that is called, and its output."""
        arrived: dict[int, Tensor] = {}

        def note(module: nn.Module, args: Any, output: Any) -> None:
            if output.requires_grad:
                output.register_hook(partial(arrived.setdefault, len(self.calls)))
            self.calls.append((names[module], output.detach()))

        for module in names:
            if not list(module.children()):
                module.register_forward_hook(note)
        torch.manual_seed(seed)
        loss = loss_fn(self.model(x.detach()), y.detach())
        if loss.requires_grad:
            torch.autograd.backward(loss)
        self.grads = {name: p.grad for name, p in self.model.named_parameters()}
        self.sizes = [(self.calls[number][0], size_of(arrived[number])) for number in sorted(arrived)]
        owned = {name: list(module.parameters(recurse=False)) for name, module in self.modules.items()}
        self.owned = {name: parameters for name, parameters in owned.items() if parameters}
        self.without = [name for name in self.owned if all(p.grad is None for p in self.owned[name])]
        self.called = [name for name, _ in self.calls]


def size_of(grad: Tensor) -> float:
    """The root of the mean of the squares."""
    return grad.double().square().mean().sqrt().item()


Grads = dict[str, Tensor | None]


def same(grads: Grads, others: Grads) -> bool:
    """Whether all gradients are equal, up to the last digits."""
    pairs = [(grads[name], others[name]) for name in grads]
    return all(a is b if a is None or b is None else torch.allclose(a, b, rtol=1e-3, atol=0) for a, b in pairs)


def hooks_of(module: nn.Module, of_parameters: bool = True) -> list[dict[int, Any]]:
    """The dicts of hooks of a module, and of its own parameters."""
    found = [getattr(module, kind) for kind in KINDS]
    return found + [p._backward_hooks or {} for p in module.parameters(recurse=False) if of_parameters]


def first(found: Iterable[str]) -> str | None:
    """The first of these names, or None."""
    return next(iter(found), None)


def nan(run: Run, lr: float, good: Callable[[Tensor], Tensor] = torch.isfinite) -> str | None:
    """The leaf of the first output that is not good."""
    return first(name for name, output in run.calls if not good(output).all())


def hook(
    run: Run,
    lr: float,
    of_parameters: bool = True,
    changes: Callable[[Run, Run], bool] = lambda run, without: not same(run.grads, without.grads),
) -> str | None:
    """The first module without whose hooks the gradients are other ones."""

    def clear(model: nn.Module, name: str) -> None:
        for hooks in hooks_of(model.get_submodule(name), of_parameters):
            hooks.clear()

    hooked = [name for name, module in run.make().named_modules() if any(hooks_of(module, of_parameters))]
    return first(name for name in hooked if changes(run, run.again(prepare=partial(clear, name=name))))


def mode(run: Run, lr: float) -> str | None:
    """A module in eval mode that puts out something else in training mode."""

    def outputs(name: str, training: bool) -> list[Tensor]:
        kept: list[Tensor] = []

        def prepare(model: nn.Module) -> None:
            model.get_submodule(name).training = training
            model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.detach()))

        run.again(prepare=prepare)
        return kept

    still = [name for name, module in run.modules.items() if not module.training]
    return first(n for n in still if not all(map(torch.equal, outputs(n, True), outputs(n, False))))


def unused(run: Run, lr: float) -> str | None:
    """A leaf that is not called, and gets no gradient."""
    return first(name for name in run.without if name not in run.called)


def frozen(run: Run, lr: float) -> str | None:
    """A leaf with parameters of which none requires grad."""
    return first(name for name, own in run.owned.items() if not any(p.requires_grad for p in own))


def cut(run: Run, lr: float) -> str | None:
    """The last leaf that is called and gets no gradient."""
    return first(name for name in reversed(run.called) if name in run.without)


def exploding(run: Run, lr: float) -> str | None:
    """The last call whose gradient is far larger than that of the very last."""
    return first(name for name, size in reversed(run.sizes) if size > 1e4 * run.sizes[-1][1])


def vanishing(run: Run, lr: float) -> str | None:
    """The last call whose gradient is far smaller than that of the very last."""
    return first(name for name, size in reversed(run.sizes) if size < 1e-4 * run.sizes[-1][1])


def dead(run: Run, lr: float, steps: Sequence[int] = (0, 1), most: float = 0.5) -> str | None:
    """A ReLU with dead channels, more than this part of all, after so many steps of SGD."""

    def step(model: nn.Module, steps: int) -> None:
        for name, p in model.named_parameters():
            grad = run.grads[name]
            p.data -= 0 if grad is None else steps * lr * grad

    return first(
        name
        for number in steps
        for name, output in run.again(prepare=partial(step, steps=number)).calls
        if isinstance(run.modules[name], nn.ReLU) and (output == 0).all(0).double().mean() > most
    )


RULES: dict[str, Rule] = {
    "nan": nan, "hook": hook, "mode": mode, "unused": unused, "frozen": frozen, "cut": cut, "exploding": exploding,
    "dead": dead, "vanishing": vanishing,
}  # fmt: skip


def answer(
    make: Callable[[], nn.Module],
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[Any, Tensor], Tensor],
    lr: float,
    order: Iterable[str] = RULES,
    **others: Rule,
) -> tuple[str, str | None]:
    """The first label that fits; `others` are other rules, in the place of those of the same name."""
    with torch.random.fork_rng(devices=[]):
        run = Run(make, x, y, loss_fn)
        for label in order:
            where = {**RULES, **others}[label](run, lr)
            if where is not None:
                return label, where
        return "healthy", None
