"""Exercise 12-saved-bytes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

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

KINDS = {
    "one": ["relu"],
    "nothing": ["add"],
    "masks": ["square", "where"],
    "indices": ["exp-tanh", "pick"],
    "views": ["expand", "product"],
    "small": ["bfloat16", "square"],
}
"""What a function computes: several operations in random order."""

PRODUCTS = 8
"""How many products are made, one after the other, of tensors that die at once."""


def run_kinds(kinds: list[str], x: Tensor, w: Tensor, wide: Tensor, mask: Tensor, index: Tensor) -> Tensor:
    """The sum of the results of several operations; what each saves is in `saved_sizes`."""
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
            result = x.reshape(-1)[index]
        elif kind == "bfloat16":
            result = x.bfloat16() * w.bfloat16()
        else:
            result = x.expand(wide.shape) * wide
        total = total + result.sum()
    return total


def saved_sizes(kinds: list[str], n: int, rows: int, picks: int, size: int) -> list[tuple[int, int]]:
    """(elements, bytes of an element) of each save; the same tensor may come again.

    relu saves its result; a sum saves nothing; a product saves both factors; exp and tanh save their results;
    where saves its condition (bool); indexing saves the indices (int64); an expanded factor counts in full.
    """
    return [
        save
        for kind in kinds
        for save in {
            "relu": [(n, size)],
            "add": [],
            "square": [(n, size)] * 2,
            "product": [(n, size)] * 2,
            "exp-tanh": [(n, size)] * 2,
            "where": [(n, 1)],
            "pick": [(picks, 8)],
            "bfloat16": [(n, 2)] * 2,
            "expand": [(rows * n, size)] * 2,
        }[kind]
    ]


def total_bytes(kinds: list[str], x: Tensor, wide: Tensor, index: Tensor, inside: str, grad_mode: str) -> int:
    """What `saved_bytes` has to return."""
    if inside == "backward":
        kinds = [*kinds, "square"]
    sizes = saved_sizes(kinds, x.numel(), len(wide), len(index), x.element_size())
    return sum(elements * size for elements, size in sizes) if grad_mode == "on" else 0


def packed(value: Tensor, result_is: str) -> Any:
    """What a function returns: the tensor, or something else."""
    return {"tensor": value, "tuple": (value, "a text"), "nothing": None}[result_is]


class Work:
    """A function of the caller, the tensors that it works with, and what it made."""

    def __init__(self, kinds: list[str], x: Tensor, others: list[Tensor], *, inside: str, result_is: str) -> None:
        self.kinds, self.x, self.others, self.inside, self.result_is = kinds, x, others, inside, result_is
        self.made: list[Tensor] = []

    def __call__(self) -> Any:
        """One run. With `inside`, a backward pass of its own is a part of it."""
        if self.inside == "backward" and torch.is_grad_enabled():
            torch.autograd.grad((self.x * self.x).sum(), self.x)
        self.made.append(run_kinds(self.kinds, self.x, *self.others))
        return packed(self.made[-1], self.result_is)


def passes(loss: Tensor, leaves: list[Tensor], backward: str) -> dict[str, Any]:
    """The gradients of two passes through one graph, run as the circumstance says, and with a graph a third."""
    if not loss.requires_grad:
        return {"first": None, "second": None}
    with own_grads(leaves):
        if backward == "autograd.grad":
            first = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
        else:
            loss.backward(retain_graph=True)
            first = tuple(leaf.grad for leaf in leaves)
    found = {"first": [snapshot(grad) for grad in first]}
    second = torch.autograd.grad(loss, leaves, create_graph=backward == "create_graph", allow_unused=True)
    found["second"] = [snapshot(grad) for grad in second]
    if backward == "create_graph":
        squares = sum(grad.square().sum() for grad in second if grad is not None)
        if squares.requires_grad:
            found["third"] = [snapshot(g) for g in torch.autograd.grad(squares, leaves, allow_unused=True)]
    return found


def right_passes(
    kinds: list[str], x: Tensor, w: Tensor, wide: Tensor, mask: Tensor, index: Tensor, hooks: str, backward: str
) -> dict[str, Any]:
    """What `passes` finds with copies of these tensors, where no hooks for saved tensors are in force."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, w, wide)]
    if hooks == "replacing":
        leaves[0].register_hook(lambda gradient: FACTOR * gradient)
    return passes(run_kinds(kinds, *leaves, mask, index), leaves, backward)


