"""Answers to 13-signal-report."""

from graders.author.answers import Wrong, changed

GIVENS = [
    "Hooks of the caller on gradients only watch.",
    "Squares and their sums fit into the dtype.",
    "It returns no view that is written to later.",
    "`loss_fn` calls no module of the model.",
]

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


REPORT = "test_the_report_is_right"
AS_BEFORE = "test_everything_else_is_as_it_was"
RETURN = "    return [(name, size, rms(arrived, count)) for name, size, arrived, count in calls]"
ROWS = "    rows = [(name, size, rms(arrived, count)) for name, size, arrived, count in calls]\n"

WRONG = [
    Wrong(
        "counts tensors of one dtype alone",
        violates="of one dtype or several, count as if they were one long tensor;",
        check="test_all_tensors_of_a_call_are_one_long_tensor",
        source=but(("v.is_floating_point()]", "v.dtype == x.dtype]")),
    ),
    Wrong(
        "an empty child is none",
        violates="A leaf is\n    a module of `model.named_modules()` without children.",
        check="test_each_call_has_its_own_gradient",
        source=but(("if not list(module.children()):", "if not any(module.children()):")),
    ),
    Wrong(
        "gives what arrives to the calls from the last to the first",
        violates="Where none arrives it is\n      `0.0`",
        check="test_each_call_has_its_own_gradient",
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
        "returns nothing",
        violates="Write `signal_report(model, loss_fn, x)`.",
        check=REPORT,
        source=but((RETURN, "")),
    ),
    Wrong(
        "asks for the gradient of the tensor itself, which may be another one by then",
        violates="rule 7: also when a later layer overwrites this value in place",
        check=REPORT,
        source=changed(
            RIGHT[0],
            ("torch.autograd.graph.get_gradient_edge(t)", "t"),
            ("(edge.node, edge.output_nr): grad", "id(edge): grad"),
            ("grads.get((edge.node, edge.output_nr))", "grads.get(id(edge))"),
        ),
    ),
    Wrong(
        "the norm",
        violates="the root of the mean of the squares of all numbers",
        check=REPORT,
        mistake="norm",
        source=but(("(sum(squares) / count) ** 0.5", "sum(squares) ** 0.5")),
    ),
    Wrong(
        "the standard deviation",
        violates="`output` is the RMS of what the leaf returned",
        check=REPORT,
        source=but(
            (
                "            size = rms([t.detach().pow(2).sum().item() for t in tensors], count)",
                "            size = torch.cat([t.detach().flatten() for t in tensors]).std(correction=0).item()",
            )
        ),
    ),
    Wrong(
        "the mean of the absolute values",
        violates="`gradient` is the RMS of the gradient",
        check=REPORT,
        source=but(
            ("arrived.append(grad.pow(2).sum().item())", "arrived.append(grad.abs().sum().item() ** 2 / count)")
        ),
    ),
    Wrong(
        "one entry for each leaf, with the last call",
        violates="for each call of a leaf",
        check=REPORT,
        mistake="last-calls-only",
        source=but(
            (
                RETURN,
                ROWS + "    names = [row[0] for row in rows]\n"
                "    return [row for i, row in enumerate(rows) if row[0] not in names[i + 1:]]",
            )
        ),
    ),
    Wrong(
        "one entry for each leaf, with the first call",
        violates="for each call of a leaf",
        check=REPORT,
        mistake="first-calls-only",
        source=but(
            (
                RETURN,
                ROWS + "    names = [row[0] for row in rows]\n"
                "    return [row for i, row in enumerate(rows) if row[0] not in names[:i]]",
            )
        ),
    ),
    Wrong(
        "leaves out calls without a gradient",
        violates="Where none arrives it is `0.0`",
        check=REPORT,
        mistake="calls-without-a-gradient-left-out",
        source=but((RETURN, ROWS + "    return [row for row in rows if row[2]]")),
    ),
    Wrong(
        "entries in the order in which gradients arrive",
        violates="in the order of the calls",
        check=REPORT,
        mistake="in-the-order-of-the-backward-pass",
        source=but((RETURN, ROWS + "    return [row for row in rows if row[2]][::-1]")),
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
        violates="Return a list with a tuple",
        check=REPORT,
        source=but((RETURN, ROWS + "    return [list(row) for row in rows]")),
    ),
    Wrong(
        "tensors, and not floats",
        violates="as a `float`: the root of the mean of the squares",
        check=REPORT,
        source=but((RETURN, ROWS + "    return [(name, torch.tensor(a), torch.tensor(b)) for name, a, b in rows]")),
    ),
    Wrong(
        "containers, too",
        violates="for each call of a leaf",
        check=REPORT,
        source=but(("            if not list(module.children()):\n    ", "            if True:\n    ")),
    ),
    Wrong(
        "only the first level",
        violates="`name` is its name there",
        check=REPORT,
        source=but(("model.named_modules()", "[('', model), *model.named_children()]")),
    ),
    Wrong(
        "not the model itself",
        violates="for the model itself",
        check=REPORT,
        source=but(
            ("            if not list(module.children()):\n", "            if name and not list(module.children()):\n")
        ),
    ),
    Wrong(
        "the first tensor of several",
        violates="of one dtype or several, count as if they were one long tensor;",
        check=REPORT,
        mistake="first-tensor-only",
        source=but(("v.is_floating_point()]\n", "v.is_floating_point()][:1]\n")),
    ),
    Wrong(
        "leaves out tensors at which no gradient arrives",
        violates="where no gradient arrives at one of them, its gradient is 0 everywhere",
        check=REPORT,
        mistake="tensors-without-a-gradient-left-out",
        source=but(
            (
                "arrived.append(grad.pow(2).sum().item())",
                "arrived.append((grad.pow(2).sum().item(), grad.numel()))",
            ),
            ("rms(arrived, count)) for", "rms([a for a, _ in arrived], sum([n for _, n in arrived]) or 1)) for"),
        ),
    ),
    Wrong(
        "hooks the first tensor of several only",
        violates="of one dtype or several, count as if they were one long tensor;",
        check=REPORT,
        source=but(("            for t in tensors:\n", "            for t in tensors[:1]:\n")),
    ),
    Wrong(
        "counts integers",
        violates="All tensors of a floating dtype directly in it,\n      of one dtype or several, count",
        check=REPORT,
        source=but(("isinstance(v, torch.Tensor) and v.is_floating_point()]", "isinstance(v, torch.Tensor)]")),
    ),
    Wrong(
        "knows tensors only",
        violates="A leaf may return a tuple or a dict of tensors and other values",
        check="raised",
        source=but(
            ("values = [output] if isinstance(output, torch.Tensor) else output", "values = [output]"),
        ),
    ),
    Wrong(
        "keeps the outputs, and looks at them in the end",
        violates="rule 7: also when a later layer overwrites this value in place",
        check=REPORT,
        source="""
import torch
from contextlib import ExitStack

def signal_report(model, loss_fn, x):
    calls = []
    def floats(output):
        output = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
        return [t for t in output if torch.is_tensor(t) and t.is_floating_point()]
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        for name, module in model.named_modules():
            if not list(module.children()):
                hook = lambda module, args, output, name=name: calls.append((name, floats(output)))
                stack.enter_context(module.register_forward_hook(hook))
        loss = loss_fn(model(x))
    every = [t for _, ts in calls for t in ts if t.requires_grad]
    found = torch.autograd.grad(loss, every, allow_unused=True) if loss.requires_grad else [None] * len(every)
    grads = {id(t): g for t, g in zip(every, found)}
    def rms(ts):
        return torch.cat([t.detach().flatten() for t in ts]).square().mean().sqrt().item()
    def arrived(t):
        grad = grads.get(id(t))
        return torch.zeros_like(t) if grad is None else grad
    return [(name, rms(ts), rms([arrived(t) for t in ts])) for name, ts in calls]
""",
    ),
    Wrong(
        "full backward hooks on leaves",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="raised",
        source="""
import torch

def signal_report(model, loss_fn, x):
    rows, handles = [], []
    kept = [(p, p.grad) for p in model.parameters()]
    for name, module in model.named_modules():
        if not list(module.children()):
            def forward(module, args, output, name=name):
                rows.append([name, output.detach().pow(2).mean().sqrt().item(), 0.0])
            def backward(module, grad_output, name=name):
                row = [row for row in rows if row[0] == name][-1]
                row[2] = grad_output[0].pow(2).mean().sqrt().item()
            handles += [module.register_forward_hook(forward), module.register_full_backward_pre_hook(backward)]
    try:
        with torch.enable_grad():
            loss = loss_fn(model(x))
        if loss.requires_grad:
            model.zero_grad()
            loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        for p, grad in kept:
            p.grad = grad
    return [tuple(row) for row in rows]
""",
    ),
    Wrong(
        "lets x require grad",
        violates="Only parameters of the model require grad; `x` does not.",
        check=REPORT,
        mistake="x-requires-grad",
        source=but(("loss_fn(model(x))", "loss_fn(model(x.detach().clone().requires_grad_()))")),
    ),
    Wrong(
        "lets the x of the caller require grad",
        violates="rule 2",
        check=AS_BEFORE,
        source=but(("loss_fn(model(x))", "loss_fn(model(x.requires_grad_()))")),
    ),
    Wrong(
        "leaves tensor hooks on a parameter",
        violates="A leaf may also return one of its parameters.",
        check=AS_BEFORE,
        source=but(("handles.append(t.register_hook(", "list.append([], t.register_hook(")),
    ),
    Wrong(
        "does not switch gradients on",
        violates="Your function may be called under `torch.no_grad()`, and runs forward and backward all the same.",
        check=REPORT,
        mistake="no-graph-under-no-grad",
        source=but(("        with torch.enable_grad():\n            loss", "        loss")),
    ),
    Wrong(
        "calls backward of a loss without a graph",
        violates="when the loss has no graph at all",
        check="raised",
        source=but(("        if loss.requires_grad:", "        if True:")),
    ),
    Wrong(
        "takes a small gradient for none",
        violates="`gradient` is the RMS of the gradient of the loss",
        check="test_small_numbers_count",
        source=but((RETURN, ROWS + "    return [(n, a, b if b > 1e-6 else 0.0) for n, a, b in rows]")),
    ),
    Wrong(
        "makes all gradients infinite",
        violates="`gradient` is the RMS of the gradient",
        check=REPORT,
        source=but((RETURN, ROWS + "    return [(n, a, float('inf')) for n, a, b in rows]")),
    ),
    Wrong(
        "rounds",
        violates="A relative error of 1e-5 does not matter.",
        check=REPORT,
        source=but((RETURN, ROWS + "    return [(n, round(a, 3), round(b, 3)) for n, a, b in rows]")),
    ),
    Wrong(
        "runs the model a second time",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_model_and_loss_run_once",
        source=but(
            (
                "        if loss.requires_grad:\n",
                "        model(x)\n        calls[len(calls) // 2:] = []\n        if loss.requires_grad:\n",
            )
        ),
    ),
    Wrong(
        "no backward pass",
        violates="one backward pass",
        check=REPORT,
        source=but(("            loss.backward()", "            pass")),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check=REPORT,
        mistake="in-eval-mode",
        source=but(
            ("    try:\n", "    modes = [(m, m.training) for m in model.modules()]\n    model.eval()\n    try:\n"),
            (
                "        for p, grad in kept:\n            p.grad = grad\n",
                "        for p, grad in kept:\n            p.grad = grad\n"
                "        for m, mode in modes:\n            m.training = mode\n",
            ),
        ),
    ),
    Wrong(
        "before the hooks of the caller",
        violates='rule 3: "As it left the module" means the value that the next part of the model gets',
        check=REPORT,
        source=but(("register_forward_hook(watch(name))", "register_forward_hook(watch(name), prepend=True)")),
    ),
    Wrong(
        "names a module that is not registered",
        violates="A leaf is a module of `model.named_modules()` without children",
        check=REPORT,
        source=but(
            (
                "        for name, module in model.named_modules():\n"
                "            if not list(module.children()):\n"
                "                handles.append(module.register_forward_hook(watch(name)))\n",
                "        names = {m: name for name, m in model.named_modules()}\n"
                "        def every(module, args, output):\n"
                "            if not list(module.children()):\n"
                "                watch(names.get(module, '?'))(module, args, output)\n"
                "        handles.append(torch.nn.modules.module.register_module_forward_hook(every))\n",
            )
        ),
    ),
    Wrong(
        "lists leaves that are never called",
        violates="for each call of a leaf",
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
        "empties the gradients of the caller",
        violates="rule 2",
        check=AS_BEFORE,
        source=but(("            p.grad = grad\n", "            p.grad = None\n")),
    ),
    Wrong(
        "adds to the gradients of the caller",
        violates="rule 2",
        check=AS_BEFORE,
        source=but(
            ("            for p, _ in kept:\n                p.grad = None\n", ""),
        ),
    ),
    Wrong(
        "leaves its hooks and gradients after an exception",
        violates="rule 4",
        check=AS_BEFORE,
        source=but(("    finally:\n", "    except ZeroDivisionError:\n        pass\n    else:\n")),
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4",
        check="test_exceptions_come_through",
        source=but(("    finally:\n", "    except BaseException:\n        return []\n    finally:\n")),
    ),
    Wrong(
        "the .grad of what is frozen is lost",
        violates="rule 2: the same tensor with the same values",
        check="test_an_empty_sequential_is_a_leaf_and_a_frozen_layer_too",
        source=but(("            p.grad = grad\n", "            p.grad = grad if p.requires_grad else None\n")),
    ),
    Wrong(
        "no Sequential is a leaf",
        violates="A leaf is a module of `model.named_modules()` without children",
        check="test_an_empty_sequential_is_a_leaf_and_a_frozen_layer_too",
        source=but(
            (
                "if not list(module.children()):",
                "if not list(module.children()) and type(module) is not torch.nn.Sequential:",
            )
        ),
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
    Wrong(
        "a view of the output",
        violates="rule 1: in any layout",
        check="raised",
        source=changed(
            RIGHT[0], ("torch.cat([t.flatten() for t in tensors])", "torch.cat([t.view(-1) for t in tensors])")
        ),
    ),
    Wrong(
        "squares in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_small_numbers_count",
        source=changed(
            RIGHT[0], ("torch.cat([t.flatten() for t in tensors])", "torch.cat([t.flatten() for t in tensors]).float()")
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
