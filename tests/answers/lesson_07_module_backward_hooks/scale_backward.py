"""Answers to 07-scale-backward."""

from graders.author.answers import Wrong, changed

TAUGHT = """
def scale_backward(module, s):
    def hook(module, grad_output):
        return tuple(None if g is None else s * g for g in grad_output)
    return module.register_full_backward_pre_hook(hook)
"""

RIGHT = [
    TAUGHT,
    """
import torch

def scale_backward(module, s):
    def watch(module, args, output):
        outs = output if isinstance(output, tuple) else (output,)
        for out in outs:
            if isinstance(out, torch.Tensor) and out.requires_grad:
                out.register_hook(lambda g: g * s)
    return module.register_forward_hook(watch)
""",
    """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return ctx.s * g, None

def scale_backward(module, s):
    def hook(module, args, output):
        if isinstance(output, tuple):
            return tuple(Scale.apply(o, s) for o in output)
        return Scale.apply(output, s)
    return module.register_forward_hook(hook)
""",
    """
class Scaler:
    def __init__(self, s):
        self.s = s
    def __call__(self, module, go):
        return [g if g is None else g.mul(self.s) for g in go]

def scale_backward(module, s):
    return module.register_full_backward_pre_hook(Scaler(s), prepend=True)
""",
    """
def scale_backward(module, s):
    handles = [p.register_hook(lambda g: g if g is None else g * s) for p in module.parameters() if p.requires_grad]
    handles.append(module.register_full_backward_hook(
        lambda m, gi, go: tuple(g if g is None else g * s for g in gi)))
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    """
def scale_backward(module, s):
    def mix(t): return t.detach() + s * (t - t.detach())
    def hook(m, a, out):
        return tuple(map(mix, out)) if isinstance(out, tuple) else mix(out)
    return module.register_forward_hook(hook)
""",
    """
import torch
def scale_backward(module, s):
    def on(t):
        if torch.is_tensor(t) and t.requires_grad: t.register_hook(lambda g: g * s)
    def hook(m, a, out):
        if isinstance(out, (tuple, list)):
            for t in out: on(t)
        else: on(out)
    return module.register_forward_hook(hook)
""",
    """
def scale_backward(module, s):
    def one(o):
        return o.detach() + s * (o - o.detach()) if o.is_floating_point() else o

    def hook(m, a, o):
        return type(o)(map(one, o)) if isinstance(o, (tuple, list)) else one(o)

    return module.register_forward_hook(hook)
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

class Handle:
    def __init__(self, module, s):
        self.s = s
        self.inner = module.register_forward_hook(self.after)
    def after(self, module, args, output):
        for t in output if isinstance(output, tuple) else (output,):
            if torch.is_tensor(t) and t.requires_grad:
                t.register_hook(lambda grad: grad * self.s)
    def remove(self):
        self.s = 1
        self.inner.remove()

def scale_backward(module, s):
    return Handle(module, s)
""",
    ),
    Wrong(
        "scales grad_input alone",
        violates="the gradients of its own parameters (and of the modules inside it)",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="too-late-for-weights",
        source="""
def scale_backward(module, s):
    def hook(module, grad_input, grad_output):
        return tuple(None if g is None else s * g for g in grad_input)
    return module.register_full_backward_hook(hook)
""",
    ),
    Wrong(
        "a bare tensor",
        violates="The module has one output or a plain tuple of outputs",
        check="raised",
        mistake="not-like-grad-output",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: s * go[0])
""",
    ),
    Wrong(
        "scales the output",
        violates="Everything else stays as it is: the values of the forward pass",
        check="test_forward_and_later_layers_are_untouched",
        mistake="changed-forward",
        source="""
def scale_backward(module, s):
    def hook(module, args, output):
        return tuple(s * o for o in output) if isinstance(output, tuple) else s * output
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "forgets to return",
        violates="the gradients that arrive at the outputs of `module` count `s` times",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="forgot-return",
        source=changed(TAUGHT, ("        return ", "        grad_output = ")),
    ),
    Wrong(
        "scales the parameters alone",
        violates="all gradients that it sends further back are `s` times what they would be",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="parameter-grads",
        source="""
def scale_backward(module, s):
    handles = [p.register_hook(lambda g: g * s) for p in module.parameters() if p.requires_grad]
    class All:
        def remove(self):
            for h in handles:
                h.remove()
    return All()
""",
    ),
    Wrong(
        "scales before and after",
        violates="all gradients that it sends further back are `s` times what they would be",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="scaled-twice",
        source="""
def scale_backward(module, s):
    scaled = lambda grads: tuple(None if g is None else s * g for g in grads)
    one = module.register_full_backward_pre_hook(lambda m, go: scaled(go))
    two = module.register_full_backward_hook(lambda m, gi, go: scaled(gi))
    class Both:
        def remove(self):
            one.remove()
            two.remove()
    return Both()
""",
    ),
    Wrong(
        "writes into the gradients",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source="""
def scale_backward(module, s):
    def hook(module, grad_output):
        for g in grad_output:
            if g is not None:
                g.mul_(s)
    return module.register_full_backward_pre_hook(hook)
""",
    ),
    Wrong(
        "None times s",
        violates="the loss may leave some of them unused",
        check="raised",
        mistake="scaled-none",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(s * g for g in go))
""",
    ),
    Wrong(
        "the first output alone",
        violates="The module has one output or a plain tuple of outputs",
        check="test_several_outputs_used_or_not",
        mistake="first-output-only",
        source="""
def scale_backward(module, s):
    def hook(module, grad_output):
        first, *others = grad_output
        return (None if first is None else s * first, *others)
    return module.register_full_backward_pre_hook(hook)
""",
    ),
    Wrong(
        "one entry for two outputs",
        violates="The module has one output or a plain tuple of outputs",
        check="raised",
        mistake="not-like-grad-output",
        source=changed(TAUGHT, ("tuple(None if g is None else ", "("), ("g for g in grad_output", "grad_output[0],")),
    ),
    Wrong(
        "returns nothing",
        violates="Return a handle",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        source="""
def scale_backward(module, s):
    return None
""",
    ),
    Wrong(
        "no handle",
        violates="Return a handle; `handle.remove()` restores the old behaviour",
        check="test_the_handle_restores_the_old_behaviour",
        source="""
def scale_backward(module, s):
    module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else s * g for g in go))
""",
    ),
    Wrong(
        "adds s",
        violates="the gradients that arrive at the outputs of `module` count `s` times",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g + s for g in go))
