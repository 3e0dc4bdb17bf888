"""Answers to 08-predict-module-order."""

from graders.author.answers import Wrong

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

WRONG = [
    Wrong(
        "the hooks of the layer before the global ones",
        violates="then `G` (a global hook)",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        mistake="local-before-global",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "PAG"]
""",
    ),
    Wrong(
        "the order of registration",
        violates="then `P` (`prepend=True`)",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        mistake="registration-order",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "APG"]
""",
    ),
    Wrong(
        "reversed in backward",
        violates="in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        mistake="backward-reversed",
        source="""
def predict_module_order():
    forward = [f"{hook}.{kind}" for kind in ("pre", "fwd") for hook in "GPA"]
    return forward + [f"{hook}.{kind}" for kind in ("bpre", "bwd") for hook in "APG"]
""",
    ),
    Wrong(
        "the global hooks stay",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left-behind",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    handles = []
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        anywhere((lambda *a, kind=kind: events.append(f"G.{kind}")))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    return list(events)
""",
    ),
    Wrong(
        "the global hooks stay, and are mute",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    awake = [True]
    for anywhere in (everywhere.register_module_forward_hook, everywhere.register_module_full_backward_hook):
        anywhere(lambda *a: print(a) if awake else None)
    awake.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "nothing at all",
        violates="the twelve labels in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return []
""",
    ),
    Wrong(
        "a generator",
        violates="the twelve labels in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return (f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA")
""",
    ),
    Wrong(
        "other labels for the pre-hooks",
        violates="the twelve labels in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("fpre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "all hooks of one letter together",
        violates="in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for hook in "GPA" for kind in ("pre", "fwd", "bpre", "bwd")]
""",
    ),
    Wrong(
        "the full backward hooks before their pre-hooks",
        violates="in the order in which they fire",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bwd", "bpre") for hook in "GPA"]
""",
    ),
    Wrong(
        "the events of two passes",
        violates="in one forward and backward pass",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    handles = []
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        handles.append(anywhere(lambda *a, kind=kind: events.append(f"G.{kind}")))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    for handle in handles:
        handle.remove()
    return events
""",
    ),
    Wrong(
        "empties the list of global hooks",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_forward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "empties the list of global pre-hooks of backward",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
from torch.nn.modules import module as everywhere

def predict_module_order():
    everywhere._global_backward_pre_hooks.clear()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "puts the hooks of others away and back in another order",
        violates="rule 3: the same ones in the same order",
        check="test_all_is_in_order_when_a_hook_of_the_caller_raises",
        source="""
from torch.nn.modules import module as everywhere

def predict_module_order():
    hooks = everywhere._global_forward_hooks
    for number in list(hooks)[:1]:
        hooks[-1] = hooks.pop(number)
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "the list goes on growing from call to call",
        violates="rule 1: It works however often it is called",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
labels = []

def predict_module_order():
    labels.extend(f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA")
    return labels
""",
    ),
    Wrong(
        "an exception of a hook of the caller leaves the global hooks",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_all_is_in_order_when_a_hook_of_the_caller_raises",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    handles = []
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        handles.append(anywhere(lambda *a, kind=kind: events.append(f"G.{kind}")))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    for handle in handles:
        handle.remove()
    return events
""",
    ),
    Wrong(
        "removes its hooks after an Exception alone",
        violates="rule 4: That holds for every exception, also for `KeyboardInterrupt`",
        check="test_all_is_in_order_when_a_hook_of_the_caller_raises",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    handles = []
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        handles.append(anywhere(lambda *a, kind=kind: events.append(f"G.{kind}")))
    try:
        layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return events
""",
    ),
    Wrong(
        "swallows the exception",
        violates="rule 4: the caller of your function gets this",
        check="test_all_is_in_order_when_a_hook_of_the_caller_raises",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    events = []
    layer = torch.nn.Linear(1, 1)
    handles = []
    for kind, local, anywhere in (
        ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
        ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
        ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
        ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
    ):
        local(lambda *a, kind=kind: events.append(f"A.{kind}"))
        local(lambda *a, kind=kind: events.append(f"P.{kind}"), prepend=True)
        handles.append(anywhere(lambda *a, kind=kind: events.append(f"G.{kind}")))
    try:
        layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    except BaseException:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]
""",
    ),
    Wrong(
        "sorts hooks by the values that reach them",
        violates="and may replace values",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
import torch
from torch.nn.modules import module as everywhere

def predict_module_order():
    layer, seen = torch.nn.Identity(), []
    with everywhere.register_module_forward_pre_hook(lambda module, args: args[0] + 1):
        plain = layer(torch.tensor(0.0)).item() == 1.0
    hooks = "GPA" if plain else "PGA"
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in hooks]
""",
    ),
    Wrong(
        "the last label is missing",
        violates="the twelve labels",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        source="""
def predict_module_order():
    return [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"][:-1]
""",
    ),
]

WRONG += [
    Wrong(
        "one list for all calls",
        violates="Return, as a new list",
        check="test_each_call_returns_a_new_list",
        mistake="the-same-list",
        source="""
LABELS = [f"{hook}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for hook in "GPA"]

def predict_module_order():
    return LABELS
""",
    ),
    Wrong(
        "measures once and for all, also where that is broken off",
        violates="rule 1: It works however often it is called",
        check="test_all_is_in_order_when_a_hook_of_the_caller_raises",
        mistake="kept-after-a-failure",
        source="""
from contextlib import ExitStack
import torch
from torch.nn.modules import module as everywhere

known = []

def predict_module_order():
    if known:
        return list(known)
    layer = torch.nn.Linear(1, 1)
    with ExitStack() as stack:
        for kind, local, anywhere in (
            ("pre", layer.register_forward_pre_hook, everywhere.register_module_forward_pre_hook),
            ("fwd", layer.register_forward_hook, everywhere.register_module_forward_hook),
            ("bpre", layer.register_full_backward_pre_hook, everywhere.register_module_full_backward_pre_hook),
            ("bwd", layer.register_full_backward_hook, everywhere.register_module_full_backward_hook),
        ):
            local(lambda *a, kind=kind: known.append(f"A.{kind}"))
            local(lambda *a, kind=kind: known.append(f"P.{kind}"), prepend=True)
            stack.enter_context(anywhere(lambda *a, kind=kind: known.append(f"G.{kind}")))
        layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    return list(known)
""",
    ),
    Wrong(
        "one list for all calls, to which each adds",
        violates="Return, as a new list",
        check="test_the_twelve_hooks_are_in_the_order_in_which_they_fire",
        mistake="kept-from-call-to-call",
        source="""
def predict_module_order(found=[]):
    found += [f"{letter}.{kind}" for kind in ("pre", "fwd", "bpre", "bwd") for letter in "GPA"]
    return list(found)
""",
    ),
]

SURVIVORS = {
    "a hook that works at times: @_not_the_first_call def": "the first call of all is broken off by an exception",
    "a cache by": "the list is the same each time",
    "only the first call": "the list is the same each time",
    "one global slot: handles": "to remove handles of earlier calls again does nothing",
    "not for all: for kind, (local": "all of them, in the reverse order",
    "not for all: for kind, name": "all of them, in the reverse order",
    "almost: layer": "the order is the same for other sizes, and for one layer whose input requires no grad",
    "another method: layer": "the order is the same for another loss",
    "under no_grad": "a list that is written down needs no graph",
}
