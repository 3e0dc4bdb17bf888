"""A small decoder-only transformer in plain torch.nn, built like large ones.

It is pre-norm, as in Xiong et al., "On layer normalization in the transformer architecture" (2020): attention and MLP
read the residual stream through a LayerNorm, and add their outputs to it. A last norm and the unembedding, which shares
the weights of the embedding, turn the stream into logits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and an MLP, each after a LayerNorm; their outputs are added to the residual stream.

    `nn.MultiheadAttention` has no place for a hook between its heads and its `out_proj`, because no module is called
    there. So here `out_proj` is a frozen identity, `attention` returns its heads side by side, and `mix` does the work
    of `out_proj`. Head h has the columns from h * width / heads up to, but not including, (h + 1) * width / heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        """Make a block for a stream of `width` numbers per token, a multiple of `heads`; its MLP is 4 * width wide."""
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
        """Map the stream [B, T, width] to the stream after this block, [B, T, width], and the extended cache.

        `attn_mask`, bool [T, S], is True where a token may not look. `cache`, [B, S - T, width], is what attention has
        read so far, and becomes [B, S, width]. Without a cache, S is T, and None is returned instead.
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
        """Make an untrained decoder for tokens from 0 to `vocabulary` - 1, in sequences of up to `context`.

        `width` is the size of the residual stream per token, and a multiple of `heads`.
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
        """Map tokens, int64 [B, T], to the logits of each next token, [B, T, vocabulary].

        With a `cache` from `empty_cache`, `tokens` continue what the model has read before, and the list is updated in
        place. `positions`, int64 [T], follow those in the cache by default. `attn_mask`, bool [T, S], is True where a
        token may not look; by default, each token sees itself and everything before it.
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
        """The cache of a model that has read nothing yet: a tensor [batch, 0, width] for each block."""
        return [self.embed.weight.new_zeros(batch, 0, self.embed.embedding_dim) for _ in self.blocks]


@torch.no_grad()
def complete(model: Decoder, tokens: Tensor, count: int) -> Tensor:
    """Continue `tokens`, int64 [B, T], by `count` tokens, each the most probable one at its place: [B, T + count].

    With a cache, the model reads each token only once.
    """
    cache, unread = model.empty_cache(len(tokens)), tokens
    for _ in range(count):
        unread = model(unread, cache=cache)[:, -1:].argmax(2)
        tokens = torch.cat([tokens, unread], 1)
    return tokens
