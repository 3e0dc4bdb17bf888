# %% [markdown]
# # Lesson 10. Explaining predictions
#
# **The question.** The model says "triangle". Which pixels made it say this?
#
# **The goal.** You can compute saliency maps, guided backprop and Grad-CAM with hooks, and you can measure how far such
# a picture is to be trusted: on drawings, where we know everything, and on photos.
#
# As always: guess first, run the cell, then read on.

# %%
import contextlib
import copy

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    FORWARD,
    INK,
    QUIET,
    arrow,
    as_picture,
    caption,
    card,
    heat_over,
    node,
    picture_rows,
    show,
)
from graders.nets import CLASSES, Lite0, ShapesNet, draw_shapes, pictures, shapes_net

# Small convolutions: one thread is fastest, and on a shared machine many wait for each
# other.
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# a GPU should compute with all digits of float32, as a CPU does
torch.backends.cudnn.allow_tf32 = False
print("device:", device)

# %% [markdown]
# We explain the net of lesson 0, which tells circles, squares and triangles apart. Its weights come with this course.
# And we know what no photo tells us: where the shape is. Each drawing comes with a **box** (x0, y0, x1, y1) around its
# shape, in pixels. x counts columns, y counts rows, and x1 and y1 are the first that no longer belong to the box.

# %%
net = shapes_net().to(device)
drawings, labels, boxes = draw_shapes(100, 5)
drawings, labels, boxes = drawings.to(device), labels.to(device), boxes.to(device)
with torch.no_grad():
    logits = net(drawings)

number = 13
print(
    f"{(logits.argmax(1) == labels).float().mean():.0%} of {len(drawings)} drawings "
    "are named correctly"
)
print(
    f"drawing {number} is a {CLASSES[labels[number]]}, in the box "
    f"{boxes[number].tolist()}"
)
print(
    "its logits:",
    dict(zip(CLASSES, [round(value, 2) for value in logits[number].tolist()])),
)
assert (logits.argmax(1) == labels).float().mean() > 0.97
assert (
    CLASSES[labels[number]] == "triangle" and logits[number].argmax() == labels[number]
)

# %% [markdown]
# The net returns a number for each class, before any softmax: a **logit**. The class with the largest logit is the
# prediction. To explain a prediction, we ask: what in the image raised *this* logit?
#
# ## Saliency: the derivative of a logit
#
# The simplest answer is a derivative: by how much does the logit change when a pixel changes a little?
#
# Take a linear model, whose image has three pixels: `logit 0 = 1 * first - 3 * middle + 2 * last`.
#
# **Predict.** Which pixel moves logit 0 the most when it changes a little: `"first"`, `"middle"` or `"last"`? Does that
# depend on the image, `"yes"` or `"no"`?

# %%
guess("10-linear-model", pixel="middle", depends_on_image=False)

# %%
linear = nn.Linear(3, 2, bias=False)
linear.load_state_dict({"weight": torch.tensor([[1.0, -3.0, 2.0], [0.0, 0.5, 4.0]])})
gradients = []
for values in ([1.0, 1.0, 1.0], [9.0, 0.0, -5.0]):
    tiny = torch.tensor([values], requires_grad=True)
    (gradient,) = torch.autograd.grad(linear(tiny)[0, 0], tiny)
    gradients.append(gradient)
    print("image", values, " d logit 0 / d image:", gradient[0].tolist())
    assert gradient[0].tolist() == [1, -3, 2]
pixel = ["first", "middle", "last"][gradient.abs().argmax()]
compare("10-linear-model", pixel=pixel, depends_on_image=not torch.equal(*gradients))

# %% [markdown] explains="10-linear-model"
# The middle one: its derivative is -3. The sign says in which direction the logit moves. For the question *how much*,
# only the absolute value counts. In a linear model the derivative is the weight, whatever the image. In a net with
# ReLUs it is different for each image.

# %% [markdown]
# In a colour image each pixel has three derivatives, one for each channel. The **saliency** of the pixel is the largest
# of their absolute values. A hook on `x` is given the derivatives as they arrive. Later in this lesson, hooks on layers
# inside the net are given theirs.

# %%
x = drawings[number : number + 1].clone().requires_grad_()
arrived = []
x.register_hook(arrived.append)
(gradient,) = torch.autograd.grad(net(x)[0, labels[number]], x)
print("the hook was given the same:", torch.equal(arrived[0], gradient))
assert torch.equal(arrived[0], gradient)
saliency = gradient.abs().amax(1)
print("gradient:", tuple(gradient.shape), "  saliency:", tuple(saliency.shape))
y, across = divmod(saliency.argmax().item(), 64)
print(
    f"the most salient pixel: row {y}, column {across}; the box: "
    f"{boxes[number].tolist()}"
)
assert gradient.shape == (1, 3, 64, 64) and saliency.shape == (1, 64, 64)
assert (
    boxes[number][0] <= across < boxes[number][2]
    and boxes[number][1] <= y < boxes[number][3]
)


# %% tags=["figure"]
def place(axes, picture, left, bottom, side, box=None, peak=None):
    """A picture of 64 by 64 pixels on a card, with its box and its peak (row,
    column) drawn over it.
    """
    axes.imshow(
        picture,
        extent=(left, left + side, bottom, bottom + side),
        aspect="auto",
        interpolation="nearest",
    )
    pixel = side / 64
    if box is not None:
        x0, y0, x1, y1 = box.tolist()
        corner = (left + x0 * pixel, bottom + side - y1 * pixel)
        axes.add_patch(
            plt.Rectangle(
                corner,
                (x1 - x0) * pixel,
                (y1 - y0) * pixel,
                fill=False,
                edgecolor="#ffffff",
            )
        )
    if peak is not None:
        row, column = peak
        axes.plot(
            [left + (column + 0.5) * pixel],
            [bottom + side - (row + 0.5) * pixel],
            "x",
            color="#00d0ff",
            markersize=6,
            markeredgewidth=1.8,
        )


figure, axes = card(8.2, 2.5)
place(axes, as_picture(drawings[number]), 0.3, 0.75, 1.4)
caption(axes, 1.0, 0.55, "x", align="center")
caption(axes, 1.0, 0.3, "[1, 3, 64, 64]", align="center", colour=FORWARD, size=9)
node(axes, 3.3, 1.45, "net", width=1.1)
for row, (name, value) in enumerate(zip(CLASSES, logits[number].tolist())):
    node(
        axes,
        5.25,
        2.1 - 0.65 * row,
        name,
        kind="loss" if row == labels[number] else "plain",
        height=0.36,
    )
    caption(axes, 4.35, 2.1 - 0.65 * row, f"{value:.1f}", align="center", size=9)
arrow(axes, (1.8, 1.45), (2.7, 1.45))
arrow(axes, (3.9, 1.45), (4.15, 1.45))
place(axes, heat_over(drawings[number], saliency[0]), 6.5, 0.75, 1.4)
caption(
    axes,
    7.2,
    0.55,
    "saliency: largest |d logit / dx|",
    align="center",
    size=9,
    colour=BACKWARD,
)
caption(axes, 7.2, 0.3, "[1, 64, 64]", align="center", colour=FORWARD, size=9)
arrow(axes, (4.65, 0.55), (1.85, 0.95), backward=True, bend=-0.2, label="d logit / dx")
axes.set(xlim=(0, 8.2), ylim=(0, 2.5))
show(
    figure,
    "A drawing x of shape [1, 3, 64, 64] goes through the net, which returns three "
    "logits: "
    + ", ".join(
        f"{name} {value:.1f}" for name, value in zip(CLASSES, logits[number].tolist())
    )
    + ". The logit of the triangle is chosen, and its derivative flows back to x. The "
    "largest absolute derivative over "
    "the channels gives a saliency map of shape [1, 64, 64]. Drawn as heat over the "
    "drawing, it is brightest on and around the triangle in the middle.",
)

# %% [markdown]
# ### A whole batch at once
#
# By default, `torch.autograd.grad` differentiates a single number. For a batch, we can give it the **sum** of the chosen
# logits.
#
# **Predict.** We add one logit of each of two drawings, and take the gradient. Does the gradient at the first drawing
# contain anything of the second, `"yes"` or `"no"`?

# %%
guess("10-two-drawings", mixed=False)

# %%
pair = drawings[:2].clone().requires_grad_()
both = net(pair)
(together,) = torch.autograd.grad(both[0, 2] + both[1, 0], pair)

alone = drawings[:1].clone().requires_grad_()
(first,) = torch.autograd.grad(net(alone)[0, 2], alone)
print("largest derivative:", first.abs().max().item())
print(
    "largest difference between together and alone:",
    (together[0] - first[0]).abs().max().item(),
)
compare("10-two-drawings", mixed=not torch.allclose(together[0], first[0], atol=1e-4))
assert torch.allclose(together[0], first[0], atol=1e-4)

# %% [markdown] explains="10-two-drawings"
# No, apart from rounding. In eval mode, this net treats each sample on its own: the logit of one drawing does not depend
# on the pixels of another. So the gradient of the sum holds, row by row, the gradients of the single logits. (In training
# mode this is not true for a net with BatchNorm, which mixes the samples.)

