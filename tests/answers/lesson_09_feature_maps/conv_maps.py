"""Answers to 09-conv-maps."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
    """
from contextlib import ExitStack
from functools import partial
import torch

def keep(maps, name, module, args, output):
    maps.update({name: output.clone().detach()})

def conv_maps(model, x):
    maps = {}
    with ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                stack.enter_context(module.register_forward_hook(partial(keep, maps, name)))
        model(x)
    return maps
""",
    """
import torch

class Store:
    def __init__(self, model):
        self.names = {m: n for n, m in model.named_modules() if isinstance(m, torch.nn.Conv2d)}
        self.maps = {}
    def __call__(self, module, args, output):
        if module in self.names:
            self.maps[self.names[module]] = torch.empty_like(output.data).copy_(output.data)

def conv_maps(model, x):
    store = Store(model)
    handle = torch.nn.modules.module.register_module_forward_hook(store)
    try:
        with torch.inference_mode():
            model(x)
    finally:
        handle.remove()
    return store.maps
""",
    """
from torch import nn

def conv_maps(model, x):
    maps, wrapped = {}, []

    def wrap(name, module):
        original = module.forward
        def forward(*args, **kwargs):
            output = original(*args, **kwargs)
            maps[name] = output.detach().clone()
            return output
        module.forward = forward
        wrapped.append(module)

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                wrap(name, module)
        model(x)
    finally:
        for module in wrapped:
            del module.forward
    return maps
""",
]

WRONG = [
    Wrong(
        "one dict for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            RIGHT[0],
            ("def conv_maps", "maps = {}\n\ndef conv_maps"),
            ("    maps, handles = {}, []", "    handles = []\n    maps.clear()"),
            ("return maps", "return dict(maps)"),
        ),
    ),
    Wrong(
        "convolutions that are no part of the model",
        violates="neither do modules that the model calls although they are no part of it",
        check="test_every_nn.Conv2d_has_its_map_as_it_returned_it",
        source="""
import torch
from torch import nn

def conv_maps(model, x):
    names, maps = {m: n for n, m in model.named_modules()}, {}
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            maps[names.get(module, "?")] = output.detach().clone()
    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return maps
""",
    ),
    Wrong(
        "each hook removes itself when it runs",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_it_holds_when_the_model_raises",
        source="""
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
                handles[name].remove()
            handles[name] = module.register_forward_hook(hook)
    model(x)
    return maps
""",
    ),
    Wrong(
        "unbatched images get a batch",
        violates="a copy of what this convolution returned",
        check="test_a_model_may_be_a_convolution",
        source=changed(RIGHT[0], (".clone()", ".clone().reshape(-1, *output.shape[-3:])")),
    ),
]

SURVIVORS = {
    "at least one dimension": "images have four",
    "under no_grad": "grad mode may be off in the run",
    "not for all: ": "all of them, in the reverse order",
    "prepend=True": "hooks of the caller on a convolution only watch",
    "a hook that works at times: @_not_the_first_call def __call__": "the first call is no convolution's",
    "clean-up not after an exception: with _only_when_well(torch.inference_mode())": "it is dropped, and cleans up",
    "clean-up only after an `Exception`: with _not_after_interrupts(torch.inference_mode())": "as above",
}
