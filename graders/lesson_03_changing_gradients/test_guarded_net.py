"""Exercise 03-guarded-net."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    beyond_float32,
    came_through,
    changes,
    close,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    gradients,
    in_mode,
    nothing_changed,
    own_grads,
    prepared,
    refuse,
    snapshot,
)
from graders.lesson_03_changing_gradients.judging import ONE_BOUND, differentiated_as

OLD = 0.75
"""What a filled `.grad` holds; float32 holds it, too, so that `double()` does not change it."""


class Mode(nn.Module):
    """A layer that shows its mode: 3/4 of its input in training."""

    def forward(self, x: Tensor) -> Tensor:
        """A new tensor."""
        return x * (0.75 if self.training else 1.0)


class Turned(nn.Module):
    """Exchanges channels and columns: its output does not lie in memory as a new tensor does."""

    def forward(self, x: Tensor) -> Tensor:
        """A view of `x`."""
        return x.transpose(1, -1)


BODIES = {
    "convolution": lambda: (nn.Sequential(nn.Conv2d(2, 3, 2), Mode(), nn.Tanh(), Turned()), nn.Linear(12, 2)),
    "norm": lambda: (
        nn.Sequential(nn.Linear(4, 6), Mode(), nn.Unflatten(1, (3, 2)), nn.LayerNorm((3, 2))),
        nn.Linear(6, 2),
    ),
    "linear": lambda: (nn.Sequential(nn.Linear(4, 5), Mode(), nn.Tanh()), nn.Linear(5, 3)),
    "activation": lambda: (nn.Sequential(Mode(), nn.Tanh()), nn.Linear(4, 3)),
}
"""A body and the linear layer that fits its output: of shape [B, 2, 2, 3], [B, 3, 2], [B, 5] and [B, 4]."""


def build(layers: str, mode: str, state: list[Tensor], dtype: torch.dtype) -> tuple[nn.Module, nn.Linear]:
    """A body and its linear layer, with the drawn parameters."""
    body, fc = BODIES[layers]()
    return filled(in_mode(body, mode).to(dtype), fc.to(dtype), state)


def filled(body: nn.Module, fc: nn.Linear, state: list[Tensor]) -> tuple[nn.Module, nn.Linear]:
    """The same two, with the drawn parameters."""
    with torch.no_grad():
        for parameter, value in zip([*body.parameters(), *fc.parameters()], state):
            parameter.copy_(value)
    return body, fc


@exercise(
    "03-guarded-net",
    name="GuardedNet",
    points=3,
    minutes=40,
    difficulty=3,
    title="A network that guards its gradients",
    hints=(
        "A parameter lives as long as the module: register the hook on `fc.bias` once, in `__init__`.",
        "The output of `body` is a new tensor in every forward pass: register its hook in `forward`, and only "
        "`if h.requires_grad`.",
        "The hook on the bias returns `torch.zeros_like(grad)`, which has the right shape and dtype at any time.",
    ),
    why=(
        "A parameter stays the same tensor, so one hook in `__init__` is enough; the output of `body` is new in "
        "each forward pass and needs a new one, which goes when its graph goes. A full backward pre-hook on `body` "
        "would do as well: it is registered once and clamps `grad_output`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "grad": ALL, "values": ALL, "mode": ALL,
            "frozen": ALL, "passing": ALL, "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL,
            "backward": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the input has the shape that its body asks for; the outputs of the bodies have 2 to 4 dimensions",
            "place": "the input is a leaf, or requires no grad",
            "number": "the two numbers are bounds, an axis of their own",
            "collection": "there is no collection",
            "tied": "`fc.bias` belongs to `fc` alone",
            "named": "no module is named",
            "output": "the body returns a tensor",
            "follower": "behind the body comes `flatten(1)`",
            "registered": "the contract says what becomes a child",
        },
        own={
            "batch": (1, 3),
            "bounds": ("around 0", "from 0", "up to 0", "below 0", "above 0"),
            "doubled": ("at first", "later"),
        },
        pairs=[("hooks", "hooked")],
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda layers, frozen: layers == "activation" and frozen == "part",
            lambda dtype, doubled: dtype == "float32" and doubled == "later",
        ],
    ),
)  # fmt: skip
class TestGuardedNet:
    """Write a class `GuardedNet(nn.Module)` with `__init__(self, body, fc, lo, hi)` and `forward(self, x)`. `body` is a
    module that returns a new tensor of shape `[batch, ...]` with two or more dimensions. `fc` is an `nn.Linear` with a
    bias that requires grad. `lo` and `hi` are numbers with `lo < hi`.

    - `body` and `fc` become child modules under these names.
    - `forward(x)` returns `fc(body(x).flatten(1))`; it calls both modules once, so that their hooks run.
    - The gradient that arrives at the output of `body` is clamped, element by element, to the range from `lo` to `hi`
      before it goes on into `body`.
    - The gradient of `fc.bias` is exactly zero: a pass adds nothing to `fc.bias.grad`, and where this was `None`, it is
      a tensor of zeros afterwards. That of `fc.weight` is as usual.

    No gradient is infinite or NaN, and your hooks write into none.

    This holds for any batch size from 1 on, in training and in evaluation mode, after `net.double()`, and for any
    number of forward passes before or after a backward pass. Parameters of `body` may be frozen (`requires_grad` is
    `False`), some or all; the others, and `x` if it requires grad, still get their gradient, through the clamp.
    `forward` also works under `torch.no_grad()`, and when neither `body` nor `x` requires grad. Your hooks may stay for
    good, also where `body` and `fc` are used without the net, but their number does not grow from one forward pass to
    the next.

    **Example.** Take `body = nn.ReLU()`, an `fc` with the weight `[[5., 0.5]]`, `net = GuardedNet(body, fc, -1.0, 1.0)`
    and a leaf `x = tensor([[1., 2.]])`. The call `net(x).sum().backward()` leaves `x.grad == tensor([[1.0, 0.5]])`,
    `fc.weight.grad == tensor([[1., 2.]])` and `fc.bias.grad == tensor([0.])`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, layers, values, bounds, batch):
        body, fc = BODIES[layers]()
        shape = (2, 3, 3) if layers == "convolution" else (4,)
        # Small values: tanh is not saturated, and the bounds reach activations as well as gradients.
        small = {"low": -0.75, "high": 0.75, "away": 0.125, "values": values}
        # The bounds are numbers that float32 does not hold, so that a detour through float32 shows.
        near, far = beyond_float32(rng.uniform(0.25, 0.5)), beyond_float32(rng.uniform(0.75, 1.25))
        lo, hi = {"around 0": rng.choice(((-near, far), (-far, near))), "from 0": (0, far), "up to 0": (-far, 0),
                  "below 0": (-far, -near), "above 0": (near, far)}[bounds]  # fmt: skip
        return {
            "state": [rng.tensor(*p.shape, **small) for p in (*body.parameters(), *fc.parameters())],
            # The second has another batch size: it may run before the backward pass of the first.
            "inputs": [rng.tensor(n, *shape, low=-2, high=2, dtype=dtype, values=values) for n in (batch, 4 - batch)],
            "ups": [rng.tensor(n, fc.out_features, dtype=dtype, values=values) for n in (batch, 4 - batch)],
            "lo": lo,
            "hi": hi,
        }

    def alive(layers, mode, hooks, hooked, state, inputs, ups, lo, hi):
        case = Case(layers, mode, hooks, hooked, state)
        arriving = torch.cat([(case.of_output * up).to(state[-2]) @ state[-2] for up in ups])
        regions = (arriving < lo, arriving > hi, (arriving > lo) & (arriving < hi))
        if any((up.sum(0).abs() < 0.1).any() for up in ups) or not all(region.any() for region in regions):
            return False
        true, raw = case.truth(inputs[0], ups[0], lo, hi), case.truth(inputs[0], ups[0])
        return far(true["x"], raw["x"]) and far(case.out(inputs[0]), case.out(inputs[0], lo, hi))

    def oracle(layers, mode, hooks, hooked, state, inputs, ups, lo, hi):
        case = Case(layers, mode, hooks, hooked, state)
        # What the network returns is a linear function of the activation, as the gradient of `fc.weight` is.
        return [case.truth(x, up, lo, hi) for x, up in zip(inputs, ups)], case.again(inputs[0], ups[0], lo, hi)

    def probe(
        student,
        layers,
        mode,
        state,
        inputs,
        ups,
        lo,
        hi,
        layout,
        grad,
        frozen,
        passing,
        hooks,
        hooked,
        grad_mode,
        backward,
        failure,
        failing_run,
        doubled,
    ):
        first, second = (prepared(x, layout=layout, grad=grad, old=OLD) for x in inputs)
        body, fc = build(layers, mode, state, torch.float32 if doubled == "later" else first.dtype)
        freeze_part(body, frozen)
        if grad == "filled":
            fill_grads(body, OLD), fill_grads(fc, OLD)
        callers = CallersHooks(hooks)
        if hooked == "named":
            callers.on_module(body, "body").on_module(fc, "fc")
        elif hooked == "parameter":
            for name, p in (*body.named_parameters("body"), *fc.named_parameters("fc")):
                if p.requires_grad:
                    callers.on_parameter(p, name)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(body=body, fc=fc)
            if passing == "keyword":
                net = student.GuardedNet(body=body, fc=fc, lo=lo, hi=hi)
            else:
                net = student.GuardedNet(body, fc, lo, hi)
            seen = {"changed": witness.changes()}
        children = dict(net.named_children())
        seen |= {"children": [name for name, child in (("body", body), ("fc", fc)) if children.get(name) is child]}
        called = list[str]()
        if doubled == "later":
            net.double()
        if hooked == "root":
            callers.on_module(net, "net")
        if mode != "mixed":
            net.train(mode == "train")
        named = {"x": first, "fc.weight": fc.weight, "fc.bias": fc.bias, **dict(body.named_parameters("body"))}

        def run(x):
            return net(x=x) if passing == "keyword" else net(x)

        def grads(loss, way="plain"):
            asked = {name: t for name, t in named.items() if t.requires_grad}
            with own_grads(list(asked.values())):  # an aborted pass fills `.grad`, too
                return dict.fromkeys(named) | dict(zip(asked, gradients(loss, list(asked.values()), way)))

        def one_pass():
            return (run(first) * ups[0]).sum()

        # One pass, then several forward passes before a backward pass: nothing piles up.
        seen["grads"] = grads(one_pass, backward)
        witness, called = Witness(net=net, first=first), list[str]()
        with (
            body.register_forward_pre_hook(lambda *_: called.append("body")),
            fc.register_forward_pre_hook(lambda *_: called.append("fc")),
        ):
            seen |= {"out": snapshot(run(first)), "modules called by forward": called[:20]}
        seen["grads of three passes"] = grads(lambda: one_pass() + (run(second) * ups[1]).sum() + one_pass())
        with torch.no_grad():
            surroundings = Witness()
            seen["out under no_grad"] = snapshot(run(second))
            seen["changed under no_grad"] = surroundings.changes()
        failing = Failure(failure, failing_run)
        with body.register_forward_pre_hook(failing.strike), torch.set_grad_enabled(grad_mode == "on"):
            surroundings = Witness()
            seen["failure"] = failing.during(lambda: [run(first), run(first)])
            seen["changed by a failure"] = surroundings.changes()
        seen["changed by passes"] = witness.changes()
        loss = (run(first) * (up := ups[0].clone().requires_grad_())).sum()
        found, at_weight = torch.autograd.grad(loss, [first, fc.weight], create_graph=True, allow_unused=True)
        seen["fc.weight has a graph"] = at_weight is not None and at_weight.requires_grad
        again = found is not None and found.requires_grad
        seen["again"] = torch.autograd.grad(found.sum(), up, allow_unused=True)[0] if again else None

        # Hooks of the caller's that keep the gradient on its way to `body`, and those of `fc`.
        kept = list[tuple[Tensor, Tensor]]()

        def keep(grad):
            kept.append((grad, grad.clone()))

        def keep_input(module, args):
            if args[0].requires_grad:
                args[0].register_hook(keep)

        with fc.register_forward_pre_hook(keep_input):
            grads(one_pass)
        other_body, other_fc = build(layers, mode, state, first.dtype)
        for p in other_fc.parameters():
            p.register_hook(keep)
        data = run(first.detach())
        seen["grads from data"] = grads(lambda: (data * ups[0]).sum())

        # Two networks in one pass; `.grad`, to which it is added.
        other = student.GuardedNet(other_body, other_fc, lo - 0.25, hi + 0.25)
        with own_grads([t for t in named.values() if t.requires_grad]):
            seen["x of both"] = gradients(lambda: one_pass() + (other(second) * ups[1]).sum(), [first, second])
        seen["a kept gradient changed"] = any(not torch.equal(grad, then) for grad, then in kept)
        one_pass().backward()
        seen["filled"] = {name: snapshot(named[name].grad) for name in ("x", "fc.weight", "fc.bias")}
        body.requires_grad_(False)
        seen["grads of a frozen body"] = grads(one_pass)
        out = run(first.detach())
        seen |= {"out of a frozen body": snapshot(out), "grads behind it": grads(lambda: (out * ups[0]).sum())}

        x, fc = torch.tensor([[1.0, 2.0]], requires_grad=True), nn.Linear(2, 1)
        fc.weight.data.copy_(torch.tensor([[5.0, 0.5]]))
        student.GuardedNet(nn.ReLU(), fc, -1.0, 1.0)(x).sum().backward()
        return {**seen, "example": {"x": x.grad, "fc.weight": fc.weight.grad, "fc.bias": fc.bias.grad}}

    mistakes = (
        Mistake(
            "hook-without-grad",
            raises="doesn't require gradient",
            message="A tensor that does not require grad takes no hook: the activation under `no_grad` or behind a "
            "frozen body, and a frozen parameter. Guard the registration in `forward` with `if h.requires_grad:`.",
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
            lambda seen, layers, mode, hooks, hooked, state, inputs, lo, hi: close(
                seen["out"], Case(layers, mode, hooks, hooked, state).out(inputs[0], lo, hi), 1e-4, 1e-4
            ),
            "You clamped the activation itself, so the output of the network changed. Clamp the gradient: a hook on "
            "the activation receives it.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, layers, mode, hooks, hooked, state, inputs, ups, lo, hi: (
                (raw := Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0])) is not None
                and close(seen["grads"]["x"], raw["x"], 1e-4, 1e-4)
                and (changes(seen["changed"], "hook-left body.*") or SILENT)  # frozen parameters take no hook
            ),
            "You clamped the gradients of the parameters of `body`. The gradient at the output of `body` has to be "
            "clamped, before it goes on into it: put the hook on the activation, in `forward`.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, layers, mode, hooks, hooked, state, inputs, ups, lo, hi: (
                (raw := Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0])) is not None
                and not changes(seen["changed"], "hook-left body.*")
                and close(seen["grads"]["fc.weight"], raw["fc.weight"], 1e-4, 1e-4)
                and (
                    close(seen["grads"]["x"], raw["x"], 1e-4, 1e-4)
                    or close(seen["grads"]["fc.bias"], raw["bias as it was"], 1e-4, 1e-4)
                )
            ),
            "The gradient at the output of `body`, or that of `fc.bias`, came through unchanged. Each of the two needs "
            "a hook, and a hook changes a gradient only by returning the new one.",
            everywhere=True,
        ),
        Mistake(
            "one-bound-only",
            lambda seen, layers, mode, hooks, hooked, state, inputs, ups, lo, hi: any(
                close(
                    seen["grads"]["x"],
                    Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0], *bounds)["x"],
                    1e-4,
                    1e-4,
                )
                for bounds in ((lo, torch.inf), (-torch.inf, hi))
            ),
            ONE_BOUND,
        ),
        Mistake(
            "bias-without-grad",
            lambda seen: seen["grads"]["fc.bias"].value is None,
            "`fc.bias.grad` is `None`. The bias has to stay a parameter that requires grad; let a hook replace its "
            "gradient by zeros.",
        ),
        Mistake(
            "hook-in-forward",
            lambda seen: (
                changes(seen["changed by passes"], "hook-left net*") and close(seen["grads"]["fc.bias"], 0.0, 0, 0)
            ),
            "Every forward pass adds a hook to something that lives on, such as `fc.bias`, and they pile up. Register "
            "such a hook once, in `__init__`. Only the activation is new in every pass.",
        ),
    )

    def test_forward_is_fc_after_body(seen, layers, mode, hooks, hooked, state, inputs):
        expect(seen["modules called by forward"]).equals(["body", "fc"])
        case = Case(layers, mode, hooks, hooked, state)
        for name, x in (("out", 0), ("out under no_grad", 1), ("out of a frozen body", 0)):
            expect(seen[name]).close_to(case.out(inputs[x]), **limit(inputs[x]))
        for name in ("body", "fc"):
            if name not in expect(seen["children"]).list_of(str):
                refuse(f"`net.{name}` is not a child module of the net, or not the one that was given as `{name}`")

    def test_the_gradient_at_the_output_of_body_is_clamped(
        seen, layers, mode, hooks, hooked, frozen, state, inputs, ups, lo, hi
    ):
        case = Case(layers, mode, hooks, hooked, state)
        true, raw = (case.truth(inputs[0], ups[0], *bounds, frozen) for bounds in ((lo, hi), (-torch.inf, torch.inf)))
        if close(seen["grads"]["x"], raw["x"], 1e-4, 1e-4):
            refuse(f"the gradient at the output of `body` was not clamped (mode: {mode}; frozen of `body`: {frozen})")
        same(seen["grads"], {name: gradient for name, gradient in true.items() if name.startswith(("x", "body"))})
        if close(seen["example"]["x"], torch.tensor([[5.0, 0.5]])):
            refuse("the gradient at the output of `body` was not clamped where `body` has no parameters (the example)")
        expect(seen["example"]["x"]).close_to(torch.tensor([[1.0, 0.5]]))

    def test_the_bias_gets_zeros_and_the_weight_its_gradient(
        seen, layers, mode, hooks, hooked, state, inputs, ups, grad, lo, hi
    ):
        true = Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0], lo, hi)
        expect(seen["grads"]["fc.weight"]).close_to(true["fc.weight"], **limit(ups[0]))
        expect(seen["grads"]["fc.bias"]).close_to(true["fc.bias"], rtol=0, atol=0)
        old = OLD if grad == "filled" else 0.0
        for name in ("x", "fc.weight", "fc.bias"):
            expect(seen["filled"][name]).close_to(true[name] + old, **limit(ups[0]))
        expect(seen["example"]["fc.weight"]).close_to(torch.tensor([[1.0, 2.0]]))
        expect(seen["example"]["fc.bias"]).close_to(torch.zeros(1), rtol=0, atol=0)

    def test_it_works_pass_after_pass(seen, layers, mode, hooks, hooked, frozen, state, inputs, ups, lo, hi):
        case = Case(layers, mode, hooks, hooked, state)
        first, second = (case.truth(x, up, lo, hi, frozen) for x, up in zip(inputs, ups))
        expected = {name: 2 * gradient + (0 if name == "x" else second[name]) for name, gradient in first.items()}
        same(seen["grads of three passes"], {**expected, "fc.bias": first["fc.bias"]})
        plain = Case(layers, mode, "none", hooked, state)
        expect(seen["x of both"][0]).close_to(first["x"], **limit(ups[0]))
        other = plain.truth(inputs[1], ups[1], lo - 0.25, hi + 0.25)
        expect(seen["x of both"][1]).close_to(other["x"], **limit(ups[0]))

    def test_it_works_with_data_that_requires_no_grad(
        seen, layers, mode, hooks, hooked, frozen, state, inputs, ups, lo, hi
    ):
        true = Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0], lo, hi, frozen)
        same(seen["grads from data"], {name: gradient for name, gradient in true.items() if name != "x"})

    def test_it_works_with_a_frozen_body(seen, layers, mode, hooks, hooked, state, inputs, ups, lo, hi):
        true = Case(layers, mode, hooks, hooked, state).truth(inputs[0], ups[0], lo, hi)
        for when, names in (("grads of a frozen body", ("x", "fc.weight", "fc.bias")),
                            ("grads behind it", ("fc.weight", "fc.bias"))):  # fmt: skip
            same(seen[when], {name: true[name] for name in names})

    def test_the_gradient_can_be_differentiated_again(seen, layers, mode, hooks, hooked, state, inputs, ups, lo, hi):
        again = Case(layers, mode, hooks, hooked, state).again(inputs[0], ups[0], lo, hi)
        differentiated_as(seen["again"], again, **limit(again))
        expect(seen["fc.weight has a graph"]).is_true(
            "under `create_graph=True` the gradient of `fc.weight` has lost its graph"
        )

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left *", "attribute-left *"])
        came_through(seen["failure"], "`body`")
        nothing_changed(seen["changed by passes"], but=["attribute*"], when="from one forward pass to the next")
        expect(seen["a kept gradient changed"]).is_false(
            "your hook writes into a gradient that a hook of the caller's has kept; return a new tensor"
        )
        nothing_changed(seen["changed under no_grad"], when="after a forward pass under `no_grad`")
        nothing_changed(seen["changed by a failure"], when="after `body` raised")


