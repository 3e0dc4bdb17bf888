"""Answers to the exercises of lesson 10."""

SALIENCY = """
import torch

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    total = TARGET
    gradient, = torch.autograd.grad(total, x)
    return REDUCED
"""


def saliency(target: str = "logits.gather(1, classes[:, None]).sum()", reduced: str = "gradient.abs().amax(1)") -> str:
    """An answer to 10-saliency-map that differs from a right one in one place."""
    return SALIENCY.replace("TARGET", target).replace("REDUCED", reduced)


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


CAM = """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def hook(module, args, output):
        kept["A"] = STORED
    with layer.register_forward_hook(hook):
        logits = model(x)
    A = kept["A"]
    gradient, = torch.autograd.grad(TARGET, A)
    weights = WEIGHTS
    return RESULT
"""


def cam(
    target: str = "logits[:, cls].sum()",
    weights: str = "gradient.mean((2, 3), keepdim=True)",
    result: str = "(weights * A).sum(1).relu().detach()",
    stored: str = "output",
) -> str:
    """An answer to 10-grad-cam that differs from a right one in one place."""
    source = CAM.replace("TARGET", target).replace("WEIGHTS", weights)
    return source.replace("RESULT", result).replace("STORED", stored)


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


POINTING = """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    H, W = size
    large = UPSAMPLED
    place = large.flatten(1).argmax(1)
    y, x = PLACE
    x0, y0, x1, y1 = boxes.T
    inside = INSIDE
    found = inside & HEATED
    return RESULT
"""


def pointing(
    upsampled: str = "F.interpolate(cam[:, None], size=(H, W), mode='bilinear', align_corners=False)[:, 0]",
    place: str = "place // W, place % W",
    inside: str = "(x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)",
    heated: str = "(large.flatten(1).amax(1) > 0)",
    result: str = "found.float().mean().item()",
) -> str:
    """An answer to 10-pointing-game that differs from a right one in one place."""
    source = POINTING.replace("UPSAMPLED", upsampled).replace("PLACE", place).replace("INSIDE", inside)
    return source.replace("HEATED", heated).replace("RESULT", result)


