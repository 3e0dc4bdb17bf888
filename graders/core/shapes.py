"""Say what is wrong with the shape of a tensor, from the two shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shape = Sequence[int]


def explain_shape(expected: Shape, seen: Shape) -> str:
    """What makes such a shape of the expected one: a sentence or two, "" if nobody can tell."""
    if 0 in seen and 0 not in expected:
        return "It is empty: what should have filled it has not run, or has filled something else."
    if [size for size in seen if size != 1] == [size for size in expected if size != 1]:
        if len(seen) > len(expected):
            return (
                "There is a dimension of size 1 too many: leave out `keepdim=True`, or take it out with `squeeze(dim)`."
            )
        return "A dimension of size 1 is missing: an index, as in `t[0]`, or `squeeze` has taken it away."
    if sorted(seen) == sorted(expected):
        return "These are the right dimensions in another order: look at the `dim` of each call."
    if _is_part(seen, expected):
        return "A dimension is missing: it was added up or averaged, or you took one entry of it."
    if _is_part(expected, seen):
        return "There is a dimension too many: add up over it, or take the one entry that is asked for."
    if len(seen) != len(expected) and math.prod(seen) == math.prod(expected):
        return "The number of entries is right: `torch.stack` makes a new dimension, and `cat` and `flatten` do not."
    return ""


def _is_part(few: Shape, many: Shape) -> bool:
    """Whether `few` is `many` with some of its sizes left out."""
    rest = iter(many)
    return all(size in rest for size in few)
