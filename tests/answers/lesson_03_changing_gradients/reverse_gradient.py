"""Answers to 03-reverse-gradient."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    """
import torch

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -ctx.lam * grad, None

def reverse_gradient(x, lam):
    return Reverse.apply(x, lam)
""",
    """
from functools import partial

def turn(factor, grad):
    return grad.mul(factor)

def reverse_gradient(x, lam):
    y = x.clone()
    if not y.requires_grad:
        return y
    y.register_hook(partial(turn, -lam))
    return y
""",
    """
import torch

def reverse_gradient(x, lam):
    if not (x.requires_grad and torch.is_grad_enabled()):
        return x
    y = x.view_as(x)
    y.register_hook(lambda grad: grad.neg() * lam)
    return y
""",
    """
def reverse_gradient(x, lam):
    away = -lam * x
    return away + (x - away).detach()
""",
    """
import torch

class Turn:
    def __init__(self, lam):
        self.lam = lam
    def __call__(self, grad):
        return torch.neg(grad).mul_(self.lam)

def reverse_gradient(x, lam):
    y = x + torch.zeros_like(x)
    try:
        y.register_hook(Turn(lam))
    except RuntimeError:
        pass
    return y
""",
    """
def reverse_gradient(x, lam):
    y = x[...]
    if y.requires_grad:  # a view of an `x` that requires grad does, under `no_grad` as well
        y.register_hook(lambda grad: grad * -lam)
    return y
""",
    """
from torch import nn

def reverse_gradient(x, lam):
    identity = nn.Identity()
    identity.register_full_backward_hook(lambda module, grad_input, grad_output: (-lam * grad_input[0],))
    return identity(x)
""",
    """
import torch

def reverse_gradient(x, lam):
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x
    y = x + 0
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: tuple(g if g is None else -lam * g for g in grad_inputs))
    return y
""",
]

WRONG = [
    Wrong(
        "hooks the input",
        violates="your function leaves no hook on `x`.",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        mistake="hooked-the-input",
        source="""
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x * 1
""",
    ),
    Wrong(
        "multiplies the values",
        violates="Return a tensor `y` with the same values as `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        mistake="changed-forward",
        source="""
def reverse_gradient(x, lam):
    return -lam * x
""",
    ),
    Wrong(
        "forgets the sign",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        mistake="forgot-sign",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: lam * grad)
    return y
""",
    ),
    Wrong(
        "writes into the gradient",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.mul_(-lam))
    return y
""",
    ),
    Wrong(
        "forgets to return",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        mistake="forgot-return",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    def hook(grad):
        grad = -lam * grad
    if y.requires_grad:
        y.register_hook(hook)
    return y
""",
    ),
    Wrong(
        "cuts the connection to `x`",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        mistake="cut-from-x",
        source="""
def reverse_gradient(x, lam):
    y = x.detach().clone().requires_grad_()
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "reverses one pass",
        violates="In every backward pass, the gradient that arrives at `y` is multiplied by `-lam`",
        check="test_every_call_and_every_pass_reverses",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    def hook(grad):
        handle.remove()
        return -lam * grad
    if y.requires_grad:
        handle = y.register_hook(hook)
    return y
""",
    ),
    Wrong(
        "a result that requires grad by itself",
        violates="a tensor with the values of `x` that does not require grad",
        check="test_without_gradients_the_values_come_back",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if not y.requires_grad:
        return y.requires_grad_()
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "one tensor for all results",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
import torch

made = {}

def reverse_gradient(x, lam):
    own = made.setdefault((x.shape, x.dtype), torch.empty(x.shape, dtype=x.dtype))
    own.copy_(x.detach())
    y = x - x.detach() + own
    y.data = own
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "no guard",
        violates="It also works when `x` does not require grad, and under `torch.no_grad()`.",
        check="raised",
        mistake="hook-without-grad",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "returns `x`",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    return x
""",
    ),
    Wrong(
        "hooks `x` and returns it",
        violates="Only what passes through `y` is reversed",
        check="test_only_what_passes_through_y_is_reversed",
        source="""
def reverse_gradient(x, lam):
    if x.requires_grad:
        x.register_hook(lambda grad: -lam * grad)
    return x
""",
    ),
    Wrong(
        "reverses the values",
        violates="Return a tensor `y` with the same values as `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    return -x
""",
    ),
    Wrong(
        "detaches",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="raised",
        source="""
def reverse_gradient(x, lam):
    return x.detach()
""",
    ),
    Wrong(
        "forgets `lam`",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -grad)
    return y
""",
    ),
    Wrong(
        "changes `x`",
        violates="rule 2: Tensors keep their values",
        check="test_x_is_left_as_it_was",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    x.data = x.data + 1
    return y
""",
    ),
    Wrong(
        "copies an expanded gradient, and writes into every other one",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_other_tensors_have_their_usual_gradient",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: grad.contiguous().mul_(-lam))
    return y
""",
    ),
    Wrong(
        "reverses twice",
        violates="the gradient that arrives at `y` is multiplied by `-lam` on its way to `x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    z = y * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
        z.register_hook(lambda grad: -lam * grad)
    return z
""",
    ),
    Wrong(
        "one `lam` for all calls",
        violates="rule 1: on one object or on several at the same time",
        check="test_only_what_passes_through_y_is_reversed",
        mistake="one-slot-for-all",
        source="""
import torch

class Reverse(torch.autograd.Function):
    lam = 1.0
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -Reverse.lam * grad

def reverse_gradient(x, lam):
    Reverse.lam = lam
    return Reverse.apply(x)
""",
    ),
    Wrong(
        "switches autograd on for everyone",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_without_gradients_the_values_come_back",
        source="""
import torch

def reverse_gradient(x, lam):
    torch.set_grad_enabled(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "makes `x` require grad",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="test_without_gradients_the_values_come_back",
        source="""
def reverse_gradient(x, lam):
    x.requires_grad_(True)
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "hooks a leaf only",
        violates="leaf or not",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad if x.is_leaf else None)
    return y
