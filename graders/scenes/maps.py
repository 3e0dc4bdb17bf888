"""Scenes for functions of feature maps: the output of a layer for one image, a tensor [C, H, W]."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.scenes.instruments.tensors import with_layout
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng


def call_with_maps(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm)`."""
    return call(fm)


def call_with_columns(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm, ncols, pad=1, fill=0.0)`."""
    _, columns, pad = SHEETS[case.grid]
    return call(fm, columns, pad, fill=case.fill)


def call_with_count(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm, k)`."""
    return call(fm, COUNTS[case.asked][1])


@family(
    sections=("{task}", "results of several calls are apart", "nothing of the caller changes"),
    axes={"layout": ("contiguous", "transposed", "slice")},
)
def makes_of_maps(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    draw: Callable[[Rng, Any], Tensor],
    ask: Callable[[Call, Any, Tensor], Any] = call_with_maps,
) -> None:
    """`draw` makes the maps, and `ask` calls the learner's function with them."""
    task, apart, same = seen.values()
    fm = with_layout(draw(rng, case), case.layout)
    fm.requires_grad_(vars(case).get("requires_grad", False))
    before = Witness(fm=fm)
    result = ask(call, case, fm)
    task["the result"] = copy_value(result)
    same["changed"] = before.changes()
    fm.data.neg_()
    apart["the result of a call when `fm` has changed"] = copy_value(ask(call, case, fm))
    apart["the first result, after that"] = copy_value(result)


def of_many_sizes(rng: Rng, case: Any) -> Tensor:
    """Maps with large, small and tiny values, and two constant ones."""
    scales = (1.0, 8.0, 0.25) if case.precision == "float16" else (1.0, 2.0**-28, 2.0**-90)
    maps = [rng.tensor(2, 4, dtype="float64", values="full") * scale for scale in scales]
    maps += [torch.zeros(2, 4), torch.full((2, 4), rng.uniform(1, 3))]
    return torch.stack(rng.shuffled(maps)).to(getattr(torch, case.precision))


SHEETS = {
    "last row not full": ((7, 2, 4), 3, 1),
    "last row full": ((6, 2, 3), 3, 3),
    "fewer channels": ((3, 4, 2), 5, 1),
    "one channel": ((1, 3, 2), 2, 1),
    "one column": ((4, 3, 2), 1, 3),
    "no gaps": ((70, 1, 2), 9, 0),
}
"""[C, H, W], `ncols` and `pad` of each sheet. Height and width always differ."""


def sheet_maps(rng: Rng, case: Any) -> Tensor:
    """Maps for a sheet, all different; 0 is one of the values."""
    fm = rng.tensor(*SHEETS[case.grid][0], values="full")
    fm[0, 0, 0] = 0.0
    return fm


COUNTS = {"one": (6, 1), "most": (14, 11), "all": (5, 5)}
"""The number of channels, and how many of them are asked for."""
STEPS = {"float32": 2.0**-12, "float64": 2.0**-32}
"""The distance between neighbouring means. Rounding to float32 would make those of float64 equal."""


def ranked_maps(rng: Rng, case: Any) -> Tensor:
    """Maps with different means, whose single pixels would rank them in another order."""
    count = COUNTS[case.asked][0]
    fm = rng.tensor(count, 3, 4, dtype="float64", low=-1, high=1, away=0.125, values="full")
    means = torch.tensor(rng.shuffled(range(count)), dtype=torch.float64) * STEPS[case.dtype] + 0.625
    fm += (means - fm.mean((1, 2)))[:, None, None]
    spike, *_, low = rng.shuffled([i for i in range(count) if i != int(means.argmax())])
    fm[spike] -= 1.75  # this map gets the largest pixel of all, while its mean stays the same
    fm[spike, rng.integer(0, 2), rng.integer(0, 3)] += 12
    fm[low] -= 2000  # this map gets the largest absolute values
    # 5 bright pixels of 12 make the largest mean, so neither the minimum nor the median shows it.
    fm[means.argmax()] += torch.tensor(rng.shuffled([3.5] * 5 + [-2.5] * 7)).reshape(3, 4)
    return fm.to(getattr(torch, case.dtype))
