# %% [markdown]
# # Lesson 1. Where gradients live: leaf, non-leaf, `retain_grad`
#
# **The question.** You call `backward()`, and a gradient passes through every tensor between the loss and the weights.
# Where can you find it afterwards?
#
# **The goal.** You can say what `.grad` of any tensor holds, after one pass and after several, and you can get the
# gradient of every step of a computation, with `retain_grad` or with a hook.
#
# How to work: where the text says **Predict**, put your guess in place of each `...`: a number, `None`, `True` or
# `False`, or words in quotes. Run the cell, then the next one, which shows your guess beside what PyTorch says. Nobody
# marks a guess, and a wrong one is the best thing that can happen here. Each exercise has a check, `check("...")`, which
# tries your function on new inputs every time.

# %%
import warnings

import torch

from graders import check, compare, guess, hint, progress, replay, rules, solution
from graders.figures import BACKWARD, QUIET, arrow, caption, card, node, show

# %% [markdown]
# ## A graph of five tensors, and two hooks
#
# Here is a computation that is small enough to do by hand:
#
# - `w = 1` and `x = 2` are **leaves**: no recorded operation produced them. We make them, and ask for gradients.
# - `a = w + x` and `b = w + 1` are results of recorded operations, **non-leaves**.
# - `y = a * b` is the number that we differentiate.
#
# To see gradients on their way, we put a **tensor hook** on `a` and one on `b`, as in lesson 0: a function that PyTorch
# calls with the gradient when it arrives at the tensor. Ours write it down.

