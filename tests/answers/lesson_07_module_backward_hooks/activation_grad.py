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
]

SURVIVORS = {
    "lost statement: without self.grad = None": "the pass writes it before it is read",
}
