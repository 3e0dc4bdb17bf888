"""How people run a model with hooks on some of its modules: one right way, and the wrong ones."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Keep = Mapping[str, Callable[[Any], Any]]
"""By the name of a module, what becomes of its output."""


def run_with_hooks(model: nn.Module, keep: Keep, x: Tensor, **options: Any) -> None:
    """Run the model once, and hand on the outputs. `options` are those of `register_forward_hook`."""
    with contextlib.ExitStack() as stack:
        for name, note in keep.items():

            def hook(module: nn.Module, args: Any, output: Any, note: Callable[[Any], Any] = note) -> None:
                note(output)

            stack.enter_context(model.get_submodule(name).register_forward_hook(hook, **options))
        model(x)


def hook_left_behind(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103 - says what COMMON says
    _registered(model, keep)
    model(x)


def hook_left_after_exception(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    handles = _registered(model, keep)
    model(x)
    for handle in handles:
        handle.remove()


def returned_the_copy(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """Your hook returns what it stored, and what a hook returns takes the place of the output. So the model went on
    with your copy. A hook that only watches returns `None`.
    """
    with contextlib.ExitStack() as stack:
        for name, note in keep.items():
            stack.enter_context(
                model.get_submodule(name).register_forward_hook(lambda module, args, output, note=note: note(output))
            )
        model(x)


def called_forward(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You called `model.forward(x)`, which runs no hook of the model itself, and there may be some. Call the model:
    `model(x)`.
    """
    handles = _registered(model, keep)
    try:
        model.forward(x)
    finally:
        for handle in handles:
            handle.remove()


def changed_the_mode(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You switched the model to another mode, with `eval()` or `train()`. BatchNorm and Dropout then compute something
    else. Run the model in the mode in which you got it, and leave it so.
    """
    run_with_hooks(model.eval(), keep, x)


def changed_the_mode__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    before = {module: module.training for module in model.modules()}
    run_with_hooks(model.eval(), keep, x)
    for module, training in before.items():
        module.training = training


def set_the_seed(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You set the seed of the random numbers, and they belong to your caller: dropout then leaves out the same numbers
    in every run. Leave the seed alone.
    """
    torch.manual_seed(0)
    run_with_hooks(model, keep, x)


def set_the_seed__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    torch.manual_seed(42)
    run_with_hooks(model, keep, x)


def ran_more_than_once(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You ran the model more than once. A second run computes everything again, and counts in what the model changes
    itself, as a batch norm does. One run is enough: the hook sees all of it.
    """
    run_with_hooks(model, keep, x)
    model(x)


def ran_more_than_once__2(model: nn.Module, keep: Keep, x: Tensor) -> None:  # noqa: D103
    model(x)
    run_with_hooks(model, keep, x)


def stopped_the_run(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You stopped the run when you had what you need. The task asks for a run to its end: hook, store, and let the
    model go on.
    """

    class Stop(Exception):
        pass

    left = dict(keep)

    def noted(name: str) -> Callable[[Any], None]:
        def note(output: Any) -> None:
            keep[name](output)
            left.pop(name, None)
            if not left:
                raise Stop

        return note

    with contextlib.suppress(Stop):
        run_with_hooks(model, {name: noted(name) for name in keep}, x)


def ran_a_copy(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You ran a copy of the model. What a run changes in a model, such as the statistics of a batch norm, has to change
    in the model itself: call `model(x)`.
    """
    run_with_hooks(copy.deepcopy(model), keep, x)


def callers_hook_removed(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """Hooks of the caller are gone. Remove your own hooks only, each by its handle."""
    run_with_hooks(model, keep, x)
    for name in keep:
        model.get_submodule(name)._forward_hooks.clear()


def before_the_callers_hook(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """A hook of the caller replaced the output, and you took it before that. Hooks of a module run in the order in
    which they were registered, those for all modules first: register yours on the module, without `prepend`.
    """
    run_with_hooks(model, keep, x, prepend=True)


def stored_the_input(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You took the input of the module. The task asks for its `output`. And where somebody calls the module with
    `module(input=x)`, `args` is empty.
    """
    with contextlib.ExitStack() as stack:
        for name, note in keep.items():

            def hook(module: nn.Module, args: Any, output: Any, note: Callable[[Any], Any] = note) -> None:
                note(args[0])

            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)


def skipped_the_model(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You called the submodule on `x` itself. In the model, other layers come before it: call `model(x)`, and let a
    hook on the submodule record what it makes of its real input.
    """
    for name, note in keep.items():
        note(model.get_submodule(name)(x))


def _registered(model: nn.Module, keep: Keep) -> list[Any]:
    def hook(module: nn.Module, args: Any, output: Any, note: Callable[[Any], Any]) -> None:
        note(output)

    return [
        model.get_submodule(name).register_forward_hook(functools.partial(hook, note=note))
        for name, note in keep.items()
    ]


WRONG = (
    hook_left_behind,
    hook_left_after_exception,
    returned_the_copy,
    called_forward,
    changed_the_mode,
    changed_the_mode__2,
    set_the_seed,
    set_the_seed__2,
    ran_more_than_once,
    ran_more_than_once__2,
    stopped_the_run,
    ran_a_copy,
    callers_hook_removed,
    before_the_callers_hook,
)


def wrong_runs(program: Callable[..., Any], *more: Callable[..., None], without: Sequence[str] = ()) -> type:
    """The base of a class `Mistakes`: `program(..., run=way)` for each wrong way to run a model.

    `more` are ways beside `WRONG`, and `without` names of ways that do no harm.
    """

    def of(way: Callable[..., None]) -> Callable[..., Any]:
        def wrong(*args: Any) -> Any:
            return program(*args, run=way)

        wrong.__doc__, wrong.__name__ = way.__doc__, way.__name__
        return wrong

    ways = {way.__name__: of(way) for way in (*WRONG, *more)}
    return type("WrongRuns", (), {name: way for name, way in ways.items() if name not in without})
