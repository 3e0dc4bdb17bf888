"""Answers to 02-grads-by-name."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
def grads_by_name(tensors, loss):
    grads = {}
    handles = []
    try:
        for name, t in tensors.items():
            def hook(grad, name=name):
                grads[name] = grad.detach().clone()
            handles.append(t.register_hook(hook))
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
""",
    """
from contextlib import ExitStack
from functools import partial

def grads_by_name(tensors, loss):
    grads = {}
    def keep(name, grad):
        grads[name] = grad.clone()
    with ExitStack() as stack:
        for name in tensors:
            stack.enter_context(tensors[name].register_hook(partial(keep, name)))
        loss.backward()
    return grads
""",
    """
import torch

def grads_by_name(tensors, loss):
    grads = {}
    class Keep:
        def __init__(self, name):
            self.name = name
        def __call__(self, grad):
            grads[self.name] = torch.empty_like(grad).copy_(grad)
    handles = [t.register_hook(Keep(name)) for name, t in tensors.items()]
    try:
        torch.autograd.backward(loss)
        return {name: grads[name] for name in sorted(grads)}
    finally:
        while handles:
            handles.pop().remove()
""",
    """
from collections import OrderedDict
import copy

class Grads(OrderedDict):
    def under(self, name):
        return lambda grad: self.__setitem__(name, copy.deepcopy(grad))

def grads_by_name(tensors, loss):
    grads, handles = Grads(), {}
    for name, t in tensors.items():
        handles[name] = t.register_hook(grads.under(name))
    try:
        loss.backward()
    finally:
        [handle.remove() for handle in handles.values()]
    return grads
""",
]

HOOKED = """
from contextlib import ExitStack

def grads_by_name(tensors, loss):
    grads = {}
    with ExitStack() as stack:
        for name, t in tensors.items():
            stack.enter_context(t.register_hook(lambda grad, name=name: grads.update({name: grad.detach().clone()})))
        loss.backward()
    return grads
"""


def hooked(old, new):
    assert old in HOOKED
    return HOOKED.replace(old, new)


COPY = "grad.detach().clone()"
RUN = "        loss.backward()\n"


def without(condition: str) -> str:
    """A right answer, but for the entries for which a condition holds: these it leaves out."""
    loop = "for name, t in tensors.items():\n"
    return changed(RIGHT[0], (loop, f"{loop}            if {condition}:\n                continue\n"))


