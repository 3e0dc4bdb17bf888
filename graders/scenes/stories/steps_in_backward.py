"""Stories for functions of a model and a learning rate: each parameter takes its step while `backward()` runs."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MODEL = {
    "dtype": ("float32", "float64"),
    "model": ("a layer", "nested", "with its own", "tied"),
    "layout": ("contiguous", "transposed"),
    "mode": ("train", "eval"),
    "hooks": ("none", "watching", "replacing"),
    "backward": ("plain", "create_graph"),
}


def a_rate(draw: Draw, case: Any) -> float:
    """A learning rate, which float32 cannot hold; one of them is above 1."""
    rate: float = draw.choice((0.07, 0.15, 0.3, 1.1))
    return rate


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model and an input. Of two layers that are nested, both are equal; `scale` is a parameter beside a layer."""
    layer = nn.Linear(2, 2)
    layer.weight.data = draw.tensor(2, 2, low=-0.9, high=0.9)
    layer.bias.data = draw.tensor(2, low=-0.9, high=0.9)
    if case.layout == "transposed":
        layer.weight.data = layer.weight.data.mT.contiguous().mT
    x = draw.tensor(1, 2, low=-0.9, high=0.9)
    model = layer
    if case.model == "nested":
        other = nn.Linear(2, 2).to(x.dtype)
        other.load_state_dict(layer.state_dict())
        model = nn.Sequential(layer, nn.Sequential(nn.Tanh(), nn.Sequential(other)))
    if case.model == "tied":
        other = nn.Linear(2, 2, bias=False)
        other.weight = layer.weight
        model = nn.Sequential(layer, nn.Tanh(), other)
    if case.model == "with its own":
        model = nn.Sequential(layer)
        model.scale = nn.Parameter(draw.tensor(2))
        model.register_forward_hook(lambda module, args, out: out * module.scale)
    if case.mode == "eval":
        model.eval()
    if case.hooks == "watching":
        layer.weight.register_post_accumulate_grad_hook(lambda p: None)
    if case.hooks == "replacing":
        layer.weight.register_hook(lambda grad: 2 * grad)
    return model, x


def stepped_in_every_pass(call: Call, draw: Draw, case: Any) -> Seen:
    """Every backward takes one step."""
    model, x = a_model(draw, case)
    call(model, a_rate(draw, case))
    if case.backward == "create_graph":
        (model(x) ** 2).sum().backward(create_graph=True)
    else:
        (model(x) ** 2).sum().backward()
    yield "the parameters after a pass", [p.detach() for p in model.parameters()]
    (model(x) ** 2).sum().backward()
    yield "the parameters after two passes", [p.detach() for p in model.parameters()]


def stepped_in_place(call: Call, draw: Draw, case: Any) -> Seen:
    """The step is taken in place."""
    model, x = a_model(draw, case)
    memory = [p.detach() for p in model.parameters()]
    call(model, a_rate(draw, case))
    (model(x) ** 2).sum().backward()
    yield "what lies in the memory of the parameters", memory


def no_gradient_left(call: Call, draw: Draw, case: Any) -> Seen:
    """No gradient is left."""
    model, x = a_model(draw, case)
    call(model, a_rate(draw, case))
    if case.backward == "create_graph":
        (model(x) ** 2).sum().backward(create_graph=True)
    else:
        (model(x) ** 2).sum().backward()
    yield "all .grad after a pass", [p.grad for p in model.parameters()]
    (0 * model(x)).sum().backward()
    yield "all .grad after a pass of zeros", [p.grad for p in model.parameters()]


def through_a_part(call: Call, draw: Draw, case: Any) -> Seen:
    """A pass moves only the parameters that it reaches."""
    model = nn.ParameterList([draw.tensor(2), draw.tensor(1), draw.tensor(1), draw.tensor(2)])
    call(model, a_rate(draw, case))
    (3 * model[3]).sum().backward()
    yield "the parameters after a pass through model[3]", [p.detach() for p in model]
    yield "all .grad after it", [p.grad for p in model]
    (model[0] * model[3]).sum().backward()
    yield "the parameters after a pass through model[0] and model[3]", [p.detach() for p in model]
    yield "all .grad after that", [p.grad for p in model]


def a_second_model(call: Call, draw: Draw, case: Any) -> Seen:
    """A second model steps by itself."""
    model, x = a_model(draw, case)
    second = nn.ParameterList([draw.tensor(2)])
    call(model, a_rate(draw, case))
    call(second, 0.2)
    ((model(x) ** 2).sum() + (3 * second[0]).sum()).backward()
    yield "the parameters of the first", [p.detach() for p in model.parameters()]
    yield "the parameter of the second", second[0].detach()


def no_step_for_autograd_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """`torch.autograd.grad` takes no step."""
    model, x = a_model(draw, case)
    call(model, a_rate(draw, case))
    torch.autograd.grad((model(x) ** 2).sum(), list(model.parameters()))
    yield "the parameters", [p.detach() for p in model.parameters()]
    yield "all .grad", [p.grad for p in model.parameters()]


def only_steps(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    model, x = a_model(draw, case)
    before = Watch(model=model, x=x)
    call(model, a_rate(draw, case))
    yield "by the call", before.differences()
    (model(x) ** 2).sum().backward()
    yield "by a pass", before.differences("values")


def no_step_after_remove(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles remove the hooks."""
    model, x = a_model(draw, case)
    handles = call(model, a_rate(draw, case))
    yield "the type of what comes back", type(handles).__name__
    for handle in handles:
        handle.remove()
    (model(x) ** 2).sum().backward()
    yield "the parameters after remove()", [p.detach() for p in model.parameters()]
    yield "all .grad after remove()", [p.grad.detach() for p in model.parameters()]


def others_step_on(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles of one model leave the hooks of another."""
    model, x = a_model(draw, case)
    second = nn.ParameterList([draw.tensor(2)])
    call(model, a_rate(draw, case))
    for handle in call(second, 0.2):
        handle.remove()
    ((model(x) ** 2).sum() + (3 * second[0]).sum()).backward()
    yield "the parameters of a model whose handles are not removed", [p.detach() for p in model.parameters()]
    yield "the parameter of the other", second[0].detach()


HANDLES = (no_step_after_remove, others_step_on)
