# %% [markdown]
# # Lesson 7. Module backward hooks
#
# **The question.** Training stalls, and you suspect one layer. What gradient enters this layer during `backward()`,
# and what gradient leaves it?
#
# **The goal.** You can read both gradients of any module, change either of them and say what else changes with it, and
# you know when a hook on a tensor is the better tool.
#
# As before: guess, run, read on.

# %%
import warnings

import torch
from torch import nn

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
    timeline,
)

torch.manual_seed(0)


def linear(weight, bias):
    """A linear layer with the given numbers."""
    layer = nn.Linear(len(weight[0]), len(weight))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    return layer


# %% [markdown]
# ## Two gradients for one module
#
# In the forward pass a module turns an input `x` into an output `y`. In the backward pass the order is reversed. First
# dL/dy arrives, the gradient of the loss with respect to the output. From it the module computes dL/dx, the gradient
# with respect to the input, and sends it on to the layers before. PyTorch names the two after the tensors that they
# belong to:
#
# - `grad_output` is dL/dy. It comes first: it is what goes *into* the backward pass of the module.
# - `grad_input` is dL/dx. It comes out of the backward pass of the module.

# %% tags=["figure"]
figure, axes = card(8.2, 3.0)
node(axes, 0.95, 2.0, "x", kind="leaf", width=0.8)
node(axes, 4.1, 2.0, "module", kind="plain", width=1.7, height=1.0)
node(axes, 7.25, 2.0, "y", kind="non-leaf", width=0.8)
node(axes, 4.1, 0.55, "weight.grad, bias.grad", kind="leaf", width=2.3, height=0.5)
arrow(axes, (1.35, 2.25), (3.25, 2.25))
arrow(axes, (4.95, 2.25), (6.85, 2.25))
arrow(axes, (6.85, 1.75), (4.95, 1.75), label="grad_output", backward=True)
arrow(axes, (3.25, 1.75), (1.35, 1.75), label="grad_input", backward=True)
arrow(axes, (4.1, 1.5), (4.1, 0.8), backward=True)
caption(axes, 5.9, 2.55, "forward", colour=FORWARD, align="center")
caption(axes, 5.9, 1.4, "backward", colour=BACKWARD, align="center")
show(
    figure,
    "A module between its input x and its output y. In the forward pass the arrows "
    "lead from x to the module and from the module to y. In the backward pass "
    "grad_output leads from y to the module, grad_input leads from the module to x, "
    "and a third arrow leads from the module to weight.grad and bias.grad.",
)

# %% [markdown]
# A **full backward hook** shows both. You register it on the module, and it is called as
#
# `hook(module, grad_input, grad_output)`
#
# as soon as `grad_input` is complete, normally once for each call of the module.
#
# **Predict.** A linear layer with weight and bias takes 3 numbers to 2, and the batch has 2 rows. The hook gets both
# gradients as tuples. How many entries does `grad_input` have? What is the shape of its first entry, and what is the
# shape of the first entry of `grad_output`? Write shapes as tuples, such as `(4, 5)`.

# %%
guess("07-two-tuples", entries=1, grad_input=(2, 3), grad_output=(2, 2))

# %%
lin = linear([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]], [0.0, 0.0])
x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], requires_grad=True)
factors = torch.tensor([[1.0, 0.0], [2.0, 1.0]])

seen = {}


def look(module, grad_input, grad_output):
    seen["gi"], seen["go"] = grad_input, grad_output


with lin.register_full_backward_hook(look):
    (factors * lin(x)).sum().backward()

gi, go = seen["gi"], seen["go"]
print(
    "grad_input: ",
    type(gi).__name__,
    "of",
    len(gi),
    "entry of shape",
    tuple(gi[0].shape),
)
print(
    "grad_output:",
    type(go).__name__,
    "of",
    len(go),
    "entry of shape",
    tuple(go[0].shape),
)
compare(
    "07-two-tuples",
    entries=len(gi),
    grad_input=tuple(gi[0].shape),
    grad_output=tuple(go[0].shape),
)
assert type(gi) is type(go) is tuple and len(gi) == len(go) == 1
assert gi[0].shape == x.shape == (2, 3) and go[0].shape == (2, 2)

# %% [markdown] explains="07-two-tuples"
# Both are **tuples**: `grad_input` has one entry for each input of the module, `grad_output` one for each output. Even
# a single gradient comes in a tuple. Each entry has the shape of the tensor that it belongs to. Parameters are not
# inputs, so their gradients are not in `grad_input`.

# %% [markdown]
# ## The arithmetic of a linear layer
#
# With `W` for `lin.weight` and `b` for `lin.bias`, the layer computes `y = x @ W.T + b`. The loss is
# `(factors * y).sum()`, so `grad_output` must be `factors`. For the rest the chain rule gives three formulas:
#
# - `grad_input = grad_output @ W`
# - `W.grad = grad_output.T @ x`
# - `b.grad =` the sum of `grad_output` over the rows
#
# **Predict.** What is the first row of `grad_input`? By hand, it is `[1, 0] @ [[1, 2, 0], [0, 1, 3]]`. Write a list.

# %%
guess("07-first-row", row=[1, 2, 0])

