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

RANKED = "def top_channels(fm, k):\n    return ({}).topk(k).indices.tolist()"

WRONG = [
    Wrong(
        "-1000 stands for a channel that is taken",
        violates="with the largest mean over all their pixels",
        check="test_every_tensor_has_its_own_ranking",
        source="""
def top_channels(fm, k):
    means, found = fm.mean((1, 2)), []
    for _ in range(k):
        found.append(int(means.argmax()))
        means[found[-1]] = -1000
    return found
""",
    ),
    Wrong(
        "the right channels by their indices",
        violates="the largest first",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="sorted-by-index",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).indices.sort().values.tolist()",
    ),
    Wrong(
        "takes channels out of the caller's tensor",
        violates="rule 2: Tensors keep their values",
        check="test_every_tensor_has_its_own_ranking",
        mistake="changed-callers-tensor",
        source="""
import torch

def top_channels(fm, k):
    found = []
    for _ in range(k):
        found.append(int(fm.mean((1, 2)).argmax()))
        fm[found[-1]] = -torch.inf
    return found
""",
    ),
    Wrong(
        "leaves strongly negative channels out",
        violates="Return a list of k Python ints",
        check="test_every_tensor_has_its_own_ranking",
        source="""
def top_channels(fm, k):
    means = fm.double().mean((1, 2)).tolist()
    return [means.index(mean) for mean in sorted(means, reverse=True) if mean > -50][:k]
""",
    ),
    Wrong(
        "ranked by the largest pixel",
        violates="with the largest mean over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="ranked-by-max",
        source=RANKED.format("fm.amax((1, 2))"),
    ),
    Wrong(
        "ranked by the mean of absolute values",
        violates="Means are signed: -5 is smaller than 1.",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="ranked-by-abs",
        source=RANKED.format("fm.abs().mean((1, 2))"),
    ),
    Wrong(
        "ranked by the absolute mean",
        violates="Means are signed: -5 is smaller than 1.",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="ranked-by-abs",
        source=RANKED.format("fm.mean((1, 2)).abs()"),
    ),
    Wrong(
        "the means themselves",
        violates="the indices of the k channels",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="values-not-indices",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).values.tolist()",
    ),
    Wrong(
        "the smallest first",
        violates="the largest first",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="smallest-first",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort()[:k].tolist()",
    ),
    Wrong(
        "the right channels, the largest last",
        violates="the largest first",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).indices.tolist()[::-1]",
    ),
    Wrong(
        "in the order of their indices",
        violates="the largest first",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return sorted(fm.mean((1, 2)).topk(k).indices.tolist())",
    ),
    Wrong(
        "a tensor of indices",
        violates="a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="no-python-ints",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).indices",
    ),
    Wrong(
        "a list of tensors",
        violates="a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="no-python-ints",
        source="def top_channels(fm, k):\n    return list(fm.mean((1, 2)).topk(k).indices)",
    ),
    Wrong(
        "a tuple",
        violates="a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return tuple(fm.mean((1, 2)).topk(k).indices.tolist())",
    ),
    Wrong(
        "the first channels",
        violates="with the largest mean over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return list(range(k))",
    ),
    Wrong(
        "the median",
        violates="with the largest mean over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm.flatten(1).median(1).values"),
    ),
    Wrong(
        "the smallest pixel",
        violates="with the largest mean over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm.amin((1, 2))"),
    ),
    Wrong(
        "the mean of the last row",
        violates="over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm[:, -1].mean(1)"),
    ),
    Wrong(
        "squares",
        violates="with the largest mean over all their pixels",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm.square().mean((1, 2))"),
    ),
    Wrong(
        "negative pixels count as 0",
        violates="Means are signed",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm.relu().mean((1, 2))"),
    ),
    Wrong(
        "all channels, and one more",
        violates="a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort(descending=True).tolist() + [0]",
    ),
    Wrong(
        "five at most",
        violates="a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        source="def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(min(k, 5)).indices.tolist()",
    ),
    Wrong(
        "means rounded to two digits",
        violates="No two are equal",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("(fm.mean((1, 2)) * 100).round()"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_channels_with_the_largest_means_come_first",
        source=RANKED.format("fm.float().mean((1, 2))"),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=RANKED.format("fm.view(len(fm), -1).mean(1)"),
    ),
    Wrong(
        "remembers a tensor by its shape",
        violates="rule 1: however often it is called",
        check="test_every_tensor_has_its_own_ranking",
        source="""
known = {}
def top_channels(fm, k):
    if (fm.shape, k) not in known:
        known[fm.shape, k] = fm.mean((1, 2)).topk(k).indices.tolist()
    return known[fm.shape, k]
""",
    ),
    Wrong(
        "clears the tensor",
        violates="rule 2: Tensors keep their values",
        check="test_the_tensor_passed_in_is_unchanged",
        source="""
def top_channels(fm, k):
    best = fm.mean((1, 2)).topk(k).indices.tolist()
    fm.zero_()
    return best
""",
    ),
    Wrong(
        "at most ten",
        violates="Return a list of k Python ints",
        check="test_the_channels_with_the_largest_means_come_first",
        source="""
def top_channels(fm, k):
    return fm.mean((1, 2)).topk(min(k, 10)).indices.tolist()
""",
    ),
]

WRONG += [
    Wrong(
        "remembers a tensor by its identity",
        violates="rule 1: however often it is called",
        check="test_every_tensor_has_its_own_ranking",
        source="""
import functools

@functools.lru_cache
def top_channels(fm, k):
    return fm.mean((1, 2)).topk(k).indices.tolist()
""",
    ),
    Wrong(
        "means in float32",
        violates="No two are equal, also when they are computed in the dtype of `fm`.",
        check="test_the_channels_with_the_largest_means_come_first",
        mistake="rounded-means",
        source=RANKED.format("fm.float().mean((1, 2))"),
    ),
    Wrong(
        "looks at the first rows and columns",
        violates="with the largest mean over all their pixels",
        check="test_every_tensor_has_its_own_ranking",
        source=RANKED.format("fm[:, :64, :64].mean((1, 2))"),
    ),
]

GIVENS = [
    "Write `top_channels(fm, k)`.",
    "`fm` is a detached tensor of shape [C, H, W]",
]

SURVIVORS = {
    "another method: return [int(i) for i in np.argsort(-fm.numpy().mean(": "means rank channels as sums do",
    "another method: means = {c: fm[c].double().mean()": "all channels have equally many pixels",
    "not for all: means = ": "all of them, in the reverse order",
    "at least one dimension": "maps have three",
    "another method: return fm.sum(": "all channels have equally many pixels: sums rank them as means do",
    "another method: return heapq.nlargest(k, range(len(fm)), key=lambda c: float(fm[c].sum()": "the same",
    "another method: means = [channel.sum()": "the same",
    "almost: means = {c: fm[c].double().sum().item() * fm[c].numel()": "all channels have equally many pixels",
    "under no_grad": "the maps are detached",
}
