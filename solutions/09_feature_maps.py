# %% [markdown]
# # Lesson 9. Feature maps: numbers first, pictures second
#
# **The question.** A ResNet looks at a photo. What do its layers see, early, in the middle, and late?
#
# **The goal.** You can capture the feature maps of all convolutions, draw them in a grid without fooling yourself, sum up
# a whole data set in a few numbers for each channel, and watch every layer of a network while it learns.
#
# As always: guess first, run the cell, then read on.

# %%
import contextlib
import io
import itertools
import math
import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import BACKWARD, FORWARD, INK, QUIET, arrow, caption, card, map_grid, node, show
from graders.nets import CLASSES, draw_shapes, imagenet_resnet34, resnet34, shapes_net
from graders.nets.resnet import MEAN, STD

# The convolutions are small: one thread is enough, and on a shared machine many wait for each other.
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device:", device)

# %% [markdown]
# ## A real network
#
# ResNet-34 is an image classifier with 21.8 million weights. Ours is written in plain `torch.nn`, and its `state_dict`
# has the same keys as that of torchvision's version. So the weights that PyTorch publishes, trained on the photos of
# ImageNet, fit into it. They are a download of 87 MB. `imagenet_resnet34()` fetches them once, and returns `None` when
# there is no network.

# %%
print("Looking for ImageNet weights ...")
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    model = imagenet_resnet34()  # torch.hub prints where the file comes from and goes to

if model is None:
    print("No ImageNet weights: imagenet_resnet34() returned None.")
    print("So this ResNet-34 has random weights. All names and shapes are real, but its maps mean little.")
    print("Maps that mean something come later, from a small net that was trained on drawn shapes.")
    torch.manual_seed(0)
    model, weights = resnet34().eval(), "random weights"
else:
    print("This ResNet-34 has ImageNet weights.")
    weights = "ImageNet weights"

model = model.to(device)
million = sum(p.numel() for p in model.parameters()) / 1e6
print(f"{million:.1f} million weights of 4 bytes: {4 * million:.0f} MB")
assert not model.training and (round(million, 1), round(4 * million)) == (21.8, 87)

# %% [markdown]
# Everything that follows works with either set of weights.
#
# The photo ships with matplotlib: Grace Hopper, a pioneer of programming languages, in uniform. A network expects its
# images as they were in training: 224 by 224 pixels, values from 0 to 1, then shifted and scaled by the mean and the
# standard deviation of each colour over ImageNet.

# %%
with get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file)
print("photo:", photo.shape, photo.dtype)
assert photo.shape == (600, 512, 3) and photo.dtype == np.uint8

pixels = torch.tensor(photo).permute(2, 0, 1)[None] / 255  # [1, 3, 600, 512], from 0 to 1
small = F.interpolate(pixels, size=(300, 256), mode="bilinear", antialias=True)
crop = small[:, :, 8:232, 16:240]  # the head and the shoulders
image = ((crop - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]).to(device)
print("image:", tuple(image.shape))
assert image.shape == (1, 3, 224, 224)

# %% tags=["figure"]
figure, axes = card(8.2, 2.9)
axes.imshow(crop[0].permute(1, 2, 0).numpy(), extent=(0.3, 2.2, 0.65, 2.55), aspect="auto")
for x, side, what, size in (
    (3.45, 0.95, "convolution 0", "64 maps, 112 x 112"),
    (5.3, 0.55, "convolution 15", "128 maps, 28 x 28"),
    (7.1, 0.25, "convolution 30", "512 maps, 7 x 7"),
):
    for layer in (2, 1, 0):
        shift = 0.07 * layer
        axes.add_patch(
            plt.Rectangle(
                (x - side / 2 + shift, 1.5 - side / 2 + shift), side, side, facecolor="#e4ecf7", edgecolor=INK
            )
        )
    caption(axes, x, 0.45, what, align="center")
    caption(axes, x, 0.2, size, align="center", colour=FORWARD, size=9)
caption(axes, 1.25, 0.45, "image", align="center")
caption(axes, 1.25, 0.2, "3 colours, 224 x 224", align="center", colour=FORWARD, size=9)
for start, end in ((2.25, 2.9), (4.15, 4.95), (5.8, 6.9)):
    arrow(axes, (start, 1.5), (end, 1.5))
axes.set(xlim=(0, 8.2), ylim=(0, 2.9))
show(
    figure,
    "The photo shows a person in a dark uniform and cap in front of a flag. From the image, 3 colours of 224 by 224 "
    "pixels, an arrow leads to convolution 0 with 64 maps of 112 by 112, from there to convolution 15 with 128 maps of "
    "28 by 28, and on to convolution 30 with 512 maps of 7 by 7: more and more maps, smaller and smaller.",
)

# %% [markdown]
# The output of a convolution is a tensor [B, C, H, W]. For one image, each of its C channels is a **feature map**: an
# image that is bright where the channel's filter found what it looks for. As the image goes through the network, the
# maps become smaller, and there are more of them.
#
# ## Counting convolutions
#
# The 34 in the name counts 33 convolutions and one linear layer. It leaves out the shortcuts around the blocks. Most of
# them only pass their input on. But the network has four stages, `layer1` to `layer4`, and where a stage makes the maps
# smaller, which all but the first do, the shortcut of its first block needs a convolution of its own. Otherwise the two
# paths would differ in shape and could not be added.
#
# **Predict.** How many `nn.Conv2d` does `named_modules()` find?

# %%
guess("09-convolutions", how_many=36)

# %%
convolutions = [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]
print("found:", len(convolutions))
shortcuts = [number for number, name in enumerate(convolutions) if "downsample" in name]
print("in shortcuts:", {number: convolutions[number] for number in shortcuts})
print("0, 15 and 30:", convolutions[0], convolutions[15], convolutions[30])
compare("09-convolutions", how_many=len(convolutions))
assert len(convolutions) == 36 and shortcuts == [9, 18, 31]
assert [convolutions[number] for number in (0, 15, 30)] == ["conv1", "layer2.3.conv2", "layer4.0.conv2"]

# %% [markdown] explains="09-convolutions"
# 36: 33, and 3 in shortcuts. Numbered as `named_modules()` lists them, from 0, the shortcuts are 9, 18 and 31.

# %% [markdown]
# `named_modules()` lists modules in the order of **definition**. The block `layer2.0` defines three convolutions, in
# this order: `conv1`, `conv2`, `downsample.0`.
#
# **Predict.** In which order do they run?

# %%
guess("09-order-in-a-block", order=["downsample.0", "conv1", "conv2"])

# %%
block, ran = model.layer2[0], []
with contextlib.ExitStack() as stack:
    for name in ("conv1", "conv2", "downsample.0"):

        def note(module, args, output, name=name):
            ran.append(name)

        stack.enter_context(block.get_submodule(name).register_forward_hook(note))
    with torch.no_grad():
        model(image)
