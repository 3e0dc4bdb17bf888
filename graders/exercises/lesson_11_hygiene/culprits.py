"""Which weights are bad in the models of 11-first-nonfinite: it is drawn here, outside the box."""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

Weights = tuple[float, float]
CULPRITS = {
    "called several times": ("c", "b", "a"),
    "inside another": ("b", "a"),
    "the last to run": ("a",),
    "no layer": (),
}
"""The layers that make bad values, by what can be said of the first of them to run: layer c, then b, then a."""


def some_weights(rng: Rng, bad: str = "") -> Weights:
    """Two weights, one of which may make a bad value of this kind."""
    w = [rng.integer(3, 19) / 10 for _ in range(2)]
    if bad:
        w[rng.integer(0, 1)] = -rng.integer(3, 19) / 10 if bad == "nan" else 0.0
    return w[0], w[1]


def a_culprit(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the stories read: the weights of the layers a, b and c of three models, and of a layer that is one."""

    def model(culprit: str) -> tuple[Weights, ...]:
        return tuple(some_weights(rng, case["bad"] if layer in CULPRITS[culprit] else "") for layer in "abc")

    return {
        "first": model(case["culprit"]),
        "second": model(rng.choice([*CULPRITS])),
        "third": model("no layer"),
        "single": (some_weights(rng, case["bad"]),),
    }


PLANTED = Planted(axes={"culprit": tuple(CULPRITS)}, plant=a_culprit)
