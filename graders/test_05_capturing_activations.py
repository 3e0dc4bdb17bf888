"""Lesson 5. Capturing activations: forward hooks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.model_specs import module_names, resolve
from graders.box.probing import Boom, expecting_boom, module_hooks
from graders.core.conditions import HOOK_MISTAKES, model_unchanged, no_hook_left
from graders.core.draws import Rng
from graders.core.exercise import Mistake, exercise
from graders.core.expect import MISSING, Seen, apart, close, expect

# Models. A draw describes a model as data, a tree of [kind, details...]. The probe builds modules from it; the
# judge computes every call by direct composition of functions, without a module and without a hook.


class Block(nn.Module):
    """Its children are defined in one order and called in another, some of them more than once."""

    def __init__(self, children: dict[str, nn.Module], order: list[str]) -> None:
        """`order` holds the names in the order of the calls."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.order, self.runs = order, 0

    def forward(self, x: Tensor) -> Tensor:
        """Call the children one after the other."""
        self.runs += 1
        for name in self.order:
            x = self.get_submodule(name)(x)
        return x


class ScaleInPlace(nn.Module):
    """Multiplies its input in place."""

    def __init__(self, factor: float) -> None:
        """`factor` is the number to multiply by."""
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Overwrite x."""
        return x.mul_(self.factor)


class Window(nn.Module):
    """Returns a small view into a large tensor that repeats its input."""

    def __init__(self, kind: str) -> None:
        """`kind` is "columns" or "rows"."""
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """The first five of 50000 columns, or of 50000 rows."""
        if self.kind == "columns":
            return x.repeat(1, 50000 // x.shape[1])[:, :5]
        return x.repeat(50000 // x.shape[0], 1)[:5]


class Fails(nn.Module):
    """Raises in the middle of a forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """Raise."""
        raise Boom


def build(spec: list[Any]) -> nn.Module:
    """The module that a spec describes."""
    kind, *rest = spec
    if kind == "block":
        children, order = rest
        made: dict[str, nn.Module] = {}
        for name, child in children.items():
            made[name] = made[child[1]] if child[0] == "same" else build(child)
        return Block(made, order)
    if kind in ("sequential", "list"):
        return {"sequential": lambda made: nn.Sequential(*made), "list": nn.ModuleList}[kind]([*map(build, rest[0])])
    if kind == "conv":
        return filled(nn.Conv2d(rest[0].shape[1], rest[0].shape[0], rest[0].shape[2:], padding=1), *rest)
    if kind == "linear":
        return filled(nn.Linear(rest[0].shape[1], rest[0].shape[0]), *rest)
    if kind == "norm":
        return filled(nn.BatchNorm2d(len(rest[0])), *rest)
    simple = {"relu": nn.ReLU, "pool": nn.MaxPool2d, "flatten": nn.Flatten, "scale": ScaleInPlace, "window": Window}
    return simple[kind](*rest)


