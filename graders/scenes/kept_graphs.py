"""Whether the graph of a forward pass is gone: the tensors that it saved are counted."""

import contextlib
import gc
import weakref
from collections.abc import Iterator

import torch
from torch import Tensor


class SavedTensor:
    """Stands for one tensor that the graph saved; it lives as long as the graph needs it."""

    def __init__(self, tensor: Tensor) -> None:
        """Hold the values, in case somebody runs backward."""
        self.tensor = tensor.detach()


class SavedTensorCounter:
    """The tensors that the graph saved."""

    def __init__(self) -> None:
        """Nothing is saved yet."""
        self._refs: list[weakref.ref[SavedTensor]] = []
        self._collections = 0

    def _pack(self, tensor: Tensor) -> SavedTensor:
        saved = SavedTensor(tensor)
        self._refs.append(weakref.ref(saved))
        return saved

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Count what is saved in this block.

        No garbage is collected in it, so that all that is made there stays young: to collect that alone is quick.
        """
        enabled, self._collections = gc.isenabled(), _count_full_collections()
        gc.disable()
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda saved: saved.tensor):
                yield
        finally:
            if enabled:
                gc.enable()

    def count_alive(self) -> int:
        """How many are left when garbage has been collected: all of it, where somebody else did so meanwhile."""
        if any(ref() is not None for ref in self._refs):
            gc.collect(0 if _count_full_collections() == self._collections else 2)
        return sum(ref() is not None for ref in self._refs)


def _count_full_collections() -> int:
    """How often the garbage of all generations has been collected so far."""
    return int(gc.get_stats()[-1]["collections"])
