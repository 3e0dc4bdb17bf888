"""Answers to 07-clamp-grad-input."""

from graders.author.answers import Wrong, changed

TAUGHT = """
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        return tuple(None if g is None else g.clamp(-c, c) for g in grad_input)
    return module.register_full_backward_hook(hook)
"""

RIGHT = [
    TAUGHT,
    """
import torch

class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, c):
        ctx.c = c
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.c, ctx.c), None

def clamp_grad_input(module, c):
    def pre(module, args):
        return tuple(Clamp.apply(a, c) if isinstance(a, torch.Tensor) else a for a in args)
    return module.register_forward_pre_hook(pre)
""",
    """
import torch
from functools import partial

def limit(c, module, gi, go):
    if all(g is None for g in gi):
        return None
    return [torch.clamp(g, min=-c, max=c) if g is not None else g for g in gi]

def clamp_grad_input(module, c):
    return module.register_full_backward_hook(partial(limit, c))
""",
    """
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        new = []
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad and torch.is_grad_enabled():
                a = a.view_as(a)
                a.register_hook(lambda g: g.clamp(-c, c))
            new.append(a)
        return tuple(new)
    return module.register_forward_pre_hook(pre)
""",
    """
import torch
def clamp_grad_input(module, c):
    def guard(t):
        if not (torch.is_tensor(t) and t.requires_grad and torch.is_grad_enabled()): return t
        t = t.clone()
        t.register_hook(lambda g: g.clamp(-c, c))
        return t
    def pre(module, args, kwargs):
        return tuple(guard(a) for a in args), {k: guard(v) for k, v in kwargs.items()}
    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
    """
import torch

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, c):
        ctx.c = c
        return a.view_as(a)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-ctx.c, ctx.c), None

def clamp_grad_input(module, c):
    def pre(m, args):
        return tuple(Fn.apply(a, c) if torch.is_tensor(a) and a.requires_grad else a for a in args)

    return module.register_forward_pre_hook(pre)
""",
]

WRONG = [
    Wrong(
        "a handle for calls that were, too",
        violates="for calls of `module` that come later",
        check="test_the_handle_restores_the_old_behaviour",
        mistake="switched-off",
        source="""
import torch

class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, handle):
        ctx.handle = handle
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        c = ctx.handle.c
        return (grad if c is None else grad.clamp(-c, c)), None

class Handle:
    def __init__(self, module, c):
        self.c = c
        self.inner = module.register_forward_pre_hook(self.before, prepend=True)
    def before(self, module, args):
        if torch.is_grad_enabled():
            return tuple(
                Clamp.apply(a, self) if isinstance(a, torch.Tensor) and a.requires_grad else a for a in args
            )
    def remove(self):
        self.c = None
        self.inner.remove()

def clamp_grad_input(module, c):
    return Handle(module, c)
