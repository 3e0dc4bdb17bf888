"""Exercise 10-pointing-game."""

import torch
import torch.nn.functional as F

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import heat_maps


def large(cam, size, **how):
    """The maps at the size of the images."""
    return F.interpolate(cam[:, None], size, **how or {"mode": "bilinear", "align_corners": False})[:, 0]


def peaks(maps, width=None):
    """Row and column of the largest pixel of each map."""
    place = maps.flatten(1).argmax(1)
    width = width or maps.shape[2]
    return place // width, place % width


def share(cam, boxes, place):
    """The share of maps that have heat and whose place is in the box."""
    y, x = place
    x0, y0, x1, y1 = boxes.T
    hit = (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1) & (cam.flatten(1).amax(1) > 0)
    return hit.double().mean().item()


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
    scene=stories(
        promises={
            "a map alone scores 1 or 0": heat_maps.ALONE,
            "the score of many maps is their share": heat_maps.many_maps,
            "the arguments are unchanged": heat_maps.left_alone,
        },
        axes=heat_maps.MAPS,
        pairs=[("box", "values")],
    ),
)
class TestPointingGame:
    """Write `pointing_game(cam, boxes, size)`: the share of hits among the heat maps `cam`, a Python float. Enlarge
    each map to `size` by bilinear interpolation with `align_corners=False`; it is a hit if its largest pixel, in row y
    and column x, has `x0 <= x < x1` and `y0 <= y < y1`.

    **Example.**

    >>> cam, size = torch.tensor([[[0.0, 8.0]]]), (1, 4)  # enlarged: [[0, 2, 6, 8]], largest in row 0, column 3
    >>> pointing_game(cam, torch.tensor([[3, 0, 4, 1]]), size), pointing_game(cam, torch.tensor([[0, 0, 3, 1]]), size)
    (1.0, 0.0)

    **Fine print.** `cam` is a detached tensor of shape [B, h, w] without negative values, `boxes` an int64 tensor of
    shape [B, 4], whose rows are (x0, y0, x1, y1) in pixels of the image, and `size` is (H, W), no smaller than h by w.
    A map that is 0 everywhere is never a hit; every other, however small its values, has one largest pixel, even in
    float32.
    """

    def reference(cam, boxes, size):
        hits = 0
        for heat, (x0, y0, x1, y1) in zip(large(cam, size), boxes.tolist()):
            inside = torch.zeros(size, dtype=torch.bool)
            inside[y0:y1, x0:x1] = True
            hits += bool(heat.max() > 0 and inside[heat == heat.max()].all())
        return hits / len(cam)

    class Mistakes:
        def swapped_axes(cam, boxes, size):
            """You swapped x and y, or H and W. `place // W` is the row, which is y, and `place % W` is the column,
            which is x. A box is (x0, y0, x1, y1); `size` is (H, W).
            """
            return share(cam, boxes, peaks(large(cam, size))[::-1])

        def swapped_axes__2(cam, boxes, size):
            return share(cam, boxes, peaks(large(cam, size), size[0]))

        def zero_map_hit(cam, boxes, size):
            """A map that is 0 everywhere was counted as a hit. Zero heat points nowhere: `argmax` of such a map is just
            the first pixel. Check that the maximum is larger than 0.
            """
            return share(cam + 1, boxes, peaks(large(cam, size)))  # as if there were heat in each

        def no_upsampling(cam, boxes, size):
            """You looked for the peak in the small map. Boxes are in pixels of the image, and the peak of the large map
            is not a multiple of that of the small one: upsample the map to `size` first.
            """
            return share(cam, boxes, peaks(cam))

        def no_upsampling__2(cam, boxes, size):
            y, x = peaks(cam)
            return share(cam, boxes, ((y + 0.5) * size[0] / cam.shape[1], (x + 0.5) * size[1] / cam.shape[2]))

        def nearest_upsampling(cam, boxes, size):
            """You upsampled to blocks. That gives the upper left corner of a block; the peak of the bilinear map is
            somewhere else. Say `mode='bilinear'`.
            """
            return share(cam, boxes, peaks(large(cam, size, mode="nearest")))

        def align_corners(cam, boxes, size):
            """You upsampled with `align_corners=True`, which shifts the peaks. The contract asks for
            `align_corners=False`.
            """
            return share(cam, boxes, peaks(large(cam, size, mode="bilinear", align_corners=True)))

        def closed_box(cam, boxes, size):
            """You counted x1 and y1 as part of the box. It is half open: `x0 <= x < x1` and `y0 <= y < y1`."""
            return share(cam, boxes + torch.tensor([0, 0, 1, 1]), peaks(large(cam, size)))

        def no_python_float(cam, boxes, size):
            """The value is right, but it is a tensor. Return a Python float: call `.item()`."""
            return torch.tensor(share(cam, boxes, peaks(large(cam, size))))

        def number_of_hits(cam, boxes, size):
            """You returned the number of hits, or a percentage. The task asks for their share: divide by the number of
            maps.
            """
            return share(cam, boxes, peaks(large(cam, size))) * len(cam)

        def number_of_hits__2(cam, boxes, size):
            return share(cam, boxes, peaks(large(cam, size))) * 100

        def order_of_the_box(cam, boxes, size):
            """You unpacked a box in another order, as x0, x1, y0, y1. It is (x0, y0, x1, y1)."""
            return share(cam, boxes[:, [0, 2, 1, 3]], peaks(large(cam, size)))

        def width_and_height(cam, boxes, size):
            """You took the last two numbers of a box for its width and height. They are x1 and y1, where it ends."""
            return share(cam, boxes + torch.cat([0 * boxes[:, :2], boxes[:, :2]], 1), peaks(large(cam, size)))

        def zero_maps_left_out(cam, boxes, size):
            """You left maps that are 0 everywhere out of the number of maps. Such a map is no hit, but it counts as a
            map: divide by `len(cam)`.
            """
            return (
                share(cam, boxes, peaks(large(cam, size))) * len(cam) / max(1, int((cam.flatten(1).amax(1) > 0).sum()))
            )

        def threshold(cam, boxes, size):
            """You compare the largest value with a threshold above 0. Compare it with 0: a map with very small values
            may be a hit, too.
            """
            return share(cam * (cam > 0.1), boxes, peaks(large(cam, size)))

        def open_box(cam, boxes, size):
            """You left x0 and y0 out of the box. They belong to it: `x0 <= x < x1` and `y0 <= y < y1`."""
            return share(cam, boxes + torch.tensor([1, 1, 0, 0]), peaks(large(cam, size)))
