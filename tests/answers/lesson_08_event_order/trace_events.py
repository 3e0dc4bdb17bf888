"""Answers to 08-trace-events."""

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

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
