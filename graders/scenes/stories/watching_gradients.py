"""Stories for functions that put a hook on a tensor that records its gradients, and changes nothing.

`watch(call, t, store)` calls the function, and returns the record: the list that it was given, or one of its own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.scenes.stories.gradient_hooks import a_tensor, the_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Watching = Callable[[Call, Tensor, list[Any]], Any]


@told
def into_a_list(call: Call, t: Tensor, store: list[Any]) -> Any:
    """For `function(t, store)`."""
    call(t, store)
    return store


@told
def own_record(call: Call, t: Tensor, store: list[Any]) -> Any:
    """For `function(t)`, which returns its record: a dict or a list."""
    return call(t)


def a_store(draw: Draw, case: Any) -> tuple[list[str]]:
    """The list, as the other argument of a function that records gradients."""
    return (["of before"],)


def no_arguments(draw: Draw, case: Any) -> tuple[()]:
    """No other argument."""
    return ()


def recorded_in_each_pass(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """Each pass is recorded once, however its gradient reaches the tensor."""
    w, t, u, v = a_tensor(draw, case)
    store = ["of before"]
    record = watch(call, t, store)
    loss = (t * draw.tensor()).sum()
    g = the_gradient(case, loss, w)
    yield "the record after a pass", record
    yield "the gradient of that pass", g
    ((t * draw.tensor()).sum() + (t * draw.tensor()).sum()).backward()
    yield "the record after a pass with two uses", record


def recorded_for_all_gradients(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """A gradient in any layout is recorded, and so is one of zeros, or one that goes nowhere else."""
    w, t, u, v = a_tensor(draw, case)
    store = ["of before"]
    record = watch(call, t, store)
    if case.rank > 1:
        (t.mT * draw.tensor().mT.contiguous()).sum().backward()
    (0 * t).sum().backward()
    yield "the record after a pass of zeros", record
    torch.autograd.grad((t * draw.tensor(low=-9999.0, high=9999.0)).sum(), t)
    yield "the record after a pass of large numbers to t alone", record


def at_the_start(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """Before any pass, nothing is recorded."""
    w, t, u, v = a_tensor(draw, case)
    store = ["of before"]
    record = watch(call, t, store)
    yield "the record before any pass", record


def each_by_itself(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """Each call has a record of its own, also one that begins after a pass."""
    w, t, u, v = a_tensor(draw, case)
    store, other, third = [0], [1], [2]
    record = watch(call, t, store)
    (t * draw.tensor()).sum().backward()
    again = watch(call, t, other)
    of_u = watch(call, u, third)
    ((t + v) * draw.tensor()).sum().backward()
    yield "the record of the first call", record
    yield "the record of a second call", again
    yield "the record of another tensor", of_u
    yield "two calls have one record", again is record


def copied_without_a_graph(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """What is recorded has no graph, also in passes that make one."""
    w, t, u, v = a_tensor(draw, case)
    store: list[Any] = []
    record = watch(call, t, store)
    torch.autograd.grad((t * t * draw.tensor()).sum(), t, create_graph=True)
    yield "the record of a pass with create_graph", record
    torch.autograd.grad((t * t * draw.tensor()).sum(), t, create_graph=True)
    yield "the record of two passes with create_graph", record


def copied_from_the_gradient(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """Writing into a gradient changes nothing that is recorded."""
    w, t, u, v = a_tensor(draw, case)
    store: list[Any] = []
    record = watch(call, t, store)
    t.register_hook(lambda g: g.mul_(0))
    v.register_hook(lambda g: g.mul_(0))
    ((t + v) * draw.tensor()).sum().backward()
    yield "the record after later hooks have overwritten the gradient", record
    ((t + v) * draw.tensor()).sum().backward()
    yield "the record after a second such pass", record


COPIES = (copied_from_the_gradient, copied_without_a_graph)


def recorded_under_no_grad(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """A call under `no_grad` records, too."""
    w, t, u, v = a_tensor(draw, case)
    store: list[Any] = []
    torch.set_grad_enabled(False)
    record = watch(call, t, store)
    torch.set_grad_enabled(True)
    (t * draw.tensor()).sum().backward()
    yield "the record of a call under no_grad", record


def removed_by_handles(call: Call, draw: Draw, case: Any) -> Seen:
    """Each handle takes away the hook of its own call, and no other."""
    w, t, u, v = a_tensor(draw, case)
    store, other = [1], [2]
    before = Watch(t=t, w=w, u=u)
    first = call(t, store)
    second = call(t, other)
    (t * draw.tensor()).sum().backward()
    first.remove()
    (t * draw.tensor()).sum().backward()
    yield "the list of the first call after its remove()", store
    yield "the list of the second call", other
    second.remove()
    (t * draw.tensor()).sum().backward()
    yield "the list of the second call after its remove()", other
    yield "after remove() of both", before.differences("grad")


def never_removed(call: Call, draw: Draw, case: Any, watch: Watching) -> Seen:
    """The hook stays."""
    w, t, u, v = a_tensor(draw, case)
    store: list[Any] = []
    record = watch(call, t, store)
    for _ in range(4):
        (3 * t).sum().backward()
    yield "the record after four passes", record
