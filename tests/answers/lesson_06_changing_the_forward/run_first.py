"""Answers to 06-run-first."""

from graders.author.answers import Wrong

RIGHT = [
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
class Handle:
    def __init__(self, inner):
        self.inner = inner
    def remove(self):
        self.inner.remove()

def run_first(module, hook):
    return Handle(module.register_forward_hook(hook, prepend=True))
""",
]

WRONG = [
    Wrong(
        "silent inside a call of the hook",
        violates="`hook` is called once in each call",
        check="test_it_is_called_as_any_forward_hook_and_once",
        source="""
def run_first(module, hook):
    running = []
    def first(module, args, output):
        if not running:
            running.append(True)
            try:
                return hook(module, args, output)
            finally:
                running.clear()
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "silent once the hook has raised",
        violates="in every call from now on",
        check="test_what_it_returns_or_raises_counts_as_with_any_forward_hook",
        source="""
def run_first(module, hook):
    running = []
    def first(module, args, output):
        if not running:
            running.append(True)
            result = hook(module, args, output)
            running.clear()
            return result
    return module.register_forward_hook(first, prepend=True)
""",
    ),
    Wrong(
        "`remove()` takes what is first",
        violates="its handle removes that hook alone",
        check="test_each_handle_removes_its_own_hook",
        source="""
class Handle:
    def __init__(self, hooks):
        self.hooks = hooks
    def remove(self):
        if self.hooks:
            self.hooks.popitem(last=False)

def run_first(module, hook):
    module.register_forward_hook(hook, prepend=True)
    return Handle(module._forward_hooks)
""",
    ),
]

SURVIVORS = {
    "prepend=True: handle = ": "it is put in front with the next line",
}
