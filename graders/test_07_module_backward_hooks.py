"""Lesson 7. Module backward hooks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.probing import Boom, expecting_boom, module_hooks, removed, snapshot, tensor_hooks
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Mismatch, Seen, close, expect, kind

# Used by the probes of several exercises.


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these parameters."""
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def copied(value: Any) -> Any:
    """Lists, tuples and dicts with copies of the tensors in them."""
    if isinstance(value, dict):
        return {key: copied(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(entry) for entry in value)
    return snapshot(value)


def settings(model: nn.Module, x: Tensor) -> list[Any]:
    """The modes and flags of the modules, and what requires grad."""
    flags = [(module.training, getattr(module, "inplace", None)) for module in model.modules()]
    return [flags, x.requires_grad, [parameter.requires_grad for parameter in model.parameters()]]


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def raise_boom(*args: Any) -> None:
    """A loss, a model or a hook that fails."""
    raise Boom


def noting_errors(scenario: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What `scenario` saw, or the text of the exception that ended it: later scenarios still run."""
    try:
        return scenario(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


# Used by the checks.


def did_not_fail(seen: Seen, when: str) -> None:
    """Raise `Mismatch` when a scenario ended in an exception."""
    if isinstance(seen["error"].value, str):
        raise Mismatch(f"{when}, the pass failed: {seen['error'].value}")


def expect_gradients(seen: Seen, expected: tuple[Tensor | None, ...]) -> None:
    """A tuple with these gradients, None where there is none."""
    if type(seen.value) is not tuple:
        expect(seen).fail(f"expected a tuple, saw {kind(seen.value)}")
    if len(seen) != len(expected):
        expect(seen).fail(f"expected a tuple with {len(expected)} entries, saw {len(seen)}")
    for entry, gradient in zip(seen, expected):
        if gradient is None:
            expect(entry).equals(None)
        else:
            expect(entry).close_to(gradient)


def settings_stay(seen: Seen) -> None:
    """Raise `Mismatch` when `settings` has changed."""
    expect(seen["settings_kept"]).is_true(
        "your function left something changed: the mode or a flag (such as `inplace`) of a module, or the "
        "`requires_grad` of `x` or of a parameter"
    )


class Squashed(nn.Module):
    """A composite: a linear layer, and more operations after it."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, x: Tensor) -> Tensor:
        """Twice the layer's output, through tanh."""
        return torch.tanh(2 * self.fc(x))


class Fork(nn.Module):
    """A module with two outputs that do not depend on one another."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output, and five times the input."""
        return self.fc(x), 5 * x


def watched(shape: str, weight: Tensor, bias: Tensor) -> nn.Module:
    """The module that a draw of 07-watch-module-grads names."""
    return nn.Tanh() if shape == "tanh" else {"composite": Squashed, "fork": Fork}[shape](linear(weight, bias))


def first_output(out: Any) -> Tensor:
    """The output itself, or the first of several."""
    return out[0] if isinstance(out, tuple) else out


def meanwhile(student: Any, record: Any, x: Tensor) -> dict[str, Any]:
    """One pass through another module that is watched, too; float64, with one more dimension."""
    before = dict(record) if isinstance(record, dict) else {}
    other, z = nn.Tanh(), x.detach().double()[None].requires_grad_()
    result = student.watch_module_grads(other)
    other(z).sum().backward()
    kept = isinstance(record, dict) and record.keys() == before.keys() and all(record[k] is before[k] for k in before)
    parts = list(result) if type(result) in (tuple, list) else [None]
    removed(parts[-1])
    return {"of_another": copied(parts[0]), "kept_apart": kept}


@exercise(
    "07-watch-module-grads",
    points=1,
    title="Watch the gradients of a module",
    hints=(
        "The hook that you need is `module.register_full_backward_hook(hook)`. It is called as "
        "`hook(module, grad_input, grad_output)`.",
        "An entry of `grad_input` or `grad_output` may be `None`. Keep it as `None`, and store "
        "`entry.detach().clone()` for a tensor.",
        'Change the dict that you return (`d["gi"] = ...`) instead of making a new one. Let the hook return nothing, '
        "so that the gradients stay as they are.",
    ),
    cases=({"shape": "tanh"}, {"shape": "composite"}, {"shape": "fork"}),
)
class TestWatchModuleGrads:
    """Write `watch_module_grads(module)`. Return a tuple of a dict and a handle.

    The dict is empty at first. After each backward pass through `module` (which is called once per pass), it holds
    two entries of that pass:

    - `"gi"`: the gradients of the loss with respect to the inputs of the module,
    - `"go"`: the gradients of the loss with respect to its outputs.

    Both are tuples with the entries that PyTorch gives to a full backward hook, in the same order, `None` where it
    gives `None`. Each tensor in them is a copy without a graph (even when the pass was run with `create_graph=True`),
    and nothing that happens later changes it. It is the same dict all the time, and each call of
    `watch_module_grads` makes one of its own.

    Nothing about the gradients that flow through the module changes. `handle.remove()` ends the watching.

    **Example.** For `module = torch.nn.Tanh()`, `d, handle = watch_module_grads(module)` and
    `x = tensor([0.], requires_grad=True)`, the call `(3 * module(x)).sum().backward()` leaves
    `d == {"gi": (tensor([3.]),), "go": (tensor([3.]),)}`, since the slope of tanh at 0 is 1.
    """

    def draw(rng, shape):
        small = {"low": -0.5, "high": 0.5}
        return {
            "shape": shape,
            "weight": rng.tensor(2, 3, **small),
            "bias": rng.tensor(2, **small),
            "x": rng.tensor(4, 3, low=-1, high=1),
            "up": rng.tensor(4, 3 if shape == "tanh" else 2),
        }

    def alive(shape, weight, bias, x, up):
        (gi,), (go, *_) = module_gradients(shape, weight, bias, x, up)
        (other,), _ = module_gradients(shape, weight, bias, x / 2, up.flip(0))
        return bool(gi.abs().min() > 1e-3 and (gi - other).abs().max() > 0.1) and not close_tensors(gi, go)

    def probe(student, shape, weight, bias, x, up):
        module = watched(shape, weight, bias)
        hooks = module_hooks(module)
        result = student.watch_module_grads(module)
        record, handle = result if type(result) in (tuple, list) and len(result) == 2 else (result, None)
        seen = {"start": copied(record)}
        x.requires_grad_()
        first_output(module(1 * x)).backward(gradient=up.clone())
        seen |= {"first": copied(record), "x.grad": snapshot(x.grad)}

        other, other_up = x / 2, up.flip(0)
        other.register_hook(zero_in_place)
        first_output(module(other)).backward(gradient=other_up)
        other_up.zero_()
        seen["second"] = copied(record)

        torch.autograd.grad(first_output(module(1 * x)), x, grad_outputs=up, create_graph=True)
        seen["graph"] = dict(record) if isinstance(record, dict) else record
        if shape != "tanh":
            first_output(module(x.detach())).backward(gradient=up)
            seen["no_input_grad"] = copied(record)
        seen |= meanwhile(student, record, x)
        seen["has_remove"] = removed(handle)
        if isinstance(record, dict):
            record.clear()
        first_output(module(1 * x)).backward(gradient=up)
        return {**seen, "after_remove": copied(record), "hooks_left": module_hooks(module) - hooks}

    mistakes = (
        Mistake(
            "deprecated-hook",
            lambda seen, shape, weight, bias, x, up: (
                shape != "tanh"
                and close(seen["first"]["go"][0], up)
                and not close(seen["first"]["gi"][0], up)
                and seen["first"]["gi"][0].tensor is not None
                and seen["first"]["gi"][0].tensor.shape != x.shape
            ),
            "`grad_input` has the shape of an operation inside the module, not of the module's input. That is what the "
            "deprecated `register_backward_hook` reports. Use `register_full_backward_hook`.",
        ),
        Mistake(
            "swapped-arguments",
            lambda seen, shape, weight, bias, x, up: (
                close(seen["first"]["gi"][0], up)
                and close(seen["first"]["go"][0], module_gradients(shape, weight, bias, x, up)[0][0])
            ),
            "You took the arguments in the wrong order: a full backward hook is called with the module, then "
            "`grad_input`, then `grad_output`.",
        ),
        Mistake(
            "wrong-hook-kind",
            lambda seen, up: close(seen["first"]["gi"][0], up) and close(seen["first"]["go"][0], up),
            "Your `gi` equals `go`: this hook saw only the gradient that arrives at the output. A pre-hook runs before "
            "the gradient of the input exists. Use `register_full_backward_hook`.",
        ),
        Mistake(
            "returned-something",
            lambda seen, shape, weight, bias, x, up: (
                close(seen["first"]["gi"][0], module_gradients(shape, weight, bias, x, up)[0][0])
                and not close(seen["x.grad"], module_gradients(shape, weight, bias, x, up)[0][0])
            ),
            "Your hook returned something, and PyTorch took it for a new `grad_input`. A hook that only watches "
            "returns `None`.",
            raises=("invalid number of grad_input", "changed the size of value", "None for all gradients"),
        ),
        Mistake(
            "values-not-gradients",
            lambda seen, shape, weight, bias, x, up: (
                close(seen["first"]["gi"][0], x) or close(seen["first"]["go"][0], module_output(shape, weight, bias, x))
            ),
            "These are the values that went into the module and came out of it, as a forward hook sees them. "
            "The task asks for their gradients.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, shape, weight, bias, x, up: (
                close(seen["first"]["gi"][0], module_gradients(shape, weight, bias, x, up)[0][0])
                and (close(seen["second"]["gi"][0], 0.0) or close(seen["second"]["go"][0], 0.0))
            ),
        ),
        Mistake(
            "rebound-dict",
            lambda seen: seen["has_remove"].value is True and seen["first"].value == {},
            "The dict that you returned stays empty. Inside the hook, `d = {...}` makes a new dict that nobody else "
            'sees. Change the returned one: `d["gi"] = ...`.',
        ),
    )

    def test_the_gradients_of_inputs_and_outputs_are_recorded(seen, shape, weight, bias, x, up):
        expect(seen["start"]).equals({})
        gi, go = module_gradients(shape, weight, bias, x, up)
        expect(seen["first"]).has_keys("gi", "go")
        expect_gradients(seen["first"]["gi"], gi)
        expect_gradients(seen["first"]["go"], go)

    def test_the_latest_pass_is_kept_in_copies(seen, shape, weight, bias, x, up):
        gi, go = module_gradients(shape, weight, bias, x / 2, up.flip(0))
        expect_gradients(seen["second"]["gi"], gi)
        expect_gradients(seen["second"]["go"], go)

    def test_copies_have_no_graph(seen, shape, weight, bias, x, up):
        gi, go = module_gradients(shape, weight, bias, x, up)
        expect_gradients(seen["graph"]["gi"], gi)
        expect_gradients(seen["graph"]["go"], go)

    def test_a_missing_gradient_is_none(seen, shape, weight, bias, x, up):
        if shape != "tanh":
            expect_gradients(seen["no_input_grad"]["gi"], (None,))
            expect_gradients(seen["no_input_grad"]["go"], module_gradients(shape, weight, bias, x, up)[1])

    def test_another_module_has_a_dict_of_its_own(seen, x):
        gradient = 1 - torch.tanh(x.double()[None]) ** 2
        expect_gradients(seen["of_another"]["gi"], (gradient,))
        expect_gradients(seen["of_another"]["go"], (torch.ones_like(gradient),))
        expect(seen["kept_apart"]).is_true("a pass through another watched module changed the dict of the first one")

    def test_the_flow_is_unchanged(seen, shape, weight, bias, x, up):
        (gi,), _ = module_gradients(shape, weight, bias, x, up)
        expect(seen["x.grad"]).close_to(gi)

    def test_the_handle_removes_the_hook(seen):
        expect(seen["has_remove"]).is_true("the second thing that the function returned has no remove() method")
        expect(seen["after_remove"]).equals({})
        expect(seen["hooks_left"]).equals(0)


def close_tensors(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of the judge are equal within rounding."""
    return first.shape == second.shape and torch.allclose(first, second, rtol=1e-4, atol=1e-4)


def module_output(shape: str, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """The first output of a module of 07-watch-module-grads."""
    if shape == "tanh":
        return torch.tanh(x)
    fc = x @ weight.T + bias
    return torch.tanh(2 * fc) if shape == "composite" else fc


def module_gradients(
    shape: str, weight: Tensor, bias: Tensor, x: Tensor, up: Tensor
) -> tuple[tuple[Tensor], tuple[Tensor | None, ...]]:
    """(gi, go) when `up` arrives at the first output, by the chain rule."""
    y = module_output(shape, weight, bias, x)
    if shape == "tanh":
        return (up * (1 - y * y),), (up,)
    if shape == "composite":
        return ((2 * up * (1 - y * y)) @ weight,), (up,)
    return (up @ weight,), (up, None)


class Gated(nn.Module):
    """A module with a parameter of its own and another module inside."""

    def __init__(self, name: str, fc: nn.Linear, weight: Tensor) -> None:
        """`fc` becomes the child `name`."""
        super().__init__()
        self.name = name
        self.add_module(name, fc)
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The child's output through tanh, times the own parameter."""
        return self.weight * torch.tanh(getattr(self, self.name)(x))


class Steps(nn.Module):
    """Children that are defined in one order and called in another."""

    def __init__(self, children: dict[str, nn.Module], definition: list[str]) -> None:
        """`children` in the order of the calls; `definition` is the order of `named_modules()`."""
        super().__init__()
        self.order = list(children)
        for name in definition:
            self.add_module(name, children[name])

    def forward(self, x: Tensor) -> Tensor:
        """One after the other."""
        for name in self.order:
            x = getattr(self, name)(x)
        return x


class Gained(nn.Module):
    """A model with a parameter of its own, and a frozen layer after it."""

    def __init__(self, head: nn.Linear) -> None:
        """`head` learns nothing any more."""
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))
        self.head = head.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Twice what the layer makes of the input times the gain."""
        return 2 * self.head(self.gain * x)


def gained_flow(student: Any, weight: Tensor, x: Tensor, up: Tensor) -> dict[str, Any]:
    """The means of a `Gained`, and what becomes of the hooks of the caller on it."""
    model = Gained(linear(weight[:, :-1], weight[:, -1]))
    for module in model.modules():
        module.register_forward_hook(lambda *_: None)
        module.register_full_backward_pre_hook(lambda *_: None)
        module.register_full_backward_hook(lambda *_: None)
    hooks = module_hooks(model)
    means = student.gradient_flow(model, lambda out: (up * out).sum(), x.detach())
    return {"means": dict(means) if isinstance(means, dict) else means, "hooks": module_hooks(model) - hooks}


def steps(names: list[str], definition: list[str], weights: list[Tensor], gate: Tensor) -> Steps:
    """Linear, tanh, gated block with a linear layer inside, Sequential(linear, tanh), linear."""
    first, act, gated, inner, group, head = names
    layers = [linear(weight[:, :-1], weight[:, -1]) for weight in weights]
    children = {
        first: layers[0],
        act: nn.Tanh(),
        gated: Gated(inner, layers[1], gate),
        group: nn.Sequential(layers[2], nn.Tanh()),
        head: layers[3],
    }
    return Steps(children, definition)


FLOW_LOSSES = {"linear": lambda out, up: (up * out).sum(), "square": lambda out, up: (up * out * out).sum()}


def keys_in_order(order: Callable[[list[str], list[str], list[str]], list[str]]) -> Callable[..., bool]:
    """A recogniser: all means are right, and the keys are in an order made of (right order, names, definition).

    A block and the layer inside it may have changed places.
    """

    def recognise(seen, names, definition, weights, gate, x, up, loss):
        expected = flow_means(names, weights, gate, x, up, loss)
        keys = block_first(seen["means"].keys, names)
        return close_means(seen["means"], expected) and keys == block_first(
            order(list(expected), names, definition), names
        )

    return recognise


@exercise(
    "07-gradient-flow",
    points=2,
    title="Gradient flow through every layer",
    hints=(
        "`module.parameters(recurse=False)` gives the parameters of the module itself, without those of the modules "
        "inside it. `named_modules()` gives every module with its name.",
        "A full backward pre-hook, `hook(module, grad_output)`, runs at the moment when the gradient of the output is "
        "complete. If it fills the dict, the order comes out by itself.",
        "The mean of the absolute values: `grad_output[0].abs().mean().item()`. Remove every handle in a `finally` "
        "block, so that it also happens when the loss raises.",
    ),
    cases=({"loss": "linear", "x_grad": False}, {"loss": "square", "x_grad": True}),
)
class TestGradientFlow:
    """Write `gradient_flow(model, loss_fn, x)`. Run one forward pass, `loss = loss_fn(model(x))`, and one
    `loss.backward()`. Return a dict with one entry for each module of `model.named_modules()` that has parameters of
    its own. Parameters of the modules inside it do not count, so a plain `Sequential` has none. Each of these modules
    is called once, and its output is one tensor. Nothing in the model works in place.

    The key is the module's name, `""` for the model itself. Parameters count whether they require grad or not. The
    value is a Python float: the mean of |d loss / d output| over all elements of the module's output. The keys are in
    the order of the backward pass: the module that is called last comes first. A block that has parameters of its own
    may come before or after the modules inside it.

    Parameters (and `x`, if it requires grad) accumulate their `.grad` as usual. The modes of the modules and the
    `requires_grad` of `x` and the parameters stay. No hook of yours is left, even when the model or the loss raises;
    the exception comes through. Hooks that were there before stay.

    **Example.** For `model = Sequential(Linear(1, 1), Linear(1, 1))` with both weights 2 and biases 0, `x = ones(1, 1)`
    and `loss_fn = lambda out: -3 * out.sum()`, the result is `{"1": 3.0, "0": 6.0}`.
    """

    def draw(rng, loss, x_grad):
        names = rng.names(6)
        top = [names[0], names[1], names[2], names[4], names[5]]
        return {
            "names": names,
            "definition": rng.shuffled(top),
            "weights": [rng.tensor(size, 4, low=-1, high=1) for size in (3, 3, 3, 2)],
            "gate": rng.tensor(3, low=0.5, high=2),
            "x": rng.tensor(4, 3, low=-1, high=1),
            "up": rng.tensor(4, 2),
            "loss": loss,
            "x_grad": x_grad,
            "old": rng.tensor(2),
        }

    def alive(names, definition, weights, gate, x, up, loss):
        first, inner, gated, group, head = (g.abs().mean().item() for g in flow(weights, gate, x, up, loss))
        values = sorted([first, inner, gated, group, head])
        signed = [g.mean().abs().item() for g in flow(weights, gate, x, up, loss)]
        calls = [name for name in definition if name != names[1]]
        return (
            values[0] > 0.01
            and min(b - a for a, b in pairwise(values)) > 0.01
            and all(abs(a - b) > 0.01 for a, b in zip(signed, (first, inner, gated, group, head)))
            and calls not in ([names[0], names[2], names[4], names[5]], [names[5], names[4], names[2], names[0]])
        )

    def probe(student, names, definition, weights, gate, x, up, loss, x_grad, old):
        model = steps(names, definition, weights, gate)
        model.get_submodule(names[1]).eval()
        head = model.get_submodule(names[-1])
        head.bias.grad = old.clone()
        x.requires_grad_(x_grad)
        forwards, backwards = [], []
        model.register_forward_hook(lambda *args: forwards.append(1))
        head.bias.register_hook(lambda grad: backwards.append(1))
        hooks = module_hooks(model)
        before = settings(model, x)
        means = student.gradient_flow(model, lambda out: FLOW_LOSSES[loss](out, up), x)
        seen = {
            "means": dict(means) if isinstance(means, dict) else means,
            "grads": {name: snapshot(p.grad) for name, p in model.named_parameters()},
            "x.grad": snapshot(x.grad),
            "passes": [len(forwards), len(backwards)],
            "hooks": module_hooks(model) - hooks,
            "settings_kept": settings(model, x) == before,
            "gained": noting_errors(gained_flow, student, weights[-1], x, up),
        }
        with expecting_boom(seen, "loss_exception"):
            student.gradient_flow(model, raise_boom, x)
        with expecting_boom(seen, "model_exception"), head.register_forward_pre_hook(raise_boom):
            student.gradient_flow(model, torch.sum, x)
        return {**seen, "hooks_after_exception": module_hooks(model) - hooks}

    mistakes = (
        Mistake(
            "signed-mean",
            lambda seen, names, weights, gate, x, up, loss: any(
                close_means(seen["means"], flow_means(names, weights, gate, x, up, loss, reduce))
                for reduce in (Tensor.mean, lambda g: g.mean().abs())
            ),
            "Positive and negative gradients cancel in your mean. Take `abs()` first, then the mean.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, names: all(
                any(close(seen["means"][name], value, rtol=1e-4) for value in parameter_means(seen["grads"], name))
                for name in (names[0], f"{names[2]}.{names[3]}", f"{names[4]}.0")
            ),
        ),
        Mistake(
            "forward-order",
            keys_in_order(lambda keys, names, definition: keys[::-1]),
            "The numbers are right, but your keys are in the order of the forward pass. Fill the dict when the "
            "gradient arrives; then the last layer comes first.",
        ),
        Mistake(
            "definition-order",
            keys_in_order(lambda keys, names, definition: by_definition(names, definition)),
            "The numbers are right, but your keys are in the order of `named_modules()`. Fill the dict when the "
            "gradient arrives.",
        ),
        Mistake(
            "grad-input-not-output",
            lambda seen, names, weights, gate, x, up, loss: close(
                seen["means"][names[-1]], head_input_mean(weights, gate, x, up, loss), rtol=1e-4
            ),
            "You took `grad_input`, the gradient that leaves the module. The gradient of its output is "
            "`grad_output`, the last argument of the hook.",
            raises="'NoneType' object has no attribute",
        ),
        Mistake(
            "containers-included",
            lambda seen, names: names[4] in seen["means"].keys,
            "Your dict has modules that only contain others. `parameters()` includes the parameters of all modules "
            "inside; `parameters(recurse=False)` gives only the module's own.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, names: names[2] not in seen["means"].keys and {names[0], names[5]} <= set(seen["means"].keys),
            "A block that has other modules inside is missing, although it has a parameter of its own. Ask for "
            "`parameters(recurse=False)` instead of looking for modules without children.",
        ),
        Mistake("late-binding", lambda seen: len(seen["means"].keys) == 1),
        Mistake("hook-left-behind", lambda seen: seen["means"].keys and seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            "The model or the loss raised an exception, and your hooks are still there. Call `remove()` on every "
            "handle in a `finally` block.",
        ),
    )

    def test_every_layer_has_its_mean_gradient(seen, names, weights, gate, x, up, loss):
        expected = flow_means(names, weights, gate, x, up, loss)
        expect(seen["means"]).has_keys(*expected)
        for name, value in expected.items():
            expect(seen["means"][name]).close_to(value, rtol=1e-4)

    def test_the_model_itself_and_frozen_modules_count(seen, up):
        did_not_fail(seen["gained"], "With a model that has a parameter of its own and a frozen layer")
        means = Seen(seen["gained"]["means"].value, "the result for a model with its own parameter and a frozen layer")
        expect(means).has_keys("", "head")
        expect(means[""]).close_to(up.abs().mean().item(), rtol=1e-4)
        expect(means["head"]).close_to(2 * up.abs().mean().item(), rtol=1e-4)

    def test_the_keys_are_in_backward_order(seen, names, weights, gate, x, up, loss):
        keys = list(flow_means(names, weights, gate, x, up, loss))
        if block_first(seen["means"].keys, names) != keys:
            expect(seen["means"]).has_keys(*keys, ordered=True)

    def test_one_pass_accumulates_the_gradients(seen, names, definition, weights, gate, x, up, loss, x_grad, old):
        expect(seen["passes"]).equals([1, 1])
        grads, x_gradient = plain_pass(names, definition, weights, gate, x, up, loss)
        grads[f"{names[-1]}.bias"] += old
        for name, gradient in grads.items():
            expect(seen["grads"][name]).close_to(gradient, rtol=1e-4, atol=1e-4)
        if x_grad:
            expect(seen["x.grad"]).close_to(x_gradient, rtol=1e-4, atol=1e-4)

    def test_no_hook_is_left_and_modes_and_requires_grad_stay(seen):
        expect(seen["hooks"]).equals(0)
        settings_stay(seen)
        if not isinstance(seen["gained"]["error"].value, str):
            expect(Seen(seen["gained"]["hooks"].value, "hooks more than before, with some of the caller's")).equals(0)

    def test_no_hook_is_left_when_something_raises(seen):
        expect(seen["loss_exception"]).equals("propagated")
        expect(seen["model_exception"]).equals("propagated")
        expect(seen["hooks_after_exception"]).equals(0)


def flow(weights: list[Tensor], gate: Tensor, x: Tensor, up: Tensor, loss: str) -> list[Tensor]:
    """The gradients at the outputs of first, inner, gated, group.0 and head, by the chain rule in float64."""
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = ((w[:, :-1].double(), w[:, -1].double()) for w in weights)
    t1 = torch.tanh(x.double() @ w1.T + b1)
    t2 = torch.tanh(t1 @ w2.T + b2)
    t3 = torch.tanh((gate * t2) @ w3.T + b3)
    out = t3 @ w4.T + b4
    at_head = up.double() if loss == "linear" else 2 * up * out
    at_group = (at_head @ w4) * (1 - t3 * t3)
    at_gated = at_group @ w3
    at_inner = at_gated * gate * (1 - t2 * t2)
    at_first = (at_inner @ w2) * (1 - t1 * t1)
    return [at_first, at_inner, at_gated, at_group, at_head]


def flow_means(
    names: list[str],
    weights: list[Tensor],
    gate: Tensor,
    x: Tensor,
    up: Tensor,
    loss: str,
    reduce: Callable[[Tensor], Tensor] = lambda gradient: gradient.abs().mean(),
) -> dict[str, float]:
    """Name to mean gradient, in backward order."""
    first, _, gated, inner, group, head = names
    keys = [first, f"{gated}.{inner}", gated, f"{group}.0", head]
    means = dict(zip(keys, (reduce(gradient).item() for gradient in flow(weights, gate, x, up, loss))))
    return dict(reversed(means.items()))


def block_first(keys: list[str], names: list[str]) -> list[str]:
    """`keys`, with the block before the layer inside it when the two are neighbours the other way round."""
    block, inner = names[2], f"{names[2]}.{names[3]}"
    if inner in keys and block in keys and keys.index(block) == keys.index(inner) + 1:
        return [{block: inner, inner: block}.get(key, key) for key in keys]
    return keys


def close_means(seen: Seen, expected: dict[str, float]) -> bool:
    """Whether a dict of means is `expected`, within float32's rounding."""
    return close(seen, expected, rtol=1e-4)


