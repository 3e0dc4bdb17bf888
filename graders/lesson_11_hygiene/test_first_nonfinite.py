"""Exercise 11-first-nonfinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.authoring import (
    HOOK_MISTAKES,
    SILENT,
    Mistake,
    Rng,
    Seen,
    exercise,
    expect,
    model_unchanged,
    module_names,
    no_hook_left,
)
from graders.lesson_11_hygiene.judging import Call, chain, linear, trace
from graders.lesson_11_hygiene.shared import Witness, build, same_values, when_it_raises

# 11-first-nonfinite: nets in which some layers make NaN or Inf from finite numbers.

NAN, INF = float("nan"), float("inf")


def offender(rng: Rng, kind: str) -> list[Any]:
    """The spec of a layer that makes some entries NaN or Inf from finite numbers.

    A linear layer with a NaN in its weight, a division by a NaN, or a division by zero. Divisions that do not
    work in place spoil a single entry, and never one in the first row.
    """
    if kind == "linear":
        layer = linear(rng)
        layer[1][rng.integer(0, 2), rng.integer(0, 2)] = NAN
        return layer
    by = rng.tensor(4, 3, low=0.5)
    row = slice(None) if kind == "in place" else rng.integer(1, 3)
    by[row, rng.integer(0, 2)] = 0.0 if kind == "infinite" else NAN
    return ["layer", "divide_" if kind == "in place" else "divide", by]


@exercise(
    "11-first-nonfinite",
    points=2,
    title="Where the first NaN comes from",
    hints=(
        "`torch.isfinite(t).all()` is true when a tensor has neither NaN nor Inf.",
        "A layer that gets a NaN passes it on, and is not to blame. Compare what goes in with what comes out: the "
        "layer you look for gets only finite inputs. Look at the inputs in a pre-hook, since a layer that works in "
        "place has overwritten them when the forward hook fires.",
        "Several layers may be to blame. Keep the first entry only, in the order in which hooks fire. Remove all hooks "
        "in `finally`.",
    ),
    cases=(
        {"plan": "nan"},
        {"plan": "infinite"},
        {"plan": "in place"},
        {"plan": "bad input"},
        {"plan": "container"},
        {"plan": "reuse"},
        {"plan": "second call"},
    ),
)
class TestFirstNonfinite:
    """Write `first_nonfinite(model, x)`. Run `model(x)` once, and find the first call of a leaf, in the order of
    execution, whose output has a NaN or an infinite entry while all its tensor inputs are finite. Return the name of
    that leaf as in `named_modules()`, or `None` when there is no such call.

    A leaf is a module without children. Each leaf gets positional arguments: one tensor or more, and perhaps other
    values, such as numbers. It returns one tensor. What counts is its inputs as they were when it was called, and its
    output as it left the leaf: some layers work in place. A leaf that already gets a NaN or an Inf is not to blame for
    what it passes on, and a NaN that the code between the leaves makes has no leaf to blame. `x` may have non-finite
    entries itself.

    You may stop the forward pass as soon as the leaf is found. When the model itself raises an exception of any
    type before that, the exception comes through.

    `x` stays as it was, and so does the model: the mode (training or eval) of each module, the parameters and their
    `.grad`. Hooks that were there before stay, and fire as far as the pass goes. No hook of yours is left, whatever
    happens.

    **Example.** Let `Log` be a module whose `forward` returns `x.log()`. The log of 0 is minus infinity. For
    `model = nn.Sequential(nn.ReLU(), Log(), nn.Linear(2, 1))` and `x = torch.tensor([[-1., 2.]])`,
    `first_nonfinite(model, x)` returns `"1"`.
    """

    def draw(rng, plan):
        start, first, second, third, fourth, fifth, tidy, clean, rinse, block, end, again = rng.names(12)
        x, factor = rng.tensor(4, 3), 1.0
        children = {name: ["layer", "clean"] for name in (tidy, clean, rinse)} | {start: linear(rng), end: linear(rng)}
        if plan in ("nan", "infinite", "in place"):
            kinds = {
                "nan": ("linear", "nan", "linear"),
                "infinite": ("infinite", "nan", "infinite"),
                "in place": ("in place", "nan", "infinite"),
            }[plan]
            children |= {name: offender(rng, kind) for name, kind in zip((first, second, third), kinds)}
            inside = [start, first, tidy, *([second] if plan == "infinite" else [])]
            order = [block, *([] if plan == "infinite" else [second]), clean, third, rinse, end]
        elif plan == "bad input":  # `start` would be to blame, were `x` not bad already
            x[rng.integer(1, 3), rng.integer(0, 2)] = rng.choice((NAN, INF))
            children |= {start: offender(rng, "linear"), first: ["layer", "mix"], second: ["layer", "tanh"]}
            children |= {third: offender(rng, "nan"), fourth: offender(rng, "infinite")}
            inside = [start, tidy, first, clean, third]
            order = [block, rinse, second, fourth, end]
        elif plan == "container":
            children |= {first: ["layer", "relu"], second: linear(rng)}
            inside, factor = [start, first], rng.choice((NAN, INF))
            order = [block, second, tidy, end, clean, rinse]
        else:  # the same layer makes -Inf in one of its calls, of the zeros of a ReLU, and nothing bad in the other
            children |= {
                first: ["layer", "relu"],
                second: ["layer", "exp"],
                third: ["layer", "log"],
                again: ["same", third],
            }
            children |= {end: ["layer", "tanh"], fourth: offender(rng, "infinite"), fifth: offender(rng, "nan")}
            inside = [start, tidy]
            order = [block, first, third, clean, second, again, end, fourth, rinse, fifth]
            if plan == "second call":
                order = [block, second, third, first, again, clean, end, fourth, rinse, fifth]
        children[block] = chain({key: children.pop(key) for key in rng.shuffled(inside)}, inside, factor=factor)
        defined = rng.shuffled(list(children))
        if again in children and defined.index(again) < defined.index(third):  # a second name comes after the first
            early, late = defined.index(again), defined.index(third)
            defined[early], defined[late] = third, again
        return {
            "spec": chain({key: children[key] for key in defined}, order),
            "x": x,
            "plan": plan,
            "healthy": sound_model(rng, [start, first, second, third, fourth, fifth, end, block]),
        }

    def alive(spec, x, plan, healthy):
        guilty, defined = culprits(spec, x), first_defined(spec, x)
        if len(guilty) != {"bad input": 2, "container": 0}.get(plan, 3) or culprits(healthy, x.nan_to_num(1, 1, 1)):
            return False
        if module_names(spec)[-1] in guilty:  # where a name that is bound too late would look like another mistake
            return False
        if plan in ("nan", "infinite"):
            return defined == guilty[1]
        if plan == "bad input":
            wrong = {first_victim(spec, x), first_by_one_input(spec, x), *guilty}
            return defined == guilty[0] and len(wrong) == 4
        return plan == "container" or defined == guilty[0]

    def probe(student, spec, x, plan, healthy):
        witness, before, started = Witness(build(spec), ""), x.clone(), []
        with witness.model.register_forward_pre_hook(lambda module, args: started.append(1)):
            witness.hooks += 1
            seen = {"result": student.first_nonfinite(witness.model, x)}
            seen |= {**witness.report(), "callers_pre_hook_fired": len(started)}
        seen["x_kept"] = same_values(x, before) and not x.requires_grad
        good = x.nan_to_num(1, 1, 1)
        seen["healthy"] = student.first_nonfinite(build(healthy), good)
        return seen | when_it_raises(lambda: build(healthy), lambda model: student.first_nonfinite(model, good))

    mistakes = (
        Mistake(
            "reported-last",
            lambda seen, spec, x, plan: shown(plan, blames(seen, spec, x, last_culprit(spec, x))),
            "Several layers make something non-finite out of finite inputs, and you returned the last of them. "
            "The first one is asked for: once a name is found, keep it.",
        ),
        Mistake(
            "nan-only",
            lambda seen, spec, x: blames(seen, spec, x, first_by(torch.isnan, spec, x)),
            "You looked for NaN only. Inf counts, too: the log of 0 and a division by 0 give Inf, and NaN comes later. "
            "`torch.isfinite` is false for both.",
        ),
        Mistake(
            "blamed-the-victim",
            lambda seen, spec, x, plan: (
                plan in ("bad input", "container") and blames(seen, spec, x, first_victim(spec, x))
            ),
            "This layer got a NaN or an Inf and only passed it on. Look at the inputs, too: the layer to blame gets "
            "finite inputs and returns something that is not finite.",
        ),
        Mistake(
            "first-input-only",
            lambda seen, spec, x, plan: plan == "bad input" and blames(seen, spec, x, first_by_one_input(spec, x)),
            "You looked at `args[0]` only. This layer has a second tensor input, and that one is not finite: look at "
            "every tensor in `args`.",
        ),
        Mistake(
            "input-overwritten",
            lambda seen, spec, x, plan: plan == "in place" and blames(seen, spec, x, culprits(spec, x)[1]),
            "The layer to blame works in place. When its forward hook fires, its input is already overwritten with its "
            "output, and looks non-finite. Look at the inputs in a forward pre-hook.",
        ),
        Mistake(
            "definition-order",
            lambda seen, spec, x, plan: plan in ("nan", "infinite") and blames(seen, spec, x, first_defined(spec, x)),
            "You returned the first layer in the order of definition. The order asked for is that of execution: decide "
            "when a hook fires, not in a loop over `named_modules()` afterwards.",
        ),
        Mistake(
            "late-binding",
            lambda seen, spec, x, plan: (
                SILENT if plan == "bad input" else blames(seen, spec, x, module_names(spec)[-1])
            ),
            "You returned the name of the last module that is defined. Your hooks read the loop variable when they "
            "run, at its last value: bind it with a default argument (`name=name`).",
        ),
        Mistake(
            "only-last-call",
            lambda seen, spec, x, plan: plan == "reuse" and blames(seen, spec, x, culprits(spec, x)[1]),
            "A layer may run more than once, and here the first of its calls is to blame. You kept only the last call: "
            "decide at each call.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, spec, x, plan: plan == "second call" and blames(seen, spec, x, culprits(spec, x)[1]),
            "A layer may run more than once, and here the second of its calls is to blame. You looked at its first "
            "call only: decide at each call.",
        ),
        Mistake(
            "large-is-not-infinite",
            lambda seen, healthy: seen["healthy"].value == huge_layer(healthy),
            "You named a layer whose output is very large, but finite. The sum and the norm of such entries are "
            "infinite: look at the entries themselves, with `torch.isfinite(value).all()`.",
        ),
        Mistake(
            "children-only",
            lambda seen, spec, x, plan: shown(plan, blames(seen, spec, x, first_on_top(spec, x))),
            "You looked only at the modules directly below the model, and the layer to blame sits deeper. "
            "`children()` and `named_children()` yield one level; `named_modules()` yields them all.",
        ),
        Mistake(
            "named-a-container",
            lambda seen, spec: seen["result"].value in containers(spec),
            "You named a container. Only leaves count: modules for which `list(module.children())` is empty.",
        ),
        *HOOK_MISTAKES,
    )

    def test_the_first_leaf_to_blame_is_named(seen, spec, x):
        expected = [*culprits(spec, x), None][0]
        if expected is None and seen["result"].value is not None:
            expect(seen["result"]).differs("None", repr(seen["result"].value), note="no leaf is to blame")
        expect(seen["result"]).equals(expected)

    def test_a_healthy_model_gives_none(seen):
        expect(seen["healthy"]).equals(None)

    def test_the_model_runs_once(seen):
        expect(seen["runs"]).equals(1)
        if seen["callers_pre_hook_fired"].value != 1:
            expect(seen["callers_pre_hook_fired"]).fail("a hook that was on the model before did not fire once")

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_after_exception"])


def sound_model(rng: Rng, names: list[str]) -> list[Any]:
    """The spec of a model in which nothing goes wrong, not even in place, and not with huge numbers.

    The exponentials of numbers from -1 to 1, divided by 2 to the power of -126, are finite. Their sum is not.
    """
    made = [
        linear(rng),
        ["layer", "mix"],
        ["layer", "relu_"],
        ["layer", "tanh"],
        ["layer", "exp"],
        ["layer", "divide", torch.tensor([2.0**-126])],
        ["layer", "divide", torch.tensor([2.0**126])],
        linear(rng),
    ]
    children = dict(zip(names, made))
    return chain({key: children[key] for key in rng.shuffled(names)}, names)


def huge_layer(healthy: list[Any]) -> str:
    """The name of the layer of a sound model whose output is huge."""
    name: str = healthy[2][5]
    return name


def leaves(spec: list[Any], x: Tensor) -> list[Call]:
    """The calls of leaves in order."""
    return [call for call in trace(spec, x) if call.leaf]


def culprits(spec: list[Any], x: Tensor) -> list[str]:
    """The names of the leaves that make something non-finite from finite inputs, in order of execution."""
    return [call.name for call in leaves(spec, x) if call.bad_out and not call.bad_in]


def last_culprit(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who overwrites the first finding."""
    return [None, *culprits(spec, x)][-1]


