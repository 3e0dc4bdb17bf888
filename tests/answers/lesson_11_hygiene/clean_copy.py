"""Answers to 11-clean-copy."""

from graders.author.answers import Wrong

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

KINDS = """
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""

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
        "hooks of torch are copied",
        violates="but without module hooks of any kind",
        check="test_a_hook_that_torch_registered_is_not_copied",
        source=KINDS
        + """
from copy import deepcopy

def clean_copy(model):
    copied = deepcopy(model)
    for module in copied.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            for key in [key for key, hook in hooks.items() if not type(hook).__module__.startswith("torch")]:
                del hooks[key]
    return copied
""",
    ),
    Wrong(
        "takes the hooks of the original away, and puts them back in other dicts",
        violates="Their handles still work.",
        check="test_the_original_stays_as_it_was",
        source=KINDS
        + """
from collections import OrderedDict
from copy import deepcopy

def clean_copy(model):
    away = [(m, kind, getattr(m, kind)) for m in model.modules() for kind in KINDS]
    for m, kind, hooks in away:
        setattr(m, kind, OrderedDict())
    try:
        return deepcopy(model)
    finally:
        for m, kind, hooks in away:
            setattr(m, kind, OrderedDict(hooks))
""",
    ),
    Wrong(
        "loads the state of the original, whose hooks fire",
        violates="None of the hooks of the original fires during the call (those of `state_dict` neither)",
        check="test_the_hooks_of_the_original_fire_for_it_alone",
        source=changed(COPY, "    return copied", "    copied.load_state_dict(model.state_dict())\n    return copied"),
    ),
    Wrong(
        "one dict of forward hooks for all modules",
        violates="New hooks can be registered on the copy as usual",
        check="test_new_hooks_can_be_registered_on_the_copy",
        source=changed(
            COPY,
            "    return copied",
            "    for module in copied.modules():\n        module._forward_hooks = copied._forward_hooks\n"
            "    return copied",
        ),
    ),
    Wrong(
        "a deep copy with its hooks",
        violates="but without module hooks of any kind",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="hooks-copied",
        source="import copy\n\ndef clean_copy(model):\n    return copy.deepcopy(model)\n",
    ),
    Wrong(
        "strips the original",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_the_original_stays_as_it_was",
        mistake="cleared-original",
        source=changed(
            COPY,
            "    copied = copy.deepcopy(model)\n    remove_all_hooks(copied)\n    return copied",
            "    remove_all_hooks(model)\n    return copy.deepcopy(model)",
        ),
    ),
    Wrong(
        "a shallow copy",
        violates="Return a deep copy of it",
        check="test_copy_and_original_share_nothing",
        mistake="shared-parameters",
        source="""
import copy
from collections import OrderedDict

def clean_copy(model):
    copied = copy.copy(model)
    for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
        setattr(copied, name, OrderedDict())
    return copied
""",
    ),
    Wrong(
        "the parameters of the original in the copy",
        violates="It shares no memory with the original.",
        check="test_copy_and_original_share_nothing",
        mistake="shared-parameters",
        source=changed(
            COPY, "    return copied", "    copied.load_state_dict(model.state_dict(), assign=True)\n    return copied"
        ),
    ),
    Wrong(
        "the buffers of the original in the copy",
        violates="It shares no memory with the original.",
        check="test_copy_and_original_share_nothing",
        mistake="shared-parameters",
        source=changed(
            COPY, "copy.deepcopy(model)", "copy.deepcopy(model, {id(buffer): buffer for buffer in model.buffers()})"
        ),
    ),
    Wrong(
        "forward hooks only",
        violates="without module hooks of any kind",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="one-kind-only",
        source="""
import copy

def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    return copied
""",
    ),
    Wrong(
        "the next level only",
        violates="on any of `model.modules()`",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="children-only",
        source=changed(COPY, "model.modules()", "model.children()"),
    ),
    Wrong(
        "the model itself only",
        violates="on any of `model.modules()`",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="children-only",
        source=changed(COPY, "in model.modules()", "in [model]"),
    ),
    Wrong(
        "not the model itself",
        violates="it may be a single layer",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="root-left-out",
        source=changed(COPY, "model.modules():", "list(model.modules())[1:]:"),
    ),
    Wrong(
        "modules without children only",
        violates="on any of `model.modules()`",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        mistake="leaves-only",
        source=changed(
            COPY, "in model.modules():", "in [module for module in model.modules() if not list(module.children())]:"
        ),
    ),
    Wrong(
        "new parameters, each for itself",
        violates="What is shared inside the model",
        check="test_what_is_shared_stays_shared_inside_the_copy",
        mistake="broken-ties",
        source="import torch\n"
        + changed(
            COPY,
            "    return copied\n",
            """    for module in copied.modules():
        for name, p in module.named_parameters(recurse=False):
            setattr(module, name, torch.nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad))
    return copied
