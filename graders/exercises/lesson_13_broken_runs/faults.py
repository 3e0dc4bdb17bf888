"""The faults of 13-diagnose: models with one fault, and much that only looks like one.

They are written here as text, for an answer can read everything that is beside it in the box.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graders.exercises.authoring import Planted, Rng

LAYERS = ("stem", "first", "second", "it", "tail", "head", "by hand")
"""The linear layers. "it" is the broken part."""
INSIDE, AROUND = ("first", "act", "second", "it"), ("stem", "body", "tail", "head")
"""The parts in the order of the run, in the container "body" and around it."""
CUT = "lambda call, h, x: h.detach()"
EVAL = "{0}.training = False"


class Draft:
    """A sound model as text, to which a fault is added before it is written out."""

    def __init__(self, rng: Rng) -> None:
        """Draw the names of all parts, and which of the layers that the scene draws is which part."""
        others = ("body", "act", "drop", "look", "relu", "never", "more", "off")
        self.name = dict(zip((*LAYERS, *others), rng.names(len(LAYERS) + len(others))))
        layers = rng.shuffled(range(len(LAYERS)))
        self.made = {what: f"layer({which})" for what, which in zip(LAYERS, layers)}
        """How each part is made; the layers by their number."""
        self.made |= {"body": "body", "act": "nn.Tanh()", "look": "nn.Tanh()", "never": "nn.ReLU()"}
        self.inside, self.around = self._in_a_row(INSIDE), self._in_a_row(AROUND)
        """The steps of the container, and of the model."""
        self.defined = {"body": [*INSIDE[-1:], *INSIDE[:-1]], "model": [*AROUND[-1:], *AROUND[:-1]]}
        self.lines: list[str] = []

    def _in_a_row(self, parts: Sequence[str]) -> list[str]:
        return [repr(self.name[what]) for what in parts]

    def path(self, what: str) -> str:
        """A part in the text of the model."""
        if what in ("model", "body"):
            return what
        return f"{'body' if what in self.defined['body'] else 'model'}.{self.name[what]}"

    def say(self, line: str, *parts: str) -> None:
        """Add a line behind the making of the model; `{0}` in it is the first of these parts."""
        self.lines.append(line.format(*map(self.path, parts)))

    def insert_behind(self, what: str, *steps: str) -> None:
        """Insert steps right behind a part."""
        run = self.inside if what in self.defined["body"] else self.around
        at = run.index(repr(self.name[what])) + 1
        run[at:at] = steps

    def add(self, what: str, new: str, made: str) -> None:
        """Add a new part, called right behind the part `what`."""
        self.defined["body" if what in self.defined["body"] else "model"].append(new)
        self.made[new] = made
        self.insert_behind(what, repr(self.name[new]))

    def text(self) -> str:
        """A program that defines `make()`, which returns such a model."""

        def chain(where: str, steps: list[str]) -> str:
            parts = (f"{self.name[what]!r}: {self.made[what]}" for what in self.defined[where])
            return f"{where} = Chain({{{', '.join(parts)}}}, [{', '.join(steps)}])"

        lines = [chain("body", self.inside), chain("model", self.around), *self.lines, "return model"]
        return "\n    ".join(["def make():", *lines])


def shows_its_mode(net: Draft) -> None:
    """The broken part adds a buffer in eval mode, and copies its input in training mode."""
    shift = net.made["it"] + ".bias.detach()"
    net.made["it"] = "Fn(lambda module, input: input.clone() if module.training else input + module.shift)"
    net.say(f"{{0}}.register_buffer('shift', {shift})", "it")
    net.say(EVAL, "it")


def dropout_in_eval_mode(net: Draft) -> None:
    """A dropout that drops nothing."""
    net.add("second", "off", "nn.Dropout(0.5)")
    net.say(EVAL, "off")


def skip_broken_part(net: Draft) -> None:
    """Leave out the call of the broken part."""
    net.inside.remove(repr(net.name["it"]))


def freeze_unused_layer(net: Draft) -> None:
    """Define a frozen layer behind all others, and never call it."""
    net.made["never"] = f"{net.made['it']}.requires_grad_(False)"


def repeat_broken_part(net: Draft) -> None:
    """Call the broken part four times in a row; each call makes the gradients 300 times as large."""
    net.say("{0}.weight.data.mul_(300.0)", "it")
    net.insert_behind("it", *[repr(net.name["it"])] * 3)


def make_dead(net: Draft) -> None:
    """Make the broken part a ReLU that outputs only zeros, and add another such ReLU behind it."""
    net.made["it"] = "nn.ReLU()"
    net.say("{0}.bias.data.fill_(-100.0)", "second")
    net.add("it", "more", "nn.ReLU()")


def bias_decides(bias: float) -> Callable[[Draft], None]:
    """Make the broken part a ReLU whose output a bias decides, and all that comes behind it positive."""

    def change(net: Draft) -> None:
        net.made["it"] = "nn.ReLU()"
        for what in ("tail", "head"):
            net.say("{0}.weight.data.abs_().add_(0.25)", what)
        net.say("{0}.weight.requires_grad_(False).mul_(0.125)", "second")
        net.say(f"{{0}}.bias.data.fill_({bias})", "second")
        net.insert_behind("it", f"lambda call, h, x: h + {net.path('second')}.bias / 4")

    return change


def make_uneven(net: Draft) -> None:
    """Make the gradient largest in the middle, smallest at the first layer, and never far from the last one's."""
    for what, factor in (("stem", 1 / 30000), ("body", 300.0)):
        net.insert_behind(what, f"lambda call, h, x: h.detach() + {factor} * (h - h.detach())")


