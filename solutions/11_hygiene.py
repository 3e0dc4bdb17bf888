# %% [markdown]
# # Lesson 11. Hygiene: memory, handles, copies, NaN
#
# **The question.** You added one line of logging, and after some hundred batches the memory is full. You ran a cell
# again, and every number in the log appears twice. Why does memory grow, and where do old hooks come from?
#
# **The goal.** You can log without keeping the graph, find and remove hooks whose handles are lost, copy a model
# without its hooks, and name the layer that made the first NaN.
#
# As always: write down what you predict, run the cell, then read on.

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

from graders import check, hint, progress, solution
from graders.figures import BACKWARD, FORWARD, INK, QUIET, arrow, caption, card, node, show

# %% [markdown]
# ## What a log line keeps alive
#
# For the backward pass the graph saves tensors: inputs of linear layers, outputs of `tanh`, and so on. They live as
# long as the graph lives, and the graph lives as long as somebody refers to a tensor that was computed with it.
#
# We can count them. In a `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` context, torch calls `pack` for each
# tensor that the graph saves, and keeps what `pack` returns instead. (More about it in lesson 12.) Our `pack` returns a
# small object, and we hold only a weak reference to it: it shows us when the graph lets go.


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
        return torch.autograd.graph.saved_tensors_hooks(self.pack, lambda token: token.tensor)

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
# **Predict.** A hook on the last layer stores something about its output `o`, in six ways. The model runs once, nobody
# keeps its output, and nobody runs `backward`. How many of the 4 saved tensors are alive afterwards, for each way?

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
    """Saved tensors alive after each batch, when a hook on the last layer logs keep(output)."""
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
assert list(alive.values()) == [4, 4, 4, 4, 0, 0]

# %% [markdown]
# Only two ways let the graph go. A stored tensor that was computed with the graph keeps **all** of it, back to the first
# layer, and it does not matter how small that tensor is. A copy by `clone()` is one more node of the graph. `cpu()` on
# the CPU returns the same tensor, and from a GPU it would be one more node, too.

# %% tags=["figure"]
counts = []
for end in (1, 2, 3):
    saved = SavedTensors()
    with saved.watching():
        model[:end](batch)
    counts.append(len(saved.refs))
assert counts == [1, 2, 4]  # the first Linear saves 1, Tanh 1 more, the last Linear 2 more

figure, axes = card(8.2, 2.9)
caption(axes, 0.35, 2.6, "log.append(o.mean()) keeps everything that this number was computed from", size=11)
node(axes, 0.95, 1.65, "your log", kind="plain", width=1.1)
node(axes, 2.75, 1.65, "o.mean()", kind="loss", note="one number", width=1.2)
for x, name, tensors in ((4.35, "Linear", "2 saved"), (5.85, "Tanh", "1 saved"), (7.35, "Linear", "1 saved")):
    node(axes, x, 1.65, name, kind="non-leaf", below=tensors, width=1.0)
caption(axes, 5.85, 2.12, "the graph", size=9.5, align="center")
for left, right in ((1.55, 2.1), (3.4, 3.8), (4.9, 5.3), (6.4, 6.8)):
    arrow(axes, (left, 1.65), (right, 1.65), plain=True)
node(axes, 2.75, 0.5, "o.detach().mean()", kind="leaf", width=1.8)
arrow(axes, (1.15, 1.35), (1.8, 0.65), dashed=True, label="or", plain=True)
caption(axes, 3.85, 0.5, "has no graph: nothing hangs on it", colour=QUIET)
show(
    figure,
    "Your log refers to o.mean(), a single number. That refers to the node of the graph that made it, and so on: the "
    "last Linear with 2 saved tensors, Tanh with 1, the first Linear with 1. All of them stay alive. If the log refers "
    "to o.detach().mean() instead, that has no graph, and nothing hangs on it.",
)

# %% [markdown]
# In a loop this adds up. We log one number for each of ten batches, once with its graph and once without.
#
# **Predict.** How many saved tensors are alive after the tenth batch, in each case?

# %%
curves = {
    "o.mean()": watch(lambda o: o.mean(), batches=10),
    "o.detach().mean()": watch(lambda o: o.detach().mean(), batches=10),
}
for way, curve in curves.items():
    print(f"{way:18}", curve)
assert curves["o.mean()"] == list(range(4, 41, 4)) and curves["o.detach().mean()"] == [0] * 10

