"""Answers to 14-patch-path."""

RIGHT = [
    """
import torch

def patch_effects(model, clean, corrupt, metric):
    kept = []
    def keep(block, args, output):
        kept.append((output[0] if isinstance(output, tuple) else output).detach().clone())
    handles = [block.register_forward_hook(keep) for block in model.blocks]
    try:
        good = metric(model(clean))
    finally:
        for handle in handles:
            handle.remove()
    bad = metric(model(corrupt))
    rows = []
    for block, source in zip(model.blocks, kept):
        row = []
        for t in range(corrupt.shape[1]):
            def patch(block, args, output):
                (output[0] if isinstance(output, tuple) else output)[:, t] = source[:, t]
            with torch.no_grad(), block.register_forward_hook(patch):
                row.append((metric(model(corrupt)) - bad) / (good - bad))
        rows.append(row)
    return torch.tensor(rows)
""",
    """
import contextlib
import torch

@torch.no_grad()
def patch_effects(model, clean, corrupt, metric):
    model.eval()
    batch, count = clean.shape
    both = torch.cat([clean, corrupt])
    logits = model(both)
    best, worst = metric(logits[:batch]), metric(logits[batch:])
    effects = torch.zeros(len(model.blocks), count)
    many = torch.cat([clean, *[corrupt] * count])
    for number, block in enumerate(model.blocks):
        def hook(block, args, output):
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            for t in range(count):
                hidden[(t + 1) * batch:(t + 2) * batch, t] = hidden[:batch, t]
            return (hidden,) + output[1:] if isinstance(output, tuple) else hidden
        with block.register_forward_hook(hook):
            parts = model(many).split(batch)[1:]
        for t, part in enumerate(parts):
            effects[number, t] = (metric(part) - worst) / (best - worst)
    return effects
""",
    """
import torch

class Patch:
    token = None

    def __init__(self):
        self.kept = None

    def __call__(self, block, args, output):
        is_tuple = isinstance(output, tuple)
        hidden = output[0] if is_tuple else output
        if self.kept is None:
            self.kept = hidden.detach().clone()
        if self.token is None:
            return None
        here = torch.arange(hidden.shape[1])[:, None] == self.token
        hidden = torch.where(here, self.kept, hidden)
        return (hidden, *output[1:]) if is_tuple else hidden

def patch_effects(model, clean, corrupt, metric):
    patches = [Patch() for _ in model.blocks]
    handles = [block.register_forward_hook(patch) for block, patch in zip(model.blocks, patches)]
    effects = torch.full((len(patches), clean.size(1)), float("nan"))
    try:
        top, bottom = metric(model(clean)), metric(model(corrupt))
        for index, patch in enumerate(patches):
            for token in range(clean.size(1)):
                patch.token = token
                effects[index, token] = (metric(model(corrupt)) - bottom) / (top - bottom)
            patch.token = None
    finally:
        for handle in handles:
            handle.remove()
    return effects
""",
]

SURVIVORS = {
    "not for all: … step=-1)": "each share has its own place, and hooks of different modules may come in any order",
    "lost copy: hidden = _not_copied(": "what a block returns in such a run is nobody else's",
    "lost copy: … _not_detached(": "floats have no graph",
    "lost statement: without model.eval()": "the model is in eval mode anyway",
}
