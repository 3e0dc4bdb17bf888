"""Exercise 07-activation-grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Kind,
    Mistake,
    Seen,
    Witness,
    came_through,
    close,
    exercise,
    expect,
    fill_grads,
    laid_out,
    nothing_changed,
    paired,
    refuse,
    snapshot,
    tie,
)
from graders.lesson_07_module_backward_hooks.shared import Weighted, differ, linear, listed, times

OLD = 0.7
"""What `.grad` holds beforehand where it is filled."""


def packed(t: Tensor, beside: Tensor, output: str, key: str) -> Any:
    """A tensor as an output: itself, the second of a tuple, or an entry of a dict."""
    return {"tensor": t, "tuple": (beside, t), "dict": {"beside": beside, key: t}}[output]


class Part(nn.Module):
    """A linear layer that shows its mode, and returns its output alone, in a tuple, or in a dict."""

    def __init__(self, fc: nn.Linear, output: str, key: str) -> None:
        """`key` is the one under which a dict has the output."""
        super().__init__()
        self.fc, self.output, self.key = fc, output, key

    def forward(self, input: Tensor) -> Any:
        """The layer's output, times 1.5 in training; beside it twice the input."""
        out = self.fc(input) * (1.5 if self.training else 1.0)
        return packed(out, 2 * input, self.output, self.key)


class Added(nn.Module):
    """Adds 1: the gradient at its input is the tensor that is the gradient at its output."""

    def forward(self, input: Tensor) -> Tensor:
        """A new tensor."""
        return input + 1


class Pair(NamedTuple):
    """Two tensors."""

    first: Tensor
    second: Tensor


class Halves(nn.Module):
    """A module without parameters that returns both halves of its input, in a container of a kind that matters."""

    def __init__(self, container: str) -> None:
        """A "dict" or a "named" tuple."""
        super().__init__()
        self.container = container

    def forward(self, x: Tensor) -> dict[str, Tensor] | Pair:
        """The halves, which are two outputs of one operation."""
        first, second = x.chunk(2, -1)
        return {"first": first, "second": second} if self.container == "dict" else Pair(first, second)


class Whole(nn.Module):
    """A module that asks for the halves by their names."""

    def forward(self, halves: dict[str, Tensor] | Pair) -> Tensor:
        """Twice the first half, three times the second."""
        both = halves if isinstance(halves, dict) else {"first": halves.first, "second": halves.second}
        return 2 * both["first"] + 3 * both["second"]


class Model(nn.Module):
    """Three parts, called in another order than they are defined; the second one is nested."""

    def __init__(self, scene: dict[str, Any], named: str, output: str, follower: str, passing: str, registered: str):
        """`named` has this output. With `registered="no"`, a layer that is no submodule is called, too."""
        super().__init__()
        self.order, self.key, self.k = names_of(scene), scene["key"], scene["k"]
        self.named, self.output, self.follower, self.passing = named, output, follower, passing
        layers = [linear(weight[:, :-1], weight[:, -1]) for weight in scene["weights"]]
        parts = {
            place: Part(layer, output if place == named else "tensor", self.key)
            for place, layer in zip(self.order, layers)
        }
        block, inner = self.order["nested"].split(".")
        self.add_module(self.order["last"], parts["last"])
        self.add_module(block, nn.Module())
        self.get_submodule(block).add_module(inner, parts["nested"])
        self.add_module(self.order["first"], parts["first"])
        object.__setattr__(self, "outsider", layers[3] if registered == "no" else None)

    def forward(self, x: Tensor) -> Any:
        """Through all parts. What follows the named one works in place, if so."""
        h = x
        for place in ("first", "nested", "last"):
            part = self.get_submodule(self.order[place])
            h = unpacked(part(input=h) if self.passing == "keyword" else part(h), self.key)
            if place == self.named:
                h = FOLLOWERS[self.follower](h, self.k)
            h = torch.tanh(h) if place != "last" else h
            if place == "first" and self.outsider is not None:
                h = self.outsider(h)
        if self.named == "root":
            return packed(1 * h, 2 * x, self.output, self.key)
        return h


