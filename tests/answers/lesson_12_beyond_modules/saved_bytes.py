"""Answers to 12-saved-bytes."""

RIGHT = [
    """
import torch

class Scale:
    def __init__(self):
        self.sizes = []
    def pack(self, tensor):
        self.sizes.append(tensor.nbytes)
        return tensor
    def unpack(self, tensor):
        return tensor

def saved_bytes(fn):
    scale = Scale()
    with torch.autograd.graph.saved_tensors_hooks(scale.pack, scale.unpack):
        fn()
    return sum(scale.sizes)
""",
    """
from torch.autograd.graph import saved_tensors_hooks

class Counting(saved_tensors_hooks):
    def __init__(self):
        self.total = 0
        super().__init__(self.weigh, lambda number: self.kept[number])
        self.kept = {}
    def weigh(self, tensor):
        self.total += tensor.element_size() * tensor.shape.numel()
        number = len(self.kept)
        self.kept[number] = tensor.detach()
        return number

def saved_bytes(fn):
    counting = Counting()
    counting.__enter__()
    try:
        fn()
    finally:
        counting.__exit__()
    return counting.total
""",
    """
from collections import Counter
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = Counter()
    def pack(tensor):
        sizes[tensor.dtype.itemsize] += tensor.numel()
        return lambda: tensor
    with saved_tensors_hooks(pack, lambda give: give()):
        fn()
    return sum(size * count for size, count in sizes.items())
""",
    """
from contextlib import ExitStack
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    with ExitStack() as stack:
        stack.enter_context(saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t))
        fn()
    return sum(sizes)
""",
]


SURVIVORS = {
    "lost copy": "a tensor may be kept as it is: nobody asks here for how long it lives",
    "one global slot: self.kept": "each tensor has a number of its own in it",
}
