# %% [markdown]
# # Lesson 9. Feature maps: numbers first, pictures second
#
# **The question.** A network looks at a photo. What do its layers see, early, in the middle, and late?
#
# **The goal.** You can capture the feature maps of all convolutions, draw them without fooling yourself, and watch
# every layer of a network learn.

# %%
import contextlib
import copy
import inspect
import io
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import as_picture, empty_axes, map_grid, show
from graders.nets import imagenet_resnet34, pictures, resnet34
from graders.nets.resnet import MEAN, STD

# The convolutions are small: one thread is enough, and on a shared machine many wait
# for each other.
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device:", device)

# %% tags=["figure"]
import matplotlib.pyplot as plt

from graders.figures import (
    BACKWARD,
    FORWARD,
    INK,
    QUIET,
    arrow,
    caption,
    card,
    heat_over,
    node,
    picture_rows,
)
from graders.nets import CLASSES, draw_shapes, shapes_net

# %% [markdown]
# ## A network that has seen the world
#
# EfficientNet-Lite0 is a small classifier that was trained on 1.3 million photos of 1000 classes. Its weights are
# optional; the first line below says whether they are installed. Without them, all cells run on a net that knows drawn
# shapes, and `solutions/09_feature_maps.ipynb` shows the photos of which the text speaks.
#
# The cat and the cup are photos by Stefan van der Walt and Rachel Michetti (CC0, from scikit-image). The portrait, from
# matplotlib, is of Grace Hopper, a pioneer of programming languages.

# %%
seen = pictures()
print(seen.note)
eye = seen.net.to(device)  # the network, in eval mode
for name, image in seen.images.items():
    with torch.no_grad():
        p, classes = eye(seen.prepare(image[None]).to(device))[0].softmax(0).topk(3)
    print(
        f"{name:9}",
        ", ".join(
            f"{seen.class_name(c)} {q:.0%}"
            for c, q in zip(classes.tolist(), p.tolist())
        ),
    )

both = seen.collages[0]  # two pictures side by side
left, right = seen.class_name(both.left), seen.class_name(both.right)
x = seen.prepare(both.image[None]).to(device)
print("collage:", left, "and", right, " input:", tuple(x.shape))
assert not eye.training
if seen.photographs:
    assert [
        seen.class_name(eye(seen.prepare(image[None]).to(device)).argmax().item())
        for image in [*seen.images.values(), both.image]
    ] == ["Egyptian cat", "espresso", "military uniform", "Egyptian cat"]
    assert eye.fc.out_features == 1000

# %% tags=["figure"]
shown = {**seen.images, "collage": both.image}
show(
    picture_rows(
        [("", [(name, as_picture(image)) for name, image in shown.items()])], label=0
    ),
    "Four photos: a cat's face; a red cup of espresso on a saucer, seen from above; an "
    "old woman in a dark uniform and cap; and a collage, on its left half a part of "
    "the cat's face with an eye, on its right half a part of the cup."
    if seen.photographs
    else "Three small drawings of a circle, a square and a triangle, and a collage of "
    "two drawings side by side.",
)

# %% [markdown]
# The output of a convolution is a tensor [B, C, H, W]. For one image, each of its C channels is a **feature map**: an
# image that is bright where the channel's filter found what it looks for. (The word is used for any output of this
# shape.) To look at maps you need no new hook. Here is the recorder of lesson 5, for several layers at once; use it in
# the exercises, too.


# %%
def capture(model, names, x):
    """A copy of what each of the named layers returns in model(x)."""
    kept = {}
    with contextlib.ExitStack() as stack:
        for name in names:

            def hook(module, args, output, name=name):
                kept[name] = output.detach().clone()

            stack.enter_context(model.get_submodule(name).register_forward_hook(hook))
        model(x)
    return kept


with torch.no_grad():
    # the batch has one image
    maps = {
        name: batch[0].cpu() for name, batch in capture(eye, seen.layers, x).items()
    }

print(f"{'':18}{'shape':>16}{'min':>8}{'max':>8}{'mean':>8}{'std':>8}{'zeros':>8}")
for name, fm in maps.items():
    numbers = "".join(
        f"{value.item():8.2f}" for value in (fm.min(), fm.max(), fm.mean(), fm.std())
    )
    print(f"{name:18}{tuple(fm.shape)!s:>16}{numbers}{(fm == 0).float().mean():8.0%}")
early, middle, late = maps.values()
if seen.photographs:
    assert [tuple(fm.shape) for fm in maps.values()] == [
        (32, 112, 112),
        (40, 28, 28),
        (1280, 7, 7),
    ]
    assert (early.min(), early.max(), late.min(), late.max()) == (0, 6, 0, 6) and (
        late == 0
    ).float().mean() > 0.8

# %% [markdown]
# Look at such a table before you look at a picture. It shows at once what is all zero, infinite, or a thousand times
# too large. Here, the maps become smaller and more numerous on the way. The first and the last layer end in a ReLU that
# also has a ceiling (`nn.ReLU6`), and the last one is mostly zeros.
#
# **Predict.** We draw two maps with `imshow`, in gray. The second map is the first times 1000. How does the second
# image look beside the first: `"brighter"`, `"darker"` or `"the same"`?

# %%
guess("09-times-1000", second="the same")  # "brighter", "darker" or "the same"

# %%
weak = torch.tensor([[0.0, 0.5], [0.25, 1.0]])
strong = 1000 * weak

