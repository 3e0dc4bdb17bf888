"""Scenes for functions that report in which order hooks fire, how often, or how much time passes between them."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from torch import nn
from torch.nn.modules import module as _module

from graders.probing.asking import detached_copy
from graders.scenes.event_models import Clock, TimedModel, activation, one_layer
from graders.scenes.instruments.callers_hooks import REPLACING_FACTOR, CallersHooks, scale_tensors
from graders.scenes.instruments.failures import KINDS, Failure
from graders.scenes.instruments.models import fill_grads
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

LONGEST = 200
"""Entries that are kept of a list of events; right ones are shorter."""
SLOW = 100.0
"""The time on the clock that each slow hook of the caller takes."""
FOR_ALL: dict[str, Callable[..., Any]] = {
    "pre": _module.register_module_forward_pre_hook,
    "fwd": _module.register_module_forward_hook,
    "bpre": _module.register_module_full_backward_pre_hook,
    "bwd": _module.register_module_full_backward_hook,
}
"""The functions that register a hook for all modules, by kind."""
PLACE = {"pre": 1, "fwd": 2, "bpre": 1, "bwd": 1}
"""The index of the argument that a hook may replace, by kind."""


@family(
    sections=("{task}", "each call returns a new list", "nothing else changes", "{errors}"),
    axes={
        "hooks": ("none", "watching", "replacing"),
        "first": ("leaf", "non-leaf"),
        "failure": tuple(KINDS),
        "raises at": ("bwd", "bpre", "fwd", "pre"),
    },
)
def tells_an_order(call: Call, rng: Rng, case: Any, seen: Sections, unlike: Sequence[str] = ()) -> None:
    """For a function that returns labels in an order that is always the same, whether written down or measured.

    With the axis `first`, the function is called with a kind of hook, and also with the words in `unlike`, which are
    not kinds.
    """
    order, lists, same, errors = seen.values()
    if hasattr(case, "failure"):
        failing = Failure(case.failure)  # first, so that what the aborted call leaves behind shows in later calls
        handle, before = FOR_ALL[vars(case)["raises at"]](failing.raise_if_due), Witness()
        errors["the exception of a global hook of the caller"] = failing.outcome_during(call)
        errors["changed after an exception"] = before.changes()
        handle.remove()
    hooks = getattr(case, "hooks", "none")
    for kind in FOR_ALL if hooks != "none" else ():
        FOR_ALL[kind](_global_hook(kind, hooks))
    before, results = Witness(), list[Any]()
    first = getattr(case, "first", "")
    second = "leaf" if first == "non-leaf" else "non-leaf"
    for number, kind in enumerate((first, first, second, second, first) if first else ("", "", "")):
        results.append(call(kind) if kind else call())
        order[f"the list of call {number + 1}" + (f", for {kind!r}" if kind else "")] = copy_events(results[-1])
    same["changed"] = before.changes()
    lists["two calls returned the same list object"] = any(
        one is other for one, other in combinations(results, 2) if isinstance(one, list)
    )
    for text in (*rng.names(2), *unlike) if first else ():
        errors[f"what it raises for {text!r}"] = _error_of(partial(call, text))


def copy_events(result: Any) -> Any:
    """A copy of the first `LONGEST` entries of a list, or of a dict, which may change later; any other value itself."""
    return result[:LONGEST] if type(result) is list else dict(result) if isinstance(result, dict) else result


def _global_hook(kind: str, what: str) -> Callable[..., Any]:
    return lambda *args: scale_tensors(args[PLACE[kind]], REPLACING_FACTOR) if what == "replacing" else None


def _error_of(call: Callable[[], Any]) -> str:
    """The name of the exception that a call raises: "ValueError" also for its subclasses."""
    try:
        call()
    except ValueError:
        return "ValueError"
    except Exception as error:
        return type(error).__name__
    return "nothing"


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
        "first": ("layer", "frozen", "activation", "no gradient", "nested"),
        "join": ("chain", "residual", "sum"),
        "passing": ("position", "keyword"),
        "order": ("plain", "twice", "last"),
        "ckpt": (False, True),
        "n": (1, 3, 5),
        "hooks": ("none", "watching", "replacing"),
        "hooked": ("root", "named", "parameter"),
        "failure": tuple(KINDS),
        "run": ("first", "second"),
    },
    pairs=[("place", "grad"), ("ckpt", "mode")],
    impossible=[
        lambda needs, place: needs == "no grad" and place == "non-leaf",
        lambda needs, grad: needs == "no grad" and grad == "filled",
        lambda first, order: first == "no gradient" and order != "plain",  # nothing would reach what is before it
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
        striking, hooked = Failure(case.failure, getattr(case, "run", "first")), fragile.get_submodule(drawn.part)
        register: Any = hooked.register_forward_hook
        if where == "backward":
            register = fragile.get_parameter(drawn.parameter).register_hook
        register(striking.raise_if_due)
        before, args = Witness(model=fragile, x=x), (fragile, x, *arguments(case, clock, "failing"))
        failing[f"an exception in {where}"] = striking.outcome_during(partial(call, *args))
        failing[f"changed after an exception in {where}"] = before.changes()


def no_more(*_: Any) -> tuple[()]:
    """No other arguments."""
    return ()


def a_clock(case: Any, clock: Clock, call: str) -> tuple[Clock]:
    """The clock as the only other argument."""
    return (clock,)


def a_number_of_passes(case: Any, clock: Clock, call: str) -> tuple[int, bool]:
    """The number of passes, and whether to use a checkpoint, which is reversed in "another" call."""
    calls = {"another": (2, not case.ckpt), "nested": (1, False), "alone": (3, True), "failing": (2, case.ckpt)}
    return calls.get(call, (case.n, case.ckpt))


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