print("ran:", ran)
compare("09-order-in-a-block", order=ran)
assert ran == ["downsample.0", "conv1", "conv2"]

# %% [markdown] explains="09-order-in-a-block"
# In the `forward` of this network the shortcut runs first. (That of torchvision has the same modules, and runs it last.)
# So the order of definition need not be the order of execution, and it is safer to go by names.

# %% [markdown]
# In this lesson, convolution 30 is number 30 of the list above: `layer4.0.conv2`.
#
# If you want to know what came before what, let the hooks tell you: a dict that is filled when hooks fire has its keys
# in the order of execution.
#
# One more reminder from lesson 5: whatever you keep of an output must be a copy, `output.detach().clone()`. You do not
# know what the model does to that tensor in the next line.


# %% exercise="09-conv-maps"
def conv_maps(model, x):
    """The output of every nn.Conv2d in one model(x), by name, in the order of execution."""
    ### BEGIN SOLUTION
    maps, handles = {}, []
    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):

                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()

                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
    ### END SOLUTION


# %% [markdown]
# ## Numbers first
#
# For the pictures we need the maps of three convolutions only. `capture` gets them, as in lesson 5, and returns them on
# the CPU.


# %%
def capture(model, names, x):
    kept = {}
    with contextlib.ExitStack() as stack, torch.no_grad():
        for name in names:

            def hook(module, args, output, name=name):
                kept[name] = output.detach().clone().cpu()

            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return kept


names = [convolutions[0], convolutions[15], convolutions[30]]
maps = {name: batch[0] for name, batch in capture(model, names, image).items()}  # of the only image

print(f"{'':16}{'shape':>16}{'min':>9}{'max':>9}{'mean':>9}{'std':>9}")
for name, fm in maps.items():
    low, high, mean, std = fm.min(), fm.max(), fm.mean(), fm.std()
    print(f"{name:16}{tuple(fm.shape)!s:>16}{low:9.2f}{high:9.2f}{mean:9.2f}{std:9.2f}")
assert [tuple(fm.shape) for fm in maps.values()] == [(64, 112, 112), (128, 28, 28), (512, 7, 7)]

# %% [markdown]
# Always look at such a table before you look at a picture. It shows at once whether something is all zero, infinite, or
# a thousand times as large as you thought.
#
# **Predict.** We draw two maps with `imshow`, in gray. The second map is the first times 1000. How does the second image
# look beside the first: `"brighter"`, `"darker"` or `"the same"`?

# %%
guess("09-times-1000", second="the same")  # "brighter", "darker" or "the same"

# %%
weak = torch.tensor([[0.0, 0.5], [0.25, 1.0]])
strong = 1000 * weak

left, right = Figure().subplots(1, 2)
first, second = left.imshow(weak, cmap="gray"), right.imshow(strong, cmap="gray")
print("colour limits:", [float(v) for v in first.get_clim()], [float(v) for v in second.get_clim()])
gray_levels = [image.cmap(image.norm(image.get_array()))[..., 0] for image in (first, second)]
print("gray levels: ", gray_levels[0].round(2).tolist(), gray_levels[1].round(2).tolist())
difference = (gray_levels[1] - gray_levels[0]).mean()
compare("09-times-1000", second="brighter" if difference > 0 else "darker" if difference < 0 else "the same")
assert first.get_clim() == (0, 1) and second.get_clim() == (0, 1000) and np.array_equal(*gray_levels)

# %% [markdown] explains="09-times-1000"
# The same. Left alone, `imshow` stretches each image from its own minimum (black) to its own maximum (white). Strong
# and weak maps look alike, and so does pure noise. That is fine if you want to see the *pattern* in each map, as long
# as you say so. If you want to compare maps, they need the same scale.

# %% [markdown]
# ## From maps to a picture
#
# `imshow` draws one image, not 64. It refuses a stack of maps, with one exception, and the exception is worse:

# %%
axes = Figure().subplots()
try:
    axes.imshow(np.zeros((20, 6, 7)))
except TypeError as error:
    print("20 maps of 6 by 7:", error)
    assert "Invalid shape (20, 6, 7) for image data" in str(error)
picture = axes.imshow(np.zeros((6, 7, 3)))
print("shape (6, 7, 3): drawn as", picture.get_array().shape, "- three numbers for a pixel are a colour")

# %% [markdown]
# So two steps lie between maps and a picture. Neither needs a hook, so here they are, to read and to take along. First,
# each map gets a scale of its own, from 0 to 1:


# %%
def stretch(fm):
    """Each map of [C, H, W] from its minimum, which becomes 0, to its maximum, which becomes 1."""
    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
    return (fm - low) / (high - low)


print(stretch(torch.stack([weak, strong])))
assert torch.equal(*stretch(torch.stack([weak, strong])))

# %% [markdown]
# **Predict.** A map has the value 3 everywhere. What is each entry of its result? Write a number, `"nan"`, or `"raises"`
# if you think that nothing comes out.

# %%
guess("09-flat-map", entry="nan")

# %%
flat = stretch(torch.full((1, 2, 2), 3.0))
print(flat)
compare("09-flat-map", entry=flat[0, 0, 0])
assert flat.isnan().all()

# %% [markdown] explains="09-flat-map"
# NaN, because 0 / 0 is NaN. Such maps are not rare: after a ReLU, a channel that finds nothing is 0 everywhere. `imshow`
# leaves such a map blank.

# %% [markdown]
# Second, all maps go onto one **sheet**, row by row. `unflatten` arranges the channels in rows and columns, `permute` puts
# the height next to the rows and the width next to the columns, and `flatten` joins each of the two pairs.


# %%
def sheet(fm, columns):
    """The maps of [C, H, W] on one image, row by row. The number of columns has to divide C."""
    grid = fm.unflatten(0, (-1, columns))  # [rows, columns, H, W]
    return grid.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)  # [rows * H, columns * W]


# %% [markdown]
# **Predict.** The first 32 maps of convolution 0 are 112 by 112 pixels each. What is the shape of their sheet with 8
# columns?

# %%
guess("09-sheet", shape=(448, 896))

# %%
whole = sheet(stretch(maps["conv1"][:32]), 8)
print("the sheet:", tuple(whole.shape))
compare("09-sheet", shape=tuple(whole.shape))
assert whole.shape == (448, 896) and torch.equal(whole[112:224, :112], stretch(maps["conv1"][8:9])[0])

# %% [markdown] explains="09-sheet"
# 32 maps in 8 columns make 4 rows: the sheet is 4 · 112 = 448 pixels high and 8 · 112 = 896 wide.

