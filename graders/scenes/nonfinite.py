"""Scenes for functions that find the layer that makes NaN or Inf out of finite numbers."""

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads, in_mode
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.planted import defined_in
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


def shift(by: Tensor) -> nn.Module:
    """A leaf that adds a tensor, in which one number may be NaN or Inf."""
    return Fn(lambda module, x: x + module.by, by=nn.Parameter(by))


def adding(by: Tensor, inner: nn.Module) -> nn.Module:
    """A container whose own code adds such a tensor, between calls of leaves."""
    return Fn(lambda module, x: module.inner(x) + module.by, inner=inner, by=nn.Parameter(by))


class NonfiniteModel(nn.Module):
    """Runs its parts in a row, as a text says that is planted in the case."""

    def __init__(self, text: str, rng: Rng, case: Any, shape: tuple[int, ...]) -> None:
        """`shape` is that of an input."""
        super().__init__()
        dtype: torch.dtype = getattr(torch, case.dtype)
        self.began, self.totals = list[Tensor](), list[Tensor]()
        self.at = rng.integer(-3, -1)  # not in the first row

        def numbers() -> Tensor:
            return rng.tensor(*shape, dtype=case.dtype)

        def spoilt(t: Tensor, by: float = float(case.bad)) -> Tensor:
            t.view(-1)[self.at] = by
            return t

        defined = defined_in(
            text, Fn=Fn, OrderedDict=OrderedDict, shift=shift, adding=adding, numbers=numbers, spoilt=spoilt,
            large=torch.full(shape, torch.finfo(dtype).max / 4, dtype=dtype),
        )  # fmt: skip
        self.outputs = defined["outputs"]
        defined["define"](self)
        in_mode(fill_grads(self), case.mode)

    def forward(self, x: Tensor) -> Tensor:
        """Run all parts, and note in `totals` numbers that hooks and modes would change."""
        self.began.append(x)
        outputs = self.outputs(self, x, x.nan_to_num(1, 1, 1))
        total = torch.stack([output.nan_to_num(0, 0, 0) for output in outputs]).sum(0) + self.training
        self.totals.append(total.detach().clone())
        return total


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
        "bad": ("inf", "nan", "-inf"),
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
    """For `function(model, x)`, which runs a model and returns the name of a leaf, or None.

    Planted are `models`: the text of each, and the names of modules that the caller hooks; and whether `x` is bad.
    """
    first, healthy, anew, runs, same, failing = seen.values()
    shape = tuple(rng.shuffled((4, 2, 3)[: case.rank]))
    model, other, good = (
        add_callers_hooks(NonfiniteModel(text, rng, case, shape), case, watched, cleaned)
        for text, watched, cleaned, _ in case.models
    )
    x, fine = (rng.tensor(*shape, dtype=case.dtype) for _ in range(2))
    if case.bad_x:
        x.view(-1)[model.at] = float(case.bad)
    with grad_mode(case.grad_mode):
        before = Witness(model=model, x=x)
        first["the result"] = call(model, x)
        runs["how often a model begins to run"] = len(model.began)
        runs["it gets x itself"] = all(given is x for given in model.began)
        same["changed"] = before.changes()
        leaf = shift(torch.full(shape, float(case.bad), dtype=x.dtype))
        first["the result for a model that is such a leaf"] = call(leaf, fine)

        before = Witness(model=good, x=fine)
        healthy["the result"] = call(good, fine)
        runs["what a healthy model computes, run by run"] = good.totals[:5]
        same["changed in a healthy model"] = before.changes()
        anew["the result for another model"] = call(other, x)
        anew["the result for the same model again"] = call(model, x)
        anew["the result for a healthy model after that"] = call(good, fine)

        failure = Failure(case.failure)
        breaking = good.get_submodule(case.models[-1][-1]).register_forward_pre_hook(failure.raise_if_due)
        before = Witness(model=good, x=fine)
        failing["exception"] = failure.outcome_during(lambda: call(good, fine))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        failing["the result after an exception"] = call(good, fine)


def add_callers_hooks(model: NonfiniteModel, case: Any, watched: str, cleaned: str) -> NonfiniteModel:
    """Register the caller's hooks; a replacing one makes the output of a part finite again. Returns the model."""
    callers = CallersHooks(case.hooks)
    for part in ("", watched):
        callers.on_module(model.get_submodule(part), part)
    if case.hooks == "replacing":
        model.get_submodule(cleaned).register_forward_hook(
            lambda module, args, output: output.nan_to_num(0.5, 0.5, 0.5)
        )
    return model
