"""Exercise 09-channel-stats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.authoring import (
    Boom,
    Mistake,
    Seen,
    close,
    exercise,
    expect,
    expecting_boom,
    module_hooks,
    no_hook_left,
    snapshot,
)
from graders.lesson_09_feature_maps.judging import PARAMETERS_CHANGED
from graders.lesson_09_feature_maps.shared import Kept, plain_dict


class StatsNet(nn.Module):
    """A net around the layer whose output is measured."""

    def __init__(self, kind: str, weight: Tensor, bias: Tensor, mixing: Tensor, fails_at: int = 0) -> None:
        """`kind` says which layer is measured: "conv", "reused" or "flat"."""
        super().__init__()
        outputs, inputs = weight.shape
        if kind == "flat":
            self.mix: nn.Module = nn.Linear(inputs, outputs)
        else:
            self.mix = nn.Conv2d(inputs, outputs, 1)
            weight, mixing = weight[:, :, None, None], mixing[:, :, None, None]
        self.mix.load_state_dict({"weight": weight, "bias": bias})
        self.again = nn.Conv2d(outputs, outputs, 1, bias=False)
        if kind == "reused":
            self.again.load_state_dict({"weight": mixing})
        self.act = nn.LeakyReLU(SLOPE) if kind == "reused" else nn.ReLU(inplace=kind == "conv")
        self.kind, self.fails_at, self.sizes, self.grad_enabled, self.modes = kind, fails_at, [], [], set()

    def forward(self, x: Tensor) -> Tensor:
        """Raise `Boom` at the end of run number `fails_at`."""
        self.sizes.append(len(x))
        self.grad_enabled.append(torch.is_grad_enabled())
        self.modes |= {module.training for module in self.modules()}
        x = self.act(self.mix(x))
        if self.kind == "reused":
            x = self.act(self.again(x))
        if len(self.sizes) == self.fails_at:
            raise Boom
        return x * 2

    @property
    def layer(self) -> nn.Module:
        """The layer that is measured."""
        return self.mix if self.kind == "conv" else self.act


SLOPE = 2.0**-7
"""The slope of a LeakyReLU that lets little through: its small outputs are no zeros. Products with it are exact."""


def layer_calls(kind: str, batches: list[Tensor], weight: Tensor, bias: Tensor, mixing: Tensor) -> list[list[Any]]:
    """For each run, the (input, output) of each call of the layer, in float64; all numbers are exact in float32."""

    def act(x: Tensor) -> Tensor:
        return F.leaky_relu(x, SLOPE) if kind == "reused" else x.relu()

    runs = []
    for batch in batches:
        x = batch.double()
        mixed = torch.einsum("oi,bi...->bo...", weight.double(), x)
        mixed = mixed + bias.double().reshape(1, -1, *[1] * (x.dim() - 2))
        if kind == "conv":
            runs.append([(x, mixed)])
        elif kind == "flat":
            runs.append([(mixed, act(mixed))])
        else:
            again = torch.einsum("oi,bi...->bo...", mixing.double(), act(mixed))
            runs.append([(mixed, act(mixed)), (again, act(again))])
    return runs


def stats_of(parts: list[Tensor]) -> dict[str, Tensor]:
    """Mean, population variance and share of zeros for each channel of all parts together."""
    values = torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1)
    return {
        "mean": values.mean(1),
        "var": values.var(1, correction=0),
        "zero_frac": (values == 0).double().mean(1),
    }


def stats_close(seen: Seen, expected: dict[str, Tensor], *names: str) -> bool:
    """Whether these entries of the result are right."""
    return all(close(seen["stats"][name], expected[name], 1e-8, 1e-8) for name in names or ("mean", "var"))


def about(seen: Seen, expected: dict[str, Tensor]) -> bool:
    """Whether mean and variance are these as far as float32 goes."""
    return all(close(seen["stats"][name], expected[name], 1e-4, 1e-5) for name in ("mean", "var"))


def mean_about(seen: Seen, expected: dict[str, Tensor]) -> bool:
    """Whether the mean is this one, even when it was computed in float32."""
    return close(seen["stats"]["mean"], expected["mean"], 1e-6, 1e-6)


@exercise(
    "09-channel-stats",
    points=3,
    title="Statistics of every channel, batch by batch",
    hints=(
        "In the hook, add to three sums for each channel: of the values, of their squares, and of the zeros; and count "
        "the values. At the end, the mean is sum / count and the variance is sum of squares / count - mean².",
        "Convert with `.double()` before you square and add. `output.transpose(0, 1).flatten(1)` has one row for each "
        "channel, whatever the number of dimensions.",
        "Do not average the means of the batches: the batches differ in size. Read the batches in one loop only, "
        "inside `torch.no_grad()`, with the hook in a `with` block.",
    ),
    cases=({"kind": "conv"}, {"kind": "reused"}, {"kind": "flat"}),
)
class TestChannelStats:
    """Write `channel_stats(model, layer, batches)`. `layer` is a module somewhere in `model`. `batches` is an
    iterable of tensors, for example a generator, which can be read only once. The batches may differ in size. Run
    `model(batch)` once for each batch, in the mode (training or eval) that the model has, with gradients switched off.

    The output of `layer` is a tensor of shape [B, C, ...]: two dimensions or more, and dimension 1 counts the
    channels. If the model calls the layer more than once in a run, the outputs of all calls count. Return a dict with
    three tensors of shape [C] and dtype float64. Each describes all values of each channel over all batches together:

    - `"mean"`: their mean,
    - `"var"`: their variance, divided by the number of values n (not n - 1),
    - `"zero_frac"`: the share of values that are exactly 0, from 0 to 1.

    Add up in float64: the mean may be a thousand times as large as the spread. The model keeps its mode and its
    parameters, and the batches do not change. No hook of yours is left, and gradients are switched on again, even when
    the model raises; the exception comes through.

    **Example.** Let `model` and `layer` both be the same `nn.ReLU()`, and let the batches be `tensor([[-1., 2.]])` and
    `tensor([[3., 4.], [0., 6.]])`. Channel 0 outputs 0, 3, 0, and channel 1 outputs 2, 4, 6. The mean is `[1, 4]`, the
    variance is `[2, 8/3]`, and the share of zeros is `[2/3, 0]`.
    """

    def draw(rng, kind):
        inputs, outputs = 4, 3
        sizes = rng.shuffled([1, 2, 5])
        if kind == "flat":
            sizes = [3 * size for size in sizes]
        places = () if kind == "flat" else (2, 3)
        scale = rng.shuffled([0.5, 1.0, 2.0])
        batches = [rng.tensor(n, inputs, *places, low=-2, high=2, away=0) * s for n, s in zip(sizes, scale)]
        if kind == "flat":
            batches[0][0] *= 2.0**-40  # tiny outputs are no zeros
        return {
            "kind": kind,
            "batches": batches,
            "weight": rng.tensor(outputs, inputs, low=-1, high=1),
            "bias": torch.tensor([1000.0, -2000.0, 1500.0]) if kind == "conv" else torch.zeros(outputs),
            "mixing": rng.tensor(outputs, outputs, low=-1, high=1),
            "train": kind == "conv" or (kind == "reused" and rng.choice([True, False])),
        }

    def alive(kind, batches, weight, bias, mixing):
        runs = layer_calls(kind, batches, weight, bias, mixing)
        outputs = outputs_of(runs)
        right, last = stats_of(outputs), stats_of(outputs[-1:])
        averaged = torch.stack([stats_of([output])["mean"] for output in outputs]).mean(0)
        apart = (right["mean"] - averaged).abs().max() > 0.01 and (right["mean"] - last["mean"]).abs().max() > 0.01
        if kind == "conv":
            return bool(apart and right["var"].min() > 0.1)
        if kind == "flat" and not outputs[0][0].any():
            return False
        zeros, negatives = right["zero_frac"], stats_of([(o > 0).double() for o in outputs])["zero_frac"]
        return bool(apart and 0 < zeros.max() < 1 and (kind == "flat" or (negatives - zeros).max() > 0.05))

    def probe(student, kind, batches, weight, bias, mixing, train):
        parts = (kind, weight, bias, mixing)
        model, saved = StatsNet(*parts).train(train), []
        model.layer.register_forward_hook(lambda module, args, output: None)
        before, kept, copies = module_hooks(model), Kept(model), [snapshot(batch) for batch in batches]
        source = iter(batches) if kind == "conv" else (batch for batch in batches)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(1) or t, lambda t: t):
            stats = student.channel_stats(model, model.layer, source)
        seen = {
            "stats": plain_dict(stats), "sizes": model.sizes[:20],
            "grad_enabled": any(model.grad_enabled), "saved": len(saved),
            "hooks": module_hooks(model) - before, "mode_kept": all(m.training is train for m in model.modules()),
            "parameters_kept": kept.holds(), "batches_kept": all(map(torch.equal, batches, copies)),
            "own_mode": model.modes <= {train}, "grad_mode_restored": torch.is_grad_enabled(),
        }  # fmt: skip
        model = StatsNet(*parts, fails_at=2).train(train)
        with expecting_boom(seen):
            student.channel_stats(model, model.layer, iter(copies))
        seen["grad_mode_restored"] = seen["grad_mode_restored"] and torch.is_grad_enabled()
        return {**seen, "hooks_after_exception": module_hooks(model)}

    mistakes = (
        Mistake(
            "averaged-batch-stats",
            lambda seen, kind, batches, weight, bias, mixing: mean_about(
                seen, averaged(layer_calls(kind, batches, weight, bias, mixing))
            ),
            "You averaged the means of the batches. The batches differ in size, so a value in a small batch counts "
            "more. Add up sums and counts, and divide once at the end.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, kind, batches, weight, bias, mixing: any(
                mean_about(seen, stats_of(outputs))
                for outputs in last_calls(layer_calls(kind, batches, weight, bias, mixing))
            ),
            "Your result describes only the last output: each call of the layer overwrote what was kept of the call "
            "before. All calls and all batches count.",
        ),
        Mistake(
            "not-per-channel",
            lambda seen, kind, batches, weight, bias, mixing: (
                "mean" in seen["stats"].keys
                and ((mean := seen["stats"]["mean"].tensor) is None or mean.shape != bias.shape)
                and not mean_about(seen, stats_of(inputs_of(layer_calls(kind, batches, weight, bias, mixing))))
            ),
            "Your result does not have the shape [C]. Dimension 1 counts the channels: reduce over all dimensions but "
            "that one.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, kind, batches, weight, bias, mixing: mean_about(
                seen, stats_of(inputs_of(layer_calls(kind, batches, weight, bias, mixing)))
            ),
            "These are statistics of the layer's input, `args[0]`. The task asks for its `output`.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, kind, batches, weight, bias, mixing: (
                kind == "conv"
                and mean_about(
                    seen, stats_of([o.relu() for o in outputs_of(layer_calls(kind, batches, weight, bias, mixing))])
                )
            ),
            "You kept the outputs as they are, and a later in-place operation overwrote them. Add up inside the hook; "
            "then there is nothing to keep.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("Dimension out of range", "does not match the length of the desired ordering of dimensions"),
            message="Your reduction names dimensions that a two-dimensional output does not have. "
            "`output.transpose(0, 1).flatten(1)` has one row for each channel in any case.",
        ),
        Mistake(
            "unbiased-variance",
            lambda seen, kind, batches, weight, bias, mixing: unbiased(
                seen, layer_calls(kind, batches, weight, bias, mixing)
            ),
            "You divided by n - 1. The contract asks for the variance of these very values: divide by n "
            "(`correction=0`, or `unbiased=False`).",
        ),
        Mistake(
            "float32-sums",
            lambda seen, kind, batches, weight, bias, mixing: (
                cancelled(seen, kind, layer_calls(kind, batches, weight, bias, mixing))
                if kind == "conv"
                else about(seen, right_stats(kind, batches, weight, bias, mixing))
            ),
            "The variance is lost in rounding: with a mean of 1000, squares are about a million, and float32 keeps "
            "seven digits of them. Convert each output with `.double()` before you square and add.",
        ),
        Mistake(
            "counted-negatives",
            lambda seen, kind, batches, weight, bias, mixing: (
                stats_close(seen, right_stats(kind, batches, weight, bias, mixing), "mean", "var")
                and zeros_by(
                    seen,
                    layer_calls(kind, batches, weight, bias, mixing),
                    *(lambda o: o <= 0, lambda o: o.abs() < 1e-2, lambda o: o.abs() < 1e-6),
                )
            ),
            "`zero_frac` counts values that are exactly 0. Yours counts values below 0, or close to 0, as well: "
            "compare with `output == 0`.",
        ),
        Mistake(
            "read-the-batches-twice",
            lambda seen, kind, batches, weight, bias, mixing: (
                stats_close(seen, right_stats(kind, batches, weight, bias, mixing), "mean")
                and bool(((var := seen["stats"]["var"].tensor).isnan() | (var == 0)).all())
            ),
            "Your second loop over the batches found nothing: a generator can be read only once. Collect sums and sums "
            "of squares in the same loop.",
        ),
        Mistake(
            "graph-was-built",
            lambda seen, kind, batches, weight, bias, mixing: (
                seen["grad_enabled"].value is True
                and stats_close(seen, right_stats(kind, batches, weight, bias, mixing))
            ),
            "The model ran with gradients switched on, so autograd saved tensors of every batch. Run it inside "
            "`with torch.no_grad():`.",
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
        ),
    )

    def test_the_statistics_describe_all_values_of_each_channel(seen, kind, batches, weight, bias, mixing):
        expected = right_stats(kind, batches, weight, bias, mixing)
        expect(seen["stats"]).has_keys("mean", "var", "zero_frac")
        for name, value in expected.items():
            limit = 1e-6 if name == "zero_frac" else 1e-8  # zeros counted in whole numbers are divided in float32
            expect(seen["stats"][name]).close_to(value, rtol=limit, atol=limit)

    def test_each_batch_runs_once_in_the_models_mode_without_gradients(seen, batches):
        expect(Seen(seen["sizes"].value, "sizes of the batches that the model saw")).equals([len(b) for b in batches])
        expect(seen["grad_enabled"]).is_false("the model ran with gradients switched on")
        expect(Seen(seen["saved"].value, "tensors that autograd saved")).equals(0)
        expect(seen["own_mode"]).is_true("the model ran in another mode (training or eval) than the caller's")

    def test_the_model_is_left_as_it_was(seen):
        no_hook_left(seen["hooks"])
        expect(seen["mode_kept"]).is_true("a module is not in the mode (training or eval) in which it was before")
        expect(seen["parameters_kept"]).is_true(PARAMETERS_CHANGED)
        expect(seen["batches_kept"]).is_true("a batch is not the same as before the call")

    def test_nothing_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])
        expect(seen["grad_mode_restored"]).is_true("gradients are still switched off after the call")


def outputs_of(runs: list[list[Any]]) -> list[Tensor]:
    """The outputs of all calls."""
    return [output for run in runs for _, output in run]


def inputs_of(runs: list[list[Any]]) -> list[Tensor]:
    """The inputs of all calls."""
    return [x for run in runs for x, _ in run]


def right_stats(kind: str, batches: list[Tensor], weight: Tensor, bias: Tensor, mixing: Tensor) -> dict[str, Tensor]:
    """What the contract asks for."""
    return stats_of(outputs_of(layer_calls(kind, batches, weight, bias, mixing)))


def averaged(runs: list[list[Any]]) -> dict[str, Tensor]:
    """The mean of the means of all calls."""
    return {"mean": torch.stack([stats_of([output])["mean"] for output in outputs_of(runs)]).mean(0)}


def last_calls(runs: list[list[Any]]) -> Iterator[list[Tensor]]:
    """The outputs that stores of different forgetfulness keep, without the complete one."""
    yield [runs[-1][-1][1]]
    if len(runs[0]) > 1:
        yield [run[-1][1] for run in runs]
        yield [output for _, output in runs[-1]]


def unbiased(seen: Seen, runs: list[list[Any]]) -> bool:
    """Whether the variance was divided by n - 1."""
    outputs = outputs_of(runs)
    right, count = stats_of(outputs), sum(output[:, 0].numel() for output in outputs)
    return stats_close(seen, {**right, "var": right["var"] * count / (count - 1)})


def cancelled(seen: Seen, kind: str, runs: list[list[Any]]) -> bool:
    """Whether the mean is about right, the variance is not, and nothing else explains it."""
    right, var = stats_of(outputs_of(runs)), seen["stats"]["var"].tensor
    return (
        kind == "conv"
        and mean_about(seen, right)
        and not close(seen["stats"]["var"], right["var"], 1e-8, 1e-8)
        and not unbiased(seen, runs)
        and not close(seen["stats"]["var"], right["var"].sqrt(), 1e-8, 1e-8)
        and var is not None
        and not bool((var.isnan() | (var == 0)).all())
    )


def zeros_by(seen: Seen, runs: list[list[Any]], *rules: Any) -> bool:
    """Whether the share of zeros is that of a wrong rule, and not the right one."""
    outputs = outputs_of(runs)
    shares = [stats_of([(~rule(output)).double() for output in outputs])["zero_frac"] for rule in rules]
    seen_share = seen["stats"]["zero_frac"]
    return not close(seen_share, stats_of(outputs)["zero_frac"]) and any(close(seen_share, share) for share in shares)
