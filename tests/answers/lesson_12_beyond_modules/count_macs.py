"""Answers to 12-count-macs."""

from graders.author.answers import Wrong

RIGHT = [
    """
from torch import nn

def count_macs(model, x):
    total, handles = 0, []
    def add(module, args, output):
        nonlocal total
        total += output.numel() * (module.weight.numel() // module.weight.shape[0])
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            handles.append(module.register_forward_hook(add))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return total
""",
    """
import torch
from torch.nn.modules.module import register_module_forward_hook

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, torch.nn.Linear):
            macs.append(output.numel() * module.in_features)
        elif isinstance(module, torch.nn.Conv2d):
            kh, kw = module.kernel_size
            macs.append(output.numel() * (module.in_channels // module.groups) * kh * kw)
    with register_module_forward_hook(hook), torch.no_grad():
        model(x)
    return sum(macs)
""",
    """
from contextlib import ExitStack
from math import prod
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.total = 0
    def conv(self, module, args, output):
        *batch, out_channels, height, width = output.shape
        self.total += prod(batch) * out_channels * height * width * prod(module.weight.shape[1:])
    def linear(self, module, args, output):
        self.total += prod(output.shape[:-1]) * module.out_features * module.in_features

def count_macs(model, x):
    meter = Meter()
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                stack.enter_context(module.register_forward_hook(meter.conv))
            elif isinstance(module, nn.Linear):
                stack.enter_context(module.register_forward_hook(meter.linear))
        with torch.inference_mode():
            model(x)
    return meter.total
""",
    """
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    counter, inside, handles = FlopCounterMode(display=False), [], []
    total = 0
    def before(module, args, kwargs):
        inside.append(module)
        if len(inside) == 1:  # it counts what a layer in this one does, too
            counter.__enter__()
    def after(module, args, kwargs, output):
        nonlocal total
        inside.pop()
        if not inside:
            counter.__exit__(None, None, None)
            total += counter.get_total_flops()
    try:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after, with_kwargs=True))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
        if inside:
            counter.__exit__(None, None, None)
    return total // 2
""",
]

HOOKED = """
import math
from torch import nn

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(WORK)
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
"""
RIGHT_WORK = "output.numel() * module.weight[0].numel()"

WRONG = [
    Wrong(
        "not of zeros",
        violates="Zeros, from padding or not, are multiplied like all numbers",
        check="test_a_model_may_be_one_linear_layer",
        source=HOOKED.replace("WORK", f"{RIGHT_WORK} * bool(args[0].any() if args else True)"),
    ),
]

SURVIVORS = {
    "almost: total = 1": "half of the operations are asked for, and they are even",
    "almost: counter, inside, handles = (FlopCounterMode(display=True)": "it prints a table, which is free",
    "prepend=True": "a hook of the caller that replaces an output keeps its shape here",
    "… without if inside": "no layer raises in the middle of its own call here",
    "… without counter.__exit__": "no layer raises in the middle of its own call here",
}
