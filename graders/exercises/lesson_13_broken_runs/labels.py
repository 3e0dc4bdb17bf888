"""The labels of 13-diagnose as rules, each of which may be replaced by a wrong one."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graders.exercises.lesson_11_hygiene.programs import KINDS

Rule = Callable[["Run", float], str | None]
"""Of a run and a learning rate: the name of the module where it starts, if the label fits."""
Pick = Callable[[Iterable[str]], str | None]
"""Which of several names is the answer; None if there are none."""
Sizes = list[tuple[str, float]]


class Run:
    """One pass of a new model, after `prepare(model)`; all runs draw the same random numbers."""

    def __init__(self, make: Callable[[], nn.Module], x: Tensor, y: Tensor, loss_fn: Any, prepare: Any = id) -> None:
        """Runs at once."""
        self.make, self.again = make, partial(Run, make, x, y, loss_fn)
        model = make()
        prepare(model)
        self.modules = dict(model.named_modules())
        self.calls: list[tuple[str, Tensor]] = []
        """The name of each leaf that is called, and its output."""

        def note(name: str, module: nn.Module, args: Any, output: Any) -> None:
            if output.requires_grad:
                output.retain_grad()
            self.calls.append((name, output))

        for name, module in self.modules.items():
            if not list(module.children()):
                module.register_forward_hook(partial(note, name))
        torch.manual_seed(0)
        loss = loss_fn(model(x.detach()), y.detach())
        if loss.requires_grad:
            loss.backward()
        self.grads = {name: p.grad for name, p in model.named_parameters()}
        self.sizes: Sizes = [(name, size_of(output.grad)) for name, output in self.calls if output.grad is not None]
        owned = {name: list(module.parameters(recurse=False)) for name, module in self.modules.items()}
        self.owned = {name: parameters for name, parameters in owned.items() if parameters}
        self.without = [name for name in self.owned if all(p.grad is None for p in self.owned[name])]
        self.called = [name for name, _ in self.calls]


def size_of(grad: Tensor) -> float:
    """The root of the mean of the squares."""
    return grad.double().square().mean().sqrt().item()


def hooks_of(module: nn.Module, accumulated: bool = True) -> list[dict[int, Any]]:
    """The dicts of hooks of a module, and of its own parameters; with `accumulated`, of all kinds."""
    kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")[: 1 + accumulated]
    own = [getattr(p, kind) or {} for p in module.parameters(recurse=False) for kind in kinds]
    return [getattr(module, kind) for kind in KINDS] + own


def first(found: Iterable[str]) -> str | None:
    """The first of these names, or None."""
    return next(iter(found), None)


def nan(run: Run, lr: float, good: Callable[[Tensor], Tensor] = torch.isfinite) -> str | None:
    """The leaf of the first output that is not good."""
    return first(name for name, output in run.calls if not good(output).all())


def changes(run: Run, without: Run) -> bool:
    """Whether the gradients of two runs differ, and not in the last digits only."""
    pairs = [(grad, without.grads[name]) for name, grad in run.grads.items()]
    return not all(a is b if a is None or b is None else torch.allclose(a, b, rtol=1e-3, atol=0) for a, b in pairs)


def hook(
    run: Run,
    lr: float,
    matters: Callable[[Run, Run], bool] = changes,
    places: Callable[[nn.Module], list[dict[int, Any]]] = hooks_of,
) -> str | None:
    """The first module without whose hooks the gradients are other ones."""

    def clear(model: nn.Module, name: str) -> None:
        for hooks in places(model.get_submodule(name)):
            hooks.clear()

    hooked = [name for name, module in run.make().named_modules() if any(places(module))]
    return first(name for name in hooked if matters(run, run.again(partial(clear, name=name))))


def mode(run: Run, lr: float) -> str | None:
    """A leaf in eval mode that puts out something else in training mode."""

    def outputs(name: str, training: bool) -> list[Tensor]:
        kept: list[Tensor] = []

        def prepare(model: nn.Module) -> None:
            model.get_submodule(name).training = training
            model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.detach()))

        run.again(prepare)
        return kept

    still = [name for name, m in run.modules.items() if not m.training and not list(m.children())]
    return first(n for n in still if not all(map(torch.equal, outputs(n, True), outputs(n, False))))


def beyond(is_beyond: Callable[[float, float], bool]) -> Callable[..., str | None]:
    """The last call whose gradient is so much larger or smaller than that of the very last."""

    def look(run: Run, lr: float, among: Callable[[Sizes], Sizes] = list) -> str | None:
        sizes = among(run.sizes)
        return first(name for name, size in reversed(sizes) if is_beyond(size, sizes[-1][1]))

    return look


def after_a_step(run: Run, lr: float) -> Run:
    """The pass after a step of SGD."""

    def step(model: nn.Module) -> None:
        for name, p in model.named_parameters():
            grad = run.grads[name]
            p.data -= 0 if grad is None else lr * grad

    return run.again(step)


def in_all_calls(calls: Tensor) -> bool:
    """Whether more than half of the channels are silent in each of these calls."""
    return bool(calls.all(0).double().mean() > 0.5)


def dead(run: Run, join: Callable[[Tensor], bool] = in_all_calls, pick: Pick = first) -> str | None:
    """A ReLU of whose channels more than half are dead. `join` gets a row for each call: the channels that are 0."""
    silent: dict[str, list[Tensor]] = {}
    for name, output in run.calls:
        if isinstance(run.modules[name], nn.ReLU):
            silent.setdefault(name, []).append((output == 0).all(0))
    return pick(name for name, calls in silent.items() if join(torch.stack(calls)))


exploding, vanishing = (
    beyond(lambda size, at_last: size > 1e4 * at_last),
    beyond(lambda size, at_last: size < 1e-4 * at_last),
)
RULES: dict[str, Rule] = {
    "nan": nan,
    "hook": hook,
    "mode": mode,
    "unused": lambda run, lr: first(name for name in run.without if name not in run.called),
    "frozen": lambda run, lr: first(n for n, own in run.owned.items() if not any(p.requires_grad for p in own)),
    "cut": lambda run, lr: first(name for name in reversed(run.called) if name in run.without),
    "exploding": exploding,
    "dead": lambda run, lr: dead(run) or dead(after_a_step(run, lr)),
    "vanishing": vanishing,
}


def answer(
    make: Callable[[], nn.Module], x: Tensor, y: Tensor, loss_fn: Any, lr: float,
    order: Iterable[str] = RULES, **others: Rule,
) -> tuple[str, str | None]:  # fmt: skip
    """The first label that fits; `others` are other rules, in the place of those of the same name."""
    with torch.random.fork_rng(devices=[]):
        run = Run(make, x, y, loss_fn)
        for label in order:
            where = {**RULES, **others}[label](run, lr)
            if where is not None:
                return label, where
        return "healthy", None
