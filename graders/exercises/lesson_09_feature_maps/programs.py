"""How people watch modules while something runs: one right way, and the wrong ones."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn


def watched(
    modules: Mapping[str, nn.Module],
    note: Callable[[str, Any], Any],
    run: Callable[[Any], Any],
    batches: Iterable[Any],
    *,
    block: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    removal: Callable[[bool], bool] = lambda went_well: True,
    of: Callable[[Any, Any], Any] = lambda args, output: output,
    prepend: bool = False,
) -> None:
    """Run each batch in a `block`, and `note` names and outputs. `removal` says whether hooks are removed then.

    `of` picks what is noted from the arguments and the output. What `note` returns takes the place of the output, if it
    is not `None`.
    """
    handles, went_well = [], False
    for name, module in modules.items():

        def hook(module: nn.Module, args: Any, output: Any, name: str = name) -> Any:
            return note(name, of(args, output))

        handles.append(module.register_forward_hook(hook, prepend=prepend))
    try:
        with block():
            for batch in batches:
                run(batch)
        went_well = True
    finally:
        for handle in handles if removal(went_well) else ():
            handle.remove()
