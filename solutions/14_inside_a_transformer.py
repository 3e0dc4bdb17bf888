# %% [markdown]
# # Lesson 14. Inside a transformer
#
# **The question.** A language model says "cow". How does it know, and where?
#
# **The goal.** You can read what flows through a transformer, look at its attention, switch off a head, steer what it
# says, and train a small addition, with the hooks of lessons 5 and 6.

# %%
import contextlib

import torch
from torch import nn

from graders import check, compare, guess, hint, progress, solution
from graders.figures import BACKWARD, CARD, FORWARD, INK, QUIET, arrow, caption, card, node, show
from graders.nets import complete, decode, echo_decoder, encode

torch.set_num_threads(1)  # small tensors: one thread is fastest, and on a shared machine many wait for each other

# %% [markdown]
# ## The stream


# %% exercise="14-residual-stream"
def residual_stream(model, tokens):
    """What flows between the blocks of model(tokens): [blocks + 1, batch, token, width], without graph."""
    ### BEGIN SOLUTION
    stream = []

    def keep_input(module, args):
        stream.append(args[0].clone())

    def keep_output(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        stream.append(hidden.clone())

    with contextlib.ExitStack() as hooks, torch.no_grad():
        hooks.enter_context(model.blocks[0].register_forward_pre_hook(keep_input))
        for block in model.blocks:
            hooks.enter_context(block.register_forward_hook(keep_output))
        model(tokens)
    return torch.stack(stream)
    ### END SOLUTION


# %% [markdown]
# ## What would it say here?


# %% exercise="14-logit-lens"
def logit_lens(model, tokens):
    """What model would say before its first block, and after each: [blocks + 1, batch, token, vocabulary]."""
    ### BEGIN SOLUTION
    stream = []

    def keep_input(module, args):
        stream.append(args[0].clone())

    def keep_output(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        stream.append(hidden.clone())

    with contextlib.ExitStack() as hooks, torch.no_grad():
        hooks.enter_context(model.blocks[0].register_forward_pre_hook(keep_input))
        for block in model.blocks:
            hooks.enter_context(block.register_forward_hook(keep_output))
        model(tokens)
    with torch.no_grad():
        return model.unembed(model.norm(torch.stack(stream)))
    ### END SOLUTION


# %% [markdown]
# ## Attention that is computed and thrown away


# %% exercise="14-attention-pattern"
def attention_pattern(model, tokens, layer):
    """Where each head of block `layer` looks in model(tokens): [batch, heads, token, token], without graph."""
    ### BEGIN SOLUTION
    attention, kept = model.blocks[layer].attention, []

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False}

    def keep(module, args, output):
        kept.append(output[1])
        return (output[0], None)  # as if nobody had asked

    with (
        attention.register_forward_pre_hook(ask, with_kwargs=True),
        attention.register_forward_hook(keep, prepend=True),
        torch.no_grad(),
    ):
        model(tokens)
    return kept[0]
    ### END SOLUTION


# %% [markdown]
# ## Which head does it?


# %% exercise="14-ablate-head"
@contextlib.contextmanager
def ablate_head(model, layer, head):
    """Within it, this head of block `layer` adds nothing to the stream."""
    ### BEGIN SOLUTION
    block = model.blocks[layer]
    size = block.mix.in_features // block.attention.num_heads

    def silence(module, args):
        heads = args[0].clone()
        heads[..., head * size : (head + 1) * size] = 0
        return (heads,)

    with block.mix.register_forward_pre_hook(silence):
        yield
    ### END SOLUTION


# %% [markdown]
# ## Steering


# %% exercise="14-steer"
def steer(model, layer, direction, scale, start=0):
    """From now on, block `layer` gives on its stream plus scale * direction, from token `start` on."""

    ### BEGIN SOLUTION
    def push(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        pushed = torch.cat([hidden[:, :start], hidden[:, start:] + scale * direction], 1)
        return (pushed, *output[1:]) if isinstance(output, tuple) else pushed

    return model.blocks[layer].register_forward_hook(push)
    ### END SOLUTION


# %% [markdown]
# ## Patching


# %% exercise="14-patch-path"
def patch_effects(model, clean, corrupt, metric):
    """The share of metric that comes back when one block gives on, at one token, what it gave on in the clean run."""
    ### BEGIN SOLUTION
    kept = {}

    def first_of(output):
        return output[0] if isinstance(output, tuple) else output

    def keep(layer):
        def hook(module, args, output):
            kept[layer] = first_of(output).clone()

        return hook

    def patch(layer, token):
        def hook(module, args, output):
            hidden = first_of(output).clone()
            hidden[:, token] = kept[layer][:, token]
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        return hook

    with torch.no_grad():
        with contextlib.ExitStack() as hooks:
            for layer, block in enumerate(model.blocks):
                hooks.enter_context(block.register_forward_hook(keep(layer)))
            best = metric(model(clean))
        worst = metric(model(corrupt))
        effects = torch.zeros(len(model.blocks), clean.shape[1])
        for layer, block in enumerate(model.blocks):
            for token in range(clean.shape[1]):
                with block.register_forward_hook(patch(layer, token)):
                    effects[layer, token] = (metric(model(corrupt)) - worst) / (best - worst)
    return effects
    ### END SOLUTION


# %% [markdown]
# ## A small addition that can be trained


# %% exercise="14-low-rank"
def add_low_rank(model, name, rank, alpha):
    """Freeze model, and give its linear layer `name` an addition of low rank that can be trained."""
    ### BEGIN SOLUTION
    layer = model.get_submodule(name)
    required = {parameter: parameter.requires_grad for parameter in model.parameters()}
    for parameter in required:
        parameter.requires_grad_(False)
    weight = layer.weight
    layer.low_rank_a = nn.Parameter(torch.randn_like(weight[:rank]) / weight.shape[1] ** 0.5)
    layer.low_rank_b = nn.Parameter(torch.zeros_like(weight[:, :rank]))

    def add(module, args, output):
        return output + alpha / rank * args[0] @ module.low_rank_a.T @ module.low_rank_b.T

    hook = layer.register_forward_hook(add)

    class Handle:
        def remove(self):
            hook.remove()
            del layer.low_rank_a, layer.low_rank_b
            for parameter, before in required.items():
                parameter.requires_grad_(before)

    return Handle()
    ### END SOLUTION


# %%
progress()
