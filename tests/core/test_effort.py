from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from graders.core import course
from graders.core.course_map import whole_course_hours
from graders.core.effort import course_hours, describe_effort
from tests.sample import SCALE_SUM, WRAP

ROOT = Path(__file__).parents[2]


def test_what_to_expect_of_an_exercise_is_said_in_a_few_words() -> None:
    assert describe_effort(SCALE_SUM) == "15 min · medium · core path"
    assert describe_effort(replace(SCALE_SUM, minutes=5, difficulty=1, core=False)) == "5 min · easy · go deeper"
    assert describe_effort(replace(SCALE_SUM, minutes=60, difficulty=3)) == "60 min · hard · core path"


def test_an_exercise_that_says_nothing_of_it_has_no_words() -> None:
    assert describe_effort(WRAP) == ""


def test_the_course_counts_its_core_path_apart() -> None:
    exercises = [replace(SCALE_SUM, minutes=600, core=False), *[replace(SCALE_SUM, minutes=300, core=True)] * 2]
    assert course_hours(1860, exercises) == "about 30 hours, or about 20 on the core path of 2 exercises"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_hours_that_are_written_are_those_of_the_data(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert re.findall(r"takes (about \d+ hours[^.]*)\.", text) == [whole_course_hours()]


def test_the_core_path_goes_through_every_lesson_and_is_short() -> None:
    core = [exercise.key for exercise in course.every_exercise() if exercise.core]
    assert 20 <= len(core) <= 35
    assert {"09-conv-maps", "09-plot-maps"} <= set(core)
    deeper = {"09-normalize-maps", "09-tile-maps", "09-top-channels", "10-pointing-game", "11-remove-all-hooks",
              "11-clean-copy", "13-diagnose"}  # fmt: skip
    assert deeper.isdisjoint(core)
