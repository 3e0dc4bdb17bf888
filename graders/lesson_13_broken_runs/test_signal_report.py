"""Exercise 13-signal-report."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Meanwhile,
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
    paired,
    tie,
    unpacked,
)
from graders.lesson_13_broken_runs.judging import Run, walk
from graders.lesson_13_broken_runs.shared import Linear, build, in_eval

RELATIVE = 1e-4
"""How far a number may be off: the contract asks for less."""
Row = tuple[str, float, float]


def rms(tensors: list[Tensor], by: Callable[[Tensor], Tensor] = lambda squares: squares.mean()) -> float:
    """The root of the mean of the squares of all numbers in these tensors."""
    return float(by(torch.cat([t.detach().double().flatten() for t in tensors]) ** 2) ** 0.5)


def loss_of(out: Tensor, target: Tensor, loss_is: str) -> Tensor:
    """The mean squared distance from a target; without a graph where the loss is "cut"."""
    loss = ((out - target) ** 2).mean()
    return loss.detach() if loss_is == "cut" else loss


def rows_of(net: dict[str, Any], x: Tensor, target: Tensor, how: str = "") -> list[Row]:
    """The right answer, or that of one who makes a certain mistake."""
    run = Run(
        net["spec"],
        [name for name, _ in walk(net["spec"])] if how == "in eval mode" else net["evaluating"],
        net["frozen"],
        {net["replacing"]: lambda out: FACTOR * out} if net["replacing"] is not None else {},
    )
    x = x.clone().requires_grad_(how == "x requires grad")
    loss = loss_of(run(x), target, net["loss_is"])
    rows = []
    for call in run.calls:
        grads = [torch.zeros_like(out) for out in call.outputs]
        arrived = [False for _ in call.outputs]
        for index, out in enumerate(call.outputs):
            if loss.requires_grad and out.requires_grad:
                (grad,) = torch.autograd.grad(loss, out, retain_graph=True, allow_unused=True)
                arrived[index] = grad is not None
                grads[index] = grads[index] if grad is None else grad
        if how == "norm":
            rows.append((call.name, rms(call.outputs, torch.sum), rms(grads, torch.sum)))
        elif how == "arrived only":
            there = [grad for grad, is_there in zip(grads, arrived) if is_there]
            rows.append((call.name, rms(call.outputs), rms(there) if there else 0.0))
        elif how == "first only":
            rows.append((call.name, rms(call.outputs[:1]), rms(grads[:1])))
        else:
            rows.append((call.name, rms(call.outputs), rms(grads)))
    names = [row[0] for row in rows]
    if how == "last calls":
        return [row for index, row in enumerate(rows) if row[0] not in names[index + 1 :]]
    if how == "first calls":
        return [row for index, row in enumerate(rows) if row[0] not in names[:index]]
    if how == "only with a gradient":
        return [row for row in rows if row[2]]
    if how == "in the order of the backward pass":
        return [row for row in rows if row[2]][::-1]
    return rows


def answers(how: str) -> Callable[..., Any]:
    """A recogniser of the answer of one who makes a certain mistake."""

    def recognise(seen: Seen, net: dict[str, Any], x: Tensor, target: Tensor) -> Any:
        mistaken = rows_of(net, x, target, how)
        right = rows_of(net, x, target)
        if len(mistaken) == len(right) and all(
            a[0] == b[0] and near(a[1], b[1]) and near(a[2], b[2]) for a, b in zip(mistaken, right)
        ):
            return SILENT
        return told(seen["result"], mistaken)

    return recognise


def near(a: float, b: float) -> bool:
    """Whether two numbers are equal, as far as the contract asks, however small they are."""
    return math.isclose(a, b, rel_tol=RELATIVE)


def told(seen: Seen, rows: list[Row]) -> bool:
    """Whether these rows are seen."""
    if type(seen.value) is not list or len(seen) != len(rows):
        return False
    return all(
        type(row.value) in (tuple, list)
        and len(row) == 3
        and type(row[0].value) is str
        and row[0].value == name
        and all(type(row[i].value) is float and near(row[i].value, value) for i, value in ((1, out), (2, grad)))
        for row, (name, out, grad) in zip(seen, rows)
    )


class Parts(NamedTuple):
    """Two tensors."""

    some: Tensor
    all: Tensor


class Apart(nn.Module):
    """Returns twice the first column of its input, and twice all of it, in a namedtuple or an ordered dict."""

    def __init__(self, container: Callable[..., Any]) -> None:
        """`container` takes `some` and `all`."""
        super().__init__()
        self.container, self.weight = container, nn.Parameter(torch.tensor(2.0))

    def forward(self, input: Tensor) -> Any:
        """New tensors."""
        return self.container(some=self.weight * input[:, :1], all=self.weight * input)


class Mixed(nn.Module):
    """Returns twice its input in three dtypes, and with them its indices."""

    def __init__(self) -> None:
        """Its parameter is a 2."""
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """New tensors."""
        one, other, another = (self.weight * input for _ in range(3))
        return one, 3 * other.double(), 5 * another.bfloat16(), torch.arange(input.numel())


class Childless(nn.Module):
    """Has a list for modules as its only child, and nothing is in it."""

    def __init__(self) -> None:
        """An empty list."""
        super().__init__()
        self.blocks = nn.ModuleList()

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return 1 * input


class Abandoned(nn.Module):
    """Calls a layer twice, and uses the first result alone."""

    def __init__(self) -> None:
        """Around a layer that doubles, and a module that is no leaf."""
        super().__init__()
        self.layer, self.block = Linear(torch.tensor([[2.0]]), torch.zeros(1)), Childless()

    def forward(self, input: Tensor) -> Tensor:
        """The first result."""
        result: Tensor = self.layer(self.block(input))
        self.layer(result).detach()
        return result


@exercise(
    "13-signal-report",
    points=2,
    minutes=30,
    difficulty=2,
    title="The size of every output, and of what comes back",
    hints=(
        "A forward hook fires at each call, in order, and sees the output (lesson 5). A leaf is a module without "
        "children (lesson 11). An output may be a tuple or a dict (lesson 5, too).",
        "In that forward hook, register a tensor hook on the output: it gets the gradient that arrives there (lesson "
        "2). A tensor that does not require grad refuses a hook: there the gradient is 0.0. A full backward hook of a "
        "module does not go together with an in-place layer after it (lesson 7).",
        "`backward()` writes into `.grad` of the parameters. Put aside what is there before, and put it back in "
        "`finally` (lesson 4), or use `torch.autograd.grad(loss, parameters, allow_unused=True)`, which writes nothing "
        "(lesson 1). Remove the tensor hooks, too: a layer may return its own parameter (lesson 11).",
    ),
    why=(
        "A tensor hook on each output gets what arrives at that call, so a layer that is called twice has two lines. "
        "`torch.autograd.grad` would do as well, with the edges that `get_gradient_edge` gives for the outputs; it "
        "leaves every `.grad` alone."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3, 4), "layout": ALL, "grad": ALL, "mode": ALL, "frozen": ALL, "tied": ALL,
            "output": ALL, "follower": ALL, "passing": ALL, "hooks": ALL, "hooked": ALL, "call": ALL,
            "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "place": "x requires no grad, says the contract",
            "values": "the numbers use all digits",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "named": "no module is named",
            "registered": "a module that is called and not registered is in every net",
            "layers": "what a layer computes is its own business",
            "backward": "the pass is the function's own",
        },
        own={
            "net_is": ("net", "one layer", "deep"),
            "loss_is": ("whole", "cut"),
            "fails_in": ("model", "loss", "backward"),
        },
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda hooks, hooked: hooks == "replacing" and hooked == "parameter",
            lambda net_is, output: net_is != "net" and output != "tensor",
            lambda net_is, passing: net_is != "net" and passing != "position",
            lambda net_is, follower: net_is != "net" and follower != "plain",
            lambda net_is, tied: net_is != "net" and tied != "no",
            lambda net_is, mode: net_is != "net" and mode == "mixed",
            lambda net_is, hooked: net_is != "net" and hooked == "named",
            lambda net_is, frozen: net_is == "one layer" and frozen == "part",
            lambda net_is, loss_is: net_is != "net" and loss_is == "cut",
        ],
        pairs=[
            ("hooks", "hooked"), ("net_is", "mode"), ("net_is", "dtype"), ("net_is", "grad_mode"), ("net_is", "frozen"),
            ("net_is", "grad"), ("follower", "loss_is"),
        ],
        at_least=14,
    ),
)  # fmt: skip
class TestSignalReport:
    """Write `signal_report(model, loss_fn, x)`. Run the model, `loss = loss_fn(model(x))`, and one backward pass.
    Return a list with a tuple `(name, output, gradient)` for each call of a leaf, in the order of the calls. A leaf is
    a module of `model.named_modules()` without children. `name` is its name there: `""` for the model itself.

    - `output` is the RMS of what the leaf returned, as a `float`: the root of the mean of the squares of all numbers.
    - `gradient` is the RMS of the gradient of the loss with respect to that, as a `float`. Where none arrives it is
      `0.0`: before a `detach`, for example, or when the loss has no graph at all.
    - A leaf may return a tuple or a dict of tensors and other values. All tensors of a floating dtype directly in it,
      of one dtype or several, count as if they were one long tensor; where no gradient arrives at one of them, its
      gradient is 0 everywhere.
    - A leaf may also return one of its parameters. It returns no view that is written to later.
    - Your function may be called under `torch.no_grad()`, and runs forward and backward all the same.

    Only parameters of the model require grad; `x` does not. `loss_fn` calls no module of the model. Hooks of the caller
    on gradients only watch. Squares and their sums fit into the dtype. A relative error of 1e-5 does not matter.

    **Example.** A layer `nn.Linear(2, 2, bias=False)` with the weight `[[2., 0.], [0., 2.]]`, the `loss_fn`
    `lambda out: out.sum()`, and the `x` `torch.tensor([[1., 7.]])`: for `nn.Sequential(layer)` the result is
    `[("0", 10.0, 1.0)]`, since the output is 2 and 14, and the root of (4 + 196) / 2 is 10.
    """

    def draw(rng, dtype, rank, layout, mode, frozen, tied, output, follower, hooks, hooked, net_is, loss_is):
        size = 4
        x = rng.tensor(*[2, 3, 2][: rank - 1], size, dtype=dtype, layout=layout, values="full")
        net = make_net(rng, dtype, net_is, mode, output, follower, tied)
        linears = [name for name, spec in walk(net["spec"]) if spec[0] == "linear"]
        net["frozen"] = [net["first"]] if frozen == "part" else []
        net["loss_is"] = loss_is
        net["replacing"] = None
        if hooks == "replacing" and hooked != "parameter":
            net["replacing"] = "" if hooked == "root" else rng.choice(linears)
        return {"net": net, "x": x, "target": rng.tensor(*x.shape, dtype=dtype, values="full")}

    def alive(net, x, target, net_is, loss_is):
        rows = rows_of(net, x, target)
        sizes = [size for row in rows for size in row[1:] if size]
        if net_is == "deep":
            return rows[0][2] < 1e-4 * rows[-1][2] or bool(net["frozen"])
        return len({f"{size:.3g}" for size in sizes}) > len(sizes) / 2 and min(sizes) > 1e-6

    tolerance = (RELATIVE, 0.0)

    def oracle(net, x, target, call):
        return [
            list(row[1:]) for part in ((x,) if call == "once" else (x, 2 * x)) for row in rows_of(net, part, target)
        ]

    def probe(
        student, net, x, target, layout, grad, passing, hooks, hooked, call, grad_mode, failure, failing_run, fails_in,
    ):  # fmt: skip
        def made():
            model = in_eval(build(net["spec"], passing), net["evaluating"])
            for first, second in net["tied"]:
                tie(model, f"{first}.weight", f"{second}.weight")
            for name in net["frozen"]:
                model.get_submodule(name).requires_grad_(False)
            return fill_grads(model) if grad == "filled" else model

        model, callers, runs = made(), CallersHooks(hooks), []
        if hooked == "parameter":
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    callers.on_parameter(parameter, name)
        elif hooks == "replacing":
            callers.on_module(model.get_submodule(net["replacing"]), "module")
        elif hooked == "named":
            for name, module in model.named_modules():
                callers.on_module(module, name)
        else:
            callers.on_module(model, "model", backward=True)
        model.register_forward_pre_hook(lambda module, args: runs.append("model"))

        def loss_fn(out):
            runs.append("loss")
            return loss_of(unpacked(out), target, net["loss_is"])

        x = laid_out(x, layout)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x, target=target)
            seen = {"result": student.signal_report(model, loss_fn, x), "runs": list(runs)}
            seen["changed"] = witness.changes()
            if call == "again":
                seen["again"] = student.signal_report(model, loss_fn, 2 * x)
            elif call == "in turn":
                seen["another model"] = student.signal_report(made(), loss_fn, 2 * x)
            failing = Failure(failure, failing_run)
            broken = fill_grads(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
            if fails_in == "model":
                broken[1].register_forward_hook(failing.strike)
            two = torch.ones(1, 2)
            witness = Witness(model=broken, x=two)

            def broken_loss(out):
                doubled = 2 * out
                if fails_in == "loss":
                    failing.strike()
                elif fails_in == "backward":
                    doubled.register_hook(failing.strike)
                return doubled.sum()

            seen["failure"] = failing.during(
                lambda: [student.signal_report(broken, broken_loss, two) for _ in range(2)]
            )
            seen["changed by the failure"] = witness.changes()
        row = torch.tensor([[1.0, 1.0], [2.0, 2.0]]).t()  # not as a new tensor lies in memory
        seen["of unequal sizes"] = [
            student.signal_report(Apart(Parts), lambda out: out.some.sum() + 3 * out.all.sum(), row),
            student.signal_report(Apart(OrderedDict), lambda out: out["some"].sum() + 3 * out["all"].sum(), row),
        ]
        seen["of three dtypes"] = student.signal_report(
            Mixed(), lambda outs: outs[0].sum() + outs[1].sum() + 2 * outs[2].float().sum(), torch.ones(1, 2)
        )
        seen["a call without use"] = student.signal_report(Abandoned(), torch.sum, torch.ones(1, 1))
        small = nn.Linear(1, 1, bias=False, dtype=torch.float64)
        small.weight.data.fill_(1e-100)
        seen["small"] = student.signal_report(small, lambda out: 1e-100 * out.sum(), torch.ones(1, 1).double())
        frozen = fill_grads(nn.Sequential(nn.Linear(2, 2), nn.Sequential())).requires_grad_(False)
        frozen[0].weight.data.fill_(1.0)
        frozen[0].bias.data.fill_(0.0)
        witness = Witness(model=frozen)
        seen["frozen"] = student.signal_report(frozen, torch.sum, torch.ones(1, 2))
        seen["changed in a frozen model"] = witness.changes()
        meanwhile = Meanwhile(lambda: student.signal_report(frozen, torch.sum, torch.ones(1, 2)), nn.Tanh(), nn.ReLU())
        seen["around a call"] = student.signal_report(meanwhile, torch.sum, torch.zeros(1, 2))
        layer = nn.Linear(2, 2, bias=False)
        layer.weight.data.copy_(2 * torch.eye(2))
        example = student.signal_report(nn.Sequential(layer), lambda out: out.sum(), torch.tensor([[1.0, 7.0]]))
        return {**seen, "example": example}

    mistakes = (
        Mistake(
            "norm",
            answers("norm"),
            "You computed the norm: the root of the sum of the squares. The RMS is the root of their mean, and does "
            "not grow with the number of entries.",
        ),
        Mistake(
            "last-calls-only",
            answers("last calls"),
            "A leaf that is called twice has one entry, with its last call. Each call has an entry of its own: append "
            "to a list, and do not store by name.",
        ),
        Mistake(
            "first-calls-only",
            answers("first calls"),
            "A leaf that is called twice has one entry, with its first call. Each call has an entry of its own.",
        ),
        Mistake(
            "calls-without-a-gradient-left-out",
            answers("only with a gradient"),
            "Calls where no gradient arrives are missing. They are in the list, with 0.0: that is where to look when a "
            "run does not learn.",
        ),
        Mistake(
            "in-the-order-of-the-backward-pass",
            answers("in the order of the backward pass"),
            "You filled the list when gradients arrived, from the last layer to the first; calls without a gradient "
            "are missing. Make the entry in the forward hook, and complete it later.",
        ),
        Mistake(
            "x-requires-grad",
            answers("x requires grad"),
            "You let x require grad, and now gradients arrive before the frozen layers, where the run of the "
            "caller has none.",
        ),
        Mistake(
            "in-eval-mode",
            answers("in eval mode"),
            "You put the model into eval mode. Leave each part in its mode: what is wrong may depend on it.",
        ),
        Mistake(
            "no-graph-under-no-grad",
            lambda seen, net, x, target, grad_mode: (
                SILENT
                if grad_mode == "on" or not any(row[2] for row in rows_of(net, x, target))
                else told(seen["result"], [(*row[:2], 0.0) for row in rows_of(net, x, target)])
            ),
            "Called under `torch.no_grad()`, your function finds no gradient anywhere. Run the model and the loss both "
            "under `torch.enable_grad()`.",
        ),
        Mistake(
            "first-tensor-only",
            answers("first only"),
            "A leaf that returns several tensors is reported with its first one. All its tensors of a floating dtype "
            "count, as one long tensor.",
        ),
        Mistake(
            "tensors-without-a-gradient-left-out",
            answers("arrived only"),
            "Where a leaf returns several tensors, and no gradient arrives at one of them, you left that one out. Its "
            "gradient is 0 everywhere and counts in the mean.",
        ),
    )

    def test_the_report_is_right(seen, net, x, target, call):
        is_report(seen["result"], rows_of(net, x, target))
        if call == "again":
            is_report(seen["again"], rows_of(net, 2 * x, target))
        elif call == "in turn":
            is_report(seen["another model"], rows_of({**net, "replacing": None}, 2 * x, target))

    def test_all_tensors_of_a_call_are_one_long_tensor(seen):
        for found, kind in paired(seen["of unequal sizes"], ("a namedtuple", "an OrderedDict")):
            of_kind = Seen(found.value, f"the report of a leaf that returns {kind} of tensors of unequal sizes")
            is_report(of_kind, [("", 8**0.5, (19 / 3) ** 0.5)])
        path = "the report of a leaf that returns tensors of 2 in float32, 6 in float64, 10 in bfloat16, and int64"
        is_report(Seen(seen["of three dtypes"].value, path), [("", (140 / 3) ** 0.5, 2**0.5)])

    def test_each_call_has_its_own_gradient(seen):
        path = "the report of a model with a block around an empty list, whose `layer` is called once more without use"
        is_report(Seen(seen["a call without use"].value, path), [("layer", 2.0, 1.0), ("layer", 4.0, 0.0)])

    def test_small_numbers_count(seen):
        of_layer = Seen(seen["small"].value, "the report of a layer with the weight 1e-100, and a loss times 1e-100")
        is_report(of_layer, [("", 1e-100, 1e-100)])

    def test_a_call_inside_a_call_changes_nothing(seen):
        is_report(seen["around a call"], [("0", 0.0, 0.0), ("1", 0.0, 0.0)])

    def test_an_empty_sequential_is_a_leaf_and_a_frozen_layer_too(seen):
        is_report(seen["frozen"], [("0", 2.0, 0.0), ("1", 2.0, 0.0)])
        nothing_changed(seen["changed in a frozen model"])

    def test_model_and_loss_run_once(seen):
        expect(seen["runs"]).timeline(["model", "loss"])

    def test_exceptions_come_through(seen, fails_in):
        raised_by = {"model": "the model", "loss": "the loss", "backward": "`backward()`"}[fails_in]
        came_through(seen["failure"], raised_by)

    def test_everything_else_is_as_it_was(seen):
        nothing_changed(seen["changed"])
        nothing_changed(seen["changed by the failure"], when="after an exception")

    def test_the_example_comes_out(seen):
        is_report(seen["example"], [("0", 10.0, 1.0)])


def is_report(seen: Seen, rows: list[Row]) -> None:
    """The result is this list of tuples, with the names first."""
    expect(seen).of_type(list)
    for entry in seen:
        expect(entry).has_length(3, container=tuple)
        expect(entry[0]).of_type(str)
    expect(Seen([entry[0].value for entry in seen], f"the names in {seen.path}")).timeline([row[0] for row in rows])
    for entry, (name, *numbers) in zip(seen, rows):
        for index, (what, number) in enumerate(zip(("output", "gradient"), numbers), 1):
            found = Seen(entry[index].value, f"{entry[index].path}, {what} of {name!r}")
            expect(found).of_type(float)
            expect(found).close_to(number, rtol=RELATIVE, atol=0.0)


def make_net(rng: Rng, dtype: str, net_is: str, mode: str, output: str, follower: str, tied: str) -> dict[str, Any]:
    """A model with branches, cuts, calls without use, leaves called twice; a deep one; or a layer alone."""
    size = 4

    def linear(scale: float = 0.35) -> list[Any]:
        weight = scale * rng.tensor(size, size, dtype=dtype, values="full")
        return ["linear", weight, scale * rng.tensor(size, dtype=dtype, values="full")]

    if net_is == "one layer":
        return {"spec": linear(), "evaluating": [""] if mode == "eval" else [], "tied": [], "first": ""}
    names = rng.names(20)
    if net_is == "deep":
        names = names[:8]
        act, *layers = names
        steps = [step for name in layers for step in (["call", name], ["call", act])]
        spec = ["chain", {act: ["tanh"], **{name: linear(0.03) for name in rng.shuffled(layers)}}, steps, "tensor"]
        return {"spec": spec, "evaluating": names if mode == "eval" else [], "tied": [], "first": layers[0]}
    (first, act, block, inside, inner, pair, again, token, aside, cut, behind, blind, modal, quiet, head, alias,
     never, other, *_) = names  # fmt: skip
    block_children = {
        inside: linear(), inner: ["tanh"], pair: ["several", "dict" if output == "dict" else "tuple"]
    }  # fmt: skip
    inner_steps = [["call", inside], ["call", inner], ["call", pair], ["call", inner]]
    shift = rng.tensor(size, dtype=dtype, values="full")
    specs = {
        first: linear(), act: ["tanh"],
        block: ["chain", {key: block_children[key] for key in rng.shuffled(list(block_children))}, inner_steps, output],
        again: linear(), token: ["token", rng.tensor(size, dtype=dtype, values="full")], aside: linear(),
        cut: linear(), behind: linear(), blind: linear(), modal: ["last modal", shift], quiet: ["identity"],
        head: linear(), other: linear(), never: ["list", []],
    }  # fmt: skip
    if tied == "yes":
        specs[other][1] = specs[again][1].clone()
    follow = ["mul in-place" if follower == "in-place" else "mul", 1.5]
    steps = [
        ["call", first], ["call", modal], follow, ["plus", block], follow, ["call", act], ["plus", again],
        ["plus", token], ["aside", aside], ["plus detached", cut], ["plus of detached", behind],
        ["plus without grad", blind], ["call", other], ["call", act], ["hidden", None],
        ["call", again], ["call", quiet], ["call", modal], follow, ["call", alias],
    ]  # fmt: skip
    placed = rng.shuffled(list(specs))
    spec = ["chain", {**{key: specs[key] for key in placed}, alias: ["same", head]}, steps, output]
    every = [name for name, _ in walk(spec)]
    leaves = [name for name, node in walk(spec) if node[0] not in ("chain", "last modal")]
    evaluating = {"train": [], "eval": every, "mixed": leaves[::2] + rng.choice(([], [modal]))}[mode]
    return {
        "spec": spec,
        "evaluating": evaluating,
        "tied": [[again, other]] if tied == "yes" else [],
        "first": first,
    }
