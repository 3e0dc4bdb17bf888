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
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
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
        "swallows what the model raises",
        violates="your caller gets the exception",
        check="test_an_exception_comes_through_and_nothing_is_left",
        source=changed(CAPTURE_CALLS, ("finally:", "except Exception:\n        return []\n    finally:")),
    ),
]

SURVIVORS = {
    "lost copy: return _not_copied(calls)": "the list is new in each call of the function",
}
