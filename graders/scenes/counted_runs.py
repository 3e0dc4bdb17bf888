"""Scenes for functions that run a model and count what happens in the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.models import fill_grads, freeze_part, in_mode, packed
from graders.box.passes import grad_mode
from graders.box.probing import snapshot
from graders.box.tensors import laid_out, prepared
from graders.box.witness import Witness
from graders.scenes.recorders import copied
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


class Counted(nn.Module):
    """A model that notes its runs. Its parts are called by position or by keyword."""

    def __init__(self, case: Any) -> None:
        """As the case says."""
        super().__init__()
        self.passing, self.output = case.passing, case.output
        self.log: list[str] = []
        self.ran_on: list[Tensor] = []

    def begin(self, x: Tensor) -> None:
        """Note that a run begins."""
        self.log.append("a run")
        self.ran_on.append(snapshot(x))

    def end(self, x: Tensor) -> Any:
        """Note that the run ends, and pack its result."""
        self.log.append("its end")
        return packed(x, self.output)

    def call(self, part: nn.Module, x: Tensor) -> Tensor:
        """Call a part."""
        result: Tensor = part(input=x) if self.passing == "keyword" else part(x)
        return result


class Workshop(Counted):
    """Calls modules that it has registered, one in a plain list, and one that it makes on the way."""

    def __init__(self, rng: Rng, case: Any) -> None:
        """With classes and steps from the source."""
        super().__init__(case)
        own_layer, own_block = (
            type(name, (base,), {"__qualname__": f"Workshop.{name}"})  # as if defined inside of another class
            for name, base in zip(rng.names(2), (nn.Linear, nn.Sequential))
        )
        self.block = own_block(own_layer(3, 3), nn.Tanh())
        self.late = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout())
        self.stack = nn.ModuleList([nn.ELU(), nn.Identity()])
        self.twin = type("Tanh", (nn.Softsign,), {})()  # another class of the same name
        self.direct, self.training_only, self.never = nn.Softplus(), nn.Softshrink(), nn.Hardtanh()
        self.in_a_list = [own_layer(3, 3).to(getattr(torch, case.dtype)), nn.Sequential(nn.Mish())]
        steps = [self.block, self.block, self.twin, *self.in_a_list]
        self.steps = rng.shuffled([*steps, rng.choice(steps), rng.choice(steps)])

    def forward(self, input: Tensor) -> Any:
        """All steps, one more in training mode, and two that are no calls of modules."""
        self.begin(input)
        x = torch.relu(self.direct.forward(input))
        for part in [*self.steps, *self.stack, nn.Sigmoid(), self.late]:
            x = self.call(part, x)
        return self.end(self.call(self.training_only, x) if self.training else x)


def a_workshop(rng: Rng, case: Any) -> tuple[nn.Module, Tensor]:
    """A model of a class with a drawn name, and an input."""
    kind = type(rng.names(1)[0].capitalize(), (Workshop,), {})
    return kind(rng, case), rng.tensor(2, 3, dtype=case.dtype)


def a_layer(call: Callable[..., Any], rng: Rng, seen: dict[str, Any]) -> None:
    """A model that is a single layer, of a class with a drawn name."""
    kind = type(rng.names(1)[0].capitalize(), (nn.Linear,), {})
    seen["of a layer alone"] = copied(call(kind(3, 3), rng.tensor(2, 3)))


class Lookalike(nn.Module):
    """Multiplies with a weight, and is no `nn.Linear`."""

    def __init__(self, size: int) -> None:
        """For so many features."""
        super().__init__()
        self.in_features = self.out_features = size
        self.weight = nn.Parameter(torch.eye(size))

    def forward(self, input: Tensor) -> Tensor:
        """A matrix product."""
        return input @ self.weight.T


class Adapted(nn.Linear):
    """A layer with a smaller one in it."""

    def __init__(self, size: int, out: int) -> None:
        """For so many features."""
        super().__init__(size, out)
        self.adapter = nn.Linear(size, 1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Both."""
        output: Tensor = super().forward(input) + self.adapter(input)
        return output


