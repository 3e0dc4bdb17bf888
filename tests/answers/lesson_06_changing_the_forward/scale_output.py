"""Answers to 06-scale-output."""

RIGHT = [
    """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output * s)
""",
    """
from functools import partial

def times(s, module, args, output):
    return output.clone().mul_(s)

def scale_output(module, s):
    return module.register_forward_hook(partial(times, s))
""",
    """
import torch

class Scale:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, args, kwargs, output):
        return torch.mul(output, torch.full_like(output, self.s))

def scale_output(module, s):
    handle = module.register_forward_hook(Scale(s), with_kwargs=True, prepend=True)
    return handle
""",
    """
from torch.nn.modules.module import register_module_forward_hook

def scale_output(target, s):
    def hook(module, args, output):
        if module is target:
            return s * output
    return register_module_forward_hook(hook)
""",
    """
import torch

class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s
    @staticmethod
    def backward(ctx, g): return g * ctx.s, None
def scale_output(module, s): return module.register_forward_hook(lambda m, a, o: Mul.apply(o, s))
""",
    """
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, o, s):
        ctx.s = s
        return o * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
]

WRONG = {
    "forgot-return": """
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
    return module.register_forward_hook(hook)
""",
    "in-place-output": """
def scale_output(module, s):
    def hook(module, args, output):
        output *= s
    return module.register_forward_hook(hook)
""",
    "data-edit": """
def scale_output(module, s):
    def hook(module, args, output):
        output.data.mul_(s)
    return module.register_forward_hook(hook)
""",
    "cut-the-graph": """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output.detach() * s)
""",
    "changed-the-input": """
def scale_output(module, s):
    return module.register_forward_pre_hook(lambda module, args: args[0] * s)
""",
    "no-handle": """
def scale_output(module, s):
    module.register_forward_hook(lambda module, args, output: output * s)
""",
}

ALSO_WRONG = [
    "def scale_output(module, s):\n    pass",
    # scales the gradient as well as the output: twice
    """
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
        output.register_hook(lambda grad: grad * s)
        return output
    return module.register_forward_hook(hook)
""",
    # the graph is cut by no_grad
    """
import torch
def scale_output(module, s):
    def hook(module, args, output):
        with torch.no_grad():
            return output * s
    return module.register_forward_hook(hook)
""",
    # the numbers are swapped under the tensor
    """
def scale_output(module, s):
    def hook(module, args, output):
        output.data = output.data * s
    return module.register_forward_hook(hook)
""",
    # only the first call
    """
def scale_output(module, s):
    done = []
    def hook(module, args, output):
        if not done:
            done.append(1)
            return output * s
    return module.register_forward_hook(hook)
""",
    # one factor for each module: the second call of scale_output replaces the first
    """
FACTORS = {}
def scale_output(module, s):
    first = module not in FACTORS
    FACTORS[module] = s
    if first:
        return module.register_forward_hook(lambda m, args, output: output * FACTORS[m])
    return module.register_forward_hook(lambda m, args, output: None)
""",
    # the weights
    """
import torch
def scale_output(module, s):
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(s)
    return module.register_forward_hook(lambda *_: None)
""",
    # a tuple, as a pre-hook would return
    """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: (output * s,))
""",
    # Only in train mode.
    """
def scale_output(module, s): return module.register_forward_hook(lambda m, a, o: o * s if m.training else None)
""",
    # Switches the module to eval mode.
    """
def scale_output(module, s):
    module.eval()
    return module.register_forward_hook(lambda m, a, o: o * s)
""",
    """
import torch

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * s if torch.is_grad_enabled() else o)
""",
    """
import torch

def scale_output(module, s):
    def hook(m, a, o):
        if torch.is_grad_enabled():
            return o * s
        return o.mul_(s)

    return module.register_forward_hook(hook)
""",
    """
def scale_output(module, s):
    hs = [m.register_forward_hook(lambda m, a, o: o * s) for m in module.modules()]
    return hs[0]
""",
    """
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: (o * s).float())
""",
    """
import torch

def scale_output(module, s):
    k = {}

    def hook(m, a, o):
        k.setdefault("s", torch.full_like(o, s))
        return o * k["s"]

    return module.register_forward_hook(hook)
""",
]
