# %% [markdown]
# # Lesson 13. Broken runs: which layer, and why?
#
# **The question.** The loss does not fall, and nothing raises an error. Which layer is it, and why?
#
# **The goal.** You can find the layer where a broken run goes wrong, with the hooks of the lessons before, and say why.
#
# This is the last lesson, and the hardest. It has no new tool. It has six runs that do not learn, each broken in a way
# that people really ship. As always: write down what you predict, run the cell, then read on.

# %%
import copy
import math

import torch
from torch import nn

from graders import check, hint, progress, solution
from graders.figures import BACKWARD, FORWARD, INK, QUIET, arrow, caption, card, node, show

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


def train(model, lr=0.2, steps=150, inputs=points):
    """The loss at each step of SGD with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = loss_fn(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))


healthy = train(small_net())
share = labels.mean()
guess = -(share * share.log() + (1 - share) * (1 - share).log()).item()
print(f"first loss {healthy[0]:.3f}, last loss {healthy[-1]:.3f}")
print(f"{share:.0%} of the labels are 1; who always answers with this share has the loss {guess:.3f}")
assert healthy[-1] < 0.1 < guess

# %% [markdown]
# Remember the last number: a net whose output **ignores its input** gets no further than that.
#
# The next cell breaks six runs, A to F. Its code is folded away, so that you can guess what is wrong. Run it, and open
# it later: each run has its section below.


# %% tags=["spoiler"]
def deep_net():
    torch.manual_seed(0)
    layers = [nn.Linear(2, 32), nn.Tanh()]
    for _ in range(10):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, 1))


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
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
    return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), shares, nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))


far_points = points + 10
net_a, net_b, net_c, net_d = small_net(), deep_net(), TwoParts(), hooked_net()
net_e = scaled_net().eval()  # the last thing that ran before was the validation
net_f = share_net(Share())
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


# %% tags=["figure"]
def curve(axes, losses, left, bottom, width, height, colour, limit=1.0):
    """A loss curve in a rectangle of a card. It ends with a cross at the first NaN."""
    there = losses[: next((i for i, loss in enumerate(losses) if math.isnan(loss)), len(losses))]
    x = [left + width * i / (len(losses) - 1) for i in range(len(there))]
    y = [bottom + height * min(loss, limit) / limit for loss in there]
    axes.plot(x, y, color=colour, linewidth=1.6)
    if len(there) < len(losses):
        axes.plot(x[-1:], y[-1:], "x", color=colour, markersize=8, markeredgewidth=2)


def frame(axes, left, bottom, width, height, limit=1.0):
    """Two axes, and a dashed line at the loss of a guess."""
    axes.plot([left, left, left + width], [bottom + height, bottom, bottom], color=QUIET, linewidth=0.8)
    level = bottom + height * guess / limit
    axes.plot([left, left + width], [level, level], color=QUIET, linewidth=0.8, linestyle="--")


def before_and_after(axes, before, after, left=5.45, bottom=0.55, width=2.4, height=1.5):
    """Two curves in the right part of a card, with their names."""
    frame(axes, left, bottom, width, height)
    curve(axes, before, left, bottom, width, height, BACKWARD)
    curve(axes, after, left, bottom, width, height, FORWARD)
    caption(axes, left, bottom + height + 0.22, "loss before", colour=BACKWARD, size=9.5)
    caption(axes, left + 1.15, bottom + height + 0.22, "and after", colour=FORWARD, size=9.5)
    caption(axes, left + width / 2, bottom - 0.2, f"{len(before)} steps", colour=QUIET, size=9, align="center")


figure, axes = card(8.2, 4.1)
caption(axes, 0.4, 3.8, "The loss of six runs in 150 steps (orange), and of a healthy one (blue)", size=11)
for index, (name, losses) in enumerate(runs.items()):
    left, bottom = 0.5 + 2.6 * (index % 3), 2.15 - 1.75 * (index // 3)
    frame(axes, left, bottom, 2.1, 1.2)
    curve(axes, healthy, left, bottom, 2.1, 1.2, FORWARD)
    curve(axes, losses, left, bottom, 2.1, 1.2, BACKWARD)
    caption(axes, left + 1.9, bottom + 1.1, name, size=11)
caption(axes, 0.5, 0.17, "dashed: the loss of a guess", colour=QUIET, size=9)
show(
    figure,
    "Loss curves of six runs over 150 steps. The healthy run falls to almost 0. A swings wildly and then lies on the "
    "dashed line, the loss of a guess. B and E lie on it almost from the start. C and D fall slowly. F falls a little "
    "and ends at a NaN.",
)

# %% [markdown]
# **Predict.** What is wrong with each? Write down a guess for A to F before you go on.
#
# Six causes, and the curves say little: flat, flat, slow, slow, flat, gone. A loss is one number at the end of
# the net. The cause sits somewhere inside it.
#
# ## Run A: dead channels
#
# The curve swings, then lies at the loss of a guess: the output ignores the input. A hook on each ReLU tells where the
# input is lost (lesson 5). A **channel** of a layer is dead when it is 0 for every input.
#
# **Predict.** The first ReLU has 32 channels, and so has the second. In how many of them does the ReLU output only
# zeros, in a fresh net, and after run A?


# %%
def fired(model, x):
    """For each ReLU of a Sequential, by name: which channels are above 0 for some input."""
    found = {}

    def watch(name):
        def hook(module, args, output):
            found[name] = (output.detach() != 0).any(0)

        return hook

    handles = [m.register_forward_hook(watch(name)) for name, m in model.named_modules() if isinstance(m, nn.ReLU)]
    model(x)
    for handle in handles:
        handle.remove()
    return found


fresh, after_a = fired(small_net(), points), fired(net_a, points)
for when, found in (("fresh net", fresh), ("after run A", after_a)):
    print(when, {name: f"{(~channels).sum()} of 32 dead" for name, channels in found.items()})
assert (~fresh["3"]).sum() < 8 and not after_a["3"].any()

# %% [markdown]
# The second ReLU is dead as a whole. The step was too large: it threw the parameters to where no input brings one of
# these channels above 0. And a layer that is dead as a whole stays dead: its slope is 0 everywhere, so **no gradient
# comes through** to the layers before it.

# %%
net_a.zero_grad()
loss_fn(net_a(points), labels).backward()
print({name: p.grad.abs().max().item() for name, p in net_a.named_parameters()})
assert all(p.grad.abs().max() == 0 for p in net_a[:3].parameters())

# %% [markdown]
# The fix: a smaller step, from fresh weights. (A warm-up, smaller initial biases, or a leaky ReLU help as well.)

# %%
fixed = train(small_net(), lr=0.2)
print(f"lr=5: {runs['A'][-1]:.3f}   lr=0.2: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run A: channels that fire (blue) and dead ones (orange)", size=11)
for row, (when, found) in enumerate((("fresh", fresh), ("after", after_a))):
    for column, (name, channels) in enumerate(found.items()):
        for k, alive in enumerate(channels.tolist()):
            x, y = 1.2 + 1.95 * column + 0.2 * (k % 8), 1.9 - 0.85 * row - 0.17 * (k // 8)
            axes.plot([x], [y], "s", color=FORWARD if alive else BACKWARD, markersize=7)
        caption(axes, 1.9 + 1.95 * column, 0.2, f'ReLU "{name}"', align="center", size=9)
    caption(axes, 0.4, 1.65 - 0.85 * row, when, size=9.5)
before_and_after(axes, runs["A"], fixed)
show(
    figure,
    f"32 squares for each of two ReLUs. In a fresh net {int((~fresh['1']).sum())} and {int((~fresh['3']).sum())} are "
    f"dead; after run A {int((~after_a['1']).sum())} and {int((~after_a['3']).sum())}. With a smaller step the loss "
    f"falls to {fixed[-1]:.2f}; before it stayed at {runs['A'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise the model may be any: convolutions with channels in dimension 1, ReLUs called twice, several batches.
# It may also raise an exception. The cells above take their hooks off only when all goes well; your function does it in
# `finally` (lesson 11). It may call functions of other cells of this notebook, also those of your other answers.


# %% exercise="13-dead-channels"
def dead_channels(model, batches):
    """For each ReLU with dead channels its name and these channels: 0 for every input of every batch."""
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
    dead = {name: (~channels).nonzero().flatten().tolist() for name, channels in alive.items()}
    return {name: channels for name, channels in dead.items() if channels}
    ### END SOLUTION


# %% [markdown]
# ## Run B: what each layer outputs, and what comes back
#
# Run B has eleven `tanh` layers, and its curve lies at the loss of a guess, too. But no channel is dead in a `tanh`.
# So measure both directions: how large is what each layer outputs, and how large is the gradient that arrives there?
# The size of a tensor is its **RMS**, the root of the mean of the squares: it does not depend on the number of entries.
#
# A forward hook sees the output. A *tensor hook* that it registers on this output (lesson 2) sees the gradient.
#
# **Predict.** By which factor does the gradient shrink from the last `tanh` to the first?


# %%
def rms(t):
    return t.detach().square().mean().sqrt().item()


def signals(model, x, kind):
    """[RMS of the output, RMS of the gradient that arrives there] for each call of a module of this kind, in order."""
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


def wider(net):
    """The same net with larger first weights: each tanh makes a signal smaller, and the layer before it makes up for it."""
    gain = nn.init.calculate_gain("tanh")
    for module in net:
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight, gain=gain if module.out_features > 1 else 1)
            nn.init.zeros_(module.bias)
    return net


torch.manual_seed(0)
narrow_rows, wide_rows = signals(deep_net(), points, nn.Tanh), signals(wider(deep_net()), points, nn.Tanh)
for label, rows in (("as it was", narrow_rows), ("wider", wide_rows)):
    print(f"{label:10} output: first {rows[0][0]:.1e}, last {rows[-1][0]:.1e}", end="   ")
    print(f"gradient: first {rows[0][1]:.1e}, last {rows[-1][1]:.1e}")
assert narrow_rows[0][1] < 0.01 * narrow_rows[-1][1] and wide_rows[0][1] > 0.1 * wide_rows[-1][1]

# %% [markdown]
# The gradient **vanishes** on its way back: each layer makes it smaller by a similar factor, and eleven factors below 1
# are next to nothing. The first layers do not learn. The picture needs a **logarithmic** axis: a factor at each layer
# is a straight line there.
#
# The fix: first weights that keep the size. (Or a residual connection around each layer, or a norm.)

# %%
fixed = train(wider(deep_net()), lr=0.02)
print(f"before: {runs['B'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.3

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run B: RMS of the gradient at each tanh, before the first step", size=11)
for power in (-2, -4, -6, -8):
    y = 0.55 + 1.5 * (power + 8.5) / 7
    axes.plot([1.0, 4.9], [y, y], color=QUIET, linewidth=0.4)
    caption(axes, 0.9, y, f"1e{power}", colour=QUIET, size=8.5, align="right")
for rows, colour, label in ((narrow_rows, BACKWARD, "as it was"), (wide_rows, FORWARD, "wider")):
    x = [1.2 + 0.35 * i for i in range(len(rows))]
    y = [0.55 + 1.5 * (math.log10(row[1]) + 8.5) / 7 for row in rows]
    axes.plot(x, y, "o-", color=colour, markersize=4, linewidth=1.4)
    caption(axes, 1.2, y[0] + (0.18 if colour == FORWARD else 0.3), label, colour=colour, size=9.5)
caption(axes, 1.2, 0.35, "first", colour=QUIET, size=9, align="center")
caption(axes, 4.7, 0.35, "last", colour=QUIET, size=9, align="center")
before_and_after(axes, runs["B"], fixed)
show(
    figure,
    f"On a logarithmic axis, the RMS of the gradient at eleven tanh layers. As it was, it falls in a straight line "
    f"from {narrow_rows[-1][1]:.0e} at the last to {narrow_rows[0][1]:.0e} at the first. With wider weights it stays "
    f"between {min(r[1] for r in wide_rows):.0e} and {max(r[1] for r in wide_rows):.0e}. After the fix the loss falls "
    f"to {fixed[-1]:.2f}.",
)

# %% [markdown]
# The opposite has the same cause. A recurrent net calls **one** layer many times, and each call multiplies the gradient.
#
# **Predict.** The layer below multiplies by 1.3, and a loop calls it 30 times. How large is the gradient at the first
# call, if it is 1 at the last?

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
assert arrived[0] == 1 and math.isclose(arrived[-1], 1.3**29, rel_tol=1e-4)

# %% [markdown]
# 1.3 to the power of 29: it **explodes**. With 0.7 it would vanish. One entry for each *call* shows it; one for each
# *module* would hide it. What helps is to clip the gradients (lesson 4), or a layer with gates, such as an LSTM.


# %% exercise="13-signal-report"
def signal_report(model, loss_fn, x):
    """For each call of a leaf: its name, the RMS of its output, the RMS of the gradient that arrives there."""
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
            tensors = [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]
            count, arrived = sum(t.numel() for t in tensors), []
            for t in tensors:
                if t.requires_grad:
                    handles.append(t.register_hook(lambda grad: arrived.append(square_sum(grad))))
            calls.append((name, rms([square_sum(t) for t in tensors], count), arrived, count))

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
    return [(name, output, rms(arrived, count)) for name, output, arrived, count in calls]
    ### END SOLUTION


# %% [markdown]
# ## Run C: a parameter without a gradient
#
# Run C learns, slowly. Nothing is dead or tiny. The first thing to ask of a slow run: **do all parameters get a
# gradient?** The optimizer does not complain when one does not: it leaves out every parameter whose `.grad` is `None`.
#
# **Predict.** Look at `TwoParts` above. For which parameters is `.grad` `None` after `backward()`?

# %%
net_c.zero_grad()
loss_fn(net_c(points), labels).backward()
size_of_grad = {name: None if p.grad is None else rms(p.grad) for name, p in net_c.named_parameters()}
print(size_of_grad)
assert all((size is None) == name.startswith("features") for name, size in size_of_grad.items())

# %% [markdown]
# All of `features`. But why? `None` has several causes, and they need different fixes. Hooks tell them apart:
#
# | a parameter gets nothing, and … | cause | what you see |
# |---|---|---|
# | its `requires_grad` is `False` | it is **frozen** | no hook needed (lesson 1) |
# | its module is **never called** | it is registered, but unused | a forward hook that never fires (lesson 5) |
# | its module is called, and no gradient arrives at the output | the graph is **cut** after it | a tensor hook that never fires (lesson 2) |
# | a gradient arrives, and comes out as 0 | a **zero** on the way: a dead ReLU, a factor 0 | a tensor hook that gets zeros |

# %%
for name, module in net_c.named_modules():
    if not list(module.children()):
        events = []

        def hook(module, args, output, events=events):
            events.append("called")
            assert output.requires_grad  # a tensor without a graph takes no hook
            output.register_hook(lambda grad: events.append("gradient arrived"))

        with module.register_forward_hook(hook):
            loss_fn(net_c(points), labels).backward()
        print(f"{name:12}", events)
        assert events == ["called"] + ["gradient arrived"] * (name == "head")

# %% [markdown]
# `features.3` is called, its output has a graph, and no gradient arrives: the graph is cut after it. There stands the
# line `h = h.detach()`, which was meant for a log. A `no_grad` block cuts as well, and so does every way through a
# number or an array, such as `.item()`.

# %%
w = torch.ones(1, requires_grad=True)
with torch.no_grad():
    in_block = 2 * w
print((2 * w).requires_grad, in_block.requires_grad, torch.tensor((2 * w).item()).requires_grad)
assert (2 * w).requires_grad and not in_block.requires_grad and not torch.tensor((2 * w).item()).requires_grad


# %%
class Mended(TwoParts):
    def forward(self, x):
        h = self.features(x)
        self.log = [h.detach().mean()]  # only the log is cut off
        return self.head(h)


fixed = train(Mended())
print(f"before: {runs['C'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1 < runs["C"][-1]

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run C: where the gradient arrives", size=11)
for x, label, name in ((0.95, "features", "features.2.weight"), (2.6, "detach", None), (4.15, "head", "head.weight")):
    below = "" if name is None else "no gradient" if size_of_grad[name] is None else f"RMS {size_of_grad[name]:.0e}"
    node(axes, x, 1.35, label, kind="loss" if name is None else "non-leaf", below=below, width=1.05)
for start, end in ((1.55, 2.0), (3.2, 3.55)):
    arrow(axes, (start, 1.45), (end, 1.45))
arrow(axes, (5.2, 1.2), (4.72, 1.2), backward=True)
arrow(axes, (3.55, 1.2), (3.2, 1.2), backward=True)
axes.plot([1.72, 1.88], [1.12, 1.28], color=BACKWARD, linewidth=2)
axes.plot([1.72, 1.88], [1.28, 1.12], color=BACKWARD, linewidth=2)
before_and_after(axes, runs["C"], fixed)
show(
    figure,
    "The values go from features through detach to head. The gradient arrives at head, and ends at detach: features "
    f"gets none. Without the detach the loss falls to {fixed[-1]:.2f}; before it was {runs['C'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise, find the cause for each parameter.


# %% exercise="13-why-no-gradient"
def why_no_gradient(model, loss_fn, x):
    """For each parameter that gets no gradient, or one of zeros, why: frozen, zero, never called or cut."""
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
            gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)

    reasons = {name: "frozen" for name, p in model.named_parameters() if not p.requires_grad}
    for (name, p), gradient in zip(trained.items(), gradients):
        if gradient is None:
            reasons[name] = "cut" if p in called else "never called"
        elif not gradient.any():
            reasons[name] = "zero"
    return reasons
    ### END SOLUTION


# %% [markdown]
# ## Run D: a hook from an earlier experiment
#
# Run D is slow, like C. But here each parameter has a gradient, none is 0, and the signals look much like those of a
# healthy net. What is wrong with a gradient that looks right? **Compare it with what it should be.**
#
# `copy.deepcopy` copies the hooks of modules, and drops those of parameters (lesson 11). Here that helps.
#
# **Predict.** The model and its copy have the same weights. By what do their gradients differ?


# %%
def gradients(model):
    model.zero_grad()
    loss_fn(model(points), labels).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


net_d = hooked_net()
with_hooks, without = gradients(net_d), gradients(copy.deepcopy(net_d))
ratios = {name: (with_hooks[name].norm() / without[name].norm()).item() for name in without}
print({name: round(ratio, 4) for name, ratio in ratios.items()})
assert all(abs(ratio - (0.01 if name[0] in "02" else 1)) < 1e-4 for name, ratio in ratios.items())

# %% [markdown]
# The parameters of the layers `0` and `2` get a hundredth. A hook scales them, which somebody registered and whose
# handle nobody kept (lesson 11). The fix here: build the model anew, without that cell.

# %%
fixed = train(copy.deepcopy(net_d))
print(f"before: {runs['D'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1 < runs["D"][-1]

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run D: gradient with all hooks, as a share of what it is without", size=11)
for index, (name, ratio) in enumerate(ratios.items()):
    y = 1.9 - 0.28 * index
    caption(axes, 1.3, y, name, size=9.5, align="right")
    axes.barh(y, 2.6 * ratio, left=1.45, height=0.17, color=BACKWARD if ratio < 0.5 else FORWARD)
    caption(axes, 1.55 + 2.6 * ratio, y, f"{ratio:.2f}", size=9)
before_and_after(axes, runs["D"], fixed)
show(
    figure,
    "Bars for six parameters. The weight and bias of the layers 0 and 2 get 0.01 of their gradient, those of layer 4 "
    f"all of it. Without the hooks the loss falls to {fixed[-1]:.2f}; before it was {runs['D'][-1]:.2f}.",
)

# %% [markdown]
# A copy does not lose the hooks of *modules*. In the exercise you have to switch off all kinds of them, and to put them
# back as they were.


# %% exercise="13-changed-by-hooks"
def changed_by_hooks(model, loss_fn, x):
    """The names of the parameters whose gradient is another one than it would be without the model's hooks."""
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
    return [name for name, before, now in zip(names, plain, hooked) if not same(before, now)]
    ### END SOLUTION


