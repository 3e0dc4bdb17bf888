"""What several exercises of lesson 5 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import (
    FACTOR,
    SILENT,
    Mistake,
    Rng,
    Seen,
    all_came_through,
    came_through,
    changes,
    expect,
    nothing_changed,
    paired,
    refuse,
)
from graders.lesson_05_capturing_activations.shared import IN_PLACE


@dataclass(frozen=True)
class Call:
    """One call of a module: its first name in `named_modules()`, and what went in and came out."""

    name: str
    kind: str
    x: Tensor
    y: Tensor


LATE_BINDING = (
    "All your hooks write under one name: they read the loop variable when they run, and by then it has its last "
    "value. Bind it with a default argument: `def hook(module, args, output, name=name):`."
)


def filled_keys(seen: Seen) -> list[Any]:
    """The keys of a dict under which there is more than None."""
    return [key for key in seen.keys if seen[key].value is not None]


class Layers:
    """Draws layers for one kind of input: "flat" ones of shape [B, 4], or "image" ones of shape [B, 2, 4, 4]."""

    def __init__(self, rng: Rng, case: Mapping[str, Any], layers: str | None = None) -> None:
        """`layers` is the type of layer that the task is about, if it is another one than that of the case."""
        self.rng, self.dtype, self.values = rng, case["dtype"], case["values"]
        self.layers = layers or case["layers"]
        self.image = self.layers in ("convolution", "norm")

    def x(self, layout: str = "contiguous", batch: int = 3) -> Tensor:
        """An input."""
        shape = (batch, 2, 4, 4) if self.image else (batch, 4)
        return self.rng.tensor(*shape, dtype=self.dtype, values=self.values, layout=layout)

    def plain(self) -> list[Any]:
        """A layer that keeps the shape, with weights of its own."""
        shape = (2, 2, 3, 3) if self.image else (4, 4)
        return ["conv" if self.image else "linear", self._tensor(*shape), self._tensor(shape[0])]

    def norm(self) -> list[Any]:
        """A batch norm, which shows its mode."""
        channels = 2 if self.image else 4
        return ["norm", self._tensor(channels), self._tensor(channels), 4 if self.image else 2]

    def target(self, activation: str = "tanh") -> list[Any]:
        """A layer of the type that the task is about."""
        return {"norm": self.norm, "activation": lambda: [activation]}.get(self.layers, self.plain)()

    def shift(self, registered: str) -> list[Any]:
        """A layer that adds a number; it may be called without being a submodule."""
        layer = ["shift", self.rng.uniform(0.5, 1.5)]
        return layer if registered == "yes" else ["hidden", layer]

    def of_any_shape(self) -> list[Tensor]:
        """Outputs without a dimension, with one (and infinite entries), with dimensions of size 1, and of size 0."""
        shapes = ((), (3,), (1, 2, 1), (0, 3))
        made = [self.rng.tensor(*shape, dtype=self.dtype, values=self.values) for shape in shapes]
        made[1][:2] = torch.tensor([float("inf"), -float("inf")])
        return made

    def plain_x(self) -> Tensor:
        """An input of shape [3, 2] for layers that compute nothing."""
        return self.rng.tensor(3, 2, dtype=self.dtype, values=self.values)

    def _tensor(self, *shape: int) -> Tensor:
        return self.rng.tensor(*shape, low=-1, high=1, away=0.125, dtype=self.dtype, values=self.values)


def scrambled(rng: Rng, children: dict[str, Any], steps: list[str]) -> dict[str, Any]:
    """The children, defined in another order than that of `steps`; a second name comes behind the first."""
    called = [name for name in dict.fromkeys(step.split(".")[0] for step in steps) if name in children]
    while True:
        names = rng.shuffled(list(children))
        first = {name: child[1].split(".")[0] for name, child in children.items() if child[0] == "same"}
        behind = all(names.index(name) > names.index(other) for name, other in first.items() if other in names)
        if behind and (len(called) < 2 or [name for name in names if name in called] != called):
            return {name: children[name] for name in names}


def net_of(spec: list[Any], named: Sequence[str], case: Mapping[str, Any]) -> dict[str, Any]:
    """A model with its circumstances, as a probe makes it: the caller's hooks sit on the root or on `named`.

    Under "cut" may stand the name of a module of whose output a hook of the caller leaves out the last sample.
    """
    on_named = sorted({find(spec, name)[0] for name in named[:2]})
    places = {"root": [""], "named": on_named, "parameter": []}[case["hooked"]]
    return {
        "spec": spec,
        **{name: case[name] for name in ("mode", "frozen", "grad", "hooks")},
        "watched": [] if case["hooks"] == "none" else places,
        "parameters": case["hooked"] == "parameter",
        "cut": None,
    }


def lookalike(name: str) -> dict[str, Any]:
    """A child that is never called, and whose name, or that of its own child, ends as `name` does."""
    head, _, tail = name.partition(".")
    return {f"x{head}": ["sequential", {tail: ["tanh"]}] if tail else ["tanh"]}


PLAIN = {"mode": "train", "frozen": "nothing", "grad": "empty", "hooks": "none", "hooked": "root"}
"""The circumstances of a model with none."""


def run_of(case: Mapping[str, Any], breaks: str, rounds: int = 1) -> dict[str, Any]:
    """How `observed` runs a model, which raises before the module `breaks` is called.

    `rounds` is how often a module may be called in one run.
    """
    same = ("layout", "x_is", "call", "failure", "failing_run")
    return {**{name: case[name] for name in same}, "under": case["grad_mode"], "breaks": breaks, "rounds": rounds}


def find(root: list[Any], path: str) -> tuple[str, list[Any]]:
    """The first name of a module, which is the one in `named_modules()`, and its tree."""
    spec, names = root, []
    for part in path.split(".") if path else []:
        spec = spec[1][part]
        names.append(part)
        if spec[0] == "same":
            name, spec = find(root, spec[1])
            names = name.split(".")
    return ".".join(names), spec


def walk(spec: list[Any], path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Name and tree of each module, as `named_modules()` yields them."""
    yield path, spec
    if spec[0] in CONTAINERS:
        for name, child in spec[1].items():
            if child[0] not in ("same", "hidden"):
                yield from walk(child, f"{path}.{name}" if path else name)


