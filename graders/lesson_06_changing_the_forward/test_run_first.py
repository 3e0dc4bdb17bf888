"""Exercise 06-run-first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    close,
    exercise,
    expect,
    fill_grads,
    nothing_changed,
    prepared,
    removed,
    snapshot,
)
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE, plain, pulls
from graders.lesson_06_changing_the_forward.shared import gradients_at, layer_of


def adding(number: float, log: list[Any] | None = None, of: nn.Module | None = None) -> Callable[..., Tensor]:
    """A forward hook that adds a number to the output, and notes how it was called on the module `of`."""

    def hook(module: nn.Module, args: Any, output: Any) -> Tensor:
        if log is not None:
            alone = args[0] if type(args) is tuple and len(args) == 1 else None
            log.append([snapshot(output), snapshot(alone), module is of])
        return output + number

    return hook


def multiplying(number: float, log: list[Any] | None = None) -> Callable[..., Tensor]:
    """A forward hook that multiplies the output, and counts its calls."""

    def hook(module: nn.Module, args: Any, output: Any) -> Tensor:
        if log is not None:
            log.append(1)
        return output * number

    return hook


RETURNED = {"tensor": False, "tuple": (), "dict": {}}
"""What a hook returns, which counts although Python takes it for false."""


class Answering(nn.Module):
    """Hands on what it is given, of any type."""

    def forward(self, x: Any) -> Any:
        """Its argument."""
        return x


@exercise(
    "06-run-first",
    points=1,
    minutes=5,
    difficulty=1,
    title="First in the queue",
    hints=(
        "One keyword argument of `register_forward_hook` is enough.",
        "A pre-hook would be too early: it runs before there is an output.",
        "Leave the other hooks alone. `prepend=True` puts yours in front of them.",
    ),
    why=(
        "`prepend=True` is made for this, and the handle comes with it. Removing the other hooks and registering "
        "them again behind yours would not do: their handles would then stand for hooks that are gone."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "mode": ("train", "eval"),
            "layers": ("activation", "linear", "convolution"), "output": ALL,
            "call": ALL, "grad_mode": ALL, "backward": ALL, "failure": ALL,
        },
        excludes={
            "place": "the function gets no tensor",
            "grad": "the function gets no tensor",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "model": "the module is called by itself, and the function does not look into it",
            "hooks": "`there` says how many; they add, multiply, watch",
            "failing_run": "there is one run",
        },
        own={"there": (2, 0, 1, 3)},
        impossible=[lambda rank, layers: rank < {"linear": 1, "convolution": 3, "activation": 0}[layers]],
    ),
)  # fmt: skip
class TestRunFirst:
    """Write `run_first(module, hook)`. `hook` is a forward hook, called as `hook(module, args, output)` with the output
    itself. Register it on `module` so that in every call from now on it runs once, before all forward hooks that
    `module` has at this moment. What it returns or raises counts as with any forward hook: anything but `None` replaces
    the output, even `False`. It is not called when `forward` raises. Return its handle; after `handle.remove()` the
    module behaves as before.

    The handles of the other hooks still remove them. When `run_first` is used twice, the later hook runs before the
    earlier one.

    **Example.** `module` computes `z` and has two hooks that return `output + 1` and `output * 10`, in this order.
    After `handle = run_first(module, lambda module, args, output: output - 5)` it gives `((z - 5) + 1) * 10`.
    """

    def draw(rng, dtype, rank, layout, values, layers):
        shape = rng.shape(rank)
        size = {"linear": shape[-1:], "convolution": shape[1:2], "activation": (1,)}[layers]
        return {
            "x": rng.tensor(*shape, dtype=dtype, values=values, layout=layout, low=-2, high=2),
            "weight": rng.tensor(*size, *size, dtype=dtype, values=values),
            "up": rng.tensor(*shape, dtype=dtype, values=values, low=0.5),
            "a": rng.uniform(1, 3),
            "b": rng.choice((4.0, 5.0, 10.0)),
            "c": -rng.uniform(4, 7),
            "d": rng.choice((-3.0, -2.0, 2.0, 3.0)),
            "e": rng.uniform(8, 9),
        }

    def oracle(x, weight, up, a, b, c, d, e, layers, there):
        own = plain(layers, weight, x)
        outs = [after(out, there, a, b) for out in (own + c, own * d, own * d + c)]
        return own, outs, outs[-1] + e, after(own + c, there, 0.0, b), b * pulls(layers, weight, x, up)[0]

    def probe(student, x, weight, up, a, b, c, d, e, layers, layout, mode, output, grad_mode, backward, failure, there):
        x = prepared(x, layout=layout)
        module = fill_grads(layer_of(layers, weight, x.dim()).train(mode == "train"))
        twin = layer_of(layers, weight, x.dim())
        calls, others = [], []
        handles = []
        if there > 1:
            handles.append(module.register_forward_hook(adding(a)))
        if there > 0:
            product = multiplying(b, others)
            module.register_forward_hook(lambda m, args, kwargs, out: product(m, args, out), with_kwargs=True)
        if there > 2:
            module.register_forward_hook(lambda m, args, out: others.append("always"), always_call=True)
        things = {"module": module, "twin": twin, "x": x}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            first = student.run_first(module, adding(c, calls, module))
            seen = {"changed": witness.changes(), "called at once": len(calls)}
        seen |= {"y": snapshot(module(x)), "calls": calls[:20], "twin": snapshot(twin(x))}
        seen["gradients"] = gradients_at([x, *module.parameters()], lambda: module(x), up, backward)
        module.train(mode != "train")
        with torch.no_grad():
            seen["y under no_grad, in the other mode"] = module(x)
        module.train(mode == "train")

        watched, written = [], []
        watching = student.run_first(module, lambda m, args, out: watched.append(snapshot(out)))
        seen |= {"y with a watching hook first": snapshot(module(x)), "watched": watched[:20]}
        removed(watching)
        with torch.no_grad():
            writing = student.run_first(module, lambda m, args, out: written.append(out.mul_(d)))
            seen["y with a hook that writes first"] = module(x)
            removed(writing)
        second = student.run_first(module, multiplying(d))
        seen["y with two"] = snapshot(module(x))
        late = module.register_forward_hook(adding(e))
        seen["y with two and a later hook"] = snapshot(module(x))
        late.remove()
        seen["has_remove"] = removed(second)
        seen["y when the second was removed"] = snapshot(module(x))
        fourth = student.run_first(module, multiplying(d))
        removed(first)
        seen["y when the first was removed"] = snapshot(module(x))
        removed(fourth)
        seen["changed in the end"] = before.changes()
        for handle in handles:
            handle.remove()
        third = student.run_first(module, adding(c))
        seen["y when the caller removed a hook"] = snapshot(module(x))
        removed(third)

        answering, failing, example, repeated = Answering(), Answering(), Answering(), Answering()
        returned = RETURNED[output]
        _kept = [student.run_first(answering, lambda m, args, out: returned)]
        seen["returned"] = answering("a text")
        one_more = adding(1.0)
        _kept += [student.run_first(repeated, one_more), student.run_first(repeated, one_more)]
        seen["the same hook twice"] = repeated(5.0)
        container = nn.Sequential(nn.Identity().eval())
        witness = Witness(container=container)
        _kept.append(student.run_first(container, one_more))
        seen["changed in a container"] = witness.changes()
        named, given = Answering(), []
        _kept.append(student.run_first(named, lambda m, args, out: given.append(len(args))))
        named(x=5.0), named(5.0)
        seen["args"] = given
        boom = Failure(failure)
        _kept.append(student.run_first(failing, lambda m, args, out: boom.strike() or out + 1))
        seen["failure"] = boom.during(lambda: failing(1.0))
        seen["after a failure"] = failing(1.0)
        broken, late, raised = Answering(), [], Failure(failure)
        broken.forward = raised.strike
        _kept.append(student.run_first(broken, lambda m, args, out: late.append(1)))
        raised.during(lambda: broken(1.0))
        seen["calls when forward raised"] = len(late)
        broken(1.0)
        seen["calls when forward has raised before"] = len(late)
        handing_on, same, nested, token = nn.Identity(), [], [], torch.ones(2)
        _kept.append(student.run_first(handing_on, lambda m, args, out: same.append(out is token)))
        handing_on(token)
        seen["the output itself"] = same

        def calls_again(m, args, out):
            nested.append(1)
            if len(nested) == 1:
                m(out)

        def stops(m, args, out):
            raise StopIteration

        calling, stopping = nn.Identity(), nn.Identity()
        _kept += [student.run_first(calling, calls_again), student.run_first(stopping, stops)]
        calling(token)
        seen["calls of a hook that calls"] = len(nested)
        seen["StopIteration"] = "swallowed"
        try:
            stopping(token)
        except StopIteration:
            seen["StopIteration"] = "came through"
        example.register_forward_hook(lambda m, args, out: out + 1)
        example.register_forward_hook(lambda m, args, out: out * 10)
        _kept.append(student.run_first(example, lambda m, args, out: out - 5))
        return {**seen, "example": example(7.0)}

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, x, weight, a, b, c, layers, there: (
                SILENT if there == 0 else close(seen["y"], after(plain(layers, weight, x), there, a, b) + c)
            ),
            "Your hook ran last: forward hooks run in the order in which they were registered. `prepend=True` puts "
            "a hook in front of those that are already there.",
        ),
        Mistake(
            "removed-others",
            lambda seen: bool(changes(seen["changed"], "hook-removed *", "hook-order *", "hook-dict *")),
            "Other hooks of the module are gone, or were registered anew and lost their options and handles. Leave "
            "them as they are: `prepend=True` puts yours in front of them.",
            raises="missing 1 required positional argument: 'out'",
            rather_than=("registration-order",),
        ),
        Mistake(
            "for-all-modules",
            lambda seen: bool(changes(seen["changed"], "hook-left torch")),
            "You registered the hook for all modules. The task asks for one on `module`, with a method of `module`.",
        ),
        Mistake(
            "wrong-hook-kind",
            raises="missing 1 required positional argument: 'output'",
            message="You registered a pre-hook. It runs before `forward`, when there is no output yet. The task asks "
            "for a forward hook that runs before the other forward hooks.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, x, weight, a, b, layers, there: (
                len(seen["calls"]) > 0 and close(seen["y"], after(plain(layers, weight, x), there, a, b))
            ),
            "The hook was called, but what it returned got lost. Register `hook` itself, or return its result from "
            "your wrapper.",
        ),
        Mistake(
            "no-handle",
            lambda seen: bool(changes(seen["changed"], "hook-left *")) and seen["has_remove"].value is False,
            NO_HANDLE,
        ),
    )

    def test_the_hook_runs_before_the_others(seen, x, weight, a, b, c, layers, there):
        for call in ("y", "y under no_grad, in the other mode"):
            expect(Seen(seen[call].value, f"{call}, where y is the output of the module")).close_to(
                after(plain(layers, weight, x) + c, there, a, b)
            )

    def test_the_later_of_two_runs_first(seen, x, weight, a, b, c, d, e, layers, there):
        expected = after(plain(layers, weight, x) * d + c, there, a, b)
        expect(seen["y with two"]).close_to(expected)
        expect(seen["y with two and a later hook"]).close_to(expected + e)
        twice = Seen(seen["the same hook twice"].value, "5 after a hook that adds 1 and was registered twice")
        expect(twice).close_to(7.0)

    def test_it_is_called_as_any_forward_hook_and_once(seen, x, weight, layers):
        expect(Seen(seen["called at once"].value, "calls of the hook before the module is called")).equals(0)
        expect(Seen(seen["calls"].value, "calls of the hook in one call of the module")).has_length(1, "call")
        expect(Seen(seen["calls"][0][0].value, "the output that the hook received")).close_to(plain(layers, weight, x))
        expect(Seen(seen["calls"][0][1].value, "args[0]")).close_to(x)
        expect(seen["calls"][0][2]).is_true("the hook did not receive the module")
        args = "how long `args` is in a call by keyword, and in one by position"
        expect(Seen(seen["args"].value, args)).equals([0, 1])
        expect(seen["watched"]).has_length(1, "calls of a hook that returns None")
        itself = "whether a hook on nn.Identity received the tensor itself that came out"
        expect(Seen(seen["the output itself"].value, itself)).equals([True])
        nested = "calls of a hook that calls the module itself, once"
        expect(Seen(seen["calls of a hook that calls"].value, nested)).equals(2)
        for when, path, count in (
            ("calls when forward raised", "calls of the hook in a call in which `forward` raised", 0),
            ("calls when forward has raised before", "calls of the hook after that, in one more call", 1),
        ):
            expect(Seen(seen[when].value, path)).equals(count)

    def test_its_result_counts_as_with_any_forward_hook(seen, x, weight, up, a, b, c, d, layers, there, output):
        slope = b if there > 0 else 1.0
        expect(seen["gradients"][0]).close_to(slope * pulls(layers, weight, x, up)[0])
        own = plain(layers, weight, x)
        expect(seen["y with a watching hook first"]).close_to(after(own + c, there, a, b))
        expect(seen["y with a hook that writes first"]).close_to(after(own * d + c, there, a, b))
        expect(Seen(seen["returned"].value, "the output after a hook that returned something else")).equals(
            RETURNED[output]
        )

    def test_each_handle_removes_its_own_hook(seen, x, weight, a, b, c, d, layers, there):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        own = plain(layers, weight, x) + c
        expect(seen["y when the second was removed"]).close_to(after(own, there, a, b))
        first_gone = after(plain(layers, weight, x) * d, there, a, b)
        expect(seen["y when the first was removed"]).close_to(first_gone)
        expect(seen["y when the caller removed a hook"]).close_to(after(own, there, 0.0, b))

    def test_nothing_else_changes(seen, x, weight, layers):
        expect(Seen(seen["twin"].value, "the output of another module of this class")).close_to(
            plain(layers, weight, x)
        )
        nothing_changed(seen["changed"], but=["hook-left module"])
        nothing_changed(seen["changed in a container"], but=["hook-left container"])
        nothing_changed(seen["changed in the end"], when="after `remove()`")

    def test_an_exception_of_the_hook_comes_through(seen):
        came_through(seen["failure"], "the hook")
        expect(Seen(seen["StopIteration"].value, "a StopIteration that the hook raised")).equals("came through")
        again = Seen(seen["after a failure"].value, "1 after a hook that adds 1, and raised in the call before")
        expect(again).close_to(2.0)

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).close_to(30.0)


def after(output: Tensor, there: int, a: float, b: float) -> Tensor:
    """What the caller's hooks, as many as are there, make of the module's output."""
    return (output + a * (there > 1)) * (b if there > 0 else 1.0)
