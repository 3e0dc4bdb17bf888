"""Stories for functions of a list of parameters and a bound: all `.grad` are clipped while `backward()` runs."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PARAMETERS = {
    "dtype": ("float32", "float64"),
    "rank": (1, 0, 2, 3),
    "layout": ("contiguous", "transposed"),
    "grad": ("empty", "filled"),
    "order": ("p first", "p last", "p between"),
    "number": ("fraction", "large"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph"),
}
IMPOSSIBLE = (lambda rank, layout: rank < 2 and layout == "transposed",)


def a_bound(draw: Draw, case: Any) -> float:
    """A bound below the joint norm of `a_loss`."""
    return draw.number(20, 50) if case.number == "large" else draw.number(0.2, 0.5, away=0)


@told
def three_parameters(draw: Draw, case: Any) -> Any:
    """Three parameters in a list; `p` is as the case says."""
    p = nn.Parameter(draw.tensor())
    q = nn.Parameter(draw.tensor(2))
    r = nn.Parameter(draw.tensor(1))
    if case.layout == "transposed":
        p.data = p.data.mT.contiguous().mT
    if case.grad == "filled":
        p.grad = torch.full_like(p, 0.7)
    if case.hooks == "watching":
        p.register_post_accumulate_grad_hook(lambda p: None)
    if case.hooks == "replacing":
        p.register_hook(lambda grad: 2 * grad)
    if case.order == "p first":
        params = [p, q, r]
    elif case.order == "p last":
        params = [r, q, p]
    else:
        params = [q, p, r]
    return p, q, r, params


@told
def a_loss(draw: Draw, case: Any, p: Tensor, q: Tensor, r: Tensor) -> Any:
    """A loss of three parameters, with a large gradient for each."""
    loss = (p * p * draw.tensor()).sum() + (q * draw.tensor(2)).sum() + (r * r).sum()
    if case.number == "large":
        loss = 100 * loss
    return loss


def clipped_in_a_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """The joint norm is clipped once all have arrived."""
    p, q, r, params = three_parameters(draw, case)
    call(params, a_bound(draw, case))
    loss = a_loss(draw, case, p, q, r)
    if case.backward == "create_graph":
        loss.backward(create_graph=True)
    else:
        loss.backward()
    yield "all .grad after a pass", [t.grad.detach().float() for t in params]
    yield "all .grad, divided by that of r", [(t.grad / r.grad).detach() for t in params]


def clipped_in_two_passes(call: Call, draw: Draw, case: Any) -> Seen:
    """The next pass accumulates and is clipped again."""
    p, q, r, params = three_parameters(draw, case)
    call(params, a_bound(draw, case))
    loss = a_loss(draw, case, p, q, r)
    loss.backward()
    ((100 * r * r).sum() + (q * draw.tensor(2)).sum() + (p * draw.tensor()).sum()).backward()
    yield "all .grad after a second pass", [t.grad.float() for t in params]


def clipped_after_clearing(call: Call, draw: Draw, case: Any) -> Seen:
    """A pass after the caller has cleared `.grad` is clipped by itself."""
    p, q, r, params = three_parameters(draw, case)
    call(params, a_bound(draw, case))
    loss = a_loss(draw, case, p, q, r)
    loss.backward()
    p.grad = q.grad = r.grad = None
    loss = a_loss(draw, case, p, q, r)
    loss.backward()
    yield "all .grad after they were None", [t.grad.float() for t in params]


def unclipped_by_autograd_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """`torch.autograd.grad` clips nothing, and is no arrival."""
    p, q, r, params = three_parameters(draw, case)
    call(params, a_bound(draw, case))
    loss = a_loss(draw, case, p, q, r)
    torch.autograd.grad(loss, [p, r], retain_graph=True)
    yield "p.grad after autograd.grad", p.grad
    loss.backward()
    yield "all .grad after a pass after that", [t.grad.float() for t in params]


PASS_AFTER_PASS = (clipped_in_two_passes, clipped_after_clearing, unclipped_by_autograd_grad)


def small_as_it_is(call: Call, draw: Draw, case: Any) -> Seen:
    """A small gradient stays as it is."""
    p, q, r, params = three_parameters(draw, case)
    call(params, a_bound(draw, case))
    p.grad = q.grad = r.grad = None
    ((p * draw.tensor()).sum() + q.sum() + r.sum()).div(4096).backward()
    yield "all .grad after a small pass", [t.grad.float() for t in params]
    p.grad = q.grad = r.grad = None
    ((0 * p).sum() + (0 * q).sum() + (0 * r).sum()).backward()
    yield "all .grad after a pass of zeros", [t.grad for t in params]


def joint_over_all(call: Call, draw: Draw, case: Any) -> Seen:
    """The norm is joint over all entries."""
    c = draw.number(1, 3)
    p = nn.Parameter(torch.zeros(4))
    q = nn.Parameter(torch.zeros(1))
    r = nn.Parameter(torch.zeros(1))
    call([p, q, r], c)
    (0.4 * c * p.sum() + 0.75 * c * q.sum() + 0 * r.sum()).backward()
    yield "all .grad where each norm is below the bound", [p.grad, q.grad, r.grad]


def a_second_list(call: Call, draw: Draw, case: Any) -> Seen:
    """A second list is clipped by itself."""
    p, q, r, params = three_parameters(draw, case)
    s = nn.Parameter(draw.tensor(2))
    u = nn.Parameter(draw.tensor(1))
    call(params, a_bound(draw, case))
    call([s, u], 1.3)
    first = (9 * s * draw.tensor(2)).sum()
    loss = a_loss(draw, case, p, q, r)
    (first + loss + (u * u).sum()).backward()
    yield "all .grad of the first list", [t.grad.float() for t in params]
    yield "all .grad of the second list", [s.grad.float(), u.grad.float()]


def only_clipped(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    p, q, r, params = three_parameters(draw, case)
    before = Watch(p=p, q=q, r=r, params=params)
    call(params, a_bound(draw, case))
    yield "by the call", before.differences()
    loss = a_loss(draw, case, p, q, r)
    loss.backward()
    yield "by a pass", before.differences("grad")


def unclipped_after_remove(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles remove the hooks."""
    p, q, r, params = three_parameters(draw, case)
    handles = call(params, a_bound(draw, case))
    yield "the type of what comes back", type(handles).__name__
    for handle in handles:
        handle.remove()
    loss = a_loss(draw, case, p, q, r)
    loss.backward()
    yield "all .grad after remove()", [t.grad.float() for t in params]


def others_clip_on(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles of one list leave the hooks of another."""
    p, q, r, params = three_parameters(draw, case)
    s = nn.Parameter(draw.tensor(2))
    before = Watch(s=s)
    call(params, a_bound(draw, case))
    for handle in call([s], 1.3):
        handle.remove()
    loss = a_loss(draw, case, p, q, r)
    (loss + (9 * s * draw.tensor(2)).sum()).backward()
    yield "all .grad of a list whose handles are not removed", [t.grad.float() for t in params]
    yield "s.grad, of the other list", s.grad.float()
    yield "after remove() of the other list", before.differences("grad")


HANDLES = (unclipped_after_remove, others_clip_on)
