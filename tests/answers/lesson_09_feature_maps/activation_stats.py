"""Answers to 09-activation-stats."""

from graders.author.answers import Wrong, changed

RIGHT = [
    """
import numpy as np
import torch

class Recorder:
    def __init__(self):
        self.means, self.stds, self.counts = [], [], []

    def __call__(self, module, args, output):
        values = output.detach().cpu().numpy()
        self.means.append(float(values.mean()))
        self.stds.append(float(values.std(ddof=1)))
        self.counts.append(np.histogram(values, bins=40, range=(0, 4))[0].tolist())

def activation_stats(layers, step, batches):
    recorders, handles = {}, []
    try:
        for name in layers:
            recorders[name] = Recorder()
            handles.append(layers[name].register_forward_hook(recorders[name]))
        for batch in batches:
            step(batch)
    finally:
        for handle in handles:
            handle.remove()
    return {
        name: {"mean": torch.tensor(r.means), "std": torch.tensor(r.stds), "hist": torch.tensor(r.counts)}
        for name, r in recorders.items()
    }
""",
    """
import torch
from functools import partial

def keep(outputs, module, args, output):
    outputs.append(output.detach().clone())

def activation_stats(layers, step, batches):
    kept = {name: [] for name in layers}
    handles = [layer.register_forward_hook(partial(keep, kept[name])) for name, layer in layers.items()]
    try:
        list(map(step, batches))
    finally:
        [handle.remove() for handle in handles]
    edges = torch.linspace(0, 4, 41)
    result = {}
    for name, outputs in kept.items():
        flat = torch.stack([output.flatten() for output in outputs]).double()
        counts = [((flat >= low) & (flat < high)).sum(1) for low, high in zip(edges, edges[1:])]
        result[name] = {"mean": flat.mean(1), "std": flat.std(1), "hist": torch.stack(counts, 1)}
    return result
""",
    """
import torch

def activation_stats(layers, step, batches):
    n, names = len(batches), {layer: name for name, layer in layers.items()}
    out = {k: {"mean": torch.zeros(n), "std": torch.zeros(n), "hist": torch.zeros(n, 40)} for k in layers}
    def note(layer, _, y):
        with torch.no_grad():
            record = out[names[layer]]
            record["std"][i], record["mean"][i] = torch.std_mean(y)
            record["hist"][i] = torch.histogram(y.float(), 40, range=(0.0, 4.0)).hist
    handles = [layer.register_forward_hook(note) for layer in names]
    try:
        for i, batch in enumerate(batches):
            step(batch)
    finally:
        for h in handles:
            h.remove()
    return out
""",
]

WRONG = [
    Wrong(
        "puts the layers into a ModuleDict, in whose keys no dot may be",
        violates="under each key of the dict `layers`",
        check="raised",
        source=changed(RIGHT[0], ("for name in layers:", "for name in torch.nn.ModuleDict(layers):")),
    ),
]

SURVIVORS = {
    "eval() and back at the root": "it gets layers and no model",
    ".float() of the results": "any dtype of numbers will do",
    "almost: counts": "no value lies on an edge but 0, and below 0 there is no bin",
    "not for all: for name, outputs in _part(kept.items(), step=-1)": "the order of the keys is free",
}
