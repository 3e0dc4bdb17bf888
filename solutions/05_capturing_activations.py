# %% [markdown]
# # Lesson 5. Capturing activations: forward hooks
#
# **The question.** You have a model and an image. What does the layer `stem.0` output on this image? `forward` returns
# only the final result, and you do not want to rewrite it.
#
# **The goal.** You can capture the output of any module by its name, of every call, and of all layers at once. What you
# keep are true copies, and the model is left as you found it.
#
# As always: write down what you predict, run the cell, then read on.

# %%
import functools
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from graders import check, hint, progress, solution
from graders.figures import CARD, FORWARD, INK, QUIET, arrow, caption, card, node, show

# %% [markdown]
# ## A model that we leave alone
#
# This small image classifier stands for any model that somebody else wrote. It has a *stem*, three residual blocks,
# one pooling layer that is used in two places, and a *head*. Its weights are random, which is good enough for looking
# inside.


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
            nn.Conv2d(1, 10, 5), nn.ReLU(inplace=True), nn.Conv2d(10, 10, 3, padding=1), nn.ReLU(inplace=True)
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
image = ((distance > 7) & (distance < 12)).float().reshape(1, 1, 32, 32)  # a white ring on black

print("image:", tuple(image.shape), "  output:", tuple(model(image).shape))
assert image.shape == (1, 1, 32, 32) and model(image).shape == (1, 10)

# %% [markdown]
# ## A function that runs after `forward`
#
# `handle = module.register_forward_hook(hook)` registers your function `hook` on a module. From now on, each call
# `module(x)` first runs `forward` and then calls `hook(module, args, output)`:
#
# - `module` is the module itself.
# - `args` holds the positional arguments of the call. (Keyword arguments are not in it: lesson 6.)
# - `output` is what `forward` returned.
#
# A hook that returns `None` only watches. (What happens when it returns something else is lesson 6.)
#
# **Predict.** We put a hook on the first convolution, `nn.Conv2d(1, 10, 5)`, which has no padding. What type is `args`?
# What are the shapes of the input and the output?


# %%
def describe(module, args, output):
    shapes = [tuple(value.shape) for value in args]
    print(f"{type(module).__name__}: args is a {type(args).__name__}, shapes {shapes} -> {tuple(output.shape)}")
    assert type(args) is tuple and args[0].shape == (1, 1, 32, 32) and output.shape == (1, 10, 28, 28)


handle = model.stem[0].register_forward_hook(describe)
model(image)
handle.remove()
model(image)
print("after handle.remove(), the same call prints nothing")

# %% [markdown]
# `args` is a **tuple**, even when there is only one argument. The input itself is `args[0]`.
#
# We did not change a line of the model. The call `self.stem(x)` inside `SmallNet.forward` calls the convolution, and a
# call of a module does more than `forward`:

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
    axes, 0.35, 0.3, "The hook sees the arguments and the output. It returns None, and the output goes on as it is."
)
show(
    figure,
    "What happens in the call conv(x). The arguments, of shape [1, 1, 32, 32], go into conv.forward, which gives the "
    "output of shape [1, 10, 28, 28]. Then your hook is called with the module, the arguments and the output. It "
    "returns None, and the output goes on to the next module, a ReLU.",
)

# %% [markdown]
# **Predict.** We count how often a hook has fired: once after a call of the module, and once more after we called its
# `forward` ourselves. What are the two numbers?

# %%
conv, fired = model.stem[0], []
with conv.register_forward_hook(lambda module, args, output: fired.append("hook")):
    conv(image)
    after_call = len(fired)
    conv.forward(image)
    after_forward = len(fired)
print("after conv(image):", after_call, "  after conv.forward(image):", after_forward)
assert (after_call, after_forward) == (1, 1)