on_the_left, on_the_right = Figure().subplots(1, 2)
first, second = (
    on_the_left.imshow(weak, cmap="gray"),
    on_the_right.imshow(strong, cmap="gray"),
)
print(
    "colour limits:",
    [float(v) for v in first.get_clim()],
    [float(v) for v in second.get_clim()],
)
gray_levels = [
    image.cmap(image.norm(image.get_array()))[..., 0] for image in (first, second)
]
print(
    "gray levels: ", gray_levels[0].round(2).tolist(), gray_levels[1].round(2).tolist()
)
difference = (gray_levels[1] - gray_levels[0]).mean()
compare(
    "09-times-1000",
    second="brighter" if difference > 0 else "darker" if difference < 0 else "the same",
)
assert (
    first.get_clim() == (0, 1)
    and second.get_clim() == (0, 1000)
    and np.array_equal(*gray_levels)
)

# %% [markdown] explains="09-times-1000"
# The same. Left alone, `imshow` stretches each image from its own minimum (black) to its own maximum (white), even if
# it is pure noise. That shows the *pattern* in each map. To compare maps, draw them on one scale.

# %% [markdown]
# ## Trained, and not
#
# Here are maps of the collage, the eight of each layer that vary most. The second network has the same weights in
# disorder: those of each convolution and linear layer are shuffled, and the batch norms stay as they are.


# %% tags=["figure"]
def shuffled(model, seed):
    """A copy of a model, with the weights of each convolution and linear layer in a
    random order.
    """
    model, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                order = torch.randperm(module.weight.numel(), generator=generator).to(
                    device
                )
                module.weight.copy_(
                    module.weight.flatten()[order].view_as(module.weight)
                )
    return model


with torch.no_grad():
    maps_of = {
        "trained": maps,
        "shuffled": {
            k: v[0].cpu() for k, v in capture(shuffled(eye, 0), seen.layers, x).items()
        },
    }
