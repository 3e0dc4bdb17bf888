"""Answers to 12-grad-into-nodes."""

RIGHT = [
    """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    # no hook: autograd.grad takes an edge of the graph for an input
    found, seen, todo = {}, set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
            if node.name() in node_names:
                found[node.name()] = GradientEdge(node, 0)
    result = {}
    for name, edge in found.items():
        (grad,) = torch.autograd.grad(y, edge, retain_graph=True)
        result[name] = grad.detach().clone()
    y.backward()
    return result
""",
    """
from contextlib import ExitStack

def nodes_of(root):
    seen, row = set(), {root}
    while row:
        yield from row
        seen |= row
        row = {after for node in row for after, _ in node.next_functions if after is not None} - seen

def grad_into_nodes(y, node_names):
    result = {}
    with ExitStack() as stack:
        for node in nodes_of(y.grad_fn):
            if node.name() in node_names:
                def keep(grad_inputs, grad_outputs, node=node):
                    result[node.name()] = grad_outputs[0].clone()
                stack.callback(node.register_hook(keep).remove)
        y.backward()
    return dict(sorted(result.items()))
""",
    """
import torch
from collections import deque
from functools import partial

class Keeper(dict):
    def keep(self, name, grad_outputs):
        self[name] = torch.empty_like(grad_outputs[0]).copy_(grad_outputs[0])

def grad_into_nodes(y, node_names):
    keeper, handles, names = Keeper(), [], frozenset(node_names)
    queue, seen = deque([y.grad_fn]), {None, y.grad_fn}
    while queue:
        node = queue.popleft()
        handles.append(node.register_prehook(partial(keeper.keep, node.name())))
        new = {after for after, _ in node.next_functions} - seen
        seen |= new
        queue.extend(new)
    try:
        torch.autograd.backward([y])
    finally:
        while handles:
            handles.pop().remove()
    return {name: keeper[name] for name in names & keeper.keys()}
""",
]


SURVIVORS = {
    ".float() of the arguments": "it is one more node behind y, whose gradient is 1",
    "not for all: … step=-1": "the other order",
    "lost copy: return dict(_not_copied(result.items()))": "the order of the keys does not matter",
}
