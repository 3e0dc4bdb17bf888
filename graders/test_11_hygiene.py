"""Lesson 11. Hygiene: memory, handles, copies, NaN."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from graders.box.model_specs import module_names, resolve
from graders.box.probing import Boom, expecting_boom, module_hooks, shares_storage, tensor_hooks
from graders.core.conditions import HOOK_MISTAKES, model_unchanged, no_hook_left
from graders.core.draws import Rng
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, apart, close, expect

# Models. A draw describes a model as data, a tree of [kind, details...]. The probe builds modules from it; the
# judge computes every call by direct composition of functions, without a module and without a hook.

OPERATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "relu_": torch.relu_,
    "log": torch.log,
    "exp": torch.exp,
    "divide": torch.div,
    "divide_": lambda x, by: x.div_(by),
    "clean": lambda x: torch.nan_to_num(x, nan=0.5, posinf=1.0, neginf=-1.0),
    "mix": lambda x, start, share: x + share * start,
}
"""What a layer without parameters computes. A name that ends in `_` works in place."""


class Layer(nn.Module):
    """One of the operations; the number by which it divides, if it does, is a buffer."""

    def __init__(self, operation: str, *by: Tensor) -> None:
        """`by` is empty or one tensor."""
        super().__init__()
        self.operation = operation
        if by:
            self.register_buffer("by", by[0].clone())

    def forward(self, x: Tensor, *more: Any) -> Tensor:
        """Apply the operation."""
        return OPERATIONS[self.operation](x, *self.buffers(), *more)


class Chain(nn.Module):
    """Calls its children one after the other, in an order that need not be that of definition."""

    def __init__(self, children: dict[str, nn.Module], order: list[str], factor: float) -> None:
        """`order` holds the names in the order of the calls; the result is multiplied by `factor`."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.order, self.factor, self.runs = order, factor, 0

    def forward(self, x: Tensor) -> Tensor:
        """A layer that mixes gets the chain's own input, too, and its share as a number."""
        self.runs += 1
        start = x
        for name in self.order:
            child = self.get_submodule(name)
            x = child(x, start, 0.5) if getattr(child, "operation", "") == "mix" else child(x)
        return x if self.factor == 1 else x * self.factor


class ModelError(Boom, RuntimeError, ValueError, StopIteration):
    """Of several types at once: an answer that stops the pass with one of them must not swallow the model's own."""


class Fails(nn.Module):
    """Raises in the middle of a forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        """Raise."""
        raise ModelError


def build(spec: list[Any]) -> nn.Module:
    """The module that a spec describes."""
    kind, *rest = spec
    if kind == "chain":
        made: dict[str, nn.Module] = {}
        for name, child in rest[0].items():
            made[name] = made[child[1]] if child[0] == "same" else build(child)
        return Chain(made, *rest[1:])
    if kind == "list":
        return nn.ModuleList(map(build, rest[0]))
    if kind == "layer":
        return Layer(*rest)
    weight, bias = rest
    layer: nn.Module = nn.BatchNorm1d(len(weight)) if kind == "norm" else nn.Linear(weight.shape[1], weight.shape[0])
    layer.to(weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def failing(model: nn.Module, where: str) -> nn.Module:
    """The same model, which now raises at its end or at its start."""
    model.add_module("fails", Fails())
    model.order = ["fails", *model.order] if where == "start" else [*model.order, "fails"]
    return model


class Witness:
    """Looks at a model before and after a call: hooks, modes, parameters, and how often it ran.

    It also plays the caller, who has a forward hook on every module named, gradients from an earlier pass, and a
    layer without parameters that is in the other mode than its model.
    """

    def __init__(self, model: nn.Module, *names: str) -> None:
        """Register the caller's hooks and write down the state of the model."""
        self.model, self.fired = model, []
        for name in names:
            model.get_submodule(name).register_forward_hook(lambda module, args, output: self.fired.append(1))
        for parameter in list(model.parameters())[::2]:
            parameter.grad = parameter.detach().clone()
        next(module for module in model.modules() if isinstance(module, Layer)).train(not model.training)
        self.hooks = module_hooks(model)
        self.modes = [module.training for module in model.modules()]
        self.parameters = [p.detach().clone() for p in model.parameters()]
        self.grads = copies_of_grads(model)

    def report(self) -> dict[str, Any]:
        """What changed."""
        return {
            "runs": self.model.runs,
            "callers_hooks_fired": len(self.fired),
            "hooks_left": module_hooks(self.model) - self.hooks,
            "modes_kept": [module.training for module in self.model.modules()] == self.modes,
            "parameters_kept": all(map(same_values, self.model.parameters(), self.parameters)),
            "grads_kept": same_grads(copies_of_grads(self.model), self.grads),
        }


