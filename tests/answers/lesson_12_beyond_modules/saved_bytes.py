"""Answers to 12-saved-bytes."""

RIGHT = [
    """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    total = 0
    def pack(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return total
""",
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
]

WRONG = {
    "elements-not-bytes": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    "four-bytes-each": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(4 * tensor.numel())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    "counted-in-unpack": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def unpack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor
    with saved_tensors_hooks(lambda tensor: tensor.detach(), unpack):
        fn()
    return sum(sizes)
""",
    "counted-once": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = {}
    def pack(tensor):
        sizes[id(tensor)] = tensor.numel() * tensor.element_size()
        kept.append(tensor)
        return tensor.detach()
    kept = []
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes.values())
""",
    "whole-storage": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.untyped_storage().nbytes())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    "packed-a-number": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    "ran-backward": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    total = 0
    def unpack(tensor):
        nonlocal total
        total += tensor.nbytes
        return tensor
    with saved_tensors_hooks(lambda tensor: tensor.detach(), unpack):
        y = fn()
        if y.requires_grad:
            y.sum().backward()
    return total
""",
    "hook-left-behind": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    saved_tensors_hooks(pack, lambda tensor: tensor).__enter__()
    fn()
    return sum(sizes)
""",
    "hook-left-after-exception": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    context = saved_tensors_hooks(pack, lambda tensor: tensor)
    context.__enter__()
    fn()
    context.__exit__()
    return sum(sizes)
""",
}

ALSO_WRONG = [
    # parameters are saved like other tensors
    """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            sizes.append(tensor.numel() * tensor.element_size())
        return tensor
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.nbytes)
        return tensor.detach()
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    """
def saved_bytes(fn):
    result = fn()
    return result.numel() * result.element_size()
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(float(tensor.nbytes))
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    fn()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        try:
            fn()
        except Exception:
            pass
    return sum(sizes)
""",
    """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: torch.zeros_like(tensor)):
        fn()
    return sum(sizes)
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    shapes = {}
    def pack(tensor):
        shapes[tensor.shape] = tensor.numel() * tensor.element_size()
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(shapes.values())
""",
]
