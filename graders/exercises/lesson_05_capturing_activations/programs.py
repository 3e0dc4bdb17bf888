"""How people run a model with hooks on some of its modules: one right way, and the wrong ones."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

from torch import Tensor, nn

from graders.exercises.authoring import wrong_ways

Note = Callable[[Any], Any]
Keep = Mapping[str, Note]
"""By the name of a module, what becomes of its output."""


def watch(note: Note, module: nn.Module, args: Any, output: Any) -> None:
    """A forward hook that hands on the output, and returns nothing."""
    note(output)


def hooked(model: nn.Module, keep: Keep, hook: Callable[..., Any] = watch, **options: Any) -> list[Any]:
    """The handles of such a hook on each module. `options` are those of `register_forward_hook`."""
    return [
        model.get_submodule(name).register_forward_hook(partial(hook, note), **options) for name, note in keep.items()
    ]


def run_with_hooks(
    model: nn.Module, keep: Keep, x: Tensor, hook: Callable[..., Any] = watch, run: Note | None = None, **options: Any
) -> None:
    """Run the model once, or call `run` in its place, and hand on the outputs."""
    handles = hooked(model, keep, hook, **options)
    try:
        (run or model)(x)
    finally:
        for handle in handles:
            handle.remove()


def copied(output: Tensor) -> Tensor:
    """A copy without a graph."""
    return output.detach().clone()


def outputs(
    model: nn.Module,
    names: Iterable[str],
    x: Tensor,
    run: Callable[..., None] = run_with_hooks,
    copy: Note = copied,
) -> dict[str, list[Any]]:
    """What each call of these modules puts out, by name, in the order of their first calls. A hook may return it."""
    found: dict[str, list[Any]] = {}

    def note(name: str, output: Any) -> Any:
        found.setdefault(name, []).append(copy(output))
        return found[name][-1]

    run(model, {name: partial(note, name) for name in names}, x)
    return found


def hook_left_behind(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103 - its message stands in core/mistakes.py
    hooked(model, keep)
    model(x)


def hook_left_after_exception(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    handles = hooked(model, keep)
    model(x)
    for handle in handles:
        handle.remove()


def returned_the_copy(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """Your hook returns something, and what a hook returns takes the place of the output. So the model went on with
    what you store, or with an output that has lost its graph. A hook that only watches returns `None`.
    """

    def hook(note: Note, module: nn.Module, args: Any, output: Any) -> Any:
        note(output)
        return output.detach()

    run_with_hooks(model, keep, x, hook)


def returned_the_copy__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103 - as above
    run_with_hooks(model, keep, x, lambda note, module, args, output: note(output))


def ran_on_a_copy(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You ran the model on a copy of `x` that has lost its graph. Call it with `x` itself: what goes on in the model
    keeps its graph, and only what you store is detached and copied.
    """
    run_with_hooks(model, keep, x.detach().clone())


def another_mode(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    run_with_hooks(model.eval(), keep, x)


def another_mode__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    mode = model.training
    try:
        run_with_hooks(model.eval(), keep, x)
    finally:
        model.train(mode)


def called_forward(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You called `model.forward(x)`, which leaves out the hooks of the model itself. Call the model: `model(x)`."""
    run_with_hooks(model, keep, x, run=model.forward)


def ran_a_copy(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You ran a copy of the model. The model itself has to run: what it counts and keeps in a run, as a batch norm
    does, stayed as it was. A hook that watches does it no harm, and `handle.remove()` takes it off.
    """
    run_with_hooks(copy.deepcopy(model), keep, x)


def last_handle_only(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You removed one handle alone, the last of your loop: the name `handle` held only one at a time. Keep all of them
    in a list, and call `remove()` of each.
    """
    *_, handle = hooked(model, keep)
    try:
        model(x)
    finally:
        handle.remove()


def last_handle_only__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    *_, handle = hooked(model, keep)
    model(x)
    handle.remove()


LAST_HANDLE = (last_handle_only, last_handle_only__2)
"""For exercises with several hooks."""


class Stop(Exception):
    """Ends a run."""


def stopped_the_run(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """Your hook ends the run with an exception of its own. The model has to run to its end: layers behind this one,
    and hooks on them, count as well.
    """

    def hook(note: Note, module: nn.Module, args: Any, output: Any) -> None:
        note(output)
        raise Stop

    with contextlib.suppress(Stop):
        run_with_hooks(model, keep, x, hook)


def before_the_callers_hook(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """One of the caller's hooks replaced the output, and you took it before that. Hooks of a module run in the order in
    which they were registered, those for all modules first: register yours on the module, without `prepend`.
    """
    run_with_hooks(model, keep, x, prepend=True)


def take_the_input(note: Note, module: nn.Module, args: Any, output: Any) -> None:
    """A forward hook that hands on the input."""
    note(args[0])


def stored_the_input(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You took the input of the module. The task asks for its `output`. And where somebody calls the module with
    `module(input=x)`, `args` is empty.
    """
    run_with_hooks(model, keep, x, take_the_input)


def skipped_the_model(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You called the submodule on `x` itself. In the model, other layers come before it: call `model(x)`, and let a
    hook on the submodule record what it makes of its real input.
    """
    for name, note in keep.items():
        note(model.get_submodule(name)(x))


WRONG = (
    hook_left_behind,
    hook_left_after_exception,
    returned_the_copy,
    returned_the_copy__2,
    ran_on_a_copy,
    another_mode,
    another_mode__2,
    called_forward,
    ran_a_copy,
    before_the_callers_hook,
)


def wrong_runs(
    program: Callable[..., Any],
    *more: Callable[..., Any],
    without: Sequence[str] = (),
    ways: Sequence[Callable[..., Any]] = WRONG,
) -> type:
    """The base of a class `Mistakes`: `program(..., run=way)` for each wrong way to run a model.

    `more` are ways beside `ways`, and `without` names of ways that do no harm.
    """

    def running(way: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(way)
        def run_so(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return program(*args, **kwargs, run=way)

        return run_so

    return wrong_ways(program, [running(way) for way in (*ways, *more) if way.__name__ not in without])
