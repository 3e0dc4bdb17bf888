"""Exercise 09-channel-stats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    CallersHooks,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    in_mode,
    laid_out,
    nothing_changed,
)
from graders.lesson_09_feature_maps.shared import plain_dict

CONVOLUTIONS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
PLACES = {0: [(), (), ()], 1: [(6,), (4,), (5,)], 2: [(2, 3), (3, 3), (1, 4)], 3: [(2, 1, 3), (1, 2, 2), (2, 2, 2)]}
"""The sizes of three batches beyond their first two dimensions: a value in each has its own weight."""


class StatsNet(nn.Module):
    """A net around the layer whose output is measured."""

    def __init__(
        self, kind: str, weight: Tensor, bias: Tensor, mixing: Tensor, spatial: int, follower: str, passing: str
    ) -> None:
        """`kind` says which layer is measured: "conv", "reused" or "flat"."""
        super().__init__()
        outputs, inputs = weight.shape
        self.entry = nn.Identity()
        if kind == "flat":
            self.mix: nn.Module = nn.Linear(inputs, outputs)
        else:
            self.mix = CONVOLUTIONS[spatial](inputs, outputs, 1)
            ones = [1] * spatial
            weight, mixing = weight.reshape(*weight.shape, *ones), mixing.reshape(*mixing.shape, *ones)
        self.mix.to(weight.dtype).load_state_dict({"weight": weight, "bias": bias})
        self.again = nn.Identity()
        if kind == "reused":
            self.again = CONVOLUTIONS[spatial](outputs, outputs, 1, bias=False).to(weight.dtype)
            self.again.load_state_dict({"weight": mixing})
        self.act = nn.LeakyReLU(SLOPE) if kind == "reused" else nn.ReLU(inplace=follower == "in-place")
        self.kind, self.by_keyword, self.strike = kind, passing == "keyword", lambda: None
        self.sizes: list[int] = []
        self.grad_enabled: list[bool] = []
        self.modes: list[list[bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        """Note how it is run, and `strike` at the end."""
        self.sizes.append(len(x))
        self.grad_enabled.append(torch.is_grad_enabled())
        self.modes.append([module.training for module in self.modules()])
        x = self._call(self.act, self._call(self.mix, self.entry(x)))
        if self.kind == "reused":
            x = self._call(self.act, self.again(x))
        self.strike()
        return x * 2

    def _call(self, module: nn.Module, x: Tensor) -> Any:
        return module(input=x) if self.by_keyword else module(x)

    @property
    def layer(self) -> nn.Module:
        """The layer that is measured."""
        return self.mix if self.kind == "conv" else self.act


SLOPE = 2.0**-7
"""The slope of a LeakyReLU that lets little through: its small outputs are no zeros. Products with it are exact."""
FAR = [[700 + 0.37 * (row * step % 7) for step in (1, 2, 3, 4)] for row in range(90)]
"""Values of four channels whose sum float32 does not hold exactly enough for a variance near 0.5."""


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
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "grad": ALL, "mode": ALL, "frozen": ALL,
            "passing": ALL, "follower": ALL, "hooks": ALL, "hooked": ("root", "named"), "call": ("again",),
            "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the number of dimensions has an axis of its own",
            "values": "sums of eighths are exact, so that a share of zeros is, too",
            "place": "batches are data",
            "number": "it gets no number",
            "collection": "each probe has one batch, several, and one twice",
            "tied": "the layer is used twice instead",
            "named": "no name is asked for; in the example the layer is the root",
            "output": "the contract says that it is a tensor",
            "registered": "the layer is a part of the model",
            "layers": "an axis of its own says which layer is measured",
            "backward": "there is no pass",
        },
        own={"kind": ("conv", "reused", "flat"), "spatial": (0, 1, 2, 3),
             "source": ("list", "iterator", "generator")},
        pairs=[("kind", "dtype"), ("follower", "dtype")],
        impossible=[
            lambda kind, spatial: (kind == "flat") != (spatial == 0),
            lambda kind, follower: kind != "conv" and follower == "in-place",
            # Grad mode that stays off after an interrupt shows where it was on.
            lambda failure, grad_mode: failure == "KeyboardInterrupt" and grad_mode == "off",
        ],
    ),
)  # fmt: skip
class TestChannelStats:
    """Write `channel_stats(model, layer, batches)`. Run `model(batch)` once for each batch, in order, with gradients
    switched off. `batches` holds one tensor or more; they may differ in size. It may be a generator, which can be read
    only once.

    `layer` is a part of `model`, or `model` itself. Its output has two dimensions or more, [B, C, ...]; dimension 1
    counts the channels. If a run calls the layer more than once, the outputs of all calls count. Hooks of others on
    `layer` itself only watch. Return a dict with three tensors of shape [C] and dtype float64. Each describes all
    values of each channel over all batches together:

    - `"mean"`: their mean,
    - `"var"`: their variance, divided by the number of values n (not n - 1),
    - `"zero_frac"`: the share of values that are exactly 0, from 0 to 1.

    Add up in float64: the mean may be a thousand times as large as the spread.

    **Example.** Let `model` and `layer` be the same `nn.ReLU()`, and the batches `tensor([[-1., 2.]])` and
    `tensor([[3., 4.], [0., 6.]])`. Channel 0 outputs 0, 3, 0, and channel 1 outputs 2, 4, 6. The mean is `[1, 4]`, the
    variance `[2, 8/3]`, the share of zeros `[2/3, 0]`.
    """

    def draw(rng, dtype, kind, spatial, hooks, hooked):
        inputs, outputs = 4, 3
        sizes = rng.shuffled([1, 2, 5])
        if kind == "flat":
            sizes = [3 * size for size in sizes]
        scale = rng.shuffled([0.5, 1.0, 2.0])
        places = rng.shuffled(PLACES[spatial])
        batches = [
            rng.tensor(n, inputs, *place, dtype=dtype, low=-2, high=2, away=0) * s
            for n, place, s in zip(sizes, places, scale)
        ]
        if kind == "flat":
            batches[0][0] *= 2.0**-40  # tiny outputs are no zeros
        tiny = rng.tensor(3, 2, 2, 5, dtype="float64", low=1, high=2)
        tiny[:, 0] *= 2.0**-180  # float32 takes these for zeros
        tiny[0, 0, 0, 0] = 0
        bias = torch.tensor([1000.0, -2000.0, 1500.0]) if kind == "conv" else torch.zeros(outputs)
        return {
            "batches": batches,
            "inputs": [b * FACTOR for b in batches] if (hooks, hooked) == ("replacing", "named") else batches,
            "weight": rng.tensor(outputs, inputs, dtype=dtype, low=-1, high=1),
            "bias": bias.to(getattr(torch, dtype)),
            "mixing": rng.tensor(outputs, outputs, dtype=dtype, low=-1, high=1),
            "tiny": tiny,
        }

    def alive(kind, inputs, weight, bias, mixing):
        runs = layer_calls(kind, inputs, weight, bias, mixing)
        outputs = outputs_of(runs)
        right, last = stats_of(outputs), stats_of(outputs[-1:])
        means = torch.stack([stats_of([output])["mean"] for output in outputs])
        weights = torch.tensor([len(output) for output in outputs], dtype=means.dtype)
        by_size = (means * weights[:, None]).sum(0) / weights.sum()
        others = [means.mean(0), last["mean"]] + ([by_size] if kind != "flat" else [])
        apart = all((right["mean"] - other).abs().max() > 0.01 for other in others)
        if kind == "conv":
            return bool(apart and right["var"].min() > 0.1)
        if kind == "flat" and not outputs[0][0].any():
            return False
        zeros, negatives = right["zero_frac"], stats_of([(o > 0).double() for o in outputs])["zero_frac"]
        return bool(apart and 0 < zeros.max() < 1 and (kind == "flat" or (negatives - zeros).max() > 0.05))

    def probe(
        student,
        batches,
        weight,
        bias,
        mixing,
        tiny,
        kind,
        spatial,
        source,
        layout,
        grad,
        mode,
        frozen,
        passing,
        follower,
        hooks,
        hooked,
        grad_mode,
        failure,
        failing_run,
    ):
        batches = [laid_out(batch, layout) for batch in batches]
        model = in_mode(StatsNet(kind, weight, bias, mixing, spatial, follower, passing), mode)
        freeze_part(model, frozen)
        if grad == "filled":
            fill_grads(model)
        callers = CallersHooks(hooks)
        callers.on_module(*((model, "model") if hooked == "root" else (model.entry, "entry")))
        CallersHooks("none" if hooks == "none" else "watching").on_module(model.layer, "layer")
        modes, saved = [module.training for module in model.modules()], []

        def stats(batches: list[Tensor]) -> Any:
            made: Any = batches
            if source != "list":
                made = iter(batches) if source == "iterator" else (batch for batch in batches)
            return plain_dict(student.channel_stats(model, model.layer, made))

        with torch.set_grad_enabled(grad_mode == "on"):
            given = list(batches)
            witness = Witness(model=model, batches=given)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(1) or t, lambda t: t):
                seen = {"stats": stats(given)}
            seen |= {
                "sizes": model.sizes[:20],
                "grad_enabled": any(model.grad_enabled),
                "saved": len(saved),
                "own_modes": all(seen_then == modes for seen_then in model.modes),
                "log": callers.log[:40],
                "changed": witness.changes(),
            }
            seen["of one"] = stats([batches[1]])
            seen["of one twice"] = stats([batches[0], batches[2], batches[0]])
            failure, of_batches = Failure(failure, failing_run), Failure(failure)
            model.strike = failure.strike
            given = list(batches)
            witness = Witness(model=model, batches=given)
            seen["failure"] = failure.during(lambda: stats(given))
            seen["changed by failure"] = witness.changes()
            relu = nn.ReLU()
            example = [torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 6.0]])]

            def broken_off() -> Iterator[Tensor]:
                yield example[0]
                of_batches.strike()

            witness = Witness(relu=relu)
            seen["failure of batches"] = of_batches.during(lambda: student.channel_stats(relu, relu, broken_off()))
            seen["changed by failure of batches"] = witness.changes()
            seen["example"] = plain_dict(student.channel_stats(relu, relu, iter(example)))
            meanwhile = Meanwhile(lambda: None, nn.ReLU())
            meanwhile.other = lambda: seen.update(
                inner=plain_dict(student.channel_stats(relu, relu, [torch.tensor([[7.0, 9.0]])]))
            )
            seen["outer"] = plain_dict(student.channel_stats(meanwhile, meanwhile[0], example))
            identity = nn.Identity()
            seen["far from 0"] = plain_dict(student.channel_stats(identity, identity, [torch.tensor(FAR)]))
            seen["of tiny values"] = plain_dict(student.channel_stats(relu, relu, [tiny.transpose(2, 3)]))
        return seen

    mistakes = (
        Mistake(
            "averaged-batch-stats",
            lambda seen, kind, inputs, weight, bias, mixing: mean_about(
                seen, averaged(layer_calls(kind, inputs, weight, bias, mixing))
            ),
            "You averaged the means of the batches. The batches differ in size, so a value in a small batch counts "
            "more. Add up sums and counts, and divide once at the end.",
            rather_than=("averaged-variances",),
        ),
        Mistake(
            "only-last-call",
            lambda seen, kind, inputs, weight, bias, mixing: any(
                mean_about(seen, stats_of(outputs))
                for outputs in last_calls(layer_calls(kind, inputs, weight, bias, mixing))
            ),
            "Your result describes only the last output: each call of the layer overwrote what was kept of the call "
            "before. All calls and all batches count.",
        ),
        Mistake(
            "not-per-channel",
            lambda seen, kind, inputs, weight, bias, mixing: (
                "mean" in seen["stats"].keys
                and seen["stats"]["mean"].value != 0  # what a sum over nothing gives
                and ((mean := seen["stats"]["mean"].tensor) is None or mean.shape != bias.shape)
                and not mean_about(seen, stats_of(inputs_of(layer_calls(kind, inputs, weight, bias, mixing))))
            ),
            "Your result does not have the shape [C]. Dimension 1 counts the channels: reduce over all dimensions but "
            "that one.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, kind, inputs, weight, bias, mixing: mean_about(
                seen, stats_of(inputs_of(layer_calls(kind, inputs, weight, bias, mixing)))
            ),
            "These are statistics of the layer's input, `args[0]`. The task asks for its `output`.",
            raises="tuple index out of range",
        ),
        Mistake(
            "stored-alias",
            lambda seen, kind, inputs, weight, bias, mixing, follower: (
                kind == "conv"
                and follower == "in-place"
                and mean_about(
                    seen, stats_of([o.relu() for o in outputs_of(layer_calls(kind, inputs, weight, bias, mixing))])
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
            lambda seen, kind, inputs, weight, bias, mixing: unbiased(
                seen, layer_calls(kind, inputs, weight, bias, mixing)
            ),
            "You divided by n - 1. The contract asks for the variance of these very values: divide by n "
            "(`correction=0`, or `unbiased=False`).",
        ),
        Mistake(
            "float32-sums",
            lambda seen, kind, inputs, weight, bias, mixing: (
                cancelled(seen, kind, layer_calls(kind, inputs, weight, bias, mixing))
                if kind == "conv"
                else about(seen, right := right_stats(kind, inputs, weight, bias, mixing))
                and not stats_close(seen, right)
            ),
            "The variance is lost in rounding: with a mean of 1000, squares are about a million, and float32 keeps "
            "seven digits of them. Convert each output with `.double()` before you square and add.",
        ),
        Mistake(
            "counted-negatives",
            lambda seen, kind, inputs, weight, bias, mixing: (
                stats_close(seen, right_stats(kind, inputs, weight, bias, mixing), "mean", "var")
                and zeros_by(
                    seen,
                    layer_calls(kind, inputs, weight, bias, mixing),
                    *(lambda o: o <= 0, lambda o: o.abs() < 1e-2, lambda o: o.abs() < 1e-6),
                )
            ),
            "`zero_frac` counts values that are exactly 0. Yours counts values below 0, or close to 0, as well: "
            "compare with `output == 0`.",
        ),
        Mistake(
            "read-the-batches-twice",
            lambda seen, batches, kind, inputs, weight, bias, mixing: (
                len(seen["sizes"]) > len(batches)
                or seen["stats"]["mean"].value == 0
                or (
                    stats_close(seen, right_stats(kind, inputs, weight, bias, mixing), "mean")
                    and bool(((var := seen["stats"]["var"].tensor).isnan() | (var == 0)).all())
                )
            ),
            "You loop over the batches more than once. A generator can be read only once: the second loop finds "
            "nothing. Collect sums and sums of squares in the same loop.",
        ),
        Mistake(
            "averaged-variances",
            lambda seen, kind, inputs, weight, bias, mixing: any(
                close(seen["stats"]["var"], var, 1e-8, 1e-8)
                for var in averaged_variances(layer_calls(kind, inputs, weight, bias, mixing))
            ),
            "You averaged the variances of the batches. That leaves out how far the means of the batches are apart. "
            "Add up values and squares, and compute the variance once at the end.",
        ),
        Mistake(
            "standard-deviation",
            lambda seen, kind, inputs, weight, bias, mixing: close(
                seen["stats"]["var"], right_stats(kind, inputs, weight, bias, mixing)["var"].sqrt(), 1e-6, 1e-6
            ),
            "This is the standard deviation. The variance is its square.",
        ),
        Mistake(
            "not-float64",
            lambda seen: any(
                (found := seen["stats"][name].tensor) is not None and found.dtype != torch.float64
                for name in ("mean", "var", "zero_frac")
            ),
            "A tensor of your result is not float64, which the contract asks for whatever the dtype of the output. A "
            "count of zeros is a tensor of whole numbers: call `.double()` before you divide.",
        ),
        Mistake(
            "graph-was-built",
            lambda seen, kind, inputs, weight, bias, mixing: (
                seen["grad_enabled"].value is True
                and stats_close(seen, right_stats(kind, inputs, weight, bias, mixing))
            ),
            "The model ran with gradients switched on, so autograd saved tensors of every batch. Run it inside "
            "`with torch.no_grad():`.",
        ),
        Mistake(
            "weighed-by-batch-size",
            lambda seen, kind, inputs, weight, bias, mixing: (
                kind != "flat" and mean_about(seen, by_batch_size(layer_calls(kind, inputs, weight, bias, mixing)))
            ),
            "You weighed each output by its batch size. Height and width of batches may differ, too: what counts is "
            "the number of values of a channel.",
        ),
    )

    def test_the_statistics_describe_all_values_of_each_channel(seen, kind, inputs, weight, bias, mixing):
        same_stats(seen["stats"], right_stats(kind, inputs, weight, bias, mixing))

    def test_one_batch_one_twice_and_the_example_come_out(seen, kind, inputs, weight, bias, mixing, tiny):
        same_stats(seen["of one"], right_stats(kind, inputs[1:2], weight, bias, mixing))
        same_stats(seen["of one twice"], right_stats(kind, [inputs[i] for i in (0, 2, 0)], weight, bias, mixing))
        same_stats(seen["example"], stats_of([torch.tensor([[0.0, 2], [3, 4], [0, 6]], dtype=torch.float64)]))
        for name, value in stats_of([torch.tensor(FAR).double()]).items():
            expect(Seen(seen["far from 0"][name].value, f"of values near 700, {name}")).close_to(value, rtol=1e-6)
        for name, value in stats_of([tiny]).items():
            expect(seen["of tiny values"][name]).close_to(value, rtol=1e-6, atol=0.0)

    def test_a_call_inside_a_call_counts_for_itself(seen):
        same_stats(seen["inner"], stats_of([torch.tensor([[7.0, 9.0]], dtype=torch.float64)]))
        same_stats(seen["outer"], stats_of([torch.tensor([[0.0, 2], [3, 4], [0, 6]], dtype=torch.float64)]))

    def test_each_batch_runs_once_in_the_models_modes_without_gradients(seen, batches, hooks):
        expect(Seen(seen["sizes"].value, "sizes of the batches that the model saw")).equals([len(b) for b in batches])
        expect(seen["grad_enabled"]).is_false("the model ran with gradients switched on")
        expect(Seen(seen["saved"].value, "tensors that autograd saved")).equals(0)
        expect(seen["own_modes"]).is_true("a module ran in another mode (training or eval) than the caller's")
        calls = len(batches) * (0 if hooks == "none" else 4)
        expect(Seen(len(seen["log"]) == calls)).is_true("a hook of the caller was not called once for each batch")

    def test_everything_is_left_as_it_was(seen):
        nothing_changed(seen["changed"])

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        came_through(seen["failure"], "the model")
        nothing_changed(seen["changed by failure"], when="after an exception")
        came_through(seen["failure of batches"], "the iterable of batches")
        nothing_changed(seen["changed by failure of batches"], when="after an exception of the batches")


def same_stats(seen: Seen, expected: dict[str, Tensor]) -> None:
    """Expect a dict of these three tensors."""
    expect(seen).has_keys("mean", "var", "zero_frac")
    for name, value in expected.items():
        limit = 1e-6 if name == "zero_frac" else 1e-8  # zeros counted in whole numbers are divided in float32
        expect(seen[name]).close_to(value, rtol=limit, atol=limit)


def by_batch_size(runs: list[list[Any]]) -> dict[str, Tensor]:
    """The mean of somebody who weighs each output by its first dimension."""
    parts = [(len(output), stats_of([output])["mean"]) for output in outputs_of(runs)]
    return {"mean": sum(n * mean for n, mean in parts) / sum(n for n, _ in parts)}


def outputs_of(runs: list[list[Any]]) -> list[Tensor]:
    """The outputs of all calls."""
    return [output for run in runs for _, output in run]


def inputs_of(runs: list[list[Any]]) -> list[Tensor]:
    """The inputs of all calls."""
    return [x for run in runs for x, _ in run]


def right_stats(kind: str, inputs: list[Tensor], weight: Tensor, bias: Tensor, mixing: Tensor) -> dict[str, Tensor]:
    """What the contract asks for."""
    return stats_of(outputs_of(layer_calls(kind, inputs, weight, bias, mixing)))


def averaged(runs: list[list[Any]]) -> dict[str, Tensor]:
    """The mean of the means of all calls."""
    return {"mean": torch.stack([stats_of([output])["mean"] for output in outputs_of(runs)]).mean(0)}


def averaged_variances(runs: list[list[Any]]) -> list[Tensor]:
    """The mean of the variances of all calls, and the same by how many values each has."""
    outputs = outputs_of(runs)
    each = torch.stack([stats_of([output])["var"] for output in outputs])
    weights = torch.tensor([output[:, 0].numel() for output in outputs], dtype=each.dtype)
    return [each.mean(0), weights @ each / weights.sum()]


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
