"""Exercise 09-tile-maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import Mistake, close, exercise, expect, snapshot
from graders.lesson_09_feature_maps.judging import normalized


def sheet(fm: Tensor, columns: int, rows: int, pad: int, fill: float, by_column: bool = False) -> Tensor:
    """The tiles that find a place on a sheet of `rows` by `columns`, by slices."""
    count, height, width = fm.shape
    made = torch.full((rows * height + (rows - 1) * pad, columns * width + (columns - 1) * pad), fill)
    for k in range(min(count, rows * columns)):
        row, column = (k % rows, k // rows) if by_column else (k // columns, k % columns)
        top, left = row * (height + pad), column * (width + pad)
        made[top : top + height, left : left + width] = fm[k]
    return made


def right_sheet(fm: Tensor, ncols: int, pad: int, fill: float) -> Tensor:
    """The sheet that the contract asks for."""
    columns = min(ncols, len(fm))
    return sheet(fm, columns, -(-len(fm) // columns), pad, fill)


def rows_and_columns(fm: Tensor, ncols: int) -> tuple[int, int]:
    """How many rows and columns the right sheet has."""
    columns = min(ncols, len(fm))
    return -(-len(fm) // columns), columns


def inner_of(value: Tensor, pad: int, right: Tensor) -> bool:
    """Whether a larger sheet holds the right one inside a rim."""
    for rim in {(0, pad), (pad, pad)}:
        expected = F.pad(right, (rim[0], rim[1], rim[0], rim[1]), value=torch.nan)
        if value.shape == expected.shape and bool(((value == expected) | expected.isnan()).all()):
            return pad > 0
    return False


@exercise(
    "09-tile-maps",
    points=2,
    title="Many maps on one sheet",
    hints=(
        "Tile `k` stands in row `k // columns` and column `k % columns`; `divmod(k, columns)` gives both.",
        "Start from `np.full((height, width), fill, dtype=np.float32)` and write the tiles into it. Then gaps and "
        "unused places are done already.",
        "n tiles of height H with n - 1 gaps between them are n * H + (n - 1) * pad pixels high. There is no pad "
        "around the sheet. Round the number of rows up: `math.ceil(C / columns)`.",
    ),
    cases=(
        {"shape": (20, 3, 5), "ncols": 8, "pad": 1, "fill": 0.0, "defaults": True},
        {"shape": (3, 4, 2), "ncols": 5, "pad": 2, "fill": -1.5, "defaults": False},
        {"shape": (7, 2, 3), "ncols": 3, "pad": 0, "fill": 9.0, "defaults": False},
        {"shape": (70, 2, 3), "ncols": 9, "pad": 1, "fill": 0.5, "defaults": False},
        {"shape": (1, 3, 2), "ncols": 1, "pad": 2, "fill": 0.5, "defaults": False},
    ),
)
class TestTileMaps:
    """Write `tile_maps(fm, ncols, pad=1, fill=0.0)`. `fm` is a detached float32 tensor of shape [C, H, W] with any
    number of channels. Return one sheet with all channels on it: a two-dimensional numpy array of dtype float32.

    - The channels stand row by row, from left to right, in `min(ncols, C)` columns and as many rows as are needed.
    - Between neighbouring tiles there are `pad` pixels, across and down. There are none around the sheet.
    - Gaps, and the places that stay empty in the last row, hold the value `fill`.
    - The values of the channels are not scaled.

    **Example.** For `fm = tensor([[[1., 2.]], [[3., 4.]], [[5., 6.]]])`, three channels of 1 by 2 pixels,
    `tile_maps(fm, 2)` is `array([[1., 2., 0., 3., 4.], [0., 0., 0., 0., 0.], [5., 6., 0., 0., 0.]], dtype=float32)`.
    """

    def draw(rng, shape, ncols, pad, fill, defaults):
        return {"fm": rng.tensor(*shape), "ncols": ncols, "pad": pad, "fill": fill, "defaults": defaults}

    def alive(fm):
        return len({tuple(tile.flatten().tolist()) for tile in fm}) == len(fm) and not (fm == fm.mT.mT.flip(2)).all()

    def probe(student, fm, ncols, pad, fill, defaults):
        before = snapshot(fm)
        made = student.tile_maps(fm, ncols) if defaults else student.tile_maps(fm, ncols, pad, fill)
        student.tile_maps(1 - fm, ncols, pad, fill)  # does not change the sheet that was returned first
        return {"sheet": made, "unchanged": torch.equal(fm, before)}

    mistakes = (
        Mistake(
            "dropped-last-row",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) % ncols > 0
                and len(fm) > ncols
                and close(seen["sheet"], sheet(fm, ncols, len(fm) // ncols, pad, fill))
            ),
            "The last row, which is not full, is missing. Round the number of rows up: `math.ceil(C / columns)`.",
        ),
        Mistake(
            "column-major",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) > ncols
                and close(seen["sheet"], sheet(fm, *reversed(rows_and_columns(fm, ncols)), pad, fill, by_column=True))
            ),
            "Your sheet is filled column by column. Fill it row by row: tile `k` stands in row `k // columns` and "
            "column `k % columns`.",
        ),
        Mistake(
            "fixed-channel-count",
            lambda seen, fm, ncols, pad, fill: (
                len(fm) > 64
                and (
                    close(seen["sheet"], right_sheet(fm[:64], ncols, pad, fill))
                    or close(seen["sheet"], sheet(fm[:64], *reversed(rows_and_columns(fm, ncols)), pad, fill))
                )
            ),
            "Your loop counts to a fixed number of channels. Layers have 3, 20, 64 or 512 of them: use `fm.shape[0]`.",
            raises=("out of bounds for dimension 0 with size 20", "out of bounds for axis 0 with size 20"),
        ),
        Mistake(
            "transposed",
            lambda seen, fm, ncols, pad, fill: any(
                close(seen["sheet"], wrong)
                for wrong in (
                    right_sheet(fm.mT, ncols, pad, fill),
                    right_sheet(fm, ncols, pad, fill).T,
                    right_sheet(fm.mT, ncols, pad, fill).T,
                )
            ),
            "You exchanged height and width. `fm.shape` is (C, H, W): H counts the rows of a tile, which go down, and "
            "W counts its columns.",
            raises=(
                "from shape (3,5) into shape (5,3)",
                "from shape (5,3) into shape (3,5)",
                "size of the tensor (3) must match the existing size (5)",
                "size of the tensor (5) must match the existing size (3)",
            ),
        ),
        Mistake(
            "pad-around-the-sheet",
            lambda seen, fm, ncols, pad, fill: inner_of(seen["sheet"].tensor, pad, right_sheet(fm, ncols, pad, fill)),
            "Your sheet has padding at its rim. The `pad` pixels stand between tiles only: n tiles have n - 1 gaps.",
        ),
        Mistake(
            "columns-without-maps",
            lambda seen, fm, ncols, pad, fill: len(fm) < ncols and close(seen["sheet"], sheet(fm, ncols, 1, pad, fill)),
            "With fewer channels than `ncols`, your sheet has empty columns. Use `min(ncols, C)` columns.",
        ),
        Mistake(
            "scaled-the-values",
            lambda seen, fm, ncols, pad, fill: any(
                close(seen["sheet"], right_sheet(scaled.float(), ncols, pad, fill))
                for scaled in (normalized(fm), (fm - fm.min()) / (fm.max() - fm.min()))
            ),
            "You scaled the channels. A sheet shows the values as they are; whoever wants them from 0 to 1 calls "
            "`normalize_maps` first.",
        ),
    )

    def test_the_channels_stand_row_by_row(seen, fm, ncols, pad, fill):
        expect(seen["sheet"]).array_close_to(right_sheet(fm, ncols, pad, fill))

    def test_the_tensor_passed_in_is_unchanged(seen):
        expect(seen["unchanged"]).is_true("the tensor that the caller passed is not the same as before the call")
