"""Answers to 11-clean-copy."""

from .shared import REMOVE, changed

COPY = (
    """
import copy
"""
    + REMOVE
    + """
def clean_copy(model):
    copied = copy.deepcopy(model)
    remove_all_hooks(copied)
    return copied
"""
)

RIGHT = [
    COPY,
    """
from collections import OrderedDict
from copy import deepcopy

def clean_copy(model):
    memo = {}
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks,
                      module._backward_pre_hooks, module._backward_hooks):
            memo[id(hooks)] = OrderedDict()
    return deepcopy(model, memo)
""",
    """
import copy

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            saved.append((hooks, dict(hooks)))
            hooks.clear()
    try:
        return copy.deepcopy(model)
    finally:
        for hooks, entries in saved:
            hooks.update(entries)
""",
    """
import copy
from collections import OrderedDict

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_pre_hooks = OrderedDict()
        module._forward_hooks = OrderedDict()
        module._backward_pre_hooks = OrderedDict()
        module._backward_hooks = OrderedDict()
    return copied
""",
    """
import copy, io, torch

def clean_copy(model):
    held = {}
    for m in model.modules():
        for key in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            held[m, key] = m.__dict__[key]
            m.__dict__[key] = type(held[m, key])()
    try:
        other = copy.deepcopy(model)
    finally:
        for (m, key), value in held.items():
            m.__dict__[key] = value
    return other
""",
]

WRONG = {
    "hooks-copied": "import copy\n\ndef clean_copy(model):\n    return copy.deepcopy(model)\n",
    "cleared-original": changed(
        COPY,
        "    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n    return copied",
        "    remove_all_hooks(model)\n    return copy.deepcopy(model)",
    ),
    "shared-parameters": changed(COPY, "copy.deepcopy(model)", "copy.copy(model)"),
    "one-kind-only": """
import copy

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    return copied
""",
    "children-only": changed(COPY, "model.modules()", "model.children()"),
    "broken-ties": changed(
        COPY,
        "    return copied\n",
        """    for module in copied.modules():
        for name, p in module.named_parameters(recurse=False):
            setattr(module, name, torch.nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad))
    return copied
""",
    )
    + "import torch\n",
    "changed-the-mode": changed(COPY, "    return copied", "    return copied.eval()"),
}

ALSO_WRONG = [
    "def clean_copy(model):\n    return None",
    "def clean_copy(model):\n    return model",
    COPY.replace("    return copied", "    return model"),
    changed(COPY, "    return copied", "    model(next(model.parameters()).detach())\n    return copied"),
    changed(COPY, "    copied = copy.deepcopy", "    model.zero_grad()\n    copied = copy.deepcopy"),
    changed(COPY, "    return copied", "    return copied.requires_grad_(True)"),
    changed(COPY, "    return copied", "    return copied.double()"),
    changed(
        COPY, "    return copied", "    copied.load_state_dict(model.state_dict(), assign=True)\n    return copied"
    ),
    changed(
        COPY,
        "    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n",
        "    remove_all_hooks(model)\n    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n",
    ),
    """
import torch

def clean_copy(model):
    return torch.nn.Sequential(*(child for child in model.children() if not isinstance(child, torch.nn.ModuleList)))
""",
    """
import copy
from torch import nn

class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner.forward(x)

def clean_copy(model):
    return Wrapped(copy.deepcopy(model))
""",
    """
import copy

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_hooks, module._forward_pre_hooks = {}, {}
        module._backward_hooks, module._backward_pre_hooks = {}, {}
    return copied
""",
    """
import copy

def clean_copy(model):
    saved = []
    for m in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            saved.append((m, kind, getattr(m, kind)))
            getattr(m, kind).clear()
    copied = copy.deepcopy(model)
    for m, kind, hooks in saved:
        setattr(m, kind, hooks)
    return copied
""",
    changed(
        COPY,
        "    return copied",
        "    for module in model.modules():\n        module._forward_hooks_with_kwargs.clear()\n    return copied",
    ),
    """
import copy

def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            hooks = getattr(module, kind)
            saved.append((hooks, list(hooks.items())))
            hooks.clear()
    copied = copy.deepcopy(model)
    for hooks, entries in saved:
        hooks.update(reversed(entries))
    return copied
""",
]
