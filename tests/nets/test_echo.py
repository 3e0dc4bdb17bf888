"""Echoes and the decoder that was trained on them. What lesson 14 shows of it, its own asserts check."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graders.nets import train_echo
from graders.nets.decoder import Decoder, complete
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
