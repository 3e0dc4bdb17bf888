# %% [markdown]
# # Lesson 2. Watching gradients: `Tensor.register_hook`
#
# **The question.** How do I see the gradient of something in the middle of my model, while it trains, without changing
# the training?
#
# **The goal.** You can put a hook on any tensor and take it off again, you know when it is called and how often, and
# you keep copies that nothing overwrites.
#
# As before: predict, run, read on.

# %%
import torch
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    CARD,
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

# %% [markdown]
# ## A function that is called when the gradient arrives
#
# `handle = t.register_hook(fn)` asks PyTorch to call `fn(grad)` in each backward pass, with the gradient of `t`. If `fn`
# returns `None`, nothing changes: you only watch. (A hook that returns a tensor replaces the gradient: lesson 3.)
#
# In lesson 1 two hooks caught what `retain_grad` kept. Here is that graph again, with other numbers: `a = w + x = 6`,
# `b = w + 1 = 5`, `y = a * b`. The hooks on `b` and `a` print what they receive, and nothing is stored in `a` or `b`.
#
# **Predict.** Which number does each hook print?

# %%
guess("02-two-hooks", a=5, b=6)

# %%
received = {}


def on_b(grad):
    received["b"] = grad.item()
    print("b receives", grad.item())


def on_a(grad):
    received["a"] = grad.item()
    print("a receives", grad.item())


