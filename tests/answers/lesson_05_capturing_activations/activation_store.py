"""Answers to 05-activation-store."""

STORE = """
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names, self.handles = model, list(names), []
        self.data = {name: [] for name in names}

    def __enter__(self):
        for name in self.names:
            def hook(module, args, output, name=name):
                self.data[name].append(output.detach().clone())
            self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))
        return self

    def __exit__(self, kind, value, trace):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def clear(self):
        self.data = {name: [] for name in self.names}
"""


def changed(old: str, new: str) -> str:
    """The right store with one part replaced."""
    assert STORE.count(old) == 1
    return STORE.replace(old, new)


RIGHT = [
    """
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names = model, list(names)
        self.data = {name: [] for name in names}
        self.handles = []

    def __enter__(self):
        for name in self.names:
            def hook(module, args, output, name=name):
                self.data[name].append(output.detach().clone())
            self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))
        return self

    def __exit__(self, *exception):
        while self.handles:
            self.handles.pop().remove()

    def clear(self):
        for entries in self.data.values():
            entries.clear()
""",
    """
from collections import defaultdict
from contextlib import ExitStack
from functools import partial

class ActivationStore:
    def __init__(self, model, names):
        self.modules = {name: model.get_submodule(name) for name in names}
        self.clear()

    def clear(self):
        self.data = defaultdict(list)

    def _keep(self, name, module, args, output):
        self.data[name].append(output.detach().clone())

    def __enter__(self):
        self._stack = ExitStack()
        for name, module in self.modules.items():
            self._stack.enter_context(module.register_forward_hook(partial(self._keep, name)))
        return self

    def __exit__(self, kind, value, trace):
        self._stack.close()
        return False
""",
    """
from contextlib import AbstractContextManager
from torch.nn.modules.module import register_module_forward_hook

class ActivationStore(AbstractContextManager):
    def __init__(self, model, names):
        self._names = {model.get_submodule(name): name for name in names}
        self._events = []
        self._handle = None

    @property
    def data(self):
        found = {}
        for name, value in self._events:
            found.setdefault(name, []).append(value)
        return found

    def clear(self):
        self._events = []

    def _hook(self, module, args, output):
        if module in self._names:
            self._events.append((self._names[module], output.detach().clone()))

    def __enter__(self):
        self._handle = register_module_forward_hook(self._hook)
        return self

    def __exit__(self, *details):
        self._handle.remove()
""",
    """
import contextlib

class ActivationStore(contextlib.ContextDecorator):
    def __init__(self, model, names):
        self.model = model
        self.names = names
        self.data = {}

    def clear(self):
        self.data.clear()

    @contextlib.contextmanager
    def recording(self):
        handles = []
        def make(name):
            return lambda m, a, o: self.data.setdefault(name, []).append(o.detach().clone())
        try:
            for name in self.names:
                handles.append(self.model.get_submodule(name).register_forward_hook(make(name)))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __enter__(self):
        self._inner = self.recording()
        self._inner.__enter__()
        return self

    def __exit__(self, *details):
        return self._inner.__exit__(*details)
""",
    """
import contextlib
from collections import defaultdict

class ActivationStore(contextlib.ExitStack):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names, self.data = model, names, defaultdict(list)
    def clear(self): self.data.clear()
    def __enter__(self):
        super().__enter__()
        for n in self.names:
            hook = lambda m, a, o, n=n: self.data[n].append(o.detach().clone())
            self.enter_context(self.model.get_submodule(n).register_forward_hook(hook))
        return self
""",
    """
from torch import nn

class ActivationStore:
    def __init__(self, model, names):
        self.lookup = {}
        for n in names: self.lookup.setdefault(model.get_submodule(n), []).append(n)
        self._d = {n: [] for n in names}
    @property
    def data(self): return self._d
    def clear(self): self._d = {n: [] for n in self._d}
    def __call__(self, m, a, o):
        for n in self.lookup.get(m, ()): self._d[n].append(o.detach().clone())
    def __enter__(self):
        self.h = nn.modules.module.register_module_forward_hook(self)
        return self
    def __exit__(self, *e): self.h.remove()
""",
    """
from contextlib import ExitStack

class ActivationStore(ExitStack):
    def __init__(self, model, names):
        super().__init__()
        self.modules = {name: model.get_submodule(name) for name in names}
        self.clear()

    def clear(self):
        self.data = {name: [] for name in self.modules}

    def __enter__(self):
        for name, module in self.modules.items():
            def hook(module, args, output, name=name):
                self.data[name].append(output.clone().detach())
            self.enter_context(module.register_forward_hook(hook))
        return self
""",
]

