"""Exercise 12-grad-into-nodes."""

from __future__ import annotations

from functools import partial

import torch
from torch.autograd.graph import GradientEdge

from graders.authoring import exercise
from graders.scenes.graph_worlds import a_graph
from graders.scenes.recorders import runs_passes


def nodes_of(y, following=lambda node: node.next_functions, once=True):
    """The nodes of a graph: each once, or as often as there are ways to it."""
    found, seen, todo = [], set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and not (once and node in seen):
            seen.add(node)
            found.append(node)
            todo += [after for after, _ in following(node)]
    return found


def keep(result, name, grads):
    """Keep a copy of the first gradient."""
    result[name] = grads[0].detach().clone()


def hooked(y, node_names, note=keep, nodes=None, named=lambda node: node.name()):
    """A dict that `note(result, name, grads)` fills when gradients arrive at these nodes, or at all; the handles."""
    result, handles = {}, []
    for node in nodes or nodes_of(y):
        if named(node) in node_names:
            handles.append(node.register_prehook(partial(note, result, named(node))))
    return result, handles


def collected(y, *what, **how):
    """What such a dict holds after a pass."""
    result, handles = hooked(y, *what, **how)
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result


def by_edges(y, node_names):
    """What one call of `torch.autograd.grad` gives for these nodes."""
    edges = {node.name(): GradientEdge(node, 0) for node in nodes_of(y) if node.name() in node_names}
    grads = torch.autograd.grad(y, list(edges.values()), retain_graph=True)
    return {name: grad.clone() for name, grad in zip(edges, grads)}


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
    scene=runs_passes(
        world=a_graph,
        only={"raised_in": ("backward",)},
        words={
            "results": "the gradients arrive at the nodes",
            "passes": "backward runs once and fills the leaves",
            "own": "the gradients are copies of their own",
            "exception": "an exception comes through and leaves no hook",
        },
    ),
)
class TestGradIntoNodes:
    """Write `grad_into_nodes(y, node_names)`: run `y.backward()` once, for a scalar `y` with a graph, and return a
    dict. It has, for each of these names of nodes that is in the graph, the gradient that arrives at the node.

    **Example.**

    >>> x = torch.tensor([2.0, -1.0], requires_grad=True)
    >>> grad_into_nodes(torch.relu(x).sum(), {"ReluBackward0", "ExpBackward0"})  # [1., 0.] leaves the node
    {'ReluBackward0': tensor([1., 1.])}

    **Fine print.** `node_names` is a set, and a name is what a node's method `name()` returns; each occurs at most once
    in the graph. Of a node with several outputs, take the gradient of the first: the complete one, the sum over all
    uses, as hooks on tensors leave it. Zeros are a gradient, too. The graph may have thousands of nodes in a row, and
    many ways to one node. The leaves get their `.grad`, on top of what it holds.
    """

    def reference(y, node_names):
        return collected(y, node_names)

    class Mistakes:
        def grad_leaving_the_node(y, node_names):
            """You took the first entry of `grad_inputs`, the gradient that leaves the node. What arrives at it is in
            `grad_outputs`: the only argument of a pre-hook, the second of a hook.
            """
            result = {}
            for node in nodes_of(y):
                if node.name() in node_names:
                    note = partial(keep, result, node.name())
                    node.register_hook(lambda leaving, arriving, note=note: note(leaving))
            y.backward()
            return result

        def top_node_only(y, node_names):
            """You looked at `y.grad_fn` only. Walk on: each entry of `node.next_functions` holds a next node."""
            return collected(y, node_names, nodes=[y.grad_fn])

        def first_branch_only(y, node_names):
            """Nodes are missing that are not on the way of the first inputs. A node has one next node for each input:
            walk over all of `next_functions`, not only over `next_functions[0]`.
            """
            return collected(y, node_names, nodes=nodes_of(y, lambda node: node.next_functions[:1]))

        def leaf_left_out(y, node_names):
            """The node of a leaf is missing. Its `name()` may begin with `torch::autograd::`, its class does not."""
            return collected(y, node_names, named=lambda node: type(node).__name__)

        def late_binding(y, node_names):
            *_, last = [node.name() for node in nodes_of(y) if node.name() in node_names]
            return collected(y, node_names, lambda result, name, grads: keep(result, last, grads))

        def absent_as_none(y, node_names):
            """A name that the graph does not contain has to be absent from the dict; you have an entry for it."""
            return dict.fromkeys(node_names) | collected(y, node_names)

        def visited_twice(y, node_names):
            """Some gradients are multiples of the right ones. Branches meet again, so you came to these nodes by
            several ways and registered a hook each time. Keep a set of visited nodes.
            """

            def add(result, name, grads):
                result[name] = result.get(name, 0) + grads[0].detach()

            return collected(y, node_names, add, nodes_of(y, once=False))

        def too_deep(y, node_names):
            """Your walk is a function that calls itself, which Python allows about a thousand times. A graph can be
            deeper: keep a list of nodes to visit, and take one out in a loop.
            """
            seen = {None}

            def visit(node):
                if node not in seen:
                    seen.add(node)
                    for after, _ in node.next_functions:
                        visit(after)

            visit(y.grad_fn)

        def met_none(y, node_names):
            """Your walk met a `None`: `next_functions` has it for an input that requires no grad. Skip it."""
            nodes = [y.grad_fn]
            for node in nodes:
                nodes += [after for after, _ in node.next_functions if after not in nodes]

        def leaves_without_grad(y, node_names):
            """`torch.autograd.grad` fills no `.grad`, and the leaves need theirs: run one `y.backward()`."""
            return by_edges(y, node_names)

        def before_the_hooks(y, node_names):
            """You have gradients from before a hook on a tensor changes them. `torch.autograd.grad` gives those for
            several nodes at once: ask for one at a time, or use pre-hooks of the nodes.
            """
            result = by_edges(y, node_names)
            y.backward()
            return result

        def another_output(y, node_names):
            """A node has an output for each tensor that its operation returned. `grad_outputs[0]` is of the first."""
            return collected(y, node_names, lambda result, name, grads: keep(result, name, grads[-1:]))

        def zeros_left_out(y, node_names):
            return {name: grad for name, grad in collected(y, node_names).items() if grad.any()}

        def a_part_of_a_name(y, node_names):
            """You take a name for another one that contains it, as `LeakyReluBackward0` contains `ReluBackward0`.
            Compare whole names, with `==` or with `in` on the set.
            """
            in_a_name = lambda node: next((name for name in sorted(node_names) if name in node.name()), "")  # noqa: E731
            return collected(y, node_names, named=in_a_name)

        def backward_twice(y, node_names):
            """The `.grad` of the leaves holds two passes. Run `y.backward()` once."""
            y.backward(retain_graph=True)
            return collected(y, node_names)

        def stored_alias(y, node_names):
            return collected(y, node_names, lambda result, name, grads: result.update({name: grads[0]}))

        def hook_left_behind(y, node_names):
            result, _ = hooked(y, node_names)
            y.backward()
            return {**result}

        def hook_left_after_exception(y, node_names):
            """Backward raised, and your `remove()` calls were skipped. Put them into `finally`."""
            result, handles = hooked(y, node_names)
            y.backward()
            for handle in handles:
                handle.remove()
            return result
