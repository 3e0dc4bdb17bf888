# %% [markdown]
# # Lesson 13. Broken runs: which layer, and why?
#
# **The question.** The loss does not fall, and nothing raises an error. Which layer is it, and why?
#
# **The goal.** You can find the layer where a broken run goes wrong, with the hooks of the earlier lessons, and say why.
#
# This is the hardest lesson. It needs no new tool. Six runs go wrong, each in a way that happens to real people, and a
# seventh waits at the end. For each you get a curve, a chart and a list of suspects. As always: guess first, run the
# cell, then read on.

# %%
import copy
import math

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
)

# Small tensors: one thread is fastest, and on a shared machine many wait for each
# other.
torch.set_num_threads(1)

# %% [markdown]
# ## Six curves
#
# The task is small: 256 points in a square. The label is 1 for points in a circle around the middle, and 0 outside. A
# net with two hidden layers learns that in a second.

# %%
torch.manual_seed(0)
points = 2 * torch.rand(256, 2) - 1
labels = (points.norm(dim=1) < 0.7).float().unsqueeze(1)
loss_fn = nn.BCEWithLogitsLoss()


def train(model, lr=0.2, steps=100, inputs=points):
    """The loss at each step of SGD with momentum. It is written out, since
    `torch.optim` takes a second to load.
    """
    losses, speeds = [], {p: torch.zeros_like(p) for p in model.parameters()}
    for _ in range(steps):
        loss = loss_fn(model(inputs), labels)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p, speed in speeds.items():
                if p.grad is not None:
                    speed.mul_(0.9).add_(p.grad)
                    p.sub_(speed, alpha=lr)
        losses.append(loss.item())
    return losses


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )


healthy = train(small_net())
share = labels.mean()
blind = -(share * share.log() + (1 - share) * (1 - share).log()).item()
print(f"first loss {healthy[0]:.3f}, last loss {healthy[-1]:.3f}")
print(
    f"{share:.0%} of the labels are 1; always answering with this share gives the loss "
    f"{blind:.3f}"
)
assert healthy[-1] < 0.1 < blind

# %% [markdown]
# Remember the last number. Let us call it the **blind loss**: a net whose output ignores its input gets no lower.
#
# The next cell breaks six runs, A to F. Its code is folded away so that you can guess what is wrong. Run it without
# looking; if your editor shows the code, scroll past it. Open it at the end.


# %% tags=["spoiler"]
def deep_net():
    torch.manual_seed(0)
    layers = [nn.Linear(2, 32), nn.Tanh()]
    for _ in range(14):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, 1))


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(
            nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()
        )
        self.head = nn.Linear(32, 1)
        self.log = []

    def forward(self, x):
        h = self.features(x)
        h = h.detach()  # for the log
        self.log = [h.mean()]
        return self.head(h)


def hooked_net():
    net = small_net()
    for p in net[:3].parameters():
        p.register_hook(lambda grad: 0.01 * grad)  # an experiment of last week
    return net


def scaled_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(2), *small_net())


class Share(nn.Module):
    """Each number as a share of the sum of its row."""

    def forward(self, x):
        return x / x.sum(1, keepdim=True)


def share_net(shares):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 6),
        nn.ReLU(),
        shares,
        nn.Linear(6, 16),
        nn.ReLU(),
        nn.Linear(16, 1),
    )


def normal_net():
    torch.manual_seed(0)
    layers = [nn.Linear(2, 32), nn.Tanh()]
    for _ in range(22):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    for layer in layers[::2]:
        # standard deviation 1: harmless for 2 inputs, far too much for 32
        nn.init.normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers, nn.Linear(32, 1))


far_points = points + 10
make = {
    "A": small_net,
    "B": deep_net,
    "C": TwoParts,
    "D": hooked_net,
    "E": lambda: (
        scaled_net().eval()
    ),  # the last thing that ran before was the validation
    "F": lambda: share_net(Share()),
    "G": normal_net,  # the seventh
}
causes = {
    "A": "dead",
    "B": "vanishing",
    "C": "cut",
    "D": "hook",
    "E": "mode",
    "F": "nan",
    "G": "exploding",
}
net_a, net_b, net_c, net_d, net_e, net_f = (make[name]() for name in "ABCDEF")
runs = {
    "A": train(net_a, lr=5),
    "B": train(net_b, lr=0.02),
    "C": train(net_c),
    "D": train(net_d),
    "E": train(net_e, inputs=far_points),
    "F": train(net_f),
}
for name, losses in runs.items():
    print(f"run {name}: first loss {losses[0]:.3f}, last loss {losses[-1]:.3f}")
assert all(not runs[name][-1] < 0.3 for name in runs) and math.isnan(runs["F"][-1])
# it swings
assert (
    all(abs(runs[name][-1] - blind) < 0.02 for name in "ABE")
    and max(runs["A"]) > runs["A"][0] + 0.1
)


# %% tags=["figure"]
def curve(axes, losses, left, bottom, width, height, colour, limit=1.0):
    """A loss curve in a rectangle of a card. It ends with a cross at the first NaN."""
    there = losses[
        : next((i for i, loss in enumerate(losses) if math.isnan(loss)), len(losses))
    ]
    x = [left + width * i / (len(losses) - 1) for i in range(len(there))]
    y = [bottom + height * min(loss, limit) / limit for loss in there]
    axes.plot(x, y, color=colour, linewidth=1.6)
    if len(there) < len(losses):
        axes.plot(x[-1:], y[-1:], "x", color=colour, markersize=8, markeredgewidth=2)


def frame(axes, left, bottom, width, height, limit=1.0):
    """Two axes, and a dashed line at the blind loss."""
    axes.plot(
        [left, left, left + width],
        [bottom + height, bottom, bottom],
        color=QUIET,
        linewidth=0.8,
    )
    level = bottom + height * blind / limit
    axes.plot(
        [left, left + width], [level, level], color=QUIET, linewidth=0.8, linestyle="--"
    )


def before_and_after(
    axes, before, after, left=5.45, bottom=0.55, width=2.4, height=1.5
):
    """Two curves in the right part of a card, with their names."""
    frame(axes, left, bottom, width, height)
    curve(axes, before, left, bottom, width, height, BACKWARD)
    curve(axes, after, left, bottom, width, height, FORWARD)
    caption(
        axes, left, bottom + height + 0.22, "loss before", colour=BACKWARD, size=9.5
    )
    caption(
        axes, left + 1.15, bottom + height + 0.22, "and after", colour=FORWARD, size=9.5
    )
    caption(
        axes,
        left + width / 2,
        bottom - 0.2,
        f"{len(before)} steps",
        colour=QUIET,
        size=9,
        align="center",
    )


