"""What several exercises of lesson 7 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from graders.authoring import Kind, Seen, expect, refuse


def did_not_fail(seen: Seen, when: str) -> None:
    """Raise `Mismatch` when a scenario ended in an exception."""
    if isinstance(seen["error"].value, str):
        refuse(f"{when}, the pass failed: {seen['error'].value}", Kind.EXCEPTION)


def settings_stay(seen: Seen) -> None:
    """Raise `Mismatch` when `settings` has changed."""
    expect(seen["settings_kept"]).is_true(
        "your function left something changed: the mode or a flag (such as `inplace`) of a module, or the "
        "`requires_grad` of `x` or of a parameter"
    )
