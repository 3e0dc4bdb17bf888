"""Scenes for `function(module, *arguments) -> handle`, which registers a hook that changes a module's calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_handle
from graders.scenes.call_arguments import Arguments, GivenArguments, as_usual
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads, in_mode
from graders.scenes.instruments.passes import compute_gradients, grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn
from graders.wire.draws import Rng


class Mixing(nn.Module):
    """Takes any arguments, adds up all numbers and tensors among them, and reports what it received.

    Its backward pass uses its output.
    """

    def __init__(self, weight: Tensor) -> None:
        """`weight` has the shape of the inputs."""
        super().__init__()
        self.inner = Fn(lambda module, z: z * module.weight, weight=nn.Parameter(weight.clone()))
        self.received: list[Arguments] = []
        self.failure: Failure | None = None
        self.returned = weight

    def forward(self, *args: Any, **options: Any) -> Tensor:
        """The weighted sum. Each argument has a factor that depends on its position or its name."""
        self.received.append((args, options))
        given = {2 + place: arg for place, arg in enumerate(args)} | {
            sum(map(ord, name)) % 97 / 16: options[name] for name in sorted(options)
        }
        z = torch.zeros_like(self.inner.get_parameter("weight"))
        for factor, value in given.items():
            z = z + factor * value if isinstance(value, Tensor | int | float) else z
        self.returned = torch.exp(self.inner(z) / 16)
        if self.failure is not None:
            self.failure.raise_if_due()
        return self.returned

    def describe_received(self, known: Mapping[str, Any]) -> str:
        """Name the objects that `forward` received in each run since the last call of this method."""

        def name_of(thing: Any) -> str:
            return next((name for name, one in known.items() if one is thing), f"another {type(thing).__name__}")

        lines = [
            ", ".join([*map(name_of, args), *(f"{key}={name_of(options[key])}" for key in sorted(options))])
            for args, options in self.received[:20]
        ]
        self.received.clear()
        return "; and once more: ".join(lines)


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
        "given": ("tensors", "none", "nothing", "containers", "a number"),
        "hooks": ("replacing", "watching", "none"),
        "others": ("none", "positional", "keyword", "both"),
        "grad_mode": ("on", "off"),
        "backward": ("plain", "create_graph", "autograd.grad", "after an aborted one"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
)
def changes_calls(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    arguments: Callable[[Rng, Any], GivenArguments],
    calls: Callable[[Arguments, GivenArguments, Any], Mapping[str, Arguments]] = as_usual,
    also: Callable[[Call, Rng, Any, GivenArguments, dict[str, Any]], None] | None = None,
) -> None:
    """`arguments` draws the arguments besides the module, and `calls` lists the calls of it.

    `also` observes modules of another kind.
    """
    task, gradient, arrives, twice, handles, others, same, failing, anything = seen.values()
    shape = rng.shape(case.rank)
    a, b, c, later, weight, up = (
        rng.tensor(*shape, dtype=case.dtype, values=case.values, low=-2, high=2) for _ in "abclwu"
    )
    module, twin = (Mixing(weight) for _ in range(2))
    for one in (module, twin):
        in_mode(fill_grads(one), case.mode)
    module.inner.train(case.mode != "train")
    callers = add_callers_hooks(module, case.hooks)
    args = (a, *[b] * (case.others in ("positional", "both")))
    options = {"n": c} if case.others in ("keyword", "both") else {}
    leaves = [t.requires_grad_() for t in (*args, *options.values())]
    given, second_given = arguments(rng, case), arguments(rng, case)
    known = {"a": a, "b": b, "c": c, "None": None, "a text": "a text", **given.kwargs}

    def output(*args: Any, **options: Any) -> Any:
        return detached_copy(module(*args, **options))

    things = {"module": module, "twin": twin, "a": a, "b": b, "c": c}
    before = Witness(**things)
    with grad_mode(case.grad_mode):
        watch = Witness(**things)
        first = call(module, *given.args, **given.kwargs)
        same["changed"] = watch.changes()
    for name, (positional, keyword) in calls((args, options), given, torch.full_like(weight, 0.5)).items():
        task[f"the output{name}"] = output(*positional, **keyword)
        arrives[f"what forward received{name}"] = module.describe_received(
            {**known, **name_arguments(positional, keyword)}
        )
        arrives[f"what your hook was given{name}"] = (
            "; and once more: ".join(given.log[:20]) or "nothing: it was not called"
        )
        given.log.clear()
    gradient["the gradients"] = leaf_gradients(
        [*leaves, module.inner.get_parameter("weight")], lambda: module(*args, **options), up, case.backward
    )
    with torch.no_grad():
        watch = Witness(later=later)
        task["the output for other values"] = output(later, *args[1:], **options)
        same["changed in a call"] = watch.changes()

    call(twin, *second_given.args, **second_given.kwargs)  # the handle is not kept
    others["the output of another module"] = detached_copy(twin(*args, **options))
    others["the output of this module"] = output(*args, **options)
    second = call(module, *second_given.args, **second_given.kwargs)
    between = module.register_forward_hook(lambda module, args, output: output + 2)
    third = call(module, *given.args, **given.kwargs)
    twice["the output with three hooks"] = output(*args, **options)
    for which, handle in (("first", first), ("second", second), ("third", third)):
        handles[f"the {which} handle has remove()"] = remove_handle(handle)
        handles[f"the output without the {which} hook"] = output(*args, **options)
    between.remove()
    handles["changed after remove()"] = [change for change in before.changes() if not change[0].startswith("grad-")]

    failure = Failure(case.failure)
    module.failure = failure
    call(module, *given.args, **given.kwargs)
    watch = Witness(**things)
    del given.log[:]
    failing["the exception"] = failure.outcome_during(lambda: module(*args, **options))
    failing["what your hook was given"] = "; and once more: ".join(given.log[:20]) or "nothing: it was not called"
    failing["changed after an exception"] = watch.changes()
    failing["the output of the next call"] = output(*args, **options)
    callers.remove()
    handles["the output when the caller's hooks are gone"] = output(*args, **options)
    if also is not None:
        also(call, rng, case, given, anything)


def add_callers_hooks(module: nn.Module, hooks: str) -> CallersHooks:
    """Register the caller's hooks on a module. Replacing ones multiply and add, which commutes with few changes."""
    callers = CallersHooks(hooks).on_module(module, "module")
    if hooks == "replacing":
        callers.handles.append(module.register_forward_hook(lambda module, args, output: output + 1))
    return callers


