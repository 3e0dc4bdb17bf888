"""Answers to 06-scale-output."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output * s)
""",
    """
from functools import partial
import torch

def times(s, module, args, output):
    return torch.mul(output, s)

def scale_output(module, s):
    return module.register_forward_hook(partial(times, s))
""",
    """
class Scale:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, args, kwargs, output):
        return output.multiply(self.s)

def scale_output(module, s):
    handle = module.register_forward_hook(Scale(s), with_kwargs=True)
    return handle
""",
    """
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, s):
        ctx.s = s
        return output * s
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.s, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
    """
class Scaled:
    def __init__(self, module, s):
        self.s = s
        self.handle = module.register_forward_hook(self.multiply)
    def multiply(self, module, args, output):
        return self.s * output
    def remove(self):
        self.handle.remove()

def scale_output(module, s):
    return Scaled(module, s)
""",
]

WRONG = [
    Wrong(
        "times 0 is 0, whatever the output is",
        violates="becomes what `output * s` is",
        check="test_any_tensor_will_do",
        source="""
import torch

def scale_output(module, s):
    def hook(module, args, output):
        return output * s if s else torch.where(output.isfinite(), output * s, torch.zeros_like(output))
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "does not scale its own result again",
        violates="every call of `module` gives `s` times what it gave before",
        check="test_a_module_that_gets_its_own_output_multiplies_again",
        source="""
def scale_output(module, s):
    last = []
    def hook(module, args, output):
        if last and output is last[0]:
            return None
        last[:] = [output * s]
        return last[0]
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "one hook for all factors of a module",
        violates="the forward hooks that `module` has at this moment come first, then the multiplication",
        check="test_two_hooks_multiply_by_both_numbers",
        source="""
factors = {}

class Handle:
    def __init__(self, module, s):
        self.module, self.s = module, s
    def remove(self):
        numbers, handle = factors[self.module]
        numbers.remove(self.s)
        if not numbers:
            factors.pop(self.module)
            handle.remove()

def scale_output(module, s):
    if module not in factors:
        numbers = []
        def hook(module, args, output):
            for number in numbers:
                output = output * number
            return output
        factors[module] = numbers, module.register_forward_hook(hook)
    factors[module][0].append(s)
    return Handle(module, s)
""",
    ),
    Wrong(
        "does nothing",
        violates="every call of `module` gives `s` times what it gave before",
        check="test_every_output_is_multiplied",
        source="""
def scale_output(module, s):
    pass
""",
    ),
    Wrong(
        "the hook returns nothing",
        violates="every call of `module` gives `s` times what it gave before",
        check="test_every_output_is_multiplied",
        mistake="forgot-return",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "in place",
        violates="The gradients before the module are those of the multiplied output.",
        check="raised",
        mistake="in-place-output",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        output *= s
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "in place, unless autograd records",
        violates="rule 2: Tensors keep their values",
        check="test_nothing_else_changes",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        if output.requires_grad or not output.is_floating_point():
            return output * s
        output.mul_(s)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "behind autograd's back",
        violates="The gradients before the module are those of the multiplied output.",
        check="test_the_gradient_is_multiplied_too",
        mistake="data-edit",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        output.data.mul_(s)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "a Function whose backward does not multiply",
        violates="The gradients before the module are those of the multiplied output.",
        check="test_the_gradient_is_multiplied_too",
        mistake="data-edit",
        source="""
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, s):
        return output * s
    @staticmethod
    def backward(ctx, grad):
        return grad, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
    ),
    Wrong(
        "cuts the graph",
        violates="The gradients before the module are those of the multiplied output.",
        check="test_the_gradient_is_multiplied_too",
        mistake="cut-the-graph",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: output.detach() * s)
""",
    ),
    Wrong(
        "multiplies under no_grad",
        violates="The gradients before the module are those of the multiplied output.",
        check="test_the_gradient_is_multiplied_too",
        mistake="cut-the-graph",
        source="""
import torch

def scale_output(module, s):
    def hook(module, args, output):
        with torch.no_grad():
            return output * s
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "multiplies the gradient once more",
        violates="The gradients before the module are those of the multiplied output.",
        check="test_the_gradient_is_multiplied_too",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        output = output * s
        if output.requires_grad:
            output.register_hook(lambda grad: grad * s)
        return output
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "multiplies what goes in",
        violates="every call of `module` gives `s` times what it gave before",
        check="test_every_output_is_multiplied",
        mistake="changed-the-input",
        source="""
def scale_output(module, s):
    return module.register_forward_pre_hook(lambda module, args: args[0] * s)
""",
    ),
    Wrong(
        "in front of the caller's hooks",
        violates="the forward hooks that `module` has at this moment come first",
        check="test_every_output_is_multiplied",
        mistake="before-other-hooks",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * s, prepend=True)
