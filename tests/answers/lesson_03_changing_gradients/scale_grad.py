"""Answers to 03-scale-grad."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * s)
""",
    """
import functools
import torch

def scale_grad(t, s):
    return t.register_hook(functools.partial(torch.mul, s))
""",
    """
class Scaler:
    def __init__(self, factor):
        self.factor = factor
    def __call__(self, grad):
        new = grad.clone()
        new.mul_(self.factor)
        return new

def scale_grad(t, s):
    handle = t.register_hook(Scaler(s))
    return handle
""",
    """
import torch

def scale_grad(t, s):
    def hook(grad):
        return torch.full_like(grad, s).mul_(grad)
    return t.register_hook(hook)
""",
    """
import torch

class Handle:
    def __init__(self, handle):
        self.handle = handle
    def remove(self):
        self.handle.remove()

def scale_grad(t, s):
    return Handle(t.register_hook(torch.tensor(s, dtype=t.dtype).mul))
""",
]

WRONG = [
    Wrong(
        "a gradient that came in the pass before is not scaled again",
        violates="in every backward pass",
        check="test_every_pass_is_scaled_once",
        source="""
def scale_grad(t, s):
    last = []
    def hook(grad):
        if last and last[0] is grad:
            return None
        last[:] = [grad]
        return grad * s
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "no hook where there is nothing to scale",
        violates="Return the handle",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def scale_grad(t, s):
    return None if s == 1 else t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "writes into the gradient",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.mul_(s))
""",
    ),
    Wrong(
        "forgets to return",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_the_gradient_is_scaled",
        mistake="forgot-return",
        source="""
def scale_grad(t, s):
    def hook(grad):
        grad = grad * s
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "multiplies the values",
        violates="rule 2: Tensors keep their values",
        check="test_the_gradient_is_scaled",
        mistake="changed-values",
        source="""
def scale_grad(t, s):
    t.data = t.data * s
    return t.register_hook(lambda grad: None)
""",
    ),
    Wrong(
        "scales `.grad`, the total",
        violates="before it goes on: into `t.grad`",
        check="raised",
        mistake="wrong-hook-kind",
        source="""
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    return t.register_post_accumulate_grad_hook(hook)
""",
    ),
    Wrong(
        "hooks a new tensor",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="raised",
        mistake="hooked-a-copy",
        source="""
def scale_grad(t, s):
    return (t * 1).register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "a new tensor in the default dtype",
        violates="of any floating dtype",
        check="raised",
        mistake="changed-dtype",
        source="""
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: torch.full(grad.shape, s) * grad)
""",
    ),
    Wrong(
        "a detour through float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: (grad.float() * s).to(grad.dtype))
""",
    ),
    Wrong(
        "does nothing",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    pass
""",
    ),
    Wrong(
        "copies an expanded gradient, and writes into every other one",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_nothing_else_changes",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.contiguous().mul_(s))
""",
    ),
    Wrong(
        "returns no handle",
        violates="Return the handle.",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "scales the first pass only",
        violates="in every backward pass",
        check="test_every_pass_is_scaled_once",
        source="""
def scale_grad(t, s):
    left = [s]
    return t.register_hook(lambda grad: grad * (left.pop() if left else 1))
""",
    ),
    Wrong(
        "scales the total on leaves",
        violates="before it goes on: into `t.grad`",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    def hook(p):
        p.grad.mul_(s)
    if t.is_leaf:
        return t.register_post_accumulate_grad_hook(hook)
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "scales twice",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    t.register_hook(lambda grad: grad)
    return t.register_hook(lambda grad: grad * s * s)
""",
    ),
    Wrong(
        "throws other hooks out",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
def scale_grad(t, s):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "leaves a second hook behind",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return t.register_hook(lambda grad: grad)
""",
    ),
    Wrong(
        "one hook for the whole notebook",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_gradient_is_scaled",
        source="""
current = {}

def scale_grad(t, s):
    if "handle" in current:
        current["handle"].remove()
    current["handle"] = t.register_hook(lambda grad: grad * s)
    return current["handle"]
""",
    ),
    Wrong(
        "one number for all tensors",
        violates="rule 1: on one object or on several at the same time",
        check="test_the_gradient_is_scaled",
        mistake="one-slot-for-all",
        source="""
factor = 1.0

def scale_grad(t, s):
    global factor
    factor = s
    return t.register_hook(lambda grad: grad * factor)
""",
    ),
    Wrong(
        "loses the sign",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * abs(s))
""",
    ),
    Wrong(
        "fills or retains `.grad`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_nothing_else_changes",
        source="""
import torch

def scale_grad(t, s):
    if t.is_leaf:
        t.grad = torch.zeros_like(t)
    else:
        t.retain_grad()
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "a pre-hook of the node that accumulates, which `autograd.grad` does not run",
        violates="rule 5: `torch.autograd.grad`",
        check="test_the_gradient_is_scaled",
        source="""
import torch

def scale_grad(t, s):
    with torch.enable_grad():
        node = t.grad_fn if t.grad_fn is not None else t.view_as(t).grad_fn.next_functions[0][0]
    handle = node.register_prehook(lambda grads: tuple(g * s for g in grads))
    handle.node = node
    return handle
""",
    ),
    Wrong(
        "hooks leaves only",
        violates="leaf or not",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * s if t.is_leaf else None)
""",
    ),
    Wrong(
        "hooks non-leaf tensors only",
        violates="into `t.grad` if `t` is a leaf",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: None if t.is_leaf else grad * s)
""",
    ),
    Wrong(
        "a default where `s` is 0",
        violates="`s` is a number",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    s = s or 1.0
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "divides by the inverse",
        violates="`s` is a number",
        check="raised",
        source="""
def scale_grad(t, s):
    inverse = 1 / s
    return t.register_hook(lambda grad: grad / inverse)
""",
    ),
    Wrong(
        "rounds the number",
        violates="`s` is a number",
        check="test_the_gradient_is_scaled",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad * round(s, 1))
""",
    ),
    Wrong(
        "nothing where grad mode is on in the hook",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_gradient_is_scaled",
        source="""
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: None if torch.is_grad_enabled() else grad * s)
""",
    ),
    Wrong(
        "cuts the gradient from its graph",
        violates="rule 5: `backward(create_graph=True)` (then gradients can be differentiated again)",
        check="test_the_gradient_can_be_differentiated_again",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.detach() * s)
