# %% [markdown]
# # Lesson 6. Changing the forward
#
# **The question.** What would the model say if this channel were off, or if it came from another image?
#
# **The goal.** You can replace what goes into a module and what comes out of it, and use that to find out which
# channels cause an answer.
#
# In lesson 5 forward hooks only watched. Now they act. As before: at **Predict**, fill in your guess and run its cell,
# then the next one.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import CARD, FORWARD, INK, QUIET, arrow, caption, card, node, show

# small tensors: one thread is fastest, and on a shared machine many wait for each other
torch.set_num_threads(1)

# %% [markdown]
# ## A model that can tell bars apart
#
# Our model looks at a small image with one bar in it and gives two scores: one for *vertical*, one for *horizontal*.
# Its weights are set by hand, so that we can follow every number.
#
# - `detect` is a convolution with three channels. Channel 0 reacts to vertical bars, channel 1 to horizontal bars,
#   channel 2 to anything bright.
# - `act` is a ReLU. After it, the model averages each channel over the image.
# - `read` turns the three averages into two scores. The vertical score is twice channel 0 plus channel 2, the
#   horizontal score is twice channel 1 plus channel 2.


# %%
class BarReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.detect = nn.Conv2d(1, 3, kernel_size=3, bias=False)
        self.act = nn.ReLU()
        self.read = nn.Linear(3, 2, bias=False)
        upright = torch.tensor([[-1.0, 2.0, -1.0]] * 3)
        with torch.no_grad():
            self.detect.weight.copy_(
                torch.stack([upright, upright.T, torch.ones(3, 3)]).unsqueeze(1)
            )
            self.read.weight.copy_(torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]]))

    def forward(self, image):
        maps = self.act(self.detect(image))
        return self.read(maps.mean((2, 3)))


vertical = torch.zeros(1, 1, 6, 6)
vertical[..., 2] = 1
horizontal = vertical.transpose(2, 3).contiguous()

model = BarReader()
with torch.no_grad():
    print("vertical bar:  ", model(vertical))
    print("horizontal bar:", model(horizontal))
    assert model(vertical).tolist() == [[5.25, 2.25]] and model(
        horizontal
    ).tolist() == [[2.25, 5.25]]

# %% tags=["figure"]
with torch.no_grad():
    rows = [("vertical bar", vertical), ("horizontal bar", horizontal)]
    figure = Figure(figsize=(8.2, 3.9), facecolor=CARD)
    for row, (title, image) in enumerate(rows):
        maps = model.act(model.detect(image))[0]
        assert maps.amax((1, 2)).tolist() == ([6, 0, 3] if row == 0 else [0, 6, 3])
        pictures = [
            (title, image[0, 0], 1),
            *((f"channel {c}", maps[c], 6) for c in range(3)),
        ]
        for column, (name, values, top) in enumerate(pictures):
            # all pixels are equally large: a map of 4 by 4 is smaller than the image
            size = len(values) / 6
            left, bottom = (
                0.02 + 0.19 * column + 0.08 * (1 - size),
                0.53 - 0.47 * row + 0.17 * (1 - size),
            )
            axes = figure.add_axes((left, bottom, 0.16 * size, 0.34 * size))
            axes.imshow(values, cmap="gray", vmin=0, vmax=top)
            axes.set(xticks=[], yticks=[])
            axes.set_title(
                f"{name}, {len(values)} x {len(values)}",
                fontsize=10,
                color=INK if column == 0 else FORWARD,
            )
        scores = model(image)[0].tolist()
        place = 0.53 - 0.47 * row
        figure.text(
            0.79, place + 0.24, f"vertical {scores[0]:.2f}", fontsize=11, color=INK
        )
        figure.text(
            0.79, place + 0.11, f"horizontal {scores[1]:.2f}", fontsize=11, color=INK
        )
        figure.text(0.79, place + 0.365, "scores", fontsize=10, color=FORWARD)
show(
    figure,
    "Two rows. Each shows an image of 6 by 6 pixels, the three channels after the "
    "ReLU, which are smaller, 4 by 4, and the scores. For the vertical bar, channel 0 "
    "lights up in one column with value 6, channel 1 is black, and channel 2 is gray "
    "with value 3; the scores are 5.25 for vertical and 2.25 for horizontal. For the "
    "horizontal bar, channel 0 is black, channel 1 lights up in one row, and channel "
    "2 is gray; the scores are 2.25 and 5.25.",
)

# %% [markdown]
# The pictures suggest that channel 0 makes the model say *vertical*. But a picture shows only that the channel is
# active *when* the model says so. To see whether the channel is the *cause*, switch it off and look at the scores.
#
# A forward hook can do that. So far our hooks returned nothing. This one returns a tensor.
#
# **Predict.** Channel 0 is set to 0 after the ReLU. What are the two scores for the vertical bar? (So far they were
# 5.25 and 2.25. Averaged over the image, the three channels are 1.5, 0 and 2.25.)

# %%
guess("06-channel-0-off", vertical=2.25, horizontal=2.25)


# %%
def switch_off_channel_0(module, args, output):
    output = output.clone()
    output[:, 0] = 0
    return output


with torch.no_grad(), model.act.register_forward_hook(switch_off_channel_0):
    without = model(vertical)
print("channel 0 off:", without)
compare("06-channel-0-off", vertical=without[0, 0], horizontal=without[0, 1])
assert without.tolist() == [[2.25, 2.25]]
assert model.act(model.detect(vertical)).mean((2, 3)).tolist() == [[1.5, 0, 2.25]]

