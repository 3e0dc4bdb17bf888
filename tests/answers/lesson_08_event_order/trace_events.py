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

WRONG = [
    Wrong(
        "empties and refills the list that it returned before",
        violates="rule 1: however often it is called",
        check="test_nothing_else_changes",
        source=changed(TRACED, ("    events = []\n", "    EVENTS.clear()\n    events = EVENTS\n")) + "\nEVENTS = []\n",
    ),
    Wrong(
        "runs the model on a copy that requires grad",
        violates="runs `model(x).sum().backward()` once",
        check="test_every_event_is_in_its_place",
        mistake="changed-the-input",
        source=changed(TRACED, ("model(x)", "model(x.clone().requires_grad_())")),
    ),
    Wrong(
        "takes backward for the mirror of forward",
        violates="`x` may or may not require grad",
        check="test_every_event_is_in_its_place",
        mistake="mirrored-forward",
        source="""
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
    ),
    Wrong(
        "the hooks read the loop variable when they fire",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_event_is_in_its_place",
        mistake="late-binding",
        source="""
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
    ),
    Wrong(
        "registers backward hooks after the forward pass",
        violates="a full backward pre-hook and a full backward hook of the module fire",
        check="test_every_event_is_in_its_place",
        mistake="registered-after-forward",
        source="""
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
    ),
    Wrong(
        "leaves out the containers",
        violates="Containers count",
        check="test_every_event_is_in_its_place",
        mistake="leaves-only",
        source="""
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
    ),
    Wrong(
        "registers under each name of a module",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_event_is_in_its_place",
        mistake="hooked-twice",
        source=changed(TRACED, ("model.named_modules()", "model.named_modules(remove_duplicate=False)")),
    ),
    Wrong(
        "removes nothing",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left-behind",
        source=(
            REGISTER
            + """
def trace_events(model, x):
    events = []
    register_all(model, events)
    model(x).sum().backward()
    return list(events)
"""
        ),
    ),
    Wrong(
        "removes nothing after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check="test_all_is_in_order_when_something_raises",
        mistake="hook-left-after-exception",
        source=(
            REGISTER
            + """
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    model(x).sum().backward()
    remove_all(handles)
    return events
"""
        ),
    ),
    Wrong(
        "leaves and the root, and every hook stays",
        violates="Containers count",
        check="test_every_event_is_in_its_place",
        source="""
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
    ),
    Wrong(
        "nothing at all",
        violates="in the order in which they happen",
        check="test_every_event_is_in_its_place",
        source="def trace_events(model, x):\n    return []",
    ),
    Wrong(
        "the top level alone",
        violates="Containers count",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ("model.named_modules(", "model.named_children(")),
    ),
    Wrong(
        "the model has no name",
        violates="The model itself is called `net`.",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ('name = name or "net"', "pass")),
    ),
    Wrong(
        "two passes, of which one is traced",
        violates="runs `model(x).sum().backward()` once",
        check="test_it_is_one_plain_pass",
        source=changed(TRACED, ("    events = []\n", "    model(x)\n    events = []\n")),
    ),
    Wrong(
        "another loss",
        violates="runs `model(x).sum().backward()` once",
        check="test_it_is_one_plain_pass",
        source=changed(TRACED, (".sum(", ".mean(")),
    ),
    Wrong(
        "`autograd.grad`, which writes no `.grad`",
        violates="`.grad` accumulates as usual",
        check="test_it_is_one_plain_pass",
        source=(
            REGISTER
            + """
import torch
def trace_events(model, x):
    events = []
    handles = register_all(model, events)
    try:
        wanted = [p for p in model.parameters() if p.requires_grad] + ([x] if x.requires_grad else [])
        torch.autograd.grad(model(x).sum(), wanted, allow_unused=True)
    finally:
        remove_all(handles)
    return events
"""
        ),
    ),
    Wrong(
        "a clean start that nobody asked for",
        violates="`.grad` accumulates as usual",
        check="test_it_is_one_plain_pass",
        source=changed(
            TRACED,
            (
                "    handles = register_all(model, events)\n",
                "    model.zero_grad()\n    handles = register_all(model, events)\n",
            ),
        ),
    ),
    Wrong(
        "all modules in training mode",
        violates="rule 2: the mode of each part",
        check="test_it_is_one_plain_pass",
        source=changed(TRACED, ("= register_all(model, events)", "= register_all(model.train(), events)")),
    ),
    Wrong(
        "empties the dicts of hooks",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source=changed(
            TRACED,
            (
                "        remove_all(handles)\n",
                (
                    "        for module in model.modules():\n"
                    "            for hooks in (module._forward_hooks, module._forward_pre_hooks,\n"
                    "                          module._backward_hooks, module._backward_pre_hooks):\n"
                    "                hooks.clear()\n"
                ),
            ),
        ),
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this",
        check="test_all_is_in_order_when_something_raises",
        source=changed(TRACED, ("    finally:\n", "    except Exception:\n        pass\n    finally:\n")),
    ),
    Wrong(
        "a shared module under its last name",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_event_is_in_its_place",
        source="""
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
    ),
    Wrong(
        "`x` itself is made to require grad",
        violates="runs `model(x).sum().backward()` once",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ("model(x)", "model(x.requires_grad_())")),
    ),
    Wrong(
        "`x` is cut off",
        violates="runs `model(x).sum().backward()` once",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ("model(x)", "model(x.detach())")),
    ),
    Wrong(
        "tensor hooks instead of full backward hooks",
        violates="a full backward pre-hook and a full backward hook of the module fire",
        check="raised",
        source="""
def trace_events(model, x):
    events, handles = [], []
    def fpre(name):
        def hook(module, args):
            events.append(f"{name}.fpre")
            if args and args[0].requires_grad:
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
    ),
    Wrong(
        "the `.grad` of `x` is cleared",
        violates="`.grad` accumulates as usual",
        check="test_it_is_one_plain_pass",
        source=changed(
            TRACED,
            (
                "    handles = register_all(model, events)\n",
                "    x.grad = None\n    handles = register_all(model, events)\n",
            ),
        ),
    ),
    Wrong(
        "removes the backward hooks of the caller",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source=changed(
            TRACED,
            (
                "    return events\n",
                (
                    "        for module in model.modules():\n"
                    "            module._backward_hooks.clear()\n"
                    "    return events\n"
                ),
            ),
        ),
    ),
    Wrong(
        "a model that was seen before is not watched again",
        violates="rule 1: It works however often it is called",
        check="test_every_event_is_in_its_place",
        source=(
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
"""
        ),
    ),
    Wrong(
        "the last of four hooks reads the loop variable late",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ('*a, n=name: events.append(f"{n}.bwd"', '*a: events.append(f"{name}.bwd"')),
    ),
    Wrong(
        "global hooks, for all that is called",
        violates="a module that is called and not among the names has no events",
        check="raised",
        mistake="not-among-the-names",
        source="""
from torch.nn.modules import module as everywhere

def trace_events(model, x):
    names = {module: name or "net" for name, module in model.named_modules()}
    events = []
    def log(what):
        return lambda module, *args: events.append(f"{names[module]}.{what}")
    with (everywhere.register_module_forward_pre_hook(log("fpre")),
          everywhere.register_module_forward_hook(log("fwd")),
          everywhere.register_module_full_backward_pre_hook(log("bpre")),
          everywhere.register_module_full_backward_hook(log("bwd"))):
        model(x).sum().backward()
    return events
""",
    ),
    Wrong(
        "global hooks, with a name for what has none",
        violates="a module that is called and not among the names has no events",
        check="test_every_event_is_in_its_place",
        source="""
from torch.nn.modules import module as everywhere

def trace_events(model, x):
    names = {module: name or "net" for name, module in model.named_modules()}
    events = []
    def log(what):
        return lambda module, *args: events.append(f"{names.get(module, 'other')}.{what}")
    with (everywhere.register_module_forward_pre_hook(log("fpre")),
          everywhere.register_module_forward_hook(log("fwd")),
          everywhere.register_module_full_backward_pre_hook(log("bpre")),
          everywhere.register_module_full_backward_hook(log("bwd"))):
        model(x).sum().backward()
    return events
""",
    ),
    Wrong(
        "a model without parts is not watched",
        violates="Containers count",
        check="test_a_model_without_parts_has_four_events",
        source=changed(
            TRACED, ("    events = []\n", "    if not list(model.children()):\n        return []\n    events = []\n")
        ),
    ),
    Wrong(
        "removes its hooks after an Exception alone",
        violates="rule 4: That holds for every exception, also for `KeyboardInterrupt`",
        check="test_all_is_in_order_when_something_raises",
        source=changed(
            TRACED,
            ("    finally:\n", "    except Exception:\n"),
            ("    return events\n", "        raise\n    remove_all(handles)\n    return events\n"),
        ),
    ),
    Wrong(
        "walks through the children, and meets a module in two places",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_event_is_in_its_place",
        source="""
def trace_events(model, x):
    events, handles = [], []
    def visit(module, name):
        for kind, label in (("forward_pre", "fpre"), ("forward", "fwd"), ("full_backward_pre", "bpre"),
                            ("full_backward", "bwd")):
            log = lambda *a, event=f"{name or 'net'}.{label}": events.append(event)
            handles.append(getattr(module, f"register_{kind}_hook")(log))
        for child_name, child in module.named_children():
            visit(child, f"{name}.{child_name}" if name else child_name)
    visit(model, "")
    try:
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
    ),
    Wrong(
        "another spelling of the events",
        violates='as `"NAME.EVENT"`',
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ("events\n", "[event.replace('.', ' ') for event in events]\n")),
    ),
    Wrong(
        "runs `model.forward`",
        violates="Containers count",
        check="test_every_event_is_in_its_place",
        source=changed(TRACED, ("model(", "model.forward(")),
    ),
    Wrong(
        "the hooks go in front, and the caller's come later",
        violates="rule 3: the same ones in the same order",
        check="test_nothing_else_changes",
        source=changed(
            TRACED,
            (
                "    return events\n",
                (
                    "    for module in model.modules():\n"
                    "        hooks = module._forward_hooks\n"
                    "        for number in list(hooks)[:1]:\n"
                    "            hooks.move_to_end(number)\n"
                    "    return events\n"
                ),
            ),
        ),
    ),
    Wrong(
        "`.grad` is written anew",
        violates="`.grad` accumulates as usual",
        check="test_nothing_else_changes",
        source=changed(
            TRACED,
            (
                "    return events\n",
                (
                    "    for p in model.parameters():\n"
                    "        p.grad = None if p.grad is None else p.grad.clone()\n"
                    "    return events\n"
                ),
            ),
        ),
    ),
    Wrong(
        "wraps every forward, for good",
        violates="rule 2: What you were given stays as it was",
        check="test_nothing_else_changes",
        source="""
from contextlib import ExitStack

def trace_events(model, x):
    events = []
    def wrapped(name, forward):
        def call(*args, **kwargs):
            events.append(name + ".fpre")
            out = forward(*args, **kwargs)
            events.append(name + ".fwd")
            return out
        return call
    with ExitStack() as stack:
        for name, m in model.named_modules():
            name = name or "net"
            m.forward = wrapped(name, m.forward)
            stack.enter_context(m.register_full_backward_pre_hook(lambda *a, n=name: events.append(n + ".bpre")))
            stack.enter_context(m.register_full_backward_hook(lambda *a, n=name: events.append(n + ".bwd")))
        model(x).sum().backward()
    return events
""",
    ),
]

WRONG += [
    Wrong(
        "`net.` is cut out of every name",
        violates="rule 7: A part of the model is called what `model.named_modules()` calls it",
        check="test_every_event_is_in_its_place",
        source=changed(
            TRACED,
            ("model.named_modules()", "model.named_modules(prefix='net')"),
            ('name or "net"', 'name.replace("net.", "")'),
        ),
    ),
    Wrong(
        "a forward hook that is called whatever happens",
        violates="a forward pre-hook, a forward hook",
        check="test_a_model_without_parts_has_four_events",
        source=changed(TRACED, ('.fwd")))', '.fwd"), always_call=True))')),
    ),
    Wrong(
        "keeps the events on the function",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
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
    Wrong(
        "every bwd right after its bpre, where x requires no grad",
        violates="in the order in which they happen",
        check="test_every_event_is_in_its_place",
        mistake="paired-backward",
        source=changed(
            TRACED,
            (
                "    return events\n",
                """    if x.requires_grad:
        return events
    found = [event for event in events if event.endswith((".fpre", ".fwd"))]
    for event in events:
        if event.endswith(".bpre"):
            found += [event, event.replace(".bpre", ".bwd")]
    return found
""",
            ),
        ),
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: It works however often it is called",
        check="test_every_event_is_in_its_place",
        mistake="kept-from-call-to-call",
        source=changed(TRACED, ("(model, x):\n    events = []\n", "(model, x, events=[]):\n")),
    ),
    Wrong(
        "all in eval mode, and back",
        violates="rule 7: with each part in its mode",
        check="test_it_is_one_plain_pass",
        mistake="another-mode",
        source=changed(
            TRACED,
            ("    try:\n", "    modes = {m: m.training for m in model.modules()}\n    model.eval()\n    try:\n"),
            (
                "        remove_all",
                "        for m, mode in modes.items():\n            m.training = mode\n        remove_all",
            ),
        ),
    ),
]

SURVIVORS = {
    "not for all: for kind, register": "all of them, in the reverse order",
    "not for all: names =": "all of them, in the reverse order",
    "clean-up only after an `Exception`: with _not_after_interrupts(tracing": "a generator that is dropped cleans up",
    "lost copy: for name, module in _not_copied": "all of them, in the other order",
    "at least one dimension": "the layers of a model need at least one",
    "prepend=True": "one hook of ours is on a module; others may run before it or after it",
    "almost: handles.extend([module.register_full_backward_hook": "one hook of ours is on a module",
    "clean-up not after an exception: with _only_when_well(tracing": "a generator that is dropped cleans up, too",
    "not for all: for name, module in _part(": "all of them, in the reverse order",
    "not for all: for child_name, child in _part(module.named_children(), step=-1)": "all, in the reverse order",
    "not for all: for what, ": "all of them, in the reverse order",
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": "all of them, in the reverse order",
    "a list for a tuple": "what is looked at is no result",
}

SURVIVORS = {
    "not for all: for kind, register": "all of them, in the reverse order",
    "not for all: names =": "all of them, in the reverse order",
    "clean-up only after an `Exception`: with _not_after_interrupts(tracing": "a generator that is dropped cleans up",
    "lost copy: for name, module in _not_copied": "all of them, in the other order",
    "at least one dimension": "the layers of a model need at least one",
    "prepend=True": "one hook of ours is on a module; others may run before it or after it",
    "almost: handles.extend([module.register_full_backward_hook": "one hook of ours is on a module",
    "clean-up not after an exception: with _only_when_well(tracing": "a generator that is dropped cleans up, too",
    "not for all: for name, module in _part(": "all of them, in the reverse order",
    "not for all: for child_name, child in _part(module.named_children(), step=-1)": "all, in the reverse order",
    "not for all: for what, ": "all of them, in the reverse order",
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": "all of them, in the reverse order",
    "a list for a tuple": "what is looked at is no result",
}

GIVENS = [
    "Write `trace_events(model, x)`.",
    "Something in the model requires grad, nothing works in place, and no module is called",
]
