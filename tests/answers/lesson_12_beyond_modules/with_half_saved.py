"""Answers to 12-with-half-saved."""

HALF = """
from torch.autograd.graph import saved_tensors_hooks

def pack(tensor):
    return (tensor.dtype, tensor.detach().half() if tensor.is_floating_point() else tensor.detach())

def unpack(packed):
    return packed[1].to(packed[0])
"""

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
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return (tensor.dtype, tensor.detach().half()) if tensor.is_floating_point() else tensor.detach()
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
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

WRONG = {
    "halved-the-forward": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        if not tensor.is_floating_point():
            return tensor
        tensor.data.copy_(tensor.half())
        return tensor.dtype, tensor.half()
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    "nothing-packed": HALF
    + """
def with_half_saved(fn):
    result = fn()
    with saved_tensors_hooks(pack, unpack):
        return result
""",
    "float32-only": """
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return (tensor.dtype, tensor.detach().half()) if tensor.dtype == torch.float32 else tensor
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    "casted-integers": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    with saved_tensors_hooks(lambda t: (t.dtype, t.detach().half()), lambda packed: packed[1].to(packed[0])):
        return fn()
""",
    "dtype-not-restored": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return tensor.detach().half() if tensor.is_floating_point() else tensor
    def unpack(tensor):
        return tensor.float() if tensor.is_floating_point() else tensor
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    "stored-in-full": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return tensor.detach().half().to(tensor.dtype) if tensor.is_floating_point() else tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return fn()
""",
    "result-dropped": HALF
    + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        fn()
""",
    "hook-left-behind": HALF
    + """
def with_half_saved(fn):
    saved_tensors_hooks(pack, unpack).__enter__()
    return fn()
""",
    "hook-left-after-exception": HALF
    + """
def with_half_saved(fn):
    context = saved_tensors_hooks(pack, unpack)
    context.__enter__()
    result = fn()
    context.__exit__()
    return result
""",
}

ALSO_WRONG = [
    # tensors without dimensions are saved as they are
    HALF.replace("if tensor.is_floating_point()", "if tensor.is_floating_point() and tensor.dim()")
    + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    # the dtypes are good for one backward pass
    """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    dtypes = []
    def pack(tensor):
        dtypes.append(tensor.dtype)
        return tensor.detach().half() if tensor.is_floating_point() else tensor
    with saved_tensors_hooks(pack, lambda stored: stored.to(dtypes.pop())):
        return fn()
""",
    HALF
    + """
def with_half_saved(fn):
    fn()
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    """
def with_half_saved(fn):
    return fn()
""",
    """
import torch

def with_half_saved(fn):
    with torch.autocast("cpu", dtype=torch.float16):
        return fn()
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        return fn()
""",
    """
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        return (t.dtype, t.detach().bfloat16()) if t.is_floating_point() else t
    def unpack(p):
        return p[1].to(p[0]) if isinstance(p, tuple) else p
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    HALF
    + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        fn()
    return fn()
""",
    HALF
    + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        return fn()["out"]
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        small = t.detach().half() if t.is_floating_point() else t.detach()
        return lambda: small.to(t.dtype)
    with saved_tensors_hooks(pack, lambda restore: restore()):
        return fn()
""",
    """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        return t.detach(), t.dtype
    def unpack(p):
        return p[0].half().to(p[1]) if p[0].is_floating_point() else p[0]
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
]
