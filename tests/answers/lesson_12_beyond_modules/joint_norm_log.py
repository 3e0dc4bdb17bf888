"""Answers to 12-joint-norm-log."""

RIGHT = [
    """
import torch
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        squares = [grad.square().sum() for grad in grads if grad is not None]
        log.append(torch.stack(squares).sum().sqrt().item())
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
import math
import torch

class JointNorm:
    def __init__(self):
        self.log = []
    def __call__(self, grads):
        self.log.append(math.hypot(*(float(torch.linalg.vector_norm(g)) for g in grads if g is not None)))

def joint_norm_log(tensors):
    joint = JointNorm()
    return [joint.log, torch.autograd.graph.register_multi_grad_hook(tuple(tensors), joint, mode="all")]
""",
    """
from torch.autograd import Variable

class Handles:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def joint_norm_log(tensors):
    log, this_pass = [], []
    def finish():
        log.append(sum(this_pass) ** 0.5)
        this_pass.clear()
    def hook(grad):
        if not this_pass:
            Variable._execution_engine.queue_callback(finish)
        this_pass.append((grad.detach() ** 2).sum().item())
    return log, Handles([t.register_hook(hook) for t in tensors])
""",
    """
from functools import partial
import torch
from torch.autograd.graph import register_multi_grad_hook

def note(log, grads):
    flat = torch.cat([grad.reshape(-1) for grad in grads if grad is not None])
    log += [flat.norm().tolist()]

def joint_norm_log(tensors):
    log = []
    handle = register_multi_grad_hook(tensors, partial(note, log))
    return log, handle
""",
]

WRONG = {
    "no-handle": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    register_multi_grad_hook(
        tensors, lambda grads: log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return log
""",
    "one-entry-per-tensor": """
class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    return log, Handles(t.register_hook(lambda grad: log.append(grad.norm().item())) for t in tensors)
""",
    "first-tensor-only": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    return log, register_multi_grad_hook(tensors, lambda grad: log.append(grad.norm().item()), mode="any")
""",
    "sum-of-norms": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.norm().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
    "no-root": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
    "unused-is-none": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
}

ALSO_WRONG = [
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(t.grad.square().sum().item() for t in tensors if t.is_leaf and t.grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log, arrived = [], []
    def hook(grad):
        arrived.append(grad.square().sum().item())
        if len(arrived) == len(tensors):  # a pass may reach fewer
            log.append(sum(arrived) ** 0.5)
            arrived.clear()
    handles = [tensor.register_hook(hook) for tensor in tensors]
    class All:
        def remove(self):
            for handle in handles:
                handle.remove()
    return log, All()
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    handle = register_multi_grad_hook(tensors, hook)
    return list(log), handle
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        norm = sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5
        if norm:
            log.append(norm)
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum() for grad in grads if grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(max(grad.abs().max().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
from torch.autograd.graph import register_multi_grad_hook

class Nothing:
    def remove(self):
        pass

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    register_multi_grad_hook(tensors, hook)
    return log, Nothing()
""",
    """
def joint_norm_log(tensors):
    log = []
    return log, tensors[0].register_hook(lambda grad: log.append(grad.norm().item()))
""",
    """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.pow_(2).sum().item() for grad in grads if grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
    """
def joint_norm_log(tensors):
    return [], None
""",
    """
import torch
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    handle = register_multi_grad_hook(tensors, lambda grads: log.append(
        sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return handle, log
""",
]
