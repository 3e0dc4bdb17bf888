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
    """
import dataclasses

@dataclasses.dataclass
class ActivationStore:
    model: object
    names: list
    data: dict = dataclasses.field(default_factory=dict)
    handles: list = dataclasses.field(default_factory=list)

    def keep(self, name):
        def hook(module, args, output):
            self.data[name] = [*self.data.get(name, []), output.clone().detach()]
        return hook

    def __enter__(self):
        self.handles += [self.model.get_submodule(n).register_forward_hook(self.keep(n)) for n in self.names]
        return self

    def __exit__(self, kind, error, traceback):
        while self.handles:
            self.handles.pop().remove()

    def clear(self):
        self.data = {}
""",
    """
from torch import nn

class ActivationStore(nn.Module):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names, self.data, self.handles = model, tuple(names), {}, []

    def __enter__(self):
        for name in self.names:
            self.handles.append(self.model.get_submodule(name).register_forward_hook(
                lambda m, a, o, name=name: self.data.setdefault(name, []).append(o.detach().clone())))
        return self

    def __exit__(self, *error):
        [handle.remove() for handle in self.handles]

    def clear(self):
        self.data.clear()
""",
]

WRONG = [
    Wrong(
        "one copy for all names of a module",
        violates="Two names of one module have copies of their own.",
        check="test_each_is_a_copy_of_its_own_shape_and_dtype",
        source="""
class ActivationStore:
    def __init__(self, model, names):
        self.data, self.names = {name: [] for name in names}, {}
        for name in names:
            self.names.setdefault(model.get_submodule(name), []).append(name)

    def keep(self, module, args, output):
        copy = output.detach().clone()
        for name in self.names[module]:
            self.data[name].append(copy)

    def __enter__(self):
        self.handles = [module.register_forward_hook(self.keep) for module in self.names]
        return self

    def __exit__(self, *details):
        for handle in self.handles:
            handle.remove()

    def clear(self):
        for entries in self.data.values():
            entries.clear()
""",
    ),
    Wrong(
        "registers in `__init__`",
        violates="Outside the block, the model carries no hook of the store.",
        check="test_nothing_is_recorded_outside_a_block",
        mistake="registered-too-early",
        source="""
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
    ),
    Wrong(
        "removes no hook",
        violates="Outside the block, the model carries no hook of the store.",
        check="test_nothing_is_recorded_outside_a_block",
        mistake="hook-left-behind",
        source="""
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
        pass

    def clear(self):
        self.data = {name: [] for name in self.names}
""",
    ),
    Wrong(
        "removes the hooks only when all went well",
        violates="That holds after an exception, too",
        check="test_it_holds_when_the_block_raises",
        mistake="hook-left-after-exception",
        source=changed(
            STORE,
            (
                "for handle in self.handles:",
                "if kind is not None:\n            return\n        for handle in self.handles:",
            ),
        ),
    ),
    Wrong(
        "keeps the last call",
        violates="one for each call of the module, in the order of the calls",
        check="test_every_call_in_the_block_is_recorded",
        mistake="only-last-call",
        source=changed(STORE, (".append(output.detach().clone())", " = [output.detach().clone()]")),
    ),
    Wrong(
        "`clear` binds a local name",
        violates="`store.clear()` empties the record",
        check="test_clear_empties_the_record",
        mistake="clear-does-nothing",
        source=changed(
            STORE,
            (
                "self.data = {name: [] for name in self.names}",
                "data = self.data\n        data = {name: [] for name in self.names}",
            ),
        ),
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="one for each call of the module, in the order of the calls",
        check="test_every_call_in_the_block_is_recorded",
        mistake="late-binding",
        source=changed(STORE, ("output, name=name)", "output)")),
    ),
    Wrong(
        "only detached",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_every_call_in_the_block_is_recorded",
        mistake="stored-alias",
        source=changed(STORE, (".clone())", ")")),
    ),
    Wrong(
        "returns `True` from `__exit__`",
        violates="the exception comes through",
        check="test_it_holds_when_the_block_raises",
        mistake="swallowed-exception",
        source=changed(STORE, ("self.handles.clear()", "self.handles.clear()\n        return True")),
    ),
    Wrong(
        "swallows a StopIteration of the block",
        violates="the exception comes through",
        check="test_it_holds_when_the_block_raises",
        mistake="swallowed-exception",
        source=changed(STORE, ("self.handles.clear()", "self.handles.clear()\n        return kind is StopIteration")),
    ),
    Wrong(
        "begins anew in each block",
        violates="a second block adds to it",
        check="test_a_second_block_adds_to_the_record",
        mistake="reset-on-entry",
        source=changed(STORE, ("for name in self.names:", "self.clear()\n        for name in self.names:")),
    ),
    Wrong(
        "switches grad mode off",
        violates="the caller can run `backward()` on what it returns",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="cut-the-graph",
        source="""
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names, self.handles = model, list(names), []
        self.data = {name: [] for name in names}

    def __enter__(self):
        import torch
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        for name in self.names:
            def hook(module, args, output, name=name):
                self.data[name].append(output.detach().clone())
            self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))
        return self

    def __exit__(self, kind, value, trace):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        import torch
        torch.set_grad_enabled(self.before)

    def clear(self):
        self.data = {name: [] for name in self.names}
