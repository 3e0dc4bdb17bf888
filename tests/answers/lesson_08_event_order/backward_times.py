"""Answers to 08-backward-times."""

from graders.author.answers import Wrong, changed

TIMED = """
def timed(model, x, clock, first=True, last=True):
    names = {module: name or "net" for name, module in model.named_modules()}
    times, started, handles = dict.fromkeys(names.values(), 0.0), {}, []
    def start(module, grad_output):
        started[module] = clock()
    def stop(module, grad_input, grad_output):
        times[names[module]] += clock() - started[module]
    try:
        for module in names:
            handles.append(module.register_full_backward_pre_hook(start, prepend=not last))
            handles.append(module.register_full_backward_hook(stop, prepend=first))
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return times

def own(x):
    return x if x.requires_grad else x.detach().requires_grad_()
"""

RIGHT = [
    TIMED
    + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    """
from contextlib import ExitStack
import torch

class Span:
    def __init__(self, clock):
        self.clock, self.total, self.since = clock, 0, None
    def begin(self, *_):
        self.since = self.clock()
    def end(self, *_):
        self.total += self.clock() - self.since

def backward_times(model, x, clock):
    spans = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            spans[name or "net"] = span = Span(clock)
            stack.enter_context(module.register_full_backward_pre_hook(span.begin))
            stack.enter_context(module.register_full_backward_hook(span.end, prepend=True))
        given = x
        if not x.requires_grad:
            given = x.clone().requires_grad_(True)
        torch.autograd.backward(model(given).sum())
    return {name: span.total for name, span in spans.items()}
""",
    """
def backward_times(model, x, clock):
    events, handles = [], []
    def note(name, sign):
        def hook(*args):
            events.append((name, sign * clock()))
        return hook
    def with_grad(module, args):
        return args[0] if args[0].requires_grad else args[0].detach().requires_grad_()
    def run():
        model(with_grad(None, (x,))).sum().backward()
    try:
        for name, module in model.named_modules():
            handles += [module.register_full_backward_pre_hook(note(name or "net", -1)),
                        module.register_full_backward_hook(note(name or "net", 1), prepend=True)]
        run()
    finally:
        [handle.remove() for handle in handles]
    return {name or "net": float(sum(time for other, time in events if other == (name or "net")))
            for name, _ in model.named_modules()}
""",
]

WRONG = [
    Wrong(
        "in whole microseconds",
        violates="how long the backward pass of this module took",
        check="test_a_model_without_parts_has_a_time",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return {name: round(time, 6) for name, time in timed(model, own(x), clock).items()}
""",
    ),
    Wrong(
        "the input is given as it is",
        violates="its input is complete",
        check="test_each_time_is_right",
        mistake="fired-at-once",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model, x, clock)
""",
    ),
    Wrong(
        "its hook is the last of the full backward hooks",
        violates="before their full backward hooks",
        check="test_each_time_is_right",
        mistake="counted-the-hooks-of-others",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock, first=False)
""",
    ),
    Wrong(
        "its pre-hook is the first of the full backward pre-hooks",
        violates="after the full backward pre-hooks of others",
        check="test_each_time_is_right",
        mistake="counted-the-hooks-of-others",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock, last=False)
""",
    ),
    Wrong(
        "keeps the last call of a module",
        violates="Several calls add up",
        check="test_each_time_is_right",
        mistake="only-last-call",
        source=TIMED.replace("+= clock()", "= clock()")
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "leaves out what is never called",
        violates="a module that is never called gets 0",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return {name: time for name, time in timed(model, own(x), clock).items() if time}
""",
    ),
    Wrong(
        "the model has no name",
        violates="the model itself is `net`",
        check="test_each_time_is_right",
        source=TIMED.replace('name or "net"', "name")
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "a copy also of an `x` that requires grad",
        violates="`.grad` accumulates as usual.",
        check="test_it_is_one_plain_pass",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model, x.detach().requires_grad_(), clock)
""",
    ),
    Wrong(
        "a pass before, to warm up",
        violates="It runs one forward and one backward pass of `model(x).sum()`",
        check="test_it_is_one_plain_pass",
        source=TIMED
        + """
def backward_times(model, x, clock):
    model(x).sum().backward()
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "`x` itself is made to require grad",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="test_nothing_else_changes",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model, x.requires_grad_(), clock)
""",
    ),
    Wrong(
        "`x` requires grad for a while, and keeps a `.grad`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_nothing_else_changes",
        source=TIMED
        + """
def backward_times(model, x, clock):
    before = x.requires_grad
    try:
        return timed(model, x.requires_grad_(), clock)
    finally:
        if x.is_leaf:
            x.requires_grad_(before)
""",
    ),
    Wrong(
        "leaves alone",
        violates="for each name in `model.named_modules()`",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    parts = {name or "net" for name, module in model.named_modules() if not list(module.children())}
    return {name: time for name, time in timed(model, own(x), clock).items() if name in parts}
""",
    ),
    Wrong(
        "without what is inside",
        violates="with all that is inside it",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    times = timed(model, own(x), clock)
    inside = {name: sum(times[other] for other in times if other.rpartition(".")[0] == name) for name in times}
    return {name: times[name] - inside[name] for name in times}
""",
    ),
    Wrong(
        "in whole milliseconds",
        violates="how long the backward pass of this module took",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return {name: round(time, 3) for name, time in timed(model, own(x), clock).items()}
""",
    ),
    Wrong(
        "the time of the forward pass",
        violates="The time of one call begins when the gradient has arrived at the module's output",
        check="test_each_time_is_right",
        source=TIMED.replace("register_full_backward_pre_hook", "register_forward_pre_hook").replace(
            "register_full_backward_hook", "register_forward_hook"
        )
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "a clock of its own",
        violates="how long the backward pass of this module took by `clock()`",
        check="test_each_time_is_right",
        source=TIMED
        + """
import time
def backward_times(model, x, clock):
    return timed(model, own(x), time.perf_counter)
""",
    ),
    Wrong(
        "removes nothing after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check="test_all_is_in_order_when_something_raises",
        source=TIMED.replace("    finally:\n", "    except ZeroDivisionError:\n        pass\n    else:\n")
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this",
        check="test_all_is_in_order_when_something_raises",
        source=TIMED.replace("    finally:\n", "    except BaseException:\n        pass\n    finally:\n")
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source=TIMED
        + """
def backward_times(model, x, clock):
    times = timed(model, own(x), clock)
    for module in model.modules():
        module._backward_hooks.clear()
    return times
""",
    ),
    Wrong(
        "parameters that are frozen are trained",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_else_changes",
        source=TIMED
        + """
def backward_times(model, x, clock):
    return timed(model.requires_grad_(), own(x), clock)
""",
    ),
    Wrong(
        "a block has the time of the layers inside it",
        violates="how long the backward pass of this module took",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    times = timed(model, own(x), clock)
    layers = {name: time for name, time in times.items() if not any(other.startswith(name + ".") for other in times)}
    for name in times.keys() - layers.keys():
        times[name] = sum(time for layer, time in layers.items() if layer.startswith(name + ".") and layer != "net")
    return times
""",
    ),
    Wrong(
        "without the time of what is inside",
        violates="how long the backward pass of this module took",
        check="test_each_time_is_right",
        mistake="only-its-own",
        source=TIMED
        + """
def backward_times(model, x, clock):
    times = timed(model, own(x), clock)
    alone = dict(times)
    for name in times.keys() - {"net"}:
        alone[name.rpartition(".")[0] or "net"] -= times[name]
    return alone
""",
    ),
]

