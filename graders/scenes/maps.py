"""Scenes for functions of maps: of what the channels of a layer put out for one image, a tensor [C, H, W]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graders.box.tensors import laid_out, prepared
from graders.box.witness import Witness
from graders.scenes.captures import copied
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng

Call = Callable[..., Any]


def of_maps(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm)`."""
    return call(fm)


def on_a_sheet(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm, ncols, pad=1, fill=0.0)`."""
    columns, fill = SHEETS[case.grid][1], FILLS[case.filling]
    if case.written == "keywords":
        return call(fm, columns, fill=fill, pad=case.pad)
    return call(fm, columns, case.pad, fill)


def a_few(call: Call, case: Any, fm: Tensor) -> Any:
    """For `function(fm, k)`."""
    return call(fm, COUNTS[case.asked][1])


@family(
    sections=("{task}", "{special}", "results of several calls are apart", "nothing of the caller changes"),
    axes={"layout": ("contiguous", "transposed", "slice"), "values": ("full", "round")},
    pairs=[("dtype", "means")],
    impossible=(
        # So far below 0, float32 has no room for narrow steps.
        lambda signs, means: signs == "negative" and means == "narrow",
        # A single row or column looks the same in each layout.
        lambda layout, form: layout != "contiguous" and form != "area",
        lambda pad, grid: (pad == 0) != (grid in ("one column", "many channels")),
    ),
)
def makes_of_maps(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    draw: Callable[[Rng, Any], Tensor],
    ask: Callable[[Call, Any, Tensor], Any] = of_maps,
    special: Callable[[Call, Rng, Any, dict[str, Any]], None] | None = None,
) -> None:
    """`draw` makes maps, `ask` the call; `special` looks at more. Where there is a `place`, the maps require grad."""
    task, more, apart, same = seen.values()
    fm, other = draw(rng, case), laid_out(draw(rng, case), case.layout)
    place = vars(case).get("place", "data")
    fm = laid_out(fm, case.layout) if place == "data" else prepared(fm, layout=case.layout, place=place, grad="filled")
    before = Witness(fm=fm)
    result = ask(call, case, fm)
    task["the result"] = as_it_is(result)
    same["changed"] = before.changes()
    task["the result for other maps"] = as_it_is(ask(call, case, other))
    apart["the first result, after another call"] = as_it_is(result)
    fm.data.neg_()
    apart["the first result, when `fm` has changed"] = as_it_is(result)
    apart["the result of a call when `fm` has changed"] = as_it_is(ask(call, case, fm))
    if special:
        special(call, rng, case, more)


def as_it_is(value: Any) -> Any:
    """A copy, although somebody goes on changing the value."""
    return value.copy() if isinstance(value, np.ndarray) else copied(value)


SCALES = {"float32": (2.0**90, 2.0**-28, 2.0**-90), "float64": (2.0**90, 2.0**-28, 2.0**-90)}
"""How large and how small maps are. Other dtypes have no room for that."""
SHAPES = {"area": (2, 4), "row": (1, 6), "column": (6, 1)}


def of_many_sizes(rng: Rng, case: Any) -> Tensor:
    """Maps whose values are large, small, or hardly differ, and two with only one value."""
    shape, scales = SHAPES[case.form], (1.0, *SCALES.get(case.precision, (8.0, 0.25)))
    maps = [rng.tensor(*shape, dtype="float64", values=case.values) * scale for scale in scales]
    if case.precision in SCALES:  # differences in the last bits that float32 has
        maps.append(1000 + rng.tensor(*shape, dtype="float64") * 2.0**-11)
    maps += [torch.zeros(shape), torch.full(shape, rng.uniform(1, 3))]
    return torch.stack(rng.shuffled(maps)).to(getattr(torch, case.precision))


def scaled_already(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """A map that goes from 0 to 1, which somebody may hand on as it is."""
    fm = rng.tensor(1, 2, 3, low=0, high=1, away=0)
    fm[0, 0, :2] = torch.tensor([0.0, 1.0])
    result = call(fm)
    fm.mul_(3)
    seen["the result for a map from 0 to 1, when `fm` has changed"] = as_it_is(result)


SHEETS = {
    "last row not full": ((7, 2, 4), 3),
    "last row full": ((6, 2, 3), 3),
    "fewer channels": ((3, 4, 2), 5),
    "one channel": ((1, 3, 2), 2),
    "one column": ((4, 3, 2), 1),
    "many channels": ((70, 1, 2), 9),
}
"""[C, H, W] and `ncols`. Height and width always differ."""
FILLS = {"negative": -1.5, "fraction": 0.3125, "large": 9.0}


def tiles(rng: Rng, case: Any) -> Tensor:
    """Maps for a sheet, all unlike each other; 0 is one of the values."""
    fm = rng.tensor(*SHEETS[case.grid][0], values=case.values)
    fm[0, 0, 0] = 0.0
    return fm


def by_default(call: Call, rng: Rng, case: Any, seen: dict[str, Any]) -> None:
    """Without the arguments that have a default, also for small values."""
    fm, columns = tiles(rng, case), SHEETS[case.grid][1]
    seen["the result by default"] = as_it_is(call(fm, columns))
    seen["the result for small values"] = as_it_is(call(fm * 2.0**-20, columns))


COUNTS = {"one": (6, 1), "some": (9, 3), "most": (14, 11), "all": (5, 5)}
"""How many channels there are, and how many of them are asked for."""
STEPS = {"wide": 2.0**-1, "narrow": 2.0**-12}
"""How far neighbouring means are apart. Rounding to float32 hides neither."""
FINER = 2.0**-20
"""Narrow steps of a float64 tensor are smaller by this factor: then float32 hides them."""


def ranked(rng: Rng, case: Any) -> Tensor:
    """Maps whose means are apart, with pixels that would rank them otherwise; with "negative", all lie far below 0."""
    count = COUNTS[case.asked][0]
    fm = rng.tensor(count, 3, 4, dtype="float64", low=-1, high=1, away=0.125, values=case.values)
    step = STEPS[case.means] * (FINER if (case.dtype, case.means) == ("float64", "narrow") else 1)
    means = torch.tensor(rng.shuffled(range(count)), dtype=torch.float64) * step + 0.625
    fm += (means - fm.mean((1, 2)))[:, None, None]
    spike, *_, low = rng.shuffled([i for i in range(count) if i != int(means.argmax())])
    fm[spike] -= 1.75  # the largest pixel of all, and the same mean but for that
    fm[spike, rng.integer(0, 2), rng.integer(0, 3)] += 12
    fm[low] -= 18 + means[low]  # the largest of all absolute values
    # The largest mean comes from 5 bright pixels of 12: neither the minimum nor the median shows it.
    fm[means.argmax()] += torch.tensor(rng.shuffled([3.5] * 5 + [-2.5] * 7)).reshape(3, 4)
    return (fm - 2000 if case.signs == "negative" else fm).to(getattr(torch, case.dtype))
