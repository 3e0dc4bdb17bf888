"""Answers to 01-per-pass-grads."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
    """
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0] for loss in losses]
""",
    """
from functools import partial

def note(store, grad):
    store.append(grad.detach().clone())

def per_pass_grads(p, losses):
    store = []
    with p.register_hook(partial(note, store)):
        for loss in losses:
            loss(p).backward()
    return store
""",
    """
def per_pass_grads(p, losses):
    out = []
    for loss in losses:
        q = p.detach().requires_grad_()
        loss(q).backward()
        out.append(q.grad)
    return out
""",
    """
def per_pass_grads(p, losses):
    store = []
    def take(p):
        store.append(p.grad)
        p.grad = None
    p.grad = None
    with p.register_post_accumulate_grad_hook(take):
        for loss in losses:
            loss(p).backward()
    return store
""",
    """
import torch

def per_pass_grads(p, losses):
    return [torch.func.grad(loss)(p.detach()).detach() for loss in losses]
""",
]

WRONG = [
    Wrong(
        "rounded to nine places",
        violates="the gradient with respect to `p` of each loss alone",
        check="test_a_small_gradient_follows_a_large_one",
        source=changed(RIGHT[1], ("p)[0]", "p)[0].round(decimals=9)")),
    ),
    Wrong(
        "a loss that is NaN has no gradient",
        violates="return a list with the gradient with respect to `p` of each loss alone",
        check="test_a_small_gradient_follows_a_large_one",
        source="""
import torch

def per_pass_grads(p, losses):
    values = [loss(p) for loss in losses]
    return [torch.zeros_like(p) if value.isnan() else torch.autograd.grad(value, p)[0].clone() for value in values]
""",
    ),
    Wrong(
        "sums",
        violates="the gradient with respect to `p` of each loss alone",
        check="test_each_pass_has_its_own_gradient",
        mistake="accumulated-grad",
        source="""
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
""",
    ),
    Wrong(
        "the tensor of `.grad` itself",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_each_pass_has_its_own_gradient",
        mistake="stored-alias",
        source="""
def per_pass_grads(p, losses):
    grads = []
    p.grad = None
    for loss in losses:
        if p.grad is not None:
            p.grad.zero_()
        loss(p).backward()
        grads.append(p.grad)
    return grads
""",
    ),
    Wrong(
        "the last entry is `.grad` itself",
        violates="anything but an entry of your list",
        check="test_the_entries_are_copies",
        mistake="stored-alias",
        source="""
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        grads.append(p.grad.detach())
    return grads
""",
    ),
    Wrong(
        "the old value counts",
        violates="An old value of `p.grad` must not enter the result",
        check="test_each_pass_has_its_own_gradient",
        mistake="old-value-kept",
        source="""
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        loss(p).backward()
        grads.append(p.grad)
        p.grad = None
    return grads
""",
    ),
    Wrong(
        "one pass for the sum",
        violates="the gradient with respect to `p` of each loss alone",
        check="test_each_pass_has_its_own_gradient",
        mistake="summed-losses",
        source="""
import torch

def per_pass_grads(p, losses):
    values = [loss(p) for loss in losses]
    if not values:
        return []
    (grad,) = torch.autograd.grad(sum(values), p)
    return [grad.clone() for _ in losses]
""",
    ),
    Wrong(
        "differences of sums",
        violates="An old value of `p.grad` must not enter the result",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        before = torch.zeros_like(p) if p.grad is None else p.grad.clone()
        loss(p).backward()
        grads.append(p.grad - before)
    return grads
""",
    ),
    Wrong(
        "a graph comes along",
        violates="rule 6: A tensor that you return has no graph",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p, create_graph=True)[0] * p / p for loss in losses]
""",
    ),
    Wrong(
        "the last loss first",
        violates="Evaluate each loss once, in this order",
        check="test_each_loss_is_evaluated_once_in_order",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses[::-1]][::-1]
""",
    ),
    Wrong(
        "each loss twice",
        violates="Evaluate each loss once, in this order",
        check="test_each_loss_is_evaluated_once_in_order",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p) if loss(p) > 0 else loss(p), p)[0].clone() for loss in losses]
""",
    ),
    Wrong(
        "a tuple",
        violates="return a list with the gradient with respect to `p` of each loss alone",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    return tuple(torch.autograd.grad(loss(p), p)[0].clone() for loss in losses)
""",
    ),
    Wrong(
        "one tensor for all",
        violates="return a list with the gradient with respect to `p` of each loss alone",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    return torch.stack(grads) if grads else torch.zeros(0)
""",
    ),
    Wrong(
        "float32 for everybody",
        violates="rule 1: in `float32` and in `float64`",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].float().clone() for loss in losses]
""",
    ),
    Wrong(
        "p is zeroed",
        violates="rule 2: Tensors keep their values",
        check="test_p_is_left_as_it_was",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    p.data.zero_()
    return grads
""",
    ),
    Wrong(
        "a hook left on p",
        violates="rule 3: none of your own hooks is left",
        check="test_p_is_left_as_it_was",
        source="""
def per_pass_grads(p, losses):
    store = []
    p.register_hook(lambda grad: store.append(grad.clone()))
    for loss in losses:
        loss(p).backward()
    return store[:len(losses)]
""",
    ),
    Wrong(
        "all hooks cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_p_is_left_as_it_was",
        source="""
def per_pass_grads(p, losses):
    store = []
    p.register_hook(lambda grad: store.append(grad.clone()))
    for loss in losses:
        loss(p).backward()
    p._backward_hooks.clear()
    return store
""",
    ),
    Wrong(
        "a hook left where a loss raises",
        violates="rule 4: Rules 2 and 3 hold then",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
def per_pass_grads(p, losses):
    store = []
    handle = p.register_hook(lambda grad: store.append(grad.clone()))
    for loss in losses:
        loss(p).backward()
    handle.remove()
    return store
""",
    ),
    Wrong(
        "a loss that raises counts for nothing",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        try:
            grads.append(torch.autograd.grad(loss(p), p)[0].clone())
        except RuntimeError:
            grads.append(torch.zeros_like(p))
    return grads
""",
    ),
    Wrong(
        "three losses",
        violates="`losses` is a list of functions",
        check="raised",
        source="""
import torch

def per_pass_grads(p, losses):
    first, second, third = losses
    return [torch.autograd.grad(loss(p), p)[0].clone() for loss in (first, second, third)]
""",
    ),
    Wrong(
        "a loss that raises ValueError is skipped",
        violates="rule 4: That holds for every exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        try:
            grads.append(torch.autograd.grad(loss(p), p)[0].clone())
        except ValueError:
            continue
    return grads
""",
    ),
    Wrong(
        "the first six losses",
        violates="return a list with the gradient with respect to `p` of each loss alone",
        check="test_each_pass_has_its_own_gradient",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses[:6]]
