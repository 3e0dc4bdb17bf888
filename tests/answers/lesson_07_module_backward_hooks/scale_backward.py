"""Answers to 07-scale-backward."""

RIGHT = [
    """
def scale_backward(module, s):
    def hook(module, grad_output):
        return tuple(None if g is None else s * g for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
""",
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
    handles = [p.register_hook(lambda g: g if g is None else g * s) for p in module.parameters()]
    handles.append(module.register_full_backward_hook(
        lambda m, gi, go: tuple(g if g is None else g * s for g in gi)))
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    """
def scale_backward(module, s):
    def mix(t): return t.detach() + s * (t - t.detach())
    def hook(m, a, out):
        return tuple(map(mix, out)) if isinstance(out, tuple) else mix(out)
    return module.register_forward_hook(hook)
""",
    """
import torch
def scale_backward(module, s):
    def on(t):
        if torch.is_tensor(t) and t.requires_grad: t.register_hook(lambda g: g * s)
    def hook(m, a, out):
        if isinstance(out, (tuple, list)):
            for t in out: on(t)
        else: on(out)
    return module.register_forward_hook(hook)
""",
    """
def scale_backward(module, s):
    def one(o):
        return o.detach() + s * (o - o.detach()) if o.is_floating_point() else o

    def hook(m, a, o):
        return type(o)(map(one, o)) if isinstance(o, (tuple, list)) else one(o)

    return module.register_forward_hook(hook)
""",
]

WRONG = {
    "too-late-for-weights": """
def scale_backward(module, s):
    def hook(module, grad_input, grad_output):
        return tuple(None if g is None else s * g for g in grad_input)
    return module.register_full_backward_hook(hook)
""",
    "bare-tensor": """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: s * go[0])
""",
    "changed-forward": """
def scale_backward(module, s):
    def hook(module, args, output):
        return tuple(s * o for o in output) if isinstance(output, tuple) else s * output
    return module.register_forward_hook(hook)
""",
    "forgot-return": """
def scale_backward(module, s):
    def hook(module, grad_output):
        grad_output = tuple(None if g is None else s * g for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
""",
    "parameter-grads": """
def scale_backward(module, s):
    handles = [p.register_hook(lambda g: g * s) for p in module.parameters()]
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    "scaled-twice": """
def scale_backward(module, s):
    scaled = lambda grads: tuple(None if g is None else s * g for g in grads)
    one = module.register_full_backward_pre_hook(lambda m, go: scaled(go))
    two = module.register_full_backward_hook(lambda m, gi, go: scaled(gi))
    class Both:
        def remove(self):
            one.remove()
            two.remove()
    return Both()
""",
    "in-place-leak": """
def scale_backward(module, s):
    def hook(module, grad_output):
        for g in grad_output:
            if g is not None:
                g.mul_(s)
    return module.register_full_backward_pre_hook(hook)
""",
    "scaled-none": """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(s * g for g in go))
""",
    "first-output-only": """
def scale_backward(module, s):
    def hook(module, grad_output):
        first, *others = grad_output
        return (None if first is None else s * first, *others)
    return module.register_full_backward_pre_hook(hook)
""",
    "wrong-length": """
def scale_backward(module, s):
    def hook(module, grad_output):
        return (s * grad_output[0],)
    return module.register_full_backward_pre_hook(hook)
""",
}

ALSO_WRONG = [
    "def scale_backward(module, s):\n    return None",
    """
def scale_backward(module, s):
    module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else s * g for g in go))
""",
    """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g + s for g in go))
""",
    """
import torch
def scale_backward(module, s):
    def hook(m, go):
        known = [g for g in go if g is not None]
        return tuple(s * (known[0] if g is None else g) for g in go)
    return module.register_full_backward_pre_hook(hook)
""",
    """
def scale_backward(module, s):
    def hook(module, args, output):
        output.register_hook(lambda g: g * s)
    return module.register_forward_hook(hook)
""",
    """
def scale_backward(module, s):
    with __import__("torch").no_grad():
        for p in module.parameters():
            p.mul_(s)
    return module.register_forward_hook(lambda *a: None)
""",
    """
def scale_backward(module, s):
    k = [1.0]
    def f(m, go):
        k[0] *= s
        return tuple(None if g is None else g * k[0] for g in go)
    return module.register_full_backward_pre_hook(f)
""",
    """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g / s for g in go))
""",
    """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(g if g is None else g * s for g in go) if m.training else None
    )
""",
    """
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(g if g is None else g * int(s) for g in go)
    )
""",
    """
def scale_backward(module, s):
    def one(o):
        return o.detach() + s * (o - o.detach())

    return module.register_forward_hook(
        lambda m, a, o: [one(v) for v in o] if isinstance(o, tuple) else one(o)
    )
""",
]
