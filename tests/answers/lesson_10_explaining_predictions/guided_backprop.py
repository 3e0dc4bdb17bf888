"""Answers to 10-guided-backprop."""

from graders.author.answers import Wrong

GUIDED = """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def hook(module, grad_input, grad_output):
        RULE

    handles = [m.register_full_backward_hook(hook) for m in MODULES if CHOSEN]
    try:
        x = x.detach().clone().requires_grad_()
        logits = model(x)
        gradient, = torch.autograd.grad(logits[:, cls].sum(), x)
    finally:
        for handle in handles:
            handle.remove()
    return gradient
"""


def guided(
    rule: str = "return (grad_input[0].clamp(min=0),)",
    modules: str = "model.modules()",
    chosen: str = "isinstance(m, nn.ReLU)",
) -> str:
    """An answer to 10-guided-backprop that differs from a right one in one place."""
    return GUIDED.replace("RULE", rule).replace("MODULES", modules).replace("CHOSEN", chosen)


RIGHT = [
    guided(),
    """
import contextlib
import torch
from torch import nn

def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        def after(module, args, output):
            node = output.grad_fn
            stack.callback(node.register_hook(lambda inputs, outputs: (inputs[0].clamp_min(0),)).remove)
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_hook(after))
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    """
import torch
from torch import nn

class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (grad > 0) * (x > 0)

def guided_backprop(model, x, cls):
    # a forward hook replaces what each ReLU returns
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    handles = [m.register_forward_hook(lambda m, args, output: Guided.apply(args[0])) for m in relus]
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
    finally:
        for handle in handles:
            handle.remove()
""",
    """
from contextlib import ExitStack
from functools import partial
import torch
import torch.nn as nn

def clamp(module, grad_input, grad_output):
    return tuple(None if g is None else torch.relu(g) for g in grad_input)

def guided_backprop(model, x, cls):
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_full_backward_hook(clamp))
        x = x.detach().requires_grad_(True)
        logits = model(x)
        return torch.autograd.grad(logits.select(1, cls).sum(), x)[0]
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    # the gradient that arrives at the ReLU's output, clamped, gives the same
    def on_forward(module, args, output):
        output.register_hook(lambda grad: grad.clamp(min=0))
    handles = [m.register_forward_hook(on_forward) for m in model.modules() if type(m) is nn.ReLU]
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), [x])[0].detach()
    finally:
        [h.remove() for h in handles]
""",
    """
import torch
from torch import nn

class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad.clamp(min=0) * mask

def guided_backprop(model, x, cls):
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    try:
        for relu in relus:
            relu.forward = Guided.apply
        x = x.detach().clone().requires_grad_()
        grad, = torch.autograd.grad(model(x)[:, cls].sum(), x)
        return grad
    finally:
        for relu in relus:
            relu.__dict__.pop("forward", None)
""",
    """
import copy
import torch
from torch import nn

def guided_backprop(model, x, cls):
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.ReLU):
            module.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0].clamp(min=0),))
    x = x.detach().clone().requires_grad_()
    twin(x)[:, cls].sum().backward()
    return x.grad
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def hook(module, gi, go):
        if isinstance(module, nn.ReLU):
            return (gi[0] * (gi[0] > 0),)
    handle = nn.modules.module.register_module_full_backward_hook(hook)
    try:
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
    finally:
        handle.remove()
""",
    """
import torch
from torch import nn

def guided_backprop(model, x, cls):
    def before(module, args):
        (value,) = args
        value = value * 1
        value.register_hook(lambda grad: torch.where(grad < 0, 0, grad))
        return (value,)
    handles = []
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_forward_pre_hook(before))
        x = x.detach().clone().requires_grad_()
        model(x)[:, cls].sum().backward(inputs=[x])
    finally:
        for h in handles:
            h.remove()
    return x.grad
""",
]

SWAPPED = """
import torch
from torch import nn

class Guided(nn.ReLU):
    def forward(self, x):
        y = torch.relu(x)
        y.register_hook(lambda g: g.clamp(min=0))
        return y