CONTAINERS = ("net", "sequential", "list")


def leaves(spec: list[Any]) -> list[str]:
    """The names of the modules without children."""
    return [name for name, part in walk(spec) if part[0] not in CONTAINERS or not part[1]]


class Twin:
    """Computes run after run what a model computes, without a module and without a hook, and without in-place steps."""

    def __init__(self, net: dict[str, Any], *, mode: str | None = None) -> None:
        """`mode` is another one than that of the model."""
        self.net, self.mode = net, mode or net["mode"]
        inner = leaves(net["spec"])
        self.evaluating = {"train": [], "eval": inner, "mixed": inner[::2]}[self.mode]
        self.counts: Counter[str] = Counter()
        self.statistics: dict[str, dict[str, Any]] = {}

    def run(self, x: Tensor) -> list[Call]:
        """Every call of a module with a name, in the order in which they end; the last is that of the model."""
        calls: list[Call] = []
        self._call("", self.net["spec"], x, calls)
        return calls

    def _call(self, name: str, spec: list[Any], x: Tensor, calls: list[Call]) -> Tensor:
        y = x
        if spec[0] in CONTAINERS:
            for step in spec[2] if spec[0] == "net" else spec[1]:
                y = y * -0.5 if step == IN_PLACE else self._step(name, spec, step, y, calls)
        else:
            y = self._leaf(name, spec, x)
        if self.net["hooks"] == "replacing" and name in self.net["watched"]:
            y = y * FACTOR
        if self.net["cut"] == name:
            y = y[:-1]
        calls.append(Call(name, spec[0], x, y))
        return y

    def _step(self, name: str, spec: list[Any], step: str, x: Tensor, calls: list[Call]) -> Tensor:
        if spec[1].get(step, [""])[0] == "hidden":
            return self._leaf("", spec[1][step][1], x)
        return self._call(*find(self.net["spec"], f"{name}.{step}" if name else step), x, calls)

    def _leaf(self, name: str, spec: list[Any], x: Tensor) -> Tensor:
        kind, *details = spec
        if kind == "counting":
            self.counts[name] += 1
            return x * (1 + self.counts[name])
        if kind == "norm":
            return self._norm(name, x, *details)
        return COMPUTES[kind](x, *details)

    def _norm(self, name: str, x: Tensor, weight: Tensor, bias: Tensor, dims: int) -> Tensor:
        kept = self.statistics.setdefault(name, {"mean": torch.zeros_like(weight), "batches": 0})
        zeros, training = torch.zeros_like(weight), name not in self.evaluating
        if training:
            mean = x.mean([dim for dim in range(dims) if dim != 1])
            kept |= {"mean": 0.9 * kept["mean"] + 0.1 * mean, "batches": kept["batches"] + 1}
        return F.batch_norm(x, zeros, zeros + 1, weight, bias, training=training)