# %% [markdown]
# ## Run E: the wrong mode
#
# The points of run E lie around 10 and not around 0, and a BatchNorm is there to put that right. Still the curve lies
# at the loss of a guess. A hook on the BatchNorm says what it does.
#
# **Predict.** In training mode, what are the mean and the standard deviation of its output? And what are they in run E?

# %%
seen = {}
net_e = scaled_net()
for mode in ("train", "eval"):
    net_e.train(mode == "train")
    twin = copy.deepcopy(net_e)  # in training mode, each run changes the running statistics

    def hook(module, args, output, mode=mode):
        seen[mode] = [output.mean().item(), output.std().item()]

    with twin[0].register_forward_hook(hook), torch.no_grad():
        twin(far_points)
    print(f"{mode:6} mean {seen[mode][0]:6.2f}   standard deviation {seen[mode][1]:.2f}")
assert abs(seen["train"][0]) < 0.01 and abs(seen["train"][1] - 1) < 0.01 and seen["eval"][0] > 9
assert (net_e[0].running_mean == 0).all() and (net_e[0].running_var == 1).all()

# %% [markdown]
# In eval mode it uses its running mean and variance, and these are still 0 and 1, as at the start: it hands on what it
# gets, but for a trace of its `eps`. Somebody called `model.eval()` for a validation, and nobody called `model.train()`
# afterwards.
#
# A mode can also be wrong in a *part*: `model.train()` in the loop sets a frozen BatchNorm back to training, and a
# Dropout that stays on makes a validation look bad. `module.training` tells the mode; **whether it matters, only the
# output tells**.

