# %% [markdown]
# # Lesson 11. Hygiene: memory, handles, copies, NaN
#
# **The question.** You added one line of logging, and a few hundred batches later the memory is full. You ran a cell
# again, and every number in the log appears twice. Why does memory grow, and where do old hooks come from?
#
# **The goal.** You can log without keeping the graph alive, find and remove hooks whose handles are lost, copy a model
# without its hooks, and name the layer that caused the first NaN.
#
# As always: guess, run, read on.
#
# Two of the four exercises, `11-remove-all-hooks` and `11-clean-copy`, work with private parts of PyTorch. They are
# optional: nothing later builds on them.

# %%
import copy
import gc
import pickle
import timeit
import warnings
import weakref

import torch
from torch import nn
from torch.nn.utils import prune

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    FORWARD,
    INK,
    QUIET,
    arrow,
    caption,
    card,
    node,
    show,
)

# %% [markdown]
# ## What a log line keeps alive
#
# The graph saves tensors for the backward pass: inputs of linear layers, outputs of `tanh`, and so on. They live as
# long as the graph does, and the graph lives as long as anything refers to a tensor that was computed with it.
#
# We can count them. Inside `with torch.autograd.graph.saved_tensors_hooks(pack, unpack):`, PyTorch calls `pack` for
# each tensor that the graph saves, and keeps what `pack` returns instead (more in lesson 12). Our `pack` returns a
# small object, and we hold only a weak reference to it, which tells us when the graph has let go.


