"""Answers to 05-capture-calls."""

from graders.author.answers import Wrong, changed

CAPTURE_CALLS = """
def capture_calls(model, name, x):
    calls = []
    def hook(module, args, output):
        calls.append(output.detach().clone())
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return calls
"""

WITH_BLOCK = """
def capture_calls(model, name, x):
    calls = []
    def hook(module, args, output):
        calls.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return calls
"""


RIGHT = [
    """
class Calls(list):
    def __call__(self, module, args, output):
        self.append(output.detach().clone())

def capture_calls(model, name, x):
    calls = Calls()
    with model.get_submodule(name).register_forward_hook(calls):
        model(x)
    return calls
""",
    WITH_BLOCK,
    """
class Calls(list):
    def __call__(self, module, args, output):
        self.append(output.detach().clone())

def capture_calls(model, name, x):
    calls = Calls()
    handle = model.get_submodule(name).register_forward_hook(calls)
    try:
        model(x)
    finally:
        handle.remove()
    return list(calls)
""",
    """
import torch

def capture_calls(model, name, x):
    store = []
    target = dict(model.named_modules(remove_duplicate=False))[name]
    handle = target.register_forward_hook(lambda m, a, o: store.append(torch.clone(o).detach_()))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return [entry for entry in store]
""",
]

WRONG = [
    Wrong(
        "one list for all calls, copied in the end",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            CAPTURE_CALLS,
            (
                "def capture_calls(model, name, x):\n    calls = []\n",
                "calls = []\n\ndef capture_calls(model, name, x):\n    calls.clear()\n",
            ),
            ("return calls", "return list(calls)"),
        ),
    ),
    Wrong(
        "keeps the last call",
        violates="return a list with the output of every call of the module `name` in this run",
        check="test_every_call_is_captured_in_order",
        mistake="only-last-call",
        source="""
def capture_calls(model, name, x):
    kept = {}
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.update({name: o.detach().clone()})):
        model(x)
    return [kept[name]] if name in kept else []
""",
    ),
    Wrong(
        "one list for all calls of the function",
        violates="Each call of your function makes a new list",
        check="test_every_call_is_captured_in_order",
        mistake="global-store",
        source="""
CALLS = []

def capture_calls(model, name, x):
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: CALLS.append(o.detach().clone())):
        model(x)
    return CALLS
""",
    ),
    Wrong(
        "only detached",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_every_call_is_captured_in_order",
        mistake="stored-alias",
        source="""
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach())):
        model(x)
    return calls
""",
    ),
    Wrong(
        "a hook for each name",
        violates="Every call counts, whichever name the model uses for it.",
        check="test_every_call_is_captured_in_order",
        mistake="registered-twice",
        source="""
def capture_calls(model, name, x):
    calls, target = [], model.get_submodule(name)
    handles = []
    for _, module in model.named_modules(remove_duplicate=False):
        if module is target:
            handles.append(module.register_forward_hook(lambda m, a, o: calls.append(o.detach().clone())))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return calls
""",
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
def capture_calls(model, name, x):
    calls = []
    model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone()))
    model(x)
    return calls