def copies_of_grads(model: nn.Module) -> list[Tensor | None]:
    """The gradients of the parameters, as they are now."""
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def same_grads(ones: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Whether two lists of gradients have the same values, and None in the same places."""
    return len(ones) == len(others) and all(
        one is other if one is None or other is None else same_values(one, other) for one, other in zip(ones, others)
    )


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, where NaN equals NaN."""
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def when_it_raises(make: Callable[[], nn.Module], call: Callable[[nn.Module], Any]) -> dict[str, Any]:
    """What happens when `call` gets a model that raises: at its end, where hooks have fired, and at its start."""
    outcomes, left = [], []
    for where in ("end", "start"):
        witness, seen = Witness(failing(make(), where), ""), {}
        with expecting_boom(seen):
            call(witness.model)
        outcomes.append(seen["exception"])
        left.append(witness.report()["hooks_left"])
    wrong = [outcome for outcome in outcomes if outcome != "propagated"]
    return {"exception": [*wrong, "propagated"][0], "hooks_left_after_exception": max(left, key=abs)}


# Hooks of the caller, as data: [name of the module, kind, options, label].

REGISTER = {
    "pre": "register_forward_pre_hook",
    "forward": "register_forward_hook",
    "backward-pre": "register_full_backward_pre_hook",
    "backward": "register_full_backward_hook",
    "legacy": "register_backward_hook",
}

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def listener(label: str, log: list[str], count: int) -> Callable[..., None]:
    """A hook of any kind that notes its label when it gets `count` arguments, and changes nothing."""

    def hook(*args: Any) -> None:
        if len(args) == count:
            log.append(label)

    return hook


def register(model: nn.Module, hooks: list[Any], log: list[str]) -> list[Any]:
    """Register listeners; returns their handles."""
    handles = []
    for name, kind, options, label in hooks:
        count = (2 if "pre" in kind else 3) + options.get("with_kwargs", False)
        hook = listener(label, log, count)
        handles.append(getattr(model.get_submodule(name), REGISTER[kind])(hook, **options))
    return handles


def change_values(model: nn.Module, shift: float, factor: float) -> list[Any]:
    """Two hooks on the model itself: its input plus `shift`, its output times `factor`."""
    return [
        model.register_forward_pre_hook(lambda module, args: args[0] + shift),
        model.register_forward_hook(lambda module, args, output: factor * output),
    ]


def hooks_by_kind(model: Any) -> dict[str, list[int]]:
    """For each kind of hook, how many each module has, in the order of `modules()`."""
    return {kind: [len(getattr(module, kind, None) or ()) for module in model.modules()] for kind in KINDS}


def hook_numbers(model: nn.Module) -> list[list[int]]:
    """The numbers by which torch knows the hooks of each module, kind by kind, in the order in which they fire."""
    return [list(getattr(module, kind, None) or ()) for module in model.modules() for kind in KINDS]


def forward_backward(model: nn.Module, x: Tensor) -> Tensor:
    """The model's output on x, after a backward pass through its sum."""
    output: Tensor = model(x.clone().requires_grad_())
    output.sum().backward()
    return output.detach()


# The judge's side: draws, and what must come out.


def linear(rng: Rng, inputs: int = 3, outputs: int = 3, dtype: torch.dtype = torch.float32) -> list[Any]:
    """The spec of a linear layer."""
    weight = rng.tensor(outputs, inputs, low=-1.5, high=1.5, dtype=dtype)
    return ["linear", weight, rng.tensor(outputs, low=-1, high=1, dtype=dtype)]


def chain(children: dict[str, list[Any]], order: Sequence[str], factor: float = 1.0) -> list[Any]:
    """The spec of a chain."""
    return ["chain", children, list(order), factor]


def another_order(rng: Rng, names: Sequence[str]) -> list[str]:
    """These names in another order."""
    while (found := rng.shuffled(names)) == list(names):
        pass
    return found


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, and what went in and came out."""

    name: str
    leaf: bool
    inputs: list[Tensor]
    output: Tensor

    @property
    def bad_in(self) -> bool:
        """Whether an input has an entry that is not finite."""
        return not all(bool(torch.isfinite(value).all()) for value in self.inputs)

    @property
    def bad_out(self) -> bool:
        """Whether the output has an entry that is not finite."""
        return not bool(torch.isfinite(self.output).all())


def trace(spec: list[Any], x: Tensor, *, name: str = "", batch_statistics: bool = False) -> list[Call]:
    """Every call of a module when the model of `spec` runs on `x`, in the order in which the calls end.

    Direct composition of functions; nothing is done in place.
    """
    kind, *rest = spec
    if kind != "chain":
        return [Call(name, True, [x], compute(kind, x, rest, batch_statistics))]
    calls: list[Call] = []
    y = x
    for step in rest[1]:
        child, path = resolve(spec, step)
        full = f"{name}.{path}" if name else path
        if child[:2] == ["layer", "mix"]:
            calls.append(Call(full, True, [y, x], OPERATIONS["mix"](y, x, 0.5)))
        else:
            calls += trace(child, y, name=full, batch_statistics=batch_statistics)
        y = calls[-1].output
    return [*calls, Call(name, False, [x], y * rest[2])]


def compute(kind: str, x: Tensor, rest: list[Any], batch_statistics: bool) -> Tensor:
    """What one layer makes of x."""
    if kind == "linear":
        return x @ rest[0].T + rest[1]
    if kind == "norm":
        zeros, ones = torch.zeros_like(rest[0]), torch.ones_like(rest[0])
        return F.batch_norm(x, zeros, ones, *rest, training=batch_statistics)
    return OPERATIONS[rest[0]](x.clone(), *rest[1:])


# 11-mean-activation: tensors that the graph saved are watched from outside.


class Saved:
    """Stands for one tensor that the graph saved; it lives as long as the graph needs it."""

    def __init__(self, tensor: Tensor) -> None:
        """Hold the values, in case somebody runs backward."""
        self.tensor = tensor.detach()


class SavedTensors:
    """Counts the tensors that the graph saved, and those that are still alive."""

    def __init__(self) -> None:
        """Nothing is saved yet."""
        self.refs: list[weakref.ref[Saved]] = []

    def pack(self, tensor: Tensor) -> Saved:
        """Called when the graph saves a tensor."""
        saved = Saved(tensor)
        self.refs.append(weakref.ref(saved))
        return saved

    def watching(self) -> Any:
        """The context in which saved tensors are counted."""
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda saved: saved.tensor)

    def alive(self) -> int:
        """How many are alive. Collecting garbage is slow, and done only when there might be some."""
        if any(ref() is not None for ref in self.refs):
            gc.collect()
        return sum(ref() is not None for ref in self.refs)


def graph_of(value: Any) -> list[str]:
    """The names of the first nodes of the graph behind a value, nearest first."""
    names, queue = [], [getattr(value, "grad_fn", None)]
    while queue and len(names) < 12:
        node = queue.pop(0)
        if node is not None:
            names.append(type(node).__name__)
            queue += [following for following, _ in node.next_functions]
    return names


@exercise(
    "11-mean-activation",
    points=1,
    title="A statistic that keeps no graph",
    hints=(
        "The mean of a tensor with a graph has a graph, too: one number that holds the whole forward pass. "
        "Detach first: `output.detach().mean()`.",
        "Take the mean inside the hook, while the output is as it left the module, and store nothing else: not the "
        "output, not a clone of it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    cases=(
        {"where": "inside", "dtype": torch.float32, "mode": "train"},
        {"where": "inside", "dtype": torch.float64, "mode": "eval"},
        {"where": "container", "dtype": torch.float32, "mode": "train"},
    ),
)
class TestMeanActivation:
    """Write `mean_activation(model, name, x)`. `model` is an `nn.Module`, and `name` is the name of one of its
    submodules, for example `"stem.0"`. Run `model(x)` exactly once, to its end. Return the mean over all entries of the
    output of that submodule, as the output left the submodule; a later layer may work in place. In this run the
    submodule is called once, and its output is a tensor.

    The result is a 0-dim tensor with the dtype of the output, and it does not require grad. After the call, nothing
    keeps the graph of the forward pass alive: neither the result, nor anything that you stored elsewhere, such as in a
    list or on the model.

    `x` stays as it was, and so does the model: the mode (training or eval) of each module, the parameters and their
    `.grad`. Hooks that were there before stay and fire as usual. No hook of yours is left, even when the model raises
    an exception; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `mean_activation(model, "1", x)` returns `tensor(1.)`.
    """

    def draw(rng, where, dtype, mode):
        stem, act, body, target, follower, head = rng.names(6)
        after = rng.choice((["layer", "relu_"], ["layer", "divide_", torch.full((1,), 0.25, dtype=dtype)]))
        if where == "inside":
            inside = {target: linear(rng, 4, 4, dtype), follower: after}
            children = {body: chain({key: inside[key] for key in (follower, target)}, [target, follower])}
            order = [stem, act, body, head]
        else:
            children = {body: chain({target: linear(rng, 4, 4, dtype)}, [target]), follower: after}
            order = [stem, act, body, follower, head]
        children |= {stem: linear(rng, 3, 4, dtype), act: ["layer", "tanh"], head: linear(rng, 4, 2, dtype)}
        return {
            "spec": chain({key: children[key] for key in another_order(rng, order)}, order),
            "name": f"{body}.{target}" if where == "inside" else body,
            "x": rng.tensor(5, 3, dtype=dtype),
            "mode": mode,
        }

    def alive(spec, name, x):
        return apart(*(call.output.mean() for call in trace(spec, x)[1:] if call.name in ("", name)),
                     overwritten(spec, name, x).mean(), input_of(spec, name, x).mean())  # fmt: skip

    def probe(student, spec, name, x, mode):
        def make():
            return build(spec).train(mode == "train")

        witness, saved, before = Witness(make(), "", name), SavedTensors(), x.clone()
        with saved.watching():
            result = student.mean_activation(witness.model, name, x)
        seen = {"alive": saved.alive(), "graph": graph_of(result), "result": result, **witness.report()}
        seen["x_kept"] = same_values(x, before) and not x.requires_grad
        return seen | when_it_raises(make, lambda model: student.mean_activation(model, name, x))

    mistakes = (
        Mistake(
            "graph-kept-alive",
            lambda seen: (
                seen["result"].value.requires_grad
                and seen["alive"].value > 0
                and "CloneBackward0" not in seen["graph"].value
            ),
            "Your mean still has its graph, and the graph holds the tensors that the forward pass saved. `cpu()` does "
            "not help: on the CPU it is the same tensor. Detach before you take the mean: `output.detach().mean()`.",
        ),
        Mistake(
            "clone-keeps-graph",
            lambda seen: (
                seen["result"].value.requires_grad
                and seen["alive"].value > 0
                and "CloneBackward0" in seen["graph"].value
            ),
            "`clone()` copies the values, but the copy is a part of the graph like the original and keeps the graph "
            "alive. `clone()` and `cpu()` do not detach: write `output.detach()`.",
        ),
        Mistake(
            "stored-the-output",
            lambda seen: (
                not getattr(seen["result"].value, "requires_grad", False)
                and seen["alive"].value > 0
                and seen["hooks_left"].value == 0
            ),
            "The result has no graph, but a tensor that has one is still stored somewhere: in a list, in a global "
            "variable, on the model. It keeps the whole forward pass alive. Store only the detached mean.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x: close(seen["result"], overwritten(spec, name, x).mean()),
            "You took the mean when the model was done. By then a later in-place layer had rewritten the output. "
            "Take the mean inside the hook.",
        ),
        Mistake("stored-the-input", lambda seen, spec, name, x: close(seen["result"], input_of(spec, name, x).mean())),
        Mistake(
            "number-not-tensor",
            lambda seen, spec, name, x: (
                type(seen["result"].value) is float and close(seen["result"], call_of(spec, name, x).output.mean())
            ),
            "You returned a Python number. It keeps no graph, but the task asks for a 0-dim tensor: return "
            "`output.detach().mean()`.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_mean_of_the_output_is_returned(seen, spec, name, x):
        expect(seen["result"]).close_to(call_of(spec, name, x).output.mean(), detached=False)

    def test_nothing_keeps_the_graph_alive(seen):
        if getattr(seen["result"].value, "requires_grad", False):
            expect(seen["result"]).fail("it still requires grad; detach it")
        if seen["alive"].value:
            expect(seen["alive"]).fail(
                f"after the call, {seen['alive'].value} tensors that the graph saved still exist"
            )

    def test_the_model_runs_once(seen):
        expect(seen["runs"]).equals(1)
        expect(seen["callers_hooks_fired"]).equals(2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def call_of(spec: list[Any], name: str, x: Tensor) -> Call:
    """The one call of a module."""
    (call,) = [call for call in trace(spec, x) if call.name == name]
    return call


def input_of(spec: list[Any], name: str, x: Tensor) -> Tensor:
    """What went into the module."""
    return call_of(spec, name, x).inputs[0]


def overwritten(spec: list[Any], name: str, x: Tensor) -> Tensor:
    """What the in-place layer behind the module makes of its output."""
    calls = trace(spec, x)
    return calls[[call.name for call in calls].index(name) + 1].output


# 11-remove-all-hooks and 11-clean-copy: a model full of hooks.


def some_hooks(rng: Rng, places: dict[str, str], legacy: bool) -> list[Any]:
    """Hooks of every kind at every level, two of a kind, with every option, and a few more, in random order.

    `places` holds the names of a child, a container, a module inside it, a shared module, a module that is never
    called, one of its entries, and a module deeper down. `legacy` puts a hook of the deprecated kind on the entry.
    """
    hooks: list[list[Any]] = [
        ["", "forward", {"prepend": True}],
        ["", "backward", {}],
        [places["child"], "forward", {}],
        [places["child"], "forward", {"with_kwargs": True}],
        [places["child"], "backward", {}],
        [places["container"], "pre", {"with_kwargs": True}],
        [places["container"], "backward-pre", {}],
        [places["inside"], "forward", {"always_call": True}],
        [places["inside"], "backward-pre", {"prepend": True}],
        [places["shared"], "pre", {}],
        [places["shared"], "forward", {}],
        [places["shared"], "backward", {"prepend": True}],
        [places["never"], "forward", {}],
        [places["entry"], "legacy" if legacy else "backward", {}],
        [places["deep"], "backward-pre", {}],
        [places["deep"], "backward-pre", {}],
        [places["deep"], "forward", {"with_kwargs": True, "always_call": True, "prepend": True}],
    ]
    for _ in range(rng.integer(1, 4)):
        hooks.append([rng.choice(list(places.values())), rng.choice(("pre", "forward")), {}])
    return [[*hook, f"hook {index}"] for index, hook in enumerate(rng.shuffled(hooks))]


def partly_cleared(rows: Sequence[Sequence[int]], left: Sequence[Sequence[int]]) -> bool:
    """Whether some of these rows of counts are empty now and all the others are as before."""
    changed = [row for row, now in zip(rows, left) if any(row) and not any(now)]
    kept = [row for row, now in zip(rows, left) if any(row) and list(row) == list(now)]
    return bool(changed and kept) and len(changed) + len(kept) == sum(map(any, rows))


def some_kinds_cleared(before: Any, left: Any) -> bool:
    """Whether some kinds of hooks are gone from all modules, and the other kinds are untouched."""
    return partly_cleared([before[kind] for kind in KINDS], [left[kind] for kind in KINDS])


def some_modules_cleared(before: Any, left: Any) -> bool:
    """Whether some modules have no hooks of any kind now, and the other modules have all of theirs."""
    return partly_cleared(list(zip(*before.values())), list(zip(*left.values())))


def all_counts(hooks: dict[str, list[int]]) -> list[int]:
    """The number of hooks of each kind in each module, as one list."""
    return [count for counts in hooks.values() for count in counts]


@exercise(
    "11-remove-all-hooks",
    points=2,
    title="Remove every hook of a model",
    hints=(
        "Torch has no public call for it. *A look inside* showed the four dicts in which a module keeps its hooks: "
        "forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        "`model.modules()` visits the model itself and every module below it, at any depth, and a shared module once.",
        "Add up the lengths of the dicts, and empty them with `clear()`. Do not put a new dict in their place: handles "
        "refer to the old one.",
    ),
    cases=({"legacy": False}, {"legacy": True}, {"legacy": False}),
)
class TestRemoveAllHooks:
    """Write `remove_all_hooks(model)`. Remove all module hooks from `model` and from every module in it, at any depth.

    These are

    - forward pre-hooks and forward hooks,
    - full backward pre-hooks and backward hooks (those of `register_full_backward_hook`, and those of the deprecated
      `register_backward_hook`),

    with whatever options they were registered (`prepend`, `with_kwargs`, `always_call`). You get no handles: use the
    private dicts that *a look inside* shows. Return how many hooks you removed, as an `int`. A module that is in the
    model under two names is one module, and its hooks count once. On a model without such hooks the function returns 0.

    Afterwards the model behaves as if these hooks had never been there, and new hooks of every kind can be registered
    as usual. Calling `remove()` on an old handle stays harmless: no exception, and no new hook disappears.

    Everything else stays: hooks on parameters, hooks of `load_state_dict`, global hooks, the values of the parameters
    and their `.grad`, and the mode of each module.

    Every call removes and counts the hooks that are there at that time.

    **Example.** For `layer = nn.ReLU()` with two forward hooks, and `model = nn.Sequential(layer, layer)` with one
    forward pre-hook, `remove_all_hooks(model)` returns 3. A second call returns 0.
    """

    def draw(rng, legacy):
        child, block, inside, act, again, bag, deep = rng.names(7)
        children = {
            child: linear(rng),
            block: chain({act: ["layer", "tanh"], inside: linear(rng), again: ["same", act]}, [act, inside, again]),
            bag: ["list", [linear(rng), chain({deep: linear(rng)}, [deep])]],
        }
        order = [child, block, f"{bag}.0", f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        return {
            "spec": chain({key: children[key] for key in rng.shuffled(list(children))}, order),
            "hooks": some_hooks(rng, places, legacy),
            "places": places,
            "x": rng.tensor(2, 3),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, x, shift, factor):
        plain, hooked = trace(spec, x)[-1].output, factor * trace(spec, x + shift)[-1].output
        return apart(plain, hooked)

    def probe(student, spec, hooks, places, x, shift, factor):
        model, log, kept = build(spec), [], []
        old = register(model, hooks, log) + change_values(model, shift, factor)
        child, deep = model.get_submodule(places["child"]), model.get_submodule(places["deep"])
        child.weight.register_hook(lambda grad: kept.append("a hook on a parameter"))
        deep.weight.register_post_accumulate_grad_hook(lambda p: kept.append("a post-accumulate-grad hook"))
        child.register_load_state_dict_post_hook(lambda module, keys: kept.append("a hook of load_state_dict"))
        deep.eval()
        witness, before = Witness(model), hooks_by_kind(model)
        with register_module_forward_hook(lambda module, args, output: kept.append("a global hook")):
            seen = {"before": before, "result": student.remove_all_hooks(model), "left": hooks_by_kind(model)}
            seen |= {key: value for key, value in witness.report().items() if key.endswith("_kept")}
            seen["output"], seen["fired"] = forward_backward(model, x), list(log)
            model.load_state_dict(model.state_dict())
        seen["others"] = sorted(set(kept))
        seen["second"] = student.remove_all_hooks(model)
        seen |= new_hooks(model, old, places["entry"], x)
        seen["there"] = sum(all_counts(hooks_by_kind(model)))
        seen["third"], seen["in the end"] = student.remove_all_hooks(model), sum(all_counts(hooks_by_kind(model)))
        return seen

    mistakes = (
        Mistake(
            "one-kind-only",
            lambda seen: some_kinds_cleared(seen["before"].value, seen["left"].value),
            "Some kinds of hooks are gone, and others are still there. A module keeps four kinds, each in its own "
            "dict: forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen: some_modules_cleared(seen["before"].value, seen["left"].value),
            "Some modules lost their hooks, and others kept theirs. `children()` yields only the next level, without "
            "the model itself. `modules()` yields the model and everything in it, at any depth.",
        ),
        Mistake(
            "counted-twice",
            lambda seen, hooks, places: (
                gone(seen) and seen["result"].value == total(hooks) + sum(hook[0] == places["shared"] for hook in hooks)
            ),
            "You counted the hooks of a shared module twice, once for each of its names. It is one module: `modules()` "
            "yields it once.",
        ),
        Mistake(
            "counted-options",
            lambda seen, hooks: gone(seen) and seen["result"].value in (total(hooks) + n for n in option_counts(hooks)),
            "You counted entries that are no hooks. Dicts such as `_forward_hooks_with_kwargs` only note the options "
            "of hooks that are in the four dicts already.",
        ),
        Mistake(
            "other-hooks-removed",
            lambda seen: gone(seen) and seen["others"].value != OTHERS,
            "You removed too much: hooks on parameters, hooks of `load_state_dict` and global hooks have to stay. "
            "Touch only the four dicts of module hooks.",
        ),
        Mistake(
            "replaced-the-dict",
            lambda seen: gone(seen) and isinstance(seen["new"].value, str),
            "You put new dicts in the place of the old ones, and now no hook can be registered any more: a handle "
            "needs a weak reference to the dict, which a plain `{}` does not allow. Empty the old dict with `clear()`.",
        ),
        Mistake(
            "no-count",
            lambda seen: gone(seen) and seen["result"].value is None,
            "The hooks are gone, but your function returned `None`. Return how many there were: add up the lengths of "
            "the dicts before you empty them.",
        ),
    )

    def test_all_module_hooks_are_removed(seen, spec, x):
        if not gone(seen):
            expect(seen["left"]).fail(f"{sum(all_counts(seen['left'].value))} module hooks are still there")
        expect(seen["output"]).close_to(trace(spec, x)[-1].output)
        expect(seen["fired"]).equals([])

    def test_the_number_of_hooks_is_returned(seen, hooks):
        expect(seen["result"]).equals(total(hooks))

    def test_a_second_call_returns_0(seen):
        expect(seen["second"]).equals(0)

    def test_hooks_that_come_later_can_be_removed_too(seen):
        if seen["in the end"].value:
            expect(seen["in the end"]).fail(
                f"after a call, new hooks were registered; another call left {seen['in the end'].value} of them"
            )
        expect(seen["third"]).equals(seen["there"].value)

    def test_other_hooks_stay(seen):
        for kind in OTHERS:
            if kind not in seen["others"].value:
                expect(seen["others"]).fail(f"{kind} no longer fires")

    def test_new_hooks_can_be_registered(seen, spec, places, x):
        all_new_hooks_fire(seen, spec, places["entry"], x)

    def test_old_handles_stay_harmless(seen):
        expect(seen["old_handles"]).equals("harmless")

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)


OTHERS = ["a global hook", "a hook of load_state_dict", "a hook on a parameter", "a post-accumulate-grad hook"]


def new_hooks(model: nn.Module, old: list[Any], entry: str, x: Tensor) -> dict[str, Any]:
    """Register a hook of each kind on each module, then remove old handles, then see which hooks fire.

    `entry` may carry a legacy backward hook, after which torch refuses a full one, as it does after `handle.remove()`.
    """
    seen: dict[str, Any] = {"old_handles": "harmless"}
    log: list[str] = []
    try:
        hooks = [
            [name, kind, {}, f"{kind} {name}"]
            for name, _ in model.named_modules()
            for kind in ("pre", "forward", "backward-pre", "backward")
            if (name, kind) != (entry, "backward")
        ]
        register(model, hooks, log)
    except Exception as error:
        return seen | {"new": f"{type(error).__name__}: {error}"}
    try:
        for handle in old:
            handle.remove()
    except Exception as error:
        seen["old_handles"] = f"{type(error).__name__}: {error}"
    forward_backward(model, x)
    return seen | {"new": sorted(log)}


def all_new_hooks_fire(seen: Seen, spec: list[Any], entry: str, x: Tensor) -> None:
    """Each new hook fired once for every call of its module."""
    if isinstance(seen["new"].value, str):
        expect(seen["new"]).fail(f"registering new hooks afterwards raised {seen['new'].value}")
    if type(seen["new"].value) is not list:
        expect(seen["new"]).fail("no new hooks could be registered")
    kinds = ("pre", "forward", "backward-pre", "backward")
    fired = Counter(seen["new"].value)
    for call in trace(spec, x):
        for kind in kinds:
            fired[f"{kind} {call.name}"] -= (call.name, kind) != (entry, "backward")
    for label, surplus in fired.items():
        if surplus:
            times = "more" if surplus > 0 else "less"
            expect(seen["new"]).fail(
                f"the new hook {label!r} (kind, module) fired {times} often than its module was called"
            )


def gone(seen: Seen) -> bool:
    """Whether no module hook is left."""
    return not any(all_counts(seen["left"].value))


def total(hooks: list[Any]) -> int:
    """The number of module hooks: the listeners, and the two hooks that change values."""
    return len(hooks) + 2


def option_counts(hooks: list[Any]) -> set[int]:
    """How many entries the dicts of options have, by what somebody may take for hooks."""
    count = {option: sum(option in hook[2] for hook in hooks) for option in ("with_kwargs", "always_call")}
    return {*count.values(), sum(count.values())} - {0}


@exercise(
    "11-clean-copy",
    points=2,
    title="A copy without hooks",
    hints=(
        "`copy.deepcopy(model)` copies everything that counts: types, parameters, buffers, modes, and what is shared "
        "stays shared. It also copies the module hooks.",
        "So strip the copy afterwards. You wrote the function for that in the last exercise.",
        "Strip the copy, not the original: the original keeps its hooks. Never run either of them.",
    ),
    cases=({"mode": "train", "legacy": False}, {"mode": "eval", "legacy": True}, {"mode": "train", "legacy": False}),
)
class TestCleanCopy:
    """Write `clean_copy(model)`. Return a deep copy of `model`, as `copy.deepcopy` makes it, but without any module
    hooks: no forward pre-hooks, forward hooks, full backward pre-hooks and backward hooks, on the model and on any
    module in it.

    The copy has the same types of modules under the same names, equal parameters and buffers, and the same modes. It
    shares no memory with the original. Parameters that do not require grad still do not. What is shared inside the
    model (a weight that two layers use, a module under two names, a buffer) is shared in the same way inside the copy.
    New hooks can be registered on the copy.

    The original stays as it was, with its modes, its parameters and their `.grad`. It keeps all its hooks, with their
    options and in their order, also those on its parameters. None of its hooks fires during the call. Running the copy
    later fires none of them either.

    **Example.** Let `model = nn.Linear(2, 1)` have a forward hook that returns `2 * output`. For
    `copied = clean_copy(model)`, `model(x)` is then twice `copied(x)`.
    """

    def draw(rng, mode, legacy):
        child, block, inside, tied, act, again, norm, bag, deep, cut = rng.names(10)
        weighted, by = linear(rng), rng.tensor(3, low=0.5)
        children = {
            child: weighted,
            block: chain({act: ["layer", "tanh"], inside: linear(rng), again: ["same", act]}, [act, inside, again]),
            tied: ["linear", weighted[1], rng.tensor(3, low=-1, high=1)],
            norm: ["norm", rng.tensor(3, low=0.5), rng.tensor(3, low=-1, high=1)],
            bag: [
                "list",
                [["layer", "divide", by], chain({deep: linear(rng), cut: ["layer", "divide", by]}, [deep, cut])],
            ],
        }
        order = [child, block, norm, f"{bag}.0", tied, f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        return {
            "spec": chain({key: children[key] for key in rng.shuffled(list(children))}, order),
            "ties": [[child, tied, "weight"], [f"{bag}.0", f"{bag}.1.{cut}", "by"]],
            "hooks": some_hooks(rng, places, legacy),
            "places": places,
            "mode": mode,
            "x": rng.tensor(4, 3),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, x, mode, shift, factor):
        plain, hooked = plain_output(spec, x, mode), factor * plain_output(spec, x + shift, mode)
        other = plain_output(spec, x, "eval" if mode == "train" else "train")
        return apart(plain, hooked, other, plain_output(spec, x + shift, mode), factor * plain)

    def probe(student, spec, ties, hooks, places, mode, x, shift, factor):
        model, log = build(spec).train(mode == "train"), []
        for first, second, name in ties:
            setattr(model.get_submodule(second), name, getattr(model.get_submodule(first), name))
        child, inside = model.get_submodule(places["child"]), model.get_submodule(places["inside"])
        inside.train(mode != "train")
        inside.bias.requires_grad_(False)
        old = register(model, hooks, log) + change_values(model, shift, factor)
        child.weight.register_hook(lambda grad: None)
        child.weight.grad = torch.ones_like(child.weight)
        grads = copies_of_grads(model)
        before, described, order = hooks_by_kind(model), description(model), hook_numbers(model)

        copied = student.clean_copy(model)
        seen = {"module": isinstance(copied, nn.Module), "hooks": {"before": before, "left": hooks_by_kind(model)}}
        seen |= {"fired_during_the_call": list(log), "original_kept": description(model) == described}
        seen["order_kept"] = hook_numbers(model) == order
        seen["original_grads_kept"] = same_grads(copies_of_grads(model), grads)
        grads = copies_of_grads(model)
        seen["parameter_hooks"] = tensor_hooks(*model.parameters())
        if not isinstance(copied, nn.Module):
            return seen
        seen |= {f"{part}_copied": same for part, same in compared(description(copied), described).items()}
        seen["hooks"]["copied"] = hooks_by_kind(copied)
        seen["shares"] = shares_anything(model, copied)
        log.clear()
        seen["output"], seen["fired_by_the_copy"] = forward_backward(copied, x), list(log)
        seen["grads_kept"] = same_grads(copies_of_grads(model), grads)
        seen["new"] = new_hooks(copied, [], places["entry"], x)["new"]
        log.clear()
        seen["original_output"], seen["fired_by_the_original"] = forward_backward(model, x), sorted(set(log))
        for handle in old:
            handle.remove()
        seen["left_after_remove"] = sum(map(sum, hooks_by_kind(model).values()))
        return seen

    mistakes = (
        Mistake(
            "hooks-copied",
            lambda seen: (
                not seen["shares"].value
                and seen["hooks"]["copied"].value == seen["hooks"]["before"].value == seen["hooks"]["left"].value
            ),
            "The copy still has the hooks. `deepcopy` copies module hooks along, and a copied function is the same "
            "function: the copy writes into the log of the original. Strip the copy.",
        ),
        Mistake(
            "cleared-original",
            lambda seen: (
                not seen["shares"].value
                and sum(all_counts(seen["hooks"]["left"].value)) < sum(all_counts(seen["hooks"]["before"].value))
            ),
            "The original has lost its hooks. Make the deep copy first, then strip the copy, and leave the original "
            "alone.",
        ),
        Mistake(
            "shared-parameters",
            lambda seen: seen["shares"].value is True,
            "The copy and the original share tensors or other state, so what changes one changes the other. "
            "`copy.copy` and `load_state_dict(..., assign=True)` share; `copy.deepcopy` does not.",
        ),
        Mistake(
            "one-kind-only",
            lambda seen: (
                not seen["shares"].value
                and some_kinds_cleared(seen["hooks"]["before"].value, seen["hooks"]["copied"].value)
            ),
            "Some kinds of hooks are still on the copy. There are four: forward pre-hooks, forward hooks, backward "
            "pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen: (
                not seen["shares"].value
                and some_modules_cleared(seen["hooks"]["before"].value, seen["hooks"]["copied"].value)
            ),
            "Some modules of the copy still have their hooks. `modules()` yields the copy itself and everything in it, "
            "at any depth; `children()` only the next level.",
        ),
        Mistake(
            "broken-ties",
            lambda seen: (
                seen["shares"].value is False
                and seen["ties_copied"].value is False
                and seen["names_copied"].value is True
            ),
            "What is shared inside the model is no longer shared inside the copy: two layers that used one weight now "
            "have a weight each. Copy the whole model with a single `deepcopy`.",
        ),
        Mistake(
            "changed-the-mode",
            lambda seen: seen["modes_copied"].value is False and seen["names_copied"].value is True,
            "A module of the copy is in another mode than its original. A copy is to be the same: leave out `eval()` "
            "and `train()`.",
        ),
    )

    def test_the_copy_has_no_hooks_and_computes_the_same(seen, spec, x, mode):
        expect(seen["module"]).is_true("your function did not return a module")
        left = sum(all_counts(seen["hooks"]["copied"].value))
        if left:
            expect(seen["hooks"]["copied"]).fail(f"the copy still has {left} module hooks")
        expect(seen["output"]).close_to(plain_output(spec, x, mode))
        expect(seen["fired_by_the_copy"]).equals([])

    def test_the_copy_has_everything_else(seen):
        expect(seen["names_copied"]).is_true("the copy has other modules, or other types, names or settings of modules")
        expect(seen["values_copied"]).is_true("a parameter or buffer of the copy has another name, value or dtype")
        expect(seen["modes_copied"]).is_true("a module of the copy is in another mode (training or eval)")
        expect(seen["requires_grad_copied"]).is_true("a parameter of the copy has another `requires_grad`")

    def test_what_is_shared_stays_shared_inside_the_copy(seen):
        expect(seen["ties_copied"]).is_true(
            "a weight, buffer or module that the model has under two names is no longer one in the copy"
        )

    def test_copy_and_original_share_nothing(seen):
        expect(seen["shares"]).is_false("the copy and the original share memory")
        expect(seen["grads_kept"]).is_true("a backward pass through the copy wrote `.grad` on the original")

    def test_the_original_keeps_its_hooks(seen, spec, hooks, places, x, mode, shift, factor):
        expect(seen["original_kept"]).is_true("the original has changed")
        expect(seen["original_grads_kept"]).is_true("the `.grad` of a parameter of the original has changed")
        if seen["hooks"]["left"].value != seen["hooks"]["before"].value:
            expect(seen["hooks"]["left"]).fail("the hooks on the original are not those that were there before")
        expect(seen["order_kept"]).is_true("the hooks on the original are others, or in another order")
        expect(seen["parameter_hooks"]).equals(1)
        expect(seen["original_output"]).close_to(factor * plain_output(spec, x + shift, mode))
        fired = sorted(label for name, _, _, label in hooks if name != places["never"])
        expect(seen["fired_by_the_original"]).equals(fired)
        expect(seen["left_after_remove"]).equals(0)

    def test_no_hook_fires_during_the_call(seen):
        expect(seen["fired_during_the_call"]).equals([])

    def test_new_hooks_can_be_registered_on_the_copy(seen, spec, places, x):
        all_new_hooks_fire(seen, spec, places["entry"], x)


def plain_output(spec: list[Any], x: Tensor, mode: str) -> Tensor:
    """What the model computes without hooks."""
    return trace(spec, x, batch_statistics=mode == "train")[-1].output


def description(model: nn.Module) -> dict[str, Any]:
    """All that a copy must have, part by part."""
    modules = list(model.named_modules(remove_duplicate=False))
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[int, str] = {}
    return {
        "names": [
            (name, type(one), getattr(one, "order", None), getattr(one, "operation", None)) for name, one in modules
        ],
        "values": [(name, tensor.dtype, tensor.tolist()) for name, tensor in tensors],
        "modes": [one.training for _, one in modules],
        "requires_grad": [tensor.requires_grad for _, tensor in tensors],
        "ties": [first.setdefault(id(one), name) for name, one in [*modules, *tensors]],
    }


def compared(one: dict[str, Any], other: dict[str, Any]) -> dict[str, bool]:
    """For each part of two descriptions, whether they agree."""
    return {part: one[part] == other[part] for part in other}


def shares_anything(one: nn.Module, other: nn.Module) -> bool:
    """Whether two models have a module, the memory of a tensor, or a list of settings in common."""
    pairs = [(a, b) for a in [*one.parameters(), *one.buffers()] for b in [*other.parameters(), *other.buffers()]]
    own = {id(part) for module in one.modules() for part in (module, getattr(module, "order", module))}
    common = any(id(part) in own for module in other.modules() for part in (module, getattr(module, "order", module)))
    return common or any(shares_storage(a, b) for a, b in pairs)


# 11-first-nonfinite: nets in which some layers make NaN or Inf from finite numbers.

NAN, INF = float("nan"), float("inf")


def offender(rng: Rng, kind: str) -> list[Any]:
    """The spec of a layer that makes some entries NaN or Inf from finite numbers.

    A linear layer with a NaN in its weight, a division by a NaN, or a division by zero. Divisions that do not
    work in place spoil a single entry, and never one in the first row.
    """
    if kind == "linear":
        layer = linear(rng)
        layer[1][rng.integer(0, 2), rng.integer(0, 2)] = NAN
        return layer
    by = rng.tensor(4, 3, low=0.5)
    row = slice(None) if kind == "in place" else rng.integer(1, 3)
    by[row, rng.integer(0, 2)] = 0.0 if kind == "infinite" else NAN
    return ["layer", "divide_" if kind == "in place" else "divide", by]


@exercise(
    "11-first-nonfinite",
    points=2,
    title="Where the first NaN comes from",
    hints=(
        "`torch.isfinite(t).all()` is true when a tensor has neither NaN nor Inf.",
        "A layer that gets a NaN passes it on, and is not to blame. Compare what goes in with what comes out: the "
        "layer you look for gets only finite inputs. Look at the inputs in a pre-hook, since a layer that works in "
        "place has overwritten them when the forward hook fires.",
        "Several layers may be to blame. Keep the first entry only, in the order in which hooks fire. Remove all hooks "
        "in `finally`.",
    ),
    cases=(
        {"plan": "nan"},
        {"plan": "infinite"},
        {"plan": "in place"},
        {"plan": "bad input"},
        {"plan": "container"},
        {"plan": "reuse"},
        {"plan": "second call"},
    ),
)
class TestFirstNonfinite:
    """Write `first_nonfinite(model, x)`. Run `model(x)` once, and find the first call of a leaf, in the order of
    execution, whose output has a NaN or an infinite entry while all its tensor inputs are finite. Return the name of
    that leaf as in `named_modules()`, or `None` when there is no such call.

    A leaf is a module without children. Each leaf gets positional arguments: one tensor or more, and perhaps other
    values, such as numbers. It returns one tensor. What counts is its inputs as they were when it was called, and its
    output as it left the leaf: some layers work in place. A leaf that already gets a NaN or an Inf is not to blame for
    what it passes on, and a NaN that the code between the leaves makes has no leaf to blame. `x` may have non-finite
    entries itself.

    You may stop the forward pass as soon as the leaf is found. When the model itself raises an exception of any
    type before that, the exception comes through.

    `x` stays as it was, and so does the model: the mode (training or eval) of each module, the parameters and their
    `.grad`. Hooks that were there before stay, and fire as far as the pass goes. No hook of yours is left, whatever
    happens.

    **Example.** Let `Log` be a module whose `forward` returns `x.log()`. The log of 0 is minus infinity. For
    `model = nn.Sequential(nn.ReLU(), Log(), nn.Linear(2, 1))` and `x = torch.tensor([[-1., 2.]])`,
    `first_nonfinite(model, x)` returns `"1"`.
    """

    def draw(rng, plan):
        start, one, two, three, four, five, tidy, clean, rinse, block, end, again = rng.names(12)
        x, factor = rng.tensor(4, 3), 1.0
        children = {name: ["layer", "clean"] for name in (tidy, clean, rinse)} | {start: linear(rng), end: linear(rng)}
        if plan in ("nan", "infinite", "in place"):
            kinds = {
                "nan": ("linear", "nan", "linear"),
                "infinite": ("infinite", "nan", "infinite"),
                "in place": ("in place", "nan", "infinite"),
            }[plan]
            children |= {name: offender(rng, kind) for name, kind in zip((one, two, three), kinds)}
            inside = [start, one, tidy, *([two] if plan == "infinite" else [])]
            order = [block, *([] if plan == "infinite" else [two]), clean, three, rinse, end]
        elif plan == "bad input":  # `start` would be to blame, were `x` not bad already
            x[rng.integer(1, 3), rng.integer(0, 2)] = rng.choice((NAN, INF))
            children |= {start: offender(rng, "linear"), one: ["layer", "mix"], two: ["layer", "tanh"]}
            children |= {three: offender(rng, "nan"), four: offender(rng, "infinite")}
            inside = [start, tidy, one, clean, three]
            order = [block, rinse, two, four, end]
        elif plan == "container":
            children |= {one: ["layer", "relu"], two: linear(rng)}
            inside, factor = [start, one], rng.choice((NAN, INF))
            order = [block, two, tidy, end, clean, rinse]
        else:  # the same layer makes -Inf in one of its calls, of the zeros of a ReLU, and nothing bad in the other
            children |= {one: ["layer", "relu"], two: ["layer", "exp"], three: ["layer", "log"], again: ["same", three]}
            children |= {end: ["layer", "tanh"], four: offender(rng, "infinite"), five: offender(rng, "nan")}
            inside = [start, tidy]
            order = [block, one, three, clean, two, again, end, four, rinse, five]
            if plan == "second call":
                order = [block, two, three, one, again, clean, end, four, rinse, five]
        children[block] = chain({key: children.pop(key) for key in rng.shuffled(inside)}, inside, factor)
        defined = rng.shuffled(list(children))
        if again in children and defined.index(again) < defined.index(three):  # a second name comes after the first
            first, second = defined.index(again), defined.index(three)
            defined[first], defined[second] = three, again
        return {
            "spec": chain({key: children[key] for key in defined}, order),
            "x": x,
            "plan": plan,
            "healthy": sound_model(rng, [start, one, two, three, four, five, end, block]),
        }

    def alive(spec, x, plan, healthy):
        guilty, defined = culprits(spec, x), first_defined(spec, x)
        if len(guilty) != {"bad input": 2, "container": 0}.get(plan, 3) or culprits(healthy, x.nan_to_num(1, 1, 1)):
            return False
        if module_names(spec)[-1] in guilty:  # where a name that is bound too late would look like another mistake
            return False
        if plan in ("nan", "infinite"):
            return defined == guilty[1]
        if plan == "bad input":
            wrong = {first_victim(spec, x), first_by_one_input(spec, x), *guilty}
            return defined == guilty[0] and len(wrong) == 4
        return plan == "container" or defined == guilty[0]

    def probe(student, spec, x, plan, healthy):
        witness, before, started = Witness(build(spec), ""), x.clone(), []
        with witness.model.register_forward_pre_hook(lambda module, args: started.append(1)):
            witness.hooks += 1
            seen = {"result": student.first_nonfinite(witness.model, x)}
            seen |= {**witness.report(), "callers_pre_hook_fired": len(started)}
        seen["x_kept"] = same_values(x, before) and not x.requires_grad
        good = x.nan_to_num(1, 1, 1)
        seen["healthy"] = student.first_nonfinite(build(healthy), good)
        return seen | when_it_raises(lambda: build(healthy), lambda model: student.first_nonfinite(model, good))

    mistakes = (
        Mistake(
            "reported-last",
            lambda seen, spec, x: blames(seen, spec, x, last_culprit(spec, x)),
            "Several layers make something non-finite out of finite inputs, and you returned the last of them. "
            "The first one is asked for: once a name is found, keep it.",
        ),
        Mistake(
            "nan-only",
            lambda seen, spec, x: blames(seen, spec, x, first_by(torch.isnan, spec, x)),
            "You looked for NaN only. Inf counts, too: the log of 0 and a division by 0 give Inf, and NaN comes later. "
            "`torch.isfinite` is false for both.",
        ),
        Mistake(
            "blamed-the-victim",
            lambda seen, spec, x, plan: (
                plan in ("bad input", "container") and blames(seen, spec, x, first_victim(spec, x))
            ),
            "This layer got a NaN or an Inf and only passed it on. Look at the inputs, too: the layer to blame gets "
            "finite inputs and returns something that is not finite.",
        ),
        Mistake(
            "first-input-only",
            lambda seen, spec, x, plan: plan == "bad input" and blames(seen, spec, x, first_by_one_input(spec, x)),
            "You looked at `args[0]` only. This layer has a second tensor input, and that one is not finite: look at "
            "every tensor in `args`.",
        ),
        Mistake(
            "input-overwritten",
            lambda seen, spec, x, plan: plan == "in place" and blames(seen, spec, x, culprits(spec, x)[1]),
            "The layer to blame works in place. When its forward hook fires, its input is already overwritten with its "
            "output, and looks non-finite. Look at the inputs in a forward pre-hook.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, x, plan: plan in ("nan", "infinite") and blames(seen, spec, x, first_defined(spec, x)),
            "You returned the first layer in the order of definition. The order asked for is that of execution: decide "
            "when a hook fires, not in a loop over `named_modules()` afterwards.",
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, x, plan: plan != "bad input" and blames(seen, spec, x, module_names(spec)[-1]),
            "You returned the name of the last module that is defined. Your hooks read the loop variable when they "
            "run, at its last value: bind it with a default argument (`name=name`).",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, x, plan: plan == "reuse" and blames(seen, spec, x, culprits(spec, x)[1]),
            "A layer may run more than once, and here the first of its calls is to blame. You kept only the last call: "
            "decide at each call.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, spec, x, plan: plan == "second call" and blames(seen, spec, x, culprits(spec, x)[1]),
            "A layer may run more than once, and here the second of its calls is to blame. You looked at its first "
            "call only: decide at each call.",
        ),
        Mistake(
            "large-is-not-infinite",
            lambda seen, healthy: seen["healthy"].value == huge_layer(healthy),
            "You named a layer whose output is very large, but finite. The sum and the norm of such entries are "
            "infinite: look at the entries themselves, with `torch.isfinite(value).all()`.",
        ),
        Mistake(
            "children-only",
            lambda seen, spec, x, plan: plan != "in place" and blames(seen, spec, x, first_on_top(spec, x)),
            "You looked only at the modules directly below the model, and the layer to blame sits deeper. "
            "`children()` and `named_children()` yield one level; `named_modules()` yields them all.",
        ),
        Mistake(
            "named-a-container",
            lambda seen, spec: seen["result"].value in containers(spec),
            "You named a container. Only leaves count: modules for which `list(module.children())` is empty.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_first_leaf_to_blame_is_named(seen, spec, x):
        expected = [*culprits(spec, x), None][0]
        if expected is None and seen["result"].value is not None:
            expect(seen["result"]).fail(f"no leaf is to blame: expected None, saw {seen['result'].value!r}")
        expect(seen["result"]).equals(expected)

    def test_a_healthy_model_gives_none(seen):
        expect(seen["healthy"]).equals(None)

    def test_the_model_runs_once(seen):
        expect(seen["runs"]).equals(1)
        if seen["callers_pre_hook_fired"].value != 1:
            expect(seen["callers_pre_hook_fired"]).fail("a hook that was on the model before did not fire once")

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def sound_model(rng: Rng, names: list[str]) -> list[Any]:
    """The spec of a model in which nothing goes wrong, not even in place, and not with huge numbers.

    The exponentials of numbers from -1 to 1, divided by 2 to the power of -126, are finite. Their sum is not.
    """
    made = [
        linear(rng),
        ["layer", "mix"],
        ["layer", "relu_"],
        ["layer", "tanh"],
        ["layer", "exp"],
        ["layer", "divide", torch.tensor([2.0**-126])],
        ["layer", "divide", torch.tensor([2.0**126])],
        linear(rng),
    ]
    children = dict(zip(names, made))
    return chain({key: children[key] for key in rng.shuffled(names)}, names)


def huge_layer(healthy: list[Any]) -> str:
    """The name of the layer of a sound model whose output is huge."""
    name: str = healthy[2][5]
    return name


def leaves(spec: list[Any], x: Tensor) -> list[Call]:
    """The calls of leaves in order."""
    return [call for call in trace(spec, x) if call.leaf]


def culprits(spec: list[Any], x: Tensor) -> list[str]:
    """The names of the leaves that make something non-finite from finite inputs, in order of execution."""
    return [call.name for call in leaves(spec, x) if call.bad_out and not call.bad_in]


def last_culprit(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who overwrites the first finding."""
    return [None, *culprits(spec, x)][-1]


def first_defined(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who goes by the order of definition."""
    return next((name for name in module_names(spec) if name in culprits(spec, x)), None)


def first_on_top(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at the direct children of the model only."""
    return next((name for name in culprits(spec, x) if "." not in name), None)


def first_victim(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at outputs only."""
    return next((call.name for call in leaves(spec, x) if call.bad_out), None)


def first_by_one_input(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at the first input only."""
    good = (call for call in leaves(spec, x) if bool(torch.isfinite(call.inputs[0]).all()))
    return next((call.name for call in good if call.bad_out), None)


def first_by(bad: Callable[[Tensor], Tensor], spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks for `bad` entries only, such as NaN."""
    good = (call for call in leaves(spec, x) if not any(bool(bad(value).any()) for value in call.inputs))
    return next((call.name for call in good if bool(bad(call.output).any())), None)


def blames(seen: Seen, spec: list[Any], x: Tensor, name: str | None) -> bool:
    """Whether the answer is this name, and wrong, and not the name that one would find who looks for Inf only."""
    others = [*culprits(spec, x)[:1], first_by(torch.isinf, spec, x)]
    return name is not None and seen["result"].value == name and name not in others


def containers(spec: list[Any], name: str = "") -> list[str]:
    """The names of all modules that have children."""
    found = [name] if spec[0] in ("chain", "list") else []
    children = spec[1] if found else {}
    for key, child in children.items() if isinstance(children, dict) else enumerate(children):
        found += containers(child, f"{name}.{key}" if name else str(key))
    return found
