"""Answers to the exercises of lesson 9."""

RIGHT = {
    "09-conv-maps": [
        """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
        """
from contextlib import ExitStack
from functools import partial
import torch

def keep(maps, name, module, args, output):
    maps.update({name: output.clone().detach()})

def conv_maps(model, x):
    maps = {}
    with ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                stack.enter_context(module.register_forward_hook(partial(keep, maps, name)))
        model(x)
    return maps
""",
        """
import torch

class Store:
    def __init__(self, model):
        self.names = {m: n for n, m in model.named_modules() if isinstance(m, torch.nn.Conv2d)}
        self.maps = {}
    def __call__(self, module, args, output):
        if module in self.names:
            self.maps[self.names[module]] = torch.empty_like(output.data).copy_(output.data)

def conv_maps(model, x):
    store = Store(model)
    handle = torch.nn.modules.module.register_module_forward_hook(store)
    try:
        with torch.inference_mode():
            model(x)
    finally:
        handle.remove()
    return store.maps
""",
        """
from torch import nn

def conv_maps(model, x):
    maps, wrapped = {}, []

    def wrap(name, module):
        original = module.forward
        def forward(*args, **kwargs):
            output = original(*args, **kwargs)
            maps[name] = output.detach().clone()
            return output
        module.forward = forward
        wrapped.append(module)

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                wrap(name, module)
        model(x)
    finally:
        for module in wrapped:
            del module.forward
    return maps
""",
    ],
    "09-normalize-maps": [
        """
import numpy as np

def normalize_maps(fm):
    a = np.asarray(fm.detach().float())
    return np.array([np.interp(c, [c.min(), c.max()], [0, 1]) if np.ptp(c) else c * 0 for c in a], np.float32)
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
        """
import torch

def normalize_maps(fm):
    maps = fm.detach().to(torch.float64, copy=True)
    for channel in maps:
        channel -= channel.min()
        if channel.max() > 0:
            channel /= channel.max()
    return maps.to(torch.float32).numpy()
""",
        """
import numpy as np

def normalize_maps(fm):
    a = np.array(fm.detach().double().tolist())
    flat = a.reshape(len(a), -1)
    low, high = flat.min(1)[:, None, None], flat.max(1)[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num((a - low) / (high - low)).astype(np.float32)
""",
    ],
    "09-tile-maps": [
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
    ],
    "09-plot-maps": [
        """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    axes = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for one in axes.flat:
        one.axis("off")
    for k, (one, channel) in enumerate(zip(axes.flat, fm)):
        limits = fm if shared else channel
        one.imshow(channel.numpy(), cmap="gray", vmin=limits.min().item(), vmax=limits.max().item())
        one.set_title(str(k))
    return figure
""",
        """
import math
import matplotlib.pyplot as plt
from matplotlib.colors import Normalize

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, fm.shape[0])
    nrows = math.ceil(fm.shape[0] / ncols)
    norm = Normalize(float(fm.min()), float(fm.max()))
    fig = plt.figure(figsize=(ncols, nrows))
    for k in range(fm.shape[0]):
        ax = fig.add_subplot(nrows, ncols, k + 1)
        image = ax.imshow(fm[k], cmap=plt.cm.gray, **({"norm": norm} if shared else {}))
        ax.set_title(k, loc="left")
        ax.set_axis_off()
    if shared:
        fig.colorbar(image, ax=fig.axes)
    plt.close(fig)
    return fig
""",
        """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, len(fm))
    nrows = (len(fm) - 1) // ncols + 1
    figure = Figure(layout="constrained", figsize=(ncols, 1.2 * nrows))
    parts = figure.subfigures(nrows, 1, squeeze=False)
    for row in range(nrows):
        axes = parts[row, 0].subplots(1, ncols, squeeze=False)[0]
        for column, one in enumerate(axes):
            k = row * ncols + column
            if k >= len(fm):
                one.set_visible(False)
                continue
            image = one.imshow(fm[k].tolist(), "gray")
            if shared:
                image.set_clim(fm.amin().item(), fm.amax().item())
            one.set(title=f"{k}", xticks=[], yticks=[])
            one.set_frame_on(False)
            one.get_xaxis().set_visible(False)
            one.get_yaxis().set_visible(False)
    return figure
""",
        """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    ncols = min(ncols, len(fm))
    nrows = -(-len(fm) // ncols)
    figure = Figure((ncols, nrows))
    for k in reversed(range(len(fm))):
        row, column = divmod(k, ncols)
        box = (column / ncols, 1 - (row + 1) / nrows, 0.8 / ncols, 0.7 / nrows)
        axes = figure.add_axes(box, frameon=False, xticks=[], yticks=[], title=str(k))
        axes.axis("off")
        part = fm if shared else fm[k]
        axes.matshow(fm[k].numpy().copy(), cmap="gray", vmin=part.min(), vmax=part.max())
        axes.axis(False)
    return figure
""",
        # No ticks and no frame are nothing to see; second axes, off as well, lie on the first ones.
        """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    grid = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for k, axes in enumerate(grid.flat[:len(fm)]):
        scale = fm if shared else fm[k]
        axes.imshow(fm[k], cmap="gray", vmin=scale.min().item(), vmax=scale.max().item())
        axes.set_title(k)
        axes.twinx().set_axis_off()
    return figure
""",
    ],
    "09-top-channels": [
        """
import heapq

def top_channels(fm, k):
    return heapq.nlargest(k, range(len(fm)), key=lambda c: float(fm[c].mean()))
""",
        """
def top_channels(fm, k):
    return fm.mean((1, 2)).topk(k).indices.tolist()
""",
        """
def top_channels(fm, k):
    means = [channel.mean().item() for channel in fm]
    return sorted(range(len(means)), key=means.__getitem__, reverse=True)[:k]
""",
        """
import numpy as np

def top_channels(fm, k):
    return [int(i) for i in np.argsort(-fm.numpy().sum(axis=(1, 2)))[:k]]
""",
    ],
    "09-channel-stats": [
        """
import torch
from torch.nn.modules.module import register_module_forward_hook

def channel_stats(model, layer, batches):
    rows = []

    def hook(module, args, output):
        if module is layer:
            rows.append(output.double().movedim(1, 0).flatten(1).numpy())

    before = torch.is_grad_enabled()
    handle = register_module_forward_hook(hook)
    torch.set_grad_enabled(False)
    try:
        list(map(model, batches))
    finally:
        torch.set_grad_enabled(before)
        handle.remove()
    values = torch.cat([torch.from_numpy(part) for part in rows], 1)
    mean = values.mean(1, keepdim=True)
    return {
        "mean": mean[:, 0],
        "var": (values - mean).square().mean(1),
        "zero_frac": values.eq(0).sum(1).double() / values.shape[1],
    }
""",
        """
import torch

def channel_stats(model, layer, batches):
    total = {"n": 0, "sum": 0, "squares": 0, "zeros": 0}

    def hook(module, args, output):
        rows = output.detach().double().transpose(0, 1).flatten(1)
        total["n"] += rows.shape[1]
        total["sum"] += rows.sum(1)
        total["squares"] += rows.square().sum(1)
        total["zeros"] += (rows == 0).double().sum(1)

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    mean = total["sum"] / total["n"]
    return {
        "mean": mean,
        "var": total["squares"] / total["n"] - mean**2,
        "zero_frac": total["zeros"] / total["n"],
    }
""",
        """
import torch

class Running:
    # the update of Chan, Golub and LeVeque: mean and sum of squared deviations
    def __init__(self):
        self.n = 0
    def __call__(self, module, args, output):
        values = output.movedim(1, 0).reshape(output.shape[1], -1).to(torch.float64)
        n = values.shape[1]
        mean, zeros = values.mean(1), (values == 0).sum(1).to(torch.float64)
        m2 = ((values - mean[:, None]) ** 2).sum(1)
        if self.n == 0:
            self.n, self.mean, self.m2, self.zeros = n, mean, m2, zeros
            return
        delta, both = mean - self.mean, self.n + n
        self.m2 = self.m2 + m2 + delta**2 * self.n * n / both
        self.mean = self.mean + delta * n / both
        self.zeros = self.zeros + zeros
        self.n = both

def channel_stats(model, layer, batches):
    running = Running()
    handle = layer.register_forward_hook(running)
    try:
        with torch.inference_mode():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    return {"mean": running.mean, "var": running.m2 / running.n, "zero_frac": running.zeros / running.n}
""",
        """
import torch

@torch.no_grad()
def channel_stats(model, layer, batches):
    kept, original = [], layer.forward

    def recording(*args, **kwargs):
        output = original(*args, **kwargs)
        kept.append(output.double().clone())
        return output

    layer.forward = recording
    try:
        for batch in list(batches):
            model(batch)
    finally:
        del layer.forward
    values = torch.cat([part.transpose(0, 1).flatten(1) for part in kept], dim=1)
    return dict(
        mean=values.mean(1), var=values.var(1, unbiased=False), zero_frac=(values == 0).double().mean(1)
    )
""",
        """
import torch

def channel_stats(model, layer, batches):
    from functools import partial
    sums = None
    def hook(keep, module, args, output):
        o = output.double()
        dims = [d for d in range(o.dim()) if d != 1]
        keep.append(torch.stack([torch.ones_like(o).sum(dims), o.sum(dims), (o * o).sum(dims), o.eq(0).sum(dims)]))
    parts = []
    handle = layer.register_forward_hook(partial(hook, parts))
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    n, s, q, z = torch.stack(parts).sum(0)
    return {"zero_frac": z / n, "mean": s / n, "var": q / n - (s / n) ** 2}
""",
        # Means and squared distances are merged; zeros are counted in whole numbers.
        """
import torch

def channel_stats(model, layer, batches):
    n, mean, squares, zeros = 0, 0.0, 0.0, 0
    def hook(module, args, output):
        nonlocal n, mean, squares, zeros
        v = output.double().transpose(0, 1).flatten(1)
        m, own = v.shape[1], v.mean(1)
        step, total = own - mean, n + m
        squares = squares + (v - own[:, None]).square().sum(1) + step**2 * (n * m / total)
        mean = mean + step * (m / total)
        zeros = zeros + (v == 0).sum(1)
        n = total
    with layer.register_forward_hook(hook), torch.inference_mode():
        for batch in batches:
            model(batch)
    return {"mean": mean, "var": squares / n, "zero_frac": (zeros / n).double()}
""",
    ],
}