# %% [markdown]
# The two drawings may have different classes. `both` has the shape (2, 3), two drawings by three logits, and
# `classes = torch.tensor([2, 0])` lists a class for each drawing.
#
# **Predict.** What is the shape of `both[:, classes]`?

# %%
guess("10-index-shape", shape=(2, 2))

# %%
classes = torch.tensor([2, 0], device=device)
print("both[:, classes]:", tuple(both[:, classes].shape))
picked = both[torch.arange(2, device=device), classes]
print("both[torch.arange(2), classes]:", tuple(picked.shape))
gathered = both.gather(1, classes[:, None])[:, 0]
print("the same numbers with gather:", torch.equal(picked, gathered))
compare("10-index-shape", shape=tuple(both[:, classes].shape))
assert both[:, classes].shape == (2, 2) and torch.equal(
    picked, torch.stack([both[0, 2], both[1, 0]])
)
assert torch.equal(picked, gathered)

# %% [markdown] explains="10-index-shape"
# (2, 2): every listed class for every drawing. Two index tensors, or `gather`, pair the rows with the classes.

# %% [markdown]
# One more thing: do not call `backward()` for this. It would add to the `.grad` of every parameter, and a later training
# step would use that. `torch.autograd.grad` leaves the `.grad` of parameters alone.


# %% exercise="10-saliency-map"
def saliency_map(model, x, classes):
    """The largest absolute derivative, over the channels, of the logit of each
    sample's class.
    """
    ### BEGIN SOLUTION
    x = x.detach().clone().requires_grad_()
    total = model(x).gather(1, classes[:, None]).sum()
    (gradient,) = torch.autograd.grad(total, x)
    return gradient.abs().amax(1)
    ### END SOLUTION


# %% [markdown]
# Here are six drawings, two of each class, and their saliency. Each map has a scale of its own.


# %% tags=["figure"]
def input_gradients(model, images, classes):
    """The gradient of each image's own logit."""
    images = images.detach().clone().requires_grad_()
    return torch.autograd.grad(model(images).gather(1, classes[:, None]).sum(), images)[
        0
    ]


def saliency_of(model, classes):
    """The saliency maps of all drawings."""
    return input_gradients(model, drawings, classes).abs().amax(1)


saliencies = saliency_of(net, labels)
chosen = [1, 3, 2, 5, 13, 4]
assert labels[chosen].tolist() == [0, 0, 1, 1, 2, 2]


def rows_of(rows, title, boxed=False):
    """A figure with one row of pictures for each of `rows`, a name and six pictures."""
    figure, axes = card(8.2, 0.65 + 1.2 * len(rows))
    top = 0.65 + 1.2 * len(rows)
    caption(axes, 0.3, top - 0.25, title, size=11)
    for row, (name, drawn) in enumerate(rows):
        bottom = top - 0.45 - 1.2 * (row + 1) + 0.1
        caption(axes, 0.3, bottom + 0.55, name, size=9.5)
        for column, picture in enumerate(drawn):
            place(
                axes,
                picture,
                1.3 + 1.14 * column,
                bottom,
                1.1,
                box=boxes[chosen[column]] if boxed else None,
            )
    axes.set(xlim=(0, 8.2), ylim=(0, top))
    return figure


figure = rows_of(
    [
        ("drawing", [as_picture(drawings[k]) for k in chosen]),
        ("saliency", [heat_over(drawings[k], saliencies[k]) for k in chosen]),
    ],
    "Saliency for the class of each drawing",
)
show(
    figure,
    "Two rows of six pictures. Above, six drawings: two circles, two squares, two "
    "triangles. Below, their saliency as heat over the gray drawing: grainy dots, "
    "most of them on the shape and close to its edges, and single dots elsewhere.",
)

# %% [markdown]
# The heat is grainy, but it is where the shapes are. The derivative is a sum over a great many paths through the net,
# positive and negative ones, and neighbouring pixels take different paths.
#
# ## Guided backprop: a clamp at every ReLU
#
# A well-known way to get less grainy pictures is to change the backward pass. Recall what a ReLU does with the gradient
# that arrives at its output: it lets it through where its *input* was positive, and puts 0 elsewhere.
#
# - The **deconvnet** rule looks at the gradient instead: it lets through what is positive *in the gradient*.
# - **Guided backprop** asks for both: input positive *and* gradient positive.
#
# **Predict.** The input of a ReLU is [-1, 2, 3, -2]. The gradient [5, -4, 6, -7] arrives at its output. What leaves the
# ReLU under each of the three rules? Write three lists of four numbers.

# %%
guess(
    "10-three-rules",
    ordinary=[0, -4, 6, 0],
    deconvnet=[5, 0, 6, 0],
    guided=[0, 0, 6, 0],
)

# %%
rules = {
    "ordinary": lambda module, grad_input, grad_output: None,
    "deconvnet": lambda module, grad_input, grad_output: (grad_output[0].clamp(min=0),),
    "guided": lambda module, grad_input, grad_output: (grad_input[0].clamp(min=0),),
}
relu, left = nn.ReLU(), {}
for name, rule in rules.items():
    values = torch.tensor([-1.0, 2.0, 3.0, -2.0], requires_grad=True)
    with relu.register_full_backward_hook(rule):
        out = relu(values)
        (gradient,) = torch.autograd.grad(
            out, values, grad_outputs=torch.tensor([5.0, -4.0, 6.0, -7.0])
        )
    left[name] = gradient.tolist()
    print(f"{name:10}", left[name])
compare(
    "10-three-rules",
    ordinary=left["ordinary"],
    deconvnet=left["deconvnet"],
    guided=left["guided"],
)
assert left == {
    "ordinary": [0, -4, 6, 0],
    "deconvnet": [5, 0, 6, 0],
    "guided": [0, 0, 6, 0],
}

# %% tags=["figure"]
figure, axes = card(8.2, 3.0)
table = [
    ("input of the ReLU", [-1, 2, 3, -2], FORWARD),
    ("gradient that arrives", [5, -4, 6, -7], BACKWARD),
    ("ordinary: input > 0", left["ordinary"], BACKWARD),
    ("deconvnet: gradient > 0", left["deconvnet"], BACKWARD),
    ("guided: both", left["guided"], BACKWARD),
]
for row, (name, numbers, colour) in enumerate(table):
    height = 2.6 - 0.5 * row - (0.15 if row > 1 else 0)
    caption(axes, 0.4, height, name)
    for column, value in enumerate(numbers):
        centre = 3.6 + 1.1 * column
        fill = (
            "#f6e3d3"
            if row > 1 and value
            else "#e4ecf7"
            if row == 0 and value > 0
            else "none"
        )
        axes.add_patch(
            plt.Rectangle(
                (centre - 0.45, height - 0.2), 0.9, 0.4, facecolor=fill, edgecolor=QUIET
            )
        )
        caption(
            axes,
            centre,
            height,
            f"{value:g}",
            align="center",
            colour=colour if value else QUIET,
        )
axes.plot([0.4, 7.4], [1.78, 1.78], color=QUIET, linewidth=1, linestyle="--")
show(
    figure,
    "A table with four columns, one for each entry. Input of the ReLU: -1, 2, 3, -2. "
    "Gradient that arrives at its output: 5, -4, 6, -7. Below a line, the gradient "
    "that leaves it: by the ordinary rule, where the input is positive, 0, -4, 6, 0. "
    "By the deconvnet rule, where the gradient is positive, 5, 0, 6, 0. Guided, where "
    "both are positive, 0, 0, 6, 0.",
)

# %% [markdown] explains="10-three-rules"
# This is a job for a full backward hook (lesson 7). `grad_output` is the gradient that arrives, `grad_input` the one
# that leaves. The mask of the ReLU itself is already in `grad_input`. So a hook that returns the clamped `grad_input` gives
# guided backprop, and one that returns the clamped `grad_output` gives the deconvnet rule. Both return a **tuple**.


# %% exercise="10-guided-backprop"
def guided_backprop(model, x, cls):
    """The gradient of logit cls with respect to x, with negative gradients behind
    every ReLU replaced by 0.
    """

    ### BEGIN SOLUTION
    def clamp(module, grad_input, grad_output):
        return (grad_input[0].clamp(min=0),)

    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_full_backward_hook(clamp))
        (gradient,) = torch.autograd.grad(model(x)[:, cls].sum(), x)
    return gradient
    ### END SOLUTION


# %% [markdown]
# There is another way, without any hook: write the clamp as a `torch.autograd.Function`, and build a model that calls it
# after each ReLU. For that you have to change the model; with hooks you do not. Both give the same numbers. If you have
# solved the exercise, the cell compares your function with it.


# %%
class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clamp(min=0)


class Guided(nn.Module):
    def __init__(self, relu):
        super().__init__()
        self.relu = relu

    def forward(self, x):
        return Clamp.apply(self.relu(x))


