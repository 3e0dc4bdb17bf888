"""What probes of several exercises of lesson 12 use, beside the learner's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks


def saved_hooks_on() -> bool:
    """Whether a context of hooks on saved tensors is active: torch refuses to disable them then."""
    try:
        with disable_saved_tensors_hooks("hooks on saved tensors are active"):
            return False
    except RuntimeError:
        return True


def leave_saved_hooks() -> None:
    """Leave every context of hooks on saved tensors that an answer left active."""
    while saved_hooks_on():
        saved_tensors_hooks(lambda t: t, lambda t: t).__exit__(None, None, None)


def packs_of_the_caller(call: Callable[[], Any], x: Tensor) -> int:
    """How many tensors of `x * x`, run after `call`, go to hooks that were active before `call`."""
    packed = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(1)
        return tensor.detach()

    hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
    hooks.__enter__()
    try:
        call()
        packed.clear()
        x * x
        return len(packed)
    finally:
        if saved_hooks_on():  # an answer may have left them already
            hooks.__exit__(None, None, None)
