"""Exercise 09-conv-maps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.authoring import Boom, Mistake, Seen, close, exercise, expect, expecting_boom, module_hooks, no_hook_left
from graders.lesson_09_feature_maps.judging import PARAMETERS_CHANGED
from graders.lesson_09_feature_maps.shared import Kept, plain_dict
from graders.nets import ResNet

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
            keys = expect(seen["keys"]).list_of(str)
            for name in CONVOLUTIONS:
                if name not in keys:
                    expect(seen["keys"]).fail(f"{name!r} is missing; there are {len(keys)} of 36")
            expect(seen["keys"]).has_length(36, "convolutions")
            expect(seen["maps"]["conv1"]).close_to(F.conv2d(x, stem, stride=2, padding=3), rtol=1e-4, atol=1e-4)
            by_name = dict(zip(expect(seen["ran"]).list_of(str), expect(seen["ran_sums"]).list_of(float)))
            for index, name in enumerate(keys):
                if name not in by_name:
                    expect(seen["ran"]).fail(f"{name!r} did not run")
                expect(seen["sums"][index]).close_to(by_name[name], rtol=1e-4, atol=1e-3)
            return
        maps, _ = tiny_maps(names, weights, x, train)
        expect(seen["maps"]).has_keys(*maps)
        for name, value in maps.items():
            expect(seen["maps"][name]).close_to(value, rtol=1e-4, atol=1e-4)

    def test_the_keys_are_in_the_order_of_execution(seen, net, names):
        ran = expect(seen["ran"]).list_of(str) if net == "resnet" else list(full_names(names).values())
        expect(seen["keys"]).timeline(ran)

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
