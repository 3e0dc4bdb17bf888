"""Scenes for functions that run a model and tell what its modules put out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.passes import grad_mode
from graders.box.probing import has_memory
from graders.box.tensors import laid_out, prepared
from graders.box.witness import Witness
from graders.scenes.models import Drawn, a_model
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng

Told = dict[str, Any]
Ask = Callable[[Callable[..., Any], Any, nn.Module, list[str], Tensor], Told]
"""What a call tells, by name, from the learner's function, the case, a model, names of modules, and an input."""


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
    # Then every value has a graph where grad mode is on, and one that has none was cut off.
    impossible=(lambda frozen, x_is: frozen == "part" and x_is == "data",),
)
def captures(
    call: Callable[..., Any],
    rng: Rng,
    case: Any,
    seen: Sections,
    ask: Ask,
    model_of: Callable[..., Drawn] = a_model,
    also: Callable[[Callable[..., Any], Rng, dict[str, Any]], None] | None = None,
) -> None:
    """For a function that runs a model once, with a hook on some of its modules.

    `ask` makes the call, and `also` others. What the modules put out is overwritten by the next step of the model.
    """
    results, order, inside, runs, same, failing, more = seen.values()
    with grad_mode(case.grad_mode):
        drawn, callers, names = hooked_model(rng, case, model_of)
        model, x, later = drawn.model, an_input(drawn, case), an_input(drawn, case)
        before = Witness(model=model, x=x, names=names)
        told = ask(call, case, model, names, x)
        results.update(copied(told))
        order["the keys"] = keys_of(told)
        runs["what the model did"] = list(model.log)
        runs["what hooks of the caller saw"] = list(callers.log)
        runs["the statistics of the batch norm"] = statistics(drawn)
        runs["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        for name, value in ask(call, case, model, names, later).items():
            results[f"{name} of a later call"] = copied(value)
        results.update({f"{name}, after a later call": value for name, value in copied(told).items()})
        for index, tensor in enumerate(tensors_in(told.get("the result"))):
            tensor.data.add_(index + 1)
            results["the result, when somebody writes into its tensors"] = copied(told["the result"])

        other, _, others = hooked_model(rng, case, model_of)
        t, found = an_input(other, case), list[Told]()

        def within(*args: Any) -> None:
            if not found:
                found.append(ask(call, case, other.model, others, t))

        around = model.register_forward_hook(within)
        for name, value in ask(call, case, model, names, x).items():
            inside[f"{name} of a call"] = copied(value)
        around.remove()
        inside["of a call inside of it"] = [copied(told) for told in found]

        failure = Failure(case.failure)
        breaking = other.model.get_submodule(other.names["scalar"]).register_forward_pre_hook(failure.strike)
        before = Witness(model=other.model, x=t, names=others)
        failing["exception"] = failure.during(lambda: ask(call, case, other.model, others, t))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        for name, value in ask(call, case, other.model, others, t).items():
            failing[f"{name}, after an exception"] = copied(value)
        if also:
            also(call, rng, more)
    if isinstance(told.get("the result"), list):
        told["the result"].clear()  # one that outlives the call is empty again in the next case


def hooked_model(
    rng: Rng, case: Any, model_of: Callable[..., Drawn] = a_model
) -> tuple[Drawn, CallersHooks, list[str]]:
    """A model, the caller's hooks on it, and the names that are asked for."""
    drawn, callers = model_of(rng, case, in_place=True), CallersHooks(case.hooks)
    names = several(rng, drawn) if case.named == "several" else [drawn.names[name] for name in case.named.split(", ")]
    for name in ("", *names[:2]):
        callers.on_module(drawn.model.get_submodule(name), name)
    if case.hooks == "replacing":  # this one changes a shape
        drawn.model.get_submodule(drawn.names["last"]).register_forward_hook(lambda module, args, out: out[..., :-1])
    return drawn, callers, names


def several(rng: Rng, drawn: Drawn) -> list[str]:
    """Names in an order that is neither that of the run nor that of the definition, as the former is not the latter."""
    run = [drawn.names[what] for what in ("first", "norm", "nested", "flat", "identity", "last", "scalar")]
    defined = [name for name, _ in drawn.model.named_modules() if name in run]
    while True:
        names = rng.shuffled(run)
        if names not in (run, defined) and names[-1] != run[-1]:
            return names


def an_input(drawn: Drawn, case: Any) -> Tensor:
    """An input of the model: a leaf, or data that lie otherwise in memory than a new tensor."""
    x = drawn.draw()
    return prepared(x, grad=case.grad) if case.x_is == "a leaf" else laid_out(x, "transposed")


def statistics(drawn: Drawn) -> list[Any]:
    """What the batch norm of the model has averaged and counted so far."""
    norm: Any = drawn.model.get_submodule(drawn.names["norm"])
    return [norm.running_mean.clone(), int(norm.num_batches_tracked)]


def copied(value: Any) -> Any:
    """What was told as it is now, although somebody goes on changing it; a graph stays visible."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, list):
        return [copied(part) for part in value[:20]]  # a list that all calls share grows
    return {key: copied(part) for key, part in value.items()} if isinstance(value, dict) else value


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a result that has several."""
    entries = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [entry for entry in entries[:20] if has_memory(entry)]


def keys_of(told: Told) -> Any:
    """The keys of a result, in their order."""
    return list(told["the result"]) if isinstance(told.get("the result"), dict) else None


def of_one(call: Callable[..., Any], case: Any, model: nn.Module, names: list[str], x: Tensor) -> Told:
    """For `function(model, name, x)`."""
    return {"the result": call(model, names[0], x)}


def of_several(call: Callable[..., Any], case: Any, model: nn.Module, names: list[str], x: Tensor) -> Told:
    """For `function(model, names, x)`."""
    return {"the result": call(model, names, x)}


def of_all(call: Callable[..., Any], case: Any, model: nn.Module, names: list[str], x: Tensor) -> Told:
    """For `function(model, x)`."""
    return {"the result": call(model, x)}


def in_a_file(call: Callable[..., Any], case: Any, model: nn.Module, names: list[str], x: Tensor) -> Told:
    """For `function(model, name, x, path)`, which writes a tensor to a file and returns its shape.

    It is one file for all calls with the same name.
    """
    if not hasattr(case, "folder"):
        case.folder = tempfile.TemporaryDirectory()
    path = Path(case.folder.name) / names[0]
    shape = call(model, names[0], x, str(path) if case.path_is == "str" else path)
    case.paths = {*getattr(case, "paths", ()), path}
    others = sum(file not in case.paths for file in Path(case.folder.name).iterdir())
    return {**loaded(path), "the returned shape": shape, "other files": others}


def loaded(path: Path) -> Told:
    """The tensor in a file, and how many numbers are in it besides."""
    besides = None
    try:
        found = torch.load(path, weights_only=True)
    except Exception as error:
        found = f"torch.load raised {type(error).__name__}"
    if isinstance(found, Tensor):
        besides = found.untyped_storage().nbytes() // found.element_size() - found.numel()
    return {"the tensor in the file": found, "numbers in the file besides those of the tensor": besides}


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
        "output": ("tensor", "tuple", "dict"),
        "passing": ("position", "keyword"),
        "unused": ("before", "after"),
        "length": (4, 1),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "StopIteration", "RuntimeError", "KeyError"),
    },
)
def records(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For a class `store(model, names)`, a context manager with `data` and `clear()`."""
    recorded, outside, again, clearing, own, goes_on, same, failing = seen.values()
    with grad_mode(case.grad_mode):
        (drawn, callers, names), (other, _, others) = hooked_model(rng, case), hooked_model(rng, case)
        model, x, later, t, late = drawn.model, drawn.draw(), drawn.draw(), other.draw(), list[str]()
        before = Witness(model=model, x=x, names=names)
        store, kept = call(model, names), list(names)
        same["changed before a block"] = before.changes()
        model(x)
        outside["the record before a block"] = contents(store)
        with store as entered:
            goes_on["grad mode is on in the block"] = torch.is_grad_enabled()
            model(x)
            model(later)
            model.register_forward_hook(lambda *args: late.append("called"))
            model.get_submodule(kept[0]).register_forward_hook(lambda *args: late.append("called"))
        recorded["the record after a block"] = contents(store)
        again["`store as s` gives the store"] = entered is store
        goes_on["what the model did"] = list(model.log)
        goes_on["what hooks of the caller saw"] = list(callers.log)
        goes_on["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        model(x)
        same["calls of hooks that the caller registered in the block"] = list(late)
        outside["the record after a run outside a block"] = contents(store)
        with store:
            model(later)
        again["the record after a second block"] = contents(store)
        store.clear()
        clearing["the record after clear()"] = contents(store)
        with store:
            model(x)
            store.clear()
            model(later)
        clearing["the record after clear() in a block"] = contents(store)
        same["changed later"] = before.changes()

        outer, inner = call(model, list(kept)), call(other.model, list(others))
        with outer:
            model(x)
            with inner:
                other.model(t)
            model(later)
        own["the record of a store"] = contents(outer)
        own["the record of another store, inside"] = contents(inner)
        own["the record of the first store, after that"] = contents(store)
        for index, tensor in enumerate(tensor for name in kept for tensor in tensors_in(entries(outer, name))):
            tensor.data.add_(index + 1)
        own["the record, when somebody writes into its tensors"] = contents(outer)

        failure, store = Failure(case.failure, "second"), call(other.model, others)
        breaking = other.model.get_submodule(other.names["scalar"]).register_forward_pre_hook(failure.strike)
        before = Witness(model=other.model, x=t, names=others)
        failing["exception"] = failure.during(lambda: in_a_block(store, other.model, [t, t]))
        failing["changed after an exception"] = before.changes()
        breaking.remove()
        failing["the record after an exception"] = contents(store)
        in_a_block(store, other.model, [t])
        failing["the record after one more block"] = contents(store)


def in_a_block(store: Any, model: nn.Module, inputs: list[Tensor]) -> None:
    """Run the model on these while the store records."""
    with store:
        for x in inputs:
            model(x)


def entries(store: Any, name: str) -> Any:
    """What a store holds under a name."""
    return store.data.get(name) if isinstance(store.data, dict) else None


def contents(store: Any) -> Any:
    """What a store holds at this moment, without empty lists."""
    data = store.data
    if not isinstance(data, dict):
        return data
    return {name: copied(found) for name, found in data.items() if type(found) is not list or found}
