"""The scene of 13-diagnose: a function of the caller makes models with one fault, and much that only looks like one."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.failures import Failure
from graders.box.tensors import prepare_tensor
from graders.box.witness import Witness
from graders.scenes.chains import SIZE, CallPart, Chain, Step, cut_gradient, even_linear, shows_its_mode
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn, linear
from graders.wire.draws import Rng

PARTS = ("stem", "body", "first", "act", "second", "it", "tail", "head")
"""The parts in the order of the run. "body" is a container of the next four; "it" is the broken part."""


def make_chain(parts: dict[str, nn.Module]) -> Chain:
    """A chain that calls these parts in this order, and defines them in another one."""
    *names, last = parts
    return Chain({name: parts[name] for name in (last, *names)}, [*names, last])


class FaultyModel:
    """A sound model to which a fault is added before it is made."""

    def __init__(self, names: Mapping[str, str], drawn: Mapping[str, nn.Linear]) -> None:
        """Copy the layers `drawn`. `names` maps the roles of the parts to their names in the model."""
        parts: dict[str, nn.Module] = {what: linear(layer.weight, layer.bias) for what, layer in drawn.items()}
        parts["act"] = nn.Tanh()
        parts["body"] = make_chain({names[what]: parts[what] for what in PARTS[2:6]})
        self.model = make_chain({names[what]: parts[what] for what in (*PARTS[:2], *PARTS[6:])})
        self.names, self.body = names, cast(Chain, parts["body"])
        self.last_called: nn.Module = nn.Tanh()
        """What it returns is not used."""
        self.last_defined: nn.Module = nn.ReLU()
        """It is never called."""

    def __getitem__(self, what: str) -> Any:
        return getattr(self._container_of(what), self.names[what])

    def __setitem__(self, what: str, module: nn.Module) -> None:
        setattr(self._container_of(what), self.names[what], module)

    def insert_behind(self, what: str, *steps: Step) -> None:
        """Insert steps right behind a part."""
        holder = self._container_of(what)
        at = holder.steps.index(self.names[what]) + 1
        holder.steps = (*holder.steps[:at], *steps, *holder.steps[at:])

    def add(self, what: str, name: str, module: nn.Module) -> None:
        """Add a new part, called right behind the part `what`."""
        self._container_of(what).add_module(name, module)
        self.insert_behind(what, name)

    def double_in_eval_mode(self, call: CallPart, h: Tensor, x: Tensor) -> Tensor:
        """A step that doubles its input if the container is in eval mode."""
        return h if self.body.training else 2 * h

    def skip_broken_part(self) -> None:
        """Leave out the call of the broken part."""
        self.body.steps = tuple(step for step in self.body.steps if step != self.names["it"])

    def add_frozen_unused_layer(self) -> None:
        """Define a frozen layer behind all others, and never call it."""
        self.last_defined = linear(self["it"].weight, self["it"].bias).requires_grad_(False)

    def repeat_broken_part(self, factor: float) -> None:
        """Call the broken part four times in a row; each call multiplies the gradients by `factor`."""
        self["it"].weight.data.mul_(factor)
        self.insert_behind("it", *[self.names["it"]] * 3)

    def make_dead(self) -> None:
        """Make the broken part a ReLU that outputs only zeros, and add another such ReLU behind it."""
        self["it"] = nn.ReLU()
        self["second"].bias.data.fill_(-100.0)
        self.add("it", "late", nn.ReLU())

    def make_bias_decide(self, bias: float) -> None:
        """Make the broken part a ReLU whose output a bias decides, and all that comes behind it positive."""
        self["it"], layer = nn.ReLU(), self["second"]
        for what in ("tail", "head"):
            self[what].weight.data.abs_().add_(0.25)
        layer.weight.requires_grad_(False).mul_(0.125)
        layer.bias.data.fill_(bias)
        self.insert_behind("it", lambda call, h, x: h + layer.bias / 4)

    def make_uneven(self) -> None:
        """Make the gradient largest in the middle, smallest at the first layer, and never far from the last one's."""
        self.insert_behind("stem", with_gradient_times(1 / 30000))
        self.insert_behind("body", with_gradient_times(300.0))

    def _container_of(self, what: str) -> Any:
        return self.body if what in PARTS[2:6] else self.model


def with_gradient_times(factor: float) -> Step:
    """A step that multiplies gradients by `factor`, and changes no values."""
    return lambda call, h, x: h.detach() + factor * (h - h.detach())


def in_eval_mode(module: nn.Module) -> nn.Module:
    """Put the module itself in eval mode, but not its submodules; returns it."""
    module.training = False
    return module


