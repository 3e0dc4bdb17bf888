"""Answers to 10-pointing-game."""

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


SURVIVORS = {
    ".float() of the arguments": "no peak is decided by digits that float32 lacks",
}