size, rows, places = both.image.shape[1:], [], []
for name in seen.layers:
    for kind, found in maps_of.items():
        best = found[name].std((1, 2)).topk(8).indices.tolist()
        rows.append(
            F.interpolate(found[name][None, best], size=[side // 2 for side in size])[0]
        )
        places += [
            f"{kind}: {name.removeprefix('features.')}" if k == best[0] else f"map {k}"
            for k in best
        ]
show(
    map_grid(
        torch.cat(rows),
        columns=8,
        title="Maps of the collage, each on its own scale",
        names=places,
    ),
    f"Grid of gray maps in six rows of eight: of {', '.join(seen.layers)}, first with "
    "the trained weights, then with shuffled ones. In both rows of the first layer "
    "the two halves of the collage can be recognised in nearly every map. In the "
    "middle the maps are coarser, and with shuffled weights hardly anything is left "
    "of the picture. In the last layer, the trained maps are bright on one half of "
    "the collage and black on the other; with shuffled weights most of them are "
    "bright on both halves.",
)

# %% [markdown]
# Early, the maps look fine in both: any filter of a few pixels shows edges and areas. **A grid of maps alone does not
# prove that a network has learned anything.** Late, there is a difference. Since we know where the two things are, we
# can measure it: how many of the late maps have more than 80% of their sum on one half?


# %%
def share_left(fm):
    """The share of each map's sum that is on the left half; the column in the
    middle, if there is one, is left out.
    """
    half = fm.shape[2] // 2
    on_left, on_right = fm[:, :, :half].sum((1, 2)), fm[:, :, -half:].sum((1, 2))
    return on_left / (on_left + on_right)


def on_one_half(fm):
    share = share_left(fm[fm.amax((1, 2)) > 0])  # of those that are not zero everywhere
    return ((share > 0.8) | (share < 0.2)).float().mean().item()


for kind, found in maps_of.items():
    early_share, late_share = (
        on_one_half(found[name]) for name in (seen.layers[0], seen.layers[2])
    )
    print(f"{kind:9} maps on one half: early {early_share:.0%}, late {late_share:.0%}")
assert on_one_half(late) > on_one_half(maps_of["shuffled"][seen.layers[2]]) + 0.3
if seen.photographs:
    assert round(on_one_half(late), 2) == 0.85 and on_one_half(early) < 0.15
    assert 0.2 < on_one_half(maps_of["shuffled"][seen.layers[2]]) < 0.3

# %% [markdown]
# On the photos, 85% of the late maps that are not all black lie mostly on the cat or mostly on the cup; with shuffled
# weights, about a quarter do. Late maps no longer show what a place looks like. They say *what* is *where*.
#
# Above, each map is on a scale of its own. Here are sixteen early maps on one scale.

# %% tags=["figure"]
figure = map_grid(
    early[:16], shared=True, title=f"{seen.layers[0]}: sixteen maps on one scale"
)
low, high = early[:16].min().item(), early[:16].max().item()
assert {image.get_clim() for image in figure.axes[0].images} == {(low, high)} and len(
    figure.axes
) == 2
dead = [k for k in range(16) if early[k].max() == early[k].min()]
faint = [k for k in range(16) if 0 < early[k].max() < high / 4]
show(
    figure,
    f"The first sixteen maps of {seen.layers[0]} for the collage on one scale, with a "
    f"colour bar from {low:.3g} to {high:.3g}. A few maps are bright in large areas. "
    "Almost black, below a quarter of the scale: "
    f"{', '.join(map(str, faint)) or 'none'}. Dead, and crossed out: "
    f"{', '.join(map(str, dead)) or 'none'}.",
)

# %% [markdown]
# **A picture of maps should always say which of the two scales it has.** A channel with one value everywhere is
# called **dead** on this picture, and is crossed out: a black image would suggest that there is something dark to see.
#
# ## Every ReLU in one picture
#
# How many of the values after each ReLU are 0, and how many are cut off at 6? Here are all ReLUs, over the
# three pictures, in the order in which the hooks fired.

# %%
relus = [name for name, module in eye.named_modules() if isinstance(module, seen.relu)]
batch = seen.prepare(torch.stack([*seen.images.values()])).to(device)
with torch.no_grad():
    outputs = capture(eye, relus, batch)
zeros = [(output == 0).float().mean().item() for output in outputs.values()]
ceiling = [(output == 6).float().mean().item() for output in outputs.values()]
silent = (outputs[relus[-1]].amax((2, 3)) == 0).cpu()  # [pictures, channels]
print(
    f"{len(relus)} ReLUs. zeros: the first {zeros[0]:.0%}, the last {zeros[-1]:.0%}; "
    f"at 6: at most {max(ceiling):.1%}"
)
print(
    "channels of the last layer that are 0 everywhere:",
    dict(zip(seen.images, silent.sum(1).tolist())),
    end=" ",
)
print("; on all three:", silent.all(0).sum().item(), "of", silent.shape[1])
if seen.photographs:
    assert len(relus) == 33 and round(zeros[0], 1) == 0.3 and round(zeros[-1], 1) == 0.9
    assert silent.all(0).sum() < 150 < 400 < silent.sum(1).min()
    assert sum(zeros[:11]) < sum(zeros[11:22]) < sum(zeros[22:]) and max(ceiling) < 0.1

# %% tags=["figure"]
figure, axes = card(8.2, 2.5)
caption(
    axes,
    0.4,
    2.25,
    "After each ReLU, from the first to the last: share of zeros",
    size=11,
)
step = 7 / len(relus)
for k, (zero, at_6) in enumerate(zip(zeros, ceiling)):
    axes.bar(0.9 + step * k, 1.5 * zero, bottom=0.45, width=0.7 * step, color=FORWARD)
    axes.bar(
        0.9 + step * k,
        1.5 * at_6,
        bottom=0.45 + 1.5 * (1 - at_6),
        width=0.7 * step,
        color=BACKWARD,
    )
for level in (0, 0.5, 1):
    axes.plot(
        [0.75, 7.95],
        [0.45 + 1.5 * level] * 2,
        color=QUIET,
        linewidth=0.7,
        linestyle="--",
    )
    caption(
        axes,
        0.67,
        0.45 + 1.5 * level,
        f"{level:.0%}",
        align="right",
        size=8.5,
        colour=QUIET,
    )
caption(axes, 0.9, 0.22, "blue: zeros", colour=FORWARD, size=9)
caption(axes, 2.2, 0.22, "orange, from above: values of 6", colour=BACKWARD, size=9)
show(
    figure,
    f"Bar chart with {len(relus)} bars, one for each ReLU in the order of execution. "
    f"The share of zeros goes up and down and rises on the whole, from {zeros[0]:.0%} "
    f"to {zeros[-1]:.0%}. The share of values at the ceiling of 6 is at most "
    f"{max(ceiling):.1%}.",
)

# %% [markdown]
# On the whole, the later the layer, the more of it is silent. Hundreds of channels of the last layer are dead on each
# photo, but only about a hundred on all three. **Dead on one image is a finding about the image; dead on all is a
# finding about the network.**
#
# ## Which channels speak for the cat?
#
# The classifier multiplies the **mean** of each late map by a weight, and adds up. So we can say exactly how much each
# channel adds to the difference of two logits: its mean, times the weight of the cat minus the weight of the espresso.

# %%
added = {}
for one, other in ((both.left, both.right), (both.right, both.left)):
    weight = (eye.fc.weight[one] - eye.fc.weight[other]).detach().cpu()
    added[one, other] = weight * late.mean((1, 2))
    best = added[one, other].topk(6).indices
    print(
        f"{seen.class_name(one)} minus {seen.class_name(other)}: "
        f"{added[one, other].sum():.1f}. channels",
        best.tolist(),
    )
    print("   they add     ", [round(v, 2) for v in added[one, other][best].tolist()])
    print("   share on left", [f"{v:.0%}" for v in share_left(late[best]).tolist()])
with torch.no_grad():
    logits = eye(x)[0].cpu()
    bias = (eye.fc.bias[both.left] - eye.fc.bias[both.right]).cpu()
by_channels, by_the_model = (
    added[both.left, both.right].sum() + bias,
    logits[both.left] - logits[both.right],
)
print(
    f"all channels and the bias: {by_channels:.3f}; the two logits differ by "
    f"{by_the_model:.3f}"
)
assert torch.allclose(by_channels, by_the_model, atol=1e-3)
if seen.photographs:
    assert (share_left(late[added[both.left, both.right].topk(6).indices]) > 0.6).all()
    assert (
        share_left(late[added[both.right, both.left].topk(6).indices]) < 0.4
    ).sum() == 5
    assert (
        share_left(late[added[both.right, both.left].topk(6).indices]) > 0.9
    ).sum() == 1
    assert all(shares.max() < 0.7 for shares in added.values())
    assert not any(  # from tabby to cheetah
        281 <= eye.fc.weight[:, k].argmax() <= 293
        for k in added[both.left, both.right].topk(6).indices
    )

# %% tags=["figure"]
rows = []
for (one, other), shares in added.items():
    row = [("collage", as_picture(both.image))]
    for k in shares.topk(6).indices.tolist():
        heat = F.interpolate(late[None, None, k], size=both.image.shape[1:])[0, 0]
        row.append((f"{k}: +{shares[k]:.2f}", heat_over(both.image, heat)))
    rows.append((f"{seen.class_name(one)}\nminus\n{seen.class_name(other)}", row))
show(
    picture_rows(
        rows,
        title="The six channels that add most to the difference of two logits: "
        "how much, and where",
        label=0.95,
    ),
    "Two rows, each with the collage and the maps of six channels as heat over it. In "
    f"the row {left} minus {right} all six are hotter on the left half. In the other "
    "row most are hotter on the right half"
    + (
        ", and one, channel 1269, on the left half, on the cat."
        if seen.photographs
        else "."
    ),
)

# %% [markdown]
# No channel *is* the cat: none adds as much as 0.7. But all six that speak for the cat lie more on the cat than on the
# cup. Of the six for espresso, five lie more on the cup, and one, to be honest, on the cat. Weighting maps by how much
# they speak for a class is the idea behind Grad-CAM, in lesson 10.
#
# ## All convolutions of a ResNet-34
#
# Posts on feature maps often show convolutions 0, 15 and 30 of a ResNet-34. Ours is written in plain `torch.nn`, and
# torchvision's ImageNet weights fit into it: a download of 87 MB, which `imagenet_resnet34()` tries. Without them, the
# names and shapes are real and the weights random.

# %%
with (
    contextlib.redirect_stdout(io.StringIO()),
    contextlib.redirect_stderr(io.StringIO()),
):
    # None without a network; torch.hub prints where the file comes from
    resnet = imagenet_resnet34()
weights = "random weights" if resnet is None else "ImageNet weights"
if resnet is None:
    torch.manual_seed(0)
    resnet = resnet34().eval()
resnet = resnet.to(device)

pixels = seen.images["portrait"] if seen.photographs else both.image[:, :, :64]
pixels = F.interpolate(pixels[None], size=(224, 224), mode="bilinear")
image = (
    (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
).to(device)

convolutions = [
    name for name, module in resnet.named_modules() if isinstance(module, nn.Conv2d)
]
print(
    f"ResNet-34 with {weights}, {len(convolutions)} convolutions; 0, 15 and 30 are:",
    *(convolutions[k] for k in (0, 15, 30)),
)
print(
    "in shortcuts:",
    {k: name for k, name in enumerate(convolutions) if "downsample" in name},
)
print("layer2.0 defines:", [name for name, _ in resnet.layer2[0].named_children()])
print(inspect.getsource(type(resnet.layer2[0]).forward))
assert len(convolutions) == 36 and [
    k for k, name in enumerate(convolutions) if "downsample" in name
] == [9, 18, 31]
assert [convolutions[k] for k in (0, 15, 30)] == [
    "conv1",
    "layer2.3.conv2",
    "layer4.0.conv2",
]

# %% [markdown]
# `named_modules()` lists modules in the order of **definition**. The block `layer2.0` defines its three convolutions as
# `conv1`, `conv2`, `downsample.0`. Its `forward` is printed above.
#
# **Predict.** In which order do they run?

# %%
guess("09-order-in-a-block", order=["downsample.0", "conv1", "conv2"])

# %%
with torch.no_grad():
    kept = capture(
        resnet.layer2[0],
        ["conv1", "conv2", "downsample.0"],
        torch.zeros(1, 64, 8, 8, device=device),
    )
ran = list(kept)  # a dict that is filled when hooks fire
print("ran:", ran)
compare("09-order-in-a-block", order=ran)
assert ran == ["downsample.0", "conv1", "conv2"]

# %% [markdown] explains="09-order-in-a-block"
# In our `forward` the shortcut runs first. In torchvision's, which has the same modules, it runs last. So go by names;
# and if you want to know what came before what, let the hooks tell you.


# %% exercise="09-conv-maps"
def conv_maps(model, x):
    """The output of every nn.Conv2d in one model(x), by name, in the order of
    execution.
    """
    ### BEGIN SOLUTION
    maps = {}
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):

                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()

                stack.enter_context(module.register_forward_hook(hook))
        model(x)
    return maps
    ### END SOLUTION


# %% [markdown]
# Your convolutions, in the order in which they ran. `layer4.0.conv2`, the 30 of those posts, is number 31 here: the
# shortcut of its block ran before it.

# %%
with torch.no_grad():
    try:
        every = conv_maps(resnet, image)  # yours
    except NotImplementedError:
        print("09-conv-maps is not solved yet, so these are the maps of `capture`.")
        every = capture(resnet, convolutions, image)
resnet_maps = {
    name: every[name][0].cpu() for name in (convolutions[k] for k in (0, 15, 30))
}
for k, (name, fm) in enumerate(every.items()):
    if k < 3 or k > 32 or name in resnet_maps:
        print(
            f"{k:2} {name:18}{tuple(fm.shape)!s:>20}  mean {fm.mean():6.2f}  std "
            f"{fm.std():5.2f}"
        )
assert (
    list(every).index("layer2.0.downsample.0") < list(every).index("layer2.0.conv1")
    and len(every) == 36
)
assert list(every)[29:32] == [
    "layer4.0.downsample.0",
    "layer4.0.conv1",
    "layer4.0.conv2",
]

# %% [markdown]
# **Predict.** Look at the `forward` of the block once more. One hook keeps the output of `bn2`, and another one that of
# the block. Is the ReLU of the first equal to the second, `"yes"` or `"no"`?

# %%
guess("09-last-layer", equal="no")

# %%
block, ones = resnet.layer1[0], torch.ones(1, 64, 8, 8, device=device)
with torch.no_grad():
    kept = capture(block, ["bn2", ""], ones)  # "" is the name of the block itself
same = torch.allclose(kept["bn2"].relu(), kept[""])
print(
    "equal:",
    same,
    "  with the block's input added:",
    torch.allclose((kept["bn2"] + ones).relu(), kept[""]),
)
compare("09-last-layer", equal="yes" if same else "no")
assert not same and torch.allclose((kept["bn2"] + ones).relu(), kept[""])

# %% [markdown] explains="09-last-layer"
# No: the block adds its input. No module does this addition, so no hook sees it, and a hook on `bn2` gets one of the
# two terms. For what leaves a residual block, put the hook on the block.

# %% [markdown]
# ## A figure of all maps
#
# `map_grid`, which drew the grids above, is ours. For your own, `figure, places = empty_axes(count, columns)` gives you a
# figure with empty axes, row by row. You add what keeps a picture honest: the scale of each map, as in
# `axes.imshow(values, cmap="gray", vmin=low, vmax=high)`, and `axes.set_title(...)`, which says what the channel is.


# %% exercise="09-plot-maps"
def plot_maps(fm, ncols=8, shared=False):
    """A figure with one gray image for each channel of [C, H, W]."""
    ### BEGIN SOLUTION
    figure, places = empty_axes(len(fm), ncols)
    for k, axes in zip(range(len(fm)), places):
        limits = fm if shared else fm[k]
        axes.imshow(
            fm[k].numpy(),
            cmap="gray",
            vmin=limits.min().item(),
            vmax=limits.max().item(),
        )
        axes.set_title(str(k))
    return figure
    ### END SOLUTION


# %% [markdown]
# Eight maps of each of the convolutions 0, 15 and 30, a row for each and each map on a scale of its own: drawn by your
# function, or by ours as long as it is not solved. The titles count through all 24.

# %%
alike = torch.cat(
    [F.interpolate(fm[None, :8], size=(112, 112))[0] for fm in resnet_maps.values()]
)
try:
    figure = plot_maps(alike)  # yours
except NotImplementedError:
    figure = map_grid(alike, columns=8)
show(
    figure,
    "Grid with the first eight feature maps of each of the convolutions 0, 15 and "
    f"30, computed with {weights}, each a gray image on a scale of its own. In the "
    "row of convolution 0 the picture can be recognised in every map. In that of "
    "convolution 15 the maps are coarser, and hardly a detail can be recognised. In "
    "that of convolution 30 each map consists of 49 gray squares.",
)

# %% [markdown]
# With random weights, the maps of the third row mean nothing. And yet the grid looks just as convincing.
#
# ## Every layer, at every step
#
# A hook can also watch a network while it learns. From the output of its layer it takes the mean, the standard
# deviation and a histogram, which together are 42 numbers, and lets the output go. For the histogram there is
# `values.histc(40, 0, 4)`, which counts the values in 40 bins of equal width from 0 to 4 and leaves out the others.
# Without limits the bins go from the smallest to the largest value, and then no two steps can be compared.


# %% exercise="09-activation-stats"
def activation_stats(layers, step, batches):
    """Mean, standard deviation and histogram of each layer's output, at each step of
    a training.
    """
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
    return {
        name: {part: torch.stack(found) for part, found in parts.items()}
        for name, parts in rows.items()
    }
    ### END SOLUTION


# %% [markdown]
# A small net of four blocks, without BatchNorm, starts to learn three drawn shapes, and your function watches. (Until
# you have solved the exercise, the cell notes the numbers without it.) Two runs begin with the same weights. With a
# learning rate of 0.02, the loss falls below 0.5; with 0.2, it ends at about 1.10, as if the net gave the same answer
# to every drawing.
#
# **Predict.** In which run are more outputs of the last block close to 0 after 60 steps, `0.02` or `0.2`?

# %%
guess("09-learning-rate", more_zeros=0.2)

# %% tags=["spoiler"]
drawings, labels, _ = draw_shapes(300, 5)
inputs = F.avg_pool2d(drawings, 2)  # 32 by 32 pixels are enough here
inputs = inputs - inputs.mean((2, 3), keepdim=True)
inputs = inputs / inputs.std()


def watch_training(rate, steps=60):
    """Train a small net, always from the same weights: what `activation_stats`
    returns, and the losses.
    """
    torch.manual_seed(0)
    sizes, losses = (3, 16, 32, 48, 64), []
    blocks = [
        nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU())
        for a, b in itertools.pairwise(sizes)
    ]
    student = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(64 * 2 * 2, len(CLASSES)))
    for block in blocks:
        nn.init.kaiming_normal_(block[0].weight, nonlinearity="relu")
        nn.init.zeros_(block[0].bias)
    optimizer = torch.optim.SGD(student.parameters(), lr=rate, momentum=0.9)
    layers = {f"block {number}": block for number, block in enumerate(blocks)}
    noted = {name: {"mean": [], "std": [], "hist": []} for name in layers}

    def step(batch):
        x = inputs[batch]
        # one after the other, to write down what each returns
        for name, block in layers.items():
            x = block(x)
            for part, value in (
                ("mean", x.mean()),
                ("std", x.std()),
                ("hist", x.detach().histc(40, 0, 4)),
            ):
                noted[name][part].append(value.detach())
        loss = F.cross_entropy(student[4:](x), labels[batch])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    batches = [torch.arange(32 * k, 32 * k + 32) % len(inputs) for k in range(steps)]
    try:
        return activation_stats(layers, step, batches), losses  # yours
    except NotImplementedError:
        for batch in batches:
            step(batch)
        return {
            name: {part: torch.stack(row) for part, row in of.items()}
            for name, of in noted.items()
        }, losses


