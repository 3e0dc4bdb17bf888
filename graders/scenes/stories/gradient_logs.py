"""Stories for functions that change a gradient and return a dict at once, which each pass fills."""

from typing import Any

from graders.scenes.stories.gradient_hooks import Arguments, a_tensor, the_gradient
from graders.scenes.story import Call, Draw, Seen


def logged_in_each_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The dict is empty at first, and holds what a pass brought."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    yield "the log at once", log
    loss = (t * draw.tensor()).sum()
    the_gradient(case, loss, w)
    yield "the log after a pass", log
    ((t * draw.tensor()).sum() + (t * draw.tensor()).sum()).backward()
    yield "the log after a pass with two uses", log
    (0 * t).sum().backward()
    yield "the log after a pass of zeros", log
    (t * draw.tensor()).sum().backward()
    yield "the log after another pass", log


def logged_by_each_call(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each call has a dict of its own, and logs what the hooks before it left."""
    w, t, u, v = a_tensor(draw, case)
    more = arguments(draw, case)
    first = call(t, *more)
    second = call(t, *more)
    third = call(u, *arguments(draw, case))
    ((t + u) * draw.tensor()).sum().backward()
    yield "the log of the first call", first
    yield "the log of the second call", second
    yield "the log of another tensor", third
    yield "two calls have one dict", first is second


def kept_apart(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The entries are copies: neither writing into a gradient nor a later pass changes them."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    t.register_hook(lambda g: g.mul_(0))
    v.register_hook(lambda g: g.mul_(0))
    ((t + v) * draw.tensor()).sum().backward()
    yield "the log after later hooks have overwritten the gradients", log
    raw, clipped = log["raw"], log["clipped"]
    ((t + v) * draw.tensor()).sum().backward()
    yield "the entries of a pass after the next one", [raw, clipped]
    log["raw"].mul_(0)
    yield "the log after its raw entry was overwritten", log


def logged_without_a_graph(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The entries have no graph, also in a pass that makes one."""
    w, t, u, v = a_tensor(draw, case)
    log = call(t, *arguments(draw, case))
    (t * t * draw.tensor()).sum().backward(create_graph=True)
    yield "the log of a pass with create_graph", log


COPIES = (kept_apart, logged_without_a_graph)
