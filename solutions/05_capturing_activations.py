# %% [markdown]
# # Lesson 5. Capturing activations: forward hooks
#
# **The question.** You have a model and an image. What does the layer `stem.0` output for this image? `forward` returns
# only the final result, and you do not want to rewrite it.
#
# **The goal.** You can capture the output of any module by its name, at every call, and of all layers at once. You keep
# true copies, and leave the model as you found it.
#
# As always: at **Predict**, fill in your guess and run its cell, then the next one.

# %%
import functools
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import CARD, FORWARD, INK, QUIET, arrow, caption, card, node, show

# small tensors: one thread is fastest, and on a shared machine many wait for each other
torch.set_num_threads(1)

# %% [markdown]
# ## A model that we leave alone
#
# This small image classifier stands in for any model that somebody else wrote. It has a *stem*, three residual blocks,
# a pooling layer and a *head*. Its weights are random, which is good enough for a look inside.


# %%
class Residual(nn.Module):
    """Two convolutions with a path around them."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.conv1(x))))


class SmallNet(nn.Module):
    """A classifier for images of 32 by 32 pixels and ten classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.ReLU(inplace=True),
            nn.Conv2d(10, 10, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.blocks = nn.ModuleList([Residual(10), Residual(10), Residual(10)])
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(490, 10)

    def forward(self, x):
        x = self.pool(self.stem(x))
        for block in self.blocks:
            x = block(x)
        x = self.pool(x)
        return self.head(x.flatten(1))


torch.manual_seed(0)
model = SmallNet().eval()

rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
distance = ((rows - 15.5) ** 2 + (columns - 15.5) ** 2).sqrt()
# a white ring on black
image = ((distance > 7) & (distance < 12)).float().reshape(1, 1, 32, 32)

print("image:", tuple(image.shape), "  output:", tuple(model(image).shape))
assert image.shape == (1, 1, 32, 32) and model(image).shape == (1, 10)

# %% [markdown]
# In lesson 0 you wrote a function that returns what a layer outputs. What does it say about the first convolution?


# %%
def layer_output(model, layer, x):
    kept = []
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept[0]


found = layer_output(model, model.stem[0], image)
alone = model.stem[0](image)  # the same layer by itself
print(
    "in the model: shape",
    tuple(found.shape),
    "  smallest number",
    round(found.min().item(), 2),
)
print(
    "by itself:    shape",
    tuple(alone.shape),
    "  smallest number",
    round(alone.min().item(), 2),
)
assert found.shape == alone.shape and found.min() == 0 > alone.min()

# %% [markdown]
# The shape is right, and the numbers are not. This lesson says why, and mends the function.
#
# ## A function that runs after `forward`
#
# `handle = module.register_forward_hook(hook)` registers your function `hook` on a module. From now on, each call
# `module(x)` first runs `forward` and then calls `hook(module, args, output)`:
#
# - `module` is the module itself.
# - `args` holds the positional arguments of the call. (Keyword arguments are not in it: lesson 6.)
# - `output` is what `forward` returned.
#
# A hook that returns `None` only watches.
#
# **Predict.** We put a hook on the first convolution, `nn.Conv2d(1, 10, 5)`, which has no padding, and call the model
# with our image. What type is `args`: a tensor, a list or a tuple? What is the shape of `output`?

# %%
# args: "tensor", "list" or "tuple"
guess("05-first-hook", args="tuple", output=(1, 10, 28, 28))

# %%
conv, seen = model.stem[0], []


def describe(module, args, output):
    print(
        "   ",
        type(module).__name__,
        "  args:",
        type(args).__name__,
        "  shape of the output:",
        tuple(output.shape),
    )
    seen.append((args, output))


handle = conv.register_forward_hook(describe)
print("model(image)")
model(image)
print("conv.forward(image)")
conv.forward(image)
handle.remove()
print("model(image), after handle.remove()")
model(image)
compare("05-first-hook", args=type(seen[0][0]), output=tuple(seen[0][1].shape))
assert len(seen) == 1 and type(seen[0][0]) is tuple
assert seen[0][0][0].shape == (1, 1, 32, 32) and seen[0][1].shape == (1, 10, 28, 28)

# %% [markdown] explains="05-first-hook"
# `args` is a **tuple**, even when there is only one argument. The input itself is `args[0]`.

# %% [markdown]
# The hook printed a single line. `conv.forward(image)` computes the same output, but fires **no hook**: it is the
# *call* of a module that runs its hooks. Always write `module(x)`. After `handle.remove()`, the hook is gone. (As with
# hooks on tensors, `with module.register_forward_hook(hook):` removes it at the end of the block. If you train a model
# that uses checkpointing, call `backward()` inside the block as well: the forward pass runs again there, see lesson 8.)
#
# We did not change a line of the model. `self.stem(x)` inside `SmallNet.forward` calls the convolution, and this is
# what happens in that call:

# %% tags=["figure"]
figure, axes = card(8.2, 3.1)
node(axes, 1.0, 2.25, "args", kind="non-leaf", note="[1, 1, 32, 32]", width=1.1)
node(axes, 3.35, 2.25, "conv.forward", kind="plain", width=1.7)
node(axes, 5.55, 2.25, "output", kind="non-leaf", note="[1, 10, 28, 28]", width=1.1)
node(axes, 7.35, 2.25, "ReLU", kind="plain", note="next module", width=0.9)
node(axes, 4.45, 0.85, "your hook(module, args, output)", kind="hook", width=3.1)
arrow(axes, (1.6, 2.25), (2.45, 2.25))
arrow(axes, (4.25, 2.25), (4.95, 2.25))
arrow(axes, (6.15, 2.25), (6.85, 2.25))
arrow(axes, (1.15, 1.95), (2.9, 1.0), bend=0.15, dashed=True)
arrow(axes, (5.4, 1.95), (4.9, 1.15), dashed=True)
caption(
    axes,
    0.35,
    0.3,
    "The hook sees the arguments and the output. It returns None, and the output goes "
    "on as it is.",
)
show(
    figure,
    "What happens in the call conv(x). The arguments, of shape [1, 1, 32, 32], go "
    "into conv.forward, which gives the output of shape [1, 10, 28, 28]. Then your "
    "hook is called with the module, the arguments and the output. It returns None, "
    "and the output goes on to the next module, a ReLU.",
)

# %% [markdown]
# Containers are modules, too, and can be hooked like any other.
#
# **Predict.** Four hooks: on `"model"`, `"stem"`, `"stem[0]"` and `"head"`. In which order do they fire? Write a list
# of these four names.

# %%
guess("05-inside-out", order=["stem[0]", "stem", "head", "model"])

# %%
order, handles = [], []
for name, module in {
    "model": model,
    "stem": model.stem,
    "stem[0]": model.stem[0],
    "head": model.head,
}.items():
    handles.append(
        module.register_forward_hook(
            lambda module, args, output, name=name: order.append(name)
        )
    )
model(image)
for handle in handles:
    handle.remove()
print(" -> ".join(order))
compare("05-inside-out", order=order)
assert order == ["stem[0]", "stem", "head", "model"]

# %% [markdown] explains="05-inside-out"
# A container is finished only when everything in it is. So its hook comes after theirs, and the model's comes last.

# %% [markdown]
# ## A module by its name
#
# Every module in a model has a name: the path of attributes that leads to it. `named_modules()` yields every module
# with its name, from the outside in, and `get_submodule(name)` finds one.

# %%
for name, module in model.named_modules():
    print(f"{name!r:18} {type(module).__name__}")
print("\nblocks.1.conv2 is", model.get_submodule("blocks.1.conv2"))
assert len(list(model.named_modules())) == 18
assert model.get_submodule("stem.0") is model.stem[0]
assert model.get_submodule("blocks.1.conv2") is model.blocks[1].conv2

# %% [markdown]
# The model itself has the empty name. The entries of `nn.Sequential` and `nn.ModuleList` are named by their number.
#
# ## Five ways to keep an output
#
# In our model a ReLU with `inplace=True` follows the convolution, as in many real models. Here are the two alone, so
# small that we know the numbers: the convolution multiplies by 1, so its output is its input, -1 and 2. Five hooks on
# it store the output in five ways.

# %%
pair = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))
nn.init.ones_(pair[0].weight)