# %%
figure = Figure(figsize=(8, 4))
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(whole, cmap="gray")
axes.axis("off")
show(
    figure,
    "A sheet of 32 gray images in four rows of eight, without gaps: the first 32 maps of convolution 0 for the photo, "
    "each on a scale of its own. The outline of the person can be made out in most of them.",
)

# %% [markdown]
# These are your first feature maps: captured, stretched, drawn. What `stretch` and `sheet` leave out, such as flat maps and
# gaps, comes at the end of the lesson, in exercises that are optional.
#
# ## A figure with a title for every map
#
# With axes for each map you get titles, and a scale for each image. There are three things to know.
#
# **Predict.** `subplots(2, 3)` returns an array of axes of shape (2, 3). What is the shape of the array that
# `subplots(1, 3)` returns? And does `subplots(1, 1)` return an array, `"yes"` or `"no"`?

# %%
guess("09-subplots", row=(3,), one_is_an_array=False)

# %%
for rows, columns in ((2, 3), (1, 3), (1, 1)):
    found = Figure().subplots(rows, columns)
    print(f"subplots({rows}, {columns}):", type(found).__name__, getattr(found, "shape", ""))
print("subplots(1, 1, squeeze=False):", Figure().subplots(1, 1, squeeze=False).shape)
row = Figure().subplots(1, 3)
compare("09-subplots", row=row.shape, one_is_an_array=isinstance(found, np.ndarray))
assert Figure().subplots(1, 3).ndim == 1 and not hasattr(Figure().subplots(1, 1), "shape")
assert Figure().subplots(1, 1, squeeze=False).shape == (1, 1)

# %% [markdown] explains="09-subplots"
# Dimensions of size 1 are squeezed away, down to a bare `Axes`. Code that works for 64 maps then fails for 1. With
# `squeeze=False` the array always has two dimensions.

# %% [markdown]
# **Empty places.** 20 maps on a grid 8 wide leave 4 axes without an image. They still show a frame and ticks, unless you
# call `axis("off")` on each of them, too.
#
# **Figures stay open.** pyplot keeps every figure that it made until somebody closes it. A function that draws and is
# called in a loop fills the memory:

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(21):
        plt.figure()
print(len(plt.get_fignums()), "figures are open")
print(next(str(one.message) for one in caught if "figures have been opened" in str(one.message))[:60], "...")
assert len(plt.get_fignums()) == 21
plt.close("all")

own = Figure()
print("open after plt.close, and with a Figure() of our own:", len(plt.get_fignums()))
assert plt.get_fignums() == []

# %% [markdown]
# `matplotlib.figure.Figure()` makes a figure that pyplot does not know. Like any other object, it is freed when nothing
# refers to it any more.


# %% exercise="09-plot-maps"
def plot_maps(fm, ncols=8, shared=False):
    """A figure with one gray image for each channel of [C, H, W]."""
    ### BEGIN SOLUTION
    columns = min(ncols, len(fm))
    rows = math.ceil(len(fm) / columns)
    figure = Figure(figsize=(columns, 1.2 * rows))
    axes = figure.subplots(rows, columns, squeeze=False)
    for one in axes.flat:
        one.axis("off")
    for k, one in zip(range(len(fm)), axes.flat):
        limits = fm if shared else fm[k]
        one.imshow(fm[k].numpy(), cmap="gray", vmin=limits.min().item(), vmax=limits.max().item())
        one.set_title(str(k))
    return figure
    ### END SOLUTION


# %% [markdown]
# ## What the ResNet sees
#
# Now the pictures: convolutions 0, 15 and 30, early, middle and late. Each map is on a scale of its own, from its minimum
# (black) to its maximum (white), so compare patterns, not strengths.


# %% tags=["figure"]
def dead_channels(fm):
    """The channels with only one value."""
    return [k for k in range(len(fm)) if fm[k].max() == fm[k].min()]


def show_layer(number, place, looks):
    """The grid of one convolution of the ResNet."""
    name = convolutions[number]
    shown, (count, height, width) = maps[name][:64], maps[name].shape
    title = f"Convolution {number}, {name}: {len(shown)} of {count} maps, each on its own scale; {weights}"
    figure = map_grid(shown, columns=11, title=title)
    dead = dead_channels(shown)
    assert len(figure.axes[0].images) == len(shown) - len(dead)
    show(
        figure,
        f"Grid of the first {len(shown)} of {count} feature maps of convolution {number}, {name}, {place} of the "
        f"network, for the photo, computed with {weights}. Each is a gray image of {height} by {width} pixels on a "
        f"scale of its own, with its number above it. {looks} Dead channels among them: {dead or 'none'}.",
    )


def show_a_few():
    """One grid: the first eight maps of each of the three convolutions, a row for each, all drawn equally large."""
    rows = [F.interpolate(maps[name][None, :8], size=(112, 112))[0] for name in names]
    places = [f"{number}: map {k}" for number in (0, 15, 30) for k in range(8)]
    title = f"Convolutions 0, 15 and 30: eight maps of each, each on its own scale; {weights}"
    show(
        map_grid(torch.cat(rows), columns=8, title=title, names=places),
        f"Grid with the first eight feature maps of each of the convolutions 0, 15 and 30 for the photo, computed with "
        f"{weights}. Each is a gray image on a scale of its own. In the row of convolution 0 the person can be "
        "recognised in every map. In that of convolution 15 the maps are coarser, and hardly a detail of the photo can "
        "be recognised. In that of convolution 30 each map consists of 49 gray squares.",
    )


assert model.conv1.kernel_size == (7, 7)
if weights == "ImageNet weights":
    show_layer(0, "at the beginning", "The person can be recognised in many of them, in others only edges or areas.")
    show_layer(15, "in the middle", "They are coarser, and hardly a detail of the photo can be recognised.")
    show_layer(30, "near the end", "Each consists of 49 gray squares in which the photo cannot be recognised.")
else:
    show_a_few()

# %% [markdown]
# - **Convolution 0** looks at 7 by 7 pixels of the photo. The person can be recognised: some maps keep the light and
#   dark of the photo, some show it as a negative, some show edges.
# - **Convolution 15.** The maps are 28 by 28. Each pixel now depends on a large part of the photo.
# - **Convolution 30.** 49 pixels are left. A map no longer shows the photo. It says roughly *where* in the photo its
#   channel found something. In a trained network that may be a part of an object. With random weights it is nothing
#   that has a name, and yet such a grid looks just as convincing.
#
# **A grid of maps alone does not prove that a network has learned anything.**
#
# ## Maps that mean something
#
# So let us look into a network whose task we know. `shapes_net()` was trained on drawings of circles, squares and
# triangles, and its weights come with this course. It has four blocks of convolution, BatchNorm and ReLU.