def first_defined(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who goes by the order of definition."""
    return next((name for name in module_names(spec) if name in culprits(spec, x)), None)


def first_on_top(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at the direct children of the model only."""
    return next((name for name in culprits(spec, x) if "." not in name), None)


def first_victim(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at outputs only."""
    return next((call.name for call in leaves(spec, x) if call.bad_out), None)


def first_by_one_input(spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks at the first input only."""
    good = (call for call in leaves(spec, x) if bool(torch.isfinite(call.inputs[0]).all()))
    return next((call.name for call in good if call.bad_out), None)


def first_by(bad: Callable[[Tensor], Tensor], spec: list[Any], x: Tensor) -> str | None:
    """The answer of one who looks for `bad` entries only, such as NaN."""
    good = (call for call in leaves(spec, x) if not any(bool(bad(value).any()) for value in call.inputs))
    return next((call.name for call in good if bool(bad(call.output).any())), None)


def blames(seen: Seen, spec: list[Any], x: Tensor, name: str | None) -> bool:
    """Whether the answer is this name, and wrong, and not the name that one would find who looks for Inf only."""
    others = [*culprits(spec, x)[:1], first_by(torch.isinf, spec, x)]
    return name is not None and seen["result"].value == name and name not in others


def containers(spec: list[Any], name: str = "") -> list[str]:
    """The names of all modules that have children."""
    found = [name] if spec[0] in ("chain", "list") else []
    children = spec[1] if found else {}
    for key, child in children.items() if isinstance(children, dict) else enumerate(children):
        found += containers(child, f"{name}.{key}" if name else str(key))
    return found


def shown(plan: str, matches: bool) -> Any:
    """What a draw says where the plan shows it: with a bad input, or in place, other things go wrong as well."""
    return SILENT if plan in ("in place", "bad input") else matches
