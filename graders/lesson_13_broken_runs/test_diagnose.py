"""Exercise 13-diagnose."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    exercise,
    expect,
    fill_grad,
    laid_out,
    nothing_changed,
)
from graders.lesson_13_broken_runs.judging import BOUND, DECOYS, FAULTS, SIZE, STEEP, Draft
from graders.lesson_13_broken_runs.shared import Linear

ASKED_AGAIN = (
    "nan: loop", "hook: bias", "mode: dropout", "cut: detach", "dead: biases after a step", "vanishing: loop",
)  # fmt: skip
"""Where a second call is made: each costs as much as the first, and what it may find left over is the same for all."""

# Nets. A draw describes a net as data: [kind, details...] is a layer, ["block", children, program] a module with
# children, whose steps are [what, detail].


class Layer(nn.Module):
    """A leaf without parameters that is none of PyTorch's."""

    def __init__(self, kind: str) -> None:
        """`kind` is a key of `LAYERS`."""
        super().__init__()
        self.kind = kind

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return LAYERS[self.kind](self, input)


def column_by_column(x: Tensor) -> Tensor:
    """The same values, which are not contiguous."""
    return x.t().contiguous().t()


LAYERS: dict[str, Callable[[Layer, Tensor], Tensor]] = {
    "jump": lambda layer, x: column_by_column(x + 1 if layer.training else x.detach()),
    "zeros": lambda layer, x: x * 0,
    "tiny": lambda layer, x: column_by_column(x * 1e-7),
}


