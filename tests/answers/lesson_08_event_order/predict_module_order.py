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

WRONG = {
    "local-before-global": """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "PAG"]
""",
    "registration-order": """
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "APG"]
""",
    "backward-reversed": """
def predict_module_order():
    forward = [f"{hook}.{kind}" for kind in ("pre", "fwd") for hook in "GPA"]
    return forward + [f"{hook}.{kind}" for kind in ("bpre", "bwd") for hook in "APG"]
""",
    "hook-left-behind": """
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        anywhere(lambda *a, kind=kind: events.append(f"G.{kind}"))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    return list(events)
""",
}

ALSO_WRONG = [
    "def predict_module_order():\n    return []",
    # All hooks of one name together.
    'def predict_module_order():\n    return [f"{hook}.{kind}" for hook in "GPA" for kind in '
    '("pre", "fwd", "bpre", "bwd")]',
    # Backward in reverse, kinds and all.
    'def predict_module_order():\n    half = [f"{h}.{k}" for k in ("pre", "fwd") for h in "GPA"]\n'
    '    return half + [f"{h}.{k}" for k in ("bwd", "bpre") for h in "GPA"]',
    # Cleans up by emptying the global lists, and takes the caller's hook with it.
    """
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_forward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    # Empties one other list.
    """
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_backward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    # The list goes on growing from call to call.
    """
labels = []

def predict_module_order():
    labels.extend(f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA")
    return labels
""",
]
