"""How people run a model with hooks on some of its modules: one right way, and the wrong ones."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def changed_the_mode(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You switched the model to another mode, with `eval()` or `train()`. BatchNorm and Dropout then compute something
    else. Run the model in the mode in which you got it, and leave it so.
    """
    run_with_hooks(model.eval(), keep, x)


def ran_more_than_once(model: nn.Module, keep: Keep, x: Tensor) -> None:
    """You ran the model more than once. A second run computes everything again, and counts in what the model changes
    itself, as a batch norm does. One run is enough: the hook sees all of it.
    """
    run_with_hooks(model, keep, x)
    model(x)


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
    changed_the_mode,
    ran_more_than_once,
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
