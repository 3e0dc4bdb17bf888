"""Answers to 13-changed-by-hooks."""

from graders.author.answers import Wrong, changed

SWAP = """
import torch
from collections import OrderedDict
from contextlib import contextmanager

OF_MODULES = ["_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"]
OF_PARAMETERS = ["_backward_hooks", "_post_accumulate_grad_hooks"]

@contextmanager
def without_hooks(model):
    owners = [(module, kind) for module in model.modules() for kind in OF_MODULES]
    owners += [(p, kind) for p in model.parameters() for kind in OF_PARAMETERS]
    dicts = [(owner, kind, getattr(owner, kind)) for owner, kind in owners]
    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts if hooks is not None]
    try:
        for hooks, _ in saved:
            hooks.clear()
        yield
    finally:
        for hooks, entries in saved:
            hooks.clear()
            hooks.update(entries)

@contextmanager
def everything_kept(model, x):
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        for leaf in leaves:
            leaf.grad = None
        yield
    finally:
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)

def gradients(model, loss_fn, x):
    with everything_kept(model, x):
        loss = loss_fn(model(x))
        if loss.requires_grad:
            loss.backward()
        return {name: p.grad for name, p in model.named_parameters()}

def other(a, b):
    if a is None or b is None:
        return a is not b
    return not torch.allclose(a, b, rtol=1e-3, atol=0)

def changed_by_hooks(model, loss_fn, x):
    with_hooks = gradients(model, loss_fn, x)
    with without_hooks(model):
        plain = gradients(model, loss_fn, x)
    return [name for name in plain if other(with_hooks[name], plain[name])]
"""

COPIES = """
import copy
import torch

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def changed_by_hooks(model, loss_fn, x):
    clean = copy.deepcopy(model)
    for module in clean.modules():
        for kind in KINDS:
            getattr(module, kind).clear()
    kept = [(p, p.grad) for p in model.parameters()]
    buffers = {b: b.clone() for b in model.buffers()}
    result = []
    try:
        for p, _ in kept:
            p.grad = None
        for net in (clean, model):
            loss = loss_fn(net(x.detach()))
            if loss.grad_fn is not None:
                loss.backward()
        for (name, p), q in zip(model.named_parameters(), clean.parameters()):
            if (p.grad is None) != (q.grad is None):
                result.append(name)
            elif p.grad is not None and ((p.grad - q.grad).abs() > 0.001 * q.grad.abs()).any():
                result.append(name)
    finally:
        for p, grad in kept:
            p.grad = grad
        for buffer, old in buffers.items():
            buffer.data.copy_(old)
    return result
"""

RIGHT = [
    SWAP,
    COPIES,
    # other dicts for the time of the pass, and the same ones afterwards
    changed(
        SWAP,
        ("    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts if hooks is not None]\n", ""),
        (
            "        for hooks, _ in saved:\n            hooks.clear()\n        yield\n",
            "        for owner, kind, hooks in dicts:\n"
            "            setattr(owner, kind, OrderedDict())\n"
            "        yield\n",
        ),
        (
            "        for hooks, entries in saved:\n            hooks.clear()\n            hooks.update(entries)\n",
            "        for owner, kind, hooks in dicts:\n            setattr(owner, kind, hooks)\n",
        ),
    ),
    # no parameter of the model takes part in the pass without hooks
    """
import contextlib
from unittest.mock import patch
import torch
from torch.func import functional_call

def bare(model):
    stack = contextlib.ExitStack()
    for module in model.modules():
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            stack.enter_context(patch.object(module, name, type(getattr(module, name))()))
    return stack

def run(model, parts, loss_fn, x):
    loss = loss_fn(functional_call(model, parts, (x.detach(),)))
    if loss.requires_grad:
        loss.backward()

def changed_by_hooks(model, loss_fn, x):
    own = dict(model.named_parameters())
    lent = {n: p.detach().clone().requires_grad_(p.requires_grad) for n, p in own.items()}
    def buffers():
        return {n: b.clone() for n, b in model.named_buffers()}
    with bare(model):
        run(model, {**lent, **buffers()}, loss_fn, x)
    old = {n: p.grad for n, p in own.items()}
    try:
        for p in own.values():
            p.grad = None
        run(model, buffers(), loss_fn, x)
        new = {n: p.grad for n, p in own.items()}
    finally:
        for n, p in own.items():
            p.grad = old[n]
    names = []
    for n in own:
        pair = [new[n], lent[n].grad]
        if any(g is None for g in pair):
            if pair != [None, None]:
                names += [n]
        elif not torch.isclose(*pair, rtol=0.001, atol=0.0).all():
            names += [n]
    return names
""",
]

WRONG = [
    Wrong(
        "remembers a model",
        violates="the names of the parameters whose gradient would be different without the model's hooks",
        check="test_each_call_begins_anew",
        source=SWAP
        + """
known = {}
look = changed_by_hooks

def changed_by_hooks(model, loss_fn, x):
    if model not in known:
        known[model] = look(model, loss_fn, x)
    return known[model]
""",
    ),
    Wrong(
        "misses a gradient of 1e-20",
        violates="small gradients do",
        check="test_the_parameters_that_hooks_change_are_named",
        mistake="small-gradients",
        source=changed(SWAP, ("rtol=1e-3, atol=0)", "rtol=1e-3, atol=1e-13)")),
    ),
    Wrong(
        "puts the hooks of parameters into new dicts",
        violates="their handles still remove them",
        check="test_the_hooks_act_as_before_and_their_handles_remove_them",
        source=changed(
            SWAP,
            (
                "            hooks.update(entries)\n",
                "            hooks.update(entries)\n        for owner, kind, hooks in dicts:\n"
                "            if hooks is not None and isinstance(owner, torch.Tensor):\n"
                "                setattr(owner, kind, OrderedDict(hooks))\n",
            ),
        ),
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "the other order",
    "lost statement: without module.training = mode": "no hook changes a mode",
    "truth for None: saved": "an empty dict has no hook to put back",
    "lost statement: without hooks.clear()": "they are empty already",
    "lost copy: lent": "nobody writes into the values",
    "clean-up … without try": "a generator that is thrown away does its `finally`, too",
    "… modes": "no hook changes a mode",
}