ways = {
    "plain": lambda output: output,
    "detach": lambda output: output.detach(),
    "numpy": lambda output: output.detach().numpy(),
    "cpu": lambda output: output.detach().cpu(),
    "clone": lambda output: output.detach().clone(),
}

# %% [markdown]
# **Predict.** After the run, which of the five show -1 and 2? Write one name, or a list of names in the order above.

# %%
guess("05-five-copies", which="clone")  # "plain", "detach", "numpy", "cpu", "clone"

# %%
stored, handles = {}, []
for way, keep in ways.items():

    def hook(module, args, output, way=way, keep=keep):
        stored[way] = keep(output)

    handles.append(pair[0].register_forward_hook(hook))

pair(torch.tensor([[[[-1.0, 2.0]]]]))
for way, value in stored.items():
    print(f"{way:7}", value.flatten().tolist())
compare(
    "05-five-copies",
    which=[way for way, value in stored.items() if value.flatten().tolist() == [-1, 2]],
)
assert [value.flatten().tolist() for value in stored.values()] == [[0, 2]] * 4 + [
    [-1, 2]
]

# %% [markdown] explains="05-five-copies"
# Only the clone. The other four share the memory of the output, and the ReLU wrote its result there. `.cpu()` does not
# help: a tensor that is on the CPU already comes back as it is. **Keep a copy, not a reference.**

# %% tags=["figure"]
figure, axes = card(8.2, 3.3)
node(axes, 1.5, 2.65, "output", kind="non-leaf", width=2.0)
node(axes, 1.5, 1.85, "output.detach()", kind="non-leaf", width=2.0)
node(axes, 1.5, 0.95, "output.detach().clone()", kind="leaf", width=2.4)
node(axes, 4.6, 2.25, "0    2", kind="loss", note="memory of the output", width=1.5)
node(axes, 4.6, 0.95, "-1    2", kind="leaf", note="memory of its own", width=1.5)
node(axes, 7.15, 2.25, "in-place ReLU", kind="plain", width=1.6)
arrow(axes, (2.55, 2.65), (3.8, 2.35), plain=True)
arrow(axes, (2.55, 1.85), (3.8, 2.15), plain=True)
arrow(axes, (2.75, 0.95), (3.8, 0.95), plain=True)
arrow(axes, (6.3, 2.25), (5.4, 2.25), label="writes")
caption(
    axes,
    0.35,
    0.3,
    "Two names, one memory: the ReLU rewrites what you stored. A clone is out of its "
    "reach.",
)
show(
    figure,
    "The tensors output and output.detach() both point to the same memory. The "
    "in-place ReLU writes into that memory, which now holds 0 and 2. The tensor "
    "output.detach().clone() points to memory of its own, which still holds -1 and 2.",
)

