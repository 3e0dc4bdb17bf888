"""Exercise 09-channel-stats."""

import contextlib

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_09_feature_maps.programs import watched
from graders.scenes.scene import stories
from graders.scenes.stories import batches as of_batches


def rows_of(output):
    """A copy of the values in float64, a row for each channel."""
    return output.detach().double().transpose(0, 1).flatten(1).clone()


def parts_of(model, layer, batches, rows=rows_of, block=torch.no_grad, **how):
    """The rows of each call of the layer."""
    parts = []
    watched({"": layer}, lambda name, output: parts.append(rows(output)), model, batches, block=block, **how)
    return parts


def described(parts, correction=0):
    """The three statistics of all parts together."""
    rows = torch.cat(parts, 1)
    zeros = (rows == 0).double().mean(1)
    return {"mean": rows.mean(1), "var": rows.var(1, correction=correction), "zero_frac": zeros}


def averaged(parts):
    """The means of what the parts show one by one, and the variance that follows from these."""
    each = [described([part]) for part in parts]
    mean, zeros = (sum(one[name] for one in each) / len(each) for name in ("mean", "zero_frac"))
    squares = sum(one["var"] + one["mean"].square() for one in each) / len(each)
    return {"mean": mean, "var": squares - mean.square(), "zero_frac": zeros}


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
    scene=stories(
        promises={
            "the statistics describe all values of each channel": of_batches.described,
            "a later call starts afresh": of_batches.described_again,
            "each batch runs once, in its mode and without gradients": of_batches.run_in_its_mode,
            "two calls at the same time do not disturb each other": of_batches.described_inside,
            "nothing else changes": of_batches.left_alone,
            "an exception comes through and nothing is left": of_batches.model_raises,
            "mean and variance are right for large numbers": of_batches.with_a_large_mean,
            "only exact zeros count as zeros": of_batches.of_exact_zeros,
        },
        axes=of_batches.LAYER,
        impossible=of_batches.IMPOSSIBLE,
    ),
)
class TestChannelStats:
    """Write `channel_stats(model, layer, batches)`: run `model(batch)` once for each batch, without gradients, and
    return `"mean"`, `"var"` and `"zero_frac"` of the outputs of `layer`, tensors [C] of dtype float64 in a dict. Each
    describes all values of a channel.

    **Example.** The batches differ in size.

    >>> relu = nn.ReLU()
    >>> batches = [torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 6.0], [1.0, 4.0]])]
    >>> found = channel_stats(relu, relu, batches)
    >>> found["mean"], found["var"]
    (tensor([1., 4.], dtype=torch.float64), tensor([1.5000, 2.0000], dtype=torch.float64))
    >>> found["zero_frac"]
    tensor([0.5000, 0.0000], dtype=torch.float64)

    **Fine print.** `layer` is a part of `model`, or `model` itself; its output is [B, C, ...], two or more dimensions,
    never empty. All its calls count, if a run has several. `batches` may be a generator, which can be read once.
    `"var"` divides by the number of values n, not by n - 1; `"zero_frac"` is the share of exact zeros. Add up in
    float64: the mean may be large compared with the spread. Other people's hooks on `layer` only watch.
    """

    def reference(model, layer, batches):
        return described(parts_of(model, layer, batches))

    class Mistakes:
        def averaged_batch_stats(model, layer, batches):
            """You averaged what you had found for each batch. Batches differ in size, so a value in a small batch
            counts more; and a mean of variances leaves out how far the means are apart. Add up sums and counts, and
            divide once at the end.
            """
            each = [described([part]) for part in parts_of(model, layer, batches)]
            return {name: sum(one[name] for one in each) / len(each) for name in each[0]}

        def averaged_batch_stats__2(model, layer, batches):
            return averaged(parts_of(model, layer, batches))

        def averaged_batch_stats__3(model, layer, batches):
            """You averaged what you had found for each sample. Samples may differ in size, and a value in a small one
            counts more then. Add up sums and counts, and divide once at the end.
            """
            outputs = parts_of(model, layer, batches, torch.clone)
            return averaged([rows_of(sample[None]) for output in outputs for sample in output])

        def only_last_call(model, layer, batches):
            """Your result describes only the last output: each call of the layer overwrites what was kept from the call
            before. All calls and all batches count.
            """
            return described(parts_of(model, layer, batches)[-1:])

        def only_last_call__2(model, layer, batches):
            return described([parts_of(model, layer, [batch])[-1] for batch in batches])

        def only_last_call__3(model, layer, batches):  # kept as it is
            outputs = [parts_of(model, layer, [batch], torch.detach)[-1] for batch in batches]
            return described([rows_of(output) for output in outputs])

        def stored_alias(model, layer, batches):
            """You kept the outputs, and a later in-place operation overwrote them; `.double()` copies nothing that is
            float64 already. Add up inside the hook; then there is nothing to keep.
            """
            return described([rows_of(output) for output in parts_of(model, layer, batches, torch.detach)])

        def stored_alias__2(model, layer, batches):
            return described([rows_of(output) for output in parts_of(model, layer, batches, torch.Tensor.double)])

        def four_dimensions_only(model, layer, batches):
            """You count on dimensions that a two-dimensional output does not have.
            `output.transpose(0, 1).flatten(1)` has one row for each channel in any case.
            """
            return described(parts_of(model, layer, batches, lambda output: output.double().sum((0, 2, 3))[:, None]))

        def four_dimensions_only__2(model, layer, batches):
            def rows(output):
                B, C, H, W = output.shape
                return rows_of(output).reshape(C, B * H * W)

            return described(parts_of(model, layer, batches, rows))

        def over_the_batch_only(model, layer, batches):
            """You described each position of the output by itself, and put only the samples together. All values of a
            channel belong together, from every sample and position: `output.transpose(0, 1).flatten(1)` has one row for
            each channel.
            """
            outputs = torch.cat(parts_of(model, layer, batches, lambda output: output.double().clone()))
            zeros = (outputs == 0).double().mean(0)
            return {"mean": outputs.mean(0), "var": outputs.var(0, correction=0), "zero_frac": zeros}

        def over_the_batch_only__2(model, layer, batches):
            outputs = torch.cat(parts_of(model, layer, batches, lambda output: output.double().flatten(1).clone()))
            zeros = (outputs == 0).double().mean(0)
            return {"mean": outputs.mean(0), "var": outputs.var(0, correction=0), "zero_frac": zeros}

        def channels_not_moved(model, layer, batches):
            """`reshape(-1, C)` mixes the channels: it takes the values as they lie, and channels are dimension 1, and
            not the last one. Move them first: `output.transpose(0, 1).flatten(1)` has a row for each.
            """
            return described(
                parts_of(model, layer, batches, lambda out: out.double().reshape(-1, out.shape[1]).T.clone())
            )

        def divided_by_samples(model, layer, batches):
            """You divided by the number of samples. A channel has more values than that where the output has positions:
            count `output.numel() / C` values, or the length of a row of `output.transpose(0, 1).flatten(1)`.
            """
            counts = []

            def rows(output):
                counts.append(len(output))
                return rows_of(output)

            parts = torch.cat(parts_of(model, layer, batches, rows), 1)
            mean = parts.sum(1) / sum(counts)
            zeros = (parts == 0).sum(1).double() / sum(counts)
            return {"mean": mean, "var": parts.square().sum(1) / sum(counts) - mean**2, "zero_frac": zeros}

        def divided_by_all_values(model, layer, batches):
            """You divided by the number of values of all channels together. Each channel has only `output.numel() / C`
            of them.
            """
            rows = torch.cat(parts_of(model, layer, batches), 1)
            mean, zeros = rows.sum(1) / rows.numel(), (rows == 0).sum(1).double() / rows.numel()
            return {"mean": mean, "var": rows.square().sum(1) / rows.numel() - mean**2, "zero_frac": zeros}

        def deviation_not_variance(model, layer, batches):
            """You returned the standard deviation as `"var"`. The variance is its square."""
            found = described(parts_of(model, layer, batches))
            return found | {"var": found["var"].sqrt()}

        def squares_without_the_mean(model, layer, batches):
            """Your `"var"` is the mean of the squares. Subtract the square of the mean from it."""
            found = described(parts_of(model, layer, batches))
            return found | {"var": found["var"] + found["mean"] ** 2}

        def counted_the_zeros(model, layer, batches):
            """Your `"zero_frac"` holds counts. Divide by the number of values: the task asks for the share of zeros."""
            parts = parts_of(model, layer, batches)
            return described(parts) | {"zero_frac": (torch.cat(parts, 1) == 0).sum(1).double()}

        def counted_negative_values(model, layer, batches):
            """You counted values below 0 as well. `"zero_frac"` is the share of exact zeros: `output == 0`."""
            parts = parts_of(model, layer, batches)
            return described(parts) | {"zero_frac": (torch.cat(parts, 1) <= 0).double().mean(1)}

        def took_small_values_for_zeros(model, layer, batches):
            """You took small values for zeros. `"zero_frac"` is the share of exact zeros: `output == 0`."""
            parts = parts_of(model, layer, batches)
            return described(parts) | {"zero_frac": (torch.cat(parts, 1).abs() < 1e-6).double().mean(1)}

        def called_the_layer(model, layer, batches):
            """You called the layer on the batches yourself. In the model, other layers come before it: call
            `model(batch)`, and let a forward hook on the layer watch.
            """
            return described(parts_of(layer, layer, batches))

        def another_mode(model, layer, batches):
            return described(parts_of(model.eval(), layer, batches))

        def another_mode__2(model, layer, batches):
            return described(parts_of(model.train(), layer, batches))

        def another_mode__3(model, layer, batches):  # and back again
            training = model.training
            try:
                return described(parts_of(model.eval(), layer, batches))
            finally:
                model.train(training)

        def unbiased_variance(model, layer, batches):
            """You divided by n - 1. The contract asks for the variance of these very values: divide by n
            (`correction=0`, or `unbiased=False`).
            """
            return described(parts_of(model, layer, batches), correction=1)

        def float32_sums(model, layer, batches):
            """You squared and added up in float32, which keeps seven digits. With a large mean they are not enough for
            the variance. Convert each output with `.double()` first.
            """
            parts = parts_of(model, layer, batches, rows=lambda output: output.transpose(0, 1).flatten(1).clone())
            n = sum(part.shape[1] for part in parts)
            mean = sum(part.sum(1) for part in parts) / n
            var = sum(part.square().sum(1) for part in parts) / n - mean**2
            return described(parts) | {"mean": mean.double(), "var": var.double()}

        def float32_sums__2(model, layer, batches):  # float64 comes too late
            parts = parts_of(model, layer, batches, rows=lambda output: output.transpose(0, 1).flatten(1).clone())
            n = sum(part.shape[1] for part in parts)
            mean, squares = (sum(part.pow(power).sum(1) for part in parts) / n for power in (1, 2))
            return described(parts) | {"mean": mean.double(), "var": squares.double() - mean.double() ** 2}

        def float32_sums__3(model, layer, batches):
            parts = parts_of(model, layer, batches, lambda output: output.detach().transpose(0, 1).flatten(1).clone())
            n, zeros = sum(part.shape[1] for part in parts), sum((part == 0).sum(1).double() for part in parts)
            mean = sum(part.sum(1).double() for part in parts) / n
            squares = sum(part.square().sum(1).double() for part in parts) / n
            return {"mean": mean, "var": squares - mean.square(), "zero_frac": zeros / n}

        def float32_results(model, layer, batches):
            """Your numbers come as float32. The contract asks for float64: convert each output with `.double()` in the
            hook, and what you compute from it is float64, too.
            """
            return {name: value.float() for name, value in described(parts_of(model, layer, batches)).items()}

        def float32_share(model, layer, batches):
            """`"zero_frac"` comes as float32: a whole number divided by another gives PyTorch's default dtype. Make the
            counts float64 before you divide, as in `(values == 0).double().sum(1)`.
            """
            found = described(parts_of(model, layer, batches))
            return found | {"zero_frac": found["zero_frac"].float()}

        def read_the_batches_twice(model, layer, batches):
            """`batches` may be a generator, which has no length and no index, and can be read only once. Loop over it
            directly, and collect sums and sums of squares in the same loop.
            """
            return described(parts_of(model, layer, [batches[i] for i in range(len(batches))]))

        def read_the_batches_twice__2(model, layer, batches):  # again for the variance
            found, again = described(parts_of(model, layer, batches)), parts_of(model, layer, batches)
            return {**found, "var": described(again)["var"] if again else torch.zeros_like(found["var"])}

        def graph_was_built(model, layer, batches):
            """The model ran with gradients switched on, so autograd saved tensors of every batch. Run it inside
            `with torch.no_grad():`.
            """
            return described(parts_of(model, layer, batches, block=contextlib.nullcontext))

        def switched_gradients_on(model, layer, batches):
            """You switched gradients on at the end, but the caller had switched them off. Put back what was there:
            `with torch.no_grad():` does.
            """
            try:
                return described(parts_of(model, layer, batches))
            finally:
                torch.set_grad_enabled(True)

        def hook_left_behind(model, layer, batches):
            return described(parts_of(model, layer, batches, removal=lambda went_well: False))

        def hook_left_after_exception(model, layer, batches):
            return described(parts_of(model, layer, batches, removal=lambda went_well: went_well))
