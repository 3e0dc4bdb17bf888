# %% [markdown]
# # Lesson 3. Changing gradients safely
#
# **The question.** You want to scale, clamp or block the gradient of one tensor, and of no other. How?
#
# **The goal.** You can replace a gradient with a hook, and say which tensors see the new one. You know in which order
# several hooks run, and how to use hooks inside the `forward` of a model.

# %%
import warnings

import torch
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    FORWARD,
    QUIET,
    arrow,
    caption,
    card,
    node,
    show,
    timeline,
)

# %% [markdown]
# ## `None` keeps, a tensor replaces
#
# In lesson 2 the hooks only watched: they returned `None`, and the gradient went on as it was. A hook may also return a
# tensor. Then this tensor takes the place of the gradient, and backward goes on with it.
#
# Here is a small graph, `y = 3 * x` and `z = y * w`, first without a hook:

# %%
x = torch.tensor([2.0], requires_grad=True)
w = torch.tensor([3.0], requires_grad=True)
y = 3 * x
z = y * w
z.backward()
print("y:", y.item(), "  x.grad:", x.grad.item(), "  w.grad:", w.grad.item())
assert (y.item(), x.grad.item(), w.grad.item()) == (6, 9, 6)

# %% [markdown]
# The same graph again, now with a hook on `y` that multiplies by 100.
#
# **Predict.** What are `x.grad` and `w.grad`?

# %%
guess("03-times-100", x_grad=900, w_grad=6)

# %%
x = torch.tensor([2.0], requires_grad=True)
w = torch.tensor([3.0], requires_grad=True)
y = 3 * x
z = y * w
y.register_hook(lambda grad: grad * 100)
z.backward()
print("y:", y.item(), "  x.grad:", x.grad.item(), "  w.grad:", w.grad.item())
compare("03-times-100", x_grad=x.grad, w_grad=w.grad)
assert (x.grad.item(), w.grad.item(), y.item(), z.item()) == (900, 6, 6, 18)

# %% tags=["figure"]
figure, axes = card(8.4, 3.4)
node(axes, 1.2, 2.4, "x = 2", kind="leaf", below="x.grad = 900")
node(
    axes, 4.3, 2.4, "y = 3 · x = 6", kind="non-leaf", note="hook: grad * 100", width=1.7
)
node(axes, 4.3, 0.95, "w = 3", kind="leaf", below="w.grad = y = 6")
node(axes, 7.2, 1.7, "z = y · w = 18", kind="loss", width=1.8, below="starts with 1")
arrow(axes, (6.25, 1.95), (5.2, 2.4), label="3", backward=True)
arrow(axes, (6.25, 1.5), (5.0, 0.95), label="6", backward=True)
arrow(axes, (3.4, 2.4), (1.9, 2.4), label="300", backward=True)
caption(
    axes,
    0.5,
    0.2,
    "The new gradient goes on from y to everything that y was computed from. It does "
    "not reach w.",
)
show(
    figure,
    "The graph of z = y times w with y = 3 times x. Backward sends 3 from z to y and "
    "6 from z to w. The hook on y turns 3 into 300. From y it goes on to x, whose "
    "grad is 900. The gradient of w is 6, as without a hook.",
)

# %% [markdown] explains="03-times-100"
# The gradient 3 arrives at `y`, the hook turns it into 300, and `x` gets 3 · 300 = 900. `w` gets its gradient straight
# from `z`, not through `y`: it stays 6. So does the value of `y`.
#
# **A new gradient counts for the tensors that the hooked tensor was computed from, and for no others.** If the hooked
# tensor is a leaf, the new gradient ends up in its own `.grad`.

# %% [markdown]
# Here are four hooks on `y = 3 * x`, with the loss `(5 * y).sum()`:


# %%
def x_grad(hook):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = 3 * x
    y.register_hook(hook)
    (5 * y).sum().backward()
    return x.grad.tolist()


def forgot_return(grad):
    grad = grad * 2


print("returns None:     ", x_grad(lambda grad: None))
print("returns grad * 2: ", x_grad(lambda grad: grad * 2))
print("returns zeros:    ", x_grad(torch.zeros_like))
print("forgets to return:", x_grad(forgot_return))
assert x_grad(lambda grad: None) == x_grad(forgot_return) == [15, 15]
assert x_grad(lambda grad: grad * 2) == [30, 30] and x_grad(torch.zeros_like) == [0, 0]

# %% [markdown]
# The last one is the most common mistake with hooks. `grad = grad * 2` gives the name `grad` to a new tensor, and the
# function ends without `return`. PyTorch sees `None` and keeps the old gradient. There is no warning.
#
# A hook may return `None`, or a tensor with the shape and the dtype of the gradient. Anything else raises:


# %%
def message(new_value):
    def bad(grad):
        return new_value(grad)

    try:
        x_grad(bad)
    except (RuntimeError, TypeError) as error:
        return str(error)


other_shape = message(lambda grad: grad.sum())
other_dtype = message(lambda grad: grad.double())
no_tensor = message(lambda grad: 1.0)
print(other_shape, other_dtype, no_tensor, sep="\n")
assert other_shape == "hook 'bad' has changed the size of value"
assert (
    other_dtype == "hook 'bad' has changed the type of value "
    "(was torch.FloatTensor got torch.DoubleTensor)"
)
assert no_tensor == "expected Variable, but hook returned 'float'"

