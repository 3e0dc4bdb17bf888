"""Answers to 05-capture-many."""

from graders.author.answers import Wrong, changed

CAPTURE_MANY = """
def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
"""


RIGHT = [
    """
from contextlib import ExitStack
from functools import partial

def capture_many(model, names, x):
    found = {}
    def keep(name, module, args, output):
        found[name] = output.detach().clone()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name in names:
                stack.enter_context(module.register_forward_hook(partial(keep, name)))
        model(x)
    return found
""",
    """
import torch

def capture_many(model, names, x):
    name_of = {model.get_submodule(name): name for name in names}
    found = {}
    def hook(module, args, output):
        found.update({name_of[module]: output.clone()})
    handles = [module.register_forward_hook(hook) for module in name_of]
    try:
        with torch.no_grad():
            model(x)
    finally:
        [handle.remove() for handle in handles]
    return found
""",
    """
def capture_many(model, names, x):
    order, found = [], {}
    def make(name):
        return lambda m, a, out: (order.append(name), found.__setitem__(name, out.detach().clone()))[2:] or None
    handles = [model.get_submodule(n).register_forward_hook(make(n)) for n in names]
    try:
        model(x)
    finally:
        for h in handles:
            h.remove()
    return {name: found[name] for name in order}
""",
    """
import contextlib

def capture_many(model, names, x):
    found = {}
    with contextlib.ExitStack() as stack, __import__("torch").no_grad():
        for name in dict.fromkeys(names):
            def keep(module, args, output, key=name):
                found[key] = output + 0
            stack.enter_context(model.get_submodule(name).register_forward_hook(keep))
        model(x)
    return found
""",
]

WRONG = [
    Wrong(
        "takes off the latest hooks, whoever registered them",
        violates="leave everyone else's on",
        check="test_nothing_of_the_caller_changes",
        source=changed(
            CAPTURE_MANY,
            (
                "for handle in handles:\n            handle.remove()",
                "for name in names:\n            model.get_submodule(name)._forward_hooks.popitem()",
            ),
        ),
    ),
    Wrong(
        "one dict for all calls, copied in the end",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source="""
kept = {}

def capture_many(model, names, x):
    kept.clear()
    def keep(name):
        return lambda module, args, output: kept.update({name: output.detach().clone()})
    handles = [model.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return dict(kept)
""",
    ),
]

SURVIVORS = {
    "almost: return lambda m, a, out: (order.append(name)": "of two entries none is left, in both ways",
    "almost: found[key] = output - 0": "it adds nothing in both ways",
}