""",
        ),
    ),
    Wrong(
        "a module under two names becomes two",
        violates="is shared in the same way inside the copy",
        check="test_what_is_shared_stays_shared_inside_the_copy",
        mistake="broken-ties",
        source=changed(
            COPY,
            "    return copied\n",
            """    for module in list(copied.modules()):
        for name, child in list(module.named_children()):
            pass
        for name, child in list(module._modules.items()):
            if list(module._modules.values()).count(child) > 1:
                module._modules[name] = copy.deepcopy(child)
    return copied
""",
        ),
    ),
    Wrong(
        "eval mode",
        violates="the same modes",
        check="test_the_copy_has_everything_else",
        mistake="changed-the-mode",
        source=changed(COPY, "    return copied", "    return copied.eval()"),
    ),
    Wrong(
        "all in the mode of the model",
        violates="the same modes",
        check="test_the_copy_has_everything_else",
        mistake="changed-the-mode",
        source=changed(COPY, "    return copied", "    return copied.train(model.training)"),
    ),
    Wrong(
        "nothing",
        violates="Return a deep copy of it",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        source="def clean_copy(model):\n    return None",
    ),
    Wrong(
        "the model itself",
        violates="Return a deep copy of it",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        source="def clean_copy(model):\n    return model",
    ),
    Wrong(
        "everything requires grad",
        violates="the same `requires_grad`",
        check="test_the_copy_has_everything_else",
        mistake="changed-requires-grad",
        source=changed(COPY, "    return copied", "    return copied.requires_grad_(True)"),
    ),
    Wrong(
        "another dtype",
        violates="equal parameters and buffers",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        source=changed(COPY, "    return copied", "    return copied.double()"),
    ),
    Wrong(
        "through float32",
        violates="equal parameters and buffers",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        source=changed(
            COPY,
            "    return copied",
            "    for p in copied.parameters():\n        p.data = p.data.float().to(p.dtype)\n    return copied",
        ),
    ),
    Wrong(
        "buffers that `state_dict` leaves out are empty",
        violates="equal parameters and buffers",
        check="test_the_copy_has_everything_else",
        source=changed(
            COPY,
            "    return copied",
            """    for module in copied.modules():
        for name in module._non_persistent_buffers_set:
            module._buffers[name].zero_()
    return copied""",
        ),
    ),
    Wrong(
        "only the layers, in a row",
        violates="the same types of modules under the same names",
        check="test_the_copy_has_no_hooks_and_computes_the_same",
        source="""
import copy
import torch

def clean_copy(model):
    layers = [copy.deepcopy(child) for child in model.children() if not isinstance(child, torch.nn.ModuleList)]
    return torch.nn.Sequential(*layers)
""",
    ),
    Wrong(
        "packed into another module",
        violates="the same types of modules under the same names",
        check="test_the_copy_has_everything_else",
        source=COPY
        + """
from torch import nn

class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner.forward(x)

plain = clean_copy

def clean_copy(model):
    return Wrapped(plain(model))
""",
    ),
    Wrong(
        "the hooks of `state_dict` go, too",
        violates="Hooks of `state_dict` and `load_state_dict` are copied.",
        check="test_the_copy_has_everything_else",
        source=changed(
            COPY,
            "    return copied",
            """    for module in copied.modules():
        for name, value in vars(module).items():
            if "_hooks" in name:
                value.clear()
    return copied""",
        ),
    ),
    Wrong(
        "copies the gradients",
        violates="Hooks on parameters and `.grad` are not",
        check="test_the_copy_has_everything_else",
        mistake="copied-gradients",
        source=changed(
            COPY,
            "    return copied",
            """    for one, other in zip(copied.parameters(), model.parameters()):
        one.grad = None if other.grad is None else other.grad.clone()
    return copied""",
        ),
    ),
    Wrong(
        "copies the hooks on parameters",
        violates="Hooks on parameters and `.grad` are not",
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
        "plain dicts on the copy",
        violates="New hooks can be registered on the copy as usual",
        check="test_new_hooks_can_be_registered_on_the_copy",
        mistake="replaced-the-dict",
        source="import copy\n"
        + KINDS
        + """
def clean_copy(model):
    copied = copy.deepcopy(model)
    for module in copied.modules():
        for kind in KINDS:
            setattr(module, kind, {})
    return copied
