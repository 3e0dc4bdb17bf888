"""Scenes for functions that draw maps with matplotlib. A figure is looked at as data: what its axes hold, and where."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graders.box.tensors import laid_out
from graders.box.witness import Witness
from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng

GRIDS = {"last row not full": (3, 2), "full": (4, 2), "one channel": (1, 8), "one column": (2, 1)}
"""How many channels there are, and `ncols`. Each axes takes matplotlib 6 ms: none is made without need."""
MANY = 65
"""More channels than a loop of 8 by 8 comes to."""


@family(
    sections=(
        "every channel has its image in its place",
        "the colour limits are right",
        "images are gray and titles are indices",
        "all axes are off",
        "a later call draws a figure of its own",
        "no figure is left open and nothing else changes",
    ),
    axes={
        "grid": tuple(GRIDS),
        "shared": (True, False),
        "written": ("positions", "keywords"),
        "ends_at_0": ("lower", "upper", "neither"),
        "dead": ("none", "last"),
        "interactive": (False, True),
        "layout": ("contiguous", "transposed", "slice"),
    },
    impossible=(
        lambda grid, shared: shared != (grid in ("last row not full", "one column")),
        lambda grid, dead: grid == "one channel" and dead == "last",
        lambda ends_at_0, shared: (ends_at_0 == "neither") == shared,
    ),
)
def draws_maps(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(fm, ncols=8, shared=False)`, which returns a figure that pyplot does not keep."""
    import matplotlib  # here, because graders are collected without it

    images, limits, looks, off, later, rest = seen.values()
    fm, ncols = laid_out(maps(rng, case), case.layout), GRIDS[case.grid][1]

    def ask(fm: Tensor) -> Any:
        if case.written == "keywords":
            return call(fm, shared=case.shared, ncols=ncols)
        return call(fm, ncols, case.shared)

    of_caller: Any = {"image.cmap": "viridis", "interactive": case.interactive, "lines.linewidth": 2.5}
    with matplotlib.rc_context(of_caller), no_garbage_collected():  # not all is as matplotlib has it by itself
        callers = CallersFigure()
        before, kept, settings_before = Witness(fm=fm), open_figures(), settings()
        figure = ask(fm)
        again = ask(-fm) if case.grid == "one channel" else None  # the cheapest
        left = [number for number in open_figures() if number not in kept]
        rest["figures left open in pyplot"] = len(left)
        for number in left:
            sys.modules["matplotlib.pyplot"].close(number)
        rest["the figure that the caller has open"] = callers.became()
        changed = [name for name, value in settings().items() if value != settings_before.get(name)]
        rest["settings of matplotlib that changed"] = changed[:3]
        rest["changed"] = before.changes()
        panels = panels_of(figure)
        images["what is returned"] = panels if isinstance(panels, str) else "a matplotlib Figure"
        images["images in each row"] = images["axes in a row"] = images["the images"] = None
        if not isinstance(panels, str):
            images["images in each row"], images["axes in a row"] = rows_of(panels)
            with_image = [panel for panel in panels if panel["images"]]
            images["the images"] = [panel["images"] for panel in with_image]
            limits["the colour limits"] = [panel["limits"] for panel in with_image]
            looks["the titles"] = [panel["title"] for panel in with_image]
            looks["drawn in gray"] = [panel["gray"] for panel in with_image]
            off["axes that are not off"] = sum(not panel["off"] for panel in panels)
        if again is not None:
            shown = panels_of(again)
            later["the images"] = shown if isinstance(shown, str) else [p["images"] for p in shown if p["images"]]
            images[f"the grid for {MANY} channels"] = planned_grid(lambda: call(torch.ones(MANY, 1, 1)))


def maps(rng: Rng, case: Any) -> Tensor:
    """Maps that differ in strength, of which one may be constant; a colour limit may be 0."""
    channels, _ = GRIDS[case.grid]
    fm = rng.tensor(channels, 2, 3, values="full") * torch.arange(1, channels + 1)[:, None, None] / 2
    if case.dead == "last":
        fm[-1] = fm.max() + 1
    if case.ends_at_0 == "neither":
        fm[0] -= fm[0].min()
        fm[-1] -= 0 if channels == 1 else fm[-1].max()
    else:
        fm = fm - (fm.min() if case.ends_at_0 == "lower" else fm.max())
    return fm


def panels_of(figure: Any) -> Any:
    """What the axes of a figure hold, in reading order, or the type of what is no figure. Colour bars do not count."""
    from matplotlib.figure import Figure  # here, because graders are collected without it

    if not isinstance(figure, Figure):
        return type(figure).__name__
    axes = [each for each in figure.axes if each.get_images() or (each.get_visible() and not is_colour_bar(each))]
    return [
        panel_of(axes[number], down, right)
        for down, right, number in sorted((*place(each, figure), number) for number, each in enumerate(axes))
    ]


