"""Answers to 06-normalize-input."""

from graders.author.answers import Wrong

RIGHT = [
    """
from torch.nn.modules.module import register_module_forward_pre_hook

def normalize_input(module, mean, std):
    def hook(called, args):
        if called is module:
            return ((args[0] - mean) / std, *args[1:])
    return register_module_forward_pre_hook(hook)
""",
    """
def normalize_input(module, mean, std):
    def hook(module, args, kwargs):
        first, *rest = args
        return (first.sub(mean).div(std),) + tuple(rest), kwargs
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    """
class Normalise:
    def __init__(self, mean, std):
        self.mean = mean
        self.std = std
    def __call__(self, module, args):
        new = list(args)
        new[0] = args[0].clone().sub_(self.mean).div_(self.std)
        return tuple(new)

def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(Normalise(mean, std), prepend=True)
""",
    """
def normalize_input(module, mean, std):
    def pre(_m, args):
        if len(args) == 1:
            return args[0] / std - mean / std
        return tuple((v - mean) / std if i == 0 else v for i, v in enumerate(args))
    return module.register_forward_pre_hook(pre)
""",
    """
import torch

class Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, mean, std):
        ctx.std = std
        return (a - mean) / std
    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.std, None, None

class Handle:
    def __init__(self, inner):
        self.inner = inner
    def remove(self):
        self.inner.remove()

def normalize_input(module, mean, std):
    return Handle(module.register_forward_pre_hook(lambda m, args: (Normalised.apply(args[0], mean, std), *args[1:])))
""",
]

WRONG = [
    Wrong(
        "a call that raises switches it off",
        violates="in every call of `module`",
        check="test_an_exception_comes_through_and_changes_nothing",
        source="""
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def normalize_input(module, mean, std):
    inside = []
    def enter(module, args):
        inside.append(True)
        return ((args[0] - mean) / std, *args[1:]) if len(inside) == 1 else None
    leave = module.register_forward_hook(lambda module, args, output: inside.clear())
    return Both(module.register_forward_pre_hook(enter), leave)
""",
    ),
    Wrong(
        "each mean and deviation once",
        violates="After two calls of your function on one module both normalise",
        check="test_two_hooks_normalise_one_after_the_other",
        source="""
KNOWN = {}

def normalize_input(module, mean, std):
    key = module, mean, std
    if key not in KNOWN:
        KNOWN[key] = module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) / std, *args[1:]))
    return KNOWN[key]
""",
    ),
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "lost return: args[0] / std - mean / std": "what follows does the same for one argument",
    "condition dropped: without if len(args) == 1": "what follows does the same for one argument",
}