COMPUTES = {
    "conv": lambda x, weight, bias: F.conv2d(x, weight, bias, padding=1),
    "linear": lambda x, weight, bias: x @ weight.T + bias,
    "relu": torch.relu, "tanh": torch.tanh, "gelu": F.gelu, "leaky": F.leaky_relu, "identity": lambda x: x,
    "narrow": lambda x: x[..., ::2],
    "flatten": lambda x: x.flatten(1),
    "shift": lambda x, by: x + by,
    "in-place": lambda x, factor: x * factor,
    "mean": lambda x: x.mean(),
    "window": lambda x, kind: x.repeat(1, 5)[:, :5] if kind == "columns" else x.repeat(5, 1)[:5],
}  # fmt: skip
"""What each kind of leaf computes."""


def outputs_of(calls: Sequence[Call], name: str) -> list[Tensor]:
    """The outputs of all calls of one module."""
    return [call.y for call in calls if call.name == name]


def ran_once_as_it_is(seen: Seen, net: dict[str, Any], x: Tensor) -> None:
    """`model(x)` ran exactly once and to its end, each part in its mode, and called the hooks of the caller."""
    twin = Twin(net)
    twin.run(x)
    if seen["calls"].value != 1 or seen["runs"].value != (1 if net["spec"][0] == "net" else None):
        refuse(
            "the model should be called exactly once, as `model(x)`: the call is counted "
            f"{times_(seen['calls'].value)}, and `forward` ran {times_(seen['runs'].value)}"
        )
    if seen["calls of a chain"].value != 1:
        refuse(
            "a plain `nn.Sequential` should be called exactly once, too, as `model(x)`: its forward hooks were called "
            f"{times_(seen['calls of a chain'].value)}"
        )
    fired_as_usual(seen, net, [x])
    for name, kept in twin.statistics.items():
        found = seen["statistics"][name]
        if found["batches"].value != kept["batches"]:
            refuse(
                f"the batch norm `{name}` counts the batches that it sees in training mode: in one whole run of this "
                f"model {kept['batches']}, and here {found['batches'].value}"
            )
        average = f"the running mean of the batch norm `{name}` after one run of the model on x"
        same_numbers(Seen(found["mean"].value, average), kept["mean"])


def fired_as_usual(seen: Seen, net: dict[str, Any], runs: Sequence[Tensor]) -> None:
    """Each hook of the caller was called as often as its module."""
    twin = Twin(net)
    calls = [call for x in runs for call in twin.run(x)]
    for name in net["watched"]:
        place = f"`{name}`" if name else "the model itself"
        wanted = len(outputs_of(calls, name))
        fired = sum(event.value == f"forward {name}" for event in seen["fired"])
        if fired != wanted:
            refuse(
                f"a forward hook of the caller on {place} should be called {times_(wanted)}, and was called "
                f"{times_(fired)}"
            )


def times_(count: int) -> str:
    """A count in words."""
    return "once" if count == 1 else f"{count} times"


def went_on(seen: Seen) -> None:
    """The hook only watched."""
    expect(seen["goes on"]).is_true("the layer behind the submodule got another tensor than the submodule returned")
    expect(seen["graph goes on"]).is_true(
        "grad mode was on, and the layer behind the submodule got an output without a graph: copy it, and leave the "
        "output itself, and the parameters, as they are"
    )


def stays(seen: Seen) -> None:
    """Nothing of the caller's changed, and no hook is left."""
    nothing_changed(seen["changed"], but=["buffer *"])


def stays_when_the_model_raises(seen: Seen) -> None:
    """As `stays`, and the exception came through."""
    came_through(seen["failure"], "the model")
    all_came_through(seen["failures at the end"], "the last layer of a model")
    nothing_changed(seen["changed by failure"], but=["buffer *"], when="after an exception")


def same_numbers(seen: Seen, expected: Tensor) -> None:
    """A tensor without a graph; a model in float32 rounds in each layer."""
    if expected.dtype == torch.float32:
        expect(seen).close_to(expected, rtol=1e-4, atol=1e-4)
    else:
        expect(seen).close_to(expected)


def all_close(seen: Seen, expected: Sequence[Tensor]) -> None:
    """A list of these tensors."""
    expect(seen).has_length(len(expected), "outputs" if len(expected) != 1 else "output")
    for entry, value in paired(seen, expected):
        same_numbers(entry, value)


WHEN = {"result": "the result", "later": "the result of a later call", "afterwards": "the result after a failure"}
"""What `observed` tells of the results, in words."""


