# %% [markdown]
# # Lesson 4. After accumulation: post-accumulate-grad hooks
#
# **The question.** The gradient of a weight is complete long before `backward()` returns. Can I use it at that very
# moment, and then free it?
#
# **The goal.** You can tell the gradient of *this pass* from the *total* in `.grad`, and you can take a step, move
# gradients elsewhere, or clip them, while `backward()` is still running.

# %%
import warnings

import torch
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
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
# ## Two moments at one leaf
#
# When a gradient comes to a leaf `p`, two things happen, one after the other:
#
# 1. It **arrives**. The tensor hooks of lessons 2 and 3 run now. Each receives the gradient of this pass, and may
#    replace it.
# 2. It is **accumulated**: PyTorch adds it to `p.grad`, or stores it there if `p.grad` is `None`.
#
# A tensor hook cannot see the result of step 2, because it runs before. For the moment after, there is another kind of
# hook:
#
#     handle = p.register_post_accumulate_grad_hook(fn)
#
# From then on PyTorch calls `fn(p)` whenever a backward pass has written `p.grad`. Note the argument: it is the
# **tensor itself**, not a gradient. The gradient is in `p.grad`.
#
# **Predict.** In the first of two backward passes the gradient is 2 for each element, in the second it is 3. What does
# the hook find in `p.grad` each time? (One number is enough, as all elements are equal.)

# %%
guess("04-two-passes", first=2, second=5)

# %%
p = torch.tensor([1.0, 2.0], requires_grad=True)
found = []
handle = p.register_post_accumulate_grad_hook(
    lambda q: found.append((q is p, q.grad.clone()))
)
(2 * p).sum().backward()
(3 * p).sum().backward()
handle.remove()
for same, grad in found:
    print("the argument is p:", same, "  p.grad:", grad.tolist())
compare("04-two-passes", first=found[0][1], second=found[1][1])
assert [(same, grad.tolist()) for same, grad in found] == [
    (True, [2.0, 2.0]),
    (True, [5.0, 5.0]),
]

# %% [markdown] explains="04-two-passes"
# 2, and then 5: the total, not the gradient of this pass. And the argument `q` is `p`, the same object.

# %% [markdown]
# Now `p` has one hook of each kind, and the one for later is registered first. `p.grad` holds 10 from earlier. The
# gradient of this pass is 3, and the tensor hook doubles it.
#
# **Predict.** What is in `p.grad` when the tensor hook runs, and when the post-accumulate-grad hook runs?

# %%
guess("04-one-of-each", tensor_hook=10, hook_after=16)

# %%
p = torch.tensor([1.0], requires_grad=True)
p.grad = torch.tensor([10.0])
found = []


def after(q):
    found.append(q.grad.item())
    print("post-accumulate-grad hook: .grad =", q.grad.item())


def arriving(grad):
    found.append(p.grad.item())
    print("tensor hook: received", grad.item(), "and .grad =", p.grad.item())
    return 2 * grad


p.register_post_accumulate_grad_hook(after)
p.register_hook(arriving)
(3 * p).sum().backward()
compare("04-one-of-each", tensor_hook=found[0], hook_after=found[1])
assert found == [10, 16]

# %% tags=["figure"]
figure, axes = card(8.2, 2.3)
node(
    axes, 7.15, 1.3, "arrives: 3", kind="loss", width=1.35, note="gradient of this pass"
)
node(
    axes,
    5.1,
    1.3,
    "tensor hook",
    kind="hook",
    width=1.45,
    note="register_hook",
    below="returns 6",
)
node(
    axes,
    3.05,
    1.3,
    ".grad: 10 + 6",
    kind="leaf",
    width=1.5,
    note="PyTorch accumulates",
    below="now 16",
)
node(
    axes,
    1.05,
    1.3,
    "hook after",
    kind="hook",
    width=1.4,
    note="register_post_\naccumulate_grad_hook",
    below="finds 16",
)
for start, end in ((6.45, 5.85), (4.35, 3.82), (2.27, 1.77)):
    arrow(axes, (start, 1.3), (end, 1.3), backward=True)
