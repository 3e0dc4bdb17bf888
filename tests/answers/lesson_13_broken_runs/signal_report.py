"""Answers to 13-signal-report."""

from graders.author.answers import Wrong, changed

RIGHT = [
    # the gradients of edges of the graph, by torch.autograd.grad
    """
import torch
from contextlib import ExitStack

def signal_report(model, loss_fn, x):
    rows = []

    def floats(output):
        if isinstance(output, dict):
            output = tuple(output.values())
        if not isinstance(output, tuple):
            output = (output,)
        return [t for t in output if torch.is_tensor(t) and t.dtype.is_floating_point]

    def note(name, output):
        tensors = floats(output)
        edges = [torch.autograd.graph.get_gradient_edge(t) if t.requires_grad else None for t in tensors]
        rows.append((name, [t.detach().clone() for t in tensors], edges))

    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        for name, module in model.named_modules():
            if not list(module.children()):
                hook = lambda module, args, output, name=name: note(name, output)
                stack.enter_context(module.register_forward_hook(hook))
        loss = loss_fn(model(x))
        edges = [edge for _, _, edges in rows for edge in edges if edge is not None]
        grads = {}
        if loss.requires_grad and edges:
            found = torch.autograd.grad(loss, edges, allow_unused=True)
            grads = {(edge.node, edge.output_nr): grad for edge, grad in zip(edges, found)}

    def rms(tensors):
        return torch.cat([t.flatten() for t in tensors]).square().mean().sqrt().item()

    report = []
    for name, values, edges in rows:
        arrived = [None if edge is None else grads.get((edge.node, edge.output_nr)) for edge in edges]
        zeros = [torch.zeros_like(v) if g is None else g for v, g in zip(values, arrived)]
        report.append((name, rms(values), rms(zeros)))
    return report
""",
    # torch.autograd.grad drives the pass; tensor hooks fill rows
    """
import torch

def parts(output):
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    return [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]

class Row:
    def __init__(self, name, tensors):
        self.name, self.count = name, sum(t.numel() for t in tensors)
        self.output = (sum(t.detach().pow(2).sum().item() for t in tensors) / self.count) ** 0.5
        self.arrived = 0.0
    def arrive(self, grad):
        self.arrived += grad.pow(2).sum().item()

def signal_report(model, loss_fn, x):
    rows, handles = [], []
    try:
        for name, module in model.named_modules():
            if any(True for _ in module.children()):
                continue
            def hook(module, args, output, name=name):
                tensors = parts(output)
                rows.append(Row(name, tensors))
                handles.extend(t.register_hook(rows[-1].arrive) for t in tensors if t.requires_grad)
            handles.append(module.register_forward_hook(hook))
        with torch.enable_grad():
            loss = loss_fn(model(x))
            wanted = [p for p in model.parameters() if p.requires_grad]
            if loss.requires_grad:
                torch.autograd.grad(loss, wanted, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    return [(row.name, row.output, (row.arrived / row.count) ** 0.5) for row in rows]
""",
]

BASE = """
import torch

def signal_report(model, loss_fn, x):
    calls, handles = [], []
    kept = [(p, p.grad) for p in model.parameters()]

    def rms(squares, count):
        return (sum(squares) / count) ** 0.5

    def watch(name):
        def hook(module, args, output):
            values = [output] if isinstance(output, torch.Tensor) else output
            values = list(values.values()) if isinstance(values, dict) else values
            tensors = [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]
            count, arrived = sum(t.numel() for t in tensors), []
            for t in tensors:
                if t.requires_grad:
                    handles.append(t.register_hook(lambda grad: arrived.append(grad.pow(2).sum().item())))
            size = rms([t.detach().pow(2).sum().item() for t in tensors], count)
            calls.append((name, size, arrived, count))
        return hook

    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(watch(name)))
        with torch.enable_grad():
            loss = loss_fn(model(x))
        if loss.requires_grad:
            for p, _ in kept:
                p.grad = None
            loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        for p, grad in kept:
            p.grad = grad
    return [(name, size, rms(arrived, count)) for name, size, arrived, count in calls]
"""


def but(*places: tuple[str, str]) -> str:
    """The right answer with some of its text replaced."""
    return changed(BASE, *places)


REPORT = "test_each_call_of_a_leaf_is_reported"
RETURN = "    return [(name, size, rms(arrived, count)) for name, size, arrived, count in calls]"
ROWS = "    rows = [(name, size, rms(arrived, count)) for name, size, arrived, count in calls]\n"

