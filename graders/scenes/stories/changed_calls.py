"""Stories for functions that register a hook which changes the calls of a module, and return its handle."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from graders.scenes.stories.gradient_hooks import TENSOR, the_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Register = Callable[[Call, Draw, Any, nn.Module], Any]
"""Calls the learner's function for a module, and returns the handle."""
CALLS = {
    "dtype": ("float32", "float64"),
    "rank": (1, 0, 2, 3),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "others": ("none", "positional", "keyword", "both"),
    "backward": TENSOR["backward"],
    "failure": ("KeyError", "KeyboardInterrupt", "ValueError", "RuntimeError"),
}
FACTOR = {"number": ("fraction", "negative", "zero", "whole")}
MEAN = {"number": ("fraction", "negative", "zero")}


def a_factor(draw: Draw, case: Any) -> float:
    """A number of the kind that the case asks for."""
    if case.number == "fraction":
        return draw.number(0.3, 0.9)
    elif case.number == "negative":
        return draw.number(-2.9, -1.1)
    return draw.choice((-3, -2, 2, 3)) if case.number == "whole" else 0.0


def a_mean(draw: Draw, case: Any) -> float:
    """A mean."""
    return 0.0 if case.number == "zero" else draw.number(-2, 2)


def a_deviation(draw: Draw, case: Any) -> float:
    """What is divided by: it may be below 0."""
    return draw.number(-2.9, -1.1) if case.number == "negative" else draw.number(1.1, 2.9)