def result_of(seen: Seen, key: str) -> Seen:
    """One of the results, with a path that says which."""
    return Seen(seen[key].value, WHEN[key])


def of_any_shape(seen: Seen, shaped: Sequence[Tensor]) -> Iterator[tuple[Seen, Tensor]]:
    """What `asked_of_any_shape` told, beside the outputs that it asked for."""
    for index, output in enumerate(shaped):
        path = f"the result for an output of the shape {tuple(output.shape)}"
        yield Seen(seen["of any shape"][index].value, path), output


def in_a_row(x: Tensor) -> Tensor:
    """What each layer of `asked_in_a_row` puts out."""
    return x + 1


def varied(x: Tensor) -> list[Tensor]:
    """What the layer of `asked_of_varied` puts out, call by call."""
    other_dtype = torch.float32 if x.dtype == torch.float64 else torch.float64
    return [x + 1, x + 1, (x + 1).to(other_dtype), x[:1] + 1, x.T + 1]


def in_another_mode(seen: Seen, net: dict[str, Any], x: Tensor) -> bool:
    """Whether a part was switched to another mode, for good or while the model ran."""
    (twin := Twin(net)).run(x)
    return bool(changes(seen["changed"], "mode *")) or (
        seen["runs"].value == 1
        and any(seen["statistics"][name]["batches"].value != kept["batches"] for name, kept in twin.statistics.items())
    )


RETURNED_THE_COPY = Mistake(
    "returned-the-copy",
    lambda seen: seen["goes on"].value is False,
    "Your hook returns what it stored, and what a hook returns takes the place of the output. So the model went on "
    "with your copy. A hook that only watches returns `None`.",
)
CHANGED_THE_MODE = (
    "You switched the model to another mode, with `eval()` or `train()`. BatchNorm and Dropout then compute something "
    "else. Run the model in the mode in which you got it, and leave it so."
)
RETURNED_A_LIST = Mistake(
    "returned-a-list",
    message="A hook of yours returned a list, and that took the place of the output. Mind the lambda: "
    "`kept or kept.append(...)` returns `kept` when it is not empty. A hook that only watches returns `None`.",
    raises=("must be Tensor, not list", "'list' object has no attribute", "got (list,"),
)
BEFORE_THE_CALLERS_HOOK = (
    "A hook of the caller replaced the output, and you took it before that. Hooks of a module run in the order in "
    "which they were registered, those for all modules first: register yours on the module, without `prepend`."
)
MISTAKES = (
    Mistake("hook-left-behind", lambda seen: bool(changes(seen["changed"], "hook-left *"))),
    Mistake(
        "hook-left-after-exception",
        lambda seen: (
            not changes(seen["changed"], "hook-left *") and bool(changes(seen["changed by failure"], "hook-left *"))
        ),
    ),
    RETURNED_THE_COPY,
    Mistake(
        "called-forward",
        lambda seen: seen["calls"].value == 0 and seen["runs"].value in (1, None),
        "You called `model.forward(x)`, which runs no hook of the model itself, and there may be some. "
        "Call the model: `model(x)`.",
    ),
    Mistake(
        "changed-the-mode",
        in_another_mode,
        CHANGED_THE_MODE,
    ),
    Mistake(
        "ran-more-than-once",
        lambda seen: (seen["calls"].value or 0) > 1,
        "You ran the model more than once. A second run computes everything again, and counts in what the model "
        "changes itself, as a batch norm does. One run is enough: the hook sees all of it.",
    ),
    Mistake(
        "stopped-the-run",
        lambda seen: seen["calls"].value == 1 and seen["calls of a chain"].value == 0,
        "You stopped the run when you had what you need. The task asks for a run to its end: hook, store, and let the "
        "model go on.",
        rather_than=("changed-the-mode",),
    ),
    Mistake(
        "ran-a-copy",
        lambda seen, net: seen["calls"].value == 1 and seen["runs"].value == 0 if net["spec"][0] == "net" else SILENT,
        "You ran a copy of the model. What a run changes in a model, such as the statistics of a batch norm, has to "
        "change in the model itself: call `model(x)`.",
        rather_than=("changed-the-mode",),
    ),
    Mistake(
        "callers-hook-removed",
        lambda seen, net: bool(changes(seen["changed"], "hook-removed *")) if net["watched"] else SILENT,
        "Hooks of the caller are gone. Remove your own hooks only, each by its handle.",
    ),
)
"""For a probe that tells what `observed` does."""