# %%
class Token:
    """Stands for one saved tensor."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()


class SavedTensors:
    """Counts the tensors that the graph saved, and those that are still alive."""

    def __init__(self):
        self.refs = []

    def pack(self, tensor):
        token = Token(tensor)
        self.refs.append(weakref.ref(token))
        return token

    def watching(self):
        return torch.autograd.graph.saved_tensors_hooks(
            self.pack, lambda token: token.tensor
        )

    def alive(self):
        return sum(ref() is not None for ref in self.refs)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
batch = torch.randn(3, 4)

saved = SavedTensors()
with saved.watching():
    output = model(batch)
print("saved:", len(saved.refs), "  alive while we hold the output:", saved.alive())
assert len(saved.refs) == saved.alive() == 4
del output
print("alive after `del output`:", saved.alive())
assert saved.alive() == 0

# %% [markdown]
# **Predict.** A hook on the last layer stores something about its output `o`: `o` itself, `o.cpu()`, `o.clone()`,
# `o.mean()`, `o.detach()`, or `o.mean().item()`. The model runs once on the CPU, its output is thrown away, and
# `backward` is never called. How many of the 4 saved tensors are still alive, in each case?

# %%
guess("11-six-ways", o=4, cpu=4, clone=4, mean=4, detach=0, item=0)

# %%
ways = {
    "o": lambda o: o,
    "o.cpu()": lambda o: o.cpu(),
    "o.clone()": lambda o: o.clone(),
    "o.mean()": lambda o: o.mean(),
    "o.detach()": lambda o: o.detach(),
    "o.mean().item()": lambda o: o.mean().item(),
}


def watch(keep, batches):
    """Saved tensors alive after each batch, when a hook on the last layer logs
    keep(output).
    """
    log, saved, counts = [], SavedTensors(), []

    def hook(module, args, output):
        log.append(keep(output))

    with model[2].register_forward_hook(hook), saved.watching():
        for _ in range(batches):
            model(batch)
            counts.append(saved.alive())
    return counts


alive = {}
for way, keep in ways.items():
    (alive[way],) = watch(keep, batches=1)
    print(f"store {way:16} {alive[way]} of 4 saved tensors alive")
compare(
    "11-six-ways",
    o=alive["o"],
    cpu=alive["o.cpu()"],
    clone=alive["o.clone()"],
    mean=alive["o.mean()"],
    detach=alive["o.detach()"],
    item=alive["o.mean().item()"],
)
assert list(alive.values()) == [4, 4, 4, 4, 0, 0]

# %% [markdown] explains="11-six-ways"
# Only the last two let the graph go. A stored tensor with a graph keeps **all** of that graph alive, back to the first
# layer, however small the tensor is. `clone()` only adds one more node to the graph, and so does `cpu()` on a tensor
# from a GPU; one that is on the CPU already comes back as it is.

# %% tags=["figure"]
counts = []
for end in (1, 2, 3):
    saved = SavedTensors()
    with saved.watching():
        model[:end](batch)
    counts.append(len(saved.refs))
# the first Linear saves 1, Tanh 1 more, the last Linear 2 more
assert counts == [1, 2, 4]

figure, axes = card(8.2, 2.9)
caption(
    axes,
    0.35,
    2.6,
    "log.append(o.mean()) keeps everything that this number was computed from",
    size=11,
)
node(axes, 0.95, 1.65, "your log", kind="plain", width=1.1)
node(axes, 2.75, 1.65, "o.mean()", kind="loss", note="one number", width=1.2)
first, upto_tanh, all_three = counts
saved_by = (
    ("Linear", all_three - upto_tanh),
    ("Tanh", upto_tanh - first),
    ("Linear", first),
)
for x, (name, tensors) in zip((4.35, 5.85, 7.35), saved_by):
    node(axes, x, 1.65, name, kind="non-leaf", below=f"{tensors} saved", width=1.0)
caption(axes, 5.85, 2.12, "the graph", size=9.5, align="center")
for left, right in ((1.55, 2.1), (3.4, 3.8), (4.9, 5.3), (6.4, 6.8)):
    arrow(axes, (left, 1.65), (right, 1.65), plain=True)
node(axes, 2.75, 0.5, "o.detach().mean()", kind="leaf", width=1.8)
arrow(axes, (1.15, 1.35), (1.8, 0.65), dashed=True, label="or", plain=True)
caption(axes, 3.85, 0.5, "has no graph: nothing hangs on it", colour=QUIET)
show(
    figure,
    "Your log refers to o.mean(), a single number. That refers to the node of the "
    "graph that made it, and so on: the last Linear with 2 saved tensors, Tanh with "
    "1, the first Linear with 1. All of them stay alive. If the log refers to "
    "o.detach().mean() instead, that has no graph, and nothing hangs on it.",
)

# %% [markdown]
# Training logs every batch. We log one number for each of ten batches, once as `o.mean()` and once as
# `o.mean().detach()`: detached, but only at the end.
#
# **Predict.** How many saved tensors are alive after the tenth batch, in each case?

# %%
guess("11-ten-batches", mean=40, detached=0)

# %%
curves = {
    "o.mean()": watch(lambda o: o.mean(), batches=10),
    "o.mean().detach()": watch(lambda o: o.mean().detach(), batches=10),
}
for way, curve in curves.items():
    print(f"{way:18}", curve)
compare(
    "11-ten-batches",
    mean=curves["o.mean()"][-1],
    detached=curves["o.mean().detach()"][-1],
)
assert (
    curves["o.mean()"] == list(range(4, 41, 4))
    and curves["o.mean().detach()"] == [0] * 10
)

# %% tags=["figure"]
figure, axes = card(8.2, 2.9)
caption(
    axes,
    0.4,
    2.6,
    "Saved tensors alive after each batch, when each batch logs one number",
    size=11,
)
for index, count in enumerate(curves["o.mean()"]):
    left = 0.75 + 0.62 * index
    axes.bar(left, 1.5 * count / 40, bottom=0.65, width=0.3, color=BACKWARD)
    caption(
        axes, left, 0.65 + 1.5 * count / 40 + 0.13, str(count), align="center", size=9
    )
    caption(
        axes,
        left + 0.28,
        0.76,
        str(curves["o.mean().detach()"][index]),
        align="center",
        colour=FORWARD,
        size=10,
    )
    caption(axes, left, 0.45, str(index + 1), align="center", colour=QUIET, size=9)
axes.plot([0.5, 6.75], [0.65, 0.65], color=QUIET, linewidth=0.8)
caption(axes, 0.5, 0.2, "number of the batch", colour=QUIET, size=9)
caption(axes, 6.95, 1.9, "bars: o.mean()", colour=BACKWARD, size=9.5)
caption(axes, 6.95, 0.76, "o.mean().detach()", colour=FORWARD, size=8.5)
show(
    figure,
    "Bar chart over ten batches. With o.mean() in the log, 4 saved tensors are alive "
    "after the first batch, and 4 more after each further batch, up to 40. Beside "
    "each bar stands the number for o.mean().detach(): always 0.",
)

# %% [markdown] explains="11-ten-batches"
# Then why do so many training scripts with `losses.append(loss)` run without trouble? Because `backward()` frees the
# saved tensors as it goes (unless you pass `retain_graph=True`). Only the nodes of the graph remain, and they are small.
# It hurts in an evaluation loop without `torch.no_grad()`: nothing calls `backward()` there.

# %%
losses, saved = [], SavedTensors()
with saved.watching():
    losses.append(model(batch).sum())
print("before backward:", saved.alive())
assert saved.alive() == 4
losses[0].backward()
print("after backward, with the loss still in the list:", saved.alive())
assert saved.alive() == 0

saved = SavedTensors()
with saved.watching(), torch.no_grad():
    losses.append(model(batch).sum())
print("under no_grad nothing is saved:", len(saved.refs))
assert len(saved.refs) == 0
model.zero_grad()

# %% [markdown]
# So store a statistic as `output.detach().mean()`, a 0-dim tensor without a graph, or detach last: what matters is what
# you keep. `.item()` gives a Python number, which keeps no graph either; but on a GPU it makes the program wait until
# that number has been computed. Collect 0-dim tensors in the hook, and turn them into numbers later.


# %% exercise="11-mean-activation"
def mean_activation(model, name, x):
    """The mean of what the submodule `name` outputs when the model runs on x,
    without a graph.
    """
    ### BEGIN SOLUTION
    means = []

    def hook(module, args, output):
        means.append(output.detach().mean())

    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return means[0]
    ### END SOLUTION


# %% [markdown]
# ## A hook and its tensor
#
# A tensor holds its hooks. A hook is a function, and a function holds the variables that it uses from outside.
#
# Two functions each make a tensor `y` and register a hook on it; then they return, and nothing else refers to `y`. The
# hook of the first prints `grad.norm()`, that of the second `grad.norm() / y.norm()`. (Each hook also holds a token, by
# which we see whether it was freed.) Then Python's garbage collector runs. It frees Python objects that only hold each other.
# But a hook of a non-leaf is held by the graph, and the collector cannot look into the graph.
#
# **Predict.** Is the `y` of the first function freed? And that of the second? Write `True` or `False`.

# %%
guess("11-freed", first=True, second=False)


# %%
def hook_uses_its_argument():
    token = Token(torch.zeros(()))
    y = 2 * torch.ones(3, requires_grad=True)
    y.register_hook(lambda grad, token=token: print(grad.norm()))
    return weakref.ref(token)


def hook_uses_its_tensor():
    token = Token(torch.zeros(()))
    y = 2 * torch.ones(3, requires_grad=True)
    y.register_hook(lambda grad, token=token: print(grad.norm() / y.norm()))
    return weakref.ref(token)


argument, own = hook_uses_its_argument(), hook_uses_its_tensor()
gc.collect()
print("the hook uses its argument; freed:", argument() is None)
print("the hook uses its tensor; freed:  ", own() is None)
compare("11-freed", first=argument() is None, second=own() is None)
assert argument() is None and own() is not None

# %% [markdown] explains="11-freed"
# The second is **never** freed. `y` holds its graph, the graph holds the hook, and the hook holds `y`: a cycle that passes
# through the graph, where the garbage collector does not see it. There are two ways out: remove the hook, or give it only what it needs (here, `y.norm()`, computed beforehand and without a graph).


# %%
def removed_in_time():
    token = Token(torch.zeros(()))
    y = 2 * torch.ones(3, requires_grad=True)
    with y.register_hook(lambda grad, token=token: print(grad.norm() / y.norm())):
        pass
    return weakref.ref(token)


removed = removed_in_time()
print("the hook was removed; freed:", removed() is None)
assert removed() is None

# %% [markdown]
# ## Where old hooks come from
#
# A notebook cell reads `handle = layer.register_forward_hook(hook)`, and the hook doubles the output.
#
# **Predict.** You run the cell twice. Then you `del handle`. How many times as large is the output now as it would be
# without hooks?

# %%
guess("11-lost-handles", factor=4)


# %%
def the_cell():
    return layer.register_forward_hook(lambda module, args, output: 2 * output)


layer = nn.Linear(4, 4)
plain = layer(batch)
handle = the_cell()
handle = the_cell()  # the first handle is lost
del handle  # and now the second, too
factor = (layer(batch) / plain).mean().item()
print(f"{factor:g} times as large")
compare("11-lost-handles", factor=factor)
assert torch.equal(layer(batch), 4 * plain)

# %% [markdown] explains="11-lost-handles"
# Four times. Registering never replaces a hook, it adds one, so both are on the layer. And losing a handle does not
# remove the hook: you have only lost the one public way to remove it. Three habits prevent this:
#
# 1. `with module.register_forward_hook(hook):` where the hook is needed in one place only.
# 2. `try`, `finally` and a list of handles where there are many.
# 3. In a notebook, keep the handle, and let the cell remove the old hook before it registers the new one. Calling
#    `remove()` twice does no harm.

# %%
layer, handle, calls = nn.Linear(4, 4), None, []
for _ in range(3):  # the same cell, run three times
    if handle is not None:
        handle.remove()
    handle = layer.register_forward_hook(
        lambda module, args, output: calls.append("hook")
    )
layer(batch)
print("calls:", calls)
assert calls == ["hook"]
handle.remove()
handle.remove()

# %% [markdown]
# ## A look inside: where a module keeps its hooks
#
# What if the handles are lost already, or were never yours? There is no public way to list a module's hooks. While you
# debug, you may look inside. The attributes below are private: they are the same in PyTorch 2.4 and 2.13, but may change
# without notice. Do not build a library on them.

# %% tags=["a-look-inside"]
# A look inside: private attributes, for debugging only.
layer = nn.Linear(4, 4)
layer.register_forward_pre_hook(lambda module, args: None)
layer.register_forward_hook(lambda module, args, output: None)
layer.register_forward_hook(lambda module, args, kwargs, output: None, with_kwargs=True)
layer.register_full_backward_pre_hook(lambda module, grad_output: None)
handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
layer.weight.register_hook(lambda grad: None)

four = {
    "_forward_pre_hooks": layer._forward_pre_hooks,
    "_forward_hooks": layer._forward_hooks,
    "_backward_pre_hooks": layer._backward_pre_hooks,
    "_backward_hooks": layer._backward_hooks,
}
for name, hooks in four.items():
    print(f"{name:20} {type(hooks).__name__}, {len(hooks)}")
print(
    "options only:        _forward_hooks_with_kwargs",
    dict(layer._forward_hooks_with_kwargs),
)
assert [len(hooks) for hooks in four.values()] == [1, 2, 1, 1]
assert len(layer._forward_hooks_with_kwargs) == 1

layer._backward_hooks.clear()
handle.remove()  # its hook is gone already: harmless
print("after clear():       _backward_hooks", dict(layer._backward_hooks))
assert len(layer._backward_hooks) == 0

layer._forward_hooks = {}  # a plain dict
try:
    layer.register_forward_hook(print)
except TypeError as error:
    print("with a plain {}:     ", error)
    assert "cannot create weak reference to 'dict' object" in str(error)

# %% [markdown]
# A module has **four dicts of hooks**, one for each kind. Each maps a number to a hook. Full backward hooks and those of
# the deprecated `register_backward_hook` share `_backward_hooks`. Dicts such as `_forward_hooks_with_kwargs` hold no
# hooks: they note which hooks in the four dicts have an option.
#
# A handle has a weak reference to its dict and the number of its hook, and `remove()` deletes that entry if it is still
# there. So after `clear()`, old handles are harmless, and new hooks get new numbers. Do not put a plain `{}` in place of
# the dict: Python has no weak references to a plain dict, and the next registration raises a `TypeError`.
#
# The hook on `layer.weight` is in none of the four: it belongs to the parameter.

# %% tags=["figure"]
figure, axes = card(8.2, 3.75)
caption(axes, 0.35, 3.45, "A module, its four dicts, and a handle", size=11)
node(axes, 1.15, 1.95, "module", kind="leaf", width=1.3)
names = [
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
]
for index, (name, entry) in enumerate(
    zip(names, ["{3: …}", "{4: …, 5: hook}", "{6: …}", "{7: …}"])
):
    y = 2.9 - 0.65 * index
    node(axes, 4.1, y, f"{name}  {entry}", kind="hook", width=3.3, height=0.4)
    arrow(axes, (1.85, 1.95), (2.4, y), plain=True)
node(axes, 7.2, 2.25, "handle", kind="plain", width=1.0)
caption(axes, 7.2, 1.82, "number 5", align="center", size=9.5)
arrow(axes, (6.65, 2.25), (5.8, 2.25), dashed=True, plain=True)
caption(
    axes,
    0.35,
    0.3,
    "Dashed: a weak reference. remove() deletes entry 5. Without the handle, the "
    "entry stays.",
)
show(
    figure,
    "A module refers to four dicts: _forward_pre_hooks with the entry 3, "
    "_forward_hooks with the entries 4 and 5, _backward_pre_hooks with the entry 6, "
    "and _backward_hooks with the entry 7. A handle with the number 5 has a weak "
    "reference to _forward_hooks. Its remove() deletes entry 5. Without the handle, "
    "the entry stays.",
)

# %% [markdown]
# ### A hook of the old kind
#
# `register_backward_hook` is deprecated (lesson 7). A module takes either hooks of this old kind, the *legacy hooks*, or
# full backward hooks, never both. A flag of the module says which kind it takes:

# %% tags=["a-look-inside"]
# A look inside: private attributes, for debugging only.
flagged = nn.Linear(4, 4)
print("at first:                 ", flagged._is_full_backward_hook)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is deprecated
    flagged_handle = flagged.register_backward_hook(
        lambda module, grad_input, grad_output: None
    )
print("with a legacy hook:       ", flagged._is_full_backward_hook)
flagged_handle.remove()
print("without it again:         ", flagged._is_full_backward_hook)
print("a deep copy of this layer:", copy.deepcopy(flagged)._is_full_backward_hook)
assert nn.Linear(4, 4)._is_full_backward_hook is None
assert (
    flagged._is_full_backward_hook is False
    and copy.deepcopy(flagged)._is_full_backward_hook is False
)

# %% [markdown]
# **Predict.** A layer had a legacy hook, and its handle has removed it: all four dicts are empty. You register a full
# backward hook. Does that work? And on a deep copy of the layer? Write `"works"` or `"raises"`.

# %%
guess("11-after-legacy", layer="raises", its_copy="raises")

# %% tags=["a-look-inside"]
# A look inside: private attributes, for debugging only.
old = nn.Linear(4, 4)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is deprecated
    old.register_backward_hook(lambda module, grad_input, grad_output: None).remove()
print("hooks:", len(old._backward_hooks), "  flag:", old._is_full_backward_hook)
assert len(old._backward_hooks) == 0 and old._is_full_backward_hook is False


def register_full(module):
    """The exception that this raises, or "works"."""
    try:
        module.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    except RuntimeError as error:
        return error
    return "works"


on_layer, on_copy = register_full(old), register_full(copy.deepcopy(old))
print(f"on the layer: {type(on_layer).__name__}: {str(on_layer).split('. ')[0]}")
print(f"on its copy:  {type(on_copy).__name__}: {str(on_copy).split('. ')[0]}")
compare("11-after-legacy", layer=on_layer, its_copy=on_copy)
assert all(
    "Cannot use both regular backward hooks and full" in str(error)
    for error in (on_layer, on_copy)
)

old._is_full_backward_hook = None
print(
    "with the flag set to None:",
    register_full(old),
    "  flag:",
    old._is_full_backward_hook,
)
assert old._is_full_backward_hook is True

# %% [markdown] explains="11-after-legacy"
# Both raise. What stays behind is in no dict, but in the **flag** `_is_full_backward_hook`: `None` at first, `False` after
# a legacy hook, `True` after a full one. Neither `handle.remove()` nor `clear()` sets it back, and a deep copy takes it
# along. If you empty the dicts of a module and want it as good as new, set the flag
# to `None` as well.

# %% [markdown]
# ### What may not be removed
#
# Emptying these dicts is a sledgehammer. Some hooks are part of how a model works: `torch.nn.utils.prune`, for example,
# recomputes the pruned weight in a forward pre-hook each time the layer is called. Remove that hook, and from then on
# the layer computes with a stale weight.

# %% tags=["a-look-inside"]
# A look inside: private attributes, for debugging only.
pruned = prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=0.5)
with torch.no_grad():
    pruned.weight_orig.add_(1)
before = pruned.weight.clone()
pruned(torch.ones(1, 2))
print("the pre-hook updated the weight:", not torch.equal(pruned.weight, before))
assert not torch.equal(pruned.weight, before)

pruned._forward_pre_hooks.clear()
with torch.no_grad():
    pruned.weight_orig.add_(1)
before = pruned.weight.clone()
pruned(torch.ones(1, 2))
print("without the pre-hook, the weight is stale:", torch.equal(pruned.weight, before))
assert torch.equal(pruned.weight, before)

# %% [markdown]
# *Go deeper: this exercise is optional, and works with the private dicts.* You will be glad of it when your notebook is
# full of hooks whose handles are lost.


# %% exercise="11-remove-all-hooks"
def remove_all_hooks(model):
    """Remove all module hooks from the model and everything in it; returns how many
    there were.
    """
    ### BEGIN SOLUTION
    count = 0
    for module in model.modules():
        for hooks in (
            module._forward_pre_hooks,
            module._forward_hooks,
            module._backward_pre_hooks,
            module._backward_hooks,
        ):
            count += len(hooks)
            hooks.clear()
    return count
    ### END SOLUTION


# %% [markdown]
# ## What a copy takes along
#
# You copy a model for a moving average of its weights, for a target network, for an experiment on the side.
# `copy.deepcopy(model)` copies parameters and buffers. And hooks?
#
# The original below has three hooks. A function writes into `log`. A `Recorder`, an object, writes into its own list,
# `recorder.seen`. A hook on the weight writes into `on_weight`. We copy the model and run **only the copy**, forward and
# backward. (`deepcopy` copies the attributes of a module, and the dicts of its hooks are attributes. An object in them is
# duplicated, with all that it holds; a function stays the same function. Of a parameter, `deepcopy` copies the numbers.)
#
# **Predict.** How many entries do the three lists have then?

# %%
guess("11-copy-runs", log=1, seen=0, on_weight=0)


# %%
class Recorder:
    """A hook that is an object: it writes into its own list. The class counts the
    calls of all recorders.
    """

    calls = 0

    def __init__(self):
        self.seen = []

    def __call__(self, module, args, output):
        self.seen.append("output")
        Recorder.calls += 1


log, on_weight, recorder = [], [], Recorder()
original = nn.Linear(4, 1)
handle = original.register_forward_hook(
    lambda module, args, output: log.append("output")
)
original.register_forward_hook(recorder)
original.weight.register_hook(lambda grad: on_weight.append("grad"))

copied = copy.deepcopy(original)
copied(batch).sum().backward()
print("log:          ", log)
print("recorder.seen:", recorder.seen, "  calls of all recorders:", Recorder.calls)
print("on_weight:    ", on_weight)
compare("11-copy-runs", log=len(log), seen=len(recorder.seen), on_weight=len(on_weight))
assert (log, recorder.seen, on_weight) == (["output"], [], []) and Recorder.calls == 1

handle.remove()
copied(batch)
print("log after handle.remove() and one more run of the copy:", log)
assert log == ["output", "output"]  # the hook is still on the copy

# %% [markdown] explains="11-copy-runs"
# - **Module hooks are copied.** But a function is not duplicated: the copy calls *the same* function, and that writes
#   into the log of the original.
# - **A hook that is an object is duplicated, with all that it holds.** The copy's recorder wrote into a list of its own,
#   which nobody reads.
# - **Hooks on parameters are dropped.** The weight of the copy has none.
# - **The handles stay with the original.** After `handle.remove()`, the copy still has the hook.

# %% tags=["figure"]
figure, axes = card(8.2, 3.6)
node(axes, 1.2, 2.95, "original", kind="leaf", width=1.4)
node(axes, 1.2, 0.95, "copy", kind="leaf", width=1.4)
node(axes, 4.1, 1.95, "function", kind="hook", width=1.4)
node(axes, 6.9, 1.95, "log", kind="plain", width=1.0)
node(axes, 4.1, 2.95, "recorder", kind="hook", width=1.4)
node(axes, 6.9, 2.95, "its list", kind="plain", width=1.0)
node(axes, 4.1, 0.95, "a copy of recorder", kind="hook", width=1.7)
node(axes, 6.9, 0.95, "another list", kind="plain", width=1.2)
arrow(axes, (1.95, 2.95), (3.35, 2.95), plain=True)
arrow(axes, (1.95, 2.8), (3.35, 2.05), plain=True)
arrow(axes, (1.95, 1.05), (3.35, 1.85), plain=True)
arrow(axes, (1.95, 0.95), (3.2, 0.95), plain=True)
for y in (2.95, 1.95, 0.95):
    arrow(axes, (4.98, y), (6.28, y), label="writes", plain=True)
caption(
    axes,
    0.35,
    0.3,
    "After deepcopy: one function serves both models, and objects are duplicated.",
)
show(
    figure,
    "After deepcopy, the original and the copy both have the same function as a hook, "
    "and it writes into one log. The original also has the recorder, which writes "
    "into its list. The copy has a copy of the recorder, which writes into another "
    "list.",
)

# %% [markdown]
# Each of these lines concerns a model with a hook:
#
# 1. `pickle.dumps(model)`, where the hook is a lambda
# 2. `model.state_dict()`, with the same hook
# 3. `copy.deepcopy(model)`, where the hook has stored an output, with its graph, as an attribute of the module
#
# (Pickle stores a function by its name, and looks it up again when it loads. `deepcopy` can copy leaves, but no tensor
# that has a graph behind it.)
#
# **Predict.** Which of them raises? Write `"works"` or `"raises"` for each.

# %%
guess("11-which-raise", pickle="raises", state_dict="works", deepcopy="raises")


# %%
def outcome(fn, *args):
    """The exception that this call raises, or "works"."""
    try:
        fn(*args)
    except (AttributeError, RuntimeError, pickle.PicklingError) as error:
        return error
    return "works"


hooked = nn.Linear(4, 1)
handle = hooked.register_forward_hook(lambda module, args, output: None)
pickled, as_dict = outcome(pickle.dumps, hooked), outcome(hooked.state_dict)
assert isinstance(
    outcome(torch.save, hooked, __import__("io").BytesIO()),
    (AttributeError, pickle.PicklingError),
)
print("state_dict holds:", list(hooked.state_dict()))
assert list(hooked.state_dict()) == ["weight", "bias"]

handle.remove()
handle = hooked.register_forward_hook(
    lambda module, args, output: setattr(module, "last", output)
)
hooked(batch)
deep_copied = outcome(copy.deepcopy, hooked)
for name, result in (
    ("pickle", pickled),
    ("state_dict", as_dict),
    ("deepcopy", deep_copied),
):
    print(
        f"{name:11}",
        result
        if result == "works"
        else f"{type(result).__name__}: {str(result)[:70]} ...",
    )
compare("11-which-raise", pickle=pickled, state_dict=as_dict, deepcopy=deep_copied)
assert (
    isinstance(pickled, (AttributeError, pickle.PicklingError)) and as_dict == "works"
)
assert "Only Tensors created explicitly by the user" in str(deep_copied)

# %% [markdown] explains="11-which-raise"
# The first and the third raise. A lambda has no name by which it could be found again; `torch.save(model, path)` fails in
# the same way. A `state_dict` holds parameters and buffers, never a hook: one more reason to save that instead. And where
# a hook stores an output, it should store `output.detach()`.

# %% [markdown]
# *Go deeper: the next exercise is optional, and works with the private dicts again.*


# %% exercise="11-clean-copy"
def clean_copy(model):
    """A deep copy of the model, without module hooks; the original keeps its own."""
    ### BEGIN SOLUTION
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
        module._backward_pre_hooks.clear()
        module._backward_hooks.clear()
    return copied
    ### END SOLUTION


# %% [markdown]
# ## Where does the NaN come from?
#
# The loss is NaN. Which layer did that? Here is a chain of five, and two harmless numbers to send through it, -1 and 2.


# %%
class Log(nn.Module):
    """The natural logarithm of each entry."""

    def forward(self, x):
        return x.log()


class Centre(nn.Module):
    """Subtracts the mean of each row."""

    def forward(self, x):
        return x - x.mean(1, keepdim=True)


chain = nn.Sequential(nn.Identity(), nn.ReLU(), Log(), Centre(), nn.Linear(2, 1))
numbers = torch.tensor([[-1.0, 2.0]])

# %% [markdown]
# **Predict.** Which layer is the first to output a NaN? And which is the first whose output has any number that is not
# finite (NaN or infinite)? Write `"Identity"`, `"ReLU"`, `"Log"`, `"Centre"` or `"Linear"`.

# %%
guess("11-first-nan", first_nan="Centre", first_not_finite="Log")

# %%
rows, handles = [], []


def note(module, args, output):
    rows.append(
        (type(module).__name__, args[0].flatten().tolist(), output.flatten().tolist())
    )


for module in chain:
    handles.append(module.register_forward_hook(note))
chain(numbers)
for handle in handles:
    handle.remove()
for name, before, after in rows:
    print(f"{name:9} {before}  ->  {after}")
after = [torch.tensor(values) for _, _, values in rows]
first_nan = next(row[0] for row, values in zip(rows, after) if values.isnan().any())
first_not_finite = next(
    row[0] for row, values in zip(rows, after) if not values.isfinite().all()
)
print("first NaN:", first_nan, "  first not finite:", first_not_finite)
compare("11-first-nan", first_nan=first_nan, first_not_finite=first_not_finite)
assert [bool(values.isfinite().all()) for values in after] == [
    True,
    True,
    False,
    False,
    False,
]
assert [bool(values.isnan().any()) for values in after] == [
    False,
    False,
    False,
    True,
    True,
]

# %% tags=["figure"]
figure, axes = card(8.2, 2.5)
caption(axes, 0.35, 2.2, "Two numbers on their way through the chain", size=11)
steps = [
    ("Identity", "-1, 2"),
    ("ReLU", "0, 2"),
    ("Log", "-inf, 0.69"),
    ("Centre", "nan, inf"),
    ("Linear", "nan"),
]
for index, (name, values) in enumerate(steps):
    x = 0.95 + 1.57 * index
    bad = index >= 2
    node(axes, x, 1.35, name, kind="loss" if name == "Log" else "plain", width=1.05)
    caption(axes, x, 0.85, values, align="center", colour=BACKWARD if bad else FORWARD)
    if index:
        arrow(axes, (x - 0.99, 1.35), (x - 0.56, 1.35))
caption(axes, 0.35, 0.3, "Blue: finite. Orange: not finite.")
show(
    figure,
    "The values after each layer of the chain. Identity: -1 and 2. ReLU: 0 and 2. "
    "Log: minus infinity and 0.69. Centre: nan and inf. Linear: nan. The values are "
    "orange from Log on, and Log itself is marked.",
)
assert [round(value, 2) for value in rows[2][2]] == [float("-inf"), 0.69]
assert str(rows[3][2]) == "[nan, inf]" and str(rows[4][2]) == "[nan]"

# %% [markdown] explains="11-first-nan"
# `Centre` outputs the first NaN, but it is a victim: minus infinity minus minus infinity is a NaN. `Log` is to blame:
# **finite in, not finite out**. `torch.isfinite` tells: it is false for NaN, for Inf and for -Inf.

# %% [markdown]
# So a hook has to compare what goes in with what comes out. Does a forward hook have both?
#
# **Predict.** A layer takes the logarithm in place, `x.log_()`. Its input holds 0 and 1. When a *forward hook* on this
# layer looks at `args[0]`, which numbers does it find there? Write `"the input"` or `"the output"`.

# %%
guess("11-in-place", args0="the output")


# %%
class LogInPlace(nn.Module):
    """The natural logarithm of each entry, written over the input."""

    def forward(self, x):
        return x.log_()


in_place, seen = LogInPlace(), {}
with (
    in_place.register_forward_pre_hook(
        lambda module, args: seen.update(pre_hook=args[0].tolist())
    ),
    in_place.register_forward_hook(
        lambda module, args, output: seen.update(forward_hook=args[0].tolist())
    ),
):
    in_place(torch.tensor([0.0, 1.0]))
print("args[0] in a pre-hook:    ", seen["pre_hook"])
print("args[0] in a forward hook:", seen["forward_hook"])
compare(
    "11-in-place",
    args0="the input" if seen["forward_hook"] == [0.0, 1.0] else "the output",
)
assert seen == {"pre_hook": [0.0, 1.0], "forward_hook": [float("-inf"), 0.0]}

# %% [markdown] explains="11-in-place"
# The input has been overwritten by then. To the forward hook, this layer looks like a victim, although it is to blame.
# Look at the input while it is still the input: in a **pre-hook**. You need not copy it: whether all of it is finite is
# a single `True` or `False`.

# %% [markdown]
# For a NaN that arises in the *backward* pass there is `torch.autograd.detect_anomaly()`. Inside it, `backward` raises at
# the first function that returns a NaN, and a warning shows the line of forward code that it belongs to. It is slow:
# use it to find the line, then take it out again.

# %%
zero = torch.zeros(1, requires_grad=True)
# leave this line out to see the warning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        with torch.autograd.detect_anomaly():
            # the slope of the root at 0 is infinite, and 0 times infinity is NaN
            (0 * zero.sqrt()).backward()
        raise AssertionError("no anomaly was found")
    except RuntimeError as error:
        print("RuntimeError:", error)
        assert "Function 'SqrtBackward0' returned nan values" in str(error)
        assert any(
            "Traceback of forward call that caused the error" in str(one.message)
            for one in caught
        )


# %% exercise="11-first-nonfinite"
def first_nonfinite(model, x):
    """The name of the first leaf that makes NaN or Inf out of finite inputs, or
    None.
    """
    ### BEGIN SOLUTION
    to_blame, good_inputs, handles = [], {}, []

    def finite(values):
        return all(
            bool(torch.isfinite(value).all())
            for value in values
            if isinstance(value, torch.Tensor)
        )

    def before(module, args):
        good_inputs[module] = finite(args)

    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue

            def after(module, args, output, name=name):
                if good_inputs[module] and not finite([output]):
                    to_blame.append(name)

            handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return to_blame[0] if to_blame else None
    ### END SOLUTION


# %% [markdown]
# ## Compiled models
#
# `torch.compile` traces the model at its first call. Hooks that are on it by then become part of the compiled code.
# (`backend="eager"` traces the model, but needs no C++ compiler. Where even that does not run, the cell says so.)
#
# **Predict.** We compile a model, call it once, and then register a hook. Does the hook fire in the next call? Write
# `True` or `False`.

# %%
guess("11-compiled", fires=False)

# %%
net, fired = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
try:
    compiled = torch.compile(net, backend="eager")
    compiled(batch)
except (
    Exception
) as error:  # for example, a Python that is newer than this PyTorch knows
    print("torch.compile does not run here:", type(error).__name__)
else:
    handle = net[0].register_forward_hook(
        lambda module, args, output: fired.append("hook")
    )
    compiled(batch)
    print("PyTorch", torch.__version__, "  fired in the next call:", fired)
    compare("11-compiled", fires=bool(fired))
    if torch.__version__ >= (2, 13):
        assert fired == []
    elif torch.__version__ < (2, 5):
        assert fired == ["hook"]
    fired.clear()
    torch.compiler.reset()
    compiled(batch)
    print("after torch.compiler.reset():", fired)
    assert fired == ["hook"]
    handle.remove()

# %% [markdown] explains="11-compiled"
# It depends on the version, and on how the model was compiled. PyTorch 2.4 notices the new hook, compiles again, and the
# hook fires. PyTorch 2.13 **ignores it without a word** after `torch.compile(net)`, and notices it after `net.compile()`.
# So count on neither. Register first and compile afterwards, or call `torch.compiler.reset()`, which throws away all
# compiled code. To look inside a model, it is easiest to use the one that is not compiled.

# %% [markdown]
# ## Myths
#
# **"`.cpu()` frees it."** On a tensor that is on the CPU already, `.cpu()` returns that very tensor, with its graph.
# From a GPU it makes a copy that is part of the graph, so the graph stays on the GPU.

# %%
o = model(batch)
print("o.cpu() is o:", o.cpu() is o)
assert o.cpu() is o
if torch.cuda.is_available():
    print("from a GPU:", model.to("cuda")(batch.cuda()).cpu().grad_fn)
    model.to("cpu")

# %% [markdown]
# **"A number is harmless."** A Python number is. `o.mean()` is a tensor, and its graph holds all four saved tensors of
# our model, as counted above.

# %%
print("o.mean():       ", o.mean())
print("o.mean().item():", o.mean().item())
assert o.mean().numel() == 1 and o.mean().grad_fn is not None and alive["o.mean()"] == 4
assert isinstance(o.mean().item(), float)

# %% [markdown]
# **"Hooks make the model slow."** A hook that does nothing costs a microsecond or so for each call of its module. What
# your hook *does* may cost far more: `.item()` on a GPU, a print, a clone of a large tensor. Measure on your machine:

# %%
identity, x = nn.Identity(), torch.ones(1)
without = min(timeit.repeat(lambda: identity(x), number=2000, repeat=5)) / 2000
with identity.register_forward_hook(lambda module, args, output: None):
    with_hook = min(timeit.repeat(lambda: identity(x), number=2000, repeat=5)) / 2000
print(
    f"one call: {1e6 * without:.2f} µs without a hook, {1e6 * with_hook:.2f} µs with "
    "one"
)
assert with_hook < 1e-3

# %% [markdown]
# ## On your own model
#
# We break a copy of it at its last parameter, and your function finds the place. `your_model` takes a name, or a model
# of yours with an input for it; it downloads nothing.

# %%
from graders.nets import your_model

net, x = your_model("resnet18")
broken = copy.deepcopy(net)
with torch.no_grad():
    list(broken.parameters())[-1].fill_(float("inf"))
try:
    print("as it is:", first_nonfinite(net, x), "  broken:", first_nonfinite(broken, x))
except NotImplementedError:
    print("Solve 11-first-nonfinite, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `m.register_forward_pre_hook(hook)` | `hook(module, args)` | before `forward`: inputs not yet overwritten | `None`: nothing; a value replaces the arguments (lesson 6) |
# | `m.register_forward_hook(hook)` | `hook(module, args, output)` | after `forward` | `None`: nothing; a value replaces the output (lesson 6) |
# | `saved_tensors_hooks(pack, unpack)` | `pack(tensor)`, `unpack(packed)` | when the graph saves a tensor, and when backward needs it | what `pack` returns is kept; what `unpack` returns is used (lesson 12) |
#
# | what you store about an output `o` | keeps the graph | note |
# |---|---|---|
# | `o`, `o.cpu()`, `o.clone()`, `o.mean()` | yes | until `backward()` frees the saved tensors, or you drop it |
# | `o.detach()` | no | shares memory: a later in-place layer rewrites it |
# | `o.detach().clone()` | no | a copy of its own |
# | `o.detach().mean()` | no | a 0-dim tensor |
# | `o.mean().item()` | no | a Python number; waits for the GPU |
#
# | what | hooks of modules | hooks on parameters |
# |---|---|---|
# | `copy.deepcopy(model)` | copied; functions are shared, objects duplicated | dropped |
# | `model.state_dict()` | not in it | not in it |
# | `pickle.dumps(model)`, `torch.save(model, path)` | pickled; a lambda raises an error | dropped |
# | `torch.compile(model)` | those before the first call count; later ones may be ignored | |
# | `handle.remove()` | gone; but after a legacy hook, full backward hooks are refused | gone |
#
# ## Where you meet this in the wild
#
# - **Out of memory after adding logging.** The losses or activations in a list were never detached. The sign: memory
#   grows by the same amount with each batch.
# - **Notebooks.** After five runs of a cell with `register_forward_hook`, its hook logs five times, or doubles five
#   times. Before you trust a number, restart the kernel and run all cells.
# - **Averaged and target networks.** The training code deep-copies a model that has hooks on it, and from then on two
#   models write into one log.
#
# Next: lesson 12 leaves modules behind, for hooks on everything else.

# %%
progress()
