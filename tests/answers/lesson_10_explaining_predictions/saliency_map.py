"""Answers to 10-saliency-map."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def saliency_map(model, x, classes):
    def logit(image, wanted):
        return model(image[None])[0].gather(0, wanted[None])[0]
    maps = [torch.func.grad(logit)(image, wanted) for image, wanted in zip(x.detach(), classes)]
    return torch.stack(maps).abs().amax(1).detach()
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


RESTORED = """
import torch

def saliency_map(model, x, classes):
    kept = [(p, p.grad) for p in model.parameters()]
    x = x.detach().clone().requires_grad_()
    model(x).gather(1, classes[:, None]).sum().backward()
    for p, grad in kept:
        p.grad = grad
    return x.grad.abs().amax(1)
"""

ONE_LIST = """
import torch

gradients = []

def saliency_map(model, x, classes):
    gradients.clear()
    x = x.detach().clone().requires_grad_()
    x.register_hook(gradients.append)
    torch.autograd.grad(model(x).gather(1, classes[:, None]).sum(), x)
    return gradients[0].abs().amax(1)
"""

WRONG = [
    Wrong(
        "one list for all calls, emptied at the beginning",
        violates="even while another call runs",
        check="test_a_later_call_starts_afresh",
        source=ONE_LIST,
    ),
    Wrong(
        "restores the `.grad` of each parameter, but not its numbers",
        violates="Leave what you were given as you found it",
        check="test_nothing_of_the_caller_changes",
        source=RESTORED,
    ),
]

SURVIVORS = {
    "lost copy": "the model does not write into its input, and gradients are asked of that very tensor",
    "lost statement: without handle.remove()": "the hook is on a tensor of the function's own",
}
