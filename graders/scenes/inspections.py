"""Scenes for functions that inspect a model: they run it, report what they saw, and change nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from graders.scenes.inner_calls import calling_inside
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng


@dataclass
class InspectedModel:
    """A model that is inspected, and how the caller has it inspected."""

    model: nn.Module
    ask: Callable[[Call], Any]
    """Calls the learner's function with the model and its other arguments."""
    ask_again: Callable[[Call], Any]
    """Does the same with other inputs, or with the model in another state."""
    things: dict[str, Any]
    """What has to stay unchanged, by name."""
    places: Mapping[str, nn.Module]
    """Modules whose pre-hooks are called in each run, by the place of the call. The first is called by the model."""
    log: list[str] = field(default_factory=list)
    """What the model notes about its runs."""


@family(
    sections=(
        "{task}",
        "{special}",
        "each call begins anew",
        "a call inside a call changes nothing",
        "{runs}",
        "nothing of the caller changes",
        "it holds when the model raises",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "mode": ("train", "eval", "mixed"),
        "hooks": ("none", "watching", "replacing"),
        "output": ("tensor", "tuple", "dict"),
        "passing": ("position", "keyword"),
        "grad_mode": ("on", "off"),
        "failure": ("own", "RuntimeError", "KeyboardInterrupt", "KeyError"),
        "failing_run": ("second", "first"),
    },
)
def inspects_models(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    made: Callable[[Rng, Any], InspectedModel],
    also: Callable[[Call, Rng, Any, dict[str, Any]], None] | None = None,
) -> None:
    """`made` draws a model for a case, and `also` observes more in the first section."""
    task, special, anew, inside, runs, same, failing = seen.values()
    patient, other = made(rng, case), made(rng, case)
    with grad_mode(case.grad_mode):
        before = Witness(**patient.things)
        task["the result"] = patient.ask(call)
        runs["what the model did"] = patient.log[:50]
        same["changed"] = before.changes()
        same["the next random number"] = int(torch.randint(1 << 20, ()))
        anew["the result of a second call"] = patient.ask_again(call)

        middle = next(iter(patient.places.values()))
        with calling_inside(middle.register_forward_pre_hook, lambda: other.ask(call)) as found:
            inside["the result"] = patient.ask(call)
        inside["the result of the call inside"] = found

        for where, place in other.places.items():
            failure = Failure(case.failure, case.failing_run)
            before, breaking = Witness(**other.things), place.register_forward_pre_hook(failure.raise_if_due)
            failing[f"an exception {where}"] = failure.outcome_during(lambda: [other.ask(call) for _ in "12"])
            breaking.remove()
            failing[f"changed after an exception {where}"] = before.changes()
        if also:
            also(call, rng, case, special)
