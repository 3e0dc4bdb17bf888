"""Answers to 14-steer."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def steer(model, layer, direction, scale, start=0):
    push = scale * direction
    def hook(module, args, output):
        stream, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        stream = stream.clone()
        stream[:, start:] += push
        return stream if rest is None else (stream,) + rest
    return model.blocks[layer].register_forward_hook(hook)
""",
    """
import torch

def steer(model, layer, direction, scale, start=0):
    def add(stream):
        late = (torch.arange(stream.size(1)) >= start).to(stream.dtype)
        return stream + scale * late.view(1, -1, 1) * direction
    def hook(module, args, kwargs, output):
        if not isinstance(output, tuple):
            return add(output)
        return tuple(add(part) if index == 0 else part for index, part in enumerate(output))
    return model.blocks[layer].register_forward_hook(hook, with_kwargs=True)
""",
    """
import torch.nn.functional as F

class Steering:
    def __init__(self, block, push, start):
        self.push, self.start = push, start
        self.inner = block.register_forward_hook(self)
    def __call__(self, module, args, output):
        stream = output if not isinstance(output, tuple) else output[0]
        count = max(stream.shape[1] - self.start, 0)
        added = F.pad(self.push.expand(len(stream), count, -1), (0, 0, stream.shape[1] - count, 0))
        return stream + added if stream is output else (stream + added, *output[1:])
    def remove(self):
        self.inner.remove()

def steer(model, layer, direction, scale, start=0):
    return Steering(model.blocks[layer], direction.detach() * scale, start)
""",
]

WRONG = [
    Wrong(
        "`remove()` ends every steering of the block",
        violates="its handle removes that hook alone",
        check="test_each_handle_removes_its_own_hook",
        source="""
class Handle:
    def __init__(self, block):
        self.block = block
    def remove(self):
        for number in [n for n, hook in self.block._forward_hooks.items() if getattr(hook, "__name__", "") == "push"]:
            del self.block._forward_hooks[number]

def steer(model, layer, direction, scale, start=0):
    def push(module, args, output):
        stream = (output[0] if isinstance(output, tuple) else output).clone()
        stream[:, start:] += scale * direction
        return (stream, *output[1:]) if isinstance(output, tuple) else stream
    model.blocks[layer].register_forward_hook(push)
    return Handle(model.blocks[layer])
""",
    ),
]
