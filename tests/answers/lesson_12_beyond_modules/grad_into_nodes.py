"""Answers to 12-grad-into-nodes."""

from graders.author.answers import Wrong

WALK = """
def walk(y):
    found, todo = {}, [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found[node] = True
            todo += [after for after, _ in node.next_functions]
    return list(found)
"""

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

HOOKED = (
    WALK
    + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        name = node.name()
        if name in node_names:
            def keep(grads, name=name):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
"""
)
EDGES = (
    WALK
    + """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    edges = {node.name(): GradientEdge(node, 0) for node in walk(y) if node.name() in node_names}
    grads = torch.autograd.grad(y, list(edges.values()), retain_graph=True) if edges else ()
    y.backward()
    return {name: grad.clone() for name, grad in zip(edges, grads)}
"""
)
FIRST = "test_the_gradients_arrive_at_the_nodes"
COPIES = "test_the_gradients_are_copies_of_their_own"
LEAVES = "test_the_leaves_have_the_grad_of_one_pass"
REST = "test_nothing_else_changes_and_no_hook_is_left"
FAILURE = "test_an_exception_comes_through_and_leaves_no_hook"
VISIT = """
def grad_into_nodes(y, node_names):
    result, handles, seen = {}, [], set()
    def visit(node):
        if GUARD:
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
"""


def changed(old: str, new: str) -> str:
    """The right answer with another text in place of one."""
    assert old in HOOKED
    return HOOKED.replace(old, new)


BY_OUTPUT = """
def grad_into_nodes(y, node_names):
    result, handles, seen, todo = {}, [], set(), [(y.grad_fn, 0)]
    while todo:
        node, number = place = todo.pop()
        if node is None or place in seen:
            continue
        seen.add(place)
        todo += node.next_functions
        name = node.name()
        if name in node_names:
            def keep(grads, name=name, number=number):
                result[name] = grads[number].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
"""

WRONG = [
    Wrong(
        "takes the first output whose gradient is not zero",
        violates="A gradient of zeros is one, too.",
        check="test_zeros_that_arrive_are_a_gradient",
        mistake="another-output",
        source="""
def grad_into_nodes(y, node_names):
    found, handles, seen, nodes = {}, [], set(), [y.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions]
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                there = [grad for grad in grads if grad is not None]
                found[name] = next((grad for grad in there if grad.any()), there[0]).detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "leaves zeros out",
        violates="A gradient of zeros is one, too.",
        check="test_zeros_that_arrive_are_a_gradient",
        mistake="zeros-left-out",
        source="""
def grad_into_nodes(y, node_names):
    found, handles, seen, nodes = {}, [], set(), [y.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions]
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                if grads[0].any():
                    found[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "what leaves the node",
        violates="the gradient that arrives at this node",
        check="raised",
        mistake="grad-leaving-the-node",
        source=changed("keep(grads, name=name)", "keep(grads, arriving, name=name)").replace(
            "register_prehook", "register_hook"
        ),
    ),
    Wrong(
        "what leaves the node, where anything leaves it",
        violates="the gradient that arrives at this node",
        check=FIRST,
        source=changed("keep(grads, name=name)", "keep(leaving, arriving, name=name)")
        .replace("grads[0].detach()", "[*(one for one in leaving if one is not None), *arriving][0].detach()")
        .replace("register_prehook", "register_hook"),
    ),
    Wrong(
        "only the last node",
        violates="for each of these names that the graph of `y` contains",
        check=FIRST,
        mistake="top-node-only",
        source=changed("in walk(y)", "in [y.grad_fn]"),
    ),
    Wrong(
        "only first inputs",
        violates="for each of these names that the graph of `y` contains",
        check=FIRST,
        mistake="first-branch-only",
        source=changed("node.next_functions]", "node.next_functions[:1]]"),
    ),
    Wrong(
        "all gradients under one name",
        violates="for each of these names that the graph of `y` contains",
        check=FIRST,
        mistake="late-binding",
        source=changed("keep(grads, name=name)", "keep(grads)").replace("result[name]", "result[node.name()]"),
    ),
    Wrong(
        "names that are not there are None",
        violates="for each of these names that the graph of `y` contains",
        check=FIRST,
        mistake="absent-as-none",
        source=changed("result, handles = {}", "result, handles = dict.fromkeys(node_names)"),
    ),
    Wrong(
        "adds up at each visit, and visits by each way",
        violates="This is the complete gradient: when the output is used several times, it is the sum.",
        check=FIRST,
        mistake="visited-twice",
        source=changed("node is not None and node not in found", "node is not None")
        .replace("found[node] = True", "found.append(node)")
        .replace("found, todo = {}", "found, todo = []")
        .replace("= grads[0].detach().clone()", "= result.get(name, 0) + grads[0].detach()"),
    ),
    Wrong(
        "only a part of the gradient",
        violates="This is the complete gradient: when the output is used several times, it is the sum.",
        check=FIRST,
        mistake="a-part-of-the-gradient",
        source=WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        for position, (after, _) in enumerate(node.next_functions):
            if after is not None and after.name() in node_names:
                def keep(leaving, arriving, name=after.name(), position=position):
                    result[name] = leaving[position].detach().clone()
                handles.append(node.register_hook(keep))
    if y.grad_fn.name() in node_names:
        result[y.grad_fn.name()] = y.detach() * 0 + 1
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
    ),
    Wrong(
        "a function that calls itself",
        violates="The graph may have ten thousand nodes in a row",
        check="raised",
        mistake="too-deep",
        source=VISIT.replace("GUARD", "node is None or node in seen"),
    ),
    Wrong(
        "a None is visited",
        violates="for each of these names that the graph of `y` contains",
        check="raised",
        mistake="met-none",
        source=changed("node is not None and node not in found", "node not in found"),
    ),
    Wrong(
        "stops at the first thousand nodes",
        violates="The graph may have ten thousand nodes in a row",
        check=FIRST,
        source=changed("while todo", "while todo and len(found) < 1000"),
    ),
    Wrong(
        "autograd.grad alone",
        violates="The leaves get their `.grad`",
        check=LEAVES,
        mistake="leaves-without-grad",
        source=EDGES.replace("    y.backward()\n", ""),
    ),
    Wrong(
        "one autograd.grad for all nodes",
        violates="It is the gradient as the hooks on tensors leave it.",
        check="test_the_hooks_on_a_tensor_come_first",
        mistake="before-the-hooks",
        source=EDGES,
    ),
    Wrong(
        "puts `.grad` together",
        violates="The leaves get their `.grad`",
        check="test_backward_runs_once",
        source=EDGES.replace(
            "    y.backward()\n",
            "    for leaf in [node.variable for node in walk(y) if hasattr(node, 'variable')]:\n"
            "        (grad,) = torch.autograd.grad(y, leaf, retain_graph=True)\n"
            "        leaf.grad = grad if leaf.grad is None else leaf.grad.add_(grad)\n",
        ),
    ),
    Wrong(
        "rounds to four places",
        violates="the gradient that arrives at this node",
        check="test_the_hooks_on_a_tensor_come_first",
        source=changed("grads[0].detach().clone()", "grads[0].detach().round(decimals=4)"),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_the_hooks_on_a_tensor_come_first",
        source=changed("    result, handles = {}, []", "    result.clear()\n    handles = []")
        .replace("def grad_into_nodes", "result = {}\n\ndef grad_into_nodes")
        .replace("return result", "return dict(result)"),
    ),
    Wrong(
        "a part of the name is enough",
        violates="The name of a node is what its method `name()` returns.",
        check="test_a_name_is_the_whole_name",
        mistake="a-part-of-a-name",
        source=changed(
            "name = node.name()\n        if name in node_names:",
            "name = next((n for n in node_names if node.name().startswith(n.rstrip('0123456789'))), None)\n"
            "        if name is not None:",
        ),
    ),
    Wrong(
        "two passes",
        violates="Run `y.backward()` once",
        check=LEAVES,
        mistake="backward-twice",
        source=changed("        y.backward()", "        y.backward(retain_graph=True)").replace(
            "    return result", "    y.backward()\n    return result"
        ),
    ),
    Wrong(
        "what the leaves hold is cleared first",
        violates="on top of what it holds",
        check=LEAVES,
        mistake="cleared-the-grad",
        source=changed(
            "    try:",
            "    for leaf in [node.variable for node in walk(y) if hasattr(node, 'variable')]:\n"
            "        leaf.grad = None\n    try:",
        ),
    ),
    Wrong(
        "the gradients of the leaves have a graph",
        violates="The leaves get their `.grad`",
        check=LEAVES,
        source=changed("y.backward()", "y.backward(create_graph=True)"),
    ),
    Wrong(
        "the hook sets the gradient to zero",
        violates="Run `y.backward()` once",
        check=LEAVES,
        source=changed(
            "= grads[0].detach().clone()",
            "= grads[0].detach().clone()\n                return tuple(g if g is None else g * 0 for g in grads)",
        ),
    ),
    Wrong(
        "the hook clamps the gradient",
        violates="Run `y.backward()` once",
        check=LEAVES,
        source=changed(
            "= grads[0].detach().clone()",
            "= grads[0].detach().clone()\n"
            "                return tuple(g if g is None else g.clamp(-0.5, 0.5) for g in grads)",
        ),
    ),
    Wrong(
        "no copies",
        violates="rule 6: it shares its memory with no other tensor",
        check=COPIES,
        mistake="stored-alias",
        source=changed("grads[0].detach().clone()", "grads[0]"),
    ),
    Wrong(
        "the output by which the node is met last",
        violates="for the node's first output",
        check="test_zeros_that_arrive_are_a_gradient",
        mistake="another-output",
        source=BY_OUTPUT,
    ),
    Wrong(
        "the output by which the node is met first",
        violates="for the node's first output",
        check=FIRST,
        source=BY_OUTPUT.replace("grads[number]", "result.get(name, grads[number])"),
    ),
    Wrong(
        "the name without what stands before it",
        violates="The name of a node is what its method `name()` returns.",
        check=FIRST,
        mistake="leaf-left-out",
        source=changed("node.name()", "type(node).__name__"),
    ),
    Wrong(
        "the tuple of all outputs",
        violates="for the node's first output",
        check=FIRST,
        source=changed("grads[0].detach().clone()", "grads"),
    ),
    Wrong(
        "the last output",
        violates="for the node's first output",
        check=FIRST,
        mistake="another-output",
        source=changed("grads[0].detach().clone()", "grads[-1].detach().clone()"),
    ),
    Wrong(
        "all nodes",
        violates="for each of these names that the graph of `y` contains",
        check=FIRST,
        source=changed("if name in node_names", "if name"),
    ),
    Wrong(
        "names that contain a name",
        violates="The name of a node is what its method `name()` returns.",
        check=FIRST,
        source=changed("if name in node_names:", "for name in [one for one in node_names if one in node.name()]:"),
    ),
    Wrong(
        "the name of the class",
        violates="The name of a node is what its method `name()` returns.",
        check=FIRST,
        source=changed("name = node.name()", "name = type(node).__name__"),
    ),
    Wrong(
        "stops when all names are found, and takes one too many",
        violates="it may be empty",
        check="raised",
        source=changed("    result, handles", "    first = sorted(node_names)[0]\n    result, handles"),
    ),
    Wrong(
        "the set of the caller is emptied",
        violates="rule 2: What you were given stays as it was.",
        check=REST,
        source=changed("if name in node_names:", "if name in node_names:\n            node_names.discard(name)"),
    ),
    Wrong(
        "the hooks stay",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        mistake="hook-left-behind",
        source=changed("handle.remove()", "pass"),
    ),
    Wrong(
        "remove() without finally",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILURE,
        mistake="hook-left-after-exception",
        source=WALK
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
    ),
    Wrong(
        "remove() under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILURE,
        source=changed("finally:", "except Exception:").replace(
            "            handle.remove()\n    return result",
            "            handle.remove()\n        raise\n"
            "    for handle in handles:\n        handle.remove()\n    return result",
        ),
    ),
    Wrong(
        "exceptions are swallowed",
        violates="rule 4: Errors come through",
        check=FAILURE,
        source=changed("    finally:", "    except Exception:\n        pass\n    finally:"),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: It works however often it is called",
        check=FIRST,
        source=changed("    result, handles = {}, []", "    result, handles = RESULT, []").replace(
            "def grad_into_nodes", "RESULT = {}\n\ndef grad_into_nodes"
        ),
    ),
    Wrong(
        "three nodes of each row",
        violates="for each of these names that the graph of `y` contains",
        check="test_every_input_of_a_node_leads_on",
        source="""
def grad_into_nodes(y, node_names):
    row, handles, result = [y.grad_fn], [], {}
    while row:
        for node in row:
            if node.name() in node_names:
                keep = lambda grads, name=node.name(): result.update({name: grads[0].clone()})
                handles.append(node.register_prehook(keep))
        row = list({after: None for node in row[:3] for after, _ in node.next_functions if after is not None})
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
    ),
    Wrong(
        "two inputs of each node",
        violates="for each of these names that the graph of `y` contains",
        check="test_every_input_of_a_node_leads_on",
        source=changed("node.next_functions]", "node.next_functions[:2]]"),
    ),
    Wrong(
        "a name that is a part of one",
        violates="for each of these names that the graph of `y` contains",
        check="test_a_name_is_the_whole_name",
        mistake="a-part-of-a-name",
        source=changed("name in node_names", "name in ' '.join(node_names)"),
    ),
]

