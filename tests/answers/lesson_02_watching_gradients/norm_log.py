"""Answers to 02-norm-log."""

from graders.author.answers import Wrong

RIGHT = [
    """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before, p.grad = p.grad, None
        try:
            loss(p).backward()
            norms.append(float(p.grad.square().sum().sqrt()))
        finally:
            if before is not None:
                p.grad = before if p.grad is None else p.grad + before
    return norms
""",
    """
import math

def norm_log(p, losses):
    out = []
    def hook(grad):
        out.append(math.sqrt((grad.double() ** 2).sum().item()))
    handle = p.register_hook(hook)
    try:
        for loss in losses:
            loss(p).backward()
    finally:
        handle.remove()
    return out
""",
    """
class Norms(list):
    def __call__(self, grad):
        self.append(grad.norm().item())

def norm_log(p, losses):
    norms = Norms()
    with p.register_hook(norms):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
import contextlib
import torch

def norm_log(p, losses):
    norms = []
    def hook(grad):
        norms.append(torch.linalg.vector_norm(grad.detach()).item())
        return grad
    with contextlib.ExitStack() as stack:
        stack.callback(p.register_hook(hook).remove)
        for loss in losses:
            torch.autograd.backward([loss(p)])
    return norms
""",
    """
def norm_log(p, losses):
    return [one_norm(p, loss) for loss in losses]

def one_norm(p, loss):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.reshape(-1).norm().item())):
        loss(p).backward()
    return norms.pop()
""",
]

HOOKED = """
import torch

def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(NORM)):
        for loss in losses:
            loss(p).backward()
    return norms
"""
NORM, PASSES = "test_each_pass_has_its_own_norm", "test_p.grad_accumulates_over_single_passes"

WRONG = [
    *(
        Wrong(
            what, "rule 6: A number is an `int` or a `float`, as the contract says", NORM, HOOKED.replace("NORM", norm)
        )
        for what, norm in [("tensors", "grad.norm()"), ("numpy's floats", "grad.norm().numpy()[()]")]
    ),
    *(
        Wrong(what, "the square root of the\n    sum of all squared entries", NORM, HOOKED.replace("NORM", norm))
        for what, norm in [
            ("the L1 norm", "grad.abs().sum().item()"),
            ("norms of the rows", "grad.norm(dim=-1).sum().item()"),
            ("the largest column", "(grad.norm(dim=0).max() if grad.dim() > 1 else grad.norm()).item()"),
        ]
    ),
    Wrong(
        "the total is put back at the end only",
        violates="also\n    when a loss raises",
        check="test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves",
        source="""
def norm_log(p, losses):
    norms, total = [], p.grad
    for loss in losses:
        p.grad = None
        loss(p).backward()
        norms.append(p.grad.norm().item())
        total = p.grad if total is None else total + p.grad
    p.grad = total
    return norms
""",
    ),
    Wrong(
        "two passes for each loss",
        violates="run `loss(p).backward()` once",
        check=PASSES,
        source="""
import torch

def norm_log(p, losses):
    norms = []
    for loss in losses:
        value = loss(p)
        norms.append(torch.autograd.grad(value, p, retain_graph=True)[0].norm().item())
        value.backward()
    return norms
""",
    ),
    Wrong(
        "all losses first",
        violates="For each function in the list `losses`, in order",
        check=PASSES,
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for value in [loss(p) for loss in losses]:
            value.backward()
    return norms
""",
    ),
    Wrong(
        "one norm for each function",
        violates="A loss may differ from call to call",
        check=NORM,
        source="""
def norm_log(p, losses):
    norms = {}
    for loss in losses:
        with p.register_hook(lambda grad, loss=loss: norms.update({loss: grad.norm().item()})):
            loss(p).backward()
    return [norms[loss] for loss in losses]
""",
    ),
]

SURVIVORS = {
    "no empty collection": "nobody promises that `losses` may be empty",
    "lost return: grad": "a hook that returns nothing watches, too",
    "one global slot": "each call takes out what it has put in",
    "`.grad` put back as a copy": "the contract says what `p.grad` holds, not in which tensor",
}
