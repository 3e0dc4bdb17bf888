"""Exercise 02-record-grad."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, removed, snapshot, tensor_hooks
from graders.lesson_02_watching_gradients.judging import NONE_HAS_NO_GRADIENT
from graders.lesson_02_watching_gradients.shared import zero_in_place


@exercise(
    "02-record-grad",
    points=1,
    title="Record every gradient that arrives",
    hints=(
        "Register a hook on `t` with `t.register_hook(fn)`. The hook receives the gradient and may simply append it.",
        "A hook that returns `None` changes nothing, and `list.append` returns `None`.",
        "Store a copy without a graph, `grad.detach().clone()`, and return the handle that `register_hook` gave you.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
    ),
)
class TestRecordGrad:
    """Write `record_grad(t, store)`. `t` is a tensor that requires grad, leaf or not. `store` is a list.
    From now on, every gradient that arrives at `t` is appended to `store`, one entry for each backward pass,
    `torch.autograd.grad` included. Return the handle; after `handle.remove()` nothing is appended any more.

    Each entry is a copy that nothing later can change, with the dtype of the gradient and without a graph (even when
    the pass was run with `create_graph=True`). The gradients that flow through `t` stay as they are.

    **Example.** For `y = tensor([2.], requires_grad=True)` and `record_grad(y, store)`, the call
    `(y * y).sum().backward()` leaves `store == [tensor([4.])]`.
    """

    def draw(rng, leaf, dtype):
        return {"x": rng.tensor(2, 3, dtype=dtype), "up": rng.tensor(2, 3, dtype=dtype), "leaf": leaf}

    def probe(student, x, up, leaf):
        x.requires_grad_()
        t = x if leaf else 2 * x
        hooks = tensor_hooks(x, t)
        store = []
        handle = student.record_grad(t, store)
        hooked = tensor_hooks(x, t) - hooks
        (t * t).backward(gradient=up, retain_graph=True)
        (t**3).backward(gradient=up, retain_graph=True)
        flow = snapshot(x.grad)
        (with_graph,) = torch.autograd.grad((t * t).sum(), t, create_graph=True)
        bad = t.register_hook(zero_in_place)
        (t * t * up).sum().backward(retain_graph=True)
        bad.remove()
        seen = {"store": store[:20], "x.grad": flow, "graph_flows": with_graph.requires_grad, "hooked": hooked,
                "has_remove": removed(handle)}  # fmt: skip
        count = len(store)
        (t * t).backward(gradient=up)
        return {**seen, "after_remove": len(store) - count, "hooks_left": tensor_hooks(x, t) - hooks}

    mistakes = (
        Mistake("values-not-gradients", lambda seen, x, leaf: close(seen["store"][0], x if leaf else 2 * x)),
        Mistake(
            "stored-alias",
            lambda seen, x, up, leaf: (
                close(seen["store"][0], arriving(x, up, leaf)[0]) and close(seen["store"][3], 0.0)
            ),
        ),
        Mistake(
            "no-handle",
            lambda seen: seen["has_remove"].value is False,
            "Your function has to return the handle, so that the caller can remove the hook. It is what "
            "`register_hook` gives you.",
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen: seen["has_remove"].value is True and seen["store"].value == [] and seen["hooked"].value == 0,
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen, x, up, leaf: (
                seen["store"][0].value is None
                or (len(seen["store"]) > 1 and any(close(seen["store"][1], total) for total in totals(x, up, leaf)))
            ),
            raises=NONE_HAS_NO_GRADIENT,
        ),
    )

    def test_every_gradient_is_recorded(seen, x, up, leaf):
        expected = arriving(x, up, leaf)
        expect(seen["store"]).has_length(len(expected), "recorded gradients")
        for entry, gradient in list(zip(seen["store"], expected))[:2]:
            expect(entry).close_to(gradient, detached=False)

    def test_entries_are_copies_without_a_graph(seen, x, up, leaf):
        for entry, gradient in zip(seen["store"], arriving(x, up, leaf)):
            expect(entry).close_to(gradient)

    def test_the_flow_is_unchanged(seen, x, up, leaf):
        first, second, *_ = arriving(x, up, leaf)
        expect(seen["x.grad"]).close_to((first + second) * (1 if leaf else 2))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )

    def test_the_handle_removes_the_hook(seen):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).equals(0)
        no_hook_left(seen["hooks_left"])


def arriving(x: Tensor, up: Tensor, leaf: bool) -> list[Tensor]:
    """What arrives at t in the four passes of the probe, in closed form."""
    t = x if leaf else 2 * x
    return [2 * t * up, 3 * t**2 * up, 2 * t, 2 * t * up]


def totals(x: Tensor, up: Tensor, leaf: bool) -> list[Tensor]:
    """What `t.grad` may hold in or after the second pass, for a leaf."""
    first, second, *_ = arriving(x, up, leaf)
    return [first, first + second]
