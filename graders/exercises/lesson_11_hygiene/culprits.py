"""Which layers of a model are bad in 11-first-nonfinite. The learner's process gets numbers, and never learns which."""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

CULPRITS = {
    "called several times": ("c", "b", "a"),
    "inside another": ("b", "a"),
    "the last to run": ("a",),
    "no layer": (),
}
"""Which of the layers make bad values. Layer c runs first, then b, then a; the first bad one is the one to name."""


def a_limit(rng: Rng, is_bad: bool) -> float:
    """A limit that the first number of the input is below, or that none is below."""
    return rng.choice((0.6, 0.7)) if is_bad else -rng.integer(3, 19) / 10


def a_culprit(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the stories read: the limits of the layers c, b and a of four models, and of a layer that is one."""

    def model(culprit: str) -> tuple[float, ...]:
        return tuple(a_limit(rng, layer in CULPRITS[culprit]) for layer in "cba")

    return {
        "first": model(case["culprit"]),
        "second": model(rng.choice([*CULPRITS])),
        "third": model(rng.choice([*CULPRITS])),
        "sound": model("no layer"),
        "single": a_limit(rng, rng.choice((True, False))),
    }


PLANTED = Planted(axes={"culprit": tuple(CULPRITS)}, plant=a_culprit)