caption(
    axes,
    0.37,
    0.3,
    "Read from right to left, as gradients flow. The order of registering makes no "
    "difference.",
)
show(
    figure,
    "Four boxes from right to left, as gradients flow. The gradient of this pass "
    "arrives: 3. The tensor hook, registered with register_hook, returns 6. PyTorch "
    "accumulates: .grad is 10 + 6, now 16. The hook after it, registered with "
    "register_post_accumulate_grad_hook, finds 16. The order of registering makes no "
    "difference.",
)

# %% [markdown] explains="04-one-of-each"
# So there are two numbers to tell apart, *this pass* and the *total*, and each kind of hook gets one of them. What a
# tensor hook returns is what is added.

# %% [markdown]
# ### Where it runs, and what it returns
#
# **On leaves only.** A non-leaf accumulates nothing. And as for every hook, the tensor must require grad.

# %%
x = torch.tensor([1.0], requires_grad=True)
for tensor in (2 * x, torch.ones(1)):
    try:
        tensor.register_post_accumulate_grad_hook(print)
    except RuntimeError as error:
        print("RuntimeError:", error)
        assert (
            "on non-leaf tensors"
            if tensor.requires_grad
            else "that doesn't require gradient"
        ) in str(error)

# %% [markdown]
# **Once in each backward pass.** A weight that is used in several places is called *tied*, or shared. Its hook runs
# once, when all its gradients have been added up.
#
# **Not under `torch.autograd.grad`.** That function writes no leaf's `.grad`, so there is no moment after.

# %%
w = torch.tensor([1.0], requires_grad=True)
totals = []
w.register_post_accumulate_grad_hook(lambda q: totals.append(q.grad.item()))
(2 * w + 3 * w).sum().backward()
print("two uses:", totals)
assert totals == [5.0]

torch.autograd.grad((7 * w).sum(), w)
print("after torch.autograd.grad:", totals)
assert totals == [5.0]

# %% [markdown]
# **It returns `None`.** A tensor hook changes the gradient by returning a new one. This kind of hook has `p` and
# `p.grad` at hand and changes them directly. So there is nothing to return, and any return value but `None` raises, be
# it a tensor, a number or a list (only `p` itself is let through). Beware of lambdas: a lambda returns the value of its
# expression.
#
# `p.grad.clamp_(-1, 1)` clamps `p.grad` in place, and returns it. So the hook `lambda q: q.grad.clamp_(-1, 1)` raises.
# The gradient is 9.
#
# **Predict.** What is in `p.grad` afterwards: `9`, `1` or `None`?

# %%
guess("04-clamping-lambda", p_grad=1)

# %%
p = torch.tensor([5.0], requires_grad=True)
handle = p.register_post_accumulate_grad_hook(lambda q: q.grad.clamp_(-1, 1))
try:
    (9 * p).sum().backward()
except RuntimeError as error:
    print("RuntimeError:", error)
    assert "Tensor post accumulate grad hooks should return None." in str(error)
print("p.grad:", p.grad.item())
compare("04-clamping-lambda", p_grad=p.grad)
assert p.grad.item() == 1.0
handle.remove()

for refused in (1.0, [], False):
    with p.register_post_accumulate_grad_hook(lambda q, refused=refused: refused):
        try:
            (9 * p).sum().backward()
        except TypeError as error:
            print("TypeError:", error)
            assert (
                str(error)
                == f"expected Variable, but hook returned '{type(refused).__name__}'"
            )
with p.register_post_accumulate_grad_hook(lambda q: q):
    (9 * p).sum().backward()
print("p itself is let through")

# %% [markdown] explains="04-clamping-lambda"
# 1: by the time its return value is looked at, the hook has done its work. The remedy is a function with `def` and
# without `return`.

# %% [markdown]
# The handle is like any other: `handle.remove()`, or `with p.register_post_accumulate_grad_hook(fn):`.


