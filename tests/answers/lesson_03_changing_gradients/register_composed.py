"""Answers to 03-register-composed."""

from graders.author.answers import Wrong

ONE_HOOK = """
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
"""


def one_hook(right: str, wrong: str) -> str:
    """The right answer with one part replaced."""
    assert ONE_HOOK.count(right) == 1, right
    return ONE_HOOK.replace(right, wrong)


RIGHT = [
    """
def register_composed(t, fs):
    return [t.register_hook(f) for f in reversed(fs)]
""",
    ONE_HOOK,
    """
import functools

def register_composed(t, fs):
    composed = functools.reduce(lambda outer, inner: lambda g: outer(inner(g)), fs)
    return [t.register_hook(composed)]
""",
    """
def register_composed(t, fs):
    handles = []
    for i in range(len(fs) - 1, -1, -1):
        handles.append(t.register_hook(lambda grad, f=fs[i]: f(grad)))
    return handles
""",
    """
def register_composed(t, fs):
    def walk(grad, rest):
        return rest[0](walk(grad, rest[1:])) if rest else grad
    return [t.register_hook(lambda grad: walk(grad, list(fs)))]
""",
    """
def register_composed(t, fs):
    if not fs:
        return []
    inner = register_composed(t, fs[1:])
    return inner + [t.register_hook(fs[0])]
""",
    """
class Composed:
    def __init__(self, fs):
        self.fs = tuple(fs)
    def __call__(self, grad):
        *rest, first = self.fs
        grad = first(grad.clone())
        while rest:
            grad = rest.pop()(grad)
        return grad

def register_composed(t, fs):
    return [t.register_hook(Composed(fs))]
""",
]

