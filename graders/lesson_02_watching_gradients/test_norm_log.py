"""Exercise 02-norm-log."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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

PASSES = {
    "linear": lambda p, k: (k * p).sum(),
    "square": lambda p, k: k * (p * p).sum(),
    "flat": lambda p, k: (0 * p).sum() + k,
}


def pass_gradient(kind: str, k: float, p: Tensor) -> Tensor:
    """The gradient of a loss of `PASSES` in closed form."""
    return {"linear": torch.full_like(p, k), "square": 2 * k * p, "flat": torch.zeros_like(p)}[kind]


@exercise(
    "02-norm-log",
    points=2,
    title="Log the norm of every pass",
    hints=(
        "After the first pass `p.grad` is a sum over passes. It is not the gradient of this pass.",
        "A hook on `p` sees exactly the gradient of this pass.",
        "The handle is a context manager: `with p.register_hook(fn):` removes the hook at the end of the block, "
        "even when a loss raises.",
    ),
    cases=({"old": False}, {"old": True}, {"old": True}),
)
class TestNormLog:
    """Write `norm_log(p, losses)`. `p` is a leaf, and `losses` is a list of functions, each from `p` to a
    scalar tensor that depends on `p`. For each loss in order, run `loss(p).backward()` once. Return a list with one
    Python float for each: the L2 norm of the gradient of that pass alone.

    `p.grad` ends as the plain loop would leave it: it accumulates over all passes, on top of what it holds at the
    start. No hook of yours is left on `p`, even when a loss raises; the exception comes through.

    **Example.** For `p = tensor([1., 2.])` and `losses = [lambda p: (torch.tensor([3., 4.]) * p).sum(),
    lambda p: 2 * p[0]]` the result is `[5.0, 2.0]`, and `p.grad` ends as `tensor([5., 4.])`.
    """

    def draw(rng, old):
        kinds = [["linear", rng.uniform(1, 4)], ["square", rng.uniform(0.5, 2)], ["flat", 1.0]]
        kinds = [*rng.shuffled(kinds), ["linear", rng.uniform(1, 4)]]
        return {
            "p": rng.tensor(3),
            "losses": kinds,
            "old": rng.tensor(3, low=1) if old else None,
            "weight": rng.tensor(1, 1),
            "bias": rng.tensor(1),
            "points": rng.tensor(3),
            "targets": rng.tensor(3),
        }

    def alive(p, losses, old):
        # The norm of a sum must differ from the norm of its last part, and so must the sums themselves.
        norms, sums, last = pass_norms(p, losses), accumulated(p, losses, old), pass_gradient(*losses[-1], p)
        return min(abs(a - b.norm().item()) for a, b in zip(norms[1:], sums[1:])) > 0.05 and not torch.equal(
            sums[-1], last
        )

    def probe(student, p, losses, old, weight, bias, points, targets):
        p.requires_grad_()
        p.grad = None if old is None else old.clone()
        calls = []
        p.register_hook(lambda grad: calls.append(1))
        functions = [lambda q, kind=kind, k=k: PASSES[kind](q, k) for kind, k in losses]
        norms = plain(student.norm_log(p, functions))
        seen = {"norms": norms, "p.grad": snapshot(p.grad), "passes": len(calls), "hooks": tensor_hooks(p)}

        def failing(q):
            raise Boom

        with expecting_boom(seen):
            student.norm_log(p, [functions[0], failing])
        seen["hooks_after_exception"] = tensor_hooks(p)
        layer = nn.Linear(1, 1)
        layer.load_state_dict({"weight": weight, "bias": bias})
        squared = [lambda w, x=x, y=y: (layer(x.reshape(1)) - y).square().sum() for x, y in zip(points, targets)]
        return {**seen, "layer": plain(student.norm_log(layer.weight, squared))}

    mistakes = (
        Mistake(
            "accumulated-grad",
            lambda seen, p, losses, old: any(
                close(seen["norms"], [total.norm().item() for total in accumulated(p, losses, start)])
                for start in (None, old)
            ),
        ),
        Mistake(
            "cleared-callers-grad",
            lambda seen, p, losses, old: (
                close(seen["norms"], pass_norms(p, losses))
                and not close(seen["p.grad"], accumulated(p, losses, old)[-1])
            ),
            "The norms are right, but `p.grad` does not hold what the plain loop would leave there. Do not clear it, "
            "and run `backward()`: the caller needs the sum over all passes, on top of what `p.grad` held before.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, losses: seen["hooks"].value != 1 or len(seen["norms"]) == len(losses) * (len(losses) + 1) // 2,
            "A hook is still registered after your function returned (or after each pass, so that the next one runs "
            "it again). Keep the handle and call its `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 1 and seen["hooks_after_exception"].value != 1,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_each_pass_has_its_own_norm(seen, p, losses):
        expect(seen["norms"]).has_length(len(losses), "norms")
        for entry, norm in zip(seen["norms"], pass_norms(p, losses)):
            expect(entry).close_to(norm)
            if type(entry.value) is not float:
                expect(entry).fail("expected a Python float; `.item()` makes one of a tensor")

    def test_it_works_on_the_weight_of_a_layer(seen, weight, bias, points, targets):
        residuals = points * weight.item() + bias.item() - targets
        expect(seen["layer"]).has_length(len(points), "norms")
        for entry, norm in zip(seen["layer"], (2 * residuals * points).abs().tolist()):
            expect(entry).close_to(norm)

    def test_p_grad_accumulates_over_single_passes(seen, p, losses, old):
        expect(seen["p.grad"]).close_to(accumulated(p, losses, old)[-1])
        expect(seen["passes"]).equals(len(losses))

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks"], before=1)

    def test_no_hook_is_left_when_a_loss_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"], before=1)


def pass_norms(p: Tensor, losses: list[tuple[str, float]]) -> list[float]:
    """The L2 norm of the gradient of each loss."""
    return [pass_gradient(kind, k, p).norm().item() for kind, k in losses]


def accumulated(p: Tensor, losses: list[tuple[str, float]], start: Tensor | None) -> list[Tensor]:
    """What `p.grad` holds after each pass when it holds `start` at the beginning."""
    total, found = torch.zeros_like(p) if start is None else start, []
    for kind, k in losses:
        total = total + pass_gradient(kind, k, p)
        found.append(total)
    return found
