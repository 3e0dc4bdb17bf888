"""Whether the numbers that checks compare are as certain as draws promise: a right answer is not refused by rounding.

Each check runs on what a right answer was seen to do, with the draw in float32, in float64, and with other last digits
(`graders.core.conditioning`), and instead of comparing, writes down what it expects. An expected number that moves by
more than a tenth of its tolerance is one that the `oracle` of the exercise leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from graders.core.conditioning import SHARE, cast, disturbed, share_used
from graders.core.exercise import Check, Draw, Exercise, call_by_name
from graders.core.expect import TOLERANCE, Comparison, Mismatch, Seen, written_down
from graders.run.transcript import Outcome
from graders.wire.threads import one_thread


def uncertain(exercise: Exercise, draws: Sequence[Draw], outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Each comparison on these draws, of a right answer, whose expected number depends on rounding."""
    with one_thread():
        for index, (draw, outcome) in enumerate(zip(draws, outcomes)):
            for check in exercise.checks:
                if outcome.seen is not None:
                    for path, share in _moved(check, draw, outcome.seen):
                        yield (
                            f"case {index}: what is expected of {path!r} moves by {share:.2g} of its tolerance when "
                            f"the draw is rounded otherwise, more than {SHARE}; name it in `oracle`"
                        )


def _moved(check: Check, draw: Draw, seen: Seen) -> Iterator[tuple[str, float]]:
    """The paths of comparisons whose expected numbers move too far, and how far."""
    drawn, fine, rough = (_compared(check, draw, seen, to) for to in (torch.clone, torch.Tensor.double, disturbed))
    for here, *others in zip(drawn, fine, rough):
        if limits := _limits(here):
            as_drawn, exact, moved = (torch.as_tensor(one.expected).detach().double() for one in (here, *others))
            alike = all(one.path == here.path for one in others) and as_drawn.shape == exact.shape == moved.shape
            share = max(share_used(other, exact, *limits) for other in (as_drawn, moved)) if alike else math.inf
            if share > SHARE:
                yield here.path, share


def _compared(check: Check, draw: Draw, seen: Seen, to: Callable[[Tensor], Tensor]) -> list[Comparison]:
    """What the check compares, in order, for a draw whose floating tensors are `to` of what they were.

    A condition that is no comparison of numbers may fail where the dtype or a last digit is another: there it ends.
    """
    with written_down() as comparisons, suppress(Mismatch):
        call_by_name(check.run, cast(draw, to), seen)
    return comparisons


def _limits(comparison: Comparison) -> tuple[float, float] | None:
    """(rtol, atol) of a comparison as closely as float32 allows; None for one that is closer, and so of float64."""
    expected, default = comparison.expected, TOLERANCE[torch.float32]
    if isinstance(expected, Tensor) and expected.dtype != torch.float32:
        return None
    rtol, atol = (limit if own is None else own for own, limit in zip((comparison.rtol, comparison.atol), default))
    return (rtol, atol) if max(rtol, atol) > 1e-8 else None
