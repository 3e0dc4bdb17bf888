"""Scenes for a class that makes a network from a body and a linear layer behind it, and guards its gradients.

The hooks have to be registered on the body's output, anew in every forward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy
from graders.scenes.around import AXES, NUMBERS, PASSES, second_gradient
from graders.scenes.given import Arguments
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.passes import compute_gradients, isolated_grads
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.worlds import register_hooks
from graders.wire.draws import Rng


def _body_and_layer(kind: str, dtype: torch.dtype) -> tuple[nn.Module, nn.Linear]:
    """A body and a linear layer that fits its output, which has the shape [B, 3, 2, 2] or [B, 4]."""
    if kind == "convolution":
        return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh()).to(dtype), nn.Linear(12, 2, dtype=dtype)
    return nn.Tanh(), nn.Linear(4, 3, dtype=dtype)


@family(
    sections=(
        "forward is fc after body",
        "the gradient at the output of body is clamped",
        "the bias gets zeros and the weight its gradient",
        "it works pass after pass",
        "it works with data that requires no grad",
        "it works with a frozen body",
        "the gradient can be differentiated again",
        "nothing else changes",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "body": ("convolution", "no parameters"),
        "batch": (1, 3),
        "mode": ("train", "eval"),
        "hooks": AXES["hooks"],
        "number": NUMBERS,
        "backward": PASSES,
    },
)
def guards_gradients(call: Call, rng: Rng, case: Any, seen: Sections, arguments: Arguments) -> None:
    """For a class `net = call(body, fc, lo, hi)`."""
    forward, clamped, bias, passes, data, frozen, graph, same = seen.values()
    shape = (2, 3, 3) if case.body == "convolution" else (4,)
    dtype = getattr(torch, case.dtype)
    body, fc = _body_and_layer(case.body, dtype)
    for p in (*body.parameters(), *fc.parameters()):  # small enough that tanh is not saturated
        p.data = rng.tensor(*p.shape, low=-0.75, high=0.75, away=0.125, dtype=dtype, values="full")
    first, second = (rng.tensor(n, *shape, low=-2, high=2, dtype=dtype) for n in (case.batch, 4 - case.batch))
    up, other_up = (rng.tensor(len(x), fc.out_features, dtype=dtype) for x in (first, second))
    first.requires_grad_(), second.requires_grad_()
    kept: list[tuple[Tensor, Tensor]] = []

    def keep(grad: Tensor) -> None:
        kept.append((grad, grad.clone()))

    register_hooks(fc.bias, keep)
    CallersHooks(case.hooks).on_module(body, "body").on_module(fc, "fc").on_parameter(fc.bias, "fc.bias")
    lo, hi = arguments(rng, case, first, [])

    before = Witness(body=body, fc=fc)
    net = call(body, fc, lo, hi)
    same["changed"] = [change for change in before.changes() if not change[0].endswith("left")]  # hooks may stay
    for name, child in (("body", body), ("fc", fc)):
        forward[f"net.{name} is the {name} that was given"] = dict(net.named_children()).get(name) is child
    net.train(case.mode == "train")
    named = {"x": first, "fc.weight": fc.weight, "fc.bias": fc.bias, **dict(body.named_parameters("body"))}

    def grads(loss: Callable[[], Tensor], way: str = "plain") -> dict[str, Tensor | None]:
        asked = {name: t for name, t in named.items() if t.requires_grad}
        with isolated_grads(list(named.values())):  # an aborted pass also fills `.grad`
            return dict(zip(asked, compute_gradients(loss, list(asked.values()), way)))

    def one_pass() -> Tensor:
        out: Tensor = net(first)
        return (out * up).sum()

    # After one pass, several forward passes before one backward pass: hooks must not pile up.
    for name, grad in grads(one_pass, case.backward).items():
        (bias if name.startswith("fc") else clamped)[f"{name}.grad of a pass"] = grad
    between = Witness(net=net, first=first)
    forward["what net(x) returns"] = detached_copy(net(first))
    passes["gradients of three passes"] = grads(lambda: one_pass() + (net(second) * other_up).sum() + one_pass())
    with torch.no_grad():
        inside = Witness()
        forward["what net(x) returns under no_grad"] = detached_copy(net(second))
        same["changed by a pass under no_grad"] = inside.changes()
    same["changed from pass to pass"] = [
        change for change in between.changes() if not change[0].startswith(("attribute", "grad"))
    ]
    for name in ("x", "fc.weight"):
        graph[f"{name}.grad differentiated"] = second_gradient(lambda: (net(first) * up).sum(), named[name], up)

    with fc.register_forward_pre_hook(
        lambda module, args: register_hooks(args[0], keep) if args[0].requires_grad else None
    ):
        data["gradients of a pass"] = grads(lambda: (net(first.detach()) * up).sum())
        grads(one_pass)
    same["a gradient that the caller kept was written into"] = any(not torch.equal(grad, then) for grad, then in kept)
    other = call(*_body_and_layer(case.body, dtype), lo - 0.25, hi + 0.25)
    other.load_state_dict(net.state_dict())
    passes["x.grad of two nets"] = compute_gradients(
        lambda: one_pass() + (other(second) * other_up).sum(), [first, second]
    )
    body.requires_grad_(False)
    frozen["gradients of a pass"] = grads(one_pass)
    frozen["gradients behind it"] = grads(lambda: (net(first.detach()) * up).sum())
