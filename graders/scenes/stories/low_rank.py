"""Stories for a function that adds a product of two small matrices to a linear layer of a model."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "rank": (1, 2),
    "layer": ("plain", "nested", "tied", "without bias"),
    "dtype": ("float32", "float64"),
    "frozen": ("nothing", "part"),
    "mode": ("train", "eval"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}


def the_name(case: Any) -> str:
    """The name of the layer in question."""
    return "0.0" if case.layer == "nested" else "0"


def an_alpha(draw: Draw) -> float:
    """A value for `alpha`."""
    return draw.number(1.1, 2.9)


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, its layer in question with three inputs and two outputs, and an input of the model."""
    torch.manual_seed(draw.choice(range(100)))
    if case.layer == "nested":
        model = nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), nn.Linear(2, 2))
    elif case.layer == "tied":
        model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3), nn.Linear(3, 2))
        model[2].weight = model[0].weight
    else:
        model = nn.Sequential(nn.Linear(3, 2, bias=case.layer != "without bias"), nn.Linear(2, 2))
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.frozen == "part":
        model[1].weight.requires_grad_(False)
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    layer = model.get_submodule(the_name(case))
    if case.hooks == "watching":
        layer.register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        layer.register_forward_hook(lambda module, args, out: -2 * out)
    x = draw.tensor(2, 3)
    return model, layer, x


def begun(call: Call, draw: Draw, case: Any) -> Seen:
    """Two new parameters are all that can be trained, and add nothing yet."""
    model, layer, x = a_model(draw, case)
    call(model, the_name(case), case.rank, an_alpha(draw))
    found: dict[str, Any] = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            found[name] = list(p.shape)
    yield "the parameters that require grad, and their shapes", found
    yield "the output", model(x).detach()
    yield "low_rank_b", layer.low_rank_b
    yield "the type of low_rank_a", type(layer.low_rank_a).__name__
    yield "the dtype of low_rank_a", str(layer.low_rank_a.dtype)
    yield "low_rank_a has zeros", bool((layer.low_rank_a == 0).any())


def added(call: Call, draw: Draw, case: Any) -> Seen:
    """The layer adds the product to its output."""
    model, layer, x = a_model(draw, case)
    call(model, the_name(case), case.rank, an_alpha(draw))
    layer.low_rank_a.data, layer.low_rank_b.data = draw.tensor(case.rank, 3), draw.tensor(2, case.rank)
    yield "the output", model(x).detach()
    yield "the output for one row", model(x[0]).detach()
    yield "the output in three dimensions", model(x.expand(2, 2, 3)).detach()


def trained(call: Call, draw: Draw, case: Any) -> Seen:
    """Training moves the two, and nothing else."""
    model, layer, x = a_model(draw, case)
    x.requires_grad_()
    call(model, the_name(case), case.rank, an_alpha(draw))
    layer.low_rank_a.data, layer.low_rank_b.data = draw.tensor(case.rank, 3), draw.tensor(2, case.rank)
    for p in model.parameters():
        p.grad = None
    for _ in range(2):
        model(x).square().sum().backward()
        for p in model.parameters():
            p.data -= 0.001 * p.grad if p.grad is not None and p.requires_grad else 0
    yield "low_rank_a", layer.low_rank_a.detach()
    yield "low_rank_b", layer.low_rank_b.detach()
    yield "the weight", layer.weight.detach()
    yield "x.grad", x.grad


def merged(call: Call, draw: Draw, case: Any) -> Seen:
    """After the product was added to the weight, the layer gives the same without it."""
    model, layer, x = a_model(draw, case)
    alpha = an_alpha(draw)
    handle = call(model, the_name(case), case.rank, alpha)
    layer.low_rank_a.data, layer.low_rank_b.data = draw.tensor(case.rank, 3), draw.tensor(2, case.rank)
    product = alpha / case.rank * layer.low_rank_b.data @ layer.low_rank_a.data
    before = layer(x).detach()
    handle.remove()
    layer.weight.data = layer.weight.data + product
    yield "the outputs before and after", (before, layer(x).detach())


def removed(call: Call, draw: Draw, case: Any) -> Seen:
    """remove() gives back what there was."""
    model, layer, x = a_model(draw, case)
    before = Watch(model=model)
    handle = call(model, the_name(case), case.rank, an_alpha(draw))
    layer.low_rank_a.data, layer.low_rank_b.data = draw.tensor(case.rank, 3), draw.tensor(2, case.rank)
    model(x)
    handle.remove()
    yield "after remove()", before.differences()
    yield "the output after remove()", model(x).detach()


def added_again(call: Call, draw: Draw, case: Any) -> Seen:
    """After remove(), there may be a second call."""
    model, layer, x = a_model(draw, case)
    handle = call(model, the_name(case), case.rank, 2.0)
    handle.remove()
    before = Watch(model=model)
    again = call(model, the_name(case), case.rank, 2.0)
    yield "the output", model(x).detach()
    again.remove()
    yield "after the second remove()", before.differences()


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes, and the output of the layer is not written into."""
    model, layer, x = a_model(draw, case)
    kept: list[Any] = []
    layer.register_forward_hook(lambda module, args, out: kept.append(out))
    before = Watch(model=model, x=x)
    call(model, the_name(case), case.rank, an_alpha(draw))
    yield "by the call", before.differences("hook-left", "requires-grad", "parameters", "attribute-left")
    layer.low_rank_a.data, layer.low_rank_b.data = draw.tensor(case.rank, 3), draw.tensor(2, case.rank)
    model(x)
    yield "what a hook had kept", kept[0].detach()


def another_model(call: Call, draw: Draw, case: Any) -> Seen:
    """Another model has an addition of its own, whatever becomes of this one."""
    model, layer, x = a_model(draw, case)
    other: Any = nn.Sequential(nn.Linear(3, 2).to(x.dtype))
    handle = call(model, the_name(case), case.rank, 2.0)
    of_other = call(other, "0", 1, 3.0)
    yield "both begin with the same numbers", torch.equal(layer.low_rank_a[0], other[0].low_rank_a[0])
    other[0].low_rank_a.data, other[0].low_rank_b.data = draw.tensor(1, 3), draw.tensor(2, 1)
    handle.remove()
    yield "the output of the other model", other(x).detach()
    of_other.remove()
    yield "the output of the other model after its remove()", other(x).detach()


NOTHING_ELSE = (nothing_else, added_again, another_model)
