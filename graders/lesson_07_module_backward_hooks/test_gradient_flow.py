"""Exercise 07-gradient-flow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
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
from graders.lesson_07_module_backward_hooks.judging import times
from graders.lesson_07_module_backward_hooks.shared import copied, linear

INF = float("inf")
OLD = 0.7
"""What `.grad` holds beforehand where it is filled."""
WITH_MORE = "loss"
"""Where an exception is raised in the cases in which all is asked that is the same in each."""


class Gated(nn.Module):
    """A module with a parameter of its own and another module inside."""

    def __init__(self, name: str, fc: nn.Linear, weight: Tensor) -> None:
        """`fc` becomes the child `name`."""
        super().__init__()
        self.name = name
        self.add_module(name, fc)
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The child's output through tanh, times the own parameter."""
        return self.weight * torch.tanh(getattr(self, self.name)(x))


class Centred(nn.Module):
    """A module with a buffer, and a name for a parameter that it has not, that shows its mode."""

    def __init__(self, scale: Tensor) -> None:
        """A copy of this scale is its buffer."""
        super().__init__()
        self.register_buffer("scale", scale.clone())
        self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """In training the rows without their mean, otherwise times the buffer."""
        return x - x.mean(0) if self.training else x * self.scale


class Steps(nn.Module):
    """A model with a parameter of its own, and children that are defined in one order and called in another."""

    def __init__(self, scene: dict[str, Any], passing: str = "position", registered: str = "yes") -> None:
        """Copy the parameters of the scene. With `registered="no"`, a layer that is no submodule is called, too."""
        super().__init__()
        first, norm, gated, inner, group, head = scene["names"]
        layers = [linear(weight[:, :-1], weight[:, -1]) for weight in scene["weights"]]
        children = {
            first: layers[0],
            norm: Centred(scene["gate"]),
            gated: Gated(inner, layers[1], scene["gate"]),
            group: nn.Sequential(layers[2], nn.Tanh()),
            head: layers[3],
        }
        for name in scene["definition"]:
            self.add_module(name, children[name])
        self.second_name = children[first]
        self.gain = nn.Parameter(scene["gain"].clone())
        self.order, self.passing, self.runs = list(children), passing, 0
        if registered == "no":
            object.__setattr__(self, "outsider", layers[4])
        else:
            self.outsider = None

    def forward(self, x: Tensor) -> Tensor:
        """The own parameter times the input, through all children."""
        self.runs += 1
        h = self.gain * x
        if self.outsider is not None:
            h = self.outsider(h)
        for name in self.order[:-1]:
            h = getattr(self, name)(h)
        head = getattr(self, self.order[-1])
        return 2 * (head(input=h) if self.passing == "keyword" else head(h))


def steps(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, passing: str = "position", registered: str = "yes"
) -> Steps:
    """The model of a scene. Mixed: the module that shows it is in eval mode, the others are not."""
    model = Steps(scene, passing, registered)
    first, norm, gated, inner, _, head = scene["names"]
    model.train(mode != "eval").get_submodule(norm).train(mode == "train")
    if tied == "yes":
        tie(model, f"{first}.weight", f"{gated}.{inner}.weight")
    if frozen == "part":
        for module in (model.get_submodule(first), model.get_submodule(head)):
            module.requires_grad_(False)
    return model


LOSSES = {"linear": lambda out, up: (up * out).sum(), "square": lambda out, up: (up * out * out).sum()}


def square(g: Tensor) -> Tensor:
    """The mean of the squares."""
    return (g * g).mean()


def row_sums(g: Tensor) -> Tensor:
    """The mean over the rows of their sums of absolute values."""
    return g.abs().sum(-1).mean()


def keys_in_order(order: Callable[[list[str], dict[str, Any]], list[str]]) -> Callable[..., Any]:
    """A recogniser: all means are right, and the keys are in an order made of (right order, scene).

    A block and the layer inside it may have changed places.
    """

    def recognise(seen, scene, mode, frozen, tied, registered, hooks, x, loss):
        expected = means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss))
        if not close(seen["means"], expected, **digits(scene)):
            return False
        own = without_blocks(seen["means"].keys, scene)
        return own == [key for key in order(list(expected), scene) if key in own]

    return recognise