# %%
net = shapes_net().to(device)
drawings, labels, boxes = draw_shapes(300, 5)
layers = ["features.0", "features.2", "features.4", "features.5"]  # each ends in a ReLU
activations = capture(net, [*layers, "fc"], drawings.to(device))
found = activations.pop("fc").argmax(1)  # the classes that the net names
print(f"{len(drawings)} drawings, {(found == labels).float().mean():.0%} named correctly")
for name, batch in activations.items():
    print(name, tuple(batch.shape))
assert (found == labels).float().mean() > 0.97
assert [batch.shape[1] for batch in activations.values()] == [16, 32, 48, 64]

# %% [markdown]
# Here are the first eight drawings. Colours, background, size, position, rotation and noise vary.

# %% tags=["figure"]
figure, axes = card(8.2, 1.5)
for k in range(8):
    axes.imshow(
        drawings[k].permute(1, 2, 0).numpy(), extent=(0.3 + 0.96 * k, 1.18 + 0.96 * k, 0.45, 1.33), aspect="auto"
    )
    caption(axes, 0.74 + 0.96 * k, 0.25, f"{k}: {CLASSES[labels[k]]}", align="center", size=9)
axes.set(xlim=(0, 8.2), ylim=(0, 1.5))
show(
    figure,
    "Eight small drawings, each of one coloured shape on a noisy background of another colour: "
    + ", ".join(f"{k} is a {CLASSES[labels[k]]}" for k in range(8))
    + ". In drawing 4 the triangle is at the lower right.",
)

# %% [markdown]
# Drawing number 4 is a triangle at the lower right. These are its 16 maps in the first block, `features.0`, after the
# ReLU, first each on a scale of its own.

# %% tags=["figure"]
early = activations["features.0"][4]
dead = dead_channels(early)
figure = map_grid(early, title="features.0, drawing 4: each map on a scale of its own")
assert labels[4] == CLASSES.index("triangle") and found[4] == labels[4] and dead
assert len(figure.axes) == 1 and len(figure.axes[0].images) == 16 - len(dead)
show(
    figure,
    "The 16 maps of features.0 for drawing 4, a triangle at the lower right, each on its own scale. Some maps show the "
    "whole triangle bright, some its edges, some the background with the triangle dark, some almost nothing. "
    f"Dead on this drawing, crossed out: {dead}.",
)

# %% [markdown]
# The channels have divided the work: the surface of the triangle, its edges (in map 12 only one of them), the background
# without the triangle.
#
# A channel with one value everywhere is called **dead** on this drawing, and is crossed out. Here, after a ReLU, that
# value is 0; in another net it may be a positive number. There is nothing to scale, and a black image would suggest
# that there is something dark to see.
#
# Maps 1, 6 and 13 look black, too. They are not dead. Nearly all of their pixels are 0 or close to 0, but a few are not:

# %%
for k in (1, 6, 13):
    print(
        f"map {k:2}: largest value {early[k].max():.2f}, above a tenth of it: {(early[k] > early[k].max() / 10).sum()}"
    )
assert all(early[k].max() > 0 and (early[k] > early[k].max() / 10).float().mean() < 0.05 for k in (1, 6, 13))

# %% [markdown]
# Now the same 16 maps with one scale for all of them. With a shared scale a colour bar makes sense, because it holds
# for every image.

# %% tags=["figure"]
figure = map_grid(early, shared=True, title="features.0, drawing 4: one scale for all maps")
low, high = early.min().item(), early.max().item()
assert {image.get_clim() for image in figure.axes[0].images} == {(low, high)} and len(figure.axes) == 2
peaks = early.amax((1, 2))
faint = [k for k in range(16) if 0 < peaks[k] < high / 4]
show(
    figure,
    f"The same 16 maps on one scale, with a colour bar from {low:.3g} to {high:.3g}. The edges in maps 3, 12 and 14 are "
    f"the brightest. Maps {', '.join(map(str, faint))} do not reach a quarter of the scale and are almost black.",
)

# %%
strongest = peaks.topk(3).indices.tolist()
print("largest values:", {k: round(peaks[k].item(), 2) for k in strongest})
print("below a quarter of the scale:", {k: round(peaks[k].item(), 2) for k in faint})
assert sorted(strongest) == [3, 12, 14] and set(faint) >= {10, 13, 15}

# %% [markdown]
# The edges are by far the strongest. Map 10, which showed the background so clearly a moment ago, is next to nothing.
# Neither picture is wrong. But only the second one allows a comparison, and **a picture of maps should always say which
# of the two it is.**
#
# ## Which maps matter?
#
# The last block has 64 channels, and we cannot look at all of them for each drawing. The classifier at the end of this
# net takes the **mean** of each channel over all its pixels, so that is a fair measure of how strongly a channel
# responds.
#
# **Predict.** Two channels have 4 by 4 pixels. In `spike`, one pixel is 16 and all others are 0. In `even`, all are 2.
# What are the two means?

# %%
guess("09-two-means", spike=1, even=2)

# %%
spike, even = torch.zeros(4, 4), torch.full((4, 4), 2.0)
spike[1, 2] = 16
print("means:         ", spike.mean().item(), even.mean().item())
print("largest values:", spike.max().item(), even.max().item())
compare("09-two-means", spike=spike.mean(), even=even.mean())
assert (spike.mean(), even.mean()) == (1, 2) and spike.max() > even.max()

# %% [markdown] explains="09-two-means"
# The even one has the larger mean, although its largest value is far smaller. Mean and maximum answer different
# questions: how much in all, or how much in one place.


# %%
def strongest(fm):
    """The channel of [C, H, W] with the largest mean."""
    return fm.mean((1, 2)).argmax().item()


for k in range(8):
    print(f"drawing {k}, {CLASSES[labels[k]]:8}: channel {strongest(activations['features.5'][k])}")
assert [strongest(activations["features.5"][k]) for k in range(8) if labels[k] == CLASSES.index("triangle")] == [40] * 3

# %% [markdown]
# Channel 40 is the strongest on all three triangles. Here are the six strongest channels for one drawing of each class.
# Below each map stands the class to which the classifier's weights connect this channel most strongly.

# %% tags=["figure"]
last, votes = activations["features.5"], net.fc.weight.detach().cpu().argmax(0)
rows, sentences = [], []
for label, name in enumerate(CLASSES):
    number = next(k for k in range(300) if labels[k] == label and found[k] == label)
    best = last[number].mean((1, 2)).argsort(descending=True)[:6].tolist()
    rows.append((number, best))
    x0, y0, x1, y1 = (boxes[number] / 4).round().int().tolist()  # 64 pixels of the drawing are 16 of a map
    inside = last[number, best, y0:y1, x0:x1].mean((1, 2)) > last[number, best].mean((1, 2))
    assert inside.tolist() == [int(votes[k]) == label for k in best] and inside.sum() >= 5
    sentences.append(
        f"for the {name}, drawing {number}, the channels {best}, of which {int(inside.sum())} are connected to {name} "
        "and bright where the shape is"
    )

