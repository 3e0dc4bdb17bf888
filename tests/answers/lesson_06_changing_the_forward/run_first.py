"""Answers to 06-run-first."""

from graders.author.answers import Wrong

RIGHT = [
    """
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True)
""",
    """
def run_first(module, hook):
    def first(module, args, kwargs, output):
        return hook(module, args, output)
    return module.register_forward_hook(first, prepend=True, with_kwargs=True)
""",
    """
def run_first(module, hook):
    handle = module.register_forward_hook(lambda *given: hook(*given))
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
    """
class Handle:
    def __init__(self, inner):
        self.inner = inner
    def remove(self):
        self.inner.remove()

def run_first(module, hook):
    return Handle(module.register_forward_hook(hook, prepend=True))
""",
]

WRONG = [
    Wrong(
        "gives the hook a view of the output",
        violates="with the output itself",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
import torch

def run_first(module, hook):
    def first(module, args, output):
        return hook(module, args, output.view_as(output) if isinstance(output, torch.Tensor) else output)
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "swallows a StopIteration of the hook",
        violates="What it returns or raises counts as with any forward hook",
        check="test_an_exception_of_the_hook_comes_through",
        source="""
def run_first(module, hook):
    def first(*given):
        try:
            return hook(*given)
        except StopIteration:
            return None
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "leaves out a call that the hook makes itself",
        violates="in every call from now on",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
def run_first(module, hook):
    busy = []
    def first(*given):
        if busy:
            return None
        busy.append(True)
        try:
            return hook(*given)
        finally:
            busy.clear()
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "does nothing",
        violates="Register it on `module`",
        check="test_the_hook_runs_before_the_others",
        source="""
def run_first(module, hook):
    pass
""",
    ),
    Wrong(
        "registers it last",
        violates="before all forward hooks that `module` has at this moment",
        check="test_the_hook_runs_before_the_others",
        mistake="registration-order",
        source="""
def run_first(module, hook):
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "in front of two and more",
        violates="before all forward hooks that `module` has at this moment",
        check="test_the_hook_runs_before_the_others",
        mistake="registration-order",
        source="""
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=len(module._forward_hooks) > 1)
""",
    ),
    Wrong(
        "clears the others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_the_hook_runs_before_the_others",
        mistake="removed-others",
        source="""
def run_first(module, hook):
    module._forward_hooks.clear()
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "registers the others anew",
        violates="The handles of the other hooks still remove them.",
        check="raised",
        mistake="removed-others",
        source="""
def run_first(module, hook):
    others = list(module._forward_hooks.values())
    module._forward_hooks.clear()
    handle = module.register_forward_hook(hook)
    for other in others:
        module.register_forward_hook(other)
    return handle
""",
    ),
    Wrong(
        "a new dict of hooks",
        violates="The handles of the other hooks still remove them.",
        check="test_each_handle_removes_its_own_hook",
        mistake="removed-others",
        source="""
import collections

def run_first(module, hook):
    handle = module.register_forward_hook(hook)
    old = module._forward_hooks
    module._forward_hooks = collections.OrderedDict([(handle.id, hook)])
    module._forward_hooks.update((key, one) for key, one in old.items() if key != handle.id)
    class Handle:
        def remove(self):
            module._forward_hooks.pop(handle.id, None)
    return Handle()
""",
    ),
    Wrong(
        "a pre-hook",
        violates="`hook` is a forward hook, called as `hook(module, args, output)`",
        check="raised",
        mistake="wrong-hook-kind",
        source="""
def run_first(module, hook):
    return module.register_forward_pre_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "loses what the hook returns",
        violates="What it returns or raises counts as with any forward hook",
        check="test_the_hook_runs_before_the_others",
        mistake="forgot-return",
        source="""
def run_first(module, hook):
    def first(module, args, output):
        hook(module, args, output)
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "no handle",
        violates="Return its handle",
        check="test_the_later_of_two_runs_first",
        mistake="no-handle",
        source="""
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "a hook that expects keywords",
        violates="called as `hook(module, args, output)`",
        check="raised",
        source="""
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True, with_kwargs=True)
""",
    ),
    Wrong(
        "calls the hook now, too",
        violates="in every call from now on it runs once",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
import torch

def run_first(module, hook):
    try:
        hook(module, (), torch.zeros(1))
    except BaseException:
        pass
    return module.register_forward_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "registers it twice",
        violates="in every call from now on it runs once",
        check="test_the_hook_runs_before_the_others",
        source="""
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    return module.register_forward_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "calls it twice",
        violates="in every call from now on it runs once",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        hook(m, a, o)
        return hook(m, a, o)
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "packs the arguments once more",
        violates="called as `hook(module, args, output)`",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, (a,), o), prepend=True)
""",
    ),
    Wrong(
        "gives it a copy",
        violates="with the output itself",
        check="test_its_result_counts_as_with_any_forward_hook",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        return hook(m, a, o.clone() if hasattr(o, "clone") else o)
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "detaches what the hook returns",
        violates="What it returns or raises counts as with any forward hook",
        check="test_its_result_counts_as_with_any_forward_hook",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        new = hook(m, a, o)
        return new.detach() if hasattr(new, "detach") else new
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "tensors alone",
        violates="anything but `None` replaces the output, even `False`",
        check="test_its_result_counts_as_with_any_forward_hook",
        source="""
