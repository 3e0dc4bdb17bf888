"""How people empty the dicts in which modules keep their hooks."""

from collections.abc import Iterable, Sequence

from torch import nn

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def with_flag(model: nn.Module, flag: bool) -> nn.Module:
    """The same model, of which each module takes backward hooks of one kind alone."""
    for module in model.modules():
        module._is_full_backward_hook = flag
    return model


def stripped(modules: Iterable[nn.Module], kinds: Sequence[str] = KINDS) -> int:
    """Take these kinds of hooks off these modules, and count them."""
    found = 0
    for module in modules:
        for kind in kinds:
            found += len(getattr(module, kind))
            getattr(module, kind).clear()
    return found