def says(line: str, *parts: str) -> Callable[[Draft], None]:
    """A fault of one line."""
    return lambda net: net.say(line, *parts)


def makes(what: str, how: str) -> Callable[[Draft], None]:
    """A fault of a part that is made in this way."""
    return lambda net: net.made.update({what: how})


FAULTS: dict[str, Callable[[Draft], None]] = {
    "nan": makes("it", "Fn(lambda module, input: (input - 1000).sqrt())"),
    "infinite": makes("it", "Fn(lambda module, input: input / 0)"),
    "nan in the last call": makes("look", "Fn(lambda module, input: (input - 1).sqrt())"),
    "a hook on a bias": says("{0}.bias.register_hook(lambda grad: 16 * grad)", "second"),
    "a hook on a weight": says("{0}.weight.register_hook(lambda grad: 16 * grad)", "second"),
    "a forward hook": says("{0}.register_forward_hook(lambda module, args, out: 16 * out)", "body"),
    "a backward hook": says("{0}.register_full_backward_hook(lambda module, grads, out: (-grads[0],))", "tail"),
    "a backward pre-hook": says("{0}.register_full_backward_pre_hook(lambda module, out: (-out[0],))", "tail"),
    "a pre-hook that cuts": says("{0}.register_forward_pre_hook(lambda module, args: (args[0].detach(),))", "it"),
    "mode": shows_its_mode,
    "a dropout in eval mode": dropout_in_eval_mode,
    "a container in eval mode": lambda net: net.insert_behind(
        "act", "lambda call, h, x: h if body.training else 2 * h"
    ),
    "unused": skip_broken_part,
    "unused and frozen": freeze_unused_layer,
    "frozen": says("{0}.requires_grad_(False)", "tail"),
    "cut": lambda net: net.insert_behind("it", CUT),
    "cut at the end": lambda net: net.insert_behind("head", CUT),
    "exploding in a loop": repeat_broken_part,
    "dead": make_dead,
    "dead after a step": bias_decides(1.0),
    "dead until a step": bias_decides(-1.0),
    "vanishing": says("{0}.weight.data.mul_(1e-6)", "it"),
    "vanishing at the start": says("{0}.weight.data.mul_(1e-6)", "first"),
}
"""The faults, by name: each is a function that changes a sound model."""
IN_FLOAT32 = ("a hook on a weight", "cut", "dead", "vanishing")
"""Only these faults are drawn in float32, because such draws are run three times to measure rounding."""


def disguise(net: Draft) -> None:
    """Add much that looks wrong but is not.

    There are modes, hooks and a bias without effect, a layer whose weight is used without a call, a ReLU that lets one
    input through and has one dead channel, parts that are never called, and zeros.
    """
    call = {what: f"call({net.name[what]!r}" for what in ("relu", "look")}
    mask = "torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4])"
    net.add("first", "drop", "nn.Dropout(0.125)")
    net.insert_behind("tail", f"lambda call, h, x: h + {call['relu']}, (h.abs() + 1) * {mask}) / 4")
    net.insert_behind("head", f"lambda call, h, x: ({call['look']}, 0 * h), h)[1]")
    net.made["relu"] = "nn.ReLU()"
    by_hand = []
    if CUT not in net.around:  # a cut model would give it no gradient
        by_hand, used = ["by hand"], f"model.{net.name['by hand']}"
        net.insert_behind("tail", f"lambda call, h, x: h + F.linear(h, {used}.weight, {used}.bias) / 4")
    net.defined["model"] += ["look", "relu", *by_hand, "never"]
    net.say(EVAL, "body")
    net.say("{0}.bias.requires_grad_(False)", "stem")
    net.say("{0}.register_forward_hook(lambda module, args, out: None)", "model")
    net.say("{0}.weight.register_hook(lambda grad: 1 * grad)", "first")


def model_with(rng: Rng, fault: Callable[[Draft], None]) -> str:
    """The text of a model with this fault."""
    net = Draft(rng)
    fault(net)
    disguise(net)
    return net.text()


def a_fault(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the scene of 13-diagnose reads."""
    fault = case["fault"]
    lr, factor, shift = 0.002, 1e-12 if fault == "a backward hook" else 1.0, 0.0
    if fault in ("dead after a step", "dead until a step"):  # for other faults, a step changes nothing
        lr, factor, shift = 320.0, 1 / 64, 10.0 if fault == "dead until a step" else -10.0
    sound = model_with(rng, make_uneven)
    return {"model": model_with(rng, FAULTS[fault]), "sound": sound, "lr": lr, "factor": factor, "shift": shift}


BROKEN = Planted(
    axes={"fault": tuple(FAULTS)},
    plant=a_fault,
    impossible=(lambda fault, dtype: dtype == "float32" and fault not in IN_FLOAT32,),
)
