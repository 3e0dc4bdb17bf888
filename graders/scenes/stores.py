"""The scene for a store of activations that is a context manager."""

from typing import Any

import torch

from graders.scenes.captures import hooked_model
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng


@family(
    sections=(
        "every call in the block is recorded",
        "nothing is recorded outside a block",
        "a second block adds to the record",
        "clear empties the record",
        "each store has its own record",
        "the model goes on as it does without the store",
        "nothing of the caller changes",
        "it holds when the block raises",
    ),
    axes={
        "named": ("several", "first, second name, often", "last, often"),
        "dtype": ("float32", "float64"),
        "mode": ("eval", "mixed", "train"),
        "hooks": ("none", "watching", "replacing"),
        "grad": ("empty", "filled"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "StopIteration", "RuntimeError", "KeyError"),
    },
)
def records_activations(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For a class `store(model, names)`, a context manager with `data` and `clear()`."""
    recorded, outside, again, clearing, own, goes_on, same, failing = seen.values()
    with grad_mode(case.grad_mode):
        (drawn, callers, names), (other, _, others) = hooked_model(rng, case), hooked_model(rng, case)
        model, x, later, t = drawn.model, drawn.draw(), drawn.draw(), other.draw()
        before = Witness(model=model, x=x, names=names)
        store = call(model, names)
        model(x)
        outside["the record before a block"] = store_contents(store)
        with store as entered:
            goes_on["grad mode is on in the block"] = torch.is_grad_enabled()
            model(x)
            model(later)
        recorded["the record after a block"] = store_contents(store)
        again["`store as s` gives the store"] = entered is store
        goes_on["what the model did"] = list(model.log)
        goes_on["what hooks of the caller saw"] = list(callers.log)
        goes_on["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        model(x)
        outside["the record after a run outside a block"] = store_contents(store)
        with store:
            model(later)
        again["the record after a second block"] = store_contents(store)
        store.clear()
        clearing["the record after clear()"] = store_contents(store)
        with store:
            model(x)
            store.clear()
            model(later)
        clearing["the record after clear() in a block"] = store_contents(store)

        outer, inner = call(model, names), call(other.model, others)
        with outer:
            model(x)
            with inner:
                other.model(t)
            model(later)
        own["the record of a store"] = store_contents(outer)
        own["the record of another store, inside"] = store_contents(inner)

        failure, store = Failure(case.failure), call(other.model, others)
        other.model.get_submodule(other.names["scalar"]).register_forward_pre_hook(failure.raise_if_due)
        before = Witness(model=other.model, x=t, names=others)

        def a_block() -> None:
            with store:
                other.model(t)

        failing["exception"] = failure.outcome_during(a_block)
        failing["changed after an exception"] = before.changes()
        failing["the record after an exception"] = store_contents(store)


def store_contents(store: Any) -> Any:
    """A copy of what a store holds now, without empty lists."""
    if not isinstance(store.data, dict):
        return store.data
    return {name: copy_value(found) for name, found in store.data.items() if type(found) is not list or found}
