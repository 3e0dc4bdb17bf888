"""An exercise whose check takes as much time or memory as the answer says: a defect that nobody has found yet."""

from __future__ import annotations

from graders.core.exercise import Mistake, exercise


@exercise("90-heavy", points=1, title="Heavy", hints=("One.", "Two."), cases=({},))
class TestHeavy:
    """Write `heavy()`.

    **Example.** It returns a list.
    """

    def draw(rng):
        return {"number": rng.integer(1, 3)}

    def probe(student, number):
        return student.heavy()

    mistakes = (Mistake("none", lambda seen: seen.value is None, "Nothing."),)

    def test_it_ends(seen, number):
        kept = [b""]
        while seen.value[0] == "time":
            pass
        while seen.value[0] == "memory":
            kept.append(b"x" * (64 << 20))
        if seen.value[0] == "raise":
            raise TypeError("what is this?")
