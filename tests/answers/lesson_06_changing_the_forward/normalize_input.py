"""Answers to 06-normalize-input."""

from graders.author.answers import Wrong

RIGHT = [
    """
from torch.nn.modules.module import register_module_forward_pre_hook

def normalize_input(module, mean, std):
    def hook(called, args):
        if called is module:
            return ((args[0] - mean) / std, *args[1:])
    return register_module_forward_pre_hook(hook)
""",
    """
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    """
def normalize_input(module, mean, std):
    def hook(module, args, kwargs):
        first, *rest = args
        return (first.sub(mean).div(std),) + tuple(rest), kwargs
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    """
class Normalise:
    def __init__(self, mean, std):
        self.mean = mean
        self.std = std
    def __call__(self, module, args):
        new = list(args)
        new[0] = args[0].clone().sub_(self.mean).div_(self.std)
        return tuple(new)

def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(Normalise(mean, std), prepend=True)
""",
    """
def normalize_input(module, mean, std):
    def pre(_m, args):
        if len(args) == 1:
            return args[0] / std - mean / std
        return tuple((v - mean) / std if i == 0 else v for i, v in enumerate(args))
    return module.register_forward_pre_hook(pre)
""",
    """
import torch

class Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, mean, std):
        ctx.std = std
        return (a - mean) / std
    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.std, None, None

class Handle:
    def __init__(self, inner):
        self.inner = inner
    def remove(self):
        self.inner.remove()

def normalize_input(module, mean, std):
    return Handle(module.register_forward_pre_hook(lambda m, args: (Normalised.apply(args[0], mean, std), *args[1:])))
""",
]

WRONG = [
    Wrong(
        "the hook goes with a handle that nobody keeps",
        violates="From now on, in every call of `module`",
        check="test_the_example_of_the_contract_comes_out",
        source="""
class Handle:
    def __init__(self, handle):
        self.handle = handle
    def remove(self):
        self.handle.remove()
    def __del__(self):
        self.remove()

def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    return Handle(module.register_forward_pre_hook(hook))
""",
    ),
    Wrong(
        "copies lists and dicts",
        violates="as the caller passed them: the same objects",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        rest = [type(other)(other) if type(other) in (list, dict) else other for other in args[1:]]
        return ((args[0] - mean) / std, *rest)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "remembers what it made of a tensor while no graph is recorded",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
import torch

def normalize_input(module, mean, std):
    last = [None, None]
    def hook(module, args):
        if torch.is_grad_enabled() or last[0] is not args[0]:
            last[:] = args[0], (args[0] - mean) / std
        return (last[1], *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "does nothing",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    pass
""",
    ),
    Wrong(
        "a bare tensor",
        violates="All other arguments reach it",
        check="raised",
        mistake="dropped-arguments",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, args: (args[0] - mean) / std)
""",
    ),
    Wrong(
        "two arguments at most",
        violates="All other arguments reach it",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        mistake="dropped-arguments",
        source="""
def normalize_input(module, mean, std):
    def pre(_m, args):
        return ((args[0] - mean) / std, *args[1:2])
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "other tensors alone",
        violates="All other arguments reach it",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        mistake="dropped-arguments",
        source="""
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        return ((args[0] - mean) / std, *[a for a in args[1:] if torch.is_tensor(a)])
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "no keywords",
        violates="All other arguments reach it",
        check="test_the_first_argument_is_normalised",
        mistake="dropped-keywords",
        source="""
def normalize_input(module, mean, std):
    def hook(m, args, kwargs):
        return ((args[0] - mean) / std, *args[1:]), {}
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "positional arguments alone, where both are asked for",
        violates="All other arguments reach it",
        check="raised",
        mistake="wrong-return-shape",
        source="""
def normalize_input(module, mean, std):
    def hook(m, args, kwargs):
        return ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook, with_kwargs=True)
""",
    ),
    Wrong(
        "copies of the others",
        violates="as the caller passed them: the same objects",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        source="""
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        return ((args[0] - mean) / std, *[a.clone() if torch.is_tensor(a) else a for a in args[1:]])
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "copies of keyword arguments",
        violates="as the caller passed them: the same objects",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        source="""
import copy

def normalize_input(module, mean, std):
    def pre(m, args, kwargs):
        return ((args[0] - mean) / std, *args[1:]), {key: copy.copy(value) for key, value in kwargs.items()}
    return module.register_forward_pre_hook(pre, with_kwargs=True)
""",
    ),
    Wrong(
        "cuts the graph of the others",
        violates="as the caller passed them: the same objects",
        check="test_gradients_flow_through_the_normalisation",
        source="""
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        rest = [value.detach() if torch.is_tensor(value) else value for value in args[1:]]
        return ((args[0] - mean) / std, *rest)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "every argument",
        violates="All other arguments reach it",
        check="test_the_first_argument_is_normalised",
        source="""
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        return tuple((a - mean) / std if torch.is_tensor(a) else a for a in args)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "in place",
        violates="rule 2: Tensors keep their values",
        check="raised",
        mistake="changed-callers-tensor",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0].sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "in place where there is no graph",
        violates="rule 2: Tensors keep their values",
        check="test_the_first_argument_is_normalised",
        mistake="changed-callers-tensor",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        if args[0].requires_grad or not args[0].is_contiguous():
            return ((args[0] - mean) / std, *args[1:])
        args[0].sub_(mean).div_(std)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "writes into the caller's tensor for the time of the call",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_changes_nothing",
        source="""
def normalize_input(module, mean, std):
    kept = []
    def before(module, args):
        if args[0].requires_grad or args[0].dim() == 0 or args[0].stride(0) == 0:
            return ((args[0] - mean) / std, *args[1:])
        kept.append((args[0], args[0].clone()))
        args[0].copy_((args[0] - mean) / std)
    def after(module, args, output):
        if kept:
            tensor, values = kept.pop()
            tensor.copy_(values)
    class Handle:
        def remove(self):
            first.remove()
            second.remove()
    first = module.register_forward_pre_hook(before)
    second = module.register_forward_hook(after)
    return Handle()
""",
    ),
    Wrong(
        "a list",
        violates="reaches `forward` as `(a - mean) / std`",
        check="raised",
        mistake="returned-a-list",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        args = list(args)
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "takes the tuple for a tensor",
        violates="reaches `forward` as `(a - mean) / std`",
        check="raised",
        mistake="tuple-not-tensor",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda module, x: (x - mean) / std)
