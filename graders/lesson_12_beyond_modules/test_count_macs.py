"""Exercise 12-count-macs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    in_mode,
    nothing_changed,
    packed,
    prepared,
    refuse,
    tie,
)


class Lookalike(nn.Module):
    """Multiplies with a weight, and is no `nn.Linear`, although its class is called so in the model."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.in_features = self.out_features = size
        self.weight = nn.Parameter(torch.eye(size))

    def forward(self, input: Tensor) -> Tensor:
        """A matrix product."""
        return input @ self.weight.T


class Workload(nn.Module):
    """Convolutions and linear layers with drawn sizes and names; two of them are used twice, and one is nested.

    Other modules and functions multiply, too, or have weights; what they do does not count.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        size = spec["size"]
        own_linear, own_conv = (type(name, (base,), {}) for name, base in zip(spec["classes"], (nn.Linear, nn.Conv2d)))
        parts = {part: nn.Conv2d(**sizes) for part, sizes in spec["convs"].items()}
        parts["first"] = own_conv(**spec["convs"]["first"])
        parts |= {"tokens": nn.Linear(size, size), "mixer": nn.Linear(size, size),
                  "head": own_linear(*spec["head"], bias=False)}  # fmt: skip
        parts["head"].add_module("adapter", nn.Identity())
        parts["second"] = nn.Sequential(nn.PReLU(), parts["second"])
        self.names, self.spec, self.runs, self.given = spec["names"], spec, 0, []
        for part in spec["order"]:
            self.add_module(self.names[part], parts[part])
        self.alias = parts["again"]
        self.training_only = nn.Linear(size, size)
        self.lookalike = type("Linear", (Lookalike,), {})(size)
        self.others = nn.ModuleList(
            [nn.ConvTranspose2d(size, size, 2), nn.Conv1d(size, size, 1), nn.LayerNorm(size), nn.Embedding(3, size)]
        )
        self.never = nn.Linear(size, 3)

    def forward(self, input: Tensor) -> Any:
        """All parts, and one more in training mode."""
        self.runs += 1
        self.given.append(input.detach().clone())
        part = {name: self.get_submodule(path) for name, path in self.names.items()}
        relu = torch.relu_ if self.spec["follower"] == "in-place" else torch.relu
        transposed, along, norm, table = self.others
        h = relu(self._call(part["first"], input))
        h = relu(self._call(part["again"], h))
        h = relu(self._call(part["second"], self._call(transposed, h)))
        h = self._call(part["again"], h)
        t = torch.tanh(self._call(part["tokens"], h.flatten(-2).transpose(-1, -2)))
        t = self._call(part["mixer"], self._call(part["tokens"], t))
        t = self._call(along, self._call(norm, t).transpose(-1, -2)).transpose(-1, -2)
        t = nn.functional.linear(t, part["tokens"].weight) + self._call(table, torch.zeros((), dtype=torch.long))
        t = self._call(self.lookalike, t)
        if self.training:
            t = self._call(self.training_only, t)
        return packed(self._call(part["head"], t.mean(-2)), self.spec["output"])

    def _call(self, module: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = module(input=x) if self.spec["passing"] == "keyword" else module(x)
        return result


def make_workload(spec: dict[str, Any]) -> nn.Module:
    """The model of a drawn description: the one above, linear layers in a row, or a layer alone; in eval mode."""
    if spec["model"] == "linear layers":
        return nn.Sequential(nn.Linear(*spec["layers"][0]), nn.Tanh(), nn.Linear(*spec["layers"][1])).eval()
    if spec["model"] == "a layer":
        return nn.Conv2d(**spec["convs"]["first"]).eval()
    return Workload(spec).eval()


def recorded_calls(spec: dict[str, Any], x: Tensor, mode: str) -> list[dict[str, Any]]:
    """Sizes of each call of a Conv2d or Linear in one forward pass, in order. A batch is added where there is none."""
    calls: list[dict[str, Any]] = []
    model = in_mode(make_workload(spec).to(x.dtype), mode)
    names = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):

            def record(module: nn.Module, args: tuple[Tensor], kwargs: dict[str, Tensor], output: Tensor) -> None:
                weight = module.get_parameter("weight")
                source = args[0] if args else kwargs["input"]
                one = (1,) if weight.dim() == 4 and source.dim() == 3 else ()
                calls.append(
                    {
                        "module": module,
                        "names": names[module],
                        "subclass": type(module) not in (nn.Conv2d, nn.Linear),
                        "parent": any(True for _ in module.children()),
                        "conv": weight.dim() == 4,
                        "groups": getattr(module, "groups", 1),
                        "bias": getattr(module, "bias", None) is not None,
                        "weight": weight.shape,
                        "given": source.detach(),
                        "in": (*one, *source.shape),
                        "out": (*one, *output.shape),
                    }
                )

            module.register_forward_hook(record, with_kwargs=True)
    model(x.detach())
    return calls


def flops_of(run: Any, *args: Tensor) -> int:
    """Torch's own count of a run, which has two operations for each multiply-add."""
    with FlopCounterMode(display=False) as counter:
        run(*args)
    return int(counter.get_total_flops())


