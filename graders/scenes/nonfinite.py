"""Scenes for functions that tell which layer makes NaN or Inf out of finite numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.models import fill_grads, freeze_part, in_mode
from graders.box.passes import grad_mode
from graders.box.tensors import prepared
from graders.box.witness import Witness
from graders.scenes.models import Drop
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


class Shift(nn.Module):
    """Adds numbers, of which one may be NaN or Inf, for inputs of one shape."""

    def __init__(self, by: Tensor, in_place: bool = False) -> None:
        """With `in_place` it overwrites its input."""
        super().__init__()
        self.by, self.in_place = nn.Parameter(by), in_place

    def forward(self, input: Tensor) -> Tensor:
        """The sum."""
        return input.add_(self.by) if self.in_place else input + self.by


class Log(nn.Module):
    """The logarithm times a sign: NaN for negative numbers, and Inf or -Inf for 0."""

    def __init__(self, sign: int) -> None:
        """1 or -1."""
        super().__init__()
        self.sign = sign

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return self.sign * input.log()


class Mix(nn.Module):
    """Takes two tensors, and a number between them."""

    def forward(self, input: Tensor, share: float, other: Tensor) -> Tensor:
        """A new tensor."""
        return input + share * other


class Spoiling(nn.Module):
    """A container whose own code may make a finite number NaN or Inf."""

    def __init__(self, inner: nn.Module, by: Tensor) -> None:
        """The code between the leaves adds `by`."""
        super().__init__()
        self.inner, self.by = inner, nn.Parameter(by)

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        output: Tensor = self.inner(input)
        return output + self.by


PARTS = (
    "drop", "code", "plain", "mix", "mix back", "cleaned", "block", "in place", "log", "second", "third", "large",
)  # fmt: skip


class Branches(nn.Module):
    """Runs its parts one after the other: first in a row, then each on finite numbers.

    They are defined in another order than they run.
    """

    def __init__(self, rng: Rng, case: Any, shape: tuple[int, ...], *, healthy: bool = False) -> None:
        """A `healthy` model makes no number NaN or Inf."""
        super().__init__()
        dtype: torch.dtype = getattr(torch, case.dtype)
        self.bad = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf}[case.bad]
        self.culprit, self.began, self.totals = "" if healthy else case.culprit, list[Tensor](), list[Any]()
        self.at = rng.integer(-3, -1)  # not in the first row

        def numbers(*culprits: str, bad: float = self.bad) -> Tensor:
            by = rng.tensor(*shape, dtype=case.dtype)
            if self.culprit in culprits:
                by.view(-1)[self.at] = bad
            return by

        def shift(*culprits: str, **how: Any) -> Shift:
            return Shift(numbers(*culprits, **how))

        every = () if healthy else (self.culprit,)
        name = dict(zip(PARTS, rng.names(len(PARTS) + 3)[3:]))
        inner, other, again = rng.names(3)
        spoiled = every if case.before == "code" else ()
        parts: dict[str, nn.Module] = {
            "drop": Drop(0.5),
            "code": Spoiling(shift(), numbers(*spoiled)),
            "plain": shift(),
            "mix": Mix(),
            "mix back": Mix(),
            "cleaned": shift(*every if case.hooks == "replacing" else ()),
            "block": nn.Sequential(),
            "in place": Shift(numbers("in place"), in_place=True),
            "log": Log(-1 if case.bad == "inf" else 1),
            "second": shift(*every, bad=torch.nan),
            "third": shift(*every, bad=torch.nan),
            "large": Shift(torch.full(shape, torch.finfo(dtype).max / 4, dtype=dtype)),
        }
        parts["block"].add_module(inner, shift("nested"))
        parts["block"].add_module(other, nn.Tanh())
        first = rng.shuffled([part for part in PARTS if part not in ("second", "large")])
        for part in ["second", *first, "large"]:  # who goes by this order finds the second before the first
            self.add_module(name[part], parts[part])
        self.add_module(again, parts["log"])
        self.names = name | {"nested": f"{name['block']}.{inner}", "log again": again}
        in_mode(self, case.mode)
        freeze_part(self, case.frozen)
        if case.grad == "filled":
            fill_grads(self)

    def forward(self, x: Tensor) -> Tensor:
        """What hooks and modes do to its numbers shows in `totals`."""
        self.began.append(x)
        part = {name: self.get_submodule(path) for name, path in self.names.items()}
        clean = x.nan_to_num(1, 1, 1)
        h = part["plain"](part["code"](part["drop"](x)))
        outputs = [part["mix"](clean, 0.5, h), part["mix back"](h, 0.5, clean)]
        outputs += [part["cleaned"](clean), part["block"](clean), part["in place"](clean.clone())]
        outputs += [part[log](self.for_log(clean, which)) for which, log in enumerate(("log", "log again"))]
        outputs += [part["second"](clean), part["third"](clean)]
        part["large"](clean)
        total = torch.stack([output.nan_to_num(0, 0, 0) for output in outputs]).sum(0) + self.training
        self.totals.append(total.detach().clone())
        return total

    def for_log(self, clean: Tensor, which: int) -> Tensor:
        """The input of the first (0) and the second (1) call of the logarithm."""
        given = clean.abs() + 0.5
        bad = torch.zeros_like(given)
        if (self.culprit, which) in (("first call", 0), ("second call", 1), ("once excused", 1)):
            bad.view(-1)[self.at] = 1
            return torch.where(bad > 0, -1.0 if self.bad != self.bad else 0.0, given)
        if (self.culprit, which) == ("once excused", 0):
            bad.view(-1)[self.at] = torch.nan
        return given + bad


@family(
    sections=(
        "the first leaf to blame is named",
        "a healthy model gives None",
        "each call begins anew",
        "a call inside a call changes nothing",
        "the model runs once as it is",
        "nothing of the caller changes",
        "it holds when the model raises",
    ),
    axes={
        "culprit": ("nested", "in place", "first call", "second call", "once excused"),
        "bad": ("inf", "nan", "-inf"),
        "before": ("nothing", "x", "code"),
        "dtype": ("float32", "float64"),
        "rank": (2, 1, 3),
        "mode": ("mixed", "train", "eval"),
        "hooks": ("none", "watching", "replacing"),
        "frozen": ("nothing", "part"),
        "grad": ("empty", "filled"),
        "x_is": ("data", "a leaf"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError", "KeyError", "StopIteration"),
    },
)
def finds_the_first(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(model, x)`, which runs a model and returns the name of a leaf, or None."""
    first, healthy, anew, inside, runs, same, failing = seen.values()
    shape = tuple(rng.shuffled((4, 2, 3)[: case.rank]))
    (model, _), (other, _) = hooked(rng, case, shape), hooked(rng, case, shape)
    good, callers = hooked(rng, case, shape, healthy=True)
    x, fine = an_input(rng, case, shape), an_input(rng, case, shape, finite=True)
    with grad_mode(case.grad_mode):
        before = Witness(model=model, x=x)
        first["the result"] = call(model, x)
        runs["how often a model begins to run"] = len(model.began)
        runs["it gets x itself"] = all(given is x for given in model.began)
        same["changed"] = before.changes()
        leaf = Shift(torch.full(shape, model.bad, dtype=x.dtype))
        first["the result for a model that is such a leaf"] = call(leaf, fine)

        before = Witness(model=good, x=fine)
        healthy["the result"] = call(good, fine)
        runs["what a healthy model computes, run by run"] = good.totals[:5]
        runs["what hooks of the caller saw"] = callers.log[:50]
        runs["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed in a healthy model"] = before.changes()
        anew["the result for another model"] = call(other, x)
        anew["the result for the same model again"] = call(model, x)
        anew["the result for a healthy model after that"] = call(good, fine)

        found = list[Any]()

        def within(*args: Any) -> None:
            if not found:
                found.append("it has begun")
                found[:] = [call(other, x)]

        around = good.register_forward_pre_hook(within)
        inside["the result for a healthy model"] = call(good, fine)
        inside["the result of a call in its run"] = list(found)
        around.remove()

        failure = Failure(case.failure)
        breaking = good.get_submodule(good.names["third"]).register_forward_pre_hook(failure.strike)
        before = Witness(model=good, x=fine)
        failing["exception"] = failure.during(lambda: call(good, fine))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        failing["the result after an exception"] = call(good, fine)


def hooked(rng: Rng, case: Any, shape: tuple[int, ...], **how: Any) -> tuple[Branches, CallersHooks]:
    """A model with the caller's hooks; one that replaces makes the output of a part finite again."""
    model, callers = Branches(rng, case, shape, **how), CallersHooks(case.hooks)
    for part in ("", model.names["nested"], model.names["cleaned"]):
        callers.on_module(model.get_submodule(part), part)
    if case.hooks == "replacing":
        cleaned = model.get_submodule(model.names["cleaned"])
        cleaned.register_forward_hook(lambda module, args, output: output.nan_to_num(0.5, 0.5, 0.5))
    return model, callers


def an_input(rng: Rng, case: Any, shape: tuple[int, ...], finite: bool = False) -> Tensor:
    """An input of the model, in which there may be a number that is not finite."""
    x = rng.tensor(*shape, dtype=case.dtype)
    if case.before == "x" and not finite:
        x.view(-1)[rng.integer(-3, -1)] = rng.choice((torch.nan, torch.inf, -torch.inf))
    return prepared(x, grad=case.grad) if case.x_is == "a leaf" else x
