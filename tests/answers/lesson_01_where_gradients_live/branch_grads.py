"""Answers to 01-branch-grads."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def branch_grads(w, x):
    a = w + x
    b = w + 1
    a.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
    """
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = torch.autograd.grad((a * b).sum(), [w, x, a, b])
    return dict(zip(["w", "x", "a", "b"], grads))
""",
    """
def branch_grads(w, x):
    found = {}
    a, b = w + x, w + 1
    def keep(name):
        return lambda grad: found.update({name: grad.detach()})
    handles = [t.register_hook(keep(name)) for name, t in (("w", w), ("x", x), ("a", a), ("b", b))]
    try:
        (a * b).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    """
def branch_grads(w, x):
    with __import__("torch").no_grad():
        a, b = w + x, w + 1
        return {"w": a + b, "x": b, "a": b, "b": a}
""",
    """
from contextlib import ExitStack
from functools import partial

def branch_grads(w, x):
    w, x = (t.detach().requires_grad_() for t in (w, x))
    parts = {"w": w, "x": x, "a": w + x, "b": w + 1}
    grads = {}
    with ExitStack() as stack:
        for name, t in parts.items():
            stack.enter_context(t.register_hook(partial(grads.__setitem__, name)))
        (parts["a"] * parts["b"]).sum().backward()
    return grads
""",
    """
from collections import OrderedDict
import torch

@torch.no_grad()
def branch_grads(w, x):
    return OrderedDict(b=w + x, a=w + 1, x=w + 1, w=2 * w + x + 1)
""",
    """
import torch

def branch_grads(w, x):
    def y(w, x, to_a, to_b):
        return ((w + x + to_a) * (w + 1 + to_b)).sum()
    zero = torch.zeros_like(w)
    grads = torch.func.grad(y, argnums=(0, 1, 2, 3))(w.detach(), x.detach(), zero, zero)
    return dict(zip("wxab", grads))
""",
]

WRONG = [
    Wrong(
        "retained too late",
        violates="return the four gradients of `y`",
        check="test_all_four_gradients_are_right",
        mistake="retained-too-late",
        source="""
def branch_grads(w, x):
    a, b = w + x, w + 1
    (a * b).sum().backward()
    a.retain_grad()
    b.retain_grad()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
    ),
    Wrong(
        "retained a copy",
        violates="`a = w + x`",
        check="test_all_four_gradients_are_right",
        mistake="retained-a-copy",
        source="""
def branch_grads(w, x):
    a, b = w + x, w + 1
    copy = a * 1
    copy.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": copy.grad, "b": b.grad}
""",
    ),
    Wrong(
        "values",
        violates="return the four gradients of `y`",
        check="test_all_four_gradients_are_right",
        mistake="values-not-gradients",
        source="""
def branch_grads(w, x):
    a, b = w + x, w + 1
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.detach(), "b": b.detach()}
""",
    ),
    Wrong(
        "a and b exchanged",
        violates="the four gradients of `y` as a dict with the keys",
        check="test_all_four_gradients_are_right",
        mistake="values-not-gradients",
        source=changed(RIGHT[1], ('["w", "x", "a", "b"]', '["w", "x", "b", "a"]')),
    ),
    Wrong(
        "no gradient is NaN",
        violates="the four gradients of `y` as a dict with the keys",
        check="test_another_call_has_its_own_gradients",
        source=changed(RIGHT[1], ("grads))\n", "(grad.where(grad == grad, 0) for grad in grads)))\n")),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: It works however often it is called",
        check="test_all_four_gradients_are_right",
        mistake="one-slot-for-all",
        source=changed(
            RIGHT[1],
            ("def branch", "found = {}\n\ndef branch"),
            ("    return dict(", "    found.update("),
            ("grads))\n", "grads))\n    return found\n"),
        ),
    ),
    Wrong(
        "hooks that stay on w and x, and rewrite the result in a later pass",
        violates="rule 3: none of your own hooks is left",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        mistake="hook-left-behind",
        source=changed(
            RIGHT[2],
            ("    finally:\n        for handle in handles:\n            handle.remove()\n", "    finally: pass\n"),
        ),
    ),
    Wrong(
        "retained one of two",
        violates="`b = w + 1`",
        check="test_all_four_gradients_are_right",
        mistake="retained-only-one",
        source="""
def branch_grads(w, x):
    a, b = w + x, w + 1
    a.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
""",
    ),
    Wrong(
        "zeros that require grad",
        violates="rule 6: no graph",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="def branch_grads(w, x):\n    return {'w': 2 * w + x + 1, 'x': w + 1, 'a': w + 1, 'b': w + x}",
    ),
    Wrong(
        "nothing",
        violates='a dict with the keys `"w"`, `"x"`, `"a"` and `"b"`',
        check="test_all_four_gradients_are_right",
        source="def branch_grads(w, x):\n    return None",
    ),
    Wrong(
        "the mean for the sum",
        violates="`y = (a * b).sum()`",
        check="test_all_four_gradients_are_right",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    return dict(zip("wxab", torch.autograd.grad((a * b).mean(), (w, x, a, b))))
""",
    ),
    Wrong(
        "float32 for everybody",
        violates="return the four gradients of `y`",
        check="test_all_four_gradients_are_right",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    return {n: g.float() for n, g in zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b)))}
