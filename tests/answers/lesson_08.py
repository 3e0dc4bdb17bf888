"""Answers to the exercises of lesson 8."""

RIGHT = {
    "08-predict-module-order": [
        """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
        """
import torch
from torch import nn
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    def log(label):
        def hook(*args):
            events.append(label)
        return hook
    layer = nn.Linear(1, 1)
    kinds = {
        "pre": (layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        "fwd": (layer.register_forward_hook, everywhere.register_module_forward_hook),
        "bpre": (layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        "bwd": (layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    }
    handles = []
    try:
        for kind, (local, anywhere) in kinds.items():
            local(log(f"A.{kind}"))
            local(log(f"P.{kind}"), prepend=True)
            handles.append(anywhere(log(f"G.{kind}")))
        layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        """
from contextlib import ExitStack
import torch
from torch.nn.modules.module import (
    register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook,
)

class Log:
    def __init__(self, label, events):
        self.label, self.events = label, events
    def __call__(self, *args):
        self.events.append(self.label)

def predict_module_order():
    events = []
    layer = torch.nn.Linear(2, 2)
    with ExitStack() as stack:
        for kind, name, anywhere in (
            ("bwd", "register_full_backward_hook", register_module_full_backward_hook),
            ("bpre", "register_full_backward_pre_hook", register_module_full_backward_pre_hook),
            ("fwd", "register_forward_hook", register_module_forward_hook),
            ("pre", "register_forward_pre_hook", register_module_forward_pre_hook),
        ):
            stack.enter_context(getattr(layer, name)(Log("A." + kind, events)))
            stack.enter_context(getattr(layer, name)(Log("P." + kind, events), prepend=True))
            stack.enter_context(anywhere(Log("G." + kind, events)))
        layer(torch.rand(3, 2).requires_grad_()).sum().backward()
    return events
""",
    ],
    "08-predict-autograd-order": [
        """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(f"kind must be 'leaf' or 'non-leaf', not {kind!r}")
""",
        """
class UnknownKind(ValueError):
    pass

ORDERS = {
    "leaf": ("tensor", "node_pre", "post_acc", "node_post"),
    "non-leaf": ("tensor", "retain_grad", "node_pre", "node_post"),
}

def predict_autograd_order(kind):
    try:
        return list(ORDERS[kind])
    except KeyError:
        raise UnknownKind(kind) from None
""",
        """
import torch
from torch.autograd.graph import get_gradient_edge

def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    x = torch.tensor([1.0], requires_grad=True)
    y = 3 * x
    watched = x if kind == "leaf" else y
    node = get_gradient_edge(watched).node
    events = []
    def note(label):
        if kind == "non-leaf" and watched.grad is not None and "retain_grad" not in events:
            events.append("retain_grad")
        events.append(label)
    node.register_hook(lambda grad_inputs, grad_outputs: note("node_post"))
    node.register_prehook(lambda grad_outputs: note("node_pre"))
    if kind == "leaf":
        x.register_post_accumulate_grad_hook(lambda p: note("post_acc"))
    else:
        y.retain_grad()
    watched.register_hook(lambda grad: note("tensor"))
    (5 * y).backward()
    return events
""",
    ],
    "08-trace-events": [
        """
def trace_events(model, x):
    events, handles = [], []
    try:
        for name, module in model.named_modules():
            name = name or "net"
            handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
            handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
            handles.append(module.register_full_backward_pre_hook(lambda *a, n=name: events.append(f"{n}.bpre")))
            handles.append(module.register_full_backward_hook(lambda *a, n=name: events.append(f"{n}.bwd")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        """
from contextlib import ExitStack
from torch.nn.modules import module as everywhere

def trace_events(model, x):
    names = {module: name or "net" for name, module in model.named_modules()}
    events = []
    def log(what):
        def hook(module, *args):
            if module in names:
                events.append(names[module] + "." + what)
        return hook
    with ExitStack() as stack:
        stack.enter_context(everywhere.register_module_forward_pre_hook(log("fpre")))
        stack.enter_context(everywhere.register_module_forward_hook(log("fwd")))
        stack.enter_context(everywhere.register_module_full_backward_pre_hook(log("bpre")))
        stack.enter_context(everywhere.register_module_full_backward_hook(log("bwd")))
        model(x).sum().backward()
    return events
""",
        """
import contextlib
from functools import partial

KINDS = {
    "fpre": "register_forward_pre_hook",
    "fwd": "register_forward_hook",
    "bpre": "register_full_backward_pre_hook",
    "bwd": "register_full_backward_hook",
}

class Tracer:
    def __init__(self):
        self.events = []
    def note(self, event, *args):
        self.events.append(event)

@contextlib.contextmanager
def tracing(model):
    tracer, handles = Tracer(), []
    try:
        for name, module in model.named_modules():
            for what, register in KINDS.items():
                handles += [getattr(module, register)(partial(tracer.note, f"{name or 'net'}.{what}"))]
        yield tracer
    finally:
        while handles:
            handles.pop().remove()

def trace_events(model, x):
    with tracing(model) as tracer:
        loss = model(x).sum()
        loss.backward()
    return tracer.events
""",
        """
def trace_events(model, x):
    events, handles = [], []
    def visit(module, name, seen):
        if module in seen:
            return
        seen.add(module)
        label = name or "net"
        handles.extend([
            module.register_full_backward_hook(lambda m, gi, go: events.append(label + ".bwd"), prepend=True),
            module.register_full_backward_pre_hook(lambda m, go: events.append(label + ".bpre")),
            module.register_forward_hook(lambda m, a, k, o: events.append(label + ".fwd"), with_kwargs=True),
            module.register_forward_pre_hook(lambda m, a: events.append(label + ".fpre")),
        ])
        for child_name, child in module.named_children():
            visit(child, f"{name}.{child_name}" if name else child_name, seen)
    visit(model, "", set())
    try:
        out = model(x)
        out.backward(gradient=out.new_ones(out.shape))
    finally:
        [handle.remove() for handle in handles]
    return events
""",
        # The hooks go before backward: a call that has hooked its backward keeps them.
        """
from contextlib import ExitStack

def trace_events(model, x):
    events = []
    with ExitStack() as stack:
        for name, module in reversed(list(model.named_modules())):
            for what, kind in (("bwd", "full_backward"), ("bpre", "full_backward_pre"), ("fwd", "forward"),
                               ("fpre", "forward_pre")):
                log = lambda *a, event=f"{name or 'net'}.{what}": events.append(event)
                stack.enter_context(getattr(module, f"register_{kind}_hook")(log))
        loss = model(x).sum()
    loss.backward()
    return events
""",
    ],
    "08-count-hook-calls": [
        """
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    def on_forward(module, args, output):
        calls["fwd"] += 1
    def on_backward(module, grad_input, grad_output):
        calls["bwd"] += 1
    with model[0].register_forward_hook(on_forward), model[0].register_full_backward_hook(on_backward):
        for _ in range(n):
            out = checkpoint(model, x, use_reentrant=False) if ckpt else model(x)
            out.sum().backward()
    return calls
""",
        """
import torch.utils.checkpoint
from torch.nn.modules import module as everywhere

def count_hook_calls(model, x, n, ckpt):
    first, fwd, bwd = model[0], [], []
    def count(calls):
        return lambda module, *rest: calls.append(1) if module is first else None
    forward_handle = everywhere.register_module_forward_hook(count(fwd))
    backward_handle = everywhere.register_module_full_backward_hook(count(bwd))
    run = (lambda: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)) if ckpt else (lambda: model(x))
    try:
        for _ in range(n):
            run().sum().backward()
    finally:
        forward_handle.remove()
        backward_handle.remove()
    return {"bwd": len(bwd), "fwd": len(fwd)}
""",
        """
from collections import Counter
from contextlib import ExitStack
from functools import partial
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    total = {"fwd": 0, "bwd": 0}
    for _ in range(n):
        counter = Counter()
        with ExitStack() as stack:
            stack.enter_context(model[0].register_forward_hook(lambda *a: counter.update(["fwd"])))
            stack.enter_context(model[0].register_full_backward_hook(lambda *a: counter.update(["bwd"]), prepend=True))
            forward = partial(checkpoint, model, use_reentrant=False) if ckpt else model
            forward(x).sum().backward()
        for kind in total:
            total[kind] += counter[kind]
    return total
""",
        # A hook on the tensor that leaves the module is called as often as a full backward hook.
        """
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    fwd, bwd = [], []
    def watch(module, args, output):
        fwd.append(module)
        if output.requires_grad:
            output.register_hook(lambda grad: bwd.append(module))
    handle = model[0].register_forward_hook(watch)
    try:
        for _ in range(n):
            (checkpoint(lambda t: model(t), x, use_reentrant=False) if ckpt else model(x)).sum().backward()
    finally:
        handle.remove()
    return dict(fwd=len(fwd), bwd=len(bwd))
""",
    ],
}

REGISTER = """
def register_all(model, events):
    handles = []
    for name, module in model.named_modules():
        name = name or "net"
        handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
        handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
        handles.append(module.register_full_backward_pre_hook(lambda *a, n=name: events.append(f"{n}.bpre")))
        handles.append(module.register_full_backward_hook(lambda *a, n=name: events.append(f"{n}.bwd")))
    return handles

def remove_all(handles):
    for handle in handles:
        handle.remove()
"""

COUNTING = """
from torch.utils.checkpoint import checkpoint

def passes(model, x, n, ckpt):
    for _ in range(n):
        (checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum().backward()

def counting(model, calls):
    def on_forward(*args):
        calls["fwd"] += 1
    def on_backward(*args):
        calls["bwd"] += 1
    return model[0].register_forward_hook(on_forward), model[0].register_full_backward_hook(on_backward)
"""

WRONG = {
    "08-predict-module-order": {
        "local-before-global": """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "PAG"]
""",
        "registration-order": """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "APG"]
""",
        "backward-reversed": """
def predict_module_order():
    forward = [f"{hook}.{kind}" for kind in ("pre", "fwd") for hook in "GPA"]
    return forward + [f"{hook}.{kind}" for kind in ("bpre", "bwd") for hook in "APG"]
""",
        "hook-left-behind": """
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        anywhere(lambda *a, kind=kind: events.append(f"G.{kind}"))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    return list(events)
""",
    },
    "08-predict-autograd-order": {
        "documented-order": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "node_pre", "retain_grad", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(kind)
""",
        "registration-order": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["node_post", "node_pre", "retain_grad", "tensor"]
    if kind == "leaf":
        return ["node_post", "node_pre", "post_acc", "tensor"]
    raise ValueError(kind)
""",
        "post-acc-last": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "node_post", "post_acc"]
    raise ValueError(kind)
""",
        "unknown-kind-accepted": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    return ["tensor", "node_pre", "post_acc", "node_post"]
""",
    },
    "08-trace-events": {
        "changed-the-input": REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x.clone().requires_grad_()).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        "mirrored-forward": """
def trace_events(model, x):
    events, handles = [], []
    try:
        for name, module in model.named_modules():
            name = name or "net"
            handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
            handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    other = {"fwd": "bpre", "fpre": "bwd"}
    back = [event.rsplit(".", 1) for event in reversed(events)]
    return events + [f"{name}.{other[what]}" for name, what in back]
""",
        "late-binding": """
def trace_events(model, x):
    events, handles = [], []
    try:
        for name, module in model.named_modules():
            label = name or "net"
            handles.append(module.register_forward_pre_hook(lambda *a: events.append(f"{label}.fpre")))
            handles.append(module.register_forward_hook(lambda *a: events.append(f"{label}.fwd")))
            handles.append(module.register_full_backward_pre_hook(lambda *a: events.append(f"{label}.bpre")))
            handles.append(module.register_full_backward_hook(lambda *a: events.append(f"{label}.bwd")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        "registered-after-forward": """
def trace_events(model, x):
    events, handles = [], []
    named = [(name or "net", module) for name, module in model.named_modules()]
    try:
        for name, module in named:
            handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
            handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
        out = model(x)
        for name, module in named:
            handles.append(module.register_full_backward_pre_hook(lambda *a, n=name: events.append(f"{n}.bpre")))
            handles.append(module.register_full_backward_hook(lambda *a, n=name: events.append(f"{n}.bwd")))
        out.sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        "leaves-only": """
def trace_events(model, x):
    events, handles = [], []
    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue
            handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
            handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
            handles.append(module.register_full_backward_pre_hook(lambda *a, n=name: events.append(f"{n}.bpre")))
            handles.append(module.register_full_backward_hook(lambda *a, n=name: events.append(f"{n}.bwd")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        "hooked-twice": REGISTER.replace("named_modules()", "named_modules(remove_duplicate=False)")
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        "hook-left-behind": REGISTER
        + """
def trace_events(model, x):
    events = []
    register_all(model, events)
    model(x).sum().backward()
    return list(events)
""",
        "hook-left-after-exception": REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    model(x).sum().backward()
    remove_all(handles)
    return events
""",
    },
    "08-count-hook-calls": {
        "ignored-checkpoint": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, False)
    return calls
""",
        "assumed-one-call": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    return {"fwd": n, "bwd": n}
""",
        "doubled-both": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    return {"fwd": 2 * n, "bwd": 2 * n} if ckpt else {"fwd": n, "bwd": n}
""",
        "registered-every-pass": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls, handles = {"fwd": 0, "bwd": 0}, []
    try:
        for _ in range(n):
            handles += counting(model, calls)
            passes(model, x, 1, ckpt)
    finally:
        for handle in handles:
            handle.remove()
    return calls
""",
        "changed-the-input": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x.requires_grad_(), n, ckpt)
    return calls
""",
        "hook-left-behind": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    counting(model, calls)
    passes(model, x, n, ckpt)
    return dict(calls)
""",
        "hook-left-after-exception": COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    handles = counting(model, calls)
    passes(model, x, n, ckpt)
    for handle in handles:
        handle.remove()
    return calls
""",
    },
}

ALSO_WRONG = {
    "08-predict-module-order": [
        "def predict_module_order():\n    return []",
        # All hooks of one name together.
        'def predict_module_order():\n    return [f"{hook}.{kind}" for hook in "GPA" for kind in '
        '("pre", "fwd", "bpre", "bwd")]',
        # Backward in reverse, kinds and all.
        'def predict_module_order():\n    half = [f"{h}.{k}" for k in ("pre", "fwd") for h in "GPA"]\n'
        '    return half + [f"{h}.{k}" for k in ("bwd", "bpre") for h in "GPA"]',
        # Cleans up by emptying the global lists, and takes the caller's hook with it.
        """
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_forward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
        # Empties one other list.
        """
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_backward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
        # The list goes on growing from call to call.
        """
labels = []

def predict_module_order():
    labels.extend(f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA")
    return labels
""",
    ],
    "08-predict-autograd-order": [
        "def predict_autograd_order(kind):\n    return []",
        # KeyError is no ValueError.
        """
def predict_autograd_order(kind):
    return {
        "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
        "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    }[kind]
""",
        # retain_grad first.
        """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    return ["retain_grad", "tensor", "node_pre", "node_post"]
""",
        # One order for both.
        """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "retain_grad", "node_pre", "node_post"]
""",
        # The labels of the other kind.
        """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "node_pre", "retain_grad" if kind == "non-leaf" else "post_acc", "node_post"]
""",
        # Takes a kind that only looks like one of the two.
        *(
            f"""
ORDERS = {{
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
}}

def predict_autograd_order(kind):
    kind = {normal}
    if kind not in ORDERS:
        raise ValueError(kind)
    return ORDERS[kind]
"""
            for normal in (
                "kind.lower()",
                "kind.strip()",
                "kind.replace('nonleaf', 'non-leaf')",
                "'leaf' if kind.endswith('leaf') and not kind.startswith('non') else kind",
            )
        ),
    ],
    "08-trace-events": [
        # Leaves and the root, no other containers; and every hook stays, on a list that goes on growing.
        """
def trace_events(model, x):
    log = []
    for name, module in model.named_modules():
        if name and list(module.children()):
            continue
        name = name or "net"
        module.register_forward_pre_hook(lambda *args, n=name: log.append(n + ".fpre"))
        module.register_forward_hook(lambda *args, n=name: log.append(n + ".fwd"))
        module.register_full_backward_pre_hook(lambda *args, n=name: log.append(n + ".bpre"))
        module.register_full_backward_hook(lambda *args, n=name: log.append(n + ".bwd"))
    model(x).sum().backward()
    return log
""",
        "def trace_events(model, x):\n    return []",
        # Top level only.
        REGISTER.replace("named_modules()", "named_children()")
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # The model has no name.
        REGISTER.replace('name = name or "net"', "pass")
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # Two passes, of which one is traced.
        REGISTER
        + """
def trace_events(model, x):
    model(x)
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # Another loss.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).mean().backward()
    finally:
        remove_all(handles)
    return events
""",
        # autograd.grad writes no .grad.
        REGISTER
        + """
import torch
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        wanted = [p for p in model.parameters() if p.requires_grad] + ([x] if x.requires_grad else [])
        torch.autograd.grad(model(x).sum(), wanted)
    finally:
        remove_all(handles)
    return events
""",
        # A clean start that nobody asked for.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    model.zero_grad()
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # The modes of the modules are lost.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model.train(), events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # Removes the caller's hooks with its own.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        for module in model.modules():
            for hooks in (module._forward_hooks, module._forward_pre_hooks,
                          module._backward_hooks, module._backward_pre_hooks):
                hooks.clear()
    return events
""",
        # The exception is swallowed.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    except Exception:
        pass
    finally:
        remove_all(handles)
    return events
""",
        # A shared module under its last name.
        """
def trace_events(model, x):
    events, handles = [], []
    names = {module: name or "net" for name, module in model.named_modules(remove_duplicate=False)}
    try:
        for module, name in names.items():
            handles.append(module.register_forward_pre_hook(lambda *a, n=name: events.append(f"{n}.fpre")))
            handles.append(module.register_forward_hook(lambda *a, n=name: events.append(f"{n}.fwd")))
            handles.append(module.register_full_backward_pre_hook(lambda *a, n=name: events.append(f"{n}.bpre")))
            handles.append(module.register_full_backward_hook(lambda *a, n=name: events.append(f"{n}.bwd")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        # x itself is made to require grad.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x.requires_grad_()).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # x is cut off.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x.detach()).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # Tensor hooks on the outputs instead of module backward hooks.
        """
def trace_events(model, x):
    events, handles = [], []
    def fpre(name):
        def hook(module, args):
            events.append(f"{name}.fpre")
            if args[0].requires_grad:
                args[0].register_hook(lambda grad: events.append(f"{name}.bwd"))
        return hook
    def fwd(name):
        def hook(module, args, output):
            events.append(f"{name}.fwd")
            if output.requires_grad:
                output.register_hook(lambda grad: events.append(f"{name}.bpre"))
        return hook
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(fpre(name or "net")))
            handles.append(module.register_forward_hook(fwd(name or "net")))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
        # The .grad of x is cleared.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    x.grad = None
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # Removes the caller's backward hooks only.
        REGISTER
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
        for module in model.modules():
            module._backward_hooks.clear()
    return events
""",
        # A model that was seen before is not watched again.
        REGISTER
        + """
known = set()

def trace_events(model, x):
    events = []
    handles = [] if model in known else register_all(model, events)
    known.add(model)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
        # The lambdas of the last of four kinds read the loop variable late.
        REGISTER.replace('lambda *a, n=name: events.append(f"{n}.bwd")', 'lambda *a: events.append(f"{name}.bwd")')
        + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
""",
    ],
    "08-count-hook-calls": [
        "def count_hook_calls(model, x, n, ckpt):\n    return {'fwd': 0, 'bwd': 0}",
        # The formula, without running anything.
        "def count_hook_calls(model, x, n, ckpt):\n    return {'fwd': 2 * n if ckpt else n, 'bwd': n}",
        # A better formula, with the runs: it does not know that the recomputation stops early.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    uses = sum(module is model[0] for module in model)
    learns = x.requires_grad or any(p.requires_grad for p in model[0].parameters())
    return {"fwd": n * uses * (2 if ckpt else 1), "bwd": n * uses if learns else 0}
""",
        # One pass only.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, 1, ckpt)
    return calls
""",
        # One pass, multiplied.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, 1, ckpt)
    return {kind: n * count for kind, count in calls.items()}
""",
        # A pre-hook of the backward pass, and one of the forward pass.
        """
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    def count(kind):
        def hook(*args):
            calls[kind] += 1
        return hook
    with model[0].register_forward_pre_hook(count("fwd")), model[0].register_full_backward_pre_hook(count("bwd")):
        for _ in range(n):
            (checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum().backward()
    return calls
""",
        # All modules, not the first.
        """
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    calls, handles = {"fwd": 0, "bwd": 0}, []
    def fwd(*args):
        calls["fwd"] += 1
    def bwd(*args):
        calls["bwd"] += 1
    try:
        for module in model:
            handles += [module.register_forward_hook(fwd), module.register_full_backward_hook(bwd)]
        for _ in range(n):
            (checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return calls
""",
        # The reentrant checkpoint.
        COUNTING.replace("use_reentrant=False", "use_reentrant=True")
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    return calls
""",
        # Counts on a copy, which gets the gradients.
        COUNTING
        + """
import copy
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    model = copy.deepcopy(model)
    counting(model, calls)
    passes(model, x, n, ckpt)
    return calls
""",
        # Clears the gradients between the passes.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        for _ in range(n):
            model.zero_grad()
            passes(model, x, 1, ckpt)
    return calls
""",
        # All forward passes, and then one backward pass for all of them.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        sum((checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum() for _ in range(n)).backward()
    return calls
""",
        # The .grad of x is cleared.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    x.grad = None
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    return calls
""",
        # x is cut off.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x.detach(), n, ckpt)
    return calls
""",
        # Removes the caller's backward hooks with its own.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    model[0]._backward_hooks.clear()
    return calls
""",
        # A frozen module is taken for one that no gradient passes.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    learns = any(parameter.requires_grad for parameter in model[0].parameters())
    return {"fwd": calls["fwd"], "bwd": calls["bwd"] if learns else 0}
""",
        # The hooks stand on the module once for each place that it has.
        COUNTING
        + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    handles = [handle for part in model if part is model[0] for handle in counting(model, calls)]
    try:
        passes(model, x, n, ckpt)
    finally:
        for handle in handles:
            handle.remove()
    return calls
""",
    ],
}
