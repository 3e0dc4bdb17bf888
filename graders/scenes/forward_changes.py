"""Scenes for functions that put a hook on a module, which changes what goes in or what comes out.

`function(module, *arguments) -> handle`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from graders.box.callers_hooks import CallersHooks
from graders.box.failures import Failure
from graders.box.models import fill_grads, in_mode
from graders.box.passes import grad_mode, gradients
from graders.box.probing import removed, snapshot
from graders.box.witness import Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng, beyond_float32

Call = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional ones and keywords."""


class Scaling(nn.Module):
    """A factor for each number."""

    def __init__(self, weight: Tensor) -> None:
        """`weight` is of the shape of the input."""
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, z: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """A new tensor. More arguments count as well, and the caller passes none."""
        found: Tensor = z * self.weight + sum(numbers_in([*args, *kwargs.values()]))
        return found


def numbers_in(values: Sequence[Any]) -> list[Any]:
    """Those values that are numbers or tensors."""
    return [value for value in values if isinstance(value, Tensor | int | float)]


class Mixing(nn.Module):
    """Takes any arguments, adds up all numbers and tensors among them, and tells what it received.

    Backward looks at its output. As a tuple, this stands before what was added up.
    """

    def __init__(self, weight: Tensor, output: str = "tensor") -> None:
        """`output` is "tensor" or "tuple"."""
        super().__init__()
        self.inner: Scaling
        self.inner, self.output = Scaling(weight), output
        self.received: list[Arguments] = []
        self.failure: Failure | None = None
        self.returned: Any = None

    def forward(self, *args: Any, **options: Any) -> Any:
        """The factor of an argument is that of its place or of its name."""
        self.received.append((args, options))
        given = {2 + place: arg for place, arg in enumerate(args)} | {
            sum(map(ord, name)) % 97 / 16: options[name] for name in sorted(options)
        }
        z = torch.zeros_like(self.inner.weight) + sum(
            factor * number for factor, value in given.items() for number in numbers_in([value])
        )
        out = torch.exp(self.inner(z) / 16)
        if self.failure is not None:
            self.failure.strike()
        self.returned = (out, z) if self.output == "tuple" else out
        return self.returned

    def told(self, known: Mapping[str, Any]) -> str:
        """The names of the objects that `forward` received in each run since the last time."""

        def name_of(thing: Any) -> str:
            return next((name for name, one in known.items() if one is thing), f"another {type(thing).__name__}")

        lines = [
            ", ".join([*map(name_of, args), *(f"{key}={name_of(options[key])}" for key in sorted(options))])
            for args, options in self.received[:20]
        ]
        self.received.clear()
        return "; and once more: ".join(lines)