# %% [markdown]
# Still 1: `conv.forward(image)` computes what the layer itself computes, and fires **no hook**. It is the *call* of the module that
# runs the hooks. Always write `module(x)`.
#
# (The handle is a context manager: the hook is removed at the end of the `with` block.)
#
# Containers are modules, too, and a container is finished only when everything in it is. So hooks fire from the inside
# to the outside.
#
# **Predict.** Four hooks: on the model, on `stem`, on `stem[0]`, and on `head`. In which order do they fire?

# %%
order, handles = [], []
for name, module in {"model": model, "stem": model.stem, "stem[0]": model.stem[0], "head": model.head}.items():
    handles.append(module.register_forward_hook(lambda module, args, output, name=name: order.append(name)))
model(image)
for handle in handles:
    handle.remove()
print(" -> ".join(order))
assert order == ["stem[0]", "stem", "head", "model"]

# %% [markdown]
# ## A module by its name
#
# Every module in a model has a name: the path of attributes that leads to it. `named_modules()` yields every module
# with its name, from the outside to the inside, and `get_submodule(name)` finds one.

# %%
for name, module in model.named_modules():
    print(f"{name!r:18} {type(module).__name__}")
assert len(list(model.named_modules())) == 18
assert model.get_submodule("stem.0") is model.stem[0]
assert model.get_submodule("blocks.1.conv2") is model.blocks[1].conv2

# %% [markdown]
# The model itself has the empty name. Entries of `nn.Sequential` and `nn.ModuleList` have their number as name. A module
# that can be reached in two ways has two names. `named_modules()` yields it once, under the first one;
# `get_submodule` knows both.

# %%
act = nn.ReLU()
chain = nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act)
print("names:", [name for name, _ in chain.named_modules()])
assert [name for name, _ in chain.named_modules()] == ["", "0", "1", "2"]
assert chain.get_submodule("3") is chain.get_submodule("1")

# %% [markdown]
#
# ## Keep a copy, not a reference
#
# In our model a ReLU with `inplace=True` follows the convolution, as in many real models. Here are the two alone, so
# small that we know the numbers: the convolution multiplies by 1, and its output is the input, -1 and 2.
#
# **Predict.** Five hooks on the convolution store its output in five ways. After the run, which of the five show
# -1 and 2?

# %%
pair = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))
nn.init.ones_(pair[0].weight)

ways = {
    "output": lambda output: output,
    "output.detach()": lambda output: output.detach(),
    "output.detach().numpy()": lambda output: output.detach().numpy(),
    "output.detach().cpu()": lambda output: output.detach().cpu(),
    "output.detach().clone()": lambda output: output.detach().clone(),
}
stored, handles = {}, []
for way, keep in ways.items():

    def hook(module, args, output, way=way, keep=keep):
        stored[way] = keep(output)

    handles.append(pair[0].register_forward_hook(hook))

pair(torch.tensor([[[[-1.0, 2.0]]]]))
for way, value in stored.items():
    print(f"{way:25}", value.flatten().tolist())
assert [value.flatten().tolist() for value in stored.values()] == [[0, 2]] * 4 + [[-1, 2]]

# %% [markdown]
# Only the clone. The other four look at the same memory as the output, and the ReLU wrote its result into that memory.
# `.cpu()` is no rescue either: a tensor that is on the CPU already comes back as it is.

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
caption(axes, 0.35, 0.3, "Two names, one memory: the ReLU rewrites what you stored. A clone is out of its reach.")
show(
    figure,
    "The tensors output and output.detach() both point to the same memory. The in-place ReLU writes into that memory, "
    "which now holds 0 and 2. The tensor output.detach().clone() points to memory of its own, which still holds -1 "
    "and 2.",
)

# %% [markdown]
# `detach()` has another job: it leaves the graph behind. Without it, what you stored requires grad, and it keeps the
# graph behind it in memory. So the rule is: store **`output.detach().clone()`**.
#
# Under `torch.no_grad()` there is no graph, and nothing to detach from. The in-place ReLU still overwrites the output,
# so the clone is needed as before.

