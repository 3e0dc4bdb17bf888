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

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        grads = [grad for grad in grads if grad is not None]
        log.append(NORM)
    return log, register_multi_grad_hook(tensors, hook)
"""
SUM = "sum(grad.square().sum().item() for grad in grads)"
FIRST = "test_each_pass_appends_its_joint_norm"
OWN = "test_each_call_has_a_log_and_a_handle_of_its_own"
REMOVE = "test_after_remove_nothing_is_appended_and_nothing_is_left"

WRONG = [
    Wrong(
        "looks where hooks that come later have been",
        violates="Gradients count as the hooks leave them that were on the tensors before your call.",
        check="test_a_hook_that_comes_later_does_not_count",
        source="""
import torch
from torch.autograd.graph import get_gradient_edge

class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log, squares = [], []

    def finish():
        log.append(sum(squares) ** 0.5)
        squares.clear()

    def arrive(grads):
        if not squares:
            torch.autograd.Variable._execution_engine.queue_callback(finish)
        squares.append(grads[0].detach().double().square().sum().item())

    return log, Handles(get_gradient_edge(t).node.register_prehook(arrive) for t in tensors)
""",
    ),
    Wrong(
        "the list alone",
        violates="Return two things, as a tuple or a list: a list, empty at first, and a handle.",
        check=FIRST,
        mistake="no-handle",
        source="""
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    register_multi_grad_hook(
        tensors, lambda grads: log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return log
""",
    ),
    Wrong(
        "None in place of the handle",
        violates="Return two things, as a tuple or a list: a list, empty at first, and a handle.",
        check=REMOVE,
        mistake="no-handle",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace(
            "return log, register_multi_grad_hook(tensors, hook)",
            "register_multi_grad_hook(tensors, hook)\n    return log, None",
        ),
    ),
    Wrong(
        "a hook for each tensor",
        violates="appends one Python float to the list",
        check=FIRST,
        mistake="one-entry-per-tensor",
        source="""
class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    return log, Handles(t.register_hook(lambda grad: log.append(grad.norm().item())) for t in tensors)
""",
    ),
    Wrong(
        "mode any",
        violates="add up all squares of all tensors",
        check=FIRST,
        mistake="first-tensor-only",
        source="""
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    return log, register_multi_grad_hook(tensors, lambda grad: log.append(grad.norm().item()), mode="any")
""",
    ),
    Wrong(
        "the largest entry",
        violates="add up all squares of all tensors",
        check=FIRST,
        mistake="largest-entry",
        source=HOOKED.replace("NORM", "max(max(grad.abs().flatten().tolist(), default=0.0) for grad in grads)"),
    ),
    Wrong(
        "the sum of the norms",
        violates="square each entry of the gradients",
        check=FIRST,
        mistake="sum-of-norms",
        source=HOOKED.replace("NORM", "sum(grad.norm().item() for grad in grads)"),
    ),
    Wrong("no root", violates="and take the root", check=FIRST, mistake="no-root", source=HOOKED.replace("NORM", SUM)),
    Wrong(
        "a None is squared",
        violates="A tensor that a pass does not reach adds nothing.",
        check="raised",
        mistake="unused-is-none",
        source=HOOKED.replace("if grad is not None", "").replace("NORM", f"{SUM} ** 0.5"),
    ),
    Wrong(
        "no entry for zeros",
        violates="A pass in which all gradients are zero appends 0.0",
        check=FIRST,
        mistake="skipped-zeros",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace("log.append", f"{SUM} and log.append"),
    ),
    Wrong(
        "no entry for a NaN or an infinite norm",
        violates="one with a NaN `nan`",
        check=FIRST,
        mistake="skipped-nan",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace(
            "        log.append", f"        if math.isfinite({SUM}):\n            log.append"
        ).replace("import torch", "import math\nimport torch", 1),
    ),
    Wrong(
        "the largest norm",
        violates="add up all squares of all tensors",
        check=FIRST,
        mistake="largest-entry",
        source=HOOKED.replace("NORM", "max(grad.norm().item() for grad in grads)"),
    ),
    Wrong(
        "infinite entries are left out",
        violates="one with an infinite entry `inf`",
        check=FIRST,
        mistake="replaced-nan",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace("[grad for", "[grad[grad.isfinite()] for"),
    ),
    Wrong(
        "an entry for each call of backward, also for a pass that reaches none",
        violates="A pass that reaches none of the tensors appends nothing.",
        check="test_entries_come_only_from_passes_that_reach_a_tensor",
        source="""
import torch
from torch.autograd.graph import register_multi_grad_hook

class Handle:
    def __init__(self, backward):
        self.backward = backward
    def remove(self):
        torch.autograd.backward = self.backward

def joint_norm_log(tensors):
    log, squares, backward = [], [], torch.autograd.backward
    for t in tensors:
        t.register_hook(lambda grad: squares.append(grad.square().sum().item()))
    def counting(*args, **kwargs):
        backward(*args, **kwargs)
        log.append(sum(squares) ** 0.5)
        squares.clear()
    torch.autograd.backward = counting
    return log, Handle(backward)
""",
    ),
    Wrong(
        "what arrived in a pass that was stopped is added to the next",
        violates="A pass that an exception stops before all gradients have arrived appends nothing.",
        check=FIRST,
        mistake="state-of-an-aborted-pass",
        source="""
from torch.autograd import Variable

class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log, squares = [], []
    def finish():
        log.append(sum(squares) ** 0.5)
        squares.clear()
    def hook(grad):
        squares.append(grad.square().sum().item())
        Variable._execution_engine.queue_callback(lambda: squares and finish())
    return log, Handles([t.register_hook(hook) for t in tensors])
""",
    ),
    Wrong(
        "waits for all tensors, and a pass may reach fewer",
        violates="each call of `backward()` that reaches at least one of these tensors",
        check=FIRST,
        source="""
class All(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log, arrived = [], []
    def hook(grad):
        arrived.append(grad.square().sum().item())
        if len(arrived) == len(tensors):
            log.append(sum(arrived) ** 0.5)
            arrived.clear()
    return log, All([tensor.register_hook(hook) for tensor in tensors])
""",
    ),
    Wrong(
        "reads .grad of the leaves",
        violates="the gradients that arrive at the tensors in this pass",
        check=FIRST,
        mistake="reads-dot-grad",
        source="""
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(t.grad.square().sum().item() for t in tensors if t.is_leaf and t.grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
    ),
    Wrong(
        "a copy of the list",
        violates="From now on, each call of",
        check=FIRST,
        mistake="nothing-appended",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace("return log,", "return list(log),"),
    ),
    Wrong(
        "the pair the other way round",
        violates="Return two things, as a tuple or a list: a list, empty at first, and a handle.",
        check=FIRST,
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace(
            "return log, register_multi_grad_hook(tensors, hook)", "return register_multi_grad_hook(tensors, hook), log"
        ),
    ),
    Wrong(
        "a handle that does nothing",
        violates="After `handle.remove()` nothing is appended any more.",
        check=REMOVE,
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace(
            "return log, register_multi_grad_hook(tensors, hook)",
            "register_multi_grad_hook(tensors, hook)\n"
            "    return log, type('Nothing', (), {'remove': lambda self: None})()",
        ),
    ),
    Wrong(
        "a handle that only silences",
        violates="rule 3: it removes exactly the hook that it stands for",
        check=REMOVE,
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
        check=REMOVE,
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
    Wrong(
        "one list for all calls",
        violates="rule 1: on one object or on several at the same time",
        check=OWN,
        source="""
from torch.autograd.graph import register_multi_grad_hook

LOG = []

def joint_norm_log(tensors):
    LOG.clear()
    def hook(grads):
        LOG.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5)
    return LOG, register_multi_grad_hook(tensors, hook)
""",
    ),
    Wrong(
        "squares in place",
        violates="The flow of gradients does not change.",
        check="test_the_gradients_are_unchanged",
        mistake="changed-the-flow",
        source=HOOKED.replace("NORM", SUM.replace("square", "square_") + " ** 0.5"),
    ),
    Wrong(
        "hooks that detach the gradient",
        violates="The flow of gradients does not change.",
        check="test_the_gradients_are_unchanged",
        source="""
from torch.autograd.graph import register_multi_grad_hook

class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5)
    return log, Both(register_multi_grad_hook(tensors, hook), *(t.register_hook(lambda g: g.detach()) for t in tensors))
""",
    ),
    Wrong(
        "needs a first tensor",
        violates="it may be empty",
        check="raised",
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace("log = []", "log, dtype = [], tensors[0].dtype"),
    ),
    Wrong(
        "the caller's list is emptied",
        violates="rule 2: Lists and dicts keep their entries",
        check=REMOVE,
        source=HOOKED.replace("NORM", f"{SUM} ** 0.5").replace(
            "register_multi_grad_hook(tensors, hook)",
            "register_multi_grad_hook([tensors.pop() for _ in range(len(tensors))], hook)",
        ),
    ),
    *(
        Wrong(what, violates=violates, check=check, source=HOOKED.replace("NORM", norm))
        for what, norm, violates, check in [
            ("tensors", "torch.stack([grad.norm() for grad in grads]).norm()", "one Python float", FIRST),
            ("rounded to float32", "sum(grad.float().square().sum().item() for grad in grads) ** 0.5",
             "It is exact to the digits of the tensors' dtype", FIRST),
            ("NaN is left out", "sum(grad.square().nansum().item() for grad in grads) ** 0.5",
             "square each entry of the gradients that arrive at the tensors", "test_nan_is_an_entry"),
            ("rounded to eight places", "round(sum(grad.double().square().sum().item() for grad in grads) ** 0.5, 8)",
             "It is exact to the digits of the tensors' dtype", "test_a_small_norm_is_as_exact_as_a_large_one"),
            ("the L1 norm", "sum(grad.abs().sum().item() for grad in grads)", "square each entry", FIRST),
            ("flattened by view", "torch.cat([grad.view(-1) for grad in grads]).norm().item()",
             "rule 1: in any layout", "raised"),
            ("three tensors at most", f"{SUM.replace('in grads', 'in grads[:3]')} ** 0.5",
             "add up all squares of all tensors", FIRST),
        ]
    ),
    Wrong(
        "asks each gradient for its largest entry",
        violates="it may be empty, and so may a tensor",
        check="raised",
        source="""
import math
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        there = [grad.detach() for grad in grads if grad is not None]
        scale = max(grad.abs().max().item() for grad in there)
        log.append(scale if scale in (0, math.inf) else math.hypot(*(grad.norm().item() for grad in there)))
    return log, register_multi_grad_hook(tensors, hook)
""",
    ),
    Wrong(
        "a handle that removes when nobody keeps it",
        violates="From now on, each call of `backward()` that reaches at least one of these tensors appends",
        check="test_nobody_has_to_keep_the_handle",
        source="""
import torch

class Handle:
    def __init__(self, handle):
        self.remove = handle.remove
    def __del__(self):
        self.remove()

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(torch.stack([g.norm() for g in grads if g is not None]).norm().item())
    return log, Handle(torch.autograd.graph.register_multi_grad_hook(tensors, hook))
""",
    ),
]  # fmt: skip

GIVENS = [
    "Write `joint_norm_log(tensors)`.",
    "is a list of different tensors of one dtype",
    "Each requires grad; some are leaves, others are not.",
    "The caller does not use `torch.autograd.grad`.",
]

SURVIVORS = {
    "a list for a tuple": "the contract asks for a pair, which a list of two is, too",
    "`.grad` put back as a copy": "when the function is called, no pass has run: the values are the same",
    "under no_grad": "it only registers",
    "lost copy: passes[number].append": "a number is made of it at once",
    "lost copy: return [joint.log": "nobody changes the caller's list",
}
