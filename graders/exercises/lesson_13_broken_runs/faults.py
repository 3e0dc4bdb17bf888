"""The faults of 13-diagnose: models with one fault, and much that only looks like one.

They are written here as text, for an answer can read everything that is beside it in the box.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graders.exercises.authoring import Planted, Rng

LINEAR = "nn.Linear(4, 4)"
HEAD = "h = self.head(h)"
RELU_BIAS = "h = self.it(h) + self.body[2].bias / 4"


def in_pairs(assigned: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Assignments, two in a line."""
    for at in range(0, len(assigned), 2):
        yield " = ".join(", ".join(side) for side in zip(*assigned[at : at + 2], strict=True))


def nested(steps: Iterable[str]) -> list[str]:
    """The steps, with two calls of parts that follow each other in a line."""
    lines: list[str] = []
    for step in steps:
        inner = re.fullmatch(r"h = (self\.\w+\(\w\))", lines[-1]) if lines else None
        outer = re.fullmatch(r"h = (self\.\w+)\(h\)", step)
        lines[-1:] = [f"h = {outer[1]}({inner[1]})"] if inner and outer else [*lines[-1:], step]
    return lines


@dataclass
class Draft:
    """A sound model, which is changed before it is written out as text."""

    parts: dict[str, str] = field(
        default_factory=lambda: {
            "stem": LINEAR,
            "body": f"nn.Sequential({LINEAR}, nn.Tanh(), {LINEAR})",
            "it": LINEAR,
            "tail": LINEAR,
            "head": LINEAR,
        }
    )
    """How each is made. "it" is the part in which something may be wrong."""
    steps: list[str] = field(
        default_factory=lambda: ["h = self.stem(x)", "h = self.body(h)", "h = self.it(h)", "h = self.tail(h)", HEAD]
    )
    lines: list[str] = field(default_factory=list)
    """What is done to the model."""

    def insert(self, behind: str, *steps: str) -> None:
        """Insert steps right behind the one that calls a part."""
        at = next(index for index, step in enumerate(self.steps) if f"self.{behind}(" in step) + 1
        self.steps[at:at] = steps

    def text(self, name: str, rng: Rng) -> str:
        """A program that defines a function of this name, which makes such a model; its layers in any order."""
        steps = [*self.steps, "return h"] if self.steps[-1] != HEAD else [*self.steps[:-1], "return self.head(h)"]
        net, state = ("Net", "state") if name == "make" else ("Other", "other_state")
        parts = in_pairs([(f"self.{part}", self.parts[part]) for part in rng.shuffled(list(self.parts))])
        return "\n".join(
            [
                f"class {net}(nn.Module):",
                *("    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in parts)),
                *("    def forward(self, x):", *(f"        {step}" for step in nested(steps))),
                f"torch.manual_seed({rng.integer(0, 99)})",
                f"{state} = {net}().state_dict()",
                f"def {name}():",
                f"    model = {net}()",
                f"    model.load_state_dict({state})",
                *(f"    {line}" for line in self.lines),
                "    return model.to(x.dtype)",
            ]
        )


Change = Callable[[Draft], None]


def says(*lines: str) -> Change:
    """What is done to the model."""
    return lambda net: net.lines.extend(lines)


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


def leave_out(net: Draft) -> None:
    """A layer that is never called."""
    net.steps.remove("h = self.it(h)")


def leave_out_frozen(net: Draft) -> None:
    """A frozen layer that is never called."""
    leave_out(net)
    net.lines.append("model.it.requires_grad_(False)")


def call_again(net: Draft) -> None:
    """Four calls in a row, each of which makes the gradients 300 times as large."""
    net.lines.append("model.it.weight.data = 300 * torch.eye(4)")
    net.insert("it", *["h = self.it(h)"] * 3)


def make_dead(net: Draft) -> None:
    """A ReLU with dead channels, all but one of them, between a sound one and another that is dead."""
    net.parts |= {"it": "nn.ReLU()", "more": "nn.ReLU()", "early": "nn.ReLU()"}
    net.lines.append("model.body[2].bias.data[1:] = -100.0")
    net.insert("stem", "h = h + self.early(h.abs() + 1) / 4")
    net.insert("it", "h = self.more(h)")


def bias_decides(bias: float) -> Change:
    """A ReLU whose output a bias decides, and all that comes behind it positive."""

    def change(net: Draft) -> None:
        net.parts["it"] = "nn.ReLU()"
        net.steps[net.steps.index("h = self.it(h)")] = RELU_BIAS
        net.lines += [f"model.{what}.weight.data.abs_().add_(0.25)" for what in ("tail", "head")]
        net.lines.append("model.body[2].weight.requires_grad_(False).mul_(0.125)")
        net.lines.append(f"model.body[2].bias.data.fill_({bias})")

    return change


def make_uneven(net: Draft) -> None:
    """Make the gradient largest in the middle, smallest at the first layer, and never far from the last one's."""
    net.insert("stem", "h = h.detach() + (h - h.detach()) / 30000")
    net.insert("body", "h = h.detach() + 300 * (h - h.detach())")


def by_hand(net: Draft) -> None:
    """A layer whose weight is used without a call."""
    net.parts["hand"] = LINEAR
    net.insert("tail", "h = h + nn.functional.linear(h, self.hand.weight, self.hand.bias) / 4")


def fires_at_times(net: Draft) -> None:
    """A ReLU that lets one input through and has one dead channel."""
    net.parts["relu"] = "nn.ReLU()"
    net.insert("tail", "h = h + self.relu((h.abs() + 1) * torch.tensor([[1, 1, 1, 0], [0] * 4, [0] * 4])) / 4")


def silent_once(net: Draft) -> None:
    """A ReLU that is silent in one of two calls."""
    net.parts["relu"] = "nn.ReLU()"
    net.insert("tail", "h = h + self.relu(h.abs() + 1) / 4 + self.relu(-h.abs())")


def drops(net: Draft) -> None:
    """A dropout in training mode, with a hook that watches, in a container in eval mode; a part that is not called."""
    net.parts |= {"body": f"nn.Sequential({LINEAR}, nn.Tanh(), {LINEAR}, nn.Dropout(0.125))", "spare": "nn.ReLU()"}
    net.lines.append("model.body[3].register_forward_hook(lambda module, args, out: None)")
    net.lines.append("model.body.training = False")


FAULTS: dict[str, Change] = {
    "nan": says("model.it.bias.data[0] = float('nan')"),
    "infinite": says("model.it.bias.data.fill_(float('inf'))"),
    "nan in the last call": says("model.head.bias.data[0] = float('nan')"),
    "a hook on a bias": says("model.body[2].bias.register_hook(lambda grad: 16 * grad)"),
    "a hook on a weight": says("model.body[2].weight.register_hook(lambda grad: 16 * grad)"),
    "a hook after accumulation": says(
        "model.it.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', p.grad / 16))"
    ),
    "a forward hook": says("model.body.register_forward_hook(lambda module, args, out: 16 * out)"),
    "a backward hook": says("model.tail.register_full_backward_hook(lambda module, gi, go: (-gi[0],))"),
    "a backward pre-hook": says("model.tail.register_full_backward_pre_hook(lambda module, go: (-go[0],))"),
    "a pre-hook that cuts": says("model.it.register_forward_pre_hook(lambda module, args: (args[0].detach(),))"),
    "a dropout in eval mode": in_wrong_mode,
    "a norm in eval mode": norm_in_wrong_mode,
    "a container in eval mode": lambda net: (
        says("model.body.training = False")(net),
        runs("body", "h = h if self.body.training else 2 * h")(net),
    )[0],
    "unused": leave_out,
    "unused and frozen": leave_out_frozen,
    "frozen": says("model.tail.requires_grad_(False)"),
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
    "hooks watch": says(
        "model.register_forward_hook(lambda module, args, out: None)",
        "model.body[0].weight.register_hook(lambda grad: 1 * grad)",
    ),
    "dropout": drops,
    "a ReLU that fires at times": fires_at_times,
    "a ReLU that is silent once": silent_once,
    "by hand": by_hand,
}
"""What only looks wrong, by name."""
IN_FLOAT32 = ("a hook on a weight", "cut", "dead", "vanishing")
"""Only these faults are drawn in float32, because such draws are run three times to measure rounding."""


def model_with(rng: Rng, fault: Change, disguise: str, name: str) -> str:
    """The text of a function that makes models with this fault."""
    net = Draft()
    fault(net)
    DISGUISES[disguise](net)
    return net.text(name, rng)


def a_fault(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the stories of 13-diagnose read."""
    fault = case["fault"]
    lr, factor, shift = 0.002, 1e-12 if fault == "a backward hook" else 1.0, 0.0
    if fault in ("dead after a step", "dead until a step"):  # for other faults, a step changes nothing
        lr, factor, shift = 320.0, 1 / 64, 10.0 if fault == "dead until a step" else -10.0
    return {
        "model": model_with(rng, FAULTS[fault], case["disguise"], "make"),
        "sound": model_with(rng, make_uneven, rng.choice(list(DISGUISES)), "sound"),
        "lr": lr,
        "factor": factor,
        "shift": shift,
    }


BROKEN = Planted(
    axes={"fault": tuple(FAULTS), "disguise": tuple(DISGUISES)},
    plant=a_fault,
    shown_after=2,
    impossible=(
        lambda fault, dtype: dtype == "float32" and fault not in IN_FLOAT32,
        lambda fault, disguise: fault == "cut at the end" and disguise == "by hand",  # it would get no gradient
    ),
)
