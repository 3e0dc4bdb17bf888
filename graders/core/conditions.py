"""Conditions that the contracts of many exercises share, and the mistakes of those who miss them.

A probe counts hooks before and after, and tells what is left as a difference: 0, or fewer than 0 when hooks of the
caller are gone.
"""

from __future__ import annotations

from graders.core.exercise import Mistake
from graders.core.expect import Seen, expect


def no_hook_left(count: Seen) -> None:
    """As many hooks as before."""
    if type(count.value) is int and count.value < 0:
        expect(count).fail(f"{-count.value} of the hooks that were there before are gone")
    expect(count).equals(0)


def model_unchanged(seen: Seen) -> None:
    """Modes, parameters and their `.grad` are as before: "modes_kept", "parameters_kept" and "grads_kept" are true."""
    expect(seen["modes_kept"]).is_true("a module is not in the mode (training or eval) in which it was before")
    expect(seen["parameters_kept"]).is_true("a parameter of the model has changed")
    expect(seen["grads_kept"]).is_true("the `.grad` of a parameter of the model has changed")


HOOK_MISTAKES = (
    Mistake("hook-left-behind", lambda seen: seen["hooks_left"].value > 0),
    Mistake(
        "hook-left-after-exception",
        lambda seen: seen["hooks_left"].value == 0 and seen["hooks_left_after_exception"].value > 0,
    ),
)
"""For a probe that tells both counts."""
