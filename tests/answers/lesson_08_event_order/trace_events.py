"""Answers to 08-trace-events."""

from graders.author.answers import Wrong, changed

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
TRACED = (
    REGISTER
    + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        model(x).sum().backward()
    finally:
        remove_all(handles)
    return events
"""
)

RIGHT = [
    TRACED,
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

WRONG = [
    Wrong(
        "a model without parts is not watched",
        violates="Containers count",
        check="test_a_model_without_parts_has_four_events",
        source=changed(
            TRACED, ("    events = []\n", "    if not list(model.children()):\n        return []\n    events = []\n")
        ),
    ),
]

WRONG += [
    Wrong(
        "remembers the modules of a model",
        violates="each module in `model.named_modules()`",
        check="test_every_event_is_in_its_place",
        source="from functools import cache\n"
        + changed(
            TRACED,
            (
                "def register_all",
                "@cache\ndef modules_of(model):\n    return [*model.named_modules()]\n\ndef register_all",
            ),
            ("in model.named_modules()", "in modules_of(model)"),
        ),
    ),
    Wrong(
        "keeps the events on the function",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source=changed(
            TRACED,
            ("    events = []\n", "    trace_events.events = []\n"),
            ("register_all(model, events)\n", "register_all(model, trace_events)\n"),
            ("def register_all(model, events):\n", "def register_all(model, owner):\n"),
            ('events.append(f"{n}.fpre")', 'owner.events.append(f"{n}.fpre")'),
            ('events.append(f"{n}.fwd")', 'owner.events.append(f"{n}.fwd")'),
            ('events.append(f"{n}.bpre")', 'owner.events.append(f"{n}.bpre")'),
            ('events.append(f"{n}.bwd")', 'owner.events.append(f"{n}.bwd")'),
            ("    return events\n", "    return trace_events.events\n"),
        ),
    ),
]

SURVIVORS = {
    "not for all: for kind, register": "all of them, in the reverse order",
    "lost copy: for name, module in _not_copied": "all of them, in the other order",
    "prepend=True": "one hook of ours is on a module; others may run before it or after it",
    "not for all: for name, module in _part(": "all of them, in the reverse order",
    "not for all: for what, ": "all of them, in the reverse order",
}
