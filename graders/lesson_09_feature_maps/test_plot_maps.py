"""Exercise 09-plot-maps."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
    paired,
)
from graders.lesson_09_feature_maps.judging import normalized

GRIDS = {
    "last row not full": (3, 2),
    "full": (4, 2),
    "one channel": (1, 8),
    "one column": (2, 1),
    "many rows": (20, 8),  # as in the example
}
"""How many channels there are, and `ncols`. Each axes takes matplotlib 6 ms: none is made without need."""
MANY = torch.arange(65.0).view(65, 1, 1)
"""More channels than a loop of 8 by 8 comes to."""


def settings() -> dict[str, Any]:
    """The settings of matplotlib that a learner may have made. The backend follows from how the notebook runs."""
    import matplotlib  # here, because the graders are collected without it

    return {name: value for name, value in matplotlib.rcParams.items() if "backend" not in name}


def open_figures() -> list[int]:
    """The numbers of the figures that pyplot keeps; it keeps none when nobody imported it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []


class CallersFigure:
    """A figure that the caller has open in pyplot, where somebody imported that."""

    def __init__(self, with_axes: bool) -> None:
        self.pyplot = sys.modules.get("matplotlib.pyplot")
        if self.pyplot:
            self.figure = self.pyplot.figure()
            if with_axes:
                self.figure.add_subplot()
            self.looked = self.looks()

    def looks(self) -> list[str]:
        """How it looks: all that pyplot's functions for the current figure and its axes change."""
        parts = [
            self.figure,
            *self.figure.get_children(),
            *(part for axes in self.figure.axes for part in axes.get_children()),
        ]
        shown = [f"{part} {part.get_visible()} {getattr(part, 'axison', '')}" for part in parts]
        return [*shown, *(str(axes.get_position().bounds) for axes in self.figure.axes)]

    def became(self) -> str:
        """What became of it: "as it was", "closed", or "changed". It is closed now."""
        if not self.pyplot:
            return "as it was"
        if not self.pyplot.fignum_exists(self.figure.number):
            return "closed"
        same = self.pyplot.figure(self.figure.number) is self.figure and self.looks() == self.looked
        self.pyplot.close(self.figure)
        return "as it was" if same else "changed"


