"""Answers to 09-channel-stats."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import torch
from torch.nn.modules.module import register_module_forward_hook

def channel_stats(model, layer, batches):
    rows = []

    def hook(module, args, output):
        if module is layer:
            rows.append(output.double().movedim(1, 0).flatten(1).numpy().copy())

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
]

WRONG = [
    Wrong(
        "one store for all calls",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
        source=changed(
            RIGHT[1],
            ("def channel", "total = {}\n\ndef channel"),
            ("    total = {", "    total.update({"),
            ('"zeros": 0}', '"zeros": 0})'),
        ),
    ),
]

SURVIVORS = {
    "lost copy: for batch in _gone_through(batches)": "nobody changes the list during the call",
    "another method: n, s, q, z = torch.stack(parts).mean(0)": "ratios of means are ratios of sums",
    "not for all: dims = ": "the same dimensions, in the reverse order",
}
