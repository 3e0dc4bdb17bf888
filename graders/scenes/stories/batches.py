"""Stories for functions that run a model on one batch after another, and describe what a layer returns."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.story import Call, Draw, Seen, Value, told
from graders.scenes.watch import Watch

LAYER: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "shape": ("flat", "row", "image"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "odd": ("nothing", "frozen", "filled"),
    "layer": ("linear", "act", "model"),
    "batches": ("list", "iterator"),
    "grad_mode": ("on", "off"),
    **FAILURES,
}
SIZES = {
    "flat": ((1, 2), (1, 2), (2, 2)),
    "row": ((1, 2, 2), (2, 2, 1), (2, 2, 2)),
    "image": ((1, 2, 2, 1), (2, 2, 1, 1), (2, 2, 1, 2)),
}
"""The shapes of batches with two channels. The number of values in a channel is a power of two, in each batch and in
all together, so that dividing by it loses no digits.
"""
IMPOSSIBLE = (
    # Whether something is overwritten in place shows only if neither `.double()` nor a transposition copies it.
    lambda layer, dtype, shape: layer == "linear" and (dtype, shape) != ("float64", "flat"),
)


def exact(draw: Draw, *shape: int) -> Tensor:
    """Multiples of 1/4: they, their sums and the sums of their squares are exact in each dtype."""
    return (2 * draw.tensor(*shape)).round() / 4


def some_batches(draw: Draw, case: Any) -> list[Tensor]:
    """Batches that differ in size and magnitude."""
    return [scale * exact(draw, *size) for scale, size in zip((1, 4, 2), draw.shuffled(SIZES[case.shape]))]


def a_weight(draw: Draw, case: Any) -> Tensor:
    """The weight of the layer in the middle."""
    return exact(draw, 2, 2, *{"flat": (), "row": (1,), "image": (1, 1)}[case.shape])


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model whose activation works in place and is called twice, and whose first output depends on the mode."""
    act = nn.ReLU(inplace=True)
    if case.shape == "flat":
        model = nn.Sequential(nn.Identity(), act, nn.Linear(2, 2, bias=False), act)
    elif case.shape == "row":
        model = nn.Sequential(nn.Identity(), act, nn.Conv1d(2, 2, 1, bias=False), act)
    else:
        model = nn.Sequential(nn.Identity(), act, nn.Conv2d(2, 2, 1, bias=False), act)
    model[2].weight.data = a_weight(draw, case)
    model[0].register_forward_hook(lambda module, args, out: out + (0.5 if module.training else 0.25))
    if case.mode == "eval":
        model.eval()
    if case.mode == "mixed":
        model[0].eval()
    if case.odd == "frozen":
        model[2].requires_grad_(False)
    if case.odd == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    if case.hooks == "watching":
        model[2].register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        model[0].register_forward_hook(lambda module, args, out: -out)
    return model


@told
def a_layer(draw: Draw, case: Any) -> Any:
    """A model, and the layer in question."""
    model = a_model(draw, case)
    if case.layer == "act":
        layer = model[1]
    elif case.layer == "linear":
        layer = model[2]
    else:
        layer = model
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)
    return model, layer


def described(call: Call, draw: Draw, case: Any) -> Seen:
    """The statistics describe all values of each channel."""
    model, layer = a_layer(draw, case)
    batches = some_batches(draw, case)
    found = call(model, layer, iter(batches) if case.batches == "iterator" else batches)
    yield "the result", found


def described_again(call: Call, draw: Draw, case: Any) -> Seen:
    """A later call starts afresh."""
    model, layer = a_layer(draw, case)
    batches = some_batches(draw, case)
    found = call(model, layer, batches)
    batches[0] += 1
    yield "the result of a later call", call(model, layer, batches)
    yield "the result of the first call after that", found


def described_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, layer = a_layer(draw, case)
    batches = some_batches(draw, case)
    other, inner = nn.Identity(), []
    model[0].register_forward_hook(lambda module, args, out: inner.append(call(other, other, batches)))
    found = call(model, layer, batches)
    yield "the result around other calls", found
    yield "the results of the calls inside", inner


def run_in_its_mode(call: Call, draw: Draw, case: Any) -> Seen:
    """Each batch runs once, in the mode of the model and without gradients."""
    model, layer = a_layer(draw, case)
    runs: list[Any] = []
    model[2].register_forward_hook(
        lambda module, args, out: runs.append([out.clone(), torch.is_grad_enabled(), module.training])
    )
    model.register_forward_hook(lambda module, args, out: runs.append(out.clone()))
    call(model, layer, some_batches(draw, case))
    yield "what comes out of model[2], whether gradients are on, its mode, and what comes out of the model", runs
    yield "whether gradients are on after the call", torch.is_grad_enabled()


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    model, layer = a_layer(draw, case)
    batches = some_batches(draw, case)
    before = Watch(model=model, batches=batches)
    found = call(model, layer, batches)
    yield "by the call", before.differences()
    yield "the result of that call", found


def model_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and nothing is left."""
    model, layer = a_layer(draw, case)
    error = an_error(draw, case)
    batches = some_batches(draw, case)

    def fails(module: Any, args: Any) -> None:
        raise error

    model[2].register_forward_pre_hook(fails)
    before = Watch(model=model, batches=batches)
    came = None
    try:
        call(model, layer, batches)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()


def large_numbers(draw: Draw, case: Any) -> list[Tensor]:
    """A batch of float32 numbers, rows and columns swapped, the sums of whose squares need more digits than it has."""
    return [(draw.tensor(1, 2, 2, 2) + 4000).float().mT]  # with more of them, float64 would not be exact either


def with_a_large_mean(call: Call, draw: Draw, case: Any) -> Seen:
    """The mean may be large compared with the spread."""
    model = nn.Identity()
    yield "the result for large numbers", call(model, model, large_numbers(draw, case))


def nearly_zeros(draw: Draw, case: Any) -> list[Tensor]:
    """A batch with zeros, with numbers close to zero, and with others, on both sides."""
    tiny = draw.choice([2e-30, 3e-30, 7e-30])
    t = exact(draw, 8, 2)
    t[:4] = torch.tensor([[0.0, tiny], [-0.0, -tiny], [tiny, 0.0], [-1.0, 1.0]])
    return [t[draw.shuffled(range(8))]]


def of_exact_zeros(call: Call, draw: Draw, case: Any) -> Seen:
    """A number close to zero is not counted as zero."""
    model = nn.Identity()
    found = call(model, model, nearly_zeros(draw, case))
    yield "the share of zeros", found["zero_frac"]
    yield "the mean", found["mean"]