""",
    ),
    Wrong(
        "writes nothing",
        violates="one for each call of the module, in the order of the calls",
        check="raised",
        source="""
class ActivationStore:
    def __init__(self, model, names):
        self.data = {}
""",
    ),
    Wrong(
        "`__enter__` returns nothing",
        violates="`with store as s` gives `s is store`.",
        check="test_a_second_block_adds_to_the_record",
        source=changed(STORE, ("        return self\n", "")),
    ),
    Wrong(
        "keeps the graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_every_call_in_the_block_is_recorded",
        source=changed(STORE, ("output.detach().clone())", "output.clone())")),
    ),
    Wrong(
        "the inputs",
        violates="records the outputs of the modules `names`",
        check="raised",
        source=changed(STORE, ("output.detach().clone())", "args[0].detach().clone())")),
    ),
    Wrong(
        "forgets what was recorded when the block ends",
        violates="The record stays when a block ends",
        check="raised",
        source=changed(STORE, ("self.handles.clear()", "self.data.clear()")),
    ),
    Wrong(
        "writes into the lists from before `clear`",
        violates="Inside a block, recording goes on after it.",
        check="test_clear_empties_the_record",
        source=changed(
            STORE,
            ("for name in self.names:", "lists = dict(self.data)\n        for name in self.names:"),
            ("self.data[name", "lists[name"),
        ),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        source="""
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
        for name in self.names:
            self.model.get_submodule(name)._forward_hooks.clear()

    def clear(self):
        self.data = {name: [] for name in self.names}
""",
    ),
    Wrong(
        "a list",
        violates="`store.data` is a dict from names to lists of tensors",
        check="raised",
        source=changed(
            STORE,
            ("{name: [] for name in names}", "[]"),
            ("self.data[name].append(output.detach().clone())", "self.data.append(output.detach().clone())"),
        ),
    ),
    Wrong(
        "forgets everything when the block raises",
        violates="The record stays when a block ends",
        check="test_it_holds_when_the_block_raises",
        source="""
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
    ),
    Wrong(
        "one record for all stores",
        violates="rule 1: on one object or on several at the same time",
        check="test_every_call_in_the_block_is_recorded",
        source="""
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
    ),
    Wrong(
        "switches to eval mode",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        mistake="changed-the-mode",
        source="""
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
    ),
    Wrong(
        "hands on the copies",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
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
    Wrong(
        "hands on a clone with its graph",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            STORE,
            (
                "self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))",
                (
                    "    return output.clone()\n"
                    "            self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))"
                ),
            ),
        ),
    ),
    Wrong(
        "hands on the list",
        violates="The model goes on with the outputs themselves",
        check="raised",
        mistake="returned-a-list",
        source=changed(STORE, ("self.data[name", "return self.data[name] or self.data[name")),
    ),
    Wrong(
        "hooks before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_every_call_in_the_block_is_recorded",
        mistake="before-the-callers-hook",
        source=changed(STORE, ("hook))", "hook, prepend=True))")),
    ),
    Wrong(
        "one name for each module",
        violates="Two of them may belong to one module",
        check="test_every_call_in_the_block_is_recorded",
        mistake="one-name-for-each-module",
        source=changed(STORE, ("self.names:", "{self.model.get_submodule(one): one for one in self.names}.values():")),
    ),
    Wrong(
        "knows first names only",
        violates="that `model.get_submodule` knows",
        check="raised",
        source=changed(
            STORE,
            (
                "self.model.get_submodule(name).register_forward_hook(hook))",
                "dict(self.model.named_modules())[name].register_forward_hook(hook))",
            ),
        ),
    ),
    Wrong(
        "knows submodules only",
        violates='`""` is the model itself',
        check="raised",
        source=changed(
            STORE,
            (
                "for name in self.names:",
                (
                    "found = dict(self.model.named_modules(remove_duplicate=False))\n        del found['']\n"
                    "        for name in self.names:"
                ),
            ),
            ("self.model.get_submodule(name).register_forward_hook(hook))", "found[name].register_forward_hook(hook))"),
        ),
    ),
    Wrong(
        "counts calls with equal outputs once",
        violates="one for each call of the module, in the order of the calls",
        check="test_the_example_comes_out",
        source=changed(
            STORE,
            (
                "self.data[name].append(output.detach().clone())",
                (
                    "if not any(o.equal(output) for o in self.data[name]):\n"
                    "                    self.data[name].append(output.detach().clone())"
                ),
            ),
        ),
    ),
    Wrong(
        "leaves out outputs that do not require grad",
        violates="one for each call of the module, in the order of the calls",
        check="test_every_call_in_the_block_is_recorded",
        source=changed(
            STORE,
            (
                "self.data[name].append(output.detach().clone())",
                "if output.requires_grad:\n                    self.data[name].append(output.detach().clone())",
            ),
        ),
    ),
    Wrong(
        "always float32",
        violates="Each entry has the values, the shape and the dtype of the output",
        check="test_every_call_in_the_block_is_recorded",
        source=changed(STORE, (".clone())", ".clone().float())")),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(STORE, ("for name in self.names:", "self.model.zero_grad()\n        for name in self.names:")),
    ),
    Wrong(
        "removes the last hook only",
        violates="Outside the block, the model carries no hook of the store.",
        check="test_nothing_is_recorded_outside_a_block",
        source=changed(STORE, ("self.handles:", "self.handles[-1:]:")),
    ),
    Wrong(
        "cleans up unless it is a `KeyboardInterrupt`",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_block_raises",
        source=changed(
            STORE,
            (
                "for handle in self.handles:",
                "if kind is KeyboardInterrupt:\n            return\n        for handle in self.handles:",
            ),
        ),
    ),
    Wrong(
        "`clear` removes the hooks",
        violates="Inside a block, recording goes on after it.",
        check="test_clear_empties_the_record",
        source=changed(
            STORE,
            (
                "self.data = {name: [] for name in self.names}",
                "self.data = {name: [] for name in self.names}\n        self.__exit__(None, None, None)",
            ),
        ),
    ),
    Wrong(
        "empties the list of names",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_of_the_caller_changes",
        source="""
class ActivationStore:
    def __init__(self, model, names):
        self.model, self.names, self.handles = model, [], []
        while names:
            self.names.append(names.pop())
        self.data = {name: [] for name in self.names}

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
""",
    ),
    Wrong(
        "without dimensions of size 1",
        violates="Each entry has the values, the shape and the dtype of the output",
        check="test_entries_have_the_shape_of_any_output",
        source=changed(STORE, ("output.detach().clone()", "output.detach().clone().squeeze(-1)")),
    ),
    Wrong(
        "puts back the hooks of the beginning",
        violates="rule 3: Hooks of others stay",
        check="test_hooks_that_the_caller_changes_in_the_block_stay_so",
        source=changed(
            STORE,
            (
                "        for name in self.names:\n            def hook",
                "        modules = [self.model.get_submodule(name) for name in self.names]\n"
                "        self.before = {module: dict(module._forward_hooks) for module in modules}\n"
                "        for name in self.names:\n            def hook",
            ),
            (
                "        self.handles.clear()",
                "        self.handles.clear()\n"
                "        for module, hooks in self.before.items():\n"
                "            module._forward_hooks.clear()\n"
                "            module._forward_hooks.update(hooks)",
            ),
        ),
    ),
    Wrong(
        "does not copy what a module hands on",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_each_is_a_copy_of_its_own_shape_and_dtype",
        source=changed(
            STORE,
            ("output.detach().clone()", "output.detach() if args and output is args[0] else output.detach().clone()"),
        ),
    ),
]

