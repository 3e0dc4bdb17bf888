# %% [markdown]
# # Lesson 0. Three hooks in ten minutes
#
# **The question.** What happens inside a model while it runs?
#
# A **hook** is a function of yours that PyTorch calls at a certain moment, for example when a layer has computed its
# output. Here are three, on a small model that looks at a drawing and says whether it shows a circle, a square
# or a triangle. Run one cell after the other, with Shift+Enter.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import BACKWARD, CARD, FORWARD, INK, QUIET, show
from graders.nets import CLASSES, draw_shapes, shapes_net

# a small model is fastest on one thread, above all on a busy machine
torch.set_num_threads(1)

model = shapes_net()
image, _, box = draw_shapes(1, seed=843)
answer = model(image).softmax(1)[0]
print(CLASSES[answer.argmax()])
assert CLASSES == ("circle", "square", "triangle") and [
    f"{share:.0%}" for share in answer
] == ["0%", "0%", "100%"]

# %% tags=["figure"]
x0, y0, x1, y1 = box[0].tolist()


def drawing_and(*answers):
    """The drawing, and beside it an answer or two, each with a title."""
    width = 2.3 + 2.95 * len(answers)
    figure = Figure(figsize=(width, 2.0), facecolor=CARD)
    axes = figure.add_axes((0.25 / width, 0.08, 1.68 / width, 0.84))
    axes.imshow(image[0].permute(1, 2, 0))
    axes.set(xticks=[], yticks=[])
    for number, (title, shares) in enumerate(answers):
        axes = figure.add_axes(
            ((2.9 + 2.95 * number) / width, 0.1, 2.3 / width, 0.66), facecolor=CARD
        )
        axes.barh(
            CLASSES,
            shares,
            color=[FORWARD if share == max(shares) else QUIET for share in shares],
            height=0.6,
        )
        for place, share in enumerate(shares):
            axes.text(
                share + 0.03, place, f"{share:.0%}", va="center", fontsize=10, color=INK
            )
        axes.set(xlim=(0, 1.4), ylim=(2.5, -0.5), xticks=[])
        axes.set_title(title, fontsize=11, color=INK, loc="left")
        axes.tick_params(length=0, labelsize=10.5, labelcolor=INK)
        axes.spines[:].set_visible(False)
    return figure


show(
    drawing_and(("What the model says", answer.tolist())),
    "A drawing of a lilac triangle on a purple ground. The model is sure: circle 0 %, "
    "square 0 %, triangle 100 %.",
)

# %% [markdown]
# ## Hook 1: the output of a layer
#
# What does the first layer make of this drawing? A **forward hook** can show us. PyTorch calls it with three things:
# the layer, what went in, and what came out.

# %%
layer = model.features[0]  # a convolution, batch norm and ReLU

kept = []
with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
    scores = model(image)

print(kept[0].shape)
assert kept[0].shape == (1, 16, 64, 64)
# the hook is gone, and changed nothing
assert not layer._forward_hooks and torch.equal(scores, model(image))

# %% [markdown]
# Three lines of code, and the model is unchanged. When the `with` block ends, the hook is gone. What it caught stays:
# `kept[0]` is the output itself. It has 16 channels, and each of them is a picture. Here is the part around the
# triangle: the larger the number, the brighter the pixel.

# %% tags=["figure"]
pictures = kept[0].detach()[0, :, y0 - 4 : y1 + 4, x0 - 4 : x1 + 4]
figure = Figure(figsize=(8.2, 2.6), facecolor=CARD)
for channel, picture in enumerate(pictures):
    row, column = divmod(channel, 8)
    axes = figure.add_axes((0.03 + 0.118 * column, 0.51 - 0.48 * row, 0.114, 0.36))
    axes.imshow(picture, cmap="gray", vmin=0, vmax=pictures.max())
    axes.set(xticks=[], yticks=[])
    axes.set_title(str(channel), fontsize=9, color=INK, pad=3)
show(
    figure,
    "Sixteen small gray pictures of the triangle, numbered 0 to 15. In channel 3 its "
    "two edges on the left are bright, in channel 12 the upper one of them, in "
    "channel 14 the edges on the right and at the bottom. In channels 7, 8, 9 and 11 "
    "the whole triangle is gray, in channel 0 a dark gray. The others are black, or "
    "almost.",
)
assert [k for k in range(16) if pictures[k].max() > 1.5] == [0, 3, 7, 8, 9, 11, 12, 14]
assert [k for k in range(16) if pictures[k].max() == pictures.max()] == [12]
assert (
    layer(torch.linspace(0.5, 1, 5)[:, None, None, None].expand(5, 3, 64, 64))[
        :, 9, 32, 32
    ].diff()
    > 0
).all()
assert all(  # an edge on the left, much more than one on the right
    layer(edge)[0, 3, 28:36, 28:36].max()
    > 10 * layer(edge.flip(3))[0, 3, 28:36, 28:36].max()
    for edge in [torch.cat([torch.zeros(1, 3, 64, 32), torch.ones(1, 3, 64, 32)], 3)]
)

