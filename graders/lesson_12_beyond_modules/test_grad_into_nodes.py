"""Exercise 12-grad-into-nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

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
    close,
    exercise,
    expect,
    fill_grad,
    no_hook_left,
    nothing_changed,
    prepared,
    refuse,
    shares_storage,
    snapshot,
)

UNARY = {
    "ReluBackward0": torch.relu,
    "TanhBackward0": torch.tanh,
    "ExpBackward0": torch.exp,
    "SigmoidBackward0": torch.sigmoid,
}
LEAF = "AccumulateGrad"
"""Stands for the name of the node of a leaf, which not all versions of torch spell alike."""
NONE = "'NoneType' object has no attribute"
DEPTH = 10_000
OLD = 0.7
WEIGHTS = torch.tensor([5 * 2.0**-40, torch.inf])
"""Gradients that are small, or not finite."""


class Halve(torch.autograd.Function):
    """Half of a tensor: an operation with a node of its own, `HalveBackward`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Half of it."""
        return x / 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """Half of the gradient."""
        return grads[0] / 2


def make_graph(spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, depth: int = 0) -> tuple[Tensor, dict[str, Any]]:
    """A scalar y, and for each node of a name that occurs once: its first output and that output's first input.

    Two branches meet; each of `doublings` sums `t + t` doubles the number of ways; `depth` nodes stand in a row. With
    "several" outputs, x and w are the two outputs of one node.
    """
    first, second, last = spec["unary"]
    nodes: dict[str, Any] = {}
    if spec["outputs"] == "several":
        both = torch.stack([x, w])
        left, right = both.unbind(0)
        nodes = {"StackBackward0": (both, x), "UnbindBackward0": (left, both)}
    else:
        left, right = x, w
    h = torch.addcmul(torch.zeros_like(left), left, right)  # the first input of its node has no node
    nodes["AddcmulBackward0"] = (h, left)
    one, two = UNARY[first](h), UNARY[second](h)
    joined = one - torch.nn.functional.leaky_relu(two)
    nodes |= {first: (one, h), second: (two, h), "SubBackward0": (joined, one)}
    t = joined
    for _ in range(depth):
        t = t.expand_as(t)  # an operation that costs little
    for _ in range(spec["doublings"]):
        t = t + t
    divided = t / 2 ** spec["doublings"]
    halved = Halve.apply(divided)
    bent = UNARY[last](halved)
    weighed = bent * c
    y = weighed.sum()
    nodes |= {
        "DivBackward0": (divided, t),
        "HalveBackward": (halved, divided),
        last: (bent, halved),
        "MulBackward0": (weighed, bent),
        "SumBackward0": (y, weighed),
    }
    return y, nodes


class Caller:
    """Leaves, their hooks, and graphs made of them."""

    def __init__(self, spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, *, layout: str = "contiguous",
                 place: str = "leaf", grad: str = "empty", hooks: str = "none") -> None:  # fmt: skip
        self.spec, self.c, self.hooks = spec, c, hooks
        self.leaf = prepared(x, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
        self.x = self.leaf.view_as(self.leaf) if place == "non-leaf" else self.leaf
        self.w = w.detach().clone().requires_grad_(spec["second leaf"] == "yes")
        if self.w.requires_grad:
            fill_grad(self.w)
        CallersHooks(hooks).on_tensor(self.x, "x")

    def graph(self, depth: int = 0) -> tuple[Tensor, dict[str, Any]]:
        """A new graph; the hooks of the caller sit on the product of the leaves, too."""
        y, nodes = make_graph(self.spec, self.x, self.w, self.c, depth)
        CallersHooks(self.hooks).on_tensor(nodes["AddcmulBackward0"][0], "h")
        return y, nodes


def plain_dict(result: Any) -> Any:
    """Copies of the entries of a dict, as they are now; any other value as it is."""
    return {key: snapshot(value) for key, value in result.items()} if isinstance(result, dict) else result


def detached(result: Any) -> bool:
    """Whether this is a dict in which no tensor has a graph."""
    return isinstance(result, dict) and not any(t.requires_grad for t in result.values() if isinstance(t, Tensor))


def shared_memory(result: Any) -> bool:
    """Whether two entries lie in the same memory."""
    tensors = list(result.values()) if isinstance(result, dict) else []
    return any(shares_storage(a, b) for index, a in enumerate(tensors) for b in tensors[index + 1 :])


def functions_run_by(call: Callable[[], Any]) -> int:
    """How many Python functions run while `call` runs."""
    names, before = [], sys.getprofile()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len(names)


def harmless(t: Tensor) -> Tensor:
    """A scalar whose graph saves nothing: its backward can run again, which shows hooks that are left."""
    return (-(t.view(-1) - 1)).unsqueeze(0).sum()


HARMLESS = ("SumBackward0", "UnsqueezeBackward0", "NegBackward0", "SubBackward0", "ViewBackward0")
"""The nodes of that graph but the leaf's."""


