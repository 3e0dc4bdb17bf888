"""Exercise 05-activation-store."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from graders.authoring import (
    ALL,
    FACTOR,
    MISSING,
    SILENT,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    apart,
    came_through,
    changes,
    close,
    exactly,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    prepared,
    refuse,
    unpacked,
)
from graders.lesson_05_capturing_activations.judging import (
    BEFORE_THE_CALLERS_HOOK,
    CHANGED_THE_MODE,
    LATE_BINDING,
    RETURNED_A_LIST,
    RETURNED_THE_COPY,
    Call,
    Layers,
    Twin,
    find,
    fired_as_usual,
    lookalike,
    net_of,
    of_any_shape,
    outputs_of,
    same_numbers,
    scrambled,
    varied,
    went_on,
)
from graders.lesson_05_capturing_activations.shared import (
    IN_PLACE,
    asked_of_any_shape,
    asked_of_varied,
    goes_on,
    made,
    share_memory,
    swallows,
)


@exercise(
    "05-activation-store",
    points=3,
    minutes=40,
    difficulty=3,
    name="ActivationStore",
    title="A store for activations, as a context manager",
    hints=(
        "`__init__` only notes what it gets. Register the hooks in `__enter__`, and return `self` from it.",
        "Remove all handles in `__exit__`. Python calls it also when the block raises.",
        "Return `None` or `False` from `__exit__`, and the exception comes through. `True` would swallow it.",
    ),
    why=(
        "Hooks are registered in `__enter__` and removed in `__exit__`, which Python calls also when the block "
        "raises; it returns `None`, so the exception comes through. An `ExitStack` that takes the handles would do "
        "as well, and needs no list of them."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "values": ALL, "collection": ("empty", "one", "many"),
            "mode": ALL, "frozen": ALL, "named": ALL, "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL,
            "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ("again", "in turn"), "grad_mode": ALL, "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "rank": "the model says which: the inputs have 2 or 4 dimensions",
            "place": "the input is a leaf, or data",
            "number": "no number is an argument",
            "tied": "parameters are not looked at",
            "backward": "it takes no part in the pass; the gradient of the caller's is looked at",
        },
        own={"x_is": ("data", "a leaf"), "raises": ("in the model", "in the block")},
        pairs=[("hooks", "hooked")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda named, output: named == "root" and output != "tensor",
            lambda hooks, hooked, collection: hooks == "replacing" and hooked == "named" and collection == "empty",
            lambda grad_mode, x_is: grad_mode == "off" and x_is == "a leaf",
            lambda layout, mode: layout == "expanded" and mode != "eval",  # a batch norm of equal samples
        ],
    ),
)  # fmt: skip
class TestActivationStore:
    """Write a class `ActivationStore(model, names)`. An instance is a context manager that records the outputs of the
    modules `names`.

    ```python
    store = ActivationStore(model, ["stem.0"])
    with store:
        model(x)
    store.data["stem.0"]   # a list with one tensor for each call of the submodule
    ```

    - `names` is a list of different names that `model.get_submodule` knows. Two of them may belong to one module, and
      `""` is the model itself.
    - `store.data` is a dict from names to lists of tensors, one for each call of the module, in the order of the calls,
      whichever of its names the model uses (no module runs inside a call of itself). A name whose module was not called
      has an empty list or no entry. When a block ends, at the latest, the record is complete.
    - The outputs are `float32` or `float64` tensors. Each entry has the values, the shape and the dtype of the output
      as it left the module, and no graph (rule 6). Two names of one module have copies of their own.
    - `with store as s` gives `s is store`. Outside the block, the model carries no hook of the store. That holds after
      an exception, too, and the exception comes through.
    - The record stays when a block ends, and a second block adds to it. No block of a store stands inside another one
      of the same store.
    - `store.clear()` empties the record (empty lists may stay). Inside a block, recording goes on after it.
    - The model goes on with the outputs themselves: inside the block, too, the caller can run `backward()` on what it
      returns.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())`, `store = ActivationStore(model, ["1"])` and
    `x = torch.tensor([[-1., 2.]])`, two calls of `model(x)` inside `with store:` leave
    `store.data == {"1": [tensor([[0., 2.]]), tensor([[0., 2.]])]}`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, named, collection, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        first, shift, norm, body, inner, behind, twice, again, last, unused = rng.names(10)
        in_place = [IN_PLACE] if follower == "in-place" else []
        inside = scrambled(rng, {behind: ["tanh"], inner: draws.target("gelu")}, [inner, behind])
        children = {
            first: draws.plain(),
            shift: draws.shift(registered),
            norm: draws.norm(),
            body: ["net", inside, [inner, *in_place, behind], output, passing],
            twice: draws.plain(),
            again: ["same", twice],
            last: draws.target("gelu"),
            unused: draws.plain(),
        }
        steps = [first, *in_place, shift, norm, body, twice, *in_place, again, last, *in_place]
        target = {"first": first, "last": last, "nested": f"{body}.{inner}", "root": "", "second name": again}[named]
        some = [target, first, f"{body}.{inner}", twice, again, unused, *([last] if target else [])]
        names = {"empty": [], "one": [target], "many": rng.shuffled(list(dict.fromkeys(some)))}[collection]
        others = {key: child for name in some if name for key, child in lookalike(name).items()}
        spec = ["net", {**others, **scrambled(rng, children, steps)}, steps, output, passing]
        return {
            "net": net_of(spec, names, case),
            "names": names,
            "x": draws.x(case["layout"]),
            "later": draws.x(case["layout"]),
            "up": draws.x(),
            "shaped": draws.of_any_shape(),
            "plain": draws.plain_x(),
        }

    def alive(net, names, x, later, up, x_is):
        found = [item for data in (x, later) for item in recorded_by(net, names, data).items()]
        first = [(name, y) for name, outputs in found if find(net["spec"], name)[0] == name for y in outputs]
        late = [-0.5 * y for name, y in first if name]
        alive = x_is == "data" or bool((gradient_at(net, x, up).abs() > 0.01).any())
        return alive and apart(*(y for _, y in first), *late)

    def oracle(net, names, x, later, up, x_is):
        return [
            [recorded_by(net, names, data) for data in (x, later)],
            gradient_at(net, x, up) if x_is == "a leaf" else 0,
        ]

    def probe(
        student, net, names, x, later, up, shaped, plain, layout, x_is, call, grad_mode, failure, failing_run, raises
    ):
        example = nn.Sequential(nn.Flatten(), nn.ReLU())  # first of all: the very first call of a method counts, too
        witness, store = Witness(model=example), student.ActivationStore(example, ["1"])
        with store:
            example(torch.tensor([[-1.0, 2.0]])), example(torch.tensor([[-1.0, 2.0]]))
        first = {"example": contents(store), "changed first": witness.changes()}
        store.clear()
        first["example cleared"] = contents(store)

        x, later = (
            laid_out(t, layout) if x_is == "data" else prepared(t, layout=layout, grad=net["grad"]) for t in (x, later)
        )
        (model, callers), seen = made(net), first
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x, names=names)
            store = student.ActivationStore(model, names)
            model(x)
            seen |= {"data before": contents(store), "changed before": witness.changes()}
            callers.log.clear()
            with store as entered:
                out = unpacked(model(x))
                model(later)
            seen |= {"data": contents(store), "fired": list(callers.log), "entered is store": entered is store}
            seen |= {"changed": witness.changes(), "graph": out.requires_grad}
            model(x)
            seen["data outside"] = contents(store)
            seen["x.grad"] = (
                torch.autograd.grad((out * up).sum(), x, allow_unused=True)[0]
                if x.requires_grad and out.requires_grad
                else None
            )
            with store:
                model(x)
            seen["data again"] = contents(store)
            store.clear()
            seen["data cleared"] = contents(store)
            with store:
                model(x)
                store.clear()
                model(later)
            seen["data after clear"] = contents(store)

            # Two stores at the same time, on one model or on two.
            other = model if call == "again" else made(net)[0]
            inner, outer = student.ActivationStore(model, names), student.ActivationStore(other, names)
            with outer:
                with inner:
                    model(x)
                other(later)
            seen |= {"inner": contents(inner), "outer": contents(outer), "changed later": witness.changes()}

            failing, broken = Failure(failure, failing_run), made(net)[0]
            in_block = raises == "in the block"
            if not in_block:
                broken.register_forward_pre_hook(failing.strike)
            witness, store = Witness(model=broken, x=x), student.ActivationStore(broken, names)

            def block():
                with store:
                    for t in (x, later):
                        broken(t)
                        if in_block:
                            failing.strike()

            seen |= {"failure": failing.during(block), "data after failure": contents(store)}
            seen["changed by failure"] = witness.changes()
            with store:
                broken(x)
            seen["data after all"] = contents(store)
            seen["swallowed"] = [
                kind.__name__ for kind in (StopIteration, GeneratorExit, SystemExit) if swallows(store, kind)
            ]

        def ask(model, name, t):
            store = student.ActivationStore(model, [name])
            with store:
                model(t)
            return contents(store)

        of_varied = asked_of_varied(ask, plain)
        memory = any(share_memory(found.get("layer")) for found in of_varied if isinstance(found, dict))
        store = student.ActivationStore(two_names := nn.Sequential(act := nn.Tanh(), act), ["1", "0"])
        with store:
            two_names(plain)
        both = contents(store)
        if isinstance(both, dict) and all(isinstance(entries, list) for entries in both.values()):
            seen["one memory of two names"] = share_memory([entry for entries in both.values() for entry in entries])
        seen |= {"of varied": of_varied, "one memory": memory}
        fired = hooks_of_the_block(lambda model: student.ActivationStore(model, ["0", ""]))
        seen |= {"hooks of the block": fired, **goes_on(ask, "0", rounds=3)}
        return {**seen, "of any shape": asked_of_any_shape(ask, shaped)}

    mistakes = (
        Mistake(
            "registered-too-early",
            lambda seen: bool(changes(seen["changed before"], "hook-left *")),
            "There are hooks of yours on the model before the `with` block begins. Register them in `__enter__`, not "
            "in `__init__`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: left(seen, "changed") and not left(seen, "changed before"),
            "Hooks are still registered after the `with` block. Keep every handle in `__enter__`, and call `remove()` "
            "on each in `__exit__`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: left(seen, "changed by failure") and not left(seen, "changed"),
            "The block raised an exception, and your hooks stayed on the model. `__exit__` is called in that case, "
            "too: remove the handles there whatever its arguments say.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, net, names, later: same(
                seen["data"], {name: outputs[-1:] for name, outputs in recorded_by(net, names, later).items()}
            ),
            "Your store kept only the last call of a module. Append every output to a list.",
        ),
        Mistake(
            "clear-does-nothing",
            lambda seen, net, names, x, later: (
                same(seen["data"], recorded_by(net, names, x, later))
                and not same(seen["example cleared"], {"1": []})
                and same(seen["data cleared"], recorded_by(net, names, x, later, x))
            ),
            "After `clear()` the old entries are still there. `data = {}` only binds a local name: empty the dict "
            "itself with `self.data.clear()`, or assign to `self.data`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, net, names, x: (
                SILENT
                if sum(map(bool, recorded_by(net, names, x).values())) < 2
                else [name for name in seen["data"].keys if len(seen["data"][name])] == names[-1:]
                and not left(seen, "changed before")
            ),
            LATE_BINDING,
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, names, x, later, follower: (
                (overwritten(seen["data"], recorded_by(net, names, x, later)) and seen["goes on"].value is True)
                if follower == "in-place"
                else SILENT
            ),
        ),
        Mistake(
            "swallowed-exception",
            lambda seen: seen["failure"].value == "swallowed" or bool(seen["swallowed"].value),
            "The exception of the block disappeared: `__exit__` returned something true. Return `None`.",
        ),
        Mistake(
            "reset-on-entry",
            lambda seen, net, names, x, later: (
                same(seen["data"], recorded_by(net, names, x, later))
                and same(seen["data again"], recorded_by(net, names, x))
            ),
            "The second `with` block erased what the first had recorded. The record grows until `clear()` is called: "
            "create `self.data` in `__init__` and leave it alone in `__enter__` and `__exit__`.",
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, grad_mode: (
                SILENT if grad_mode == "off" else seen["graph"].value is False and seen["goes on"].value is True
            ),
            "Inside the block the model builds no graph: you switched grad mode off, and the caller may want a "
            "gradient. The entries need `.detach()`, and nothing else does.",
        ),
        RETURNED_THE_COPY,
        RETURNED_A_LIST,
        Mistake("changed-the-mode", lambda seen: bool(changes(seen["changed first"], "mode *")), CHANGED_THE_MODE),
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, names, x, later: (
                net["hooks"] == "replacing"
                and bool(net["watched"])
                and same(
                    seen["data"],
                    {
                        name: [y / FACTOR if find(net["spec"], name)[0] in net["watched"] else y for y in outputs]
                        for name, outputs in recorded_by(net, names, x, later).items()
                    },
                )
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
        Mistake(
            "one-name-for-each-module",
            lambda seen, net, names, x, later: some_are_empty(seen["data"], recorded_by(net, names, x, later), net),
            "Two of the names belong to one module, and only one of them has entries. Register a hook for each name, "
            "or keep all names of a module.",
        ),
    )

    def test_every_call_in_the_block_is_recorded(seen, net, names, x, later):
        recorded(seen["data"], recorded_by(net, names, x, later))

    def test_entries_have_the_shape_of_any_output(seen, shaped):
        for found, output in of_any_shape(seen, shaped):
            recorded(found, {"1": [output]})

    def test_each_is_a_copy_of_its_own_shape_and_dtype(seen, plain):
        for found in exactly(2, seen["of varied"]):
            recorded(Seen(found.value, "the record of a layer that hands on its input"), {"layer": varied(plain)})
        expect(seen["one memory"]).is_false("two entries of a list share their memory")
        if seen["one memory of two names"].value is True:
            refuse("a module has two names, and entries under the one share their memory with those under the other")

    def test_hooks_that_the_caller_changes_in_the_block_stay_so(seen):
        fired = expect(seen["hooks of the block"]).list_of(str)
        if fired != ["new", "new of the model"]:
            refuse(
                "in the block the caller removed one hook and registered two; after the block the hooks of the caller "
                f"that fire should be those two, and they are: {', '.join(fired) or 'none'}"
            )

    def test_nothing_is_recorded_outside_a_block(seen, net, names, x, later):
        recorded(seen["data before"], recorded_by(net, names))
        recorded(seen["data outside"], recorded_by(net, names, x, later))

    def test_a_second_block_adds_to_the_record(seen, net, names, x, later):
        expect(seen["entered is store"]).is_true("`with store as s` has to give the store itself: return self")
        recorded(seen["data again"], recorded_by(net, names, x, later, x))

    def test_clear_empties_the_record(seen, net, names, later):
        for key in ("data cleared", "example cleared"):
            recorded(seen[key], recorded_by(net, names) if key == "data cleared" else {"1": []})
        recorded(seen["data after clear"], recorded_by(net, names, later))

    def test_each_store_has_its_own_record(seen, net, names, x, later, call):
        recorded(seen["inner"], recorded_by(net, names, x))
        recorded(seen["outer"], recorded_by(net, names, *([x, later] if call == "again" else [later])))

    def test_the_model_goes_on_with_the_outputs_themselves(seen, net, x, up, x_is, grad_mode):
        went_on(seen)
        if grad_mode == "on":
            expect(seen["graph"]).is_true("inside the block, the output of the model does not require grad any more")
        if x_is == "a leaf":
            same_numbers(seen["x.grad"], gradient_at(net, x, up))

    def test_nothing_of_the_caller_changes(seen, net, x, later):
        nothing_changed(seen["changed first"], when="after a block")
        for key in ("changed before", "changed", "changed later"):
            nothing_changed(seen[key], but=["buffer *"], when="" if key != "changed before" else "before a block")
        fired_as_usual(seen, net, [x, later])

    def test_it_holds_when_the_block_raises(seen, net, names, x, later, failing_run, raises):
        came_through(seen["failure"], "the block")
        expect(Seen(seen["swallowed"].value, "exceptions of the block that did not come through")).equals([])
        nothing_changed(seen["changed by failure"], but=["buffer *"], when="after an exception")
        runs = [x, later][: (failing_run == "second") + (raises == "in the block")]
        recorded(seen["data after failure"], recorded_by(net, names, *runs))
        recorded(seen["data after all"], recorded_by(net, names, *runs, x))

    def test_the_example_comes_out(seen):
        recorded(seen["example"], {"1": [torch.tensor([[0.0, 2.0]])] * 2})


def hooks_of_the_block(make: Callable[[nn.Module], Any]) -> list[str]:
    """Which hooks of the caller fire after a block in which it removed one and registered two."""
    model, fired = nn.Sequential(nn.Tanh(), nn.Tanh()), list[str]()
    old = model[0].register_forward_hook(lambda module, args, output: fired.append("old"))
    with make(model):
        old.remove()
        model[0].register_forward_hook(lambda module, args, output: fired.append("new"))
        model.register_forward_hook(lambda module, args, output: fired.append("new of the model"))
    model(torch.ones(1, 2))
    return fired


def contents(store: Any) -> Any:
    """What a store holds at this moment: its lists are copied, their tensors are not."""
    data = store.data
    if not isinstance(data, dict):
        return data
    return {name: list(entries) if isinstance(entries, list) else entries for name, entries in data.items()}


WHEN = {
    "data": "store.data after a block",
    "data before": "store.data before a block",
    "data outside": "store.data after a run outside a block",
    "example": "store.data in the example",
    "example cleared": "store.data in the example, after clear()",
    "data again": "store.data after a second block",
    "data cleared": "store.data after clear()",
    "data after clear": "store.data after a block with clear() in it",
    "data after failure": "store.data after a block that raised",
    "data after all": "store.data after one more block",
    "inner": "the data of the inner one of two stores",
    "outer": "the data of the outer one of two stores",
}
"""What the probe tells, in words."""


CALLS: MutableMapping[Tensor, list[Call]] = WeakIdKeyDictionary()
"""The calls of a run by its input. All checks ask for the same few, and each input belongs to one model."""


def recorded_by(net: dict[str, Any], names: list[str], *runs: Tensor) -> dict[str, list[Tensor]]:
    """Name to outputs, for these runs of the model, none of which depends on an earlier one."""
    for x in runs:
        if x not in CALLS:
            CALLS[x] = Twin(net).run(x)
    calls = [call for x in runs for call in CALLS[x]]
    return {name: outputs_of(calls, find(net["spec"], name)[0]) for name in names}


def gradient_at(net: dict[str, Any], x: Tensor, up: Tensor) -> Tensor:
    """The gradient at x of the output of the model times `up`, summed."""
    leaf = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Twin(net).run(leaf)[-1].y.mul(up).sum(), leaf)
    return gradient


def recorded(data: Seen, expected: dict[str, list[Tensor]]) -> None:
    """The store holds these outputs, and nothing else."""
    data = Seen(data.value, WHEN.get(data.path, data.path))
    if type(data.value) is not dict:
        expect(data).fail("`store.data` has to be a dict")
    for key in data.keys:
        if key not in expected:
            expect(data).fail(f"the key {key!r} is none of the names of the store")
    for name, values in expected.items():
        if data[name].value is MISSING and not values:
            continue
        expect(data[name]).has_length(len(values), "outputs" if len(values) != 1 else "output")
        for entry, value in zip(data[name], values):
            same_numbers(entry, value)


def same(data: Seen, expected: dict[str, list[Tensor]]) -> bool:
    """Whether `recorded` would agree."""
    return all(close(data[name], values) or (not values and not len(data[name])) for name, values in expected.items())


def overwritten(data: Seen, expected: dict[str, list[Tensor]]) -> bool:
    """Whether each entry is right or what the in-place step behind the module made of it, and some are the latter."""
    entries = [(entry, value) for name, values in expected.items() for entry, value in zip(data[name], values)]
    late = [close(entry, -0.5 * value) for entry, value in entries]
    return any(late) and all(after_it or close(entry, value) for after_it, (entry, value) in zip(late, entries))


def some_are_empty(data: Seen, expected: dict[str, list[Tensor]], net: dict[str, Any]) -> bool:
    """Whether all lists are right but those of names whose module has another name with its entries."""
    wrong = [name for name, values in expected.items() if not close(data[name], values) and values]
    right = {find(net["spec"], name)[0] for name in expected if name not in wrong}
    return bool(wrong) and all(not len(data[name]) and find(net["spec"], name)[0] in right for name in wrong)


def left(seen: Seen, key: str) -> bool:
    """Whether the witness found a hook that stayed."""
    return bool(changes(seen[key], "hook-left *"))
