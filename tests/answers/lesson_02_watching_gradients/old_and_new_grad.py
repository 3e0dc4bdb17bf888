"""Answers to 02-old-and-new-grad."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.clone()))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
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
    old = 3 * x
    new = old * k
    found, *pair = torch.autograd.grad(loss_fn(new.clone()), (x, old, new))
    x.grad = found if x.grad is None else x.grad + found
    return tuple(pair)
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


def hooked(old, new):
    assert old in HOOKED
    return HOOKED.replace(old, new)


RUN = "    loss.backward()\n"
RIGHT_PAIR = "test_the_old_and_the_new_gradient_are_right"
ONE_PASS = "test_x_has_its_gradient_from_one_pass"
FAILING = "test_an_exception_comes_through_and_nothing_is_left"
NOTHING = "test_nothing_else_changes"

WRONG = [
    Wrong(
        "the gradients themselves, which a neighbour shares",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_both_gradients_are_tensors_of_their_own",
        source="""
def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    got = {}
    old.register_hook(lambda grad: got.update(old=grad))
    new.register_hook(lambda grad: got.update(new=grad))
    loss_fn(new).backward()
    return got["old"], got["new"]
""",
    ),
    Wrong(
        "both after the multiplication",
        violates="with respect to `t` before the multiplication",
        check=RIGHT_PAIR,
        mistake="hook-after-in-place",
        source="""
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.mul_(k)
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.register_hook(lambda grad: seen.append(grad.clone()))
    loss_fn(t).backward()
    return seen[0], seen[1]
""",
    ),
    Wrong(
        "both before the multiplication",
        violates="with respect to `t` after it",
        check=RIGHT_PAIR,
        source="""
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.mul_(k)
    loss_fn(t).backward()
    return seen[0], seen[1]
""",
    ),
    Wrong(
        "new before old",
        violates="Return a tuple of two gradients of the loss",
        check=RIGHT_PAIR,
        mistake="swapped-pair",
        source=hooked('seen["old"], seen["new"]', 'seen["new"], seen["old"]'),
    ),
    Wrong(
        "a list",
        violates="Return a tuple",
        check=RIGHT_PAIR,
        source=hooked('seen["old"], seen["new"]', '[seen["old"], seen["new"]]'),
    ),
    Wrong(
        "multiplied where autograd does not see it",
        violates="multiply the value of `t` by `k`",
        check=RIGHT_PAIR,
        mistake="multiplied-out-of-sight",
        source=hooked("t.mul_(k)", "t.data.mul_(k)"),
    ),
    Wrong(
        "retain_grad() moves on",
        violates="may overwrite `t` in place",
        check=RIGHT_PAIR,
        mistake="moved-on",
        source="""
def old_and_new_grad(x, k, loss_fn):
    seen = []
    t = 3 * x
    t.register_hook(lambda grad: seen.append(grad.clone()))
    t.mul_(k)
    t.retain_grad()
    loss_fn(t).backward()
    return seen[0], t.grad
""",
    ),
    Wrong(
        "autograd.grad with respect to what t has become",
        violates="which is the value that `loss_fn` gets",
        check=RIGHT_PAIR,
        mistake="moved-on",
        source="""
import torch

def old_and_new_grad(x, k, loss_fn):
    old = 3 * x
    new = old * k
    loss = loss_fn(new)
    one, two = torch.autograd.grad(loss, (old, new), retain_graph=True)
    (g,) = torch.autograd.grad(loss, x)
    x.grad = g if x.grad is None else x.grad + g
    return one, two
""",
    ),
    Wrong(
        "divided by k",
        violates="`k` is a number, also 0",
        check=RIGHT_PAIR,
        source=hooked('seen["old"], seen["new"]', 'seen["old"], seen["old"] / k'),
    ),
    Wrong(
        "a third of x.grad",
        violates="with respect to `t` before the multiplication",
        check=RIGHT_PAIR,
        mistake="a-third-of-the-total",
        source=hooked('seen["old"], seen["new"]', 'x.grad / 3, seen["new"]'),
    ),
    Wrong(
        "a third of what arrives at x",
        violates="`loss_fn` may use `x` as well",
        check=RIGHT_PAIR,
        source="""
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    with x.register_hook(lambda grad: seen.update(old=grad / 3)):
        t = 3 * x
        t.mul_(k)
        t.register_hook(lambda grad: seen.update(new=grad.clone()))
        loss_fn(t).backward()
    return seen["old"], seen["new"]
""",
    ),
    Wrong(
        "x.grad is replaced",
        violates="The gradient with respect to `x` is added to `x.grad`",
        check=ONE_PASS,
        mistake="grad-replaced",
        source=hooked(RUN, "    x.grad = None\n" + RUN),
    ),
    Wrong(
        "x.grad stays empty",
        violates="is added to `x.grad`, as by `loss.backward()`",
        check=ONE_PASS,
        mistake="never-accumulated",
        source=hooked("t = 3 * x", "t = (3 * x.detach()).requires_grad_() * 1"),
    ),
    Wrong(
        "loss_fn is called twice",
        violates="Call it once",
        check=ONE_PASS,
        source=hooked("loss = loss_fn(t)", "loss_fn(t.detach().clone().requires_grad_() * 1)\n    loss = loss_fn(t)"),
    ),
    Wrong(
        "another value goes into the loss",
        violates="Compute `t = 3 * x`",
        check=RIGHT_PAIR,
        source=hooked("t = 3 * x", "t = 2 * x"),
    ),
    Wrong(
        "two passes",
        violates="run backward once",
        check=ONE_PASS,
        source=hooked(RUN, "    loss.backward(retain_graph=True)\n    x.grad = None\n    loss.backward()\n"),
    ),
    Wrong(
        "with a graph",
        violates="rule 6: no graph",
        check=RIGHT_PAIR,
        source="""
