"""Lesson 1. Where gradients live: leaf, non-leaf, retain_grad."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from graders.box.probing import recording_calls, snapshot, tensor_hooks
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect


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
        expect(seen["hooks"]).equals(0)

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
        expect(seen["hooks"]).equals(0)


def running_sums(p: Tensor, losses: list[tuple[str, float]], start: float) -> list[Tensor]:
    """What `.grad` holds after each pass when nobody clears it."""
    total, found = torch.full_like(p, start), []
    for kind, k in losses:
        total = total + loss_gradient(kind, k, p)
        found.append(total)
    return found