""",
    ),
    Wrong(
        "a bare tensor",
        violates="sends to an input that is passed by position is clamped",
        check="raised",
        mistake="not-like-grad-input",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(lambda m, gi, go: gi[0].clamp(-c, c))
""",
    ),
    Wrong(
        "forgets to return",
        violates="is clamped elementwise to [-c, c]",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="forgot-return",
        source=changed(TAUGHT, ("        return ", "        clamped = ")),
    ),
    Wrong(
        "clamps what arrives at the output",
        violates="Everything else stays as it is: the gradients of the module's own parameters",
        check="test_its_own_parameters_learn_from_the_unclamped_one",
        mistake="clamped-too-early",
        source="""
def clamp_grad_input(module, c):
    def hook(module, grad_output):
        return tuple(None if g is None else g.clamp(-c, c) for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
""",
    ),
    Wrong(
        "clamps the gradients of the parameters",
        violates="is clamped elementwise to [-c, c]",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="parameter-grads",
        source="""
def clamp_grad_input(module, c):
    handles = [p.register_hook(lambda g: g if g is None else g.clamp(-c, c))
               for p in module.parameters() if p.requires_grad]
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    ),
    Wrong(
        "None has no clamp",
        violates="a pass in which no input needs a gradient works as before",
        check="raised",
        mistake="clamped-none",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(lambda m, gi, go: tuple(g.clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "leaves out None",
        violates="Inputs may be numbers",
        check="raised",
        mistake="not-like-grad-input",
        source=changed(TAUGHT, ("None if g is None else ", ""), ("grad_input)", "grad_input if g is not None)")),
    ),
    Wrong(
        "the first input alone",
        violates="sends to an input that is passed by position is clamped",
        check="test_every_tensor_input_is_clamped",
        mistake="first-input-only",
        source="""
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        first = [None if grad is None else grad.clamp(-c, c) for grad in grad_input[:1]]
        return (*first, *grad_input[1:])
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "writes into the gradients",
        violates="what comes to an input tensor from a use outside the module",
        check="raised",
        mistake="in-place-leak",
        source="""
def clamp_grad_input(module, c):
    def hook(module, grad_input, grad_output):
        for g in grad_input:
            if g is not None:
                g.clamp_(-c, c)
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "a tensor hook on the input",
        violates="what comes to an input tensor from a use outside the module",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="hooked-the-input",
        source="""
import torch
def clamp_grad_input(module, c):
    def pre(module, args):
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                a.register_hook(lambda g: g.clamp(-c, c))
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "clamps grad_output in the place of grad_input",
        violates="is clamped elementwise to [-c, c]",
        check="raised",
        mistake="not-like-grad-input",
        source="""
import torch
def clamp_grad_input(module, c):
    def hook(module, gi, go):
        return tuple(None if g is None else torch.clip(g, -c, c) for g in go)
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "returns nothing",
        violates="Return a handle",
        check="test_what_the_module_sends_back_is_clamped",
        source="""
def clamp_grad_input(module, c):
    return None
""",
    ),
    Wrong(
        "the upper bound alone",
        violates="is clamped elementwise to [-c, c]",
        check="test_what_the_module_sends_back_is_clamped",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(max=c) for g in gi))
""",
    ),
    Wrong(
        "scales down to a norm",
        violates="clamped elementwise",
        check="test_what_the_module_sends_back_is_clamped",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g * (c / g.norm().clamp(min=c)) for g in gi))
""",
    ),
    Wrong(
        "no handle",
        violates="Return a handle; `handle.remove()` restores the old behaviour",
        check="test_the_handle_restores_the_old_behaviour",
        source="""
def clamp_grad_input(module, c):
    module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "zeros for None",
        violates="a pass in which no input needs a gradient works as before",
        check="raised",
        mistake="made-up-gradient",
        source="""
import torch
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(torch.zeros(1) if g is None else g.clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "float32",
        violates="rule 1: in `float32` and in `float64`",
        check="raised",
        mistake="changed-dtype",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.float().clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "float32 and back",
        violates="rule 1: in `float32` and in `float64`",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="rounded-to-float32",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.float().clamp(-c, c).to(g.dtype) for g in gi))
""",
    ),
    Wrong(
        "the first pass alone",
        violates="From now on, in every backward pass",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="only-the-first-pass",
        source="""
def clamp_grad_input(module, c):
    def hook(m, gi, go):
        handle.remove()
        return tuple(None if g is None else g.clamp(-c, c) for g in gi)
    handle = module.register_full_backward_hook(hook)
    return handle
""",
    ),
    Wrong(
        "nothing where one entry is None",
        violates="Inputs may be numbers",
        check="test_what_the_module_sends_back_is_clamped",
        source="""
def clamp_grad_input(module, c):
    def hook(m, gi, go):
        if any(g is None for g in gi): return None
        return tuple(g.clamp(-c, c) for g in gi)
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "nothing in eval mode",
        violates="From now on, in every backward pass",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="only-in-training",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(g.clamp(-c, c) if g is not None else g for g in gi) if m.training else None
    )
""",
    ),
    Wrong(
        "each module inside, too",
        violates="the gradients of the module's own parameters (and of the modules inside it)",
        check="test_its_own_parameters_learn_from_the_unclamped_one",
        source="""
def clamp_grad_input(module, c):
    hs = [
        m.register_full_backward_hook(
            lambda m, gi, go: tuple(g.clamp(-c, c) if g is not None else g for g in gi)
        )
        for m in module.modules()
    ]

    class H:
        def remove(self):
            for h in hs:
                h.remove()

    return H()
""",
    ),
    Wrong(
        "cuts the graph off",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradient_keeps_its_graph",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.detach().clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "clamps before the caller's hook doubles",
        violates="rule 3: They may watch or replace values",
        check="test_what_the_module_sends_back_is_clamped",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi), prepend=True)
