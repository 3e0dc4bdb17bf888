"""Answers to 03-freeze-rows."""

from graders.author.answers import Wrong

RIGHT = [
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
        "one list for all parameters",
        violates="as often as it likes",
        check="test_any_tensor_and_several_at_a_time",
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
        "sorts the list of the caller",
        violates="Leave what you were given as you found it",
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
        "clears the hooks of others",
        violates="leave everyone else's on",
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
]