def name_arguments(args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Names for the arguments that a caller passes."""
    return {f"argument {place}": arg for place, arg in enumerate(args)} | {
        f"your {key}": options[key] for key in options
    }


def leaf_gradients(leaves: list[Tensor], run: Callable[[], Any], up: Tensor, way: str) -> list[Any]:
    """The gradients of `leaves` when the output of `run()` receives `up`; None if the output has no graph."""
    out = run()
    if not isinstance(out, Tensor) or not out.requires_grad:
        return [None for _ in leaves]
    return list(compute_gradients(lambda: (run() * up).sum(), leaves, way))


def handed_on(call: Call, rng: Rng, case: Any, given: GivenArguments, seen: dict[str, Any]) -> None:
    """Try a module that returns a view of its input."""
    flatten, t = nn.Flatten(0), rng.tensor(2, 2, dtype=case.dtype)
    call(flatten, *given.args)
    watch = Witness(t=t)
    with grad_mode(case.grad_mode):
        seen["the output of nn.Flatten(0)"] = detached_copy(flatten(t))
    seen["changed in a call of nn.Flatten(0)"] = watch.changes()


def whole_numbers_too(call: Call, rng: Rng, case: Any, given: GivenArguments, seen: dict[str, Any]) -> None:
    """Try a module that returns a view of its input, and one whose output has an integer dtype."""
    handed_on(call, rng, case, given, seen)
    whole = nn.Identity()
    call(whole, *given.args)
    try:
        seen["the output of an integer dtype"] = detached_copy(
            whole(torch.tensor([rng.integer(2, 9), -rng.integer(2, 9)]))
        )
    except RuntimeError as error:
        seen["the output of an integer dtype"] = f"{error}"[:100]


def what_hooks_return(call: Call, rng: Rng, case: Any, given: GivenArguments, seen: dict[str, Any]) -> None:
    """Try hooks that return something falsy, and one that raises."""
    answer: Any = {"zero": 0, "negative": False, "fraction": (), "large": {}}[case.number]
    module, failure, x = nn.Identity(), Failure(case.failure), rng.uniform(1, 2)
    removing = call(module, lambda *args: answer)
    seen["the output when a hook returns a falsy value"] = module(x)
    remove_handle(removing)

    def once(module: nn.Module, args: Any, output: float) -> float:
        failure.raise_if_due()
        return output + 1

    call(module, once)
    seen["the exception of a hook"] = failure.outcome_during(lambda: module(x))
    seen["the output of the next call"] = module(x)