figure, axes = card(8.2, 4.1)
caption(
    axes,
    0.4,
    3.8,
    "The loss of six runs in 100 steps (orange), and of a healthy one (blue)",
    size=11,
)
for index, (name, losses) in enumerate(runs.items()):
    left, bottom = 0.5 + 2.6 * (index % 3), 2.15 - 1.75 * (index // 3)
    frame(axes, left, bottom, 2.1, 1.2)
    curve(axes, healthy, left, bottom, 2.1, 1.2, FORWARD)
    curve(axes, losses, left, bottom, 2.1, 1.2, BACKWARD)
    caption(axes, left + 1.9, bottom + 1.1, name, size=11)
caption(axes, 0.5, 0.17, "dashed: the blind loss", colour=QUIET, size=9)
show(
    figure,
    "Loss curves of six runs over 100 steps. The healthy run falls to almost 0. A "
    "swings wildly and then lies on the dashed line, the blind loss. B and E lie on "
    "it almost from the start. C and D fall slowly. F falls a little and ends at a "
    "NaN.",
)

# %% [markdown]
# The curves say little: flat, flat, slow, slow, flat, gone. A loss is one number at the end of the net. The cause sits
# somewhere inside.
#
# ## Nine suspects
#
# Six of these did it, each in one run:
#
# | name | what happened |
# |---|---|
# | `"nan"` | a number on the way is NaN or infinite |
# | `"hook"` | a hook changes gradients |
# | `"mode"` | a layer is in eval mode, and should be in training mode |
# | `"unused"` | a layer is never called |
# | `"frozen"` | the parameters of a layer do not require a gradient |
# | `"cut"` | the graph is cut: layers before the cut are called, and get no gradient |
# | `"exploding"` | gradients grow from layer to layer, on their way back |
# | `"dead"` | a ReLU outputs only zeros, whatever comes in |
# | `"vanishing"` | gradients shrink from layer to layer, on their way back |
#
# The next cell makes a chart of one pass, with a forward hook on each layer (lesson 5). For each layer it shows the
# mode, what comes out, and how large the gradient of the layer's own parameters is. The size of a tensor is its **RMS**,
# the root of the mean of the squares: it does not depend on the number of entries. First the healthy net, before its
# first step:


# %%
def rms(t):
    return t.detach().square().mean().sqrt().item()


def chart(model, inputs=points):
    """Print what one pass shows of each layer that is called. Afterwards the model
    has no hooks and no gradients.
    """
    outputs, handles = {}, []

    def watch(name, module):
        def hook(module, args, output):
            outputs[name] = output.detach()

        handles.append(module.register_forward_hook(hook))

    layers = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children())
    }
    for name, module in layers.items():
        watch(name, module)
    model.zero_grad()
    loss_fn(model(inputs), labels).backward()
    for handle in handles:
        handle.remove()
    print(f"{'layer':22} mode    mean   std   zeros   gradient")
    for name, output in outputs.items():
        layer = layers[name]
        grads = [p.grad for p in layer.parameters()]
        there = [grad.flatten() for grad in grads if grad is not None]
        gradient = f"{rms(torch.cat(there)):.0e}" if there else "None" if grads else "-"
        mode = "train" if layer.training else "eval"
        sizes = (
            f"{output.mean():6.2f} {output.std():5.2f}   "
            f"{(output == 0).float().mean():5.0%}"
        )
        print(f"{name:11}{type(layer).__name__:11} {mode:5} {sizes}   {gradient:>8}")
    model.zero_grad()


chart(small_net())
assert all(
    0.4 < (small_net()[:depth](points) == 0).float().mean() < 0.6 for depth in (2, 4)
)

# %% [markdown]
# About half of what a ReLU outputs is zeros: that is its job.
#
# ## Run A
#
# The curve swings, then lies at the blind loss: the output ignores the input. Here is the chart after the run.

# %%
chart(net_a)

# %% [markdown]
# **Predict.** What is wrong? Write the name of a suspect.

# %%
guess("13-run-a", cause="dead")


# %%
def fired(model, x):
    """For each ReLU of a Sequential, by name: which channels are above 0 for some
    input.
    """
    found = {}

    def watch(name):
        def hook(module, args, output):
            found[name] = (output.detach() != 0).any(0)

        return hook

    handles = [
        m.register_forward_hook(watch(name))
        for name, m in model.named_modules()
        if isinstance(m, nn.ReLU)
    ]
    model(x)
    for handle in handles:
        handle.remove()
    return found


fresh, after_a = fired(small_net(), points), fired(net_a, points)
for when, found in (("fresh net", fresh), ("after run A", after_a)):
    print(
        when,
        {name: f"{(~channels).sum()} of 32 dead" for name, channels in found.items()},
    )
compare("13-run-a", cause=causes["A"])
assert (~fresh["3"]).sum() < 8 and not after_a["3"].any()

# %% [markdown] explains="13-run-a"
# **Dead channels.** A channel of a layer is dead when it is 0 for every input. The hooks show where the input is lost:
# all of the second ReLU is dead. The steps were too large: they threw the parameters to where no input brings one of
# these channels above 0. And such a layer stays dead: its slope is 0 everywhere, so **no gradient comes through** to the
# layers before it.

# %% [markdown]
# **Predict.** Layer `4` comes after the second ReLU, and a gradient does arrive at its output. What is the gradient of
# its weight?

# %%
guess("13-after-zeros", weight=0)

# %%
net_a.zero_grad()
loss_fn(net_a(points), labels).backward()
for name, p in net_a.named_parameters():
    print(f"{name:9} largest entry of the gradient: {p.grad.abs().max():g}")
compare("13-after-zeros", weight=net_a[4].weight.grad.abs().max())
assert all(p.grad.abs().max() == 0 for p in net_a[:3].parameters())
assert not net_a[4].weight.grad.any() and net_a(points).unique().numel() == 1

# %% [markdown] explains="13-after-zeros"
# Also 0: the gradient of a weight is what arrives at the output times the *input*, and here the input is 0. All that
# can still learn is `4.bias`. It has: the net gives the same answer for every point.

# %% [markdown]
# The fix: smaller steps, from fresh weights.