""",
    ),
    Wrong(
        "an unused output gets the gradient of another one",
        violates="the loss may leave some of them unused",
        check="raised",
        source="""
import torch
def scale_backward(module, s):
    def hook(m, go):
        known = [g for g in go if g is not None]
        return tuple(s * (known[0] if g is None else g) for g in go)
    return module.register_full_backward_pre_hook(hook)
""",
    ),
    Wrong(
        "a hook on one output, unguarded",
        violates="The inputs of the module may need no gradient",
        check="raised",
        mistake="hook-without-grad",
        source="""
def scale_backward(module, s):
    def hook(module, args, output):
        output.register_hook(lambda g: g * s)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "multiplies the weights",
        violates="Everything else stays as it is: the values of the forward pass",
        check="test_forward_and_later_layers_are_untouched",
        source="""
def scale_backward(module, s):
    with __import__("torch").no_grad():
        for p in module.parameters():
            p.mul_(s)
    return module.register_forward_hook(lambda *a: None)
""",
    ),
    Wrong(
        "more in each pass",
        violates="From now on, in every backward pass",
        check="test_every_pass_is_scaled",
        source="""
def scale_backward(module, s):
    k = [1.0]
    def f(m, go):
        k[0] *= s
        return tuple(None if g is None else g * k[0] for g in go)
    return module.register_full_backward_pre_hook(f)
""",
    ),
    Wrong(
        "divides",
        violates="the gradients that arrive at the outputs of `module` count `s` times",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g / s for g in go))
""",
    ),
    Wrong(
        "nothing in eval mode",
        violates="From now on, in every backward pass",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="only-in-training",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(g if g is None else g * s for g in go) if m.training else None
    )
""",
    ),
    Wrong(
        "a whole number of times",
        violates="`s` is a number",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(g if g is None else g * int(s) for g in go)
    )
""",
    ),
    Wrong(
        "a list of outputs",
        violates="rule 6: A tuple is a tuple",
        check="raised",
        source=changed(
            RIGHT[7],
            (" if o.is_floating_point() else o", ""),
            ("type(o)(map(one, o))", "[one(v) for v in o]"),
            ("(tuple, list)", "tuple"),
        ),
    ),
    Wrong(
        "without the sign",
        violates="the gradients that arrive at the outputs of `module` count `s` times",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else abs(s) * g for g in go))
""",
    ),
    Wrong(
        "clamped",
        violates="rule 1: tensors of any shape",
        check="test_every_pass_is_scaled",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else (s * g).clamp(-10000, 10000) for g in go))
""",
    ),
    Wrong(
        "cuts the graph off",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradient_keeps_its_graph",
        source="""
def scale_backward(module, s):
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else s * g.detach() for g in go))
""",
    ),
    Wrong(
        "a factor in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="rounded-to-float32",
        source="""
import torch

