"""A class of a hundred whose answers are known, marked from start to finish: the books have to say what is known."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from graders.core import course
from graders.core.text import format_points
from tests.make_class import SETUP, hand_in
from tests.notebooks import LESSON, LESSON_1

pytestmark = pytest.mark.slow

STUDENTS = 100
EXERCISES = course.lesson_exercises(LESSON)


def answers(rng: random.Random) -> dict[str, tuple[str, str | None, str]]:
    """For each exercise the status, the mistake and the source of an answer."""
    found: dict[str, tuple[str, str | None, str]] = {}
    for exercise in EXERCISES:
        kind = rng.choice(("right", "right", "wrong", "missing"))
        if kind == "right":
            found[exercise.key] = "passed", None, rng.choice(LESSON_1.right[exercise.key])
        elif kind == "wrong":
            mistake, source = rng.choice(sorted(LESSON_1.wrong[exercise.key].items()))
            found[exercise.key] = "wrong", mistake, source
        else:
            found[exercise.key] = "not-attempted", None, "later = 0"
    return found


def test_a_class_of_a_hundred_comes_out_as_it_was_made(tmp_path: Path) -> None:
    rng = random.Random(1)
    known = {f"student {number:03}": answers(rng) for number in range(STUDENTS)}
    for name, given in known.items():
        hand_in(tmp_path / "class" / name, LESSON, [SETUP, *(source for _, _, source in given.values())])
    run = subprocess.run(
        [sys.executable, "-m", "graders.cli", "grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    results = {
        submission["student"]: submission
        for submission in json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    }
    assert results.keys() == known.keys()
    for name, given in known.items():
        for exercise in results[name]["exercises"]:
            status, mistake, _ = given[exercise["key"]]
            # A mistake of which Python complains is raised and not wrong; it is recognised all the same.
            assert exercise["status"] in (status, "raised") if mistake else exercise["status"] == status, (
                name,
                exercise,
            )
            assert exercise["mistake"] == mistake, (name, exercise)
            assert (exercise["score"] == exercise["max_score"]) == (status == "passed")
    with (tmp_path / "out/gradebook.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["student"]: row[f"{LESSON} total"] for row in rows} == {
        name: format_points(submission["score"]) for name, submission in results.items()
    }
    assert len(list((tmp_path / "out/feedback").rglob("*.html"))) == STUDENTS
    page = (tmp_path / "out/class.html").read_text()
    assert all(name in page for name in known)