# %%
fixed = train(scaled_net().train(), inputs=far_points)
print(f"before: {runs['E'][-1]:.3f}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.1 < runs["E"][-1]

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, "Run E: mean and deviation of what the BatchNorm outputs", size=11)
for y, mode, colour in ((1.5, "eval", BACKWARD), (0.95, "train", FORWARD)):
    mean, deviation = seen[mode]
    caption(axes, 0.4, y, f"{mode}()", colour=colour, size=9.5)
    left, right = (1.5 + 0.28 * (mean + sign * deviation) for sign in (-1, 1))
    axes.plot([left, right], [y, y], color=colour, linewidth=5)
    axes.plot([(left + right) / 2], [y], "|", color=INK, markersize=13)
axes.plot([1.1, 4.9], [0.6, 0.6], color=QUIET, linewidth=0.8)
for value in (0, 5, 10):
    caption(axes, 1.5 + 0.28 * value, 0.42, str(value), colour=QUIET, size=9, align="center")
before_and_after(axes, runs["E"], fixed)
show(
    figure,
    f"In eval mode the output of the BatchNorm lies around {seen['eval'][0]:.1f}, with a deviation of "
    f"{seen['eval'][1]:.2f}; in training mode around 0 with a deviation of 1. In training mode the loss falls to "
    f"{fixed[-1]:.2f}; before it ended at {runs['E'][-1]:.2f}.",
)