def hooks_left(graphs: list[Tensor], t: Tensor) -> int:
    """How many hooks are left at the nodes of graphs that `harmless(t)` made."""
    plain = functions_run_by(harmless(t).backward)
    return sum(functions_run_by(graph.backward) - plain for graph in graphs)


FOUR_NAMES = ("SinBackward0", "ExpBackward0", "ReluBackward0", "TanhBackward0")
FOUR = torch.arange(1.0, 9.0)
"""The gradients, but for their sign, that arrive at these nodes, two numbers each: below four inputs of one node."""


@exercise(
    "12-grad-into-nodes",
    points=2,
    minutes=30,
    difficulty=3,
    title="Read gradients at the nodes of the graph",
    hints=(
        "Start at `y.grad_fn`. Each entry of `node.next_functions` is a pair, and its first element is the next node, "
        "or `None`. Each node has a `name()`.",
        "Branches meet again: keep a set of the nodes that you have visited, and visit each once. Use a loop with a "
        "list of nodes to visit; a function that calls itself fails in a deep graph.",
        "The gradient that *arrives* at a node goes to its pre-hook: `node.register_prehook(fn)`, where `fn` gets the "
        "tuple `grad_outputs`. Collect the handles, run backward, remove them.",
    ),
    why=(
        "What arrives at a node is complete, so its pre-hook gets the sum over all uses, as the tensor hooks left it. "
        "`node.register_hook` would do as well: it gets the same `grad_outputs`, once the node has worked."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL,
            "collection": ("many", "one", "empty"), "hooks": ALL, "call": ALL, "grad_mode": ALL,
            "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "model": "it gets no model",
            "hooked": "the hooks of the caller sit on tensors",
            "backward": "it runs the pass itself",
        },
        own={
            "outputs": ("one", "several"),
            "second_leaf": ("yes", "no"),
            "shape": ("with branches", "deep"),
        },
        impossible=[
            lambda collection, shape: collection == "empty" and shape == "deep",
            lambda call, shape: call != "once" and shape == "deep",  # a deep graph takes time: there are few
        ],
        pairs=[("collection", "outputs"), ("dtype", "place")],
    ),
)  # fmt: skip
class TestGradIntoNodes:
    """Write `grad_into_nodes(y, node_names)`. `y` is a scalar with a graph, and `node_names` is a set of names of graph
    nodes, such as `"ReluBackward0"`; it may be empty. Run `y.backward()` once. Return a dict: for each of these names
    that the graph of `y` contains, the gradient that arrives at this node for the node's first output.

    - This is the complete gradient: when the output is used several times, it is the sum. It is the gradient as the
      hooks on tensors leave it. A gradient of zeros is one, too.
    - The name of a node is what its method `name()` returns.
    - Each of `node_names` occurs at most once in the graph, and a gradient arrives for the first output of its node.
    - The graph may have ten thousand nodes in a row, and thousands of ways from `y` to one node.
    - The leaves get their `.grad`, on top of what it holds.

    **Example.** `y = torch.relu(x).sum()`, `x = [2., -1.]`: `grad_into_nodes(y, {"ReluBackward0", "ExpBackward0"})` is
    `{"ReluBackward0": [1., 1.]}`. The gradient `[1., 0.]` is the one that *leaves* the node.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank, layout, values, collection, outputs, second_leaf, shape):
        unary = rng.shuffled(list(UNARY))
        spec = {"unary": unary[:3], "outputs": outputs, "second leaf": second_leaf,
                "doublings": 0 if shape == "deep" else 12}  # fmt: skip
        size = rng.shape(rank)
        x, w, c = (
            rng.tensor(*size, dtype=dtype, values=values, low=-1.5, high=1.5, layout=kind)
            for kind in (layout, "contiguous", "contiguous")
        )
        at_the_bottom = {"several": ["StackBackward0", "UnbindBackward0"], "one": []}[outputs]
        at_the_bottom += ["AddcmulBackward0"] + [LEAF] * (second_leaf == "no")
        wanted = ["SumBackward0", "MulBackward0", "HalveBackward", "SubBackward0", *unary, *at_the_bottom]
        wanted = {"many": rng.shuffled(wanted), "one": at_the_bottom[-1:], "empty": []}[collection]
        return {"spec": spec, "x": x, "w": w, "c": c, "wanted": wanted, "absent": unary[3]}

    def alive(spec, x, w, c, wanted, hooks):
        found = node_gradients(spec, x, w, c, wanted, hooks)
        return all(
            gradient.abs().max() > 0.01
            and (name not in UNARY or (gradient - found["leaving"][name]).abs().max() > 0.01)
            for name, gradient in found["arriving"].items()
        )

    def oracle(spec, x, w, c, wanted, hooks):
        return [
            node_gradients(spec, x, w, c, wanted, hooks)["arriving"],
            {name: t for name, t in leaf_gradients(spec, x, w, c, hooks).items() if t is not None},
        ]

    def probe(student, spec, x, w, c, wanted, layout, place, grad, hooks, call, grad_mode, shape, failure, failing_run):
        caller = Caller(spec, x, w, c, layout=layout, place=place, grad=grad, hooks=hooks)
        other = Caller(spec, x / 2, w, c, hooks=hooks) if call == "in turn" else caller
        leaf_name = get_gradient_edge(caller.leaf).node.name()
        names = {leaf_name if name == LEAF else name for name in wanted}

        def ask(y, names):
            given = set(names)
            with torch.set_grad_enabled(grad_mode == "on"):
                witness = Witness(y=y, x=caller.leaf, w=caller.w, c=caller.c)
                result = student.grad_into_nodes(y, given)
                changed = witness.changes()
            if isinstance(result, dict) and leaf_name in result:
                result[LEAF] = result.pop(leaf_name)
            return result, changed, given == set(names)

        y, _ = caller.graph(DEPTH if shape == "deep" else 0)
        y2, _ = other.graph()
        result, changed, kept = ask(y, names)
        seen = {
            "result": plain_dict(result),
            "detached": detached(result),
            "shared": shared_memory(result),
            "names kept": kept,
            "changed": changed,
            "grads": {"x": snapshot(caller.leaf.grad), "w": snapshot(caller.w.grad)},
            "plain .grad": not getattr(caller.leaf.grad, "requires_grad", False),
        }
        if call != "once":
            seen["second"] = plain_dict(ask(y2, names)[0])
        if caller.leaf.grad is not None:
            caller.leaf.grad.zero_()
        seen["later"] = plain_dict(result)

        t = torch.ones(2, 2, requires_grad=True)
        graphs = [harmless(t), harmless(t)]
        for graph in graphs:
            ask(graph, HARMLESS)
        seen["hooks left"] = hooks_left(graphs, t)

        strike = Failure(failure, failing_run)
        handle = t.register_hook(strike.strike)
        graphs = [harmless(t), harmless(t)]
        witness = Witness(t=t)
        seen["failure"] = strike.during(lambda: [ask(graph, HARMLESS) for graph in graphs])
        seen["changed by failure"] = witness.changes()
        handle.remove()
        seen["hooks left by failure"] = hooks_left(graphs, t)

        two = torch.tensor([2.0, -1.0], requires_grad=True)
        seen["zeros"] = plain_dict(student.grad_into_nodes((0 * torch.relu(two)).sum(), {"ReluBackward0"}))
        first, second = two.unbind()
        seen["zeros of several"] = plain_dict(student.grad_into_nodes(second + 0 * first, {"UnbindBackward0"}))
        others = {"SumBackward1", "ReluBackward", "sumbackward0", "LeakyReluBackward0"}
        alike = student.grad_into_nodes(torch.relu(two).sum(), others)
        seen["names that are alike"] = plain_dict(alike)

        four = torch.cat([-two.sin(), -two.exp(), -two.relu(), -two.tanh()])
        seen["of four"] = plain_dict(student.grad_into_nodes((FOUR * four).sum(), set(FOUR_NAMES)))
        two.register_post_accumulate_grad_hook(lambda leaf: runs.append(1))
        runs: list[int] = []
        negative = -two.view(-1)

        def thrice(gradient: Tensor) -> Tensor:
            with torch.enable_grad():  # it is off in a pass
                other = torch.tanh(torch.zeros(1, requires_grad=True)).sum()
            seen["within a pass"] = plain_dict(student.grad_into_nodes(other, {"TanhBackward0"}))
            return 3 * gradient

        negative.register_hook(thrice)
        in_a_row = student.grad_into_nodes((WEIGHTS * negative).sum(), {"NegBackward0", "ViewBackward0"})
        seen |= {"in a row": plain_dict(in_a_row), "passes": len(runs)}
        example = student.grad_into_nodes(torch.relu(two).sum(), {"ReluBackward0", "ExpBackward0"})
        return {**seen, "example": plain_dict(example)}

    mistakes = (
        Mistake(
            "grad-leaving-the-node",
            lambda seen, spec, x, w, c, wanted, hooks: is_as(
                seen, node_gradients(spec, x, w, c, wanted, hooks), "leaving"
            ),
            "You took the first entry of `grad_inputs`, the gradient that leaves the node. The gradient that arrives "
            "at it is in `grad_outputs`: the only argument of a pre-hook, the second of a hook. (`grad_inputs` has "
            "`None` for an input that requires no grad, and is empty at a leaf.)",
            raises=(*(f"{NONE} '{name}'" for name in ("detach", "clone")), "tuple index out of range"),
        ),
        Mistake(
            "top-node-only",
            lambda seen, collection: (
                seen["result"].keys == ["SumBackward0"] and close(seen["result"]["SumBackward0"], 1.0)
                if collection == "many"
                else SILENT
            ),
            "You looked at `y.grad_fn` only, the last node. Walk the graph from there: each entry of "
            "`node.next_functions` holds the next node.",
        ),
        Mistake(
            "first-branch-only",
            lambda seen, spec, collection: (
                set(seen["result"].keys) == {"SumBackward0", "MulBackward0", "HalveBackward", "SubBackward0",
                                             "AddcmulBackward0", spec["unary"][0], spec["unary"][2]}
                if collection == "many"
                else SILENT
            ),
            "Nodes are missing that are not on the way of the first inputs. A node has one next node for each input: "
            "walk over all of `next_functions`, not only over `next_functions[0]`.",
        ),
        Mistake(
            "leaf-left-out",
            lambda seen, wanted, absent: LEAF in wanted and {*seen["result"].keys} == {*wanted} - {LEAF, absent},
            "The node of a leaf is missing. A leaf that requires grad has a node, too, and its name is what `name()` "
            "returns, which may begin with `torch::autograd::`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, collection: (
                len(seen["result"]) == 1
                and not (seen["result"].keys == ["SumBackward0"] and close(seen["result"]["SumBackward0"], 1.0))
                if collection == "many"
                else SILENT
            ),
            "All gradients went to one name. Your hooks read the loop variable when they run, and by then it has its "
            "last value. Bind it: `lambda grads, name=node.name(): ...`.",
        ),
        Mistake(
            "absent-as-none",
            lambda seen, absent: absent in seen["result"].keys and seen["result"][absent].tensor is None,
            "A name that the graph does not contain has to be absent from the dict; you have an entry for it.",
        ),
        Mistake(
            "visited-twice",
            lambda seen, spec, x, w, c, wanted, hooks: multiplied(
                seen, node_gradients(spec, x, w, c, wanted, hooks)["arriving"]
            ),
            "Some gradients are multiples of the right ones. Branches meet again, so you came to these nodes by "
            "several ways and registered a hook each time. Keep a set of visited nodes.",
        ),
        Mistake(
            "too-deep",
            raises="maximum recursion depth",
            message="Your walk is a function that calls itself, and Python stops at about a thousand calls inside each "
            "other. A graph can be deeper. Keep a list of nodes to visit, and take one out in a loop.",
        ),
        Mistake(
            "met-none",
            raises=tuple(f"{NONE} '{name}'" for name in ("name", "next_functions", "register_prehook")),
            message="Your walk met a `None`. An input that requires no grad has `None` in `next_functions` in place "
            "of a node: skip it.",
        ),
        Mistake(
            "leaves-without-grad",
            lambda seen, grad: seen["grads"]["x"].value is None if grad == "empty" else close(seen["grads"]["x"], OLD),
            "The leaves have not got their `.grad`: `torch.autograd.grad` writes none. The contract asks for one "
            "`y.backward()`.",
            rather_than=("before-the-hooks",),
        ),
        Mistake(
            "before-the-hooks",
            lambda seen, spec, x, w, c, wanted: (
                close(seen["in a row"]["NegBackward0"], WEIGHTS, 1e-6, 0.0)
                and right_but_for_hooks(seen["result"], node_gradients(spec, x, w, c, wanted, "none")["arriving"])
            ),
            "Where a hook on a tensor changes the gradient, you have the gradient from before that hook. "
            "`torch.autograd.grad` gives it when you ask for several nodes at once and one lies behind another: ask "
            "for one at a time, or use pre-hooks of the nodes.",
        ),
        Mistake(
            "a-part-of-the-gradient",
            lambda seen, spec, x, w, c, wanted, hooks: (
                a_part(seen["result"]["AddcmulBackward0"], spec, x, w, c, hooks)
                if "AddcmulBackward0" in wanted
                else SILENT
            ),
            "You have a part of the gradient: what a single use of the output sends back. The node gets the sum of all "
            "parts. Look where it is complete: a pre-hook of the node itself gets it.",
        ),
        Mistake(
            "another-output",
            lambda seen: close(seen["zeros of several"]["UnbindBackward0"], 1.0),
            "A node has an output for each tensor that its operation returned, as for `a, b = t.unbind()`. You took "
            "another one than the first, or their sum. `grad_outputs[0]` is the gradient of the first, also when it is "
            "zero.",
        ),
        Mistake(
            "zeros-left-out",
            lambda seen: not seen["zeros"].keys and seen["example"].keys == ["ReluBackward0"],
            "A node at which zeros arrive is missing. Zeros that arrive are a gradient, too: in an `if`, do not ask "
            "for a gradient's values.",
        ),
        Mistake(
            "a-part-of-a-name",
            lambda seen: 0 < found_tensors(seen["names that are alike"]) < 3,
            "You take a name for another one that contains it, or is spelled alike. `ReluBackward0` is a part of "
            "`LeakyReluBackward0`, and another name: compare whole names, with `==` or with `in` on the set.",
        ),
        Mistake(
            "cleared-the-grad",
            lambda seen, spec, x, w, c, grad, hooks: (
                cleared(seen["grads"], leaf_gradients(spec, x, w, c, hooks), grad)
            ),
            "The leaves hold the gradients of your pass alone: what `.grad` held before is gone. `backward()` adds to "
            "it; clear nothing.",
        ),
        Mistake(
            "backward-twice",
            lambda seen, spec, x, w, c, grad, hooks: close(
                seen["grads"]["x"], start(grad) + 2 * leaf_gradients(spec, x, w, c, hooks)["x"], rtol=1e-4, atol=1e-4
            ),
            "The `.grad` of the leaves holds two passes. Run `y.backward()` once.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: seen["hooks left"].value > 0,
            "Your hooks are still at the nodes after your function has returned. Keep the handle of each "
            "`register_prehook` and call `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks left"].value == 0 and seen["hooks left by failure"].value > 0,
            "When backward raised, your `remove()` calls were skipped, and your hooks are still at the nodes. Put the "
            "calls into `finally`.",
        ),
    )  # fmt: skip

    def test_the_gradients_arrive_at_the_nodes(seen, spec, x, w, c, wanted, hooks):
        same_gradients(seen["result"], node_gradients(spec, x, w, c, wanted, hooks)["arriving"])

    def test_another_call_is_right_too(seen, spec, x, w, c, wanted, hooks, call):
        if call != "once":
            x = x / 2 if call == "in turn" else x
            same_gradients(seen["second"], node_gradients(spec, x, w, c, wanted, hooks)["arriving"])

    def test_the_gradients_are_copies_of_their_own(seen):
        expect(seen["detached"]).is_true("a gradient in the result requires grad; detach it", Kind.GRAPH)
        expect(seen["shared"]).is_false("two gradients in the result share their memory", Kind.ALIASED)
        for name in seen["result"].keys:
            tensor = seen["result"][name].tensor
            if tensor is not None and not close(seen["later"][name], tensor) and tensor.numel():
                expect(seen["later"][name]).fail("it changed when the caller cleared `x.grad` in place", Kind.ALIASED)

    def test_the_leaves_have_the_grad_of_one_pass(seen, spec, x, w, c, grad, hooks):
        expected = leaf_gradients(spec, x, w, c, hooks)
        expect(seen["grads"]["x"]).close_to(start(grad) + expected["x"], rtol=1e-4, atol=1e-4)
        if expected["w"] is not None:
            expect(seen["grads"]["w"]).close_to(OLD + expected["w"], rtol=1e-4, atol=1e-4)
        expect(seen["plain .grad"]).is_true(
            "a leaf's `.grad` requires grad; one plain `y.backward()` makes none that does", Kind.GRAPH
        )

    def test_nothing_else_changes_and_no_hook_is_left(seen):
        expect(seen["names kept"]).is_true("the set of the caller has other entries than before", Kind.CHANGED)
        nothing_changed(seen["changed"], but=["grad-* *"])
        no_hook_left(seen["hooks left"])

    def test_an_exception_comes_through_and_leaves_no_hook(seen):
        came_through(seen["failure"], "`backward()`")
        nothing_changed(seen["changed by failure"], but=["grad-* *"], when="after an exception")
        no_hook_left(seen["hooks left by failure"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        same_gradients(seen["example"], {"ReluBackward0": torch.ones(2)})

    def test_the_hooks_on_a_tensor_come_first(seen):
        expect(seen["in a row"]).has_keys("NegBackward0", "ViewBackward0")
        expect(seen["in a row"]["NegBackward0"]).close_to(3 * WEIGHTS, rtol=1e-6, atol=0.0)
        expect(seen["in a row"]["ViewBackward0"]).close_to(-3 * WEIGHTS, rtol=1e-6, atol=0.0)

    def test_a_call_inside_a_call_has_gradients_of_its_own(seen):
        same_gradients(seen["within a pass"], {"TanhBackward0": torch.ones(1)})

    def test_every_input_of_a_node_leads_on(seen):
        same_gradients(seen["of four"], dict(zip(FOUR_NAMES, -FOUR.view(4, 2))))

    def test_backward_runs_once(seen):
        if seen["passes"].value != 1:
            ran = f"ran {seen['passes'].value} times"
            refuse(f"a post-accumulate-grad hook of the caller on a leaf {ran}; one `backward()` runs it once")

    def test_a_name_is_the_whole_name(seen):
        same_gradients(seen["names that are alike"], {})

    def test_zeros_that_arrive_are_a_gradient(seen):
        same_gradients(seen["zeros"], {"ReluBackward0": torch.zeros(2)})
        same_gradients(seen["zeros of several"], {"UnbindBackward0": torch.zeros(())})


def start(grad: str) -> float:
    """What `.grad` of x holds beforehand, everywhere."""
    return OLD if grad == "filled" else 0.0


def node_gradients(
    spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, wanted: list[str], hooks: str
) -> dict[str, dict[str, Tensor]]:
    """For each wanted node: the gradient of its first output, and the one that leaves it at its first input."""
    x, w = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    y, nodes = make_graph(spec, x, w, c)
    factor = FACTOR if hooks == "replacing" else 1.0
    by_hooks = {"AddcmulBackward0": factor, "UnbindBackward0": factor, "StackBackward0": factor}
    arriving, leaving = {}, {}
    for name in wanted:
        if name == LEAF:
            arriving[name] = leaving[name] = leaf_gradients(spec, x, w, c, hooks)["x"]
        elif name in nodes:
            output, source = nodes[name]
            (gradient,) = torch.autograd.grad(y, output, retain_graph=True)
            arriving[name] = by_hooks.get(name, 1.0) * gradient
            (leaving[name],) = torch.autograd.grad(output, source, arriving[name], retain_graph=True)
    return {"arriving": arriving, "leaving": leaving}


def leaf_gradients(spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, hooks: str) -> dict[str, Any]:
    """What one plain backward adds to the `.grad` of the leaves. The caller's hooks sit on x and on the product."""
    x, w = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    for_x, for_w = torch.autograd.grad(make_graph(spec, x, w, c)[0], [x, w])
    factor = FACTOR if hooks == "replacing" else 1.0
    return {"x": factor**2 * for_x, "w": factor * for_w if spec["second leaf"] == "yes" else None}