# %%
print("grad_output:\n", go[0])
print("grad_input:\n", gi[0])
print("grad_input == grad_output @ W:  ", torch.equal(gi[0], go[0] @ lin.weight))
print("W.grad == grad_output.T @ x:    ", torch.equal(lin.weight.grad, go[0].T @ x))
print("b.grad == grad_output.sum(0):   ", torch.equal(lin.bias.grad, go[0].sum(0)))
print("x.grad == grad_input:           ", torch.equal(x.grad, gi[0]))
compare("07-first-row", row=gi[0][0])
assert torch.equal(go[0], factors)
assert torch.equal(gi[0], go[0] @ lin.weight) and gi[0].tolist() == [
    [1, 2, 0],
    [2, 5, 3],
]
assert torch.equal(gi[0], x.grad)
assert torch.equal(lin.weight.grad, go[0].T @ x) and torch.equal(
    lin.bias.grad, go[0].sum(0)
)

# %% [markdown] explains="07-first-row"
# All three formulas hold. And since `x` is a leaf that is used nowhere else, what leaves the module is what ends up in
# `x.grad`.

# %% [markdown]
# ## When there is nothing to send on
#
# The first layer of a model gets the data, and data does not require grad. PyTorch computes no gradient that nobody needs.
# But one arrives at the output of this layer, as always.
#
# **Predict.** What is the entry of `grad_input` there? Or is the hook not called at all?

# %%
guess("07-data-first", entry=None)  # "zeros", None or "not called"

# %%
seen.clear()
with (
    warnings.catch_warnings(record=True) as caught,
    lin.register_full_backward_hook(look),
):
    warnings.simplefilter("always")
    (factors * lin(x.detach())).sum().backward()

print("grad_input:", seen.get("gi"))
print("grad_output:", seen.get("go"))
for warning in caught:
    print("\nPyTorch warns:", str(warning.message).split(". ")[0])
compare("07-data-first", entry=seen["gi"][0] if seen else "not called")
assert seen["gi"] == (None,) and torch.equal(seen["go"][0], factors)

# %% [markdown] explains="07-data-first"
# `(None,)`: a tuple with one entry, as before, for a gradient that was not computed. The hook runs all the same, because
# `grad_output` is there. (Recent versions of PyTorch warn here: the hook could not wait for
# `grad_input`. We come back to that.)

# %% [markdown]
# **And when the input requires grad, but no gradient ever comes to it?** Below, the output depends on `x` only through
# `x > 0`, which has no derivative. What arrives at the output reaches the weight, and nothing reaches `x`.
#
# **Predict.** How often is the full backward hook called?

# %%
guess("07-calls-of-gate", calls=0)


# %%
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.weight * (x > 0)


gate, calls = Gate(), []
with gate.register_full_backward_hook(lambda *args: calls.append("full hook")):
    gate(x).sum().backward()
print("calls:", len(calls), "  weight.grad:", gate.weight.grad.tolist())
compare("07-calls-of-gate", calls=len(calls))
assert calls == [] and gate.weight.grad.tolist() == [1, 1, 2]

# %% [markdown] explains="07-calls-of-gate"
# The weight got its gradient, but the hook waited for `grad_input` in vain. So trust an entry in a log of full
# backward hooks, but do not conclude from a missing one that the module had no part in the pass.

# %% [markdown]
# **An entry may be `None`.** Code that calls `.clone()` or `.abs()` on each entry has to check first.
#
# The module may be as large as you like. For a composite module, the hook reports the input and the output of the
# whole, not of some operation inside:


# %%
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return (2 * self.fc(x)).relu()


block = Block()
with block.register_full_backward_hook(look):
    block(torch.ones(1, 3, requires_grad=True)).sum().backward()
print(
    "grad_input:",
    tuple(seen["gi"][0].shape),
    " grad_output:",
    tuple(seen["go"][0].shape),
)
assert seen["gi"][0].shape == (1, 3) and seen["go"][0].shape == (1, 2)

# %% [markdown]
# One old rule holds here, too. The tensors in both tuples are the ones that autograd goes on working with, and
# somebody may overwrite them in place a moment later. If you want to keep one, store `entry.detach().clone()`.


# %%
def careless(grad):
    grad.zero_()


h = 1 * x
h.register_hook(careless)
with lin.register_full_backward_hook(look):
    (factors * lin(h)).sum().backward()
print("grad_input that we kept:", seen["gi"][0].tolist())
assert seen["gi"][0].abs().sum() == 0

# %% [markdown]
# The module's hook kept the tensor itself, and then the hook on `h` overwrote it with zeros.
#
# Time for your first exercise.


# %% exercise="07-watch-module-grads"
def watch_module_grads(module):
    """A dict that always holds grad_input and grad_output of the latest pass, and
    the handle.
    """
    ### BEGIN SOLUTION
    latest = {}

    def copies(grads):
        return tuple(None if grad is None else grad.detach().clone() for grad in grads)

    def hook(module, grad_input, grad_output):
        latest["gi"] = copies(grad_input)
        latest["go"] = copies(grad_output)

    return latest, module.register_full_backward_hook(hook)
    ### END SOLUTION