# %% [markdown] explains="06-channel-0-off"
# A tie: without channel 0, the model can no longer tell. **What a forward hook returns becomes the output of the
# module**, and everything after it computes with that. The model itself has not changed: when the `with` block ends,
# the hook is gone.
#
# This is the whole idea of the lesson. The rest is about doing it right, on the way in as well as on the way out.

# %% tags=["figure"]
figure, axes = card(8.2, 2.75)
node(axes, 0.85, 1.45, "module(x)", kind="non-leaf", width=1.1)
node(axes, 2.5, 1.45, "pre-hooks", kind="hook", width=1.2, note="hook(module, args)")
node(axes, 4.1, 1.45, "forward", width=1.0)
node(
    axes,
    5.8,
    1.45,
    "forward hooks",
    kind="hook",
    width=1.4,
    note="hook(module, args, output)",
)
node(axes, 7.5, 1.45, "output", kind="non-leaf", width=0.95)
for start, end in ((1.42, 1.88), (3.12, 3.58), (4.62, 5.08), (6.52, 7.0)):
    arrow(axes, (start, 1.45), (end, 1.45))
caption(axes, 2.5, 0.95, "may return new args", align="center", size=9.5)
caption(axes, 5.8, 0.95, "may return a new output", align="center", size=9.5)
caption(axes, 0.35, 2.5, "What happens in one call of a module", size=11)
caption(
    axes,
    0.35,
    0.3,
    "A hook that returns None leaves everything as it is.",
    colour=QUIET,
)
show(
    figure,
    "One call of a module, from left to right: the call module(x), then the "
    "pre-hooks, called as hook(module, args), which may return new args; then "
    "forward; then the forward hooks, called as hook(module, args, output), which may "
    "return a new output; then the output. A hook that returns None leaves everything "
    "as it is.",
)

# %% [markdown]
# ## What a forward hook may return
#
# Here are four hooks.


# %%
def nothing(module, args, output):
    pass


def rebinds(module, args, output):
    output = output + 1


def returns(module, args, output):
    return output + 1


def returns_false(module, args, output):
    return False


# %% [markdown]
# **Predict.** `double` is a module that computes `2 * x`, and we call it with 5. What comes out with each of the hooks?

# %%
guess("06-four-returns", nothing=10, rebinds=10, returns=11, returns_false=False)


# %%
class Double(nn.Module):
    def forward(self, x):
        return 2 * x


def call(module, hook, *args, **kwargs):
    """One call of `module` with a forward hook that is removed afterwards."""
    with module.register_forward_hook(hook):
        return module(*args, **kwargs)


double, five = Double(), torch.tensor(5.0)
outcomes = [
    call(double, hook, five) for hook in (nothing, rebinds, returns, returns_false)
]
for hook, outcome in zip((nothing, rebinds, returns, returns_false), outcomes):
    print(f"{hook.__name__:13} ->", outcome)
compare(
    "06-four-returns",
    nothing=outcomes[0],
    rebinds=outcomes[1],
    returns=outcomes[2],
    returns_false=outcomes[3],
)
assert outcomes[:3] == [10, 10, 11] and outcomes[3] is False

# %% [markdown] explains="06-four-returns"
# - `nothing` returns `None`: the output stays.
# - `rebinds` computes 11 and gives it the name `output`, a local name that nobody outside the hook sees. It returns
#   `None`, so the output stays.
# - `returns` replaces the output.
# - `returns_false` replaces it, too! **Anything that is not `None` counts as the new output**, even `False`. The next
#   module would then have to compute with `False`.

# %% [markdown]
# **Predict.** Two lambdas store the same tensor: one is `seen.setdefault("out", output.detach())`, the other is
# `seen.update(out=output.detach())`. Each becomes the hook of a linear layer, `nn.Linear(3, 2)`. With which of them
# does the output of the layer still require grad?

# %%
guess("06-which-lambda", which="update")  # "setdefault", "update", "both" or "neither"

# %%
linear, seen = nn.Linear(3, 2), {}
x = torch.ones(1, 3)
with linear.register_forward_hook(
    lambda module, args, output: seen.setdefault("out", output.detach())
):
    y = linear(x)
has_graph = {"setdefault": y.requires_grad}
assert not y.requires_grad

with linear.register_forward_hook(
    lambda module, args, output: seen.update(out=output.detach())
):
    y = linear(x)
has_graph["update"] = y.requires_grad
print("the output requires grad:", has_graph)
compare("06-which-lambda", which=[method for method, has in has_graph.items() if has])
assert y.requires_grad

# %% [markdown] explains="06-which-lambda"
# `setdefault` returns the value that it stored: the detached tensor. That became the output, and the graph ends there.
# A hook that was only meant to *look* keeps this layer, and those before it, from getting any gradient, and there is no
# error and no warning. `dict.update` and `list.append` return `None` and are safe.

# %% [markdown]
# ## Changing the output in place
#
# A hook can also change the tensor itself, with an in-place operation such as `mul_`, and return nothing. The output
# is that very tensor, so the change takes effect.
#
# But autograd may still need it. Here is what it saves for the backward pass of four modules (`result` is the output):

# %%
for module in (nn.Linear(2, 2), nn.Sigmoid(), nn.Tanh(), nn.ReLU()):
    node_of_output = module(torch.ones(1, 2, requires_grad=True)).grad_fn
    saved = [
        name
        for name in dir(node_of_output)
        if name in ("_saved_mat1", "_saved_mat2", "_saved_result")
    ]
    print(
        f"{type(module).__name__:8} saves",
        *(name.removeprefix("_saved_") for name in saved),
    )
    assert (saved == ["_saved_result"]) == (type(module) is not nn.Linear)

