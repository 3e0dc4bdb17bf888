"""Exercise 11-mean-activation."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graders.authoring import HOOK_MISTAKES, Mistake, Rng, apart, close, exercise, expect, model_unchanged, no_hook_left
from graders.lesson_11_hygiene.judging import Call, chain, linear, trace
from graders.lesson_11_hygiene.shared import Witness, build, same_values, when_it_raises


def another_order(rng: Rng, names: Sequence[str]) -> list[str]:
    """These names in another order."""
    while (found := rng.shuffled(names)) == list(names):
        pass
    return found


# 11-mean-activation: tensors that the graph saved are watched from outside.


class Saved:
    """Stands for one tensor that the graph saved; it lives as long as the graph needs it."""

    def __init__(self, tensor: Tensor) -> None:
        """Hold the values, in case somebody runs backward."""
        self.tensor = tensor.detach()


class SavedTensors:
    """Counts the tensors that the graph saved, and those that are still alive."""

    def __init__(self) -> None:
        """Nothing is saved yet."""
        self.refs: list[weakref.ref[Saved]] = []

    def pack(self, tensor: Tensor) -> Saved:
        """Called when the graph saves a tensor."""
        saved = Saved(tensor)
        self.refs.append(weakref.ref(saved))
        return saved

    def watching(self) -> Any:
        """The context in which saved tensors are counted."""
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda saved: saved.tensor)

    def alive(self) -> int:
        """How many are alive. Collecting garbage is slow, and done only when there might be some."""
        if any(ref() is not None for ref in self.refs):
            gc.collect()
        return sum(ref() is not None for ref in self.refs)


def graph_of(value: Any) -> list[str]:
    """The names of the first nodes of the graph behind a value, nearest first."""
    names, queue = [], [getattr(value, "grad_fn", None)]
    while queue and len(names) < 12:
        node = queue.pop(0)
        if node is not None:
            names.append(type(node).__name__)
            queue += [following for following, _ in node.next_functions]
    return names


@exercise(
    "11-mean-activation",
    points=1,
    title="A statistic that keeps no graph",
    hints=(
        "The mean of a tensor with a graph has a graph, too: one number that holds the whole forward pass. "
        "Detach first: `output.detach().mean()`.",
        "Take the mean inside the hook, while the output is as it left the module, and store nothing else: not the "
        "output, not a clone of it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    cases=(
        {"where": "inside", "dtype": torch.float32, "mode": "train"},
        {"where": "inside", "dtype": torch.float64, "mode": "eval"},
        {"where": "container", "dtype": torch.float32, "mode": "train"},
    ),
)
class TestMeanActivation:
    """Write `mean_activation(model, name, x)`. `model` is an `nn.Module`, and `name` is the name of one of its
    submodules, for example `"stem.0"`. Run `model(x)` exactly once, to its end. Return the mean over all entries of the
    output of that submodule, as the output left the submodule; a later layer may work in place. In this run the
    submodule is called once, and its output is a tensor.

    The result is a 0-dim tensor with the dtype of the output, and it does not require grad. After the call, nothing
    keeps the graph of the forward pass alive: neither the result, nor anything that you stored elsewhere, such as in a
    list or on the model.

    `x` stays as it was, and so does the model: the mode (training or eval) of each module, the parameters and their
    `.grad`. Hooks that were there before stay and fire as usual. No hook of yours is left, even when the model raises
    an exception; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `mean_activation(model, "1", x)` returns `tensor(1.)`.
    """

    def draw(rng, where, dtype, mode):
        stem, act, body, target, follower, head = rng.names(6)
        after = rng.choice((["layer", "relu_"], ["layer", "divide_", torch.full((1,), 0.25, dtype=dtype)]))
        if where == "inside":
            inside = {target: linear(rng, 4, 4, dtype), follower: after}
            children = {body: chain({key: inside[key] for key in (follower, target)}, [target, follower])}
            order = [stem, act, body, head]
        else:
            children = {body: chain({target: linear(rng, 4, 4, dtype)}, [target]), follower: after}
            order = [stem, act, body, follower, head]
        children |= {stem: linear(rng, 3, 4, dtype), act: ["layer", "tanh"], head: linear(rng, 4, 2, dtype)}
        return {
            "spec": chain({key: children[key] for key in another_order(rng, order)}, order),
            "name": f"{body}.{target}" if where == "inside" else body,
            "x": rng.tensor(5, 3, dtype=dtype),
            "mode": mode,
        }

    def alive(spec, name, x):
        return apart(*(call.output.mean() for call in trace(spec, x)[1:] if call.name in ("", name)),
                     overwritten(spec, name, x).mean(), input_of(spec, name, x).mean())  # fmt: skip

    def probe(student, spec, name, x, mode):
        def make():
            return build(spec).train(mode == "train")

        witness, saved, before = Witness(make(), "", name), SavedTensors(), x.clone()
        with saved.watching():
            result = student.mean_activation(witness.model, name, x)
        seen = {"alive": saved.alive(), "graph": graph_of(result), "result": result, **witness.report()}
        seen["x_kept"] = same_values(x, before) and not x.requires_grad
        return seen | when_it_raises(make, lambda model: student.mean_activation(model, name, x))

    mistakes = (
        Mistake(
            "graph-kept-alive",
            lambda seen: (
                seen["result"].value.requires_grad
                and seen["alive"].value > 0
                and "CloneBackward0" not in seen["graph"].value
            ),
            "Your mean still has its graph, and the graph holds the tensors that the forward pass saved. `cpu()` does "
            "not help: on the CPU it is the same tensor. Detach before you take the mean: `output.detach().mean()`.",
        ),
        Mistake(
            "clone-keeps-graph",
            lambda seen: (
                seen["result"].value.requires_grad
                and seen["alive"].value > 0
                and "CloneBackward0" in seen["graph"].value
            ),
            "`clone()` copies the values, but the copy is a part of the graph like the original and keeps the graph "
            "alive. `clone()` and `cpu()` do not detach: write `output.detach()`.",
        ),
        Mistake(
            "stored-the-output",
            lambda seen: (
                not getattr(seen["result"].value, "requires_grad", False)
                and seen["alive"].value > 0
                and seen["hooks_left"].value == 0
            ),
            "The result has no graph, but a tensor that has one is still stored somewhere: in a list, in a global "
            "variable, on the model. It keeps the whole forward pass alive. Store only the detached mean.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, name, x: close(seen["result"], overwritten(spec, name, x).mean()),
            "You took the mean when the model was done. By then a later in-place layer had rewritten the output. "
            "Take the mean inside the hook.",
        ),
        Mistake("stored-the-input", lambda seen, spec, name, x: close(seen["result"], input_of(spec, name, x).mean())),
        Mistake(
            "number-not-tensor",
            lambda seen, spec, name, x: (
                type(seen["result"].value) is float and close(seen["result"], call_of(spec, name, x).output.mean())
            ),
            "You returned a Python number. It keeps no graph, but the task asks for a 0-dim tensor: return "
            "`output.detach().mean()`.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_mean_of_the_output_is_returned(seen, spec, name, x):
        expect(seen["result"]).close_to(call_of(spec, name, x).output.mean(), detached=False)

    def test_nothing_keeps_the_graph_alive(seen):
        if getattr(seen["result"].value, "requires_grad", False):
            expect(seen["result"]).fail("it still requires grad; detach it")
        if seen["alive"].value:
            expect(seen["alive"]).fail(
                f"after the call, {seen['alive'].value} tensors that the graph saved still exist"
            )

    def test_the_model_runs_once(seen):
        expect(seen["runs"]).equals(1)
        expect(seen["callers_hooks_fired"]).equals(2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def call_of(spec: list[Any], name: str, x: Tensor) -> Call:
    """The one call of a module."""
    (call,) = [call for call in trace(spec, x) if call.name == name]
    return call


def input_of(spec: list[Any], name: str, x: Tensor) -> Tensor:
    """What went into the module."""
    return call_of(spec, name, x).inputs[0]


def overwritten(spec: list[Any], name: str, x: Tensor) -> Tensor:
    """What the in-place layer behind the module makes of its output."""
    calls = trace(spec, x)
    return calls[[call.name for call in calls].index(name) + 1].output
