"""Exercise 09-plot-maps."""

import math

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import figures


def a_figure():
    """One that pyplot knows nothing of."""
    from matplotlib.figure import Figure  # here, because graders are collected without it

    return Figure()


def pyplot():
    """It takes a while to be imported."""
    import matplotlib.pyplot

    return matplotlib.pyplot


def least(values):
    """The lower colour limit."""
    return values.min().item()


def plot(
    fm, ncols, shared, make=a_figure, squeeze=False, all_off=True, cmap="gray", title=str, rows=math.ceil, low=least
):
    """The figure, with what is wrong about it. `rows` rounds their number."""
    columns = min(ncols, len(fm))
    figure = make()
    axes = figure.subplots(rows(len(fm) / columns), columns, squeeze=squeeze)
    return drawn(figure, axes.flat, fm, shared, all_off, cmap, title, low)


def drawn(figure, axes, fm, shared, all_off=True, cmap="gray", title=str, low=least):
    """The figure with the images in these axes, one after another."""
    for k, one in enumerate(axes):
        if k < len(fm):
            of = fm if shared else fm[k]
            one.imshow(fm[k], cmap=cmap, vmin=low(of), vmax=of.max().item())
            one.set_title(title(k))
        if k < len(fm) or all_off:
            one.axis("off")
    return figure


