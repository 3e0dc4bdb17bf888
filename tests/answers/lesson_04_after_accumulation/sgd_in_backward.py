"""Answers to 04-sgd-in-backward."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    """
import torch

def sgd_in_backward(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}
    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    handles = []
    for p in model.parameters():
        handles.append(p.register_post_accumulate_grad_hook(hook))
    return handles
""",
    """
from functools import partial

class Step:
    def __init__(self, lr):
        self.lr = lr
    def __call__(self, p):
        p.data.add_(p.grad, alpha=-self.lr)

def free(p):
    p.grad = None

def sgd_in_backward(model, lr):
    handles = []
    for _, p in model.named_parameters():
        handles.append(p.register_post_accumulate_grad_hook(Step(lr)))
        handles.append(p.register_post_accumulate_grad_hook(free))
    return handles
""",
    """
import functools
import torch

def go(lr, p):
    g, p.grad = p.grad, None
    with torch.no_grad(): p.add_(g, alpha=-lr)
def sgd_in_backward(model, lr):
    handles = []
    for _, p in model.named_parameters():
        handles.append(p.register_post_accumulate_grad_hook(functools.partial(go, lr)))
    return handles
""",
    """
def step(p, lr):
    p.grad.mul_(-lr)
    p.detach().add_(p.grad)
    del p.grad

class Step:
    def __init__(self, lr):
        self.lr = lr
    def __call__(self, p):
        step(p, self.lr)

def sgd_in_backward(model, lr):
    seen, handles = set(), []
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if p not in seen:
                seen.add(p)
                handles.append(p.register_post_accumulate_grad_hook(Step(lr)))
    return handles
""",
]

WRONG = [
    Wrong(
        "no learning rate above 1",
        violates="`lr` is a number, 0 or more",
        check="test_every_backward_takes_one_step",
        source=changed(RIGHT[0], ("p -= lr *", "p -= min(lr, 1) *")),
    ),
    Wrong(
        "no step along NaN",
        violates="`p = p - lr * gradient`",
        check="test_every_backward_takes_one_step",
        source=changed(RIGHT[0], ("lr * p.grad\n", "lr * p.grad.where(p.grad == p.grad, 0)\n")),
    ),
    Wrong(
        "no step where the gradient is tiny",
        violates="`p = p - lr * gradient`",
        check="test_every_backward_takes_one_step",
        source=changed(RIGHT[0], ("lr * p.grad\n", "lr * p.grad.where(p.grad.abs() > 1e-7, 0)\n")),
    ),
    Wrong(
        "asks for the largest entry of a gradient that may have none",
        violates="rule 1: for tensors of any shape",
        check="raised",
        source=changed(RIGHT[0], ("        p.grad = None\n", "        p.grad.max()\n        p.grad = None\n")),
    ),
    Wrong(
        "four levels",
        violates="Every parameter of `model`, at any depth",
        check="test_every_backward_takes_one_step",
        source=changed(RIGHT[0], ("p in model.parameters()]", 'n, p in model.named_parameters() if n.count(".") < 5]')),
    ),
    Wrong(
        "switches autograd off for the hooks behind it",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_autograd_grad_takes_no_step",
        mistake="changed-what-was-given",
        source=changed(RIGHT[0], ("        with torch.no_grad():\n    ", "        torch.set_grad_enabled(False)\n")),
    ),
    Wrong(
        "one step for each parameter until all have taken one",
        violates="each parameter that it reached has taken one step",
        check="test_a_pass_through_one_layer_moves_that_layer",
        source=changed(
            RIGHT[0],
            ("    def step(p):\n", "    params, done = list(model.parameters()), set()\n    def step(p):\n"),
            ("            p -= lr * p.grad\n", "            p -= lr * p.grad * (p not in done)\n"),
            (
                "        p.grad = None\n",
                """        p.grad = None
        done.add(p)
        if len(done) == len(params):
            done.clear()