GIVENS = [
    "Write `grad_into_nodes(y, node_names)`.",
    "is a scalar with a graph",
    "Each of `node_names` occurs at most once in the graph",
]

SURVIVORS = {
    ".view(-1)": "y is a scalar",
    "at most two dimensions": "y is a scalar",
    "under no_grad": "backward works there, too",
    "lost statement: without visited.add": "each way is walked, which takes longer and finds the same nodes",
    "lost statement: without seen.add": "each way is walked, which takes longer and finds the same nodes",
    "not for all: to_visit": "the other order",
    "not for all: todo": "the other order",
    "not for all: for node in _part(nodes_of(y.grad_fn), step=-1)": "the other order",
    "not for all: row = {after for node in _part(row, step=-1)": "the other order",
    "not for all: row = {after for node in row for after, _ in _part(node.next_functions, step=-1)": "the other order",
    "not for all: new = {after for after, _ in _part(node.next_functions, step=-1)": "the other order",
    "not for all: return {name: keeper[name] for name in _part(names & keeper.keys(), step=-1)}": "the other order",
    "not for all: for name, edge in _part(found.items(), step=-1)": "the other order",
    "lost copy: result[name] = _not_copied(grad.detach())": "nobody else has the gradient of a pass of its own",
    "a list for a tuple: edges": "torch takes both",
    "lost copy: edges": "torch takes both",
    "lost copy: return dict(_not_copied(result.items()))": "the order of the keys does not matter",
    "truth for None": "a node is always true",
}