runs, near_0 = {rate: watch_training(rate) for rate in (0.02, 0.2)}, {}
for rate, (stats, losses) in runs.items():
    # of 32 drawings, 64 maps and 2 by 2 pixels
    shares = stats["block 3"]["hist"][:, 0] / (32 * 64 * 2 * 2)
    near_0[rate] = shares[-1].item()
    print(
        f"rate {rate:4}: block 3 below 0.1: {shares[0]:.0%}, then {shares[-1]:.0%};",
        end=" ",
    )
    print(f"loss {losses[0]:.2f}, then {sum(losses[-5:]) / 5:.2f}")
print(f"loss of guessing among three classes: {math.log(3):.2f}")
compare("09-learning-rate", more_zeros=max(near_0, key=near_0.get))
assert near_0[0.02] < 0.65 and near_0[0.2] > 0.95
assert all(
    found["hist"][-1, 0] > 0.9 * found["hist"][-1].sum()
    for found in [*runs[0.2][0].values()][1:]
)
assert runs[0.2][0]["block 0"]["mean"][-1] > 2 * runs[0.2][0]["block 0"]["mean"][0]
assert all(
    found["mean"][-1] < 0.1 * found["mean"][0] for found in [*runs[0.2][0].values()][1:]
)
assert all(
    (found["mean"][10:] < 0.25 * found["mean"][0]).all()
    for found in [*runs[0.2][0].values()][1:]
)
assert all(
    (found["mean"] > 0.4 * found["mean"][0]).all() for found in runs[0.02][0].values()
)
assert (
    torch.tensor([1.0, 5.0]).histc(40, 0, 4).sum() == 1
    and torch.tensor([1.0, 5.0]).histc(40)[[0, -1]].sum() == 2
)
assert sum(runs[0.02][1][-5:]) / 5 < 0.5 and sum(runs[0.2][1][-5:]) / 5 > 1.05