import torch

def run_first(module, hook):
    def wrapped(m, a, o):
        r = hook(m, a, o)
        return r if torch.is_tensor(r) else o
    return module.register_forward_hook(wrapped, prepend=True)
""",
    ),
    Wrong(
        "nothing for False",
        violates="anything but `None` replaces the output, even `False`",
        check="test_its_result_counts_as_with_any_forward_hook",
        source="""
import torch

def run_first(module, hook):
    def first(m, a, o):
        new = hook(m, a, o)
        return new if torch.is_tensor(new) or new else None
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "swallows what the hook raises",
        violates="What it returns or raises counts as with any forward hook",
        check="test_an_exception_of_the_hook_comes_through",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        try:
            return hook(m, a, o)
        except Exception:
            return None
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "swallows interrupts",
        violates="What it returns or raises counts as with any forward hook",
        check="test_an_exception_of_the_hook_comes_through",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        try:
            return hook(m, a, o)
        except KeyboardInterrupt:
            return None
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "on modules inside, too",
        violates="Register it on `module`",
        check="test_nothing_else_changes",
        source="""
import torch.nn as nn

def run_first(module, hook):
    nn.Module.register_forward_hook(module, lambda m, a, o: None)
    return module.register_forward_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "for all modules, and in front of these hooks",
        violates="Register it on `module`",
        check="test_nothing_else_changes",
        mistake="for-all-modules",
        source="""
from torch.nn.modules import module as modules

def run_first(target, hook):
    handle = modules.register_module_forward_hook(lambda m, a, o: hook(m, a, o) if m is target else None)
    modules._global_forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
    ),
    Wrong(
        "the second one behind the first",
        violates="the later hook runs before the earlier one",
        check="test_the_later_of_two_runs_first",
        source="""
import weakref
SEEN = weakref.WeakKeyDictionary()

def run_first(module, hook):
    hooks = SEEN.setdefault(module, [])
    hooks.append(hook)
    if len(hooks) > 1:
        def both(m, a, o):
            new = hooks[0](m, a, o)
            new = o if new is None else new
            last = hook(m, a, new)
            return new if last is None else last
        handle = module.register_forward_hook(hook)
        for key in list(module._forward_hooks)[1:-1]:
            module._forward_hooks.move_to_end(key)
        class Handle:
            def remove(self):
                hooks.remove(hook)
                handle.remove()
        return Handle()
    handle = module.register_forward_hook(hook, prepend=True)
    class Handle:
        def remove(self):
            hooks.remove(hook)
            handle.remove()
    return Handle()
""",
    ),
    Wrong(
        "a handle that clears all hooks",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_later_of_two_runs_first",
        source="""
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    class Handle:
        def remove(self):
            module._forward_hooks.clear()
    return Handle()
""",
    ),
    Wrong(
        "in training mode only",
        violates="in every call from now on",
        check="test_the_hook_runs_before_the_others",
        source="""
def run_first(module, hook):
    def first(m, a, o):
        return hook(m, a, o) if m.training or not hasattr(o, "shape") else None
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "called when `forward` has raised, too",
        violates="It is not called when `forward` raises.",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True, always_call=True)
""",
    ),
    Wrong(
        "a hook that is there already is not registered again",
        violates="Register it on `module`",
        check="test_the_later_of_two_runs_first",
        source="""
def run_first(module, hook):
    if hook in module._forward_hooks.values():
        return module.register_forward_hook(lambda m, a, o: None)
    return module.register_forward_hook(hook, prepend=True)
""",
    ),
    Wrong(
        "eval mode for a moment",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def run_first(module, hook):
    training = module.training
    module.eval()
    handle = module.register_forward_hook(hook, prepend=True)
    module.train(training)
    return handle
""",
    ),
    Wrong(
        "turns a ValueError into a warning",
        violates="What it returns or raises counts as with any forward hook",
        check="test_an_exception_of_the_hook_comes_through",
        source="""
import warnings

def run_first(module, hook):
    def first(module, args, output):
        try:
            return hook(module, args, output)
        except ValueError as error:
            warnings.warn(str(error))
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "silent once the hook has raised",
        violates="in every call from now on",
        check="test_an_exception_of_the_hook_comes_through",
        source="""
def run_first(module, hook):
    running = []
    def first(module, args, output):
        if not running:
            running.append(True)
            result = hook(module, args, output)
            running.clear()
            return result
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "`remove()` takes what is first",
        violates="rule 3: it removes exactly the hook",
        check="test_each_handle_removes_its_own_hook",
        source="""
class Handle:
    def __init__(self, hooks):
        self.hooks = hooks
    def remove(self):
        if self.hooks:
            self.hooks.popitem(last=False)

def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    return Handle(module._forward_hooks)
""",
    ),
]

GIVENS = ["Write `run_first(module, hook)`"]

SURVIVORS = {
    "under no_grad": "to register a hook makes no graph",
    "prepend=True: handle = module.register_forward_hook": "it is put in front with the next line",
}
