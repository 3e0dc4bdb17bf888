"""Exercise 12-with-half-saved."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from graders.authoring import SILENT, Boom, Mistake, Seen, close, exercise, expect, expecting_boom, snapshot
from graders.lesson_12_beyond_modules.judging import given
from graders.lesson_12_beyond_modules.shared import leave_saved_hooks, packs_of_the_caller, saved_hooks_on


def half(tensor: Tensor) -> Tensor:
    """The values as float16 holds them, in the old dtype."""
    return tensor.to(torch.float16).to(tensor.dtype)


def run_kind(kind: str, a: Tensor, b: Tensor, index: Tensor) -> Tensor:
    """One result: a square of something that only autograd keeps, a matrix product, or a square of picked entries."""
    if kind in ("square", "scalar"):
        shifted = a + 0.5
        return shifted * shifted
    if kind == "matmul":
        return a @ b
    picked = a[index]
    return torch.where(picked > 0, picked * picked, picked)


def half_gradients(
    kind: str,
    a: Tensor,
    b: Tensor,
    index: Tensor,
    seen_as: Callable[[Tensor], Tensor] = half,
    restored: Tensor | None = None,
) -> list[Tensor | None]:
    """The gradients of a and b of the sum of the result, when saved values are used as `seen_as` gives them.

    `restored` are the indices as they come back, if not as they were.
    """
    if kind in ("square", "scalar"):
        return [2 * seen_as(a + 0.5), None]
    if kind == "matmul":
        ones = torch.ones(a.shape[0], b.shape[1], dtype=a.dtype)
        return [ones @ seen_as(b).T, seen_as(a).T @ ones]
    picked = a[index]
    gradient = torch.where(picked > 0, 2 * seen_as(picked), torch.ones_like(picked))
    places = index if restored is None else restored
    return [torch.zeros_like(a).index_put((places,), gradient, accumulate=True), None]


def grads_close(seen: Seen, expected: list[Tensor | None]) -> bool:
    """Whether each of the two gradients is the expected one, or is not there as expected."""
    return all(
        seen["grads"][place].value is None if gradient is None else close(seen["grads"][place], gradient)
        for place, gradient in enumerate(expected)
    )


def new_tensors(numel: int, dtype: torch.dtype) -> int:
    """How many Python tensors of this size and dtype exist that were made since `gc.freeze()`."""
    gc.collect()
    return sum(type(thing) is Tensor and thing.numel() == numel and thing.dtype == dtype for thing in gc.get_objects())


@exercise(
    "12-with-half-saved",
    points=3,
    title="Save for backward in half precision",
    hints=(
        "`pack` may return anything, for example the pair `(tensor.dtype, tensor.detach().half())`. `unpack` gets this "
        "pair and has to return a tensor of the old dtype.",
        "Indices and masks are saved, too, and float16 ruins them. `tensor.is_floating_point()` tells which tensors to "
        "change; give the others back as they are.",
        "The result of `fn()` is not touched: only what autograd saves goes through `pack`.",
    ),
    cases=(
        {"kind": "square", "double": False},
        {"kind": "matmul", "double": False},
        {"kind": "matmul", "double": True},
        {"kind": "pick", "double": False},
        {"kind": "scalar", "double": False},
    ),
)
class TestWithHalfSaved:
    """Write `with_half_saved(fn)`. Call `fn()` once, without arguments, and return the object that it returns. For each
    floating-point tensor that autograd saves for backward while `fn()` runs, only a float16 copy is kept. When backward
    needs the tensor, the copy is turned back to the dtype that the tensor had. All other saved tensors, such as indices
    and masks, come back as they were.

    Forward does not change: the result of `fn()` has exactly the same values as without your function, and the tensors
    that `fn` works with keep theirs. The caller runs backward after your function has returned, and perhaps again, with
    `retain_graph=True`. Hooks on saved tensors that were active before the call are active after it, and no others,
    even when `fn` raises; the exception comes through.

    **Example.** float16 has no 1.0004: the nearest number that it has is 1. For `w = torch.tensor(1.0004,
    requires_grad=True)`, `y = with_half_saved(lambda: w * w)` is 1.0008, as always. After `y.backward()`, `w.grad` is
    2.0, and not 2.0008.
    """

    def draw(rng, kind, double):
        dtype = torch.float64 if double else torch.float32
        shapes = {
            "square": [(37,), (1,)], "matmul": [(2, 3), (3, 2)], "pick": [(3001,), (1,)], "scalar": [(), (1,)]
        }[kind]  # fmt: skip
        # The grid of eighths is exact in float16; three steps of 1/8192 beside it, nothing is.
        a, b = (rng.tensor(*shape, dtype=dtype) + 3 / 8192 for shape in shapes)
        odd = [2 * rng.integer(1024, 1499) + 1 for _ in range(3)]  # float16 has no odd numbers above 2048
        index = torch.tensor(sorted({*odd, rng.integer(0, 99)}))
        return {"kind": kind, "a": a, "b": b, "index": index, "note": rng.names(1)[0]}

    def alive(kind, a, b, index):
        exact, rough = (half_gradients(kind, a, b, index, seen_as) for seen_as in (lambda t: t, half))
        picked_some = kind != "pick" or bool((a[index[-3:]] > 0).any())
        return picked_some and bool((given(exact[0]) - given(rough[0])).abs().max() > 1e-4)

    def probe(student, kind, a, b, index, note):
        a, b = a.requires_grad_(), b.requires_grad_()
        made = []

        def fn():
            made.append({"out": run_kind(kind, a, b, index), "note": note})
            return made[-1]

        gc.freeze()  # what exists by now is not looked at
        try:
            result = student.with_half_saved(fn)
            # Of the tensors that fn made, only its result may still exist in the old dtype.
            kept_small = kind != "square" or new_tensors(a.numel(), a.dtype) <= len(made)
        finally:
            gc.unfreeze()
        seen = {
            "same_object": bool(made) and result is made[0],
            "result": {key: snapshot(value) for key, value in result.items()} if isinstance(result, dict) else None,
            "calls": len(made),
            "kept_small": kept_small,
            "left": saved_hooks_on(),
            "values": [snapshot(a), snapshot(b)],
        }
        leave_saved_hooks()
        total = made[0]["out"].sum() if made else a.sum()
        total.backward(retain_graph=True)
        seen["grads"] = [snapshot(a.grad), snapshot(b.grad)]
        seen["again"] = [snapshot(grad) for grad in torch.autograd.grad(total, (a, b), allow_unused=True)]

        def failing():
            torch.relu(a)
            raise Boom

        with expecting_boom(seen):
            student.with_half_saved(failing)
        seen["left_by_exception"] = saved_hooks_on()
        leave_saved_hooks()
        seen["packs_of_the_caller"] = packs_of_the_caller(lambda: student.with_half_saved(fn), a)
        leave_saved_hooks()
        return seen

    mistakes = (
        Mistake(
            "halved-the-forward",
            lambda seen, kind, a, b, index: (
                type(seen["result"].value) is dict
                and not close(seen["result"]["out"], run_kind(kind, a, b, index), rtol=1e-6, atol=1e-6)
            ),
            "The result of `fn()` is not exact any more. Only the saved tensors are stored as float16: `pack` must "
            "not change its argument, and the forward computes in the old dtype.",
        ),
        Mistake(
            "nothing-packed",
            lambda seen, kind, a, b, index: (
                grads_close(seen, half_gradients(kind, a, b, index, lambda tensor: tensor))
                and seen["same_object"].value is True
                and close(seen["result"]["out"], run_kind(kind, a, b, index), rtol=1e-6, atol=1e-6)
                if a.dtype == torch.float32
                else SILENT
            ),
            "The gradients are those of full precision: no saved tensor went through float16. `fn()` has to run "
            "inside `with saved_tensors_hooks(pack, unpack):`, and `unpack` works with what `pack` returned.",
        ),
        Mistake(
            "float32-only",
            lambda seen, kind, a, b, index: (
                a.dtype == torch.float64
                and seen["same_object"].value is True
                and grads_close(seen, half_gradients(kind, a, b, index, lambda tensor: tensor))
            ),
            "Tensors of float64 were saved in full precision. They are floating-point tensors, too: ask with "
            "`tensor.is_floating_point()`, and restore each to the dtype that it had.",
        ),
        Mistake(
            "casted-integers",
            lambda seen, kind, a, b, index: (
                kind == "pick" and close(seen["grads"][0], half_gradients(kind, a, b, index, half, half(index))[0])
            ),
            "You stored the indices as float16, too, and they came back as other numbers or as floats. Pack only "
            "tensors with `is_floating_point()`, restore those to their old dtype, and leave all others as they are.",
            raises=("tensors used as indices must be", "condition to be a boolean"),
        ),
        Mistake(
            "dtype-not-restored",
            raises=("to have the same dtype", "expected scalar type", "should have the same dtype"),
            message="Backward got a tensor of another dtype than forward had saved. `unpack` has to return the old "
            "dtype, which `pack` should store with the tensor: float64 comes back as float64.",
        ),
        Mistake(
            "stored-in-full",
            lambda seen, kind, a, b, index: (
                grads_close(seen, half_gradients(kind, a, b, index)) and seen["kept_small"].value is False
            ),
            "The values are rounded to float16, but a tensor of the old dtype is kept all the same, in what `pack` "
            "returns or in a closure, and no memory is saved. `pack` returns the float16 tensor; the way back belongs "
            "into `unpack`.",
        ),
        Mistake(
            "result-dropped",
            lambda seen: seen["result"].value is None and seen["calls"].value == 1,
            "You called `fn()`, but you did not return what it returned. Return its result as it is.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, kind, a, b, index: (
                grads_close(seen, half_gradients(kind, a, b, index)) and seen["left"].value is True
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

    def test_backward_works_with_float16_copies(seen, kind, a, b, index):
        for place, gradient in enumerate(half_gradients(kind, a, b, index)):
            if gradient is None:
                expect(seen["grads"][place]).equals(None)
            else:
                expect(seen["grads"][place]).close_to(gradient)

    def test_a_second_backward_gives_the_same_gradients(seen, kind, a, b, index):
        for place, gradient in enumerate(half_gradients(kind, a, b, index)):
            if gradient is not None:
                expect(seen["again"][place]).close_to(gradient)

    def test_forward_is_exact(seen, kind, a, b, index, note):
        expect(seen["calls"]).equals(1)
        expect(seen["same_object"]).is_true("your function does not return the object that `fn()` returned")
        expect(seen["result"]["note"]).equals(note)
        expect(seen["result"]["out"]).close_to(run_kind(kind, a, b, index), rtol=1e-6, atol=1e-6, detached=False)
        for place, value in enumerate((a, b)):
            expect(seen["values"][place]).close_to(value, rtol=0, atol=0)

    def test_what_is_kept_is_float16(seen):
        expect(seen["kept_small"]).is_true("a tensor of full precision is kept for backward")

    def test_only_the_hooks_of_the_caller_are_active_afterwards(seen):
        expect(seen["left"]).is_false("your hooks on saved tensors are still active")
        expect(seen["packs_of_the_caller"]).equals(2)

    def test_the_hooks_are_off_when_fn_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["left_by_exception"]).is_false("your hooks on saved tensors are still active after an exception")
