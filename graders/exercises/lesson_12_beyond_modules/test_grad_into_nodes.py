"""Exercise 12-grad-into-nodes."""

import contextlib
from functools import partial

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import graph_nodes


def nodes_of(y, following=lambda node: node.next_functions):
    """The nodes of a graph, with their names."""
    found, todo = {}, [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found[node] = node.name()
            todo += [after for after, _ in following(node)]
    return found


def keep(result, name, grads):
    """Keep a copy of the first gradient."""
    result[name] = grads[0].detach().clone()


def hooked(y, node_names, note=keep, nodes=None):
    """A dict that `note(result, name, grads)` fills in a pass, and the hooks, on some of `nodes` or of all."""
    result, hooks = {}, contextlib.ExitStack()
    for node, name in (nodes or nodes_of(y)).items():
        if name in node_names:
            hooks.callback(node.register_prehook(partial(note, result, name)).remove)
    return result, hooks


def collected(y, node_names, *given, **options):
    """The dict, after a pass."""
    result, hooks = hooked(y, node_names, *given, **options)
    with hooks:
        y.backward()
    return result


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
        "list of nodes to visit; a function that calls itself fails on a deep graph.",
        "The gradient that *arrives* at a node goes to its pre-hook: `node.register_prehook(fn)`, where `fn` gets the "
        "tuple `grad_outputs`. Collect the handles, run backward, remove them.",
    ),
    why=(
        "What arrives at a node is complete, so its pre-hook gets the sum over all uses, as the tensor hooks left it. "
        "`node.register_hook` would do as well: it gets the same `grad_outputs`, once the node has done its work."
    ),
    scene=stories(
        promises={
            "the gradients arrive at the nodes": graph_nodes.arriving,
            "backward runs once and fills the leaves": graph_nodes.filled,
            "another call starts afresh": (graph_nodes.afresh, graph_nodes.called_inside),
            "the gradients are copies of their own": graph_nodes.of_their_own,
            "nothing else changes": (graph_nodes.nothing_else, graph_nodes.no_hook_left),
            "an exception comes through and leaves no hook": graph_nodes.something_raises,
        },
        axes=graph_nodes.AXES,
    ),
)
class TestGradIntoNodes:
    """Write `grad_into_nodes(y, node_names)`: run `y.backward()` once, for a scalar `y` with a graph, and return a
    dict. For each of these node names that is in the graph, it has the gradient that arrives at the node.

    **Example.**

    >>> x = torch.tensor([2.0, -1.0], requires_grad=True)
    >>> grad_into_nodes(torch.relu(x).sum(), {"ReluBackward0", "ExpBackward0"})  # [1., 0.] leaves the node
    {'ReluBackward0': tensor([1., 1.])}

    **Fine print.** `node_names` is a set of names, as `node.name()` returns them; each is in the graph at most once;
    other names may repeat. Of a node's outputs, take the gradient of the first, which is always used: the sum over all
    uses, as hooks on tensors leave it. Zeros are a gradient, too. The graph may have thousands of nodes in a row, and
    many paths to one node. As ever, `backward()` adds to the `.grad` of the leaves.
    """

    reference = collected

    class Mistakes:
        def grad_leaving_the_node(y, node_names):
            """You took the first entry of `grad_inputs`, the gradient that leaves the node. What arrives at it is in
            `grad_outputs`: the only argument of a pre-hook, the second of a hook.
            """
            result = {}
            for node, name in nodes_of(y).items():
                if name in node_names:
                    node.register_hook(lambda leaving, arriving, name=name: keep(result, name, leaving))
            y.backward()
            return result

        def top_node_only(y, node_names):
            """You looked at `y.grad_fn` only. Go on: each entry of `node.next_functions` holds a next node."""
            return collected(y, node_names, nodes={y.grad_fn: y.grad_fn.name()})

        def first_node_left_out(y, node_names):
            """The node of `y` itself is missing. It is in the graph, too: begin the walk with `y.grad_fn`."""
            return collected(
                y, node_names, nodes={node: name for node, name in nodes_of(y).items() if node is not y.grad_fn}
            )

        def first_branch_only(y, node_names):
            """Nodes that are not on the path of the first inputs are missing. A node has one next node for each input:
            walk over all of `next_functions`, not only over `next_functions[0]`.
            """
            return collected(y, node_names, nodes=nodes_of(y, lambda node: node.next_functions[:1]))

        def late_binding(y, node_names):
            *_, last = [name for name in nodes_of(y).values() if name in node_names]
            return collected(y, node_names, lambda result, name, grads: keep(result, last, grads))

        def late_binding__2(y, node_names):
            result, seen, todo = {}, {None}, [y.grad_fn]
            while todo:
                node = todo.pop()
                if node not in seen:
                    seen.add(node)
                    todo += [after for after, _ in node.next_functions]
                    if node.name() in node_names:
                        node.register_prehook(lambda grads: keep(result, node.name(), grads))  # noqa: B023
            y.backward()
            return result

        def absent_as_none(y, node_names):
            """A name that the graph does not contain must not be in the dict; you have an entry for it."""
            return dict.fromkeys(node_names) | collected(y, node_names)

        def too_deep(y, node_names):
            """Your walk is a function that calls itself, and Python allows that about a thousand levels deep. A graph
            can be deeper: keep a list of nodes to visit, and take one out in a loop.
            """
            seen = {None}

            def visit(node):
                if node not in seen:
                    seen.add(node)
                    for after, _ in node.next_functions:
                        visit(after)

            visit(y.grad_fn)

        def zeros_left_out(y, node_names):
            return {name: grad for name, grad in collected(y, node_names).items() if grad.any()}

        def stored_alias(y, node_names):
            return collected(y, node_names, lambda result, name, grads: result.update({name: grads[0]}))

        def stored_alias__2(y, node_names):
            return collected(y, node_names, lambda result, name, grads: result.update({name: grads[0].detach()}))

        def hook_left_behind(y, node_names):
            found, _ = hooked(y, node_names)
            y.backward()
            return found

        def hook_left_after_exception(y, node_names):
            """`backward()` raised an exception, and your `remove()` was skipped. Put it in `finally`."""
            found, hooks = hooked(y, node_names)
            y.backward()
            hooks.close()
            return found

        def no_backward(y, node_names):
            """Your dict is empty, for no backward pass ran while your hooks were there. Register them, call
            `y.backward()`, and then remove them.
            """
            return {}

        def leaves_not_filled(y, node_names):
            """`torch.autograd.grad` writes no `.grad`, and does not go through the nodes of the leaves
            (`AccumulateGrad`). The task asks for `y.backward()`.
            """
            found, hooks = hooked(y, node_names)
            with hooks:
                torch.autograd.grad(y, [node.variable for node in nodes_of(y) if hasattr(node, "variable")])
            return found

        def a_pass_for_each(y, node_names):
            """You ran several backward passes, and each of them added to the `.grad` of the leaves. One pass is enough:
            register all hooks first.
            """
            y.backward(retain_graph=True)
            return collected(y, node_names)

        def a_pass_for_each__2(y, node_names):
            found, nodes = {}, {name: node for node, name in nodes_of(y).items() if name in node_names}
            for name, node in nodes.items():
                hook = node.register_prehook(partial(keep, found, name))
                y.backward(retain_graph=True)
                hook.remove()
            return found

        def a_pass_for_each__3(y, node_names):
            for _ in list(node_names)[1:]:
                y.backward(retain_graph=True)
            return collected(y, node_names)

        def keys_are_nodes(y, node_names):
            """The keys of your dict are nodes. The task asks for names: `node.name()`."""
            found = collected(y, node_names)
            return {node: found[name] for node, name in nodes_of(y).items() if name in found}

        def two_levels_only(y, node_names):
            """You looked at `y.grad_fn` and the nodes right behind it only. Go on from each of them, until there are
            none.
            """
            top = nodes_of(y, lambda node: node.next_functions if node is y.grad_fn else ())
            return collected(y, node_names, nodes=top)

        def visited_by_name(y, node_names):
            """You keep the names of the nodes that you have visited. Several nodes may have one name, and what is
            behind the second of them is left out: keep the nodes themselves.
            """
            names = set()

            def following(node):
                known = node.name() in names
                names.add(node.name())
                return () if known else node.next_functions

            return collected(y, node_names, nodes=nodes_of(y, following))

        def names_ticked_off(y, node_names):
            """You took names out of the caller's set, and whoever uses it again finds it without them. Leave
            `node_names` as it is, and tick off in a set of your own: `left = set(node_names)`.
            """
            nodes, asked = nodes_of(y), set(node_names)
            node_names.difference_update(nodes.values())
            return collected(y, asked, nodes=nodes)

        def end_of_a_name(y, node_names):
            """You compared the ends of names: `LeakyReluBackward0` ends as `ReluBackward0` does, and is another node.
            Compare whole names: `node.name() in node_names`.
            """
            ends = {node: [n for n in node_names if name.endswith(n)] for node, name in nodes_of(y).items()}
            return collected(y, node_names, nodes={node: found[0] for node, found in ends.items() if found})

        def class_for_name(y, node_names):
            """You used the name of the node's class, or only the last part of its name. For leaves that is not what
            `node.name()` returns: `torch::autograd::AccumulateGrad`, all of it.
            """
            return collected(y, node_names, nodes={node: type(node).__name__ for node in nodes_of(y)})

        def all_outputs(y, node_names):
            """You added up the gradients of all outputs of a node. Only that of its first output is asked for:
            `grad_outputs[0]`.
            """

            def total(result, name, grads):
                result[name] = sum(grad.detach().clone() for grad in grads if grad is not None)

            return collected(y, node_names, total)

        def whole_tuple(y, node_names):
            """You kept the tuple that the pre-hook gets. It has a gradient for each output of the node: keep the first,
            `grad_outputs[0]`.
            """
            return collected(y, node_names, lambda result, name, grads: result.update({name: grads}))
