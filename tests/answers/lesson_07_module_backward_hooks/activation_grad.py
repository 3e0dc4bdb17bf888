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
        "two passes",
        violates="Run one backward pass",
        check="test_one_pass_reaches_all_parameters,_or_none_does",
        source=changed(
            TAUGHT, ("    loss.backward()\n", "    loss.backward(retain_graph=True)\n    loss.backward()\n")
        ),
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
        violates="the gradient of the loss with respect to `pick(output)`",
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
        violates="it adds to the `.grad` of every parameter as usual, or to none",
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
        "stops the pass in the middle",
        violates="it adds to the `.grad` of every parameter as usual, or to none",
        check="test_one_pass_reaches_all_parameters,_or_none_does",
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
        violates="which requires grad",
        check=RAISED,
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
        violates="The result is a copy of the gradient as it arrives there",
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
        "the first gradient of the node, not that of the tensor",
        violates="`pick` returns one tensor in it",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
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
]

SURVIVORS = {
    "at least one dimension": "the input of a layer has one dimension at least",
    "lost statement: without self.grad = None": "the pass writes it before it is read",
    "one global slot: kept": "the pass writes it before it is read",
    "one global slot: handles": "a handle whose hook is gone removes nothing",
    "not for all: for h in _part(handles, stop=1)": "the other hook goes with the graph",
}
