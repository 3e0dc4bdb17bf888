"""Echoes and the decoder that was trained on them: what lesson 14 shows of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graders.nets import train_echo
from graders.nets.decoder import Block, Decoder, complete
from graders.nets.echo import CONTEXT, WEIGHTS, WORDS, decode, draw_echoes, echo_decoder, encode

TEXT = ". fox owl bee cow yak . fox owl bee"


def probability(logits: Tensor, word: str = "cow") -> float:
    return logits[0, -1].softmax(0)[WORDS.index(word)].item()


def test_texts_become_tokens_and_texts_again() -> None:
    assert encode(". ant ! ANT").tolist() == [[0, 2, 1, 26]]
    assert encode(". fox", "! FOX").shape == (2, 2)
    assert decode(encode(TEXT)) == decode(encode(TEXT)[0]) == TEXT
    with pytest.raises(KeyError, match="unicorn"):
        encode(". unicorn")


def test_echoes_are_a_pure_function_of_the_seed() -> None:
    first, second, other = draw_echoes(8, 1), draw_echoes(8, 1), draw_echoes(8, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    assert not torch.equal(first[0], other[0])


def test_later_rounds_are_ends_of_the_first() -> None:
    tokens, numbers = draw_echoes(200, 3)
    assert (tokens.shape, numbers.shape, tokens.dtype) == ((200, CONTEXT), (200, CONTEXT), torch.int64)
    whole = []
    for row, number in zip(tokens, numbers):
        rounds = [decode(row[number == k]).split() for k in range(int(number.max()) + 1)]
        assert all(mark == "!" if animals[0].isupper() else mark == "." for mark, *animals in rounds if animals)
        first, *later = [[animal.lower() for animal in animals] for _, *animals in rounds]
        assert 3 <= len(set(first)) == len(first) <= 8
        assert all(animals == first[-len(animals) :] for animals in later[:-1])  # the last one may be cut off
        whole += [animals == first for animals in later[:-1]]
    assert 0.5 < sum(whole) / len(whole) < 0.7


def test_the_shipped_decoder_is_small_and_accurate() -> None:
    assert WEIGHTS.stat().st_size < 1_000_000
    assert train_echo.held_out_accuracy(echo_decoder()) > 0.99


def test_it_goes_on_from_wherever_a_round_begins() -> None:
    model = echo_decoder()
    assert not model.training
    assert decode(complete(model, encode(TEXT), 2)) == TEXT + " cow yak"
    assert decode(complete(model, encode(". fox owl bee cow yak ! BEE"), 2)) == ". fox owl bee cow yak ! BEE COW YAK"
    assert probability(model(encode(TEXT))) > 0.95


def test_a_head_of_block_1_looks_at_what_came_next_the_last_time() -> None:
    model = echo_decoder()
    block = model.blocks[1]
    assert isinstance(block, Block)
    normed: list[Tensor] = []
    block.norm1.register_forward_hook(lambda module, args, output: normed.append(output))
    with torch.no_grad():
        model(encode(". fox owl bee cow yak ! FOX OWL BEE COW"))
        mask = torch.ones(11, 11, dtype=torch.bool).triu(1)
        _, pattern = block.attention(*normed * 3, attn_mask=mask, average_attn_weights=False)
    stripe = [float(pattern[0, 3, place, place - 5]) for place in range(7, 11)]
    assert min(stripe) > 0.9


def test_two_heads_carry_the_answer() -> None:
    model, missing = echo_decoder(), {}
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        for head in range(4):

            def silence(module: nn.Module, args: tuple[Tensor], head: int = head) -> tuple[Tensor]:
                heads = args[0].clone()
                heads[..., 16 * head : 16 * head + 16] = 0
                return (heads,)

            with block.mix.register_forward_pre_hook(silence):
                missing[layer, head] = probability(model(encode(TEXT)))
    assert [place for place, answer in missing.items() if answer < 0.2] == [(0, 1), (1, 3)]
    assert sum(answer > 0.8 for answer in missing.values()) == 10


def test_the_answer_moves_from_the_first_round_to_the_last_token() -> None:
    model = echo_decoder()
    clean, corrupt = encode(TEXT), encode(". fox owl rat cow yak . fox owl bee")
    rows = []
    for block in model.blocks:
        kept: list[Tensor] = []
        with block.register_forward_hook(lambda module, args, output, kept=kept: kept.append(output[0])):
            model(clean)
        effects = []
        for place in range(clean.shape[1]):

            def patch(module: nn.Module, args: Any, output: Any, kept: list[Tensor] = kept, place: int = place) -> Any:
                hidden = output[0].clone()
                hidden[:, place] = kept[0][:, place]
                return hidden, *output[1:]

            with block.register_forward_hook(patch):
                effects.append(probability(model(corrupt)))
        rows.append([place for place, answer in enumerate(effects) if answer > 0.1])
        assert all(answer > 0.9 or answer < 0.01 for answer in effects)
    assert rows == [[4], [9], [9]]  # the first "cow", then the last "bee"


def test_a_direction_makes_it_loud() -> None:
    model = echo_decoder()
    kept: list[Tensor] = []
    with model.blocks[1].register_forward_hook(lambda module, args, output: kept.append(output[0])), torch.no_grad():
        model(encode("! FOX OWL BEE COW YAK ! FOX OWL BEE COW YAK", ". fox owl bee cow yak . fox owl bee cow yak"))
    direction = (kept[0][0] - kept[0][1]).mean(0)
    with model.blocks[1].register_forward_hook(lambda module, args, output: (output[0] + direction, *output[1:])):
        assert decode(complete(model, encode(TEXT), 8)) == TEXT + " COW YAK . FOX OWL BEE COW YAK"


@pytest.mark.slow  # authors alone train this decoder; learners get its weights
def test_training_learns() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        model = Decoder(len(WORDS), context=CONTEXT)
        train_echo.fit_decoder(model, 200, 3e-3, 0.01, seed=1)
        assert train_echo.held_out_accuracy(model, 100) > 0.15  # by chance, 1 of 24 animals
    finally:
        torch.set_num_threads(threads)