@exercise(
    "07-gradient-flow",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Gradient flow through every layer",
    hints=(
        "`module.parameters(recurse=False)` gives the parameters of the module itself, without those of the modules "
        "inside it. `named_modules()` gives every module with its name.",
        "A full backward pre-hook, `hook(module, grad_output)`, runs at the moment when the gradient of the output is "
        "complete. If it fills the dict, the order comes out by itself.",
        "The mean of the absolute values: `grad_output[0].abs().mean().item()`. Remove every handle in a `finally` "
        "block, so that it also happens when something raises.",
    ),
    why=(
        "A full backward pre-hook runs when the gradient of its module's output is complete, which is also the "
        "backward order that the keys shall have. A forward hook that registers a tensor hook on the output would "
        "do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL, "mode": ALL,
            "frozen": ALL, "tied": ALL, "passing": ALL, "registered": ALL, "hooks": ALL,
            "call": ("in turn",), "failure": ALL,
        },
        excludes={
            "rank": "the shapes are those of layers",
            "place": "whether the input requires grad, and is a leaf, is an axis of its own",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "named": "no module is named",
            "output": "the contract says that each output is a tensor",
            "follower": "the contract says that nothing works in place",
            "layers": "layers of several types are in each model",
            "hooked": "hooks sit on the model, on a layer, on a block, and on a parameter at once",
            "grad_mode": "`backward()` needs it switched on",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={
            "loss": ("linear", "square"), "x": ("data", "leaf", "non-leaf"),
            "raised_in": ("model", "loss", "backward"),
        },
        pairs=[("x", "frozen")],
    ),
)  # fmt: skip
class TestGradientFlow:
    """Write `gradient_flow(model, loss_fn, x)`. Run `loss = loss_fn(model(x))` and `loss.backward()`, each once. Return
    a dict with one entry for each module of `model.named_modules()` that has parameters of its own, frozen ones, too.
    Parameters of the modules inside it do not count, so a plain `Sequential` has none.

    The key is the module's name, `""` for the model itself. The value is a Python float: the mean of
    |d loss / d output| over all elements of the module's output. The keys are in the order of the backward pass: the
    module that is called last comes first. A block that has parameters of its own may come before or after the modules
    inside it.

    Parameters (and `x`, if it requires grad) accumulate their `.grad` as usual.

    Each of these modules is called once, and its output is one new tensor. A gradient comes to it, and to the module's
    input, if that requires grad. Nothing works in place.

    **Example.** For `model = Sequential(Linear(1, 1), Linear(1, 1))` with both weights 2 and biases 0, `x = ones(1, 1)`
    and `loss_fn = lambda out: -3 * out.sum()`, the result is `{"1": 3.0, "0": 6.0}`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, values):
        names = rng.names(6)
        like = {"dtype": dtype, "values": values}
        return {
            "scene": {
                "names": names,
                "definition": rng.shuffled([names[0], names[1], names[2], names[4], names[5]]),
                "weights": [rng.tensor(size, 4, low=-1, high=1, **like) for size in (3, 3, 3, 2, 3)],
                "gate": rng.tensor(3, low=0.5, high=2, **like),
                "gain": rng.tensor(3, low=0.5, high=2, **like),
                "value": rng.tensor(4, 3, low=-1, high=1, **like),
                "up": rng.tensor(4, 2, **like),
            },
        }

    def alive(scene, mode, frozen, tied, registered, hooks, x, loss):
        found = flow(scene, mode, frozen, tied, registered, hooks, x, loss)
        means = sorted(means_of(found).values())
        calls = [name for name in scene["definition"] if name != scene["names"][1]]
        in_order = [name for index, name in enumerate(scene["names"]) if index not in (1, 3)]
        return (
            means[0] > 0.01
            and all(b - a > 0.002 for a, b in pairwise(sorted({*means})))
            and all(abs(g.mean().abs() - g.abs().mean()) > 0.002 for g in found.values())
            and calls not in (in_order, in_order[::-1])
        )

    def oracle(scene, mode, frozen, tied, registered, hooks, x, loss, grad):
        old = OLD if grad == "filled" else 0.0
        parameters, of_input = plain_grads(scene, mode, frozen, tied, registered, hooks, x, loss)
        return [
            list(means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss)).values()),
            list(means_of(flow(scene, mode, frozen, tied, "yes", "none", x, loss)).values()),
            [old + gradient for gradient in (*parameters.values(), of_input) if gradient is not None],
        ]

    def probe(
        student,
        scene,
        mode,
        frozen,
        tied,
        passing,
        registered,
        hooks,
        layout,
        grad,
        x,
        loss,
        failure,
        raised_in,
    ):
        first, _, gated, _, _, head = scene["names"]
        model = steps(scene, mode, frozen, tied, passing, registered)
        if grad == "filled":
            fill_grads(model, OLD)
        callers = CallersHooks(hooks)
        for name in ("", first, gated):
            callers.on_module(model.get_submodule(name), name, backward=True)
        callers.on_parameter(model.get_submodule(gated).weight, "weight")
        leaf = laid_out(scene["value"], layout).requires_grad_(x != "data")
        given = leaf.view_as(leaf) if x == "non-leaf" else leaf
        if grad == "filled" and x != "data":
            leaf.grad = torch.full_like(leaf, OLD)
        losses: list[float] = []

        def measured(*args):
            return copied(student.gradient_flow(*args))

        def loss_fn(out):
            losses.append(1.0)
            return LOSSES[loss](out, scene["up"])

        witness = Witness(model=model, x=given)
        means = measured(model, loss_fn, given)
        seen: dict[str, Any] = {
            "means": means,
            "grads": {name: snapshot(p.grad) for name, p in model.named_parameters()},
            "graphs": [name for name, p in model.named_parameters() if p.grad is not None and p.grad.requires_grad],
            "x.grad": snapshot(leaf.grad),
            "runs": [model.runs, len(losses)],
            "changed": witness.changes(),
        }
        # Another call on this model, on another model, with a loss whose gradient is zero, on a layer with one row.
        seen["again"] = measured(model, lambda out: LOSSES[loss](-out / 2, scene["up"]), given)
        other = steps(scene, mode, frozen, tied)
        seen["another model"] = measured(other, loss_fn, given)
        cube = scene["value"].view(2, 2, 3).clone().requires_grad_(x != "data")
        seen["zero"] = measured(other, lambda out: (0 * out).sum(), cube)
        layer = linear(scene["weights"][0][:, :-1], scene["weights"][0][:, -1])
        growing = torch.arange(1.0, 13.0, dtype=cube.dtype).view(2, 2, 3)
        seen["three dimensions"] = measured(layer, lambda out: (growing * out).sum(), cube)

        boom = Failure(failure)

        def failing(out):
            if raised_in == "loss":
                boom.strike()
            if raised_in == "backward":
                out.register_hook(boom.strike)
            return out.sum()

        if raised_in == "model":
            model.get_submodule(head).register_forward_pre_hook(boom.strike)
        witness = Witness(model=model, x=given)
        seen["failure"] = boom.during(lambda: student.gradient_flow(model, failing, given))
        seen["changed by failure"] = witness.changes()
        error = Failure("RuntimeError")  # autograd itself raises this kind

        def failing_late(out):
            out.register_hook(error.strike)
            return out.sum()

        seen["error in backward"] = error.during(lambda: student.gradient_flow(layer, failing_late, leaf.detach()))
        if raised_in != WITH_MORE:
            return seen

        shared = nn.Sequential(nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 3, bias=False))
        shared[0].weight = shared[2].weight = nn.Parameter(2 * torch.eye(3))
        seen["a shared weight"] = measured(shared.eval(), lambda out: -3 * out.sum(), torch.ones(2, 3))
        seen["a layer"] = measured(layer, lambda out: -3 * out[0], scene["value"][0])
        block = nn.Sequential(linear(scene["weights"][0][:, :-1], scene["weights"][0][:, -1]))
        block.gain = nn.Parameter(scene["gain"].clone())
        block.register_forward_pre_hook(lambda module, args: module.gain * args[0])
        seen["a block"] = measured(block, lambda out: -3 * out[0], scene["value"][0])
        example = nn.Sequential(*(linear(torch.tensor([[2.0]]), torch.tensor([0.0])) for _ in range(2)))
        seen["example"] = measured(example, lambda out: -3 * out.sum(), torch.ones(1, 1))
        wide, factors = linear(2 * torch.eye(2), torch.zeros(2)), torch.tensor([[0.0, 1.0], [2.0, 3.0]])
        seen["transposed"] = measured(wide, lambda out: (factors * out.t()).sum(), torch.ones(2, 2))
        partly = torch.tensor([[float("nan")], [1.0]])
        unknown = measured(example, lambda out: (partly * out).sum(), torch.ones(2, 1))
        seen["nan"] = str(unknown).count("nan")
        seen["infinite"] = measured(example, lambda out: INF * out.sum(), torch.ones(1, 1))
        inner: list[Any] = []
        another = linear(torch.tensor([[2.0]]), torch.tensor([0.0]))

        def asking(out):
            inner.append(measured(another, lambda out: 5 * out.sum(), torch.ones(1, 1)))
            return -3 * out.sum()

        seen["in a call"] = [measured(example, asking, torch.ones(1, 1)), *inner]
        return seen

    mistakes = (
        Mistake(
            "signed-mean",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss: any(
                close(
                    seen["means"],
                    means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss), reduce),
                    **digits(scene),
                )
                for reduce in (Tensor.mean, lambda g: g.mean().abs())
            ),
            "Positive and negative gradients cancel in your mean. Take `abs()` first, then the mean.",
        ),
        Mistake(
            "not-the-mean",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss: any(
                close(
                    seen["means"],
                    means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss), reduce),
                    **digits(scene),
                )
                for reduce in (Tensor.norm, lambda g: g.abs().sum(), lambda g: g.abs().max(), square, row_sums)
            ),
            "These are not the means: you took a sum, a norm, a largest entry or squares. The task asks for the mean "
            "of the absolute values, over all elements.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, scene, grad: (
                SILENT
                if grad == "filled"
                else any(
                    close(seen["means"][f"{scene['names'][4]}.0"], value, rtol=1e-4)
                    for value in parameter_means(seen["grads"], f"{scene['names'][4]}.0")
                )
            ),
        ),
        Mistake(
            "forward-order",
            keys_in_order(lambda keys, scene: keys[::-1]),
            "The numbers are right, but your keys are in the order of the forward pass. Fill the dict when the "
            "gradient arrives; then the last layer comes first.",
        ),
        Mistake(
            "definition-order",
            keys_in_order(lambda keys, scene: by_definition(scene)),
            "The numbers are right, but your keys are in the order of `named_modules()`. Fill the dict when the "
            "gradient arrives.",
        ),
        Mistake(
            "grad-input-not-output",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss, passing: (
                SILENT  # an input that is passed by keyword is not in `grad_input`
                if passing == "keyword"
                else close(
                    seen["means"][scene["names"][-1]],
                    (
                        flow(scene, mode, frozen, tied, registered, hooks, x, loss)[scene["names"][-1]]
                        @ scene["weights"][3][:, :-1]
                    )
                    .abs()
                    .mean()
                    .item(),
                    rtol=1e-4,
                )
            ),
            "You took `grad_input`, the gradient that leaves the module. The gradient of its output is "
            "`grad_output`, the last argument of the hook.",
        ),
        Mistake(
            "nothing-there",
            raises=("'NoneType' object has no attribute", "tuple index out of range"),
            message="You asked for a gradient that is not there. `grad_input` has `None` where an input needs no "
            "gradient, and no entry for one that is passed by keyword; `.grad` of a frozen parameter is `None`. The "
            "gradient of the output is always there: `grad_output[0]`.",
        ),
        Mistake(
            "containers-included",
            lambda seen, scene: scene["names"][4] in seen["means"].keys,
            "Your dict has modules that only contain others. `parameters()` includes the parameters of all modules "
            "inside; `parameters(recurse=False)` gives only the module's own.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, scene: (
                not {"", scene["names"][2]} & set(seen["means"].keys)
                and {f"{scene['names'][2]}.{scene['names'][3]}", scene["names"][5]} <= set(seen["means"].keys)
            ),
            "A block that has other modules inside is missing, although it has a parameter of its own. Ask for "
            "`parameters(recurse=False)` instead of looking for modules without children.",
        ),
        Mistake(
            "cleared-callers-grad",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss, grad: (
                grad == "filled"
                and close(
                    seen["grads"][f"{scene['names'][4]}.0.weight"],
                    plain_grads(scene, mode, frozen, tied, registered, hooks, x, loss)[0][
                        f"{scene['names'][4]}.0.weight"
                    ],
                )
            ),
            "The `.grad` of a parameter held something before your call, and that is gone: `backward()` adds to it, "
            "and nobody asked for `zero_grad()`.",
        ),
        Mistake("late-binding", lambda seen: len(seen["means"].keys) == 1),
        Mistake(
            "another-mode",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss: any(
                close(
                    seen["means"],
                    means_of(flow(scene, other, frozen, tied, registered, hooks, x, loss)),
                    **digits(scene),
                )
                for other in ("train", "eval")
                if other != mode and (mode, other) != ("mixed", "eval")  # what shows its mode is in eval mode in both
            ),
        ),
        Mistake(
            "no-backward",
            lambda seen, scene, mode, frozen, tied, registered, hooks, x, loss, grad: (
                close(
                    seen["means"],
                    means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss)),
                    **digits(scene),
                )
                and all(
                    (seen["grads"][name].value is None if grad == "empty" else close(seen["grads"][name], OLD))
                    for name, p in steps(scene, mode, frozen, tied).named_parameters()
                    if p.requires_grad
                )
            ),
            "The means are right, and no parameter has got its gradient: `torch.autograd.grad` writes no `.grad`. Run "
            "`loss.backward()`.",
        ),
    )

    def test_every_layer_has_its_mean_gradient(seen, scene, mode, frozen, tied, registered, hooks, x, loss):
        expected = means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss))
        expect_means(seen["means"], expected, "", digits(scene)["rtol"])

    def test_the_keys_are_in_backward_order(seen, scene, mode, frozen, tied, registered, hooks, x, loss):
        right = list(means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss)))
        keys = seen["means"].keys
        if without_blocks(keys, scene) != without_blocks(right, scene) or not blocks_fit(keys, scene):
            expect(Seen(seen["means"].value, "the dict")).has_keys(*right, ordered=True)

    def test_each_call_and_each_model_is_measured_anew(
        seen, scene, mode, frozen, tied, registered, hooks, x, loss, raised_in
    ):
        # The losses are homogeneous: the gradients of loss(-out / 2) are those of the loss, halved or quartered.
        share = 1 / 2 if loss == "linear" else 1 / 4
        plain = means_of(flow(scene, mode, frozen, tied, registered, hooks, x, loss))
        expect_means(seen["again"], {name: share * mean for name, mean in plain.items()}, " of a second call")
        other = means_of(flow(scene, mode, frozen, tied, "yes", "none", x, loss))
        expect_means(seen["another model"], other, " of another model")
        expect_means(seen["zero"], dict.fromkeys(other, 0.0), " for a loss whose gradient is zero")
        expect_means(seen["three dimensions"], {"": 6.5}, " for a layer whose output has three dimensions")
        if raised_in != WITH_MORE:
            return
        expect_means(
            seen["transposed"], {"": 1.5}, " for a loss that uses `out.t()`, so that the gradient is transposed"
        )
        expect_means(
            seen["a shared weight"],
            {"2": 3.0, "1": 6.0, "0": 6.0 / (1 + 1e-5) ** 0.5},
            " for two layers with one weight",
        )
        expect_means(
            seen["a layer"], {"": 3 / len(scene["weights"][0])}, " for a model that is one layer, and a single row"
        )
        expect_means(
            seen["a block"],
            dict.fromkeys(("", "0"), 3 / len(scene["weights"][0])),
            " for a block with a parameter that returns what the layer in it returns",
        )

    def test_one_pass_accumulates_the_gradients(seen, scene, mode, frozen, tied, registered, hooks, x, loss, grad):
        for count, what in paired(seen["runs"], ("the model", "the loss")):
            if count.value != 1:
                expect(count).fail(f"{what} is to run once, and it ran {count.value} times")
        grads, x_gradient = plain_grads(scene, mode, frozen, tied, registered, hooks, x, loss)
        old = OLD if grad == "filled" else 0.0
        for name, gradient in (*grads.items(), ("x", x_gradient)):
            mine = seen["x.grad"] if name == "x" else seen["grads"][name]
            mine = Seen(mine.value, f"{name}.grad")
            if gradient is None and mine.value is not None:
                refuse(f"`{name}` requires no grad, and `{name}.grad` holds something now", Kind.CHANGED)
            if gradient is not None:
                expect(mine).close_to(old + gradient, **digits(scene))
        for name in expect(seen["graphs"]).list_of(str):
            expect(Seen(None)).fail(f"the `.grad` of {name} has a graph: run `backward()` without `create_graph`")

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-filled *", "grad-changed *", "buffer *"])

    def test_an_exception_comes_through_and_nothing_is_left(seen, raised_in):
        came_through(seen["failure"], {"backward": "`backward()`"}.get(raised_in, f"the {raised_in}"))
        came_through(seen["error in backward"], "`backward()`")
        nothing_changed(seen["changed by failure"], but=["grad-* *", "buffer *"], when="after an exception")

    def test_a_call_inside_a_call_changes_nothing(seen, raised_in):
        if raised_in != WITH_MORE:
            return
        calls = (({"1": 3.0, "0": 6.0}, "outer"), ({"": 5.0}, "inner"))
        for found, (means, whose) in paired(seen["in a call"], calls):
            expect_means(found, means, f" of the {whose} call")

    def test_the_example_of_the_contract(seen, raised_in):
        if raised_in != WITH_MORE:
            return
        expect_means(seen["example"], {"1": 3.0, "0": 6.0}, " of the example")
        expect(Seen(seen["example"].value, "the dict of the example")).has_keys("1", "0", ordered=True)
        expect(
            Seen(
                seen["nan"].value,
                "how many means are nan, for the example with two rows and a gradient that is nan in one",
            )
        ).equals(2)
        expect_means(seen["infinite"], {"1": INF, "0": INF}, " of the example, for a gradient that is infinite")


def live_outputs(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, registered: str, hooks: str, x: str
) -> tuple[Steps, Tensor, dict[str, Tensor]]:
    """A clean twin, its input, and by name the outputs of the modules with parameters, in the order of the calls."""
    model, leaf = steps(scene, mode, frozen, tied, registered=registered), scene["value"].clone()
    leaf.requires_grad_(x != "data")
    first, norm, gated, inner, group, head = scene["names"]
    block, h = model.get_submodule(gated), model.gain * leaf
    if model.outsider is not None:
        h = model.outsider(h)
    outs = {first: times(hooks) * model.get_submodule(first)(h)}
    outs[f"{gated}.{inner}"] = block.get_submodule(inner)(model.get_submodule(norm)(outs[first]))
    outs[gated] = times(hooks) * block.weight * torch.tanh(outs[f"{gated}.{inner}"])
    outs[f"{group}.0"] = model.get_submodule(f"{group}.0")(outs[gated])
    outs[head] = model.get_submodule(head)(torch.tanh(outs[f"{group}.0"]))
    return model, leaf, {**outs, "": times(hooks) * 2 * outs[head]}


def flow(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, registered: str, hooks: str, x: str,
    loss: str,
) -> dict[str, Tensor]:  # fmt: skip
    """Name to gradient of the output, in backward order, for those outputs to which one comes: by autograd."""
    _, _, outs = live_outputs(scene, mode, frozen, tied, registered, hooks, x)
    reached = {name: out for name, out in reversed(outs.items()) if out.requires_grad}
    return dict(zip(reached, torch.autograd.grad(LOSSES[loss](outs[""], scene["up"]), list(reached.values()))))


def means_of(
    gradients: dict[str, Tensor], reduce: Callable[[Tensor], Tensor] = lambda gradient: gradient.abs().mean()
) -> dict[str, float]:
    """Name to mean."""
    return {name: reduce(gradient).item() for name, gradient in gradients.items()}


def plain_grads(
    scene: dict[str, Any], mode: str, frozen: str, tied: str, registered: str, hooks: str, x: str,
    loss: str,
) -> tuple[dict[str, Tensor | None], Tensor | None]:  # fmt: skip
    """The gradients of parameters and input of one plain pass; None for what requires none."""
    model, leaf, outs = live_outputs(scene, mode, frozen, tied, registered, hooks, x)
    named = {"the input": leaf, **dict(model.named_parameters())}
    asked = {name: t for name, t in named.items() if t.requires_grad}
    found = torch.autograd.grad(LOSSES[loss](outs[""], scene["up"]), list(asked.values()))
    grads: dict[str, Tensor | None] = {**dict.fromkeys(named), **dict(zip(asked, found))}
    weight = grads[f"{scene['names'][2]}.weight"]
    if weight is not None:
        grads[f"{scene['names'][2]}.weight"] = times(hooks) * weight
    return {name: grads[name] for name in named if name != "the input"}, grads["the input"]


def digits(scene: dict[str, Any]) -> dict[str, float]:
    """The tolerance for a mean in the dtype of the model."""
    limit = 1e-4 if scene["gain"].dtype == torch.float32 else 1e-10
    return {"rtol": limit, "atol": limit}


def expect_means(seen: Seen, expected: dict[str, float], which: str, limit: float = 1e-4) -> None:
    """A dict with these means, as Python floats, within `limit`. `which` says which dict it is, in words."""
    seen = Seen(seen.value, f"the dict{which}")
    expect(seen).has_keys(*expected)
    for name, mean in expected.items():
        expect(seen[name]).of_type(float)
        expect(seen[name]).close_to(mean, rtol=limit, atol=limit)


def without_blocks(keys: list[str], scene: dict[str, Any]) -> list[str]:
    """The keys of modules that have no other modules inside, in their order."""
    return [key for key in keys if key not in ("", scene["names"][2])]


def blocks_fit(keys: list[str], scene: dict[str, Any]) -> bool:
    """Whether the model itself stands first or last, and the block right before or after the layer inside it."""
    block, inner = scene["names"][2], f"{scene['names'][2]}.{scene['names'][3]}"
    beside = {block, inner} <= set(keys) and abs(keys.index(block) - keys.index(inner)) == 1
    return "" in (keys[0], keys[-1]) and beside


def by_definition(scene: dict[str, Any]) -> list[str]:
    """The keys in the order of `named_modules()`."""
    first, _, gated, inner, group, head = scene["names"]
    inside = {first: [first], gated: [gated, f"{gated}.{inner}"], group: [f"{group}.0"], head: [head]}
    return [key for name in scene["definition"] for key in inside.get(name, [])]


def parameter_means(grads: Seen, name: str) -> list[float]:
    """What somebody may report who reads the parameters of a layer instead of its output."""
    weight, bias = grads[f"{name}.weight"].tensor, grads[f"{name}.bias"].tensor
    both = torch.cat([weight.flatten(), bias.flatten()])
    means = [part.abs().mean().item() for part in (weight, bias, both)]
    return [*means, (means[0] + means[1]) / 2, means[0] + means[1]]
