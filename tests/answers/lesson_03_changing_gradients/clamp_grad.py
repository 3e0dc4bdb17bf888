"""Answers to 03-clamp-grad."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    """
import torch

def clamp_grad(t, lo, hi):
    def limit(grad):
        grad = torch.where(grad < lo, torch.full_like(grad, lo), grad)
        return torch.where(grad > hi, torch.full_like(grad, hi), grad)
    return t.register_hook(limit)
""",
    """
from functools import partial
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(partial(torch.clamp, min=lo, max=hi))
""",
    """
class Limiter:
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi
    def __call__(self, grad):
        return grad.clone().clamp_(self.lo, self.hi)

def clamp_grad(t, lo, hi):
    return t.register_hook(Limiter(lo, hi))
""",
    """
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def clamp_grad(t, lo, hi):
    return Both(t.register_hook(lambda g: g.clamp(min=lo)), t.register_hook(lambda g: g.clamp(max=hi)))
""",
]

WRONG = [
    Wrong(
        "no hook where there are no bounds",
        violates="Return the handle",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
import math

def clamp_grad(t, lo, hi):
    if math.isinf(lo) and math.isinf(hi):
        return None
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "writes into the gradient",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp_(lo, hi))
""",
    ),
    Wrong(
        "forgets to return",
        violates="is limited to the range from `lo` to `hi`",
        check="test_every_element_is_clamped",
        mistake="forgot-return",
        source="""
def clamp_grad(t, lo, hi):
    def hook(grad):
        grad.clamp(lo, hi)
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "clamps `.grad`, the total",
        violates="before it goes on: into `t.grad` if `t` is a leaf",
        check="raised",
        mistake="clamped-the-total",
        source="""
def clamp_grad(t, lo, hi):
    def hook(p):
        p.grad = p.grad.clamp(lo, hi)
    return t.register_post_accumulate_grad_hook(hook)
""",
    ),
    Wrong(
        "limits the norm",
        violates="each element of the gradient",
        check="test_every_element_is_clamped",
        mistake="norm-not-elements",
        source="""
def clamp_grad(t, lo, hi):
    def hook(grad):
        norm = grad.norm().item()
        return grad * (hi / norm) if norm > abs(hi) else grad
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "hooks a new tensor",
        violates="is limited to the range from `lo` to `hi`",
        check="raised",
        mistake="hooked-a-copy",
        source="""
def clamp_grad(t, lo, hi):
    return (t * 1).register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "clamps the values",
        violates="rule 2: Tensors keep their values",
        check="test_every_element_is_clamped",
        mistake="changed-values",
        source="""
def clamp_grad(t, lo, hi):
    t.data = t.data.clamp(lo, hi)
    return t.register_hook(lambda grad: grad)
""",
    ),
    Wrong(
        "returns float32",
        violates="of any floating dtype",
        check="raised",
        mistake="changed-dtype",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi).float())
""",
    ),
    Wrong(
        "one bound for both sides",
        violates="is limited to the range from `lo` to `hi`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(-hi, hi))
""",
    ),
    Wrong(
        "the upper bound only",
        violates="is limited to the range from `lo` to `hi`",
        check="test_every_element_is_clamped",
        mistake="one-bound-only",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(max=hi))
""",
    ),
    Wrong(
        "copies an expanded gradient, and writes into every other one",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_nothing_else_changes",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.contiguous().clamp_(lo, hi))
""",
    ),
    Wrong(
        "returns no handle",
        violates="Return the handle.",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def clamp_grad(t, lo, hi):
    t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "keeps the running total within the bounds",
        violates="before it goes on: into `t.grad` if `t` is a leaf",
        check="test_each_pass_is_clamped_by_itself",
        source="""
def clamp_grad(t, lo, hi):
    def hook(grad):
        old = 0 if not t.is_leaf or t.grad is None else t.grad
        return (old + grad).clamp(lo, hi) - old
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "sets what is out of range to zero",
        violates="is limited to the range from `lo` to `hi`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad * ((grad >= lo) & (grad <= hi)))
""",
    ),
    Wrong(
        "a detour through float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_element_is_clamped",
        source="""
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.to(torch.float32).clamp(lo, hi).to(grad.dtype))
""",
    ),
    Wrong(
        "one pair of bounds for all tensors",
        violates="rule 1: on one object or on several at the same time",
        check="test_every_element_is_clamped",
        mistake="one-slot-for-all",
        source="""
bounds = {}

def clamp_grad(t, lo, hi):
    bounds.update(min=lo, max=hi)
    return t.register_hook(lambda grad: grad.clamp(**bounds))
""",
    ),
    Wrong(
        "does nothing",
        violates="is limited to the range from `lo` to `hi`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    pass
""",
    ),
    Wrong(
        "hooks leaves only",
        violates="leaf or not",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi) if t.is_leaf else None)
""",
    ),
    Wrong(
        "leaves without a gradient in `.grad` only",
        violates="in every backward pass",
        check="test_each_pass_is_clamped_by_itself",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi) if not t.is_leaf or t.grad is None else None)
""",
    ),
    Wrong(
        "takes a bound of 0 for none",
        violates="`lo` and `hi` are numbers with `lo < hi`",
        check="test_every_element_is_clamped",
        mistake="one-bound-only",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo or None, hi or None))