# %% [markdown]
# `detach()` has another job: it leaves the graph behind. Without it, what you stored requires grad, and keeps the whole
# graph in memory. So the rule is: store **`output.detach().clone()`**.
#
# Under `torch.no_grad()` there is no graph to leave behind. But the in-place ReLU still overwrites the output, so you
# still need the clone.

# %%
print(
    "requires grad:  plain",
    stored["plain"].requires_grad,
    "  detach",
    stored["detach"].requires_grad,
)
assert stored["plain"].grad_fn is not None and not stored["detach"].requires_grad
with torch.no_grad():
    pair(torch.tensor([[[[-1.0, 2.0]]]]))
print(
    "under no_grad:  plain",
    stored["plain"].requires_grad,
    "  and it shows",
    stored["plain"].flatten().tolist(),
)
assert (
    stored["plain"].flatten().tolist() == [0, 2] and not stored["plain"].requires_grad
)
for handle in handles:
    handle.remove()

# %% [markdown]
# ### What the hook returns
#
# A hook that returns `None` only watches. What if it returns something? Two hooks append `output.detach().clone()` to a
# list. `store` ends there; `store_and_return` also returns that copy. Each goes onto the ReLU of a model of its own,
# `nn.Sequential(nn.Linear(2, 2), nn.ReLU())`.
#
# **Predict.** With which hook does the output of the model still require grad, so that it can be trained?

# %%
# "store_and_return", "store", "both" or "neither"
guess("05-still-trainable", which="store")


# %%
def store(module, args, output):
    copies.append(output.detach().clone())


def store_and_return(module, args, output):
    copies.append(output.detach().clone())
    return copies[-1]


copies, trainable = [], {}
for hook in (store, store_and_return):
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with net[1].register_forward_hook(hook):
        trainable[hook.__name__] = net(torch.ones(1, 2)).requires_grad
print("the output requires grad:", trainable)
compare(
    "05-still-trainable",
    which=[name for name, requires_grad in trainable.items() if requires_grad],
)
assert trainable == {"store": True, "store_and_return": False}
assert [entries or entries.append(1) for entries in [[]] for _ in range(2)] == [
    None,
    [1],
]

# %% [markdown] explains="05-still-trainable"
# What a hook returns takes the place of the output. Here that was a copy without a graph, so no gradient comes back to
# the layers before it. There is no error and no warning. **A hook that watches must return `None`.** (Lesson 6 puts the
# others to good use.)
#
# Be careful with a lambda: it returns the value of its expression. `list.append` returns `None`, so `kept.append(...)`
# is fine. `kept or kept.append(...)` is not: in the second call it returns the list.

# %% [markdown]
# Somebody else may have hooked the module before you. Hooks run in the order in which they were registered (lesson 6
# shows how to ask for another; hooks for all modules at once come first). So yours gets the output as the hooks before
# it left it, and if no hook comes after yours, the next layer gets this same output.
#
# ### The answer
#
# With these two rules, keep a copy and return nothing, we can answer the question of this lesson. Here are the first five
# of the ten channels of `stem.0`, each the answer of one (random) filter to the ring, all with the same gray scale.

# %% tags=["figure"]
maps = []
with model.get_submodule("stem.0").register_forward_hook(
    lambda module, args, output: maps.append(output.detach().clone())
):
    model(image)
assert maps[0].shape == (1, 10, 28, 28) and bool((maps[0][0, :5] < 0).any())
figure = Figure(figsize=(8.2, 1.75), facecolor=CARD)
panels = figure.subplots(1, 6)
first_five = maps[0][0, :5]
low, high = first_five.min().item(), first_five.max().item()
panels[0].imshow(image[0, 0], cmap="gray")
panels[0].set_title("image", fontsize=10, color=INK)
for channel, panel in enumerate(panels[1:]):
    shown = panel.imshow(first_five[channel], cmap="gray", vmin=low, vmax=high)
    panel.set_title(str(channel), fontsize=10, color=INK)
for panel in panels:
    panel.axis("off")
figure.subplots_adjust(left=0.02, right=0.91, top=0.84, bottom=0.03, wspace=0.08)
scale = figure.colorbar(
    shown,
    cax=figure.add_axes((0.925, 0.1, 0.012, 0.68)),
    ticks=[low, 0, high],
    format="%.2f",
)
scale.ax.tick_params(labelsize=8, colors=INK, length=2)
show(
    figure,
    "The image, a white ring on black, and the first five of the ten channels that "
    f"stem.0 outputs for it, with one gray scale for all five, from {low:.2f} (black) "
    f"to {high:.2f} (white). Each channel shows the ring in other shades of gray, "
    "since each has other random weights.",
)

# %% [markdown]
# Now there are negative numbers. In the model's own tensor the ReLU has since set those to 0, and there `layer_output`
# found them.
#
# Mend the function: it takes the name of the layer, and returns a true copy.