WRONG += [
    Wrong(
        "a module with two names is in the dict twice",
        violates="rule 7: if it has several names, the first one counts",
        check="test_each_time_is_right",
        source=TIMED
        + """
def backward_times(model, x, clock):
    times = timed(model, own(x), clock)
    names = {module: name or "net" for name, module in model.named_modules()}
    return {name or "net": times[names[module]] for name, module in model.named_modules(remove_duplicate=False)}
""",
    ),
    Wrong(
        "`net.` is cut out of every name",
        violates="for each name in `model.named_modules()`",
        check="test_each_time_is_right",
        source=TIMED.replace("model.named_modules()", "model.named_modules(prefix='net')").replace(
            'name or "net"', "name.replace('net.', '')"
        )
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "a time of 0 is no time",
        violates="how long the backward pass of this module took by `clock()`",
        check="test_a_model_without_parts_has_a_time",
        source=TIMED.replace("clock() - started[module]", "clock() - (started[module] or clock())")
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
    Wrong(
        "adds a zero that requires grad, and changes shape and dtype by that",
        violates="`.grad` accumulates as usual",
        check="test_it_is_one_plain_pass",
        source=TIMED
        + """
import torch
def backward_times(model, x, clock):
    return timed(model, x if x.requires_grad else x + torch.zeros(1, requires_grad=True), clock)
""",
    ),
    Wrong(
        "evaluates in eval mode",
        violates="`.grad` accumulates as usual",
        check="test_it_is_one_plain_pass",
        source=TIMED
        + """
def backward_times(model, x, clock):
    modes = [module.training for module in model.modules()]
    model.eval()
    try:
        return timed(model, own(x), clock)
    finally:
        for module, mode in zip(model.modules(), modes):
            module.training = mode
""",
    ),
    Wrong(
        "keeps the times of the latest call",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            TIMED,
            ("def timed(", "now = {}\n\ndef timed("),
            ("times, started, handles = dict.fromkeys(names.values(), 0.0), {}, []", "started, handles = {}, []"),
            ("    def start(", "    now['times'] = dict.fromkeys(names.values(), 0.0)\n    def start("),
            (
                "times[names[module]] +=",
                "name = names[module]\n        now['times'][name] = now['times'].get(name, 0.0) +",
            ),
            ("    return times\n", "    return now['times']\n"),
        )
        + """
def backward_times(model, x, clock):
    return timed(model, own(x), clock)
""",
    ),
]

SURVIVORS = {
    "not for all: names = ": "all of them, in the reverse order",
    "not for all: for name, module in ": "all of them, in the reverse order",
    "not for all: return {name: span.total": "all of them, in the reverse order",
    "not for all: [handle.remove()": "all of them, in the reverse order",
    "prepend=True: handles.append(module.register_full_backward_pre_hook(start))": "it is the last one without it",
    "condition dropped: given = x.clone()": "a copy that has a graph passes the gradient on",
    "truth for None: if not x.grad_fn": "a copy that has a graph passes the gradient on",
    "not for all: for module in _part(names, step=-1)": "all of them, in the reverse order",
    "not for all: return {name or 'net'": "all of them, in the reverse order",
}