""",
    ),
    Wrong(
        "writes into `out=`, which keeps no graph",
        violates="rule 5: `backward(create_graph=True)`",
        check="raised",
        source="""
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: torch.mul(grad, s, out=torch.empty_like(grad)))
""",
    ),
    Wrong(
        "flattens the gradient for good",
        violates="rule 1: for tensors of any shape and in any layout",
        check="raised",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: grad.flatten() * s)
""",
    ),
    Wrong(
        "a view that a layout forbids",
        violates="rule 1: for tensors of any shape and in any layout",
        check="raised",
        source="""
def scale_grad(t, s):
    return t.register_hook(lambda grad: (grad.view(-1) * s).view(grad.shape))
""",
    ),
    Wrong(
        "writes in place where PyTorch lets it",
        violates="rule 3: not on a tensor that the caller hands to `backward(gradient=...)`",
        check="test_nothing_else_changes",
        source="""
def scale_grad(t, s):
    def hook(grad):
        try:
            return grad.mul_(s)
        except RuntimeError:
            return grad * s
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "a handle that silences the hook, which stays",
        violates="rule 3: A handle is an object whose `remove()` takes a hook away",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
class Silencer:
    factor = 1.0
    def remove(self):
        self.factor = 1.0

def scale_grad(t, s):
    handle = Silencer()
    handle.factor = s
    t.register_hook(lambda grad: grad * handle.factor)
    return handle
""",
    ),
    Wrong(
        "a handle that clears all hooks",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
class Clearer:
    def __init__(self, t):
        self.t = t
    def remove(self):
        self.t._backward_hooks.clear()

def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return Clearer(t)
""",
    ),
    Wrong(
        "switches autograd on and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source="""
import torch

def scale_grad(t, s):
    torch.set_grad_enabled(True)
    return t.register_hook(lambda grad: grad * s)
""",
    ),
    Wrong(
        "the last hook of a tensor counts",
        violates="rule 1: on one object",
        check="test_any_tensor_and_several_at_a_time",
        source="""
hooked = {}

def scale_grad(t, s):
    if id(t) in hooked:
        hooked[id(t)].remove()
    hooked[id(t)] = t.register_hook(lambda grad: grad * s)
    return hooked[id(t)]
""",
    ),
    Wrong(
        "float32 at least",
        violates="of any floating dtype",
        check="raised",
        source="""
import torch

def scale_grad(t, s):
    factor = torch.tensor([s], dtype=torch.promote_types(t.dtype, torch.float32))
    return t.register_hook(lambda grad: (grad.reshape(1, -1) * factor).reshape(grad.shape))
""",
    ),
    Wrong(
        "replaces what is infinite",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_every_pass_is_scaled_once",
        mistake="numbers-for-infinities",
        source="""
import torch

def scale_grad(t, s):
    return t.register_hook(lambda grad: torch.nan_to_num(grad) * s)
""",
    ),
    Wrong(
        "scales what an operation hands on, for all of its outputs",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_any_tensor_and_several_at_a_time",
        source="""
def scale_grad(t, s):
    if t.is_leaf:
        return t.register_hook(lambda grad: grad * s)
    return t.grad_fn.register_prehook(lambda grads: tuple(None if grad is None else grad * s for grad in grads))
""",
    ),
    Wrong(
        "changes the first output of the operation, whichever of its outputs `t` is",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_any_tensor_and_several_at_a_time",
        source="""
def scale_grad(t, s):
    if t.is_leaf:
        return t.register_hook(lambda grad: grad * s)
    return t.grad_fn.register_prehook(lambda grads: (None if grads[0] is None else grads[0] * s, *grads[1:]))
""",
    ),
    Wrong(
        "a handle that removes the hook that came last",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
class Handle:
    def __init__(self, t):
        self.t = t
    def remove(self):
        if self.t._backward_hooks:
            self.t._backward_hooks.popitem()

def scale_grad(t, s):
    t.register_hook(lambda grad: grad * s)
    return Handle(t)
""",
    ),
    Wrong(
        "takes a small number for 0",
        violates="the gradient that arrives at `t` is multiplied by `s`",
        check="test_every_pass_is_scaled_once",
        source=changed(RIGHT[0], ("grad * s", "grad * s if abs(s) > 1e-6 else grad * 0")),
    ),
    Wrong(
        "a number within bounds",
        violates="`s` is a number.",
        check="test_every_pass_is_scaled_once",
        source=changed(RIGHT[0], ("grad * s", "grad * max(min(s, 1e6), -1e6)")),
    ),
    Wrong(
        "the first object of all has no number yet",
        violates="From now on, in every backward pass",
        check="test_every_pass_is_scaled_once",
        source="""
class Scaler:
    factor = None
    def __init__(self, factor):
        if Scaler.factor is None:
            Scaler.factor = 1.0
        else:
            self.factor = factor
    def __call__(self, grad):
        return grad * self.factor

def scale_grad(t, s):
    return t.register_hook(Scaler(s))
""",
    ),
]

GIVENS = [
    "Write `scale_grad(t, s)`.",
]

SURVIVORS = {"under no_grad": "to register a hook makes no graph"}
