"""Exercise 01-branch-grads."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import passes, steps


@exercise(
    "01-branch-grads",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="The gradient of every branch",
    hints=(
        "Which of the four tensors are leaves? PyTorch stores `.grad` for those without being asked.",
        "Ask `a` and `b` to keep their gradient: call `a.retain_grad()` and `b.retain_grad()` before `backward()`.",
        "`torch.autograd.grad(y, [w, x, a, b])` returns all four gradients at once and works as well.",
    ),
    why=(
        "`a` and `b` are results, so each has to be told to keep its gradient; then one pass fills all four. "
        "`torch.autograd.grad(y, [w, x, a, b])` returns the same gradients without being told, and leaves `w.grad` and "
        "`x.grad` alone; hooks on `a` and `b` would do as well."
    ),
    scene=stories(
        promises={
            "all four gradients are right": steps.of_two_leaves,
            "nothing else changes": steps.around_two_leaves,
            "an exception comes through and nothing is left": steps.a_hook_of_a_leaf_raises,
            "another call starts afresh": (steps.of_other_leaves, steps.of_leaves_inside),
        },
        axes=steps.LEAF_WITHOUT_GRAD,
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestBranchGrads:
    """Write `branch_grads(w, x)`. For two leaves of the same shape that require grad, compute `a = w + x`, `b = w + 1`
    and `y = (a * b).sum()`, and return the four gradients of `y` as a dict with the keys `"w"`, `"x"`, `"a"` and `"b"`.

    **Example.**

    >>> w, x = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    >>> branch_grads(w, x)
    {"w": tensor([5.]), "x": tensor([2.]), "a": tensor([2.]), "b": tensor([3.])}

    **Fine print.** `w.grad` and `x.grad` are `None` when you are called. You may fill them, and may return
    `w.grad` and `x.grad` themselves. Equal entries may be one and the same tensor. No hook on `w` or `x` changes a
    gradient.
    """

    def reference(w, x):
        a, b = w + x, w + 1
        return dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))

    may_differ = {
        # An answer that computes with copies of w and x calls no hook on them, so no exception is raised.
        "the exception": lambda mine, wanted: mine is None,
    }

    class Mistakes:
        def retained_too_late(w, x):
            """`a` or `b` kept no gradient. Neither is a leaf: call `retain_grad()` on both before `backward()`
            (afterwards it recovers nothing), and on the very tensors from which `y` is computed (a copy gets none).
            """
            return retaining("", w, x)

        def retained_too_late__2(w, x):
            return retaining("a", w, x)

        def no_gradient_for_w(w, x):
            """Not even `w` has a gradient. Either no pass ran (`y.backward` without `()` does nothing), or `detach()`
            made new leaves of `a` and `b`, and no gradient gets from these to `w` and `x`.
            """
            return {"w": w.grad, "x": x.grad, "a": None, "b": None}

        def no_gradient_for_w__2(w, x):
            a, b = (w + x).detach().requires_grad_(), (w + 1).detach().requires_grad_()
            (a * b).sum().backward()
            return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}

        def values_not_gradients(w, x):
            """Under "a" you return the value of `a`, and that is the gradient of `b`: nudge `b` a little, and `y`
            changes by `a` times as much. The gradient of `a` is the value of `b`. If two hooks append to one list:
            `backward()` reaches `b` first.
            """
            a, b = w + x, w + 1
            return {"w": a.detach() + b.detach(), "x": b.detach(), "a": a.detach(), "b": b.detach()}

        def one_path(w, x):
            """The gradient of `w` is that of one branch alone. `w` is in `a` and in `b`, and what comes back from both
            adds up: read `w.grad`.
            """
            grads = retaining("ab", w, x)
            return {**grads, "w": grads["a"]}

        def one_path__2(w, x):
            grads = retaining("ab", w, x)
            return {**grads, "w": grads["b"]}

        def hook_left_behind(w, x):
            a, b, found = w + x, w + 1, {}
            for name, t in zip("wxab", (w, x, a, b)):
                t.register_hook(lambda grad, name=name: found.update({name: grad.clone()}))
            (a * b).sum().backward()
            return found

        def averaged(w, x):
            """Your gradients are too small by the number of elements. `y` is the sum of `a * b`, not the mean."""
            return {name: grad / w.numel() for name, grad in retaining("ab", w, x).items()}

        def added_up(w, x):
            """Each pass adds to every `.grad`, and to what `retain_grad()` keeps, and you ran more than one: one
            for each entry, or `torch.autograd.grad` beside `backward()`. One is enough for all four.
            """
            a, b, found = w + x, w + 1, {}
            a.retain_grad()
            b.retain_grad()
            for name, t in zip("wxab", (w, x, a, b)):
                (a * b).sum().backward(retain_graph=True)
                found[name] = t.grad
            return found

        def added_up__2(w, x):
            a, b = w + x, w + 1
            a.retain_grad()
            b.retain_grad()
            y = (a * b).sum()
            y.backward(retain_graph=True)
            of_w, of_x = torch.autograd.grad(y, (w, x))
            return {"w": of_w, "x": of_x, "a": a.grad, "b": b.grad}

        def another_b(w, x):
            """These are the gradients for `b = x + 1`. In the task it is `b = w + 1`."""
            a, b = w + x, x + 1
            return dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))


def retaining(names, w, x):
    """The gradients when only these of `a` and `b` are asked to keep their own."""
    parts = {"a": w + x, "b": w + 1}
    for name in names:
        parts[name].retain_grad()
    (parts["a"] * parts["b"]).sum().backward()
    kept = {name: part.grad if part.retains_grad else None for name, part in parts.items()}
    return {"w": w.grad, "x": x.grad, **kept}