def guided_copy(model, kind=nn.ReLU):
    """A copy of the model in which each module of this kind clamps the gradient that
    arrives.
    """
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, kind):
                setattr(parent, name, Guided(child))
    return model


def guided_gradients(model, images, classes, kind=nn.ReLU):
    return input_gradients(guided_copy(model, kind), images, classes)


some = drawings[:3]
assert torch.allclose(guided_copy(net)(some), net(some), atol=1e-4)
by_function = guided_gradients(net, some, torch.full((3,), 2, device=device))
plain = input_gradients(net, some, torch.full((3,), 2, device=device))
print(
    "share of entries that differ from the ordinary gradient: "
    f"{(by_function != plain).float().mean():.0%}"
)
assert (by_function != plain).float().mean() > 0.9

try:
    by_hooks = guided_backprop(net, some, 2)
except NotImplementedError:
    print("Solve 10-guided-backprop, then run this cell again.")
else:
    print(
        "largest difference between hooks and function:",
        (by_hooks - by_function).abs().max().item(),
    )
    assert torch.allclose(by_hooks, by_function, atol=1e-4)

# %% tags=["figure"]
guided = guided_gradients(net, drawings, labels)
guided_heat = guided.abs().amax(1)
figure = rows_of(
    [
        ("drawing", [as_picture(drawings[k]) for k in chosen]),
        ("saliency", [heat_over(drawings[k], saliencies[k]) for k in chosen]),
        ("guided", [heat_over(drawings[k], guided_heat[k]) for k in chosen]),
    ],
    "Saliency and guided backprop; the largest absolute value over the channels",
)
show(
    figure,
    "Three rows of six pictures: the drawings, their saliency, and guided backprop as "
    "heat. The heat of guided backprop is less scattered than that of the saliency, "
    "and follows the shapes and their outlines more clearly.",
)

# %% [markdown]
# Much clearer. Does it also explain the prediction better? At the end of this lesson we measure that.
#
# ### A trap, before you take it along
#
# EfficientNet-Lite0, the classifier of photos in lesson 9, has 33 ReLUs of the class `nn.ReLU6`. The cell shows what that
# class is derived from.

# %%
print([kind.__name__ for kind in nn.ReLU6.__mro__][:-1])
photo_net = Lite0().eval()  # untrained: here only its modules matter
print(sum(isinstance(module, nn.ReLU6) for module in photo_net.modules()), "nn.ReLU6")
assert nn.ReLU6.__mro__[1] is nn.Hardtanh and not issubclass(nn.ReLU6, nn.ReLU)
assert sum(isinstance(module, nn.ReLU6) for module in photo_net.modules()) == 33

# %% [markdown]
# **Predict.** On how many of its modules does guided backprop put a hook, if it asks for
# `isinstance(module, nn.ReLU)`? And what comes of it: an `"error"`, `"zeros"`, or the `"plain gradient"`?

# %%
guess("10-relu6", hooks=0, result="plain gradient")

# %%
hooked = [module for module in photo_net.modules() if isinstance(module, nn.ReLU)]
image, first_class = torch.rand(1, 3, 64, 64), torch.tensor([0])
plain = input_gradients(photo_net, image, first_class)
# looks for nn.ReLU, as the exercise does
asked = guided_gradients(photo_net, image, first_class)
meant = guided_gradients(photo_net, image, first_class, nn.ReLU6)
print(
    "hooks:", len(hooked), "  equal to the plain gradient:", torch.equal(asked, plain)
)
print("with nn.ReLU6, equal to the plain gradient:", torch.equal(meant, plain))
compare(
    "10-relu6",
    hooks=len(hooked),
    result="plain gradient" if torch.equal(asked, plain) else "zeros",
)
assert (
    not hooked
    and torch.equal(asked, plain)
    and plain.abs().max() > 0
    and not torch.equal(meant, plain)
)

# %% [markdown] explains="10-relu6"
# No hook, no error, and bit for bit the plain gradient. It looks like an explanation, and nobody tells you that it is
# not the one you asked for. So **count what you hook**, and stop when it is nothing: activations come as `nn.ReLU6`,
# `nn.GELU`, `nn.SiLU`, and as functions that no hook finds.

# %% [markdown]
# ## Grad-CAM: which maps spoke for this class?
#
# Grad-CAM does not go back to the pixels. It stops at the output of a late layer, the maps A of shape [B, K, h, w], and
# asks how much each of the K maps counts for the logit.
#
# 1. Take the gradient of the logit with respect to A.
# 2. The weight of a map is the **mean** of its gradient over all its positions.
# 3. Add up the maps, each times its weight.
# 4. Replace negative values by 0: they speak against the class.

# %% tags=["figure"]
figure, axes = card(8.2, 3.0)
with torch.no_grad():
    values = net.features(drawings[number : number + 1])[0]
weights = net.fc.weight[labels[number]].detach() / 256
best = (weights * values.mean((1, 2))).topk(3).indices.tolist()
heat = (weights[:, None, None] * values).sum(0).relu()
place(axes, as_picture(drawings[number]), 0.25, 1.2, 1.2)
caption(axes, 0.85, 1.0, "x", align="center")
for position, k in enumerate(best):
    bottom = 2.1 - 0.95 * position
    axes.imshow(
        values[k].cpu().numpy(),
        cmap="gray",
        extent=(2.45, 3.25, bottom, bottom + 0.8),
        aspect="auto",
    )
    caption(
        axes,
        3.35,
        bottom + 0.4,
        f"· {weights[k].item() * 256:.1f} / 256",
        size=9,
        colour=BACKWARD,
    )
    arrow(axes, (4.15, bottom + 0.4), (4.62, 1.8 + 0.12 * (1 - position)))
caption(axes, 2.3, 1.6, "A", align="center", size=12)
node(axes, 4.95, 1.8, "sum", width=0.6, note="of all 64")
node(axes, 5.95, 1.8, "ReLU", width=0.65)
picture = heat_over(
    drawings[number],
    F.interpolate(heat[None, None], size=(64, 64), mode="bilinear")[0, 0],
)
place(axes, picture, 6.7, 1.2, 1.2)
caption(axes, 7.3, 1.0, "Grad-CAM", align="center")
arrow(axes, (1.5, 1.8), (2.15, 1.8))
arrow(axes, (5.27, 1.8), (5.6, 1.8))
arrow(axes, (6.3, 1.8), (6.68, 1.8))
caption(axes, 4.75, 0.6, "weight = mean of d logit / dA", colour=BACKWARD, size=9.5)
caption(axes, 4.75, 0.35, "over the positions of the map", colour=BACKWARD, size=9.5)
axes.set(xlim=(0, 8.2), ylim=(0, 3.0))
show(
    figure,
    "The drawing of the triangle goes through the net up to the maps A of the last "
    f"block. Three of its 64 maps are shown, numbers {best}, each with its weight, the "
    "mean of d logit / dA over the positions of the map: "
    + ", ".join(f"{weights[k].item() * 256:.1f} / 256" for k in best)
    + ". The sum of all 64 maps times their weights goes through a ReLU. The result, "
    "Grad-CAM, is drawn over the drawing: a "
    "coarse spot of heat on the triangle in the middle.",
)

# %% [markdown]
# The first step needs the gradient at an activation. By now you know four ways to get it:
#
# - `"autograd.grad"` with respect to the output that a forward hook caught,
# - `"retain_grad"` on that output,
# - a `"full hook"` on the layer, that is a full backward hook,
# - a `"tensor hook"` that a forward hook registers.
#
# We try them on the last block of the net, with two drawings that do not require grad. By then the net has halved the
# 64 by 64 pixels twice in each direction, and there are 64 maps.
#
# **Predict.** What is the shape of the gradient? And does one of the four ways find none? Write its name, or `"none"`.

# %%
guess("10-four-ways", shape=(2, 64, 16, 16), finds_none="none")

# %%
layer, x, cls = net.features[-1], drawings[:2], 2
found, touched = {}, {}
net.zero_grad()


def count_grads(way):
    """Note how many parameters have a .grad after this way, and clear them."""
    touched[way] = sum(p.grad is not None for p in net.parameters())
    net.zero_grad()


with layer.register_forward_hook(lambda module, args, output: found.update(A=output)):
    logit = net(x)[:, cls].sum()
found["autograd.grad"] = torch.autograd.grad(logit, found["A"])[0]
count_grads("autograd.grad")

with layer.register_forward_hook(
    lambda module, args, output: output.retain_grad() or found.update(kept=output)
):
    net(x)[:, cls].sum().backward()
found["retain_grad"] = found["kept"].grad
count_grads("retain_grad")

with layer.register_full_backward_hook(
    lambda module, gi, go: found.update({"full hook": go[0].clone()})
):
    net(x)[:, cls].sum().backward()
count_grads("full hook")

# takes off both hooks, that of the layer and that of its output
with contextlib.ExitStack() as stack:

    def watch(module, args, output):
        stack.enter_context(
            output.register_hook(
                lambda grad: found.update({"tensor hook": grad.clone()})
            )
        )

    stack.enter_context(layer.register_forward_hook(watch))
    net(x)[:, cls].sum().backward()