""",
    ),
    Wrong(
        "takes bounds by their size",
        violates="`lo` and `hi` are numbers with `lo < hi`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(-abs(lo), abs(hi)))
""",
    ),
    Wrong(
        "nothing where grad mode is on in the hook",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_every_element_is_clamped",
        source="""
import torch

def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: None if torch.is_grad_enabled() else grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "cuts the gradient from its graph",
        violates="rule 5: `backward(create_graph=True)` (then gradients can be differentiated again)",
        check="test_the_gradient_can_be_differentiated_again",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.detach().clamp(lo, hi))
""",
    ),
    Wrong(
        "writes in place where PyTorch lets it",
        violates="rule 3: not on a tensor that the caller hands to `backward(gradient=...)`",
        check="test_nothing_else_changes",
        source="""
def clamp_grad(t, lo, hi):
    def hook(grad):
        try:
            return grad.clamp_(lo, hi)
        except RuntimeError:
            return grad.clamp(lo, hi)
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "takes numbers from the flattened gradient by a view",
        violates="rule 1: for tensors of any shape and in any layout",
        check="raised",
        source="""
import torch

def clamp_grad(t, lo, hi):
    def hook(grad):
        lowest, highest = grad.new_tensor(lo), grad.new_tensor(hi)
        return torch.stack([min(max(g, lowest), highest) for g in grad.view(-1)]).view(grad.shape)
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "the bounds in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_element_is_clamped",
        source="""
import torch

def clamp_grad(t, lo, hi):
    lo, hi = torch.tensor([lo, hi]).tolist()
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "clears the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
def clamp_grad(t, lo, hi):
    if t._backward_hooks:
        t._backward_hooks.clear()
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "two hooks, and the handle of one",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def clamp_grad(t, lo, hi):
    t.register_hook(lambda grad: grad.clamp(min=lo))
    return t.register_hook(lambda grad: grad.clamp(max=hi))
""",
    ),
    Wrong(
        "clears `.grad` first",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_each_pass_is_clamped_by_itself",
        source="""
def clamp_grad(t, lo, hi):
    if t.is_leaf:
        t.grad = None
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "switches autograd on and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source="""
import torch

def clamp_grad(t, lo, hi):
    torch.set_grad_enabled(True)
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
""",
    ),
    Wrong(
        "lets a gradient of zeros pass",
        violates="each element of the gradient at `t`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi) if grad.any() else None)
""",
    ),
    Wrong(
        "takes an infinite gradient for an accident",
        violates="each element of the gradient at `t`",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi) if grad.isfinite().all() else grad * 0)
""",
    ),
    Wrong(
        "clamps what arrives at the operation, for all of its outputs",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_any_tensor_and_several_at_a_time",
        source="""
def clamp_grad(t, lo, hi):
    if t.is_leaf:
        return t.register_hook(lambda grad: grad.clamp(lo, hi))
    return t.grad_fn.register_prehook(lambda grads: tuple(None if g is None else g.clamp(lo, hi) for g in grads))
""",
    ),
    Wrong(
        "asks for the largest entry, and there may be none",
        violates="rule 1: tensors of any shape",
        check="raised",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: grad.clamp(lo, hi) if grad.max() > hi or grad.min() < lo else grad)
""",
    ),
    Wrong(
        "adds a bound and takes it away: small elements lose their digits",
        violates="An element inside the range stays as it is.",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    return t.register_hook(lambda grad: hi - ((hi - lo) - (grad - lo).relu()).relu())
""",
    ),
    Wrong(
        "limits the norm of a large gradient",
        violates="rule 1: tensors of any shape",
        check="test_every_element_is_clamped",
        source="""
def clamp_grad(t, lo, hi):
    def hook(grad):
        if grad.numel() > 200:
            return grad * (hi / grad.norm()).clamp(max=1)
        return grad.clamp(lo, hi)
    return t.register_hook(hook)
""",
    ),
    Wrong(
        "an upper bound of 0 is none",
        violates="`lo` and `hi` are numbers with `lo < hi`",
        check="test_any_tensor_and_several_at_a_time",
        source=changed(RIGHT[0], ("grad.clamp(lo, hi)", "grad.clamp(lo, hi or None)")),
    ),
    Wrong(
        "a second call replaces the first",
        violates="rule 1: It works however often it is called, on one object",
        check="test_any_tensor_and_several_at_a_time",
        source="""
handles = {}

def clamp_grad(t, lo, hi):
    if id(t) in handles:
        handles[id(t)].remove()
    handles[id(t)] = t.register_hook(lambda grad: grad.clamp(lo, hi))
    return handles[id(t)]
""",
    ),
]

GIVENS = [
    "Write `clamp_grad(t, lo, hi)`.",
]

SURVIVORS = {
    "under no_grad": "to register a hook makes no graph",
    "almost: grad = torch.where(": "at a bound both are the bound",
    "almost: return torch.where(": "at a bound both are the bound",
}
