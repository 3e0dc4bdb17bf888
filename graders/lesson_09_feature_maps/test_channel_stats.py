"""Exercise 09-channel-stats."""

from __future__ import annotations

import contextlib

import torch

from graders.authoring import exercise
from graders.lesson_09_feature_maps.programs import without_gradients
from graders.scenes.over_batches import in_float64, of_a_layer, over_batches


def rows_of(output):
    """A copy of the values in float64, a row for each channel."""
    return output.detach().double().transpose(0, 1).flatten(1).clone()


def parts_of(model, layer, batches, rows=rows_of, **how):
    """The rows of each call of the layer."""
    parts = []
    without_gradients(model, layer, batches, lambda name, args, output: parts.append(rows(output)), **how)
    return parts


def described(rows, correction=0, is_zero=lambda rows: rows == 0):
    """The three statistics of rows."""
    var = rows.var(1, correction=correction)
    return {"mean": rows.mean(1), "var": var, "zero_frac": is_zero(rows).double().mean(1)}


def averaged(parts, weights):
    """The statistics of each part by itself, averaged."""
    each = [described(part) for part in parts]
    weighed = {name: sum(one[name] * weight for one, weight in zip(each, weights)) for name in each[0]}
    return {name: value / sum(weights) for name, value in weighed.items()}


def stats(model, layer, batches, rows=rows_of, how=None, **options):
    """The three statistics of all calls together."""
    return described(torch.cat(parts_of(model, layer, batches, rows, **(how or {})), 1), **options)


