"""Answers to 11-remove-all-hooks."""

from graders.author.answers import Wrong

from .shared import REMOVE, changed

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
    """
def remove_all_hooks(model):
    total = 0
    def strip(m):
        nonlocal total
        for d in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks):
            total += len(d)
            d.clear()
    model.apply(strip)
    return total
""",
    """
from torch.utils.hooks import RemovableHandle

def remove_all_hooks(model):
    count = 0
    for m in model.modules():
        for hooks in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks):
            for number in list(hooks):
                handle = RemovableHandle(hooks)
                handle.id = number
                handle.remove()
                count += 1
    return count
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

KINDS = """
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""

WRONG = [
    Wrong(
        "keeps what prunes a layer",
        violates="Remove all module hooks from `model`",
        check="test_a_hook_that_torch_registered_is_removed_too",
        source="""
from torch.nn.utils.prune import BasePruningMethod

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            for key in [key for key, hook in hooks.items() if not isinstance(hook, BasePruningMethod)]:
                del hooks[key]
                count += 1
    return count
""",
    ),
    Wrong(
        "ends at an empty place",
        violates="from every module in it, at any depth",
        check="test_a_hook_that_torch_registered_is_removed_too",
        source="""
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def remove_all_hooks(model):
    seen = set()
    def walk(module):
        if module in seen:
            return 0
        seen.add(module)
        count = 0
        for kind in KINDS:
            count += len(getattr(module, kind))
            getattr(module, kind).clear()
        for child in module._modules.values():
            if child is None:
                break
            count += walk(child)
        return count
    return walk(model)
""",
    ),
    Wrong(
        "hooks of torch stay",
        violates="Remove all module hooks from `model`",
        check="test_a_hook_that_torch_registered_is_removed_too",
        source=KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            for key in [key for key, hook in hooks.items() if not type(hook).__module__.startswith("torch")]:
                count += 1
                del hooks[key]
    return count
""",
    ),
    Wrong(
        "walks by hand, and stumbles over a name that holds no module",
        violates="from `model` and from every module in it, at any depth",
        check="raised",
        source="""
def remove_all_hooks(model):
    count = sum(remove_all_hooks(child) for child in model._modules.values())
    for hooks in (model._forward_pre_hooks, model._forward_hooks, model._backward_pre_hooks, model._backward_hooks):
        count += len(hooks)
        hooks.clear()
    return count
""",
    ),
    Wrong(
        "forward hooks only",
        violates="Remove all module hooks",
        check="test_all_module_hooks_are_removed",
        mistake="one-kind-only",
        source="""
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        count += len(module._forward_hooks)
        module._forward_hooks.clear()
    return count
""",
    ),
    Wrong(
        "no legacy hooks",
        violates="of the deprecated `register_backward_hook`",
        check="test_all_module_hooks_are_removed",
        mistake="legacy-left-out",
        source=changed(
            REMOVE,
            "            count += len(hooks)",
            "            if hooks is module._backward_hooks and module._is_full_backward_hook is False:\n"
            "                continue\n            count += len(hooks)",
        ),
    ),
    Wrong(
        "no hooks with options",
        violates="with whatever options they were registered",
        check="test_all_module_hooks_are_removed",
        source=KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            for number in list(hooks):
                if number not in module._forward_hooks_with_kwargs:
                    del hooks[number]
                    count += 1
    return count
""",
    ),
    Wrong(
        "the next level only",
        violates="from every module in it, at any depth",
        check="test_all_module_hooks_are_removed",
        mistake="children-only",
        source=changed(REMOVE, "model.modules()", "model.children()"),
    ),
    Wrong(
        "the model itself only",
        violates="from every module in it, at any depth",
        check="test_all_module_hooks_are_removed",
        mistake="children-only",
        source=changed(REMOVE, "in model.modules()", "in [model]"),
    ),
    Wrong(
        "not the model itself",
        violates="Remove all module hooks from `model`",
        check="test_all_module_hooks_are_removed",
        mistake="root-left-out",
        source=changed(REMOVE, "model.modules():", "list(model.modules())[1:]:"),
    ),
    Wrong(
        "the model itself only when it has parts",
        violates="`model` may be a single layer.",
        check="test_all_module_hooks_are_removed",
        source=changed(
            REMOVE,
            "model.modules():",
            "(list(model.modules()) if list(model.children()) else []):",
        ),
    ),
    Wrong(
        "only modules without children",
        violates="from every module in it, at any depth",
        check="test_all_module_hooks_are_removed",
        mistake="leaves-only",
        source=changed(
            REMOVE,
            "in model.modules():",
            "in [module for module in model.modules() if not list(module.children())]:",
        ),
    ),
    Wrong(
        "only modules with a forward hook",
        violates="Remove all module hooks from `model` and from every module in it",
        check="test_all_module_hooks_are_removed",
        source=changed(REMOVE, "in model.modules():", "in [m for m in model.modules() if m._forward_hooks]:"),
    ),
    Wrong(
        "counts and removes nothing",
        violates="Remove all module hooks",
        check="test_all_module_hooks_are_removed",
        source=REMOVE.replace("            hooks.clear()\n", ""),
    ),
    Wrong(
        "puts hooks that do nothing in their place",
        violates="Remove all module hooks",
        check="test_all_module_hooks_are_removed",
        source=changed(
            REMOVE, "            hooks.clear()", "            hooks.update(dict.fromkeys(hooks, lambda *args: None))"
        ),
    ),
    Wrong(
        "counts a shared module twice",
        violates="The hooks of a module that is in the model under two names",
        check="test_the_number_of_hooks_is_returned",
        mistake="counted-twice",
        source=KINDS
        + """
def remove_all_hooks(model):
    modules = [module for _, module in model.named_modules(remove_duplicate=False)]
    count = sum(len(getattr(module, kind)) for module in modules for kind in KINDS)
    for module in modules:
        for kind in KINDS:
            getattr(module, kind).clear()
    return count
""",
    ),
    Wrong(
        "counts the options",
        violates="Return how many hooks you removed",
        check="test_the_number_of_hooks_is_returned",
        mistake="counted-options",
        source="""
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for name, value in vars(module).items():
            if name.startswith(("_forward", "_backward")) and isinstance(value, dict):
                count += len(value)
                value.clear()
    return count
""",
    ),
    Wrong(
        "counts functions",
        violates="A function that was registered twice is two hooks.",
        check="test_the_number_of_hooks_is_returned",
        mistake="counted-functions",
        source=changed(REMOVE, "len(hooks)", "len(set(hooks.values()))"),
    ),
    Wrong(
        "counts dicts that are not empty",
        violates="Return how many hooks you removed",
        check="test_the_number_of_hooks_is_returned",
        source=changed(REMOVE, "len(hooks)", "bool(hooks)"),
    ),
    Wrong(
        "no count",
        violates="Return how many hooks you removed",
        check="test_the_number_of_hooks_is_returned",
        mistake="no-count",
        source=changed(REMOVE, "    return count\n", ""),
    ),
    Wrong(
        "a float",
        violates="as an `int`",
        check="test_the_number_of_hooks_is_returned",
        source=changed(REMOVE, "    return count", "    return float(count)"),
    ),
    Wrong(
        "never 0",
        violates="without any, the result is 0",
        check="test_the_number_of_hooks_is_returned",
        source=changed(REMOVE, "    return count", "    return max(count, 1)"),
    ),
    Wrong(
        "None instead of 0",
        violates="without any, the result is 0",
        check="test_the_number_of_hooks_is_returned",
        source=changed(REMOVE, "    return count", "    return count or None"),
    ),
    Wrong(
        "plain dicts in their place",
        violates="New hooks of every kind can be registered as usual",
        check="test_new_hooks_can_be_registered",
        mistake="replaced-the-dict",
        source=KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in KINDS:
            count += len(getattr(module, kind))
            setattr(module, kind, {})
    return count
""",
    ),
    Wrong(
        "one dict for all",
        violates="New hooks of every kind can be registered as usual",
        check="test_new_hooks_can_be_registered",
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
        "every module is to take full backward hooks only",
        violates="Only the flag `_is_full_backward_hook`",
        check="test_new_hooks_can_be_registered",
        mistake="flag-set",
        source=changed(REMOVE, "        for hooks", "        module._is_full_backward_hook = True\n        for hooks"),
    ),
    Wrong(
        "hooks can never be called again",
        violates="Afterwards the model behaves as if these hooks had never been there.",
        check="test_all_module_hooks_are_removed",
        source=changed(
            REMOVE, "        for hooks", "        module.forward = lambda *args, **kwargs: args[0]\n        for hooks"
        ),
    ),
    Wrong(
        "numbers of handles begin again",
        violates="its `remove()` raises nothing and removes no new hook",
        check="test_old_handles_stay_harmless",
        source="from torch.utils.hooks import RemovableHandle\n"
        + changed(REMOVE, "    return count", "    RemovableHandle.next_id = 0\n    return count"),
    ),
    Wrong(
        "hooks on parameters",
        violates="Hooks of other kinds stay: on parameters",
        check="test_hooks_of_other_kinds_stay",
        mistake="other-hooks-removed",
        source=changed(
            REMOVE,
            "    return count\n",
            """    for p in model.parameters():
        for hooks in (p._backward_hooks, p._post_accumulate_grad_hooks):
            if hooks:
                hooks.clear()
    return count
""",
        ),
    ),
    Wrong(
        "all dicts of hooks",
        violates="of `state_dict` and `load_state_dict`",
        check="test_hooks_of_other_kinds_stay",
        source=KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for name, value in vars(module).items():
            if "hooks" in name and isinstance(value, dict):
                count += len(value) * (name in KINDS)
                value.clear()
    return count
""",
    ),
    Wrong(
        "the pre-hooks of `load_state_dict`",
        violates="of `state_dict` and `load_state_dict`",
        check="test_hooks_of_other_kinds_stay",
        mistake="other-hooks-removed",
        source=changed(
            REMOVE, "        for hooks", "        module._load_state_dict_pre_hooks.clear()\n        for hooks"
        ),
    ),
    Wrong(
        "hooks for all modules",
        violates="for all modules",
        check="test_hooks_of_other_kinds_stay",
        mistake="other-hooks-removed",
        source="import torch.nn.modules.module as module_file\n"
        + changed(REMOVE, "    return count", "    module_file._global_forward_hooks.clear()\n    return count"),
    ),
    Wrong(
        "never looks at a module twice",
        violates="Every call removes and counts the hooks that are there at that time",
        check="test_hooks_that_come_later_can_be_removed_too",
        source="DONE = set()\n"
        + KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in set(model.modules()) - DONE:
        DONE.add(module)
        for kind in KINDS:
            count += len(getattr(module, kind))
            getattr(module, kind).clear()
    return count
""",
    ),
    Wrong(
        "one hook of each kind",
        violates="Every call removes and counts the hooks",
        check="test_all_module_hooks_are_removed",
        source=KINDS
        + """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for kind in KINDS:
            if getattr(module, kind):
                getattr(module, kind).popitem()
                count += 1
    return count
""",
    ),
    Wrong(
        "eval mode",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source=changed(REMOVE, "    return count", "    model.eval()\n    return count"),
    ),
    Wrong(
        "empties `.grad`",
        violates="rule 2: their `.grad`",
        check="test_nothing_else_changes",
        source=changed(REMOVE, "    return count", "    model.zero_grad()\n    return count"),
    ),
    Wrong(
        "sums up over calls",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_number_of_hooks_is_returned",
        source="COUNT = [0]\n" + changed(REMOVE, "    return count", "    COUNT[0] += count\n    return COUNT[0]"),
    ),
    Wrong(
        "a mark on the model",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_else_changes",
        source=changed(REMOVE, "    return count", "    model.stripped = True\n    return count"),
    ),
]

GIVENS = ["Write `remove_all_hooks(model)`.", "Use the private dicts that *a look inside* shows."]

SURVIVORS = {
    "not for all: for hooks in _part((module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, "
    "module._backward_hooks), step=-1)": "the order does not matter",
    "not for all: for one in _part(dicts, step=-1)": "the order does not matter",
    "not for all: dicts = [getattr(module, name) for module in _part(model.modules(), step=-1)": "the order does not "
    "matter",
    "not for all: dicts = [getattr(module, name) for module in model.modules() for name in _part(NAMES, step=-1": "as "
    "above",
    "not for all: for _, module in _part(model.named_modules(), step=-1)": "the order does not matter",
    "not for all: for name in _part(('_forward_pre_hooks', '_forward_hooks', '_backward_pre_hooks', "
    "'_backward_hooks'), step=-1)": "the order does not matter",
    "not for all: for name, value in _part(vars(module).items()": "the entries at both ends are no hooks",
    "not for all: for key in _part(list(value), step=-1)": "the order does not matter",
    "not for all: return count + sum((strip(child) for child in _part(module.children(), step=-1": "the order does "
    "not matter",
    "not for all: for m in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: for module in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: for d in _part((m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks), "
    "step=-1)": "the order does not matter",
    "not for all: for hooks in _part((m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, "
    "m._backward_pre_hooks), step=-1)": "the order does not matter",
    "not for all: for number in _part(list(hooks), step=-1)": "the order does not matter",
    "not for all: return len([hooks.pop(number) for number in _part(list(hooks), step=-1)": "the order does not matter",
    "a list for a tuple": "only its entries are used",
    "under no_grad": "nothing is computed",
    "lost statement: without module._is_full_backward_hook = None": "the flag may stay",
    "lost statement: without emptied(module._forward_hooks_with_kwargs)": "options of hooks that are gone do no harm",
}
