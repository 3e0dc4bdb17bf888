"""Exercise 03-guarded-net."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, close, exercise, expect, module_hooks, no_hook_left, snapshot

BODIES = {
    "conv": lambda: (nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh()), nn.Linear(12, 2)),
    "unflatten": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Unflatten(1, (3, 2))), nn.Linear(6, 2)),
    "flat": lambda: (nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Linear(5, 3)),
}
"""A body and the linear layer that fits its output: of shape [B, 3, 2, 2], [B, 3, 2] and [B, 5]."""


def build(kind: str, state: list[Tensor], dtype: torch.dtype = torch.float32) -> tuple[nn.Module, nn.Linear]:
    """A body and its linear layer, with the drawn parameters."""
    body, fc = BODIES[kind]()
    with torch.no_grad():
        for parameter, value in zip([*body.parameters(), *fc.parameters()], state):
            parameter.copy_(value)
    return body.to(dtype), fc.to(dtype)


@exercise(
    "03-guarded-net",
    name="GuardedNet",
    points=3,
    title="A network that guards its gradients",
    hints=(
        "A parameter lives as long as the module: register the hook on `fc.bias` once, in `__init__`.",
        "The output of `body` is a new tensor in every forward pass: register its hook in `forward`, and only "
        "`if h.requires_grad`.",
        "The hook on the bias returns `torch.zeros_like(grad)`, which has the right shape and dtype at any time.",
    ),
    cases=(
        {"kind": "conv", "dtype": torch.float32, "batch": 2, "late": False},
        {"kind": "flat", "dtype": torch.float64, "batch": 3, "late": False},
        {"kind": "unflatten", "dtype": torch.float64, "batch": 2, "late": True},
        {"kind": "conv", "dtype": torch.float32, "batch": 1, "late": False},
    ),
)
class TestGuardedNet:
    """Write a class `GuardedNet(nn.Module)` with `__init__(self, body, fc, lo, hi)` and `forward(self, x)`. `body`
    is a module whose output has the shape `[B, ...]`, where `B` is the batch size. `fc` is an `nn.Linear` with a bias
    that requires grad. `lo` and `hi` are numbers with `lo < hi`.

    - `body` and `fc` become child modules under these names.
    - `forward(x)` returns `fc(body(x).flatten(1))`.
    - The gradient that arrives at the output of `body` is clamped, element by element, to the range from `lo` to `hi`
      before it goes on into `body`.
    - The gradient of `fc.bias` is exactly zero: `fc.bias.grad` is a tensor of zeros, not `None`. The gradient of
      `fc.weight` is as usual.

    This holds for any batch size, in float32 and in float64 (also when `net.double()` is called later), and for any
    number of forward passes before or after a backward pass. `forward` also works under `torch.no_grad()`, and with a
    frozen body (none of its parameters requires grad). The number of hooks on the modules and their parameters does not
    grow from one forward pass to the next.

    **Example.** Take `body = nn.ReLU()`, an `fc` with the weight `[[5., 0.5]]`, `net = GuardedNet(body, fc, -1.0, 1.0)`
    and a leaf `x = tensor([[1., 2.]])`. The call `net(x).sum().backward()` leaves `x.grad == tensor([[1.0, 0.5]])`,
    `fc.weight.grad == tensor([[1., 2.]])` and `fc.bias.grad == tensor([0.])`.
    """

    def draw(rng, kind, dtype, batch, late):
        body, fc = BODIES[kind]()
        shape = (2, 3, 3) if kind == "conv" else (4,)
        # Small values: tanh is not saturated, and the bounds reach activations as well as gradients.
        parameters = [
            rng.tensor(*p.shape, low=-0.75, high=0.75, away=0.125) for p in (*body.parameters(), *fc.parameters())
        ]
        return {
            "kind": kind,
            "state": parameters,
            "inputs": [rng.tensor(batch, *shape, low=-2, high=2, dtype=dtype) for _ in range(2)],
            "ups": [rng.tensor(batch, fc.out_features, dtype=dtype) for _ in range(2)],
            "lo": -rng.uniform(0.25, 0.75),
            "hi": rng.uniform(0.25, 0.75),
            "late": late,
        }

    def alive(kind, state, inputs, ups, lo, hi):
        first, second = (up.float() @ state[-2] for up in ups)
        between = torch.cat([first, second]).clamp(lo, hi)
        regions = (first < lo, first > hi, (between > lo) & (between < hi))
        if lo + hi == 0 or any((up.sum(0).abs() < 0.1).any() for up in ups) or not all(r.any() for r in regions):
            return False
        true, raw = truth(kind, state, inputs[0], ups[0], lo, hi), truth(kind, state, inputs[0], ups[0])
        apart = (
            (true["x"], raw["x"]),
            (true["body"][0], raw["body"][0]),
            (raw["body"][0], raw["body"][0].clamp(lo, hi)),
            (true["out"], clamped_forward(kind, state, inputs[0], lo, hi)),
        )
        return not any(torch.allclose(first, second, atol=0.02) for first, second in apart)

    def probe(student, kind, state, inputs, ups, lo, hi, late):
        dtype = inputs[0].dtype
        body, fc = build(kind, state, torch.float32 if late else dtype)
        net = student.GuardedNet(body, fc, lo, hi)
        if late:
            net.double()
        children = dict(net.named_children())
        seen = {"children": [name for name, child in (("body", body), ("fc", fc)) if children.get(name) is child]}

        def grads():
            return {
                "body": [snapshot(p.grad) for p in body.parameters()],
                "weight": snapshot(fc.weight.grad),
                "bias": snapshot(fc.bias.grad),
            }

        first, second = inputs
        first.requires_grad_()
        out = net(first)
        seen |= {"out": snapshot(out)}
        (out * ups[0]).sum().backward()
        seen |= {"first": grads(), "x.grad": snapshot(first.grad)}
        hooks = module_hooks(net)
        net.eval()
        outs = [net(second), net(first)]
        ((outs[0] * ups[1]).sum() + (outs[1] * ups[0]).sum()).backward()
        net.train()
        seen |= {"later": grads(), "hooks_added": module_hooks(net) - hooks}
        with torch.no_grad():
            seen |= {"out under no_grad": snapshot(net(second))}
        body.requires_grad_(False)
        for parameter in (*body.parameters(), *fc.parameters()):
            parameter.grad = None
        out = net(second)
        (out * ups[1]).sum().backward()
        return {**seen, "out of a frozen body": snapshot(out), "frozen": grads()}

    mistakes = (
        Mistake(
            "hook-without-grad",
            raises="doesn't require gradient",
            message="Under `no_grad`, or with a frozen body, the activation does not require grad, and then it takes "
            "no hook. Guard the registration in `forward` with `if h.requires_grad:`.",
        ),
        Mistake(
            "changed-dtype",
            raises="has changed the type of value",
            message="Your hook returned a tensor of another dtype than the gradient. Build it from the gradient inside "
            "the hook, with `torch.zeros_like(grad)`: `torch.zeros(shape)` is float32 in every model.",
        ),
        Mistake(
            "flattened-the-batch",
            raises=("shapes cannot be multiplied", "size mismatch"),
            message="The input of `fc` has the wrong shape: it needs one row for each sample. `view(-1)` and "
            "`flatten()` merge the samples of the batch; `flatten(1)` keeps them apart.",
        ),
        Mistake(
            "clamped-the-activation",
            lambda seen, kind, state, inputs, lo, hi: close(
                seen["out"], clamped_forward(kind, state, inputs[0], lo, hi)
            ),
            "You clamped the activation itself, so the output of the network changed. Clamp the gradient: a hook on "
            "the activation receives it.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, kind, state, inputs, ups: (
                close(seen["out"], truth(kind, state, inputs[0], ups[0])["out"])
                and (
                    close(seen["first"]["body"], truth(kind, state, inputs[0], ups[0])["body"])
                    or close(seen["first"]["bias"], ups[0].sum(0))
                )
            ),
            "The gradient at the output of `body`, or that of `fc.bias`, came through unchanged. Each of the two needs "
            "a hook, and a hook changes a gradient only by returning the new one.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, kind, state, inputs, ups, lo, hi: close(
                seen["first"]["body"],
                [gradient.clamp(lo, hi) for gradient in truth(kind, state, inputs[0], ups[0])["body"]],
            ),
            "You clamped the gradients of the parameters of `body`. The task is about the gradient of its output, "
            "before it goes on into `body`: hook the activation.",
        ),
        Mistake(
            "bias-without-grad",
            lambda seen: seen["first"]["bias"].value is None,
            "`fc.bias.grad` is `None`. The bias has to stay a parameter that requires grad; let a hook replace its "
            "gradient by zeros.",
        ),
        Mistake(
            "hook-in-forward",
            lambda seen, ups: (
                seen["hooks_added"].value > 0 and close(seen["first"]["bias"], torch.zeros_like(ups[0][0]))
            ),
            "Every forward pass adds a hook to something that lives on, such as `fc.bias`, and they pile up. Register "
            "such a hook once, in `__init__`. Only the activation is new in every pass.",
        ),
    )

    def test_the_gradient_at_the_output_of_body_is_clamped(seen, kind, state, inputs, ups, lo, hi):
        true = truth(kind, state, inputs[0], ups[0], lo, hi)
        expect(seen["x.grad"]).close_to(true["x"])
        expect(seen["first"]["body"]).has_length(len(true["body"]), "gradients")
        for entry, gradient in zip(seen["first"]["body"], true["body"]):
            expect(entry).close_to(gradient)

    def test_forward_is_fc_after_body(seen, kind, state, inputs, ups):
        first, second = (truth(kind, state, x, up)["out"] for x, up in zip(inputs, ups))
        expect(seen["out"]).close_to(first)
        expect(seen["out under no_grad"]).close_to(second)
        expect(seen["out of a frozen body"]).close_to(second)
        expect(seen["children"]).equals(["body", "fc"])

    def test_the_bias_gets_zeros_and_the_weight_its_gradient(seen, kind, state, inputs, ups):
        first, second = (truth(kind, state, x, up)["weight"] for x, up in zip(inputs, ups))
        for when, gradient in (("first", first), ("later", first + second + first)):
            expect(seen[when]["weight"]).close_to(gradient, atol=1e-4)
            expect(seen[when]["bias"]).close_to(torch.zeros_like(ups[0][0]), rtol=0, atol=0)

    def test_it_works_pass_after_pass(seen, kind, state, inputs, ups, lo, hi):
        first, second = (truth(kind, state, x, up, lo, hi)["body"] for x, up in zip(inputs, ups))
        expect(seen["later"]["body"]).has_length(len(first), "gradients")
        for entry, one, two in zip(seen["later"]["body"], first, second):
            expect(entry).close_to(2 * one + two, atol=1e-4)
        no_hook_left(seen["hooks_added"])

    def test_it_works_with_a_frozen_body(seen, kind, state, inputs, ups):
        expect(seen["frozen"]["weight"]).close_to(truth(kind, state, inputs[1], ups[1])["weight"])
        expect(seen["frozen"]["bias"]).close_to(torch.zeros_like(ups[1][0]), rtol=0, atol=0)


def truth(kind: str, state: list[Tensor], x: Tensor, up: Tensor,
          lo: float = -torch.inf, hi: float = torch.inf) -> dict[str, Tensor | list[Tensor]]:  # fmt: skip
    """One pass of `(fc(body(x).flatten(1)) * up).sum()`: the gradient at the output of body in closed form, clamped,
    and taken through body by `torch.autograd.grad`. Without `lo` and `hi` nothing is clamped.
    """
    body, fc = build(kind, state, x.dtype)
    x = x.detach().clone().requires_grad_()
    h = body(x)
    arriving = (up @ fc.weight.detach()).reshape(h.shape)
    *parameters, into_x = torch.autograd.grad(h, [*body.parameters(), x], arriving.clamp(lo, hi))
    features = h.detach().flatten(1)
    return {
        "out": features @ fc.weight.detach().T + fc.bias.detach(),
        "body": parameters,
        "x": into_x,
        "weight": up.T @ features,
    }


def clamped_forward(kind: str, state: list[Tensor], x: Tensor, lo: float, hi: float) -> Tensor:
    """The output when the activation is clamped instead of its gradient."""
    body, fc = build(kind, state, x.dtype)
    with torch.no_grad():
        return fc(body(x).clamp(lo, hi).flatten(1))