""",
    ),
    Wrong(
        "removes the caller's hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def clamp_grad_input(module, c):
    module._backward_hooks.clear()
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "a handle that removes all hooks",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handle_restores_the_old_behaviour",
        source="""
class All:
    def __init__(self, module):
        self.module = module
    def remove(self):
        self.module._backward_hooks.clear()

def clamp_grad_input(module, c):
    module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
    return All(module)
""",
    ),
    Wrong(
        "one bound for all modules",
        violates="rule 1: on one object or on several at the same time",
        check="test_several_modules_and_several_calls",
        mistake="one-number-for-all",
        source="""
_bound = []

def clamp_grad_input(module, c):
    _bound[:] = [c]
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-_bound[0], _bound[0]) for g in gi))
""",
    ),
    Wrong(
        "a second call replaces the first",
        violates="rule 1: It works however often it is called",
        check="test_the_handle_restores_the_old_behaviour",
        mistake="took-both-hooks",
        source="""
_handles = {}

def clamp_grad_input(module, c):
    if module in _handles:
        _handles.pop(module).remove()
    _handles[module] = module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
    return _handles[module]
""",
    ),
    Wrong(
        "clamps the input, too",
        violates="the values of the forward pass",
        check="test_nothing_else_changes",
        source="""
def clamp_grad_input(module, c):
    import torch
    return module.register_forward_pre_hook(
        lambda m, args: tuple(a.clamp(-c, c) if torch.is_tensor(a) else a for a in args))
""",
    ),
    Wrong(
        "a bound of at least 1e-6",
        violates="`c` is a number greater than 0.",
        check="test_any_bound_and_any_gradient",
        source="""
