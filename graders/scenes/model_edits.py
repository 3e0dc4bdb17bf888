"""Scenes for functions that run a model while the output of one of its submodules is changed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy
from graders.scenes.inner_calls import calling_inside
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads, freeze_part
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.models import Drop
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn, draw_parameters
from graders.wire.draws import Rng

SIZE = 5
"""The size of every dimension, so that a channel index used in the wrong dimension raises no error."""
Ask = Callable[[Call, nn.Module, str, list[int], Tensor, Tensor], tuple[Any, Any]]
"""Makes two calls, given a model, the name of a submodule, channels, and two inputs; returns their results."""


class Block(nn.Module):
    """Holds a module that takes two tensors, works in place on its output, and returns a tuple itself."""

    def __init__(self, name: str, passing: str) -> None:
        """`name` is the name of the module inside; `passing` is "position" or "keyword"."""
        super().__init__()
        pair = Fn(lambda module, input, other: input * module.scale + other, scale=nn.Parameter(torch.ones(SIZE)))
        self.add_module(name, pair)
        self.name, self.passing = name, passing
        self.behind = nn.LeakyReLU(0.5, inplace=True)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """The result, and the input `h`."""
        pair = self.get_submodule(self.name)
        inner = pair(input=h, other=x) if self.passing == "keyword" else pair(h, x)
        return self.behind(inner), h


class Paths(nn.Module):
    """A model with a skip connection, noise, and layers whose output depends on their mode, as does the model's own.

    Its parts are not defined in the order of the run, and their names share beginnings or endings.
    """

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw a model for inputs with `case.rank` dimensions of size `SIZE`."""
        super().__init__()
        entry, block, layer, norm, drop = rng.names(5)
        self.named = {"nested": f"{block}.{entry}", "handing on": entry, "last": f"{entry}b", "root": ""}
        batch_norm: Any = nn.BatchNorm2d if case.rank == 4 else nn.BatchNorm1d
        with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
            parts: dict[str, nn.Module] = {
                block: Block(entry, case.passing),
                entry: Fn(lambda module, input: input.view_as(input)),
                norm: batch_norm(SIZE),
                f"{entry}b": nn.Linear(SIZE, SIZE),
                drop: Drop(0.5),
                layer: nn.Linear(SIZE, SIZE),
            }
        for name in [block, entry, layer, *rng.shuffled([norm, f"{entry}b", drop])]:
            self.add_module(name, parts[name])
        self.run = (entry, layer, norm, block, drop, f"{entry}b")
        self.begins: Callable[[Tensor], Any] = id
        self.passing = case.passing
        self.to(getattr(torch, case.dtype))
        draw_parameters(self, rng, low=-1, high=1, dtype=case.dtype)
        self.train(case.mode != "eval")
        if case.mode == "mixed":
            for part in self.children():
                part.eval()
        freeze_part(fill_grads(self), case.frozen)

    def forward(self, x: Tensor) -> Tensor:
        """A row for each sample. Calls `self.begins` with the input first."""
        self.begins(x)
        entry, layer, norm, block, drop, last = map(self.get_submodule, self.run)
        h = entry(input=x) if self.passing == "keyword" else entry(x)
        h = norm(nn.functional.leaky_relu(layer(h), 0.25, inplace=True))
        more, kept = block(h, x)
        h = drop(kept + more)
        scores: Tensor = last(h.mean(tuple(range(2, h.dim()))) if h.dim() > 2 else h)
        return scores if self.training else scores + 1


def call_ablation(
    call: Call, model: nn.Module, name: str, channels: list[int], first: Tensor, second: Tensor
) -> tuple[Any, Any]:
    """For `function(model, name, channels, x)`; the second call is made with other channels."""
    others = (channels or [1])[::-1][:2]
    return call(model, name, channels, first), call(model, name, others, second)


def call_patching(
    call: Call, model: nn.Module, name: str, channels: list[int], first: Tensor, second: Tensor
) -> tuple[Any, Any]:
    """For `function(model, name, clean, corrupt, channels=None)`, called without and with channels."""
    return call(model, name, first, second), call(model, name, first, second, channels)


