"""Answers to 03-clip-and-log."""

from graders.author.answers import Wrong

RIGHT = [
    """
from collections import OrderedDict
from functools import partial

def note(log, key, grad):
    log[key] = grad.detach().clone()

def clip_and_log(t, lo, hi):
    log = OrderedDict()
    t.register_hook(partial(note, log, "raw"))
    t.register_hook(lambda grad: grad.clamp(lo, hi))
    t.register_hook(partial(note, log, "clipped"))
    return log
""",
    """
import torch

class ClipAndLog:
    def __init__(self, lo, hi):
        self.lo, self.hi, self.log = lo, hi, {}
    def __call__(self, grad):
        with torch.no_grad():
            self.log.update(raw=grad.clone(), clipped=torch.clamp(grad, self.lo, self.hi))
        return torch.clamp(grad, self.lo, self.hi)

def clip_and_log(t, lo, hi):
    hook = ClipAndLog(lo, hi)
    t.register_hook(hook)
    return hook.log
""",
    """
import torch

class Log(dict):
    def __init__(self, lo, hi):
        super().__init__()
        self.lo, self.hi = lo, hi
    def hook(self, grad):
        self["clipped"] = torch.clip(grad.detach(), self.lo, self.hi)
        self["raw"] = torch.empty_like(grad).copy_(grad.detach())
        return grad.clamp(self.lo, self.hi)

def clip_and_log(t, lo, hi):
    log = Log(lo, hi)
    t.register_hook(log.hook)
    return log
""",
    """
import torch

def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        low, high = torch.full_like(grad, lo), torch.full_like(grad, hi)
        clipped = torch.where(grad < low, low, torch.where(grad > high, high, grad))
        log.clear()
        log.update({key: value.detach().clone() for key, value in (("clipped", clipped), ("raw", grad))})
        return clipped
    t.register_hook(hook)
    return log
""",
]

WRONG = [
    Wrong(
        "one dict for each tensor, however often it is given",
        violates="which returns a new, empty dict at once",
        check="test_any_tensor_and_several_at_a_time",
        source="""
logs = {}

def clip_and_log(t, lo, hi):
    log = logs.setdefault(t, {})
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log["raw"] = grad.detach().clone()
        log["clipped"] = clipped.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
""",
    ),
]

SURVIVORS = {
    "a hook left on a tensor": "hooks stay for good, and this one does nothing",
    "lost statement: without super().__init__()": "a dict needs no such call",
    "lost statement: without log.clear()": "a new dict is empty",
    "almost: clipped = torch.where(": "at a bound both are the bound",
}
