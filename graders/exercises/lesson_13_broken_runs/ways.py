"""What is planted in the models of 13-why-no-gradient and 13-changed-by-hooks: what a layer adds, and hooks on it.

It is written here as text, for an answer can read everything that is beside it in the box.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graders.exercises.authoring import Planted, Rng

LAYERS = ("first", "second[0]", "third")
"""The layers of a model, which it calls in any order. One of them is in a list."""
WAYS = {
    "plain": "h + self.it(h)",
    "tiny": "h + TINY * self.it(h)",
    "sum of 0": "h + self.it(h)[:, :1] - self.it(h)[:, 1:2]",
    "through forward()": "h + self.it.forward(h)",
    "by mode": "h + self.it(h) if self.training else 2 * h",
    "detach": "h + self.it(h).detach()",
    "no_grad": "h + torch.no_grad()(lambda: self.it(h))()",
    "cut by a hook": "h + self.it(h)",
    "forward, detached": "h + self.it.forward(h).detach()",
    "times 0": "h + 0 * self.it(h)",
    "times 0, through forward()": "h + 0 * self.it.forward(h)",
    "dead": "h + torch.relu(self.it(h) - 99)",
    "zero by a hook": "h + self.it(h)",
    "frozen": "h + self.it(h)",
    "frozen bias": "h + self.it(h)",
    "frozen, never called": "2 * h",
    "never called": "2 * h",
    "weight of one that is cut": "2 * h",
    "whole model cut": "(h + self.it(h)).detach()",
    "whole model frozen": "h + self.it(h)",
    "cut before": "h.detach() + self.it(h.detach())",
}
"""What the layer `it` makes of `h`, by the name of its fault; the first five have none."""
ALSO = {
    "cut by a hook": "model.it.register_forward_hook(lambda module, args, out: out.detach())",
    "zero by a hook": "for p in model.it.parameters():\n    p.register_hook(lambda grad: 0 * grad)",
    "frozen": "model.it.requires_grad_(False)",
    "frozen bias": "model.it.bias.requires_grad_(False)",
    "frozen, never called": "model.it.requires_grad_(False)",
    "weight of one that is cut": "model.it.weight = model.second[0].weight",
    "whole model frozen": "model.requires_grad_(False)",
}
"""What else is done to the model."""
WITH_MORE = ("tiny", "by mode", "detach", "dead", "whole model cut", "whole model frozen", "cut before")
"""In these models a norm comes first, and the model has a parameter of its own."""
OTHER = """
other = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
other[1].bias.requires_grad_(False)
"""


def nested(steps: Iterable[str]) -> list[str]:
    """The steps, with calls of parts that follow each other in one line."""
    lines: list[str] = []
    for step in steps:
        inner = re.fullmatch(r"h = (self\..*\))", lines[-1]) if lines else None
        outer = re.fullmatch(r"(h =|return) (self\.\w+)\(h\)", step)
        lines[-1:] = [f"{outer[1]} {outer[2]}({inner[1]})"] if inner and outer else [*lines[-1:], step]
    return lines


def text_of_net(parts: Mapping[str, str], body: Sequence[str], lines: Sequence[str], seed: int) -> str:
    """The text of a model: how its parts are made, its forward pass, and what is done to it.

    Where the parts are called one after the other, they are in an `nn.Sequential`: this makes the shortest program.
    """
    made, defined = f"Net({{{', '.join(f'{name!r}: {part}' for name, part in parts.items())}}})", list[str]()
    calls = [f"h = self.{name}(h)" for name in parts]
    if [*body[:-1], body[-1].replace("return", "h =")] == [calls[0].replace("(h)", "(x)"), *calls[1:]]:
        made = f"nn.Sequential({', '.join(parts.values())})"
        for index, name in enumerate(parts):
            lines = [line.replace(f"model.{name}", f"model[{index}]") for line in lines]
    else:
        steps = [f"        {step}" for step in nested(body)]
        defined = ["class Net(nn.ModuleDict):", "    def forward(self, x):", *steps]
    return "\n".join([*defined, f"torch.manual_seed({seed})", f"model = {made}", *lines])


def program(run: Sequence[str], lines: Sequence[str], seed: int) -> str:
    """The text of a model that computes `run`, one after the other, and of what is done to it."""
    parts = {"first": "nn.Linear(3, 3)", "second": "nn.ModuleList([nn.Linear(3, 3)])", "third": "nn.Linear(3, 3)"}
    if any("self.norm" in step for step in run):
        parts = {"norm": "nn.BatchNorm1d(3)", **parts}
    if any("self.gain" in step for step in run):
        lines = ["model.gain = nn.Parameter(torch.ones(3))", *lines]
    return text_of_net(parts, [*(f"h = {step}" for step in run[:-1]), f"return {run[-1]}"], lines, seed)


def ways_without_gradient(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model with a fault and one more, and of a model with a frozen bias."""
    way = case["way"]
    alone = (way, "weight of one that is cut", "whole model cut", "whole model frozen")  # would hide the other one
    also = rng.choice([one for one in WAYS if one not in alone])
    places = rng.shuffled(LAYERS)
    if way == "weight of one that is cut":  # it comes first among the names, and is called by none
        also, places = "detach", list(LAYERS)
    if way in ("detach", "no_grad"):
        places = ["second[0]", "first", "third"]
    where = {way: places[0], also: places[1]}
    order = [also, way] if way == "whole model cut" else rng.shuffled([also, way])
    tiny = "1e-200" if case["dtype"] == "float64" else "1e-30"  # its square is 0
    steps = [WAYS[one].replace(".it", f".{where[one]}").replace("TINY", tiny) for one in order]
    start = f"torch.tanh(self.{places[2]}(x))"
    if way in WITH_MORE:
        gain = "self.gain.detach()" if way in ("detach", "tiny") else "self.gain"
        start = f"{gain} * torch.tanh(self.{places[2]}(self.norm(x)))"
    text = program(
        [start, *steps],
        # The fault comes last: on what it freezes no hook can be registered any more.
        [ALSO[one].replace(".it", f".{where[one]}") for one in reversed(where) if one in ALSO],
        rng.integer(0, 99),
    )
    return {"model": text, "other": OTHER}


