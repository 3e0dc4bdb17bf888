"""Answers to 11-clean-copy."""

from graders.author.answers import Wrong

from .shared import KINDS, REMOVE, changed

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
        "loads the state of the original, whose hooks fire",
        violates="No hook of the original fires while you copy.",
        check="test_the_original_stays_as_it_was",
        source=changed(COPY, "    return copied", "    copied.load_state_dict(model.state_dict())\n    return copied"),
    ),
    Wrong(
        "a module under two names becomes two",
        violates="what is shared inside the model stays\n    shared",
        check="test_what_is_shared_inside_the_model_is_shared_inside_the_copy",
        source=changed(
            COPY,
            "    return copied\n",
            """    for module in list(copied.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and list(module._modules.values()).count(child) > 1:
                module._modules[name] = copy.deepcopy(child)
    return copied
""",
        ),
    ),
    Wrong(
        "copies the hooks on parameters",
        violates="`.grad` and hooks on parameters are not copied.",
        check="test_the_copy_has_everything_else",
        source=changed(
            COPY,
            "    return copied",
            """    for one, other in zip(copied.parameters(), model.parameters()):
        for hook in (other._backward_hooks or {}).values():
            one.register_hook(hook)
    return copied""",
        ),
    ),
    Wrong(
        "puts the hooks back only when all went well",
        violates="the first two rules still hold",
        check="test_an_exception_comes_through_and_the_original_is_unchanged",
        source=changed(PUT_BACK, "    try:\n        return copy.deepcopy(model)\n    finally:", "    if True:").replace(
            "    if True:", "    copied = copy.deepcopy(model)\n    if True:"
        )
        + "    return copied\n",
    ),
    Wrong(
        "puts back hooks of earlier calls",
        violates="leave everyone else's on",
        check="test_the_original_stays_as_it_was",
        source="SAVED = []\n" + changed(PUT_BACK, "    saved = []\n", "    saved = SAVED\n"),
    ),
    Wrong(
        "returns nothing when something cannot be copied",
        violates="what `copy.deepcopy` raises for something else comes through.",
        check="test_an_exception_comes_through_and_the_original_is_unchanged",
        source=changed(
            COPY,
            "    copied = copy.deepcopy(model)\n",
            "    try:\n        copied = copy.deepcopy(model)\n    except Exception:\n        return None\n",
        ),
    ),
]

SURVIVORS = {
    "lost return: return copy.deepcopy(model).apply(lambda module: _lost(": "`apply` drops what its function returns",
    "not for all: … step=-1": "the order does not matter",
    "lost statement: without module._is_full_backward_hook = None": "the flag may be that of the original",
    "one global slot: held = ": "what is put back are the dicts that the modules have anyway",
}