# %% tags=["figure"]
figure, axes = card(8.2, 2.9)
caption(axes, 0.4, 2.6, "Saved tensors alive after each batch, when each batch logs one number", size=11)
for index, count in enumerate(curves["o.mean()"]):
    left = 0.75 + 0.62 * index
    axes.bar(left, 1.5 * count / 40, bottom=0.65, width=0.3, color=BACKWARD)
    caption(axes, left, 0.65 + 1.5 * count / 40 + 0.13, str(count), align="center", size=9)
    caption(axes, left + 0.28, 0.76, str(curves["o.detach().mean()"][index]), align="center", colour=FORWARD, size=10)
    caption(axes, left, 0.45, str(index + 1), align="center", colour=QUIET, size=9)
axes.plot([0.5, 6.75], [0.65, 0.65], color=QUIET, linewidth=0.8)
caption(axes, 0.5, 0.2, "number of the batch", colour=QUIET, size=9)
caption(axes, 6.95, 1.9, "bars: o.mean()", colour=BACKWARD, size=9.5)
caption(axes, 6.95, 0.76, "o.detach().mean()", colour=FORWARD, size=8.5)
show(
    figure,
    "Bar chart over ten batches. With o.mean() in the log, 4 saved tensors are alive after the first batch, and 4 more "
    "after each further batch, up to 40. Beside each bar stands the number for o.detach().mean(): always 0.",
)

# %% [markdown]
# Why does not every training script with `losses.append(loss)` run out of memory? Because `backward()` frees the saved
# tensors as it goes (unless `retain_graph=True`). What remains are the nodes of the graph, which are small. The
# evaluation loop without `torch.no_grad()` is where it hurts: nobody calls `backward()` there.

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
# So for a statistic: `output.detach().mean()`. It is a 0-dim tensor without a graph. `.item()` gives a Python number,
# which keeps no graph either; but on a GPU, `.item()` makes the program wait until the number is computed. Collect
# 0-dim tensors in the hook, and turn them into numbers later.


# %% exercise="11-mean-activation"
def mean_activation(model, name, x):
    """The mean of what the submodule `name` outputs when the model runs on x, without a graph."""
    ### BEGIN SOLUTION
    means = []

    def hook(module, args, output):
        means.append(output.detach().mean())

    with model.get_submodule(name).register_forward_hook(hook):
        model(x)
    return means[0]
    ### END SOLUTION


# %% [markdown]
# ## A hook that holds its own tensor
#
# There is a second way to keep a graph. A tensor holds its hooks, and a hook is a function, which holds every variable
# that it uses from outside.
#
# **Predict.** Both functions make a tensor `y`, hook it, and end. Nobody else refers to `y`. Which of the two tensors is
# freed? (The hooks use a token, so that we can see it.)


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
print("uses its argument: freed", argument() is None, "  uses its own tensor: freed", own() is None)
assert argument() is None and own() is not None

# %% [markdown]
# The second is **never** freed. `y` holds the hook, and the hook holds `y`: a cycle. Python's garbage collector finds
# cycles of Python objects, but this one passes through the graph, which is not made of Python objects. Two ways out:
# remove the hook, or let it use only what it needs (here, compute `y.norm()` before, without a graph).


# %%
def removed_in_time():
    token = Token(torch.zeros(()))
    y = 2 * torch.ones(3, requires_grad=True)
    with y.register_hook(lambda grad, token=token: print(grad.norm() / y.norm())):
        pass
    return weakref.ref(token)


removed = removed_in_time()
gc.collect()
assert removed() is None
print("hook removed: freed", removed() is None)

# %% [markdown]
# ## Where old hooks come from
#
# Registering never replaces a hook, it adds one. A cell that registers a hook and is run three times leaves three. And
# the handle is the only public way to remove it.
#
# **Predict.** The cell below registers a hook that doubles the output. It is run twice. Then the name `handle` is
# deleted. By which factor is the output too large?


# %%
def the_cell():
    return layer.register_forward_hook(lambda module, args, output: 2 * output)


layer = nn.Linear(4, 4)
plain = layer(batch)
handle = the_cell()
handle = the_cell()  # the first handle is lost
del handle  # and now the second, too
gc.collect()
factor = (layer(batch) / plain).mean().item()
print(f"too large by a factor of {factor:g}")
assert torch.equal(layer(batch), 4 * plain)

