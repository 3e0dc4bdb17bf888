"""Answers to 09-normalize-maps."""

RIGHT = [
    """
import numpy as np

def normalize_maps(fm):
    a = np.asarray(fm.detach().float())
    return np.array([np.interp(c, [c.min(), c.max()], [0, 1]) if np.ptp(c) else c * 0 for c in a], np.float32)
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
    """
import torch

def normalize_maps(fm):
    maps = fm.detach().to(torch.float64, copy=True)
    for channel in maps:
        channel -= channel.min()
        if channel.max() > 0:
            channel /= channel.max()
    return maps.to(torch.float32).numpy()
""",
    """
import numpy as np

def normalize_maps(fm):
    a = np.array(fm.detach().double().tolist())
    flat = a.reshape(len(a), -1)
    low, high = flat.min(1)[:, None, None], flat.max(1)[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num((a - low) / (high - low)).astype(np.float32)
""",
]


SURVIVORS = {
    ".float() of the arguments": "computed in float32 or better: what float32 cannot tell apart does not come",
    "almost: return (": "what it divides is 0",
    "almost: flat = a.reshape(len(a), -2)": "numpy takes any negative number",
}
