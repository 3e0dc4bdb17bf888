"""Answers to 10-guided-backprop."""

from graders.author.answers import Wrong, changed

RIGHT = [
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


BY_NAME = """
import torch
from torch import nn

class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) * (ctx.saved_tensors[0] > 0)

class Guided(nn.Module):
    def forward(self, x):
        return Clamped.apply(x)

def guided_backprop(model, x, cls):
    relus = [(m, name, r) for m in model.modules() for name, r in m.named_children() if type(r) is nn.ReLU]
    try:
        for parent, name, _ in relus:
            setattr(parent, name, Guided())
        x = x.detach().clone().requires_grad_()
        gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    finally:
        for parent, name, relu in relus:
            setattr(parent, name, relu)
    return gradient
"""


WRONG = [
    Wrong(
        "a ReLU whose mask is open at 0",
        violates="The ReLU's rule, 0 where its input was not positive, stays.",
        check="test_the_example_of_the_contract_comes_out",
        source=changed(BY_NAME, ("[0] > 0)", "[0] >= 0)"), ("m.named_children()", "m._modules.items()")),
    ),
]

SURVIVORS = {
    "lost copy": "the model does not write into its input, and gradients are asked of that very tensor",
    "a list for a tuple": "PyTorch takes either from a hook",
    "prepend=True": "a ReLU's gradient is cut once, whichever hook comes first: others on it only watch",
    "almost: value.register_hook(lambda grad: torch.where(grad <= 0, 0, grad))": "0 is replaced by 0",
    "almost: value = value / 1": "the same value",
    "not for all: … step=-1)": "hooks of different modules may come in any order",
}