CONV_MAPS = """
import torch
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in MODULES:
            if CHOSEN:
                def hook(module, args, output, name=name):
                    maps[name] = STORED
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return RESULT
"""


def conv_maps(
    modules: str = "model.named_modules()",
    chosen: str = "isinstance(module, nn.Conv2d)",
    stored: str = "output.detach().clone()",
    result: str = "maps",
) -> str:
    """An answer that differs from a right one in one place."""
    source = CONV_MAPS.replace("MODULES", modules).replace("CHOSEN", chosen)
    return source.replace("STORED", stored).replace("RESULT", result)


LOOP = """
        for b in batches:
            model(b)
"""


def stats(
    values: str = "output.double()",
    reduced: str = "rows.sum(1)",
    add: str = "+=",
    var: str = "q / n - (s / n) ** 2",
    zero: str = "(rows == 0)",
    run: str = "with layer.register_forward_hook(hook), torch.no_grad():" + LOOP,
    more: str = "",
) -> str:
    """An answer to 09-channel-stats that differs from a right one in one place."""
    return f"""
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def hook(module, args, output):
        rows = {values}.transpose(0, 1).flatten(1)
        t["n"] {add} rows.shape[1]
        t["s"] {add} {reduced}
        t["q"] {add} {reduced.replace("rows", "(rows * rows)")}
        t["z"] {add} {reduced.replace("rows", zero + ".double()")}

    {run}
    n, s, q, z = t["n"], t["s"], t["q"], t["z"]
    {more}
    return {{"mean": (s / n).double(), "var": ({var}).double(), "zero_frac": z / n}}
"""


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

