"""Exercise 09-conv-maps."""

from __future__ import annotations

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
    changes,
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
from graders.nets import ResNet


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
    """Five Conv2d at three levels, one of a subclass and one under two names, beside a ConvTranspose2d and a Conv1d."""

    def __init__(
        self,
        names: dict[str, str],
        order: list[str],
        block: list[str],
        weights: dict[str, Tensor],
        passing: str = "position",
        registered: str = "yes",
    ) -> None:
        """`names` are those of the modules; `order` and `block` are orders of definition. "twin" is the stem again.

        With `registered="no"` one more convolution is called that is no submodule.
        """
        super().__init__()
        made = {part: convolution(part, weight) for part, weight in weights.items()}
        loose = made.pop("loose")
        made["side"].add_module("child", nn.Identity())
        made["norm"] = nn.BatchNorm2d(2)
        made["tail"] = nn.Sequential(made["tail"], nn.ReLU(inplace=True))
        made["block"] = Block(block, nn.ModuleList([made.pop("first"), made.pop("second")]), made.pop("side"))
        made["twin"] = made["stem"]
        for part in order:
            self.add_module(names[part], made[part])
        self.names, self.runs, self.strike, self.passing = names, 0, lambda: None, passing
        self.loose = [loose] if registered == "no" else []

    def forward(self, x: Tensor) -> Tensor:
        """The convolutions run in the order stem, second, first, side, tail."""
        self.runs += 1
        part = {part: self.get_submodule(name) for part, name in self.names.items()}
        x = part["norm"](x)
        x = part["block"]((part["stem"](input=x) if self.passing == "keyword" else part["stem"](x)).relu_())
        self.strike()  # some convolutions have run, and one has not
        x = part["up"](x)
        for convolution in self.loose:
            x = convolution(x)
        return part["line"](part["tail"](x).flatten(2)).relu_()


