"""Stories for functions that run a transformer once, and return what flows inside it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.stories.ablated_heads import some_tokens, width_of
from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.stories.model_states import blocks_in_their_state
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

Made = Callable[[Draw, Any], Any]
"""Makes a model."""
More = Callable[[Any], tuple[Any, ...]]
"""The arguments after the model and the tokens."""
STREAMS = {
    "output": ("tuple", "tensor", "tuple of one"),
    "blocks": (2, 1, 3),
    "norm": ("layer", "root mean square", "none"),
    "dtype": ("float32", "float64"),
    "mode": ("eval", "train", "mixed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching"),
    "grad_mode": ("on", "off"),
    **FAILURES,
}
UNNORMED = ("layer", "root mean square", "not called")
"""The norms of a model of which nothing is known but its blocks."""
PATTERNS = {
    "heads": (2, 3, 1),
    "layer": (0, 1),
    **{name: STREAMS[name] for name in ("dtype", "mode", "grad", "grad_mode", "failure")},
    "hooks": ("none", "watching"),
}


def no_more(case: Any) -> tuple[()]:
    """For `function(model, tokens)`."""
    return ()


def a_layer(case: Any) -> tuple[int]:
    """For `function(model, tokens, layer)`."""
    return (case.layer,)


@told
def in_its_state(model: Any, draw: Draw, case: Any) -> Any:
    """The state of the case: dtype, mode, grad mode, or `.grad` filled before, with the embedding frozen."""
    blocks_in_their_state(model, draw, case)
    if case.grad == "filled":
        model.embed.requires_grad_(False)
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)


@told
def a_block(case: Any) -> Any:
    """The class of a block that returns a tuple."""

    class Block(nn.Linear):
        def forward(self: Any, hidden: Tensor) -> Any:
            if case.output == "tuple":
                return super().forward(hidden), None
            else:
                return (super().forward(hidden),)

    return Block


@told
def a_net(case: Any) -> Any:
    """A model with blocks, which does more than embed its tokens."""

    class Net(nn.ModuleDict):
        def forward(self: Any, tokens: Tensor) -> Any:
            hidden = (1 + self.training) * self.embed(tokens).cumsum(1)
            for block in self.blocks:
                hidden = block(hidden) if case.output == "tensor" else block(hidden)[0]
            return self.unembed(hidden) if case.norm == "not called" else self.unembed(self.norm(hidden))

    if case.output == "tensor":
        blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(case.blocks))
    else:
        Block = a_block(case)
        blocks = nn.ModuleList(Block(3, 3) for _ in range(case.blocks))
    if case.norm == "layer":
        norm: Any = nn.LayerNorm(3)
    elif case.norm == "root mean square":
        norm = nn.RMSNorm(3)
    else:
        norm = nn.Identity()
    model = Net({"embed": nn.Embedding(5, 3), "blocks": blocks, "norm": norm, "unembed": nn.Linear(3, 5)})
    return model


@told
def a_model(draw: Draw, case: Any) -> Any:
    """The lesson's own model or another one with blocks. A hook of the caller may watch its first block."""
    torch.manual_seed(draw.choice(range(100)))
    if case.output == "tuple" and case.norm == "layer" and case.mode == "eval":
        from graders.nets import Decoder

        model: Any = Decoder(5, width=4, heads=2, blocks=case.blocks)
    else:
        model = a_net(case)
    if case.norm in ("layer", "root mean square"):
        nn.init.uniform_(model.norm.weight)
    if case.hooks == "watching":
        model.blocks[0].register_forward_hook(lambda module, args, out: None)
    in_its_state(model, draw, case)
    return model


@told
def a_decoder(draw: Draw, case: Any) -> Any:
    """A decoder of two blocks, with hooks of the caller on the attention of one."""
    from graders.nets import Decoder

    torch.manual_seed(draw.choice(range(100)))
    model = Decoder(5, width=width_of(case), heads=case.heads, blocks=2)
    if case.hooks == "watching":
        model.blocks[case.layer].attention.register_forward_hook(lambda module, args, out: None)
        model.blocks[case.layer].attention.register_forward_pre_hook(lambda module, args: None)
    in_its_state(model, draw, case)
    return model


