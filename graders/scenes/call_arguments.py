"""Draws the other arguments of functions that change the calls of a module, and the arguments of such calls."""

from dataclasses import dataclass, field
from typing import Any

import torch

from graders.wire.draws import Rng, beyond_float32

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


@dataclass
class GivenArguments:
    """The arguments of the learner's function besides a module, and a list in which a hook may log its calls."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


def a_factor(rng: Rng, case: Any) -> GivenArguments:
    """A factor, never 1. Unless it is whole, float32 cannot hold it, so that a detour through float32 shows."""
    if case.number == "whole":
        return GivenArguments((rng.choice((-3, -2, 2, 3, 4)),))
    return GivenArguments((beyond_float32(rng.number(case.number) * 9 / 7),))


def mean_and_deviation(rng: Rng, case: Any) -> GivenArguments:
    """Two numbers that float32 cannot hold. The first may also be 0 or negative."""
    deviation = rng.choice((0.75, 1.5, 2.0, 2.5)) * 8 / 7 * (-1 if case.number == "negative" else 1)
    return GivenArguments((beyond_float32(rng.number(case.number) * 9 / 7), beyond_float32(deviation)))


def a_hook(rng: Rng, case: Any) -> GivenArguments:
    """A forward hook that multiplies and adds, and logs its arguments. If the number is 0 it returns None."""
    factor, shift = rng.choice((-3.0, -2.0, 2.0, 3.0)), rng.uniform(1, 3)
    given = GivenArguments()

    def hook(module: Any, args: Any, output: Any) -> Any:
        itself = "the output itself" if output is getattr(module, "returned", None) else "another object"
        given.log.append(f"a {type(module).__name__}, a {type(args).__name__} of {len(args)}, {itself}")
        return None if case.number == "zero" else output * factor + shift

    given.args = (hook,)
    return given


def some_keywords(rng: Rng, case: Any) -> GivenArguments:
    """Many keywords of different kinds, one, or none; some values are falsy, and names may be any string."""
    values: dict[str, list[Any]] = {
        "tensors": [rng.tensor(dtype=case.dtype), rng.tensor(dtype=case.dtype), 0],
        "nothing": [None, 0.0, False, ""],
        "containers": [[1, rng.tensor()], {"key": rng.uniform(1, 2)}, torch.relu],
        "a number": [rng.choice((rng.uniform(2, 5), 0, -rng.uniform(1, 3)))],
        "none": [],
    }
    names = ["kwargs"] if case.given == "a number" else rng.shuffled(["kwargs", "args", *rng.names(2)])
    return GivenArguments((), dict(zip(names, rng.shuffled(values[case.given]))))


def as_usual(usual: Arguments, given: GivenArguments, beside: Any) -> dict[str, Arguments]:
    """Only the usual call."""
    return {"": usual}


def beside_many(usual: Arguments, given: GivenArguments, beside: Any) -> dict[str, Arguments]:
    """The usual call, and one with arguments of many kinds, in which the first one occurs again."""
    (first, *rest), options = usual
    return {
        "": usual,
        " in a call with many arguments": (
            (first, None, *rest, "a text", [1], beside.half(), first),
            {**options, "nothing": None, "flag": False, "rows": [1]},
        ),
    }


def with_the_same_keywords(usual: Arguments, given: GivenArguments, beside: Any) -> dict[str, Arguments]:
    """The usual call, one with keywords of the given names, one without keywords, and one with the input by keyword."""
    args, options = usual
    return {
        "": usual,
        " in a call with the same keywords": (args, {**options, **dict.fromkeys(given.kwargs, beside)}),
        " in a call without keywords": (args, {}),
        " in a call by keyword alone": ((), {**options, "input": args[0]}),
    }