def unpacked(out: Any, key: str) -> Tensor:
    """The tensor in what `packed` made."""
    return out[1] if isinstance(out, tuple) else out[key] if isinstance(out, dict) else out


FOLLOWERS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "plain": lambda h, k: h,
    "in-place": lambda h, k: h.mul_(k).relu_(),
    "out of place": lambda h, k: (h * k).relu(),
}
"""What follows the named module. The last one is for the judge: it computes what the second does."""
LOSSES = {"square": lambda h, up: (up * h * h).sum(), "handed out": Weighted.apply}
"""Losses. The gradient of the last one is `up` itself, and no copy."""


def names_of(scene: dict[str, Any]) -> dict[str, str]:
    """Where each part stands in the model. The name of the first one is the end of that of the nested one, too."""
    first, block, last = scene["names"]
    return {"first": first, "nested": f"{block}.{first}", "last": last, "root": ""}


def model_of(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, named: str, output: str, follower: str,
    passing: str = "position", registered: str = "yes",
) -> Model:  # fmt: skip
    """The model of a scene. What the named module returns requires grad in any case."""
    model = Model(scene, named, output, follower, passing, registered).train(mode != "eval")
    if mode == "mixed":
        model.get_submodule(names_of(scene)["nested"]).eval()
    if tied == "yes":
        tie(model, f"{names_of(scene)['first']}.fc.weight", f"{names_of(scene)['last']}.fc.weight")
    if frozen == "part":
        place = "last" if named == "first" else "first"
        model.get_submodule(names_of(scene)[place]).fc.bias.requires_grad_(False)
        if tied == "no":
            model.get_submodule(names_of(scene)[place]).fc.weight.requires_grad_(False)
    return model


