"""Stories for a class that makes a network from a body and a linear layer behind it, and guards its gradients."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.gradient_hooks import TENSOR, Arguments, the_gradient
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

NET = {
    "dtype": ("float32", "float64"),
    "body": ("no parameters", "convolution", "another layout"),
    "batch": (2, 1, 3),
    "mode": ("train", "eval"),
    "hooks": ("none", "watching", "replacing"),
    "backward": TENSOR["backward"],
    "bounds": ("between", "below 0", "above 0"),
}


@told
def a_body_and_a_layer(draw: Draw, case: Any) -> Any:
    """A body, a linear layer that fits its output of shape [batch, 4] or [batch, 2, ...], and an input."""
    if case.body == "convolution":
        body = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.Tanh())
        body[0].weight.data = draw.tensor(2, 1, 2, 2, low=-0.8, high=0.8)
        x = draw.tensor(case.batch, 1, 2, 3, low=-1, high=1).requires_grad_()
    elif case.body == "another layout":
        body = nn.Tanh()
        x = draw.tensor(case.batch, 1, 2, 2, low=-1, high=1).transpose(1, 3).requires_grad_()
    else:
        body = nn.Tanh()
        x = draw.tensor(case.batch, 4, low=-1, high=1).requires_grad_()
    fc = nn.Linear(4, 2)
    fc.weight.data = draw.tensor(2, 4, low=-0.9, high=0.9)
    fc.bias.data = draw.tensor(2)
    if case.hooks == "watching":
        body.register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        body.register_forward_hook(lambda module, args, out: -out)
        fc.register_forward_hook(lambda module, args, out: 2 * out)
    return body, fc, x


@told
def a_net(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Any:
    """A net with its parts, an input, and a factor for the output."""
    body, fc, x = a_body_and_a_layer(draw, case)
    net = call(body, fc, *arguments(draw, case))
    if case.mode == "eval":
        net.eval()
    k = draw.tensor(case.batch, 2)
    return net, body, fc, x, k


def forward_as_usual(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Forward is fc after body, each called once, and both are child modules."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    yield "net(x)", net(x).detach()
    calls: list[str] = []
    body.register_forward_hook(lambda module, args, out: calls.append("body"))
    fc.register_forward_hook(lambda module, args, out: calls.append("fc"))
    net(x)
    yield "the calls of body and fc", calls
    yield "body is a module of the net", body in net.modules()
    yield "fc is a module of the net", fc in net.modules()
    with torch.no_grad():
        out = net(x)
    yield "net(x) under no_grad", out


def clamped_behind_the_body(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The gradient at the output of body is clamped."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    loss = (net(x) * k).sum()
    g = the_gradient(case, loss, x)
    yield "the gradient of x", g
    (net(x) * k).sum().backward()
    yield "the gradients of body", [p.grad.detach() for p in body.parameters()]


def zeros_for_the_bias(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The bias gets zeros, and the weight its gradient."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    ((net(x) * k).sum() + (5 * fc.bias).sum()).backward()
    yield "fc.bias.grad", fc.bias.grad
    yield "fc.weight.grad", fc.weight.grad
    (net(x) * k).sum().backward(create_graph=True)
    yield "fc.bias.grad after a pass with create_graph", fc.bias.grad.detach()
    (found,) = torch.autograd.grad((net(x) * k).sum(), fc.bias)
    yield "the gradient of fc.bias from torch.autograd.grad", found


def several_forward_passes(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Several forward passes may come before a backward pass."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    net(x)
    y = (0.7 * x).detach().requires_grad_()
    ((net(x) + 3 * net(y) + net(x)) * k).sum().backward()
    yield "the gradients of three passes", [x.grad, y.grad, fc.weight.grad, fc.bias.grad]


def two_nets(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Each net has its own bounds."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    layer, y = nn.Linear(4, 2).to(x.dtype), draw.tensor(1, 4).requires_grad_()
    layer.weight.data = draw.tensor(2, 4)
    other = call(nn.Tanh(), layer, -0.1, 0.2)
    (net(x) * k).sum().backward()
    other(y).sum().backward()
    yield "the gradients of two nets", [x.grad, y.grad]


def made_double_in_between(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The net may get another dtype between two passes."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    (net(x) * k).sum().backward()
    net.double()
    net.zero_grad()
    y = x.detach().double().requires_grad_()
    (net(y) * k).sum().backward()
    found = [y.grad, fc.weight.grad, fc.bias.grad]
    yield "the gradients after net.double()", [g.to(x.dtype) for g in found]


PASS_AFTER_PASS = (several_forward_passes, made_double_in_between, two_nets)


def data_without_grad(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """It works with data that requires no grad."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    (net(x.detach()) * k).sum().backward()
    yield "the gradients of fc", [fc.weight.grad, fc.bias.grad]
    yield "the gradients of body", [p.grad for p in body.parameters()]


def frozen_body(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """It works with a frozen body."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    body.requires_grad_(False)
    (net(x) * k).sum().backward()
    yield "the gradients of x and fc", [x.grad, fc.weight.grad, fc.bias.grad]
    (net(x.detach()) * k).sum().backward()
    yield "the gradients of fc with data that requires no grad", [fc.weight.grad, fc.bias.grad]


def differentiated_again(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """The gradient can be differentiated again."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    k.requires_grad_()
    (g,) = torch.autograd.grad((net(x) * k).sum(), x, create_graph=True)
    again = torch.autograd.grad(g.sum(), k, allow_unused=True)[0] if g.requires_grad else None
    yield "the gradient differentiated", again


def parts_left_alone(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Nothing but hooks is added to the parts."""
    body, fc, x = a_body_and_a_layer(draw, case)
    before = Watch(body=body, fc=fc)
    call(body, fc, *arguments(draw, case))
    yield "when the net is made", before.differences("hook-left", "attribute-left")


def nothing_piles_up(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """A forward pass leaves no more than the one before."""
    net, body, fc, x, k = a_net(call, draw, case, arguments)
    net(x)
    before = Watch(net=net, x=x)
    net(x)
    with torch.no_grad():
        net(x)
    yield "after two more passes", before.differences("attribute")


def gradients_of_others(call: Call, draw: Draw, case: Any, arguments: Arguments) -> Seen:
    """Nobody writes into the gradients that hooks of the caller keep."""
    body, fc, x = a_body_and_a_layer(draw, case)
    kept: list[Any] = []
    fc.bias.register_hook(lambda g: kept.append((g, g.clone())))
    fc.register_forward_pre_hook(
        lambda module, args: args[0].register_hook(lambda g: kept.append((g, g.clone()))) and None
    )
    net = call(body, fc, *arguments(draw, case))
    (net(x) * draw.tensor(case.batch, 2)).sum().backward()
    yield "the gradients that hooks of the caller kept are as they came", [g.equal(then) for g, then in kept]


NOTHING_ELSE = (parts_left_alone, nothing_piles_up, gradients_of_others)
