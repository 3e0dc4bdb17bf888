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
        return [t for t in output if t.dtype.is_floating_point]

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
    return [v for v in values if v.is_floating_point()]

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

RUN = "            loss = loss_fn(model(x))\n"

WRONG = [
    Wrong(
        "runs the model a second time",
        violates="Compute `loss_fn(model(x))` once",
        check="test_the_model_and_the_loss_run_once",
        source=changed(RIGHT[1], (RUN, f"{RUN}            model(x)\n            rows[len(rows) // 2 :] = []\n")),
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "the other order",
    "not for all: for handle in _part(handles, stop=-1)": "the last one is that of a tensor of this pass",
    "lost copy": "a graph that is kept costs memory, and no more",
}
