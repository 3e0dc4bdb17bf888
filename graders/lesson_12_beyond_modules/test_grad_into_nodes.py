"""Exercise 12-grad-into-nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from graders.authoring import Boom, Mistake, Seen, close, exercise, expect, expecting_boom, no_hook_left, snapshot
from graders.lesson_12_beyond_modules.judging import given

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
        no_hook_left(seen["hooks_left_by_exception"])


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
