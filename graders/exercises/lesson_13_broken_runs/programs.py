"""What references and wrong programs of several exercises of lesson 13 have in common."""

import contextlib
from collections.abc import Collection, Iterator

import torch
from torch import Tensor, nn


class State:
    """The random numbers, and the buffers and modes of a model, at a moment."""

    def __init__(self, model: nn.Module) -> None:
        """Copies."""
        self.random, self.buffers = torch.get_rng_state(), [(b, b.clone()) for b in model.buffers()]
        self.modes = {m: m.training for m in model.modules()}

    def put_back(self, what: Collection[str] = ("random", "buffers")) -> None:
        """These, and the modes."""
        for module, training in self.modes.items():
            module.training = training
        if "random" in what:
            torch.set_rng_state(self.random)
        for buffer, old in self.buffers if "buffers" in what else []:
            buffer.copy_(old)


@contextlib.contextmanager
def grads_and_buffers_kept(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Afterwards `.grad` of the parameters and of `x`, and the buffers and modes of the model, are as before."""
    before, grads = State(model), [(leaf, leaf.grad) for leaf in (*model.parameters(), x)]
    try:
        yield
    finally:
        before.put_back(("buffers",))
        for leaf, grad in grads:
            leaf.grad = grad