@told
def scaled(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For `function(module, s)`."""
    return call(module, a_factor(draw, case))


@told
def normalised(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For `function(module, mean, std)`."""
    return call(module, a_mean(draw, case), a_deviation(draw, case))


@told
def with_hooks(module: Any, case: Any) -> Any:
    """The hooks of the caller."""
    if case.hooks == "watching":
        module.register_forward_pre_hook(lambda module, args: None)
        module.register_forward_hook(lambda module, args, output: None)
    if case.hooks == "replacing":
        module.register_forward_hook(lambda module, args, output: output + 1)
        module.register_forward_hook(lambda module, args, output: 2 * output)


@told
def a_module(draw: Draw, case: Any) -> Any:
    """A module whose backward pass uses its output, and what it may be called with."""

    class Wave(nn.Module):
        def forward(self: Any, x: Any, y: Any = 1.0, *, shift: Any = 0.0) -> Any:
            return torch.exp(self.w * x * y / 4 + shift)

    module: Any = Wave()
    module.w = nn.Parameter(torch.tensor(0.7))
    if draw.is_double:
        module.double()
    if case.mode == "eval":
        module.eval()
    if case.mode == "mixed":
        module.inner = nn.Dropout().eval()
    with_hooks(module, case)
    x = draw.tensor().requires_grad_()
    y = draw.tensor().requires_grad_()
    return module, x, y


@told
def called(case: Any, module: Any, x: Any, y: Any) -> Any:
    """A call with the arguments of the case."""
    if case.others == "both":
        out = module(x, y, shift=y)
    elif case.others == "positional":
        out = module(x, y)
    else:
        out = module(x, shift=y) if case.others == "keyword" else module(x)
    return out


def changed_in_a_layer(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """A call of a layer is changed."""
    module = nn.Tanh()
    with_hooks(module, case)
    x = draw.tensor()
    register(call, draw, case, module)
    out = module(x)
    yield "the output of a layer", out


def changed(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """Every call is changed."""
    module, x, y = a_module(draw, case)
    register(call, draw, case, module)
    out = called(case, module, x, y)
    yield "the output", out.detach()
    z = draw.tensor()
    for _ in range(3):
        module(x)
    other = called(case, module, z, y)
    yield "the output for another input", other.detach()


def changed_under_no_grad(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """It works under `no_grad`, too."""
    module, x, y = a_module(draw, case)
    torch.set_grad_enabled(False)
    register(call, draw, case, module)
    out = called(case, module, x, y)
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    yield "the output under no_grad", out
    yield "torch.is_grad_enabled() after the call", enabled
    later = called(case, module, x, y)
    yield "the output, later", later.detach()


CHANGED = (changed, changed_under_no_grad)
CHANGED_IN_ANY_LAYER = (changed_in_a_layer, *CHANGED)


def gradients_flow(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """Gradients flow through the change."""
    module, x, y = a_module(draw, case)
    register(call, draw, case, module)
    out = called(case, module, x, y)
    loss = (out * draw.tensor()).sum()
    g = the_gradient(case, loss, x)
    yield "the gradient of x", g


def gradients_flow_elsewhere(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """Gradients reach the parameter and another argument as before."""
    module, x, y = a_module(draw, case)
    register(call, draw, case, module)
    module(x)
    out = called(case, module, x, y)
    (out * draw.tensor()).sum().backward()
    yield "the gradients of w and y", [module.w.grad.detach(), y.grad if y.grad is None else y.grad.detach()]


FLOWS = (gradients_flow, gradients_flow_elsewhere)


def several_at_a_time(call: Call, draw: Draw, case: Any, register: Register, again: Register) -> Seen:
    """Two calls of the function on one module both count."""
    module, x, y = a_module(draw, case)
    register(call, draw, case, module)
    module.register_forward_hook(lambda module, args, output: output + 2)
    again(call, draw, case, module)
    yield "the output with two hooks", module(x).detach()


def equal_calls(call: Call, draw: Draw, case: Any, numbers: tuple[float, ...]) -> Seen:
    """Two equal calls of the function count twice."""
    module, x, y = a_module(draw, case)
    call(module, *numbers)
    handle = call(module, *numbers)
    yield "the output after two equal calls", module(x).detach()
    handle.remove()
    yield "the output after remove() of one", module(x).detach()


def removed_by_handles(call: Call, draw: Draw, case: Any, register: Register, again: Register) -> Seen:
    """Each handle removes its own hook."""
    module, x, y = a_module(draw, case)
    before = Watch(module=module, x=x, y=y)
    first = register(call, draw, case, module)
    yield "the output with a hook", module(x).detach()
    with torch.no_grad():
        second = again(call, draw, case, module)
    third = register(call, draw, case, module)
    first.remove()
    yield "the output after remove() of the first", module(x).detach()
    second.remove()
    yield "the output after remove() of the second", module(x).detach()
    third.remove()
    yield "the output after remove() of all", module(x).detach()
    yield "after remove() of all", before.differences("grad")


def other_modules(call: Call, draw: Draw, case: Any, register: Register, again: Register) -> Seen:
    """Only this module is changed."""
    import copy

    module, x, y = a_module(draw, case)
    twin = copy.deepcopy(module)
    register(call, draw, case, module)
    yield "the output of another module", twin(x).detach()
    again(call, draw, case, twin)
    yield "the output of this module after a call for another one", module(x).detach()
    yield "the output of the other", twin(x).detach()


def nothing_else(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """Nothing else changes."""
    module, x, y = a_module(draw, case)
    z = draw.tensor()
    before = Watch(module=module, x=x, y=y, z=z)
    register(call, draw, case, module)
    yield "by the call", before.differences()
    with torch.no_grad():
        module(x)
        module(z)
    yield "by calls of the module", before.differences()


def forward_raises(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """An exception comes through and is forgotten."""
    x = draw.tensor()
    errors = [draw.error(case.failure)]

    class Once(nn.Module):
        def forward(self: Any, x: Any, **more: Any) -> Any:
            if errors:
                raise errors.pop()
            return x + sum(more.values())

    module = Once()
    register(call, draw, case, module)
    came = None
    try:
        module(x)
    except (Exception, KeyboardInterrupt) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "the output of the next call", module(x)


@told
def a_keeper() -> Any:
    """A module that keeps what it receives in each run."""
    seen: list[Any] = []

    class Keep(nn.Module):
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append((args, kwargs))
            return args[0] if args else kwargs["input"]

    return Keep(), seen


def arrives(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """The other arguments arrive as they were passed, and forward runs once."""
    module, seen = a_keeper()
    x = draw.tensor()
    rows = [1]
    given = (x, None, rows, "a text", x)
    register(call, draw, case, module)
    out = module(*given, flag=False, rows=rows)
    yield "the output of a call with many arguments", out
    yield "the number of runs", len(seen)
    args, kwargs = seen[0]
    yield "which positional arguments are the caller's own", [arg is one for arg, one in zip(args, given)]
    yield "the number of positional arguments", len(args)
    yield "whether the keywords are the caller's own", [kwargs.get("rows") is rows, kwargs.get("flag") is False]
    yield "the first argument", args[0]


def views(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """A module may return a view of what it gets."""
    module = nn.Flatten(0)
    t = draw.tensor(2, 2)
    before = Watch(t=t)
    register(call, draw, case, module)
    yield "the output", module(t)
    yield "by a call", before.differences()


def whole_numbers(call: Call, draw: Draw, case: Any, register: Register) -> Seen:
    """A module may return integers."""
    module = nn.Identity()
    register(call, draw, case, module)
    t = torch.tensor([draw.choice(range(2, 9)), -1])
    yield "the output for integers", module(t)
