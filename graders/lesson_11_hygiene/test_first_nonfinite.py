"""Exercise 11-first-nonfinite."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Meanwhile,
    Mistake,
    Rng,
    Seen,
    Witness,
    came_through,
    changes,
    exercise,
    expect,
    laid_out,
    module_names,
    nothing_changed,
    paired,
    prepared,
    refuse,
)
from graders.lesson_11_hygiene.judging import (
    BEFORE_THE_CALLERS_HOOK,
    Call,
    Run,
    chain,
    in_eval_mode,
    of_kind,
    scrambled,
)
from graders.lesson_11_hygiene.shared import OPERATIONS, build, made, steps_of

# 11-first-nonfinite: nets in which some layers make NaN or Inf from finite numbers.

NAN, INF = float("nan"), float("inf")
LARGE = 3e38
"""A finite number. The sum of two of them, and so their mean, is infinite in float32."""

BY_ENTRIES = [
    *(([before, 1.0], [after, after], None) for before in (NAN, INF, -INF) for after in (NAN, INF, -INF)),
    *(([LARGE, LARGE], [1.0, after], "0") for after in (NAN, INF, -INF)),
    ([INF, INF], [NAN, NAN], None),
    ([1.0, 1.0], [LARGE, LARGE], None),
]
"""What a leaf gets and what it returns, and the name to blame: every bad entry excuses every other one."""
INFINITE = 10
"""The place of finite numbers of which a leaf makes Inf."""


class ModelError(RuntimeError, ValueError, StopIteration, AssertionError):
    """Of several types at once: an answer that stops the pass with one of them must not swallow the model's own."""


class Log(nn.Module):
    """The layer of the contract's example."""

    def forward(self, x: Tensor) -> Tensor:
        """The natural logarithm."""
        return x.log()


class Gives(nn.Module):
    """A leaf that returns what it is told to, whatever it gets."""

    def __init__(self, output: list[float]) -> None:
        """The numbers of the output."""
        super().__init__()
        self.output = output

    def forward(self, x: Tensor) -> Tensor:
        """The numbers."""
        return x.new_tensor(self.output)


class Masked(nn.Module):
    """A leaf with a second argument that may be `None`."""

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The logarithm, or its product with a mask."""
        return x.log() if mask is None else mask * x.log()


class Unmasked(nn.Module):
    """A model that calls its leaf without a mask."""

    def __init__(self) -> None:
        """One leaf."""
        super().__init__()
        self.leaf = Masked()

    def forward(self, x: Tensor) -> Tensor:
        """What the leaf makes of `x` and `None`."""
        result: Tensor = self.leaf(x, None)
        return result


class Mean(nn.Module):
    """A leaf that makes a NaN where there are no entries."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean over the first dimension."""
        return x.mean(0)


AT_FIRST_EXCUSED = [
    "chain",
    {"log": ["layer", "log"], "clean": ["layer", "clean"], "negative": ["layer", "negative"], "again": ["same", "log"]},
    ["log", "clean", "negative", "again"],
    {},
]
"""A model in which `log` passes a NaN on in its first call, and makes one of negative numbers in its second."""


