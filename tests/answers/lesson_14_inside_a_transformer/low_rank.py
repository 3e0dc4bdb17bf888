"""Answers to 14-low-rank."""

RIGHT = [
    """
import math
import torch
import torch.nn.functional as F
from torch import nn

def add_low_rank(model, name, rank, alpha):
    layer = model.get_submodule(name)
    before = {key: p.requires_grad for key, p in model.named_parameters()}
    model.requires_grad_(False)
    a, b = layer.weight.new_empty(rank, layer.in_features), layer.weight.new_zeros(layer.out_features, rank)
    nn.init.kaiming_uniform_(a, a=math.sqrt(5))
    layer.register_parameter("low_rank_a", nn.Parameter(a))
    layer.register_parameter("low_rank_b", nn.Parameter(b))
    layer.low_rank_scale = alpha / rank

    def hook(module, args, output):
        return output + F.linear(F.linear(args[0], module.low_rank_a), module.low_rank_b) * module.low_rank_scale

    class Handle:
        def __init__(self):
            self.hook = layer.register_forward_hook(hook)
        def remove(self):
            self.hook.remove()
            for one in ("low_rank_a", "low_rank_b", "low_rank_scale"):
                delattr(layer, one)
            for key, p in model.named_parameters():
                p.requires_grad = before[key]

    return Handle()
""",
    """
import contextlib
import types
import torch

def add_low_rank(model, name, rank, alpha):
    layer = model.get_submodule(name)
    out, width = layer.weight.shape
    undo = contextlib.ExitStack()
    for p in model.parameters():
        undo.callback(p.requires_grad_, p.requires_grad)
        p.requires_grad_(False)
    kind = layer.weight.dtype
    for which, start in (("a", 0.01 * torch.randn(rank, width).to(kind)), ("b", torch.zeros(out, rank).to(kind))):
        setattr(layer, "low_rank_" + which, torch.nn.Parameter(start))
        undo.callback(delattr, layer, "low_rank_" + which)
    undo.enter_context(layer.register_forward_hook(
        lambda module, args, output: output + (alpha / rank) * (module.low_rank_b @ (module.low_rank_a @ args[0].mT)).mT
        if args[0].dim() > 1 else output + (alpha / rank) * (module.low_rank_b @ (module.low_rank_a @ args[0]))
    ))
    return types.SimpleNamespace(remove=undo.close)
""",
    """
import torch
from torch import nn

def add_low_rank(model, name, rank, alpha):
    layer = model
    for part in name.split("."):
        layer = getattr(layer, part)
    trainable = [p for p in model.parameters() if p.requires_grad]
    for p in trainable:
        p.requires_grad = False
    a = layer.low_rank_a = nn.Parameter(torch.rand(rank, layer.in_features, dtype=layer.weight.dtype) - 0.5)
    b = layer.low_rank_b = nn.Parameter(torch.zeros(layer.out_features, rank, dtype=layer.weight.dtype))
    handle = layer.register_forward_hook(lambda module, args, output: output + args[0] @ (b @ a).T * (alpha / rank))
    take_off = handle.remove

    def remove():
        take_off()
        del layer.low_rank_a, layer.low_rank_b
        for p in trainable:
            p.requires_grad = True

    handle.remove = remove
    return handle
""",
]

SURVIVORS = {
    "not for all: … step=-1)": "the order does not matter",
    "almost: nn.init.kaiming_uniform_(a, a=math.sqrt(6))": "any random numbers will do",
    "almost: … torch.rand": "any random numbers will do",
}
