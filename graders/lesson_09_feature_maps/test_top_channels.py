"""Exercise 09-top-channels."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, snapshot


def ranking(values: Tensor, k: int) -> list[int]:
    """The indices of the k largest."""
    found: list[int] = values.argsort(descending=True)[:k].tolist()
    return found


def largest_means(fm: Tensor, k: int) -> Tensor:
    """The k largest means of channels, the largest first."""
    return fm.mean((1, 2)).sort(descending=True).values[:k]


@exercise(
    "09-top-channels",
    points=1,
    title="The strongest channels",
    hints=(
        "`fm.mean((1, 2))` is a tensor with one number for each channel.",
        "`torch.topk(values, k)` returns a pair: the k largest values in descending order, and their indices.",
        "`.tolist()` makes Python ints of a tensor of indices.",
    ),
    cases=({"channels": 9, "k": 3}, {"channels": 6, "k": 1}, {"channels": 5, "k": 5}),
)
class TestTopChannels:
    """Write `top_channels(fm, k)`. `fm` is a detached float32 tensor of shape [C, H, W], and `k` is a number from 1 to
    C. Return a list of k Python ints: the indices of the channels with the largest mean over all their pixels. The
    channel with the largest mean comes first. All means are different. Means are signed: -5 is smaller than 1.

    **Example.** For `fm = tensor([[[9., 0., 0.]], [[4., 4., 4.]], [[-8., -8., -8.]]])` the means are 3, 4 and -8, and
    `top_channels(fm, 2)` is `[1, 0]`.
    """

    def draw(rng, channels, k):
        fm = rng.tensor(channels, 3, 4, low=-1, high=1, away=0.125)
        steps = torch.tensor(rng.shuffled(range(channels))) * 0.5 + 0.625  # no mean is a whole number, like an index
        fm = fm - fm.mean((1, 2), keepdim=True) + steps[:, None, None]
        spike, negative = rng.shuffled(steps.argsort()[:-1].tolist())[:2]
        fm[spike] -= 1.75
        fm[spike, rng.integer(0, 2), rng.integer(0, 3)] += 12
        fm[negative] -= 18 + steps[negative]
        # The largest mean comes from 5 bright pixels of 12: neither the minimum nor the median shows it.
        fm[steps.argmax()] += torch.tensor(rng.shuffled([3.5] * 5 + [-2.5] * 7)).reshape(3, 4)
        return {"fm": fm, "k": k}

    def alive(fm, k):
        means = fm.mean((1, 2))
        gaps = means.sort().values.diff()
        lists = [ranking(values, k) for values in (means, -means, fm.amax((1, 2)), means.abs())]
        lists += [ranking(fm.abs().mean((1, 2)), k), ranking(fm.amax((1, 2)).abs(), k)]
        right, smallest, by_max, *by_abs = lists
        wrong = [smallest, by_max, *by_abs, ranking(fm.amin((1, 2)), k), ranking(fm.flatten(1).median(1).values, k)]
        if k > 1:
            wrong += [ranking(fm.relu().mean((1, 2)), k)] if k == len(fm) else []
            if right[::-1] in wrong[1:] or sorted(right) in [right, right[::-1], *wrong]:
                return False
        return bool(gaps.min() > 0.02) and right not in wrong and by_max not in by_abs

    def probe(student, fm, k):
        before = snapshot(fm)
        return {"channels": student.top_channels(fm, k), "unchanged": torch.equal(fm, before)}

    mistakes = (
        Mistake(
            "ranked-by-max",
            lambda seen, fm, k: seen["channels"].value == ranking(fm.amax((1, 2)), k),
            "You ranked the channels by their largest pixel, and a single spike decides that. Rank them by their mean.",
        ),
        Mistake(
            "ranked-by-abs",
            lambda seen, fm, k: any(
                seen["channels"].value == ranking(values, k)
                for values in (fm.mean((1, 2)).abs(), fm.abs().mean((1, 2)))
            ),
            "You ranked the channels by absolute values, and a strongly negative channel came to the front. Use the "
            "signed mean.",
        ),
        Mistake(
            "values-not-indices",
            lambda seen, fm, k: (
                close(seen["channels"], largest_means(fm, k)) or close(seen["channels"], largest_means(fm, k).tolist())
            ),
            "These are the means of the channels, not their indices. `torch.topk` returns both: values and indices.",
        ),
        Mistake(
            "smallest-first",
            lambda seen, fm, k: (
                seen["channels"].value in (ranking(-fm.mean((1, 2)), k), ranking(fm.mean((1, 2)), k)[::-1])
            ),
            "Your order is ascending. The channel with the largest mean comes first.",
        ),
        Mistake(
            "no-python-ints",
            lambda seen, fm, k: (
                close(seen["channels"], torch.tensor(ranking(fm.mean((1, 2)), k)).double())
                or close(seen["channels"], ranking(fm.mean((1, 2)), k))
                or (len(seen["channels"]) == k and not any(type(one.value) in (int, float) for one in seen["channels"]))
            ),
            "The contract asks for a list of Python ints, not for a tensor, an array, or a list of such. `.tolist()` "
            "makes one.",
        ),
    )

    def test_the_channels_with_the_largest_means_come_first(seen, fm, k):
        expect(seen["channels"]).equals(ranking(fm.mean((1, 2)), k))

    def test_the_tensor_passed_in_is_unchanged(seen):
        expect(seen["unchanged"]).is_true("the tensor that the caller passed is not the same as before the call")