# %% [markdown]
# (`Variable` is an old name for `Tensor`.)
#
# In a rare case, a hook is called with `None` in place of a tensor. `unbind`, `chunk` and `split` make several tensors
# in one operation. If the loss uses only one of them, backward still reaches this operation, and a hook on an unused
# one is called with `None`. (An operation written as a `torch.autograd.Function` can do that, too.) A hook that cannot
# handle it stops the pass.

# %%
x = torch.ones(2, 3, requires_grad=True)
used, unused = x.unbind(0)
log = []
unused.register_hook(log.append)
used.sum().backward()
print("the hook on the unused row received", log)
assert log == [None]

x = torch.ones(2, 3, requires_grad=True)
used, unused = x.unbind(0)
unused.register_hook(lambda grad: grad * 2)
try:
    used.sum().backward()
except TypeError as error:
    failed = str(error)
    print("TypeError:", failed)
assert "NoneType" in failed

# %% [markdown]
# So a hook that has to work on any tensor begins with a guard: `if grad is None: return None`. In the exercises you do
# not need it.
#
# ## In place?
#
# Usually a hook receives a tensor. It could change this tensor in place, with `grad.mul_(3)`. That is short, and there
# is no `return` to forget.
#
# The loss is `((w + x) * c).sum()` with `c = [2, 5]`. Without hooks, both `w` and `x` get the gradient `[2, 5]`. Does
# PyTorch make two tensors for that? Two hooks note the address in memory of what they receive:

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True)
x = torch.tensor([3.0, 4.0], requires_grad=True)
addresses = []
w.register_hook(lambda grad: addresses.append(grad.data_ptr()))
x.register_hook(lambda grad: addresses.append(grad.data_ptr()))
((w + x) * torch.tensor([2.0, 5.0])).sum().backward()
print("the same memory:", addresses[0] == addresses[1])
assert len(addresses) == 2 and addresses[0] == addresses[1]

# %% [markdown]
# Now a hook on `w` alone runs `grad.mul_(3)`.
#
# **Predict.** What are `w.grad` and `x.grad`? Write lists such as `[2, 5]`.

# %%
guess("03-in-place-hook", w_grad=[6, 15], x_grad=[6, 15])


# %%
def both_grads(hook):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    w.register_hook(hook)
    c = torch.tensor([2.0, 5.0])
    ((w + x) * c).sum().backward()
    return w.grad.tolist(), x.grad.tolist()


none = both_grads(lambda grad: None)
in_place = both_grads(lambda grad: grad.mul_(3))
returned = both_grads(lambda grad: grad * 3)
print("returns None:      w.grad", none[0], "  x.grad", none[1])
print("grad.mul_(3):      w.grad", in_place[0], "  x.grad", in_place[1])
print("returns grad * 3:  w.grad", returned[0], "  x.grad", returned[1])
compare("03-in-place-hook", w_grad=in_place[0], x_grad=in_place[1])
assert none == ([2, 5], [2, 5])
assert in_place == ([6, 15], [6, 15])
assert returned == ([6, 15], [2, 5])

# %% tags=["figure"]
figure, axes = card(8.6, 4.6)
caption(axes, 0.4, 4.3, "The hook on w runs grad.mul_(3)", size=11)
node(axes, 7.4, 3.3, "[2, 5]", kind="loss", note="for w and for x", width=1.3)
node(axes, 4.6, 3.3, "[6, 15]", kind="loss", note="the same tensor", width=1.3)
node(axes, 1.5, 3.65, "w.grad = [6, 15]", kind="leaf", width=2.0)
node(axes, 1.5, 2.85, "x.grad = [6, 15]", kind="leaf", width=2.0, below="wrong")
arrow(axes, (6.7, 3.3), (5.3, 3.3), label="mul_(3)", backward=True)
arrow(axes, (3.9, 3.38), (2.55, 3.65), backward=True)
arrow(axes, (3.9, 3.2), (2.55, 2.85), backward=True)
axes.plot([0.4, 8.2], [2.2, 2.2], color=QUIET, linewidth=0.8)
caption(axes, 0.4, 1.9, "The hook on w returns grad * 3", size=11)
node(axes, 7.4, 0.85, "[2, 5]", kind="loss", note="for w and for x", width=1.3)
node(axes, 4.6, 1.2, "[6, 15]", kind="loss", note="a new tensor", width=1.3)
node(axes, 1.5, 1.2, "w.grad = [6, 15]", kind="leaf", width=2.0)
node(axes, 1.5, 0.4, "x.grad = [2, 5]", kind="leaf", width=2.0)
arrow(axes, (6.7, 0.93), (5.3, 1.2), label="· 3", backward=True)
arrow(axes, (3.9, 1.2), (2.55, 1.2), backward=True)
arrow(axes, (6.7, 0.75), (2.55, 0.4), backward=True)
show(
    figure,
    "Two pictures, read from right to left. Above, the hook on w runs grad.mul_(3). "
    "The tensor [2, 5] is there for w and for x. mul_(3) makes it [6, 15]; it is the "
    "same tensor. So w.grad is [6, 15], and x.grad is [6, 15], which is wrong. Below, "
    "the hook on w returns grad * 3. This is a new tensor, [6, 15], and w.grad is [6, "
    "15]. The tensor [2, 5] stays as it was, and x.grad is [2, 5].",
)

# %% [markdown] explains="03-in-place-hook"
# In a sum, both operands have the same gradient, and PyTorch does not copy it: both get **the same tensor**. A hook on `w`
# that writes into this tensor changes the gradient of `x`, which has no hook at all. Nothing warns you; the numbers are
# simply wrong. Below, it happens in a residual connection: in place, the hook doubles the gradient of the skip connection,
# too, which makes 2 · 5 + 2 = 12.

