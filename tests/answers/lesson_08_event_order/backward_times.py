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
    """
from collections import defaultdict
from contextlib import ExitStack

def backward_times(model, x, clock):
    times = {name or "net": 0 for name, _ in model.named_modules()}
    begun = defaultdict(list)
    if not x.requires_grad:
        x = x.detach().requires_grad_()

    def watch(name, module, stack):
        def forward_hook(module, args, output):
            output.register_hook(lambda grad: begun[name].append(clock()))

        def end(module, grad_input, grad_output):
            times[name] += clock() - begun[name].pop()

        stack.enter_context(module.register_forward_hook(forward_hook))
        stack.enter_context(module.register_full_backward_hook(end, prepend=True))

    with ExitStack() as stack:
        for name, module in model.named_modules():
            watch(name or "net", module, stack)
        model(x).sum().backward()
    return times
""",
]


WRONG = [
    Wrong(
        "keeps the times of the latest call",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
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
    "truth for None: if not _for_requires_grad(x, 'grad_fn')": "a copy that has a graph passes the gradient on",
    "condition dropped: given = x.clone()": "a copy that has a graph passes the gradient on",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": "hooks on several modules, in any order",
}
