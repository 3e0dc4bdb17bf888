"""Answers to 14-logit-lens."""

from graders.author.answers import Wrong

SAID = """
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
    return #
"""

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
    SAID.replace("#", "model.unembed(model.norm(stream))"),
]

WRONG = [
    Wrong(
        "what each block gets, and then the norm",
        violates="If someone else's hook replaces what a block returns, that is what the block passes on",
        check="test_the_logits_of_each_stage_are_returned",
        mistake="inputs-of-the-next",
        source="""
import contextlib
import torch

def logit_lens(model, tokens):
    stages = []
    def before(module, args):
        stages.append(args[0].clone())
    with torch.no_grad(), contextlib.ExitStack() as hooks:
        for block in model.blocks:
            hooks.enter_context(block.register_forward_pre_hook(before))
        last = hooks.enter_context(model.norm.register_forward_pre_hook(before))
        model(tokens)
        last.remove()
        return torch.stack([model.unembed(model.norm(stage)) for stage in stages])
""",
    ),
    Wrong(
        "without the bias of the unembedding",
        violates="return `model.unembed(model.norm(...))`",
        check="test_the_logits_of_each_stage_are_returned",
        source=SAID.replace("#", 'torch.einsum("...w,vw->...v", model.norm(stream), model.unembed.weight)'),
    ),
]

SURVIVORS = {
    "lost copy: stream = torch.stack([kept[i] for i in _not_copied(kept)])": "the stages came in this order",
    "almost: … keep(-2, args[0])": "it comes before 0, too",
}
