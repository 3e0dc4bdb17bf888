"""Stories for a function that says which share of heat maps have their peak in a box.

Each map has one large cell. Enlarged, its largest pixel is the one nearest to the centre of that cell.
"""

from types import SimpleNamespace
from typing import Any

import torch

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MAPS = {
    "sizes": ("wide", "tall", "large"),
    "dtype": ("float32", "float64"),
    "box": ("pixel", "left", "above", "from its column", "from its row", "after its column", "after its row"),
    "values": ("large", "tiny"),
    "layout": ("contiguous", "transposed"),
}
SIZES = {"wide": ((3, 4), (7, 11)), "tall": ((4, 3), (11, 7)), "large": ((4, 7), (9, 19))}
"""The sizes of a map and of the image: for each cell, there is one pixel nearest to its centre."""


def the_size(case: Any) -> tuple[int, int]:
    """The size of the image."""
    return SIZES[case.sizes][1]


def pixel_of(cell: int, cells: int, pixels: int) -> int:
    """The row or the column of the largest pixel of a large cell."""
    if cell in (0, cells - 1):  # beyond the outermost centres, bilinear interpolation repeats the edge
        return 0 if cell == 0 else pixels - 1
    return round((cell + 0.5) * pixels / cells - 0.5)


def a_box(kind: str, x: int, y: int, size: tuple[int, int]) -> list[int]:
    """A box whose border touches the pixel in column x and row y: it is in some of them, and not in others."""
    height, width = size
    return {
        "pixel": [x, y, x + 1, y + 1],
        "from its column": [x, 0, width, height],
        "from its row": [0, y, width, height],
        "left": [x // 2, 0, x, height],
        "above": [0, y // 2, width, y],
        "after its column": [x + 1, 0, width, height],
        "after its row": [0, y + 1, width, height],
        "anywhere": [0, 0, width, height],
    }[kind]


def maps_and_boxes(draw: Draw, case: Any, kinds: list[str]) -> SimpleNamespace:
    """Maps, and for each a box of a kind, or of any kind. With a box "anywhere" a map is 0 everywhere."""
    (h, w), size = SIZES[case.sizes]
    maps, boxes = [], []
    for kind in kinds:
        kind = draw.choice(MAPS["box"]) if kind == "any" else kind
        while True:
            row, column = draw.choice(range(h)), draw.choice(range(w))
            y, x = pixel_of(row, h, size[0]), pixel_of(column, w, size[1])
            box = a_box(kind, x, y, size)
            if x != y and box[0] < box[2] and box[1] < box[3]:
                break
        cam = draw.tensor(h, w, low=0.3, high=0.9)
        cam[row, column] = 9.0
        maps.append(0 * cam if kind == "anywhere" else cam)
        boxes.append(box)
    return SimpleNamespace(cam=torch.stack(maps), boxes=torch.tensor(boxes))


@told
def some_maps(case: Any, made: Any) -> Any:
    """These heat maps and boxes; other maps are tiny, or lie in memory in another way."""
    cam = made.cam
    boxes = made.boxes
    if case.values == "tiny":
        cam = 1e-30 * cam
    if case.layout == "transposed":
        cam = cam.mT.contiguous().mT
    return cam, boxes


def one_map(call: Call, draw: Draw, case: Any) -> Seen:
    """A map alone scores 1 or 0."""
    made = maps_and_boxes(draw, case, [case.box])
    cam, boxes = some_maps(case, made)
    score = call(cam, boxes, the_size(case))
    yield "the score of a map", score


def a_map_of_zeros(call: Call, draw: Draw, case: Any) -> Seen:
    """A map that is 0 everywhere is no hit."""
    made = maps_and_boxes(draw, case, ["anywhere"])
    cam, boxes = some_maps(case, made)
    score = call(cam, boxes, the_size(case))
    yield "the score of a map of zeros", score


def many_maps(call: Call, draw: Draw, case: Any) -> Seen:
    """The score of many maps is their share."""
    made = maps_and_boxes(draw, case, ["pixel", *["anywhere"] * 2, "any"])  # float32 holds shares of 2 and of 4
    cam, boxes = some_maps(case, made)
    score = call(cam, boxes, the_size(case))
    yield "the score of all", score


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """The arguments are unchanged."""
    made = maps_and_boxes(draw, case, ["any", "any"])
    cam, boxes = some_maps(case, made)
    before = Watch(cam=cam, boxes=boxes)
    call(cam, boxes, the_size(case))
    yield "by the call", before.differences()
    yield "the maps after the call", cam


ALONE = (one_map, a_map_of_zeros)