""",
    ),
    Wrong(
        "remembers the list of losses",
        violates="rule 1: It works however often it is called",
        check="test_another_call_has_its_own_gradients",
        source="""
import torch

known = {}

def per_pass_grads(p, losses):
    if id(losses) not in known:
        known[id(losses)] = losses, [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    return [grad.clone() for grad in known[id(losses)][1]]
""",
    ),
    Wrong(
        "differences of a running sum",
        violates="the gradient with respect to `p` of each loss alone",
        check="test_a_small_gradient_follows_a_large_one",
        source="""
def per_pass_grads(p, losses):
    p.grad, before, grads = None, 0, []
    for loss in losses:
        loss(p).backward()
        grads.append(p.grad - before)
        before = p.grad.clone()
    return grads
""",
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: or on several at the same time",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
import torch

grads = []

def per_pass_grads(p, losses):
    grads.clear()
    for loss in losses:
        grads.append(torch.autograd.grad(loss(p), p)[0].clone())
    return list(grads)
""",
    ),
    Wrong(
        "the hooks of others are away while a loss raises",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def per_pass_grads(p, losses):
    theirs, p._backward_hooks = p._backward_hooks, None
    grads = [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    p._backward_hooks = theirs
    return grads
""",
    ),
    Wrong(
        "all passes in one batch",
        violates="rule 3: They may watch",
        check="raised",
        source="""
import torch

def per_pass_grads(p, losses):
    if not losses:
        return []
    values = torch.stack([loss(p) for loss in losses])
    each = torch.eye(len(losses), dtype=values.dtype)
    return [row.clone() for row in torch.autograd.grad(values, p, each, is_grads_batched=True)[0]]
""",
    ),
    Wrong(
        "a number becomes a list of one",
        violates="rule 1: for tensors of any shape",
        check="test_a_small_gradient_follows_a_large_one",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    return [grad if grad.dim() else grad.reshape(1) for grad in grads]
""",
    ),
    Wrong(
        "a hook stays when a pass raises",
        violates="rule 3: or raised, none of your own hooks is left",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
def per_pass_grads(p, losses):
    grads = []
    for loss in losses:
        value = loss(p)
        handle = p.register_hook(lambda grad: grads.append(grad.clone()))
        value.backward()
        handle.remove()
    return grads
""",
    ),
    Wrong(
        "the list of losses is used up, and filled again at the end",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def per_pass_grads(p, losses):
    grads, done = [], []
    while losses:
        done.append(losses.pop(0))
        grads.append(torch.autograd.grad(done[-1](p), p)[0].clone())
    losses.extend(done)
    return grads
""",
    ),
    Wrong(
        "no gradient is infinite",
        violates="the gradient with respect to `p` of each loss alone",
        check="test_a_small_gradient_follows_a_large_one",
        mistake="numbers-for-infinities",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].nan_to_num() for loss in losses]
""",
    ),
    Wrong(
        "a loss that stands there twice is evaluated once",
        violates="Evaluate each loss once, in this order",
        check="test_each_loss_is_evaluated_once_in_order",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = {loss: torch.autograd.grad(loss(p), p)[0].clone() for loss in dict.fromkeys(losses)}
    return [grads[loss].clone() for loss in losses]
""",
    ),
    Wrong(
        "gradients of zeros are left out",
        violates="return a list with the gradient with respect to `p` of each loss alone",
        check="test_another_call_has_its_own_gradients",
        mistake="zeros-left-out",
        source="""
import torch

def per_pass_grads(p, losses):
    grads = [torch.autograd.grad(loss(p), p)[0].clone() for loss in losses]
    return [grad for grad in grads if grad.any() or not grad.numel()]
""",
    ),
    Wrong(
        "a graph where another tensor of the loss requires grad",
        violates="rule 6: A tensor that you return has no graph",
        check="test_another_call_has_its_own_gradients",
        mistake="graph-kept",
        source="""
import torch

def per_pass_grads(p, losses):
    return [torch.func.grad(loss)(p.detach()) for loss in losses]
""",
    ),
]

GIVENS = [
    "Write `per_pass_grads(p, losses)`.",
    "`p` is a leaf that requires grad, and hooks on it only watch.",
]

SURVIVORS = {
    "lost copy: return [torch.func.grad(loss)(_not_detached(p)).detach()": "what is handed out has no graph",
    "zero_grad() first": "what `p.grad` holds at the end is up to the function",
    "`.grad` put back as a copy": "what `p.grad` holds at the end is up to the function",
}
