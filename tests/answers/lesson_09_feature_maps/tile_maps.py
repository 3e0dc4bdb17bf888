"""Answers to 09-tile-maps."""

from graders.author.answers import Wrong, changed

TILE = """
import math
import numpy as np

def tile_maps(fm, ncols, pad=1, fill=0.0):
    count, height, width = fm.shape
    columns = min(ncols, count)
    rows = math.ceil(count / columns)
    fm = fm.numpy()
    sheet = np.full((rows * (height + pad) - pad, columns * (width + pad) - pad), fill, dtype=np.float32)
    for k in range(count):
        row, column = divmod(k, columns)
        top, left = row * (height + pad), column * (width + pad)
        sheet[top:top + height, left:left + width] = fm[k]
    return sheet
"""

RIGHT = [
    """
import math
import numpy as np

def tile_maps(fm, ncols, pad=1, fill=0.0):
    count, height, width = fm.shape
    columns = min(ncols, count)
    rows = math.ceil(count / columns)
    sheet = np.full((rows * (height + pad) - pad, columns * (width + pad) - pad), fill, dtype=np.float32)
    for k, tile in enumerate(fm.numpy()):
        row, column = divmod(k, columns)
        top, left = row * (height + pad), column * (width + pad)
        sheet[top:top + height, left:left + width] = tile
    return sheet
""",
    """
import torch
import torch.nn.functional as F

def tile_maps(fm, ncols, pad=1, fill=0.0):
    c, h, w = fm.shape
    cols = min(ncols, c)
    rows = (c + cols - 1) // cols
    tiles = F.pad(fm, (0, pad, 0, pad), value=fill)
    empty = torch.full((rows * cols - c, h + pad, w + pad), fill)
    tiles = torch.cat([tiles, empty]).reshape(rows, cols, h + pad, w + pad)
    sheet = tiles.permute(0, 2, 1, 3).reshape(rows * (h + pad), cols * (w + pad))
    return sheet[:rows * (h + pad) - pad, :cols * (w + pad) - pad].numpy()
""",
    """
import numpy as np

def tile_maps(fm, ncols, pad=1, fill=0.0):
    tiles = list(fm.numpy())
    _, h, w = fm.shape
    cols = min(ncols, len(tiles))
    while len(tiles) % cols:
        tiles.append(np.full((h, w), fill))
    strips = []
    for start in range(0, len(tiles), cols):
        row = []
        for tile in tiles[start:start + cols]:
            row += [np.full((h, pad), fill), tile]
        strips += [np.full((pad, cols * w + (cols - 1) * pad), fill), np.hstack(row[1:])]
    return np.vstack(strips[1:]).astype("float32")
""",
]

