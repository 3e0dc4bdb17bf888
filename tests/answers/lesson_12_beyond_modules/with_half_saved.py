"""Answers to 12-with-half-saved."""

from graders.author.answers import Wrong

RIGHT = [
    """
import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        if tensor.is_floating_point():
            return tensor.dtype, tensor.detach().numpy().astype(np.float16)
        return tensor
    def unpack(packed):
        return torch.from_numpy(packed[1]).to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    """
import torch

class Halved:
    def __init__(self, tensor):
        self.dtype = tensor.dtype
        self.stored = tensor.detach().to(torch.float16) if tensor.dtype.is_floating_point else tensor
    @property
    def tensor(self):
        return self.stored.to(self.dtype)

def with_half_saved(fn):
    with torch.autograd.graph.saved_tensors_hooks(Halved, lambda halved: halved.tensor):
        result = fn()
    return result
""",
    """
import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

def pack(tensor):
    if not torch.is_floating_point(tensor):
        return tensor, None
    return tensor.detach().numpy().astype(np.float16), tensor.dtype

def unpack(packed):
    stored, dtype = packed
    return stored if dtype is None else torch.from_numpy(stored).to(dtype)

def with_half_saved(fn):
    context = saved_tensors_hooks(pack, unpack)
    context.__enter__()
    try:
        return fn()
    finally:
        context.__exit__(None, None, None)
""",
    """
from contextlib import ExitStack
from functools import partial
from torch.autograd.graph import saved_tensors_hooks

def back(dtype, stored):
    return stored.to(dtype)

def with_half_saved(fn):
    def pack(t):
        small = t.half() if t.is_floating_point() else t
        return partial(back, t.dtype, small.detach())
    with ExitStack() as stack:
        stack.enter_context(saved_tensors_hooks(pack, lambda restore: restore()))
        return fn()
""",
]

HOOKED = """
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        if not tensor.is_floating_point():
            return tensor.dtype, tensor.detach()
        return tensor.dtype, tensor.detach().half()
    def unpack(packed):
        dtype, tensor = packed
        return tensor.to(dtype)
    with saved_tensors_hooks(pack, unpack):
        return fn()
"""

WRONG = [
    Wrong(
        "a second pass gets other numbers",
        violates="perhaps several times",
        check="test_each_later_pass_has_the_same_gradients",
        source=HOOKED.replace(
            "        return tensor.to(dtype)\n",
            "        result = tensor.to(dtype)\n        if tensor.is_floating_point():\n"
            "            tensor.zero_()\n        return result\n",
        ),
    ),
    Wrong(
        "with grad in any case",
        violates="in the caller's grad mode",
        check="test_fn_runs_once_and_as_it_does_without_you",
        source=HOOKED.replace("with saved_tensors_hooks", "with torch.enable_grad(), saved_tensors_hooks"),
    ),
]

SURVIVORS = {
    "the result's memory used again": "it meets only a result of the same `fn`, with equal numbers",
    "a list for a tuple": "what `pack` returns is for `unpack` alone",
}
