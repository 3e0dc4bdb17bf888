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
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source=changed(
            RIGHT[0],
            ("def conv_maps", "maps = {}\n\ndef conv_maps"),
            ("    maps, handles = {}, []", "    handles = []\n    maps.clear()"),
            ("return maps", "return dict(maps)"),
        ),
    ),
]

SURVIVORS = {
    "not for all: ": "all of them, in the reverse order",
}