def same_gradients(seen: Seen, expected: dict[str, Tensor]) -> None:
    """A dict with exactly these gradients."""
    expect(seen).has_keys(*expected)
    for name, gradient in expected.items():
        expect(seen[name]).close_to(gradient, rtol=1e-4, atol=1e-4)


def is_as(seen: Seen, gradients: dict[str, dict[str, Tensor]], which: str) -> bool:
    """Whether the result holds the gradients of this kind, and not those that arrive."""
    return close(seen["result"], gradients[which], 1e-4, 1e-4) and not close(
        seen["result"], gradients["arriving"], 1e-4, 1e-4
    )


def found_tensors(seen: Seen) -> int:
    """How many entries of a dict are tensors."""
    return sum(seen[name].tensor is not None for name in seen.keys)


def right_but_for_hooks(seen: Seen, plain: dict[str, Tensor]) -> bool:
    """Whether there are just these gradients, each with all, some or none of the caller's hooks applied."""
    return {*seen.keys} == {*plain} and all(
        any(close(seen[name], FACTOR**hooks * gradient, 1e-4, 1e-4) for hooks in range(3))
        for name, gradient in plain.items()
    )


def a_part(seen: Seen, spec: dict[str, Any], x: Tensor, w: Tensor, c: Tensor, hooks: str) -> bool:
    """Whether this is what one of the two users of the product sends, and not their sum."""
    users = spec["unary"][:2]
    found = node_gradients(spec, x, w, c, ["AddcmulBackward0", *users], hooks)
    return not close(seen, found["arriving"]["AddcmulBackward0"], 1e-4, 1e-4) and any(
        close(seen, found["leaving"][user], 1e-4, 1e-4) for user in users
    )


def cleared(seen: Seen, gradients: dict[str, Any], grad: str) -> bool | None:
    """Whether leaves whose `.grad` was filled hold these gradients alone; None where none was filled."""
    filled = [name for name, old in (("x", start(grad)), ("w", OLD)) if old and gradients[name] is not None]
    return all(close(seen[name], gradients[name], 1e-4, 1e-4) for name in filled) if filled else SILENT


def multiplied(seen: Seen, expected: dict[str, Tensor]) -> bool:
    """Whether all entries are whole multiples of the right ones, and some are not the right ones."""
    factors = []
    if seen["result"].keys != list(expected) and set(seen["result"].keys) != set(expected):
        return False
    for name, gradient in expected.items():
        tensor = seen["result"][name].tensor
        if tensor is None or tensor.shape != gradient.shape:
            return False
        at = gradient.abs().argmax()
        factors.append(round((tensor.reshape(-1)[at] / gradient.reshape(-1)[at]).item()))
        if factors[-1] < 1 or not torch.allclose(tensor, factors[-1] * gradient, rtol=1e-3, atol=1e-3):
            return False
    return max(factors, default=1) > 1
