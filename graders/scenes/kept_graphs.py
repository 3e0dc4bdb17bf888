"""Finds out whether the graph of a forward pass is gone, by counting the tensors that it saved."""

import contextlib
import gc
import weakref
from collections.abc import Iterator

import torch
from torch import Tensor


class SavedTensor:
    """Stands for one tensor that the graph saved, and lives as long as the graph keeps it."""

    def __init__(self, tensor: Tensor) -> None:
        """Hold the values, in case somebody runs a backward pass."""
        self.tensor = tensor.detach()


class SavedTensorCounter:
    """Counts the tensors that a graph has saved."""

    def __init__(self) -> None:
        """Begin with nothing saved."""
        self._refs: list[weakref.ref[SavedTensor]] = []
        self._collections = 0

    def _pack(self, tensor: Tensor) -> SavedTensor:
        saved = SavedTensor(tensor)
        self._refs.append(weakref.ref(saved))
        return saved

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Count the tensors that are saved in this block.

        Garbage collection is off in it, so that all new objects stay in the youngest generation, which is quick to
        collect afterwards.
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
        """How many are still alive after garbage collection: a full one only if another has run since `watching`."""
        if any(ref() is not None for ref in self._refs):
            gc.collect(0 if _count_full_collections() == self._collections else 2)
        return sum(ref() is not None for ref in self._refs)


def _count_full_collections() -> int:
    """How often the garbage of all generations has been collected so far in this process."""
    return int(gc.get_stats()[-1]["collections"])
