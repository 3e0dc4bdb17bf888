"""What references and wrong programs of several exercises of lesson 13 have in common."""

from __future__ import annotations

import contextlib

import torch


class State:
    """The random numbers, and the buffers and modes of a model, at a moment."""

    def __init__(self, model):
        """Copies."""
        self.random, self.buffers = torch.get_rng_state(), [(b, b.clone()) for b in model.buffers()]
        self.modes = {m: m.training for m in model.modules()}

    def put_back(self, what=("random", "buffers")):
        """These, and the modes."""
        for module, training in self.modes.items():
            module.training = training
        if "random" in what:
            torch.set_rng_state(self.random)
        for buffer, old in self.buffers if "buffers" in what else []:
            buffer.copy_(old)


@contextlib.contextmanager
def all_in_eval_mode(model):
    """In the block, every module is in eval mode."""
    before = State(model)
    model.eval()
    try:
        yield
    finally:
        before.put_back([])


@contextlib.contextmanager
def everything_kept(model, x):
    """Afterwards buffers, and `.grad` of all leaves, are as before."""
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