""",
    ),
    Wrong(
        "at most 1",
        violates="`lam` is a positive number",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -min(lam, 1) * grad)
    return y
""",
    ),
    Wrong(
        "at least 1",
        violates="`lam` is a positive number",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -max(lam, 1) * grad)
    return y
""",
    ),
    Wrong(
        "vectors only",
        violates="rule 1: for tensors of any shape and in any layout",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad if x.dim() == 1 else None)
    return y
""",
    ),
    Wrong(
        "comes back in one dimension",
        violates="rule 1: for tensors of any shape and in any layout",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1 if x.is_contiguous() else x.flatten()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "`view`, which not every layout allows",
        violates="rule 1: for tensors of any shape and in any layout",
        check="raised",
        source="""
def reverse_gradient(x, lam):
    y = x.view(-1).view(x.shape)
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "a detour through float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: (-lam * grad.float()).to(grad.dtype))
    return y
""",
    ),
    Wrong(
        "the first pass only",
        violates="In every backward pass",
        check="test_every_call_and_every_pass_reverses",
        source="""
used = []

def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        used.append(1)
        if len(used) <= 4:
            y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "a hook that is removed again",
        violates="In every backward pass, the gradient that arrives at `y` is multiplied",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad).remove()
    return y
""",
    ),
    Wrong(
        "a hook on `x` that does nothing",
        violates="your function leaves no hook on `x`.",
        check="test_x_is_left_as_it_was",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        x.register_hook(lambda grad: None)
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "retains the gradient of `x`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_x_is_left_as_it_was",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        x.retain_grad()
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "clears `.grad` of `x`",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_x_is_left_as_it_was",
        source="""
def reverse_gradient(x, lam):
    if x.is_leaf:
        x.grad = None
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "clears the hooks on `x`",
        violates="rule 3: Hooks that were there before",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
def reverse_gradient(x, lam):
    if x._backward_hooks:
        x._backward_hooks.clear()
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "looks at grad mode only",
        violates="when `x` does not require grad",
        check="raised",
        source="""
import torch

def reverse_gradient(x, lam):
    y = x * 1
    if torch.is_grad_enabled():
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "returns nothing where there is no gradient",
        violates="Then it returns `x` itself, or a tensor with the values of `x`",
        check="test_without_gradients_the_values_come_back",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
        return y
""",
    ),
    Wrong(
        "nothing where grad mode is on in the hook",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source="""
import torch

def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: None if torch.is_grad_enabled() else -lam * grad)
    return y
""",
    ),
    Wrong(
        "cuts the gradient from its graph",
        violates="rule 5: `backward(create_graph=True)` (then gradients can be differentiated again)",
        check="test_the_gradient_can_be_differentiated_again",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad.detach())
    return y
""",
    ),
    Wrong(
        "reverses in place where PyTorch lets it",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_other_tensors_have_their_usual_gradient",
        source="""
def reverse_gradient(x, lam):
    y = x * 1
    def hook(grad):
        try:
            return grad.mul_(-lam)
        except RuntimeError:
            return grad * -lam
    if y.requires_grad:
        y.register_hook(hook)
    return y
""",
    ),
    Wrong(
        "replaces what is infinite",
        violates="the gradient that arrives at `y` is multiplied by `-lam`",
        check="test_every_call_and_every_pass_reverses",
        mistake="numbers-for-infinities",
        source="""
import torch

def reverse_gradient(x, lam):
    y = x.view_as(x)
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * torch.nan_to_num(grad))
    return y
""",
    ),
    Wrong(
        "takes a contiguous tensor itself",
        violates="your function leaves no hook on `x`.",
        check="test_only_what_passes_through_y_is_reversed",
        source="""
def reverse_gradient(x, lam):
    y = x * 1 if x.is_leaf else x.contiguous()
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "records a graph under `no_grad`",
        violates="a tensor with the values of `x` that does not require grad",
        check="test_without_gradients_the_values_come_back",
        source="""
import torch

@torch.enable_grad()
def reverse_gradient(x, lam):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
""",
    ),
    Wrong(
        "hooks `x` under `no_grad`",
        violates="your function leaves no hook on `x`.",
        check="test_without_gradients_the_values_come_back",
        mistake="hooked-the-input",
        source="import torch\n" + changed(RIGHT[0], ("y = x * 1", "y = x * 1 if torch.is_grad_enabled() else x")),
    ),
    Wrong(
        "adds 1 and takes it away",
        violates="Return a tensor `y` with the same values as `x`, up to the rounding of `lam * x`",
        check="test_the_values_stay_and_the_gradient_is_reversed",
        source=changed(RIGHT[0], ("x * 1", "x + 1 - 1")),
    ),
    Wrong(
        "a number within bounds",
        violates="`lam` is a positive number",
        check="test_every_call_and_every_pass_reverses",
        source=changed(RIGHT[0], ("-lam * grad", "-max(min(lam, 1e6), 1e-6) * grad")),
    ),
]

GIVENS = [
    "Write `reverse_gradient(x, lam)`.",
    "it may share its memory with `x`",
]

SURVIVORS = {
    "truth for None: if": "where there is a gradient to reverse there is a `grad_fn`, and nowhere else",
    "almost: y = x / 1": "the same values, and the same gradient",
    "almost: y = x - ": "the same values, and the same gradient",
    "a hook that works at times: @_only_with_grad_mode def __init__(self, lam)": "without grad mode nobody needs `lam`",
    "prepend=True: identity.register_full_backward_hook": "there is one hook",
}
