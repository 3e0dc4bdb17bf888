# %% [markdown]
# # Lesson 13. Broken runs: which layer, and why?
#
# **The question.** The loss does not fall, and nothing raises an error. Which layer is it, and why?
#
# **The goal.** You can find the layer where a broken run goes wrong, with the hooks of the lessons before.

# %%
import torch
from torch import nn

from graders import check, hint, progress, solution

# %% [markdown]
# ## Dead channels


# %% exercise="13-dead-channels"
def dead_channels(model, batches):
    """For each ReLU with dead channels its name and these channels: 0 for every input of every batch."""
    ### BEGIN SOLUTION
    alive, handles = {}, []

    def watch(name, module):
        def hook(module, args, output):
            channels = output.detach().movedim(1, 0).flatten(1)
            alive[name] = alive.get(name, False) | (channels != 0).any(1)

        handles.append(module.register_forward_hook(hook))

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                watch(name, module)
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        for handle in handles:
            handle.remove()
    dead = {name: (~channels).nonzero().flatten().tolist() for name, channels in alive.items()}
    return {name: channels for name, channels in dead.items() if channels}
    ### END SOLUTION


# %% [markdown]
# ## What each layer outputs, and what comes back

# %% [markdown]
# ## A parameter without a gradient

# %% [markdown]
# ## A hook from an earlier experiment

# %% [markdown]
# ## The wrong mode

# %% [markdown]
# ## A whole diagnosis

# %% [markdown]
# ## The page to keep

# %%
progress()