@exercise(
    "07-activation-grad",
    points=3,
    minutes=25,
    difficulty=3,
    title="The gradient at an activation, whatever follows",
    hints=(
        "A full backward hook fails before an in-place operation and stays silent for a dict. The output itself is an "
        "ordinary tensor, and a tensor can carry a hook.",
        "Register a forward hook on `model.get_submodule(name)`. Inside it, call `pick(output).register_hook(...)`.",
        "The forward hook runs before any later in-place operation. A tensor hook that is registered there belongs to "
        "the old value, and that is the one you want. `retain_grad()` would follow the new one.",
    ),
    why=(
        "The forward hook reaches the output before anything can overwrite it, and a tensor hook stays with that "
        "value. `torch.autograd.graph.get_gradient_edge` inside the forward hook names the same place; "
        "`torch.autograd.grad` then takes it as an input."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "values": ALL, "grad": ALL, "mode": ALL, "frozen": ALL, "tied": ALL,
            "named": ("first", "last", "nested", "root"), "output": ALL, "follower": ALL, "passing": ALL,
            "registered": ALL, "hooks": ALL, "call": ("in turn",), "failure": ALL,
        },
        excludes={
            "rank": "the shapes are those of layers",
            "place": "whether the input requires grad, and is a leaf, is an axis of its own",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "layers": "the layers do not matter to the function",
            "hooked": "hooks sit on the model, on the named module, and on a parameter at once",
            "grad_mode": "a backward pass needs it switched on",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={
            "loss": ("square", "handed out"), "x_is": ("data", "leaf", "non-leaf"),
            "raised_in": ("model", "loss", "backward", "pick"),
        },
        pairs=[("output", "follower")],
        impossible=[lambda raised_in, output: raised_in == "pick" and output == "tensor"],
    ),
)  # fmt: skip
class TestActivationGrad:
    """Write `activation_grad(model, name, x, loss_fn, pick=lambda out: out)`. With `loss = loss_fn(model(x))`, return
    the gradient of the loss with respect to one tensor in the model: `pick(output)`, where `output` is what the module
    called `name` returns, as it leaves the module. `pick` takes this output, which may be a tensor, a tuple or a dict,
    and returns one tensor in it, the same object.

    The gradient belongs to the value that left the module. Operations that come later, in the model or in the loss, may
    change this tensor in place (an in-place ReLU, for example); the result is still the gradient with respect to the
    value before. The result is a copy of the gradient as it arrives there: somebody may overwrite the gradient itself,
    also later in the same pass.

    Run `backward()` once or not at all. Either the `.grad` of every parameter stays as it is, or one plain pass is
    added to every one.

    The tensor requires grad, is no leaf, and has no hook of others; one of yours may stay on it. The model calls the
    module once, and the loss depends on the tensor.

    **Example.** For `model = Sequential(Linear(1, 2), ReLU(inplace=True))`, where the linear layer gives `[[-1., 4.]]`
    for `x`, `activation_grad(model, "0", x, lambda out: 7 * out.sum())` returns `tensor([[0., 7.]])`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, layout, values):
        like = {"dtype": dtype, "values": values}
        return {
            "scene": {
                "names": rng.names(3),
                "key": rng.choice(("boxes", "logits", "found")),
                "weights": [rng.tensor(3, 4, low=-1, high=1, **like) for _ in range(4)],
                "value": rng.tensor(4, 3, low=-1, high=1, layout=layout, **like),
                "up": rng.tensor(4, 3, **like),
                "k": rng.choice((1.5, -1.5)),
            },
        }

    def alive(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss):
        found = trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        value, gradient, later = found["value"], found["gradient"], found["later"]
        return (
            bool(gradient.abs().max() > 0.05)
            and bool(value.abs().min() > 0.01)
            and differ(gradient, value)
            and (follower == "plain" or (differ(gradient, later) and bool((gradient == 0).any())))
        )

    def oracle(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss):
        first = trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        second = trace(halved(scene), mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        return [first["gradient"], second["gradient"], list(first["grads"].values())]

    def probe(
        student,
        scene,
        mode,
        frozen,
        tied,
        named,
        output,
        follower,
        passing,
        registered,
        hooks,
        layout,
        grad,
        x_is,
        loss,
        failure,
        raised_in,
    ):
        name, key, up = names_of(scene)[named], scene["key"], scene["up"]
        model = model_of(scene, mode, frozen, tied, named, output, follower, passing, registered)
        if grad == "filled":
            fill_grads(model, OLD)
        callers = CallersHooks(hooks).on_module(model.get_submodule(name), "named")
        if named != "root":
            callers.on_module(model, "model")
        watched = model.get_submodule(names_of(scene)["nested"]).fc.bias
        callers.on_parameter(watched, "bias")
        leaf = laid_out(scene["value"], layout).requires_grad_(x_is != "data")
        if grad == "filled" and x_is != "data":
            leaf.grad = torch.full_like(leaf, OLD)
        x = leaf.view_as(leaf) if x_is == "non-leaf" else leaf
        buffer, passes = up.clone(), []
        watched.register_hook(lambda grad: passes.append(1))
        pick = [] if output == "tensor" else [lambda out: unpacked(out, key)]

        def loss_with(up):
            def loss_fn(out):
                h = unpacked(out, key)
                return LOSSES[loss](FOLLOWERS[follower](h, scene["k"]) if named == "root" else h, up)

            return loss_fn

        witness = Witness(model=model, x=leaf)
        gradient = student.activation_grad(model, name, x, loss_with(buffer), *pick)
        seen: dict[str, Any] = {
            "at once": snapshot(gradient),
            "passes": len(passes),
            "grads": {key: snapshot(p.grad) for key, p in model.named_parameters()},
            "x.grad": snapshot(leaf.grad),
            "changed": witness.changes(),
        }
        buffer.zero_()
        seen["gradient"] = gradient
        other = (leaf.detach() / 2).requires_grad_(x_is != "data")
        seen["again"] = student.activation_grad(model, name, other, loss_with(up), *pick)
        cube = scene["value"].view(2, 2, 3).clone().requires_grad_(x_is != "data")
        passes.clear()
        seen["zero"] = student.activation_grad(model, name, cube, lambda out: (0 * unpacked(out, key)).sum(), *pick)
        seen["passes for zero"] = len(passes)
        frozen_model = model_of(scene, mode, "nothing", tied, named, output, follower).requires_grad_(False)
        only = scene["value"].clone().requires_grad_()
        seen["only x"] = student.activation_grad(frozen_model, name, only, loss_with(up), *pick)
        twin = model_of(scene, mode, frozen, tied, named, output, follower)
        for p in list(twin.parameters())[::2]:
            p.grad = torch.full_like(p, OLD) if p.requires_grad else None
        seen["another model"] = student.activation_grad(twin, name, x, loss_with(2 * up), *pick)
        seen["grads of another model"] = {key: snapshot(p.grad) for key, p in twin.named_parameters()}
        overwritten = nn.Sequential(linear(torch.tensor([[-1.0], [4.0]]), torch.zeros(2)), Added())
        overwritten[0].register_forward_hook(lambda module, args, out: out.register_hook(Tensor.zero_) and None)
        seen["overwritten"] = student.activation_grad(overwritten, "1", torch.ones(1, 1), lambda out: 7 * out.sum())

        plain = nn.Sequential(linear(torch.tensor([[-1.0], [4.0]]), torch.zeros(2)), Added())
        no_limit = torch.tensor([float("inf"), float("nan")])
        seen["no limit"] = listed(
            student.activation_grad(plain, "0", torch.ones(1, 1), lambda out: (no_limit * out).sum())
        )

        example = nn.Sequential(linear(torch.tensor([[-1.0], [4.0]]), torch.zeros(2)), nn.ReLU(inplace=True))
        seen["example"] = student.activation_grad(example, "0", torch.ones(1, 1), lambda out: 7 * out.sum())
        inner: list[Any] = []
        another = nn.Sequential(linear(torch.tensor([[-1.0], [4.0]]), torch.zeros(2)), nn.ReLU(inplace=True))

        def asking(out):
            inner.append(student.activation_grad(another, "0", torch.ones(1, 1), lambda out: 5 * out.sum()))
            return 7 * out.sum()

        seen["in a call"] = [student.activation_grad(example, "0", torch.ones(1, 1), asking), *inner]
        inner.clear()

        def asking_in_backward(grad):
            with torch.enable_grad():
                asking(grad)

        plain[0].weight.register_hook(asking_in_backward)
        seen["in a hook"] = [student.activation_grad(plain, "0", torch.ones(1, 1), lambda out: 3 * out.sum()), *inner]

        boom = Failure(failure)

        def failing(out):
            if raised_in == "loss":
                boom.strike()
            h = unpacked(out, key)
            if raised_in == "backward":
                h.register_hook(boom.strike)
            return h.sum()

        def failing_pick(out):
            boom.strike()
            return unpacked(out, key)

        if raised_in == "model":
            model.get_submodule(names_of(scene)["last"]).fc.register_forward_hook(boom.strike)
        witness = Witness(model=model, x=leaf)
        pick = [failing_pick] if raised_in == "pick" else pick
        seen["failure"] = boom.during(lambda: student.activation_grad(model, name, x, failing, *pick))
        seen["changed by failure"] = witness.changes()
        late = Failure(failure)
        example[0].weight.register_hook(late.strike)
        seen["late failure"] = late.during(
            lambda: student.activation_grad(example, "0", torch.ones(1, 1), lambda out: 7 * out.sum())
        )

        seen["the second half"] = []
        for container in ("dict", "named"):
            halved_first = nn.Sequential(Halves(container), Whole(), linear(torch.ones(1, 2), torch.zeros(1)))
            seen["the second half"].append(
                student.activation_grad(
                    halved_first,
                    "0",
                    torch.ones(1, 4, requires_grad=True),
                    lambda out: 7 * out.sum(),
                    lambda halves: halves["second"] if isinstance(halves, dict) else halves.second,
                )
            )
        return seen

    mistakes = (
        Mistake(
            "full-hook-and-in-place",
            raises=("being modified inplace", "list index out of range"),
            message="A full backward hook makes the module's output a view, and a view like this cannot be changed "
            "in place. For a dict it never fires. Hook the tensor instead, inside a forward hook.",
        ),
        Mistake(
            "hook-never-called",
            raises="list index out of range",
            message="A list of yours is still empty after the pass: the hook that fills it was never called. A tensor "
            "hook is called only when a gradient comes to this very tensor, and a full backward hook never for a dict. "
            "Hook `pick(output)`, inside a forward hook.",
            rather_than=("full-hook-and-in-place",),
        ),
        Mistake(
            "retain-grad-follows-in-place",
            lambda seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss: (
                follower == "in-place"
                and close(
                    seen["at once"],
                    trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)["later"],
                )
            ),
            "This is the gradient after the in-place operation: `retain_grad()` goes with the tensor to its new value. "
            "A tensor hook that is registered in the forward hook stays with the old one.",
        ),
        Mistake(
            "values-not-gradients",
            lambda seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss: close(
                seen["at once"],
                trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)["value"],
            ),
            "These are the values that left the module, not the gradients that arrive there.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss: (
                close(
                    seen["at once"],
                    trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)[
                        "gradient"
                    ],
                )
                and (close(seen["gradient"], 0.0) or close(seen["overwritten"], 0.0))
            ),
            "Your gradient was overwritten after you stored it: another tensor has the same buffer, and somebody "
            "changed it in place. Store a copy: `grad.detach().clone()`.",
        ),
        Mistake(
            "before-the-callers-hooks",
            lambda seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss: (
                hooks == "replacing"
                and close(
                    seen["at once"],
                    times(hooks)
                    * trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)[
                        "gradient"
                    ],
                )
            ),
            "This is the gradient at a value that a forward hook of the caller replaced before it left the module. "
            "Hooks of one module run in the order of registration, those for all modules first: register yours on the "
            "module, without `prepend`.",
        ),
        Mistake(
            "cleared-callers-grad",
            lambda seen, scene, mode, frozen, tied, named, output, follower, x_is, loss: all(
                close(seen["grads of another model"][name], 2 * gradient)
                for name, gradient in trace(
                    scene, mode, frozen, tied, named, output, follower, "yes", "none", x_is, loss
                )["grads"].items()
                if name != "x" and gradient is not None
            ),
            "The `.grad` of a parameter held something before your call, and that is gone: `backward()` adds to it, "
            "and nobody asked for `zero_grad()`.",
        ),
        Mistake(
            "another-mode",
            lambda seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss: (
                any(
                    close(
                        seen["at once"],
                        trace(scene, other, frozen, tied, named, output, follower, registered, hooks, x_is, loss)[
                            "gradient"
                        ],
                    )
                    for other in ("train", "eval")
                    if other != mode
                )
                and not close(
                    seen["at once"],
                    trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)[
                        "gradient"
                    ],
                )
            ),
        ),
        Mistake(
            "name-with-dots",
            raises="'Model' object has no attribute",
            message='A module inside another one has a name with dots, and the model itself is called `""`: '
            "`model.get_submodule(name)` finds them all, and `getattr` does not.",
        ),
        Mistake(
            "ignored-pick",
            raises=(
                "'dict' object has no attribute",
                "'tuple' object has no attribute",
                "'dict' object is not callable",
            ),
            message="The output of this module is a tuple or a dict, which cannot carry a hook. `pick(output)` gives "
            "you the tensor in it.",
        ),
    )

    def test_it_is_the_gradient_at_the_value_that_left_the_module(
        seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss
    ):
        found = trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        expect(Seen(seen["at once"].value, "the gradient")).close_to(found["gradient"], **digits(scene))

    def test_it_is_a_copy_without_a_graph(
        seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss
    ):
        found = trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        expect(
            Seen(seen["gradient"].value, "the gradient, when the loss has written zeros into its own memory")
        ).close_to(found["gradient"], **digits(scene))
        expect(
            Seen(
                seen["overwritten"].value, "the gradient, when a hook on an earlier tensor writes zeros into its memory"
            )
        ).close_to(torch.tensor([[7.0, 7.0]]))

    def test_the_next_call_computes_afresh(
        seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss
    ):
        found = trace(halved(scene), mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        expect(Seen(seen["again"].value, "the gradient for another x")).close_to(found["gradient"], **digits(scene))
        expect(Seen(seen["zero"].value, "the gradient for a loss of 0 * out")).close_to(
            0 * found["gradient"].view(2, 2, 3), **digits(scene)
        )
        found = trace(scene, mode, frozen, tied, named, output, follower, "yes", "none", x_is, loss)
        expect(Seen(seen["another model"].value, "the gradient for another model")).close_to(
            2 * found["gradient"], **digits(scene)
        )
        expect(Seen(seen["only x"].value, "the gradient when only `x` requires grad")).close_to(
            trace(scene, mode, "nothing", tied, named, output, follower, "yes", "none", "leaf", loss)["gradient"],
            **digits(scene),
        )

    def test_the_parameters_keep_their_gradient_or_add_one_pass(
        seen, scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss, grad
    ):
        for count, call in (("passes", "a call"), ("passes for zero", "a call whose gradient is zero")):
            if seen[count].value not in (0, 1):
                passes = Seen(seen[count].value, f"backward passes in {call}")
                expect(passes).differs("one or none", str(seen[count].value))
        found = trace(scene, mode, frozen, tied, named, output, follower, registered, hooks, x_is, loss)
        grads = {name: seen["x.grad"] if name == "x" else seen["grads"][name] for name in found["grads"]}
        old = dict.fromkeys(grads, OLD if grad == "filled" else None)
        one_pass_or_none(grads, found["grads"], old, **digits(scene))

        other = trace(scene, mode, frozen, tied, named, output, follower, "yes", "none", x_is, loss)["grads"]
        del other["x"]
        old = {name: None if index % 2 else OLD for index, name in enumerate(other)}
        twice = {name: None if gradient is None else 2 * gradient for name, gradient in other.items()}
        one_pass_or_none({name: seen["grads of another model"][name] for name in other}, twice, old, **digits(scene))

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-filled *", "grad-changed *"])

    def test_an_exception_comes_through_and_nothing_is_left(seen, raised_in):
        came_through(seen["failure"], {"backward": "`backward()`", "pick": "`pick`"}.get(raised_in, f"the {raised_in}"))
        if seen["late failure"].value != "never raised":  # else no gradient of a parameter was computed
            came_through(seen["late failure"], "a hook on a parameter")
        nothing_changed(seen["changed by failure"], but=["grad-* *"], when="after an exception")

    def test_a_call_inside_a_call_changes_nothing(seen):
        for where, right in (
            ("in a call", (([[0.0, 7.0]], "outer"), ([[0.0, 5.0]], "inner"))),
            ("in a hook", (([[3.0, 3.0]], "outer"), ([[0.0, 5.0]], "inner"))),
        ):
            # A pass that ends at the output of the layer calls no hook of a weight below it.
            of_calls = right[:1] if where == "in a hook" and len(seen[where]) == 1 else right
            for found, (gradient, whose) in paired(seen[where], of_calls):
                path = f"the gradient of the {whose} call" + ", made by a hook in `backward()`" * (where == "in a hook")
                expect(Seen(found.value, path)).close_to(torch.tensor(gradient))

    def test_the_example_of_the_contract(seen):
        expect(Seen(seen["example"].value, "the gradient of the example")).close_to(torch.tensor([[0.0, 7.0]]))
        for found, container in paired(seen["the second half"], ("a dict", "a namedtuple")):
            path = f"the gradient of one of two chunks in {container}, in a model that asks for them by their names"
            expect(Seen(found.value, path)).close_to(torch.full((1, 2), 21.0))

    def test_it_may_be_infinite_or_nan(seen):
        expect(Seen(seen["no limit"].value, "a gradient that is infinite or nan")).equals("[[inf, nan]]")


def digits(scene: dict[str, Any]) -> dict[str, float]:
    """The tolerance in the dtype of the model."""
    limit = 1e-4 if scene["up"].dtype == torch.float32 else 1e-10
    return {"rtol": limit, "atol": limit}


def one_pass_or_none(
    grads: dict[str, Seen], gradients: dict[str, Tensor | None], old: dict[str, float | None], **limits: float
) -> None:
    """Each `.grad` holds what it held (`old`, everywhere), or this gradient was added; those of parameters agree."""
    stayed = {}
    for name, gradient in gradients.items():
        mine, before = Seen(grads[name].value, f"{name}.grad"), old[name]
        if gradient is None:
            if mine.value is not None:
                refuse(f"`{name}` requires no grad, and `{name}.grad` holds something now", Kind.CHANGED)
            continue
        stays = mine.value is None if before is None else close(mine, before)
        if not stays:
            expect(mine).close_to(gradient + (before or 0.0), **limits)
        if name != "x" and bool(gradient.abs().max() > 0.01):  # else both look the same
            stayed[name] = stays
    if len(set(stayed.values())) > 1:
        first, last = (next(name for name in stayed if stayed[name] is stays) for stays in (True, False))
        refuse(f"`{first}.grad` is as before, and `{last}.grad` has accumulated: it is one pass, or none")


def halved(scene: dict[str, Any]) -> dict[str, Any]:
    """The scene with half of the input."""
    return {**scene, "value": scene["value"] / 2}


def trace(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, named: str, output: str, follower: str, registered: str,
    hooks: str, x_is: str, loss: str,
) -> dict[str, Any]:  # fmt: skip
    """By autograd on a clean twin that works out of place: at the tensor that is picked its "value" and "gradient".

    "later" is the gradient after what follows, and "grads" are those of x and of the parameters, None where none is
    required.
    """
    model, leaf = model_of(scene, mode, frozen, tied, named, "tensor", "plain"), scene["value"].clone()
    leaf.requires_grad_(x_is != "data")
    outsider = linear(scene["weights"][3][:, :-1], scene["weights"][3][:, -1]) if registered == "no" else None
    act, h, found = FOLLOWERS["plain" if follower == "plain" else "out of place"], leaf, {}

    def passing(h: Tensor) -> Tensor:
        found["picked"] = times(hooks) * h
        found["after"] = act(found["picked"], scene["k"])
        return found["after"]

    for place in ("first", "nested", "last"):
        h = model.get_submodule(names_of(scene)[place])(h)
        h = passing(h) if place == named else h
        h = torch.tanh(h) if place != "last" else h
        h = outsider(h) if place == "first" and outsider is not None else h
    h = passing(1 * h) if named == "root" else times(hooks) * h
    params = {"x": leaf, **dict(model.named_parameters())}
    asked = {name: p for name, p in params.items() if p.requires_grad}
    gradient, later, *grads = torch.autograd.grad(
        LOSSES[loss](h, scene["up"]),
        [found["picked"], found["after"], *asked.values()],
        allow_unused=True,
        materialize_grads=True,
    )
    by_name = {**dict.fromkeys(params), **dict(zip(asked, grads))}
    watched = f"{names_of(scene)['nested']}.fc.bias"
    if by_name[watched] is not None:
        by_name[watched] = times(hooks) * by_name[watched]
    return {"value": found["picked"].detach(), "gradient": gradient, "later": later, "grads": by_name}
