"""Answers to 09-normalize-maps."""

from graders.author.answers import Wrong, changed

RIGHT = [
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
]

WRONG = [
    Wrong(
        "a span that is small beside the values counts as 0",
        violates="the smallest value becomes 0, the largest 1",
        check="test_nearly_equal_values_go_from_0_to_1",
        source="""
def normalize_maps(fm):
    maps = fm.detach().double()
    low, large = maps.amin((1, 2), keepdim=True), maps.abs().amax((1, 2), keepdim=True)
    span = maps.amax((1, 2), keepdim=True) - low
    span[span <= 1e-6 * large] = 1
    return ((maps - low) / span).float().numpy()
""",
    ),
    Wrong(
        "one range for all channels",
        violates="with the minimum and the maximum of that channel",
        check="test_every_channel_goes_from_0_to_1",
        mistake="one-range-for-all",
        source="""
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min()) / (a.max() - a.min())
""",
    ),
    Wrong(
        "minimum and maximum over the channels",
        violates="with the minimum and the maximum of that channel",
        check="test_every_channel_goes_from_0_to_1",
        mistake="reduced-over-channels",
        source="""
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    return (a - a.min(axis=0)) / (a.max(axis=0) - a.min(axis=0))
""",
    ),
    Wrong(
        "no `detach`",
        violates="It may require grad.",
        check="raised",
        mistake="not-detached",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.float().numpy()
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
    ),
    Wrong(
        "`.numpy()` of bfloat16",
        violates="of any floating dtype",
        check="raised",
        mistake="no-float-cast",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().numpy().astype(np.float32)
    low = a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True) - low
    return (a - low) / np.where(span == 0, 1, span)
""",
    ),
    Wrong(
        "computes in half precision",
        violates="Compute in float32 or better",
        check="test_every_channel_goes_from_0_to_1",
        mistake="cast-too-late",
        source="""
import torch

def normalize_maps(fm):
    a = fm.detach()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    span = torch.where(high > low, high - low, torch.ones_like(high))
    return ((a - low) / span).float().numpy()
""",
    ),
    Wrong(
        "0 / 0 for a constant channel",
        violates="A channel with only one value becomes 0 everywhere.",
        check="test_a_constant_channel_becomes_0",
        mistake="nan-on-constant",
        source="""
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low)
""",
    ),
    Wrong(
        "a small number added to the span",
        violates="the largest 1",
        check="test_every_channel_goes_from_0_to_1",
        mistake="epsilon-in-the-span",
        source="""
def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / (high - low + 1e-8)
""",
    ),
    Wrong(
        "subtracts in place",
        violates="rule 2: Tensors keep their values",
        check="test_the_tensor_passed_in_is_unchanged",
        mistake="changed-callers-tensor",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    a -= a.min(axis=(1, 2), keepdims=True)
    span = a.max(axis=(1, 2), keepdims=True)
    a /= np.where(span == 0, 1, span)
    return a
""",
    ),
    Wrong(
        "the values as they are",
        violates="the smallest value becomes 0",
        check="test_every_channel_goes_from_0_to_1",
        source="""
def normalize_maps(fm):
    return fm.detach().float().numpy()
""",
    ),
    Wrong(
        "what `isclose` takes for one value becomes 0",
        violates="A channel with only one value",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(np.isclose(low, high), 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
    ),
    Wrong(
        "a tensor",
        violates="Return a numpy array",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import torch

def normalize_maps(fm):
    a = fm.detach().float()
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    return torch.nan_to_num((a - low) / (high - low))
""",
    ),
    Wrong(
        "float64",
        violates="of dtype float32",
        check="test_every_channel_goes_from_0_to_1",
        mistake="not-float32",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().double().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
    ),
    Wrong(
        "each row by itself",
        violates="with the minimum and the maximum of that channel",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=2, keepdims=True), a.max(axis=2, keepdims=True)
    return np.nan_to_num((a - low) / (high - low))
""",
    ),
    Wrong(
        "divides by the largest absolute value",
        violates="the smallest value becomes 0",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    span = np.abs(a).max(axis=(1, 2), keepdims=True)
    return a / np.where(span == 0, 1, span)
""",
    ),
    Wrong(
        "spans below a limit count as 0",
        violates="A channel with only one value",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    span = high - low
    return np.where(span < 1e-4, 0, (a - low) / np.where(span == 0, 1, span)).astype(np.float32)
""",
    ),
    Wrong(
        "squeezes a single row away",
        violates="of the same shape",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

def normalize_maps(fm):
    v = fm.detach().float().squeeze().numpy()
    axes = tuple(range(1, v.ndim))
    low = v.min(axes, keepdims=True)
    span = v.max(axes, keepdims=True) - low
    return (v - low) / np.where(span == 0, 1, span)
""",
    ),
    Wrong(
        "only for a contiguous tensor",
        violates="rule 1: in any layout",
        check="raised",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float()
    flat = a.view(len(a), -1)
    low, high = flat.amin(1)[:, None, None], flat.amax(1)[:, None, None]
    span = high - low
    span[span == 0] = 1
    return ((a - low) / span).numpy()
""",
    ),
    Wrong(
        "hands the memory of the caller on",
        violates="shares no memory with `fm`",
        check="test_the_array_has_its_own_memory",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    if (low == 0).all() and (high == 1).all():
        return a
    return (a - low) / np.where(high == low, 1, high - low)
""",
    ),
    Wrong(
        "one channel loses its dimension",
        violates="of the same shape",
        check="test_one_channel_one_pixel_and_the_example_come_out",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    a = (a - low) / np.where(high == low, 1, high - low)
    return a[0] if len(a) == 1 else a
""",
    ),
    Wrong(
        "a constant channel other than 0 becomes 1",
        violates="A channel with only one value becomes 0 everywhere.",
        check="test_a_constant_channel_becomes_0",
        source="""
import numpy as np

def normalize_maps(fm):
    a = fm.detach().float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return np.where(high == low, np.sign(a), (a - low) / np.where(high == low, 1, high - low)).astype(np.float32)
""",
    ),
    Wrong(
        "switches `requires_grad` off",
        violates="rule 2: their `requires_grad`",
        check="test_the_tensor_passed_in_is_unchanged",
        source="""
import numpy as np

def normalize_maps(fm):
    a = (fm.requires_grad_(False) if fm.is_leaf else fm.detach()).float().numpy()
    low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
    return (a - low) / np.where(high == low, 1, high - low)
""",
    ),
]

