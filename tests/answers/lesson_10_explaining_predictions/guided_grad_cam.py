"""Answers to 10-guided-grad-cam."""

RIGHT = [
    """
import contextlib
import torch
import torch.nn.functional as F
from torch import nn

class Switch(torch.autograd.Function):
    on = False
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) if Switch.on else grad

def guided_grad_cam(model, layer, x, cls):
    # one forward pass, two backward passes
    kept = []
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_pre_hook(lambda m, args: Switch.apply(args[0])))
        stack.enter_context(layer.register_forward_hook(lambda m, args, output: kept.append(output)))
        total = model(x)[:, cls].sum()
    (gradient,) = torch.autograd.grad(total, kept, retain_graph=True)
    Switch.on = True
    try:
        (guided,) = torch.autograd.grad(total, x)
    finally:
        Switch.on = False
    cam = (gradient.mean((2, 3), True) * kept[0].detach()).sum(1, True).relu()
    return guided * F.interpolate(cam, x.shape[2:], mode="bilinear", align_corners=False)
""",
    """
import torch
from torch import nn
import torch.nn.functional as F

def guided_grad_cam(model, layer, x, cls):
    A = []
    with layer.register_forward_hook(lambda m, a, o: A.append(o)):
        out = model(x)
    g = torch.autograd.grad(out[:, cls].sum(), A[0])[0]
    cam = torch.relu((g.mean((2, 3), keepdim=True) * A[0]).sum(1, keepdim=True)).detach()

    def on_forward(module, args, output):
        output.register_hook(lambda grad: grad.clamp_min(0))

    handles = []
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_forward_hook(on_forward))
        x = x.detach().clone().requires_grad_()
        out = model(x)
    finally:
        for h in handles:
            h.remove()
    guided = torch.autograd.grad(out[:, cls].sum(), x)[0]
    return guided * nn.Upsample(x.shape[-2:], mode="bilinear")(cam).expand(-1, x.shape[1], -1, -1)
""",
    """
from contextlib import ExitStack
import torch
from torch import nn
import torch.nn.functional as F

def guided_grad_cam(model, layer, x, cls):
    # one forward pass, two backward passes; the clamps can be switched
    kept, guiding = {}, False

    def catch(module, args, output):
        kept["A"] = output

    def clamp(module, grad_input, grad_output):
        if guiding:
            return (grad_input[0].clamp(min=0),)

    x = x.detach().clone().requires_grad_()
    with ExitStack() as stack:
        stack.enter_context(layer.register_forward_hook(catch))
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_full_backward_hook(clamp))
        logit = model(x)[:, cls].sum()
        grad, = torch.autograd.grad(logit, kept["A"], retain_graph=True)
        guiding = True
        guided, = torch.autograd.grad(logit, x)
    A = kept["A"].detach()
    cam = (grad.mean((2, 3), keepdim=True) * A).sum(1, keepdim=True).clamp(min=0)
    return guided * F.interpolate(cam, x.shape[2:], mode="bilinear", align_corners=False)
""",
    """
import copy
import torch
from torch import nn
import torch.nn.functional as F

def grad_cam(model, layer, x, cls):
    kept = []
    with layer.register_forward_hook(lambda m, a, o: kept.append(o)):
        logits = model(x)
    g, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (g.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()

def guided_backprop(model, x, cls):
    twin = copy.deepcopy(model)
    for m in twin.modules():
        if isinstance(m, nn.ReLU):
            m.register_full_backward_hook(lambda m, gi, go: (gi[0].relu(),))
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(twin(x)[:, cls].sum(), x)[0]

def guided_grad_cam(model, layer, x, cls):
    parts = []
    for image in x.detach().split(1):
        cam = grad_cam(model, layer, image, cls)
        big = F.interpolate(cam.unsqueeze(0), size=tuple(image.shape[-2:]), mode="bilinear")
        parts.append(torch.mul(guided_backprop(model, image, cls), big))
    return torch.cat(parts)
""",
]


SURVIVORS = {
    "lost copy: return _not_copied(x)": "no ReLU works in place",
    "lost copy: for image in _not_detached(x).split(1)": "gradients are asked of tensors of the function's own",
    "almost: return guided * nn.Upsample(x.shape[2:], mode='bilinear')": "`align_corners` is then False",
    "almost: big = F.interpolate(": "`align_corners` is then False, and `size` may be any sequence",
    "a list for a tuple": "PyTorch takes either from a hook",
    "prepend=True": "hooks of others on the layer only watch",
    "another method: … [:, cls].mean()": "it gets one image at a time",
    "lost copy: … .requires_grad_()": (
        "the model does not write into its input, and gradients are asked of that very tensor"
    ),
}
