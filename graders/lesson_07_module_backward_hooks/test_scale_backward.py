"""Exercise 07-scale-backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, Seen, close, exercise, expect, module_hooks, no_hook_left, removed, snapshot
from graders.lesson_07_module_backward_hooks.judging import did_not_fail
from graders.lesson_07_module_backward_hooks.shared import Fork, Squashed, linear, noting_errors


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
        expect(seen["hooks_left"]).has_length(3, "counts")
        for count in seen["hooks_left"]:
            no_hook_left(count)


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
