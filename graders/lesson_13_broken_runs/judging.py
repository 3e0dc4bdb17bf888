"""What draws, checks and mistakes of lesson 13 use: the models of `shared`, without modules; nets with one fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graders.authoring import Rng
from graders.lesson_13_broken_runs.shared import along_channels, pooled


@dataclass(frozen=True)
class Call:
    """One call of a leaf: its first name, its kind, and the floating tensors that it returned, with their graph."""

    name: str
    kind: str
    outputs: list[Tensor]


def walk(spec: list[Any], path: str = "") -> list[tuple[str, list[Any]]]:
    """Names and specs as in `named_modules()`: depth first, each module once, under its first name."""
    found = [(path, spec)]
    if spec[0] == "chain":
        for name, child in spec[1].items():
            if child[0] != "same":
                found += walk(child, f"{path}.{name}" if path else name)
    return found


class Run:
    """Follows a spec by composing functions, and writes down each call of a leaf in order."""

    def __init__(
        self,
        spec: list[Any],
        evaluating: list[str],
        frozen: list[str] | None = None,
        replaced: dict[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> None:
        """Modules named in `evaluating` are in eval mode, and the parameters of those in `frozen` require no grad.

        `replaced` maps a module to what hooks of the caller make of each tensor that it returns.
        """
        self.spec, self.evaluating = spec, evaluating
        self.frozen, self.replaced = frozen or [], replaced or {}
        self.calls: list[Call] = []
        self._parameters: dict[str, list[Tensor]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """The output of the model, if it were a tensor; `calls` goes on from where it was."""
        return self._module(self.spec, "", x)

    def _module(self, spec: list[Any], path: str, h: Tensor) -> Tensor:
        replace = self.replaced.get(path, lambda out: out)
        if spec[0] == "chain":
            x = h
            for what, detail in spec[2]:
                h = x if what == "restart" else self._step(spec, path, what, detail, h)
            return replace(h)
        outputs = [replace(out) for out in self._leaf(spec, path, h)]
        self.calls.append(Call(path, spec[0], outputs))
        return outputs[0] + outputs[-1] if spec[0] == "several" else outputs[0]

    def _step(self, spec: list[Any], path: str, what: str, detail: Any, h: Tensor) -> Tensor:
        def part(h: Tensor) -> Tensor:
            child = spec[1][detail]
            name = child[1] if child[0] == "same" else detail
            return self._module(spec[1][name], f"{path}.{name}" if path else name, h)

        steps: dict[str, Callable[[], Tensor]] = {
            "call": lambda: part(h),
            "plus": lambda: h + part(h),
            "plus of detached": lambda: h + part(h.detach()),
            "plus detached": lambda: h + part(h).detach(),
            "plus without grad": lambda: h + self._cut(part, h),
            "aside": lambda: (part(h), h)[1],
            "hidden": lambda: torch.relu(h),
            "relu": lambda: torch.relu(h),
            "pool": lambda: pooled(h),
        }
        if what in steps:
            return steps[what]()
        return h + detail if what.startswith("add") else h * detail

    def _cut(self, part: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
        with torch.no_grad():
            return part(h)

    def _leaf(self, spec: list[Any], path: str, h: Tensor) -> list[Tensor]:
        kind, *details = spec
        if kind in ("relu", "own relu", "lookalike"):
            return [torch.relu(h)]
        if kind == "tanh":
            return [torch.tanh(h)]
        if kind == "identity":
            return [h]
        if kind == "several":
            return [2 * h, h / 2, 3 * h]
        if kind in ("modal", "last modal"):
            shift = along_channels(details[0], h) if kind == "modal" else details[0]
            return [h + shift if path in self.evaluating else h.clone()]
        own = self._parameters.setdefault(
            path, [value.clone().requires_grad_(path not in self.frozen) for value in details]
        )
        if kind == "token":
            return own
        if kind == "scale":
            return [along_channels(own[0], h) * h + along_channels(own[1], h)]
        return [torch.nn.functional.linear(h, *own)]


# Nets with one fault, or none, as data, with what is wrong and where it starts: what 13-diagnose draws.

SIZE = 8
"""How many inputs a batch has, and how many channels a layer."""
BOUND = 1e4
"""How many times larger or smaller a gradient explodes or vanishes."""
FAULTS = (
    "nan: hook", "nan: loop", "nan: the first",
    "hook: weight", "hook: bias", "hook: pre", "hook: forward", "hook: backward pre", "hook: backward",
    "mode: batchnorm", "mode: dropout", "mode: jump", "mode: block",
    "unused: plain", "unused: frozen, too", "frozen",
    "cut: detach", "cut: numbers", "cut: no_grad", "cut: plus detached", "cut: behind the first",
    "exploding: loop", "exploding: chain", "exploding: before the last", "exploding: the first",
    "dead: at both ends", "dead: in the last",
    "dead: until a step", "dead: weights after a step", "dead: biases after a step",
    "vanishing: loop", "vanishing: chain", "vanishing: saturated", "vanishing: to zero", "vanishing: in the last",
    "vanishing: the first",
    "healthy: hooks", "healthy: modes and parameters", "healthy: zeros", "healthy: loss",
)  # fmt: skip
STEEP = ("after a step", "until a step")
"""Where one large step makes a ReLU dead, or alive again."""
DEFINED_FIRST = ("hook: weight", "dead: weights after a step")
DEFINED_LAST = (
    "hook: bias",
    "mode: dropout",
    "unused: plain",
    "frozen",
    "dead: biases after a step",
    "dead: at both ends",
)
"""Where the module in question, or the one whose parameters decide, is the first of all, or the last: there a loop
that does not go to its end shows."""
DECOYS = (
    "watching hooks", "equal hooks", "frozen bias", "frozen weight", "no bias", "dropout", "idle modes", "by hand",
    "partly cut", "monitor", "dead channel", "zeros", "tiny loss", "never called", "large loss",
)  # fmt: skip
"""What looks like a fault and is none."""
TOGETHER = {
    "hooks": ("watching hooks", "equal hooks", "dropout"),
    "modes and parameters": (
        "idle modes", "dropout", "by hand", "frozen bias", "frozen weight", "no bias", "never called",
    ),
    "zeros": ("partly cut", "dead channel", "zeros", "tiny loss"),
    "loss": ("equal hooks", "dropout", "monitor", "large loss"),
}  # fmt: skip
"""What a healthy net has of it."""


HALF_FROZEN = {"detach": "bias", "no_grad": "weight"}
"""Which parameter of the layer that is cut off requires no grad: the other does, and so the layer is not frozen."""


Piece = tuple[dict[str, list[Any]], list[list[Any]], str | None]
"""Modules, the steps that use them, and the name of the module where the fault starts."""


class Draft:
    """Draws a net with one fault, or none: a stem, a block, a layer behind it, a head."""

    def __init__(self, rng: Rng, dtype: str, fault: str, inside: bool) -> None:
        """The fault sits `inside` of the block, where it can."""
        self.rng, self.dtype, self.inside = rng, getattr(torch, dtype), inside
        self.fault = fault
        self.label, _, self.way = fault.partition(": ")
        self.names = iter(rng.names(40))
        self.more: dict[str, list[Any]] = {"frozen": [], "evaluating": [], "hooks": []}
        self.decisive: str | None = None

    def linear(self, gain: float = 1.0, outputs: int = SIZE, bias: float | None = None) -> list[Any]:
        """A layer whose rows are orthogonal, so that it passes signals on, times `gain`."""
        rows, _ = torch.linalg.qr(self.rng.tensor(SIZE, SIZE, dtype=torch.float64))
        start = self.rng.tensor(outputs, low=-0.5, high=0.5, away=0.0, dtype=torch.float64)
        if bias is not None:
            start = torch.full_like(start, bias)
        return ["linear", (gain * rows[:outputs]).to(self.dtype), start.to(self.dtype)]

    def positive(self, bias: float | None = None) -> list[Any]:
        """A layer whose weights are all above 0."""
        kind, weight, start = self.linear(gain=0.1, bias=bias)
        return [kind, weight + 0.25, start]

    def net(self, decoy: str) -> dict[str, Any]:
        """The net with its fault and what looks like one."""
        rng = self.rng
        body, inner = next(self.names), next(self.names)
        stem, first, act, second, deep, tail, head, bent = (next(self.names) for _ in range(8))
        decoys = {decoy, *TOGETHER.get(self.way, ())}
        step = self.label == "dead" or "large loss" in decoys  # no other ReLU may die of a large step
        block = {first: self.linear(), act: ["tanh" if step else "relu"], second: self.linear()}
        block[inner] = ["block", {deep: self.linear(), bent: ["tanh"]}, [["call", deep], ["call", bent]]]
        block_program = [["call", name] for name in (first, act, inner, second)]
        if "dead channel" in decoys and not step:
            block[first][2][rng.integer(0, SIZE - 1)] = -40.0
        # With a loop at the end, the last call is one of the module that is called several times.
        last_in_a_loop = self.fault == "exploding: loop"
        top = {stem: self.linear(), tail: self.linear(), head: self.linear(outputs=SIZE if last_in_a_loop else 3)}
        front: list[list[Any]] = [["call", stem], ["tanh", None]]
        frozen = [f"{body}.{first}.bias", f"{body}.{second}.weight"]
        looks, steps = self.decoys(decoys, frozen, [body, f"{body}.{inner}.{bent}", stem])
        sound = [top | {body: ["block", dict(block), list(block_program)]}, [*front, ["call", body], ["call", tail],
                                                                           ["call", head]]]  # fmt: skip

        children, program, where = self.piece()
        inside = self.inside and self.label not in ("exploding", "vanishing") and not self.way.endswith(STEEP)
        if inside:
            block |= children
            block_program += program
            program, where = [], where and f"{body}.{where}"
        else:
            top |= children
        top |= looks
        top[body] = ["block", self.defined(block), block_program]
        back: list[list[Any]] = [["call", tail], ["call", head]]
        if self.way.endswith((*STEEP, "before the last")):
            back = [["call", head]]
            del top[tail]
            gain = 1e6 if self.label == "exploding" else 1.0
            top[head] = ["linear", gain * (top[head][1].abs() + 0.25), top[head][2]]
        elif "no bias" in decoys:
            top[tail][2] = None
        if self.way in ("in the last", "at both ends"):
            last, where = next(self.names), head
            top[last] = ["tiny"]
            if self.label == "dead":
                where, top[last], top[head] = last, ["relu"], self.linear(outputs=3, bias=-40.0)
            back.append(["call", last])
        if self.way == "at both ends":  # here the inputs are below 0
            where = next(self.names)
            top[where] = ["relu"]
            front.insert(0, ["call", where])
        if self.way == "behind the first":
            where = stem
            front.insert(1, ["detach", None])
        if self.way == "the first":
            where = stem
            if self.label == "nan":
                top[stem] = self.with_a_nan(top[stem])
            else:
                front.insert(1, ["grad times", 1e6 if self.label == "exploding" else 1e-6])
        if self.way == "numbers":
            where = head
            back.append(["numbers", None])
        if self.way == "loss":  # largest in the middle, smallest at the first, and not far from what comes to the last
            front.append(["grad times", 1 / 30000])
            back.insert(1, ["grad times", 300.0])
        early, late = ([], steps) if self.label == "cut" else (steps, [])
        middle, end = (back, program) if last_in_a_loop else (program, back)
        whole = [*front, *early, ["call", body], *middle, *late, *end]
        layers = {stem: top[stem], head: top[head], f"{body}.{first}": block[first], f"{body}.{second}": block[second]}
        linears = [*layers, f"{body}.{inner}.{deep}"]
        if self.label == "nan" and self.way == "hook":
            where = head  # the last call of all
            self.more["hooks"].append(["forward", where, float("nan")])
        if self.label == "cut" and self.way in HALF_FROZEN:
            self.more["frozen"].append(f"{where}.{HALF_FROZEN[self.way]}")
        if self.label == "frozen":
            where = rng.choice(list(layers))
            layers[where][2] = None
        if self.label == "frozen" or self.way == "frozen, too":
            names = ("weight",) if self.label == "frozen" else ("weight", "bias")
            self.more["frozen"] += [f"{where}.{name}" for name in names]
        # Behind the first, the mode does not matter: whoever notes only calls in training mode misses the layer.
        if self.label == "mode" or self.way == "behind the first":
            self.more["evaluating"].append(where)
        if self.label == "hook":
            choice = {"forward": [""], "backward": [body, head], "pre": linears[1:]}
            where = rng.choice(choice.get(self.way, linears))
            on_parameter = self.way in ("weight", "bias")
            kind, name = ("parameter", f"{where}.{self.way}") if on_parameter else (self.way, where)
            # With -1 the norm of the gradient stays; with 16 no other label fits, so that whoever overlooks a tiny
            # change calls it healthy. The first of all modules has a hook that only watches.
            factor = {"backward": -1.0, "backward pre": 16.0}.get(self.way, rng.choice((0.0, 0.125, 16.0)))
            self.more["hooks"] += [["forward", "", None], [kind, name, factor]]
        self.more["frozen"] = list(dict.fromkeys(self.more["frozen"]))
        spec = ["block", self.defined(top), whole]
        if where and self.fault in (*DEFINED_FIRST, *DEFINED_LAST):
            defined_at_one_end(spec, self.decisive or where, first=self.fault in DEFINED_FIRST)
        return {
            "spec": spec,
            "sound": ["block", *sound],
            **self.more,
            "sum": "large loss" in decoys,
            # A step of SGD with `lr` is large enough to kill a ReLU, and one with 1 is not.
            "times": self.times(decoys),
            "lr": 20.0 if self.way.endswith(STEEP) else 0.002,
            "label": self.label,
            "where": where,
            "head": head,
        }

    def times(self, decoys: set[str]) -> float:
        """What the loss is multiplied by."""
        if self.fault == "hook: backward pre":
            return 1e-12  # all gradients are tiny, and so is what the hook changes
        if "tiny loss" in decoys:
            return 1e-5
        return 1 / 32 if self.way.endswith("after a step") else 1.0

    def decoys(
        self, chosen: set[str], frozen: list[str], idle: list[str]
    ) -> tuple[dict[str, list[Any]], list[list[Any]]]:
        """The children and steps of what looks like a fault; notes what is frozen, in eval mode, or hooked."""
        children: dict[str, list[Any]] = {}
        steps: list[list[Any]] = []
        if "watching hooks" in chosen:
            self.more["hooks"] += [["backward", idle[0], None], ["forward", idle[2], None]]
            self.more["hooks"].append(["parameter", f"{idle[2]}.weight", None])
        if "equal hooks" in chosen:
            self.more["hooks"] += [["forward", idle[1], 1.0], ["parameter", f"{idle[2]}.weight", 1.0]]
        for name in frozen:
            if f"frozen {name.rpartition('.')[2]}" in chosen:
                self.more["frozen"].append(name)
        if "idle modes" in chosen:
            zero, around, drop = (next(self.names) for _ in range(3))
            children[zero] = ["dropout", 0.0]
            children[around] = ["block", {drop: ["dropout", 0.125]}, [["call", drop]]]  # the mode of `drop` matters
            steps += [["call", zero], ["call", around]]
            self.more["evaluating"] += [*idle, zero, around]
        if "dropout" in chosen:
            drop = next(self.names)
            children[drop] = ["dropout", 0.125]
            steps.append(["call", drop])
        for decoy, what in (("by hand", "by hand"), ("partly cut", "plus, also detached"), ("zeros", "plus")):
            if decoy in chosen:
                name = next(self.names)
                children[name] = ["zeros"] if decoy == "zeros" else self.linear()
                steps.append([what, name])
        if "monitor" in chosen:
            steps.append(["monitor", None])
        if "never called" in chosen:
            children |= {next(self.names): ["relu"], next(self.names): ["dropout", 0.5]}
        return children, self.rng.shuffled(steps)

    def piece(self) -> Piece:
        """What is wrong, as modules and steps; nothing if what is there already is made wrong, or nothing is."""
        makers: dict[str, Callable[[], Piece]] = {
            "nan": self.nan, "mode": self.mode, "unused": self.unused, "cut": self.cut, "dead": self.dead,
            "exploding": self.growing, "vanishing": self.growing,
        }  # fmt: skip
        ways = ("hook", "in the last", "at both ends", "the first", "behind the first", "numbers")
        there = self.label not in makers or self.way in ways
        return ({}, [], None) if there else makers[self.label]()

    def nan(self) -> Piece:
        """A layer whose output is too large to be finite when it is called for the fourth time."""
        before, it, behind = (next(self.names) for _ in range(3))
        # All is positive, so that infinite numbers of two signs do not make a NaN, which no tanh bounds.
        kind, weight, bias = self.positive(bias=0.0)
        children = {
            before: self.positive(),
            it: [kind, weight * (1e10 if self.dtype == torch.float32 else 1e90), bias],
            behind: ["tanh"],
        }
        # `before` is called before anything is infinite, and after.
        return children, [["call", before], ["loop", [it, 4]], ["call", before], ["call", behind]], it

    def with_a_nan(self, spec: list[Any]) -> list[Any]:
        """The same layer with an entry of its weight that is NaN."""
        kind, weight, bias = spec
        weight = weight.clone()
        weight[self.rng.integer(0, SIZE - 1), self.rng.integer(0, SIZE - 1)] = float("nan")
        return [kind, weight, bias]

    def mode(self) -> Piece:
        """A layer whose mode matters, and perhaps cuts off what is before it, or leaves out what is in it."""
        it, inside = next(self.names), next(self.names)
        mean = self.rng.tensor(SIZE, low=-6, high=-4, dtype=self.dtype)
        specs: dict[str, list[Any]] = {
            "batchnorm": ["batchnorm", mean],
            "dropout": ["dropout", 0.5],
            "jump": ["jump"],
            "block": ["block", {inside: self.linear()}, [["jump", inside]]],
        }
        steps = [["call", it]]
        if self.way == "dropout":
            steps.insert(0, ["plus of zeros", it])  # where its mode does not matter
        return {it: specs[self.way]}, steps, it

    def unused(self) -> Piece:
        """A layer that no step calls."""
        it = next(self.names)
        return {it: self.linear()}, [], it

    def cut(self) -> Piece:
        """A layer to which no gradient comes back; with "detach" it is called again, after another that gets none."""
        it, between = next(self.names), next(self.names)
        if self.way == "detach":
            calls = [["call", name] for name in (it, between, it)]
            return {it: self.linear(), between: self.linear()}, [*calls, ["detach", None]], it
        steps: dict[str, list[list[Any]]] = {
            "no_grad": [["no_grad", it]],
            "plus detached": [["plus detached", it]],
        }
        spec = self.linear()
        if self.way == "plus detached":
            spec[2] = None  # whoever looks for gradients comes upon a bias that is not there
        return {it: spec}, steps[self.way], it

    def dead(self) -> Piece:
        """A ReLU whose inputs are below 0 before or after one step of SGD."""
        if self.way == "biases after a step":
            children, program, start = self.on_the_brink(self.linear(gain=0.25, bias=1.0))
            self.more["frozen"].append(f"{self.decisive}.weight")
            return children, program, start
        if self.way == "weights after a step":
            kind, weight, _ = self.positive()
            return self.on_the_brink([kind, weight, None])
        layer = self.linear(gain=0.25, bias=-1.0)
        layer[2][self.rng.integer(0, SIZE - 1)] = 1.0
        children, program, start = self.on_the_brink(layer)
        _, before, _ = children
        return children, [*program, ["by hand", before]], start  # so that its biases get a gradient

    def on_the_brink(self, layer: list[Any]) -> Piece:
        """A ReLU after a layer whose inputs are small and positive, so that its parameters decide what is 0."""
        small, before, it = (next(self.names) for _ in range(3))
        self.decisive = before
        program = [["call", name] for name in (small, before, it)]
        return {small: ["sigmoid"], before: layer, it: ["relu"]}, program, it

    def growing(self) -> Piece:
        """Layers in a row, or one several times, each of which makes gradients larger or smaller by a factor."""
        rng, explodes = self.rng, self.label == "exploding"
        it, before, behind = (next(self.names) for _ in range(3))
        if self.way == "before the last":
            return self.on_the_brink(self.linear(gain=0.25, bias=1.0))  # the first step kills the ReLU
        if self.way == "to zero":
            return {it: self.linear(), behind: ["zeros"]}, [["call", it], ["call", behind]], it
        if self.way == "saturated":
            spec = self.linear(gain=0.1)
            spec[2][:] = rng.tensor(SIZE, low=6.5, high=7.5, dtype=self.dtype) * rng.choice((-1, 1))
            return {it: spec, behind: ["tanh"]}, [["call", it], ["call", behind]], it
        if self.way == "loop":
            gain = rng.uniform(8, 12) if explodes else rng.uniform(8, 12) / 200
            steps: list[list[Any]] = [["call", it]] if explodes else [["call", it], ["tanh", None]]
            cell = ["block", {it: self.linear(gain, bias=0.0)}, steps]
            return {before: cell}, [["loop", [before, 7]]], f"{before}.{it}"
        gain = float(rng.integer(30, 60)) if explodes else 1 / rng.integer(30, 60)
        names = [next(self.names) for _ in range(5)]
        ratios = [(3 / SIZE) ** 0.5 * gain ** (4 - index) for index in range(5)]
        where = [name for name, ratio in zip(names, ratios, strict=True) if max(ratio, 1 / ratio) > BOUND][-1]
        return {name: self.linear(gain, bias=0.0) for name in names}, [["call", name] for name in names], where

    def defined(self, children: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """The children, defined in some order."""
        return {name: children[name] for name in self.rng.shuffled(list(children))}


def defined_at_one_end(spec: list[Any], path: str, first: bool) -> None:
    """Make a module the first or the last that is defined, in each block on the way to it."""
    name, _, rest = path.partition(".")
    child, others = spec[1].pop(name), dict(spec[1])
    if rest:
        defined_at_one_end(child, rest, first)
    spec[1].clear()
    spec[1].update({name: child, **others} if first else {**others, name: child})
