"""Scenes for functions that record gradients in backward passes of their own."""

from collections.abc import Callable
from typing import Any

import torch

from graders.probing.asking import has_memory
from graders.scenes.around import AXES
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.scenes.worlds import World
from graders.wire.draws import Rng

A_LEAF = {**AXES, "place": ("leaf", "parameter")}


def _few_digits(dtype: str, values: str) -> bool:
    """Whether a detour through float32 would not show, because the float64 numbers have few digits."""
    return dtype == "float64" and values == "round"


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
