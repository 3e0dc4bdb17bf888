from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graders.core.exercise import exercises_in_module
from graders.core.mistakes import COMMON_MESSAGES
from tests import sample
from tests.sample import SCALE_SUM


def test_a_check_reads_as_a_sentence() -> None:
    assert [check.sentence for check in SCALE_SUM.checks][2] == "no hook is left"


def test_the_lesson_is_that_of_the_graders_folder() -> None:
    moved = replace(SCALE_SUM, file=Path("graders/exercises/lesson_90_small/test_scale_sum.py"))
    assert moved.lesson == "90_small"


def test_the_rules_hold_from_the_first_lesson_on() -> None:
    assert SCALE_SUM.follows_rules
    assert not replace(SCALE_SUM, key="00-first").follows_rules


def test_exercises_of_a_module_come_in_its_order() -> None:
    assert [exercise.key for exercise in exercises_in_module(sample)] == ["90-scale-sum", "90-wrap"]


def test_every_common_message_fits_into_a_report() -> None:
    assert [name for name, message in COMMON_MESSAGES.items() if len(message) > 300] == []