class Wiring(nn.Module):
    """Does the steps of its program one after the other."""

    def __init__(self, children: dict[str, nn.Module], program: list[list[Any]]) -> None:
        """`program` holds the steps, each a key of `STEPS` and its detail."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.program = program

    def forward(self, input: Tensor) -> Tensor:
        """The steps."""
        h = input
        for what, detail in self.program:
            h = STEPS[what](self, h, detail)
        return h


def looped(net: Wiring, h: Tensor, detail: list[Any]) -> Tensor:
    """Call a child several times in a row."""
    name, times = detail
    for _ in range(times):
        h = net.get_submodule(name)(h)
    return h


def under_no_grad(net: Wiring, h: Tensor, name: str) -> Tensor:
    """Call a child where no graph is made."""
    with torch.no_grad():
        result: Tensor = net.get_submodule(name)(h)
    return result


def used_by_hand(net: Wiring, h: Tensor, name: str) -> Tensor:
    """Use the parameters of a child, which is not called."""
    child: Any = net.get_submodule(name)
    return h + nn.functional.linear(h, child.weight, child.bias) / 4


def monitored(net: Wiring, h: Tensor, detail: None) -> Tensor:
    """Note a number of the detached tensor."""
    net.last_mean = h.detach().mean().item()  # type: ignore[assignment]
    return h


STEPS: dict[str, Callable[[Wiring, Tensor, Any], Tensor]] = {
    "call": lambda net, h, name: net.get_submodule(name)(h),
    "loop": looped,
    "plus": lambda net, h, name: h + net.get_submodule(name)(h) / 4,
    "plus of zeros": lambda net, h, name: h + net.get_submodule(name)(h * 0),
    "plus detached": lambda net, h, name: h + net.get_submodule(name)(h).detach() / 4,
    "plus, also detached": lambda net, h, name: (
        h + net.get_submodule(name)(h) / 4 + net.get_submodule(name)(h).detach() / 4
    ),
    "by hand": used_by_hand,
    "monitor": monitored,
    "jump": lambda net, h, name: net.get_submodule(name)(h) if net.training else h,
    "grad times": lambda net, h, factor: h.detach() + factor * (h - h.detach()),
    "tanh": lambda net, h, _: torch.tanh(h),
    "detach": lambda net, h, _: h.detach(),
    "numbers": lambda net, h, _: h.new_tensor([[entry.item() for entry in row] for row in h]),
    "no_grad": under_no_grad,
}


def built(spec: list[Any]) -> nn.Module:
    """The module that a spec describes."""
    kind, *rest = spec
    if kind == "block":
        return Wiring({name: built(child) for name, child in rest[0].items()}, rest[1])
    if kind == "linear":
        return Linear(*rest)
    if kind == "batchnorm":
        norm = nn.BatchNorm1d(len(rest[0]), dtype=rest[0].dtype)
        norm.running_mean.copy_(rest[0])  # type: ignore[union-attr]
        return norm
    if kind == "dropout":
        return nn.Dropout(rest[0])
    plain: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu": nn.ReLU}
    return plain[kind]() if kind in plain else Layer(kind)


def produced(net: dict[str, Any]) -> nn.Module:
    """A new model, with what is frozen, in eval mode, or hooked in it."""
    model = built(net["spec"])
    for name in net["evaluating"]:
        model.get_submodule(name).training = False
    for kind, name, factor in net["hooks"]:
        hooked(model, kind, name, factor)
    for name in net["frozen"]:
        model.get_parameter(name).requires_grad_(False)
    return model


def hooked(model: nn.Module, kind: str, name: str, factor: float | None) -> None:
    """A hook that multiplies by a factor; with None one that watches. One before a forward cuts off what comes in."""
    if kind == "parameter":
        model.get_parameter(name).register_hook(lambda grad: None if factor is None else grad * factor)
    elif kind == "pre":
        model.get_submodule(name).register_forward_pre_hook(lambda module, args: (args[0].detach(),))
    elif kind == "backward pre":
        model.get_submodule(name).register_full_backward_pre_hook(lambda module, grads: (grads[0] * factor,))
    elif kind == "forward":
        model.get_submodule(name).register_forward_hook(
            lambda module, args, output: None if factor is None else output * factor
        )
    else:
        model.get_submodule(name).register_full_backward_hook(
            lambda module, into, out: None if factor is None else tuple(g if g is None else g * factor for g in into)
        )


WATCHED = {"frozen": [], "evaluating": [], "hooks": [["forward", "", None]]}
"""What a small net has: a hook that watches, for which another pass is made."""


class Caller:
    """What a caller of `diagnose` has: a function that makes the model, data and a loss."""

    def __init__(self, net: dict[str, Any], x: Tensor, y: Tensor) -> None:
        """Everything is as it was drawn."""
        self.net, self.x, self.y = net, x, y
        self.failing: Failure | None = None

    def make(self) -> nn.Module:
        """A new model."""
        return produced(self.net)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The mean of the squared errors, or the sum, times a number."""
        if self.failing is not None:
            self.failing.strike()
        errors = (output - y).square()
        return (errors.sum() if self.net["sum"] else errors.mean()) * self.net["times"]

    def asks(self, student: Any) -> Any:
        """The result, with a tuple as it is."""
        return student.diagnose(self.make, self.x, self.y, self.loss, self.net["lr"])


