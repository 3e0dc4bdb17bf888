"""Exercise 12-joint-norm-log."""

from __future__ import annotations

import itertools
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
    Kind,
    Mistake,
    Seen,
    Witness,
    abort,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    own_grads,
    paired,
    prepared,
    refuse,
    removed,
    snapshot,
)

OLD = 0.7
SMALL = 3 * 2.0**-40
"""A small gradient, whose square float32 still holds."""
PLACES = ("leaf", "non-leaf", "parameter", "leaf")
"""What the tensors behind the first one are."""


class Group:
    """Tensors as a caller has them, their leaves, and passes that reach some of them."""

    def __init__(self, values: list[Tensor], layout: str, place: str, grad: str, hooks: str) -> None:
        self.leaves, self.tensors, self.layout = [], [], layout
        self.callers, self.free = CallersHooks(hooks), torch.ones(2, requires_grad=True)
        for index, (value, what) in enumerate(zip(values, (place, *PLACES))):
            own = "parameter" if what == "parameter" else "leaf"
            leaf = prepared(value, layout="contiguous" if index else layout, place=own, grad=grad)
            self.leaves.append(leaf)
            self.tensors.append(leaf.view_as(leaf) if what == "non-leaf" else leaf)
            self.callers.on_tensor(self.tensors[-1], str(index))
        # The way to the first tensor: it is the last that a pass goes.
        self.ways = [t.view_as(t) if index == 0 else t for index, t in enumerate(self.tensors)]

    def loss(self, weights: list[Tensor | None]) -> Tensor:
        """Three times `weights` arrives at each tensor, in two parts; None leaves a tensor out."""
        loss = self.free.sum()
        for way, weight in zip(self.ways, weights):
            if weight is not None:
                weight = laid_out(weight, self.layout) if weight.dim() else weight
                loss = loss + (way * weight).sum() + 2 * (way * weight).sum()
        return loss

    def abort(self, weights: list[Tensor | None]) -> None:
        """A pass that ends before it comes to the first tensor."""
        with own_grads(self.leaves):
            abort(lambda: self.loss(weights), self.ways[0])

    def run(self, weights: list[Tensor | None], way: str) -> None:
        """One pass; before it one that is aborted, if the circumstance says so and the pass reaches the first."""
        if way == "after an aborted one" and weights and weights[0] is not None:
            self.abort(weights)
        torch.autograd.backward(self.loss(weights), create_graph=way == "create_graph")

    @property
    def grads(self) -> list[Tensor | None]:
        """Copies of what the leaves hold."""
        return [snapshot(leaf.grad) for leaf in self.leaves]


def parts(result: Any) -> tuple[Any, Any]:
    """The two parts of a pair; None for what is no pair."""
    return (result[0], result[1]) if isinstance(result, tuple | list) and len(result) == 2 else (None, None)


def entries(log: Any) -> Any:
    """A copy of a list, so that what comes later does not show; the name of its type for any other value."""
    return list(log)[:60] if isinstance(log, list) else type(log).__name__


def norms_of(weights: list[Tensor | None], factor: float = 1.0) -> list[float]:
    """The L2 norm of the gradient of each tensor that a pass reaches."""
    return [(3 * factor * weight.double()).norm().item() for weight in weights if weight is not None]


def joint_norms(passes: list[list[Tensor | None]], factor: float = 1.0) -> list[float]:
    """The joint norm of each pass that reaches at least one tensor."""
    return [math.hypot(*norms) for weights in passes if (norms := norms_of(weights, factor))]