# %%
assert stored["output"].grad_fn is not None and not stored["output.detach()"].requires_grad
with torch.no_grad():
    pair(torch.tensor([[[[-1.0, 2.0]]]]))
print("without grad:", stored["output"].flatten().tolist(), " requires grad:", stored["output"].requires_grad)
assert stored["output"].flatten().tolist() == [0, 2] and not stored["output"].requires_grad
for handle in handles:
    handle.remove()

# %% [markdown]
# ### Store the copy, and return nothing
#
# A hook that returns `None` only watches. What if it returns the copy that it has stored? Below, one hook stores and
# returns. The other one only stores.
#
# **Predict.** Which of the two models can still be trained?


# %%
def store_and_return(module, args, output):
    copies.append(output.detach().clone())
    return copies[-1]


def store(module, args, output):
    copies.append(output.detach().clone())


copies = []
trainable = {}
for hook in (store_and_return, store):
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with net[1].register_forward_hook(hook):
        trainable[hook.__name__] = net(torch.ones(1, 2)).requires_grad
print("the output requires grad:", trainable)
assert trainable == {"store_and_return": False, "store": True}

# %% [markdown]
# What a hook returns takes the place of the output. A copy without a graph took its place, so no gradient comes back to
# the layers before it. There is no error and no warning. **A hook that watches must return `None`.**
#
# Mind the lambda, which returns the value of its expression. `list.append` returns `None`, so `kept.append(...)` is
# fine. `kept or kept.append(...)` is not: in the second call it returns the list.
#
# Others may have put hooks on the module before you. The hooks of a module run in the order in which they were
# registered (unless somebody asks for another order, as in lesson 6; hooks for all modules at once come first). So yours
# gets the output as the hooks before it left it. If no hook comes after yours, the next layer gets this same output.
#
# ### The answer
#
# With the two rules we can answer the question of this lesson.

# %%
maps = []
with model.get_submodule("stem.0").register_forward_hook(
    lambda module, args, output: maps.append(output.detach().clone())
):
    model(image)
print("captured:", tuple(maps[0].shape), "  negative entries:", bool((maps[0] < 0).any()))
assert maps[0].shape == (1, 10, 28, 28) and bool((maps[0] < 0).any())

# %% tags=["figure"]
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
scale = figure.colorbar(shown, cax=figure.add_axes((0.925, 0.1, 0.012, 0.68)), ticks=[low, 0, high], format="%.2f")
scale.ax.tick_params(labelsize=8, colors=INK, length=2)
show(
    figure,
    "The image, a white ring on black, and the first five of the ten channels that stem.0 outputs on it, with one gray "
    f"scale for all five, from {low:.2f} (black) to {high:.2f} (white). Each channel shows the ring in other shades of "
    "gray, since each has other random weights.",
)

# %% [markdown]
# These are the first five of ten channels, each the answer of one (random) filter to the ring, all with the same gray
# scale. The captured values include negative ones, although the ReLU behind the layer has removed them all from the model's own tensor.
#
# ## Clean up, whatever happens
#
# A hook stays until its handle removes it. Losing the handle does not remove the hook; you only lose the means to do
# it. There is a subtler way to leave a hook behind, too.
#
# **Predict.** Both functions get an image of the wrong size, on which the model raises. Then the model runs once more,
# on a good image. How many entries does each log have at the end?


# %%
def careless(model, x, log):
    handle = model.stem[0].register_forward_hook(lambda module, args, output: log.append(tuple(output.shape)))
    model(x)
    handle.remove()


def careful(model, x, log):
    with model.stem[0].register_forward_hook(lambda module, args, output: log.append(tuple(output.shape))):
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
print(logs)
assert logs == {"careless": [(1, 10, 16, 16), (1, 10, 28, 28)], "careful": [(1, 10, 16, 16)]}