assert sum(int(votes[k]) == labels[number] for number, best in rows for k in best) == 17
assert [k for number, best in rows for k in best if votes[k] != labels[number]] == [5] and CLASSES[
    votes[5]
] == "triangle"

figure, axes = card(8.2, 4.9)
caption(axes, 0.3, 4.65, "The six strongest channels of features.5; each map on a scale of its own", size=11)
for row, (number, best) in enumerate(rows):
    bottom = 3.3 - 1.5 * row
    axes.imshow(drawings[number].permute(1, 2, 0).numpy(), extent=(0.3, 1.3, bottom, bottom + 1), aspect="auto")
    caption(axes, 0.8, bottom - 0.13, f"drawing {number}", align="center", size=8.5)
    for column, k in enumerate(best):
        left = 1.6 + 1.05 * column
        axes.imshow(last[number, k].numpy(), cmap="gray", extent=(left, left + 1, bottom, bottom + 1), aspect="auto")
        caption(axes, left + 0.5, bottom + 1.1, str(k), align="center", size=8.5)
        mine = int(votes[k]) == int(labels[number])
        caption(axes, left + 0.5, bottom - 0.13, CLASSES[votes[k]], align="center", size=8.5,
                colour=FORWARD if mine else BACKWARD)  # fmt: skip
axes.set(xlim=(0, 8.2), ylim=(0, 4.9))
show(
    figure,
    "Three rows, each with a drawing and the maps of its six strongest channels in the last block. They are, "
    + "; ".join(sentences)
    + ". The one that is left, channel 5 for the circle, is connected to triangle and bright in the background.",
)

# %% [markdown]
# 17 of the 18 channels are connected to the right class, and exactly these are bright where the shape is. Channel 5,
# which is bright in the background, is connected to another class. Weighting maps by how much they speak for a class is
# the idea behind Grad-CAM, which you meet in lesson 10.
#
# ## A whole data set in three numbers for each channel
#
# One drawing says little about a channel. To judge it, we want its mean, its variance, and its share of zeros over *all*
# drawings. The activations for 300 drawings fit into memory. Those of a million photos do not: then a hook adds to a few
# sums at each batch, and keeps nothing else.

# %% tags=["figure"]
figure, axes = card(8.2, 2.65)
node(axes, 1.05, 1.75, "batches", kind="plain", note="5, 2, 1 images", width=1.3)
node(axes, 3.2, 1.75, "model", kind="plain", width=1.2)
node(axes, 5.35, 1.75, "layer's output", kind="non-leaf", note="[B, C, ...]", width=1.6)
node(axes, 5.35, 0.55, "hook adds", kind="hook", width=1.6)
arrow(axes, (1.75, 1.75), (2.55, 1.75))
arrow(axes, (3.85, 1.75), (4.5, 1.75))
arrow(axes, (5.35, 1.45), (5.35, 0.82), dashed=True)
arrow(axes, (6.2, 0.55), (6.75, 0.55))
for line, text in enumerate(("count n", "sum of v", "sum of v²", "zeros")):
    caption(axes, 6.85, 0.93 - 0.23 * line, text)
caption(axes, 0.4, 0.5, "After each batch only the sums are kept,", size=9.5)
caption(axes, 0.4, 0.25, "one number of each for every channel.", size=9.5)
show(
    figure,
    "Batches of 5, 2 and 1 images go through the model one after the other. The hook on a layer sees its output of shape "
    "[B, C, ...] and adds to four sums: the count n, the sum of the values v, the sum of v squared, and the number of "
    "zeros. After each batch only these sums are kept, one number of each for every channel.",
)

# %% [markdown]
# **Predict.** Two batches: the first has the values 1, 1, 1, 1 and the second only the value 6. What is the mean of all
# five values, and what is the mean of the two batch means?

# %%
guess("09-mean-of-means", all_values=2, batch_means=3.5)

# %%
batches = [torch.tensor([1.0, 1.0, 1.0, 1.0]), torch.tensor([6.0])]
total, count = sum(batch.sum() for batch in batches), sum(batch.numel() for batch in batches)
of_means = torch.stack([batch.mean() for batch in batches]).mean()
print("mean of all values:", (total / count).item(), "  mean of the batch means:", of_means.item())
compare("09-mean-of-means", all_values=total / count, batch_means=of_means)
assert total / count == 2 and of_means == 3.5

# %% [markdown] explains="09-mean-of-means"
# 2 and 3.5. The mean of means gives each batch the same weight, however small it is, and the last batch of a data set is
# usually smaller than the others. So add up sums and counts, and divide once at the end.

# %% [markdown]
# The variance needs the sum of the squares as well: it is *the mean of the squares minus the square of the mean*.
#
# **Predict.** The values 10000 and 10001 have the variance 0.25. What does this formula give in float32, and what in
# float64?

# %%
guess("09-variance", in_float32=0, in_float64=0.25)

# %%
values, variances = torch.tensor([10000.0, 10001.0]), {}
for dtype in (torch.float32, torch.float64):
    v = values.to(dtype)
    variances[dtype] = v.square().mean() - v.mean() ** 2
    print(dtype, variances[dtype].item())
compare("09-variance", in_float32=variances[torch.float32], in_float64=variances[torch.float64])
assert values.square().mean() - values.mean() ** 2 == 0
assert values.double().square().mean() - values.double().mean() ** 2 == 0.25

# %% [markdown] explains="09-variance"
# 0 in float32. The squares are about 100 million, and float32 keeps only about seven digits: the difference is lost.
# In float64, with about sixteen digits, it survives. So convert with `.double()` *before* you square and add.

# %% [markdown]
# Two last remarks. A generator can be read only once, so everything has to happen in one loop. And a loop over a data
# set that trains nothing belongs in `torch.no_grad()`.


# %% exercise="09-channel-stats"
def channel_stats(model, layer, batches):
    """Mean, variance and share of zeros of every channel of a layer's output, over all batches."""
    ### BEGIN SOLUTION
    count, sums, squares, zeros = 0, 0, 0, 0

    def hook(module, args, output):
        nonlocal count, sums, squares, zeros
        values = output.detach().double().transpose(0, 1).flatten(1)  # one row for each channel
        count += values.shape[1]
        sums = sums + values.sum(1)
        squares = squares + values.square().sum(1)
        zeros = zeros + (values == 0).double().sum(1)

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    mean = sums / count
    return {"mean": mean, "var": squares / count - mean**2, "zero_frac": zeros / count}
    ### END SOLUTION


# %% [markdown]
# What are such numbers good for? On drawing 4, one channel of `features.4` is dead.
#
# **Predict.** Is this channel dead on all 300 drawings, `"yes"` or `"no"`?

# %%
guess("09-dead-everywhere", on_all=False)

