"""Answers to 09-plot-maps."""

PLOT = """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    axes = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for one in axes.flat:
        one.axis("off")
    for k in range(len(fm)):
        one = axes.flat[k]
        limits = fm if shared else fm[k]
        one.imshow(fm[k], cmap="gray", vmin=limits.min(), vmax=limits.max())
        one.set_title(str(k))
    return figure
"""

RIGHT = [
    """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    axes = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for one in axes.flat:
        one.axis("off")
    for k, (one, channel) in enumerate(zip(axes.flat, fm)):
        limits = fm if shared else channel
        one.imshow(channel.numpy(), cmap="gray", vmin=limits.min().item(), vmax=limits.max().item())
        one.set_title(str(k))
    return figure
""",
    """
import math
import matplotlib.pyplot as plt
from matplotlib.colors import Normalize

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, fm.shape[0])
    nrows = math.ceil(fm.shape[0] / ncols)
    norm = Normalize(float(fm.min()), float(fm.max()))
    fig = plt.figure(figsize=(ncols, nrows))
    for k in range(fm.shape[0]):
        ax = fig.add_subplot(nrows, ncols, k + 1)
        image = ax.imshow(fm[k], cmap=plt.cm.gray, **({"norm": norm} if shared else {}))
        ax.set_title(k, loc="left")
        ax.set_axis_off()
    if shared:
        fig.colorbar(image, ax=fig.axes)
    plt.close(fig)
    return fig
""",
    """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, len(fm))
    nrows = (len(fm) - 1) // ncols + 1
    figure = Figure(layout="constrained", figsize=(ncols, 1.2 * nrows))
    parts = figure.subfigures(nrows, 1, squeeze=False)
    for row in range(nrows):
        axes = parts[row, 0].subplots(1, ncols, squeeze=False)[0]
        for column, one in enumerate(axes):
            k = row * ncols + column
            if k >= len(fm):
                one.set_visible(False)
                continue
            image = one.imshow(fm[k].tolist(), "gray")
            if shared:
                image.set_clim(fm.amin().item(), fm.amax().item())
            one.set(title=f"{k}", xticks=[], yticks=[])
            one.set_frame_on(False)
            one.get_xaxis().set_visible(False)
            one.get_yaxis().set_visible(False)
    return figure
""",
    """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, len(fm))
    nrows = -(-len(fm) // ncols)
    figure = Figure((ncols, nrows))
    for k in reversed(range(len(fm))):
        row, column = divmod(k, ncols)
        box = (column / ncols, 1 - (row + 1) / nrows, 0.8 / ncols, 0.7 / nrows)
        axes = figure.add_axes(box, frameon=False, xticks=[], yticks=[], title=str(k))
        axes.axis("off")
        part = fm if shared else fm[k]
        axes.matshow(fm[k].numpy().copy(), cmap="gray", vmin=part.min(), vmax=part.max())
        axes.axis(False)
    return figure
""",
    # No ticks and no frame are nothing to see; second axes, off as well, lie on the first ones.
    """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    grid = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for k, axes in enumerate(grid.flat[:len(fm)]):
        scale = fm if shared else fm[k]
        axes.imshow(fm[k], cmap="gray", vmin=scale.min().item(), vmax=scale.max().item())
        axes.set_title(k)
        axes.twinx().set_axis_off()
    return figure
""",
]

WRONG = {
    "no-figure-returned": """
import math
import matplotlib.pyplot as plt

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure, axes = plt.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for k in range(len(fm)):
        axes.flat[k].imshow(fm[k], cmap="gray")
    plt.show()
""",
    "figure-left-open": PLOT.replace("from matplotlib.figure import Figure", "import matplotlib.pyplot as plt").replace(
        "Figure()", "plt.figure()"
    ),
    "fixed-channel-count": """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    figure = Figure()
    for k in range(64):
        one = figure.add_subplot(8, 8, k + 1)
        limits = fm if shared else fm[k]
        one.imshow(fm[k], cmap="gray", vmin=limits.min(), vmax=limits.max())
        one.set_title(str(k))
        one.axis("off")
    return figure
""",
    "squeezed-axes": PLOT.replace(", squeeze=False", ""),
    "rows-of-axes": PLOT.replace("for one in axes.flat:", "for one in axes:"),
    "ignored-shared": PLOT.replace("fm if shared else fm[k]", "fm[k]"),
    "always-shared": PLOT.replace("fm if shared else fm[k]", "fm"),
    "empty-axes-visible": PLOT.replace(
        """    for one in axes.flat:
        one.axis("off")
""",
        "",
    ).replace("one.set_title(str(k))", 'one.set_title(str(k))\n        one.axis("off")'),
    "titles-from-one": PLOT.replace("str(k)", "str(k + 1)"),
    "scaled-the-values": PLOT.replace(
        "    for k in range",
        "    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)\n"
        "    fm = (fm - low) / (high - low)\n"
        "    for k in range",
    ),
}

ALSO_WRONG = [
    PLOT.replace("range(len(fm))", "range(min(64, len(fm)))"),
    PLOT.replace('"gray"', '"gray_r"'),
    PLOT.replace("str(k)", 'f"channel {k}"'),
    PLOT.replace("fm[k], cmap", "fm[k].T, cmap"),
    PLOT.replace("axes.flat[k]", "axes.T.flat[k]"),
    PLOT.replace("min(ncols, len(fm))", "ncols"),
    PLOT.replace('one.axis("off")', "one.set_xticks([])\n        one.set_yticks([])"),
    PLOT.replace("fm if shared else fm[k]", "fm if shared else fm[k].abs()"),
    """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    figure = Figure()
    figure.subplots().imshow(fm.reshape(-1, fm.shape[2]), cmap="gray")
    return figure
""",
]