count_grads("tensor hook")

print(f"{'':14} {'shape':17} largest difference   parameters with a .grad")
for way, count in touched.items():
    difference = (found[way] - found["autograd.grad"]).abs().max().item()
    print(f"{way:14} {tuple(found[way].shape)!s:17} {difference:18.1e} {count:25}")
compare(
    "10-four-ways",
    shape=found["autograd.grad"].shape,
    finds_none=next((way for way in touched if found.get(way) is None), "none"),
)
assert all(torch.allclose(found[way], found["autograd.grad"]) for way in touched)
assert list(touched.values()) == [0, 18, 18, 18] and len(list(net.parameters())) == 18

# %% [markdown] explains="10-four-ways"
# All four find it, and they agree. (If you see a difference at all, it is rounding.) The drawings need not require
# grad: the parameters of the net do, and so the maps do. But three of the ways ran `backward()`, which filled the
# `.grad` of all 18 parameters. Only `autograd.grad` leaves nothing behind. The full backward hook has one more
# drawback, which you know from lesson 7: it does not get along with in-place operations.

# %% [markdown]
# Here the gradient can even be found by hand. After the layer, the net takes the mean of each map over its h · w
# positions, and a linear layer turns the means into logits.
#
# **Predict.** For a given class and map: is the gradient the same for all drawings, `"yes"` or `"no"`? And at all
# positions of the map?

# %%
guess("10-by-hand", for_all_drawings=True, at_all_positions=True)

# %%
gradient = found["autograd.grad"]  # [2 drawings, 64 maps, 16, 16]
by_hand = net.fc.weight[cls].detach() / (16 * 16)
alpha = gradient.mean((2, 3))
print(
    "256 times the gradient at map 0; a row for each of two drawings, a column for "
    "each of three positions:"
)
print(256 * gradient[:, 0, 0, :3])
print(f"fc.weight[cls, 0] = {net.fc.weight[cls, 0].item():.4f}")
print(
    "largest difference between the mean gradients of all maps and fc.weight[cls] / "
    "256:",
    end=" ",
)
print(f"{(alpha - by_hand).abs().max().item():.1e}")
compare(
    "10-by-hand",
    for_all_drawings=torch.allclose(gradient[0], gradient[1], atol=1e-7),
    at_all_positions=torch.allclose(
        gradient, gradient[:, :, :1, :1].expand_as(gradient), atol=1e-7
    ),
)
assert torch.allclose(alpha, by_hand.expand(2, -1), atol=1e-7)
assert torch.allclose(
    found["autograd.grad"], by_hand[:, None, None].expand(2, -1, 16, 16), atol=1e-7
)

# %% [markdown] explains="10-by-hand"
# Yes to both. The derivative of the logit of class c with respect to each entry of map k is `fc.weight[c, k] / (h * w)`.
# So for the last maps of *this* net the gradient says nothing about the drawing. This special case is older than
# Grad-CAM, and is called **CAM**, class activation mapping. For a layer further inside, with ReLUs behind it, the
# gradient depends on the drawing and on the position. Then the mean matters, and each sample has weights of its own.
# Grad-CAM is for any layer.


# %% exercise="10-grad-cam"
def grad_cam(model, layer, x, cls):
    """Where the maps of a layer speak for class cls: [B, h, w]."""
    ### BEGIN SOLUTION
    kept = {}

    def keep(module, args, output):
        kept["maps"] = output  # with its graph, which we need for the gradient

    with layer.register_forward_hook(keep):
        logits = model(x)
    (gradient,) = torch.autograd.grad(logits[:, cls].sum(), kept["maps"])
    weights = gradient.mean((2, 3), keepdim=True)
    return (weights * kept["maps"]).sum(1).relu().detach()
    ### END SOLUTION


# %% [markdown]
# Here are three drawings, and the heat for each of the three classes. In each row all maps have the same scale, that of
# the largest value in the row. The net names all three correctly.


# %% tags=["figure"]
def cams_of(model, images, classes):
    """Grad-CAM of the last maps of our nets, which needs no hook: they have two
    parts, and we call both.
    """
    maps = model.features(images)
    (gradient,) = torch.autograd.grad(
        model.fc(maps.mean((2, 3))).gather(1, classes[:, None]).sum(), maps
    )
    return (gradient.mean((2, 3), keepdim=True) * maps).sum(1).relu().detach()


def enlarge(maps, size=(64, 64)):
    """Heat maps [B, h, w] at the size of the images."""
    return F.interpolate(
        maps[:, None], size=size, mode="bilinear", align_corners=False
    )[:, 0]


shown = [8, 2, 13]
by_class = [
    enlarge(cams_of(net, drawings[shown], torch.full_like(labels[shown], c)))
    for c in range(3)
]
# the largest value in each row
tops = torch.stack([heat.amax((1, 2)) for heat in by_class]).amax(0).tolist()
assert labels[shown].tolist() == [0, 1, 2] == logits[shown].argmax(1).tolist()
assert torch.stack([heat.amax((1, 2)) for heat in by_class]).argmax(0).tolist() == [
    0,
    1,
    2,
]

figure, axes = card(8.2, 5.3)
for column, name in enumerate(("drawing", *(f"heat for {name}" for name in CLASSES))):
    caption(axes, 1.3 + 1.85 * column, 5.08, name, align="center", size=10.5)
for row, k in enumerate(shown):
    bottom = 3.35 - 1.62 * row
    place(axes, as_picture(drawings[k]), 0.55, bottom, 1.5)
    for c in range(3):
        place(
            axes,
            heat_over(drawings[k], by_class[c][row], tops[row]),
            2.4 + 1.85 * c,
            bottom,
            1.5,
            box=boxes[k],
        )
axes.set(xlim=(0, 8.2), ylim=(0, 5.3))
show(
    figure,
    "Three drawings, a circle, a square and a triangle, and Grad-CAM for each of the "
    "three classes as heat over the gray drawing, with the box of the shape drawn in "
    "white. The heat for the drawing's own class is the strongest in its row and lies "
    "on and around the shape. The heat for the other classes is weaker.",
)

# %% [markdown]
# ### Two answers to one photo
#
# Now the classifier of photos, and the collage of lesson 9: half a cat, half a cup of espresso. We ask for both classes,
# and know where each has its place. A third method needs no gradient: **occlusion** hides one square after another behind
# gray, and notes how much the logit falls. (Without the weights, two drawings take the place of the photos.)


# %% tags=["figure"]
def occlusion(model, x, classes, gray, parts=3.5, overlap=1.6):
    """How much the logits of some classes fall when a gray square hides a place:
    [classes, H, W]. Rises count as 0.
    """
    side = int(x.shape[2] / parts)
    falls, seen_by = torch.zeros(len(classes), *x.shape[2:]), torch.zeros(x.shape[2:])
    with torch.no_grad():
        whole = model(x)[0, classes]
        for top in range(0, x.shape[2] - side + 1, int(side / overlap)):
            for start in range(0, x.shape[3] - side + 1, int(side / overlap)):
                there = (..., slice(top, top + side), slice(start, start + side))
                hidden = x.clone()
                hidden[there] = gray
                falls[there] += (whole - model(hidden)[0, classes]).cpu()[:, None, None]
                seen_by[there] += 1
    return (falls / seen_by.clamp(min=1)).relu()


def share_on_left(heat):
    """The share of the heat that is on the left half."""
    half = heat.shape[-1] // 2
    return (
        heat[..., :half].sum() / (heat[..., :half].sum() + heat[..., -half:].sum())
    ).item()


seen = pictures()
print(seen.note)
# gradients of parameters are not needed, and cost time
eye = seen.net.to(device).requires_grad_(False)
eye.get_submodule(seen.layers[-1]).requires_grad_(True)  # but the maps need a graph
both = seen.collages[0]
x, asked = (
    seen.prepare(both.image[None]).to(device),
    torch.tensor([both.left, both.right], device=device),
)
hidden = occlusion(eye, x, asked, seen.prepare(torch.tensor(0.5)).item())
rows, on_left = [], {}
for row, c in enumerate(asked):
    heats = {
        "Grad-CAM": enlarge(cams_of(eye, x, c[None]), both.image.shape[1:])[0].cpu(),
        "guided backprop": guided_gradients(eye, x, c[None], seen.relu)[0]
        .abs()
        .amax(0)
        .cpu(),
        "occlusion": hidden[row],
    }
    name = seen.class_name(c.item())
    on_left[name] = {method: share_on_left(heat) for method, heat in heats.items()}
    captions = [
        f"{method}: {share:.0%} left" for method, share in on_left[name].items()
    ]
    shown_heat = [heat_over(both.image, heat) for heat in heats.values()]
    rows.append(
        (name, [("collage", as_picture(both.image)), *zip(captions, shown_heat)])
    )
one, other = on_left.values()
if seen.photographs:
    assert (
        one["Grad-CAM"] > 0.9
        and other["Grad-CAM"] < 0.1
        and one["occlusion"] > 0.8
        and other["occlusion"] < 0.05
    )
    assert 0.6 < one["guided backprop"] < 0.75 and 0.4 < other["guided backprop"] < 0.6
