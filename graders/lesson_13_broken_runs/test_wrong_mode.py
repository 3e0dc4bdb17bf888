"""Exercise 13-wrong-mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
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
    freeze_part,
    laid_out,
    nothing_changed,
    prepared,
)

# Modules whose mode matters, always, never, or at some inputs. All of them keep the shape of their input.


def packed(given: Tensor, result: Tensor, output: str) -> Any:
    """A result as it is, or behind the input in a "tuple" or a "dict"."""
    return {"tensor": result, "tuple": (given, "a text", result), "dict": {"in": given, "out": result}}[output]


def unpacked(value: Any) -> Tensor:
    """The result in what `packed` made."""
    result: Tensor = value["out"] if isinstance(value, dict) else value[-1] if isinstance(value, tuple) else value
    return result


class Part(nn.Module):
    """Computes one of the operations below, for inputs of any shape."""

    def __init__(self, kind: str, weight: Tensor, output: str = "tensor") -> None:
        """The weight is a parameter; the count of the calls in training mode is a buffer that is not saved."""
        super().__init__()
        self.kind, self.output = kind, output
        self.weight = nn.Parameter(weight.clone())
        self.register_buffer("mean", weight.detach().clone(), persistent=False)

    def forward(self, input: Tensor) -> Any:
        """The result, packed."""
        return packed(input, OPERATIONS[self.kind](self, input), self.output)


def scale(part: Part, x: Tensor) -> Tensor:
    """Another number in training mode, also for 0."""
    return 3 * x + 1 if part.training else x + 0


def one_entry(part: Part, x: Tensor) -> Tensor:
    """The last entry is larger by 1 in training mode."""
    out = x.clone(memory_format=torch.contiguous_format)
    if part.training:
        out.view(-1)[-1] += 1
    return out


def tracker(part: Part, x: Tensor) -> Tensor:
    """Subtracts what it has seen before; in training mode it moves on, after that."""
    out = x - part.mean
    if part.training:
        part.mean.add_(0.5)
    return out


def counter(part: Part, x: Tensor) -> Tensor:
    """Adds how often it was called, in whatever mode."""
    part.mean.add_(1)
    return x + part.mean


OPERATIONS: dict[str, Callable[[Part, Tensor], Tensor]] = {
    "affine": lambda part, x: part.weight * x + part.weight,
    "positive": lambda part, x: x.abs() + 0.5,
    "negative": lambda part, x: -x.abs() - 0.5,
    "scale": scale,
    "one entry": one_entry,
    "floor": lambda part, x: x.relu() if part.training else x + 0,
    "floor in place": lambda part, x: x.relu_() if part.training else x,
    "noise": lambda part, x: x + torch.rand(x.shape, dtype=x.dtype),
    "tracker": tracker,
    "counter": counter,
    "blank in place": lambda part, x: x.mul_(0),
}


class Thinning(nn.Dropout):
    """A subclass: it is a dropout, and its type is another one."""


class Block(nn.Module):
    """Calls its children in an order that need not be that of definition, perhaps one of them twice."""

    def __init__(self, children: dict[str, nn.Module], order: list[str], options: dict[str, Any]) -> None:
        """Options: "own", the mode in which it negates its input; "output"; "passing"; "hidden", no submodules."""
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.order, self.own, self.output = order, options.get("own"), options.get("output", "tensor")
        self.passing, self.hidden = options.get("passing", "position"), options.get("hidden", [])

    def forward(self, input: Tensor) -> Any:
        """One child after the other."""
        x = -input if self.training is self.own else input
        for child in [*self.hidden, *(self.get_submodule(name) for name in self.order)]:
            x = unpacked(child(input=x) if self.passing == "keyword" else child(x))
        return packed(input, x, self.output)


def build(spec: list[Any]) -> nn.Module:
    """The module that a spec describes, in training mode."""
    kind, *rest = spec
    if kind == "block":
        children, order, options = rest
        hidden = [build(part).train(options["hidden mode"]) for part in options.get("hidden", [])]
        return Block({name: build(child) for name, child in children.items()}, order, {**options, "hidden": hidden})
    if kind in ("dropout", "dropout of a subclass"):
        return (nn.Dropout if kind == "dropout" else Thinning)(rest[0])
    if kind == "batchnorm":
        dims, tracks, mean, variance = rest
        norm: Any = (nn.BatchNorm2d if dims == 4 else nn.BatchNorm1d)(len(mean), track_running_stats=tracks)
        norm.to(mean.dtype)
        if tracks:
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
        return norm
    return Part(kind, *rest)


def made(net: dict[str, Any]) -> nn.Module:
    """The model, with each module in its mode."""
    model = freeze_part(build(net["spec"]), net["frozen"])
    for name, module in model.named_modules():
        module.training = net["training"][name]
    if net["grad"] == "filled":
        fill_grads(model)
    return model


class Striking(nn.Module):
    """Its mode matters, and it may raise."""

    def __init__(self, strike: Callable[[], None]) -> None:
        """`strike` raises, or not."""
        super().__init__()
        self.strike = strike

    def forward(self, input: Tensor) -> Tensor:
        """Twice as much in training mode."""
        self.strike()
        return input * 2 if self.training else input + 0


class Half(nn.Module):
    """The module of the contract's example."""

    def forward(self, x: Tensor) -> Tensor:
        """Half of it in training mode."""
        return x / 2 if self.training else x