def expected_macs(spec: dict[str, Any], x: Tensor, mode: str) -> int:
    """Torch's own count of the calls alone, one after the other."""
    calls = recorded_calls(spec, x, mode)
    return flops_of(lambda: [call["module"].forward(call["given"]) for call in calls]) // 2


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
        out //= max(source[0], 1)
    elif how == "batch only" and not call["conv"]:
        out = source[0] * weight[0]
    elif how == "weights" or (how == "one position" and not call["conv"]):
        out = weight[0]
    biased = how in ("bias", "bias of convolutions" if call["conv"] else "bias of linear layers")
    return int(out * each + (math.prod(call["out"]) if biased and call["bias"] else 0))


def tally(calls: list[dict[str, Any]], how: str = "") -> int:
    """All multiply-adds of these calls, or what a mistake makes of them."""
    if how == "flops":
        return 2 * tally(calls)
    if how in ("last call", "first call"):
        kept = calls if how == "last call" else calls[::-1]
        return sum(work(call) for call in {id(call["module"]): call for call in kept}.values())
    if how == "by name":
        return sum(call["names"] * work(call) for call in calls)
    left_out = {"no subclasses": "subclass", "no parents": "parent"}.get(how)
    return sum(work(call, how) for call in calls if not (left_out and call[left_out]))


MISCOUNTS = ("groups", "square", "wide", "input", "input numel", "one sample", "batch only", "one position",
             "weights", "bias", "bias of convolutions", "bias of linear layers", "flops", "last call", "first call",
             "by name", "no subclasses", "no parents")  # fmt: skip