RIGHT = {
    "10-saliency-map": [
        """
import torch

def saliency_map(model, x, classes):
    def logit(image, wanted):
        return model(image[None])[0].gather(0, wanted[None])[0]
    maps = [torch.func.grad(logit)(image, wanted) for image, wanted in zip(x.detach(), classes)]
    return torch.stack(maps).abs().amax(1).detach()
""",
        saliency(),
        """
import torch

def saliency_map(model, x, classes):
    # one sample after the other
    maps = []
    for image, target in zip(x, classes.tolist()):
        image = image.detach()[None].clone().requires_grad_(True)
        (g,) = torch.autograd.grad(model(image)[0, target], image)
        maps.append(g[0].abs().max(dim=0).values)
    return torch.stack(maps)
""",
        """
import torch
import torch.nn.functional as F

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    caught = []
    handle = x.register_hook(lambda g: caught.append(g.abs().amax(dim=1).clone()))
    logits = model(x)
    torch.autograd.grad(logits, x, grad_outputs=F.one_hot(classes, logits.shape[1]).to(logits.dtype))
    handle.remove()
    return caught[0]
""",
        """
import torch

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    logits[torch.arange(len(x)), classes].sum().backward(inputs=[x])
    return torch.maximum(x.grad, -x.grad).max(1)[0]
""",
        """
import copy
import torch

def saliency_map(model, x, classes):
    model = copy.deepcopy(model)
    x = x.detach().clone().requires_grad_()
    model(x).gather(1, classes.unsqueeze(1)).sum().backward()
    return x.grad.abs().amax(1)
""",
        """
import torch
from torch.func import functional_call, grad, vmap

def saliency_map(model, x, classes):
    params = {n: p.detach() for n, p in model.named_parameters()}
    def logit(image, target):
        logits = functional_call(model, params, (image[None],))[0]
        return logits.gather(0, target[None])[0]
    return vmap(grad(logit))(x.detach(), classes).abs().amax(1)
""",
    ],
    "10-guided-backprop": [
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
    ],
    "10-grad-cam": [
        cam(),
        """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def add_nothing(module, args, output):
        # the gradient of a zero that is added is the gradient of the output
        kept["A"], kept["zero"] = output.detach().clone(), torch.zeros_like(output).requires_grad_()
        return output + kept["zero"]
    with layer.register_forward_hook(add_nothing):
        logits = model(x.detach())
    gradient = torch.autograd.grad(logits[:, cls].sum(), kept["zero"])[0]
    return torch.einsum("bk,bkhw->bhw", gradient.mean((2, 3)), kept["A"]).clamp(min=0)
""",
        """
import contextlib
import torch
import torch.nn.functional as F

@contextlib.contextmanager
def frozen(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    try:
        for p in parameters:
            p.requires_grad_(False)
        yield
    finally:
        for p in parameters:
            p.requires_grad_(True)

def grad_cam(model, layer, x, cls):
    kept = {}
    def keep(module, args, output):
        hook = lambda grads: kept.update(grad=grads[0].clone())
        kept.update(A=output, handle=torch.autograd.graph.register_multi_grad_hook((output,), hook))
    x = x.detach().clone().requires_grad_()
    with frozen(model), layer.register_forward_hook(keep):
        torch.autograd.grad(model(x)[:, cls].sum(), x)
    kept["handle"].remove()
    return F.relu((kept["grad"].mean((2, 3), True) * kept["A"].detach()).sum(1))
""",
        """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}

    def hook(module, args, output):
        kept["A"] = output.detach().clone()
        kept["handle"] = output.register_hook(lambda grad: kept.update(grad=grad.detach().clone()))

    handle = layer.register_forward_hook(hook)
    try:
        logits = model(x)
    finally:
        handle.remove()
    torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    kept["handle"].remove()
    alpha = kept["grad"].flatten(2).mean(2)
    return torch.einsum("bk,bkhw->bhw", alpha, kept["A"]).clamp(min=0)
""",
        """
import torch
import torch.nn.functional as F

class GradCam:
    def __init__(self, layer):
        self.handle = layer.register_forward_hook(self)
    def __call__(self, module, args, output):
        output.retain_grad()
        self.A = output

def grad_cam(model, layer, x, cls):
    grads = [(p, p.grad) for p in model.parameters()]
    for p, _ in grads:
        p.grad = None
    catch = GradCam(layer)
    try:
        model(x.detach())[:, cls].sum().backward()
    finally:
        catch.handle.remove()
        for p, old in grads:
            p.grad = old
    B, K, h, w = catch.A.shape
    alpha = F.adaptive_avg_pool2d(catch.A.grad, 1).view(B, 1, K)
    return F.relu(torch.bmm(alpha, catch.A.detach().view(B, K, h * w)).view(B, h, w))
""",
        """
import torch

def grad_cam(model, layer, x, cls):
    maps = []
    for image in x.detach():
        kept = []
        with layer.register_forward_hook(lambda m, a, o: kept.append(o)):
            logits = model(image[None])
        g, = torch.autograd.grad(logits[0, cls], kept[-1])
        total = 0
        for k in range(g.shape[1]):
            total = total + g[0, k].mean() * kept[-1][0, k].detach()
        maps.append(torch.maximum(total, torch.zeros(())))
    return torch.stack(maps)
""",
        """
import torch

def grad_cam(model, layer, x, cls):
    # the layer's output plus an empty tensor, with respect to which we differentiate
    kept = {}
    def hook(module, args, output):
        kept["A"] = output.detach().clone()
        kept["zero"] = torch.zeros_like(output, requires_grad=True)
        return output + kept["zero"]
    with layer.register_forward_hook(hook, prepend=True):
        logits = model(x)
        logits[:, cls].sum().backward(inputs=[kept["zero"]])
    return (kept["zero"].grad.mean(dim=[2, 3], keepdim=True) * kept["A"]).sum(dim=1).clamp_(0)
""",
        """
import copy
import torch

def grad_cam(model, layer, x, cls):
    # a full backward hook needs a layer that does not work in place; so change a copy
    names = {m: n for n, m in model.named_modules()}
    twin = copy.deepcopy(model)
    for m in twin.modules():
        if hasattr(m, "inplace"):
            m.inplace = False
    got = {}
    target = twin.get_submodule(names[layer])
    target.register_forward_hook(lambda m, a, o: got.update(A=o.detach()))
    target.register_full_backward_hook(lambda m, gi, go: got.update(g=go[0].detach()))
    twin(x.detach())[:, cls].sum().backward()
    return torch.relu((got["g"].mean((-2, -1), keepdim=True) * got["A"]).sum(1))
""",
    ],
    "10-guided-grad-cam": [
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
    ],
    "10-pointing-game": [
        pointing(),
        """
import numpy as np
import torch

def pointing_game(cam, boxes, size):
    hits = 0
    up = torch.nn.Upsample(size=size, mode="bilinear", align_corners=False)
    for one, (x0, y0, x1, y1) in zip(cam, boxes.tolist()):
        large = up(one[None, None])[0, 0].numpy()
        y, x = np.unravel_index(large.argmax(), large.shape)
        if large[y, x] > 0 and y in range(y0, y1) and x in range(x0, x1):
            hits += 1
    return hits / len(cam)
""",
        """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    large = F.interpolate(cam.unsqueeze(1), size, mode="bilinear").squeeze(1)
    total = []
    for one, box in zip(large, boxes):
        if not one.any():
            total.append(0.0)
            continue
        y, x = (one == one.max()).nonzero()[0].tolist()
        mask = torch.zeros(size)
        mask[box[1]:box[3], box[0]:box[2]] = 1
        total.append(mask[y, x].item())
    return sum(total) / len(total)
""",
        """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    scale = (size[0] / cam.shape[1], size[1] / cam.shape[2])
    large = F.interpolate(cam[:, None].double(), scale_factor=scale, mode="bilinear", align_corners=False)
    top, place = large.flatten(1).max(1)
    y, x = place // size[1], place.remainder(size[1])
    at = torch.stack([x, y], 1)
    inside = ((boxes[:, :2] <= at) & (at < boxes[:, 2:])).all(1)
    return float((inside & (top != 0)).double().mean())
""",
    ],
}

