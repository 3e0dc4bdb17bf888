"""How people run a model with a hook that changes an output: one right way, and the wrong ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from graders.exercises.lesson_05_capturing_activations.programs import wrong_runs as those_of_lesson_5

Hook = Callable[..., Any]


def run(model: nn.Module, name: str, hook: Hook, x: Tensor, **options: Any) -> Tensor:
    """What the model returns while the hook is on the submodule. `options` are those of `register_forward_hook`."""
    with model.get_submodule(name).register_forward_hook(hook, **options):
        found: Tensor = model(x).detach()
        return found


def hook_left_behind(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:  # noqa: D103 - COMMON says it
    model.get_submodule(name).register_forward_hook(hook)
    found: Tensor = model(x).detach()
    return found


def hook_left_after_exception(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:  # noqa: D103
    handle = model.get_submodule(name).register_forward_hook(hook)
    found: Tensor = model(x).detach()
    handle.remove()
    return found


def another_mode(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:  # noqa: D103
    return run(model.eval(), name, hook, x)


def another_mode__2(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:  # noqa: D103
    try:
        return run(model.eval(), name, hook, x)
    finally:
        model.train()


def before_other_hooks(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:
    """You change what goes into the module, or its output before one of the caller's hooks changes it once more. What
    counts is the output as the next layer gets it: register a forward hook, after the others, without `prepend=True`,
    and leave `forward` alone.
    """
    return run(model, name, hook, x, prepend=True)


def top_level_only(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:
    """You look for the submodule on the first level alone, so a nested name such as `"block.act"`, or `""`, finds none,
    or the whole model. `model.get_submodule(name)` finds it at any depth, and the model itself for `""`.
    """
    return run(model, name if name in dict(model.named_children()) else "", hook, x)


def top_level_only__2(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:  # noqa: D103
    with getattr(model, name).register_forward_hook(hook):
        found: Tensor = model(x).detach()
        return found


wrong_runs = partial(
    those_of_lesson_5,
    ways=(
        hook_left_behind,
        hook_left_after_exception,
        another_mode,
        another_mode__2,
        before_other_hooks,
        top_level_only,
        top_level_only__2,
    ),
)
"""The base of a class `Mistakes`: `program(..., run=way)` for each of these ways."""