# %% tags=["figure"]
figure, axes = card(8.2, 4.2)
caption(
    axes,
    0.15,
    4.0,
    "Outputs of four blocks over 60 steps; in the histograms, lighter means more "
    "values",
    size=11,
)
shades = ["#86b3e2", "#5b93d0", FORWARD, "#173a66"]
tops = {
    part: max(
        found[part].max() for stats, _ in runs.values() for found in stats.values()
    ).item()
    for part in ("mean", "std")
}
for row, (rate, (stats, _)) in enumerate(runs.items()):
    bottom, panels = (
        2.05 - 1.85 * row,
        [(part, 0.95 + 1.2 * column) for column, part in enumerate(tops)],
    )
    caption(axes, 0.15, bottom + 0.75, f"rate\n{rate}")
    for part, edge in panels:
        caption(axes, edge + 0.5, bottom + 1.6, part, align="center", size=9)
        caption(axes, edge - 0.05, bottom, "0", align="right", size=7.5, colour=QUIET)
        caption(
            axes,
            edge - 0.05,
            bottom + 1.45,
            f"{tops[part]:.1f}",
            align="right",
            size=7.5,
            colour=QUIET,
        )
        axes.plot(
            [edge, edge, edge + 1],
            [bottom + 1.5, bottom, bottom],
            color=QUIET,
            linewidth=0.7,
        )
        for found, shade in zip(stats.values(), shades):
            steps = torch.linspace(edge, edge + 1, len(found[part]))
            axes.plot(
                steps.numpy(),
                (bottom + 1.5 * found[part] / tops[part]).numpy(),
                color=shade,
                linewidth=1.3,
            )
    for column, (name, found) in enumerate(stats.items()):
        edge = 3.35 + 1.2 * column
        caption(
            axes,
            edge + 0.55,
            bottom + 1.6,
            name,
            align="center",
            size=9,
            colour=shades[column],
        )
        axes.imshow(
            found["hist"].T.log1p().numpy(),
            cmap="viridis",
            origin="lower",
            aspect="auto",
            extent=(edge, edge + 1.1, bottom, bottom + 1.5),
        )
    for value in (0, 2, 4):
        caption(
            axes,
            3.29,
            bottom + 0.05 + 0.35 * value,
            str(value),
            align="right",
            size=7.5,
            colour=QUIET,
        )
