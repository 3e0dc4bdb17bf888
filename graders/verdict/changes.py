"""What a `Watch` reports, in sentences."""

from __future__ import annotations

from graders.core.difference import Kind
from graders.wire.data import Changes

CHANGE_SENTENCES = {
    "values": "the values of `{place}` have changed",
    "buffer": "the buffer `{place}` has changed (of some buffers, `state_dict()` has no copy)",
    "requires-grad": "`{place}.requires_grad` has changed",
    "retains-grad": "`retain_grad()` has been called on `{place}`, which is the caller's, and it cannot be undone",
    "grad-filled": "`{place}.grad` holds something, and was `None` before",
    "grad-emptied": "`{place}.grad` is `None`, and held a gradient before",
    "grad-replaced": "`{place}.grad` is a different tensor from before",
    "grad-changed": "the values of `{place}.grad` have changed (a backward pass adds to them in place)",
    "mode": "the mode (training or eval) of `{place}` has changed",
    "class": "the class of `{place}` has changed",
    "forward": "`{place}.forward` is a different function from before",
    "parameters": "the parameters of `{place}` are not the ones it had before: some are new, gone or replaced",
    "buffers": "the buffers of `{place}` are not the ones it had before: some are new, gone or replaced",
    "modules": "the submodules of `{place}` are not the ones it had before: some are new, gone or replaced",
    "attribute": "a flag or function of `{place}` is not the same as before",
    "attribute-left": "something of yours is left on `{place}`: it has an attribute that it did not have before",
    "entries": "`{place}` belongs to the caller, and its entries have changed",
    "hook-removed": "one of the caller's hooks on `{place}` is gone",
    "hook-order": "the caller's hooks on `{place}` are in a different order",
    "hook-options": "the caller's hooks on `{place}` do not have the same options as before",
    "hook-dict": (
        "`{place}` keeps its hooks in a different dict from before, which none of the caller's handles knows about"
    ),
    "hook-left": "one of your hooks is still registered on `{place}`",
    "autograd-mode": "autograd is not switched on or off as it was before",
    "default-dtype": "the default dtype has changed",
    "anomaly-mode": "the setting of anomaly detection has changed",
    "saved-tensor-hooks": "hooks on saved tensors are active now and were not before, or the other way round",
    "module-call": "`nn.Module.__call__` is a different function from before",
}
"""A sentence for each kind of change that a `Watch` reports. `{place}` is a name such as `model.block.0`."""

_KIND_BY_CHANGE = {
    "hook-removed": Kind.HOOK_GONE,
    "hook-order": Kind.HOOK_GONE,
    "hook-options": Kind.HOOK_GONE,
    "hook-dict": Kind.HOOK_GONE,
    "hook-left": Kind.HOOK_LEFT,
}
"""All others are `Kind.CHANGED`."""


def unwanted_changes(seen: Changes, wanted: Changes) -> list[tuple[Kind, str]]:
    """What changed and should not have, in sentences: changing less than the reference is right as well.

    Raises `ValueError` for a kind that no watch has: what was seen comes out of the box, where anybody could have
    written it.
    """
    if strange := [kind for kind, _ in seen.found if kind not in CHANGE_SENTENCES]:
        raise ValueError(f"no watch reports {strange[0]}")
    return [
        (_KIND_BY_CHANGE.get(kind, Kind.CHANGED), _in_words(kind, place))
        for kind, place in seen.found
        if (kind, place) not in wanted.found
    ]


def _in_words(kind: str, place: str) -> str:
    return CHANGE_SENTENCES[kind].format(place=place).replace("on `torch`", "for all modules")
