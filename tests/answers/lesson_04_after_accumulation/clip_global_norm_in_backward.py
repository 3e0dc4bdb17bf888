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
import torch

import itertools
def clip_global_norm_in_backward(params, c):
    counter = itertools.count(1)
    def hook(_):
        if next(counter) % len(params): return
        total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in params]))
        k = torch.clamp(c / (total + 1e-6), max=1.0)
        for p in params: p.grad = p.grad * k
    return list(map(lambda p: p.register_post_accumulate_grad_hook(hook), params))
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
    # Whoever comes first asks the engine to clip when this pass is over.
    queued = []
    def at_the_end():
        queued.clear()
        torch.nn.utils.clip_grad_norm_(params, c)
    def hook(p):
        if not queued:
            queued.append(True)
            torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
]

WRONG = [
    Wrong(
        "parameters are told apart by where their memory begins, and those without entries have none",
        violates="rule 1: Your function works for tensors of any shape",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        source=changed(
            COUNTING,
            ("arrived = []", "arrived = set()"),
            ("arrived.append(p)", "arrived.add(p.data_ptr())"),
        ),
    ),
    Wrong(
        "clips nothing when a gradient is minus infinity",
        violates="is what `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(
            COUNTING, (CLIPS, "            if not sum(q.grad.isneginf().sum() for q in params):\n    " + CLIPS)
        ),
    ),
    Wrong(
        "an infinite gradient becomes 0",
        violates="is what `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(COUNTING, (CLIPS, CLIPS + "            for q in params: q.grad[q.grad.isnan()] = 0\n")),
    ),
    Wrong(
        "no bound above 100",
        violates="is greater than `c`, each is multiplied by the same factor",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(COUNTING, ("(params, c)\n    return", "(params, min(c, 100))\n    return")),
    ),
    Wrong(
        "the graph of the first gradient alone",
        violates="After a pass with `create_graph=True`\n    each `.grad` keeps its graph",
        check="test_a_small_gradient_stays_as_it_is",
        source=changed(
            COUNTING,
            (CLIPS, CLIPS + "            for q in params[1:]:\n                q.grad = q.grad.detach()\n"),
        ),
    ),
    Wrong(
        "adds up the norm in tensor hooks, before a later hook changes the gradient",
        violates="is what `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
import torch

def clip_global_norm_in_backward(params, c):
    squares, arrived = {}, []
    def coming(p):
        def hook(grad):
            total = grad if p.grad is None else p.grad + grad
            squares[p] = total.detach().double().square().sum().item()
        return hook
    @torch.no_grad()
    def come(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            norm = sum(squares.values()) ** 0.5
            for q in params:
                q.grad.mul_(c / max(norm, c))
    handles = [p.register_hook(coming(p)) for p in params]
    return handles + [p.register_post_accumulate_grad_hook(come) for p in params]
""",
    ),
    Wrong(
        "switches autograd off for the hooks behind it",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        mistake="changed-what-was-given",
        source=changed(COUNTING, ("    def hook(p):\n", "    def hook(p):\n        torch.set_grad_enabled(False)\n")),
    ),
    Wrong(
        "counts in tensor hooks, which `torch.autograd.grad` calls",
        violates="`torch.autograd.grad` clips nothing.",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        mistake="counted-autograd-grad",
        source=changed(
            COUNTING,
            ("        arrived.append(p)\n", ""),
            ("    return [p", "    return [p.register_hook(lambda grad: arrived.append(1)) for p in params] + [p"),
        ),
    ),
    Wrong(
        "one list of handles for all calls",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

handles = []

def clip_global_norm_in_backward(params, c):
    arrived = 0
    def hook(p):
        nonlocal arrived
        arrived += 1
        if arrived == len(params):
            arrived = 0
            torch.nn.utils.clip_grad_norm_(params, c)
    handles.extend(p.register_post_accumulate_grad_hook(hook) for p in params)
    return handles
""",
    ),
    Wrong(
        "clips each gradient by itself",
        violates="each is multiplied by the same factor, so that the joint norm is `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        mistake="per-tensor-norm",
        source=changed(
            COUNTING,
            ("    arrived = []\n", ""),
            (
                "        arrived.append(p)\n"
                "        if len(arrived) == len(params):\n"
                "            arrived.clear()\n"
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "        torch.nn.utils.clip_grad_norm_([p], c)\n",
            ),
        ),
    ),
    Wrong(
        "clamps the elements",
        violates="each is multiplied by the same factor, so that the joint norm is `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        mistake="elements-not-norm",
        source=changed(
            COUNTING,
            ("\nimport torch\n", ""),
            ("    arrived = []\n", ""),
            (
                "        arrived.append(p)\n"
                "        if len(arrived) == len(params):\n"
                "            arrived.clear()\n"
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "        p.grad.clamp_(-c, c)\n",
            ),
        ),
    ),
    Wrong(
        "clips at every arrival",
        violates="would have made of it at this moment",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        mistake="clipped-too-early",
        source=changed(
            COUNTING,
            (
                "    arrived = []\n"
                "    def hook(p):\n"
                "        arrived.append(p)\n"
                "        if len(arrived) == len(params):\n"
                "            arrived.clear()\n"
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "    def hook(_):\n        torch.nn.utils.clip_grad_norm_(params, c)\n",
            ),
        ),
    ),
    Wrong(
        "clips in the first pass only",
        violates="From now on, whenever `backward()` returns",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        mistake="counter-not-reset",
        source=changed(COUNTING, ("            arrived.clear()\n", "")),
    ),
    Wrong(
        "scales small gradients up",
        violates="otherwise nothing changes",
        check="test_a_small_gradient_stays_as_it_is",
        mistake="scaled-up",
        source=changed(
            COUNTING,
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "            norm = torch.cat([q.grad.flatten() for q in params]).norm()\n"
                "            for q in params:\n"
                "                q.grad.mul_(c / norm)\n",
            ),
        ),
    ),
    Wrong(
        "returns the norm from the hook",
        violates="From now on, whenever `backward()` returns",
        check="raised",
        mistake="returned-a-value",
        source=changed(
            COUNTING,
            ("    def hook(p):\n", "    def last(p):\n"),
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n"
                "    return [p.register_post_accumulate_grad_hook(hook) for p in params]\n",
                "            return torch.nn.utils.clip_grad_norm_(params, c)\n"
                "    return [p.register_post_accumulate_grad_hook(last) for p in params]\n",
            ),
        ),
    ),
    Wrong(
        "does nothing",
        violates="each is multiplied by the same factor, so that the joint norm is `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
def clip_global_norm_in_backward(params, c):
    return []
""",
    ),
    Wrong(
        "clips when the first of the list arrives",
        violates="in an order that can differ",
        check="raised",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    def hook(_):
        torch.nn.utils.clip_grad_norm_(params, c)
    return [params[0].register_post_accumulate_grad_hook(hook)]
""",
    ),
    Wrong(
        "counts in tensor hooks, before the last gradient is written",
        violates="would have made of it at this moment",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(grad):
        arrived.append(1)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_hook(hook) for p in params]
