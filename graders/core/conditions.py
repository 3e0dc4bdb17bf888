"""Check conditions that many exercises share: what a `Witness` saw change, whether a `Failure` reached the caller."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from graders.core.difference import Kind
from graders.core.expect import Seen, expect, raise_mismatch

CHANGE_SENTENCES = {
    "values": "the values of `{place}` changed",
    "buffer": "the buffer `{place}` changed",
    "requires-grad": "`{place}.requires_grad` is not what it was before",
    "retains-grad": "`retain_grad()` was called on `{place}`, which belongs to the caller",
    "grad-filled": "`{place}.grad` was `None` before and holds something now",
    "grad-emptied": "`{place}.grad` held a gradient before and is `None` now",
    "grad-replaced": "`{place}.grad` is a different tensor than before",
    "grad-changed": "the values of `{place}.grad` changed",
    "mode": "the mode (training or eval) of `{place}` is not what it was before",
    "class": "`{place}` has a different class than before",
    "forward": "`{place}.forward` is a different function than before",
    "parameters": "the parameters of `{place}` are different objects than before",
    "buffers": "the buffers of `{place}` are different objects than before",
    "modules": "the submodules of `{place}` are different objects than before",
    "attribute": "a flag or function of `{place}` is different than before",
    "attribute-left": "something of yours is left on `{place}`: an attribute that was not there before",
    "entries": "`{place}` belongs to the caller, and its entries are not what they were before",
    "hook-removed": "a hook of the caller on `{place}` was removed",
    "hook-order": "the hooks of the caller on `{place}` are in a different order",
    "hook-options": "the hooks of the caller on `{place}` have different options than before",
    "hook-dict": "`{place}` keeps its hooks in a different dict than before, which none of the caller's handles knows",
    "hook-left": "a hook of yours is left on `{place}`",
    "autograd-mode": "autograd is not switched on or off as it was before",
    "default-dtype": "the default dtype is not what it was before",
    "anomaly-mode": "anomaly detection is not switched on or off as it was before",
    "saved-tensor-hooks": "hooks on saved tensors are active now and were not before, or the other way round",
    "module-call": "`nn.Module.__call__` is a different function than before",
}
"""A sentence for each kind of change that a `Witness` reports. `{place}` is a name such as `model.block.0`."""

_KIND_BY_CHANGE = {
    "hook-removed": Kind.HOOK_GONE,
    "hook-order": Kind.HOOK_GONE,
    "hook-options": Kind.HOOK_GONE,
    "hook-dict": Kind.HOOK_GONE,
    "hook-left": Kind.HOOK_LEFT,
}
"""The kinds of difference for some changes; any other change is `Kind.CHANGED`."""


def unwanted_changes(changed: Seen, but: Iterable[str] = ()) -> list[tuple[Kind, str]]:
    """The changes that a `Witness` reported, in sentences, except those that match a pattern in `but`.

    Patterns, as for `fnmatch`, match a change and its place, as in "grad-filled model.0.weight". Raises `Mismatch`.
    """
    if type(changed.value) is not list or len(reported := _reported_changes(changed)) != len(changed.value):
        expect(changed).fail("the witness told nothing")
    found = []
    for what, place in reported:
        if not any(fnmatchcase(f"{what} {place}", pattern) for pattern in but):
            sentence = CHANGE_SENTENCES[what].format(place=place)
            found.append((_KIND_BY_CHANGE.get(what, Kind.CHANGED), sentence.replace("on `torch`", "for all modules")))
    return found


def _reported_changes(changed: Seen) -> list[list[str]]:
    """The changes of known kinds. The list comes from the box, so the learner's code could have written anything."""
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
    """Raise `Mismatch` unless the exception of a `Failure` reached the caller; `raised_by` is "the model" or such."""
    if what.value == "swallowed":
        raise_mismatch(f"{raised_by} raised an exception, and your function did not pass it on", Kind.SWALLOWED)
    if what.value == "never raised":
        raise_mismatch(
            f"{raised_by} was meant to raise an exception, but your function never got there", Kind.EXCEPTION
        )
    if what.value != "came through":
        raise_mismatch(
            f"{raised_by} raised an exception, and a different one came out of your function: {what.value}",
            Kind.EXCEPTION,
        )