# %% exercise="04-pass-and-total-norms"
def pass_and_total_norms(p):
    """A live list of ("pass", norm of this gradient) and ("total", norm of p.grad
    after it).
    """
    ### BEGIN SOLUTION
    log = []
    p.register_hook(lambda grad: log.append(("pass", grad.norm().item())))
    p.register_post_accumulate_grad_hook(
        lambda q: log.append(("total", q.grad.norm().item()))
    )
    return log
    ### END SOLUTION


# %% [markdown]
# ## A step inside backward
#
# An ordinary training step has three phases: `backward()` fills the `.grad` of every parameter, `optimizer.step()`
# uses them, `optimizer.zero_grad()` frees them. When `backward()` returns, all gradients exist at once. Together they
# take as much memory as the parameters.
#
# But nothing forces us to wait. Once `p.grad` is written, it is complete for this pass. A hook can take the step for
# `p` at once, and free the gradient before those of the earlier layers are computed.
#
# Let us measure. The model has six layers, and each weight has 64 · 64 numbers of 4 bytes: 16 KiB. The hook
# `look` notes how many KiB of gradients exist. The hook `free` drops the gradient of its parameter. (We take no steps;
# they would not change the memory.)
#
# **Predict.** How many KiB of gradients exist at most, without `free` and with it?

# %%
guess("04-most-memory", ordinary=96, freed=16)


# %%
def stored_kib(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(grad.numel() * grad.element_size() for grad in grads) / 1024


def free(p):
    p.grad = None


def measure(free_at_once):
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(6)])
    log = [0.0]

    def look(_):
        log.append(stored_kib(model))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(look)
        if free_at_once:
            p.register_post_accumulate_grad_hook(free)
        # hooks of one kind run in the order of registration
        p.register_post_accumulate_grad_hook(look)
    model(torch.ones(1, 64)).sum().backward()
    model.zero_grad()
    look(model)
    return log


ordinary, freed = measure(False), measure(True)
print("ordinary:", ordinary)
print("freed:   ", freed)
compare("04-most-memory", ordinary=max(ordinary), freed=max(freed))
assert max(ordinary) == 96 and max(freed) == 16

# %% tags=["figure"]
figure, axes = card(8.2, 3.6)
left, bottom, wide, high = 0.9, 0.75, 0.5, 0.022
for log, colour, style in ((ordinary, QUIET, "--"), (freed, BACKWARD, "-")):
    xs = [left + wide * index for index in range(len(log))]
    axes.step(
        xs,
        [bottom + high * kib for kib in log],
        where="post",
        color=colour,
        linestyle=style,
        linewidth=2,
    )
for kib in (0, 16, 96):
    caption(axes, left - 0.12, bottom + high * kib, f"{kib}", align="right", size=9.5)
    axes.plot(
        [left, left + wide * 13], [bottom + high * kib] * 2, color=QUIET, linewidth=0.4
    )
caption(axes, 0.35, 3.28, "KiB of gradients in memory", size=10.5)
caption(axes, 1.0, 2.5, "ordinary: all wait for backward() to end", colour="#6b7079")
caption(axes, 7.25, 1.3, "freed at once: one at a time", colour=BACKWARD, align="right")
for index in range(6):
    caption(
        axes,
        left + wide * (2 * index + 1.5),
        0.5,
        f"layer {6 - index}",
        align="center",
        size=9,
        colour=QUIET,
    )
caption(
    axes, left + wide * 13.1, 0.5, "zero_grad()", align="center", size=9, colour=QUIET
)
caption(
    axes,
    left,
    0.22,
    "The gradients become complete from the last layer to the first. Time runs to the "
    "right.",
)
show(
    figure,
    "KiB of gradients in memory over the time of one backward pass through six "
    "layers, from layer 6 to layer 1. The ordinary run is a staircase: it rises by 16 "
    "with every layer to 96, and falls to 0 only at zero_grad(). The run that frees "
    "each gradient at once rises to 16 and falls back to 0 at each layer.",
)

# %% [markdown] explains="04-most-memory"
# 96 against 16. When each gradient is freed at once, what counts is the largest one, not the sum.

