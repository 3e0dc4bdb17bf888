"""Answers to 13-dead-channels."""

from graders.author.answers import Wrong

RIGHT = [
    """
import torch

def dead_channels(model, batches):
    fired = {}
    def hook(module, args, output):
        fired.setdefault(module, []).append((output != 0).transpose(0, 1).flatten(1).any(1))
    modules = {m: name for name, m in model.named_modules() if isinstance(m, torch.nn.ReLU)}
    handles = [m.register_forward_hook(hook) for m in modules]
    try:
        for batch in batches:
            model(batch)
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for m, calls in fired.items():
        dead = [c for c, any_call in enumerate(zip(*(call.tolist() for call in calls))) if not any(any_call)]
        if dead:
            found[modules[m]] = dead
    return found
""",
]

WRONG = [
    Wrong(
        "looks at the last batch only",
        violates="0 for every input of every batch",
        check="test_the_dead_channels_are_found",
        mistake="last-batch-only",
        source="""
import torch

def dead_channels(model, batches):
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ReLU):
            def hook(module, args, output, name=name):
                found[name] = (~(output != 0).any(0)).nonzero().flatten().tolist()
            with module.register_forward_hook(hook):
                for batch in batches:
                    model(batch)
    return {name: dead for name, dead in found.items() if dead}
""",
    ),
]