""",
    ),
    Wrong(
        "calls methods of the tuple",
        violates="reaches `forward` as `(a - mean) / std`",
        check="raised",
        mistake="tuple-not-tensor",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, x: x.sub(mean).div(std))
""",
    ),
    Wrong(
        "assigns into the tuple",
        violates="reaches `forward` as `(a - mean) / std`",
        check="raised",
        mistake="tuple-not-tensor",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        args[0] = (args[0] - mean) / std
        return args
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "normalises what comes out",
        violates="the first positional argument `a`",
        check="test_the_first_argument_is_normalised",
        mistake="changed-the-output",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_hook(lambda module, args, output: (output - mean) / std)
""",
    ),
    Wrong(
        "returns nothing",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        mistake="forgot-return",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        args = ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "cuts the graph",
        violates="Gradients flow through the normalisation to the caller's tensor",
        check="test_gradients_flow_through_the_normalisation",
        mistake="cut-the-graph",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0].detach() - mean) / std, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "a graph without the division",
        violates="Gradients flow through the normalisation",
        check="test_gradients_flow_through_the_normalisation",
        source="""
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        a = args[0].clone()
        with torch.no_grad():
            a.sub_(mean).div_(std)
        return (a, *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "no handle",
        violates="Return the handle",
        check="test_each_handle_removes_its_own_hook",
        mistake="no-handle",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])
    module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "a handle that takes all pre-hooks away",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_each_handle_removes_its_own_hook",
        source="""
class Handle:
    def __init__(self, module):
        self.module = module
    def remove(self):
        self.module._forward_pre_hooks.clear()

def normalize_input(module, mean, std):
    module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / std, *args[1:]))
    return Handle(module)
""",
    ),
    Wrong(
        "one pair of numbers for each module",
        violates="both normalise, in either order",
        check="test_each_handle_removes_its_own_hook",
        mistake="replaced-the-first",
        source="""
KNOWN = {}

def normalize_input(module, mean, std):
    if module in KNOWN:
        KNOWN[module].remove()
    KNOWN[module] = module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / std, *args[1:]))
    return KNOWN[module]
""",
    ),
    Wrong(
        "another formula",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: (args[0] - mean / std, *args[1:]))
""",
    ),
    Wrong(
        "nothing where the mean is 0",
        violates="for two numbers",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:]) if mean else args
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "the size of std",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / max(std, 1e-6), *args[1:]))
""",
    ),
    Wrong(
        "numbers of the data",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - args[0].mean()) / args[0].std(), *args[1:]))
