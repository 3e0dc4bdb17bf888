"""Scenes for functions that report how much time passes between hooks."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from graders.probing.asking import detached_copy
from graders.scenes.event_models import Clock, TimedModel, activation, one_layer
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import KINDS, Failure
from graders.scenes.instruments.models import fill_grads
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Sections
from graders.scenes.story import Call, family
from graders.wire.draws import Rng

LONGEST = 200
"""Entries that are kept of a list of events; right ones are shorter."""
SLOW = 100.0
"""The time on the clock that each slow hook of the caller takes."""


def copy_events(result: Any) -> Any:
    """A copy of the first `LONGEST` entries of a list, or of a dict, which may change later; any other value itself."""
    return result[:LONGEST] if type(result) is list else dict(result) if isinstance(result, dict) else result


@family(
    sections=(
        "{task}",
        "{alone}",
        "a call inside a call changes nothing",
        "{plain}",
        "nothing else changes",
        "all is in order when something raises",
    ),
    axes={
        "needs": ("grad", "no grad"),
        "dtype": ("float32", "float64"),
        "rank": (1, 2, 3),
        "place": ("leaf", "non-leaf"),
        "grad": ("empty", "filled"),
        "mode": ("train", "eval"),
        "first": ("layer", "frozen"),
        "join": ("chain", "residual", "sum"),
        "hooks": ("none", "watching", "replacing"),
        "hooked": ("root", "named", "parameter"),
        "failure": tuple(KINDS),
    },
    pairs=[("place", "grad")],
    impossible=[
        lambda needs, place: needs == "no grad" and place == "non-leaf",
        lambda needs, grad: needs == "no grad" and grad == "filled",
    ],
)
def runs_passes(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    model: Callable[[Rng, Any], TimedModel],
    arguments: Callable[[Any, Clock, str], tuple[Any, ...]],
    alone: Callable[..., nn.Module] = nn.Sequential,
) -> None:
    """For a function that runs forward and backward passes of a model on `x`, and reports what it saw.

    `arguments(case, clock, call)` returns the other arguments of a call, which is "first", "another", "nested", "alone"
    or "failing". `alone(layer)` makes a model from one layer.
    """
    task, single, nested, plain, same, failing = seen.values()
    drawn = model(rng, case)
    leaf, other = (rng.tensor(*rng.shape(case.rank), dtype=case.dtype, values="full") for _ in range(2))
    leaf = prepare_tensor(leaf, grad=case.grad) if case.needs == "grad" else leaf
    x = leaf.view_as(leaf) if case.place == "non-leaf" else leaf
    made, log, got = _model_copier(drawn, case), list[str](), dict[str, Any]()
    watched, clock = made()
    watched.register_forward_pre_hook(lambda _, args: log.append(f"the model, x.requires_grad={args[0].requires_grad}"))
    watched.register_forward_pre_hook(lambda _, args: got.update(x=detached_copy(args[0])))
    part = watched.get_submodule(drawn.part)
    part.register_forward_hook(lambda *_: log.append("forward of a part"))
    part.register_full_backward_hook(lambda *_: log.append("backward of a part"))
    if case.grad == "filled":
        fill_grads(watched)
    before = Witness(model=watched, x=x)
    result = call(watched, x, *arguments(case, clock, "first"))
    task["the result"], same["changed"] = copy_events(result), before.changes()
    plain["the calls of the model and of a part"], plain["what the model got"] = log[:LONGEST], got.get("x")
    plain |= {f"{name}.grad": detached_copy(p.grad) for name, p in watched.named_parameters()}
    plain["x.grad"] = detached_copy(leaf.grad)
    log.clear()
    other.requires_grad_(case.needs == "no grad")
    task["the result for another x"] = copy_events(call(watched, other, *arguments(case, clock, "another")))
    plain["the calls of the model and of a part, for another x"] = log[:LONGEST]

    only = one_layer(rng, case)
    single["the result"] = copy_events(call(alone(only), x, *arguments(case, only.clock, "alone")))
    around, inside, inner = one_layer(rng, case), one_layer(rng, case), list[Any]()
    outer, other_model = nn.Sequential(around, activation()), nn.Sequential(inside)
    outer[1].register_forward_hook(
        lambda *_: inner.append(copy_events(call(other_model, x, *arguments(case, inside.clock, "nested"))))
    )
    nested["the result of the outer call"] = copy_events(call(outer, x, *arguments(case, around.clock, "nested")))
    nested["the results of the inner call"] = inner[:5]

    for where in ("forward", "backward"):
        fragile, clock = made()
        striking, hooked = Failure(case.failure), fragile.get_submodule(drawn.part)
        register: Any = hooked.register_forward_hook
        if where == "backward":
            register = fragile.get_parameter(drawn.parameter).register_hook
        register(striking.raise_if_due)
        before, args = Witness(model=fragile, x=x), (fragile, x, *arguments(case, clock, "failing"))
        failing[f"an exception in {where}"] = striking.outcome_during(partial(call, *args))
        failing[f"changed after an exception in {where}"] = before.changes()


def a_clock(case: Any, clock: Clock, call: str) -> tuple[Clock]:
    """The clock as the only other argument."""
    return (clock,)


def a_layer(layer: nn.Module) -> nn.Module:
    """The layer itself as a model."""
    return layer


def _model_copier(drawn: TimedModel, case: Any) -> Callable[[], tuple[nn.Module, Clock]]:
    """A function that copies the model, with a new clock and with the caller's hooks, which take time on it."""

    def made() -> tuple[nn.Module, Clock]:
        model, clock = copy.deepcopy((drawn.model, drawn.clock))
        callers, place = CallersHooks(case.hooks), model.get_submodule("" if case.hooked == "root" else drawn.part)
        if case.hooked == "parameter":
            callers.on_parameter(model.get_parameter(drawn.parameter), "a parameter")
        elif case.hooks != "none":
            callers.on_module(place, "a module")
            for _ in range(2):
                place.register_full_backward_pre_hook(lambda *_: clock.spend(SLOW))
                place.register_full_backward_hook(lambda *_: clock.spend(SLOW))
        return model, clock

    return made
