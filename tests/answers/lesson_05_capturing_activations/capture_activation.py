"""Answers to 05-capture-activation."""

from graders.author.answers import Wrong

RIGHT = [
    """
from functools import partial
import torch

def keep(found, module, args, output):
    found["value"] = output.clone().detach()

def capture_activation(model, name, x):
    found = {}
    handle = dict(model.named_modules())[name].register_forward_hook(partial(keep, found))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return found["value"]
""",
    """
import torch

class Keeper:
    def __call__(self, module, args, output):
        with torch.no_grad():
            self.value = torch.empty_like(output).copy_(output)

def capture_activation(model, name, x):
    module, keeper = model, Keeper()
    for part in name.split("."):
        module = getattr(module, part)
    handle = module.register_forward_hook(keeper, always_call=True)
    try:
        model(x)
    finally:
        handle.remove()
    return keeper.value
""",
    """
import torch

@torch.inference_mode()
def capture_activation(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(o.clone())):
        model(x)
    return kept[0]
""",
    """
def capture_activation(model, name, x):
    kept = []
    def hook(module, args, kwargs, output):
        kept.append(output.data.clone())
    handle = dict(model.named_modules())[name].register_forward_hook(hook, with_kwargs=True)
    try:
        model(x)
    except BaseException:
        handle.remove()
        raise
    handle.remove()
    return kept.pop()
""",
]

WRONG = [
    Wrong(
        "one slot for all calls",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source="""
kept = {}

def capture_activation(model, name, x):
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.update(output=o.detach().clone())):
        model(x)
    return kept["output"]
""",
    ),
]

SURVIVORS = {
    "one global slot": "each run writes it anew, and what was returned is another tensor",
    "a hook that works at times: @_only_without_none def __call__(": "no argument of a hook is `None`",
    "exception swallowed: try": "copying raises nothing",
    "… handle = module.register_forward_hook(keeper": "after an exception nothing is asked for",
}
