"""Answers to 10-guided-backprop."""

GUIDED = """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def hook(module, grad_input, grad_output):
        RULE

    handles = [m.register_full_backward_hook(hook) for m in MODULES if CHOSEN]
    try:
        x = x.detach().clone().requires_grad_()
        logits = model(x)
        gradient, = torch.autograd.grad(logits[:, cls].sum(), x)
    finally:
        for handle in handles:
            handle.remove()
    return gradient
"""


def guided(
    rule: str = "return (grad_input[0].clamp(min=0),)",
    modules: str = "model.modules()",
    chosen: str = "isinstance(m, nn.ReLU)",
) -> str:
    """An answer to 10-guided-backprop that differs from a right one in one place."""
    return GUIDED.replace("RULE", rule).replace("MODULES", modules).replace("CHOSEN", chosen)


RIGHT = [
    guided(),
    """
import contextlib
import torch
from torch import nn

def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        def after(module, args, output):
            node = output.grad_fn
            stack.callback(node.register_hook(lambda inputs, outputs: (inputs[0].clamp_min(0),)).remove)
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_hook(after))
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    """
import torch
from torch import nn

class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (grad > 0) * (x > 0)

def guided_backprop(model, x, cls):
    # a forward hook replaces what each ReLU returns
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    handles = [m.register_forward_hook(lambda m, args, output: Guided.apply(args[0])) for m in relus]
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
    finally:
        for handle in handles:
            handle.remove()
""",
    """
from contextlib import ExitStack
from functools import partial
import torch
import torch.nn as nn

def clamp(module, grad_input, grad_output):
    return tuple(None if g is None else torch.relu(g) for g in grad_input)

def guided_backprop(model, x, cls):
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_full_backward_hook(clamp))
        x = x.detach().requires_grad_(True)
        logits = model(x)
        return torch.autograd.grad(logits.select(1, cls).sum(), x)[0]
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    # the gradient that arrives at the ReLU's output, clamped, gives the same
    def on_forward(module, args, output):
        output.register_hook(lambda grad: grad.clamp(min=0))
    handles = [m.register_forward_hook(on_forward) for m in model.modules() if type(m) is nn.ReLU]
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), [x])[0].detach()
    finally:
        [h.remove() for h in handles]
""",
    """
import torch
from torch import nn

class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad.clamp(min=0) * mask

def guided_backprop(model, x, cls):
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    try:
        for relu in relus:
            relu.forward = Guided.apply
        x = x.detach().clone().requires_grad_()
        grad, = torch.autograd.grad(model(x)[:, cls].sum(), x)
        return grad
    finally:
        for relu in relus:
            relu.__dict__.pop("forward", None)
""",
    """
import copy
import torch
from torch import nn

def guided_backprop(model, x, cls):
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.ReLU):
            module.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0].clamp(min=0),))
    x = x.detach().clone().requires_grad_()
    twin(x)[:, cls].sum().backward()
    return x.grad
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def hook(module, gi, go):
        if isinstance(module, nn.ReLU):
            return (gi[0] * (gi[0] > 0),)
    handle = nn.modules.module.register_module_full_backward_hook(hook)
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
    finally:
        handle.remove()
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def before(module, args):
        (value,) = args
        value = value * 1
        value.register_hook(lambda grad: torch.where(grad < 0, 0, grad))
        return (value,)
    handles = []
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_forward_pre_hook(before))
        x = x.detach().clone().requires_grad_()
        model(x)[:, cls].sum().backward(inputs=[x])
    finally:
        for h in handles:
            h.remove()
    return x.grad
""",
]

WRONG = {
    "no-guidance": guided(chosen="False"),
    "forgot-return": guided("grad_input[0].clamp(min=0)"),
    "deconvnet": guided("return (grad_output[0].clamp(min=0),)"),
    "wrong-layer": guided(
        "return tuple(None if g is None else g.clamp(min=0) for g in grad_input)",
        chosen="isinstance(m, nn.Conv2d)",
    ),
    "only-sequential-recursed": guided(modules="model.children()"),
    "clamped-whole-tensor": """
import contextlib
import torch
from torch import nn

def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        def before(module, args):
            stack.enter_context(args[0].register_hook(lambda grad: grad.clamp(min=0)))
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_pre_hook(before))
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    "clamped-the-result": guided(chosen="False").replace("return gradient", "return gradient.clamp(min=0)"),
    "bare-tensor": guided("return grad_input[0].clamp(min=0)"),
    "polluted-grads": guided().replace(
        "gradient, = torch.autograd.grad(logits[:, cls].sum(), x)",
        "logits[:, cls].sum().backward()\n        gradient = x.grad",
    ),
    "input-touched": guided().replace("x = x.detach().clone().requires_grad_()", "x.requires_grad_(); x.grad = None"),
}

ALSO_WRONG = [
    guided()
    .replace("    handles = ", "    was = model.training\n    model.eval()\n    handles = ")
    .replace("    return gradient", "    model.train(was)\n    return gradient"),
    guided("return (grad_input[0].clamp(max=0),)"),
    guided("return (grad_input[0].abs(),)"),
    guided(modules="list(model.modules())[::-1][:4]"),
    guided().replace("logits[:, cls].sum()", "logits[:, cls].mean()"),
    guided().replace("logits[:, cls].sum()", "logits.amax(1).sum()"),
    guided().replace("logits[:, cls].sum()", "logits.softmax(1)[:, cls].sum()"),
    guided().replace("logits[:, cls].sum()", "logits[0, cls]"),
    guided().replace("return gradient", "return gradient.clamp(min=0)"),
    guided().replace("return gradient", "return gradient.abs().amax(1)"),
    guided(chosen="isinstance(m, (nn.ReLU, nn.Tanh))"),
    guided().replace(
        "for handle in handles:\n            handle.remove()",
        "for m in model.modules():\n            m._backward_hooks.clear()",
    ),
    guided().replace("    handles = ", "    [p.requires_grad_(False) for p in model.parameters()]\n    handles = "),
    # the model keeps another ReLU when it raises
    """
import torch
from torch import nn

class Guided(nn.ReLU):
    def forward(self, x):
        y = torch.relu(x)
        y.register_hook(lambda g: g.clamp(min=0))
        return y

def guided_backprop(model, x, cls):
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    for m in relus:
        m.__class__ = Guided
    x = x.detach().clone().requires_grad_()
    gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    for m in relus:
        m.__class__ = nn.ReLU
    return gradient
""",
    # ReLUs are replaced for good
    """
import torch
from torch import nn

class Guided(nn.ReLU):
    def forward(self, x):
        y = torch.relu(x)
        y.register_hook(lambda g: g.clamp(min=0))
        return y

def guided_backprop(model, x, cls):
    for m in model.modules():
        if isinstance(m, nn.ReLU):
            m.__class__ = Guided
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    "def guided_backprop(model, x, cls):\n    return x.detach()",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    for m in model.modules():
        if isinstance(m, nn.ReLU):
            m.register_full_backward_hook(lambda module, gi, go: (gi[0].clamp(min=0),))
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    handles = []
    for m in model.modules():
        if isinstance(m, nn.ReLU):
            handles.append(m.register_full_backward_hook(lambda module, gi, go: (gi[0].clamp(min=0),)))
    x = x.detach().clone().requires_grad_()
    gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    for handle in handles:
        handle.remove()
    return gradient
""",
]