# %% [markdown]
# ## Two moments: before and after
#
# There is a second kind. A **full backward pre-hook** is called as `hook(module, grad_output)`: no `grad_input`,
# because that does not exist yet. It runs when `grad_output` is complete and the backward pass of the module is about
# to begin. The full backward hook runs when `grad_input` is complete, at the end.
#
# The block below is a linear layer followed by a tanh. We put both kinds of hook on all three modules, and the input
# requires grad.
#
# **Predict.** In which order do the six hooks run? Write a list of their names: `"block.pre"`, `"block.full"`,
# `"linear.pre"`, `"linear.full"`, `"tanh.pre"`, `"tanh.full"`.

# %%
guess(
    "07-six-hooks",
    order=[
        "block.pre",
        "tanh.pre",
        "tanh.full",
        "linear.pre",
        "linear.full",
        "block.full",
    ],
)


# %%
def six_events(x):
    block = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    events = []
    for name, module in {"block": block, "linear": block[0], "tanh": block[1]}.items():
        module.register_full_backward_pre_hook(
            lambda *args, name=name: events.append(f"{name}.pre")
        )
        module.register_full_backward_hook(
            lambda *args, name=name: events.append(f"{name}.full")
        )
    block(x).sum().backward()
    return events


events = six_events(torch.ones(1, 2, requires_grad=True))
for event in events:
    print(event)
compare("07-six-hooks", order=events)

# %% tags=["figure"]
assert events == [
    "block.pre",
    "tanh.pre",
    "tanh.full",
    "linear.pre",
    "linear.full",
    "block.full",
]
early, late = "pre-hook: grad_output is complete", "full hook: grad_input is complete"
figure = timeline(
    [
        ("block: gradient of its output", early),
        ("tanh", early),
        ("tanh", late),
        ("linear", early),
        ("linear", late),
        ("block: gradient of its input", late),
    ],
    title="One backward pass through a block with a linear layer and a tanh",
    lanes={early: BACKWARD, late: INK},
)
show(
    figure,
    "Timeline of one backward pass. 1: pre-hook of the block, since the gradient of "
    "its output is known. 2: pre-hook of tanh. 3: full hook of tanh. 4: pre-hook of "
    "linear. 5: full hook of linear. 6: full hook of the block, since the gradient of "
    "its input is known.",
)

# %% [markdown] explains="07-six-hooks"
# The pre-hook of the block comes before everything inside it, its full hook after everything inside it. So if you want
# to note the gradients of outputs in the order in which they become known, use the pre-hook.

# %% [markdown]
# Now the same with an input that needs no gradient. The block has no `grad_input` to wait for, so its full hook runs
# at once, before the layers inside. This is what the warning was about. PyTorch 2.13 also shows it when the module has
# a pre-hook only. There it means nothing: a pre-hook never waits for `grad_input`.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    events = six_events(torch.ones(1, 2))
for event in events:
    print(event)
assert events == [
    "block.pre",
    "block.full",
    "tanh.pre",
    "tanh.full",
    "linear.pre",
    "linear.full",
]

with (
    warnings.catch_warnings(record=True) as caught,
    lin.register_full_backward_pre_hook(lambda *args: None),
):
    warnings.simplefilter("always")
    lin(x.detach()).sum().backward()
# other versions may not
print("PyTorch warns beside a pre-hook alone:", len(caught), "time(s)")
assert all(
    "Full backward hook is firing when gradients are computed" in str(one.message)
    for one in caught
)

# %% [markdown]
# A common use is a table of the gradients of all layers: where do they fade, where do they explode? Containers that
# only pass data along are left out of such a table. To tell them apart, ask which modules have parameters of their
# own: `module.parameters()` includes those of all modules inside, `module.parameters(recurse=False)` does not.

# %%
model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), nn.Linear(2, 1))
for name, module in model.named_modules():
    every, own = list(module.parameters()), list(module.parameters(recurse=False))
    print(
        f"{name or '(model)':8} {type(module).__name__:10} {len(every)} parameters, "
        f"{len(own)} of its own"
    )
assert [len(list(m.parameters(recurse=False))) for m in model.modules()] == [
    0,
    0,
    2,
    0,
    2,
]


# %% exercise="07-gradient-flow"
def gradient_flow(model, loss_fn, x):
    """Module name to mean |gradient| of its output, in backward order."""
    ### BEGIN SOLUTION
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):

                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()

                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
    ### END SOLUTION


# %% [markdown]
# ## What a return value changes
#
# So far our hooks returned `None`, and `None` means: keep everything. A full backward hook may also return a tuple. It
# takes the place of `grad_input`.
#
# **Predict.** The hook returns ten times `grad_input`. How many times as large as before are `x.grad` and
# `lin.weight.grad`?

# %%
guess("07-new-grad-input", x_grad=10, weight_grad=1)


# %%
def grads_with(register, hook):
    """The gradients of x, W and b after one pass with this hook."""
    lin.zero_grad()
    x.grad = None
    with register(hook):
        (factors * lin(x)).sum().backward()
    return x.grad, lin.weight.grad, lin.bias.grad