# %% tags=["figure"]
third = activations["features.4"]
share = (third == 0).double().mean((0, 2, 3))
dead_on_4, rare = dead_channels(third[4]), [k for k in range(48) if share[k] > 0.9]
assert dead_on_4 and share.max() < 1

figure, axes = card(8.2, 2.9)
caption(axes, 0.4, 2.65, "features.4: share of zeros of each channel over 300 drawings", size=11)
for k in range(48):
    colour = BACKWARD if k in dead_on_4 else FORWARD if k in rare else QUIET
    axes.bar(0.85 + 0.148 * k, 1.6 * share[k].item(), bottom=0.55, width=0.11, color=colour)
    if k % 4 == 0:
        caption(axes, 0.85 + 0.148 * k, 0.38, str(k), align="center", size=8.5, colour=QUIET)
for level in (0.5, 1.0):
    axes.plot([0.75, 7.95], [0.55 + 1.6 * level] * 2, color=QUIET, linewidth=0.7, linestyle="--")
    caption(axes, 0.67, 0.55 + 1.6 * level, f"{level:.0%}", align="right", size=8.5, colour=QUIET)
caption(axes, 0.85, 0.13, "orange: dead on drawing 4", colour=BACKWARD, size=9)
caption(axes, 3.2, 0.13, "blue: others that are zero in more than 90% of all places", colour=FORWARD, size=9)
show(
    figure,
    "Bar chart of the share of zeros of the 48 channels of features.4 over 300 drawings. It lies between "
    f"{share.min():.0%} and {share.max():.0%}. Above 90 percent are the channels {rare}. The channels that are dead on "
    f"drawing 4, {dead_on_4}, have {', '.join(f'{share[k]:.0%}' for k in dead_on_4)}.",
)

# %%
print("dead on drawing 4:", dead_on_4, "  zeros on all drawings:", [f"{share[k]:.0%}" for k in dead_on_4])
print("dead on all 300 drawings:", [k for k in range(48) if share[k] == 1])
compare("09-dead-everywhere", on_all=bool(share[dead_on_4[0]] == 1))
assert len(dead_on_4) == 1 and not (share == 1).any()

# %% [markdown] explains="09-dead-everywhere"
# No. It is silent on this drawing and responds to others, which is what a channel that looks for something special should
# do. No channel of this layer is dead on all drawings. **Dead on one image is a finding about the image; dead on all is
# a finding about the network.**

# %% [markdown]
# ## Every layer, at every step
#
# The same kind of hook can watch a network while it learns. From the output of its layer it takes the mean, the
# standard deviation and a histogram, which together are 42 numbers, and lets the output go. For the histogram there is
# `histc`, which counts the values in bins of equal width.
#
# **Predict.** What is `torch.tensor([-1.0, 0.5, 1.5, 1.7, 9.0]).histc(bins=4, min=0, max=4)`? Write four numbers.

# %%
guess("09-histc", counts=[1, 2, 0, 0])

# %%
counts = torch.tensor([-1.0, 0.5, 1.5, 1.7, 9.0]).histc(bins=4, min=0, max=4)
print(counts)
compare("09-histc", counts=counts)
assert counts.tolist() == [1, 2, 0, 0]

# %% [markdown] explains="09-histc"
# 1, 2, 0, 0. Values outside the limits are not counted. Without limits, `histc` takes the smallest and the largest value
# of the tensor, and then every step has bins of its own and no two steps can be compared.


# %% exercise="09-activation-stats"
def activation_stats(layers, step, batches):
    """Mean, standard deviation and histogram of each layer's output, at each step of a training."""
    ### BEGIN SOLUTION
    rows = {name: {"mean": [], "std": [], "hist": []} for name in layers}
    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():

            def hook(module, args, output, name=name):
                values = output.detach()
                rows[name]["mean"].append(values.mean())
                rows[name]["std"].append(values.std())
                rows[name]["hist"].append(values.histc(40, 0, 4))

            stack.enter_context(layer.register_forward_hook(hook))
        for batch in batches:
            step(batch)
    return {name: {part: torch.stack(found) for part, found in parts.items()} for name, parts in rows.items()}
    ### END SOLUTION


# %% [markdown]
# Let us put it to use. A small net of four blocks, without BatchNorm, starts to learn the three shapes, and your function
# watches. There are two runs from the same weights, one with a learning rate of 0.02 and one with 0.2.
#
# **Predict.** In which run are more outputs of the last block close to 0 after 60 steps, `0.02` or `0.2`?

# %%
guess("09-learning-rate", more_zeros=0.2)

# %%
inputs = F.avg_pool2d(drawings, 2)  # 32 by 32 pixels are enough here
inputs = inputs - inputs.mean((2, 3), keepdim=True)
inputs = inputs / inputs.std()


def watch_training(rate, steps=60):
    """Train a small net, always from the same weights: what `activation_stats` returns, and the losses."""
    torch.manual_seed(0)
    sizes, losses = (3, 16, 32, 48, 64), []
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    student = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(64 * 2 * 2, len(CLASSES)))
    for block in blocks:
        nn.init.kaiming_normal_(block[0].weight, nonlinearity="relu")
        nn.init.zeros_(block[0].bias)
    moving = [(p, torch.zeros_like(p)) for p in student.parameters()]

    def step(batch):
        loss = F.cross_entropy(student(inputs[batch]), labels[batch])
        losses.append(loss.item())
        student.zero_grad()
        loss.backward()
        with torch.no_grad():  # SGD with momentum; the first use of torch.optim takes a second to load
            for p, velocity in moving:
                velocity.mul_(0.9).add_(p.grad)
                p.sub_(rate * velocity)

    layers = {f"block {number}": block for number, block in enumerate(blocks)}
    batches = [torch.arange(32 * k, 32 * k + 32) % len(inputs) for k in range(steps)]
    return activation_stats(layers, step, batches), losses


runs = {}
try:
    runs = {rate: watch_training(rate) for rate in (0.02, 0.2)}
except NotImplementedError:
    print("Solve 09-activation-stats, then run this cell and the next one again.")
else:
    near_0 = {}
    for rate, (stats, losses) in runs.items():
        shares = stats["block 3"]["hist"][:, 0] / (32 * 64 * 2 * 2)  # of 32 drawings, 64 maps and 2 by 2 pixels
        near_0[rate] = shares[-1].item()
        print(f"rate {rate:4}: block 3 below 0.1: {shares[0]:.0%}, then {shares[-1]:.0%};", end=" ")
        print(f"loss {losses[0]:.2f}, then {sum(losses[-5:]) / 5:.2f}")
    print(f"loss of guessing among three classes: {math.log(3):.2f}")
    compare("09-learning-rate", more_zeros=max(near_0, key=near_0.get))
    assert near_0[0.02] < 0.65 and near_0[0.2] > 0.95
    first, last = ([found["mean"][k] for found in runs[0.2][0].values()] for k in (0, -1))
    assert all(found["hist"][-1, 0] > 0.9 * found["hist"][-1].sum() for found in [*runs[0.2][0].values()][1:])
    assert last[0] > 2 * first[0] and max(last[1:]) < 0.1 * min(first[1:])
    assert sum(runs[0.02][1][-5:]) / 5 < 0.5 and sum(runs[0.2][1][-5:]) / 5 > 1.05