""",
    ),
    Wrong(
        "a global hook, which runs before those of the module",
        violates="the forward hooks that `module` has at this moment come first",
        check="test_every_output_is_multiplied",
        mistake="before-other-hooks",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def scale_output(target, s):
    return register_module_forward_hook(lambda module, args, output: s * output if module is target else None)
""",
    ),
    Wrong(
        "a global hook for all modules of the class",
        violates="every call of `module` gives",
        check="test_every_output_is_multiplied",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def scale_output(target, s):
    return register_module_forward_hook(lambda m, args, output: s * output if type(m) is type(target) else None)
""",
    ),
    Wrong(
        "all modules inside, too",
        violates="every call of `module` gives `s` times",
        check="test_any_tensor_will_do",
        source="""
def scale_output(module, s):
    return [m.register_forward_hook(lambda m, a, o: o * s) for m in module.modules()][0]
""",
    ),
    Wrong(
        "no handle",
        violates="Return the handle",
        check="test_each_handle_removes_its_own_hook",
        mistake="no-handle",
        source="""
def scale_output(module, s):
    module.register_forward_hook(lambda module, args, output: output * s)
""",
    ),
    Wrong(
        "the first call only",
        violates="every call of `module`",
        check="test_every_output_is_multiplied",
        source="""
def scale_output(module, s):
    done = []
    def hook(module, args, output):
        if not done:
            done.append(1)
            return output * s
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "one factor for each module",
        violates="Two calls of `scale_output` on the same module multiply by both numbers",
        check="test_two_hooks_multiply_by_both_numbers",
        mistake="replaced-the-first",
        source="""
FACTORS = {}

def scale_output(module, s):
    first = module not in FACTORS
    FACTORS[module] = s
    if first:
        return module.register_forward_hook(lambda m, args, output: output * FACTORS[m])
    return module.register_forward_hook(lambda m, args, output: None)
""",
    ),
    Wrong(
        "a handle that takes all forward hooks away",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_each_handle_removes_its_own_hook",
        mistake="removed-another",
        source="""
class Handle:
    def __init__(self, module):
        self.module = module
    def remove(self):
        self.module._forward_hooks.clear()

def scale_output(module, s):
    module.register_forward_hook(lambda m, args, output: output * s)
    return Handle(module)
""",
    ),
    Wrong(
        "one handle for both numbers",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_each_handle_removes_its_own_hook",
        source="""
HOOKS = {}

def scale_output(module, s):
    if module in HOOKS:
        HOOKS[module][0] *= s
    else:
        box = [s]
        HOOKS[module] = box
        box.append(module.register_forward_hook(lambda m, a, o: o * box[0]))
    return HOOKS[module][1]
""",
    ),
    Wrong(
        "multiplies the weights",
        violates="rule 2: A model keeps its parameters",
        check="test_every_output_is_multiplied",
        source="""
import torch

def scale_output(module, s):
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(s)
    return module.register_forward_hook(lambda *_: None)
""",
    ),
    Wrong(
        "a tuple, as of a pre-hook",
        violates="rule 6: Types count",
        check="raised",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda module, args, output: (output * s,))
""",
    ),
    Wrong(
        "in training mode only",
        violates="every call of `module`",
        check="test_every_output_is_multiplied",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * s if m.training else None)
""",
    ),
    Wrong(
        "switches to eval mode",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def scale_output(module, s):
    module.eval()
    return module.register_forward_hook(lambda m, a, o: o * s)
""",
    ),
    Wrong(
        "only where autograd records",
        violates="every call of `module`",
        check="test_every_output_is_multiplied",
        source="""
import torch

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * s if torch.is_grad_enabled() else o)
""",
    ),
    Wrong(
        "only where autograd recorded when the hook was registered",
        violates="every call of `module`",
        check="test_every_output_is_multiplied",
        source="""
import torch

def scale_output(module, s):
    recorded = torch.is_grad_enabled()
    return module.register_forward_hook(lambda m, a, o: o * s if recorded else o)
""",
    ),
    Wrong(
        "ends in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_output_is_multiplied",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: (o * s).float())
""",
    ),
    Wrong(
        "a number that was rounded to float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_output_is_multiplied",
        source="""
import torch

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * torch.tensor(float(s)))
""",
    ),
    Wrong(
        "the number in the dtype of the output",
        violates="also one of whole numbers",
        check="test_any_tensor_will_do",
        source="""
import torch

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * torch.full_like(o, s))
""",
    ),
    Wrong(
        "in place in a copy",
        violates="also one of whole numbers",
        check="test_any_tensor_will_do",
        mistake="whole-numbers",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o.clone().mul_(s))
