"""Answers to 10-saliency-map."""

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


RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
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
    saliency()
    .replace("    logits", "    was = model.training\n    model.eval()\n    logits")
    .replace("    return", "    model.train(was)\n    return"),
    # a parameter that the caller had frozen requires grad afterwards
    saliency()
    .replace("    logits", "    model.requires_grad_(False)\n    logits")
    .replace("    return", "    model.requires_grad_(True)\n    return"),
    # right, apart from a condition: with a single sample, this is not to be taken for the winner's map
    saliency(reduced="gradient.abs().amax(1).double()"),
    saliency().replace("    return", "    model.zero_grad()\n    return"),
    saliency().replace("    x = x.d", "    [p.requires_grad_(False) for p in model.parameters()]\n    x = x.d"),
    "def saliency_map(model, x, classes):\n    return x.detach().abs().amax(1)",
    "def saliency_map(model, x, classes):\n    pass",
]
