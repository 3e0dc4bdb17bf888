"""Scenes for functions that record gradients, with a hook that stays or in backward passes of their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.probing.asking import detached_copy, has_memory
from graders.scenes.around import AXES
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.scenes.worlds import World, draw_tensors, register_hooks, reverse_dimensions
from graders.wire.draws import Rng

A_LEAF = {**AXES, "place": ("leaf", "parameter")}


def _few_digits(dtype: str, values: str) -> bool:
    """Whether a detour through float32 would not show, because the float64 numbers have few digits."""
    return dtype == "float64" and values == "round"


@family(
    sections=(
        "each pass appends its own norm and that of the total",
        "every pass counts",
        "the total follows when the caller clears it",
        "each call has a list of its own",
        "the total is what a later hook left",
        "the flow is unchanged",
    ),
    axes={**A_LEAF, "backward": ("plain", "create_graph")},
    impossible=(_few_digits,),
)
def records_each_pass(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a function that returns a list at once; each later pass to a leaf appends strings with numbers to it."""
    each, counts, cleared, own, later, same = seen.values()
    values, x, *factors = draw_tensors(rng, case, 5)
    p, q = prepare_tensor(values, layout="transposed", place=case.place, grad=case.grad), prepare_tensor(values)
    neighbour = (-x).requires_grad_()
    CallersHooks(case.hooks).on_parameter(p, "p")
    before = Witness(p=p, q=q)
    log, log_of_q, again = call(p), call(q), call(p)
    each["the list at once"], same["changed"] = copy_value(log), before.changes()

    def run(t: Tensor, factor: Tensor, way: str = "plain") -> None:
        loss = (reverse_dimensions(factor).contiguous() * reverse_dimensions(t + neighbour)).sum()
        torch.autograd.backward(loss, create_graph=way == "create_graph")

    for factor in (factors[0], factors[0], factors[1]):
        run(p, factor, case.backward)
    each["the list after three passes"], own["the list of another one"] = copy_value(log), copy_value(log_of_q)
    same["p.grad after three passes"] = detached_copy(p.grad)
    p.grad = None
    run(p, factors[2])
    p.grad = p.detach() / 4
    run(p, -factors[2])
    cleared["the list after two more passes"] = copy_value(log)
    run(p, 0 * factors[0])
    run(p, 2**-12 * factors[0])
    counts["the list after passes with zeros, and almost zeros"] = copy_value(log)
    own["the list of a second call"], own["it is another list"] = copy_value(again), again is not log
    same["p.grad after seven passes"] = detached_copy(p.grad)
    same["the neighbour's gradient"] = detached_copy(neighbour.grad)
    same["changed in the end"] = [change for change in before.changes() if not change[0].startswith("grad-")]
    register_hooks(p, lambda grad: grad / 2)
    run(p, factors[1])
    later["the last entry"] = copy_value(log)


@family(
    sections=(
        "{results}",
        "{passes}",
        "another call starts afresh",
        "{own}",
        "nothing else changes",
        "{exception}",
    ),
    axes={**A_LEAF, "failure": ("RuntimeError", "KeyboardInterrupt"), "raised_in": ("forward", "backward")},
    pairs=[("failure", "raised_in")],
    impossible=(_few_digits,),
)
def runs_passes(call: Call, rng: Rng, case: Any, seen: Sections, world: Callable[..., World]) -> None:
    """For a function that runs backward passes and returns gradients. `world` comes from `graders.scenes.worlds`."""
    results, passes, later, own, same, failing = seen.values()
    first = world(rng, case)
    before = Witness(**first.things)
    result = call(*first.args)
    results["the result"] = copy_value(result)
    passes.update(first.look(), **{"what was called": list(first.log)})
    same["changed"] = first.changes(before)

    written = [*first.kept, *(first.things[name].grad for name in first.fills)]
    inner = [world(rng, case)]

    def call_inside(*args: Any) -> None:
        with torch.enable_grad():  # it is off during a backward pass
            call(*inner.pop().args) if inner else None

    later["around another call"] = copy_value(call(*world(rng, case, **{case.raised_in: call_inside}).args))
    later["of a second call"] = copy_value(call(*first.again()))
    later["of the first call, after that"] = copy_value(result)

    for gradient in filter(has_memory, written):
        gradient.zero_()
    own["the result, after the caller overwrote its gradients"] = copy_value(result)
    parts = [result[key] for key in sorted(result)] if isinstance(result, dict) else result
    for number, entry in enumerate(parts if isinstance(parts, list | tuple) else []):
        if has_memory(entry):
            entry.data.fill_(number)
    own["the result, after its entries were numbered"] = result

    failed = world(rng, case, **{case.raised_in: (failure := Failure(case.failure)).raise_if_due})
    before = Witness(**failed.things)
    failing["exception"] = failure.outcome_during(lambda: call(*failed.args))
    failing["changed after an exception"] = failed.changes(before)
    failing.update(failed.look())