WRONG = {
    "10-saliency-map": {
        "mean-over-channels": saliency(reduced="gradient.abs().mean(1)"),
        "forgot-abs": saliency(reduced="gradient.amax(1)"),
        "abs-after-max": saliency(reduced="gradient.amax(1).abs()"),
        "indexed-all-pairs": saliency("logits[:, classes].sum()"),
        "same-class-for-all": saliency("logits[:, classes[0]].sum()"),
        "wrong-target": saliency("logits.amax(1).sum()"),
        "softmax-target": saliency("logits.softmax(1).gather(1, classes[:, None]).sum()"),
        "polluted-grads": """
def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    model(x).gather(1, classes[:, None]).sum().backward()
    return x.grad.abs().amax(1)
""",
        "input-touched": """
import torch

def saliency_map(model, x, classes):
    x.requires_grad_()
    x.grad = None
    total = model(x).gather(1, classes[:, None]).sum()
    return torch.autograd.grad(total, x)[0].abs().amax(1)
""",
    },
    "10-guided-backprop": {
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
        "input-touched": guided().replace(
            "x = x.detach().clone().requires_grad_()", "x.requires_grad_(); x.grad = None"
        ),
        "hook-left-behind": """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    for m in model.modules():
        if isinstance(m, nn.ReLU):
            m.register_full_backward_hook(lambda module, gi, go: (gi[0].clamp(min=0),))
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
        "hook-left-after-exception": """
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
    },
    "10-grad-cam": {
        "forgot-relu": cam(result="(weights * A).sum(1).detach()"),
        "not-pooled": cam(weights="gradient"),
        "sum-instead-of-mean": cam(weights="gradient.sum((2, 3), keepdim=True)"),
        "softmax-target": cam("logits.softmax(1)[:, cls].sum()"),
        "batch-mean": cam("logits[:, cls].mean()"),
        "mixed-batch": cam(weights="gradient.mean((0, 2, 3))[:, None, None]"),
        "grad-input-not-output": """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def before(module, args):
        kept["in"] = args[0]
        args[0].register_hook(lambda grad: kept.update(grad=grad))
    def after(module, args, output):
        kept["A"] = output
    with layer.register_forward_pre_hook(before), layer.register_forward_hook(after):
        logits = model(x)
    torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    weights = kept["grad"].mean((2, 3), keepdim=True)
    return (weights * kept["A"]).sum(1).relu().detach()
""",
        "wrong-target": cam("logits.max(1).values.sum()"),
        "relu-on-weights": cam(weights="gradient.mean((2, 3), keepdim=True).relu()"),
        "scaled": cam(
            result="(lambda m: (m / m.amax((1, 2), keepdim=True).clamp(min=1e-12)).detach())"
            "((weights * A).sum(1).relu())"
        ),
        "upsampled": cam(
            result="torch.nn.functional.interpolate((weights * A).sum(1, keepdim=True).relu().detach(), "
            "x.shape[2:], mode='bilinear')[:, 0]"
        ),
        "full-hook-and-in-place": """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    first = layer.register_forward_hook(lambda m, a, o: kept.update(A=o.detach().clone()))
    second = layer.register_full_backward_hook(lambda m, gi, go: kept.update(g=go[0].detach().clone()))
    try:
        logits = model(x)
        torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()))
    finally:
        first.remove()
        second.remove()
    return (kept["g"].mean((2, 3), keepdim=True) * kept["A"]).sum(1).relu()
""",
        "polluted-grads": """
def grad_cam(model, layer, x, cls):
    kept = []
    def hook(module, args, output):
        output.retain_grad()
        kept.append(output)
    with layer.register_forward_hook(hook):
        model(x.detach())[:, cls].sum().backward()
    A = kept[0]
    return (A.grad.mean((2, 3), keepdim=True) * A).sum(1).relu().detach()
""",
        "input-touched": cam().replace("    kept = {}", "    kept = {}\n    x.grad = None\n    x.requires_grad_()"),
        "hook-left-behind": """
import torch

def grad_cam(model, layer, x, cls):
    kept = []
    layer.register_forward_hook(lambda module, args, output: kept.append(output))
    logits = model(x)
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()
""",
        "hook-left-after-exception": """
import torch

def grad_cam(model, layer, x, cls):
    kept = []
    handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))
    logits = model(x)
    handle.remove()
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()
""",
    },
    "10-guided-grad-cam": {
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
        "hook-left-behind": both().replace("            handle.remove()", "            pass"),
        "hook-left-after-exception": both()
        .replace(
            "with layer.register_forward_hook(lambda module, args, output: kept.append(output)):",
            "handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))\n    if True:",
        )
        .replace(
            "    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])",
            "    handle.remove()\n    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])",
        ),
    },
    "10-pointing-game": {
        "swapped-axes": pointing(place="place % W, place // W"),
        "zero-map-hit": pointing(heated="True"),
        "no-upsampling": pointing(upsampled="cam", place="place // cam.shape[2], place % cam.shape[2]"),
        "nearest-upsampling": pointing(upsampled="F.interpolate(cam[:, None], size=(H, W))[:, 0]"),
        "align-corners": pointing(
            upsampled="F.interpolate(cam[:, None], size=(H, W), mode='bilinear', align_corners=True)[:, 0]"
        ),
        "closed-box": pointing(inside="(x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)"),
        "open-box": pointing(inside="(x0 < x) & (x < x1) & (y0 < y) & (y < y1)"),
        "counted-hits": pointing(result="float(found.sum())"),
        "no-python-float": pointing(result="found.float().mean()"),
    },
}

