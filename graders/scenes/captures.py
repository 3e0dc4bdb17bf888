"""Scenes for functions that run a model and return outputs of its modules."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.inner_calls import calling_inside
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.models import DrawnModel, a_model
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

Told = dict[str, Any]
Ask = Callable[[Call, Any, nn.Module, list[str], Tensor], Told]
"""Calls the learner's function with a case, a model, names of modules and an input; returns what it tells, by name."""


@family(
    sections=(
        "{results}",
        "{order}",
        "a call inside a call changes nothing",
        "the model runs once as it is",
        "nothing of the caller changes",
        "it holds when the model raises",
        "{also}",
    ),
    axes={
        "named": ("identity", "nested", "norm", "scalar"),
        "dtype": ("float32", "float64"),
        "mode": ("eval", "mixed", "train"),
        "hooks": ("none", "watching", "replacing"),
        "frozen": ("nothing", "part"),
        "grad": ("empty", "filled"),
        "output": ("tensor", "tuple", "dict"),
        "passing": ("position", "keyword"),
        "unused": ("before", "after", "none"),
        "length": (4, 1),
        "x_is": ("data", "a leaf"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError", "KeyError"),
    },
    # So every value has a graph when grad mode is on, and one without a graph was detached.
    impossible=(lambda frozen, x_is: frozen == "part" and x_is == "data",),
)
def captures_outputs(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    ask: Ask,
    model_of: Callable[..., DrawnModel] = a_model,
    also: Callable[[Call, Rng, dict[str, Any]], None] | None = None,
) -> None:
    """For a function that runs a model once, with a hook on some of its modules.

    `ask` makes the call, and `also` makes others. The next step of the model overwrites each output.
    """
    results, order, inside, runs, same, failing, more = seen.values()
    with grad_mode(case.grad_mode):
        drawn, callers, names = hooked_model(rng, case, model_of)
        model, x, later = drawn.model, an_input(drawn, case), an_input(drawn, case)
        before = Witness(model=model, x=x, names=names)
        told = ask(call, case, model, names, x)
        results.update(copy_value(told))
        order["the keys"] = list(told["the result"]) if isinstance(told.get("the result"), dict) else None
        runs["what the model did"] = list(model.log)
        runs["what hooks of the caller saw"] = list(callers.log)
        runs["the mean that the batch norm keeps"] = model.get_buffer(f"{drawn.names['norm']}.running_mean").clone()
        runs["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        for name, value in ask(call, case, model, names, later).items():
            results[f"{name} of a later call"] = copy_value(value)
        results.update({f"{name}, after a later call": value for name, value in copy_value(told).items()})

        other, _, others = hooked_model(rng, case, model_of)
        t = an_input(other, case)
        with calling_inside(model.register_forward_hook, lambda: ask(call, case, other.model, others, t)) as found:
            for name, value in ask(call, case, model, names, x).items():
                inside[f"{name} of a call"] = copy_value(value)
        inside["of a call inside it"] = copy_value(found)

        failure = Failure(case.failure)
        other.model.get_submodule(other.names["scalar"]).register_forward_pre_hook(failure.raise_if_due)
        before = Witness(model=other.model, x=t, names=others)
        failing["exception"] = failure.outcome_during(lambda: ask(call, case, other.model, others, t))
        failing["changed after an exception"] = before.changes()
        if also:
            also(call, rng, more)
    if isinstance(result := told.get("the result"), list):
        result.clear()  # if it outlives the call, it is empty again for the next case


def hooked_model(
    rng: Rng, case: Any, model_of: Callable[..., DrawnModel] = a_model
) -> tuple[DrawnModel, CallersHooks, list[str]]:
    """A model, the caller's hooks on it, and the names of the modules in question."""
    drawn, callers = model_of(rng, case, in_place=True), CallersHooks(case.hooks)
    names = [drawn.names[name] for name in case.named.split(", ")]
    for name in ("", *names[:2]):
        callers.on_module(drawn.model.get_submodule(name), name)
    if case.hooks == "replacing":  # this hook changes a shape
        drawn.model.get_submodule(drawn.names["last"]).register_forward_hook(lambda module, args, out: out[..., :-1])
    return drawn, callers, names


def an_input(drawn: DrawnModel, case: Any) -> Tensor:
    """An input for the model, which requires grad or not."""
    return prepare_tensor(drawn.draw(), grad=case.grad) if case.x_is == "a leaf" else drawn.draw()


def call_without_names(call: Call, case: Any, model: nn.Module, names: list[str], x: Tensor) -> Told:
    """For `function(model, x)`."""
    return {"the result": call(model, x)}
