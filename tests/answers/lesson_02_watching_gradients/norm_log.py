"""Answers to 02-norm-log."""

from graders.author.answers import Wrong

RIGHT = [
    """
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before, p.grad = p.grad, None
        try:
            loss(p).backward()
            norms.append(float(p.grad.square().sum().sqrt()))
        finally:
            if before is not None:
                p.grad = before if p.grad is None else p.grad + before
    return norms
""",
    """
import math

def norm_log(p, losses):
    out = []
    def hook(grad):
        out.append(math.sqrt((grad.double() ** 2).sum().item()))
    handle = p.register_hook(hook)
    try:
        for loss in losses:
            loss(p).backward()
    finally:
        handle.remove()
    return out
""",
    """
class Norms(list):
    def __call__(self, grad):
        self.append(grad.norm().item())

def norm_log(p, losses):
    norms = Norms()
    with p.register_hook(norms):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    """
import contextlib
import torch

def norm_log(p, losses):
    norms = []
    def hook(grad):
        norms.append(torch.linalg.vector_norm(grad.detach()).item())
        return grad
    with contextlib.ExitStack() as stack:
        stack.callback(p.register_hook(hook).remove)
        for loss in losses:
            torch.autograd.backward([loss(p)])
    return norms
""",
    """
def norm_log(p, losses):
    return [one_norm(p, loss) for loss in losses]

def one_norm(p, loss):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.reshape(-1).norm().item())):
        loss(p).backward()
    return norms.pop()
""",
]

HOOKED = """
import torch

def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(NORM)):
        for loss in losses:
            loss(p).backward()
    return norms
"""

WRONG = [
    Wrong(
        "leaves NaN out",
        violates="The L2 norm is the square root of the sum of all squared entries",
        check="test_a_gradient_with_nan_has_the_norm_nan",
        source="""
def norm_log(p, losses):
    out = []
    with p.register_hook(lambda grad: out.append(grad[~grad.isnan()].norm().item())):
        for loss in losses:
            loss(p).backward()
    return out
""",
    ),
    Wrong(
        "norms of the sums",
        violates="the L2 norm of the gradient of that pass alone",
        check="test_each_pass_has_its_own_norm",
        mistake="accumulated-grad",
        source="""
def norm_log(p, losses):
    norms = []
    for loss in losses:
        loss(p).backward()
        norms.append(p.grad.norm().item())
    return norms
""",
    ),
    Wrong(
        "norms of differences of sums",
        violates="`p.grad` may hold anything at the start",
        check="test_each_pass_has_its_own_norm",
        mistake="difference-of-sums",
        source="""
def norm_log(p, losses):
    norms = []
    for loss in losses:
        before = 0 if p.grad is None else p.grad.clone()
        loss(p).backward()
        norms.append((p.grad - before).norm().item())
    return norms
""",
    ),
    Wrong(
        "p.grad is cleared",
        violates="ends as the plain loop would leave it",
        check="test_p_grad_accumulates_over_single_passes",
        mistake="cleared-callers-grad",
        source="""
def norm_log(p, losses):
    norms = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        norms.append(p.grad.norm().item())
    return norms
""",
    ),
    Wrong(
        "what the caller had in p.grad is lost",
        violates="each pass adds to it",
        check="test_p_grad_accumulates_over_single_passes",
        source="""