PLOT = """
import math
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure = Figure()
    axes = figure.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for one in axes.flat:
        one.axis("off")
    for k in range(len(fm)):
        one = axes.flat[k]
        limits = fm if shared else fm[k]
        one.imshow(fm[k], cmap="gray", vmin=limits.min(), vmax=limits.max())
        one.set_title(str(k))
    return figure
"""

WRONG = {
    "09-conv-maps": {
        "only-sequential-recursed": """
from torch import nn

def walk(module, prefix=""):
    found = []
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            found.append((prefix + name, child))
        elif type(child) is nn.Sequential:
            found += walk(child, prefix + name + ".")
    return found
"""
        + conv_maps(modules="walk(model)"),
        "late-binding": """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    convolutions = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    try:
        for name, module in convolutions:
            handles.append(module.register_forward_hook(lambda m, a, o: maps.update({name: o.detach().clone()})))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
        "stored-alias": conv_maps(stored="output.detach()"),
        "definition-order": conv_maps(result="{n: maps[n] for n, m in model.named_modules() if n in maps}"),
        "subclass-missed": conv_maps(chosen="type(module) is nn.Conv2d"),
        "other-convolutions": conv_maps(chosen="'Conv' in type(module).__name__"),
        "hook-left-behind": """
from torch import nn

def conv_maps(model, x):
    maps = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, a, o, name=name: maps.update({name: o.detach().clone()}))
    model(x)
    return maps
""",
        "hook-left-after-exception": """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return maps
""",
    },
    "09-normalize-maps": {
        "one-range-for-all": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min()) / (a.max() - a.min())
""",
        "reduced-over-channels": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min(axis=0)) / (a.max(axis=0) - a.min(axis=0))