show(
    picture_rows(
        rows,
        title="Two classes of one collage, and the share of the heat on the left half; "
        "each map on its own scale",
        label=0.95,
    ),
    "Two rows, each with a collage of two pictures and three heat maps over it. "
    + " ".join(
        f"For {name}, the share of the heat on the left half is "
        + ", ".join(f"{share:.0%} with {method}" for method, share in shares.items())
        + "."
        for name, shares in on_left.items()
    ),
)

# %% [markdown]
# Grad-CAM and occlusion, which know nothing of each other, agree: the cat is on the left, the espresso on the right. Guided
# backprop draws the cat's eye and the rim of the cup, finely, and for both classes.
#
# On the drawings we can measure this. The answer to *why this class?* should be different for each class. So let us
# correlate the map for the class of each drawing with the map for the next class in the list. 1 means that the two maps
# have the same pattern, and 0 that they have nothing in common.
#
# **Predict.** Which method has the larger correlation, `"saliency"` or `"Grad-CAM"`?

# %%
guess("10-class-blind", larger="saliency")


# %%
def correlation(first, second):
    """The correlation of two heat maps over their pixels, averaged over all
    drawings.
    """
    first, second = first.flatten(1), second.flatten(1)
    first, second = (
        first - first.mean(1, keepdim=True),
        second - second.mean(1, keepdim=True),
    )
    return F.cosine_similarity(first, second).mean().item()


next_class = (labels + 1) % 3
cam_heat = enlarge(cams_of(net, drawings, labels))
cam_next = enlarge(cams_of(net, drawings, next_class))
alike = {
    "saliency": correlation(saliencies, saliency_of(net, next_class)),
    "Grad-CAM": correlation(cam_heat, cam_next),
}
for name, value in alike.items():
    print(f"{name} {value:.2f}")
compare("10-class-blind", larger=max(alike, key=alike.get))
assert alike["saliency"] > 0.6 and alike["Grad-CAM"] < 0.3

# %% [markdown] explains="10-class-blind"
# Saliency shows much the same pixels, whichever class we ask for. This is no surprise: the pixels that would change one
# logit most are pixels of the shape, and they would change the others as well. Grad-CAM tells the classes apart.

# %% [markdown]
# ## Guided Grad-CAM: sharp and in the right place
#
# Guided backprop has the resolution of the image. Grad-CAM knows the class, but has only 16 by 16 pixels. Their product
# has the best of both. To multiply them, we enlarge the small map to the size of the image, with `F.interpolate`.
#
# **Predict.** Two pixels in a row, 0 and 8, are enlarged to four. Which four numbers come out by default, when each new
# pixel copies the nearest old one? And which with `mode="bilinear"`, when each lies between its two neighbours? Think of
# pixels as little squares: their centres count.

# %%
guess("10-enlarge", default=[0, 0, 8, 8], bilinear=[0, 2, 6, 8])

# %%
two = torch.tensor([[[[0.0, 8.0]]]])
blocks = F.interpolate(two, size=(1, 4))
print("default:                  ", blocks.flatten().tolist())
smooth = F.interpolate(two, size=(1, 4), mode="bilinear", align_corners=False)
print("bilinear:                 ", smooth.flatten().tolist())
aligned = F.interpolate(two, size=(1, 4), mode="bilinear", align_corners=True)
print(
    "bilinear, aligned corners:",
    [round(value, 2) for value in aligned.flatten().tolist()],
)
compare("10-enlarge", default=blocks.flatten(), bilinear=smooth.flatten())
assert blocks.flatten().tolist() == [0, 0, 8, 8]
assert smooth.flatten().tolist() == [0, 2, 6, 8] and torch.allclose(
    aligned.flatten(), torch.tensor([0, 8 / 3, 16 / 3, 8])
)

# %% [markdown] explains="10-enlarge"
# The default mode, `"nearest"`, makes blocks. Bilinear interpolation is smooth. With `align_corners=False`, which is the
# default, each pixel is a little square, and each square of the small image covers two of the large one: this is what we
# want here. With `True`, the centres of the corner pixels of both images coincide, and everything between is stretched.

# %% [markdown]
# `F.interpolate` wants four dimensions, [B, channels, h, w].
#
# One trap is left. Guided backprop changes the gradients of the whole backward pass, including those that arrive at the
# layer. What is computed from these is no longer a Grad-CAM. And from lesson 7 you know that full backward hooks are
# bound in the forward pass: removing them afterwards is too late. So run the model twice, once without them and once
# with them.


# %% exercise="10-guided-grad-cam"
def guided_grad_cam(model, layer, x, cls):
    """Guided backprop times Grad-CAM."""

    ### BEGIN SOLUTION
    def heat():
        kept = {}
        with layer.register_forward_hook(
            lambda module, args, output: kept.update(maps=output)
        ):
            logits = model(x)
        (gradient,) = torch.autograd.grad(logits[:, cls].sum(), kept["maps"])
        return (
            (gradient.mean((2, 3), keepdim=True) * kept["maps"])
            .sum(1, keepdim=True)
            .relu()
            .detach()
        )

    def guided():
        own = x.detach().clone().requires_grad_()
        with contextlib.ExitStack() as stack:
            for module in model.modules():
                if isinstance(module, nn.ReLU):
                    hook = module.register_full_backward_hook(
                        lambda module, gi, go: (gi[0].clamp(min=0),)
                    )
                    stack.enter_context(hook)
            (gradient,) = torch.autograd.grad(model(own)[:, cls].sum(), own)
        return gradient

    return guided() * F.interpolate(
        heat(), size=x.shape[2:], mode="bilinear", align_corners=False
    )
    ### END SOLUTION


# %% [markdown]
# Now all four, side by side, for one drawing of each class. The white box shows where the shape is, the blue cross marks
# the largest value. Each map has a scale of its own.

# %% tags=["figure"]
product_heat = (guided * cam_heat[:, None]).abs().amax(1)
methods = {
    "saliency": saliencies,
    "guided backprop": guided_heat,
    "Grad-CAM": cam_heat,
    "guided Grad-CAM": product_heat,
}


def peak_of(heat):
    """Row and column of the first largest pixel."""
    return divmod(heat.argmax().item(), heat.shape[1])


figure, axes = card(8.2, 5.15)
for column, name in enumerate(("drawing", *methods)):
    caption(axes, 0.95 + 1.57 * column, 4.92, name, align="center", size=10)
inside = []
for row, k in enumerate(shown):
    bottom = 3.25 - 1.57 * row
    place(axes, as_picture(drawings[k]), 0.2, bottom, 1.5, box=boxes[k])
    for column, heat in enumerate(methods.values()):
        peak = peak_of(heat[k])
        place(
            axes,
            heat_over(drawings[k], heat[k]),
            1.77 + 1.57 * column,
            bottom,
            1.5,
            box=boxes[k],
            peak=peak,
        )
        x0, y0, x1, y1 = boxes[k].tolist()
        inside.append(x0 <= peak[1] < x1 and y0 <= peak[0] < y1)
axes.set(xlim=(0, 8.2), ylim=(0, 5.15))
assert all(inside)
show(
    figure,
    "Three rows, for a circle, a square and a triangle. Each shows the drawing, "
    "saliency, guided backprop, Grad-CAM and guided Grad-CAM as heat over the gray "
    "drawing, with the box of the shape in white and a blue cross at the largest "
    "value. Saliency is grainy, guided backprop shows outlines, Grad-CAM is a coarse "
    "smooth spot, and guided Grad-CAM shows outlines only where Grad-CAM is hot. All "
    "crosses are inside their boxes.",
)

# %% [markdown]
# ## The pointing game
#
# Such pictures are convincing, but three drawings prove nothing. We know the boxes, so we can count. In the **pointing
# game** each heat map points with its largest pixel. If that pixel is in the box of the object, it is a **hit**. The
# score is the share of hits.
#
# Three details decide whether the count is right.
#
# **Where is the peak?** `argmax` of a flattened map returns one number. Divided by the **width**, it gives the row, which is
# y, and what remains is the column, which is x. A box lists x first.
#
# **Half open.** A box contains x0 but not x1, as slices do in Python: `image[:, y0:y1, x0:x1]` is what is inside.
#
# **Nothing to point with.** A Grad-CAM can be 0 everywhere, when everything in the image speaks against the class.
#
# **Predict.** What does `argmax` return for a map of zeros? Write a number, `None`, or `"raises"`.

# %%
guess("10-argmax-of-zeros", place=0)

# %%
print("argmax of zeros:", torch.zeros(1, 12).argmax(1).item())
compare("10-argmax-of-zeros", place=torch.zeros(1, 12).argmax(1))
assert torch.zeros(1, 12).argmax(1) == 0

# %% [markdown] explains="10-argmax-of-zeros"
# 0: the first pixel. If the box happened to be in the upper left corner, this would count as a hit. But a map of zeros
# points nowhere.

# %% [markdown]
# The next exercise needs no hook and is optional: the lesson goes on without it.