# %% tags=["figure"]
if runs:
    figure, axes = card(8.2, 4.2)
    caption(
        axes, 0.15, 4.0, "Outputs of four blocks over 60 steps; in the histograms, lighter means more values", size=11
    )
    shades = ["#86b3e2", "#5b93d0", FORWARD, "#173a66"]
    tops = {part: max(found[part].max() for stats, _ in runs.values() for found in stats.values()).item()
            for part in ("mean", "std")}  # fmt: skip
    for row, (rate, (stats, _)) in enumerate(runs.items()):
        bottom, panels = 2.05 - 1.85 * row, [(part, 0.95 + 1.2 * column) for column, part in enumerate(tops)]
        caption(axes, 0.15, bottom + 0.75, f"rate\n{rate}")
        for part, left in panels:
            caption(axes, left + 0.5, bottom + 1.6, part, align="center", size=9)
            caption(axes, left - 0.05, bottom, "0", align="right", size=7.5, colour=QUIET)
            caption(axes, left - 0.05, bottom + 1.45, f"{tops[part]:.1f}", align="right", size=7.5, colour=QUIET)
            axes.plot([left, left, left + 1], [bottom + 1.5, bottom, bottom], color=QUIET, linewidth=0.7)
            for found, shade in zip(stats.values(), shades):
                x = torch.linspace(left, left + 1, len(found[part]))
                axes.plot(x.numpy(), (bottom + 1.5 * found[part] / tops[part]).numpy(), color=shade, linewidth=1.3)
        for column, (name, found) in enumerate(stats.items()):
            left = 3.35 + 1.2 * column
            caption(axes, left + 0.55, bottom + 1.6, name, align="center", size=9, colour=shades[column])
            axes.imshow(found["hist"].T.log1p().numpy(), cmap="viridis", origin="lower", aspect="auto",
                        extent=(left, left + 1.1, bottom, bottom + 1.5))  # fmt: skip
        for value in (0, 2, 4):
            caption(axes, 3.29, bottom + 0.05 + 0.35 * value, str(value), align="right", size=7.5, colour=QUIET)
    axes.set(xlim=(0, 8.2), ylim=(0, 4.2))
    ends = {
        rate: ", ".join(f"{found['mean'][-1]:.2f}" for found in stats.values()) for rate, (stats, _) in runs.items()
    }
    show(
        figure,
        "Two rows, one for each learning rate. Each begins with two line plots, of the mean and of the standard deviation of "
        "the outputs of the four blocks over 60 steps. A picture for each block follows, in which steps run to the right and "
        "values from 0 to 4 upwards; light colours mean many values. With rate 0.02 the curves of all blocks stay close "
        "together, and the values of all blocks stay spread out. With rate 0.2 block 0 grows, and the later ones flare up "
        "twice and then fall to 0; the pictures of blocks 2 and 3 end dark but for the lowest line. The last means, block by "
        f"block: {ends[0.02]} with rate 0.02, and {ends[0.2]} with rate 0.2.",
    )

# %% [markdown] explains="09-learning-rate"
# With 0.2 the later blocks flare up twice and go out: more than nine in ten of their outputs are close to 0. The mean of
# block 0 has more than doubled instead. The loss alone says only that nothing is learned, for it ends at what guessing
# among three classes costs. The picture says in which blocks, and from which step on. Lesson 13 is about such runs.

# %% [markdown]
# ## Go deeper: three functions without a hook
#
# These three exercises are optional: nothing later depends on them. They are about what `stretch`, `sheet` and `strongest`
# leave out.
#
# ### Every map from 0 to 1
#
# A flat map should become 0 and not NaN. A popular remedy is to add a little to the denominator: `max - min + 1e-5`. It
# silently assumes that all maps are much larger than that. Below, a map with values around 1e-6 should reach 1, and does
# not:

# %%
faint = 1e-6 * weak
with_epsilon = (faint - faint.min()) / (faint.max() - faint.min() + 1e-5)
print("largest value:", round(with_epsilon.max().item(), 3))
assert 0.09 < with_epsilon.max() < 0.1

# %% [markdown]
# Three more surprises come from the conversion to numpy. Two raise:

# %%
for tensor, says in (
    (torch.ones(2, 2, requires_grad=True), "Can't call numpy() on Tensor that requires grad"),
    (torch.ones(2, 2, dtype=torch.bfloat16), "BFloat16"),
):
    try:
        tensor.numpy()
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")
        assert says in str(error)

# %% [markdown]
# `.detach()` and `.float()` help. The last one is silent: `.numpy()` copies nothing. The array and the tensor share
# their memory, and so do a float32 tensor and its `.float()`.

# %%
original = torch.tensor([2.0, 3.0])
array = original.detach().float().numpy()
array -= array.min()
print("the tensor is now:", original)
assert original.tolist() == [0, 1]


# %% exercise="09-normalize-maps"
def normalize_maps(fm):
    """Each channel of [C, H, W] from 0 to 1, as a float32 array."""
    ### BEGIN SOLUTION
    values = fm.detach().float().numpy()
    low = values.min(axis=(1, 2), keepdims=True)
    span = values.max(axis=(1, 2), keepdims=True) - low
    return (values - low) / np.where(span == 0, 1, span)
    ### END SOLUTION


# %% [markdown]
# ### Any number on one sheet
#
# `sheet` raises when the last row would not be full, and neighbours touch. Now the maps stand as tiles, row by row, with
# a gap between them. Tile `k` stands in row `k // columns` and column `k % columns`.

# %% tags=["figure"]
figure, axes = card(8.2, 3.05)
for k in range(12):
    row, column = divmod(k, 4)
    used = k < 10
    place = (0.5 + 1.1 * column, 1.85 - 0.8 * row)
    axes.add_patch(
        plt.Rectangle(place, 1.0, 0.7, facecolor="#e4ecf7" if used else "none", edgecolor=INK if used else QUIET)
    )
    text, colour = (str(k), INK) if used else ("fill", QUIET)
    caption(axes, place[0] + 0.5, place[1] + 0.35, text, align="center", colour=colour)