class Layers:
    """Draws layers for inputs of one shape and dtype."""

    def __init__(self, rng: Rng, dtype: str, values: str, shape: tuple[int, ...]) -> None:
        """All layers keep the shape."""
        self.rng, self.dtype, self.values, self.shape = rng, dtype, values, shape

    def x(self, layout: str = "contiguous") -> Tensor:
        """An input of finite numbers."""
        return self.rng.tensor(*self.shape, dtype=self.dtype, values=self.values, layout=layout)

    def affine(self) -> list[Any]:
        """The spec of a layer that makes nothing bad."""
        return ["affine", *(self.rng.tensor(low=-1.5, high=1.5, away=0.5, dtype=self.dtype) for _ in range(2))]

    def offender(self, kind: str) -> list[Any]:
        """The spec of a layer that makes some entries NaN or Inf from finite numbers.

        "affine" has a NaN as its weight. The others divide by a NaN, or by zero where "infinite", or subtract
        Inf where "minus infinity": one entry in the second half, or all of them "in place".
        """
        if kind == "affine":
            return ["affine", torch.full((), NAN, dtype=getattr(torch, self.dtype)), self.affine()[2]]
        by = self.rng.tensor(*self.shape, low=0.5, dtype=self.dtype)
        spoiled = slice(None) if kind == "in place" else self.some_entry(by)
        by.view(-1)[spoiled] = {"infinite": 0.0, "minus infinity": INF}.get(kind, NAN)
        operation = {"in place": "divide_", "minus infinity": "minus"}.get(kind, "divide")
        return ["layer", operation, by]

    def some_entry(self, t: Tensor) -> int:
        """The place of an entry that is not in the first row, unless there is only one."""
        return self.rng.integer(t.numel() // 2, t.numel() - 1)

    def sound(self, names: list[str]) -> list[Any]:
        """The spec of a model in which nothing goes wrong, not even in place, and not with huge numbers.

        The exponentials of numbers from -1 to 1, divided by a very small number, are finite. Their sum is not, and in
        float64 they are beyond what float32 can hold.
        """
        tiny = 2.0 ** (-126 if self.dtype == "float32" else -1022)
        plain = [self.affine(), ["layer", "mix"], ["layer", "relu_"], ["layer", "tanh"], ["layer", "exp"]]
        huge = [["layer", "divide", torch.tensor(by, dtype=getattr(torch, self.dtype))] for by in (tiny, 1 / tiny)]
        children = dict(zip(names, [*plain, *huge, self.affine()]))
        return chain({key: children[key] for key in self.rng.shuffled(names)}, names)


@exercise(
    "11-first-nonfinite",
    points=2,
    minutes=30,
    difficulty=3,
    core=True,
    title="Where the first NaN comes from",
    hints=(
        "`torch.isfinite(t).all()` is true when a tensor has neither NaN nor Inf.",
        "A layer that gets a NaN passes it on, and is not to blame. Compare what goes in with what comes out: the "
        "layer you look for gets only finite inputs. Look at the inputs in a pre-hook, since a layer that works in "
        "place has overwritten them when the forward hook fires.",
        "Several layers may be to blame. Keep the first entry only, in the order in which hooks fire. Remove all hooks "
        "in `finally`.",
    ),
    why=(
        "The pre-hook judges the inputs before a layer can overwrite them, and the first entry of the list is the "
        "first call to blame. Ending the run with an exception of your own would do as well, if the name is kept "
        "outside it: the model may catch that exception."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "place": ALL, "grad": ALL, "values": ALL, "mode": ALL,
            "frozen": ALL, "output": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL, "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "named": "it gets no name; leaves of every place are to blame",
            "follower": "a plan has a layer that works in place itself",
            "passing": "leaves get positional arguments",
            "backward": "it runs no backward pass",
            "registered": "a plan has a module that is not registered",
            "layers": "what a layer computes is its own business",
        },
        own={
            "plan": (
                "nan", "infinite", "in place", "bad input", "container", "not registered", "number", "reuse",
                "second call", "single layer", "cleaned",
            ),
            "x_is": ("data", "prepared"),
            "caught": (False, True),
            "fails_at": ("start", "end"),
        },
        impossible=[
            lambda hooks, hooked: hooks == "none" and hooked != "root",
            lambda hooks, plan: (hooks == "replacing") != (plan == "cleaned"),
            lambda output, plan: output != "tensor" and plan == "container",
            lambda x_is, place: x_is == "data" and place != "leaf",
            lambda layout, plan: layout == "expanded" and plan == "bad input",
            lambda mode, plan: mode == "mixed" and plan == "single layer",
            lambda caught, plan: caught and plan == "single layer",
        ],
    ),
)  # fmt: skip
class TestFirstNonfinite:
    """Write `first_nonfinite(model, x)`. Run the model, and find the first call of a leaf whose output has a NaN or
    an infinite entry while all its tensor inputs are finite. Return the name of that leaf, or `None` when there is no
    such call.

    - A leaf is a module of `model.named_modules()` without children. The model may be a leaf itself; then its name is
      `""`.
    - A leaf gets positional arguments: tensors, and perhaps values that hold no tensors, such as an infinite number,
      which is no tensor input. It returns one tensor.
    - Inputs count as they were when the leaf was called: some layers work in place. The output counts as it left the
      leaf: hooks of the caller may replace it.
    - A leaf that gets a NaN or an Inf is not to blame for what it passes on. Such an entry may be in `x`, or come from
      code between the leaves: then no leaf is to blame for it. A module that is called and not registered is such code.
    - Each call of a leaf is judged by itself. The model may catch an `Exception` of a part of it, also one that your
      hooks raise there, and go on.
    - You may stop the run as soon as the leaf is found. An exception that the model raises before that comes through;
      a later one may come through, or you return the name.

    **Example.** Let `Log` be a module whose `forward` returns `x.log()`. The log of 0 is minus infinity. For
    `model = nn.Sequential(nn.ReLU(), Log(), nn.Linear(2, 1))` and `x = torch.tensor([[-1., 2.]])`,
    `first_nonfinite(model, x)` returns `"1"`.
    """

    def draw(rng, dtype, rank, layout, values, mode, frozen, grad, output, hooks, hooked, plan, caught):
        names = rng.names(15)
        start, first, second, third, fourth, fifth, tidy, clean, rinse, block, end, again, modal, secret, no = names
        draws, factor, hidden = Layers(rng, dtype, values, rng.shape(rank)), 1.0, {}
        x, offender = draws.x(layout), draws.offender
        children = {name: ["layer", "clean"] for name in (tidy, clean, rinse)}
        children |= {start: draws.affine(), end: draws.affine(), modal: ["modal"]}
        if plan in ("nan", "infinite", "in place", "cleaned"):
            kinds = {
                "nan": ("affine", "nan", "affine"),
                "infinite": ("minus infinity", "nan", "infinite"),
                "in place": ("in place", "nan", "infinite"),
                "cleaned": ("nan", "infinite", "affine"),
            }[plan]
            children |= {name: offender(kind) for name, kind in zip((first, second, third), kinds)}
            inside = [start, first, tidy, *([second] if plan == "infinite" else [])]
            order = [block, *([] if plan == "infinite" else [second]), clean, third, rinse, end]
        elif plan == "bad input":  # `start` would be to blame, were `x` not bad already
            x.view(-1)[draws.some_entry(x)] = rng.choice((NAN, INF, -INF))
            children |= {start: offender("affine"), first: ["layer", "mix"], second: ["layer", "tanh"]}
            children |= {third: offender("nan"), fourth: offender("infinite")}
            inside = [start, tidy, first, clean, third]
            order = [block, rinse, second, fourth, end]
        elif plan == "container":
            children |= {first: ["layer", "relu"], second: draws.affine(), again: ["same", second]}
            inside, factor = [start, first], rng.choice((NAN, INF))
            order = [second, block, again, tidy, end, clean, rinse]  # `second` gets good numbers first, then bad ones
        elif plan == "not registered":
            children |= {first: ["layer", "relu"], second: draws.affine(), fourth: ["layer", "mix"]}
            inside, hidden = [start, first], {secret: offender("nan")}
            order = [block, second, secret, fourth, end, clean, tidy, rinse]
        elif plan == "number":
            children |= {first: ["layer", "boost"], third: offender("nan"), fourth: offender("infinite")}
            inside = [start, tidy]
            order = [first, block, clean, third, rinse, fourth, end]
        else:  # the same layer makes NaN in one of its calls, and nothing bad in the other
            children |= {first: ["layer", "negative"], second: ["layer", "exp"], third: ["layer", "log"]}
            children |= {again: ["same", third], end: ["layer", "tanh"]}
            children |= {fourth: offender("nan"), fifth: offender("nan")}
            inside = [start, tidy]
            order = [block, first, third, clean, second, again, end, fourth, rinse, fifth]
            if plan == "second call":
                order = [block, second, third, first, again, clean, end, fourth, rinse, fifth]
        children[block] = chain(
            {key: children.pop(key) for key in rng.shuffled(inside)}, inside, factor=factor, output=output,
            careful=caught,
        )  # fmt: skip
        order = [modal, *([no] if caught else []), *order]
        children |= {no: ["refuses"]} if caught else {}
        spec = chain(scrambled(rng, children, order), order, output=output, hidden=hidden, careful=caught)
        healthy = draws.sound([start, first, second, third, fourth, fifth, end, block])
        if plan == "single layer":
            spec, healthy = offender("affine"), ["layer", "tanh"]
        guilty = culprits({"spec": spec, "evaluating": [], "cleaned": []}, x)
        return {
            "net": {
                "spec": spec,
                "evaluating": in_eval_mode(rng, spec, mode),
                "frozen": frozen if of_kind(spec, "affine") else "nothing",
                "grad": grad,
                "hooks": "none" if hooks == "none" else "watching",
                "watched": []
                if hooks == "none" or hooked == "parameter"
                else [*guilty, ""][:1] * (hooked == "named") or [""],
                "parameters": hooked == "parameter",
                "cleaned": guilty[:1] if hooks == "replacing" else [],
            },
            "x": x,
            "healthy": healthy,
        }

    def alive(net, x, plan, healthy):
        names = module_names(net["spec"])
        guilty, found = culprits({**net, "cleaned": []}, x), culprits(net, x)
        if plan == "single layer":
            return guilty == [""]
        if len(guilty) != {"bad input": 2, "container": 0, "not registered": 0}.get(plan, 3):
            return False
        if found != guilty[len(net["cleaned"]) :] or culprits(plain(healthy), x.nan_to_num(1, 1, 1)):
            return False
        if names[-1] in guilty:  # where a name that is bound too late would look like another mistake
            return False
        if plan in ("nan", "infinite"):
            return first_defined(net, x) == guilty[1]
        if plan == "bad input":
            wrong = {first_victim(net, x), first_by_one_input(net, x), *guilty}
            return first_defined(net, x) == guilty[0] and len(wrong) == 4
        return plan in ("container", "not registered") or first_defined(net, x) == found[0]

    def probe(
        student, net, x, healthy, layout, place, grad, x_is, call, grad_mode, failure, failing_run, fails_at,
    ):  # fmt: skip
        logs = nn.Sequential(Log(), nn.ReLU())
        logs[0].register_module("slot", None)  # it has no children all the same
        witness = Witness(model=logs)
        excused = build(AT_FIRST_EXCUSED), torch.tensor([NAN, 1.0])
        at_once = {
            "after a bad input": student.first_nonfinite(*excused),
            "at once": student.first_nonfinite(logs, torch.tensor([[0.0, 1e-30]])),
            "changed at once": witness.changes(),
            "without entries": student.first_nonfinite(nn.Sequential(nn.ReLU(), nn.Linear(2, 1)), torch.ones(0, 2)),
        }
        good = x.nan_to_num(1, 1, 1)
        x = laid_out(x, layout) if x_is == "data" else prepared(x, layout=layout, place=place, grad=grad)
        (model, callers), started = made(net), []
        for name in net["cleaned"]:
            model.get_submodule(name).register_forward_hook(lambda module, args, output: OPERATIONS["clean"](output))
        model.register_forward_pre_hook(lambda module, args: started.append(args[0] is x))
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=model, x=x)
            seen = {"result": student.first_nonfinite(model, x), "calls": len(started), "with x": all(started)}
            seen |= {"runs": getattr(model, "runs", 1), "steps": steps_of(model), "fired": list(callers.log)}
            seen["changed"] = witness.changes()
            if call == "again":
                seen["again, with NaN everywhere"] = student.first_nonfinite(model, torch.full_like(good, float("nan")))
            elif call == "in turn":
                seen["again, in another model"] = student.first_nonfinite(made(net)[0], good)
            seen["healthy"] = student.first_nonfinite(build(healthy), good)
            for key, failing in (("failure", Failure(failure, failing_run)), ("failure of many types", Failure("own"))):
                if key == "failure of many types":
                    failing.error = ModelError("on purpose")
                broken = build(healthy)
                leaf = [broken, *broken.children()][-1]
                if fails_at == "start":
                    broken.register_forward_pre_hook(failing.strike)
                else:
                    leaf.register_forward_hook(failing.strike)
                witness = Witness(model=broken, good=good)
                seen[key] = failing.during(lambda broken=broken: [student.first_nonfinite(broken, good) for _ in "12"])
                seen[f"changed by {key}"] = witness.changes()
        logs = nn.Sequential(Log())
        within = Meanwhile(lambda: student.first_nonfinite(logs, torch.zeros(2)), nn.Identity())
        seen["outer"] = student.first_nonfinite(nn.Sequential(within, nn.Identity(), Log()), torch.zeros(2))
        seen["by entries"] = [
            student.first_nonfinite(nn.Sequential(Gives(output)), torch.tensor(given))
            for given, output, _ in BY_ENTRIES
        ]
        seen["beside None"] = student.first_nonfinite(Unmasked(), torch.zeros(2))
        seen["the mean of nothing"] = student.first_nonfinite(nn.Sequential(nn.ReLU(), Mean()), torch.ones(0, 2))
        example = nn.Sequential(nn.ReLU(), Log(), nn.Linear(2, 1))
        return {**seen, **at_once, "example": student.first_nonfinite(example, torch.tensor([[-1.0, 2.0]]))}

    mistakes = (
        Mistake(
            "reported-last",
            lambda seen, net, x, plan: shown(plan, blames(seen, net, x, last_culprit(net, x))),
            "Several layers make something non-finite out of finite inputs, and you returned the last of them. "
            "The first one is asked for: once a name is found, keep it.",
        ),
        Mistake(
            "nan-only",
            lambda seen, net, x, plan: (
                SILENT
                if plan == "number"
                else seen["by entries"][INFINITE].value is None and blames(seen, net, x, first_by(torch.isnan, net, x))
            ),
            "You looked for NaN only. Inf counts, too: the log of 0 and a division by 0 give Inf, and NaN comes later. "
            "`torch.isfinite` is false for both.",
        ),
        Mistake(
            "blamed-the-victim",
            lambda seen, net, x, plan: (
                plan in ("bad input", "container", "not registered") and blames(seen, net, x, first_victim(net, x))
            ),
            "This layer got a NaN or an Inf and only passed it on. Look at the inputs, too: the layer to blame gets "
            "finite inputs and returns something that is not finite.",
        ),
        Mistake(
            "first-input-only",
            lambda seen, net, x, plan: plan == "bad input" and blames(seen, net, x, first_by_one_input(net, x)),
            "You looked at `args[0]` only. This layer has a second tensor input, and that one is not finite: look at "
            "every tensor in `args`.",
        ),
        Mistake(
            "input-overwritten",
            lambda seen, net, x, plan: plan == "in place" and blames(seen, net, x, culprits(net, x)[1]),
            "The layer to blame works in place. When its forward hook fires, its input is already overwritten with its "
            "output, and looks non-finite. Look at the inputs in a forward pre-hook.",
        ),
        Mistake(
            "definition-order",
            lambda seen, net, x, plan: plan in ("nan", "infinite") and blames(seen, net, x, first_defined(net, x)),
            "You returned the first layer in the order of definition. The order asked for is that of execution: decide "
            "when a hook fires, not in a loop over `named_modules()` afterwards.",
        ),
        Mistake(
            "late-binding",
            lambda seen, net, x, plan: (
                SILENT if plan == "bad input" else blames(seen, net, x, module_names(net["spec"])[-1])
            ),
            "You returned the name of the last module that is defined. Your hooks read the loop variable when they "
            "run, at its last value: bind it with a default argument (`name=name`).",
        ),
        Mistake(
            "only-last-call",
            lambda seen, net, x, plan: plan == "reuse" and blames(seen, net, x, culprits(net, x)[1]),
            "A layer may run more than once, and here the first of its calls is to blame. You kept only the last call: "
            "decide at each call.",
        ),
        Mistake(
            "only-first-call",
            lambda seen, net, x, plan: plan == "second call" and blames(seen, net, x, culprits(net, x)[1]),
            "A layer may run more than once, and here the second of its calls is to blame. You looked at its first "
            "call only: decide at each call.",
        ),
        Mistake(
            "large-is-not-infinite",
            lambda seen, healthy: seen["healthy"].value == huge_layer(healthy) is not None,
            "You named a layer whose output is very large, but finite. The sum and the norm of such entries may be "
            "infinite, and a float64 may be too large for float32: look at the entries themselves, as they are, with "
            "`torch.isfinite(value).all()`.",
        ),
        Mistake(
            "children-only",
            lambda seen, net, x, plan: shown(plan, blames(seen, net, x, first_on_top(net, x))),
            "You looked only at the modules directly below the model, and the layer to blame sits deeper. "
            "`children()` and `named_children()` yield one level; `named_modules()` yields them all.",
        ),
        Mistake(
            "named-a-container",
            lambda seen, net, plan: (
                SILENT
                if plan == "single layer"
                else seen["result"].value in of_kind(net["spec"], "chain")
                and (seen["result"].value != "" or plan == "not registered")
            ),
            "You named a container. Only leaves count: modules for which `list(module.children())` is empty.",
        ),
        Mistake(
            "named-a-class",
            lambda seen: seen["example"].value == "Log",
            "You returned the name of a class. The name that is asked for is that of `named_modules()`.",
        ),
        Mistake(
            "gave-up",
            lambda seen, plan: (
                plan == "bad input" and seen["result"].value is None and seen["after a bad input"].value is None
            ),
            "A bad value came from elsewhere first, as from `x`, and you gave up there. No leaf is to blame for it, "
            "but a later one may get finite inputs and return a bad value: go on looking.",
        ),
        Mistake(
            "blamed-the-unregistered",
            lambda seen, net, plan: (
                SILENT
                if plan == "cleaned"
                else plan == "not registered"
                and type(seen["result"].value) is str
                and seen["result"].value not in module_names(net["spec"])
            ),
            "You blamed a module that is called and not registered. It is not in `model.named_modules()`, so it has no "
            "name: it counts as the code between the leaves.",
        ),
        Mistake(
            "stopped-by-an-exception-alone",
            lambda seen, caught: caught and seen["result"].value is None,
            "You return what an exception of yours brings, or `None`. Here the model catches it, as it may, and goes "
            "on: note the name in your hook before you raise, and return what is noted.",
        ),
        Mistake(
            "out-of-step",
            lambda seen, net, x, caught: caught and blames(seen, net, x, first_by_the_call_before(net, x)),
            "You judged calls by the inputs of other calls. A leaf raised, the model caught it and went on: no forward "
            "hook followed this pre-hook, and a list of what was noted is out of step from there on. Note it anew in "
            "each pre-hook.",
            rather_than=("blamed-the-victim",),
        ),
        Mistake(
            "minus-infinity-missed",
            lambda seen, net, x: (
                seen["beside None"].value is None and blames(seen, net, x, first_by(nan_or_plus_infinity, net, x))
            ),
            "You missed minus infinity, which the log of 0 gives. `torch.isfinite` is false for NaN, for Inf and for "
            "-Inf.",
            rather_than=(
                "nan-only",
                "first-row-only",
                "children-only",
                "definition-order",
                "only-first-call",
                "only-last-call",
                "input-overwritten",
                "numbers-are-inputs",
            ),
        ),
        Mistake(
            "first-row-only",
            lambda seen, net, x: blames(seen, net, x, first_by(bad_in_the_first_row, net, x)),
            "You looked at a part of the entries only, such as the first row. One bad entry anywhere counts: look at "
            "all of them, with `torch.isfinite(value).all()`.",
        ),
        Mistake(
            "numbers-are-inputs",
            lambda seen, net, x, plan: plan == "number" and blames(seen, net, x, culprits(net, x)[1]),
            "A leaf got an infinite number beside its tensor, and you took it for a bad input. Only tensors count as "
            "inputs: this leaf makes Inf out of a finite tensor, and is to blame.",
        ),
        Mistake(
            "skips-the-model-itself",
            lambda seen, plan: plan == "single layer" and seen["result"].value is None,
            'The model may be a leaf itself, with the name `""`. Leave out neither the module nor its empty name, '
            "which is false in an `if`.",
        ),
        Mistake(
            "before-the-callers-hook",
            lambda seen, net: seen["result"].value in net["cleaned"],
            BEFORE_THE_CALLERS_HOOK,
        ),
        Mistake(
            "called-forward",
            lambda seen: seen["calls"].value == 0 and seen["runs"].value == 1,
            "You called `model.forward(x)`, which runs no hook of the model itself, and there may be some. "
            "Call the model: `model(x)`.",
            rather_than=("skips-the-model-itself",),
        ),
        Mistake(
            "changed-the-mode",
            lambda seen, net: (
                seen["calls"].value == 1
                and any(seen["steps"][name].value != count for name, count in steps(net).items())
            ),
            "You switched the model to another mode, with `eval()` or `train()`. Run the model in the mode in which "
            "you got it, and leave it so.",
        ),
        Mistake("hook-left-behind", lambda seen: bool(changes(seen["changed"], "hook-left *"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-left *") and bool(changes(seen["changed by failure"], "hook-left *"))
            ),
        ),
    )

    def test_the_first_leaf_to_blame_is_named(seen, net, x):
        named(seen["result"], culprits(net, x))

    def test_a_healthy_model_gives_none(seen):
        named(seen["healthy"], [])

    def test_each_call_begins_anew(seen, net, x, call):
        if call == "again":
            named(seen["again, with NaN everywhere"], culprits(net, torch.full_like(x, NAN)))
        elif call == "in turn":
            named(seen["again, in another model"], culprits({**net, "cleaned": []}, x.nan_to_num(1, 1, 1)))

    def test_the_model_runs_once_as_it_is(seen, net, x):
        if (seen["calls"].value, seen["runs"].value) != (1, 1):
            refuse(
                f"the model should be called exactly once, as `model(x)`: calls: {seen['calls'].value}, runs of its "
                f"`forward`: {seen['runs'].value}"
            )
        expect(seen["with x"]).is_true("the model got another tensor than `x`")
        for name, count in steps(net).items():
            if seen["steps"][name].value != count:
                refuse(f"`{name}` did not run once, in its mode")
        fired = [event.value for event in seen["fired"]]
        for name in net["watched"]:
            if f"pre {name}" not in fired:
                refuse(f"a hook of the caller on {f'`{name}`' if name else 'the model itself'} did not fire")

    def test_nothing_of_the_caller_changes(seen):
        nothing_changed(seen["changed at once"])
        nothing_changed(seen["changed"], but=["buffer *"])

    def test_it_holds_when_the_model_raises(seen):
        for key in ("failure", "failure of many types"):
            came_through(seen[key], "the model")
            nothing_changed(seen[f"changed by {key}"], but=["buffer *"], when="after an exception")

    def test_a_call_inside_a_call_finds_its_own(seen):
        expect(Seen(seen["outer"].value, "for a model that calls your function, the result")).equals("2")

    def test_any_bad_entry_counts_and_no_other(seen):
        for found, (given, output, name) in paired(seen["by entries"], BY_ENTRIES):
            expect(Seen(found.value, f"for a leaf that gets {given} and returns {output}, the result")).equals(name)
        none = Seen(seen["beside None"].value, "for a leaf that gets zeros and `None`, and returns -inf, the result")
        expect(none).equals("leaf")

    def test_a_tensor_without_entries_is_finite(seen):
        expect(Seen(seen["without entries"].value, "the result for an input without entries")).equals(None)
        mean = Seen(seen["the mean of nothing"].value, "for a ReLU and a mean of no rows, which is NaN, the result")
        expect(mean).equals("1")

    def test_the_example_comes_out(seen):
        expect(seen["example"]).equals("1")
        expect(Seen(seen["after a bad input"].value, "for a leaf that gets NaN first and finite numbers later")).equals(
            "log"
        )
        path = "for `nn.Sequential(Log(), nn.ReLU())`, where a child of `Log()` is `None`, and `[0, 1e-30]`, the result"
        expect(Seen(seen["at once"].value, path)).equals("0")


def named(seen: Seen, guilty: list[str]) -> None:
    """The name of the first leaf to blame, or None."""
    if not guilty and seen.value is not None:
        expect(seen).differs("None", repr(seen.value), note="no leaf is to blame")
    expect(seen).equals(guilty[0] if guilty else None)


def steps(net: dict[str, Any]) -> dict[str, int]:
    """How often each layer that counts runs in training mode. It is the first, and runs in any case."""
    return {name: int(name not in net["evaluating"]) for name in of_kind(net["spec"], "modal")}


def plain(spec: list[Any]) -> dict[str, Any]:
    """A model in training mode, without hooks."""
    return {"spec": spec, "evaluating": [], "cleaned": []}


def huge_layer(healthy: list[Any]) -> str | None:
    """The name of the layer of a sound model whose output is huge; None for a single layer."""
    return healthy[2][5] if healthy[0] == "chain" else None


def leaves(net: dict[str, Any], x: Tensor) -> list[Call]:
    """The calls of leaves in order."""
    run = Run(net["evaluating"], dict.fromkeys(net["cleaned"], OPERATIONS["clean"]))
    return [call for call in run.trace(net["spec"], x) if call.leaf]


def culprits(net: dict[str, Any], x: Tensor) -> list[str]:
    """The names of the leaves that make something non-finite from finite inputs, in order of execution."""
    return [call.name for call in leaves(net, x) if call.bad_out and not call.bad_in]


def first_by_the_call_before(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who judges an output by the inputs of the call before."""
    calls = itertools.pairwise(leaves(net, x))
    return next((call.name for before, call in calls if call.bad_out and not before.bad_in), None)


def last_culprit(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who overwrites the first finding."""
    return [None, *culprits(net, x)][-1]


def first_defined(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who goes by the order of definition."""
    return next((name for name in module_names(net["spec"]) if name in culprits(net, x)), None)


def first_on_top(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who looks at the direct children of the model only."""
    return next((name for name in culprits(net, x) if "." not in name and name), None)


def first_victim(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who looks at outputs only."""
    return next((call.name for call in leaves(net, x) if call.bad_out), None)


def first_by_one_input(net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who looks at the first input only."""
    good = (call for call in leaves(net, x) if bool(torch.isfinite(call.inputs[0]).all()))
    return next((call.name for call in good if call.bad_out), None)


def first_by(bad: Callable[[Tensor], Tensor], net: dict[str, Any], x: Tensor) -> str | None:
    """The answer of one who looks for `bad` entries only, such as NaN."""
    good = (call for call in leaves(net, x) if not any(bool(bad(value).any()) for value in call.inputs))
    return next((call.name for call in good if bool(bad(call.output).any())), None)


def nan_or_plus_infinity(value: Tensor) -> Tensor:
    """Where one finds something bad who forgets minus infinity."""
    return value.isnan() | (value == INF)


def bad_in_the_first_row(value: Tensor) -> Tensor:
    """Where the first row, or the only number, is not finite."""
    return ~torch.isfinite(value[:1] if value.dim() else value)


def blames(seen: Seen, net: dict[str, Any], x: Tensor, name: str | None) -> bool:
    """Whether the answer is this name, and wrong, and not the name that one would find who looks for Inf only."""
    others = [*culprits(net, x), None][:1] + [found for found in [first_by(torch.isinf, net, x)] if found is not None]
    return seen["result"].value == name and name not in others


def shown(plan: str, matches: bool) -> Any:
    """What a draw says where the plan shows it: with a bad input, or in place, other things go wrong as well."""
    return SILENT if plan in ("in place", "bad input", "single layer") else matches