# %% [markdown]
# Now a real step, for a single weight. The loss is `w * w`, so the gradient is `2 * w`. A hook subtracts 0.25 times the
# gradient from `w`, and frees the gradient. Before the pass, `w` is 2.
#
# **Predict.** What are `w` and `w.grad` after `backward()`?

# %%
guess("04-one-step", w=1, w_grad=None)

# %%
w = torch.tensor([2.0], requires_grad=True)


def step(p):
    with torch.no_grad():
        p -= 0.25 * p.grad
    p.grad = None


w.register_post_accumulate_grad_hook(step)
loss = (w * w).sum()
loss.backward(retain_graph=True)
print("w:", w.item(), "  w.grad:", w.grad)
compare("04-one-step", w=w, w_grad=w.grad)
assert w.item() == 1.0 and w.grad is None

# %% [markdown] explains="04-one-step"
# The weight moved *during* `backward()`.
#
# **Why is it safe?** The backward pass needs the old value of `w`: the gradient of `w * w` is `2 * w`. But the gradient
# of `w` is complete only when every operation that used `w` has had its turn. After that, this pass no longer needs the
# old value.

# %% [markdown]
# **What do we give up?** Every backward pass is a step now, so several small batches cannot add up to one large one.
# And a second pass through the same graph fails, because the graph needs the old weight:

# %%
try:
    loss.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error)[:92], "...")
    assert "has been modified by an inplace operation" in str(error)

# %% [markdown]
# **Why `torch.no_grad()`?** In an ordinary `backward()`, hooks run with grad mode off, but under
# `backward(create_graph=True)` it is on. Then a leaf that requires grad cannot be changed in place. With `no_grad` the
# hook works in both.

# %%
modes = []
v = torch.tensor([2.0], requires_grad=True)
v.register_post_accumulate_grad_hook(lambda p: modes.append(torch.is_grad_enabled()))
(v * v).sum().backward()
with warnings.catch_warnings():
    # create_graph=True warns: now v.grad refers to v, and v to v.grad
    warnings.simplefilter("ignore")
    (v * v).sum().backward(create_graph=True)
v.grad = None
print("grad mode in the hook:", modes[0], "  with create_graph=True:", modes[1])
assert modes == [False, True]

try:
    v.sub_(1)  # in grad mode
except RuntimeError as error:
    print("RuntimeError:", error)
    assert (
        "a leaf Variable that requires grad is being used in an in-place operation"
        in str(error)
    )

# %% [markdown]
# In the exercise, every parameter of a model gets such a hook. One function can serve them all, since it receives its
# parameter.


# %% exercise="04-sgd-in-backward"