# %%
fixed = train(small_net(), lr=0.2)
print(f"lr=5: {runs['A'][-1]:.3f}   lr=0.2: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(
    axes, 0.4, 2.3, "Run A: channels that fire (blue) and dead ones (orange)", size=11
)
for row, (when, found) in enumerate((("fresh", fresh), ("after", after_a))):
    for column, (name, channels) in enumerate(found.items()):
        for k, alive in enumerate(channels.tolist()):
            x, y = (
                1.2 + 1.95 * column + 0.2 * (k % 8),
                1.9 - 0.85 * row - 0.17 * (k // 8),
            )
            axes.plot([x], [y], "s", color=FORWARD if alive else BACKWARD, markersize=7)
        caption(
            axes, 1.9 + 1.95 * column, 0.2, f'ReLU "{name}"', align="center", size=9
        )
    caption(axes, 0.4, 1.65 - 0.85 * row, when, size=9.5)
before_and_after(axes, runs["A"], fixed)
show(
    figure,
    f"32 squares for each of two ReLUs. In a fresh net {int((~fresh['1']).sum())} and "
    f"{int((~fresh['3']).sum())} are dead; after run A {int((~after_a['1']).sum())} "
    f"and {int((~after_a['3']).sum())}. With a smaller step the loss falls to "
    f"{fixed[-1]:.2f}; before it stayed at {runs['A'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise, expect any model: convolutions with channels in dimension 1, ReLUs that are called twice, several
# batches. It may also raise an exception. The cells above take their hooks off only when all goes well; your function
# does it in `finally` (lesson 11). It may call functions from other cells of this notebook, your other answers included.


# %% exercise="13-dead-channels"
def dead_channels(model, batches):
    """For each ReLU with dead channels its name and these channels: 0 for every
    input of every batch.
    """
    ### BEGIN SOLUTION
    alive, handles = {}, []

    def watch(name, module):
        def hook(module, args, output):
            channels = output.detach().movedim(1, 0).flatten(1)
            alive[name] = alive.get(name, False) | (channels != 0).any(1)

        handles.append(module.register_forward_hook(hook))

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                watch(name, module)
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        for handle in handles:
            handle.remove()
    dead = {
        name: (~channels).nonzero().flatten().tolist()
        for name, channels in alive.items()
    }
    return {name: channels for name, channels in dead.items() if channels}
    ### END SOLUTION


# %% [markdown]
# ## Run B
#
# Run B has fifteen `tanh` layers, and its curve lies at the blind loss, too. Its chart before the first step:

# %%
chart(make["B"]())

# %% [markdown]
# **Predict.** What is wrong? The next cell measures both directions: how large is what each `tanh` outputs, and how large
# is the gradient that arrives there? (A forward hook sees the output. A *tensor hook* that it registers on this output,
# lesson 2, sees the gradient.) It does the same with a net that has other initial weights.

# %%
guess("13-run-b", cause="vanishing")


# %%
def signals(model, x, kind):
    """[RMS of the output, RMS of the gradient that arrives there] for each call of a
    module of this kind, in order.
    """
    rows, handles = [], []

    def hook(module, args, output):
        row = [rms(output), 0.0]
        rows.append(row)
        if output.requires_grad:
            output.register_hook(lambda grad: row.__setitem__(1, rms(grad)))

    for module in model.modules():
        if isinstance(module, kind):
            handles.append(module.register_forward_hook(hook))
    loss_fn(model(x), labels).backward()
    for handle in handles:
        handle.remove()
    model.zero_grad()
    return rows


def rescaled(net):
    """The same net with initial weights that make up for what each tanh takes from
    the size of a signal.
    """
    gain = nn.init.calculate_gain("tanh")
    for module in net:
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(
                module.weight, gain=gain if module.out_features > 1 else 1
            )
            nn.init.zeros_(module.bias)
    return net


torch.manual_seed(0)
small_rows, kept_rows = (
    signals(deep_net(), points, nn.Tanh),
    signals(rescaled(deep_net()), points, nn.Tanh),
)
for label, rows in (("as it was", small_rows), ("rescaled", kept_rows)):
    print(
        f"{label:10} output: first {rows[0][0]:.1e}, last {rows[-1][0]:.1e}", end="   "
    )
    print(f"gradient: first {rows[0][1]:.1e}, last {rows[-1][1]:.1e}")
compare("13-run-b", cause=causes["B"])
assert (
    small_rows[0][1] < 0.01 * small_rows[-1][1]
    and kept_rows[0][1] > 0.1 * kept_rows[-1][1]
)

# %% [markdown] explains="13-run-b"
# The gradient **vanishes** on its way back: from the last `tanh` to the first it passes fourteen layers, each makes it
# smaller by a similar factor, and fourteen such factors leave next to nothing. The first layers do not learn. The
# picture needs a **logarithmic** axis: there, the same factor at each layer makes a straight line.
#
# The fix: initial weights that keep the size. (Or a residual connection around each layer, or a norm.)

# %%
fixed = train(rescaled(deep_net()), lr=0.02)
print(f"before: {runs['B'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.3

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(
    axes,
    0.4,
    2.3,
    "Run B: RMS of the gradient at each tanh, before the first step",
    size=11,
)
for power in (-2, -4, -6, -8):
    y = 0.55 + 1.5 * (power + 8.5) / 7
    axes.plot([1.0, 4.9], [y, y], color=QUIET, linewidth=0.4)
    caption(axes, 0.9, y, f"1e{power}", colour=QUIET, size=8.5, align="right")
for rows, colour, label in (
    (small_rows, BACKWARD, "as it was"),
    (kept_rows, FORWARD, "rescaled"),
):
    x = [1.2 + 0.25 * i for i in range(len(rows))]
    y = [0.55 + 1.5 * (math.log10(row[1]) + 8.5) / 7 for row in rows]
    axes.plot(x, y, "o-", color=colour, markersize=4, linewidth=1.4)
    caption(
        axes,
        1.2,
        y[0] + (0.18 if colour == FORWARD else 0.3),
        label,
        colour=colour,
        size=9.5,
    )
caption(axes, 1.2, 0.35, "first", colour=QUIET, size=9, align="center")
caption(axes, 4.7, 0.35, "last", colour=QUIET, size=9, align="center")
before_and_after(axes, runs["B"], fixed)
show(
    figure,
    "On a logarithmic axis, the RMS of the gradient at fifteen tanh layers. As it "
    f"was, it falls in a straight line from {small_rows[-1][1]:.0e} at the last to "
    f"{small_rows[0][1]:.0e} at the first. Rescaled, it stays between "
    f"{min(r[1] for r in kept_rows):.0e} and {max(r[1] for r in kept_rows):.0e}. "
    f"After the fix the loss falls to {fixed[-1]:.2f}.",
)

# %% [markdown]
# The opposite comes about in the same way. A recurrent net calls **one** layer many times, and each call multiplies the
# gradient.
#
# **Predict.** The layer below multiplies by 1.3, and a loop calls it 30 times. The gradient at the output of the last
# call is 1. How large is it at the output of the first? Let Python work it out: you may write an expression.

# %%
guess("13-thirty-calls", first=1.3**29)

# %%
loop = nn.Linear(4, 4, bias=False)
loop.load_state_dict({"weight": 1.3 * torch.eye(4)})
arrived = []


def hook(module, args, output):
    output.register_hook(lambda grad: arrived.append(rms(grad)))


h = torch.ones(1, 4)
with loop.register_forward_hook(hook):
    for _ in range(30):
        h = loop(h)
h.sum().backward()
print(f"at the last call {arrived[0]:g}, at the first {arrived[-1]:.0f}")
compare("13-thirty-calls", first=arrived[-1])
assert arrived[0] == 1 and math.isclose(arrived[-1], 1.3**29, rel_tol=1e-4)

# %% [markdown] explains="13-thirty-calls"
# 1.3 to the power of 29, since the gradient passes through 29 more calls: it **explodes**. With 0.7 it would vanish. One
# entry for each *call* shows it; one for each *module* would hide it. What helps is to clip the gradients (lesson 4), or
# a layer with gates, such as an LSTM.


# %% exercise="13-signal-report"
def signal_report(model, loss_fn, x):
    """For each call of a leaf: its name, the RMS of its output, the RMS of the
    gradient that arrives there.
    """
    ### BEGIN SOLUTION
    calls, handles = [], []
    kept = [(parameter, parameter.grad) for parameter in model.parameters()]

    def rms(squares, count):
        return (sum(squares) / count) ** 0.5

    def square_sum(t):
        return t.detach().double().square().sum().item()

    def watch(name):
        def hook(module, args, output):
            values = [output] if isinstance(output, torch.Tensor) else output
            values = values.values() if isinstance(values, dict) else values
            tensors = [v for v in values if v.is_floating_point()]
            count, arrived = sum(t.numel() for t in tensors), []
            for t in tensors:
                if t.requires_grad:
                    handles.append(
                        t.register_hook(lambda grad: arrived.append(square_sum(grad)))
                    )
            calls.append(
                (name, rms([square_sum(t) for t in tensors], count), arrived, count)
            )

        return hook

    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(watch(name)))
        with torch.enable_grad():
            loss = loss_fn(model(x))
        if loss.requires_grad:
            model.zero_grad(set_to_none=True)
            loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        for parameter, grad in kept:
            parameter.grad = grad
    return [
        (name, output, rms(arrived, count)) for name, output, arrived, count in calls
    ]
    ### END SOLUTION


# %% [markdown]
# ## Run C
#
# Run C learns, but slowly. Its chart before the first step:

# %%
chart(make["C"]())
print(
    "\nAll parameters require a gradient:",
    all(p.requires_grad for p in make["C"]().parameters()),
)

# %% [markdown]
# The first thing to ask of a slow run is: **do all parameters get a gradient?** Optimizers do not complain when one gets
# none: they leave out every parameter whose `.grad` is `None`, as `train` does. Here, that is all of `features`. Why?
# There are several causes, and they need different fixes:
#
# | a parameter gets nothing, and … | cause | what you see |
# |---|---|---|
# | its `requires_grad` is `False` | `"frozen"` | no hook needed (lesson 1) |
# | its module is never called | `"unused"` | a forward hook that never fires (lesson 5) |
# | its module is called, and no gradient arrives at the output | `"cut"` | a tensor hook that never fires (lesson 2) |
# | a gradient arrives, and comes out as 0 | a zero on the way: `"dead"`, or a factor 0 | a tensor hook that gets zeros |
#
# **Predict.** Which is it? The next cell puts a forward hook on each layer, and in it a tensor hook on the output.

# %%
guess("13-run-c", cause="cut")

# %%
for name, module in net_c.named_modules():
    if not list(module.children()):
        events = []

        def hook(module, args, output, events=events):
            events.append("called")
            output.register_hook(lambda grad: events.append("gradient arrived"))

        with module.register_forward_hook(hook):
            loss_fn(net_c(points), labels).backward()
        print(f"{name:12}", events)
        assert events == ["called"] + ["gradient arrived"] * (name == "head")
compare("13-run-c", cause=causes["C"])

# %% [markdown] explains="13-run-c"
# `features.3` is called, its output has a graph (or it would not take a hook), and no gradient arrives: the graph is
# **cut** after it. There stands the line `h = h.detach()`, which was meant for a log.

# %% [markdown]
# **Predict.** Below, `2 * w` is computed as usual, inside a `no_grad` block, and by way of a Python number, with
# `.item()`. Which of the three results require a gradient? Answer with `True` or `False`.

# %%
guess("13-what-cuts", usual=True, in_block=False, by_number=False)

# %%
w = torch.ones(1, requires_grad=True)
with torch.no_grad():
    in_block = 2 * w
results = {
    "usual": 2 * w,
    "in_block": in_block,
    "by_number": torch.tensor((2 * w).item()),
}
attached = {way: result.requires_grad for way, result in results.items()}
print("requires grad:", attached)
compare(
    "13-what-cuts",
    usual=attached["usual"],
    in_block=attached["in_block"],
    by_number=attached["by_number"],
)
assert list(attached.values()) == [True, False, False]

# %% [markdown] explains="13-what-cuts"
# So a `no_grad` block and a Python number cut, too. The fix for run C: only the log gets the detached tensor, and the net
# goes on with `h` itself.


# %%
class Mended(TwoParts):
    def forward(self, x):
        h = self.features(x)
        self.log = [h.detach().mean()]
        return self.head(h)


fixed = train(Mended())
print(f"before: {runs['C'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1 < runs["C"][-1]

# %% tags=["figure"]
net_c.zero_grad()
loss_fn(net_c(points), labels).backward()
size_of_grad = {
    name: None if p.grad is None else rms(p.grad)
    for name, p in net_c.named_parameters()
}
assert all(
    (size is None) == name.startswith("features") for name, size in size_of_grad.items()
)
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run C, after 100 steps: where the gradient arrives", size=11)
for x, label, name in (
    (0.95, "features", "features.2.weight"),
    (2.6, "detach", None),
    (4.15, "head", "head.weight"),
):
    below = (
        ""
        if name is None
        else "no gradient"
        if size_of_grad[name] is None
        else f"RMS {size_of_grad[name]:.0e}"
    )
    node(
        axes,
        x,
        1.35,
        label,
        kind="loss" if name is None else "non-leaf",
        below=below,
        width=1.05,
    )
for start, end in ((1.55, 2.0), (3.2, 3.55)):
    arrow(axes, (start, 1.45), (end, 1.45))
arrow(axes, (5.2, 1.2), (4.72, 1.2), backward=True)
arrow(axes, (3.55, 1.2), (3.2, 1.2), backward=True)
axes.plot([1.72, 1.88], [1.12, 1.28], color=BACKWARD, linewidth=2)
axes.plot([1.72, 1.88], [1.28, 1.12], color=BACKWARD, linewidth=2)
before_and_after(axes, runs["C"], fixed)
show(
    figure,
    "The values go from features through detach to head. The gradient arrives at "
    "head, and ends at detach: features gets none. Without the detach the loss falls "
    f"to {fixed[-1]:.2f}; before it was {runs['C'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise, find the cause for each parameter.


# %% exercise="13-why-no-gradient"
def why_no_gradient(model, loss_fn, x):
    """For each parameter that gets no gradient, or one of zeros, why: frozen, zero,
    never called or cut.
    """
    ### BEGIN SOLUTION
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    called, handles, gradients = set(), [], [None] * len(trained)

    def before(module, args):
        called.update(module.parameters(recurse=False))

    try:
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(before))
        loss = loss_fn(model(x))
        if loss.requires_grad and trained:
            gradients = torch.autograd.grad(
                loss, list(trained.values()), allow_unused=True
            )
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)

    reasons = {
        name: "frozen" for name, p in model.named_parameters() if not p.requires_grad
    }
    for (name, p), gradient in zip(trained.items(), gradients):
        if gradient is None:
            reasons[name] = "cut" if p in called else "never called"
        elif not gradient.any():
            reasons[name] = "zero"
    return reasons
    ### END SOLUTION


# %% [markdown]
# ## Run D
#
# Run D is slow, like C. At the start it has the same weights as the healthy net, to the last digit. Both charts before
# the first step:

# %%
print("healthy")
chart(small_net())
print("\nrun D")
chart(make["D"]())

# %% [markdown]
# All layers are called, and all get a gradient.
#
# **Predict.** What is wrong? The next cell **compares the gradients with what they should be**: it divides them by those
# of a copy.

# %%
guess("13-run-d", cause="hook")


# %%
def gradients(model):
    model.zero_grad()
    loss_fn(model(points), labels).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


net_d = make["D"]()
with_hooks, without = gradients(net_d), gradients(copy.deepcopy(net_d))
ratios = {
    name: (with_hooks[name].norm() / without[name].norm()).item() for name in without
}
assert all(
    torch.equal(p, q) for p, q in zip(net_d.parameters(), small_net().parameters())
)
print(
    "norm with hooks / without:",
    {name: round(ratio, 4) for name, ratio in ratios.items()},
)
compare("13-run-d", cause=causes["D"])
assert all(
    abs(ratio - (0.01 if name[0] in "02" else 1)) < 1e-4
    for name, ratio in ratios.items()
)

# %% [markdown] explains="13-run-d"
# Without the healthy net beside it, you would not suspect this chart. The parameters of layers `0` and `2` get a hundredth
# of their gradients. A **hook** scales them, one on each parameter: `copy.deepcopy` drops those (lesson 11). Here, somebody registered it
# for an earlier experiment, and nobody kept the handle (lesson 11). The fix: build the model anew, without that hook.
# Here the copy will do.

# %%
fixed = train(copy.deepcopy(net_d))
print(f"before: {runs['D'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1 < runs["D"][-1]

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(
    axes,
    0.4,
    2.3,
    "Run D: gradient with all hooks, as a share of what it is without",
    size=11,
)
for index, (name, ratio) in enumerate(ratios.items()):
    y = 1.9 - 0.28 * index
    caption(axes, 1.3, y, name, size=9.5, align="right")
    axes.barh(
        y,
        2.6 * ratio,
        left=1.45,
        height=0.17,
        color=BACKWARD if ratio < 0.5 else FORWARD,
    )
    caption(axes, 1.55 + 2.6 * ratio, y, f"{ratio:.2f}", size=9)
before_and_after(axes, runs["D"], fixed)
show(
    figure,
    "Bars for six parameters. The weight and bias of the layers 0 and 2 get 0.01 of "
    "their gradient, those of layer 4 all of it. Without the hooks the loss falls to "
    f"{fixed[-1]:.2f}; before it was {runs['D'][-1]:.2f}.",
)

# %% [markdown]
# But a copy keeps the hooks of *modules*. In the exercise you have to switch off hooks of all kinds, and put them back
# as they were.


# %% exercise="13-changed-by-hooks"
def changed_by_hooks(model, loss_fn, x):
    """The names of the parameters whose gradient is another one than it would be
    without the model's hooks.
    """
    ### BEGIN SOLUTION
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    clean = copy.deepcopy(model)  # hooks on parameters are not copied
    for module in clean.modules():
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
        module._backward_pre_hooks.clear()
        module._backward_hooks.clear()

    def gradients(net):
        loss = loss_fn(net(x))
        if loss.requires_grad:
            loss.backward()
        return [p.grad for p in net.parameters()]

    def same(gradient, other):
        if gradient is None or other is None:
            return gradient is other
        return torch.allclose(gradient, other, rtol=1e-3, atol=0)

    try:
        for leaf in leaves:
            leaf.grad = None
        plain, hooked = gradients(clean), gradients(model)
    finally:
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
    names = [name for name, _ in model.named_parameters()]
    return [
        name for name, before, now in zip(names, plain, hooked) if not same(before, now)
    ]
    ### END SOLUTION


# %% [markdown]
# ## Run E
#
# The points of run E lie around 10 and not around 0, and a BatchNorm is there to put that right. Still the curve lies
# near the blind loss. Its chart before the first step:

# %%
chart(make["E"](), inputs=far_points)

# %% [markdown]
# **Predict.** What is wrong? The next cell mends it, and trains again.

# %%
guess("13-run-e", cause="mode")

# %%
fixed = train(scaled_net().train(), inputs=far_points)
print(f"before: {runs['E'][-1]:.3f}   after: {fixed[-1]:.3f}")
compare("13-run-e", cause=causes["E"])
assert fixed[-1] < 0.1 < runs["E"][-1]

# %% [markdown] explains="13-run-e"
# All that changed is the **mode**.

# %% [markdown]
# **Predict.** The output of the BatchNorm had a mean of about 10. The next cell tries both modes. What are the mean and the
# standard deviation in training mode?

# %%
guess("13-batchnorm", mean=0, deviation=1)

# %%
seen = {}
net_e = scaled_net()
for mode in ("train", "eval"):
    net_e.train(mode == "train")
    # in training mode, each run changes the running statistics
    twin = copy.deepcopy(net_e)

    def hook(module, args, output, mode=mode):
        seen[mode] = [output.mean().item(), output.std().item()]

    with twin[0].register_forward_hook(hook), torch.no_grad():
        twin(far_points)
    print(
        f"{mode:6} mean {seen[mode][0]:6.2f}   standard deviation {seen[mode][1]:.2f}"
    )
compare(
    "13-batchnorm",
    mean=round(seen["train"][0], 2),
    deviation=round(seen["train"][1], 2),
)
assert (
    abs(seen["train"][0]) < 0.01
    and abs(seen["train"][1] - 1) < 0.01
    and seen["eval"][0] > 9
)
assert (net_e[0].running_mean == 0).all() and (net_e[0].running_var == 1).all()

# %% [markdown] explains="13-batchnorm"
# In training mode it uses the mean and variance of the batch. In eval mode it uses its running mean and variance, and
# these are still 0 and 1, as at the start: it hands on almost exactly what it gets. Somebody called `model.eval()` for
# a validation, and nobody called `model.train()` afterwards.

# %% [markdown]
# A mode can also be wrong in a *part*: `model.train()` in the loop sets a frozen BatchNorm back to training, and a
# Dropout that stays on makes a validation look bad. `module.training` tells the mode; **whether it matters, only the
# output tells**.

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(
    axes, 0.4, 2.3, "Run E: mean and deviation of what the BatchNorm outputs", size=11
)
for y, mode, colour in ((1.5, "eval", BACKWARD), (0.95, "train", FORWARD)):
    mean, deviation = seen[mode]
    caption(axes, 0.4, y, f"{mode}()", colour=colour, size=9.5)
    left, right = (1.5 + 0.28 * (mean + sign * deviation) for sign in (-1, 1))
    axes.plot([left, right], [y, y], color=colour, linewidth=5)
    axes.plot([(left + right) / 2], [y], "|", color=INK, markersize=13)
axes.plot([1.1, 4.9], [0.6, 0.6], color=QUIET, linewidth=0.8)
for value in (0, 5, 10):
    caption(
        axes, 1.5 + 0.28 * value, 0.42, str(value), colour=QUIET, size=9, align="center"
    )
before_and_after(axes, runs["E"], fixed)
show(
    figure,
    f"In eval mode the output of the BatchNorm lies around {seen['eval'][0]:.1f}, "
    f"with a deviation of {seen['eval'][1]:.2f}; in training mode around 0 with a "
    f"deviation of 1. In training mode the loss falls to {fixed[-1]:.2f}; before it "
    f"ended at {runs['E'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise, classes and their names say nothing: find the modules whose mode matters by what they do.


# %% exercise="13-wrong-mode"
def wrong_mode(model, x):
    """Names of the modules that are not in the mode of the model although their mode
    matters for model(x).
    """
    ### BEGIN SOLUTION
    names = {
        module: name
        for name, module in model.named_modules()
        if module.training != model.training
    }
    found, busy = set(), []

    def state():
        return torch.get_rng_state(), [
            (buffer, buffer.clone()) for buffer in model.buffers()
        ]

    def put_back(random, buffers):
        torch.set_rng_state(random)
        for buffer, old in buffers:
            buffer.copy_(old)

    def copied(values):
        return [value.clone() for value in values]

    def tensors(output):
        values = (
            output.values()
            if isinstance(output, dict)
            else output
            if isinstance(output, tuple)
            else [output]
        )
        return copied(values)

    def before(module, args, kwargs):
        if busy:  # a call inside of one of our own
            return
        now, mode, outputs = state(), module.training, []
        busy.append(module)
        try:
            for module.training in (True, False):
                put_back(*now)
                outputs.append(
                    tensors(
                        module.forward(
                            *copied(args), **dict(zip(kwargs, copied(kwargs.values())))
                        )
                    )
                )
        finally:
            busy.clear()
            module.training = mode
            put_back(*now)
        if not all(map(torch.equal, *outputs)):
            found.add(module)

    at_first, handles = state(), []
    with torch.no_grad():
        try:
            for module in names:
                handles.append(
                    module.register_forward_pre_hook(before, with_kwargs=True)
                )
            model(x)
        finally:
            for handle in handles:
                handle.remove()
            put_back(*at_first)
    return [name for module, name in names.items() if module in found]
    ### END SOLUTION


# %% [markdown]
# ## Run F
#
# Run F learns for some steps, and then its loss is NaN for good. The suspect is obvious: `"nan"`. The question is
# **where** it starts.
#
# **Predict.** Two steps after the first NaN in the loss, how many of the six parameters have a NaN: `"none"`, `"one"`,
# `"some"` or `"all"`?

# %%
guess("13-two-steps-later", parameters="all")

# %%
bad = next(step for step, loss in enumerate(runs["F"]) if math.isnan(loss))
too_late = make["F"]()
train(too_late, steps=bad + 2)
struck = [name for name, p in too_late.named_parameters() if p.isnan().any()]
print("first bad step:", bad, "  parameters with a NaN:", struck)
words = {0: "none", 1: "one", 6: "all"}
compare("13-two-steps-later", parameters=words.get(len(struck), "some"))
assert len(struck) == 6 and 20 <= bad < 100

# %% [markdown] explains="13-two-steps-later"
# The gradients have spread it, and it is too late to look.

# %% [markdown]
# So stop **before the first bad step**, and look there. The net has six layers: `0` Linear, `1` ReLU, `2` Share, `3` Linear, `4` ReLU, `5` Linear. `Share` is a layer of our own:
# it divides each number by the sum of its row.
#
# **Predict.** Which layer outputs the first NaN? Write its number.

# %%
guess("13-run-f", layer=2)

# %%
net_f = make["F"]()
train(net_f, steps=bad)  # up to, and not including, the step with the first NaN
assert all(p.isfinite().all() for p in net_f.parameters())

spoilt, handles = {}, []
for name, module in net_f.named_children():
    label = f"{name} {type(module).__name__}"

    def hook(module, args, output, label=label):
        spoilt[label] = (~output.isfinite()).any(1).sum().item()

    handles.append(module.register_forward_hook(hook))
net_f(points)
for handle in handles:
    handle.remove()
for label, count in spoilt.items():
    print(f"{label:10} a NaN for {count} of 256 points")
compare("13-run-f", layer=[count > 0 for count in spoilt.values()].index(True))
assert list(spoilt.values())[:2] == [0, 0] and all(
    0 < count < 20 for count in list(spoilt.values())[2:]
)

# %% [markdown] explains="13-run-f"
# `Share` is to blame: what goes in is finite, and what comes out is not (lesson 11). For a few points all six channels
# of the ReLU are 0, and 0 / 0 is NaN. The layers after it are victims, and so is the loss. The fix: a denominator that
# stays away from 0.

# %% [markdown]
# What could one add to a denominator that may be 0? A tiny number, say 1e-6, or 1.
#
# **Predict.** At a point where all six channels are 0, a gradient of 1 arrives at the first output of `Share`. How
# large is the gradient of the first channel of its input, with a tiny number of 1e-6, and with 1?

# %%
guess("13-tiny-number", tiny=1e6, one=1)


# %%
class SafeShare(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def forward(self, x):
        return x / (x.sum(1, keepdim=True) + self.extra)


before_share = {}
for extra in (1e-6, 1.0):
    z = torch.full((1, 6), -2.0, requires_grad=True)
    h = torch.relu(z)
    h.retain_grad()
    SafeShare(extra)(h)[0, 0].backward()
    before_share[extra] = h.grad[0, 0].item()
    print(
        f"+ {extra:g}: a gradient of 1 becomes {h.grad[0, 0]:g}, and {z.grad[0, 0]:g} "
        "before the ReLU"
    )
    assert math.isclose(h.grad[0, 0], 1 / extra, rel_tol=1e-5) and not z.grad.any()
compare("13-tiny-number", tiny=round(before_share[1e-6]), one=before_share[1.0])

# %% [markdown] explains="13-tiny-number"
# The tiny number stops the NaN and leaves a trap: a gradient that becomes a million times as large. Here the ReLU
# before `Share` is 0 and lets nothing through; after another layer, one step could throw the weights far away. So add
# 1.

# %%
fixed = train(share_net(SafeShare(1.0)))
print(f"before: {runs['F'][-1]}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.3

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(
    axes,
    0.4,
    2.3,
    f"Run F, step {bad}: points with a NaN in the output of each layer",
    size=11,
)
for index, (label, count) in enumerate(spoilt.items()):
    y = 1.9 - 0.28 * index
    caption(axes, 1.3, y, label, size=9.5, align="right")
    axes.barh(
        y, 2.6 * count / max(spoilt.values()), left=1.45, height=0.17, color=BACKWARD
    )
    caption(
        axes, 1.55 + 2.6 * count / max(spoilt.values()), y, f"{count} of 256", size=9
    )
before_and_after(axes, runs["F"], fixed)
show(
    figure,
    "Points with a NaN in the output of each layer: "
    + ", ".join(f"{label} {count}" for label, count in spoilt.items())
    + f". Before, the curve ends with a NaN at step {bad}; after the fix the loss "
    "falls "
    f"to {fixed[-1]:.2f}.",
)

# %% [markdown]
# ## Run G
#
# A seventh run, without help. The next cell trains it and looks at each of its `tanh` layers with the hooks of run B,
# *before the first step*. The one below draws what came out.

# %%
before_g = signals(make["G"](), points, nn.Tanh)
runs["G"] = train(make["G"](), lr=0.02)
print(f"first loss {runs['G'][0]:.3f}, last loss {runs['G'][-1]:.3f}")
assert runs["G"][-1] > 0.5 and all(0.3 < size <= 1 for size, _ in before_g)

# %% tags=["figure"]
figure, axes = card(8.2, 2.8)
caption(
    axes,
    0.4,
    2.5,
    "Run G: RMS at each tanh, of its output (blue) and of the gradient there (orange)",
    size=11,
)
for power in (2, 0, -2, -4):
    y = 0.6 + 1.5 * (power + 4.5) / 7
    axes.plot([1.0, 4.9], [y, y], color=QUIET, linewidth=0.4)
    caption(axes, 0.9, y, f"1e{power}", colour=QUIET, size=8.5, align="right")
for which, colour in ((0, FORWARD), (1, BACKWARD)):
    x = [1.2 + 0.16 * i for i in range(len(before_g))]
    y = [0.6 + 1.5 * (math.log10(row[which]) + 4.5) / 7 for row in before_g]
    axes.plot(x, y, "o-", color=colour, markersize=4, linewidth=1.4)
caption(axes, 1.2, 0.35, "first", colour=QUIET, size=9, align="center")
caption(axes, 4.7, 0.35, "last", colour=QUIET, size=9, align="center")
frame(axes, 5.45, 0.6, 2.4, 1.5)
curve(axes, runs["G"], 5.45, 0.6, 2.4, 1.5, BACKWARD)
caption(axes, 5.45, 2.25, "loss", colour=BACKWARD, size=9.5)
caption(axes, 6.65, 0.4, "100 steps", colour=QUIET, size=9, align="center")
show(
    figure,
    f"Left, on a logarithmic axis, {len(before_g)} tanh layers of run G. The RMS of "
    f"the output lies between {min(row[0] for row in before_g):.2f} and "
    f"{max(row[0] for row in before_g):.2f}. The RMS of the gradient is "
    f"{before_g[0][1]:.0e} at the first layer and {before_g[-1][1]:.0e} at the last, "
    "with a straight line between. Right, the loss: it jumps above the dashed line, "
    "the blind loss, for some 40 steps, and then lies on it.",
)

# %% [markdown]
# **Predict.** What is wrong? All nine suspects are possible.

# %%
guess("13-run-g", cause="exploding")

# %%
fixed = train(rescaled(make["G"]()), lr=0.02)
print(f"before: {runs['G'][-1]:.3f}   after: {fixed[-1]:.3f}")
print(
    "gradient at the first tanh / gradient at the last: "
    f"{before_g[0][1] / before_g[-1][1]:.0f}"
)
start, stepped = make["G"](), make["G"]()
train(stepped, lr=0.02, steps=1)
moved = (stepped[0].weight - start[0].weight).abs().max()
print(
    f"weights of layer 0: the largest is {start[0].weight.abs().max():.1f}, the first "
    f"step moves one by {moved:.1f}"
)
compare("13-run-g", cause=causes["G"])
assert moved > 10
assert fixed[-1] < 0.3 and before_g[0][1] > 10_000 * before_g[-1][1]

# %% [markdown] explains="13-run-g"
# The curve ends as flat as run B's, and the fault is the opposite. Backward runs from the last layer to the first, and
# on the way the gradient **explodes**: a single step throws the first layers far away. The cause is in the folded cell:
# weights from `nn.init.normal_`, with a standard deviation of 1. That is harmless for 2 inputs and far too much for 32.
# The outputs look fine, since a `tanh` never leaves the range from -1 to 1.

# %% [markdown]
# ## A whole diagnosis
#
# *Go deeper: this exercise is the longest of the course, and nothing builds on it.* You do not know what is wrong, so
# you need an **order of questions**. A good one asks first about what would spoil the other answers. Nine suspects,
# three steps:
#
# 1. **What could mislead you?** `"nan"`: then sizes mean nothing. `"hook"`: then gradients mean nothing. `"mode"`: then
#    the net computes something other than you think. One pass with a forward hook on each leaf finds the first; for the
#    other two, compare with a new model without the hook, or in the other mode (runs D, E and F).
# 2. **Who gets no gradient?** `"unused"`, `"frozen"`, `"cut"`. Read `.grad` after `backward()`, and see which leaves
#    the hooks saw called (run C).
# 3. **How large is it on its way?** `"exploding"`, `"dead"`, `"vanishing"`. Keep the gradient at the output of each
#    call, and make one step of SGD for the dead (runs A, B and G).
#
# And name the module where it **starts**. A gradient is as large as its RMS; where none arrives, a call does not count.
# Nothing in these models works in place, and neither what a pass leaves in buffers nor the modes in the pass after the
# step decide anything. The list, in the order of the questions:
#
# | label | fits when | it starts at |
# |---|---|---|
# | `"nan"` | the output of a call of a leaf has a NaN or an infinite entry | the first such call |
# | `"hook"` | without the hooks of one module (on itself and on its own parameters), all else equal, some parameter would get a different gradient, or one where it now gets none; tiny gradients count, last digits do not | this module |
# | `"mode"` | a leaf is in eval mode, and its mode matters (as in `13-wrong-mode`, but whatever the mode of the model) | this leaf |
# | `"unused"` | a leaf with parameters is never called, and none of them gets a gradient | this leaf |
# | `"frozen"` | a leaf has parameters, and none of them requires grad | this leaf |
# | `"cut"` | a leaf with parameters is called, and none of them gets a gradient | the one called last |
# | `"exploding"` | the gradient at the output of a call of a leaf is more than 10000 times as large as at the last call | the last call for which this holds |
# | `"dead"` | more than half of the channels of an `nn.ReLU` are 0 for all of `x` in every call of this pass, or of the one after a step of SGD (`-lr * p.grad` for each parameter with a gradient) | the first such ReLU that is called |
# | `"vanishing"` | as `"exploding"`, but less than 1/10000 as large | the last call for which this holds |
#
# Write one step, return `("healthy", None)` for the rest, and run the check: it tells you what is missing. When yours
# passes, try it on the runs above: `diagnose(make["B"], points, labels, loss_fn, 0.02)`. What went wrong in A and F came
# up during training: there, `lambda: copy.deepcopy(net_a)` makes the models.


# %% exercise="13-diagnose"
def diagnose(make, x, y, loss_fn, lr):
    """What is wrong with the models that make() returns, and the name of the module
    where it starts.
    """
    ### BEGIN SOLUTION
    x, y, random = x.detach(), y.detach(), torch.get_rng_state()

    def one_pass(model):
        """The outputs of leaves in the order of their calls; `.grad` of each is what
        arrives there.
        """
        calls, names = [], {module: name for name, module in model.named_modules()}

        def keep(module, args, output):
            if output.requires_grad:
                output.retain_grad()
            calls.append((names[module], output))

        handles = [
            module.register_forward_hook(keep)
            for module in names
            if not list(module.children())
        ]
        torch.set_rng_state(random)
        loss = loss_fn(model(x), y)
        if loss.requires_grad:
            loss.backward()
        for handle in handles:
            handle.remove()
        return calls

    def hooks_of(module):
        """The dicts that hold the hooks of a module and of its own parameters."""
        kinds = (
            "_forward_pre_hooks",
            "_forward_hooks",
            "_backward_pre_hooks",
            "_backward_hooks",
        )
        found = [getattr(module, kind) for kind in kinds]
        for parameter in module.parameters(recurse=False):
            found += [
                parameter._backward_hooks or {},
                parameter._post_accumulate_grad_hooks or {},
            ]
        return found

    def gradients_without_hooks_of(name):
        model = make()
        for hooks in hooks_of(model.get_submodule(name)):
            hooks.clear()
        one_pass(model)
        return [parameter.grad for parameter in model.parameters()]

    def outputs_of(name, training):
        model, outputs = make(), []
        module = model.get_submodule(name)
        module.training = training
        module.register_forward_hook(
            lambda module, args, output: outputs.append(output.detach().clone())
        )
        one_pass(model)
        return outputs

    def equal(a, b):
        return (
            a is b
            if a is None or b is None
            else torch.allclose(a, b, rtol=1e-3, atol=0)
        )

    def rms(t):
        return t.double().square().mean().sqrt().item()

    def named():
        model = make()
        modules = dict(model.named_modules())
        calls = one_pass(model)
        called = [name for name, _ in calls]
        for name, output in calls:
            if not output.isfinite().all():
                return "nan", name
        grads = [parameter.grad for parameter in model.parameters()]
        for name, module in make().named_modules():
            if any(hooks_of(module)) and not all(
                map(equal, grads, gradients_without_hooks_of(name))
            ):
                return "hook", name
        for name, module in modules.items():
            if module.training or list(module.children()):
                continue
            if not all(
                map(torch.equal, outputs_of(name, True), outputs_of(name, False))
            ):
                return "mode", name

        own = {
            name: list(module.parameters(recurse=False))
            for name, module in modules.items()
        }
        own = {name: parameters for name, parameters in own.items() if parameters}
        without = [
            name
            for name in own
            if all(parameter.grad is None for parameter in own[name])
        ]
        for name in without:
            if name not in called:
                return "unused", name
        for name in own:
            if not any(parameter.requires_grad for parameter in own[name]):
                return "frozen", name
        for name in reversed(called):
            if name in without:
                return "cut", name

        arriving = [
            (name, rms(output.grad))
            for name, output in reversed(calls)
            if output.grad is not None
        ]
        last = arriving[0][1]
        for name, size in arriving:
            if size > 10_000 * last:
                return "exploding", name
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= lr * parameter.grad
        for outputs in (calls, one_pass(model)):
            relus = [
                (name, (output == 0).all(0))
                for name, output in outputs
                if isinstance(modules[name], nn.ReLU)
            ]
            for name, _ in relus:
                silent = torch.stack(
                    [channels for other, channels in relus if other == name]
                ).all(0)
                if silent.float().mean() > 0.5:
                    return "dead", name
        for name, size in arriving:
            if size < last / 10_000:
                return "vanishing", name
        return "healthy", None

    try:
        return named()
    finally:
        torch.set_rng_state(random)
    ### END SOLUTION


# %% [markdown]
# ## The page to keep
#
# | symptom | hook | look at | lesson |
# |---|---|---|---|
# | the loss lies at the blind loss | a forward hook on each ReLU | channels that are 0 for every input | 5, 9 |
# | the loss lies at the blind loss, in a deep net | a forward hook, and in it a tensor hook on the output | RMS of the gradient at each call, on a logarithmic axis: it shrinks | 2, 5 |
# | the loss jumps or overflows | a forward hook, and in it a tensor hook on the output | RMS of the gradient at each call: it grows | 2, 4 |
# | the loss falls too slowly | none: read `.grad` after `backward()` | `None`: frozen, unused, or cut | 1 |
# | the loss falls too slowly, and `.grad` is `None` | a forward hook and a tensor hook on each layer | called, and no gradient arrives: the cut comes right after | 2, 5 |
# | the loss falls too slowly, and all gradients are there | none: compare with a copy that has no hooks | the ratio of the two gradients | 3, 11 |
# | good in training, bad in validation, or the reverse | a forward hook on each layer with a mode | its output in both modes | 5, 6 |
# | NaN | a forward pre-hook and a forward hook on each leaf, at the first bad step | finite in, not finite out | 11 |
# | NaN in the backward pass only | `torch.autograd.detect_anomaly()` | the function that it names | 11 |
#
# And four habits:
#
# - **Look before the first step**, too. What is wrong at step 0 is easier to see than at step 10000.
# - **Compare with something**: a healthy run, the same net without hooks, the other mode, the layer before.
# - **Change nothing by looking.** Take your hooks off, put gradients and modes back. A tool that changes the run finds
#   its own faults.
# - **Mend one thing, and run again.** A broken run may be broken twice.
#
# Next: lesson 14, the last one. There nothing is broken: hooks show how a transformer finds its answer.

# %%
progress()
assert causes == {
    name: diagnose(new, far_points if name == "E" else points, labels, loss_fn, 0.02)[0]
    for name, new in {
        **make,
        "A": lambda: copy.deepcopy(net_a),
        "F": lambda: copy.deepcopy(net_f),
    }.items()
}