# %% [markdown]
# (`mat1` and `mat2` are the two matrices that a linear layer multiplies: its input and its weight.)
#
# **Predict.** The four get a hook that does `output.mul_(2)`. With which of them does `backward()` still work afterwards?
# Write one name, or a list of names in this order.

# %%
guess("06-survivors", survivors="Linear")


# %%
def double_in_place(module, args, output):
    output.mul_(2)


survivors = []
for module in (nn.Linear(2, 2), nn.Sigmoid(), nn.Tanh(), nn.ReLU()):
    x = torch.ones(2, requires_grad=True)
    y = call(module, double_in_place, x)
    print(
        type(module).__name__,
        "-> the output is doubled:",
        torch.equal(y, 2 * module(x)),
    )
    assert torch.equal(y, 2 * module(x))
    try:
        y.sum().backward()
        survivors.append(type(module).__name__)
    except RuntimeError as error:
        print("    RuntimeError:", str(error)[:85], "...")
        assert "modified by an inplace operation" in str(error)
print("survivors:", survivors)
compare("06-survivors", survivors=survivors)
assert survivors == ["Linear"]

# %% [markdown] explains="06-survivors"
# Only the linear layer. Sigmoid, Tanh and ReLU need their *output*:
# the derivative of a sigmoid with output `s` is `s * (1 - s)`. The hook overwrote that number, and autograd notices.
# With `.data`, it does not, as the next cell shows. That is worse: the output is right, and the gradient is wrong.

# %% [markdown]
# And if a hook writes into `.data`? Then compare the gradient with what it should be:

# %%
x = torch.zeros(1, requires_grad=True)
sigmoid = nn.Sigmoid()


def gradient_with(hook):
    (gradient,) = torch.autograd.grad(call(sigmoid, hook, x).sum(), x)
    return gradient.item()


def behind_autograds_back(module, args, output):
    output.data.mul_(3)


by_return = gradient_with(lambda module, args, output: 3 * output)
by_data = gradient_with(behind_autograds_back)
print("3 * output, returned:", by_return, "  output.data.mul_(3):", by_data)
assert by_return == 0.75 and by_data == -0.75 and sigmoid(x).item() == 0.5

# %% [markdown]
# At 0 the sigmoid is 0.5, and the right gradient of three times the sigmoid is 3 · 0.5 · 0.5 = 0.75. With `.data`, the
# backward pass took 1.5 for the sigmoid, computed 1.5 · (1 - 1.5) = -0.75, and never heard of the factor 3. Even the
# sign is wrong.
#
# There is one more danger. Some modules hand on the very tensor that they were given: `nn.Identity`, `nn.Dropout` in
# eval mode, `nn.Flatten` (a view). There an in-place change of the output also changes the input, for everyone who uses
# it.

# %%
for module in (nn.Identity(), nn.Dropout(0.5).eval(), nn.Flatten()):
    mine = torch.ones(1, 3)
    call(module, double_in_place, mine)
    print(type(module).__name__, "-> the caller's tensor is now", mine.tolist())
    assert mine.tolist() == [[2, 2, 2]]

# %% [markdown]
# The rule: **compute a new tensor and return it**. If you want to write into parts of it, clone it first.


# %% exercise="06-scale-output"
def scale_output(module, s):
    """Multiply the output of every call of module by s."""
    ### BEGIN SOLUTION
    return module.register_forward_hook(lambda module, args, output: output * s)
    ### END SOLUTION


# %% [markdown]
# ## Before the module runs: pre-hooks
#
# `module.register_forward_pre_hook(hook)` registers a hook that is called as `hook(module, args)`, before `forward`.
# `args` is the tuple of positional arguments. What the hook returns becomes the new arguments: a tuple holds all of them,
# and anything else is put into a tuple first. `None` leaves them as they are. Three pre-hooks return something:
#
# - `both`: `(2 * args[0], args[1])`
# - `reversed`: `args[::-1]`
# - `one`: `5 * args[0]`, without a tuple
#
# **Predict.** `add(a, b)` computes `a + 10 * b`, and just `a` where `b` is left out, so `add(1, 2)` is 21. What is it
# with each of the three?

# %%
guess("06-new-arguments", both=22, reversed=12, one=5)


# %%
class Add(nn.Module):
    def forward(self, a, b=None):
        return a if b is None else a + 10 * b


def call_with_pre_hook(module, hook, *args, **kwargs):
    with module.register_forward_pre_hook(hook):
        return module(*args, **kwargs)


add = Add()
one, two = torch.tensor(1.0), torch.tensor(2.0)
pre_hooks = {
    "both": lambda module, args: (2 * args[0], args[1]),
    "reversed": lambda module, args: args[::-1],
    "one": lambda module, args: 5 * args[0],
}
results = []
for name, hook in pre_hooks.items():
    results.append(call_with_pre_hook(add, hook, one, two).item())
    print(f"{name:8} -> {results[-1]:g}")
compare("06-new-arguments", both=results[0], reversed=results[1], one=results[2])
assert results == [22, 12, 5] and add(one, two) == 21

# %% [markdown] explains="06-new-arguments"
# The last one is a trap: what is not a tuple becomes the *only* argument. `b` was dropped, and `add` went on without it. There was no error, because `b` may be left
# out. To change one argument, put the others back: `return (new, *args[1:])`.

