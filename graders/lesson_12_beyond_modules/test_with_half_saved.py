"""Exercise 12-with-half-saved."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Kind,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    own_grads,
    paired,
    prepared,
    refuse,
    snapshot,
)
from graders.lesson_12_beyond_modules.judging import callers_hooks_active
from graders.lesson_12_beyond_modules.shared import leave_saved_hooks, packs_of_the_caller

OFFSETS = (0.5, 1.5, 2.5)
DTYPES = ("to have the same dtype", "expected scalar type", "should have the same dtype")
"""What torch says when saved tensors come back in another dtype."""
CASTED = ("tensors used as indices must be", "condition to be a boolean")
"""What torch says when indices and masks come back as floats."""
LONG = 3001


def half(tensor: Tensor) -> Tensor:
    """The values as float16 holds them, in the old dtype."""
    return tensor.to(torch.float16).to(tensor.dtype)


def square(tensor: Tensor) -> Tensor:
    """Its square; when this is a tensor that nobody else holds, the next one may lie in the same place."""
    return tensor * tensor


def run_work(kind: str, a: Tensor, b: Tensor, long: Tensor, index: Tensor) -> Tensor:
    """Squares of tensors that nobody but autograd keeps, and something more; of the shape of `a`."""
    parts = [square(a + offset) for offset in OFFSETS]
    out = parts[0] + parts[1] + parts[2]
    if kind in ("product", "data"):
        return out + a * b
    if kind == "mixed":
        few = long[:3]
        squares = [t.reshape(1, -1) @ t.reshape(-1, 1) for t in (few, b)]  # matrices of two dtypes do not multiply
        return out + squares[0].sum() + squares[1].sum().to(a.dtype)
    if kind == "output":
        return out + torch.exp(a)
    if kind == "indices":
        picked = long[index]
        return out + torch.where(picked > 0, picked * picked, picked).sum()
    return out


class Work:
    """A function of the caller. What it returns is in `made`."""

    def __init__(self, kind: str, leaves: list[Tensor], a: Tensor, index: Tensor, result_is: str) -> None:
        self.kind, self.leaves, self.a, self.index, self.result_is = kind, leaves, a, index, result_is
        self.made: list[Any] = []
        self.outs: list[Tensor] = []

    def __call__(self) -> Any:
        """One run."""
        out = run_work(self.kind, self.a, *self.leaves[1:], self.index)
        self.outs.append(out)
        self.made.append({"tensor": out, "tuple": (out, "note"), "dict": {"out": out}, "nothing": None}[self.result_is])
        return self.made[-1]


def gradients_of(out: Tensor, c: Tensor, leaves: list[Tensor], backward: str) -> dict[str, Any]:
    """The gradients of two passes through one graph, the first run as the circumstance says, and where torch raised."""
    found: dict[str, Any] = {"error": "", "raised in": "", "first": None, "second": None}
    if not out.requires_grad:
        return found
    total = (out * c).sum()
    try:
        found["raised in"] = "first"
        with own_grads(leaves):
            if backward == "autograd.grad":
                first = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
            else:
                total.backward(retain_graph=True, create_graph=backward == "create_graph")
                first = tuple(leaf.grad for leaf in leaves)
        found |= {"first": [snapshot(grad) for grad in first], "raised in": "second"}
        second = torch.autograd.grad(total, leaves, allow_unused=True)
        return found | {"second": [snapshot(grad) for grad in second], "raised in": ""}
    except Exception as error:
        return found | {"error": f"{type(error).__name__}: {error}"[:150]}


def kept_in_full(with_half_saved: Callable[[Callable[[], Any]], Any], dtype: torch.dtype) -> list[bool]:
    """Whether a tensor that only autograd keeps still exists in its dtype: after forward, and after a backward pass."""
    t, sums, found = torch.ones((), dtype=dtype, requires_grad=True), [], []
    gc.freeze()  # what exists by now is not looked at
    try:
        with_half_saved(lambda: sums.append(square(t * torch.ones(MANY, dtype=dtype)).sum()))
        for run in (lambda: None, lambda: sums[0].backward(retain_graph=True)):
            with contextlib.suppress(Exception):  # what is kept is no tensor any more
                run()
            gc.collect()
            found.append(any(type(thing) is Tensor and (thing.numel(), thing.dtype) == (MANY, dtype)
                             for thing in gc.get_objects()))  # fmt: skip
    finally:
        gc.unfreeze()
    return found


def overwritten(with_half_saved: Callable[[Callable[[], Tensor]], Any]) -> Tensor | None:
    """The gradient of w when the number by which it is multiplied changes from 2 to 6 in between: 8."""
    w, number = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)

    sums: list[Tensor] = []

    def work() -> None:
        sums.append((w * number).sum())
        number.mul_(3)
        sums.append((w * number).sum())

    with_half_saved(work)
    with contextlib.suppress(Exception):  # what is kept has changed, or is not there any more
        torch.autograd.backward(sums)
    return w.grad


def beyond_half(with_half_saved: Callable[[Callable[[], Tensor]], Any]) -> list[Any]:
    """Where the gradient of an entry far behind arrives, by an index of 64 bits and of 32."""
    wide, rows = (torch.zeros(*size, requires_grad=True) for size in ((2 * FAR,), (2 * FAR, 1)))
    far = torch.tensor([FAR])
    for work in (
        lambda: wide[far].sum(),
        lambda: torch.nn.functional.embedding(far.int(), rows).sum(),
    ):
        result = with_half_saved(work)
        with contextlib.suppress(Exception):  # an index that comes back as a float
            result.backward()
    return [None if t.grad is None else t.grad.flatten().nonzero().flatten().tolist()[:9] for t in (wide, rows)]


def of_all_kinds(with_half_saved: Callable[[Callable[[], Any]], Any]) -> dict[str, Any]:
    """Gradients by large whole numbers, a mask, odd numbers, and a tensor beside its transposed view; a list."""
    t, masked, odd, nan = (torch.ones(size, requires_grad=True) for size in ((2,), (2,), len(ODD), ()))
    square, numbers = SQUARE.clone().requires_grad_(), torch.tensor(NUMBERS)
    values = [1, None]
    for work in (
        lambda: t * numbers,
        lambda: masked.masked_fill(torch.tensor([False, True]), 0.0),
        lambda: odd * torch.tensor(ODD),
        lambda: nan * torch.tensor(math.nan),
        lambda: square * square.T,
    ):
        with contextlib.suppress(Exception):  # a mask that comes back as numbers
            with_half_saved(work).sum().backward()
    return {
        "numbers": t.grad,
        "mask": masked.grad,
        "odd": odd.grad,
        "nan": nan.grad is not None and bool(nan.grad.isnan()),
        "square": square.grad,
        "list": with_half_saved(lambda: values) is values,
    }


SQUARE = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
NUMBERS = [5 * 10**9, 3]
"""Whole numbers; one needs more than 32 bits."""
ODD = [3e-5, 70_000.0, -70_000.0]
"""float16 has the first with fewer digits than larger numbers; the next two are too large for it."""
MANY = 1009
"""The number of entries of a tensor whose size no other tensor has."""

FAR = 2**15 + 1
"""An index that needs more than 16 bits."""


@exercise(
    "12-with-half-saved",
    points=3,
    minutes=20,
    difficulty=3,
    title="Save for backward in half precision",
    hints=(
        "`pack` may return anything, for example the pair `(tensor.dtype, tensor.detach().half())`. `unpack` gets this "
        "pair and has to return a tensor of the old dtype.",
        "Indices and masks are saved, too, and float16 ruins them. `tensor.is_floating_point()` tells which tensors to "
        "change; give the others back as they are.",
        "The result of `fn()` is not touched: only what autograd saves goes through `pack`.",
    ),
    why=(
        "`half()` makes a copy, so a tensor that is overwritten later does no harm, and the dtype is kept beside it "
        "for the way back. A small object of your own in place of the tuple would do as well, or a function that "
        "`pack` returns and `unpack` calls."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "hooks": ALL, "call": ALL,
            "grad_mode": ALL, "backward": ("plain", "create_graph", "autograd.grad"),
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "values": "all tensors use all their digits: float16 has fewer",
            "number": "no number is an argument",
            "collection": "no collection is an argument",
            "model": "it gets a function",
            "hooked": "the hooks of the caller sit on a tensor",
        },
        own={
            "work": ("product", "indices", "mixed", "output", "data", "temporaries"),
            "result_is": ("tensor", "tuple", "dict", "nothing"),
        },
        pairs=[("dtype", "work"), ("dtype", "place")],
        impossible=[
            lambda grad_mode, backward: grad_mode == "off" and backward != "plain",
            lambda grad_mode, work: grad_mode == "off" and work not in ("output", "temporaries"),
            lambda grad_mode, call: grad_mode == "off" and call != "once",
        ],
    ),
)  # fmt: skip
class TestWithHalfSaved:
    """Write `with_half_saved(fn)`. Call `fn()` once, without arguments, and return the object that it returns. For each
    floating-point tensor that autograd saves for backward while `fn()` runs, only a float16 copy is kept. When backward
    needs the tensor, the copy is turned back to the dtype that the tensor had. All other saved tensors, such as indices
    and masks, come back as they were.

    - Forward does not change: `fn()` computes what it computes without you, in the grad mode of the caller.
    - What is too large for float16 comes back infinite.
    - `fn` may return anything. Its floating-point tensors are float32 or float64, or some of each, and some may require
      no grad. It uses no hooks on saved tensors, and so does not call your function.
    - The caller runs backward later, perhaps several times. Floating-point tensors may be overwritten after they have
      been saved, indices and masks are not.
    - While `fn()` runs, hooks of the caller on saved tensors may be silent.

    **Example.** float16 has no 1.0004: the nearest number that it has is 1. For `w = torch.tensor(1.0004,
    requires_grad=True)`, `y = with_half_saved(lambda: w * w)` is 1.0008, as always. After `y.backward()`, `w.grad` is
    2.0, and not 2.0008.
    """

    def draw(rng, dtype, rank, layout, work):
        shape, other = rng.shape(rank), {"float32": "float64", "float64": "float32"}[dtype]
        a = rng.tensor(*shape, dtype=dtype, values="full", layout=layout)
        b, c = (rng.tensor(*shape, dtype=kind, values="full") for kind in (other if work == "mixed" else dtype, dtype))
        odd = [2 * rng.integer(1024, 1499) + 1 for _ in range(3)]  # float16 has no odd numbers above 2048
        index = torch.tensor(sorted({*odd, rng.integer(0, 99)}))
        return {"a": a, "b": b, "c": c, "long": rng.tensor(LONG, dtype=dtype, values="full"), "index": index}

    def alive(work, a, b, c, long, index):
        exact, rough = (half_gradients(work, a, b, c, long, index, "none", as_) for as_ in (same, half))
        far = [(x - y).abs().max() > 1e-4 for x, y in zip(exact, rough) if x is not None and y is not None]
        saved = [b, long[:3], long[index], torch.exp(a), torch.exp(-a), *(t + o for t in (a, -a) for o in OFFSETS)]
        return (
            all(map(settled, saved))
            and abs(c.sum()) > 0.25
            and all(far)
            and (work != "indices" or bool((long[index[-3:]] > 0).any()))
        )

    def oracle(work, a, b, c, long, index, hooks):
        return [half_gradients(work, t, b, c, long, index, hooks)[:2] for t in (a, -a)]

    def probe(
        student, work, a, b, c, long, index, layout, place, grad, hooks, call, grad_mode, backward, failure,
        failing_run, result_is,
    ):  # fmt: skip
        leaf = prepared(a, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
        t = leaf.view_as(leaf) if place == "non-leaf" else leaf
        b = torch.nn.Parameter(b, requires_grad=work != "data")
        leaves = [leaf, b, long.requires_grad_()]
        wanted = [one for one in leaves if one.requires_grad]
        CallersHooks(hooks).on_tensor(t, "a")
        fn = Work(work, leaves, t, index, result_is)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(a=leaf, b=b, long=long, index=index)
            result = student.with_half_saved(fn)
            seen = {"calls": len(fn.made), "same object": bool(fn.made) and result is fn.made[0],
                    "changed": witness.changes()}  # fmt: skip
            del result
        leave_saved_hooks()
        out = fn.outs[0] if fn.outs else t * 1
        seen |= {"out": out.detach(), "requires grad": out.requires_grad}  # no copy: a later call could overwrite it
        seen["passes"] = gradients_of(out, c, wanted, backward)
        if call != "once":
            # The same memory holds other numbers now.
            leaf.data = -leaf.data if layout == "expanded" else leaf.data.neg_()
            t = leaf.view_as(leaf) if place == "non-leaf" else leaf
            other = fn if call == "again" and place != "non-leaf" else Work(work, leaves, t, index, "tensor")
            student.with_half_saved(other)
            leave_saved_hooks()
            seen["second call"] = gradients_of(other.outs[-1], c, wanted, "plain")

        strike = Failure(failure, failing_run)

        def failing():
            torch.relu(leaf)
            strike.strike()

        witness = Witness(a=leaf)
        seen["failure"] = strike.during(lambda: [student.with_half_saved(failing), student.with_half_saved(failing)])
        seen["changed by failure"] = witness.changes()
        leave_saved_hooks()
        again = Failure("own")
        seen["packs of the caller"] = [
            packs_of_the_caller(lambda: student.with_half_saved(fn), leaf),
            packs_of_the_caller(lambda: again.during(lambda: student.with_half_saved(again.strike)), leaf),
        ]
        leave_saved_hooks()
        if work != "temporaries":
            return seen
        w = torch.tensor(1.0004, requires_grad=True)
        y = student.with_half_saved(lambda: w * w)
        if isinstance(y, Tensor) and y.requires_grad:
            y.backward()
        zeros = torch.zeros(3, requires_grad=True)
        squares = student.with_half_saved(lambda: zeros * zeros)
        if isinstance(squares, Tensor) and squares.dim() == 1:
            seen["of zeros"] = gradients_of(squares, torch.ones(3), [zeros], "plain")
        return {**seen, "example": [snapshot(y), w.grad], "beyond": beyond_half(student.with_half_saved),
                "overwritten": overwritten(student.with_half_saved),
                "kept in full": kept_in_full(student.with_half_saved, a.dtype),
                "kinds": of_all_kinds(student.with_half_saved)}  # fmt: skip

    mistakes = (
        Mistake(
            "halved-the-forward",
            lambda seen, work, a, b, long, index: not forward_is_exact(seen, work, a, b, long, index),
            "The result of `fn()` is not exact any more. Only the saved tensors are stored as float16: `pack` must "
            "not change its argument, and the forward computes in the old dtype.",
        ),
        Mistake(
            "nothing-packed",
            lambda seen, work, a, b, c, long, index, hooks: (
                forward_is_exact(seen, work, a, b, long, index)
                and grads_close(seen, half_gradients(work, a, b, c, long, index, hooks, same))
            ),
            "The gradients are those of full precision: no saved tensor went through float16. `fn()` has to run "
            "inside `with saved_tensors_hooks(pack, unpack):`, and `unpack` works with what `pack` returned.",
        ),
        Mistake(
            "float32-only",
            lambda seen, work, a, b, c, long, index, hooks: (
                forward_is_exact(seen, work, a, b, long, index)
                and grads_close(seen, half_gradients(work, a, b, c, long, index, hooks, half_of_float32))
                and not grads_close(seen, half_gradients(work, a, b, c, long, index, hooks))
            ),
            "Tensors of float64 were saved in full precision. They are floating-point tensors, too: ask with "
            "`tensor.is_floating_point()`, and restore each to the dtype that it had.",
            rather_than=("nothing-packed",),
        ),
        Mistake(
            "leaves-kept-in-full",
            lambda seen, work, a, b, c, long, index, hooks, place: (
                SILENT
                if place == "non-leaf"
                else grads_close(seen, half_gradients(work, a, b, c, long, index, hooks, leaf_as=same))
                and not grads_close(seen, half_gradients(work, a, b, c, long, index, hooks))
            ),
            "Tensors that your function made were rounded, and leaves were not. Each floating-point tensor that is "
            "saved has to go through float16, also an input, a weight or data.",
        ),
        Mistake(
            "casted-integers",
            lambda seen, work, a, b, c, long, index, hooks: (
                grads_close(seen, half_gradients(work, a, b, c, long, index, hooks, restored=half(index)))
                or any(text in str(seen["passes"]["error"].value) for text in CASTED)
                if work == "indices"
                else SILENT
            ),
            "You stored the indices as float16, too, and they came back as other numbers or as floats. Pack only "
            "tensors with `is_floating_point()`, restore those to their old dtype, and leave all others as they are.",
            raises=CASTED,
        ),
        Mistake(
            "dtype-not-restored",
            lambda seen: any(text in str(seen["passes"]["error"].value) for text in DTYPES),
            raises=DTYPES,
            message="Backward got a tensor of another dtype than forward had saved. `unpack` has to return the old "
            "dtype, which `pack` should store with the tensor: float64 comes back as float64.",
        ),
        Mistake(
            "good-for-one-pass",
            lambda seen, work, a, b, c, long, index, hooks: (
                grads_close(seen, half_gradients(work, a, b, c, long, index, hooks))
                and not grads_close(seen, half_gradients(work, a, b, c, long, index, hooks), "second")
            ),
            "The first backward pass is right, and a second one through the same graph is not. `unpack` may be called "
            "several times for what `pack` returned: do not change it there, and take nothing out of it.",
        ),
        Mistake(
            "stored-in-full",
            lambda seen, work: (
                True in [kept.value for kept in seen["kept in full"]] if work == "temporaries" else SILENT
            ),
            "A tensor of the old dtype is kept, in what `pack` returns or in a closure, and no memory is saved. `pack` "
            "returns the float16 tensor; the way back belongs into `unpack`.",
        ),
        Mistake(
            "bfloat16",
            lambda seen, work, a, b, c, long, index, hooks: (
                grads_close(seen, half_gradients(work, a, b, c, long, index, hooks, brain_half))
                and not grads_close(seen, half_gradients(work, a, b, c, long, index, hooks))
            ),
            "You stored `bfloat16`, which has fewer digits. The task asks for float16, as `half()` makes it.",
        ),
        Mistake(
            "made-finite",
            lambda seen, work: work == "temporaries" and made_finite(seen["kinds"]["odd"]),
            "What is too large for float16 came back as a finite number. `half()` makes it infinite, and so it comes "
            "back: leave out `clamp` and `nan_to_num`.",
        ),
        Mistake(
            "another-result",
            lambda seen, result_is: (
                SILENT if result_is == "nothing" else seen["calls"].value == 1 and seen["same object"].value is False
            ),
            "You called `fn()`, and what you return is not the object that it returned. Return its result as it is.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: bool(changes(seen["changed"], "saved-tensor-hooks *")),
            "Your hooks on saved tensors are still active after your function has returned. Use "
            "`saved_tensors_hooks(...)` in a `with` statement, which leaves the context.",
            kinds=(Kind.CHANGED,),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "saved-tensor-hooks *")
                and bool(changes(seen["changed by failure"], "saved-tensor-hooks *"))
            ),
            "When `fn` raised, your hooks on saved tensors stayed active. Use `saved_tensors_hooks(...)` in a `with` "
            "statement, which leaves the context in any case.",
            kinds=(Kind.CHANGED,),
        ),
    )

    def test_backward_works_with_float16_copies(seen, work, a, b, c, long, index, hooks, grad_mode):
        if grad_mode == "on":
            same_gradients(seen["passes"], "first", half_gradients(work, a, b, c, long, index, hooks))

    def test_large_indices_stay(seen, work):
        if work != "temporaries":
            return
        for place, call in ((0, f"t[torch.tensor([{FAR}])]"), (1, f"F.embedding(torch.tensor([{FAR}]).int(), t)")):
            expect(Seen(seen["beyond"][place].value, f"for `{call}`, the places with a gradient")).equals([FAR])

    def test_tensors_of_all_kinds_come_back(seen, work):
        if work != "temporaries":
            return
        for kind, what, right in (
            ("numbers", f"`t * torch.tensor({NUMBERS})`", torch.tensor(NUMBERS).float()),
            ("mask", "`t.masked_fill(torch.tensor([False, True]), 0.0)`", torch.tensor([1.0, 0.0])),
            ("odd", f"`t * torch.tensor({ODD})`", half(torch.tensor(ODD))),
            ("square", f"`t * t.T`, where `t` is {SQUARE.tolist()}", 2 * SQUARE.T),
        ):
            expect(Seen(seen["kinds"][kind].value, f"`t.grad` for {what}")).close_to(right, rtol=1e-6, atol=0.0)
        expect(seen["kinds"]["nan"]).is_true("a NaN that is saved does not come back as NaN")

    def test_a_second_backward_gives_the_same_gradients(seen, work, a, b, c, long, index, hooks, grad_mode):
        if grad_mode == "on":
            same_gradients(seen["passes"], "second", half_gradients(work, a, b, c, long, index, hooks))

    def test_another_call_packs_anew(seen, work, a, b, c, long, index, hooks, call, place):
        if call != "once":
            hooks = "none" if place == "non-leaf" else hooks
            for which in ("first", "second"):
                expected = half_gradients(work, -a, b, c, long, index, hooks)
                same_gradients(seen["second call"], which, expected)

    def test_forward_is_exact(seen, work, a, b, long, index, grad_mode):
        if seen["calls"].value != 1:
            refuse(f"`fn` was called {seen['calls'].value} times in one call of your function")
        expect(seen["out"]).close_to(run_work(work, a, b, long, index))
        expect(seen["requires grad"]).equals(grad_mode == "on")

    def test_the_object_that_fn_returned_is_returned(seen, work):
        for same in (seen["same object"], *([seen["kinds"]["list"]] if work == "temporaries" else [])):
            expect(same).is_true("your function does not return the object that `fn()` returned")

    def test_what_is_kept_is_float16(seen, work):
        if work == "temporaries":
            for kept, when in paired(seen["kept in full"], ("", ", since backward has used it")):
                expect(kept).is_false(f"a tensor of full precision is kept for backward{when}")

    def test_a_tensor_that_is_overwritten_and_saved_again_is_saved_anew(seen, work):
        if work == "temporaries":
            path = "the gradient of `w` in `w * t` with 2, then with 6, in `t`"
            expect(Seen(seen["overwritten"].value, path)).close_to(torch.full((3,), 8.0))

    def test_nothing_else_changes_and_only_the_hooks_of_the_caller_are_active(seen):
        nothing_changed(seen["changed"])
        callers_hooks_active(seen["packs of the caller"][0], "")

    def test_an_exception_comes_through_and_leaves_no_hook(seen):
        came_through(seen["failure"], "`fn`")
        nothing_changed(seen["changed by failure"], when="after an exception")
        callers_hooks_active(seen["packs of the caller"][1], "after an exception, ")

    def test_the_example_of_the_contract_comes_out(seen, work):
        if work != "temporaries":
            return
        expect(seen["example"][0]).close_to(torch.tensor(1.0004).square(), rtol=1e-6, atol=1e-6)
        expect(seen["example"][1]).close_to(torch.tensor(2.0), rtol=1e-6, atol=1e-6)
        expect(seen["of zeros"]["error"]).equals("")
        zero = Seen(seen["of zeros"]["first"][0].value, "the gradient of z for z = zeros(3) and the result z * z")
        expect(zero).close_to(torch.zeros(3))


def same(tensor: Tensor) -> Tensor:
    """The tensor in full precision."""
    return tensor


def settled(tensor: Tensor) -> bool:
    """Whether no entry is so near the middle of two numbers of float16 that it matters how a library rounds float64."""
    return all(torch.equal(half(tensor), half(tensor * (1 + step))) for step in (-(2.0**-22), 2.0**-22))


def brain_half(tensor: Tensor) -> Tensor:
    """The values as bfloat16 holds them."""
    return tensor.bfloat16().to(tensor.dtype)


def made_finite(odd: Seen) -> bool:
    """Whether the odd numbers were rounded, and those that are too large did not become infinite."""
    found, rounded = odd.tensor, half(torch.tensor(ODD))
    return found is not None and torch.equal(found[:1], rounded[:1]) and bool(found.isfinite().all())


def half_of_float32(tensor: Tensor) -> Tensor:
    """Only float32 is rounded."""
    return half(tensor) if tensor.dtype == torch.float32 else tensor


def half_gradients(
    work: str,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    long: Tensor,
    index: Tensor,
    hooks: str,
    seen_as: Callable[[Tensor], Tensor] = half,
    leaf_as: Callable[[Tensor], Tensor] | None = None,
    restored: Tensor | None = None,
) -> list[Tensor | None]:
    """The gradients of the leaves, when saved values are used as `seen_as` gives them.

    `leaf_as` is for those that are leaves, and `restored` are the indices as they come back, if not as they were.
    """
    leaf_as = leaf_as or seen_as
    for_a = torch.zeros_like(a)
    for offset in OFFSETS:
        for_a = for_a + 2 * seen_as(a + offset)
    for_b = for_long = None
    if work in ("product", "data"):
        for_a = for_a + leaf_as(b)
        for_b = leaf_as(a) * c
    elif work == "mixed":
        for_b = 2 * seen_as(b) * c.sum().to(b.dtype)
        for_long = torch.cat([2 * seen_as(long[:3]) * c.sum(), torch.zeros_like(long[3:])])
    elif work == "output":
        for_a = for_a + seen_as(torch.exp(a))
    elif work == "indices":
        picked = long[index]
        gradient = torch.where(picked > 0, 2 * seen_as(picked), torch.ones_like(picked)) * c.sum()
        for_long = torch.zeros_like(long).index_put((index if restored is None else restored,), gradient, True)
    factor = FACTOR if hooks == "replacing" else 1.0
    return [factor * for_a * c, *([] if work == "data" else [for_b]), for_long]


def same_gradients(passes: Seen, which: str, expected: list[Tensor | None]) -> None:
    """A gradient for each leaf that the work reaches, and None for the others."""
    if passes["raised in"].value == which:
        refuse(f"the {which} backward pass raised {passes['error'].value}")
    for place, gradient in enumerate(expected):
        if gradient is None:
            expect(passes[which][place]).equals(None)
        else:
            expect(passes[which][place]).close_to(gradient, rtol=1e-5, atol=1e-5)


def grads_close(seen: Seen, expected: list[Tensor | None], which: str = "first") -> bool:
    """Whether each gradient of a pass is the expected one, or is not there as expected."""
    found = seen["passes"][which]
    return len(found) == len(expected) and all(
        entry.value is None if gradient is None else close(entry, gradient, 1e-5, 1e-5)
        for entry, gradient in zip(found, expected)
    )


def forward_is_exact(seen: Seen, work: str, a: Tensor, b: Tensor, long: Tensor, index: Tensor) -> bool:
    """Whether `fn` made what it makes without anybody's hooks."""
    return close(seen["out"], run_work(work, a, b, long, index))
