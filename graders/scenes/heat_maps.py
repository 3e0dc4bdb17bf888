"""The scene for a function that finds out which heat maps point into given boxes."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

MAPS = 64
"""The number of maps: a power of 2, so that float32 holds every share of them exactly."""
SIZES = {"wide": ((4, 5), (8, 12)), "tall": ((5, 3), (12, 8)), "odd": ((4, 11), (9, 15))}
"""The sizes of a map and of the image, which is less than 3 times as large, so that no two pixels are equal."""


@family(
    sections=(
        "each map alone hits or does not",
        "the score of many maps is their share",
        "the arguments are unchanged",
    ),
    axes={
        "sizes": tuple(SIZES),
        "dtype": ("float32", "float64"),
        "scale": (1.0, 2.0**-40),
    },
)
def scores_maps(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(maps, boxes, size)`; some maps are 0 everywhere."""
    alone, together, same = seen.values()
    (h, w), size = SIZES[case.sizes]
    maps = rng.tensor(MAPS, h, w, low=0, high=2, away=0, dtype=case.dtype, values="full")
    boxes = torch.zeros(MAPS, 4, dtype=torch.int64)
    for index in range(MAPS):
        row, column = rng.integer(0, h - 1), rng.integer(0, w - 1)
        maps[index, row, column] += 2.0
        while has_two_peaks(maps[index], size):
            maps[index] += rng.tensor(h, w, low=0, high=0.25, away=0, dtype=case.dtype, values="full")
        near = 0 < index % 8 < 5
        (y0, y1), (x0, x1) = (
            an_interval(rng, place, cells, pixels, near)
            for place, cells, pixels in ((row, h, size[0]), (column, w, size[1]))
        )
        boxes[index] = torch.tensor([x0, y0, x1, y1])
    maps[::8], boxes[::8, :2] = 0.0, 0  # if all pixels are equal, the first one counts as the largest
    maps *= case.scale
    before = Witness(maps=maps, boxes=boxes)
    together["the score of all"] = call(maps, boxes, size)
    alone["the scores"] = [call(maps[i : i + 1], boxes[i : i + 1], size) for i in range(MAPS)]
    same["changed"] = before.changes()


def has_two_peaks(heat: Tensor, size: tuple[int, int]) -> bool:
    """Whether rounding may decide which pixel of the enlarged map is the largest, which the contract rules out.

    Two pixels lie at equal distances from the largest cell. They differ only by what is in the cells beyond them.
    """
    enlarged = F.interpolate(heat[None, None].double(), size, mode="bilinear", align_corners=False)
    first, second = enlarged.flatten().topk(2).values.tolist()
    return bool(first - second < 1e-5 * first)


def an_interval(rng: Rng, place: int, cells: int, pixels: int, near: bool) -> list[int]:
    """The two ends of an interval in an image: roughly around the pixels of a cell, or anywhere."""
    low, high = (place * pixels // cells, -(-(place + 1) * pixels // cells)) if near else (0, pixels)
    ends = sorted(rng.shuffled(range(max(low - 1, 0), min(high + 1, pixels) + 1))[:2])
    return ends