plain = grads_with(lin.register_full_backward_hook, lambda module, gi, go: None)
after = grads_with(
    lin.register_full_backward_hook, lambda module, gi, go: (10 * gi[0],)
)
times = [(new.sum() / old.sum()).item() for new, old in zip(after, plain)]
print("x.grad:          times", times[0])
print("lin.weight.grad: times", times[1])
compare("07-new-grad-input", x_grad=times[0], weight_grad=times[1])
assert torch.equal(after[0], 10 * plain[0])
assert torch.equal(after[1], plain[1]) and torch.equal(after[2], plain[2])

# %% [markdown] explains="07-new-grad-input"
# Only what is sent on has changed. The gradient of the weights comes from `grad_output` and `x`, never from
# `grad_input`, so it is what it was.

# %% [markdown]
# The pre-hook may return a tuple as well. It takes the place of `grad_output`.
#
# **Predict.** A pre-hook returns five times `grad_output`. The same two questions.

# %%
guess("07-new-grad-output", x_grad=5, weight_grad=5)

# %%
after = grads_with(
    lin.register_full_backward_pre_hook,
    lambda module, grad_output: (5 * grad_output[0],),
)
times = [(new.sum() / old.sum()).item() for new, old in zip(after, plain)]
print("x.grad:          times", times[0])
print("lin.weight.grad: times", times[1])
compare("07-new-grad-output", x_grad=times[0], weight_grad=times[1])
assert all(torch.equal(changed, 5 * old) for changed, old in zip(after, plain))

# %% [markdown] explains="07-new-grad-output"
# Both are five times as large. The pre-hook runs before the backward pass of the module, which computes `grad_input` and
# the gradients of its parameters from the new `grad_output`.

# %% tags=["figure"]
figure, axes = card(8.4, 2.75)
node(axes, 7.65, 1.75, "later\nlayers", kind="plain", width=0.95, height=0.8)
node(axes, 5.95, 1.75, "pre-hook", kind="hook", width=1.15, height=0.6)
node(
    axes, 4.2, 1.75, "the module's\nown backward", kind="plain", width=1.35, height=0.8
)
node(axes, 2.45, 1.75, "full hook", kind="hook", width=1.15, height=0.6)
node(axes, 0.75, 1.75, "earlier\nlayers", kind="plain", width=0.95, height=0.8)
node(axes, 4.2, 0.5, "weight.grad, bias.grad", kind="leaf", width=2.2, height=0.45)
for start, end in ((7.17, 6.53), (5.37, 4.88), (3.52, 3.03), (1.87, 1.23)):
    arrow(axes, (start, 1.75), (end, 1.75), backward=True)
arrow(axes, (4.2, 1.35), (4.2, 0.73), backward=True)
for place, text in (
    (6.85, "grad_output"),
    (5.12, "new\ngrad_output"),
    (3.28, "grad_input"),
    (1.55, "new\ngrad_input"),
):
    caption(axes, place, 2.4, text, colour=BACKWARD, size=9, align="center")
caption(axes, 5.55, 0.5, "only the pre-hook comes before this", colour=QUIET, size=9)
show(
    figure,
    "The backward pass through a module, from right to left. grad_output comes from "
    "the later layers to the pre-hook. The new grad_output that it returns goes into "
    "the module's own backward. From there an arrow leads down to weight.grad and "
    "bias.grad, and grad_input goes on to the full hook. The new grad_input that it "
    "returns goes to the earlier layers. Only the pre-hook comes before weight.grad "
    "and bias.grad.",
)

# %% [markdown]
# ### The rules for what you return
#
# Not everything may be returned. Five hooks return something odd:
#
# - `"bare tensor"`: `10 * grad_input[0]`, without the tuple
# - `"other shape"`: `(grad_input[0][:1],)`, one row instead of two
# - `"other dtype"`: `(grad_input[0].double(),)`
# - `"zeros for None"`: `(torch.zeros(2, 3),)`, where the input needs no gradient and `grad_input` is `(None,)`
# - `"None for None"`: `(None,)`, in the same place
#
# **Predict.** Only one of them is accepted; the other four raise. Which one?

# %%
guess("07-accepted", which="None for None")


# %%
def complaint(hook, data=x):
    """The text of the exception that a full backward hook causes on lin, or None."""
    try:
        with warnings.catch_warnings(), lin.register_full_backward_hook(hook):
            warnings.simplefilter("ignore")
            (factors * lin(data)).sum().backward()
    except RuntimeError as error:
        return str(error)


complaints = {
    "bare tensor": complaint(lambda module, gi, go: 10 * gi[0]),
    "other shape": complaint(lambda module, gi, go: (gi[0][:1],)),
    "other dtype": complaint(lambda module, gi, go: (gi[0].double(),)),
    "zeros for None": complaint(
        lambda module, gi, go: (torch.zeros(2, 3),), x.detach()
    ),
    "None for None": complaint(lambda module, gi, go: (None,), x.detach()),
}
for returned, text in complaints.items():
    print(f"{returned + ':':16}", text or "accepted")
compare(
    "07-accepted",
    which=[returned for returned, text in complaints.items() if text is None],
)
assert (
    complaints["bare tensor"]
    == "Backward hook returned an invalid number of grad_input, got 2, but expected 1"
)
assert "has changed the size of value" in complaints["other shape"]
assert "has changed the type of value" in complaints["other dtype"]
assert (
    "should always return None or None for all gradients"
    in complaints["zeros for None"]
)
assert complaints["None for None"] is None

