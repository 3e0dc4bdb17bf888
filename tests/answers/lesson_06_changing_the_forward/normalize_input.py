"""Answers to 06-normalize-input."""

RIGHT = [
    """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
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
            return (args[0] - mean) / std
        return tuple((v - mean) / std if i == 0 else v for i, v in enumerate(args))

    return module.register_forward_pre_hook(pre)
""",
]

WRONG = {
    "dropped-arguments": """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, args: (args[0] - mean) / std)
""",
    "changed-callers-tensor": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0].sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
    "returned-a-list": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args = list(args)
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
    "tuple-not-tensor": """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, x: (x - mean) / std)
""",
    "changed-the-output": """
def normalize_input(module, mean, std):
    return module.register_forward_hook(lambda module, args, output: (output - mean) / std)
""",
    "forgot-return": """
def normalize_input(module, mean, std):
    def hook(module, args):
        args = ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    "cut-the-graph": """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0].detach() - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    "no-handle": """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    module.register_forward_pre_hook(hook)
""",
}

ALSO_WRONG = [
    "def normalize_input(module, mean, std):\n    pass",
    # cannot assign into the tuple
    """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
    # normalises every argument
    """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: tuple((a - mean) / std for a in args))
""",
    # another formula
    """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: (args[0] - mean / std, *args[1:]))
""",
    # keywords dropped
    """
def normalize_input(module, mean, std):
    def hook(m, args, kwargs):
        return ((args[0] - mean) / std, *args[1:]), {}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    # the graph misses the division
    """
import torch
def normalize_input(module, mean, std):
    def hook(module, args):
        a = args[0].clone()
        with torch.no_grad():
            a.sub_(mean).div_(std)
        return (a, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    # behind autograd's back, in the caller's tensor
    """
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0].data.sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
    # statistics of the data instead of the given numbers
    """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - args[0].mean()) / args[0].std(), *args[1:]))
""",
    # Cuts the graph of the other arguments.
    """
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        rest = [one.detach() if torch.is_tensor(one) else one for one in args[1:]]
        return ((args[0] - mean) / std, *rest)
    return module.register_forward_pre_hook(hook)
""",
    # Takes the tuple for a tensor.
    """
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, x: x.sub(mean).div(std))
""",
    """
def normalize_input(module, mean, std):
    def pre(_m, args):
        if len(args) == 1:
            return ((args[0] - mean) / std,)
        return ((args[0] - mean) / std, args[1])

    return module.register_forward_pre_hook(pre)
""",
    """
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        if torch.is_grad_enabled():
            return ((args[0] - mean) / std, *args[1:])

    return module.register_forward_pre_hook(pre)
""",
    """
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        return ((args[0] - mean) / std, *[a for a in args[1:] if torch.is_tensor(a)])

    return module.register_forward_pre_hook(pre)
""",
]
