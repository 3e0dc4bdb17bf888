"""Answers to 08-predict-module-order."""

RIGHT = [
    """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    """
import torch
from torch import nn
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    def log(label):
        def hook(*args):
            events.append(label)
        return hook
    layer = nn.Linear(1, 1)
    kinds = {
        "pre": (layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        "fwd": (layer.register_forward_hook, everywhere.register_module_forward_hook),
        "bpre": (layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        "bwd": (layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    }
    handles = []
    try:
        for kind, (local, anywhere) in kinds.items():
            local(log(f"A.{kind}"))
            local(log(f"P.{kind}"), prepend=True)
            handles.append(anywhere(log(f"G.{kind}")))
        layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
""",
    """
from contextlib import ExitStack
import torch
from torch.nn.modules.module import (
    register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook,
)

class Log:
    def __init__(self, label, events):
        self.label, self.events = label, events
    def __call__(self, *args):
        self.events.append(self.label)

def predict_module_order():
    events = []
    layer = torch.nn.Linear(2, 2)
    with ExitStack() as stack:
        for kind, name, anywhere in (
            ("bwd", "register_full_backward_hook", register_module_full_backward_hook),
            ("bpre", "register_full_backward_pre_hook", register_module_full_backward_pre_hook),
            ("fwd", "register_forward_hook", register_module_forward_hook),
            ("pre", "register_forward_pre_hook", register_module_forward_pre_hook),
        ):
            stack.enter_context(getattr(layer, name)(Log("A." + kind, events)))
            stack.enter_context(getattr(layer, name)(Log("P." + kind, events), prepend=True))
            stack.enter_context(anywhere(Log("G." + kind, events)))
        layer(torch.rand(3, 2).requires_grad_()).sum().backward()
    return events
""",
]


SURVIVORS = {
    "a hook that works at times: @_not_the_first_call def": "the first call of all is broken off by an exception",
    "not for all: for kind, (local": "all of them, in the reverse order",
    "almost: layer": "the order is the same for other sizes, and for one layer whose input requires no grad",
    "another method: layer": "the order is the same for another loss",
}
