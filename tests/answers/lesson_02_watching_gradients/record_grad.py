"""Answers to 02-record-grad."""

from graders.author.answers import Wrong

RIGHT = [
    """
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    """
from functools import partial

def keep(store, grad):
    store += [grad.clone().detach()]

def record_grad(t, store):
    return t.register_hook(partial(keep, store))
""",
    """
import torch

class Recorder:
    def __init__(self, store):
        self.store = store
    def __call__(self, grad):
        with torch.no_grad():
            self.store.append(torch.empty_like(grad).copy_(grad))

def record_grad(t, store):
    handle = t.register_hook(Recorder(store))
    return handle
""",
    """
import torch

def record_grad(t, store):
    keep = lambda grad: store.append(grad.detach().clone())
    return torch.autograd.graph.register_multi_grad_hook([t], keep, mode="any")
""",
    """
import torch

def record_grad(t, store):
    @torch.no_grad()
    def hook(grad):
        store.append(grad.clone())
        return grad
    return t.register_hook(hook)
""",
    """
class Recording:
    def __init__(self, t, store):
        self.store = store
        self.inner = t.register_hook(self.keep)
    def keep(self, grad):
        self.store.append(grad.detach().clone())
    def remove(self):
        self.inner.remove()

def record_grad(t, store):
    return Recording(t, store)
""",
]

WRONG = [
    Wrong(
        "through a list, which has no shape where it is empty",
        violates="rule 1: Your function works for tensors of any shape",
        check="test_entries_are_copies_without_a_graph",
        source="""
import torch

def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(torch.tensor(grad.tolist(), dtype=grad.dtype)))
""",
    ),
    Wrong(
        "a handle that silences the hook",
        violates="rule 3: A handle is an object whose `remove()` takes a hook away",
        check="test_nothing_else_changes",
        source="""
class Recording:
    def __init__(self, t, store):
        self.on = True
        self.store = store
        t.register_hook(self.keep)
    def keep(self, grad):
        if self.on:
            self.store.append(grad.detach().clone())
    def remove(self):
        self.on = False

def record_grad(t, store):
    return Recording(t, store)
""",
    ),
    Wrong(
        "no gradient of zeros",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        mistake="zeros-left-out",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone()) if grad.any() else None)
""",
    ),
    Wrong(
        "eight entries at most",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone()) if len(store) < 8 else None)
""",
    ),
    Wrong(
        "infinity is replaced",
        violates="The gradients that flow through `t` stay as they are",
        check="test_the_flow_is_unchanged",
        mistake="numbers-for-infinities",
        source="""
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad.nan_to_num()
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "values",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        mistake="values-not-gradients",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(t.detach().clone()))
""",
    ),
    Wrong(
        "detached, and no copy",
        violates="Each entry is a copy",
        check="test_entries_are_copies_without_a_graph",
        mistake="stored-alias",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach()))
""",
    ),
    Wrong(
        "a copy for other dtypes only",
        violates="Each entry is a copy",
        check="test_entries_are_copies_without_a_graph",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().double().to(grad.dtype)))
""",
    ),
    Wrong(
        "a copy in memory order",
        violates="rule 1: in any layout",
        check="raised",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().view(-1).clone().view(grad.shape)))
""",
    ),
    Wrong(
        "no handle",
        violates="Return a handle",
        check="test_the_handle_removes_its_hook_and_no_other",
        mistake="no-handle",
        source="""
def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "a handle that does nothing",
        violates="after `handle.remove()` nothing is appended any more",
        check="test_the_handle_removes_its_hook_and_no_other",
        source="""
class Handle:
    def remove(self):
        pass

def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
    return Handle()
""",
    ),
    Wrong(
        "a handle that clears all hooks",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_nothing_else_changes",
        source="""
class Handle:
    def __init__(self, t):
        self.remove = lambda: t._backward_hooks.clear()

def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
    return Handle(t)
""",
    ),
    Wrong(
        "a handle that removes the last hook",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_removes_its_hook_and_no_other",
        source="""
class Handle:
    def __init__(self, t):
        self.remove = lambda: t._backward_hooks.popitem()

def record_grad(t, store):
    t.register_hook(lambda grad: store.append(grad.detach().clone()))
    return Handle(t)
""",
    ),
    Wrong(
        "a list of handles",
        violates="Return a handle",
        check="test_the_handle_removes_its_hook_and_no_other",
        source="""
def record_grad(t, store):
    return [t.register_hook(lambda grad: store.append(grad.detach().clone()))]
""",
    ),
    Wrong(
        "a hook on a view",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="raised",
        mistake="hooked-a-copy",
        source="""
def record_grad(t, store):
    return t.view_as(t).register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "a hook on a copy",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        mistake="hooked-a-copy",
        source="""
import torch

def record_grad(t, store):
    with torch.enable_grad():
        return (t * 1).register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "reads .grad",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        mistake="reads-dot-grad",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(None if t.grad is None else t.grad.clone()))
""",
    ),
    Wrong(
        "flattened",
        violates="Each entry is a copy",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().flatten().clone()))