# %% [markdown]
# Three more ways to get it wrong, and the errors that follow:

# %%
linear, x = nn.Linear(2, 1), torch.ones(1, 2)


def error_of(hook):
    try:
        call_with_pre_hook(linear, hook, x)
    except TypeError as error:
        return str(error)


def assigns(module, args):
    args[0] = 2 * args[0]


a_list = error_of(lambda module, args: [2 * args[0]])
a_tuple = error_of(lambda module, args: args - 1)
assigned = error_of(assigns)
print("returned a list:      ", a_list)
print("computed with args:   ", a_tuple)
print("assigned into args:   ", assigned)
assert "must be Tensor, not list" in a_list
assert "unsupported operand type(s) for -: 'tuple' and 'int'" in a_tuple
assert "'tuple' object does not support item assignment" in assigned

# %% [markdown]
# A list is not a tuple. It counts as "anything else", so the layer receives the list as its only argument.
#
# In-place changes are dangerous here, too: `args[0]` is not a copy, it *is* the caller's tensor.

# %%
mine = torch.ones(1, 2)


def in_place(module, args):
    args[0].mul_(10)


call_with_pre_hook(linear, in_place, mine)
print("the caller's tensor is now", mine.tolist())
assert mine.tolist() == [[10, 10]]

# %% [markdown]
# Finally, who sees what? The forward hook runs after the pre-hook, and its `args` are the *changed* arguments, those
# that `forward` was called with.

# %%
log = []
with (
    linear.register_forward_pre_hook(lambda module, args: 3 * args[0]),
    linear.register_forward_hook(
        lambda module, args, output: log.append(args[0].tolist())
    ),
):
    linear(x)
print("the caller passed", x.tolist(), "  the forward hook saw", log[0])
assert x.tolist() == [[1, 1]] and log == [[[3, 3]]]


# %% exercise="06-normalize-input"
def normalize_input(module, mean, std):
    """From now on, module computes with (a - mean) / std in place of its first
    positional argument a.
    """

    ### BEGIN SOLUTION
    def hook(module, args):
        return ((args[0] - mean) / std, *args[1:])

    return module.register_forward_pre_hook(hook)
    ### END SOLUTION


# %% [markdown]
# ## Keyword arguments
#
# An ordinary hook sees positional arguments only. Keyword arguments reach the module, but not the hook. With
# `with_kwargs=True` the hook gets them, too, as one more argument: `hook(module, args, kwargs)` for a pre-hook,
# `hook(module, args, kwargs, output)` for a forward hook.


# %%
class Scale(nn.Module):
    def forward(self, x, *, scale=1.0):
        return x * scale


scaler, x = Scale(), torch.tensor(2.0)
log = []
with (
    scaler.register_forward_pre_hook(lambda module, args: log.append(args)),
    scaler.register_forward_pre_hook(
        lambda module, args, kwargs: log.append((args, kwargs)), with_kwargs=True
    ),
    scaler.register_forward_hook(
        lambda module, args, kwargs, output: log.append((args, kwargs, output)),
        with_kwargs=True,
    ),
):
    scaler(x=x, scale=3.0)
for name, entry in zip(
    ("pre-hook", "pre-hook, with_kwargs", "forward hook, with_kwargs"), log
):
    print(f"{name + ':':26}", entry)
assert log == [(), ((), {"x": x, "scale": 3.0}), ((), {"x": x, "scale": 3.0}, 6.0)]

# %% [markdown]
# A pre-hook of this kind returns `None` or **both**: a tuple `(new_args, new_kwargs)`.
#
# **Predict.** `scaler(x, scale=…)` computes `x * scale`. A hook returns `args, {**kwargs, "scale": 10.0}`. What do
# `scaler(2)` and `scaler(2, scale=3)` give?

# %%
guess("06-who-wins", without=20, with_scale=20)


# %%
def always_ten(module, args, kwargs):
    return args, {**kwargs, "scale": 10.0}


with scaler.register_forward_pre_hook(always_ten, with_kwargs=True):
    without, with_scale = scaler(x), scaler(x, scale=3.0)
print("without scale:", without.item(), "  with scale=3:", with_scale.item())
compare("06-who-wins", without=without, with_scale=with_scale)
assert without == 20 and with_scale == 20

# %% [markdown] explains="06-who-wins"
# `{**kwargs, "scale": 10.0}` builds a new dict from left to right. Where both sides have the same key, the right one
# wins: here the hook wins over the caller.

# %% [markdown]
# If a hook returns only one of the two parts, PyTorch says so:


# %%
def only_args(module, args, kwargs):
    return (2 * args[0],)


with scaler.register_forward_pre_hook(only_args, with_kwargs=True):
    try:
        scaler(x)
    except RuntimeError as error:
        print("RuntimeError:", error)
        assert (
            "forward pre-hook must return None or a tuple of (new_args, new_kwargs)"
            in str(error)
        )


# %% exercise="06-force-kwargs"
def force_kwargs(module, **kw):
    """Every call of module receives the keyword arguments kw, which win over those
    of the caller.
    """

    ### BEGIN SOLUTION
    def hook(module, args, kwargs):
        return args, {**kwargs, **kw}

    return module.register_forward_pre_hook(hook, with_kwargs=True)
    ### END SOLUTION


# %% [markdown]
# ## Several hooks: who is first?
#
# **Predict.** `double` gives 10 for 5. One hook returns `output + 1`, and a second one, registered after it, returns
# `output * 2`. What comes out? And if they are registered the other way round?

# %%
guess("06-two-hooks", add_first=22, multiply_first=21)


