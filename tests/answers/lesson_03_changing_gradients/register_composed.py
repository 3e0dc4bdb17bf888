"""Answers to 03-register-composed."""

RIGHT = [
    """
def register_composed(t, fs):
    return [t.register_hook(f) for f in reversed(fs)]
""",
    """
def register_composed(t, fs):
    def hook(grad):
        for f in fs[::-1]:
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
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
    return (t.register_hook(lambda grad: walk(grad, list(fs))),)
""",
    """
def register_composed(t, fs):
    if not fs:
        return []
    inner = register_composed(t, fs[1:])
    return inner + [t.register_hook(fs[0])]
""",
]

WRONG = {
    "registration-order": """
def register_composed(t, fs):
    return [t.register_hook(f) for f in fs]
""",
    "only-one-hook": """
def register_composed(t, fs):
    return [t.register_hook(fs[0])]
""",
    "not-chained": """
def register_composed(t, fs):
    return [t.register_hook(lambda grad: sum(f(grad) for f in reversed(fs)))]
""",
    "late-binding": """
def register_composed(t, fs):
    handles = []
    for f in reversed(fs):
        handles.append(t.register_hook(lambda grad: f(grad)))
    return handles
""",
    "forgot-return": """
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
    return [t.register_hook(hook)]
""",
}

ALSO_WRONG = [
    "def register_composed(t, fs):\n    return []",
    # One handle instead of a list.
    """
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            grad = f(grad)
        return grad
    return t.register_hook(hook)
""",
    # Only the last handle.
    """
def register_composed(t, fs):
    for f in reversed(fs):
        handle = t.register_hook(f)
    return [handle]
""",
    # Reverses the caller's list.
    """
def register_composed(t, fs):
    fs.reverse()
    return [t.register_hook(f) for f in fs]
""",
    # Tries the functions out.
    """
import torch
def register_composed(t, fs):
    for f in fs:
        assert isinstance(f(torch.zeros_like(t)), torch.Tensor)
    return [t.register_hook(f) for f in reversed(fs)]
""",
    # Calls everything twice.
    """
def register_composed(t, fs):
    def hook(grad):
        result = grad
        for f in reversed(fs):
            f(result)
            result = f(result)
        return result
    return [t.register_hook(hook)]
""",
    # The innermost function only.
    """
def register_composed(t, fs):
    return [t.register_hook(fs[-1])]
""",
    # The functions are global: a second call changes those of the first.
    """
functions = []

def register_composed(t, fs):
    functions[:] = fs
    def hook(grad):
        for f in reversed(functions):
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
    # Only for three functions.
    """
def register_composed(t, fs):
    f, g, h = fs
    return [t.register_hook(lambda grad: f(g(h(grad))))]
""",
]
