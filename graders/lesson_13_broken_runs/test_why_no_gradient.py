"""Exercise 13-why-no-gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Rng,
    Seen,
    Witness,
    came_through,
    exercise,
    expect,
    fill_grads,
    laid_out,
    nothing_changed,
    packed,
    refuse,
    unpacked,
)
from graders.lesson_13_broken_runs.shared import Linear

# Nets of stages. Each stage adds to a stream, by one of many ways, so that what is wrong with one leaves the others
# alone; between two stages the stream itself may be cut, or multiplied by 0.

WAYS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "plain": lambda stage, h: torch.tanh(stage(h)),
    "tiny": lambda stage, h: 2.0**-40 * stage(h),
    "one column": lambda stage, h: stage(h)[:, 1:2],
    "difference": lambda stage, h: (out := stage(h))[:, :1] - out[:, 1:2],
    "functional": lambda stage, h: torch.tanh(nn.functional.linear(h, stage.weight, stage.bias)),
    "also without a graph": lambda stage, h: torch.tanh(stage(h)) + without_graph(stage, h),
    "detach": lambda stage, h: torch.tanh(stage(h)).detach(),
    "no_grad": lambda stage, h: without_graph(stage, h),
    "item": lambda stage, h: torch.tanh(stage(h)).mean().item() * torch.ones_like(h),
    "cut by a hook": lambda stage, h: torch.tanh(stage(h)),
    "times 0": lambda stage, h: 0 * stage(h),
    "dead": lambda stage, h: torch.relu_(stage(h)),
    "cancels": lambda stage, h: stage(h) - stage(h),
    "functional, times 0": lambda stage, h: 0 * nn.functional.linear(h, stage.weight, stage.bias),
    "zero by a hook": lambda stage, h: torch.tanh(stage(h)),
    "never": lambda stage, h: 0.0,
    "frozen": lambda stage, h: torch.tanh(stage(h)),
    "frozen bias": lambda stage, h: torch.tanh(stage(h)),
    "frozen, and never": lambda stage, h: 0.0,
    "frozen, and detach": lambda stage, h: torch.tanh(stage(h)).detach(),
    "block": lambda stage, h: torch.tanh(stage(h)),
    "block that detaches": lambda stage, h: torch.tanh(stage(h)),
}
"""What a stage adds to the stream, by the way in which it is used."""
SOUND = ("plain", "tiny", "one column", "difference", "functional", "also without a graph")
CUT = ("detach", "no_grad", "item", "cut by a hook")
ZERO = ("times 0", "dead", "cancels", "functional, times 0", "zero by a hook")
STREAMS = ("stream cut", "stream zero", "no graph")
OTHERS = ("never", "frozen", "frozen bias", "frozen, and never", "frozen, and detach", "block", "block that detaches")
NOT_CALLED = ("functional", "functional, times 0", "never", "frozen, and never")


def without_graph(stage: nn.Module, h: Tensor) -> Tensor:
    """A call under `no_grad`."""
    with torch.no_grad():
        return torch.tanh(stage(h))


class Tally(nn.Module):
    """Hands on what it gets, and counts its calls in training mode, in a buffer that `state_dict` leaves out."""

    def __init__(self) -> None:
        """No call yet. Another buffer is `None`, as a norm without statistics has it."""
        super().__init__()
        self.register_buffer("unset", None)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """A new tensor."""
        self.count += self.training
        return 1 * x


class Block(nn.Module):
    """A parameter of its own times what a layer inside makes; a spare layer inside is never called."""

    def __init__(self, names: list[str], stage: dict[str, Any], detaches: bool) -> None:
        """`names` are those of the own parameter, the layer and the spare one."""
        super().__init__()
        self.names, self.detaches = names, detaches
        self.register_parameter(names[0], nn.Parameter(stage["own"].clone()))
        self.add_module(names[1], Linear(stage["weight"], stage["bias"]))
        self.add_module(names[2], Linear(stage["weight"], stage["bias"]))

    def forward(self, h: Tensor) -> Tensor:
        """With `detaches`, the layer gets a gradient and the own parameter none."""
        own, inner = getattr(self, self.names[0]), self.get_submodule(self.names[1])
        return (own.detach() if self.detaches else own) * inner(h)


class Stream(nn.Module):
    """A norm, a parameter of its own, and stages in two lists, called in an order that is not that of definition."""

    def __init__(self, net: dict[str, Any], output: str = "tensor") -> None:
        """Built from what a draw describes; hooks that cut or silence belong to it."""
        super().__init__()
        self.net, self.output = net, output
        like = net["gain"]
        self.register_parameter(net["names"]["gain"], nn.Parameter(like.clone()))
        self.register_parameter(net["names"]["spare"], nn.Parameter(like.clone()))
        self.norm, self.tally = nn.BatchNorm1d(len(like), dtype=like.dtype), Tally()
        made = {path: self.made(stage) for path, stage in net["stages"].items()}
        self.register_module("nothing", None)
        twice, name, first = net["second name"]
        if first:
            self.add_module(name, made[twice])
        for group in net["groups"]:
            self.add_module(group, nn.ModuleDict({path.split(".")[1]: made[path] for path in net["defined"]
                                                  if path.split(".")[0] == group}))  # fmt: skip
        for one, other in net["tied"]:
            made[other].weight = made[one].weight
        if not first:
            self.add_module(name, made[twice])
        object.__setattr__(self, "outsider", Linear(net["outsider"], like))
        for stage in net["stages"].values():
            self.faulty_hooks(stage, made)

    def made(self, stage: dict[str, Any]) -> nn.Module:
        """The module of a stage, frozen where it has to be."""
        if "block" in stage["way"]:
            return Block(stage["names"], stage, stage["way"] != "block")
        layer = Linear(stage["weight"], stage["bias"] - (100 if stage["way"] == "dead" else 0))
        if stage["way"] in ("frozen", "frozen, and never", "frozen, and detach"):
            layer.requires_grad_(False)
        if stage["way"] == "frozen bias":
            layer.bias.requires_grad_(False)
        return layer

    def faulty_hooks(self, stage: dict[str, Any], made: dict[str, nn.Module]) -> None:
        """Hooks of somebody who experimented before."""
        module = made[stage["path"]]
        if stage["way"] == "cut by a hook":
            module.register_forward_hook(lambda module, args, output: output.detach())
        if stage["way"] == "zero by a hook":
            for parameter in module.parameters():
                parameter.register_hook(lambda grad: 0 * grad)

    def forward(self, x: Tensor) -> Any:
        """All stages, each in its way; a stage may be asleep in eval mode or in training mode."""
        h = self.tally(self.norm(x)) * getattr(self, self.net["names"]["gain"])
        h = h + torch.tanh(self.outsider(h))
        if self.net["spare"] != "unused":
            h = h + {"used": 1, "times 0": 0}[self.net["spare"]] * getattr(self, self.net["names"]["spare"])
        for path in self.net["order"]:
            stage = self.net["stages"][path]
            if stage["path"] == self.net["stream at"]:
                h = {"cut": h.detach(), "zero": 0 * h + torch.ones_like(h)}.get(self.net["stream"], h)
            if stage["awake in"] in ("both", "train" if self.training else "eval"):
                h = h + WAYS[stage["way"]](self.get_submodule(path), h)
        return packed(h.detach() if self.net["stream"] == "no graph" else h, self.output)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda out, up: (up * out).sum(),
    "square": lambda out, up: (up * out * out).mean(),
}


def plain(said: Any) -> Any:
    """A dict of any type as a plain one; all else as it is."""
    return dict(said) if isinstance(said, dict) else said


class Around(nn.Module):
    """A layer whose output is detached, and a call of something else before that."""

    def __init__(self, inside: Callable[[], Any]) -> None:
        """`inside` is called once in each pass, after the layer."""
        super().__init__()
        self.layer, self.inside = Linear(torch.ones(1, 1), torch.zeros(1)), inside

    def forward(self, input: Tensor) -> Tensor:
        """The output, cut off from its graph."""
        h = self.layer(input)
        self.inside()
        result: Tensor = h.detach()
        return result


class Indirect(nn.Module):
    """Works with one layer that it does not call, and cuts what comes out of it; and calls another one."""

    def __init__(self) -> None:
        """Two layers."""
        super().__init__()
        self.used, self.last = (Linear(torch.ones(1, 1), torch.zeros(1)) for _ in range(2))

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        result: Tensor = self.used.forward(input).detach() + self.last(input)
        return result


def cleared(layer: nn.Module) -> nn.Module:
    """The layer; hooks of the caller take each gradient as soon as it is in `.grad`, as an optimizer may that steps."""
    first, *others = layer.parameters()
    first.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    for parameter in others:
        parameter.register_post_accumulate_grad_hook(lambda p: (p.grad.zero_(), None)[1])
    return layer


@exercise(
    "13-why-no-gradient",
    points=3,
    minutes=30,
    difficulty=3,
    core=True,
    title="Why a parameter gets no gradient",
    hints=(
        "Which modules are called? A forward pre-hook on each tells (lesson 5). Which parameters get a gradient, and "
        "which one? A hook on each parameter that requires grad tells (lesson 2), or `torch.autograd.grad(loss, "
        "parameters, allow_unused=True)`, which gives `None` where nothing comes.",
        "`backward()` adds to `.grad`. Keep `p.grad` of each parameter (and `x.grad`), set it to `None`, and put the "
        "same tensors back in `finally`. `torch.autograd.grad` leaves `.grad` alone (lesson 1).",
        "A parameter that two modules hold is there once in `named_parameters()`. Ask each module for "
        "`parameters(recurse=False)` to find all that hold it (lesson 7).",
        "A layer in training mode may change its buffers (lesson 9). Clone `model.buffers()` before, and `copy_` the "
        "values back under `no_grad`, also when something raises.",
    ),
    why=(
        "`torch.autograd.grad` with `allow_unused=True` gives `None` where no gradient comes, and touches no `.grad`; "
        "the pre-hooks tell which modules were called. `backward()` and a tensor hook on each parameter would do as "
        "well, if you put each `.grad` back."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "grad": ALL, "mode": ALL,
            "output": ALL, "hooks": ALL, "call": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the shapes are those of layers",
            "place": "the contract says that `x` is a leaf; whether it requires grad is an axis of its own",
            "values": "the result holds no numbers",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "frozen": "a stage is frozen, wholly or in part",
            "tied": "stages are tied in most nets",
            "named": "no module is named",
            "follower": "a stage that is dead has a layer behind it that works in place",
            "passing": "nobody looks at inputs",
            "registered": "each net calls a layer that is no submodule",
            "layers": "each net has a norm, linear layers and blocks",
            "hooked": "hooks sit on the model, on a stage, and on its parameters at once",
            "grad_mode": "the backward pass needs it switched on",
            "backward": "the function runs the pass itself",
        },
        own={
            "plan": ("sound", "cut", "zero", "others", "all", "stream cut", "stream zero", "no graph", "one"),
            "x_is": ("data", "leaf"),
            "loss": ("linear", "square"),
            "raised_in": ("model", "loss", "backward"),
        },
        pairs=[("raised_in", "failing_run"), ("raised_in", "grad")],
    ),
)  # fmt: skip
class TestWhyNoGradient:
    """Write `why_no_gradient(model, loss_fn, x)`. Run the model, `loss = loss_fn(model(x))`, and one backward pass.
    Return a dict: for each parameter to which no gradient comes, or a gradient whose entries are all exactly 0, its
    name in `model.named_parameters()` and the reason. The reason is the first of these four that is true.

    1. `"frozen"`: the parameter does not require grad.
    2. `"zero"`: a gradient comes to it, and all entries are 0.
    3. `"never called"`: no gradient comes to it, and no module that holds it is called in this run.
    4. `"cut"`: no gradient comes to it, although a module that holds it is called.

    - What *comes to a parameter* is its gradient from this pass alone, after the tensor hooks of the caller on it, and
      before post-accumulate-grad hooks, which may clear `.grad`.
    - A module *holds* the parameters of its `parameters(recurse=False)`. Several modules may hold one parameter.
    - A module is *called* when `module(...)` runs, with or without a graph; `module.forward(...)` is no call. Other
      code may use the parameters of a module that is never called.
    - The loss has one element. When it does not require grad, no gradient comes to any parameter. `x` is a leaf. No
      parameter is empty.

    Afterwards all buffers, and `.grad` of each parameter and of `x`, are as they were.

    **Example.** Let `model = Sequential(Linear(1, 1), ReLU(), Linear(1, 1))` with all weights 1 and the biases -9 and
    0, and `x = ones(1, 1)`. With `loss_fn = lambda out: out.sum()` the result is
    `{"0.weight": "zero", "0.bias": "zero", "2.weight": "zero"}`: the ReLU is dead.
    """

    def draw(rng, dtype, plan, mode, hooks):
        gain, spare, first, second, again, *words = rng.names(5 + 25 + 6)
        groups, left = [first, second], iter(words)
        like = {"dtype": dtype}
        ways = stages_of(rng, plan)
        stages: dict[str, dict[str, Any]] = {}
        for way in ways:
            group = {"never": first, "detach": second}.get(way) or rng.choice(groups)
            path = f"{group}.{next(left)}"
            stages[path] = {
                "path": path,
                "way": way,
                "names": [next(left) for _ in range(3)] if "block" in way else [],
                "weight": rng.tensor(3, 3, low=-0.5, high=0.5, away=0.125, **like),
                "bias": rng.tensor(3, low=-0.5, high=0.5, away=0.125, **like),
                "own": rng.tensor(3, low=0.5, high=1.5, **like),
                "awake in": "both",
            }
        order = rng.shuffled(list(stages))
        if plan not in ("sound", "one"):
            asleep = next(path for path in order if stages[path]["way"] == "plain")
            stages[asleep]["awake in"] = rng.choice(("train", "eval"))
        twice = rng.choice([path for path in order if stages[path]["way"] != "detach"])
        safe = [path for path in order if stages[path]["way"] in ("plain", "detach", "times 0")]
        return {
            "net": {
                "names": {"gain": gain, "spare": spare},
                "gain": rng.tensor(3, low=0.5, high=1.5, **like),
                "outsider": rng.tensor(3, 3, low=-0.5, high=0.5, away=0.125, **like),
                "groups": groups,
                "stages": stages,
                "defined": rng.shuffled(order),
                "order": order,
                "tied": ties_of(rng, stages),
                "second name": [twice, again, rng.choice((True, False))],
                "spare": "used" if plan in ("sound", "one") else rng.choice(("times 0", "unused")),
                "stream": plan.removeprefix("stream ") if plan in STREAMS else "whole",
                "stream at": order[len(order) // 2],
                "watched": rng.choice(safe),
            },
            "x": rng.tensor(4, 3, **like),
            "up": rng.tensor(4, 3, **like),
        }

    def alive(net, x, up, loss, mode, hooks):
        found, said = what_autograd_says(net, x, up, loss, mode), expected_reasons(net, mode)
        return found == {name: reason if reason != "never called" else "cut" for name, reason in said.items()}

    def probe(
        student, net, x, up, layout, grad, mode, output, hooks, call, failure, failing_run, x_is, loss, raised_in,
    ):  # fmt: skip
        def prepared_model(stream=net["stream"]):
            model = in_its_mode(Stream({**net, "stream": stream}, output), mode)
            if grad == "filled":
                fill_grads(model)
            callers = CallersHooks(hooks).on_module(model, "model").on_module(
                model.get_submodule(net["watched"]), "a stage", backward=True
            )  # fmt: skip
            for name, parameter in model.get_submodule(net["watched"]).named_parameters():
                callers.on_parameter(parameter, name)
            return model

        def measured(model, loss_fn, given):
            return plain(student.why_no_gradient(model, loss_fn, given))

        model, losses = prepared_model(), []
        given = laid_out(x, layout).requires_grad_(x_is == "leaf")
        if x_is == "leaf" and grad == "filled":
            given.grad = torch.full_like(given, 0.7)

        def loss_fn(out):
            losses.append(1)
            return LOSSES[loss](unpacked(out), up)

        witness = Witness(model=model, x=given)
        seen = {"reasons": measured(model, loss_fn, given), "losses": len(losses), "changed": witness.changes()}
        if call != "once":
            other = model if call == "again" else prepared_model()
            witness = Witness(model=model, other=other, x=given)
            seen["second"] = measured(other, loss_fn, given)
            seen["changed by the second call"] = witness.changes()

        broken, boom = prepared_model("whole"), Failure(failure, failing_run)

        def failing(out):
            if raised_in == "loss":
                boom.strike()
            return LOSSES[loss](unpacked(out), up)

        def late(module, args, output):
            output.register_hook(boom.strike)  # most of the backward pass is over when a gradient comes here

        if raised_in == "model":
            broken.register_forward_hook(boom.strike)
        if raised_in == "backward":
            broken.norm.register_forward_hook(late)
        witness = Witness(model=broken, x=given)
        seen["failure"] = boom.during(lambda: [measured(broken, failing, given) for _ in "12"])
        seen["changed by failure"] = witness.changes()

        broken, boom = Linear(net["outsider"], net["gain"]), Failure("RuntimeError")
        broken.register_forward_hook(late)
        seen["failure of a layer"] = boom.during(lambda: measured(broken, lambda out: out.sum(), x))

        frozen = fill_grads(Linear(net["outsider"], net["gain"])).requires_grad_(False)
        asking = x.clone().requires_grad_()
        witness = Witness(model=frozen, x=asking)
        seen["all frozen"] = measured(frozen, lambda out: out.sum(), x)
        seen["all frozen, and x not"] = measured(frozen, lambda out: out.sum(), asking)
        seen["changed in a frozen layer"] = witness.changes()
        seen["around a call"] = measured(
            Around(lambda: measured(frozen, lambda out: out.sum(), x)), torch.sum, torch.ones(2, 1)
        )
        # Numbers that need all their digits, in three dimensions.
        third = {"fill_value": 1 / 3, "dtype": torch.float64}
        tiny, cube = Linear(torch.full((1, 2), **third), torch.full((1,), **third)), torch.full((2, 1, 2), **third)
        witness = Witness(model=tiny, x=cube)
        seen["tiny"] = measured(tiny, lambda out: 1e-200 * out.sum(), cube)
        seen["changed in a tiny layer"] = witness.changes()
        spoilt = Linear(torch.ones(1, 2), torch.zeros(1))
        spoilt.spare = tiny
        seen["NaN, a loss of one dimension"] = measured(
            spoilt, lambda out: torch.nan * out.sum().reshape(1), torch.ones(1, 2)
        )
        seen["cleared"] = measured(
            cleared(Linear(torch.ones(1, 1), torch.ones(1))), lambda out: out.sum(), torch.ones(1, 1)
        )
        seen["indirect"] = measured(Indirect(), lambda out: out.sum(), torch.ones(1, 1))
        dead = nn.Sequential(*(Linear(torch.ones(1, 1), torch.tensor([bias])) for bias in (-9.0, 0.0)))
        dead.insert(1, nn.ReLU())
        seen["example"] = measured(dead, lambda out: out.sum(), torch.ones(1, 1))
        return seen

    mistakes = (
        Mistake(
            "old-grad",
            lambda seen, net, mode, grad: (
                grad == "filled"
                and confuses(seen, net, mode, *((reason, "") for reason in ("zero", "never called", "cut")))
            ),
            "Where `.grad` held something before, you miss parameters to which nothing comes, or 0. `backward()` adds "
            "to what is there: set `.grad` to `None` first, and put the old tensor back.",
        ),
        Mistake(
            "another-name",
            lambda seen, net, mode: not {*seen["reasons"].keys} <= {name for name, _ in standing(net, mode)},
            "A key of your dict is no name of `model.named_parameters()`. A parameter with several names has the "
            "first one there.",
        ),
        Mistake(
            "small-is-not-zero",
            lambda seen, net, mode: too_many(seen, net, mode, ("tiny",), "zero"),
            "You call a gradient zero that is small (about 1e-12). `torch.allclose` does so, too; `grad.any()` and "
            "`(grad == 0).all()` do not.",
        ),
        Mistake(
            "one-zero-is-not-all",
            lambda seen, net, mode: (
                too_many(seen, net, mode, ("one column", "difference", "tiny"), "zero")  # its sum may happen to be 0
                and not too_many(seen, net, mode, ("tiny",), "zero")
            ),
            "Some entries of this gradient are 0, and others are not: it is not all 0. Ask for all entries.",
        ),
        Mistake(
            "used-by-other-code",
            lambda seen, net, mode: too_many(seen, net, mode, ("functional",), "never called"),
            "You list a parameter that gets a gradient. Its module is never called, but other code uses its weight: "
            "ask first what comes to the parameter, and only then why.",
        ),
        Mistake(
            "frozen-comes-first",
            lambda seen, net, mode: confuses(seen, net, mode, ("frozen", "never called"), ("frozen", "cut")),
            'A parameter that does not require grad is `"frozen"`, whatever else there is to say about it.',
        ),
        Mistake(
            "never-called-is-not-cut",
            lambda seen, net, mode: confuses(seen, net, mode, ("never called", "cut")),
            'You say `"cut"` of a parameter whose module is never called. A forward pre-hook on each module tells '
            "which are.",
        ),
        Mistake(
            "called-is-called",
            lambda seen, net, mode: confuses(seen, net, mode, ("cut", "never called")),
            'You say `"never called"` of a parameter, and a module that holds it is called. It may be called under '
            "`no_grad`, it may be the model itself, and a parameter may be held by several modules.",
        ),
        Mistake(
            "none-is-not-zero",
            lambda seen, net, mode: confuses(seen, net, mode, ("cut", "zero"), ("never called", "zero")),
            'You say `"zero"` of a parameter to which no gradient comes at all. A gradient of zeros is a tensor, as '
            "after a multiplication by 0; where the graph is cut, there is none.",
        ),
        Mistake(
            "zero-is-not-none",
            lambda seen, net, mode: confuses(seen, net, mode, ("zero", "cut")),
            'You say `"cut"` of a parameter to which a gradient of zeros comes: that is `"zero"`.',
        ),
        Mistake(
            "zero-comes-first",
            lambda seen, net, mode: confuses(seen, net, mode, ("zero", "never called")),
            'A gradient of zeros comes to this parameter: `"zero"`, although its module is never called. Other code '
            'uses it. `"never called"` is for parameters to which nothing comes.',
        ),
    )

    def test_each_parameter_without_a_gradient_has_its_reason(seen, net, mode):
        expect_reasons(seen["reasons"], expected_reasons(net, mode), "the dict")

    def test_a_second_call_says_the_same(seen, net, mode, call):
        if call != "once":
            expect_reasons(seen["second"], expected_reasons(net, mode), "the dict of a second call")

    def test_one_pass_is_enough(seen):
        if seen["losses"].value != 1:
            refuse(f"the loss is to be computed once, and it was computed {seen['losses'].value} times")

    def test_nothing_changes(seen, call):
        nothing_changed(seen["changed"])
        if call != "once":
            nothing_changed(seen["changed by the second call"], when="after a second call")

    def test_an_exception_comes_through_and_nothing_changes(seen, raised_in):
        came_through(seen["failure"], {"backward": "`backward()`"}.get(raised_in, f"the {raised_in}"))
        nothing_changed(seen["changed by failure"], when="after an exception")
        came_through(seen["failure of a layer"], "`backward()`")

    def test_a_loss_without_a_graph_is_no_error(seen):
        frozen = {"weight": "frozen", "bias": "frozen"}
        expect_reasons(seen["all frozen"], frozen, "the dict of a layer that is frozen")
        expect_reasons(
            seen["all frozen, and x not"], frozen, "the dict of a layer that is frozen, where `x` requires grad"
        )
        nothing_changed(seen["changed in a frozen layer"])

    def test_a_call_inside_a_call_changes_nothing(seen):
        cut = {"layer.weight": "cut", "layer.bias": "cut"}
        expect_reasons(seen["around a call"], cut, "the dict of a model that calls the function for another one")

    def test_a_very_small_gradient_is_not_0(seen):
        which = "the dict of a layer whose gradients are all about 1e-200, and whose input has three dimensions"
        expect_reasons(seen["tiny"], {}, which)
        nothing_changed(seen["changed in a tiny layer"])

    def test_what_comes_to_a_parameter_is_its_gradient_and_not_what_is_left_in_grad(seen):
        which = "the dict of a layer whose post-accumulate-grad hooks clear `.grad` again"
        expect_reasons(seen["cleared"], {}, which)

    def test_a_call_of_forward_is_no_call_of_the_module(seen):
        which = "the dict of a model that runs `self.used.forward(input).detach()`, and never `self.used(input)`"
        expect_reasons(seen["indirect"], dict.fromkeys(("used.weight", "used.bias"), "never called"), which)

    def test_gradients_of_nan_and_a_module_that_was_called_in_another_pass(seen):
        expected = {"spare.weight": "never called", "spare.bias": "never called"}
        which = (
            "the dict of a layer whose gradients are NaN, with a part that is called in another pass only, for a loss "
            "of shape (1,)"
        )
        expect_reasons(seen["NaN, a loss of one dimension"], expected, which)

    def test_the_example_of_the_contract(seen):
        expect_reasons(
            seen["example"], dict.fromkeys(("0.weight", "0.bias", "2.weight"), "zero"), "the dict of the example"
        )


def in_its_mode(model: Stream, mode: str) -> Stream:
    """Mixed: the model in training mode, its norm and what is in its lists not."""
    model.train(mode != "eval")
    if mode == "mixed":
        for module in (model.norm, *(model.get_submodule(group) for group in model.net["groups"])):
            module.eval()
    return model


def stages_of(rng: Rng, plan: str) -> list[str]:
    """The ways of the stages of a net, two of them plain."""
    faults = {"cut": CUT, "zero": ZERO, "others": OTHERS, "all": (*CUT, *ZERO, *OTHERS)}
    if plan == "one":
        return [*SOUND, "plain", rng.choice((*CUT, *ZERO, *OTHERS))]
    if plan in STREAMS:
        return ["plain", *rng.shuffled((*SOUND, *CUT, *ZERO, *OTHERS))[:12]]
    return [*SOUND, "plain", *faults.get(plan, ())]


def ties_of(rng: Rng, stages: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """At most two pairs of stages that share a weight: not those whose fault would then be that of the other, too.

    One that is never called, and one that detaches, are a pair: the weight is under the name of the first, and cut.
    """
    pair = [path for way in ("never", "detach") for path, stage in stages.items() if stage["way"] == way]
    fit = [
        path
        for path, stage in stages.items()
        if stage["way"] in ("plain", "also without a graph", *CUT, *ZERO[:-1], "never")
    ]
    mixed = rng.shuffled(fit)
    if len(pair) == 2:
        mixed = [*pair, *(path for path in mixed if path not in pair)]
    return list(zip(mixed[0:4:2], mixed[1:4:2]))


Standing = tuple[bool, str, bool]
"""What is to know of a parameter: whether it is frozen, its gradient ("some", "zero", "none"), whether it is called."""


def standing(net: dict[str, Any], mode: str) -> list[tuple[str, Standing]]:
    """Each parameter by its first name, in the order of `named_parameters()`: from how the net is made, without it."""
    by_stage = {path: standing_of_stage(net, stage, mode) for path, stage in net["stages"].items()}
    same = {f"{other}.weight": f"{one}.weight" for one, other in net["tied"]}
    held: dict[str, list[Standing]] = {}
    for path, own in by_stage.items():
        for name, what in own.items():
            held.setdefault(same.get(f"{path}.{name}", f"{path}.{name}"), []).append(what)
    above = after("some", net, upstream=True)
    listed = [(net["names"]["gain"], (False, above, True))]
    spare = {"used": "some", "times 0": "zero", "unused": "none"}[net["spare"]]
    listed += [(net["names"]["spare"], (False, weaker(spare, above), True))]
    listed += [(f"norm.{name}", (False, above, True)) for name in ("weight", "bias")]
    twice, again, first = net["second name"]
    places = [(path, path) for group in net["groups"] for path in net["defined"] if path.split(".")[0] == group]
    there: set[str] = set()
    for shown, path in [(again, twice), *places] if first else places:
        for name in by_stage[path]:
            key = same.get(f"{path}.{name}", f"{path}.{name}")
            if key not in there:
                there.add(key)
                listed.append((f"{shown}.{name}", joined(held[key])))
    return listed


def standing_of_stage(net: dict[str, Any], stage: dict[str, Any], mode: str) -> dict[str, Standing]:
    """By its name in the stage, what is to know of each parameter, as far as this stage goes."""
    way, upstream = stage["way"], net["order"].index(stage["path"]) < net["order"].index(net["stream at"])
    asleep = stage["awake in"] == ("train" if mode == "eval" else "eval")
    own = "none" if way in CUT or way in ("never", "frozen, and never") or asleep else "zero" if way in ZERO else "some"
    gradient, called = after(own, net, upstream), way not in NOT_CALLED and not asleep
    if way in ("block", "block that detaches"):
        outer, layer, unused = stage["names"]
        none = "none" if way == "block that detaches" else gradient
        inside = {f"{layer}.{name}": (False, gradient, True) for name in ("weight", "bias")}
        never = {f"{unused}.{name}": (False, "none", False) for name in ("weight", "bias")}
        return {outer: (False, none, True), **inside, **never}
    frozen = way in ("frozen", "frozen, and never", "frozen, and detach")
    return {"weight": (frozen, gradient, called), "bias": (frozen or way == "frozen bias", gradient, called)}


def after(own: str, net: dict[str, Any], upstream: bool) -> str:
    """What is left of a gradient behind whatever is wrong with the stream."""
    stream = "none" if net["stream"] == "no graph" else {"cut": "none", "zero": "zero"}.get(net["stream"], "some")
    return weaker(own, stream) if upstream or net["stream"] == "no graph" else own


def weaker(*gradients: str) -> str:
    """What comes through several places in a row."""
    return min(gradients, key=("none", "zero", "some").index)


def joined(parts: list[Standing]) -> Standing:
    """What is to know of a parameter that several stages hold."""
    gradient = max((gradient for _, gradient, _ in parts), key=("none", "zero", "some").index)
    return parts[0][0], gradient, any(called for _, _, called in parts)


def expected_reasons(net: dict[str, Any], mode: str) -> dict[str, str]:
    """The right answer."""
    found = {}
    for name, (frozen, gradient, called) in standing(net, mode):
        if frozen or gradient != "some":
            why = "zero" if gradient == "zero" else "cut" if called else "never called"
            found[name] = "frozen" if frozen else why
    return found


def what_autograd_says(net: dict[str, Any], x: Tensor, up: Tensor, loss: str, mode: str) -> dict[str, str]:
    """Of a net without hooks of the caller: the parameters without a gradient, where "cut" stands for all with none."""
    model = in_its_mode(Stream(net), mode)
    result, parameters = LOSSES[loss](model(x), up), dict(model.named_parameters())
    asked = {name: p for name, p in parameters.items() if p.requires_grad}
    found: Any = [None] * len(asked)
    if result.requires_grad:
        found = torch.autograd.grad(result, list(asked.values()), allow_unused=True)
    gradients = dict(zip(asked, found))
    said = {}
    for name in parameters:
        gradient = gradients.get(name)
        if gradient is None or not gradient.any():
            said[name] = "frozen" if name not in gradients else "cut" if gradient is None else "zero"
    return said


def expect_reasons(seen: Seen, expected: dict[str, str], which: str) -> None:
    """These parameters, each with this reason."""
    seen = Seen(seen.value, which)
    expect(seen).has_keys(*expected)
    for name, why in expected.items():
        expect(seen[name]).equals(why)


def differences(seen: Seen, net: dict[str, Any], mode: str) -> dict[str, tuple[str, str]]:
    """By parameter, what should have been said and what was said, where these differ; "" for nothing."""
    expected, said = expected_reasons(net, mode), seen["reasons"]
    names = dict.fromkeys([*expected, *said.keys])
    pairs = {name: (expected.get(name, ""), said[name].value if name in said.keys else "") for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def confuses(seen: Seen, net: dict[str, Any], mode: str, *pairs: tuple[str, str]) -> bool:
    """Whether there are differences, and all are of these kinds."""
    found = differences(seen, net, mode).values() if type(seen["reasons"].value) is dict else ()
    return bool(found) and all(pair in pairs for pair in found)


def too_many(seen: Seen, net: dict[str, Any], mode: str, ways: tuple[str, ...], said: str) -> bool:
    """Whether all that is wrong is that parameters of stages of these ways are listed, for this reason."""
    paths = [path for path, stage in net["stages"].items() if stage["way"] in ways]
    twice, again, _ = net["second name"]
    paths += [again] if twice in paths else []
    return confuses(seen, net, mode, ("", said)) and all(
        name.rpartition(".")[0] in paths for name in differences(seen, net, mode)
    )
