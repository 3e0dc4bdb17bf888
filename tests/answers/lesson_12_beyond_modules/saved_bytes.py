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
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    def unpack(tensor):
        return tensor
    with saved_tensors_hooks(pack, unpack):
        fn()
    return sum(sizes)
"""
FIRST = "test_the_bytes_are_counted"
GRADS = "test_the_gradients_stay_right"
REST = "test_nothing_else_changes_and_only_the_hooks_of_the_caller_are_active"
FAILURE = "test_an_exception_comes_through_and_leaves_no_hook"
WEIGHED = "tensor.numel() * tensor.element_size()"
BLOCK = "    with saved_tensors_hooks(pack, unpack):\n        fn()\n"


def changed(old: str, new: str) -> str:
    """The right answer with another text in place of one."""
    assert old in HOOKED
    return HOOKED.replace(old, new)


WRONG = [
    Wrong(
        "keeps one tensor for each address",
        violates="gets the right gradients",
        check="test_two_tensors_with_one_address_both_come_back",
        source="""
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    kept, sizes = {}, []

    def pack(tensor):
        kept[tensor.data_ptr()] = tensor.detach()
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.data_ptr()

    with saved_tensors_hooks(pack, kept.__getitem__):
        fn()
    return sum(sizes)
""",
    ),
    Wrong(
        "elements",
        violates="Each tensor that is saved counts `numel() * element_size()`, whatever its dtype.",
        check=FIRST,
        mistake="elements-not-bytes",
        source=changed(WEIGHED, "tensor.numel()"),
    ),
    Wrong(
        "four bytes each",
        violates="Each tensor that is saved counts `numel() * element_size()`, whatever its dtype.",
        check=FIRST,
        mistake="four-bytes-each",
        source=changed(WEIGHED, "4 * tensor.numel()"),
    ),
    *(
        Wrong(what, violates="Each tensor that is saved counts", check=FIRST, mistake="some-left-out",
              source=changed(WEIGHED, f"{WEIGHED} * ({kept})"))
        for what, kept in [
            ("only what requires grad", "tensor.requires_grad"),
            ("only floating-point numbers", "tensor.is_floating_point()"),
        ]
    ),
    Wrong(
        "counts in unpack",
        violates="Return how many bytes of tensors autograd saves for backward while `fn()` runs",
        check=FIRST,
        mistake="counted-in-unpack",
        source=changed(f"        sizes.append({WEIGHED})\n", "").replace(
            "        return tensor\n", f"        sizes.append({WEIGHED})\n        return tensor\n"
        ),
    ),
    Wrong(
        "each tensor once",
        violates="A tensor that is saved twice counts twice",
        check=FIRST,
        mistake="counted-once",
        source=changed("sizes = []", "sizes, kept = {}, []")
        .replace(f"sizes.append({WEIGHED})", f"sizes[id(tensor)] = {WEIGHED}\n        kept.append(tensor)")
        .replace("sum(sizes)", "sum(sizes.values())"),
    ),
    Wrong(
        "each shape once",
        violates="A tensor that is saved twice counts twice",
        check=FIRST,
        source=changed("sizes = []", "sizes = {}")
        .replace(f"sizes.append({WEIGHED})", f"sizes[tensor.shape] = {WEIGHED}")
        .replace("sum(sizes)", "sum(sizes.values())"),
    ),
    Wrong(
        "whole storages",
        violates="a view or an expanded tensor with its own `numel()`",
        check=FIRST,
        mistake="whole-storage",
        source=changed(WEIGHED, "tensor.untyped_storage().nbytes()"),
    ),
    Wrong(
        "pack returns nothing",
        violates="gets the right gradients",
        check="raised",
        mistake="packed-a-number",
        source=changed("        return tensor.detach()\n", ""),
    ),
    Wrong(
        "unpack returns zeros",
        violates="gets the right gradients",
        check=GRADS,
        source=changed("        return tensor\n", "        return torch.zeros_like(tensor)\n"),
    ),
    Wrong(
        "what is packed can be unpacked once",
        violates="perhaps several times",
        check=GRADS,
        source=changed("return tensor.detach()", "return [tensor.detach()]").replace(
            "        return tensor\n", "        return tensor.pop() if tensor else torch.zeros(1)\n"
        ),
    ),
    Wrong(
        "runs backward",
        violates="The caller runs backward later",
        check=GRADS,
        mistake="ran-backward",
        source=changed(
            "        fn()\n",
            "        y = fn()\n    if getattr(y, 'requires_grad', False):\n        y.sum().backward()\n",
        ),
    ),
    Wrong(
        "the hooks stay",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        mistake="hook-left-behind",
        source=changed(BLOCK, "    saved_tensors_hooks(pack, unpack).__enter__()\n    fn()\n"),
    ),
    Wrong(
        "the context is not left when fn raises",
        violates="rule 3: When your function has returned, or raised",
        check=FAILURE,
        mistake="hook-left-after-exception",
        source=changed(
            BLOCK,
            "    context = saved_tensors_hooks(pack, unpack)\n    context.__enter__()\n    fn()\n"
            "    context.__exit__()\n",
        ),
    ),
    Wrong(
        "the context is left under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILURE,
        source=changed(
            BLOCK,
            "    context = saved_tensors_hooks(pack, unpack)\n    context.__enter__()\n    try:\n        fn()\n"
            "    except Exception:\n        context.__exit__()\n        raise\n    context.__exit__()\n",
        ),
    ),
    Wrong(
        "leaves the hooks of the caller, too",
        violates="rule 3: none of your own hooks is left",
        check=REST,
        source=changed(
            "    return sum(sizes)",
            "    try:\n        saved_tensors_hooks(pack, unpack).__exit__()\n    except RuntimeError:\n        pass\n"
            "    return sum(sizes)",
        ),
    ),
    Wrong(
        "an exception is swallowed",
        violates="rule 4: Errors come through",
        check=FAILURE,
        source=changed(
            "        fn()\n", "        try:\n            fn()\n        except Exception:\n            pass\n"
        ),
    ),
    Wrong(
        "runs fn twice",
        violates="Call `fn()` once, without arguments.",
        check="test_fn_is_called_once",
        source=changed("    with saved", "    fn()\n    with saved"),
    ),
    Wrong(
        "with grad in any case",
        violates="`fn()` runs in the grad mode of the caller",
        check=FIRST,
        source=changed("with saved_tensors_hooks", "with torch.enable_grad(), saved_tensors_hooks"),
    ),
    Wrong(
        "adds up what the graph of the result holds",
        violates="`fn` may return anything, also nothing",
        check=FIRST,
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
    Wrong(
        "a result without a shape fails",
        violates="`fn` may return anything, also nothing",
        check="raised",
        source=changed("        fn()\n", "        fn().shape\n"),
    ),
    Wrong(
        "the size of the result",
        violates="Return how many bytes of tensors autograd saves for backward while `fn()` runs",
        check="raised",
        source="""
