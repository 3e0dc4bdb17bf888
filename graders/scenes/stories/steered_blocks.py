"""Stories for a function that adds a vector to what a block of a model passes on, and returns a handle."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.model_states import blocks_in_their_state
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

STEERED = {
    "output": ("tensor", "tuple", "tuple of one"),
    "start": ("inside", "left out", "behind"),
    "layer": (0, 1),
    "number": ("negative", "fraction", "large", "zero"),
    "dtype": ("float32", "float64"),
    "mode": ("train", "eval", "mixed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model of two blocks, their input [batch, token, width], and a direction."""
    torch.manual_seed(draw.choice(range(100)))
    model = nn.Module()
    if case.output == "tensor":
        model.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    else:

        class Block(nn.Linear):
            def forward(self, hidden: Tensor, cache: Any = None) -> Any:
                stream = super().forward(hidden)
                return (stream, cache, len(hidden)) if case.output == "tuple" else (stream,)

        model.blocks = nn.ModuleList([Block(2, 2), Block(2, 2)])
    blocks_in_their_state(model, draw, case)
    if case.hooks == "watching":
        model.blocks[case.layer].register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing" and case.output == "tensor":
        model.blocks[case.layer].register_forward_hook(lambda module, args, out: 2 * out)
    if case.hooks == "replacing" and case.output != "tensor":
        model.blocks[case.layer].register_forward_hook(lambda module, args, out: (2 * out[0], *out[1:]))
    hidden = draw.tensor(2, 3, 2)
    direction = draw.tensor(2)
    return model, hidden, direction


def by(draw: Draw, case: Any) -> tuple[Any, ...]:
    """The number by which the block is steered, and the first token unless it is left out."""
    numbers = {
        "negative": draw.number(-2.9, -1.1),
        "fraction": draw.number(0.3, 0.9),
        "large": draw.number(11, 19),
        "zero": 0.0,
    }
    starts = {"left out": (), "inside": (draw.choice((1, 2)),), "behind": (draw.choice((3, 4)),)}
    return numbers[case.number], *starts[case.start]


@told
def stream_of(case: Any, out: Any) -> Any:
    """The stream in what a block returns."""
    return out if case.output == "tensor" else out[0] if isinstance(out, tuple) else out


def moved(call: Call, draw: Draw, case: Any) -> Seen:
    """Every token from `start` on is moved."""
    model, hidden, direction = a_model(draw, case)
    call(model, case.layer, direction, *by(draw, case))
    out = model.blocks[case.layer](hidden)
    yield "the stream", stream_of(case, out).detach()


def moved_in_each_call(call: Call, draw: Draw, case: Any) -> Seen:
    """Tokens are counted anew in each call."""
    model, hidden, direction = a_model(draw, case)
    call(model, case.layer, direction, *by(draw, case))
    for _ in range(4):
        model.blocks[case.layer](hidden)
    more = draw.tensor(1, 5, 2)
    out = model.blocks[case.layer](more)
    yield "the stream of more tokens", stream_of(case, out).detach()
    torch.set_grad_enabled(False)
    one = draw.tensor(1, 1, 2)
    out = model.blocks[case.layer](one)
    yield "the stream of a single token", stream_of(case, out)
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    yield "torch.is_grad_enabled() after a call of the block", enabled


def read_by_the_next(call: Call, draw: Draw, case: Any) -> Seen:
    """What comes after the block computes with it."""
    model, hidden, direction = a_model(draw, case)
    call(model, case.layer, direction, *by(draw, case))
    for block in model.blocks:
        out = block(hidden)
        hidden = stream_of(case, out)
    yield "the stream behind all blocks", hidden.detach()


MOVED = (moved, moved_in_each_call, read_by_the_next)


