"""Exercise 05-activation-store."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graders.authoring import MISSING, Mistake, Seen, apart, close, exercise, expect, module_hooks, no_hook_left
from graders.lesson_05_capturing_activations.judging import LATE_BINDING, block, linear, outputs, trace, without_graph
from graders.lesson_05_capturing_activations.shared import build, when_it_raises


@exercise(
    "05-activation-store",
    points=3,
    name="ActivationStore",
    title="A store for activations, as a context manager",
    hints=(
        "`__init__` only notes what it gets. Register the hooks in `__enter__`, and return `self` from it.",
        "Remove all handles in `__exit__`. Python calls it also when the block raises.",
        "Return `None` or `False` from `__exit__`, and the exception comes through. `True` would swallow it.",
    ),
    cases=({"calls": 2}, {"calls": 1}, {"calls": 2}),
)
class TestActivationStore:
    """Write a class `ActivationStore(model, names)`. `names` is a list of names of submodules of `model`. An instance
    is a context manager that records the outputs of these submodules. It is used like this.

    ```python
    store = ActivationStore(model, ["stem.0"])
    with store:
        model(x)
    store.data["stem.0"]   # a list with one tensor for each call of the submodule
    ```

    - `store.data` is a dict from names to lists of tensors, one for each call, in the order of the calls. A name whose
      submodule was not called has an empty list or no entry.
    - The store records only inside the `with` block. `with store as s` gives `s is store`. Outside the block, the model
      carries no hook of the store.
    - When the block ends, by an exception or not, the hooks are removed, and an exception comes through. What was
      recorded stays in `store.data`. When the same store is used in a second `with` block, it grows.
    - `store.clear()` empties the record, inside or outside a block. Empty lists may stay. Inside a block, recording
      goes on after it.
    - The entries do not require grad. They are copies: a later layer that works in place does not change them.
    - The output of the model keeps its graph: the caller can run `backward()` on it as usual. Hooks of the caller stay
      and fire as usual. Each module keeps its mode (training or eval).

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())`, `store = ActivationStore(model, ["1"])` and
    `x = torch.tensor([[-1., 2.]])`, two calls of `model(x)` inside `with store:` leave
    `store.data == {"1": [tensor([[0., 2.]]), tensor([[0., 2.]])]}`.
    """

    def draw(rng, calls):
        layer, act, body, inner, relu, head, unused = rng.names(7)
        inside = block(rng, [inner, relu], {inner: linear(rng, 3, 3), relu: ["relu", True]})
        children = {layer: linear(rng, 3, 3), act: ["relu", True], body: inside, head: linear(rng, 3, 2)}
        children[unused] = linear(rng, 2, 2)
        return {
            "spec": block(rng, [*[layer, act] * calls, body, head], children),
            "names": rng.shuffled([layer, f"{body}.{inner}", unused]),
            "layer": layer,
            "x": rng.tensor(2, 3),
            "later": rng.tensor(2, 3),
        }

    def alive(spec, names, layer, x, later):
        every = [y for data in (x, later) for y in outputs(spec, data, layer)]
        return apart(*every, *(y.relu() for y in every)) and bool((gradient_at(spec, x).abs() > 0.05).any())

    def probe(student, spec, names, layer, x, later):
        model = build(spec)
        fired = []
        model.get_submodule(layer).register_forward_hook(lambda module, args, output: fired.append(1))
        hooks, modes = module_hooks(model), [module.training for module in model.modules()]

        def extra_hooks():
            return module_hooks(model) - hooks

        seen = {}
        store = student.ActivationStore(model, list(names))
        model(x)
        seen |= {"data_before": contents(store), "hooks_before": extra_hooks()}
        leaf = x.clone().requires_grad_()
        fired.clear()
        with store as entered:
            output = model(leaf)
            model(later)
        seen |= {"data": contents(store), "hooks_left": extra_hooks(), "callers_hooks_fired": len(fired)}
        seen |= {"entered_is_store": entered is store, "graph": output.requires_grad}
        model(x)
        seen["data_outside"] = contents(store)
        if output.requires_grad:
            output.sum().backward()
        seen["x.grad"] = leaf.grad
        with store:
            model(x)
        seen["data_again"] = contents(store)
        seen["modes_kept"] = [module.training for module in model.modules()] == modes
        store.clear()
        seen["data_cleared"] = contents(store)
        with store:
            model(x)
            store.clear()
            model(later)
        seen["data_after_clear"] = contents(store)
        seen["hooks_at_the_end"] = extra_hooks()
        stores = []

        def raises_in_a_block(model):
            stores.append(student.ActivationStore(model, list(names)))
            with stores[-1]:
                model(x)

        seen |= when_it_raises(lambda: build(spec), raises_in_a_block)
        return {**seen, "data_after_exception": contents(stores[0])}

    mistakes = (
        Mistake(
            "registered-too-early",
            lambda seen: seen["hooks_before"].value > 0,
            "There are hooks on the model before the `with` block begins, and it is recorded then, too. "
            "Register them in `__enter__`, not in `__init__`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: seen["hooks_before"].value == 0 and seen["hooks_left"].value > 0,
            "Hooks are still registered after the `with` block. Keep every handle in `__enter__`, and call `remove()` "
            "on each in `__exit__`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["hooks_before"].value == 0
                and seen["hooks_left"].value == 0
                and seen["hooks_left_after_exception"].value > 0
            ),
            "The block raised an exception, and your hooks stayed on the model. `__exit__` is called in that case, "
            "too: remove the handles there whatever its arguments say.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, layer, later: any(
                close(seen["data"][layer], last)
                for last in (outputs(spec, later, layer)[-1:], outputs(spec, later, layer)[-1])
            ),
            "Your store kept only the last call of a module. Append every output to a list.",
        ),
        Mistake(
            "clear-does-nothing",
            lambda seen, spec, names, x, later: (
                holds(seen["data"], spec, names, [x, later])
                and not holds(seen["data_cleared"], spec, names, [])
                and len(seen["data_cleared"]) == len(seen["data_again"])
            ),
            "After `clear()` the old entries are still there. `data = {}` only binds a local name: empty the dict "
            "itself with `self.data.clear()`, or assign to `self.data`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, names, layer: (
                len([name for name in names if len(seen["data"][name])]) == 1
                and seen["hooks_before"].value == 0
                and len(seen["data"][first_filled(seen["data"], names)]) == 2 * (len(calls_of(spec, layer)) + 1)
            ),
            LATE_BINDING,
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, layer, x, later: close(
                seen["data"][layer], [y.relu() for data in (x, later) for y in outputs(spec, data, layer)]
            ),
        ),
        Mistake(
            "swallowed-exception",
            lambda seen: seen["exception"].value == "swallowed",
            "The exception of the block disappeared: `__exit__` returned something true. Return `None`.",
        ),
        Mistake(
            "reset-on-entry",
            lambda seen, spec, names, x, later: (
                holds(seen["data"], spec, names, [x, later]) and holds(seen["data_again"], spec, names, [x])
            ),
            "The second `with` block erased what the first had recorded. The record grows until `clear()` is called: "
            "create `self.data` in `__init__` and leave it alone in `__enter__` and `__exit__`.",
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, spec, names, x, later: (
                holds(seen["data"], spec, names, [x, later]) and seen["x.grad"].value is None
            ),
            "No gradient reaches `x` while the store is active. Your hook returned a detached tensor, which replaced "
            "the output (or the block ran without grad). A hook that only watches returns `None`.",
        ),
    )

    def test_every_call_in_the_block_is_recorded(seen, spec, names, x, later):
        recorded(seen["data"], spec, names, [x, later])

    def test_the_entries_have_no_graph(seen):
        for name in seen["data"].keys:
            for entry in seen["data"][name]:
                without_graph(entry)

    def test_nothing_is_recorded_outside_a_block(seen, spec, names, x, later):
        recorded(seen["data_before"], spec, names, [])
        no_hook_left(seen["hooks_before"])
        recorded(seen["data_outside"], spec, names, [x, later])

    def test_a_second_block_adds_to_the_record(seen, spec, names, x, later):
        expect(seen["entered_is_store"]).is_true("`with store as s` has to give the store itself: return self")
        recorded(seen["data_again"], spec, names, [x, later, x])

    def test_clear_empties_the_record(seen, spec, names, later):
        recorded(seen["data_cleared"], spec, names, [])
        recorded(seen["data_after_clear"], spec, names, [later])

    def test_the_output_keeps_its_graph(seen, spec, layer, x):
        expect(seen["graph"]).is_true("the output of the model does not require grad any more")
        expect(seen["x.grad"]).close_to(gradient_at(spec, x))
        expect(seen["callers_hooks_fired"]).equals(2 * len(calls_of(spec, layer)))

    def test_the_modes_stay(seen):
        expect(seen["modes_kept"]).is_true("a module is not in the mode (training or eval) in which it was before")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])
        no_hook_left(seen["hooks_at_the_end"])

    def test_the_record_stays_when_the_block_raises(seen, spec, names, x):
        recorded(seen["data_after_exception"], spec, names, [x])

    def test_no_hook_is_left_when_the_block_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def contents(store: Any) -> Any:
    """What a store holds at this moment: its lists are copied, their tensors are not."""
    data = store.data
    if not isinstance(data, dict):
        return data
    return {name: list(entries) if isinstance(entries, list) else entries for name, entries in data.items()}


def recorded(data: Seen, spec: list[Any], names: list[str], inputs: list[Tensor]) -> None:
    """The store holds what these submodules put out for these inputs, and nothing else."""
    if type(data.value) is not dict:
        expect(data).fail("`store.data` has to be a dict")
    for key in data.keys:
        if key not in names:
            expect(data).fail(f"the key {key!r} is none of the names of the store")
    for name in names:
        values = [y for x in inputs for y in outputs(spec, x, name)]
        if data[name].value is MISSING and not values:
            continue
        expect(data[name]).has_length(len(values), "outputs")
        for entry, value in zip(data[name], values):
            expect(entry).close_to(value, detached=False)


def holds(data: Seen, spec: list[Any], names: list[str], inputs: list[Tensor]) -> bool:
    """Whether `recorded` would agree."""
    expected = {name: [y for x in inputs for y in outputs(spec, x, name)] for name in names}
    return all(
        close(data[name], values) or (not values and data[name].value is MISSING) for name, values in expected.items()
    )


def calls_of(spec: list[Any], name: str) -> list[str]:
    """One entry for each call of a child in one run of the model."""
    return [step for step in spec[2] if step == name]


def first_filled(data: Seen, names: list[str]) -> str:
    """The first of these names that has entries."""
    return next(name for name in names if len(data[name]))


def gradient_at(spec: list[Any], x: Tensor) -> Tensor:
    """The gradient of the summed output at x, from a composition of functions."""
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(trace(spec, leaf)[-1].y.sum(), leaf)
    return gradient
