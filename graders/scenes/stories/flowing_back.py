"""Stories for functions that change with hooks what flows back through a module, and return a handle."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.gradient_hooks import TENSOR, Arguments, the_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

FLOW = {
    "dtype": ("float32", "float64"),
    "rank": (1, 2, 3),
    "kind": ("layer", "layers"),
    "place": ("leaf", "non-leaf"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "backward": TENSOR["backward"],
}
IMPOSSIBLE = (lambda kind, mode: kind == "layer" and mode == "mixed",)


def a_bound(draw: Draw, case: Any) -> tuple[float]:
    """A number greater than 0; most gradients of these stories are larger, but some are not."""
    return (draw.number(0.5, 0.9) if case.number == "fraction" else draw.number(1.5, 2.0),)


def rows(case: Any) -> tuple[int, ...]:
    """The dimensions before the last one."""
    return (2, 1)[: case.rank - 1]


def around_the_bounds(draw: Draw) -> Tensor:
    """Two numbers smaller than every bound, and one larger. None is 0, where derivatives of right answers differ."""
    return torch.cat([draw.tensor(1, low=low, high=high) for low, high in ((-0.4, -0.3), (0.3, 0.4), (-8.0, -4.0))])


@told
def a_module(draw: Draw, case: Any) -> Any:
    """A module for inputs of size 3, an input `t` that depends on `x`, and a factor `k` for its output."""
    if case.kind == "layers":
        module = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 2, bias=False))
        module[0].weight.data = draw.tensor(3, 3, low=-0.6, high=0.6)
        module[2].weight.data = draw.tensor(2, 3)
        if case.mode == "mixed":
            module[1].eval()
    else:
        module = nn.Linear(3, 2, bias=False)
        module.weight.data = draw.tensor(2, 3)
    if case.mode == "eval":
        module.eval()
    if case.hooks == "watching":
        module.register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        module.register_full_backward_pre_hook(lambda module, go: (3 * go[0],))  # type: ignore[index]
        module.register_full_backward_hook(lambda module, gi, go: gi if gi[0] is None else (2 * gi[0],))  # type: ignore[index]
    x = draw.tensor(*rows(case), 3, low=-1, high=1).requires_grad_()
    k = draw.tensor(*rows(case), 2)
    if case.place == "non-leaf":
        t = -x
    else:
        t = x
    return module, x, t, k


def changed_in_a_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The gradient that leaves the module is the changed one."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    loss = (module(t) * k).sum()
    g = the_gradient(case, loss, x)
    yield "the gradient of x", g


def for_its_parameters(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The module's own parameters have the gradients that they should have."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    (module(t) * k).sum().backward()
    yield "the gradients of its parameters", [p.grad for p in module.parameters()]


def for_its_parameters_alone(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Its parameters have their gradients even when the input needs none."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    (module(t.detach()) * k).sum().backward()
    yield "the gradients of its parameters, when the input needs none", [p.grad for p in module.parameters()]


def before_frozen_parameters(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Parameters may be frozen."""
    module, x, t, k = a_module(draw, case)
    frozen = next(module.parameters())
    frozen.requires_grad_(False)
    call(module, *arguments(draw, case))
    (module(t) * k).sum().backward()
    yield "the gradient of x before a frozen layer", x.grad
    yield "the gradients of all parameters, of which one is frozen", [p.grad for p in module.parameters()]


