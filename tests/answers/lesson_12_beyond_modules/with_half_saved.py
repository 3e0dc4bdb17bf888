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
FIRST = "test_backward_works_with_float16_copies"
SECOND = "test_a_second_backward_gives_the_same_gradients"
FORWARD = "test_forward_is_exact"
OBJECT = "test_the_object_that_fn_returned_is_returned"
KEPT = "test_what_is_kept_is_float16"
REST = "test_nothing_else_changes_and_only_the_hooks_of_the_caller_are_active"
FAILURE = "test_an_exception_comes_through_and_leaves_no_hook"
BLOCK = "    with saved_tensors_hooks(pack, unpack):\n        return fn()\n"
HALVED = "        return tensor.dtype, tensor.detach().half()\n"
RESULT = "        y = fn()\n        return "
NO_FLOAT = "not tensor.is_floating_point()"


def changed(old: str, new: str) -> str:
    """The right answer with another text in place of one."""
    assert old in HOOKED
    return HOOKED.replace(old, new)


WRONG = [
    Wrong(
        "spares masks and indices of 64 bits alone",
        violates="All other saved tensors, such as indices and masks, come back as they were.",
        check="test_large_indices_stay",
        source="""
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        kept = tensor.dtype in (torch.bool, torch.int64)
        return tensor.dtype, tensor.detach() if kept else tensor.detach().half()

    with saved_tensors_hooks(pack, lambda packed: packed[1].to(packed[0])):
        return fn()
""",
    ),
    Wrong(
        "one copy for each address",
        violates="Floating-point tensors may be overwritten after they have been saved",
        check="test_a_tensor_that_is_overwritten_and_saved_again_is_saved_anew",
        source=changed("    def pack", "    copies = {}\n    def pack").replace(
            HALVED,
            "        key = tensor.data_ptr(), tensor.shape, tensor.dtype\n"
            "        return tensor.dtype, copies.setdefault(key, tensor.detach().half())\n",
        ),
    ),
    Wrong(
        "the largest number of float16 in the place of infinity",
        violates="What is too large for float16 comes back infinite",
        check="test_tensors_of_all_kinds_come_back",
        mistake="made-finite",
        source=changed(HALVED, "        return tensor.dtype, tensor.detach().clamp(-65504, 65504).half()\n"),
    ),
    Wrong(
        "the largest number of the old dtype in the place of infinity",
        violates="What is too large for float16 comes back infinite",
        check="test_tensors_of_all_kinds_come_back",
        mistake="made-finite",
        source=changed("return tensor.to(dtype)", "tensor = tensor.to(dtype)\n        "
                       "return tensor.nan_to_num(nan=torch.nan) if dtype.is_floating_point else tensor"),
    ),
    Wrong(
        "zero in the place of a NaN",
        violates="only a float16 copy is kept",
        check="test_tensors_of_all_kinds_come_back",
        source=changed(HALVED, "        return tensor.dtype, tensor.detach().half().nan_to_num(posinf=torch.inf, "
                       "neginf=-torch.inf)\n"),
    ),
    Wrong(
        "keeps what unpack has made",
        violates="only a float16 copy is kept",
        check=KEPT,
        mistake="stored-in-full",
        source="""
import torch
from torch.autograd.graph import saved_tensors_hooks

class Halved:
    def __init__(self, tensor):
        self.dtype, self.tensor = tensor.dtype, tensor.detach()
        if tensor.is_floating_point():
            self.tensor = self.tensor.half()
    def restored(self):
        self.tensor = self.tensor.to(self.dtype)
        return self.tensor

def with_half_saved(fn):
    with saved_tensors_hooks(Halved, Halved.restored):
        return fn()
""",
    ),
    Wrong(
        "indices of 16 bits",
        violates="All other saved tensors, such as indices and masks, come back as they were.",
        check="test_large_indices_stay",
        source="""
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        small = torch.float16 if tensor.is_floating_point() else torch.int16
        return tensor.dtype, tensor.detach() if tensor.dtype == torch.bool else tensor.detach().to(small)
    with saved_tensors_hooks(pack, lambda packed: packed[1].to(packed[0])):
        return fn()
""",
    ),
    Wrong(
        "overwrites what it packs",
        violates="rule 2: Tensors keep their values",
        check=FORWARD,
        mistake="halved-the-forward",
        source=changed(HALVED, "        tensor.data.copy_(tensor.half())\n" + HALVED),
    ),
    Wrong(
        "computes in float16",
        violates="Forward does not change",
        check=FIRST,
        source="""
import torch

def with_half_saved(fn):
    with torch.autocast("cpu", dtype=torch.float16):
        return fn()
""",
    ),
    Wrong(
        "fn runs before the block",
        violates="that autograd saves for backward while `fn()` runs",
        check=FIRST,
        mistake="nothing-packed",
        source=changed(BLOCK, "    result = fn()\n" + BLOCK.replace("fn()", "result")),
    ),
    Wrong(
        "only float32",
        violates="For each floating-point tensor that autograd saves",
        check=FIRST,
        mistake="float32-only",
        source=changed(NO_FLOAT, "tensor.dtype != torch.float32"),
    ),
    Wrong(
        "not the leaves",
        violates="For each floating-point tensor that autograd saves",
        check=FIRST,
        mistake="leaves-kept-in-full",
        source=changed(NO_FLOAT, f"tensor.is_leaf or {NO_FLOAT}"),
    ),
    Wrong(
        "not parameters",
        violates="For each floating-point tensor that autograd saves",
        check=FIRST,
        source=changed(NO_FLOAT, f"isinstance(tensor, torch.nn.Parameter) or {NO_FLOAT}"),
    ),
    Wrong(
        "not the data",
        violates="some may require no grad",
        check=FIRST,
        source=changed(NO_FLOAT, f"not tensor.requires_grad or {NO_FLOAT}"),
    ),
    Wrong(
        "not tensors without dimensions",
        violates="For each floating-point tensor that autograd saves",
        check=FIRST,
        source=changed(NO_FLOAT, f"{NO_FLOAT} or tensor.dim() == 0"),
    ),
    Wrong(
        "integers, too",
        violates="All other saved tensors, such as indices and masks, come back as they were.",
        check=FIRST,
        mistake="casted-integers",
        source=changed(NO_FLOAT, "False"),
    ),
    Wrong(
        "masks come back as float32",
        violates="All other saved tensors, such as indices and masks, come back as they were.",
        check=FIRST,
        mistake="casted-integers",
        source="""
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        return fn()
""",
    ),
    Wrong(
        "float32 comes back",
        violates="the copy is turned back to the dtype that the tensor had",
        check=FIRST,
        mistake="dtype-not-restored",
        source=changed("tensor.to(dtype)", "tensor.float() if tensor.is_floating_point() else tensor"),
    ),
    Wrong(
        "one dtype for all",
        violates="Its floating-point tensors are float32 or float64, or some of each",
        check=FIRST,
        mistake="dtype-not-restored",
        source=changed("    def pack(tensor):", "    dtypes = {}\n    def pack(tensor):")
        .replace(HALVED, "        dtypes['last'] = tensor.dtype\n        return None, tensor.detach().half()\n")
        .replace("tensor.to(dtype)", "tensor.to(dtype or dtypes['last'])"),
    ),
    Wrong(
        "the dtypes are good for one pass",
        violates="perhaps several times",
        check=SECOND,
        mistake="good-for-one-pass",
        source="""
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    dtypes = []
    def pack(tensor):
        dtypes.append(tensor.dtype)
        return tensor.detach().half() if tensor.is_floating_point() else tensor
    with saved_tensors_hooks(pack, lambda stored: stored.to(dtypes.pop())):
        return fn()
""",
    ),
    Wrong(
        "what is packed can be unpacked once",
        violates="perhaps several times",
        check=SECOND,
        mistake="good-for-one-pass",
        source=changed(HALVED, "        return tensor.dtype, [tensor.detach().half()]\n").replace(
            "tensor.to(dtype)", "(tensor.pop() if isinstance(tensor, list) else tensor).to(dtype)"
        ),
    ),
    Wrong(
        "a second pass gets other numbers",
        violates="perhaps several times",
        check=SECOND,
        mistake="good-for-one-pass",
        source=changed("        return tensor.to(dtype)\n",
                       "        result = tensor.to(dtype)\n        if tensor.is_floating_point():\n"
                       "            tensor.zero_()\n        return result\n"),
    ),
    Wrong(
        "rounded, and kept in full",
        violates="only a float16 copy is kept",
        check=KEPT,
        mistake="stored-in-full",
        source=changed(HALVED, "        return tensor.dtype, tensor.detach().half().to(tensor.dtype)\n"),
    ),
    Wrong(
        "rounds in unpack",
        violates="only a float16 copy is kept",
        check=KEPT,
        mistake="stored-in-full",
        source=changed(HALVED, "        return tensor.dtype, tensor.detach()\n").replace(
            "tensor.to(dtype)", "tensor.half().to(dtype) if tensor.is_floating_point() else tensor"
        ),
    ),
    Wrong(
        "the tensor lives on in a function",
        violates="only a float16 copy is kept",
        check=KEPT,
        mistake="stored-in-full",
        source="""
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        small = t.detach().half() if t.is_floating_point() else t.detach()
        return lambda: small.to(t.dtype)
    with saved_tensors_hooks(pack, lambda restore: restore()):
        return fn()
""",
    ),
    Wrong(
        "bfloat16",
        violates="only a float16 copy is kept",
        check=FIRST,
        mistake="bfloat16",
        source=changed(".half()", ".bfloat16()"),
    ),
    Wrong(
        "nothing is returned",
        violates="return the object that it returns",
        check=OBJECT,
        mistake="another-result",
        source=changed("return fn()", "fn()"),
    ),
    Wrong(
        "a tensor times one",
        violates="return the object that it returns",
        check=OBJECT,
        mistake="another-result",
        source=changed("        return fn()", RESULT + "y * 1 if isinstance(y, torch.Tensor) else y"),
    ),
    Wrong(
        "a list for a tuple",
        violates="return the object that it returns",
        check=OBJECT,
        mistake="another-result",
        source=changed("        return fn()", RESULT + "list(y) if isinstance(y, tuple) else y"),
    ),
    Wrong(
        "needs a tensor",
        violates="`fn` may return anything.",
        check="raised",
        source=changed("        return fn()", "        y = fn()\n        y.shape\n        return y"),
    ),
    Wrong(
        "runs fn once more",
        violates="Call `fn()` once, without arguments",
        check=FORWARD,
        source=changed("    with saved", "    fn()\n    with saved"),
    ),
    Wrong(
        "with grad in any case",
        violates="in the grad mode of the caller",
        check=FORWARD,
        source=changed("with saved_tensors_hooks", "with torch.enable_grad(), saved_tensors_hooks"),
    ),
    Wrong(
        "runs backward",
        violates="The caller runs backward later",
        check=REST,
        source=changed(
            "        return fn()",
            "        y = fn()\n    if isinstance(y, torch.Tensor) and y.requires_grad:\n"
            "        y.sum().backward(retain_graph=True)\n    return y",
        ),
    ),
    Wrong(
        "the hooks stay",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        mistake="hook-left-behind",
        source=changed(BLOCK, "    saved_tensors_hooks(pack, unpack).__enter__()\n    return fn()\n"),
    ),
    Wrong(
        "the context is not left when fn raises",
        violates="rule 3: When your function has returned, or raised",
        check=FAILURE,
        mistake="hook-left-after-exception",
        source=changed(
            BLOCK,
            "    context = saved_tensors_hooks(pack, unpack)\n    context.__enter__()\n    result = fn()\n"
            "    context.__exit__()\n    return result\n",
        ),
    ),
    Wrong(
        "the context is left under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILURE,
        source=changed(
            BLOCK,
            "    context = saved_tensors_hooks(pack, unpack)\n    context.__enter__()\n    try:\n"
            "        result = fn()\n"
            "    except Exception:\n        context.__exit__()\n        raise\n"
            "    context.__exit__()\n    return result\n",
        ),
    ),
    Wrong(
        "an exception is swallowed",
        violates="rule 4: Errors come through",
        check=FAILURE,
        source=changed("        return fn()", "        try:\n            return fn()\n"
                       "        except Exception:\n            pass"),
    ),
    Wrong(
        "leaves the hooks of the caller, too",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        source=changed(
            "        return fn()",
            "        result = fn()\n    try:\n        saved_tensors_hooks(pack, unpack).__exit__()\n"
            "    except RuntimeError:\n        pass\n    return result",
        ),
    ),
    Wrong(
        "a list of copies for all calls",
        violates="rule 1: It works however often it is called",
        check="test_another_call_packs_anew",
        source=changed(HALVED, "        CACHE.setdefault(tensor.data_ptr(), []).append(tensor.detach().half())\n"
                       "        return tensor.dtype, CACHE[tensor.data_ptr()][0]\n").replace(
            "def with_half_saved", "CACHE = {}\n\ndef with_half_saved"
        ),
    ),
    Wrong(
        "a mask as numbers",
        violates="All other saved tensors, such as indices\n    and masks, come back as they were.",
        check="test_tensors_of_all_kinds_come_back",
        source=changed(
            "            return tensor.dtype, tensor.detach()\n",
            "            is_mask = tensor.dtype == torch.bool\n"
            "            return (torch.uint8, tensor.byte()) if is_mask else (tensor.dtype, tensor.detach())\n",
        ),
    ),
    Wrong(
        "whole numbers of 32 bits",
        violates="All other saved tensors, such as indices\n    and masks, come back as they were.",
        check="test_tensors_of_all_kinds_come_back",
        source=changed(
            "            return tensor.dtype, tensor.detach()\n",
            "            small = tensor.int() if tensor.dtype == torch.int64 else tensor.detach()\n"
            "            return tensor.dtype, small\n",
        ),
    ),
    Wrong(
        "one copy for each address, shape and version",
        violates="For each\n    floating-point tensor that autograd saves",
        check="test_tensors_of_all_kinds_come_back",
        source=changed(
            HALVED,
            "        key = tensor.data_ptr(), tensor.shape, tensor.dtype, tensor._version\n"
            "        return tensor.dtype, kept.setdefault(key, tensor.detach().half())\n",
        ).replace("    def pack", "    kept = {}\n    def pack"),
    ),
    Wrong(
        "a list becomes a tuple",
        violates="return the object that it returns",
        check=OBJECT,
        source=changed(
            "        return fn()\n", "        y = fn()\n    return tuple(y) if isinstance(y, list) else y\n"
        ),
    ),
]  # fmt: skip

GIVENS = [
    "Write `with_half_saved(fn)`.",
    "It uses no hooks on saved tensors, and so does not call your function.",
    "While `fn()` runs, hooks of the caller on saved tensors may be silent.",
    "indices and masks are not",
]

SURVIVORS = {
    "a list for a tuple": "what `pack` returns is for `unpack` alone",
    "truth for None": "a dtype is always true",
}
