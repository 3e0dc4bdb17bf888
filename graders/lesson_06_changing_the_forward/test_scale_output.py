"""Exercise 06-scale-output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, Seen, close, exercise, expect, module_hooks, no_hook_left, removed, snapshot
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE
from graders.lesson_06_changing_the_forward.shared import layer, pulled_back


@exercise(
    "06-scale-output",
    points=1,
    title="Scale what a module says",
    hints=(
        "A forward hook that returns something replaces the module's output by it.",
        "Compute a new tensor. An in-place change of `output` overwrites numbers that the backward pass needs.",
        "No `detach()`, no `.data`, no `torch.no_grad()`: autograd has to see the multiplication. "
        "And return the handle.",
    ),
    cases=({"kind": "sigmoid"}, {"kind": "tanh"}, {"kind": "linear"}),
)
class TestScaleOutput:
    """Write `scale_output(module, s)`. `module` is any module whose output is a tensor, and `s` is a number. From
    now on, the output of every call of `module` is multiplied by `s`. Return the handle; after `handle.remove()` the
    module gives its own output again.

    Autograd follows the multiplication: the gradients before the module are those of the multiplied output. Two calls
    of `scale_output` on the same module multiply by both numbers, and each has a handle of its own. The module's
    parameters, its mode (train or eval) and the values of the caller's tensors stay as they are.

    **Example.** With `act = nn.Sigmoid()` and `handle = scale_output(act, 3.0)`, the call
    `act(torch.tensor([0.]))` gives `tensor([1.5000])`, and the gradient at this input is `3 * 0.5 * (1 - 0.5) = 0.75`.
    """

    def draw(rng, kind):
        return {
            "kind": kind,
            "weight": rng.tensor(3, 3),
            "x": rng.tensor(2, 3, low=-2, high=2),
            "up": rng.tensor(2, 3, low=0.5),
            "s": rng.choice((-2.0, -1.5, 0.5, 2.0, 3.0)),
            "t": rng.choice((-3.0, -2.5, 1.5, 2.5)),
        }

    def probe(student, kind, weight, x, up, s, t):
        x.requires_grad_()
        module = layer(kind, weight)
        first = student.scale_output(module, s)
        seen = {"hooks": module_hooks(module)}
        y = module(x)
        seen["y"] = snapshot(y)
        seen["x.grad"] = snapshot(pulled_back(y, up, x))
        seen["weight.grad"] = next((snapshot(p.grad) for p in module.parameters()), None)
        seen["mode_kept"] = module.training
        module.eval()
        seen["again"] = snapshot(module(module(x.detach())))
        module.train()
        second = student.scale_output(module, t)
        y = module(x)
        seen["both"] = snapshot(y)
        seen["both.grad"] = snapshot(pulled_back(y, up, x))
        seen["has_remove"] = removed(first)
        seen["second_only"] = snapshot(module(x))
        removed(second)
        seen["after_remove"] = snapshot(module(x))
        seen["hooks_left"] = module_hooks(module)
        seen["weight"] = next((snapshot(p) for p in module.parameters()), None)
        container, mine = nn.Sequential(nn.Identity(), nn.Identity()), x.detach().clone()  # hands its input on
        student.scale_output(container, s)
        seen["in_float64"] = snapshot(container(mine.double()))
        seen["of_another_shape"] = snapshot(container(mine[0]))
        with torch.no_grad():
            seen["without_gradients"] = snapshot(container(mine))
        seen["callers"] = mine
        return seen

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, kind, weight, x: seen["hooks"].value != 0 and close(seen["y"], plain(kind, weight, x)),
        ),
        Mistake(
            "in-place-output",
            raises="modified by an inplace operation",
            message="Your hook changed `output` in place. The backward of Sigmoid and Tanh needs the old output, and "
            "it is overwritten. Compute a new tensor, `output * s`, and return it.",
        ),
        Mistake(
            "data-edit",
            lambda seen, kind, weight, x, up, s: (
                close(seen["y"], s * plain(kind, weight, x))
                and any(close(seen["x.grad"], one) for one in hidden_from_autograd(kind, weight, x, up, s))
            ),
            "The output is right, but the gradient does not know of `s`: you changed the numbers behind autograd's "
            "back (`.data`, or the weights). Return `output * s`, computed by an ordinary operation.",
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, kind, weight, x, s: (
                close(seen["y"], s * plain(kind, weight, x)) and seen["x.grad"].value is None
            ),
            "The output is right, but no gradient comes through any more. Your hook returned a tensor without a "
            "graph: leave out `detach()`, `.data` and `torch.no_grad()`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, kind, weight, x, s: kind != "linear" and close(seen["y"], plain(kind, weight, s * x)),
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value != 0 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_every_output_is_multiplied(seen, kind, weight, x, s):
        expect(seen["y"]).close_to(s * plain(kind, weight, x))
        expect(seen["again"]).close_to(s * plain(kind, weight, s * plain(kind, weight, x)))

    def test_the_gradient_is_multiplied_too(seen, kind, weight, x, up, s):
        expect(seen["x.grad"]).close_to(s * pull(kind, weight, x, up))
        if kind == "linear":
            expect(seen["weight.grad"]).close_to(s * up.T @ x)

    def test_two_hooks_multiply_by_both_numbers(seen, kind, weight, x, up, s, t):
        expect(seen["both"]).close_to(s * t * plain(kind, weight, x))
        expect(seen["both.grad"]).close_to(s * t * pull(kind, weight, x, up))

    def test_each_handle_removes_its_own_hook(seen, kind, weight, x, t):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["second_only"]).close_to(t * plain(kind, weight, x))
        expect(seen["after_remove"]).close_to(plain(kind, weight, x))
        no_hook_left(seen["hooks_left"])

    def test_any_module_and_any_tensor_will_do(seen, x, s):
        expect(seen["of_another_shape"]).close_to(s * x[0])
        expect(seen["in_float64"]).close_to(s * x.double())
        expect(seen["without_gradients"]).close_to(s * x)

    def test_parameters_mode_and_tensors_of_the_caller_stay(seen, kind, weight, x):
        expect(seen["mode_kept"]).is_true("the module is no longer in train mode")
        if kind == "linear":
            expect(seen["weight"]).close_to(weight, detached=False)
        expect(Seen(seen["callers"].value, "the tensor that nn.Identity got and returned")).close_to(x)


def plain(kind: str, weight: Tensor, x: Tensor) -> Tensor:
    """The output of `layer(kind, weight)` without any hook, in closed form."""
    return {"sigmoid": lambda: 1 / (1 + torch.exp(-x)), "tanh": lambda: torch.tanh(x), "linear": lambda: x @ weight.T}[
        kind
    ]()


def pull(kind: str, weight: Tensor, x: Tensor, up: Tensor) -> Tensor:
    """What comes to the input when the plain output receives `up`, in closed form."""
    v = plain(kind, weight, x)
    return {"sigmoid": lambda: up * v * (1 - v), "tanh": lambda: up * (1 - v * v), "linear": lambda: up @ weight}[
        kind
    ]()


def hidden_from_autograd(kind: str, weight: Tensor, x: Tensor, up: Tensor, s: float) -> list[Tensor]:
    """The gradients that come out when autograd has not seen the multiplication."""
    v = s * plain(kind, weight, x)
    overwritten = {"sigmoid": up * v * (1 - v), "tanh": up * (1 - v * v)}  # backward reads the edited output
    return [pull(kind, weight, x, up), *([overwritten[kind]] if kind in overwritten else [])]