# %%
def add_one(module, args, output):
    return output + 1


def times_two(module, args, output):
    return output * 2


def with_hooks(first, second):
    with double.register_forward_hook(first), double.register_forward_hook(second):
        return double(five).item()


add_first, multiply_first = (
    with_hooks(add_one, times_two),
    with_hooks(times_two, add_one),
)
print("add first:", add_first, "  multiply first:", multiply_first)
compare("06-two-hooks", add_first=add_first, multiply_first=multiply_first)
assert (add_first, multiply_first) == (22, 21)

# %% [markdown] explains="06-two-hooks"
# They run in the order of registration, and each receives what the hook before it has made.

# %% [markdown]
# What if somebody else's hook is there already, and yours must see the raw output? `prepend=True` puts your hook in
# front of all hooks of its kind that the module has at that moment.
#
# **Predict.** Four hooks are registered in this order: A, B, C with `prepend=True`, D with `prepend=True`. In which
# order do they run? Write a list of the four letters.

# %%
guess("06-prepend", order=["D", "C", "A", "B"])

# %%
order, handles = [], []
for name in "ABCD":

    def hook(module, args, output, name=name):
        order.append(name)

    handles.append(double.register_forward_hook(hook, prepend=name in "CD"))

double(five)
for handle in handles:
    handle.remove()
print("order of the hooks:", " -> ".join(order))
compare("06-prepend", order=order)
assert order == ["D", "C", "A", "B"]

# %% tags=["figure"]
figure, axes = card(8.2, 3.3)
caption(axes, 0.35, 3.0, "The queue of hooks after each registration", size=11)
caption(axes, 4.35, 2.62, "runs first", align="center", size=9.5)
steps = [("A", ""), ("B", ""), ("C", ", prepend=True"), ("D", ", prepend=True")]
queue = []
for index, (name, option) in enumerate(steps):
    queue = [name, *queue] if option else [*queue, name]
    height = 2.2 - 0.6 * index
    caption(axes, 0.35, height, f"register {name}{option}")
    for place, label in enumerate(queue):
        kind = "hook" if label == name else "plain"
        node(
            axes, 4.35 + 0.95 * place, height, label, kind=kind, width=0.65, height=0.4
        )
assert queue == order
show(
    figure,
    "The queue of hooks after each registration, the hook that runs first on the "
    "left, the new one in yellow. After A: A. After B: A, B. After C with "
    "prepend=True: C, A, B. After D with prepend=True: D, C, A, B.",
)

# %% [markdown] explains="06-prepend"
# D came later than C and went in front of it. Pre-hooks and the backward hooks of modules (lesson 7) take `prepend`,
# too. Hooks on tensors do not.

# %% [markdown]
# ### A hook that runs even when `forward` fails
#
# When `forward` raises, the forward hooks are skipped. A forward hook with `always_call=True` runs all the same, and
# gets `None` as its `output`. It is meant for cleaning up, for example for stopping a clock that a pre-hook has
# started.
#
# **Predict.** `picky` raises a `ValueError` for -1, and such a hook returns 0. Does the call now return 0, or does it
# raise? (If it returned 0, would anybody learn of the error?)

# %%
guess("06-rescue", outcome="raises")  # 0 or "raises"


# %%
class Picky(nn.Module):
    def forward(self, x):
        if x < 0:
            raise ValueError("negative input")
        return 2 * x


def usual(module, args, output):
    events.append(("usual", output))


def always(module, args, output):
    events.append(("always", output))
    return torch.tensor(0.0) if output is None else None


picky, events = Picky(), []
with (
    picky.register_forward_hook(usual),
    picky.register_forward_hook(always, always_call=True),
):
    try:
        outcome = picky(torch.tensor(-1.0))
    except ValueError as error:
        outcome = error
    print("for -1:", repr(outcome), "  hooks:", events)
    assert events == [("always", None)]
    events.clear()
    picky(torch.tensor(1.0))
    print("for 1: ", events)
    assert events == [("usual", 2), ("always", 2)]
compare("06-rescue", outcome=outcome)

# %% [markdown] explains="06-rescue"
# It cannot rescue the call: what it returned is dropped, and the exception goes on. When nothing fails, it is a forward
# hook like any other: it runs once, in its place in the queue.


# %% exercise="06-run-first"
def run_first(module, hook):
    """Register a forward hook that runs before all forward hooks that module has so
    far.
    """
    ### BEGIN SOLUTION
    return module.register_forward_hook(hook, prepend=True)
    ### END SOLUTION


# %% [markdown]
# ## Experiment 1: switch it off
#
# Back to the bars. Setting an activation to 0 to see what depends on it is called **ablation**. At the beginning we
# did it for channel 0. Now we do it for each channel.
#
# **Predict.** The image has a vertical bar, and the scores are 5.25 and 2.25. Which channel (0, 1 or 2) changes neither
# score when it is switched off? Which one changes both?

# %%
guess("06-ablations", neither=1, both=2)


# %%
def scores_without(channel, image):
    def hook(module, args, output):
        output = output.clone()
        output[:, channel] = 0
        return output

    with torch.no_grad(), model.act.register_forward_hook(hook):
        return model(image)[0].tolist()


changed = {}
for channel in range(3):
    scores = scores_without(channel, vertical)
    changed[channel] = sum(score != full for score, full in zip(scores, (5.25, 2.25)))
    print(f"channel {channel} off: {scores}  changed: {changed[channel]}")