@family(
    sections=(
        "{task}",
        "{part}",
        "a later call starts afresh",
        "a call inside a call changes nothing",
        "{runs}",
        "{same}",
        "an exception comes through and nothing is left",
        "{exactly}",
    ),
    axes={
        "named": ("nested", "handing on", "last", "root"),
        "dtype": ("float32", "float64"),
        "rank": (4, 2, 3),
        "values": ("round", "full"),
        "collection": ("many", "one", "repeated", "empty"),
        "mode": ("train", "mixed", "eval"),
        "hooks": ("none", "watching", "replacing"),
        "frozen": ("nothing", "part"),
        "passing": ("position", "keyword"),
        "x_is": ("data", "a leaf"),
        "grad_mode": ("on", "off"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
    # A tensor without a graph may be overwritten: then it shows in the caller's input.
    impossible=(
        lambda named, x_is: named == "handing on" and x_is == "a leaf",
        # What the last layer and the model return has two dimensions.
        lambda named, rank: (named in ("last", "root")) != (rank == 2),
    ),
)
def edits_runs(
    call: Call, rng: Rng, case: Any, seen: Sections, ask: Ask, exactly: Callable[[Call, Rng, dict[str, Any]], None]
) -> None:
    """`ask` makes two calls, and `exactly` tries numbers that careless arithmetic would lose."""
    task, part, later, inside, runs, same, failing, special = seen.values()
    model, other = Paths(rng, case), Paths(rng, case)
    name = model.named[case.named]
    callers = add_callers_hooks(model, name, case.hooks)
    first, second, third, fourth = (an_input(rng, case) for _ in range(4))
    channels, more = some_channels(rng, case.collection), some_channels(rng, "many")
    own = list(channels)  # a copy, in case the answer changes the caller's list
    things = {"model": model, "x": first, "another x": second, "third": third, "channels": channels}
    ran_on: list[Tensor] = []
    model.begins = lambda x: ran_on.append(detached_copy(x))  # a copy of the model calls it as well
    with grad_mode(case.grad_mode):
        before = Witness(**things)
        task["the result"], part["the result"] = ask(call, model, name, channels, first, second)
        runs["the inputs of the model, run by run"] = ran_on[:20]
        runs["what hooks of the caller saw"] = callers.log[:200]
        runs["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        later["the results"] = list(ask(call, model, name, more, second, third))

        def ask_inside() -> Any:
            return ask(call, other, other.named[case.named], more, third, fourth)

        with calling_inside(model.get_submodule(model.run[-1]).register_forward_pre_hook, ask_inside) as found:
            inside["the results"] = list(ask(call, model, name, list(own), third, fourth))
        inside["the results of the call inside"] = [result for results in found for result in results]

    start: Call = model.get_submodule(model.run[0]).register_forward_pre_hook
    for when, run, register in (("starts", "first", start), ("ends", "second", model.register_forward_hook)):
        failure = Failure(case.failure, run)
        breaking = register(failure.raise_if_due)
        before = Witness(**things)
        failing[f"an exception as the {run} run {when}"] = failure.outcome_during(
            lambda: ask(call, model, name, list(own), first, second)
        )
        failing[f"changed after an exception as the {run} run {when}"] = before.changes()
        breaking.remove()
    exactly(call, rng, special)


def add_callers_hooks(model: Paths, name: str, hooks: str) -> CallersHooks:
    """Register the caller's hooks on a submodule and on the model. Replacing ones multiply and add."""
    callers = CallersHooks(hooks)
    for where, owner in {name: model.get_submodule(name), "the model": model}.items():
        callers.on_module(owner, where)
        if hooks == "replacing":
            callers.handles.append(owner.register_forward_hook(lambda module, args, output: output.roll(1, 1) + 1))
    return callers


def an_input(rng: Rng, case: Any) -> Tensor:
    """An input for the model: a leaf with a filled `.grad`, or a tensor that requires no grad."""
    x = rng.tensor(*(SIZE,) * case.rank, dtype=case.dtype, values=case.values)
    return prepare_tensor(x, grad="filled") if case.x_is == "a leaf" else x


def some_channels(rng: Rng, collection: str) -> list[int]:
    """Channel indexes, unsorted and with gaps."""
    several = rng.choice(([4, 0, 2], [3, 1, 0, 4], [1, 4, 3]))
    return {"empty": [], "one": several[:1], "many": several, "repeated": [several[0], several[1], several[0]]}[
        collection
    ]


def switched_off(call: Call, rng: Rng, seen: dict[str, Any]) -> None:
    """Try channels with values that multiplying by 0 does not make 0, such as NaN, next to a number that must stay."""
    x = torch.tensor([[float("inf"), rng.uniform(1, 2), float("nan"), -float("inf")]] * 2)
    seen["the result of nn.Identity for inf, a number, nan, -inf"] = call(nn.Identity(), "", [0], x)


def replaced(call: Call, rng: Rng, seen: dict[str, Any]) -> None:
    """Try channels so far apart that adding their difference loses digits."""
    clean = rng.tensor(3, 3, dtype="float64", values="full")
    corrupt = torch.tensor([[3.0, 1e9, float("inf")], [float("nan"), 1.0, 1e9], [2.0, 1e9, 5.0]], dtype=torch.float64)
    seen["the result of nn.Identity with large numbers"] = call(nn.Identity(), "", clean, corrupt, [1, 2, 1])
