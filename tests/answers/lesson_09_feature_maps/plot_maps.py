"""Answers to 09-plot-maps."""

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
    parts = figure.subfigures(nrows, ncols, squeeze=False)
    for k, part in enumerate(parts.flat):
        one = part.subplots()
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

SURVIVORS = {
    "not for all: for ": "all of them, in the reverse order",
    "almost: def plot_maps(fm, ncols=9": "the default stands in the stub, and to try it would take nine axes",
    "almost: parts = figure.subfigures(": "parts that stay empty show nothing",
    "lost copy: ": "in the other order; or `imshow` copies",
    "lost statement: without axes.twinx()": "second axes are not asked for",
    "almost: … = Figure(": "the size of the figure is free",
    "almost: … rows = ": "rows below the last one that is used show nothing",
    "almost: … figure.subplots(math.ceil(len(fm) * columns)": "rows below the last one that is used show nothing",
    "… without if shared:": "a colour bar is not asked for",
    "… without fig.colorbar": "a colour bar is not asked for",
    "… one.get_": "there are no ticks and no frame: nothing to see",
    "almost: … box": "the same grid, moved or of another size, with a frame or without one",
    "lost statement: without axes.axis(": "said twice: off is off",
}