WITHOUT = Planted(axes={"way": tuple(WAYS)}, plant=ways_without_gradient)

HOOKED = {
    "a weight": "model.it.weight.register_hook(lambda grad: K * grad)",
    "turned": "model.it.weight.register_hook(lambda grad: grad.flip(0))",
    "a small gradient": "model.it.bias.register_hook(lambda grad: K * grad)",
    "accumulated": "model.it.bias.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', -p.grad))",
    "dropped": "model.it.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))",
    "pre": "model.it.register_forward_pre_hook(lambda module, args: (K * args[0],))",
    "a forward hook": "model.it.register_forward_hook(lambda module, args, out: K * out)",
    "detaching": "model.it.register_forward_hook(lambda module, args, out: out.detach())",
    "joining": "model.norm.register_forward_hook(lambda module, args, out: out + model.it(out))",
    "zeros": "model.it.register_forward_hook(lambda module, args, out: out.detach())",
    "backward pre": "model.it.register_full_backward_pre_hook(lambda module, go: (K * go[0],))",
    "a backward hook": "model.it.register_full_backward_hook(lambda module, gi, go: (K * gi[0],))",
    "last digits": "model.it.weight.register_hook(lambda g: g * (1 + 4 * torch.finfo(g.dtype).eps))",
    "by mode": "model.it.bias.register_hook(lambda grad: K * grad)",
    "nothing": "model.it.register_forward_pre_hook(lambda module, args: None)",
    "the model's input": "model.register_forward_pre_hook(lambda module, args: (args[0].roll(1, 1),))",
    "the model's output": "model.register_forward_hook(lambda module, args, out: out.detach())",
}
"""How a hook is registered on the layer `it`, by the kind of hook. K is a factor."""
ADDED = {
    "joining": "1 + h",  # only its hook uses the layer
    "nothing": "h + self.norm.num_batches_tracked * self.it(torch.ones_like(h))",  # a buffer that the pass changes
    "a small gradient": "h + 1e-20 * self.it(torch.ones_like(h))",
    "zeros": "h + 0 * self.it(h)",
    "by mode": "h + (self.it(h) if self.training else self.it(h).detach())",
    "a backward hook": "h + self.it(h)",
}
"""What the layer makes of `h`, where it does not add what it makes of a constant: then its hook concerns no other."""


OF_ONE_LAYER = ("a weight", "turned", "a small gradient", "accumulated", "dropped", "last digits", "nothing")
"""Hooks that change no gradient of another layer."""
HOOKED_WITH_MORE = ("turned", "accumulated", "a forward hook", "backward pre", "by mode", "the model's input")
"""In these models, too, a norm comes first, and the model has a parameter of its own."""


def hooks_on_layers(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model with hooks on two of its layers, and of another one with a hook."""
    others = [kind for kind in HOOKED if kind not in (case["hook"], "the model's output")]  # which hides all others
    if case["hook"] in ("backward pre", "last digits", "nothing"):  # others would hide what these show
        others = [kind for kind in others if kind in OF_ONE_LAYER]
    layers, kinds = rng.shuffled(LAYERS), [case["hook"], rng.choice(others)]
    steps, lines = [], []
    for kind, layer in zip(kinds, layers):
        steps.append(ADDED.get(kind, "h + self.it(torch.ones_like(h))").replace(".it", f".{layer}"))
        lines.append(HOOKED[kind].replace(".it", f".{layer}").replace("K", rng.choice(("-1.5", "2", "3"))))
    start = f"torch.tanh(self.{layers[-1]}(x))"
    if {"joining", "nothing"} & {*kinds} or case["hook"] in HOOKED_WITH_MORE:
        start = f"self.gain * torch.tanh(self.{layers[-1]}(self.norm(x)))"
    text = program(
        [start, *rng.shuffled(steps)],
        rng.shuffled(lines),
        rng.integer(0, 99),
    )
    return {"model": text, "other": HOOKED_OTHER}


HOOKED_OTHER = """
other = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
other[1].bias.register_hook(lambda grad: 2 * grad)
"""
CHANGED = Planted(axes={"hook": tuple(HOOKED)}, plant=hooks_on_layers)
