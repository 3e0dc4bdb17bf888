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

WRONG = {
    "one-range-for-all": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min()) / (a.max() - a.min())
""",
    "reduced-over-channels": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min(axis=0)) / (a.max(axis=0) - a.min(axis=0))
""",
    "not-detached": """
import numpy as np

def normalize_maps(fm):
    a = fm.float().numpy()
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
    "no-float-cast": """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().numpy().astype(np.float32)
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
    "cast-too-late": """
import torch

def normalize_maps(fm):
    a = fm.detach()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    span = torch.where(high > low, high - low, torch.ones_like(high))
    return ((a - low) / span).float().numpy()
""",
    "nan-on-constant": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low)
""",
    "epsilon-in-the-span": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low + 1e-8)
""",
    "changed-callers-tensor": """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    a -= a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True)
    a /= np.where(span == 0, 1, span)
    return a
""",
}

ALSO_WRONG = [
    "def normalize_maps(fm):\n    return fm.detach().float().numpy()",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(np.isclose(low, high), 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low + 1e-12)
""",
    """
import torch

def normalize_maps(fm):
    a = fm.detach().float()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    return torch.nan_to_num((a - low) / (high - low))
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().double().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=2, keepdims=True), a.max(axis=2, keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    span = np.abs(a).max(axis=(1, 2), keepdims=True)
    return a / np.where(span == 0, 1, span)
""",
    """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(span < 1e-4, 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
    # One row of pixels is squeezed away.
    """
import numpy as np

def normalize_maps(fm):
    v = fm.detach().float().squeeze().numpy()
    axes = tuple(range(1, v.ndim))
    low = v.min(axes, keepdims=True)
    span = v.max(axes, keepdims=True) - low
    return (v - low) / np.where(span == 0, 1, span)
""",
]
