"""Exercise 05-capture-many."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from torch import Tensor

from graders.authoring import (
    HOOK_MISTAKES,
    Mistake,
    Seen,
    apart,
    close,
    exercise,
    expect,
    model_unchanged,
    no_hook_left,
)
from graders.lesson_05_capturing_activations.judging import (
    LATE_BINDING,
    all_names,
    block,
    conv,
    defined_order,
    filled_keys,
    ran_once,
    trace,
    without_graph,
)
from graders.lesson_05_capturing_activations.shared import Observer, build, when_it_raises


@exercise(
    "05-capture-many",
    points=2,
    title="The outputs of several layers in one run",
    hints=(
        "Register one hook for each name before you run the model. All of them write into the same dict.",
        "Each hook must know its own name. Bind it when you define the hook: `def hook(module, args, output, "
        "name=name):`, or use `functools.partial`.",
        "A dict keeps the order in which its keys were first written. Write a key only when its hook fires.",
    ),
    cases=({"named": 3}, {"named": 4}, {"named": 4}),
)
class TestCaptureMany:
    """Write `capture_many(model, names, x)`. `names` is a list of names of submodules of `model`, in any order. Run
    `model(x)` exactly once, to its end. Return a dict that maps each name to the output of that submodule, as it left
    the submodule. The keys stand in the order in which the submodules ran.

    In this run each named submodule is called exactly once, its output is a tensor, and none of them contains another.

    The values do not require grad. They are copies: a later layer that works in place does not change them. Each
    module keeps its mode (training or eval), and the parameters and their `.grad` stay. Hooks that were there before
    stay and fire as usual. No hook of yours is left, even when the model raises an exception; the exception comes
    through.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `capture_many(model, ["1", "0"], x)` returns `{"0": tensor([[-1., 2.]]), "1": tensor([[0., 2.]])}`, with the keys in
    this order.
    """

    def draw(rng, named):
        stem, body, one, two, act, last, pool = rng.names(7)
        relu = ["relu", True]
        inside = block(rng, [one, act, two], {one: conv(rng), act: relu, two: conv(rng)})
        children = {stem: ["sequential", [conv(rng), relu]], body: inside, pool: ["pool", 2], last: conv(rng)}
        run = [f"{stem}.0", f"{body}.{one}", f"{body}.{two}", last][:named]
        return {
            "spec": block(rng, [stem, body, pool, last], children),
            "names": rng.shuffled(run),
            "x": rng.tensor(1, 2, 4, 4),
        }

    def alive(spec, names, x):
        expected = captured(spec, names, x)
        run, defined = list(expected), defined_order(spec, names)
        orders_differ = run != defined and names not in (run, defined) and names[-1] != run[-1]
        return orders_differ and apart(*expected.values(), *overwritten(spec, names, x).values())

    def probe(student, spec, names, x):
        witness = Observer(build(spec), names[0])
        seen = {"result": student.capture_many(witness.model, list(names), x), **witness.report()}
        return seen | when_it_raises(lambda: build(spec), lambda model: student.capture_many(model, list(names), x))

    mistakes = (
        Mistake(
            "late-binding",
            lambda seen, spec: (
                len(filled_keys(seen["result"])) == 1 and filled_keys(seen["result"])[0] in all_names(spec)
            ),
            LATE_BINDING,
        ),
        Mistake(
            "repr-keys",
            lambda seen, names: (
                any("Conv2d" in str(key) for key in seen["result"].keys)
                or (set(seen["result"].keys) == set(names) and share_a_value(seen["result"], names))
            ),
            "You used the printed form of a module, or its class, as its key. Layers with equal settings print alike, "
            "so one overwrote the other. Only the name is unique: use it as the key.",
        ),
        *HOOK_MISTAKES,
        Mistake(
            "one-run-per-name",
            lambda seen, names: seen["runs"].value == len(names),
            "You ran the model once for each name. Register all hooks first, and run it a single time: every hook "
            "writes its own entry.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, spec, names, x: close(seen["result"], captured(spec, names, x) | overwritten(spec, names, x)),
        ),
        Mistake(
            "given-order",
            lambda seen, spec, names, x: (
                seen["result"].keys == names
                and close(seen["result"], captured(spec, names, x))
                and seen["runs"].value == 1
            ),
            "The outputs are right, but the keys stand in the order of `names`. The order asked for is that of "
            "execution: write a key into the dict only when its hook fires.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, names, x: (
                seen["result"].keys == defined_order(spec, names) and close(seen["result"], captured(spec, names, x))
            ),
        ),
    )

    def test_every_named_output_is_returned(seen, spec, names, x):
        expected = captured(spec, names, x)
        expect(seen["result"]).has_keys(*expected)
        for name, value in expected.items():
            expect(seen["result"][name]).close_to(value, detached=False)

    def test_the_keys_are_in_order_of_execution(seen, spec, names, x):
        expect(seen["result"]).has_keys(*captured(spec, names, x), ordered=True)

    def test_the_values_have_no_graph(seen, names):
        for name in names:
            without_graph(seen["result"][name])

    def test_the_model_runs_once(seen):
        ran_once(seen, callers_hooks=2)

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def captured(spec: list[Any], names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Name to output, in the order of execution."""
    return {call.name: call.y for call in trace(spec, x) if call.name in names}


def overwritten(spec: list[Any], names: list[str], x: Tensor) -> dict[str, Tensor]:
    """Name to what the in-place ReLU behind the module made of its output, for those that have one behind them."""
    layers = [call for call in trace(spec, x) if call.kind not in ("block", "sequential")]
    pairs = pairwise(layers)
    return {call.name: behind.y for call, behind in pairs if call.name in names and behind.kind == "relu"}


def share_a_value(seen: Seen, names: list[str]) -> bool:
    """Whether the same tensor is under every name."""
    return all(close(seen[name], seen[names[0]].tensor) for name in names)
