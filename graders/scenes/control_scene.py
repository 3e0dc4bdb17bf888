"""The scene of the control, an exercise whose results are known in advance (`graders.marking.control`)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graders.probing.asking import detached_copy
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


@family(sections=("the gradient is doubled",), axes={"sign": ("positive", "negative")})
def doubles_a_gradient(call: Callable[[Tensor], Tensor], rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(t)`, which makes a tensor without dimensions from a leaf."""
    (doubled,) = seen.values()
    x = rng.tensor(3).requires_grad_()
    up = rng.uniform(1, 2) * (-1 if case.sign == "negative" else 1)
    torch.autograd.backward(call(x) * up)
    doubled["x.grad"] = detached_copy(x.grad)