def filled(layer: nn.Module, weight: Tensor, bias: Tensor) -> nn.Module:
    """The layer with copies of these parameters, in their dtype."""
    layer.to(weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def failing(model: nn.Module, where: str = "end") -> nn.Module:
    """The same model, which now raises at its end or at its start."""
    model.add_module("fails", Fails())
    model.order = ["fails", *model.order] if where == "start" else [*model.order, "fails"]
    return model


class Witness:
    """Looks at a model before and after a call: hooks, modes, parameters, and how often it ran.

    It also plays the caller, who has a hook on the model and on every submodule named.
    """

    def __init__(self, model: nn.Module, *names: str) -> None:
        """Register the caller's hooks and write down the state of the model."""
        self.model, self.fired = model, []
        for name in ("", *names):
            model.get_submodule(name).register_forward_hook(lambda module, args, output: self.fired.append(1))
        self.hooks, self.runs = module_hooks(model), model.runs
        self.modes = [module.training for module in model.modules()]
        self.parameters = [p.detach().clone() for p in model.parameters()]

    def report(self) -> dict[str, Any]:
        """What changed."""
        return {
            "runs": self.model.runs - self.runs,
            "callers_hooks_fired": len(self.fired),
            "hooks_left": module_hooks(self.model) - self.hooks,
            "modes_kept": [module.training for module in self.model.modules()] == self.modes,
            "parameters_kept": all(map(torch.equal, self.model.parameters(), self.parameters)),
            "grads_kept": all(p.grad is None for p in self.model.parameters()),
        }


def when_it_raises(make: Callable[[], nn.Module], call: Callable[[nn.Module], Any]) -> dict[str, Any]:
    """What happens when `call` gets a model that raises: at its end, where hooks have fired, and at its start."""
    outcomes, left = [], []
    for where in ("end", "start"):
        witness, seen = Witness(failing(make(), where)), {}
        with expecting_boom(seen):
            call(witness.model)
        outcomes.append(seen["exception"])
        left.append(witness.report()["hooks_left"])
    wrong = [outcome for outcome in outcomes if outcome != "propagated"]
    return {"exception": [*wrong, "propagated"][0], "hooks_left_after_exception": max(left, key=abs)}


def plain_tuple(value: Any) -> Any:
    """A `torch.Size` as the tuple that it is; any other value as it is."""
    return tuple(value) if isinstance(value, torch.Size) else value


# The judge's side: draws, and what must come out.


def conv(rng: Rng, channels: int = 2, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a 3 by 3 convolution that keeps the shape. All of them look alike."""
    return [
        "conv",
        rng.tensor(channels, channels, 3, 3, low=-1, high=1, away=0.125, dtype=dtype),
        rng.tensor(channels, low=-1, high=1, dtype=dtype),
    ]


def linear(rng: Rng, inputs: int, outputs: int, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a linear layer."""
    weight = rng.tensor(outputs, inputs, low=-1.5, high=1.5, dtype=dtype)
    return ["linear", weight, rng.tensor(outputs, low=-1, high=1, dtype=dtype)]


def block(rng: Rng, order: Sequence[str], children: dict[str, list[Any]]) -> list[Any]:
    """A block whose children are defined in a random order, which is not that of the calls."""
    names = list(children)
    while True:
        shuffled = rng.shuffled(names)
        first_calls = [name for name in dict.fromkeys(step.split(".")[0] for step in order) if name in children]
        if [name for name in shuffled if name in first_calls] != first_calls:
            break
    for name, child in children.items():  # a second name comes after the first
        if child[0] == "same" and shuffled.index(name) < shuffled.index(child[1]):
            a, b = shuffled.index(name), shuffled.index(child[1])
            shuffled[a], shuffled[b] = shuffled[b], shuffled[a]
    return ["block", {name: children[name] for name in shuffled}, list(order)]


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, and what went in and came out."""

    name: str
    kind: str
    x: Tensor
    y: Tensor


def trace(spec: list[Any], x: Tensor, *, batch_statistics: bool = False, name: str = "") -> list[Call]:
    """Every call of a module when the model of `spec` runs on `x`, in the order in which the calls end.

    Direct composition of functions; nothing is done in place.
    """
    kind, *rest = spec
    calls: list[Call] = []
    if kind in ("block", "sequential"):
        y = x
        steps = rest[1] if kind == "block" else [str(index) for index in range(len(rest[0]))]
        for step in steps:
            child, path = resolve(spec, step)
            calls += trace(child, y, batch_statistics=batch_statistics, name=f"{name}.{path}" if name else path)
            y = calls[-1].y
    else:
        y = FUNCTIONS[kind](x, *rest, *([batch_statistics] if kind == "norm" else []))
    return [*calls, Call(name, kind, x, y)]


FUNCTIONS = {
    "conv": lambda x, weight, bias: F.conv2d(x, weight, bias, padding=1),
    "linear": lambda x, weight, bias: x @ weight.T + bias,
    "norm": lambda x, weight, bias, batch: F.batch_norm(
        x, torch.zeros_like(weight), torch.ones_like(weight), weight, bias, training=batch
    ),
    "relu": lambda x, in_place: torch.relu(x),
    "pool": lambda x, size: F.max_pool2d(x, size),
    "flatten": lambda x: x.flatten(1),
    "scale": lambda x, factor: x * factor,
    "window": lambda x, kind: x.repeat(1, 5)[:, :5] if kind == "columns" else x.repeat(5, 1)[:5],
}
"""What each kind of layer computes, without a module."""


def outputs(spec: list[Any], x: Tensor, name: str) -> list[Tensor]:
    """The outputs of all calls of one module."""
    return [call.y for call in trace(spec, x) if call.name == name]


# Conditions that all contracts of this lesson share.


def ran_once(seen: Seen, callers_hooks: int) -> None:
    """`model(x)` ran exactly once, and the hooks of the caller fired `callers_hooks` times."""
    expect(seen["runs"]).equals(1)
    if seen["callers_hooks_fired"].value != callers_hooks:
        expect(seen["callers_hooks_fired"]).fail(
            f"hooks that were on the model before should have fired {callers_hooks} times in one `model(x)`, "
            f"and fired {seen['callers_hooks_fired'].value} times"
        )


def without_graph(seen: Seen) -> None:
    """A tensor that does not require grad; any other value is the business of another check."""
    if getattr(seen.value, "requires_grad", False):
        expect(seen).fail("it still requires grad; detach it")


LATE_BINDING = (
    "All your hooks write under one name: they read the loop variable when they run, and by then it has its last "
    "value. Bind it with a default argument: `def hook(module, args, output, name=name):`."
)


@exercise(
    "05-capture-activation",
    points=1,
    title="The output of one layer",
    hints=(
        "`model.get_submodule(name)` finds the module. Register a forward hook on it and then call `model(x)`.",
        "The hook stores `output.detach().clone()`. Without the clone, a later in-place layer rewrites it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    cases=(
        {"mode": "train", "inner": "block", "dtype": torch.float32},
        {"mode": "eval", "inner": "sequential", "dtype": torch.float64},
        {"mode": "frozen", "inner": "block", "dtype": torch.float32},
    ),
)
class TestCaptureActivation:
    """Write `capture_activation(model, name, x)`. `model` is an `nn.Module`, and `name` is the name of one of its
    submodules, for example `"stem.0"`. Run `model(x)` exactly once, to its end, and return the output of that
    submodule as it left the submodule. In this run the submodule is called once, and its output is a tensor.

    The result has the shape and dtype of that output. It does not require grad, and it is a copy: a later layer that
    works in place does not change it.

    The model stays as it was. Run it in the mode in which it is: each module keeps its mode (training or eval). The
    parameters and their `.grad` stay. Hooks that were there before stay and fire as usual. No hook of yours is left,
    even when the model raises an exception; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_activation(model, "1", x)` returns `tensor([[0., 2.]])`.
    """

    def draw(rng, mode, inner, dtype):
        stem, body, target, act, head = rng.names(5)
        kept, relu = conv(rng, dtype=dtype), ["relu", True]
        inside = {
            "block": block(rng, [target, act], {target: kept, act: relu}),
            "sequential": ["sequential", [kept, relu]],
        }[inner]
        norm = ["norm", rng.tensor(2, low=0.5, dtype=dtype), rng.tensor(2, low=-1, high=1, dtype=dtype)]
        children = {stem: ["sequential", [conv(rng, dtype=dtype), norm]], body: inside, head: conv(rng, dtype=dtype)}
        return {
            "spec": block(rng, [stem, body, head], children),
            "name": f"{body}.{target}" if inner == "block" else f"{body}.0",
            "x": rng.tensor(2, 2, 4, 4, dtype=dtype),
            "mode": mode,
        }

    def alive(spec, name, x, mode):
        call = called(spec, name, x, mode)
        _, weight, bias = leaf(spec, name)
        other_mode = called(spec, name, x, "eval" if mode == "train" else "train").y
        skipped = FUNCTIONS["conv"](x, weight, bias)
        return apart(call.x, call.y, call.y.relu(), other_mode, skipped)

    def probe(student, spec, name, x, mode):
        def model_in_mode(description):
            model = build(description).train(mode != "eval")
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d) and mode == "frozen":
                    module.eval()
            return model

        witness = Witness(model_in_mode(spec), name)
        before = x.clone()
        seen = {"result": student.capture_activation(witness.model, name, x), **witness.report()}
        seen["x_kept"] = torch.equal(x, before)
        return seen | when_it_raises(
            lambda: model_in_mode(spec), lambda model: student.capture_activation(model, name, x)
        )

    mistakes = (
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x, mode: close(seen["result"], called(spec, name, x, mode).y.relu()),
            "You stored a reference to the output, and the in-place ReLU behind the layer rewrote it. "
            "Store a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "stored-the-input", lambda seen, spec, name, x, mode: close(seen["result"], called(spec, name, x, mode).x)
        ),
        Mistake(
            "skipped-the-model",
            lambda seen, spec, name, x: close(seen["result"], FUNCTIONS["conv"](x, *leaf(spec, name)[1:])),
            "You called the submodule on `x` itself. In the model, other layers come before it: call `model(x)`, and "
            "let a hook on the submodule record what it makes of its real input.",
        ),
        *HOOK_MISTAKES,
        Mistake(
            "changed-the-mode",
            lambda seen, spec, name, x, mode: (
                seen["modes_kept"].value is False
                or close(seen["result"], called(spec, name, x, "eval" if mode == "train" else "train").y)
            ),
            "You switched the model to another mode, with `eval()` or `train()`. BatchNorm and Dropout then compute "
            "something else. Run the model in the mode in which you got it, and leave it so.",
        ),
    )

    def test_the_output_of_the_layer_is_returned(seen, spec, name, x, mode):
        expect(seen["result"]).close_to(called(spec, name, x, mode).y, detached=False)

    def test_the_result_has_no_graph(seen):
        without_graph(seen["result"])

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of x changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def called(spec: list[Any], name: str, x: Tensor, mode: str) -> Call:
    """The one call of a module."""
    (call,) = [call for call in trace(spec, x, batch_statistics=mode == "train") if call.name == name]
    return call


def leaf(spec: list[Any], name: str) -> list[Any]:
    """The spec of a submodule."""
    return resolve(spec, name)[0]


@exercise(
    "05-capture-many",
    points=2,
    title="The outputs of several layers in one run",
    hints=(
        "Register one hook for each name before you run the model. All of them write into the same dict.",
        "Each hook must know its own name. Bind it when you define the hook: `def hook(module, args, output, "
        "name=name):`, or use `functools.partial`.",
        "A dict keeps the order in which its keys were first written. Write a key only when its hook fires.",
    ),
    cases=({"named": 3}, {"named": 4}, {"named": 4}),
)
class TestCaptureMany:
    """Write `capture_many(model, names, x)`. `names` is a list of names of submodules of `model`, in any order. Run
    `model(x)` exactly once, to its end. Return a dict that maps each name to the output of that submodule, as it left
    the submodule. The keys stand in the order in which the submodules ran.

    In this run each named submodule is called exactly once, its output is a tensor, and none of them contains another.

    The values do not require grad. They are copies: a later layer that works in place does not change them. Each
    module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there before
    stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception comes
    through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_many(model, ["1", "0"], x)` returns `{"0": tensor([[-1., 2.]]), "1": tensor([[0., 2.]])}`, with the keys in
    this order.
    """

    def draw(rng, named):
        stem, body, one, two, act, last, pool = rng.names(7)
        relu = ["relu", True]
        inside = block(rng, [one, act, two], {one: conv(rng), act: relu, two: conv(rng)})
        children = {stem: ["sequential", [conv(rng), relu]], body: inside, pool: ["pool", 2], last: conv(rng)}
        run = [f"{stem}.0", f"{body}.{one}", f"{body}.{two}", last][:named]
        return {
            "spec": block(rng, [stem, body, pool, last], children),
            "names": rng.shuffled(run),
            "x": rng.tensor(1, 2, 4, 4),
        }

    def alive(spec, names, x):
        expected = captured(spec, names, x)
        run, defined = list(expected), defined_order(spec, names)
        orders_differ = run != defined and names not in (run, defined) and names[-1] != run[-1]
        return orders_differ and apart(*expected.values(), *overwritten(spec, names, x).values())

    def probe(student, spec, names, x):
        witness = Witness(build(spec), names[0])
        seen = {"result": student.capture_many(witness.model, list(names), x), **witness.report()}
        return seen | when_it_raises(lambda: build(spec), lambda model: student.capture_many(model, list(names), x))

    mistakes = (
        Mistake(
            "late-binding",
            lambda seen, spec: (
                len(filled_keys(seen["result"])) == 1 and filled_keys(seen["result"])[0] in all_names(spec)
            ),
            LATE_BINDING,
        ),
        Mistake(
            "repr-keys",
            lambda seen, names: (
                any("Conv2d" in str(key) for key in seen["result"].keys)
                or (set(seen["result"].keys) == set(names) and share_a_value(seen["result"], names))
            ),
            "You used the printed form of a module, or its class, as its key. Layers with equal settings print alike, "
            "so one overwrote the other. Only the name is unique: use it as the key.",
        ),
        *HOOK_MISTAKES,
        Mistake(
            "one-run-per-name",
            lambda seen, names: seen["runs"].value == len(names),
            "You ran the model once for each name. Register all hooks first, and run it a single time: every hook "
            "writes its own entry.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, names, x: close(seen["result"], captured(spec, names, x) | overwritten(spec, names, x)),
        ),
        Mistake(
            "given-order",
            lambda seen, spec, names, x: (
                seen["result"].keys == names
                and close(seen["result"], captured(spec, names, x))
                and seen["runs"].value == 1
            ),
            "The outputs are right, but the keys stand in the order of `names`. The order asked for is that of "
            "execution: write a key into the dict only when its hook fires.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, names, x: (
                seen["result"].keys == defined_order(spec, names) and close(seen["result"], captured(spec, names, x))
            ),
        ),
    )

    def test_every_named_output_is_returned(seen, spec, names, x):
        expected = captured(spec, names, x)
        expect(seen["result"]).has_keys(*expected)
        for name, value in expected.items():
            expect(seen["result"][name]).close_to(value, detached=False)

    def test_the_keys_are_in_order_of_execution(seen, spec, names, x):
        expect(seen["result"]).has_keys(*captured(spec, names, x), ordered=True)

    def test_the_values_have_no_graph(seen, names):
        for name in names:
            without_graph(seen["result"][name])

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def captured(spec: list[Any], names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Name to output, in the order of execution."""
    return {call.name: call.y for call in trace(spec, x) if call.name in names}


def overwritten(spec: list[Any], names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Name to what the in-place ReLU behind the module made of its output, for those that have one behind them."""
    layers = [call for call in trace(spec, x) if call.kind not in ("block", "sequential")]
    pairs = pairwise(layers)
    return {call.name: behind.y for call, behind in pairs if call.name in names and behind.kind == "relu"}


def all_names(spec: list[Any]) -> list[str]:
    """The names of all modules, in the order of `named_modules()`."""
    return module_names(spec)


def defined_order(spec: list[Any], names: Sequence[str]) -> list[str]:
    """These names in the order of `named_modules()`."""
    return [name for name in all_names(spec) if name in names]


def filled_keys(seen: Seen) -> list[Any]:
    """The keys of a dict under which there is more than None."""
    return [key for key in seen.keys if seen[key].value is not None]


def share_a_value(seen: Seen, names: list[str]) -> bool:
    """Whether the same tensor is under every name."""
    return all(close(seen[name], seen[names[0]].tensor) for name in names)


@exercise(
    "05-capture-calls",
    points=2,
    title="Every call of one module",
    hints=(
        "One module can run several times in one forward pass. A variable, or a dict entry, holds only one output.",
        "The hook fires once for each call, in order: append a copy to a list.",
        "Make the list inside your function. A list at the top of the cell, or as a default argument, is one list for "
        "all calls of your function.",
    ),
    cases=({"rounds": 2}, {"rounds": 3}, {"rounds": 2}),
)
class TestCaptureCalls:
    """Write `capture_calls(model, name, x)`. `name` is the name of a submodule of `model`. Run `model(x)` exactly once,
    to its end. Return a list with the output of every call of that submodule in this run, in the order of the calls.

    A model may call the same module object several times, and may have it under a second name as well. Every call
    counts, whichever name the model used. Each output is a tensor. For a submodule that is never called, the list is
    empty.

    The entries do not require grad. They are copies: a later layer that works in place does not change them. Each call
    of your function makes a new list, and nothing that happens later changes a list that you returned before.

    Each module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there
    before stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception
    comes through.

    **Example.** With `act = nn.ReLU()`, `model = nn.Sequential(nn.Flatten(), act, nn.Flatten(), act)` and
    `x = torch.tensor([[-1., 2.]])`, `capture_calls(model, "1", x)` returns `[tensor([[0., 2.]]), tensor([[0., 2.]])]`.
    """

    def draw(rng, rounds):
        act, again, scale, unused, *layers = rng.names(4 + rounds)
        children = {name: linear(rng, 3, 3) for name in (unused, *layers)}
        children |= {act: ["relu", False], again: ["same", act], scale: ["scale", rng.choice((0.5, 2.0, 3.0))]}
        order = [step for index, layer in enumerate(layers) for step in (layer, (act, again)[index % 2], scale)]
        return {
            "spec": block(rng, order, children),
            "name": act,
            "alike": ["block", {act: ["relu", False]}, [act, act]],
            "unused": unused,
            "x": rng.tensor(2, 3),
            "later": rng.tensor(2, 3),
        }

    def alive(spec, name, x, later):
        calls = outputs(spec, x, name)
        return apart(*calls, *scaled(spec, name, x), *outputs(spec, later, name))

    def probe(student, spec, name, alike, unused, x, later):
        witness = Witness(build(spec), name)
        first = student.capture_calls(witness.model, name, x)
        seen = {"first": copied(first), **witness.report()}
        seen["later"] = copied(student.capture_calls(build(spec), name, later))
        witness.model(later)
        seen["first_afterwards"] = copied(first)
        seen["alike"] = copied(student.capture_calls(build(alike), name, x))
        try:
            seen["unused"] = copied(student.capture_calls(build(spec), unused, x))
        except (KeyError, IndexError, AttributeError, TypeError, ValueError, NameError) as error:
            seen["unused"] = f"{type(error).__name__}: {error}"[:200]
        return seen | when_it_raises(lambda: build(spec), lambda model: student.capture_calls(model, name, x))

    mistakes = (
        Mistake(
            "only-last-call",
            lambda seen, spec, name, x: any(
                close(seen["first"], last) for last in (outputs(spec, x, name)[-1:], outputs(spec, x, name)[-1])
            ),
        ),
        Mistake(
            "global-store",
            lambda seen, spec, name, x: (
                seen["hooks_left"].value == 0
                and close(seen["first"], outputs(spec, x, name))
                and (
                    len(seen["first_afterwards"]) != len(seen["first"])
                    or len(seen["later"]) > len(seen["first"])
                    or not close(seen["first_afterwards"], outputs(spec, x, name))
                )
            ),
            "Your list outlives the call: the second call of your function found the entries of the first. Make a new "
            "list inside the function.",
        ),
        Mistake("stored-alias", lambda seen, spec, name, x: close(seen["first"], scaled(spec, name, x))),
        Mistake(
            "stored-the-input",
            lambda seen, spec, name, x: close(seen["first"], [call.x for call in trace(spec, x) if call.name == name]),
        ),
        Mistake(
            "registered-twice",
            lambda seen, spec, name, x: close(seen["first"], [y for y in outputs(spec, x, name) for _ in range(2)]),
            "Every call is there twice, because your hook was registered twice on the same module. It has two names, "
            "but it is one object: register once, on `model.get_submodule(name)`.",
        ),
        *HOOK_MISTAKES,
    )

    def test_every_call_is_captured_in_order(seen, spec, name, x):
        expected = outputs(spec, x, name)
        expect(seen["first"]).has_length(len(expected), "outputs")
        for entry, value in zip(seen["first"], expected):
            expect(entry).close_to(value, detached=False)

    def test_the_entries_have_no_graph(seen):
        for entry in seen["first"]:
            without_graph(entry)

    def test_calls_with_equal_outputs_count_too(seen, name, alike, x):
        expected = outputs(alike, x, name)
        expect(seen["alike"]).has_length(len(expected), "outputs")
        for entry, value in zip(seen["alike"], expected):
            expect(entry).close_to(value, detached=False)

    def test_each_result_is_a_list_of_its_own(seen, spec, name, x, later):
        for key, values in (("later", outputs(spec, later, name)), ("first_afterwards", outputs(spec, x, name))):
            expect(seen[key]).has_length(len(values), "outputs")
            for entry, value in zip(seen[key], values):
                expect(entry).close_to(value, detached=False)

    def test_a_module_that_is_never_called_gives_an_empty_list(seen):
        if type(seen["unused"].value) is str:
            expect(seen["unused"]).fail(f"your function raised {seen['unused'].value}")
        expect(seen["unused"]).has_length(0, "outputs")

    def test_the_model_runs_once(seen, spec, name, x):
        ran_once(seen, callers_hooks=1 + len(outputs(spec, x, name)))

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def copied(value: Any) -> Any:
    """A list as it is at this moment; any other value as it is."""
    return list(value) if isinstance(value, list) else value


def scaled(spec: list[Any], name: str, x: Tensor) -> list[Tensor]:
    """What the in-place layer behind the module makes of each output."""
    calls = trace(spec, x)
    return [behind.y for call, behind in pairwise(calls) if call.name == name]


@exercise(
    "05-leaf-shapes",
    points=2,
    title="The output shape of every layer",
    hints=(
        "A module without children is one for which `list(module.children())` is empty.",
        "`model.named_modules()` yields the modules of all levels with their full names, each module once, under its "
        "first name.",
        "Write into the dict when the hook fires. A key that is there already keeps its place when its value is "
        "written again.",
    ),
)
class TestLeafShapes:
    """Write `leaf_shapes(model, x)`. Run `model(x)` exactly once, to its end. Return a dict with one entry for every
    module without children that is called in this run. The key is the name of the module in `model.named_modules()`,
    which is the first one if it has several. The value is the shape of its output, as a tuple of ints.

    - The keys stand in the order of first calls.
    - A module that is called more than once shows the shape of its last call.
    - A module that is not called does not appear.
    - All outputs are tensors. The model may have custom blocks, `nn.Sequential` and `nn.ModuleList`, nested.

    Each module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there
    before stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception
    comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.ReLU()))` and
    `x = torch.ones(1, 2, 3)` the result is `{"0": (1, 6), "1.0": (1, 4), "1.1": (1, 4)}`.
    """

    def draw(rng):
        stem, body, layers, pool, again, flat, head, unused, inner, act = rng.names(10)
        n, classes = rng.integer(1, 3), rng.integer(3, 6)
        relu = ["relu", True]
        children = {
            stem: ["sequential", [conv(rng), ["sequential", [relu, conv(rng)]]]],
            body: block(rng, [inner, act], {inner: conv(rng), act: relu}),
            layers: ["list", [conv(rng), conv(rng)]],
            pool: ["pool", 2],
            again: ["same", pool],
            flat: ["flatten"],
            head: linear(rng, 8, classes),
            unused: linear(rng, 2, 2),
        }
        order = [stem, pool, body, f"{layers}.1", f"{layers}.0", again, flat, head]
        return {
            "spec": block(rng, order, children),
            "unused": unused,
            "deep": [f"{body}.{inner}", f"{body}.{act}", f"{layers}.1", f"{layers}.0"],
            "pool": pool,
            "x": rng.tensor(n, 2, 8, 8),
        }

    def alive(spec, x):
        shapes = shapes_of_leaves(spec, x)
        return list(shapes) != defined_order(spec, list(shapes))

    def probe(student, spec, unused, deep, pool, x):
        witness = Witness(build(spec), deep[0], pool)
        result = student.leaf_shapes(witness.model, x)
        if isinstance(result, dict):
            result = {name: plain_tuple(shape) for name, shape in result.items()}
        seen = {"result": result, **witness.report()}
        return seen | when_it_raises(lambda: build(spec), lambda model: student.leaf_shapes(model, x))

    mistakes = (
        Mistake(
            "only-sequential-recursed",
            lambda seen, spec, deep, x: (
                len(seen["result"]) > 1
                and set(seen["result"].keys) <= set(shapes_of_leaves(spec, x)) | containers(spec)
                and any(not set(group) & set(seen["result"].keys) for group in (deep[:2], deep[2:]))
            ),
            "Layers inside a custom block or a `ModuleList` are missing: you looked only at the top level, or went "
            "down only into some kinds of container. `model.named_modules()` yields the modules of all levels.",
        ),
        Mistake(
            "containers-included",
            lambda seen, spec, x: (
                set(shapes_of_leaves(spec, x)) < set(seen["result"].keys)
                and set(seen["result"].keys) - set(shapes_of_leaves(spec, x)) <= containers(spec)
            ),
            "Your dict also lists containers: modules that have children of their own. "
            "Register only on modules whose `children()` are empty.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, x: seen["result"].keys == defined_order(spec, list(shapes_of_leaves(spec, x))),
        ),
        Mistake("late-binding", lambda seen: len(filled_keys(seen["result"])) == 1, LATE_BINDING),
        Mistake(
            "uncalled-included",
            lambda seen, unused: unused in seen["result"].keys and len(filled_keys(seen["result"])) > 1,
            "Your dict lists a module that the model never calls. Make an entry only when the hook fires.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, spec, pool, x: (
                seen["result"].value == {**shapes_of_leaves(spec, x), pool: tuple(outputs(spec, x, pool)[0].shape)}
            ),
            "A module that runs more than once shows the shape of its last call here, and yours shows the first. "
            "Write the entry again each time the hook fires.",
        ),
        *HOOK_MISTAKES,
    )

    def test_every_layer_has_its_shape(seen, spec, x):
        expected = shapes_of_leaves(spec, x)
        expect(seen["result"]).has_keys(*expected)
        for name, shape in expected.items():
            expect(seen["result"][name]).equals(shape)

    def test_the_keys_are_in_order_of_first_calls(seen, spec, x):
        expect(seen["result"]).has_keys(*shapes_of_leaves(spec, x), ordered=True)

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=4)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def shapes_of_leaves(spec: list[Any], x: Tensor) -> dict[str, tuple[int, ...]]:
    """Name to shape: keys by first call, the shape of the last."""
    calls = [call for call in trace(spec, x) if call.kind not in ("block", "sequential")]
    return {call.name: tuple(call.y.shape) for call in calls}