WRONG = [
    Wrong(
        "a pass for the leaves of the dict alone",
        violates="Run `loss.backward()` exactly once, without arguments",
        check="test_backward_runs_once_and_leaves_accumulate",
        source="""
def grads_by_name(tensors, loss):
    out, handles = {}, []
    try:
        for name, t in tensors.items():
            handles.append(t.register_hook(lambda grad, name=name: out.update({name: grad.clone()})))
        only_leaves = tensors and all(t.is_leaf for t in tensors.values())
        loss.backward(inputs=list(tensors.values()) if only_leaves else None)
    finally:
        for handle in handles:
            handle.remove()
    return out
""",
    ),
    Wrong(
        "the name is looked up too late",
        violates="return a dict from names to gradients",
        check="test_every_reached_tensor_has_its_gradient",
        mistake="late-binding",
        source=hooked("lambda grad, name=name:", "lambda grad:"),
    ),
    Wrong(
        "retain_grad",
        violates="The others get no `.grad`",
        check="test_nothing_else_changes",
        mistake="dot-grad-on-non-leaf",
        source="""
def grads_by_name(tensors, loss):
    for t in tensors.values():
        t.retain_grad()
    loss.backward()
    return {name: t.grad.clone() for name, t in tensors.items() if t.grad is not None}
""",
    ),
    Wrong(
        "a key for everybody",
        violates="Names of the others are absent",
        check="test_every_reached_tensor_has_its_gradient",
        mistake="a-key-for-everybody",
        source=hooked("grads = {}", "grads = dict.fromkeys(tensors)"),
    ),
    Wrong(
        "no hook is removed",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left-behind",
        source="""
def grads_by_name(tensors, loss):
    grads = {}
    for name, t in tensors.items():
        t.register_hook(lambda grad, name=name: grads.update({name: grad.clone()}))
    loss.backward()
    return grads
""",
    ),
    Wrong(
        "removed without finally",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left-after-exception",
        source="""
def grads_by_name(tensors, loss):
    grads = {}
    handles = []
    for name, t in tensors.items():
        handles.append(t.register_hook(lambda grad, name=name: grads.update({name: grad.clone()})))
    loss.backward()
    for handle in handles:
        handle.remove()
    return grads
""",
    ),
    Wrong(
        "removed under except Exception",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source="""
def grads_by_name(tensors, loss):
    grads = {}
    handles = [t.register_hook(lambda g, n=n: grads.update({n: g.detach().clone()})) for n, t in tensors.items()]
    try:
        loss.backward()
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return grads
""",
    ),
    Wrong(
        "exceptions are swallowed",
        violates="rule 4: Errors come through",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=hooked(RUN, "        try:\n            loss.backward()\n        except Exception:\n            pass\n"),
    ),
    Wrong(
        "hooks that fired are removed, others stay",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        source="""
def grads_by_name(tensors, loss):
    grads, handles = {}, {}
    def keep(grad, name):
        grads[name] = grad.detach().clone()
        handles[name].remove()
    for name, t in tensors.items():
        handles[name] = t.register_hook(lambda grad, name=name: keep(grad, name))
    try:
        loss.backward()
    except BaseException:
        for handle in handles.values():
            handle.remove()
        raise
    return grads
""",
    ),
    Wrong(
        "the gradient itself",
        violates="Each gradient is a copy of its own",
        check="test_every_gradient_is_a_copy",
        mistake="stored-alias",
        source=hooked(COPY, "grad"),
    ),
    Wrong(
        "the copy flows on",
        violates="Each gradient is a copy of its own",
        check="test_every_gradient_is_a_copy",
        source=hooked("{name: grad.detach().clone()})", "{name: grad.detach().clone()}) or grads[name]"),
    ),
    Wrong(
        "one copy for two names",
        violates="also one under two names",
        check="test_every_gradient_is_a_copy",
        source="""
from contextlib import ExitStack

def grads_by_name(tensors, loss):
    grads = {}
    with ExitStack() as stack:
        for t in {id(t): t for t in tensors.values()}.values():
            keep = lambda grad, t=t: grads.update({id(t): grad.detach().clone()})
            stack.enter_context(t.register_hook(keep))
        loss.backward()
    return {name: grads[id(t)] for name, t in tensors.items() if id(t) in grads}
""",
    ),
    Wrong(
        "one name for each tensor",
        violates="also one under two names",
        check="test_every_reached_tensor_has_its_gradient",
        source="""
from contextlib import ExitStack

def grads_by_name(tensors, loss):
    grads = {}
    with ExitStack() as stack:
        for t, name in {t: name for name, t in tensors.items()}.items():
            stack.enter_context(t.register_hook(lambda grad, name=name: grads.update({name: grad.detach().clone()})))
        loss.backward()
    return grads
""",
    ),
    Wrong(
        "names become attributes",
        violates="(any strings)",
        check="test_every_reached_tensor_has_its_gradient",
        source="""
from contextlib import ExitStack

class Grads:
    pass

def grads_by_name(tensors, loss):
    grads = Grads()
    with ExitStack() as stack:
        for name, t in tensors.items():
            name = name.replace(".", "_").replace(" ", "_")
            keep = lambda grad, name=name: setattr(grads, name, grad.detach().clone())
            stack.enter_context(t.register_hook(keep))
        loss.backward()
    found = {name: getattr(grads, name.replace(".", "_").replace(" ", "_"), None) for name in tensors}
    return {name: grad.clone() for name, grad in found.items() if grad is not None}
""",
    ),
    Wrong(
        "no entry for a gradient of zeros",
        violates="even if it is zero",
        check="test_every_reached_tensor_has_its_gradient",
        mistake="zeros-left-out",
        source=hooked("grads.update({name: grad.detach().clone()})",
                      "grads.update({name: grad.clone()}) if grad.any() else None"),
    ),
    Wrong(
        "float32 for everybody",
        violates="with the dtype of its tensor",
        check="test_every_reached_tensor_has_its_gradient",
        source=hooked(COPY, "grad.detach().clone().float()"),
    ),
    Wrong(
        "flattened by view",
        violates="rule 1: in any layout",
        check="raised",
        source=hooked(COPY, "grad.detach().view(-1).clone().view(grad.shape)"),
    ),
    Wrong(
        "autograd.grad, and no backward",
        violates="Run `loss.backward()` exactly once",
        check="raised",
        source="""
import torch

def grads_by_name(tensors, loss):
    grads = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    return {name: grad for name, grad in zip(tensors, grads) if grad is not None}
""",
    ),
    Wrong(
        "two passes",
        violates="Run `loss.backward()` exactly once",
        check="test_backward_runs_once_and_leaves_accumulate",
        source=hooked(RUN, "        loss.backward(retain_graph=True)\n        loss.backward()\n"),
    ),
    Wrong(
        "the graph is kept",
        violates="without arguments",
        check="test_backward_runs_once_and_leaves_accumulate",
        source=hooked(RUN, "        loss.backward(retain_graph=True)\n"),
    ),
    Wrong(
        ".grad is emptied first",
        violates="Leaves accumulate their `.grad` as usual",
        check="test_backward_runs_once_and_leaves_accumulate",
        source=hooked(RUN, "        for t in tensors.values():\n            t.grad = None\n" + RUN),
    ),
    Wrong(
        "what the caller retained is thrown away",
        violates="so do tensors on which the caller called `retain_grad()`",
        check="test_backward_runs_once_and_leaves_accumulate",
        source=hooked(
            RUN,
            RUN + "        for t in tensors.values():\n            if not t.is_leaf:\n                t.grad = None\n",
        ),
    ),
    Wrong(
        "retained, and cleaned up in part",
        violates="`retains_grad` stays as it is",
        check="test_nothing_else_changes",
        source=hooked(
            RUN,
            "        for t in tensors.values():\n            t.retain_grad()\n"
            + RUN
            + "        for t in tensors.values():\n            if not t.is_leaf:\n                t.grad = None\n",
        ),
    ),
    Wrong(
        "before the caller's hooks",
        violates="taken after the hooks that were on the tensor before",
        check="test_every_reached_tensor_has_its_gradient",
        source=hooked(
            "        loss.backward()\n",
            "            hooks = t._backward_hooks\n"
            "            number = next(reversed(hooks))\n"
            "            others = {key: hook for key, hook in hooks.items() if key != number}\n"
            "            own = hooks[number]\n"
            "            hooks.clear()\n"
            "            hooks.update({number: own, **others})\n"
            "        loss.backward()\n",
        ),
    ),
    Wrong(
        "everybody's hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source=hooked(
            RUN, RUN + "        for t in tensors.values():\n            if t._backward_hooks:\n"
            "                t._backward_hooks.clear()\n"
        ),
    ),
    Wrong(
        "the dict is emptied",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_nothing_else_changes",
        source=hooked(RUN, RUN + "    tensors.clear()\n"),
    ),
    Wrong(
        "needs a tensor",
        violates="`tensors` is a dict from names",
        check="raised",
        source=hooked(RUN, "        assert tensors\n" + RUN),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: It works however often it is called",
        check="test_every_reached_tensor_has_its_gradient",
        source="grads = {}\n" + hooked("    grads = {}\n", ""),
    ),
    Wrong(
        "the dtype of the loss",
        violates="with the dtype of its tensor",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source="""
def grads_by_name(tensors, loss):
    grads = {}
    def keep(name):
        return lambda grad: grads.update({name: grad.detach().to(loss.dtype, copy=True)})
    handles = [t.register_hook(keep(name)) for name, t in tensors.items()]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
""",
    ),
    Wrong(
        "names without blanks",
        violates="`tensors` is a dict from names (any strings)",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source="""
def grads_by_name(tensors, loss):
    grads = {}
    def keep(name):
        return lambda grad: grads.update({name.strip(): grad.detach().clone()})
    handles = [t.register_hook(keep(name)) for name, t in tensors.items()]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
""",
    ),
    Wrong(
        "leaves out tensors without elements",
        violates="for those tensors that the gradient reached",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source=without("not t.numel()"),
    ),
    Wrong(
        "leaves out the empty name",
        violates="(any strings)",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source=without("not name"),
    ),
    Wrong(
        "leaves out the loss",
        violates="also `loss` itself",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source=without("t is loss"),
    ),
    Wrong(
        "copies of what autograd.grad returns",
        violates="Run `loss.backward()` exactly once",
        check="test_backward_runs_once_and_leaves_accumulate",
        mistake="never-accumulated",
        source="""
import torch

def grads_by_name(tensors, loss):
    if not tensors:
        return {}
    grads = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    return {name: grad.clone() for name, grad in zip(tensors, grads) if grad is not None}
""",
    ),
    Wrong(
        "leaves out leaves",
        violates="leaves or not",
        check="test_every_reached_tensor_has_its_gradient",
        source=without("t.is_leaf"),
    ),
    Wrong(
        "one dict that each call empties",
        violates="rule 1: also when one call runs inside another",
        check="test_each_has_the_dtype_of_its_tensor_and_any_name",
        source="grads = {}\n"
        + changed(RIGHT[0], ("    grads = {}\n", "    grads.clear()\n"), ("return grads", "return dict(grads)")),
    ),
]  # fmt: skip

