"""Which of the files of a student counts, and what is late."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.instructor.grading.classes import TEAMS, each, grade, hand_in, results
from tests.notebooks import KEYS, LESSON


def test_a_group_has_the_latest_deadline_of_its_members() -> None:
    hand_in("team_1", 4, f"{LESSON}-2.ipynb"), hand_in("team_1", 1, f"{LESSON}-1.ipynb", wrong=KEYS)
    Path("roster.csv").write_text("Name,Deadline\nAda Lovelace,2026-01-05\nAlan Turing,\n")
    Path("teams.csv").write_text(TEAMS)
    grade("--deadline", "2026-01-02", "--late", "zero", "--roster", "roster.csv", "--groups", "teams.csv")
    assert each("score") == {"Ada Lovelace": 4, "Alan Turing": 4}


def test_the_last_file_before_the_deadline_counts_and_all_are_kept() -> None:
    first, second, third = (hand_in("ann", day, f"{LESSON}-{day}.ipynb", cell=str(day)) for day in (1, 2, 4))
    hand_in("bob", 3)
    grade("--deadline", "2026-01-02", "--late", "10%/day")
    ann, bob = results()["ann"], results()["bob"]
    assert ann["file"].endswith("-2.ipynb")
    assert sorted(ann["superseded"]) == [str(first), str(third)]
    assert (ann["score"], ann["penalty"]) == (4, 0)
    assert (bob["score"], bob["penalty"]) == (3.6, 0.4)
    assert second.exists()


def test_when_all_are_late_the_last_one_counts() -> None:
    hand_in("ann", 5, f"{LESSON}-1.ipynb"), hand_in("ann", 4, f"{LESSON}-2.ipynb")
    grade("--deadline", "2026-01-02", "--late", "10%/day at most 20%")
    assert results()["ann"]["file"].endswith("-1.ipynb")
    assert results()["ann"]["penalty"] == 0.8


def test_days_are_counted_by_the_calendar_in_the_zone_of_the_deadline() -> None:
    zone = ZoneInfo("America/New_York")  # where summer time ends that night
    for student, clock in (("ann", "2026-11-01T19:30"), ("bob", "2026-11-01T20:00:01"), ("eve", "2026-10-31T20:00")):
        moment = datetime.fromisoformat(clock).replace(tzinfo=zone).timestamp() + 0.5
        os.utime(hand_in(student), (moment, moment))
    grade("--deadline", "2026-10-31T20:00 America/New_York", "--late", "10%/day")
    assert each("penalty") == {"ann": 0.4, "bob": 0.8, "eve": 0}
    said = "Handed in at 2026-11-01 20:00:01 EST; the deadline was 2026-10-31 20:00:00 EDT."
    assert said in Path(f"out/feedback/bob/{LESSON}.html").read_text()


def test_somebody_may_have_a_deadline_of_their_own() -> None:
    hand_in("ann", 4), hand_in("bob", 4)
    Path("roster.csv").write_text("Name,Deadline\nann,2026-01-05\nbob,\n")
    grade("--deadline", "2026-01-02", "--late", "zero", "--roster", "roster.csv")
    assert each("score") == {"ann": 4, "bob": 0}


@pytest.mark.parametrize("deadline", [(), ("--deadline", "2026-01-02")])
def test_canvas_alone_says_who_is_late_whatever_the_times_of_its_files(deadline: Sequence[str]) -> None:
    for day, name in ((1, f"ann_LATE_12345_67890_{LESSON}.ipynb"), (9, f"bob_12346_67891_{LESSON}.ipynb")):
        hand_in("", day, name)
    grade(*deadline, "--late", "10%/day")
    assert each("penalty") == {"ann": 0.4, "bob": 0}
    assert each("handed_in") == {"ann": "", "bob": ""}
    assert results()["ann"]["student_id"] == "12345"


def test_a_student_cannot_call_a_file_as_canvas_does() -> None:
    hand_in("ann", 9, f"ann_12345_67890_{LESSON}.ipynb"), hand_in("bob", 1)
    grade("--deadline", "2026-01-02", "--late", "zero")
    assert each("score") == {"ann": 0, "bob": 4}
