"""Answers to 12-grad-into-nodes."""

WALK = """
def walk(y):
    found, todo = [], [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.append(node)
            todo += [after for after, _ in node.next_functions]
    return found
"""

RIGHT = [
    """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    # no hook: autograd.grad takes edges of the graph for inputs
    found, seen, todo = {}, set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
            if node.name() in node_names:
                found[node.name()] = GradientEdge(node, 0)
    edges = list(found.values())
    grads = torch.autograd.grad(y, edges, retain_graph=True) if edges else ()
    y.backward()
    return {name: grad.detach().clone() for name, grad in zip(found, grads)}
""",
    """
def grad_into_nodes(y, node_names):
    result, handles, seen, todo = {}, [], set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in node_names:
            def keep(grad_outputs, name=node.name()):
                result[name] = grad_outputs[0].detach().clone()
            handles.append(node.register_prehook(keep))
        todo += [after for after, _ in node.next_functions]
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    """
from contextlib import ExitStack

def nodes_of(node, seen):
    if node is not None and node not in seen:
        seen[node] = None
        for after, _ in node.next_functions:
            nodes_of(after, seen)
    return seen

def grad_into_nodes(y, node_names):
    result = {}
    with ExitStack() as stack:
        for node in nodes_of(y.grad_fn, {}):
            if node.name() in node_names:
                def keep(grad_inputs, grad_outputs, node=node):
                    result[node.name()] = grad_outputs[0].clone()
                stack.callback(node.register_hook(keep).remove)
        y.backward()
    return dict(sorted(result.items()))
""",
    """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    found, visited, queue = {}, {y.grad_fn}, [y.grad_fn]
    for node in queue:
        if node.name() in node_names:
            found[node.name()] = GradientEdge(node, 0)
        for after, _ in node.next_functions:
            if after is not None and after not in visited:
                visited.add(after)
                queue.append(after)
    grads = torch.autograd.grad(y, list(found.values()), retain_graph=True) if found else ()
    grads = [grad.clone() for grad in grads]
    y.backward()
    return dict(zip(found, grads))
""",
    """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    def visit(node):
        # every way to a node is walked, and a hook more does no harm: it writes the same value again
        if node.name() in node_names:
            handles.append(node.register_prehook(
                lambda grads, name=node.name(): result.update({name: grads[0].detach().clone()}) or None))
        for after, _ in filter(lambda pair: pair[0] is not None, node.next_functions):
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        [handle.remove() for handle in handles]
    return result
""",
]

WRONG = {
    "grad-leaving-the-node": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grad_inputs, grad_outputs, name=node.name()):
                result[name] = grad_inputs[0].detach().clone()
            handles.append(node.register_hook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "top-node-only": """
def grad_into_nodes(y, node_names):
    result = {}
    node = y.grad_fn
    if node.name() in node_names:
        handle = node.register_prehook(lambda grads: result.update({node.name(): grads[0].clone()}))
    y.backward()
    return result
""",
    "first-branch-only": """
def grad_into_nodes(y, node_names):
    result, handles, node = {}, [], y.grad_fn
    while node is not None:
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
        node = node.next_functions[0][0] if node.next_functions else None
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "late-binding": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            handles.append(node.register_prehook(lambda grads: result.update({node.name(): grads[0].clone()})))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "absent-as-none": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = dict.fromkeys(node_names), []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "visited-twice": """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    def visit(node):
        if node is None:
            return
        if node.name() in node_names:
            def add(grads, name=node.name()):
                result[name] = result.get(name, 0) + grads[0].detach()
            handles.append(node.register_prehook(add))
        for after, _ in node.next_functions:
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "met-none": """
def grad_into_nodes(y, node_names):
    result, handles, seen = {}, [], set()
    def visit(node):
        if node in seen:
            return
        seen.add(node)
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
        for after, _ in node.next_functions:
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "leaves-without-grad": WALK
    + """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    edges = {node.name(): GradientEdge(node, 0) for node in walk(y) if node.name() in node_names}
    return {name: grad.clone() for name, grad in zip(edges, torch.autograd.grad(y, list(edges.values())))}
""",
    "backward-twice": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward(retain_graph=True)
    finally:
        for handle in handles:
            handle.remove()
    y.backward()
    return result
""",
    "stored-alias": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0]
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    "hook-left-behind": WALK
    + """
def grad_into_nodes(y, node_names):
    result = {}
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            node.register_prehook(keep)
    y.backward()
    return result
""",
    "hook-left-after-exception": WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
}

ALSO_WRONG = [
    # the gradients of the leaves have a graph
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def before(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(before))
    try:
        y.backward(create_graph=True)
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    """
def grad_into_nodes(y, node_names):
    y.backward()
    return {}
""",
    """
def grad_into_nodes(y, node_names):
    return None
""",
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads
            handles.append(node.register_prehook(keep))
    y.backward()
    return result
""",
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        def keep(grads, name=node.name()):
            result[name] = grads[0].detach().clone()
        handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = sum(grad.sum() for grad in grads)
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
                return tuple(grad * 0 for grad in grads)
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    except Exception:
        pass
    for handle in handles:
        handle.remove()
    return result
""",
]