# %% [markdown] explains="07-accepted"
# - A bare tensor is taken for a sequence of its 2 rows: "got 2". Return a **tuple with one entry for each input**, even
#   for a single one.
# - Each entry keeps its shape and its dtype.
# - Where no input needs a gradient there is nothing to replace. Return `None`, or a tuple of `None`.
#
# One rule covers all such cases: **where you got `None`, return `None`.**

# %% [markdown]
# Here is a module with three positional inputs and one that is passed by keyword.


# %%
class Mix(nn.Module):
    def forward(self, a, b, k, c=0.0):
        return a * b * k + c


mix = Mix()
a = torch.tensor([2.0], requires_grad=True)
b, c = torch.tensor([3.0]), torch.tensor([1.0], requires_grad=True)
with mix.register_full_backward_hook(look):
    mix(a, b, 5, c=c).backward()
print("grad_input:", seen["gi"])
assert len(seen["gi"]) == 3
assert (seen["gi"][0].item(), seen["gi"][1].item(), seen["gi"][2]) == (15, 0, None)

# %% [markdown]
# Three entries, for the three positional inputs. `a` gets 15. `b` needs no gradient, but another input does: it gets
# zeros. 5 is not a tensor: `None`. And `c` was passed by keyword: the hook does not know of it at all.
#
# ### Return a new tuple, or edit in place?
#
# You could also return nothing and write `gi[0].clamp_(-1, 1)`.
#
# **Predict.** `h` is used twice: once by the module, once beside it. The gradient of each use is 3, and a hook clamps
# the module's share to 1. What arrives at `h` if the hook returns a new tuple, and what if it clamps in place?

# %%
guess("07-shared-buffer", new_tuple=4, in_place=2)


# %%
class Add(nn.Module):
    def forward(self, a, b):
        return a + b


def at_h(hook):
    add = Add()  # a new module each time, so its hook goes with it
    add.register_full_backward_hook(hook)
    h = torch.tensor([2.0], requires_grad=True) * 1
    h.retain_grad()
    (3 * (h + add(h, torch.zeros(1)))).sum().backward()
    return h.grad.item()


def returns_new(module, grad_input, grad_output):
    return grad_input[0].clamp(-1, 1), grad_input[1]


def edits(module, grad_input, grad_output):
    grad_input[0].clamp_(-1, 1)


arrived = {"new_tuple": at_h(returns_new), "in_place": at_h(edits)}
print("a new tuple:", arrived["new_tuple"], "  in place:", arrived["in_place"])
compare(
    "07-shared-buffer", new_tuple=arrived["new_tuple"], in_place=arrived["in_place"]
)
assert arrived == {"new_tuple": 4, "in_place": 2}

# %% [markdown] explains="07-shared-buffer"
# 3 + 1 = 4 is right. In place, the other use was clamped along with it: an addition hands the same buffer to both of
# its inputs, as you saw in lesson 3. Often an edit in place seems to work. **Return a new tuple, never edit.**


# %% exercise="07-clamp-grad-input"
def clamp_grad_input(module, c):
    """Clamp the gradients that module sends to its inputs to [-c, c]; return the
    handle.
    """

    ### BEGIN SOLUTION
    def hook(module, grad_input, grad_output):
        return tuple(None if grad is None else grad.clamp(-c, c) for grad in grad_input)

    return module.register_full_backward_hook(hook)
    ### END SOLUTION


# %% [markdown]
# ## Earlier: change what the module learns from
#
# If the change should reach the module's own parameters, too, it has to happen in the pre-hook. A module may return
# several tensors, as a tuple. Then `grad_output` has one entry for each of them.
#
# **Predict.** The loss uses the first output only. What is the second entry of `grad_output`?

# %%
# None, a number, or "missing" if there is one entry only
guess("07-unused-output", second=None)


# %%
class Two(nn.Module):
    def forward(self, x):
        return 2 * x, 5 * x


two = Two()
with two.register_full_backward_hook(look):
    used, unused = two(torch.ones(1, requires_grad=True))
    used.sum().backward()
print("grad_output:", seen["go"])
compare("07-unused-output", second=seen["go"][1] if len(seen["go"]) > 1 else "missing")
assert seen["go"][0].item() == 1 and seen["go"][1] is None

# %% [markdown] explains="07-unused-output"
# `None`: no gradient arrives there. The rule is the same as before: a tuple with one entry for each output, and `None`
# where you got `None`.


# %% exercise="07-scale-backward"
def scale_backward(module, s):
    """Scale all gradients that follow from what arrives at the outputs of module;
    return the handle.
    """

    ### BEGIN SOLUTION
    def hook(module, grad_output):
        return tuple(None if grad is None else s * grad for grad in grad_output)

    return module.register_full_backward_pre_hook(hook)
    ### END SOLUTION


