"""Answers to 10-pointing-game."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import numpy as np
import torch

def pointing_game(cam, boxes, size):
    hits = 0
    up = torch.nn.Upsample(size=size, mode="bilinear", align_corners=False)
    for heat, (x0, y0, x1, y1) in zip(cam, boxes.tolist()):
        large = up(heat[None, None])[0, 0].numpy()
        y, x = np.unravel_index(large.argmax(), large.shape)
        if large[y, x] > 0 and y in range(y0, y1) and x in range(x0, x1):
            hits += 1
    return hits / len(cam)
""",
    """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    large = F.interpolate(cam.unsqueeze(1), size, mode="bilinear").squeeze(1)
    total = []
    for heat, box in zip(large, boxes):
        if not heat.any():
            total.append(0.0)
            continue
        y, x = (heat == heat.max()).nonzero()[0].tolist()
        mask = torch.zeros(size)
        mask[box[1]:box[3], box[0]:box[2]] = 1
        total.append(mask[y, x].item())
    return sum(total) / len(total)
""",
    """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    large = F.interpolate(cam[:, None].double(), [*size], None, "bilinear", False)
    top, place = large.flatten(1).max(1)
    y, x = place // size[1], place.remainder(size[1])
    at = torch.stack([x, y], 1)
    inside = ((boxes[:, :2] <= at) & (at < boxes[:, 2:])).all(1)
    return float((inside & (top != 0)).double().mean())
""",
]

ALONE = "test_each_map_alone_hits_or_does_not"
WITHOUT_ZEROS = "hits / max(1, int((cam.flatten(1).amax(1) > 0).sum()))"

WRONG = [
    Wrong(
        "a box is x, y, width, height",
        violates="whose rows are (x0, y0, x1, y1)",
        check=ALONE,
        source=changed(RIGHT[0], ("range(y0, y1)", "range(y0, y0 + y1)"), ("range(x0, x1)", "range(x0, x0 + x1)")),
    ),
    Wrong(
        "a faint map points nowhere",
        violates="one with very small values may be",
        check=ALONE,
        source=changed(RIGHT[0], ("large[y, x] > 0", "large[y, x] > 1e-8")),
    ),
    Wrong(
        "maps without heat are left out of the share",
        violates="the share of hits among the heat maps",
        check="test_the_score_of_many_maps_is_their_share",
        source=changed(RIGHT[0], ("hits / len(cam)", WITHOUT_ZEROS)),
    ),
    Wrong(
        "scales the caller's maps",
        violates="rule 2: Tensors keep their values",
        check="test_the_arguments_are_unchanged",
        source=changed(RIGHT[1], ("    large", "    cam *= 2\n    large")),
    ),
]

SURVIVORS = {
    "at least one dimension": "heat maps and boxes have several",
    "no empty collection": "`size` has two entries",
    "under no_grad": "the maps are detached",
    ".float() of the arguments": "no peak is decided by digits that float32 lacks",
}