compare(
    "06-ablations",
    neither=[channel for channel, count in changed.items() if count == 0],
    both=[channel for channel, count in changed.items() if count == 2],
)
assert scores_without(0, vertical) == [2.25, 2.25]
assert scores_without(1, vertical) == [5.25, 2.25]
assert scores_without(2, vertical) == [3.0, 0.0]

# %% [markdown] explains="06-ablations"
# - Without channel 0, the vertical score falls from 5.25 to 2.25. This channel carries the decision.
# - Without channel 1, nothing changes: for this image it was 0 anyway.
# - Without channel 2, both scores fall by 2.25. The difference between them stays 3. Brightness raises the scores, but
#   does not decide.

# %% [markdown]
# Mind the axes. The output of a two-dimensional convolution has the shape `[batch, channel, height, width]`, that of a
# linear layer after it `[batch, feature]`. In both, dimension 1 is the one to index: `output[:, channels]`. That is not
# always so. In a language model an output often has the shape `[batch, token, feature]`: there, dimension 1 is the
# token, and the features are in the last dimension. Look at the shape first.

# %%
print("convolution:", tuple(model.detect(vertical).shape))
assert model.detect(vertical).shape == (1, 3, 4, 4)
tokens = torch.ones(1, 7, 3)  # one text of seven tokens
print("the same linear layer on a text:", tuple(model.read(tokens).shape))
assert model.read(tokens).shape == (1, 7, 2)
infinite = torch.tensor([float("inf")])
print("inf * 0:", (infinite * 0).item())
assert (infinite * 0).isnan().all()

# %% [markdown]
# Clean up after the experiment: a hook that stays on the model would spoil the next one. The `with` block removes it,
# also when the model raises. As in lesson 5, `model.get_submodule(name)` finds a module by its name; `""` is the name
# of the model itself.
#
# Two more warnings. Setting to 0 is not multiplying by 0: `inf * 0` is `nan`, as the last line shows. And other hooks
# may sit on the module already. A hook that is registered now runs after them, so it sees, and changes, what the next
# layer would get.


# %% exercise="06-ablate-channels"
def ablate_channels(model, name, channels, x):
    """The output of model(x) with these channels of the output of submodule `name`
    set to 0.
    """

    ### BEGIN SOLUTION
    def hook(module, args, output):
        output = output.clone()
        output[:, channels] = 0
        return output

    with model.get_submodule(name).register_forward_hook(hook):
        return model(x).detach()
    ### END SOLUTION


# %% [markdown]
# ## Experiment 2: take it from another image
#
# Zero may be a value that this channel never has, and what a model does then may tell us little. A fairer question is:
# what would the model say if this channel had the value *that it has for another image*?
#
# The experiment has two runs, and a name: **activation patching**.
#
# 1. Run the model on the *clean* input. A hook keeps a copy of the activation.
# 2. Run it on the *corrupt* input. Another hook returns the kept activation, or a mix of the two.
#
# If the answer changes to that of the clean run, the patched part carries what makes the difference.

# %% tags=["figure"]
figure, axes = card(8.2, 3.5)
for y, image, scores in (
    (2.55, "clean: vertical", "5.25, 2.25"),
    (0.95, "corrupt: horizontal", "scores?"),
):
    node(axes, 1.25, y, image, kind="leaf", width=1.9)
    node(axes, 3.3, y, "detect", width=1.0)
    node(axes, 5.0, y, "act", kind="non-leaf", width=1.0)
    node(axes, 6.9, y, scores, kind="loss", width=1.6)
    arrow(axes, (2.25, y), (2.78, y))
    arrow(axes, (3.82, y), (4.48, y))
    arrow(axes, (5.52, y), (6.08, y))
caption(axes, 5.8, 2.75, "read", align="center", colour=FORWARD, size=9.5)
caption(axes, 5.8, 1.15, "read", align="center", colour=FORWARD, size=9.5)
arrow(axes, (5.0, 2.25), (5.0, 1.25), label="copy of the output of act", dashed=True)
caption(axes, 0.35, 3.25, "Run 1 keeps the activation. Run 2 goes on with it.", size=11)
caption(
    axes,
    0.35,
    0.3,
    "Everything after act in run 2 computes with what run 1 left there.",
    colour=QUIET,
)
show(
    figure,
    "Two runs of the model, one above the other. The clean run goes from the vertical "
    "bar through detect and act to the scores 5.25 and 2.25. The corrupt run goes "
    "from the horizontal bar through detect and act to its scores. A dashed arrow "
    "leads from act in the clean run down to act in the corrupt run: a copy of the "
    "output. Everything after act in the corrupt run computes with it.",
)

# %% [markdown]
# **Predict.** The clean image has a vertical bar (scores 5.25, 2.25), the corrupt one a horizontal bar (2.25, 5.25).
# What are the two scores of the corrupt run when the *whole* output of `act` comes from the clean run? And when only
# channel 0 does? Look at the pictures at the top of the lesson, and write lists such as `[1, 2]`.

# %%
guess("06-patches", whole=[5.25, 2.25], channel_0=[5.25, 5.25])

# %%
kept = {}


def keep(module, args, output):
    kept["act"] = output.detach().clone()


def patch_with(channels):
    def patch(module, args, output):
        output = output.clone()
        output[:, channels] = kept["act"][:, channels]
        return output

    with torch.no_grad(), model.act.register_forward_hook(patch):
        return model(horizontal)[0].tolist()


with model.act.register_forward_hook(keep):
    model(vertical)

