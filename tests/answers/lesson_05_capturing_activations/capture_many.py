"""Answers to 05-capture-many."""

from graders.author.answers import Wrong, changed

CAPTURE_MANY = """
def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
"""


RIGHT = [
    CAPTURE_MANY,
    """
from contextlib import ExitStack
from functools import partial

def capture_many(model, names, x):
    found = {}
    def keep(name, module, args, output):
        found[name] = output.detach().clone()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name in names:
                stack.enter_context(module.register_forward_hook(partial(keep, name)))
        model(x)
    return found
""",
    """
import torch

def capture_many(model, names, x):
    name_of = {model.get_submodule(name): name for name in names}
    found = {}
    def hook(module, args, output):
        found.update({name_of[module]: output.clone()})
    handles = [module.register_forward_hook(hook) for module in name_of]
    try:
        with torch.no_grad():
            model(x)
    finally:
        [handle.remove() for handle in handles]
    return found
""",
    """
def capture_many(model, names, x):
    order, found = [], {}
    def make(name):
        return lambda m, a, out: (order.append(name), found.__setitem__(name, out.detach().clone()))[2:] or None
    handles = [model.get_submodule(n).register_forward_hook(make(n)) for n in names]
    try:
        model(x)
    finally:
        for h in handles:
            h.remove()
    return {name: found[name] for name in order}
""",
    """
import contextlib

def capture_many(model, names, x):
    found = {}
    with contextlib.ExitStack() as stack, __import__("torch").no_grad():
        for name in dict.fromkeys(names):
            def keep(module, args, output, key=name):
                found[key] = output + 0
            stack.enter_context(model.get_submodule(name).register_forward_hook(keep))
        model(x)
    return found
""",
    """
class Keeper:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __call__(self, module, args, output):
        self.log.append((self.name, output.detach().clone()))

def capture_many(model, names, x):
    log, handles = [], []
    try:
        handles += [model.get_submodule(name).register_forward_hook(Keeper(name, log)) for name in names]
        model(x)
    finally:
        while handles:
            handles.pop().remove()
    return dict(log)
""",
]

