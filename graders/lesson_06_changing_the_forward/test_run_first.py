"""Exercise 06-run-first."""

from __future__ import annotations

from collections.abc import Callable

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
    removed,
    snapshot,
)
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE
from graders.lesson_06_changing_the_forward.shared import layer, raising


def operation(sign: str, number: float, calls: list | None = None) -> Callable[..., Tensor]:
    """A forward hook that adds `number` to the output, or multiplies it."""

    def run(module, args, output):
        if calls is not None:
            alone = args[0] if type(args) is tuple and len(args) == 1 else None
            calls.append([snapshot(output), snapshot(alone), isinstance(module, nn.Module)])
        return output + number if sign == "+" else output * number

    return run


@exercise(
    "06-run-first",
    points=1,
    title="First in the queue",
    hints=(
        "One keyword argument of `register_forward_hook` is enough.",
        "A pre-hook would be too early: it runs before there is an output.",
        "Leave the other hooks alone. `prepend=True` puts yours in front of them.",
    ),
)
class TestRunFirst:
    """Write `run_first(module, hook)`. `hook` is a forward hook, called as `hook(module, args, output)`. Register
    it on `module` so that it runs before all forward hooks that `module` has at this moment, in every call from now
    on. What it returns counts as with any forward hook: anything but `None` replaces the output, even `False`. Return
    its handle.

    The other forward hooks stay registered, in their order, and their own handles still remove them. When `run_first`
    is used twice, the later hook runs before the earlier one. After `handle.remove()` the module behaves as before.

    **Example.** `module` computes `z` and has two hooks that return `output + 1` and `output * 10`, in this order.
    After `handle = run_first(module, lambda module, args, output: output - 5)` it gives `((z - 5) + 1) * 10`.
    """

    def draw(rng):
        return {
            "weight": rng.tensor(3, 3),
            "x": rng.tensor(2, 3),
            "a": rng.uniform(1, 3),
            "b": rng.choice((4.0, 5.0, 10.0)),
            "c": -rng.uniform(4, 7),
            "d": rng.choice((-3.0, -2.0, 2.0, 3.0)),
            "e": rng.uniform(8, 9),
        }

    def probe(student, weight, x, a, b, c, d, e):
        module = layer("linear", weight)
        calls = []
        adding = module.register_forward_hook(operation("+", a))
        times = operation("*", b)
        module.register_forward_hook(lambda m, args, kwargs, out: times(m, args, out), with_kwargs=True)
        first = student.run_first(module, operation("+", c, calls))
        seen = {"hooks": module_hooks(module), "called_at_once": len(calls)}
        y = module(x)
        seen |= {"one": snapshot(y), "followed": y.requires_grad, "received": calls[:20]}
        watched = []
        watching = student.run_first(module, lambda m, args, output: watched.append(snapshot(output)))
        seen |= {"watched_over": snapshot(module(x)), "watched": watched[:20]}
        removed(watching)
        second = student.run_first(module, operation("*", d))
        seen["two"] = snapshot(module(x))
        late = module.register_forward_hook(operation("+", e))
        seen["late"] = snapshot(module(x))
        late.remove()
        seen["has_remove"] = removed(second)
        seen["second_removed"] = snapshot(module(x))
        adding.remove()
        seen["adding_removed"] = snapshot(module(x))
        removed(first)
        seen["all_removed"] = snapshot(module(x))
        seen["hooks_left"] = module_hooks(module)
        container = nn.Sequential(nn.Identity(), nn.Identity())
        student.run_first(container, operation("+", c))
        seen["of_a_container"] = snapshot(container(x))
        student.run_first(container[0], lambda *_: False)
        seen["false"] = container[0](x)
        with expecting_boom(seen):
            student.run_first(container[1], raising)
            container[1](x)
        return seen

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, weight, x, a, b, c: close(seen["one"], (x @ weight.T + a) * b + c),
            "Your hook ran last: forward hooks run in the order in which they were registered. `prepend=True` puts "
            "a hook in front of those that are already there.",
        ),
        Mistake(
            "removed-others",
            lambda seen, weight, x, a, b, c: any(
                close(seen["one"], value) for value in (x @ weight.T + c, x @ weight.T + c + a, (x @ weight.T + c) * b)
            ),
            "Other hooks of the module are gone, or were registered anew and lost their options. Leave them as they "
            "are: `prepend=True` puts yours in front of them.",
            raises="missing 1 required positional argument: 'out'",
        ),
        Mistake(
            "wrong-hook-kind",
            raises="missing 1 required positional argument: 'output'",
            message="You registered a pre-hook. It runs before `forward`, when there is no output yet. The task asks "
            "for a forward hook that runs before the other forward hooks.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, weight, x, a, b: len(seen["received"]) > 0 and close(seen["one"], (x @ weight.T + a) * b),
            "The hook was called, but what it returned got lost. Register `hook` itself, or return its result from "
            "your wrapper.",
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value == 3 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_the_hook_runs_before_the_others(seen, weight, x, a, b, c):
        expect(seen["one"]).close_to((x @ weight.T + c + a) * b)
        expect(seen["called_at_once"]).equals(0)
        expect(seen["received"]).has_length(1, "calls of the hook")
        expect(seen["received"][0][0]).close_to(x @ weight.T)
        expect(Seen(seen["received"][0][1].value, "args[0]")).close_to(x)
        expect(seen["received"][0][2]).is_true("the hook did not receive the module")

    def test_its_result_counts_as_with_any_forward_hook(seen, weight, x, a, b, c):
        expect(seen["followed"]).is_true("the output of the module no longer requires grad")
        expect(seen["watched"]).has_length(1, "calls of a hook that returns None")
        expect(seen["watched"][0]).close_to(x @ weight.T)
        expect(seen["watched_over"]).close_to((x @ weight.T + c + a) * b)
        expect(Seen(seen["of_a_container"].value, "the output of a Sequential")).close_to(x + c)
        expect(Seen(seen["false"].value, "the output after a hook that returns False")).equals(False)
        expect(Seen(seen["exception"].value, "an exception in the hook")).equals("propagated")

    def test_the_later_of_two_runs_first(seen, weight, x, a, b, c, d):
        expect(seen["two"]).close_to((x @ weight.T * d + c + a) * b)

    def test_the_others_stay_in_their_order_with_their_handles(seen, weight, x, a, b, c, d, e):
        expect(seen["late"]).close_to((x @ weight.T * d + c + a) * b + e)
        expect(seen["adding_removed"]).close_to((x @ weight.T + c) * b)

    def test_the_handle_removes_the_hook(seen, weight, x, a, b, c):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["second_removed"]).close_to((x @ weight.T + c + a) * b)
        expect(seen["all_removed"]).close_to(x @ weight.T * b)
        no_hook_left(seen["hooks_left"], before=1)