def read(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """The result is what the contract asks for."""
    model = made(draw, case)
    tokens = some_tokens(draw, 2, 4)
    found = call(model, tokens, *more(case))
    yield "the result", found


def one_text(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """A batch of one, and of more texts than tokens."""
    model = made(draw, case)
    text = some_tokens(draw, 1, 3)
    texts = some_tokens(draw, 3, 2)
    found = call(model, text, *more(case))
    yield "the result for one text", found
    found = call(model, texts, *more(case))
    yield "the result for three texts", found


READ = (read, one_text)


def overwritten(call: Call, draw: Draw, case: Any) -> Seen:
    """The blocks overwrite what they get."""

    class Block(nn.Linear):
        def forward(self: Any, hidden: Tensor) -> Any:
            return hidden.copy_(super().forward(hidden))

    class Net(nn.ModuleDict):
        def forward(self: Any, tokens: Tensor) -> Any:
            hidden = self.embed(tokens)
            for block in self.blocks:
                hidden = block(hidden)
            return self.unembed(self.norm(hidden))

    torch.manual_seed(draw.choice(range(100)))
    blocks = nn.ModuleList([Block(3, 3), Block(3, 3)])
    model = Net({"embed": nn.Embedding(5, 3), "blocks": blocks, "norm": nn.RMSNorm(3), "unembed": nn.Linear(3, 5)})
    tokens = some_tokens(draw, 2, 4)
    found = call(model, tokens)
    yield "the result where blocks overwrite what they get", found


def replaced(call: Call, draw: Draw, case: Any) -> Seen:
    """Hooks of the caller replace what blocks get, what one of them returns, and the logits."""
    from graders.nets import Decoder

    torch.manual_seed(draw.choice(range(100)))
    model = Decoder(5, width=4, heads=2, blocks=2)
    model.blocks[0].register_forward_hook(lambda module, args, out: (-2 * out[0], *out[1:]))
    for block in model.blocks:
        block.register_forward_pre_hook(lambda module, args: (args[0].cumsum(-1), *args[1:]))
    model.unembed.register_forward_hook(lambda module, args, out: -out)
    tokens = some_tokens(draw, 2, 4)
    found = call(model, tokens)
    yield "the result where hooks replace what blocks get and return", found


def run_once(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """The model runs once, and returns what it returns without the function."""
    model = made(draw, case)
    tokens = some_tokens(draw, 2, 4)
    logits: list[Any] = []
    modes: list[bool] = []
    model.register_forward_hook(lambda module, args, out: logits.append(out.detach()[:, -1]))
    model.unembed.register_forward_pre_hook(lambda *args: modes.append(model.blocks[0].training))
    call(model, tokens, *more(case))
    yield "the logits of the last token, run by run", logits
    yield "whether the first block was in training mode", modes[0]


def afresh(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """Neither of two calls affects the result of the other."""
    model = made(draw, case)
    tokens = some_tokens(draw, 2, 4)
    later_tokens = some_tokens(draw, 2, 4)
    found = call(model, tokens, *more(case))
    later = call(model, later_tokens, *more(case))
    yield "the result of a later call", later
    yield "the result of the first call after that", found


def called_inside(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """A hook of the model may make such a call for another model."""
    import copy

    model = made(draw, case)
    other = copy.deepcopy(model)
    tokens = some_tokens(draw, 2, 4)
    inner_tokens = some_tokens(draw, 1, 3)
    inner: list[Any] = []

    model.register_forward_hook(lambda *args: inner.append(call(other, inner_tokens, *more(case))))
    found = call(model, tokens, *more(case))
    yield "the result of the call inside", inner
    yield "the result around it", found


def left_alone(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """Nothing of the caller changes."""
    model = made(draw, case)
    tokens = some_tokens(draw, 2, 4)
    before = Watch(model=model, tokens=tokens)
    call(model, tokens, *more(case))
    yield "by the call", before.differences()


def model_raises(call: Call, draw: Draw, case: Any, made: Made, more: More) -> Seen:
    """An exception of the model comes through, and nothing is left."""
    model = made(draw, case)
    tokens = some_tokens(draw, 2, 4)
    found = call(model, tokens, *more(case))
    yield "the result of a call in which nothing fails", found
    error = an_error(draw, case)

    def fails(*args: Any) -> None:
        raise error

    model.embed.register_forward_pre_hook(fails)
    torch.set_grad_enabled(True)
    before = Watch(model=model, tokens=tokens)
    came = None
    try:
        call(model, tokens, *more(case))
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    yield "torch.is_grad_enabled() after the call", torch.is_grad_enabled()
