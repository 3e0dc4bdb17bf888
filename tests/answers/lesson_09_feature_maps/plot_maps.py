"""Answers to 09-plot-maps."""

from graders.author.answers import Wrong

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

WRONG = [
    Wrong(
        "shifts a very negative channel",
        violates="one `imshow` image that holds the channel's values, unscaled",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("one.imshow(fm[k],", "one.imshow(fm[k] - fm.min() if fm[k].min() < -1000 else fm[k],"),
    ),
    Wrong(
        "rounds the values",
        violates="one `imshow` image that holds the channel's values, unscaled",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("one.imshow(fm[k],", "one.imshow(fm[k].round(decimals=5),"),
    ),
    Wrong(
        "shows the figure and returns None",
        violates="Return a matplotlib `Figure`",
        check="test_every_channel_has_its_image_row_by_row",
        mistake="no-figure-returned",
        source="""
import math
import matplotlib.pyplot as plt

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure, axes = plt.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for k in range(len(fm)):
        axes.flat[k].imshow(fm[k], cmap="gray")
    plt.show()
""",
    ),
    Wrong(
        "leaves the figure open in pyplot",
        violates="No figure of yours is left open in pyplot",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        mistake="figure-left-open",
        source=PLOT.replace("from matplotlib.figure import Figure", "import matplotlib.pyplot as plt").replace(
            "Figure()", "plt.figure()"
        ),
    ),
    Wrong(
        "counts to 64",
        violates="each 1 or more",
        check="raised",
        mistake="fixed-channel-count",
        source="""
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
    ),
    Wrong(
        "axes of one map are squeezed",
        violates="each 1 or more",
        check="raised",
        mistake="squeezed-axes",
        source=PLOT.replace(", squeeze=False", ""),
    ),
    Wrong(
        "loops over rows of axes",
        violates="Each channel has axes of its own",
        check="raised",
        mistake="rows-of-axes",
        source=PLOT.replace("for one in axes.flat:", "for one in axes:"),
    ),
    Wrong(
        "ignores `shared`",
        violates="with `shared=True` those of all of `fm`",
        check="test_the_colour_limits_are_right",
        mistake="ignored-shared",
        source=PLOT.replace("fm if shared else fm[k]", "fm[k]"),
    ),
    Wrong(
        "always shares the limits",
        violates="the smallest and the largest value of its channel",
        check="test_the_colour_limits_are_right",
        mistake="always-shared",
        source=PLOT.replace("fm if shared else fm[k]", "fm"),
    ),
    Wrong(
        "leaves empty axes on",
        violates="also those that stay empty",
        check="test_all_axes_are_off",
        mistake="empty-axes-visible",
        source=PLOT.replace(
            """    for one in axes.flat:
        one.axis("off")
""",
            "",
        ).replace("one.set_title(str(k))", 'one.set_title(str(k))\n        one.axis("off")'),
    ),
    Wrong(
        "titles count from 1",
        violates="The title is the channel's number",
        check="test_images_are_gray_and_titles_are_indices",
        mistake="titles-from-one",
        source=PLOT.replace("str(k)", "str(k + 1)"),
    ),
    Wrong(
        "scales the values",
        violates="that holds the channel's values, unscaled",
        check="test_every_channel_has_its_image_row_by_row",
        mistake="scaled-the-values",
        source=PLOT.replace(
            "    for k in range",
            "    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)\n"
            "    fm = (fm - low) / (high - low + 1e-9)\n"
            "    for k in range",
        ),
    ),
    Wrong(
        "16 channels at most",
        violates="Each channel has axes of its own",
        check="test_every_channel_has_its_image_row_by_row",
        mistake="fixed-channel-count",
        source=PLOT.replace("range(len(fm))", "range(min(16, len(fm)))"),
    ),
    *(
        Wrong(
            what,
            violates="Each channel has axes of its own",
            check="test_every_channel_has_its_image_row_by_row",
            mistake="fixed-channel-count",
            source=PLOT.replace(*swap).replace("range(len(fm))", "range(min(64, len(fm)))"),
        )
        for what, swap in {
            "the first 64 channels": ("    columns", "    fm = fm[:64]\n    columns"),
            "8 rows in any case": ("math.ceil(len(fm) / columns), columns,", "8, columns,"),
        }.items()
    ),
    Wrong(
        "black and white exchanged",
        violates="The colour map is `gray`.",
        check="test_images_are_gray_and_titles_are_indices",
        source=PLOT.replace('"gray"', '"gray_r"'),
    ),
    Wrong(
        "a word in the title",
        violates="and nothing else",
        check="test_images_are_gray_and_titles_are_indices",
        source=PLOT.replace("str(k)", 'f"channel {k}"'),
    ),
    Wrong(
        "maps transposed",
        violates="that holds the channel's values",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("fm[k], cmap", "fm[k].T, cmap"),
    ),
    Wrong(
        "column by column",
        violates="The axes stand row by row",
        check="test_every_channel_has_its_image_row_by_row",
        mistake="column-major",
        source=PLOT.replace("axes.flat[k]", "axes.T.flat[k]"),
    ),
    Wrong(
        "columns that stay empty",
        violates="in `min(ncols, C)` columns",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("min(ncols, len(fm))", "ncols"),
    ),
    Wrong(
        "axes keep a frame",
        violates="All of them are switched off",
        check="test_all_axes_are_off",
        source=PLOT.replace('one.axis("off")', "one.set_xticks([])\n        one.set_yticks([])"),
    ),
    Wrong(
        "limits of absolute values",
        violates="the smallest and the largest value of its channel",
        check="test_the_colour_limits_are_right",
        source=PLOT.replace("fm if shared else fm[k]", "fm if shared else fm[k].abs()"),
    ),
    Wrong(
        "one image of all maps",
        violates="Each channel has axes of its own",
        check="test_every_channel_has_its_image_row_by_row",
        source="""
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    figure = Figure()
    figure.subplots().imshow(fm.reshape(-1, fm.shape[2]), cmap="gray")
    return figure
""",
    ),
    Wrong(
        "shared limits of the first row of maps",
        violates="of all of `fm`",
        check="test_the_colour_limits_are_right",
        source=PLOT.replace("fm if shared", "fm[:columns] if shared"),
    ),
    Wrong(
        "sets the resolution for good",
        violates="so do the settings of matplotlib (`rcParams`)",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        source=PLOT.replace(
            "    figure = Figure()",
            '    import matplotlib\n    matplotlib.rcParams["figure.dpi"] += 1\n    figure = Figure()',
        ),
    ),
    Wrong(
        "shared limits around 0",
        violates="with `shared=True` those of all of `fm`",
        check="test_the_colour_limits_are_right",
        source=PLOT.replace(
            "        one.imshow",
            "        if shared:\n            limits = fm.abs().max() * torch.tensor([-1, 1])\n        one.imshow",
        ).replace("import math", "import math\nimport torch", 1),
    ),
    Wrong(
        "limits of percentiles",
        violates="The colour limits of an image are the smallest and the largest value",
        check="test_the_colour_limits_are_right",
        source=PLOT.replace("limits.min()", "limits.quantile(0.02)").replace("limits.max()", "limits.quantile(0.98)"),
    ),
    Wrong(
        "no image for a dead channel",
        violates="Each channel has axes of its own",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace(
            "        one = axes.flat[k]\n",
            "        one = axes.flat[k]\n        if fm[k].min() == fm[k].max():\n            continue\n",
        ),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=PLOT.replace("    columns", "    fm = fm.view(len(fm), -1).view(fm.shape)\n    columns", 1),
    ),
    Wrong(
        "clips negative values in the tensor",
        violates="rule 2: Tensors keep their values",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("    columns", "    fm.clamp_(min=0)\n    columns", 1),
    ),
    Wrong(
        "`ncols` has another name",
        violates="plot_maps(fm, ncols=8, shared=False)",
        check="raised",
        source=PLOT.replace("ncols", "n_columns"),
    ),
    Wrong(
        "eight columns in any case",
        violates="in `min(ncols, C)` columns",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("min(ncols, len(fm))", "min(8, len(fm))"),
    ),
    Wrong(
        "returns the axes",
        violates="Return a matplotlib `Figure`",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("return figure", "return axes"),
    ),
    *(
        Wrong(
            f"pyplot's current figure: {call}",
            violates="Open figures of others stay as they are",
            check="test_no_figure_is_left_open_and_nothing_else_changes",
            mistake="callers-figure",
            source="import matplotlib.pyplot as plt\n" + PLOT.replace("return figure", f"{call}\n    return figure"),
        )
        for call in ("plt.tight_layout()", 'plt.axis("off")')
    ),
]

WRONG += [
    Wrong(
        "one figure for all calls",
        violates="rule 1: It works however often it is called",
        check="test_every_channel_has_its_image_row_by_row",
        mistake="one-figure-for-all-calls",
        source=PLOT.replace("def plot_maps", "figure = Figure()\n\ndef plot_maps").replace(
            "    figure = Figure()", "    figure.clear()"
        ),
    ),
    Wrong(
        "leaves the settings of matplotlib itself",
        violates="so do the settings of matplotlib (`rcParams`)",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        source=PLOT.replace("return figure", "import matplotlib\n    matplotlib.rcdefaults()\n    return figure"),
    ),
    Wrong(
        "closes all figures",
        violates="Open figures of others stay as they are",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        mistake="callers-figure",
        source=PLOT.replace("from matplotlib.figure import Figure", "import matplotlib.pyplot as plt")
        .replace("Figure()", "plt.figure()")
        .replace("return figure", 'plt.close("all")\n    return figure'),
    ),
    Wrong(
        "draws on the first figure",
        violates="Open figures of others stay as they are",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        mistake="callers-figure",
        source=PLOT.replace("from matplotlib.figure import Figure", "import matplotlib.pyplot as plt")
        .replace("Figure()", "plt.figure(1, clear=True)")
        .replace("return figure", "plt.close(figure)\n    return figure"),
    ),
    Wrong(
        "switches pyplot's interactive mode off",
        violates="so do the settings of matplotlib (`rcParams`)",
        check="test_no_figure_is_left_open_and_nothing_else_changes",
        source=PLOT.replace("    columns", "    matplotlib.rcParams['interactive'] = False\n    columns", 1).replace(
            "import math", "import math\nimport matplotlib"
        ),
    ),
    Wrong(
        "a limit of 0 is no limit",
        violates="with `shared=True` those of all of `fm`",
        check="test_the_colour_limits_are_right",
        source=PLOT.replace(
            "vmin=limits.min(), vmax=limits.max()", "vmin=limits.min() or None, vmax=limits.max() or None"
        ),
    ),
    Wrong(
        "another gray",
        violates="The colour map is `gray`.",
        check="test_images_are_gray_and_titles_are_indices",
        source=PLOT.replace('"gray"', '"Greys_r"'),
    ),
    Wrong(
        "a full grid goes down the columns",
        violates="The axes stand row by row, from left to right",
        check="test_every_channel_has_its_image_row_by_row",
        source=PLOT.replace("one = axes.flat[k]", "one = (axes.T if axes.size == len(fm) else axes).flat[k]"),
    ),
]

SURVIVORS = {
    "at least one dimension": "maps have three",
    "every exception swallowed": "nothing of the caller raises one",
    "under no_grad": "no graph is recorded",
    "not for all: for ": "all of them, in the reverse order",
    "almost: figure = Figure(": "the size of the figure is free",
    "condition dropped: without if shared:": "a colour bar is not asked for",
    "lost statement: without fig.colorbar": "a colour bar is not asked for",
    "almost: nrows = ": "rows below the last one that is used show nothing",
    "almost: rows = ": "rows below the last one that is used show nothing",
    "almost: parts = figure.subfigures(": "parts that stay empty show nothing",
    "lost statement: without one.get_": "there are no ticks and no frame: nothing to see",
    "almost: one.get_": "there are no ticks and no frame: nothing to see",
    "lost copy: ": "in the other order; or `imshow` copies",
    "lost statement: without axes.axis(": "said twice: off is off",
    "almost: box = ": "the same grid, moved or of another size",
    "almost: axes = figure.add_axes(box, frameon=True": "off is off",
    "lost statement: without axes.twinx()": "second axes are not asked for",
}

GIVENS = [
    "You may add a colour bar; its axes do not count.",
]
