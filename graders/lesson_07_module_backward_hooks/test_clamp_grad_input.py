"""Exercise 07-clamp-grad-input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    Mistake,
    Seen,
    close,
    exercise,
    expect,
    module_hooks,
    no_hook_left,
    removed,
    snapshot,
    tensor_hooks,
)
from graders.lesson_07_module_backward_hooks.judging import did_not_fail
from graders.lesson_07_module_backward_hooks.shared import linear, noting_errors


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
        no_hook_left(seen["hooks_left"])
        no_hook_left(seen["removed_blend"]["hooks"])


def clamped(gradient: Tensor, c: float) -> Tensor:
    """`gradient` limited to [-c, c]."""
    return gradient.clamp(-c, c)


def wrong_length(seen: Seen) -> bool:
    """Whether the module with three inputs complained about the number of gradients."""
    return "invalid number of grad_" in str(seen["blend"]["error"].value)
