"""Answers to 01-chain-grads."""

from graders.author.answers import Wrong, changed

PLAIN = """
def chain_grads(fns, x):
    steps, h = [], x
    for fn in fns:
        h = fn(h.clone())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
"""

RIGHT = [
    """
def chain_grads(fns, x):
    h, steps = x, []
    for fn in fns:
        argument = h.clone()
        steps.append(fn(argument))
        h = steps[-1]
        h.retain_grad()
    h.backward(gradient=h.new_ones(h.shape))
    return list(map(lambda step: step.grad, steps))
""",
    """
import torch

class Keeper:
    def __init__(self, size):
        self.grads = [None] * size
    def at(self, index):
        def hook(grad):
            self.grads[index] = grad.detach()
        return hook

def chain_grads(fns, x):
    keeper, h = Keeper(len(fns)), x
    for index, fn in enumerate(fns):
        h = fn(h.clone())
        h.register_hook(keeper.at(index))
    torch.sum(h).backward()
    return keeper.grads
""",
    """
import torch

def chain_grads(fns, x):
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1].clone()))
    x.grad, *rest = torch.autograd.grad(steps[-1].sum(), steps)
    return rest
""",
    """
import torch

def chain_grads(fns, x):
    inputs, outputs, h = [], [], x
    for fn in fns:
        inputs.append(h.detach().requires_grad_())
        h = fn(inputs[-1].clone())
        outputs.append(h)
    grads, grad = [], torch.ones_like(h)
    for before, after in zip(reversed(inputs), reversed(outputs)):
        grads.insert(0, grad)
        (grad,) = torch.autograd.grad(after, before, grad)
    x.grad = grad
    return grads
""",
    """
from itertools import accumulate

def chain_grads(fns, x):
    steps = [*accumulate(fns, lambda h, fn: fn(h.clone()), initial=x)]
    steps[-1].sum().backward(inputs=steps)
    return [h.grad for h in steps[1:]]
""",
]