axes.set(xlim=(0, 8.2), ylim=(0, 4.2))
ends = {
    rate: ", ".join(f"{found['mean'][-1]:.2f}" for found in stats.values())
    for rate, (stats, _) in runs.items()
}
show(
    figure,
    "Two rows, one for each learning rate. Each begins with two line plots, of the "
    "mean and of the standard deviation of the outputs of the four blocks over 60 "
    "steps. A picture for each block follows, in which steps run to the right and "
    "values from 0 to 4 upwards; light colours mean many values. With rate 0.02 the "
    "curves of all blocks stay close together, and the values of all blocks stay "
    "spread out. With rate 0.2 block 0 grows, and the later ones fall almost to 0 "
    "within ten steps; the pictures of blocks 2 and 3 end dark but for the lowest "
    f"line. The last means, block by block: {ends[0.02]} with rate 0.02, and "
    f"{ends[0.2]} with rate 0.2.",
)

# %% [markdown] explains="09-learning-rate"
# With 0.2 the later blocks fall almost silent within ten steps: in the end more than nine in ten of their outputs are
# close to 0.
# The mean of block 0 has more than doubled instead. The loss says only that nothing is learned; the picture says where,
# and from which step on. Lesson 13 is about such runs.

# %% [markdown]
# ## Myths
#
# **"For looking at maps, the mode of the network does not matter."** In training mode BatchNorm takes the mean and the
# variance from the batch that you look at, here a single image. The maps change, and so does the answer. And each call
# moves the running averages, for good.