# %% [markdown]
# In the exercise, classes and their names say nothing: find the modules whose mode matters by what they do.


# %% exercise="13-wrong-mode"
def wrong_mode(model, x):
    """Names of the modules that are not in the mode of the model although their mode matters for model(x)."""
    ### BEGIN SOLUTION
    names = {module: name for name, module in model.named_modules() if module.training != model.training}
    found, busy = set(), []

    def state():
        return torch.get_rng_state(), [(buffer, buffer.clone()) for buffer in model.buffers()]

    def put_back(random, buffers):
        torch.set_rng_state(random)
        for buffer, old in buffers:
            buffer.copy_(old)

    def copied(values):
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]

    def tensors(output):
        values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
        return [value for value in copied(values) if isinstance(value, torch.Tensor)]

    def before(module, args, kwargs):
        if busy:  # a call inside of one of our own
            return
        now, mode, outputs = state(), module.training, []
        busy.append(module)
        try:
            for module.training in (True, False):
                put_back(*now)
                outputs.append(tensors(module.forward(*copied(args), **dict(zip(kwargs, copied(kwargs.values()))))))
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
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            model(x)
        finally:
            for handle in handles:
                handle.remove()
            put_back(*at_first)
    return [name for module, name in names.items() if module in found]
    ### END SOLUTION