""",
    ),
    Wrong(
        "every module of the copy is to take full backward hooks only",
        violates="may be that of the original, or `None`",
        check="test_new_hooks_can_be_registered_on_the_copy",
        mistake="flag-set",
        source=changed(
            COPY,
            "    return copied",
            "    for module in copied.modules():\n        module._is_full_backward_hook = True\n    return copied",
        ),
    ),
    Wrong(
        "whole numbers begin anew",
        violates="equal parameters and buffers",
        check="test_the_copy_has_everything_else",
        source=changed(
            COPY,
            "    return copied",
            "    for b in copied.buffers():\n        b *= b.is_floating_point()\n    return copied",
        ),
    ),
    Wrong(
        "runs the original",
        violates="None of the hooks of the original fires during the call",
        check="test_the_hooks_of_the_original_fire_for_it_alone",
        source="import torch\n"
        + changed(
            COPY,
            "    return copied",
            "    for weight in [*model.parameters()][:1]:\n"
            "        model(torch.ones(1, weight.shape[-1], dtype=weight.dtype))\n    return copied",
        ),
    ),
    Wrong(
        "empties `.grad` of the original",
        violates="rule 2: their `.grad`",
        check="test_the_original_stays_as_it_was",
        source=changed(COPY, "    copied = copy.deepcopy", "    model.zero_grad()\n    copied = copy.deepcopy"),
    ),
    Wrong(
        "forgets options of the original",
        violates="rule 3: the same ones in the same order",
        check="test_the_original_stays_as_it_was",
        source=changed(
            COPY,
            "    return copied",
            "    for module in model.modules():\n        module._forward_hooks_with_kwargs.clear()\n    return copied",
        ),
    ),
    Wrong(
        "puts the hooks back in another order",
        violates="rule 3: the same ones in the same order",
        check="test_the_original_stays_as_it_was",
        source="import copy\n"
        + KINDS
        + """
def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            saved.append((hooks, list(hooks.items())))
            hooks.clear()
    try:
        return copy.deepcopy(model)
    finally:
        for hooks, entries in saved:
            hooks.update(reversed(entries))
""",
    ),
    Wrong(
        "puts copies of hooks back",
        violates="rule 3: the same ones in the same order",
        check="test_the_original_stays_as_it_was",
        source="import copy\n"
        + KINDS
        + """
def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            saved.append((hooks, copy.deepcopy(dict(hooks))))
            hooks.clear()
    try:
        return copy.deepcopy(model)
    finally:
        for hooks, entries in saved:
            hooks.update(entries)
""",
    ),
    Wrong(
        "new dicts on the original",
        violates="rule 3: the same ones in the same order",
        check="test_the_original_stays_as_it_was",
        source="from collections import OrderedDict\n"
        + KINDS
        + changed(
            COPY,
            "    return copied",
            """    for module in model.modules():
        for kind in KINDS:
            setattr(module, kind, OrderedDict(getattr(module, kind)))
    return copied""",
        ),
    ),
    Wrong(
        "puts the hooks back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check="test_it_holds_when_a_part_cannot_be_copied",
        source="import copy\n"
        + KINDS
        + """
def clean_copy(model):
    saved = []
    for module in model.modules():
        for kind in KINDS:
            hooks = getattr(module, kind)
            saved.append((hooks, dict(hooks)))
            hooks.clear()
    copied = copy.deepcopy(model)
    for hooks, entries in saved:
        hooks.update(entries)
    return copied
""",
    ),
    Wrong(
        "returns nothing when something cannot be copied",
        violates="the exception of `copy.deepcopy` comes through",
        check="test_it_holds_when_a_part_cannot_be_copied",
        source=changed(
            COPY,
            "    copied = copy.deepcopy(model)\n",
            "    try:\n        copied = copy.deepcopy(model)\n    except Exception:\n        return None\n",
        ),
    ),
    Wrong(
        "one copy of each model for all time",
        violates="rule 1: It works however often it is called",
        check="test_the_copy_has_everything_else",
        source=COPY
        + """
plain, MADE = clean_copy, {}

def clean_copy(model):
    return MADE.setdefault(model, plain(model))
""",
    ),
    Wrong(
        "no copy of what has no parameters",
        violates="Return a deep copy of it",
        check="test_copy_and_original_share_nothing",
        source=changed(COPY, "    copied =", "    if not [*model.parameters()]:\n        return model\n    copied ="),
    ),
    Wrong(
        "does not copy the hooks, nor what else they are",
        violates="Return a deep copy of it, as\n    `copy.deepcopy` makes it",
        check="test_copy_and_original_share_nothing",
        source=changed(
            COPY,
            "copy.deepcopy(model)",
            "copy.deepcopy(model, {id(f): f for m in model.modules() for f in m._forward_hooks.values()})",
        ),
    ),
]

SURVIVORS = {
    "not for all: for module in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: for module in _part(copied.modules(), step=-1)": "the order does not matter",
    "not for all: for m in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: for hooks in _part((module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, "
    "module._backward_hooks), step=-1)": "the order does not matter",
    "not for all: for key in _part(KINDS, step=-1)": "the order does not matter",
    "not for all: for kind in _part(KINDS, step=-1)": "the order does not matter",
    "not for all: for hooks, entries in _part(saved, step=-1)": "the order does not matter",
    "not for all: for (m, key), value in _part(held.items(), step=-1)": "the order does not matter",
    "not for all: return copy.deepcopy(model).apply(lambda module: [getattr(module, kind).clear() for kind in "
    "_part(KINDS, step=-1)])": "the order does not matter",
    "lost return: return copy.deepcopy(model).apply(lambda module: (None,": "`apply` drops what its function returns",
    "under no_grad": "nothing is computed",
    "lost statement: without module._is_full_backward_hook = None": "the flag may be that of the original",
    "one global slot: held = ": "what is put back are the dicts that the modules have anyway",
}

GIVENS = ["Write `clean_copy(model)`.", "`model` is an `nn.Module`"]