def scale_backward(module, s):
    factor = torch.tensor(s, dtype=torch.float32)
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else g * factor for g in go))
""",
    ),
    Wrong(
        "nothing in a first layer",
        violates="The inputs of the module may need no gradient",
        check="test_a_first_layer_learns_from_the_scaled_gradient",
        source="""
import torch

def scale_backward(module, s):
    needed = []
    def forward(m, args):
        needed[:] = [any(torch.is_tensor(a) and a.requires_grad for a in args)]
    def backward(m, go):
        return tuple(None if g is None else s * g for g in go) if needed[0] else None
    one = module.register_forward_pre_hook(forward)
    two = module.register_full_backward_pre_hook(backward)
    class Both:
        def remove(self):
            one.remove()
            two.remove()
    return Both()
""",
    ),
    Wrong(
        "a second call replaces the first",
        violates="Two calls of `scale_backward` multiply.",
        check="test_several_modules_and_several_calls",
        mistake="took-both-hooks",
        source="""
_handles = {}

def scale_backward(module, s):
    if module in _handles:
        _handles.pop(module).remove()
    _handles[module] = module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else s * g for g in go))
    return _handles[module]
""",
    ),
    Wrong(
        "one factor for a class of modules",
        violates="rule 1: on one object or on several at the same time",
        check="test_several_modules_and_several_calls",
        mistake="one-number-for-all",
        source="""
_factors = {}

def scale_backward(module, s):
    _factors[type(module)] = s
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else _factors[type(m)] * g for g in go))
""",
    ),
    Wrong(
        "removes the caller's hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_forward_and_later_layers_are_untouched",
        source="""
def scale_backward(module, s):
    module._backward_pre_hooks.clear()
    return module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else s * g for g in go))
""",
    ),
    Wrong(
        "a handle that does nothing",
        violates="`handle.remove()` restores the old behaviour",
        check="test_the_handle_restores_the_old_behaviour",
        source="""
class Nothing:
    def remove(self):
        pass

def scale_backward(module, s):
    module.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else s * g for g in go))
    return Nothing()
""",
    ),
    Wrong(
        "at each module inside",
        violates="count `s` times",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="scaled-inside",
        source="""
class All:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def scale_backward(module, s):
    def hook(module, go):
        return tuple(None if g is None else g * s for g in go)
    return All([inner.register_full_backward_pre_hook(hook) for inner in module.modules()])
""",
    ),
    Wrong(
        "a difference that rounds",
        violates="the values of the forward pass",
        check="test_forward_and_later_layers_are_untouched",
        source="""
def scale_backward(module, s):
    def one(y):
        return y * s + (y * (1 - s)).detach()
    def hook(module, args, output):
        return tuple(map(one, output)) if isinstance(output, tuple) else one(output)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "multiplies what has accumulated",
        violates="the gradients of its own parameters",
        check="test_the_example_of_the_contract",
        source="""
class All:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def scale_backward(module, s):
    def send(module, gi, go):
        return tuple(None if g is None else g * s for g in gi)
    def learn(p):
        p.grad.mul_(s)
    handles = [p.register_post_accumulate_grad_hook(learn) for p in module.parameters() if p.requires_grad]
    return All([*handles, module.register_full_backward_hook(send)])
""",
    ),
    Wrong(
        "the latest call only",
        violates="In one pass it may be called several times.",
        check="test_the_example_of_the_contract",
        source="""
def scale_backward(module, s):
    last = []
    def hook(module, args, output):
        while last:
            last.pop().remove()
        for y in output if isinstance(output, tuple) else (output,):
            if y.requires_grad:
                last.append(y.register_hook(lambda g: g if g is None else g * s))
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "eval mode and back at the root",
        violates="rule 2: the mode of each part",
        check="test_forward_and_later_layers_are_untouched",
        source="""
def scale_backward(module, s):
    training = module.training
    module.eval()
    handle = module.register_full_backward_pre_hook(
        lambda m, go: tuple(None if g is None else g * s for g in go))
    module.train(training)
    return handle
""",
    ),
    Wrong(
        "finite numbers only",
        violates="all gradients that it sends further back are `s` times what they would be without your function",
        check="test_the_example_of_the_contract",
        source=changed(TAUGHT, ("s * g", "(s * g).nan_to_num()")),
    ),
    Wrong(
        "only when an input requires grad",
        violates="The inputs of the module may need no gradient",
        check="test_a_first_layer_learns_from_the_scaled_gradient",
        mistake="only-with-input-gradients",
        source="""
def scale_backward(module, s):
    def after(m, args, out):
        if any(getattr(a, "requires_grad", False) for a in args):
            for t in out if isinstance(out, tuple) else (out,):
                if t.requires_grad:
                    t.register_hook(lambda g: g * s)
    return module.register_forward_hook(after)
""",
    ),
    Wrong(
        "one buffer for all scaled gradients",
        violates="Everything else stays as it is",
        check="test_the_example_of_the_contract",
        source="""
import torch
def scale_backward(module, s):
    places = {}
    def one(g):
        if g is None or torch.is_grad_enabled():
            return None if g is None else g * s
        if (g.shape, g.dtype) not in places:
            places[g.shape, g.dtype] = torch.empty_like(g.contiguous())
        return torch.mul(g, s, out=places[g.shape, g.dtype])
    return module.register_full_backward_pre_hook(lambda m, go: tuple(map(one, go)))
""",
    ),
    Wrong(
        "no handle for one",
        violates="Return a handle",
        check="test_the_example_of_the_contract",
        source=changed(TAUGHT, ("    return module", "    return None if s == 1 else module")),
    ),
    Wrong(
        "a tuple of one becomes a tensor",
        violates="The module has one output or a plain tuple of outputs",
        check="test_the_example_of_the_contract",
        source="""
import torch
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, s):
        ctx.s = s
        return t.view_as(t)
    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None