class Workload(Counted):
    """Convolutions and linear layers, some used twice, nested, or under two names; and others that do not count."""

    def __init__(self, rng: Rng, case: Any) -> None:
        """With sizes from the source."""
        super().__init__(case)
        size = 2 * rng.integer(2, 4)
        own_conv = type(rng.names(1)[0].capitalize(), (nn.Conv2d,), {})
        wide: dict[str, Any] = {
            "kernel_size": rng.shuffled([2, 3]),
            "dilation": rng.shuffled([1, 2]),
            "stride": 2,
            "bias": False,
        }
        self.first = own_conv(4, size, rng.shuffled([1, 3]), groups=2, padding=1)
        self.again = nn.Conv2d(size, size, 3, padding="same", groups=rng.choice((1, size)))
        self.nested = nn.Sequential(nn.PReLU(), nn.Conv2d(size, size, **wide))
        self.tokens, self.late = nn.Linear(size, size), Adapted(size, rng.integer(2, 5))
        self.alias, self.never = self.again, nn.Linear(size, 3)
        self.training_only, self.lookalike = nn.Linear(size, size), type("Linear", (Lookalike,), {})(size)
        self.others = nn.ModuleList([nn.ConvTranspose2d(size, size, 2), nn.LayerNorm(size), nn.Conv1d(size, size, 1)])

    def forward(self, input: Tensor) -> Any:
        """All parts but one, and one more in training mode."""
        self.begin(input)
        transposed, norm, along = self.others
        x = input
        for part in (self.first, self.again, transposed, self.nested, self.again):
            x = torch.relu(self.call(part, x))
        x = x.flatten(2).transpose(1, 2)
        for part in (self.tokens, norm, self.tokens, self.lookalike):
            x = torch.tanh(self.call(part, x))
        x = nn.functional.linear(self.call(along, x.transpose(1, 2)).transpose(1, 2), self.tokens.weight)
        x = self.call(self.training_only, x) if self.training else x
        return self.end(self.call(self.late, x.mean(1)))


def a_workload(rng: Rng, case: Any) -> tuple[nn.Module, Tensor]:
    """A model, and a batch of images."""
    sizes = rng.integer(2, 3), 4, rng.integer(8, 10), rng.integer(11, 13)
    return Workload(rng, case), rng.tensor(*sizes, dtype=case.dtype)


def linear_layers(call: Callable[..., Any], rng: Rng, seen: dict[str, Any]) -> None:
    """Layers alone, on inputs of one and four dimensions and on zeros."""
    size, out, *rows = (rng.integer(2, 6) for _ in range(5))
    for shape in ((size,), (*rows, size)):
        seen[f"of a linear layer on {len(shape)} dimensions"] = call(nn.Linear(size, out), rng.tensor(*shape))
    seen["of a linear layer on zeros"] = call(nn.Linear(size, out), torch.zeros(rows[0], size))


@family(
    sections=(
        "{counted}",
        "another call counts afresh",
        "the model runs once as it is",
        "nothing of the caller changes",
        "a call inside a call changes nothing",
        "it holds when the model raises",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "mode": ("eval", "mixed", "train"),
        "hooks": ("none", "watching", "replacing"),
        "frozen": ("nothing", "part"),
        "grad": ("empty", "filled"),
        "output": ("tensor", "tuple", "dict"),
        "passing": ("position", "keyword"),
        "x_is": ("data", "a leaf"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError", "KeyError"),
    },
)
def counts_a_run(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    model: Callable[[Rng, Any], tuple[nn.Module, Tensor]],
    alone: Callable[[Callable[..., Any], Rng, dict[str, Any]], None],
) -> None:
    """For `function(model, x)`. `model` makes both, and `alone` uses the function on layers."""
    counted, later, runs, same, inside, failing = seen.values()

    def made() -> tuple[Any, Tensor]:
        net, values = model(rng, case)
        in_mode(freeze_part(net.to(values.dtype), case.frozen), case.mode)
        if case.grad == "filled":
            fill_grads(net)
        return net, prepared(values, grad=case.grad) if case.x_is == "a leaf" else laid_out(values, "transposed")

    (net, x), (other, t) = made(), made()
    callers = CallersHooks(case.hooks).on_module(net, "the model").on_module(net.late, "a part")
    everywhere: list[str] = []
    for register in (register_module_forward_pre_hook, register_module_forward_hook):
        register(lambda module, *args: everywhere.append(type(module).__name__))
    with grad_mode(case.grad_mode):
        before = Witness(model=net, x=x)
        result = call(net, x)
        counted["the result"] = copied(result)
        runs["what the model did"] = list(net.log)
        runs["what it ran on"] = net.ran_on[:2]
        runs["what hooks of the caller saw"] = [*callers.log[:50], *everywhere[:200]]
        runs["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        later["of another model"] = copied(call(other, t))
        later["of the first model again"] = copied(call(net, x))
        alone(call, rng, counted)

        found: list[Any] = []
        around = net.late.register_forward_hook(lambda *args: found.append(copied(call(nn.Tanh(), t))))
        inside["of a call"] = copied(call(net, x))
        inside["of the call inside of it"] = found[:5]
        around.remove()

        failure = Failure(case.failure)
        breaking = other.late.register_forward_pre_hook(failure.strike)
        before = Witness(model=other, x=t)
        failing["exception"] = failure.during(lambda: call(other, t))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        failing["of a call after an exception"] = copied(call(other, t))