MATTERS = ("scale", "one entry", "dropout", "dropout of a subclass", "batchnorm", "in place", "container",
           "overwritten", "first call", "second call")  # fmt: skip
DOES_NOT = (
    "counter",
    "dropout of 0",
    "no statistics",
    "noise",
    "tracker",
    "other inputs",
    "never called",
    "not registered",
)


WITH_MORE = "scale"
"""The suspect beside which all is asked that is the same in each case."""


class Remembering(nn.Module):
    """Returns a buffer, into which it writes its input in training mode."""

    last: Tensor

    def __init__(self) -> None:
        """Zeros, for four numbers."""
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, *, input: Tensor) -> Tensor:
        """The buffer itself."""
        if self.training:
            self.last.copy_(input)
        return self.last


class TwoWays(nn.Module):
    """Does one thing in training mode and another one in eval mode."""

    def __init__(self, training: Callable[[Tensor], Any], otherwise: Callable[[Tensor], Any]) -> None:
        """Each makes the output of the input."""
        super().__init__()
        self.in_training, self.otherwise = training, otherwise

    def forward(self, input: Tensor) -> Any:
        """What the function of its mode returns."""
        return (self.in_training if self.training else self.otherwise)(input)


class Pair(NamedTuple):
    """Two tensors."""

    first: Tensor
    second: Tensor


TWO_WAYS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any], list[float]]] = {
    "a slightly larger entry beside a large one": (
        lambda x: x + torch.tensor([0.0, 0.0125]), lambda x: 1 * x, [1e6, 1.0],
    ),
    "100.02 and not 100": (lambda x: x + 0.02, lambda x: 1 * x, [100.0, 100.0]),
    "whole numbers": (lambda x: x.argmax(), lambda x: x.argmin(), [1.0, 2.0]),
    "the same numbers in another order, in a namedtuple": (
        lambda x: Pair(x.flip(0), 1 * x), lambda x: Pair(1 * x, 1 * x), [1.0, 2.0],
    ),
}  # fmt: skip
"""What a module returns in training mode and in eval mode, for an input. The mode of each matters."""