def sgd_in_backward(model, lr):
    """Let every backward pass take a step of gradient descent and free the
    gradients; return the handles.
    """

    ### BEGIN SOLUTION
    def step(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None

    return [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
    ### END SOLUTION


# %% [markdown]
# ## Gradients that move out
#
# Sometimes gradients have to add up over many passes, and there is no room for them beside the model, say on a GPU.
# Then a hook can move each one to the CPU as soon as it is complete, and add it to a sum there.
#
# A dict may hold the sums, with the parameter as the key. A dict finds a tensor by identity: the same object, not the
# same numbers.

# %%
p = nn.Parameter(torch.ones(2))
sums = {p: torch.zeros(2)}
print("p:", p in sums, "  a copy of p:", p.clone() in sums)
assert p in sums and p.clone() not in sums

# %% [markdown]
# Two things can go wrong. Here is the first. We run three passes, each with the gradient 1. The hook adds `p.grad` to a
# sum of its own, and does *not* free it.
#
# **Predict.** What is this sum in the end?

# %%
guess("04-own-sum", total=6)

# %%
p = torch.tensor([0.0], requires_grad=True)
own_sum = torch.zeros(1)


def add(q):
    own_sum.add_(q.grad)
    print("the hook finds", q.grad.item())


p.register_post_accumulate_grad_hook(add)
for _ in range(3):
    (1 * p).sum().backward()
print("sum of the hook:", own_sum.item())
compare("04-own-sum", total=own_sum)
assert own_sum.item() == 6.0

# %% [markdown] explains="04-own-sum"
# 6, not 3. The hook found 1, then 2, then 3 in `.grad`, and 1 + 2 + 3 = 6. If the hook adds up, `.grad` must not add up
# as well: set it to `None`.

# %% [markdown]
# Now the second. We add 1 to 33554432, which is 2 to the power of 25, and subtract 33554432 again. (`float32` keeps the
# first 24 binary digits of a number, `float64` the first 53.)
#
# **Predict.** What is left in `float32`, and what in `float64`?

# %%
guess("04-what-is-left", float32=0, float64=1)

# %%
left = {}
for dtype in (torch.float32, torch.float64):
    total = torch.zeros(1, dtype=dtype)
    for gradient in (2.0**25, 1.0, -(2.0**25)):
        total = total + torch.tensor([gradient], dtype=dtype)
    left[dtype] = total.item()
    print(dtype, total.item())
compare("04-what-is-left", float32=left[torch.float32], float64=left[torch.float64])
assert left == {torch.float32: 0.0, torch.float64: 1.0}
# 24 and 53 digits
assert (
    torch.finfo(torch.float32).eps == 2**-23
    and torch.finfo(torch.float64).eps == 2**-52
)
assert (2**25 + 1).bit_length() == 26

# %% [markdown] explains="04-what-is-left"
# In binary, 2 to the power of 25 plus 1 has 26 digits. In `float32` the last of them, the 1, is rounded away. Sums over many passes are
# therefore better kept in `float64`, and on the CPU there is room for that. Convert *before* you add; afterwards it is
# too late.


# %% exercise="04-offload-grads"


def offload_grads(params):
    """Float64 sums of the gradients on the CPU, by parameter, and the handles."""
    ### BEGIN SOLUTION
    sums = {}

    def move(p):
        gradient = p.grad.to("cpu", torch.float64)
        sums[p] = sums[p] + gradient if p in sums else gradient
        p.grad = None

    return sums, [p.register_post_accumulate_grad_hook(move) for p in params]
    ### END SOLUTION


# %% [markdown]
# ## Who is last?
#
# Some uses need more than one gradient. `torch.nn.utils.clip_grad_norm_(params, c)` computes the **joint norm** of the
# gradients of all parameters together. If this is greater than `c`, every gradient is multiplied by the same factor,
# `c / norm`. The direction of the whole gradient stays.

# %%
p = nn.Parameter(torch.zeros(1))
q = nn.Parameter(torch.zeros(1))
(3 * p + 4 * q).sum().backward()
norm = torch.nn.utils.clip_grad_norm_([p, q], 1.0)
print(
    f"joint norm {norm.item():.2f}, clipped to {p.grad.item():.2f} and "
    f"{q.grad.item():.2f}"
)
assert (
    abs(norm.item() - 5) < 1e-4
    and abs(p.grad.item() - 0.6) < 1e-4
    and abs(q.grad.item() - 0.8) < 1e-4
)

# %% [markdown]
# A hook on one parameter is too early for this, unless its gradient is the last one to arrive. Which one is that?
#
# Take three parameters, defined in the order `u`, `v`, `w`. The forward computation multiplies by one after the other:
# in the first pass in the order `u`, `v`, `w`, in the second in the order `v`, `u`, `w`.
#
# **Predict.** In which order do their gradients become complete? Write three letters for each pass, such as
# `["u", "w", "v"]`.

# %%
guess("04-arrivals", first_pass=["w", "v", "u"], second_pass=["w", "u", "v"])

# %%
weights = {name: nn.Parameter(torch.tensor([2.0])) for name in "uvw"}
arrived = []
for name, weight in weights.items():
    weight.register_post_accumulate_grad_hook(lambda _, name=name: arrived.append(name))


def backward_through(order):
    arrived.clear()
    h = torch.ones(1)
    for name in order:
        h = weights[name] * h
    h.sum().backward()
    return list(arrived)


first_pass, second_pass = backward_through("uvw"), backward_through("vuw")
print("forward u v w; arrivals:", *first_pass)
print("forward v u w; arrivals:", *second_pass)
compare("04-arrivals", first_pass=first_pass, second_pass=second_pass)
assert first_pass == ["w", "v", "u"] and second_pass == ["w", "u", "v"]

# %% [markdown] explains="04-arrivals"
# In reverse: what the forward computation used last arrives first. The order in which parameters are listed or defined
# does not matter. So do not rely on one of them being the last. **Let the hooks count**: when as many gradients have
# arrived as there are parameters, every `.grad` is written.

# %% tags=["figure"]
figure = timeline(
    [
        ("w.grad is written: 1 of 3", "backward()"),
        ("v.grad is written: 2 of 3", "backward()"),
        ("u.grad is written: 3 of 3", "backward()"),
        ("clip u, v and w together", "the hook, at the last arrival"),
        ("set the count back to 0", "the hook, at the last arrival"),
        ("backward() returns", "backward()"),
    ],
    title="One backward pass; the forward computation used u, v, w in this order",
    lanes={"backward()": BACKWARD, "the hook, at the last arrival": INK},
)
show(
    figure,
    "Timeline of one backward pass; the forward computation used u, v, w in this "
    "order. w.grad is written: 1 of 3. v.grad is written: 2 of 3. u.grad is written: "
    "3 of 3. At this last arrival the hook clips u, v and w together, and sets the "
    "count back to 0. Then backward() returns.",
)

# %% [markdown]
# Do not forget to set the count back, or only the first pass is right.
#
# A count can also go wrong in another way. An exception, say from another hook, can stop a backward pass in the middle.
# Then the arrivals of this pass are still in the count when the next pass begins.
#
# Let us try it. The forward computation uses `u`, `v`, `w`, and a hook on `v` stops the first pass after the arrival of
# `w`. Then all gradients are set to `None`, and a second pass runs to its end.
#
# **Predict.** Which gradients are written when the count says 3? Write the letters in alphabetical order, such as
# `["u", "v"]`.

# %%
guess("04-stopped-pass", written=["v", "w"])

# %%
weights = {name: nn.Parameter(torch.tensor([2.0])) for name in "uvw"}
count, written = 0, []


def arrive(_):
    global count
    count += 1
    if count == 3:
        count = 0
        written.append(
            [name for name, weight in weights.items() if weight.grad is not None]
        )


def stop(grad):
    raise ValueError("stopped")


for weight in weights.values():
    weight.register_post_accumulate_grad_hook(arrive)

with weights["v"].register_hook(stop):
    try:
        backward_through("uvw")
    except ValueError as error:
        print("ValueError:", error)
for weight in weights.values():
    weight.grad = None
backward_through("uvw")
print("written when the count says 3:", *written[0])
compare("04-stopped-pass", written=written[0])
assert written == [["v", "w"]]

# %% [markdown] explains="04-stopped-pass"
# Too early: `u` is missing. Remember *which* parameters have had their gradient, not only how many. In one pass each
# has it once. So when one comes for the second time, a new pass has begun, and what is left of the old one must go.

# %% [markdown]
# In the exercise no pass is stopped, so a count will do. The hook has to remember it from call to call. A list or a set
# outside it can hold what it knows, or an object with a `__call__` method.


# %% exercise="04-clip-global-norm-in-backward"


def clip_global_norm_in_backward(params, c):
    """Clip the joint norm of all gradients to c when the last one has been written;
    return the handles.
    """
    ### BEGIN SOLUTION
    arrived = set()

    def clip_when_complete(p):
        if p in arrived:  # left over from a pass that was stopped
            arrived.clear()
        arrived.add(p)
        if len(arrived) == len(params):
            arrived.clear()
            torch.nn.utils.clip_grad_norm_(params, c)

    return [p.register_post_accumulate_grad_hook(clip_when_complete) for p in params]
    ### END SOLUTION


# %% [markdown]
# ## Myths
#
# **"A hook can clip by global norm."** A hook that looks only at its own tensor cannot know the others. When each
# gradient is clipped to the norm `c` by itself, the joint norm can still be larger than `c`. It takes hooks that share
# what they know, as in the exercise.

# %%
p = nn.Parameter(torch.zeros(1))
q = nn.Parameter(torch.zeros(1))
for parameter in (p, q):
    parameter.register_hook(lambda grad: grad * (1.0 / grad.norm()).clamp(max=1.0))
(3 * p + 4 * q).sum().backward()
joint = torch.cat([p.grad, q.grad]).norm().item()
print(
    f"each clipped to 1: {p.grad.item():.2f} and {q.grad.item():.2f}; the joint norm "
    f"is {joint:.2f}"
)
assert p.grad.item() == q.grad.item() == 1.0 and joint > 1.2

# %% [markdown]
# The direction is lost as well: 3 to 4 has become 1 to 1.
#
# **"Clamping in a hook is the same as `clip_grad_value_`."** For one pass it is. Over several passes, here with the
# gradients 2, 2 and -0.5, it is not: a tensor hook clamps each pass, a post-accumulate-grad hook clamps the running
# total after each pass, and `clip_grad_value_` at the end clamps the total once.


# %%
def clamp_total(q):
    q.grad.clamp_(-1, 1)


def total_of(gradients, kind):
    p = torch.tensor([0.0], requires_grad=True)
    if kind == "tensor hook":
        p.register_hook(lambda grad: grad.clamp(-1, 1))
    if kind == "post-accumulate-grad hook":
        p.register_post_accumulate_grad_hook(clamp_total)
    for gradient in gradients:
        (gradient * p).sum().backward()
    if kind == "clip_grad_value_ at the end":
        torch.nn.utils.clip_grad_value_([p], 1.0)
    return p.grad.item()


kinds = ("tensor hook", "post-accumulate-grad hook", "clip_grad_value_ at the end")
for kind in kinds:
    print(
        f"{kind:28} one pass: {total_of([2.0], kind)}   three passes: "
        f"{total_of([2.0, 2.0, -0.5], kind)}"
    )
assert [total_of([2.0], kind) for kind in kinds] == [1.0, 1.0, 1.0]
assert [total_of([2.0, 2.0, -0.5], kind) for kind in kinds] == [1.5, 0.5, 1.0]

# %% [markdown]
# ## Recap
#
# | call | `fn` receives | when it fires | what its return value does |
# |---|---|---|---|
# | `t.register_hook(fn)` | the gradient of this pass | when it arrives, before `.grad` is written | replaces it |
# | `p.register_post_accumulate_grad_hook(fn)` | the leaf `p` | after `p.grad` was written | must be `None` (or `p`) |
#
# | | `register_hook` | `register_post_accumulate_grad_hook` |
# |---|---|---|
# | on a non-leaf | yes | raises |
# | under `torch.autograd.grad` | fires | does not fire |
# | a tied weight | once for each pass, with the sum | once for each pass, after the sum was added to `.grad` |
# | can free `p.grad` of this pass | no, it is not written yet | yes: `p.grad = None` |
#
# ## Where you meet this in the wild
#
# - **Fine-tuning large models.** LOMO updates each weight during backward, and so never holds all gradients at once.
#   torchtune does the same with other optimizers: one small optimizer for each parameter, and a post-accumulate-grad
#   hook that calls its `step()`.
# - **Its price.** A step during backward comes before the joint norm is known. So when LOMO has to clip by norm, it runs
#   backward twice: once for the norm, once for the steps. Each backward pass takes its steps, so nothing accumulates over
#   several, and each of the small optimizers needs a learning-rate schedule of its own.
# - **Several processes.** Under `DistributedDataParallel` the hook runs before the mean over the processes is taken. A
#   step in it uses the gradient of one process only, and the weights drift apart without a word.
# - **Sharded training (FSDP).** As soon as the gradients of a block of layers are complete, they are combined over all
#   workers, and each worker keeps only its own share.
#
# Next: lesson 5, where hooks watch the forward pass.

# %%
progress()
