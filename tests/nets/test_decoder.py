"""The decoder: what its blocks return, its cache, its masks, and the places where hooks get at it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graders.nets.decoder import Block, Decoder, complete


@pytest.fixture
def model() -> Decoder:
    torch.manual_seed(0)
    return Decoder(11, width=24, heads=3, blocks=2, context=9).eval()


@pytest.fixture
def tokens() -> Tensor:
    return torch.tensor([[1, 2, 3, 4, 5, 6], [9, 0, 9, 0, 9, 0]])


def test_sizes_are_the_caller_s(model: Decoder, tokens: Tensor) -> None:
    assert model(tokens).shape == (2, 6, 11)
    assert len(model.blocks) == 2
    assert model(torch.zeros(1, 9, dtype=torch.long)).shape == (1, 9, 11)
    with pytest.raises(IndexError):
        model(torch.zeros(1, 10, dtype=torch.long))


def test_a_block_returns_the_stream_and_a_cache_that_may_be_none(model: Decoder) -> None:
    block, hidden = model.blocks[0], torch.randn(2, 4, 24)
    stream, nothing = block(hidden)
    assert (stream.shape, nothing) == ((2, 4, 24), None)
    stream, seen = block(hidden, cache=torch.randn(2, 3, 24))
    assert (stream.shape, seen.shape) == ((2, 4, 24), (2, 7, 24))


def test_blocks_get_the_stream_alone_as_a_positional_argument(model: Decoder, tokens: Tensor) -> None:
    calls: list[tuple[int, list[str]]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((len(args), sorted(kwargs)))

    for block in model.blocks:
        block.register_forward_pre_hook(note, with_kwargs=True)
    model(tokens)
    assert calls == [(1, ["attn_mask", "cache"])] * 2


def test_the_blocks_add_to_the_stream(model: Decoder, tokens: Tensor) -> None:
    hidden = model.embed(tokens) + model.position(torch.arange(6))
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    for block in model.blocks:
        assert isinstance(block, Block)
        normed = block.norm1(hidden)
        hidden = hidden + block.mix(block.attention(normed, normed, normed, attn_mask=mask)[0])
        hidden = hidden + block.mlp(block.norm2(hidden))
    torch.testing.assert_close(model(tokens), model.norm(hidden) @ model.embed.weight.T)


def test_no_token_sees_a_later_one(model: Decoder, tokens: Tensor) -> None:
    changed = tokens.clone()
    changed[:, 4] = 7
    same = (model(tokens) - model(changed)).abs().amax((0, 2)) < 1e-6
    assert same.tolist() == [True] * 4 + [False] * 2


def test_positions_and_masks_can_be_given(model: Decoder, tokens: Tensor) -> None:
    assert not torch.allclose(model(tokens), model(tokens, positions=torch.arange(3, 9)))
    changed = tokens.clone()
    changed[:, 4] = 7
    everything = torch.zeros(6, 6, dtype=torch.bool)
    assert not torch.allclose(model(tokens, attn_mask=everything)[:, 0], model(changed, attn_mask=everything)[:, 0])


def test_with_a_cache_tokens_are_read_once(model: Decoder, tokens: Tensor) -> None:
    cache = model.empty_cache(2)
    parts = [model(part, cache=cache) for part in tokens.split([3, 1, 2], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens))
    assert [kept.shape for kept in cache] == [(2, 6, 24)] * 2


def test_a_completion_is_the_same_without_a_cache(model: Decoder, tokens: Tensor) -> None:
    expected = tokens
    for _ in range(3):
        expected = torch.cat([expected, model(expected)[:, -1:].argmax(2)], 1)
    assert torch.equal(complete(model, tokens, 3), expected)


def test_attention_weights_are_there_for_those_who_ask(model: Decoder, tokens: Tensor) -> None:
    kept: list[Any] = []

    def ask(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False}

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        kept.append(output[1])

    block = model.blocks[1]
    assert isinstance(block, Block)
    expected = model(tokens)
    block.attention.register_forward_hook(keep)
    model(tokens)
    block.attention.register_forward_pre_hook(ask, with_kwargs=True)
    torch.testing.assert_close(model(tokens), expected)
    assert kept[0] is None
    assert kept[1].shape == (2, 3, 6, 6)
    torch.testing.assert_close(kept[1].sum(3), torch.ones(2, 3, 6))
    assert not kept[1].triu(1).any()


def test_heads_lie_side_by_side_where_mix_reads_them(model: Decoder, tokens: Tensor) -> None:
    read: list[Tensor] = []
    block = model.blocks[0]
    assert isinstance(block, Block)
    block.mix.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    expected = model(tokens)
    with torch.no_grad():
        block.attention.in_proj_weight[2 * 24 + 8 : 2 * 24 + 16] = 0  # the values of head 1
    assert not torch.allclose(model(tokens), expected)
    assert not read[1][..., 8:16].any()
    torch.testing.assert_close(read[1][..., [*range(8), *range(16, 24)]], read[0][..., [*range(8), *range(16, 24)]])


def test_all_but_the_identity_learns(model: Decoder, tokens: Tensor) -> None:
    model(tokens).sum().backward()
    still = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert still == ["blocks.0.attention.out_proj.weight", "blocks.1.attention.out_proj.weight"]
    assert torch.equal(model.get_parameter(still[0]), torch.eye(24))