def beside_another_use(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """What comes to the input from elsewhere is as usual."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    ((module(t) * k).sum() + (t * draw.tensor(3)).sum()).backward()
    yield "the gradient of an input that is also used outside", x.grad


def with_a_weight_used_outside(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """What comes to a weight from elsewhere is as usual."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    w = next(module.parameters())
    ((module(t) * k).sum() + (5 * w).sum()).backward()
    yield "the gradient of a weight that is also used outside", w.grad


PARAMETERS = (for_its_parameters, for_its_parameters_alone, before_frozen_parameters, beside_another_use)


def in_each_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Passes through one graph are changed one by one."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    loss = (module(t) * k).sum()
    (0 * loss).backward(retain_graph=True)
    yield "x.grad after a pass of zeros", x.grad
    loss.backward(retain_graph=True)
    (1000 * loss).backward()
    yield "x.grad after three passes through one graph", x.grad


def in_each_call(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each call of the module in a pass is changed by itself."""
    module, x, t, k = a_module(draw, case)
    call(module, *arguments(draw, case))
    ((module(t) * k).sum() + (module(-t) * draw.tensor(*rows(case), 2)).sum()).backward()
    yield "x.grad after two calls in one pass", x.grad


EVERY_PASS = (in_each_pass, in_each_call)


def of_several_inputs(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Inputs may be numbers or data, or come by keyword."""

    class Blend(nn.Module):
        def forward(self, a: Any, number: Any, data: Any, b: Any, by_keyword: Any) -> Any:
            return a * number + b * data + by_keyword

    module = Blend()
    a = draw.tensor().requires_grad_()
    b = draw.tensor().requires_grad_()
    shift = draw.tensor().requires_grad_()
    data, k = draw.tensor(), draw.tensor()
    call(module, *arguments(draw, case))
    (module(a, 1.7, data, b, by_keyword=shift) * k).sum().backward()
    yield "the gradients of two inputs", [a.grad, b.grad]
    yield "the gradient of an input by keyword", shift.grad
    (module(data, 1.7, data, b, by_keyword=data) * k).sum().backward()
    yield "b.grad after a pass in which the other inputs need no gradient", b.grad


def of_several_outputs(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Outputs may be several, and some unused."""

    class Fork(nn.Module):
        def forward(self, x: Any) -> Any:
            return 3 * torch.tanh(x), 5 * x

    module = Fork()
    x = draw.tensor(low=-1, high=1).requires_grad_()
    call(module, *arguments(draw, case))
    first, second = module(x)
    ((first * draw.tensor()).sum() + (second * draw.tensor()).sum()).backward()
    yield "x.grad before two outputs", x.grad
    first, second = module(x)
    (second * draw.tensor()).sum().backward()
    yield "x.grad after a pass from the second output alone", x.grad
    yield "the type of the output", type(module(x)).__name__


def of_halves(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Two outputs may come from one operation."""

    class Halves(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.chunk(2, -1)

    module, x = Halves(), draw.tensor(3, 4).requires_grad_()
    call(module, *arguments(draw, case))
    first, second = module(x)
    ((first * draw.tensor(3, 2)).sum() + (second * draw.tensor(3, 2)).sum()).backward()
    yield "x.grad before two halves", x.grad


def in_another_layout(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Gradients may lie in memory in any way."""

    class Transposed(nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x.mT

    module, x, k = Transposed(), draw.tensor(2, 3).requires_grad_(), draw.tensor(2, 3)
    call(module, *arguments(draw, case))
    (module(x) * draw.tensor(3, 2)).sum().backward()
    yield "x.grad, which is transposed", x.grad
    (module(x).mT * k).sum().backward()
    yield "x.grad after a pass whose gradient comes transposed", x.grad


SEVERAL = (of_several_inputs, of_several_outputs, of_halves, in_another_layout)


def differentiated_again(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The changed gradient has a graph if the pass makes one."""
    module, t = nn.Tanh(), draw.tensor(3, low=-0.6, high=0.6).requires_grad_()
    call(module, *arguments(draw, case))
    k = around_the_bounds(draw)
    k.requires_grad_()
    (g,) = torch.autograd.grad((module(t) * k).sum(), t, create_graph=True)
    again = torch.autograd.grad(g.sum(), k, allow_unused=True)[0] if g.requires_grad else None
    yield "the gradient differentiated", again


def several_at_a_time(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each call has its own arguments, and each module its own hooks."""
    module, x, t, k = a_module(draw, case)
    other = nn.Linear(3, 2, bias=False)
    other.weight.data = draw.tensor(2, 3)
    call(module, *arguments(draw, case))
    call(other, *arguments(draw, case))
    ((module(t) - other(t)) * k).sum().backward()
    yield "x.grad before two modules", x.grad
    call(module, *arguments(draw, case))
    (module(t) * k).sum().backward()
    yield "x.grad after a second call for a module", x.grad


def nothing_by_the_call(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The call leaves all things of the caller as they are, besides its hooks."""
    module, x, t, k = a_module(draw, case)
    for p in module.parameters():
        p.grad = torch.full_like(p, 0.7)
    before = Watch(module=module, x=x, k=k)
    with torch.no_grad():
        call(module, *arguments(draw, case))
        y = module(t)
    yield "by the call", before.differences("hook-left")
    yield "the output under no_grad", y
    (module(t) * k).sum().backward()
    yield "x.grad after a call under no_grad", x.grad


def values_stay(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The values of the forward pass stay, infinite ones, too."""
    module, x = nn.ReLU(), draw.tensor(3, low=0.3).requires_grad_()
    call(module, *arguments(draw, case))
    y = module(x / torch.tensor([1, 0, 1]))
    yield "the output", y.detach()
    yield "the output for data requires grad", module(x.detach()).requires_grad
    (module(1000 * x) * draw.tensor(3)).sum().backward()
    yield "x.grad after a pass of large values", x.grad


def neighbours_stay(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Gradients elsewhere stay."""
    module, x = nn.Identity(), draw.tensor().requires_grad_()
    u = draw.tensor().requires_grad_()
    v = -u
    call(module, *arguments(draw, case))
    ((module(x) + v) * draw.tensor()).sum().backward()
    yield "the gradients of a neighbour and of x", (u.grad, x.grad)
    (module(x) * u * draw.tensor()).sum().backward()
    yield "the gradients of a later factor and of x", (u.grad, x.grad)


def other_models_stay(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Other models work as before."""
    module, x, t, k = a_module(draw, case)
    other = nn.Sequential(nn.Tanh(), nn.ReLU(inplace=True))
    call(module, *arguments(draw, case))
    out = other(t)
    yield "the output of another model, which works in place", out.detach()


NOTHING_ELSE = (nothing_by_the_call, values_stay, neighbours_stay, other_models_stay)


def removed_by_handles(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each handle takes away the hooks of its own call, and no other."""
    module, x, t, k = a_module(draw, case)
    before = Watch(module=module, x=x)
    first = call(module, *arguments(draw, case))
    (g,) = torch.autograd.grad((module(t) * k).sum(), x)
    yield "the gradient after a call", g
    second = call(module, *arguments(draw, case))
    first.remove()
    (g,) = torch.autograd.grad((module(t) * k).sum(), x)
    yield "the gradient after remove() of the first", g
    second.remove()
    (module(t) * k).sum().backward()
    yield "x.grad after remove() of both", x.grad
    yield "the gradients of its parameters after that", [p.grad for p in module.parameters()]
    yield "after remove() of both", before.differences("grad")


def one_of_two_equal_calls(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Equal calls have hooks each."""
    module, x, t, k = a_module(draw, case)
    more = arguments(draw, case)
    call(module, *more)
    handle = call(module, *more)
    handle.remove()
    (module(t) * k).sum().backward()
    yield "x.grad after remove() of one of two equal calls", x.grad


def removed_before_the_pass(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A removed hook still acts on calls made before its removal."""
    module, x, t, k = a_module(draw, case)
    handle = call(module, *arguments(draw, case))
    y = module(t)
    handle.remove()
    (y * k).sum().backward()
    yield "x.grad of a call of the module before remove()", x.grad


HANDLES = (one_of_two_equal_calls, removed_before_the_pass, removed_by_handles)
