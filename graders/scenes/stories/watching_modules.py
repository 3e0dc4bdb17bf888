"""Stories for functions that watch the backward pass of a module: they return a dict, and the handle of a hook."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.flowing_back import rows
from graders.scenes.stories.gradient_hooks import TENSOR, the_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MODULE = {
    "dtype": ("float32", "float64"),
    "rank": (1, 2, 3),
    "kind": ("tanh", "layer", "layers"),
    "mode": ("train", "eval"),
    "hooks": ("none", "watching", "replacing"),
    "backward": TENSOR["backward"],
}


@told
def a_module(draw: Draw, case: Any) -> Any:
    """A module, an input, and a factor for the output."""
    if case.kind == "tanh":
        module, k = nn.Tanh(), draw.tensor(*rows(case), 3)
    else:
        if case.kind == "layers":
            module = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Tanh())
            module[0].weight.data = draw.tensor(2, 3, low=-0.6, high=0.6)  # type: ignore[index]
        else:
            module = nn.Linear(3, 2, bias=False)
            module.weight.data = draw.tensor(2, 3)
        k = draw.tensor(*rows(case), 2)
    if case.mode == "eval":
        module.eval()
    if case.hooks == "watching":
        module.register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        module.register_full_backward_pre_hook(lambda module, go: (2 * go[0],))  # type: ignore[index]
    x = draw.tensor(*rows(case), 3, low=-1, high=1).requires_grad_()
    return module, x, k


def returned(call: Call, draw: Draw, case: Any) -> Seen:
    """What comes back is a tuple of a dict and a handle."""
    module, x, k = a_module(draw, case)
    result = call(module)
    yield "whether what comes back is a tuple", isinstance(result, tuple)


def recorded(call: Call, draw: Draw, case: Any) -> Seen:
    """After a pass, the dict holds the gradients of the module's inputs and outputs."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    loss = (module(x) * k).sum()
    g = the_gradient(case, loss, x)
    yield "the dict", d
    yield "the gradient of x", g


RECORDED = (returned, recorded)


def latest(call: Call, draw: Draw, case: Any) -> Seen:
    """Each pass takes the place of the one before, also through the same graph."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    loss = (module(x) * k).sum()
    loss.backward(retain_graph=True)
    (0 * loss).backward(retain_graph=True)
    yield "the dict after a pass of zeros", d
    (1000 * loss).backward()
    yield "the dict after a third pass", d


def overwritten(call: Call, draw: Draw, case: Any) -> Seen:
    """Writing into a gradient changes nothing in the dict."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    t = -x
    t.register_hook(lambda grad: grad.detach().zero_())
    module(t).backward(k)
    k.zero_()
    yield "the dict, and a gradient that was overwritten", (d, k)


def overwritten_with_a_graph(call: Call, draw: Draw, case: Any) -> Seen:
    """In a pass with `create_graph` the entries are copies, too, and have no graph."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    k.requires_grad_()
    t = -x
    t.register_hook(lambda grad: grad.detach().zero_())
    module(t).backward(k, create_graph=True)
    k.detach().zero_()
    yield "the dict, and a gradient with a graph that was overwritten", (d, k.detach())


COPIES = (overwritten, overwritten_with_a_graph)


def of_data(call: Call, draw: Draw, case: Any) -> Seen:
    """An input that needs no gradient, or comes by keyword, has none."""
    x, k = draw.tensor().requires_grad_(), draw.tensor()
    module = nn.PReLU().to(x.dtype)
    d, handle = call(module)
    (module(x.detach()) * k).sum().backward()
    yield "the dict when the input needs no gradient", d
    (module(input=x) * k).sum().backward()
    yield "the dict when the input comes by keyword", d


def of_several(call: Call, draw: Draw, case: Any) -> Seen:
    """Of several inputs and outputs, some may have none."""

    class Blend(nn.Module):
        def forward(self, a: Any, number: Any, b: Any) -> Any:
            return a * number + b, 5 * a, "a text"

    module = Blend()
    a = draw.tensor().requires_grad_()
    b = draw.tensor()
    d, handle = call(module)
    first, second, text = module(a, 1.7, b)
    (first * draw.tensor()).sum().backward()
    yield "the dict when one output is used", d
    first, second, text = module(a, 1.7, b)
    ((first * draw.tensor()).sum() + (second * draw.tensor()).sum()).backward()
    yield "the dict when two outputs are used", d


def transposed(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients may lie in memory in any way."""

    class Transposed(nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x.mT

    module, x, k = Transposed(), draw.tensor(2, 3).requires_grad_(), draw.tensor(2, 3)
    d, handle = call(module)
    (module(x) * draw.tensor(3, 2)).sum().backward()
    yield "the dict when the gradient of the input is transposed", d
    (module(x).mT * k).sum().backward()
    yield "the dict when the gradient of the output is transposed", d


def each_by_itself(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call has a dict of its own."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    again, second = call(module)
    (module(x) * k).sum().backward()
    yield "the dicts of two calls after a pass", [d, again]
    other, t = nn.Tanh(), draw.tensor().requires_grad_()
    of_other, handle_of_other = call(other)
    yield "the dict of another module before its pass", of_other
    other(t).sum().backward()
    yield "the dict of another module", of_other
    yield "the dict of the first, meanwhile", d


def beside_a_hook_of_the_caller(call: Call, draw: Draw, case: Any) -> Seen:
    """What other hooks change counts as a full backward hook gets it."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    module.register_full_backward_pre_hook(lambda module, go: (5 * go[0],))
    again, second = call(module)
    (module(x) * k).sum().backward()
    yield "the dicts of two calls around a hook of the caller", [d, again]
    yield "x.grad with that hook", x.grad


OWN = (each_by_itself, beside_a_hook_of_the_caller)


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """All gradients are as usual."""
    module, x, k = a_module(draw, case)
    before = Watch(module=module, x=x, k=k)
    with torch.no_grad():
        call(module)
        mode = torch.is_grad_enabled()
    yield "by the call", before.differences()
    yield "grad mode after a call under no_grad", mode
    (module(x) * k).sum().backward()
    yield "x.grad", x.grad
    yield "the gradients of its parameters", [p.grad for p in module.parameters()]


def differentiated_again(call: Call, draw: Draw, case: Any) -> Seen:
    """The gradient can be differentiated again."""
    module, x, k = a_module(draw, case)
    call(module)
    k.requires_grad_()
    (g,) = torch.autograd.grad((module(x) * k).sum(), x, create_graph=True)
    again = torch.autograd.grad(g.sum(), k)[0] if g.requires_grad else None
    yield "the gradient differentiated", again


SAME = (nothing_else, differentiated_again)


def removed_by_handles(call: Call, draw: Draw, case: Any) -> Seen:
    """Each handle ends the watching of its own call, and no other."""
    module, x, k = a_module(draw, case)
    before = Watch(module=module, x=x)
    d, first = call(module)
    again, second = call(module)
    (module(x) * k).sum().backward()
    first.remove()
    (module(2 * x) * k).sum().backward()
    yield "the dicts of two calls after remove() of the first", [d, again]
    second.remove()
    (module(3 * x) * k).sum().backward()
    yield "the dicts after remove() of both", [d, again]
    yield "after remove() of both", before.differences("grad")


def removed_before_the_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """A removed hook still watches calls made before its removal."""
    module, x, k = a_module(draw, case)
    d, handle = call(module)
    y = module(x)
    handle.remove()
    (y * k).sum().backward()
    yield "the dict after remove() between call and pass", d


HANDLES = (removed_before_the_pass, removed_by_handles)