@exercise(
    "09-plot-maps",
    points=2,
    minutes=10,
    difficulty=1,
    core=True,
    title="A figure of all maps",
    hints=(
        "`figure, places = empty_axes(len(fm), ncols)` makes the figure. `zip(fm, places)` goes through the channels "
        "and their places together, and leaves the places that stay empty alone.",
        "Pass `vmin` and `vmax` to `imshow`: the minimum and the maximum of all of `fm` with `shared`, otherwise those "
        "of the channel.",
    ),
    why=(
        "`empty_axes` makes a `Figure` of its own, which pyplot does not know, so nothing has to be closed; what is "
        "left is to choose each scale. `plt.subplots` with `plt.close` at the end would do as well, and so would "
        "`figure.add_subplot` for each map."
    ),
    scene=stories(
        promises={
            "every channel has its image in its place": (figures.placed, figures.a_figure),
            "the colour limits are right": figures.limited,
            "images are gray and titles are indices": figures.gray_with_titles,
            "all axes are off": figures.switched_off,
            "no figure is left open and nothing else changes": figures.left_alone,
        },
        axes=figures.FIGURE,
    ),
)
class TestPlotMaps:
    """Write `plot_maps(fm, ncols=8, shared=False)`: return a matplotlib `Figure` in which each channel of `fm`, [C, H,
    W], has axes with one gray `imshow` image of its values. They are arranged row by row, from left to right, in
    `min(ncols, C)` columns.

    **Example.** The colour limits of an image are the smallest and the largest value of its channel.

    >>> figure = plot_maps(torch.tensor([[[0.0, 1.0]], [[2.0, 5.0]]]))
    >>> sorted(image.get_clim() for axes in figure.axes for image in axes.get_images())
    [(0.0, 1.0), (2.0, 5.0)]

    **Fine print.** `fm` is detached and of dtype float32. The colour map is `gray`, and values are unscaled. With
    `shared=True` the limits are those of all of `fm`. The title is the channel's number and nothing else: `"0"`, `"1"`.
    All axes are switched off, even empty ones; a colour bar, if you add one, keeps its numbers. None of your figures is
    left open in pyplot; other people's open figures stay as they are, as do the settings of matplotlib (`rcParams`).
    """

    def reference(fm, ncols=8, shared=False):
        columns = min(ncols, len(fm))
        rows = -(-len(fm) // columns)
        figure = a_figure()
        for k, channel in enumerate(fm):
            shown = fm if shared else channel
            axes = figure.add_subplot(rows, columns, k + 1)
            axes.imshow(channel, cmap="gray", vmin=shown.min().item(), vmax=shown.max().item())
            axes.set_title(k)
            axes.set_axis_off()
        return figure

    class Mistakes:
        def no_figure_returned(fm, ncols=8, shared=False):
            """Your function returns `None`. Return the figure: `return figure`. A call of `plt.show()` displays it and
            gives the caller nothing.
            """
            plot(fm, ncols, shared, make=pyplot().figure)

        def figure_left_open(fm, ncols=8, shared=False):
            """Your figure is still open in pyplot, which keeps every figure that it made until it is closed. Call
            `plt.close(figure)` before you return it, or make it with `matplotlib.figure.Figure()`.
            """
            return plot(fm, ncols, shared, make=pyplot().figure)

        def callers_figure(fm, ncols=8, shared=False):
            """A figure that somebody else had open was closed, or changed. `plt.close("all")` closes everybody's
            figures, `plt.figure(1)` takes the one that has this number, and functions such as `plt.axis` change the
            current one, which may not be yours. Name your own: `plt.close(figure)`, `axes.axis(...)`.
            """
            figure = plot(fm, ncols, shared, make=pyplot().figure)
            pyplot().close("all")
            return figure

        def callers_figure__2(fm, ncols=8, shared=False):
            figure = plot(fm, ncols, shared, make=lambda: pyplot().figure(1, clear=True))
            pyplot().close(figure)
            return figure

        def squeezed_axes(fm, ncols=8, shared=False):
            """With a single row or column, `subplots` returns axes in a smaller array, and with a single map no
            array at all. Pass `squeeze=False`: then it is always two-dimensional.
            """
            return plot(fm, ncols, shared, squeeze=True)

        def colour_bar_off(fm, ncols=8, shared=False):
            """You switched off all of `figure.axes`. The colour bar is one of them, and has lost its numbers. Add it
            after that, or switch off the axes of the images alone.
            """
            figure = plot(fm, ncols, shared)
            if shared:
                figure.colorbar(figure.axes[0].get_images()[0], ax=figure.axes)
            for axes in figure.axes:
                axes.set_axis_off()
            return figure

        def ignored_shared(fm, ncols=8, shared=False):
            """With `shared=True` every image needs the same colour limits: the minimum and the maximum of all of `fm`.
            Left alone, `imshow` scales each image by itself.
            """
            return plot(fm, ncols, False)

        def always_shared(fm, ncols=8, shared=False):
            """Without `shared`, each image has the limits of its own channel: `fm[k].min()` and `fm[k].max()`. You took
            those of all of `fm`.
            """
            return plot(fm, ncols, True)

        def limits_from_zero(fm, ncols=8, shared=False):
            """Your lower colour limit is always 0. It has to be the smallest value of the channel, or with `shared`
            that of all of `fm`.
            """
            return plot(fm, ncols, shared, low=lambda values: 0)

        def limits_from_zero__2(fm, ncols=8, shared=False):
            return plot(fm, ncols, shared, low=lambda values: 0) if shared else plot(fm, ncols, shared)

        def limits_of_zero_and_one(fm, ncols=8, shared=False):
            """Your colour limits are always 0 and 1. They have to be the smallest and the largest value of the channel,
            or with `shared` those of all of `fm`.
            """
            figure = plot(fm, ncols, shared)
            for axes in figure.axes:
                for image in axes.get_images():
                    image.set_clim(0, 1)
            return figure

        def shared_the_wrong_way_round(fm, ncols=8, shared=False):
            """You have it the wrong way round: with `shared=True` the limits are those of all of `fm`, and without it
            those of the channel.
            """
            return plot(fm, ncols, not shared)

        def always_ncols_columns(fm, ncols=8, shared=False):
            """With fewer channels than `ncols`, your figure has empty columns. Use `min(ncols, C)` columns."""
            figure = a_figure()
            axes = figure.subplots(math.ceil(len(fm) / ncols), ncols, squeeze=False)
            return drawn(figure, axes.flat, fm, shared)

        def rounded_down(fm, ncols=8, shared=False):
            """The last row, which is not full, is missing. Round the number of rows up: `math.ceil(C / columns)`."""
            return plot(fm, ncols, shared, rows=int)

        def column_by_column(fm, ncols=8, shared=False):
            """Your images go down the columns. They have to go row by row, from left to right: `axes.flat` is in that
            order.
            """
            figure, columns = a_figure(), min(ncols, len(fm))
            axes = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
            return drawn(figure, axes.T.flat, fm, shared)

        def rows_and_columns_swapped(fm, ncols=8, shared=False):
            """You took the number of rows for that of columns. `subplots` wants the rows first:
            `figure.subplots(rows, columns)`.
            """
            figure, columns = a_figure(), min(ncols, len(fm))
            axes = figure.subplots(columns, math.ceil(len(fm) / columns), squeeze=False)
            return drawn(figure, axes.flat, fm, shared)

        def transposed_maps(fm, ncols=8, shared=False):
            """You transposed the maps. Give `imshow` each channel as it is, [H, W]."""
            return plot(fm.mT, ncols, shared)

        def returned_the_axes_too(fm, ncols=8, shared=False):
            """You returned the figure together with its axes. Return the figure alone: `return figure`."""
            figure = plot(fm, ncols, shared)
            return figure, figure.axes

        def upside_down(fm, ncols=8, shared=False):
            """Your images stand on their heads: the first row of a map belongs on top. Leave out `origin="lower"`."""
            figure = plot(fm, ncols, shared)
            for axes in figure.axes:
                axes.invert_yaxis()
            return figure

        def empty_axes_visible(fm, ncols=8, shared=False):
            """Some places stay empty, and their axes still show a frame and ticks. Switch all axes off, not only those
            that got an image.
            """
            return plot(fm, ncols, shared, all_off=False)

        def titles_from_one(fm, ncols=8, shared=False):
            """Your titles count from 1. The title is the index of the channel, and `fm[0]` is the first."""
            return plot(fm, ncols, shared, title=lambda k: str(k + 1))

        def more_than_the_number(fm, ncols=8, shared=False):
            """Your titles say more than the number of the channel. The title is the index and nothing else:
            `axes.set_title(str(k))`.
            """
            return plot(fm, ncols, shared, title=lambda k: f"channel {k}")

        def more_than_the_number__2(fm, ncols=8, shared=False):
            return plot(fm, ncols, shared, title=lambda k: f"Channel {k}")

        def no_titles(fm, ncols=8, shared=False):
            """Your images have no titles. Give each the index of its channel: `axes.set_title(str(k))`."""
            return plot(fm, ncols, shared, title=lambda k: "")

        def another_colour_map(fm, ncols=8, shared=False):
            """The colour map is not `gray`. Without `cmap="gray"`, `imshow` takes the one from the settings; `gray_r`
            has black and white swapped.
            """
            return plot(fm, ncols, shared, cmap=None)

        def scaled_the_values(fm, ncols=8, shared=False):
            """Your images hold scaled values. Give `imshow` the values as they are, and `vmin` and `vmax` with them."""
            low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
            return plot((fm - low) / (high - low + 1e-9), ncols, shared)

        def settings_changed(fm, ncols=8, shared=False):
            """You changed the settings of matplotlib, `rcParams`, which everybody shares. Say it in each call, as in
            `imshow(..., cmap="gray")`, or change them within `with matplotlib.rc_context(...):`.
            """
            import matplotlib

            matplotlib.rcParams["image.cmap"] = "gray"
            return plot(fm, ncols, shared)

        def settings_changed__2(fm, ncols=8, shared=False):
            """You changed a setting of matplotlib: `plt.ioff()` sets `rcParams["interactive"]`, which everybody shares.
            Leave it out, or write `with plt.ioff():`.
            """
            pyplot().ioff()
            return plot(fm, ncols, shared)