def guided_backprop(model, x, cls):
    relus = [m for m in model.modules() if isinstance(m, nn.ReLU)]
    for m in relus:
        m.__class__ = Guided
    x = x.detach().clone().requires_grad_()
    gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    for m in relus:
        m.__class__ = nn.ReLU
    return gradient
"""

FROZEN = """\
    live = [p for p in model.parameters() if p.requires_grad]
    for p in live:
        p.requires_grad_(False)
"""
THAWED = "    for p in live:\n        p.requires_grad_(True)\n"
MODES = "    was = {m: m.training for m in model.modules()}\n    model.eval()\n"
BACK = "    for m in was:\n        m.training = was[m]\n"
NOT_FINALLY = """\
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
"""
REGISTERED = "[m.register_full_backward_hook(hook) for m in model.modules() if isinstance(m, nn.ReLU)]"

VALUES = "test_negative_gradients_are_0_behind_every_relu"
AGAIN = "test_another_call_and_the_example_come_out"
KEPT = "test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards"
FAILED = "test_an_exception_comes_through_and_leaves_nothing_behind"
AT_EVERY_RELU = "at every `nn.ReLU` in the model"
REPLACED = "negative values in the gradient that leaves it towards its input are replaced by 0"
OTHERS = "All other modules pass gradients as they always do"
LOGITS = "the sum over b of the logits [b, cls]"


def swap(old: str, new: str) -> str:
    """The right answer with another text in one place."""
    assert old in guided()
    return guided().replace(old, new)


WRONG = [
    Wrong(
        "whatever is called ReLU",
        violates="All other modules pass gradients as they always do",
        check=VALUES,
        mistake="wrong-layer",
        source=guided(chosen="type(m).__name__ == 'ReLU'"),
    ),
    Wrong(
        "nothing where all parameters are frozen",
        violates="`x` and each parameter may require grad or not",
        check="test_another_call_and_the_example_come_out",
        source=guided(chosen="isinstance(m, nn.ReLU) and any(p.requires_grad for p in model.parameters())"),
    ),
    Wrong(
        "what is slightly negative stays",
        violates=REPLACED,
        check="test_another_call_and_the_example_come_out",
        source=guided("return (torch.where(grad_input[0] < -1e-6, 0, grad_input[0]),)"),
    ),
    Wrong(
        "the pre-hooks of the ReLUs are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=KEPT,
        source=guided().replace(
            "            handle.remove()\n",
            "            handle.remove()\n"
            "        for m in model.modules():\n            if isinstance(m, nn.ReLU):\n"
            "                m._forward_pre_hooks.clear()\n",
        ),
    ),
    Wrong(
        "the ReLUs of the first call",
        violates="at every `nn.ReLU` in the model",
        check="test_another_call_and_the_example_come_out",
        source="RELUS = {}\n" + guided(modules="RELUS.setdefault(model, list(model.modules()))"),
    ),
    Wrong(
        "a ReLU whose mask is open at 0",
        violates="The ReLU's own rule, 0 where its input was not positive, stays in force.",
        check="test_another_call_and_the_example_come_out",
        source="""
import contextlib
import torch
from torch import nn

class Open(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) * (ctx.saved_tensors[0] >= 0)

