"""Answers to 07-activation-grad."""

from graders.author.answers import RAISED, Wrong, changed

TAUGHT = """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    return grads[0]
"""

RIGHT = [
    TAUGHT,
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    edges = []
    handle = model.get_submodule(name).register_forward_hook(
        lambda m, a, out: edges.append(torch.autograd.graph.get_gradient_edge(pick(out))))
    try:
        loss = loss_fn(model(x))
    finally:
        handle.remove()
    return torch.autograd.grad(loss, edges)[0].clone()
""",
    """
class Catcher:
    def __init__(self, pick):
        self.pick = pick
        self.grad = None
    def forward(self, module, args, output):
        self.handle = self.pick(output).register_hook(self.backward)
    def backward(self, grad):
        self.grad = grad.clone().detach()

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    catcher = Catcher(pick)
    module = dict(model.named_modules())[name]
    handle = module.register_forward_hook(catcher.forward)
    try:
        out = model(x)
        loss_fn(out).backward()
    finally:
        handle.remove()
    return catcher.grad
""",
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = {}
    def hook(module, args, output):
        tensor = pick(output)
        which = tensor.output_nr
        def at_node(grad_outputs):
            kept["grad"] = grad_outputs[which].detach().clone()
        tensor.grad_fn.register_prehook(at_node)
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        handle.remove()
    return kept["grad"]
""",
    """
import copy
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    twin, got = copy.deepcopy(model), []
    def f(m, a, out): pick(out).register_hook(lambda g: got.append(g.clone()))
    twin.get_submodule(name).register_forward_hook(f)
    loss_fn(twin(x)).backward()
    return got[0]
""",
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    from torch.autograd.graph import get_gradient_edge

    edges = []
    with model.get_submodule(name).register_forward_hook(
        lambda m, a, o: edges.append(get_gradient_edge(pick(o)))
    ):
        loss = loss_fn(model(x))
    return torch.autograd.grad(loss, edges)[0].clone()
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    got = []
    handles = []

    def fwd(m, a, k, o):
        t = pick(o)
        index = t.output_nr
        handles.append(t.grad_fn.register_prehook(lambda gs: got.append(gs[index].clone())))

    handles.append(model.get_submodule(name).register_forward_hook(fwd, with_kwargs=True))
    try:
        loss_fn(model(x)).backward()
    finally:
        for h in handles:
            h.remove()
    return got[0]
""",
]

WRONG = [
    Wrong(
        "one slot for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
slot = {}

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    def keep(module, args, output):
        pick(output).register_hook(lambda grad: slot.update(grad=grad.detach().clone()))
    handle = model.get_submodule(name).register_forward_hook(keep)
    try:
        out = model(x)
    finally:
        handle.remove()
    loss = loss_fn(out)
    if "grad" in slot:
        return slot["grad"]
    loss.backward()
    return slot["grad"]
""",
    ),
    Wrong(
        "a full backward hook",
        violates="Operations that come later, in the model or in the loss, may change this tensor in place",
        check="raised",
        mistake="full-hook-and-in-place",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    module = model.get_submodule(name)
    with module.register_full_backward_hook(lambda m, gi, go: grads.append(go[0].detach().clone())):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    ),
    Wrong(
        "retain_grad()",
        violates="the result is still the gradient with respect to the value before",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        mistake="retain-grad-follows-in-place",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        t = pick(output)
        t.retain_grad()
        kept.append(t)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0].grad.clone()
