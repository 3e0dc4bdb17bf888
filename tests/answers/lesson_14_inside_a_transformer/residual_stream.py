"""Answers to 14-residual-stream."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def residual_stream(model, tokens):
    stream = [None] * (len(model.blocks) + 1)
    handles = []
    try:
        for index, block in enumerate(model.blocks):
            def hook(module, args, output, index=index):
                hidden = output if torch.is_tensor(output) else output[0]
                stream[index + 1] = hidden.clone()
            handles.append(block.register_forward_hook(hook))
        def first(module, args):
            stream[0] = args[0].clone()
        handles.append(model.blocks[0].register_forward_pre_hook(first))
        with torch.no_grad():
            model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(stream, dim=0)
""",
    """
import contextlib
import torch
from torch import nn

@torch.no_grad()
def residual_stream(model, tokens):
    first, rest = {}, {}
    with contextlib.ExitStack() as stack:
        for block in model.blocks:
            def keep(block, args, kwargs, output):
                hidden, *_ = output if isinstance(output, tuple) else (output,)
                rest[block] = torch.clone(hidden)
            stack.enter_context(block.register_forward_hook(keep, with_kwargs=True))
        entry = model.blocks[0]
        stack.callback(entry.register_forward_pre_hook(lambda block, args: first.update(x=args[0].clone())).remove)
        model(tokens)
    return torch.cat([first["x"][None], *(hidden[None] for hidden in rest.values())])
""",
]

WRONG = [
    Wrong(
        "what the first block would get without the hooks of others",
        violates="where one changes a value, the new value counts",
        check="test_the_stream_is_there_before_and_after_each_block",
        source="""
import contextlib
import torch

def residual_stream(model, tokens):
    stream = []
    def before(module, args):
        stream.append(args[0].detach().clone())
    def behind(module, args, output):
        stream.append((output[0] if isinstance(output, tuple) else output).detach().clone())
    with contextlib.ExitStack() as hooks:
        hooks.enter_context(model.blocks[0].register_forward_pre_hook(before, prepend=True))
        for block in model.blocks:
            hooks.enter_context(block.register_forward_hook(behind))
        model(tokens)
    return torch.stack(stream)
""",
    ),
]

SURVIVORS = {
    "one global slot: handles": "to remove a hook twice does no harm",
}
