"""Exercise 09-top-channels."""

from __future__ import annotations

import torch

from graders.authoring import exercise
from graders.scenes.maps import a_few, makes_of_maps, ranked


def top(values, k):
    """The indices of the k largest."""
    return values.topk(k).indices.tolist()


@exercise(
    "09-top-channels",
    points=1,
    minutes=5,
    difficulty=1,
    title="The strongest channels",
    hints=(
        "`fm.mean((1, 2))` is a tensor with one number for each channel.",
        "`torch.topk(values, k)` returns a pair: the k largest values in descending order, and their indices.",
        "`.tolist()` makes Python ints of a tensor of indices.",
    ),
    why=(
        "`topk` sorts no more than it has to, and its indices are the channels. "
        "`argsort(descending=True)[:k]` would do as well, and so would Python's `sorted` with the means as "
        "`key`."
    ),
    scene=makes_of_maps(
        draw=ranked,
        ask=a_few,
        only={
            "dtype": ("float32", "float64"),
            "asked": ("some", "one", "most", "all"),
            "means": ("narrow", "wide"),
            "signs": ("mixed", "negative"),
        },
        words={"task": "the channels with the largest means come first"},
    ),
)
class TestTopChannels:
    """Write `top_channels(fm, k)`: return the indices of the `k` channels of `fm`, [C, H, W], that have the largest
    mean over all their pixels, as a list of Python ints, the largest first.

    **Example.**

    >>> fm = torch.tensor([[[9.0, 0.0, 0.0]], [[4.0, 4.0, 4.0]], [[-8.0, -8.0, -8.0]]])  # means: 3, 4, -8
    >>> top_channels(fm, 2)
    [1, 0]

    **Fine print.** `fm` is detached, and `k` is from 1 to C. Means are signed: -5 is smaller than 1. No two are equal,
    also when they are computed in the dtype of `fm`.
    """

    def reference(fm, k):
        means = [sum(channel.double().flatten().tolist()) / channel.numel() for channel in fm]
        return sorted(range(len(means)), key=lambda channel: means[channel], reverse=True)[:k]

    class Mistakes:
        def ranked_by_max(fm, k):
            """You ranked the channels by their largest pixel, and a single spike decides that. Rank them by their
            mean.
            """
            return top(fm.amax((1, 2)), k)

        def ranked_by_abs(fm, k):
            """You ranked the channels by absolute values, and a strongly negative channel came to the front. Use the
            signed mean.
            """
            return top(fm.mean((1, 2)).abs(), k)

        def ranked_by_abs__2(fm, k):
            return top(fm.abs().mean((1, 2)), k)

        def ranked_by_abs__3(fm, k):
            return top(fm.square().mean((1, 2)), k)

        def not_all_pixels(fm, k):
            """You took the mean over one dimension only, or over a part of the pixels. `fm.mean((1, 2))` takes it over
            height and width.
            """
            return top(fm[:, -1].mean(1), k)

        def not_all_pixels__2(fm, k):
            return top(fm[:, 0].mean(1), k)

        def values_not_indices(fm, k):
            """These are the means of the channels, not their indices. `torch.topk` returns both: values and indices."""
            return fm.mean((1, 2)).topk(k).values.tolist()

        def values_not_indices__2(fm, k):
            return fm.mean((1, 2)).topk(k).values

        def smallest_first(fm, k):
            """Your order is ascending. The channel with the largest mean comes first."""
            return fm.mean((1, 2)).argsort()[:k].tolist()

        def smallest_first__2(fm, k):
            return fm.mean((1, 2)).argsort()[-k:].tolist()

        def sorted_by_index(fm, k):
            """These are the right channels, in the order of their indices. The one with the largest mean comes
            first.
            """
            return sorted(top(fm.mean((1, 2)), k))

        def changed_callers_tensor(fm, k):
            """You changed the caller's tensor, so another call finds other values. Work with the means, or with a copy:
            `fm.clone()`.
            """
            found = []
            for _ in range(k):
                found.append(int(fm.mean((1, 2)).argmax()))
                fm[found[-1]] = -torch.inf
            return found

        def rounded_means(fm, k):
            """The means that you compared were rounded. Here `fm` is in `float64`, and its means differ in the tenth
            digit only: compute them in `float64`.
            """
            return top(fm.float().mean((1, 2)), k)

        def no_python_ints(fm, k):
            """The contract asks for a list of Python ints, not for a tensor, an array, or a list of such. `.tolist()`
            makes one.
            """
            return fm.mean((1, 2)).topk(k).indices

        def no_python_ints__2(fm, k):
            return list(fm.mean((1, 2)).topk(k).indices)

        def no_python_ints__3(fm, k):
            return tuple(top(fm.mean((1, 2)), k))

        def negative_left_out(fm, k):
            """Channels with a negative mean are missing, or count as 0. Means are signed: the largest of them may be
            negative, too.
            """
            return top(fm.mean((1, 2)).clamp(min=0), k)

        def negative_left_out__2(fm, k):
            means = fm.mean((1, 2)).tolist()
            return [means.index(mean) for mean in sorted(means, reverse=True) if mean > 0][:k]
