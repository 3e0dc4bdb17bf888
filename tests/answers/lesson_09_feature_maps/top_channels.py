"""Answers to 09-top-channels."""

RIGHT = [
    """
import heapq

def top_channels(fm, k):
    return heapq.nlargest(k, range(len(fm)), key=lambda c: float(fm[c].mean()))
""",
    """
def top_channels(fm, k):
    return fm.mean((1, 2)).topk(k).indices.tolist()
""",
    """
def top_channels(fm, k):
    means = [channel.mean().item() for channel in fm]
    return sorted(range(len(means)), key=means.__getitem__, reverse=True)[:k]
""",
    """
import numpy as np

def top_channels(fm, k):
    return [int(i) for i in np.argsort(-fm.numpy().sum(axis=(1, 2)))[:k]]
""",
]

WRONG = {
    "ranked-by-max": "def top_channels(fm, k):\n    return fm.amax((1, 2)).topk(k).indices.tolist()",
    "ranked-by-abs": "def top_channels(fm, k):\n    return fm.abs().mean((1, 2)).topk(k).indices.tolist()",
    "values-not-indices": "def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).values.tolist()",
    "smallest-first": "def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort()[-k:].tolist()"
    " if k > 1 else fm.mean((1, 2)).argsort()[:1].tolist()",
    "no-python-ints": "def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).indices",
}

ALSO_WRONG = [
    "def top_channels(fm, k):\n    return list(range(k))",
    "def top_channels(fm, k):\n    return fm.flatten(1).median(1).values.topk(k).indices.tolist()",
    "def top_channels(fm, k):\n    return fm.amin((1, 2)).topk(k).indices.tolist()",
    "def top_channels(fm, k):\n    best = fm.mean((1, 2)).topk(k)[1].tolist()\n    fm.zero_()\n    return best",
    "def top_channels(fm, k):\n    return list(fm.mean((1, 2)).topk(k).indices)",
    "def top_channels(fm, k):\n    return fm.mean((1, 2)).abs().topk(k).indices.tolist()",
    "def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort(descending=True).tolist() + [0]",
    "def top_channels(fm, k):\n    return fm.square().mean((1, 2)).topk(k).indices.tolist()",
    "def top_channels(fm, k):\n    return fm.relu().mean((1, 2)).topk(k).indices.tolist()",
    "def top_channels(fm, k):\n    return tuple(fm.mean((1, 2)).topk(k).indices.tolist())",
]
