"""Stories for functions of a list of parameters: each gradient moves into a sum while `backward()` runs."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PARAMETERS = {
    "dtype": ("float32", "float64"),
    "rank": (1, 0, 2, 3),
    "layout": ("contiguous", "transposed"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph"),
}
IMPOSSIBLE = (lambda rank, layout: rank < 2 and layout == "transposed",)


@told
def two_parameters(draw: Draw, case: Any) -> Any:
    """Two parameters; `p` is as the case says."""
    p = nn.Parameter(draw.tensor())
    q = nn.Parameter(draw.tensor(2))
    if case.layout == "transposed":
        p.data = p.data.mT.contiguous().mT
    if case.hooks == "watching":
        p.register_post_accumulate_grad_hook(lambda p: None)
    if case.hooks == "replacing":
        p.register_hook(lambda grad: 2 * grad)
    return p, q


def summed_in_every_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """The sums grow with every pass."""
    p, q = two_parameters(draw, case)
    sums, handles = call([p, q])
    yield "what comes first is a dict", isinstance(sums, dict)
    loss = (p * p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()
    if case.backward == "create_graph":
        loss.backward(create_graph=True)
    else:
        loss.backward()
    yield "p itself is a key of the dict", any(key is p for key in sums)
    yield "the sum of p after a pass", sums[p].detach().to(p.dtype)
    yield "its dtype", str(sums[p].dtype)
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum() + q.sum()).backward()
    yield "the sum of p after two passes", sums[p].detach().to(p.dtype)
    yield "the sum of q", sums[q].detach().to(q.dtype)


def gradients_freed(call: Call, draw: Draw, case: Any) -> Seen:
    """No gradient is left."""
    p, q = two_parameters(draw, case)
    sums, handles = call([q, p])
    loss = (p * p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()
    if case.backward == "create_graph":
        loss.backward(create_graph=True)
    else:
        loss.backward()
    yield "the .grad of p and q after a pass", [p.grad, q.grad]
    (0 * p).sum().backward()
    yield "the .grad of p after a pass of zeros", p.grad
    for _ in range(3):
        (3 * p).sum().backward()
    yield "p.grad after more passes", p.grad
    yield "the sum of p", sums[p].detach().to(p.dtype)


def summed_in_float64(call: Call, draw: Draw, case: Any) -> Seen:
    """The sums are made in float64."""
    p = nn.Parameter(draw.tensor(2))
    sums, handles = call([p])
    (2.0**25 * p).sum().backward()
    (p * draw.tensor(2)).sum().backward()
    (-(2.0**25) * p).sum().backward()
    yield "the sum after large gradients that cancel", sums[p].detach().to(p.dtype)
    yield "its dtype", str(sums[p].dtype)


def through_one_of_two(call: Call, draw: Draw, case: Any) -> Seen:
    """Each parameter has a sum of its own."""
    p, q = two_parameters(draw, case)
    sums, handles = call([p, q])
    (q * draw.tensor(2)).sum().backward()
    yield "the sum of q after a pass through q", sums[q].detach().to(q.dtype)
    yield "q.grad", q.grad
    (p * draw.tensor()).sum().backward()
    yield "the sum of p after a pass through p", sums[p].detach().to(p.dtype)
    yield "p.grad", p.grad
    yield "the sum of q after that", sums[q].detach().to(q.dtype)


def a_dict_for_each_call(call: Call, draw: Draw, case: Any) -> Seen:
    """A second call has a dict of its own."""
    p, q = two_parameters(draw, case)
    first, handles = call([p])
    second, others = call([q])
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()).backward()
    yield "q is in the first dict", q in first
    yield "the sum of p", first[p].detach().to(p.dtype)
    yield "the sum of q", second[q].detach().to(q.dtype)


def called_after_remove(call: Call, draw: Draw, case: Any) -> Seen:
    """A call after the handles are removed begins at zero."""
    p, q = two_parameters(draw, case)
    first, handles = call([p])
    (p * draw.tensor()).sum().backward()
    for handle in handles:
        handle.remove()
    second, handles = call([p])
    (p * draw.tensor()).sum().backward()
    yield "the sum of a call after remove()", second[p].detach().to(p.dtype)
    yield "the sum of the first call after that", first[p].detach().to(p.dtype)


OF_THEIR_OWN = (a_dict_for_each_call, called_after_remove)


def autograd_grad_uncounted(call: Call, draw: Draw, case: Any) -> Seen:
    """`torch.autograd.grad` is not counted."""
    p, q = two_parameters(draw, case)
    sums, handles = call([p, q])
    torch.autograd.grad((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum(), [p, q])
    yield "the .grad of p and q", [p.grad, q.grad]
    (p * draw.tensor()).sum().backward()
    yield "the sum of p after backward()", sums[p].detach().to(p.dtype)


def only_moved(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    p, q = two_parameters(draw, case)
    params = [p, q]
    kept: list[Any] = []
    q.register_post_accumulate_grad_hook(lambda q: kept.append(q.grad))
    before = Watch(p=p, q=q, params=params)
    sums, handles = call(params)
    yield "by the call", before.differences()
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()).backward()
    yield "by a pass", before.differences()
    (q * draw.tensor(2)).sum().backward()
    yield "what another hook has kept of q.grad", kept


def kept_after_remove(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles remove the hooks."""
    p, q = two_parameters(draw, case)
    before = Watch(p=p, q=q)
    sums, handles = call([p, q])
    yield "the type of the handles", type(handles).__name__
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()).backward()
    for handle in handles:
        handle.remove()
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()).backward()
    yield "the .grad of p and q after remove()", [p.grad, q.grad]
    yield "the sum of p after remove()", sums[p].detach().to(p.dtype)
    yield "the sum of q after remove()", sums[q].detach().to(q.dtype)
    yield "after remove()", before.differences("grad")


def others_move_on(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles of one call leave the hooks of another."""
    p, q = two_parameters(draw, case)
    first, others = call([p])
    second, handles = call([q])
    for handle in handles:
        handle.remove()
    ((p * draw.tensor()).sum() + (q * draw.tensor(2)).sum()).backward()
    yield "p.grad of a call whose handles are not removed", p.grad
    yield "its sum of p", first[p].detach().to(p.dtype)


HANDLES = (others_move_on, kept_after_remove)
