"""Stories for functions of feature maps: the output of a layer for one image, a tensor [C, H, W]."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.scenes.story import Call, Draw, Seen, Value, told
from graders.scenes.watch import Watch

Maps = Callable[[Draw, Any], Tensor]
"""Makes the values of maps."""
Arguments = Callable[[Draw, Any], tuple[Any, ...]]
"""The arguments behind the maps."""
LAYOUT: dict[str, tuple[Value, ...]] = {"layout": ("contiguous", "transposed", "slice")}


@told
def some_maps(draw: Draw, case: Any, values: Maps) -> Any:
    """These values, in memory as they come, transposed, or with a gap behind each row."""
    if case.layout == "transposed":
        fm = transposed(draw, case, values).mT
    elif case.layout == "slice":
        fm = with_a_gap(draw, case, values)[:, :, 1:]
    else:
        fm = values(draw, case)
    return fm


def transposed(draw: Draw, case: Any, values: Maps) -> Tensor:
    """The values with rows and columns swapped."""
    return values(draw, case).mT.contiguous()


def with_a_gap(draw: Draw, case: Any, values: Maps) -> Tensor:
    """The values behind a column that belongs to something else."""
    t = values(draw, case)
    return torch.cat([torch.ones_like(t[:, :, :1]), t], 2)


def made(call: Call, draw: Draw, case: Any, values: Maps, arguments: Arguments) -> Seen:
    """The result is right."""
    fm = some_maps(draw, case, values)
    if getattr(case, "requires_grad", False):
        fm.requires_grad_()
    found = call(fm, *arguments(draw, case))
    yield "the result", found


def made_again(call: Call, draw: Draw, case: Any, values: Maps, arguments: Arguments) -> Seen:
    """When the maps change, so does the next result, and no earlier one."""
    fm = some_maps(draw, case, values)
    found = call(fm, *arguments(draw, case))
    fm.neg_()
    yield "the result when `fm` has changed", call(fm, *arguments(draw, case))
    yield "the first result, after that", found


def left_alone(call: Call, draw: Draw, case: Any, values: Maps, arguments: Arguments) -> Seen:
    """Nothing of the caller changes."""
    fm = some_maps(draw, case, values)
    if getattr(case, "requires_grad", False):
        fm.requires_grad_()
    before = Watch(fm=fm)
    found = call(fm, *arguments(draw, case))
    yield "by the call", before.differences()
    yield "the result of that call", found


def nothing_more(draw: Draw, case: Any) -> tuple[()]:
    """No other arguments."""
    return ()


# For `function(fm)`, which scales each channel.

SCALED = {
    "dtype": ("float32", "float64", "bfloat16", "float16"),
    "size": ("several channels", "one channel", "one row", "one column"),
    "requires_grad": (False, True),
    **LAYOUT,
}
SIZES = {"several channels": (4, 2, 3), "one channel": (1, 2, 3), "one row": (3, 1, 4), "one column": (3, 4, 1)}


def of_many_sizes(draw: Draw, case: Any) -> Tensor:
    """Maps with large and tiny values. The first has the maximum 0; of four, and of single columns, one is constant."""
    fm = draw.tensor(*SIZES[case.size])
    scales = (8.0, 1.0, 0.25) if case.dtype == "float16" else (1.0, 1e-8, 1e-30)
    for channel, scale in zip(fm, draw.shuffled(scales)):
        channel *= scale
    fm[0] -= fm[0].max()
    for channel in fm[3:]:
        channel[:] = draw.choice([0.0, 1.5])
    if case.size == "one column":
        fm[draw.choice((1, 2))] = draw.choice([0.0, 1.5])
    return fm


# For `function(fm, ncols, pad=1, fill=0.0)`, which puts the channels on one sheet.

SHEETS = {
    "last row not full": ((3, 2, 3), 2, 1),
    "last row full": ((6, 2, 1), 3, 3),
    "fewer channels": ((3, 1, 2), 5, 2),
    "one channel": ((1, 3, 2), 2, 1),
    "one column": ((4, 2, 1), 1, 0),
    "no gaps": ((7, 1, 2), 3, 0),
    "many": ((14, 1, 2), 4, 1),
}
"""[C, H, W], `ncols` and `pad` of each sheet. Height and width always differ."""
SHEET = {"dtype": ("float32",), "sheet": tuple(SHEETS), "fill": ("a number", "nan", "inf", "0"), **LAYOUT}


def sheet_maps(draw: Draw, case: Any) -> Tensor:
    """Maps for a sheet; 0 is one of the values."""
    fm = draw.tensor(*SHEETS[case.sheet][0])
    fm[0, 0, 0] = 0.0
    return fm


def a_sheet(draw: Draw, case: Any) -> tuple[int, int, float]:
    """`ncols`, `pad` and `fill`."""
    _, columns, pad = SHEETS[case.sheet]
    return columns, pad, draw.number(-3, 3) if case.fill == "a number" else float(case.fill)


# For `function(fm, k)`, which ranks the channels.

COUNTS = {"one": (4, 1), "most": (5, 4), "all": (3, 3)}
"""The number of channels, and how many of them are asked for."""
RANKED = {"dtype": ("float32", "float64"), "asked": tuple(COUNTS), **LAYOUT}


def ranked_maps(draw: Draw, case: Any) -> Tensor:
    """Maps with different means, whose single pixels would rank them in another order."""
    count = COUNTS[case.asked][0]
    fm = draw.tensor(count, 2, 3, low=0.3, high=0.7)
    best, spike, *others = draw.shuffled(list(fm.flatten(1)))
    best -= 2  # neither the minimum nor the median shows that this is the largest mean
    best[:2] += 6
    spike -= 1.8
    spike[draw.choice(range(5))] = 9.2  # the largest pixel, and the largest mean of what is above 0
    others[-1] -= 20  # the largest absolute values
    step = 0.1 if case.dtype == "float32" else 1e-9  # float32 could not tell those means apart
    for rank, channel in enumerate([best, spike, *others]):
        channel[-1] += (3 if rank + 1 < count else -120) - rank * step - channel.sum()
    return fm.round(decimals=1 if case.dtype == "float32" else 9)


def how_many(draw: Draw, case: Any) -> tuple[int]:
    """`k`."""
    return (COUNTS[case.asked][1],)