# %% [markdown]
# By 4. Both hooks are on the layer, and both handles are lost. Losing a handle does not remove the hook; you only lose
# the means to remove it. Three habits prevent this:
#
# 1. `with module.register_forward_hook(hook):` for everything that is needed in one place.
# 2. `try`, `finally`, and a list of handles, when there are many.
# 3. In a notebook: keep the handle, and remove the old one in the same cell in which you register anew. `remove()` may
#    be called twice without harm.

# %%
layer, handle, calls = nn.Linear(4, 4), None, []
for _ in range(3):  # the same cell, run three times
    if handle is not None:
        handle.remove()
    handle = layer.register_forward_hook(lambda module, args, output: calls.append("hook"))
layer(batch)
print("calls:", calls)
assert calls == ["hook"]
handle.remove()
handle.remove()

# %% [markdown]
# ## A look inside: where a module keeps its hooks
#
# What if the handles are lost already, or were never yours? There is no public way to list the hooks of a module. In a
# debugging session you may look inside. What follows are private attributes: they are the same in torch 2.4 and 2.13,
# and they may change without notice. Do not build a library on them.

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
print("options only:        _forward_hooks_with_kwargs", dict(layer._forward_hooks_with_kwargs))
assert [len(hooks) for hooks in four.values()] == [1, 2, 1, 1]
assert len(layer._forward_hooks_with_kwargs) == 1

layer._backward_hooks.clear()
handle.remove()  # its hook is gone already: harmless
assert len(layer._backward_hooks) == 0

# %% [markdown]
# A module has **four dicts of hooks**, one for each kind. Each maps a number to a hook. Full backward hooks and those of
# the deprecated `register_backward_hook` share `_backward_hooks`. Dicts such as `_forward_hooks_with_kwargs` hold no
# hooks: they note which hooks in the four dicts have an option.
#
# A handle has a weak reference to its dict and the number of its hook, and `remove()` deletes that entry if it is still
# there. So after `clear()`, old handles are harmless, and new hooks get new numbers. A plain `{}` in the place of the
# dict would break that: Python has no weak references to a plain dict, and the next registration would raise a
# `TypeError`.
#
# The hook on `layer.weight` is in none of the four: it belongs to the parameter.

# %% tags=["figure"]
figure, axes = card(8.2, 3.75)
caption(axes, 0.35, 3.45, "A module, its four dicts, and a handle", size=11)
node(axes, 1.15, 1.95, "module", kind="leaf", width=1.3)
names = ["_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"]
for index, (name, entry) in enumerate(zip(names, ["{3: …}", "{4: …, 5: hook}", "{6: …}", "{7: …}"])):
    y = 2.9 - 0.65 * index
    node(axes, 4.1, y, f"{name}  {entry}", kind="hook", width=3.3, height=0.4)
    arrow(axes, (1.85, 1.95), (2.4, y), plain=True)
node(axes, 7.2, 2.25, "handle", kind="plain", width=1.0)
caption(axes, 7.2, 1.82, "number 5", align="center", size=9.5)
arrow(axes, (6.65, 2.25), (5.8, 2.25), dashed=True, plain=True)
caption(axes, 0.35, 0.3, "Dashed: a weak reference. remove() deletes entry 5. Without the handle, the entry stays.")
show(
    figure,
    "A module refers to four dicts: _forward_pre_hooks with the entry 3, _forward_hooks with the entries 4 and 5, "
    "_backward_pre_hooks with the entry 6, and _backward_hooks with the entry 7. A handle with the number 5 has a weak "
    "reference to _forward_hooks. Its remove() deletes entry 5. Without the handle, the entry stays.",
)

# %% [markdown]
# ### The flag that a legacy hook leaves
#
# The old `register_backward_hook` (lesson 7) leaves something behind that is in no dict. A module takes either these
# legacy hooks or full backward hooks, never both. A **flag** says which: `_is_full_backward_hook` is `None` at first,
# `False` after a legacy hook, `True` after a full one.
#
# **Predict.** A legacy hook is registered, and its handle removes it. All dicts are empty. Can the layer take a full
# backward hook now?

# %% tags=["a-look-inside"]
# A look inside: private attributes, for debugging only.
old = nn.Linear(4, 4)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is deprecated
    old.register_backward_hook(lambda module, grad_input, grad_output: None).remove()
print("hooks:", len(old._backward_hooks), "  flag:", old._is_full_backward_hook)
assert len(old._backward_hooks) == 0 and old._is_full_backward_hook is False