# %% exercise="10-pointing-game"
def pointing_game(cam, boxes, size):
    """The share of heat maps [B, h, w] whose largest pixel, at the size of the
    image, is in the box.
    """
    ### BEGIN SOLUTION
    large = F.interpolate(
        cam[:, None], size=size, mode="bilinear", align_corners=False
    )[:, 0]
    top, place = large.flatten(1).max(1).values, large.flatten(1).argmax(1)
    y, x = place // size[1], place % size[1]
    x0, y0, x1, y1 = boxes.T
    hit = (top > 0) & (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)
    return hit.float().mean().item()
    ### END SOLUTION


# %% [markdown]
# ## What the score says
#
# Now all methods play, on 100 drawings. A method that knows nothing points just anywhere. Its share of hits is the share
# of the area that the boxes cover: this is *chance*.
#
# **Predict.** Which of the four comes last: `"saliency"`, `"guided backprop"`, `"Grad-CAM"` or `"guided Grad-CAM"`? And
# is it still better than chance, `"yes"` or `"no"`?

# %%
guess("10-pointing", last="Grad-CAM", better_than_chance=True)


# %%
def share_of_hits(heat):
    """The share of heat maps at the size of the drawings whose largest pixel is in
    the box.
    """
    hits = 0
    for one, (x0, y0, x1, y1) in zip(heat, boxes.tolist()):
        y, x = peak_of(one)
        hits += one[y, x].item() > 0 and x0 <= x < x1 and y0 <= y < y1
    return hits / len(heat)


width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
chance = (width * height).float().mean().item() / 64**2
scores = {name: share_of_hits(heat) for name, heat in methods.items()}
print(f"chance {chance:.2f}")
for name, value in scores.items():
    print(f"{name:16} {value:.2f}")
compare(
    "10-pointing",
    last=min(scores, key=scores.get),
    better_than_chance=min(scores.values()) > chance,
)
assert chance < 0.1 and 0.7 < scores["Grad-CAM"] < 0.85
assert (
    0.88 < scores["saliency"] < scores["guided backprop"]
    and scores["guided backprop"] > 0.95
)
assert (
    scores["guided Grad-CAM"] > 0.95
    and min(scores.values()) == scores["Grad-CAM"] > 5 * chance
)

# %% [markdown] explains="10-pointing"
# All four are far better than chance. Guided backprop points into the box every time, or nearly so. Grad-CAM comes last.
# So is guided backprop the best explanation?

# %% [markdown]
# Let us put two more questions to the same methods:
#
# - **Another class.** We ask why the drawing should be a *different* class, the next one in the list. A map that explains
#   this class should not point at the shape as often.
# - **An untrained net.** Its weights are random, and it has learned nothing. There is nothing to explain.
#
# **Predict.** What happens to the score of guided backprop, and to that of Grad-CAM? Write `"falls"` if you think that
# both questions bring it below half of what it was, otherwise `"stays"`.

# %%
guess("10-sanity", guided_backprop="stays", grad_cam="falls")

# %%
torch.manual_seed(0)
untrained = ShapesNet().to(device).eval()


def play(model, classes):
    sharp = guided_gradients(model, drawings, classes)
    spot = enlarge(cams_of(model, drawings, classes))
    heats = (
        saliency_of(model, classes),
        sharp.abs().amax(1),
        spot,
        (sharp * spot[:, None]).abs().amax(1),
    )
    return dict(zip(methods, map(share_of_hits, heats)))


other, blank = play(net, next_class), play(untrained, labels)
print(f"{'':16} right class  other class  untrained")
for name in methods:
    print(f"{name:16} {scores[name]:11.2f} {other[name]:12.2f} {blank[name]:10.2f}")
what = {
    name: "falls" if max(other[name], blank[name]) < scores[name] / 2 else "stays"
    for name in methods
}
compare("10-sanity", guided_backprop=what["guided backprop"], grad_cam=what["Grad-CAM"])
empty = (cams_of(untrained, drawings, labels).amax((1, 2)) == 0).float().mean()
print(f"Grad-CAM of the untrained net is 0 everywhere for {empty:.0%} of the drawings")
assert other["guided backprop"] > 0.9 and blank["guided backprop"] > 0.8
assert other["saliency"] > 0.85 and blank["saliency"] < 0.5
assert other["guided Grad-CAM"] > 0.65 and blank["guided Grad-CAM"] < 0.3
assert empty > 0.5
assert (
    other["Grad-CAM"] < scores["Grad-CAM"] / 2
    and blank["Grad-CAM"] < scores["Grad-CAM"] / 2
)

# %% tags=["figure"]
figure, axes = card(8.2, 3.3)
caption(
    axes,
    0.4,
    3.05,
    f"Pointing game on {len(drawings)} drawings: share of hits",
    size=11,
)
bars = (
    ("right class", scores, FORWARD),
    ("another class", other, "#9fc0e6"),
    ("untrained net", blank, QUIET),
)
axes.plot([0.95, 7.8], [0.75, 0.75], color=QUIET, linewidth=0.6)
for level in (0, 0.5, 1):
    axes.plot([0.9, 0.98], [0.75 + 1.7 * level] * 2, color=QUIET, linewidth=0.8)
    caption(
        axes,
        0.85,
        0.75 + 1.7 * level,
        f"{level:.0%}",
        align="right",
        size=8.5,
        colour=QUIET,
    )
for group, name in enumerate(methods):
    for position, (_, values, colour) in enumerate(bars):
        centre = 1.3 + 1.75 * group + 0.42 * position
        axes.bar(centre, 1.7 * values[name], bottom=0.75, width=0.36, color=colour)
        label = (
            0.75 + 1.7 * max(values[name], chance if values[name] < 0.12 else 0) + 0.1
        )
        caption(axes, centre, label, f"{values[name]:.2f}", align="center", size=8)
    caption(axes, 1.72 + 1.75 * group, 0.57, name, align="center", size=9.5)
axes.plot(
    [0.95, 7.85], [0.75 + 1.7 * chance] * 2, color=INK, linewidth=1, linestyle="--"
)
caption(axes, 0.85, 0.75 + 1.7 * chance + 0.02, "chance", size=8, align="right")
for position, (name, _, colour) in enumerate(bars):
    axes.add_patch(
        plt.Rectangle((1.2 + 2.2 * position, 0.16), 0.16, 0.16, facecolor=colour)
    )
    caption(axes, 1.45 + 2.2 * position, 0.24, name, size=9)
axes.set(xlim=(0, 8.2), ylim=(0, 3.3))
show(
    figure,
    "Bar chart of the share of hits. "
    + " ".join(
        f"{name}: {scores[name]:.2f} for the right class, {other[name]:.2f} for "
        f"another class, {blank[name]:.2f} with an untrained net."
        for name in methods
    )
    + f" A dashed line marks chance, {chance:.2f}.",
)

# %% [markdown] explains="10-sanity"
# Guided backprop hits about as often when it is asked for another class, and when the net has learned nothing at all.
# It finds the edges of whatever stands out, and in these drawings only the shape stands out. A picture that hardly
# depends on the class, or on what was learned, cannot explain a prediction.
#
# Saliency needs a trained net, but it does not care about the class. Guided Grad-CAM needs a trained net, too, and asked
# for another class it still points at the shape in most drawings. Only Grad-CAM falls below half of its score in both
# cases. For the untrained net, most of its maps are even 0 everywhere: it points nowhere, and rightly so.
#
# **A good score is not enough. Ask the method something to which it should have no good answer.** Such questions are
# called *sanity checks*.

# %% [markdown]
# And why does Grad-CAM miss at all? Let us see how far outside the box its peaks are when it does.

# %%
distances = []
for one, (x0, y0, x1, y1) in zip(cam_heat, boxes.tolist()):
    y, across = peak_of(one)
    # 0 or less: inside
    distances.append(max(x0 - across, across - (x1 - 1), y0 - y, y - (y1 - 1)))
missed = [distance for distance in distances if distance > 0]
print(
    len(missed),
    "misses;",
    sum(distance <= 4 for distance in missed),
    "of them by 4 pixels or less",
)
assert len(missed) == 100 - round(100 * scores["Grad-CAM"]) and sum(
    d <= 4 for d in missed
) > 0.85 * len(missed)
pixels = drawings[:1].clone().requires_grad_()
reached = (
    torch.autograd.grad(net.features(pixels)[0, :, 8, 8].sum(), pixels)[0]
    .abs()
    .sum((0, 1, 2))
    > 0
)
print(
    "width of what one position sees:",
    reached.nonzero().max().item() - reached.nonzero().min().item() + 1,
    "pixels",
)
assert reached.nonzero().max() - reached.nonzero().min() + 1 > 12

# %% [markdown]
# Nearly all by a few pixels. One position of the last maps stands for 4 by 4 pixels of the drawing, and it sees a much
# larger area around them. So a position just outside the box can still respond to the edge of the shape.
#
# Finally, your own Grad-CAM on the same drawings. Rounding may make it differ by one hit from ours.