@dataclass
class Given:
    """What the learner's function is given beside a module, and a list in which that may note something."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


def a_factor(rng: Rng, case: Any) -> Given:
    """Never 1. Where it is not whole, float32 does not hold it, so that a detour through float32 shows."""
    if case.number == "whole":
        return Given((rng.choice((-3, -2, 2, 3, 4)),))
    return Given((beyond_float32(rng.number(case.number) * 9 / 7),))


def mean_and_deviation(rng: Rng, case: Any) -> Given:
    """Two numbers that float32 does not hold. One of them may be 0 or negative."""
    deviation = rng.choice((0.75, 1.5, 2.0, 2.5)) * 8 / 7 * (-1 if case.number == "negative" else 1)
    return Given((beyond_float32(rng.number(case.number) * 9 / 7), beyond_float32(deviation)))


def a_hook(rng: Rng, case: Any) -> Given:
    """A forward hook that multiplies and adds, and notes what it got. With the number 0 it returns nothing."""
    factor, shift = rng.choice((-3.0, -2.0, 2.0, 3.0)), rng.uniform(1, 3)
    given = Given()

    def hook(module: Any, args: Any, output: Any) -> Any:
        itself = "the output itself" if output is getattr(module, "returned", None) else "another object"
        given.log.append(f"a {type(module).__name__}, a {type(args).__name__} of {len(args)}, {itself}")
        return None if case.number == "zero" else affine(output, factor, shift)

    given.args = (hook,)
    return given


def keywords(rng: Rng, case: Any) -> Given:
    """Keywords of many kinds, none or several; some values count as false in Python, and any name may be one."""
    values: dict[str, list[Any]] = {
        "tensors": [rng.tensor(dtype=case.dtype), rng.tensor(dtype=case.dtype), 0],
        "nothing": [None, 0.0, False, ""],
        "containers": [[1, rng.tensor()], {"key": rng.uniform(1, 2)}, torch.relu],
        "numbers": [rng.uniform(2, 5), 0, -rng.uniform(1, 3)],
    }
    names = rng.shuffled(["kwargs", "args", *rng.names(2)]) if case.count == "many" else ["kwargs"]
    return Given((), dict(zip(names if case.count != "none" else [], rng.shuffled(values[case.value]))))


def as_usual(usual: Arguments, given: Given, beside: Any) -> dict[str, Arguments]:
    """One call."""
    return {"": usual}


def beside_many(usual: Arguments, given: Given, beside: Any) -> dict[str, Arguments]:
    """The usual call, and one with arguments of many kinds, among them the first once more."""
    (first, *rest), options = usual
    return {
        "": usual,
        " in a call with many arguments": (
            (first, None, *rest, "a text", [1], beside.half(), first),
            {**options, "nothing": None, "flag": False, "rows": [1]},
        ),
    }


def with_the_same_keywords(usual: Arguments, given: Given, beside: Any) -> dict[str, Arguments]:
    """Calls with and without keywords of the names that were given, and in every way to pass the input."""
    (first, *rest), options = usual
    same = dict.fromkeys(given.kwargs, beside)
    equal = {name: copy.copy(value) for name, value in given.kwargs.items() if isinstance(value, Tensor | list | dict)}
    return {
        "": usual,
        " in a call with the same keywords": (usual[0], {**options, **same}),
        " in a call without keywords": (usual[0], {}),
        " in a call by keyword alone": ((), {**options, "input": first}),
        " in a call with many arguments": (
            (first, None, *rest, "a text", [1]),
            {**equal, "flag": False, "nothing": None},
        ),
    }


@family(
    sections=(
        "{task}",
        "{gradients}",
        "{arrives}",
        "{twice}",
        "each handle removes its own hook",
        "only this module is changed",
        "nothing else changes",
        "{failing}",
        "{any}",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "rank": (0, 1, 2, 3),
        "values": ("round", "full"),
        "number": ("zero", "negative", "fraction", "large"),
        "mode": ("train", "eval"),
        "count": ("many", "one", "none"),
        "value": ("tensors", "nothing", "containers", "numbers"),
        "hooks": ("replacing", "watching", "none"),
        "others": ("none", "positional", "keyword", "both"),
        "output": ("tensor", "tuple"),
        "grad_mode": ("on", "off"),
        "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
    impossible=(
        lambda count, value: count != "many" and value in ("nothing", "containers"),
        lambda count, value: count == "many" and value == "numbers",
    ),
)
def changes_calls(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Callable[[Rng, Any], Given],
    calls: Callable[[Arguments, Given, Any], Mapping[str, Arguments]] = as_usual,
    also: Callable[[Call, Rng, Any, Given, dict[str, Any]], None] | None = None,
) -> None:
    """`arguments` draws what is given beside the module; `also` looks at modules of another kind."""
    task, gradient, arrives, twice, handles, others, same, failing, anything = seen.values()
    shape = rng.shape(case.rank)
    a, b, c, later, weight, up = (
        rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-2, high=2) for _ in "abclwu"
    )
    module, twin = (Mixing(weight, getattr(case, "output", "tensor")) for _ in range(2))
    for one in (module, twin):
        in_mode(fill_grads(one), case.mode)
    module.inner.train(case.mode != "train")
    callers = hooked(module, case.hooks)
    args = (a, *[b] * (case.others in ("positional", "both")))
    options = {"n": c} if case.others in ("keyword", "both") else {}
    leaves = [t.requires_grad_() for t in (*args, *options.values())]
    given, second_given = arguments(rng, case), arguments(rng, case)
    known = {"a": a, "b": b, "c": c, "None": None, "a text": "a text", **given.kwargs}

    def output(*args: Any, **options: Any) -> Any:
        return copied(module(*args, **options))

    things = {"module": module, "twin": twin, "a": a, "b": b, "c": c}
    before = Witness(**things)
    with grad_mode(case.grad_mode):
        watch = Witness(**things)
        first = call(module, *given.args, **given.kwargs)
        same["changed"] = watch.changes()
    for name, (positional, keyword) in calls((args, options), given, torch.full_like(weight, 0.5)).items():
        task[f"the output{name}"] = output(*positional, **keyword)
        arrives[f"what forward received{name}"] = module.told({**known, **named(positional, keyword)})
        arrives[f"what your hook was given{name}"] = (
            "; and once more: ".join(given.log[:20]) or "nothing: it was not called"
        )
        given.log.clear()
    gradient["the gradients"] = at_leaves(
        [*leaves, module.inner.weight], lambda: module(*args, **options), up, case.backward
    )
    gradient["the gradient, differentiated"] = differentiated(lambda: module(*args, **options), a, up)
    module.train(case.mode != "train")
    with torch.no_grad():
        watch = Witness(later=later)
        task["the output in the other mode"] = output(later, *args[1:], **options)
        same["changed in a call"] = watch.changes()
        later.mul_(-0.5)
        task["the output for other values"] = output(later, *args[1:], **options)
    in_mode(module, case.mode)
    module.inner.train(case.mode != "train")

    call(twin, *second_given.args, **second_given.kwargs)  # nobody keeps the handle
    others["the output of another module"] = copied(twin(*args, **options))
    others["the output of this module"] = output(*args, **options)
    second = call(module, *second_given.args, **second_given.kwargs)
    between = module.register_forward_hook(lambda module, args, output: affine(output, 1, 2))
    third = call(module, *given.args, **given.kwargs)
    twice["the output with three hooks"] = output(*args, **options)
    for which, handle in (("first", first), ("second", second), ("third", third)):
        handles[f"the {which} handle has remove()"] = removed(handle)
        handles[f"the output without the {which} hook"] = output(*args, **options)
    between.remove()
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]

    failure = Failure(case.failure)
    module.failure = failure
    call(module, *given.args, **given.kwargs)
    watch = Witness(**things)
    del given.log[:]
    failing["the exception"] = failure.during(lambda: module(*args, **options))
    failing["what your hook was given"] = "; and once more: ".join(given.log[:20]) or "nothing: it was not called"
    failing["changed after an exception"] = watch.changes()
    failing["the output of the next call"] = output(*args, **options)
    callers.remove()
    handles["the output when the caller's hooks are gone"] = output(*args, **options)
    if also is not None:
        also(call, rng, case, given, anything)


def hooked(module: nn.Module, hooks: str) -> CallersHooks:
    """The caller's hooks on a module. Those that replace multiply and add, which commutes with few other changes."""
    callers = CallersHooks(hooks).on_module(module, "module")
    if hooks == "replacing":
        callers.handles.append(module.register_forward_hook(lambda module, args, output: affine(output, 1, 1)))
    return callers