WRONG += [
    Wrong(
        "spans below 1e-8 count as 0",
        violates="`max - min` may be as small as 1e-30",
        check="test_every_channel_goes_from_0_to_1",
        mistake="taken-for-constant",
        source=changed(RIGHT[1], ("span == 0, 1, span", "span < 1e-8, 1e30, span")),
    ),
    Wrong(
        "divides before it subtracts",
        violates="`(v - min) / (max - min)`",
        check="test_nearly_equal_values_go_from_0_to_1",
        source=changed(
            RIGHT[1],
            (
                "(a - low) / np.where(span == 0, 1, span)",
                "a / np.where(span == 0, 1, span) - low / np.where(span == 0, 1, span)",
            ),
        ),
    ),
    Wrong(
        "a channel is constant where its mean is its maximum",
        violates="A channel with only one value becomes 0 everywhere.",
        check="test_a_constant_channel_becomes_0",
        source="""
def normalize_maps(fm):
    v = fm.detach().double()
    low, high, mean = v.amin((1, 2), keepdim=True), v.amax((1, 2), keepdim=True), v.mean((1, 2), keepdim=True)
    return ((v - low) / (high - low)).where(mean != high, 0.0).float().numpy()
""",
    ),
    Wrong(
        "hands out the memory of a map that is scaled already",
        violates="shares no memory with `fm`",
        check="test_the_array_has_its_own_memory",
        mistake="shared-memory",
        source=changed(
            RIGHT[1],
            (
                "    span =",
                "    if (low == 0).all() and (a.max(axis=(1, 2)) == 1).all():\n        return a\n    span =",
            ),
        ),
    ),
    Wrong(
        "remembers arrays by their shape",
        violates="rule 1: It works however often it is called",
        check="test_every_channel_goes_from_0_to_1",
        source="""
import numpy as np

known = {}

def normalize_maps(fm):
    key = fm.shape, fm.dtype
    if key not in known:
        a = fm.detach().float().numpy()
        low, high = a.min(axis=(1, 2), keepdims=True), a.max(axis=(1, 2), keepdims=True)
        known[key] = (a - low) / np.where(high == low, 1, high - low)
    return known[key]
""",
    ),
]

GIVENS = [
    "Write `normalize_maps(fm)`.",
]

SURVIVORS = {
    ".float() of the arguments": "computed in float32 or better: what float32 cannot tell apart does not come",
    "at least one dimension": "maps have three",
    "under no_grad": "the array has no graph",
    "almost: return (": "what it divides is 0",
    "almost: flat = a.reshape(len(a), -2)": "numpy takes any negative number",
    "lost copy: a = np.array(_not_detached(fm)": "a list of numbers has no graph",
}