# %%
other = copy.deepcopy(eye).train()
with torch.no_grad():
    for mode, model in (("eval", eye), ("train", other)):
        p, c = model(x)[0].softmax(0).max(0)
        print(f"{mode:5}: {seen.class_name(c.item())} {p:.1%}")
moved = [
    name
    for name, buffer in other.named_buffers()
    if not torch.equal(buffer, eye.get_buffer(name))
]
print(
    "buffers that one call in training mode changed:",
    len(moved),
    "of",
    len(list(eye.buffers())),
)
assert len(moved) == len(list(eye.buffers())) or not seen.photographs
assert not torch.allclose(eye(x), other(x), atol=0.1)

# %% [markdown]
# ## On your own model
#
# What do its convolutions see? `your_model` takes a name, or a model of yours with an input for it; it downloads
# nothing.

# %%
from graders.nets import your_model

own, pictures = your_model("resnet18")
try:
    with torch.no_grad():
        seen_by_own = conv_maps(own, pictures)
    for name, fm in list(seen_by_own.items())[:8]:
        dead = (fm[0].amax((1, 2)) == fm[0].amin((1, 2))).sum()
        print(
            f"{name:24} {tuple(fm.shape)!s:20} mean {fm.mean():6.2f}  std "
            f"{fm.std():5.2f}  dead {dead}"
        )
    if seen_by_own:
        name, fm = next(iter(seen_by_own.items()))
        show(
            plot_maps(fm[0, :16].cpu()),
            f"The first maps of {name}, each a gray image on a scale of its own.",
        )
except NotImplementedError:
    print("Solve 09-conv-maps and 09-plot-maps, then run this cell again.")

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
# | `axes.imshow(fm[k], vmin=..., vmax=...)` | an image on the scale you choose; without the limits, from its own minimum to its own maximum |
#
# ## Where you meet this in the wild
#
# - **Training monitors.** fastai's `ActivationStats` records mean, standard deviation and histogram of each layer at
#   every step of a training.
# - **Dead-channel audits.** Channels that are zero over all the data can be removed. They may point to a learning rate
#   that was too high.
#
# Next: lesson 10, where gradients say which of these maps decided.
#
# ## Go deeper: a whole data set, and three functions without a hook
#
# These four exercises are optional: nothing later depends on them.
#
# ### Three numbers for each channel
#
# One picture says little about a channel. We want its mean, its variance and its share of zeros over *all* pictures.
# The activations for a million photos do not fit into memory, so a hook adds to a few sums at each batch, and keeps
# nothing else.

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
    "Batches of 5, 2 and 1 images go through the model one after the other. The hook "
    "on a layer sees its output of shape [B, C, ...] and adds to four sums: the count "
    "n, the sum of the values v, the sum of v squared, and the number of zeros. After "
    "each batch only these sums are kept, one number of each for every channel.",
)

# %% [markdown]
# Divide once, at the end: in a mean of means, a small last batch would weigh as much as the others. The variance is
# *the mean of the squares minus the square of the mean*.
#
# **Predict.** The values 10000 and 10001 have the variance 0.25. What does this formula give in float32, which keeps
# about seven digits of a number, and what in float64, which keeps about sixteen?

# %%
guess("09-variance", in_float32=0, in_float64=0.25)

# %%
values, variances = torch.tensor([10000.0, 10001.0]), {}
for dtype in (torch.float32, torch.float64):
    v = values.to(dtype)
    variances[dtype] = v.square().mean() - v.mean() ** 2
    print(dtype, variances[dtype].item())
compare(
    "09-variance",
    in_float32=variances[torch.float32],
    in_float64=variances[torch.float64],
)
assert values.square().mean() - values.mean() ** 2 == 0
assert values.double().square().mean() - values.double().mean() ** 2 == 0.25
# digits
assert [round(-math.log10(torch.finfo(dtype).eps)) for dtype in variances] == [7, 16]
assert (
    torch.stack([batch.mean() for batch in torch.arange(8.0).split([5, 2, 1])]).mean()
    > torch.arange(8.0).mean()
)

# %% [markdown] explains="09-variance"
# 0 in float32. The squares are about 100 million, which has nine digits: the difference is lost. So convert with
# `.double()` *before* you square and add.


# %% exercise="09-channel-stats"
def channel_stats(model, layer, batches):
    """Mean, variance and share of zeros of every channel of a layer's output, over
    all batches.
    """
    ### BEGIN SOLUTION
    count, sums, squares, zeros = 0, 0, 0, 0

    def hook(module, args, output):
        nonlocal count, sums, squares, zeros
        # one row for each channel
        values = output.detach().double().transpose(0, 1).flatten(1)
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
# What are such numbers good for? In a net that knows circles, squares and triangles, one channel of `features.4` is
# dead on drawing 4. Over 300 drawings it is zero in about half of all places, less than most, and no channel is zero
# everywhere:

# %% tags=["figure"]
net = shapes_net().to(device)
drawings, _, _ = draw_shapes(300, 5)
with torch.no_grad():
    third = capture(net, ["features.4"], drawings.to(device))["features.4"].cpu()
share = (third == 0).double().mean((0, 2, 3))
dead_on_4, rare = (
    [k for k in range(48) if third[4, k].max() == 0],
    [k for k in range(48) if share[k] > 0.9],
)
assert len(dead_on_4) == 1 and 0.45 < share[dead_on_4[0]] < 0.55 and share.max() < 1
assert (share > share[dead_on_4[0]]).sum() > 24