def by_definition(names: list[str], definition: list[str]) -> list[str]:
    """The keys in the order of named_modules()."""
    first, _, gated, inner, group, head = names
    inside = {first: [first], gated: [gated, f"{gated}.{inner}"], group: [f"{group}.0"], head: [head]}
    return [key for name in definition for key in inside.get(name, [])]


def head_input_mean(weights: list[Tensor], gate: Tensor, x: Tensor, up: Tensor, loss: str) -> float:
    """The mean size of the gradient at the input of the last layer."""
    return (flow(weights, gate, x, up, loss)[-1] @ weights[-1][:, :-1].double()).abs().mean().item()


def parameter_means(grads: Seen, name: str) -> list[float]:
    """What somebody may report who reads the parameters of a layer instead of its output."""
    weight, bias = grads[f"{name}.weight"].tensor, grads[f"{name}.bias"].tensor
    both = torch.cat([weight.flatten(), bias.flatten()])
    means = [one.abs().mean().item() for one in (weight, bias, both)]
    return [*means, (means[0] + means[1]) / 2, means[0] + means[1]]


def plain_pass(
    names: list[str], definition: list[str], weights: list[Tensor], gate: Tensor, x: Tensor, up: Tensor, loss: str
) -> tuple[dict[str, Tensor], Tensor]:
    """The gradients of parameters and input after one plain pass through a clean twin."""
    model = steps(names, definition, weights, gate)
    leaf = x.detach().clone().requires_grad_()
    named = dict(model.named_parameters())
    found = torch.autograd.grad(FLOW_LOSSES[loss](model(leaf), up), [*named.values(), leaf])
    return dict(zip(named, found)), found[-1]


