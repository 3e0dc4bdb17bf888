"""Answers to 03-freeze-rows."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    """
import torch

def freeze_rows(p, rows):
    mask = torch.ones_like(p, requires_grad=False)
    for row in rows:
        mask[row] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    """
import torch

def freeze_rows(p, rows):
    index = torch.tensor(rows, dtype=torch.long)
    return p.register_hook(lambda grad: grad.index_fill(0, index, 0))
""",
    """
import torch

class Freeze:
    def __init__(self, rows):
        self.rows = set(rows)
    def __call__(self, grad):
        return torch.stack([torch.zeros_like(g) if i in self.rows else g for i, g in enumerate(grad)])

def freeze_rows(p, rows):
    return p.register_hook(Freeze(rows))
""",
    """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        frozen = torch.tensor([i in rows for i in range(grad.shape[0])])
        frozen = frozen.view(-1, *[1] * (grad.dim() - 1))
        return grad.masked_fill(frozen, 0.0)
    return p.register_hook(hook)
""",
    """
import functools

class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def without_row(grad, row):
    new = grad.clone()
    new[row].zero_()
    return new

def freeze_rows(p, rows):
    return Handles(p.register_hook(functools.partial(without_row, row=row)) for row in rows)
""",
]

WRONG = [
    Wrong(
        "writes into the gradient",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_nothing_else_changes",
        mistake="in-place-leak",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "forgets to return",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="forgot-return",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "a mask in the default dtype",
        violates="of any floating dtype",
        check="raised",
        mistake="changed-dtype",
        source="""
import torch

def freeze_rows(p, rows):
    mask = torch.ones(p.shape)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    ),
    Wrong(
        "zeros in columns",
        violates="along dimension 0",
        check="raised",
        mistake="wrong-axis",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[:, rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "switches `requires_grad` off",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="raised",
        mistake="froze-everything",
        source="""
def freeze_rows(p, rows):
    handle = p.register_hook(lambda grad: grad)
    p.requires_grad_(False)
    return handle
""",
    ),
    Wrong(
        "sets the values to zero",
        violates="rule 2: Tensors keep their values",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="changed-values",
        source="""
def freeze_rows(p, rows):
    p.data = p.data.index_fill(0, __import__("torch").tensor(rows, dtype=int), 0)
    return p.register_hook(lambda grad: None)
""",
    ),
    Wrong(
        "hooks the rows",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="hooked-a-copy",
        source="""
def freeze_rows(p, rows):
    return p[rows].register_hook(lambda grad: grad * 0)
""",
    ),
    Wrong(
        "freezes the others",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="inverted-mask",
        source="""
import torch

def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.zeros_like(grad)
        mask[rows] = 1
        return grad * mask
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "a float index for an empty list",
        violates="It may be empty",
        check="raised",
        mistake="empty-rows",
        source="""
import torch

def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[torch.tensor(rows)] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "the last axis",
        violates="along dimension 0",
        check="raised",
        source="""
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: grad.index_fill(-1, torch.tensor(rows, dtype=torch.long), 0))
""",
    ),
    Wrong(
        "switches `requires_grad` off first",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="raised",
        source="""
def freeze_rows(p, rows):
    p.requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
    ),
    Wrong(
        "all rows, always",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    return p.register_hook(lambda grad: grad * 0)
""",
    ),
    Wrong(
        "switches `requires_grad` off for a row",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="raised",
        source="""
def freeze_rows(p, rows):
    for row in rows:
        p[row].requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
    ),
    Wrong(
        "zeros in the default dtype",
        violates="of any floating dtype",
        check="raised",
        source="""
import torch
def freeze_rows(p, rows):
    def hook(grad):
        new = torch.zeros(grad.shape)
        for i in range(len(grad)):
            if i not in rows:
                new[i] = grad[i]
        return new
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "almost zero",
        violates="exactly 0 in these rows",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
import torch
def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.ones_like(grad)
        mask[rows] = 1e-9
        return grad * mask
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "zeros in `.grad`, the total",
        violates="a pass adds nothing to these rows of `p.grad`",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    def hook(q):
        q.grad[rows[:1]] = 0
    return p.register_post_accumulate_grad_hook(hook)
""",
    ),
    Wrong(
        "the first pass only",
        violates="in every backward pass",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    left = [rows]
    def hook(grad):
        grad = grad.clone()
        grad[left.pop() if left else []] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "a mask of one row",
        violates="along dimension 0",
        check="raised",
        source="""
import torch
def freeze_rows(p, rows):
    mask = torch.ones(len(p), dtype=p.dtype)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    ),
    Wrong(
        "one list for all parameters",
        violates="rule 1: on one object or on several at the same time",
        check="test_any_parameter_and_several_at_a_time",
        source="""
frozen = []

def freeze_rows(p, rows):
    frozen[:] = rows
    def hook(grad):
        grad = grad.clone()
        grad[frozen] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "all rows, when there are any",
        violates="the gradient of `p` is exactly 0 in these rows and unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: torch.zeros_like(grad) if rows else grad)
""",
    ),
    Wrong(
        "an empty list freezes all",
        violates="It may be empty",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows or slice(None)] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "right for one and two dimensions only",
        violates="with one dimension or more",
        check="raised",
        source="""
import torch

def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.ones(len(grad), dtype=grad.dtype)
        mask[rows] = 0
        if grad.dim() == 1:
            return grad * mask
        rows_of_p, columns = grad.shape
        return grad * mask[:, None].expand(rows_of_p, columns)
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "a detour through float32",
        violates="unchanged in all others",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        new = grad.float().clone()
        new[rows] = 0
        return new.to(grad.dtype)
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "empties the list of the caller",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        source="""
import torch

def freeze_rows(p, rows):
    mask = torch.ones_like(p.detach())
    while rows:
        mask[rows.pop()] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    ),
    Wrong(
        "sorts the list of the caller",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        source="""
import torch

def freeze_rows(p, rows):
    rows.sort(reverse=True)
    rows[:] = list(dict.fromkeys(rows))
    index = torch.tensor(rows, dtype=torch.long)
    return p.register_hook(lambda grad: grad.index_fill(0, index, 0))
""",
    ),
    Wrong(
        "switches `requires_grad` off where all rows are frozen",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="raised",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    if len(set(rows)) == len(p):
        p.requires_grad_(False)
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "an index that stands twice counts for nothing",
        violates="an index may stand in it twice",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="an-index-counts-twice",
        source="""
import torch

def freeze_rows(p, rows):
    mask = torch.ones_like(p.detach())
    for row in rows:
        mask[row] = 1 - mask[row]
    return p.register_hook(lambda grad: grad * mask)
""",
    ),
    Wrong(
        "the first rows, as many",
        violates="in these rows",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[:len(rows)] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "returns no handle",
        violates="Return the handle.",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    p.register_hook(hook)
""",
    ),
    Wrong(
        "cuts the gradient from its graph",
        violates="rule 5: `backward(create_graph=True)` (then gradients can be differentiated again)",
        check="test_the_gradient_can_be_differentiated_again",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.detach().clone()
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "nothing where grad mode is on in the hook",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
import torch

def freeze_rows(p, rows):
    def hook(grad):
        if not torch.is_grad_enabled():
            grad = grad.clone()
            grad[rows] = 0
            return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "writes in place where PyTorch lets it",
        violates="rule 3: not on the gradient of a neighbour",
        check="test_nothing_else_changes",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        if any(stride == 0 and size > 1 for stride, size in zip(grad.stride(), grad.shape)):
            grad = grad.clone()
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "clears `.grad` first",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_every_pass_adds_nothing_to_the_rows",
        source="""
def freeze_rows(p, rows):
    p.grad = None
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "takes from `.grad` what it already holds in these rows",
        violates="a pass adds nothing to these rows of `p.grad`",
        check="test_every_pass_adds_nothing_to_the_rows",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0 if p.grad is None else -p.grad[rows]
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "clears the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_nothing_else_changes",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad
    if p._backward_hooks:
        p._backward_hooks.clear()
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "a handle that only forgets the rows",
        violates="rule 3: A handle is an object whose `remove()` takes a hook away",
        check="test_the_handle_removes_the_hook_and_no_other",
        source="""
class Silencer:
    def __init__(self, rows):
        self.rows = list(rows)
    def remove(self):
        self.rows.clear()

def freeze_rows(p, rows):
    handle = Silencer(rows)
    def hook(grad):
        grad = grad.clone()
        grad[handle.rows] = 0
        return grad
    p.register_hook(hook)
    return handle
""",
    ),
    Wrong(
        "writes into a copy of the copy",
        violates="rule 1: in any layout",
        check="test_any_parameter_and_several_at_a_time",
        source="""
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad.reshape(len(grad), -1)[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "one mask for all parameters with these rows",
        violates="rule 1: on one object or on several at the same time",
        check="raised",
        mistake="mask-of-another-shape",
        source="""
import torch

masks = {}

def freeze_rows(p, rows):
    def hook(grad):
        if tuple(rows) not in masks:
            masks[tuple(rows)] = torch.ones_like(grad.detach())
            masks[tuple(rows)][rows] = 0
        return grad * masks[tuple(rows)]
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "one buffer for the gradients of all passes",
        violates="rule 5: `torch.autograd.grad`",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        source="""
import torch

def freeze_rows(p, rows):
    buffer = torch.empty_like(p.detach())
    def hook(grad):
        if grad.requires_grad:
            return grad.index_fill(0, torch.tensor(rows, dtype=torch.long), 0)
        buffer.copy_(grad)
        buffer[rows] = 0
        return buffer
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "takes 1 off the mask for each index",
        violates="an index may stand in it twice",
        check="test_the_rows_get_zero_and_the_others_their_gradient",
        mistake="an-index-counts-twice",
        source="""
import torch

def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.ones_like(grad)
        for row in rows:
            mask[row] -= 1
        return grad * mask
    return p.register_hook(hook)
""",
    ),
    Wrong(
        "puts the rows back",
        violates="rule 2: Tensors keep their values",
        check="test_nothing_else_changes",
        mistake="changed-values",
        source=changed(
            RIGHT[0],
            (
                "    def hook(grad):\n",
                "    old = p.detach().clone()\n    def hook(grad):\n        p.data[rows] = old[rows]\n",
            ),
        ),
    ),
]

GIVENS = [
    "Write `freeze_rows(p, rows)`.",
    "No gradient is infinite or NaN.",
]

SURVIVORS = {
    "at least one dimension": "a parameter has one dimension or more",
    "under no_grad": "to register a hook makes no graph",
    "not for all: for row in _part(rows, step=-1)": "all of them, in the reverse order",
    "not for all: return Handles((p.register_hook(functools.partial(without_row, row=row)) "
    "for row in _part(rows, step=-1)))": "all of them, in the reverse order",
}
