"""Conditions that hold in many exercises: what a `Witness` told, and what became of a `Failure`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from graders.core.difference import Kind
from graders.core.expect import Seen, expect, raise_mismatch

CHANGE_SENTENCES = {
    "values": "the values of `{place}` changed",
    "buffer": "the buffer `{place}` changed",
    "requires-grad": "`{place}.requires_grad` has changed",
    "retains-grad": "`retain_grad()` was called on `{place}`, which belongs to the caller",
    "grad-filled": "`{place}.grad` was `None` before and holds something now",
    "grad-emptied": "`{place}.grad` held a gradient before and is `None` now",
    "grad-replaced": "`{place}.grad` is a different tensor from before",
    "grad-changed": "the values of `{place}.grad` changed",
    "mode": "the mode (training or eval) of `{place}` has changed",
    "class": "the class of `{place}` has changed",
    "forward": "`{place}.forward` is a different function from before",
    "parameters": "the parameters of `{place}` are different objects from before",
    "buffers": "the buffers of `{place}` are different objects from before",
    "modules": "the submodules of `{place}` are different objects from before",
    "attribute": "a flag or function of `{place}` is not the same as before",
    "attribute-left": "something of yours is left on `{place}`: it has an attribute that it did not have before",
    "entries": "`{place}` belongs to the caller, and its entries have changed",
    "hook-removed": "one of the caller's hooks on `{place}` was removed",
    "hook-order": "the caller's hooks on `{place}` are in a different order",
    "hook-options": "the caller's hooks on `{place}` do not have the same options as before",
    "hook-dict": (
        "`{place}` keeps its hooks in a different dict from before, which none of the caller's handles knows about"
    ),
    "hook-left": "one of your hooks is left on `{place}`",
    "autograd-mode": "autograd was on before and is off now, or the other way round",
    "default-dtype": "the default dtype has changed",
    "anomaly-mode": "the setting of anomaly detection has changed",
    "saved-tensor-hooks": "hooks on saved tensors are active now and were not before, or the other way round",
    "module-call": "`nn.Module.__call__` is a different function from before",
}
"""A sentence for each kind of change that a `Witness` reports. `{place}` is a name such as `model.block.0`."""

_KIND_BY_CHANGE = {
    "hook-removed": Kind.HOOK_GONE,
    "hook-order": Kind.HOOK_GONE,
    "hook-options": Kind.HOOK_GONE,
    "hook-dict": Kind.HOOK_GONE,
    "hook-left": Kind.HOOK_LEFT,
}
"""All others are `Kind.CHANGED`."""


def unwanted_changes(changed: Seen, but: Iterable[str] = ()) -> list[tuple[Kind, str]]:
    """What changed and should not have, in sentences."""
    if type(changed.value) is not list or len(told := _reported_changes(changed)) != len(changed.value):
        expect(changed).fail("the witness told nothing")
    found = []
    for what, place in told:
        if not any(fnmatchcase(f"{what} {place}", pattern) for pattern in but):
            sentence = CHANGE_SENTENCES[what].format(place=place)
            found.append((_KIND_BY_CHANGE.get(what, Kind.CHANGED), sentence.replace("on `torch`", "for all modules")))
    return found


def _reported_changes(changed: Seen) -> list[list[str]]:
    """The changes of known kinds. The numbers come out of the box, where anybody could have written them."""
    entries = changed.value if type(changed.value) is list else []
    return [
        entry
        for entry in entries
        if type(entry) is list
        and len(entry) == 2
        and all(type(text) is str for text in entry)
        and entry[0] in CHANGE_SENTENCES
    ]


def check_exception_passed_on(what: Seen, raised_by: str) -> None:
    """The exception of a `Failure` reached the caller. `raised_by` is "the model", "a loss", or the like."""
    if what.value == "swallowed":
        raise_mismatch(f"{raised_by} raised an exception, but your function did not pass it on", Kind.SWALLOWED)
    if what.value == "never raised":
        raise_mismatch(
            f"{raised_by} was meant to raise an exception, but your function never got that far", Kind.EXCEPTION
        )
    if what.value != "came through":
        raise_mismatch(
            f"{raised_by} raised an exception, but a different one came out of your function: {what.value}",
            Kind.EXCEPTION,
        )