def panel_of(axes: Any, down: float, right: float) -> dict[str, Any]:
    """What one of the axes holds."""
    images = [image for image in axes.get_images() if image.get_visible() and axes.get_visible()]
    titles = [axes.get_title(loc) for loc in ("center", "left", "right")]
    return {
        "place": (down, right),
        "images": [array_of(image) for image in images],
        "limits": [None if end is None else float(end) for image in images for end in image.get_clim()],
        "title": "".join(titles).strip(),
        "gray": all(is_gray(image) for image in images),
        "off": is_off(axes),
    }


def rows_of(panels: list[dict[str, Any]]) -> tuple[list[int], int]:
    """How many images there are in each row, and the most axes that stand in one, with or without an image."""
    with_image = [panel["place"][0] for panel in panels for _ in panel["images"]]
    in_rows = [down for down, _ in {panel["place"] for panel in panels}]
    return [with_image.count(down) for down in sorted(set(with_image))], max(map(in_rows.count, in_rows), default=0)


class Planned(BaseException):
    """A figure gets its first axes, by a `grid` of rows and columns, or by none."""

    def __init__(self, grid: list[int]) -> None:
        """The grid is empty when there is none."""
        self.grid = grid


def planned_grid(plot: Callable[[], Any]) -> list[int]:
    """The rows and columns of the grid that `plot` makes, which is stopped at its first axes; empty without one grid.

    To let it go on with many channels would take longer than all else.
    """
    from matplotlib.axes import Axes  # here, because graders are collected without matplotlib
    from matplotlib.figure import Figure
    from matplotlib.projections import register_projection

    class First(Axes):
        """The axes that a figure makes unless it is asked for others."""

        name = "rectilinear"

        def __init__(self, figure: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(figure, *args, **kwargs)
            spec = self.get_subplotspec() if isinstance(figure, Figure) else None
            if spec is None or spec is not spec.get_topmost_subplotspec():  # a grid in a part of the figure is none
                raise Planned([])
            raise Planned(list(spec.get_geometry()[:2]))

    register_projection(First)
    try:
        plot()
    except Planned as planned:
        return planned.grid
    finally:
        register_projection(Axes)
    return []


def array_of(image: Any) -> Tensor:
    """The values of an image."""
    return torch.tensor(np.ma.filled(np.ma.array(image.get_array(), dtype="float32"), np.nan))


def place(axes: Any, figure: Any) -> tuple[float, float]:
    """How far the centre of axes is from the top and from the left of the figure, as a share of it."""
    locator = axes.get_axes_locator()  # an ImageGrid places its axes with one
    box = locator(axes, None) if locator else axes.get_position(original=True)
    box = box.transformed(axes.figure.transSubfigure)
    down, right = 1 - (box.y0 + box.y1) / 2 / figure.bbox.height, (box.x0 + box.x1) / 2 / figure.bbox.width
    return round(float(down), 3), round(float(right), 3)


def is_off(axes: Any) -> bool:
    """Whether axes show neither ticks nor a frame."""
    if not axes.axison or not axes.get_visible():
        return True
    hidden = not any(axis.get_visible() and len(axis.get_majorticklocs()) for axis in (axes.xaxis, axes.yaxis))
    return hidden and not (axes.get_frame_on() and any(spine.get_visible() for spine in axes.spines.values()))


def is_gray(image: Any) -> bool:
    """Whether its colours are those of `gray`: from black to white in even steps."""
    steps = torch.linspace(0, 1, 9)
    shades = torch.tensor(image.get_cmap()(steps.numpy()))[:, :3]
    return bool((shades - steps[:, None]).abs().max() < 0.02)


def is_colour_bar(axes: Any) -> bool:
    """Whether these axes were made for a colour bar."""
    return bool(getattr(axes, "_colorbar", None)) or axes.get_label() == "<colorbar>"


def settings() -> dict[str, Any]:
    """The settings of matplotlib that a learner may have made. The backend follows from how the notebook runs."""
    return {name: v for name, v in sys.modules["matplotlib"].rcParams.items() if "backend" not in name}


def open_figures() -> list[int]:
    """The numbers of the figures that pyplot keeps; it keeps none when nobody imported it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []


class CallersFigure:
    """A figure that the caller has open in pyplot, where somebody imported that."""

    def __init__(self) -> None:
        """With axes, switched on."""
        self.pyplot: Any = sys.modules.get("matplotlib.pyplot")
        if self.pyplot:
            self.figure = self.pyplot.figure()
            self.figure.add_subplot()
            self.looked = self.looks()

    def looks(self) -> list[str]:
        """How it looks: all that pyplot's functions for the current figure and its axes change."""
        figure = self.figure
        inner = [part for axes in figure.axes for part in axes.get_children()]
        shown = [f"{p} {p.get_visible()} {getattr(p, 'axison', '')}" for p in [figure, *figure.get_children(), *inner]]
        return [*shown, *(str(axes.get_position().bounds) for axes in figure.axes)]

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