def clamp_grad_input(module, c):
    c = max(c, 1e-6)
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "zeros for nan",
        violates="`nan` stays `nan`",
        check="test_any_bound_and_any_gradient",
        source="""
def clamp_grad_input(module, c):
    return module.register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g.where(~g.isnan(), 0).clamp(-c, c) for g in gi))
""",
    ),
    Wrong(
        "rescales what is too large",
        violates="is clamped elementwise to [-c, c]",
        check="test_any_bound_and_any_gradient",
        source=changed(TAUGHT, ("g.clamp(-c, c)", "g * (c / g.abs()).clamp(max=1)")),
    ),
    Wrong(
        "asks for the largest entry first",
        violates="rule 1: any shape",
        check="raised",
        mistake="empty-gradient",
        source=changed(TAUGHT, ("g.clamp(-c, c)", "g if g.abs().max() <= c else g.clamp(-c, c)")),
    ),
    Wrong(
        "a tensor hook also where autograd is off",
        violates="the values of the forward pass",
        check="raised",
        mistake="hook-without-grad-mode",
        source="""
def clamp_grad_input(module, c):
    def pre(module, args):
        def fresh(a):
            if not getattr(a, "requires_grad", False):
                return a
            a = a.clone()
            a.register_hook(lambda g: g.clamp(-c, c))
            return a
        return tuple(map(fresh, args))
    return module.register_forward_pre_hook(pre, prepend=True)
""",
    ),
    Wrong(
        "wants a first input",
        violates="an input that is passed by keyword",
        check="raised",
        mistake="no-first-input",
        source=changed(TAUGHT, ("        return tuple", "        grad_input[0]\n        return tuple")),
    ),
    Wrong(
        "keeps the bounds of the first pass",
        violates="rule 1: in `float32` and in `float64`",
        check="raised",
        mistake="changed-dtype",
        source="""
import torch

def clamp_grad_input(module, c):
    bounds = {}
    def clamped(place, g):
        if place not in bounds or bounds[place].shape != g.shape:
            bounds[place] = torch.full_like(g, c)
        return torch.minimum(torch.maximum(g, -bounds[place]), bounds[place])
    def hook(module, grad_input, grad_output):
        return tuple(None if g is None else clamped(place, g) for place, g in enumerate(grad_input))
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "adds zero times the input",
        violates="the values of the forward pass",
        check="test_nothing_else_changes",
        source="""
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        def fresh(a):
            if not (torch.is_tensor(a) and a.requires_grad and torch.is_grad_enabled()):
                return a
            a = a + 0 * a.detach()
            a.register_hook(lambda g: g.clamp(-c, c))
            return a
        return tuple(map(fresh, args))
    return module.register_forward_pre_hook(pre, prepend=True)
""",
    ),
    Wrong(
        "makes each input require grad",
        violates="a pass in which no input needs a gradient works as before",
        check="test_nothing_else_changes",
        source="""
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        def fresh(a):
            if not (torch.is_tensor(a) and a.is_floating_point() and torch.is_grad_enabled()):
                return a
            a = a.clone().requires_grad_()
            a.register_hook(lambda g: g.clamp(-c, c))
            return a
        return tuple(map(fresh, args))
    return module.register_forward_pre_hook(pre, prepend=True)
""",
    ),
    Wrong(
        "all inputs become tensors",
        violates="Inputs may be numbers",
        check="test_nothing_else_changes",
        source="""
import torch

def clamp_grad_input(module, c):
    def pre(module, args):
        new = []
        for a in map(torch.as_tensor, args):
            if a.requires_grad and torch.is_grad_enabled():
                a = a.view_as(a)
                a.register_hook(lambda g: g.clamp(-c, c))
            new.append(a)
        return tuple(new)
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "clamps once for each call of the module",
        violates="From now on, in every backward pass, each",
        check="test_any_bound_and_any_gradient",
        source="""
class Both(list):
    def remove(self):
        while self:
            self.pop().remove()

def clamp_grad_input(module, c):
    calls = []
    def hook(module, grad_input, grad_output):
        if calls:
            calls.pop()
            return tuple(None if g is None else g.clamp(-c, c) for g in grad_input)
    forward = module.register_forward_hook(lambda *args: calls.append(1))
    return Both([forward, module.register_full_backward_hook(hook)])
""",
    ),
    Wrong(
        "clamps float32 only",
        violates="rule 1: in `float32` and in `float64`",
        check="test_what_the_module_sends_back_is_clamped",
        source="import torch\n" + changed(TAUGHT, ("None if g is None", "g if g is None or g.dtype is torch.float64")),
    ),
    *(
        Wrong(
            f"one side alone: {clamped}",
            violates="is clamped elementwise to [-c, c]",
            check="test_what_the_module_sends_back_is_clamped",
            mistake="one-side-only",
            source=changed(TAUGHT, ("g.clamp(-c, c)", clamped)),
        )
        for clamped in ("g.clamp(max=c)", "g.clamp(0, c)")
    ),
    Wrong(
        "its hook is the first of the full backward hooks",
        violates="each gradient that `module`, with the hooks that it has, sends",
        check="test_what_the_module_sends_back_is_clamped",
        mistake="clamped-before-the-callers-hooks",
        source=changed(TAUGHT, ("_hook(hook)", "_hook(hook, prepend=True)")),
    ),
    Wrong(
        "a hook on all modules that clamps at this one alone",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_nothing_else_changes",
        mistake="hooked-all-modules",
        source="from torch.nn.modules.module import register_module_full_backward_hook\n"
        + changed(
            TAUGHT,
            (
                "def hook(module, grad_input, grad_output):\n",
                "def hook(m, grad_input, grad_output):\n        if m is not module:\n            return\n",
            ),
            ("module.register_full_backward_hook", "register_module_full_backward_hook"),
        ),
    ),
]

GIVENS = [
    "Write `clamp_grad_input(module, c)`.",
    "`c` is a number greater than 0.",
    "What is sent to an input that is passed by keyword is up to you.",
    "The output of `module` is a tensor or a tuple of tensors, and nothing works in place",
]

SURVIVORS = {
    "prepend=True: return module.register_forward_pre_hook(pre": (
        "the contract does not say on which side of a pre-hook of the caller an input is"
    ),
    "under no_grad": "to register a hook makes no graph",
    "a hook that works at times: @_only_with_grad_mode def pre": "without grad mode there is no gradient to clamp",
    "not for all: if all((g is None for g in _part(gi, step=-1)))": "all of them, in the reverse order",
}
