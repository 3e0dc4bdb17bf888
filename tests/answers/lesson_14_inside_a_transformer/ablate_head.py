"""Answers to 14-ablate-head."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def ablate_head(model, layer, head):
    block = model.blocks[layer]
    size = block.mix.in_features // block.attention.num_heads
    keep = torch.ones(block.mix.in_features)
    keep[head * size:(head + 1) * size] = 0
    return block.mix.register_forward_pre_hook(lambda module, args: (args[0] * keep.to(args[0].dtype),))
""",
    """
import torch

class ablate_head:
    def __init__(self, model, layer, head):
        self.block, self.head = model.blocks[layer], head

    def __enter__(self):
        self.handle = self.block.attention.register_forward_hook(self.silence)

    def __exit__(self, *error):
        self.handle.remove()

    def silence(self, module, args, output):
        heads = list(output[0].chunk(module.num_heads, dim=-1))
        heads[self.head] = torch.zeros_like(heads[self.head])
        return torch.cat(heads, dim=-1), output[1]
""",
    """
from contextlib import contextmanager

@contextmanager
def ablate_head(model, layer, head):
    mix, heads = model.blocks[layer].mix, model.blocks[layer].attention.num_heads
    def subtract(module, args, output):
        size = module.in_features // heads
        part = slice(head * size, (head + 1) * size)
        return output - args[0][..., part] @ module.weight[:, part].T
    handle = mix.register_forward_hook(subtract)
    try:
        yield model
    finally:
        handle.remove()
""",
]

WRONG = [
    Wrong(
        "one hook for all that are open",
        violates="Several may be open at once",
        check="test_one_within_another_works",
        source="""
import contextlib

handles = {}

@contextlib.contextmanager
def ablate_head(model, layer, head):
    block = model.blocks[layer]
    size = block.mix.in_features // block.attention.num_heads
    def hook(module, args):
        heads = args[0].clone()
        heads[..., head * size:(head + 1) * size] = 0
        return heads
    handles["mine"] = block.mix.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handles["mine"].remove()
""",
    ),
]

SURVIVORS = {
    "a list for a tuple: return [torch.cat(": "the block unpacks what `attention` returns",
    "prepend=True": "other hooks there only watch, or silence another head, and zeros are zeros in any order",
}
