"""Answers to 06-run-first."""

RIGHT = [
    """
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True)
""",
    """
def run_first(module, hook):
    def first(module, args, kwargs, output):
        return hook(module, args, output)
    return module.register_forward_hook(first, prepend=True, with_kwargs=True)
""",
    """
def run_first(module, hook):
    handle = module.register_forward_hook(lambda *given: hook(*given))
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
    """
def run_first(module, hook):
    handle = module.register_forward_hook(hook)
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
    """
def run_first(module, hook):
    handle = module.register_forward_hook(hook)
    module._forward_hooks.move_to_end(handle.id, last=False)
    return handle
""",
]

WRONG = {
    "registration-order": """
def run_first(module, hook):
    return module.register_forward_hook(hook)
""",
    "removed-others": """
def run_first(module, hook):
    module._forward_hooks.clear()
    return module.register_forward_hook(hook)
""",
    "wrong-hook-kind": """
def run_first(module, hook):
    return module.register_forward_pre_hook(hook, prepend=True)
""",
    "forgot-return": """
def run_first(module, hook):
    def first(module, args, output):
        hook(module, args, output)
    return module.register_forward_hook(first, prepend=True)
""",
    "no-handle": """
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
""",
}

ALSO_WRONG = [
    "def run_first(module, hook):\n    pass",
    # only before the first hook that was there, then in the old place
    """
def run_first(module, hook):
    others = list(module._forward_hooks.values())
    module._forward_hooks.clear()
    handle = module.register_forward_hook(hook)
    for other in others:
        module.register_forward_hook(other)
    return handle
""",
    # always last
    """
def run_first(module, hook):
    return module.register_forward_hook(hook, always_call=True)
""",
    # a hook that expects keywords
    """
def run_first(module, hook):
    return module.register_forward_hook(hook, prepend=True, with_kwargs=True)
""",
    # calls the hook once, now
    """
import torch
def run_first(module, hook):
    hook(module, (), torch.zeros(1))
    return module.register_forward_hook(hook, prepend=True)
""",
    # twice
    """
def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    return module.register_forward_hook(hook, prepend=True)
""",
    # Packs the arguments once more.
    """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, (a,), o), prepend=True)
""",
    # Detaches what the hook returns.
    """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, a, o).detach(), prepend=True)
""",
    """
import torch

def run_first(module, hook):
    def wrapped(m, a, o):
        r = hook(m, a, o)
        return r if torch.is_tensor(r) else o

    return module.register_forward_hook(wrapped, prepend=True)
""",
    """
def run_first(module, hook):
    return module.register_forward_hook(lambda m, a, o: hook(m, a, o) or None, prepend=True)
""",
    """
def run_first(module, hook):
    def w(m, a, o):
        try:
            return hook(m, a, o)
        except Exception:
            return None

    return module.register_forward_hook(w, prepend=True)
""",
    """
def run_first(module, hook):
    hs = [m.register_forward_hook(hook, prepend=True) for m in module.modules()]
    return hs[0]
""",
]