@exercise(
    "13-diagnose",
    points=4,
    minutes=60,
    difficulty=3,
    title="Which layer, and why?",
    hints=(
        "Go down the list, and return at the first label that fits. Nearly all of it is in one pass: a hook on every "
        "leaf keeps each output in the order of the calls, and `retain_grad()` on these tensors (lesson 2) keeps what "
        "arrives at them. It raises for a tensor that needs no gradient.",
        "Each label is an exercise: `11-first-nonfinite`, `13-changed-by-hooks`, `13-wrong-mode`, "
        "`13-why-no-gradient`, `13-signal-report`, `13-dead-channels`. You may call your functions here.",
        "To learn which hook it is, make one more model, take the hooks off one module and its parameters "
        "(`11-remove-all-hooks` knows where they are), run the pass with the same random numbers, and compare the "
        "gradients.",
    ),
    why=(
        "What could spoil the other answers is asked first, and each experiment has a new model, so nothing has to be "
        "put back. `torch.autograd.grad` for the parameters and all outputs at once would do as well, in place of "
        "`retain_grad()` and `backward()`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "place": ("leaf", "parameter"), "grad": ALL,
            "call": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "inputs have two dimensions, which the contract says",
            "values": "all bounds are far away",
            "number": "the step is a small number, or a large one where that is the fault",
            "collection": "there is no collection",
            "model": "it makes the models itself; what may be about them is a fault or looks like one",
            "hooks": "hooks of others are a fault, or look like one",
            "grad_mode": "it trains",
            "backward": "it runs the passes itself",
        },
        own={"fault": FAULTS, "decoy": DECOYS, "inside": (False, True), "x_is": ("data", "prepared")},
        impossible=[
            lambda fault, decoy: fault.endswith(STEEP) and decoy in ("tiny loss", "large loss", "dead channel"),
            lambda fault, decoy: fault == "healthy: zeros" and decoy == "large loss",
            lambda fault, decoy: fault == "healthy: loss" and decoy == "tiny loss",
            lambda x_is, place, grad: x_is == "data" and (place, grad) != ("leaf", "empty"),
            lambda call, fault: call != "once" and fault not in ASKED_AGAIN,
        ],
    ),
)  # fmt: skip
class TestDiagnose:
    """Write `diagnose(make, x, y, loss_fn, lr)`. `make()` returns a new model, an equal one each time. Return a tuple:
    the label of what is wrong with it, and the name of the module where that starts; or `("healthy", None)`. At most
    one thing is wrong, but other labels may fit what follows from it. So the **first label that fits** is the answer.

    1. `"nan"`: the output of a call of a leaf has a NaN or an infinite entry. It starts at the first such call.
    2. `"hook"`: without one of the hooks, and all else equal, a parameter would get another gradient (tiny ones count,
       last digits do not), or one where it now has none. It starts at the module that has this hook, on itself or on a
       parameter of its own.
    3. `"mode"`: a module is in eval mode, and its mode matters (as in `13-wrong-mode`).
    4. `"unused"`: a leaf with parameters is never called, and none of them gets a gradient.
    5. `"frozen"`: a leaf has parameters, and none of them requires grad.
    6. `"cut"`: a leaf with parameters is called, and none of them gets a gradient. It starts at the one called last.
    7. `"exploding"`: the gradient at the output of a call of a leaf is more than 10000 times as large as at the last
       call of a leaf. It starts at the last call for which this holds.
    8. `"dead"`: more than half of the channels of an `nn.ReLU` are 0 for all of `x`, in this pass or in the one after a
       step of SGD. It starts at the first such ReLU that is called.
    9. `"vanishing"`: as in 7, but less than 1/10000 as large.

    - *This pass*, which all labels are about, is the first one of a new model: `loss_fn(model(x), y)` and its
      `backward()`. A step of SGD moves each parameter `p` that has a gradient by `-lr * p.grad`.
    - A leaf is a module without children. It gets one tensor and returns one, both of shape (inputs, channels), and may
      be called several times, an `nn.ReLU` once. Only leaves have parameters of their own. Nothing is changed in place.
    - Without a gradient, `.grad` is `None`; calls where none arrives do not count in 7 and 9. A gradient is as large as
      its RMS, the root of the mean square.
    - The root is in training mode. There are no post-accumulate-grad hooks. All numbers are far from the bounds, and
      what a dropout draws decides nothing.
    - Do with the models what you like. Afterwards `.grad` of `x` and `y` and the state of PyTorch's random number
      generator are as before.

    **Example.** If `make()` returns `nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))` with
    `model[0].requires_grad_(False)`, `diagnose(make, x, y, loss_fn, 0.1)` returns `("frozen", "0")`.
    """

    def draw(rng, dtype, fault, decoy, inside, call):
        net = Draft(rng, dtype, fault, inside).net(decoy)
        if call != "in turn":
            del net["sound"]
        x = rng.tensor(8, SIZE, low=-2, high=-0.25 if fault == "dead: at both ends" else 2, dtype=dtype)
        far = -10 if fault.endswith(" after a step") else 10 if fault.endswith(" until a step") else 0
        outputs = len(net["spec"][1][net["head"]][1])
        return {"net": net, "x": x, "y": rng.tensor(8, outputs, low=far - 1, high=far + 1, dtype=dtype)}

    def alive(net, x, y):
        return found(net, x, y) == {(net["label"], net["where"])}

    def probe(student, net, x, y, layout, place, grad, x_is, call, failure, failing_run, fault):
        caller = Caller(net, laid_out(x, layout), laid_out(y, layout))
        if x_is == "prepared":
            caller.x = nn.Parameter(caller.x) if place == "parameter" else caller.x.requires_grad_()
            caller.y.requires_grad_()
            if grad == "filled":
                fill_grad(caller.x)
        torch.rand(5)
        witness, random = Witness(x=caller.x, y=caller.y), torch.get_rng_state()
        seen = {"result": caller.asks(student), "changed": witness.changes()}
        seen["random"] = torch.equal(random, torch.get_rng_state())
        if call == "again":
            torch.rand(3)
            seen["again"] = caller.asks(student)
        elif call == "in turn":
            other = {**net, "frozen": [], "evaluating": [], "hooks": [], "spec": net["sound"], "lr": 0.001}
            seen["another, and it again"] = [Caller(part, x, y).asks(student) for part in (other, net)]
        few = ["block", {"layer": net["spec"][1][net["head"]], "drop": ["dropout", 0.5]},
               [["call", "layer"], ["call", "drop"]]]  # fmt: skip
        broken = Caller({**net, **WATCHED, "spec": few}, caller.x, caller.y)
        broken.failing = Failure(failure, failing_run)
        witness, random = Witness(x=caller.x, y=caller.y), torch.get_rng_state()
        seen["failure"] = broken.failing.during(lambda: [broken.asks(student) for _ in "12"])
        seen["changed by failure"] = witness.changes()
        seen["random after failure"] = torch.equal(random, torch.get_rng_state())
        return {**seen, "example": example(student)} if fault == "frozen" else seen

    mistakes = (
        Mistake(
            "infinite-is-no-number",
            lambda seen, net, fault: fault == "nan: loop" and label_of(seen) not in (None, "nan"),
            "Here an output becomes infinite, some calls before the first NaN. An infinite entry counts as a NaN does: "
            "`isnan` does not see it, `isfinite` does.",
            rather_than=("named-the-consequence", "another-module", "missed"),
        ),
        Mistake(
            "named-the-consequence",
            lambda seen, net: label_of(seen) in CONSEQUENCES.get(net["label"], ()),
            "The label fits, and one before it in the list fits, too. The first that fits is the answer; the others "
            "follow from it. If you do go through the labels in this order, you do not see the earlier one yet.",
        ),
        Mistake(
            "hooks-that-watch",
            lambda seen, net: (
                net["label"] != "nan" and label_of(seen) == "hook" and seen["result"][1].value in idle_hooks(net)
            ),
            "This hook changes no gradient: it watches, or returns what it got. Compare the gradients with it and "
            "without it, and all else equal: the other hooks stay, and a dropout draws the same random numbers.",
            rather_than=("another-module",),
        ),
        Mistake(
            "the-first-call-of-all",
            lambda seen, net: net["label"] in ("exploding", "vanishing") and at_the_far_end(seen, net),
            "The label is right. You named a layer far from the loss, where the gradient is smallest or largest. Going "
            "back from the loss, it starts where the bound is passed: the last call beyond it. A leaf that is called "
            "several times has a gradient for each call.",
            rather_than=("another-module",),
        ),
        Mistake(
            "modes-that-do-not-matter",
            lambda seen, net: (
                label_of(seen) == "mode"
                and seen["result"][1].value in net["evaluating"]
                and (net["label"], net["where"]) != ("mode", seen["result"][1].value)
            ),
            "This module is in eval mode, and computes the same in both modes: with the same random numbers, and with "
            "the modes of all that is in it as they are. So its mode does not matter.",
            rather_than=("named-the-consequence", "another-module"),
        ),
        Mistake(
            "changed-and-not-hooked",
            lambda seen, net: label_of(seen) == net["label"] == "hook" and seen["result"][1].value != net["where"],
            "The label is right: a hook changes gradients. The module is not the one that has it, on itself or on a "
            "parameter of its own. Take away one hook, leave the others, and compare the gradients.",
            rather_than=("another-module",),
        ),
        Mistake(
            "hooks-of-parameters",
            lambda seen, net, fault: (
                label_of(seen) == "healthy"
                if fault in ("hook: weight", "hook: bias")
                else False
                if is_missed(seen, net)
                else SILENT
            ),
            "You find what hooks of modules do to the gradients, and not what a hook on a parameter does to its own.",
            rather_than=("missed",),
        ),
        Mistake(
            "another-module",
            lambda seen, net: label_of(seen) == net["label"] != "healthy" and seen["result"][1].value != net["where"],
            "The label is right, and the module is another one. Read in the list where this fault starts.",
        ),
        Mistake(
            "only-the-first-pass",
            lambda seen, fault: label_of(seen) == "healthy" if fault.endswith(" after a step") else SILENT,
            "In the first pass all is well, and one step of SGD with this `lr` kills a ReLU, too large a step. You "
            "do not see it in the pass after that step.",
            rather_than=("missed",),
        ),
        Mistake(
            "missed",
            lambda seen, net: is_missed(seen, net),
            "You found nothing wrong, and something is: the table says what, and where.",
        ),
    )

    def test_the_label_and_the_module_are_found(seen, net):
        expect(seen["result"]).equals((net["label"], net["where"]))

    def test_each_call_begins_anew(seen, net, call):
        right = (net["label"], net["where"])
        if call == "again":
            expect(seen["again"]).equals(right)
        elif call == "in turn":
            expect(seen["another, and it again"]).equals([("healthy", None), right])

    def test_nothing_of_the_caller_changes(seen):
        nothing_changed(seen["changed"])
        expect(seen["random"]).is_true("the state of PyTorch's random number generator is not as before")

    def test_it_holds_when_the_loss_raises(seen):
        came_through(seen["failure"], "the loss")
        nothing_changed(seen["changed by failure"], when="after an exception")
        expect(seen["random after failure"]).is_true(
            "after an exception, the state of PyTorch's random number generator is not as before"
        )

    def test_the_example_comes_out(seen, fault):
        if fault == "frozen":
            expect(seen["example"]).equals(("frozen", "0"))


