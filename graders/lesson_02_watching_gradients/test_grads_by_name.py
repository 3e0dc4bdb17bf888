"""Exercise 02-grads-by-name."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    Boom,
    Mistake,
    close,
    exercise,
    expect,
    expecting_boom,
    no_hook_left,
    snapshot,
    tensor_hooks,
)
from graders.lesson_02_watching_gradients.judging import LEFT_AFTER_EXCEPTION
from graders.lesson_02_watching_gradients.shared import plain


@exercise(
    "02-grads-by-name",
    points=2,
    title="Gradients by name",
    hints=(
        "Register one hook for each name; the hook writes the gradient into a dict under that name.",
        "Mind the loop variable: a hook runs long after the loop has ended. Bind the name with a default argument.",
        "Call `remove()` on every handle in a `finally` block, so that it also happens when `backward()` raises.",
    ),
)
class TestGradsByName:
    """Write `grads_by_name(tensors, loss)`. `tensors` is a dict from names to tensors that require grad,
    leaves or not; a tensor may have two names. `loss` is a scalar. Run `loss.backward()` exactly once and return a
    dict from names to gradients, for those tensors that the gradient reached. Names of the others are absent. The order
    of the keys is free.

    Each gradient is a copy without a graph: nothing that happens to another tensor later changes it.
    Leaves accumulate their `.grad` as usual. Tensors that are not leaves get no `.grad`, and `retains_grad` stays
    `False`. No hook of yours is left, even when `backward()` raises; the exception comes through. Hooks that were
    there before stay.

    **Example.** With `b = tensor([3.], requires_grad=True)` and `c = b * b`, `grads_by_name({"b": b, "c": c}, c.sum())`
    returns `{"b": tensor([6.]), "c": tensor([1.])}`.
    """

    def draw(rng):
        return {"x": rng.tensor(3, low=-1.5, high=1.5), "names": rng.names(4), "old": rng.tensor(3)}

    def probe(student, x, names, old):
        x.requires_grad_()
        x.grad = old.clone()
        calls = []
        a = 2 * x
        b = torch.tanh(a)
        b.register_hook(lambda grad: calls.append(1))
        unreached = torch.ones(3, requires_grad=True) * 2
        tensors = dict(zip(names, (x, unreached, a, b)))
        hooks = tensor_hooks(x, a, b, unreached)
        seen = {"grads": plain(student.grads_by_name(dict(tensors), (b * b).sum()))}
        seen |= {
            "x.grad": snapshot(x.grad), "passes": len(calls), "hooks": tensor_hooks(x, a, b, unreached) - hooks,
            "retains_grad": [t.retains_grad for t in (a, b, unreached)],
            "dot_grad": [t.grad is not None for t in (a, b, unreached)],
        }  # fmt: skip
        c = 3 * x
        d = c + 1  # the same buffer is the gradient of both
        apart = plain(student.grads_by_name({"c": c, "d": d, "d once more": d}, (d * d).sum()))
        if isinstance(apart, dict) and isinstance(apart.get("c"), Tensor):
            apart["c"].detach().zero_()
        seen["overwritten"] = apart
        d = c * c

        def failing(grad):
            raise Boom

        c.register_hook(failing)
        hooks = tensor_hooks(x, c, d)
        with expecting_boom(seen):
            student.grads_by_name({"c": c, "d": d, "x": x}, d.sum())
        return {**seen, "hooks_after_exception": tensor_hooks(x, c, d) - hooks}

    mistakes = (
        Mistake("late-binding", lambda seen, names: seen["grads"].keys == [names[-1]]),
        Mistake(
            "dot-grad-on-non-leaf",
            lambda seen, names: (
                (names[1] in seen["grads"].keys and seen["grads"][names[1]].value is None)
                or any(seen["dot_grad"].value)
                or any(seen["retains_grad"].value)
            ),
            "`retain_grad()` leaves `.grad` behind on the caller's tensors, and `None` where no gradient came. "
            "A hook hands you the gradient and leaves nothing behind.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, x, old: (
                close(seen["overwritten"]["d"], 0.0) and seen["passes"].value == 1 and not close(seen["x.grad"], old)
            ),
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_every_reached_tensor_has_its_gradient(seen, x, names):
        b = torch.tanh(2 * x)
        leaf, _, first, second = names
        expect(seen["grads"]).has_keys(leaf, first, second)
        by_name = {second: 2 * b, first: 2 * b * (1 - b * b), leaf: 4 * b * (1 - b * b)}
        for name, gradient in by_name.items():
            expect(seen["grads"][name]).close_to(gradient)

    def test_every_gradient_is_a_copy(seen, x):
        for name in ("d", "d once more"):
            expect(seen["overwritten"][name]).close_to(2 * (3 * x + 1))

    def test_backward_runs_once_and_leaves_accumulate(seen, x, old):
        b = torch.tanh(2 * x)
        expect(seen["passes"]).equals(1)
        expect(seen["x.grad"]).close_to(old + 4 * b * (1 - b * b))

    def test_non_leaves_keep_nothing(seen):
        expect(seen["retains_grad"]).equals([False, False, False])
        expect(seen["dot_grad"]).equals([False, False, False])

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks"])

    def test_no_hook_is_left_when_backward_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])
