"""A small decoder-only transformer in plain torch.nn, built as large ones are.

Each block reads the residual stream through a LayerNorm and adds to it what its attention and its MLP find: pre-norm,
as in Xiong et al., "On layer normalization in the transformer architecture" (2020). A last norm and the unembedding,
which has the weights of the embedding, turn the stream into logits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and an MLP, each behind a LayerNorm; what they find is added to the residual stream.

    Between the heads and the `out_proj` of `nn.MultiheadAttention` there is no place for a hook: no module is called
    there. So here `out_proj` is the identity and stays it, `attention` returns its heads side by side, and `mix` does
    the work of `out_proj`. Head h is in the columns from h * width / heads up to (h + 1) * width / heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        """A block for a stream of `width` numbers per token, a multiple of `heads`; its MLP is 4 * width wide."""
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        nn.init.eye_(self.attention.out_proj.weight).requires_grad_(False)
        self.mix = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(
        self, hidden: Tensor, *, attn_mask: Tensor | None = None, cache: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The stream [B, T, width] to the stream behind this block, [B, T, width], and the longer cache.

        `attn_mask`, bool [T, S], is True where a token may not look. `cache`, [B, S - T, width], is what attention has
        read so far; without one, S is T, and None takes the place of the longer cache, [B, S, width].
        """
        normed = self.norm1(hidden)
        seen = normed if cache is None else torch.cat([cache, normed], 1)
        heads, _ = self.attention(normed, seen, seen, attn_mask=attn_mask, need_weights=False)
        hidden = hidden + self.mix(heads)
        hidden = hidden + self.mlp(self.norm2(hidden))
        return hidden, None if cache is None else seen


class Decoder(nn.Module):
    """Embeddings of tokens and positions, blocks, a last norm, and the unembedding."""

    def __init__(self, vocabulary: int, *, width: int = 64, heads: int = 4, blocks: int = 3, context: int = 32) -> None:
        """An untrained decoder for tokens below `vocabulary`, and for up to `context` of them in a row.

        `width` is the number of numbers that a token has in the residual stream, a multiple of `heads`.
        """
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.unembed = nn.Linear(width, vocabulary, bias=False)
        self.unembed.weight = self.embed.weight
        for embedding in (self.embed, self.position):
            nn.init.normal_(embedding.weight, std=0.3)

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: list[Tensor] | None = None,
    ) -> Tensor:
        """Tokens, int64 [B, T], to the logits of each next token, [B, T, vocabulary].

        `positions`, int64 [T], are by default those that follow the cache. By default, `attn_mask`, bool [T, S], lets
        each token look at itself and at what came before it. With a `cache`, made by `empty_cache`, `tokens` continue
        what the model has read before; the list is brought up to date in place.
        """
        count, past = tokens.shape[1], cache[0].shape[1] if cache else 0
        if positions is None:
            positions = torch.arange(past, past + count, device=tokens.device)
        if attn_mask is None:
            attn_mask = torch.ones(count, past + count, dtype=torch.bool, device=tokens.device).triu(past + 1)
        hidden = self.embed(tokens) + self.position(positions)
        for index, block in enumerate(self.blocks):
            hidden, seen = block(hidden, attn_mask=attn_mask, cache=cache[index] if cache else None)
            if cache:
                cache[index] = seen
        logits: Tensor = self.unembed(self.norm(hidden))
        return logits

    def empty_cache(self, batch: int = 1) -> list[Tensor]:
        """The cache of a model that has read nothing yet: one tensor [batch, 0, width] per block."""
        return [self.embed.weight.new_zeros(batch, 0, self.embed.embedding_dim) for _ in self.blocks]


@torch.no_grad()
def complete(model: Decoder, tokens: Tensor, count: int) -> Tensor:
    """`tokens`, int64 [B, T], and the `count` most probable ones after them, chosen one by one: [B, T + count].

    The model reads each token once, and keeps a cache.
    """
    cache, unread = model.empty_cache(len(tokens)), tokens
    for _ in range(count):
        unread = model(unread, cache=cache)[:, -1:].argmax(2)
        tokens = torch.cat([tokens, unread], 1)
    return tokens