WRONG = [
    Wrong(
        "no call for a gradient without entries",
        violates="Each entry of the list is called exactly once for each pass",
        check="test_each_function_is_called_once_for_each_pass",
        source="""
def register_composed(t, fs):
    def hook(grad):
        if grad.numel():
            for f in reversed(fs):
                grad = f(grad)
            return grad
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "registers the functions in the order of the list",
        violates="the last function of the list is applied first",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="registration-order",
        source="""
def register_composed(t, fs):
    return [t.register_hook(f) for f in fs]
""",
    ),
    Wrong(
        "the outermost function only",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="only-one-hook",
        source="""
def register_composed(t, fs):
    return [t.register_hook(fs[0])]
""",
    ),
    Wrong(
        "the innermost function only",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="only-one-hook",
        source="""
def register_composed(t, fs):
    return [t.register_hook(fs[-1])]
""",
    ),
    Wrong(
        "adds up the results",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="not-chained",
        source="""
def register_composed(t, fs):
    return [t.register_hook(lambda grad: sum(f(grad) for f in reversed(fs)))]
""",
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="late-binding",
        source="""
def register_composed(t, fs):
    handles = []
    for f in reversed(fs):
        handles.append(t.register_hook(lambda grad: f(grad)))
    return handles
""",
    ),
    Wrong(
        "the hook returns nothing",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        mistake="forgot-return",
        source=one_hook("return grad", "pass"),
    ),
    Wrong(
        "writes the result into the gradient",
        violates="rule 3: not on the gradient of a neighbour",
        check="raised",
        mistake="in-place-leak",
        source=one_hook("def hook(grad):", "def hook(g):\n        grad = g").replace("return grad", "g.copy_(grad)"),
    ),
    Wrong(
        "writes the result into the gradient, where torch lets it",
        violates="rule 3: not on a tensor that the caller hands to `backward(gradient=...)`",
        check="test_nothing_else_changes",
        source=one_hook("def hook(grad):", "def hook(g):\n        grad = g").replace(
            "return grad", "return grad if 0 in g.stride() or g.requires_grad else g.copy_(grad)"
        ),
    ),
    Wrong(
        "reverses the caller's list",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        mistake="changed-the-list",
        source="""
def register_composed(t, fs):
    fs.reverse()
    return [t.register_hook(f) for f in fs]
""",
    ),
    Wrong(
        "empties the caller's list",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_else_changes",
        mistake="changed-the-list",
        source="""
def register_composed(t, fs):
    handles = []
    while fs:
        handles.append(t.register_hook(fs.pop()))
    return handles
""",
    ),
    Wrong(
        "does nothing",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source="def register_composed(t, fs):\n    return []",
    ),
    Wrong(
        "one handle instead of a list",
        violates="Return a list of all handles, one or more.",
        check="test_the_handles_remove_all_hooks_and_no_other",
        source=one_hook("[t.register_hook(hook)]", "t.register_hook(hook)"),
    ),
    Wrong(
        "the last handle only",
        violates="When `remove()` was called on all of them, gradients pass as they are.",
        check="test_the_handles_remove_all_hooks_and_no_other",
        mistake="a-handle-is-missing",
        source="""
def register_composed(t, fs):
    for f in reversed(fs):
        handle = t.register_hook(f)
    return [handle]
""",
    ),
    Wrong(
        "a handle that removes every hook",
        violates="rule 3: it removes exactly the hook that it stands for",
        check="test_the_handles_remove_all_hooks_and_no_other",
        source="""
class Handle:
    def __init__(self, t):
        self.t = t
    def remove(self):
        self.t._backward_hooks.clear()

def register_composed(t, fs):
    for f in reversed(fs):
        t.register_hook(f)
    return [Handle(t)]
""",
    ),
    Wrong(
        "tries the functions out",
        violates="and never before the first",
        check="test_each_function_is_called_once_for_each_pass",
        source="""
import torch

def register_composed(t, fs):
    for f in fs:
        assert isinstance(f(torch.zeros_like(t)), torch.Tensor)
    return [t.register_hook(f) for f in reversed(fs)]
""",
    ),
    Wrong(
        "calls everything twice",
        violates="is called exactly once for each pass",
        check="test_each_function_is_called_once_for_each_pass",
        source=one_hook("grad = f(grad)", "f(grad)\n            grad = f(grad)"),
    ),
    Wrong(
        "a function that stands in the list twice counts once",
        violates="the same function may stand in it twice",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source=one_hook("reversed(fs)", "reversed(list(dict.fromkeys(fs)))"),
    ),
    Wrong(
        "the first pass only",
        violates="From now on, in every backward pass that reaches `t`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source=one_hook("return grad", "handle.remove()\n        return grad").replace(
            "return [t.register_hook(hook)]", "handle = t.register_hook(hook)\n    return [handle]"
        ),
    ),
    Wrong(
        "all functions are global: a second call changes those of the first",
        violates="rule 1: on one object or on several at the same time",
        check="test_each_call_has_functions_of_its_own",
        source="functions = []\n"
        + one_hook("reversed(fs)", "reversed(functions)").replace(
            "    def hook", "    functions[:] = fs\n    def hook", 1
        ),
    ),
    Wrong(
        "a second call replaces the first",
        violates="rule 1: It works however often it is called",
        check="test_each_call_has_functions_of_its_own",
        source="hooks = {}\n"
        + ONE_HOOK.replace(
            "    return [t.register_hook(hook)]",
            "    if id(t) in hooks:\n        hooks[id(t)].remove()\n"
            "    hooks[id(t)] = t.register_hook(hook)\n    return [hooks[id(t)]]",
        ),
    ),
    Wrong(
        "for three functions only",
        violates="`fs` is a list of one or more functions",
        check="raised",
        source="""
def register_composed(t, fs):
    f, g, h = fs
    return [t.register_hook(lambda grad: f(g(h(grad))))]
""",
    ),
    Wrong(
        "by way of float32",
        violates="each from a tensor to a new tensor of the same shape and dtype",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source=one_hook("for f in", "kept, grad = grad.dtype, grad.float()\n        for f in").replace(
            "return grad", "return grad.to(kept)"
        ),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=one_hook("for f in", "shape, grad = grad.shape, grad.view(-1)\n        for f in").replace(
            "return grad", "return grad.view(shape)"
        ),
    ),
    Wrong(
        "what goes on has no graph",
        violates="rule 5: then gradients can be differentiated again",
        check="test_the_gradient_can_be_differentiated_again",
        source=one_hook("return grad", "return grad.detach()"),
    ),
    Wrong(
        "does nothing under `create_graph=True`",
        violates="rule 5: `backward(create_graph=True)`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source="import torch\n"
        + one_hook("for f in", "if torch.is_grad_enabled():\n            return\n        for f in"),
    ),
    Wrong(
        "swallows the error of a function",
        violates="rule 4: Errors come through.",
        check="test_an_error_of_a_function_comes_through",
        source=one_hook(
            "grad = f(grad)",
            "try:\n                grad = f(grad)\n            except Exception:\n                pass",
        ),
    ),
    Wrong(
        "takes the pass after an aborted one for the same pass",
        violates="rule 5: a good pass after one that an exception has stopped",
        check="test_an_error_of_a_function_comes_through",
        source="""
def register_composed(t, fs):
    busy = []
    def hook(grad):
        if busy:
            return None
        busy.append(True)
        for f in reversed(fs):
            grad = f(grad)
        busy.clear()
        return grad
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="as the hooks that were on `t` before have left it",
        check="test_nothing_else_changes",
        source=one_hook("    def hook", "    t._backward_hooks = None\n    def hook"),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: What you were given stays as it was.",
        check="test_nothing_else_changes",
        source=one_hook("    def hook", "    t.grad = None\n    def hook"),
    ),
    Wrong(
        "asks for `.grad` of a tensor of the caller",
        violates="rule 3: they act on what you were given and on nothing else",
        check="test_nothing_else_changes",
        source=one_hook("    def hook", "    t.retain_grad()\n    def hook"),
    ),
    Wrong(
        "switches autograd on and leaves it so",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source="import torch\n" + one_hook("    def hook", "    torch.set_grad_enabled(True)\n    def hook"),
    ),
    Wrong(
        "lets a gradient of zeros pass",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_the_functions_are_applied_from_the_last_to_the_first",
        source=one_hook("for f in", "if not grad.any():\n            return None\n        for f in"),
    ),
    Wrong(
        "applies them behind all hooks of the tensor",
        violates="as the hooks that were on `t` before have left it",
        check="test_any_tensor_changes_before_the_hooks_that_came_later",
        source="""
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
        return grad
    def at_the_operation(grads):
        return tuple(hook(grad) if index == t.output_nr else grad for index, grad in enumerate(grads))
    return [t.register_hook(hook) if t.is_leaf else t.grad_fn.register_prehook(at_the_operation)]
""",
    ),
    Wrong(
        "hands a function as much as it takes",
        violates="is replaced by `fs[0](fs[1](...fs[-1](g)))`",
        check="test_each_call_has_functions_of_its_own",
        source="""
import inspect

def register_composed(t, fs):
    def handed(f):
        count = len(inspect.signature(f).parameters)
        return t.register_hook(lambda grad: f(*(grad, t, None)[:count]))
    return [handed(f) for f in reversed(fs)]
""",
    ),
    Wrong(
        "the handles in a tuple",
        violates="Return a list of all handles",
        check="test_the_handles_remove_all_hooks_and_no_other",
        source="""
def register_composed(t, fs):
    return tuple(t.register_hook(f) for f in reversed(fs))
""",
    ),
    Wrong(
        "leaves the search for anomalies on when a function raises",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_an_error_of_a_function_comes_through",
        source="""
import torch

def register_composed(t, fs):
    def hook(grad):
        before = torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(True)
        for f in reversed(fs):
            grad = f(grad)
        torch.autograd.set_detect_anomaly(before)
        return grad
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "remembers the result for a gradient that comes again",
        violates="Each entry of the list is called exactly once for each pass",
        check="test_each_function_is_called_once_for_each_pass",
        source="""
def register_composed(t, fs):
    known = []
    def hook(grad):
        for before, result in known:
            if before is grad:
                return result
        result = grad
        for f in reversed(fs):
            result = f(result)
        known.append((grad, result))
        return result
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "one hook for each list",
        violates="rule 1: on one object or on several at the same time",
        check="test_any_tensor_changes_before_the_hooks_that_came_later",
        source="""
handles = {}

def register_composed(t, fs):
    if id(fs) not in handles:
        handles[id(fs)] = [t.register_hook(f) for f in reversed(fs)]
    return handles[id(fs)]
""",
    ),
]

GIVENS = [
    "Write `register_composed(t, fs)`.",
    "`t` is a tensor that requires grad, leaf or not.",
]

SURVIVORS = {
    "a list for a tuple": "the list is only read",
    "no empty collection": "the list has one function or more",
    "under no_grad": "to register a hook makes no graph",
    "lost copy": "nobody changes the list after the call, and a function makes a new tensor",
}
