"""Answers to 08-count-hook-calls."""

from graders.author.answers import Wrong, changed

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
COUNTED = (
    COUNTING
    + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    return calls
"""
)

RIGHT = [
    COUNTED,
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
    """
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    fwd, bwd = [], []
    handles = [
        model[0].register_forward_hook(lambda *args: fwd.append(args)),
        model[0].register_full_backward_hook(lambda *args: bwd.append(args)),
    ]
    try:
        for _ in range(n):
            (checkpoint(lambda t: model(t), x, use_reentrant=False) if ckpt else model(x)).sum().backward()
    finally:
        [handle.remove() for handle in handles]
    return dict(fwd=len(fwd), bwd=len(bwd))
""",
]

WRONG = [
    Wrong(
        "keeps the counts of the latest call",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source=changed(
            COUNTED,
            ('    calls = {"fwd": 0, "bwd": 0}\n', "    calls.update(fwd=0, bwd=0)\n"),
            ("    return calls", "    return dict(calls)"),
        )
        + "\ncalls = {}\n",
    ),
]

SURVIVORS = {
    "not for all: for _ in _part(range(n), step=-1)": "as many passes",
    "prepend=True": "its place among the hooks changes no count",
    "almost: return lambda module, *rest: calls.append(2)": "what is counted are entries",
}