def convolution(part: str, weight: Tensor) -> nn.Module:
    """A convolution without bias that keeps the size, in the dtype of its weight."""
    kinds: dict[str, Any] = {"tail": PatchConv, "up": nn.ConvTranspose2d, "line": nn.Conv1d}
    padding = weight.shape[-1] // 2
    made: nn.Module = kinds.get(part, nn.Conv2d)(
        weight.shape[1], weight.shape[0], weight.shape[-1], padding=padding, bias=False, dtype=weight.dtype
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


def full_names(names: dict[str, str], order: list[str]) -> dict[str, str]:
    """The name of each Conv2d of a TinyNet in `named_modules()`, in order of execution."""
    block = names["block"]
    return {
        "stem": names[min("stem", "twin", key=order.index)],
        "second": f"{block}.parts.1",
        "first": f"{block}.parts.0",
        "side": f"{block}.side",
        "tail": f"{names['tail']}.0",
    }


def defined_order(names: dict[str, str], order: list[str], block: list[str]) -> list[str]:
    """The same names in order of definition."""
    inside = [part for name in block for part in (["first", "second"] if name == "parts" else ["side"])]
    first = [part for part in order if part != max("stem", "twin", key=order.index)]
    parts = [part for name in first for part in (inside if name == "block" else [name])]
    full = full_names(names, order)
    full["twin"] = full["stem"]
    return [full[part] for part in parts if part in full]


def tiny_maps(
    names: dict[str, str],
    order: list[str],
    weights: dict[str, Tensor],
    x: Tensor,
    mode: str,
    registered: str,
    hooks: str,
    hooked: str,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By direct composition: what each Conv2d of a TinyNet returns, and what its memory holds at the end."""
    factor = FACTOR if hooks == "replacing" and hooked == "named" else 1

    def conv(part: str, x: Tensor) -> Tensor:
        return F.conv2d(x, weights[part], padding=weights[part].shape[-1] // 2)

    x = factor * F.batch_norm(x, torch.zeros(2).to(x), torch.ones(2).to(x), training=mode == "train")
    maps = {"stem": conv("stem", x)}
    x = maps["stem"].relu()
    maps["second"] = conv("second", x)
    maps["first"] = conv("first", maps["second"].relu())
    maps["side"] = conv("side", x)
    y = (maps["first"] + maps["side"]).relu()
    x = F.conv_transpose2d(y, weights["up"])
    maps["tail"] = 2 * conv("tail", F.conv2d(x, weights["loose"]) if registered == "no" else x)
    kept = {part: value.relu() for part, value in maps.items()} | {"first": y, "side": torch.zeros_like(maps["side"])}
    full = full_names(names, order)
    return tuple({full[part]: found[part] for part in full} for found in (maps, kept))  # type: ignore[return-value]


def digits(x: Tensor) -> dict[str, float]:
    """The tolerance for maps in the dtype of a tensor."""
    return {"rtol": 1e-4, "atol": 1e-4} if x.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}


def deep_maps(student: Any, photo: Tensor, stem: Tensor) -> dict[str, Any]:
    """What becomes of a ResNet-34: the first map, and the sums of all as the function and as our own hooks saw them."""
    model, fired = thin_resnet34(stem), []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(
                lambda module, args, output, name=name: fired.append((name, output.double().sum().item()))
            )
    witness = Witness(model=model)
    maps = plain_dict(student.conv_maps(model, photo))
    tensors = {k: v for k, v in maps.items() if isinstance(v, Tensor)} if isinstance(maps, dict) else {}
    return {
        "maps": {"conv1": tensors["conv1"]} if "conv1" in tensors else maps,
        "keys": list(tensors),
        "sums": [v.detach().double().sum().item() for v in tensors.values()],
        "ran": [name for name, _ in fired[:40]],
        "ran_sums": [value for _, value in fired[:40]],
        "changed": witness.changes(),
    }


@exercise(
    "09-conv-maps",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="The maps of every convolution",
    hints=(
        "`isinstance(module, nn.Conv2d)` is true for Conv2d and its subclasses, and for no other convolution. "
        "`model.named_modules()` visits every level.",
        "Store `output.detach().clone()`. An in-place operation after the convolution rewrites anything else.",
        "Let each hook fill the dict when it fires: then the keys are in the order of execution. Bind the name with a "
        "default argument, and remove all handles in a `finally` block.",
    ),
    why=(
        "The dict is filled when hooks fire, so its keys stand in the order of execution, and each copy is "
        "made before the next layer can overwrite the output. One hook for all modules, with a dict from "
        "modules to names, would do as well, and so would `functools.partial` in place of `name=name`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL, "mode": ALL,
            "frozen": ALL, "passing": ALL, "registered": ALL, "hooks": ALL, "hooked": ("named", "root"),
            "call": ("again",), "grad_mode": ALL, "failure": ALL,
        },
        excludes={
            "rank": "a Conv2d gets images",
            "place": "the image is detached",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "tied": "each convolution has its own weight",
            "named": "every convolution is looked for, at every level and the root itself",
            "output": "a Conv2d returns a tensor",
            "follower": "an in-place layer follows each convolution",
            "layers": "it is about Conv2d",
            "backward": "there is no pass",
            "failing_run": "there is one run",
        },
        own={"twin": ("first", "last"), "deep": (False, True)},
        pairs=[("hooks", "hooked")],
        impossible=[lambda deep, dtype: deep and dtype == "float64"],
    ),
)  # fmt: skip
class TestConvMaps:
    """Write `conv_maps(model, x)`. Run the model, and return a dict that holds, for every `nn.Conv2d` in it, its name
    and a copy of what it returned. The keys are in the order in which the convolutions ran.

    Subclasses of `nn.Conv2d` count. Other convolutions, such as `nn.Conv1d` and `nn.ConvTranspose2d`, do not, and
    neither do modules that are no part of the model, although it calls them (from a plain list, say). If the model
    itself is a `nn.Conv2d`, its name is `""`. The model calls each of its `nn.Conv2d` once. Hooks of others on a
    convolution itself only watch.

    **Example.** Let `model` be `nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))`, with a
    weight of 1. For `x = tensor([[[[-1., 2.]]]])` the result is `{"0": tensor([[[[-1., 2.]]]])}`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, values, twin, deep):
        shapes = {
            "stem": (3, 2, 3),
            "second": (3, 3, 3),
            "first": (3, 3, 1),
            "side": (3, 3, 1),
            "tail": (4, 3, 3),
            "up": (3, 3, 1),
            "loose": (3, 3, 1),
        }
        weights = {
            part: rng.tensor(o, i, k, k, dtype=dtype, values=values, low=-0.75, high=0.75, away=0.125)
            for part, (o, i, k) in shapes.items()
        }
        weights["line"] = rng.tensor(2, 4, 1, dtype=dtype, low=-1, high=1)
        parts = ["norm", "stem", "block", "up", "tail", "line"]
        order, names = rng.shuffled(parts), rng.names(len(parts) + 1)
        return {
            "weights": weights,
            "names": {part: f"_{name}" if part == "block" else name for part, name in zip([*parts, "twin"], names)},
            "order": ["twin", *order] if twin == "first" else [*order, "twin"],
            "block": rng.shuffled(["parts", "side"]),
            "x": rng.tensor(2, 2, 4, 5, dtype=dtype, values=values, low=-1.5, high=2.5),
            "photo": rng.tensor(1, 3, 32, 32) if deep else None,
            "stem": rng.tensor(4, 3, 7, 7, low=-0.5, high=0.5, away=0.125) if deep else None,
        }

    def oracle(names, order, weights, x, mode, registered, hooks, hooked):
        return [tiny_maps(names, order, weights, part, mode, registered, hooks, hooked)[0] for part in (x, -x)]

    def alive(names, order, weights, x, mode, registered, hooks, hooked):
        maps, kept = tiny_maps(names, order, weights, x, mode, registered, hooks, hooked)
        # Each map is alive, and what its memory holds at the end is something else.
        return all(m.abs().max() > 0.1 and (m - kept[name]).abs().max() > 0.05 for name, m in maps.items())

    def probe(
        student,
        weights,
        names,
        order,
        block,
        x,
        photo,
        stem,
        layout,
        grad,
        mode,
        frozen,
        passing,
        registered,
        hooks,
        hooked,
        grad_mode,
        failure,
        deep,
    ):
        x, other = laid_out(x, layout), laid_out(-x, layout)
        model = in_mode(TinyNet(names, order, block, weights, passing, registered).to(x.dtype), mode)
        if mode == "mixed":
            model.get_submodule(names["norm"]).eval()
            model.get_submodule(names["up"]).train()
        freeze_part(model, frozen)
        if grad == "filled":
            fill_grads(model)
        callers = CallersHooks(hooks)
        callers.on_module(*((model, "model") if hooked == "root" else (model.get_submodule(names["norm"]), "norm")))
        watching = CallersHooks("none" if hooks == "none" else "watching")
        watching.on_module(model.get_submodule(f"{names['block']}.parts.1"), "second")
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x)
            maps = plain_dict(student.conv_maps(model, x))
            seen = {
                "maps": maps,
                "keys": list(maps) if isinstance(maps, dict) else maps,
                "runs": model.runs,
                "log": callers.log[:20] + watching.log[:20],
                "changed": witness.changes(),
            }
            seen["again"] = plain_dict(student.conv_maps(model, other))
            failure = Failure(failure)
            model.strike = failure.strike
            witness = Witness(model=model, x=x)
            seen["failure"] = failure.during(lambda: student.conv_maps(model, x))
            seen["changed by failure"] = witness.changes()
        single, image = convolution("stem", weights["stem"]), x[0].clone()
        seen["single"] = plain_dict(student.conv_maps(single, image))
        seen["none"] = plain_dict(student.conv_maps(nn.ReLU(), image))
        meanwhile = Meanwhile(lambda: None, convolution("stem", weights["stem"]), nn.ReLU())
        meanwhile.other = lambda: seen.update(inner=plain_dict(student.conv_maps(single, -image)))
        seen["outer"] = plain_dict(student.conv_maps(meanwhile, image))
        net = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))
        net[0].weight.data.fill_(1)
        seen["example"] = plain_dict(student.conv_maps(net, torch.tensor([[[[-1.0, 2.0]]]])))
        return {**seen, "deep": deep_maps(student, photo, stem) if deep else None}

    mistakes = (
        Mistake(
            "only-sequential-recursed",
            lambda seen, names, order, weights, x, mode, registered, hooks, hooked: (
                len(seen["keys"]) > 0
                and {*seen["keys"].value} <= {names["stem"], names["twin"], f"{names['tail']}.0"}
                and values_right(seen, names, order, weights, x, mode, registered, hooks, hooked)
            ),
        ),
        Mistake(
            "late-binding",
            lambda seen, names, order, weights, x, mode, registered, hooks, hooked: (
                len(seen["keys"]) == 1
                and close(
                    seen["maps"][seen["keys"].value[0]],
                    list(tiny_maps(names, order, weights, x, mode, registered, hooks, hooked)[0].values())[-1],
                    1e-4,
                    1e-4,
                )
            ),
            "All your hooks wrote under one name. They read the loop variable when they run, and by then it has its "
            "last value. Bind it with a default argument: `def hook(module, args, output, name=name):`.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, names, order, weights, x, mode, registered, hooks, hooked: any(
                close(seen["maps"][name], kept, 1e-4, 1e-4)
                for name, kept in tiny_maps(names, order, weights, x, mode, registered, hooks, hooked)[1].items()
            ),
        ),
        Mistake(
            "definition-order",
            lambda seen, names, order, block, weights, x, mode, registered, hooks, hooked: (
                seen["keys"].value == defined_order(names, order, block)
                and values_right(seen, names, order, weights, x, mode, registered, hooks, hooked)
            ),
        ),
        Mistake(
            "subclass-missed",
            lambda seen, names, order: (
                {*seen["keys"].value} == {*full_names(names, order).values()} - {f"{names['tail']}.0"}
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
        Mistake(
            "both-names",
            lambda seen, names: {names["stem"], names["twin"]} <= {*seen["keys"].value},
            "A convolution that stands in the model under two names is in your dict under both. `named_modules()` "
            "gives each module once, under its first name.",
        ),
        Mistake(
            "another-mode",
            lambda seen, names, order, weights, x, mode, registered, hooks, hooked: values_right(
                seen, names, order, weights, x, "eval" if mode == "train" else "train", registered, hooks, hooked
            ),
        ),
        Mistake(
            "callers-hooks-cleared",
            lambda seen: bool(changes(seen["changed"], "hook-removed *")),
            "A hook of the caller is gone, so the next run computes something else. Remove only your own hooks, each "
            "by its handle.",
        ),
    )

    def test_every_conv2d_has_its_map_as_the_layer_returned_it(
        seen, names, order, weights, x, mode, registered, hooks, hooked
    ):
        for result, image in (("maps", x), ("again", -x)):
            maps, _ = tiny_maps(names, order, weights, image, mode, registered, hooks, hooked)
            expect(seen[result]).has_keys(*maps)
            for name, value in maps.items():
                expect(seen[result][name]).close_to(value, **digits(x))

    def test_the_keys_are_in_the_order_of_execution(seen, names, order):
        expect(seen["keys"]).timeline(list(full_names(names, order).values()))

    def test_a_single_layer_no_convolution_and_the_example_come_out(seen, weights, x):
        expect(seen["single"]).has_keys("")
        expect(seen["single"][""]).close_to(F.conv2d(x[0], weights["stem"], padding=1), **digits(x))
        expect(seen["none"]).has_keys()
        expect(seen["example"]).has_keys("0")
        expect(seen["example"]["0"]).close_to(torch.tensor([[[[-1.0, 2.0]]]]))

    def test_a_call_inside_a_call_has_maps_of_its_own(seen, weights, x):
        for result, name, image in (("outer", "0", x[0]), ("inner", "", -x[0])):
            expect(seen[result]).has_keys(name)
            expect(seen[result][name]).close_to(F.conv2d(image, weights["stem"], padding=1), **digits(x))

    def test_the_36_convolutions_of_a_resnet_have_their_maps(seen, photo, stem, deep):
        if not deep:
            return
        there = seen["deep"]
        expect(there["maps"]).has_keys("conv1")
        keys = expect(there["keys"]).list_of(str)
        for name in CONVOLUTIONS:
            if name not in keys:
                expect(there["keys"]).fail(f"{name!r} is missing; there are {len(keys)} of 36")
        expect(there["keys"]).has_length(36, "convolutions")
        expect(there["maps"]["conv1"]).close_to(F.conv2d(photo, stem, stride=2, padding=3), rtol=1e-4, atol=1e-4)
        by_name = dict(zip(expect(there["ran"]).list_of(str), expect(there["ran_sums"]).list_of(float)))
        for index, name in enumerate(keys):
            if name not in by_name:
                expect(there["ran"]).fail(f"{name!r} did not run")
            expect(there["sums"][index]).close_to(by_name[name], rtol=1e-4, atol=1e-3)
        ran = expect(there["ran"]).list_of(str)
        if len(ran) > len(keys):
            expect(there["ran"]).fail("`model(x)` ran more than once")
        expect(there["keys"]).timeline(ran)
        nothing_changed(there["changed"])

    def test_the_model_runs_once_and_stays_as_it_was(seen, mode, hooks):
        expect(Seen(seen["runs"].value == 1)).is_true(f"`model(x)` should run once, and ran {seen['runs'].value} times")
        log = expect(seen["log"]).list_of(str)
        once = len(log) == len({*log}) == (0 if hooks == "none" else 8)
        expect(Seen(once)).is_true("a hook that was on the model before the call was not called exactly once")
        nothing_changed(seen["changed"], but=["buffer *"] if mode == "train" else [])

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen, mode):
        came_through(seen["failure"], "the model")
        nothing_changed(
            seen["changed by failure"], but=["buffer *"] if mode == "train" else [], when="after an exception"
        )


def values_right(
    seen: Seen,
    names: dict[str, str],
    order: list[str],
    weights: dict[str, Tensor],
    x: Tensor,
    mode: str,
    registered: str,
    hooks: str,
    hooked: str,
) -> bool:
    """Whether every map that is there is right."""
    maps, _ = tiny_maps(names, order, weights, x, mode, registered, hooks, hooked)
    return all(name in maps and close(seen["maps"][name], maps[name], 1e-4, 1e-4) for name in seen["keys"].value)