""",
        "not-detached": """
import numpy as np

def normalize_maps(fm):
    a = fm.float().numpy()
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
        "no-float-cast": """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().numpy().astype(np.float32)
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
        "cast-too-late": """
import torch

def normalize_maps(fm):
    a = fm.detach()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    span = torch.where(high > low, high - low, torch.ones_like(high))
    return ((a - low) / span).float().numpy()
""",
        "nan-on-constant": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low)
""",
        "epsilon-in-the-span": """
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low + 1e-8)
""",
        "changed-callers-tensor": """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    a -= a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True)
    a /= np.where(span == 0, 1, span)
    return a
""",
    },
    "09-tile-maps": {
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
    },
    "09-plot-maps": {
        "no-figure-returned": """
import math
import matplotlib.pyplot as plt

def plot_maps(fm, ncols=8, shared=False):
    columns = min(ncols, len(fm))
    figure, axes = plt.subplots(math.ceil(len(fm) / columns), columns, squeeze=False)
    for k in range(len(fm)):
        axes.flat[k].imshow(fm[k], cmap="gray")
    plt.show()
""",
        "figure-left-open": PLOT.replace(
            "from matplotlib.figure import Figure", "import matplotlib.pyplot as plt"
        ).replace("Figure()", "plt.figure()"),
        "fixed-channel-count": """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    figure = Figure()
    for k in range(64):
        one = figure.add_subplot(8, 8, k + 1)
        limits = fm if shared else fm[k]
        one.imshow(fm[k], cmap="gray", vmin=limits.min(), vmax=limits.max())
        one.set_title(str(k))
        one.axis("off")
    return figure
""",
        "squeezed-axes": PLOT.replace(", squeeze=False", ""),
        "rows-of-axes": PLOT.replace("for one in axes.flat:", "for one in axes:"),
        "ignored-shared": PLOT.replace("fm if shared else fm[k]", "fm[k]"),
        "always-shared": PLOT.replace("fm if shared else fm[k]", "fm"),
        "empty-axes-visible": PLOT.replace(
            """    for one in axes.flat:
        one.axis("off")
""",
            "",
        ).replace("one.set_title(str(k))", 'one.set_title(str(k))\n        one.axis("off")'),
        "titles-from-one": PLOT.replace("str(k)", "str(k + 1)"),
        "scaled-the-values": PLOT.replace(
            "    for k in range",
            "    low, high = fm.amin((1, 2), keepdim=True), fm.amax((1, 2), keepdim=True)\n"
            "    fm = (fm - low) / (high - low)\n"
            "    for k in range",
        ),
    },
    "09-top-channels": {
        "ranked-by-max": "def top_channels(fm, k):\n    return fm.amax((1, 2)).topk(k).indices.tolist()",
        "ranked-by-abs": "def top_channels(fm, k):\n    return fm.abs().mean((1, 2)).topk(k).indices.tolist()",
        "values-not-indices": "def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).values.tolist()",
        "smallest-first": "def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort()[-k:].tolist()"
        " if k > 1 else fm.mean((1, 2)).argsort()[:1].tolist()",
        "no-python-ints": "def top_channels(fm, k):\n    return fm.mean((1, 2)).topk(k).indices",
    },
    "09-channel-stats": {
        "averaged-batch-stats": """
import torch

def channel_stats(model, layer, batches):
    parts = []

    def hook(module, args, output):
        rows = output.double().transpose(0, 1).flatten(1)
        parts.append(torch.stack([rows.mean(1), rows.var(1, correction=0), (rows == 0).double().mean(1)]))

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    return dict(zip(("mean", "var", "zero_frac"), torch.stack(parts).mean(0)))
""",
        "only-last-call": stats(add="="),
        "not-per-channel": stats(reduced="rows.sum()").replace("rows.shape[1]", "rows.numel()"),
        "stored-the-input": stats(values="args[0].double()"),
        "stored-alias": """
import torch

def channel_stats(model, layer, batches):
    outputs = []
    with layer.register_forward_hook(lambda module, args, output: outputs.append(output)), torch.no_grad():
        for batch in batches:
            model(batch)
    rows = torch.cat([o.transpose(0, 1).flatten(1) for o in outputs], 1).double()
    return {"mean": rows.mean(1), "var": rows.var(1, correction=0), "zero_frac": (rows == 0).double().mean(1)}
""",
        "four-dimensions-only": """
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def hook(module, args, output):
        o = output.double()
        t["n"] += o.numel() // o.shape[1]
        t["s"] += o.sum((0, 2, 3))
        t["q"] += (o * o).sum((0, 2, 3))
        t["z"] += (o == 0).double().sum((0, 2, 3))

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    return {"mean": t["s"] / t["n"], "var": t["q"] / t["n"] - (t["s"] / t["n"]) ** 2, "zero_frac": t["z"] / t["n"]}
""",
        "unbiased-variance": stats(var="(q / n - (s / n) ** 2) * n / (n - 1)"),
        "float32-sums": stats(values="output.detach()"),
        "counted-negatives": stats(zero="(rows <= 0)"),
        "read-the-batches-twice": """
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def first(module, args, output):
        rows = output.double().transpose(0, 1).flatten(1)
        t["n"] += rows.shape[1]
        t["s"] = t["s"] + rows.sum(1)
        t["z"] = t["z"] + (rows == 0).double().sum(1)

    with layer.register_forward_hook(first), torch.no_grad():
        for batch in batches:
            model(batch)
    mean = t["s"] / t["n"]
    deviations = torch.zeros_like(mean)

    def second(module, args, output):
        deviations.add_((output.double().transpose(0, 1).flatten(1) - mean[:, None]).square().sum(1))

    with layer.register_forward_hook(second), torch.no_grad():
        for batch in batches:
            model(batch)
    return {"mean": mean, "var": deviations / t["n"], "zero_frac": t["z"] / t["n"]}
""",
        "graph-was-built": stats(
            values="output.detach().double()",
            run="with layer.register_forward_hook(hook):\n        for b in batches:\n            model(b)",
        ),
        "hook-left-behind": stats(run="layer.register_forward_hook(hook)\n    with torch.no_grad():" + LOOP),
        "hook-left-after-exception": stats(
            run="handle = layer.register_forward_hook(hook)\n    with torch.no_grad():\n        for b in batches:\n"
            "            model(b)\n    handle.remove()"
        ),
    },
}

