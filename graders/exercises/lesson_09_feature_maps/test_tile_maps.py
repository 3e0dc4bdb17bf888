"""Exercise 09-tile-maps."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import feature_maps


def in_order(k, rows, columns):
    """Row and column of tile `k`."""
    return divmod(k, columns)


def sheet(fm, columns, pad, fill, rows=None, place=in_order, empty=None, swapped=False):
    """A sheet of tiles; `empty` is what fills places without one. Height and width may be `swapped`."""
    fm = fm.numpy()
    count, height, width = fm.mT.shape if swapped else fm.shape
    rows = math.ceil(count / columns) if rows is None else rows
    size = max(rows * (height + pad) - pad, 0), columns * (width + pad) - pad
    made = np.full(size, fill, dtype=np.float32)
    for k in range(rows * columns):
        row, column = place(k, rows, columns)
        top, left = row * (height + pad), column * (width + pad)
        made[top : top + height, left : left + width] = fm[k] if k < count else fill if empty is None else empty
    return made


def ended(fm, columns, pad, fill, **how):
    """A sheet with gaps behind its last row and column, too."""
    return np.pad(sheet(fm, columns, pad, fill, **how), (0, pad), constant_values=fill)


@exercise(
    "09-tile-maps",
    points=2,
    minutes=15,
    difficulty=2,
    title="Many maps on one sheet",
    hints=(
        "Tile `k` is in row `k // columns` and column `k % columns`; `divmod(k, columns)` gives both.",
        "Start from `np.full((height, width), fill, dtype=np.float32)` and write the tiles into it. That takes care "
        "of gaps and unused places.",
        "n tiles of height H with n - 1 gaps between them are n * H + (n - 1) * pad pixels high. There is no pad "
        "around the sheet. Round the number of rows up: `math.ceil(C / columns)`.",
    ),
    why=(
        "The sheet starts out full of `fill`, so gaps and unused places need no code, and each tile is one "
        "slice. Padding the tiles and rearranging them with `reshape` and `permute`, as `sheet` does, would "
        "do as well."
    ),
    scene=stories(
        promises={
            "the channels stand row by row": feature_maps.made,
            "a result stays when fm changes, and the next call sees the change": feature_maps.made_again,
            "nothing of the caller changes": feature_maps.left_alone,
        },
        axes=feature_maps.SHEET,
        values=feature_maps.sheet_maps,
        arguments=feature_maps.a_sheet,
    ),
)
class TestTileMaps:
    """Write `tile_maps(fm, ncols, pad=1, fill=0.0)`: return a sheet with all channels of `fm`, [C, H, W], unscaled: a
    numpy array of dtype float32. They are arranged row by row, from left to right, in `min(ncols, C)` columns, with
    `pad` pixels of the value `fill` between neighbours.

    **Example.**

    >>> tile_maps(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]), 2)
    array([[1., 2., 0., 3., 4.],
           [0., 0., 0., 0., 0.],
           [5., 6., 0., 0., 0.]], dtype=float32)

    **Fine print.** `fm` is detached and of dtype float32; `ncols` is 1 or more, `pad` 0 or more. There are gaps across
    and down, and none around the sheet. Places that stay empty in the last row hold the value `fill`, too. The array
    shares no memory with `fm`.
    """

    def reference(fm, ncols, pad=1, fill=0.0):
        columns = min(ncols, len(fm))
        tiles = F.pad(fm, (0, pad, 0, pad), value=fill)
        empty = torch.full((-len(fm) % columns, *tiles.shape[1:]), fill)
        rows = torch.cat([tiles, empty]).split(columns)
        made = torch.cat([torch.cat([*row], 1) for row in rows])
        return made[: len(made) - pad, : made.shape[1] - pad].contiguous().numpy().copy()

    class Mistakes:
        def dropped_last_row(fm, ncols, pad=1, fill=0.0):
            """The last row, which is not full, is missing. Round the number of rows up: `math.ceil(C / columns)`."""
            columns = min(ncols, len(fm))
            return sheet(fm, columns, pad, fill, rows=len(fm) // columns)

        def a_row_too_many(fm, ncols, pad=1, fill=0.0):
            """When the last row is full, your sheet has another one without tiles. `C // columns + 1` is one too many
            then: round up with `math.ceil(C / columns)`.
            """
            columns = min(ncols, len(fm))
            return sheet(fm, columns, pad, fill, rows=len(fm) // columns + 1)

        def column_major(fm, ncols, pad=1, fill=0.0):
            """Your sheet is filled column by column. Fill it row by row: tile `k` goes into row `k // columns` and
            column `k % columns`.
            """
            return sheet(fm, min(ncols, len(fm)), pad, fill, place=lambda k, rows, columns: divmod(k, rows)[::-1])

        def pad_around_the_sheet(fm, ncols, pad=1, fill=0.0):
            """Your sheet has padding at its rim. The `pad` pixels go between tiles only: n tiles have n - 1 gaps."""
            return np.pad(sheet(fm, min(ncols, len(fm)), pad, fill), pad, constant_values=fill)

        def pad_at_the_end(fm, ncols, pad=1, fill=0.0):
            """Your sheet ends with padding, below and on the right. The `pad` pixels go between tiles only: n tiles
            have n - 1 gaps.
            """
            return ended(fm, min(ncols, len(fm)), pad, fill)

        def cut_off_nothing(fm, ncols, pad=1, fill=0.0):
            """With `pad=0` your sheet is empty: `sheet[:-pad]` is `sheet[:0]` then. Make the sheet as large as it has
            to be, or cut it with `sheet[:height, :width]`.
            """
            return ended(fm, min(ncols, len(fm)), pad, fill)[:-pad, :-pad]

        def no_gaps(fm, ncols, pad=1, fill=0.0):
            """Your tiles touch. Leave `pad` pixels between neighbours, across and down."""
            return sheet(fm, min(ncols, len(fm)), 0, fill)

        def tiles_without_steps(fm, ncols, pad=1, fill=0.0):
            """Your sheet has the right size, but the gaps are all at its end. Tile `k` begins `row * (H + pad)` below
            the top and `column * (W + pad)` from the left.
            """
            columns = min(ncols, len(fm))
            made, tiles = sheet(fm, columns, pad, fill), sheet(fm, columns, 0, fill)
            made[:] = fill
            made[: len(tiles), : tiles.shape[1]] = tiles
            return made

        def dimensions_not_swapped(fm, ncols, pad=1, fill=0.0):
            """`reshape` alone puts whole tiles one after another, but a row of the sheet goes through several tiles.
            Swap dimensions before it: `permute(0, 2, 1, 3)` makes [rows, columns, H, W] into [rows, H, columns, W].
            """
            columns = min(ncols, len(fm))
            tiles = ended(fm, 1, pad, fill, rows=math.ceil(len(fm) / columns) * columns)
            made = tiles.reshape(-1, columns * tiles.shape[1])
            return made[: len(made) - pad, : made.shape[1] - pad]

        def height_and_width_swapped(fm, ncols, pad=1, fill=0.0):
            """You took the height of the maps for their width, or the other way round. In `C, H, W = fm.shape`, rows of
            tiles begin at multiples of `H + pad`, and columns at multiples of `W + pad`.
            """
            return sheet(fm, min(ncols, len(fm)), pad, fill, swapped=True)

        def scaled_the_values(fm, ncols, pad=1, fill=0.0):
            """Your sheet holds scaled values. Copy the maps as they are."""
            low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)
            return sheet((fm - low) / (high - low + 1e-8), min(ncols, len(fm)), pad, fill)

        def columns_without_maps(fm, ncols, pad=1, fill=0.0):
            """With fewer channels than `ncols`, your sheet has empty columns. Use `min(ncols, C)` columns."""
            return sheet(fm, ncols, pad, fill)

        def another_fill(fm, ncols, pad=1, fill=0.0):
            """All tiles are right. What differs is a gap, or an empty place of the last row: these hold `fill`."""
            return sheet(fm, min(ncols, len(fm)), pad, 0.0)

        def another_fill__2(fm, ncols, pad=1, fill=0.0):
            return sheet(fm, min(ncols, len(fm)), pad, fill, empty=0.0)

        def wrote_over_zeros(fm, ncols, pad=1, fill=0.0):
            """You wrote `fill` wherever the sheet holds a 0, and maps have zeros, too. Begin with a sheet full of
            `fill`, and write the tiles into it.
            """
            made = sheet(fm, min(ncols, len(fm)), pad, 0.0)
            made[made == 0] = fill
            return made

        def shared_memory(fm, ncols, pad=1, fill=0.0):
            """When the caller's tensor changed, an array that you had returned changed, too: the two share their
            memory. `.numpy()` copies nothing; add `.copy()`.
            """
            return fm[0].numpy() if len(fm) == 1 else sheet(fm, min(ncols, len(fm)), pad, fill)

        def not_float32(fm, ncols, pad=1, fill=0.0):
            return sheet(fm, min(ncols, len(fm)), pad, fill).astype(np.float64)