SQUARE = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def of_short_lived_tensors(saved_bytes: Callable[..., Any]) -> dict[str, Any]:
    """Gradients where tensors that are saved die at once, share an address and a shape, or have equal sums."""
    many = [torch.tensor([float(number), 1.0], requires_grad=True) for number in range(PRODUCTS)]
    square = SQUARE.clone().requires_grad_()
    row, other = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([2.0, 1.0], requires_grad=True)
    sums: list[Tensor] = []
    saved_bytes(lambda: sums.extend(((2 * t) * (3 * t) * (t + 1)).sum() for t in many))
    saved_bytes(lambda: sums.extend([(square * square.T).sum(), (row * other).sum()]))
    for total in sums:
        with contextlib.suppress(Exception):  # a tensor that comes back in another shape
            total.backward()
    return {
        "of products": [t.grad for t in many],
        "of a square": square.grad,
        "of equal sums": row.grad,
        "in a pass": saved_bytes(pass_in_a_pass),
    }


def pass_in_a_pass() -> None:
    """A backward pass that saves tensors for another one."""
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.autograd.grad((t.exp() * t).sum(), t, create_graph=True)


def bytes_of_a_pass() -> int:
    """What `pass_in_a_pass` saves, as a pair of hooks of our own finds it."""
    sizes: list[int] = []
    with saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
        pass_in_a_pass()
    return sum(sizes)


