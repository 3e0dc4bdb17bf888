"""Exercise 10-pointing-game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
)
from graders.lesson_10_explaining_predictions.judging import peaks

PLACES = ("only", "first", "last", "right-of", "below", "zero", "far", "faint")
"""Where the box of a map is, seen from its peak. Other boxes are where a misreading finds the peak.

The map "zero" is 0 everywhere, "faint" has small values.
"""

MISREADINGS = (
    "swapped-axes",
    "swapped-axes, size",
    "swapped-axes, height",
    "swapped-axes, size and width",
    "no-upsampling",
    "nearest-upsampling",
    "align-corners",
    "centre-of-mass",
    "centre-of-mass, rounded down",
)

EQUALS = ("tie", "other-tie", "plateau", "even")
"""Maps with equal peaks; the last is the same everywhere.

They are equal in any precision only where the size is a power of 2 times that of the map. There the map "near" has two
peaks of which the second is larger by very little.
"""

NOTES = {
    "zero": "it is 0 everywhere",
    "faint": "its values are very small",
    "even": "it is the same everywhere, and not 0",
    "near": "two peaks differ by very little",
    "tie": "two pixels are equally large",
    "other-tie": "two pixels are equally large",
    "plateau": "two pixels are equally large",
    "first": "the peak is in the upper left corner of the box",
    "last": "the peak is in the lower right corner of the box",
    "right-of": "the peak is in the column x1",
    "below": "the peak is in the row y1",
}
"""What is told of a map on which an answer fails."""

SIZES = {"tall": ((6, 4), (24, 32)), "odd": ((5, 6), (23, 16)), "wide": ((6, 8), (24, 32))}
"""The size of a map, and that of the image."""
NEAR = {"float32": 2.0**-9, "float64": 2.0**-30}
"""How far two peaks are apart that a coarser dtype holds for equal."""


def centres(cam: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Row and column of the centre of mass of each upsampled map, as fractions; 0 for a map of zeros."""
    large = F.interpolate(cam.double()[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
    mass = large.sum((1, 2)).clamp(min=1e-300)
    return (
        (large.sum(2) * torch.arange(size[0])).sum(1) / mass,
        (large.sum(1) * torch.arange(size[1])).sum(1) / mass,
    )


def misread_peaks(cam: Tensor, size: tuple[int, int]) -> dict[str, tuple[Tensor, Tensor]]:
    """Row and column of each map's peak by each of `MISREADINGS`."""
    (y, x, _), (rows, columns, _) = peaks(cam, size), peaks(cam, cam.shape[1:])
    turned_y, turned_x, _ = peaks(cam, size[::-1])
    place, turned = y * size[1] + x, turned_y * size[0] + turned_x
    down, across = size[0] / cam.shape[1], size[1] / cam.shape[2]
    found = (
        (x, y),
        (turned_y, turned_x),
        (place // size[0], place % size[0]),
        (turned // size[1], turned % size[1]),
        (rows, columns),
        ((rows * down).long(), (columns * across).long()),
        peaks(cam, size, mode="bilinear", align_corners=True)[:2],
        tuple(centre.round().long() for centre in centres(cam, size)),
        tuple(centre.long() for centre in centres(cam, size)),
    )
    return dict(zip(MISREADINGS, found))


def placed_box(place: str, peak: tuple[int, int], size: tuple[int, int]) -> list[int]:
    """A box (x0, y0, x1, y1) around or beside the pixel `peak` = (y, x) of an image of `size` = (H, W)."""
    (y, x), (height, width) = peak, size
    left, top, right, bottom = max(x - 3, 0), max(y - 2, 0), min(x + 4, width), min(y + 3, height)
    boxes = {
        "first": (x, y, right, bottom),
        "last": (left, top, x + 1, y + 1),
        "right-of": (left, top, x, bottom),  # the peak is in the column x1, which is outside
        "below": (left, top, right, y),  # the peak is in the row y1, which is outside
        "zero": (0, 0, right, bottom),
        "far": (0, 0, 1, 1),
    }
    return list(boxes.get(place, (x, y, x + 1, y + 1)))


def variants_of_hits(cam: Tensor, boxes: Tensor, size: tuple[int, int]) -> dict[str, list[bool]]:
    """Which maps hit by the contract, and by its known misreadings. Behind a comma stands a variant of a misreading."""
    y, x, top = peaks(cam, size)
    x0, y0, x1, y1 = boxes.T
    lit = top > 0

    def inside(y: Tensor, x: Tensor) -> Tensor:
        return (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)

    found = {name: inside(*place) for name, place in misread_peaks(cam, size).items()} | {
        "closed-box": (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1),
        "closed-box, x": (x0 <= x) & (x <= x1) & (y0 <= y) & (y < y1),
        "closed-box, y": (x0 <= x) & (x < x1) & (y0 <= y) & (y <= y1),
        "open-box": (x0 < x) & (x < x1) & (y0 < y) & (y < y1),
        "open-box, x": (x0 < x) & (x < x1) & (y0 <= y) & (y < y1),
        "open-box, y": (x0 <= x) & (x < x1) & (y0 < y) & (y < y1),
    }
    # Each also by somebody who does not look for zero maps. The pixel (0, 0) is outside of an open box anyway.
    unlit = {f"{name}, zeros": hit for name, hit in found.items() if (hit & ~lit).any()}
    found = {name: hit & lit for name, hit in found.items()}
    found |= unlit | {"right": inside(y, x) & lit, "zero-map-hit": inside(y, x)}
    return {name: value.tolist() for name, value in found.items()}


def hits_are(family: str, *, rounded: bool = False) -> Callable[..., Any]:
    """A recogniser of a misreading in all its variants.

    Where it is computed with rounding, equal peaks may part in either way, and maps that have them tell nothing.
    """

    def recognise(seen: Seen, cam: Tensor, boxes: Tensor, size: tuple[int, int]) -> Any:
        unlike = [
            sum(not close(score, float(hit)) for score, hit in zip(seen["alone"], hits))
            for name, hits in variants_of_hits(cam, boxes, size).items()
            if name.split(",")[0] == family and len(hits) == len(seen["alone"])
        ]
        fewest = min(unlike, default=len(cam))
        return SILENT if rounded and 0 < fewest <= len(EQUALS) else fewest == 0

    return recognise


@exercise(
    "10-pointing-game",
    points=2,
    minutes=15,
    difficulty=2,
    title="A score for heat maps",
    hints=(
        "`F.interpolate(cam[:, None], size=size, mode='bilinear', align_corners=False)[:, 0]` has the shape [B, H, W]. "
        "`flatten(1).argmax(1)` gives one place for each map: its row y is `place // W`, its column x is `place % W`.",
        "The box is half open: x0 and y0 belong to it, x1 and y1 do not. x counts columns, y counts rows.",
        "`argmax` of a map that is 0 everywhere is 0, the pixel in the upper left corner. Such a map points nowhere: "
        "check that its maximum is larger than 0.",
    ),
    why=(
        "`//` and `%` turn all places into rows and columns at once, and a map whose maximum is 0 is no hit wherever "
        "its `argmax` is. A loop over the maps with `np.unravel_index` would do as well."
    ),
    circumstances=Circumstances(
        covers={"dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL},
        excludes={
            "rank": "maps have three dimensions",
            "place": "the maps are detached",
            "grad": "the maps are detached",
            "number": "it gets no number",
            "collection": "every probe calls it with one map and with many",
            "model": "it gets no model",
            "hooks": "no gradient flows",
            "hooked": "no gradient flows",
            "call": "every probe calls it for many maps",
            "grad_mode": "no graph is recorded",
            "backward": "there is no pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"sizes": tuple(SIZES)},
        pairs=[("dtype", "sizes")],
    ),
)
class TestPointingGame:
    """Write `pointing_game(cam, boxes, size)`. `cam` is a detached tensor of shape [B, h, w]: a heat map without
    negative values for each of B images, one or more. `boxes` is an int64 tensor of shape [B, 4], whose rows are (x0,
    y0, x1, y1) in pixels of the image. `size` is the tuple (H, W), the size of the images, no smaller than h by w.

    Upsample each map to H by W pixels with bilinear interpolation, `align_corners=False`. Find its largest pixel: row y
    and column x; of several that are equal, the first, as `argmax` does. Pixels may be very small and differ by very
    little, but rounding never decides which is the largest. The map is a hit if `x0 <= x < x1` and `y0 <= y < y1`. A
    map that is 0 everywhere is never a hit. Return the share of hits among the B maps, a Python float from 0 to 1.

    **Example.** For `cam = tensor([[[0., 8.]]])` and `size = (1, 4)` the upsampled map is `[[0., 2., 6., 8.]]`. Its
    largest pixel is y = 0, x = 3. With `boxes = tensor([[3, 0, 4, 1]])` the result is 1.0, with
    `tensor([[0, 0, 3, 1]])` 0.0.
    """

    def draw(rng, sizes, dtype, values):
        cells, size = SIZES[sizes]
        exact = sizes != "odd"
        maps, boxes = [], []
        places = rng.shuffled(PLACES + MISREADINGS + ((*EQUALS, "near") if exact else ()))
        for place in places:
            cell = (rng.integer(1, cells[0] - 2), rng.integer(1, cells[1] - 2))
            heat = rng.tensor(*cells, dtype="float64", low=0, high=2, away=0, values=values)
            # Two peaks that are equal, or nearly: the upper one is first in reading order, and further to the right.
            upper, lower = (1, rng.integer(2, cells[1] - 2)), (3, 1)
            if place in ("zero", "near", *EQUALS):
                heat = torch.zeros(*cells, dtype=torch.float64)
            if place in ("tie", "other-tie", "near"):
                cell = upper if place == "tie" else lower
            if place == "even":
                heat += 1
            elif place != "zero":
                heat[cell] = 5
            if place == "plateau":
                heat[cell[0], cell[1] + 1] = 5
            y, x = misread_peaks(heat[None], size).get(place, peaks(heat[None], size)[:2])
            boxes.append(placed_box(place, (int(y), int(x)), size))
            if place in ("tie", "other-tie"):
                heat[upper] = heat[lower] = 5
            if place == "near":
                heat[upper] = 5 - NEAR[dtype]
            maps.append(heat * 2.0**-100 if place == "faint" else heat)  # a power of 2 changes no digit
        return {
            "cam": torch.stack(maps).to(getattr(torch, dtype)),
            "boxes": torch.tensor(boxes),
            "size": size,
            "places": places,
        }

    def alive(cam, boxes, size, dtype):
        found = variants_of_hits(cam, boxes, size)
        right = found["right"]
        families: dict[tuple[bool, ...], set[str]] = {}
        for name, value in found.items():
            families.setdefault(tuple(value), set()).add(name.split(",")[0])
        large = F.interpolate(cam[:, None], size=size, mode="bilinear", align_corners=False).flatten(1)
        first, second = large.topk(2).values.T
        least = NEAR[dtype] / 10  # of full digits: no peak is decided by rounding
        sharp = (first - second > least * first) | (first == second)
        told_apart = all(len(names) == 1 for names in families.values())
        return 0 < sum(right) < len(right) and told_apart and bool(sharp.all())

    def probe(student, cam, boxes, size, layout):
        cam, boxes = laid_out(cam, layout), laid_out(boxes, layout)
        witness = Witness(cam=cam, boxes=boxes)
        together = student.pointing_game(cam, boxes, size)
        changed = witness.changes()
        alone = [student.pointing_game(cam[i : i + 1], boxes[i : i + 1], size) for i in range(len(cam))]
        example = torch.tensor([[[0.0, 8.0]]])
        found = [student.pointing_game(example, torch.tensor([box]), (1, 4)) for box in ([3, 0, 4, 1], [0, 0, 3, 1])]
        wide = torch.zeros(1, 1, 11)
        wide[..., 10] = 1
        found_elsewhere = {
            "wide": student.pointing_game(wide, torch.tensor([[14, 0, 15, 1]]), (1, 15)),
            "empty box": student.pointing_game(example, torch.tensor([[4, 0, 3, 1]]), (1, 4)),
        }
        return {"share": together, "alone": alone, "example": found, "changed": changed, **found_elsewhere}

    mistakes = (
        Mistake(
            "swapped-axes",
            hits_are("swapped-axes"),
            "You exchanged x and y, or H and W. `place // W` is the row, which is y, and `place % W` is the column, "
            "which is x. A box is (x0, y0, x1, y1); `size` is (H, W).",
        ),
        Mistake(
            "zero-map-hit",
            hits_are("zero-map-hit"),
            "A map that is 0 everywhere was counted as a hit. Zero heat points nowhere: `argmax` of such a map is just "
            "the first pixel. Check that the maximum is larger than 0.",
        ),
        Mistake(
            "no-upsampling",
            hits_are("no-upsampling"),
            "You looked for the peak in the small map. Boxes are in pixels of the image: upsample the map to `size` "
            "first.",
        ),
        Mistake(
            "nearest-upsampling",
            hits_are("nearest-upsampling", rounded=True),
            "You upsampled to blocks, or multiplied the place in the small map by a factor. That gives the upper left "
            "corner of a block; the peak of the bilinear map is somewhere else. Say `mode='bilinear'`.",
        ),
        Mistake(
            "align-corners",
            hits_are("align-corners", rounded=True),
            "You upsampled with `align_corners=True`, which shifts the peaks. The contract asks for "
            "`align_corners=False`.",
        ),
        Mistake(
            "centre-of-mass",
            hits_are("centre-of-mass", rounded=True),
            "You took the centre of mass of the map. It points with its largest pixel.",
        ),
        Mistake(
            "closed-box",
            hits_are("closed-box"),
            "You counted x1 and y1 as part of the box. It is half open: `x0 <= x < x1` and `y0 <= y < y1`.",
        ),
        Mistake(
            "open-box",
            hits_are("open-box"),
            "You did not count x0 and y0 as part of the box. It is half open: `x0 <= x < x1` and `y0 <= y < y1`.",
        ),
        Mistake(
            "counted-hits",
            lambda seen, cam, boxes, size: (
                close(seen["share"], float(sum(variants_of_hits(cam, boxes, size)["right"])))
                and hits_are("right")(seen, cam, boxes, size)
            ),
            "You returned the number of hits. The task asks for their share: divide by the number of maps.",
        ),
        Mistake(
            "no-python-float",
            lambda seen, cam, boxes, size: (
                seen["share"].tensor is not None and hits_are("right")(seen, cam, boxes, size)
            ),
            "The value is right, but it is a tensor. Return a Python float: call `.item()`.",
        ),
    )

    def test_the_score_is_the_share_of_maps_whose_peak_is_in_the_box(seen, cam, boxes, size, places):
        right = variants_of_hits(cam, boxes, size)["right"]
        for index, hit in enumerate(right):
            note = f" ({NOTES[places[index]]})" if places[index] in NOTES else ""
            expect(Seen(seen["alone"][index].value, f"the score of map {index} alone{note}")).close_to(float(hit))
        expect(seen["share"]).close_to(sum(right) / len(right))

    def test_the_example_comes_out(seen):
        expect(seen["example"]).equals([1.0, 0.0])
        expect(Seen(seen["wide"].value, "the result for 1 by 11 pixels and the size (1, 15)")).equals(1.0)
        expect(Seen(seen["empty box"].value, "the result in the example for the box [4, 0, 3, 1]")).equals(0.0)

    def test_the_arguments_are_unchanged(seen):
        nothing_changed(seen["changed"])
