"""Answers to 07-activation-grad."""

from graders.author.answers import Wrong, changed

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
        "runs the model once more before",
        violates="Run the model once",
        check="test_one_run_and_one_pass,_which_reaches_all_parameters_or_none",
        source="""
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    with torch.no_grad():
        model(x)
    found = []

    def hook(module, args, output):
        pick(output).register_hook(lambda grad: found.append(grad.detach().clone()))

    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return found[0]
""",
    ),
    Wrong(
        "two passes",
        violates="one backward pass",
        check="test_one_run_and_one_pass,_which_reaches_all_parameters_or_none",
        source=changed(
            TAUGHT, ("    loss.backward()\n", "    loss.backward(retain_graph=True)\n    loss.backward()\n")
        ),
    ),
    Wrong(
        "with a graph",
        violates="Return copies without a graph",
        check="test_it_is_the_gradient_at_the_value_that_left_the_module",
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
        "keeps the gradient on the function",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
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
    "lost statement: without self.grad = None": "the pass writes it before it is read",
}