w = torch.tensor([4.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
a = w + x
b = w + 1
y = a * b
b.register_hook(on_b)
a.register_hook(on_a)
print("Both hooks are registered. Now backward:")
y.backward()
compare("02-two-hooks", a=received["a"], b=received["b"])
assert (a.item(), b.item()) == (6, 5) and list(received.items()) == [
    ("b", 6.0),
    ("a", 5.0),
]
assert not (a.retains_grad or b.retains_grad)

# %% tags=["figure"]
figure = timeline(
    [
        ("w + x makes a", "forward"),
        ("w + 1 makes b", "forward"),
        ("a * b makes y", "forward"),
        ("y.backward() starts with 1", "backward"),
        ("a gradient arrives at b: hook on b", "backward"),
        ("a gradient arrives at a: hook on a", "backward"),
        ("w.grad and x.grad are written", "backward"),
    ],
    title="Hooks on tensors run during backward()",
)
show(
    figure,
    "Timeline. Forward: w + x makes a, w + 1 makes b, a times b makes y. Backward: "
    "y.backward() starts with 1, then the hook on b runs, then the hook on a, and "
    "last w.grad and x.grad are written.",
)

# %% [markdown] explains="02-two-hooks"
# **A hook runs when the gradient arrives, not when it is registered.** No `retain_grad()` was needed, and neither
# tensor keeps anything.

# %% [markdown]
# We registered the hook on `b` first, and it ran first. Is that the reason? Below is a chain, `a = w * x`, `c = a + 1`
# and `y = 5 * c`, with hooks on `w`, `a` and `c`, registered in this order.
#
# **Predict.** In which order do they run? Write a list such as `["w", "a", "c"]`.

# %%
guess("02-swapped", order=["c", "a", "w"])

# %%
w = torch.tensor([4.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
a = w * x
c = a + 1
y = 5 * c
order = []
w.register_hook(lambda grad: order.append("w"))
a.register_hook(lambda grad: order.append("a"))
c.register_hook(lambda grad: order.append("c"))
y.backward()
print("the chain:      ", *order)
compare("02-swapped", order=order)
assert order == ["c", "a", "w"]

w = torch.tensor([4.0], requires_grad=True)
a, b = w + x, w + 1
order = []
a.register_hook(lambda grad: order.append("a"))
b.register_hook(lambda grad: order.append("b"))
(a * b).backward()
print("the first graph:", *order)
assert order == ["b", "a"]

# %% [markdown] explains="02-swapped"
# For hooks on *different* tensors it does not matter which you register first. Backward goes through the graph from its
# end: without the gradient of `c` there is none of `a`, and without that of `a` none of `w`. (In the first graph, neither
# `a` nor `b` needs the other. Today's PyTorch starts with `b`, which was computed last, even when the hook on `a` was
# registered first: the line "the first graph" shows it.)

# %% [markdown]
# ## One tensor, several uses
#
# The loss `3 * y + y * y` uses `y` three times: once in `3 * y`, and twice in `y * y`. Let `y` be 2, with a hook on it.
#
# **Predict.** Which numbers does the hook receive in one `backward()`? Write a list, with one number for each call.

# %%
guess("02-three-uses", calls=[7])

# %%
x = torch.tensor([2.0], requires_grad=True)
y = x * 1
calls = []
y.register_hook(lambda grad: calls.append(grad.item()))
(3 * y + y * y).backward()
print("calls:", calls)
compare("02-three-uses", calls=calls)
assert calls == [7.0]
assert all(  # a weight that two layers share: one more call, with the sum
    shared.weight.register_hook(calls.append)
    and shared(shared(torch.ones(1))).sum().backward() is None
    and len(calls) == 2
    and torch.equal(calls[1], shared.weight.grad)
    for shared in [nn.Linear(1, 1)]
)

# %% tags=["figure"]
figure, axes = card(8.2, 2.9)
node(axes, 1.1, 1.45, "y = 2", kind="non-leaf", width=1.1, below="3 + 2 + 2: hook(7)")
node(axes, 4.2, 2.2, "3 · y", kind="plain", width=1.2)
node(axes, 4.2, 0.7, "y · y", kind="plain", width=1.2)
node(axes, 7.1, 1.45, "loss", kind="loss", width=1.1)
arrow(axes, (3.55, 2.2), (1.72, 1.62), backward=True, label="3")
arrow(axes, (3.55, 0.85), (1.72, 1.45), backward=True, label="2", bend=0.12)
arrow(axes, (3.55, 0.6), (1.72, 1.3), backward=True, label="2", bend=-0.2)
arrow(axes, (6.48, 1.6), (4.87, 2.2), backward=True, label="1")
arrow(axes, (6.48, 1.3), (4.87, 0.7), backward=True, label="1")
show(
    figure,
    "Gradients flow from the loss on the right back to y on the left. The loss sends "
    "1 to 3 times y and 1 to y times y. Three edges lead on to y: 3 from the term 3 "
    "times y, and 2 and 2 from the two factors of y times y. The hook on y is called "
    "once, with the sum 7.",
)

# %% [markdown] explains="02-three-uses"
# One call, with 7. **A hook is called when the gradient of its tensor is complete**: those of all uses, 3 and 2 and 2,
# are added first. The same holds for a weight that two layers share.

# %% [markdown]
# ## Handles
#
# `register_hook` returns a handle. Three things to know about it:
#
# 1. `handle.remove()` removes the hook. Calling it twice does no harm.
# 2. The handle is a context manager: `with t.register_hook(fn):` removes the hook at the end of the block, even when
#    an exception ends it.
# 3. Losing the handle does **not** remove the hook. The tensor keeps it.
#
# The next cell tries all three, and prints which hooks were called. For the first two it runs one pass with the hook
# and one after it.

# %%
import gc

t = torch.tensor([1.0], requires_grad=True)
calls = []

handle = t.register_hook(lambda grad: calls.append("first"))
(2 * t).backward()
handle.remove()
handle.remove()
(2 * t).backward()
print("remove():     ", *calls)
assert calls == ["first"]

calls.clear()
try:
    with t.register_hook(lambda grad: calls.append("with")):
        (2 * t).backward()
        raise KeyError
except KeyError:
    (2 * t).backward()
print("a with block: ", *calls)
assert calls == ["with"]

calls.clear()
t.register_hook(lambda grad: calls.append("lost"))
gc.collect()
(2 * t).backward()
print("a lost handle:", *calls)
assert calls == ["lost"]

# %% [markdown]
# The third point explains a common surprise in notebooks: run a cell three times that puts a hook on a weight, and from
# then on three hooks are called. Keep the handle, and remove the old hook first.
#
# ## Keep copies
#
# If you store what a hook receives, store a copy. The gradient may share its memory with others, and whoever comes
# later can overwrite it. Below, two hooks store the gradient, one of them as a copy. Then comes a third hook, which has
# bad manners.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = 2 * x
stored, copied = [], []


def overwrite(grad):
    grad.mul_(0)


y.register_hook(lambda grad: stored.append(grad))
y.register_hook(lambda grad: copied.append(grad.detach().clone()))
y.register_hook(overwrite)
(y * torch.tensor([5.0, 7.0])).sum().backward()
print("stored:", stored[0], "  copied:", copied[0])
assert stored[0].tolist() == [0.0, 0.0]
assert copied[0].tolist() == [5.0, 7.0]

# %% [markdown]
# `.clone()` gives the copy its own memory. `.detach()` matters when somebody calls `backward(create_graph=True)`: then
# the gradient has a graph of its own, and a stored gradient would keep all of it alive.

# %%
x = torch.tensor([3.0], requires_grad=True)
seen = []
x.register_hook(
    lambda grad: seen.append((grad.requires_grad, grad.detach().clone().requires_grad))
)
torch.autograd.grad(x**3, x)
torch.autograd.grad(x**3, x, create_graph=True)
print("(received requires grad, copy requires grad):", *seen)
assert seen == [(False, False), (True, False)]


# %% exercise="02-record-grad"
def record_grad(t, store):
    """Append a copy of every gradient that arrives at t to store; return the handle."""
    ### BEGIN SOLUTION
    return t.register_hook(lambda grad: store.append(grad.detach().clone()))
    ### END SOLUTION


# %% [markdown]
# ## The second pass
#
# `.grad` of a leaf adds up over passes. Now the leaf `x` has a hook, and is 2. The loss of the first pass is
# `3 * x + x * x`; the loss of the second is `10 * x`.
#
# **Predict.** What does the hook receive in the second pass, and what is in `x.grad` at that moment?

# %%
guess("02-second-pass", received=10, x_grad=7)

# %%
x = torch.tensor([2.0], requires_grad=True)
log = []
x.register_hook(
    lambda grad: log.append((grad.item(), None if x.grad is None else x.grad.item()))
)
(3 * x + x * x).backward()
(10 * x).backward()
for number, (received, stored) in enumerate(log, 1):
    print(
        f"pass {number}: the hook gets {received}, x.grad holds {stored} at that moment"
    )
print("x.grad afterwards:", x.grad.item())
compare("02-second-pass", received=log[1][0], x_grad=log[1][1])
assert log == [(7.0, None), (10.0, 7.0)]
assert x.grad.item() == 17

# %% [markdown] explains="02-second-pass"
# The hook receives 10, the gradient of this pass. At that moment `x.grad` still holds 7, from the pass before. **The
# hook runs before `.grad` is written.** So inside a hook use its argument, and never read `.grad`.

# %% [markdown]
# If you add up gradients over several passes, begin the sum with a copy of the first: it is a stored gradient, too.


# %% exercise="02-count-and-sum"
def count_and_sum(t):
    """A dict that a hook on t keeps up to date: the number of calls, and the sum of
    the gradients.
    """
    ### BEGIN SOLUTION
    tally = {"n": 0, "sum": None}

    def hook(grad):
        tally["n"] += 1
        received = grad.detach().clone()
        tally["sum"] = received if tally["sum"] is None else tally["sum"] + received

    t.register_hook(hook)
    return tally
    ### END SOLUTION


# %% [markdown]
# ## Called, or not?
#
# Below, `y` has a hook, and so has its copy `y * 1`. The loss is `2 * y`. We go back from it twice: once with
# `backward()`, and once with `torch.autograd.grad`, which leaves the `.grad` of leaves alone.
#
# **Predict.** How many times is each of the two hooks called?

# %%
guess("02-two-ways-back", y=2, copy=0)

# %%
x = torch.tensor([3.0], requires_grad=True)
y = x * x
copy = y * 1
calls = []
y.register_hook(lambda grad: calls.append(("y", grad.item())))
copy.register_hook(lambda grad: calls.append(("copy", grad.item())))

loss = (2 * y).sum()
loss.backward(retain_graph=True)
torch.autograd.grad(loss, x)
print("in the order of the calls:", *calls)
names = [name for name, _ in calls]
compare("02-two-ways-back", y=names.count("y"), copy=names.count("copy"))
assert calls == [("y", 2.0), ("y", 2.0)]

# %% [markdown] explains="02-two-ways-back"
# Twice `y`, and never the copy:
#
# - **`torch.autograd.grad` calls hooks, too.** Hooks belong to the pass through the graph, not to `.grad`.
# - **Not on the path, not called.** The loss does not use the copy, so no gradient gets there. `t * 1` and
#   `t.view(...)` are tensors of their own.

# %% [markdown]
# In one odd case a hook is called with `None` in place of a gradient. Lesson 3 shows it; the exercises leave it out.
#
# A tensor that does not require grad cannot have a hook at all:

# %%
try:
    torch.ones(2).register_hook(print)
except RuntimeError as error:
    print("RuntimeError:", error)
    assert "cannot register a hook on a tensor that doesn't require gradient" in str(
        error
    )

# %% [markdown]
# ## Watch a weight while it learns
#
# Now a real use. We train a line, `nn.Linear(1, 1)`, on points of `y = 2x`, one point at a time, and log the gradient
# of its weight. With the squared error the gradient has a closed form: `2 * (out - target) * x`.

# %%
layer = nn.Linear(1, 1)
with torch.no_grad():
    layer.weight.fill_(0.0)
    layer.bias.fill_(0.0)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)

log, by_hand = [], []
handle = layer.weight.register_hook(lambda grad: log.append(grad.item()))
for step in range(40):
    point = torch.tensor([[1.0 + step % 3]])
    out = layer(point)
    by_hand.append((2 * (out - 2 * point) * point).item())
    optimizer.zero_grad()
    (out - 2 * point).square().sum().backward()
    optimizer.step()
handle.remove()
print("seen by the hook:  ", [round(g, 2) for g in log[:4]], "...")
print("2 (out - target) x:", [round(g, 2) for g in by_hand[:4]], "...")
assert [round(g, 2) for g in log[:3]] == [-4.0, -13.6, -16.92]
assert torch.allclose(torch.tensor(log), torch.tensor(by_hand), atol=1e-5)
assert len(log) == 40 and max(abs(g) for g in log[3:]) < 2
# a zigzag of three steps
assert (
    all(0.9 < later / g < 1 for g, later in zip(log[3:], log[6:]))
    and log[3] > 0 > log[5]
)

# %% tags=["figure"]
from matplotlib.figure import Figure

figure = Figure(figsize=(8.2, 2.8), facecolor=CARD, layout="constrained")
axes = figure.subplots()
axes.set_facecolor(CARD)
axes.axhline(0, color=QUIET, linewidth=0.8)
axes.plot(range(40), log, color=BACKWARD, linewidth=1.6, label="seen by the hook")
axes.plot(range(40), by_hand, ".", color=INK, markersize=6, label="2 (out - target) x")
axes.set(
    xlabel="step",
    ylabel="gradient of the weight",
    title="What the hook saw, and what the formula says",
)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
show(
    figure,
    "Line plot of the gradient of the weight over 40 training steps. It starts at "
    "minus 4, falls to minus 13.6 and minus 16.92 in the next two steps, and from the "
    "fourth step on stays between minus 2 and 2, in a zigzag that shrinks slowly. "
    "Dots of the formula 2 (out minus target) x lie exactly on the line.",
)

# %% [markdown]
# No line inside the training loop knows about the hook. That is what hooks are for.
#
# In larger models full gradients are too much to store. Store a statistic, such as the norm, the largest entry, or the
# share of zeros. A number costs next to nothing, and keeps no tensor alive.

# %%
p = torch.tensor([3.0, -4.0, 0.0, 0.0], requires_grad=True)
stats = []
with p.register_hook(
    lambda grad: stats.append(
        (grad.norm().item(), grad.abs().max().item(), (grad == 0).float().mean().item())
    )
):
    (p * p).sum().backward()
print("norm, largest, share of zeros:", stats[0])
assert stats[0] == (10.0, 8.0, 0.5) and all(
    type(number) is float for number in stats[0]
)


# %% exercise="02-norm-log"
def norm_log(p, losses):
    """Run each loss backward once; return the L2 norm of each pass's own gradient of
    p.
    """
    ### BEGIN SOLUTION
    norms = []
    with p.register_hook(lambda grad: norms.append(grad.norm().item())):
        for loss in losses:
            loss(p).backward()
    return norms
    ### END SOLUTION


# %% [markdown]
# ## Many tensors, one loop
#
# First a bit of Python. A function uses a variable from outside, and the variable changes before the function is called:

# %%
word = "old"


def say():
    return word


word = "new"
print(say())
assert say() == "new"

# %% [markdown]
# Now three tensors get a hook each, in a loop:
#
#     for name, t in tensors.items():
#         t.register_hook(lambda grad: called.append(name))
#
# The names are `"first"`, `"second"` and `"third"`, and the loss is the sum of the three tensors.
#
# **Predict.** What is in the list `called` after one pass?

# %%
guess("02-in-a-loop", called=["third", "third", "third"])

# %%
tensors = {
    name: torch.ones(1, requires_grad=True) for name in ("first", "second", "third")
}
called = []
for name, t in tensors.items():
    t.register_hook(lambda grad: called.append(name))
sum(tensors.values()).backward()
print("appended:", *called)
compare("02-in-a-loop", called=called)
assert called == ["third", "third", "third"]

# %% [markdown] explains="02-in-a-loop"
# Every lambda looks `name` up **when it runs**, and hooks run in `backward()`. By then the loop is over, and `name` is
# `"third"`.

# %% [markdown]
# `name=name` gives the lambda an argument of its own, with a default that is evaluated when the lambda is made:

# %%
tensors = {
    name: torch.ones(1, requires_grad=True) for name in ("first", "second", "third")
}
called = []
for name, t in tensors.items():
    t.register_hook(lambda grad, name=name: called.append(name))
sum(tensors.values()).backward()
print("appended, sorted:", *sorted(called))
assert sorted(called) == ["first", "second", "third"]


# %% exercise="02-grads-by-name"
def grads_by_name(tensors, loss):
    """Run loss.backward() once; return the gradients of those tensors that it
    reached.
    """
    ### BEGIN SOLUTION
    grads = {}

    def keep(grad, name):
        grads[name] = grad.detach().clone()

    handles = [
        t.register_hook(lambda grad, name=name: keep(grad, name))
        for name, t in tensors.items()
    ]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return grads
    ### END SOLUTION


# %% [markdown]
# ## When a tensor is overwritten
#
# An in-place operation such as `t.mul_(10)` gives the same Python object a new value and a new place in the graph. What
# happens to the hooks that were registered before?
#
# We take, in this order: `t = 3 * x`, a hook on `t`, `t.mul_(10)`, another hook on `t`, and the loss `7 * t`. (`t` also
# retains its gradient.)
#
# **Predict.** What does each hook receive, the one from before `mul_` and the one from after it?

# %%
guess("02-overwritten", before=70, after=7)

# %%
x = torch.tensor([2.0], requires_grad=True)
t = 3 * x
received = []
t.register_hook(lambda grad: received.append(("before", grad.item())))
t.retain_grad()
t.mul_(10)
t.register_hook(lambda grad: received.append(("after", grad.item())))
(7 * t).sum().backward()
print("hook and gradient, in the order of the calls:", *received)
print("t.grad:", t.grad.item(), "  x.grad:", x.grad.item())
compare(
    "02-overwritten", before=dict(received)["before"], after=dict(received)["after"]
)
assert received == [("after", 7.0), ("before", 70.0)]
assert t.grad.item() == 7
assert x.grad.item() == 210

# %% tags=["figure"]
figure, axes = card(8.2, 1.75)
node(axes, 1.1, 0.75, "x", kind="leaf", width=0.9, below="x.grad = 210")
node(
    axes,
    3.6,
    0.75,
    "t, old value",
    kind="non-leaf",
    width=1.6,
    below="70: hook from before",
)
node(
    axes,
    6.6,
    0.75,
    "t, new value",
    kind="non-leaf",
    width=1.6,
    below="7: hook from after, and t.grad",
)
arrow(axes, (1.57, 0.75), (2.78, 0.75), label="· 3")
arrow(axes, (4.42, 0.75), (5.78, 0.75), label="mul_(10)")
caption(axes, 0.4, 1.45, "One Python object, two places in the graph", size=11)
show(
    figure,
    "x leads through times 3 to the old value of t, and from there through mul_(10) "
    "to the new value of t. The gradient at the new value is 7: the hook registered "
    "after sees it, and so does t.grad. At the old value it is 70: the hook "
    "registered before sees it. At x it is 210.",
)

# %% [markdown] explains="02-overwritten"
# The first hook stays with the **old value**: it sees 70, the derivative with respect to what `t` was before the
# multiplication. The second belongs to the **new value** and sees 7. `retain_grad` is different: it follows the tensor
# to its new value.


# %% exercise="02-old-and-new-grad"
def old_and_new_grad(x, k, loss_fn):
    """The gradients with respect to t = 3 * x before and after its value is
    multiplied by k.
    """
    ### BEGIN SOLUTION
    seen = {}
    t = 3 * x
    t.register_hook(lambda grad: seen.update(old=grad.detach().clone()))
    t.mul_(k)
    t.register_hook(lambda grad: seen.update(new=grad.detach().clone()))
    loss_fn(t).backward()
    return seen["old"], seen["new"]
    ### END SOLUTION


# %% [markdown]
# ## What a hook survives
#
# A weight is a leaf, and a hook on a leaf sits on the tensor object. Here are five things that people do to a layer:
# give its weight other numbers through `.data`, call `load_state_dict`, call `double()`, put a new `Parameter` in place
# of the weight, and call `load_state_dict(..., assign=True)`. We do each to a fresh layer with a hook on its weight.
#
# **Predict.** After which of them is the hook still called? Write `True` or `False` for each. (`load_state_dict` copies
# numbers into the tensors that are there; with `assign=True` it puts the tensors that you give it in their place.
# `double()` gives each `Parameter` new numbers through `.data`.)

# %%
guess("02-hook-survives", data=True, load=True, double=True, new=False, assign=False)


# %%
def still_called(change):
    layer, calls = nn.Linear(1, 1), []
    layer.weight.register_hook(lambda grad: calls.append(grad))
    change(layer)
    layer(torch.ones(1, 1, dtype=layer.weight.dtype)).sum().backward()
    return len(calls) == 1


def other_numbers(layer):
    layer.weight.data = torch.ones(1, 1)


def new_parameter(layer):
    layer.weight = nn.Parameter(torch.ones(1, 1))


data = still_called(other_numbers)
load = still_called(lambda layer: layer.load_state_dict(nn.Linear(1, 1).state_dict()))
double = still_called(nn.Module.double)
new = still_called(new_parameter)
assign = still_called(
    lambda layer: layer.load_state_dict(nn.Linear(1, 1).state_dict(), assign=True)
)
print("weight.data =:               ", data)
print("load_state_dict:             ", load)
print("double():                    ", double)
print("a new Parameter:             ", new)
print("load_state_dict, assign=True:", assign)
compare("02-hook-survives", data=data, load=load, double=double, new=new, assign=assign)
assert (data, load, double, new, assign) == (True, True, True, False, False)
# the same object, with other numbers
assert all(layer.weight is layer.double().weight for layer in [nn.Linear(1, 1)])

# %% [markdown] explains="02-hook-survives"
# Changing the numbers inside the tensor object, or even its dtype, leaves the hook where it is. Putting another object
# in its place does not.

# %% [markdown]
# ## Myths
#
# **"Tensor hooks fire only in `backward()`."** `torch.autograd.grad` calls them as well, and returns what they made of
# the gradient.

# %%
x = torch.tensor([1.0], requires_grad=True)
y = 3 * x
y.register_hook(lambda grad: grad * 100)
(gradient,) = torch.autograd.grad((2 * y).sum(), y)
print("autograd.grad returns", gradient.item())
assert gradient.item() == 200

# %% [markdown]
# **"The hook receives `t.grad`."** It receives the gradient of this pass, before anything is written to `.grad`.

# %%
x = torch.tensor([1.0], requires_grad=True)
state = []
x.register_hook(lambda grad: state.append((grad.item(), x.grad)))
(4 * x).backward()
print("received, and x.grad at that moment:", state[0])
assert state == [(4.0, None)]

# %% [markdown]
# **"Hooks replace `retain_grad` for free."** A hook that stores the gradient costs as much as `retain_grad`: one
# tensor. Only a hook that keeps a number saves this memory.

# %%
x = torch.ones(1000, requires_grad=True)
y = 2 * x
y.retain_grad()
stored, numbers = [], []
y.register_hook(lambda grad: stored.append(grad.detach().clone()))
y.register_hook(lambda grad: numbers.append(grad.norm().item()))
y.sum().backward()
sizes = [t.numel() * t.element_size() for t in (y.grad, stored[0])]
print("bytes kept by retain_grad and by a storing hook:", sizes, "  a number:", numbers)
assert sizes == [4000, 4000]

# %% [markdown]
# ## On your own model
#
# Which weights have the largest gradients? `your_model` finds a model of torchvision, timm or transformers by its
# name, or takes one of yours with an input for it: `your_model(model, x)`. It downloads nothing: weights that are not
# on this machine are random.
#
# In a terminal, `hookwork toolbox` collects the functions that passed, of this lesson and of later ones, into a module
# of your own, `my_hooks.py`, for your programs to import.

# %%
from graders.nets import your_model

net, x = your_model("resnet18")
weights = {
    name: weight for name, weight in net.named_parameters() if weight.requires_grad
}
try:
    grads = grads_by_name(weights, net(x).square().mean())
    for name in sorted(grads, key=lambda name: -grads[name].norm())[:3]:
        print(f"{name:24} norm of its gradient {grads[name].norm():.3g}")
except NotImplementedError:
    print("Solve 02-grads-by-name, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `t.register_hook(fn)` | `fn(grad)` | once in each pass that reaches `t`, when its gradient is complete, before `.grad` is written | `None`: nothing changes; a tensor: lesson 3 |
# | `handle.remove()` | | | the hook is gone; a second call does nothing |
# | `with t.register_hook(fn):` | `fn(grad)` | in the passes inside the block | as above; removed at the end of the block |
#
# ## Where you meet this in the wild
#
# - **Experiment trackers.** Weights & Biases' `watch` registers a hook on each parameter and logs histograms of what
#   arrives.
# - **The first NaN.** A hook on each activation that checks `grad.isfinite().all()` tells where in the backward pass the
#   first bad gradient appears.
# - **Clipping.** Norms of each pass, logged by a hook, show how often clipping would act.
#
# Next: lesson 3, where the hook returns something.

# %%
progress()