GIVENS = [
    "Write `grads_by_name(tensors, loss)`.",
    "`loss` is a scalar.",
]

SURVIVORS = {
    "`.grad` put back as a copy": "the contract says what a `.grad` holds, not in which tensor",
    "under no_grad": "`backward()` works in any mode",
    "not for all: handles = [t.register_hook(lambda grad, name=name: keep(grad, name)) "
    "for name, t in _part(tensors.items(), step=-1)]": "all of them, in the reverse order",
    "lost return: handles = ": "a hook that watches returns nothing",
    "one global slot: handles": "the handles of earlier calls are removed once more, which does nothing",
    "not for all: for name, t in _part(tensors.items(), step=-1)": "all of them, in the reverse order",
    "not for all: for name in _part(tensors, step=-1)": "all of them, in the reverse order",
    "not for all: handles = [t.register_hook(Keep(name)) "
    "for name, t in _part(tensors.items(), step=-1)]": "all of them, in the reverse order",
    "not for all: return {name: grads[name] for name in _part(sorted(grads), step=-1)}": "a dict in any order",
    "lost copy: return {name: grads[name] for name in _not_copied(grads)}": "a dict in any order",
    "not for all: [handle.remove() for handle in _part(handles.values(), step=-1)]": "all of them, in reverse",
}
