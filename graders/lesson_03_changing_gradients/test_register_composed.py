"""Exercise 03-register-composed."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    Circumstances,
    Failure,
    Mistake,
    Witness,
    all_removed,
    beyond_float32,
    came_through,
    changes,
    close,
    exercise,
    expect,
    gradients,
    laid_out,
    nothing_changed,
    own_grads,
)
from graders.lesson_03_changing_gradients.judging import SINGLE_LOCATION, differentiated_as, expect_rare, start, times
from graders.lesson_03_changing_gradients.shared import TINY, accumulated, after_remove, flow, rare, scene

MAPS = {
    "scale": lambda grad, k: grad * k,
    "shift": lambda grad, k: grad + k,
    "limit": lambda grad, k: grad.clamp(-abs(k), abs(k)),
}
"""Functions of a gradient and a number that return a new tensor. In general they do not commute."""
Maps = list[tuple[str, float]]


@exercise(
    "03-register-composed",
    points=2,
    minutes=15,
    difficulty=2,
    title="Compose functions with hooks",
    hints=(
        "In `f(g(x))` the inner function runs first. Which entry of `fs` is the innermost?",
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before.",
        "Register the functions from the last to the first, and collect the handles. One hook that calls all of them "
        "in that order works as well.",
    ),
    why=(
        "Hooks of a tensor run in the order in which they were registered, each on the result of the one before, "
        "so the last function is registered first. One hook that calls the functions from the last to the first "
        "would do as well, with its handle alone in the list."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL,
            "collection": ("one", "many", "repeated"), "hooks": ALL, "call": ALL, "grad_mode": ALL, "backward": ALL,
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "model": "there is no model",
            "hooked": "there is one tensor to hook",
        },
    ),
)  # fmt: skip
class TestRegisterComposed:
    """Write `register_composed(t, fs)`. `t` is a tensor that requires grad, leaf or not. `fs` is a list of one or more
    functions, each from a tensor to a new tensor of the same shape and dtype; the same function may stand in it twice.

    From now on, in every backward pass that reaches `t`, the gradient `g` at `t` (as the hooks that were on `t` before
    have left it) is replaced by `fs[0](fs[1](...fs[-1](g)))`: the last function of the list is applied first. Each
    entry of the list is called exactly once for each pass, and never before the first.

    Return a list of all handles, one or more. When `remove()` was called on all of them, gradients pass as they are.

    **Example.** For a leaf `x = tensor([1.])` and `register_composed(x, [lambda g: g + 1, lambda g: g * 10])`, the call
    `(3 * x).sum().backward()` leaves `x.grad == tensor([31.])`.
    """

    def draw(rng, dtype, rank, layout, values, collection):
        # Numbers that float32 does not hold, so that a detour through float32 shows.
        numbers = {"scale": (-2.0, -1.5, 0.5, 2.0), "shift": (-2.0, -1.0, 1.0, 2.5), "limit": (1.0, 1.5, 2.0)}
        first, second, limit = ([kind, beyond_float32(rng.choice(numbers[kind]) * 9 / 7)] for kind in numbers)
        maps = {
            "one": [rng.choice((first, second))],
            # A limit that is applied twice is the same as once, so it never stands at an end of the list.
            "many": rng.choice(([first, limit, second], [second, limit, first])),
            "repeated": rng.choice(([first, first, second], [second, first, second, first], [first, second, second])),
        }[collection]
        shape, like = rng.shape(rank), {"dtype": dtype, "values": values, "layout": layout}
        return {
            **{name: rng.tensor(*shape, **like) for name in ("x", "other", "up")},
            "factors": [rng.tensor(*shape, **like) for _ in range(2)],
            "maps": maps,
            "rare_up": rng.tensor(2, 3, 2, dtype=dtype, values=values),
        }

    def alive(maps, factors, hooks):
        g, ends = factors[0] * times(hooks), (maps[0], maps[-1])
        found = [composed(maps, g), g]
        if len(maps) > 1:
            without_limit, once = [function for function in maps if function[0] != "limit"], without_repetition(maps)
            found += [composed(maps[::-1], g), summed(maps, g), *(composed([function], g) for function in ends)]
            found += [composed([function] * len(maps), g) for function in ends]
            found += [composed(fewer, g) for fewer in (without_limit, once) if len(fewer) < len(maps)]
        return not any(torch.allclose(found[0], another, atol=0.05) for another in found[1:])

    def oracle(maps, factors, up, rare_up, grad, hooks):
        first, second = (factor * times(hooks) for factor in factors)
        found = [composed(maps, g) for g in (first, second, first + second, up * times(hooks), rare_up)]
        thrice = [3 * composed(maps, g) for g in (first, 2 * rare_up[0])]
        return found, thrice, thrice[1] + 1, start(up, grad) + found[0] + found[1]

    def probe(
        student,
        x,
        other,
        factors,
        up,
        maps,
        rare_up,
        layout,
        place,
        grad,
        hooks,
        grad_mode,
        backward,
        failure,
        failing_run,
    ):
        x, t, neighbour = scene(x, other, layout, place, grad, hooks)
        factors, calls = [laid_out(factor, layout) for factor in factors], []

        def counted(kind, k):
            def function(g):
                calls.append(f"{kind} {k:.3f}")
                return MAPS[kind](g, k)

            return function

        functions = {(kind, k): counted(kind, k) for kind, k in maps}
        fs = [functions[kind, k] for kind, k in maps]
        second = torch.ones_like(x).requires_grad_()
        things = {"t": t, "x": x, "other": other, "factors": factors, "fs": fs}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handles = student.register_composed(t, fs)
            changed = witness.changes()
            # A handle may keep its hook alive, and a function may have more parameters, with defaults.
            kept = [student.register_composed(second, [lambda g, k=2: g * k, lambda g: g + 1])]

        def hooked(t):
            kept.append(student.register_composed(t, fs))  # the same list for several tensors
            return t

        seen = {"calls before the first pass": list(calls), "is_list": isinstance(handles, list)}
        seen |= rare(hooked, rare_up, later="replacing")
        seen |= {"changed": changed, **flow(x, lambda: t, other, neighbour, factors, up, backward)}
        calls.clear()
        seen |= {"x.grad after two passes": accumulated(x, t, neighbour, factors), "calls in two passes": calls[:50]}
        calls.clear()
        with own_grads([x]):
            for _ in range(2):  # the very same gradient arrives twice
                t.backward(gradient=up)
        seen["calls in two passes with one gradient"] = calls[:50]
        (seen["x.grad beside a second tensor"], seen["the gradient of a second tensor"]) = gradients(
            lambda: ((t + second) * factors[0]).sum(), [x, second]
        )

        # A second call for the same tensor, and the handles of each.
        again = student.register_composed(t, [lambda g: g * 3])
        (seen["x.grad composed twice"],) = gradients(lambda: (t * factors[0]).sum(), [x])
        seen |= after_remove("first_handles", handles, x, t, factors[0], all_removed)
        calls.clear()
        seen |= after_remove("second_handles", again, x, t, factors[0], all_removed) | {
            "calls after remove()": calls[:50]
        }
        seen["changed in the end"] = before.changes()

        # A function that raises.
        failing, z = Failure(failure, failing_run), torch.ones(2, requires_grad=True)

        def strike(g):
            failing.strike()
            return g * 5

        def hooked():
            student.register_composed(z, [lambda g: g + 1, strike])
            for _ in range(2):
                (3 * z).sum().backward()

        surroundings = Witness()
        seen |= {"failure": failing.during(hooked), "changed by a failure": surroundings.changes()}
        seen["after a failure"] = gradients(lambda: (3 * z).sum(), [z])[0]
        calls.clear()
        empty = torch.zeros(0, 2, requires_grad=True)
        student.register_composed(empty, [counted("scale", 2.0)])
        empty.sum().backward()
        seen["calls for an empty gradient"] = calls[:50]
        x = torch.ones(1, requires_grad=True)
        student.register_composed(x, [lambda g: g + 1, lambda g: g * 10])
        (3 * x).sum().backward()
        return {**seen, "example": x.grad}

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, maps, factors, hooks: (
                close(seen["example"], 40.0) and close(seen["x.grad"], composed(maps[::-1], factors[0] * times(hooks)))
            ),
            "You applied `fs[0]` first. Hooks run in the order in which they were registered, so the innermost "
            "function, `fs[-1]`, has to be registered first.",
        ),
        Mistake(
            "only-one-hook",
            lambda seen, maps, factors, hooks: (
                (close(seen["example"], 4.0) or close(seen["example"], 30.0))
                and any(close(seen["x.grad"], composed([function], factors[0] * times(hooks))) for function in maps)
            ),
            "Only one function of the list was applied. All of them have to be, each to the result of the one before.",
        ),
        Mistake(
            "not-chained",
            lambda seen, maps, factors, hooks: (
                close(seen["example"], 34.0) and close(seen["x.grad"], summed(maps, factors[0] * times(hooks)))
            ),
            "You gave the arriving gradient to each function and added up the results. Each function must receive the "
            "result of the one before.",
        ),
        Mistake(
            "late-binding",
            lambda seen, maps, factors, hooks: (
                (close(seen["example"], 5.0) or close(seen["example"], 300.0))
                and any(
                    close(seen["x.grad"], composed([function] * len(maps), factors[0] * times(hooks)))
                    for function in (maps[0], maps[-1])
                )
            ),
            "All your hooks call the same function: a lambda reads the loop variable when it runs, and by then it has "
            "its last value. Register `f` itself, or bind it: `lambda grad, f=f: f(grad)`.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, maps, factors, hooks: (
                close(seen["x.grad"], factors[0] * times(hooks)) and len(seen["calls in two passes"]) == 2 * len(maps)
            ),
        ),
        Mistake(
            "in-place-leak",
            lambda seen, maps, factors, hooks: (
                close(seen["x.grad"], composed(maps, factors[0] * times(hooks)))
                and not (
                    close(seen["neighbour.grad"], -factors[0])
                    and close(seen["the gradient of a second tensor"], 2 * (factors[0] + 1))
                )
            ),
            raises=SINGLE_LOCATION,
        ),
        Mistake(
            "a-handle-is-missing",
            lambda seen, factors, hooks: (
                seen["first_handles has remove()"].value is True
                and bool(changes(seen["changed in the end"], "hook-left t"))
                and not close(seen["x.grad after first_handles.remove()"], 3 * factors[0] * times(hooks))
            ),
            "The caller removed all handles of your list, and a function is still called. The list needs the handle of "
            "every hook that you register.",
        ),
        Mistake(
            "changed-the-list",
            lambda seen: changes(seen["changed"], "entries fs"),
            "Your function changed the caller's list `fs`. `reversed(fs)` and `fs[::-1]` leave it as it is; "
            "`fs.reverse()` and `fs.pop()` do not.",
        ),
    )

    def test_the_functions_are_applied_from_the_last_to_the_first(seen, factors, up, maps, grad, hooks):
        first, second = (factor * times(hooks) for factor in factors)
        expect(seen["x.grad"]).close_to(composed(maps, first))
        expect(seen["x.grad of another pass"]).close_to(composed(maps, second))
        expect(seen["x.grad of a pass, read after the next pass"]).close_to(composed(maps, first))
        expect(seen["x.grad of a sum"]).close_to(composed(maps, torch.full_like(up, times(hooks))))
        expect(seen["x.grad of two uses"]).close_to(composed(maps, first + second))
        expect(seen["x.grad of gradient="]).close_to(composed(maps, up * times(hooks)))
        expect(seen["x.grad of zeros"]).close_to(composed(maps, torch.zeros_like(up)))
        tiny = composed(maps, torch.full_like(up, times(hooks) * TINY))
        expect(seen["x.grad of a tiny gradient"]).close_to(tiny, atol=0)
        expect(seen["x.grad of infinities"]).close_to(composed(maps, torch.full_like(up, torch.inf)))
        expect(seen["x.grad after two passes"]).close_to(
            start(up, grad) + composed(maps, first) + composed(maps, second)
        )
        expect(seen["example"]).close_to(torch.tensor([31.0]))

    def test_each_function_is_called_once_for_each_pass(seen, maps):
        expect(seen["calls before the first pass"]).equals([])
        for name in ("calls in two passes", "calls in two passes with one gradient"):
            expect(seen[name]).equals(2 * [f"{kind} {k:.3f}" for kind, k in reversed(maps)])

        expect(seen["calls for an empty gradient"]).equals(["scale 2.000"])

    def test_the_gradient_can_be_differentiated_again(seen, factors, maps, hooks):
        k = factors[0].clone().requires_grad_()
        (again,) = torch.autograd.grad(composed(maps, k * times(hooks)).sum(), k)
        differentiated_as(seen["x.grad differentiated"], again)

    def test_any_tensor_changes_before_the_hooks_that_came_later(seen, maps, rare_up):
        expect_rare(seen, rare_up, of_two=3 * composed(maps, 2 * rare_up[0]) + 1, turned=composed(maps, rare_up))

    def test_each_call_has_functions_of_its_own(seen, factors, maps, hooks):
        expect(seen["x.grad beside a second tensor"]).close_to(composed(maps, factors[0] * times(hooks)))
        expect(seen["the gradient of a second tensor"]).close_to(2 * (factors[0] + 1))
        expect(seen["x.grad composed twice"]).close_to(3 * composed(maps, factors[0] * times(hooks)))

    def test_the_handles_remove_all_hooks_and_no_other(seen, factors, hooks):
        expect(seen["is_list"]).is_true("the function did not return a list of handles (a tuple is no list)")
        for handles, left in (("first_handles", 3), ("second_handles", 1)):
            expect(seen[f"{handles} has remove()"]).is_true("the list holds something that has no remove() method")
            expect(seen[f"x.grad after {handles}.remove()"]).close_to(left * factors[0] * times(hooks))
        expect(seen["calls after remove()"]).equals([])
        nothing_changed(seen["changed in the end"], but=["grad-* *"], when="after `remove()`")

    def test_nothing_else_changes(seen, factors, up):
        expect(seen["neighbour.grad"]).close_to(-factors[0])
        expect(seen["neighbour.grad of a sum"]).close_to(torch.full_like(up, -1))
        expect(seen["gradient="]).close_to(up)
        nothing_changed(seen["changed"], but=["hook-left t"])

    def test_an_error_of_a_function_comes_through(seen):
        came_through(seen["failure"], "a function of the list")
        nothing_changed(seen["changed by a failure"], when="after a function of the list raised")
        expect(seen["after a failure"]).close_to(torch.full((2,), 16.0))


def composed(maps: Maps, gradient: Tensor) -> Tensor:
    """The functions of `maps` applied to a gradient, the last one first."""
    for kind, k in reversed(maps):
        gradient = MAPS[kind](gradient, k)
    return gradient


def summed(maps: Maps, gradient: Tensor) -> Tensor:
    """The sum of the results of all functions, each applied to the same gradient."""
    return sum(MAPS[kind](gradient, k) for kind, k in maps)


def without_repetition(maps: Maps) -> Maps:
    """Each function of `maps` at its first place only."""
    return [function for index, function in enumerate(maps) if function not in maps[:index]]