WRONG = {
    "registered-too-early": """
class ActivationStore:
    def __init__(self, model, names):
        self.data = {name: [] for name in names}
        self.handles = []
        for name in names:
            def hook(module, args, output, name=name):
                self.data[name].append(output.detach().clone())
            self.handles.append(model.get_submodule(name).register_forward_hook(hook))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for handle in self.handles:
            handle.remove()

    def clear(self):
        for entries in self.data.values():
            entries.clear()
""",
    "hook-left-behind": changed(
        """        for handle in self.handles:
            handle.remove()
        self.handles.clear()
""",
        "        pass\n",
    ),
    "hook-left-after-exception": changed(
        "        for handle in self.handles:\n",
        "        if kind is not None:\n            return\n        for handle in self.handles:\n",
    ),
    "only-last-call": changed(
        "self.data[name].append(output.detach().clone())", "self.data[name] = [output.detach().clone()]"
    ),
    "clear-does-nothing": changed(
        "        self.data = {name: [] for name in self.names}\n",
        "        data = self.data\n        data = {name: [] for name in self.names}\n",
    ),
    "late-binding": changed("def hook(module, args, output, name=name)", "def hook(module, args, output)"),
    "stored-alias": changed("output.detach().clone()", "output.detach()"),
    "swallowed-exception": changed(
        "        self.handles.clear()\n", "        self.handles.clear()\n        return True\n"
    ),
    "reset-on-entry": changed("    def __enter__(self):\n", "    def __enter__(self):\n        self.clear()\n"),
    "cut-the-graph": changed(
        "                self.data[name].append(output.detach().clone())\n",
        """                output = output.detach().clone()
                self.data[name].append(output)
                return output.clone()
""",
    ),
}

ALSO_WRONG = [
    "class ActivationStore:\n    def __init__(self, model, names):\n        self.data = {}",
    changed("        return self\n", ""),
    changed("self.data[name].append(output.detach().clone())", "self.data[name].append(output.clone())"),
    changed("self.data[name].append(output.detach().clone())", "self.data[name].append(args[0].detach().clone())"),
    changed("        self.handles.clear()\n", "        self.data.clear()\n"),
    changed("        self.handles.clear()\n", "        return True\n"),
    changed(
        "    def __enter__(self):\n        for name in self.names:\n",
        """    def __enter__(self):
        lists = dict(self.data)
        for name in self.names:
""",
    ).replace("self.data[name].append", "lists[name].append"),
    changed("        for handle in self.handles:\n            handle.remove()\n", "").replace(
        "        self.handles.clear()\n",
        "        for name in self.names:\n            self.model.get_submodule(name)._forward_hooks.clear()\n",
    ),
    changed("        self.data = {name: [] for name in names}\n", "        self.data = []\n").replace(
        "self.data[name].append(", "self.data.append("
    ),
    """
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names, self.hs = model, names, []
        self.data = {n: [] for n in names}
    def reg(self):
        for n in self.names:
            def hook(m, a, o, n=n):
                self.data[n].append(o.detach().clone())
            self.hs.append(self.model.get_submodule(n).register_forward_hook(hook))
    def clear(self):
        self.data = {n: [] for n in self.names}
    def __enter__(self):
        self.reg()
        return self
    def __exit__(self, *exc):
        [h.remove() for h in self.hs]; self.hs = []; exc[0] and self.clear()
        return None
""",
    """
class ActivationStore:
    store = {}
    def __init__(self, model, names):
        self.model, self.names, self.hs = model, names, []
        self.data = self.store
        for n in names: self.data.setdefault(n, [])
    def clear(self):
        for v in self.data.values(): v.clear()
    def __enter__(self):
        for n in self.names:
            hook = lambda m, a, o, n=n: self.data[n].append(o.detach().clone())
            self.hs.append(self.model.get_submodule(n).register_forward_hook(hook))
        return self
    def __exit__(self, *e):
        for h in self.hs: h.remove()
""",
    # Switches the model to eval mode.
    """
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names, self.data = model, names, {name: [] for name in names}

    def __enter__(self):
        self.model.eval()
        def keep(name):
            return lambda module, args, output: self.data[name].append(output.detach().clone())
        self.handles = [self.model.get_submodule(name).register_forward_hook(keep(name)) for name in self.names]
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()

    def clear(self):
        for entries in self.data.values():
            entries.clear()
""",
]
