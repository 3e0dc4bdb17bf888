"""Exercise 09-tile-maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Witness,
    close,
    exercise,
    expect,
    laid_out,
    nothing_changed,
)
from graders.lesson_09_feature_maps.judging import SHARED, another_array, normalized

GRIDS = {
    "last row not full": ((20, 3, 5), 8),
    "last row full": ((6, 2, 3), 3),
    "fewer channels": ((3, 4, 2), 5),
    "one column": ((4, 3, 2), 1),
    "one channel": ((1, 3, 2), 2),
    "many channels": ((70, 2, 3), 9),
}
"""[C, H, W] and `ncols`. Height and width always differ."""
FILLS = {"zero": 0.0, "negative": -1.5, "fraction": 0.123456, "large": 9.0}


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


def tiles_right(value: Tensor | None, right: Tensor) -> bool:
    """Whether a sheet equals the right one wherever that is a number."""
    return value is not None and value.shape == right.shape and bool(((value == right) | right.isnan()).all())


WIDE = torch.tensor([[[-30_000.0, 2.0**-20], [0.0, 20_000.0]]])
"""A channel with large and small values."""


@exercise(
    "09-tile-maps",
    points=2,
    minutes=15,
    difficulty=2,
    title="Many maps on one sheet",
    hints=(
        "Tile `k` stands in row `k // columns` and column `k % columns`; `divmod(k, columns)` gives both.",
        "Start from `np.full((height, width), fill, dtype=np.float32)` and write the tiles into it. Then gaps and "
        "unused places are done already.",
        "n tiles of height H with n - 1 gaps between them are n * H + (n - 1) * pad pixels high. There is no pad "
        "around the sheet. Round the number of rows up: `math.ceil(C / columns)`.",
    ),
    why=(
        "The sheet starts out full of `fill`, so gaps and unused places need no code, and each tile is one "
        "slice. Padding the tiles and rearranging them with `reshape` and `permute`, as `sheet` does, would "
        "do as well."
    ),
    circumstances=Circumstances(
        covers={"layout": ("contiguous", "transposed", "slice"), "values": ALL},
        excludes={
            "dtype": "the tensor is float32",
            "rank": "maps have three dimensions",
            "place": "the tensor is detached",
            "grad": "the tensor is detached",
            "number": "the three numbers have axes of their own",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooks": "no gradient flows",
            "hooked": "no gradient flows",
            "call": "every probe calls it on several tensors",
            "grad_mode": "no graph is recorded",
            "backward": "there is no pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"grid": tuple(GRIDS), "pad": (1, 0, 3), "filling": tuple(FILLS),
             "written": ("defaults", "positions", "keywords")},
        pairs=[("pad", "filling")],
        impossible=[
            lambda written, pad, filling, grid: written == "defaults" and (pad, filling, grid) != (
                1, "zero", "last row not full"
            )
        ],
    ),
)  # fmt: skip
class TestTileMaps:
    """Write `tile_maps(fm, ncols, pad=1, fill=0.0)`. `fm` is a detached float32 tensor of shape [C, H, W], each 1 or
    more; `ncols` is 1 or more and `pad` 0 or more. Return one sheet with all channels on it: a two-dimensional numpy
    array of dtype float32 that shares no memory with `fm`.

    - The channels stand row by row, from left to right, in `min(ncols, C)` columns, and are not scaled.
    - Between neighbouring tiles there are `pad` pixels, across and down. There are none around the sheet.
    - Gaps, and the places that stay empty in the last row, hold the value `fill`.

    **Example.** For `fm = tensor([[[1., 2.]], [[3., 4.]], [[5., 6.]]])`, `tile_maps(fm, 2)` is
    `array([[1., 2., 0., 3., 4.], [0., 0., 0., 0., 0.], [5., 6., 0., 0., 0.]], dtype=float32)`.
    """

    def draw(rng, grid, filling, values):
        shape, ncols = GRIDS[grid]
        fm = rng.tensor(*shape, values=values)
        fm[0, 0, 0] = 0.0  # no gap
        return {"fm": fm, "ncols": ncols, "fill": FILLS[filling]}

    def alive(fm):
        return len({tuple(tile.flatten().tolist()) for tile in fm}) == len(fm) and not (fm == fm.mT.mT.flip(2)).all()

    def probe(student, fm, ncols, pad, fill, written, layout):
        fm = laid_out(fm, layout)
        witness = Witness(fm=fm)
        if written == "defaults":
            made = student.tile_maps(fm, ncols)
        elif written == "positions":
            made = student.tile_maps(fm, ncols, pad, fill)
        else:
            made = student.tile_maps(fm, ncols, fill=fill, pad=pad)
        seen = {"sheet": made, "changed": witness.changes()}
        student.tile_maps(1 - fm, ncols, pad, fill)  # does not change the sheet that was returned first
        alone = fm[:1].clone()
        seen["of the first channel"] = student.tile_maps(alone, ncols, pad, fill)
        alone.zero_()
        example = torch.tensor([[[1.0, 2]], [[3.0, 4]], [[5.0, 6]]])
        return {**seen, "by default": student.tile_maps(fm, ncols), "example": student.tile_maps(example, 2),
                "wide": student.tile_maps(WIDE.clone(), 1)}  # fmt: skip

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
                len(fm) > ncols > 1
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
        Mistake(
            "another-fill",
            lambda seen, fm, ncols, pad, fill: (
                tiles_right(seen["sheet"].tensor, right_sheet(fm, ncols, pad, torch.nan))
                and not close(seen["sheet"], right_sheet(fm, ncols, pad, fill))
            ),
            "All tiles are right. What differs is a gap, or a place that stays empty: these hold the value `fill`.",
        ),
        Mistake(
            "shared-memory",
            lambda seen, fm, ncols, pad, fill: (
                close(seen["of the first channel"], 0.0) and close(seen["sheet"], right_sheet(fm, ncols, pad, fill))
            ),
            SHARED,
        ),
        another_array("sheet"),
    )

    def test_the_channels_stand_row_by_row(seen, fm, ncols, pad, fill):
        expect(seen["sheet"]).array_close_to(right_sheet(fm, ncols, pad, fill))

    def test_one_channel_the_defaults_and_the_example_come_out(seen, fm, ncols):
        expect(seen["of the first channel"]).array_close_to(fm[0])
        expect(seen["by default"]).array_close_to(right_sheet(fm, ncols, 1, 0.0))
        expect(seen["example"]).array_close_to(torch.tensor([[1.0, 2, 0, 3, 4], [0.0, 0, 0, 0, 0], [5.0, 6, 0, 0, 0]]))

    def test_large_and_small_values_stay_as_they_are(seen):
        expect(seen["wide"]).array_close_to(WIDE[0], rtol=1e-6, atol=0.0)

    def test_the_tensor_passed_in_is_unchanged(seen):
        nothing_changed(seen["changed"])