patches = {
    "nothing": [],
    "2": [2],
    "0": [0],
    "1": [1],
    "0 and 1": [0, 1],
    "all": [0, 1, 2],
}
effects = {label: patch_with(channels) for label, channels in patches.items()}
for label, scores in effects.items():
    print(f"patched: {label:8} scores: {scores}")
compare("06-patches", whole=effects["all"], channel_0=effects["0"])
assert effects == {
    "nothing": [2.25, 5.25],
    "2": [2.25, 5.25],
    "0": [5.25, 5.25],
    "1": [2.25, 2.25],
    "0 and 1": [5.25, 2.25],
    "all": [5.25, 2.25],
}

# %% tags=["figure"]
figure, axes = card(8.2, 3.3)
caption(
    axes,
    0.4,
    3.0,
    "Scores of the corrupt run (horizontal bar), by what comes from the clean run",
    size=11,
)
names = {"nothing": "nothing", "all": "all channels", "0 and 1": "channels 0 and 1"}
for index, (label, (up, across)) in enumerate(effects.items()):
    left = 1.0 + 1.28 * index
    for shift, score, colour in ((-0.22, up, FORWARD), (0.22, across, QUIET)):
        axes.bar(left + shift, 0.28 * score, bottom=0.65, width=0.38, color=colour)
        caption(
            axes,
            left + shift,
            0.65 + 0.28 * score + 0.13,
            f"{score:g}",
            align="center",
            size=9,
        )
    caption(
        axes, left, 0.46, names.get(label, f"channel {label}"), align="center", size=9
    )
caption(axes, 0.4, 0.16, "blue, left: score for vertical", colour=FORWARD, size=9.5)
caption(
    axes, 2.9, 0.16, "gray, right: score for horizontal", colour="#6b7079", size=9.5
)
show(
    figure,
    "Bar chart with two bars for each patch: the vertical and the horizontal score of "
    "the corrupt run. Nothing patched: 2.25 and 5.25. Channel 2: 2.25 and 5.25. "
    "Channel 0: 5.25 and 5.25. Channel 1: 2.25 and 2.25. Channels 0 and 1: 5.25 and "
    "2.25. All: 5.25 and 2.25.",
)

# %% [markdown] explains="06-patches"
# - Channel 2 has no effect: both images are equally bright. (Switching it off *did* change the scores. The two
#   experiments ask different questions.)
# - Channel 0 alone makes the model see both bars, channel 1 alone makes it see none.
# - Channels 0 and 1 together flip the answer completely. They carry all that distinguishes the two images.
# - Patching all channels gives exactly the scores of the clean run. It must: `act` is a **bottleneck**. Everything
#   that gets from the image to the scores goes through it.

# %% [markdown]
# In a plain chain every module is a bottleneck. Where a path leads around the module, it is not.
#
# **Predict.** `skip` computes `x + f(x)`, and `f` doubles. Clean input 1 gives 3, corrupt input 5 gives 15. What comes
# out for 5 when the output of `f` is patched from the clean run?

# %%
guess("06-patch-beside-a-skip", patched=7)


# %%
class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = Double()

    def forward(self, x):
        return x + self.f(x)


skip = Skip()
clean_f = skip.f(one)
with skip.f.register_forward_hook(lambda module, args, output: clean_f):
    mixed = skip(five)
print(
    "clean:",
    skip(one).item(),
    "  corrupt:",
    skip(five).item(),
    "  patched:",
    mixed.item(),
)
compare("06-patch-beside-a-skip", patched=mixed)
assert (skip(one), skip(five), mixed) == (3, 15, 7)

# %% [markdown] explains="06-patch-beside-a-skip"
# 7 = 5 + 2: the 5 went past `f`. So a patch that does *not* restore the clean answer tells you something, too: the
# rest went another way.

# %% [markdown]
# Two details matter when you keep the clean activation.
#
# **Keep a copy.** If an in-place module follows, it rewrites what you kept. That is the trap of lesson 5, and again
# `.detach().clone()` is the answer.

# %%
stored = {}
chain = nn.Sequential(Double(), nn.ReLU(inplace=True))
with chain[0].register_forward_hook(
    lambda module, args, output: stored.update(
        reference=output.detach(), copy=output.detach().clone()
    )
):
    chain(torch.tensor([-1.0, 2.0]))
print("reference:", stored["reference"].tolist(), "  copy:", stored["copy"].tolist())
assert stored["reference"].tolist() == [0, 4] and stored["copy"].tolist() == [-2, 4]

# %% [markdown]
# **Detach it.** A kept tensor with its graph links the two runs: `backward()` on the corrupt run would go on into the
# clean one.

# %%
net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))


def gradient_reaches_clean_run(copy):
    stored = {}
    clean = torch.ones(1, 2, requires_grad=True)
    with net[1].register_forward_hook(
        lambda module, args, output: stored.update(act=copy(output))
    ):
        net(clean)
    with net[1].register_forward_hook(lambda module, args, output: stored["act"]):
        net(torch.zeros(1, 2)).sum().backward()
    return clean.grad is not None


linked = gradient_reaches_clean_run(lambda output: output.clone())
detached = gradient_reaches_clean_run(lambda output: output.detach().clone())
print("clone():", linked, "  detach().clone():", detached)
assert linked and not detached


