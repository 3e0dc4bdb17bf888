"""Scenes for functions that draw maps with matplotlib. A figure is compared as data: what its axes show, and where."""

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graders.scenes.instruments.tensors import with_layout
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

GRIDS = {
    "last row not full": (3, 2, True),
    "full": (4, 2, False),
    "one channel": (1, 8, False),
    "one column": (2, 1, True),
}
"""The number of channels, `ncols` and `shared`. The numbers are small because matplotlib takes 6 ms for each axes."""


@family(
    sections=(
        "every channel has its image in its place",
        "the colour limits are right",
        "images are gray and titles are indices",
        "all axes are off",
        "no figure is left open and nothing else changes",
    ),
    axes={"grid": tuple(GRIDS), "layout": ("contiguous", "transposed", "slice")},
)
def draws_maps(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(fm, ncols=8, shared=False)`, which returns a figure that pyplot does not keep."""
    import matplotlib  # here, because collecting the graders must not import it

    images, limits, looks, off, rest = seen.values()
    channels, ncols, shared = GRIDS[case.grid]
    fm = with_layout(maps(rng, channels), case.layout)
    of_caller: Any = {"image.cmap": "viridis", "interactive": True, "lines.linewidth": 2.5}
    with matplotlib.rc_context(of_caller), no_garbage_collected():  # some settings differ from the defaults
        callers = CallersFigure()
        before, kept, settings_before = Witness(fm=fm), open_figures(), matplotlib_settings()
        figure = call(fm, ncols, shared=shared)
        call(-fm[:1])  # the first figure is examined after a second one was made
        left = [number for number in open_figures() if number not in kept]
        rest["figures left open in pyplot"] = len(left)
        for number in left:
            sys.modules["matplotlib.pyplot"].close(number)
        rest["the figure that the caller has open"] = callers.close_and_compare()
        changed = [name for name, value in matplotlib_settings().items() if value != settings_before.get(name)]
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


def maps(rng: Rng, channels: int) -> Tensor:
    """Maps with different ranges of values; the last of several is constant."""
    fm = rng.tensor(channels, 1, 3, values="full") * torch.arange(1, channels + 1)[:, None, None] / 2
    if channels > 1:
        fm[-1] = fm.max() + 1
    return fm


def panels_of(figure: Any) -> Any:
    """What the axes of a figure show, in reading order, without colour bars; the type if it is not a figure."""
    from matplotlib.figure import Figure  # here, because collecting the graders must not import it

    if not isinstance(figure, Figure):
        return type(figure).__name__
    axes = [each for each in figure.axes if each.get_images() or (each.get_visible() and not is_colour_bar(each))]
    return [
        panel_of(axes[number], down, right)
        for down, right, number in sorted((*axes_position(each, figure), number) for number, each in enumerate(axes))
    ]


def panel_of(axes: Any, down: float, right: float) -> dict[str, Any]:
    """What one of the axes shows. `down` and `right` are its position, as `axes_position` gives it."""
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
    """The number of images in each row, and the largest number of axes in a row, with or without an image."""
    with_image = [panel["place"][0] for panel in panels for _ in panel["images"]]
    in_rows = [down for down, _ in {panel["place"] for panel in panels}]
    return [with_image.count(down) for down in sorted(set(with_image))], max(map(in_rows.count, in_rows), default=0)


def array_of(image: Any) -> Tensor:
    """The values of an image."""
    return torch.tensor(np.ma.filled(np.ma.array(image.get_array(), dtype="float32"), np.nan))


def axes_position(axes: Any, figure: Any) -> tuple[float, float]:
    """The distances of the centre of axes from the figure's top and left, as shares of its height and width."""
    locator = axes.get_axes_locator()  # an ImageGrid uses one to place its axes
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
    """Whether an image has the colours of the map `gray`: from black to white in even steps."""
    steps = torch.linspace(0, 1, 9)
    shades = torch.tensor(image.get_cmap()(steps.numpy()))[:, :3]
    return bool((shades - steps[:, None]).abs().max() < 0.02)


def is_colour_bar(axes: Any) -> bool:
    """Whether these axes were made for a colour bar."""
    return bool(getattr(axes, "_colorbar", None)) or axes.get_label() == "<colorbar>"


def matplotlib_settings() -> dict[str, Any]:
    """The settings of matplotlib, without the backend, which depends on how the notebook runs."""
    return {name: v for name, v in sys.modules["matplotlib"].rcParams.items() if "backend" not in name}


def open_figures() -> list[int]:
    """The numbers of the figures that pyplot keeps; none if it has not been imported."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return list(pyplot.get_fignums()) if pyplot else []


class CallersFigure:
    """A figure that the caller has open in pyplot, if that has been imported."""

    def __init__(self) -> None:
        """Open a figure with visible axes."""
        self.pyplot: Any = sys.modules.get("matplotlib.pyplot")
        if self.pyplot:
            self.figure = self.pyplot.figure()
            self.figure.add_subplot()
            self.looked = self.describe_axes()

    def describe_axes(self) -> list[Any]:
        """The properties that pyplot's functions would change, as they act on the current figure and axes."""
        axes = self.figure.axes
        return [(each.axison, each.get_title(), each.get_position().bounds, len(each.get_children())) for each in axes]

    def close_and_compare(self) -> str:
        """Close the figure; returns whether it was "as it was", "closed", or "changed" before."""
        if not self.pyplot:
            return "as it was"
        if not self.pyplot.fignum_exists(self.figure.number):
            return "closed"
        same = self.pyplot.figure(self.figure.number) is self.figure and self.describe_axes() == self.looked
        self.pyplot.close(self.figure)
        return "as it was" if same else "changed"


@contextlib.contextmanager
def no_garbage_collected() -> Iterator[None]:
    """Switch garbage collection off in the block, which halves the time: axes consist of very many small objects.

    At the end the youngest generation is collected, so that unused figures do not live on in older ones.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if enabled:
            gc.enable()
