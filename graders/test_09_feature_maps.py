"""Lesson 9. Feature maps: numbers first, pictures second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.probing import Boom, expecting_boom, module_hooks, snapshot
from graders.core.conditions import no_hook_left
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect
from graders.nets import ResNet
from graders.wire.data import Array

# 09-conv-maps: a small net that has everything that can go wrong, and the real ResNet-34.


class PatchConv(nn.Conv2d):
    """A subclass of Conv2d that doubles what the convolution gives."""

    def forward(self, x: Tensor) -> Tensor:
        """Twice the convolution."""
        return 2 * super().forward(x)


class Block(nn.Module):
    """Two convolutions in a ModuleList, the second one called first, and a third beside them."""

    def __init__(self, order: list[str], parts: nn.ModuleList, side: nn.Module) -> None:
        """`order` is the order of definition."""
        super().__init__()
        for name in order:
            self.add_module(name, parts if name == "parts" else side)

    def forward(self, x: Tensor) -> Tensor:
        """Every convolution's output is overwritten in place."""
        y = self.parts[1](x).relu_()
        y = self.parts[0](y)
        side = self.side(x)
        y += side
        side.zero_()
        return y.relu_()


class TinyNet(nn.Module):
    """Five Conv2d at three levels, one of a subclass, beside a ConvTranspose2d and a Conv1d."""

    def __init__(self, names: dict[str, str], order: list[str], block: list[str], weights: dict[str, Tensor]) -> None:
        """`names` are those of the modules; `order` and `block` are orders of definition."""
        super().__init__()
        made = {part: convolution(part, weight) for part, weight in weights.items()}
        made["norm"] = nn.BatchNorm2d(2)
        made["tail"] = nn.Sequential(made["tail"], nn.ReLU(inplace=True))
        made["block"] = Block(block, nn.ModuleList([made.pop("first"), made.pop("second")]), made.pop("side"))
        for part in order:
            self.add_module(names[part], made[part])
        self.names, self.runs, self.fails = names, 0, False

    def forward(self, x: Tensor) -> Tensor:
        """The convolutions run in the order stem, second, first, side, tail."""
        self.runs += 1
        part = {part: self.get_submodule(name) for part, name in self.names.items()}
        x = part["block"](part["stem"](part["norm"](x)).relu_())
        if self.fails:
            raise Boom  # some convolutions have run, and one has not
        x = part["tail"](part["up"](x))
        return part["line"](x.flatten(2)).relu_()


def convolution(part: str, weight: Tensor) -> nn.Module:
    """A convolution without bias that keeps the size."""
    kinds: dict[str, Any] = {"tail": PatchConv, "up": nn.ConvTranspose2d, "line": nn.Conv1d}
    padding = weight.shape[-1] // 2
    made: nn.Module = kinds.get(part, nn.Conv2d)(
        weight.shape[1], weight.shape[0], weight.shape[-1], padding=padding, bias=False
    )
    made.load_state_dict({"weight": weight})
    return made


def thin_resnet34(stem: Tensor) -> nn.Module:
    """A ResNet-34 in eval mode with a sixteenth of its channels and this first convolution: made in no time."""
    model = ResNet(classes=10, width=4)
    model.conv1.load_state_dict({"weight": stem})
    return model.eval()


PARAMETERS_CHANGED = "a parameter of the model is not as it was before: its values, its `requires_grad` or its `.grad`"


class Kept:
    """The parameters of a model, each with a `.grad` of ones, and what they have to be later."""

    def __init__(self, model: nn.Module) -> None:
        """Fill `.grad`, and copy the values."""
        self.parameters = [(parameter, snapshot(parameter)) for parameter in model.parameters()]
        for parameter, _ in self.parameters:
            parameter.grad = torch.ones_like(parameter)

    def holds(self) -> bool:
        """Whether values, dtypes, `requires_grad` and `.grad` are still the same."""
        return all(
            now.requires_grad and now.dtype == before.dtype and torch.equal(now, before)
            and now.grad is not None and torch.equal(now.grad, torch.ones_like(before))
            for now, before in self.parameters
        )  # fmt: skip


CONVOLUTIONS = [
    "conv1",
    *(f"layer1.{block}.conv{i}" for block in range(3) for i in (1, 2)),
    *("layer2.0.conv1", "layer2.0.conv2", "layer2.0.downsample.0"),
    *(f"layer2.{block}.conv{i}" for block in range(1, 4) for i in (1, 2)),
    *("layer3.0.conv1", "layer3.0.conv2", "layer3.0.downsample.0"),
    *(f"layer3.{block}.conv{i}" for block in range(1, 6) for i in (1, 2)),
    *("layer4.0.conv1", "layer4.0.conv2", "layer4.0.downsample.0"),
    *(f"layer4.{block}.conv{i}" for block in range(1, 3) for i in (1, 2)),
]
"""The 36 convolutions of ResNet-34 in order of definition; the shortcuts are numbers 9, 18 and 31."""


def plain_dict(value: Any) -> Any:
    """An OrderedDict or another kind of dict as a plain one; any other value as it is."""
    return dict(value) if isinstance(value, dict) else value


def full_names(names: dict[str, str]) -> dict[str, str]:
    """The name of each Conv2d of a TinyNet in `named_modules()`, in order of execution."""
    block = names["block"]
    return {
        "stem": names["stem"],
        "second": f"{block}.parts.1",
        "first": f"{block}.parts.0",
        "side": f"{block}.side",
        "tail": f"{names['tail']}.0",
    }