# %% [markdown]
# Each channel has learned to look for something: channel 3 for edges on the left, channel 9 for bright areas. The black
# ones find nothing here.
#
# ## Hook 2: a gradient
#
# Which channels made the model say *triangle*? The gradient of the triangle's score says, for each number in these
# pictures, how fast the score grows with it. `backward()` computes this on its way to the weights, and throws it away.
# A **tensor hook**, registered on a tensor instead of on a layer, is called with the gradient, and can keep it.

# %%
arrived = []
kept[0].register_hook(arrived.append)
# 2 is the triangle; the graph stays, so you can run this again
scores[0, 2].backward(retain_graph=True)

print(arrived[0].shape)
assert (
    arrived[0].shape == kept[0].shape
    and not kept[0].retains_grad
    and model.fc.weight.grad is not None
)

# %% [markdown]
# What does a channel contribute? Imagine one of its numbers growing from 0 to its value. The gradient says how fast the
# score grows with it, so the number adds *number · gradient* (an estimate: the speed may change on the way). Added up
# channel by channel:

# %%
estimate = (kept[0] * arrived[0]).sum((0, 2, 3))
assert estimate.argmax() == 3 and estimate.argsort()[-2] == 9
assert {k: f"{v:.1f}" for k, v in enumerate(estimate) if v > 0.7} == {
    3: "5.2",
    8: "1.0",
    9: "3.3",
    11: "1.4",
}

# %% tags=["figure"]
brightest = pictures.max()


def channel_bars(values, colour, form, title):
    """A bar for each channel, above its picture."""
    figure = Figure(figsize=(8.2, 2.7), facecolor=CARD)
    axes = figure.add_axes((0.03, 0.31, 0.94, 0.55), facecolor=CARD)
    axes.bar(range(16), values, color=colour, width=0.7)
    for place, value in enumerate(values):
        label = form.format(value)
        if label.strip("-0.%"):  # no label where it would say 0
            axes.text(
                place,
                max(value, 0),
                label,
                ha="center",
                va="bottom",
                fontsize=9,
                color=INK,
            )
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(
        xlim=(-0.5, 15.5),
        ylim=(min(*values, 0), 1.15 * max(values)),
        xticks=[],
        yticks=[],
    )
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    axes.spines[:].set_visible(False)
    for channel, picture in enumerate(pictures):
        small = figure.add_axes(
            (0.03 + 0.94 * (channel + 0.06) / 16, 0.11, 0.94 * 0.88 / 16, 0.18)
        )
        small.imshow(picture, cmap="gray", vmin=0, vmax=brightest)
        small.set(xticks=[], yticks=[])
        small.set_xlabel(str(channel), fontsize=9, color=INK, labelpad=2)
    return figure


show(
    channel_bars(
        estimate.tolist(),
        BACKWARD,
        "{:.1f}",
        "What each channel adds to the triangle's score, estimated",
    ),
    "A bar for each of the 16 channels, above its picture. Channel 3, with the left "
    "edges, adds most, 5.2. Channel 9, with the whole triangle, follows with 3.3, "
    "channel 11 with 1.4 and channel 8 with 1.0. The others are below 0.7.",
)

# %% [markdown]
# ## Hook 3: a change
#
# Does the answer depend on channel 3? Switch it off and see. **What a forward hook returns takes the place of the
# output.** (Our first hook returned `None`, as `append` does. That changes nothing.)
#
# First ask the estimate. The model gives each answer a score, and says the one with the highest:

# %%
for name, score in zip(CLASSES, scores[0].tolist()):
    print(f"{name:9} {score:5.1f}")
assert [f"{score:.1f}" for score in scores[0].tolist()] == ["-9.2", "-1.0", "9.5"]

# %% [markdown]
# **Predict.** By the estimate, channel 3 adds 5.2 to the triangle's score, and less than 0.2 to the square's. By that
# arithmetic alone, which has the highest score without it: `"circle"`, `"square"`, or still `"triangle"`? Put your
# guess in place of the `...` and run the cell. Nobody marks it.

# %%
guess("00-channel-off", by_the_estimate="triangle")