@exercise(
    "12-saved-bytes",
    points=2,
    minutes=15,
    difficulty=2,
    title="Weigh what autograd keeps for backward",
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a context manager. While it is active, autograd "
        "calls `pack` with each tensor that it saves.",
        "`pack` counts, and returns the tensor, best as `tensor.detach()`. `unpack` gets what `pack` returned, and "
        "gives it back. Then the gradients stay right.",
        "With `with`, the context is left also when `fn` raises. The bytes of a tensor are `numel() * element_size()`.",
    ),
    why=(
        "`pack` is called each time a tensor is saved, so adding up there counts views, and tensors saved twice, as it "
        "should; what it keeps shares the memory and costs nothing. `tensor.nbytes` gives the same number of bytes."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "hooks": ALL, "call": ALL,
            "grad_mode": ALL, "backward": ("plain", "create_graph", "autograd.grad"),
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "values": "all tensors use all their digits",
            "number": "no number is an argument",
            "collection": "no collection is an argument; how much is saved is the axis `saves`",
            "model": "it gets a function",
            "hooked": "the hooks of the caller sit on a tensor",
        },
        own={
            "saves": tuple(KINDS),
            "result_is": ("tensor", "nothing", "tuple"),
            "inside": ("nothing", "backward"),
        },
        impossible=[
            lambda grad_mode, saves: grad_mode == "off" and saves in ("nothing", "one", "small"),
            lambda grad_mode, inside: grad_mode == "off" and inside == "backward",
            lambda inside, saves: inside == "backward" and saves == "nothing",
        ],
        pairs=[("saves", "result_is"), ("saves", "grad_mode"), ("dtype", "place")],
    ),
)  # fmt: skip
class TestSavedBytes:
    """Write `saved_bytes(fn)`. Call `fn()` once, without arguments. Return how many bytes of tensors autograd saves for
    backward while `fn()` runs, as an `int`. Each tensor that is saved counts `numel() * element_size()`, whatever its
    dtype. A tensor that is saved twice counts twice, and a view or an expanded tensor with its own `numel()`.

    - `fn()` runs in the grad mode of the caller; under `torch.no_grad()`, nothing is saved.
    - `fn` may return anything, also nothing, and may run backward passes of its own. It uses no hooks on saved
      tensors, and so does not call your function.
    - The caller runs backward later, perhaps several times, and gets the right gradients. Nobody overwrites what has
      been saved.
    - While `fn()` runs, hooks of the caller on saved tensors may be silent.

    **Example.** For `x = torch.ones(100, requires_grad=True)`, `saved_bytes(lambda: torch.relu(x))` is 400, because
    relu saves its result. For `lambda: x + 1` it is 0, for `lambda: x * x` it is 800.
    """

    def draw(rng, dtype, rank, layout, saves):
        shape, rows, picks = rng.shape(rank), rng.integer(2, 4), rng.integer(3, 9)
        x = rng.tensor(*shape, dtype=dtype, low=-1.5, high=1.5, layout=layout, values="full")
        others = [rng.tensor(*size, dtype=dtype, values="full") for size in (shape, (rows, *shape))]
        index = torch.tensor([rng.integer(0, x.numel() - 1) for _ in range(picks)])
        return {
            "kinds": rng.shuffled(KINDS[saves]), "x": x, "w": others[0], "wide": others[1],
            "mask": rng.tensor(*shape) > 0, "index": index,
        }  # fmt: skip

    def oracle(kinds, x, w, wide, mask, index, hooks):
        kinds = [kind for kind in kinds if kind != "bfloat16"]  # the same steps are taken with and without hooks
        return right_passes(kinds, x, w, wide, mask, index, hooks, "create_graph") if kinds else 0

    def probe(
        student, kinds, x, w, wide, mask, index, layout, place, grad, hooks, call, grad_mode, backward, failure,
        failing_run, saves, result_is, inside,
    ):  # fmt: skip
        leaf = prepared(x, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
        t = leaf.view_as(leaf) if place == "non-leaf" else leaf
        others = [torch.nn.Parameter(w), wide.requires_grad_(), mask, index]
        leaves = [leaf, *others[:2]]
        CallersHooks(hooks).on_tensor(t, "x")
        work = Work(kinds, t, others, inside=inside, result_is=result_is)
        other = Work([*kinds, "relu"], t, others, inside="nothing", result_is="tensor") if call == "in turn" else work
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(x=leaf, w=others[0], wide=wide, mask=mask, index=index)
            seen = {"bytes": student.saved_bytes(work), "calls": len(work.made), "changed": witness.changes()}
            leave_saved_hooks()
            if call != "once":
                seen["second"] = student.saved_bytes(other)
                leave_saved_hooks()
        try:
            seen |= {"error": "", "grads": passes(work.made[0], leaves, backward) if work.made else None}
        except Exception as error:
            seen["error"] = f"{type(error).__name__}: {str(error)[:150]}"

        strike = Failure(failure, failing_run)

        def failing():
            torch.relu(t)
            strike.strike()

        witness = Witness(x=leaf, w=others[0])
        seen["failure"] = strike.during(lambda: [student.saved_bytes(failing), student.saved_bytes(failing)])
        seen["changed by failure"] = witness.changes()
        leave_saved_hooks()
        again = Failure("own")
        seen["packs of the caller"] = [
            packs_of_the_caller(lambda: student.saved_bytes(work), leaf),
            packs_of_the_caller(lambda: again.during(lambda: student.saved_bytes(again.strike)), leaf),
        ]
        leave_saved_hooks()
        if saves != "nothing":
            return seen
        three = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        sums: list[Tensor] = []
        student.saved_bytes(lambda: sums.append((three * three).sum() + three[:2].square().sum()))
        with contextlib.suppress(Exception):  # a tensor that comes back in another shape
            sums[0].backward()
        seen["of one address"] = three.grad
        seen |= of_short_lived_tensors(student.saved_bytes)
        ones = torch.ones(100, requires_grad=True)
        examples = (lambda: torch.relu(ones), lambda: ones + 1, lambda: ones * ones)
        return {**seen, "example": [student.saved_bytes(fn) for fn in examples]}

    mistakes = (
        Mistake(
            "elements-not-bytes",
            lambda seen, kinds, x, w, wide, mask, index, layout, inside: weighed(
                seen, "elements", kinds, x, [w, wide, mask, index], layout, inside
            ),
            "You counted elements. An element of float32 has 4 bytes, one of float64 or int64 has 8: multiply each "
            "`numel()` by `element_size()`.",
        ),
        Mistake(
            "four-bytes-each",
            lambda seen, kinds, x, w, wide, mask, index, layout, inside: weighed(
                seen, "four bytes", kinds, x, [w, wide, mask, index], layout, inside
            ),
            "You counted 4 bytes for each element. That is right for float32 only: ask each tensor for its "
            "`element_size()`.",
        ),
        Mistake(
            "counted-in-unpack",
            lambda seen, x, inside, result_is: (
                # Who looks at the result alone sees nothing, either, where there is none.
                SILENT
                if inside == "nothing" and result_is != "tensor"
                else seen["bytes"].value == (2 * x.numel() * x.element_size() if inside == "backward" else 0)
            ),
            "You counted nothing, or only what a backward pass inside `fn` used. `unpack` runs in backward, when a "
            "saved tensor is used again. Count in `pack`, which runs when a tensor is saved.",
        ),
        Mistake(
            "counted-once",
            lambda seen, kinds, x, w, wide, mask, index, layout, inside: weighed(
                seen, "once", kinds, x, [w, wide, mask, index], layout, inside
            ),
            "You counted a tensor that is saved twice only once. `x * x` saves `x` twice, once for each factor, and "
            "the contract counts both.",
        ),
        Mistake(
            "one-sum-for-all",
            lambda seen, saves: added_up(seen["example"].value) if saves == "nothing" else SILENT,
            "You add to a sum in which the bytes of other calls are, too. Begin each call at 0.",
        ),
        Mistake(
            "some-left-out",
            lambda seen, kinds, x, w, wide, mask, index, layout, inside: any(
                weighed(seen, how, kinds, x, [w, wide, mask, index], layout, inside)
                for how in ("with grad", "of numbers")
            ),
            "You left some saved tensors out. Each counts that comes to `pack`: also an index, a mask, and a tensor "
            "that requires no grad.",
        ),
        Mistake(
            "whole-storage",
            lambda seen, kinds, x, w, wide, mask, index, layout, inside: weighed(
                seen, "storages", kinds, x, [w, wide, mask, index], layout, inside
            ),
            "You counted the storage of each tensor. A view or an expanded tensor has another number of elements than "
            "its storage; the contract counts `numel() * element_size()`.",
        ),
        Mistake(
            "packed-a-number",
            lambda seen: "unpack" in str(seen["error"].value),
            "Backward fails: what `unpack` returns has to be the saved tensor. `pack` has to return it, and `unpack` "
            "gives it back.",
            raises="unpack_hook expected to be a Tensor",
        ),
        Mistake(
            "ran-backward",
            lambda seen, saves, result_is: (
                # A graph that saves nothing can be run twice.
                SILENT if saves == "nothing" or result_is != "tensor" else "a second time" in str(seen["error"].value)
            ),
            "You ran backward inside your function, and so the caller cannot run it any more. Nothing needs it: `pack` "
            "is called in forward.",
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

    def test_the_bytes_are_counted(seen, kinds, x, wide, index, inside, grad_mode):
        expect(seen["bytes"]).equals(total_bytes(kinds, x, wide, index, inside, grad_mode))

    def test_another_call_counts_afresh(seen, kinds, x, wide, index, inside, grad_mode, call):
        if call != "once":
            work = ([*kinds, "relu"], "nothing") if call == "in turn" else (kinds, inside)
            expect(seen["second"]).equals(total_bytes(work[0], x, wide, index, work[1], grad_mode))

    def test_fn_is_called_once(seen):
        if seen["calls"].value != 1:
            refuse(f"`fn` was called {seen['calls'].value} times in one call of your function")

    def test_the_gradients_stay_right(seen, kinds, x, w, wide, mask, index, hooks, grad_mode, backward):
        if error := seen["error"].value:
            refuse(f"a backward pass of the caller, after your function has returned, raised {error}")
        with torch.set_grad_enabled(grad_mode == "on"):
            expected = right_passes(kinds, x, w, wide, mask, index, hooks, backward)
        for key, gradients in expected.items():
            for place, gradient in enumerate(gradients or ()):
                if gradient is None:
                    expect(seen["grads"][key][place]).equals(None)
                else:
                    expect(seen["grads"][key][place]).close_to(gradient)

    def test_two_tensors_with_one_address_both_come_back(seen, saves):
        if saves == "nothing":
            grad = Seen(seen["of one address"].value, "`t.grad` for `(t * t).sum() + t[:2].square().sum()`")
            expect(grad).close_to(torch.tensor([4.0, 8.0, 6.0]))

    def test_tensors_that_live_briefly_come_back(seen, saves):
        if saves == "nothing":
            for gradient, number in paired(seen["of products"], range(PRODUCTS)):
                found = Seen(gradient.value, f"`t.grad` for `((2 * t) * (3 * t) * (t + 1)).sum()`, `t = [{number}, 1]`")
                expect(found).close_to(torch.tensor([18.0 * number**2 + 12 * number, 30.0]))
            square = Seen(seen["of a square"].value, f"`t.grad` for `(t * t.T).sum()`, `t = {SQUARE.tolist()}`")
            expect(square).close_to(2 * SQUARE.T)
            row = Seen(seen["of equal sums"].value, "`t.grad` for `(t * u).sum()`, `t = [1, 2]` and `u = [2, 1]`")
            expect(row).close_to(torch.tensor([2.0, 1.0]))

    def test_what_a_pass_in_fn_saves_counts(seen, saves):
        if saves == "nothing":
            expect(
                Seen(seen["in a pass"].value, "the bytes of a `fn` that differentiates with `create_graph=True`")
            ).equals(bytes_of_a_pass())

    def test_nothing_else_changes_and_only_the_hooks_of_the_caller_are_active(seen):
        nothing_changed(seen["changed"])
        callers_hooks_active(seen["packs of the caller"][0], "")

    def test_an_exception_comes_through_and_leaves_no_hook(seen):
        came_through(seen["failure"], "`fn`")
        nothing_changed(seen["changed by failure"], when="after an exception")
        callers_hooks_active(seen["packs of the caller"][1], "after an exception, ")

    def test_the_example_of_the_contract_comes_out(seen, saves):
        if saves == "nothing":
            expect(seen["example"]).equals([400, 0, 800])


def added_up(numbers: list[int]) -> bool:
    """Whether each number of the example is right above the one before, and the first is not."""
    return [number - numbers[0] for number in numbers] == [0, 0, 800] and numbers[0] != 400


def weighed(seen: Seen, how: str, kinds: list[str], x: Tensor, others: list[Tensor], layout: str, inside: str) -> bool:
    """Whether the number is that of those who weigh in another way, as a pair of hooks of our own finds it."""
    saved: list[Tensor] = []
    kept: dict[str, list[bool]] = {"with grad": [], "of numbers": []}
    leaves = [prepared(x, layout=layout), *(t.detach().clone().requires_grad_() for t in others[:2])]

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.detach())
        kept["with grad"].append(tensor.requires_grad)
        kept["of numbers"].append(tensor.is_floating_point())
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        Work(kinds, leaves[0], [*leaves[1:], *others[2:]], inside=inside, result_is="tensor")()
    bytes_of = [t.numel() * t.element_size() for t in saved]
    number = {
        "elements": sum(t.numel() for t in saved),
        "four bytes": sum(4 * t.numel() for t in saved),
        "once": sum({(t.data_ptr(), t.shape, t.dtype): size for t, size in zip(saved, bytes_of)}.values()),
        "storages": sum(t.untyped_storage().nbytes() for t in saved),
        **{name: sum(itertools.compress(bytes_of, counts)) for name, counts in kept.items()},
    }[how]
    return bool(seen["bytes"].value == number != sum(bytes_of))
