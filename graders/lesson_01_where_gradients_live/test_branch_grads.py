"""Exercise 01-branch-grads."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, recording_calls


@exercise(
    "01-branch-grads",
    points=1,
    title="The gradient of every branch",
    hints=(
        "Which of the four tensors are leaves? PyTorch stores `.grad` for those without being asked.",
        "Ask `a` and `b` to keep their gradient: call `a.retain_grad()` and `b.retain_grad()` before `backward()`.",
        "`torch.autograd.grad(y, [w, x, a, b])` returns all four gradients at once and works as well.",
    ),
    cases=(
        {"shape": (4,), "dtype": torch.float32},
        {"shape": (2, 3), "dtype": torch.float64},
        {"shape": (), "dtype": torch.float32},
    ),
)
class TestBranchGrads:
    """Write `branch_grads(w, x)`. Both arguments are leaf tensors of the same shape (any shape), float32 or
    float64.

    Compute

    - `a = w + x`
    - `b = w + 1`
    - `y = (a * b).sum()`

    and return the four gradients of `y` as a dict with the keys `"w"`, `"x"`, `"a"` and `"b"`. Each is a tensor of
    the shape and dtype of the tensor it belongs to, and does not require grad. The values of `w` and `x` stay as they
    are. Whether `w.grad` and `x.grad` are filled afterwards is up to you.

    **Example.** For `w = tensor([1.])` and `x = tensor([2.])` we have `a = 3` and `b = 2`. The result is
    `{"w": tensor([5.]), "x": tensor([2.]), "a": tensor([2.]), "b": tensor([3.])}`.
    """

    def draw(rng, shape, dtype):
        return {"w": rng.tensor(*shape, dtype=dtype), "x": rng.tensor(*shape, dtype=dtype)}

    def alive(w, x):
        a, b = w + x, w + 1
        return bool((a != b).all() and (b != 0).all() and (a != 0).all())

    def probe(student, w, x):
        before = w.clone(), x.clone()
        w.requires_grad_()
        x.requires_grad_()
        with recording_calls("retain_grad", "backward") as calls:
            grads = student.branch_grads(w, x)
        return {
            "grads": grads, "calls": calls[:20],
            "inputs_kept": all(torch.equal(t.detach(), old) and t.requires_grad for t, old in zip((w, x), before)),
        }  # fmt: skip

    mistakes = (
        Mistake(
            "retained-too-late",
            lambda seen, w, x: none_at(seen, "a", "b") and leaves_right(seen, w, x) and asked_in_time(seen) == 0,
            "`a` and `b` kept no gradient. They are not leaves: call `retain_grad()` on them before `backward()`. "
            "Afterwards it recovers nothing.",
        ),
        Mistake(
            "retained-a-copy",
            lambda seen, w, x: any(none_at(seen, name) for name in "ab") and asked_in_time(seen) > kept(seen),
            "You called `retain_grad()` on a copy that the loss does not use. Call it on the very tensor from which "
            "`y` is computed, and read the `.grad` of that one.",
        ),
        Mistake(
            "retained-only-one",
            lambda seen, w, x: kept(seen) == 1 and asked_in_time(seen) <= 1,
            "One of `a` and `b` kept its gradient, and the other did not. Neither is a leaf: call `retain_grad()` on "
            "both of them before `backward()`.",
        ),
        Mistake("values-not-gradients", lambda seen, w, x: close(seen["grads"]["a"], w + x)),
    )

    def test_all_four_gradients_are_right(seen, w, x):
        a, b = w + x, w + 1
        grads = seen["grads"]
        expect(grads).has_keys("w", "x", "a", "b")
        for name, gradient in {"w": a + b, "x": b, "a": b, "b": a}.items():
            expect(grads[name]).close_to(gradient, detached=False)

    def test_no_graph_comes_along_and_w_and_x_stay_as_they_were(seen, w, x):
        for name in ("w", "x", "a", "b"):
            value = seen["grads"][name].value
            expect(Seen(getattr(value, "requires_grad", False), name)).is_false(
                f"grads['{name}'] still requires grad; return it detached"
            )
        expect(seen["inputs_kept"]).is_true("w or x changed (values or requires_grad); only gradients were asked for")


def none_at(seen: Seen, *names: str) -> bool:
    """Whether all these gradients are None."""
    return all(seen["grads"][name].value is None for name in names)


def leaves_right(seen: Seen, w: Tensor, x: Tensor) -> bool:
    """Whether the gradients of the two leaves are right."""
    return close(seen["grads"]["w"], w + x + w + 1) and close(seen["grads"]["x"], w + 1)


def kept(seen: Seen) -> int:
    """For how many of a and b there is a gradient."""
    return sum(seen["grads"][name].tensor is not None for name in "ab")


def asked_in_time(seen: Seen) -> int:
    """How often `retain_grad` was called before `backward`."""
    calls = seen["calls"].value
    return calls[: calls.index("backward")].count("retain_grad") if "backward" in calls else 0