""",
    ),
    Wrong(
        "removes the hook only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
def capture_calls(model, name, x):
    calls = []
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone()))
    model(x)
    handle.remove()
    return calls
""",
    ),
    Wrong(
        "the inputs",
        violates="return a list with the output of every call of the module `name` in this run",
        check="raised",
        mistake="stored-the-input",
        source="""
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(
        lambda module, args, output: calls.append(args[0].detach().clone())
    ):
        model(x)
    return calls
""",
    ),
    Wrong(
        "nothing",
        violates="return a list with the output of every call of the module `name` in this run",
        check="test_every_call_is_captured_in_order",
        source="""
def capture_calls(model, name, x):
    return []
""",
    ),
    Wrong(
        "backwards",
        violates="in the order of the calls",
        check="test_every_call_is_captured_in_order",
        source="""
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.insert(0, o.detach().clone())):
        model(x)
    return calls
""",
    ),
    Wrong(
        "empties a list of all calls, which it gives back",
        violates="Each call of your function makes a new list.",
        check="test_every_call_is_captured_in_order",
        mistake="global-store",
        source="""
def capture_calls(model, name, x, calls=[]):
    calls.clear()
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.detach().clone())):
        model(x)
    return calls
""",
    ),
    Wrong(
        "stacked",
        violates="return a list",
        check="raised",
        source=changed(
            CAPTURE_CALLS, ("return calls", "import torch\n    return torch.stack(calls) if calls else calls")
        ),
    ),
    Wrong(
        "keeps the graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_every_call_is_captured_in_order",
        source="""
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls.append(o.clone())):
        model(x)
    return calls
""",
    ),
    Wrong(
        "tells calls apart by their values",
        violates="Every call counts",
        check="test_the_example_comes_out",
        source="""
import torch

def capture_calls(model, name, x):
    found = []
    def hook(module, args, output):
        if not any(torch.equal(output, other) for other in found):
            found.append(output.detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return found
""",
    ),
    Wrong(
        "the last call, and an error when there is none",
        violates="If there is none, the list is empty.",
        check="raised",
        source=changed(
            WITH_BLOCK,
            ("calls = []", "store = {}"),
            ("calls.append(output.detach().clone())", 'store["output"] = output.detach().clone()'),
            ("return calls", 'return [store["output"]]'),
        ),
    ),
    Wrong(
        "hands on the copies",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            CAPTURE_CALLS,
            (
                "handle = model.get_submodule(name).register_forward_hook(hook)",
                "    return calls[-1]\n    handle = model.get_submodule(name).register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "hands on the list",
        violates="The model goes on with the outputs themselves",
        check="raised",
        mistake="returned-a-list",
        source="""
def capture_calls(model, name, x):
    calls = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: calls or calls.append(o.detach().clone())):
        model(x)
    return calls
""",
    ),
    Wrong(
        "hooks before those of the caller",
        violates="with the output of every call",
        check="test_every_call_is_captured_in_order",
        mistake="before-the-callers-hook",
        source=changed(CAPTURE_CALLS, ("hook)", "hook, prepend=True)")),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(CAPTURE_CALLS, ("model(x)", "model.forward(x)")),
    ),
    Wrong(
        "knows first names only",
        violates="`name` is any name that `model.get_submodule` knows",
        check="raised",
        source=changed(
            CAPTURE_CALLS,
            (
                "model.get_submodule(name).register_forward_hook(hook)",
                "dict(model.named_modules())[name].register_forward_hook(hook)",
            ),
        ),
    ),
    Wrong(
        "knows submodules only",
        violates='`""` is the model itself',
        check="raised",
        source="""
def capture_calls(model, name, x):
    calls = []
    def hook(module, args, output):
        calls.append(output.detach().clone())
    modules = dict(model.named_modules(remove_duplicate=False))
    del modules[""]
    handle = modules[name].register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return calls
""",
    ),
    Wrong(
        "tells calls apart by memory",
        violates="Every call counts",
        check="test_every_call_is_captured_in_order",
        source=changed(
            CAPTURE_CALLS,
            ("calls =", "calls, seen = [],"),
            (
                "calls.append(output.detach().clone())",
                (
                    "if output.data_ptr() not in seen:\n            seen.append(output.data_ptr())\n"
                    "            calls.append(output.detach().clone())"
                ),
            ),
        ),
    ),
    Wrong(
        "at most four",
        violates="Every call counts",
        check="test_every_call_is_captured_in_order",
        source=changed(CAPTURE_CALLS, ("return calls", "return calls[:4]")),
    ),
    Wrong(
        "counts the calls under this name only",
        violates="whichever name the model uses for it",
        check="test_every_call_is_captured_in_order",
        source=changed(
            WITH_BLOCK,
            (
                "calls = []",
                (
                    "calls, turn = [], []\n"
                    "    names = [n for n, m in model.named_modules(remove_duplicate=False) "
                    "if m is model.get_submodule(name)]"
                ),
            ),
            (
                "calls.append(output.detach().clone())",
                (
                    "turn.append(1)\n        if names[(len(turn) - 1) % len(names)] == name:\n"
                    "            calls.append(output.detach().clone())"
                ),
            ),
        ),
    ),
    Wrong(
        "always float32",
        violates="Each entry has the values, the shape and the dtype of its output",
        check="test_every_call_is_captured_in_order",
        source=changed(CAPTURE_CALLS, (".clone())", ".clone().float())")),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(
            CAPTURE_CALLS, ("def hook(module, args, output):", "model.zero_grad()\n    def hook(module, args, output):")
        ),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            CAPTURE_CALLS,
            ("finally", "except Exception"),
            ("return calls", "    raise\n    handle.remove()\n    return calls"),
        ),
    ),
    Wrong(
        "runs in eval mode, and puts all parts into the mode of the model",
        violates="rule 7: with each part in its mode",
        check="test_every_call_is_captured_in_order",
        source=changed(
            CAPTURE_CALLS,
            ("model(x)", "mode = model.training\n        model.eval()\n        model(x)"),
            ("finally:", "    model.train(mode)\n    finally:"),
        ),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source=changed(
            CAPTURE_CALLS,
            ("model(x)", "modes = [(m, m.training) for m in model.modules()]\n        model.eval()\n        model(x)"),
            ("finally:", "    for m, training in modes:\n            m.training = training\n    finally:"),
        ),
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(CAPTURE_CALLS, ("finally:", "except Exception:\n        return []\n    finally:")),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        mistake="callers-hook-removed",
        source=changed(CAPTURE_CALLS, ("handle.remove()", "model.get_submodule(name)._forward_hooks.clear()")),
    ),
    Wrong(
        "a tuple",
        violates="return a list",
        check="test_every_call_is_captured_in_order",
        source=changed(CAPTURE_CALLS, ("return calls", "return tuple(calls)")),
    ),
    Wrong(
        "`None` when there is no call",
        violates="If there is none, the list is empty.",
        check="test_every_call_is_captured_in_order",
        source=changed(CAPTURE_CALLS, ("return calls", "return calls or None")),
    ),
    Wrong(
        "remembers models",
        violates="rule 1: on one object or on several at the same time",
        check="test_every_call_is_captured_in_order",
        source="""
DONE = {}

def capture_calls(model, name, x):
    calls = []
    def hook(module, args, output):
        calls.append(output.detach().clone())
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return DONE.setdefault((id(model), name), calls)
""",
    ),
    Wrong(
        "without dimensions of size 1",
        violates="Each entry has the values, the shape and the dtype of its output",
        check="test_they_have_the_shape_of_any_output",
        source=changed(CAPTURE_CALLS, ("output.detach().clone()", "output.detach().clone().squeeze(-1)")),
    ),
    Wrong(
        "in the dtype of the first",
        violates="Each entry has the values, the shape and the dtype of its output",
        check="test_each_is_a_copy_of_its_own_shape_and_dtype",
        source=changed(WITH_BLOCK, ("return calls", "return [call.to(calls[0].dtype) for call in calls]")),
    ),
    Wrong(
        "copies an output that repeats itself only once",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_each_is_a_copy_of_its_own_shape_and_dtype",
        source=changed(
            WITH_BLOCK,
            (
                "calls.append(output.detach().clone())",
                "known = any(call.equal(output) for call in calls)\n"
                "        calls.append(output.detach() if known else output.detach().clone())",
            ),
        ),
    ),
    Wrong(
        "the result of the model itself for the empty name",
        violates="rule 6: it shares its memory with no other tensor",
        check="test_each_is_a_copy_of_its_own_shape_and_dtype",
        source=changed(
            CAPTURE_CALLS,
            ("    calls = []\n", '    if name == "":\n        return [model(x).detach()]\n    calls = []\n'),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            CAPTURE_CALLS,
            (
                "        model(x)\n    finally",
                "        model(x)\n    except RuntimeError:\n        if not calls:\n            raise\n    finally",
            ),
        ),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-more-than-once",
        source=changed(CAPTURE_CALLS, ("    calls = []", "    model(x)\n    calls = []")),
    ),
    Wrong(
        "ends the run after the first call",
        violates="rule 7: exactly once, to its end",
        check="test_the_model_runs_once_as_it_is",
        mistake="stopped-the-run",
        source=changed(
            CAPTURE_CALLS,
            ("def capture_calls", "class Stop(Exception):\n    pass\n\ndef capture_calls"),
            (
                "        calls.append(output.detach().clone())",
                "        calls.append(output.detach().clone())\n        raise Stop",
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
            CAPTURE_CALLS,
            ("def capture_calls", "import copy\n\ndef capture_calls"),
            ("    calls = []", "    model, calls = copy.deepcopy(model), []"),
        ),
    ),
]

GIVENS = [
    "No module runs inside a call of itself.",
    "Write `capture_calls(model, name, x)`.",
    "The outputs are `float32` or `float64` tensors.",
    "it may be the second name of a module",
]

SURVIVORS = {
    "at least one dimension": "the inputs of the models have 2 or 4 dimensions",
    "lost copy: return _not_copied(calls)": "the list is new in each call of the function",
    "one global slot: STORE": "it is global already, and emptied",
    "under no_grad": "what comes back has no graph, and nobody gets the output of the model",
}