""",
            ),
        ),
    ),
    Wrong(
        "one list of handles for all calls",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

handles = []

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None
    handles.extend(p.register_post_accumulate_grad_hook(step) for p in model.parameters())
    return handles
""",
    ),
    Wrong(
        "a tensor hook takes the step",
        violates="`torch.autograd.grad` changes nothing.",
        check="test_autograd_grad_takes_no_step",
        mistake="wrong-hook-kind",
        source="""
import torch

def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def hook(grad, p=p):
            with torch.no_grad():
                p.sub_(lr * grad)
            p.grad = None
        handles.append(p.register_hook(hook))
    return handles
""",
    ),
    Wrong(
        "keeps `.grad`",
        violates="and its `.grad` is `None`",
        check="test_no_gradient_is_left",
        mistake="grad-not-freed",
        source="""
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "leaves a `.grad` of zeros",
        violates="and its `.grad` is `None`",
        check="test_no_gradient_is_left",
        mistake="zeroed-not-freed",
        source="""
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad.zero_()
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="each parameter that it reached has taken one step",
        check="test_every_backward_takes_one_step",
        mistake="late-binding",
        source="""
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(_):
            p.data.sub_(lr * p.grad)
            p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
    ),
    Wrong(
        "goes uphill",
        violates="`p = p - lr * gradient`",
        check="test_every_backward_takes_one_step",
        mistake="wrong-sign",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.add_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "only the parameters of linear layers",
        violates="Every parameter of `model`, at any depth",
        check="test_every_backward_takes_one_step",
        mistake="missed-parameters",
        source="""
from torch import nn

def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return [p.register_post_accumulate_grad_hook(step) for layer in layers for p in layer.parameters()]
""",
    ),
    Wrong(
        "hooks a tied parameter twice",
        violates="takes one step for each pass, with the sum of its gradients",
        check="test_a_tied_parameter_steps_once_with_the_sum",
        mistake="hooked-twice",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    named = model.named_parameters(remove_duplicate=False)
    return [p.register_post_accumulate_grad_hook(step) for name, p in named]
""",
    ),
    Wrong(
        "a lambda whose value is not None",
        violates="From now on, whenever `backward()` returns",
        check="raised",
        mistake="returned-a-value",
        source="""
def sgd_in_backward(model, lr):
    return [
        p.register_post_accumulate_grad_hook(lambda p: (p.data.sub_(lr * p.grad), setattr(p, "grad", None)))
        for p in model.parameters()
    ]
""",
    ),
    Wrong(
        "does nothing",
        violates="has taken one step of plain gradient descent",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    return []
""",
    ),
    Wrong(
        "returns no handles",
        violates="Return a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
""",
    ),
    Wrong(
        "returns the last handle only",
        violates="Return a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        handle = p.register_post_accumulate_grad_hook(step)
    return [handle]
""",
    ),
    Wrong(
        "works once",
        violates="From now on, whenever `backward()` returns",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    handles = {}
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
        handles[p].remove()
    for p in model.parameters():
        handles[p] = p.register_post_accumulate_grad_hook(step)
    return list(handles.values())
""",
    ),
    Wrong(
        "has a momentum",
        violates="one step of plain gradient descent",
        check="test_every_backward_takes_one_step",
        source="""
import torch
def sgd_in_backward(model, lr):
    optimizers = {p: torch.optim.SGD([p], lr=lr, momentum=0.9) for p in model.parameters()}
    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
""",
    ),
    Wrong(
        "rebinds a local name, and nothing moves",
        violates="in place",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p = p - lr * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "a tensor hook that reads `.grad`",
        violates="has taken one step of plain gradient descent",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def make(p):
        def hook(grad):
            p.data.sub_(lr * p.grad)
            p.grad = None
        return hook
    return [p.register_hook(make(p)) for p in model.parameters()]
""",
    ),
    Wrong(
        "a guarded late binding: only the last parameter moves",
        violates="each parameter that it reached has taken one step",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(_):
            if p.grad is not None:
                p.data.sub_(lr * p.grad)
                p.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
    ),
    Wrong(
        "only the parameters of the children",
        violates="Every parameter of `model`, at any depth",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step)
            for layer in model.children() for p in layer.parameters(recurse=False)]
""",
    ),
    Wrong(
        "returns zeros from a tensor hook",
        violates="and its `.grad` is `None`",
        check="test_no_gradient_is_left",
        source="""
import torch
def sgd_in_backward(model, lr):
    def make(p):
        def hook(grad):
            p.data.sub_(lr * grad)
            return torch.zeros_like(grad)
        return hook
    return [p.register_hook(make(p)) for p in model.parameters()]
""",
    ),
    Wrong(
        "a multi-grad hook, which cannot free `.grad`",
        violates="and its `.grad` is `None`",
        check="raised",
        source="""
import torch

def sgd_in_backward(model, lr):
    ps = list(model.parameters())
    def hook(gs):
        with torch.no_grad():
            for p, g in zip(ps, gs):
                if g is not None: p -= lr * g
                p.grad = None
    return [torch.autograd.graph.register_multi_grad_hook(ps, hook)]
""",
    ),
    Wrong(
        "late binding of the parameter, not of the gradient",
        violates="each parameter that it reached has taken one step",
        check="raised",
        source="""
def sgd_in_backward(model, lr):
    handles = []
    for p in model.parameters():
        def step(q):
            p.data -= lr * q.grad
            q.grad = None
        handles.append(p.register_post_accumulate_grad_hook(step))
    return handles
""",
    ),
    Wrong(
        "waits for all parameters",
        violates="each parameter that it reached has taken one step",
        check="test_a_pass_through_one_layer_moves_that_layer",
        source="""
def sgd_in_backward(model, lr):
    params, arrived = list(model.parameters()), []
    def hook(p):
        arrived.append(p)
        if len(arrived) == len(params):
            for q in arrived:
                q.data -= lr * q.grad
                q.grad = None
            arrived.clear()
    return [p.register_post_accumulate_grad_hook(hook) for p in params]
""",
    ),
    Wrong(
        "one hook, on the parameter that happens to come last",
        violates="each parameter that it reached has taken one step",
        check="test_a_pass_through_one_layer_moves_that_layer",
        source="""
import torch

def sgd_in_backward(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr)
    def hook(p):
        optimizer.step()
        optimizer.zero_grad()
    return [next(model.parameters()).register_post_accumulate_grad_hook(hook)]
""",
    ),
    Wrong(
        "one learning rate for all models",
        violates="rule 1: on one object or on several at the same time",
        check="test_a_pass_through_one_layer_moves_that_layer",
        mistake="one-slot-for-all",
        source="""
import torch

rate = 0.0

def sgd_in_backward(model, lr):
    global rate
    rate = lr
    def hook(p):
        with torch.no_grad():
            p -= rate * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
""",
    ),
    Wrong(
        "steps with grad mode on, which fails in a pass with `create_graph=True`",
        violates="rule 5: `backward(create_graph=True)`",
        check="raised",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.sub_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "puts a new tensor into the parameter",
        violates="in place",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data = p.data - lr * p.grad.detach()
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "clamps large gradients",
        violates="one step of plain gradient descent",
        check="test_a_large_gradient_is_a_gradient",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad.clamp(-50, 50))
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "a default where `lr` is 0",
        violates="`lr` is a number, 0 or more.",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    rate = lr or 0.01
    def step(p):
        p.data.sub_(rate * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "a handle that goes on stepping",
        violates="`backward()` takes no step and stores `.grad` again",
        check="test_the_handles_remove_the_hooks",
        source="""
class Handle:
    def remove(self):
        pass

def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    return [Handle()]
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    for p in model.parameters():
        p._backward_hooks = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "a tuple of handles",
        violates="Return a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    return tuple(p.register_post_accumulate_grad_hook(step) for p in model.parameters())
""",
    ),
    Wrong(
        "a handle that removes everything",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
class All:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    handles = [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
    return [All(handles) for _ in handles]
""",
    ),
    Wrong(
        "a learning rate in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_backward_takes_one_step",
        source="""
import torch

def sgd_in_backward(model, lr):
    rate = torch.tensor(lr, dtype=torch.float32).item()
    def step(p):
        p.data.sub_(rate * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "no list for one parameter",
        violates="Return a list of all handles.",
        check="test_the_handles_remove_the_hooks",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(lr * p.grad)
        p.grad = None
    handles = [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
    return handles if len(handles) > 1 else handles[0]
""",
    ),
    Wrong(
        "no step where the gradient is infinite",
        violates="has taken one step of plain gradient descent",
        check="test_every_backward_takes_one_step",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        if p.grad.isfinite().all():
            p.data.sub_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "a gradient of zeros stays",
        violates="and its `.grad` is `None`",
        check="test_no_gradient_is_left",
        source="""
import torch

def sgd_in_backward(model, lr):
    @torch.no_grad()
    def step(p):
        if p.grad.count_nonzero():
            p.sub_(lr * p.grad)
            p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "frees the gradients of the whole model",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_the_hooks",
        source="""
import torch

def sgd_in_backward(model, lr):
    @torch.no_grad()
    def step(p):
        p.sub_(lr * p.grad)
        model.zero_grad()
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "no step in eval mode",
        violates="each parameter that it reached has taken one step",
        check="test_a_tied_parameter_steps_once_with_the_sum",
        source="""
import torch

def sgd_in_backward(model, lr):
    @torch.no_grad()
    def step(p):
        if model.training:
            p.sub_(lr * p.grad)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "two levels",
        violates="Every parameter of `model`, at any depth",
        check="test_every_backward_takes_one_step",
        source="""
import torch

def sgd_in_backward(model, lr):
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None
    modules = [model, *model.children(), *(inner for child in model.children() for inner in child.children())]
    found = {p: None for module in modules for p in module.parameters(recurse=False)}
    return [p.register_post_accumulate_grad_hook(step) for p in found]
""",
    ),
    Wrong(
        "training, so train()",
        violates="rule 2: the mode of each part",
        check="test_autograd_grad_takes_no_step",
        source="""
import torch

def sgd_in_backward(model, lr):
    model.train()
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
""",
    ),
    Wrong(
        "the parameters of the model itself alone",
        violates="Every parameter of `model`, at any depth",
        check="test_every_backward_takes_one_step",
        mistake="those-of-the-root-alone",
        source="""
def sgd_in_backward(model, lr):
    def step(p):
        p.data.sub_(p.grad, alpha=lr)
        p.grad = None
    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters(recurse=False)]
""",
    ),
]

GIVENS = [
    "Write `sgd_in_backward(model, lr)`.",
    "Every parameter of `model`, at any depth, requires grad and has no `.grad` yet.",
    "Your function is called once for a model.",
]

SURVIVORS = {
    "eval() and back at the root": "the function runs no model, and nothing is left changed",
    "not for all: for _, p in _part(model.named_parameters(), step=-1)": "all of them, in the reverse order",
    "not for all: for module in _part(model.modules(), step=-1)": "all of them, in the reverse order",
    "under no_grad": "hooks may be registered in any mode",
    "almost: for p in module.parameters(recurse=True)": "the parameters that were seen are left out",
}
