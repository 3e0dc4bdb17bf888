"""Exercise 09-normalize-maps."""

import numpy as np
import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import feature_maps


def scaled(values, axes=(1, 2), flat=0.0, least=0.0):
    """From 0 to 1 over these axes; `flat` where the span is not larger than `least`."""
    low, high = values.min(axis=axes, keepdims=True), values.max(axis=axes, keepdims=True)
    return np.where(high - low <= least, flat, (values - low) / np.where(high == low, 1, high - low))


def as_array(fm):
    """In float32, as another array than the tensor's."""
    return fm.detach().float().numpy().copy()


def scaled_with(fm, epsilon):
    """With a small number in the span."""
    values = as_array(fm) - as_array(fm).min(axis=(1, 2), keepdims=True)
    return values / (values.max(axis=(1, 2), keepdims=True) + epsilon)


def scaled_in_place(fm):
    """In the tensor's own memory, where that is float32."""
    values = fm.detach().float().numpy()
    values -= values.min(axis=(1, 2), keepdims=True)
    span = values.max(axis=(1, 2), keepdims=True)
    values /= np.where(span == 0, 1, span)
    return values


@exercise(
    "09-normalize-maps",
    points=1,
    minutes=10,
    difficulty=1,
    title="Every map from 0 to 1",
    hints=(
        "Detach, then `.float()`, then `.numpy()`. With `keepdims=True` (or `keepdim=True`) the minima have the shape "
        "[C, 1, 1] and can be subtracted from all pixels at once.",
        "Where the span `max - min` is 0, divide by 1 instead: `np.where(span == 0, 1, span)`. The channel is 0 "
        "already, because its minimum has been subtracted.",
        "Do not add a small number to the span. There are maps whose whole range is smaller than your small number.",
    ),
    why=(
        "After `.float()` numpy can take the maps whatever their dtype, and dividing by 1 where the span is 0"
        " leaves a flat map at 0. Doing it all in torch and calling `.numpy()` at the end would do as well, "
        "and so would `np.nan_to_num` for the flat ones."
    ),
    scene=stories(
        promises={
            "every channel goes from 0 to 1": feature_maps.made,
            "a result stays when fm changes, and the next call sees the change": feature_maps.made_again,
            "nothing of the caller changes": feature_maps.left_alone,
        },
        axes=feature_maps.SCALED,
        values=feature_maps.of_many_sizes,
        arguments=feature_maps.nothing_more,
    ),
)
class TestNormalizeMaps:
    """Write `normalize_maps(fm)`: return a numpy array of dtype float32 and the shape of `fm`, [C, H, W], in which each
    channel goes from 0 to 1: `v` becomes `(v - min) / (max - min)`, with the minimum and the maximum of that channel.

    **Example.**

    >>> normalize_maps(torch.tensor([[[1.0, 2.0, 5.0]], [[7.0, 7.0, 7.0]]]))
    array([[[0.  , 0.25, 1.  ]],
           [[0.  , 0.  , 0.  ]]], dtype=float32)

    **Fine print.** `fm` has any floating-point dtype, even `float16` or `bfloat16`, and may require grad. The array
    shares no memory with it. A constant channel becomes 0 everywhere; in others `max - min` may be as small
    as 1e-30. Compute in float32 or better; you may round `fm` to float32 first.
    """

    def reference(fm):
        fm = fm.detach().double()
        low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
        return torch.where(high > low, (fm - low) / (high - low), 0.0).float().numpy()

    class Mistakes:
        def one_range_for_all(fm):
            """You used one minimum and one maximum for all channels. Each channel has its own: take them over H and W
            only, with `axis=(1, 2), keepdims=True`.
            """
            return scaled(as_array(fm), axes=(0, 1, 2))

        def one_maximum_for_all(fm):
            """You divided all channels by one number, the largest of all of them. Each channel has its own: take the
            maximum over H and W only, with `axis=(1, 2), keepdims=True`.
            """
            values = as_array(fm) - as_array(fm).min(axis=(1, 2), keepdims=True)
            return values / (values.max() or 1)

        def ranges_over_channels(fm):
            """You took minimum and maximum over the channels, one for each pixel. Each channel has its own: take them
            over H and W, with `axis=(1, 2), keepdims=True`.
            """
            return scaled(as_array(fm), axes=0)

        def minimum_not_subtracted(fm):
            """You divided by the maximum without subtracting the minimum first. `(v - min) / (max - min)` goes from 0
            to 1.
            """
            values = as_array(fm)
            high = values.max(axis=(1, 2), keepdims=True)
            return values / np.where(high == 0, 1, high)

        def absolute_values(fm):
            """You took absolute values first. Scale the values with their sign: `(v - min) / (max - min)`."""
            return scaled(abs(as_array(fm)))

        def divided_by_the_maximum(fm):
            """You subtracted the minimum, but divided by the maximum. Divide by the span: `max - min`."""
            values = as_array(fm)
            low, high = values.min(axis=(1, 2), keepdims=True), values.max(axis=(1, 2), keepdims=True)
            return (values - low) / np.where(high == 0, 1, high)

        def standardized(fm):
            """You subtracted the mean and divided by the standard deviation. Each channel has to go from 0 to 1:
            subtract its minimum, and divide by `max - min`.
            """
            values = as_array(fm)
            std = values.std(axis=(1, 2), keepdims=True)
            return (values - values.mean(axis=(1, 2), keepdims=True)) / np.where(std == 0, 1, std)

        def from_minus_one(fm):
            """Your channels go from -1 to 1. They have to go from 0 to 1: `(v - min) / (max - min)`."""
            return 2 * scaled(as_array(fm)) - 1

        def up_to_255(fm):
            """Your channels go from 0 to 255. They have to go from 0 to 1: `(v - min) / (max - min)`."""
            return 255 * scaled(as_array(fm))

        def clamped(fm):
            """You cut off what lies below 0 and above 1. Scale each channel: `(v - min) / (max - min)`."""
            return as_array(fm).clip(0, 1)

        def each_row_by_itself(fm):
            """You took minimum and maximum of each row. Take those of the whole channel, over H and W:
            `axis=(1, 2), keepdims=True`.
            """
            return scaled(as_array(fm), axes=2)

        def constant_stays(fm):
            """A constant channel keeps its value in your result. It has to become 0 everywhere."""
            values = as_array(fm)
            flat = values.min(axis=(1, 2), keepdims=True) == values.max(axis=(1, 2), keepdims=True)
            return np.where(flat, values, scaled(values))

        def constant_is_one(fm):
            """A constant channel becomes 1 in your result. It has to become 0 everywhere."""
            return scaled(as_array(fm), flat=1.0)

        def no_keepdims(fm):
            """Your minima have the shape [C], and they don't line up with [C, H, W]. With `keepdims=True` in numpy, or
            `keepdim=True` in torch, they have the shape [C, 1, 1].
            """
            values = as_array(fm)
            return values - values.min(axis=(1, 2))

        def no_keepdims__2(fm):
            values = fm.detach().float()
            return (values - values.amin((1, 2))).numpy()

        def not_detached(fm):
            """A tensor that requires grad has no `.numpy()`, because numpy would know nothing about its graph. Call
            `.detach()` first.
            """
            return scaled(fm.float().numpy())

        def no_float_cast(fm):
            """Numpy has no bfloat16, so `.numpy()` fails on such a tensor. Call `.float()` first, then `.numpy()`."""
            return scaled(fm.detach().numpy().astype(np.float32))

        def cast_too_late(fm):
            """You subtracted and divided in half precision, which keeps only two or three digits, and turned the
            rounded result into float32. Call `.float()` first.
            """
            fm = fm.detach()
            low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
            return ((fm - low) / torch.where(high > low, high - low, 1)).float().numpy()

        def nan_on_constant(fm):
            """A constant channel has the span 0, and 0 / 0 is NaN. Divide by 1 where the span is 0."""
            return scaled(as_array(fm), flat=np.nan)

        def epsilon_in_the_span(fm):
            """The largest value of a weak channel does not become 1. You added a small number to the span, and for this
            channel it is not small. Treat the span 0 separately instead.
            """
            return scaled_with(fm, 1e-8)

        def epsilon_in_the_span__2(fm):
            return scaled_with(fm, 1e-5)

        def epsilon_in_the_span__3(fm):
            return scaled_with(fm, 1e-6)

        def epsilon_in_the_span__4(fm):
            return scaled_with(fm, 1e-7)

        def epsilon_in_the_span__5(fm):
            return scaled_with(fm, 1e-9)

        def epsilon_in_the_span__6(fm):
            return scaled_with(fm, 1e-12)

        def taken_for_constant(fm):
            """A channel whose values differ became 0 everywhere, or nearly so: its span is very small, and you took it
            for 0, or for larger than it is, as `clamp(min=1e-12)` does. Only a span of exactly 0 is special.
            """
            return scaled(as_array(fm), least=1e-8)

        def changed_callers_tensor(fm):
            """You changed the caller's tensor. `.detach()`, `.float()` on float32 and `.numpy()` share its memory, so
            `-=` and `/=` write into it. Compute new arrays: `a - low`, not `a -= low`.
            """
            return scaled_in_place(fm)

        def changed_callers_tensor__2(fm):
            return scaled_in_place(fm).copy()

        def not_float32(fm):
            return scaled(fm.detach().double().numpy())
