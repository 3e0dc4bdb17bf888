"""Exercise 07-activation-grad."""

from __future__ import annotations

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
    tensor_hooks,
)
from graders.lesson_07_module_backward_hooks.judging import settings_stay
from graders.lesson_07_module_backward_hooks.shared import Weighted, linear, raise_boom, settings


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
            expect(seen["passes"]).differs("one backward pass or none", str(seen["passes"].value))

    def test_no_hook_is_left_and_the_settings_stay(seen):
        no_hook_left(seen["hooks"])
        settings_stay(seen)

    def test_nothing_is_left_when_something_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["model_exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])
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
