"""Exercise 12-saved-bytes."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import SILENT, Boom, Mistake, Seen, exercise, expect, expecting_boom, snapshot
from graders.lesson_12_beyond_modules.shared import leave_saved_hooks, packs_of_the_caller, saved_hooks_on


def run_kinds(kinds: list[str], x: Tensor, w: Tensor, wide: Tensor, mask: Tensor, index: Tensor) -> Tensor:
    """The sum of the results of several operations on x, [n]; what each saves is in `saved_sizes`."""
    total = x.new_zeros(())
    for kind in kinds:
        if kind == "relu":
            result = torch.relu(x)
        elif kind == "add":
            result = x + w
        elif kind == "square":
            result = x * x
        elif kind == "product":
            result = x * w
        elif kind == "exp-tanh":
            result = torch.exp(torch.tanh(x))
        elif kind == "where":
            result = torch.where(mask, x, w)
        elif kind == "pick":
            result = x[index]
        else:
            result = x.expand(wide.shape) * wide
        total = total + result.sum()
    return total


def saved_sizes(kinds: list[str], n: int, rows: int, picks: int, size: int) -> list[tuple[int, int, int]]:
    """(elements, bytes of an element, elements of its storage) of each save; the same tensor may come again.

    relu saves its result; a sum saves nothing; a product saves both factors; exp and tanh save their results;
    where saves its condition (bool); indexing saves the indices (int64); an expanded factor counts in full.
    """
    return [
        save
        for kind in kinds
        for save in {
            "relu": [(n, size, n)],
            "add": [],
            "square": [(n, size, n), (n, size, 0)],  # the second is the same tensor as the first
            "product": [(n, size, n), (n, size, n)],
            "exp-tanh": [(n, size, n), (n, size, n)],
            "where": [(n, 1, n)],
            "pick": [(picks, 8, picks)],
            "expand": [(rows * n, size, n), (rows * n, size, rows * n)],
        }[kind]
    ]


def total_bytes(kinds: list[str], x: Tensor, wide: Tensor, index: Tensor, grad: bool, how: str = "bytes") -> int:
    """What `saved_bytes` has to return, or what a mistake returns in its place."""
    sizes = saved_sizes(kinds, len(x), len(wide), len(index), x.element_size()) if grad else []
    if how == "elements":
        return sum(elements for elements, _, _ in sizes)
    if how == "storages":
        return sum(size * (storage or elements) for elements, size, storage in sizes)
    if how == "once":
        return sum(elements * size for elements, size, storage in sizes if storage)
    if how == "four bytes":
        return sum(4 * elements for elements, _, _ in sizes)
    return sum(elements * size for elements, size, _ in sizes)


def plain_gradients(kinds: list[str], leaves: list[Tensor], mask: Tensor, index: Tensor) -> list[Tensor | None]:
    """The gradients of the leaves x, w and wide without any hook."""
    twins = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    run_kinds(kinds, *twins, mask, index).backward()
    return [twin.grad for twin in twins]


@exercise(
    "12-saved-bytes",
    points=2,
    title="Weigh what autograd keeps for backward",
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a context manager. While it is active, autograd "
        "calls `pack` with each tensor that it saves.",
        "`pack` counts, and returns the tensor, best as `tensor.detach()`. `unpack` gets what `pack` returned, and "
        "gives it back. Then the gradients stay right.",
        "With `with`, the context is left also when `fn` raises. The bytes of a tensor are `numel() * element_size()`.",
    ),
    cases=(
        {"kinds": ["relu"], "double": False},
        {"kinds": ["add"], "double": False},
        {"kinds": ["square", "where"], "double": False},
        {"kinds": ["exp-tanh", "pick"], "double": True},
        {"kinds": ["expand", "product"], "double": False},
        {"kinds": ["square", "relu"], "double": False, "grad": False},
    ),
)
class TestSavedBytes:
    """Write `saved_bytes(fn)`. Call `fn()` once, without arguments. Return how many bytes of tensors autograd saves for
    backward while `fn()` runs, as an `int`. Each tensor that is saved counts `numel() * element_size()`. A tensor that
    is saved twice counts twice, and a view or an expanded tensor counts with its own `numel()`. `fn()` runs in the grad
    mode of the caller; under `no_grad`, nothing is saved.

    The caller runs backward after your function has returned, and the gradients have to be right. Hooks on saved
    tensors that were active before the call are active after it, and no others, even when `fn` raises; the exception
    comes through.

    **Example.** For `x = torch.ones(100, requires_grad=True)`, `saved_bytes(lambda: torch.relu(x))` is 400, because
    relu saves its result. For `lambda: x + 1` it is 0, for `lambda: x * x` it is 800.
    """

    def draw(rng, kinds, double, grad=True):
        dtype = torch.float64 if double else torch.float32
        n, rows, picks = rng.integer(11, 30), rng.integer(2, 4), rng.integer(3, 9)
        index = torch.tensor([rng.integer(0, n - 1) for _ in range(picks)])
        return {
            "kinds": rng.shuffled(kinds),
            "x": rng.tensor(n, dtype=dtype, low=-1, high=1),
            "w": rng.tensor(n, dtype=dtype),
            "wide": rng.tensor(rows, n, dtype=dtype),
            "mask": rng.tensor(n) > 0,
            "index": index,
            "grad": grad,
        }

    def probe(student, kinds, x, w, wide, mask, index, grad):
        leaves = [x.requires_grad_(), torch.nn.Parameter(w), wide.requires_grad_()]
        made = []

        def fn():
            made.append(run_kinds(kinds, *leaves, mask, index))
            return made[-1]

        with torch.set_grad_enabled(grad):
            seen = {"bytes": student.saved_bytes(fn), "calls": len(made), "left": saved_hooks_on()}
        leave_saved_hooks()
        try:
            if grad and made:
                made[0].backward()
            seen["error"] = ""
        except (RuntimeError, TypeError) as error:
            seen["error"] = f"{type(error).__name__}: {str(error)[:150]}"
        seen["grads"] = [snapshot(leaf.grad) for leaf in leaves]

        def failing():
            torch.relu(x)
            raise Boom

        with expecting_boom(seen):
            student.saved_bytes(failing)
        seen["left_by_exception"] = saved_hooks_on()
        leave_saved_hooks()
        seen["packs_of_the_caller"] = packs_of_the_caller(lambda: student.saved_bytes(fn), x)
        leave_saved_hooks()
        return seen

    mistakes = (
        Mistake(
            "elements-not-bytes",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value == total_bytes(kinds, x, wide, index, grad, "elements") > 0
            ),
            "You counted elements. An element of float32 has 4 bytes, one of float64 or int64 has 8: multiply each "
            "`numel()` by `element_size()`.",
        ),
        Mistake(
            "four-bytes-each",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value
                == total_bytes(kinds, x, wide, index, grad, "four bytes")
                != total_bytes(kinds, x, wide, index, grad)
            ),
            "You counted 4 bytes for each element. That is right for float32 only: ask each tensor for its "
            "`element_size()`.",
        ),
        Mistake(
            "counted-in-unpack",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value == 0 < total_bytes(kinds, x, wide, index, grad)
            ),
            "You counted nothing. `unpack` runs in backward, when a saved tensor is used again, and there was no "
            "backward yet. Count in `pack`, which runs when a tensor is saved.",
        ),
        Mistake(
            "counted-once",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value
                == total_bytes(kinds, x, wide, index, grad, "once")
                != total_bytes(kinds, x, wide, index, grad)
            ),
            "You counted a tensor that is saved twice only once. `x * x` saves `x` twice, once for each factor, and "
            "the contract counts both.",
        ),
        Mistake(
            "whole-storage",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value
                == total_bytes(kinds, x, wide, index, grad, "storages")
                != total_bytes(kinds, x, wide, index, grad)
            ),
            "You counted the storage of each tensor. A view or an expanded tensor has another number of elements than "
            "its storage; the contract counts `numel() * element_size()`.",
        ),
        Mistake(
            "packed-a-number",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value == total_bytes(kinds, x, wide, index, grad)
                and bool(seen["error"].value)
                and not ran_backward(seen)
            ),
            "Your number is right, but backward fails: what `unpack` returns has to be the saved tensor. `pack` has "
            "to return it, and `unpack` gives it back.",
        ),
        Mistake(
            "ran-backward",
            lambda seen, kinds: SILENT if kinds == ["add"] else ran_backward(seen),  # a sum can be run twice
            "You ran backward inside your function, and so the caller cannot run it any more. Nothing needs it: `pack` "
            "is called in forward.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, kinds, x, wide, index, grad: (
                seen["bytes"].value == total_bytes(kinds, x, wide, index, grad) and seen["left"].value is True
            ),
            "Your hooks on saved tensors are still active after your function has returned. Use "
            "`saved_tensors_hooks(...)` in a `with` statement, which leaves the context.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["left"].value is False and seen["left_by_exception"].value is True,
            "When `fn` raised, your hooks on saved tensors stayed active. Use `saved_tensors_hooks(...)` in a `with` "
            "statement, which leaves the context in any case.",
        ),
    )

    def test_the_bytes_are_counted(seen, kinds, x, wide, index, grad):
        expect(seen["bytes"]).equals(total_bytes(kinds, x, wide, index, grad))

    def test_fn_is_called_once(seen):
        expect(seen["calls"]).equals(1)

    def test_the_gradients_stay_right(seen, kinds, x, w, wide, mask, index, grad):
        expect(seen["error"]).equals("")
        expected = plain_gradients(kinds, [x, w, wide], mask, index) if grad else [None] * 3
        for place, gradient in enumerate(expected):
            if gradient is None:
                expect(seen["grads"][place]).equals(None)
            else:
                expect(seen["grads"][place]).close_to(gradient)

    def test_only_the_hooks_of_the_caller_are_active_afterwards(seen):
        expect(seen["left"]).is_false("your hooks on saved tensors are still active")
        expect(seen["packs_of_the_caller"]).equals(2)

    def test_the_hooks_are_off_when_fn_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["left_by_exception"]).is_false("your hooks on saved tensors are still active after an exception")


def ran_backward(seen: Seen) -> bool:
    """Whether the backward of the caller was the second one through its graph."""
    return "a second time" in str(seen["error"].value)