# %%
def without(channel):
    """A forward hook that sets one channel to zero."""

    def switch_off(module, args, output):
        output = output.clone()
        output[:, channel] = 0
        return output

    return switch_off


with layer.register_forward_hook(without(3)):
    changed = model(image).softmax(1)[0]
    assert model(image)[0, 2] < scores[0, 2] - 10 and model(image)[0, 1] > 2

left = scores[0, 2] - estimate[3]
print(
    f"by the estimate: the triangle's score falls to {left:.1f}, and the square's "
    f"stays near {scores[0, 1]:.1f}"
)
print("what the model says:", CLASSES[changed.argmax()])
compare(
    "00-channel-off", by_the_estimate="triangle" if left > scores[0, 1] else "square"
)
assert f"{left:.1f}" == "4.3"
assert (
    abs(
        (kept[0] * torch.autograd.grad(scores[0, 1], kept[0], retain_graph=True)[0])[
            0, 3
        ].sum()
    )
    < 0.2
)
assert [f"{share:.0%}" for share in changed] == ["0%", "99%", "1%"]

# %% tags=["figure"]
show(
    drawing_and(("As it is", answer.tolist()), ("Without channel 3", changed.tolist())),
    "The drawing of the triangle and two answers. As it is: circle 0 %, square 0 %, "
    "triangle 100 %. Without channel 3: circle 0 %, square 99 %, triangle 1 %.",
)

# %% [markdown] explains="00-channel-off"
# By the estimate, the triangle keeps 4.3 and stays ahead. But the model sees a square: the same drawing, the same
# weights, and one channel of 16 is off. The triangle's score fell further than estimated, and the square's rose. A
# gradient speaks of small changes, and switching off is a big one. Before you believe an estimate, try it.

# %% [markdown]
# **Predict.** Now switch off each channel in turn. For how many of the 16 does the answer change? (The triangle leads by
# more than 10, and the next largest estimates are 3.3 and 1.4.)

# %%
guess("00-each-channel-off", channels=1)

# %%
triangle, fall = {}, {}
for channel in range(16):
    with layer.register_forward_hook(without(channel)):
        scores_without = model(image)
    triangle[channel] = scores_without.softmax(1)[0, 2].item()
    fall[channel] = (scores[0, 2] - scores_without[0, 2]).item()
flipped = [channel for channel, share in triangle.items() if share < 0.5]
print("the answer changes without channel", *flipped)
for channel in (3, 9, 12):
    print(
        f"channel {channel} adds {estimate[channel]:.1f} (estimated); without it the "
        f"score falls by {fall[channel]:.1f}"
    )
compare("00-each-channel-off", channels=len(flipped))
assert [channel for channel, share in triangle.items() if share < 0.995] == [3]
assert [f"{estimate[k]:.1f} {fall[k]:.1f}" for k in (3, 9, 12)] == [
    "5.2 11.9",
    "3.3 3.5",
    "-0.5 1.2",
]
assert fall[9] < scores[0, 2] - scores[0, :2].max()  # too little to change the answer
assert f"{scores[0, 2] - scores[0, :2].max():.1f}" == "10.6"
assert [f"{value:.1f}" for value in estimate.sort(descending=True).values[1:3]] == [
    "3.3",
    "1.4",
]

# %% tags=["figure"]
show(
    channel_bars(
        list(triangle.values()),
        FORWARD,
        "{:.0%}",
        "How sure the model is of the triangle without a channel",
    ),
    "A bar for each of the 16 channels, above its picture: how sure the model is of "
    "the triangle without it. It is 1 % without channel 3, and 100 % without any "
    "other one.",
)

# %% [markdown] explains="00-each-channel-off"
# Only for channel 3: there the score falls by 11.9, where the estimate says 5.2. For channel 9, which came second, the
# estimate is good: 3.3, and the score falls by 3.5. That is too little to change the answer. For channel 12 even the
# sign of the estimate is wrong.

# %% [markdown]
# ## Your turn
#
# Write your function in place of `raise NotImplementedError` and run its cell, then the check, which tries the function
# on models that you have not seen. Stuck? `hint("00-layer-output")`, in a new cell, gives you a hint.


# %% exercise="00-layer-output"
def layer_output(model, layer, x):
    ### BEGIN SOLUTION
    kept = []
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept[0]
    ### END SOLUTION


# %% [markdown]
# ## The map of the course
#
# This is what hooks are for: to see the values in a model, to see its gradients, and to change what flows through it.
# Take the lessons in order, or only those that answer your question. Each exercise says how long it takes, how hard
# it is, and whether it is on the **core path**, the shorter way through the course. The others go deeper: leave out
# as many of them as you like.
#
# {{map}}

# %%
progress()
