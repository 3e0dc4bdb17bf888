"""Explain that a dict has other keys than were asked for (names of modules, most of the time), or nothing at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from graders.core.difference import Difference
from graders.core.explanations import Explanation

_MISSING: Sequence[tuple[Callable[[str, str], object], str, str]] = (
    (
        lambda missing, there: re.match(r"'?<", there),
        "keyed-by-module",
        "Your keys are the modules themselves, and names are asked for. Give each hook the name of its module, as in "
        "`def hook(module, args, output, name=name):`.",
    ),
    (
        lambda missing, there: re.match(r"'[A-Z]\w*'", there) and not missing[:1].isupper(),
        "keyed-by-type",
        "Your keys are names of classes, which two modules may share. The name of a module is its path in the model, "
        "as `model.named_modules()` yields it.",
    ),
    (
        lambda missing, there: not missing,
        "without-the-model",
        'The model itself is missing. It counts as a module, too, and its name is `""`.',
    ),
    (
        lambda missing, there: "." in missing and f"'{missing.rpartition('.')[2]}'" in there,
        "half-a-name",
        "Your names are only the last parts of what was asked for. A module in a block is called `block.layer`, as "
        "`model.named_modules()` yields it.",
    ),
    (
        lambda missing, there: "." not in there and (not missing or ("." in missing and there)),
        "children-only",
        "Modules inside blocks are missing, as `{missing}` is: `children()` and `named_children()` yield one level, "
        "and `isinstance` knows some containers. `named_modules()` yields the modules of all levels.",
    ),
)
"""Whether it is so, by the key that is missing and those that are there, in words; an id and a message."""
NOTHING_RECORDED = Explanation(
    "nothing-recorded",
    "Nothing was recorded, and something should be. If a hook should have done it: it has not run (was it on another "
    "module, on a copy, or off again before the run or the pass?), or it writes to another object than you return.",
)
_BEGINS_ALIKE = Explanation(
    "names-that-begin-alike",
    "Your dict has a module whose name only begins like one that was asked for, as `layer10` begins like `layer1`. "
    "Compare whole names, or take `model.get_submodule(name)`.",
)


def explain_keys(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if in all these differences keys are missing, or too many are there, for one reason."""
    more = [re.match(r"the key '(.+?)' does not belong there; expected the keys \[(.*)\]", d.note) for d in differences]
    if all(note and _begins_alike(note[1], re.findall(r"'(.+?)'", note[2])) for note in more):
        return _BEGINS_ALIKE
    notes = [re.match(r"the key '(.*?)' is missing; there are \[(.*)\]", one.note) for one in differences]
    for holds, id, message in _MISSING:
        if all(note and holds(note[1], note[2]) for note in notes):
            return Explanation(id, message.format(missing=max((note[1] for note in notes if note), key=len)))
    nothing = [(one.expected, one.seen) for one in differences if not re.search(r"there are \[\]$", one.note)]
    found_none = all(re.match(r"[1-9]\d* entr", expected) and seen == "0" for expected, seen in nothing)
    return NOTHING_RECORDED if found_none else None


def _begins_alike(name: str, others: Sequence[str]) -> bool:
    """Whether a name begins like another one, and is not that of a module inside of it."""
    return any(name.startswith(other) and not name.startswith(f"{other}.") for other in others)