class Counting(nn.Module):
    """Counts its calls in a buffer; in training mode it adds the number of those before."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        result: Tensor = input + self.calls * self.training
        self.calls += 1
        return result


class Beside(nn.Module):
    """Counts its calls in a buffer of another module, and adds the number of those before in both modes."""

    def __init__(self, other: Counting) -> None:
        """The other one is not a child."""
        super().__init__()
        self.others = [other]

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        result: Tensor = input + self.others[0].calls
        self.others[0].calls += 1
        return result


class Doubling(Meanwhile):
    """In training mode it doubles what its modules get."""

    def forward(self, input: Tensor) -> Any:
        """What the last module returns."""
        return super().forward(2 * input if self.training else input)


class Floor(nn.Module):
    """In one of its modes it makes negative numbers 0, in place; in the other it hands on its input."""

    def __init__(self, mode: bool) -> None:
        """`mode` is the `training` in which it works."""
        super().__init__()
        self.mode = mode

    def forward(self, *, input: Tensor) -> Tensor:
        """The input itself."""
        return input.relu_() if self.training is self.mode else input


class CalledByKeyword(nn.Sequential):
    """Calls its children by keyword."""

    def forward(self, input: Tensor) -> Tensor:
        """What the last one returns, for a copy of the input."""
        output = input.clone()
        for child in self:
            output = child(input=output)
        return output


class Asking(nn.Module):
    """Calls its child by keyword."""

    def __init__(self) -> None:
        """The child is in the other mode."""
        super().__init__()
        self.child = Remembering().eval()

    def forward(self, input: Tensor) -> Tensor:
        """What the child returns, plus 1."""
        output: Tensor = self.child(input=input)
        return output + 1


@exercise(
    "13-wrong-mode",
    points=3,
    minutes=35,
    difficulty=3,
    title="Left in the wrong mode",
    hints=(
        "A module's mode is its attribute `training`, and `train()` and `eval()` set it for all children, too. Which "
        "modules have another one than the model? Of these you want the ones that would return something else.",
        "To know what a module would return, call it again, at the very input that it got in the model: pre-hooks see "
        "it (lesson 5), and see it before a module that works in place overwrites it (`11-first-nonfinite`). Call "
        "`module.forward` in the hook: a call of the module would fire your hook again, and a call of a copy would, "
        "too. `with_kwargs=True` gives a pre-hook the keyword arguments (lesson 6).",
        "Two calls may differ for other reasons than the mode. Random numbers: `torch.random.fork_rng()` and "
        "`torch.get_rng_state()`. Buffers: keep copies of all, and put them back with `copy_` before each call and in "
        "`finally` at the end.",
    ),
    why=(
        "Each module runs in both modes on the input, buffers and random numbers of its own call, so only the mode can "
        "make a difference. Two deep copies of the model for each suspect, one in each mode and run with the same "
        "seed, would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "values": ALL,
            "mode": ("train", "eval"), "frozen": ALL, "output": ALL, "passing": ALL, "hooks": ALL, "hooked": ALL,
            "call": ALL, "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "named": "it gets no name; modules of every place are in the wrong mode",
            "follower": "a suspect works in place itself",
            "registered": "a suspect is not registered",
            "layers": "what a layer computes is its own business",
            "backward": "it runs no backward pass",
        },
        own={
            "suspect": (*MATTERS, *DOES_NOT),
            "another": (False, True),
            "inside": (False, True),
            "fails_at": ("forward", "hook"),
        },
        pairs=[("suspect", "mode")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda suspect, rank: suspect in ("batchnorm", "no statistics") and rank < 2,
            lambda suspect, inside: suspect in ("container", "not registered", "counter") and inside,
        ],
    ),
)  # fmt: skip
class TestWrongMode:
    """Write `wrong_mode(model, x)`. Return a list of the names of all modules whose `training` is not that of the model
    itself, and whose mode matters in a call of theirs, in the order of `model.named_modules()`.

    - The mode **matters** in a call if the output is another one with `training` set to `True` than with `False`, and
      all else is equal: the input, all buffers and the modes of all other modules, as they are when the call begins,
      and the random numbers. Where it does, an entry of a tensor in it differs by 0.01 or more, whichever random
      numbers they are.
    - The calls are those that `model(x)` makes with all modules in the modes in which you got them. You may call the
      model and its modules any number of times.
    - A module gets one tensor, by position or by keyword, and may work on it in place. It returns a tensor, or a tuple
      or dict with tensors in it. It works in both modes and sets no mode; it may change buffers, its own or others', in
      place. All numbers are finite, and no tensor is empty.
    - Hooks of the caller may replace outputs, which hides no difference, and leave inputs alone.

    Afterwards all buffers (such as running statistics) and the state of PyTorch's random number generator are as
    before.

    **Example.** Let `Half` be a module whose `forward` returns `x / 2 if self.training else x`. For
    `model = nn.Sequential(nn.ReLU(), Half(), nn.Dropout(0.0), Half())` after `model[:3].eval()`,
    `wrong_mode(model, torch.ones(4))` returns `["1"]`: the model is in training mode, and what the other modules in
    eval mode return does not depend on it.
    """

    def draw(rng, dtype, rank, layout, values, mode, frozen, grad, output, passing, suspect, another, inside):
        parts = Parts(rng, dtype, rng.shape(rank), output, passing)
        net = parts.net(suspect, mode == "train", another, inside)
        return {
            "net": {**net, "frozen": frozen, "grad": grad},
            "x": parts.x(layout, values),
            "expected": net["expected"],
        }

    def alive(net, x, expected, call):
        nets = (net, mended(net)) if call == "again" else (net,)
        clear, rough = ([measured(now, x, at_least=least) for now in nets] for least in (0.1, 1e-6))
        return clear == rough and clear[0] == expected

    def probe(
        student, net, x, expected, layout, place, grad, hooks, hooked, call, grad_mode, failure, failing_run, fails_at,
        suspect,
    ):  # fmt: skip
        model, callers = made(net), CallersHooks(hooks)
        if hooked == "parameter":
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    callers.on_parameter(parameter, name)
        else:
            callers.on_module(model.get_submodule(net["watched"] if hooked == "named" else ""), "it")
        good = laid_out(x, layout)
        x = prepared(x, layout=layout, place=place, grad=grad)
        with torch.set_grad_enabled(grad_mode == "on"):
            torch.rand(5)
            witness, random = Witness(model=model, x=x), torch.get_rng_state()
            seen = {"result": student.wrong_mode(model, x), "changed": witness.changes()}
            seen["random"] = torch.equal(random, torch.get_rng_state())
            if call == "again":
                for name in expected:
                    model.get_submodule(name).training = model.training
                seen["again, when these are mended"] = student.wrong_mode(model, x)
            elif call == "in turn":
                torch.rand(3)
                seen["again, for another model"] = student.wrong_mode(made(net), good)
            failing = Failure(failure, failing_run)
            strike = lambda *args: failing.strike()  # noqa: E731  # a copy of the model counts the same runs
            broken = nn.Sequential(
                nn.Dropout(0.5),
                Part("tracker", torch.ones(())),
                Striking(strike if fails_at == "forward" else int),
            ).to(x.dtype)
            if fails_at == "hook":
                broken[2].register_forward_hook(strike)
            broken.train(net["training"][""])
            broken[0].train()
            broken[2].train(not broken.training)
            witness, random = Witness(model=broken, good=good), torch.get_rng_state()
            seen["failure"] = failing.during(lambda: [student.wrong_mode(broken, good) for _ in "12"])
            seen["changed by failure"] = witness.changes()
            seen["random after failure"] = torch.equal(random, torch.get_rng_state())
        if suspect != WITH_MORE:
            return seen
        example = nn.Sequential(nn.ReLU(), Half(), nn.Dropout(0.0), Half())
        example[:3].eval()
        seen["example"] = student.wrong_mode(example, torch.ones(4))
        inner: list[Any] = []
        blank = TwoWays(lambda x: 0 * x, lambda x: 1 * x)
        outer = nn.Sequential(Doubling(lambda: inner.append(student.wrong_mode(example, torch.ones(4))), blank))
        outer[0].eval()
        seen["around calls"] = student.wrong_mode(outer, torch.ones(4))
        seen["in a call"] = next((found for found in inner if found != ["1"]), ["1"])
        seen["a buffer"] = student.wrong_mode(Asking(), torch.ones(4))
        late = Counting().eval()
        seen["from the second call on"] = student.wrong_mode(nn.Sequential(late, late), torch.ones(4))
        by_keyword = CalledByKeyword(Floor(True).eval(), Floor(False).eval())
        seen["by keyword, in place"] = student.wrong_mode(by_keyword, -torch.ones(4))
        seen["two ways"] = {}
        for what, (training, otherwise, values) in TWO_WAYS.items():
            model = nn.Sequential(TwoWays(training, otherwise).eval())
            seen["two ways"][what] = student.wrong_mode(model, torch.tensor(values))
        around = nn.Sequential(nn.Sequential(Counting()))
        around[0].training = False
        seen["around a counter"] = student.wrong_mode(around, torch.ones(2))
        counter = Counting()
        seen["beside a counter"] = student.wrong_mode(nn.Sequential(counter, Beside(counter).eval()), torch.ones(2))
        sound = nn.Sequential(nn.ReLU(), nn.Dropout(0.0), nn.Tanh())
        sound[1].eval()
        return {**seen, "behind the example": student.wrong_mode(sound, torch.ones(4))}

    mistakes = (
        Mistake(
            "by-class",
            lambda seen, net: seen["result"].value == by_class(net) and (by_class(net) != [] or SILENT),
            "You went by the class: what is a `Dropout` or a `BatchNorm`, and nothing else. A module of any class may "
            "look at `self.training`, and a dropout of 0 does not care. Call each module in both modes, and compare.",
            everywhere=True,
        ),
        Mistake(
            "all-in-the-other-mode",
            lambda seen, net: seen["result"].value == in_the_other_mode(net),
            "You returned all modules that are in another mode than the model. Of these, only those count that return "
            "something else in the other mode: call each in both modes, and compare.",
        ),
        Mistake(
            "all-whose-mode-matters",
            lambda seen, net, x: predicted(seen, net, x, any_mode=True),
            "You returned modules that are in the same mode as the model, too. Only those count whose `training` is "
            "not `model.training`.",
        ),
        Mistake(
            "switched-the-children",
            lambda seen, net, x: predicted(seen, net, x, whole=True),
            "You named a container whose children depend on the mode, and not the container itself. `train()` and "
            "`eval()` switch all modules inside: set `module.training` of this one alone.",
        ),
        Mistake(
            "other-random-numbers",
            lambda seen, net, x: predicted(seen, net, x, same_random=False),
            "You named a module that draws random numbers in both modes: its two outputs differ by these alone. Give "
            "both calls the same ones, with `torch.get_rng_state()` and `torch.set_rng_state()`.",
        ),
        Mistake(
            "buffers-moved-on",
            lambda seen, net, x: predicted(seen, net, x, same_buffers=False),
            "You named a module that changes its buffers in training mode, after it has computed its output: your "
            "second call found other buffers than the first. Put them back between the two.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, net, x, suspect: suspect == "second call" and predicted(seen, net, x, calls=slice(1)),
            "A module may be called more than once, and here its mode matters in the second call only. Look at every "
            "call.",
        ),
        Mistake(
            "only-last-call",
            lambda seen, net, x, suspect: suspect == "first call" and predicted(seen, net, x, calls=slice(-1, None)),
            "A module may be called more than once, and here its mode matters in the first call only. Look at every "
            "call.",
        ),
        Mistake(
            "input-overwritten",
            lambda seen, net, x, suspect: suspect == "in place" and predicted(seen, net, x, overwritten=True),
            "A module here works in place. When its forward hook fires, its input is overwritten, and a call of it "
            "overwrites what you give it: keep a copy of the input in a pre-hook, and give each call a copy of that.",
            rather_than=("output-of-the-model",),
        ),
        Mistake(
            "output-of-the-model",
            lambda seen, net, x, expected: (
                SILENT if (found := told_by_the_model(net, x)) == expected else seen["result"].value == found
            ),
            "You compared what the whole model returns: what comes after a module may hide what it does, or its mode "
            "may matter to others alone. Compare what the call of the module itself returns.",
        ),
        Mistake(
            "order-of-calls",
            lambda seen, expected: (
                type(seen["result"].value) is list
                and seen["result"].value != expected
                and all(type(name) is str for name in seen["result"].value)
                and sorted(seen["result"].value) == sorted(expected)
            ),
            "The names are right, and in another order: asked for is that of `model.named_modules()`.",
        ),
    )

    def test_the_modules_in_the_wrong_mode_are_named(seen, expected):
        expect(seen["result"]).equals(expected)

    def test_any_output_is_compared(seen, suspect):
        for what in TWO_WAYS if suspect == WITH_MORE else ():
            expect(Seen(seen["two ways"][what].value, f"for a module that returns {what}")).equals(["0"])

    def test_buffers_are_as_they_were_when_the_call_began(seen, suspect):
        if suspect == WITH_MORE:
            path = "for a container in eval mode around a module that counts its calls in a buffer"
            expect(Seen(seen["around a counter"].value, path)).equals([])
            path = "for a module in eval mode that counts its calls in a buffer of another module"
            expect(Seen(seen["beside a counter"].value, path)).equals([])
            path = "for a module with two names that is called twice, and whose mode matters when it was called before"
            expect(Seen(seen["from the second call on"].value, path)).equals(["0"])

    def test_a_call_inside_a_call_changes_nothing(seen, suspect):
        if suspect == WITH_MORE:
            path = "for a container and a module in it, which returns zeros in training mode, both in eval mode"
            expect(Seen(seen["around calls"].value, path)).equals(["0", "0.0"])
            expect(Seen(seen["in a call"].value, "for the example, in a call inside a call")).equals(["1"])

    def test_a_keyword_argument_is_as_it_was(seen, suspect):
        if suspect == WITH_MORE:
            path = "for two modules that work in place in one mode each, and are called by keyword"
            expect(Seen(seen["by keyword, in place"].value, path)).equals(["0", "1"])

    def test_an_output_that_is_a_buffer_is_compared_as_it_was(seen, suspect):
        if suspect == WITH_MORE:
            expect(Seen(seen["a buffer"].value, "for a module that returns one of its buffers")).equals(["child"])

    def test_each_call_begins_anew(seen, net, x, expected, call):
        if call == "again":
            expect(seen["again, when these are mended"]).equals(measured(mended(net), x))
        elif call == "in turn":
            expect(seen["again, for another model"]).equals(expected)

    def test_nothing_of_the_caller_changes(seen):
        nothing_changed(seen["changed"])
        same_random_numbers(seen["random"])

    def test_it_holds_when_the_model_raises(seen):
        came_through(seen["failure"], "the model")
        nothing_changed(seen["changed by failure"], when="after an exception")
        same_random_numbers(seen["random after failure"], "after an exception, ")

    def test_the_example_comes_out(seen, suspect):
        if suspect == WITH_MORE:
            expect(seen["example"]).equals(["1"])
            expect(Seen(seen["behind the example"].value, "for a `Dropout(0.0)` in eval mode")).equals([])


def same_random_numbers(seen: Seen, when: str = "") -> None:
    """The generator is in the state in which it was."""
    expect(seen).is_true(f"{when}the state of PyTorch's random number generator is not as before")


class Parts:
    """Draws specs of modules for inputs of one shape and dtype, and nets of them."""

    def __init__(self, rng: Rng, dtype: str, shape: tuple[int, ...], output: str, passing: str) -> None:
        """`output` is what modules of ours return, `passing` how blocks call."""
        self.rng, self.dtype, self.shape, self.output, self.passing = rng, dtype, shape, output, passing

    def x(self, layout: str, values: str) -> Tensor:
        """An input."""
        return self.rng.tensor(*self.shape, dtype=self.dtype, layout=layout, values=values)

    def part(self, kind: str) -> list[Any]:
        """The spec of a module of ours."""
        return [kind, self.rng.tensor(low=-1.5, high=1.5, away=0.5, dtype=self.dtype), self.output]

    def matters(self) -> list[Any]:
        """The spec of a module whose mode matters at any input."""
        return self.part(self.rng.choice(("scale", "one entry")))

    def batchnorm(self, tracks: bool) -> list[Any]:
        """Its running mean is far below the positive numbers that it gets."""
        mean = self.rng.tensor(self.shape[1], low=-6, high=-4, dtype=self.dtype)
        return ["batchnorm", len(self.shape), tracks, mean, self.rng.tensor(len(mean), low=1, dtype=self.dtype)]

    def block(self, children: dict[str, Any], order: list[str], **options: Any) -> list[Any]:
        """The spec of a block."""
        return ["block", defined(self.rng, children, order), order,
                {"passing": self.passing, "output": self.output, **options}]  # fmt: skip

    def net(self, suspect: str, root: bool, another: bool, inside: bool) -> dict[str, Any]:
        """A net with a suspect, at the top or `inside` of a block, and perhaps `another` module in the wrong mode.

        "training" has the mode of each module by name, "expected" the names of those in the wrong mode; the caller's
        hooks sit on the one that is "watched".
        """
        start, end, block, inner, right, wrong, it, before, between, behind, plain, late, last = self.rng.names(13)
        pieces, order = self.piece(suspect, it, before, between, behind)
        affine = [self.part("affine") for _ in range(4)]
        deepest = self.block({right: self.matters(), plain: affine[0]}, self.rng.shuffled([right, plain]))
        middle, middle_order = {late: affine[1], inner: deepest}, self.rng.shuffled([late, inner])
        top, top_order = {start: affine[2], end: affine[3], last: self.matters()}, [start, block, last, end]
        own = None
        if suspect == "container":
            own, top[before], top_order = root, self.part("positive"), [start, before, block, last, end]
            middle, middle_order = middle | pieces, order + middle_order
        elif inside:
            middle, middle_order = middle | pieces, middle_order + order
        else:
            top, top_order = top | pieces, [start, block, *order, last, end]
        if another:
            middle, middle_order = {**middle, wrong: self.matters()}, [*middle_order, wrong]
        top[block] = self.block(middle, middle_order, own=own)
        hidden = {"hidden": [self.part("scale")], "hidden mode": not root} if suspect == "not registered" else {}
        spec = self.block(top, top_order, **hidden)
        if suspect == "counter":  # one of the two has the last of all buffers
            spec[1][behind] = spec[1].pop(behind)

        wrongly = {wrong} | (set() if suspect in (*DOES_NOT, "container") else {it})
        if suspect == "in place" and root:  # it leaves negative numbers to what is behind it
            wrongly.add(behind)
        if suspect == "container":
            wrongly.add(block)
        others = {it, behind, block, inner, plain}  # whose mode does not matter, or is judged above
        others |= {name for name in (start, end, before, between) if self.rng.integer(0, 1)}
        names = {name: name.split(".")[-1] for name, _ in walk(spec)}
        expected = [name for name, own_name in names.items() if own_name in wrongly]
        return {
            "spec": spec,
            "training": {name: root != (part in wrongly | others) for name, part in names.items()},
            "expected": expected,
            "watched": next(name for name, part in names.items() if part in (it, block)),
        }

    def piece(
        self, suspect: str, it: str, before: str, between: str, behind: str
    ) -> tuple[dict[str, list[Any]], list[str]]:
        """The modules for a suspect, and the names of their calls in order."""
        positive, negative = self.part("positive"), self.part("negative")
        if suspect == "not registered":
            return {}, []
        if suspect == "container":  # what is in it gets negative numbers in the container's other mode only
            return {it: self.part("floor")}, [it]
        if suspect == "never called":
            return {it: self.matters()}, []
        if suspect == "in place":
            floors = {it: self.part("floor in place"), behind: self.part("floor")}
            return {before: negative, **floors}, [before, it, behind]
        if suspect == "overwritten":
            return {before: positive, it: self.matters(), behind: self.part("blank in place")}, [before, it, behind]
        if suspect == "counter":
            return {before: positive, it: self.part("counter"), behind: self.part("counter")}, [before, it, behind]
        if suspect in ("first call", "second call"):
            first, second = (negative, positive) if suspect == "first call" else (positive, negative)
            return {it: self.part("floor"), before: first, between: second}, [before, it, between, it]
        if suspect in ("dropout", "dropout of a subclass"):
            spec = [suspect, self.rng.choice((0.25, 0.5, 0.75))]
        elif suspect == "dropout of 0":
            spec = ["dropout", 0.0]
        elif suspect in ("batchnorm", "no statistics"):
            spec = self.batchnorm(suspect == "batchnorm")
        else:
            spec = self.part("floor" if suspect == "other inputs" else suspect)
        return {before: positive, it: spec}, [before, it]


def defined(rng: Rng, children: dict[str, Any], order: list[str]) -> dict[str, Any]:
    """The children, defined in another order than that in which they are called."""
    while True:
        names = rng.shuffled(list(children))
        called = [name for name in names if name in order]
        if len(called) < 2 or called != list(dict.fromkeys(order)):
            return {name: children[name] for name in names}


def walk(spec: list[Any], name: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Name and spec of each module, as `named_modules()` yields them."""
    yield name, spec
    if spec[0] == "block":
        for key, child in spec[1].items():
            yield from walk(child, f"{name}.{key}" if name else key)