for module in (old, copy.deepcopy(old)):
    try:
        module.register_full_backward_hook(lambda module, grad_input, grad_output: None)
        raise AssertionError("it was registered")
    except RuntimeError as error:
        print("RuntimeError:", str(error).split(". ")[0])
        assert "Cannot use both regular backward hooks and full backward hooks" in str(error)

old._is_full_backward_hook = None
old.register_full_backward_hook(lambda module, grad_input, grad_output: None).remove()
print("flag:", old._is_full_backward_hook)
assert old._is_full_backward_hook is True

# %% [markdown]
# No. Nothing sets the flag back: neither `handle.remove()` nor `clear()`. A deep copy takes it along. So whoever empties
# the dicts of a module, and wants the module to be as new, sets the flag to `None` as well.
#
# ### What may not be removed
#
# Emptying these dicts is a hammer. Some hooks are part of how a model works: `torch.nn.utils.prune`, for example,
# recomputes the pruned weight in a forward pre-hook, each time the layer is called. Remove that hook, and the layer
# computes with a stale weight from then on.

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


# %% exercise="11-remove-all-hooks"
def remove_all_hooks(model):
    """Remove all module hooks from the model and everything in it; returns how many there were."""
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
# A copy of a model is needed for a moving average of the weights, for a target network, for an experiment on the side.
# `copy.deepcopy(model)` copies parameters and buffers. And hooks?
#
# **Predict.** The original has a forward hook that is a function, a forward hook that is an object with a list of its
# own, and a hook on its weight. We copy it, run **only the copy**, forward and backward. Which of the three hooks have
# fired, and which logs have an entry?


# %%
class Recorder:
    """A hook that is an object: it writes into its own list. The class counts the calls of all recorders."""

    calls = 0

    def __init__(self):
        self.seen = []

    def __call__(self, module, args, output):
        self.seen.append("output")
        Recorder.calls += 1


log, on_weight, recorder = [], [], Recorder()
original = nn.Linear(4, 1)
handle = original.register_forward_hook(lambda module, args, output: log.append("output"))
original.register_forward_hook(recorder)
original.weight.register_hook(lambda grad: on_weight.append("grad"))

copied = copy.deepcopy(original)
copied(batch).sum().backward()
print("the log of the function:", log)
print("the list of the recorder:", recorder.seen, "  calls of recorders:", Recorder.calls)
print("the log of the hook on the weight:", on_weight)
assert (log, recorder.seen, on_weight) == (["output"], [], []) and Recorder.calls == 1

handle.remove()
copied(batch)
assert log == ["output", "output"]  # the hook is still on the copy

# %% [markdown]
# - **Module hooks are copied.** A function is copied by reference: the copy calls *the same* function, and that writes
#   into the log of the original.
# - **A hook that is an object is copied, too, with all that it holds.** The copy's recorder wrote into the copy's list,
#   which nobody looks at.
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
caption(axes, 0.35, 0.3, "After deepcopy: one function serves both models, and objects are doubled.")
show(
    figure,
    "After deepcopy, the original and the copy both have the same function as a hook, and it writes into one log. The "
    "original also has the recorder, which writes into its list. The copy has a copy of the recorder, which writes into "
    "another list.",
)

# %% [markdown]
# **Predict.** Each of the next three lines concerns a model with a hook. Which of them fails?
#
# 1. `pickle.dumps(model)`, where the hook is a lambda
# 2. `model.state_dict()`
# 3. `copy.deepcopy(model)`, where the hook has stored an output, with its graph, as an attribute of the module

# %%
hooked = nn.Linear(4, 1)
handle = hooked.register_forward_hook(lambda module, args, output: None)
try:
    pickle.dumps(hooked)
    raise AssertionError("it was pickled")
except (AttributeError, pickle.PicklingError) as error:
    print("pickle:", type(error).__name__)

print("state_dict:", list(hooked.state_dict()))
assert list(hooked.state_dict()) == ["weight", "bias"]

handle.remove()
handle = hooked.register_forward_hook(lambda module, args, output: setattr(module, "last", output))
hooked(batch)
try:
    copy.deepcopy(hooked)
    raise AssertionError("it was copied")
except RuntimeError as error:
    print("deepcopy:", str(error).split("(")[0])
    assert "Only Tensors created explicitly by the user" in str(error)

