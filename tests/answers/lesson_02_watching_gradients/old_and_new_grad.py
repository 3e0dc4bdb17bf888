"""Answers to 02-old-and-new-grad."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    old.retain_grad()
    new.retain_grad()
    loss_fn(new.clone()).backward()
    return (old.grad, new.grad)
""",
    """
from typing import NamedTuple
import torch

class Pair(NamedTuple):
    old: torch.Tensor
    new: torch.Tensor

def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = k * old
    loss_fn(1 * new).backward(inputs=(x, old, new))
    return Pair(old=old.grad, new=new.grad)
""",
    """
import torch

def old_and_new_grad(x, k, loss_fn):
    seen = {}
    class Tap(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t, name):
            ctx.name = name
            return t.clone()
        @staticmethod
        def backward(ctx, grad):
            seen[ctx.name] = grad.clone()
            return grad, None
    loss_fn(Tap.apply(Tap.apply(3 * x, "old") * k, "new")).backward()
    return seen["old"], seen["new"]
""",
    """
from functools import partial
import torch

def old_and_new_grad(x, k, loss_fn):
    t, store = 3 * x, {}
    with t.register_hook(partial(store.__setitem__, "old")):
        t *= k
        with t.register_hook(partial(store.__setitem__, "new")):
            torch.autograd.backward(loss_fn(t))
    return store["old"].detach().clone(), store["new"].detach().clone()
""",
]

HOOKED = """
import torch

def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.detach().clone()))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.detach().clone()))
    loss = loss_fn(t)
    loss.backward()
    return seen["old"], seen["new"]
"""
RETURNED = 'return seen["old"], seen["new"]'
RIGHT_PAIR, ONE_PASS = "test_the_old_and_the_new_gradient_are_right", "test_x_has_its_gradient_from_one_pass"

WRONG = [
    Wrong(
        "loss_fn is called twice",
        violates="run `loss_fn(t).backward()` once",
        check=ONE_PASS,
        source=changed(
            HOOKED, ("loss = loss_fn(t)", "loss_fn(t.detach().clone().requires_grad_() * 1)\n    loss = loss_fn(t)")
        ),
    ),
    Wrong(
        "one tensor twice where k is 1",
        violates="Return copies without a graph",
        check="test_both_gradients_are_tensors_of_their_own",
        source=changed(HOOKED, (RETURNED, 'return seen["new"] if k == 1 else seen["old"], seen["new"]')),
    ),
    Wrong(
        "two passes, one after the other",
        violates="run `loss_fn(t).backward()` once",
        check=ONE_PASS,
        source="""
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    old.retain_grad()
    new = old * k
    cut = new.detach().requires_grad_()
    loss_fn(cut.clone()).backward()
    new.backward(cut.grad)
    return old.grad, cut.grad
""",
    ),
]

SURVIVORS = {
    "`.grad` put back as a copy": "the contract says what `x.grad` holds, not in which tensor",
    "lost copy": "of one of the two: nobody else holds its memory then",
    "clean-up … with": "the hooks sit on a tensor of the function's own",
}