def example(student: Any) -> Any:
    """The contract's example."""

    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
        for parameter, start in zip(model.parameters(), (0.5, 0.25, 1.0, 0.0)):
            nn.init.constant_(parameter, start)
        model[0].requires_grad_(False)
        return model

    return student.diagnose(make, torch.ones(3, 2), torch.zeros(3, 1), nn.functional.mse_loss, 0.1)


CONSEQUENCES = {
    "nan": ("hook", "mode", "cut", "exploding", "dead", "vanishing"),
    "hook": ("cut", "exploding", "dead", "vanishing"),
    "mode": ("unused", "cut", "exploding", "dead", "vanishing"),
    "unused": ("frozen", "cut"),
    "frozen": ("cut",),
    "cut": ("unused", "vanishing"),
    "exploding": ("nan", "dead"),
    "dead": ("vanishing",),
}


def label_of(seen: Seen) -> Any:
    """The label that was returned."""
    return seen["result"][0].value


def is_missed(seen: Seen, net: dict[str, Any]) -> bool:
    """Whether a fault was called healthy."""
    return bool(label_of(seen) == "healthy" != net["label"])


def idle_hooks(net: dict[str, Any]) -> list[str]:
    """The modules with a hook, on themselves or on a parameter, that changes nothing."""
    idle = [hook for hook in net["hooks"] if hook[2] in (None, 1.0)]
    return [name.rpartition(".")[0] if kind == "parameter" else name for kind, name, _ in idle]


