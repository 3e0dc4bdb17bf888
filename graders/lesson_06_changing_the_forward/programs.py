"""How people run a model with a hook that changes an output: one right way, and the wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

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


def ran_in_eval(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:
    """You ran the model in eval mode, whatever its mode was. Norms and dropout then compute something else. Call the
    model as it is, and leave modes alone.
    """
    return run(model.eval(), name, hook, x)


def before_other_hooks(model: nn.Module, name: str, hook: Hook, x: Tensor) -> Tensor:
    """Your change comes first, and then a hook of the caller changes the output once more. What counts is the output as
    the next layer gets it: register your hook behind the others, without `prepend=True`, and leave `forward` alone.
    """
    return run(model, name, hook, x, prepend=True)


WRONG = (
    hook_left_behind,
    hook_left_after_exception,
    ran_in_eval,
    before_other_hooks,
)


def wrong_runs(program: Callable[..., Any]) -> type:
    """The base of a class `Mistakes`: `program(..., run=way)` for each wrong way to run a model."""

    def of(way: Callable[..., Tensor]) -> Callable[..., Any]:
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return program(*args, **kwargs, run=way)

        wrong.__doc__, wrong.__name__ = way.__doc__, way.__name__
        return wrong

    return type("WrongRuns", (), {way.__name__: of(way) for way in WRONG})