WRONG = [
    Wrong(
        "each module whose name ends so",
        violates="maps each name in the list `names` to the output of that submodule",
        check="test_they_have_the_shape_of_any_output",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in dict.fromkeys(names):
            for full, module in model.named_modules():
                if f".{full}".endswith(f".{name}"):
                    def hook(module, args, output, name=name):
                        found.setdefault(name, output.detach().clone())
                    handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "one dict for all calls, copied in the end",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
kept = {}

def capture_many(model, names, x):
    kept.clear()
    def keep(name):
        return lambda module, args, output: kept.update({name: output.detach().clone()})
    handles = [model.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return dict(kept)
""",
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="test_every_named_output_is_returned",
        mistake="late-binding",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        module = model.get_submodule(name)
        handles.append(module.register_forward_hook(lambda m, a, o: found.update({name: o.detach().clone()})))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "keys are printed forms",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="test_every_named_output_is_returned",
        mistake="repr-keys",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    def hook(module, args, output):
        found[repr(module)] = output.detach().clone()
    for name in names:
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return {name: found[repr(model.get_submodule(name))] for name in names}
""",
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
def capture_many(model, names, x):
    found = {}
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        model.get_submodule(name).register_forward_hook(hook)
    model(x)
    return found
""",
    ),
    Wrong(
        "removes the hooks only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return found
""",
    ),
    Wrong(
        "only detached",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_every_named_output_is_returned",
        mistake="stored-alias",
        source="""
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {}
    with ExitStack() as stack:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach()
            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return found
""",
    ),
    Wrong(
        "a run for each name",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="one-run-per-name",
        source="""
def capture_many(model, names, x):
    found = {}
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        with model.get_submodule(name).register_forward_hook(hook):
            model(x)
    return found
""",
    ),
    Wrong(
        "the keys are there before the run",
        violates="The keys stand in the order in which the submodules ran.",
        check="test_the_keys_are_in_order_of_execution",
        mistake="given-order",
        source="""
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {name: None for name in names}
    with ExitStack() as stack:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return found
""",
    ),
    Wrong(
        "the keys in the order of `named_modules()`",
        violates="The keys stand in the order in which the submodules ran.",
        check="test_the_keys_are_in_order_of_execution",
        mistake="definition-order",
        source="""
from contextlib import ExitStack

def capture_many(model, names, x):
    found = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if name in names:
                found[name] = []
                stack.enter_context(module.register_forward_hook(
                    lambda m, a, o, name=name: found[name].append(o.detach().clone())))
        model(x)
    return {name: entries[0] for name, entries in found.items()}
""",
    ),
    Wrong(
        "nothing",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="test_every_named_output_is_returned",
        source="""
def capture_many(model, names, x):
    return {}
""",
    ),
    Wrong(
        "all modules",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="raised",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    for name, module in model.named_modules():
        def hook(module, args, output, name=name):
            found[name] = output.detach().clone()
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "keeps the graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_every_named_output_is_returned",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    for name in names:
        def hook(module, args, output, name=name):
            found[name] = output.clone()
        handles.append(model.get_submodule(name).register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "keys are classes",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="raised",
        source="""
def capture_many(model, names, x):
    found = {}
    handles = [m.register_forward_hook(lambda m, a, o: found.update({type(m).__name__: o.detach().clone()}))
               for m in model.modules()]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "hands on the copies",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            CAPTURE_MANY,
            (
                "handles.append(model.get_submodule(name).register_forward_hook(hook))",
                (
                    "    return output.detach()\n"
                    "            handles.append(model.get_submodule(name).register_forward_hook(hook))"
                ),
            ),
        ),
    ),
    Wrong(
        "hooks before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_every_named_output_is_returned",
        mistake="before-the-callers-hook",
        source=changed(CAPTURE_MANY, ("hook))", "hook, prepend=True))")),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(CAPTURE_MANY, ("model(x)", "model.forward(x)")),
    ),
    Wrong(
        "containers give `None`",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="test_every_named_output_is_returned",
        source=changed(
            CAPTURE_MANY, ("output.detach().clone()", "None if list(module.children()) else output.detach().clone()")
        ),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(CAPTURE_MANY, ("try:", "model.zero_grad()\n    try:")),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source="""
def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return found
""",
    ),
    Wrong(
        "puts all parts into the mode of the model",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        source=changed(CAPTURE_MANY, ("finally:", "    model.train(model.training)\n    finally:")),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source=changed(
            CAPTURE_MANY,
            ("model(x)", "modes = [(m, m.training) for m in model.modules()]\n        model.eval()\n        model(x)"),
            ("finally:", "    for m, training in modes:\n            m.training = training\n    finally:"),
        ),
    ),
    Wrong(
        "ends the run when it has all",
        violates="rule 7: to its end",
        check="test_the_model_runs_once_as_it_is",
        source="""
class Enough(Exception):
    pass

def capture_many(model, names, x):
    found, handles = {}, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
                if len(found) == len(set(names)):
                    raise Enough
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    except Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "no run when there is nothing to capture",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(
            CAPTURE_MANY, ("found, handles = {}, []", "if not names:\n        return {}\n    found, handles = {}, []")
        ),
    ),
    Wrong(
        "at most three",
        violates="return a dict that maps each name in the list `names` to the output of that submodule",
        check="test_every_named_output_is_returned",
        source=changed(CAPTURE_MANY, ("names:", "names[:3]:")),
    ),
    Wrong(
        "takes a name twice for a mistake",
        violates="may hold a name twice",
        check="raised",
        source=changed(
            CAPTURE_MANY,
            ("found, handles = {}, []", "assert len(set(names)) == len(names)\n    found, handles = {}, []"),
        ),
    ),
    Wrong(
        "empties the list of names",
        violates="rule 2: Lists and dicts keep their entries.",
        check="test_nothing_of_the_caller_changes",
        source=changed(CAPTURE_MANY, ("for name in names:", "while names:\n            name = names.pop()")),
    ),
    Wrong(
        "always float32",
        violates="The results have the values, the shapes and the dtypes of these outputs",
        check="test_every_named_output_is_returned",
        source=changed(CAPTURE_MANY, (".clone()", ".float().clone()")),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        mistake="callers-hook-removed",
        source=changed(
            CAPTURE_MANY,
            (
                "for handle in handles:\n            handle.remove()",
                "for name in names:\n            model.get_submodule(name)._forward_hooks.clear()",
            ),
        ),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: on one object or on several at the same time",
        check="test_every_named_output_is_returned",
        source="""
FOUND = {}

def capture_many(model, names, x):
    found, handles = FOUND, []
    try:
        for name in names:
            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()
            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
""",
    ),
    Wrong(
        "stored in order, given back sorted",
        violates="The keys stand in the order in which the submodules ran.",
        check="test_the_keys_are_in_order_of_execution",
        source=changed(CAPTURE_MANY, ("return found", "return dict(sorted(found.items()))")),
    ),
    Wrong(
        "pairs",
        violates="return a dict",
        check="test_every_named_output_is_returned",
        source=changed(CAPTURE_MANY, ("return found", "return list(found.items())")),
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(CAPTURE_MANY, ("finally:", "except Exception:\n        pass\n    finally:")),
    ),
    Wrong(
        "without dimensions of size 1",
        violates="The results have the values, the shapes and the dtypes of these outputs",
        check="test_they_have_the_shape_of_any_output",
        source=changed(CAPTURE_MANY, ("output.detach().clone()", "output.detach().clone().squeeze(-1)")),
    ),
    Wrong(
        "one tensor for equal outputs",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_each_is_a_copy_of_what_a_layer_hands_on",
        source=changed(
            CAPTURE_MANY,
            (
                "found[name] = output.detach().clone()",
                "same = [kept for kept in found.values() if kept.equal(output)]\n"
                "                found[name] = same[0] if same else output.detach().clone()",
            ),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            CAPTURE_MANY,
            (
                "        model(x)\n    finally",
                "        model(x)\n    except RuntimeError:\n        if not found:\n            raise\n    finally",
            ),
        ),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-more-than-once",
        source=changed(CAPTURE_MANY, ("    found, handles", "    model(x)\n    found, handles")),
    ),
    Wrong(
        "ends the run when it has what it wants",
        violates="rule 7: exactly once, to its end",
        check="test_the_model_runs_once_as_it_is",
        mistake="stopped-the-run",
        source=changed(
            CAPTURE_MANY,
            ("def capture_many", "class Stop(Exception):\n    pass\n\ndef capture_many"),
            (
                "                found[name] = output.detach().clone()",
                "                found[name] = output.detach().clone()\n"
                "                if len(found) == len(set(names)):\n"
                "                    raise Stop",
            ),
            ("        model(x)\n    finally", "        model(x)\n    except Stop:\n        pass\n    finally"),
        ),
    ),
    Wrong(
        "runs on a copy of the model",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-a-copy",
        source=changed(
            CAPTURE_MANY,
            ("def capture_many", "import copy\n\ndef capture_many"),
            ("    found, handles", "    model = copy.deepcopy(model)\n    found, handles"),
        ),
    ),
]

GIVENS = [
    "Write `capture_many(model, names, x)`.",
    "`names` is in any order, may be empty",
    "In this run each named submodule is called once",
    'It never holds `""`, the model itself.',
]

SURVIVORS = {
    "at least one dimension": "the inputs of the models have 2 or 4 dimensions",
    "under no_grad": "what comes back has no graph, and nobody gets the output of the model",
    "not for all: for name in _part(names, step=-1)": "hooks are registered in any order",
    "not for all: for name in _part(dict.fromkeys(names), step=-1)": "hooks are registered in any order",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": "hooks are registered in any order",
    "not for all: for name, module in _part(model.named_modules(), start=1)": "the first is the model, no submodule",
    "not for all: handles = [": "hooks are registered in any order",
    "not for all: handles += [": "hooks are registered in any order",
    "not for all: name_of = {": "names are looked up",
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": "the order of removal is free",
    "almost: return lambda m, a, out: (order.append(name)": "of two entries none is left, in both ways",
    "lost return: return lambda m, a, out: (None, (order.append(name)": "the hook returns `None` in both ways",
    "almost: found[key] = output - 0": "it adds nothing in both ways",
}