# %%
w = torch.tensor([1.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
a = w + x
b = w + 1
y = a * b
seen = {}
a.register_hook(lambda grad: seen.update(a=grad.item()))
b.register_hook(lambda grad: seen.update(b=grad.item()))
print("a =", a.item(), "  b =", b.item(), "  y =", y.item(), "  seen:", seen)
assert seen == {}

# %% tags=["figure"]
figure, axes = card(8.2, 3.5)
node(axes, 1.2, 2.6, "w = 1", kind="leaf", note="leaf")
node(axes, 1.2, 0.9, "x = 2", kind="leaf", note="leaf")
node(axes, 4.0, 2.6, "b = w + 1 = 2", kind="non-leaf", note="non-leaf", width=1.8)
node(axes, 4.0, 0.9, "a = w + x = 3", kind="non-leaf", note="non-leaf", width=1.8)
node(axes, 6.9, 1.75, "y = a · b = 6", kind="loss", width=1.8)
arrow(axes, (1.9, 2.6), (3.1, 2.6))
arrow(axes, (1.9, 2.45), (3.1, 1.05))
arrow(axes, (1.9, 0.9), (3.1, 0.9))
arrow(axes, (4.95, 2.5), (5.98, 1.92))
arrow(axes, (4.95, 1.0), (5.98, 1.58))
caption(
    axes,
    0.5,
    0.25,
    "Values flow from left to right. backward() sends gradients from right to left, "
    "against the arrows.",
)
show(
    figure,
    "Graph of the computation. The leaves w = 1 and x = 2 are on the left. An arrow "
    "leads from w to b = w + 1 = 2, and arrows lead from w and x to a = w + x = 3. "
    "Both b and a are non-leaf tensors; both lead to y = a times b = 6.",
)

# %% [markdown]
# The hooks have seen nothing yet: gradients flow in `backward()`.
#
# **Predict.** What are the gradients of `y` with respect to `w` and `x`? Do it by hand: start with `a` and `b`, and go
# back to `w` and `x` from there. Since `y = a * b`, nudging `a` a little changes `y` by `b` times as much.

# %%
guess("01-two-leaves", w=5, x=2)

# %%
y.backward()
print("on the way, by the hooks:", seen)
print("w.grad:", w.grad.item(), "  x.grad:", x.grad.item())
compare("01-two-leaves", w=w.grad, x=x.grad)
assert seen == {"a": 2, "b": 3} and w.grad.item() == 5 and x.grad.item() == 2

# %% [markdown] explains="01-two-leaves"
# `x` reaches `y` by one path, through `a`, and gets the 2 that the hook on `a` saw, which is the value of `b`. `w`
# reaches `y` by two paths: through `a` it gets 2, and through `b` the value of `a`, 3. They are added: 5.

# %% [markdown]
# Every tensor knows whether it is a leaf. Those from `torch.tensor(…)` are, and so are the weights of a model. The result
# of a recorded operation, which has a graph behind it, is not.

# %%
print("is_leaf of w and x:   ", w.is_leaf, x.is_leaf)
print("is_leaf of a, b and y:", a.is_leaf, b.is_leaf, y.is_leaf)
assert w.is_leaf and x.is_leaf and not (a.is_leaf or b.is_leaf or y.is_leaf)
assert all(weight.is_leaf for weight in torch.nn.Linear(2, 2).parameters())
# recorded or not decides
assert (2 * w).detach().is_leaf and (w > 0).is_leaf and (2 * w).grad_fn is not None

# %% [markdown]
# ## Keep it, or catch it
#
# The hooks saw the gradients of `a` and `b`. Are these stored anywhere?

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = [a.grad, b.grad]
print("a.grad and b.grad:", found)
print("\nPyTorch warns:", str(caught[0].message)[:124], "...")
assert found == [None, None] and "not a leaf" in str(caught[0].message)

# %% [markdown]
# No. **PyTorch stores the gradients of leaves only.** That of a non-leaf is used to go further back, and then its memory
# is freed. An optimizer needs just those of the leaves, and storing the others would cost as much memory as the
# activations (the results inside the model).
#
# There are two ways to get the gradient of a non-leaf `h` all the same:
#
# - `h.retain_grad()` keeps it: `backward()` fills `h.grad`, too.
# - `h.register_hook(fn)` catches it: `backward()` calls `fn(grad)`. This also returns a handle, and `handle.remove()`
#   takes the hook off again.

# %%
w = torch.tensor([1.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
a, b = w + x, w + 1
caught = []
for t in (a, b):
    t.retain_grad()
    t.register_hook(caught.append)
(a * b).backward()
print("kept:   a.grad", a.grad.item(), "  b.grad", b.grad.item())
print("caught:", *caught)
# as much memory as the activation
assert a.grad.item() == 2 and b.grad.item() == 3 and a.grad.shape == a.shape
assert sorted(grad.item() for grad in caught) == [2, 3]

# %% tags=["figure"]
figure, axes = card(8.2, 3.5)
node(axes, 1.2, 2.6, "w = 1", kind="leaf", below="w.grad = 2 + 3 = 5")
node(axes, 1.2, 0.95, "x = 2", kind="leaf", below="x.grad = 2")
node(axes, 4.0, 2.6, "b = 2", kind="non-leaf", below="b.grad = a = 3")
node(axes, 4.0, 0.95, "a = 3", kind="non-leaf", below="a.grad = b = 2")
node(axes, 6.9, 1.75, "y = 6", kind="loss", below="starts with 1")
arrow(axes, (6.2, 2.0), (4.7, 2.6), label="3", backward=True)
arrow(axes, (6.2, 1.55), (4.7, 0.95), label="2", backward=True)
arrow(axes, (3.3, 2.6), (1.9, 2.6), label="3", backward=True)
arrow(axes, (3.3, 1.1), (1.9, 2.4), label="2", backward=True)
arrow(axes, (3.3, 0.95), (1.9, 0.95), label="2", backward=True)
show(
    figure,
    "The same graph with gradients flowing from right to left. y starts with 1. It "
    "sends 3 to b and 2 to a. b sends 3 to w. a sends 2 to w and 2 to x. So w.grad is "
    "2 + 3 = 5, x.grad is 2, a.grad is 2 and b.grad is 3.",
)

# %% [markdown]
# ## Leaf or not?
#
# Whether a tensor is a leaf is easy to get wrong. Here are four ways to make `t`:
#
# - `"plain"`: `torch.tensor([1.0], requires_grad=True)`
# - `"scaled"`: `0.1 * torch.tensor([1.0], requires_grad=True)`
# - `"converted"`: `torch.tensor([1.0], requires_grad=True).double()`
# - `"converted first"`: `torch.tensor([1.0]).double().requires_grad_()`
#
# (`double()` converts to `float64`, and `requires_grad_()` switches `requires_grad` on.)
#
# **Predict.** After `(2 * t).sum().backward()`, which of the four have a gradient in `t.grad`? Write a list of names.

# %%
guess("01-non-leaf", which=["plain", "converted first"])

# %%
ways = {
    "plain": torch.tensor([1.0], requires_grad=True),
    "scaled": 0.1 * torch.tensor([1.0], requires_grad=True),
    "converted": torch.tensor([1.0], requires_grad=True).double(),
    "converted first": torch.tensor([1.0]).double().requires_grad_(),
}
with_grad = []
for way, t in ways.items():
    (2 * t).sum().backward()
    print(f"{way + ':':16} leaf {t.is_leaf}")
    # PyTorch warns when you ask a non-leaf for its .grad
    if t.is_leaf and t.grad is not None:
        with_grad.append(way)
compare("01-non-leaf", which=with_grad)
assert with_grad == ["plain", "converted first"]
assert not torch.ones(1, requires_grad=True).to("meta").is_leaf

# %% [markdown] explains="01-non-leaf"
# `0.1 * …` and `.double()` are operations on a tensor that requires grad. What they return is a non-leaf, and the leaf
# behind it has no name by which you could ask for its gradient. The same happens with `.to("cuda")`. So move and convert
# first, and ask for gradients last.

# %% [markdown]
# ## `retain_grad()`
#
# Four details, which the next cell shows:
#
# 1. `retains_grad` tells whether a tensor was asked to keep its gradient.
# 2. Asking twice is the same as asking once.
# 3. On a leaf, `retain_grad()` does nothing. A leaf keeps its gradient anyway, and `retains_grad` stays `False`.
# 4. On a tensor that does not require grad, it raises.

# %%
h = torch.tensor([1.0, 2.0], requires_grad=True) * 3
print("before:      ", h.retains_grad)
assert h.retains_grad is False
h.retain_grad()
h.retain_grad()
print("asked twice: ", h.retains_grad)
assert h.retains_grad is True

leaf = torch.ones(2, requires_grad=True)
leaf.retain_grad()
print("a leaf:      ", leaf.retains_grad)
assert leaf.retains_grad is False

try:
    torch.ones(2).retain_grad()
except RuntimeError as error:
    print("RuntimeError:", error)
    assert "can't retain_grad on Tensor that has requires_grad=False" in str(error)
leaf.sum().backward()
print("a leaf keeps its gradient anyway:", leaf.grad)
assert leaf.grad.tolist() == [1, 1]

# %% [markdown]
# ### When, and on which tensor?
#
# The loss is `5 * h`. We call `retain_grad()`, and register a hook, at three places: on `h` *before* `backward()`; on
# `h` *after* it; and before it, but on *a copy*, `h * 1`.
#
# **Predict.** Where do we get a gradient? Write `"before"`, `"after"` or `"a copy"`, or a list of several.

# %%
guess("01-which-retains", which="before")


# %%
def keep_and_catch(t):
    """Ask `t` to keep its gradient, and catch it as well: a tensor and a list."""
    caught = []
    t.retain_grad()
    t.register_hook(lambda grad: caught.append(grad.item()))
    return t, caught


found = {}

h = 3 * torch.tensor([2.0], requires_grad=True)
found["before"] = keep_and_catch(h)
(5 * h).backward()

h = 3 * torch.tensor([2.0], requires_grad=True)
(5 * h).backward()
found["after"] = keep_and_catch(h)

h = 3 * torch.tensor([2.0], requires_grad=True)
found["a copy"] = keep_and_catch(h * 1)
(5 * h).backward()

for way, (t, caught) in found.items():
    print(f"{way + ':':8} kept {t.grad}, caught {caught}")
compare(
    "01-which-retains",
    which=[way for way, (t, caught) in found.items() if t.grad is not None],
)
assert found["before"][0].grad.item() == 5 and found["before"][1] == [5]
assert all(
    found[way][0].grad is None and found[way][1] == [] for way in ("after", "a copy")
)

# %% [markdown] explains="01-which-retains"
# After: that is too late. The gradient came and went during `backward()`, and nothing can bring it back.
#
# A copy: `h * 1` has the same value as `h`, but it is a different tensor. The loss does not use it, so no gradient ever
# comes to it. **A gradient belongs to a tensor object, not to a name or a value.**

# %% [markdown]
# ## Three rules
#
# Above each exercise, its *contract* says what your function does.
#
# {{rules}}
#
# [One page](rules.md), or `rules()`, explains them. Read the contract, replace the last line of the cell below, run it,
# then the check.


# %% exercise="01-branch-grads"
def branch_grads(w, x):
    """The gradients of sum((w + x) * (w + 1)) with respect to w, x, a = w + x and b
    = w + 1.
    """
    ### BEGIN SOLUTION
    a = w + x
    b = w + 1
    a.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return {"w": w.grad, "x": x.grad, "a": a.grad, "b": b.grad}
    ### END SOLUTION


# %% [markdown]
# ## A second pass
#
# We run backward twice through the same graph. `a` retains its gradient, and a hook on `a` catches it. The first pass
# brings 2.
#
# **Predict.** What is `a.grad` after the second pass? And what has the hook received? Write a list, with one number for
# each pass.

# %%
guess("01-two-passes", a=4, hook=[2, 2])

# %%
w = torch.tensor([1.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
a, b = w + x, w + 1
a.retain_grad()
caught = []
a.register_hook(lambda grad: caught.append(grad.item()))
y = a * b
y.backward(retain_graph=True)
print("after one pass:   a.grad", a.grad.item(), "  w.grad", w.grad.item())
assert (a.grad.item(), w.grad.item()) == (2, 5)
# what a graph saves
assert ((a * b).grad_fn._saved_self.item(), (a * b).grad_fn._saved_other.item()) == (
    3,
    2,
)
y.backward()
print("after two passes: a.grad", a.grad.item(), "  w.grad", w.grad.item())
print("the hook received", caught)
compare("01-two-passes", a=a.grad, hook=caught)
assert (a.grad.item(), w.grad.item(), caught) == (4, 10, [2, 2])
assert all(  # several small batches, and one large one
    torch.equal(
        sum(torch.autograd.grad((v * w).square().sum(), w)[0] for v in (1.0, 2.0, 3.0)),
        whole,
    )
    for whole in torch.autograd.grad(
        (torch.tensor([1.0, 2.0, 3.0]) * w).square().sum(), w
    )
)

# %% [markdown] explains="01-two-passes"
# 4, not 2. `backward()` never replaces what is in `.grad`. It **adds** to it, for leaves and retained tensors alike.
# A hook gets the gradient of one pass. In training the sum is useful: several small batches can add up to one large one.
# It is also why every training loop calls `optimizer.zero_grad()`.

# %% [markdown]
# (`retain_graph=True` sounds like `retain_grad()`, but has nothing to do with `.grad`. A graph saves the values that
# backward needs, here `a` and `b`. By default `backward()` frees them, and a second pass through this graph raises.
# With `retain_graph=True` they stay. A graph that saves nothing, such as that of `(x + 1).sum()`, can be used again
# anyway.)

# %%
y = w * x
y.backward()
try:
    y.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error)[:52], "...")
    assert "backward through the graph a second time" in str(error)

y = (x + 1).sum()
y.backward()
y.backward()
print("(x + 1).sum(): nothing was saved, so nothing is missing")

# %% [markdown]
# For the gradient of one pass alone, you have three choices:
#
# - set `t.grad = None` before the pass,
# - use `torch.autograd.grad(loss, t)`, which returns the gradient and leaves the `.grad` of every leaf alone,
# - use a hook, and take it off when you are done. `with p.register_hook(fn):` does that at the end of the block.

# %%
p = torch.tensor([3.0], requires_grad=True)
p.grad = torch.tensor([9.0])  # left over from somewhere
(gradient,) = torch.autograd.grad((p * p).sum(), p)
print("autograd.grad:", gradient.item(), "  p.grad is still:", p.grad.item())
assert gradient.item() == 6 and p.grad.item() == 9

received = []
with p.register_hook(lambda grad: received.append(grad.item())):
    (6 * p).sum().backward()
(5 * p).sum().backward()  # the hook is gone
print("the hook received:", received, "  p.grad is now:", p.grad.item())
assert received == [6] and p.grad.item() == 9 + 6 + 5

h = 3 * p
h.retain_grad()
torch.autograd.grad(h.sum(), p)
print(
    "autograd.grad writes a retained gradient all the same:",
    h.grad.item(),
    "  p.grad:",
    p.grad.item(),
)
assert h.grad.item() == 1 and p.grad.item() == 20

# %% [markdown]
# One trap is left. A leaf's `p.grad` is a tensor, and by default the next `backward()` adds to it **in place**. If you keep `p.grad`
# itself, what you kept changes with it.

# %%
p = torch.tensor([3.0], requires_grad=True)
(2 * p).sum().backward()
kept, copied = p.grad, p.grad.clone()
(5 * p).sum().backward()
print("the same tensor:", kept.item(), "  the copy:", copied.item())
assert kept.item() == 7 and copied.item() == 2


# %% exercise="01-per-pass-grads"
def per_pass_grads(p, losses):
    """One gradient with respect to p for each loss, of that loss alone."""
    ### BEGIN SOLUTION
    grads = []
    for loss in losses:
        p.grad = None
        loss(p).backward()
        grads.append(p.grad.clone())
    return grads
    ### END SOLUTION


# %% [markdown]
# ## Every step of a chain
#
# Deep networks are chains: the output of one function is the input of the next. To see where a gradient fades or
# explodes, look at it after every step. Here are five steps, each multiplying by 0.5. The results are `h1` to `h5`.
#
# **Predict.** The gradient at `h5` is 1. What is it at `h1`?

# %%
guess("01-five-steps", h1=1 / 16)

# %%
x = torch.tensor([1.0], requires_grad=True)
steps, h = [], x
for _ in range(5):
    h = 0.5 * h
    h.retain_grad()
    steps.append(h)
h.sum().backward()
sizes = [step.grad.item() for step in steps]
print(sizes, " and at x:", x.grad.item())
compare("01-five-steps", h1=sizes[0])
assert sizes == [0.0625, 0.125, 0.25, 0.5, 1.0] and x.grad.item() == 0.03125

# %% tags=["figure"]
figure, axes = card(8.2, 2.9)
caption(
    axes,
    0.4,
    2.6,
    "The gradient at each step of a chain of five multiplications by 0.5",
    size=11,
)
for index, size in enumerate([x.grad.item(), *sizes]):
    left = 0.75 + 1.3 * index
    axes.bar(left, 1.5 * size, bottom=0.55, width=0.7, color=BACKWARD)
    caption(axes, left, 0.55 + 1.5 * size + 0.14, f"{size:g}", align="center")
    caption(
        axes,
        left,
        0.3,
        "x" if index == 0 else f"h{index}",
        align="center",
        colour=QUIET,
    )
show(
    figure,
    "Bar chart of the gradient at x and at the five steps h1 to h5. The bars double "
    "from step to step: 0.03125 at x, then 0.0625, 0.125, 0.25, 0.5, and 1 at h5.",
)

# %% [markdown] explains="01-five-steps"
# This is a vanishing gradient in miniature. Each step passes on half, and of the 1 at `h5` only 3 percent reaches `x`.

# %% [markdown]
# Beware of steps that work **in place**: `h.mul_(5)` writes its result into `h` and returns `h` itself. Here is a chain
# of three steps, `2 * h`, `h.mul_(5)` and `3 * h`. Each result retains its gradient and goes into the list `steps`.
#
# **Predict.** What is in the `.grad` of the three entries, from the first to the last? And what if the second step is
# `h.clone().mul_(5)` instead? Write two lists of three numbers.

# %%
guess("01-in-place", overwritten=[3, 3, 1], copied=[15, 3, 1])


# %%
def grads_of_steps(second):
    steps, h = [], torch.tensor([1.0], requires_grad=True)
    for step in (lambda h: 2 * h, second, lambda h: 3 * h):
        h = step(h)
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return steps[1] is steps[0], [h.grad.item() for h in steps]


same_in_place, overwritten = grads_of_steps(lambda h: h.mul_(5))
same_copied, copied = grads_of_steps(lambda h: h.clone().mul_(5))
print(
    "in place:", overwritten, "  the first two entries are one tensor:", same_in_place
)
print("a copy:  ", copied, "  the first two entries are one tensor:", same_copied)
compare("01-in-place", overwritten=overwritten, copied=copied)
assert (same_in_place, overwritten) == (True, [3, 3, 1]) and (same_copied, copied) == (
    False,
    [15, 3, 1],
)

# %% [markdown] explains="01-in-place"
# In place, the first two entries are one tensor, with one `.grad`, and that belongs to its latest value, the one after
# `mul_(5)`. The 15 is stored nowhere. A `clone()` is a tensor of its own, and gradients pass through it unchanged.


# %% exercise="01-chain-grads"
def chain_grads(fns, x):
    """The gradients of the summed last result with respect to the result of every
    function.
    """
    ### BEGIN SOLUTION
    steps, h = [], x
    for fn in fns:
        h = fn(h.clone())
        h.retain_grad()
        steps.append(h)
    h.sum().backward()
    return [h.grad for h in steps]
    ### END SOLUTION


# %% [markdown]
# ## What keeps a gradient alive
#
# A retained gradient is as large as the tensor it belongs to. It lives as long as something refers to it, and `h.grad`
# is such a reference. Keep `h` in a list, and you keep its gradient, its values, and the graph behind it. A weak
# reference, which keeps nothing alive, tells us when a gradient is gone.

# %%
import weakref

x = torch.ones(1000, requires_grad=True)
h = 3 * x
h.retain_grad()
h.sum().backward()
watcher = weakref.ref(h.grad)
print("bytes of the gradient:", h.grad.numel() * h.grad.element_size())
assert h.grad.numel() * h.grad.element_size() == 4000
# the graph behind h leads to x
assert watcher() is not None and h.grad_fn.next_functions[0][0].variable is x
h.grad = None
assert watcher() is None
print("after h.grad = None it is freed:", watcher() is None)

# %% tags=["figure"]
figure, axes = card(8.2, 2.2)
node(axes, 1.3, 1.25, "your list", kind="plain", width=1.5)
node(axes, 3.9, 1.25, "h", kind="non-leaf", width=0.9)
node(axes, 6.6, 1.75, "h.grad", kind="loss", width=1.5)
node(axes, 6.6, 0.75, "h.grad_fn: the graph", kind="plain", width=2.3)
arrow(axes, (2.1, 1.25), (3.4, 1.25), label="refers to", plain=True)
arrow(axes, (4.4, 1.35), (5.82, 1.75), plain=True)
arrow(axes, (4.4, 1.15), (5.42, 0.8), plain=True)
caption(
    axes,
    0.4,
    0.2,
    "As long as your list refers to h, the gradient and the graph behind h stay in "
    "memory.",
)
show(
    figure,
    "Your list refers to h. h refers to its gradient h.grad and, through h.grad_fn, "
    "to the graph behind it. As long as the list refers to h, all of these stay in "
    "memory.",
)

# %% [markdown]
# ## Myths
#
# **"`backward()` fills `.grad` of a non-leaf and empties it again."** It never stores anything there, unless you asked
# for it beforehand.

# %%
x = torch.tensor([2.0], requires_grad=True)
h = 3 * x
passed = []
h.register_hook(lambda grad: passed.append(weakref.ref(grad)))
h.sum().backward()
h.retain_grad()  # it keeps the next one; the past is gone
print(
    "retains:",
    h.retains_grad,
    "  h.grad:",
    h.grad,
    "  the gradient that passed:",
    passed[0](),
)
assert h.retains_grad and h.grad is None and passed[0]() is None

# %% [markdown]
# **"Only hooks can save the gradient of a non-leaf."** `retain_grad` and `torch.autograd.grad` can, too. Either costs
# one tensor, just like a hook that stores what it sees.

# %%
x = torch.tensor([2.0], requires_grad=True)
h = 3 * x
loss = (h * h).sum()
(by_autograd,) = torch.autograd.grad(loss, h, retain_graph=True)
h.retain_grad()
loss.backward()
assert by_autograd.item() == h.grad.item() == 12
print("by autograd.grad:", by_autograd.item(), "  by retain_grad:", h.grad.item())

# %% [markdown]
# ## Recap
#
# | call | when | what it does |
# |---|---|---|
# | `t.is_leaf` | any time | `False` for a result with a graph behind it (a `grad_fn`), else `True` |
# | `t.retain_grad()` | before `backward()` | makes a non-leaf keep its gradient in `t.grad`; does nothing on a leaf |
# | `t.retains_grad` | any time | `True` for a non-leaf that was asked to retain |
# | `t.register_hook(fn)` | before `backward()` | makes `backward()` call `fn(grad)` with the gradient of each pass; returns a handle |
# | `loss.backward()` | | adds to the `.grad` of leaves and of retained tensors |
# | `torch.autograd.grad(loss, [t, …])` | | returns gradients, leaf or not; adds to the `.grad` of retained tensors only |
#
# ## Where you meet this in the wild
#
# - **Vanishing gradients.** Retain the output of every block, run one backward pass, and plot the norms, as above.
# - **Generative adversarial networks.** An image that the generator made is a non-leaf. Its gradient shows what the
#   discriminator would like to see changed.
# - **Style transfer.** Here the image itself is the leaf: the optimizer changes the image.
#
# Next: lesson 2, on what a tensor hook can tell you.

# %%
progress()