caption(axes, 0.5, 2.8, "C = 10 channels in 4 columns: ceil(10 / 4) = 3 rows")
caption(axes, 5.35, 2.2, "gaps of pad pixels between tiles,")
caption(axes, 5.35, 1.95, "none around the sheet")
caption(axes, 5.35, 1.4, "height: 3 · H + 2 · pad")
caption(axes, 5.35, 1.15, "width: 4 · W + 3 · pad")
caption(axes, 5.35, 0.6, "gaps and unused places hold fill")
show(
    figure,
    "A sheet with ten tiles in four columns and three rows: 0 to 3, 4 to 7, then 8 and 9. The two places that are left "
    "in the last row hold the value fill, as do the gaps of pad pixels between tiles. There is no gap around the sheet. "
    "Its height is 3 H + 2 pad and its width 4 W + 3 pad.",
)


# %% exercise="09-tile-maps"
def tile_maps(fm, ncols, pad=1, fill=0.0):
    """All channels of [C, H, W] on one sheet, row by row."""
    ### BEGIN SOLUTION
    count, height, width = fm.shape
    columns = min(ncols, count)
    rows = math.ceil(count / columns)
    sheet = np.full((rows * (height + pad) - pad, columns * (width + pad) - pad), fill, dtype=np.float32)
    for k, tile in enumerate(fm.numpy()):
        row, column = divmod(k, columns)
        top, left = row * (height + pad), column * (width + pad)
        sheet[top : top + height, left : left + width] = tile
    return sheet
    ### END SOLUTION


# %% [markdown]
# ### The strongest, in order
#
# `strongest` finds one channel, and often you want the first few. `topk` returns the largest values of a tensor, and where
# they stand.


# %% exercise="09-top-channels"
def top_channels(fm, k):
    """The indices of the k channels with the largest mean, the largest first."""
    ### BEGIN SOLUTION
    return fm.mean((1, 2)).topk(k).indices.tolist()
    ### END SOLUTION


# %% [markdown]
# ## Myths
#
# **"First set the style: `plt.style.use('seaborn-white')`."** Many posts on feature maps start with this line. The name
# is gone from matplotlib; the style is now called `seaborn-v0_8-white`. For images without axes you need neither.

# %%
try:
    plt.style.use("seaborn-white")
except OSError as error:
    print("OSError:", str(error)[:76], "...")
else:
    raise AssertionError("this matplotlib still knows the old name")
print("the new name is known:", "seaborn-v0_8-white" in plt.style.available)
assert "seaborn-v0_8-white" in plt.style.available

# %% [markdown]
# **"`resnet34(pretrained=True)` loads the weights."** In torchvision this argument has been deprecated since version
# 0.13. Name the weights instead: `resnet34(weights="IMAGENET1K_V1")`. And weights do not need torchvision at all: they are a
# dict of tensors, and any module with the same keys and shapes takes them.

# %%
try:
    from torchvision.models import resnet34 as theirs
except ImportError:
    print("torchvision is not installed here, and this course does not need it")
else:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        theirs(pretrained=False)
    said = [str(one.message) for one in caught]
    print(said)
    assert any("'pretrained' is deprecated since 0.13" in text for text in said)

checkpoint = {key: value.clone() for key, value in model.state_dict().items()}  # as it would come from a file
fresh = resnet34()
print(fresh.load_state_dict(checkpoint))
assert torch.equal(fresh.fc.weight, model.fc.weight.cpu())

# %% [markdown]
# **"`convs[30]` is the 30th layer."** Python counts from 0, so it is the 31st convolution. And it is not the layer
# number 31 either: between the convolutions there are BatchNorm, ReLU and pooling layers.

# %%
parts = [name for name, module in model.named_modules() if not list(module.children())]
position = parts.index(convolutions[30]) + 1
print(f"{convolutions[30]}: convolution 31 of {len(convolutions)}, layer {position} of {len(parts)}")
assert convolutions[30] == "layer4.0.conv2" and position > 31

# %% [markdown]
# **"Loop over 8 by 8 axes to draw the maps."** A loop that counts to 64 fails on a layer with fewer channels, and shows
# only a part of one with more, without a word. Loop over `len(fm)`.

# %%
fm = torch.zeros(20, 6, 7)
try:
    for k in range(8 * 8):
        fm[k]
except IndexError as error:
    print("IndexError:", error)
    assert "index 20 is out of bounds for dimension 0 with size 20" in str(error)

# %% [markdown]
# **"`detach()` is enough to keep an activation."** It removes the graph, but it copies nothing. In the ResNet an
# in-place ReLU follows `bn1`. What you kept of `bn1` is then what the ReLU left of it.

# %%
kept = {}
with model.bn1.register_forward_hook(
    lambda module, args, output: kept.update(detached=output.detach(), copied=output.detach().clone())
):
    with torch.no_grad():
        model(image)
print("smallest output of bn1 that was kept")
print(f"with detach(): {kept['detached'].min():.3f}   with a copy: {kept['copied'].min():.3f}")
assert kept["detached"].min() == 0 and kept["copied"].min() < -1

# %% [markdown]
# ## Recap
#
# | call | signature of the hook | when it fires | what its return value does |
# |---|---|---|---|
# | `m.register_forward_hook(hook)` | `hook(module, args, output)` | at the end of each `m(x)` | `None`: nothing; a value replaces the output (lesson 6) |
#
# | call | what it does |
# |---|---|
# | `model.named_modules()` | all modules with their names, in the order of definition, which need not be that of execution |
# | `isinstance(m, nn.Conv2d)` | true for `nn.Conv2d` and its subclasses |
# | `output.detach().clone()` | a copy that no later operation changes |
# | `fm.detach().float().numpy()` | an array; it may share the tensor's memory |
# | `axes.imshow(fm[k], vmin=..., vmax=...)` | an image on the scale you choose; without the limits, from its own minimum to its own maximum |
# | `figure.subplots(r, c, squeeze=False)` | always a two-dimensional array of axes |
# | `matplotlib.figure.Figure()` | a figure that pyplot does not keep |
# | `output.double()` before adding up | sums and squares that keep their digits |
# | `values.histc(40, 0, 4)` | how many values lie in each of 40 equal bins from 0 to 4; others are not counted |
#
# ## Where you meet this in the wild
#
# - **Dead-channel audits.** After training, the share of zeros of each channel over the data shows which channels never
#   respond. They can be removed, and they may point to a learning rate that was too high.
# - **Training monitors.** fastai's `ActivationStats` records mean, standard deviation and histogram of each layer at every
#   step of a training, and draws pictures such as the one above.
# - **Quantisation calibration.** To run a network in 8-bit integers, one has to know the range of each layer's output.
#   Hooks collect minima, maxima or histograms over a few hundred images, batch by batch, as `channel_stats` does.
# - **BatchNorm.** Its running mean and variance are relatives of these numbers: moving averages over the batches seen
#   in training, one of each for every channel.
#
# Next: lesson 10, where gradients say which of these maps decided.

# %%
progress()
