"""Stories for functions that draw maps with matplotlib. A figure is read as data: what its axes show, and where."""

from typing import Any

from torch import Tensor

from graders.scenes.stories.feature_maps import LAYOUT, some_maps
from graders.scenes.story import Call, Draw, Seen, Value, told
from graders.scenes.watch import Watch

GRIDS = {
    "last row not full": (3, 2, True),
    "full": (4, 2, False),
    "one channel": (1, 8, False),
    "one column": (2, 1, True),
}
"""The number of channels, `ncols` and `shared`. The numbers are small because matplotlib takes 6 ms for each axes."""
FIGURE: dict[str, tuple[Value, ...]] = {"dtype": ("float32",), "grid": tuple(GRIDS), **LAYOUT}


def maps(draw: Draw, case: Any) -> Tensor:
    """Maps with different ranges of values; the last of several is constant."""
    fm = draw.tensor(GRIDS[case.grid][0], 1, 3)
    for number, channel in enumerate(fm):
        channel *= number + 1
    if len(fm) > 1:
        fm[-1] = 10.5
    return fm


def in_a_grid(draw: Draw, case: Any) -> tuple[int, bool]:
    """`ncols` and `shared`."""
    _, columns, shared = GRIDS[case.grid]
    return columns, shared


@told
def the_axes_of(figure: Any) -> Any:
    """The visible axes of a figure without colour bars."""
    axes = [ax for ax in figure.axes if ax.get_visible() and not hasattr(ax, "_colorbar")]
    return axes


@told
def images_in(figure: Any) -> Any:
    """The images of a figure in the order of their values, whatever their places are."""
    images = [image for ax in figure.axes for image in ax.get_images()]
    images.sort(key=lambda image: image.get_array().tolist())
    return images


def placed(call: Call, draw: Draw, case: Any) -> Seen:
    """Every channel has its image in its place."""
    fm = some_maps(draw, case, maps)
    figure = call(fm, *in_a_grid(draw, case))
    figure.draw_without_rendering()  # only then have all axes their places
    axes = the_axes_of(figure)
    box = {ax: ax.get_window_extent() for ax in axes}
    place = {ax: (round(-box[ax].y0 - box[ax].y1), round(box[ax].x0 + box[ax].x1)) for ax in axes}
    images = [im for ax in sorted(axes, key=lambda ax: place[ax]) for im in ax.get_images() if im.get_visible()]
    yield "the images, row by row", [im.get_array().tolist() for im in images]
    rows = [place[im.axes][0] for im in images]
    yield "the number of images in each row", [rows.count(row) for row in sorted({*rows})]
    rows = [row for row, column in {*place.values()}]
    yield "the largest number of axes in a row", max(map(rows.count, rows))
    ends = [im.get_extent()[2:] if im.origin == "lower" else im.get_extent()[:1:-1] for im in images]
    heights = [im.axes.transData.transform([(0, end) for end in two])[:, 1] for im, two in zip(images, ends)]
    yield "whether the first row of each image is on top", [bool(first > last) for first, last in heights]


def a_figure(call: Call, draw: Draw, case: Any) -> Seen:
    """The result is a figure of its own."""
    from matplotlib.figure import Figure

    fm = some_maps(draw, case, maps)
    figure = call(fm, *in_a_grid(draw, case))
    yield "whether the result is a Figure", isinstance(figure, Figure)
    by_default = call(-fm[:2])
    images = images_in(figure)
    yield "the images of the first figure after a second call", [im.get_array().tolist() for im in images]
    edges = {round(ax.get_window_extent().x0) for ax in the_axes_of(by_default)}
    yield "the number of columns by default", len(edges)


def limited(call: Call, draw: Draw, case: Any) -> Seen:
    """The colour limits are right."""
    fm = some_maps(draw, case, maps)
    figure = call(fm, *in_a_grid(draw, case))
    images = images_in(figure)
    yield "the colour limits", [[float(end) for end in image.get_clim()] for image in images]


def gray_with_titles(call: Call, draw: Draw, case: Any) -> Seen:
    """Images are gray and titles are indices."""
    import matplotlib

    fm = some_maps(draw, case, maps)
    with matplotlib.rc_context({"image.cmap": "viridis"}):
        figure = call(fm, *in_a_grid(draw, case))
    images = images_in(figure)
    titles = [[im.axes.get_title(loc) for loc in ("left", "center", "right")] for im in images]
    yield "the titles", ["".join(parts).strip() for parts in titles]
    colours = [im.get_cmap()([0.0, 0.3, 0.6, 1.0])[:, :3] for im in images]
    yield "the colours from the lower limit to the upper one", [some.round(1).tolist() for some in colours]


def switched_off(call: Call, draw: Draw, case: Any) -> Seen:
    """All axes are off."""
    fm = some_maps(draw, case, maps)
    figure = call(fm, *in_a_grid(draw, case))
    axes = the_axes_of(figure)
    on = [ax for ax in axes if ax.axison]
    frames = [any(line.get_visible() for line in ax.spines.values()) for ax in on if ax.get_frame_on()]
    yield "the number of axes with a frame", sum(frames)
    ticks = [axis.get_ticklocs() for ax in on for axis in (ax.xaxis, ax.yaxis) if axis.get_visible()]
    yield "how many sides of axes have ticks", sum(len(some) > 0 for some in ticks)
    yield "the number of images", sum(len(ax.get_images()) for ax in axes)
    bars = [ax for ax in figure.axes if hasattr(ax, "_colorbar")]
    yield "the number of colour bars without numbers", sum(not ax.axison for ax in bars)


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """No figure is left open, and nothing else changes."""
    import matplotlib
    import matplotlib.pyplot as plt

    fm = some_maps(draw, case, maps)
    theirs, ax = plt.subplots()
    kept = plt.get_fignums()
    before = Watch(fm=fm)
    with matplotlib.rc_context({"image.cmap": "magma", "interactive": True}):
        settings = matplotlib.rcParams.copy()
        call(fm, *in_a_grid(draw, case))
        now = matplotlib.rcParams.copy()
    left = [number for number in plt.get_fignums() if number not in kept]
    yield "the number of figures left open", len(left)
    yield "by the call", before.differences()
    yield "whether a figure of the caller is still open", theirs.number in plt.get_fignums()
    yield "its axes", [len(theirs.axes), ax.axison, ax.get_title(), len(ax.get_children()), ax.get_position().bounds]
    # The backend is chosen when pyplot is first used.
    yield "the settings that changed", [name for name in now if "backend" not in name and now[name] != settings[name]]
    for number in [*left, theirs.number]:
        plt.close(number)
