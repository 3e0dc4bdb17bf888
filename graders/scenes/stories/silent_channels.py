"""Stories of 13-dead-channels. The model is written outside, as text, and planted in the case."""

from typing import Any

import torch
from torch import nn

from graders.scenes.planted import written
from graders.scenes.stories.failing import FAILURES, a_failing_call
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "dtype": ("float32", "float64"),
    "rank": (2, 3, 4, 5),
    "modes": ("train", "eval"),
    "hooks": ("none", "watching"),
    **FAILURES,
    "failing_run": (2, 1),
}


def some_batches(draw: Draw, case: Any, count: int) -> list[torch.Tensor]:
    """Batches of different sizes with four channels, which are positive never (two of them), once, or once faintly."""
    sizes = [draw.shuffled((2, 1, 1))[: case.rank - 2] for _ in range(count)]
    batches = [-draw.tensor(2 - index % 2, 4, *rest, low=0.3) for index, rest in enumerate(sizes)]
    start = draw.choice(range(4))  # the two that are never positive stay beside each other
    never, once, faintly = ((start + step) % 4 for step in (1, 2, 3))
    for batch in batches:
        batch[:, never] = 0
    for channel, number in ((once, draw.number(1, 3)), (faintly, 1e-60 if draw.is_double else 1e-15)):
        batches[channel % count][-1, channel].view(-1)[-1] = number
    return batches


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model in its mode, and batches."""
    model = written("model", case.model)
    if case.modes == "eval":
        model.eval()
    if case.hooks == "watching":
        model.register_forward_hook(lambda module, args, out: None)
    batches = some_batches(draw, case, 3)
    return model, batches


def found(call: Call, draw: Draw, case: Any) -> Seen:
    """The dead channels are found."""
    model, batches = a_model(draw, case)
    dead = call(model, batches)
    yield "the dict", dead


def found_in_a_relu(call: Call, draw: Draw, case: Any) -> Seen:
    """The names are those of the model."""
    x = draw.tensor(2, 3)
    x[:, 1] = -1.5
    yield "the dict for a model that is a ReLU", call(nn.ReLU(), [x])


def found_anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    model, batches = a_model(draw, case)
    first = call(model, batches)
    yield "the dict of a later call with other batches", call(model, [-batch for batch in batches[:1]])
    model.train(not model.training)
    yield "the dict in the other mode", call(model, batches)
    yield "the dict of the first call after that", first


def found_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """A hook of the caller may call the function for another model."""
    model, batches = a_model(draw, case)
    inner: list[Any] = []

    def calls_inside(*args: Any) -> None:
        if not inner:
            inner.append(call(nn.Sequential(nn.ReLU()), [torch.tensor([[-1.0, 2.0]])]))

    next(model.children()).register_forward_hook(calls_inside)
    outer = call(model, batches)
    yield "the dict around another call", outer
    yield "the dict of the call inside", inner


def one_run(call: Call, draw: Draw, case: Any) -> Seen:
    """Each batch runs once."""
    model, batches = a_model(draw, case)
    runs: list[Any] = []
    model.register_forward_pre_hook(lambda module, args: runs.append(list(args[0].shape)))
    with torch.no_grad():
        call(model, batches)
        with_gradients = torch.is_grad_enabled()
    yield "the shapes of what the model gets", runs
    yield "torch.is_grad_enabled() after the call", with_gradients


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, batches = a_model(draw, case)
    before = Watch(model=model, batches=batches)
    call(model, batches)
    yield "by the call", before.differences()
    torch.manual_seed(draw.choice(range(100)))
    call(nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), batches)
    yield "the next random number", torch.rand(1)


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    model = nn.Sequential(nn.ReLU(), nn.Identity())
    yield "the dict before that", call(model, [torch.tensor([[2.0, -1.0, 3.0]])])
    error, fails = a_failing_call(draw, case)
    model[1].register_forward_hook(fails)
    before = Watch(model=model)
    came = None
    try:
        call(model, [torch.ones(2, 3), torch.ones(1, 3)])
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
