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
    """
import torch

def sgd_in_backward(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    def hook(p):
        optimizer.step()
        optimizer.zero_grad()
    return [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
""",
]

WRONG = [
    Wrong(
        "one step for each parameter until all have taken one",
        violates="each parameter that it reached has taken one step",
        check="test_a_pass_moves_only_the_parameters_that_it_reaches",
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
        "training, so train()",
        violates="Leave what you were given as you found it",
        check="test_nothing_else_changes",
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
]

SURVIVORS = {
    "a hook left on a tensor": "hooks stay, and this one does nothing",
    "almost: for p in module.parameters(recurse=True)": "the parameters that were seen are left out",
}