GIVENS = [
    "The outputs are `float32` or `float64` tensors.",
    "No block of a store stands inside another one of the same store.",
    "Write a class `ActivationStore(model, names)`.",
    "An instance is a context manager",
    "with store: model(x)",
    "A name whose module was not called",
    "(empty lists may stay)",
    "When a block ends, at the latest, the record is complete.",
]

SURVIVORS = {
    "under no_grad": "to build a store makes no graph",
    "not for all: for name in _part(self.names, step=-1)": "all of them, in the reverse order",
    "not for all: for n in _part(self.names, step=-1)": "as before",
    "not for all: self.handles += [self.model.get_submodule(n).register_forward_hook(self.keep(n)) "
    "for n in _part(self.names, step=-1)]": "as before",
    "not for all: [handle.remove() for handle in _part(self.handles, step=-1)]": "as before",
    "not for all: for entries in _part(self.data.values(), step=-1)": "as before",
    "not for all: for name, module in _part(self.modules.items(), step=-1)": "as before",
    "not for all: self.modules = {name: model.get_submodule(name) for name in _part(names, step=-1)}": "as before",
    "not for all: self.data = {name: [] for name in _part(self.names, step=-1)}": "the order of the keys is free",
    "not for all: self.data = {name: [] for name in _part(names, step=-1)}": "as before",
    "not for all: self.data = {name: [] for name in _part(self.modules, step=-1)}": "as before",
    "lost statement: without self.handles.clear()": "to remove a hook twice does nothing",
    "lost statement: without super().__enter__()": "that of an `ExitStack` returns it and does nothing else",
    "lost copy: self.model, self.names": "nobody changes the list later",
    "a list for a tuple: self.model, self.names": "either holds the names",
    "lost return: False": "`None` lets an exception through as well",
    "lost return: self._inner.__exit__(*details)": "it raises the exception again, and returns nothing true",
}
