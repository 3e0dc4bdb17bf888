"""Answers to 12-joint-norm-log."""

from graders.author.answers import Wrong

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
import torch
from torch.autograd import Variable

class Handles:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def joint_norm_log(tensors):
    log, passes = [], {}
    def hook(grad):
        number = torch._C._current_graph_task_id()
        if number not in passes:
            passes[number] = []
            Variable._execution_engine.queue_callback(lambda: log.append(sum(passes.pop(number)) ** 0.5))
        passes[number].append((grad.detach() ** 2).sum().item())
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

WRONG = [
    Wrong(
        "hooks that detach the gradient",
        violates="Leave what you were given as you found it",
        check="test_the_flow_is_unchanged",
        source="""
from torch.autograd.graph import register_multi_grad_hook

class All(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    handles = All(t.register_hook(lambda grad: grad.detach()) for t in tensors)
    handles.append(register_multi_grad_hook(tensors, hook))
    return log, handles
""",
    ),
]

SURVIVORS = {
    "a list for a tuple": "the contract asks for a pair, which a list of two is, too",
    "`.grad` put back as a copy": "when the function is called, no pass has run: the values are the same",
    "lost copy: return [joint.log": "nobody changes the caller's list",
}