""",
    ),
    Wrong(
        "looks at every gradient at every arrival",
        violates="would have made of it at this moment",
        check="raised",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    def hook(_):
        norm = torch.stack([p.grad.norm() for p in params]).norm()
        for p in params:
            p.grad.mul_(min(1.0, c / norm.item()))
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "never sets the count back",
        violates="would have made of it at this moment",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) >= len(params):
            torch.nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "clips the gradient of this pass",
        violates="a second pass adds to what the first pass left, and the sum is clipped",
        check="raised",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    grads = {}
    def watch(p):
        return lambda grad: grads.update({p: grad.clone()})
    def hook(p):
        if len(grads) == len(params):
            norm = torch.cat([g.flatten() for g in grads.values()]).norm()
            factor = min(1.0, c / norm.item())
            for q in params:
                q.grad.sub_(grads[q] * (1 - factor))
            grads.clear()
    return [p.register_hook(watch(p)) for p in params] + [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "the sum of the norms",
        violates="if their joint L2 norm is greater than `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(
            COUNTING,
            ("\nimport torch\n", ""),
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "            norm = sum(q.grad.norm().item() for q in params)\n"
                "            for q in params:\n"
                "                q.grad.mul_(c / max(norm, c))\n",
            ),
        ),
    ),
    Wrong(
        "returns no handles",
        violates="Return a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    arrived = []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    for p in params:
        p.register_post_accumulate_grad_hook(hook)
""",
    ),
    Wrong(
        "clamps each value",
        violates="each is multiplied by the same factor, so that the joint norm is `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
import torch
def clip_global_norm_in_backward(params, c):
    def hook(p):
        torch.nn.utils.clip_grad_value_([p], c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "hooks that do nothing",
        violates="each is multiplied by the same factor, so that the joint norm is `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
def clip_global_norm_in_backward(params, c):
    return [p.register_post_accumulate_grad_hook(lambda p: None) for p in params]
""",
    ),
    Wrong(
        "clips when the one that came last in the first pass arrives",
        violates="in an order that can differ",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        mistake="clipped-too-early",
        source="""
from torch import nn

def clip_global_norm_in_backward(params, c):
    seen = []
    def hook(p):
        if len(seen) < len(params): seen.append(p)
        if len(seen) == len(params) and p is seen[-1]: nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "takes an old `.grad` for an arrival",
        violates="a second pass adds to what the first pass left, and the sum is clipped",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        source=changed(
            COUNTING,
            ("import torch\n", "from torch import nn\n"),
            ("    arrived = []\n", ""),
            (
                "        arrived.append(p)\n"
                "        if len(arrived) == len(params):\n"
                "            arrived.clear()\n"
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "        if all(q.grad is not None for q in params): nn.utils.clip_grad_norm_(params, c)\n",
            ),
        ),
    ),
    Wrong(
        "one count for all lists",
        violates="rule 1: on one object or on several at the same time",
        check="test_a_second_list_is_clipped_by_itself",
        source="""
from torch import nn

count = 0

def clip_global_norm_in_backward(params, c):
    def hook(p):
        global count
        count += 1
        if count == len(params):
            count = 0
            nn.utils.clip_grad_norm_(params, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "one bound for all lists",
        violates="rule 1: on one object or on several at the same time",
        check="test_a_second_list_is_clipped_by_itself",
        source="""
from torch import nn

bound = 0.0

def clip_global_norm_in_backward(params, c):
    global bound
    bound, arrived = c, []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            nn.utils.clip_grad_norm_(params, bound)
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "nothing in a pass with a graph",
        violates="After a pass with `create_graph=True`\n    each `.grad` keeps its graph.",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(
            COUNTING,
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "            if not torch.is_grad_enabled():\n"
                "                torch.nn.utils.clip_grad_norm_(params, c)\n",
            ),
        ),
    ),
    Wrong(
        "tensor hooks count `torch.autograd.grad` as a pass",
        violates="`torch.autograd.grad` clips nothing.",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        source="""
import torch

def clip_global_norm_in_backward(params, c):
    computed, written = [], []
    def about_to_come(grad):
        computed.append(1)
    def has_come(p):
        written.append(1)
        if len(written) == len(params) == len(computed):
            torch.nn.utils.clip_grad_norm_(params, c)
            computed.clear()
        if len(written) == len(params):
            written.clear()
    handles = [p.register_hook(about_to_come) for p in params]
    return handles + [p.register_post_accumulate_grad_hook(has_come) for p in params]
""",
    ),
    Wrong(
        "clips the first three",
        violates="the `.grad` of all parameters in the list",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(
            COUNTING,
            ("    arrived = []\n", "    some, arrived = params[:3], []\n"),
            ("        if len(arrived) == len(params):\n", "        if len(arrived) == len(some):\n"),
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n"
                "    return [p.register_post_accumulate_grad_hook(hook) for p in params]\n",
                "            torch.nn.utils.clip_grad_norm_(some, c)\n"
                "    return [p.register_post_accumulate_grad_hook(hook) for p in some]\n",
            ),
        ),
    ),
    Wrong(
        "sorts the caller's list",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        source="""
import torch

def clip_global_norm_in_backward(params, c):
    params.reverse()
    own, arrived = list(params), []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(own):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(own, c)
    return [p.register_post_accumulate_grad_hook(hook) for p in own]
""",
    ),
    Wrong(
        "clears `.grad` before each pass",
        violates="The caller may set `.grad` to `None` between passes.",
        check="test_the_next_pass_accumulates_and_is_clipped_again",
        source="""
import torch

def clip_global_norm_in_backward(params, c):
    arrived = []
    def forget(p):
        def hook(grad):
            p.grad = None
        return hook
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    handles = [p.register_hook(forget(p)) for p in params]
    return handles + [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "the last handle alone",
        violates="After `remove()` on each of them, nothing is clipped any more.",
        check="test_the_handles_remove_the_hooks",
        source=changed(
            COUNTING,
            (
                "    return [p.register_post_accumulate_grad_hook(hook) for p in params]\n",
                "    for p in params:\n"
                "        handle = p.register_post_accumulate_grad_hook(hook)\n"
                "    return [handle] if params else []\n",
            ),
        ),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
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
        "a multi-grad hook in its place, which cannot be used with `torch.autograd.grad` beside the others",
        violates="rule 5: `torch.autograd.grad`",
        check="raised",
        source="""
import torch
from torch.autograd.graph import register_multi_grad_hook

def clip_global_norm_in_backward(params, c):
    computed = []
    def hook(p):
        if computed:
            computed.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    handles = [p.register_post_accumulate_grad_hook(hook) for p in params]
    return [register_multi_grad_hook(params, lambda grads: computed.append(True))] + handles
""",
    ),
    Wrong(
        "notes arrivals in tensor hooks, and `torch.autograd.grad` for some is an arrival, too",
        violates="whenever `backward()` returns",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="""
import torch

def clip_global_norm_in_backward(params, c):
    coming = set()
    def note(p):
        return lambda grad: coming.add(p)
    def has_come(p):
        if len(coming) == len(params):
            coming.clear()
            torch.nn.utils.clip_grad_norm_(params, c)
    handles = [p.register_hook(note(p)) for p in params]
    return handles + [p.register_post_accumulate_grad_hook(has_come) for p in params]
""",
    ),
    Wrong(
        "refuses a norm that is infinite",
        violates="is what `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it",
        check="raised",
        source=changed(
            COUNTING,
            (
                "            arrived.clear()\n",
                "            torch.nn.utils.clip_grad_norm_(params, c, error_if_nonfinite=True)\n"
                "            arrived.clear()\n",
            ),
            ("            torch.nn.utils.clip_grad_norm_(params, c)\n", ""),
        ),
    ),
    Wrong(
        "the largest entry for the norm",
        violates="if their joint L2 norm is greater than `c`",
        check="test_the_norm_is_joint_over_all_entries",
        source=changed(
            COUNTING,
            ("    arrived = []\n", "    arrived = set()\n"),
            ("        arrived.append(p)\n", "        arrived.add(p)\n"),
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "            if max(float(q.grad.abs().max()) for q in params if q.numel()) > c:\n"
                "                torch.nn.utils.clip_grad_norm_(params, c)\n",
            ),
        ),
    ),
    Wrong(
        "the norm in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_norm_is_joint_over_all_entries",
        source=changed(
            COUNTING,
            ("    arrived = []\n", "    arrived = set()\n"),
            ("        arrived.append(p)\n", "        arrived.add(p)\n"),
            (
                "            torch.nn.utils.clip_grad_norm_(params, c)\n",
                "            norm = torch.cat([q.grad.detach().flatten().float() for q in params]).norm()\n"
                "            for q in params:\n"
                "                q.grad.detach().mul_((c / norm).clamp(max=1))\n",
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
        violates="otherwise nothing changes",
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
        "a copy without a graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_a_small_gradient_stays_as_it_is",
        source=changed(
            COUNTING,
            (
                CLIPS,
                """\
            norm = sum(q.grad.double().square().sum().item() for q in params) ** 0.5
            for q in params:
                q.grad = q.grad.detach() * (c / max(norm, c))
""",
            ),
        ),
    ),
    Wrong(
        "clips where one norm is too large",
        violates="if their joint L2 norm is greater than `c`",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
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
    *(
        Wrong(
            name,
            violates="if their joint L2 norm is greater than `c`",
            check="test_the_joint_norm_is_clipped_once_all_have_arrived",
            source=changed(
                COUNTING,
                (
                    CLIPS,
                    f"""\
            norm = sum(q.grad.double().square().sum().item() for q in params) ** 0.5
            if {condition}:
                torch.nn.utils.clip_grad_norm_(params, c)
""",
                ),
            ),
        )
        for name, condition in {
            "the square of the norm is compared": "norm**2 > c",
            "a norm that is nearly right": "norm > 1.01 * c",
            "a norm that is a little too large": "norm > c + 0.1",
        }.items()
    ),
    Wrong(
        "a clipped gradient without its graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source=changed(
            COUNTING,
            (
                CLIPS,
                """\
            norm = sum(q.grad.double().square().sum().item() for q in params) ** 0.5
            if norm > c:
                for q in params:
                    q.grad = q.grad.detach() * (c / norm)
""",
            ),
        ),
    ),
    Wrong(
        "the first bound of these parameters",
        violates="rule 1: It works however often it is called",
        check="test_the_joint_norm_is_clipped_once_all_have_arrived",
        source="BOUNDS = {}\n"
        + changed(COUNTING, ("    def hook", "    c = BOUNDS.setdefault((*params,), c)\n    def hook")),
    ),
]

GIVENS = [
    "Write `clip_global_norm_in_backward(params, c)`.",
    "`params` is a list of different parameters of one dtype that require grad",
    "`c` is a number greater than 0.",
    "No parameter is in two lists at a time.",
    "No gradient is NaN.",
    "(`clip_grad_norm_` adds 1e-6 to the norm before it divides by it; you need not.)",
    "The caller removes all of them or none.",
]

SURVIVORS = {
    "lost statement: without arrived.clear()": "no exception stops a pass, so nothing is left of the last one",
    "condition dropped: without if p in arrived": "the same",
    "a list for a tuple": "either holds the handles",
    "under no_grad": "hooks may be registered in any mode",
    "almost: if norm >= self.c": "at the limit the factor is 1",
    "almost: torch._foreach_mul_(grads, float((c / (norm - 1e-06)": "a millionth is within the tolerance",
    "almost: k = torch.clamp(c / (total - 1e-06)": "the same",
    "not for all: return [p.register_post_accumulate_grad_hook(hook) for p in _part(params, stop=": (
        "every pass reaches all of them, and one of them queues what runs at its end"
    ),
    "almost: pend.append(2)": "that there is an entry is all that counts",
    "almost: queued.append(False)": "that there is an entry is all that counts",
}