def mended(net: dict[str, Any]) -> dict[str, Any]:
    """The net after its modules in the wrong mode got that of the model; others may get other inputs then."""
    return {**net, "training": {**net["training"], **dict.fromkeys(net["expected"], net["training"][""])}}


def in_the_other_mode(net: dict[str, Any]) -> list[str]:
    """The answer of one who compares modes only."""
    return [name for name, training in net["training"].items() if training != net["training"][""]]


def by_class(net: dict[str, Any]) -> list[str]:
    """The answer of one who knows which classes of torch look at their mode."""
    kinds = {name: spec[0] for name, spec in walk(net["spec"])}
    return [name for name in in_the_other_mode(net) if kinds[name].startswith(("dropout", "batchnorm"))]


def told_by_the_model(net: dict[str, Any], x: Tensor) -> list[str]:
    """The answer of one who switches each suspect and compares what the model returns."""
    found = []
    for name in in_the_other_mode(net):
        outputs = []
        for switched in (False, True):
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(0)
                model = made(net)
                module = model.get_submodule(name)
                module.training = module.training != switched
                outputs.append(unpacked(model(x.clone())).clone())
        if float((outputs[0] - outputs[1]).abs().max()) > 1e-3:
            found.append(name)
    return found


def predicted(seen: Seen, net: dict[str, Any], x: Tensor, **how: Any) -> bool:
    """Whether the result is what one gets who measures in another way, which is not the right one."""
    wrong = measured(net, x, **how)
    return bool(seen["result"].value == wrong != measured(net, x))


