"""Exercise 12-count-macs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from graders.authoring import Boom, Mistake, Seen, exercise, expect, expecting_boom, module_hooks, no_hook_left


class Workload(nn.Module):
    """Convolutions and linear layers with drawn sizes and names; two of them are used twice, and one is nested.

    A batch norm and an embedding have weights, too, but do no multiply-adds that count.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        own_linear = type(spec["class"], (nn.Linear,), {})
        parts = {part: nn.Conv2d(**sizes) for part, sizes in spec["convs"].items()}
        parts |= {"tokens": nn.Linear(*spec["tokens"]), "head": own_linear(*spec["head"], bias=False)}
        parts["second"] = nn.Sequential(nn.BatchNorm2d(spec["convs"]["second"]["in_channels"]), parts["second"])
        self.names = spec["names"]
        for part in spec["order"]:
            self.add_module(self.names[part], parts[part])
        self.alias = parts["again"]
        self.table = nn.Embedding(3, spec["tokens"][1])

    def forward(self, x: Tensor) -> Tensor:
        part = {name: self.get_submodule(path) for name, path in self.names.items()}
        h = torch.relu(part["first"](x))
        h = torch.relu(part["again"](h))
        h = torch.relu(part["second"](h))
        h = part["again"](h)
        t = torch.tanh(part["tokens"](h.flatten(2).transpose(1, 2)))
        t = part["tokens"](t)
        t = t + self.table(torch.zeros(t.shape[1], dtype=torch.long))
        return part["head"](t.mean(1))


def make_workload(spec: dict[str, Any]) -> nn.Module:
    """The model of a drawn description: the one above, or linear layers in a row."""
    if "layers" in spec:
        first, second = spec["layers"]
        return nn.Sequential(nn.Linear(*first), nn.Tanh(), nn.Linear(*second))
    return Workload(spec)