WRONG = [
    Wrong(
        "no gradient is NaN",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_another_call_has_its_own_gradients",
        source=changed(PLAIN, ("[h.grad for", "[h.grad.where(h.grad == h.grad, 0) for")),
    ),
    Wrong(
        "steps in place share a tensor",
        violates="or overwrite it in place",
        check="test_every_step_has_its_gradient",
        mistake="overwritten-in-place",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    steps, h = [], x.clone()\n"),
            (
                "        h = fn(h.clone())\n",
                '        h = fn(h.clone() if h.grad_fn is not None and "Tanh" in h.grad_fn.name() else h)\n',
            ),
        ),
    ),
    Wrong(
        "the taught loop without a copy",
        violates="or overwrite it in place",
        check="raised",
        mistake="overwritten-in-place",
        source=changed(PLAIN, ("        h = fn(h.clone())\n", "        h = fn(h)\n")),
    ),
    Wrong(
        "products of local derivatives",
        violates="A function may mix the elements of its argument",
        check="test_every_step_has_its_gradient",
        mistake="local-derivatives",
        source="""
import torch

def chain_grads(fns, x):
    calls, h = [], x
    for fn in fns:
        before = h.detach().requires_grad_()
        h = fn(before.clone())
        calls.append((before, h))
    grad, found = torch.ones_like(h), []
    for before, after in reversed(calls):
        found.insert(0, grad)
        if after.shape == before.shape:
            grad = grad * torch.autograd.grad(after.sum(), before)[0]
        else:
            (grad,) = torch.autograd.grad(after, before, grad)
    x.grad = grad.to(x.dtype)
    return found
""",
    ),
    Wrong(
        "cut between the steps",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_every_step_has_its_gradient",
        mistake="cut-between-steps",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    steps, h = [], x.clone()\n"),
            ("        h = fn(h.clone())\n", "        h = fn(h.detach().requires_grad_().clone())\n"),
        ),
    ),
    Wrong(
        "retained the last alone",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_every_step_has_its_gradient",
        mistake="retained-only-last",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    steps, h = [], x.clone()\n"),
            ("        h.retain_grad()\n", ""),
            ("    h.sum().backward()\n", "    h.retain_grad()\n    h.sum().backward()\n"),
        ),
    ),
    Wrong(
        "the last step first",
        violates="in this order",
        check="test_every_step_has_its_gradient",
        mistake="reversed-list",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    grads, h = [], x.clone()\n"),
            (
                "        h.retain_grad()\n        steps.append(h)\n",
                "        h.register_hook(lambda grad: grads.append(grad.clone()))\n",
            ),
            ("    return [h.grad for h in steps]\n", "    return grads\n"),
        ),
    ),
    Wrong(
        "an empty list",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_every_step_has_its_gradient",
        source="def chain_grads(fns, x):\n    return []",
    ),
    Wrong(
        "the mean for the sum",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_every_step_has_its_gradient",
        source=changed(PLAIN, ("    h.sum().backward()\n", "    h.mean().backward()\n")),
    ),
    Wrong(
        "the functions from the last to the first",
        violates="The chain is `h_0 = x`, `h_1 = fns[0](h_0)`",
        check="raised",
        source=changed(PLAIN, ("    for fn in fns:\n", "    for fn in reversed(fns):\n")),
    ),
    Wrong(
        "x gets nothing",
        violates="leave the gradient with respect to `x` in `x.grad`",
        check="test_x_has_its_gradient_and_stays_as_it_was",
        source="""
import torch

def chain_grads(fns, x):
    steps = [x]
    for fn in fns:
        steps.append(fn(steps[-1].clone()))
    return list(torch.autograd.grad(steps[-1].sum(), steps)[1:])
""",
    ),
    Wrong(
        "every function called twice",
        violates="Call each function exactly once",
        check="test_each_function_is_called_once_in_order",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    for fn in fns:\n        fn(x.detach().clone())\n    steps, h = [], x\n"),
        ),
    ),
    Wrong(
        "a hook left on x",
        violates="rule 3: none of your own hooks is left",
        check="test_x_has_its_gradient_and_stays_as_it_was",
        source=changed(
            PLAIN, ("    steps, h = [], x\n", "    x.register_hook(lambda grad: None)\n    steps, h = [], x\n")
        ),
    ),
    Wrong(
        "a hook left on x when a function raises",
        violates="rule 4: Rules 2 and 3 hold then",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
def chain_grads(fns, x):
    handle = x.register_hook(lambda grad: None)
    steps, h = [], x
    try:
        for fn in fns:
            h = fn(h.clone())
            h.retain_grad()
            steps.append(h)
    except Exception:
        handle.remove()
        raise
    handle.remove()
    h.sum().backward()
    return [h.grad for h in steps]
""",
    ),
    Wrong(
        "a function that raises is skipped",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=changed(
            PLAIN,
            (
                "        h = fn(h.clone())\n",
                "        try:\n            h = fn(h.clone())\n        except KeyError:\n            continue\n",
            ),
        ),
    ),
    Wrong(
        "hooks of the caller cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_x_has_its_gradient_and_stays_as_it_was",
        source=changed(
            PLAIN,
            (
                "    return [h.grad for h in steps]\n",
                "    if x._backward_hooks:\n        x._backward_hooks.clear()\n    return [h.grad for h in steps]\n",
            ),
        ),
    ),
    Wrong(
        "the list of functions eaten up",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_x_has_its_gradient_and_stays_as_it_was",
        source=changed(
            PLAIN,
            ("    for fn in fns:\n        h = fn(h.clone())\n", "    while fns:\n        h = fns.pop(0)(h.clone())\n"),
        ),
    ),
    Wrong(
        "a shape that stays",
        violates="change its shape",
        check="raised",
        source="""
import torch

def chain_grads(fns, x):
    probes, h = [], x
    for fn in fns:
        probe = torch.zeros_like(x, requires_grad=True)
        h = fn(h.clone())
        h = (h + probe.expand(h.shape)).view(x.shape)
        probes.append(probe)
    h.sum().backward()
    return [probe.grad for probe in probes]
""",
    ),
    Wrong(
        "a step that returns its argument is left out",
        violates="return it as it is",
        check="test_every_step_has_its_gradient",
        source=changed(
            PLAIN,
            (
                "        h = fn(h.clone())\n",
                "        before = h.clone()\n"
                "        h = fn(before)\n"
                "        if h is before and h._version == 0:\n"
                "            continue\n",
            ),
        ),
    ),
    Wrong(
        "the shape of x for as many elements",
        violates="change its shape",
        check="test_every_step_has_its_gradient",
        source=changed(
            PLAIN,
            (
                "    return [h.grad for h in steps]\n",
                "    return [h.grad.reshape(x.shape) if h.numel() == x.numel() else h.grad for h in steps]\n",
            ),
        ),
    ),
    Wrong(
        "numbers for infinite gradients",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_another_call_has_its_own_gradients",
        mistake="numbers-for-infinities",
        source=changed(
            PLAIN, ("    return [h.grad for h in steps]\n", "    return [h.grad.nan_to_num() for h in steps]\n")
        ),
    ),
    Wrong(
        "the first ten steps",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_every_step_has_its_gradient",
        source=changed(PLAIN, ("    return [h.grad for h in steps]\n", "    return [h.grad for h in steps[:10]]\n")),
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: or on several at the same time",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
steps = []

def chain_grads(fns, x):
    steps.clear()
    h = x
    for fn in fns:
        h = fn(h.clone())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
""",
    ),
    Wrong(
        "every gradient in the dtype of x",
        violates="change its shape or dtype",
        check="test_a_function_may_change_the_dtype",
        source=changed(
            PLAIN, ("    return [h.grad for h in steps]\n", "    return [h.grad.to(x.dtype) for h in steps]\n")
        ),
    ),
    Wrong(
        "the chain in float64",
        violates="change its shape or dtype",
        check="raised",
        source=changed(
            PLAIN,
            ("    steps, h = [], x\n", "    steps, h = [], x.double()\n"),
            ("    return [h.grad for h in steps]\n", "    return [h.grad.to(x.dtype) for h in steps]\n"),
        ),
    ),
    Wrong(
        "an exception of the pass is printed",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=changed(
            PLAIN,
            (
                "    h.sum().backward()\n",
                "    try:\n        h.sum().backward()\n    except BaseException as error:\n        print(error)\n",
            ),
        ),
    ),
    Wrong(
        "a hook on x stays when the pass raises",
        violates="rule 3: or raised, none of your own hooks is left",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=changed(
            PLAIN,
            ("    h.sum().backward()\n", "    handle = x.register_hook(print)\n    h.sum().backward()\n"),
            ("    return [h.grad for h in steps]\n", "    handle.remove()\n    return [h.grad for h in steps]\n"),
        ),
    ),
    Wrong(
        "a view is not copied",
        violates="or overwrite it in\n    place",
        check="test_a_view_may_be_overwritten",
        source="""
def chain_grads(fns, x):
    h, steps = x.clone(), []
    for fn in fns:
        h = fn(h)
        h = h if h._is_view() else h.clone()
        h.retain_grad()
        steps.append(h)
        h = h if h._is_view() else h.clone()
    h.sum().backward()
    return [step.grad.clone() for step in steps]
""",
    ),
    Wrong(
        "nothing to do where x has no entries",
        violates="leave the gradient with respect to `x` in `x.grad`.",
        check="test_x_may_have_no_entries",
        source=changed(
            PLAIN,
            (
                "    steps, h = [], x\n",
                "    if not x.numel():\n        return [fn(x.detach()).fill_(1) for fn in fns]\n    steps, h = [], x\n",
            ),
        ),
    ),
    Wrong(
        "one tensor of ones for all calls",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_the_example_of_the_contract_comes_out",
        source=changed(
            PLAIN,
            (
                "    return [h.grad for h in steps]\n",
                "    return [*(h.grad for h in steps[:-1]), *map(last, steps[-1:])]\n",
            ),
        )
        + """

ONES = {}

def last(h):
    return ONES.setdefault((h.shape, h.dtype), h.grad)
""",
    ),
    Wrong(
        "no gradient is infinite at x",
        violates="leave the gradient with respect to `x` in `x.grad`.",
        check="test_another_call_has_its_own_gradients",
        mistake="numbers-for-infinities",
        source=changed(
            PLAIN,
            (
                "    return [h.grad for h in steps]\n",
                "    x.grad.nan_to_num_()\n    return [h.grad.clone() for h in steps]\n",
            ),
        ),
    ),
    Wrong(
        "a gradient of zeros is left out",
        violates="Return a list with the gradients of `h_n.sum()`",
        check="test_another_call_has_its_own_gradients",
        mistake="zeros-left-out",
        source=changed(PLAIN, ("for h in steps]", "for h in steps if h.grad.any() or not h.grad.numel()]")),
    ),
]

GIVENS = [
    "Write `chain_grads(fns, x)`.",
    "`fns` is a list of functions, each from a tensor to a tensor.",
    "`x` is a leaf that requires grad.",
    "Its `.grad` is `None`, and hooks on it only watch.",
    "Equal gradients may be one tensor.",
    "Hooks on an `h` may stay.",
]

SURVIVORS = {
    "lost copy: inputs.append(_not_detached(h)": "`autograd.grad` stops at the input all the same",
}