""",
    ),
    Wrong(
        "float32 for everybody",
        violates="with the dtype of the gradient",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.detach().clone().float()))
""",
    ),
    Wrong(
        "a scaled gradient flows on",
        violates="The gradients that flow through `t` stay as they are",
        check="test_the_flow_is_unchanged",
        source="""
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad * 1.5
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "the copy flows on",
        violates="The gradients that flow through `t` stay as they are",
        check="test_the_flow_is_unchanged",
        mistake="returned-the-copy",
        source="""
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return store[-1]
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "a detached gradient flows on",
        violates="rule 5: gradients can be differentiated again",
        check="test_the_flow_is_unchanged",
        source="""
def record_grad(t, store):
    def hook(grad):
        store.append(grad.detach().clone())
        return grad.detach()
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "with its graph",
        violates="without a graph",
        check="test_entries_are_copies_without_a_graph",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: store.append(grad.clone()))
""",
    ),
    Wrong(
        "the first gradient only",
        violates="each backward pass appends the gradient that arrives at `t`",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    return t.register_hook(lambda grad: None if store else store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "a new list each time",
        violates="each backward pass appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    def hook(grad):
        store[:] = [grad.detach().clone()]
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "one slot for all calls",
        violates="rule 1: It works however often it is called",
        check="test_every_gradient_is_recorded",
        source="""
slot = []

def record_grad(t, store):
    while slot:
        slot.pop().remove()
    slot.append(t.register_hook(lambda grad: store.append(grad.detach().clone())))
    return slot[0]
""",
    ),
    Wrong(
        "a hook on the node",
        violates="rule 5: `torch.autograd.grad`",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    if t.is_leaf:
        return t.register_hook(lambda grad: store.append(grad.detach().clone()))
    return t.grad_fn.register_hook(lambda into, grads: store.append(grads[0].detach().clone()))
""",
    ),
    Wrong(
        "runs before the caller's hooks",
        violates="as the hooks that were on `t` before have left it",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    earlier = dict(t._backward_hooks or {})
    if earlier:
        t._backward_hooks.clear()
    handle = t.register_hook(lambda grad: store.append(grad.detach().clone()))
    t._backward_hooks.update(earlier)
    return handle
""",
    ),
    Wrong(
        "the caller's hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def record_grad(t, store):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "retain_grad() on the caller's tensor",
        violates="rule 2: What you were given stays as it was",
        check="test_nothing_else_changes",
        source="""
def record_grad(t, store):
    t.retain_grad()
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "autograd is switched on",
        violates="rule 2: grad mode",
        check="test_nothing_else_changes",
        source="""
import torch

def record_grad(t, store):
    torch.set_grad_enabled(True)
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "plain passes only",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_every_gradient_is_recorded",
        source="""
import torch

def record_grad(t, store):
    return t.register_hook(lambda grad: None if torch.is_grad_enabled() else store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "store is emptied first",
        violates="appends the gradient that arrives at `t` to `store`",
        check="test_every_gradient_is_recorded",
        source="""
def record_grad(t, store):
    store.clear()
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
""",
    ),
    Wrong(
        "leaves grad mode switched off",
        violates="The gradients that flow through `t` stay as they are.",
        check="test_the_flow_is_unchanged",
        source="""
import torch

def record_grad(t, store):
    def hook(grad):
        torch.set_grad_enabled(False)
        store.append(grad.clone())
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "one hook for each list",
        violates="rule 1: on one object or on several at the same time",
        check="test_entries_are_copies_without_a_graph",
        source="""
handles = {}

def record_grad(t, store):
    if id(store) in handles:
        handles[id(store)].remove()
    handles[id(store)] = t.register_hook(lambda grad: store.append(grad.detach().clone()))
    return handles[id(store)]
""",
    ),
]

GIVENS = ["Write `record_grad(t, store)`.", "`t` is a tensor that requires grad, leaf or not.", "`store` is a list."]

SURVIVORS = {
    "under no_grad": "to register a hook makes no graph",
    "lost return: grad": "a hook that watches returns nothing",
}