class Blend(nn.Module):
    """A module with two tensor inputs and a number."""

    def forward(self, a: Tensor, b: Tensor, k: float) -> Tensor:
        """A weighted sum."""
        return a + k * b


def two_layer_pass(lower: nn.Linear, module: nn.Linear, x: Tensor, up: Tensor) -> dict[str, Any]:
    """One pass through both layers: the gradients of their parameters, and the output."""
    lower.zero_grad()
    module.zero_grad()
    out = module(lower(x))
    (up * out).sum().backward()
    return {
        "lower.weight": snapshot(lower.weight.grad), "lower.bias": snapshot(lower.bias.grad),
        "weight": snapshot(module.weight.grad), "bias": snapshot(module.bias.grad), "out": snapshot(out),
    }  # fmt: skip


def first_layer_pass(module: nn.Linear, x: Tensor, up: Tensor) -> dict[str, Any]:
    """One pass through a layer whose input needs no gradient, and one without grad mode."""
    module.zero_grad()
    (up * module(x)).sum().backward()
    with torch.no_grad():
        out = module(x)
    return {"weight": snapshot(module.weight.grad), "bias": snapshot(module.bias.grad), "out": out}


def blend_pass(blend: Blend, a: Tensor, b: Tensor, k: float, up: Tensor) -> dict[str, Any]:
    """One pass through a module with two inputs; the first one is also used beside it."""
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    h = 2 * a
    (h + blend(h, b, k)).backward(gradient=up.clone())
    alone = b.detach().requires_grad_()
    blend(h.detach(), alone, k).backward(gradient=up.clone())
    return {"a": a.grad, "b": b.grad, "b_alone": alone.grad, "hooks": tensor_hooks(a, b)}