WRONG = [
    Wrong(
        "rounds the values",
        violates="are not scaled",
        check="test_large_and_small_values_stay_as_they_are",
        source=TILE.replace("    return sheet", "    return sheet.round(5)"),
    ),
    Wrong(
        "rounds the number of rows down",
        violates="all channels on it",
        check="test_the_channels_stand_row_by_row",
        mistake="dropped-last-row",
        source=TILE.replace("math.ceil(count / columns)", "count // columns").replace(
            "range(count)", "range(rows * columns)"
        ),
    ),
    Wrong(
        "column by column",
        violates="row by row, from left to right",
        check="test_the_channels_stand_row_by_row",
        mistake="column-major",
        source=TILE.replace("row, column = divmod(k, columns)", "column, row = divmod(k, rows)"),
    ),
    Wrong(
        "counts to 64",
        violates="all channels on it",
        check="raised",
        mistake="fixed-channel-count",
        source=TILE.replace("range(count)", "range(64)"),
    ),
    Wrong(
        "height and width exchanged",
        violates="The channels stand row by row",
        check="raised",
        mistake="transposed",
        source=TILE.replace("count, height, width", "count, width, height"),
    ),
    Wrong(
        "padding at the rim",
        violates="There are none around the sheet.",
        check="test_the_channels_stand_row_by_row",
        mistake="pad-around-the-sheet",
        source=TILE.replace("(height + pad) - pad", "(height + pad) + pad")
        .replace("(width + pad) - pad", "(width + pad) + pad")
        .replace("row * (height + pad)", "pad + row * (height + pad)")
        .replace("column * (width + pad)", "pad + column * (width + pad)"),
    ),
    Wrong(
        "columns that stay empty",
        violates="in `min(ncols, C)` columns",
        check="test_the_channels_stand_row_by_row",
        mistake="columns-without-maps",
        source=TILE.replace("min(ncols, count)", "ncols"),
    ),
    Wrong(
        "scaled from 0 to 1",
        violates="are not scaled",
        check="test_the_channels_stand_row_by_row",
        mistake="scaled-the-values",
        source=TILE.replace("fm = fm.numpy()", "fm = ((fm - fm.min()) / (fm.max() - fm.min())).numpy()"),
    ),
    Wrong(
        "64 channels at most",
        violates="all channels on it",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("range(count)", "range(min(count, 64))"),
    ),
    Wrong(
        "one column without gaps is a view",
        violates="that shares no memory with `fm`",
        check="test_one_channel_the_defaults_and_the_example_come_out",
        mistake="shared-memory",
        source=changed(
            TILE,
            (
                "    columns = min(ncols, count)",
                "    columns = min(ncols, count)\n    if columns == 1 and (count == 1 or pad == 0):\n"
                "        return fm.numpy().reshape(count * height, width)",
            ),
        ),
    ),
    Wrong(
        "fills with 0",
        violates="hold the value `fill`",
        check="test_the_channels_stand_row_by_row",
        mistake="another-fill",
        source=TILE.replace("fill, dtype=np.float32", "0, dtype=np.float32"),
    ),
    Wrong(
        "float64",
        violates="of dtype float32",
        check="test_the_channels_stand_row_by_row",
        mistake="not-float32",
        source=TILE.replace("dtype=np.float32", "dtype=np.float64"),
    ),
    Wrong(
        "a tensor",
        violates="numpy array",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("return sheet", "import torch\n    return torch.from_numpy(sheet)"),
    ),
    Wrong(
        "another default",
        violates="pad=1, fill=0.0",
        check="test_one_channel_the_defaults_and_the_example_come_out",
        source=TILE.replace("pad=1", "pad=2"),
    ),
    Wrong(
        "a row too many",
        violates="all channels on it",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("(count / columns)", "(count / columns) + 1"),
    ),
    Wrong(
        "one below the other",
        violates="in `min(ncols, C)` columns",
        check="test_the_channels_stand_row_by_row",
        source="def tile_maps(fm, ncols, pad=1, fill=0.0):\n    return fm.numpy().reshape(-1, fm.shape[2])",
    ),
    Wrong(
        "reshapes without moving the rows",
        violates="The channels stand row by row",
        check="test_the_channels_stand_row_by_row",
        source="""
import numpy as np

def tile_maps(fm, ncols, pad=1, fill=0.0):
    c, h, w = fm.shape
    columns = min(ncols, c)
    rows = -(-c // columns)
    tiles = np.full((rows * columns, h, w), fill, dtype=np.float32)
    tiles[:c] = fm.numpy()
    return tiles.reshape(rows * h, columns * w)
""",
    ),
    Wrong(
        "sheets of one shape are all the same array",
        violates="rule 1: however often it is called",
        check="test_the_channels_stand_row_by_row",
        source="""
import math
import numpy as np

sheets = {}

def tile_maps(fm, ncols, pad=1, fill=0.0):
    count, high, wide = fm.shape
    columns = min(ncols, count)
    rows = math.ceil(count / columns)
    shape = (rows * (high + pad) - pad, columns * (wide + pad) - pad)
    sheet = sheets.setdefault(shape, np.empty(shape, dtype=np.float32))
    sheet[:] = fill
    for k in range(count):
        top, left = k // columns * (high + pad), k % columns * (wide + pad)
        sheet[top:top + high, left:left + wide] = fm[k]
    return sheet
""",
    ),
    Wrong(
        "no gaps across",
        violates="across and down",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("columns * (width + pad) - pad", "columns * width").replace(
            "column * (width + pad)", "column * width"
        ),
    ),
    Wrong(
        "no gaps down",
        violates="across and down",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("rows * (height + pad) - pad", "rows * height").replace(
            "row * (height + pad)", "row * height"
        ),
    ),
    Wrong(
        "gaps of 0, and only empty places hold `fill`",
        violates="Gaps, and the places that stay empty in the last row, hold the value `fill`.",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("    for k in range(count):", "    for k in range(count):", 1).replace(
            "    return sheet",
            """    for row in range(1, rows):
        sheet[row * (height + pad) - pad:row * (height + pad)] = 0
    return sheet""",
        ),
    ),
    Wrong(
        "a single channel comes back as it is",
        violates="shares no memory with `fm`",
        check="test_one_channel_the_defaults_and_the_example_come_out",
        source=TILE.replace(
            "    count, height", "    if len(fm) == 1:\n        return fm[0].numpy()\n    count, height", 1
        ),
    ),
    Wrong(
        "from right to left",
        violates="from left to right",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace(
            "row, column = divmod(k, columns)", "row, column = k // columns, columns - 1 - k % columns"
        ),
    ),
    Wrong(
        "from the bottom up",
        violates="row by row",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("row, column = divmod(k, columns)", "row, column = rows - 1 - k // columns, k % columns"),
    ),
    Wrong(
        "flattens by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=TILE.replace("    fm = fm.numpy()", "    fm = fm.view(count, -1).reshape(count, height, width).numpy()"),
    ),
    Wrong(
        "eight columns at most",
        violates="in `min(ncols, C)` columns",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("min(ncols, count)", "min(ncols, count, 8)"),
    ),
    Wrong(
        "writes zeros into the tensor when done",
        violates="rule 2: Tensors keep their values",
        check="test_the_tensor_passed_in_is_unchanged",
        source=TILE.replace("    return sheet", "    fm[:] = 0\n    return sheet"),
    ),
    Wrong(
        "`pad` at least 1",
        violates="`pad` 0 or more",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("    count, height", "    pad = max(pad, 1)\n    count, height", 1),
    ),
    Wrong(
        "no negative `fill`",
        violates="hold the value `fill`",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("    count, height", "    fill = max(fill, 0.0)\n    count, height", 1),
    ),
    Wrong(
        "half a gap on each side",
        violates="Between neighbouring tiles there are `pad` pixels",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("    columns =", "    pad = 2 * (pad // 2) if pad > 1 else pad\n    columns =", 1),
    ),
]

WRONG += [
    Wrong(
        "rounds `fill`",
        violates="hold the value `fill`",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("fill, dtype", "round(fill, 4), dtype"),
    ),
    Wrong(
        "every 0 becomes `fill`, those of the channels, too",
        violates="are not scaled",
        check="test_the_channels_stand_row_by_row",
        source=TILE.replace("fill, dtype", "0.0, dtype").replace(
            "    return sheet", "    sheet[sheet == 0] = fill\n    return sheet"
        ),
    ),
]

SURVIVORS = {
    "at least one dimension": "maps have three",
    "under no_grad": "no graph is recorded",
    "not for all: for k, tile": "all of them, in the reverse order",
}

GIVENS = [
    "Write `tile_maps(",
]