# %% [markdown]
# ## Run F: a NaN, and a whole diagnosis
#
# Run F learns for some steps, and then its loss is NaN for ever. Two steps with this loss, and there are NaN in every
# parameter: the gradients have spread them. So stop **before the first bad step**, and look there.
#
# **Predict.** The loss is NaN when a single number on the way is. Which share of the numbers that each layer outputs is
# still finite in the first bad run?

# %%
bad = next(step for step, loss in enumerate(runs["F"]) if math.isnan(loss))
net_f = share_net(Share())
train(net_f, steps=bad)  # up to, and not including, the step with the first NaN
assert all(p.isfinite().all() for p in net_f.parameters())
too_late = share_net(Share())
train(too_late, steps=bad + 2)
assert all(p.isnan().any() for p in too_late.parameters())

finite, handles = {}, []
for name, module in net_f.named_children():
    label = f"{name} {type(module).__name__}"

    def hook(module, args, output, label=label):
        finite[label] = output.isfinite().float().mean().item()

    handles.append(module.register_forward_hook(hook))
net_f(points)
for handle in handles:
    handle.remove()
print("first bad step:", bad)
for label, part in finite.items():
    print(f"{label:10} {part:.1%} finite")
parts = list(finite.values())
assert parts[:2] == [1, 1] and parts[2] < 1 and 20 <= bad < 150

