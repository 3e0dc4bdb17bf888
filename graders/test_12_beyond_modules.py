"""Lesson 12. Beyond modules."""

from __future__ import annotations

import gc
import math
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.flop_counter import FlopCounterMode

from graders.box.probing import Boom, expecting_boom, module_hooks, removed, snapshot
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect


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


UNARY = {
    "ReluBackward0": torch.relu,
    "TanhBackward0": torch.tanh,
    "ExpBackward0": torch.exp,
    "SigmoidBackward0": torch.sigmoid,
    "SinBackward0": torch.sin,
}


def make_graph(spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """A scalar y, and for each named node of its graph its outputs and its first input.

    Two branches meet; `doublings` of `t + t` make many paths; `x` enters through a view or is unbound into two.
    """
    first, second, last = spec["unary"]
    if spec["unbind"]:
        flat, w = x.unbind(0)
        nodes: dict[str, Any] = {"UnbindBackward0": ([flat, w], x)}
    else:
        flat = x.view(-1)
        nodes = {"ViewBackward0": ([flat], x)}
    h = flat * w
    left, right = UNARY[first](h), UNARY[second](h)
    joined = left - right
    t = joined
    for _ in range(spec["doublings"]):
        t = t + t
    halved = t / 2 ** spec["doublings"]
    bent = UNARY[last](halved)
    y = torch.dot(bent, c) if spec["dot"] else bent.sum()
    nodes |= {
        "MulBackward0": ([h], flat),
        first: ([left], h),
        second: ([right], h),
        "SubBackward0": ([joined], left),
        "DivBackward0": ([halved], t),
        last: ([bent], halved),
        ("DotBackward0" if spec["dot"] else "SumBackward0"): ([y], bent),
    }
    return y, nodes


def leaves_of(spec: dict[str, Any], x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Fresh leaves; `w` requires no grad where the graph does not use it."""
    return x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_(not spec["unbind"])


def node_gradients(spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, wanted: list[str]) -> dict[str, Any]:
    """For each wanted node: the summed gradient of its first output, and the one that leaves it at its first input."""
    y, nodes = make_graph(spec, *leaves_of(spec, x, w), c)
    arriving, leaving = {}, {}
    for name in wanted:
        if name in nodes:
            outputs, source = nodes[name]
            gradients = torch.autograd.grad(y, outputs, retain_graph=True)
            arriving[name] = gradients[0]
            leaving[name] = torch.autograd.grad(outputs, source, gradients, retain_graph=True)[0]
    return {"arriving": arriving, "leaving": leaving}


def leaf_gradients(spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor) -> dict[str, Tensor | None]:
    """What one plain backward writes into the `.grad` of the leaves."""
    x, w = leaves_of(spec, x, w)
    make_graph(spec, x, w, c)[0].backward()
    return {"x": x.grad, "w": w.grad}


def functions_run_by(call: Callable[[], Any]) -> list[str]:
    """The names of the Python functions that run while `call` runs, in order."""
    names, before = [], sys.getprofile()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return names


def names_on_the_way(spec: dict[str, Any], wanted: list[str]) -> dict[str, set[str]]:
    """Which wanted names a walk finds that stops at the top, or that follows first inputs only."""
    top = "DotBackward0" if spec["dot"] else "SumBackward0"
    second = spec["unary"][1]
    first_branch = set(wanted) - {second, spec["absent"]}
    return {"top": {top} & set(wanted), "first branch": first_branch}


@exercise(
    "12-grad-into-nodes",
    points=2,
    title="Read gradients at the nodes of the graph",
    hints=(
        "Start at `y.grad_fn`. Each entry of `node.next_functions` is a pair, and its first element is the next node, "
        "or `None`. Each node has a `name()`.",
        "Branches meet again: keep a set of the nodes that you have visited, and visit each once.",
        "The gradient that *arrives* at a node goes to its pre-hook: `node.register_prehook(fn)`, where `fn` gets the "
        "tuple `grad_outputs`. Collect the handles, run backward, remove them.",
    ),
    cases=(
        {"unbind": False, "dot": False, "doublings": 0},
        {"unbind": False, "dot": True, "doublings": 5},
        {"unbind": True, "dot": True, "doublings": 1},
    ),
)
class TestGradIntoNodes:
    """Write `grad_into_nodes(y, node_names)`. `y` is a scalar, and `node_names` is a set of names of graph nodes, such
    as `"ReluBackward0"`. Run `y.backward()` once. Return a dict: for each of the names that the graph of `y` contains,
    the gradient that arrives at this node for the node's first output. This is the complete gradient: when the output
    is used several times, it is the sum.

    The name of a node is what its method `name()` returns. Each of the names occurs at most once in the graph; names
    that are not asked for may occur often. A name that the graph does not contain is not a key of the dict. The order
    of the keys does not matter. The gradients are detached copies, which do not change later.

    The leaves get their `.grad` as in one plain `y.backward()`. No hook of yours is left at a node, even when backward
    raises; the exception comes through.

    **Example.** `y = torch.relu(x).sum()`, `x = [2., -1.]`: `grad_into_nodes(y, {"ReluBackward0", "ExpBackward0"})` is
    `{"ReluBackward0": [1., 1.]}`. The gradient `[1., 0.]` is the one that *leaves* the node.
    """

    def draw(rng, unbind, dot, doublings):
        unary = rng.shuffled(list(UNARY))
        spec = {"unary": unary[:3], "absent": unary[3], "unbind": unbind, "dot": dot, "doublings": doublings}
        n = 2 * rng.integer(2, 3)
        x = rng.tensor(2, n if unbind else n // 2, low=-1.5, high=1.5)
        top = "DotBackward0" if dot else "SumBackward0"
        others = rng.shuffled([unary[0], unary[2], "SubBackward0", "DivBackward0"])[:2]
        always = [unary[1], "MulBackward0", "UnbindBackward0" if unbind else "ViewBackward0", top]
        w, c = (rng.tensor(n, low=-1.5, high=1.5) for _ in range(2))
        return {"spec": spec, "x": x, "w": w, "c": c, "wanted": rng.shuffled([*always, *others, spec["absent"]])}

    def alive(spec, x, w, c, wanted):
        found = node_gradients(spec, x, w, c, wanted)
        return all(
            gradient.abs().max() > 0.01
            and (name not in UNARY or (gradient - found["leaving"][name]).abs().max() > 0.01)
            for name, gradient in found["arriving"].items()
        )

    def probe(student, spec, x, w, c, wanted):
        x, w = x.requires_grad_(), w.requires_grad_(not spec["unbind"])
        if w.requires_grad:
            w.grad = torch.ones_like(w)
        y, _ = make_graph(spec, x, w, c)
        result = student.grad_into_nodes(y, set(wanted))
        is_dict = isinstance(result, dict)
        seen = {
            "result": {key: snapshot(value) for key, value in result.items()} if is_dict else result,
            "detached": is_dict and not any(getattr(value, "requires_grad", False) for value in result.values()),
            "grads": {"x": snapshot(x.grad), "w": snapshot(w.grad)},
            "x_needs_grad": x.requires_grad,
            "plain_grad": not getattr(x.grad, "requires_grad", False),
        }
        if x.grad is not None:
            x.grad.zero_()
        seen["kept"] = {key: snapshot(value) for key, value in result.items()} if is_dict else None

        # A graph that saves nothing can be run again, which shows hooks that are left.
        z = (x.detach().requires_grad_().view(-1) - 1).sum()
        plain = student.grad_into_nodes(z, {"ViewBackward0", "SubBackward0"})
        is_dict = isinstance(plain, dict)
        seen["first_pass"] = {key: snapshot(value) for key, value in plain.items()} if is_dict else None
        z.backward(torch.tensor(3.0))
        seen["second_pass"] = {key: snapshot(value) for key, value in plain.items()} if is_dict else None

        def boom(grad):
            raise Boom

        fresh = x.detach().requires_grad_()
        z, twin = (fresh.view(-1) - 1).sum(), (fresh.view(-1) - 1).sum()
        handle = fresh.register_hook(boom)
        with expecting_boom(seen):
            student.grad_into_nodes(z, {"ViewBackward0", "SubBackward0"})
        handle.remove()
        plain, again = (functions_run_by(root.backward) for root in (twin, z))
        seen["hooks_left_by_exception"] = len(again) - len(plain)
        return seen

    mistakes = (
        Mistake(
            "grad-leaving-the-node",
            lambda seen, spec, x, w, c, wanted: close(
                seen["result"], node_gradients(spec, x, w, c, wanted)["leaving"], rtol=1e-4, atol=1e-4
            ),
            "You took the first entry of `grad_inputs`, the gradient that leaves the node. The gradient that arrives "
            "at it is in `grad_outputs`: the only argument of a pre-hook, the second of a hook.",
        ),
        Mistake(
            "top-node-only",
            lambda seen, spec, wanted: (
                set(seen["result"].keys) == names_on_the_way(spec, wanted)["top"]
                and close(seen["result"]["SumBackward0" if not spec["dot"] else "DotBackward0"], 1.0)
            ),
            "You looked at `y.grad_fn` only, the last node. Walk the graph from there: each entry of "
            "`node.next_functions` holds the next node.",
        ),
        Mistake(
            "first-branch-only",
            lambda seen, spec, wanted: set(seen["result"].keys) == names_on_the_way(spec, wanted)["first branch"],
            "A node is missing that is not on the way of the first inputs. A node has one next node for each input: "
            "walk over all of `next_functions`, not only over `next_functions[0]`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, wanted: (
                len(seen["result"]) == 1
                and not (
                    set(seen["result"].keys) == names_on_the_way(spec, wanted)["top"]
                    and close(seen["result"][seen["result"].keys[0]], 1.0)
                )
            ),
            "All gradients went to one name. Your hooks read the loop variable when they run, and by then it has its "
            "last value. Bind it: `lambda grads, name=node.name(): ...`.",
        ),
        Mistake(
            "absent-as-none",
            lambda seen, spec: (
                spec["absent"] in seen["result"].keys and not isinstance(seen["result"][spec["absent"]].tensor, Tensor)
            ),
            "A name that the graph does not contain has to be absent from the dict; you have an entry for it.",
        ),
        Mistake(
            "visited-twice",
            lambda seen, spec, x, w, c, wanted: (
                spec["absent"] not in seen["result"].keys and multiplied(seen, spec, x, w, c, wanted)
            ),
            "Some gradients are multiples of the right ones. Branches meet again, so you came to these nodes by "
            "several ways and registered a hook each time. Keep a set of visited nodes.",
        ),
        Mistake(
            "met-none",
            raises=("'NoneType' object has no attribute",),
            message="Your walk met a `None`. An input that requires no grad has `None` in `next_functions` in place "
            "of a node: skip it.",
        ),
        Mistake(
            "leaves-without-grad",
            lambda seen, spec, x, w, c, wanted: right_gradients(seen, spec, x, w, c, wanted)
            and seen["grads"]["x"].value is None,
            "The gradients are right, but the leaves have no `.grad`: `torch.autograd.grad` writes none. The contract "
            "asks for one `y.backward()`.",
        ),
        Mistake(
            "backward-twice",
            lambda seen, spec, x, w, c, wanted: right_gradients(seen, spec, x, w, c, wanted)
            and close(seen["grads"]["x"], 2 * given(leaf_gradients(spec, x, w, c)["x"])),
            "The gradients are right, but the `.grad` of the leaves holds two passes. Run `y.backward()` once.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, x, w, c, wanted: (
                not spec["unbind"]
                and right_gradients(seen, spec, x, w, c, wanted)
                and close(seen["kept"]["ViewBackward0"], 0.0)
            ),
            "An entry changed when the caller cleared `x.grad` in place: both share their memory. Store "
            "`.detach().clone()`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: (
                close(seen["first_pass"]["SubBackward0"], 1.0)
                and close(seen["second_pass"]["SubBackward0"], 3.0)
            ),
            "A second backward through the same graph changed your result: your hooks are still at the nodes. Keep "
            "the handle of each `register_prehook` and call `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen, spec, x, w, c, wanted: (
                seen["hooks_left_by_exception"].value > 0
                and right_gradients(seen, spec, x, w, c, wanted)
                and close(seen["grads"]["x"], given(leaf_gradients(spec, x, w, c)["x"]))
                and close(seen["second_pass"]["SubBackward0"], 1.0)
            ),
            "When backward raised, your `remove()` calls were skipped, and your hooks are still at the nodes. Put the "
            "calls into `finally`.",
        ),
    )  # fmt: skip

    def test_the_gradients_arrive_at_the_nodes(seen, spec, x, w, c, wanted):
        expected = node_gradients(spec, x, w, c, wanted)["arriving"]
        expect(seen["result"]).has_keys(*expected)
        for name, gradient in expected.items():
            expect(seen["result"][name]).close_to(gradient, rtol=1e-4, atol=1e-4)

    def test_the_gradients_are_detached_copies(seen):
        expect(seen["detached"]).is_true("a gradient in the result requires grad; detach it")
        for name in seen["result"].keys:
            tensor = seen["result"][name].tensor
            if tensor is not None:
                expect(seen["kept"][name]).close_to(tensor)

    def test_the_leaves_have_the_grad_of_one_pass(seen, spec, x, w, c):
        expected = leaf_gradients(spec, x, w, c)
        expect(seen["grads"]["x"]).close_to(given(expected["x"]), rtol=1e-4, atol=1e-4)
        if expected["w"] is not None:
            expect(seen["grads"]["w"]).close_to(expected["w"] + 1, rtol=1e-4, atol=1e-4)
        expect(seen["plain_grad"]).is_true(
            "a leaf's `.grad` requires grad; one plain `y.backward()` makes none that does"
        )

    def test_a_second_backward_changes_nothing(seen):
        for when in ("first_pass", "second_pass"):
            expect(seen[when]).has_keys("ViewBackward0", "SubBackward0")
            for name in seen[when].keys:
                tensor = seen[when][name].tensor
                expect(seen[when][name]).close_to(torch.ones_like(given(tensor)))

    def test_no_hook_is_left_when_backward_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_left_by_exception"]).equals(0)


def given(tensor: Tensor | None) -> Tensor:
    """The tensor; an empty one for None, which nothing equals."""
    return torch.empty(0) if tensor is None else tensor


def right_gradients(seen: Seen, spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, wanted: list[str]) -> bool:
    """Whether the result is as expected."""
    return close(seen["result"], node_gradients(spec, x, w, c, wanted)["arriving"], rtol=1e-4, atol=1e-4)


def multiplied(seen: Seen, spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, wanted: list[str]) -> bool:
    """Whether all entries are whole multiples of the right ones, and some are not the right ones."""
    expected, factors = node_gradients(spec, x, w, c, wanted)["arriving"], []
    for name, gradient in expected.items():
        tensor, at = seen["result"][name].tensor, gradient.abs().argmax()
        if tensor is None or tensor.shape != gradient.shape:
            return False
        factors.append(round((tensor.reshape(-1)[at] / gradient.reshape(-1)[at]).item()))
        if factors[-1] < 1 or not torch.allclose(tensor, factors[-1] * gradient, rtol=1e-3, atol=1e-3):
            return False
    return max(factors) > 1


def saved_hooks_on() -> bool:
    """Whether a context of hooks on saved tensors is active: torch refuses to disable them then."""
    try:
        with disable_saved_tensors_hooks("hooks on saved tensors are active"):
            return False
    except RuntimeError:
        return True


def leave_saved_hooks() -> None:
    """Leave every context of hooks on saved tensors that an answer left active."""
    while saved_hooks_on():
        saved_tensors_hooks(lambda t: t, lambda t: t).__exit__(None, None, None)


def packs_of_the_caller(call: Callable[[], Any], x: Tensor) -> int:
    """How many tensors of `x * x`, run after `call`, go to hooks that were active before `call`."""
    packed = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(1)
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
        packed.clear()
        x * x
        return len(packed)


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
            lambda seen: ran_backward(seen),
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


def half_gradients(kind: str, a: Tensor, b: Tensor, index: Tensor, seen_as: Callable[[Tensor], Tensor] = half,
                   restored: Tensor | None = None) -> list[Tensor | None]:  # fmt: skip
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
    return sum(type(one) is Tensor and one.numel() == numel and one.dtype == dtype for one in gc.get_objects())


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
        seen["again"] = [snapshot(one) for one in torch.autograd.grad(total, (a, b), allow_unused=True)]

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
                a.dtype == torch.float32
                and grads_close(seen, half_gradients(kind, a, b, index, lambda tensor: tensor))
                and seen["same_object"].value is True
                and close(seen["result"]["out"], run_kind(kind, a, b, index), rtol=1e-6, atol=1e-6)
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


class Workshop(nn.Module):
    """A model that calls registered modules, modules in a plain list, and modules that it makes on the way."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        own_linear, own_block = (
            type(name, (base,), {"__qualname__": f"Workshop.{name}"})  # as if defined inside another class
            for name, base in zip(spec["names"], (nn.Linear, nn.Sequential))
        )
        self.steps = spec["steps"]
        self.block = own_block(own_linear(3, 3), nn.Tanh())
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.stack = nn.ModuleList([nn.Linear(3, 3), nn.ELU()])
        self.never = nn.Hardtanh()
        self.direct = nn.Softsign()
        self.hidden = [nn.Sequential(nn.Softplus()), own_linear(3, 3)]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            if step == "stack":
                for module in self.stack:
                    x = module(x)
            elif step == "direct":
                x = self.direct.forward(x)
            else:
                modules = {"block": self.block, "inner": self.inner, "fresh": nn.Sigmoid(),
                           "hidden 0": self.hidden[0], "hidden 1": self.hidden[1]}  # fmt: skip
                x = modules[step](x)
        return x


def make_workshop(spec: dict[str, Any]) -> nn.Module:
    """The model, of a class with a drawn name."""
    return type(spec["names"][2], (Workshop,), {})(spec)


def known_calls(spec: dict[str, Any], *, hidden: bool = True, containers: bool = True) -> dict[str, int]:
    """The calls by class name; without `hidden` those of modules outside `modules()` are missing."""
    own_linear, own_block, own_model = spec["names"]
    counts = Counter([own_model] if containers else [])
    for step in spec["steps"]:
        if step in ("hidden 0", "hidden 1", "fresh") and not hidden:
            continue
        leaves = {"block": [own_linear, "Tanh"], "inner": ["Linear", "ReLU"], "stack": ["Linear", "ELU"],
                  "direct": [], "fresh": ["Sigmoid"], "hidden 0": ["Softplus"], "hidden 1": [own_linear]}  # fmt: skip
        outer = {"block": [own_block], "inner": ["Sequential"], "hidden 0": ["Sequential"]}
        counts.update(leaves[step])
        counts.update(outer.get(step, []) if containers else [])
    return dict(counts)


@exercise(
    "12-count-calls-by-type",
    points=2,
    title="Count every module call, by class",
    hints=(
        "A module in a plain Python list is not in `model.modules()`, and a module that `forward` makes on the way is "
        "not there before the call. A global hook, `register_module_forward_hook` from `torch.nn.modules.module`, "
        "fires for every module of the process.",
        "The hook gets the module first; its class name is `type(module).__name__`.",
        "Global hooks outlive your function: remove yours in `finally`, or use the handle in a `with` statement.",
    ),
    cases=({}, {}, {}),
)
class TestCountCallsByType:
    """Write `count_calls_by_type(model, x)`. Run `model(x)` once. Return a dict that says for each class name how many
    calls of modules of this class took place, such as `{"Linear": 2, "ReLU": 1, "Sequential": 1}`.

    Every call `module(...)` counts: the call of `model` itself, of the containers in it, of modules that are used
    several times, and also of modules that are not in `model.modules()`, because they are in a plain Python list or are
    made inside `forward`. Running `module.forward(...)` directly is not a call. The class name is
    `type(module).__name__`; a subclass has its own. Classes without a call are not in the dict. The order of the keys
    does not matter.

    `x` stays as it was, the modules stay in their modes, no gradient is computed, and hooks of the caller stay. No hook
    of yours is left, even when the model raises; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))` the result is
    `{"Sequential": 1, "Linear": 2, "Tanh": 1}`.
    """

    def draw(rng):
        always = ["block", "inner", "inner", "stack", "fresh", "hidden 0", "hidden 1", "direct"]
        more = [rng.choice(("block", "stack", "fresh", "hidden 0", "hidden 1")) for _ in range(3)]
        names = [name.capitalize() for name in rng.names(3)]
        return {"spec": {"names": names, "steps": rng.shuffled([*always, *more])}, "x": rng.tensor(2, 3)}

    def probe(student, spec, x):
        model = make_workshop(spec)
        model.inner.eval()
        modes = [module.training for module in model.modules()]
        before = x.clone()
        calls, everywhere = [], []
        model.register_forward_hook(lambda *_: calls.append(1))
        for register in (register_module_forward_pre_hook, register_module_forward_hook):
            register(lambda module, *_: everywhere.append(type(module).__name__))
        hooks = module_hooks(model) + sum(module_hooks(hidden) for hidden in model.hidden)
        counts = student.count_calls_by_type(model, x)
        seen = {
            "counts": dict(counts) if isinstance(counts, dict) else counts,
            "callers_calls": len(calls),
            "hooks_left": module_hooks(model) + sum(module_hooks(hidden) for hidden in model.hidden) - hooks,
            "modes_kept": modes == [module.training for module in model.modules()],
            "no_grads": all(parameter.grad is None for parameter in model.parameters()),
            "x_kept": torch.equal(x, before) and not x.requires_grad,
        }
        everywhere.clear()
        nn.Tanh()(x)
        seen["callers_calls_later"] = list(everywhere)
        failing = make_workshop(spec)

        def boom(*_):
            raise Boom

        failing.inner[1].register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen):
            student.count_calls_by_type(failing, x)
        seen["hooks_left_by_exception"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "counted-modules",
            lambda seen, spec: seen["counts"].value in [*modules_by_type(spec), *modules_called_by_type(spec)],
            "You counted modules. The task counts calls: a module that is used twice counts twice, and one that is "
            "never called does not count. Count in a hook while the model runs.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec: (
                seen["counts"].value
                in (known_calls(spec, containers=False), known_calls(spec, hidden=False, containers=False))
            ),
            "The calls of containers are missing. The model itself and the containers in it are modules, too, and "
            "their calls count here.",
        ),
        Mistake(
            "registered-modules-only",
            lambda seen, spec: seen["counts"].value == known_calls(spec, hidden=False),
            "You hooked the modules of `model.modules()`. Modules in a plain list, or made inside `forward`, are not "
            "among them. A global hook fires for every module: `register_module_forward_hook`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec: seen["counts"].value == known_calls(spec) and seen["hooks_left"].value > 0,
            "Your counts are right, but your global hook is still registered, and now it fires for every module of "
            "this process. Keep the handle and call `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_left_by_exception"].value > 0,
            "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle "
            "in a `with` statement.",
        ),
    )

    def test_every_call_is_counted(seen, spec):
        expected = known_calls(spec)
        expect(seen["counts"]).has_keys(*expected)
        for name, count in expected.items():
            expect(seen["counts"][name]).equals(count)

    def test_the_model_ran_once_as_it_was(seen):
        expect(seen["callers_calls"]).equals(1)
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["no_grads"]).is_true("a parameter has a `.grad`, and no gradient was asked for")
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        expect(seen["hooks_left"]).equals(0)
        expect(seen["callers_calls_later"]).equals(["Tanh", "Tanh"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_left_by_exception"]).equals(0)


def modules_by_type(spec: dict[str, Any]) -> list[dict[str, int]]:
    """How many modules of each class are in `modules()`, with and without containers."""
    modules = list(make_workshop(spec).modules())
    leaves = [module for module in modules if not list(module.children())]
    return [dict(Counter(type(module).__name__ for module in group)) for group in (modules, leaves)]


def modules_called_by_type(spec: dict[str, Any]) -> list[dict[str, int]]:
    """The counts when each module counts once that is called, among all modules and among those of `modules()`."""
    # The step "fresh" makes another module each time.
    steps = [*dict.fromkeys(spec["steps"]), *(["fresh"] * (spec["steps"].count("fresh") - 1))]
    return [known_calls(spec | {"steps": steps}, hidden=hidden) for hidden in (True, False)]


class Workload(nn.Module):
    """Convolutions and linear layers with drawn sizes and names; two of them are used twice, and one is nested.

    A batch norm and an embedding have weights, too, but do no multiply-adds that count.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        own_linear = type(spec["class"], (nn.Linear,), {})
        parts = {part: nn.Conv2d(**sizes) for part, sizes in spec["convs"].items()}
        parts |= {"tokens": nn.Linear(*spec["tokens"]), "head": own_linear(*spec["head"], bias=False)}
        parts["second"] = nn.Sequential(nn.BatchNorm2d(spec["convs"]["second"]["in_channels"]), parts["second"])
        self.names = spec["names"]
        for part in spec["order"]:
            self.add_module(self.names[part], parts[part])
        self.alias = parts["again"]
        self.table = nn.Embedding(3, spec["tokens"][1])

    def forward(self, x: Tensor) -> Tensor:
        part = {name: self.get_submodule(path) for name, path in self.names.items()}
        h = torch.relu(part["first"](x))
        h = torch.relu(part["again"](h))
        h = torch.relu(part["second"](h))
        h = part["again"](h)
        t = torch.tanh(part["tokens"](h.flatten(2).transpose(1, 2)))
        t = part["tokens"](t)
        t = t + self.table(torch.zeros(t.shape[1], dtype=torch.long))
        return part["head"](t.mean(1))


def make_workload(spec: dict[str, Any]) -> nn.Module:
    """The model of a drawn description: the one above, or linear layers in a row."""
    if "layers" in spec:
        first, second = spec["layers"]
        return nn.Sequential(nn.Linear(*first), nn.Tanh(), nn.Linear(*second))
    return Workload(spec)


def recorded_calls(spec: dict[str, Any], x: Tensor) -> list[dict[str, Any]]:
    """Sizes of each call of a Conv2d or Linear in one forward pass, in order."""
    calls: list[dict[str, Any]] = []
    model = make_workload(spec)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):

            def record(module: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
                weight = module.get_parameter("weight")
                calls.append({
                    "module": module, "conv": weight.dim() == 4, "groups": getattr(module, "groups", 1),
                    "bias": getattr(module, "bias", None) is not None, "weight": weight.shape,
                    "in": args[0].shape, "out": output.shape,
                })  # fmt: skip

            module.register_forward_hook(record)
    model(x)
    return calls


def flops_by_torch(spec: dict[str, Any], x: Tensor) -> int:
    """Torch's own count, which has two operations for each multiply-add."""
    with FlopCounterMode(display=False) as counter:
        make_workload(spec)(x)
    return int(counter.get_total_flops())


def work(call: dict[str, Any], how: str = "") -> int:
    """The multiply-adds of one call, or what a mistake makes of them."""
    out, weight, source = math.prod(call["out"]), call["weight"], call["in"]
    each = math.prod(weight[1:])
    if how == "groups":
        each *= call["groups"]
    elif how == "square" and call["conv"]:
        each = weight[1] * weight[2] ** 2
    elif how == "wide" and call["conv"]:
        each = weight[1] * weight[3] ** 2
    elif how == "input" and call["conv"]:
        out = source[0] * weight[0] * source[2] * source[3]
    elif how == "input numel" and call["conv"]:
        out = math.prod(source)
    elif how == "one sample":
        out //= source[0]
    elif how == "batch only" and not call["conv"]:
        out = source[0] * weight[0]
    elif how == "weights" or (how == "one position" and not call["conv"]):
        out = weight[0]
    return int(out * each + (math.prod(call["out"]) if how == "bias" and call["bias"] else 0))


def tally(calls: list[dict[str, Any]], how: str = "") -> int:
    """All multiply-adds of these calls, or what a mistake makes of them."""
    if how == "flops":
        return 2 * tally(calls)
    if how in ("last call", "first call"):
        kept = calls if how == "last call" else calls[::-1]
        return sum(work(call) for call in {id(call["module"]): call for call in kept}.values())
    return sum(work(call, how) for call in calls)


MISCOUNTS = ("groups", "square", "wide", "input", "input numel", "one sample", "batch only", "one position",
             "weights", "bias", "flops", "last call", "first call")  # fmt: skip


@exercise(
    "12-count-macs",
    points=2,
    title="Count the multiply-adds of a model",
    hints=(
        "Each number of the output is a dot product. So the work of a call is `output.numel()` times the number of "
        "multiply-adds for one number of the output.",
        "That is the number of weights that make one output: `module.weight[0].numel()`. It is right for `Linear`, for "
        "`Conv2d`, for groups and for kernels that are not square.",
        "A module can be called several times with inputs of different sizes: add up in a forward hook, at every call. "
        "Remove the hooks in `finally`.",
    ),
    cases=({"kind": "conv"}, {"kind": "conv"}, {"kind": "linear"}),
)
class TestCountMacs:
    """Write `count_macs(model, x)`. Run `model(x)` once. Return, as an `int`, how many multiply-adds (MACs) all calls
    of `nn.Conv2d` and `nn.Linear` modules in it do together, for the whole batch. Subclasses of these two count as
    well.

    A MAC is one multiplication of a weight with an input, and the addition of the product: a dot product of length n
    has n MACs. Adding a bias is no MAC. Multiplications with zeros of the padding count like any other. A module that
    is called twice counts twice, each time with the sizes of this call. Other modules and functions count nothing. All
    modules are in `model.modules()`, some of them under two names.

    Convolutions can have groups, strides, padding, dilation and kernels that are not square. The input of a linear
    layer has its features in the last dimension and may have any number of dimensions before it.

    `x` stays as it was, the modules stay in their modes, no gradient is computed, and hooks of the caller stay. No hook
    of yours is left, even when the model raises; the exception comes through.

    **Example.** `nn.Linear(10, 4)` on an `x` of shape (3, 10) makes 12 numbers with 10 MACs each: 120. A
    `nn.Conv2d(2, 6, 3)` on (1, 2, 5, 5) gives (1, 6, 3, 3), 54 numbers with 2·3·3 = 18 MACs each: 972.
    """

    def draw(rng, kind):
        batch = rng.integer(2, 3)
        if kind == "linear":
            sizes = [rng.integer(2, 7) for _ in range(3)]
            rows = [rng.integer(2, 3) for _ in range(2)]
            spec = {"layers": [sizes[:2], sizes[1:]]}
            return {"spec": spec, "x": rng.tensor(batch, *rows, sizes[0])}
        c, inner, outer = 2 * rng.integer(1, 2), 2 * rng.integer(2, 3), 4 * rng.integer(1, 2)
        kernels = [rng.shuffled([1, rng.integer(2, 3)]), rng.shuffled([2, 3])]
        convs = {
            "first": {"in_channels": c, "out_channels": inner, "kernel_size": kernels[0], "groups": 2,
                      "padding": rng.integer(0, 1), "bias": rng.choice((True, False))},
            "again": {"in_channels": inner, "out_channels": inner, "kernel_size": 3, "padding": 1,
                      "groups": rng.choice((1, inner))},
            "second": {"in_channels": inner, "out_channels": inner, "kernel_size": kernels[1], "stride": 2,
                       "dilation": rng.shuffled([1, 2]), "padding": 1},
        }  # fmt: skip
        parts = ["first", "again", "second", "tokens", "head"]
        spec = {
            "convs": convs,
            "tokens": [inner, inner],
            "head": [inner, outer],
            "class": rng.names(1)[0].capitalize(),
            "names": dict(zip(parts, rng.names(5))),
            "order": rng.shuffled(parts),
        }
        return {"spec": spec, "x": rng.tensor(batch, c, rng.integer(8, 10), rng.integer(11, 13))}

    def alive(spec, x):
        calls = recorded_calls(spec, x)
        if "layers" in spec:  # what is special about convolutions tells nothing apart here
            return all(tally(calls, how) != tally(calls) for how in ("one sample", "batch only", "one position"))
        counts = [tally(calls, how) for how in ("", *MISCOUNTS)]
        return len({*counts}) == len(counts)

    def probe(student, spec, x):
        model = make_workload(spec)
        model.eval()
        next(model.children()).train()
        modes = [module.training for module in model.modules()]
        calls, before = [], x.clone()
        model.register_forward_hook(lambda module, args, output: calls.append(torch.equal(args[0], before)))
        hooks = module_hooks(model)
        seen = {
            "macs": student.count_macs(model, x),
            "callers_calls": len(calls),
            "ran_on_x": all(calls),
            "hooks_left": module_hooks(model) - hooks,
            "modes_kept": modes == [module.training for module in model.modules()],
            "no_grads": all(parameter.grad is None for parameter in model.parameters()),
            "x_kept": torch.equal(x, before) and not x.requires_grad,
        }
        model(x)
        seen["callers_calls_later"] = len(calls)
        failing = make_workload(spec)

        def boom(*_):
            raise Boom

        failing.register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen):
            student.count_macs(failing, x)
        seen["hooks_left_by_exception"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "ignored-groups",
            lambda seen, spec, x: miscounted(seen, spec, x, "groups"),
            "You used all input channels for each number of the output. With groups, an output channel sees only "
            "`in_channels / groups` of them; `weight[0].numel()` knows that.",
        ),
        Mistake(
            "input-size-used",
            lambda seen, spec, x: miscounted(seen, spec, x, "input", "input numel"),
            "You used the size of the input. The work is done once for each number of the *output*, which is smaller "
            "after a stride or without padding: start from `output.numel()`.",
        ),
        Mistake(
            "square-kernel",
            lambda seen, spec, x: miscounted(seen, spec, x, "square", "wide"),
            "You squared one side of the kernel. A kernel has a height and a width, and they can differ: "
            "`kernel_size[0] * kernel_size[1]`.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, x: miscounted(seen, spec, x, "last call", "first call"),
            "A module that is called twice counted only once. Add in the hook at each call, and do not overwrite an "
            "entry of the same module.",
        ),
        Mistake(
            "ignored-batch",
            lambda seen, spec, x: miscounted(seen, spec, x, "one sample"),
            "This is the count for one sample. The task asks for the whole batch: use all of `output.numel()`.",
        ),
        Mistake(
            "rows-not-counted",
            lambda seen, spec, x: miscounted(seen, spec, x, "batch only", "one position"),
            "A linear layer works on every row of its input, and an input of three dimensions has several rows for "
            "each sample. `output.numel() * in_features` counts them all.",
        ),
        Mistake(
            "counted-weights",
            lambda seen, spec, x: miscounted(seen, spec, x, "weights"),
            "You counted weights. A weight of a convolution is used once for each position of the output and for each "
            "sample: multiply the weights of one output by `output.numel()`.",
        ),
        Mistake(
            "counted-bias",
            lambda seen, spec, x: miscounted(seen, spec, x, "bias"),
            "You counted the bias, too. Adding it is no multiply-add; leave it out.",
        ),
        Mistake(
            "flops-not-macs",
            lambda seen, spec, x: miscounted(seen, spec, x, "flops"),
            "This is twice the number: you counted a multiplication and an addition as two. A MAC is both together.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, x: seen["macs"].value == tally(recorded_calls(spec, x)) and seen["hooks_left"].value > 0,
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_left_by_exception"].value > 0,
            "The model raised an exception, and your `remove()` calls were skipped. Put them into `finally`.",
        ),
    )

    def test_the_multiply_adds_are_counted(seen, spec, x):
        expect(seen["macs"]).equals(flops_by_torch(spec, x) // 2)

    def test_the_model_ran_once_as_it_was(seen):
        expect(seen["callers_calls"]).equals(1)
        expect(seen["ran_on_x"]).is_true("the model ran on another tensor than `x`")
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["no_grads"]).is_true("a parameter has a `.grad`, and no gradient was asked for")
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        expect(seen["hooks_left"]).equals(0)
        expect(seen["callers_calls_later"]).equals(2)

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_left_by_exception"]).equals(0)


def miscounted(seen: Seen, spec: dict[str, Any], x: Tensor, *hows: str) -> bool:
    """Whether the number is that of one of these mistakes."""
    calls = recorded_calls(spec, x)
    return seen["macs"].value != tally(calls) and seen["macs"].value in [tally(calls, how) for how in hows]
