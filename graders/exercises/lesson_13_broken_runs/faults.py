"""The models of 13-diagnose: each has one fault, or only looks as if it had one.

They are written here as text, for an answer can read everything that is beside it in the box.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graders.exercises.authoring import Planted, Rng
from graders.exercises.lesson_13_broken_runs.ways import nested

LINEAR = "nn.Linear(4, 4)"
HEAD = "h = self.head(h)"
RELU_BIAS = "h = self.it(h) + self.body[2].bias / 4"
NAMES = {
    "stem": ("stem", "entry", "first"),
    "body": ("body", "trunk", "blocks"),
    "it": ("part", "core", "middle"),
    "head": ("head", "top", "last"),
}
"""What each part may be called, so that no answer is the same each time."""


@dataclass
class Draft:
    """A sound model, which is changed before it is written out as text."""

    parts: dict[str, str] = field(
        default_factory=lambda: {
            "stem": LINEAR,
            "body": f"nn.Sequential({LINEAR}, nn.Tanh(), {LINEAR})",
            "it": LINEAR,
            "head": LINEAR,
        }
    )
    """How each is made. "it" is the part in which something may be wrong."""
    steps: list[str] = field(default_factory=lambda: ["h = self.stem(x)", "h = self.body(h)", "h = self.it(h)", HEAD])
    lines: list[str] = field(default_factory=list)
    """What is done to the model."""
    hooks: list[str] = field(default_factory=list)
    """What is done to each copy of it: the hooks of a parameter are not copied."""
    is_chain: bool = False
    """Whether the parts are called one after the other, as they are defined: this makes the shortest program."""

    def insert(self, behind: str, *steps: str) -> None:
        """Insert steps right behind the one that calls a part."""
        at = next(index for index, step in enumerate(self.steps) if f"self.{behind}(" in step) + 1
        self.steps[at:at] = steps

    def text(self, name: str, rng: Rng) -> str:
        """A program that defines a function of this name, which makes such a model."""
        net, start, body = ("Net", "start", "body") if name == "make" else ("Other", "other", "inner")
        layers = {part: body if part == "body" else made for part, made in self.parts.items()}
        write = self._chain if self.is_chain else self._class
        defined, made, names = write(net, start, layers, rng)
        lines = [
            "import copy",
            *defined,
            f"torch.manual_seed({rng.integer(0, 99)})",
            f"{body} = {self.parts['body']}",
            f"{start} = {made}.to(x.dtype)",
            *(line.replace("model", start) for line in self.lines),
        ]
        if self.hooks:
            copied = [f"model = copy.deepcopy({start})", *self.hooks, "return model"]
            lines += [f"def {name}():", *(f"    {line}" for line in copied)]
        else:
            lines.append(f"{name} = lambda: copy.deepcopy({start})")
        dotted = rf"\b(self|model|{start})\.({'|'.join(names)})\b"
        return re.sub(dotted, lambda found: f"{found[1]}{names[found[2]]}", "\n".join(lines))

    def _chain(self, net: str, start: str, layers: dict[str, str], rng: Rng) -> tuple[list[str], str, dict[str, str]]:
        """Layers one after the other, at other places each time."""
        before = ["nn.Tanh()"] * rng.integer(1, 2)  # at the first one no gradient arrives
        names = {part: f"[{index}]" for index, part in enumerate(layers, len(before))}
        return [], f"nn.Sequential({', '.join([*before, *layers.values()])})", names

    def _class(self, net: str, start: str, layers: dict[str, str], rng: Rng) -> tuple[list[str], str, dict[str, str]]:
        """Layers that are called by name, and defined in another order."""
        steps = [*self.steps, "return h"] if self.steps[-1] != HEAD else [*self.steps[:-1], "return self.head(h)"]
        names = {part: rng.choice(NAMES.get(part, (part,))) for part in layers}
        lines = [f"class {net}(nn.ModuleDict):", "    def forward(self, x):"]
        lines += [f"        {step}" for step in nested(steps)]
        ends = rng.shuffled(["stem", "body"])  # what is called last is defined neither first nor last
        order = [ends[0], *rng.shuffled([part for part in layers if part not in ends]), ends[1]]
        made = ", ".join(f"{names[part]!r}: {layers[part]}" for part in order)
        return lines, f"{net}({{{made}}})", {part: f".{name}" for part, name in names.items()}


Change = Callable[[Draft], None]


def says(*lines: str) -> Change:
    """What is done to the model."""
    return lambda net: net.lines.extend(lines)


def hooked(*lines: str) -> Change:
    """What is done to each copy of the model."""
    return lambda net: net.hooks.extend(lines)


def runs(behind: str, *steps: str) -> Change:
    """What else is computed, right behind a part."""
    return lambda net: net.insert(behind, *steps)


def in_wrong_mode(net: Draft) -> None:
    """A dropout that drops nothing."""
    net.parts["it"] = "nn.Dropout(0.5)"
    net.lines.append("model.it.eval()")


def norm_in_wrong_mode(net: Draft) -> None:
    """A norm with statistics that nothing has filled."""
    net.parts["it"] = "nn.BatchNorm1d(4)"
    net.lines.append("model.it.eval()")


def all_in_eval_mode(net: Draft) -> None:
    """A norm like that, in a model that is in eval mode as a whole."""
    net.parts["it"] = "nn.BatchNorm1d(4)"
    net.lines.append("model.eval()")


def leave_out(net: Draft) -> None:
    """A layer that is never called."""
    net.steps.remove("h = self.it(h)")


def leave_out_frozen(net: Draft) -> None:
    """A frozen layer that is never called."""
    leave_out(net)
    net.lines.append("model.it.requires_grad_(False)")


def call_again(net: Draft) -> None:
    """Four calls in a row, each of which makes the gradients 300 times as large."""
    net.lines.append("model.it.weight.data.copy_(300 * torch.eye(4))")
    net.insert("it", *["h = self.it(h)"] * 3)


def make_dead(net: Draft) -> None:
    """A ReLU with one channel that fires, behind one that always does, and before another one like it."""
    net.parts |= {"early": "nn.ReLU()", "it": "nn.ReLU()", "more": "nn.ReLU()"}
    net.lines.append("model.body[2].bias.data.copy_(torch.tensor([-100.0, 100.0, -100.0, -100.0]))")
    net.insert("stem", "h = h + self.early(h * h)")
    net.insert("it", "h = self.more(h)")


def bias_decides(bias: float) -> Change:
    """A ReLU whose output a bias decides, and all that comes behind it positive."""

    def change(net: Draft) -> None:
        net.parts["it"] = "nn.ReLU()"
        net.steps[net.steps.index("h = self.it(h)")] = RELU_BIAS
        net.lines.append("model.head.weight.data.abs_().add_(0.25)")
        net.lines.append("model.body[2].weight.requires_grad_(False).mul_(0.125)")
        net.lines.append(f"model.body[2].bias.data.fill_({bias})")

    return change


def make_uneven(net: Draft) -> None:
    """Make the gradient largest in the middle, smallest at the first layer, and never far from the last one's."""
    net.insert("stem", "h = h.detach() + (h - h.detach()) / 30000")
    net.insert("body", "h = h.detach() + 300 * (h - h.detach())")