FAULTS: dict[str, Callable[[FaultyModel], Any]] = {
    "nan": lambda net: net.__setitem__("it", Fn(lambda module, input: (input - 1000).sqrt())),
    "infinite": lambda net: net.__setitem__("it", Fn(lambda module, input: input / 0)),
    "nan in the last call": lambda net: setattr(net, "last_called", Fn(lambda module, input: (input - 1).sqrt())),
    "a hook on a bias": lambda net: net["second"].bias.register_hook(lambda grad: 16 * grad),
    "a hook on a weight": lambda net: net["second"].weight.register_hook(lambda grad: 16 * grad),
    "a forward hook": lambda net: net["body"].register_forward_hook(lambda module, args, out: 16 * out),
    "a backward hook": lambda net: net["tail"].register_full_backward_hook(lambda module, grads, out: (-grads[0],)),
    "a backward pre-hook": lambda net: net["tail"].register_full_backward_pre_hook(lambda module, out: (-out[0],)),
    "a pre-hook that cuts": lambda net: net["it"].register_forward_pre_hook(lambda module, args: (args[0].detach(),)),
    "mode": lambda net: net.__setitem__("it", in_eval_mode(shows_its_mode(net["it"].bias.detach()))),
    "a dropout in eval mode": lambda net: net.add("second", "off", in_eval_mode(nn.Dropout(0.5))),
    "a container in eval mode": lambda net: net.insert_behind("act", net.double_in_eval_mode),
    "unused": FaultyModel.skip_broken_part,
    "unused and frozen": FaultyModel.add_frozen_unused_layer,
    "frozen": lambda net: net["tail"].requires_grad_(False),
    "cut": lambda net: net.insert_behind("it", cut_gradient),
    "cut at the end": lambda net: net.insert_behind("head", cut_gradient),
    "exploding in a loop": lambda net: net.repeat_broken_part(300.0),
    "dead": FaultyModel.make_dead,
    "dead after a step": lambda net: net.make_bias_decide(1.0),
    "dead until a step": lambda net: net.make_bias_decide(-1.0),
    "vanishing": lambda net: net["it"].weight.data.mul_(1e-6),
    "vanishing at the start": lambda net: net["first"].weight.data.mul_(1e-6),
}
"""The faults, by name: each is a function that changes a sound model."""
IN_FLOAT32 = ("a hook on a weight", "cut", "dead", "vanishing")
"""Only these faults are drawn in float32, because such draws are run three times to measure rounding."""


def make_model(
    names: Mapping[str, str], drawn: Mapping[str, nn.Linear], fault: Callable[[FaultyModel], Any]
) -> nn.Module:
    """A model with this fault, and with much that looks wrong but is not.

    There are modes, hooks and a bias without effect, a layer whose weight is used without a call, a ReLU that lets one
    input through and has one dead channel, parts that are never called, and zeros.
    """
    net = FaultyModel(names, drawn)
    fault(net)
    used = linear(drawn["used"].weight, drawn["used"].bias)
    first_alone = torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4], dtype=used.weight.dtype)
    net.add("first", "drop", nn.Dropout(0.125))
    net.insert_behind("tail", lambda call, h, x: h + call("relu", (h.abs() + 1) * first_alone) / 4)
    net.insert_behind("head", lambda call, h, x: (call("look", 0 * h), h)[1])
    parts: dict[str, nn.Module] = {"look": net.last_called, "relu": nn.ReLU()}
    if cut_gradient not in net.model.steps:  # a cut model would give it no gradient
        net.insert_behind("tail", lambda call, h, x: h + F.linear(h, used.weight, used.bias) / 4)
        parts["by hand"] = used
    parts["never"] = net.last_defined
    for name, part in parts.items():
        net.model.add_module(name, part)
    in_eval_mode(net.body)
    net["stem"].bias.requires_grad_(False)
    net.model.register_forward_hook(lambda module, args, out: None)
    net["first"].weight.register_hook(lambda grad: 1 * grad)
    return net.model


@family(
    sections=(
        "the label and the module are found",
        "each call begins anew",
        "nothing of the caller changes",
        "it holds when the loss raises",
    ),
    axes={
        "fault": tuple(FAULTS),
        "dtype": ("float32", "float64"),
        "x_is": ("data", "leaves"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
    impossible=(lambda fault, dtype: dtype == "float32" and fault not in IN_FLOAT32,),
)
def diagnoses_models(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(make, x, y, loss_fn, lr)`."""
    found, anew, same, failing = seen.values()
    x, y = (rng.tensor(3, SIZE, low=-2, high=2, dtype=case.dtype, values="full") for _ in range(2))
    lr, factor = 0.002, 1e-12 if case.fault == "a backward hook" else 1.0
    if case.fault in ("dead after a step", "dead until a step"):  # for other faults, a step changes nothing
        y = y + (10.0 if "until" in case.fault else -10.0)
        lr, factor = 320.0, 1 / 64
    if case.x_is == "leaves":
        x, y = prepare_tensor(x, grad="filled"), prepare_tensor(y, grad="filled")
    names = dict(zip(PARTS, rng.names(len(PARTS))))
    drawn = {what: even_linear(rng, case.dtype) for what in ("stem", "first", "second", "it", "tail", "head", "used")}

    def make() -> nn.Module:
        return make_model(names, drawn, FAULTS[case.fault])

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        return (output - y).square().mean() * factor

    before, random = Witness(x=x, y=y), torch.get_rng_state()
    found["the result"] = call(make, x, y, loss_fn, lr)
    same["changed"] = before.changes()
    same["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
    if case.fault == "cut":  # only here, because each call takes time
        torch.rand(3)
        anew["the result for a sound model"] = call(
            lambda: make_model(names, drawn, FaultyModel.make_uneven),
            x,
            y,
            lambda output, y: 1e-6 * loss_fn(output, y),
            lr,
        )
        anew["the result again"] = call(make, x, y, loss_fn, lr)

    failure, random = Failure(case.failure), torch.get_rng_state()

    def broken_loss(output: Tensor, y: Tensor) -> Tensor:
        failure.raise_if_due()
        return loss_fn(output, y)

    failing["the exception"] = failure.outcome_during(lambda: call(make, x, y, broken_loss, lr))
    failing["changed after an exception"] = before.changes()
    failing["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
