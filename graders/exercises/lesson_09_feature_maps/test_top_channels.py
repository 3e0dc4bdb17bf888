"""Exercise 09-top-channels."""

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import feature_maps


@exercise(
    "09-top-channels",
    points=1,
    minutes=5,
    difficulty=1,
    title="The strongest channels",
    hints=(
        "`fm.mean((1, 2))` is a tensor with one number for each channel.",
        "`torch.topk(values, k)` returns a pair: the k largest values in descending order, and their indices.",
        "`.tolist()` turns a tensor of indices into Python ints.",
    ),
    why=(
        "`topk` sorts no more than it has to, and its indices are the channels. "
        "`argsort(descending=True)[:k]` would do as well, and so would Python's `sorted` with the means as "
        "`key`."
    ),
    scene=stories(
        promises={
            "the channels with the largest means come first": feature_maps.made,
            "nothing of the caller changes": feature_maps.left_alone,
            "a result stays when fm changes, and the next call sees the change": feature_maps.made_again,
        },
        axes=feature_maps.RANKED,
        values=feature_maps.ranked_maps,
        arguments=feature_maps.how_many,
    ),
)
class TestTopChannels:
    """Write `top_channels(fm, k)`: return the indices of the `k` channels of `fm`, [C, H, W], that have the largest
    mean over all their pixels, as a list of Python ints, the largest first.

    **Example.**

    >>> fm = torch.tensor([[[9.0, 0.0, 0.0]], [[4.0, 4.0, 4.0]], [[-8.0, -8.0, -8.0]]])  # means: 3, 4, -8
    >>> top_channels(fm, 2)
    [1, 0]

    **Fine print.** `fm` is detached, float32 or float64, and `k` is from 1 to C. Means keep their sign (-5 is
    smaller than 1), and no two are equal, even when they are computed in the dtype of `fm`.
    """

    def reference(fm, k):
        means = [sum(channel.double().flatten().tolist()) / channel.numel() for channel in fm]
        return sorted(range(len(means)), key=lambda channel: means[channel], reverse=True)[:k]

    class Mistakes:
        def ranked_by_max(fm, k):
            """You ranked the channels by their largest pixel, and a single spike decides that. Rank them by their
            mean.
            """
            return fm.amax((1, 2)).topk(k).indices.tolist()

        def ranked_by_max__2(fm, k):
            return fm.amax((1, 2)).argsort(descending=True)[:k].tolist()

        def ranked_by_median(fm, k):
            """You ranked the channels by their medians. Rank them by their mean: `fm.mean((1, 2))`."""
            return fm.flatten(1).median(1).values.topk(k).indices.tolist()

        def ranked_by_spread(fm, k):
            """You ranked the channels by how far their pixels spread. Rank them by their mean: `fm.mean((1, 2))`."""
            return fm.flatten(1).std(1).topk(k).indices.tolist()

        def only_positive_values(fm, k):
            """You left negative pixels out of the means. All pixels count, with their sign."""
            return fm.relu().mean((1, 2)).topk(k).indices.tolist()

        def rounded_to_float32(fm, k):
            """You rounded `fm` to float32, in which some of these means are equal. Compute in the dtype of `fm`: leave
            out `.float()`.
            """
            return fm.float().mean((1, 2)).topk(k).indices.tolist()

        def all_channels(fm, k):
            """You returned all channels in their order. Return only the first `k`."""
            return fm.mean((1, 2)).argsort(descending=True).tolist()

        def counted_from_one(fm, k):
            """Your indices count from 1. The first channel is `fm[0]`, with the index 0."""
            return [index + 1 for index in fm.mean((1, 2)).topk(k).indices.tolist()]

        def ranked_by_abs(fm, k):
            """You ranked the channels by absolute values, squares or norms, and a strongly negative channel came to the
            front. Use the signed mean: `fm.mean((1, 2))`.
            """
            return fm.abs().mean((1, 2)).topk(k).indices.tolist()

        def ranked_by_abs__2(fm, k):
            return fm.mean((1, 2)).abs().topk(k).indices.tolist()

        def ranked_by_abs__3(fm, k):
            return fm.flatten(1).norm(dim=1).topk(k).indices.tolist()

        def means_over_the_channels(fm, k):
            """You took the mean over the channels, one for each pixel. Take it over H and W, so that each channel has
            one: `fm.mean((1, 2))`.
            """
            return fm.mean(0).flatten().topk(k).indices.tolist()

        def ranked_pixels(fm, k):
            """You ranked single pixels, so these are indices of pixels. Take the mean of each channel first:
            `fm.mean((1, 2))`.
            """
            return fm.flatten().topk(k).indices.tolist()

        def sorted_by_index(fm, k):
            """These are the right channels, but you sorted their indices. Keep the order of `topk`: the channel with
            the largest mean comes first.
            """
            return sorted(fm.mean((1, 2)).topk(k).indices.tolist())

        def pairs_not_indices(fm, k):
            """You returned pairs of an index and a mean. Return only the indices."""
            means = enumerate(fm.mean((1, 2)).tolist())
            return sorted(means, key=lambda pair: pair[1], reverse=True)[:k]

        def values_not_indices(fm, k):
            """These are the means of the channels, not their indices. `torch.topk` returns both: values and indices."""
            return fm.mean((1, 2)).topk(k).values.tolist()

        def smallest_first(fm, k):
            """Your order is ascending. The channel with the largest mean comes first."""
            return fm.mean((1, 2)).argsort()[:k].tolist()

        def smallest_first__2(fm, k):
            return fm.mean((1, 2)).argsort()[-k:].tolist()

        def means_over_the_width(fm, k):
            """You took the mean over the width alone, so each row of a channel has a mean of its own. Take it over H
            and W, so that each channel has one: `fm.mean((1, 2))`.
            """
            return fm.mean(-1).squeeze().topk(k, dim=0).indices.tolist()

        def no_python_ints(fm, k):
            """The contract asks for a list of Python ints, not for a tensor, an array, or a list of those. `.tolist()`
            makes one.
            """
            return fm.mean((1, 2)).topk(k).indices

        def no_python_ints__2(fm, k):
            return list(fm.mean((1, 2)).topk(k).indices)

        def no_python_ints__3(fm, k):
            return list(fm.mean((1, 2)).numpy().argsort()[::-1][:k])

        def one_too_few(fm, k):
            """Your list is one channel short. A slice ends before its second index: `[:k]` has `k` entries, `[:-k:-1]`
            has one less.
            """
            return fm.mean((1, 2)).argsort().tolist()[:-k:-1]