# %% [markdown]
# A residual connection is `f + x`, here with `f = 5 * x`. A hook on `f` doubles the gradient of this branch, so `x.grad`
# should become 2 · 5 + 1 = 11:


# %%
def residual(hook):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f = 5 * x
    f.register_hook(hook)
    ((f + x) * torch.ones(2)).sum().backward()
    return x.grad.tolist()


print("grad * 2:    ", residual(lambda grad: grad * 2))
print("grad.mul_(2):", residual(lambda grad: grad.mul_(2)))
assert residual(lambda grad: grad * 2) == [11, 11]
assert residual(lambda grad: grad.mul_(2)) == [12, 12]

# %% [markdown]
# Three more cases of the same mistake:
#
# 1. The gradient of `.sum()` is one number that is *expanded*: all its entries are the same memory. If it has more than
#    one entry, `grad.mul_(3)` and `grad[0] = 0` raise. `grad[[0]] = 0`, with a list of indexes, does not: it sets the
#    one number, and so every entry.
# 2. A gradient that you pass to `backward(gradient=...)` yourself is handed to the hook as it is. In place, the hook
#    changes your tensor.
# 3. Sometimes nothing goes wrong. If `w` is used twice, as in `(w + x) * (w + 1)`, two gradients are added for `w`. The
#    sum is a new tensor that belongs to `w` alone. So a hook that writes in place can work in one model and corrupt
#    another.

# %%
w = torch.ones(2, requires_grad=True)
w.register_hook(lambda grad: grad.mul_(3))
try:
    w.sum().backward()
except RuntimeError as error:
    text = str(error)
print("1.", text.split(". ")[0])
assert (
    "more than one element of the written-to tensor refers to a single memory location"
    in text
)


def zero_first(grad):
    grad[[0]] = 0


w = torch.ones(2, requires_grad=True)
w.register_hook(zero_first)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch says that this is deprecated
    w.sum().backward()
print("   with grad[[0]] = 0, w.grad is", w.grad.tolist())
assert w.grad.tolist() == [0, 0]

mine = torch.ones(2)
y = torch.ones(2, requires_grad=True) * 1
y.register_hook(lambda grad: grad.mul_(2))
y.backward(gradient=mine)
print("2. my own tensor is now", mine.tolist())
assert mine.tolist() == [2, 2]