# %% [markdown]
# The first and the third. Pickle stores a function by its name, and a lambda has none that could be found again; this
# also hits `torch.save(model, path)`. A `state_dict` holds parameters and buffers and never a hook, which is one more
# reason to save that. And a tensor with a graph behind it cannot be deep-copied: store `output.detach()`.


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
# The loss is NaN. Every layer behind the bad one is full of NaN as well, and often the first bad value was not a NaN:
# `log` of 0 is minus infinity, and an infinity minus an infinity is a NaN.
#
# **Predict.** The model below gets good numbers. Which layer is to blame: the first one that outputs a NaN?


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
rows, handles = [], []


def note(module, args, output):
    rows.append((type(module).__name__, args[0].flatten().tolist(), output.flatten().tolist()))


for module in chain:
    handles.append(module.register_forward_hook(note))
chain(numbers)
for handle in handles:
    handle.remove()
for name, before, after in rows:
    print(f"{name:9} {before}  ->  {after}")
after = [torch.tensor(values) for _, _, values in rows]
assert [bool(values.isfinite().all()) for values in after] == [True, True, False, False, False]
assert [bool(values.isnan().any()) for values in after] == [False, False, False, True, True]

# %% tags=["figure"]
figure, axes = card(8.2, 2.5)
caption(axes, 0.35, 2.2, "Two numbers on their way through the chain", size=11)
steps = [("Identity", "-1, 2"), ("ReLU", "0, 2"), ("Log", "-inf, 0.69"), ("Centre", "nan, inf"), ("Linear", "nan")]
for index, (name, values) in enumerate(steps):
    x = 0.95 + 1.57 * index
    bad = index >= 2
    node(axes, x, 1.35, name, kind="loss" if name == "Log" else "plain", width=1.05)
    caption(axes, x, 0.85, values, align="center", colour=BACKWARD if bad else FORWARD)
    if index:
        arrow(axes, (x - 0.99, 1.35), (x - 0.56, 1.35))
caption(axes, 0.35, 0.3, "Log is to blame: finite values go in, and -inf comes out. Centre and Linear are victims.")
show(
    figure,
    "The values after each layer of the chain. Identity: -1 and 2. ReLU: 0 and 2. Log: minus infinity and 0.69. Centre: "
    "nan and inf. Linear: nan. Log is to blame: finite values go in, and minus infinity comes out. Centre and Linear "
    "are victims, since they got a value that was not finite.",
)
assert [round(value, 2) for value in rows[2][2]] == [float("-inf"), 0.69]
assert str(rows[3][2]) == "[nan, inf]" and str(rows[4][2]) == "[nan]"

# %% [markdown]
# `Centre` outputs the first NaN, but it is a victim. `Log` is to blame: **finite in, not finite out**. The test for both
# is `torch.isfinite`, which is false for NaN, for Inf and for -Inf.
#
# So a hook compares what goes in with what comes out. There is one trap.
#
# **Predict.** This layer takes the logarithm in place. Its input is 0 and 1. What does a *forward hook* on it see as
# `args[0]`?


# %%
class LogInPlace(nn.Module):
    """The natural logarithm of each entry, written over the input."""

    def forward(self, x):
        return x.log_()


in_place, seen = LogInPlace(), {}
with (
    in_place.register_forward_pre_hook(lambda module, args: seen.update(pre_hook=args[0].tolist())),
    in_place.register_forward_hook(lambda module, args, output: seen.update(forward_hook=args[0].tolist())),
):
    in_place(torch.tensor([0.0, 1.0]))
print(seen)
assert seen == {"pre_hook": [0.0, 1.0], "forward_hook": [float("-inf"), 0.0]}

# %% [markdown]
# The input is already overwritten. To the forward hook this layer looks like a victim, although it is to blame. Look at
# the input where it is still itself: in a **pre-hook**. It needs no copy of the input, since "all finite" is one
# truth value.
#
# For a NaN that arises in the *backward* pass there is `torch.autograd.detect_anomaly()`: in this context, `backward`
# raises at the first function that returns a NaN, and a warning shows the forward line that belongs to it. It is slow:
# use it to find the line, and take it out again.

