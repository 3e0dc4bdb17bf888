"""Scenes for functions that find the layer that makes NaN or Inf out of finite numbers."""

import math
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.models import fill_grads, in_mode
from graders.box.passes import grad_mode
from graders.box.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


def shift(by: Tensor, in_place: bool = False) -> nn.Module:
    """A leaf that adds a tensor, in which one number may be NaN or Inf; with `in_place` it overwrites its input."""
    return Fn(lambda module, x: x.add_(module.by) if in_place else x + module.by, by=nn.Parameter(by))


def spoiling(inner: nn.Module, by: Tensor) -> nn.Module:
    """A container whose own code adds such a tensor, between calls of leaves."""
    return Fn(lambda module, x: module.inner(x) + module.by, inner=inner, by=nn.Parameter(by))


PARTS = ("code", "plain", "mix", "cleaned", "block", "in place", "log", "later", "large")


class NonfiniteModel(nn.Module):
    """Runs its parts in a row, and then again, each on finite numbers.

    They are not defined in the order of the run.
    """

    def __init__(self, rng: Rng, case: Any, shape: tuple[int, ...], *, healthy: bool = False) -> None:
        """`shape` is that of an input. A `healthy` model makes no number NaN or Inf."""
        super().__init__()
        dtype: torch.dtype = getattr(torch, case.dtype)
        self.bad, self.culprit = float(case.bad), "" if healthy else case.culprit
        self.began, self.totals = list[Tensor](), list[Tensor]()
        self.at, sign = rng.integer(-3, -1), -1 if case.bad == "inf" else 1  # not in the first row

        def numbers(bad: bool = False) -> Tensor:
            by = rng.tensor(*shape, dtype=case.dtype)
            if bad:
                by.view(-1)[self.at] = self.bad
            return by

        inner, other, again, *names = rng.names(len(PARTS) + 3)
        name = dict(zip(PARTS, names))
        nested = shift(numbers(self.culprit == "nested"))
        parts: dict[str, nn.Module] = {
            "code": spoiling(shift(numbers()), numbers(case.before == "code" and not healthy)),
            "plain": shift(numbers()),
            "mix": Fn(lambda module, x, share, other: x + share * other),
            "cleaned": shift(numbers(case.hooks == "replacing" and not healthy)),
            "block": nn.Sequential(OrderedDict({inner: nested, other: nn.Tanh()})),
            "in place": shift(numbers(self.culprit == "in place"), in_place=True),
            "log": Fn(lambda module, x: sign * x.log()),  # NaN for negative numbers, and Inf or -Inf for 0
            "later": shift(numbers(not healthy)),
            "large": shift(torch.full(shape, torch.finfo(dtype).max / 4, dtype=dtype)),
        }
        for part in ["later", *rng.shuffled([part for part in PARTS if part != "later"])]:
            self.add_module(name[part], parts[part])
        self.add_module(again, parts["log"])
        self.names = name | {"nested": f"{name['block']}.{inner}", "log again": again}
        in_mode(fill_grads(self), case.mode)

    def forward(self, x: Tensor) -> Tensor:
        """Run all parts, and note in `totals` numbers that hooks and modes would change."""
        self.began.append(x)
        part = {name: self.get_submodule(path) for name, path in self.names.items()}
        clean = x.nan_to_num(1, 1, 1)
        outputs = [part["mix"](clean, 0.5, part["plain"](part["code"](x)))]
        outputs += [part["cleaned"](clean), part["block"](clean), part["in place"](clean.clone())]
        outputs += [part[log](self.log_input(clean, which)) for which, log in enumerate(("log", "log again"))]
        outputs += [part["later"](clean)]
        part["large"](clean)
        total = torch.stack([output.nan_to_num(0, 0, 0) for output in outputs]).sum(0) + self.training
        self.totals.append(total.detach().clone())
        return total

    def log_input(self, clean: Tensor, which: int) -> Tensor:
        """The input for the first (`which` is 0) or second (1) call of the logarithm."""
        given = clean.abs() + 0.5
        if self.culprit == "second call" and which == 0:
            given.view(-1)[self.at] = torch.nan  # the first call is not to blame
        elif self.culprit == ("first call", "second call")[which]:
            given.view(-1)[self.at] = -1 if math.isnan(self.bad) else 0
        return given


@family(
    sections=(
        "the first leaf to blame is named",
        "a healthy model gives None",
        "each call begins anew",
        "the model runs once as it is",
        "nothing of the caller changes",
        "it holds when the model raises",
    ),
    axes={
        "culprit": ("nested", "in place", "first call", "second call"),
        "bad": ("inf", "nan", "-inf"),
        "before": ("x", "code"),
        "dtype": ("float32", "float64"),
        "rank": (2, 1, 3),
        "mode": ("mixed", "train", "eval"),
        "hooks": ("none", "watching", "replacing"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError", "StopIteration"),
    },
    pairs=[("bad", "before")],  # so that each kind of bad number occurs alone in an input
)
def finds_nonfinite_layer(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(model, x)`, which runs a model and returns the name of a leaf, or None."""
    first, healthy, anew, runs, same, failing = seen.values()
    shape = tuple(rng.shuffled((4, 2, 3)[: case.rank]))
    model, other, good = (
        add_callers_hooks(NonfiniteModel(rng, case, shape, healthy=fine), case) for fine in (False, False, True)
    )
    x, fine = (rng.tensor(*shape, dtype=case.dtype) for _ in range(2))
    if case.before == "x":
        x.view(-1)[model.at] = model.bad
    with grad_mode(case.grad_mode):
        before = Witness(model=model, x=x)
        first["the result"] = call(model, x)
        runs["how often a model begins to run"] = len(model.began)
        runs["it gets x itself"] = all(given is x for given in model.began)
        same["changed"] = before.changes()
        leaf = shift(torch.full(shape, model.bad, dtype=x.dtype))
        first["the result for a model that is such a leaf"] = call(leaf, fine)

        before = Witness(model=good, x=fine)
        healthy["the result"] = call(good, fine)
        runs["what a healthy model computes, run by run"] = good.totals[:5]
        same["changed in a healthy model"] = before.changes()
        anew["the result for another model"] = call(other, x)
        anew["the result for the same model again"] = call(model, x)
        anew["the result for a healthy model after that"] = call(good, fine)

        failure = Failure(case.failure)
        breaking = good.get_submodule(good.names["later"]).register_forward_pre_hook(failure.raise_if_due)
        before = Witness(model=good, x=fine)
        failing["exception"] = failure.outcome_during(lambda: call(good, fine))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        failing["the result after an exception"] = call(good, fine)


def add_callers_hooks(model: NonfiniteModel, case: Any) -> NonfiniteModel:
    """Register the caller's hooks; a replacing one makes the output of a part finite again. Returns the model."""
    callers = CallersHooks(case.hooks)
    for part in ("", model.names["nested"]):
        callers.on_module(model.get_submodule(part), part)
    if case.hooks == "replacing":
        cleaned = model.get_submodule(model.names["cleaned"])
        cleaned.register_forward_hook(lambda module, args, output: output.nan_to_num(0.5, 0.5, 0.5))
    return model