def defined_order(names: dict[str, str], order: list[str], block: list[str]) -> list[str]:
    """The same names in order of definition."""
    inside = [part for name in block for part in (["first", "second"] if name == "parts" else ["side"])]
    parts = [part for name in order for part in (inside if name == "block" else [name])]
    full = full_names(names)
    return [full[part] for part in parts if part in full]


def tiny_maps(
    names: dict[str, str], weights: dict[str, Tensor], x: Tensor, train: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By direct composition: what each Conv2d of a TinyNet returns, and what its memory holds at the end."""

    def conv(part: str, x: Tensor) -> Tensor:
        weight = weights[part].double()
        return F.conv2d(x, weight, padding=weight.shape[-1] // 2)

    x = F.batch_norm(x.double(), torch.zeros(2).double(), torch.ones(2).double(), training=train)
    maps = {"stem": conv("stem", x)}
    x = maps["stem"].relu()
    maps["second"] = conv("second", x)
    maps["first"] = conv("first", maps["second"].relu())
    maps["side"] = conv("side", x)
    y = (maps["first"] + maps["side"]).relu()
    maps["tail"] = 2 * conv("tail", F.conv_transpose2d(y, weights["up"].double()))
    kept = {part: value.relu() for part, value in maps.items()} | {"first": y, "side": torch.zeros_like(maps["side"])}
    full = full_names(names)
    return tuple({full[part]: found[part].float() for part in full} for found in (maps, kept))  # type: ignore[return-value]


@exercise(
    "09-conv-maps",
    points=2,
    title="The maps of every convolution",
    hints=(
        "`isinstance(module, nn.Conv2d)` is true for Conv2d and its subclasses, and for no other convolution. "
        "`model.named_modules()` visits every level.",
        "Store `output.detach().clone()`. An in-place operation after the convolution rewrites anything else.",
        "Let each hook fill the dict when it fires: then the keys are in the order of execution. Bind the name with a "
        "default argument, and remove all handles in a `finally` block.",
    ),
    cases=({"net": "tiny", "train": True}, {"net": "tiny", "train": False}, {"net": "resnet", "train": False}),
)
class TestConvMaps:
    """Write `conv_maps(model, x)`. Run `model(x)` once. Return a dict that holds, for every `nn.Conv2d` anywhere in
    the model, its name in `named_modules()` and its output. Subclasses of `nn.Conv2d` count. Other convolutions, such
    as `nn.Conv1d` and `nn.ConvTranspose2d`, do not. The model calls each `nn.Conv2d` exactly once. The keys are in the
    order in which the convolutions ran.

    Each output is a detached copy of what the convolution returned, even when a later in-place operation overwrites it.
    The model keeps its mode, training or eval, and its parameters. No hook of yours is left on it, even when the model
    raises; the exception comes through. Hooks that were there before stay.

    **Example.** Let `model` be `nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))`, and let the
    only weight be 1. For `x = tensor([[[[-1., 2.]]]])` the result is `{"0": tensor([[[[-1., 2.]]]])}`.
    """

    def draw(rng, net, train):
        shapes = {"stem": (3, 2, 3), "second": (3, 3, 3), "first": (3, 3, 1), "side": (3, 3, 1),
                  "tail": (4, 3, 3), "up": (3, 3, 1)}  # fmt: skip
        weights = {part: rng.tensor(o, i, k, k, low=-0.75, high=0.75, away=0.125) for part, (o, i, k) in shapes.items()}
        weights["line"] = rng.tensor(2, 4, 1, low=-1, high=1)
        parts = ["norm", "stem", "block", "up", "tail", "line"]
        resnet = net == "resnet"
        return {
            "net": net, "train": train, "weights": weights, "names": dict(zip(parts, rng.names(len(parts)))),
            "order": rng.shuffled(parts), "block": rng.shuffled(["parts", "side"]),
            "x": rng.tensor(1, 3, 32, 32) if resnet else rng.tensor(2, 2, 4, 5, low=-1.5, high=2.5),
            "stem": rng.tensor(4, 3, 7, 7, low=-0.5, high=0.5, away=0.125) if resnet else None,
        }  # fmt: skip

    def alive(net, train, weights, names, x):
        if net == "resnet":
            return True
        maps, kept = tiny_maps(names, weights, x, train)
        # Each map is alive, and what its memory holds at the end is something else.
        return all(m.abs().max() > 0.1 and (m - kept[name]).abs().max() > 0.05 for name, m in maps.items())

    def probe(student, net, train, weights, names, order, block, x, stem):
        fired = []
        if net == "resnet":
            model = thin_resnet34(stem)
            for name, module in model.named_modules():
                if isinstance(module, nn.Conv2d):
                    module.register_forward_hook(
                        lambda module, args, output, name=name: fired.append((name, output.double().sum().item()))
                    )
            before = module_hooks(model)
            maps = plain_dict(student.conv_maps(model, x))
            tensors = {k: v for k, v in maps.items() if isinstance(v, Tensor)} if isinstance(maps, dict) else {}
            return {
                "maps": {"conv1": tensors["conv1"]} if "conv1" in tensors else maps,
                "keys": list(tensors),
                "shapes": [tuple(v.shape) for v in tensors.values()],
                "sums": [v.detach().double().sum().item() for v in tensors.values()],
                "ran": [name for name, _ in fired[:40]],
                "ran_sums": [value for _, value in fired[:40]],
                "fired": len(fired), "runs": len(fired) / 36, "hooks": module_hooks(model) - before,
                "mode_kept": not any(module.training for module in model.modules()), "parameters_kept": True,
                "hooks_after_exception": 0, "exception": "propagated",
            }  # fmt: skip

        model = TinyNet(names, order, block, weights).train(train)
        for name in (names["stem"], names["line"], ""):
            model.get_submodule(name).register_forward_hook(lambda module, args, output: fired.append(1))
        model.register_forward_pre_hook(lambda module, args: fired.append(1))
        before, kept = module_hooks(model), Kept(model)
        maps = plain_dict(student.conv_maps(model, x))
        seen = {
            "maps": maps, "keys": list(maps) if isinstance(maps, dict) else maps,
            "fired": len(fired), "runs": model.runs, "hooks": module_hooks(model) - before,
            "mode_kept": all(module.training is train for module in model.modules()), "parameters_kept": kept.holds(),
        }  # fmt: skip
        model = TinyNet(names, order, block, weights).train(train)
        model.fails = True
        with expecting_boom(seen):
            student.conv_maps(model, x)
        return {**seen, "hooks_after_exception": module_hooks(model)}

    mistakes = (
        Mistake(
            "only-sequential-recursed",
            lambda seen, net, names, weights, x, train: (
                seen["keys"].value == ["conv1"]
                if net == "resnet"
                else names["stem"] in seen["keys"].value
                and values_right(seen, names, weights, x, train)
                and {*seen["keys"].value} <= {names["stem"], f"{names['tail']}.0"}
            ),
        ),
        Mistake(
            "late-binding",
            lambda seen, net, names, weights, x, train: (
                len(seen["keys"]) == 1
                and seen["keys"].value != ["conv1"]
                and (
                    net == "resnet"
                    or close(
                        seen["maps"][seen["keys"].value[0]],
                        list(tiny_maps(names, weights, x, train)[0].values())[-1],
                        1e-4,
                        1e-4,
                    )
                )
            ),
            "All your hooks wrote under one name. They read the loop variable when they run, and by then it has its "
            "last value. Bind it with a default argument: `def hook(module, args, output, name=name):`.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, names, weights, x, train: any(
                close(seen["maps"][name], kept, 1e-4, 1e-4)
                for name, kept in tiny_maps(names, weights, x, train)[1].items()
            ),
        ),
        Mistake(
            "definition-order",
            lambda seen, net, names, order, block, weights, x, train: (
                seen["keys"].value == CONVOLUTIONS != seen["ran"].value and sums_right(seen)
                if net == "resnet"
                else seen["keys"].value == defined_order(names, order, block)
                and values_right(seen, names, weights, x, train)
            ),
        ),
        Mistake(
            "subclass-missed",
            lambda seen, net, names: (
                net == "tiny" and {*seen["keys"].value} == {*full_names(names).values()} - {f"{names['tail']}.0"}
            ),
            "A convolution of a subclass of `nn.Conv2d` is missing. `isinstance(module, nn.Conv2d)` is true for "
            "subclasses, too; `type(module) is nn.Conv2d` is not.",
        ),
        Mistake(
            "other-convolutions",
            lambda seen, names: len(seen["keys"]) > 1 and bool({names["up"], names["line"]} & {*seen["keys"].value}),
            "Your dict holds convolutions that are no `nn.Conv2d`, such as `nn.Conv1d` or `nn.ConvTranspose2d`. "
            "Choose the modules with `isinstance(module, nn.Conv2d)`.",
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or let a "
            "`contextlib.ExitStack` hold the handles.",
        ),
    )

    def test_every_conv2d_has_its_map_as_the_layer_returned_it(seen, net, names, weights, x, train, stem):
        if net == "resnet":
            expect(seen["maps"]).has_keys("conv1")
            for name in CONVOLUTIONS:
                if name not in seen["keys"].value:
                    expect(seen["keys"]).fail(f"{name!r} is missing; there are {len(seen['keys'])} of 36")
            expect(seen["keys"]).has_length(36, "convolutions")
            expect(seen["maps"]["conv1"]).close_to(F.conv2d(x, stem, stride=2, padding=3), rtol=1e-4, atol=1e-4)
            by_name = dict(zip(seen["ran"].value, seen["ran_sums"].value))
            for name, total in zip(seen["keys"].value, seen["sums"]):
                expect(total).close_to(by_name[name], rtol=1e-4, atol=1e-3)
            return
        maps, _ = tiny_maps(names, weights, x, train)
        expect(seen["maps"]).has_keys(*maps)
        for name, value in maps.items():
            expect(seen["maps"][name]).close_to(value, rtol=1e-4, atol=1e-4)

    def test_the_keys_are_in_the_order_of_execution(seen, net, names):
        expect(seen["keys"]).timeline(seen["ran"].value if net == "resnet" else list(full_names(names).values()))

    def test_the_model_runs_once_in_its_own_mode(seen):
        expect(Seen(seen["runs"].value == 1)).is_true(f"`model(x)` should run once, and ran {seen['runs'].value} times")
        expect(seen["mode_kept"]).is_true("a module is not in the mode (training or eval) in which it was before")
        expect(seen["parameters_kept"]).is_true(PARAMETERS_CHANGED)

    def test_hooks_of_the_caller_stay_and_no_other_is_left(seen, net):
        expect(Seen(seen["fired"].value == (36 if net == "resnet" else 4))).is_true(
            "a hook that was on the model before the call was not called exactly once"
        )
        no_hook_left(seen["hooks"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_after_exception"])


def sums_right(seen: Seen) -> bool:
    """Whether the sum of every map of the ResNet is right."""
    by_name = dict(zip(seen["ran"].value, seen["ran_sums"].value))
    return all(close(total, by_name[name], 1e-4, 1e-3) for name, total in zip(seen["keys"].value, seen["sums"]))


def values_right(seen: Seen, names: dict[str, str], weights: dict[str, Tensor], x: Tensor, train: bool) -> bool:
    """Whether every map that is there is right."""
    maps, _ = tiny_maps(names, weights, x, train)
    return all(name in maps and close(seen["maps"][name], maps[name], 1e-4, 1e-4) for name in seen["keys"].value)


# 09-normalize-maps


def normalized(fm: Tensor) -> Tensor:
    """The formula, in float64: each channel from 0 to 1, a constant one 0."""
    fm = fm.double()
    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
    span = high - low
    return torch.where(span > 0, (fm - low) / torch.where(span > 0, span, torch.ones_like(span)), 0.0).float()


def constant(fm: Tensor) -> Tensor:
    """Which channels have one value everywhere."""
    return fm.double().amax((1, 2)) == fm.double().amin((1, 2))


def compare_channels(seen: Seen, expected: Tensor, which: Tensor) -> None:
    """An array of the dtype and shape of `expected` that equals it in the channels that `which` marks."""
    value = seen.value
    if type(value) is not Array or value.tensor.shape != expected.shape:
        expect(seen).array_close_to(expected)
    marked = which.reshape(-1, 1, 1)
    values = torch.where(marked, value.tensor, torch.zeros_like(value.tensor))
    expect(Seen(Array(values, False, value.kind), seen.path)).array_close_to(torch.where(marked, expected, 0.0))


@exercise(
    "09-normalize-maps",
    points=1,
    title="Every map from 0 to 1",
    hints=(
        "Detach, then `.float()`, then `.numpy()`. With `keepdims=True` (or `keepdim=True`) the minima have the shape "
        "[C, 1, 1] and can be subtracted from all pixels at once.",
        "Where the span `max - min` is 0, divide by 1 instead: `np.where(span == 0, 1, span)`. The channel is 0 "
        "already, because its minimum has been subtracted.",
        "Do not add a small number to the span. There are maps whose whole range is smaller than your small number.",
    ),
    cases=(
        {"dtype": torch.float32, "grad": False, "scales": (1.0, 100.0, 1e-6), "shape": (4, 5)},
        {"dtype": torch.bfloat16, "grad": True, "scales": (1.0, 8.0, 0.25), "shape": (4, 5)},
        {"dtype": torch.float64, "grad": True, "scales": (1.0, 100.0, 1e-10), "shape": (1, 6)},
        {"dtype": torch.float16, "grad": False, "scales": (1.0, 8.0, 0.25), "shape": (4, 5)},
    ),
)
class TestNormalizeMaps:
    """Write `normalize_maps(fm)`. `fm` is a tensor of shape [C, H, W] of any floating dtype, `bfloat16` among them,
    and it may require grad. Return a numpy array of the same shape and of dtype float32. In each channel the smallest
    value becomes 0, the largest becomes 1, and the others lie between them in proportion:
    `(v - min) / (max - min)`, with the minimum and the maximum of that channel. Compute in float32 or better. A
    channel with only one value, whatever it is, becomes 0 everywhere. `fm` itself does not change.

    **Example.** For `fm = tensor([[[1., 2., 5.]], [[7., 7., 7.]]])` the result is
    `array([[[0., 0.25, 1.]], [[0., 0., 0.]]], dtype=float32)`.
    """

    def draw(rng, dtype, grad, scales, shape):
        maps = [rng.tensor(*shape) * scale for scale in scales]
        maps += [torch.zeros(shape), torch.full(shape, rng.uniform(1, 3))]
        return {"fm": torch.stack(rng.shuffled(maps)).to(dtype), "grad": grad}

    def alive(fm):
        return int(constant(fm).sum()) == 2

    def probe(student, fm, grad):
        fm.requires_grad_(grad)
        before = snapshot(fm)
        maps = student.normalize_maps(fm)
        student.normalize_maps(1 - snapshot(fm))  # does not change the array that was returned first
        return {"maps": maps, "unchanged": torch.equal(fm.detach(), before) and fm.requires_grad is grad}

    mistakes = (
        Mistake(
            "one-range-for-all",
            lambda seen, fm: close(seen["maps"], (fm.double() - fm.min()) / (fm.double().max() - fm.min())),
            "You used one minimum and one maximum for all channels. Each channel has its own: take them over H and W "
            "only, with `axis=(1, 2), keepdims=True`.",
        ),
        Mistake(
            "reduced-over-channels",
            lambda seen, fm: close(
                seen["maps"], (fm.double() - fm.double().amin(0)) / (fm.double().amax(0) - fm.double().amin(0))
            ),
            "You took the minimum and the maximum over the channels, at each pixel. Take them over the pixels, in each "
            "channel: axes 1 and 2.",
        ),
        Mistake(
            "not-detached",
            raises="Can't call numpy() on Tensor that requires grad",
            message="A tensor that requires grad has no `.numpy()`, because numpy would know nothing of its graph. "
            "Call `.detach()` first.",
        ),
        Mistake(
            "no-float-cast",
            raises="BFloat16",
            message="Numpy has no bfloat16, so `.numpy()` fails on such a tensor. Call `.float()` first, then "
            "`.numpy()`.",
        ),
        Mistake(
            "cast-too-late",
            lambda seen, fm: (
                fm.dtype in (torch.bfloat16, torch.float16)
                and not close(seen["maps"], normalized(fm), 1e-5, 1e-5)
                and close(seen["maps"], normalized(fm), 0, 2 * torch.finfo(fm.dtype).eps)
            ),
            "You subtracted and divided in half precision, which keeps only two or three digits, and made float32 of "
            "the rounded result. Call `.float()` first.",
        ),
        Mistake(
            "nan-on-constant",
            lambda seen, fm: bool(seen["maps"].tensor[constant(fm)].isnan().all()),
            "A channel with only one value has the span 0, and 0 / 0 is NaN. Divide by 1 where the span is 0.",
        ),
        Mistake(
            "epsilon-in-the-span",
            lambda seen, fm: (
                bool(0 < (top := seen["maps"].tensor.amax((1, 2))[~constant(fm)]).min() < 0.9999)
                and bool(
                    (top[(fm.double().amax((1, 2)) - fm.double().amin((1, 2)))[~constant(fm)] > 0.1] > 0.9999).all()
                )
                and bool((seen["maps"].tensor[constant(fm)] == 0).all())
                and fm.dtype in (torch.float32, torch.float64)
            ),
            "The largest value of a weak channel does not become 1. You added a small number to the span, and for this "
            "channel it is not small. Treat the span 0 separately instead.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen: seen["unchanged"].value is False,
            "You changed the caller's tensor. `.detach()`, `.float()` on float32 and `.numpy()` share its memory, so "
            "`-=` and `/=` write into it. Compute new arrays: `a - low`, not `a -= low`.",
            raises="a leaf Variable that requires grad",
        ),
    )

    def test_every_channel_goes_from_0_to_1(seen, fm):
        compare_channels(seen["maps"], normalized(fm), ~constant(fm))

    def test_a_constant_channel_becomes_0(seen, fm):
        compare_channels(seen["maps"], torch.zeros(fm.shape), constant(fm))

    def test_the_tensor_passed_in_is_unchanged(seen):
        expect(seen["unchanged"]).is_true("the tensor that the caller passed is not the same as before the call")


# 09-tile-maps


def sheet(fm: Tensor, columns: int, rows: int, pad: int, fill: float, by_column: bool = False) -> Tensor:
    """The tiles that find a place on a sheet of `rows` by `columns`, by slices."""
    count, height, width = fm.shape
    made = torch.full((rows * height + (rows - 1) * pad, columns * width + (columns - 1) * pad), fill)
    for k in range(min(count, rows * columns)):
        row, column = (k % rows, k // rows) if by_column else (k // columns, k % columns)
        top, left = row * (height + pad), column * (width + pad)
        made[top : top + height, left : left + width] = fm[k]
    return made


def right_sheet(fm: Tensor, ncols: int, pad: int, fill: float) -> Tensor:
    """The sheet that the contract asks for."""
    columns = min(ncols, len(fm))
    return sheet(fm, columns, -(-len(fm) // columns), pad, fill)


def rows_and_columns(fm: Tensor, ncols: int) -> tuple[int, int]:
    """How many rows and columns the right sheet has."""
    columns = min(ncols, len(fm))
    return -(-len(fm) // columns), columns


def inner_of(value: Tensor, pad: int, right: Tensor) -> bool:
    """Whether a larger sheet holds the right one inside a rim."""
    for rim in {(0, pad), (pad, pad)}:
        expected = F.pad(right, (rim[0], rim[1], rim[0], rim[1]), value=torch.nan)
        if value.shape == expected.shape and bool(((value == expected) | expected.isnan()).all()):
            return pad > 0
    return False


@exercise(
    "09-tile-maps",
    points=2,
    title="Many maps on one sheet",
    hints=(
        "Tile `k` stands in row `k // columns` and column `k % columns`; `divmod(k, columns)` gives both.",
        "Start from `np.full((height, width), fill, dtype=np.float32)` and write the tiles into it. Then gaps and "
        "unused places are done already.",
        "n tiles of height H with n - 1 gaps between them are n * H + (n - 1) * pad pixels high. There is no pad "
        "around the sheet. Round the number of rows up: `math.ceil(C / columns)`.",
    ),
    cases=(
        {"shape": (20, 3, 5), "ncols": 8, "pad": 1, "fill": 0.0, "defaults": True},
        {"shape": (3, 4, 2), "ncols": 5, "pad": 2, "fill": -1.5, "defaults": False},
        {"shape": (7, 2, 3), "ncols": 3, "pad": 0, "fill": 9.0, "defaults": False},
        {"shape": (70, 2, 3), "ncols": 9, "pad": 1, "fill": 0.5, "defaults": False},
        {"shape": (1, 3, 2), "ncols": 1, "pad": 2, "fill": 0.5, "defaults": False},
    ),
)
class TestTileMaps:
    """Write `tile_maps(fm, ncols, pad=1, fill=0.0)`. `fm` is a detached float32 tensor of shape [C, H, W] with any
    number of channels. Return one sheet with all channels on it: a two-dimensional numpy array of dtype float32.

    - The channels stand row by row, from left to right, in `min(ncols, C)` columns and as many rows as are needed.
    - Between neighbouring tiles there are `pad` pixels, across and down. There are none around the sheet.
    - Gaps, and the places that stay empty in the last row, hold the value `fill`.
    - The values of the channels are not scaled.

    **Example.** For `fm = tensor([[[1., 2.]], [[3., 4.]], [[5., 6.]]])`, three channels of 1 by 2 pixels,
    `tile_maps(fm, 2)` is `array([[1., 2., 0., 3., 4.], [0., 0., 0., 0., 0.], [5., 6., 0., 0., 0.]], dtype=float32)`.
    """

    def draw(rng, shape, ncols, pad, fill, defaults):
        return {"fm": rng.tensor(*shape), "ncols": ncols, "pad": pad, "fill": fill, "defaults": defaults}

    def alive(fm):
        return len({tuple(tile.flatten().tolist()) for tile in fm}) == len(fm) and not (fm == fm.mT.mT.flip(2)).all()

    def probe(student, fm, ncols, pad, fill, defaults):
        before = snapshot(fm)
        made = student.tile_maps(fm, ncols) if defaults else student.tile_maps(fm, ncols, pad, fill)
        student.tile_maps(1 - fm, ncols, pad, fill)  # does not change the sheet that was returned first
        return {"sheet": made, "unchanged": torch.equal(fm, before)}

    mistakes = (
        Mistake(
            "dropped-last-row",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) % ncols > 0
                and len(fm) > ncols
                and close(seen["sheet"], sheet(fm, ncols, len(fm) // ncols, pad, fill))
            ),
            "The last row, which is not full, is missing. Round the number of rows up: `math.ceil(C / columns)`.",
        ),
        Mistake(
            "column-major",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) > ncols
                and close(seen["sheet"], sheet(fm, *reversed(rows_and_columns(fm, ncols)), pad, fill, by_column=True))
            ),
            "Your sheet is filled column by column. Fill it row by row: tile `k` stands in row `k // columns` and "
            "column `k % columns`.",
        ),
        Mistake(
            "fixed-channel-count",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) > 64
                and (
                    close(seen["sheet"], right_sheet(fm[:64], ncols, pad, fill))
                    or close(seen["sheet"], sheet(fm[:64], *reversed(rows_and_columns(fm, ncols)), pad, fill))
                )
            ),
            "Your loop counts to a fixed number of channels. Layers have 3, 20, 64 or 512 of them: use `fm.shape[0]`.",
            raises=("out of bounds for dimension 0 with size 20", "out of bounds for axis 0 with size 20"),
        ),
        Mistake(
            "transposed",
            lambda seen, fm, ncols, pad, fill: any(
                close(seen["sheet"], wrong)
                for wrong in (
                    right_sheet(fm.mT, ncols, pad, fill),
                    right_sheet(fm, ncols, pad, fill).T,
                    right_sheet(fm.mT, ncols, pad, fill).T,
                )
            ),
            "You exchanged height and width. `fm.shape` is (C, H, W): H counts the rows of a tile, which go down, and "
            "W counts its columns.",
            raises=(
                "from shape (3,5) into shape (5,3)",
                "from shape (5,3) into shape (3,5)",
                "size of the tensor (3) must match the existing size (5)",
                "size of the tensor (5) must match the existing size (3)",
            ),
        ),
        Mistake(
            "pad-around-the-sheet",
            lambda seen, fm, ncols, pad, fill: inner_of(seen["sheet"].tensor, pad, right_sheet(fm, ncols, pad, fill)),
            "Your sheet has padding at its rim. The `pad` pixels stand between tiles only: n tiles have n - 1 gaps.",
        ),
        Mistake(
            "columns-without-maps",
            lambda seen, fm, ncols, pad, fill: len(fm) < ncols and close(seen["sheet"], sheet(fm, ncols, 1, pad, fill)),
            "With fewer channels than `ncols`, your sheet has empty columns. Use `min(ncols, C)` columns.",
        ),
        Mistake(
            "scaled-the-values",
            lambda seen, fm, ncols, pad, fill: any(
                close(seen["sheet"], right_sheet(scaled.float(), ncols, pad, fill))
                for scaled in (normalized(fm), (fm - fm.min()) / (fm.max() - fm.min()))
            ),
            "You scaled the channels. A sheet shows the values as they are; whoever wants them from 0 to 1 calls "
            "`normalize_maps` first.",
        ),
    )

    def test_the_channels_stand_row_by_row(seen, fm, ncols, pad, fill):
        expect(seen["sheet"]).array_close_to(right_sheet(fm, ncols, pad, fill))

    def test_the_tensor_passed_in_is_unchanged(seen):
        expect(seen["unchanged"]).is_true("the tensor that the caller passed is not the same as before the call")


# 09-plot-maps


def open_figures() -> list[int]:
    """The numbers of the figures that pyplot keeps; it keeps none when nobody imported it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []


def is_off(axes: Any) -> bool:
    """Whether axes show neither ticks nor a frame."""
    hidden = not any(one.get_visible() and len(one.get_majorticklocs()) for one in (axes.xaxis, axes.yaxis))
    frameless = not axes.get_frame_on() or not any(spine.get_visible() for spine in axes.spines.values())
    return not axes.axison or not axes.get_visible() or (hidden and frameless)


def is_gray(image: Any) -> bool:
    """Whether small values are dark, large ones bright, and all of them gray."""
    shades = torch.tensor(image.get_cmap()(torch.linspace(0, 1, 9).numpy()))[:, :3]
    rising = bool((shades[1:, 0] > shades[:-1, 0]).all())
    return rising and bool((shades.amax(1) - shades.amin(1) < 0.02).all())


def place(axes: Any, figure: Any) -> tuple[float, float]:
    """How far the centre of axes is from the top and from the left of the figure, as a share of it."""
    locator = axes.get_axes_locator()  # an ImageGrid places its axes with one
    box = locator(axes, None) if locator else axes.get_position(original=True)
    box = box.transformed(axes.figure.transSubfigure)
    down, right = 1 - (box.y0 + box.y1) / 2 / figure.bbox.height, (box.x0 + box.x1) / 2 / figure.bbox.width
    return round(float(down), 3), round(float(right), 3)


def is_colour_bar(axes: Any) -> bool:
    """Whether these axes were made for a colour bar."""
    return bool(getattr(axes, "_colorbar", None)) or axes.get_label() == "<colorbar>"


def figure_data(figure: Any) -> Any:
    """What a figure shows, in reading order: rows of maps, and the axes without one. Colour bars do not count."""
    from matplotlib.figure import Figure  # here, because the graders are collected without matplotlib

    if not isinstance(figure, Figure):
        return type(figure).__name__
    axes = [one for one in figure.axes if one.get_images() or (one.get_visible() and not is_colour_bar(one))]
    placed = sorted((*place(one, figure), number) for number, one in enumerate(axes))
    maps, rows = [], []
    for down, _, number in placed:
        for image in axes[number].get_images():
            rows.append(down)
            low, high = image.get_clim()
            titles = [axes[number].get_title(loc) for loc in ("center", "left", "right")]
            maps.append({
                "array": torch.tensor(np.ma.filled(np.ma.array(image.get_array(), dtype="float32"), np.nan)),
                "clim": [None if limit is None else float(limit) for limit in (low, high)],
                "title": "".join(titles).strip(),
                "off": is_off(axes[number]),
                "shown": axes[number].get_visible() and image.get_visible(),
                "gray": is_gray(image),
            })  # fmt: skip
    return {
        "maps": maps,
        "rows": [rows.count(down) for down in sorted(set(rows))],
        "columns": max(
            [len({right for other, right, _ in placed if other == down}) for down, _, _ in placed], default=0
        ),
        "one_each": all(len(one.get_images()) < 2 for one in axes),
        "empty_axes_on": sum(not one.get_images() and not is_off(one) for one in axes),
    }


def limits(fm: Tensor, shared: bool) -> list[list[float]]:
    """The colour limits of each map."""
    return [[part.min().item(), part.max().item()] for part in ([fm] * len(fm) if shared else fm)]


@exercise(
    "09-plot-maps",
    points=2,
    title="A figure of all maps",
    hints=(
        "`matplotlib.figure.Figure()` makes a figure that pyplot knows nothing of, so there is nothing to close. "
        "With `plt.subplots`, call `plt.close(figure)` before you return it.",
        "`figure.subplots(rows, columns, squeeze=False)` gives a two-dimensional array of axes even for one map. "
        "`axes.flat` runs through it row by row. Switch all of them off, also those that stay empty.",
        "Pass `vmin` and `vmax` to `imshow`: the minimum and the maximum of all of `fm` with `shared`, otherwise those "
        "of the channel.",
    ),
    cases=(
        {"channels": 5, "ncols": 3, "shared": True, "defaults": False},
        {"channels": 1, "ncols": 8, "shared": True, "defaults": False},
        {"channels": 2, "ncols": 1, "shared": False, "defaults": False},
        {"channels": 65, "ncols": 8, "shared": False, "defaults": True},
    ),
)
class TestPlotMaps:
    """Write `plot_maps(fm, ncols=8, shared=False)`. `fm` is a detached float32 tensor of shape [C, H, W] with any
    number of channels. Return a matplotlib `Figure` that shows one image for each channel.

    - Each channel has axes of its own with one `imshow` image that holds the channel's values, unscaled. The colour
      map is `gray`. The title is the number of the channel and nothing else: `"0"`, `"1"`, and so on.
    - The axes stand row by row, from left to right, in `min(ncols, C)` columns.
    - The colour limits of an image are the smallest and the largest value of its channel. With `shared=True` they are
      the smallest and the largest value of all of `fm`, for every image.
    - All axes are switched off, also those that stay empty.
    - No figure of yours is left open in pyplot.

    A colour bar is not asked for. If you add one, its axes are not counted, and they may stay on.

    **Example.** For a `fm` of 20 channels, `plot_maps(fm)` shows three rows: channels 0 to 7, 8 to 15, and 16 to 19.
    """

    def draw(rng, channels, ncols, shared, defaults):
        fm = rng.tensor(channels, 3, 4) * torch.tensor([[[rng.uniform(0.5, 4)]] for _ in range(channels)])
        return {"fm": fm, "ncols": ncols, "shared": shared, "defaults": defaults}

    def alive(fm, shared):
        each, whole = limits(fm, False), limits(fm, True)
        return len(fm) == 1 or (fm[0].max() > fm[0].min() and each[0] != whole[0] and each[-1] != whole[-1])

    def probe(student, fm, ncols, shared, defaults):
        before, kept = snapshot(fm), open_figures()
        figure = student.plot_maps(fm) if defaults else student.plot_maps(fm, ncols, shared)
        left = [number for number in open_figures() if number not in kept]
        for number in left:
            sys.modules["matplotlib.pyplot"].close(number)
        return {"figure": figure_data(figure), "left_open": len(left), "unchanged": torch.equal(fm, before)}

    mistakes = (
        Mistake(
            "no-figure-returned",
            lambda seen: seen["figure"].value == "NoneType",
            "Your function returns `None`. Return the figure: `return figure`. A call of `plt.show()` displays it and "
            "hands nothing to the caller.",
        ),
        Mistake(
            "figure-left-open",
            lambda seen: seen["left_open"].value > 0 and seen["figure"].value != "NoneType",
            "Your figure is still open in pyplot, which keeps every figure that it made until it is closed. Call "
            "`plt.close(figure)` before you return it, or make it with `matplotlib.figure.Figure()`.",
        ),
        Mistake(
            "fixed-channel-count",
            lambda seen, fm: len(fm) > 64 and len(seen["figure"]["maps"]) == 64,
            "Your loop counts to a fixed number of channels. Layers have 3, 20, 64 or 512 of them: use `fm.shape[0]`.",
            raises=("out of bounds for dimension 0 with size", "out of bounds for axis 0 with size 11"),
        ),
        Mistake(
            "squeezed-axes",
            raises=(
                "'Axes' object has no attribute",
                "'Axes' object is not",
                "'Axes' has no len()",
                "too many indices for array: array is 1-dimensional",
            ),
            message="With a single row or column, `subplots` returns axes in a smaller array, and with a single map no "
            "array at all. Pass `squeeze=False`: then it is always two-dimensional.",
        ),
        Mistake(
            "rows-of-axes",
            raises="'numpy.ndarray' object has no attribute",
            message="A loop over the two-dimensional array that `subplots` returns gives whole rows of axes, and a row "
            "cannot draw. Loop over `axes.flat`, or index with row and column.",
        ),
        Mistake(
            "ignored-shared",
            lambda seen, fm, shared: shared and len(fm) > 1 and close(clims(seen), limits(fm, False)),
            "With `shared=True` every image needs the same colour limits: the minimum and the maximum of all of `fm`. "
            "Left alone, `imshow` scales each image by itself.",
        ),
        Mistake(
            "always-shared",
            lambda seen, fm, shared: not shared and len(fm) > 1 and close(clims(seen), limits(fm, True)),
            "Without `shared`, each image has its own colour limits: the minimum and the maximum of its channel.",
        ),
        Mistake(
            "empty-axes-visible",
            lambda seen: seen["figure"]["empty_axes_on"].value > 0,
            "Some places stay empty, and their axes still show a frame and ticks. Switch all axes off, not only those "
            "that got an image.",
        ),
        Mistake(
            "titles-from-one",
            lambda seen, fm: (
                len(fm) > 1 and [one["title"].value for one in seen["figure"]["maps"]] == numbers(1, len(fm))
            ),
            "Your titles count from 1. The title is the index of the channel, and `fm[0]` is the first.",
        ),
        Mistake(
            "scaled-the-values",
            lambda seen, fm: any(
                close(arrays(seen), list(scaled.float()))
                for scaled in (normalized(fm), (fm - fm.min()) / (fm.max() - fm.min()))
            ),
            "Your images hold scaled values. Give `imshow` the values as they are, and `vmin` and `vmax` besides.",
        ),
    )

    def test_every_channel_has_its_image_row_by_row(seen, fm, ncols):
        if type(seen["figure"].value) is not dict:
            expect(seen["figure"]).fail(f"expected a matplotlib Figure, saw {seen['figure'].value}")
        maps = seen["figure"]["maps"]
        expect(maps).has_length(len(fm), "images")
        for k, one in enumerate(maps):
            shown = Seen(one["array"].value, f"the image of channel {k}")
            expect(shown).close_to(fm[k])
            expect(one["shown"]).is_true(f"the image of channel {k} is invisible")
        expect(seen["figure"]["one_each"]).is_true("some axes hold more than one image")
        columns = min(ncols, len(fm))
        rows = [columns] * (len(fm) // columns) + [len(fm) % columns] * (len(fm) % columns > 0)
        expect(Seen(seen["figure"]["rows"].value, "images in each row")).equals(rows)
        expect(Seen(seen["figure"]["columns"].value <= columns)).is_true(
            f"expected {columns} axes in a row, with the empty ones, saw {seen['figure']['columns'].value}"
        )

    def test_the_colour_limits_are_right(seen, fm, shared):
        for k, (one, (low, high)) in enumerate(zip(seen["figure"]["maps"], limits(fm, shared))):
            expect(Seen(one["clim"].value[0], f"lower limit of channel {k}")).close_to(low)
            expect(Seen(one["clim"].value[1], f"upper limit of channel {k}")).close_to(high)

    def test_images_are_gray_and_titles_are_indices(seen, fm):
        for k, one in enumerate(seen["figure"]["maps"]):
            expect(Seen(one["title"].value, f"title of channel {k}")).equals(str(k))
            expect(one["gray"]).is_true(f"the image of channel {k} is not drawn with the colour map `gray`")

    def test_all_axes_are_off(seen):
        for k, one in enumerate(seen["figure"]["maps"]):
            expect(one["off"]).is_true(f"the axes of channel {k} still show a frame or ticks")
        expect(Seen(seen["figure"]["empty_axes_on"].value, "empty axes that are not off")).equals(0)

    def test_no_figure_is_left_open_and_the_tensor_passed_in_is_unchanged(seen):
        expect(Seen(seen["left_open"].value, "figures left open in pyplot")).equals(0)
        expect(seen["unchanged"]).is_true("the tensor that the caller passed is not the same as before the call")


def clims(seen: Seen) -> Seen:
    """The colour limits of all images."""
    return Seen([one["clim"].value for one in seen["figure"]["maps"]])


def arrays(seen: Seen) -> Seen:
    """The values of all images."""
    return Seen([one["array"].value for one in seen["figure"]["maps"]])


def numbers(first: int, count: int) -> list[str]:
    """Numbers as texts."""
    return [str(number) for number in range(first, first + count)]


# 09-top-channels


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
                k > 1 and seen["channels"].value in (ranking(-fm.mean((1, 2)), k), ranking(fm.mean((1, 2)), k)[::-1])
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


# 09-channel-stats


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
            lambda seen, kind, batches, weight, bias, mixing: cancelled(
                seen, kind, layer_calls(kind, batches, weight, bias, mixing)
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