@functools.cache
def unfilled(layers: str, mode: str, dtype: torch.dtype) -> tuple[nn.Module, nn.Linear]:
    """A body and its linear layer. To build them takes longer than to run them."""
    body, fc = BODIES[layers]()
    return in_mode(body, mode).to(dtype), fc.to(dtype)


class Case:
    """The right answer in one case: closed forms, and `torch.autograd.grad` through the body."""

    def __init__(self, layers: str, mode: str, hooks: str, hooked: str, state: list[Tensor]) -> None:
        """Where hooks replace, `of_body`, `of_output` and `of_grads` are the factors that they bring in."""
        self.layers, self.mode, self.state = layers, mode, state
        factor = FACTOR if hooks == "replacing" else 1.0
        self.of_body = factor if hooked == "named" else 1.0
        self.of_output = factor if hooked != "parameter" else 1.0
        self.of_grads = factor if hooked == "parameter" else 1.0

    def modules(self, dtype: torch.dtype) -> tuple[nn.Module, nn.Linear]:
        """The body and the linear layer, until they are asked for again: all cases fill the same ones."""
        return filled(*unfilled(self.layers, self.mode, dtype), self.state)

    def out(self, x: Tensor, lo: float = -torch.inf, hi: float = torch.inf) -> Tensor:
        """The output of the network; with bounds, that of one that clamps the activation."""
        body, fc = self.modules(x.dtype)
        with torch.no_grad():
            return self.of_output * fc((self.of_body * body(x)).clamp(lo, hi).flatten(1))

    def truth(
        self, x: Tensor, up: Tensor, lo: float = -torch.inf, hi: float = torch.inf, frozen: str = "nothing"
    ) -> dict[str, Tensor]:
        """The gradients of `(net(x) * up).sum()` by name, of what is not frozen. Without bounds nothing is clamped.

        "bias as it was" is the gradient of the bias that no hook has replaced.
        """
        body, fc = self.modules(x.dtype)
        trainable = {
            name: p
            for name, p in freeze_part(body.requires_grad_(), frozen).named_parameters("body")
            if p.requires_grad
        }
        x, up = x.detach().clone().requires_grad_(), self.of_output * up
        h = self.of_body * body(x)
        arriving = (up @ fc.weight.detach()).reshape(h.shape).clamp(lo, hi)
        into_x, *found = torch.autograd.grad(h, [x, *trainable.values()], arriving)
        return {
            "x": into_x,
            **{name: self.of_grads * gradient for name, gradient in zip(trainable, found)},
            "fc.weight": self.of_grads * up.T @ h.detach().flatten(1),
            "fc.bias": torch.zeros_like(up[0]),
            "bias as it was": self.of_grads * up.sum(0),
        }

    def again(self, x: Tensor, up: Tensor, lo: float, hi: float) -> Tensor:
        """The gradient at `up` of the sum of the gradient at `x`."""
        body, fc = self.modules(x.dtype)
        x, up = (t.detach().clone().requires_grad_() for t in (x, up))
        h = self.of_body * body(x)
        arriving = (self.of_output * up @ fc.weight.detach()).reshape(h.shape).clamp(lo, hi)
        (into_x,) = torch.autograd.grad(h, x, arriving, create_graph=True)
        return torch.autograd.grad(into_x.sum(), up)[0]


def limit(like: Tensor) -> dict[str, float]:
    """The tolerance in the dtype of a tensor."""
    return {"rtol": 1e-4, "atol": 1e-4} if like.dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}


def far(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors can be told apart."""
    return not torch.allclose(tensor, other, atol=0.02)


def same(seen: Seen, expected: Mapping[str, Any]) -> None:
    """Expect these gradients, and zeros for the bias to the last bit."""
    for name, gradient in expected.items():
        if name != "bias as it was":
            exact = {"rtol": 0, "atol": 0} if name == "fc.bias" else limit(gradient)
            expect(seen[name]).close_to(gradient, **exact)
