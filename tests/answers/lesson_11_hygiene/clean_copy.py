"""Answers to 11-clean-copy."""

from graders.author.answers import Wrong

from .shared import KINDS, changed

PUT_BACK = (
    "import copy\n"
    + KINDS
    + """
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
"""
)

RIGHT = [
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
    PUT_BACK,
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
        module._is_full_backward_hook = None
    return copied
""",
    "import copy\n"
    + KINDS
    + """
def clean_copy(model):
    held = {}
    for m in model.modules():
        for key in KINDS:
            held[m, key] = m.__dict__[key]
            m.__dict__[key] = type(held[m, key])()
    try:
        other = copy.deepcopy(model)
    finally:
        for (m, key), value in held.items():
            m.__dict__[key] = value
    return other
""",
    "import copy\n"
    + KINDS
    + """
def clean_copy(model):
    return copy.deepcopy(model).apply(lambda module: [getattr(module, kind).clear() for kind in KINDS])
""",
]

WRONG = [
    Wrong(
        "puts back hooks of earlier calls",
        violates="leave everyone else's on",
        check="test_the_original_stays_as_it_was",
        source="SAVED = []\n" + changed(PUT_BACK, "    saved = []\n", "    saved = SAVED\n"),
    ),
]

SURVIVORS = {
    "lost return: return copy.deepcopy(model).apply(lambda module: _lost(": "`apply` drops what its function returns",
    "not for all: … step=-1": "the order does not matter",
    "lost statement: without module._is_full_backward_hook = None": "the flag may be that of the original",
    "one global slot: held = ": "what is put back are the dicts that the modules have anyway",
}
