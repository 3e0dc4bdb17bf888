"""Answers to 03-clip-and-log."""

RIGHT = [
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log["raw"] = grad.detach().clone()
        log["clipped"] = clipped.detach().clone()
        return clipped
    t.register_hook(hook)
    return log
""",
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
class Log(dict):
    def __call__(self, grad):
        self["raw"] = grad.detach().clone()
        self["clipped"] = self["raw"].clamp(*self.bounds)
        return self["clipped"].clone()

def clip_and_log(t, lo, hi):
    log = Log()
    log.bounds = lo, hi
    t.register_hook(log)
    return log
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
]

WRONG = {
    "logged-after-clip": """
def clip_and_log(t, lo, hi):
    log = {}
    t.register_hook(lambda grad: grad.clamp(lo, hi))
    t.register_hook(lambda grad: log.update(raw=grad.detach().clone()))
    t.register_hook(lambda grad: log.update(clipped=grad.detach().clone()))
    return log
""",
    "forgot-return": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = grad.detach().clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    "in-place-leak": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        grad.clamp_(lo, hi)
        log["clipped"] = grad.detach().clone()
    t.register_hook(hook)
    return log
""",
    "stored-alias": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad
        log["clipped"] = grad.clamp(lo, hi)
        return log["clipped"]
    t.register_hook(hook)
    return log
""",
    "rebound-dict": """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log = {"raw": grad.detach().clone(), "clipped": grad.detach().clamp(lo, hi)}
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
}

ALSO_WRONG = [
    "def clip_and_log(t, lo, hi):\n    pass",
    # Starts with None in it.
    """
def clip_and_log(t, lo, hi):
    log = {"raw": None, "clipped": None}
    def hook(grad):
        log["raw"], log["clipped"] = grad.detach().clone(), grad.detach().clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    # Only the first pass.
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log.setdefault("raw", grad.detach().clone())
        log.setdefault("clipped", grad.detach().clamp(lo, hi))
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    # The clipped entry is the tensor that goes on.
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = grad.detach().clamp(lo, hi)
        return log["clipped"]
    t.register_hook(hook)
    return log
""",
    # A graph comes along.
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["raw"], log["clipped"] = grad.clone(), grad.clamp(lo, hi).clone()
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    # Raw and clipped exchanged.
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["clipped"], log["raw"] = grad.detach().clone(), grad.detach().clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    # One dict for the whole notebook, emptied by each call.
    """
log = {}

def clip_and_log(t, lo, hi):
    log.clear()
    def hook(grad):
        log["raw"] = grad.detach().clone()
        log["clipped"] = log["raw"].clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
    # The two entries are exchanged.
    """
def clip_and_log(t, lo, hi):
    log = {}
    def hook(grad):
        log["clipped"] = grad.detach().clone()
        log["raw"] = log["clipped"].clamp(lo, hi)
        return grad.clamp(lo, hi)
    t.register_hook(hook)
    return log
""",
]
