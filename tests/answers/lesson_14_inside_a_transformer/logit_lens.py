"""Answers to 14-logit-lens."""

RIGHT = [
    """
import torch

def logit_lens(model, tokens):
    rows, handles = [], []
    def say(hidden):
        rows.append(model.unembed(model.norm(hidden)).detach())
    try:
        handles.append(model.blocks[0].register_forward_pre_hook(lambda block, args: say(args[0])))
        for block in model.blocks:
            handles.append(block.register_forward_hook(
                lambda block, args, output: say(output[0] if isinstance(output, tuple) else output)))
        model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(rows)
""",
    """
import torch

@torch.no_grad()
def logit_lens(model, tokens):
    kept = {}
    def keep(where, value):
        kept[where] = torch.clone(value)
    handles = [model.blocks[0].register_forward_pre_hook(lambda m, args: keep(-1, args[0]))]
    for i, block in enumerate(model.blocks):
        def hook(m, args, output, i=i):
            keep(i, output if torch.is_tensor(output) else output[0])
        handles.append(block.register_forward_hook(hook))
    try:
        model(tokens)
    finally:
        [handle.remove() for handle in handles]
    stream = torch.stack([kept[i] for i in sorted(kept)])
    return model.unembed(model.norm(stream))
""",
]

SURVIVORS = {
    "lost copy: stream = torch.stack([kept[i] for i in _not_copied(kept)])": "the stages came in this order",
    "almost: … keep(-2, args[0])": "it comes before 0, too",
}