# %% exercise="06-patch-activation"
def patch_activation(model, name, clean, corrupt, channels=None):
    """The output of model(corrupt), with submodule `name` (or some channels of it)
    as in model(clean).
    """
    ### BEGIN SOLUTION
    layer = model.get_submodule(name)
    kept = {}

    def keep(module, args, output):
        kept["clean"] = output.detach().clone()

    def patch(module, args, output):
        if channels is None:
            return kept["clean"]
        output = output.clone()
        output[:, channels] = kept["clean"][:, channels]
        return output

    with layer.register_forward_hook(keep):
        model(clean)
    with layer.register_forward_hook(patch):
        return model(corrupt).detach()
    ### END SOLUTION


# %% [markdown]
# ## Myths
#
# **"A forward hook does not affect the backward pass."** It does as soon as it changes the output. What it returns is
# part of the graph like anything else.

# %%
linear, x = nn.Linear(3, 1), torch.ones(1, 3, requires_grad=True)
with torch.no_grad():
    linear.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
    linear.bias.fill_(10.0)

(before,) = torch.autograd.grad(linear(x).sum(), x)
with linear.register_forward_hook(lambda module, args, output: output * 2):
    (after,) = torch.autograd.grad(linear(x).sum(), x)
print("gradient without hook:", before.tolist(), "  with hook:", after.tolist())
assert before.tolist() == [[1, 2, 3]] and after.tolist() == [[2, 4, 6]]

# %% [markdown]
# Here `torch.autograd.grad` could just as well stand after the `with` block: the graph remembers. But a model that uses
# checkpointing (lesson 8) runs its forward pass again during `backward()`. If the hook is gone by then, the gradients are
# wrong, and nothing is raised. So keep a hook that changes something until `backward()` is over.

# %% [markdown]
# **"You must return the output, otherwise your change is ignored."** An in-place change takes effect without a return.
# It also breaks things, as we saw. So return a new tensor, but do not assume that a hook without `return` is harmless.

# %%
with torch.no_grad():
    ordinary = linear(x)
    changed = call(linear, double_in_place, x)
print("ordinary:", ordinary.item(), "  changed without return:", changed.item())
assert ordinary.item() == 16 and changed.item() == 32

# %% [markdown]
# **"A forward hook lets us act before the output is computed."** That is what a pre-hook is for. A forward hook runs
# when the output is there, and a change of `args` does not make `forward` run again: 16 stays 16. In a pre-hook, the
# zeros leave only the bias. (Where the output is the input itself, as in `nn.Identity`, an in-place change of `args`
# does change the output: they are one tensor.)


# %%
def zeroes_args(module, args, output):
    args[0].zero_()


with torch.no_grad():
    x = torch.ones(1, 3)
    too_late = call(linear, zeroes_args, x.clone())
    in_time = call_with_pre_hook(
        linear, lambda module, args: torch.zeros_like(args[0]), x
    )
    one_tensor = call(nn.Identity(), zeroes_args, x.clone())
print(
    "args zeroed in a forward hook:",
    too_late.item(),
    "  in a pre-hook:",
    in_time.item(),
)
print("args of nn.Identity zeroed in a forward hook:", one_tensor.tolist())
assert too_late.item() == 16 and in_time.item() == 10
assert one_tensor.tolist() == [[0, 0, 0]]
# no hook in it
assert linear.register_forward_pre_hook(print) and [*linear.state_dict()] == [
    "weight",
    "bias",
]

# %% [markdown]
# ## On your own model
#
# How much depends on one channel of its first layer? (In a language model, axis 1 holds tokens, so there you switch
# off tokens.) `your_model` takes a name, or a model of yours with an input for it; it downloads nothing.

# %%
from graders.nets import your_model

net, x = your_model("resnet18")
first = next(
    name
    for name, module in net.named_modules()
    if list(module.parameters(recurse=False))
)
try:
    for channel in range(4):
        moved = (ablate_channels(net, first, [channel], x) - net(x)).abs().max().item()
        print(
            f"without channel {channel} of {first}, an output moves by up to "
            f"{moved:.2g}"
        )
except NotImplementedError:
    print("Solve 06-ablate-channels, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `m.register_forward_pre_hook(hook)` | `hook(module, args)` | before `forward` | new arguments (see below) |
# | `m.register_forward_hook(hook)` | `hook(module, args, output)` | after `forward` | it is the new output |
#
# A tuple that a pre-hook returns holds *all* new positional arguments; anything else becomes the *only* one.
# `None` always means: leave it as it is. Both calls return a handle, and both take options:
#
# | option | for | what it does |
# |---|---|---|
# | `with_kwargs=True` | pre-hooks | `hook(module, args, kwargs)` returns `None` or `(new_args, new_kwargs)` |
# | `with_kwargs=True` | forward hooks | `hook(module, args, kwargs, output)`; the return value as before |
# | `prepend=True` | both | runs before all hooks of its kind that the module has so far |
# | `always_call=True` | forward hooks | runs also when `forward` raises; then `output` is `None` |
#
# ## Where you meet this in the wild
#
# - **Interpretability.** Ablation and activation patching find the parts of a language model on which an answer
#   depends. *Steering vectors* go one step further: a forward hook returns `output + 2 * direction`, and the model
#   writes, for example, in another tone. (Many blocks return a tuple, and this sum would raise. There, the hook returns
#   `(output[0] + 2 * direction, *output[1:])`.)
# - **Input normalisation.** A pre-hook normalises the input of a model that you cannot edit, and no caller has to
#   remember it. (Hooks are not part of the `state_dict`: whoever loads the weights has to register them again.)
# - **LoRA.** A frozen linear layer gets a small trainable correction: `output + b(a(args[0]))`, returned by a forward
#   hook or computed by a wrapper.
#
# Next: lesson 7, where hooks on modules look at gradients.

# %%
progress()