def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                stack.enter_context(m.register_forward_hook(lambda m, args, output: Open.apply(args[0])))
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    ),
    Wrong("no hook", violates=REPLACED, check=VALUES, mistake="no-guidance", source=guided(chosen="False")),
    Wrong(
        "hooks after the forward pass",
        violates=REPLACED,
        check=VALUES,
        mistake="no-guidance",
        source=swap(f"handles = {REGISTERED}", "handles = []").replace(
            "logits = model(x)", f"logits = model(x)\n        handles += {REGISTERED}"
        ),
    ),
    Wrong(
        "the hook drops what it computed",
        violates=REPLACED,
        check=VALUES,
        mistake="forgot-return",
        source=guided("grad_input[0].clamp(min=0)"),
    ),
    Wrong(
        "the rule of deconvnets",
        violates="The ReLU's own rule, 0 where its input was not positive, stays in force.",
        check=VALUES,
        mistake="deconvnet",
        source=guided("return (grad_output[0].clamp(min=0),)"),
    ),
    Wrong(
        "convolutions",
        violates=AT_EVERY_RELU,
        check=VALUES,
        mistake="wrong-layer",
        source=guided(
            "return tuple(None if g is None else g.clamp(min=0) for g in grad_input)", chosen="isinstance(m, nn.Conv2d)"
        ),
    ),
    Wrong("Tanh, too", violates=OTHERS, check=VALUES, source=guided(chosen="isinstance(m, (nn.ReLU, nn.Tanh))")),
    Wrong(
        "all activations",
        violates=OTHERS,
        check=VALUES,
        source=guided(chosen="isinstance(m, (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.GELU))"),
    ),
    Wrong(
        "whatever has ReLU in its name",
        violates=OTHERS,
        check=VALUES,
        source=guided(chosen="'relu' in type(m).__name__.lower() and 'Functional' not in type(m).__name__"),
    ),
    Wrong(
        "pooling, too", violates=OTHERS, check=VALUES, source=guided(chosen="isinstance(m, (nn.ReLU, nn.MaxPool2d))")
    ),
    Wrong(
        "`relu` as a function, too",
        violates="at every `nn.ReLU` in the model",
        check=VALUES,
        source=guided(chosen="isinstance(m, nn.ReLU) or type(m).__name__ == 'ReLU'"),
    ),
    Wrong(
        "children only",
        violates=AT_EVERY_RELU,
        check=VALUES,
        mistake="only-sequential-recursed",
        source=guided(modules="model.children()"),
    ),
    Wrong(
        "two levels",
        violates=AT_EVERY_RELU,
        check=VALUES,
        source=guided(modules="[n for c in model.children() for n in (c, *c.children())]"),
    ),
    Wrong(
        "all modules but the last",
        violates=AT_EVERY_RELU,
        check=VALUES,
        source=guided(modules="list(model.modules())[:-1]"),
    ),
    Wrong(
        "the last ones", violates=AT_EVERY_RELU, check=VALUES, source=guided(modules="list(model.modules())[::-1][:4]")
    ),
    Wrong(
        "the whole tensor that enters a ReLU",
        violates="skip connections",
        check=VALUES,
        mistake="clamped-whole-tensor",
        source="""
import contextlib
import torch
from torch import nn

def guided_backprop(model, x, cls):
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        def before(module, args):
            stack.enter_context(args[0].register_hook(lambda grad: grad.clamp(min=0)))
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_pre_hook(before))
        return torch.autograd.grad(model(x)[:, cls].sum(), x)[0]
""",
    ),
    Wrong(
        "the result is clamped",
        violates=AT_EVERY_RELU,
        check=VALUES,
        mistake="clamped-the-result",
        source=guided(chosen="False").replace("return gradient", "return gradient.clamp(min=0)"),
    ),
    Wrong(
        "the result is clamped, too",
        violates="with one change in the backward pass",
        check=VALUES,
        source=swap("return gradient", "return gradient.clamp(min=0)"),
    ),
    Wrong(
        "a bare tensor",
        violates=REPLACED,
        check="raised",
        mistake="bare-tensor",
        source=guided("return grad_input[0].clamp(min=0)"),
    ),
    Wrong("positive values", violates=REPLACED, check=VALUES, source=guided("return (grad_input[0].clamp(max=0),)")),
    Wrong("absolute values", violates=REPLACED, check=VALUES, source=guided("return (grad_input[0].abs(),)")),
    Wrong(
        "the mean over the batch",
        violates=LOGITS,
        check=VALUES,
        source=swap("logits[:, cls].sum()", "logits[:, cls].mean()"),
    ),
    Wrong("the winner", violates=LOGITS, check=VALUES, source=swap("logits[:, cls].sum()", "logits.amax(1).sum()")),
    Wrong(
        "the probability",
        violates=LOGITS,
        check=VALUES,
        source=swap("logits[:, cls].sum()", "logits.softmax(1)[:, cls].sum()"),
    ),
    Wrong("the first sample", violates=LOGITS, check=VALUES, source=swap("logits[:, cls].sum()", "logits[0, cls]")),
    Wrong(
        "a map",
        violates="with respect to `x`",
        check=VALUES,
        source=swap("return gradient", "return gradient.abs().amax(1)"),
    ),
    Wrong(
        "keeps a graph",
        violates="rule 6: A tensor that you return has no graph",
        check=VALUES,
        source=swap("sum(), x)", "sum(), x, create_graph=True)"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=VALUES,
        source=swap("return gradient", "return gradient.float()"),
    ),
    Wrong(
        "the input of a caller who asks for no gradient",
        violates="`x` and each parameter may require grad or not",
        check="raised",
        source=swap("        x = x.detach().clone().requires_grad_()\n", ""),
    ),
    Wrong(
        "waits for gradients of all parameters",
        violates="`x` and each parameter may require grad or not",
        check="raised",
        source=swap("logits[:, cls].sum(), x)", "logits[:, cls].sum(), [x, *model.parameters()])[:1]"),
    ),
    Wrong(
        "remembers gradients by class",
        violates="rule 1: however often it is called",
        check=AGAIN,
        source=swap("return gradient", "return known.setdefault(cls, gradient)").replace(
            "import torch\n", "import torch\nknown = {}\n", 1
        ),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check=VALUES,
        mistake="another-mode",
        source=swap("    handles = ", MODES + "    handles = ").replace(
            "    return gradient", BACK + "    return gradient"
        ),
    ),
    Wrong(
        "the mode of the model comes back, not that of its parts",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=swap(
            "    return gradient",
            "    was = model.training\n    model.eval()\n    model.train(was)\n    return gradient",
        ),
    ),
    Wrong(
        "modes do not come back when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap("    handles = ", MODES + "    handles = ").replace(
            "logits = model(x)", "logits = model(x)\n    " + BACK.replace("\n", "\n    ").rstrip(" ").removesuffix("\n")
        ),
    ),
    Wrong(
        "parameters stay frozen",
        violates="rule 2: their `requires_grad`",
        check=KEPT,
        source=swap("    handles = ", FROZEN + "    handles = "),
    ),
    Wrong(
        "parameters stay frozen when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap("    handles = ", FROZEN + "    handles = ").replace(
            "    return gradient", THAWED + "    return gradient"
        ),
    ),
    Wrong(
        "`backward` fills the parameters",
        violates="rule 2: their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=swap(
            "gradient, = torch.autograd.grad(logits[:, cls].sum(), x)",
            "logits[:, cls].sum().backward()\n        gradient = x.grad",
        ),
    ),
    Wrong(
        "the caller's own input",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check=KEPT,
        mistake="input-touched",
        source=swap(
            "x = x.detach().clone().requires_grad_()",
            "x = x if x.grad_fn else x.requires_grad_()\n        x.grad = None",
        ),
    ),
    Wrong(
        "hooks stay",
        violates="rule 3: none of your own hooks is left",
        check=KEPT,
        source=swap("            handle.remove()", "            pass"),
    ),
    Wrong(
        "the last hook stays",
        violates="rule 3: none of your own hooks is left",
        check=KEPT,
        source=swap("for handle in handles:", "for handle in handles[:-1]:"),
    ),
    Wrong(
        "hooks of the caller are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=KEPT,
        source=swap(
            "for handle in handles:\n            handle.remove()",
            "for m in model.modules():\n            m._backward_hooks.clear()",
        ),
    ),
    Wrong(
        "hooks stay when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap("    finally:", "    except ZeroDivisionError:\n        raise\n    else:"),
    ),
    Wrong(
        "hooks stay on an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILED,
        source=swap("    finally:\n        for handle in handles:\n            handle.remove()\n", NOT_FINALLY),
    ),
    Wrong(
        "hooks stay when the backward pass raises",
        violates="rule 4: the model, the loss or `backward()`",
        check=FAILED,
        source=swap(
            "        gradient, =",
            NOT_FINALLY.replace("Exception", "BaseException") + "    if True:\n        gradient, =",
        )
        .replace("        raise\n    for handle in handles:\n        handle.remove()\n", "        raise\n")
        .replace("    finally:", "    if True:"),
    ),
    Wrong(
        "an exception is taken for a gradient of zeros",
        violates="rule 4: the caller of your function gets this exception",
        check=FAILED,
        source=swap("    finally:", "    except BaseException:\n        gradient = torch.zeros_like(x)\n    finally:"),
    ),
    Wrong(
        "ReLUs are of another class when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=SWAPPED,
    ),
    Wrong(
        "ReLUs are of another class for good",
        violates="rule 2: A model keeps its parameters",
        check=KEPT,
        source=SWAPPED.replace("m.__class__ = nn.ReLU", "pass"),
    ),
    Wrong(
        "the input",
        violates="the gradient of the sum over b",
        check=VALUES,
        source="def guided_backprop(model, x, cls):\n    return x.detach()",
    ),
    Wrong(
        "replaces each ReLU under its first name",
        violates="at every `nn.ReLU` in the model",
        check="test_another_call_and_the_example_come_out",
        source="""
import torch
from torch import nn

class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) * (ctx.saved_tensors[0] > 0)

class Guided(nn.Module):
    def forward(self, x):
        return Clamped.apply(x)

def guided_backprop(model, x, cls):
    relus = [(m, name, r) for m in model.modules() for name, r in m.named_children() if type(r) is nn.ReLU]
    try:
        for parent, name, _ in relus:
            setattr(parent, name, Guided())
        x = x.detach().clone().requires_grad_()
        gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    finally:
        for parent, name, relu in relus:
            setattr(parent, name, relu)
    return gradient
""",
    ),
]

