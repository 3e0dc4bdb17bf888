"""Answers to 04-clip-global-norm-in-backward."""

from graders.author.answers import Wrong, changed

COUNTING = """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
"""

CLIPS = "            torch.nn.utils.clip_grad_norm_(params, c)\n"

RIGHT = [
    """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = 0
    def hook(p):
        nonlocal arrived
        arrived += 1
        if arrived == len(params):
            arrived = 0
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
import torch

class Clip:
    def __init__(self, params, c):
        self.params, self.c, self.arrived = params, c, set()
    def __call__(self, p):
        self.arrived.add(p)
        if len(self.arrived) < len(self.params):
            return
        self.arrived.clear()
        norm = torch.sqrt(sum((q.grad ** 2).sum() for q in self.params))
        if norm > self.c:
            for q in self.params:
                q.grad = q.grad * (self.c / norm)

def clip_global_norm_in_backward(params, c):
    clip = Clip(params, c)
    handles = []
    for p in params:
        handles.append(p.register_post_accumulate_grad_hook(clip))
    return handles
""",
    """
def clip_global_norm_in_backward(params, c):
    squares = []
    def hook(p):
        squares.append(p.grad.double().square().sum().item())
        if len(squares) == len(params):
            norm = sum(squares) ** 0.5
            squares.clear()
            for q in params:
                q.grad.mul_(c / max(norm, c))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
import itertools
import torch

def clip_global_norm_in_backward(params, c):
    turn = itertools.cycle(range(len(params)))
    def hook(p):
        if next(turn) == len(params) - 1:
            grads = [q.grad for q in params]
            norm = torch.cat([g.flatten() for g in grads]).norm()
            torch._foreach_mul_(grads, float((c / (norm + 1e-6)).clamp(max=1.0)))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
from torch import nn
import torch

def clip_global_norm_in_backward(params, c):
    pend = []
    def done():
        pend.clear()
        nn.utils.clip_grad_norm_(params, c)
    def hook(p):
        if not pend:
            pend.append(1)
            torch.autograd.Variable._execution_engine.queue_callback(done)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    """
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            with torch.no_grad():
                norm = torch.cat([q.grad.flatten() for q in params]).norm()
                if norm > c:
                    for q in params:
                        q.grad = q.grad * (c / norm)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
]

WRONG = [
    Wrong(
        "removes the hooks of others",
        violates="leave everyone else's on",
        check="test_nothing_else_changes",
        source=changed(
            COUNTING,
            (
                "    return [p.register_post_accumulate_grad_hook(hook) for p in params]\n",
                "    for p in params:\n"
                "        if p._post_accumulate_grad_hooks:\n"
                "            p._post_accumulate_grad_hooks.clear()\n"
                "    return [p.register_post_accumulate_grad_hook(hook) for p in params]\n",
            ),
        ),
    ),
    Wrong(
        "a gradient of zeros has not arrived",
        violates="whenever `backward()` returns",
        check="test_the_norm_is_joint_over_all_entries",
        source=changed(
            COUNTING,
            ("    arrived = []\n", "    arrived = set()\n"),
            ("        arrived.append(p)\n", "        if p.grad.count_nonzero():\n            arrived.add(p)\n"),
        ),
    ),
    Wrong(
        "divides by a norm of 0",
        violates="if their joint L2 norm is greater than `c`",
        check="raised",
        source=changed(
            COUNTING,
            (
                CLIPS,
                """\
            norm = sum(q.grad.double().square().sum().item() for q in params) ** 0.5
            factor = min(1.0, c / norm)
            for q in params:
                q.grad.mul_(factor)
""",
            ),
        ),
    ),
    Wrong(
        "clips where one norm is too large",
        violates="if their joint L2 norm is greater than `c`",
        check="test_the_norm_is_joint_over_all_entries",
        source=changed(
            COUNTING,
            (
                CLIPS,
                """\
            norms = [q.grad.double().norm().item() for q in params]
            norm = sum(each * each for each in norms) ** 0.5
            if max(norms) > c:
                for q in params:
                    q.grad.mul_(c / norm)
""",
            ),
        ),
    ),
]

SURVIVORS = {
    "almost: if norm >= ": "at the limit the factor is 1",
    "almost: torch._foreach_mul_(grads, float((c / (norm - 1e-06)": "a millionth is within the tolerance",
    "a hook that works at times: @_not_the_first_call def hook(p)": "a later one queues what runs at the end",
    "a hook that works at times: @_only_contiguous def hook(p)": "another parameter queues what runs at the end",
    "not for all: … in _part(params, st": "every pass reaches all of them, and one of them queues what runs at its end",
    "almost: pend.append(2)": "that there is an entry is all that counts",
    "… without … arrived": "no exception stops a pass, so nothing is left of the last one",
    "… pend.append(1)": "what is clipped twice is clipped",
}