def chain_pass(chain: nn.Sequential, x: Tensor, up: Tensor) -> dict[str, Any]:
    """One pass through a container of two layers."""
    x = x.clone().requires_grad_()
    chain.zero_grad()
    (up * chain(x)).sum().backward()
    return {"x": x.grad, "weight": snapshot(chain[0].weight.grad)}


@exercise(
    "07-clamp-grad-input",
    points=2,
    title="Clamp what a module sends back",
    hints=(
        "What a full backward hook returns replaces `grad_input`: a tuple with one entry for each input, "
        "in the same order.",
        "An entry may be `None`. It has to stay `None` in the tuple that you return: "
        "`tuple(g if g is None else ... for g in grad_input)`.",
        "A full backward pre-hook would be too early: it changes `grad_output`, from which the module's own parameters "
        "learn.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestClampGradInput:
    """Write `clamp_grad_input(module, c)`. `c` is a positive number. From now on, in every backward pass, each gradient
    that `module` sends to one of its inputs is clamped elementwise to [-c, c], for all inputs that are tensors and are
    passed by position. Other inputs (numbers, for example) may be there, too.

    The module's own parameters (and those of the modules inside it) get the gradients that they would get without your
    function, and the forward pass computes what it did before. If an input tensor is also used outside the module, the
    gradient that comes from there is not clamped. Passes in which no input needs a gradient work as before.

    Return a handle; `handle.remove()` restores the old behaviour.

    **Example.** For `module = Linear(1, 1)` with weight 5 and bias 0, `clamp_grad_input(module, 2.0)` and
    `x = tensor([[3.]], requires_grad=True)`, the call `module(x).sum().backward()` leaves `x.grad == tensor([[2.]])`
    (instead of 5) and `module.weight.grad == tensor([[3.]])` (as before).
    """

    def draw(rng, dtype):
        return {
            "lower_weight": rng.tensor(3, 2, dtype=dtype),
            "lower_bias": rng.tensor(3, dtype=dtype),
            "weight": rng.tensor(2, 3, dtype=dtype),
            "bias": rng.tensor(2, dtype=dtype),
            "x": rng.tensor(4, 2, dtype=dtype),
            "up": rng.tensor(4, 2, dtype=dtype),
            "c": rng.uniform(1, 3),
            "a": rng.tensor(5, dtype=dtype),
            "b": rng.tensor(5, dtype=dtype),
            "k": rng.choice((1.5, 2.0, -2.5)),
            "side": rng.tensor(5, dtype=dtype, low=-4, high=4),
        }

    def alive(lower_weight, lower_bias, weight, x, up, c, k, side):
        h, gi = x @ lower_weight.T + lower_bias, up @ weight
        own = up.T @ h
        clamps_some = all((g.abs() > c).any() and (g.abs() < c).any() for g in (gi, side, k * side))
        return bool(
            clamps_some
            and (gi > c).any()
            and (gi < -c).any()
            and (clamped(up, c).T @ h - own).abs().max() > 0.1
            and (clamped(own, c) - own).abs().max() > 0.1
            and (clamped(gi, c).sum(0) - clamped(clamped(up, c) @ weight, c).sum(0)).abs().max() > 0.1
            and (clamped(gi, c).sum(0) - gi.sum(0)).abs().max() > 0.1
            and (clamped(gi, c).sum(0) - clamped(gi.sum(0), c)).abs().max() > 0.1
            and ((clamped(gi, c) - gi).T @ x).abs().max() > 0.1
            and (clamped(gi @ lower_weight, c) - gi @ lower_weight).abs().max() > 0.1
        )

    def probe(student, lower_weight, lower_bias, weight, bias, x, up, c, a, b, k, side):
        dtype = x.dtype
        lower, module = linear(lower_weight, lower_bias).to(dtype), linear(weight, bias).to(dtype)
        blend = Blend()
        hooks = module_hooks(module) + module_hooks(blend)
        handles = [student.clamp_grad_input(module, c)]
        seen = {
            "first": two_layer_pass(lower, module, x, up),
            "second": noting_errors(two_layer_pass, lower, module.eval(), x, -2 * up),
            "bottom": noting_errors(first_layer_pass, module, lower(x).detach(), up),
        }
        handles.append(student.clamp_grad_input(blend, c))
        seen["blend"] = noting_errors(blend_pass, blend, a, b, k, side)
        chain = nn.Sequential(linear(lower_weight, lower_bias).to(dtype), linear(weight, bias).to(dtype))
        handles.append(student.clamp_grad_input(chain, c))
        seen["chain"] = noting_errors(chain_pass, chain, x, up)
        outcomes = [removed(handle) for handle in handles]
        return {
            **seen,
            "has_remove": all(outcomes),
            "removed": noting_errors(two_layer_pass, lower, module, x, up),
            "removed_blend": noting_errors(blend_pass, blend, a, b, k, side),
            "hooks_left": module_hooks(module) + module_hooks(blend) - hooks,
        }

    mistakes = (
        Mistake("bare-tensor", raises="invalid number of grad_input"),
        Mistake(
            "returned-grad-output",
            raises="changed the size of value",
            message="What a full backward hook returns takes the place of `grad_input`, so each entry needs the shape "
            "of that input. Yours has another shape: did you clamp `grad_output`?",
        ),
        Mistake(
            "forgot-return",
            lambda seen, weight, up, lower_weight, lower_bias, x: (
                seen["has_remove"].value is True
                and close(seen["first"]["lower.bias"], (up @ weight).sum(0))
                and close(seen["first"]["weight"], up.T @ (x @ lower_weight.T + lower_bias))
            ),
            "The gradient below the module is not clamped. A hook that returns `None` keeps `grad_input` as it is: "
            "return a tuple with the clamped gradients.",
        ),
        Mistake(
            "clamped-too-early",
            lambda seen, up, c, lower_weight, lower_bias, x: close(
                seen["first"]["weight"], clamped(up, c).T @ (x @ lower_weight.T + lower_bias)
            ),
            "The module's own weights changed, too: you clamped `grad_output`, before the module used it. Clamp "
            "`grad_input`, in a full backward hook.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, up, c, weight, lower_weight, lower_bias, x: (
                close(seen["first"]["weight"], clamped(up.T @ (x @ lower_weight.T + lower_bias), c))
                and close(seen["first"]["lower.bias"], (up @ weight).sum(0))
            ),
            "You clamped the gradients of the module's own parameters. The task is about the gradients of its inputs.",
        ),
        Mistake(
            "clamped-none",
            lambda seen: (
                any("NoneType" in str(seen[part]["error"].value) for part in ("bottom", "blend"))
                and not wrong_length(seen)
            ),
            "An input that needs no gradient has `None` in `grad_input`, and `None` has no `clamp`. Leave such an "
            "entry as it is.",
        ),
        Mistake(
            "wrong-length",
            lambda seen: wrong_length(seen),
            "The tuple that you return needs one entry for each input that was passed by position, also for those "
            "without a gradient: there it has `None`.",
        ),
        Mistake(
            "first-input-only",
            lambda seen, k, side, c: (
                close(seen["blend"]["b"], k * side) and close(seen["blend"]["a"], 2 * (side + clamped(side, c)))
            ),
            "You clamped the gradient of the first input only. `grad_input` has one entry for each input: clamp all "
            "that are tensors.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, side, c: close(seen["blend"]["a"], 4 * clamped(side, c)),
        ),
        Mistake(
            "hooked-the-input",
            lambda seen, side, c: close(seen["blend"]["a"], 2 * clamped(2 * side, c)),
            "You clamped the whole gradient of the input tensor, together with what comes from its other uses. Only "
            "the share that this module sends is to be clamped.",
        ),
    )

    def test_the_gradient_below_the_module_is_clamped(seen, weight, x, up, c):
        gi = clamped(up @ weight, c)
        expect(seen["first"]["lower.bias"]).close_to(gi.sum(0))
        expect(seen["first"]["lower.weight"]).close_to(gi.T @ x)
        did_not_fail(seen["second"], "In the second pass")
        expect(seen["second"]["lower.bias"]).close_to(clamped(-2 * up @ weight, c).sum(0))

    def test_its_own_parameters_learn_from_the_unclamped_one(seen, lower_weight, lower_bias, x, up, weight, bias):
        h = x @ lower_weight.T + lower_bias
        expect(seen["first"]["weight"]).close_to(up.T @ h)
        expect(seen["first"]["bias"]).close_to(up.sum(0))
        expect(seen["first"]["out"]).close_to(h @ weight.T + bias)

    def test_every_tensor_input_is_clamped_and_nothing_beside_the_module(seen, c, k, side):
        did_not_fail(seen["blend"], "With two tensors and a number as inputs")
        expect(seen["blend"]["b"]).close_to(clamped(k * side, c))
        expect(seen["blend"]["a"]).close_to(2 * (side + clamped(side, c)))
        expect(Seen(seen["blend"]["b_alone"].value, "b, when the input before it needs no gradient")).close_to(
            clamped(k * side, c)
        )

    def test_nothing_is_clamped_inside_the_module(seen, lower_weight, weight, x, up, c):
        did_not_fail(seen["chain"], "With a Sequential of two layers")
        inner = up @ weight
        expect(Seen(seen["chain"]["weight"].value, "the gradient of the first weight in a Sequential")).close_to(
            inner.T @ x
        )
        expect(Seen(seen["chain"]["x"].value, "the gradient below a Sequential")).close_to(
            clamped(inner @ lower_weight, c)
        )

    def test_inputs_without_gradient_do_no_harm(seen, lower_weight, lower_bias, x, up, weight, bias):
        h = x @ lower_weight.T + lower_bias
        did_not_fail(seen["bottom"], "When no input needs a gradient")
        expect(seen["bottom"]["weight"]).close_to(up.T @ h)
        expect(seen["bottom"]["bias"]).close_to(up.sum(0))
        expect(seen["bottom"]["out"]).close_to(h @ weight.T + bias)

    def test_the_handle_restores_the_old_behaviour(seen, weight, up, k, side):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["removed"]["lower.bias"]).close_to((up @ weight).sum(0))
        expect(seen["removed_blend"]["a"]).close_to(4 * side)
        expect(seen["removed_blend"]["b"]).close_to(k * side)
        expect(seen["hooks_left"]).equals(0)
        expect(seen["removed_blend"]["hooks"]).equals(0)


