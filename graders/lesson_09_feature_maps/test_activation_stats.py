"""Exercise 09-activation-stats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    Array,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    paired,
)

BINS, TOP, RATE, STEPS = 40, 4.0, 0.05, 4
EXAMPLE = [torch.tensor([-2.0, 1.25]), torch.tensor([5.0, 5.0])]
Outputs = dict[str, list[Tensor]]


def trained(weights: list[Tensor], batches: list[Tensor], names: list[str]) -> tuple[Outputs, list[Tensor]]:
    """The outputs of both layers at each step, and the weights in the end: SGD by hand, without a hook."""
    outputs: Outputs = {name: [] for name in names}
    for batch in batches:
        leaves = [w.detach().requires_grad_() for w in weights]
        first = batch @ leaves[0].mT
        second = (first.relu() @ leaves[1].mT).relu()
        gradients = torch.autograd.grad((second @ leaves[2].mT).square().mean(), leaves)
        weights = [w.detach() - RATE * gradient for w, gradient in zip(leaves, gradients)]
        for name, output in zip(names, (first, second)):
            outputs[name].append(output.detach())
    return outputs, weights


def instead(part: str, of: Callable[[Tensor], Tensor], within: float = 1e-4) -> Callable[..., bool]:
    """Whether one of the three statistics is another one in all rows of all layers."""

    def recognised(seen: Seen, weights: list[Tensor], batches: list[Tensor], names: list[str]) -> bool:
        outputs = trained(weights, batches, names)[0]
        return all(close(seen["stats"][n][part], torch.stack([*map(of, outputs[n])]), 0.0, within) for n in names)

    return recognised


@exercise(
    "09-activation-stats",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Every layer's statistics, step by step",
    hints=(
        "Register one forward hook on each module of `layers`, then loop over the batches. Whenever it is called, a "
        "hook appends three things to the lists of its layer.",
        "`values = output.detach()`, then `values.mean()`, `values.std()` and `values.histc(40, 0, 4)`. Compute them "
        "inside the hook: a later layer may overwrite the output.",
        "At the end, `torch.stack(list)` puts the steps into rows. An `ExitStack` or `try` and `finally` removes the "
        "hooks. Do not switch gradients off: `step` needs them.",
    ),
    why=(
        "The hooks turn each output into 42 numbers while it is still as the layer left it, so nothing large is kept "
        "however long the training lasts. A class with `__enter__` and `__exit__` around the loop would do as well; so "
        "would a copy of each output for later, at the price of its memory."
    ),
    circumstances=Circumstances(
        covers={"dtype": ALL, "rank": (2, 3), "follower": ALL, "hooks": ("none", "watching"), "hooked": ("named",),
                "failure": ALL, "failing_run": ALL},
        excludes={"tensor": "only `step` sees the batches, and the digits are those that training makes",
                  "number": "it gets no number", "collection": "the example has one layer, the draws two",
                  "model": "it gets layers; `step` runs the model",
                  "call": "every probe calls it twice, and `step` trains"},
    ),
)  # fmt: skip
class TestActivationStats:
    """Write `activation_stats(layers, step, batches)`. Call `step(batch)` once for each batch, in order: it trains a
    model and runs each module of the dict `layers` once. Return, under each key, `"mean"`, `"std"` and `"hist"` of that
    module's outputs, a row for each step.

    **Example.** For `relu = nn.ReLU()` and `batches = [tensor([-2., 1.25]), tensor([5., 5.])]`,
    `activation_stats({"relu": relu}, relu, batches)` returns `{"relu": {"mean": tensor([0.625, 5.]),
    "std": tensor([0.8839, 0.]), "hist": ...}}`. Row 0 of `"hist"` holds 1 in the columns 0 and 12, and 0 elsewhere;
    row 1 is all 0, because 5 lies above 4.

    **Fine print.** All are detached tensors, of any dtype of numbers: `"mean"` and `"std"`, of shape [steps], are what
    `output.mean()` and `output.std()` give. `"hist"`, of shape [steps, 40], counts the values in 40 equal bins from 0
    to 4, and no others. A later layer may overwrite an output in place.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank):
        shape = {2: (6, 3), 3: (3, 2, 3)}[rank]

        def full(*shapes: tuple[int, ...], limit: float) -> list[Tensor]:
            return [rng.tensor(*sizes, dtype=dtype, values="full", low=-limit, high=limit) for sizes in shapes]

        return {
            "weights": full((5, 3), (4, 5), (2, 4), limit=1.25),
            "batches": full(*[shape] * STEPS, limit=2),
            "later": full(shape, shape, limit=2),
            "names": rng.names(2),
        }

    def oracle(weights, batches, later, names):
        outputs, weights = trained(weights, [*batches, *later], names)
        return [stats_of(found) for found in outputs.values()], weights

    def probe(student, weights, batches, later, names, follower, hooks, failure, failing_run):
        def trainable() -> tuple[nn.Module, dict[str, nn.Module], Any]:
            linears = [nn.Linear(w.shape[1], w.shape[0], bias=False, dtype=w.dtype) for w in weights]
            for linear, w in zip(linears, weights):
                linear.load_state_dict({"weight": w})
            one, two, three = linears
            model = nn.Sequential(one, nn.ReLU(inplace=follower == "in-place"), nn.Sequential(two, nn.ReLU()), three)

            def step(batch: Tensor) -> None:
                steps.append(next((i for i, other in enumerate([*batches, *later]) if other is batch), -1))
                model.zero_grad()
                model(batch).square().mean().backward()
                with torch.no_grad():  # the first use of torch.optim takes a second
                    for p in (p for p in model.parameters() if p.grad is not None):
                        p.sub_(RATE * p.grad)

            return model, {names[0]: model[0], names[1]: model[2]}, step

        steps: list[int] = []
        model, layers, step = trainable()
        CallersHooks(hooks).on_module(model[0], names[0])
        witness = Witness(model=model, layers=layers, batches=batches)
        seen = {"stats": student.activation_stats(layers, step, batches), "changed": witness.changes()}
        seen["of more steps"] = student.activation_stats(layers, step, later)
        seen |= {"steps": steps[:20], "weights": [p.detach() for p in model.parameters()]}
        model, layers, step = trainable()
        failing = Failure(failure, failing_run)
        witness = Witness(model=model, layers=layers)
        seen["failure"] = failing.during(
            lambda: student.activation_stats(layers, lambda batch: (step(batch), failing.strike()), batches)
        )
        relu = nn.ReLU()
        example = student.activation_stats({"relu": relu}, relu, EXAMPLE)
        return {**seen, "changed by failure": witness.changes(), "example": example}

    mistakes = (
        Mistake(
            "late-binding",
            lambda seen, weights, batches, names: any(
                close(seen["stats"][name]["mean"], torch.stack([o.mean() for step in steps for o in step]))
                for steps in [list(zip(*trained(weights, batches, names)[0].values()))]
                for name in names
            ),
            "All layers wrote into the record of one: your hooks read the loop variable when they run, and by then it "
            "has its last value. Bind it with a default argument, `name=name`.",
        ),
        Mistake("hook-left-behind", lambda seen: bool(changes(seen["changed"], "hook-left *"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                bool(changes(seen["changed by failure"], "hook-left *")) and not changes(seen["changed"], "hook-left *")
            ),
        ),
        Mistake(
            "only-the-last-step",
            lambda seen, weights, batches, names: all(
                close(seen["stats"][name]["mean"], outputs[-1].mean())
                for name, outputs in trained(weights, batches, names)[0].items()
            ),
            "You kept one step: each call of a hook replaced what the call before had found. Append to a list.",
        ),
        Mistake(
            "bins-of-their-own",
            instead("hist", lambda o: o.histc(BINS), within=2.0),
            "Without limits, `histc` spreads its bins from the smallest to the largest value of each step, so no two "
            "rows can be compared. Give it the limits: `histc(40, 0, 4)`.",
        ),
        Mistake(
            "stored-alias",
            instead("mean", lambda o: o.relu().mean()),
            "You kept the outputs for later, and a ReLU overwrote them in place. Compute the statistics in the hook.",
        ),
        Mistake(
            "gradients-off",
            raises="does not require grad and does not have a grad_fn",
            message="You called `step` with gradients switched off, and it trains. `.detach()` what you keep instead.",
        ),
        Mistake(
            "divided-by-n",
            instead("std", lambda o: o.std(correction=0)),
            "This standard deviation divides by n, as numpy's does. `output.std()` divides by n - 1.",
        ),
    )

    def test_each_step_has_a_row_for_each_layer(seen, weights, batches, names):
        same_stats(seen["stats"], trained(weights, batches, names)[0])

    def test_a_second_call_has_a_record_of_its_own(seen, weights, batches, later, names):
        outputs = trained(weights, [*batches, *later], names)[0]
        same_stats(seen["of more steps"], {name: found[STEPS:] for name, found in outputs.items()})

    def test_the_model_trains_as_it_does_without_you(seen, weights, batches, later, names):
        expect(seen["steps"]).equals(list(range(STEPS + len(later))))
        for found, weight in paired(seen["weights"], trained(weights, [*batches, *later], names)[1]):
            expect(found).close_to(weight, rtol=1e-4, atol=1e-4)

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["values model.*", "grad-* model.*"])

    def test_an_exception_comes_through_and_leaves_no_hook(seen):
        came_through(seen["failure"], "`step`")
        nothing_changed(seen["changed by failure"], but=["values model.*", "grad-* model.*"], when="after an exception")

    def test_the_example_comes_out(seen):
        same_stats(seen["example"], {"relu": [batch.relu() for batch in EXAMPLE]})


def stats_of(outputs: list[Tensor]) -> dict[str, Tensor]:
    """Mean, standard deviation and counts, a row for each output; a value is counted by where it lies on the axis."""
    places = [(o[(o >= 0) & (o <= TOP)] * (BINS / TOP)).floor().clamp(max=BINS - 1).long() for o in outputs]
    return {
        "mean": torch.stack([o.sum() / o.numel() for o in outputs]),
        "std": torch.stack([((o - o.mean()).square().sum() / (o.numel() - 1)).sqrt() for o in outputs]),
        "hist": torch.stack([torch.bincount(place, minlength=BINS) for place in places]),
    }


def same_stats(seen: Seen, outputs: Outputs) -> None:
    """A dict with the statistics of these outputs, in tensors of any dtype."""
    expect(seen).has_keys(*outputs)
    for name, found in outputs.items():
        expected = stats_of(found)
        expect(seen[name]).has_keys(*expected)
        for part, value in expected.items():
            entry = seen[name][part]
            if type(entry.value) is Array:
                entry = Seen(replace(entry.value, tensor=entry.value.tensor.double()), entry.path)
            expect(entry).close_to(value.double(), rtol=1e-4, atol=1e-4)
