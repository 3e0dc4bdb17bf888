"""Answers to 06-scale-output."""

from graders.author.answers import Wrong

RIGHT = [
    """
from functools import partial
import torch

def times(s, module, args, output):
    return torch.mul(output, s)

def scale_output(module, s):
    return module.register_forward_hook(partial(times, s))
""",
    """
class Scale:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, args, kwargs, output):
        return output.multiply(self.s)

def scale_output(module, s):
    handle = module.register_forward_hook(Scale(s), with_kwargs=True)
    return handle
""",
    """
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, s):
        ctx.s = s
        return output * s
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.s, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
    """
class Scaled:
    def __init__(self, module, s):
        self.s = s
        self.handle = module.register_forward_hook(self.multiply)
    def multiply(self, module, args, output):
        return self.s * output
    def remove(self):
        self.handle.remove()

def scale_output(module, s):
    return Scaled(module, s)
""",
]

WRONG = [
    Wrong(
        "whole numbers become fractions",
        violates="the output becomes what `output * s` is",
        check="test_any_tensor_will_do",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * float(s))
""",
    ),
    Wrong(
        "one hook for all factors of a module",
        violates="Forward hooks that `module` has at this moment come first, then the multiplication.",
        check="test_two_hooks_multiply_by_both_numbers",
        source="""
factors = {}

class Handle:
    def __init__(self, module, s):
        self.module, self.s = module, s
    def remove(self):
        numbers, handle = factors[self.module]
        numbers.remove(self.s)
        if not numbers:
            factors.pop(self.module)
            handle.remove()

def scale_output(module, s):
    if module not in factors:
        numbers = []
        def hook(module, args, output):
            for number in numbers:
                output = output * number
            return output
        factors[module] = numbers, module.register_forward_hook(hook)
    factors[module][0].append(s)
    return Handle(module, s)
""",
    ),
    Wrong(
        "each number once",
        violates="Two calls of `scale_output` on one module multiply by both numbers.",
        check="test_two_hooks_multiply_by_both_numbers",
        source="""
KNOWN = {}

def scale_output(module, s):
    if (module, s) not in KNOWN:
        KNOWN[module, s] = module.register_forward_hook(lambda module, args, output: output * s)
    return KNOWN[module, s]
""",
    ),
]
