"""The scene of 13-diagnose: models that a function of the caller makes, with one thing wrong and much that looks so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.failures import Failure
from graders.box.tensors import prepared
from graders.box.witness import Witness
from graders.scenes.broken_models import SIZE, Broken, Step, a_broken_model, detached, even_linear
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


class Patient:
    """A broken model in the making."""

    def __init__(self, net: Broken) -> None:
        """Its parts are asked for by what they are, as in `Broken`; "before it" is what runs before the broken one."""
        self.net = net

    def part(self, what: str) -> Any:
        """A module."""
        if what == "before it":
            chain, name = self._place("it")
            return chain.get_submodule(chain.steps[chain.steps.index(name) - 1])
        return self.net.model.get_submodule(self.net.names[what])

    def behind(self, what: str, *steps: Step | nn.Module, name: str = "") -> None:
        """Put steps right behind a part; a module becomes a part of the same container."""
        chain, own = self._place(what)
        for index, step in enumerate(steps):
            if isinstance(step, nn.Module):
                chain.add_module(f"{name}{index}", step)
        new = [f"{name}{index}" if isinstance(step, nn.Module) else step for index, step in enumerate(steps)]
        at = chain.steps.index(own) + 1
        chain.steps = (*chain.steps[:at], *new, *chain.steps[at:])

    def by_mode(self, call: Any, h: Tensor, x: Tensor) -> Tensor:
        """A step that looks at the mode of the container."""
        return h if self.part("body").training else 2 * h

    def often(self, factor: float) -> None:
        """The broken part runs four times in a row, and gradients are `factor` times as large before each."""
        self.part("it").weight.data.mul_(factor)
        self.behind("it", *[self._place("it")[1]] * 3)

    def on_the_brink(self, bias: float) -> None:
        """A bias decides what the broken part, a ReLU, puts out; and what lies behind it is positive."""
        for what in ("tail", "head"):
            self.part(what).weight.data.abs_().add_(0.25)
        layer = self.part("before it")
        layer.weight.requires_grad_(False).mul_(0.125)
        layer.bias.data.fill_(bias)
        self.behind("it", lambda call, h, x: h + layer.bias / 4)

    def make_uneven(self) -> None:
        """The largest gradient is in the middle, and the smallest at the first layer; neither far from the last one."""
        for what, factor in (("stem", 1 / 30000), ("body", 300.0)):
            self.behind(what, lambda call, h, x, factor=factor: h.detach() + factor * (h - h.detach()))

    def _place(self, what: str) -> tuple[Any, str]:
        container, _, name = self.net.names[what].rpartition(".")
        return self.net.model.get_submodule(container), name


def in_eval_mode(module: nn.Module) -> nn.Module:
    """It alone, and not what is in it."""
    module.training = False
    return module


FAULTS: dict[str, tuple[str, Callable[[Patient], Any]]] = {
    "nothing": ("nothing", Patient.make_uneven),
    "nan": ("nan", id),
    "infinite": ("nan", lambda p: setattr(p.part("it"), "function", lambda module, input: input / 0)),
    "a hook on a weight": ("nothing", lambda p: p.part("second").weight.register_hook(lambda grad: 16 * grad)),
    "a forward hook": ("nothing", lambda p: p.part("body").register_forward_hook(lambda m, args, out: 16 * out)),
    "a backward hook": (
        "nothing",
        lambda p: p.part("tail").register_full_backward_hook(lambda m, grads, out: (-grads[0],)),
    ),
    "a pre-hook that cuts": (
        "nothing",
        lambda p: p.part("it").register_forward_pre_hook(lambda m, args: (args[0].detach(),)),
    ),
    "mode": ("mode", id),
    "a dropout in eval mode": ("nothing", lambda p: p.behind("second", in_eval_mode(nn.Dropout(0.5)), name="drop")),
    "a container in eval mode": ("nothing", lambda p: p.behind("act", p.by_mode)),
    "unused": ("unused", id),
    "unused and frozen": ("unused", lambda p: p.part("it").requires_grad_(False)),
    "frozen": ("frozen", id),
    "cut": ("cut", id),
    "cut at the end": ("nothing", lambda p: p.behind("head", detached)),
    "exploding in a loop": ("nothing", lambda p: p.often(300.0)),
    "dead": ("dead", id),
    "dead after a step": ("dead", lambda p: p.on_the_brink(1.0)),
    "dead until a step": ("dead", lambda p: p.on_the_brink(-1.0)),
    "vanishing": ("vanishing", id),
}
"""By what is wrong: the broken model, and what is done to it."""
SMALL = 2e-5
"""A step of this size changes no label, also where gradients are 300 times as large."""
ASKED_AGAIN = ("a forward hook", "cut", "dead")
"""Where there are more calls: each takes as long as the first."""


def made(rng: Rng, case: Any, fault: str) -> nn.Module:
    """A model. What looks wrong in it and is not: modes, hooks, and a bias that do nothing; a layer that is used by
    hand; a ReLU that lets one input through, and of which one channel is dead; parts that are never called; zeros.
    """
    kind, change = FAULTS[fault]
    patient = Patient(a_broken_model(rng, case, kind))
    used, (behind_first, look, relu, never) = even_linear(rng, case.dtype), rng.names(4)
    first_alone = torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4], dtype=used.weight.dtype)
    change(patient)
    patient.behind("first", nn.Dropout(0.125), in_eval_mode(nn.Dropout(0.0)), name=behind_first)
    patient.behind("tail", lambda call, h, x: h + call(relu, (h.abs() + 1) * first_alone) / 4)
    patient.behind("head", lambda call, h, x: (call(look, 0 * h), h)[1])
    model = patient.net.model
    parts: dict[str, nn.Module] = {look: nn.Tanh(), relu: nn.ReLU(), f"{never}0": nn.ReLU()}
    if fault != "cut at the end":  # it would get no gradient
        patient.behind("tail", lambda call, h, x: h + F.linear(h, used.weight, used.bias) / 4)
        parts[f"{never}1"] = used
    for name, part in parts.items():
        model.add_module(name, part)
    in_eval_mode(patient.part("body"))
    patient.part("stem").bias.requires_grad_(False)
    model.register_forward_hook(lambda module, args, out: None)
    patient.part("head").register_full_backward_hook(lambda module, grads, out: None)
    patient.part("first").weight.register_hook(lambda grad: 1 * grad)
    return model


@family(
    sections=(
        "the label and the module are found",
        "each call begins anew",
        "nothing of the caller changes",
        "it holds when the loss raises",
    ),
    axes={
        "fault": tuple(FAULTS)[1:],
        "dtype": ("float32", "float64"),
        "inside": (True, False),
        "x_is": ("data", "leaves"),
        "call": ("once", "again"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
    impossible=(lambda fault, call: call == "again" and fault not in ASKED_AGAIN,),
)
def diagnoses(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(make, x, y, loss_fn, lr)`."""
    found, anew, same, failing = seen.values()
    steep = {"dead after a step": -10.0, "dead until a step": 10.0}.get(case.fault)
    x, y = (rng.tensor(3, SIZE, low=-2, high=2, dtype=case.dtype, values="full") for _ in range(2))
    if steep is not None:
        y = y + steep
    if case.x_is == "leaves":
        x, y = prepared(x, grad="filled"), prepared(y, grad="filled")
    lr = SMALL if steep is None else 5.0
    of_the_model = copy.deepcopy(rng)

    def maker(fault: str) -> Callable[[], nn.Module]:
        return lambda: made(copy.deepcopy(of_the_model), case, fault)

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        return (output - y).square().mean() * (1e-12 if case.fault == "a backward hook" else 1)

    before, random = Witness(x=x, y=y), torch.get_rng_state()
    found["the result"] = call(maker(case.fault), x, y, loss_fn, lr)
    same["changed"] = before.changes()
    same["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
    if case.call == "again":
        torch.rand(3)
        anew["the result for a sound model"] = call(maker("nothing"), x, y, loss_fn, SMALL)
        anew["the result again"] = call(maker(case.fault), x, y, loss_fn, lr)

    failure, random = Failure(case.failure), torch.get_rng_state()

    def broken_loss(output: Tensor, y: Tensor) -> Tensor:
        failure.strike()
        return loss_fn(output, y)

    failing["the exception"] = failure.during(lambda: call(maker(case.fault), x, y, broken_loss, lr))
    failing["changed after an exception"] = before.changes()
    failing["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