""",
    ),
    Wrong(
        "numbers of the example",
        violates="return the four gradients of `y`",
        check="test_all_four_gradients_are_right",
        source="def branch_grads(w, x):\n    return {'w': 5.0, 'x': 2.0, 'a': 2.0, 'b': 3.0}",
    ),
    Wrong(
        "w is zeroed",
        violates="rule 2: Tensors keep their values",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    w.data.zero_()
    return grads
""",
    ),
    Wrong(
        "w loses its last digits",
        violates="rule 2: Tensors keep their values",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
def branch_grads(w, x):
    w.data = w.data + 1e6 - 1e6
    w, x = w.detach(), x.detach()
    return {"w": 2 * w + x + 1, "x": w + 1, "a": w + 1, "b": w + x}
""",
    ),
    Wrong(
        "flattened by view",
        violates="rule 1: in any layout",
        check="raised",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    y = a.view(-1).dot(b.view(-1))
    return dict(zip("wxab", torch.autograd.grad(y, (w, x, a, b))))
""",
    ),
    Wrong(
        "remembers the first call",
        violates="rule 1: It works however often it is called",
        check="test_another_call_has_its_own_gradients",
        source="""
import torch

known = {}

def branch_grads(w, x):
    a, b = w + x, w + 1
    found = dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    return known.setdefault((w.shape, w.stride(), w.dtype), found)
""",
    ),
    Wrong(
        "a hook left on x",
        violates="rule 3: none of your own hooks is left",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
def branch_grads(w, x):
    found = {}
    a, b = w + x, w + 1
    for name, t in dict(w=w, x=x, a=a, b=b).items():
        t.register_hook(lambda grad, name=name: found.update({name: grad.clone()}))
    (a * b).sum().backward()
    return found
""",
    ),
    Wrong(
        "remembers the values of w",
        violates="rule 1: It works however often it is called",
        check="test_another_call_has_its_own_gradients",
        source="""
import torch

known = {}

def branch_grads(w, x):
    a, b = w + x, w + 1
    found = dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    return known.setdefault((w.dtype, str(w.tolist())), found)
""",
    ),
    Wrong(
        "hooks left when a hook of another raises",
        violates="rule 3: or raised, none of your own hooks is left",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
def branch_grads(w, x):
    found = {}
    a, b = w + x, w + 1
    parts = dict(w=w, x=x, a=a, b=b).items()
    handles = [t.register_hook(lambda grad, name=name: found.update({name: grad.clone()})) for name, t in parts]
    (a * b).sum().backward()
    for handle in handles:
        handle.remove()
    return found
""",
    ),
    Wrong(
        "a pass that raises gives nothing",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    try:
        return dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    except Exception:
        return {}
""",
    ),
    Wrong(
        "an interrupt becomes another exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    try:
        return dict(zip("wxab", torch.autograd.grad((a * b).sum(), (w, x, a, b))))
    except KeyboardInterrupt:
        raise RuntimeError("stopped")
""",
    ),
    Wrong(
        "one gradient from the difference of two",
        violates="return the four gradients of `y`",
        check="test_small_gradients_are_exact",
        source="""
def branch_grads(w, x):
    (((w + x) * (w + 1)).sum()).backward()
    return {"w": w.grad, "x": x.grad, "a": x.grad.clone(), "b": w.grad - x.grad}
""",
    ),
    Wrong(
        "w itself where x is 0",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
def branch_grads(w, x):
    w, x = w.detach(), x.detach()
    return {"w": 2 * w + x + 1, "x": w + 1, "a": w + 1, "b": w + x if x.any() else w}
""",
    ),
    Wrong(
        "one list for all calls",
        violates="rule 1: or on several at the same time",
        check="test_a_call_inside_a_call_has_its_own_gradients",
        source="""
parts = []

def branch_grads(w, x):
    parts[:] = [w, x, w + x, w + 1]
    for part in parts[2:]:
        part.retain_grad()
    (parts[2] * parts[3]).sum().backward()
    return {name: part.grad for name, part in zip("wxab", parts)}
""",
    ),
    Wrong(
        "x itself where w is 0",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
def branch_grads(w, x):
    w, x = w.detach(), x.detach()
    return {"w": 2 * w + x + 1, "x": w + 1, "a": w + 1, "b": w + x if w.any() else x}
""",
    ),
    Wrong(
        "four dimensions at most",
        violates="rule 1: for tensors of any shape",
        check="test_another_call_has_its_own_gradients",
        source="""
def branch_grads(w, x):
    w, x = w.detach(), x.detach()
    grads = {"w": 2 * w + x + 1, "x": w + 1, "a": w + 1, "b": w + x}
    return {name: grad.flatten(3) if grad.dim() > 4 else grad for name, grad in grads.items()}
""",
    ),
    Wrong(
        "no gradient is infinite",
        violates="return the four gradients of `y`",
        check="test_another_call_has_its_own_gradients",
        mistake="numbers-for-infinities",
        source="""
def branch_grads(w, x):
    w, x = w.detach(), x.detach()
    return {"w": 2 * w + x + 1, "x": w + 1, "a": (w + 1).nan_to_num(), "b": w + x}
""",
    ),
    Wrong(
        "a first dimension of 1 is dropped",
        violates="return the four gradients of `y`",
        check="test_another_call_has_its_own_gradients",
        source="""
import torch

def branch_grads(w, x):
    a, b = w + x, w + 1
    grads = torch.autograd.grad((a * b).sum(), [w, x, a, b])
    grads = [grad.squeeze(0) if grad.dim() == 3 and len(grad) == 1 else grad for grad in grads]
    return dict(zip(["w", "x", "a", "b"], grads))
""",
    ),
    Wrong(
        "clears post-accumulate hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_no_graph_comes_along_and_w_and_x_stay_as_they_were",
        source="""
import torch

def branch_grads(w, x):
    for t in (w, x):
        if t._post_accumulate_grad_hooks:
            t._post_accumulate_grad_hooks.clear()
    a, b = w + x, w + 1
    grads = torch.autograd.grad((a * b).sum(), [w, x, a, b])
    return dict(zip(["w", "x", "a", "b"], (grad.clone() for grad in grads)))
""",
    ),
]

GIVENS = [
    "Write `branch_grads(w, x)`.",
    "`w` and `x` are two different leaves of one shape and dtype that require grad.",
    "Their `.grad` is `None`, and hooks on them only watch.",
    'The entries `"x"` and `"a"` may be one tensor.',
    "You may fill `w.grad` and `x.grad`",
]

SURVIVORS = {
    "not for all: for handle in _part(handles, stop=": "the hooks that are left sit on `a` and `b`, which nobody sees",
    "not for all: handles = [": "hooks on four tensors may be registered in any order",
    "not for all: for name, t in _part(parts.items(), step=-1):": "the same",
    "lost statement: without w, x = (t.detach()": "then `w` and `x` themselves are used",
    "lost copy: w, x = (_not_detached(t)": "then `w` and `x` themselves are used",
}
