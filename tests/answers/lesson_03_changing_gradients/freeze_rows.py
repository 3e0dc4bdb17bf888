"""Answers to 03-freeze-rows."""

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

WRONG = {
    "in-place-leak": """
def freeze_rows(p, rows):
    def hook(grad):
        grad[rows] = 0
        return grad
    return p.register_hook(hook)
""",
    "forgot-return": """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
    return p.register_hook(hook)
""",
    "changed-dtype": """
import torch

def freeze_rows(p, rows):
    mask = torch.ones(p.shape)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    "wrong-axis": """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[:, rows] = 0
        return grad
    return p.register_hook(hook)
""",
    "froze-everything": """
def freeze_rows(p, rows):
    handle = p.register_hook(lambda grad: grad)
    p.requires_grad_(False)
    return handle
""",
    "changed-values": """
def freeze_rows(p, rows):
    p.data[rows] = 0
    return p.register_hook(lambda grad: grad if not rows else None)
""",
    "hooked-a-copy": """
def freeze_rows(p, rows):
    return p[rows].register_hook(lambda grad: grad * 0)
""",
    "inverted-mask": """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.zeros_like(grad)
        mask[rows] = 1
        return grad * mask
    return p.register_hook(hook)
""",
    "empty-rows": """
import torch

def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[torch.tensor(rows)] = 0
        return grad
    return p.register_hook(hook)
""",
}

ALSO_WRONG = [
    # The last axis.
    """
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: grad.index_fill(-1, torch.tensor(rows, dtype=torch.long), 0))
""",
    # Freezes the whole parameter first.
    """
def freeze_rows(p, rows):
    p.requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
    "def freeze_rows(p, rows):\n    return p.register_hook(lambda grad: grad * 0)",
    """
def freeze_rows(p, rows):
    for row in rows:
        p[row].requires_grad = False
    return p.register_hook(lambda grad: grad)
""",
    """
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
    # Almost zero.
    """
import torch
def freeze_rows(p, rows):
    def hook(grad):
        mask = torch.ones_like(grad)
        mask[rows] = 1e-9
        return grad * mask
    return p.register_hook(hook)
""",
    # Freezes .grad, the total, after each pass, so that removal is right but the hook is in place.
    """
def freeze_rows(p, rows):
    def hook(q):
        q.grad[rows[:1]] = 0
    return p.register_post_accumulate_grad_hook(hook)
""",
    # The right rows in the first pass only.
    """
def freeze_rows(p, rows):
    left = [rows]
    def hook(grad):
        grad = grad.clone()
        grad[left.pop() if left else []] = 0
        return grad
    return p.register_hook(hook)
""",
    # A mask of one row broadcasts along the wrong dimension.
    """
import torch
def freeze_rows(p, rows):
    mask = torch.ones(len(p), dtype=p.dtype)
    mask[rows] = 0
    return p.register_hook(lambda grad: grad * mask)
""",
    # The rows are global: a second call changes those of the first.
    """
frozen = []

def freeze_rows(p, rows):
    frozen[:] = rows
    def hook(grad):
        grad = grad.clone()
        grad[frozen] = 0
        return grad
    return p.register_hook(hook)
""",
    # All rows, when there are any.
    """
import torch

def freeze_rows(p, rows):
    return p.register_hook(lambda grad: torch.zeros_like(grad) if rows else grad)
""",
    # An empty list freezes everything.
    """
def freeze_rows(p, rows):
    def hook(grad):
        grad = grad.clone()
        grad[rows or slice(None)] = 0
        return grad
    return p.register_hook(hook)
""",
]