""",
    ),
    Wrong(
        "the values",
        violates="the gradient of the loss with respect to one tensor in the model",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        mistake="values-not-gradients",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        kept.append(pick(output).detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0]
""",
    ),
    Wrong(
        "the gradient itself",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_it_is_a_copy_without_a_graph",
        mistake="stored-alias",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(grads.append)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    ),
    Wrong(
        "leaves a hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    model.get_submodule(name).register_forward_hook(hook)
    loss_fn(model(x)).backward()
    return grads[0]
""",
    ),
    Wrong(
        "leaves a hook after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    handle = model.get_submodule(name).register_forward_hook(hook)
    loss = loss_fn(model(x))
    handle.remove()
    loss.backward()
    return grads[0]
""",
    ),
    Wrong(
        "does not pick",
        violates="`pick` takes this output, which may be a tensor, a tuple or a dict, and returns one tensor in it",
        check="raised",
        mistake="ignored-pick",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        output.register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    ),
    Wrong(
        "the first entry, whatever pick says",
        violates="`pick` takes this output",
        check="raised",
        mistake="hook-never-called",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        t = list(output.values())[0] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
        if t.requires_grad:
            t.register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    ),
    Wrong(
        "returns nothing",
        violates="return the gradient of the loss",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    return None
""",
    ),
    Wrong(
        "a copy that the loss does not use",
        violates="returns one tensor in it, the same object",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        copy = pick(output).clone()
        copy.retain_grad()
        kept.append(copy)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0].grad
""",
    ),
    Wrong(
        "the tensor of now",
        violates="The gradient belongs to the value that left the module.",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(pick(o))):
        loss = loss_fn(model(x))
    kept[0].requires_grad
    return torch.autograd.grad(loss, kept)[0]
