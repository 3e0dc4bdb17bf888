"""Draw the lessons' figures: computation graphs, timelines, grids of feature maps, and alt text for any figure.

Everything is drawn on a light card, so that it looks the same in a light and a dark theme.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from numpy.typing import NDArray
from torch import Tensor

INK = "#20242b"
CARD = "#fbfaf7"
FORWARD = "#2f6db3"
"""The colour of values and of everything that runs forward."""
BACKWARD = "#c2571a"
"""The colour of gradients and of everything that runs backward."""
QUIET = "#8a8f98"
"""The colour of things that are missing or take no part."""
FILLS = {"leaf": "#dcebdc", "non-leaf": "#e4ecf7", "loss": "#f6e3d3", "hook": "#f5efcf",
         "plain": "#eeeeec"}  # fmt: skip


def card(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty card of `width` by `height` inches. Data coordinates are inches from the lower left corner."""
    figure = Figure(figsize=(width, height), facecolor=CARD)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def node(
    axes: Axes,
    x: float,
    y: float,
    label: str,
    *,
    kind: str = "plain",
    note: str = "",
    below: str = "",
    width: float = 1.3,
    height: float = 0.55,
) -> None:
    """Draw a labelled box centred at (x, y), in inches.

    `note` stands above the box; `below` stands under it, in the colour of gradients. `kind` is a key of `FILLS`.
    """
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0.02,rounding_size=0.09",
        facecolor=FILLS[kind],
        edgecolor=INK,
        linewidth=1.2,
    )
    axes.add_patch(box)
    axes.text(x, y, label, ha="center", va="center", color=INK, fontsize=11)
    if note:
        axes.text(x, y + height / 2 + 0.09, note, ha="center", va="bottom", color=INK, fontsize=9.5)
    if below:
        axes.text(x, y - height / 2 - 0.09, below, ha="center", va="top", color=BACKWARD, fontsize=9.5)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    label: str = "",
    backward: bool = False,
    plain: bool = False,
    bend: float = 0.0,
    dashed: bool = False,
) -> None:
    """Draw an arrow from `start` to `end`, (x, y) in inches, with a label at its middle.

    It stands for a value; with `backward` for a gradient; with `plain` for something else, such as a reference. Its
    middle lies `bend` times half its length away from the straight line, to the right if `bend` is above 0.
    """
    colour = INK if plain else BACKWARD if backward else FORWARD
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=13,
            color=colour,
            linewidth=1.5,
            linestyle="--" if dashed else "-",
            shrinkA=3,
            shrinkB=3,
            connectionstyle=f"arc3,rad={bend}",
        )
    )
    if label:
        x = (start[0] + end[0] + bend * (end[1] - start[1])) / 2
        y = (start[1] + end[1] - bend * (end[0] - start[0])) / 2
        axes.text(
            x,
            y,
            label,
            ha="center",
            va="center",
            color=colour,
            fontsize=9.5,
            bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1.5},
        )


def caption(
    axes: Axes, x: float, y: float, text: str, *, colour: str = INK, size: float = 10, align: str = "left"
) -> None:
    """Write a line of text at (x, y), in inches; `size` is in points, and `y` is the middle of the line."""
    axes.text(x, y, text, ha=align, va="center", color=colour, fontsize=size)


def timeline(rows: Sequence[tuple[str, ...]], *, title: str = "", lanes: Mapping[str, str] | None = None) -> Figure:
    """Numbered events from top to bottom. A row is (text, lane), or (text, lane, colour) to override a lane's colour.

    `lanes` maps the lanes' names to their colours, in the order of the columns; None is forward and backward.
    """
    lanes = lanes or {"forward": FORWARD, "backward": BACKWARD}
    step, top = 0.36, 0.95 if title else 0.65
    figure, axes = card(1.0 + 2.9 * len(lanes), top + step * len(rows) + 0.1)
    height = top + step * len(rows) + 0.1
    if title:
        caption(axes, 0.3, height - 0.25, title, size=11.5)
    for column, (name, colour) in enumerate(lanes.items()):
        caption(axes, 0.8 + 2.9 * column, height - top + 0.22, name, colour=colour, size=10)
    axes.plot([0.55, 0.55], [height - top - step * (len(rows) - 0.4), height - top + 0.05], color=QUIET, linewidth=1.2)
    for index, (text, lane, *colours) in enumerate(rows):
        y = height - top - step * index - 0.12
        axes.plot([0.55], [y], marker="o", color=[*colours, lanes[lane]][0], markersize=6)
        caption(axes, 0.3, y, str(index + 1), colour=QUIET, size=8.5, align="center")
        caption(axes, 0.8 + 2.9 * list(lanes).index(lane), y, text, colour=INK, size=10)
    return figure


