"""Answers to 11-remove-all-hooks."""

from graders.author.answers import Wrong

from .shared import KINDS, REMOVE, changed

RIGHT = [
    """
NAMES = ["_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"]

def remove_all_hooks(model):
    dicts = [getattr(module, name) for module in model.modules() for name in NAMES]
    count = sum(map(len, dicts))
    for one in dicts:
        while one:
            one.popitem()
    return count
""",
    """
from collections import OrderedDict

def remove_all_hooks(model):
    count = 0
    for _, module in model.named_modules():
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            count += len(vars(module)[name])
            setattr(module, name, OrderedDict())
        module._is_full_backward_hook = None
    return count
""",
    """
def strip(module):
    count = 0
    for name, value in vars(module).items():
        if name in {"_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"}:
            for key in list(value):
                del value[key]
                count += 1
    return count + sum(strip(child) for child in module.children())

def remove_all_hooks(model):
    return strip(model)
""",
    # with the dicts that note options
    """
def emptied(hooks):
    return len([hooks.pop(number) for number in list(hooks)])

def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        emptied(module._forward_hooks_with_kwargs)
        count += emptied(module._forward_pre_hooks) + emptied(module._forward_hooks)
        count += emptied(module._backward_pre_hooks) + emptied(module._backward_hooks)
    return count
""",
]

WRONG = [
    Wrong(
        "one dict for all",
        violates="New hooks can be registered as usual",
        check="test_old_handles_are_harmless",
        source="""
from collections import OrderedDict
"""
        + KINDS
        + """
def remove_all_hooks(model):
    count, empty = 0, OrderedDict()
    for module in model.modules():
        for kind in KINDS:
            count += len(getattr(module, kind))
            setattr(module, kind, empty)
    return count
""",
    ),
    Wrong(
        "numbers hooks anew",
        violates="`remove()` raises nothing and removes no new hook.",
        check="test_old_handles_are_harmless",
        source="from torch.utils.hooks import RemovableHandle\n"
        + changed(REMOVE, "    return count", "    RemovableHandle.next_id = 0\n    return count"),
    ),
    Wrong(
        "eval mode",
        violates="Leave what you were given as you found it",
        check="test_nothing_else_changes",
        source=changed(REMOVE, "    return count", "    model.eval()\n    return count"),
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "the order does not matter",
    "lost statement: without module._is_full_backward_hook = None": "the flag may stay",
    "lost statement: without emptied(module._forward_hooks_with_kwargs)": "options of hooks that are gone do no harm",
}