""",
    ),
    Wrong(
        "two passes",
        violates="Run `backward()` once or not at all",
        check="test_the_parameters_keep_their_gradient_or_add_one_pass",
        source=changed(
            TAUGHT, ("    loss.backward()\n", "    loss.backward(retain_graph=True)\n    loss.backward()\n")
        ),
    ),
    Wrong(
        "clears the gradients",
        violates="Either the `.grad` of every parameter stays as it is, or one plain pass is added to every one",
        check="test_the_parameters_keep_their_gradient_or_add_one_pass",
        source=changed(TAUGHT, ("    return grads[0]\n", "    model.zero_grad()\n    return grads[0]\n")),
    ),
    Wrong(
        "eval mode",
        violates="With `loss = loss_fn(model(x))`",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        mistake="another-mode",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []
    model.eval()
    def hook(m, a, out):
        pick(out).register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    model.train(); return got[-1]
""",
    ),
    Wrong(
        "x requires grad from now on",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_else_changes",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []
    x = x if x.grad_fn else x.requires_grad_()
    def hook(m, a, out):
        pick(out).register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    ),
    Wrong(
        "a gradient that is masked once more",
        violates="the gradient of the loss with respect to one tensor in the model",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []

    def hook(m, a, out):
        t = pick(out); t.register_hook(lambda g: got.append(g * (t > 0)))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    ),
    Wrong(
        "cuts the graph",
        violates="Either the `.grad` of every parameter stays as it is, or one plain pass is added to every one",
        check="raised",
        source="""
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []

    def hook(m, a, out):
        got.append(pick(out).detach().requires_grad_())
        if torch.is_tensor(out):
            return got[-1].clone()
        return {k: (got[-1] if v is pick(out) else v) for k, v in out.items()}
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1].grad.clone()
""",
    ),
    Wrong(
        "the first entry of a dict or tuple",
        violates="`pick` takes this output",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got = []
    def hook(m, a, out):
        entries = out.values() if isinstance(out, dict) else out if isinstance(out, tuple) else [out]
        t = next(iter(entries))
        if t.requires_grad:
            t.register_hook(lambda g: got.append(g.clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return got[0] if got else torch.zeros_like(x)
""",
    ),
    Wrong(
        "leaves a hook when the model raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    got = []

    def fwd(m, a, o):
        pick(o).register_hook(lambda g: got.append(g.clone()))

    h = model.get_submodule(name).register_forward_hook(fwd)
    out = model(x)
    h.remove()
    loss_fn(out).backward()
    return got[0]
""",
    ),
    Wrong(
        "the first result for good",
        violates="rule 1: It works however often it is called",
        check="test_the_next_call_computes_afresh",
        source="""
_got = {}

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    def fwd(m, a, o):
        pick(o).register_hook(lambda g: _got.setdefault(name, g.clone()) is None or None)

    with model.get_submodule(name).register_forward_hook(fwd):
        loss_fn(model(x)).backward()
    return _got[name]
""",
    ),
    Wrong(
        "before the caller's hook",
        violates="what the module called `name` returns, as it leaves the module",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source=changed(TAUGHT, ("hook)", "hook, prepend=True)")),
    ),
    Wrong(
        "a global hook",
        violates="what the module called `name` returns, as it leaves the module",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    module, grads = model.get_submodule(name), []
    def hook(m, args, output):
        if m is module:
            pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    with register_module_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    return grads[0]
""",
    ),
    Wrong(
        "a forward of its own",
        violates="what the module called `name` returns, as it leaves the module",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    module, store = model.get_submodule(name), {}
    original = module.forward
    def forward(*args, **kwargs):
        out = original(*args, **kwargs)
        pick(out).register_hook(lambda g: store.update(g=g.clone()))
        return out
    module.forward = forward
    try:
        loss_fn(model(x)).backward()
    finally:
        del module.forward
    return store["g"]
""",
    ),
    Wrong(
        "clears the forward hooks",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source=changed(
            TAUGHT,
            ("    return grads[0]\n", "    model.get_submodule(name)._forward_hooks.clear()\n    return grads[0]\n"),
        ),
    ),
    Wrong(
        "thaws the frozen part",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_else_changes",
        source=changed(
            TAUGHT,
            (
                "    with model.get_submodule(name).register_forward_hook(hook):\n",
                "    model.requires_grad_()\n    with model.get_submodule(name).register_forward_hook(hook):\n",
            ),
        ),
    ),
    Wrong(
        "the first nested module",
        violates="the module called `name`",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        output = output[list(output)[-1]] if isinstance(output, dict) else output
        output = output[1] if isinstance(output, tuple) else output
        output.register_hook(lambda grad: grads.append(grad.detach().clone()))
    inner = next((m for n, m in model.named_modules() if "." in n), model)
    with inner.register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    return grads[0]
""",
    ),
    Wrong(
        "a hook stays on x",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left",
        source=changed(
            TAUGHT,
            (
                "    return grads[0]\n",
                "    x.register_hook(print) if x.is_leaf and x.requires_grad else None\n    return grads[0]\n",
            ),
        ),
    ),
    Wrong(
        "with a graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_it_is_a_copy_without_a_graph",
        mistake="graph-kept",
        source="""
import torch
from torch.autograd.graph import get_gradient_edge

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    edges = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: edges.append(get_gradient_edge(pick(o)))):
        loss = loss_fn(model(x))
    return torch.autograd.grad(loss, edges, create_graph=True)[0].clone()
""",
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4: Errors come through",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="swallowed-exception",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    except BaseException:
        return None
    finally:
        handle.remove()
    return grads[0]
""",
    ),
    Wrong(
        "one buffer for each shape",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_it_is_a_copy_without_a_graph",
        source="""
_buffers = {}

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    def keep(grad):
        _buffers.setdefault(grad.shape, grad.detach().clone()).copy_(grad.detach())
    def hook(module, args, output):
        t = pick(output)
        t.register_hook(keep)
        found.append(t.shape)
    found = []
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    return _buffers[found[0]]
""",
    ),
    Wrong(
        "stops the pass in the middle",
        violates="Either the `.grad` of every parameter stays as it is, or one plain pass is added to every one",
        check="test_the_parameters_keep_their_gradient_or_add_one_pass",
        source="""
class Enough(Exception):
    pass

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    found = []
    def stop(grad):
        found.append(grad.detach().clone())
        raise Enough
    with model.get_submodule(name).register_forward_hook(lambda m, args, out: pick(out).register_hook(stop) and None):
        loss = loss_fn(model(x))
    try:
        loss.backward()
    except Enough:
        pass
    return found[0]
""",
    ),
    Wrong(
        "on a detached x",
        violates="The tensor requires grad",
        check="test_the_next_call_computes_afresh",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    found = []
    def hook(module, args, out):
        t = pick(out)
        if t.requires_grad:
            t.register_hook(lambda grad: found.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x.detach()))
    if loss.requires_grad:
        loss.backward()
    return found[0] if found else None
""",
    ),
    Wrong(
        "the gradient itself, no copy",
        violates="The result is a copy of the gradient",
        check="test_it_is_a_copy_without_a_graph",
        source="""
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    edges = []
    with model.get_submodule(name).register_forward_hook(
        lambda m, args, out: edges.append(torch.autograd.graph.get_gradient_edge(pick(out)))
    ):
        loss = loss_fn(model(x))
    return torch.autograd.grad(loss, edges)[0]
""",
    ),
    Wrong(
        "keeps the gradient on the function",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            TAUGHT,
            ("lambda grad: grads.append(grad.detach().clone())", "save"),
            ("    grads = []\n", "    def save(grad):\n        activation_grad.found = grad.detach().clone()\n"),
            ("grads[0]", "activation_grad.found"),
        ),
    ),
    Wrong(
        "a second pass where the gradient is zero",
        violates="Run `backward()` once or not at all.",
        check="test_the_parameters_keep_their_gradient_or_add_one_pass",
        source=changed(
            TAUGHT,
            (
                "    loss.backward()\n",
                "    loss.backward(retain_graph=True)\n    if not grads[0].any():\n        loss.backward()\n",
            ),
        ),
    ),
    Wrong(
        "finite numbers only",
        violates="the gradient of the loss with respect to one tensor in the model",
        check="test_it_may_be_infinite_or_nan",
        source=changed(TAUGHT, ("grad.detach().clone()", "grad.detach().nan_to_num()")),
    ),
    Wrong(
        "the first gradient of the node, not that of the tensor",
        violates="returns one tensor in it, the same object",
        check="test_the_example_of_the_contract",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    found = {}
    def hook(m, a, out):
        pick(out).grad_fn.register_prehook(lambda gs: found.update(g=gs[0].detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        out = model(x)
    loss_fn(out).backward()
    return found["g"]
""",
    ),
    Wrong(
        "the model goes on with a plain tuple",
        violates="With `loss = loss_fn(model(x))`",
        check="raised",
        source="""
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    found = {}
    def hook(m, a, out):
        pick(out).register_hook(lambda g: found.update(g=g.detach().clone()))
        return tuple(out) if isinstance(out, tuple) else None
    with model.get_submodule(name).register_forward_hook(hook):
        out = model(x)
    loss_fn(out).backward()
    return found["g"]
""",
    ),
    Wrong(
        "its hook is the first of the forward hooks",
        violates="as it leaves the module",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
        mistake="before-the-callers-hooks",
        source=changed(TAUGHT, ("_hook(hook)", "_hook(hook, prepend=True)")),
    ),
    Wrong(
        "clears what the parameters have in their `.grad`",
        violates="Either the `.grad` of every parameter stays as it is, or one plain pass is\n    added to every one.",
        check="test_the_parameters_keep_their_gradient_or_add_one_pass",
        mistake="cleared-callers-grad",
        source=changed(TAUGHT, ("    loss.backward()", "    model.zero_grad()\n    loss.backward()")),
    ),
    Wrong(
        "asks for a name with dots by getattr",
        violates="the module called `name`",
        check=RAISED,
        mistake="name-with-dots",
        source=changed(TAUGHT, ("model.get_submodule(name)", "(getattr(model, name) if name else model)")),
    ),
]

GIVENS = [
    "Write `activation_grad(model, name, x, loss_fn, pick=lambda out: out)`.",
    "The tensor requires grad, is no leaf, and has no hook of others; one of yours may stay on it.",
    "The model calls the module once, and the loss depends on the tensor.",
]

SURVIVORS = {
    "at least one dimension": "the input of a layer has one dimension at least",
    "lost statement: without self.grad = None": "the pass writes it before it is read",
    "one global slot: kept": "the pass writes it before it is read",
    "one global slot: handles": "a handle whose hook is gone removes nothing",
    "not for all: for h in _part(handles, stop=1)": "the other hook goes with the graph",
}