def containers(spec: list[Any]) -> set[str]:
    """The names of the modules with children."""
    names = set(all_names(spec))
    return {
        name for name in names if any(other != name and other.startswith(f"{name}." if name else "") for other in names)
    }


SMALL = 20_000
"""A file with a few numbers has no more bytes than this."""


@exercise(
    "05-save-activation",
    points=2,
    title="Save an activation to a file",
    hints=(
        "A view knows only where to look in the storage of another tensor, and `torch.save` writes that whole storage. "
        "`clone()` makes a tensor with a storage of its own.",
        "Only the first call counts. Keep what the hook stored first, and let later calls change nothing.",
        "Detach and clone inside the hook, before anything can rewrite the output. Write the file there or afterwards.",
    ),
    cases=({"view": "columns"}, {"view": "rows"}, {"view": "columns"}),
)
class TestSaveActivation:
    """Write `save_activation(model, name, x, path)`. `name` is the name of a submodule of `model`, and `path` is a
    `str` or a `pathlib.Path`. Run `model(x)` exactly once, to its end. Write the output of the *first* call of that
    submodule to the file `path` with `torch.save`, and return the shape of that output as a tuple of ints.

    - The output is saved as it left the submodule: a later layer that works in place does not change it.
    - The file holds one plain CPU tensor that does not require grad.
    - The file holds the values of this tensor and no others. The output may be a small view into a large tensor.
    - A file that is already there is overwritten.

    The submodule is called at least once, and its outputs are tensors. Each module keeps its mode (training or eval),
    and the parameters and their `.grad` stay. Hooks that were there before stay and fire as usual. No hook of yours is
    left, even when the model raises an exception; the exception comes through. Whether a file is written in that case
    is up to you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `save_activation(model, "1", x, "relu.pt")` returns `(1, 2)`. Then `torch.load("relu.pt")` gives
    `tensor([[0., 2.]])`.
    """

    def draw(rng, view):
        body, layer, act, head, window = rng.names(5)
        order = [layer, act] * rng.integer(2, 3)
        inside = ["block", {act: ["relu", True], layer: linear(rng, 3, 3)}, order]
        return {
            "spec": block(rng, [body, head], {body: inside, head: linear(rng, 3, 2)}),
            "name": f"{body}.{layer}",
            "wide": ["block", {window: ["window", view], layer: linear(rng, 4, 4, torch.float64)}, [layer, window]],
            "window": window,
            "x": rng.tensor(2, 3),
            "image": rng.tensor(4, 4, dtype=torch.float64),
            "old": rng.tensor(2, 3),
        }

    def alive(spec, name, x, old):
        first, *_, last = outputs(spec, x, name)
        return apart(first, last, first.relu(), old)

    def probe(student, spec, name, wide, window, x, image, old):
        seen = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "activation"
            torch.save(old, path)
            witness = Witness(build(spec), name)
            seen["shape"] = plain_tuple(student.save_activation(witness.model, name, x, path))
            seen |= {"file": content(path), **witness.report()}
            path = Path(folder) / "view.of.50000"
            seen["view_shape"] = plain_tuple(student.save_activation(build(wide), window, image, str(path)))
            seen |= {"view_file": content(path), "view_bytes": path.stat().st_size if path.exists() else None}
            failed = Path(folder) / "failed.pt"
            seen |= when_it_raises(lambda: build(spec), lambda model: student.save_activation(model, name, x, failed))
        return seen

    mistakes = (
        Mistake(
            "saved-with-grad",
            lambda seen: getattr(seen["file"]["tensor"].value, "requires_grad", False),
            "The tensor in the file requires grad: whoever loads it would train on it by accident. "
            "Detach before saving.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x: (
                saved_without_grad(seen) and close(seen["file"]["tensor"], outputs(spec, x, name)[0].relu())
            ),
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, name, x: (
                saved_without_grad(seen) and close(seen["file"]["tensor"], outputs(spec, x, name)[-1])
            ),
            "The module ran more than once, and each call overwrote what you had saved. The task asks for the output "
            "of its first call.",
        ),
        Mistake(
            "saved-the-whole-storage",
            lambda seen, spec, name, x: (
                saved_without_grad(seen)
                and close(seen["file"]["tensor"], outputs(spec, x, name)[0])
                and seen["view_bytes"].value >= SMALL
            ),
            "The output was a small view into a large tensor, and `torch.save` wrote the whole storage behind the "
            "view. `clone()` makes a tensor that holds its own values only; `contiguous()` need not.",
        ),
        Mistake(
            "kept-the-old-file",
            lambda seen, old: close(seen["file"]["tensor"], old) and seen["view_file"]["tensor"].tensor is not None,
            "A file was already there, and you kept it. Find out in another way whether this is the first call, and "
            "overwrite old files.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_file_holds_the_first_output(seen, spec, name, x):
        readable(seen["file"])
        expect(seen["file"]["tensor"]).close_to(outputs(spec, x, name)[0], detached=False)

    def test_the_saved_tensor_does_not_require_grad(seen):
        for file in ("file", "view_file"):
            without_graph(seen[file]["tensor"])

    def test_the_file_holds_its_own_values_only(seen, wide, window, image):
        readable(seen["view_file"])
        expect(seen["view_file"]["tensor"]).close_to(outputs(wide, image, window)[0], detached=False)
        if seen["view_bytes"].value >= SMALL:
            numbers = outputs(wide, image, window)[0].numel()
            expect(seen["view_bytes"]).fail(f"the file of {numbers} numbers has {seen['view_bytes'].value} bytes")

    def test_the_shape_is_returned(seen, spec, name, x, wide, window, image):
        expect(seen["shape"]).equals(tuple(outputs(spec, x, name)[0].shape))
        expect(seen["view_shape"]).equals(tuple(outputs(wide, image, window)[0].shape))

    def test_the_model_runs_once(seen, spec, name, x):
        ran_once(seen, callers_hooks=1 + len(outputs(spec, x, name)))

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def content(path: Path) -> dict[str, Any]:
    """What `torch.load` reads from a file, or why it does not."""
    if not path.exists():
        return {"tensor": None, "error": "there is no file"}
    try:
        tensor = torch.load(path, weights_only=True)
        plain = not isinstance(tensor, nn.Parameter)
        return {"tensor": tensor, "error": "" if plain else "the file holds an `nn.Parameter`, not a plain tensor"}
    except Exception as error:
        return {"tensor": None, "error": f"`torch.load(path, weights_only=True)` raised {type(error).__name__}"}


def readable(seen: Seen) -> None:
    """The file is there and `torch.load` reads it."""
    if seen["error"].value:
        expect(seen["error"]).fail(seen["error"].value)


def saved_without_grad(seen: Seen) -> bool:
    """Whether the file holds a tensor that does not require grad."""
    return getattr(seen["file"]["tensor"].value, "requires_grad", True) is False


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
        expect(seen["hooks_before"]).equals(0)
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
