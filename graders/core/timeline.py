"""Timelines: lists of events, and the first place where two of them part."""

from __future__ import annotations

from collections.abc import Sequence


def first_divergence(expected: Sequence[str], seen: Sequence[str]) -> int | None:
    """The index of the first event that differs, or None when the two lists are equal."""
    for index, (left, right) in enumerate(zip(expected, seen)):
        if left != right:
            return index
    return None if len(expected) == len(seen) else min(len(expected), len(seen))


def side_by_side(expected: Sequence[str], seen: Sequence[str], context: int = 4) -> str:
    """Both timelines in aligned columns, with an arrow at the first divergence.

    At most `context` events before and after the divergence are shown.
    """
    split = first_divergence(expected, seen)
    longest = max(len(expected), len(seen))
    start, stop = (0, longest) if split is None else (max(0, split - context), split + context + 1)
    rows = [("", "expected", "seen")]
    if start > 0:
        rows.append(("", f"({start} equal)", ""))
    for index in range(start, min(stop, longest)):
        left = expected[index] if index < len(expected) else "(end)"
        right = seen[index] if index < len(seen) else "(end)"
        rows.append(("→" if index == split else "", left, right))
    if stop < longest:
        rows.append(("", f"({longest - stop} more)", ""))
    width = max(len(row[1]) for row in rows)
    return "\n".join(f"{mark:1} {left:<{width}}  {right}".rstrip() for mark, left, right in rows)