def map_grid(
    maps: Tensor, *, columns: int = 8, shared: bool = False, title: str = "", names: Sequence[str] = ()
) -> Figure:
    """Feature maps [C, H, W] as grey images, row by row, each under its name, or its index if `names` is too short.

    Each map has its own scale, from its minimum (black) to its maximum (white). With `shared` all maps have the same
    scale, shown by a colour bar. A dead map, which has only one value, is crossed out instead of drawn. The images are
    in `figure.axes[0].images`, in the order of the maps that are not dead.
    """
    values, width = maps.detach().float().cpu(), 8.2
    rows = -(-len(values) // columns)
    gap, left, bar = 0.1, 0.3, 0.75 if shared else 0.0
    side = (width - 2 * left - bar - (columns - 1) * gap) / columns
    tall, top, label = side * values.shape[1] / values.shape[2], 0.5 if title else 0.15, 0.2
    height = top + rows * (label + tall + 0.06) + 0.12
    figure, axes = card(width, height)
    if title:
        caption(axes, left, height - 0.25, title, size=11)
    low, high = values.min().item(), values.max().item()
    for k, image in enumerate(values):
        row, column = divmod(k, columns)
        x, y = left + column * (side + gap), height - top - row * (label + tall + 0.06) - label - tall
        name, dead = names[k] if k < len(names) else str(k), bool(image.max() == image.min())
        caption(axes, x, y + tall + 0.09, f"{name} dead" if dead else name, size=7.5, colour=BACKWARD if dead else INK)
        if dead:
            axes.plot(
                [x, x + side, x + side, x, x, x + side], [y, y + tall, y, y + tall, y, y], color=QUIET, linewidth=1
            )
            axes.plot([x, x + side, x + side], [y + tall, y + tall, y], color=QUIET, linewidth=1)
        else:
            axes.imshow(
                image.numpy(),
                cmap="gray",
                extent=(x, x + side, y, y + tall),
                aspect="auto",
                vmin=low if shared else None,
                vmax=high if shared else None,
            )
    axes.set(xlim=(0, width), ylim=(0, height))
    if shared:
        _colour_bar(figure, (width - left - 0.5, 0.2, 0.13, min(height - top - 0.4, 2.2)), low, high)
    return figure


def empty_axes(count: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A figure that pyplot does not keep open, and its axes for `count` pictures: row by row, all switched off."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns, 1.2 * rows))
    places = list(figure.subplots(rows, columns, squeeze=False).flat)  # squeezed, the array's shape would vary
    for axes in places:
        axes.axis("off")
    return figure, places


def _colour_bar(figure: Figure, box: tuple[float, float, float, float], low: float, high: float) -> None:
    """Add a grey colour bar from `low` to `high`; `box` is its left, bottom, width and height in inches."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
    figure.colorbar(ScalarMappable(Normalize(low, high), "gray"), cax=axes, ticks=[low, high], format="%.3g")
    axes.tick_params(labelsize=8, colors=INK, length=2)


def as_picture(image: Tensor) -> NDArray[np.float32]:
    """An image [3, H, W] with values from 0 to 1 as `imshow` takes it: [H, W, 3]."""
    picture: NDArray[np.float32] = image.detach().cpu().permute(1, 2, 0).numpy()
    return picture


def heat_over(image: Tensor, heat: Tensor, top: float | None = None) -> NDArray[np.float32]:
    """Heat [H, W] over the gray of an image [3, H, W]; without heat, only the image is seen.

    `top` is the heat of full colour. By default it is a value that one pixel in 200 exceeds: a single hot pixel does
    not hide the others.
    """
    gray = image.detach().cpu().mean(0).numpy()[..., None] * 0.5 + 0.4
    values = heat.detach().cpu().numpy()
    values = np.clip(values / max(np.quantile(values, 0.995) if top is None else top, 1e-12), 0, 1)
    share = 0.9 * values[..., None] ** 0.7
    picture: NDArray[np.float32] = (1 - share) * gray + share * colormaps["inferno"](0.3 + 0.65 * values)[..., :3]
    return picture


def picture_rows(
    rows: Sequence[tuple[str, Sequence[tuple[str, NDArray[np.float32]]]]], *, title: str = "", label: float = 1.0
) -> Figure:
    """Rows of pictures, each under its name. A row has a label on the left, for which `label` inches are kept."""
    gap, left, top = 0.08, 0.2, 0.5 if title else 0.1
    count = max(len(pictures) for _, pictures in rows)
    side = min((8.2 - 2 * left - label - (count - 1) * gap) / count, 2.0)
    heights = [side * pictures[0][1].shape[0] / pictures[0][1].shape[1] for _, pictures in rows]
    height = top + sum(heights) + 0.3 * len(rows) + 0.1
    figure, axes = card(8.2, height)
    if title:
        caption(axes, left, height - 0.25, title, size=11)
    y = height - top
    for (name, pictures), tall in zip(rows, heights):
        y -= tall + 0.3
        caption(axes, left, y + tall / 2, name, size=9.5)
        for column, (above, picture) in enumerate(pictures):
            x = left + label + column * (side + gap)
            caption(axes, x, y + tall + 0.09, above, size=8)
            axes.imshow(picture, extent=(x, x + side, y, y + tall), aspect="auto", interpolation="nearest")
    axes.set(xlim=(0, 8.2), ylim=(0, height))
    return figure


def show(figure: Figure, alt: str) -> None:
    """Display a figure as a PNG image, with `alt` as the text for people who cannot see it.

    Nothing is drawn where nobody looks at images, such as while a notebook is being marked.
    """
    from IPython import get_ipython
    from IPython.display import Image, display

    shell = get_ipython()
    if shell is not None and not shell.display_formatter.formatters["image/png"].enabled:
        return
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, facecolor=figure.get_facecolor())
    width = int(figure.get_size_inches()[0] * 110)
    display(Image(picture.getvalue(), format="png", alt=alt, width=width))