# %% [markdown]
# `Share` is to blame: what goes in is finite, and what comes out is not (lesson 11). For some point all six channels of
# the ReLU are 0, and 0 / 0 is NaN. The layers after it are victims, and so is the loss.
#
# The fix: a denominator that stays away from 0. Adding a tiny number, 1e-6 say, stops the NaN and leaves a trap: at such
# a point, a gradient becomes a million times as large on its way back through `Share`. Here the ReLU before it is 0 and
# lets nothing through; after another layer, one step could throw the weights far away. So add 1.


# %%
class SafeShare(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def forward(self, x):
        return x / (x.sum(1, keepdim=True) + self.extra)


for extra in (1e-6, 1.0):
    z = torch.full((1, 6), -2.0, requires_grad=True)
    h = torch.relu(z)
    h.retain_grad()
    SafeShare(extra)(h)[0, 0].backward()
    print(f"+ {extra:g}: a gradient of 1 becomes {h.grad[0, 0]:g}, and {z.grad[0, 0]:g} before the ReLU")
    assert math.isclose(h.grad[0, 0], 1 / extra, rel_tol=1e-5) and not z.grad.any()
fixed = train(share_net(SafeShare(1.0)))
print(f"before: {runs['F'][-1]}   after: {fixed[-1]:.3f}")
assert fixed[-1] < 0.3

# %% tags=["figure"]
figure, axes = card(8.2, 2.6)
caption(axes, 0.4, 2.3, f"Run F, step {bad}: share of finite numbers at each layer", size=11)
for index, (label, part) in enumerate(finite.items()):
    y = 1.9 - 0.28 * index
    caption(axes, 1.3, y, label, size=9.5, align="right")
    axes.barh(y, 2.6 * part, left=1.45, height=0.17, color=FORWARD if part == 1 else BACKWARD)
    caption(axes, 1.55 + 2.6 * part, y, f"{part:.1%}", size=9)
before_and_after(axes, runs["F"], fixed)
show(
    figure,
    "Share of finite numbers: "
    + ", ".join(f"{label} {part:.1%}" for label, part in finite.items())
    + f". Before, the curve ends with a NaN at step {bad}; after the fix the loss falls to {fixed[-1]:.2f}.",
)

# %% [markdown]
# Now the other way round. You do not know what is wrong, so you need an **order of questions**. A good one asks first
# what would spoil the other answers:
#
# 1. Is a number not finite? Then sizes mean nothing.
# 2. Is a hook there that changes gradients? Then gradients mean nothing.
# 3. Is a module in a mode in which it should not be? Then it computes something else than you think.
# 4. Is every parameter used, not frozen, and reached by a gradient?
# 5. Does the gradient grow from layer to layer, on its way back?
# 6. Is a ReLU dead, at the start or after a step?
# 7. Does the gradient shrink on its way back?
#
# And name the layer where it **starts**: the first NaN in the forward pass, the last layer before the cut.


# %% exercise="13-diagnose"
def diagnose(make, x, y, loss_fn, lr):
    """What is wrong with the models that make() returns, and the name of the module where it starts."""
    ### BEGIN SOLUTION
    x, y, random = x.detach(), y.detach(), torch.get_rng_state()

    def one_pass(model):
        """The outputs of leaves in the order of their calls; `.grad` of each is what arrives there."""
        calls, names = [], {module: name for name, module in model.named_modules()}

        def keep(module, args, output):
            if output.requires_grad:
                output.retain_grad()
            calls.append((names[module], output))

        handles = [module.register_forward_hook(keep) for module in names if not list(module.children())]
        torch.set_rng_state(random)
        loss = loss_fn(model(x), y)
        if loss.requires_grad:
            loss.backward()
        for handle in handles:
            handle.remove()
        return calls

    def hooks_of(module):
        """The dicts that hold the hooks of a module and of its own parameters."""
        kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
        found = [getattr(module, kind) for kind in kinds]
        return found + [parameter._backward_hooks or {} for parameter in module.parameters(recurse=False)]

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
        module.register_forward_hook(lambda module, args, output: outputs.append(output.detach().clone()))
        one_pass(model)
        return outputs

    def equal(a, b):
        return a is b if a is None or b is None else torch.allclose(a, b, rtol=1e-3, atol=0)

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
            if any(hooks_of(module)) and not all(map(equal, grads, gradients_without_hooks_of(name))):
                return "hook", name
        for name, module in modules.items():
            if not module.training and not all(map(torch.equal, outputs_of(name, True), outputs_of(name, False))):
                return "mode", name

        own = {name: list(module.parameters(recurse=False)) for name, module in modules.items()}
        own = {name: parameters for name, parameters in own.items() if parameters}
        without = [name for name in own if all(parameter.grad is None for parameter in own[name])]
        for name in without:
            if name not in called:
                return "unused", name
        for name in own:
            if not any(parameter.requires_grad for parameter in own[name]):
                return "frozen", name
        for name in reversed(called):
            if name in without:
                return "cut", name

        arriving = [(name, rms(output.grad)) for name, output in reversed(calls) if output.grad is not None]
        last = arriving[0][1]
        for name, size in arriving:
            if size > 10_000 * last:
                return "exploding", name
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= lr * parameter.grad
        for outputs in (calls, one_pass(model)):
            for name, output in outputs:
                if isinstance(modules[name], nn.ReLU) and (output == 0).all(0).float().mean() > 0.5:
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
# | the loss lies at the loss of a guess | a forward hook on each ReLU | channels that are 0 for every input | 5, 9 |
# | the loss lies at the loss of a guess, in a deep net | a forward hook, and in it a tensor hook on the output | RMS of the gradient at each call, on a logarithmic axis: it shrinks | 2, 5 |
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
# This was the last lesson. You know now what a value and a gradient go through on their way. Go and look.

# %%
progress()