# %% exercise="05-capture-activation"
def capture_activation(model, name, x):
    """A copy of what the submodule `name` outputs when the model runs on x."""
    ### BEGIN SOLUTION
    kept = []

    def hook(module, args, output):
        kept.append(output.detach().clone())

    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return kept[0]
    ### END SOLUTION


# %% [markdown]
# ## Clean up, whatever happens
#
# A hook stays until its handle removes it. If you lose the handle, you can no longer remove this hook alone:
# `module._forward_hooks.clear()` takes off everybody's. And there is a subtler way to leave one behind. Two functions log
# the output shape of the first layer while they run the model:
#
# - `careless` registers the hook, calls `model(x)`, then `handle.remove()`.
# - `careful` calls `model(x)` inside `with model.stem[0].register_forward_hook(...):`.
#
# **Predict.** Each gets a fresh model and an image of 20 by 20 pixels. The convolutions can handle it, but `head`
# raises. Then the same model runs once more, on a good image. How many entries does each log have at the end?

# %%
guess("05-after-an-error", careless=2, careful=1)


# %%
def careless(model, x, log):
    handle = model.stem[0].register_forward_hook(
        lambda module, args, output: log.append(tuple(output.shape))
    )
    model(x)
    handle.remove()


def careful(model, x, log):
    with model.stem[0].register_forward_hook(
        lambda module, args, output: log.append(tuple(output.shape))
    ):
        model(x)


logs = {}
for function in (careless, careful):
    fresh, log = SmallNet(), []
    try:
        function(fresh, torch.zeros(1, 1, 20, 20), log)
    except RuntimeError as error:
        print("RuntimeError:", error)
    fresh(image)
    logs[function.__name__] = log
print("shapes in each log:", logs)
compare(
    "05-after-an-error", careless=len(logs["careless"]), careful=len(logs["careful"])
)
assert logs == {
    "careless": [(1, 10, 16, 16), (1, 10, 28, 28)],
    "careful": [(1, 10, 16, 16)],
}
assert (
    fresh.stem[0].register_forward_hook(print),
    fresh.stem[0]._forward_hooks.clear(),
    fresh(image) is not None,
)[2]
assert not fresh.stem[0]._forward_hooks  # `clear` took off everybody's

# %% [markdown] explains="05-after-an-error"
# Both logs have an entry from the run that failed: the first layer was done before `head` raised. But `careless` never
# reached `handle.remove()`. Its hook is still on the model, nobody has the handle, and it wrote into the log again.
#
# The `with` block removes the hook however you leave it.

# %% [markdown]
# If there are several handles, use `try` and `finally`:
#
# ```python
# try:
#     model(x)
# finally:
#     for handle in handles:
#         handle.remove()
# ```
#
# `05-capture-many` and `05-leaf-shapes` need that.

# %% [markdown]
# ## Outputs that are not one tensor
#
# A module may return anything, and a hook gets it as it is. An LSTM returns a tuple: its state after each word, and the
# last state, which is a tuple itself. An attention layer returns a tuple, too, with `None` in second place if nobody
# asked for the weights. Many models from libraries return a dict. For all of these `output.detach()` raises.
#
# So a copy has to follow the structure: a dict stays a dict with the same keys, a tuple stays a tuple, a list a list. A
# function that calls itself does that in a few lines. Look for the tuple in the tuple:


# %%
def copy_of(value):
    """The same structure, with a copy of each tensor; anything else stays as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copy_of(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        entries = [copy_of(entry) for entry in value]
        # _fields: a namedtuple
        return (
            type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
        )
    return value


lstm, attention = nn.LSTM(1, 1), nn.MultiheadAttention(4, 2, batch_first=True)
words = torch.ones(1, 5, 4)  # one text of 5 words, each given by 4 numbers
kept = {}
with lstm.register_forward_hook(
    lambda module, args, output: kept.update(lstm=copy_of(output))
):
    lstm(torch.ones(2, 1))
with attention.register_forward_hook(
    lambda module, args, output: kept.update(attention=copy_of(output))
):
    attention(words, words, words, need_weights=False)

print("LSTM:     ", kept["lstm"])
print("attention:", tuple(kept["attention"][0].shape), "and", kept["attention"][1])
assert (
    type(kept["lstm"]) is type(kept["lstm"][1]) is tuple
    and len(kept["lstm"]) == len(kept["lstm"][1]) == 2
)
assert not kept["lstm"][0].requires_grad and kept["lstm"][0].shape == (2, 1)
assert kept["attention"][0].shape == (1, 5, 4) and kept["attention"][1] is None
assert copy_of({"scores": 3, "states": (1, [0, None])}) == {
    "scores": 3,
    "states": (1, [0, None]),
}
assert type(copy_of(torch.ones(1).sort())) is torch.return_types.sort
# so `output.detach()` raises
assert not any(hasattr(kind, "detach") for kind in (tuple, list, dict))


# %% [markdown]
# ## Several layers at once
#
# One hook for each layer, made in a loop, and all of them write into one dict. Under which key? Here are four hooks for
# each of the six convolutions in the blocks:

# %%
convolutions = [f"blocks.{i}.{conv}" for i in range(3) for conv in ("conv1", "conv2")]
by_name, by_default, by_partial, by_repr = {}, {}, {}, {}


def note(name, found, module, args, output):
    found[name] = tuple(output.shape)


hooks = []
for name in convolutions:

    def hook(module, args, output):
        by_name[name] = tuple(output.shape)

    def hook_with_default(module, args, output, name=name):
        by_default[name] = tuple(output.shape)

    hook_by_partial = functools.partial(note, name, by_partial)

    def hook_with_repr(module, args, output):
        by_repr[repr(module)] = tuple(output.shape)

    hooks += [
        (name, made)
        for made in (hook, hook_with_default, hook_by_partial, hook_with_repr)
    ]

# %% [markdown]
# **Predict.** We register all 24 hooks, each on the module of its name, and run the model once. How many keys does each
# of the four dicts get? (`repr(module)` is what `print` shows of a module.)

# %%
guess("05-key-of-a-layer", by_name=1, by_default=6, by_partial=6, by_repr=1)

# %%
handles = [
    model.get_submodule(name).register_forward_hook(hook) for name, hook in hooks
]
model(image)
for handle in handles:
    handle.remove()
for way, found in {
    "name": by_name,
    "default": by_default,
    "partial": by_partial,
    "repr": by_repr,
}.items():
    print(f"by_{way + ':':9}", list(found))
compare(
    "05-key-of-a-layer",
    by_name=len(by_name),
    by_default=len(by_default),
    by_partial=len(by_partial),
    by_repr=len(by_repr),
)
assert (
    list(by_name) == convolutions[-1:]
    and list(by_default) == list(by_partial) == convolutions
)
assert list(by_repr) == [
    "Conv2d(10, 10, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
]

# %% [markdown] explains="05-key-of-a-layer"
# - `by_name` is the trap of lesson 2: a hook looks up `name` **when it runs**. By then the loop is over, and all write
#   under the last name. A default argument or `functools.partial` gives each hook a name of its own.
# - `by_repr` has one key as well. `repr` shows the settings of a layer, and these six have the same. A name from
#   `named_modules()` stands for one module only.

# %% [markdown]
# One more trap belongs to notebooks. A cell registers a hook, and you run this cell three times: now three hooks fire.
# Register in a `with` block, or remove the old handle in the same cell before you register again.


# %% exercise="05-capture-many"
def capture_many(model, names, x):
    """Copies of the outputs of the named submodules, in the order in which they ran."""
    ### BEGIN SOLUTION
    found, handles = {}, []
    try:
        for name in names:

            def hook(module, args, output, name=name):
                found[name] = output.detach().clone()

            handles.append(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found
    ### END SOLUTION


# %% [markdown]
# ## A list or a dict?
#
# A hook on `pool` appends the shape of the output to a list, and also stores it in a dict, as `kept["pool"]`.
#
# **Predict.** The model runs once. How many entries does the list have? And how large is the map whose shape is in the
# dict: 28, 14 or 7 pixels wide? (The stem gives maps of 28 by 28.)

# %%
guess("05-pool-calls", entries=2, width=7)

# %%
calls, kept = [], {}


def hook(module, args, output):
    calls.append(tuple(output.shape))
    kept["pool"] = tuple(output.shape)


with model.pool.register_forward_hook(hook):
    model(image)
print("list:", calls)
print("dict:", kept)
compare("05-pool-calls", entries=len(calls), width=kept["pool"][-1])
assert calls == [(1, 10, 14, 14), (1, 10, 7, 7)] and kept == {"pool": (1, 10, 7, 7)}

# %% [markdown] explains="05-pool-calls"
# A layer without weights is often made once and used in several places. A hook belongs to the module object, and it
# fires at **every call** of that object. In the dict the second call overwrote the first.

# %% [markdown]
# A module that can be reached in two ways has two names. `named_modules()` yields it once, under the first;
# `get_submodule` knows both; and a hook on it fires for either.

# %%
act, calls = nn.ReLU(), []
chain = nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act)
print("names:", [name for name, _ in chain.named_modules()])
print(
    '"1" and "3" are one module:', chain.get_submodule("1") is chain.get_submodule("3")
)
with chain.get_submodule("1").register_forward_hook(
    lambda module, args, output: calls.append("act")
):
    chain(torch.ones(1, 2))
print("calls of a hook on it:", calls)
assert [name for name, _ in chain.named_modules()] == ["", "0", "1", "2"]
assert chain.get_submodule("3") is chain.get_submodule("1") and calls == ["act", "act"]


# %% exercise="05-capture-calls"
def capture_calls(model, name, x):
    """Copies of the outputs of every call of the submodule `name`, in order."""
    ### BEGIN SOLUTION
    calls = []

    def hook(module, args, output):
        calls.append(output.detach().clone())

    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return calls
    ### END SOLUTION


# %% [markdown]
# ## All layers
#
# For an overview of a model you want the output shape of every layer. *Layer* here means a module without children:
# `list(module.children())` is empty. Such a module is also called a leaf of the tree of modules. (This has nothing to
# do with the leaf tensors of lesson 1.) How do you find all of them?
#
# Much code on the web walks through the children of the model, and descends into a child when that is an
# `nn.Sequential`.
#
# **Predict.** Our model has 8 convolutions: 2 in the stem and 2 in each of the 3 blocks. How many does this walk find?

# %%
guess("05-walk", found=2)


# %%
def layers_by_hand(module):
    """The popular walk. It descends into nn.Sequential only."""
    found = []
    for child in module.children():
        if isinstance(child, nn.Sequential):
            found += layers_by_hand(child)
        else:
            found.append(child)
    return found


by_hand = [module for module in layers_by_hand(model) if isinstance(module, nn.Conv2d)]
by_name = [
    name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)
]
print(f"the walk finds {len(by_hand)} of {len(by_name)}")
compare("05-walk", found=len(by_hand))
assert (len(by_hand), len(by_name)) == (2, 8)

# %% tags=["figure"]
tree = [
    (0, "model", "SmallNet", "container", True, ""),
    (1, "stem", "Sequential", "container", True, ""),
    (2, "stem.0", "Conv2d", "leaf", True, ""),
    (2, "stem.1 … stem.3", "ReLU, Conv2d, ReLU", "leaf", True, ""),
    (1, "blocks", "ModuleList", "container", True, "the walk stops here"),
    (2, "blocks.0", "Residual", "container", False, "missed by the walk"),
    (3, "blocks.0.conv1", "Conv2d", "leaf", False, "missed by the walk"),
    (3, "blocks.0.conv2", "Conv2d", "leaf", False, "missed by the walk"),
    (
        2,
        "blocks.1, blocks.2",
        "like blocks.0",
        "container",
        False,
        "missed by the walk",
    ),
    (1, "pool", "MaxPool2d", "leaf", True, ""),
    (1, "head", "Linear", "leaf", True, ""),
]
figure, axes = card(8.2, 0.75 + 0.32 * len(tree))
for index, (depth, name, kind, role, reached, remark) in enumerate(tree):
    y = 0.35 + 0.32 * (len(tree) - index)
    left = 0.45 + 0.4 * depth
    axes.plot(
        [left],
        [y],
        marker="o" if role == "leaf" else "s",
        markersize=7,
        color=FORWARD if reached else QUIET,
        markerfacecolor=FORWARD if reached and role == "leaf" else CARD,
    )
    caption(axes, left + 0.2, y, name)
    caption(axes, 3.2, y, kind, colour=QUIET)
    caption(axes, 5.0, y, remark, size=9.5)
caption(
    axes,
    0.35,
    0.3,
    "Squares are containers, dots are leaves. The walk gets to the blue ones, "
    "named_modules() to all.",
)
show(
    figure,
    "The tree of modules. model contains stem, blocks, pool and head. stem is a "
    "Sequential with the leaves stem.0 to stem.3. blocks is a ModuleList with the "
    "three Residual blocks, each with the leaves conv1 and conv2. The walk that "
    "descends into Sequential only reaches stem and its leaves, blocks, pool and "
    "head, which are blue. It stops at blocks, and so it misses the three blocks and "
    "their six convolutions, which are gray. named_modules() yields every line.",
)

# %% [markdown] explains="05-walk"
# It finds 2 of 8. It stops at the `ModuleList`, and takes the list itself for a layer. `named_modules()` visits every
# level, whatever the containers are.

# %% [markdown]
# One more thing about order: `named_modules()` yields modules in the order in which they were *defined*. Hooks fire in
# the order in which modules *run*, and a dict that they fill has this second order. In our model, `pool` is defined
# after the blocks, but runs before them.

# %%
defined = [name for name, _ in model.named_modules() if name in ("blocks.0", "pool")]
ran = []
with (
    model.pool.register_forward_hook(lambda module, args, output: ran.append("pool")),
    model.blocks[0].register_forward_hook(
        lambda module, args, output: ran.append("blocks.0")
    ),
):
    model(image)
print("defined:", defined, "  ran:", ran)
assert defined == ["blocks.0", "pool"] and ran == ["pool", "blocks.0", "pool"]


# %% exercise="05-leaf-shapes"
def leaf_shapes(model, x):
    """Name to output shape of every module without children that runs, in the order
    of first calls.
    """
    ### BEGIN SOLUTION
    shapes, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue

            def hook(module, args, output, name=name):
                shapes[name] = tuple(output.shape)

            handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
    ### END SOLUTION


# %% [markdown]
# ## Where hooks stay silent
#
# A forward hook fires when the module is *called*. That rules out more than one might think. Three kinds of computation
# are silent:
#
# - **Functions.** `F.relu`, `x + y`, `x.flatten(1)` are not modules. There is nothing to hook.
# - **Modules that are never called, though their weights are used.** `nn.MultiheadAttention` has a linear layer
#   `out_proj`, and computes with `out_proj.weight` directly.
# - **Modules in a plain Python list.** These would fire, but `named_modules()` does not know them, so you will not find
#   them by name (lesson 12 shows how to see them all the same).
#
# If a hook of yours never fires, look through this list first. Here a residual block and an attention layer have hooks
# on all their modules. Look for the two ReLUs of the block, and for `out_proj`:

# %%
fired, handles = {"block": [], "attention": []}, []
for place, parent in {"block": model.blocks[0], "attention": attention}.items():
    for module in parent.modules():
        handles.append(
            module.register_forward_hook(
                lambda module, args, output, place=place: fired[place].append(
                    type(module).__name__
                )
            )
        )
        print(f"{place}: a hook on", type(module).__name__)
model(image)
attention(words, words, words)
for handle in handles:
    handle.remove()
print("fired:", fired)
assert fired == {
    "block": ["Conv2d", "Conv2d", "Residual"],
    "attention": ["MultiheadAttention"],
}
# a plain list
assert [
    len([*m.modules()])
    for m in [nn.Module()]
    if setattr(m, "layers", [nn.ReLU()]) is None
] == [1]

# %% [markdown]
# ## Save an activation to a file
#
# To keep an activation for later, write it to a file with `torch.save`. The obvious hook is one line,
# `torch.save(output, path)`, and it has two faults that you know by now. Each call **overwrites** the file, so of the
# two calls of `pool` the last one is left. And the tensor was part of a graph: the loaded one still **requires grad**,
# and whoever computes with it builds a graph for no reason.

# %%
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)


def obvious(module, args, output):
    torch.save(output, folder / "pool.pt")


with model.pool.register_forward_hook(obvious):
    model(image)
loaded = torch.load(folder / "pool.pt", weights_only=True)
print("shape:", tuple(loaded.shape), "  requires grad:", loaded.requires_grad)
assert loaded.shape == (1, 10, 7, 7) and loaded.requires_grad

# %% [markdown]
# Now a module that computes `x.repeat(1, 25000)[:, :4]`: from rows of 2 numbers it makes rows of 50000, and returns the
# first four of each. It gets 2 rows. We save `output.detach()` to one file and `output.detach().clone()` to another. A
# number has 4 bytes. (A slice looks into the memory of the tensor that it was cut from. `torch.save` writes memory as it
# is, not only the part that a tensor shows.)
#
# **Predict.** How many bytes of numbers are in each file?

# %%
guess("05-bytes-in-files", detached=400_000, cloned=32)


# %%
class FirstFour(nn.Module):
    """Makes a large tensor, and returns a small part of it."""

    def forward(self, x):
        return x.repeat(1, 25000)[:, :4]


def save_both(module, args, output):
    torch.save(output.detach(), folder / "detached.pt")
    torch.save(output.detach().clone(), folder / "cloned.pt")


first_four = FirstFour()
with first_four.register_forward_hook(save_both):
    part = first_four(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
detached, cloned = (
    torch.load(folder / name, weights_only=True)
    for name in ("detached.pt", "cloned.pt")
)
numbers = [value.untyped_storage().nbytes() for value in (detached, cloned)]
sizes = [(folder / name).stat().st_size for name in ("detached.pt", "cloned.pt")]
print(
    "bytes of numbers:",
    numbers,
    "  size of the files, with all that describes them:",
    sizes,
)
print(
    "shapes when loaded:",
    tuple(detached.shape),
    tuple(cloned.shape),
    "  equal:",
    torch.equal(detached, cloned),
)
compare("05-bytes-in-files", detached=numbers[0], cloned=numbers[1])
assert part.shape == (2, 4) and 400_000 < sizes[0] < 410_000 and sizes[1] < 5_000
assert torch.equal(detached, cloned) and numbers == [400_000, 32]

# %% tags=["figure"]
figure, axes = card(8.2, 2.7)
axes.barh(
    1.75, 5.6, left=0.5, height=0.42, color="#e4ecf7", edgecolor=INK, linewidth=1.2
)
for left, y in ((0.5, 1.75), (3.3, 1.75), (0.5, 0.75), (0.64, 0.75)):
    axes.barh(
        y, 0.14, left=left, height=0.42, color=FORWARD, edgecolor=INK, linewidth=1.2
    )
caption(axes, 0.5, 2.25, "row 0: 50000 numbers")
caption(axes, 3.3, 2.25, "row 1: 50000 numbers")
caption(axes, 6.3, 1.75, "detached.pt: all of it")
caption(axes, 1.0, 0.75, "the clone: 2 rows of 4 numbers")
caption(axes, 6.3, 0.75, "cloned.pt: only this")
caption(
    axes,
    0.5,
    0.25,
    "Blue is what the output shows (not to scale).",
    colour=QUIET,
    size=9.5,
)
show(
    figure,
    "Two bars. The upper one is the storage behind the output: 2 rows of 50000 "
    "numbers. The output shows only the first 4 numbers of each row, drawn as a "
    "narrow blue part at the beginning of each row. The file detached.pt holds the "
    "whole bar. The lower bar is the clone: only the two blue parts, 2 rows of 4 "
    "numbers. The file cloned.pt holds only this.",
)

# %% [markdown] explains="05-bytes-in-files"
# That is the third fault. A slice is a **view** of the large tensor, and so is `output.detach()`: all of the large tensor
# went into the file.
#
# The rule of this lesson mends two of the three faults: `output.detach().clone()` has no graph, and a storage of its
# own. The first one is up to you: decide which call you want.


# %% exercise="05-save-activation"
import torch


def save_activation(model, name, x, path):
    """Save the first output of the submodule `name` to a file, and return its shape."""
    ### BEGIN SOLUTION
    calls = []

    def hook(module, args, output):
        if not calls:
            calls.append(output.detach().clone())

    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    torch.save(calls[0].cpu(), path)
    return tuple(calls[0].shape)
    ### END SOLUTION


# %% [markdown]
# ## A store that you can switch on and off
#
# When you look into a model again and again, you want one object that holds the names, the hooks and what they
# recorded. This popular class is a start. An instance is itself the hook, here of all layers of a model with 36
# convolutions. We run it twice.


# %%
class SaveOutput:
    """A hook that keeps every output it sees."""

    def __init__(self):
        self.outputs = []

    def __call__(self, module, args, output):
        self.outputs.append(output)


deep = nn.Sequential(*[nn.Conv2d(1, 1, 1) for _ in range(36)])
saver = SaveOutput()
handles = [module.register_forward_hook(saver) for module in deep]
for run in (1, 2):
    deep(image)
    print("after run", run, "- outputs in the list:", len(saver.outputs))
print("the first one requires grad:", saver.outputs[0].requires_grad)
assert len(saver.outputs) == 72 and saver.outputs[0].requires_grad
for handle in handles:
    handle.remove()

# %% [markdown]
# The list grows with each run, even with runs that you only wanted for the loss. It keeps the graph of every run alive,
# and nothing in it says which module an output came from.
#
# A better store records only while it is switched on, knows names, keeps copies, and can be emptied. In Python, *on for
# a while* is a **context manager**: a class with two special methods. `with thing as t:` calls `thing.__enter__()` and
# binds `t` to what it returns. At the end of the block it calls `thing.__exit__(kind, error, traceback)`.
#
# **Predict.** The `__enter__` of a class `Announce` appends `"enter"` to a list, its `__exit__` appends `"exit"`.
# Inside `try`, the block of `with Announce():` appends `"block"` and raises; `except` appends `"caught"`. Which of the
# four words are in the list, and in which order?

# %%
guess("05-with-order", order=["enter", "block", "exit", "caught"])


# %%
class Announce:
    """Says when its block begins and ends."""

    def __enter__(self):
        events.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        events.append("exit")
        print("__exit__ was called with", kind.__name__)


events = []
try:
    with Announce():
        events.append("block")
        raise ValueError
except ValueError:
    events.append("caught")
print(" -> ".join(events))
compare("05-with-order", order=events)
assert events == ["enter", "block", "exit", "caught"]

# %% [markdown] explains="05-with-order"
# `__exit__` runs at the end of the block, also when the block raises. Its three arguments describe the exception;
# without one, they are `None`. Then the exception goes on, because `__exit__` returned `None`. If it returned `True`,
# Python would drop it.


# %% exercise="05-activation-store"
class ActivationStore:
    """Records the outputs of named submodules inside a `with` block."""

    def __init__(self, model, names):
        """Remember the model and the names of the submodules to record."""
        ### BEGIN SOLUTION
        self.model, self.names = model, list(names)
        self.data = {name: [] for name in self.names}
        self.handles = []
        ### END SOLUTION

    def __enter__(self):
        """Begin to record."""
        ### BEGIN SOLUTION
        for name in self.names:

            def hook(module, args, output, name=name):
                self.data[name].append(output.detach().clone())

            self.handles.append(
                self.model.get_submodule(name).register_forward_hook(hook)
            )
        return self
        ### END SOLUTION

    def __exit__(self, kind, error, traceback):
        """Stop recording."""
        ### BEGIN SOLUTION
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        ### END SOLUTION

    def clear(self):
        """Forget everything recorded so far."""
        ### BEGIN SOLUTION
        self.data = {name: [] for name in self.names}
        ### END SOLUTION


# %% [markdown]
# ## A myth
#
# **"The second argument of the hook is the input tensor."** It is a tuple of all positional arguments. Many hooks call
# it `input`, and then `input.shape` raises.

# %%
identity = nn.Identity()
with identity.register_forward_hook(lambda module, input, output: print(input.shape)):
    try:
        identity(image)
    except AttributeError as error:
        print("AttributeError:", error)
        assert "'tuple' object has no attribute 'shape'" in str(error)

# %% [markdown]
# ## On your own model
#
# What comes out of each layer? `your_model` finds a model of torchvision, timm or transformers by its name, or takes
# one of yours with an input for it: `your_model(model, x)`. It downloads nothing.

# %%
from graders.nets import your_model

net, x = your_model("resnet18")
leaves = [name for name, module in net.named_modules() if not list(module.children())]
try:
    for name, output in list(capture_many(net, leaves, x).items())[:8]:
        print(f"{name:24} {tuple(output.shape)}")
except NotImplementedError:
    print("Solve 05-capture-many, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `m.register_forward_hook(hook)` | `hook(module, args, output)` | at the end of `m(x)` | `None` keeps the output |
#
# `m.forward(x)` does not fire it. Any other return value replaces the output: lesson 6.
#
# | call | what it does |
# |---|---|
# | `handle.remove()` | removes the hook |
# | `with m.register_forward_hook(hook):` | removes the hook at the end of the block, also when it raises |
# | `model.named_modules()` | yields every module once, of all levels, with its name, in order of definition |
# | `model.get_submodule("stem.0")` | finds the module of this name |
# | `m.children()` | yields the modules one level below; a leaf has none |
# | `output.detach().clone()` | makes a copy without graph, with memory of its own: store this, and return nothing |
#
# ## Where you meet this in the wild
#
# - **Feature extraction.** What goes into the last layer of a classifier describes an image in a few hundred or
#   thousand numbers. A hook on that layer gets them as `args[0]`, without changing the model.
# - **Probing.** To find out what a language model knows at each layer, capture the output of every layer and train a
#   small classifier on each.
# - **Embedding caches.** If a large frozen model feeds a small trained one, capture the outputs of the large one once,
#   save them, and train from the files.
#
# Next: lesson 6, where hooks change what flows forward.

# %%
progress()