# %%
try:
    mine = torch.zeros(len(drawings), 16, 16, device=device)
    for c in range(3):
        mine[labels == c] = grad_cam(net, net.features[-1], drawings[labels == c], c)
    score = pointing_game(mine, boxes, (64, 64))
except NotImplementedError:
    print("Solve 10-grad-cam and 10-pointing-game, then run this cell again.")
else:
    print(
        f"your Grad-CAM, scored by your pointing game: {score:.2f}   ours: "
        f"{scores['Grad-CAM']:.2f}"
    )
    assert abs(score - scores["Grad-CAM"]) * len(drawings) < 1.5

# %% [markdown]
# ## The game on photos
#
# In the drawings nothing but the shape stands out, so whatever finds edges finds the shape. In a collage two things stand
# out. Now a method has to point at the one that it is asked for. All collages are made of the same two photos, in half of
# them the cat is on the right, and each is asked for both classes.
#
# **Predict.** A method does not care about the class: asked for the cat or for the espresso, it points at the same pixel.
# In which share of these questions does it hit the right half?

# %%
guess("10-always-there", share=0.5)


# %%
def hits_of(method):
    """For each collage and each of its two classes, whether the map's largest pixel
    is on the right half.
    """
    hits = []
    for picture in seen.collages:
        x = seen.prepare(picture.image[None]).to(device)
        for c in (picture.left, picture.right):
            _, column = peak_of(method(x, torch.tensor([c], device=device))[0])
            hits.append((column < x.shape[3] // 2) == (c == picture.left))
    return hits


def class_blind(x, classes):
    return x.mean(1)  # how bright the picture is


clamped = guided_copy(eye, seen.relu)
games = {
    "class-blind": hits_of(class_blind),
    "guided backprop": hits_of(
        lambda x, classes: input_gradients(clamped, x, classes).abs().amax(1)
    ),
    "Grad-CAM": hits_of(
        lambda x, classes: enlarge(cams_of(eye, x, classes), x.shape[2:])
    ),
}
for name, hits in games.items():
    print(f"{name:16} {sum(hits):2} of {len(hits)}")
compare("10-always-there", share=sum(games["class-blind"]) / len(games["class-blind"]))
assert sum(games["class-blind"]) * 2 == len(games["class-blind"])
if seen.photographs:
    assert [sum(hits) for hits in games.values()] == [8, 8, 16]
    assert 2 * sum(picture.left == both.left for picture in seen.collages) == len(
        seen.collages
    )

# %% [markdown] explains="10-always-there"
# One half: of its two questions, the same pixel answers one right. This is chance, and on the photos guided backprop, the
# winner among the drawings, gets no further: 8 of 16. Grad-CAM gets all 16. (It is one cat and one cup. That is a
# demonstration, not a benchmark.)

# %% [markdown]
# ## Is the map true?
#
# A map claims that some channels spoke for the class. So take them away, and see whether the answer changes. A forward hook
# does it, for all counts at once: it returns a batch in which copy n lacks the n channels that add most to the logit.


# %%
def without_channels(x, order, count):
    """The logits when the first n channels of `order` are 0 in the last maps, for n
    from 0 to count.
    """

    def switch_off(module, args, output):
        copies = output.repeat(count + 1, 1, 1, 1)
        for n in range(count + 1):
            copies[n, order[:n]] = 0
        return copies

    with (
        eye.get_submodule(seen.layers[-1]).register_forward_hook(switch_off),
        torch.no_grad(),
    ):
        return eye(x)


count, curves = (50 if seen.photographs else 20), {}
for name, picture in seen.images.items():
    x = seen.prepare(picture[None]).to(device)
    with torch.no_grad():
        maps = eye.features(x)[0]
        answer = eye(x).argmax().item()
    strongest = (eye.fc.weight[answer] * maps.mean((1, 2))).argsort(descending=True)
    live = (maps.amax((1, 2)) > 0).nonzero()[:, 0]
    any_live = live[
        torch.randperm(len(live), generator=torch.Generator().manual_seed(0)).to(device)
    ]
    results = [
        without_channels(x, order, count).softmax(1) for order in (strongest, any_live)
    ]
    changed = [
        (result.argmax(1) != answer).nonzero()[:, 0].tolist() for result in results
    ]
    then = (
        seen.class_name(results[0][changed[0][0]].argmax().item()) if changed[0] else ""
    )
    curves[name] = (
        seen.class_name(answer),
        changed[0][0] if changed[0] else None,
        then,
        [r[:, answer].cpu() for r in results],
    )
    print(
        f"{name:9} {curves[name][0]}: the strongest {curves[name][1]} off: {then};",
        end=" ",
    )
    print(
        f"any {count} live ones off: the answer {'changes' if changed[1] else 'stays'}"
    )
    assert changed[0] and not changed[1]
if seen.photographs:
    assert [at for _, at, _, _ in curves.values()] == [24, 23, 5]
    # a doubt
    assert [bool(first[0] > 0.6) for *_, (first, _) in curves.values()] == [
        True,
        True,
        False,
    ]
    assert [then for _, _, then, _ in curves.values()] == [
        "tabby cat",
        "consomme",
        "mortarboard",
    ]

# %% tags=["figure"]
figure, axes = card(8.2, 2.5)
for column, (answer, at, then, lines) in enumerate(curves.values()):
    edge = 0.65 + 2.55 * column
    caption(axes, edge, 2.3, f"{answer}", size=10)
    axes.plot([edge, edge, edge + 2.1], [2.05, 0.55, 0.55], color=QUIET, linewidth=0.7)
    for line, colour in zip(lines, (FORWARD, QUIET)):
        axes.plot(
            torch.linspace(edge, edge + 2.1, len(line)).numpy(),
            (0.55 + 1.5 * line).numpy(),
            color=colour,
            linewidth=1.5,
        )
    place_of_change = edge + 2.1 * at / count
    axes.plot(
        [place_of_change] * 2, [0.55, 2.05], color=BACKWARD, linewidth=1, linestyle="--"
    )
    caption(
        axes,
        place_of_change + 0.05,
        1.93,
        f"{at} off: {then}",
        size=8.5,
        colour=BACKWARD,
    )
    for level in (0, 1):
        caption(
            axes,
            edge - 0.05,
            0.55 + 1.5 * level,
            f"{level:.0%}",
            align="right",
            size=8,
            colour=QUIET,
        )
    caption(axes, edge, 0.4, "0", size=8, colour=QUIET)
    caption(
        axes, edge + 2.1, 0.4, f"{count} channels", align="right", size=8, colour=QUIET
    )
caption(axes, 0.65, 0.15, "blue: the strongest first", size=9, colour=FORWARD)
caption(axes, 2.9, 0.15, "gray: any channels that are not dead", size=9, colour=QUIET)
show(
    figure,
    f"Three line plots: the probability of the answer while up to {count} channels of "
    "the last layer are switched off. With the strongest first it falls steeply, and "
    + "; ".join(
        f"{answer} becomes {then} after {at}" for answer, at, then, _ in curves.values()
    )
    + ". With live channels in any order it hardly falls.",
)

# %% [markdown]
# A few of 1280 channels carry the answer: 5 for the uniform, which the net doubted anyway, and 23 or 24 for the cup and the
# cat. Fifty others, drawn from those that are not dead, change no answer. So the channels that Grad-CAM weighs are those
# that count. Each answer changes into its neighbour: another cat, a cup of soup, another cap.
#
# The last question is the second of the sanity checks above, in small steps: shuffle the weights of the layers, first those
# of the classifier, then more and more towards the image. Which maps notice? Each dot is one shuffle.


# %% tags=["figure"]
def shuffled(model, prefixes, seed):
    """A copy of the model; the weights of convolutions and linear layers under these
    names are in a random order.
    """
    model, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)) and name.startswith(prefixes):
                order = torch.randperm(module.weight.numel(), generator=generator).to(
                    device
                )
                module.weight.copy_(
                    module.weight.flatten()[order].view_as(module.weight)
                )
    return model


if seen.photographs:
    late_blocks = tuple(f"features.blocks.{k}." for k in (12, 13, 14, 15))
    stages = {
        "fc": ("fc",),
        "and the last 4 blocks": ("fc", "features.head", *late_blocks),
        "all": ("",),
    }
else:
    stages = {
        "fc": ("fc",),
        "and the last 2 blocks": ("fc", "features.5", "features.4"),
        "all": ("",),
    }
x, c = seen.prepare(both.image[None]).to(device), asked[:1]


def explain(model):
    """Both maps, in one pass. The clamps lie before the last maps, so that Grad-CAM
    is what it always is.
    """
    image = x.clone().requires_grad_()
    maps = model.features(image)
    at_maps, at_image = torch.autograd.grad(
        model.fc(maps.mean((2, 3)))[0, c].sum(), (maps, image)
    )
    cam = (at_maps.mean((2, 3), keepdim=True) * maps).sum(1).relu().detach()
    return {
        "Grad-CAM": cam.flatten(),
        "guided backprop": at_image.abs().amax(1).flatten(),
    }


