"""Exercise 01-per-pass-grads."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, no_hook_left, snapshot, tensor_hooks

LOSSES = {
    "linear": lambda p, k: (k * p).sum(),
    "square": lambda p, k: k * (p * p).sum(),
}


def loss_gradient(kind: str, k: float, p: Tensor) -> Tensor:
    """The gradient of a loss of `LOSSES` in closed form."""
    return torch.full_like(p, k) if kind == "linear" else 2 * k * p


@exercise(
    "01-per-pass-grads",
    points=1,
    title="One gradient for each pass",
    hints=(
        "What does `backward()` do to a `.grad` that already holds a value?",
        "Set `p.grad = None` before each pass, or use `torch.autograd.grad`, which does not touch `.grad`.",
        "An entry of your list and `p.grad` must not be the same tensor, or the next pass changes your entry. "
        "Store `p.grad.clone()`.",
    ),
    cases=({"old": True}, {"old": False}, {"old": True}),
)
class TestPerPassGrads:
    """Write `per_pass_grads(p, losses)`. `p` is a leaf, and `losses` is a list of functions, each from `p` to a
    scalar tensor. Evaluate the losses in order and return a list with one gradient for each: the gradient with
    respect to `p` of that loss alone.

    `p.grad` may hold an old value when your function starts. It must not enter the result. What `p.grad` holds at
    the end is not graded. The values of `p` stay as they are, no hook is left on `p`, and the entries of the list
    are tensors of their own, without a graph: nothing that happens later changes them.

    **Example.** For `p = tensor([3.])` and `losses = [lambda p: 2 * p.sum(), lambda p: (p * p).sum()]` the result is
    `[tensor([2.]), tensor([6.])]`.
    """

    def draw(rng, old):
        losses = [
            ["linear", rng.uniform(1, 4)],
            ["square", rng.uniform(0.5, 2)],
            ["linear", rng.uniform(-4, -1)],
        ]
        return {"p": rng.tensor(3), "losses": rng.shuffled(losses), "old": 9.0 if old else None}

    def alive(p, losses):
        first, *_, last = (loss_gradient(kind, k, p) for kind, k in losses)
        return not torch.equal(first, last)

    def probe(student, p, losses, old):
        p.requires_grad_()
        if old is not None:
            p.grad = torch.full_like(p, old)
        before = p.detach().clone()
        functions = [lambda q, kind=kind, k=k: LOSSES[kind](q, k) for kind, k in losses]
        grads = student.per_pass_grads(p, functions)
        seen = {
            "grads": [snapshot(entry) for entry in grads] if isinstance(grads, list) else grads,
            "requires_grad": [entry.requires_grad for entry in grads or () if isinstance(entry, Tensor)],
            "values_kept": torch.equal(p.detach(), before),
            "hooks": tensor_hooks(p),
        }  # fmt: skip
        student.per_pass_grads(p, functions[::-1])
        (7 * p).sum().backward()  # accumulates into p.grad in place
        return {**seen, "grads_later": grads}

    mistakes = (
        Mistake(
            "accumulated-grad",
            lambda seen, p, losses, old: any(
                close(seen["grads"], running_sums(p, losses, start)) for start in (0.0, old or 0.0)
            ),
        ),
        Mistake(
            "stored-alias",
            lambda seen, p, losses: (
                len(seen["grads"]) == len(seen["grads_later"]) == len(losses)
                and (
                    all(close(entry, seen["grads"][len(losses) - 1].tensor) for entry in seen["grads"])
                    or close(seen["grads"], [loss_gradient(kind, k, p) for kind, k in losses])
                )
                and not close(seen["grads_later"], [loss_gradient(kind, k, p) for kind, k in losses])
            ),
        ),
    )

    def test_each_pass_has_its_own_gradient(seen, p, losses):
        expect(seen["grads"]).has_length(len(losses), "gradients")
        for entry, (kind, k) in zip(seen["grads"], losses):
            expect(entry).close_to(loss_gradient(kind, k, p))
        expect(seen["requires_grad"]).equals([False] * len(losses))

    def test_the_entries_are_copies(seen, p, losses):
        for entry, (kind, k) in zip(seen["grads_later"], losses):
            expect(entry).close_to(loss_gradient(kind, k, p))

    def test_p_is_left_as_it_was(seen):
        expect(seen["values_kept"]).is_true("the values of p changed; only its gradient was asked for")
        no_hook_left(seen["hooks"])


def running_sums(p: Tensor, losses: list[tuple[str, float]], start: float) -> list[Tensor]:
    """What `.grad` holds after each pass when nobody clears it."""
    total, found = torch.full_like(p, start), []
    for kind, k in losses:
        total = total + loss_gradient(kind, k, p)
        found.append(total)
    return found
