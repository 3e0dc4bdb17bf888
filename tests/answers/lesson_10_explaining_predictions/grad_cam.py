"""Answers to 10-grad-cam."""

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


RIGHT = [
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
]

WRONG = {
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
        result="(lambda m: (m / m.amax((1, 2), keepdim=True).clamp(min=1e-12)).detach())((weights * A).sum(1).relu())"
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
}

ALSO_WRONG = [
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
    """
import torch

def grad_cam(model, layer, x, cls):
    kept = []
    layer.register_forward_hook(lambda module, args, output: kept.append(output))
    logits = model(x)
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()
""",
    """
import torch

def grad_cam(model, layer, x, cls):
    kept = []
    handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))
    logits = model(x)
    handle.remove()
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()
""",
]