def clamped(gradient: Tensor, c: float) -> Tensor:
    """`gradient` limited to [-c, c]."""
    return gradient.clamp(-c, c)


def wrong_length(seen: Seen) -> bool:
    """Whether the module with three inputs complained about the number of gradients."""
    return "invalid number of grad_" in str(seen["blend"]["error"].value)


def three_layer_pass(
    lower: nn.Linear, module: nn.Linear, upper: nn.Linear, x: Tensor, side: Tensor, up: Tensor
) -> dict[str, Any]:
    """One pass through three layers; `side` is added to the output of the one in the middle."""
    layers = {"lower": lower, "module": module, "upper": upper}
    for layer in layers.values():
        layer.zero_grad()
    x, side = x.clone().requires_grad_(), side.clone().requires_grad_()
    beside = 1 * side
    y = module(lower(x))
    (up * upper(y + beside)).sum().backward()
    grads = {f"{name}.{key}": snapshot(p.grad) for name, one in layers.items() for key, p in one.named_parameters()}
    return {**grads, "x": x.grad, "side": side.grad, "y": snapshot(y)}


def bottom_pass(module: nn.Module, x: Tensor, up: Tensor) -> dict[str, Any]:
    """One pass through a composite whose input needs no gradient, and one without grad mode."""
    (up * module(x)).sum().backward()
    with torch.no_grad():
        out = module(x)
    return {"weight": snapshot(module.fc.weight.grad), "bias": snapshot(module.fc.bias.grad), "out": snapshot(out)}


def fork_pass(fork: Fork, used: tuple[int, ...], x: Tensor, ups: list[Tensor]) -> dict[str, Any]:
    """One pass in which only some outputs of the module are used."""
    x = x.clone().requires_grad_()
    fork.zero_grad()
    outs = fork(x)
    sum((ups[index] * outs[index]).sum() for index in used).backward()
    return {"x": x.grad, "weight": snapshot(fork.fc.weight.grad), "a_tuple": isinstance(outs, tuple)}


def times(powers: dict[str, int]) -> Callable[..., bool]:
    """A recogniser: there is a handle, and each of these entries of the first pass is the plain one times s**power."""

    def recognise(seen, lower, weight, bias, upper, x, side, up, s):
        expected = three_layers(lower, weight, bias, upper, x, side, up)
        return seen["has_remove"].value is True and all(
            close(seen["first"][key], s**power * expected[key], rtol=1e-5, atol=1e-4) for key, power in powers.items()
        )

    return recognise


