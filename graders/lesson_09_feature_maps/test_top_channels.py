"""Exercise 09-top-channels."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    changes,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
)

COUNTS = {"one": (6, 1), "some": (9, 3), "most": (14, 11), "all": (5, 5)}
"""How many channels there are, and how many of them are asked for."""
STEPS = {"wide": 2.0**-1, "narrow": 2.0**-12}
"""How far neighbouring means are apart. Rounding to float32 hides neither."""
FINER = 2.0**-20
"""Narrow steps of a float64 tensor are smaller by this factor: then float32 hides them."""

FAR_BELOW = torch.tensor([[[-2e30]], [[-3e30]], [[-1e30]]], dtype=torch.float64)
"""No number stands for "already taken", unless it is minus infinity."""


def ranking(values: Tensor, k: int) -> list[int]:
    """The indices of the k largest."""
    found: list[int] = values.argsort(descending=True)[:k].tolist()
    return found


def rankings(values: Tensor, k: int) -> list[list[int]]:
    """The same as people find it: of values that are equal the first comes first, or the last, or any."""
    orders = (values.argsort(descending=True, stable=True), values.argsort(stable=True).flip(0), values.topk(k).indices)
    return [order[:k].tolist() for order in orders]


def largest_means(fm: Tensor, k: int) -> Tensor:
    """The k largest means of channels, the largest first."""
    return fm.mean((1, 2)).sort(descending=True).values[:k]


def nearly(seen: Seen, fm: Tensor, k: int) -> bool:
    """Whether these are other channels than the right ones, or in another order, with nearly the same means."""
    means, channels = fm.mean((1, 2)), expect(seen).list_of(int)
    return channels != ranking(means, k) and torch.allclose(means[channels], largest_means(fm, k), 1e-6, 1e-6)


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
    circumstances=Circumstances(
        covers={"dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL},
        excludes={
            "rank": "maps have three dimensions",
            "place": "the tensor is detached",
            "grad": "the tensor is detached",
            "number": "k has an axis of its own",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooks": "no gradient flows",
            "hooked": "no gradient flows",
            "call": "every probe calls it on two tensors",
            "grad_mode": "no graph is recorded",
            "backward": "there is no pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"asked": tuple(COUNTS), "means": tuple(STEPS), "signs": ("mixed", "negative")},
        pairs=[("dtype", "means")],
    ),
)
class TestTopChannels:
    """Write `top_channels(fm, k)`. `fm` is a detached tensor of shape [C, H, W], each 1 or more, and `k` is from 1 to
    C. Return a list of k Python ints: the indices of the k channels with the largest mean over all their pixels, the
    largest first. Means are signed: -5 is smaller than 1. No two are equal, also when they are computed in the dtype of
    `fm`.

    **Example.** For `fm = tensor([[[9., 0., 0.]], [[4., 4., 4.]], [[-8., -8., -8.]]])` the means are 3, 4 and -8, and
    `top_channels(fm, 2)` is `[1, 0]`.
    """

    def draw(rng, dtype, values, asked, means, signs):
        channels, k = COUNTS[asked]
        fm = rng.tensor(channels, 3, 4, dtype="float64", low=-1, high=1, away=0.125, values=values)
        step = STEPS[means] * (FINER if dtype == "float64" and means == "narrow" else 1)
        steps = torch.tensor(rng.shuffled(range(channels)), dtype=torch.float64) * step + 0.625
        fm = fm - fm.mean((1, 2), keepdim=True) + steps[:, None, None]
        spike, negative = rng.shuffled(steps.argsort()[:-1].tolist())[:2]
        fm[spike] -= 1.75
        fm[spike, rng.integer(0, 2), rng.integer(0, 3)] += 12
        fm[negative] -= 18 + steps[negative]
        # The largest mean comes from 5 bright pixels of 12: neither the minimum nor the median shows it.
        fm[steps.argmax()] += torch.tensor(rng.shuffled([3.5] * 5 + [-2.5] * 7)).reshape(3, 4)
        fm = fm - 25 if signs == "negative" else fm
        return {"fm": fm.to(getattr(torch, dtype)), "k": k}

    def alive(fm, k):
        each = fm.mean((1, 2))
        right, gaps = ranking(each, k), each.sort().values.diff()
        rounded = [part.float().mean((1, 2)) for part in (fm, laid_out(fm, "transposed"), laid_out(fm, "slice"))]
        if gaps.min() < 1e-6 and any(right in rankings(part, k) for part in rounded):
            return False  # rounding has to show, in whatever order somebody adds up or ranks equal means
        parts = [
            ranking(part, k)
            for part in (
                fm.amax((1, 2)),
                fm.amin((1, 2)),
                fm.flatten(1).median(1).values,
                fm[:, -1].mean(1),
                fm[..., -1].mean(1),
            )
        ]
        by_abs = [ranking(part, k) for part in (fm.abs().mean((1, 2)), each.abs(), fm.square().mean((1, 2)))]
        return bool(
            gaps.min() > (1e-10 if fm.dtype == torch.float64 else 1e-4)
            and right not in [*parts, *by_abs, ranking(-each, k)]
            and parts[0] not in by_abs
            and (k == 1 or (right[::-1] not in parts and sorted(right) not in [right, right[::-1], *parts, *by_abs]))
        )

    def probe(student, fm, k, layout):
        fm, other = laid_out(fm, layout), laid_out(-fm.flip(0), layout)
        witness = Witness(fm=fm)
        channels = student.top_channels(fm, k)
        seen = {
            "channels": channels,
            "of another tensor": student.top_channels(other, k),
            "again": student.top_channels(fm, k),
            "example": student.top_channels(torch.tensor([[[9.0, 0, 0]], [[4.0, 4, 4]], [[-8.0, -8, -8]]]), 2),
            "changed": witness.changes(),
        }
        fm.neg_()
        large = torch.zeros(3, 99, 101)
        large[0, :90], large[1, :, :90], large[2, -2:] = 1, 2, 100
        return {
            **seen,
            "of the same tensor, changed in place": student.top_channels(fm, k),
            "of maps of 99 by 101 pixels": student.top_channels(large, 3),
            "of values far below 0": student.top_channels(FAR_BELOW.clone(), 3),
            "of one pixel each": student.top_channels(torch.tensor([[[-98.0]], [[-100.0]], [[-97.0]]]), 3),
        }

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
            "sorted-by-index",
            lambda seen, fm, k: SILENT if k == 1 else seen["channels"].value == sorted(ranking(fm.mean((1, 2)), k)),
            "These are the right channels, in the order of their indices. The one with the largest mean comes first.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: bool(changes(seen["changed"], "values fm")),
            "You changed the caller's tensor, so another call finds other values. Work with the means, or with a copy: "
            "`fm.clone()`.",
        ),
        Mistake(
            "rounded-means",
            lambda seen, fm, k: (
                fm.dtype == torch.float64
                and any(
                    nearly(seen[which], part, k)
                    for which, part in (
                        ("channels", fm),
                        ("of another tensor", -fm.flip(0)),
                        ("of the same tensor, changed in place", -fm),
                    )
                )
            ),
            "The means that you compared were rounded. Here `fm` is in `float64`, and its means differ in the tenth "
            "digit only: compute them in `float64`.",
        ),
        Mistake(
            "no-python-ints",
            lambda seen, fm, k: (
                seen["channels"].value != ranking(fm.mean((1, 2)), k)
                and (
                    close(seen["channels"], torch.tensor(ranking(fm.mean((1, 2)), k)).double())
                    or close(seen["channels"], ranking(fm.mean((1, 2)), k))
                    or (
                        len(seen["channels"]) == k
                        and not any(type(entry.value) in (int, float) for entry in seen["channels"])
                    )
                )
            ),
            "The contract asks for a list of Python ints, not for a tensor, an array, or a list of such. `.tolist()` "
            "makes one.",
        ),
    )

    def test_the_channels_with_the_largest_means_come_first(seen, fm, k):
        expect(seen["channels"]).equals(ranking(fm.mean((1, 2)), k))

    def test_every_tensor_has_its_own_ranking(seen, fm, k):
        expect(seen["of another tensor"]).equals(ranking(-fm.flip(0).mean((1, 2)), k))
        expect(seen["again"]).equals(ranking(fm.mean((1, 2)), k))
        expect(seen["of the same tensor, changed in place"]).equals(ranking(-fm.mean((1, 2)), k))
        expect(seen["of maps of 99 by 101 pixels"]).equals([2, 1, 0])
        expect(seen["of one pixel each"]).equals([2, 0, 1])
        expect(seen["of values far below 0"]).equals([2, 0, 1])
        expect(seen["example"]).equals([1, 0])

    def test_the_tensor_passed_in_is_unchanged(seen):
        nothing_changed(seen["changed"])
