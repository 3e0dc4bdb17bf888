"""Exercise 07-gradient-flow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    Mistake,
    Seen,
    close,
    exercise,
    expect,
    expecting_boom,
    module_hooks,
    no_hook_left,
    snapshot,
)
from graders.lesson_07_module_backward_hooks.judging import did_not_fail, settings_stay
from graders.lesson_07_module_backward_hooks.shared import linear, noting_errors, raise_boom, settings


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
        no_hook_left(seen["hooks"])
        settings_stay(seen)
        if not isinstance(seen["gained"]["error"].value, str):
            no_hook_left(seen["gained"]["hooks"], when="with hooks of the caller")

    def test_no_hook_is_left_when_something_raises(seen):
        expect(seen["loss_exception"]).equals("propagated")
        expect(seen["model_exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])


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
