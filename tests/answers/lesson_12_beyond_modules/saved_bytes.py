"""Answers to 12-saved-bytes."""

from graders.author.answers import Wrong

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

HOOKED = """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes, kept = [], {}
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    def unpack(tensor):
        return tensor
    with saved_tensors_hooks(pack, unpack):
        fn()
    return sum(sizes)
"""
COUNTED, GRADS = "test_the_bytes_are_counted", "test_the_gradients_stay_right"

WRONG = [
    *(
        Wrong(
            what,
            violates="gets the right gradients",
            check=GRADS,
            source=HOOKED.replace(
                "        return tensor.detach()\n",
                f"        key = {key}\n        kept[key] = tensor.detach()\n        return key\n",
            ).replace("        return tensor\n", "        return kept[tensor]\n"),
        )
        for what, key in [
            ("keeps tensors by their id", "id(tensor)"),
            ("keeps one tensor for each address", "tensor.data_ptr()"),
        ]
    ),
    Wrong(
        "rounds what it keeps",
        violates="gets the right gradients",
        check=GRADS,
        source=HOOKED.replace("return tensor.detach()", "return tensor.detach().half().to(tensor.dtype)"),
    ),
    Wrong(
        "masks do not count",
        violates="Each tensor that is saved counts `numel() * element_size()`.",
        check=COUNTED,
        source=HOOKED.replace(
            "        sizes.append", "        if tensor.dtype != torch.bool:\n            sizes.append"
        ),
    ),
    Wrong(
        "runs fn twice",
        violates="call `fn()` once, without arguments",
        check="test_fn_runs_once_and_as_it_does_without_you",
        source=HOOKED.replace("    with saved", "    fn()\n    with saved"),
    ),
    Wrong(
        "adds up what the graph of the result holds",
        violates="`fn` may return anything",
        check=COUNTED,
        source="""
import torch

def saved_bytes(fn):
    total, y = 0, fn()
    todo, seen = [getattr(y, "grad_fn", None)], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved") and isinstance(getattr(node, name), torch.Tensor):
                total += getattr(node, name).nbytes
        todo += [after for after, _ in node.next_functions]
    return total
""",
    ),
]

SURVIVORS = {
    "not for all: return sum": "the other order",
    "lost copy": "a tensor may be kept as it is: nobody asks here for how long it lives",
    "one global slot: self.kept": "each tensor has a number of its own in it",
}
