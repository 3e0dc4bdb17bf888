"""Exercise 05-capture-activation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import HOOK_MISTAKES, Mistake, apart, close, exercise, expect, model_unchanged, no_hook_left
from graders.lesson_05_capturing_activations.judging import FUNCTIONS, Call, block, conv, ran_once, trace, without_graph
from graders.lesson_05_capturing_activations.shared import Witness, build, leaf, when_it_raises


@exercise(
    "05-capture-activation",
    points=1,
    title="The output of one layer",
    hints=(
        "`model.get_submodule(name)` finds the module. Register a forward hook on it and then call `model(x)`.",
        "The hook stores `output.detach().clone()`. Without the clone, a later in-place layer rewrites it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    cases=(
        {"mode": "train", "inner": "block", "dtype": torch.float32},
        {"mode": "eval", "inner": "sequential", "dtype": torch.float64},
        {"mode": "frozen", "inner": "block", "dtype": torch.float32},
    ),
)
class TestCaptureActivation:
    """Write `capture_activation(model, name, x)`. `model` is an `nn.Module`, and `name` is the name of one of its
    submodules, for example `"stem.0"`. Run `model(x)` exactly once, to its end, and return the output of that
    submodule as it left the submodule. In this run the submodule is called once, and its output is a tensor.

    The result has the shape and dtype of that output. It does not require grad, and it is a copy: a later layer that
    works in place does not change it.

    The model stays as it was. Run it in the mode in which it is: each module keeps its mode (training or eval). The
    parameters and their `.grad` stay. Hooks that were there before stay and fire as usual. No hook of yours is left,
    even when the model raises an exception; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_activation(model, "1", x)` returns `tensor([[0., 2.]])`.
    """

    def draw(rng, mode, inner, dtype):
        stem, body, target, act, head = rng.names(5)
        kept, relu = conv(rng, dtype=dtype), ["relu", True]
        inside = {
            "block": block(rng, [target, act], {target: kept, act: relu}),
            "sequential": ["sequential", [kept, relu]],
        }[inner]
        norm = ["norm", rng.tensor(2, low=0.5, dtype=dtype), rng.tensor(2, low=-1, high=1, dtype=dtype)]
        children = {stem: ["sequential", [conv(rng, dtype=dtype), norm]], body: inside, head: conv(rng, dtype=dtype)}
        return {
            "spec": block(rng, [stem, body, head], children),
            "name": f"{body}.{target}" if inner == "block" else f"{body}.0",
            "x": rng.tensor(2, 2, 4, 4, dtype=dtype),
            "mode": mode,
        }

    def alive(spec, name, x, mode):
        call = called(spec, name, x, mode)
        _, weight, bias = leaf(spec, name)
        other_mode = called(spec, name, x, "eval" if mode == "train" else "train").y
        skipped = FUNCTIONS["conv"](x, weight, bias)
        return apart(call.x, call.y, call.y.relu(), other_mode, skipped)

    def probe(student, spec, name, x, mode):
        def model_in_mode(description):
            model = build(description).train(mode != "eval")
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d) and mode == "frozen":
                    module.eval()
            return model

        witness = Witness(model_in_mode(spec), name)
        before = x.clone()
        seen = {"result": student.capture_activation(witness.model, name, x), **witness.report()}
        seen["x_kept"] = torch.equal(x, before)
        return seen | when_it_raises(
            lambda: model_in_mode(spec), lambda model: student.capture_activation(model, name, x)
        )

    mistakes = (
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x, mode: close(seen["result"], called(spec, name, x, mode).y.relu()),
            "You stored a reference to the output, and the in-place ReLU behind the layer rewrote it. "
            "Store a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "stored-the-input", lambda seen, spec, name, x, mode: close(seen["result"], called(spec, name, x, mode).x)
        ),
        Mistake(
            "skipped-the-model",
            lambda seen, spec, name, x: close(seen["result"], FUNCTIONS["conv"](x, *leaf(spec, name)[1:])),
            "You called the submodule on `x` itself. In the model, other layers come before it: call `model(x)`, and "
            "let a hook on the submodule record what it makes of its real input.",
        ),
        *HOOK_MISTAKES,
        Mistake(
            "changed-the-mode",
            lambda seen, spec, name, x, mode: (
                seen["modes_kept"].value is False
                or close(seen["result"], called(spec, name, x, "eval" if mode == "train" else "train").y)
            ),
            "You switched the model to another mode, with `eval()` or `train()`. BatchNorm and Dropout then compute "
            "something else. Run the model in the mode in which you got it, and leave it so.",
        ),
    )

    def test_the_output_of_the_layer_is_returned(seen, spec, name, x, mode):
        expect(seen["result"]).close_to(called(spec, name, x, mode).y, detached=False)

    def test_the_result_has_no_graph(seen):
        without_graph(seen["result"])

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of x changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def called(spec: list[Any], name: str, x: Tensor, mode: str) -> Call:
    """The one call of a module."""
    (call,) = [call for call in trace(spec, x, batch_statistics=mode == "train") if call.name == name]
    return call