def recorded_calls(spec: dict[str, Any], x: Tensor) -> list[dict[str, Any]]:
    """Sizes of each call of a Conv2d or Linear in one forward pass, in order."""
    calls: list[dict[str, Any]] = []
    model = make_workload(spec)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):

            def record(module: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
                weight = module.get_parameter("weight")
                calls.append(
                    {
                        "module": module,
                        "conv": weight.dim() == 4,
                        "groups": getattr(module, "groups", 1),
                        "bias": getattr(module, "bias", None) is not None,
                        "weight": weight.shape,
                        "in": args[0].shape,
                        "out": output.shape,
                    }
                )

            module.register_forward_hook(record)
    model(x)
    return calls


def flops_by_torch(spec: dict[str, Any], x: Tensor) -> int:
    """Torch's own count, which has two operations for each multiply-add."""
    with FlopCounterMode(display=False) as counter:
        make_workload(spec)(x)
    return int(counter.get_total_flops())


def work(call: dict[str, Any], how: str = "") -> int:
    """The multiply-adds of one call, or what a mistake makes of them."""
    out, weight, source = math.prod(call["out"]), call["weight"], call["in"]
    each = math.prod(weight[1:])
    if how == "groups":
        each *= call["groups"]
    elif how == "square" and call["conv"]:
        each = weight[1] * weight[2] ** 2
    elif how == "wide" and call["conv"]:
        each = weight[1] * weight[3] ** 2
    elif how == "input" and call["conv"]:
        out = source[0] * weight[0] * source[2] * source[3]
    elif how == "input numel" and call["conv"]:
        out = math.prod(source)
    elif how == "one sample":
        out //= source[0]
    elif how == "batch only" and not call["conv"]:
        out = source[0] * weight[0]
    elif how == "weights" or (how == "one position" and not call["conv"]):
        out = weight[0]
    return int(out * each + (math.prod(call["out"]) if how == "bias" and call["bias"] else 0))


def tally(calls: list[dict[str, Any]], how: str = "") -> int:
    """All multiply-adds of these calls, or what a mistake makes of them."""
    if how == "flops":
        return 2 * tally(calls)
    if how in ("last call", "first call"):
        kept = calls if how == "last call" else calls[::-1]
        return sum(work(call) for call in {id(call["module"]): call for call in kept}.values())
    return sum(work(call, how) for call in calls)


MISCOUNTS = ("groups", "square", "wide", "input", "input numel", "one sample", "batch only", "one position",
             "weights", "bias", "flops", "last call", "first call")  # fmt: skip


@exercise(
    "12-count-macs",
    points=2,
    title="Count the multiply-adds of a model",
    hints=(
        "Each number of the output is a dot product. So the work of a call is `output.numel()` times the number of "
        "multiply-adds for one number of the output.",
        "That is the number of weights that make one output: `module.weight[0].numel()`. It is right for `Linear`, for "
        "`Conv2d`, for groups and for kernels that are not square.",
        "A module can be called several times with inputs of different sizes: add up in a forward hook, at every call. "
        "Remove the hooks in `finally`.",
    ),
    cases=({"kind": "conv"}, {"kind": "conv"}, {"kind": "linear"}),
)
class TestCountMacs:
    """Write `count_macs(model, x)`. Run `model(x)` once. Return, as an `int`, how many multiply-adds (MACs) all calls
    of `nn.Conv2d` and `nn.Linear` modules in it do together, for the whole batch. Subclasses of these two count as
    well.

    A MAC is one multiplication of a weight with an input, and the addition of the product: a dot product of length n
    has n MACs. Adding a bias is no MAC. Multiplications with zeros of the padding count like any other. A module that
    is called twice counts twice, each time with the sizes of this call. Other modules and functions count nothing. All
    modules are in `model.modules()`, some of them under two names.

    Convolutions can have groups, strides, padding, dilation and kernels that are not square. The input of a linear
    layer has its features in the last dimension and may have any number of dimensions before it.

    `x` stays as it was, the modules stay in their modes, no gradient is computed, and hooks of the caller stay. No hook
    of yours is left, even when the model raises; the exception comes through.

    **Example.** `nn.Linear(10, 4)` on an `x` of shape (3, 10) makes 12 numbers with 10 MACs each: 120. A
    `nn.Conv2d(2, 6, 3)` on (1, 2, 5, 5) gives (1, 6, 3, 3), 54 numbers with 2·3·3 = 18 MACs each: 972.
    """

    def draw(rng, kind):
        batch = rng.integer(2, 3)
        if kind == "linear":
            sizes = [rng.integer(2, 7) for _ in range(3)]
            rows = [rng.integer(2, 3) for _ in range(2)]
            spec = {"layers": [sizes[:2], sizes[1:]]}
            return {"spec": spec, "x": rng.tensor(batch, *rows, sizes[0])}
        c, inner, outer = 2 * rng.integer(1, 2), 2 * rng.integer(2, 3), 4 * rng.integer(1, 2)
        kernels = [rng.shuffled([1, rng.integer(2, 3)]), rng.shuffled([2, 3])]
        convs = {
            "first": {"in_channels": c, "out_channels": inner, "kernel_size": kernels[0], "groups": 2,
                      "padding": rng.integer(0, 1), "bias": rng.choice((True, False))},
            "again": {"in_channels": inner, "out_channels": inner, "kernel_size": 3, "padding": 1,
                      "groups": rng.choice((1, inner))},
            "second": {"in_channels": inner, "out_channels": inner, "kernel_size": kernels[1], "stride": 2,
                       "dilation": rng.shuffled([1, 2]), "padding": 1},
        }  # fmt: skip
        parts = ["first", "again", "second", "tokens", "head"]
        spec = {
            "convs": convs,
            "tokens": [inner, inner],
            "head": [inner, outer],
            "class": rng.names(1)[0].capitalize(),
            "names": dict(zip(parts, rng.names(5))),
            "order": rng.shuffled(parts),
        }
        return {"spec": spec, "x": rng.tensor(batch, c, rng.integer(8, 10), rng.integer(11, 13))}

    def alive(spec, x):
        calls = recorded_calls(spec, x)
        if "layers" in spec:  # what is special about convolutions tells nothing apart here
            return all(tally(calls, how) != tally(calls) for how in ("one sample", "batch only", "one position"))
        counts = [tally(calls, how) for how in ("", *MISCOUNTS)]
        return len({*counts}) == len(counts)

    def probe(student, spec, x):
        model = make_workload(spec)
        model.eval()
        next(model.children()).train()
        modes = [module.training for module in model.modules()]
        calls, before = [], x.clone()
        model.register_forward_hook(lambda module, args, output: calls.append(torch.equal(args[0], before)))
        hooks = module_hooks(model)
        seen = {
            "macs": student.count_macs(model, x),
            "callers_calls": len(calls),
            "ran_on_x": all(calls),
            "hooks_left": module_hooks(model) - hooks,
            "modes_kept": modes == [module.training for module in model.modules()],
            "no_grads": all(parameter.grad is None for parameter in model.parameters()),
            "x_kept": torch.equal(x, before) and not x.requires_grad,
        }
        model(x)
        seen["callers_calls_later"] = len(calls)
        failing = make_workload(spec)

        def boom(*_):
            raise Boom

        failing.register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen):
            student.count_macs(failing, x)
        seen["hooks_left_by_exception"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "ignored-groups",
            lambda seen, spec, x: miscounted(seen, spec, x, "groups"),
            "You used all input channels for each number of the output. With groups, an output channel sees only "
            "`in_channels / groups` of them; `weight[0].numel()` knows that.",
        ),
        Mistake(
            "input-size-used",
            lambda seen, spec, x: miscounted(seen, spec, x, "input", "input numel"),
            "You used the size of the input. The work is done once for each number of the *output*, which is smaller "
            "after a stride or without padding: start from `output.numel()`.",
        ),
        Mistake(
            "square-kernel",
            lambda seen, spec, x: miscounted(seen, spec, x, "square", "wide"),
            "You squared one side of the kernel. A kernel has a height and a width, and they can differ: "
            "`kernel_size[0] * kernel_size[1]`.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, x: miscounted(seen, spec, x, "last call", "first call"),
            "A module that is called twice counted only once. Add in the hook at each call, and do not overwrite an "
            "entry of the same module.",
        ),
        Mistake(
            "ignored-batch",
            lambda seen, spec, x: miscounted(seen, spec, x, "one sample"),
            "This is the count for one sample. The task asks for the whole batch: use all of `output.numel()`.",
        ),
        Mistake(
            "rows-not-counted",
            lambda seen, spec, x: miscounted(seen, spec, x, "batch only", "one position"),
            "A linear layer works on every row of its input, and an input of three dimensions has several rows for "
            "each sample. `output.numel() * in_features` counts them all.",
        ),
        Mistake(
            "counted-weights",
            lambda seen, spec, x: miscounted(seen, spec, x, "weights"),
            "You counted weights. A weight of a convolution is used once for each position of the output and for each "
            "sample: multiply the weights of one output by `output.numel()`.",
        ),
        Mistake(
            "counted-bias",
            lambda seen, spec, x: miscounted(seen, spec, x, "bias"),
            "You counted the bias, too. Adding it is no multiply-add; leave it out.",
        ),
        Mistake(
            "flops-not-macs",
            lambda seen, spec, x: miscounted(seen, spec, x, "flops"),
            "This is twice the number: you counted a multiplication and an addition as two. A MAC is both together.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec, x: seen["macs"].value == tally(recorded_calls(spec, x)) and seen["hooks_left"].value > 0,
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_left_by_exception"].value > 0,
            "The model raised an exception, and your `remove()` calls were skipped. Put them into `finally`.",
        ),
    )

    def test_the_multiply_adds_are_counted(seen, spec, x):
        expect(seen["macs"]).equals(flops_by_torch(spec, x) // 2)

    def test_the_model_ran_once_as_it_was(seen):
        expect(seen["callers_calls"]).equals(1)
        expect(seen["ran_on_x"]).is_true("the model ran on another tensor than `x`")
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["no_grads"]).is_true("a parameter has a `.grad`, and no gradient was asked for")
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])
        expect(seen["callers_calls_later"]).equals(2)

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_by_exception"])


def miscounted(seen: Seen, spec: dict[str, Any], x: Tensor, *hows: str) -> bool:
    """Whether the number is that of one of these mistakes."""
    calls = recorded_calls(spec, x)
    return seen["macs"].value != tally(calls) and seen["macs"].value in [tally(calls, how) for how in hows]