# %%
zero = torch.zeros(1, requires_grad=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # leave this line out to see the warning
    try:
        with torch.autograd.detect_anomaly():
            (0 * zero.sqrt()).backward()  # the slope of the root at 0 is infinite, and 0 times infinity is NaN
        raise AssertionError("no anomaly was found")
    except RuntimeError as error:
        print("RuntimeError:", error)
        assert "Function 'SqrtBackward0' returned nan values" in str(error)


# %% exercise="11-first-nonfinite"
def first_nonfinite(model, x):
    """The name of the first leaf that makes NaN or Inf out of finite inputs, or None."""
    ### BEGIN SOLUTION
    to_blame, good_inputs, handles = [], {}, []

    def finite(values):
        return all(bool(torch.isfinite(value).all()) for value in values if isinstance(value, torch.Tensor))

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
# `torch.compile` traces the model at its first call, and hooks that are there by then become part of the compiled code.
#
# **Predict.** We compile a model, call it once, and then register a hook. Does the hook fire in the next call?
#
# The answer depends on the version of torch. (`backend="eager"` traces the model and needs no compiler for C++. On a
# machine where even that does not run, the cell says so.)

# %%
version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
net, fired = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
try:
    compiled = torch.compile(net, backend="eager")
    compiled(batch)
except Exception as error:  # for example, a Python that is newer than this torch knows
    print("torch.compile does not run here:", type(error).__name__)
else:
    handle = net[0].register_forward_hook(lambda module, args, output: fired.append("hook"))
    compiled(batch)
    print("torch", torch.__version__, "  fired in the next call:", fired)
    if version >= (2, 13):
        assert fired == []
    if version == (2, 4):
        assert fired == ["hook"]
    fired.clear()
    torch.compiler.reset()
    compiled(batch)
    print("after torch.compiler.reset():", fired)
    assert fired == ["hook"]
    handle.remove()

# %% [markdown]
# torch 2.4 notices the new hook, compiles again, and the hook fires. torch 2.13 **ignores it without a word**: it no
# longer checks at each call whether the hooks of a module have changed. With both, the remedy is the same: register
# first and compile afterwards, or call `torch.compiler.reset()`, which throws all compiled code away. When you want to
# look inside a model, look at the one that is not compiled.
#
# ## Myths
#
# **"`.cpu()` frees it."** On a tensor that is on the CPU already, `.cpu()` returns that very tensor, with its graph.
# From a GPU it makes a copy that is a part of the graph, so the graph stays on the GPU.

# %%
o = model(batch)
assert o.cpu() is o
if torch.cuda.is_available():
    assert model.to("cuda")(batch.cuda()).cpu().grad_fn is not None
    model.to("cpu")

# %% [markdown]
# **"A number is harmless."** A Python number is. `o.mean()` is a tensor, and its graph holds all four saved tensors of
# our model, as counted above.

# %%
assert o.mean().numel() == 1 and o.mean().grad_fn is not None and alive["o.mean()"] == 4
assert isinstance(o.mean().item(), float)

# %% [markdown]
# **"Hooks make the model slow."** A hook that does nothing costs in the order of microseconds for each call of its
# module; in one measurement, 3.63 µs for a call became 4.59 µs. What your hook *does* may cost more: `.item()` on a GPU,
# a print, a clone of a large tensor. Times depend on the machine and on what else it is doing. Measure on yours:

# %%
identity, x = nn.Identity(), torch.ones(1)
without = min(timeit.repeat(lambda: identity(x), number=2000, repeat=5)) / 2000
with identity.register_forward_hook(lambda module, args, output: None):
    with_hook = min(timeit.repeat(lambda: identity(x), number=2000, repeat=5)) / 2000
print(f"one call: {1e6 * without:.2f} µs without a hook, {1e6 * with_hook:.2f} µs with one")
assert with_hook < 1e-3

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
# | `copy.deepcopy(model)` | copied; functions are shared, objects are doubled | dropped |
# | `model.state_dict()` | not in it | not in it |
# | `pickle.dumps(model)`, `torch.save(model, path)` | pickled; a lambda raises an error | dropped |
# | `torch.compile(model)` | those before the first call count; later ones may be ignored | |
# | `handle.remove()` | gone; but a legacy hook leaves its flag, and full backward hooks are refused | gone |
#
# ## Where you meet this in the wild
#
# - **Out of memory after adding logging.** The list of losses, or of activations, was never detached. The memory grows
#   by the same amount with each batch: that is the sign.
# - **Notebooks.** A cell with `register_forward_hook` that was run five times logs five times, or multiplies by the
#   fifth power. Before you trust a number, restart the kernel and run all cells.
# - **Averaged and target networks.** Training code deep-copies the model after somebody attached hooks to it, and from
#   then on two models write into one log.
#
# Next: lesson 12 leaves modules behind: hooks on everything that happens.

# %%
progress()