class Adapted(nn.Linear):
    """A layer with a small one in it."""

    def __init__(self) -> None:
        """4 features to 3, and to 1."""
        super().__init__(4, 3)
        self.adapter = nn.Linear(4, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Both."""
        output: Tensor = super().forward(input) + self.adapter(input)
        return output


@exercise(
    "12-count-macs",
    points=2,
    minutes=25,
    difficulty=2,
    title="Count the multiply-adds of a model",
    hints=(
        "Each number of the output is a dot product. So the work of a call is `output.numel()` times the number of "
        "multiply-adds for one number of the output.",
        "Which weights make one number of the output? Look at the shape of `weight` in a `Linear`, and in a `Conv2d` "
        "with groups: its first dimension counts the outputs.",
        "A module can be called several times with inputs of different sizes: add up in a forward hook, at every call. "
        "Remove the hooks in `finally`.",
    ),
    why=(
        "`module.weight[0]` holds the weights that one number of the output sees, in both kinds of layer and with "
        "groups. `in_features` gives the same for a linear layer, and `in_channels // groups` times the two sizes of "
        "the kernel for a convolution."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3, 4), "layout": ALL, "place": ALL, "grad": ALL, "mode": ALL, "frozen": ALL,
            "tied": ALL, "output": ALL, "follower": ALL, "passing": ALL, "hooks": ALL, "hooked": ("root", "named"),
            "call": ALL, "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "values": "the numbers of calculations do not depend on them",
            "number": "no number is an argument",
            "collection": "no collection is an argument",
            "named": "no module is named",
            "registered": "all modules are in `model.modules()`, says the contract",
            "layers": "layers of all types are in the model, and a layer alone is a circumstance of its own",
            "backward": "it runs no backward pass",
        },
        own={"model": ("net", "linear layers", "a layer"), "batch": ("several", "no batch", "empty")},
        impossible=[
            lambda model, output: model != "net" and output != "tensor",
            lambda model, hooked: model == "a layer" and hooked != "root",
            lambda model, passing: model != "net" and passing != "position",
            lambda model, follower: model != "net" and follower != "plain",
            lambda model, tied: model != "net" and tied != "no",
            lambda model, batch: model == "linear layers" and batch == "empty",
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda batch, mode: batch == "empty" and mode == "train",
            lambda model, rank: model != "linear layers" and rank == 1,
        ],
        pairs=[("model", "batch"), ("model", "mode")],
    ),
)  # fmt: skip
class TestCountMacs:
    """Write `count_macs(model, x)`. Run the model. Return, as an `int`, how many multiply-adds (MACs) all calls of
    `nn.Conv2d` and `nn.Linear` modules in it do together, for the whole batch. Subclasses of these two count as well,
    also those with modules in them.

    A dot product of length n has n MACs. Multiplications with zeros, of the padding or any other, count like all.
    Adding a bias is no MAC.

    - A module that is called twice counts twice, each time with the sizes of this call; one that is not called counts
      nothing. Calls may pass the input by keyword.
    - Other modules and functions count nothing, also those that multiply with weights, such as `nn.Conv1d`,
      `nn.ConvTranspose2d` or `F.linear`.
    - All modules are in `model.modules()`, some of them under two names.
    - Convolutions can have groups, strides, padding (also `padding="same"`), dilation and kernels that are not square.
      Their input may have no dimension for the batch, or a batch of 0.
    - The input of a linear layer has its features in the last dimension and may have any number of dimensions before
      it.

    **Example.** `nn.Linear(10, 4)` on an `x` of shape (3, 10) makes 12 numbers with 10 MACs each: 120. A
    `nn.Conv2d(2, 6, 3)` on (1, 2, 5, 5) gives (1, 6, 3, 3), 54 numbers with 2·3·3 = 18 MACs each: 972.
    """

    def draw(rng, dtype, rank, layout, tied, output, follower, passing, model, batch, mode):
        c, size, outer = 2 * rng.integer(1, 2), 2 * rng.integer(2, 3), 4 * rng.integer(1, 2)
        kernels = [rng.shuffled([1, rng.integer(2, 3)]), rng.shuffled([2, 3])]
        convs = {
            "first": {"in_channels": c, "out_channels": size, "kernel_size": kernels[0], "groups": 2,
                      "padding": rng.integer(0, 1), "bias": rng.choice((True, False))},
            "again": {"in_channels": size, "out_channels": size, "kernel_size": 3, "padding": "same",
                      "groups": rng.choice((1, size))},
            "second": {"in_channels": size, "out_channels": size, "kernel_size": kernels[1], "stride": 2,
                       "dilation": rng.shuffled([1, 2]), "padding": 1},
        }  # fmt: skip
        parts = ["first", "again", "second", "tokens", "mixer", "head"]
        *names, last = rng.names(6)
        names.append(f"_{last}")
        sizes = [rng.integer(2, 7), rng.integer(2, 7), 1]
        spec = {
            "convs": convs, "size": size, "head": [size, outer], "layers": [sizes[:2], sizes[1:]],
            "classes": [name.capitalize() for name in rng.names(2)], "names": dict(zip(parts, names)),
            "order": rng.shuffled(parts), "model": model, "output": output, "follower": follower, "passing": passing,
            "tied": tied,
        }  # fmt: skip
        first = {"several": [rng.integer(2, 3)], "no batch": [], "empty": [0]}[batch]
        shape = [*first, c, rng.integer(8, 10), rng.integer(11, 13)]
        if model == "linear layers":
            shape = [*rng.shape(3)[: rank - 1], sizes[0]]
        return {"spec": spec, "x": rng.tensor(*shape, dtype=dtype, layout=layout)}

    def alive(spec, x, mode, batch):
        calls = recorded_calls(spec, x, mode)
        counts = [tally(calls, how) for how in ("", *MISCOUNTS)]
        return batch != "several" or spec["model"] != "net" or len({*counts}) == len(counts)

    def probe(
        student, spec, x, layout, place, grad, mode, frozen, model, hooks, hooked, call, grad_mode, failure,
        failing_run,
    ):  # fmt: skip
        inner = {"net": spec["names"]["head"], "linear layers": "0", "a layer": ""}[model]

        def made():
            net = make_workload(spec).to(x.dtype)
            if spec["tied"] == "yes":
                tie(net, *(f"{spec['names'][part]}.weight" for part in ("tokens", "mixer")))
            net = freeze_part(in_mode(net, mode), frozen)
            return fill_grads(net) if grad == "filled" else net

        t = prepared(x, layout=layout, place=place, grad="empty" if place == "non-leaf" else grad)
        the_model, broken = made(), made()
        other = made() if call == "in turn" else the_model
        calls: list[int] = []
        the_model.register_forward_hook(lambda *_: calls.append(1))
        CallersHooks(hooks).on_module(the_model if hooked == "root" else the_model.get_submodule(inner), "the model")
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=the_model, x=t)
            seen = {"macs": student.count_macs(the_model, t), "calls": len(calls),
                    "runs": getattr(the_model, "runs", 1), "changed": witness.changes(),
                    "ran on x": all(torch.equal(given, t) for given in getattr(the_model, "given", []))}  # fmt: skip
            if call != "once":
                seen["second"] = student.count_macs(other, t)
            strike = Failure(failure, failing_run)
            broken.get_submodule(inner).register_forward_hook(strike.strike)
            witness = Witness(model=broken, x=t)
            runs = [lambda: student.count_macs(broken, t)] * 2
            seen["failure"] = strike.during(lambda: [run() for run in runs])
            seen["changed by failure"] = witness.changes()
            seen["afterwards"] = student.count_macs(other, t)
        if model != "a layer":
            return seen
        wide = nn.Linear(257, 257, bias=False)
        seen["large"] = student.count_macs(wide, torch.ones(7, 1, 37, 257))
        seen["dilated"] = student.count_macs(nn.Conv2d(1, 1, 3, padding="same", dilation=2), torch.ones(1, 5, 6))
        seen["grouped"] = student.count_macs(nn.Conv2d(4, 2, 1, groups=2), torch.ones(1, 4, 2, 3))
        with torch.no_grad():
            zeros = nn.Linear(3, 2, bias=False)
            zeros.weight.zero_()
        seen["zeros"] = [student.count_macs(zeros, t) for t in (torch.ones(2, 3), torch.zeros(2, 3))]
        seen["within"] = student.count_macs(Adapted(), torch.ones(2, 4))
        meanwhile = Meanwhile(lambda: None, nn.Linear(5, 3), nn.Tanh())
        meanwhile.other = lambda: seen.update(inner=student.count_macs(nn.Tanh(), torch.ones(2)))
        seen["outer"] = student.count_macs(meanwhile, torch.ones(5))
        examples = ((nn.Linear(10, 4), torch.ones(3, 10)), (nn.Conv2d(2, 6, 3), torch.ones(1, 2, 5, 5)))
        return {**seen, "example": [student.count_macs(*example) for example in examples]}

    mistakes = (
        Mistake(
            "ignored-groups",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "groups"),
            "You used all input channels for each number of the output. With groups, an output channel sees only "
            "`in_channels / groups` of them; `weight[0].numel()` knows that.",
        ),
        Mistake(
            "input-size-used",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "input", "input numel"),
            "You used the size of the input. The work is done once for each number of the *output*, which is smaller "
            "after a stride or without padding: start from `output.numel()`.",
        ),
        Mistake(
            "square-kernel",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "square", "wide"),
            "You squared one side of the kernel. A kernel has a height and a width, and they can differ: "
            "`kernel_size[0] * kernel_size[1]`.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "last call", "first call"),
            "A module that is called twice counted only once. Add in the hook at each call, and do not overwrite an "
            "entry of the same module.",
        ),
        Mistake(
            "ignored-batch",
            lambda seen, spec, x, mode, batch: (
                SILENT
                if x.dim() == 1 or (batch == "no batch" and spec["model"] != "linear layers")
                else miscounted(seen, spec, x, mode, "one sample")
            ),
            "This is the count for one sample. The task asks for the whole batch: use all of `output.numel()`.",
            raises="index 0 is out of bounds",
        ),
        Mistake(
            "rows-not-counted",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "batch only", "one position"),
            "A linear layer works on every row of its input, and an input of three dimensions has several rows for "
            "each sample. `output.numel() * in_features` counts them all.",
        ),
        Mistake(
            "counted-weights",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "weights"),
            "You counted weights. A weight of a convolution is used once for each position of the output and for each "
            "sample: multiply the weights of one output by `output.numel()`.",
        ),
        Mistake(
            "counted-bias",
            lambda seen, spec, x, mode: miscounted(
                seen, spec, x, mode, "bias", "bias of convolutions", "bias of linear layers"
            ),
            "You counted the bias, too. Adding it is no multiply-add; leave it out.",
        ),
        Mistake(
            "subclasses-left-out",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "no subclasses", "no parents"),
            "The calls of a subclass of `nn.Linear` or `nn.Conv2d` are missing. Ask with `isinstance`, which knows "
            "subclasses, and also where such a layer has modules in it.",
        ),
        Mistake(
            "counted-by-name",
            lambda seen, spec, x, mode: miscounted(seen, spec, x, mode, "by name"),
            "A module that is in the model under two names counted twice in each call. It is one module: register one "
            "hook on it. `modules()` yields it once.",
        ),
        Mistake(
            "flops-not-macs",
            lambda seen, spec, x, mode: (
                miscounted(seen, spec, x, mode, "flops")
                or (seen["macs"].value == all_flops(spec, x, mode) != tally(recorded_calls(spec, x, mode)))
            ),
            "You counted FLOPs: a multiplication and an addition as two. A MAC is both together.",
        ),
        Mistake(
            "counted-all-operations",
            lambda seen, spec, x, mode: (
                2 * seen["macs"].value == all_flops(spec, x, mode) != 2 * tally(recorded_calls(spec, x, mode))
            ),
            "You counted every product with weights. Here only calls of `nn.Conv2d` and `nn.Linear` modules count, and "
            "neither `nn.Conv1d`, `nn.ConvTranspose2d`, `F.linear` nor `@`. `FlopCounterMode` cannot tell them apart; "
            "forward hooks on these modules can.",
        ),
        Mistake(
            "changed-the-mode",
            lambda seen, spec, x, mode: (
                seen["macs"].value
                in [tally(recorded_calls(spec, x, other)) for other in ("train", "eval") if other != mode]
                and seen["macs"].value != tally(recorded_calls(spec, x, mode))
            ),
            "You switched the model to another mode, with `eval()` or `train()`, in which it calls other modules. Run "
            "it in the mode in which you got it.",
        ),
        Mistake(
            "entry-not-there",
            raises="tuple index out of range",
            message="You took an entry that a tuple does not have. `args` is empty when a module is called by keyword, "
            "and a shape is shorter where there is no batch. `output` and `weight` are enough here.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: (
                bool(changes(seen["changed"], "hook-left *")) and not changes(seen["changed"], "hook-removed *")
            ),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-*") and bool(changes(seen["changed by failure"], "hook-left *"))
            ),
            "The model raised an exception, and your `remove()` calls were skipped. Put them into `finally`.",
        ),
    )

    def test_the_multiply_adds_are_counted(seen, spec, x, mode):
        expect(seen["macs"]).equals(expected_macs(spec, x, mode))

    def test_another_call_counts_afresh(seen, spec, x, mode, call):
        if call != "once":
            as_at_first(seen, "second", spec, x, mode)

    def test_the_model_ran_once_on_x(seen):
        for count in (seen["calls"], seen["runs"]):
            if count.value != 1:
                refuse(f"the model itself ran {count.value} times in one call of your function")
        expect(seen["ran on x"]).is_true("the model ran on other numbers than those of `x`")

    def test_nothing_changes_and_no_hook_is_left(seen):
        nothing_changed(seen["changed"])

    def test_an_exception_comes_through_and_leaves_no_hook(seen, spec, x, mode):
        came_through(seen["failure"], "the model")
        nothing_changed(seen["changed by failure"], when="after an exception")
        as_at_first(seen, "afterwards", spec, x, mode)

    def test_large_numbers_are_exact(seen, model):
        if model == "a layer":
            large = Seen(
                seen["large"].value, "for `nn.Linear(257, 257)` and an `x` of shape (7, 1, 37, 257), the number"
            )
            expect(large).equals(257 * 257 * 259)

    def test_each_place_of_a_padded_output_counts(seen, model):
        if model == "a layer":
            dilated = "for a dilated convolution with `padding='same'` and an `x` of shape (1, 5, 6), the number"
            expect(Seen(seen["dilated"].value, dilated)).equals(5 * 6 * 9)

    def test_a_group_has_a_part_of_the_channels(seen, model):
        if model == "a layer":
            grouped = "for `nn.Conv2d(4, 2, 1, groups=2)` and an `x` of shape (1, 4, 2, 3), the number"
            expect(Seen(seen["grouped"].value, grouped)).equals(24)

    def test_zeros_and_a_layer_in_a_layer_count(seen, model):
        if model == "a layer":
            path = (
                "for `nn.Linear(3, 2)` with the weight 0 and an `x` of shape (2, 3), ones and then zeros, the numbers"
            )
            expect(Seen(seen["zeros"].value, path)).equals([12, 12])
            path = (
                "for an `nn.Linear(4, 3)` that calls an `nn.Linear(4, 1)` in it and an `x` of shape (2, 4), the number"
            )
            expect(Seen(seen["within"].value, path)).equals(32)

    def test_a_call_inside_a_call_counts_for_itself(seen, model):
        if model == "a layer":
            expect(seen["inner"]).equals(0)
            expect(seen["outer"]).equals(15)

    def test_the_examples_of_the_contract_come_out(seen, model):
        if model == "a layer":
            expect(seen["example"]).equals([120, 972])


def as_at_first(seen: Seen, key: str, spec: dict[str, Any], x: Tensor, mode: str) -> None:
    """A later call counts as many as the first, whose number is judged by itself."""
    first = seen["macs"].value
    expect(seen[key]).equals(first if type(first) is int else expected_macs(spec, x, mode))


def miscounted(seen: Seen, spec: dict[str, Any], x: Tensor, mode: str, *hows: str) -> bool:
    """Whether the number is that of one of these mistakes."""
    calls = recorded_calls(spec, x, mode)
    return seen["macs"].value != tally(calls) and seen["macs"].value in [tally(calls, how) for how in hows]


def all_flops(spec: dict[str, Any], x: Tensor, mode: str) -> int:
    """Torch's own count of the whole run."""
    return flops_of(in_mode(make_workload(spec).to(x.dtype), mode), x.detach())