trained = explain(clamped)
similar = {(stage, name): [] for name in trained for stage in stages}
for stage, prefixes in stages.items():
    for seed in range(3):
        for name, heat in explain(shuffled(clamped, prefixes, seed)).items():
            pair = torch.stack([heat, trained[name]])
            # of a flat map: 0
            similar[stage, name].append(torch.corrcoef(pair)[0, 1].nan_to_num().item())

figure, axes = card(8.2, 2.3)
caption(
    axes,
    0.4,
    2.08,
    "How like the map of the trained net: correlation; each dot is one shuffle",
    size=11,
)
for column, (stage, name) in enumerate(similar):
    x_at = 1.4 + 1.15 * column + (0.4 if column > 2 else 0)
    for position, value in enumerate(similar[stage, name]):
        axes.plot(
            [x_at - 0.12 + 0.12 * position],
            [0.95 + 0.85 * value],
            "o",
            markersize=5,
            color=FORWARD if name == "Grad-CAM" else BACKWARD,
        )
    caption(axes, x_at, 0.3, stage, align="center", size=8.5)
for level in (0, 0.5, 1):
    axes.plot(
        [0.85, 8.0],
        [0.95 + 0.85 * level] * 2,
        color=QUIET,
        linewidth=0.6,
        linestyle="--",
    )
    caption(
        axes,
        0.75,
        0.95 + 0.85 * level,
        f"{level:g}",
        align="right",
        size=8.5,
        colour=QUIET,
    )
caption(
    axes, 2.55, 0.1, "Grad-CAM: shuffled are", align="center", size=9, colour=FORWARD
)
caption(
    axes,
    6.4,
    0.1,
    "guided backprop: shuffled are",
    align="center",
    size=9,
    colour=BACKWARD,
)
show(
    figure,
    "Dots, three for each of three stages and two methods: the correlation with the "
    "map of the trained net. "
    + " ".join(
        f"{name}, {stage} shuffled: {min(values):.2f} to {max(values):.2f}."
        for (stage, name), values in similar.items()
    ),
)
if seen.photographs:
    values = {key: (min(found), max(found)) for key, found in similar.items()}
    assert all(
        low > 0.9
        for (stage, name), (low, _) in values.items()
        if stage == "fc" and "guided" in name
    )
    assert all(
        low > 0.5
        for (stage, name), (low, _) in values.items()
        if "last" in stage and "guided" in name
    )
    assert all(
        high < 0.8 for (_, name), (_, high) in values.items() if name == "Grad-CAM"
    )
    assert values["all", "guided backprop"][1] < 0.1
    assert min(low for (_, name), (low, _) in values.items() if name == "Grad-CAM") < 0
    assert trained["Grad-CAM"].numel() == 49

# %% [markdown]
# Without a classifier that means anything, Grad-CAM scatters around 0. It has only 49 values here, so a single shuffle may
# still come out alike, and one number would prove nothing. Guided backprop hardly notices until the first layers are gone: it
# shows what the picture looks like, not why the net answered.
#
# ## Myths
#
# **"For Grad-CAM, put a full backward hook on the last convolution."** Many recipes say so. If the ReLU behind that
# convolution works in place, as in torchvision's VGG and AlexNet, the forward pass raises. A tensor hook inside a forward
# hook, or `autograd.grad`, has no such trouble.

# %%
torch.manual_seed(0)
conv, inplace = nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True)
image = torch.randn(1, 1, 5, 5)
with conv.register_full_backward_hook(lambda module, grad_input, grad_output: None):
    try:
        inplace(conv(image))
    except RuntimeError as error:
        print("RuntimeError:", str(error)[:92], "...")
        assert "is a view and is being modified inplace" in str(error)
    else:
        raise AssertionError("this torch allows it")

caught = []
with contextlib.ExitStack() as stack:

    def watch(module, args, output):
        stack.enter_context(output.register_hook(caught.append))

    stack.enter_context(conv.register_forward_hook(watch))
    inplace(conv(image)).sum().backward()
print("tensor hook:", tuple(caught[0].shape))
assert caught[0].shape == (1, 2, 3, 3)

# %% [markdown]
# **"Logit or probability: the map is the same."** It is not. The probability of a class depends on all logits. Its
# derivative is `p_c * (d logit_c - sum of p_j * d logit_j)`. So all other classes count, and where the model is sure,
# `p_c` is close to 1, the sum is close to `d logit_c`, and everything becomes tiny.


# %%
def cam_for(score):
    maps = net.features(drawings[number : number + 1])
    (gradient,) = torch.autograd.grad(
        score(net.fc(maps.mean((2, 3))))[0, labels[number]], maps
    )
    return (gradient.mean((2, 3), keepdim=True) * maps).sum(1).relu()[0].detach()


logit_map, probability_map = (
    cam_for(lambda logits: logits),
    cam_for(lambda logits: logits.softmax(1)),
)
print(f"largest heat: {logit_map.max().item():.4f} {probability_map.max().item():.6f}")
similar = F.cosine_similarity(
    logit_map.flatten(), probability_map.flatten(), dim=0
).item()
print(
    f"similarity of the two patterns (1 means: equal but for a factor): {similar:.3f}"
)
assert probability_map.max() < logit_map.max() / 100 and similar < 0.999
assert net(drawings[number : number + 1]).softmax(1).max() > 0.99
assert all(  # p_c * (d logit_c - sum of p_j * d logit_j)
    torch.allclose(
        torch.func.grad(lambda v: v.softmax(0)[c])(v), p[c] * (torch.eye(3)[c] - p)
    )
    for v in [torch.tensor([1.0, 2.0, 0.5])]
    for p in [v.softmax(0)]
    for c in range(3)
)

# %% [markdown]
# **"Hooks need global lists for the gradients."** In many posts `gradients = []` stands at the top of the file, and every
# call appends to it. After the second image, `gradients[0]` still belongs to the first. A dict *inside* the function is
# enough: a hook is a closure, and each call has a dict of its own.

# %%
gradients = []  # as in the posts


def weights_by_global_list(image):
    with contextlib.ExitStack() as stack:

        def keep(module, args, output):
            stack.enter_context(output.register_hook(gradients.append))

        stack.enter_context(net.features[2].register_forward_hook(keep))
        torch.autograd.grad(net(image)[0, 0], list(net.parameters()))
    return gradients[0].mean((2, 3))


first, second = (
    weights_by_global_list(drawings[:1]),
    weights_by_global_list(drawings[1:2]),
)
print(
    "entries in the list:",
    len(gradients),
    "  same weights for two images:",
    torch.equal(first, second),
)
assert len(gradients) == 2 and torch.equal(first, second)

# %% [markdown]
# ## On your own model
#
# Where does it look for its two best answers? `your_model` takes a name, or a model of yours with an input for it; it
# downloads nothing.

# %%
from graders.nets import your_model

net, x = your_model("resnet18")
convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
try:
    for cls in net(x)[0].topk(2).indices.tolist() if convolutions else []:
        heat = grad_cam(net, convolutions[-1], x, cls)[0]
        y, across = divmod(heat.argmax().item(), heat.shape[1])
        print(
            f"class {cls}: the peak is in row {y}, column {across} of "
            f"{tuple(heat.shape)}"
        )
except NotImplementedError:
    print("Solve 10-grad-cam, then run this cell again.")

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `relu.register_full_backward_hook(hook)` | `hook(module, grad_input, grad_output)` | when the gradient leaves the module | a tuple replaces `grad_input`: the clamp of guided backprop |
# | `layer.register_forward_hook(hook)` | `hook(module, args, output)` | at the end of `layer(x)` | `None`: keep `output`, with its graph, for Grad-CAM |
# | `output.register_hook(hook)` | `hook(grad)` | when the gradient of `output` is ready | `None`: nothing; works with in-place ReLUs, too |
#
# | method | in one line | what it knows |
# |---|---|---|
# | saliency | `gradient.abs().amax(1)` at the input | the shape; hardly the class |
# | guided backprop | the same gradient, clamped behind every ReLU | edges; hardly the class, hardly the training |
# | Grad-CAM | `(gradient.mean((2, 3), keepdim=True) * A).sum(1).relu()` | the class; coarse |
# | guided Grad-CAM | guided backprop times the enlarged Grad-CAM | both, with some of the weakness of guided backprop |
# | pointing game | the share of peaks in the box | whether the peak is on the object; not why |
#
# ## Where you meet this in the wild
#
# - **Captum**, a library for the interpretability of PyTorch models, has saliency, deconvnets, guided backprop, Grad-CAM
#   and guided Grad-CAM. For guided backprop it puts hooks on the ReLUs of the model, as you did.
# - **pytorch-grad-cam** changed from full backward hooks to tensor hooks that are registered inside a forward hook: with
#   the former, models with in-place ReLUs failed.
# - **Medical imaging.** Heat maps on X-rays have shown that a net looked at markings of the hospital instead of the
#   lungs. That only helps if the method itself passes the sanity checks.
#
# Next: lesson 11, on hygiene: where old hooks come from, and why memory grows.

# %%
progress()