# %% [markdown]
# ## From `grad_output` back to the weights
#
# Above, `W.grad` was `grad_output.T @ x`. Where does that come from? Take one row `x` of the batch and its gradient
# `g` at the output. Output `o` is `W[o, 0] * x[0] + W[o, 1] * x[1] + ...`, so nudging `W[o, i]` changes it by `x[i]`,
# and the loss by `g[o] * x[i]`. All these products form a matrix, the *outer product* of `g` and `x`, of the shape of
# `W`: (out, in).
#
# Every row of the batch uses the same weights, and the gradients of several uses add up. So the gradient of `W` is the
# **sum** of the outer products, one for each row.

# %%
go = factors
per_row = [torch.outer(g, row) for g, row in zip(go, x.detach())]
for matrix in per_row:
    print(matrix)
print("their sum is W.grad:", torch.equal(sum(per_row), plain[1]))
assert torch.equal(sum(per_row), go.T @ x.detach())
assert torch.equal(sum(per_row), plain[1])

# %% [markdown]
# This is more than algebra. `backward()` adds up all rows at once, and the share of a single example is lost. From the
# input of a layer and `grad_output` you can compute each share.
#
# The input may have more than two dimensions (sequences, for example), or just one: a single row. The last dimension
# always holds the features; all others just count rows.

# %%
sequences = torch.ones(4, 7, 3)  # 4 sequences of 7 steps with 3 features
print("input:", tuple(sequences.shape), " output:", tuple(lin(sequences).shape))
print("as rows:", tuple(sequences.reshape(-1, 3).shape))
print("one single row:", tuple(lin(torch.ones(3)).shape))
assert lin(sequences).shape == (4, 7, 2) and sequences.reshape(-1, 3).shape == (28, 3)
assert lin(torch.ones(3)).shape == (2,)

# %% [markdown]
# The rebuilt gradients are right, too, where the `.grad` of the parameters is not, because somebody's hook on a
# parameter changes what arrives there.


# %% exercise="07-linear-grads"
def linear_grads(lin, x, loss_fn):
    """dL/dW and dL/db, rebuilt from x and the gradient at the output of the layer."""
    ### BEGIN SOLUTION
    y = lin(x).detach().requires_grad_()  # a leaf of our own: backward ends here
    loss_fn(y).backward()
    rows = x.detach().reshape(-1, lin.in_features)
    g = y.grad.reshape(-1, lin.out_features)
    return g.T @ rows, g.sum(0)
    ### END SOLUTION


# %% [markdown]
# ## Where module backward hooks fail, and where they are silent
#
# To learn when `grad_output` and `grad_input` are complete, PyTorch has to prepare something in the *forward* pass. It
# sends the inputs and the outputs of the module through invisible identity functions, and the hooks hang on those.
# What you get from `module(x)` is then a *view* of what the module computed. Four things follow.
#
# **1. No in-place operation may touch the inputs or outputs.** A view of this kind cannot be modified in place.

# %%
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
data = torch.ones(1, 2)


def attempt(use):
    try:
        use()
    except RuntimeError as error:
        return str(error)


net(data).sum().backward()  # without a hook there is no problem
for module in net:
    with module.register_full_backward_hook(look):
        error = attempt(lambda: net(data))
    print(f"hook on {module}:\n  ", error[: error.index(".") + 1])
    assert "is a view and is being modified inplace" in error


def residual():
    y = net[0](data)
    y += data


with net[0].register_full_backward_hook(look):
    error = attempt(residual)
    print("y += x behind it:\n  ", error[: error.index(".") + 1])
    assert "is a view and is being modified inplace" in error
    net[1].inplace = False
    error = attempt(lambda: net(data))
    print("with inplace=False:\n  ", error or "no error")
    assert error is None

# %% [markdown]
# It does not matter what the hook does, nor whether it sits on the linear layer or on the ReLU. The same happens with
# `y += x` in a residual block. If the model is yours, set `inplace=False` and write `y = y + x`.
#
# **2. Outputs have to be a tensor or a tuple.** For a dict or a list the hook is never called. There is a warning, and
# nothing else.


# %%
class Wrapped(nn.Module):
    """A linear layer whose output is put into something."""

    def __init__(self, wrap):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.fc(x))


for module, key in (
    (Wrapped(lambda y: {"boxes": y}), "boxes"),
    (Wrapped(lambda y: [y]), 0),
):
    calls = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with module.register_full_backward_hook(
            lambda *args, calls=calls: calls.append(1)
        ):
            out = module(torch.ones(1, 2, requires_grad=True))
    out[key].sum().backward()
    message = str(caught[0].message)
    print(
        type(out).__name__,
        "- calls:",
        len(calls),
        "\n  PyTorch warns:",
        message.split(" but")[0],
    )
    assert (
        calls == []
        and "module output should be a Tensor or a tuple of Tensors" in message
    )

# %% [markdown]
# **3. It matters when a hook is there.** One hook comes late: it is registered after the forward pass and is there in
# `backward()`. Another one leaves early: it is there in the forward pass and is removed before `backward()`.
#
# **Predict.** Which one runs?

# %%
# "comes late", "leaves early", "both" or "none"
guess("07-late-or-early", which="leaves early")

