"""Explain that something is not of the type that was asked for, and what usually stands there instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graders.core.difference import Difference, Kind
from graders.core.explanations import Explanation

_USUAL_REASONS = (
    (
        r"\bis a RemovableHandle",
        "`register_...` returns a handle; the gradient, or the output, is an argument of your hook.",
    ),
    (
        r"\bis a tuple\b.*expected is (a tensor|the number)",
        "`torch.autograd.grad` returns one, even for one tensor: `[0]`. So do `max(dim)` and `min(dim)`: `.values`.",
    ),
    (r"\bis a tuple\b.*expected is a dict", "`return a, b` makes a tuple: return the dict alone."),
    (r"\bis a tuple\b.*expected is a list", "`list(t)` makes a list of it, and `return a, b` makes a tuple."),
    (r"\bis a list\b.*expected is a tuple", "`tuple(found)` makes a tuple of it."),
    (r"\bis a dict\b.*expected is a list", "`list(d.values())` makes a list of the values."),
    (r"\bis a tensor\b.*expected is the number", "`.item()` makes a Python number of it."),
    (
        r"\bis (the number|a float|an int)\b.*expected is a tensor",
        "Keep the tensor: no `.item()`.",
    ),
    (
        r"\bis a list\b.*expected is a tensor",
        "Take the tensor out of it, or make one of all with `torch.stack`; `.tolist()` makes a list of a tensor.",
    ),
)
"""What is found in the sentence, and what helps then."""
_NONE = (
    "{where} is `None`, and expected is a tensor. If it is a `.grad`: a pass fills those of leaves, and of other "
    "tensors if `retain_grad()` was called on them before; a copy has a `.grad` of its own; and what was set to `None` "
    "is gone. If a hook should have put something there: it has not run."
)


def explain_wrong_type(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if all these differences are that something has another type; None if some are others."""
    if not differences or any(one.kind is not Kind.TYPE for one in differences):
        return None
    first = differences[0]
    if first.expected.startswith("'") and not first.where.startswith("the result"):
        return None  # a word of the story, such as "backward", stands for what happened
    sentence = f"{first.where} is {first.seen}, and expected is {first.expected}."
    reasons = [f" {reason}" for pattern, reason in _USUAL_REASONS if re.search(pattern, sentence)]
    message = f"This is not the type that was asked for: {sentence}{''.join(reasons[:1])}"
    return Explanation("another-type", message)


def explain_none(differences: Sequence[Difference]) -> Explanation | None:
    """The explanation if all these differences are that an entry is `None` in place of a tensor; or None."""
    if not all(one.seen == "None" and one.expected == "a tensor" and "[" in one.where for one in differences):
        return None
    where = differences[0].where
    return Explanation("none-for-a-result", _NONE.format(where=where[:1].upper() + where[1:]))