@exercise(
    "09-channel-stats",
    points=3,
    minutes=30,
    difficulty=3,
    title="Statistics of every channel, batch by batch",
    hints=(
        "In the hook, add to three sums for each channel: of the values, of their squares, and of the zeros; and count "
        "the values. At the end, the mean is sum / count and the variance is sum of squares / count - mean².",
        "Convert with `.double()` before you square and add. `output.transpose(0, 1).flatten(1)` has one row for each "
        "channel, whatever the number of dimensions.",
        "Do not average the means of the batches: the batches differ in size. Read the batches in one loop only, "
        "inside `torch.no_grad()`, with the hook in a `with` block.",
    ),
    why=(
        "A few sums are all that is kept, so memory does not grow with the data, and float64 keeps the digits"
        " that the subtraction needs. Updating mean and squared deviations batch by batch (Chan, Golub and "
        "LeVeque) would do as well, and cancels less."
    ),
    scene=over_batches(
        ask=of_a_layer,
        exactly=in_float64,
        only={
            "named": ("first", "relu", "second", "root"),
            "source": ("list", "iterator", "generator"),
            "failing": ("the first run", "the second run", "the batches"),
            "grad_mode": ("on", "off"),
            "values": ("round",),
            "sizes": ("several",),
        },
        words={
            "task": "the statistics describe all values of each channel",
            "runs": "each batch runs once, in its mode and without gradients",
            "exactly": "float64 keeps the digits",
        },
    ),
)
class TestChannelStats:
    """Write `channel_stats(model, layer, batches)`: run `model(batch)` for each batch, without gradients, and return
    `"mean"`, `"var"` and `"zero_frac"` of the outputs of `layer`, tensors [C] of dtype float64 in a dict. Each
    describes all values of a channel.

    **Example.** The batches differ in size.

    >>> relu = nn.ReLU()
    >>> batches = [torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 6.0], [1.0, 4.0]])]
    >>> found = channel_stats(relu, relu, batches)
    >>> found["mean"], found["var"]
    (tensor([1., 4.], dtype=torch.float64), tensor([1.5000, 2.0000], dtype=torch.float64))
    >>> found["zero_frac"]
    tensor([0.5000, 0.0000], dtype=torch.float64)

    **Fine print.** `layer` is a part of `model`, or `model` itself; its output is [B, C, ...], two dimensions or more.
    If a run calls it several times, all calls count. `batches` may be a generator, which can be read only once.
    `"var"` divides by the number of values n, not n - 1; `"zero_frac"` is the share of exact zeros. Add
    up in float64: the mean may be large beside the spread. Hooks of others on `layer` only watch.
    """

    def reference(model, layer, batches):
        return stats(model, layer, batches)

    class Mistakes:
        def averaged_batch_stats(model, layer, batches):
            """You averaged the means of the batches. The batches differ in size, so a value in a small batch counts
            more. Add up sums and counts, and divide once at the end.
            """
            parts = parts_of(model, layer, batches)
            return averaged(parts, [1] * len(parts))

        def weighed_by_batch_size(model, layer, batches):
            """You weighed each output by its batch size. Height and width of batches may differ, too: what counts is
            the number of values of a channel.
            """
            outputs = parts_of(model, layer, batches, rows=torch.clone)
            return averaged([rows_of(output) for output in outputs], [len(output) for output in outputs])

        def averaged_variances(model, layer, batches):
            """You averaged the variances of the batches. That leaves out how far the means of the batches are apart.
            Add up values and squares, and compute the variance once at the end.
            """
            parts = parts_of(model, layer, batches)
            return described(torch.cat(parts, 1)) | {"var": averaged(parts, [1] * len(parts))["var"]}

        def only_last_call(model, layer, batches):
            """Your result describes only the last output: each call of the layer overwrote what was kept of the call
            before. All calls and all batches count.
            """
            return described(parts_of(model, layer, batches)[-1])

        def only_last_call__2(model, layer, batches):
            return described(torch.cat([parts_of(model, layer, [batch])[-1] for batch in batches], 1))

        def not_per_channel(model, layer, batches):
            """Your result does not have the shape [C]. Dimension 1 counts the channels: reduce over all dimensions but
            that one.
            """
            found = stats(model, layer, batches, rows=lambda output: rows_of(output).reshape(1, -1))
            return {name: value[0] for name, value in found.items()}

        def stored_the_input(model, layer, batches):
            """What you described is the layer's input, `args[0]`. The task asks for its `output`."""
            parts = []
            without_gradients(model, layer, batches, lambda name, args, output: parts.append(rows_of(args[0])))
            return described(torch.cat(parts, 1))

        def stored_alias(model, layer, batches):
            """You kept the outputs as they are, and a later in-place operation overwrote them. Add up inside the hook;
            then there is nothing to keep.
            """
            outputs = parts_of(model, layer, batches, rows=lambda output: output)
            return described(torch.cat([rows_of(output) for output in outputs], 1))

        def four_dimensions_only(model, layer, batches):
            """Your reduction names dimensions that a two-dimensional output does not have.
            `output.transpose(0, 1).flatten(1)` has one row for each channel in any case.
            """
            return stats(model, layer, batches, rows=lambda output: output.double().sum((0, 2, 3))[:, None])

        def unbiased_variance(model, layer, batches):
            """You divided by n - 1. The contract asks for the variance of these very values: divide by n
            (`correction=0`, or `unbiased=False`).
            """
            return stats(model, layer, batches, correction=1)

        def float32_sums(model, layer, batches):
            """The variance is lost in rounding: with a large mean, squares are larger still, and float32 keeps seven
            digits of them. Convert each output with `.double()` before you square and add.
            """
            parts = parts_of(model, layer, batches, rows=lambda output: output.transpose(0, 1).flatten(1).clone())
            n = sum(part.shape[1] for part in parts)
            mean = sum(part.sum(1) for part in parts) / n
            var = sum(part.square().sum(1) for part in parts) / n - mean**2
            return described(torch.cat(parts, 1)) | {"mean": mean.double(), "var": var.double()}

        def not_float64(model, layer, batches):
            """A tensor of your result is not float64, which the contract asks for whatever the dtype of the output. A
            count of zeros is a tensor of whole numbers: call `.double()` before you divide.
            """
            return {name: value.float() for name, value in stats(model, layer, batches).items()}

        def not_float64__2(model, layer, batches):
            found = stats(model, layer, batches)
            return found | {"zero_frac": found["zero_frac"].float()}

        def counted_negatives(model, layer, batches):
            """`zero_frac` counts values that are exactly 0. Yours counts values below 0 as well:
            compare with `output == 0`.
            """
            return stats(model, layer, batches, is_zero=lambda rows: rows <= 0)

        def read_the_batches_twice(model, layer, batches):
            """You loop over the batches more than once. A generator can be read only once: the second loop finds
            nothing. Collect sums and sums of squares in the same loop.
            """
            found, again = stats(model, layer, batches), parts_of(model, layer, batches)
            deviations = sum(((part - found["mean"][:, None]).square().sum(1) for part in again), 0 * found["mean"])
            return found | {"var": deviations / max(sum(part.shape[1] for part in again), 1)}

        def read_the_batches_twice__2(model, layer, batches):
            return stats(model, layer, [batches[i] for i in range(len(batches))])

        def graph_was_built(model, layer, batches):
            """The model ran with gradients switched on, so autograd saved tensors of every batch. Run it inside
            `with torch.no_grad():`.
            """
            return stats(model, layer, batches, how={"block": contextlib.nullcontext})

        def gradients_stay_off(model, layer, batches):
            """You switched gradients off for good. A block `with torch.no_grad():` leaves them as they were."""
            torch.set_grad_enabled(False)
            return stats(model, layer, batches)

        def another_mode(model, layer, batches):
            model.eval()
            return stats(model, layer, batches)

        def hook_left_behind(model, layer, batches):
            return stats(model, layer, batches, how={"removal": "never"})

        def hook_left_after_exception(model, layer, batches):
            return stats(model, layer, batches, how={"removal": "after a good run"})