def at_the_far_end(seen: Seen, net: dict[str, Any]) -> bool:
    """Whether the label is right, and the module is one that is called before the fault."""
    name = seen["result"][1].value
    calls = [part for part, spec in leaves(net["spec"])]
    return label_of(seen) == net["label"] and name in calls and calls.index(name) < calls.index(net["where"])


def leaves(spec: list[Any], name: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Name and spec of each leaf that is called, in the order of the calls."""
    if spec[0] != "block":
        yield name, spec
        return
    for what, detail in spec[2]:
        child = detail[0] if what == "loop" else detail
        if child in spec[1] and what != "by hand":
            yield from leaves(spec[1][child], f"{name}.{child}" if name else child)


# The second oracle: the definitions of the contract, measured.


def found(net: dict[str, Any], x: Tensor, y: Tensor) -> set[tuple[str, str | None]]:
    """The answers by the definitions, for bounds that are half or twice as far away, and several random numbers."""
    answers = set()
    with torch.random.fork_rng(devices=[]):
        for seed, bound in enumerate((BOUND / 2, BOUND * 2)):
            torch.manual_seed(seed)
            answers.add(measured(net, x, y, bound))
    return answers


def pass_of(model: nn.Module, net: dict[str, Any], x: Tensor, y: Tensor) -> list[tuple[str, Tensor]]:
    """One pass; the outputs of leaves, in order, each with the gradient that arrives there in `.grad`."""
    calls: list[tuple[str, Tensor]] = []

    def watching(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            if output.requires_grad:
                output.retain_grad()
            calls.append((name, output))

        return hook

    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(watching(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a backward hook of the first layer sees no input is meant
        loss = Caller(net, x, y).loss(model(x), y)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
    return calls


def measured(net: dict[str, Any], x: Tensor, y: Tensor, bound: float) -> tuple[str, str | None]:
    """What the definitions say."""
    state = torch.get_rng_state()
    model = produced(net)
    calls = pass_of(model, net, x, y)
    for name, output in calls:
        if not output.isfinite().all():
            return "nan", name
    grads = {name: parameter.grad for name, parameter in model.named_parameters()}
    for index, (kind, name, _) in enumerate(net["hooks"]):
        torch.set_rng_state(state)
        other = produced({**net, "hooks": net["hooks"][:index] + net["hooks"][index + 1 :]})
        pass_of(other, net, x, y)
        for part, parameter in other.named_parameters():
            if not same(grads[part], parameter.grad):
                return "hook", name.rpartition(".")[0] if kind == "parameter" else name
    kinds = dict(leaves(net["spec"]))
    for name in net["evaluating"]:
        jumps = any(what == "jump" for what, _ in getattr(model.get_submodule(name), "program", []))
        if jumps or kinds.get(name, ["block"])[0] in ("batchnorm", "jump") or kinds.get(name) == ["dropout", 0.5]:
            return "mode", name
    called = [name for name, _ in calls]
    own = {name: list(module.parameters(recurse=False)) for name, module in model.named_modules()}
    own = {name: parameters for name, parameters in own.items() if parameters}
    without = [name for name, parameters in own.items() if all(parameter.grad is None for parameter in parameters)]
    frozen = [name for name in own if not any(parameter.requires_grad for parameter in own[name])]
    for label, names in (
        ("unused", [name for name in without if name not in called]),
        ("frozen", frozen),
        ("cut", [name for name in called if name in without][-1:]),
    ):
        if names:
            return label, names[0]
    sizes = [(name, rms(output.grad)) for name, output in calls if output.grad is not None]
    last = sizes[-1][1]
    for name, size in reversed(sizes):
        if size > bound * last:
            return "exploding", name
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= net["lr"] * parameter.grad
    relus = [name for name, module in model.named_modules() if isinstance(module, nn.ReLU)]
    for outputs in (calls, pass_of(model, net, x, y)):
        for name, output in outputs:
            if name in relus and (output == 0).all(0).double().mean() > 0.5:
                return "dead", name
    for name, size in reversed(sizes):
        if size < last / bound:
            return "vanishing", name
    return "healthy", None


def same(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether two gradients are equal, or both missing."""
    return first is second if first is None or second is None else torch.allclose(first, second, rtol=1e-4, atol=0)


def rms(grad: Tensor) -> float:
    """The root of the mean square."""
    return float(grad.double().square().mean().sqrt())
