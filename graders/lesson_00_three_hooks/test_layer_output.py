"""Exercise 00-layer-output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.authoring import (
    SILENT,
    CallersHooks,
    Mistake,
    Witness,
    apart,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
)


@exercise(
    "00-layer-output",
    points=1,
    minutes=3,
    difficulty=1,
    core=True,
    title="What a layer puts out",
    hints=(
        "It is the first hook of this lesson, inside a function: an empty list, the `with` block, and the model called "
        "in it.",
        "The hook belongs on `layer`, the call is `model(x)`, and `return kept[0]` returns the entry and not the list.",
    ),
    cases=(
        {"place": 0, "rank": 3, "dtype": "float32"},
        {"place": 1, "rank": 2, "dtype": "float64"},
        {"place": 2, "rank": 1, "dtype": "float32"},
    ),
)
class TestLayerOutput:
    """Write `layer_output(model, layer, x)`, which runs `model(x)`, returns the output of `layer`, and leaves no hook
    behind.

    **Example.** For `model = nn.Sequential(nn.ReLU(), nn.Sigmoid())` and `x = torch.tensor([-1., 2.])`,
    `layer_output(model, model[0], x)` returns `tensor([0., 2.])`.
    """

    def draw(rng, place, rank, dtype):
        size = rng.integer(2, 4)
        x, later = (rng.tensor(*(2, 3, size)[-rank:], dtype=dtype) for _ in range(2))
        weights = [rng.tensor(size, size, dtype=dtype) for _ in range(3)]
        return {"x": x, "later": later, "weights": weights, "place": place}

    def oracle(x, later, weights):
        return [outputs(t, weights) for t in (x, later)]

    def alive(x, later, weights, place):
        every = outputs(x, weights)
        others = [given(x, weights, place), every[-1] + 1, outputs(later, weights)[place]]
        return apart(every[place], *others, *([x @ weights[place].T] if place else []))

    def probe(student, x, later, weights, place):
        model = Net(weights)
        layer = model.layers[place]
        CallersHooks("watching").on_module(layer, "layer")
        witness = Witness(model=model, x=x)
        first = student.layer_output(model, layer, x)
        changed = witness.changes()
        chain = nn.Sequential(nn.ReLU(), nn.Sigmoid())
        return {
            "output": first,
            "output of a second call": student.layer_output(model, layer, later),
            "changed": changed,
            "example": student.layer_output(chain, chain[0], torch.tensor([-1.0, 2.0])),
        }

    mistakes = (
        Mistake(
            "stored-the-input",
            lambda seen, x, weights, place: (
                close(seen["output"], given(x, weights, place)) or close(seen["output"], [given(x, weights, place)])
            ),
            "This is what goes into the layer. A forward hook gets three arguments: the module, the tuple of its "
            "inputs, and its output. Keep the third.",
        ),
        Mistake(
            "returned-the-list",
            lambda seen, x, weights, place: close(seen["output"], [outputs(x, weights)[place]]),
            "You returned the list in which the output is. Return its entry: `kept[0]`.",
        ),
        Mistake(
            "returned-the-models-output",
            lambda seen, x, weights: close(seen["output"], outputs(x, weights)[-1] + 1),
            "You returned what the whole model returns. The output of `layer` is what the hook was given.",
        ),
        Mistake(
            "skipped-the-model",
            lambda seen, x, weights, place: SILENT if place == 0 else close(seen["output"], x @ weights[place].T),
            "You called `layer` on `x` itself. In the model other layers come before it: call `model(x)`, and a hook "
            "on `layer` sees the output that it has there.",
        ),
        Mistake(
            "left-over",
            lambda seen: (
                seen["output"].tensor is not None and close(seen["output of a second call"], seen["output"].tensor)
            ),
            "Two calls with two inputs returned the same: what an earlier call had kept. Make the list inside your "
            "function, so that each call has a new one.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: bool(changes(seen["changed"], "hook-left *")),
            "Your hook is still on the layer after your function has returned. Register it in a `with` block, which "
            "takes it off again, or keep the handle and call its `remove()`.",
        ),
        Mistake(
            "nothing-kept",
            raises="list index out of range",
            message="The list is empty, so your hook has not been called. It is called while the model runs: "
            "`model(x)` belongs inside the `with` block.",
        ),
    )

    def test_the_output_of_the_layer_is_returned(seen, x, later, weights, place):
        expect(seen["output"]).close_to(outputs(x, weights)[place], detached=False)
        expect(seen["output of a second call"]).close_to(outputs(later, weights)[place], detached=False)

    def test_no_hook_is_left_and_nothing_has_changed(seen):
        nothing_changed(seen["changed"])

    def test_the_example_comes_out(seen):
        expect(seen["example"]).close_to(torch.tensor([0.0, 2.0]), detached=False)


class Net(nn.Module):
    """Three linear layers, and 1 is added after each of them: no layer's input is another one's output."""

    def __init__(self, weights: list[Tensor]) -> None:
        """The weights are square."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*weight.shape, bias=False) for weight in weights)
        for layer, weight in zip(self.layers, weights):
            layer.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] to [..., size]."""
        for layer in self.layers:
            x = layer(x) + 1
        return x


def outputs(x: Tensor, weights: list[Tensor]) -> list[Tensor]:
    """What the layers put out, computed without them."""
    found: list[Tensor] = []
    for weight in weights:
        found.append((found[-1] + 1 if found else x) @ weight.T)
    return found


def given(x: Tensor, weights: list[Tensor], place: int) -> Tensor:
    """What goes into a layer."""
    return outputs(x, weights)[place - 1] + 1 if place else x
