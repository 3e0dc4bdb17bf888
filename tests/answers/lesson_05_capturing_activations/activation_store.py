"""Answers to 05-activation-store."""

from graders.author.answers import Wrong, changed

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

WRONG = [
    Wrong(
        "takes off the latest hooks, whoever registered them",
        violates="Outside the block the model has none of the store's hooks",
        check="test_nothing_is_recorded_outside_a_block",
        source=changed(
            STORE,
            (
                "        for handle in self.handles:\n            handle.remove()\n",
                "        for n in self.names:\n            self.model.get_submodule(n)._forward_hooks.popitem()\n",
            ),
        ),
    ),
    Wrong(
        "hands on the copies",
        violates="The model goes on as without it",
        check="test_the_model_goes_on_as_it_does_without_the_store",
        source=changed(
            STORE,
            (
                "self.data[name].append(output.detach().clone())",
                (
                    "output = output.detach().clone()\n                self.data[name].append(output)\n"
                    "                return output.clone()"
                ),
            ),
        ),
    ),
]

SURVIVORS = {
    "lost statement: without self.handles.clear()": "to remove a hook twice does nothing",
    "lost statement: without super().__enter__()": "that of an `ExitStack` returns it and does nothing else",
    "lost copy: self.model, self.names": "nobody changes the list later",
    "values that lose digits": "a store is given no tensor",
}
