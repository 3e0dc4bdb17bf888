"""Stories for a function that forces keyword arguments on the calls of a module."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.changed_calls import a_keeper, a_module
from graders.scenes.story import Call, Draw, Seen, told


@told
def with_a_shift(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For `function(module, **kw)`."""
    return call(module, shift=draw.number(0.3, 2.9))


@told
def with_y(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For a second call of `function(module, **kw)`."""
    return call(module, y=draw.number(1.1, 2.9))


def same_keywords(call: Call, draw: Draw, case: Any) -> Seen:
    """The value that is forced wins, and nothing else of the caller's is lost."""
    module, x, y = a_module(draw, case)
    call(module, shift=draw.number(0.3, 2.9))
    yield "the output of a call with the same keyword", module(x, y, shift=9.0).detach()
    yield "the output of a call with another keyword", module(x, y=y).detach()
    module(x, y=y)
    yield "the output of a call without keywords", module(x).detach()
    yield "the output of a call by keyword alone", module(x=x, y=y, shift=y).detach()


def keywords_of_any_kind(call: Call, draw: Draw, case: Any) -> Seen:
    """Keywords of any name and value arrive, and are the very objects."""
    module, seen = a_keeper()
    x = draw.tensor()
    t = draw.tensor()
    rows = [1]
    call(module, args=t, kwargs=None, zero=0, rows=rows, text="", hook=torch.relu)
    module(x, None, rows=[2], other=rows)
    args, kwargs = seen[-1]
    wanted = {"args": t, "kwargs": None, "zero": 0, "rows": rows, "text": "", "hook": torch.relu, "other": rows}
    yield "whether the keywords are these objects", {key: kwargs.get(key, "none") is wanted[key] for key in wanted}
    yield "the names of the keywords", sorted(kwargs)
    yield "whether the arguments are the caller's own", [arg is one for arg, one in zip(args, (x, None))]


def unknown_keyword(call: Call, draw: Draw, case: Any) -> Seen:
    """A module gets even a keyword that it does not know, and raises an error."""
    module = nn.Identity()
    call(module, scale=2.0)
    outcome = "a result"
    try:
        module(torch.ones(2))
    except TypeError:
        outcome = "a TypeError"
    yield "what comes of a keyword that the module does not know", outcome


def no_keyword(call: Call, draw: Draw, case: Any) -> Seen:
    """There may be no keyword at all."""
    module, x, y = a_module(draw, case)
    handle = call(module)
    yield "the output without forced keywords", module(x, shift=y).detach()
    handle.remove()


def gradients_of_keywords(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients flow to a tensor that is forced."""
    module, x, y = a_module(draw, case)
    call(module, shift=y)
    (module(x) * draw.tensor()).sum().backward()
    yield "the gradients of x and the forced tensor", [x.grad, y.grad]
