"""Exercise 07-watch-module-grads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, Seen, close, exercise, expect, module_hooks, no_hook_left, removed, snapshot
from graders.lesson_07_module_backward_hooks.shared import Fork, Squashed, copied, linear


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def expect_gradients(seen: Seen, expected: tuple[Tensor | None, ...]) -> None:
    """A tuple with these gradients, None where there is none."""
    expect(seen).has_length(len(expected), container=tuple)
    for entry, gradient in zip(seen, expected):
        if gradient is None:
            expect(entry).equals(None)
        else:
            expect(entry).close_to(gradient)


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
        no_hook_left(seen["hooks_left"])


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
