"""Answers to 07-scale-backward."""

from graders.author.answers import Wrong

TAUGHT = """
def scale_backward(module, s):
    def hook(module, grad_output):
        return tuple(None if g is None else s * g for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
"""

RIGHT = [
    TAUGHT,
    """
import torch

def scale_backward(module, s):
    def watch(module, args, output):
        outs = output if isinstance(output, tuple) else (output,)
        for out in outs:
            if isinstance(out, torch.Tensor) and out.requires_grad:
                out.register_hook(lambda g: g * s)
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
    """
def scale_backward(module, s):
    handles = [p.register_hook(lambda g: g if g is None else g * s) for p in module.parameters() if p.requires_grad]
    handles.append(module.register_full_backward_hook(
        lambda m, gi, go: tuple(g if g is None else g * s for g in gi)))
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
]

WRONG = [
    Wrong(
        "multiplies what has accumulated",
        violates="Its own parameters, and everything before the module, get `s` times",
        check="test_its_own_parameters_learn_from_the_scaled_gradient",
        source="""
class All:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def scale_backward(module, s):
    def send(module, gi, go):
        return tuple(None if g is None else g * s for g in gi)
    def learn(p):
        p.grad.mul_(s)
    handles = [p.register_post_accumulate_grad_hook(learn) for p in module.parameters() if p.requires_grad]
    return All([*handles, module.register_full_backward_hook(send)])
""",
    ),
    Wrong(
        "eval mode and back at the root",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def scale_backward(module, s):
    training = module.training
    module.eval()
    handle = module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else g * s for g in go))
    module.train(training)
    return handle
""",
    ),
    Wrong(
        "a tensor hook that fires once",
        violates="in every backward pass",
        check="test_every_pass_is_scaled",
        source="""
def scale_backward(module, s):
    def attach(t):
        def hook(g):
            h.remove()
            return g * s
        h = t.register_hook(hook)
    def after(m, args, out):
        for t in out if isinstance(out, tuple) else (out,):
            if t.requires_grad:
                attach(t)
    return module.register_forward_hook(after)
""",
    ),
]
