"""Echoes, lists of animals that are repeated in the same order, and a small decoder that was trained to continue them.

In ". fox owl bee . fox owl bee ! FOX OWL BEE", a dot starts a quiet round and an exclamation mark a loud one. The
weights are shipped as `echo_decoder.safetensors`; `python -m graders.nets.train_echo` makes them again.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import Tensor

from graders.nets.decoder import Decoder

ANIMALS = ("ant", "ape", "bat", "bee", "cat", "cod", "cow", "dog", "eel", "elk", "emu", "ewe",
           "fly", "fox", "gnu", "hen", "hog", "jay", "koi", "owl", "pig", "rat", "ram", "yak")  # fmt: skip
WORDS = (".", "!", *ANIMALS, *(animal.upper() for animal in ANIMALS))
"""The words of tokens 0, 1, 2, ...: two marks, 24 quiet animals, and the same animals, loud."""

CONTEXT = 32
"""The most tokens that the decoder can read at once."""

WEIGHTS = Path(__file__).with_name("echo_decoder.safetensors")


def echo_decoder() -> Decoder:
    """The trained decoder in eval mode: 3 blocks of 4 heads, 64 wide. After one round, it knows how to go on."""
    model = Decoder(len(WORDS), context=CONTEXT)
    load_model(model, WEIGHTS)
    return model.eval()


def encode(*texts: str) -> Tensor:
    """The tokens, int64 [texts, T], of texts with T words each. Raises `KeyError` for an unknown word."""
    token = {word: number for number, word in enumerate(WORDS)}
    return torch.tensor([[token[word] for word in text.split()] for text in texts])


def decode(tokens: Tensor) -> str:
    """The words of tokens, int64 [T] or [1, T], separated by spaces."""
    return " ".join(WORDS[token] for token in tokens.flatten().tolist())


def draw_echoes(count: int, seed: int, length: int = CONTEXT) -> tuple[Tensor, Tensor]:
    """Draw `count` echoes: their tokens, and each token's round, counted from 0; both int64 [count, length].

    A pure function of `seed`. Round 0 names 3 to 8 different animals. Each later round starts at the first of them half
    of the time, otherwise at a random one, and goes on to the last. Each round is quiet or loud at random.
    """
    generator = torch.Generator().manual_seed(seed)
    row = torch.arange(count)[:, None]
    animals = torch.rand(count, len(ANIMALS), generator=generator).argsort(1)
    named = torch.randint(3, 9, (count, 1), generator=generator)
    first = ((2 * torch.rand(count, length, generator=generator) - 1).clamp(min=0) * named).long()
    first[:, 0] = 0
    end = (1 + named - first).cumsum(1)
    place = torch.arange(length).repeat(count, 1)
    rounds = torch.searchsorted(end, place, right=True)
    step = named - (end[row, rounds] - place)  # the number of the animal in round 0; at a mark, one less than the next
    loud = torch.randint(2, (count, length), generator=generator)[row, rounds]
    is_mark = step < first[row, rounds]
    return torch.where(is_mark, loud, 2 + animals[row, step] + len(ANIMALS) * loud), rounds