def saved_bytes(fn):
    result = fn()
    return result.numel() * result.element_size()
""",
    ),
    Wrong(
        "a float", violates="as an `int`", check=FIRST, source=changed("return sum(sizes)", "return float(sum(sizes))")
    ),
    Wrong(
        "parameters do not count",
        violates="Each tensor that is saved counts `numel() * element_size()`, whatever its dtype.",
        check=FIRST,
        source=changed(
            "        sizes.append", "        if not isinstance(tensor, torch.nn.Parameter):\n            sizes.append"
        ),
    ),
    Wrong(
        "masks do not count",
        violates="Each tensor that is saved counts `numel() * element_size()`, whatever its dtype.",
        check=FIRST,
        source=changed("        sizes.append", "        if tensor.dtype != torch.bool:\n            sizes.append"),
    ),
    Wrong(
        "indices do not count",
        violates="Each tensor that is saved counts `numel() * element_size()`, whatever its dtype.",
        check=FIRST,
        source=changed("        sizes.append", "        if tensor.dtype != torch.int64:\n            sizes.append"),
    ),
    Wrong(
        "rounds what it keeps",
        violates="gets the right gradients",
        check=GRADS,
        source=changed("return tensor.detach()", "return tensor.detach().half().to(tensor.dtype)"),
    ),
    Wrong(
        "one sum for all calls",
        violates="rule 1: It works however often it is called",
        check=FIRST,
        mistake="one-sum-for-all",
        source=changed("    sizes = []\n", "").replace("def saved_bytes", "sizes = []\n\ndef saved_bytes"),
    ),
    Wrong(
        "keeps tensors by their id",
        violates="gets the right gradients",
        check="test_tensors_that_live_briefly_come_back",
        source=changed(
            "        return tensor.detach()\n",
            "        store[id(tensor)] = tensor.detach()\n        return id(tensor)\n",
        )
        .replace("        return tensor\n", "        return store[tensor]\n")
        .replace("sizes = []", "sizes, store = [], {}"),
    ),
    Wrong(
        "keeps tensors by address and shape",
        violates="gets the right gradients",
        check="test_tensors_that_live_briefly_come_back",
        source=changed(
            "        return tensor.detach()\n",
            "        key = tensor.data_ptr(), tensor.shape, tensor.dtype\n"
            "        return store.setdefault(key, tensor.detach())\n",
        ).replace("sizes = []", "sizes, store = [], {}"),
    ),
    Wrong(
        "not within a pass",
        violates="while `fn()` runs",
        check="test_what_a_pass_in_fn_saves_counts",
        source=changed(
            "        sizes.append(tensor.numel() * tensor.element_size())\n",
            "        if torch._C._current_graph_task_id() == -1:\n"
            "            sizes.append(tensor.numel() * tensor.element_size())\n",
        ),
    ),
]  # fmt: skip

GIVENS = [
    "Write `saved_bytes(fn)`.",
    "under `torch.no_grad()`, nothing is saved",
    "It uses no hooks on saved tensors, and so does not call your function.",
    "While `fn()` runs, hooks of the caller on saved tensors may be silent.",
    "Nobody overwrites what has been saved.",
]

SURVIVORS = {
    "not for all: return sum": "the other order",
    "lost copy": "a tensor may be kept as it is: nobody asks here for how long it lives",
    "one global slot: self.kept": "each tensor has a number of its own in it",
}
