"""Answers to 10-grad-cam."""

RIGHT = [
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
    return F.relu(torch.bmm(alpha, catch.A.detach().reshape(B, K, h * w)).view(B, h, w))
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


SURVIVORS = {
    "lost copy: kept['A']": "nothing after the layer overwrites its output",
    "lost copy: x = _not_": "the model does not write into its input, and gradients are asked of that very tensor",
    "lost copy: for image in _not_detached(x)": "only the gradient of the layer's output is asked for",
    "lost copy: torch.autograd.grad(logits[:, cls].sum(), _not_copied(model.parameters())": "a generator will do",
    "almost: return torch.relu((got['g'].mean((2, -1)": "2 is -2 in four dimensions",
    "not for all: for k in _part(range(g.shape[1]), step=-1)": "the order of a sum",
    "condition dropped: m.inplace = False": "other modules do not look at it",
    "not for all: names = {m: n for n, m in _part(model.named_modules(), start=1)": "the layer is not the model itself",
    "lost statement: without kept['handle'].remove()": "the hook is on a tensor of this one pass",
    "lost copy: … (grad=_not_copied(grad": "nobody overwrites the gradient",
    "… _part(parameters, st": "to freeze parameters saves time, and changes no result",
    "… parameters = [p for p in": "to freeze parameters saves time, and changes no result",
    "… p.requires_grad_(": "to freeze parameters saves time, and changes no result",
    "not for all: for m in _part([m for m in twin.modules() if hasattr(m, 'inplace')], start=1)": (
        "what matters is whether the layer itself, or what follows it, works in place: never the first of these"
    ),
}
