"""Exercise 01-chain-grads."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, no_hook_left, tensor_hooks

FUNCTIONS = {
    "scale": lambda t, k: k * t,
    "shift": lambda t, k: t * t + k,
    "tanh": lambda t, k: torch.tanh(t * k / 4),
    "mix": lambda t, k: t * t.sum() / 4,
}
"""Functions of a tensor and a number that keep the shape; `mix` lets every element touch every other."""


@exercise(
    "01-chain-grads",
    points=2,
    title="The gradient at every step of a chain",
    hints=(
        "Run the functions one after the other and keep every intermediate result in a list.",
        "Call `retain_grad()` on each intermediate result as soon as it exists.",
        "One `backward()` on the sum of the last result fills all of them, and `x.grad` as well.",
    ),
    cases=({"steps": 3, "mixing": False}, {"steps": 3, "mixing": True}, {"steps": 4, "mixing": True}),
)
class TestChainGrads:
    """Write `chain_grads(fns, x)`. `fns` is a list of functions, each from a tensor to a tensor. `x` is a leaf.
    The chain is `h_0 = x`, `h_1 = fns[0](h_0)`, `h_2 = fns[1](h_1)`, and so on to the last, `h_n`. The output is
    `h_n.sum()`.

    Return a list with the gradient of the output with respect to `h_1`, `h_2`, …, `h_n`, in this order; no entry
    requires grad. Call each function exactly once. Afterwards `x.grad` holds the gradient with respect to `x`. The
    value of `x` stays as it is, and no hook is left on it. The functions may be anything: some mix the elements of
    their input.

    **Example.** For `fns = [lambda t: 3 * t, lambda t: t * t]` and `x = tensor([2.])` the chain is 2, 6, 36. The
    result is `[tensor([12.]), tensor([1.])]`, and `x.grad` is `tensor([36.])`.
    """

    def draw(rng, steps, mixing):
        kinds = [rng.choice(("scale", "shift", "tanh")) for _ in range(steps)]
        if mixing:
            kinds[rng.integer(1, steps - 1)] = "mix"
        return {
            "chain": [[kind, rng.choice((-2.0, -1.5, 1.5, 2.0, 2.5))] for kind in kinds],
            "x": rng.tensor(3, low=-2, high=2),
        }

    def alive(chain, x):
        *grads, _ = chain_by_differences(chain, x)
        sizes = [gradient.abs().max() for gradient in grads]
        apart = all(not torch.allclose(a, b, atol=0.05) for a, b in pairwise(grads))
        return bool(min(sizes) > 0.05 and max(sizes) < 100 and apart)

    def probe(student, chain, x):
        calls = []

        def counted(index, kind, k):
            def function(t):
                calls.append(index)
                return FUNCTIONS[kind](t, k)

            return function

        before = x.clone()
        x.requires_grad_()
        grads = student.chain_grads([counted(i, kind, k) for i, (kind, k) in enumerate(chain)], x)
        return {
            "grads": grads, "x.grad": x.grad, "calls": calls[:50], "hooks": tensor_hooks(x),
            "x_kept": torch.equal(x.detach(), before) and x.requires_grad,
        }  # fmt: skip

    mistakes = (
        Mistake(
            "cut-between-steps",
            lambda seen, chain, x: (
                close(seen["grads"][len(chain) - 1], 1)
                and not close_chain(seen["grads"], chain_by_differences(chain, x)[1:])
                and not close(seen["x.grad"], chain_by_differences(chain, x)[0], rtol=1e-4, atol=1e-4)
            ),
            "A `detach()` (or `.data`, or a new leaf) between the steps cut the chain, and no gradient came further "
            "back than that. Pass each result on as it is.",
            raises=("can't retain_grad on Tensor that has requires_grad=False", "does not have a grad_fn"),
        ),
        Mistake(
            "retained-only-last",
            lambda seen, chain, x: (
                len(list(seen["grads"])) == len(chain)
                and all(entry.value is None for entry in list(seen["grads"])[:-1])
                and close(seen["x.grad"], chain_by_differences(chain, x)[0], rtol=1e-4, atol=1e-4)
            ),
            "Only the last result kept its gradient. Every step must call `retain_grad()` on its own result.",
        ),
        Mistake(
            "reversed-list",
            lambda seen, chain, x: close_chain(seen["grads"], chain_by_differences(chain, x)[:0:-1]),
            "All gradients are there, but from the last step to the first. The order asked for is `h_1` first.",
        ),
    )

    def test_every_step_has_its_gradient(seen, chain, x):
        expected = chain_by_differences(chain, x)[1:]
        expect(seen["grads"]).has_length(len(expected), "gradients")
        for entry, gradient in zip(seen["grads"], expected):
            expect(entry).close_to(gradient, rtol=1e-4, atol=1e-4)

    def test_x_has_its_gradient_and_stays_as_it_was(seen, chain, x):
        expect(seen["x.grad"]).close_to(chain_by_differences(chain, x)[0], rtol=1e-4, atol=1e-4)
        expect(seen["x_kept"]).is_true("x changed (values or requires_grad); only gradients were asked for")
        no_hook_left(seen["hooks"])

    def test_each_function_is_called_once_in_order(seen, chain):
        expect(seen["calls"]).equals(list(range(len(chain))))


def close_chain(seen: Seen, expected: list[Tensor]) -> bool:
    """Whether a list of gradients is `expected`, within the tolerance of finite differences."""
    return close(seen, expected, rtol=1e-4, atol=1e-4)


def chain_by_differences(chain: list[tuple[str, float]], x: Tensor) -> list[Tensor]:
    """D h_n.sum() / d h_i for i = 0..n: central differences of the tail from h_i, in float64 with step 1e-6."""

    def tail(start: int, h: Tensor) -> Tensor:
        for kind, k in chain[start:]:
            h = FUNCTIONS[kind](h, k)
        return h.sum()

    h, found = x.double(), []
    for start in range(len(chain) + 1):
        if start > 0:
            h = FUNCTIONS[chain[start - 1][0]](h, chain[start - 1][1])
        steps = torch.eye(h.numel(), dtype=torch.float64) * 1e-6
        slopes = [(tail(start, h + step) - tail(start, h - step)) / 2e-6 for step in steps]
        found.append(torch.stack(slopes).float())
    return found