def by_hand(net: Draft) -> None:
    """A layer whose weight is used without a call."""
    net.steps[net.steps.index("h = self.it(h)")] = "h = nn.functional.linear(h, self.it.weight, self.it.bias)"


def fires_at_times(net: Draft) -> None:
    """A ReLU that lets one input through and has one dead channel."""
    net.parts["it"] = "nn.ReLU()"
    net.steps[net.steps.index("h = self.it(h)")] = (
        "h = h + self.it((h.abs() + 1) * torch.tensor([[1, 1, 1, 0], [0] * 4, [0] * 4])) / 4"
    )


def silent_once(net: Draft) -> None:
    """A ReLU that is silent in one of two calls."""
    net.parts["it"] = "nn.ReLU()"
    net.steps[net.steps.index("h = self.it(h)")] = "h = h + self.it(h.abs() + 1) / 4 + self.it(-h.abs())"


def drops(net: Draft) -> None:
    """A dropout in training mode, with a hook that watches, in a container in eval mode; a part that is not called."""
    net.parts |= {"body": f"nn.Sequential({LINEAR}, nn.Dropout(0.125), {LINEAR})", "spare": "nn.ReLU()"}
    net.lines.append("model.body[1].register_forward_hook(lambda module, args, out: None)")
    net.lines.append("model.body.training = False")


def mode_outside(net: Draft) -> None:
    """A container in eval mode, which computes the same in any mode. What is behind it does not."""
    net.lines.append("model.body.training = False")
    net.insert("body", "h = h if self.body.training else 2 * h")