figure, axes = card(8.2, 2.9)
caption(
    axes,
    0.4,
    2.65,
    "features.4: share of zeros of each channel over 300 drawings",
    size=11,
)
for k in range(48):
    colour = BACKWARD if k in dead_on_4 else FORWARD if k in rare else QUIET
    axes.bar(
        0.85 + 0.148 * k, 1.6 * share[k].item(), bottom=0.55, width=0.11, color=colour
    )
    if k % 4 == 0:
        caption(
            axes, 0.85 + 0.148 * k, 0.38, str(k), align="center", size=8.5, colour=QUIET
        )
for level in (0.5, 1.0):
    axes.plot(
        [0.75, 7.95],
        [0.55 + 1.6 * level] * 2,
        color=QUIET,
        linewidth=0.7,
        linestyle="--",
    )
    caption(
        axes,
        0.67,
        0.55 + 1.6 * level,
        f"{level:.0%}",
        align="right",
        size=8.5,
        colour=QUIET,
    )
caption(axes, 0.85, 0.13, "orange: dead on drawing 4", colour=BACKWARD, size=9)
caption(
    axes, 3.2, 0.13, "blue: zero in more than 90% of all places", colour=FORWARD, size=9
)
show(
    figure,
    "Bar chart of the share of zeros of the 48 channels of features.4 over 300 "
    f"drawings. It lies between {share.min():.0%} and {share.max():.0%}. Above 90 "
    f"percent are the channels {rare}. The channel that is dead on drawing 4, "
    f"{dead_on_4[0]}, has {share[dead_on_4[0]]:.0%}.",
)

# %% [markdown]
# It responds to other drawings, as a channel that looks for something special should.
#
# ### Every map from 0 to 1
#
# To put maps on one sheet, each is first brought to a scale from 0 to 1. A flat map should become 0.
#
# **Predict.** A map has the value 3 everywhere. What is each entry of `(fm - fm.min()) / (fm.max() - fm.min())`? Write
# a number, `"nan"`, or `"raises"` if you think that nothing comes out.

# %%
guess("09-flat-map", entry="nan")

# %%
fm = torch.full((2, 2), 3.0)
flat = (fm - fm.min()) / (fm.max() - fm.min())
print(flat)
compare("09-flat-map", entry=flat[0, 0])
# transparent: blank
assert flat.isnan().all() and not first.cmap(np.ma.masked_invalid(flat.numpy())).any()

# %% [markdown] explains="09-flat-map"
# NaN, because 0 / 0 is NaN. Flat maps are not rare: after a ReLU, a channel that finds nothing is 0 everywhere.
# `imshow` leaves a map of NaN blank.

# %% [markdown]
# A popular remedy is to divide by `max - min + 1e-5`, which assumes that all maps are much larger than that. Below, a
# map with values around 1e-6 should reach 1, and does not. The other lines show what `.detach()` and `.float()` are
# for, and that `.numpy()` copies nothing.

# %%
faint = 1e-6 * weak
with_epsilon = (faint - faint.min()) / (faint.max() - faint.min() + 1e-5)
print("largest value:", round(with_epsilon.max().item(), 3))
assert 0.09 < with_epsilon.max() < 0.1

for tensor in (
    torch.ones(2, 2, requires_grad=True),
    torch.ones(2, 2, dtype=torch.bfloat16),
):
    try:
        tensor.numpy()
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")
        assert ("that requires grad" if tensor.requires_grad else "BFloat16") in str(
            error
        )

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
# All maps on one array, as tiles with a gap between them.

# %% tags=["figure"]
figure, axes = card(8.2, 3.05)
for k in range(12):
    row, column = divmod(k, 4)
    used = k < 10
    place = (0.5 + 1.1 * column, 1.85 - 0.8 * row)
    axes.add_patch(
        plt.Rectangle(
            place,
            1.0,
            0.7,
            facecolor="#e4ecf7" if used else "none",
            edgecolor=INK if used else QUIET,
        )
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
    "A sheet with ten tiles in four columns and three rows: 0 to 3, 4 to 7, then 8 "
    "and 9. The two places that are left in the last row hold the value fill, as do "
    "the gaps of pad pixels between tiles. There is no gap around the sheet. Its "
    "height is 3 H + 2 pad and its width 4 W + 3 pad.",
)


# %% exercise="09-tile-maps"
def tile_maps(fm, ncols, pad=1, fill=0.0):
    """All channels of [C, H, W] on one sheet, row by row."""
    ### BEGIN SOLUTION
    count, height, width = fm.shape
    columns = min(ncols, count)
    rows = math.ceil(count / columns)
    sheet = np.full(
        (rows * (height + pad) - pad, columns * (width + pad) - pad),
        fill,
        dtype=np.float32,
    )
    for k, tile in enumerate(fm.numpy()):
        row, column = divmod(k, columns)
        top, left = row * (height + pad), column * (width + pad)
        sheet[top : top + height, left : left + width] = tile
    return sheet
    ### END SOLUTION


# %% [markdown]
# ### The strongest, in order
#
# `topk` returns the largest values of a tensor, and where they stand. Mean and maximum answer different questions: how
# much in all, or how much in one place.


# %% exercise="09-top-channels"
def top_channels(fm, k):
    """The indices of the k channels with the largest mean, the largest first."""
    ### BEGIN SOLUTION
    return fm.mean((1, 2)).topk(k).indices.tolist()
    ### END SOLUTION


# %%
progress()
