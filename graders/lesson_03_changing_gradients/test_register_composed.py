"""Exercise 03-register-composed."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_03_changing_gradients.judging import fan

MAPS = {
    "scale": lambda grad, k: grad * k,
    "shift": lambda grad, k: grad + k,
    "limit": lambda grad, k: grad.clamp(-abs(k), abs(k)),
}
"""Functions of a gradient and a number that return a new tensor. In general they do not commute."""


@exercise(
    "03-register-composed",
    points=2,
    title="Compose functions with hooks",
    hints=(
        "In `f(g(x))` the inner function runs first. Which entry of `fs` is the innermost?",
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before.",
        "Register the functions from the last to the first, and collect the handles. One hook that calls all of them "
        "in that order works as well.",
    ),
    cases=(
        {"count": 3, "leaf": True, "dtype": torch.float32},
        {"count": 3, "leaf": False, "dtype": torch.float64},
        {"count": 4, "leaf": True, "dtype": torch.float32},
    ),
)
class TestRegisterComposed:
    """Write `register_composed(t, fs)`. `t` is a tensor that requires grad, leaf or not. `fs` is a list of one or
    more functions, each from a tensor to a new tensor of the same shape and dtype. From now on, in every backward pass,
    the gradient `g` that arrives at `t` is replaced by `fs[0](fs[1](...fs[-1](g)))`: the last function of the list is
    applied first. Each function is called exactly once for each pass, and never before the first.

    Return a list of all handles, one or more. When `remove()` was called on all of them, gradients pass as they are.
    The list `fs` stays as it is.

    **Example.** For a leaf `x = tensor([1.])` and `register_composed(x, [lambda g: g + 1, lambda g: g * 10])`, the
    call `(3 * x).sum().backward()` leaves `x.grad == tensor([31.])`.
    """

    def draw(rng, count, leaf, dtype):
        # A limit that is applied twice is the same as once, so it never stands at an end of the list.
        first, last = rng.shuffled(["scale", "shift"])
        kinds = [first, *rng.shuffled(["limit", rng.choice(("scale", "shift"))][: count - 2]), last]
        numbers = {"scale": (-2.0, -1.5, 0.5, 2.0), "shift": (-2.0, -1.0, 1.0, 2.5), "limit": (1.0, 1.5, 2.0)}
        return {
            "x": rng.tensor(3, dtype=dtype),
            "maps": [[kind, rng.choice(numbers[kind])] for kind in kinds],
            "factors": [rng.tensor(3, dtype=dtype) for _ in range(2)],
            "leaf": leaf,
        }

    def alive(maps, factors):
        g, ends, without_limit = factors[0], (maps[0], maps[-1]), [one for one in maps if one[0] != "limit"]
        found = [composed(maps, g), composed(maps[::-1], g), summed(maps, g), composed(without_limit, g), g]
        found += [composed([one] * times, g) for one in ends for times in (1, len(maps))]
        return not any(torch.allclose(a, b, atol=0.05) for i, a in enumerate(found) for b in found[:i])

    def probe(student, x, maps, factors, leaf):
        x.requires_grad_()
        t = x if leaf else 2 * x
        calls = []

        def counted(index, kind, k):
            def function(grad):
                calls.append(index)
                return MAPS[kind](grad, k)

            return function

        fs = [counted(index, kind, k) for index, (kind, k) in enumerate(maps)]
        given, hooks = list(fs), tensor_hooks(t)
        handles = student.register_composed(t, fs)
        seen = {"calls_before": calls[:50], "is_list": isinstance(handles, (list, tuple))}
        seen |= {"fs_kept": len(fs) == len(given) and all(a is b for a, b in zip(fs, given))}
        for number, factor in enumerate(factors):
            x.grad = None
            (t * factor).sum().backward(retain_graph=True)
            seen |= {f"x.grad of pass {number + 1}": snapshot(x.grad)}
        seen |= {"calls": calls[:50]}
        x.grad, second = None, torch.ones_like(x).requires_grad_()
        _kept = student.register_composed(second, [lambda grad: grad * 2])
        ((t + second) * factors[0]).sum().backward(retain_graph=True)
        seen |= {"x.grad beside a second tensor": snapshot(x.grad), "second.grad": second.grad}
        x.grad = None
        seen |= {"has_remove": removed(handles), "hooks left": tensor_hooks(t) - hooks}
        (t * factors[0]).sum().backward()
        return {**seen, "x.grad after remove": x.grad, "calls_in_the_end": len(calls)}

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, maps, factors, leaf: first_is(seen, leaf, composed(maps[::-1], factors[0])),
            "You applied `fs[0]` first. Hooks run in the order in which they were registered, so the innermost "
            "function, `fs[-1]`, has to be registered first.",
        ),
        Mistake(
            "only-one-hook",
            lambda seen, maps, factors, leaf: any(
                first_is(seen, leaf, composed([one], factors[0])) for one in (maps[0], maps[-1])
            ),
            "Only one function of the list was applied. All of them have to be, each to the result of the one before.",
        ),
        Mistake(
            "not-chained",
            lambda seen, maps, factors, leaf: first_is(seen, leaf, summed(maps, factors[0])),
            "You gave the arriving gradient to each function and added up the results. Each function must receive the "
            "result of the one before.",
        ),
        Mistake(
            "late-binding",
            lambda seen, maps, factors, leaf: any(
                first_is(seen, leaf, composed([one] * len(maps), factors[0])) for one in (maps[0], maps[-1])
            ),
            "All your hooks call the same function: a lambda reads the loop variable when it runs, and by then it has "
            "its last value. Register `f` itself, or bind it: `lambda grad, f=f: f(grad)`.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, factors, leaf: first_is(seen, leaf, factors[0]) and len(seen["calls"]) > 0,
        ),
    )

    def test_the_functions_are_applied_from_the_last_to_the_first(seen, maps, factors, leaf):
        for number, factor in enumerate(factors):
            expect(seen[f"x.grad of pass {number + 1}"]).close_to(fan(leaf) * composed(maps, factor))

    def test_each_function_is_called_once_for_each_pass(seen, maps):
        expect(seen["calls_before"]).equals([])
        expect(seen["calls"]).equals(2 * list(range(len(maps)))[::-1])

    def test_a_second_tensor_has_its_own_functions(seen, maps, factors, leaf):
        expect(seen["x.grad beside a second tensor"]).close_to(fan(leaf) * composed(maps, factors[0]))
        expect(seen["second.grad"]).close_to(2 * factors[0])

    def test_the_handles_remove_all_hooks(seen, maps, factors, leaf):
        expect(seen["is_list"]).is_true("the function did not return a list of handles")
        expect(seen["has_remove"]).is_true("the list holds something that has no remove() method")
        expect(seen["x.grad after remove"]).close_to(fan(leaf) * factors[0])
        no_hook_left(seen["hooks left"])
        expect(seen["calls_in_the_end"]).equals(3 * len(maps))

    def test_the_list_stays_as_it_is(seen):
        expect(seen["fs_kept"]).is_true("your function changed the caller's list fs")


def composed(maps: list[tuple[str, float]], gradient: Tensor) -> Tensor:
    """The functions of `maps` applied to a gradient, the last one first."""
    for kind, k in reversed(maps):
        gradient = MAPS[kind](gradient, k)
    return gradient


def summed(maps: list[tuple[str, float]], gradient: Tensor) -> Tensor:
    """The sum of the results of all functions, each applied to the same gradient."""
    return sum(MAPS[kind](gradient, k) for kind, k in maps)


def first_is(seen: Seen, leaf: bool, gradient: Tensor) -> bool:
    """Whether this is the gradient that left `t` in the first pass."""
    return close(seen["x.grad of pass 1"], fan(leaf) * gradient)