FAULTS: dict[str, Change] = {
    "nan": says("model.it.bias.data[0] = float('nan')"),
    "infinite": says("model.it.bias.data.fill_(float('inf'))"),
    "nan in the last call": says("model.head.bias.data[0] = float('nan')"),
    "a hook on a bias": hooked("model.body[2].bias.register_hook(lambda grad: 16 * grad)"),
    "a hook on a weight": hooked("model.body[2].weight.register_hook(lambda grad: 16 * grad)"),
    "a hook after accumulation": hooked(
        "model.it.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', p.grad / 16))"
    ),
    "a forward hook": says(
        "model.stem.register_forward_hook(lambda module, args, out: None)",
        "model.body.register_forward_hook(lambda module, args, out: 16 * out)",
    ),
    "a backward hook": says("model.it.register_full_backward_hook(lambda module, gi, go: (-gi[0],))"),
    "a backward pre-hook": says("model.it.register_full_backward_pre_hook(lambda module, go: (-go[0],))"),
    "a pre-hook that cuts": says("model.it.register_forward_pre_hook(lambda module, args: (args[0].detach(),))"),
    "a dropout in eval mode": in_wrong_mode,
    "a norm in eval mode": norm_in_wrong_mode,
    "a model in eval mode": all_in_eval_mode,
    "unused": leave_out,
    "unused and frozen": leave_out_frozen,
    "frozen": says("model.it.requires_grad_(False)"),
    "cut": runs("it", "h = h.detach()"),
    "cut at the end": runs("head", "h = h.detach()"),
    "exploding in a loop": call_again,
    "dead": make_dead,
    "dead after a step": bias_decides(1.0),
    "dead until a step": bias_decides(-1.0),
    "vanishing": says("model.it.weight.data.mul_(1e-6)"),
    "vanishing at the start": says("model.body[0].weight.data.mul_(1e-6)"),
}
"""The faults, by name: each is a function that changes a sound model."""
DISGUISES: dict[str, Change] = {
    "a bias is frozen": says("model.stem.bias.requires_grad_(False)"),
    "a hook watches": says("model.register_forward_hook(lambda module, args, out: None)"),
    "a hook on a weight watches": hooked("model.body[0].weight.register_hook(lambda grad: 1 * grad)"),
    "dropout": drops,
    "a mode that matters elsewhere": mode_outside,
    "a ReLU that fires at times": fires_at_times,
    "a ReLU that is silent once": silent_once,
    "by hand": by_hand,
    "uneven gradients": make_uneven,
}
"""What only looks wrong, by name."""
CHAINS = (
    *("infinite", "a hook on a bias", "a hook on a weight", "a hook after accumulation", "a forward hook"),
    *("a backward hook", "a backward pre-hook", "a pre-hook that cuts", "a dropout in eval mode"),
    *("a norm in eval mode", "a model in eval mode", "frozen", "vanishing at the start"),
    *("a bias is frozen", "a hook watches", "a hook on a weight watches"),
)
"""Those that any model may have, and that do not hang on the order in which the layers are defined."""
IN_FLOAT32 = ("a hook on a weight", "cut", "dead", "vanishing", "a bias is frozen")
"""Only these models are drawn in float32, because such draws are run three times to measure rounding."""
FOR_MORE = ("nan", "a hook on a bias", "a norm in eval mode", "cut", "dead", "dropout", "a hook watches", "by hand")
"""Only with these, all stories run: a diagnosis takes time."""


def model_with(rng: Rng, what: str, name: str) -> str:
    """The text of a function that makes models with this fault, or with what looks like one."""
    net = Draft(is_chain=what in CHAINS)
    {**FAULTS, **DISGUISES}[what](net)
    return net.text(name, rng)


def a_fault(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the stories of 13-diagnose read."""
    fault = case["fault"]
    lr, factor, shift = 0.002, 1e-12 if fault == "a backward hook" else 1.0, 0.0
    if fault in ("dead after a step", "dead until a step"):  # for other faults, a step changes nothing
        lr, factor, shift = 320.0, 1 / 64, 10.0 if fault == "dead until a step" else -10.0
    return {
        "model": model_with(rng, fault, "make"),
        "sound": model_with(rng, rng.choice(list(DISGUISES)), "sound"),
        "lr": lr,
        "factor": factor,
        "shift": shift,
    }


BROKEN = Planted(
    axes={"fault": (*FAULTS, *DISGUISES)},
    plant=a_fault,
    shown_after=2,
    impossible=(
        lambda fault, dtype: dtype == "float32" and fault not in IN_FLOAT32,
        lambda fault, stories: stories == "all" and fault not in FOR_MORE,
    ),
)