ALSO_WRONG = {
    "09-conv-maps": [
        conv_maps(stored="args[0].detach().clone()"),
        conv_maps(stored="output.clone()"),
        conv_maps(stored="output.detach().clone()[0]"),
        conv_maps(stored="output.detach().clone().numpy()"),
        conv_maps(result="{n: m for n, m in sorted(maps.items())}"),
        conv_maps().replace("    try:", "    model.eval()\n    try:"),
        conv_maps().replace("        model(x)", "        model(x)\n        model(x)"),
        conv_maps().replace("        for handle in handles:\n            handle.remove()", "        pass").replace(
            "return maps", "[m._forward_hooks.clear() for m in model.modules()]\n    return maps"
        ),
        "def conv_maps(model, x):\n    model(x)\n    return {}",
        "def conv_maps(model, x):\n    model(x)",
        # Each hook removes itself, when it comes to that. Freezes the model. Clears gradients. Computes what a plain
        # convolution would give.
        *(
            f"""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {{}}, {{}}
    {before}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = {kept}.detach().clone()
                {inside}
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        {after}
    return maps
"""
            for before, kept, inside, after in (
                ("pass", "output", "handles[name].remove()", "pass"),
                ("model.requires_grad_(False)", "output", "pass", "[one.remove() for one in handles.values()]"),
                ("model.zero_grad()", "output", "pass", "[one.remove() for one in handles.values()]"),
                (
                    "pass",
                    "F.conv2d(args[0], module.weight, module.bias, module.stride, module.padding)",
                    "pass",
                    "[one.remove() for one in handles.values()]",
                ),
            )
        ),
    ],
    "09-normalize-maps": [
        "def normalize_maps(fm):\n    return fm.detach().float().numpy()",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(np.isclose(low, high), 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low + 1e-12)
""",
        """
import torch

def normalize_maps(fm):
    a = fm.detach().float()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    return torch.nan_to_num((a - low) / (high - low))
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().double().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=2, keepdims=True), a.max(axis=2, keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    span = np.abs(a).max(axis=(1, 2), keepdims=True)
    return a / np.where(span == 0, 1, span)
""",
        """
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(span < 1e-4, 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
        # One row of pixels is squeezed away.
        """
import numpy as np

def normalize_maps(fm):
    v = fm.detach().float().squeeze().numpy()
    axes = tuple(range(1, v.ndim))
    low = v.min(axes, keepdims=True)
    span = v.max(axes, keepdims=True) - low
    return (v - low) / np.where(span == 0, 1, span)
""",
    ],
    "09-tile-maps": [
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
    ],
    "09-plot-maps": [
        PLOT.replace("range(len(fm))", "range(min(64, len(fm)))"),
        PLOT.replace('"gray"', '"gray_r"'),
        PLOT.replace("str(k)", 'f"channel {k}"'),
        PLOT.replace("fm[k], cmap", "fm[k].T, cmap"),
        PLOT.replace("axes.flat[k]", "axes.T.flat[k]"),
        PLOT.replace("min(ncols, len(fm))", "ncols"),
        PLOT.replace('one.axis("off")', "one.set_xticks([])\n        one.set_yticks([])"),
        PLOT.replace("fm if shared else fm[k]", "fm if shared else fm[k].abs()"),
        """
from matplotlib.figure import Figure

def plot_maps(fm, ncols=8, shared=False):
    figure = Figure()
    figure.subplots().imshow(fm.reshape(-1, fm.shape[2]), cmap="gray")
    return figure
""",
    ],
    "09-top-channels": [
        "def top_channels(fm, k):\n    return list(range(k))",
        "def top_channels(fm, k):\n    return fm.flatten(1).median(1).values.topk(k).indices.tolist()",
        "def top_channels(fm, k):\n    return fm.amin((1, 2)).topk(k).indices.tolist()",
        "def top_channels(fm, k):\n    best = fm.mean((1, 2)).topk(k)[1].tolist()\n    fm.zero_()\n    return best",
        "def top_channels(fm, k):\n    return list(fm.mean((1, 2)).topk(k).indices)",
        "def top_channels(fm, k):\n    return fm.mean((1, 2)).abs().topk(k).indices.tolist()",
        "def top_channels(fm, k):\n    return fm.mean((1, 2)).argsort(descending=True).tolist() + [0]",
        "def top_channels(fm, k):\n    return fm.square().mean((1, 2)).topk(k).indices.tolist()",
        "def top_channels(fm, k):\n    return fm.relu().mean((1, 2)).topk(k).indices.tolist()",
        "def top_channels(fm, k):\n    return tuple(fm.mean((1, 2)).topk(k).indices.tolist())",
    ],
    "09-channel-stats": [
        stats(add="=").replace('t["n"] = ', 't["n"] += '),
        stats(zero="(rows.abs() < 0.01)"),
        stats(var="(q / n - (s / n) ** 2).sqrt()"),
        stats(more="s = s.float()\n    s = s"),
        stats(run="with layer.register_forward_hook(hook), torch.no_grad():\n        model(torch.cat(list(batches)))"),
        stats(run="torch.set_grad_enabled(False)\n    with layer.register_forward_hook(hook):\n"
              "        for b in batches:\n            model(b)"),
        stats(run="before = model.training\n    model.eval()\n"
              "    with layer.register_forward_hook(hook), torch.no_grad():\n"
              "        for b in batches:\n            model(b)\n    model.train(before)"),
        stats(run="model.train(not model.training)\n    with layer.register_forward_hook(hook), torch.no_grad():\n"
              "        for b in batches:\n            model(b)"),
        stats().replace("z / n}", "z}"),
        stats().replace(".double(), ", ".float(), "),
        stats(values="output.detach().double()",
              run="with layer.register_forward_hook(hook):" + LOOP + "            with torch.no_grad():\n"
              "                model(b)"),
        "def channel_stats(model, layer, batches):\n    return {}",
        # Tiny values taken for zeros; a model made float64 for good; cleared gradients; a batch that is overwritten.
        *(
            f"""
import torch

def channel_stats(model, layer, batches):
    values = []
    def hook(module, args, output):
        values.append(output.detach().double().transpose(0, 1).flatten(1).clone())
    {before}
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            {run}
    values = torch.cat(values, 1)
    zeros = {zeros}
    return {{"mean": values.mean(1), "var": values.var(1, correction=0), "zero_frac": zeros.double().mean(1)}}
"""
            for before, run, zeros in (
                ("pass", "model(batch)", "torch.isclose(values, torch.zeros_like(values))"),
                ("model.double()", "model(batch.double())", "values == 0"),
                ("model.zero_grad()", "model(batch)", "values == 0"),
                ("pass", "model(batch), batch.zero_()", "values == 0"),
            )
        ),
    ],
}  # fmt: skip
