"""Answers to 09-top-channels."""

from graders.author.answers import Wrong

RIGHT = [
    """
import heapq

def top_channels(fm, k):
    return heapq.nlargest(k, range(len(fm)), key=lambda c: float(fm[c].mean()))
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
    """
def top_channels(fm, k):
    means = {c: fm[c].double().sum().item() / fm[c].numel() for c in range(fm.size(0))}
    best = []
    while len(best) < k:
        best.append(max(means, key=means.get))
        del means[best[-1]]
    return best
""",
]

WRONG = [
    Wrong(
        "remembers a tensor by its identity",
        violates="as often as it likes",
        check="test_a_result_stays_when_fm_changes,_and_the_next_call_sees_the_change",
        source="""
import functools

@functools.lru_cache
def top_channels(fm, k):
    return fm.mean((1, 2)).topk(k).indices.tolist()
""",
    ),
]

SURVIVORS = {
    "almost: means = {c: fm[c].double().sum().item() * fm[c].numel()": "all channels have equally many pixels",
    "another method": "all channels have equally many pixels: sums rank them as means do",
}
