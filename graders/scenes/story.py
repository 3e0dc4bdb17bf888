"""Stories: short functions that do what a caller of the learner's function would do, and yield what shows.

    def scaled(call, draw, case, arguments):
        '''The gradient of a pass is scaled.'''
        w = draw.tensor().requires_grad_()
        call(w, *arguments(draw, case))
        (3 * w).sum().backward()
        yield "w.grad", w.grad

    stories(promises={"the gradient is scaled": scaled}, axes={"dtype": ("float32", "float64")}, arguments=a_number)

A story runs in the box with the learner's function as `call`, and outside with the reference (`graders.scenes.scene`).
When something differs, the lines of the same story are printed as a program that a learner can run:
`graders.verdict.telling` says what a story may contain for that.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from graders.wire.draws import Rng

Value = str | int | bool | float | None
Call = Callable[..., Any]
"""The learner's function."""
Seen = Iterator[tuple[str, Any]]
"""What a story yields: the name of each observation, and its value."""
Story = Callable[..., Seen]
Change = Callable[[torch.Tensor], torch.Tensor]


class Draw:
    """Draws what a story needs. Its numbers are short, so that a printed program can be read."""

    def __init__(self, seed: int, case: Any, to: Change | None = None) -> None:
        """Two with equal arguments draw equal values. `to` is applied to each float32 tensor."""
        self._rng, self._case, self._to = Rng("story", seed), case, to
        self._shape: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all tensors of this story, with `case.rank` dimensions.

        Their sizes are all different, or with `case.sizes == "equal"` all equal.
        """
        if self._shape is None:
            rank = self._case.rank
            if getattr(self._case, "sizes", "different") == "equal":
                self._shape = (3, 3)[:rank] if rank < 3 else (2,) * rank
            else:
                self._shape = tuple(self._rng.shuffled((2, 3, 1)[: max(2, rank)])[:rank])
        return self._shape

    @property
    def is_double(self) -> bool:
        """Whether the tensors of this story are float64, so that its models have to be, too."""
        return self._case.dtype == "float64" or self._to is not None

    def tensor(self, *shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
        """A tensor of the shape of this story, or of `shape`, in the dtype of the case."""
        shape = shape or self.shape
        numbers = [self.number(low, high) for _ in range(torch.Size(shape).numel())]
        t = torch.tensor(numbers, dtype=torch.float64).reshape(shape)
        dtype: torch.dtype = getattr(torch, self._case.dtype)
        if self._to is not None and dtype == torch.float64:  # of what was float32 in the case
            return self._to(t.float())
        return t.to(dtype).clone()

    def number(self, low: float, high: float, away: float = 0.25) -> float:
        """A number with one decimal that float32 cannot hold, and that is not closer to 0 than `away`."""
        while True:
            tenths = self._rng.integer(round(low * 10), round(high * 10))
            if tenths % 5 and abs(tenths) >= away * 10:
                return tenths / 10

    def choice(self, options: Sequence[Any]) -> Any:
        """One of these."""
        return self._rng.choice(options)

    def error(self, kind: str) -> BaseException:
        """An exception of a built-in kind, such as "KeyError"."""
        error: BaseException = getattr(builtins, kind)("on purpose")
        return error

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        """The same items in a random order."""
        return self._rng.shuffled(items)


def told(helper: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a helper of stories whose lines are printed in place of its call, as if they stood in the story."""
    helper.is_told = True  # type: ignore[attr-defined]
    return helper