def old_and_new_grad(x, k, loss_fn):
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad * 1))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad * 1))
    loss_fn(t).backward(create_graph=True)
    return seen["old"], seen["new"]
""",
    ),
    Wrong(
        "one tensor for both",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_both_gradients_are_tensors_of_their_own",
        source=hooked(
            'return seen["old"], seen["new"]',
            'both = torch.stack([seen["old"], seen["new"]])\n    return both[0], both[1]',
        ),
    ),
    Wrong(
        "float32 for everybody",
        violates="rule 1: in `float32` and in `float64`",
        check=RIGHT_PAIR,
        source=hooked('seen["old"], seen["new"]', 'seen["old"].float(), seen["new"].float()'),
    ),
    Wrong(
        "x is changed",
        violates="rule 2: Tensors keep their values",
        check=NOTHING,
        source=hooked(RUN, RUN + "    x.data = 2 * x.data\n"),
    ),
    Wrong(
        "a hook is left on x",
        violates="rule 3: none of your own hooks is left",
        check=NOTHING,
        source=hooked("    t = 3 * x\n", "    t = 3 * x\n    x.register_hook(lambda grad: None)\n"),
    ),
    Wrong(
        "the caller's hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=NOTHING,
        source=hooked(RUN, RUN + "    if x._backward_hooks:\n        x._backward_hooks.clear()\n"),
    ),
    Wrong(
        "a hook is left on x when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILING,
        source=hooked("    loss = loss_fn(t)\n    loss.backward()\n",
                      "    handle = x.register_hook(lambda grad: None)\n"
                      "    loss_fn(t).backward()\n    handle.remove()\n"),
    ),
    Wrong(
        "exceptions are swallowed",
        violates="rule 4: Errors come through",
        check=FAILING,
        source=hooked("    loss = loss_fn(t)\n    loss.backward()\n",
                      "    try:\n        loss_fn(t).backward()\n    except Exception:\n        return None\n"),
    ),
    Wrong(
        "one tensor twice where k is 1",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_both_gradients_are_tensors_of_their_own",
        source=hooked('return seen["old"], seen["new"]',
                      'return seen["new"] if k == 1 else seen["old"], seen["new"]'),
    ),
    Wrong(
        "k as a tensor of float32",
        violates="rule 1: in `float32` and in `float64`",
        check=RIGHT_PAIR,
        source=hooked("t.mul_(k)", "t.mul_(torch.tensor(k))"),
    ),
    Wrong(
        "remembers the first answer",
        violates="rule 1: It works however often it is called",
        check="test_another_call_starts_afresh",
        source="known = {}\n" + hooked('return seen["old"], seen["new"]',
                                       'return known.setdefault(x.shape, (seen["old"], seen["new"]))'),
    ),
    Wrong(
        "two passes, one after the other",
        violates="run backward once",
        check="test_x_has_its_gradient_from_one_pass",
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
    Wrong(
        "multiplied out of sight, and the old gradient by hand",
        violates="is added to `x.grad`, as by `loss.backward()`",
        check=ONE_PASS,
        mistake="multiplied-out-of-sight",
        source=changed(
            HOOKED, ("t.mul_(k)", "t.data.mul_(k)"), ('return seen["old"], seen', 'return k * seen["new"], seen')
        ),
    ),
    Wrong(
        "both from retain_grad()",
        violates="may overwrite `t` in place",
        check=RIGHT_PAIR,
        mistake="moved-on",
        source="""
def old_and_new_grad(x, k, loss_fn):
    t = 3 * x
    t.mul_(k)
    t.retain_grad()
    loss_fn(t).backward()
    return k * t.grad, t.grad
""",
    ),
    Wrong(
        "one list that each call empties",
        violates="rule 1: also when one call runs inside another",
        check="test_another_call_starts_afresh",
        source="""
found = []

def old_and_new_grad(x, k, loss_fn):
    found.clear()
    t = 3 * x
    t.register_hook(lambda grad: found.append(grad.clone()))
    t.mul_(k)
    t.register_hook(lambda grad: found.append(grad.clone()))
    loss_fn(t).backward()
    return found[1], found[0]
""",
    ),
]  # fmt: skip

GIVENS = [
    "Write `old_and_new_grad(x, k, loss_fn)`.",
    "`x` is a leaf",
    "Hooks on `t` may stay.",
]

SURVIVORS = {
    "one global slot: seen": "each call writes both entries before it reads them",
    "lost copy": "of one of the two: nobody else holds its memory then",
    "clean-up not after an exception: with": "the hooks sit on a tensor of the function's own",
    "clean-up only after an `Exception`: with": "the hooks sit on a tensor of the function's own",
}