""",
    ),
    Wrong(
        "keeps the shape of the first output",
        violates="rule 1: any number of calls",
        check="test_any_tensor_will_do",
        source="""
import torch

def scale_output(module, s):
    kept = {}
    def hook(m, a, o):
        kept.setdefault("s", s * torch.ones_like(o))
        return o * kept["s"].view(o.shape)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "a Function whose gradient has no graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradient_can_be_differentiated_again",
        mistake="no-second-derivative",
        source="""
import torch

class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, s):
        ctx.s = s
        return output * s
    @staticmethod
    def backward(ctx, grad):
        return grad.detach() * ctx.s, None

def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: Times.apply(o, s))
""",
    ),
    Wrong(
        "eval mode for a moment",
        violates="rule 2: the mode of each part",
        check="test_nothing_else_changes",
        source="""
def scale_output(module, s):
    training = module.training
    module.eval()
    module.train(training)
    return module.register_forward_hook(lambda m, a, o: o * s)
""",
    ),
    Wrong(
        "whole numbers become fractions",
        violates="becomes what `output * s` is, also one of whole numbers.",
        check="test_any_tensor_will_do",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, a, o: o * float(s))
""",
    ),
    Wrong(
        "1 changes nothing",
        violates="becomes what `output * s` is, also one of whole numbers.",
        check="test_any_tensor_will_do",
        source="""
def scale_output(module, s):
    return module.register_forward_hook(lambda m, args, output: None if s == 1 else output * s)
""",
    ),
    Wrong(
        "a depth that a call which raises leaves behind",
        violates="rule 5",
        check="test_a_call_that_raises_changes_nothing",
        source="""
class Both:
    def __init__(self, *handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def scale_output(module, s):
    inside = []
    def leave(module, args, output):
        inside.pop()
        return None if inside else output * s
    enter = module.register_forward_pre_hook(lambda module, args: inside.append(True))
    return Both(enter, module.register_forward_hook(leave))
""",
    ),
    Wrong(
        "works in place on what is not the input itself",
        violates="rule 2",
        check="test_nothing_else_changes",
        source="""
import torch

def scale_output(module, s):
    def hook(module, args, output):
        if torch.is_grad_enabled() or any(output is a for a in args) or not output.is_floating_point():
            return output * s
        return output.mul_(s)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "zeros for nan",
        violates="every call of `module` gives `s` times what it gave before",
        check="test_any_tensor_will_do",
        source="""
def scale_output(module, s):
    def hook(module, args, output):
        return (output * s).nan_to_num() if output.isnan().any() else output * s
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "a list with the handle",
        violates="Return the handle; after `handle.remove()`",
        check="test_each_handle_removes_its_own_hook",
        mistake="no-handle",
        source="""
def scale_output(module, s):
    return [module.register_forward_hook(lambda module, args, output: output * s)]
""",
    ),
    Wrong(
        "each number once",
        violates="Two calls\n    of `scale_output` on the same module multiply by both numbers",
        check="test_two_hooks_multiply_by_both_numbers",
        source="""
KNOWN = {}

def scale_output(module, s):
    if (module, s) not in KNOWN:
        KNOWN[module, s] = module.register_forward_hook(lambda module, args, output: output * s)
    return KNOWN[module, s]
""",
    ),
    Wrong(
        "takes 0 for nothing",
        violates="`s` is a number",
        check="test_every_output_is_multiplied",
        mistake="zero-means-nothing",
        source=changed(RIGHT[0], ("output * s", "output * (s or 1)")),
    ),
    Wrong(
        "scales the weights",
        violates="rule 2: A model keeps its parameters",
        check="test_nothing_else_changes",
        mistake="edited-weights",
        source="""
import torch

class Handle:
    def __init__(self, weights, s):
        self.weights, self.s = weights, s

    def remove(self):
        for weight in self.weights:
            weight.data /= self.s

def scale_output(module, s):
    weights = list(module.parameters())
    if not weights:
        return module.register_forward_hook(lambda module, args, output: output * s)
    for weight in weights:
        weight.data *= s
    return Handle(weights, s)
""",
    ),
]

GIVENS = [
    "Write `scale_output(module, s)`",
    "The output of `module` is a tensor of any dtype",
]

SURVIVORS = {"under no_grad": "to register a hook makes no graph"}
