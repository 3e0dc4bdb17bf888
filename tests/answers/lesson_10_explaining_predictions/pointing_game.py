"""Answers to 10-pointing-game."""

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
    scale = (size[0] / cam.shape[1], size[1] / cam.shape[2])
    large = F.interpolate(cam[:, None].double(), scale_factor=scale, mode="bilinear", align_corners=False)
    top, place = large.flatten(1).max(1)
    y, x = place // size[1], place.remainder(size[1])
    at = torch.stack([x, y], 1)
    inside = ((boxes[:, :2] <= at) & (at < boxes[:, 2:])).all(1)
    return float((inside & (top != 0)).double().mean())
""",
]

WRONG = {
    "swapped-axes": pointing(place="place % W, place // W"),
    "zero-map-hit": pointing(heated="True"),
    "no-upsampling": pointing(upsampled="cam", place="place // cam.shape[2], place % cam.shape[2]"),
    "nearest-upsampling": pointing(upsampled="F.interpolate(cam[:, None], size=(H, W))[:, 0]"),
    "align-corners": pointing(
        upsampled="F.interpolate(cam[:, None], size=(H, W), mode='bilinear', align_corners=True)[:, 0]"
    ),
    "closed-box": pointing(inside="(x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)"),
    "open-box": pointing(inside="(x0 < x) & (x < x1) & (y0 < y) & (y < y1)"),
    "counted-hits": pointing(result="float(found.sum())"),
    "no-python-float": pointing(result="found.float().mean()"),
}

ALSO_WRONG = [
    pointing(heated="True", inside="(x0 <= x) & (x < x1)"),
    pointing(inside="(x0 <= x) & (x < x1) & (y0 <= y) & (y <= y1)"),
    pointing(inside="(x0 <= x) & (x <= x1) & (y0 <= y) & (y < y1)"),
    pointing(inside="(x0 <= x) & (x < x1) & (y0 < y) & (y < y1)"),
    pointing(result="1 - found.float().mean().item()"),
    pointing(result="round(found.float().mean().item(), 1)"),
    pointing(result="float(found.all())"),
    pointing(result="found.tolist()"),
    pointing(result="100 * found.float().mean().item()"),
    pointing(place="place // H, place % H"),
    pointing(upsampled="F.interpolate(cam[:, None], size=(W, H), mode='bilinear', align_corners=False)[:, 0]"),
    pointing(upsampled="F.interpolate(cam[:, None], size=(H, W), mode='bicubic', align_corners=False)[:, 0]"),
    pointing().replace("H, W = size", "W, H = size"),
    pointing(inside="(x0 < x) & (x <= x1) & (y0 < y) & (y <= y1)"),
    # the last of equal pixels
    pointing(
        place="(H * W - 1 - large.flatten(1).flip(1).argmax(1)) // W, "
        "(H * W - 1 - large.flatten(1).flip(1).argmax(1)) % W"
    ),
    # column by column
    pointing()
    .replace("place = large.flatten(1).argmax(1)", "place = large.mT.flatten(1).argmax(1)")
    .replace("place // W, place % W", "place % H, place // H"),
    pointing().replace("H, W = size", "H, W = size\n    cam /= cam.max()"),
    pointing(result="(found.sum() / (large.flatten(1).amax(1) > 0).sum()).item()"),
    # a map that is the same everywhere is not 0
    pointing(heated="large.flatten(1).amax(1) > large.flatten(1).amin(1)"),
    # a map of small values is not 0
    pointing(heated="large.flatten(1).amax(1) > 1e-3"),
    "def pointing_game(cam, boxes, size):\n    return 0.5",
    "def pointing_game(cam, boxes, size):\n    return 0.0",
    "def pointing_game(cam, boxes, size):\n    return 1.0",
]