def affine(value: Any, factor: float, shift: float) -> Any:
    """Every tensor in a value, multiplied and shifted."""
    if isinstance(value, tuple):
        return tuple(affine(part, factor, shift) for part in value)
    return value * factor + shift


def named(args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Names for what a caller passes, after those that are known."""
    return {f"argument {place}": arg for place, arg in enumerate(args)} | {
        f"your {key}": options[key] for key in options
    }


def copied(output: Any) -> Any:
    """What a module returned, as it is now."""
    return tuple(snapshot(part) for part in output) if isinstance(output, tuple) else snapshot(output)


def first_of(output: Any) -> Any:
    """The tensor in what a module returned."""
    return output[0] if isinstance(output, tuple) else output


def at_leaves(leaves: list[Tensor], run: Callable[[], Any], up: Tensor, way: str) -> list[Any]:
    """The gradients when the output receives `up`; None where the output has no graph."""
    out = first_of(run())
    if not isinstance(out, Tensor) or not out.requires_grad:
        return [None for _ in leaves]
    return list(gradients(lambda: (first_of(run()) * up).sum(), leaves, way))


def differentiated(run: Callable[[], Any], leaf: Tensor, up: Tensor) -> Tensor | None:
    """The gradient at `up` of the sum of the gradient at the leaf; None when that has no graph."""
    out, up = first_of(run()), up.clone().requires_grad_()
    if not isinstance(out, Tensor) or not out.requires_grad:
        return None
    (found,) = torch.autograd.grad((out * up).sum(), leaf, create_graph=True, allow_unused=True)
    if found is None or not found.requires_grad:
        return None
    return torch.autograd.grad(found.sum(), up, allow_unused=True)[0]


def handed_on(call: Call, rng: Rng, case: Any, given: Given, seen: dict[str, Any]) -> nn.Module:
    """A module that hands on what it is given, as a view; and numbers that are not finite."""
    flatten, t, other = nn.Flatten(0), rng.tensor(3, dtype=case.dtype), rng.tensor(2, 2, dtype=case.dtype)
    t[0], t[1] = math.inf, math.nan
    leaky, flat = nn.LeakyReLU(0.5, inplace=True), rng.tensor(3, dtype=case.dtype)
    for module in (flatten, leaky):
        call(module, *given.args)
    watch = Witness(t=t, other=other)
    with grad_mode(case.grad_mode):
        seen["the output of nn.Flatten(0)"] = copied(flatten(t))
        seen["the output of nn.Flatten(0), twice through it"] = copied(flatten(flatten(other)))
        seen["the outputs of a module that works in place"] = [copied(leaky(flat)) for _ in range(2)]
    seen["changed in a call of nn.Flatten(0)"] = watch.changes()
    return flatten


def whole_numbers_too(call: Call, rng: Rng, case: Any, given: Given, seen: dict[str, Any]) -> None:
    """A module whose output holds whole numbers, as well."""
    one, whole = nn.Identity(), torch.tensor([rng.integer(2, 9), -rng.integer(2, 9)])
    call(one, 1.0)
    for name, module in (("", handed_on(call, rng, case, given, seen)), (" times 1.0", one)):
        try:
            seen[f"the output of whole numbers{name}"] = copied(module(whole))
        except RuntimeError as error:
            seen[f"the output of whole numbers{name}"] = f"{error}"[:100]


def what_hooks_return(call: Call, rng: Rng, case: Any, given: Given, seen: dict[str, Any]) -> None:
    """Hooks that return what counts as false in Python, hooks that raise, and a hook that calls the module again."""
    answer = {"zero": 0, "negative": False, "fraction": (), "large": {}}[case.number]
    failure, log = Failure(case.failure), list[str]()

    def stop(*args: Any) -> None:
        raise StopIteration("on purpose")

    def again(module: nn.Module, args: Any, output: float) -> float:
        log.append("called")
        return output + (module(output) if len(log) == 1 else 1)

    def fail(module: nn.Module, args: Any, output: float) -> float:
        failure.strike()
        return output + 1

    x = rng.uniform(1, 2)
    for name, hook in (
        ("the output when a hook returns nothing much", lambda *args: answer),
        ("the output of a hook that calls the module again", again),
        ("the output of a hook that raises StopIteration", stop),
        ("the output of a hook that raised in the call before", fail),
    ):
        module = nn.Identity()
        handle = call(module, hook)
        if hook is fail:
            seen["the exception of a hook"] = failure.during(lambda module=module: module(x))  # type: ignore[misc]
        try:
            seen[name] = module(x)
        except StopIteration as error:
            seen[name] = f"StopIteration: {error}"
        removed(handle)