def measured(
    net: dict[str, Any],
    x: Tensor,
    *,
    at_least: float = 1e-3,
    any_mode: bool = False,
    whole: bool = False,
    same_random: bool = True,
    same_buffers: bool = True,
    overwritten: bool = False,
    calls: slice = slice(None),
) -> list[str]:
    """The modules in the wrong mode by definition, each function `forward` measured where it is called.

    The options are ways to go wrong. What is `overwritten` is the input of a module that works in place.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = made(net)
        verdicts: dict[str, list[bool]] = {}
        busy: list[str] = []

        def measuring(name: str, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
            def both(args: Any, kwargs: Any) -> bool:
                before, outputs = module.training, []
                random, buffers = torch.get_rng_state(), [buffer.clone() for buffer in model.buffers()]
                for training in (True, False):
                    if same_random:
                        torch.set_rng_state(random)
                    for buffer, old in zip(model.buffers(), buffers):
                        if same_buffers or training:
                            buffer.copy_(old)
                    modes = {part: part.training for part in module.modules()}
                    module.train(training) if whole else setattr(module, "training", training)
                    given = [[arg if overwritten else arg.clone() for arg in args]]
                    words = {key: arg if overwritten else arg.clone() for key, arg in kwargs.items()}
                    outputs.append(unpacked(forward(*given[0], **words)).clone())
                    for part, mode in modes.items():
                        part.training = mode
                module.training = before
                torch.set_rng_state(random)
                for buffer, old in zip(model.buffers(), buffers):
                    buffer.copy_(old)
                return float((outputs[0] - outputs[1]).abs().max()) > at_least

            def call(*args: Any, **kwargs: Any) -> Any:
                if busy or not (any_mode or module.training != model.training):
                    return forward(*args, **kwargs)
                if overwritten:
                    output = forward(*args, **kwargs)
                busy.append(name)
                verdicts.setdefault(name, []).append(both(args, kwargs))
                busy.pop()
                return output if overwritten else forward(*args, **kwargs)

            return call

        for name, module in model.named_modules():
            vars(module)["forward"] = measuring(name, module, module.forward)
        model(x.clone())
        return [name for name in net["training"] if any(verdicts.get(name, [])[calls])]