WRONG = [
    Wrong(
        "gives what arrives to the calls from the last to the first",
        violates="Where no gradient arrives, `gradient` is `0.0`",
        check=REPORT,
        source=but(
            ("calls, handles = [], []", "calls, handles, waiting = [], [], {}"),
            ("lambda grad: arrived.append(", "lambda grad: waiting[name].pop().append("),
            (
                "            for t in tensors:\n",
                "            waiting.setdefault(name, []).extend(arrived for _ in tensors)\n"
                "            for t in tensors:\n",
            ),
        ),
    ),
    Wrong(
        "the standard deviation",
        violates="The RMS is the root of the mean of the squares",
        check=REPORT,
        source=but(
            (
                "            size = rms([t.detach().pow(2).sum().item() for t in tensors], count)",
                "            size = torch.cat([t.detach().flatten() for t in tensors]).std(correction=0).item()",
            )
        ),
    ),
    Wrong(
        "entries in the order of definition",
        violates="in the order of the calls",
        check=REPORT,
        source=but(
            (
                RETURN,
                ROWS + "    names = [name for name, _ in model.named_modules()]\n"
                "    return sorted(rows, key=lambda row: names.index(row[0]))",
            )
        ),
    ),
    Wrong(
        "lists, and not tuples",
        violates="Return a list with a\n    tuple",
        check=REPORT,
        source=but((RETURN, ROWS + "    return [list(row) for row in rows]")),
    ),
    Wrong(
        "containers, too",
        violates="for each call of a leaf (a module without children)",
        check=REPORT,
        source=but(("            if not list(module.children()):\n    ", "            if True:\n    ")),
    ),
    Wrong(
        "not the model itself",
        violates="for each call of a leaf (a module without children)",
        check="test_any_model_and_any_loss_has_a_report",
        source=but(
            ("            if not list(module.children()):\n", "            if name and not list(module.children()):\n")
        ),
    ),
    Wrong(
        "counts tensors of one dtype alone",
        violates="all tensors of a floating dtype in it count",
        check=REPORT,
        source=but(("v.is_floating_point()]", "v.dtype == x.dtype]")),
    ),
    Wrong(
        "counts integers",
        violates="all tensors of a floating dtype in it count",
        check=REPORT,
        source=but(("isinstance(v, torch.Tensor) and v.is_floating_point()]", "isinstance(v, torch.Tensor)]")),
    ),
    Wrong(
        "leaves tensor hooks on a parameter",
        violates="It may return its parameter",
        check="test_nothing_of_the_caller_changes",
        source=but(("handles.append(t.register_hook(", "list.append([], t.register_hook(")),
    ),
    Wrong(
        "calls backward of a loss without a graph",
        violates="the\n    loss may have no graph",
        check="raised",
        source=but(("        if loss.requires_grad:", "        if True:")),
    ),
    Wrong(
        "takes a small gradient for none",
        violates="of the gradient there",
        check="test_any_model_and_any_loss_has_a_report",
        source=but((RETURN, ROWS + "    return [(n, a, b if b > 1e-6 else 0.0) for n, a, b in rows]")),
    ),
    Wrong(
        "runs the model a second time",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_and_the_loss_run_once",
        source=but(
            (
                "        if loss.requires_grad:\n",
                "        model(x)\n        calls[len(calls) // 2:] = []\n        if loss.requires_grad:\n",
            )
        ),
    ),
    Wrong(
        "lists leaves that are never called",
        violates="for each call of a leaf (a module without children)",
        check=REPORT,
        source=but(
            (
                RETURN,
                ROWS + "    missing = [n for n, m in model.named_modules() if not list(m.children())]\n"
                "    return rows + [(n, 0.0, 0.0) for n in missing if n not in [row[0] for row in rows]]",
            )
        ),
    ),
    Wrong(
        "the .grad of what is frozen is lost",
        violates="rule 2: the same tensor with the same values",
        check="test_nothing_of_the_caller_changes",
        source=but(("            p.grad = grad\n", "            p.grad = grad if p.requires_grad else None\n")),
    ),
    Wrong(
        "one list of calls for all",
        violates="rule 1: when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=but(
            ("import torch\n", "import torch\n\nCALLS = []\n"),
            ("    calls, handles = [], []\n", "    CALLS.clear()\n    calls, handles = CALLS, []\n"),
        ),
    ),
]

ORDER = "the other order"
NONE = "what is compared with None here is never false"
SURVIVORS = {
    "at least one dimension": "a linear layer needs one",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": ORDER,
    "not for all: grads = {": ORDER,
    "not for all: edges = [edge for _, _, edges in _part(rows, step=-1)": ORDER,
    "not for all: edges = [edge for _, _, edges in rows for edge in _part(edges, step=-1)": ORDER,
    "not for all: if any((True for _ in _part(module.children(),": "one child is enough",
    "not for all: arrived = [None if edge is None else grads.get(": ORDER,
    "not for all: for handle in _part(handles, stop=-1)": "the last one is that of a tensor of this pass",
    "a list for a tuple: if not tuple(module.children())": "only its length matters",
    "truth for None": NONE,
    "lost copy": "a graph that is kept costs memory, and no more",
    "lost return: hook = lambda": "what is returned is None either way",
    "one global slot: grads = globals()": "each call asks for edges of its own pass",
    "under no_grad": "the answer switches gradients on itself",
}
