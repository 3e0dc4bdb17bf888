"""Answers to 09-channel-stats."""

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


RIGHT = [
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
]

WRONG = {
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
}

ALSO_WRONG = [
    stats(add="=").replace('t["n"] = ', 't["n"] += '),
    stats(zero="(rows.abs() < 0.01)"),
    stats(var="(q / n - (s / n) ** 2).sqrt()"),
    stats(more="s = s.float()\n    s = s"),
    stats(run="with layer.register_forward_hook(hook), torch.no_grad():\n        model(torch.cat(list(batches)))"),
    stats(
        run="torch.set_grad_enabled(False)\n    with layer.register_forward_hook(hook):\n"
        "        for b in batches:\n            model(b)"
    ),
    stats(
        run="before = model.training\n    model.eval()\n"
        "    with layer.register_forward_hook(hook), torch.no_grad():\n"
        "        for b in batches:\n            model(b)\n    model.train(before)"
    ),
    stats(
        run="model.train(not model.training)\n    with layer.register_forward_hook(hook), torch.no_grad():\n"
        "        for b in batches:\n            model(b)"
    ),
    stats().replace("z / n}", "z}"),
    stats().replace(".double(), ", ".float(), "),
    stats(
        values="output.detach().double()",
        run="with layer.register_forward_hook(hook):" + LOOP + "            with torch.no_grad():\n"
        "                model(b)",
    ),
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
]
