"""Answers to 09-tile-maps."""

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

WRONG = {
    "dropped-last-row": TILE.replace("math.ceil(count / columns)", "count // columns").replace(
        "range(count)", "range(rows * columns)"
    ),
    "column-major": TILE.replace("row, column = divmod(k, columns)", "column, row = divmod(k, rows)"),
    "fixed-channel-count": TILE.replace("range(count)", "range(64)"),
    "transposed": TILE.replace("count, height, width", "count, width, height"),
    "pad-around-the-sheet": TILE.replace("(height + pad) - pad", "(height + pad) + pad")
    .replace("(width + pad) - pad", "(width + pad) + pad")
    .replace("row * (height + pad)", "pad + row * (height + pad)")
    .replace("column * (width + pad)", "pad + column * (width + pad)"),
    "columns-without-maps": TILE.replace("min(ncols, count)", "ncols"),
    "scaled-the-values": TILE.replace("fm = fm.numpy()", "fm = ((fm - fm.min()) / (fm.max() - fm.min())).numpy()"),
}

ALSO_WRONG = [
    TILE.replace("range(count)", "range(min(count, 64))"),
    TILE.replace("fill, dtype=np.float32", "0, dtype=np.float32"),
    TILE.replace("dtype=np.float32", "dtype=np.float64"),
    TILE.replace("return sheet", "import torch\n    return torch.from_numpy(sheet)"),
    TILE.replace("pad=1", "pad=2"),
    TILE.replace("(count / columns)", "(count / columns) + 1"),
    "def tile_maps(fm, ncols, pad=1, fill=0.0):\n    return fm.numpy().reshape(-1, fm.shape[2])",
    """
import numpy as np

def tile_maps(fm, ncols, pad=1, fill=0.0):
    c, h, w = fm.shape
    columns = min(ncols, c)
    rows = -(-c // columns)
    tiles = np.full((rows * columns, h, w), fill, dtype=np.float32)
    tiles[:c] = fm.numpy()
    return tiles.reshape(rows * h, columns * w)
""",
    # Sheets of one shape are all the same array.
    """
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
]
