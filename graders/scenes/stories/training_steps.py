"""Stories for functions that take training steps, and describe what each layer returns, step by step."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.story import Call, Draw, Seen, Value, told
from graders.scenes.watch import Watch

STEPS: dict[str, tuple[Value, ...]] = {
    "dtype": ("float32", "float64"),
    "rank": (2, 3),
    "mode": ("train", "eval"),
    "hooks": ("none", "watching", "replacing"),
    "odd": ("nothing", "frozen", "filled"),
    **FAILURES,
}


def some_batches(draw: Draw, case: Any) -> list[Tensor]:
    """Batches of one size that differ in magnitude."""
    shape = (3, 2) if case.rank == 2 else (2, 2, 2)
    return [scale * draw.tensor(*shape) for scale in (1, 2)]


@told
def a_training(draw: Draw, case: Any) -> Any:
    """A model, two of its layers, and the function that takes a step of its training."""
    torch.manual_seed(draw.choice(range(100)))
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 2))
    if draw.is_double:
        model.double()
    if case.mode == "eval":
        model.eval()
    if case.odd == "frozen":
        model[0].bias.requires_grad_(False)
    if case.odd == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    if case.hooks == "watching":
        model[0].register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing":
        model[0].register_forward_hook(lambda module, args, out: out + 0.7)
    layers = {"b.0": model[2], "a": model[0]}

    def step(batch: Tensor) -> None:
        loss = (model(batch) - 1).square().mean()
        if loss.requires_grad:
            loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * (0 if p.grad is None else p.grad)
            p.grad = None

    return model, layers, step


def each_step(call: Call, draw: Draw, case: Any) -> Seen:
    """Each layer has its statistics, a row for each step."""
    model, layers, step = a_training(draw, case)
    found = call(layers, step, some_batches(draw, case))
    yield "the keys", sorted(found)
    yield "the means", {name: found[name]["mean"].float() for name in layers}
    yield "the standard deviations", {name: found[name]["std"].float() for name in layers}
    yield "the counts", {name: found[name]["hist"].float() for name in layers}


def each_step_again(call: Call, draw: Draw, case: Any) -> Seen:
    """A later call starts afresh."""
    model, layers, step = a_training(draw, case)
    found = call(layers, step, some_batches(draw, case))
    later = call(layers, step, some_batches(draw, case))
    yield "the means of a later call", {name: later[name]["mean"].float() for name in layers}
    yield "the counts of a later call", {name: later[name]["hist"].float() for name in layers}
    yield "the means of the first call after that", {name: found[name]["mean"].float() for name in layers}


def each_step_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, layers, step = a_training(draw, case)
    other, x, inner = nn.Tanh(), draw.tensor(2, 2).mT, []
    model[0].register_forward_hook(lambda module, args, out: inner.append(call({"b": other}, other, [x])))
    found = call(layers, step, some_batches(draw, case))
    yield "the means around other calls", {name: found[name]["mean"].float() for name in layers}
    yield "the means of the calls inside", [one["b"]["mean"].float() for one in inner]


def trained(call: Call, draw: Draw, case: Any) -> Seen:
    """The model trains as it does without the function."""
    model, layers, step = a_training(draw, case)
    runs: list[Any] = []
    model[1].register_forward_hook(lambda module, args, out: runs.append(torch.is_grad_enabled()))
    call(layers, step, some_batches(draw, case))
    yield "whether gradients are on in each call of model[1]", runs
    yield "the parameters after the steps", [p.detach() for p in model.parameters()]


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    model, layers, step = a_training(draw, case)
    batches = some_batches(draw, case)
    before = Watch(model=model, layers=layers, batches=batches)
    found = call(layers, step, batches)
    yield "by the call", before.differences("values", "grad", "buffer")
    yield "the means of that call", {name: found[name]["mean"].float() for name in layers}


def step_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and nothing is left."""
    model, layers, step = a_training(draw, case)
    batches = some_batches(draw, case)
    found = call(layers, step, batches)
    yield "the counts of a call in which nothing fails", {name: found[name]["hist"].float() for name in layers}
    error = an_error(draw, case)

    def fails(module: Any, args: Any) -> None:
        raise error

    model[2].register_forward_pre_hook(fails)
    before = Watch(model=model, layers=layers, batches=batches)
    came = None
    try:
        call(layers, step, batches)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences("values", "grad", "buffer")
