"""Stories for a context manager in which one head of one block of a decoder adds nothing."""

from typing import Any

import torch
from torch import Tensor

from graders.scenes.stories.model_states import blocks_in_their_state
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

ABLATED = {
    "heads": (2, 3, 1),
    "layer": (0, 1),
    "dtype": ("float32", "float64"),
    "mode": ("eval", "train", "mixed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("the with", "the model"),
}


def width_of(case: Any) -> int:
    """The width of the stream. The sizes of the heads and their numbers are all different."""
    return {1: 4, 2: 6, 3: 6}[int(case.heads)]


def some_tokens(draw: Draw, *shape: int) -> Tensor:
    """Tokens of a decoder with five words."""
    return torch.tensor([draw.choice(range(5)) for _ in range(shape[0] * shape[1])]).reshape(shape)


def a_head(draw: Draw, case: Any) -> Any:
    """The number of a head."""
    return draw.choice(range(case.heads))


@told
def a_decoder(draw: Draw, case: Any) -> Any:
    """A decoder of two blocks."""
    from graders.nets import Decoder

    torch.manual_seed(draw.choice(range(100)))
    model = Decoder(5, width=width_of(case), heads=case.heads, blocks=2)
    blocks_in_their_state(model, draw, case)
    if case.hooks == "watching":
        model.blocks[case.layer].attention.register_forward_hook(lambda module, args, out: None)
        model.blocks[case.layer].mix.register_forward_pre_hook(lambda module, args: None)
    if case.hooks == "replacing":
        model.blocks[case.layer].attention.register_forward_hook(lambda module, args, out: (out[0] + 1, out[1]))
        model.blocks[case.layer].mix.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    return model


def columns_off(call: Call, draw: Draw, case: Any) -> Seen:
    """Only the columns of this head are 0 in what `mix` gets, which shows if it returns just that."""
    model = a_decoder(draw, case)
    torch.nn.init.eye_(model.blocks[case.layer].mix.weight)
    mixed: list[Any] = []
    with call(model, case.layer, a_head(draw, case)):
        model.blocks[case.layer].mix.register_forward_hook(lambda module, args, out: mixed.append(out))
        model(some_tokens(draw, 2, 4))
    yield "the columns that are 0", (mixed[0] == 0).all(0).all(0).nonzero().flatten()
    yield "the others of the last token", mixed[0][-1, -1].detach()


def logits_without(call: Call, draw: Draw, case: Any) -> Seen:
    """The head adds nothing in each run."""
    model = a_decoder(draw, case)
    tokens = some_tokens(draw, 2, 4)
    more = some_tokens(draw, 1, 5)
    with call(model, case.layer, a_head(draw, case)):
        first = model(tokens)
        for _ in range(3):
            model(tokens)
        torch.set_grad_enabled(False)
        second = model(more)
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
    yield "the logits", first.detach()
    yield "the logits of other tokens under no_grad", second
    yield "torch.is_grad_enabled() after a run inside the with", enabled


SILENT = (columns_off, logits_without)


def rest_as_before(call: Call, draw: Draw, case: Any) -> Seen:
    """Inside it, nothing but hooks is new in the model."""
    model = a_decoder(draw, case)
    before = Watch(model=model)
    context = call(model, case.layer, a_head(draw, case))
    context.__enter__()
    yield "within it", before.differences("hook-left")
    out = model(some_tokens(draw, 2, 4))
    yield "within it, after a run", before.differences("hook-left")
    context.__exit__(None, None, None)
    yield "the logits of the last token", out[-1, -1].detach()


def not_overwritten(call: Call, draw: Draw, case: Any) -> Seen:
    """What `attention` returned is not overwritten, and every module runs once in a run."""
    model = a_decoder(draw, case)
    tokens = some_tokens(draw, 2, 4)
    kept: list[Any] = []
    mixed: list[Any] = []
    model.blocks[case.layer].attention.register_forward_hook(lambda module, args, out: kept.append(out[0]))
    model.blocks[case.layer].mix.register_forward_hook(lambda module, args, out: mixed.append("a call of mix"))
    with call(model, case.layer, a_head(draw, case)):
        model(tokens)
        torch.set_grad_enabled(False)
        model(tokens)
        torch.set_grad_enabled(True)
    yield "what attention returned, for the last token", kept[0][-1, -1].detach()
    yield "what it returned under no_grad", kept[1][-1, -1]
    yield "how often attention ran", len(kept)
    yield "the calls of mix", mixed


def gradients_as_before(call: Call, draw: Draw, case: Any) -> Seen:
    """Gradients flow as before through all other heads."""
    model = a_decoder(draw, case)
    tokens = some_tokens(draw, 2, 4)
    with call(model, case.layer, a_head(draw, case)):
        model(tokens)[..., 0].sum().backward()
    yield "the gradient at the second position", model.position.weight.grad[1]
    yield "the gradient of mix.weight", model.blocks[case.layer].mix.weight.grad


REST = (rest_as_before, not_overwritten, gradients_as_before)


def one_within_another(call: Call, draw: Draw, case: Any) -> Seen:
    """One within another works, also in another model."""
    model = a_decoder(draw, case)
    other = type(model)(5, width=width_of(case), heads=case.heads, blocks=2).to(model.norm.weight.dtype)
    tokens = some_tokens(draw, 2, 4)
    with call(model, case.layer, 0):
        with call(model, 1 - case.layer, 0):
            both = model(tokens)
        with call(other, case.layer, 0):
            two = model(tokens)
            theirs = other(tokens)
        one = model(tokens)
    yield "the logits without a head in each block", both.detach()
    yield "the logits within that of another model", two.detach()
    yield "the logits of the other model", theirs.detach()
    yield "the logits when the inner ones have ended", one.detach()
    out = model(tokens)
    yield "the logits when all have ended", out.detach()


def two_of_one_block(call: Call, draw: Draw, case: Any) -> Seen:
    """Two heads of one block are off."""
    from graders.nets import Decoder

    torch.manual_seed(draw.choice(range(100)))
    model = Decoder(5, width=6, heads=3, blocks=1)
    tokens = some_tokens(draw, 1, 4)
    with call(model, 0, 2):
        with call(model, 0, 0):
            both = model(tokens)
        one = model(tokens)
    yield "the logits without two heads of a block", both[0, -1].detach()
    yield "the logits when the inner one has ended", one[0, -1].detach()


NESTED = (one_within_another, two_of_one_block)


def as_it_was(call: Call, draw: Draw, case: Any) -> Seen:
    """After it the model is as it was."""
    model = a_decoder(draw, case)
    tokens = some_tokens(draw, 2, 4)
    before = Watch(model=model)
    with call(model, case.layer, a_head(draw, case)):
        model(tokens)
    yield "afterwards", before.differences()
    out = model(tokens)
    yield "the logits", out.detach()
    with call(model, case.layer, 0):
        later = model(tokens)
    yield "the logits without a head some time later", later.detach()


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through and nothing is left."""
    model = a_decoder(draw, case)
    tokens = some_tokens(draw, 2, 4)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    if case.raised_in == "the model":
        model.norm.register_forward_hook(fails)
    before = Watch(model=model)
    came = None
    try:
        with call(model, case.layer, a_head(draw, case)):
            model(tokens) if case.raised_in == "the model" else fails()
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "after an exception", before.differences()