w = torch.tensor([1.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
w.register_hook(lambda grad: grad.mul_(3))
((w + x) * (w + 1)).backward()
print("3. w.grad", w.grad.item(), "and x.grad", x.grad.item(), "are right, by luck")
assert (w.grad.item(), x.grad.item()) == (15, 2)
assert [  # has the gradient a graph, when a hook keeps it, and when a hook cuts it?
    t.register_hook(hook)
    and torch.autograd.grad((t**3).sum(), t, create_graph=True)[0].requires_grad
    for hook in (
        lambda grad: 2 * grad,
        lambda grad: 2 * grad.detach(),
        torch.no_grad()(lambda grad: 2 * grad),
    )
    for t in [torch.ones(2, requires_grad=True)]
] == [True, False, False]

# %% [markdown]
# The rule is short: **compute a new tensor and return it.** No method whose name ends in an underscore, no `grad *= 3`,
# no `grad[0] = 0`. If you need to write, write into a copy: `grad = grad.clone()`.
#
# In a pass with `create_graph=True`, gradients have a graph of their own, so that they can be differentiated again. A
# hook that computes the new gradient under `torch.no_grad()`, or detaches it, cuts this graph. The checks try that.


# %% exercise="03-scale-grad"
def scale_grad(t, s):
    """Multiply every gradient that arrives at t by s; return the handle."""
    ### BEGIN SOLUTION
    return t.register_hook(lambda grad: grad * s)
    ### END SOLUTION


# %% [markdown]
# ## Clamping over several passes
#
# To clamp is to cut off what lies outside a range. We run three passes that bring 0.8 each, and clamp to [-1, 1] in
# two ways: with a hook on `p`, `grad.clamp(-1, 1)`; and without a hook, by `p.grad.clamp_(-1, 1)` after each pass.
#
# **Predict.** What is `p.grad` after the third pass, either way?

# %%
guess("03-clamp-three-passes", by_hook=2.4, after_each=1)

# %%
p = torch.tensor([0.0], requires_grad=True)
p.register_hook(lambda grad: grad.clamp(-1, 1))
by_hook = []
for _ in range(3):
    (0.8 * p).backward()
    by_hook.append(round(p.grad.item(), 4))
print("a hook clamps each pass:       ", by_hook)
assert by_hook == [0.8, 1.6, 2.4]

p = torch.tensor([0.0], requires_grad=True)
by_total = []
for _ in range(3):
    (0.8 * p).backward()
    p.grad.clamp_(-1, 1)
    by_total.append(round(p.grad.item(), 4))
print("clamping .grad after each pass:", by_total)
compare("03-clamp-three-passes", by_hook=by_hook[-1], after_each=by_total[-1])
assert by_total == [0.8, 1.0, 1.0]

# %% tags=["figure"]
figure, axes = card(8.2, 3.1)
caption(
    axes, 0.4, 2.8, "p.grad after each of three passes that bring 0.8, limit 1", size=11
)
for index, (first, second) in enumerate(zip(by_hook, by_total)):
    left = 1.4 + 1.7 * index
    for x_position, value, colour in (
        (left, first, BACKWARD),
        (left + 0.6, second, QUIET),
    ):
        axes.bar(x_position, 0.7 * value, bottom=0.55, width=0.5, color=colour)
        caption(
            axes, x_position, 0.55 + 0.7 * value + 0.13, f"{value:g}", align="center"
        )
    caption(axes, left + 0.3, 0.3, f"pass {index + 1}", align="center", colour=QUIET)
caption(axes, 6.1, 1.9, "hook: each pass", colour=BACKWARD)
caption(axes, 6.1, 1.5, "clamping .grad: the total", colour=QUIET)
show(
    figure,
    "Bar chart of p.grad after three passes that bring 0.8 each, with the limit 1. "
    "With a clamping hook: 0.8, 1.6, 2.4. With .grad clamped after each pass: 0.8, 1, "
    "1.",
)

# %% [markdown] explains="03-clamp-three-passes"
# The hook works on the gradient of the current pass, before it is added to `.grad`. As 0.8 is within the limits, the
# hook has nothing to do, and the total is 2.4. **Clamping each pass is not the same as clamping the sum.** If you add
# up gradients over several small batches, decide which of the two you mean.


# %% exercise="03-clamp-grad"
def clamp_grad(t, lo, hi):
    """Clamp each pass's gradient at t to [lo, hi], element by element; return the
    handle.
    """
    ### BEGIN SOLUTION
    return t.register_hook(lambda grad: grad.clamp(lo, hi))
    ### END SOLUTION


# %% [markdown]
# ### Two places to clamp
#
# Take two layers of one number each, `h = first * x` and `out = second * h`, and a steep loss, `100 * out`. With
# `x = 3`, `first = 1` and `second = 2`, the gradient of `first` is 600 and that of `second` is 300.
#
# **Predict.** What is `first.grad` when `second.grad` is clamped to [-1, 1] after backward? And what is it when,
# instead, a hook on `h` clamps to [-1, 1]?

# %%
guess("03-two-places", after_backward=600, hook_on_h=3)


# %%
def layer_grads(hook_on_h=None):
    first = torch.tensor([1.0], requires_grad=True)
    second = torch.tensor([2.0], requires_grad=True)
    h = first * 3.0
    if hook_on_h is not None:
        h.register_hook(hook_on_h)
    (100 * (second * h)).backward()
    return first.grad, second.grad


first_grad, second_grad = layer_grads()
print(
    "nothing is clamped:                first",
    first_grad.item(),
    "  second",
    second_grad.item(),
)
assert (first_grad.item(), second_grad.item()) == (600, 300)
second_grad.clamp_(-1, 1)
print(
    "clamped .grad of the second layer: first",
    first_grad.item(),
    "  second",
    second_grad.item(),
)
after_backward = first_grad
assert (first_grad.item(), second_grad.item()) == (600, 1)

first_grad, second_grad = layer_grads(lambda grad: grad.clamp(-1, 1))
print(
    "a clamping hook on h:              first",
    first_grad.item(),
    "  second",
    second_grad.item(),
)
compare("03-two-places", after_backward=after_backward, hook_on_h=first_grad)
assert (first_grad.item(), second_grad.item()) == (3, 300)

# %% [markdown] explains="03-two-places"
# When you clamp a `.grad`, backward is over, and the earlier layers have already received their large gradients: still
# 600. Clamping `.grad` protects this one parameter and no other.
#
# The hook on the activation `h` sits on the way back. It lets at most 1 through, so the first layer gets 3. The second
# layer keeps its 300: its gradient does not pass through `h`.

# %% [markdown]
# ## Blocking a part: frozen rows
#
# Sometimes a few rows of a parameter should not learn, such as those of known words in an embedding. The switch
# `requires_grad` does not help. It belongs to a whole tensor:

# %%
embedding = nn.Embedding(4, 2)
try:
    embedding.weight[0].requires_grad = False
except RuntimeError as error:
    print("RuntimeError:", str(error).split(". ")[0])
    assert "you can only change requires_grad flags of leaf variables" in str(error)

# %% [markdown]
# `embedding.weight[0]` is a new tensor, the result of an operation. A hook on it is of no use either, because the loss
# does not use this tensor:

# %%
fired = []
embedding.weight[0].register_hook(fired.append)
embedding(torch.arange(4)).sum().backward()
print("calls of the hook:", len(fired))
assert fired == []

# %% [markdown]
# A hook on the whole parameter can set the gradient of some rows to zero. Below, it does so for rows 0 and 1 of four,
# and an optimizer takes one step: plain SGD; SGD with weight decay; and SGD with momentum, which took one step before
# the hook came. (Weight decay adds 0.1 times the weight to the gradient. Momentum moves a weight by the new gradient plus
# 0.9 times the last move.)
#
# **Predict.** Which rows move in this step? Write lists of row numbers, such as `[0, 3]`, in ascending order.

# %%
guess("03-masked-rows", plain=[2, 3], decay=[0, 1, 2, 3], momentum=[0, 1, 2, 3])


# %%
def rows_that_move(step_before=False, **options):
    torch.manual_seed(0)
    embedding = nn.Embedding(4, 2)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1, **options)
    if step_before:
        embedding(torch.arange(4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    mask = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    embedding.weight.register_hook(lambda grad: grad * mask)
    before = embedding.weight.detach().clone()
    embedding(torch.arange(4)).square().sum().backward()
    optimizer.step()
    return [
        row for row in range(4) if not torch.equal(embedding.weight[row], before[row])
    ]


plain = rows_that_move()
decay = rows_that_move(weight_decay=0.1)
momentum = rows_that_move(momentum=0.9, step_before=True)
print("plain SGD:   ", plain)
print("weight decay:", decay)
print("momentum:    ", momentum)
compare("03-masked-rows", plain=plain, decay=decay, momentum=momentum)
assert plain == [2, 3] and decay == momentum == [0, 1, 2, 3]
assert (
    torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9).defaults[
        "dampening"
    ]
    == 0
)

# %% [markdown] explains="03-masked-rows"
# A zero gradient does not mean no step. Weight decay pulls on every weight, whatever its gradient is, and momentum
# still carries the gradients of earlier steps. To keep rows fixed under such an optimizer, you also have to put the old
# values back after each step.

# %% [markdown]
# Note the shape of the mask, `(4, 1)`: one number for each row, for all its columns. A mask with a single dimension is
# matched with the last one, the columns:

# %%
grad = torch.ones(2, 2)
for_rows, for_columns = (
    grad * torch.tensor([[0.0], [1.0]]),
    grad * torch.tensor([0.0, 1.0]),
)
print("mask of shape (2, 1):", for_rows.tolist())
print("mask of shape (2,):  ", for_columns.tolist())
assert for_rows.tolist() == [[0, 0], [1, 1]] and for_columns.tolist() == [
    [0, 1],
    [0, 1],
]

# %% [markdown]
# Mind the dtype as well: a float32 mask makes a half-precision gradient float32, and then the hook raises. A mask from
# `torch.ones_like(grad)` has the dtype of the gradient.

# %%
half = torch.ones(2, dtype=torch.bfloat16)
print((half * torch.ones(2)).dtype, (half * torch.ones_like(half)).dtype)
assert (half * torch.ones(2)).dtype is torch.float32 and (
    half * torch.ones_like(half)
).dtype is torch.bfloat16


# %% exercise="03-freeze-rows"
def freeze_rows(p, rows):
    """Set the gradient of these rows of p to zero in every pass; return the handle."""

    ### BEGIN SOLUTION
    def hook(grad):
        grad = grad.clone()
        grad[rows] = 0
        return grad

    return p.register_hook(hook)
    ### END SOLUTION


# %% [markdown]
# ## Several hooks on one tensor
#
# Hooks on one tensor form a chain. They run in the order in which they were registered, and each receives what the one
# before it returned.
#
# With `y = 3 * x` and the loss `(5 * y).sum()`, a gradient of 5 arrives at `y`. Of two hooks on `y`, one adds 1 and the
# other multiplies by 2.
#
# **Predict.** What is `x.grad` when "plus 1" is registered first, and when "times 2" is?

# %%
guess("03-two-hooks-in-a-row", plus_1_first=36, times_2_first=33)


# %%
def chain(*hooks):
    x = torch.tensor([1.0], requires_grad=True)
    y = 3 * x
    for hook in hooks:
        y.register_hook(hook)
    (5 * y).sum().backward()
    return x.grad.item()


def plus_1(grad):
    return grad + 1


def times_2(grad):
    return grad * 2


print("plus 1, then times 2:", chain(plus_1, times_2))
print("times 2, then plus 1:", chain(times_2, plus_1))
compare(
    "03-two-hooks-in-a-row",
    plus_1_first=chain(plus_1, times_2),
    times_2_first=chain(times_2, plus_1),
)
assert chain(plus_1, times_2) == 36 and chain(times_2, plus_1) == 33

# %% [markdown] explains="03-two-hooks-in-a-row"
# With "plus 1" first, 5 becomes 6, then 12, and `x` gets 3 · 12 = 36. With "times 2" first, 5 becomes 10, then 11, and `x`
# gets 3 · 11 = 33.

# %% tags=["figure"]
figure, axes = card(8.6, 3.1)
for height, steps, result in (
    (2.3, (("+ 1", "6"), ("· 2", "12")), 36),
    (0.95, (("· 2", "10"), ("+ 1", "11")), 33),
):
    node(axes, 7.4, height, "5 arrives at y", kind="loss", width=1.6)
    node(
        axes, 5.3, height, steps[0][0], kind="hook", note="registered first", width=0.9
    )
    node(
        axes, 3.4, height, steps[1][0], kind="hook", note="registered second", width=0.9
    )
    node(axes, 1.2, height, f"x.grad = {result}", kind="leaf", width=1.6)
    arrow(axes, (6.55, height), (5.8, height), label="5", backward=True)
    arrow(axes, (4.8, height), (3.9, height), label=steps[0][1], backward=True)
    arrow(axes, (2.9, height), (2.05, height), label=steps[1][1], backward=True)
caption(
    axes,
    0.4,
    0.25,
    "From right to left, as in every graph. From y on, the result is multiplied by 3 "
    "on the way to x.",
)
show(
    figure,
    "Two chains of hooks, read from right to left. A gradient of 5 arrives at y. Plus "
    "1 registered first gives 6, then times 2 gives 12, and x.grad is 36. Times 2 "
    "registered first gives 10, then plus 1 gives 11, and x.grad is 33.",
)

# %% [markdown]
# Three consequences:
#
# - A hook that returns `None` is transparent: the next one receives what this one received.
# - The same function can be registered twice, and then it runs twice.
# - A hook that logs sees the gradient at its own place in the chain. `.grad` is written at the end, after all hooks.
#
# There is no `prepend` (hooks on modules have one, lesson 6): `register_hook` of a tensor takes the function and
# nothing else. To run first, register first.

# %%
print("None, then times 2:   ", chain(lambda grad: None, times_2))
print("times 2, then times 2:", chain(times_2, times_2))
assert chain(lambda grad: None, times_2) == 30
assert chain(times_2, times_2) == 60

p = torch.tensor([1.0], requires_grad=True)
log = []
p.register_hook(lambda grad: log.append(grad.item()))
p.register_hook(times_2)
p.register_hook(lambda grad: log.append(grad.item()))
(3 * p).sum().backward()
print("logged before and after the change:", log, "  p.grad:", p.grad.item())
assert log == [3, 6] and p.grad.item() == 6

try:
    p.register_hook(times_2, prepend=True)
except TypeError as error:
    print("TypeError:", error)
    assert "prepend" in str(error)


# %% exercise="03-clip-and-log"
def clip_and_log(t, lo, hi):
    """Clamp each pass's gradient at t; return a dict with the raw and the clipped
    one.
    """
    ### BEGIN SOLUTION
    log = {}

    def hook(grad):
        clipped = grad.clamp(lo, hi)
        log["raw"] = grad.detach().clone()
        log["clipped"] = clipped.detach().clone()
        return clipped

    t.register_hook(hook)
    return log
    ### END SOLUTION


# %% exercise="03-register-composed"
def register_composed(t, fs):
    """Replace the gradient g at t by fs[0](fs[1](...fs[-1](g))); return a list of
    all handles.
    """
    ### BEGIN SOLUTION
    return [t.register_hook(f) for f in reversed(fs)]
    ### END SOLUTION


# %% [markdown]
# ## One branch only
#
# Often a tensor is used in more than one place, and the gradient of one use should be changed. A hook on `x` cannot
# tell the uses apart, because it receives the sum of them all. The solution is to **give this use a tensor of its
# own**: `y = x * 1` has the values of `x`, backward passes through it to `x`, and it can have a hook.
#
# The loss is `10 * y + 2 * x`, and a hook sets the gradient to zero.
#
# **Predict.** What is `x.grad` when this hook is on `y`, and when it is on `x`?

# %%
guess("03-one-branch", hook_on_y=2, hook_on_x=0)

# %%
x = torch.tensor([3.0], requires_grad=True)
y = x * 1
y.register_hook(torch.zeros_like)
(10 * y + 2 * x).sum().backward()
print("hook on y:", x.grad.item())
hook_on_y = x.grad
assert x.grad.item() == 2

x = torch.tensor([3.0], requires_grad=True)
x.register_hook(torch.zeros_like)
y = x * 1
(10 * y + 2 * x).sum().backward()
print("hook on x:", x.grad.item())
compare("03-one-branch", hook_on_y=hook_on_y, hook_on_x=x.grad)
assert x.grad.item() == 0

# %% tags=["figure"]
figure, axes = card(8.4, 3.1)
node(axes, 1.2, 1.5, "x = 3", kind="leaf", below="x.grad = 0 + 2 = 2")
node(axes, 4.1, 2.3, "y = x · 1", kind="non-leaf", note="hook: zeros", width=1.4)
node(axes, 7.2, 2.3, "10 · y", kind="loss", width=1.4)
node(axes, 7.2, 0.8, "2 · x", kind="loss", width=1.4)
arrow(axes, (6.45, 2.3), (4.85, 2.3), label="10", backward=True)
arrow(axes, (3.35, 2.2), (1.9, 1.65), label="0", backward=True)
arrow(axes, (6.45, 0.85), (1.9, 1.4), label="2", backward=True)
caption(axes, 0.5, 0.25, "Only what passes through y meets its hook.")
show(
    figure,
    "x = 3 is used twice: through y = x times 1 in 10 times y, and directly in 2 "
    "times x. Backward sends 10 to y, whose hook turns it into 0 on the way to x. The "
    "direct way brings 2. So x.grad is 0 + 2 = 2.",
)

# %% [markdown] explains="03-one-branch"
# The hook on `x` blocks both uses, the hook on `y` only one.

# %% [markdown]
# Nobody has to remove the hook on `y`: it goes when `y` and its graph go (unless the hook itself refers to `y`: lesson 11).
# A weak reference shows it:

# %%
import weakref


def short_lived(grad):
    return torch.zeros_like(grad)


y = x * 1
y.register_hook(short_lived)
watcher = weakref.ref(short_lived)
del short_lived
print("kept by y:       ", watcher() is not None)
assert watcher() is not None
del y
print("gone without y:  ", watcher() is None)
assert watcher() is None

# %% [markdown]
# ### The guard
#
# A function that makes a tensor and hooks it will one day be called without gradients: under `torch.no_grad()`, or with
# inputs and parameters that do not require grad. Then `x * 1` does not require grad either, and cannot have a hook:


# %%
def blocked(x):
    y = x * 1
    y.register_hook(torch.zeros_like)
    return y


def blocked_with_guard(x):
    y = x * 1
    if y.requires_grad:
        y.register_hook(torch.zeros_like)
    return y


x = torch.tensor([3.0], requires_grad=True)
with torch.no_grad():
    try:
        blocked(x)
    except RuntimeError as error:
        print("RuntimeError:", error)
        assert (
            "cannot register a hook on a tensor that doesn't require gradient"
            in str(error)
        )
    print("with guard:", blocked_with_guard(x).item())
    assert blocked_with_guard(x).item() == 3

# %% [markdown]
# Without the guard, such code trains well and crashes in the first evaluation.
#
# A *view*, such as `x.view_as(x)` or `x[:]`, shows the memory of `x`. It is a special case: made under
# `torch.no_grad()`, it requires grad if `x` does, so the guard lets a hook through. No harm is done: the view has no
# graph, nothing goes back from it to `x`, and the hook is never called.

# %%
called = []
with torch.no_grad():
    y = x.view_as(x)
    y.register_hook(called.append)
(5 * y).sum().backward()
print(
    "requires grad:",
    y.requires_grad,
    "  grad_fn:",
    y.grad_fn,
    "  calls of the hook:",
    len(called),
)
assert y.requires_grad and y.grad_fn is None and called == [] and x.grad is None


# %% exercise="03-reverse-gradient"
def reverse_gradient(x, lam):
    """A tensor equal to x through which the gradient comes back multiplied by -lam."""
    ### BEGIN SOLUTION
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda grad: -lam * grad)
    return y
    ### END SOLUTION


# %% [markdown]
# ## Hooks in the `forward` of a model
#
# A model has two kinds of tensors that you may want to hook.
#
# - A **parameter** lives as long as the model. Hook it once, in `__init__`.
# - An **activation** is a new tensor in every forward pass, and a hook on the old one does nothing for the new one.
#   Hook it in `forward`, with the guard.
#
# What if you mix them up? The model below registers a hook on its weight in `forward`, and this hook halves the
# gradient. We run three passes. Without a hook each would bring 1. Before each, `weight.grad` is set to `None`.
#
# **Predict.** What is `weight.grad` after each of the three passes? Write a list.

# %%
guess("03-hook-in-forward", passes=[0.5, 0.25, 0.125])


# %%
class Halving(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x):
        self.weight.register_hook(lambda grad: grad * 0.5)
        return self.weight * x


model = Halving()
found = []
for _ in range(3):
    model.weight.grad = None
    model(torch.tensor([1.0])).backward()
    found.append(model.weight.grad.item())
print("weight.grad in each pass:", found)
compare("03-hook-in-forward", passes=found)
assert found == [0.5, 0.25, 0.125]

# %% [markdown] explains="03-hook-in-forward"
# The hooks pile up: one in the first pass, two in the second, three in the third, and each of them halves.

# %% [markdown]
# Here is a model that hooks each tensor where it should, with a log of what happens.

# %%
log = []


def note(text, change=None):
    """A hook that logs `text` and returns what `change` makes of the gradient."""

    def hook(grad):
        log.append(text)
        return None if change is None else change(grad)

    return hook


class Tidy(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.weight.register_hook(note("hook of the weight"))
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        h = self.weight * x
        if h.requires_grad:
            h.register_hook(
                note(f"hook of h, pass {self.passes}", lambda grad: grad.clamp(-1, 1))
            )
        return 5 * h


model = Tidy()
for _ in range(2):
    model(torch.tensor([3.0])).backward()
with torch.no_grad():
    model(torch.tensor([3.0]))
print("\n".join(log))
print("weight.grad:", model.weight.grad.item())
assert log == [
    "hook of h, pass 1",
    "hook of the weight",
    "hook of h, pass 2",
    "hook of the weight",
]
assert model.weight.grad.item() == 6

# %% tags=["figure"]
figure = timeline(
    [
        ("hook on the weight, once", "__init__"),
        ("a first h, with a hook of its own", "forward"),
        ("the hook of this h: 5 becomes 1", "backward"),
        ("the hook of the weight", "backward"),
        ("a new h, with a new hook", "forward"),
        ("the hook of the new h: 5 becomes 1", "backward"),
        ("the hook of the weight", "backward"),
        ("no_grad: h gets no hook", "forward"),
    ],
    title="Two training passes and an evaluation",
    lanes={"__init__": QUIET, "forward": FORWARD, "backward": BACKWARD},
)
show(
    figure,
    "Timeline of eight events. 1, in __init__: hook on the weight, once. 2, forward: "
    "a first h with a hook of its own. 3, backward: the hook of this h turns 5 into "
    "1. 4, backward: the hook of the weight. 5, forward: a new h with a new hook. 6, "
    "backward: the hook of the new h turns 5 into 1. 7, backward: the hook of the "
    "weight. 8, forward under no_grad: h gets no hook.",
)

# %% [markdown]
# In each pass 5 arrives at `h`, its hook lets 1 through, and the weight gets 1 · 3. Two passes add up to 6.
#
# A hook from `__init__` has one weak point: it sits on one parameter object, and whatever puts a new object in its
# place loses the hook. Common ways are `copy.deepcopy(model)`, `torch.save(model, ...)` followed by `torch.load`,
# `load_state_dict(..., assign=True)`, `to_empty` for a model that was built on the `meta` device, and a
# reparametrization such as `weight_norm`. Afterwards, register the hook again. The hook on `h` is never lost, because
# `forward` registers it in each pass.

# %%
import copy
import io

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch.save warns that the hook is not saved
    file = io.BytesIO()
    torch.save(model, file)
file.seek(0)
loaded = torch.load(file, weights_only=False)
assigned = Tidy()
assigned.load_state_dict(Tidy().state_dict(), assign=True)
with torch.device("meta"):
    emptied = Tidy()
emptied.to_empty(device="cpu")
normed = nn.utils.parametrizations.weight_norm(Tidy())

models = {
    "as it was": model,
    "deepcopy": copy.deepcopy(model),
    "torch.load": loaded,
    "assign=True": assigned,
    "to_empty": emptied,
    "weight_norm": normed,
}
for way, new in models.items():
    log.clear()
    new(torch.tensor([3.0])).backward()
    print(f"{way:12} {log}")
    assert [line.split(",")[0] for line in log] == ["hook of h", "hook of the weight"][
        : 1 + (new is model)
    ]

# %% [markdown]
# One more thing, for the last exercise. Layers such as `nn.Linear` expect one row for each sample. `h.flatten(1)` turns
# an activation of shape `[B, C, H, W]` into `[B, C * H * W]`, for any batch size.


# %% exercise="03-guarded-net"
import torch
from torch import nn


class GuardedNet(nn.Module):
    """fc(body(x).flatten(1)): clamps the gradient into body, and gives fc.bias
    zeros.
    """

    def __init__(self, body, fc, lo, hi):
        super().__init__()
        ### BEGIN SOLUTION
        self.body, self.fc, self.lo, self.hi = body, fc, lo, hi
        fc.bias.register_hook(torch.zeros_like)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        h = self.body(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad.clamp(self.lo, self.hi))
        return self.fc(h.flatten(1))
        ### END SOLUTION


# %% [markdown]
# ## Myths
#
# **"You must call `clone()` in a hook, or the graph breaks."** `grad * 3` is a new tensor already, so the copy in
# `grad.clone() * 3` is for nothing. Nor is there a graph that could break: in an ordinary `backward()`, hooks run with
# grad mode off. You need `clone()` where you write into the copy, or store it.

# %%
modes = []


def times_3(grad):
    modes.append(torch.is_grad_enabled())
    return grad * 3


grads = both_grads(times_3)
print("grad * 3:        ", grads)
print("grad.clone() * 3:", both_grads(lambda grad: grad.clone() * 3))
print("grad mode inside the hook:", modes[0])
assert grads == both_grads(lambda grad: grad.clone() * 3) == ([6, 15], [2, 5])
assert modes == [False]

# %% [markdown]
# **"PyTorch notices when a hook works in place, and raises."** Only sometimes, for an expanded gradient of more than one
# entry, such as that of `.sum()`. Otherwise PyTorch is silent, and the result may be wrong. Here `x.grad` should be 3.

# %%
w = torch.tensor([1.0], requires_grad=True)
x = torch.tensor([2.0], requires_grad=True)
w.register_hook(lambda grad: grad.mul_(3))
((w + x) * 3).backward()
print("x.grad:", x.grad.item())
assert x.grad.item() == 9

# %% [markdown]
# **"A hook on a leaf changes its value."** It changes the gradient. The value stays until the optimizer takes a step.

# %%
w = torch.tensor([1.0], requires_grad=True)
w.register_hook(lambda grad: grad * 1000)
(2 * w).backward()
print("w:", w.item(), "  w.grad:", w.grad.item())
assert w.item() == 1 and w.grad.item() == 2000

# %% [markdown]
# **"`torch.zeros(grad.shape)` blocks a gradient."** In a float32 model it does. In a float64 model it raises, because
# `torch.zeros(shape)` is float32 (the default dtype) whatever the model is. `torch.zeros_like(grad)` has the dtype of
# the gradient.

# %%
p = torch.ones(2, dtype=torch.float64, requires_grad=True)
handle = p.register_hook(lambda grad: torch.zeros(grad.shape))
try:
    p.sum().backward()
except RuntimeError as error:
    print("RuntimeError:", error)
    assert "has changed the type of value" in str(error)
handle.remove()
p.register_hook(torch.zeros_like)
p.sum().backward()
print("zeros_like:", p.grad)
assert p.grad.tolist() == [0, 0]

# %% [markdown]
# **"`view(-1)` flattens the activation for a linear layer."** With a single sample it seems to work. But it merges the
# samples of a batch into one long row, and with two samples the shapes no longer fit.

# %%
fc = nn.Linear(8, 2)
batch = torch.ones(2, 2, 2, 2)
try:
    fc(batch.view(-1))
except RuntimeError as error:
    failed = str(error)
    print("RuntimeError:", failed)
print("flatten(1):", tuple(fc(batch.flatten(1)).shape))
assert fc(batch[:1].view(-1)).shape == (2,) and "shapes cannot be multiplied" in failed
assert batch.view(-1).shape == (16,) and fc(batch.flatten(1)).shape == (2, 2)

# %% [markdown]
# ## Recap
#
# | call | signature | when it fires | what its return value does |
# |---|---|---|---|
# | `t.register_hook(fn)` | `fn(grad)` | once for each pass that reaches `t` (rarely with `None`) | `None` keeps, a tensor replaces |
# | several hooks on `t` | `fn(grad)` | in the order of registration | is what the next hook receives |
# | `y = x * 1`, hook on `y` | `fn(grad)` | for the gradient that passes through `y` | counts for this use of `x` only |
#
# - A returned tensor needs the shape and the dtype of the gradient. It counts for `t.grad` if `t` is a leaf, and for
#   what `t` was computed from.
# - Never write into the gradient. Return a new tensor.
# - A hook changes the gradient of one pass, not the total.
# - Parameters are hooked once, in `__init__`. Activations are hooked in each `forward`.
#
# ## Where you meet this in the wild
#
# - **Gradient reversal.** In domain adaptation a classifier learns to tell two domains apart, while the reversed
#   gradient teaches the features to make that impossible.
# - **Frozen rows.** Special tokens are added to a vocabulary, and only their embedding rows are trained.
# - **Loss scaling.** Training in half precision multiplies the loss by a large number, so that small gradients survive.
#   Every gradient that your hook sees is multiplied by this number, and the limits of a clamp have to be, too.
#
# Next: lesson 4, where a hook runs after the gradient was added to `.grad`.

# %%
progress()
