"""Exercise 12-joint-norm-log."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from graders.authoring import Mistake, Seen, close, exercise, expect, removed, snapshot


def backward_of(tensors: list[Tensor], free: Tensor, weights: list[Tensor | None]) -> None:
    """One backward pass: three times `weights` arrives at each tensor, in two parts; None leaves a tensor out."""
    loss = free.sum()
    for tensor, weight in zip(tensors, weights):
        if weight is not None:
            loss = loss + (tensor * weight).sum() + 2 * (tensor * weight).sum()
    loss.backward(retain_graph=True)  # the tensor that is no leaf keeps its graph for the next pass


def norms_of(weights: list[Tensor | None]) -> list[float]:
    """The L2 norm of the gradient of each tensor that a pass reaches."""
    return [(3 * weight.double()).norm().item() for weight in weights if weight is not None]


def joint_norms(passes: list[list[Tensor | None]]) -> list[float]:
    """The joint norm of each pass that reaches at least one tensor."""
    return [math.hypot(*norms_of(weights)) for weights in passes if norms_of(weights)]


@exercise(
    "12-joint-norm-log",
    points=2,
    title="Log the norm of several gradients together",
    hints=(
        "`torch.autograd.graph.register_multi_grad_hook(tensors, fn)` calls `fn` once for each backward pass, with a "
        "list of gradients in the order of `tensors`. It returns a handle.",
        "A tensor that the pass did not reach has `None` in the list.",
        "Square all entries, add everything up, and take one root at the end. `.item()` makes a float of it.",
    ),
    cases=({"double": False}, {"double": False}, {"double": True}),
)
class TestJointNormLog:
    """Write `joint_norm_log(tensors)`. Return a pair: a list, empty at first, and a handle. From now on, each call of
    `backward()` that reaches at least one of these tensors appends one Python float to the list. The float is the
    joint L2 norm of this pass: square each entry of the gradients that arrive at the tensors in this pass, add up all
    squares of all tensors, and take the root.

    A tensor that a pass does not reach adds nothing. A pass that reaches none of the tensors appends nothing. A pass
    in which all gradients are zero appends 0.0. The flow of gradients does not change. After `handle.remove()` nothing
    is appended any more.

    `tensors` are different tensors of the same dtype, float32 or float64, and of any shapes. Each requires grad; some
    are leaves, others are not.

    **Example.** For two scalars `a` and `b` and `log, handle = joint_norm_log([a, b])`, `(3 * a + 4 * b).backward()`
    appends 5.0. Then `(2 * a).backward()` appends 2.0.
    """

    def draw(rng, double):
        dtype = torch.float64 if double else torch.float32
        shapes = rng.shuffled([(rng.integer(2, 3),), (2, rng.integer(2, 3)), ()])

        def weights(*reached, zero=False):
            return [rng.tensor(*shape, dtype=dtype) * (not zero) if index in reached else None
                    for index, shape in enumerate(shapes)]  # fmt: skip

        first, second, third = rng.shuffled([0, 1, 2])
        passes = [weights(first, second), weights(0, 1, 2), weights(third), weights(),
                  weights(second, third, zero=True), weights(first, third)]  # fmt: skip
        return {"values": [rng.tensor(*shape, dtype=dtype) for shape in shapes], "passes": passes}

    def probe(student, values, passes):
        leaves = [value.requires_grad_() for value in values]
        tensors = [*leaves[:2], 2 * leaves[2]]
        free = torch.ones(2, requires_grad=True)
        result = student.joint_norm_log(tensors)
        seen = {"is_a_pair": isinstance(result, (tuple, list)) and len(result) == 2}
        if not seen["is_a_pair"]:
            return {**seen, "result": result if result is None else type(result).__name__}
        log, handle = result
        seen["is_a_list"] = isinstance(log, list)
        seen["at_first"] = list(log) if seen["is_a_list"] else type(log).__name__
        counts = []
        for weights in passes:
            backward_of(tensors, free, weights)
            counts.append(len(log) if seen["is_a_list"] else 0)
        seen["log"] = list(log) if seen["is_a_list"] else type(log).__name__
        seen["counts"] = counts
        seen["grads"] = [snapshot(leaf.grad) for leaf in leaves]
        seen["removed"] = removed(handle)
        backward_of(tensors, free, passes[1])
        seen["later"] = len(log) if seen["is_a_list"] else 0
        seen["grads_later"] = [snapshot(leaf.grad) for leaf in leaves]
        return seen

    mistakes = (
        Mistake(
            "no-handle",
            lambda seen, passes: (
                seen["is_a_pair"].value is False
                or (close(seen["log"], joint_norms(passes)) and seen["removed"].value is False)
            ),
            "Return two things, the list and the handle: `return log, handle`. The handle is what "
            "`register_multi_grad_hook` returns; its `remove()` ends the logging.",
        ),
        Mistake(
            "one-entry-per-tensor",
            lambda seen, passes: seen["counts"].value == counted(passes, lambda norms: len(norms)),
            "Your log has one entry for each tensor and pass, so each tensor has a hook of its own. One joint hook for "
            "all of them, `register_multi_grad_hook`, is called once for each pass.",
        ),
        Mistake(
            "first-tensor-only",
            lambda seen, passes: took_one(seen, passes),
            "Each entry is the norm of one tensor alone. Wait for all of them: with `mode='any'` the joint hook gets "
            "only the first gradient that arrives; the default mode gets the list of all.",
        ),
        Mistake(
            "sum-of-norms",
            lambda seen, passes: close(seen["log"], [sum(norms_of(weights)) for weights in passes if any_of(weights)]),
            "You added up the norms. The joint norm is the norm of the norms: the root of the sum of their squares.",
        ),
        Mistake(
            "no-root",
            lambda seen, passes: close(seen["log"], [norm**2 for norm in joint_norms(passes)]),
            "These are the sums of squares. Take the root of each.",
        ),
        Mistake(
            "unused-is-none",
            raises=("'NoneType' object has no attribute", "NoneType", "must be Tensor, not NoneType"),
            message="Your hook met a `None`. In the list of gradients, a tensor that this pass did not reach has "
            "`None`: skip it. (`.grad` can be `None`, too; use the gradients that the hook receives.)",
        ),
    )

    def test_each_pass_appends_its_joint_norm(seen, passes):
        expect(seen["is_a_pair"]).is_true("the result is not a pair: a list and a handle")
        expect(seen["is_a_list"]).is_true("the first of the two results is not a list")
        expected = joint_norms(passes)
        expect(seen["log"]).has_length(len(expected))
        for entry, norm in zip(seen["log"], expected):
            expect(entry).close_to(norm)

    def test_entries_come_only_from_passes_that_reach_a_tensor(seen, passes):
        expect(seen["at_first"]).equals([])
        expect(seen["counts"]).equals(counted(passes, lambda norms: int(bool(norms))))

    def test_the_gradients_are_unchanged(seen, passes):
        for index, total in enumerate(totals(passes)):
            expect(seen["grads"][index]).close_to(total)
        for index, total in enumerate(totals([*passes, passes[1]])):
            expect(seen["grads_later"][index]).close_to(total)

    def test_after_remove_nothing_is_appended(seen):
        expect(seen["removed"]).is_true("the second of the two results has no `remove()`")
        expect(seen["later"]).equals(len(seen["log"]))


def any_of(weights: list[Tensor | None]) -> bool:
    """Whether a pass reaches one of the tensors."""
    return any(weight is not None for weight in weights)


def counted(passes: list[list[Tensor | None]], entries: Callable[[list[float]], int]) -> list[int]:
    """The length of the log after each pass, when a pass with these norms appends that many entries."""
    count, after = 0, []
    for weights in passes:
        count += entries(norms_of(weights))
        after.append(count)
    return after


def totals(passes: list[list[Tensor | None]]) -> list[Tensor]:
    """What is in `.grad` of the three leaves after these passes; the third tensor is twice its leaf."""
    total = [torch.zeros_like(weight) for weight in passes[1] if weight is not None]
    for weights in passes:
        for index, weight in enumerate(weights):
            if weight is not None:
                total[index] += 3 * weight * (2 if index == 2 else 1)
    return total


def took_one(seen: Seen, passes: list[list[Tensor | None]]) -> bool:
    """Whether each entry is the norm of one tensor: of any in its pass, or always of the first in the list."""
    norms = [norms_of(weights) for weights in passes if any_of(weights)]
    one_each = len(seen["log"]) == len(norms) and all(
        any(close(entry, norm) for norm in options) for entry, options in zip(seen["log"], norms)
    )
    fixed = (
        [(3 * weight).norm().item() for weights in passes if (weight := weights[index]) is not None]
        for index in range(3)
    )
    return one_each or any(close(seen["log"], option) for option in fixed)
