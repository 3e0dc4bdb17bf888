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


# %% exercise="13-signal-report"
def signal_report(model, loss_fn, x):
    """For each call of a leaf: its name, the RMS of its output, the RMS of the gradient that arrives there."""
    ### BEGIN SOLUTION
    calls, handles = [], []
    kept = [(parameter, parameter.grad) for parameter in model.parameters()]

    def rms(squares, count):
        return (sum(squares) / count) ** 0.5

    def square_sum(t):
        return t.detach().double().square().sum().item()

    def watch(name):
        def hook(module, args, output):
            values = [output] if isinstance(output, torch.Tensor) else output
            values = values.values() if isinstance(values, dict) else values
            tensors = [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]
            count, arrived = sum(t.numel() for t in tensors), []
            for t in tensors:
                if t.requires_grad:
                    handles.append(t.register_hook(lambda grad: arrived.append(square_sum(grad))))
            calls.append((name, rms([square_sum(t) for t in tensors], count), arrived, count))

        return hook

    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(watch(name)))
        with torch.enable_grad():
            loss = loss_fn(model(x))
        if loss.requires_grad:
            model.zero_grad(set_to_none=True)
            loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        for parameter, grad in kept:
            parameter.grad = grad
    return [(name, output, rms(arrived, count)) for name, output, arrived, count in calls]
    ### END SOLUTION


# %% [markdown]
# ## A parameter without a gradient


# %% exercise="13-why-no-gradient"
def why_no_gradient(model, loss_fn, x):
    """For each parameter that gets no gradient, or one of zeros, why: frozen, zero, never called or cut."""
    ### BEGIN SOLUTION
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    called, handles, gradients = set(), [], [None] * len(trained)

    def before(module, args):
        called.update(module.parameters(recurse=False))

    try:
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(before))
        loss = loss_fn(model(x))
        if loss.requires_grad and trained:
            gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)

    reasons = {name: "frozen" for name, p in model.named_parameters() if not p.requires_grad}
    for (name, p), gradient in zip(trained.items(), gradients):
        if gradient is None:
            reasons[name] = "cut" if p in called else "never called"
        elif not gradient.any():
            reasons[name] = "zero"
    return reasons
    ### END SOLUTION


# %% [markdown]
# ## A hook from an earlier experiment

# %% [markdown]
# ## The wrong mode


# %% exercise="13-wrong-mode"
def wrong_mode(model, x):
    """Names of the modules that are not in the mode of the model although their mode matters for model(x)."""
    ### BEGIN SOLUTION
    names = {module: name for name, module in model.named_modules() if module.training != model.training}
    found, busy = set(), []

    def state():
        return torch.get_rng_state(), [(buffer, buffer.clone()) for buffer in model.buffers()]

    def put_back(random, buffers):
        torch.set_rng_state(random)
        for buffer, old in buffers:
            buffer.copy_(old)

    def copied(values):
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]

    def tensors(output):
        values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
        return [value for value in copied(values) if isinstance(value, torch.Tensor)]

    def before(module, args, kwargs):
        if busy:  # a call inside of one of our own
            return
        now, mode, outputs = state(), module.training, []
        busy.append(module)
        try:
            for module.training in (True, False):
                put_back(*now)
                outputs.append(tensors(module.forward(*copied(args), **dict(zip(kwargs, copied(kwargs.values()))))))
        finally:
            busy.clear()
            module.training = mode
            put_back(*now)
        if not all(map(torch.equal, *outputs)):
            found.add(module)

    at_first, handles = state(), []
    with torch.no_grad():
        try:
            for module in names:
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            model(x)
        finally:
            for handle in handles:
                handle.remove()
            put_back(*at_first)
    return [name for module, name in names.items() if module in found]
    ### END SOLUTION


# %% [markdown]
# ## A whole diagnosis

# %% [markdown]
# ## The page to keep

# %%
progress()