# %%
calls = []
leaf = torch.ones(1, 2, requires_grad=True)
layer = nn.Linear(2, 2)
out = layer(leaf)
late = layer.register_full_backward_hook(lambda *args: calls.append("comes late"))
out.sum().backward()
late.remove()

early = layer.register_full_backward_hook(lambda *args: calls.append("leaves early"))
out = layer(leaf)
early.remove()
out.sum().backward()
print("called:", calls)
compare("07-late-or-early", which={0: "none", 1: calls[0], 2: "both"}[len(calls)])
assert calls == ["leaves early"]

# %% [markdown] explains="07-late-or-early"
# **A module backward hook is bound at the forward pass.** What counts is whether it was there when the module was
# called. The first hook was not, so it never runs. The second was: it runs, although it was removed before
# `backward()`.

# %% [markdown]
# **4. It fires only if the gradient passes through the tensor that the module returned.** A forward hook sees the
# output *before* it goes through the identity function. A loss that is built on this captured tensor bypasses the
# backward hooks.

# %%
calls, captured = [], []
with (
    layer.register_full_backward_hook(lambda *args: calls.append(1)),
    layer.register_forward_hook(lambda module, args, output: captured.append(output)),
):
    returned = layer(leaf)
    captured[0].sum().backward(retain_graph=True)
print("from the captured tensor:", len(calls), "calls")
assert calls == [] and returned is not captured[0]
returned.sum().backward()
print("from the returned tensor:", len(calls), "call")
assert calls == [1]
print("the identity function:   ", returned.grad_fn.name())
assert returned.grad_fn.name().startswith("BackwardHookFunction")

# %% [markdown]
# ### The way out: a tensor hook inside a forward hook
#
# All four limits are those of hooks on modules. The output itself is an ordinary tensor, and a tensor can carry a
# hook. The place to register it is a forward hook: there you have the output in your hands before any later operation
# touches it, and you can reach into a dict.
#
# A linear layer gives `z = [-1, 4]`. An in-place ReLU turns `z` into `[0, 4]`. The loss is 7 times the sum. In the
# forward hook of the linear layer we register a tensor hook on `z` and also call `z.retain_grad()`.
#
# **Predict.** What does the hook see, and what is `z.grad`? Two lists of two numbers.

# %%
guess("07-in-place-relu", hook=[0, 7], z_grad=[7, 7])

# %%
net = nn.Sequential(linear([[-1.0], [4.0]], [0.0, 0.0]), nn.ReLU(inplace=True))
found = {}


def forward_hook(module, args, output):
    output.register_hook(lambda grad: found.update(hook=grad.clone()))
    output.retain_grad()
    found["z"] = output


with net[0].register_forward_hook(forward_hook):
    loss = 7 * net(torch.ones(1, 1)).sum()
loss.backward()
print("tensor hook:", found["hook"].tolist(), "  z.grad:", found["z"].grad.tolist())
compare("07-in-place-relu", hook=found["hook"][0], z_grad=found["z"].grad[0])
assert found["hook"].tolist() == [[0, 7]] and found["z"].grad.tolist() == [[7, 7]]
assert found["z"].tolist() == [[0, 4]]

# %% tags=["figure"]
figure, axes = card(8.2, 3.1)
node(axes, 1.0, 1.75, "linear", kind="plain", width=1.1)
node(axes, 3.3, 1.75, "z = [-1, 4]", kind="non-leaf", width=1.45, note="old value")
node(axes, 5.7, 1.75, "z = [0, 4]", kind="non-leaf", width=1.45, note="new value")
node(axes, 7.5, 1.75, "loss", kind="loss", width=0.85)
arrow(axes, (1.55, 1.85), (2.55, 1.85))
arrow(axes, (4.05, 1.85), (4.95, 1.85))
arrow(axes, (6.45, 1.85), (7.05, 1.85))
caption(axes, 4.5, 2.6, "in-place ReLU", colour=FORWARD, size=9.5, align="center")
arrow(axes, (4.5, 2.5), (4.5, 1.95), dashed=True)
arrow(axes, (7.05, 1.6), (6.45, 1.6), backward=True)
arrow(axes, (4.95, 1.6), (4.05, 1.6), backward=True)
arrow(axes, (2.55, 1.6), (1.55, 1.6), backward=True)
caption(axes, 5.7, 1.1, "gradient [7, 7]", colour=BACKWARD, align="center")
caption(axes, 3.3, 1.1, "gradient [0, 7]", colour=BACKWARD, align="center")
caption(axes, 5.7, 0.75, "z.grad, by retain_grad()", size=9.5, align="center")
caption(axes, 3.3, 0.75, "tensor hook of the forward hook", size=9.5, align="center")
caption(
    axes,
    0.35,
    0.25,
    "One tensor object, two values in the graph. A tensor hook stays with the value "
    "that it was registered on.",
    colour=QUIET,
    size=9.5,
)
show(
    figure,
    "The linear layer gives z its old value, [-1, 4]. The in-place ReLU gives the "
    "same tensor z its new value, [0, 4], and the loss follows. On the way back the "
    "gradient at the new value is [7, 7]: this is z.grad, by retain_grad(). The "
    "gradient at the old value is [0, 7]: this is what the tensor hook sees, "
    "registered in the forward hook.",
)