@exercise(
    "12-joint-norm-log",
    points=2,
    minutes=15,
    difficulty=2,
    title="Log the norm of several gradients together",
    hints=(
        "`torch.autograd.graph.register_multi_grad_hook(tensors, fn)` calls `fn` once for each backward pass, with a "
        "list of gradients in the order of `tensors`. It returns a handle.",
        "A tensor that the pass did not reach has `None` in the list.",
        "Square all entries, add everything up, and take one root at the end. `.item()` makes a float of it.",
    ),
    why=(
        "The multi-grad hook knows when the last gradient of the pass has arrived, which a hook on a single tensor "
        "does not. `math.hypot` of the norms of all gradients would do as well, or the norm of all of them joined into "
        "one long vector."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL,
            "collection": ("many", "one", "empty"), "hooks": ALL, "call": ALL,
            "backward": ("plain", "create_graph", "after an aborted one"),
        },
        excludes={
            "number": "no number is an argument",
            "model": "there is no model",
            "hooked": "the hooks of the caller sit on the tensors",
            "grad_mode": "it only registers; the passes need it on",
            "failure": "it calls nothing of the caller's",
        },
        pairs=[("dtype", "place"), ("backward", "hooks")],
        impossible=[
            lambda collection, call: collection == "empty" and call != "once",
            lambda collection, backward: collection != "many" and backward == "after an aborted one",
        ],
    ),
)  # fmt: skip
class TestJointNormLog:
    """Write `joint_norm_log(tensors)`. Return two things, as a tuple or a list: a list, empty at first, and a handle.
    From now on, each call of `backward()` that reaches at least one of these tensors appends one Python float to the
    list, the joint L2 norm of this pass: square each entry of the gradients that arrive at the tensors in this pass,
    add up all squares of all tensors, and take the root. It is exact to the digits of the tensors' dtype.

    - `tensors` is a list of different tensors of one dtype; it may be empty, and so may a tensor. Each requires grad;
      some are leaves, others are not.
    - A tensor that a pass does not reach adds nothing. A pass that reaches none of the tensors appends nothing.
    - A pass in which all gradients are zero appends 0.0, one with a NaN `nan`, and one with an infinite entry `inf`.
    - A pass that an exception stops before all gradients have arrived appends nothing.
    - Gradients count as the hooks leave them that were on the tensors before your call.
    - The flow of gradients does not change. After `handle.remove()` nothing is appended any more.
    - The caller does not use `torch.autograd.grad`.

    **Example.** For two scalars `a` and `b` and `log, handle = joint_norm_log([a, b])`, `(3 * a + 4 * b).backward()`
    appends 5.0. Then `(2 * a).backward()` appends 2.0.
    """

    def draw(rng, dtype, rank, values, layout, collection):
        count = {"empty": 0, "one": 1, "many": 5}[collection]
        shapes = [rng.shape(rank), (rng.integer(2, 3),), (2, rng.integer(2, 3)), (), (3,)][:count]
        values = "full" if dtype == "float64" else values

        def tensor(shape):
            return rng.tensor(*shape, dtype=dtype, values=values, layout=layout if shape else "contiguous")

        def weights(*reached, factor=1.0):
            drawn = [tensor(shape) * factor for shape in shapes]
            return [weight if index in reached else None for index, weight in enumerate(drawn)]

        others = rng.shuffled(range(1, 5))
        passes = [weights(0, *others[:2]), weights(*range(5)), weights(others[2]), weights(),
                  weights(0, *others[1:], factor=0.0), weights(*others[:3])]  # fmt: skip
        infinite = weights(*range(5))
        infinite[-1:] = [torch.full_like(weight, math.inf) for weight in infinite[-1:]]
        return {"tensors": [tensor(shape) for shape in shapes], "passes": [*passes, infinite]}

    def oracle(passes, hooks):
        return [joint_norms(passes[:-1], factor_of(hooks)), totals(passes[:-1], "filled", factor_of(hooks))]

    def probe(student, tensors, passes, layout, place, grad, hooks, call, backward):
        group = Group(tensors, layout, place, grad, hooks)
        other = Group([-value for value in tensors], layout, place, grad, hooks)
        witness = Witness(tensors=group.tensors)
        result = student.joint_norm_log(group.tensors)
        second = {"once": None, "again": group, "in turn": other}[call]
        log, handle = parts(result)
        if log is None and handle is None:
            return {"pair": False, "result": type(result).__name__}
        log_of_second, handle_of_second = parts(second and student.joint_norm_log(second.tensors))
        seen = {"pair": True, "at first": entries(log), "counts": []}
        for weights in passes:
            group.run(weights, backward)
            if second is other:
                other.run([w if w is None else 2 * w for w in weights], backward)
            seen["counts"].append(len(log) if isinstance(log, list) else 0)
        seen |= {"log": entries(log), "grads": group.grads, "removed": removed(handle)}
        group.run(passes[1], "plain")
        seen |= {"later": entries(log), "grads later": group.grads}
        if call != "once":
            seen["second"] = entries(log_of_second)
            removed(handle_of_second)
        seen["changed"] = witness.changes()

        no_entries, one = torch.zeros(0, 2, requires_grad=True), torch.ones(1, requires_grad=True)
        of_no_entries, _ = parts(student.joint_norm_log([no_entries, one]))
        (no_entries.sum() + 3 * one.sum()).backward()
        no_entries.sum().backward()
        seen["with a tensor without entries"] = entries(of_no_entries)
        of_one, _ = parts(student.joint_norm_log([one]))
        (SMALL * one).sum().backward()
        (math.nan * one).sum().backward()
        seen["small"] = entries(of_one)
        lone = torch.ones(1, requires_grad=True)
        without_handle = parts(student.joint_norm_log([lone]))[0]
        (3 * lone).sum().backward()
        seen["without its handle"] = entries(without_handle)
        lone.register_hook(lambda gradient: 2 * gradient)
        (3 * lone).sum().backward()
        seen["with a later hook"] = entries(without_handle)

        a, b = torch.tensor(1.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
        example, handle = parts(student.joint_norm_log([a, b]))
        (3 * a + 4 * b).backward()
        (2 * a).backward()
        (a * a).backward(create_graph=backward == "create_graph")
        return {**seen, "example": entries(example), "keeps its graph": a.grad.requires_grad}

    mistakes = (
        Mistake(
            "no-handle",
            lambda seen: seen["pair"].value is False or seen["removed"].value is False,
            "Return two things, the list and the handle: `return log, handle`. The handle is what "
            "`register_multi_grad_hook` returns; its `remove()` ends the logging.",
        ),
        Mistake(
            "one-entry-per-tensor",
            lambda seen, passes, backward: (
                SILENT
                if backward == "after an aborted one"
                else seen["counts"].value
                == counted(passes, lambda norms: len(norms))
                != counted(passes, lambda norms: int(bool(norms)))
            ),
            "Your log has one entry for each tensor and pass, so each tensor has a hook of its own. One joint hook for "
            "all of them, `register_multi_grad_hook`, is called once for each pass.",
        ),
        Mistake(
            "first-tensor-only",
            lambda seen, passes, hooks, backward: (
                SILENT
                if backward == "after an aborted one"
                else took_one(seen, passes, factor_of(hooks))
                and not close(seen["log"], largest(passes, factor_of(hooks)))
                and not close(seen["log"], joint_norms(passes, factor_of(hooks)))
            ),
            "Each entry is the norm of one tensor alone. Wait for all of them: with `mode='any'` the joint hook gets "
            "only the first gradient that arrives; the default mode gets the list of all.",
        ),
        Mistake(
            "largest-entry",
            lambda seen, passes, hooks: any(
                logged(seen, norms, passes, hooks)
                for norms in (largest(passes, factor_of(hooks)), largest_norms(passes, factor_of(hooks)))
            ),
            "Each entry is the largest number in the gradients, or the largest norm. The joint L2 norm adds up the "
            "squares of all entries.",
        ),
        Mistake(
            "sum-of-norms",
            lambda seen, passes, hooks: logged(
                seen, [sum(norms_of(weights, factor_of(hooks))) for weights in passes if any_of(weights)], passes, hooks
            ),
            "You added up the norms. The joint norm is the norm of the norms: the root of the sum of their squares.",
        ),
        Mistake(
            "no-root",
            lambda seen, passes, hooks: logged(
                seen, [norm**2 for norm in joint_norms(passes, factor_of(hooks))], passes, hooks
            ),
            "These are the sums of squares. Take the root of each.",
        ),
        Mistake(
            "skipped-zeros",
            lambda seen, passes: (
                seen["counts"].value
                == counted(passes, lambda norms: int(any(norms)))
                != counted(passes, lambda norms: int(bool(norms)))
            ),
            "A pass in which all gradients are zero has no entry. Zeros that arrive are gradients, too: only a tensor "
            "that the pass does not reach has `None` in the list.",
        ),
        Mistake(
            "skipped-nan",
            lambda seen: len(seen["small"]) == 1 and len(seen["with a tensor without entries"]) == 2,
            "A pass in which a NaN or an infinite entry arrives has no entry. Such entries count like all: the norm is "
            "then `nan` or `inf`, and appended.",
        ),
        Mistake(
            "replaced-nan",
            lambda seen: (
                len(seen["small"]) == 2
                and close(seen["small"][0], SMALL, atol=0.0)
                and math.isfinite(seen["small"][1].value)
            ),
            "You left out NaN or infinite entries, or put numbers in their place. Such entries count like all: the "
            "norm is then `nan` or `inf`.",
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen: len(seen["small"]) == 2 and close(seen["small"][0], 3.0),
            "You read `.grad`, which adds up over passes, and is written after the hook. Use the gradients that the "
            "hook receives.",
        ),
        Mistake(
            "nothing-appended",
            lambda seen: [] == seen["log"].value == seen["small"].value == seen["example"].value,
            "Nothing is appended to the list that you return. Is it the very list to which your hook appends, and not "
            "a copy? Is the hook registered?",
        ),
        Mistake(
            "changed-the-flow",
            # A tensor alone ends with an infinite gradient, whatever came before.
            lambda seen, passes, grad, hooks, collection: (
                not all(map(close, seen["grads"], totals(passes, grad, factor_of(hooks))))
                if collection == "many"
                else SILENT
            ),
            "The leaves hold other gradients than without you. The list that the hook gets holds the gradients that "
            "flow on: an operation in place, such as `square_()`, changes them. Compute new tensors.",
            rather_than=("replaced-nan", "skipped-nan"),
        ),
        Mistake(
            "unused-is-none",
            raises=("'NoneType' object has no attribute", "NoneType", "must be Tensor, not NoneType"),
            message="Your hook met a `None`. In the list of gradients, a tensor that this pass did not reach has "
            "`None`: skip it. (`.grad` can be `None`, too; use the gradients that the hook receives.)",
        ),
    )

    def test_each_pass_appends_its_joint_norm(seen, tensors, passes, hooks):
        expect(seen["pair"]).is_true("the result is not a pair: a list and a handle")
        same_log(seen["log"], joint_norms(passes, factor_of(hooks)), tensors)

    def test_a_tensor_without_entries_adds_nothing(seen):
        same_log(seen["with a tensor without entries"], [3.0, 0.0], [torch.ones(1)])

    def test_nobody_has_to_keep_the_handle(seen):
        same_log(seen["without its handle"], [3.0], [torch.ones(1)])

    def test_a_hook_that_comes_later_does_not_count(seen):
        same_log(seen["with a later hook"], [3.0, 3.0], [torch.ones(1)])

    def test_a_small_norm_is_as_exact_as_a_large_one(seen):
        expect(seen["small"]).has_length(2)
        expect(seen["small"][0]).close_to(SMALL, atol=0.0)

    def test_nan_is_an_entry(seen):
        value = seen["small"][1].value
        if type(value) is not float or not math.isnan(value):
            refuse("a pass in which a NaN arrives, and nothing infinite, should append NaN")

    def test_entries_come_only_from_passes_that_reach_a_tensor(seen, passes):
        expect(seen["at first"]).equals([])
        expect(seen["counts"]).equals(list(itertools.accumulate(int(any_of(weights)) for weights in passes)))

    def test_each_call_has_a_log_and_a_handle_of_its_own(seen, tensors, passes, hooks, call):
        if call != "once":
            doubled = 2.0 if call == "in turn" else 1.0
            more = passes if call == "in turn" else [*passes, passes[1]]
            same_log(seen["second"], joint_norms(more, doubled * factor_of(hooks)), tensors)

    def test_the_gradients_are_unchanged(seen, passes, grad, hooks, backward):
        for key, run in (("grads", passes), ("grads later", [*passes, passes[1]])):
            for index, total in enumerate(totals(run, grad, factor_of(hooks))):
                expect(seen[key][index]).close_to(total, detached=False)
        if backward == "create_graph":
            expect(seen["keeps its graph"]).is_true("after a pass with `create_graph=True`, `.grad` lost its graph")

    def test_after_remove_nothing_is_appended_and_nothing_is_left(seen):
        expect(seen["removed"]).is_true("the second of the two results has no `remove()`")
        if len(seen["later"]) > len(seen["log"]):
            refuse("a pass appended an entry after `handle.remove()`", Kind.HOOK_LEFT)
        expect(seen["later"]).has_length(len(seen["log"]))
        nothing_changed(seen["changed"], but=["grad-* *"])

    def test_the_example_of_the_contract_comes_out(seen):
        for entry, norm in paired(seen["example"], (5.0, 2.0, 2.0)):
            expect(entry).close_to(norm)


def factor_of(hooks: str) -> float:
    """By what the hooks of the caller multiply a gradient."""
    return FACTOR if hooks == "replacing" else 1.0


def any_of(weights: list[Tensor | None]) -> bool:
    """Whether a pass reaches one of the tensors."""
    return any(weight is not None for weight in weights)


def counted(passes: list[list[Tensor | None]], appended: Callable[[list[float]], int]) -> list[int]:
    """The length of the log after each pass, when a pass with these norms appends that many entries."""
    count, after = 0, []
    for weights in passes:
        count += appended(norms_of(weights))
        after.append(count)
    return after


def totals(passes: list[list[Tensor | None]], grad: str, factor: float) -> list[Tensor]:
    """What is in `.grad` of the leaves after these passes."""
    total = [torch.full_like(weight, OLD if grad == "filled" else 0.0) for weight in passes[1] if weight is not None]
    for weights in passes:
        for index, weight in enumerate(weights):
            if weight is not None:
                total[index] += 3 * factor * weight
    return total


def same_log(log: Seen, norms: list[float], tensors: list[Tensor]) -> None:
    """A list of these Python floats, exact to the digits of the tensors."""
    expect(log).has_length(len(norms))
    exact = {"rtol": 1e-9, "atol": 1e-9} if tensors and tensors[0].dtype == torch.float64 else {}
    for entry, norm in zip(log, norms):
        if type(entry.value) is not float:
            expect(entry).fail("expected a Python float; `.item()` makes one of a tensor")
        if close(entry, norm, **exact):
            continue
        if exact and close(entry, norm):
            refuse("the tensors are float64, and this norm is right only as far as float32 goes", Kind.PRECISION)
        expect(entry).close_to(norm, **exact)


def logged(seen: Seen, norms: list[float], passes: list[list[Tensor | None]], hooks: str) -> bool:
    """Whether the log holds these numbers, which are not the joint norms."""
    right = joint_norms(passes, factor_of(hooks))
    return close(seen["log"], norms, rtol=1e-4) and not close(seen["log"], right, rtol=1e-4)


def took_one(seen: Seen, passes: list[list[Tensor | None]], factor: float) -> bool:
    """Whether each entry is the norm of one tensor: of any in its pass, or always of the same one."""
    norms = [norms_of(weights, factor) for weights in passes if any_of(weights)]
    one_each = len(seen["log"]) == len(norms) > 0 and all(
        any(close(entry, norm) for norm in options) for entry, options in zip(seen["log"], norms)
    )
    fixed = (
        [(3 * factor * weight).norm().item() for weights in passes if (weight := weights[index]) is not None]
        for index in range(len(passes[0]))
    )
    return one_each or any(close(seen["log"], option) for option in fixed)


def largest_norms(passes: list[list[Tensor | None]], factor: float) -> list[float]:
    """The largest norm of each pass that reaches a tensor."""
    return [max(norms_of(weights, factor)) for weights in passes if any_of(weights)]


def largest(passes: list[list[Tensor | None]], factor: float) -> list[float]:
    """The largest absolute value of each pass that reaches a tensor."""
    reached = [[weight for weight in weights if weight is not None] for weights in passes]
    return [3 * factor * max(weight.abs().max().item() for weight in weights) for weights in reached if weights]
