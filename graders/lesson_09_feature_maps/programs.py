"""How people watch modules while something runs: one right way, and the wrong ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

Note = Callable[[str, Any, Any], Any]
"""Gets the name of a module, the inputs, and the output of a call."""


def watched(
    modules: Mapping[str, nn.Module],
    note: Note,
    run: Callable[[Any], Any],
    batches: Iterable[Any],
    *,
    block: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    removal: str = "always",
) -> None:
    """Run each batch in a `block`. Hooks are removed "always", "after a good run", or "never"."""
    handles = []
    for name, module in modules.items():

        def hook(module: nn.Module, args: Any, output: Any, name: str = name) -> None:
            note(name, args, output)

        handles.append(module.register_forward_hook(hook))
    try:
        with block():
            for batch in batches:
                run(batch)
    except BaseException:
        if removal != "always":
            handles.clear()
        raise
    finally:
        for handle in handles if removal != "never" else ():
            handle.remove()


def without_gradients(model: nn.Module, layer: nn.Module, batches: Iterable[Any], note: Note, **how: Any) -> None:
    """The same for one layer of a model."""
    watched({"": layer}, note, model, batches, **{"block": torch.no_grad, **how})