@exercise(
    "07-scale-backward",
    points=2,
    title="Scale the backward pass from a module on",
    hints=(
        "The gradient has to be scaled before the module's own backward pass uses it. Which of the two kinds of hook "
        "runs at that moment?",
        "`register_full_backward_pre_hook(hook)`: the hook is called as `hook(module, grad_output)` and returns a "
        "tuple with one entry for each output.",
        "An output that the loss does not use has `None` in `grad_output`. Keep it as `None`.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestScaleBackward:
    """Write `scale_backward(module, s)`. From now on, in every backward pass, the gradients that arrive at the outputs
    of `module` count `s` times: the gradients of its own parameters (and of the modules inside it) and all gradients
    that it sends further back are `s` times what they would be without your function.

    Everything else stays as it is: the values of the forward pass, the gradients of the layers after the module, and
    those of tensors that are combined with its output. The module may have one output or a tuple of outputs. The
    outputs do not depend on one another, and the loss may leave some of them unused. The inputs of the module may need
    no gradient.

    Return a handle; `handle.remove()` restores the old behaviour.

    **Example.** For `module = Linear(1, 1)` with weight 5 and bias 0, `scale_backward(module, 10.0)` and
    `x = tensor([[3.]], requires_grad=True)`, the call `module(x).sum().backward()` leaves `x.grad == tensor([[50.]])`
    and `module.weight.grad == tensor([[30.]])`, instead of 5 and 3.
    """

    def draw(rng, dtype):
        return {
            "lower": rng.tensor(3, 3, dtype=dtype),
            "weight": rng.tensor(3, 3, dtype=dtype),
            "upper": rng.tensor(2, 4, dtype=dtype),
            "bias": rng.tensor(3, dtype=dtype),
            "x": rng.tensor(4, 2, dtype=dtype),
            "side": rng.tensor(4, 3, dtype=dtype),
            "up": rng.tensor(4, 2, dtype=dtype),
            "small": rng.tensor(3, 2, dtype=dtype, low=-0.5, high=0.5),
            "ups": [rng.tensor(4, 3, dtype=dtype), rng.tensor(4, 2, dtype=dtype)],
            "s": rng.choice((0.5, 2.5, -1.5, -2.5)),
        }

    def alive(lower, weight, bias, upper, x, side, up, small, ups, s):
        expected = three_layers(lower, weight, bias, upper, x, side, up)
        bottom = squashed_gradients(small, bias / 8, x / 4, ups[0])
        return all(g.abs().max() > 0.1 for g in [*expected.values(), *bottom])

    def probe(student, lower, weight, bias, upper, x, side, up, small, ups, s):
        first, module, last, inner, forked = (
            linear(w, b).to(x.dtype)
            for w, b in (
                (lower[:, :-1], lower[:, -1]),
                (weight, bias),
                (upper[:, :-1], upper[:, -1]),
                (small, bias / 8),
                (lower[:, :-1], lower[:, -1]),
            )
        )
        bottom, fork = Squashed(inner), Fork(forked)
        hooks = [module_hooks(one) for one in (module, bottom, fork)]
        handles = [student.scale_backward(module, s)]
        seen = {
            "first": three_layer_pass(first, module, last, x, side, up),
            "second": noting_errors(three_layer_pass, first, module.eval(), last, x, side, 2 * up),
        }
        handles += [student.scale_backward(bottom, s), student.scale_backward(fork, s)]
        seen["bottom"] = noting_errors(bottom_pass, bottom, x / 4, ups[0])
        for key, used in (("both", (0, 1)), ("only_first", (0,)), ("only_second", (1,))):
            seen[key] = noting_errors(fork_pass, fork, used, x, ups)
        outcomes = [removed(handle) for handle in handles]
        return {
            **seen,
            "has_remove": all(outcomes),
            "removed": noting_errors(three_layer_pass, first, module, last, x, side, up),
            "hooks_left": [module_hooks(one) - before for one, before in zip((module, bottom, fork), hooks)],
        }

    mistakes = (
        Mistake(
            "too-late-for-weights",
            times({"module.weight": 0, "x": 1}),
            "What flows further back is scaled, but the module's own weights are not: a full backward hook changes "
            "`grad_input`, and the weights do not use that. Scale `grad_output`, in a full backward pre-hook.",
        ),
        Mistake("bare-tensor", raises="invalid number of grad_"),
        Mistake(
            "changed-forward",
            times({"y": 1}),
            "You scaled the output of the module itself. The values of the forward pass have to stay; only the "
            "gradients are scaled.",
        ),
        Mistake(
            "forgot-return",
            times({"x": 0, "module.weight": 0, "side": 0, "y": 0}),
            "Nothing was scaled. A hook that returns `None` keeps the gradients as they are: return a tuple with the "
            "scaled ones.",
        ),
        Mistake(
            "parameter-grads",
            times({"module.weight": 1, "x": 0}),
            "You scaled the gradients of the module's own parameters only. What the module sends further back has to "
            "be scaled, too.",
        ),
        Mistake(
            "scaled-twice",
            times({"x": 2}),
            "The gradient behind the module is scaled twice. What you return from the pre-hook is what the module "
            "computes `grad_input` from; the pre-hook alone is enough.",
        ),
        Mistake("in-place-leak", times({"side": 1, "y": 0})),
        Mistake(
            "scaled-none",
            lambda seen: (
                "NoneType" in str(seen["only_first"]["error"].value)
                and not isinstance(seen["both"]["error"].value, str)
            ),
            "An output that the loss does not use has `None` in `grad_output`, and `None` cannot be multiplied. "
            "Leave such an entry as it is.",
        ),
        Mistake(
            "first-output-only",
            lambda seen, lower, x, ups, s: close(seen["both"]["x"], s * ups[0] @ lower[:, :-1] + 5 * ups[1]),
            "You scaled the gradient of the first output only. `grad_output` has one entry for each output: scale all "
            "that are tensors.",
        ),
        Mistake(
            "wrong-length",
            lambda seen: any(
                "invalid number of grad_" in str(seen[key]["error"].value) for key in ("both", "only_first")
            ),
            "The tuple that you return needs one entry for each output of the module, with `None` where `grad_output` "
            "has `None`.",
        ),
    )

    def test_its_own_parameters_and_what_flows_further_back_are_scaled(
        seen, lower, weight, bias, upper, x, side, up, s
    ):
        expected = three_layers(lower, weight, bias, upper, x, side, up)
        for key in ("x", "lower.weight", "lower.bias", "module.weight", "module.bias"):
            expect(seen["first"][key]).close_to(s * expected[key], rtol=1e-5, atol=1e-4)
        did_not_fail(seen["second"], "In the second pass")
        expect(seen["second"]["x"]).close_to(2 * s * expected["x"], rtol=1e-5, atol=1e-4)

    def test_a_first_layer_learns_from_the_scaled_gradient(seen, small, bias, x, ups, s):
        did_not_fail(seen["bottom"], "When the input needs no gradient")
        weight_gradient, bias_gradient = squashed_gradients(small, bias / 8, x / 4, ups[0])
        expect(seen["bottom"]["weight"]).close_to(s * weight_gradient, atol=1e-5)
        expect(seen["bottom"]["bias"]).close_to(s * bias_gradient, atol=1e-5)
        expect(Seen(seen["bottom"]["out"].value, "the output under torch.no_grad()")).close_to(
            torch.tanh(2 * (x / 4 @ small.T + bias / 8)), atol=1e-5
        )

    def test_several_outputs_used_or_not(seen, lower, x, ups, s):
        did_not_fail(seen["both"], "With two outputs")
        did_not_fail(seen["only_first"], "With an unused second output")
        did_not_fail(seen["only_second"], "With an unused first output")
        first, second = ups[0] @ lower[:, :-1], 5 * ups[1]
        expect(seen["both"]["a_tuple"]).is_true(
            "the module returned a tuple of two outputs before, and now it does not"
        )
        expect(seen["both"]["x"]).close_to(s * (first + second))
        expect(seen["both"]["weight"]).close_to(s * ups[0].T @ x)
        expect(seen["only_first"]["x"]).close_to(s * first)
        expect(seen["only_second"]["x"]).close_to(s * second)

    def test_forward_and_later_layers_are_untouched(seen, lower, weight, bias, upper, x, side, up):
        expected = three_layers(lower, weight, bias, upper, x, side, up)
        for key in ("y", "upper.weight", "upper.bias", "side"):
            expect(seen["first"][key]).close_to(expected[key], rtol=1e-5, atol=1e-4)

    def test_the_handle_restores_the_old_behaviour(seen, lower, weight, bias, upper, x, side, up):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expected = three_layers(lower, weight, bias, upper, x, side, up)
        for key in ("x", "module.weight"):
            expect(seen["removed"][key]).close_to(expected[key], rtol=1e-5, atol=1e-4)
        expect(seen["hooks_left"]).equals([0, 0, 0])


def three_layers(
    lower: Tensor, weight: Tensor, bias: Tensor, upper: Tensor, x: Tensor, side: Tensor, up: Tensor
) -> dict[str, Tensor]:
    """The gradients of `three_layer_pass` without any hook, by the chain rule."""
    h = x @ lower[:, :-1].T + lower[:, -1]
    y = h @ weight.T + bias
    at_y = up @ upper[:, :-1]
    at_h = at_y @ weight
    return {
        "x": at_h @ lower[:, :-1], "lower.weight": at_h.T @ x, "lower.bias": at_h.sum(0),
        "module.weight": at_y.T @ h, "module.bias": at_y.sum(0), "side": at_y, "y": y,
        "upper.weight": up.T @ (y + side), "upper.bias": up.sum(0),
    }  # fmt: skip


def squashed_gradients(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the parameters of `Squashed`."""
    y = torch.tanh(2 * (x @ weight.T + bias))
    at_fc = 2 * up * (1 - y * y)
    return at_fc.T @ x, at_fc.sum(0)


LINEAR_LOSSES = {"linear": lambda y, up: (up * y).sum(), "square": lambda y, up: (up * y * y).sum()}


@exercise(
    "07-linear-grads",
    points=3,
    title="Rebuild the gradients of a linear layer",
    hints=(
        "For one row, `y = W x + b`. Then dL/dW is the outer product of dL/dy and x, and dL/db is dL/dy.",
        "Bring both to two dimensions: `x.reshape(-1, in_features)` and `g.reshape(-1, out_features)`. Then "
        "`g.T @ x` is the sum of the outer products of all rows.",
        "Rows add up: sum over them, do not average. To get dL/dy, let the loss start from a tensor of your own: "
        "`y = lin(x).detach().requires_grad_()`.",
    ),
    cases=(
        {"lead": [4], "loss": "square", "x_grad": False},
        {"lead": [2, 3], "loss": "linear", "x_grad": True},
        {"lead": [], "loss": "square", "x_grad": False},
    ),
)
class TestLinearGrads:
    """Write `linear_grads(lin, x, loss_fn)`. `lin` is an `nn.Linear` with a bias, and `loss_fn` is a function from its
    output to a scalar. For `y = lin(x)` and `L = loss_fn(y)`, return the tuple of dL/dW and dL/db, with the shapes of
    `lin.weight` and `lin.bias`, without a graph.

    Rebuild them from `x` and dL/dy. Do not read them from the parameters: these may carry hooks of the caller which
    change or erase the gradients that arrive there, and your result must not be affected by them.

    `x` has one dimension or more; the last one has `lin.in_features` entries. It may require grad or not, and it need
    not be contiguous. What the `.grad` of `x` and of the parameters holds afterwards is not graded. Their values and
    their `requires_grad` stay as they are, the mode of `lin` and the hooks of the caller stay, and no hook of yours is
    left, even when the loss raises; the exception comes through.

    **Example.** For a `lin` with weight `[[1., 1.]]` and bias `[0.]`, `x = tensor([[1., 2.], [3., 4.]])` and
    `loss_fn = lambda y: 10 * y.sum()` the result is `(tensor([[40., 60.]]), tensor([20.]))`.
    """

    def draw(rng, lead, loss, x_grad):
        return {
            "weight": rng.tensor(2, 3),
            "bias": rng.tensor(2),
            "x": rng.tensor(*lead, 3),
            "up": rng.tensor(*lead, 2),
            "loss": loss,
            "x_grad": x_grad,
        }

    def alive(weight, bias, x, up, loss):
        weight_gradient, bias_gradient = twin_gradients(weight, bias, x, up, loss)
        return bool(weight_gradient.abs().max() > 0.5 and bias_gradient.abs().min() > 0.1)

    def probe(student, weight, bias, x, up, loss, x_grad):
        lin = linear(weight, bias).train(not x_grad)
        x.requires_grad_(x_grad)
        for parameter in lin.parameters():
            parameter.register_hook(torch.zeros_like)
        lin.register_forward_hook(lambda *_: None)
        hooks = module_hooks(lin) + tensor_hooks(x)
        before = [lin.weight.detach().clone(), lin.bias.detach().clone(), x.detach().clone()]
        old_settings = settings(lin, x)
        grads = student.linear_grads(lin, x, lambda y: LINEAR_LOSSES[loss](y, up))
        parts = grads if type(grads) in (tuple, list) else []
        seen = {
            "grads": copied(grads),
            "requires_grad": [one.requires_grad for one in parts if isinstance(one, Tensor)],
            "values_kept": all(torch.equal(a, b) for a, b in zip(before, (lin.weight, lin.bias, x))),
            "settings_kept": settings(lin, x) == old_settings,
            "hooks": module_hooks(lin) + tensor_hooks(x) - hooks,
        }
        with expecting_boom(seen):
            student.linear_grads(lin, x, raise_boom)
        seen["hooks_after_exception"] = module_hooks(lin) + tensor_hooks(x) - hooks
        seen["settings_after_exception"] = settings(lin, x) == old_settings
        turned = x.detach().mT.contiguous().mT if x.dim() > 1 else x.detach()
        seen["turned"] = noting_errors(
            lambda: {"grads": copied(student.linear_grads(lin, turned, lambda y: LINEAR_LOSSES[loss](y, up)))}
        )
        lin.weight.grad = None
        lin.weight.requires_grad_()
        lin(x).sum().backward()
        return {**seen, "erased": snapshot(lin.weight.grad)}

    mistakes = (
        Mistake(
            "reads-dot-grad",
            lambda seen: close(seen["grads"][0], 0.0) and close(seen["grads"][1], 0.0),
            "Your result is zero: it was read from the parameters, and a hook of the caller has erased the gradients "
            "there. Compute it from `x` and the gradient of the output.",
        ),
        Mistake(
            "transposed",
            lambda seen, weight, bias, x, up, loss: close(
                seen["grads"][0], twin_gradients(weight, bias, x, up, loss)[0].T
            ),
            "Your gradient is transposed. `lin.weight` has the shape (out_features, in_features): the gradient of the "
            "output comes first, then `x`.",
        ),
        Mistake(
            "mean-instead-of-sum",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() > 1
                and any(
                    close(mine, right / rows)
                    for mine, right in zip(seen["grads"], twin_gradients(weight, bias, x, up, loss))
                    for rows in (x[..., 0].numel(), x.shape[0])
                )
            ),
            "Your result is too small by the number of rows. Every row uses the same weights, and the gradients of "
            "several uses add up: sum over the rows, do not average.",
        ),
        Mistake(
            "two-dimensions-only",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() != 2
                and not close(seen["grads"][0], 0.0)
                and (
                    seen["grads"][0].tensor.dim() > 2
                    or (seen["grads"][0].tensor.dim() == 2 and seen["grads"][1].tensor.shape == up.sum(0).shape)
                )
            ),
            "This works for a matrix, but `x` may have one dimension, or three. Flatten the leading dimensions into "
            "rows first: `x.reshape(-1, lin.in_features)`.",
            raises=("must match the size", "cannot be multiplied", "Expected size for", "batch1 must be a 3D"),
        ),
        Mistake(
            "last-row-only",
            lambda seen, weight, bias, x, up, loss: (
                x.dim() > 1 and close(seen["grads"][0], row_gradient(weight, bias, x, up, loss))
            ),
            "Your result is the gradient of one row. Every row of `x` contributes: add them up.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, weight, bias, x, up, loss: (
                seen["hooks"].value > 0 and close(seen["grads"], list(twin_gradients(weight, bias, x, up, loss)))
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            "The loss raised an exception, and your hook is still there. Put `remove()` into `finally`, or use the "
            "handle as a context manager.",
        ),
    )

    def test_weight_and_bias_have_their_gradients(seen, weight, bias, x, up, loss):
        weight_gradient, bias_gradient = twin_gradients(weight, bias, x, up, loss)
        expect(seen["grads"][0]).close_to(weight_gradient)
        expect(seen["grads"][1]).close_to(bias_gradient)

    def test_the_memory_of_x_may_be_laid_out_otherwise(seen, weight, bias, x, up, loss):
        did_not_fail(seen["turned"], "With an `x` that is not contiguous")
        for mine, right in zip(("weight", "bias"), twin_gradients(weight, bias, x, up, loss)):
            gradient = seen["turned"]["grads"][0 if mine == "weight" else 1]
            expect(Seen(gradient.value, f"dL/d{mine} for an x that is not contiguous")).close_to(right, detached=False)

    def test_they_have_no_graph(seen):
        expect(seen["requires_grad"]).equals([False, False])

    def test_values_settings_and_hooks_of_the_caller_stay(seen):
        expect(seen["values_kept"]).is_true("the values of x or of the parameters changed")
        settings_stay(seen)
        expect(seen["settings_after_exception"]).is_true(
            "after an exception the mode or the `requires_grad` of something is not as it was"
        )
        expect(seen["erased"]).close_to(torch.zeros(2, 3))

    def test_no_hook_is_left(seen):
        expect(seen["hooks"]).equals(0)
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_after_exception"]).equals(0)


def twin_gradients(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Both gradients by autograd on a clean twin."""
    weight, bias = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    y = nn.functional.linear(x.detach(), weight, bias)
    weight_gradient, bias_gradient = torch.autograd.grad(LINEAR_LOSSES[loss](y, up), [weight, bias])
    return weight_gradient, bias_gradient


def row_gradient(weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, loss: str) -> Tensor:
    """The gradient of the weight that the last row alone gives."""
    x, up = x.reshape(-1, 3)[-1:], up.reshape(-1, 2)[-1:]
    return twin_gradients(weight, bias, x, up, loss)[0]


class Weighted(torch.autograd.Function):
    """sum(out * buffer) whose backward hands out the buffer itself, not a copy."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, buffer: Tensor) -> Tensor:
        """The weighted sum."""
        ctx.buffer = buffer
        return (out * buffer).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The gradient of `out`, for a loss that is this sum."""
        return ctx.buffer, None


class Named(nn.Module):
    """A module that returns a dict."""

    def __init__(self, fc: nn.Linear, key: str) -> None:
        """`key` is the one under which the layer's output is returned."""
        super().__init__()
        self.fc, self.key = fc, key

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """The layer's output, and the input."""
        return {"other": 3 * x, self.key: self.fc(x)}


class Middle(nn.Module):
    """Three steps: a linear layer, the module that is looked at, and what follows it."""

    def __init__(self, follow: str, names: list[str], lower: nn.Linear, module: nn.Module, k: float) -> None:
        """`follow` says what happens to the module's output; the second name is that of the module."""
        super().__init__()
        self.follow, self.names, self.k = follow, names, k
        self.add_module(names[1], module)
        self.add_module(names[0], lower)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The module's output, in-place through a ReLU, multiplied in place, squared, or as it is."""
        out = getattr(self, self.names[1])(getattr(self, self.names[0])(x))
        if self.follow == "relu":
            return self.act(out)
        if self.follow == "scaled":
            out *= self.k
        if self.follow == "dict":
            picked = out[self.names[2]]
            return picked * picked + out["other"].mean()
        return out


def middle(follow: str, names: list[str], lower: Tensor, weight: Tensor, bias: Tensor, k: float) -> nn.Module:
    """The model of a draw of 07-activation-grad; the module is `block.<names[1]>`."""
    module = linear(weight, bias)
    block = Middle(
        follow,
        names,
        linear(lower[:, :-1], lower[:, -1]),
        Named(module, names[2]) if follow == "dict" else module,
        k,
    )
    model = nn.Sequential()
    model.add_module("block", block)
    model.add_module("head", nn.Identity() if follow == "last" else nn.Tanh())
    return model


@exercise(
    "07-activation-grad",
    points=3,
    title="The gradient at an activation, whatever follows",
    hints=(
        "A full backward hook fails before an in-place operation and stays silent for a dict. The output itself is an "
        "ordinary tensor, and a tensor can carry a hook.",
        "Register a forward hook on `model.get_submodule(name)`. Inside it, call `pick(output).register_hook(...)`.",
        "The forward hook runs before any later in-place operation. A tensor hook that is registered there belongs to "
        "the old value, and that is the one you want. `retain_grad()` would follow the new one.",
    ),
    cases=({"follow": "relu"}, {"follow": "dict"}, {"follow": "scaled"}, {"follow": "last"}),
)
class TestActivationGrad:
    """Write `activation_grad(model, name, x, loss_fn, pick=lambda out: out)`. With `loss = loss_fn(model(x))`, return
    the gradient of the loss with respect to one tensor in the middle of the model: `pick(output)`, where `output` is
    what the module called `name` (as in `model.named_modules()`) returns. `pick` takes this output, which may be a
    tensor, a tuple or a dict, and returns one tensor in it, the same object. The module is called once.

    The gradient belongs to the value that left the module. Operations that come later in the model may change this
    tensor in place (an in-place ReLU, for example); the result is still the gradient with respect to the value before.

    The result has no graph, and nothing that happens later changes it. You may run `backward()` once or not at all:
    the `.grad` of the parameters either stays or accumulates one plain pass. The modules keep their mode and their
    flags (such as `inplace`), and `x` and the parameters keep their `requires_grad`. No hook of yours is left. All this
    holds even when the model or the loss raises; the exception comes through. Hooks that were there before stay.

    **Example.** For `model = Sequential(Linear(1, 2), ReLU(inplace=True))`, where the linear layer gives `[[-1., 4.]]`
    for `x`, `activation_grad(model, "0", x, lambda out: 7 * out.sum())` returns `tensor([[0., 7.]])`.
    """

    def draw(rng, follow):
        return {
            "follow": follow,
            "names": rng.names(3),
            "lower": rng.tensor(3, 3, low=-0.5, high=0.5),
            "weight": rng.tensor(2, 3, low=-1, high=1),
            "bias": rng.tensor(2, low=-0.5, high=0.5),
            "x": rng.tensor(4, 2, low=-1, high=1),
            "up": rng.tensor(4, 2),
            "k": rng.choice((0.5, 1.5, -0.5)),
            "old": rng.tensor(3),
        }

    def alive(follow, lower, weight, bias, x, up, k):
        before, gradient, later = activation(follow, lower, weight, bias, x, up, k)
        return bool(
            (follow != "relu" or bool((before > 0.05).any() and (before < -0.05).any()))
            and before.abs().min() > 0.01
            and gradient.abs().max() > 0.05
            and (follow in ("dict", "last") or (gradient - later).abs().max() > 0.05)
        )

    def probe(student, follow, names, lower, weight, bias, x, up, k, old):
        model = middle(follow, names, lower, weight, bias, k)
        first = model.get_submodule(f"block.{names[0]}")
        first.bias.grad = old.clone()
        passes = []
        first.bias.register_hook(lambda grad: passes.append(1))
        model.head.eval()
        hooks, before = module_hooks(model) + tensor_hooks(x), settings(model, x)
        pick = [lambda out: out[names[2]]] if follow == "dict" else []

        buffer = up.clone()
        gradient = student.activation_grad(
            model, f"block.{names[1]}", x, lambda out: Weighted.apply(out, buffer), *pick
        )
        at_once = snapshot(gradient)
        buffer.zero_()
        seen = {
            "gradient": gradient,
            "at_once": at_once,
            "settings_kept": settings(model, x) == before,
            "passes": len(passes),
            "grads": {name: snapshot(p.grad) for name, p in model.named_parameters()},
            "hooks": module_hooks(model) + tensor_hooks(x) - hooks,
        }
        seen["again"] = student.activation_grad(
            model, f"block.{names[1]}", x.flip(0), lambda out: (up * out).sum(), *pick
        )
        with expecting_boom(seen):
            student.activation_grad(model, f"block.{names[1]}", x, raise_boom, *pick)
        with expecting_boom(seen, "model_exception"), model.head.register_forward_pre_hook(raise_boom):
            student.activation_grad(model, f"block.{names[1]}", x, torch.sum, *pick)
        return {
            **seen,
            "hooks_after_exception": module_hooks(model) + tensor_hooks(x) - hooks,
            "settings_after_exception": settings(model, x) == before,
        }

    mistakes = (
        Mistake(
            "full-hook-and-in-place",
            raises="being modified inplace",
            message="A full backward hook makes the module's output a view, and a view like this cannot be changed "
            "in place. For a dict it never fires. Hook the tensor instead, inside a forward hook.",
        ),
        Mistake(
            "retain-grad-follows-in-place",
            lambda seen, follow, lower, weight, bias, x, up, k: (
                follow in ("relu", "scaled")
                and close(seen["gradient"], activation(follow, lower, weight, bias, x, up, k)[2])
            ),
            "This is the gradient after the in-place operation: `retain_grad()` goes with the tensor to its new value. "
            "A tensor hook that is registered in the forward hook stays with the old one.",
        ),
        Mistake(
            "values-not-gradients",
            lambda seen, follow, lower, weight, bias, x, up, k: close(
                seen["gradient"], activation(follow, lower, weight, bias, x, up, k)[0]
            ),
            "These are the values that left the module, not the gradients that arrive there.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, follow, up: follow == "last" and close(seen["at_once"], up) and close(seen["gradient"], 0.0),
            "Your gradient was overwritten after you stored it: another tensor has the same buffer, and somebody "
            "changed it in place. Store a copy: `grad.detach().clone()`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, follow, lower, weight, bias, x, up, k: (
                seen["hooks"].value > 0
                and close(seen["gradient"], activation(follow, lower, weight, bias, x, up, k)[1])
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            "The model or the loss raised an exception, and your hook is still there. Put `remove()` into `finally`, "
            "or use the handle as a context manager: `with module.register_forward_hook(...):`.",
        ),
        Mistake(
            "ignored-pick",
            raises=("'dict' object has no attribute", "'dict' object is not callable"),
            message="The output of this module is a dict, and a dict cannot carry a hook. `pick(output)` gives you the "
            "tensor in it.",
        ),
    )

    def test_it_is_the_gradient_at_the_value_that_left_the_module(seen, follow, lower, weight, bias, x, up, k):
        gradient = Seen(seen["at_once"].value, "gradient")
        expect(gradient).close_to(activation(follow, lower, weight, bias, x, up, k)[1])

    def test_it_is_a_copy_without_a_graph(seen, follow, lower, weight, bias, x, up, k):
        expect(Seen(seen["gradient"].value, "gradient, after a later change")).close_to(
            activation(follow, lower, weight, bias, x, up, k)[1]
        )

    def test_the_next_call_computes_afresh(seen, follow, lower, weight, bias, x, up, k):
        expect(Seen(seen["again"].value, "gradient for another x")).close_to(
            activation(follow, lower, weight, bias, x.flip(0), up, k)[1], detached=False
        )

    def test_the_parameters_keep_their_gradient_or_add_one_pass(
        seen, follow, names, lower, weight, bias, x, up, k, old
    ):
        for name, before, after in parameter_grads(follow, names, lower, weight, bias, x, up, k, old):
            mine = seen["grads"][name]
            if (mine.value is None) if before is None else close(mine, before):
                continue
            expect(mine).close_to(after)
        if seen["passes"].value not in (0, 1):
            expect(seen["passes"]).fail(f"expected one backward pass or none, saw {seen['passes'].value}")

    def test_no_hook_is_left_and_the_settings_stay(seen):
        expect(seen["hooks"]).equals(0)
        settings_stay(seen)

    def test_nothing_is_left_when_something_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["model_exception"]).equals("propagated")
        expect(seen["hooks_after_exception"]).equals(0)
        expect(seen["settings_after_exception"]).is_true(
            "after an exception a mode, a flag (such as `inplace`) or the `requires_grad` of something is not as it was"
        )


def activation(
    follow: str, lower: Tensor, weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, k: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The value that left the module, the gradient there, and the gradient after the in-place operation."""
    h = x @ lower[:, :-1].T + lower[:, -1]
    before = h @ weight.T + bias
    if follow == "last":
        return before, up, up
    if follow == "relu":
        last = before.clamp(min=0)
        later = up * (1 - torch.tanh(last) ** 2)
        return before, later * (before > 0), later
    if follow == "scaled":
        later = up * (1 - torch.tanh(k * before) ** 2)
        return before, k * later, later
    later = up * (1 - torch.tanh(before * before + (3 * h).mean()) ** 2)
    return before, 2 * before * later, later


def parameter_grads(
    follow: str, names: list[str], lower: Tensor, weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, k: float,
    old: Tensor,
) -> list[tuple[str, Tensor | None, Tensor]]:  # fmt: skip
    """For each parameter: its name, its `.grad` before, and after one plain pass through a clean twin."""
    model = middle(follow, names, lower, weight, bias, k)
    named = dict(model.named_parameters())
    found = torch.autograd.grad((up * model(x)).sum(), list(named.values()))
    grads = []
    for name, gradient in zip(named, found):
        before = old if name == f"block.{names[0]}.bias" else None
        grads.append((name, before, gradient if before is None else before + gradient))
    return grads
