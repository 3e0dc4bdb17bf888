"""Answers to 12-count-macs."""

MACS = """
from torch import nn

def run_with(model, x, hook):
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
"""

RIGHT = [
    """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Work(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.macs = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        aten = torch.ops.aten
        if func._overloadpacket is aten.convolution:
            self.macs += out.numel() * args[1][0].numel()
        elif func._overloadpacket in (aten.mm, aten.addmm):
            self.macs += out.numel() * args[-1].shape[0]
        return out

def count_macs(model, x):
    with torch.no_grad(), Work() as work:
        model(x)
    return work.macs
""",
    """
from torch import nn

def count_macs(model, x):
    total, handles = 0, []
    def add(module, args, output):
        nonlocal total
        total += output.numel() * module.weight[0].numel()
    try:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                handles.append(module.register_forward_hook(add))
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
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops() // 2
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
        batch, out_channels, height, width = output.shape
        self.total += batch * out_channels * height * width * prod(module.weight.shape[1:])
    def linear(self, module, args, output):
        self.total += prod(args[0].shape) * module.out_features

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
]

WRONG = {
    "ignored-groups": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            kh, kw = module.kernel_size
            macs.append(output.numel() * module.in_channels * kh * kw)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
    "input-size-used": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            batch, _, height, width = args[0].shape
            macs.append(batch * height * width * module.weight.numel())
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
    "square-kernel": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.in_channels // module.groups * module.kernel_size[0] ** 2)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
    "only-last-call": MACS
    + """
def count_macs(model, x):
    macs = {}
    def hook(module, args, output):
        macs[module] = output.numel() * module.weight[0].numel()
    run_with(model, x, hook)
    return sum(macs.values())
""",
    "ignored-batch": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output[0].numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
    "rows-not-counted": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.weight[0].numel())
        else:
            macs.append(len(output) * module.in_features * module.out_features)
    run_with(model, x, hook)
    return sum(macs)
""",
    "counted-weights": MACS
    + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda module, args, output: macs.append(module.weight.numel()))
    return sum(macs)
""",
    "counted-bias": MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * (module.weight[0].numel() + (module.bias is not None)))
    run_with(model, x, hook)
    return sum(macs)
""",
    "flops-not-macs": """
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()
""",
    "hook-left-behind": """
from torch import nn

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(hook)
    model(x)
    return sum(macs)
""",
    "hook-left-after-exception": """
from torch import nn

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    model(x)
    for handle in handles:
        handle.remove()
    return sum(macs)
""",
}

ALSO_WRONG = [
    # modules of other kinds have weights of two dimensions, too
    MACS.replace("isinstance(m, (nn.Conv2d, nn.Linear))", "getattr(getattr(m, 'weight', None), 'ndim', 0) > 1")
    + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs)
""",
    # a module that has two names gets two hooks
    MACS.replace("m in model.modules()", "_, m in model.named_modules(remove_duplicate=False)")
    + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs)
""",
    # runs the model on one sample
    MACS
    + """
def count_macs(model, x):
    macs = []
    run_with(model, x[:1], lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs) * len(x)
""",
    """
from torch import nn

def count_macs(model, x):
    macs = []
    handles = [
        m.register_forward_hook(lambda m, args, out: macs.append(out.numel() * m.weight[0].numel()))
        for m in model.children()
        if isinstance(m, (nn.Conv2d, nn.Linear))
    ]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
""",
    """
def count_macs(model, x):
    macs = []
    handles = [
        m.register_forward_hook(lambda m, args, out: macs.append(out.numel() * m.weight[0].numel()))
        for m in model.modules()
        if hasattr(m, "weight")
    ]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
""",
    MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if type(module) in (nn.Conv2d, nn.Linear):
            macs.append(output.numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
    MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel() / 1.0)
    run_with(model, x, hook)
    return sum(macs)
""",
    MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    run_with(model.train(), x, hook)
    return sum(macs)
""",
    MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
    MACS
    + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            kh, kw = (d * (k - 1) + 1 for d, k in zip(module.dilation, module.kernel_size))
            macs.append(output.numel() * module.in_channels // module.groups * kh * kw)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
    """
import torch
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    return counter.get_total_flops() // 6
""",
    """
def count_macs(model, x):
    model(x)
    return sum(p.numel() for p in model.parameters()) * len(x)
""",
]
