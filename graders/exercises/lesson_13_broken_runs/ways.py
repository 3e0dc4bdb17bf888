"""What is planted in the models of 13-why-no-gradient and 13-changed-by-hooks: what a layer adds, and hooks on it.

It is written here as text, for an answer can read everything that is beside it in the box.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from graders.exercises.authoring import Planted, Rng

CALLED = "torch.sin(layer(h))"
WAYS = {
    "plain": CALLED,
    "tiny": "1e-30 * layer(h)",
    "forward": "torch.sin(layer.forward(h))",
    "by mode": f"({CALLED} if layer.training else 0.0)",
    "detach": f"{CALLED}.detach()",
    "no_grad": f"torch.no_grad()(lambda: {CALLED})()",
    "cut by a hook": CALLED,
    "forward, detached": "torch.sin(layer.forward(h)).detach()",
    "times 0": "0 * layer(h)",
    "dead": f"torch.relu({CALLED} - 2)",
    "zero by a hook": CALLED,
    "frozen": CALLED,
    "frozen bias": CALLED,
    "frozen, never called": "0.0",
    "never called": "0.0",
}
"""What a layer adds to the stream, by the name of its fault; the first four have none."""
STREAMS = {
    "whole": [],
    "cut": ["model.changes['middle'] = torch.Tensor.detach"],
    "no graph": ["model.changes['end'] = torch.Tensor.detach"],
    "frozen": ["model.requires_grad_(False)"],
}
"""What is done to the model: "cut" keeps the gradient from the first half of the steps, "no graph" from everything."""


def program(steps: Sequence[str], definition: str, lines: Sequence[str]) -> str:
    """The text of the steps of a stream, and of a function. What each step adds does not affect the other layers."""
    run = ", ".join(f"lambda layer, h: h + {step}" for step in steps)
    return f"steps = [{run}]\n\n" + "\n    ".join([f"def {definition}:", *lines])


def ways_without_gradient(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model, and two of its layers, for the caller's hooks.

    Two layers that are never called share a weight with one that is.
    """
    others = [way for way in WAYS if way not in ("never called", "detach")]
    ways = ["never called", *rng.shuffled(others), "never called", "detach"]
    layer = {way: f"layers[{number}]" for number, way in enumerate(ways)}
    lines = [
        f"{layer['detach']}.weight, {layer['never called']}.weight = layers[0].weight, {layer['no_grad']}.weight",
        *(f"{layer[way]}.requires_grad_(False)" for way in ("frozen", "frozen, never called")),
        f"{layer['frozen bias']}.bias.requires_grad_(False)",
        f"{layer['cut by a hook']}.register_forward_hook(lambda module, args, output: output.detach())",
        *(f"{layer['zero by a hook']}.{name}.register_hook(lambda grad: 0 * grad)" for name in ("weight", "bias")),
    ]
    text = program([WAYS[way] for way in ways], "change(model, layers)", [*lines, *STREAMS[case["stream"]]])
    return {"model": text, "hooked": (ways.index("plain"), ways.index("times 0"))}


WITHOUT = Planted(axes={"stream": tuple(STREAMS)}, plant=ways_without_gradient)

HOOKS = {
    "a weight": "{0}[0].weight.register_hook(lambda grad: k * grad)",
    "a small gradient": "{0}[1].bias.register_hook(lambda grad: k * grad)",
    "accumulated": "{0}[1].bias.register_post_accumulate_grad_hook(negate)",
    "dropped": "{0}[1].weight.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))",
    "pre": "{0}[1].register_forward_pre_hook(lambda module, args: (k * args[0],))",
    "forward": "{0}[1].register_forward_hook(lambda module, args, out: k * out)",
    "detaching": "{0}[0].register_forward_hook(lambda module, args, out: out.detach())",
    "joining": "{0}[0].register_forward_hook(lambda module, args, out: out + {0}[1](out))",
    "zeros": "{0}[0].register_forward_hook(lambda module, args, out: out.detach())",
    "backward pre": "{0}[1].register_full_backward_pre_hook(lambda module, grads: (k * grads[0],))",
    "backward": "{0}[1].register_full_backward_hook(lambda module, grads, out: (k * grads[0],))",
    "last digits": "{0}[0].weight.register_hook(lambda g: g * (1 + 4 * torch.finfo(g.dtype).eps))",
    "by mode": "{0}[0].bias.register_hook(lambda grad: k * grad)",
    "nothing": "{0}.register_forward_pre_hook(lambda module, args: None)",
}
"""How a hook is registered on a block of two linear layers, by the kind of hook."""
ADDED = {
    "joining": "layer[0](torch.ones_like(h))",  # only its hook uses the other layer
    "a small gradient": "layer(torch.ones_like(h)) * 1e-12",
    "zeros": "layer(torch.ones_like(h)) * 0.0",
    "by mode": "(layer if layer.training else lambda ones: layer(ones).detach())(torch.ones_like(h))",
}
"""What a block adds to the stream, where it is not what it makes of a constant."""


def hooks_on_blocks(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model, and the block that has a hook without effect. The last block has one that changes much."""
    last = rng.choice(("pre", "forward", "backward pre", "backward"))
    kinds = [kind for kind in rng.shuffled(list(HOOKS)) if kind != last] + [last]
    steps = [ADDED.get(kind, "layer(torch.ones_like(h))") for kind in kinds]
    hooks = ", ".join(HOOKS[kind].format(f"blocks[{kinds.index(kind)}]") for kind in rng.shuffled(list(HOOKS)))
    text = program(steps, "register(blocks, k, negate)", [f"return [{hooks}]"])
    return {"model": text, "watched": kinds.index("nothing")}


CHANGED = Planted(axes={}, plant=hooks_on_blocks)
