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
        "runs the model itself",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_calls_are_counted",
        mistake="ignored-checkpoint",
        source=changed(COUNTED, (" ckpt)\n", " False)\n")),
    ),
    Wrong(
        "one call for each pass",
        violates='Return `{"fwd": ..., "bwd": ...}`',
        check="test_the_calls_are_counted",
        mistake="assumed-one-call",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    return {"fwd": n, "bwd": n}
"""
        ),
    ),
    Wrong(
        "twice as many of both",
        violates='Return `{"fwd": ..., "bwd": ...}`',
        check="test_the_calls_are_counted",
        mistake="doubled-both",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    return {"fwd": 2 * n, "bwd": 2 * n} if ckpt else {"fwd": n, "bwd": n}
"""
        ),
    ),
    Wrong(
        "registers anew in each pass",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        mistake="registered-every-pass",
        source=(
            COUNTING
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
"""
        ),
    ),
    Wrong(
        "`x` is made to require grad",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_calls_are_counted",
        mistake="changed-the-input",
        source=changed(
            COUNTED, ("        passes(model, x, n, ckpt", "        passes(model, x.requires_grad_(), n, ckpt")
        ),
    ),
    Wrong(
        "removes nothing",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left-behind",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    counting(model, calls)
    passes(model, x, n, ckpt)
    return dict(calls)
"""
        ),
    ),
    Wrong(
        "removes nothing after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check="test_all_is_in_order_when_something_raises",
        mistake="hook-left-after-exception",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    handles = counting(model, calls)
    passes(model, x, n, ckpt)
    for handle in handles:
        handle.remove()
    return calls
"""
        ),
    ),
    Wrong(
        "zeros",
        violates='Return `{"fwd": ..., "bwd": ...}`',
        check="test_the_calls_are_counted",
        source="def count_hook_calls(model, x, n, ckpt):\n    return {'fwd': 0, 'bwd': 0}",
    ),
    Wrong(
        "the formula, without running anything",
        violates="It runs `model(x).sum().backward()` `n` times",
        check="test_the_passes_ran_as_asked",
        source="def count_hook_calls(model, x, n, ckpt):\n    return {'fwd': 2 * n if ckpt else n, 'bwd': n}",
    ),
    Wrong(
        "a formula that does not know that the recomputation stops early",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    passes(model, x, n, ckpt)
    uses = sum(module is model[0] for module in model)
    learns = x.requires_grad or any(p.requires_grad for p in model[0].parameters())
    return {"fwd": n * uses * (2 if ckpt else 1), "bwd": n * uses if learns else 0}
"""
        ),
    ),
    Wrong(
        "one pass alone",
        violates="It runs `model(x).sum().backward()` `n` times",
        check="test_the_calls_are_counted",
        mistake="one-pass-only",
        source=changed(COUNTED, (" x, n, ckpt)\n", " x, 1, ckpt)\n")),
    ),
    Wrong(
        "one pass, multiplied",
        violates="It runs `model(x).sum().backward()` `n` times",
        check="test_the_passes_ran_as_asked",
        source=changed(
            COUNTED,
            (" x, n, ckpt)\n", " x, 1, ckpt)\n"),
            ("calls\n", "{kind: n * count for kind, count in calls.items()}\n"),
        ),
    ),
    Wrong(
        "pre-hooks are counted",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        source="""
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
    ),
    Wrong(
        "the calls of all modules",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        source="""
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
    ),
    Wrong(
        "the other kind of checkpoint",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="raised",
        mistake="no-graph",
        source=changed(COUNTED, ("use_reentrant=False", "use_reentrant=True")),
    ),
    Wrong(
        "counts on a copy, which gets the gradients",
        violates="accumulates over the passes",
        check="test_the_passes_ran_as_asked",
        source=(
            COUNTING
            + """
import copy
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    model = copy.deepcopy(model)
    counting(model, calls)
    passes(model, x, n, ckpt)
    return calls
"""
        ),
    ),
    Wrong(
        "clears the gradients between the passes",
        violates="accumulates over the passes",
        check="test_the_passes_ran_as_asked",
        source=changed(
            COUNTED,
            (
                "        passes(model, x, n, ckpt)\n",
                "        for _ in range(n):\n            model.zero_grad()\n            passes(model, x, 1, ckpt)\n",
            ),
        ),
    ),
    Wrong(
        "all forward passes, and then one backward pass",
        violates="It runs `model(x).sum().backward()` `n` times",
        check="test_the_passes_ran_as_asked",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    one, two = counting(model, calls)
    with one, two:
        out = [(checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum() for _ in range(n)]
        if out:
            sum(out).backward()
    return calls
"""
        ),
    ),
    Wrong(
        "the `.grad` of `x` is cleared",
        violates="accumulates over the passes",
        check="test_the_passes_ran_as_asked",
        source=changed(
            COUNTED,
            ("    one, two = counting(model, calls)\n", "    x.grad = None\n    one, two = counting(model, calls)\n"),
        ),
    ),
    Wrong(
        "`x` is cut off",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_calls_are_counted",
        source=changed(COUNTED, ("        passes(model, x, n, ckpt", "        passes(model, x.detach(), n, ckpt")),
    ),
    Wrong(
        "removes the backward hooks of the caller",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source=changed(COUNTED, ("    return calls\n", "    model[0]._backward_hooks.clear()\n    return calls\n")),
    ),
    Wrong(
        "a frozen module is taken for one that no gradient passes",
        violates="`model[0]` may stand a second time in `model`",
        check="test_the_calls_are_counted",
        source=changed(
            COUNTED,
            (
                "    return calls\n",
                (
                    "    learns = any(parameter.requires_grad for parameter in model[0].parameters())\n"
                    '    return {"fwd": calls["fwd"], "bwd": calls["bwd"] if learns else 0}\n'
                ),
            ),
        ),
    ),
    Wrong(
        "hooks once for each place of the module",
        violates="`model[0]` may stand a second time in `model`",
        check="test_the_calls_are_counted",
        source=(
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
"""
        ),
    ),
    Wrong(
        "dropout draws anew in the recomputation",
        violates="`checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_passes_ran_as_asked",
        source=changed(COUNTED, ("use_reentrant=False", "use_reentrant=False, preserve_rng_state=False")),
    ),
    Wrong(
        "evaluates in eval mode",
        violates="`checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_passes_ran_as_asked",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    modes = [module.training for module in model.modules()]
    model.eval()
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return calls
"""
        ),
    ),
    Wrong(
        "the counts are kept from call to call",
        violates="rule 1: It works however often it is called",
        check="test_the_calls_are_counted",
        mistake="kept-from-call-to-call",
        source=(
            COUNTING
            + """
calls = {"fwd": 0, "bwd": 0}

def count_hook_calls(model, x, n, ckpt):
    one, two = counting(model, calls)
    with one, two:
        passes(model, x, n, ckpt)
    return calls
"""
        ),
    ),
    Wrong(
        "a list of counts",
        violates="rule 6: A tuple is a tuple",
        check="test_the_calls_are_counted",
        source=changed(COUNTED, ("calls\n", "list(calls.values())\n")),
    ),
    Wrong(
        "removes its hooks after an Exception alone",
        violates="rule 4: That holds for every exception, also for `KeyboardInterrupt`",
        check="test_all_is_in_order_when_something_raises",
        source=changed(
            COUNTED,
            ("    with one, two:\n", "    try:\n"),
            (
                "    return calls\n",
                (
                    "    except Exception:\n"
                    "        one.remove(), two.remove()\n"
                    "        raise\n"
                    "    one.remove(), two.remove()\n"
                    "    return calls\n"
                ),
            ),
        ),
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this",
        check="test_all_is_in_order_when_something_raises",
        source=changed(
            COUNTED,
            (
                "        passes(model, x, n, ckpt)\n",
                (
                    "        try:\n"
                    "            passes(model, x, n, ckpt)\n"
                    "        except BaseException:\n"
                    "            pass\n"
                ),
            ),
        ),
    ),
    Wrong(
        "the hooks are gone before backward",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        mistake="not-in-recomputation",
        source=(
            COUNTING
            + """
def count_hook_calls(model, x, n, ckpt):
    calls = {"fwd": 0, "bwd": 0}
    for _ in range(n):
        one, two = counting(model, calls)
        with one, two:
            out = checkpoint(model, x, use_reentrant=False) if ckpt else model(x)
        out.sum().backward()
    return calls
"""
        ),
    ),
    Wrong(
        "the module itself runs in front of the checkpoint",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_calls_are_counted",
        source=changed(
            COUNTED,
            (
                "        passes(model, x, n, ckpt)\n",
                (
                    "        for _ in range(n):\n"
                    "            h = model[0](x)\n"
                    "            out = checkpoint(model[1:], h, use_reentrant=False) if ckpt else model[1:](h)\n"
                    "            out.sum().backward()\n"
                ),
            ),
        ),
    ),
]

WRONG += [
    Wrong(
        "counts the gradients that come to the output",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        source="""
from torch.utils.checkpoint import checkpoint

def count_hook_calls(model, x, n, ckpt):
    fwd, bwd = [], []
    def watch(module, args, output):
        fwd.append(module)
        if output.requires_grad:
            output.register_hook(lambda grad: bwd.append(module))
    with model[0].register_forward_hook(watch):
        for _ in range(n):
            (checkpoint(model, x, use_reentrant=False) if ckpt else model(x)).sum().backward()
    return dict(fwd=len(fwd), bwd=len(bwd))
""",
    ),
    Wrong(
        "counts full backward pre-hooks",
        violates="it may let no gradient through to its input, as `Positive` in the text",
        check="test_the_calls_are_counted",
        source=changed(COUNTED, ("register_full_backward_hook", "register_full_backward_pre_hook")),
    ),
    Wrong(
        "runs `model.forward`",
        violates="with `ckpt`, `checkpoint(model, x, use_reentrant=False)` stands in the place of `model(x)`",
        check="test_the_passes_ran_as_asked",
        source=changed(COUNTED, ("else model(x)", "else model.forward(x)")),
    ),
    Wrong(
        "keeps the counts of the latest call",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            COUNTED,
            ('    calls = {"fwd": 0, "bwd": 0}\n', "    calls.update(fwd=0, bwd=0)\n"),
            ("    return calls", "    return dict(calls)"),
        )
        + "\ncalls = {}\n",
    ),
    Wrong(
        "the numbers are exchanged",
        violates="how often a forward hook and a full backward hook on `model[0]` are called",
        check="test_the_calls_are_counted",
        mistake="exchanged",
        source=changed(COUNTED, ("    return calls", '    return {"fwd": calls["bwd"], "bwd": calls["fwd"]}')),
    ),
]

SURVIVORS = {
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": "the other order",
    "at least one dimension": "the layers of a model need at least one",
    "not for all: for _ in _part(range(n), step=-1)": "as many passes",
    "not for all: for kind in _part(total": "both of them, in the reverse order",
    "prepend=True": "its place among the hooks changes no count",
    "lost return": "a pair is as true as the list that it was",
    "almost: return lambda module, *rest: calls.append(2)": "what is counted are entries",
    "almost: stack.enter_context(model[0].register_full_backward_hook": "its place among the hooks changes no count",
}
