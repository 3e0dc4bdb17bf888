"""Answers to 10-guided-grad-cam."""

BOTH = """
import torch
import torch.nn.functional as F
from torch import nn

def heat(model, layer, x, cls):
    kept = []
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        logits = model(x)
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1)HEAT.detach()

def sharp(model, x, cls):
    def hook(module, grad_input, grad_output):
        return CLAMPED
    handles = [m.register_full_backward_hook(hook) for m in model.modules() if isinstance(m, nn.ReLU)]
    try:
        x = x.detach().clone().requires_grad_()
        gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    finally:
        for handle in handles:
            handle.remove()
    return gradient

def guided_grad_cam(model, layer, x, cls):
    cam = heat(model, layer, x, cls)
    guided = sharp(model, x, cls)
    cam = F.interpolate(cam[:, None], size=x.shape[2:], UPSAMPLING)
    return RESULT
"""


def both(
    heat: str = ".relu()",
    clamped: str = "(grad_input[0].clamp(min=0),)",
    upsampling: str = "mode='bilinear', align_corners=False",
    result: str = "guided * cam",
) -> str:
    """An answer to 10-guided-grad-cam that differs from a right one in one place."""
    source = BOTH.replace("HEAT", heat).replace("CLAMPED", clamped)
    return source.replace("UPSAMPLING", upsampling).replace("RESULT", result)


RIGHT = [
    both(),
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

WRONG = {
    "shared-pass": """
import torch
import torch.nn.functional as F
from torch import nn

def guided_grad_cam(model, layer, x, cls):
    kept = []
    handles = [layer.register_forward_hook(lambda module, args, output: kept.append(output))]
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_full_backward_hook(lambda m, gi, go: (gi[0].clamp(min=0),)))
        x = x.detach().clone().requires_grad_()
        logits = model(x)
        guided, gradient = torch.autograd.grad(logits[:, cls].sum(), [x, kept[0]])
    finally:
        for handle in handles:
            handle.remove()
    cam = (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1, keepdim=True).relu().detach()
    return guided * F.interpolate(cam, size=x.shape[2:], mode="bilinear", align_corners=False)
""",
    "one-factor-missing": both(result="guided"),
    "nearest-upsampling": both(upsampling="mode='nearest'"),
    "align-corners": both(upsampling="mode='bilinear', align_corners=True"),
    "no-guidance": both(clamped="None"),
    "forgot-relu": both(heat=""),
    "scaled": both(
        result="guided * cam / heat(model, layer, x, cls).amax((1, 2)).clamp(min=1e-9).reshape(-1, 1, 1, 1)"
    ),
    "polluted-grads": both().replace(
        "gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)",
        "model(x)[:, cls].sum().backward()\n        gradient = x.grad",
    ),
    "input-touched": both().replace("x = x.detach().clone().requires_grad_()", "x.requires_grad_(); x.grad = None"),
}

ALSO_WRONG = [
    both(result="guided + cam"),
    both(result="(guided * cam).clamp(min=0)"),
    both(result="(guided * cam).abs().amax(1)"),
    both(result="cam[:, 0]"),
    both(result="cam"),
    both(upsampling="mode='bicubic', align_corners=False"),
    both(clamped="(grad_output[0].clamp(min=0),)"),
    both(heat=".abs()"),
    both().replace("size=x.shape[2:]", "scale_factor=2"),
    both().replace("size=x.shape[2:]", "size=x.shape[2:][::-1]"),
    both().replace("logits[:, cls].sum(), kept", "logits.amax(1).sum(), kept"),
    both().replace(
        "def guided_grad_cam(model, layer, x, cls):",
        "def guided_grad_cam(model, layer, x, cls):\n    model.train(not model.training)",
    ),
    "def guided_grad_cam(model, layer, x, cls):\n    return x.detach() * 0",
    both().replace("            handle.remove()", "            pass"),
    both()
    .replace(
        "with layer.register_forward_hook(lambda module, args, output: kept.append(output)):",
        "handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))\n    if True:",
    )
    .replace(
        "    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])",
        "    handle.remove()\n    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])",
    ),
]
