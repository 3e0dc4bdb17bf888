"""Answers to 09-tile-maps."""

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


SURVIVORS = {
    "not for all: for k, tile": "all of them, in the reverse order",
}