ALSO_WRONG = {
    "10-saliency-map": [
        saliency("logits.sum()"),
        saliency("logits[0, classes[0]]"),
        saliency(reduced="gradient.abs().sum(1)"),
        saliency(reduced="gradient.abs().amax(1, keepdim=True)"),
        saliency(reduced="gradient.norm(dim=1)"),
        saliency(reduced="(gradient * x).abs().amax(1).detach()"),
        saliency(reduced="gradient.abs()"),
        saliency(reduced="gradient.abs().amax(1) / gradient.abs().max()"),
        saliency("logits.log_softmax(1).gather(1, classes[:, None]).sum()"),
        saliency("logits.gather(1, classes[:, None]).mean()"),
        saliency().replace("    return", "    model.eval()\n    model.train()\n    return"),
        # the mode of the model comes back, but not that of every module in it
        saliency().replace("    logits", "    was = model.training\n    model.eval()\n    logits")
                  .replace("    return", "    model.train(was)\n    return"),
        # a parameter that the caller had frozen requires grad afterwards
        saliency().replace("    logits", "    model.requires_grad_(False)\n    logits")
                  .replace("    return", "    model.requires_grad_(True)\n    return"),
        # right, apart from a condition: with a single sample, this is not to be taken for the winner's map
        saliency(reduced="gradient.abs().amax(1).double()"),
        saliency().replace("    return", "    model.zero_grad()\n    return"),
        saliency().replace("    x = x.d", "    [p.requires_grad_(False) for p in model.parameters()]\n    x = x.d"),
        "def saliency_map(model, x, classes):\n    return x.detach().abs().amax(1)",
        "def saliency_map(model, x, classes):\n    pass",
    ],
    "10-guided-backprop": [
        guided().replace("    handles = ", "    was = model.training\n    model.eval()\n    handles = ")
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
        guided().replace("for handle in handles:\n            handle.remove()",
                         "for m in model.modules():\n            m._backward_hooks.clear()"),
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
    ],
    "10-grad-cam": [
        cam(result="(weights * A).sum(1).abs().detach()"),
        cam(result="(weights * A).mean(1).relu().detach()"),
        cam(result="(weights * A).relu().sum(1).detach()"),
        cam(result="(weights * A).sum(1).relu()"),
        cam(result="(weights * A).sum(1, keepdim=True).relu().detach()"),
        cam(result="((weights * A).sum(1).relu() / (weights * A).sum(1).relu().max()).detach()"),
        cam(weights="torch.ones(1, A.shape[1], 1, 1)"),
        cam(weights="gradient.amax((2, 3), keepdim=True)"),
        cam(weights="gradient.abs().mean((2, 3), keepdim=True)"),
        cam(weights="gradient[:1].mean((2, 3), keepdim=True)"),
        cam(weights="gradient.mean(3, keepdim=True)"),
        cam(weights="gradient.mean(1, keepdim=True)"),
        cam(weights="gradient.sum((2, 3), keepdim=True) / 20"),
        cam("logits.log_softmax(1)[:, cls].sum()"),
        cam("logits.sum()"),
        cam("logits[0, cls]"),
        cam("-torch.nn.functional.cross_entropy(logits, torch.full((len(x),), cls), reduction='sum')"),
        cam().replace("    kept = {}", "    kept = {}\n    model.train(not model.training)"),
        cam().replace("    kept = {}", "    kept = {}\n    model.zero_grad()"),
        cam().replace("    kept = {}", "    kept = {}\n    [m._forward_hooks.clear() for m in model.modules()]"),
        "def grad_cam(model, layer, x, cls):\n    pass",
        "import torch\n\ndef grad_cam(model, layer, x, cls):\n    return torch.zeros(len(x), 2, 2)",
    ],
    "10-guided-grad-cam": [
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
        both().replace("def guided_grad_cam(model, layer, x, cls):",
                       "def guided_grad_cam(model, layer, x, cls):\n    model.train(not model.training)"),
        "def guided_grad_cam(model, layer, x, cls):\n    return x.detach() * 0",
    ],
    "10-pointing-game": [
        pointing(heated="True", inside="(x0 <= x) & (x < x1)"),
        pointing(inside="(x0 <= x) & (x < x1) & (y0 <= y) & (y <= y1)"),
        pointing(inside="(x0 <= x) & (x <= x1) & (y0 <= y) & (y < y1)"),
        pointing(inside="(x0 <= x) & (x < x1) & (y0 < y) & (y < y1)"),
        pointing(result="1 - found.float().mean().item()"),
        pointing(result="round(found.float().mean().item(), 1)"),
        pointing(result="float(found.all())"),
        pointing(result="found.tolist()"),
        pointing(result="100 * found.float().mean().item()"),
        pointing(place="place // H, place % H"),
        pointing(upsampled="F.interpolate(cam[:, None], size=(W, H), mode='bilinear', align_corners=False)[:, 0]"),
        pointing(upsampled="F.interpolate(cam[:, None], size=(H, W), mode='bicubic', align_corners=False)[:, 0]"),
        pointing().replace("H, W = size", "W, H = size"),
        pointing(inside="(x0 < x) & (x <= x1) & (y0 < y) & (y <= y1)"),
        # the last of equal pixels
        pointing(place="(H * W - 1 - large.flatten(1).flip(1).argmax(1)) // W, "
                       "(H * W - 1 - large.flatten(1).flip(1).argmax(1)) % W"),
        # column by column
        pointing().replace("place = large.flatten(1).argmax(1)", "place = large.mT.flatten(1).argmax(1)")
                  .replace("place // W, place % W", "place % H, place // H"),
        pointing().replace("H, W = size", "H, W = size\n    cam /= cam.max()"),
        pointing(result="(found.sum() / (large.flatten(1).amax(1) > 0).sum()).item()"),
        # a map that is the same everywhere is not 0
        pointing(heated="large.flatten(1).amax(1) > large.flatten(1).amin(1)"),
        # a map of small values is not 0
        pointing(heated="large.flatten(1).amax(1) > 1e-3"),
        "def pointing_game(cam, boxes, size):\n    return 0.5",
        "def pointing_game(cam, boxes, size):\n    return 0.0",
        "def pointing_game(cam, boxes, size):\n    return 1.0",
    ],
}  # fmt: skip