def rest_stays(call: Call, draw: Draw, case: Any) -> Seen:
    """The rest of what the block returns stays."""
    model, hidden, direction = a_model(draw, case)
    call(model, case.layer, direction, *by(draw, case))
    cache = draw.tensor(2)
    if case.output == "tensor":
        out = model.blocks[case.layer](hidden)
    else:
        out = model.blocks[case.layer](hidden, cache=cache)
    yield "whether the block returns a tuple", isinstance(out, tuple)
    yield "the rest", out[1:] if isinstance(out, tuple) else None
    yield "its first number", float(stream_of(case, out).flatten()[0])


def not_overwritten(call: Call, draw: Draw, case: Any) -> Seen:
    """What the block computed is not overwritten."""
    model, hidden, direction = a_model(draw, case)
    kept: list[Any] = []
    model.blocks[case.layer].register_forward_hook(lambda module, args, out: kept.append(out))
    call(model, case.layer, direction, *by(draw, case))
    model.blocks[case.layer](hidden)
    yield "what a hook had kept", stream_of(case, kept[0]).detach()


def passed_through(call: Call, draw: Draw, case: Any) -> Seen:
    """A block may return its input, and that may lie in memory in any way."""
    hidden = draw.tensor(1, 2, 3).mT
    direction = draw.tensor(2)
    model = nn.Module()
    model.blocks = nn.ModuleList([nn.Identity()])
    call(model, 0, direction, 2.0, 1)
    torch.set_grad_enabled(False)
    model.blocks[0](hidden)
    yield "its input afterwards", hidden
    out = model.blocks[0](hidden)
    yield "what the block returns", out


KEPT = (not_overwritten, passed_through)


def gradients_flow(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients flow through it."""
    model, hidden, direction = a_model(draw, case)
    hidden.requires_grad_()
    k = draw.tensor(2, 3, 2)
    call(model, case.layer, direction, *by(draw, case))
    out = model.blocks[case.layer](hidden)
    (hidden + k * stream_of(case, out)).sum().backward()
    yield "hidden.grad", hidden.grad
    yield "the gradient of a weight", model.blocks[case.layer].weight.grad


def removed(call: Call, draw: Draw, case: Any) -> Seen:
    """Each handle removes its own hook."""
    model, hidden, direction = a_model(draw, case)
    first = call(model, case.layer, direction, *by(draw, case))
    second = call(model, case.layer, direction, 0.7)
    out = model.blocks[case.layer](hidden)
    yield "the stream with two of them", stream_of(case, out).detach()
    first.remove()
    out = model.blocks[case.layer](hidden)
    yield "the stream without the first", stream_of(case, out).detach()
    second.remove()
    out = model.blocks[case.layer](hidden)
    yield "the stream without both", stream_of(case, out).detach()


def removed_from_one_model(call: Call, draw: Draw, case: Any) -> Seen:
    """A handle of another model leaves this one alone."""
    model, hidden, direction = a_model(draw, case)
    other = nn.Module()
    other.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
    first = call(other, case.layer, direction, 2.0)
    call(model, case.layer, direction, *by(draw, case))
    out = other.blocks[case.layer](hidden)
    yield "the stream of the other model", out
    first.remove()
    out = other.blocks[case.layer](hidden)
    yield "the stream of the other model, then", out
    out = model.blocks[case.layer](hidden)
    yield "the stream of this model", stream_of(case, out).detach()


REMOVED = (removed, removed_from_one_model)


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing else changes."""
    model, hidden, direction = a_model(draw, case)
    before = Watch(model=model, hidden=hidden, direction=direction)
    handle = call(model, case.layer, direction, *by(draw, case))
    yield "by the call", before.differences("hook-left")
    out = model.blocks[case.layer](hidden)
    yield "the stream", stream_of(case, out).detach()
    yield "by a call of the block", before.differences("hook-left")
    handle.remove()
    yield "after remove()", before.differences()
    out = model.blocks[1 - case.layer](hidden)
    yield "the stream of the other block", stream_of(case, out).detach()