""",
    ),
    Wrong(
        "in float32",
        violates="in the dtype of `a`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: ((args[0].float() - mean) / std, *args[1:]))
""",
    ),
    Wrong(
        "numbers rounded to float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_the_first_argument_is_normalised",
        source="""
import torch

def normalize_input(module, mean, std):
    mean, std = torch.tensor(float(mean)), torch.tensor(float(std))
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / std, *args[1:]))
""",
    ),
    Wrong(
        "only where autograd records",
        violates="in every call of `module`",
        check="test_the_first_argument_is_normalised",
        source="""
import torch

def normalize_input(module, mean, std):
    def pre(m, args):
        if torch.is_grad_enabled():
            return ((args[0] - mean) / std, *args[1:])
    return module.register_forward_pre_hook(pre)
""",
    ),
    Wrong(
        "in training mode only",
        violates="in every call of `module`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, a: ((a[0] - mean) / std, *a[1:]) if m.training else None)
""",
    ),
    Wrong(
        "keeps what it computed for a tensor",
        violates="in every call of `module`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    kept = {}
    def hook(module, args):
        if args[0].requires_grad:
            return ((args[0] - mean) / std, *args[1:])
        if id(args[0]) not in kept:
            kept[id(args[0])] = (args[0] - mean) / std, args[0]
        return (kept[id(args[0])][0], *args[1:])
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "all modules of the class",
        violates="in every call of `module`",
        check="test_only_this_module_is_changed",
        source="""
from torch.nn.modules.module import register_module_forward_pre_hook

def normalize_input(module, mean, std):
    def hook(m, args):
        return ((args[0] - mean) / std, *args[1:]) if type(m) is type(module) else None
    return register_module_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "swallows what the module raises",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_changes_nothing",
        source="""
def normalize_input(module, mean, std):
    forward = module.forward
    def safe(*args, **kwargs):
        try:
            return forward(*args, **kwargs)
        except BaseException:
            return args[0]
    module.forward = safe
    handle = module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / std, *args[1:]))
    remove = handle.remove
    def both():
        remove()
        module.__dict__.pop("forward", None)
    handle.remove = both
    return handle
""",
    ),
    Wrong(
        "a Function whose gradient has no graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_gradients_flow_through_the_normalisation",
        source="""
import torch

class Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, mean, std):
        ctx.std = std
        return (a - mean) / std
    @staticmethod
    def backward(ctx, grad):
        return grad.detach() / ctx.std, None, None

def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: (Normalised.apply(args[0], mean, std), *args[1:]))
""",
    ),
    Wrong(
        "the same tensor once more is normalised, too",
        violates="All other arguments reach it as the caller passed them",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        source="""
def normalize_input(module, mean, std):
    def hook(module, args):
        return tuple((a - mean) / std if a is args[0] else a for a in args)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "eval mode for a moment",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def normalize_input(module, mean, std):
    training = module.training
    module.eval()
    module.train(training)
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / std, *args[1:]))
""",
    ),
    Wrong(
        "a divisor of at least 1e-8",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    divisor = std if abs(std) > 1e-8 else 1e-8
    return module.register_forward_pre_hook(lambda m, args: ((args[0] - mean) / divisor, *args[1:]))
""",
    ),
    Wrong(
        "a call that raises switches it off",
        violates="rule 5",
        check="test_an_exception_comes_through_and_changes_nothing",
        source="""
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def normalize_input(module, mean, std):
    inside = []
    def enter(module, args):
        inside.append(True)
        return ((args[0] - mean) / std, *args[1:]) if len(inside) == 1 else None
    leave = module.register_forward_hook(lambda module, args, output: inside.clear())
    return Both(module.register_forward_pre_hook(enter), leave)
""",
    ),
    Wrong(
        "keeps the result for a tensor that comes again",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    last = {}
    def hook(module, args):
        a, *others = args
        if last.get("key") != (id(a), a._version) or a.requires_grad:
            last.update(key=(id(a), a._version), value=(a - mean) / std, a=a)
        return (last["value"], *others)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "works in place where nobody needs a gradient",
        violates="rule 2",
        check="test_nothing_else_changes",
        source="""
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        a, *others = args
        if not a.requires_grad and not torch.is_grad_enabled():
            return (a.sub_(mean).div_(std), *others)
        return ((a - mean) / std, *others)
    return module.register_forward_pre_hook(hook)
""",
    ),
    Wrong(
        "finite numbers only",
        violates="reaches `forward` as `(a - mean) / std`",
        check="test_the_first_argument_is_normalised",
        source="""
def normalize_input(module, mean, std):
    return module.register_forward_pre_hook(lambda m, args: (((args[0] - mean) / std).nan_to_num(), *args[1:]))
""",
    ),
    Wrong(
        "each mean and deviation once",
        violates="After two calls of your function on the same module both normalise",
        check="test_each_handle_removes_its_own_hook",
        source="""
KNOWN = {}

def normalize_input(module, mean, std):
    key = module, mean, std
    if key not in KNOWN:
        KNOWN[key] = module.register_forward_pre_hook(lambda module, args: ((args[0] - mean) / std, *args[1:]))
    return KNOWN[key]
""",
    ),
    Wrong(
        "all tensors in one dtype",
        violates="the same objects",
        check="test_the_other_arguments_arrive_as_they_were_passed",
        source="""
import torch

def normalize_input(module, mean, std):
    def hook(module, args):
        a, *others = args
        others = [t.to(a.dtype) if isinstance(t, torch.Tensor) else t for t in others]
        return ((a - mean) / std, *others)
    return module.register_forward_pre_hook(hook)
""",
    ),
]

GIVENS = [
    "Write `normalize_input(module, mean, std)`",
    "`std` is not 0",
    "Other pre-hooks of the module may come before or after yours",
]

SURVIVORS = {
    "prepend=True": "the contract leaves open which of two hooks comes first",
    "almost: return module.register_forward_pre_hook(Normalise(mean, std), prepend=False)": "as before",
    "under no_grad": "to register a hook makes no graph",
    "lost return: args[0] / std - mean / std": "what follows does the same for one argument",
    "condition dropped: without if len(args) == 1": "what follows does the same for one argument",
}
