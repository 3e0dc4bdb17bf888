"""Scenes for functions that look into a transformer, and the small decoders that they get."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.models import fill_grads
from graders.nets.decoder import Block, Decoder
from graders.scenes.models import Drop
from graders.wire.draws import Rng

CONTEXT = 8
"""How many tokens a model can read."""


class Part(Block):
    """A block with dropout behind its MLP. It may return the stream alone, and may write it over what it got."""

    def __init__(self, width: int, heads: int, output: str, in_place: bool) -> None:
        """`output` is "tuple" or "tensor"."""
        super().__init__(width, heads)
        self.mlp.append(Drop(0.25))
        self.output, self.in_place = output, in_place

    def forward(self, hidden: Tensor, *, attn_mask: Tensor | None = None, cache: Tensor | None = None) -> Any:
        """The stream behind this block; in a tuple, what a `Block` has there follows it."""
        stream, *rest = super().forward(hidden, attn_mask=attn_mask, cache=cache)
        if self.in_place:
            stream = hidden.copy_(stream)
        return (stream, *rest) if self.output == "tuple" else stream


class Transformer(Decoder):
    """A small decoder with drawn parameters, and with dropout in front of its blocks and in them.

    Of a case are read `dtype`, and where it has them `heads`, `blocks`, `output` (of each block: "tuple", or the
    "tensor" alone), `stream` ("in place" where each block writes over what it got, which forbids a backward pass),
    `mode` ("mixed" is train with the blocks in eval mode) and `grad` ("filled": all `.grad` hold something).
    """

    def __init__(self, rng: Rng, case: Any) -> None:
        """The sizes and parameters come from `rng`."""
        get = vars(case).get
        heads, vocabulary = get("heads", 2), rng.integer(7, 9)
        width = heads * rng.integer(3, 4)
        with torch.random.fork_rng(devices=[]):  # what layers draw to begin with depends on their dtype
            super().__init__(vocabulary, width=width, heads=heads, blocks=0, context=CONTEXT)
            self.drop = Drop(0.25)
            parts = (width, heads, get("output", "tuple"), get("stream") == "in place")
            self.blocks = nn.ModuleList(Part(*parts) for _ in range(get("blocks", 2)))
        self.to(getattr(torch, case.dtype))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "out_proj" not in name:  # the identity
                    size = 1.5 if "in_proj" in name else 0.75  # so that heads tell tokens apart
                    drawn = rng.tensor(*parameter.shape, low=-size, high=size, dtype=case.dtype, values="full")
                    parameter.copy_(drawn)
        self.train(get("mode", "eval") != "eval")
        if get("mode") == "mixed":
            self.blocks.eval()
        if get("grad") == "filled":
            fill_grads(self)

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]  # without a cache
        """Tokens, int64 [B, T], to the logits of each next token, [B, T, vocabulary]."""
        count = tokens.shape[1]
        ahead = torch.ones(count, count, dtype=torch.bool).triu(1)
        hidden = self.drop(self.embed(tokens) + self.position(torch.arange(count)))
        for block in self.blocks:
            given = block(hidden, attn_mask=ahead)
            hidden = given[0] if isinstance(given, tuple) else given
        logits: Tensor = self.unembed(self.norm(hidden))
        return logits


def some_tokens(rng: Rng, model: Decoder, case: Any, count: int) -> Tensor:
    """`count` tokens in each row, int64 [case.batch, count]; two rows if the case does not say."""
    rows = vars(case).get("batch", 2)
    return torch.tensor([[rng.integer(0, model.embed.num_embeddings - 1) for _ in range(count)] for _ in range(rows)])


def hooked(model: Transformer, hooks: str) -> CallersHooks:
    """The caller's hooks on each block and on the model; on what is inside of a block they only watch."""
    callers = CallersHooks(hooks)
    for index, block in enumerate(model.blocks):
        callers.on_module(block, f"block {index}")
    watching = CallersHooks("none" if hooks == "none" else "watching")
    for name, inner in model.named_modules():
        if name.endswith((".attention", ".mix")):
            watching.on_module(inner, name)
    callers.on_module(model, "the model")
    return callers