# %% [markdown] explains="07-in-place-relu"
# The layer returned `-1`, and the ReLU cut it off, so nothing depends on it: its gradient is 0. The tensor hook was
# registered on the old value and stays with it. `retain_grad()` moves with the tensor object to its new value, after
# the ReLU. (Lesson 2 showed the same with `mul_`.)

# %% [markdown]
# The tensor hook belongs to the output of this one pass. The next pass has a new output, and the forward hook
# registers a new tensor hook on it. (If the model also runs under `no_grad`, guard that line with
# `if output.requires_grad:`, as in lesson 3.)
#
# A dict is no obstacle either:


# %%
def into_the_dict(module, args, output):
    output["boxes"].register_hook(lambda grad: found.update(boxes=grad.clone()))


detector = Wrapped(lambda y: {"boxes": y})
with detector.register_forward_hook(into_the_dict):
    detector(data)["boxes"].sum().backward()
print(found["boxes"])
assert found["boxes"].tolist() == [[1, 1]]


# %% exercise="07-activation-grad"
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    """The gradient of the loss with respect to pick(output of the named module), as
    it left the module.
    """
    ### BEGIN SOLUTION
    found = []

    def forward_hook(module, args, output):
        pick(output).register_hook(lambda grad: found.append(grad.detach().clone()))

    with model.get_submodule(name).register_forward_hook(forward_hook):
        loss = loss_fn(model(x))
    loss.backward()
    return found[0]
    ### END SOLUTION


# %% [markdown]
# ## A myth
#
# **"`register_backward_hook` does the job."** It is the old form, and it is deprecated. What it calls `grad_input` are
# the gradients that the *last operation* inside the module computed. For a linear layer these belong to bias, input
# and transposed weight; for a composite module they need not even have the shape of its input.

# %%
old_style = {}


def note_shapes(name):
    def hook(module, grad_input, grad_output):
        old_style[name] = [tuple(grad.shape) for grad in grad_input]

    return hook


old_linear, old_block = nn.Linear(5, 3), Block()
handles = [
    old_linear.register_backward_hook(note_shapes("linear")),
    old_block.register_backward_hook(note_shapes("block")),
]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old_linear(torch.ones(2, 5, requires_grad=True)).sum().backward()
    old_block(torch.ones(1, 3, requires_grad=True)).sum().backward()
print("Linear(5, 3), input (2, 5):", old_style["linear"])
print("Block, input (1, 3):       ", old_style["block"])
print("Warnings:", {warning.category.__name__ for warning in caught})
assert old_style["linear"] == [(3,), (2, 5), (5, 3)]
assert old_style["block"] == [(1, 2)]
assert "FutureWarning" in {warning.category.__name__ for warning in caught}
for handle in handles:
    handle.remove()

# %% [markdown]
# ## On your own model
#
# Do gradients reach its first layers? `your_model` takes a name, or a model of yours with an input for it; it
# downloads nothing. Layers that work in place are told not to, or the hooks would raise. A `forward` that says `out +=
# x`, as in torchvision's ResNets, raises all the same.

# %%
from graders.nets import your_model

net, x = your_model("squeezenet1_1")
x.requires_grad_(x.is_floating_point())  # tokens cannot need a gradient
for module in net.modules():
    if hasattr(module, "inplace"):
        module.inplace = False
try:
    flow = gradient_flow(net, lambda output: output.square().mean(), x)
    for name in (*list(flow)[:2], *list(flow)[-2:]):
        print(f"{name:24} mean |gradient| {flow[name]:.1e}")
except NotImplementedError:
    print("Solve 07-gradient-flow, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | the hook gets | it fires when | a returned value |
# |---|---|---|---|
# | `register_full_backward_pre_hook` | `module, grad_output` | `grad_output` is ready | replaces `grad_output` |
# | `register_full_backward_hook` | `module, grad_input, grad_output` | `grad_input` is ready | replaces `grad_input` |
# | `register_backward_hook` | the same | deprecated: do not use it | |
# | `output.register_hook` in a forward hook | `grad` | the gradient of `output` is ready | replaces it |
#
# - A hook that returns `None` changes nothing. A module hook returns a tuple, with `None` where it got `None`.
# - A new `grad_output` changes the gradients of the module's own parameters and everything before the module. A new
#   `grad_input` changes only what comes before the module.
# - A full backward hook runs at once, with `None` entries, if no input needs a gradient. It does not run at all if
#   inputs need gradients and none of them gets one; if some get one, the others show zeros.
# - The module hooks are bound at the forward pass. They see positional inputs, and outputs that are a tensor or a tuple
#   of tensors. No in-place operation may touch these.
#
# ## Where you meet this in the wild
#
# - **Gradients of single examples.** Opacus, a library for training with differential privacy, computes the gradient of
#   each example from the layer's input and `grad_output`, as you did for the linear layer.
# - **K-FAC**, a second-order optimizer, collects statistics of exactly these two: a layer's inputs and its
#   `grad_output`.
# - **Guided backpropagation** clamps `grad_input` of every ReLU to see what a network looks at: lesson 10.
#
# Next: lesson 8, where all kinds of hooks run in one pass, and you say in which order.

# %%
progress()