# %% [markdown]
# Both logs hold the output of the run that failed: the convolution was fine, the error came later, in `head`. But
# `careless` never reached `handle.remove()`. Its hook is still on the model, nobody has the handle, and it wrote into
# the log again.
#
# The `with` block removes the hook on every way out. If there are several handles, use `try` and `finally`:
#
# ```python
# try:
#     model(x)
# finally:
#     for handle in handles:
#         handle.remove()
# ```
#
# Now you have all that the first exercise needs.


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
# ## Outputs that are not one tensor
#
# A module may return anything. Attention layers and LSTMs return tuples, many models from libraries return a dict, and
# an entry may be `None`. A hook gets the output as it is. Then `output.detach()` raises, because a tuple has no
# `detach`.
#
# **Predict.** The LSTM below reads 5 words of 2 numbers, and its state has 3 numbers. What is `output`?

# %%
lstm, attention = nn.LSTM(2, 3, batch_first=True), nn.MultiheadAttention(4, 2, batch_first=True)
words = torch.ones(1, 5, 4)
seen = []
with lstm.register_forward_hook(lambda module, args, output: seen.append(output)):
    lstm(words[:, :, :2])
with attention.register_forward_hook(lambda module, args, output: seen.append(output)):
    attention(words, words, words, need_weights=False)

states, (last_state, last_cell) = seen[0]
print("LSTM:     ", tuple(states.shape), "and a tuple of", tuple(last_state.shape), tuple(last_cell.shape))
assert states.shape == (1, 5, 3) and last_state.shape == last_cell.shape == (1, 1, 3)
print("attention:", tuple(seen[1][0].shape), "and", seen[1][1])
assert seen[1][0].shape == (1, 5, 4) and seen[1][1] is None

# %% [markdown]
# A tuple in a tuple. So a copy has to follow the structure: a dict stays a dict with the same keys, a tuple stays a
# tuple, a list a list. A function that calls itself does that in a few lines:


# %%
def copy_of(value):
    """The same structure, with a copy of each tensor; what is no tensor stays as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copy_of(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        entries = [copy_of(entry) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)  # _fields: a namedtuple
    return value


output = {"scores": torch.ones(2, requires_grad=True) * 3, "states": (torch.ones(1), [torch.zeros(1), None])}
kept = copy_of(output)
output["scores"].detach().zero_()
print(kept)
assert kept["scores"].tolist() == [3, 3] and not kept["scores"].requires_grad
assert type(kept["states"]) is tuple and type(kept["states"][1]) is list and kept["states"][1][1] is None

# %% [markdown]
# ## Several layers at once: three traps
#
# One hook for each layer, all of them writing into one dict: that is a loop, and the loop has traps.
#
# You know the first trap from lesson 2: a hook that was made in a loop looks up `name` **when it runs**. By then the
# loop is over, and all hooks write under the last name. Give each hook a name of its own, with a default argument or
# with `functools.partial`.
#
# **Predict.** Below, one dict for each of the two ways. Which keys do they have after the run?

# %%
names = ["stem.0", "stem.2", "head"]


def note(name, found, module, args, output):
    found[name] = tuple(output.shape)


by_default, by_partial, handles = {}, {}, []
for name in names:
    module = model.get_submodule(name)

    def hook(module, args, output, name=name):
        by_default[name] = tuple(output.shape)

    handles.append(module.register_forward_hook(hook))
    handles.append(module.register_forward_hook(functools.partial(note, name, by_partial)))
model(image)
for handle in handles:
    handle.remove()
print(by_default)
assert by_default == by_partial == {"stem.0": (1, 10, 28, 28), "stem.2": (1, 10, 28, 28), "head": (1, 10)}

# %% [markdown]
# The second trap: a hook gets its `module`, so why not use that as the key, in printed form?
#
# **Predict.** The three residual blocks have six convolutions. How many keys does this dict get?


# %%
def by_repr(module, args, output):
    found[repr(module)] = tuple(output.shape)


found, handles = {}, []
for block in model.blocks:
    for module in (block.conv1, block.conv2):
        handles.append(module.register_forward_hook(by_repr))
model(image)
for handle in handles:
    handle.remove()
print(found)
assert len(handles) == 6 and len(found) == 1

# %% [markdown]
# Only one: `repr` shows the settings of a layer, and here six layers have the same settings. A name of
# `named_modules()` stands for one module only. Printed forms and class names may stand for several.
#
# The third trap belongs to notebooks. A cell registers a hook, and you run this cell three times: now three hooks fire.
# Register in a `with` block, or remove the old handle in the same cell before you register anew.


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
# ## A module that runs more than once
#
# A layer without weights is often made once and used in several places. Our model does so with `pool`.
#
# **Predict.** How often does a hook on `pool` fire in one run? Which shape is in the dict at the end?

# %%
calls, kept = [], {}


def hook(module, args, output):
    calls.append(tuple(output.shape))
    kept["pool"] = tuple(output.shape)


with model.pool.register_forward_hook(hook):
    model(image)
print("list:", calls)
print("dict:", kept)
assert calls == [(1, 10, 14, 14), (1, 10, 7, 7)] and kept == {"pool": (1, 10, 7, 7)}

# %% [markdown]
# A hook belongs to the module object, and it fires at **every call** of that object. In the dict the second call
# overwrote the first. The same holds for `act`, which has two names in `chain`: the hook fires whichever name is used.

# %%
calls = []
with chain.get_submodule("1").register_forward_hook(lambda module, args, output: calls.append("act")):
    chain(torch.ones(1, 2))
print("calls:", calls)
assert calls == ["act", "act"]


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
by_name = [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]
print(f"the walk finds {len(by_hand)} of {len(by_name)}")
assert (len(by_hand), len(by_name)) == (2, 8)

# %% tags=["figure"]
tree = [
    (0, "model", "SmallNet", "container", True, ""),
    (1, "stem", "Sequential", "container", True, ""),
    (2, "stem.0", "Conv2d", "leaf", True, ""),
    (2, "stem.1 … stem.3", "ReLU, Conv2d, ReLU", "leaf", True, ""),
    (1, "blocks", "ModuleList", "container", False, "the walk stops here"),
    (2, "blocks.0", "Residual", "container", False, "missed by the walk"),
    (3, "blocks.0.conv1", "Conv2d", "leaf", False, "missed by the walk"),
    (3, "blocks.0.conv2", "Conv2d", "leaf", False, "missed by the walk"),
    (2, "blocks.1, blocks.2", "like blocks.0", "container", False, "missed by the walk"),
    (1, "pool", "MaxPool2d", "leaf", True, ""),
    (1, "head", "Linear", "leaf", True, ""),
]
figure, axes = card(8.2, 0.75 + 0.32 * len(tree))
for index, (depth, name, kind, role, reached, remark) in enumerate(tree):
    y = 0.35 + 0.32 * (len(tree) - index)
    left = 0.45 + 0.4 * depth
    axes.plot([left], [y], marker="o" if role == "leaf" else "s", markersize=7, color=FORWARD if reached else QUIET,
              markerfacecolor=FORWARD if reached and role == "leaf" else CARD)  # fmt: skip
    caption(axes, left + 0.2, y, name)
    caption(axes, 3.2, y, kind, colour=QUIET)
    caption(axes, 5.0, y, remark, size=9.5)
caption(
    axes, 0.35, 0.3, "Squares are containers, dots are leaves. The walk gets to the blue ones, named_modules() to all."
)
show(
    figure,
    "The tree of modules. model contains stem, blocks, pool and head. stem is a Sequential with the leaves stem.0 to "
    "stem.3. blocks is a ModuleList with the three Residual blocks, each with the leaves conv1 and conv2. The walk "
    "that descends into Sequential only reaches stem and its leaves, pool and head, which are blue. It stops at blocks, "
    "and so it misses the three blocks and their six convolutions, which are gray. named_modules() yields every line.",
)

# %% [markdown]
# It finds 2 of 8. At the `ModuleList` it stops, and it takes the list itself for a layer. `named_modules()` visits
# every level, whatever the containers are.
#
# One more thing about order: `named_modules()` yields modules in the order in which they were *defined*. Hooks fire in
# the order in which modules *run*. A dict that is filled when the hooks fire has the second order. In our model, `pool`
# is defined after the blocks, but runs before them.

# %%
defined = [name for name, _ in model.named_modules() if name in ("blocks.0", "pool")]
ran = []
with (
    model.pool.register_forward_hook(lambda module, args, output: ran.append("pool")),
    model.blocks[0].register_forward_hook(lambda module, args, output: ran.append("blocks.0")),
):
    model(image)
print("defined:", defined, "  ran:", ran)
assert defined == ["blocks.0", "pool"] and ran == ["pool", "blocks.0", "pool"]


# %% exercise="05-leaf-shapes"
def leaf_shapes(model, x):
    """Name to output shape of every module without children that runs, in the order of first calls."""
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
# A forward hook fires when a registered module is *called*. That rules out more than one might think:
#
# - **Functions.** `F.relu`, `x + y`, `x.flatten(1)` are no modules. There is nothing to hook.
# - **Modules whose weights are used without calling them.** `nn.MultiheadAttention` has a submodule `out_proj`, but
#   computes with `out_proj.weight` directly.
# - **Modules in a plain Python list.** `named_modules()` does not know them, so you will not find them by name (lesson 12
#   shows how to see them all the same).
#
# **Predict.** We hook an attention layer and its `out_proj`. Only one of the two hooks fires. Which?

# %%
fired, handles = [], []
for name, module in {"attention": attention, "attention.out_proj": attention.out_proj}.items():
    handles.append(module.register_forward_hook(lambda module, args, output, name=name: fired.append(name)))
attention(words, words, words)
for handle in handles:
    handle.remove()
print("fired:", fired)
assert fired == ["attention"]

fired, handles = [], []
for module in model.blocks[0].modules():
    handles.append(module.register_forward_hook(lambda module, args, output: fired.append(type(module).__name__)))
model(image)
for handle in handles:
    handle.remove()
print("one residual block, with two calls of F.relu and one addition:", fired)
assert fired == ["Conv2d", "Conv2d", "Residual"]


# %% [markdown]
# If a hook of yours never fires, look through this list first.
#
# ## Save an activation to a file
#
# To keep an activation for later, write it to a file with `torch.save`. The obvious hook is one line:
# `torch.save(output, path)`. It has three faults.
#
# **Predict.** `pool` runs twice. Which of its two outputs is in the file? Does the loaded tensor require grad?

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
# 1. Each call **overwrites** the file, so it holds the last output.
# 2. The tensor was part of a graph, and the loaded one still **requires grad**. Whoever computes with it builds a graph
#    for no reason.
#
# The third fault shows only with some modules. This one computes 50000 numbers for each row and returns the first
# four of them.
#
# **Predict.** 2 rows of 4 numbers, of 4 bytes each, are 32 bytes. How large is the file, roughly?


# %%
class FirstFour(nn.Module):
    """Makes a large tensor, and returns a small part of it."""

    def forward(self, x):
        return x.repeat(1, 25000)[:, :4]


def save_detached(module, args, output):
    torch.save(output.detach(), folder / "detached.pt")
    torch.save(output.detach().clone(), folder / "cloned.pt")


first_four = FirstFour()
with first_four.register_forward_hook(save_detached):
    part = first_four(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
sizes = {name: (folder / f"{name}.pt").stat().st_size for name in ("detached", "cloned")}
print(tuple(part.shape), " bytes in the files:", sizes)
assert part.shape == (2, 4) and 400_000 < sizes["detached"] < 410_000 and sizes["cloned"] < 5_000
detached, cloned = (torch.load(folder / name, weights_only=True) for name in ("detached.pt", "cloned.pt"))
assert torch.equal(detached, cloned)

# %% tags=["figure"]
figure, axes = card(8.2, 2.7)
axes.barh(1.75, 5.6, left=0.5, height=0.42, color="#e4ecf7", edgecolor=INK, linewidth=1.2)
for left, y in ((0.5, 1.75), (3.3, 1.75), (0.5, 0.75), (0.64, 0.75)):
    axes.barh(y, 0.14, left=left, height=0.42, color=FORWARD, edgecolor=INK, linewidth=1.2)
caption(axes, 0.5, 2.25, "row 0: 50000 numbers")
caption(axes, 3.3, 2.25, "row 1: 50000 numbers")
caption(axes, 6.3, 1.75, "detached.pt: all of it")
caption(axes, 1.0, 0.75, "the clone: 2 rows of 4 numbers")
caption(axes, 6.3, 0.75, "cloned.pt: only this")
caption(axes, 0.5, 0.25, "Blue is what the output shows (not to scale).", colour=QUIET, size=9.5)
show(
    figure,
    "Two bars. The upper one is the storage behind the output: 2 rows of 50000 numbers. The output shows only the "
    "first 4 numbers of each row, drawn as a narrow blue part at the beginning of each row. The file detached.pt holds "
    "the whole bar. The lower bar is the clone: only the two blue parts, 2 rows of 4 numbers. The file cloned.pt holds "
    "only this.",
)

# %% [markdown]
# 3. A slice is a **view**: it looks into the storage of the large tensor. `torch.save` writes that storage, all of it.
#
# The rule of this lesson mends two of the three faults: `output.detach().clone()` has no graph, and a storage of its
# own. The first fault is yours to mend: decide which call you want.


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
# recorded. This popular class is a beginning. An instance is itself the hook.
#
# **Predict.** The model has 36 convolutions, as many as a ResNet-34. We run it twice. How many outputs does the list
# hold after each run?


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
lengths = []
for _ in range(2):
    deep(image)
    lengths.append(len(saver.outputs))
print("outputs in the list:", lengths, "  requires grad:", saver.outputs[0].requires_grad)
assert lengths == [36, 72] and saver.outputs[0].requires_grad
for handle in handles:
    handle.remove()

# %% [markdown]
# 36, then 72. The list grows with each run, also with runs that you only wanted for the loss. It keeps the graph of
# every run alive, and nothing in it says which module an output came from.
#
# A better store records only while it is switched on, knows names, keeps copies, and can be emptied. In Python, *on for
# a while* is a **context manager**: a class with two special methods. `with thing as t:` calls `thing.__enter__()` and
# binds `t` to what it returns. At the end of the block, also when the block raised, it calls `thing.__exit__(...)` with
# three arguments that describe the exception, or are `None`.
#
# **Predict.** The block below raises. Which four events are printed, and in which order?


# %%
class Announce:
    """Says when its block begins and ends."""

    def __enter__(self):
        events.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        events.append(f"exit with {kind.__name__}")


events = []
try:
    with Announce():
        events.append("block")
        raise ValueError
except ValueError:
    events.append("caught outside")
print(" -> ".join(events))
assert events == ["enter", "block", "exit with ValueError", "caught outside"]

# %% [markdown]
# `__exit__` ran, and then the exception went on. It goes on because `__exit__` returned `None`. If it returned `True`,
# Python would drop the exception.


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

            self.handles.append(self.model.get_submodule(name).register_forward_hook(hook))
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
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `m.register_forward_hook(hook)` | `hook(module, args, output)` | at the end of `m(x)` | `None` keeps the output |
#
# `m.forward(x)` does not fire it. A return value other than `None` replaces the output: lesson 6.
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
