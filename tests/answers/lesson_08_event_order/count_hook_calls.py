"""Answers to 08-count-hook-calls."""

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

RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
]
