"""Answers to 07-scale-backward."""

RIGHT = [
    """
import torch

def scale_backward(module, s):
    def watch(module, args, output):
        outs = [out.view_as(out) for out in (output if isinstance(output, tuple) else (output,))]
        for out in outs:
            if out.requires_grad:
                out.register_hook(lambda g: g * s)
        return tuple(outs) if isinstance(output, tuple) else outs[0]
    return module.register_forward_hook(watch)
""",
    """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return ctx.s * g, None

def scale_backward(module, s):
    def hook(module, args, output):
        if isinstance(output, tuple):
            return tuple(Scale.apply(o, s) for o in output)
        return Scale.apply(output, s)
    return module.register_forward_hook(hook)
""",
    """
class Scaler:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, go):
        return [g if g is None else g.mul(self.s) for g in go]

def scale_backward(module, s):
    return module.register_full_backward_pre_hook(Scaler(s), prepend=True)
""",
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "a list for a tuple: return list((None if": "PyTorch takes a list as well",
    "a hook that works at times: @_only_with_grad_mode def hook(": "without grad mode no gradient comes",
}