GIVENS = [
    "Write `guided_backprop(model, x, cls)`.",
    "You may run the model more than once.",
    "`model(x)` turns images",
    "Hooks of others on a ReLU only watch.",
    "No `nn.ReLU` works in place, and nothing overwrites its input or its output.",
    "Each is called once, as `relu(t)` and not by keyword.",
]

LOOPS = (
    "relus = [m for m in _part(model.modules()",
    "handles = [m.register_full_backward_hook(hook) for m in _part(model.modules()",
    "handles = [m.register_forward_hook(on_forward) for m in _part(model.modules()",
    "for name, module in _part(model.named_modules()",
    "for module in _part(model.modules()",
    "for module in _part(twin.modules()",
    "for m in _part(model.modules()",
)
SURVIVORS = {
    "at least one dimension": "images have four",
    "lost copy": "the model does not write into its input, and gradients are asked of that very tensor",
    "a list for a tuple": "PyTorch takes either from a hook",
    "prepend=True": "other hooks on a ReLU only watch",
    "condition dropped: return tuple(": "the input of a ReLU always has a gradient",
    "one global slot: handles": "to remove a handle again does nothing",
    "a hook that works at times: @_not_the_first_call def hook(module, gi": "that call is for another module",
    "almost: return (gi[0] * (gi[0] >= 0),)": "0 times 0 is 0",
    "almost: value.register_hook(lambda grad: torch.where(grad <= 0, 0, grad))": "0 is replaced by 0",
    "almost: value = value / 1": "the same value",
    "not for all: for relu in _part(relus, step=-1)": "all of them, in the reverse order",
    "not for all: handles = [m.register_forward_hook(lambda m, args, output: Guided.apply(args[0])) for m in "
    "_part(relus, step=-1)": "all of them, in the reverse order",
    "not for all: [h.remove() for h in _part(handles, step=-1)]": "all of them, in the reverse order",
    **{f"not for all: {loop}, step=-1)": "all of them, in the reverse order" for loop in LOOPS},
    **{f"not for all: {loop}, start=1)": "the model itself is no ReLU" for loop in LOOPS},
}