@contextlib.contextmanager
def no_garbage_collected() -> Iterator[None]:
    """Axes are so many small objects that Python searches for garbage again and again: half of the time, for nothing.

    A figure that nobody keeps when the context ends is collected at once, and never counted as old.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if enabled:
            gc.enable()


class Planned(BaseException):
    """A figure gets its first axes, by a `grid` of rows and columns, or by none."""

    def __init__(self, grid: list[int]) -> None:
        self.grid = grid


def planned_grid(plot: Callable[[], Any]) -> list[int]:
    """The rows and columns of the grid that `plot` makes, which is stopped at its first axes; empty without one grid.

    To let it go on with many channels would take longer than all else.
    """
    from matplotlib.axes import Axes  # here, because the graders are collected without matplotlib
    from matplotlib.figure import Figure
    from matplotlib.projections import register_projection

    class First(Axes):
        """The axes that a figure makes unless it is asked for others."""

        name = "rectilinear"

        def __init__(self, figure: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(figure, *args, **kwargs)
            spec = self.get_subplotspec() if isinstance(figure, Figure) else None
            whole = spec is not None and spec is spec.get_topmost_subplotspec()  # no grid in a part of the figure
            raise Planned(list(spec.get_geometry()[:2]) if whole else [])

    register_projection(First)
    try:
        plot()
    except Planned as planned:
        return planned.grid
    finally:
        register_projection(Axes)
    return []


def is_off(axes: Any) -> bool:
    """Whether axes show neither ticks nor a frame."""
    if not axes.axison or not axes.get_visible():
        return True
    hidden = not any(axis.get_visible() and len(axis.get_majorticklocs()) for axis in (axes.xaxis, axes.yaxis))
    return hidden and not (axes.get_frame_on() and any(spine.get_visible() for spine in axes.spines.values()))


def is_gray(image: Any) -> bool:
    """Whether its colours are those of `gray`: from black to white in even steps."""
    if image.get_cmap() == sys.modules["matplotlib"].colormaps["gray"]:
        return True
    steps = torch.linspace(0, 1, 9)
    shades = torch.tensor(image.get_cmap()(steps.numpy()))[:, :3]
    return bool((shades - steps[:, None]).abs().max() < 0.02)


def place(axes: Any, figure: Any) -> tuple[float, float]:
    """How far the centre of axes is from the top and from the left of the figure, as a share of it."""
    locator = axes.get_axes_locator()  # an ImageGrid places its axes with one
    box = locator(axes, None) if locator else axes.get_position(original=True)
    box = box.transformed(axes.figure.transSubfigure)
    down, right = 1 - (box.y0 + box.y1) / 2 / figure.bbox.height, (box.x0 + box.x1) / 2 / figure.bbox.width
    return round(float(down), 3), round(float(right), 3)


def is_colour_bar(axes: Any) -> bool:
    """Whether these axes were made for a colour bar."""
    return bool(getattr(axes, "_colorbar", None)) or axes.get_label() == "<colorbar>"


def figure_data(figure: Any) -> Any:
    """What a figure shows, in reading order: rows of maps, and the axes without one. Colour bars do not count."""
    from matplotlib.figure import Figure  # here, because the graders are collected without matplotlib

    if not isinstance(figure, Figure):
        return type(figure).__name__
    axes = [panel for panel in figure.axes if panel.get_images() or (panel.get_visible() and not is_colour_bar(panel))]
    placed = sorted((*place(panel, figure), number) for number, panel in enumerate(axes))
    maps, rows = [], []
    for down, _, number in placed:
        for image in axes[number].get_images():
            rows.append(down)
            low, high = image.get_clim()
            titles = [axes[number].get_title(loc) for loc in ("center", "left", "right")]
            maps.append(
                {
                    "array": torch.tensor(np.ma.filled(np.ma.array(image.get_array(), dtype="float32"), np.nan)),
                    "clim": [None if limit is None else float(limit) for limit in (low, high)],
                    "title": "".join(titles).strip(),
                    "off": is_off(axes[number]),
                    "shown": axes[number].get_visible() and image.get_visible(),
                    "gray": is_gray(image),
                }
            )
    return {
        "maps": maps,
        "rows": [rows.count(down) for down in sorted(set(rows))],
        "columns": max(
            [len({right for other, right, _ in placed if other == down}) for down, _, _ in placed], default=0
        ),
        "one_each": all(len(panel.get_images()) < 2 for panel in axes),
        "empty_axes_on": sum(not panel.get_images() and not is_off(panel) for panel in axes),
    }


def limits(fm: Tensor, shared: bool) -> list[list[float]]:
    """The colour limits of each map."""
    return [[part.min().item(), part.max().item()] for part in ([fm] * len(fm) if shared else fm)]


@exercise(
    "09-plot-maps",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="A figure of all maps",
    hints=(
        "`matplotlib.figure.Figure()` makes a figure that pyplot knows nothing of, so there is nothing to close. "
        "With `plt.subplots`, call `plt.close(figure)` before you return it.",
        "`figure.subplots(rows, columns, squeeze=False)` gives a two-dimensional array of axes even for one map. "
        "`axes.flat` runs through it row by row. Switch all of them off, also those that stay empty.",
        "Pass `vmin` and `vmax` to `imshow`: the minimum and the maximum of all of `fm` with `shared`, otherwise those "
        "of the channel.",
    ),
    why=(
        "A `Figure` of your own is unknown to pyplot, so nothing has to be closed, and `squeeze=False` makes "
        "one map no special case. `plt.figure` with `plt.close` at the end would do as well, and so would "
        "`figure.add_subplot` for each map."
    ),
    circumstances=Circumstances(
        covers={"layout": ("contiguous", "transposed", "slice"), "values": ALL, "call": ("once", "again")},
        excludes={
            "dtype": "the tensor is float32",
            "rank": "maps have three dimensions",
            "place": "the tensor is detached",
            "grad": "the tensor is detached",
            "number": "ncols goes with the grid",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooks": "no gradient flows",
            "hooked": "no gradient flows",
            "grad_mode": "no graph is recorded",
            "backward": "there is no pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"grid": tuple(GRIDS), "shared": (True, False), "written": ("positions", "keywords", "defaults"),
             "dead": ("none", "last"), "shared_end_at_0": ("none", "lower", "upper"), "interactive": (False, True),
             "callers_axes": (False, True)},
        impossible=[
            # With many rows the last one is not full, either.
            lambda grid, shared: shared != (grid in ("last row not full", "one column")),
            lambda grid, dead: grid == "one channel" and dead == "last",
            lambda shared_end_at_0, shared: (shared_end_at_0 == "none") == shared,
            lambda grid, written: (written == "defaults") != (grid == "many rows"),
            lambda grid, call: (call == "again") != (grid == "one channel"),  # the cheapest
            lambda grid, values: grid == "one channel" and values == "full",
        ],
    ),
)  # fmt: skip
class TestPlotMaps:
    """Write `plot_maps(fm, ncols=8, shared=False)`. `fm` is a detached float32 tensor of shape [C, H, W], each 1 or
    more. Return a matplotlib `Figure` of all channels.

    - Each channel has axes of its own with one `imshow` image that holds the channel's values, unscaled. The colour map
      is `gray`. The title is the channel's number and nothing else: `"0"`, `"1"`, and so on.
    - The axes stand row by row, from left to right, in `min(ncols, C)` columns. All of them are switched off, also
      those that stay empty. You may add a colour bar; its axes do not count.
    - The colour limits of an image are the smallest and the largest value of its channel, with `shared=True` those of
      all of `fm`.
    - No figure of yours is left open in pyplot. Open figures of others stay as they are, and so do the settings of
      matplotlib (`rcParams`).

    **Example.** For a `fm` of 20 channels, `plot_maps(fm)` shows three rows: channels 0 to 7, 8 to 15, and 16 to 19.
    """

    def draw(rng, grid, values, dead, shared_end_at_0):
        channels, ncols = GRIDS[grid]
        fm = rng.tensor(channels, 3, 4, values=values) * torch.tensor(
            [[[rng.uniform(0.5, 4)]] for _ in range(channels)]
        )
        if grid == "one channel":
            fm[0, 0] = torch.tensor(rng.shuffled([-30_000.0, 2.0**-20, 0.0, 20_000.0]))
        if dead == "last":
            fm[-1] = fm.max() + 1
        if shared_end_at_0 != "none":
            fm = fm - (fm.min() if shared_end_at_0 == "lower" else fm.max())
        elif channels > 1:  # 0 is the lower limit of the one, the upper of the other
            fm[0] -= fm[0].min()
            fm[1] -= fm[1].max()
        return {"fm": fm, "ncols": ncols}

    def alive(fm, ncols, shared):
        each, whole = limits(fm, False), limits(fm, True)
        if len(fm) == 1:
            return True
        first_row = [[fm[:ncols].min().item(), fm[:ncols].max().item()]] * len(fm)
        return fm[0].max() > fm[0].min() and each[0] != whole[0] and each[-1] != whole[-1] and first_row != whole

    def probe(student, fm, ncols, shared, written, layout, call, interactive, callers_axes):
        import matplotlib  # here, because the graders are collected without it

        fm = laid_out(fm, layout)
        of_caller = {"image.cmap": "viridis", "interactive": interactive, "lines.linewidth": 2.5}

        def seen() -> dict[str, Any]:
            callers = CallersFigure(callers_axes)
            witness, kept, before = Witness(fm=fm), open_figures(), settings()
            if written == "defaults":
                figure = student.plot_maps(fm)
            elif written == "positions":
                figure = student.plot_maps(fm, ncols, shared)
            else:
                figure = student.plot_maps(fm, shared=shared, ncols=ncols)
            if call == "again":
                student.plot_maps(-fm, ncols, shared)  # does not change the figure that was returned first
            left = [number for number in open_figures() if number not in kept]
            for number in left:
                sys.modules["matplotlib.pyplot"].close(number)
            return {
                "figure": figure_data(figure),
                "left_open": len(left),
                "callers figure": callers.became(),
                "changed": witness.changes(),
                "settings": [name for name, value in settings().items() if value != before.get(name)][:3],
            }

        with matplotlib.rc_context(of_caller), no_garbage_collected():  # not all as matplotlib has them by itself
            found = seen()
            many = planned_grid(lambda: student.plot_maps(MANY.clone())) if written == "defaults" else []
            return {**found, "grid of many": many}

    mistakes = (
        Mistake(
            "no-figure-returned",
            lambda seen: seen["figure"].value == "NoneType",
            "Your function returns `None`. Return the figure: `return figure`. A call of `plt.show()` displays it and "
            "hands nothing to the caller.",
        ),
        Mistake(
            "figure-left-open",
            lambda seen: seen["left_open"].value > 0 and seen["figure"].value != "NoneType",
            "Your figure is still open in pyplot, which keeps every figure that it made until it is closed. Call "
            "`plt.close(figure)` before you return it, or make it with `matplotlib.figure.Figure()`.",
        ),
        Mistake(
            "callers-figure",
            lambda seen: seen["left_open"].value == 0 and seen["callers figure"].value in ("closed", "changed"),
            'A figure that somebody else had open was closed, or changed. `plt.close("all")` closes the figures of '
            "all, `plt.figure(1)` takes the one that has this number, and functions such as `plt.axis` change the "
            "current one, which may not be yours. Name your own: `plt.close(figure)`, `axes.axis(...)`.",
        ),
        Mistake(
            "fixed-channel-count",
            lambda seen, fm: (
                too_small(expect(seen["grid of many"]).list_of(int))
                or (
                    len(fm) > 16 >= len(seen["figure"]["maps"]) > 0
                    and close(arrays(seen), list(fm[: len(seen["figure"]["maps"])]))
                )
            ),
            "Your loop counts to a fixed number of channels. Layers have 3, 20, 64 or 512 of them: use `fm.shape[0]`.",
            raises=("out of bounds for dimension 0 with size", "out of bounds for axis 0 with size 11"),
        ),
        Mistake(
            "squeezed-axes",
            raises=(
                "'Axes' object has no attribute",
                "'Axes' object is not",
                "'Axes' has no len()",
                "too many indices for array: array is 1-dimensional",
            ),
            message="With a single row or column, `subplots` returns axes in a smaller array, and with a single map no "
            "array at all. Pass `squeeze=False`: then it is always two-dimensional.",
        ),
        Mistake(
            "rows-of-axes",
            raises="'numpy.ndarray' object has no attribute",
            message="A loop over the two-dimensional array that `subplots` returns gives whole rows of axes, and a row "
            "cannot draw. Loop over `axes.flat`, or index with row and column.",
        ),
        Mistake(
            "ignored-shared",
            lambda seen, fm, shared: shared and len(fm) > 1 and close(clims(seen), limits(fm, False)),
            "With `shared=True` every image needs the same colour limits: the minimum and the maximum of all of `fm`. "
            "Left alone, `imshow` scales each image by itself.",
        ),
        Mistake(
            "always-shared",
            lambda seen, fm, shared: not shared and len(fm) > 1 and close(clims(seen), limits(fm, True)),
            "Without `shared`, each image has its own colour limits: the minimum and the maximum of its channel.",
        ),
        Mistake(
            "empty-axes-visible",
            lambda seen: seen["figure"]["empty_axes_on"].value > 0,
            "Some places stay empty, and their axes still show a frame and ticks. Switch all axes off, not only those "
            "that got an image.",
        ),
        Mistake(
            "titles-from-one",
            lambda seen, fm: [panel["title"].value for panel in seen["figure"]["maps"]] == numbers(1, len(fm)),
            "Your titles count from 1. The title is the index of the channel, and `fm[0]` is the first.",
        ),
        Mistake(
            "column-major",
            lambda seen, fm, ncols: close(arrays(seen), by_column(fm, ncols)),
            "Your maps stand column by column. `axes.flat` goes row by row: channel `k` stands in row `k // columns` "
            "and column `k % columns`.",
        ),
        Mistake(
            "one-figure-for-all-calls",
            lambda seen, fm, call: call == "again" and close(arrays(seen), list(-fm)),
            "A second call changed the figure that the first had returned: both drew on the same one. Make a new "
            "figure in each call.",
        ),
        Mistake(
            "scaled-the-values",
            lambda seen, fm: any(
                close(arrays(seen), list(scaled.float()))
                for scaled in (normalized(fm), (fm - fm.min()) / (fm.max() - fm.min()))
            ),
            "Your images hold scaled values. Give `imshow` the values as they are, and `vmin` and `vmax` besides.",
        ),
    )

    def test_every_channel_has_its_image_row_by_row(seen, fm, ncols):
        if type(seen["figure"].value) is not dict:
            expect(seen["figure"]).differs("a matplotlib Figure", str(seen["figure"].value))
        maps = seen["figure"]["maps"]
        expect(maps).has_length(len(fm), "images")
        for k, panel in enumerate(maps):
            shown = Seen(panel["array"].value, f"the image of channel {k}")
            expect(shown).close_to(fm[k], rtol=1e-6, atol=0.0)
            expect(panel["shown"]).is_true(f"the image of channel {k} is invisible")
        expect(seen["figure"]["one_each"]).is_true("some axes hold more than one image")
        columns = min(ncols, len(fm))
        rows = [columns] * (len(fm) // columns) + [len(fm) % columns] * (len(fm) % columns > 0)
        expect(Seen(seen["figure"]["rows"].value, "images in each row")).equals(rows)
        if (there := expect(seen["figure"]["columns"]).of_type(int)) > columns:
            expect(seen["figure"]["columns"]).differs(f"{columns} axes in a row, the empty ones too", str(there))

        if too_small(grid := expect(seen["grid of many"]).list_of(int)):
            expect(seen["grid of many"]).fail(f"for {len(MANY)} channels there are {grid[0]} rows of {grid[1]} axes")

    def test_the_colour_limits_are_right(seen, fm, shared):
        for k, (panel, (low, high)) in enumerate(paired(seen["figure"]["maps"], limits(fm, shared))):
            expect(Seen(panel["clim"][0].value, f"lower limit of channel {k}")).close_to(low)
            expect(Seen(panel["clim"][1].value, f"upper limit of channel {k}")).close_to(high)

    def test_images_are_gray_and_titles_are_indices(seen, fm):
        for k, panel in enumerate(seen["figure"]["maps"]):
            expect(Seen(panel["title"].value, f"title of channel {k}")).equals(str(k))
            expect(panel["gray"]).is_true(f"the image of channel {k} is not drawn with the colour map `gray`")

    def test_all_axes_are_off(seen):
        for k, panel in enumerate(seen["figure"]["maps"]):
            expect(panel["off"]).is_true(f"the axes of channel {k} still show a frame or ticks")
        expect(Seen(seen["figure"]["empty_axes_on"].value, "empty axes that are not off")).equals(0)

    def test_no_figure_is_left_open_and_nothing_else_changes(seen):
        expect(Seen(seen["left_open"].value, "figures left open in pyplot")).equals(0)
        if (became := expect(seen["callers figure"]).of_type(str)) != "as it was":
            expect(seen["callers figure"]).fail(f"a figure that the caller had open in pyplot was {became}")
        for name in expect(seen["settings"]).list_of(str):
            expect(seen["settings"]).fail(f"the setting {name!r} of matplotlib is not as it was before")
        nothing_changed(seen["changed"])


def too_small(grid: list[int]) -> bool:
    """Whether a grid of rows and columns has no room for `MANY` channels. One row may be followed by others."""
    return len(grid) == 2 and min(grid) > 1 and grid[0] * grid[1] < len(MANY)


def clims(seen: Seen) -> Seen:
    """The colour limits of all images."""
    return Seen([panel["clim"].value for panel in seen["figure"]["maps"]])


def arrays(seen: Seen) -> Seen:
    """The values of all images."""
    return Seen([panel["array"].value for panel in seen["figure"]["maps"]])


def by_column(fm: Tensor, ncols: int) -> list[Tensor]:
    """The maps in reading order, when they were put down column by column."""
    columns = min(ncols, len(fm))
    rows = -(-len(fm) // columns)
    order = [row + rows * column for row in range(rows) for column in range(columns)]
    return [fm[k] for k in order if k < len(fm)]


def numbers(first: int, count: int) -> list[str]:
    """Numbers as texts."""
    return [str(number) for number in range(first, first + count)]
