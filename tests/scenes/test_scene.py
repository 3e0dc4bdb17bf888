"""What an exercise may choose of a family of scenes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graders.scenes.scene import Sections, family
from graders.wire.draws import Rng


@family(sections=("{made}", "{order}", "nothing else changes"), axes={"dtype": ("float32", "float64"), "rank": (0, 1)})
def makes(call: Callable[..., Any], rng: Rng, case: Any, seen: Sections) -> None:
    for number, section in enumerate(seen.values()):
        section["number"] = number


def test_a_section_for_which_a_word_is_missing_is_left_out() -> None:
    scene = makes(words={"made": "it is made"})
    assert scene.sections == ("it is made", "nothing else changes")
    assert scene.shown(print, "print", 0, {}) == {"it is made": {"number": 0}, "nothing else changes": {"number": 2}}
    assert makes(words={"made": "it is made", "order": "in order"}).sections[1] == "in order"


def test_an_exercise_has_other_values_of_an_axis_does_without_or_has_one_of_its_own() -> None:
    scene = makes(words={}, only={"dtype": ("float64",), "rank": (), "start": (1, 2)})
    assert scene.axes == {"dtype": ("float64",), "start": (1, 2)}
