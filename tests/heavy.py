"""An exercise whose check takes as much time or memory as the answer says: a defect that nobody has found yet."""

from __future__ import annotations

from pathlib import Path

from graders.core.exercise import Check, Inputs, Mistake
from graders.core.expect import Seen
from tests.plain import PlainExercise


def it_ends(seen: Seen, draw: Inputs) -> None:
    kept = [b""]
    while seen.value[0] == "time":
        pass
    while seen.value[0] == "memory":
        kept.append(b"x" * (64 << 20))
    if seen.value[0] == "raise":
        raise TypeError("what is this?")


HEAVY = PlainExercise(
    key="90-heavy",
    name="heavy",
    points=1,
    title="Heavy",
    hints=("One.", "Two."),
    contract="Write `heavy()`.\n\n**Example.** It returns a list.",
    cases=({},),
    draw=lambda rng: {"number": rng.integer(1, 3)},
    source="def probe(student, number):\n    return student.heavy()",
    checks=(Check("test_it_ends", it_ends),),
    mistakes=(Mistake("none", "Nothing."),),
    file=Path(__file__),
    module=__name__,
    class_name="HEAVY",
)
