"""True observations of right and wrong answers, and observations that somebody forged from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from graders.author.answers import Answer
from graders.core.exercise import Exercise, Inputs
from graders.sandbox.inside.kernel import run_probe
from graders.sandbox.outside.conversation import probes_for
from graders.wire.data import DTYPES, MAX_DEPTH, Array, Refused, decode
from graders.wire.frames import Frame


def observed(exercise: Exercise, answer: Answer, draws: Sequence[Inputs], seed: int) -> list[Any]:
    """What the probe of an exercise sees of an answer, decoded: a value for each draw that came to its end."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(answer.source, f"<{exercise.key}>", "exec"), namespace)
    seen = []
    for probe in probes_for([exercise], {exercise.key: list(draws)}, seed):
        found = run_probe(namespace, Frame({"draw": probe.tree, "source": probe.source, "seed": seed}, probe.body))
        if found.head["type"] == "seen":
            seen.append(decode(found.head["tree"], found.body))
    return seen


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def odd_tensors(rng: random.Random) -> Array:
    shape = rng.choice([[], [0], [1], [3], [2, 0], [0, 3], [1000, 0], [2, 3], [1, 1, 1, 1, 1, 1, 1, 1], [5, 5]])
    tensor = torch.full(shape, rng.choice([0, 1, 3]), dtype=rng.choice(list(DTYPES.values())))
    if tensor.is_floating_point() and rng.random() < 0.5:
        tensor.fill_(rng.choice([float("nan"), float("inf"), -float("inf"), 6e4]))
    return Array(tensor, rng.random() < 0.3, rng.choice(["tensor", "tensor", "array"]))


ODD: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: None,
    lambda rng: rng.random() < 0.5,
    lambda rng: rng.choice([0, 1, -1, 7, 2**62, -(2**63)]),
    lambda rng: rng.choice([0.5, -1e300, float("nan"), float("inf")]),
    lambda rng: rng.choice(["", "a", "hook", ": expected 1, saw 2; " * 40, "\x1b[2J", "x" * 4000]),
    lambda rng: [],
    lambda rng: (),
    lambda rng: {},
    lambda rng: [None, 1, "a", 2.5],
    lambda rng: (1, "b"),
    lambda rng: {1: "a", None: 2, "b": [], float("nan"): 0, False: ()},
    lambda rng: {"<list>": 1, "name": "a"},
    lambda rng: deep(MAX_DEPTH - 2),
    lambda rng: [["a"] * 3, 4, ("a", 1)],
    lambda rng: Refused("Tensor", "its dtype is torch.complex64"),
    odd_tensors,
    odd_tensors,
)  # fmt: skip


def anything_odd(rng: random.Random) -> Any:
    return rng.choice(ODD)(rng)


def forged(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """`value` with one part replaced, left out, repeated, reordered or turned into something else."""
    inside = type(value) in (list, tuple, dict) and len(value) > 0
    if inside and (depth == 0 or rng.random() < 0.75):
        if type(value) is dict:
            return _forged_dict(value, rng, depth)
        items = list(value)
        at = rng.randrange(len(items))
        match rng.randrange(8):
            case 0:
                del items[at]
            case 1:
                items.insert(at, items[at])
            case 2:
                items.reverse()
            case 3:
                return tuple(items) if type(value) is list else items
            case _:
                items[at] = forged(items[at], rng, depth + 1)
        return items if type(value) is list else tuple(items)
    if type(value) is Array and rng.random() < 0.6:
        return _forged_array(value, rng)
    return anything_odd(rng)


def _forged_dict(value: dict[Any, Any], rng: random.Random, depth: int) -> dict[Any, Any]:
    pairs = list(value.items())
    at = rng.randrange(len(pairs))
    match rng.randrange(8):
        case 0:
            del pairs[at]
        case 1:
            pairs.append((rng.choice([1, None, 2.5, True, "other"]), pairs[at][1]))
        case 2:
            pairs.reverse()
        case 3:
            pairs[at] = (rng.choice([1, None, 2.5, True, "other"]), pairs[at][1])
        case _:
            pairs[at] = (pairs[at][0], forged(pairs[at][1], rng, depth + 1))
    return dict(pairs)


def _forged_array(value: Array, rng: random.Random) -> Array:
    tensor = value.tensor.clone()
    match rng.randrange(6):
        case 0:
            tensor = tensor.reshape(-1)
        case 1:
            tensor = tensor.unsqueeze(0)
        case 2:
            tensor = tensor.to(rng.choice(list(DTYPES.values())))
        case 3:
            tensor = tensor.reshape(-1)[: tensor.numel() // 2]
        case 4 if tensor.numel():
            tensor.reshape(-1)[rng.randrange(tensor.numel())] = rng.choice([0, 1, 100])
        case _:
            return Array(tensor, not value.requires_grad, value.kind)
    return Array(tensor, value.requires_grad, value.kind)


def forgeries(values: Sequence[Any], count: int, rng: random.Random) -> Iterator[Any]:
    """`count` observations made of true ones, some of them changed at several places, and some of nothing else."""
    for _ in range(count):
        value = rng.choice(values) if values and rng.random() < 0.95 else anything_odd(rng)
        for _ in range(rng.choice([1, 1, 2, 4])):
            value = forged(value, rng)
        yield value


def part_by_part(value: Any, odd: Sequence[Callable[[random.Random], Any]], rng: random.Random) -> Iterator[Any]:
    """A dict without each of its entries, and with each odd thing in the place of each: one change at a time."""
    if type(value) is dict:
        for key in value:
            yield {name: value[name] for name in value if name != key}
            for thing in odd:
                yield {**value, key: thing(rng)}
