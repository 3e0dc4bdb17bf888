"""Answers to 10-pointing-game."""

from graders.author.answers import Wrong

POINTING = """
import torch
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    H, W = size
    large = UPSAMPLED
    place = large.flatten(1).argmax(1)
    y, x = PLACE
    x0, y0, x1, y1 = boxes.T
    inside = INSIDE
    found = inside & HEATED
    return RESULT
"""


def pointing(
    upsampled: str = "F.interpolate(cam[:, None], size=(H, W), mode='bilinear', align_corners=False)[:, 0]",
    place: str = "place // W, place % W",
    inside: str = "(x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)",
    heated: str = "(large.flatten(1).amax(1) > 0)",
    result: str = "found.float().mean().item()",
) -> str:
    """An answer to 10-pointing-game that differs from a right one in one place."""
    source = POINTING.replace("UPSAMPLED", upsampled).replace("PLACE", place).replace("INSIDE", inside)
    return source.replace("HEATED", heated).replace("RESULT", result)


RIGHT = [
    pointing(),
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

SHARE = "test_the_score_is_the_share_of_maps_whose_peak_is_in_the_box"

WRONG = [
    Wrong(
        "asks the norm of the map, which is 0 for very small values",
        violates="Pixels may be very small",
        check="test_the_score_is_the_share_of_maps_whose_peak_is_in_the_box",
        source=pointing(heated="(cam.flatten(1).norm(dim=1) > 0)"),
    ),
    Wrong(
        "x and y exchanged",
        violates="row\n    y and column x",
        check=SHARE,
        mistake="swapped-axes",
        source=pointing(place="place % W, place // W"),
    ),
    Wrong(
        "divides by the height",
        violates="row\n    y and column x",
        check=SHARE,
        mistake="swapped-axes",
        source=pointing(place="place // H, place % H"),
    ),
    Wrong(
        "H and W exchanged",
        violates="`size` is the tuple (H, W)",
        check=SHARE,
        mistake="swapped-axes",
        source=pointing().replace("H, W = size", "W, H = size"),
    ),
    Wrong(
        "upsamples to W by H",
        violates="Upsample each map to H by W pixels",
        check=SHARE,
        mistake="swapped-axes",
        source=pointing("F.interpolate(cam[:, None], size=(W, H), mode='bilinear', align_corners=False)[:, 0]"),
    ),
    Wrong(
        "no upsampling",
        violates="Upsample each map to H by W pixels",
        check=SHARE,
        mistake="no-upsampling",
        source=pointing("cam", place="place // cam.shape[2], place % cam.shape[2]"),
    ),
    Wrong(
        "blocks",
        violates="with bilinear interpolation",
        check=SHARE,
        mistake="nearest-upsampling",
        source=pointing("F.interpolate(cam[:, None], size=(H, W))[:, 0]"),
    ),
    Wrong(
        "bicubic",
        violates="with bilinear interpolation",
        check=SHARE,
        source=pointing("F.interpolate(cam[:, None], size=(H, W), mode='bicubic', align_corners=False)[:, 0]"),
    ),
    Wrong(
        "corners aligned",
        violates="`align_corners=False`",
        check=SHARE,
        mistake="align-corners",
        source=pointing("F.interpolate(cam[:, None], size=(H, W), mode='bilinear', align_corners=True)[:, 0]"),
    ),
    Wrong(
        "whole factors only",
        violates="Upsample each map to H by W pixels",
        check=SHARE,
        source=pointing(
            "torch.nn.functional.pad(F.interpolate(cam[:, None], scale_factor=(H // cam.shape[1], W // cam.shape[2]), "
            "mode='bilinear'), (0, W % cam.shape[2], 0, H % cam.shape[1]))[:, 0]"
        ),
    ),
    Wrong(
        "the centre of mass",
        violates="Find its largest pixel",
        check=SHARE,
        mistake="centre-of-mass",
        source=pointing(
            place="[(large.sum(d) * torch.arange(n)).sum(1).div(large.sum((1, 2))).nan_to_num().round().long()"
            " for d, n in ((2, H), (1, W))]"
        ),
    ),
    Wrong(
        "the last of equal pixels",
        violates="of several that are equal, the first",
        check=SHARE,
        source=pointing(
            place="(H * W - 1 - large.flatten(1).flip(1).argmax(1)) // W, "
            "(H * W - 1 - large.flatten(1).flip(1).argmax(1)) % W"
        ),
    ),
    Wrong(
        "column by column",
        violates="the first, as `argmax` does",
        check=SHARE,
        source=pointing(place="place % H, place // H").replace("large.flatten(1).argmax", "large.mT.flatten(1).argmax"),
    ),
    Wrong(
        "a hit if any of equal pixels is in the box",
        violates="of several that are equal, the first",
        check=SHARE,
        source="""
import torch.nn.functional as F

def pointing_game(cam, boxes, size):
    large = F.interpolate(cam[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]
    hits = 0
    for heat, (x0, y0, x1, y1) in zip(large, boxes.tolist()):
        inside = heat[y0:y1, x0:x1]
        hits += inside.numel() > 0 and inside.max().item() == heat.max().item() > 0
    return hits / len(cam)
""",
    ),
    Wrong(
        "in bfloat16",
        violates="differ by very little",
        check=SHARE,
        source=pointing().replace("    H, W", "    cam = cam.bfloat16()\n    H, W"),
    ),
    Wrong(
        "values rounded",
        violates="differ by very little",
        check=SHARE,
        source=pointing().replace("large.flatten(1).argmax", "large.mul(100).round().flatten(1).argmax"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=SHARE,
        source=pointing().replace("    H, W", "    cam = cam.float()\n    H, W"),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=pointing().replace("    H, W", "    cam = cam.view(len(cam), -1).reshape(cam.shape)\n    H, W"),
    ),
    Wrong(
        "the right and the lower edge count",
        violates="a hit if `x0 <= x < x1` and `y0 <= y < y1`",
        check=SHARE,
        mistake="closed-box",
        source=pointing(inside="(x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)"),
    ),
    Wrong(
        "the lower edge counts",
        violates="`y0 <= y < y1`",
        check=SHARE,
        mistake="closed-box",
        source=pointing(inside="(x0 <= x) & (x < x1) & (y0 <= y) & (y <= y1)"),
    ),
    Wrong(
        "the left and the upper edge do not count",
        violates="a hit if `x0 <= x < x1` and `y0 <= y < y1`",
        check=SHARE,
        mistake="open-box",
        source=pointing(inside="(x0 < x) & (x < x1) & (y0 < y) & (y < y1)"),
    ),
    Wrong(
        "the left edge does not count, the right one does",
        violates="`x0 <= x < x1`",
        check=SHARE,
        source=pointing(inside="(x0 < x) & (x <= x1) & (y0 <= y) & (y < y1)"),
    ),
    Wrong(
        "a box is x, y, width, height",
        violates="whose rows are (x0, y0, x1, y1)",
        check=SHARE,
        source=pointing(inside="(x0 <= x) & (x < x0 + x1) & (y0 <= y) & (y < y0 + y1)"),
    ),
    Wrong(
        "zero heat points to the first pixel",
        violates="A map that is 0 everywhere is never a hit.",
        check=SHARE,
        mistake="zero-map-hit",
        source=pointing(heated="(large.flatten(1).amax(1) >= 0)"),
    ),
    Wrong(
        "maps without heat are left out of the share",
        violates="the share of hits\n    among the B maps",
        check=SHARE,
        source=pointing(result="(found.sum() / (large.flatten(1).amax(1) > 0).sum().clamp(min=1)).item()"),
    ),
    Wrong(
        "an even map points nowhere",
        violates="of several that are equal",
        check=SHARE,
        source=pointing(heated="(large.flatten(1).amax(1) > large.flatten(1).amin(1))"),
    ),
    Wrong(
        "a faint map points nowhere",
        violates="Pixels may be very small",
        check=SHARE,
        source=pointing(heated="(large.flatten(1).amax(1) > 1e-8)"),
    ),
    Wrong(
        "the number of hits",
        violates="Return the share of hits",
        check=SHARE,
        mistake="counted-hits",
        source=pointing(result="float(found.sum())"),
    ),
    Wrong(
        "the share of misses",
        violates="Return the share of hits",
        check=SHARE,
        source=pointing(result="1 - found.float().mean().item()"),
    ),
    Wrong(
        "per cent",
        violates="a Python float from 0 to 1",
        check=SHARE,
        source=pointing(result="100 * found.float().mean().item()"),
    ),
    Wrong(
        "rounded to thousandths",
        violates="Return the share of hits",
        check=SHARE,
        source=pointing(result="round(found.float().mean().item(), 3)"),
    ),
    Wrong(
        "a tensor",
        violates="a Python float",
        check=SHARE,
        mistake="no-python-float",
        source=pointing(result="found.float().mean()"),
    ),
    Wrong(
        "an int where the share is 0 or 1",
        violates="a Python float",
        check="test_the_example_comes_out",
        source=pointing(result="int(found.all()) if len(found) == 1 else found.float().mean().item()"),
    ),
    Wrong(
        "a list of hits",
        violates="Return the share of hits",
        check=SHARE,
        source=pointing(result="found.tolist()"),
    ),
    Wrong(
        "the first map decides",
        violates="among the B maps",
        check=SHARE,
        source=pointing(result="float(found[0])"),
    ),
    Wrong(
        "remembers maps by their shape",
        violates="rule 1: however often it is called",
        check=SHARE,
        source=pointing(result="known.setdefault(cam.shape, found.float().mean().item())") + "\nknown = {}",
    ),
    Wrong(
        "scales the caller's maps",
        violates="rule 2: Tensors keep their values",
        check="test_the_arguments_are_unchanged",
        source=pointing().replace("    H, W", "    cam /= cam.max()\n    H, W"),
    ),
    Wrong(
        "moves the caller's boxes",
        violates="rule 2: Tensors keep their values",
        check="test_the_arguments_are_unchanged",
        source=pointing()
        .replace("boxes.T", "boxes.sub_(1).T")
        .replace("place % W\n", "place % W\n    y, x = y - 1, x - 1\n"),
    ),
    Wrong(
        "enlarges by factors",
        violates="Upsample each map to H by W pixels",
        check="test_the_example_comes_out",
        source=pointing(
            "F.interpolate(cam[:, None], scale_factor=(H / cam.shape[1], W / cam.shape[2]), mode='bilinear')[:, 0]",
            place="place // large.shape[2], place % large.shape[2]",
        ),
    ),
    Wrong(
        "turns boxes round",
        violates="The map is a hit if `x0 <= x < x1` and `y0 <= y < y1`.",
        check="test_the_example_comes_out",
        source=pointing(inside="(torch.minimum(x0, x1) <= x) & (x < torch.maximum(x0, x1)) & (y0 <= y) & (y < y1)"),
    ),
]

GIVENS = [
    "Write `pointing_game(cam, boxes, size)`.",
    "`cam` is a detached tensor",
]

SURVIVORS = {
    "at least one dimension": "heat maps and boxes have several",
    "no empty collection": "`size` has two entries",
    "under no_grad": "the maps are detached",
}
