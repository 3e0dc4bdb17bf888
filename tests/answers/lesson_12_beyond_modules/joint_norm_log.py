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

HOOKED = """
import torch
from torch.autograd.graph import register_multi_grad_hook

class Both(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    handle = register_multi_grad_hook(tensors, hook)
    return log, HANDLE
"""
REMOVED = "test_nothing_else_changes"

WRONG = [
    Wrong(
        "flattened by view",
        violates="rule 1: in any layout",
        check="raised",
        source="""
import torch
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(torch.cat([grad.view(-1) for grad in grads if grad is not None]).norm().item())
    return log, register_multi_grad_hook(tensors, hook)
""",
    ),
    Wrong(
        "hooks that detach the gradient",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_flow_is_unchanged",
        source=HOOKED.replace("HANDLE", "Both([handle, *(t.register_hook(lambda g: g.detach()) for t in tensors)])"),
    ),
    Wrong(
        "a handle that only silences",
        violates="rule 3: it removes exactly the hook that it stands for",
        check=REMOVED,
        source="""
from torch.autograd.graph import register_multi_grad_hook

class Silence:
    off = False
    def remove(self):
        self.off = True

def joint_norm_log(tensors):
    log, handle = [], Silence()
    def hook(grads):
        if not handle.off:
            log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5)
    register_multi_grad_hook(tensors, hook)
    return log, handle
""",
    ),
    Wrong(
        "a handle that clears all hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=REMOVED,
        source="""
from torch.autograd.graph import register_multi_grad_hook

class Clear:
    def __init__(self, tensors):
        self.tensors = tensors
    def remove(self):
        for t in self.tensors:
            t._backward_hooks.clear()

def joint_norm_log(tensors):
    log = []
    register_multi_grad_hook(
        tensors, lambda grads: log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return log, Clear(tensors)
""",
    ),
]

SURVIVORS = {
    "a list for a tuple": "the contract asks for a pair, which a list of two is, too",
    "`.grad` put back as a copy": "when the function is called, no pass has run: the values are the same",
    "under no_grad": "it only registers",
    "lost copy: passes[number].append": "a number is made of it at once",
    "lost copy: return [joint.log": "nobody changes the caller's list",
}