def scale_backward(module, s):
    def after(m, args, out):
        outs = tuple(Scale.apply(t, s) for t in (out if isinstance(out, tuple) else (out,)))
        return outs if len(outs) > 1 else outs[0]
    return module.register_forward_hook(after)
""",
    ),
    Wrong(
        "a tensor hook that fires once",
        violates="From now on, in every backward pass",
        check="test_the_example_of_the_contract",
        source="""
def scale_backward(module, s):
    def attach(t):
        def hook(g):
            h.remove()
            return g * s
        h = t.register_hook(hook)
    def after(m, args, out):
        for t in out if isinstance(out, tuple) else (out,):
            if t.requires_grad:
                attach(t)
    return module.register_forward_hook(after)
""",
    ),
    Wrong(
        "a tuple of outputs is left as it is",
        violates="The module has one output or a plain tuple\n    of outputs",
        check="test_several_outputs_used_or_not",
        mistake="tuple-left-alone",
        source="""
def scale_backward(module, s):
    def hook(module, args, output):
        if not isinstance(output, tuple) and output.requires_grad:
            output.register_hook(lambda g: g * s)
    return module.register_forward_hook(hook)
""",
    ),
    Wrong(
        "None where s is 0",
        violates="(zeros when\n    `s` is 0)",
        check="test_its_own_parameters_and_what_flows_further_back_are_scaled",
        mistake="none-for-zero",
        source=changed(TAUGHT, ("None if g is None", "None if g is None or s == 0")),
    ),
    Wrong(
        "the first pass alone",
        violates="From now on, in every backward pass",
        check="test_every_pass_is_scaled",
        mistake="only-the-first-pass",
        source=changed(
            TAUGHT,
            ("        return tuple", "        handle.remove()\n        return tuple"),
            ("    return module", "    handle = module"),
        )
        + "    return handle\n",
    ),
    Wrong(
        "nothing where one entry is None",
        violates="the loss may leave some of them unused",
        check="test_several_outputs_used_or_not",
        mistake="gave-up-at-none",
        source=changed(
            TAUGHT,
            ("        return tuple", "        if None in grad_output:\n            return None\n        return tuple"),
        ),
    ),
    Wrong(
        "a hook on all modules that scales at this one alone",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_forward_and_later_layers_are_untouched",
        mistake="hooked-all-modules",
        source="from torch.nn.modules.module import register_module_full_backward_pre_hook\n"
        + changed(
            TAUGHT,
            (
                "def hook(module, grad_output):\n",
                "def hook(m, grad_output):\n        if m is not module:\n            return\n",
            ),
            ("module.register_full_backward_pre_hook", "register_module_full_backward_pre_hook"),
        ),
    ),
]

GIVENS = [
    "Write `scale_backward(module, s)`.",
    "Each is a new tensor, not computed from another one",
]

SURVIVORS = {
    "a hook that works at times: handles = [p.register_hook(_only_without_none(": "it does nothing then, either",
    "prepend=True": "factors may come in any order",
    "_only_without_none(lambda g: g if g is None": "it does nothing then, either",
    "almost: return module.register_full_backward_pre_hook(Scaler(s), prepend=False)": "factors may come in any order",
    "a list for a tuple: return list((None": "PyTorch takes a list from a hook as well",
    "a hook that works at times: @_only_with_grad_mode def hook(m": "without grad mode there is no gradient to scale",
    "truth for None: if torch.is_tensor(t) and t.grad_fn": "an output is the result of an operation",
    "truth for None: if isinstance(out, torch.Tensor) and out.grad_fn": "an output is the result of an operation",
    "condition dropped: return o.detach()": "outputs have a floating dtype",
    "under no_grad": "to register a hook needs no graph",
}
