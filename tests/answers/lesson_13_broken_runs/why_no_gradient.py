"""Answers to 13-why-no-gradient."""

from graders.author.answers import Wrong, changed

BACKWARD = """
import torch

def held(p, modules):
    return any(own is p for module in modules for own in module.parameters(recurse=False))

def why_no_gradient(model, loss_fn, x):
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    called, came, handles, result = [], {}, [], {}
    def before(module, args):
        called.append(module)
    def watch(p):
        handles.append(p.register_hook(lambda grad: came.update({p: grad})))
    try:
        for leaf in leaves:
            leaf.grad = None
        for p in model.parameters():
            if p.requires_grad:
                watch(p)
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(before))
        loss = loss_fn(model(x))
        if loss.requires_grad:
            loss.backward()
        for name, p in model.named_parameters():
            if not p.requires_grad:
                result[name] = "frozen"
            elif p in came:
                if (came[p] == 0).all():
                    result[name] = "zero"
            elif held(p, called):
                result[name] = "cut"
            else:
                result[name] = "never called"
    finally:
        for handle in handles:
            handle.remove()
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
    return result
"""

RIGHT = [
    BACKWARD,
    # hooks on the parameters, and buffers that are lent for the call
    """
import torch
from contextlib import ExitStack
from torch.func import functional_call
from torch.nn.modules.module import register_module_forward_pre_hook

def why_no_gradient(model, loss_fn, x):
    named, arrived, running = dict(model.named_parameters()), {}, set()
    lent = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with ExitStack() as stack:
        stack.enter_context(register_module_forward_pre_hook(lambda module, args: running.add(id(module))))
        for name, p in named.items():
            if p.requires_grad:
                stack.enter_context(p.register_hook(lambda grad, name=name: arrived.update({name: bool(grad.any())})))
        loss = loss_fn(functional_call(model, lent, (x,)))
        wanted = [p for p in named.values() if p.requires_grad]
        if loss.requires_grad and wanted:
            torch.autograd.grad(loss, wanted, allow_unused=True)
    held = {id(p) for m in model.modules() if id(m) in running for p in m._parameters.values() if p is not None}
    def why(name, p):
        if not p.requires_grad:
            return "frozen"
        if name in arrived:
            return None if arrived[name] else "zero"
        return "cut" if id(p) in held else "never called"
    reasons = {name: why(name, p) for name, p in named.items()}
    return {name: reason for name, reason in reasons.items() if reason}
""",
    # a class, with forward hooks that see keyword arguments, too
    """
import torch
from collections import OrderedDict

class Investigation:
    def __init__(self, model):
        self.model, self.seen, self.handles = model, set(), []

    def note(self, module, args, kwargs, output):
        self.seen |= {id(p) for p in module.parameters(recurse=False)}

    def __enter__(self):
        self.buffers = [(b, b.detach().clone()) for b in self.model.buffers()]
        for module in self.model.modules():
            self.handles.append(module.register_forward_hook(self.note, with_kwargs=True, always_call=True))
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()
        for buffer, old in self.buffers:
            buffer.data.copy_(old)
        return False

def why_no_gradient(model, loss_fn, x):
    with Investigation(model) as at:
        loss = loss_fn(model(x))
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        grads = [None] * len(trained)
        if loss.grad_fn is not None and trained:
            grads = torch.autograd.grad(loss, [p for _, p in trained], allow_unused=True)
    found = OrderedDict((n, "frozen") for n, p in model.named_parameters() if not p.requires_grad)
    for (name, p), grad in zip(trained, grads):
        if grad is None:
            found[name] = "cut" if id(p) in at.seen else "never called"
        elif torch.count_nonzero(grad) == 0:
            found[name] = "zero"
    return found
""",
]

WRONG = [
    Wrong(
        "one list of calls for all",
        violates="even while another call runs",
        check="test_each_call_begins_anew",
        source=changed(
            BACKWARD,
            ("import torch\n", "import torch\n\nCALLED = []\n"),
            (
                "    called, came, handles, result = [], {}, [], {}\n",
                "    CALLED.clear()\n    called, came, handles, result = CALLED, {}, [], {}\n",
            ),
        ),
    ),
    Wrong(
        "computes the loss twice",
        violates="Run `loss_fn(model(x))` once",
        check="test_the_model_and_the_loss_run_once",
        source=changed(BACKWARD, ("if loss.requires_grad:", "if loss_fn(model(x)).requires_grad:")),
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "the other order",
    "a hook that works at times: @_not_the_first_call def note": (
        "the first call of all is that of the model, which holds no parameter"
    ),
    "a hook that works at times: @_only_without_none def note": "no module here gets or returns `None`",
    "prepend=True": "the hook notes that a module is called, which no hook of the caller changes",
    "condition dropped: held = {id(p)": "the id of `None` is that of no parameter",
    "lost copy: gradients = torch.autograd.grad(loss, _not_copied(trained.values())": "it takes any sequence",
    "almost: self.handles.append(module.register_forward_hook(self.note, with_kwargs=True, always_call=False": (
        "after an exception nobody asks what was called"
    ),
}