def norm_log(p, losses):
    norms = []
    p.grad = None
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    ),
    Wrong(
        "an old inf is taken away",
        violates="`p.grad` may hold anything at the start, even `inf`",
        check="test_p_grad_accumulates_over_single_passes",
        source="""
import torch

def norm_log(p, losses):
    norms = []
    if p.grad is not None:
        torch.nan_to_num_(p.grad)
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    ),
    Wrong(
        "autograd.grad",
        violates="each pass adds to it",
        check="test_p_grad_accumulates_over_single_passes",
        mistake="never-accumulated",
        source="""
import torch

def norm_log(p, losses):
    return [torch.autograd.grad(loss(p), p)[0].norm().item() for loss in losses]
""",
    ),
    Wrong(
        "autograd.grad, and added to p.grad",
        violates="run\n    `loss(p).backward()` once",
        check="test_it_works_on_the_weight_of_a_layer",
        mistake="only-p-accumulates",
        source="""
import torch

def norm_log(p, losses):
    norms = []
    for loss in losses:
        (grad,) = torch.autograd.grad(loss(p), p)
        norms.append(grad.norm().item())
        p.grad = grad if p.grad is None else p.grad + grad
    return norms
""",
    ),
    Wrong(
        "the total is put back at the end only",
        violates="also when a loss raises",
        check="test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves",
        source="""
def norm_log(p, losses):
    norms, total = [], p.grad
    for loss in losses:
        p.grad = None
        loss(p).backward()
        norms.append(p.grad.norm().item())
        total = p.grad if total is None else total + p.grad
    p.grad = total
    return norms
""",
    ),
    Wrong(
        "other leaves get nothing",
        violates="run `loss(p).backward()` once",
        check="test_it_works_on_the_weight_of_a_layer",
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward(inputs=[p])
    return norms
""",
    ),
    Wrong(
        "two passes for each loss",
        violates="run `loss(p).backward()` once",
        check="test_p_grad_accumulates_over_single_passes",
        source="""
import torch

def norm_log(p, losses):
    norms = []
    for loss in losses:
        value = loss(p)
        norms.append(torch.autograd.grad(value, p, retain_graph=True)[0].norm().item())
        value.backward()
    return norms
""",
    ),
    Wrong(
        "all losses first",
        violates="For each loss in order",
        check="test_p_grad_accumulates_over_single_passes",
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for value in [loss(p) for loss in losses]:
            value.backward()
    return norms
""",
    ),
    Wrong(
        "equal losses once",
        violates="a list with one Python float for each",
        check="test_each_pass_has_its_own_norm",
        source="""
def norm_log(p, losses):
    norms = {}
    for loss in losses:
        with p.register_hook(lambda grad: norms.update({loss: grad.norm().item()})):
            loss(p).backward()
    return list(norms.values())
""",
    ),
    Wrong(
        "needs a first loss",
        violates="`losses` is a list of functions",
        check="raised",
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        losses[0](p).backward()
        for loss in losses[1:]:
            loss(p).backward()
    return norms
""",
    ),
    Wrong(
        "the list is emptied",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_nothing_else_changes",
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        while losses:
            losses.pop(0)(p).backward()
    return norms
""",
    ),
    Wrong(
        "a hook for each pass, and none removed",
        violates="rule 3: none of your own hooks is left",
        check="test_each_pass_has_its_own_norm",
        mistake="hook-left-behind",
        source="""
def norm_log(p, losses):
    norms = []
    for loss in losses:
        p.register_hook(lambda grad: norms.append(grad.norm().item()))
        loss(p).backward()
    return norms
""",
    ),
    Wrong(
        "remove() without finally",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves",
        mistake="hook-left-after-exception",
        source="""
def norm_log(p, losses):
    norms = []
    handle = p.register_hook(lambda grad: norms.append(grad.norm().item()))
    for loss in losses:
        loss(p).backward()
    handle.remove()
    return norms
""",
    ),
    Wrong(
        "remove() under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves",
        source="""
def norm_log(p, losses):
    norms = []
    handle = p.register_hook(lambda grad: norms.append(grad.norm().item()))
    try:
        for loss in losses:
            loss(p).backward()
    except Exception:
        handle.remove()
        raise
    handle.remove()
    return norms
""",
    ),
    Wrong(
        "a RuntimeError is swallowed",
        violates="rule 4: Errors come through",
        check="test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves",
        source="""
def norm_log(p, losses):
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            try:
                loss(p).backward()
            except RuntimeError:
                pass
    return norms
""",
    ),
    Wrong(
        "everybody's hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def norm_log(p, losses):
    norms = []
    p.register_hook(lambda grad: norms.append(grad.norm().item()))
    try:
        for loss in losses:
            loss(p).backward()
    finally:
        p._backward_hooks.clear()
    return norms
""",
    ),
    Wrong(
        "the gradient is normalised",
        violates="ends as the plain loop would leave it",
        check="test_p_grad_accumulates_over_single_passes",
        source="""
def norm_log(p, losses):
    norms = []
    def hook(grad):
        norms.append(grad.norm().item())
        return grad / (grad.norm() + 1e-12)
    with p.register_hook(hook):
        for loss in losses:
            loss(p).backward()
    return norms
""",
    ),
    Wrong(
        "no entry for a gradient of zeros",
        violates="one Python float for each",
        check="test_each_pass_has_its_own_norm",
        mistake="zeros-left-out",
        source=HOOKED.replace("norms.append(NORM)", "norms.append(grad.norm().item()) if grad.any() else None"),
    ),
    *(
        Wrong(what, violates, check, HOOKED.replace("NORM", norm), *mistake)
        for what, norm, violates, check, *mistake in [
            ("tensors", "grad.norm()", "one Python float for each",
             "test_each_pass_has_its_own_norm"),
            ("numpy's floats", "grad.norm().numpy()[()]", "one Python float for each",
             "test_each_pass_has_its_own_norm"),
            ("the L1 norm", "grad.abs().sum().item()", "the square root of the sum of all squared entries",
             "test_each_pass_has_its_own_norm"),
            ("a matrix norm", "torch.linalg.norm(grad, 2).item()", "the L2 norm of the gradient", "raised"),
            ("a matrix norm of matrices", "torch.linalg.norm(grad, 2 if grad.dim() == 2 else None).item()",
             "the sum of all squared entries", "test_it_works_on_the_weight_of_a_layer", "spectral-norm"),
            ("norms of the rows", "grad.norm(dim=-1).sum().item()", "the L2 norm of the gradient",
             "test_it_works_on_the_weight_of_a_layer"),
            ("the largest column", "(grad.norm(dim=0).max() if grad.dim() > 1 else grad.norm()).item()",
             "the L2 norm of the gradient", "test_it_works_on_the_weight_of_a_layer"),
            ("rounded to float32", "grad.float().norm().item()", "rule 1: in `float32` and in `float64`",
             "test_each_pass_has_its_own_norm"),
            ("flattened by view", "grad.view(-1).norm().item()", "rule 1: in any layout", "raised"),
        ]
    ),
    Wrong(
        "one norm for each function",
        violates="a list with one Python float for each",
        check="test_one_loss_may_differ_from_call_to_call",
        source="""
def norm_log(p, losses):
    norms = {}
    for loss in losses:
        with p.register_hook(lambda grad, loss=loss: norms.update({loss: grad.norm().item()})):
            loss(p).backward()
    return [norms[loss] for loss in losses]
""",
    ),
    Wrong(
        "divided by the largest entry",
        violates="rule 1: Your function works for tensors of any shape",
        check="raised",
        source=HOOKED.replace("norms.append(NORM)", "norms.append(scaled(grad))").replace(
            "def norm_log",
            "def scaled(grad):\n    most = grad.abs().max()\n"
            "    return (most * (grad / most).norm()).item() if most else 0.0\n\ndef norm_log",
        ),
    ),
]  # fmt: skip

GIVENS = [
    "Write `norm_log(p, losses)`.",
]

SURVIVORS = {
    "lost return: grad": "a hook that returns nothing watches, too",
    "one global slot": "each call takes out what it has put in",
    "`.grad` put back as a copy": "the contract says what `p.grad` holds, not in which tensor",
}
